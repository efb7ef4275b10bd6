//! The gateway in a real process: bytes in, bytes out, exit code, operator lines.
//!
//! A builder expects exit code 0 and no operator line but the closing counters; a test names what else it expects. On a
//! failure everything is shown: command, configuration, what was sent, raw stdout, stderr, journal.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::PATIENCE;
use super::dir::Dir;
use super::pipes::Pipes;
use super::tap::Tap;

/// A pipe's worth and more: what the test reads of stdout at a time unless it says otherwise.
const CHUNK: usize = 64 << 10;

/// What the gateway's stderr is.
enum Stderr {
    /// A pipe that is read; its lines are checked.
    Read,
    /// A pipe that nobody reads.
    Unread,
    /// A pipe whose reader is gone.
    Closed,
    /// The same pipe as stdout.
    Merged,
}

/// A gateway about to be started.
pub struct Gateway {
    program: PathBuf,
    launcher: Option<String>,
    stderr: Stderr,
    chunk: usize,
    is_held: bool,
    user: Option<u32>,
    arguments: Vec<OsString>,
    config: Option<Value>,
    env: Vec<(String, String)>,
    exit: i32,
    operator_lines: Vec<String>,
    is_any_line_fine: bool,
    dir: Dir,
}

/// A running gateway.
pub struct Running {
    pub child: Child,
    stdin: Option<PipeWriter>,
    stdout: Option<Tap>,
    lines: Receiver<String>,
    waiting: VecDeque<Value>,
    raw: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    stderr_reader: Option<JoinHandle<()>>,
    /// Held so that a stderr nobody reads is not a broken one.
    _unread: Option<PipeReader>,
    sent: Vec<u8>,
    exit: i32,
    operator_lines: Vec<String>,
    is_any_line_fine: bool,
    told: String,
    pub dir: Dir,
}

/// A gateway that has ended as expected.
pub struct Ended {
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub status: ExitStatus,
    /// From closing stdin (or from `end` being called) to the end.
    pub took: Duration,
    /// What was still unread.
    pub rest: Vec<Value>,
    /// The same as it stood on stdout, without line feeds.
    pub unread: Vec<String>,
    pub dir: Dir,
}

impl Gateway {
    /// The binary under test, with a state folder of its own and an empty environment.
    pub fn new() -> Gateway {
        Gateway::of(Path::new(env!("CARGO_BIN_EXE_tidegate")))
    }

    /// Another binary, the installed one for example.
    pub fn of(program: &Path) -> Gateway {
        Gateway {
            program: program.to_owned(),
            launcher: None,
            stderr: Stderr::Read,
            chunk: CHUNK,
            is_held: false,
            user: None,
            arguments: vec!["serve".into()],
            config: None,
            env: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
            exit: 0,
            operator_lines: Vec::new(),
            is_any_line_fine: false,
            dir: Dir::new(),
        }
    }

    /// Declares these tools (a JSON array).
    pub fn tools(self, tools: &str) -> Gateway {
        let tools: Value = serde_json::from_str(tools).unwrap_or_else(|error| panic!("{error} in {tools}"));
        self.set("tools", tools)
    }

    /// Sets a top-level member of the configuration.
    pub fn set(mut self, member: &str, value: Value) -> Gateway {
        let state = self.dir.join("state");
        let config = self.config.get_or_insert_with(|| serde_json::json!({"state_dir": state}));
        config[member] = value;
        self
    }

