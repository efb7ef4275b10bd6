//! Questions, answers and what they approved: what the gateway records of them is sound, and is shown and followed.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::show::Following;
use super::{check_sound, findings, journal, lines, text, verified};
use crate::approvals::legacy::{YES, answer, asked as asked_and_waiting, begin};
use crate::approvals::modern::{YES as YES_BROUGHT, asked as asked_and_sent_back, brings, call, client_only};
use crate::approvals::{asking, check_outcome, story, tools, was_done};
use crate::kit::gateway::Ended;
use crate::kit::process::written;
use crate::kit::{cancel, legacy_call};

/// The command of `approvals` that runs this script.
fn by_command(script: &str) -> Value {
    json!({"order": ["command"], "timeout_s": 60, "command": ["/bin/sh", "-c", script]})
}

/// Fails unless nothing at all is to be said of the journals.
#[track_caller]
fn check_silent(state: &Path) {
    let (code, said) = verified(state, &[]);
    assert_eq!((code, findings(&said)), (0, vec![]), "{said:#?}");
}

#[track_caller]
fn check_recorded(ended: &Ended, expected: &[&str]) {
    check_silent(&ended.dir.join("state"));
    assert_eq!(story(&ended.dir.journal_under("state")), expected);
}

fn state(ended: &Ended) -> String {
    ended.dir.join("state").to_str().unwrap().to_owned()
}

/// Rows of the table behind its heading, single spaces between words, each behind its time and its process.
fn rows(state: &str, more: &[&str]) -> Vec<String> {
    let said = journal(&[&["show", "--state-dir", state], more].concat());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let words = |row: &str| row.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
    said.stdout.lines().skip(1).map(words).collect()
}

