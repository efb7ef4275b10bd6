//! A client with a handshake is asked by `elicitation/create`, and its call waits.

use serde_json::{Value, json};

use super::{asking, check_outcome, done, story, was_done};
use crate::kit::gateway::{Gateway, Running};
use crate::kit::process::until;
use crate::kit::{cancel, legacy_call};

fn client_only() -> Value {
    json!({"order": ["client"], "timeout_s": 60})
}

/// A session of this revision whose client says that it can ask its user.
pub fn begin(gateway: Gateway, revision: &str) -> Running {
    let mut running = gateway.start();
    running.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"init","method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{"elicitation":{{}}}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    ));
    assert_eq!(running.next()["result"]["protocolVersion"], revision);
    running.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    running
}

/// Calls `write` and returns the question that comes.
fn asked(running: &mut Running, id: u64, text: &str) -> Value {
    running.send(&legacy_call(id, "write", &json!({ "text": text }).to_string()));
    let question = running.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    question
}

pub fn answer(question: &Value, outcome: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, question["id"])
}

pub const YES: &str = r#""result":{"action":"accept","content":{"decision":"once"}}"#;

#[track_caller]
fn check_yes(revision: &str) {
    let mut running = begin(asking("ask", client_only()), revision);
    let question = asked(&mut running, 1, "a \u{202e}b");
    let message = question["params"]["message"].as_str().unwrap();
    assert!(
        message.contains("write") && message.contains("declared:write") && message.contains("Exact action: {"),
        "{message}"
    );
    // What could bend the line that a human reads is spelled out.
    assert!(message.contains("u{202e}") && !message.contains('\u{202e}'), "{message}");
    let schema = &question["params"]["requestedSchema"]["properties"]["decision"];
    if revision == "2025-06-18" {
        assert_eq!((&schema["enum"], question["params"].get("mode")), (&json!(["once", "deny"]), None), "{question}");
    } else {
        assert_eq!((&schema["oneOf"][0]["const"], &question["params"]["mode"]), (&json!("once"), &json!("form")), "{question}");
    }
    assert_eq!(done(&running), [""; 0]);
    running.send(&answer(&question, YES));
    check_outcome(&running.reply("1"), "none", "yes");
    let ended = running.end();
    assert_eq!(was_done(&ended), ["a \u{202e}b"]);
    assert_eq!(story(&ended.dir.journal_under("state")), ["question", "answer:yes", "intent", "outcome:ok"]);
}

#[test]
fn a_yes_lets_the_call_go_ahead_s130_s131() {
    check_yes("2025-06-18");
    check_yes("2025-11-25");
}

#[track_caller]
fn check_no(outcome: &str, code: &str, answer_said: &str) {
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut running = begin(asking("ask", client_only()), revision);
        let question = asked(&mut running, 1, "x");
        running.send(&answer(&question, outcome));
        check_outcome(&running.reply("1"), code, "no");
        // Too late: the same question with a yes.
        running.send(&answer(&question, YES));
        running.probe();
        let ended = running.end();
        assert_eq!(was_done(&ended), [""; 0], "{outcome}");
        assert_eq!(
            story(&ended.dir.journal_under("state")),
            ["question".to_owned(), format!("answer:{answer_said}")],
            "{outcome}"
        );
    }
}

