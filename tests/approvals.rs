//! Approvals: nothing that a rule asks about happens without somebody's yes, whoever is asked and whatever comes back.
//!
//! What a command did is seen in a file that it writes; what was asked, answered and done is read in the journal.

mod changed;
mod legacy;
mod modern;
mod state;

use std::path::Path;

use serde_json::{Value, json};

use crate::kit::gateway::{Ended, Gateway, Running};

/// The commands write into the folder the gateway was made with.
pub fn tools(gateway: &Gateway, confirm: &str) -> Value {
    tools_into(&gateway.dir().join("done"), confirm)
}

/// The commands write into this file.
pub fn tools_into(done: &Path, confirm: &str) -> Value {
    let script = format!("echo \"$1\" >> '{}'", done.display());
    let tool = |name: &str, confirm: &str| {
        json!({"name": name, "description": "Writes it", "confirm": confirm,
               "input": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
               "exec": {"argv": ["sh", "-c", script, "sh", "{text}"]}})
    };
    json!([tool("write", confirm), tool("other", confirm), tool("free", "never")])
}

/// A gateway whose tools `write` and `other` ask these approvers.
pub fn asking(confirm: &str, approvals: Value) -> Gateway {
    let gateway = Gateway::new();
    let tools = tools(&gateway, confirm);
    gateway.set("tools", tools).set("approvals", approvals)
}

/// What the commands wrote.
pub fn done(running: &Running) -> Vec<String> {
    std::fs::read_to_string(running.dir.join("done")).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// As `done`, after the end.
pub fn was_done(ended: &Ended) -> Vec<String> {
    std::fs::read_to_string(ended.dir.join("done")).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The outcome of a call that was answered with a result, or with an error of the request.
pub fn outcome(reply: &Value) -> (&str, &str) {
    let result = &reply["result"]["_meta"]["tidegate/outcome"];
    let outcome = if result.is_null() { &reply["error"]["data"]["tidegate/outcome"] } else { result };
    (outcome["code"].as_str().unwrap_or("none"), outcome["executed"].as_str().unwrap_or("nothing said"))
}

#[track_caller]
pub fn check_outcome(reply: &Value, code: &str, executed: &str) {
    assert_eq!(outcome(reply), (code, executed), "{reply}");
    assert!(code == "none" || !reply["error"].is_null() || reply["result"]["isError"] == true, "{reply}");
}

/// The journal's records but for the session's own, each as `type`, or as `answer:WHAT`.
pub fn story(records: &[Value]) -> Vec<String> {
    let of_calls = records.iter().filter(|record| record["type"] != "session");
    let said = of_calls.map(|record| match record["type"].as_str().unwrap() {
        "answer" => format!("answer:{}", record["answer"].as_str().unwrap()),
        "outcome" => format!("outcome:{}", record["code"].as_str().unwrap()),
        other => other.to_owned(),
    });
    said.collect()
}
