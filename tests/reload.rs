//! SIGHUP: another configuration is taken whole or not at all, running calls keep their terms, and whoever asked hears of it.

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::peer::{Peer, json as json_answer};
use crate::kit::process::{mark, until, with_mark};
use crate::kit::{Era, call, cancel, modern_call};

const CHANGED: &str = "notifications/tools/list_changed";

fn say(name: &str, text: &str) -> Value {
    json!({"name": name, "description": "Says it", "exec": {"argv": ["echo", text]}})
}

/// Writes the next configuration and asks for it to be read.
fn reload(gateway: &mut Running, members: &[(&str, Value)]) {
    let mut config = json!({"state_dir": gateway.dir.join("state")});
    members.iter().for_each(|(name, value)| config[*name] = value.clone());
    gateway.dir.write("config.json", config.to_string());
    gateway.signal("HUP");
}

/// Waits until the operator has been told `part` for the `times`-th time.
fn told(gateway: &Running, part: &str, times: usize) {
    until(part, || gateway.stderr().matches(part).count() >= times);
}

fn names(gateway: &mut Running, era: Era) -> Vec<String> {
    let meta = era.meta();
    let reply = gateway.ask(&format!(r#"{{"jsonrpc":"2.0","id":"list","method":"tools/list","params":{{{meta}}}}}"#));
    reply["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn text(reply: &Value) -> &str {
    reply["result"]["structuredContent"]["stdout"]["text"].as_str().unwrap_or_else(|| panic!("{reply}"))
}

#[test]
fn the_next_configuration_is_at_work_and_announced_to_a_legacy_session() {
    let mut gateway = Gateway::new().set("tools", json!([say("one", "before")])).says_anything().start();
    gateway.initialize("2025-11-25");
    assert_eq!(names(&mut gateway, Era::Legacy), ["one", "read_result", "tidegate_status"]);
    reload(&mut gateway, &[("tools", json!([say("one", "after"), say("two", "too")]))]);
    let notice = gateway.next();
    assert_eq!((&notice["method"], notice.get("id")), (&json!(CHANGED), None));
    assert_eq!(names(&mut gateway, Era::Legacy), ["one", "two", "read_result", "tidegate_status"]);
    assert_eq!(text(&gateway.ask(&call(Era::Legacy, 1, "one", "{}"))), "after\n");
    assert_eq!(text(&gateway.ask(&call(Era::Legacy, 2, "two", "{}"))), "too\n");
    reload(&mut gateway, &[("tools", json!([say("two", "too")]))]);
    assert_eq!(gateway.next()["method"], CHANGED);
    let reply = gateway.ask(&call(Era::Legacy, 3, "one", "{}"));
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["data"]["tidegate/outcome"]["executed"]),
        (&json!(-32602), &json!("no"))
    );
    gateway.end();
}

#[test]
fn subscriptions_hear_of_it_under_their_ids_and_others_do_not_s110() {
    let mut gateway = Gateway::new().set("tools", json!([say("one", "x")])).says_anything().start();
    let listen = |id: &str, wants: &str| {
        let meta = Era::Modern.meta();
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"notifications":{{{wants}}},{meta}}}}}"#
        )
    };
    for (id, wants) in [("\"a\"", r#""toolsListChanged":true"#), ("7", r#""toolsListChanged":true"#), ("\"b\"", "")] {
        gateway.send(&listen(id, wants));
        assert_eq!(gateway.next()["method"], "notifications/subscriptions/acknowledged");
    }
    gateway.send(&cancel(7));
    reload(&mut gateway, &[("tools", json!([say("one", "x"), say("two", "x")]))]);
    let notice = gateway.next();
    assert_eq!(notice["method"], CHANGED);
    assert_eq!(notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "a");
    // The same list once more is no change.
    reload(&mut gateway, &[("tools", json!([say("one", "y"), say("two", "y")]))]);
    told(&gateway, "reload: the configuration is at work", 2);
    assert_eq!(gateway.probe(), [Value::Null; 0]);
    assert_eq!(text(&gateway.ask(&modern_call(1, "one", "{}"))), "y\n");
    gateway.end();
}

