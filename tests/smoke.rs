//! Paste a failing case here first.

use crate::kit::gateway::Gateway;
use crate::kit::{legacy_call, modern_call};

#[test]
fn both_eras_are_served_in_one_process() {
    let tools = r#"[{"name": "say", "description": "Says it", "input": {"type": "object", "properties": {"text": {"type": "string"}},
        "required": ["text"]}, "exec": {"argv": ["echo", "{text}"]}}]"#;
    let mut gateway = Gateway::new().tools(tools).start();
    let modern = gateway.ask(&modern_call(1, "say", r#"{"text": "hello"}"#));
    assert_eq!(modern["result"]["structuredContent"]["stdout"]["text"], "hello\n");
    gateway.initialize("2025-06-18");
    let legacy = gateway.ask(&legacy_call(2, "say", r#"{"text": "hello"}"#));
    assert_eq!(legacy["result"]["content"][0]["text"], "hello\n");
    gateway.end();
}
