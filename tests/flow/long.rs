//! Long lines: judged in little memory, even if they are full of values of two bytes each; and their calls begin, whatever stands
//! behind them.

use std::path::Path;

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::installed::installed;
use crate::kit::process::until;
use crate::kit::{modern_call, process};

use super::{check_big, tools, wait_for_blocked_writer};

const LINE_BYTES: usize = 4 << 20;
/// All lines that are admitted at once, and as much again several times over; unread they take 16 MiB themselves.
const MEMORY_KIB: u64 = 64 << 10;

fn gateway(item: Value) -> Gateway {
    let tools = json!([{"name": "count", "description": "Counts", "exec": {"argv": ["true", "{list}"]},
        "input": {"type": "object", "properties": {"list": {"type": "array", "items": item}}}}]);
    Gateway::of(installed()).set("tools", tools)
}

/// A call whose list is filled with `fill(n)` for each n from 0 on, as long as the line may be.
fn call(id: usize, open: &str, fill: impl Fn(usize) -> String, close: &str) -> String {
    let mut list = open.to_owned();
    for n in 0.. {
        let part = fill(n);
        if list.len() + part.len() + 500 > LINE_BYTES {
            break;
        }
        list.push_str(&part);
    }
    let line = modern_call(id, "count", &format!("{{\"list\":{}{close}}}", list.trim_end_matches(',')));
    assert!(line.len() > LINE_BYTES - 1000 && line.len() <= LINE_BYTES, "{}", line.len());
    line
}

#[track_caller]
fn check_refused(running: &mut Running, ids: std::ops::Range<usize>, says: &str) {
    let replies: Vec<Value> = ids.clone().map(|_| running.next()).collect();
    for id in ids {
        let reply = replies.iter().find(|reply| reply["id"] == id).unwrap_or_else(|| panic!("no answer to {id}: {replies:?}"));
        let outcome = &reply["result"]["_meta"]["tidegate/outcome"];
        assert_eq!((&outcome["code"], &outcome["executed"]), (&json!("bad_arguments"), &json!("no")), "{reply}");
        assert_eq!(reply["result"]["content"][0]["text"], format!("tidegate: bad_arguments (executed: no): {says}"));
    }
}

#[test]
fn arguments_of_countless_values_are_refused_in_little_memory() {
    const SAYS: &str = "arguments: expected at most 250000 values, names of members counted, got more";
    let mut running = gateway(json!(true)).start();
    let lines: [String; 4] = [
        call(0, "[", |_| "0,".to_owned(), "]"),
        call(1, "[", |_| "[],".to_owned(), "]"),
        call(2, "[", |_| r#""\n","#.to_owned(), "]"),
        call(3, "[{", |n| format!("\"{n:x}\":0,"), "}]"),
    ];
    for _ in 0..3 {
        lines.iter().for_each(|line| running.send(line));
        check_refused(&mut running, 0..4, SAYS);
    }
    let peak = process::peak_kib(running.pid());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    running.end();
}

#[test]
fn arguments_that_take_too_long_to_check_are_refused_and_say_so() {
    let digit = json!({"type": "integer", "minimum": 0, "maximum": 9, "multipleOf": 1, "enum": [0, 1]});
    let mut running = gateway(digit).start();
    running.send(&modern_call(0, "count", &format!("{{\"list\":[{}]}}", vec!["0"; 240_000].join(","))));
    check_refused(&mut running, 0..1, "arguments: too large or too deep to be checked, so refused");
    running.end();
}

/// An argument as long as a command takes it; with what stands around it, its line is longer than one read.
const LONG_BYTES: usize = 65_400;
const READ_BYTES: usize = 64 << 10;

/// Leaves `mine` and waits for `theirs`.
const MEET: &str = r#"echo > "$0"; until [ -e "$1" ]; do sleep 0.01; done"#;

fn meeting() -> Value {
    let text = json!({"type": "string"});
    json!({"name": "meet", "description": "Waits for another", "exec": {"argv": ["sh", "-c", MEET, "{mine}", "{theirs}", "{pad}"]},
        "input": {"type": "object", "properties": {"mine": text, "theirs": text, "pad": text}, "required": ["mine", "theirs"]}})
}

fn meet(id: usize, mine: &Path, theirs: &Path, pad: usize) -> String {
    let arguments = json!({"mine": mine, "theirs": theirs, "pad": "x".repeat(pad)});
    let line = format!("{}\n", modern_call(id, "meet", &arguments.to_string()));
    assert!(pad < LONG_BYTES || line.len() > READ_BYTES + 1, "{}", line.len());
    line
}

#[test]
fn long_calls_that_come_at_once_run_at_once() {
    let mut running = Gateway::new().set("tools", json!([meeting()])).start();
    // The first time workers are started, the second time they are woken.
    for pad in [1, LONG_BYTES] {
        let files = ["one", "two"].map(|name| running.dir.join(&format!("{name}-{pad}")));
        let calls = [meet(1, &files[0], &files[1], pad), meet(2, &files[1], &files[0], pad)];
        running.send_raw(calls.concat().as_bytes());
        let replies = [running.reply("1"), running.reply("2")];
        assert!(replies.iter().all(|reply| reply["result"]["isError"] == false), "{replies:?}");
    }
    running.end();
}

#[test]
fn a_long_call_begins_although_the_answer_behind_it_cannot_leave() {
    let mut all: Value = serde_json::from_str(&tools(4096)).unwrap();
    all.as_array_mut().unwrap().push(meeting());
    let (mut running, pipes) = Gateway::new().set("tools", all).stdout_held().start_watched();
    running.send(&modern_call(0, "big", "{}"));
    wait_for_blocked_writer(&running, &pipes);
    let file = running.dir.join("begun");
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n";
    running.send_raw(format!("{}{ping}", meet(1, &file, &file, LONG_BYTES)).as_bytes());
    until("the call has begun", || file.exists());
    running.read_on();
    check_big(&running.next());
    assert_eq!(running.reply("2")["result"], json!({}));
    assert_eq!(running.reply("1")["result"]["isError"], false);
    drop(pipes);
    running.end();
}
