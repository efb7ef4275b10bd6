//! `fixtures/frames/`: what is refused leaves no mark in the world, and its well-formed twin leaves exactly one.
//!
//! Every case runs against the installed binary, recorded and carried out, where it matters in both modes of the session, and
//! each time with a marker of its own as the argument of the call it tries. `case` says how a case is written.

mod case;
mod inherit;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use case::{Case, Expected, Fill, Under};

use crate::kit::dir::Dir;
use crate::kit::gateway::{Ended, Gateway, Running};
use crate::kit::installed::installed;
use crate::kit::peer::{Peer, json as json_answer};
use crate::kit::sshd::Sshd;
use crate::kit::{legacy_call, modern_call, unique};

/// A local command, an HTTP request and a remote command: each shows one text argument to the world.
const TOOLS: &[&str] = if cfg!(feature = "ssh") { &["note", "fetch", "remote"] } else { &["note", "fetch"] };
const SMALL: usize = 1024;
/// As many operator lines about refused lines as there are in a row.
const TOLD_MAX: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hands {
    Recorder,
    Real,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Close,
    Continue,
}

/// The targets, and the gateways that are aimed at them.
struct World {
    peer: Peer,
    /// Connections that were expected so far.
    connections: usize,
    sshd: Sshd,
    /// Logins that were expected so far.
    logins: usize,
}

impl World {
    fn new() -> World {
        World { peer: Peer::start(|_| json_answer("{}")), connections: 0, sshd: Sshd::start(""), logins: 0 }
    }

    fn gateway(&self, hands: Hands, mode: Mode, is_small: bool) -> Gateway {
        let gateway = Gateway::of(installed());
        let (log, record) = (gateway.dir().join("log"), gateway.dir().join("record"));
        // Its helper shows to the world that it was started.
        let helped =
            format!("#!/bin/sh\necho helped >> '{}'\necho key-of-the-corpus\n", gateway.dir().join("helped").display());
        let helper = gateway.dir().write_mode("helper", helped, 0o700);
        let input =
            json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 200}}, "required": ["text"]});
        let remote = json!({"name": "remote", "description": "Writes it down over there", "input": input,
            "ssh": {"host": "there", "argv": ["sh", "-c", script(&gateway.dir().join("remote")), "sh", "{text}"]}});
        let mut tools = json!([
            {"name": "note", "description": "Writes it down", "input": input, "exec": {"argv": ["sh", "-c", script(&log), "sh", "{text}"]}},
            {"name": "fetch", "description": "Fetches it", "input": input,
             "http": {"url": format!("{}/at/{{text}}", self.peer.url()), "credential": "api"}},
            {"name": "plain", "description": "Fetches it without a credential", "input": input,
             "http": {"url": format!("{}/plain/{{text}}", self.peer.url())}},
        ]);
        if cfg!(feature = "ssh") {
            tools.as_array_mut().unwrap().push(remote);
        }
        let mut builtin = json!({"http_request": {"allow": [
            {"host": "127.0.0.1", "port": self.peer.port(), "paths": ["/at/"], "credential": "api"}, {"host": "127.0.0.1", "port": 1}
        ]}});
        if cfg!(feature = "ssh") {
            builtin["ssh_exec"] = json!({"hosts": ["there"], "allow": [["uptime"], ["show", "*"]]});
        }
        let user_key = self.sshd.credentials()["user_key"].clone();
        let scope = json!([{"host": "127.0.0.1", "port": self.peer.port(), "paths": ["/at/"]}]);
        let rule = if mode == Mode::Close { "close" } else { "continue" };
        let mut gateway = gateway
            .set("tools", tools)
            .set("credentials", json!({"api": {"from": {"command": [helper]}, "for": scope}, "user_key": user_key}))
            .set("hosts", json!({"there": self.sshd.host()}))
            .set("builtin", builtin)
            .set("session", json!({"on_malformed": rule}));
        if is_small {
            gateway = gateway.set("limits", json!({"line_in_bytes": SMALL}));
        }
        match hands {
            Hands::Recorder => gateway.args(["--dry-run", "--record"]).args([record]),
            Hands::Real => gateway,
        }
    }

    /// What tool and text show to the world, in a run that carried `count` such calls out (or at most so many).
    #[track_caller]
    fn check_effects(&mut self, effects: &Effects<'_>, dir: &Dir) {
        let seen = match effects.hands {
            Hands::Recorder => {
                assert_eq!(dir.read("helped"), "", "a dry run started a helper");
                recorded(dir, effects)
            }
            Hands::Real => self.carried_out(dir, effects),
        };
        assert!(seen == effects.count || effects.is_at_most && seen < effects.count, "{} actions, not {}", seen, effects.count);
        assert_eq!(self.peer.connections(), self.connections, "connections");
        assert_eq!(self.sshd.log().matches("Accepted publickey").count(), self.logins, "logins");
        if effects.count == 0 {
            check_nowhere(effects.mark, dir.path());
        }
    }

    fn carried_out(&mut self, dir: &Dir, effects: &Effects<'_>) -> usize {
        let [noted, remote] = ["log", "remote"].map(|file| {
            let log = dir.read(file);
            let noted = log.matches(&format!("{}\n", effects.text)).count();
            assert_eq!(log.len(), noted * (effects.text.len() + 1), "something else was noted: {log:?}");
            noted
        });
        // One session serves all remote commands of a gateway.
        self.logins += remote.min(1);
        let seen = self.peer.seen();
        let fetched = seen.iter().filter(|seen| seen.line == format!("GET {} HTTP/1.1", effects.path)).count();
        assert_eq!(
            seen.iter().filter(|seen| seen.line.contains(effects.mark)).count(),
            if effects.is_of("fetch") { fetched } else { 0 }
        );
        let fetched = if effects.is_of("fetch") { fetched } else { 0 };
        // One run serves all requests of a gateway.
        assert_eq!(dir.read("helped").lines().count(), fetched.min(1), "runs of the credential helper");
        self.connections += fetched;
        let intents = dir.journal_under("state").iter().filter(|line| line["type"] == "intent").count();
        assert_eq!(intents, noted + fetched + remote, "one intent for each action");
        noted + fetched + remote
    }
}

