//! The records of what was refused: apart from the journal of actions, without a byte of what was sent, bounded, and never in
//! anybody's way.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::gateway::Gateway;
use crate::kit::installed::installed;
use crate::kit::process::peak_kib;
use crate::kit::{legacy_call, modern_call, unique};

const TOOLS: &str = r#"[{"name": "say", "description": "Says it", "exec": {"argv": ["echo", "{text}"]},
    "input": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}]"#;

fn gateway() -> Gateway {
    Gateway::of(installed()).tools(TOOLS).set("session", json!({"on_malformed": "continue"}))
}

fn shown<'a>(record: &'a Value, members: &[&str]) -> Vec<&'a Value> {
    members.iter().map(|member| &record[member]).collect()
}

#[test]
fn each_refusal_has_its_stage_its_reason_and_the_era_it_got_to() {
    let mark = unique();
    let mut running = gateway().says("not_json").says("wrong_version").start();
    running.send(&format!("{{bad {mark}"));
    running.send(&format!(r#"{{"jsonrpc":"1.0","id":1,"method":"{mark}"}}"#));
    running.send(&format!(r#"{{"jsonrpc":"2.0","method":"{mark}","params":[1]}}"#));
    running.send(&legacy_call(2, "say", &format!(r#"{{"text":"{mark}"}}"#)));
    running.initialize("2025-06-18");
    for id in [3, 4] {
        running.ask(&legacy_call(id, "say", &format!(r#"{{"wrong":"{mark}"}}"#)));
    }
    running.ask(&modern_call(5, "nothing", &format!(r#"{{"text":"{mark}"}}"#)));
    running.ask(&modern_call(6, "tidegate_status", &format!(r#"{{"text":"{mark}"}}"#)));
    let ended = running.end();
    let records = ended.dir.refusals_under("state");
    let got: Vec<_> = records.iter().map(|record| json!(shown(record, &["stage", "reason", "era", "seq"]))).collect();
    // Number 0 is the line that says who writes the file.
    let expected = [
        json!(["message", "not_json", null, 1]),
        json!(["message", "wrong_version", null, 2]),
        json!(["message", "bad_params", null, 3]),
        json!(["call", "invalid_params", "2024-11-05", 4]),
        json!(["action", "bad_arguments", "2025-06-18", 5]),
        json!(["action", "bad_arguments", "2025-06-18", 6]),
        json!(["call", "unknown_tool", "2026-07-28", 7]),
        json!(["action", "bad_arguments", "2026-07-28", 8]),
    ];
    assert_eq!(got, expected);
    assert_eq!(records[0]["bytes"], 5 + mark.len());
    for path in ended.dir.journal_files("state") {
        assert!(!fs::read_to_string(path).unwrap().contains(&mark));
    }
    assert!(ended.dir.journal_under("state").is_empty());
}

#[test]
fn fingerprints_tell_lines_apart_and_are_worth_nothing_elsewhere() {
    let prints = || {
        let mut running = gateway().says_anything().start();
        ["{bad", "{worse", "{bad"].iter().for_each(|line| running.send(line));
        running.probe();
        let ended = running.end();
        let records = ended.dir.refusals_under("state");
        records.iter().map(|record| record["fingerprint"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (first, second) = (prints(), prints());
    assert_eq!((first.len(), first[0].len()), (3, 64));
    assert!(first[0] == first[2] && first[0] != first[1] && first[0] != second[0], "{first:?} {second:?}");
}

#[test]
fn a_million_bad_lines_are_cheap_and_displace_no_record_of_an_action() {
    const LINES: usize = 1_000_000;
    const CHUNK: usize = 10_000;
    const MEMORY_KIB: u64 = 16 << 10;
    const DISK: u64 = 2 << 20;
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut running = gateway().says("refused a line").says("refused a line").says("refused a line").start();
    running.ask(&modern_call(1, "say", r#"{"text":"before"}"#));
    let began = Instant::now();
    running.flood("{bad\n".repeat(CHUNK).as_bytes(), LINES / CHUNK);
    running.ask(&modern_call(2, "say", r#"{"text":"behind"}"#));
    assert!(began.elapsed() < PATIENCE);
    let peak = peak_kib(running.pid());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    let ended = running.end();
    let counters = ended.counters();
    assert_eq!(counters["refusals"]["not_json"], LINES);
    let kinds: Vec<_> = ended.dir.journal_under("state").iter().map(|line| line["type"].clone()).collect();
    assert_eq!(kinds, ["session", "intent", "outcome", "intent", "outcome"]);
    let files = ended.dir.journal_files("state");
    let bytes: u64 = files.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(bytes <= DISK, "{bytes} bytes in {files:?}");
    let records = ended.dir.refusals_under("state");
    assert!(records.len() > 100, "only {}", records.len());
    let unrecorded = counters["refusals_unrecorded"].as_u64().unwrap();
    assert_eq!(records.len() as u64 + unrecorded, LINES as u64);
}

#[test]
fn without_a_place_for_records_refusals_are_counted_and_answered() {
    let gateway = gateway().says("what is refused cannot be recorded, only counted").says("not_json");
    gateway.dir().write("state", "in the way");
    let mut running = gateway.start();
    running.send("{bad");
    assert_eq!(running.next()["error"]["code"], -32700);
    let reply = running.ask(&modern_call(1, "nothing", "{}"));
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
    let counters = running.end().counters();
    assert_eq!(
        (&counters["refusals"], &counters["refusals_unrecorded"]),
        (&json!({"not_json": 1, "unknown_tool": 1}), &json!(2))
    );
}

#[test]
fn a_dry_run_keeps_no_records() {
    let mut running = gateway().args(["--dry-run"]).says("not_json").start();
    running.send("{bad");
    running.probe();
    let ended = running.end();
    assert_eq!(ended.counters()["refusals"], json!({"not_json": 1}));
    assert!(!ended.dir.join("state").exists());
}