#[test]
fn a_configuration_that_is_not_sound_changes_nothing_and_is_told() {
    let mut gateway = Gateway::new().set("tools", json!([say("one", "x")])).says_anything().start();
    // Whoever answers heeds signals.
    gateway.probe();
    for (count, bad) in ["{", r#"{"tools": [{"name": "two"}]}"#, r#"{"tolls": []}"#].iter().enumerate() {
        gateway.dir.write("config.json", bad);
        gateway.signal("HUP");
        told(&gateway, "the one before stays at work", count + 1);
    }
    assert!(gateway.stderr().contains("tolls"), "{}", gateway.stderr());
    std::fs::remove_file(gateway.dir.join("config.json")).unwrap();
    gateway.signal("HUP");
    told(&gateway, "the one before stays at work", 4);
    assert_eq!(gateway.probe(), [Value::Null; 0]);
    assert_eq!(text(&gateway.ask(&modern_call(1, "one", "{}"))), "x\n");
    gateway.end();
}

/// Where a configuration is searched for, none at all is sound: it would take every tool away.
#[test]
fn a_configuration_that_was_found_and_is_gone_stays_at_work() {
    let gateway = Gateway::new();
    let folder = gateway.dir().join(".config/tidegate");
    std::fs::create_dir_all(&folder).unwrap();
    let config = json!({"state_dir": gateway.dir().join("state"), "tools": [say("one", "x")]});
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let mut gateway = gateway.says_anything().start();
    // Whoever answers heeds signals.
    gateway.probe();
    std::fs::remove_file(folder.join("config.json")).unwrap();
    gateway.signal("HUP");
    told(&gateway, "reload: ", 1);
    assert_eq!(text(&gateway.ask(&modern_call(1, "one", "{}"))), "x\n", "{}", gateway.stderr());
    assert!(gateway.stderr().contains("no configuration any more; the one before stays at work"), "{}", gateway.stderr());
    gateway.end();
}

#[test]
fn a_running_call_keeps_its_terms() {
    let mark = mark();
    let wait = json!({"name": "wait", "description": "Waits", "exec": {"argv": ["sh", "-c", "sleep \"$1\"", "sh", mark]}});
    let mut gateway = Gateway::new().set("tools", json!([wait])).says_anything().start();
    gateway.send(&modern_call(1, "wait", "{}"));
    until("it runs", || !with_mark(&mark).is_empty());
    reload(&mut gateway, &[("tools", json!([say("one", "x")]))]);
    told(&gateway, "reload: the configuration is at work", 1);
    assert_eq!(text(&gateway.ask(&modern_call(2, "one", "{}"))), "x\n");
    assert!(!with_mark(&mark).is_empty(), "the reload ended a call");
    gateway.send(&cancel(1));
    until("it is gone", || with_mark(&mark).is_empty());
    gateway.end();
}

#[test]
fn credentials_and_networks_are_the_new_ones_and_old_values_stay_redacted() {
    let peer = Peer::start(|seen| json_answer(&json!({"seen": seen.header("authorization")}).to_string()));
    let config = |dir: &crate::kit::dir::Dir, key: &str, networks: Value| {
        let key = dir.write_mode(key, format!("value-of-{key}"), 0o600);
        [
            (
                "credentials",
                json!({"k": {"from": {"file": key}, "for": [{"host": "localhost", "port": peer.port(), "scheme": "http"}]}}),
            ),
            ("networks", networks),
            (
                "tools",
                json!([
                    {"name": "fetch", "description": "Fetches", "http": {"url": format!("http://localhost:{}/", peer.port()), "credential": "k"}},
                    {"name": "print", "description": "Prints", "exec": {"argv": ["echo", "value-of-first-key", "value-of-second-key"]}},
                ]),
            ),
        ]
    };
    let gateway = Gateway::new();
    let members = config(gateway.dir(), "first-key", json!([]));
    let gateway = members.into_iter().fold(gateway, |gateway, (name, value)| gateway.set(name, value));
    let mut gateway = gateway.says_anything().start();
    gateway.ask(&modern_call(1, "fetch", "{}"));
    assert_eq!(peer.seen()[0].header("authorization"), Some("Bearer value-of-first-key"));
    let members = config(&gateway.dir, "second-key", json!([]));
    reload(&mut gateway, &members);
    told(&gateway, "reload: the configuration is at work", 1);
    gateway.ask(&modern_call(2, "fetch", "{}"));
    assert_eq!(peer.seen()[1].header("authorization"), Some("Bearer value-of-second-key"));
    let reply = gateway.ask(&modern_call(3, "print", "{}")).to_string();
    assert!(!reply.contains("value-of-first-key") && !reply.contains("value-of-second-key"), "{reply}");
    gateway.end();
}

