//! One call at a time: every queue has room for one, and nothing waits for itself.

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::pipes::Pipes;
use crate::kit::process::{mark, until, with_mark};
use crate::kit::{Era, call, cancel};

use super::{check_big, check_said, code, marking, tools, wait_for_blocked_writer, wait_for_idle_workers};

fn start(era: Era, is_held: bool) -> (Running, Pipes) {
    let gateway = Gateway::new().tools(&tools(32 << 10)).set("limits", json!({"calls": 1, "workers": 1}));
    let (mut gateway, pipes) = gateway.start_watched();
    era.begin(&mut gateway);
    if is_held {
        gateway.probe();
        gateway.hold();
    }
    (gateway, pipes)
}

fn ping(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

/// A command that runs until its call is cancelled.
fn start_command(gateway: &mut Running, era: Era, id: u32) -> String {
    let mark = mark();
    let file = gateway.dir.join(&format!("begun-{id}"));
    gateway.send(&call(era, id, "mark", &marking(&file, &mark)));
    until("the command waits", || file.with_added_extension("said").exists());
    mark
}

/// Calls that were carried out and ended like this.
fn ended(gateway: &Running, code: &str) -> usize {
    gateway.journal().iter().filter(|record| record["type"] == "outcome" && record["code"] == code).count()
}

/// Calls `say` until it is carried out: the slot comes back with the end of the work, which the process table shows a moment
/// earlier. Returns the ids used.
#[track_caller]
fn say_until_done(gateway: &mut Running, era: Era, first: u32) -> Vec<u32> {
    let (before, mut ids) = (ended(gateway, "ok"), Vec::new());
    until("the slot is free again", || {
        let id = first + ids.len() as u32;
        gateway.send(&call(era, id, "say", "{}"));
        ids.push(id);
        ended(gateway, "ok") > before
    });
    ids
}

/// Whether stdout is read or not: the second is turned away, a cancel frees the slot of the first, a third has it.
#[test]
fn the_one_slot_is_freed_by_a_cancel_and_used_again() {
    for era in Era::BOTH {
        for is_held in [false, true] {
            let (mut gateway, pipes) = start(era, is_held);
            let mark = start_command(&mut gateway, era, 1);
            gateway.send(&call(era, 2, "say", "{}"));
            gateway.send(&ping(3));
            gateway.send(&cancel(1));
            until("the command is gone", || with_mark(&mark).is_empty());
            let tries = say_until_done(&mut gateway, era, 10);
            until("everything is read", || pipes.is_stdin_read());
            gateway.read_on();
            assert_eq!(code(&gateway.reply("2")), "busy");
            assert_eq!(gateway.reply("3")["result"], json!({}));
            let replies: Vec<Value> = tries.iter().map(|id| gateway.reply(&id.to_string())).collect();
            assert!(replies.iter().all(|reply| ["ok", "busy"].contains(&code(reply))), "{replies:?}");
            assert!(replies.iter().any(|reply| code(reply) == "ok"), "{replies:?}");
            assert_eq!(gateway.probe(), [Value::Null; 0], "the cancelled call is answered, or another twice");
            drop(pipes);
            gateway.end();
        }
    }
}

/// The slot belongs to a reply that has begun to leave until its last byte has: the second call is turned away, pings and
/// cancels are still taken, and all of it is answered once somebody reads.
#[test]
fn a_reply_that_nobody_reads_keeps_the_one_slot_and_stops_nothing_else() {
    for era in Era::BOTH {
        let (mut gateway, pipes) = start(era, true);
        gateway.send(&call(era, 1, "big", "{}"));
        wait_for_blocked_writer(&gateway, &pipes);
        gateway.send(&call(era, 2, "say", "{}"));
        (3..200).for_each(|id| gateway.send(&ping(id)));
        [1, 2].iter().for_each(|id| gateway.send(&cancel(id)));
        until("everything is read", || pipes.is_stdin_read());
        assert_eq!(ended(&gateway, "ok"), 1);
        gateway.read_on();
        check_big(&gateway.next());
        // The second call was turned away, and that was taken back with its cancel.
        (3..200).for_each(|id| assert_eq!(gateway.reply(&id.to_string())["result"], json!({})));
        check_said(&gateway.ask(&call(era, 200, "say", "{}")));
        assert_eq!(gateway.probe(), [Value::Null; 0]);
        drop(pipes);
        gateway.end();
    }
}

/// Behind a full stdout a reply of which no byte has left is withdrawn, and its slot is free although nothing can leave.
#[test]
fn a_reply_that_has_not_begun_gives_the_one_slot_back_when_it_is_cancelled() {
    const PINGS: u32 = 4000;
    for era in Era::BOTH {
        let (mut gateway, pipes) = start(era, true);
        (1000..1000 + PINGS).for_each(|id| gateway.send(&ping(id)));
        until("the pings are read", || pipes.is_stdin_read());
        gateway.send(&call(era, 1, "say", "{}"));
        until("the first has run", || ended(&gateway, "ok") == 1);
        wait_for_idle_workers(&gateway);
        gateway.send(&call(era, 2, "say", "{}"));
        gateway.send(&cancel(1));
        let tries = say_until_done(&mut gateway, era, 10);
        gateway.read_on();
        (1000..1000 + PINGS).for_each(|id| assert_eq!(gateway.next()["id"], id));
        assert_eq!(code(&gateway.reply("2")), "busy");
        let replies: Vec<Value> = tries.iter().map(|id| gateway.reply(&id.to_string())).collect();
        assert!(replies.iter().any(|reply| code(reply) == "ok"), "{replies:?}");
        assert_eq!(gateway.probe(), [Value::Null; 0], "the withdrawn reply came all the same, or another came twice");
        drop(pipes);
        assert_eq!(gateway.end().counters()["cancels"], json!({"withdrawn": 1}));
    }
}
