//! What a refused line leaves to the next one: nothing. Not its id, era, session, cancel, credential or progress token.
//!
//! Each case that keeps the session is followed by the same requests, which must be answered as if it had never come.

use serde_json::{Value, json};

use super::case::{Case, Expected, Fill};
use super::{Hands, Mode, World};
use crate::kit::gateway::Running;
use crate::kit::{MODERN, cancel, legacy_call, modern_call, unique};

/// The credential that the tool of the refused call would have carried.
const TOOL: &str = "fetch";

fn is_kept(case: &Case, mode: Mode) -> bool {
    let acts =
        |expected: &Expected| matches!(expected, Expected::Runs { .. } | Expected::Answered { .. } | Expected::Listens { .. });
    let is_aimed = case.tools.as_deref().is_none_or(|tool| tool == TOOL);
    is_aimed && !case.is_eof && !case.expected.iter().any(acts) && (mode == Mode::Continue || !case.is_lost())
}

/// Lets every answer to the case come and go.
#[track_caller]
fn settle(running: &mut Running, case: &Case) {
    for expected in &case.expected {
        if let Expected::Failed { id, .. } = expected {
            running.reply(id);
        }
        if let Expected::Refused { id: super::Under::Id(id), .. } = expected {
            running.reply(id);
        }
    }
    running.probe();
}

#[track_caller]
fn check_next_requests(world: &mut World, case: &Case, mode: Mode) {
    eprintln!("{}: {mode:?}", case.name);
    let (mark, other) = (unique(), unique());
    let running = world.gateway(Hands::Real, mode, case.is_small).says_anything();
    let mut running = running.exit(if mode == Mode::Close { 65 } else { 0 }).start();
    if let Some(revision) = &case.legacy {
        running.initialize(revision);
    }
    running.offer(&case.bytes(&Fill { mark: &mark, tool: TOOL }));
    settle(&mut running, case);
    // Its id is not in flight: a cancel finds nothing, and the id is free.
    running.send(&cancel(1));
    check_era(&mut running, case.legacy.as_deref());
    let again = running.ask(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{MODERN}}}}}"#));
    assert_eq!(again["result"]["resultType"], "complete", "{again}");
    check_credential(world, &mut running, &other);
    // The next error is not under its id.
    running.send("[]");
    let error = running.next();
    assert_eq!((&error["error"]["code"], error.get("id")), (&json!(-32600), None), "{error}");
    let ended = running.end();
    assert_eq!(ended.counters()["cancels"], cancels(case), "{}", ended.stderr);
    let stdout = String::from_utf8_lossy(&ended.stdout);
    assert!(!stdout.contains("notifications/progress"), "{stdout}");
    assert!(world.peer.seen().iter().all(|seen| !seen.line.contains(&mark)), "{:#?}", world.peer.seen());
}

/// Without a handshake of its own a session has none, and its revision is the agreed one.
#[track_caller]
fn check_era(running: &mut Running, legacy: Option<&str>) {
    let listed = running.ask(r#"{"jsonrpc":"2.0","id":"unclaimed","method":"tools/list"}"#);
    let status = running.ask(&legacy_call("\"status\"", "tidegate_status", "{}"));
    match legacy {
        None => assert_eq!((&listed["error"]["code"], &status["error"]["code"]), (&json!(-32602), &json!(-32602)), "{listed}"),
        Some(revision) => {
            assert!(listed["result"]["tools"].is_array() && listed["result"].get("resultType").is_none(), "{listed}");
            let has_structure = status["result"].get("structuredContent").is_some();
            assert_eq!(has_structure, revision >= "2025-06-18", "the shape of {revision}: {status}");
        }
    }
}

/// The next call carries no credential, no argument and no token of the refused one.
#[track_caller]
fn check_credential(world: &mut World, running: &mut Running, other: &str) {
    let reply = running.ask(&modern_call("\"plain\"", "plain", &format!(r#"{{"text":"{other}"}}"#)));
    assert_eq!((&reply["result"]["isError"], &reply["result"]["resultType"]), (&json!(false), &json!("complete")), "{reply}");
    world.connections += 1;
    assert_eq!(world.peer.connections(), world.connections);
    let seen = world.peer.seen();
    let last = seen.last().expect("the call reached the server");
    assert_eq!((last.line.as_str(), last.header("authorization")), (&*format!("GET /plain/{other} HTTP/1.1"), None));
}

/// What the cancels that a case sends, and ours, have found.
fn cancels(case: &Case) -> Value {
    match case.name.as_str() {
        "cancel-of-nothing" => json!({"unknown": 2}),
        "cancel-without-a-request-id" => json!({"unknown": 1, "no_id": 1}),
        _ => json!({"unknown": 1}),
    }
}

#[test]
fn a_refused_line_leaves_nothing_to_the_next_request() {
    let mut world = World::new();
    let mut checked = 0;
    for case in &Case::all() {
        for mode in [Mode::Close, Mode::Continue] {
            if is_kept(case, mode) {
                check_next_requests(&mut world, case, mode);
                checked += 1;
            }
        }
    }
    assert!(checked > 200, "only {checked}");
}

#[test]
fn a_progress_token_of_a_refused_call_is_nobodys() {
    let mut world = World::new();
    let mut running = world.gateway(Hands::Real, Mode::Close, false).start();
    let (mark, other) = (unique(), unique());
    let meta = MODERN.replace("{}", r#"{},"progressToken":"stray""#);
    assert!(meta.contains("stray"));
    let refused = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"fetch","arguments":{{"text":"{mark}","x":1}},{meta}}}}}"#
    );
    assert_eq!(running.ask(&refused)["result"]["isError"], true);
    check_credential(&mut world, &mut running, &other);
    let ended = running.end();
    assert!(!String::from_utf8_lossy(&ended.stdout).contains("stray"));
}
