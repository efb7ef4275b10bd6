//! The failure, reproduced: a server of one loop and a host that does not read. Then Tidegate in its place, the host the same.
//!
//! The host is this test: it holds both ends of the pipes, writes, and reads no byte of stdout until it says so.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::kit::gateway::{Gateway, Running};
use crate::kit::pipes::Pipes;
use crate::kit::process::{mark, until, with_mark};
use crate::kit::{Era, call, cancel};

use super::{check_said, marking, wait_for_blocked_writer};

const REPLY: usize = 8 << 20;
const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

/// What the host does: it shakes hands, calls `big`, and reads nothing from then on.
fn call_and_stop_reading(gateway: Gateway) -> (Running, Pipes) {
    let (mut server, pipes) = gateway.start_watched();
    server.initialize("2025-11-25");
    server.hold();
    server.send(&call(Era::Legacy, 1, "big", "{}"));
    (server, pipes)
}

/// Whether the process sleeps in write(2) on its stdout; the kernel shows the call of a sleeping process only.
fn is_in_write(pid: u32) -> bool {
    const WRITE: [&str; 2] = ["1", "64"];
    let syscall = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
    let mut words = syscall.split_whitespace();
    words.next().is_some_and(|number| WRITE.contains(&number)) && words.next() == Some("0x1")
}

#[test]
fn a_server_of_one_loop_and_a_host_that_does_not_read_wait_for_each_other_r042() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pipe/naive_server.py");
    let (mut server, pipes) = call_and_stop_reading(Gateway::of(&fixture).says("back-pressure after").says_anything());
    until("the server finds no room", || server.stderr().ends_with(" bytes\n"));
    until("it waits in write", || is_in_write(server.pid()));
    let (told, full) = (server.stderr(), pipes.stdout());
    assert_eq!(full.bytes, full.capacity);
    server.send(PING);
    server.send(&cancel(1));
    let unread = PING.len() + cancel(1).len() + 2;
    // Nothing can come that would end the wait: it sleeps in that one write, and only this test could read.
    for _ in 0..20 {
        assert!(is_in_write(server.pid()), "it does something");
        assert_eq!((pipes.stdin().bytes, pipes.stdout()), (unread, full), "the ping or the cancel was read");
    }
    assert_eq!(server.stderr(), told);
    server.read_on();
    let reply = server.reply("1");
    assert_eq!(reply["result"]["content"][0]["text"].as_str().unwrap().len(), REPLY, "the cancel came too late");
    assert_eq!(server.reply("7")["result"], json!({}));
    drop(pipes);
    server.end();
}

#[test]
fn tidegate_in_its_place_reads_on_cancels_and_answers_r042() {
    let mark = mark();
    let mut tools: serde_json::Value = serde_json::from_str(&super::tools(32 << 10)).unwrap();
    tools[0]["exec"]["argv"] = json!(["sh", "-c", format!("head -c {REPLY} /dev/zero | tr '\\0' x")]);
    let (mut gateway, pipes) = call_and_stop_reading(Gateway::new().set("tools", tools));
    wait_for_blocked_writer(&gateway, &pipes);
    let full = pipes.stdout();
    let file = gateway.dir.join("begun");
    gateway.send(&call(Era::Legacy, 2, "mark", &marking(&file, &mark)));
    until("the command waits", || file.with_added_extension("said").exists());
    gateway.send(PING);
    gateway.send(&cancel(2));
    until("the command is gone", || with_mark(&mark).is_empty());
    until("ping and cancel are read", || pipes.stdin().bytes == 0);
    assert_eq!(pipes.stdout(), full, "all that on an unread stdout");
    gateway.read_on();
    let reply = gateway.next();
    let stdout = &reply["result"]["structuredContent"]["stdout"];
    assert_eq!((&reply["id"], &stdout["bytes"], &stdout["truncated"]), (&json!(1), &json!(REPLY), &json!(true)));
    assert_eq!(gateway.reply("7")["result"], json!({}));
    check_said(&gateway.ask(&call(Era::Legacy, 3, "say", "{}")));
    assert!(gateway.probe().is_empty(), "the cancelled call is answered");
    drop(pipes);
    gateway.end();
}