#[test]
fn whatever_comes_of_a_question_that_waits_is_sound() {
    let mut running = begin(asking("session", client_only()), "2025-11-25");
    let standing = r#""result":{"action":"accept","content":{"decision":"session"}}"#;
    let question = asked_and_waiting(&mut running, 1, "one");
    running.send(&answer(&question, YES));
    check_outcome(&running.reply("1"), "none", "yes");
    let question = asked_and_waiting(&mut running, 2, "two");
    running.send(&answer(&question, r#""result":{"action":"decline"}"#));
    check_outcome(&running.reply("2"), "approval_denied", "no");
    asked_and_waiting(&mut running, 3, "three");
    running.send(&cancel(3));
    assert_eq!(running.next()["method"], "notifications/cancelled");
    let question = asked_and_waiting(&mut running, 4, "four");
    running.send(&answer(&question, standing));
    check_outcome(&running.reply("4"), "none", "yes");
    check_outcome(&running.ask(&legacy_call(5, "write", r#"{"text":"five"}"#)), "none", "yes");
    let ended = running.end();
    assert_eq!(was_done(&ended), ["one", "four", "five"]);
    let ways = [
        &["question", "answer:yes", "intent", "outcome:ok", "question", "answer:no", "question", "answer:withdrawn"][..],
        &["question", "answer:yes_for_session", "intent", "outcome:ok", "intent", "outcome:ok"],
    ];
    check_recorded(&ended, &ways.concat());
}

#[test]
fn a_question_that_ends_with_the_session_is_withdrawn() {
    let mut running = begin(asking("ask", client_only()), "2025-06-18");
    asked_and_waiting(&mut running, 1, "x");
    running.close_stdin();
    check_recorded(&running.wait(), &["question", "answer:withdrawn"]);
}

/// A client without a handshake takes its answer elsewhere, or nowhere.
#[test]
fn an_answer_in_another_process_is_sound_and_shows_its_tool() {
    let gateway = asking("ask", client_only());
    // The action is the same only where its command is, with its HOME: both are the first one's.
    let (tools, at, home) = (tools(&gateway, "ask"), gateway.dir().join("state"), gateway.dir().path().to_owned());
    let mut running = gateway.start();
    let carried = asked_and_sent_back(&mut running, 1, "write", "x");
    let refused = asked_and_sent_back(&mut running, 2, "write", "y");
    asked_and_sent_back(&mut running, 3, "write", "dropped");
    let elsewhere = asking("ask", client_only()).set("state_dir", json!(at)).set("tools", tools);
    let mut other = elsewhere.env("HOME", home.to_str().unwrap()).start();
    check_outcome(&other.ask(&call(7, "write", "x", &brings(&carried, YES_BROUGHT))), "none", "yes");
    check_outcome(&other.ask(&call(8, "write", "y", &brings(&refused, r#"{"action":"decline"}"#))), "approval_denied", "no");
    other.end();
    let ended = running.end();
    assert_eq!(was_done(&ended), ["x"]);
    check_silent(&at);
    let shown = rows(&state(&ended), &["--tool", "write"]);
    let kinds: Vec<&str> = shown.iter().map(|row| row.split(' ').nth(1).unwrap()).collect();
    assert_eq!(kinds, ["question", "question", "question", "answer", "intent", "outcome", "answer"], "{shown:#?}");
    assert_eq!(rows(&state(&ended), &["--code", "no"]), [shown[6].as_str()]);
    // Each file stands for itself as well.
    for path in ended.dir.journal_files("state").iter().filter(|path| !path.display().to_string().contains("refusals-")) {
        let said = journal(&["verify", "--json", "--file", path.to_str().unwrap()]);
        assert_eq!((said.code, findings(&lines(&said.stdout))), (0, vec![]), "{}", said.stdout);
    }
}

#[test]
fn a_standing_approval_holds_in_later_files() {
    let mut running = begin(asking("session", client_only()).set("journal", json!({"file_bytes": 65_536})), "2025-11-25");
    let question = asked_and_waiting(&mut running, 0, "x");
    running.send(&answer(&question, r#""result":{"action":"accept","content":{"decision":"session"}}"#));
    check_outcome(&running.reply("0"), "none", "yes");
    for id in 1..100 {
        check_outcome(&running.ask(&legacy_call(id, "write", r#"{"text":"x"}"#)), "none", "yes");
    }
    let ended = running.end();
    let verdict = check_sound(&ended.dir.join("state"));
    assert!(verdict["files"].as_u64().unwrap() > 2, "{verdict}");
    check_silent(&ended.dir.join("state"));
}

#[test]
fn who_was_asked_and_what_was_answered_are_shown() {
    let mut running = asking("ask", by_command("exit 0")).start();
    running.ask(&call(1, "write", "x", ""));
    let ended = running.end();
    let records = ended.dir.journal_under("state");
    let name = text(&records[1]["question"]);
    let shown = rows(&state(&ended), &[]);
    let target = "exec sh";
    let expected = [
        format!("1 question write {target} (asked: command) (question: {name})"),
        format!("1 answer write yes {target} (asked: command) (question: {name})"),
        format!("1 intent write {target} (question: {name})"),
    ];
    assert_eq!(shown[1..4], expected, "{shown:#?}");
    let json = journal(&["show", "--json", "--state-dir", &state(&ended), "--tool", "write"]).stdout;
    assert_eq!(lines(&json), records[1..]);
}

#[test]
fn questions_are_followed() {
    let mut running = begin(asking("ask", client_only()), "2025-11-25");
    let question = asked_and_waiting(&mut running, 1, "x");
    let following = Following::start(&running.dir, &["--since", "1h", "--tool", "write"]);
    assert_eq!(following.next()["type"], "question");
    running.send(&answer(&question, YES));
    running.reply("1");
    let kinds: Vec<Value> = (0..3).map(|_| following.next()["type"].clone()).collect();
    assert_eq!(kinds, ["answer", "intent", "outcome"]);
    following.end("-INT");
    running.end();
}

/// Killed while somebody thinks: the question is said to be open, which is no damage.
#[test]
fn a_question_that_stood_open_when_its_process_was_killed_is_told() {
    let gateway = asking("ask", json!({}));
    let asked = gateway.dir().join("asked");
    let script = format!("echo $$ > '{}'; exec sleep 60", asked.display());
    let mut running = gateway.set("approvals", by_command(&script)).start();
    running.send(&call(1, "write", "x", ""));
    let approver = written(&asked);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    // Nobody is left to end it.
    assert!(Command::new("kill").args(["-KILL", approver.trim()]).status().unwrap().success());
    let at = running.dir.join("state");
    let (code, said) = verified(&at, &[]);
    let names = running.dir.journal_files("state");
    let name = names.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).find(|name| !name.contains("refusals-"));
    assert_eq!((code, findings(&said)), (0, vec![format!("unanswered {}:2", name.unwrap())]), "{said:#?}");
    assert_eq!(said.last().unwrap()["unanswered"], 1, "{said:#?}");
    assert_eq!(running.dir.read("done"), "");
}

#[test]
fn help_names_every_member_of_a_question() {
    let mut running = asking("ask", by_command("exit 0")).start();
    running.ask(&call(1, "write", "x", ""));
    let ended = running.end();
    let help = journal(&["--help"]).stdout;
    for record in ended.dir.journal_under("state") {
        for member in record.as_object().unwrap().keys() {
            let is_named =
                [format!("{member}:"), format!("{member},"), format!(" {member} ")].iter().any(|form| help.contains(form));
            assert!(is_named, "{member} of {record}");
        }
    }
}
