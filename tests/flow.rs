//! Flow at the real process boundary: a host that does not read stdout, or floods, or ends, or cancels at the worst moment.
//! Whole lines, one answer a request, work that ends when it is told to, memory with a bound, and always a next answer.
//!
//! Every wait is for an event that the pipes, the process table or the journal show.

mod blocked;
mod children;
mod long;
mod flood;
mod naive;
mod one;
mod races;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::kit::gateway::Running;
use crate::kit::pipes::Pipes;
use crate::kit::process::{threads, until};

/// `big`: a reply of several pipes, in which nothing is cut. `mark`: leaves a file, says far more than any limit, leaves a second
/// file once all of it was taken, and waits. `say`: answers at once.
fn tools(content_bytes: usize) -> String {
    let mark = r#"echo > "$0"; head -c 3000000 /dev/zero | tr '\0' y; echo > "$0.said"; exec sleep "$1""#;
    let text = json!({"type": "string"});
    json!([
        {"name": "big", "description": "Says much", "content_bytes": 512 << 10,
         "exec": {"argv": ["sh", "-c", format!("head -c {BIG} /dev/zero | tr '\\0' x")]}},
        {"name": "mark", "description": "Says more", "content_bytes": content_bytes,
         "exec": {"argv": ["sh", "-c", mark, "{file}", "{mark}"]},
         "input": {"type": "object", "properties": {"file": text, "mark": text}, "required": ["file", "mark"]}},
        {"name": "say", "description": "Says it", "exec": {"argv": ["echo", "said"]}},
    ])
    .to_string()
}

/// What `big` says, in bytes: three pipes, twice in a reply.
const BIG: usize = 200_000;

/// Arguments of `mark`.
fn marking(file: &Path, mark: &str) -> String {
    json!({"file": file, "mark": mark}).to_string()
}

#[track_caller]
fn check_big(reply: &Value) {
    let stdout = &reply["result"]["structuredContent"]["stdout"];
    assert_eq!((&stdout["bytes"], &stdout["truncated"]), (&json!(BIG), &json!(false)), "{:.500}", reply.to_string());
    assert_eq!(stdout["text"].as_str().unwrap().len(), BIG);
}

#[track_caller]
fn check_said(reply: &Value) {
    assert_eq!(reply["result"]["structuredContent"]["stdout"]["text"], "said\n", "{:.500}", reply.to_string());
}

/// `tidegate: CODE (…`, `ok` for success.
fn code(reply: &Value) -> &str {
    reply["result"]["_meta"]["tidegate/outcome"]["code"].as_str().unwrap_or("ok")
}

/// Waits until stdout holds all it can and the writer waits for room. No byte of it was read, and what came first was a reply
/// larger than the pipe, so that the writer stands in the middle of it.
#[track_caller]
fn wait_for_blocked_writer(gateway: &Running, pipes: &Pipes) {
    until("stdout is full", || {
        let unread = pipes.stdout();
        unread.bytes == unread.capacity
    });
    until("the writer waits", || is_asleep(gateway.pid(), "tg-writer"));
}

/// Whether the thread of this name sleeps, in whatever call.
fn is_asleep(pid: u32, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    let its = stats.find(|stat| stat.contains(&format!("({name})"))).unwrap_or_else(|| panic!("no thread {name}"));
    its.rsplit(')').next().unwrap().trim_start().starts_with('S')
}

/// Waits until no worker has anything to do: what was in the journal when this was called has become a reply.
#[track_caller]
pub(crate) fn wait_for_idle_workers(gateway: &Running) {
    let is_idle = |name: &String| is_asleep(gateway.pid(), name);
    // In this order: a journal that sleeps has told the workers, and a worker that was told does not sleep.
    until("the journal has told the workers", || is_asleep(gateway.pid(), "tg-journal"));
    until("the workers have nothing to do", || {
        threads(gateway.pid()).iter().filter(|name| name.starts_with("tg-worker")).all(is_idle)
    });
}

/// How many answers each id has, by its JSON text.
fn answers(messages: &[Value]) -> HashMap<String, usize> {
    let mut answers = HashMap::new();
    for message in messages {
        *answers.entry(message["id"].to_string()).or_default() += 1;
    }
    answers
}
