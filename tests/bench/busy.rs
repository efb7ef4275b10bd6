//! `busy`: the round trip of a ping while sixteen commands write without end, and right behind a line of 4 MiB; beside `cat`,
//! which does nothing but hand bytes on, under the same load.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::gateway::{Gateway, META, show};

const WORKERS: usize = 16;
const LINE: usize = 4 << 20;
const TOOLS: &str = r#""tools": [
    {"name": "true", "description": "Does nothing", "exec": {"argv": ["true"]}},
    {"name": "yes", "description": "Writes without end", "exec": {"argv": ["yes"]}, "timeout_s": 3000}]"#;

/// Hands back what it is given.
struct Echo {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Echo {
    fn start() -> Echo {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Echo { child, stdin, stdout }
    }

    fn end(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }
}

fn ping(id: usize) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")
}

fn call(id: usize, tool: &str, arguments: &str) -> String {
    let params = format!("\"name\":\"{tool}\",\"arguments\":{arguments},{META}");
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{{params}}}}}\n")
}

/// Reads up to the short line that holds `mark`.
fn read_to(stdout: &mut impl BufRead, mark: &str) {
    const SHORT: usize = 1000;
    let mut line = Vec::new();
    while line.len() > SHORT || !String::from_utf8_lossy(&line).contains(mark) {
        line.clear();
        assert!(stdout.read_until(b'\n', &mut line).unwrap() > 0, "the end instead of {mark}");
    }
}

/// A ping there and back, once through the gateway and once through `cat`.
fn pings(name: &str, runs: usize, gateway: &mut Gateway, echo: &mut Echo) {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for id in 0..runs {
        let (line, mark) = (ping(id), format!("\"id\":{id},"));
        let trip = |stdin: &mut ChildStdin, stdout: &mut BufReader<ChildStdout>| {
            let start = Instant::now();
            stdin.write_all(line.as_bytes()).unwrap();
            read_to(stdout, &mark);
            start.elapsed()
        };
        ours.push(trip(&mut gateway.stdin, &mut gateway.stdout));
        bare.push(trip(&mut echo.stdin, &mut echo.stdout));
    }
    show(&format!("busy: ping, {name}"), ours);
    show("  beside: the same line through cat", bare);
}

/// A long line and a ping right behind it, written by one thread while another reads. Returns how long the ping took from the
/// moment the long line had been taken, and how long both took.
fn behind(long: &str, id: usize, stdin: &mut ChildStdin, stdout: &mut BufReader<ChildStdout>) -> (Duration, Duration) {
    let start = Instant::now();
    let (taken, answered) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            stdin.write_all(long.as_bytes()).unwrap();
            let taken = Instant::now();
            stdin.write_all(ping(id).as_bytes()).unwrap();
            taken
        });
        // In the long line itself no such id stands.
        read_to(stdout, &format!("\"id\":{id},"));
        let answered = Instant::now();
        (writer.join().unwrap(), answered)
    });
    (answered - taken, answered - start)
}

fn behind_a_long_line(gateway: &mut Gateway, echo: &mut Echo) {
    const RUNS: usize = 500;
    const LONG_ID: usize = 7_000_000;
    let empty = call(LONG_ID, "true", r#"{"x":""}"#).len() - 1;
    let long = call(LONG_ID, "true", &format!(r#"{{"x":"{}"}}"#, "a".repeat(LINE - empty)));
    assert_eq!(long.len(), LINE + 1);
    let (mut ours, mut bare) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for id in 1..=RUNS {
        let (ping, both) = behind(&long, id, &mut gateway.stdin, &mut gateway.stdout);
        // The refusal of the long line may come before or after it.
        ours.0.push(ping);
        ours.1.push(both);
        let (ping, both) = behind(&long, id, &mut echo.stdin, &mut echo.stdout);
        bare.0.push(ping);
        bare.1.push(both);
    }
    show("busy: ping right behind a 4 MiB line", ours.0);
    show("  beside: the same through cat", bare.0);
    show("busy: the 4 MiB line and the ping", ours.1);
    show("  beside: the same through cat", bare.1);
}

pub(crate) fn run() {
    let (mut gateway, mut echo) = (Gateway::start(TOOLS), Echo::start());
    pings("nothing else to do", 2000, &mut gateway, &mut echo);
    behind_a_long_line(&mut gateway, &mut echo);
    for id in 0..WORKERS {
        gateway.send(&call(9_000_000 + id, "yes", "{}"));
    }
    pings("16 workers busy", 500, &mut gateway, &mut echo);
    for id in 0..WORKERS {
        let id = 9_000_000 + id;
        gateway.send(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n"
        ));
    }
    echo.end();
    gateway.end();
}
