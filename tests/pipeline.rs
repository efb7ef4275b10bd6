//! The order of things, seen from outside: refused before anything, recorded before done, one code for each way to fail.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::peer::{Answer, Peer, json as json_answer, ok};
use crate::kit::{modern_call, process, unique};

/// A tool that runs `script` with its one argument as `$1`.
fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "description": "Runs a script",
        "input": {"type": "object", "properties": {"x": {"type": "string"}}},
        "exec": {"argv": ["sh", "-c", script, "sh", "{x}"]}})
}

fn get(name: &str, url: &str) -> Value {
    json!({"name": name, "description": "Gets it", "http": {"url": url}})
}

fn gateway(tools: Value) -> Gateway {
    Gateway::new().set("tools", tools)
}

/// The outcome object of a result or an error, and its text.
#[track_caller]
fn outcome(reply: &Value) -> (String, String, String) {
    let (meta, text) = match reply.get("error") {
        Some(error) => (&error["data"]["tidegate/outcome"], &error["message"]),
        None => (&reply["result"]["_meta"]["tidegate/outcome"], &reply["result"]["content"][0]["text"]),
    };
    let text_of = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    (text_of(&meta["code"]), text_of(&meta["executed"]), text_of(text))
}

#[track_caller]
fn check(running: &mut Running, tool: &str, arguments: &str, code: &str, executed: &str, says: &str) {
    let reply = running.ask(&modern_call(format!("\"{}\"", unique()), tool, arguments));
    let (got_code, got_executed, text) = outcome(&reply);
    assert_eq!((got_code.as_str(), got_executed.as_str()), (code, executed), "{reply}");
    assert!(text.contains(says), "{says:?} is not in {text:?}");
    if reply.get("error").is_none() {
        assert_eq!(reply["result"]["isError"], json!(code != "none"), "{reply}");
        let headline = format!("tidegate: {code} (executed: {executed}): ");
        assert!(code == "none" || text.starts_with(&headline), "{text}");
    }
}

