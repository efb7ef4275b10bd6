//! A command of the configuration is asked: it sees the exact action, gets no credential, and its exit status is the answer.

use serde_json::{Value, json};

use super::{asking, check_outcome, story, was_done};
use crate::kit::gateway::{Gateway, Running};
use crate::kit::process::{until, with_mark};
use crate::kit::{Era, call, cancel, unique};

/// A gateway that asks this shell script.
fn by(script: &str, timeout_s: u64) -> Gateway {
    asking("ask", json!({"order": ["command"], "timeout_s": timeout_s, "command": ["sh", "-c", script]}))
}

fn write() -> String {
    json!({"text": "x"}).to_string()
}

#[track_caller]
fn check(script: &str, code: &str, executed: &str, said: &str) {
    for era in Era::BOTH {
        let mut running = by(script, 60).start();
        era.begin(&mut running);
        check_outcome(&running.ask(&call(era, 1, "write", &write())), code, executed);
        let ended = running.end();
        assert_eq!(was_done(&ended).len(), usize::from(executed == "yes"), "{script}");
        assert_eq!(
            story(&ended.dir.journal_under("state"))[..2],
            ["question".to_owned(), format!("answer:{said}")],
            "{script}"
        );
    }
}

#[test]
fn exit_status_zero_is_yes_and_nothing_else_is() {
    check("exit 0", "none", "yes", "yes");
    check("cat >/dev/null; exit 0", "none", "yes", "yes");
    check("exit 1", "approval_denied", "no", "no");
    check("echo yes; exit 77", "approval_denied", "no", "no");
    check("kill -KILL $$", "approval_denied", "no", "unusable");
}

#[test]
fn a_command_that_is_not_there_is_a_no() {
    let gateway = asking("ask", json!({"order": ["command"], "command": [format!("/no/such/{}", unique())]}));
    let mut running = gateway.says_anything().start();
    check_outcome(&running.ask(&call(Era::Modern, 1, "write", &write())), "approval_denied", "no");
    assert_eq!(was_done(&running.end()), [""; 0]);
}

#[test]
fn it_sees_the_exact_action_and_no_secret() {
    let gateway = Gateway::new();
    let (seen, env) = (gateway.dir().join("seen"), gateway.dir().join("env"));
    let script = format!("cat > '{}'; env > '{}'", seen.display(), env.display());
    let tools = super::tools(&gateway, "session");
    let approvals = json!({"order": ["command"], "command": ["sh", "-c", script]});
    let mut running = gateway.set("tools", tools).set("approvals", approvals).env("TOKEN_OF_OURS", "canary").start();
    check_outcome(&running.ask(&call(Era::Modern, 1, "write", &write())), "none", "yes");
    let asked: Value = serde_json::from_str(&running.dir.read("seen")).unwrap();
    assert_eq!(
        (&asked["tool"], &asked["rule"], &asked["extent"]),
        (&json!("write"), &json!("declared:write"), &json!("session"))
    );
    let argv = asked["action"]["exec"]["argv"].as_array().unwrap();
    assert_eq!((argv.len(), &argv[4]), (5, &json!("x")), "{asked}");
    let env = running.dir.read("env");
    assert!(env.contains("PATH=") && !env.contains("canary"), "{env}");
    // Its yes goes as far as the rule says.
    check_outcome(&running.ask(&call(Era::Modern, 2, "write", r#"{"text":"y"}"#)), "none", "yes");
    let ended = running.end();
    assert_eq!(was_done(&ended), ["x", "y"]);
    assert_eq!(story(&ended.dir.journal_under("state")).iter().filter(|said| *said == "question").count(), 1);
}

/// A command that ignores SIGTERM and never answers; it says where it has begun.
fn deaf(running_dir: &std::path::Path) -> String {
    format!("trap '' TERM; echo begun >> '{}/begun'; while :; do sleep 1; done", running_dir.display())
}

fn begin_deaf(timeout_s: u64) -> (Running, String) {
    let (gateway, mark) = (Gateway::new(), unique());
    let script = format!("# {mark}\n{}", deaf(gateway.dir().path()));
    let tools = super::tools(&gateway, "ask");
    let approvals = json!({"order": ["command"], "timeout_s": timeout_s, "command": ["sh", "-c", script]});
    let mut running = gateway.set("tools", tools).set("approvals", approvals).start();
    running.send(&call(Era::Modern, 1, "write", &write()));
    (running, mark)
}

fn begun(running: &Running) {
    until("the approver command has begun", || running.dir.join("begun").exists());
}

#[test]
fn a_command_that_does_not_answer_is_killed_in_time() {
    let (mut running, mark) = begin_deaf(1);
    check_outcome(&running.reply("1"), "approval_timeout", "no");
    until("the command is gone", || with_mark(&mark).is_empty());
    let ended = running.end();
    assert_eq!(was_done(&ended), [""; 0]);
    assert_eq!(story(&ended.dir.journal_under("state")), ["question", "answer:timed_out"]);
}

#[test]
fn a_cancel_of_the_call_kills_the_command() {
    let (mut running, mark) = begin_deaf(60);
    begun(&running);
    running.send(&cancel(1));
    until("the command is gone", || with_mark(&mark).is_empty());
    let ended = running.end();
    assert_eq!(was_done(&ended), [""; 0]);
    assert_eq!(story(&ended.dir.journal_under("state")), ["question", "answer:withdrawn"]);
}

#[test]
fn the_end_of_the_session_kills_the_command() {
    for signal in [None, Some("TERM")] {
        let (mut running, mark) = begin_deaf(60);
        begun(&running);
        match signal {
            Some(signal) => running.signal(signal),
            None => running.close_stdin(),
        }
        let ended = running.wait();
        assert_eq!(with_mark(&mark), [0; 0]);
        assert_eq!(was_done(&ended), [""; 0]);
        assert_eq!(story(&ended.dir.journal_under("state")), ["question", "answer:withdrawn"]);
    }
}
