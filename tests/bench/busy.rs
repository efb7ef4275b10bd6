//! `busy`: the round trip of a ping while sixteen commands write without end, and right behind lines of 4 MiB; beside `cat`,
//! which does nothing but hand bytes on, under the same load.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::gateway::{Gateway, META, show};

const WORKERS: usize = 16;
const LINE: usize = 4 << 20;
const LONG_ID: usize = 7_000_000;
/// A line of that size is an answer to a ping; `cat` hands back the long one.
const SHORT: usize = 1000;
const TOOLS: &str = r#""tools": [
    {"name": "true", "description": "Does nothing", "exec": {"argv": ["true"]}},
    {"name": "post", "description": "Sends it on", "http": {"method": "POST", "url": "URL", "body": {"text": "{x}"}},
     "input": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}},
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

fn read_line(stdout: &mut impl BufRead) -> Vec<u8> {
    let mut line = Vec::new();
    assert!(stdout.read_until(b'\n', &mut line).unwrap() > 0, "the end instead of a line");
    line
}

/// Reads up to the line that holds `mark`.
fn read_to(stdout: &mut impl BufRead, mark: &str) {
    while !String::from_utf8_lossy(&read_line(stdout)).contains(mark) {}
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

/// Takes what it is sent by POST and says nothing of it. Returns its URL; its threads end with the bench.
fn sink() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().for_each(|stream| drop(std::thread::spawn(|| take(stream.unwrap())))));
    url
}

fn take(mut stream: TcpStream) {
    let mut from = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    let mut line = String::new();
    while from.read_line(&mut line).unwrap_or(0) > 0 {
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
        if line == "\r\n" {
            std::io::copy(&mut (&mut from).take(length), &mut std::io::sink()).unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        }
        line.clear();
    }
}

/// A long line and a ping right behind it, written by one thread while another reads the answers to both. Returns how long the
/// ping took from the moment the long line had been taken, and how long both took.
fn behind(long: &str, id: usize, stdin: &mut ChildStdin, stdout: &mut BufReader<ChildStdout>) -> (Duration, Duration) {
    let start = Instant::now();
    let (taken, answered) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            stdin.write_all(long.as_bytes()).unwrap();
            let taken = Instant::now();
            stdin.write_all(ping(id).as_bytes()).unwrap();
            taken
        });
        let mut answered = None;
        for _ in 0..2 {
            let line = read_line(stdout);
            // In the long line itself no such id stands.
            if line.len() < SHORT && String::from_utf8_lossy(&line).contains(&format!("\"id\":{id},")) {
                answered = Some(Instant::now());
            }
        }
        (writer.join().unwrap(), answered.expect("the ping is one of the two"))
    });
    (answered.saturating_duration_since(taken), answered - start)
}

/// A call of `tool` with as much of `fill` in its list as the line takes.
fn long_call(tool: &str, fill: &str) -> String {
    let around = call(LONG_ID, tool, r#"{"list":[]}"#).len() - 1;
    let list = fill.repeat((LINE - around) / fill.len());
    let line = call(LONG_ID, tool, &format!("{{\"list\":[{}]}}", list.trim_end_matches(',')));
    assert!(line.len() > LINE - 10 && line.len() <= LINE + 1);
    line
}

fn behind_a_long_line(what: &str, long: &str, gateway: &mut Gateway, echo: &mut Echo) {
    const RUNS: usize = 500;
    let (mut ours, mut bare) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for id in 1..=RUNS {
        let (ping, both) = behind(long, id, &mut gateway.stdin, &mut gateway.stdout);
        ours.0.push(ping);
        ours.1.push(both);
        let (ping, both) = behind(long, id, &mut echo.stdin, &mut echo.stdout);
        bare.0.push(ping);
        bare.1.push(both);
    }
    println!("busy: a line of 4 MiB, {what}");
    show("  a ping right behind it", ours.0);
    show("  beside: the same through cat", bare.0);
    show("  the line and the ping", ours.1);
    show("  beside: the same through cat", bare.1);
}

pub(crate) fn run() {
    let (mut gateway, mut echo) = (Gateway::start(&TOOLS.replace("URL", &sink())), Echo::start());
    pings("nothing else to do", 2000, &mut gateway, &mut echo);
    let text = |tool| {
        call(LONG_ID, tool, &format!(r#"{{"x":"{}"}}"#, "a".repeat(LINE - call(LONG_ID, tool, r#"{"x":""}"#).len() + 1)))
    };
    behind_a_long_line("one text, refused", &text("true"), &mut gateway, &mut echo);
    behind_a_long_line("one text, sent on", &text("post"), &mut gateway, &mut echo);
    behind_a_long_line("two million numbers", &long_call("true", "0,"), &mut gateway, &mut echo);
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
