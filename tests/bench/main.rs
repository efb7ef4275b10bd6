//! Smoke benches of the built gateway: `cold` (start to first answer), `pipe` (answers through the pipe), `idle` (what it costs
//! to do nothing), `journal` (durable intents a second). `cargo bench` runs all, `cargo bench -- pipe` one. Figures, no verdicts.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a bench talks to a person")]

mod journal;
#[cfg(feature = "ssh")]
mod ssh;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const META: &str =
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

const TOOLS: &str = r#""tools": [{"name": "true", "description": "Does nothing", "exec": {"argv": ["/bin/true"]}}]"#;

struct Gateway {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    folder: std::path::PathBuf,
}

impl Gateway {
    /// Starts one with these members in its configuration beside `state_dir`.
    fn start(config: &str) -> Gateway {
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

    fn ask(&mut self, line: &str) {
        self.answer(line);
    }

    fn answer(&mut self, line: &str) -> String {
        self.stdin.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        answer
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    fn end(mut self) -> Duration {
        let start = Instant::now();
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
        std::fs::remove_dir_all(&self.folder).unwrap();
        start.elapsed()
    }
}

fn show(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    println!("{name:<34} p50 {:>10.3?}  p99 {:>10.3?}  max {:>10.3?}  ({} runs)", at(50), at(99), at(100), times.len());
}

fn discover(id: usize) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"server/discover\",\"params\":{{{META}}}}}\n")
}

fn timed(times: usize, mut run: impl FnMut(usize)) -> Vec<Duration> {
    let one = |id| {
        let start = Instant::now();
        run(id);
        start.elapsed()
    };
    (0..times).map(one).collect()
}

fn cold() {
    let (mut first, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..30 {
        let start = Instant::now();
        let mut gateway = Gateway::start(TOOLS);
        gateway.ask(&discover(1));
        first.push(start.elapsed());
        ends.push(gateway.end());
    }
    show("cold: start to first answer", first);
    show("cold: end of file to exit", ends);
}

fn pipe() {
    let mut gateway = Gateway::start(TOOLS);
    show(
        "pipe: ping",
        timed(5000, |id| {
            gateway.ask(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n"));
        }),
    );
    show(
        "pipe: refused call",
        timed(2000, |id| {
            let call = format!("\"name\":\"true\",\"arguments\":{{\"x\":1}},{META}");
            gateway.ask(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{{call}}}}}\n"));
        }),
    );
    show(
        "pipe: local command, journalled",
        timed(200, |id| {
            let call = format!("\"name\":\"true\",{META}");
            gateway.ask(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{{call}}}}}\n"));
        }),
    );
    show(
        "  beside: /bin/true started and waited for",
        timed(200, |_| {
            assert!(Command::new("/bin/true").status().unwrap().success());
        }),
    );
    const BURST: usize = 50_000;
    let lines: String = (0..BURST).map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")).collect();
    let start = Instant::now();
    let mut stdin = gateway.stdin;
    let writer = std::thread::spawn(move || {
        stdin.write_all(lines.as_bytes()).unwrap();
        stdin
    });
    let mut line = String::new();
    (0..BURST).for_each(|_| {
        line.clear();
        gateway.stdout.read_line(&mut line).unwrap();
    });
    println!("{:<34} {:.0} a second", "pipe: pings in one burst", BURST as f64 / start.elapsed().as_secs_f64());
    gateway.stdin = writer.join().unwrap();
    gateway.end();
}

fn idle() {
    let mut gateway = Gateway::start(TOOLS);
    gateway.ask(&discover(1));
    let cpu = |gateway: &Gateway| {
        let stat = gateway.proc("stat");
        let fields: Vec<u64> =
            stat.rsplit(')').next().unwrap().split_whitespace().filter_map(|field| field.parse().ok()).collect();
        fields[10] + fields[11]
    };
    let before = cpu(&gateway);
    std::thread::sleep(Duration::from_secs(2));
    let status = gateway.proc("status");
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim().to_owned();
    let woken = |gateway: &Gateway| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", gateway.child.id())).unwrap().flatten();
        let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
        let switches = |text: String| {
            text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
        };
        statuses.filter_map(switches).sum::<u64>()
    };
    let wakes = woken(&gateway);
    std::thread::sleep(Duration::from_secs(2));
    println!(
        "idle: RSS {}, peak {}, threads {}, CPU ticks in 2 s {}, wake-ups in 2 s {}",
        field("VmRSS:"),
        field("VmHWM:"),
        field("Threads:"),
        cpu(&gateway) - before,
        woken(&gateway) - wakes
    );
    gateway.end();
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let benches: &[(&str, fn())] = &[
        ("cold", cold),
        ("pipe", pipe),
        ("idle", idle),
        ("journal", journal::run),
        #[cfg(feature = "ssh")]
        ("ssh", ssh::run),
    ];
    for (name, bench) in benches {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            bench();
        }
    }
}
