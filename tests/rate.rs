//! How often and how many at once: what a tool's `rate` and `max_concurrent` let begin, and that nothing else spends them.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::peer::{Peer, json as json_answer};
use crate::kit::process::until;
use crate::kit::{cancel, modern_call, unique};

fn input() -> Value {
    json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 5}}})
}

/// A command with these members beside it.
fn tool(name: &str, script: &str, beside: Value) -> Value {
    let mut tool = json!({"name": name, "description": "Runs it", "input": input(), "exec": {"argv": ["sh", "-c", script, "sh", "{text}"]}});
    beside.as_object().unwrap().iter().for_each(|(key, value)| tool[key] = value.clone());
    tool
}

#[track_caller]
fn check(running: &mut Running, tool: &str, arguments: Value, code: &str, says: &str) {
    let reply = running.ask(&modern_call(format!("\"{}\"", unique()), tool, &arguments.to_string()));
    check_reply(&reply, code, says);
}

#[track_caller]
fn check_reply(reply: &Value, code: &str, says: &str) {
    let outcome = &reply["result"]["_meta"]["tidegate/outcome"];
    let executed = if code == "none" { "yes" } else { "no" };
    assert_eq!((outcome["code"].as_str().unwrap_or("none"), outcome["executed"].as_str()), (code, Some(executed)), "{reply}");
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(says), "{says:?} is not in {text:?}");
}

#[test]
fn a_rate_gives_its_burst_and_then_says_when() {
    let gateway = Gateway::new();
    let tools = json!([
        tool("seldom", "echo said", json!({"rate": {"per_minute": 1, "burst": 2}})),
        tool("often", "echo said", json!({}))
    ]);
    let mut running = gateway.set("tools", tools).start();
    // What is refused before it could begin spends nothing.
    for _ in 0..5 {
        check(&mut running, "seldom", json!({"text": "longer than 5"}), "bad_arguments", "arguments.text");
        check(&mut running, "seldom", json!({"text": "-x"}), "bad_arguments", "does not begin with -");
    }
    for _ in 0..2 {
        check(&mut running, "seldom", json!({}), "none", "said");
    }
    for _ in 0..3 {
        let says = "tidegate: rate_limited (executed: no): rate of tool \"seldom\": 1 a minute, burst 2; the next call is possible in ";
        check(&mut running, "seldom", json!({}), "rate_limited", says);
    }
    check(&mut running, "often", json!({}), "none", "said");
    let ended = running.end();
    let counters = ended.counters();
    assert_eq!(counters["refusals"], json!({"bad_arguments": 10, "rate_limited": 3}), "{counters}");
    assert_eq!(counters["executions"], json!({"ok": 3}), "{counters}");
    let journal = ended.dir.journal_under("state");
    assert_eq!(journal.iter().filter(|line| line["type"] == "intent").count(), 3);
    let refused = ended.dir.refusals_under("state");
    let paced: Vec<_> = refused.iter().filter(|record| record["reason"] == "rate_limited").collect();
    assert!(paced.len() == 3 && paced.iter().all(|record| record["stage"] == "pace"), "{refused:#?}");
}

#[test]
fn a_dry_run_spends_nothing() {
    let tools = json!([tool("seldom", "echo said", json!({"rate": {"per_minute": 1, "burst": 1}}))]);
    let mut running = Gateway::new().set("tools", tools).args(["--dry-run"]).start();
    for _ in 0..3 {
        let reply = running.ask(&modern_call(1, "seldom", "{}"));
        assert_eq!(reply["result"]["structuredContent"]["dry_run"], true, "{reply}");
    }
    running.end();
}

#[test]
fn the_gateways_own_tools_have_a_pace_too() {
    let peer = Peer::start(|_| json_answer("{}"));
    let allow = json!([{"host": "127.0.0.1", "port": peer.port()}]);
    let builtin = json!({"http_request": {"allow": allow, "rate": {"per_minute": 1, "burst": 1}}});
    let mut running = Gateway::new().set("builtin", builtin).start();
    let url = json!({ "url": peer.url() });
    check(&mut running, "http_request", json!({"url": "https://example.com/"}), "denied", "no allow rule matches");
    check(&mut running, "http_request", url.clone(), "none", "");
    check(&mut running, "http_request", url, "rate_limited", "rate of tool \"http_request\"");
    assert_eq!(peer.connections(), 1);
    running.end();
}

/// A tool that says that it has begun and waits for the FIFO `go`, unless its argument is `quick`.
fn waiting(gateway: Gateway, beside: Value) -> (Running, std::path::PathBuf) {
    let (begun, go) = (gateway.dir().join("begun"), gateway.dir().join("go"));
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let script = format!("[ \"$1\" = quick ] && exit; echo begun >> '{}'; cat '{}'", begun.display(), go.display());
    let tools = json!([tool("wait", &script, beside), tool("often", "echo said", json!({}))]);
    (gateway.set("tools", tools).start(), go)
}

fn begun(running: &Running, count: usize) {
    until("the command has begun", || running.dir.read("begun").lines().count() == count);
}

#[test]
fn no_more_run_at_once_than_allowed_and_a_slot_comes_back() {
    let rate = json!({"per_minute": 1, "burst": 3});
    let (mut running, go) = waiting(Gateway::new(), json!({"max_concurrent": 1, "rate": rate}));
    running.send(&modern_call(1, "wait", "{}"));
    begun(&running, 1);
    for _ in 0..3 {
        let says = "max_concurrent of tool \"wait\": expected at most 1 at once, got one more; wait for one to end";
        check(&mut running, "wait", json!({}), "busy", says);
    }
    check(&mut running, "often", json!({}), "none", "said");
    fs::write(&go, "gone").unwrap();
    check_reply(&running.reply("1"), "none", "gone");
    // Its slot is free once it is answered, and what was busy has spent no token.
    running.send(&modern_call(2, "wait", "{}"));
    begun(&running, 2);
    check(&mut running, "wait", json!({}), "busy", "max_concurrent");
    // After a cancel the slot comes back when the work has ended.
    running.send(&cancel(2));
    until("the slot of the cancelled call is free", || {
        let reply = running.ask(&modern_call(format!("\"{}\"", unique()), "wait", r#"{"text":"quick"}"#));
        reply["result"]["_meta"]["tidegate/outcome"]["code"] != "busy"
    });
    assert_eq!(running.dir.read("begun").lines().count(), 2);
    check(&mut running, "wait", json!({}), "rate_limited", "rate of tool \"wait\"");
    running.end();
}
