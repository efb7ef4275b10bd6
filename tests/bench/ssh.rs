//! `ssh`: a warm remote `true` through the gateway, beside `ssh` with a ControlMaster and a bare libssh2 session.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::cancel::CancelToken;
use tidegate::config::Config;
use tidegate::executor::{CallCtx, Executors, Handed, Hands};
use tidegate::gateway::pipeline::judge;
use tidegate::mcp::call::Step;
use tidegate::mcp::listing::ToolListing;
use tidegate::mcp::session::Session;
use tidegate::outcome::artifact::Store;
use tidegate::outcome::budget::Sinks;
use tidegate::policy::rules::Toolbox;
use tidegate::rpc::message::{Message, parse};
use tidegate::secret::{Redactor, Secret};

use super::gateway::{Gateway, META, show, timed};

const RUNS: usize = 100;

struct Sshd {
    folder: PathBuf,
    child: Child,
    port: u16,
}

impl Sshd {
    fn start() -> Sshd {
        let folder = std::env::temp_dir().join(format!("tidegate-bench-sshd-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen").args(["-q", "-N", "", "-t", "ed25519", "-f"]).arg(folder.join(key)).status();
            assert!(made.expect("ssh-keygen is there: make deps").success());
        }
        let _ = fs::create_dir("/run/sshd");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = folder.join("sshd_config");
        let text = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host\nAuthorizedKeysFile {0}/user.pub\nPidFile none\nUsePAM no\n\
             StrictModes no\nSetEnv HOME={0}\nPermitRootLogin yes\n",
            folder.display()
        );
        fs::write(&config, text).unwrap();
        let public = fs::read_to_string(folder.join("host.pub")).unwrap();
        fs::write(folder.join("known_hosts"), format!("[127.0.0.1]:{port} {public}")).unwrap();
        let mut command = Command::new("/usr/sbin/sshd");
        command.args(["-D", "-f"]).arg(&config).stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("sshd is there: make deps");
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Sshd { folder, child, port }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn user() -> String {
    String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap().trim().to_owned()
}

fn members(sshd: &Sshd, tie: &str) -> String {
    format!(
        r#""credentials": {{"key": {{"from": {{"file": "{}"}}}}}},
        "hosts": {{"here": {{"address": "127.0.0.1", "port": {}, "user": "{}", "auth": {{"key": "key"}}, "known_hosts": "{}",
                           "tie": "{tie}"}}}},
        "tools": [{{"name": "true", "description": "Does nothing there", "ssh": {{"host": "here", "argv": ["true"]}}}}]"#,
        sshd.file("user").display(),
        sshd.port,
        user(),
        sshd.file("known_hosts").display()
    )
}

/// The executor alone: what is granted is carried out, without pipe and journal.
struct Executor {
    tools: Toolbox,
    session: Session,
    hands: Hands,
    handed: Handed,
}

impl Executor {
    fn new(sshd: &Sshd, tie: &str) -> Executor {
        let text = format!("{{{}}}", members(sshd, tie));
        let config = Config::parse(Path::new("/bench.json"), &text, &|_| None).unwrap();
        let key = Secret::new(fs::read(sshd.file("user")).unwrap()).unwrap();
        Executor {
            tools: Toolbox::new(config.tools),
            session: Session::new(Arc::new(ToolListing::default()), None),
            hands: Hands::Real(Executors::new(config.networks, None)),
            handed: Handed { main: Some(key.into()), passphrase: None },
        }
    }

    fn call(&mut self) {
        let line =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"true\",{META}}}}}");
        let Ok(Message::Request(request)) = parse(&line) else { unreachable!("a request") };
        let Step::Call(call) = self.session.request(&request) else { unreachable!("a call") };
        let grant = judge(&call, &self.tools).unwrap().granted().unwrap();
        let token = CancelToken::new().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let store = Arc::new(Store::new(&std::env::temp_dir()));
        let sinks = Sinks::new(Arc::new(Redactor::none()), store, "true");
        let ctx = CallCtx { token: &token, deadline, sinks };
        assert_eq!(self.hands.run(grant, &self.handed, &ctx).code, None);
    }
}

fn client(sshd: &Sshd, socket: &Path) -> Command {
    let mut ssh = Command::new("ssh");
    ssh.args([
        "-F",
        "none",
        "-o",
        "BatchMode=yes",
        "-o",
        "ControlMaster=auto",
        "-o",
        "ControlPersist=60",
        "-p",
        &sshd.port.to_string(),
    ]);
    ssh.arg("-o").arg(format!("ControlPath={}", socket.display()));
    ssh.arg("-o").arg(format!("UserKnownHostsFile={}", sshd.file("known_hosts").display()));
    ssh.arg("-i").arg(sshd.file("user")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    ssh
}

fn bare(sshd: &Sshd) -> ssh2::Session {
    let stream = TcpStream::connect(("127.0.0.1", sshd.port)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut session = ssh2::Session::new().unwrap();
    session.set_tcp_stream(stream);
    session.handshake().unwrap();
    session.userauth_pubkey_file(&user(), None, &sshd.file("user"), None).unwrap();
    session
}

/// The three in turn, so that the machine's moods meet all of them.
pub(crate) fn run() {
    let sshd = Sshd::start();
    let mut gateway = Gateway::start(&members(&sshd, "stdin"));
    let [mut tied, mut untied] = ["stdin", "none"].map(|tie| Executor::new(&sshd, tie));
    let mut call = |id| {
        let params = format!("\"name\":\"true\",{META}");
        let answer =
            gateway.answer(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{{params}}}}}\n"));
        assert!(answer.contains("\"isError\":false"), "{answer}");
    };
    let (socket, session) = (sshd.file("control"), bare(&sshd));
    let exec = || {
        let mut channel = session.channel_session().unwrap();
        channel.exec("true").unwrap();
        channel.send_eof().unwrap();
        channel.wait_eof().unwrap();
        channel.wait_close().unwrap();
        assert_eq!(channel.exit_status().unwrap(), 0);
    };
    call(0);
    tied.call();
    untied.call();
    assert!(client(&sshd, &socket).args(["127.0.0.1", "true"]).status().unwrap().success());
    let (mut ours, mut alone, mut like) = (Vec::new(), Vec::new(), Vec::new());
    let (mut master, mut library) = (Vec::new(), Vec::new());
    for id in 1..=RUNS {
        ours.extend(timed(1, |_| call(id)));
        alone.extend(timed(1, |_| tied.call()));
        like.extend(timed(1, |_| untied.call()));
        master.extend(timed(1, |_| assert!(client(&sshd, &socket).args(["127.0.0.1", "true"]).status().unwrap().success())));
        library.extend(timed(1, |_| exec()));
    }
    let middle = |times: &[Duration]| {
        let mut times = times.to_vec();
        times.sort();
        times[times.len() / 2].as_secs_f64()
    };
    let share = |times: &[Duration]| middle(times) / middle(&master);
    // A master leaves a command running when its client goes; the tie, which ends it, is what ours costs more.
    println!("ssh: warm true beside ControlMaster, which ties nothing: {:.2} (bar: 0.50)", share(&like));
    println!(
        "ssh: the same tied to its stdin: {:.2}; through the whole gateway, journalled: {:.2}",
        share(&alone),
        share(&ours)
    );
    show("ssh: whole gateway, journalled", ours);
    show("ssh: executor, tied", alone);
    show("ssh: executor, untied", like);
    show("ssh: ssh with ControlMaster", master);
    show("ssh: bare libssh2 session", library);
    let _ = client(&sshd, &socket).args(["-O", "exit", "127.0.0.1"]).status();
    gateway.end();
}
