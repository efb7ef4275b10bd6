//! Tools that know of their limit: it is handed on to what they call.

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::peer::{self, Peer};
#[cfg(feature = "ssh")]
use crate::kit::sshd::Sshd;
use crate::kit::{modern_call, unique};

/// What one copy of a result may take of `CONTENT_BYTES`.
const PAYLOAD_BYTES: usize = 1536;
const CONTENT_BYTES: usize = 4096;

#[track_caller]
fn call(running: &mut Running, tool: &str) -> Value {
    let reply = running.ask(&modern_call(format!("\"{}\"", unique()), tool, "{}"));
    assert_eq!(reply["result"]["isError"], false, "{reply}\n{}", running.story());
    reply["result"].clone()
}

/// The limit fills the result to the brim and nothing of it is cut.
#[track_caller]
fn check_full(result: &Value, copy: &Value) {
    let outcome = &result["_meta"]["tidegate/outcome"];
    assert_eq!((&outcome["bytes"], &outcome["truncated"]), (&json!(PAYLOAD_BYTES), &json!(false)), "{result}");
    let text = "x".repeat(PAYLOAD_BYTES);
    assert!(result["content"][0]["text"].as_str().unwrap().ends_with(&text) && copy == &text, "{result}");
}

#[test]
fn a_local_command_limits_its_own_output_r083() {
    let gateway = Gateway::new();
    let file = gateway.dir().write("file", "x".repeat(100_000));
    let head = json!({"name": "head", "description": "Begins", "content_bytes": CONTENT_BYTES,
        "exec": {"argv": ["head", "-c", "{limit}", "--", file]}});
    let mut running = gateway.set("tools", json!([head])).start();
    let result = call(&mut running, "head");
    check_full(&result, &result["structuredContent"]["stdout"]["text"]);
    running.end();
}

#[test]
fn a_server_is_asked_for_no_more_than_the_limit_r083() {
    let peer = Peer::start(|seen| {
        let query = seen.line.split_once("max=").unwrap().1;
        peer::ok("text/plain", &vec![b'x'; query.split(' ').next().unwrap().parse().unwrap()])
    });
    let url = format!("{}/text", peer.url());
    let text = json!({"name": "text", "description": "A text", "content_bytes": CONTENT_BYTES,
        "http": {"method": "POST", "url": url, "query": {"max": "{limit}"}, "body": {"json": {"max": "{limit}"}}}});
    let mut running = Gateway::new().set("tools", json!([text])).start();
    let result = call(&mut running, "text");
    check_full(&result, &result["structuredContent"]["body"]);
    let seen = peer.seen();
    assert_eq!(seen[0].line, format!("POST /text?max={PAYLOAD_BYTES} HTTP/1.1"));
    assert_eq!(seen[0].body, format!("{{\"max\":{PAYLOAD_BYTES}}}").as_bytes());
    running.end();
}

#[test]
#[cfg(feature = "ssh")]
fn a_remote_command_limits_its_own_output_r083() {
    let sshd = Sshd::start("");
    let file = sshd.dir().write("file", "x".repeat(100_000));
    let head = json!({"name": "head", "description": "Begins", "content_bytes": CONTENT_BYTES,
        "ssh": {"host": "web1", "argv": ["head", "-c", "{limit}", "--", file]}});
    let gateway = Gateway::new().set("credentials", sshd.credentials()).set("hosts", json!({"web1": sshd.host()}));
    let mut running = gateway.set("tools", json!([head])).start();
    let result = call(&mut running, "head");
    check_full(&result, &result["structuredContent"]["stdout"]["text"]);
    running.end();
}

#[test]
fn a_dry_run_shows_the_limit_as_filled() {
    let gateway = Gateway::new();
    let record = gateway.dir().join("record");
    let head = json!({"name": "head", "description": "Begins", "exec": {"argv": ["head", "-c", "{limit}"]}});
    let set = gateway.set("limits", json!({"content_bytes": CONTENT_BYTES})).set("tools", json!([head]));
    let mut running = set.args(["--dry-run", "--record"]).args([record]).start();
    let result = call(&mut running, "head");
    let argv = json!(["head", "-c", PAYLOAD_BYTES.to_string()]);
    assert_eq!(result["structuredContent"]["would"]["action"]["exec"]["argv"], argv);
    let line: Value = serde_json::from_str(running.end().dir.read("record").trim()).unwrap();
    assert_eq!(line["action"]["exec"]["argv"], argv);
}
