//! Rubbish without end, in `continue` mode: cheap in time and memory, few answers, hardly a line for the operator, and the
//! next request is answered at once.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::kit::gateway::Gateway;
use crate::kit::installed::installed;
use crate::kit::{process, within};

/// What an operator may be told of a flood: three refused lines, one more a minute, the counters.
const TOLD: usize = 6;

/// Lines of one flood. A million takes five times as long and shows nothing more.
const LINES: usize = 200_000;
const MEMORY_KIB: u64 = 16 << 10;
/// What answers without an id may come: a burst, then one a second.
const BURST: u64 = 10;

fn gateway() -> Gateway {
    Gateway::of(installed())
        .set("session", json!({"on_malformed": "continue"}))
        .says_anything()
        .set("log", json!({"level": "trace"}))
}

/// Sends `LINES` lines, by turns those given, and then a request; how long that one took.
fn flood(lines: &[&[u8]], refusal: &str) -> Duration {
    const CHUNK: usize = 1000;
    let mut gateway = gateway().start();
    gateway.probe();
    let chunk: Vec<u8> = lines.iter().cycle().take(CHUNK).flat_map(|line| [line, &b"\n"[..]].concat()).collect();
    let began = Instant::now();
    (0..LINES / CHUNK).for_each(|_| gateway.send_raw(&chunk));
    let asked = Instant::now();
    let answers = u64::try_from(gateway.probe().len()).unwrap();
    let took = asked.elapsed();
    assert!(answers <= BURST + 1 + began.elapsed().as_secs(), "{answers} answers without an id");
    let peak = process::peak_kib(gateway.pid());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    let ended = gateway.end();
    assert!(ended.stderr.contains(refusal), "{}", ended.stderr);
    assert!(ended.stderr.lines().count() <= TOLD, "the operator is told of each line: {}", ended.stderr);
    took
}

#[test]
fn bad_lines_without_end_are_cheap_and_change_nothing() {
    const AT_ONCE: Duration = Duration::from_millis(500);
    within(AT_ONCE, || flood(&[b"{bad"], &format!("\"not_json\":{LINES}")));
    let mixed: [&[u8]; 10] = [
        b"DEBUG: 42 modules fetched",
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
        b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}",
        b"Content-Length: 46\r",
        b"\x1b[2J\x1b]0;title\x07",
    ];
    within(AT_ONCE, || flood(&mixed, &format!("\"not_json\":{}", LINES / 10 * 2)));
}

#[test]
fn lines_over_the_limit_without_end_take_no_memory_r015() {
    const LIMIT: usize = 64 << 10;
    let mut gateway = gateway().set("limits", json!({"line_in_bytes": LIMIT})).start();
    let line = [vec![b'A'; 2 * LIMIT], b"\n".to_vec()].concat();
    const MANY: u64 = 500;
    let began = Instant::now();
    (0..MANY).for_each(|_| gateway.send_raw(&line));
    let answers = u64::try_from(gateway.probe().len()).unwrap();
    assert!((1..=BURST + 1 + began.elapsed().as_secs()).contains(&answers), "{answers} answers");
    let peak = process::peak_kib(gateway.pid());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    let stderr = gateway.end().stderr;
    assert!(stderr.contains(&format!("\"line_too_long\":{MANY}")) && stderr.lines().count() <= TOLD, "{stderr}");
}

/// Whoever can be answered is, however many; what waits for a slow reader has a bound.
#[test]
fn bad_requests_with_an_id_are_all_answered() {
    const MANY: usize = 3000;
    let mut gateway = gateway().start();
    let lines: Vec<String> = (0..MANY).map(|id| format!("{{\"jsonrpc\":\"1.0\",\"id\":{id},\"method\":\"ping\"}}")).collect();
    gateway.send_raw((lines.join("\n") + "\n").as_bytes());
    for id in 0..MANY {
        assert_eq!(gateway.next()["id"], id);
    }
    assert!(gateway.end().stderr.lines().count() <= TOLD);
}