#[test]
fn the_intent_is_on_disk_before_the_command_runs() {
    let gateway = Gateway::new();
    let journal = gateway.dir().join("state/journal");
    let mut running = gateway.set("tools", json!([sh("show", &format!("cat {}/*", journal.display()))])).start();
    let reply = running.ask(&modern_call(1, "show", r#"{"x":"some argument"}"#));
    let seen = reply["result"]["structuredContent"]["stdout"]["text"].as_str().unwrap().to_owned();
    let last: Value = serde_json::from_str(seen.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["tool"], &last["rule"]), (&json!("intent"), &json!("show"), &json!("declared:show")));
    let ended = running.end();
    let journal: Vec<Value> = ended.dir.journal_under("state");
    let types: Vec<&str> = journal.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["session", "intent", "outcome"]);
    assert_eq!(journal.iter().map(|line| line["seq"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((&journal[2]["code"], &journal[2]["executed"]), (&json!("ok"), &json!("yes")));
    let mode = |path: &str| std::fs::metadata(ended.dir.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("state"), mode("state/journal")), (0o700, 0o700));
}

#[test]
fn without_a_journal_nothing_runs_and_the_session_lives() {
    let gateway = Gateway::new();
    let marker = gateway.dir().join("marker");
    // A file stands where the state folder should be.
    gateway.dir().write("state", "in the way");
    let mut running = gateway.set("tools", json!([sh("touch", &format!("touch {}", marker.display()))])).start();
    check(&mut running, "touch", "{}", "journal_unavailable", "no", "nothing was done");
    assert!(!marker.exists());
    std::fs::remove_file(running.dir.join("state")).unwrap();
    check(&mut running, "touch", "{}", "none", "yes", "");
    assert!(marker.exists(), "it recovers without a restart");
    running.end();
}

#[test]
fn refused_arguments_reach_nothing() {
    let gateway = Gateway::new();
    let marker = gateway.dir().join("marker");
    let peer = Peer::start(|_| json_answer("{}"));
    let mut fetch = get("fetch", &format!("{}/a/{{p}}", peer.url()));
    fetch["input"] = json!({"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]});
    let tools = json!([sh("touch", &format!("touch {}", marker.display())), fetch]);
    let mut running = gateway.set("tools", tools).start();
    for (tool, arguments, says) in [
        ("touch", r#"{"x":5}"#, "arguments.x: expected string"),
        ("touch", r#"{"y":"canary"}"#, "unknown property \"y\""),
        ("touch", r#"{"x":"canary\u0000b"}"#, "NUL"),
        ("touch", r#"{"x":"-rf canary"}"#, "does not begin with -"),
        ("fetch", "{}", "missing property \"p\""),
        ("fetch", r#"{"p":".."}"#, "segment"),
        ("fetch", r#"{"p":""}"#, "argument \"p\""),
    ] {
        check(&mut running, tool, arguments, "bad_arguments", "no", says);
    }
    check(&mut running, "nothing", "{}", "unknown_tool", "no", "Unknown tool: \"nothing\"");
    let ended = running.end();
    assert!(!marker.exists());
    assert_eq!(peer.connections(), 0);
    assert_eq!(ended.dir.journal_under("state"), [Value::Null; 0], "no journal for what was refused");
    let refused = ended.dir.refusals_under("state");
    let stages: Vec<_> = refused.iter().map(|record| record["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["action", "action", "action", "action", "action", "action", "action", "call"], "{refused:#?}");
    assert_eq!(refused[7]["reason"], "unknown_tool");
    for path in ended.dir.journal_files("state") {
        assert!(!std::fs::read_to_string(&path).unwrap().contains("canary"), "{}", path.display());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn each_way_to_fail_has_its_code() {
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cut = Peer::start(|_| Answer::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\ntwelve bytes".to_vec()));
    let gone = Peer::start(|_| Answer::Bytes(Vec::new()));
    let garbage = Peer::start(|_| Answer::Bytes(b"this is not HTTP at all\r\n\r\n".to_vec()));
    let missing = Peer::start(|_| Answer::Bytes(b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnope".to_vec()));
    let no_tls = TcpListener::bind("127.0.0.1:0").unwrap();
    let no_tls_port = no_tls.local_addr().unwrap().port();
    let answerer = std::thread::spawn(move || no_tls.accept().unwrap().0.write_all(b"no TLS here, sorry\r\n").unwrap());
    let mut slow = sh("slow", "sleep 600");
    slow["timeout_s"] = json!(0.3);
    let tools = json!([
        sh("fails", "echo out; echo err >&2; exit 3"),
        sh("dies", "kill -KILL $$"),
        slow,
        {"name": "absent", "description": "x", "exec": {"argv": ["/nonexistent/program"]}},
        get("refused", &format!("http://127.0.0.1:{refused}/")),
        get("tls", &format!("https://127.0.0.1:{no_tls_port}/")),
        get("cut", &format!("{}/", cut.url())),
        get("gone", &format!("{}/", gone.url())),
        get("garbage", &format!("{}/", garbage.url())),
        get("missing", &format!("{}/", missing.url())),
    ]);
    let mut running = gateway(tools).says("/nonexistent/program").start();
    check(&mut running, "fails", "{}", "target_error", "yes", "status 3");
    check(&mut running, "dies", "{}", "target_error", "yes", "signal KILL");
    check(&mut running, "slow", "{}", "timed_out", "yes", "300ms");
    check(&mut running, "absent", "{}", "spawn_failed", "no", "/nonexistent/program");
    check(&mut running, "refused", "{}", "connect_failed", "no", "127.0.0.1");
    check(&mut running, "tls", "{}", "tls_failed", "no", "");
    answerer.join().unwrap();
    check(&mut running, "cut", "{}", "connection_lost", "yes", "12 of 30 bytes");
    check(&mut running, "gone", "{}", "connection_lost", "unknown", "");
    check(&mut running, "garbage", "{}", "response_malformed", "unknown", "");
    check(&mut running, "missing", "{}", "target_error", "yes", "404");
    running.end();
}

#[test]
fn a_credential_goes_where_its_scopes_say_and_is_seen_nowhere_else() {
    let key = format!("canary-{}", unique());
    let echo = Peer::start(|seen| json_answer(&json!({"you_sent": seen.header("authorization")}).to_string()));
    let mut fetch = get("fetch", &format!("{}/v1/{{+path}}", echo.url()));
    fetch["input"] = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    fetch["http"]["credential"] = json!("api");
    let gateway = Gateway::new();
    let file = gateway.dir().write("key", format!("{key}\n"));
    let scope = json!([{"host": "127.0.0.1", "port": echo.port(), "paths": ["/v1/open/"]}]);
    let credentials = json!({"api": {"from": {"file": file}, "for": scope}});
    let tools = json!([fetch, sh("cat", &format!("cat {}", file.display()))]);
    let mut running = gateway.set("credentials", credentials).set("tools", tools).start();
    let reply = running.ask(&modern_call(1, "fetch", r#"{"path":"open/x"}"#));
    assert_eq!(reply["result"]["structuredContent"]["body"]["you_sent"], "Bearer [redacted:api]", "{reply}");
    assert_eq!(echo.seen()[0].header("authorization"), Some(format!("Bearer {key}").as_str()));
    check(&mut running, "fetch", r#"{"path":"closed/x"}"#, "denied", "no", "api");
    check(&mut running, "cat", "{}", "none", "yes", "[redacted:api]");
    assert_eq!(echo.connections(), 1, "the denied request opened no connection");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    check(&mut running, "fetch", r#"{"path":"open/x"}"#, "credential_unavailable", "no", "chmod 600");
    let ended = running.end();
    let journal = format!("{:?}", ended.dir.journal_under("state"));
    let stdout = String::from_utf8_lossy(&ended.stdout).into_owned();
    for place in [&journal, &stdout, &ended.stderr] {
        assert!(!place.contains(&key), "{place}");
    }
}

#[test]
fn a_header_credential_comes_from_the_environment_and_reaches_no_child() {
    let key = format!("canary-{}", unique());
    let peer = Peer::start(|_| ok("text/plain", b"fine"));
    let mut fetch = get("fetch", &format!("{}/", peer.url()));
    fetch["http"]["credential"] = json!("api");
    let scope = json!([{"host": "127.0.0.1", "port": peer.port()}]);
    let placement = json!({"header": {"name": "X-Api-Key", "prefix": "Token "}});
    let credentials = json!({"api": {"from": {"env": "API_KEY"}, "as": placement, "for": scope}});
    let tools = json!([fetch, sh("env", "env; cat /proc/$PPID/environ")]);
    let mut running = gateway(tools).set("credentials", credentials).env("API_KEY", key.clone()).start();
    check(&mut running, "fetch", "{}", "none", "yes", "fine");
    assert_eq!(peer.seen()[0].header("x-api-key"), Some(format!("Token {key}").as_str()));
    let reply = running.ask(&modern_call(2, "env", "{}"));
    let text = reply["result"]["structuredContent"]["stdout"]["text"].as_str().unwrap();
    assert!(!text.contains("API_KEY=c") && !text.contains(&key), "{text}");
    running.end();
}

#[test]
fn a_redirect_is_shown_and_not_followed_r067() {
    let other = Peer::start(|_| ok("text/plain", b"stolen"));
    let location = format!("{}/take", other.url());
    let first = Peer::start(move |_| {
        Answer::Bytes(
            format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n").into_bytes(),
        )
    });
    let mut running = gateway(json!([get("fetch", &format!("{}/", first.url()))])).start();
    let reply = running.ask(&modern_call(1, "fetch", "{}"));
    assert_eq!(reply["result"]["structuredContent"]["status"], 307);
    assert!(reply["result"]["structuredContent"]["headers"]["location"].as_str().unwrap().ends_with("/take"));
    running.end();
    assert_eq!(other.connections(), 0);
}

#[test]
fn above_the_limit_of_calls_the_answer_is_busy_at_once() {
    let gateway = gateway(json!([sh("wait", "sleep 600")])).set("limits", json!({"calls": 2, "workers": 1}));
    let mut running = gateway.start();
    running.send(&modern_call(1, "wait", "{}"));
    running.send(&modern_call(2, "wait", "{}"));
    check(&mut running, "wait", "{}", "busy", "no", "2 calls are under way");
    running.send(&crate::kit::cancel(2));
    running.send(&crate::kit::cancel(1));
    process::until("the slots are free", || {
        let reply = running.ask(&modern_call("\"again\"", "tidegate_status", "{}"));
        reply["result"]["structuredContent"]["calls_under_way"] == 0
    });
    running.end();
}

#[test]
fn the_same_call_twice_in_one_write_is_carried_out_once() {
    let gateway = Gateway::new();
    let log = gateway.dir().join("log");
    let mut running = gateway
        .set("tools", json!([sh("log", &format!("echo ran >> {}", log.display()))]))
        .set("session", json!({"on_malformed": "continue"}))
        .says("refused a line that is no message: id_in_flight")
        .start();
    let call = modern_call(7, "log", "{}");
    running.send_raw(format!("{call}\n{call}\n").as_bytes());
    assert_eq!(running.reply("7")["result"]["isError"], false);
    let error = running.next();
    assert_eq!((&error["error"]["code"], error.get("id")), (&json!(-32600), None), "{error}");
    let ended = running.end();
    assert_eq!(ended.dir.read("log"), "ran\n");
}

#[test]
fn a_dry_run_records_each_action_and_executes_none() {
    let gateway = Gateway::new();
    let (marker, record) = (gateway.dir().join("marker"), gateway.dir().join("record"));
    let peer = Peer::start(|_| json_answer("{}"));
    let tools = json!([sh("touch", &format!("touch {}", marker.display())), get("fetch", &format!("{}/x", peer.url()))]);
    let gateway = gateway.set("tools", tools).args(["--dry-run", "--record"]).args([record.clone()]);
    let mut running = gateway.start();
    check(&mut running, "touch", r#"{"x":"a"}"#, "none", "no", "dry run");
    check(&mut running, "fetch", "{}", "none", "no", "GET http://127.0.0.1");
    check(&mut running, "touch", r#"{"x":1}"#, "bad_arguments", "no", "expected string");
    let ended = running.end();
    assert!(!marker.exists() && peer.connections() == 0 && !ended.dir.join("state").exists());
    let lines: Vec<Value> = ended.dir.read("record").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["action"]["exec"]["argv"][4], "a");
    assert_eq!(lines[1]["action"]["http"]["url"], format!("{}/x", peer.url()));
}

#[test]
fn without_a_configuration_it_says_how_to_configure() {
    let mut running = Gateway::new().says("no configuration").start();
    let listed =
        running.ask(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{}}}}}"#, crate::kit::MODERN));
    let names: Vec<&str> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tidegate_status"]);
    check(&mut running, "tidegate_status", "{}", "none", "no", "--config FILE");
    check(&mut running, "tidegate_status", r#"{"x":1}"#, "bad_arguments", "no", "expected none");
    running.end();
}
