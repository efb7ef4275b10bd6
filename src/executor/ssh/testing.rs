//! A real sshd for tests: on loopback, on a free port, with keys and configuration of its own in a scratch folder.
//!
//! Compiled for tests alone. Its log comes through a pipe, so tests wait for a line and never for a time.

use std::fs::{self, DirBuilder};
use std::io::{self, PipeWriter, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::action::ssh::SshAction;
use crate::cancel::CancelToken;
use crate::executor::CallCtx;
use crate::executor::Handed;
use crate::executor::dial::Dialler;
use crate::executor::resolve::system_lookup;
use crate::executor::ssh::SshExecutor;
use crate::limits::CONTENT_BYTES;
use crate::outcome::result::Outcome;
use crate::outcome::testing::sinks;
use crate::policy::grant::{Authorized, Terms};
use crate::policy::rules::{AtLimit, HostKeyPolicy, HostRule, Networks, SshAuth, Tie};
use crate::process::mark::Mark;
use crate::process::testing::{PATH, read_all};
use crate::process::{self, Child, Spec, Status, Stdin};
use crate::secret::Secret;
use crate::sys::{self, Poll};
use crate::thread::{self, Thread};

/// Longer than anything a test waits for takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A folder that goes away.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-ssh-{}", Mark::random().unwrap().as_str()));
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Starts a program with these variables beside PATH.
pub(super) fn start(argv: &[&str], env: &[(&str, &str)]) -> Child {
    spawn(argv, env, Stdin::Null)
}

/// The same with a pipe to its input.
pub(super) fn spawn_with_stdin(argv: &[&str]) -> Child {
    spawn(argv, &[], Stdin::Pipe)
}

fn spawn(argv: &[&str], env: &[(&str, &str)], stdin: Stdin) -> Child {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let path = ("PATH".to_owned(), format!("{PATH}:/usr/sbin:/sbin"));
    let env: Vec<_> = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).chain([path]).collect();
    process::spawn(&Spec { argv: &argv, env: &env, cwd: Path::new("/"), mark: Mark::random().unwrap(), stdin }).unwrap()
}

/// Runs a program to its end: exit status and both outputs.
pub(super) fn run(argv: &[&str], env: &[(&str, &str)]) -> (Option<Status>, String) {
    let mut child = start(argv, env);
    let text = read_all(child.stdout.take().unwrap()) + &read_all(child.stderr.take().unwrap());
    (status_of(&mut child), text)
}

/// How it ends by itself.
pub(super) fn status_of(child: &mut Child) -> Option<Status> {
    while !child.has_ended() {
        let mut exits: Vec<_> = child.exits().map(Poll::readable).collect();
        sys::poll(&mut exits, Some(PATIENCE)).unwrap();
    }
    child.end(PATIENCE).status
}

#[track_caller]
pub(super) fn must(argv: &[&str], env: &[(&str, &str)]) -> String {
    let (status, text) = run(argv, env);
    assert_eq!(status, Some(Status::Exited(0)), "{argv:?}: {text}");
    text
}

/// What sshd says, as it says it.
#[derive(Default)]
struct Log {
    text: Mutex<String>,
    came: Condvar,
}

/// A running sshd.
pub(super) struct Server {
    pub(super) folder: Scratch,
    pub(super) port: u16,
    log: Arc<Log>,
    child: Option<Child>,
    reader: Option<Thread>,
    /// Open for as long as sshd lives: it opens the log anew for every connection.
    _writer: PipeWriter,
}

impl Server {
    /// With an ed25519 host key and every key of the folder accepted for the present user.
    pub(super) fn new() -> Self {
        Server::with(&["ed25519"], "")
    }

    /// With these types of host key and more configuration.
    pub(super) fn with(host_keys: &[&str], more: &str) -> Self {
        Server::under(&[], Scratch::new(), host_keys, more)
    }

