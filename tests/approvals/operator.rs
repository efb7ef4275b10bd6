//! Somebody at `tidegate approvals` is asked, over a socket that belongs to the gateway's state folder.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::{asking, check_outcome, done, story, was_done};
use crate::kit::gateway::Running;
use crate::kit::process::until;
use crate::kit::{Era, call, cancel};

pub fn operator_only() -> Value {
    json!({"order": ["operator"], "timeout_s": 60})
}

/// Runs `tidegate approvals` with the gateway's own configuration.
pub fn approvals(running: &Running, words: &[&str]) -> Output {
    let config = running.dir.join("config.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("approvals").arg("--config").arg(config).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The questions that stand open, as many as are expected.
#[track_caller]
pub fn open(running: &Running, count: usize) -> Vec<Value> {
    let mut questions = Vec::new();
    until("the questions stand open", || {
        let listed = approvals(running, &["list", "--json"]);
        questions = text(&listed.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        questions.len() == count
    });
    questions
}

fn write(text: &str) -> String {
    json!({ "text": text }).to_string()
}

#[track_caller]
fn check_answer(era: Era, words: &[&str], code: &str, executed: &str, said: &str) {
    let mut running = asking("ask", operator_only()).start();
    era.begin(&mut running);
    running.send(&call(era, 1, "write", &write("x \u{202e}")));
    let question = &open(&running, 1)[0];
    let id = question["id"].as_str().unwrap();
    assert_eq!((&question["tool"], &question["rule"]), (&json!("write"), &json!("declared:write")), "{question}");
    let shown = text(&approvals(&running, &[]).stdout);
    assert!(shown.contains(id) && shown.contains("\\u202e") && !shown.contains('\u{202e}'), "{shown}");
    assert_eq!(done(&running), [""; 0]);
    let words: Vec<_> = words.iter().map(|word| if *word == "ID" { id } else { word }).collect();
    let answered = approvals(&running, &words);
    assert_eq!(answered.status.code(), Some(0), "{}", text(&answered.stderr));
    check_outcome(&running.reply("1"), code, executed);
    // Too late: no such question is open.
    assert_eq!(approvals(&running, &["allow", id]).status.code(), Some(1));
    let ended = running.end();
    let done: &[&str] = if executed == "yes" { &["x \u{202e}"] } else { &[] };
    assert_eq!(was_done(&ended), done);
    let journal = ended.dir.journal_under("state");
    assert_eq!(story(&journal)[..2], ["question".to_owned(), format!("answer:{said}")]);
    let answer = journal.iter().find(|record| record["type"] == "answer").unwrap();
    assert_eq!((&answer["asked"], &answer["user"]), (&json!("operator"), &json!(tidegate::sys::user_id())), "{answer}");
}

#[test]
fn an_operator_allows_or_denies_in_both_eras() {
    for era in Era::BOTH {
        check_answer(era, &["allow", "ID"], "none", "yes", "yes");
        check_answer(era, &["allow", "ID", "--once"], "none", "yes", "yes");
        check_answer(era, &["deny", "ID"], "approval_denied", "no", "no");
    }
}

#[test]
fn rubbish_answers_nothing_and_the_question_stands() {
    let mut running = asking("ask", operator_only()).start();
    running.send(&call(Era::Modern, 1, "write", &write("x")));
    let question = open(&running, 1).remove(0);
    let id = question["id"].as_str().unwrap();
    let wrong = if id == "00000000" { "11111111" } else { "00000000" };
    assert_eq!(approvals(&running, &["allow", wrong]).status.code(), Some(1));
    for words in
        [&["allow"][..], &["allow", "ID"], &["allow", id, id], &["grant", id], &["allow", "../x"], &["deny", id, "--once"]]
    {
        assert_eq!(approvals(&running, words).status.code(), Some(2), "{words:?}");
    }
    assert_eq!(open(&running, 1)[0]["id"], question["id"]);
    assert_eq!(approvals(&running, &["allow", id]).status.code(), Some(0));
    check_outcome(&running.reply("1"), "none", "yes");
    assert_eq!(was_done(&running.end()), ["x"]);
}

#[test]
fn nobody_at_the_terminal_is_a_no_in_time() {
    let mut running = asking("ask", json!({"order": ["operator"], "timeout_s": 1})).start();
    let reply = running.ask(&call(Era::Modern, 1, "write", &write("x")));
    check_outcome(&reply, "approval_timeout", "no");
    open(&running, 0);
    let ended = running.end();
    assert_eq!(was_done(&ended), [""; 0]);
    assert_eq!(story(&ended.dir.journal_under("state")), ["question", "answer:timed_out"]);
}

#[test]
fn a_yes_for_the_session_stands_and_once_does_not() {
    let mut running = asking("session", operator_only()).start();
    for (id, words) in [(1, &["--once"][..]), (2, &[])] {
        running.send(&call(Era::Modern, id, "write", &write("x")));
        let question = open(&running, 1).remove(0);
        let allowed = approvals(&running, &[&["allow", question["id"].as_str().unwrap()][..], words].concat());
        assert_eq!(allowed.status.code(), Some(0), "{}", text(&allowed.stderr));
        check_outcome(&running.reply(&id.to_string()), "none", "yes");
    }
    check_outcome(&running.ask(&call(Era::Modern, 3, "write", &write("y"))), "none", "yes");
    let ended = running.end();
    assert_eq!(was_done(&ended), ["x", "x", "y"]);
    assert_eq!(story(&ended.dir.journal_under("state")).iter().filter(|said| *said == "question").count(), 2);
}

#[test]
fn whoever_is_not_listed_sees_nothing_and_answers_nothing() {
    let other = tidegate::sys::user_id() + 1;
    let gateway = asking("ask", json!({"order": ["operator"], "timeout_s": 60, "operators": [other]}));
    let mut running = gateway.says("operator").start();
    running.send(&call(Era::Modern, 1, "write", &write("x")));
    let journal = || story(&running.dir.journal_under("state"));
    until("the question was recorded", || journal() == ["question"]);
    let socket = running.dir.join("state/approvals");
    until("there is a socket", || std::fs::read_dir(&socket).is_ok_and(|mut files| files.next().is_some()));
    let listed = approvals(&running, &["list"]);
    assert_eq!((listed.status.code(), text(&listed.stdout).contains("write")), (Some(1), false), "{listed:?}");
    running.send(&cancel(1));
    running.probe();
    assert_eq!(was_done(&running.end()), [""; 0]);
}

#[test]
fn the_socket_is_its_owners_alone_and_goes_with_the_gateway() {
    let mut running = asking("ask", operator_only()).start();
    running.send(&call(Era::Modern, 1, "write", &write("x")));
    open(&running, 1);
    let folder = running.dir.join("state/approvals");
    let mode = |path: &std::path::Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    let socket = |folder: &std::path::Path| {
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect::<Vec<_>>()
    };
    let sockets = socket(&folder);
    assert_eq!((mode(&folder), sockets.len(), mode(&sockets[0])), (0o700, 1, 0o600));
    running.close_stdin();
    let ended = running.wait();
    assert!(socket(&ended.dir.join("state/approvals")).is_empty());
    let reply = String::from_utf8(ended.stdout.clone()).unwrap();
    assert!(reply.contains("\"cancelled\"") && was_done(&ended).is_empty(), "{reply}");
    assert_eq!(story(&ended.dir.journal_under("state")), ["question", "answer:withdrawn"]);
}

#[test]
fn one_operator_answers_for_several_gateways_of_a_folder() {
    let state = crate::kit::dir::Dir::new();
    let mut gateways: Vec<Running> =
        (0..2).map(|_| asking("ask", operator_only()).set("state_dir", json!(state.path())).start()).collect();
    for running in &mut gateways {
        running.send(&call(Era::Modern, 1, "write", &write("x")));
    }
    let questions = open(&gateways[0], 2);
    let pids: Vec<u64> = questions.iter().map(|question| question["pid"].as_u64().unwrap()).collect();
    for running in &mut gateways {
        let at = pids.iter().position(|pid| *pid == u64::from(running.pid())).expect("each has asked");
        assert_eq!(approvals(running, &["allow", questions[at]["id"].as_str().unwrap()]).status.code(), Some(0));
        check_outcome(&running.reply("1"), "none", "yes");
    }
    gateways.into_iter().for_each(|running| assert_eq!(was_done(&running.end()), ["x"]));
}