/// What a run may show to the world.
struct Effects<'a> {
    hands: Hands,
    tool: &'a str,
    mark: &'a str,
    text: &'a str,
    path: &'a str,
    count: usize,
    is_at_most: bool,
}

impl Effects<'_> {
    fn is_of(&self, tool: &str) -> bool {
        self.tool == tool
    }
}

fn script(log: &Path) -> String {
    format!("printf '%s\\n' \"$1\" >> '{}'", log.display())
}

/// How many actions were recorded; each must be the expected one, whole.
#[track_caller]
fn recorded(dir: &Dir, effects: &Effects<'_>) -> usize {
    let record = dir.read("record");
    for line in record.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["tool"], effects.tool, "{line}");
        match effects.tool {
            "note" => assert_eq!(line["action"]["exec"]["argv"][4], effects.text, "{line}"),
            "remote" => {
                assert_eq!(
                    (&line["action"]["ssh"]["host"], &line["credential"]),
                    (&json!("there"), &json!("user_key")),
                    "{line}"
                );
                assert_eq!(line["action"]["ssh"]["argv"][4], effects.text, "{line}");
            }
            _ => {
                let url = line["action"]["http"]["url"].as_str().unwrap();
                assert!(url.starts_with("http://127.0.0.1:") && url.ends_with(effects.path), "{line}");
                assert_eq!((&line["action"]["http"]["method"], &line["credential"]), (&json!("GET"), &json!("api")), "{line}");
            }
        }
    }
    assert!(!dir.join("state").exists(), "a dry run leaves state behind");
    record.lines().count()
}

/// The marker is in no file below `folder` and in no command line.
#[track_caller]
fn check_nowhere(mark: &str, folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_nowhere(mark, &path);
        } else {
            let bytes = fs::read(&path).unwrap();
            assert!(!bytes.windows(mark.len()).any(|window| window == mark.as_bytes()), "the marker is in {}", path.display());
        }
    }
}

/// Runs one case and checks everything that may be seen of it.
#[track_caller]
fn check_case(world: &mut World, case: &Case, tool: &str, hands: Hands, mode: Mode) {
    eprintln!("{}: {tool}, {hands:?}, {mode:?}", case.name);
    let mark = unique();
    let fill = Fill { mark: &mark, tool };
    let is_closing = mode == Mode::Close && case.is_lost();
    let expected = if is_closing { case.until_lost() } else { &case.expected };
    let mut gateway = world.gateway(hands, mode, case.is_small).exit(if is_closing { 65 } else { 0 });
    let lost = expected.iter().filter(|expected| matches!(expected, Expected::Lost { .. }));
    for expected in lost.take(TOLD_MAX) {
        let deed = if is_closing { "session closed by" } else { "refused" };
        gateway = gateway.says(&format!("{deed} a line that is no message: {}", expected.reason().unwrap()));
    }
    let mut running = gateway.start();
    if let Some(revision) = &case.legacy {
        running.initialize(revision);
    }
    let (replies, ended) = converse(running, case, &fill, is_closing);
    check_replies(replies, expected, is_closing);
    check_digits(&ended, expected);
    check_refusals(&ended, expected, hands);
    assert!(!ended.stderr.contains(&mark), "the marker is on stderr: {}", ended.stderr);
    let runs = expected.iter().filter(|expected| matches!(expected, Expected::Runs { .. })).count();
    let (text, path) = (case.text(&fill), case.path(&fill));
    let effects = Effects { hands, tool, mark: &mark, text: &text, path: &path, count: runs, is_at_most: is_closing };
    world.check_effects(&effects, &ended.dir);
}

