//! Eight calls wait for somebody: nothing else waits with them, a ninth is busy, and the end of the session takes them along.

use serde_json::{Value, json};

use super::operator::{approvals, open, operator_only};
use super::{asking, check_outcome, story, was_done};
use crate::kit::gateway::{Ended, Gateway, Running};
use crate::kit::process::{mark, until, with_mark};
use crate::kit::{Era, call, cancel, legacy_call};

const EIGHT: std::ops::RangeInclusive<u64> = 1..=8;

fn write() -> String {
    json!({"text": "x"}).to_string()
}

/// One worker, eight calls that wait for the operator.
fn eight(gateway: Gateway) -> Running {
    let mut running = gateway.set("limits", json!({"workers": 1})).start();
    EIGHT.for_each(|id| running.send(&call(Era::Modern, id, "write", &write())));
    open(&running, 8);
    running
}

#[test]
fn a_ninth_is_busy_and_everything_else_goes_on() {
    let mut running = eight(asking("ask", operator_only()));
    check_outcome(&running.ask(&call(Era::Modern, 9, "write", &write())), "busy", "no");
    running.probe();
    check_outcome(&running.ask(&call(Era::Modern, 10, "free", &write())), "none", "yes");
    // A cancel gives its place back, to be asked at once.
    running.send(&cancel(3));
    until("the question is gone", || open(&running, 7).len() == 7);
    running.send(&call(Era::Modern, 11, "write", &write()));
    let questions = open(&running, 8);
    for question in &questions {
        assert_eq!(approvals(&running, &["allow", question["id"].as_str().unwrap()]).status.code(), Some(0));
    }
    for id in [1, 2, 4, 5, 6, 7, 8, 11] {
        check_outcome(&running.reply(&id.to_string()), "none", "yes");
    }
    let ended = running.end();
    assert_eq!(was_done(&ended).len(), 9);
    let said = story(&ended.dir.journal_under("state"));
    let count = |what: &str| said.iter().filter(|said| *said == what).count();
    assert_eq!((count("question"), count("answer:yes"), count("answer:withdrawn")), (9, 8, 1), "{said:?}");
}

#[test]
fn a_no_is_heard_behind_busy_workers() {
    let gateway = Gateway::new();
    let name = mark();
    let mut tools = super::tools(&gateway, "ask");
    tools.as_array_mut().unwrap().push(json!({"name": "sleep", "description": "Sleeps", "exec": {"argv": ["sleep", name]}}));
    let mut running =
        gateway.set("tools", tools).set("approvals", operator_only()).set("limits", json!({"workers": 1})).start();
    running.send(&call(Era::Modern, 1, "write", &write()));
    let question = open(&running, 1).remove(0);
    running.send(&call(Era::Modern, 2, "sleep", "{}"));
    until("the only worker is busy", || !with_mark(&name).is_empty());
    assert_eq!(approvals(&running, &["deny", question["id"].as_str().unwrap()]).status.code(), Some(0));
    check_outcome(&running.reply("1"), "approval_denied", "no");
    running.send(&cancel(2));
    running.end();
}

#[test]
fn the_time_of_a_call_stands_still_while_it_waits() {
    let gateway = Gateway::new();
    let mut tools = super::tools(&gateway, "ask");
    tools[0]["timeout_s"] = json!(1);
    let mut running = gateway.set("tools", tools).set("approvals", operator_only()).start();
    running.initialize("2025-11-25");
    running.send(&legacy_call(1, "write", &write()).replace(r#""params":{"#, r#""params":{"_meta":{"progressToken":"p"},"#));
    let question = open(&running, 1).remove(0);
    // Its age is beyond its own time before anybody answers.
    while running.next()["params"]["progress"].as_u64().expect("progress alone") < 1500 {}
    assert_eq!(approvals(&running, &["allow", question["id"].as_str().unwrap()]).status.code(), Some(0));
    check_outcome(&running.reply("1"), "none", "yes");
    running.end();
}

#[test]
fn an_approved_call_has_a_worker_though_all_were_busy() {
    let gateway = Gateway::new();
    let go = gateway.dir().join("go");
    let mut tools = super::tools(&gateway, "ask");
    let script = format!("while [ ! -e '{}' ]; do sleep 0.01; done", go.display());
    tools.as_array_mut().unwrap().push(json!({"name": "wait", "description": "Waits", "exec": {"argv": ["sh", "-c", script]}}));
    let mut running = gateway.set("tools", tools).set("approvals", operator_only()).start();
    running.send(&call(Era::Modern, 1, "write", &write()));
    let question = open(&running, 1).remove(0);
    // The worker that judged it has this now, and no other was started yet.
    running.send(&call(Era::Modern, 2, "wait", "{}"));
    assert_eq!(approvals(&running, &["allow", question["id"].as_str().unwrap()]).status.code(), Some(0));
    check_outcome(&running.reply("1"), "none", "yes");
    running.dir.write("go", "");
    check_outcome(&running.reply("2"), "none", "yes");
    running.end();
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

#[test]
fn the_end_of_the_session_kills_the_questions() {
    for signal in [None, Some("TERM")] {
        let mut running = eight(asking("ask", operator_only()));
        match signal {
            Some(signal) => running.signal(signal),
            None => running.close_stdin(),
        }
        let ended = running.wait();
        let replies = lines(&ended);
        for id in EIGHT {
            let of_it: Vec<_> = replies.iter().filter(|line| line["id"] == id).collect();
            assert_eq!(of_it.len(), 1, "{id}");
            check_outcome(of_it[0], "cancelled", "no");
        }
        assert_eq!(was_done(&ended), [""; 0]);
        let said = story(&ended.dir.journal_under("state"));
        assert_eq!(said.iter().filter(|said| *said == "answer:withdrawn").count(), 8, "{said:?}");
    }
}

#[test]
fn progress_says_that_a_call_waits_and_for_whom() {
    let mut running = asking("ask", operator_only()).start();
    running.initialize("2025-11-25");
    running.send(&legacy_call(1, "write", &write()).replace(r#""params":{"#, r#""params":{"_meta":{"progressToken":"p"},"#));
    let notice = running.next();
    assert_eq!(notice["params"]["progressToken"], "p", "{notice}");
    let message = notice["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("waiting for approval by the operator, "), "{message}");
    let question = open(&running, 1).remove(0);
    assert_eq!(approvals(&running, &["allow", question["id"].as_str().unwrap()]).status.code(), Some(0));
    check_outcome(&running.reply("1"), "none", "yes");
    running.end();
}

#[test]
fn the_first_of_the_order_who_can_be_asked_is_asked() {
    let order = json!({"order": ["client", "operator"], "timeout_s": 60});
    let mut running = asking("ask", order).start();
    let can = super::modern::call(1, "write", "x", "");
    assert_eq!(running.ask(&can)["result"]["resultType"], "input_required");
    running.send(&call(Era::Modern, 2, "write", &write()));
    let question = open(&running, 1).remove(0);
    assert_eq!(approvals(&running, &["deny", question["id"].as_str().unwrap()]).status.code(), Some(0));
    check_outcome(&running.reply("2"), "approval_denied", "no");
    let ended = running.end();
    let journal = ended.dir.journal_under("state");
    let asked: Vec<_> = journal.iter().filter(|record| record["type"] == "question").map(|record| &record["asked"]).collect();
    assert_eq!(asked, ["client", "operator"]);
}
