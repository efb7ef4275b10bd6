//! What clients need of a server beyond the letter: tools they can list, results they can take, a handshake and a ping that
//! are always answered, subscriptions that end. Through the installed binary.

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::installed::installed;
use crate::kit::process::until;
use crate::kit::{Era, MODERN, call, modern_call};

fn gateway() -> Gateway {
    Gateway::of(installed())
}

fn tool(input: Value) -> Value {
    json!([{"name": "say", "description": "Says it", "input": input, "exec": {"argv": ["echo", "{text}"]}}])
}

/// Names and schemas that clients drop, with the tool or with the whole list, are refused at configuration time.
#[test]
fn what_clients_cannot_list_is_refused_at_the_start_r081_r082() {
    let long = "x".repeat(65);
    for name in ["a.b", "a/b", "New Tool", "", &long] {
        let named = json!([{"name": name, "description": "Says it", "exec": {"argv": ["true"]}}]);
        let gateway = gateway().set("tools", named).exit(78);
        let ended = gateway.says("/tools/0/name: expected a name of 1 to 64 letters, digits, _ or -").start().wait();
        assert_eq!(ended.stdout, b"", "{name}");
    }
    let text = json!({"text": {"type": "string"}});
    for (input, told) in [
        (json!({"type": "object", "properties": text, "anyOf": [{"type": "object"}]}), "clients drop tools with \"anyOf\""),
        (json!({"type": "object", "properties": text, "oneOf": [{"type": "object"}]}), "clients drop tools with \"oneOf\""),
        (json!({"type": "object", "properties": text, "allOf": [{"type": "object"}]}), "clients drop tools with \"allOf\""),
        (json!({"properties": text}), "missing key \"type\", expected \"object\""),
        (json!({"type": "string", "properties": text}), "expected \"object\" at the top of an input schema"),
        (json!({"type": "object"}), "missing key \"properties\""),
        (json!({"type": "object", "properties": {"text": {"$ref": "https://schemas.test/text"}}}), "$ref"),
    ] {
        let gateway = gateway().set("tools", tool(input)).exit(78).says(told).says_anything();
        assert_eq!(gateway.start().wait().stdout, b"", "{told}");
    }
}