/// Sends the case's bytes and returns every message that came, and the end.
#[track_caller]
fn converse(mut running: Running, case: &Case, fill: &Fill<'_>, is_closing: bool) -> (Vec<Value>, Ended) {
    let mut bytes = case.bytes(fill);
    if is_closing && !case.is_eof {
        // What stands behind the line that closed the session is a perfect call, and is never read.
        bytes.extend(
            format!("{}\n", modern_call("\"behind\"", fill.tool, &format!(r#"{{"text":"{}"}}"#, fill.mark))).into_bytes(),
        );
    }
    running.offer(&bytes);
    let mut replies = if is_closing || case.is_eof { Vec::new() } else { running.probe() };
    let ended = if is_closing && !case.is_eof { running.wait() } else { running.end() };
    replies.extend(ended.rest.iter().cloned());
    (replies, ended)
}

#[track_caller]
fn check_replies(mut replies: Vec<Value>, expected: &[Expected], is_closing: bool) {
    let mut take = |what: &Expected, is_it: &dyn Fn(&Value) -> bool| match replies.iter().position(is_it) {
        Some(at) => replies.remove(at),
        None => panic!("no {what:?} among {replies:#?}"),
    };
    for what in expected {
        match what {
            Expected::Lost { code, id, .. } | Expected::Refused { code, id, .. } => {
                let reply = take(what, &|reply| reply["error"]["code"] == *code && is_under(reply, id));
                let outcome = &reply["error"]["data"]["tidegate/outcome"]["executed"];
                assert!(*outcome == "no" || matches!(what, Expected::Refused { .. }) && outcome.is_null(), "{reply}");
            }
            Expected::Failed { code, id, .. } => {
                let reply = take(what, &|reply| is_under(reply, &Under::Id(id.clone())) && reply["result"]["isError"] == true);
                let outcome = &reply["result"]["_meta"]["tidegate/outcome"];
                // The oldest revisions have no place for it; the text says it there.
                let is_said = outcome["code"] == *code && outcome["executed"] == "no";
                assert!(is_said || reply["result"]["content"][0]["text"].as_str().unwrap().contains(code), "{reply}");
            }
            Expected::Silent { .. } => {}
            Expected::Answered { id } => {
                drop(take(what, &|reply| is_under(reply, &Under::Id(id.clone())) && reply.get("result").is_some()))
            }
            Expected::Listens { id } => {
                take(what, &|reply| reply["method"] == "notifications/subscriptions/acknowledged");
                take(what, &|reply| reply["method"] == "notifications/cancelled");
                take(what, &|reply| is_under(reply, &Under::Id(id.clone())) && reply.get("result").is_some());
            }
            Expected::Runs { id } => {
                let reply = take(what, &|reply| is_under(reply, &Under::Id(id.clone())) && reply.get("result").is_some());
                assert!(is_closing || reply["result"]["isError"] == false, "{reply}");
            }
        }
    }
    assert!(replies.is_empty(), "messages too many: {replies:#?}");
}

/// Whether the message stands under this id.
fn is_under(reply: &Value, id: &Under) -> bool {
    match (reply.get("id"), id) {
        (None, Under::Absent) | (Some(Value::Null), Under::Null) => true,
        (Some(got), Under::Id(id)) => serde_json::from_str::<Value>(id).is_ok_and(|id| *got == id),
        (None | Some(_), _) => false,
    }
}

/// Ids are echoed as they were written, digit for digit.
#[track_caller]
fn check_digits(ended: &Ended, expected: &[Expected]) {
    let stdout = String::from_utf8_lossy(&ended.stdout);
    for what in expected {
        if let Expected::Runs { id } | Expected::Answered { id } = what
            && !id.contains('\\')
        {
            assert!(stdout.contains(&format!("\"id\":{id},")), "{id} is not in {stdout}");
        }
    }
}

/// The closing counters and, where state is kept, the records of what was refused say the same.
#[track_caller]
fn check_refusals(ended: &Ended, expected: &[Expected], hands: Hands) {
    let mut reasons: Vec<&str> = expected.iter().filter_map(Expected::reason).collect();
    reasons.sort_unstable();
    let mut counted = BTreeMap::new();
    reasons.iter().for_each(|reason| *counted.entry(*reason).or_insert(0) += 1);
    let counters = ended.counters();
    assert_eq!(counters["refusals"], json!(counted), "{counters}");
    if !expected.iter().any(|expected| matches!(expected, Expected::Runs { .. })) {
        assert_eq!((&counters["executions"], &counters["recorded"]), (&json!({}), &json!(0)), "{counters}");
    }
    let records = ended.dir.refusals_under("state");
    let mut recorded: Vec<&str> = records.iter().map(|record| record["reason"].as_str().unwrap()).collect();
    recorded.sort_unstable();
    assert_eq!(recorded, if hands == Hands::Real { reasons } else { Vec::new() }, "{records:#?}");
    for record in &records {
        let (stage, reason) = (record["stage"].as_str().unwrap(), record["reason"].as_str().unwrap());
        assert_eq!(stage, stage_of(reason), "{record}");
        let print = record["fingerprint"].as_str();
        assert_eq!(print.map(str::len), (reason != "line_too_long").then_some(64), "{record}");
    }
}

/// Where each reason belongs on the way of a request.
fn stage_of(reason: &str) -> &str {
    match reason {
        "line_too_long" | "not_utf8" | "unterminated" => "frame",
        "unknown_method" | "invalid_params" | "unsupported_version" | "unknown_tool" => "call",
        "bad_arguments" => "action",
        "not_allowed" => "grant",
        _ => "message",
    }
}

fn tools_of(case: &Case) -> Vec<&'static str> {
    TOOLS.iter().copied().filter(|tool| case.tools.as_deref().is_none_or(|only| only == *tool)).collect()
}

fn modes_of(case: &Case) -> &'static [Mode] {
    if case.is_lost() { &[Mode::Close, Mode::Continue] } else { &[Mode::Close] }
}

#[test]
fn refused_frames_are_recorded_nowhere() {
    let mut world = World::new();
    for case in Case::all().iter().filter(|case| !case.is_real_only) {
        for (tool, mode) in tools_of(case).into_iter().cycle().zip(modes_of(case)) {
            check_case(&mut world, case, tool, Hands::Recorder, *mode);
        }
    }
}

#[test]
fn refused_frames_reach_no_command_and_no_server() {
    let mut world = World::new();
    for (case, first) in Case::all().iter().zip([0, 1, 2].into_iter().cycle()) {
        // By turns: every tool sees both modes, and every case every tool.
        let (tools, modes) = (tools_of(case), modes_of(case).iter().cycle());
        for (tool, mode) in tools.iter().cycle().skip(first).zip(modes).take(tools.len().max(modes_of(case).len())) {
            check_case(&mut world, case, tool, Hands::Real, *mode);
        }
    }
    assert_eq!(world.peer.connections(), world.connections);
}

/// The call that a case tries and gets wrong, as it should have been, in a session of its own.
#[track_caller]
fn check_twin(world: &mut World, case: &Case, tool: &str, hands: Hands) {
    eprintln!("{}: {tool}, {hands:?}, the twin", case.name);
    let mark = unique();
    let mut running = world.gateway(hands, Mode::Close, false).start();
    let arguments = format!(r#"{{"text":"{mark}"}}"#);
    let reply = match &case.legacy {
        Some(revision) => {
            running.initialize(revision);
            running.ask(&legacy_call(1, tool, &arguments))
        }
        None => running.ask(&modern_call(1, tool, &arguments)),
    };
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    let ended = running.end();
    assert!(ended.rest.is_empty(), "{:#?}", ended.rest);
    check_refusals(&ended, &[Expected::Runs { id: "1".to_owned() }], hands);
    let path = format!("/at/{mark}");
    let effects = Effects { hands, tool, mark: &mark, text: &mark, path: &path, count: 1, is_at_most: false };
    world.check_effects(&effects, &ended.dir);
    if hands == Hands::Real {
        let kinds: Vec<_> = ended.dir.journal_under("state").iter().map(|line| line["type"].clone()).collect();
        assert_eq!(kinds, ["session", "intent", "outcome"]);
    }
}

#[test]
fn the_twin_of_each_frame_acts_exactly_once() {
    let mut world = World::new();
    for (case, first) in Case::all().iter().zip([0, 1, 2].into_iter().cycle()) {
        let tools = tools_of(case);
        check_twin(&mut world, case, tools[first % tools.len()], Hands::Recorder);
        check_twin(&mut world, case, tools[(first + 1) % tools.len()], Hands::Real);
    }
    assert_eq!(world.peer.connections(), world.connections);
}
