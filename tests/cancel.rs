//! Cancelling: the work is gone, nothing leaves for the request, the next request is answered, in both eras and wherever the
//! work was. Seen by the process table, by the peer's end of the connection, and by every byte on stdout.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::installed::preload_object;
use crate::kit::peer::{Answer, FullListener, Peer};
use crate::kit::process::{check_gone, connections, mark, threads, until, with_mark};
use crate::kit::{Era, call, cancel, within};

/// What a cancelled command may take to be gone with everything it started.
const GONE: Duration = Duration::from_secs(1);
/// Lookup threads; each abandoned lookup keeps one.
const LOOKUPS: usize = 4;

const TOOLS: &str = r#"[
    {"name": "run", "description": "Runs it", "exec": {"argv": ["sh", "-c", "{script}"]},
     "input": {"type": "object", "properties": {"script": {"type": "string"}}, "required": ["script"]}},
    {"name": "big", "description": "Says much", "content_bytes": 900000,
     "exec": {"argv": ["sh", "-c", "head -c 400000 /dev/zero | tr '\\0' x"]}},
    {"name": "say", "description": "Says it", "exec": {"argv": ["echo", "said"]}}]"#;

/// A command with a child in its group and one that left it.
const MILD: &str = "sleep MARK & setsid sleep MARK & wait; : MARK";
/// The same, and none of them heeds TERM.
const STUBBORN: &str = "trap '' TERM; sleep MARK & setsid sleep MARK & wait; : MARK";

fn gateway() -> Gateway {
    Gateway::new().tools(TOOLS)
}

fn run(era: Era, id: impl std::fmt::Display, script: &str, mark: &str) -> String {
    call(era, id, "run", &json!({"script": script.replace("MARK", mark)}).to_string())
}

/// One worker: whatever is answered after a cancel shows that the work has let go of it.
fn with_one_worker(gateway: Gateway, era: Era) -> Running {
    let mut gateway = gateway.set("limits", json!({"workers": 1})).start();
    era.begin(&mut gateway);
    gateway
}

#[track_caller]
fn said(gateway: &mut Running, era: Era, id: u32) {
    let reply = gateway.ask(&call(era, id, "say", "{}"));
    assert_eq!(reply["result"]["structuredContent"]["stdout"]["text"], "said\n", "{reply}");
}

/// The end, at which every byte of stdout is looked at once more: no message for these ids.
#[track_caller]
fn check_silent(gateway: Running, silenced: &[Value]) {
    let ended = gateway.end();
    for line in String::from_utf8(ended.stdout).unwrap().lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        assert!(!silenced.contains(&message["id"]), "a cancelled request is answered: {message}");
    }
}

/// The journal's word on how the cancelled work ended.
#[track_caller]
fn cancelled(gateway: &Running) -> Value {
    gateway.journal().into_iter().find(|record| record["code"] == "cancelled").expect("a record of the cancel")
}

#[track_caller]
fn check_command(era: Era, script: &str) {
    within(GONE, || {
        let mark = mark();
        let mut gateway = with_one_worker(gateway(), era);
        gateway.send(&run(era, 1, script, &mark));
        until("the command runs", || with_mark(&mark).len() == 3);
        assert_eq!(gateway.probe(), [Value::Null; 0], "a ping is answered while the command runs");
        let began = Instant::now();
        gateway.send(&cancel(1));
        gateway.probe();
        until("the command is gone", || with_mark(&mark).is_empty());
        let took = began.elapsed();
        said(&mut gateway, era, 2);
        assert_eq!((&cancelled(&gateway)["executed"], &cancelled(&gateway)["ended"]), (&json!("yes"), &json!("dead")));
        check_silent(gateway, &[json!(1)]);
        took
    });
}

#[test]
fn a_running_command_is_ended_with_all_it_started_r046_r049_r057() {
    for era in Era::BOTH {
        check_command(era, MILD);
        check_command(era, STUBBORN);
    }
}

/// A tool that fetches from this place on loopback.
fn fetching(host: &str, port: u16) -> Gateway {
    let tools: Value = serde_json::from_str(TOOLS).unwrap();
    let fetch = json!({"name": "fetch", "description": "Fetches it",
        "http": {"method": "GET", "url": format!("http://{host}:{port}/")}});
    let tools = [tools.as_array().unwrap().clone(), vec![fetch]].concat();
    Gateway::new().set("tools", json!(tools))
}

/// Cancels a fetch once `has_begun` returns; `is_gone` has to return, and the next call to be answered by the only worker.
/// `executed`: what the journal has to say of it.
#[track_caller]
fn check_fetch(gateway: Gateway, era: Era, executed: &str, has_begun: impl FnOnce(), is_gone: impl FnOnce()) {
    let mut gateway = with_one_worker(gateway, era);
    gateway.send(&call(era, 1, "fetch", "{}"));
    has_begun();
    gateway.send(&cancel(1));
    is_gone();
    said(&mut gateway, era, 2);
    assert_eq!(cancelled(&gateway)["executed"], executed);
    check_silent(gateway, &[json!(1)]);
}

