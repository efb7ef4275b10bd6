//! Configurations as the gateway takes them at its start: with what is asked of people in them, and refused whole where that is
//! not sound.

use serde_json::Value;

use crate::kit::gateway::{Ended, Gateway};
use crate::kit::modern_call;

const TOOL: &str = r#"{"name": "say", "description": "Says it", "confirm": "session", "exec": {"argv": ["touch", "said"]}}"#;

/// A gateway with this text as its configuration, written as it stands.
fn gateway(text: &str) -> Gateway {
    let gateway = Gateway::new();
    let path = gateway.dir().write("given.json", text);
    gateway.args(["--config".into(), path.into_os_string()])
}

/// One that says each of `told` and ends before its session.
#[track_caller]
fn check_refused(text: &str, told: &[&str]) {
    let gateway = told.iter().fold(gateway(text).exit(78), |gateway, line| gateway.says(line));
    let Ended { stdout, .. } = gateway.start().wait();
    assert_eq!(stdout, b"", "{text}");
}

#[test]
fn who_is_asked_is_configured_and_what_is_odd_about_it_is_told() {
    let text = format!(
        r#"{{"log": {{"level": "warn"}},
 "approvals": {{"timeout_s": 30, "command": ["touch", "asked"], "operators": [0, 1000],
  "order": ["client", "operator", "command"]}},
 "builtin": {{"http_request": {{"allow": [{{"host": "a.test"}}], "confirm": "ask"}}}},
 "tools": [{TOOL}]}}"#
    );
    let note = r#"given.json:3:35: /approvals/order/2: "command" stands behind "operator", who can always be asked, so it is never asked"#;
    let mut running = gateway(&text).says(note).start();
    let reply = running.ask(&modern_call(1, "tidegate_status", "{}"));
    let notes = reply["result"]["structuredContent"]["notes"].as_array().unwrap();
    assert!(notes.len() == 1 && notes[0].as_str().is_some_and(|said| said.ends_with(note)), "{notes:?}");
    assert_eq!(reply["result"]["structuredContent"]["tools"], Value::from(2));
    running.end();
}

#[test]
fn what_is_not_sound_about_it_starts_nothing() {
    check_refused(
        "{\"approvals\": {\"order\": [\"client\", \"command\"],\n \"timeout_s\": 0.5, \"operators\": [\"root\"]}}",
        &[
            r#"/given.json:1:36: /approvals/order/1: "command" in "order" needs the key "command" beside it"#,
            "/given.json:2:15: /approvals/timeout_s: expected seconds from 1 to 3600, got 0.5",
            "/given.json:2:34: /approvals/operators/0: expected a whole number, got a string",
        ],
    );
    check_refused(
        "{\"approvals\": {\"order\": [\"client\"],\n \"command\": [\"touch\", \"asked\"]}}",
        &[r#"/given.json:2:2: /approvals/command: "order" does not name "command", so this program would never be asked"#],
    );
    check_refused(
        "{\"approvals\": {\"order\": [\"client\", \"client\"]}}",
        &[r#"/given.json:1:36: /approvals/order/1: expected each approver once, got "client" again"#],
    );
    check_refused(
        &format!("{{\"tools\": [\n{}]}}", TOOL.replace("session", "always")),
        &[r#"/given.json:2:54: /tools/0/confirm: expected one of "never", "ask", "session", got "always""#],
    );
}