    /// Adds arguments behind `serve --config FILE`.
    pub fn args<S: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = S>) -> Gateway {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Gateway {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Starts it through `sh -c SCRIPT`, in which `"$@"` is the gateway and its arguments; `exec` keeps the process id.
    pub fn through(mut self, script: &str) -> Gateway {
        self.launcher = Some(script.to_owned());
        self
    }

    /// Loads these shared objects into the gateway (and into no launcher before it).
    pub fn preload(self, objects: &[PathBuf]) -> Gateway {
        let list: Vec<&str> = objects.iter().map(|object| object.to_str().unwrap()).collect();
        self.env("LD_PRELOAD", list.join(":"))
    }

    /// Leaves stderr a pipe that nobody reads.
    pub fn stderr_unread(mut self) -> Gateway {
        self.stderr = Stderr::Unread;
        self
    }

    /// Leaves stderr a pipe whose reader is gone.
    pub fn stderr_closed(mut self) -> Gateway {
        self.stderr = Stderr::Closed;
        self
    }

    /// Makes stdout and stderr the same pipe, as `2>&1` does.
    pub fn stderr_merged(mut self) -> Gateway {
        self.stderr = Stderr::Merged;
        self
    }

    /// Reads nothing of stdout until `Running::read_on`.
    pub fn stdout_held(mut self) -> Gateway {
        self.is_held = true;
        self
    }

    /// Reads stdout in pieces of this size.
    pub fn stdout_in_pieces_of(mut self, bytes: usize) -> Gateway {
        self.chunk = bytes;
        self
    }

    /// Runs it as another user, which only root can.
    pub fn user(mut self, id: u32) -> Gateway {
        self.user = Some(id);
        self
    }

    /// Expects another exit code.
    pub fn exit(mut self, code: i32) -> Gateway {
        self.exit = code;
        self
    }

    /// Expects one operator line that contains `part`; silence fails.
    pub fn says(mut self, part: &str) -> Gateway {
        self.operator_lines.push(part.to_owned());
        self
    }

    /// For tests whose subject is not what the operator reads.
    pub fn says_anything(mut self) -> Gateway {
        self.is_any_line_fine = true;
        self
    }

    /// The scratch folder.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The command with its configuration written; its three descriptors are not set.
    pub fn command(&mut self) -> Command {
        if let Some(config) = &self.config {
            let path = self.dir.write("config.json", serde_json::to_string_pretty(config).unwrap());
            self.arguments.splice(1..1, ["--config".into(), path.into_os_string()]);
        }
        let mut command = match &self.launcher {
            None => Command::new(&self.program),
            Some(script) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", script, "sh", "/usr/bin/env"]);
                // Set behind the shell, so that what is preloaded is preloaded into the gateway alone.
                let is_late = |(name, _): &&(String, String)| name == "LD_PRELOAD";
                shell.args(self.env.iter().filter(is_late).map(|(name, value)| format!("{name}={value}")));
                shell.arg(&self.program);
                shell
            }
        };
        let is_early = |(name, _): &&(String, String)| self.launcher.is_none() || name != "LD_PRELOAD";
        let early = self.env.iter().filter(is_early).map(|(name, value)| (name, value));
        command.args(&self.arguments).env_clear().envs(early);
        if !self.env.iter().any(|(name, _)| name == "HOME") {
            command.env("HOME", self.dir.path());
        }
        command.current_dir(self.dir.path());
        if let Some(user) = self.user {
            command.uid(user).current_dir("/");
        }
        command
    }

    /// Starts it.
    pub fn start(self) -> Running {
        self.start_watched().0
    }

    /// Starts it; beside it what is unread in its stdin and stdout.
    pub fn start_watched(mut self) -> (Running, Pipes) {
        let mut command = self.command();
        let told = format!("{command:?}\nconfiguration: {}", self.dir.read("config.json"));
        let (stdin_reader, stdin) = std::io::pipe().unwrap();
        let (stdout, stdout_writer) = std::io::pipe().unwrap();
        let (stderr, stderr_writer) = std::io::pipe().unwrap();
        match self.stderr {
            Stderr::Merged => command.stderr(stdout_writer.try_clone().unwrap()),
            Stderr::Read | Stderr::Unread | Stderr::Closed => command.stderr(stderr_writer),
        };
        let pipes = Pipes::of(&stdin, &stdout);
        command.stdin(stdin_reader).stdout(stdout_writer);
        let stderr = if matches!(self.stderr, Stderr::Closed) { None } else { Some(stderr) };
        let child = command.spawn().unwrap();
        // The command holds the gateway's ends.
        drop(command);
        (Running::watch(child, stdin, stdout, stderr, self, told), pipes)
    }
}

