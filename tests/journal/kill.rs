//! kill -9 at any moment: what was done has an intent on disk, what is not known to be finished is said to be unknown, and the
//! journals are sound.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use serde_json::json;

use super::{check_sound, findings, text, verified};
use crate::kit::gateway::Gateway;
use crate::kit::installed::installed;
use crate::kit::modern_call;
use crate::kit::process::{check_gone, mark, until, with_mark};

const KILLS: u64 = 200;
/// Calls sent at once: more than there are workers.
const CALLS: u64 = 24;
/// Within this a start, all calls and some idle time fit.
const MOMENTS: Duration = Duration::from_millis(120);

/// Numbers that are the same in every run and otherwise without order.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // Knuth, The Art of Computer Programming 2, 3.3.4: the multiplier of MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn digest_of(arguments: &str) -> String {
    digest(&SHA256, arguments.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn whatever_was_done_has_an_intent_and_the_journals_are_sound() {
    let mark = mark();
    let mut gateway = Gateway::of(installed());
    let target = gateway.dir().join("target");
    // One write of one line to a file that is opened for appending.
    let script = format!("echo \"$0\" >> {}; : {mark}", target.display());
    gateway = gateway.set(
        "tools",
        json!([{"name": "note", "description": "Notes", "exec": {"argv": ["sh", "-c", script, "{token}"]},
            "input": {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}}]),
    );
    let mut command = gateway.command();
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let (mut random, mut killed_early) = (Random(1), 0);
    for kill in 0..KILLS {
        let mut child = command.spawn().unwrap();
        let calls = (0..CALLS).map(|id| modern_call(id, "note", &format!(r#"{{"token":"{kill}-{id}"}}"#)) + "\n");
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(calls.collect::<String>().as_bytes()).unwrap();
        std::thread::park_timeout(Duration::from_micros(random.below(MOMENTS.as_micros() as u64)));
        killed_early += u64::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(killed_early, KILLS, "each was running");
    until("commands that were on their way have ended", || with_mark(&mark).is_empty());
    check_gone(&mark);

    let dir = gateway.dir();
    let intents: HashMap<String, u64> = dir
        .journal_under("state")
        .iter()
        .filter(|line| line["type"] == "intent")
        .map(|line| (text(&line["args_sha256"]).to_owned(), line["call"].as_u64().unwrap()))
        .collect();
    let done = dir.read("target");
    let done: HashSet<&str> = done.lines().collect();
    for token in &done {
        let arguments = format!(r#"{{"token":"{token}"}}"#);
        assert!(intents.contains_key(&digest_of(&arguments)), "{token} was done without an intent");
    }
    let verdict = check_sound(&dir.join("state"));
    let outcomes = dir.journal_under("state").iter().filter(|line| line["type"] == "outcome").count() as u64;
    assert_eq!(verdict["unknown"].as_u64().unwrap() + outcomes, intents.len() as u64, "{verdict}");
    // The moments were of all kinds: before anything, between intent and outcome, behind it.
    let (unknown, all) = (verdict["unknown"].as_u64().unwrap(), KILLS * CALLS);
    let is_mixed = unknown > KILLS / 4 && outcomes > KILLS / 4 && (done.len() as u64) < all;
    assert!(is_mixed, "{verdict}, {outcomes} outcomes, {} done", done.len());
    // Each is named at the line of its intent.
    let (_, said) = verified(&dir.join("state"), &[]);
    for finding in findings(&said).iter().filter(|finding| finding.starts_with("unknown ")) {
        let (file, line) = finding["unknown ".len()..].split_once(':').unwrap();
        let journal = dir.read(&format!("state/journal/{file}"));
        let line = journal.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap();
        assert!(line.contains(r#""type":"intent""#), "{finding}: {line}");
    }
}
