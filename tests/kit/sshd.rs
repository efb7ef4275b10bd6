//! A real sshd on loopback, with keys, configuration and log of its own, ended with its owner.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::dir::Dir;
use super::process::until;

/// A running sshd and what a client of it needs.
pub struct Sshd {
    dir: Dir,
    child: Child,
    port: u16,
}

/// Makes a key pair `NAME`, `NAME.pub` in `dir`; `passphrase` may be empty.
pub fn keygen(dir: &Path, name: &str, kind: &[&str], passphrase: &str) {
    let output = Command::new("ssh-keygen")
        .args(["-q", "-N", passphrase, "-C", "test", "-f"])
        .arg(dir.join(name))
        .arg("-t")
        .args(kind)
        .output()
        .expect("ssh-keygen is there: make deps");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Sshd {
    /// Starts one that lets the key `user` in. `extra`: further configuration lines.
    pub fn start(extra: &str) -> Sshd {
        let dir = Dir::new();
        keygen(dir.path(), "host", &["ed25519"], "");
        keygen(dir.path(), "user", &["ed25519"], "");
        fs::copy(dir.join("user.pub"), dir.join("authorized_keys")).unwrap();
        if user() == "root" {
            // The folder sshd separates its privileges in; the package makes it when its own service starts.
            let _ = fs::create_dir("/run/sshd");
        }
        // A port that is free now may be taken a moment later: another one then.
        for _ in 0..5 {
            let port = free_port();
            let config = format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host\nAuthorizedKeysFile {0}/authorized_keys\nPidFile none\n\
                 UsePAM no\nStrictModes no\nSetEnv HOME={0}\nPermitRootLogin yes\nPasswordAuthentication no\nLogLevel DEBUG1\n{extra}\n",
                dir.path().display()
            );
            let config = dir.write("sshd_config", config);
            let mut child = Command::new("/usr/sbin/sshd")
                .args(["-D", "-f"])
                .arg(&config)
                .arg("-E")
                .arg(dir.join("log"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("sshd is there: make deps");
            let mut is_up = false;
            until("sshd listens or ends", || {
                is_up = TcpStream::connect(("127.0.0.1", port)).is_ok();
                is_up || child.try_wait().unwrap().is_some()
            });
            if is_up {
                return Sshd { dir, child, port };
            }
        }
        panic!("sshd does not start: {}", dir.read("log"));
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder: `host`, `user`, `log`.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        self.dir.read("log")
    }

    /// A known_hosts line for one of its public key files.
    pub fn known_line(&self, key: &str) -> String {
        let public = fs::read_to_string(self.dir.join(&format!("{key}.pub"))).unwrap();
        let mut words = public.split_whitespace();
        format!("[127.0.0.1]:{} {} {}\n", self.port, words.next().unwrap(), words.next().unwrap())
    }

    /// Writes a known_hosts file and returns its path.
    pub fn known_hosts(&self, name: &str, text: &str) -> PathBuf {
        self.dir.write(name, text)
    }

    /// A `hosts` entry that knows the host's key and logs in with the key `user`.
    pub fn host(&self) -> Value {
        let known = self.known_hosts("known_hosts", &self.known_line("host"));
        json!({"address": "127.0.0.1", "port": self.port, "user": user(), "auth": {"key": "user_key"}, "known_hosts": known})
    }

    /// The `credentials` entry of the key `user`.
    pub fn credentials(&self) -> Value {
        json!({"user_key": {"from": {"file": self.dir.join("user")}}})
    }

    /// The session processes it has forked.
    pub fn sessions(&self) -> Vec<u32> {
        let parent = format!("\nPPid:\t{}\n", self.child.id());
        let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default().contains(&parent)).collect()
    }
}

/// Who we are.
pub fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

impl Drop for Sshd {
    fn drop(&mut self) {
        for session in self.sessions() {
            let _ = Command::new("kill").args(["-KILL", &session.to_string()]).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An ssh-agent with keys of ours, ended with its owner.
pub struct Agent {
    child: Child,
    /// Its socket.
    pub socket: PathBuf,
}

impl Agent {
    /// Starts one in `dir` and adds the private keys named.
    pub fn start(dir: &Dir, keys: &[&str]) -> Agent {
        let socket = dir.join("agent");
        let mut child = Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        for key in keys {
            let mut add = Command::new("ssh-add");
            add.arg("-q").arg(dir.join(key)).env("SSH_AUTH_SOCK", &socket).stdin(Stdio::null()).stderr(Stdio::null());
            assert!(add.status().unwrap().success());
        }
        Agent { child, socket }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.socket);
    }
}
