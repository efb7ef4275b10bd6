//! Where a human is asked, that stands between the decision and the intent: a question moves nothing but itself, whatever is no yes
//! moves nothing more, and a yes is used up and recorded before the intent is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{
    Answer, Approver, Client, Connector, Credential, Flaw, Helper, Intent, Question, Resolver, Rig, Spawn, Spent, Tripwire,
};
use crate::kit::dir::Dir;
use crate::kit::process::until;
use crate::kit::{legacy_call, modern_call, unique};

/// Whom a call has asked, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The client, which brings the answer with the next call.
    Stateless,
    /// The client, while the call waits.
    Handshake,
    /// The approver command, while the call waits.
    Command,
}

const WAYS: [Way; 3] = [Way::Stateless, Way::Handshake, Way::Command];

/// One tool of each kind of action with the argument, and what its execution moves; in the order in which they are called.
fn kinds(rig: &Rig) -> Vec<(&'static str, Value, Vec<Tripwire>)> {
    let text = json!({"text": "x"});
    let url = format!("http://localhost:{}/at/x", rig.peer.port());
    let connects = vec![Credential, Resolver, Connector];
    let mut kinds = vec![
        ("fetch", text.clone(), connects.clone()),
        ("minted", text.clone(), vec![Credential, Helper, Resolver, Connector]),
        ("http_request", json!({"url": url}), connects.clone()),
        ("note", text.clone(), vec![Credential, Spawn]),
    ];
    if cfg!(feature = "ssh") {
        kinds.push(("remote", text, connects));
        // In the session that is kept.
        kinds.push(("ssh_exec", json!({"host": "there", "argv": ["touch", "/dev/null"]}), vec![Credential]));
    }
    kinds
}

