//! Remote commands up to the point where they would be sent: declared, decided, recorded.

use serde_json::{Value, json};

use crate::kit::gateway::Gateway;
#[cfg(feature = "ssh")]
use crate::kit::{modern_call, unique};

/// A gateway with one SSH host and two tools for it; the host key of nobody is known, so no secret could ever be sent.
fn gateway(auth: Value) -> Gateway {
    let gateway = Gateway::new();
    let key = gateway.dir().write("key", "a private key, or something like it");
    let missing = gateway.dir().join("missing");
    let credentials = json!({"web_key": {"from": {"file": key}}, "gone": {"from": {"file": missing}}});
    let host = json!({"address": "127.0.0.1", "port": 1, "user": "deploy", "auth": auth, "known_hosts": "/dev/null"});
    let restart = json!({"name": "restart", "description": "Restarts a unit",
        "input": {"type": "object", "properties": {"unit": {"type": "string"}, "note": {"type": "string"}}, "required": ["note"]},
        "ssh": {"host": "web1", "argv": ["systemctl", "restart", "{unit}"], "env": {"LANG": "C"}, "cwd": "/srv", "stdin": "{note}"}});
    let up = json!({"name": "up", "description": "Up", "ssh": {"host": "web1", "argv": ["uptime"]}});
    gateway.set("credentials", credentials).set("hosts", json!({"web1": host})).set("tools", json!([restart, up]))
}

#[cfg(feature = "ssh")]
#[track_caller]
fn check_call(reply: &Value, code: &Value, says: &str) {
    let (outcome, text) = (&reply["result"]["_meta"]["tidegate/outcome"], reply["result"]["content"][0]["text"].as_str());
    assert_eq!((&outcome["code"], &outcome["executed"]), (code, &json!("no")), "{reply}");
    assert!(text.is_some_and(|text| text.contains(says)), "{says:?}: {reply}");
}

#[test]
#[cfg(feature = "ssh")]
fn r074_a_dry_run_shows_the_typed_command_and_its_credential_by_name() {
    let mut gateway = gateway(json!({"key": "web_key", "passphrase": "web_key"}))
        .says("/credentials/gone: no tool and no host uses this credential");
    let record = gateway.dir().join("record");
    gateway = gateway.args(["--dry-run", "--record"]).args([record]);
    let mut running = gateway.start();
    let reply = running.ask(&modern_call(1, "restart", r#"{"unit":"app\ntouch pwned","note":"x"}"#));
    check_call(&reply, &Value::Null, r#"ssh web1 systemctl restart "app\ntouch pwned""#);
    for (arguments, says) in [
        (r#"{"unit":"-a","note":"x"}"#, "does not begin with -"),
        (r#"{"unit":"a\u0000b","note":"x"}"#, "NUL"),
        (r#"{"unit":"a"}"#, "missing property \"note\""),
    ] {
        check_call(
            &running.ask(&modern_call(format!("\"{}\"", unique()), "restart", arguments)),
            &json!("bad_arguments"),
            says,
        );
    }
    let ended = running.end();
    let lines: Vec<Value> = ended.dir.read("record").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&line["rule"], &line["credential"]), (&json!("declared:restart"), &json!("web_key")));
    let action = json!({"ssh": {"host": "web1", "argv": ["systemctl", "restart", "app\ntouch pwned"], "env": {"LANG": "C"},
        "cwd": "/srv", "stdin": {"text": "x"}}});
    assert_eq!(line["action"], action);
    assert!(!ended.dir.join("state").exists());
}

#[test]
#[cfg(feature = "ssh")]
fn the_intent_names_the_credential_and_each_missing_value_ends_the_call() {
    for (auth, name) in [
        (json!({"key": "gone", "passphrase": "web_key"}), json!("gone")),
        (json!({"key": "web_key", "passphrase": "gone"}), json!("web_key")),
        (json!({"password": "gone"}), json!("gone")),
    ] {
        let mut running = gateway(auth).says_anything().start();
        check_call(&running.ask(&modern_call(1, "up", "{}")), &json!("credential_unavailable"), "credential \"gone\"");
        let journal = running.end().dir.journal_under("state");
        let intent = journal.iter().find(|line| line["type"] == "intent").unwrap();
        assert_eq!((&intent["target"], &intent["credential"]), (&json!("ssh web1 uptime"), &name));
        let outcome = journal.iter().find(|line| line["type"] == "outcome").unwrap();
        assert_eq!((&outcome["code"], &outcome["executed"]), (&json!("credential_unavailable"), &json!("no")));
    }
}

#[test]
#[cfg(not(feature = "ssh"))]
fn a_build_without_ssh_refuses_its_tools_at_the_start() {
    let at = |index| format!("/tools/{index}/ssh: this build has no SSH (feature ssh)");
    gateway(json!({"key": "web_key"})).exit(78).says(&at(0)).says(&at(1)).start().end();
}
