//! Real clients that ask their user: both official SDKs, `fastmcp`, Codex and Claude Code, each in every revision it speaks.
//!
//! Drivers beside this file answer for the user and print what the client saw. That a command ran is seen in a file it writes, and
//! who was asked in the journal. No client has a network: what does not go to loopback goes to a proxy that is not there.

use std::fs::File;
use std::process::Command;

use serde_json::{Value, json};

use super::{bare, gateway, installed, python, run, script};
use crate::approvals::story;
use crate::kit::dir::Dir;
use crate::kit::process::{until, with_mark};

/// Which driver with which words behind it, and the revision that comes of it.
type Client = (Driver, &'static [&'static str], &'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Driver {
    Python,
    TypeScript,
    Codex,
    ClaudeCode,
}

const PYTHON_SDK: [Client; 2] =
    [(Driver::Python, &["mcp", "auto"], "2026-07-28"), (Driver::Python, &["mcp", "legacy"], "2025-11-25")];
const FASTMCP: [Client; 2] =
    [(Driver::Python, &["fastmcp", "auto"], "2026-07-28"), (Driver::Python, &["fastmcp", "legacy"], "2025-11-25")];
const TYPESCRIPT_SDK: [Client; 3] = [
    (Driver::TypeScript, &["v1"], "2025-06-18"),
    (Driver::TypeScript, &["v2", "auto"], "2026-07-28"),
    (Driver::TypeScript, &["v2", "legacy"], "2025-11-25"),
];
const CODEX: [Client; 1] = [(Driver::Codex, &[], "2025-06-18")];
const CLAUDE_CODE: [Client; 1] = [(Driver::ClaudeCode, &[], "2026-07-28")];

#[test]
fn the_python_sdk_brings_a_yes_or_a_no() {
    PYTHON_SDK.into_iter().for_each(check_yes_and_no);
}

#[test]
fn fastmcp_brings_a_yes_or_a_no() {
    FASTMCP.into_iter().for_each(check_yes_and_no);
}

#[test]
fn the_typescript_sdk_brings_a_yes_or_a_no() {
    TYPESCRIPT_SDK.into_iter().for_each(check_yes_and_no);
}

#[test]
fn codex_brings_a_yes_or_a_no() {
    CODEX.into_iter().for_each(check_yes_and_no);
}

#[test]
fn claude_code_brings_a_yes_or_a_no() {
    CLAUDE_CODE.into_iter().for_each(check_yes_and_no);
}

#[test]
fn the_python_sdk_asks_once_where_a_yes_stands() {
    PYTHON_SDK.into_iter().chain(FASTMCP).for_each(check_standing);
}

#[test]
fn the_typescript_sdk_asks_once_where_a_yes_stands() {
    TYPESCRIPT_SDK.into_iter().for_each(check_standing);
}

#[test]
fn codex_and_claude_code_ask_once_where_a_yes_stands() {
    CODEX.into_iter().chain(CLAUDE_CODE).for_each(check_standing);
}

#[test]
fn an_answer_after_the_time_through_the_python_sdk_is_none() {
    PYTHON_SDK.into_iter().chain(FASTMCP).for_each(check_late);
}

#[test]
fn an_answer_after_the_time_through_the_typescript_sdk_is_none() {
    TYPESCRIPT_SDK.into_iter().for_each(check_late);
}

#[test]
fn an_answer_after_the_time_through_claude_code_is_none() {
    CLAUDE_CODE.into_iter().for_each(check_late);
}

#[test]
fn codex_hears_that_nobody_answered() {
    let scene = Scene::new("ask", 1);
    let seen = scene.drive(CODEX[0], &["one"], json!({"answers": []}));
    check_question(&seen["questions"][0], CODEX[0], "one", &["once", "deny"]);
    check_refused(&seen["steps"][0], "approval_timeout");
    scene.check(&[], &["question", "answer:timed_out"]);
}

#[test]
fn claude_code_with_nobody_to_ask_brings_a_no() {
    let scene = Scene::new("ask", 60);
    let seen = scene.drive(CLAUDE_CODE[0], &["one"], json!({"answers": []}));
    check_refused(&seen["steps"][0], "approval_denied");
    scene.check(&[], &["question", "answer:no"]);
}

