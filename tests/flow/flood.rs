//! Calls without end from a host that does not read: memory stays near its bound, and once the host reads, every request has
//! its one answer.

use std::io::Write;

use serde_json::{Value, json};

use crate::kit::gateway::Gateway;
use crate::kit::modern_call;
use crate::kit::process::{peak_kib, until};

use super::{answers, code, is_asleep, wait_for_idle_workers};

const CONTENT: usize = 512 << 10;
const MEMORY_KIB: u64 = 64 << 10;
/// What a read in the middle of a page leaves unused in a full pipe is less.
const PAGE: usize = 4096;
/// 16 MiB of replies, each with 8 KiB and its id beside its content.
const ADMITTED: usize = (16 << 20) / (CONTENT + (8 << 10) + 4);

/// `fill` says as much as a reply of half a mebibyte can show, counted twice.
fn gateway() -> Gateway {
    let script = format!("head -c {} /dev/zero | tr '\\0' x", CONTENT / 2 - 1024);
    let tools =
        json!([{"name": "fill", "description": "Fills it", "content_bytes": CONTENT, "exec": {"argv": ["sh", "-c", script]}}]);
    Gateway::new().set("tools", tools).set("journal", json!({"sync": "intents"}))
}

fn is_outcome(record: &Value) -> bool {
    record["type"] == "outcome"
}

/// The report's own case: four hundred calls of 512 KiB, of which nothing is ever read.
#[test]
fn four_hundred_large_results_that_nobody_reads_take_the_memory_set_aside_for_replies_r043() {
    const CALLS: usize = 400;
    let (mut gateway, pipes) = gateway().stdout_held().start_watched();
    (0..CALLS).for_each(|id| gateway.send(&modern_call(id, "fill", "{}")));
    until("all calls are read", || pipes.is_stdin_read());
    until("what was admitted has run", || gateway.journal().iter().filter(|record| is_outcome(record)).count() == ADMITTED);
    wait_for_idle_workers(&gateway);
    let peak = peak_kib(gateway.pid());
    eprintln!("flow: 400 calls of 512 KiB, unread: peak {peak} KiB");
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    drop(pipes);
    gateway.signal("TERM");
    gateway.ended_with_stdout_unread();
}

/// Ten thousand of them, written by a host that reads only once the gateway takes nothing more.
#[test]
fn ten_thousand_calls_of_a_host_that_reads_late_have_one_answer_each_r042_r043() {
    const CALLS: usize = 10_000;
    let (mut gateway, pipes) = gateway().stdout_held().start_watched();
    let lines: String = (0..CALLS).map(|id| modern_call(id, "fill", "{}") + "\n").collect();
    let mut stdin = gateway.writer();
    let host = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    until("what was admitted has run", || gateway.journal().iter().filter(|record| is_outcome(record)).count() >= ADMITTED);
    // A reader that sleeps in front of a full stdin has left it out of its wait: there is no room for its own answers.
    let is_full = || pipes.stdin().bytes + PAGE > pipes.stdin().capacity;
    until("stdin is left unread", || is_full() && is_asleep(gateway.pid(), "tg-reader") && is_full());
    assert!(!host.is_finished(), "ten thousand calls were read and nothing of the answers");
    let unread = peak_kib(gateway.pid());

    gateway.read_on();
    let replies: Vec<Value> = (0..CALLS).map(|_| gateway.next()).collect();
    host.join().unwrap();
    let rest = gateway.probe();
    assert!(rest.is_empty(), "more answers than calls: {rest:?}");
    let answers = answers(&replies);
    assert!((0..CALLS).all(|id| answers.get(&id.to_string()) == Some(&1)), "a call has no answer, or two");
    let carried_out = replies.iter().filter(|reply| code(reply) == "ok").count();
    assert_eq!(carried_out + replies.iter().filter(|reply| code(reply) == "busy").count(), CALLS);
    let peak = peak_kib(gateway.pid());
    eprintln!(
        "flow: 10,000 calls of 512 KiB: peak {unread} KiB unread, {peak} KiB in all; {carried_out} carried out, the others busy"
    );
    assert!(carried_out >= ADMITTED);
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    drop(pipes);
    let counters = gateway.end().counters();
    assert_eq!((&counters["frames_in"], &counters["frames_out"]), (&json!(CALLS + 1), &json!(CALLS + 1)));
}