/// A command that shows what it was given and waits for its verdict.
fn approvals(dir: &Dir, timeout_s: u64) -> Value {
    let at = dir.path().display();
    let script = format!(
        "#!/bin/sh\ncat > '{at}/asked.part'\ntr '\\0' '\\n' < /proc/$$/environ > '{at}/environment'\necho \"$*\" > '{at}/arguments'\n\
         mv '{at}/asked.part' '{at}/asked'\nread status < '{at}/verdict'\nexit \"$status\"\n"
    );
    let command = dir.write("approver", script);
    fs::set_permissions(&command, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(Command::new("mkfifo").arg(dir.join("verdict")).status().unwrap().success());
    json!({"order": ["client", "command"], "command": [command], "timeout_s": timeout_s})
}

const CAN_ASK: &str = r#""io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}"#;
const CANNOT_ASK: &str = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
const YES: &str = r#"{"action":"accept","content":{"decision":"once"}}"#;
const NO: &str = r#"{"action":"decline"}"#;

/// A question that stands.
struct Standing {
    way: Way,
    /// Of the call, as JSON.
    id: String,
    tool: &'static str,
    arguments: String,
    /// The state, the question's id, or what the command was shown.
    handle: String,
}

impl Rig {
    /// With a client that can be asked in both eras, and a command for who cannot.
    fn with_approvers(flaw: Flaw, timeout_s: u64) -> Rig {
        let mut rig = Rig::asking(flaw, "ask", &|dir| approvals(dir, timeout_s));
        rig.running.send(
            r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}"#,
        );
        rig.running.reply("\"init\"");
        rig.running.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        rig.running.probe();
        rig
    }

    fn line(way: Way, id: &str, tool: &str, arguments: &str, more: &str) -> String {
        match way {
            Way::Handshake => legacy_call(id, tool, arguments),
            Way::Command => modern_call(id, tool, arguments),
            Way::Stateless => modern_call(id, tool, arguments)
                .replace(CANNOT_ASK, CAN_ASK)
                .replace(r#""_meta""#, &format!(r#"{more}"_meta""#)),
        }
    }

    /// Calls, and returns once somebody has been asked.
    #[track_caller]
    fn asked(&mut self, way: Way, tool: &'static str, arguments: &Value) -> Standing {
        let (id, arguments) = (format!("\"{}\"", unique()), arguments.to_string());
        self.running.send(&Rig::line(way, &id, tool, &arguments, ""));
        let handle = match way {
            Way::Stateless => {
                let reply = self.running.reply(&id);
                assert_eq!(reply["result"]["resultType"], "input_required", "{reply}");
                reply["result"]["requestState"].as_str().unwrap().to_owned()
            }
            Way::Handshake => {
                let question = self.running.next();
                assert_eq!(question["method"], "elicitation/create", "{question}");
                question["id"].to_string()
            }
            Way::Command => {
                let asked = self.running.dir.join("asked");
                until("the command is asked", || asked.exists());
                let shown = fs::read_to_string(&asked).unwrap();
                fs::remove_file(asked).unwrap();
                shown
            }
        };
        Standing { way, id, tool, arguments, handle }
    }

    /// Answers, and returns the reply to the call that the answer is for.
    #[track_caller]
    fn answered(&mut self, standing: &Standing, is_yes: bool) -> Value {
        let Standing { way, id, tool, arguments, handle } = standing;
        let answer = if is_yes { YES } else { NO };
        match way {
            Way::Stateless => return self.brought(tool, arguments, handle, answer),
            Way::Handshake => self.running.send(&format!(r#"{{"jsonrpc":"2.0","id":{handle},"result":{answer}}}"#)),
            Way::Command => fs::write(self.running.dir.join("verdict"), if is_yes { "0\n" } else { "1\n" }).unwrap(),
        }
        self.running.reply(id)
    }

    #[track_caller]
    fn brought(&mut self, tool: &str, arguments: &str, state: &str, answer: &str) -> Value {
        let more = format!(r#""requestState":"{state}","inputResponses":{{"approval":{answer}}},"#);
        self.running.ask(&Rig::line(Way::Stateless, &format!("\"{}\"", unique()), tool, arguments, &more))
    }

    /// What the targets, the journal and the folder of used states have seen.
    fn counts(&self) -> ((usize, usize, usize), usize) {
        let spent = fs::read_dir(self.running.dir.join("state/approvals/spent"));
        (self.reached(), spent.into_iter().flatten().count())
    }

    /// Nothing was done for this reply, and nothing moved but what is named.
    #[track_caller]
    fn check_refused(&mut self, stage: &str, reply: &Value, code: &str, moves: &[Tripwire], before: (usize, usize, usize)) {
        let result = &reply["result"]["_meta"]["tidegate/outcome"];
        let outcome = if result.is_null() { &reply["error"]["data"]["tidegate/outcome"] } else { result };
        assert_eq!((&outcome["code"], &outcome["executed"]), (&json!(code), &json!("no")), "{stage}: {reply}");
        self.running.probe();
        assert_eq!(self.moved(), moves, "{stage}: {reply}");
        assert_eq!(self.reached(), before, "{stage}");
    }
}

impl Way {
    fn asks(self) -> [Tripwire; 2] {
        [Question, if self == Way::Command { Approver } else { Client }]
    }

    /// What an answer that counts moves by itself.
    fn answers(self) -> &'static [Tripwire] {
        if self == Way::Stateless { &[Spent, Answer] } else { &[Answer] }
    }
}

/// What a state is worth that was used, altered, or is brought for something else: nothing, and it moves nothing.
#[track_caller]
fn check_worthless(rig: &mut Rig, standing: &Standing, before: (usize, usize, usize)) {
    let Standing { tool, arguments, handle: state, .. } = standing;
    let at = state.len() / 2;
    let other = if state.as_bytes()[at] == b'A' { "B" } else { "A" };
    let altered = format!("{}{other}{}", &state[..at], &state[at + 1..]);
    let elsewhere = if *tool == "note" { "fetch" } else { "note" };
    for (what, tool, arguments, state) in [
        ("used", *tool, arguments.as_str(), state),
        ("altered", *tool, arguments.as_str(), &altered),
        ("elsewhere", elsewhere, r#"{"text":"x"}"#, state),
    ] {
        for answer in [YES, NO] {
            let reply = rig.brought(tool, arguments, state, answer);
            assert_eq!(reply["error"]["code"], -32602, "{what}: {reply}");
            rig.check_refused(what, &reply, "approval_denied", &[], before);
        }
    }
}

/// Asked and refused, then asked and approved.
#[track_caller]
fn check(rig: &mut Rig, way: Way, tool: &'static str, arguments: &Value, moves: &[Tripwire]) {
    let stage = |what: &str| format!("{tool}, {way:?}, {what}");
    let (before, spent) = rig.counts();
    let standing = rig.asked(way, tool, arguments);
    assert_eq!(rig.running.probe(), [Value::Null; 0]);
    assert_eq!(rig.moved(), way.asks(), "{}", stage("asked"));
    assert_eq!(rig.counts(), (before, spent), "{}", stage("asked"));
    if way == Way::Command {
        check_shown(rig, &standing);
    }
    let reply = rig.answered(&standing, false);
    rig.check_refused(&stage("no"), &reply, "approval_denied", way.answers(), before);
    if way == Way::Stateless {
        check_worthless(rig, &standing, before);
    }
    let standing = rig.asked(way, tool, arguments);
    assert_eq!(rig.moved(), way.asks(), "{}", stage("asked again"));
    let reply = rig.answered(&standing, true);
    assert_eq!(reply["result"]["isError"], false, "{}: {reply}", stage("yes"));
    assert_eq!(rig.moved(), [way.answers(), &[Intent], moves].concat(), "{}", stage("yes"));
    let after = rig.reached();
    assert_eq!(after.2, before.2 + 1, "{}", stage("one intent"));
    assert!(tool == "ssh_exec" || after.0 + after.1 > before.0 + before.1, "{}", stage("the target was reached"));
    check_records(rig);
    if way == Way::Stateless {
        check_worthless(rig, &standing, after);
        assert_eq!(rig.counts().1, spent + 2, "a no and a yes");
    }
}

/// What the command is shown, as far as it is compared byte by byte.
#[derive(Deserialize)]
struct Shown<'a> {
    id: &'a str,
    tool: &'a str,
    rule: &'a str,
    extent: &'a str,
    #[serde(borrow)]
    action: &'a RawValue,
}

/// The command is shown the exact action on one line, and has nothing else.
#[track_caller]
fn check_shown(rig: &Rig, standing: &Standing) {
    let (dir, text) = (&rig.running.dir, &standing.handle);
    let environment = dir.read("environment");
    let mut names: Vec<&str> = environment.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LANG", "PATH", "TIDEGATE_CALL"], "{environment}");
    assert_eq!(dir.read("arguments"), "\n");
    assert_eq!(text.find('\n'), Some(text.len() - 1), "{text}");
    let secrets = ["key-of-the-order", "minted-for-the-order", "PRIVATE KEY"];
    assert!(!secrets.iter().any(|secret| text.contains(secret) || environment.contains(secret)), "{text}");
    let asked = rig.running.journal().into_iter().rfind(|record| record["type"] == "question").unwrap();
    let Shown { id, tool, rule, extent, action } = serde_json::from_str(text).unwrap();
    let hash: String = digest(&SHA256, action.get().as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        json!([standing.tool, "command", id, tool, rule, hash, extent]),
        json!([tool, asked["asked"], asked["question"], asked["tool"], asked["rule"], asked["action_sha256"], "once"]),
        "{asked} {text}"
    );
}

/// The last four records: one question, its answer, the intent of exactly what was shown, its outcome.
#[track_caller]
fn check_records(rig: &Rig) {
    let journal = rig.running.journal();
    let last = &journal[journal.len() - 4..];
    let types: Vec<&str> = last.iter().map(|record| record["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["question", "answer", "intent", "outcome"], "{last:#?}");
    assert_eq!(last[1]["answer"], "yes", "{last:#?}");
    assert!(
        last[0]["question"].is_string() && last[1..3].iter().all(|record| record["question"] == last[0]["question"]),
        "{last:#?}"
    );
    assert!(last[0]["action_sha256"].is_string() && last[2]["action_sha256"] == last[0]["action_sha256"], "{last:#?}");
}

#[test]
fn a_question_moves_itself_alone_and_a_yes_everything_in_its_order() {
    for way in WAYS {
        let mut rig = Rig::with_approvers(Flaw::None, 60);
        for (tool, arguments, moves) in kinds(&rig) {
            check(&mut rig, way, tool, &arguments, &moves);
        }
        rig.running.end();
    }
}

/// All of them at once: their time is over together.
#[test]
fn a_question_that_nobody_answers_in_time_moves_nothing_more() {
    for way in [Way::Handshake, Way::Command] {
        let mut rig = Rig::with_approvers(Flaw::None, 1);
        let before = rig.reached();
        let standing: Vec<Standing> = kinds(&rig).iter().map(|(tool, arguments, _)| rig.asked(way, tool, arguments)).collect();
        for Standing { id, tool, .. } in &standing {
            let reply = rig.running.reply(id);
            assert_eq!(reply["result"]["_meta"]["tidegate/outcome"]["code"], "approval_timeout", "{tool}: {reply}");
        }
        rig.running.probe();
        assert_eq!(rig.moved(), [&way.asks()[..], &[Answer]].concat());
        assert_eq!(rig.counts(), (before, 0));
        rig.running.end();
    }
}

#[test]
fn an_answer_that_is_brought_too_late_moves_nothing() {
    let mut rig = Rig::with_approvers(Flaw::None, 1);
    let before = rig.reached();
    let kinds = kinds(&rig);
    let standing: Vec<Standing> = kinds.iter().map(|(tool, arguments, _)| rig.asked(Way::Stateless, tool, arguments)).collect();
    let last = standing.last().unwrap();
    // Answers that are none leave the question standing, until it does not any more.
    until("its time is over", || {
        let more = format!(r#""requestState":"{}","#, last.handle);
        let line = Rig::line(Way::Stateless, &format!("\"{}\"", unique()), last.tool, &last.arguments, &more);
        rig.running.ask(&line)["result"]["resultType"] != "input_required"
    });
    assert_eq!(rig.moved(), Way::Stateless.asks());
    for Standing { tool, arguments, handle, .. } in &standing {
        for answer in [YES, NO] {
            let reply = rig.brought(tool, arguments, handle, answer);
            rig.check_refused(tool, &reply, "approval_timeout", &[], before);
        }
    }
    assert_eq!(rig.counts(), (before, 0));
    rig.running.end();
}

/// Whatever is no yes spends nothing of a tool's rate, and what the rate refuses uses no answer up.
#[test]
fn a_rate_is_spent_after_the_yes_and_an_answer_after_the_rate() {
    for way in WAYS {
        let mut rig = Rig::with_approvers(Flaw::None, 60);
        let (before, arguments) = (rig.reached(), json!({"text": "x"}));
        for _ in 0..3 {
            let standing = rig.asked(way, "seldom", &arguments);
            assert_eq!(rig.moved(), way.asks());
            let reply = rig.answered(&standing, false);
            rig.check_refused("no", &reply, "approval_denied", way.answers(), before);
            if way == Way::Stateless {
                check_worthless(&mut rig, &standing, before);
            }
        }
        let standing = rig.asked(way, "seldom", &arguments);
        let reply = rig.answered(&standing, true);
        assert_eq!(reply["result"]["isError"], false, "{way:?}: {reply}");
        rig.moved();
        let (after, spent) = rig.counts();
        let standing = rig.asked(way, "seldom", &arguments);
        assert_eq!(rig.moved(), way.asks());
        let reply = rig.answered(&standing, true);
        let moves: &[Tripwire] = if way == Way::Stateless { &[] } else { &[Answer] };
        rig.check_refused("the rate", &reply, "rate_limited", moves, after);
        assert_eq!(rig.counts().1, spent, "{way:?}");
        rig.running.end();
    }
}

/// Where a question cannot be recorded nobody is asked.
#[test]
fn without_a_journal_nobody_is_asked() {
    for way in WAYS {
        let mut rig = Rig::with_approvers(Flaw::NoJournal, 60);
        let before = rig.reached();
        for (tool, arguments, _) in kinds(&rig) {
            let id = format!("\"{}\"", unique());
            let reply = rig.running.ask(&Rig::line(way, &id, tool, &arguments.to_string(), ""));
            rig.check_refused(tool, &reply, "journal_unavailable", &[], before);
        }
        rig.running.end();
    }
}