#[test]
fn whatever_is_not_a_yes_is_a_no_s133_s134() {
    check_no(r#""result":{"action":"decline"}"#, "approval_denied", "no");
    check_no(r#""result":{"action":"cancel"}"#, "approval_denied", "no");
    check_no(r#""result":{"action":"accept","content":{"decision":"deny"}}"#, "approval_denied", "no");
    check_no(r#""error":{"code":-32603,"message":"no dialog"}"#, "approval_denied", "unusable");
    for content in [
        r#"{}"#,
        r#"{"decision":"session"}"#,
        r#"{"decision":true}"#,
        r#"{"decision":"ONCE"}"#,
        r#"{"decision":"once","more":"x"}"#,
        r#"{"decision":["once"]}"#,
    ] {
        check_no(&format!(r#""result":{{"action":"accept","content":{content}}}"#), "approval_denied", "unusable");
    }
    for result in [
        r#"{"action":"accept"}"#,
        "{}",
        "null",
        "[]",
        "\"yes\"",
        "true",
        r#"{"action":"accept","content":{"decision":"\ud800"}}"#,
    ] {
        check_no(&format!(r#""result":{result}"#), "approval_denied", "unusable");
    }
}

#[test]
fn nobody_who_cannot_ask_is_asked_s130() {
    for (revision, capabilities) in [
        ("2024-11-05", r#"{"elicitation":{}}"#),
        ("2025-03-26", r#"{"elicitation":{}}"#),
        ("2025-06-18", "{}"),
        ("2025-11-25", r#"{"elicitation":{"url":{}}}"#),
    ] {
        let mut running = asking("ask", client_only()).start();
        running.send(&format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{capabilities},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
        ));
        running.next();
        running.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let reply = running.ask(&legacy_call(1, "write", r#"{"text":"x"}"#));
        check_outcome(&reply, "no_approver", "no");
        let ended = running.end();
        assert!(was_done(&ended).is_empty() && story(&ended.dir.journal_under("state")).is_empty(), "{revision}");
    }
}

#[test]
fn no_question_before_initialized_and_then_at_once_s23_u10() {
    let mut running = asking("ask", client_only()).start();
    running.send(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}"#,
    );
    running.next();
    running.send(&legacy_call(1, "write", r#"{"text":"x"}"#));
    // Whatever the gateway had to say before it was ready would come before this answer.
    assert_eq!(running.probe(), [json!(null); 0]);
    running.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let question = running.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    running.send(&answer(&question, YES));
    check_outcome(&running.reply("1"), "none", "yes");
    running.end();
}

#[test]
fn a_cancel_of_the_call_cancels_the_question() {
    let mut running = begin(asking("ask", client_only()), "2025-11-25");
    let question = asked(&mut running, 1, "x");
    running.send(&cancel(1));
    let notice = running.next();
    assert_eq!(
        (&notice["method"], &notice["params"]["requestId"]),
        (&json!("notifications/cancelled"), &question["id"]),
        "{notice}"
    );
    running.send(&answer(&question, YES));
    assert_eq!(running.probe(), [json!(null); 0]);
    let ended = running.end();
    assert_eq!(was_done(&ended), [""; 0]);
    assert_eq!(story(&ended.dir.journal_under("state")), ["question", "answer:withdrawn"]);
    assert_eq!(ended.counters()["cancels"], json!({"waiting_for_approval": 1}));
}

#[test]
fn no_answer_in_time_is_a_no_and_withdraws_the_question_s142() {
    let mut running = begin(asking("ask", json!({"order": ["client"], "timeout_s": 1})), "2025-11-25");
    let question = asked(&mut running, 1, "x");
    let notice = running.next();
    assert_eq!(
        (&notice["method"], &notice["params"]["requestId"]),
        (&json!("notifications/cancelled"), &question["id"]),
        "{notice}"
    );
    check_outcome(&running.reply("1"), "approval_timeout", "no");
    running.send(&answer(&question, YES));
    running.probe();
    let ended = running.end();
    assert_eq!(was_done(&ended), [""; 0]);
    assert_eq!(story(&ended.dir.journal_under("state")), ["question", "answer:timed_out"]);
}

#[test]
fn a_yes_for_the_session_stands_for_tool_and_target() {
    let mut running = begin(asking("session", client_only()), "2025-11-25");
    let question = asked(&mut running, 1, "one");
    running.send(&answer(&question, r#""result":{"action":"accept","content":{"decision":"session"}}"#));
    check_outcome(&running.reply("1"), "none", "yes");
    check_outcome(&running.ask(&legacy_call(2, "write", r#"{"text":"two"}"#)), "none", "yes");
    // Another tool is asked for.
    running.send(&legacy_call(3, "other", r#"{"text":"three"}"#));
    let question = running.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    running.send(&answer(&question, r#""result":{"action":"decline"}"#));
    check_outcome(&running.reply("3"), "approval_denied", "no");
    let ended = running.end();
    assert_eq!(was_done(&ended), ["one", "two"]);
    let journal = ended.dir.journal_under("state");
    assert_eq!(
        story(&journal),
        ["question", "answer:yes_for_session", "intent", "outcome:ok", "intent", "outcome:ok", "question", "answer:no"]
    );
    let asked: Vec<_> = journal.iter().filter(|record| record["type"] == "intent").map(|record| &record["question"]).collect();
    assert!(asked.len() == 2 && asked[0].is_string() && asked[0] == asked[1], "{journal:#?}");
}

#[test]
fn an_end_of_input_kills_the_question() {
    let mut running = begin(asking("ask", client_only()), "2025-11-25");
    let question = asked(&mut running, 1, "x");
    running.close_stdin();
    let ended = running.wait();
    let lines: Vec<Value> =
        ended.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let notice = lines.iter().find(|line| line["method"] == "notifications/cancelled").expect("a notice");
    assert_eq!(notice["params"]["requestId"], question["id"]);
    let reply = lines.iter().find(|line| line["id"] == 1).expect("a reply");
    check_outcome(reply, "cancelled", "no");
    assert_eq!(was_done(&ended), [""; 0]);
    assert_eq!(story(&ended.dir.journal_under("state")), ["question", "answer:withdrawn"]);
}

/// Who called with a handshake by which it could be asked, and then shook hands anew, is asked no more than the new one allows.
#[test]
fn a_new_handshake_takes_back_that_the_client_can_be_asked_s28() {
    for (revision, capabilities) in [("2025-11-25", "{}"), ("2024-11-05", r#"{"elicitation":{}}"#)] {
        let mut running = asking("ask", client_only()).start();
        let initialize = |revision: &str, capabilities: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{capabilities},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
            )
        };
        running.ask(&initialize("2025-11-25", r#"{"elicitation":{}}"#));
        running.send(&legacy_call(1, "write", r#"{"text":"x"}"#));
        until("it waits", || running.journal().iter().any(|record| record["type"] == "question"));
        running.ask(&initialize(revision, capabilities));
        running.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let reply = running.next();
        assert_eq!(reply["id"], 1, "{reply}");
        check_outcome(&reply, "approval_denied", "no");
        let ended = running.end();
        assert!(was_done(&ended).is_empty());
        assert_eq!(story(&ended.dir.journal_under("state")), ["question", "answer:unusable"]);
    }
}