/// A yes and the three kinds of no, in one session.
#[track_caller]
fn check_yes_and_no(client: Client) {
    let scene = Scene::new("ask", 60);
    let answers = json!([
        {"action": "accept", "content": {"decision": "once"}},
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept", "content": {"decision": "deny"}},
    ]);
    let calls = ["yes", "declined", "closed", "denied"];
    let seen = scene.drive(client, &calls, json!({"answers": answers}));
    assert_eq!(seen["questions"].as_array().map(Vec::len), Some(4), "{client:?}: {seen}");
    for (at, text) in calls.iter().enumerate() {
        check_question(&seen["questions"][at], client, text, &["once", "deny"]);
    }
    check_done(&seen["steps"][0]);
    (1..4).for_each(|at: usize| check_refused(&seen["steps"][at], "approval_denied"));
    let no = ["question", "answer:no"];
    scene.check(&["yes"], &[&["question", "answer:yes", "intent", "outcome:ok"], &no[..], &no, &no].concat());
    let journal = scene.dir.journal_under("state");
    let intent = journal.iter().find(|record| record["type"] == "intent").expect("an intent");
    assert_eq!(intent["era"], client.2, "{client:?}");
}

/// A yes until the gateway ends: the second call asks nobody.
#[track_caller]
fn check_standing(client: Client) {
    let scene = Scene::new("session", 60);
    let answers = json!([{"action": "accept", "content": {"decision": "session"}}]);
    let seen = scene.drive(client, &["one", "two"], json!({"answers": answers}));
    assert_eq!(seen["questions"].as_array().map(Vec::len), Some(1), "{client:?}: {seen}");
    check_question(&seen["questions"][0], client, "one", &["once", "session", "deny"]);
    [0, 1].iter().for_each(|at: &usize| check_done(&seen["steps"][*at]));
    let story = ["question", "answer:yes_for_session", "intent", "outcome:ok", "intent", "outcome:ok"];
    scene.check(&["one", "two"], &story);
}

/// A yes that comes half a second after the time is over.
#[track_caller]
fn check_late(client: Client) {
    let scene = Scene::new("ask", 1);
    let answers = json!([{"action": "accept", "content": {"decision": "once"}}]);
    let seen = scene.drive(client, &["one"], json!({"answers": answers, "after_s": 1.5}));
    check_refused(&seen["steps"][0], "approval_timeout");
    // Without a handshake the gateway never knows whether somebody is still thinking.
    let is_modern = client.2 == "2026-07-28";
    assert_eq!(seen["steps"][0].get("error").is_some() || client.0 == Driver::ClaudeCode, is_modern, "{client:?}: {seen}");
    scene.check(&[], if is_modern { &["question"] } else { &["question", "answer:timed_out"] });
}

/// The client shows what is asked, and its form offers these choices as the revision writes them.
#[track_caller]
fn check_question(question: &Value, client: Client, text: &str, choices: &[&str]) {
    let message = question["message"].as_str().unwrap_or_else(|| panic!("{client:?}: no message in {question}"));
    assert!(message.contains("the tool write") && message.contains(&format!("\"{text}\"]")), "{client:?}: {message}");
    let decision = &question["schema"]["properties"]["decision"];
    let offered: Vec<&Value> = match client.2 {
        "2025-06-18" => decision["enum"].as_array().into_iter().flatten().collect(),
        _ => decision["oneOf"].as_array().into_iter().flatten().map(|choice| &choice["const"]).collect(),
    };
    assert_eq!(offered, choices, "{client:?}: {question}");
}

#[track_caller]
fn check_done(step: &Value) {
    assert_eq!(step["is_error"], false, "{step}");
    // Claude Code shows its model the content alone.
    assert!(step.get("outcome").is_none_or(|outcome| outcome["executed"] == "yes"), "{step}");
}

