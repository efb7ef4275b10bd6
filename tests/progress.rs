//! Progress: for a token of any legal type, rising, seldom, about silent commands as well, and never behind a reply or a cancel.
//!
//! What a test measures are the ages in the notifications themselves. A command here runs until its test lets it go.

use serde_json::{Value, json};

use crate::kit::gateway::{Ended, Gateway, Running};
use crate::kit::process::{self, mark, until, with_mark};
use crate::kit::{Era, cancel};

/// Two notifications of a call are at least so far apart, in milliseconds.
const EVERY_MS: u64 = 100;
/// What a silent command is told of.
const HEARTBEAT_MS: u64 = 1000;
/// What eight calls with tokens of 60 KiB may take; a second of all their progress would take more.
const GROWTH_KIB: u64 = 4 << 10;

const TOOLS: &str = r#"[
    {"name": "run", "description": "Runs it", "exec": {"argv": ["sh", "-c", "{script}"]},
     "input": {"type": "object", "properties": {"script": {"type": "string"}}, "required": ["script"]}},
    {"name": "big", "description": "Says much", "content_bytes": 900000,
     "exec": {"argv": ["sh", "-c", "head -c 400000 /dev/zero | tr '\\0' x"]}}]"#;

fn gateway() -> Gateway {
    Gateway::new().tools(TOOLS)
}

/// A request with a progress token; `members` stand in its `params`.
fn asking(era: Era, id: impl std::fmt::Display, method: &str, members: &str, token: &Value) -> String {
    let meta = match era.meta() {
        "" => format!(r#""_meta":{{"progressToken":{token}}}"#),
        meta => format!(r#"{},"progressToken":{token}}}"#, meta.strip_suffix('}').expect("an object")),
    };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}{meta}}}}}"#)
}