impl Running {
    fn watch(
        child: Child,
        stdin: PipeWriter,
        stdout: PipeReader,
        stderr: Option<PipeReader>,
        gateway: Gateway,
        told: String,
    ) -> Running {
        let (raw, noise) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (lines_tx, lines) = channel();
        let stdout = Tap::start(stdout, gateway.chunk, gateway.is_held, raw.clone(), lines_tx);
        let (read, unread) = match gateway.stderr {
            Stderr::Unread => (None, stderr),
            Stderr::Read | Stderr::Closed | Stderr::Merged => (stderr, None),
        };
        let kept = noise.clone();
        let stderr_reader = read.map(|mut stderr| {
            std::thread::spawn(move || {
                let mut chunk = [0; 4096];
                while let Ok(count @ 1..) = stderr.read(&mut chunk) {
                    kept.lock().unwrap().extend_from_slice(&chunk[..count]);
                }
            })
        });
        Running {
            child,
            stdin: Some(stdin),
            stdout: Some(stdout),
            lines,
            waiting: VecDeque::new(),
            raw,
            stderr: noise,
            stderr_reader,
            _unread: unread,
            sent: Vec::new(),
            exit: gateway.exit,
            operator_lines: gateway.operator_lines,
            is_any_line_fine: gateway.is_any_line_fine,
            told,
            dir: gateway.dir,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends one line.
    #[track_caller]
    pub fn send(&mut self, line: &str) {
        self.send_raw(format!("{line}\n").as_bytes());
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        let result = self.stdin.as_mut().expect("stdin is open").write_all(bytes);
        result.unwrap_or_else(|error| panic!("stdin: {error}\n{}", self.story()));
    }

    /// Sends bytes that nobody has to read any more.
    pub fn send_ignored(&mut self, text: &str) {
        self.sent.extend_from_slice(text.as_bytes());
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(text.as_bytes());
        }
    }

    /// Sends bytes that the gateway may not read to their end.
    pub fn offer(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(bytes);
        }
    }

    /// Sends bytes again and again, without remembering them for the story.
    #[track_caller]
    pub fn flood(&mut self, bytes: &[u8], times: usize) {
        self.sent.extend_from_slice(format!("[{times} times {} bytes]", bytes.len()).as_bytes());
        for _ in 0..times {
            let result = self.stdin.as_mut().expect("stdin is open").write_all(bytes);
            result.unwrap_or_else(|error| panic!("stdin: {error}\n{}", self.story()));
        }
    }

    /// Another end of stdin, for a thread that writes while the test waits. stdin is closed once both are.
    pub fn writer(&self) -> PipeWriter {
        self.stdin.as_ref().expect("stdin is open").try_clone().unwrap()
    }

    /// Shakes hands in the legacy era.
    #[track_caller]
    pub fn initialize(&mut self, revision: &str) -> Value {
        super::handshake(revision).iter().for_each(|line| self.send(line));
        self.reply("\"init\"")
    }

    /// The next message on stdout.
    #[track_caller]
    pub fn next(&mut self) -> Value {
        match self.waiting.pop_front() {
            Some(value) => value,
            None => self.read_one(),
        }
    }

