//! `show` and `follow`: rows and lines, filters, order, what a terminal is spared, and how they end.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::{command, journal, lines};
use crate::kit::PATIENCE;
use crate::kit::dir::Dir;
use crate::kit::gateway::Gateway;
use crate::kit::installed::installed;
use crate::kit::modern_call;
use crate::kit::peer::{Peer, json as json_answer};

const TOOLS: &str = r#"[
    {"name": "say", "description": "Says it", "exec": {"argv": ["sh", "-c", "exit $0", "{code}"]},
     "input": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}},
    {"name": "none", "description": "Is not there", "exec": {"argv": ["/no/such/program"]}}]"#;

fn gateway() -> Gateway {
    Gateway::of(installed()).tools(TOOLS).says_anything().set("session", json!({"on_malformed": "continue"}))
}

/// A state folder with three calls of two tools and a refused line.
fn recorded() -> Dir {
    let mut running = gateway().start();
    running.ask(&modern_call(1, "say", r#"{"code":"0"}"#));
    running.ask(&modern_call(2, "say", r#"{"code":"3"}"#));
    running.ask(&modern_call(3, "none", "{}"));
    running.send("{bad");
    running.probe();
    running.end().dir
}

fn shown(dir: &Dir, more: &[&str]) -> Vec<String> {
    let said = journal(&[&["show", "--state-dir", dir.join("state").to_str().unwrap()], more].concat());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    said.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn records_are_rows_and_lines_come_out_as_they_are() {
    let dir = recorded();
    let journal =
        dir.journal_files("state").into_iter().find(|path| !path.display().to_string().contains("refusals-")).unwrap();
    assert_eq!(shown(&dir, &["--json"]).join("\n") + "\n", fs::read_to_string(&journal).unwrap());
    let rows = shown(&dir, &[]);
    assert_eq!(rows.len(), 8);
    assert!(rows[0].starts_with("TIME ") && rows[1].contains(" session "), "{rows:#?}");
    let has = |row: &str, words: &[&str]| words.iter().all(|word| row.contains(word));
    assert!(has(&rows[3], &["outcome", "say", "ok", "yes", "exec sh (status: 0)"]), "{rows:#?}");
    assert!(has(&rows[5], &["outcome", "say", "target_error", "yes", "exec sh (status: 3)"]), "{rows:#?}");
    assert!(has(&rows[7], &["outcome", "none", "spawn_failed", "no", "exec /no/such/program"]), "{rows:#?}");
}

#[test]
fn filters_choose_by_tool_code_and_time() {
    let dir = recorded();
    let count = |more: &[&str]| shown(&dir, &[&["--json"], more].concat()).len();
    assert_eq!(count(&[]), 7);
    assert_eq!(count(&["--tool", "say"]), 4);
    assert_eq!(count(&["--tool", "none"]), 2);
    assert_eq!(count(&["--code", "target_error"]), 1);
    assert_eq!(count(&["--tool", "none", "--code", "ok"]), 0);
    assert_eq!(count(&["--since", "1h"]), 7);
    assert_eq!(count(&["--since", "2100-01-01T00:00:00Z"]), 0);
    // A refusal is shown where it is asked for: its file begins with a line of its own.
    assert_eq!(count(&["--refusals"]), 9);
    assert_eq!(count(&["--refusals", "--code", "not_json"]), 1);
}

#[test]
fn processes_are_merged_by_time() {
    let gateway = gateway();
    let state = gateway.dir().join("state");
    let mut running = gateway.start();
    running.ask(&modern_call(1, "say", r#"{"code":"0"}"#));
    // Another process, in between.
    let mut other = Gateway::of(installed()).tools(TOOLS).set("state_dir", json!(state)).says_anything().start();
    other.ask(&modern_call(1, "none", "{}"));
    other.end();
    running.ask(&modern_call(2, "say", r#"{"code":"0"}"#));
    let ended = running.end();
    let all = lines(&shown(&ended.dir, &["--json"]).join("\n"));
    let tools: Vec<&Value> = all.iter().filter(|line| line["type"] == "intent").map(|line| &line["tool"]).collect();
    assert_eq!(tools, ["say", "none", "say"]);
    assert!(all.is_sorted_by_key(|line| line["at"].as_str().unwrap().to_owned()));
}

/// The path of a request is in the record; what a peer puts there reaches no terminal as it is.
#[test]
fn a_terminal_obeys_nothing_that_is_shown() {
    let peer = Peer::start(|_| json_answer("{}"));
    let fetch = json!([{"name": "fetch", "description": "Fetches", "http": {"url": format!("{}/{{p}}", peer.url())},
        "input": {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]}}]);
    let mut running = Gateway::of(installed()).set("tools", fetch).start();
    running.ask(&modern_call(1, "fetch", r#"{"p":"\u001b[2J\u202e\u009b1A"}"#));
    let ended = running.end();
    // And a line that was never ours.
    let path: PathBuf = ended.dir.journal_files("state").remove(0);
    let forged = r#"{"seq":9,"at":"2100-01-01T00:00:00.000Z\u001b]0;x\u0007","type":"intent","call":9,"tool":"\u202ex","target":"raw 1A"}"#;
    fs::write(&path, fs::read_to_string(&path).unwrap() + &forged.replace("raw ", "raw \u{9b}") + "\nno record\n").unwrap();
    for form in [&[][..], &["--json"]] {
        let said = journal(&[&["show", "--state-dir", ended.dir.join("state").to_str().unwrap()], form].concat());
        let is_shown = |c: char| c == '\n' || !(c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) && form.is_empty());
        assert!(said.stdout.contains("raw ") && said.stdout.chars().all(is_shown), "{:?}", said.stdout);
        assert!(said.stderr.contains("1 lines are no records"), "{}", said.stderr);
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let dir = recorded();
    let state = dir.join("state");
    for action in ["show", "verify"] {
        let mut child = command(&[action, "--state-dir", state.to_str().unwrap()]);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = child.stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{action}");
    }
}

/// `follow` and what it prints.
pub struct Following {
    child: Child,
    lines: Receiver<String>,
}

impl Following {
    pub fn start(dir: &Dir, more: &[&str]) -> Following {
        let state = dir.join("state");
        let mut command = command(&[&["follow", "--json", "--state-dir", state.to_str().unwrap()], more].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (lines_tx, lines) = channel();
        let stdout: ChildStdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).all(|line| lines_tx.send(line).is_ok());
        });
        Following { child, lines }
    }

    #[track_caller]
    pub fn next(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(PATIENCE).expect("a line in time")).unwrap()
    }

    #[track_caller]
    pub fn end(mut self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{signal}");
    }
}

#[test]
fn what_comes_is_followed_from_file_to_file() {
    let mut running = gateway().start();
    running.ask(&modern_call(1, "say", r#"{"code":"0"}"#));
    // What there is already, and then what comes.
    let all = Following::start(&running.dir, &["--since", "1h"]);
    let kinds: Vec<Value> = (0..3).map(|_| all.next()["type"].clone()).collect();
    assert_eq!(kinds, ["session", "intent", "outcome"]);
    let some = Following::start(&running.dir, &["--since", "1h", "--tool", "none"]);
    running.ask(&modern_call(2, "none", "{}"));
    for following in [&all, &some] {
        assert_eq!([following.next(), following.next()].map(|line| line["type"].clone()), ["intent", "outcome"]);
    }
    let state = running.dir.join("state");
    let mut other = Gateway::of(installed()).tools(TOOLS).set("state_dir", json!(state)).says_anything().start();
    other.ask(&modern_call(1, "none", "{}"));
    assert_eq!(all.next()["type"], "session");
    for following in [&all, &some] {
        assert_eq!([following.next(), following.next()].map(|line| line["type"].clone()), ["intent", "outcome"]);
    }
    other.end();
    all.end("-INT");
    some.end("-TERM");
    running.end();
}

#[test]
fn a_reader_that_goes_away_ends_following_although_nothing_comes() {
    let dir = Dir::new();
    let mut child = command(&["follow", "--state-dir", dir.join("state").to_str().unwrap()]);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = child.stdout(writer).spawn().unwrap();
    let mut heading = String::new();
    let mut reader = BufReader::new(reader);
    reader.read_line(&mut heading).unwrap();
    assert!(heading.starts_with("TIME "), "{heading}");
    drop(reader);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
