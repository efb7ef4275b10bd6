//! The tools whose target the caller writes: what their allow rules let through arrives exactly as written, and what they do
//! not reaches nothing at all.

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::installed::preload_object;
use crate::kit::peer::{Answer, Peer, json as json_answer};
use crate::kit::sshd::Sshd;
use crate::kit::{MODERN, modern_call, unique};

/// A tool, its arguments, the code it is refused with, and what the refusal says.
type Row = (&'static str, Value, &'static str, &'static str);

/// Requests under /v1/, and under /keyed/ with the credential `api`, which is for /keyed/ours/ alone.
fn requests(port: u16) -> Value {
    json!({"allow": [
        {"host": "127.0.0.1", "port": port, "paths": ["/v1/"]},
        {"host": "127.0.0.1", "port": port, "methods": ["GET"], "paths": ["/keyed/"], "credential": "api"},
        {"host": "127.0.0.1", "port": port, "methods": ["POST", "PUT"], "paths": ["/notes"], "credential": "api"}
    ]})
}

fn credentials(port: u16, key: &std::path::Path) -> Value {
    let scope = json!([{"host": "127.0.0.1", "port": port, "paths": ["/keyed/ours/", "/notes"]}]);
    json!({"api": {"from": {"file": key}, "as": {"header": {"name": "X-Api-Key"}}, "for": scope}})
}

fn gateway(peer: &Peer) -> Gateway {
    let gateway = Gateway::new();
    let key = gateway.dir().write_mode("key", "key-of-the-policy", 0o600);
    gateway.set("credentials", credentials(peer.port(), &key)).set("builtin", json!({"http_request": requests(peer.port())}))
}

fn outcome(reply: &Value) -> (&str, &str, &str) {
    let outcome = &reply["result"]["_meta"]["tidegate/outcome"];
    let text = reply["result"]["content"][0]["text"].as_str().unwrap_or_default();
    (outcome["code"].as_str().unwrap_or("none"), outcome["executed"].as_str().unwrap_or("none"), text)
}

#[track_caller]
fn ask(running: &mut Running, tool: &str, arguments: &Value) -> Value {
    running.ask(&modern_call(format!("\"{}\"", unique()), tool, &arguments.to_string()))
}

#[test]
fn an_allowed_request_arrives_as_written_with_the_credential_of_its_rule() {
    let peer = Peer::start(|_| json_answer(r#"{"items": [{"id": 1, "x": 2}]}"#));
    let mut running = gateway(&peer).start();
    let url = |path: &str| format!("{}{path}", peer.url());
    for (arguments, line, key) in [
        (json!({"url": url("/v1/a%20b?q=1&r=%2F")}), "GET /v1/a%20b?q=1&r=%2F HTTP/1.1", None),
        (json!({"method": "HEAD", "url": url("/v1")}), "HEAD /v1 HTTP/1.1", None),
        (json!({"url": url("/keyed/ours/x")}), "GET /keyed/ours/x HTTP/1.1", Some("key-of-the-policy")),
        (
            json!({"method": "POST", "url": url("/notes"), "headers": {"X-Trace": "a {b}"}, "body": {"json": {"a": "{x}"}}}),
            "POST /notes HTTP/1.1",
            Some("key-of-the-policy"),
        ),
    ] {
        let reply = ask(&mut running, "http_request", &arguments);
        assert_eq!(outcome(&reply).0, "none", "{reply}");
        let seen = peer.seen().pop().unwrap();
        assert_eq!((seen.line.as_str(), seen.header("x-api-key")), (line, key), "{arguments}");
        assert_eq!(seen.header("x-trace"), arguments["headers"]["X-Trace"].as_str());
    }
    assert_eq!(peer.seen().last().unwrap().body, br#"{"a":"{x}"}"#);
    let picked = ask(&mut running, "http_request", &json!({"url": url("/v1/"), "select": ["/items/*/id"]}));
    let body = picked["result"]["structuredContent"]["body"].to_string();
    assert!(body.contains("\"id\":1") && !body.contains("\"x\""), "{body}");
    let journal = running.end().dir.journal_under("state");
    let intents: Vec<&Value> = journal.iter().filter(|line| line["type"] == "intent").collect();
    assert_eq!(intents[0]["rule"], "builtin.http_request.allow[0]");
    assert_eq!((&intents[2]["rule"], &intents[2]["credential"]), (&json!("builtin.http_request.allow[1]"), &json!("api")));
}

/// A redirect is an answer: it is shown, and neither the request nor its credential goes on.
#[test]
fn a_redirect_of_a_request_is_shown_and_not_followed_r067_r068() {
    let other = Peer::start(|_| json_answer("{}"));
    let location = format!("{}/v1/", other.url());
    let head = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
    let peer = Peer::start(move |_| Answer::Bytes(head.clone().into_bytes()));
    let mut running = gateway(&peer).start();
    let reply = ask(&mut running, "http_request", &json!({"url": format!("{}/keyed/ours/x", peer.url())}));
    let content = &reply["result"]["structuredContent"];
    assert_eq!(content["status"], 307, "{reply}");
    assert!(content["headers"].to_string().contains(&location), "{reply}");
    assert_eq!((peer.connections(), other.connections()), (1, 0));
    running.end();
}

/// Calls of `http_request` that are malformed or that no rule allows.
fn bad_requests(port: u16) -> Vec<Row> {
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let get = |url: String| json!({ "url": url });
    let with = |headers: Value| json!({"url": url("/v1/"), "headers": headers});
    let to = |authority: &str| get(format!("http://{authority}/v1/"));
    let tool = "http_request";
    vec![
        (tool, json!({}), "bad_arguments", "missing property \"url\""),
        (tool, json!({"url": 1}), "bad_arguments", "arguments.url"),
        (tool, json!({"url": url("/v1/"), "redirect": true}), "bad_arguments", "unknown property \"redirect\""),
        (tool, json!({"url": url("/v1/"), "credential": "api"}), "bad_arguments", "unknown property \"credential\""),
        (tool, json!({"url": url("/v1/"), "body": {"text": "x"}}), "bad_arguments", "expected none with GET"),
        (tool, json!({"method": "CONNECT", "url": url("/v1/")}), "bad_arguments", "CONNECT"),
        (tool, json!({"method": "get", "url": url("/v1/")}), "bad_arguments", "arguments.method"),
        (tool, with(json!({"Authorization": "Bearer mine"})), "bad_arguments", "\"authorization\""),
        (tool, with(json!({"cookie": "a=b"})), "bad_arguments", "\"cookie\""),
        (tool, with(json!({"Host": "internal"})), "bad_arguments", "\"host\""),
        (tool, with(json!({"Content-Length": "0"})), "bad_arguments", "\"content-length\""),
        (tool, with(json!({"Transfer-Encoding": "chunked"})), "bad_arguments", "\"transfer-encoding\""),
        (tool, with(json!({"Proxy-Authorization": "x"})), "bad_arguments", "\"proxy-authorization\""),
        (tool, with(json!({"X-HTTP-Method-Override": "DELETE"})), "bad_arguments", "\"x-http-method-override\""),
        (tool, with(json!({"X-Original-URL": "/admin"})), "bad_arguments", "\"x-original-url\""),
        (tool, with(json!({"x": "a\r\nHost: internal"})), "bad_arguments", "arguments.headers"),
        (tool, get(url("/v1/../admin")), "bad_arguments", "segments"),
        (tool, get(url("/v1/%2e%2e/admin")), "bad_arguments", "segments"),
        (tool, get(url("/v1/..;/admin")), "bad_arguments", "segments"),
        (tool, get(url("/v1/%252e%252e/admin")), "bad_arguments", "escape inside an escape"),
        (tool, get(url("/v1%2fx")), "bad_arguments", "encoded separator"),
        (tool, get(url("/v1/x#/notes")), "bad_arguments", "fragment"),
        (tool, get(url("/v1/ HTTP/1.1\r\nX: y")), "bad_arguments", "must be encoded"),
        (tool, to("user@127.0.0.1"), "bad_arguments", "no user or password"),
        (tool, to("127.1"), "bad_arguments", "canonical form"),
        (tool, to("2130706433"), "bad_arguments", "canonical form"),
        (tool, to("[::ffff:127.0.0.1]"), "bad_arguments", "127.0.0.1"),
        (tool, get("file:///etc/passwd".to_owned()), "bad_arguments", "scheme https or http"),
        (tool, to("127.0.0.1"), "denied", "expected the port"),
        (tool, to("127.0.0.2"), "denied", "expected the host"),
        (tool, to("localhost"), "denied", "expected the host"),
        (tool, to("unknown.test"), "denied", "expected the host"),
        (tool, to("169.254.169.254"), "denied", "expected the host"),
        (tool, get(format!("https://127.0.0.1:{port}/v1/")), "denied", "expected the scheme"),
        (tool, json!({"method": "DELETE", "url": url("/v1/")}), "denied", "expected the method GET or HEAD"),
        (tool, json!({"method": "POST", "url": url("/v1/")}), "denied", "builtin.http_request: no allow rule matches POST"),
        (tool, get(url("/")), "denied", "expected a path under \"/v1/\""),
        (tool, get(url("/v1x")), "denied", "expected a path under \"/v1/\""),
        (tool, get(url("/V1/")), "denied", "expected a path under \"/v1/\""),
        (tool, get(url("/%761/")), "denied", "expected a path under \"/v1/\""),
        (tool, get(url("/keyed/theirs")), "denied", "credential \"api\": expected a target within its \"for\""),
        (
            tool,
            json!({"url": url("/keyed/ours/x"), "headers": {"x-api-key": "mine"}}),
            "denied",
            "headers: expected no \"x-api-key\", which the gateway sets with the credential \"api\"",
        ),
    ]
}

/// Calls of `ssh_exec` that are malformed or that no shape allows; R075's table among them.
fn bad_commands() -> Vec<Row> {
    let tool = "ssh_exec";
    let run = |argv: Value| json!({"host": "there", "argv": argv});
    let mut rows = vec![
        (tool, json!({"argv": ["uptime"]}), "bad_arguments", "missing property \"host\""),
        (tool, run(json!([])), "bad_arguments", "arguments.argv"),
        (tool, run(json!("uptime")), "bad_arguments", "arguments.argv"),
        (tool, run(json!(["uptime", 1])), "bad_arguments", "arguments.argv"),
        (tool, run(json!(["uptime\u{0}"])), "bad_arguments", "NUL"),
        (tool, json!({"host": "there", "argv": ["uptime"], "stdin": "x"}), "bad_arguments", "unknown property \"stdin\""),
        (tool, json!({"host": "there", "argv": ["uptime"], "env": {}}), "bad_arguments", "unknown property \"env\""),
        (tool, json!({"host": "There", "argv": ["uptime"]}), "denied", "hosts: expected \"there\", got \"There\""),
        (tool, json!({"host": "127.0.0.1", "argv": ["uptime"]}), "denied", "hosts: expected \"there\""),
        (
            tool,
            json!({"host": "there", "argv": ["sh", "-c", "uptime"]}),
            "denied",
            "no allow rule matches ssh there sh -c uptime",
        ),
        (tool, run(json!(["uptime", "-p"])), "denied", "expected 1 element, got 2"),
        (tool, run(json!(["show", "-n"])), "denied", "expected no - at the beginning of element 1"),
        (tool, run(json!(["show"])), "denied", "expected 2 elements, got 1"),
        (tool, run(json!(["show", "a", "b"])), "denied", "expected 2 elements, got 3"),
    ];
    let tails = ["; touch pwned", "\ntouch pwned", " $(touch pwned)", " && touch pwned", " > pwned", " & touch pwned"];
    for tail in tails {
        let text = format!("uptime{tail}");
        let words: Vec<&str> = text.split([' ', '\n']).collect();
        rows.push((tool, run(json!([text])), "denied", "expected \"uptime\" as element 0"));
        rows.push((tool, run(json!(["uptime", tail])), "denied", "expected 1 element, got 2"));
        rows.push((tool, run(json!(words)), "denied", "builtin.ssh_exec: no allow rule matches"));
    }
    rows
}

/// Nothing is looked up, connected, started or opened for what is refused; the tripwires are those of the order of things.
#[test]
fn what_is_malformed_or_not_allowed_reaches_nothing_r065_r066_r075() {
    let (peer, sshd) = (Peer::start(|_| json_answer("{}")), Sshd::start(""));
    let gateway = Gateway::new();
    let deeds = gateway.dir().join("deeds");
    let key = gateway.dir().write_mode("key", "key-of-the-policy", 0o600);
    let mut credentials = credentials(peer.port(), &key);
    credentials["user_key"] = sshd.credentials()["user_key"].clone();
    let mut builtin = json!({"http_request": requests(peer.port())});
    let mut rows = bad_requests(peer.port());
    if cfg!(feature = "ssh") {
        builtin["ssh_exec"] = json!({"hosts": ["there"], "allow": [["uptime"], ["show", "*"]]});
        rows.extend(bad_commands());
    }
    let gateway = gateway.set("credentials", credentials).set("hosts", json!({"there": sshd.host()})).set("builtin", builtin);
    let gateway = gateway.preload(&[preload_object("tripwire.c")]).env("TRIPWIRE", deeds.to_str().unwrap()).says_anything();
    let mut running = gateway.start();
    running.probe();
    for (tool, arguments, code, says) in &rows {
        let seen = running.dir.read("deeds").len();
        let reply = ask(&mut running, tool, arguments);
        let (got, executed, text) = outcome(&reply);
        assert_eq!((got, executed), (*code, "no"), "{arguments}: {reply}");
        assert!(text.contains(says), "{arguments}: {says:?} is not in {text:?}");
        let deeds = running.dir.read("deeds");
        let moved: Vec<&str> = deeds[seen..].lines().filter(|deed| !deed.contains("/refusals-")).collect();
        assert!(!moved.iter().any(|deed| !deed.starts_with("open") || deed.ends_with("key")), "{arguments}: {moved:?}");
    }
    let ended = running.end();
    assert_eq!(peer.connections(), 0);
    assert!(!sshd.log().contains("Accepted"), "{}", sshd.log());
    assert_eq!(ended.dir.journal_under("state"), [Value::Null; 0], "no journal for what was refused");
    let refused = ended.dir.refusals_under("state");
    assert_eq!(refused.len(), rows.len());
    assert!(refused.iter().all(|record| record["stage"] == "action" || record["stage"] == "grant"), "{refused:#?}");
}

/// R074's texts, R075's, and what shells are known to read as something else.
#[cfg(feature = "ssh")]
const TEXTS: &[&str] = &[
    "note\ntouch pwned",
    "note\r\ntouch pwned",
    "\r",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "uptime; touch pwned",
    "uptime\ntouch pwned",
    "uptime $(touch pwned)",
    "uptime && touch pwned",
    "uptime > pwned",
    "uptime & touch pwned",
    "| touch pwned",
    "'; touch pwned; '",
    "'\\''",
    "\"",
    "\\",
    "",
    " ",
    "~",
    "*",
    "=ls",
    "A=b",
    "!!",
    "#",
    "${IFS}touch${IFS}pwned",
    "a\tb\u{1b}[2J",
    "日本語\u{2028}\u{202e}",
];

/// A program on the far side that shows its argument byte for byte.
#[cfg(feature = "ssh")]
const SHOW: &str = "printf %s \"$1\" | od -An -v -tx1 | tr -d ' \\n'";

#[cfg(feature = "ssh")]
fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Whatever stands in the place of a `*` or a placeholder arrives as exactly that one argument, locally and over there.
#[test]
#[cfg(feature = "ssh")]
fn the_far_side_sees_exactly_the_given_argv_r074_r075() {
    let sshd = Sshd::start("");
    let input = json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]});
    let declared =
        |name: &str, kind: &str, action: Value| json!({"name": name, "description": "Shows it", "input": input, kind: action});
    let tools = json!([
        declared("local", "exec", json!({"argv": ["sh", "-c", SHOW, "sh", "{x}"]})),
        declared("remote", "ssh", json!({"host": "web1", "argv": ["sh", "-c", SHOW, "sh", "{x}"]})),
    ]);
    let builtin = json!({"ssh_exec": {"hosts": ["web1"], "allow": [["uptime"], ["sh", "-c", SHOW, "sh", "*"], ["sh", "-c", SHOW, "sh", "--", "*"]]}});
    let gateway = Gateway::new().set("credentials", sshd.credentials()).set("hosts", json!({"web1": sshd.host()}));
    let mut running = gateway.set("tools", tools).set("builtin", builtin).start();
    let mut ran = 0;
    for text in TEXTS.iter().copied().chain(["-rf", "--", "-"]) {
        let free = json!({"host": "web1", "argv": ["sh", "-c", SHOW, "sh", text]});
        for (tool, arguments) in [("local", json!({ "x": text })), ("remote", json!({ "x": text })), ("ssh_exec", free)] {
            let reply = ask(&mut running, tool, &arguments);
            if text.starts_with('-') {
                assert_eq!(outcome(&reply).1, "no", "{tool} {text:?}: {reply}");
                continue;
            }
            assert_eq!(reply["result"]["structuredContent"]["stdout"]["text"], hex(text), "{tool} {text:?}: {reply}");
            ran += 1;
        }
    }
    assert_eq!(ran, 3 * TEXTS.len());
    let dashed = ask(&mut running, "ssh_exec", &json!({"host": "web1", "argv": ["sh", "-c", SHOW, "sh", "--", "-rf"]}));
    assert_eq!(dashed["result"]["structuredContent"]["stdout"]["text"], hex("--"), "{dashed}");
    let ended = running.end();
    for folder in [ended.dir.path(), sshd.dir().path(), std::path::Path::new("/")] {
        assert!(!folder.join("pwned").exists(), "{}", folder.display());
    }
}

#[track_caller]
fn listed(running: &mut Running) -> Vec<Value> {
    let list = running.ask(&format!(r#"{{"jsonrpc":"2.0","id":"list","method":"tools/list","params":{{{MODERN}}}}}"#));
    list["result"]["tools"].as_array().unwrap().clone()
}

#[test]
fn they_are_listed_where_they_are_configured_and_say_what_is_allowed() {
    let mut running = gateway(&Peer::start(|_| json_answer("{}"))).says_anything().start();
    let tools = listed(&mut running);
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["http_request", "read_result", "tidegate_status"]);
    let description = tools[0]["description"].as_str().unwrap();
    assert!(description.contains("GET, HEAD http://127.0.0.1:") && description.contains(" under /v1/; "), "{description}");
    assert!(!description.contains("key-of-the-policy"));
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["url"]));
    running.end();
    let say = r#"[{"name": "say", "description": "Says it", "exec": {"argv": ["echo", "said"]}}]"#;
    let mut running = Gateway::new().tools(say).start();
    let names: Vec<Value> = listed(&mut running).iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["say", "read_result", "tidegate_status"]);
    let unknown = ask(&mut running, "http_request", &json!({"url": "https://example.com/"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    running.end();
}