#[test]
fn a_rate_that_stays_the_same_stays_spent() {
    let rated = |per_minute: u32| json!([{"name": "one", "description": "Says it", "rate": {"per_minute": per_minute, "burst": 1}, "exec": {"argv": ["echo", "x"]}}]);
    let mut gateway = Gateway::new().set("tools", rated(1)).says_anything().start();
    let code = |gateway: &mut Running| {
        gateway.ask(&modern_call(1, "one", "{}"))["result"]["_meta"]["tidegate/outcome"]["code"].clone()
    };
    assert_eq!(code(&mut gateway), Value::Null);
    reload(&mut gateway, &[("tools", rated(1))]);
    told(&gateway, "reload: the configuration is at work", 1);
    assert_eq!(code(&mut gateway), "rate_limited");
    reload(&mut gateway, &[("tools", rated(2))]);
    told(&gateway, "reload: the configuration is at work", 2);
    assert_eq!(code(&mut gateway), Value::Null);
    gateway.end();
}

/// Two configurations in turn while calls go on: each call is carried out under one of them, whole, and each is answered once.
#[test]
fn reloads_under_load_lose_no_call_and_mix_no_configuration() {
    const CALLS: usize = 600;
    let both = |text: &str| json!([say("one", text), say("two", text)]);
    let mut gateway = Gateway::new().set("tools", both("a")).set("journal", json!({"sync": "intents"})).says_anything().start();
    gateway.probe();
    let mut seen = Vec::new();
    for round in 0..20 {
        for id in 0..CALLS / 20 {
            let name = if id % 2 == 0 { "one" } else { "two" };
            gateway.send(&modern_call(round * 1000 + id, name, "{}"));
        }
        let text = if round % 2 == 0 { "b" } else { "a" };
        reload(&mut gateway, &[("tools", both(text)), ("journal", json!({"sync": "intents"}))]);
        seen.extend((0..CALLS / 20).map(|_| gateway.next()));
        told(&gateway, "reload: the configuration is at work", round + 1);
    }
    let mut ids: Vec<u64> = seen.iter().map(|reply| reply["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), CALLS);
    let is_one_of_both = |reply: &Value| ["a\n", "b\n"].contains(&text(reply));
    assert!(seen.iter().all(is_one_of_both));
    assert_eq!(gateway.probe(), [Value::Null; 0]);
    gateway.end();
}

/// However often the list changes while nobody reads, each listener is owed one notice.
#[test]
fn changes_that_nobody_reads_are_told_once() {
    let mut gateway = Gateway::new().set("tools", json!([say("t0", "x")])).says_anything().stdout_held().start();
    gateway.send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#);
    gateway.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    // Their answers take more than half of the room there is for what the reader says.
    (1..1600).for_each(|id| gateway.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#)));
    until("they are read", || gateway.stderr().is_empty());
    for round in 1..10 {
        reload(&mut gateway, &[("tools", json!([say(&format!("t{round}"), "x")]))]);
        told(&gateway, "reload: the configuration is at work", round);
    }
    gateway.read_on();
    let mut notices = 0;
    let mut listed = 0;
    gateway.send(r#"{"jsonrpc":"2.0","id":"end","method":"ping"}"#);
    loop {
        let message = gateway.next();
        notices += usize::from(message["method"] == CHANGED);
        listed += usize::from(message["id"].is_u64());
        if message["id"] == "end" {
            break;
        }
    }
    assert_eq!(listed, 1600, "each request has its answer");
    assert!((1..=2).contains(&notices), "{notices} notices");
    gateway.end();
}

/// What a session takes from its configuration at the start alone is said to be so when it has changed.
#[test]
fn what_needs_a_new_start_is_told() {
    let mut gateway = Gateway::new().set("tools", json!([say("one", "x")])).says_anything().start();
    gateway.initialize("2025-11-25");
    let members = |more: &[(&'static str, Value)]| [&[("tools", json!([say("one", "x")]))], more].concat();
    reload(&mut gateway, &members(&[]));
    told(&gateway, "reload: the configuration is at work", 1);
    assert!(!gateway.stderr().contains("at start only"), "{}", gateway.stderr());
    let journal = ("journal", json!({"sync": "intents"}));
    let log = ("log", json!({"level": "debug"}));
    reload(&mut gateway, &members(&[journal, log, ("limits", json!({"workers": 3}))]));
    told(&gateway, "reload: the configuration is at work", 2);
    for part in ["journal is", "log is", "limits.line_in_bytes, calls and workers are"] {
        assert!(gateway.stderr().contains(&format!("reload: {part} read at start only")), "{}", gateway.stderr());
    }
    gateway.end();
}
