//! Where credentials come from, seen from outside: each source serves, a helper runs when it should and never else, ends with its
//! call, and says nothing to anybody.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::peer::{Answer, Peer, ok};
#[cfg(feature = "ssh")]
use crate::kit::sshd::{Sshd, keygen};
use crate::kit::{cancel, modern_call, process, unique};

/// A gateway whose credential `api` comes `from` there, with tools that use it and one that uses none.
fn gateway(from: &Value, peer: &Peer) -> Gateway {
    let scope = json!([{"host": "127.0.0.1", "port": peer.port()}]);
    let tools = json!([
        {"name": "fetch", "description": "Fetches it", "http": {"url": format!("{}/it", peer.url()), "credential": "api"}},
        {"name": "say", "description": "Says it", "exec": {"argv": ["echo", "hello"]}},
    ]);
    Gateway::new().set("credentials", json!({"api": {"from": from, "for": scope}})).set("tools", tools)
}

/// Writes a helper into a folder and returns its path.
fn helper(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("helper");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

/// A helper that counts its runs in `runs` and prints `SECRET-N` at its Nth run.
fn counting(folder: &Path, secret: &str) -> PathBuf {
    let runs = folder.join("runs");
    helper(folder, &format!("echo run >> '{0}'; echo \"{secret}-$(wc -l < '{0}')\"", runs.display()))
}

/// The outcome of a call of `tool`, and its text.
#[track_caller]
fn call(running: &mut Running, tool: &str) -> (Value, Value, String) {
    let reply = running.ask(&modern_call(format!("\"{}\"", unique()), tool, "{}"));
    let (outcome, text) = (&reply["result"]["_meta"]["tidegate/outcome"], &reply["result"]["content"][0]["text"]);
    (outcome["code"].clone(), outcome["executed"].clone(), text.as_str().unwrap_or_else(|| panic!("{reply}")).to_owned())
}

#[track_caller]
fn check_fetched(running: &mut Running, peer: &Peer, value: &str) {
    let (code, executed, text) = call(running, "fetch");
    assert_eq!((code, executed), (Value::Null, json!("yes")), "{text}");
    assert_eq!(peer.seen().last().unwrap().header("authorization"), Some(format!("Bearer {value}").as_str()));
}

#[test]
fn every_source_serves_and_is_redacted() {
    let secret = format!("secret-{}", unique());
    for source in ["env", "file", "command", "systemd"] {
        let peer = Peer::start(|seen| ok("text/plain", seen.header("authorization").unwrap_or_default().as_bytes()));
        let scratch = Gateway::new();
        let file = scratch.dir().write("passed", format!("{secret}\n"));
        let from = match source {
            "env" => json!({"env": "API_KEY"}),
            "file" => json!({"file": file}),
            "command" => json!({"command": ["cat", file]}),
            _ => json!({"systemd": "passed"}),
        };
        let gateway = gateway(&from, &peer).env("API_KEY", &secret);
        let mut running = gateway.env("CREDENTIALS_DIRECTORY", scratch.dir().path().to_str().unwrap()).start();
        check_fetched(&mut running, &peer, &secret);
        let (.., text) = call(&mut running, "fetch");
        assert!(text.contains("Bearer [redacted:api]"), "{source}: {text}");
        running.end();
    }
}

#[test]
fn a_helper_runs_for_its_own_credential_alone_and_once() {
    let peer = Peer::start(|_| ok("text/plain", b"fine"));
    let scratch = Gateway::new();
    let program = counting(scratch.dir().path(), "secret-of-the-helper");
    let ran = || scratch.dir().read("runs").lines().count();
    let mut running = gateway(&json!({"command": [program]}), &peer).start();
    for tool in ["say", "tidegate_status", "say"] {
        call(&mut running, tool);
    }
    assert_eq!(ran(), 0, "a call without the credential started its helper");
    for _ in 0..3 {
        check_fetched(&mut running, &peer, "secret-of-the-helper-1");
    }
    assert_eq!(ran(), 1);
    running.end();
    let mut running = gateway(&json!({"command": [program], "cache_s": 0}), &peer).start();
    check_fetched(&mut running, &peer, "secret-of-the-helper-2");
    check_fetched(&mut running, &peer, "secret-of-the-helper-3");
    running.end();
    let record = scratch.dir().join("record");
    let mut running = gateway(&json!({"command": [program]}), &peer).args(["--dry-run", "--record"]).args([record]).start();
    call(&mut running, "fetch");
    running.end();
    assert_eq!(ran(), 3, "a dry run started a helper");
}

/// After an answer of `status`: whether the next call has a new value. The failed request itself is not sent again.
#[track_caller]
fn check_after(status: &str, is_had_anew: bool) {
    let line = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nno");
    let peer = Peer::start(move |seen| match seen.header("authorization") {
        Some("Bearer token-number-1") => Answer::Bytes(line.clone().into_bytes()),
        _ => ok("text/plain", b"fine"),
    });
    let scratch = Gateway::new();
    let program = counting(scratch.dir().path(), "token-number");
    let mut running = gateway(&json!({"command": [program]}), &peer).start();
    let (code, executed, text) = call(&mut running, "fetch");
    assert_eq!((code, executed, peer.connections()), (json!("target_error"), json!("yes"), 1), "{text}");
    assert_eq!(scratch.dir().read("runs").lines().count(), 1, "{status}: a helper ran for a call that was over");
    let (code, _, text) = call(&mut running, "fetch");
    assert_eq!((code.is_null(), peer.connections()), (is_had_anew, 2), "{status}: {text}");
    assert_eq!(scratch.dir().read("runs").lines().count(), if is_had_anew { 2 } else { 1 }, "{status}");
    running.end();
}

#[test]
fn only_an_authentication_failure_makes_a_helper_run_again() {
    check_after("401 Unauthorized", true);
    check_after("403 Forbidden", false);
    check_after("500 Internal Server Error", false);
}

#[test]
fn a_value_that_fits_no_header_is_not_kept() {
    let peer = Peer::start(|_| ok("text/plain", b"fine"));
    let scratch = Gateway::new();
    let folder = scratch.dir().path();
    let program =
        helper(folder, &format!("mkdir '{}/first' && echo 'log in first' && echo; echo token-of-the-helper", folder.display()));
    let mut running = gateway(&json!({"command": [program]}), &peer).start();
    let (code, executed, text) = call(&mut running, "fetch");
    assert_eq!((code, executed), (json!("credential_unavailable"), json!("no")), "{text}");
    assert!(text.contains("as a header value") && !text.contains("log in"), "{text}");
    check_fetched(&mut running, &peer, "token-of-the-helper");
    running.end();
}

#[test]
#[cfg(feature = "ssh")]
fn a_refused_login_makes_a_helper_run_again() {
    let sshd = Sshd::start("");
    keygen(sshd.dir().path(), "stranger", &["ed25519"], "");
    let scratch = Gateway::new();
    let (folder, keys) = (scratch.dir().path().display(), sshd.dir().path().display());
    let script = format!(
        "echo run >> '{folder}/runs'; if mkdir '{folder}/first'; then cat '{keys}/stranger'; else cat '{keys}/user'; fi"
    );
    let program = helper(scratch.dir().path(), &script);
    let tools =
        json!([{"name": "remote", "description": "Says it there", "ssh": {"host": "there", "argv": ["echo", "hello"]}}]);
    let gateway = Gateway::new().set("credentials", json!({"user_key": {"from": {"command": [program]}}})).set("tools", tools);
    let mut running = gateway.set("hosts", json!({"there": sshd.host()})).start();
    let (code, executed, text) = call(&mut running, "remote");
    assert_eq!((code, executed), (json!("auth_failed"), json!("no")), "{text}");
    let (code, executed, text) = call(&mut running, "remote");
    assert_eq!((code, executed), (Value::Null, json!("yes")), "{text}");
    call(&mut running, "remote");
    assert_eq!(scratch.dir().read("runs").lines().count(), 2);
    running.end();
}

/// A call whose helper gives no value: nothing is sent, and nothing is said of what the helper printed.
#[track_caller]
fn check_unavailable(from: &Value, says: &str) {
    let peer = Peer::start(|_| ok("text/plain", b"fine"));
    let mut running = gateway(from, &peer).says_anything().start();
    let (code, executed, text) = call(&mut running, "fetch");
    assert_eq!((code, executed), (json!("credential_unavailable"), json!("no")), "{text}");
    assert!(
        text.starts_with("tidegate: credential_unavailable (executed: no): credential \"api\": ") && text.contains(says),
        "{text}"
    );
    let ended = running.end();
    assert_eq!(peer.connections(), 0);
    let journal = ended.dir.journal_under("state");
    let types: Vec<_> = journal.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!((types, &journal[2]["code"]), (vec!["session", "intent", "outcome"], &json!("credential_unavailable")));
    for place in [String::from_utf8_lossy(&ended.stdout).into_owned(), ended.stderr, format!("{journal:?}")] {
        assert!(!place.contains("printed"), "{place}");
    }
}

#[test]
fn a_credential_that_cannot_be_had_is_named_with_its_source_and_nothing_else() {
    let print = "printf printed-; echo printed >&2";
    let sh = |script: &str| json!({"command": ["sh", "-c", format!("{print}; {script}")]});
    check_unavailable(&sh("exit 7"), "command \"sh\" ended with status 7; run it by hand");
    check_unavailable(&sh("kill -TERM $$"), "command \"sh\" was ended by signal TERM");
    check_unavailable(&sh("exec yes printed"), "does not fit: expected a secret of at most 65536 bytes");
    let mut slow = sh("exec sleep 300");
    slow["timeout_s"] = json!(0.3);
    check_unavailable(&slow, "had not ended after 300ms and was ended");
    check_unavailable(&json!({"command": ["true"]}), "command \"true\" is empty");
    check_unavailable(&json!({"command": ["/no/such/helper"]}), "could not be started: \"/no/such/helper\" not found");
    check_unavailable(&json!({"systemd": "token"}), "$CREDENTIALS_DIRECTORY names no absolute folder");
    check_unavailable(&json!({"env": "NOT_SET_AT_ALL"}), "environment variable NOT_SET_AT_ALL is not set");
    check_unavailable(&json!({"file": "/no/such/file"}), "file /no/such/file cannot be read");
}

#[test]
fn the_environment_of_a_helper_is_bare_but_for_what_it_inherits() {
    let peer = Peer::start(|_| ok("text/plain", b"fine"));
    let print = "env | grep -v '^TIDEGATE_CALL=' | grep -v '^_=\\|^PWD=\\|^SHLVL=' | sort | tr '\\n' ' '";
    let from = json!({"command": ["sh", "-c", print], "inherit": ["FOR_THE_HELPER", "NOT_SET_AT_ALL"]});
    let gateway = gateway(&from, &peer).env("FOR_THE_HELPER", "x").env("FOR_NOBODY", "y").env("HOME", "/home/of");
    let mut running = gateway.start();
    let path = "/usr/local/bin:/usr/bin:/bin";
    check_fetched(&mut running, &peer, &format!("FOR_THE_HELPER=x HOME=/home/of LANG=C.UTF-8 PATH={path}"));
    running.end();
}

/// A gateway with a call under way whose helper hangs, and the mark of that helper.
fn hanging(peer: &Peer) -> (Running, String) {
    let mark = process::mark();
    let script = format!("sleep {mark} & setsid sleep {mark} & trap '' TERM; wait; wait; wait");
    let mut running = gateway(&json!({"command": ["sh", "-c", script], "timeout_s": 600}), peer).start();
    running.send(&modern_call(1, "fetch", "{}"));
    process::until("the helper runs", || process::with_mark(&mark).len() == 3);
    (running, mark)
}

#[test]
fn a_helper_that_hangs_keeps_nobody_else_waiting_and_ends_with_its_call() {
    let peer = Peer::start(|_| ok("text/plain", b"fine"));
    let (mut running, mark) = hanging(&peer);
    assert_eq!(call(&mut running, "say").0, Value::Null);
    running.probe();
    running.send(&cancel(1));
    process::until("the helper is gone", || process::with_mark(&mark).is_empty());
    process::until("the call is recorded as cancelled", || {
        running
            .journal()
            .iter()
            .any(|line| line["type"] == "outcome" && line["code"] == "cancelled" && line["executed"] == "no")
    });
    let ended = running.end();
    assert!(ended.rest.is_empty(), "a cancelled call was answered: {:?}", ended.rest);
    assert_eq!(peer.connections(), 0);
}

#[test]
fn a_helper_that_hangs_ends_with_the_session() {
    let peer = Peer::start(|_| ok("text/plain", b"fine"));
    let (running, mark) = hanging(&peer);
    let ended = running.end();
    process::check_gone(&mark);
    let outcome = &ended.rest[0]["result"]["_meta"]["tidegate/outcome"];
    assert_eq!((&outcome["code"], &outcome["executed"]), (&json!("cancelled"), &json!("no")), "{:?}", ended.rest);
}

#[test]
fn calls_at_once_share_one_run() {
    let peer = Peer::start(|_| ok("text/plain", b"fine"));
    let scratch = Gateway::new();
    let program = counting(scratch.dir().path(), "secret-of-the-helper");
    let mut running = gateway(&json!({"command": [program]}), &peer).start();
    (0..32).for_each(|id| running.send(&modern_call(id, "fetch", "{}")));
    for id in 0..32 {
        let reply = running.reply(&id.to_string());
        assert_eq!(reply["result"]["isError"], false, "{reply}");
    }
    assert_eq!((scratch.dir().read("runs").lines().count(), peer.connections()), (1, 32));
    running.end();
}

#[test]
fn an_old_value_stays_redacted_when_a_new_one_is_in_use() {
    let peer = Peer::start(|_| ok("text/plain", b"rotated-secret-1 rotated-secret-2 rotated-secret-3"));
    let scratch = Gateway::new();
    let program = counting(scratch.dir().path(), "rotated-secret");
    let mut running = gateway(&json!({"command": [program], "cache_s": 0}), &peer).start();
    let shown: Vec<String> = (0..3).map(|_| call(&mut running, "fetch").2).collect();
    assert!(shown[0].contains("[redacted:api] rotated-secret-2 rotated-secret-3"), "{}", shown[0]);
    assert!(shown[2].contains("[redacted:api] [redacted:api] [redacted:api]"), "{}", shown[2]);
    running.end();
}
