//! Replies that nobody reads: what does not fit is told `busy`, cancels are heeded all the while, every request that was read is
//! answered once, and memory has a bound.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::process::{self, check_gone, mark, until, with_mark};
use crate::kit::{Era, call, cancel};

/// What replies and ids that wait may take, with all around them.
const GROWTH_KIB: u64 = 4 << 10;
/// What a list of tools takes at least.
const LIST_BYTES: usize = 4 << 10;
/// Pairs of requests whose answers take more than a MiB, while the ids of those that do not fit take less than 64 KiB.
const PAIRS: u32 = 500;
/// Pings that fill the rest of those 64 KiB and more, and still fit a pipe.
const MORE: u32 = 1800;

fn tools() -> Value {
    let script = json!({"type": "object", "properties": {"script": {"type": "string"}}, "required": ["script"]});
    json!([
        {"name": "run", "description": "Runs it", "exec": {"argv": ["sh", "-c", "{script}"]}, "input": script},
        {"name": "say", "description": "Says it. ".repeat(LIST_BYTES / 9), "exec": {"argv": ["echo", "said"]}},
    ])
}

/// A session whose stdout is unread and in which a command runs, as request 0.
fn held(era: Era, mark: &str) -> Running {
    let mut gateway = Gateway::new().set("tools", tools()).start();
    era.begin(&mut gateway);
    gateway.probe();
    gateway.hold();
    gateway.send(&call(era, 0, "run", &json!({"script": format!("sleep {mark} & wait; : {mark}")}).to_string()));
    until("the command runs", || with_mark(mark).len() == 2);
    gateway
}

fn ping(id: u32) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")
}

/// Pings and lists by turns, ids from 1 on; the number of requests.
fn overflow(gateway: &mut Running, era: Era) -> u32 {
    for pair in 0..PAIRS {
        let (list, ping) = (2 * pair + 1, ping(2 * pair + 2));
        let list = format!("{{\"jsonrpc\":\"2.0\",\"id\":{list},\"method\":\"tools/list\",\"params\":{{{}}}}}\n", era.meta());
        gateway.send_raw((list + &ping).as_bytes());
    }
    2 * PAIRS
}

/// Reads until there is one answer for each of `ids`, and none twice; how many were told `busy`.
#[track_caller]
fn check_answered(gateway: &mut Running, ids: impl Iterator<Item = u32>) -> u64 {
    let mut open: HashMap<u64, ()> = ids.map(|id| (u64::from(id), ())).collect();
    let mut busy = 0;
    while !open.is_empty() {
        let message = gateway.next();
        let id = message["id"].as_u64().unwrap_or_else(|| panic!("{message}"));
        assert!(open.remove(&id).is_some(), "nobody waits for {message}");
        if message.get("error").is_some() {
            check_busy(&message["error"]["message"], &message["error"]["data"]["tidegate/outcome"]);
            assert_eq!(message["error"]["code"], -32000);
            busy += 1;
        }
    }
    busy
}

#[track_caller]
fn check_busy(text: &Value, outcome: &Value) {
    assert!(text.as_str().is_some_and(|text| text.starts_with("tidegate: busy (executed: no): ")), "{text}");
    assert_eq!((&outcome["code"], &outcome["executed"]), (&json!("busy"), &json!("no")), "{outcome}");
}

/// Since it had so much at most.
#[track_caller]
fn check_growth(gateway: &Running, before_kib: u64) {
    let growth = process::peak_kib(gateway.pid()) - before_kib;
    assert!(growth < GROWTH_KIB, "{growth} KiB");
}

fn counters(stderr: &str) -> Vec<Value> {
    stderr
        .lines()
        .filter(|line| line.starts_with("{\"frames_in\""))
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Asks for the counters until the loop has turned once without reading: how many of `lines` it has not taken then.
#[track_caller]
fn unread(gateway: &Running, lines: u64) -> u64 {
    let mut bytes_in = Value::Null;
    loop {
        let known = counters(&gateway.stderr()).len();
        gateway.signal("USR1");
        until("counters are printed", || counters(&gateway.stderr()).len() > known);
        let now = counters(&gateway.stderr()).pop().expect("at least one");
        if now["bytes_in"] == bytes_in {
            return lines.saturating_sub(now["frames_in"].as_u64().expect("a count"));
        }
        bytes_in = now["bytes_in"].clone();
    }
}

#[test]
fn requests_whose_answers_do_not_fit_are_told_busy_and_cancels_go_on() {
    for era in Era::BOTH {
        let mark = mark();
        let mut gateway = held(era, &mark);
        let before = process::peak_kib(gateway.pid());
        let last = overflow(&mut gateway, era);
        // Two calls that are answered by the reader, one that is not and keeps its own room.
        gateway.send(&call(era, 9001, "tidegate_status", "{}"));
        gateway.send(&call(era, 9002, "tidegate_status", "{}"));
        gateway.send(&call(era, 9003, "say", "{}"));
        gateway.send(&cancel(0));
        gateway.send(&cancel(last));
        gateway.send(&cancel(9002));
        until("the command is gone", || with_mark(&mark).is_empty());
        until("the other call has run", || gateway.journal().iter().filter(|record| record["type"] == "outcome").count() == 2);
        check_growth(&gateway, before);
        gateway.read_on();
        assert_eq!(gateway.reply("9003")["result"]["structuredContent"]["stdout"]["text"], "said\n");
        let status = gateway.reply("9001")["result"].clone();
        check_busy(&status["content"][0]["text"], &status["_meta"]["tidegate/outcome"]);
        assert_eq!(status["isError"], true);
        let busy = check_answered(&mut gateway, 1..last);
        assert!(busy > 0, "everything fitted");
        assert!(gateway.probe().is_empty());
        let counters = gateway.end().counters();
        // The two that were cancelled, and the status.
        assert_eq!(counters["waits"]["ids"], busy + 3);
        assert_eq!((&counters["waits"]["count"], &counters["cancels"]["waiting"]), (&json!(0), &json!(2)), "{counters}");
    }
}

#[test]
fn beyond_that_lines_stay_unread_and_none_is_lost() {
    for era in Era::BOTH {
        let mark = mark();
        let mut gateway = held(era, &mark);
        let before = process::peak_kib(gateway.pid());
        gateway.send(&cancel(0));
        until("the command is gone", || with_mark(&mark).is_empty());
        let last = overflow(&mut gateway, era);
        let more = last + 1..=last + MORE;
        gateway.send_raw(more.clone().map(ping).collect::<String>().as_bytes());
        let unread = unread(&gateway, u64::from(last + MORE));
        assert!(unread > 100, "{unread}");
        check_growth(&gateway, before);
        // The end of stdin stands behind them.
        gateway.close_stdin();
        gateway.read_on();
        let busy = check_answered(&mut gateway, 1..=*more.end());
        let ended = gateway.wait();
        assert!(ended.rest.is_empty(), "{:?}", ended.rest);
        let counters = counters(&ended.stderr).pop().expect("closing counters");
        assert_eq!(counters["waits"]["ids"], busy, "{counters}");
        assert!(counters["waits"]["count"].as_u64() >= Some(1), "{counters}");
        check_gone(&mark);
    }
}
