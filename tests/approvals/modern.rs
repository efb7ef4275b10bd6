//! A client without a handshake is answered `input_required` and comes back: with the answer, with something else, or never.

use serde_json::{Value, json};

use super::{asking, check_outcome, done, story, was_done};
use crate::kit::gateway::{Gateway, Running};
use crate::kit::peer::{Peer, json as json_answer};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}"#;

pub fn client_only() -> Value {
    json!({"order": ["client"], "timeout_s": 60})
}

/// A call of `tool` with these arguments and these further members of its parameters.
pub fn call(id: u64, tool: &str, text: &str, more: &str) -> String {
    let arguments = json!({ "text": text });
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},{more}{META}}}}}"#
    )
}

/// What a retry brings.
pub fn brings(state: &str, answer: &str) -> String {
    format!(r#""requestState":{},"inputResponses":{{"approval":{answer}}},"#, json!(state))
}

pub const YES: &str = r#"{"action":"accept","content":{"decision":"once"}}"#;

/// Calls and returns the state of the question that comes back.
#[track_caller]
pub fn asked(running: &mut Running, id: u64, tool: &str, text: &str) -> String {
    let reply = running.ask(&call(id, tool, text, ""));
    state_of(&reply)
}

#[track_caller]
pub fn state_of(reply: &Value) -> String {
    assert_eq!(reply["result"]["resultType"], "input_required", "{reply}");
    let request = &reply["result"]["inputRequests"]["approval"];
    assert_eq!(request["method"], "elicitation/create", "{reply}");
    assert!(request["params"]["message"].as_str().unwrap().contains("Exact action: {"), "{reply}");
    reply["result"]["requestState"].as_str().unwrap().to_owned()
}

#[test]
fn a_yes_that_is_brought_back_lets_the_call_go_ahead_s136() {
    let mut running = asking("ask", client_only()).start();
    let state = asked(&mut running, 1, "write", "x");
    assert_eq!(done(&running), [""; 0]);
    let reply = running.ask(&call(2, "write", "x", &brings(&state, YES)));
    check_outcome(&reply, "none", "yes");
    assert_eq!(reply["result"]["resultType"], "complete");
    let ended = running.end();
    assert_eq!(was_done(&ended), ["x"]);
    let journal = ended.dir.journal_under("state");
    assert_eq!(story(&journal), ["question", "answer:yes", "intent", "outcome:ok"]);
    let named: Vec<_> = journal.iter().filter_map(|record| record.get("question")).collect();
    assert!(named.len() == 3 && named.iter().all(|name| *name == named[0] && name.is_string()), "{journal:#?}");
}

#[track_caller]
fn check_no(answer: &str, said: &str) {
    let mut running = asking("ask", client_only()).start();
    let state = asked(&mut running, 1, "write", "x");
    check_outcome(&running.ask(&call(2, "write", "x", &brings(&state, answer))), "approval_denied", "no");
    // A no is final.
    let late = running.ask(&call(3, "write", "x", &brings(&state, YES)));
    assert_eq!(late["error"]["code"], -32602, "{late}");
    check_outcome(&late, "approval_denied", "no");
    let ended = running.end();
    assert_eq!(was_done(&ended), [""; 0], "{answer}");
    assert_eq!(story(&ended.dir.journal_under("state")), ["question".to_owned(), format!("answer:{said}")], "{answer}");
}

#[test]
fn whatever_is_not_a_yes_is_a_no_s133_s134() {
    check_no(r#"{"action":"decline"}"#, "no");
    check_no(r#"{"action":"cancel"}"#, "no");
    check_no(r#"{"action":"accept","content":{"decision":"deny"}}"#, "no");
    for content in [r#"{}"#, r#"{"decision":"session"}"#, r#"{"decision":1}"#, r#"{"decision":"once","x":"y"}"#] {
        check_no(&format!(r#"{{"action":"accept","content":{content}}}"#), "unusable");
    }
}

#[track_caller]
fn check_malformed(members: &str) {
    let mut running = asking("ask", client_only()).start();
    let state = asked(&mut running, 1, "write", "x");
    let reply = running.ask(&call(2, "write", "x", &members.replace("STATE", &json!(state).to_string())));
    assert_eq!(reply["error"]["code"], -32602, "{members}: {reply}");
    // The question still stands: nothing was answered.
    check_outcome(&running.ask(&call(3, "write", "x", &brings(&state, YES))), "none", "yes");
    assert_eq!(was_done(&running.end()), ["x"]);
}

#[test]
fn what_is_malformed_is_refused_and_the_question_stands_s140() {
    check_malformed(r#""requestState":STATE,"inputResponses":[],"#);
    check_malformed(r#""requestState":STATE,"inputResponses":null,"#);
    check_malformed(r#""requestState":STATE,"inputResponses":{"approval":"yes"},"#);
    check_malformed(r#""requestState":STATE,"inputResponses":{"approval":{}},"#);
    check_malformed(r#""requestState":STATE,"inputResponses":{"approval":{"action":"maybe"}},"#);
    check_malformed(r#""requestState":5,"#);
    check_malformed(r#""requestState":null,"#);
}

#[test]
fn an_answer_that_is_missing_is_asked_for_again_s140() {
    let mut running = asking("ask", client_only()).start();
    let state = asked(&mut running, 1, "write", "x");
    for (id, members) in [
        format!(r#""requestState":"{state}","#),
        format!(r#""requestState":"{state}","inputResponses":{{}},"#),
        format!(r#""requestState":"{state}","inputResponses":{{"other":{YES}}},"#),
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(state_of(&running.ask(&call(10 + id as u64, "write", "x", members))), state);
    }
    // An answer without a state answers nothing; it is another call.
    let other = state_of(&running.ask(&call(20, "write", "x", &format!(r#""inputResponses":{{"approval":{YES}}},"#))));
    assert_ne!(other, state);
    check_outcome(&running.ask(&call(30, "write", "x", &brings(&state, YES))), "none", "yes");
    let ended = running.end();
    assert_eq!(was_done(&ended), ["x"]);
    assert_eq!(story(&ended.dir.journal_under("state")), ["question", "question", "answer:yes", "intent", "outcome:ok"]);
}

#[test]
fn a_client_that_cannot_ask_hears_what_is_missing_s44_s45() {
    let mut running = asking("ask", client_only()).start();
    asked(&mut running, 1, "write", "x");
    let reply = running.ask(&crate::kit::modern_call(2, "write", r#"{"text":"x"}"#));
    assert_eq!(reply["error"]["code"], -32021, "{reply}");
    assert_eq!(reply["error"]["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}), "{reply}");
    check_outcome(&reply, "no_approver", "no");
    assert_eq!(was_done(&running.end()), [""; 0]);
}

#[test]
fn a_state_for_a_tool_that_asks_nobody_is_refused() {
    let mut running = asking("ask", client_only()).start();
    let state = asked(&mut running, 1, "write", "x");
    let reply = running.ask(&call(2, "free", "x", &brings(&state, YES)));
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
    assert_eq!(was_done(&running.end()), [""; 0]);
}

#[test]
fn an_action_too_long_to_be_read_is_not_asked_for() {
    let mut running = asking("ask", client_only()).start();
    let reply = running.ask(&call(1, "write", &"x".repeat(17 << 10), ""));
    check_outcome(&reply, "approval_denied", "no");
    // The longest that is shown fits the reply, however much of it has to be escaped.
    state_of(&running.ask(&call(2, "write", &"\"".repeat(5 << 10), "")));
    let ended = running.end();
    assert_eq!(was_done(&ended), [""; 0]);
}

const YES_FOR_SESSION: &str = r#"{"action":"accept","content":{"decision":"session"}}"#;

#[test]
fn a_yes_for_the_session_is_for_one_whole_target() {
    let peer = Peer::start(|_| json_answer("{}"));
    let tool = json!({"name": "write", "description": "Fetches", "confirm": "session",
        "input": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "http": {"url": format!("http://127.0.0.1:{}/{{+text}}", peer.port())}});
    let mut running = Gateway::new().set("tools", json!([tool])).set("approvals", client_only()).start();
    // Alike for longer than a target is shown in a line.
    let long = "x".repeat(400);
    let (one, other) = (format!("{long}/1"), format!("{long}/2"));
    let state = asked(&mut running, 1, "write", &one);
    check_outcome(&running.ask(&call(2, "write", &one, &brings(&state, YES_FOR_SESSION))), "none", "yes");
    check_outcome(&running.ask(&call(3, "write", &one, "")), "none", "yes");
    let state = asked(&mut running, 4, "write", &other);
    assert_eq!(peer.connections(), 2);
    // A no to one action leaves the yes to the target.
    check_outcome(&running.ask(&call(5, "write", &other, &brings(&state, r#"{"action":"decline"}"#))), "approval_denied", "no");
    check_outcome(&running.ask(&call(6, "write", &one, "")), "none", "yes");
    assert_eq!(peer.connections(), 3);
    running.end();
}