    #[track_caller]
    fn read_one(&mut self) -> Value {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(value) => value,
                Err(error) => panic!("stdout line is no JSON ({error}): {line:?}\n{}", self.story()),
            },
            Err(RecvTimeoutError::Timeout) => panic!("no message within {PATIENCE:?}\n{}", self.story()),
            Err(RecvTimeoutError::Disconnected) => panic!("stdout ended\n{}", self.story()),
        }
    }

    /// The next line of stdout as it stands there.
    #[track_caller]
    pub fn next_line(&mut self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{error}\n{}", self.story()))
    }

    /// Every line until nothing comes for a moment. For rewriting fixtures only.
    pub fn lines_for_a_while(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.lines.recv_timeout(Duration::from_millis(150)).ok()).collect()
    }

    /// The answer to the request whose id is `id` (JSON text), whatever comes before it.
    #[track_caller]
    pub fn reply(&mut self, id: &str) -> Value {
        let id: Value = serde_json::from_str(id).unwrap();
        let is_it = |message: &Value| message.get("id") == Some(&id) && message.get("method").is_none();
        if let Some(at) = self.waiting.iter().position(is_it) {
            return self.waiting.remove(at).unwrap();
        }
        loop {
            let message = self.read_one();
            if is_it(&message) {
                return message;
            }
            self.waiting.push_back(message);
        }
    }

    /// Sends a request line and returns its answer.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> Value {
        self.send(line);
        let request: Value = serde_json::from_str(line).unwrap();
        self.reply(&request["id"].to_string())
    }

    /// Shows that the session is alive and returns every message that came before the answer.
    #[track_caller]
    pub fn probe(&mut self) -> Vec<Value> {
        let id = format!("\"probe {}\"", super::unique());
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        let answer = self.reply(&id);
        assert_eq!(answer["result"], serde_json::json!({}), "{}", self.story());
        self.waiting.drain(..).collect()
    }

    /// Closes stdin and waits for the end.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        drop(self.stdin.take());
        self.wait()
    }

    /// Closes stdin only.
    pub fn close_stdin(&mut self) {
        drop(self.stdin.take());
    }

    /// Leaves what comes on stdout unread from now on.
    pub fn hold(&self) {
        self.tap().hold();
    }

    /// Reads stdout from now on.
    pub fn read_on(&self) {
        self.tap().read_on();
    }

    /// Closes the test's end of stdout.
    pub fn close_stdout(&mut self) {
        self.tap().close();
    }

    fn tap(&self) -> &Tap {
        self.stdout.as_ref().expect("held until the end")
    }

    /// What was written on stderr so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap()).into_owned()
    }

    /// Sends a signal by name, as the shell does.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the end and checks exit code, operator lines and every byte of stdout.
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let start = Instant::now();
        let status = self.wait_for_exit();
        let took = start.elapsed();
        drop(self.stdin.take());
        if let Some(stdout) = self.stdout.take() {
            stdout.finish();
        }
        if let Some(stderr) = self.stderr_reader.take() {
            stderr.join().unwrap();
        }
        let unread: Vec<String> = self.lines.try_iter().map(|line| line.trim_end_matches('\n').to_owned()).collect();
        let rest = self.waiting.drain(..).chain(unread.iter().filter_map(|line| serde_json::from_str(line).ok())).collect();
        let stdout = std::mem::take(&mut *self.raw.lock().unwrap());
        let stderr = String::from_utf8_lossy(&self.stderr.lock().unwrap()).into_owned();
        self.raw.lock().unwrap().clone_from(&stdout);
        assert_eq!(status.code(), Some(self.exit), "exit code\n{}", self.story());
        self.check_operator_lines(&stderr);
        if let Err(problem) = super::schema::check_stdout(&stdout) {
            panic!("{problem}\n{}", self.story());
        }
        let dir = std::mem::replace(&mut self.dir, Dir::new());
        Ended { stdout, stderr, status, took, rest, unread, dir }
    }

    /// Waits for the end while stdout is held, then reads what was in the pipe: whole lines are not expected.
    #[track_caller]
    pub fn ended_with_stdout_unread(mut self) -> (Duration, Vec<u8>) {
        let start = Instant::now();
        let status = self.wait_for_exit();
        let took = start.elapsed();
        assert_eq!(status.code(), Some(self.exit), "exit code\n{}", self.story());
        if let Some(stdout) = self.stdout.take() {
            stdout.finish();
        }
        (took, std::mem::take(&mut *self.raw.lock().unwrap()))
    }

    /// All journal records so far.
    pub fn journal(&self) -> Vec<Value> {
        self.dir.journal_under("state")
    }

    #[track_caller]
    fn wait_for_exit(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "it does not end\n{}", self.story());
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    #[track_caller]
    fn check_operator_lines(&self, stderr: &str) {
        let mut lines = operator_lines(stderr);
        for expected in &self.operator_lines {
            match lines.iter().position(|line| line.contains(expected.as_str())) {
                Some(at) => drop(lines.remove(at)),
                None => panic!("the operator is not told {expected:?}\n{}", self.story()),
            }
        }
        assert!(self.is_any_line_fine || lines.is_empty(), "unexpected operator lines: {lines:#?}\n{}", self.story());
    }

    /// Everything that is known, for a failure.
    pub fn story(&self) -> String {
        let cut = |bytes: &[u8]| {
            let text = bytes[..bytes.len().min(4000)].escape_ascii().to_string().replace("\\n", "\\n\n");
            format!("{text} ({} bytes)", bytes.len())
        };
        format!(
            "command: {}\nsent: {}\nstdout: {}\nstderr: {}\njournal: {:#?}",
            self.told,
            cut(&self.sent),
            cut(&self.raw.lock().unwrap()),
            cut(&self.stderr.lock().unwrap()),
            self.dir.journal_under("state")
        )
    }
}

impl Ended {
    /// The closing counters.
    #[track_caller]
    pub fn counters(&self) -> Value {
        let line = self.stderr.lines().find(|line| line.starts_with("{\"frames_in\""));
        serde_json::from_str(line.unwrap_or_else(|| panic!("no closing counters in {:?}", self.stderr))).unwrap()
    }

    /// What the operator was told, but for the closing counters.
    pub fn operator_lines(&self) -> Vec<&str> {
        operator_lines(&self.stderr)
    }
}

fn operator_lines(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| !line.starts_with("{\"frames_in\"")).collect()
}

impl Running {
    /// After a failure: lets the gateway end its commands, so that none is left, and then ends it whatever it does.
    fn end_hard(&mut self) {
        const PATIENCE_MS: u32 = 3000;
        for _ in 0..2 {
            let _ = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
        }
        for _ in 0..PATIENCE_MS {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let _ = self.child.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if std::thread::panicking() {
            self.end_hard();
        }
        let _ = self.child.wait();
    }
}