#[test]
fn every_listed_tool_has_a_plain_object_schema_r082() {
    let input = json!({"type": "object", "properties": {"text": {"anyOf": [{"type": "string"}, {"type": "number"}]}}});
    let mut gateway = gateway().set("tools", tool(input)).start();
    for era in Era::BOTH {
        era.begin(&mut gateway);
        let list = format!(r#"{{"jsonrpc":"2.0","id":"{era:?}","method":"tools/list","params":{{{}}}}}"#, era.meta());
        let reply = gateway.ask(&list);
        let tools = reply["result"]["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 3, "{reply}");
        for tool in tools {
            let schema = &tool["inputSchema"];
            assert_eq!((&schema["type"], schema["properties"].is_object()), (&json!("object"), true), "{tool}");
            assert!(["anyOf", "oneOf", "allOf", "not", "$ref"].iter().all(|key| schema.get(key).is_none()), "{tool}");
        }
    }
    gateway.end();
}

/// Both copies of the text together stay far below what the narrowest client takes, whatever the command prints.
#[test]
fn a_large_result_is_cut_with_both_ends_and_counts_r083() {
    const LIMIT: usize = 32 << 10;
    let print = json!([{"name": "print", "description": "Prints much",
        "input": {"type": "object", "properties": {"bytes": {"type": "integer"}}, "required": ["bytes"]},
        "exec": {"argv": ["sh", "-c", "echo first; head -c \"$1\" /dev/zero | tr '\\0' x; echo; echo last", "sh", "{bytes}"]}}]);
    let mut gateway = gateway().set("tools", print).start();
    for era in Era::BOTH {
        era.begin(&mut gateway);
        for (id, bytes) in [60_000, 100_000, 1_000_000].into_iter().enumerate() {
            let reply = gateway.ask(&call(era, id, "print", &json!({"bytes": bytes}).to_string()));
            let result = &reply["result"];
            assert!(result.to_string().len() < LIMIT + 1024, "{bytes}: {}", result.to_string().len());
            for text in [&result["content"][0]["text"], &result["structuredContent"]["stdout"]["text"]] {
                let text = text.as_str().unwrap();
                assert!(text.starts_with("first\n") && text.contains("last\n"), "{bytes}: {text}");
            }
            let whole = json!(bytes + "first\n\nlast\n".len());
            assert_eq!((&result["isError"], &result["structuredContent"]["truncated"]), (&json!(false), &json!(true)));
            assert_eq!(result["structuredContent"]["stdout"]["bytes"], whole);
            assert_eq!(result["_meta"]["tidegate/outcome"]["bytes"], whole);
        }
    }
    gateway.end();
}

#[test]
fn an_action_that_needs_a_missing_variable_names_it_r085() {
    let mut gateway = gateway()
        .set("credentials", json!({"key": {"from": {"env": "NO_SUCH_TOKEN"}, "for": [{"host": "localhost", "port": 1}]}}))
        .set(
            "tools",
            json!([{"name": "fetch", "description": "Fetches it", "http": {"url": "http://localhost:1/", "credential": "key"}}]),
        )
        .says_anything()
        .start();
    let reply = gateway.ask(&modern_call(1, "fetch", "{}"));
    let outcome = &reply["result"]["_meta"]["tidegate/outcome"];
    assert_eq!((&outcome["code"], &outcome["executed"]), (&json!("credential_unavailable"), &json!("no")), "{reply}");
    assert!(reply["result"]["content"][0]["text"].as_str().unwrap().contains("NO_SUCH_TOKEN"), "{reply}");
    gateway.end();
}

#[test]
fn the_handshake_answers_with_a_revision_that_has_one_r086() {
    let newest = "2025-11-25";
    for (asked, agreed) in [
        ("\"2024-11-05\"", Some("2024-11-05")),
        ("\"2025-11-25\"", Some(newest)),
        ("\"2099-01-01\"", Some(newest)),
        ("\"\"", Some(newest)),
        ("\"2026-07-28\"", Some(newest)),
        ("5", None),
    ] {
        let mut gateway = gateway().says("no configuration").start();
        let params = format!(r#"{{"protocolVersion":{asked},"capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}"#);
        let reply = gateway.ask(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#));
        match agreed {
            Some(agreed) => assert_eq!(reply["result"]["protocolVersion"], agreed, "{asked}"),
            None => assert_eq!(reply["error"]["code"], -32602, "{asked}"),
        }
        gateway.probe();
        gateway.end();
    }
}

#[test]
fn a_ping_is_answered_at_any_time_r087() {
    let mut tools = json!([{"name": "wait", "description": "Waits", "exec": {"argv": ["sh", "-c", "echo > begun; cat go"]}}]);
    let gateway = gateway();
    let folder = gateway.dir().path().to_owned();
    assert!(std::process::Command::new("mkfifo").arg(folder.join("go")).status().unwrap().success());
    tools[0]["exec"]["cwd"] = json!(folder);
    let mut gateway = gateway.set("tools", tools).start();
    assert_eq!(gateway.probe(), [Value::Null; 0], "before the handshake");
    gateway.initialize("2025-11-25");
    gateway.send(&call(Era::Legacy, 1, "wait", "{}"));
    until("the command runs", || folder.join("begun").exists());
    assert_eq!(gateway.probe(), [Value::Null; 0], "while a tool runs");
    std::fs::write(folder.join("go"), "went\n").unwrap();
    assert_eq!(gateway.reply("1")["result"]["content"][0]["text"], "went\n");
    let modern = gateway.ask(&format!(r#"{{"jsonrpc":"2.0","id":2,"method":"ping","params":{{{MODERN}}}}}"#));
    assert_eq!(modern["error"]["code"], -32601, "2026-07-28 has no ping");
    gateway.end();
}

fn listen(gateway: &mut Running, id: &str) {
    let wants = r#""notifications":{"toolsListChanged":true}"#;
    gateway.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{{wants},{MODERN}}}}}"#));
    let acknowledged = gateway.next();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].to_string(), id);
}

/// Cancelled, a subscription is silent for good; at the end of the session the others get their result, and behind it the
/// notification that one reading of the revision asks for.
#[test]
fn a_subscription_ends_once_r093_r094() {
    let mut gateway = gateway().says("no configuration").start();
    listen(&mut gateway, "\"s1\"");
    listen(&mut gateway, "1");
    gateway.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s1"}}"#);
    assert_eq!(gateway.probe(), [Value::Null; 0]);
    let rest = gateway.end().rest;
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert_eq!((&rest[0]["id"], &rest[0]["result"]["resultType"]), (&json!(1), &json!("complete")));
    assert_eq!(rest[0]["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    assert_eq!((&rest[1]["method"], &rest[1]["params"]["requestId"]), (&json!("notifications/cancelled"), &json!(1)));
}
