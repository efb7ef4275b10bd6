//! What the benches share: a built gateway with a folder of its own, lines to send, figures to show.
//!
//! Whatever is measured is told here as it is; nothing is judged.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const META: &str =
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

pub(crate) const TOOLS: &str = r#""tools": [{"name": "true", "description": "Does nothing", "exec": {"argv": ["/bin/true"]}}]"#;

pub(crate) struct Gateway {
    pub(crate) child: Child,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: BufReader<ChildStdout>,
    folder: std::path::PathBuf,
}

impl Gateway {
    /// Starts one with these members in its configuration beside `state_dir`.
    pub(crate) fn start(config: &str) -> Gateway {
        let folder = std::env::temp_dir().join(format!("tidegate-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("config.json");
        std::fs::write(&path, format!(r#"{{"state_dir": "{}", {config}}}"#, folder.display())).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["serve", "--config"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Gateway { child, stdin, stdout, folder }
    }

    pub(crate) fn ask(&mut self, line: &str) {
        self.answer(line);
    }

    /// Sends what has no answer, or one that is read later.
    pub(crate) fn send(&mut self, line: &str) {
        self.stdin.write_all(line.as_bytes()).unwrap();
    }

    pub(crate) fn answer(&mut self, line: &str) -> String {
        self.send(line);
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        answer
    }

    pub(crate) fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    pub(crate) fn end(mut self) -> Duration {
        let start = Instant::now();
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
        std::fs::remove_dir_all(&self.folder).unwrap();
        start.elapsed()
    }
}

pub(crate) fn show(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    println!("{name:<42} p50 {:>10.3?}  p99 {:>10.3?}  max {:>10.3?}  ({} runs)", at(50), at(99), at(100), times.len());
}

pub(crate) fn discover(id: usize) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"server/discover\",\"params\":{{{META}}}}}\n")
}

pub(crate) fn timed(times: usize, mut run: impl FnMut(usize)) -> Vec<Duration> {
    let one = |id| {
        let start = Instant::now();
        run(id);
        start.elapsed()
    };
    (0..times).map(one).collect()
}