    /// Started by another program, which is given sshd's command line.
    pub(super) fn under(by: &[&str], folder: Scratch, host_keys: &[&str], more: &str) -> Self {
        if sys::user_id() == 0 {
            // Where sshd locks up its unprivileged half; what the distribution's service makes at its start.
            DirBuilder::new().recursive(true).mode(0o755).create("/run/sshd").unwrap();
        }
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        host_keys.iter().for_each(|kind| keygen(&at(&format!("host_{kind}")), kind, ""));
        if !folder.path().join("id").exists() {
            keygen(&at("id"), "ed25519", "");
        }
        fs::copy(at("id.pub"), at("authorized_keys")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let keys: String = host_keys.iter().map(|kind| format!("HostKey {}\n", at(&format!("host_{kind}")))).collect();
        // The first value of a keyword holds.
        let config = format!(
            "{more}\nPort {port}\nListenAddress 127.0.0.1\n{keys}PidFile none\nAuthorizedKeysFile {}\nSetEnv HOME={}\nStrictModes no\n\
             PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nUseDNS no\n\
             PrintMotd no\nMaxSessions 64\nMaxStartups 100:30:200\nLogLevel DEBUG\n",
            at("authorized_keys"),
            folder.path().display()
        );
        fs::write(at("sshd_config"), config).unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let to = format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
        let log = Arc::new(Log::default());
        let shared = Arc::clone(&log);
        let reader = thread::spawn("tg-test", move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                shared.text.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
                shared.came.notify_all();
            }
        })
        .unwrap();
        let config = at("sshd_config");
        let argv = [by, &["/usr/sbin/sshd", "-D", "-f", &config, "-E", &to]].concat();
        let child = start(&argv, &[]);
        let server = Server { folder, port, log, child: Some(child), reader: Some(reader), _writer: writer };
        server.wait_log("Server listening on");
        server
    }

    pub(super) fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(super) fn log(&self) -> String {
        self.log.text.lock().unwrap().clone()
    }

    /// Waits until the log has `text`.
    #[track_caller]
    pub(super) fn wait_log(&self, text: &str) {
        self.wait_log_times(text, 1);
    }

    /// Waits until the log has `text` so many times.
    #[track_caller]
    pub(super) fn wait_log_times(&self, text: &str, times: usize) {
        let until = Instant::now() + PATIENCE;
        let mut log = self.log.text.lock().unwrap();
        while log.matches(text).count() < times {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{text:?} is not in the log of sshd:\n{log}");
            log = self.log.came.wait_timeout(log, left).unwrap().0;
        }
    }

    /// `TYPE BASE64` of one host key.
    pub(super) fn host_key(&self, kind: &str) -> String {
        let text = fs::read_to_string(self.at(&format!("host_{kind}.pub"))).unwrap();
        text.split(' ').take(2).collect::<Vec<_>>().join(" ").trim().to_owned()
    }

    /// Writes a known_hosts file with these contents.
    pub(super) fn know(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("known_hosts");
        fs::write(&path, text).unwrap();
        path
    }

    /// The host as a careful operator would configure it: the key known, the user's key from a credential.
    pub(super) fn rule(&self) -> HostRule {
        let known_hosts = self.know(&format!("[127.0.0.1]:{} {}\n", self.port, self.host_key("ed25519")));
        HostRule {
            name: "box".into(),
            address: "127.0.0.1".into(),
            port: self.port,
            user: user(),
            auth: SshAuth::Key { credential: "id".into(), passphrase: None, certificate: None },
            host_key: HostKeyPolicy::Strict,
            known_hosts,
            fingerprints: Vec::new(),
            tie: Tie::Stdin,
        }
    }

    /// The private key in a file of the folder.
    pub(super) fn secret(&self, file: &str) -> Handed {
        secrets(&fs::read(self.at(file)).unwrap())
    }

    /// Accepts the key as well.
    pub(super) fn accept(&self, file: &str) {
        let more = fs::read_to_string(self.at(&format!("{file}.pub"))).unwrap();
        let all = fs::read_to_string(self.at("authorized_keys")).unwrap() + &more;
        fs::write(self.at("authorized_keys"), all).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.take());
        // Ends with the last session of this sshd, which is not waited for.
        self.reader.take().into_iter().for_each(Thread::abandon);
    }
}

pub(super) fn keygen(path: &str, kind: &str, passphrase: &str) {
    let bits = match kind {
        "rsa" => "2048",
        "ecdsa" => "256",
        _ => "0",
    };
    let bits: &[&str] = if bits == "0" { &[] } else { &["-b", bits] };
    must(&[&["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", path], bits].concat(), &[]);
}

pub(super) fn secrets(main: &[u8]) -> Handed {
    Handed { main: Some(Secret::new(main.to_vec()).unwrap().into()), passphrase: None }
}

pub(super) fn user() -> String {
    must(&["id", "-un"], &[]).trim().to_owned()
}

/// One executor and how it is called.
pub(super) struct Caller {
    pub(super) executor: SshExecutor,
    pub(super) rule: Arc<HostRule>,
    pub(super) secrets: Handed,
}

impl Caller {
    pub(super) fn new(server: &Server) -> Self {
        Caller::of(server.rule(), server.secret("id"))
    }

    pub(super) fn of(rule: HostRule, secrets: Handed) -> Self {
        Caller { executor: executor(None), rule: Arc::new(rule), secrets }
    }

    pub(super) fn run(&self, argv: &[&str]) -> Outcome {
        self.call(action(argv), PATIENCE, &CancelToken::new().unwrap())
    }

    /// `argv` is given to the remote `sh -c SCRIPT sh ARG...`.
    pub(super) fn script(&self, script: &str, args: &[&str]) -> Outcome {
        self.run(&[&["sh", "-c", script, "sh"], args].concat())
    }

    pub(super) fn call(&self, action: SshAction, timeout: Duration, token: &CancelToken) -> Outcome {
        self.call_under(AtLimit::Drain, action, timeout, token)
    }

    pub(super) fn call_under(&self, at_limit: AtLimit, action: SshAction, timeout: Duration, token: &CancelToken) -> Outcome {
        let [tool, rule, target] = ["tool", "rule", "ssh"].map(str::to_owned);
        let terms = Terms { tool, rule, target, credential: None, host: None, content_bytes: CONTENT_BYTES, at_limit, timeout };
        let ctx = CallCtx { token, deadline: Instant::now() + timeout, sinks: sinks() };
        self.executor.run(Authorized::in_test(action, terms), &self.rule, self.secrets.clone(), &ctx)
    }
}

pub(super) fn executor(agent: Option<PathBuf>) -> SshExecutor {
    SshExecutor::new(Arc::new(Dialler::new(Networks::default(), system_lookup())), agent)
}

pub(super) fn action(argv: &[&str]) -> SshAction {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    SshAction { host: "box".into(), argv, env: Vec::new(), cwd: None, stdin: Vec::new() }
}

/// Waits until the peer of a socket has closed it.
pub(super) fn wait_closed(mut stream: &TcpStream) {
    let mut buffer = [0; 4096];
    loop {
        sys::poll(&mut [Poll::readable(std::os::fd::AsFd::as_fd(&stream))], Some(PATIENCE)).unwrap();
        if matches!(stream.read(&mut buffer), Ok(0) | Err(_)) {
            return;
        }
    }
}