fn run(era: Era, id: impl std::fmt::Display, script: &str, token: &Value) -> String {
    asking(era, id, "tools/call", &format!(r#""name":"run","arguments":{},"#, json!({"script": script})), token)
}

/// A script that says something again and again until the test lets it go.
fn talkative(gateway: &Running) -> String {
    format!("while [ ! -e {} ]; do echo line; done", gateway.dir.join("go").display())
}

fn let_go(gateway: &Running) {
    gateway.dir.write("go", "");
}

/// The next message, which has to be a notification of progress under `token`; its value and its text.
#[track_caller]
fn told(gateway: &mut Running, token: &Value) -> (u64, String) {
    let message = gateway.next();
    assert_eq!(message["method"], "notifications/progress", "{message}");
    assert_eq!(message["params"]["progressToken"], *token, "{message}");
    assert!(message["params"].get("total").is_none() && message["params"].get("_meta").is_none(), "{message}");
    let text = message["params"]["message"].as_str().unwrap_or_default().to_owned();
    (message["params"]["progress"].as_u64().expect("whole milliseconds"), text)
}

/// Each later value of a call is so much larger.
#[track_caller]
fn check_apart(values: &[u64], least: u64) {
    assert!(values.first().is_some_and(|first| *first >= least), "{values:?}");
    assert!(values.windows(2).all(|pair| pair[1] >= pair[0] + least), "{values:?}");
}

/// All of stdout: no progress under `token` behind the answer to `id`.
#[track_caller]
fn check_last(ended: &Ended, id: &Value, token: &Value) {
    let lines: Vec<Value> =
        ended.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let answer = lines.iter().position(|line| line["id"] == *id && line.get("result").is_some()).expect("an answer");
    let last = lines.iter().rposition(|line| line["params"]["progressToken"] == *token).expect("progress");
    assert!(last < answer, "{}", lines[last]);
}

#[test]
fn tokens_are_echoed_in_value_and_type_s90() {
    let big: Value = serde_json::from_str("12345678901234567890").unwrap();
    for era in Era::BOTH {
        for token in [json!("p"), json!(0), json!("0"), json!(-7), big.clone(), json!(""), json!("\u{1F389}".repeat(15 << 10))]
        {
            let mut gateway = gateway().start();
            era.begin(&mut gateway);
            gateway.send(&run(era, 1, &talkative(&gateway), &token));
            told(&mut gateway, &token);
            let_go(&gateway);
            assert_eq!(gateway.reply("1")["result"]["isError"], false);
            check_last(&gateway.end(), &json!(1), &token);
        }
    }
}

#[test]
fn a_flood_is_told_of_at_most_ten_times_a_second_s91_s94() {
    for era in Era::BOTH {
        let mut gateway = gateway().start();
        era.begin(&mut gateway);
        gateway.send(&run(era, 1, &talkative(&gateway), &json!("p")));
        let told: Vec<_> = (0..10).map(|_| told(&mut gateway, &json!("p"))).collect();
        let_go(&gateway);
        check_apart(&told.iter().map(|(value, _)| *value).collect::<Vec<_>>(), EVERY_MS);
        let bytes = told.iter().map(|(_, text)| text.split(' ').next().unwrap().parse::<u64>().unwrap());
        assert!(bytes.clone().zip(bytes.skip(1)).all(|(before, after)| before < after), "{told:?}");
        let (value, text) = &told[9];
        let bytes: u64 = text.split(' ').next().unwrap().parse().unwrap();
        // Each line has five bytes; the last one may have come in two pieces.
        let lines = [bytes / 5, bytes / 5 + 1]
            .map(|lines| format!("{bytes} bytes, {lines} lines, {}.{} s", value / 1000, value / 100 % 10));
        assert!(lines.contains(text), "{text:?}, not {lines:?}");
        gateway.reply("1");
        check_last(&gateway.end(), &json!(1), &json!("p"));
    }
}

#[test]
fn a_silent_command_is_told_of_once_a_second() {
    let mut gateway = gateway().start();
    let mark = mark();
    gateway.send(&run(Era::Modern, 1, &format!("sleep {mark}"), &json!(1)));
    let told = [0; 2].map(|_| told(&mut gateway, &json!(1)));
    check_apart(&told.clone().map(|(value, _)| value), HEARTBEAT_MS);
    for (value, text) in told {
        assert_eq!(text, format!("running, {}.{} s", value / 1000, value / 100 % 10));
    }
    gateway.send(&cancel(1));
    gateway.end();
}

#[test]
fn a_call_that_waits_for_a_worker_is_told_of_and_its_cancel_ends_that() {
    let mut gateway = gateway().set("limits", json!({"workers": 1})).start();
    let mark = mark();
    gateway.send(&run(Era::Modern, 1, &format!("sleep {mark}"), &json!("runs")));
    gateway.send(&run(Era::Modern, 2, "echo never", &json!("waits")));
    let both: Vec<_> = (0..2).map(|_| gateway.next()["params"].clone()).collect();
    let text = |token: &str| both.iter().find(|told| told["progressToken"] == token).map(|told| told["message"].clone());
    assert!(text("runs").expect("of each").as_str().unwrap().starts_with("running, "), "{both:?}");
    assert!(text("waits").expect("of each").as_str().unwrap().starts_with("queued, "), "{both:?}");
    gateway.send(&cancel(2));
    gateway.probe();
    // The other call's heart beats on; the cancelled one would have had its own in between.
    (0..2).for_each(|_| drop(told(&mut gateway, &json!("runs"))));
    gateway.send(&cancel(1));
    gateway.end();
}

#[test]
fn nothing_is_told_after_a_cancel_s92_s101() {
    for era in Era::BOTH {
        let mut gateway = gateway().start();
        era.begin(&mut gateway);
        let mark = mark();
        // It does not heed TERM, and goes on talking until it is killed.
        gateway.send(&run(era, 1, &format!("trap '' TERM; sleep {mark} & {}", talkative(&gateway)), &json!("gone")));
        told(&mut gateway, &json!("gone"));
        gateway.send(&cancel(1));
        gateway.probe();
        until("the command is gone", || with_mark(&mark).is_empty());
        // Time passes for another call under the same id; whatever were due of the first would come.
        gateway.send(&run(era, 1, &talkative(&gateway), &json!("lives")));
        (0..5).for_each(|_| drop(told(&mut gateway, &json!("lives"))));
        let_go(&gateway);
        gateway.reply("1");
        gateway.end();
    }
}

#[test]
fn an_unread_stdout_holds_the_newest_progress_of_each_call_alone() {
    const CALLS: u64 = 8;
    let mut gateway = gateway().start();
    let token = |id: u64| json!(format!("{id}{}", "t".repeat(60 << 10)));
    gateway.hold();
    gateway.send(&crate::kit::modern_call(0, "big", "{}"));
    until("the reply waits", || gateway.journal().iter().any(|record| record["type"] == "outcome"));
    let before = process::peak_kib(gateway.pid());
    let begun = |id: u64| format!("begun-{id}");
    for id in 1..=CALLS {
        let later = format!("sleep 1.5; : > {}; {}", gateway.dir.join(&begun(id)).display(), talkative(&gateway));
        // Something new before each look, so that each of the first second's notifications is due.
        let script = format!("(while [ ! -e {} ]; do echo line; sleep 0.02; done) & {later}", gateway.dir.join("go").display());
        gateway.send(&run(Era::Modern, id, &script, &token(id)));
    }
    until("the commands have run for long", || (1..=CALLS).all(|id| gateway.dir.join(&begun(id)).exists()));
    let growth = process::peak_kib(gateway.pid()) - before;
    assert!(growth < GROWTH_KIB, "{growth} KiB");
    gateway.read_on();
    gateway.reply("0");
    let mut heard = Vec::new();
    while heard.len() < CALLS as usize {
        let message = gateway.next();
        let id = message["params"]["progressToken"].as_str().and_then(|token| token.split('t').next()).unwrap().to_owned();
        if !heard.contains(&id) {
            // The first one was due long before and is not there any more.
            assert!(message["params"]["progress"].as_u64().unwrap() >= 5 * EVERY_MS, "{}", message["params"]["progress"]);
            heard.push(id);
        }
    }
    let_go(&gateway);
    (1..=CALLS).for_each(|id| drop(gateway.reply(&id.to_string())));
    gateway.end();
}

#[test]
fn the_oldest_revision_has_no_message_s93() {
    let mut gateway = gateway().start();
    gateway.initialize("2024-11-05");
    gateway.send(&run(Era::Legacy, 1, &talkative(&gateway), &json!("p")));
    let message = gateway.next();
    let_go(&gateway);
    let value = message["params"]["progress"].as_u64().expect("a value");
    assert_eq!(message["params"], json!({"progressToken": "p", "progress": value}));
    gateway.reply("1");
    gateway.end();
}

#[test]
fn only_admitted_calls_are_told_of() {
    let mut gateway = gateway().start();
    gateway.send(&asking(Era::Modern, 1, "tools/list", "", &json!("list")));
    gateway.send(&asking(Era::Modern, 2, "tools/call", r#""name":"tidegate_status","#, &json!("status")));
    let listen = r#""notifications":{"toolsListChanged":true},"#;
    gateway.send(&asking(Era::Modern, 3, "subscriptions/listen", listen, &json!("listen")));
    gateway.send(&run(Era::Modern, 4, &talkative(&gateway), &json!("run")));
    assert!(gateway.reply("1")["result"]["tools"].is_array());
    assert_eq!(gateway.reply("2")["result"]["isError"], false);
    assert_eq!(gateway.next()["method"], "notifications/subscriptions/acknowledged");
    (0..12).for_each(|_| drop(told(&mut gateway, &json!("run"))));
    let_go(&gateway);
    gateway.reply("4");
    gateway.end();
}