/// The call was refused, as a failed result or as an error of the request.
#[track_caller]
fn check_refused(step: &Value, code: &str) {
    let said = if step["is_error"] == true { &step["text"][0] } else { &step["error"]["message"] };
    let begin = format!("tidegate: {code} (executed: no): ");
    // Claude Code puts words of its own before the message of an error.
    assert!(said.as_str().is_some_and(|said| said.contains(&begin)), "{begin:?} expected: {step}");
    assert!(step.get("outcome").is_none_or(|outcome| outcome["code"] == code && outcome["executed"] == "no"), "{step}");
}

/// A configuration with one tool, which writes its text to a file.
struct Scene {
    dir: Dir,
}

impl Scene {
    fn new(confirm: &str, timeout_s: u64) -> Scene {
        let dir = Dir::new();
        let done = dir.join("done").display().to_string();
        let config = json!({"state_dir": dir.join("state"), "approvals": {"order": ["client"], "timeout_s": timeout_s}, "tools": [
            {"name": "write", "description": "Writes a text to a file", "confirm": confirm,
             "input": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
             "exec": {"argv": ["sh", "-c", r#"echo "$2" >>"$1""#, "sh", done, "{text}"]}}
        ]});
        dir.write("config.json", config.to_string());
        Scene { dir }
    }

    /// What the client saw that made these calls; `plan` says how its user answers. Every process of it is gone then.
    #[track_caller]
    fn drive(&self, client: Client, texts: &[&str], mut plan: Value) -> Value {
        let path = |name: &str| self.dir.join(name).display().to_string();
        // The gateway takes the shell's place, so that a client's signals reach it.
        let server = ["/bin/sh", "-c", r#"exec "$@" 2>>"$0""#, &path("stderr"), &gateway(), "serve", "--config"];
        plan["server"] = server.iter().map(|word| Value::from(*word)).chain([path("config.json").into()]).collect();
        plan["steps"] = texts.iter().map(|text| json!({"tool": "write", "arguments": {"text": text}})).collect();
        let plan = self.dir.write("plan.json", plan.to_string());
        let mut command = self.driver(client);
        command.current_dir(self.dir.path()).stdin(File::open(plan).unwrap());
        command.env("HOME", self.dir.path()).env("TMPDIR", self.dir.path()).env("FASTMCP_CHECK_FOR_UPDATES", "off");
        let (seen, _) = run(command);
        let mark = self.dir.path().to_str().expect("a UTF-8 path");
        until("every process of the session is gone", || with_mark(mark).is_empty());
        self.check_stderr(client);
        assert_eq!(seen.get("protocol_version").unwrap_or(&client.2.into()), client.2, "{client:?}");
        seen
    }

    fn driver(&self, (driver, words, _): Client) -> Command {
        let mut command = match driver {
            Driver::TypeScript => bare(&installed(".npm/bin/node")),
            Driver::Python | Driver::Codex | Driver::ClaudeCode => python(),
        };
        match driver {
            Driver::Python => command.arg(script("drive.py")),
            Driver::TypeScript => command.arg(script("drive.mjs")),
            Driver::Codex => command.arg(script("codex.py")).arg(installed(".npm/bin/codex")).arg(self.dir.path()),
            Driver::ClaudeCode => command.arg(script("claude.py")).arg(installed(".npm/bin/claude")).arg(self.dir.path()),
        };
        command.args(words);
        command
    }

    /// The gateway had nothing to say but its closing counters, for which Codex leaves it no time.
    #[track_caller]
    fn check_stderr(&self, client: Client) {
        let stderr = self.dir.read("stderr");
        assert!(stderr.lines().all(|line| line.starts_with(r#"{"frames_in""#)), "{client:?}: {stderr}");
        assert!(client.0 == Driver::Codex || !stderr.is_empty(), "{client:?}: the gateway did not end cleanly");
    }

    /// What the commands wrote, and the journal's records as `approvals::story` tells them.
    #[track_caller]
    fn check(&self, done: &[&str], expected: &[&str]) {
        assert_eq!(self.dir.read("done").lines().collect::<Vec<_>>(), done);
        assert_eq!(story(&self.dir.journal_under("state")), expected);
    }
}
