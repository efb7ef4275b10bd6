//! `flood`: lines in one burst, answered or refused; beside the same bytes handed back by `cat`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::gateway::{Gateway, TOOLS};

const LINES: usize = 200_000;
const ROUNDS: usize = 3;

/// The last answer of a burst, and only that, holds this.
const LAST: &str = "\"id\":\"last\"";

fn ping(id: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")
}

/// Writes all of it in one go; how long it takes until the last line's answer is there.
fn burst(lines: &str, stdin: &mut ChildStdin, stdout: &mut BufReader<ChildStdout>) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| stdin.write_all(lines.as_bytes()).unwrap());
        let mut line = Vec::new();
        while !line.windows(LAST.len()).any(|window| window == LAST.as_bytes()) {
            line.clear();
            assert!(stdout.read_until(b'\n', &mut line).unwrap() > 0, "the end instead of the last answer");
        }
    });
    start.elapsed()
}

fn check(name: &str, lines: &str) {
    let mut gateway = Gateway::start(&format!(r#""session": {{"on_malformed": "continue"}}, {TOOLS}"#));
    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (cat.stdin.take().unwrap(), BufReader::new(cat.stdout.take().unwrap()));
    let (mut ours, mut bare) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        ours = ours.min(burst(lines, &mut gateway.stdin, &mut gateway.stdout));
        bare = bare.min(burst(lines, &mut stdin, &mut stdout));
    }
    let a_second = |time: Duration| LINES as f64 / time.as_secs_f64();
    println!(
        "flood: {name}: {:.0} a second; beside: the same lines through cat {:.0} (best of {ROUNDS})",
        a_second(ours),
        a_second(bare)
    );
    drop(stdin);
    stdout.read_to_end(&mut Vec::new()).unwrap();
    assert!(cat.wait().unwrap().success());
    gateway.end();
}

pub(crate) fn run() {
    let last = ping("\"last\"");
    let pings: String = (0..LINES).map(|id| ping(&id.to_string())).collect();
    check("pings answered", &(pings + &last));
    check("lines refused", &("{bad\n".repeat(LINES) + &last));
}
