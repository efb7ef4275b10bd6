//! Tools that know of their limit: it is handed on to what they call, or ends it.

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::peer::{self, Peer};
#[cfg(feature = "ssh")]
use crate::kit::sshd::Sshd;
use crate::kit::{modern_call, process, unique};

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

/// A command that was ended for its output alone: no error, no exit of its own, and gone.
#[track_caller]
fn check_stopped(running: &mut Running, tool: &str, mark: &str, how: &str) {
    let result = call(running, tool);
    let (outcome, value) = (&result["_meta"]["tidegate/outcome"], &result["structuredContent"]);
    let said = (&outcome["code"], &outcome["executed"], &outcome["truncated"]);
    assert_eq!(said, (&Value::Null, &json!("yes"), &json!(true)), "{result}");
    assert!(value["exit"].is_null() && value.get("signal").is_none() && value["truncated"] == true, "{value}");
    let note = format!("tidegate told the command to end at its content limit (stop_at_limit); {how}");
    assert_eq!(value["notes"][0], note);
    assert!(result["content"][0]["text"].as_str().unwrap().contains(&format!("\n[tidegate: {note}]\n")), "{result}");
    process::until("the flood is gone", || process::with_mark(mark).is_empty());
    let journal = running.journal();
    let outcome = journal.iter().rev().find(|record| record["type"] == "outcome").unwrap();
    let said = (&outcome["code"], &outcome["executed"], &outcome["ended"]);
    assert_eq!(said, (&json!("ok"), &json!("yes"), &json!("dead")), "{outcome}");
}

/// Tools that flood, by `kind`, each a process that holds `mark`; the last one heeds no TERM. Then one that just fits.
fn floods(kind: &str, mark: &str) -> Vec<Value> {
    let fits = format!("head -c {CONTENT_BYTES} /dev/zero; exit 3");
    let scripts = [
        ("yes", format!("exec yes {mark}")),
        ("zeros", format!("exec cat /dev/zero - {mark}")),
        ("errors", format!("exec yes {mark} >&2")),
        ("stubborn", format!("trap '' TERM; exec yes {mark}")),
        ("fits", fits),
    ];
    let tool = |(name, script): (&str, String)| {
        let mut tool = json!({"name": name, "description": "Floods", "content_bytes": CONTENT_BYTES, "stop_at_limit": true,
            kind: {"argv": ["sh", "-c", script]}});
        if kind == "ssh" {
            tool["ssh"]["host"] = json!("web1");
        }
        tool
    };
    scripts.into_iter().map(tool).collect()
}

#[track_caller]
fn check_floods(mut running: Running, mark: &str, how: &str) {
    for tool in ["yes", "zeros", "errors", "stubborn"] {
        check_stopped(&mut running, tool, mark, how);
    }
    let reply = running.ask(&modern_call(1, "fits", "{}"));
    let (outcome, value) = (&reply["result"]["_meta"]["tidegate/outcome"], &reply["result"]["structuredContent"]);
    let said = (&outcome["code"], &outcome["bytes"], &value["exit"]);
    assert_eq!(said, (&json!("target_error"), &json!(CONTENT_BYTES), &json!(3)), "{reply}");
    running.end();
}

#[test]
fn a_local_flood_is_ended_at_its_limit_r073() {
    let mark = process::mark();
    let running = Gateway::new().set("tools", floods("exec", &mark).into()).start();
    check_floods(running, &mark, "it was ended together with all it had started");
}

#[test]
#[cfg(feature = "ssh")]
fn a_remote_flood_is_ended_at_its_limit_r073() {
    let (sshd, mark) = (Sshd::start(""), process::mark());
    let gateway = Gateway::new().set("credentials", sshd.credentials()).set("hosts", json!({"web1": sshd.host()}));
    check_floods(gateway.set("tools", floods("ssh", &mark).into()).start(), &mark, "it was ended on the host");
    assert_eq!(sshd.log().matches("Accepted publickey for").count(), 1, "one warm session served them all");
}