#[test]
fn http_is_cancelled_while_connecting() {
    for era in Era::BOTH {
        let listener = FullListener::bind();
        let port = listener.port();
        let connecting = || connections(port).into_iter().filter(|socket| socket.is_connecting).count();
        assert_eq!(connecting(), 0);
        let has_begun = || until("the connection is tried", || connecting() == 1);
        check_fetch(fetching("127.0.0.1", port), era, "no", has_begun, || until("nobody tries", || connecting() == 0));
    }
}

/// The response so far, of which the client has read every byte when the cancel comes.
#[track_caller]
fn check_response(era: Era, part: &'static str, executed: &str) {
    let peer = Peer::start(|_| Answer::Hold(part.as_bytes().to_vec()));
    let has_begun = || {
        peer.wait_for_request();
        until("the client has read what there is", || connections(peer.port()).iter().any(|socket| socket.unread == 0));
    };
    check_fetch(fetching("127.0.0.1", peer.port()), era, executed, has_begun, || peer.wait_for_close());
}

#[test]
fn http_is_cancelled_while_waiting_for_headers() {
    for era in Era::BOTH {
        check_response(era, "", "unknown");
        check_response(era, "HTTP/1.1 200 OK\r\ncontent-ty", "unknown");
    }
}

#[test]
fn http_is_cancelled_while_reading_the_body() {
    for era in Era::BOTH {
        check_response(era, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegun", "yes");
        check_response(era, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nbegun\r\n", "yes");
        check_response(era, "HTTP/1.1 200 OK\r\n\r\nbegun", "yes");
    }
}

#[test]
fn http_is_cancelled_while_its_name_is_looked_up() {
    for era in Era::BOTH {
        let gateway = fetching("hanging.test", 80).preload(&[preload_object("noise.c")]).says_anything();
        let begun = gateway.dir().join("begun");
        let mut gateway = with_one_worker(gateway.env("NOISE_LOOKUP", begun.to_str().unwrap()), era);
        for round in 0..LOOKUPS {
            gateway.send(&call(era, 1, "fetch", "{}"));
            until("the lookup hangs", || begun.exists());
            gateway.send(&cancel(1));
            said(&mut gateway, era, 10 + round as u32);
            std::fs::remove_file(&begun).unwrap();
        }
        // The C library cannot be interrupted: its threads stay, and no fifth is started.
        assert_eq!(threads(gateway.pid()).iter().filter(|name| *name == "tg-resolve").count(), LOOKUPS);
        let reply = gateway.ask(&call(era, 2, "fetch", "{}"));
        assert_eq!(text_code(&reply), "busy", "{reply}");
        check_silent(gateway, &[json!(1)]);
    }
}

/// `tidegate: CODE (…`
fn text_code(reply: &Value) -> &str {
    let text = reply["result"]["content"][0]["text"].as_str().unwrap_or_default();
    text.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn a_cancel_right_behind_its_call_is_not_lost_r047() {
    for era in Era::BOTH {
        let mut gateway = with_one_worker(gateway(), era);
        for id in 1..=20 {
            let mark = mark();
            gateway.send_raw(format!("{}\n{}\n", run(era, id, STUBBORN, &mark), cancel(id)).as_bytes());
            let live = format!(r#"{{"jsonrpc":"2.0","id":99,"method":"tools/list","params":{{{}}}}}"#, era.meta());
            assert!(gateway.ask(&live)["result"]["tools"].is_array());
            until("the command is gone", || with_mark(&mark).is_empty());
            said(&mut gateway, era, 100 + id);
            check_gone(&mark);
        }
        check_silent(gateway, &(1..=20).map(|id| json!(id)).collect::<Vec<_>>());
    }
}

#[test]
fn a_queued_call_is_cancelled_behind_sixteen_busy_workers() {
    const CALLS: u32 = 64;
    for era in Era::BOTH {
        let (mark, mut gateway) = (mark(), gateway().start());
        era.begin(&mut gateway);
        let touched = gateway.dir.join("touched");
        (1..=16).for_each(|id| gateway.send(&run(era, id, MILD, &mark)));
        until("sixteen commands run", || with_mark(&mark).len() == 16 * 3);
        (17..=CALLS).for_each(|id| gateway.send(&run(era, id, &format!("echo >> {}", touched.display()), "")));
        assert_eq!(text_code(&gateway.ask(&call(era, 65, "say", "{}"))), "busy");
        // Each cancel gives its slot back although no worker is free.
        for id in 17..=CALLS {
            gateway.send(&cancel(id));
        }
        gateway.send(&call(era, 66, "say", "{}"));
        gateway.probe();
        (1..=16).for_each(|id| gateway.send(&cancel(id)));
        assert_eq!(gateway.reply("66")["result"]["structuredContent"]["stdout"]["text"], "said\n");
        until("all commands are gone", || with_mark(&mark).is_empty());
        assert!(!touched.exists(), "a cancelled call was started");
        check_silent(gateway, &(1..=CALLS).map(|id| json!(id)).collect::<Vec<_>>());
    }
}

#[test]
fn a_cancel_that_names_nothing_does_nothing() {
    for era in Era::BOTH {
        let (mark, mut gateway) = (mark(), gateway().start());
        era.begin(&mut gateway);
        gateway.send(&run(era, 1, MILD, &mark));
        until("the command runs", || with_mark(&mark).len() == 3);
        said(&mut gateway, era, 3);
        for params in [
            r#"{"requestId":"1"}"#,
            r#"{"requestId":2}"#,
            r#"{"requestId":3}"#,
            r#"{"requestId":"init"}"#,
            r#"{"requestId":1.0}"#,
            r#"{"requestId":1e0}"#,
            r#"{"requestId":null}"#,
            r#"{"requestId":[1]}"#,
            r#"{"requestId":{"id":1}}"#,
            r#"{"requestId":true}"#,
            r#"{"requestid":1}"#,
            r#"{"id":1}"#,
            "{}",
        ] {
            gateway.send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#));
        }
        gateway.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#);
        gateway.send(r#"{"jsonrpc":"2.0","method":"notifications/canceled","params":{"requestId":1}}"#);
        assert_eq!(gateway.probe(), [Value::Null; 0], "a notification is never answered");
        assert_eq!(with_mark(&mark).len(), 3, "the call was ended by a cancel that does not name it");
        gateway.send(&cancel(1));
        gateway.send(&cancel(1));
        until("the command is gone", || with_mark(&mark).is_empty());
        gateway.send(&cancel(1));
        said(&mut gateway, era, 4);
        check_silent(gateway, &[json!(1)]);
    }
}

#[test]
fn a_text_id_is_cancelled_by_the_same_text_however_it_is_escaped() {
    let (mark, mut gateway) = (mark(), gateway().start());
    gateway.send(&run(Era::Modern, r#""\u0041/b""#, MILD, &mark));
    until("the command runs", || with_mark(&mark).len() == 3);
    gateway.send(&cancel(r#""A\/b""#));
    until("the command is gone", || with_mark(&mark).is_empty());
    said(&mut gateway, Era::Modern, 2);
    check_silent(gateway, &[json!("A/b")]);
}

#[test]
fn a_cancelled_id_may_be_used_again_at_once() {
    for era in Era::BOTH {
        let (mark, mut gateway) = (mark(), gateway().start());
        era.begin(&mut gateway);
        gateway.send(&run(era, 1, STUBBORN, &mark));
        until("the command runs", || with_mark(&mark).len() == 3);
        gateway.send(&cancel(1));
        said(&mut gateway, era, 1);
        until("the command is gone", || with_mark(&mark).is_empty());
        assert_eq!(gateway.probe(), [Value::Null; 0], "the first call is answered as well");
        gateway.end();
    }
}

#[test]
fn a_blocked_stdout_holds_no_cancel_up_r042() {
    for era in Era::BOTH {
        let (mark, mut gateway) = (mark(), gateway().start());
        era.begin(&mut gateway);
        gateway.hold();
        let has_run = |gateway: &Running, count: usize| {
            let ended = |record: &&Value| record["type"] == "outcome";
            until("the calls have run", || gateway.journal().iter().filter(ended).count() == count);
        };
        gateway.send(&call(era, 1, "big", "{}"));
        has_run(&gateway, 1);
        gateway.send(&call(era, 2, "big", "{}"));
        gateway.send(&call(era, 3, "say", "{}"));
        has_run(&gateway, 3);
        gateway.send(&run(era, 4, STUBBORN, &mark));
        until("the command runs", || with_mark(&mark).len() == 3);
        for id in [4, 2, 1] {
            gateway.send(&cancel(id));
        }
        let pings = 200..400;
        pings.clone().for_each(|id| gateway.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)));
        until("the command is gone", || with_mark(&mark).is_empty());
        gateway.read_on();
        // The first reply had begun to leave and is finished; the second had not and is gone.
        let first = gateway.reply("1");
        assert_eq!(first["result"]["structuredContent"]["stdout"]["bytes"], 400_000);
        assert_eq!(gateway.reply("3")["result"]["structuredContent"]["stdout"]["text"], "said\n");
        pings.for_each(|id| assert_eq!(gateway.reply(&id.to_string())["result"], json!({})));
        check_silent(gateway, &[json!(2), json!(4)]);
    }
}
