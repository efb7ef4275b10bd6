//! The order of things: a table of stages and of tripwires along the way of a request. What a stage refuses moves no tripwire
//! that stands behind it, and what nobody refuses moves them all, in their order.
//!
//! `tests/fixtures/preload/tripwire.c` stands between the installed binary and the C library and writes every deed down; the
//! server, the command and the journal say the same from their side. What a human is asked about is in `order/asked.rs`.

mod asked;

use serde_json::{Value, json};

use crate::kit::dir::Dir;
use crate::kit::gateway::{Gateway, Running};
use crate::kit::installed::{installed, preload_object};
use crate::kit::peer::{Peer, json as json_answer};
use crate::kit::sshd::Sshd;
use crate::kit::{MODERN, modern_call};

/// What stands along the way, in its order; which of the last ones depends on the action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tripwire {
    /// The record of a question is written.
    Question,
    /// The client is asked.
    Client,
    /// The approver command is started.
    Approver,
    /// That an answer was used up is on disk.
    Spent,
    /// The record of an answer is written.
    Answer,
    /// The record of an intent is on disk.
    Intent,
    /// The file of a credential is opened.
    Credential,
    /// The program that prints a credential is started.
    Helper,
    /// A name is looked up.
    Resolver,
    /// A connection is begun.
    Connector,
    /// A program is started.
    Spawn,
}

use Tripwire::{Answer, Approver, Client, Connector, Credential, Helper, Intent, Question, Resolver, Spawn, Spent};

/// Targets, and a gateway that is watched.
struct Rig {
    peer: Peer,
    sshd: Sshd,
    running: Running,
    seen: usize,
}

/// What is changed before the gateway starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// A file stands where the state folder should be.
    NoJournal,
    /// Others may read the credential.
    OpenCredential,
    /// The helper ends without a value.
    BrokenHelper,
}

impl Rig {
    fn start(flaw: Flaw) -> Rig {
        Rig::asking(flaw, "never", &|_| json!({}))
    }

    /// All of whose tools have this `confirm`; what `approvals` is may depend on the scratch folder.
    fn asking(flaw: Flaw, confirm: &str, approvals: &dyn Fn(&Dir) -> Value) -> Rig {
        let (peer, sshd) = (Peer::start(|_| json_answer("{}")), Sshd::start(""));
        let gateway = Gateway::of(installed());
        let (deeds, marker) = (gateway.dir().join("deeds"), gateway.dir().join("marker"));
        let mode = if flaw == Flaw::OpenCredential { 0o644 } else { 0o600 };
        let key = gateway.dir().write_mode("key", "key-of-the-order", mode);
        let ssh_key = gateway.dir().write_mode("ssh_key", sshd.dir().read("user"), mode);
        let mint = if flaw == Flaw::BrokenHelper { "exit 1" } else { "echo minted-for-the-order" };
        let helper = gateway.dir().write_mode("credential-helper", format!("#!/bin/sh\n{mint}\n"), 0o700);
        let mut host = sshd.host();
        host["address"] = json!("localhost");
        host["known_hosts"] = json!(sshd.known_hosts("named", &sshd.known_line("host").replace("127.0.0.1", "localhost")));
        if flaw == Flaw::NoJournal {
            gateway.dir().write("state", "in the way");
        }
        let port = peer.port();
        let scope = json!([{"host": "localhost", "paths": ["/at/"], "port": port}, {"host": "localhost", "port": 9}, {"host": "unknown.test"}]);
        let mut tools = tools(port, &format!("echo \"$1\" >> '{}'", marker.display()));
        tools.as_array_mut().unwrap().iter_mut().for_each(|tool| tool["confirm"] = json!(confirm));
        let request = json!({"host": "localhost", "port": port, "paths": ["/at/"], "credential": "api"});
        let mut builtin = json!({"http_request": {"confirm": confirm, "allow": [request]}});
        if cfg!(feature = "ssh") {
            builtin["ssh_exec"] = json!({"confirm": confirm, "hosts": ["there"], "allow": [["touch", "*"]]});
        }
        let approvals = approvals(gateway.dir());
        let mut running = gateway
            .set("tools", tools)
            .set("approvals", approvals)
            .set(
                "credentials",
                json!({"api": {"from": {"file": key}, "for": scope}, "user_key": {"from": {"file": ssh_key}},
                "minted": {"from": {"command": [helper]}, "for": [{"host": "localhost", "paths": ["/at/"], "port": port}]}}),
            )
            .set("hosts", json!({"there": host}))
            .set("builtin", builtin)
            .set("session", json!({"on_malformed": "continue"}))
            .set("limits", json!({"line_in_bytes": 2048}))
            .preload(&[preload_object("tripwire.c")])
            .env("TRIPWIRE", deeds.to_str().unwrap())
            .says_anything()
            .start();
        running.probe();
        let seen = running.dir.read("deeds").len();
        Rig { peer, sshd, running, seen }
    }

    /// The tripwires that moved since the last look, each once, in the order in which they first did.
    fn moved(&mut self) -> Vec<Tripwire> {
        let deeds = self.running.dir.read("deeds");
        let (mut moved, mut watch) = (Vec::new(), Watch::default());
        for tripwire in deeds[self.seen..].lines().filter_map(|deed| watch.tripwire(deed)) {
            if !moved.contains(&tripwire) {
                moved.push(tripwire);
            }
        }
        self.seen = deeds.len();
        moved
    }

    /// What the targets and the journal have seen: connections to both servers, marks, intents.
    fn reached(&self) -> (usize, usize, usize) {
        let logins = self.sshd.log().matches("Accepted publickey").count();
        let intents = self.running.journal().iter().filter(|line| line["type"] == "intent").count();
        (self.peer.connections() + logins, self.running.dir.read("marker").lines().count(), intents)
    }
}

/// What is done and not yet on disk.
#[derive(Default)]
struct Watch {
    intent: bool,
    spent: bool,
}

impl Watch {
    fn tripwire(&mut self, deed: &str) -> Option<Tripwire> {
        match deed.split_once(' ').unwrap_or((deed, "")) {
            ("lookup", _) => Some(Resolver),
            ("connect", _) => Some(Connector),
            ("spawn", program) if program.ends_with("/credential-helper") => Some(Helper),
            ("spawn", program) if program.ends_with("/approver") => Some(Approver),
            ("spawn", _) => Some(Spawn),
            // The folder of approvals is reached through its descriptor; its own key is no credential.
            ("open", path) if path.starts_with("/proc/self/fd/") => {
                self.spent |= is_spent(path);
                None
            }
            ("open", path) if path.ends_with("key") => Some(Credential),
            ("record", "question") => Some(Question),
            ("record", "answer") => Some(Answer),
            ("record", "intent") => {
                self.intent = true;
                None
            }
            ("question", _) => Some(Client),
            ("datasync", _) => std::mem::take(&mut self.intent).then_some(Intent),
            ("sync", _) => std::mem::take(&mut self.spent).then_some(Spent),
            _ => None,
        }
    }
}

/// The name of a used state: 16 bytes in hexadecimal digits, and when its time is over.
fn is_spent(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.split_once('-').is_some_and(|(nonce, time)| nonce.len() == 32 && time.parse::<u64>().is_ok())
}

fn tools(port: u16, script: &str) -> Value {
    let input = json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 40}}, "required": ["text"]});
    let http = |name: &str, url: &str, credential: &str| json!({"name": name, "description": "Fetches it", "input": input, "http": {"url": url, "credential": credential}});
    let mut tools = json!([
        http("fetch", &format!("http://localhost:{port}/at/{{text}}"), "api"),
        http("minted", &format!("http://localhost:{port}/at/{{text}}"), "minted"),
        http("outside", &format!("http://localhost:{port}/{{+text}}"), "minted"),
        http("unknown", "https://unknown.test/{text}", "api"),
        http("refusing", "http://localhost:9/{text}", "api"),
        {"name": "seldom", "description": "Fetches it now and then", "input": input, "rate": {"per_minute": 1, "burst": 1},
         "http": {"url": format!("http://localhost:{port}/at/{{text}}"), "credential": "api"}},
        {"name": "note", "description": "Notes it", "input": input, "exec": {"argv": ["sh", "-c", script, "sh", "{text}"]}},
    ]);
    if cfg!(feature = "ssh") {
        let ssh = json!({"host": "there", "argv": ["sh", "-c", script, "sh", "{text}"]});
        tools
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "remote", "description": "Notes it there", "input": input, "ssh": ssh}));
    }
    tools
}

/// One line, refused by `stage`: nothing moved but what is named.
#[track_caller]
fn check(rig: &mut Rig, stage: &str, line: &[u8], moves: &[Tripwire]) {
    let before = rig.reached();
    rig.running.offer(&[line, b"\n"].concat());
    let reply = rig.running.next();
    let says = reply.to_string();
    assert!(reply.get("error").is_some() || reply["result"]["isError"] == true, "{stage} did not refuse: {says}");
    let executed = match reply.get("error") {
        Some(error) => &error["data"]["tidegate/outcome"]["executed"],
        None => &reply["result"]["_meta"]["tidegate/outcome"]["executed"],
    };
    assert!(executed == "no" || executed.is_null() && reply["error"]["code"] == -32601, "{stage}: {says}");
    assert_eq!(rig.running.probe(), [Value::Null; 0], "{stage}");
    assert_eq!(rig.moved(), moves, "{stage}: {says}");
    let (connections, marks, intents) = rig.reached();
    let is_recorded = usize::from(moves.contains(&Intent));
    assert_eq!((connections, marks, intents), (before.0, before.1, before.2 + is_recorded), "{stage}");
}

/// A call of `tool` that is good in all but what `stage` refuses.
fn call(tool: &str, text: &str) -> Vec<u8> {
    modern_call(1, tool, &format!(r#"{{"text":{text}}}"#)).into_bytes()
}

fn replaced(line: &[u8], what: &str, with: &[u8]) -> Vec<u8> {
    let at = line.windows(what.len()).position(|window| window == what.as_bytes()).expect("it is there");
    [&line[..at], with, &line[at + what.len()..]].concat()
}

/// One tool of each kind.
const KINDS: &[&str] =
    if cfg!(feature = "ssh") { &["fetch", "minted", "note", "remote"] } else { &["fetch", "minted", "note"] };

#[test]
fn what_a_stage_refuses_moves_nothing_behind_it() {
    for tool in KINDS {
        let mut rig = Rig::start(Flaw::None);
        let good = call(tool, "\"x\"");
        let stages: [(&str, Vec<u8>); 12] = [
            ("frame: UTF-8", replaced(&good, "\"x\"", b"\"x\xff\"")),
            ("frame: length", replaced(&good, "\"x\"", format!("\"{}\"", "x".repeat(2048)).as_bytes())),
            ("JSON", good[..good.len() - 1].to_vec()),
            ("JSON: one value", [&good[..], b" ready"].concat()),
            ("message: version", replaced(&good, "\"2.0\"", b"\"1.0\"")),
            ("message: key twice", replaced(&good, "{\"text\"", b"{\"text\":\"y\",\"text\"")),
            ("message: batch", [b"[", &good[..], b"]"].concat()),
            ("call: method", replaced(&good, "tools/call", b"tools/run")),
            ("call: era", replaced(&good, MODERN, b"\"_meta\":{}")),
            ("call: tool", replaced(&good, &format!("\"{tool}\""), b"\"nothing\"")),
            ("action: schema", call(tool, "5")),
            ("action: template", call(tool, if matches!(*tool, "fetch" | "minted") { "\"..\"" } else { "\"-x\"" })),
        ];
        for (stage, line) in &stages {
            check(&mut rig, &format!("{tool}, {stage}"), line, &[]);
        }
        rig.running.end();
    }
    let mut rig = Rig::start(Flaw::None);
    check(&mut rig, "grant: scope of the credential", &call("outside", "\"elsewhere/x\""), &[]);
    let request = |url: &str, headers: &str| {
        modern_call(1, "http_request", &format!(r#"{{"url":"{url}","headers":{headers}}}"#)).into_bytes()
    };
    check(&mut rig, "action: a key of the caller's", &request("http://localhost/at/x", r#"{"Authorization":"x"}"#), &[]);
    check(&mut rig, "grant: no allow rule", &request("http://unknown.test/at/x", "{}"), &[]);
    rig.running.end();
}

/// The last thing that can be refused before the intent; and what is refused before it has spent nothing of it.
#[test]
fn what_the_rate_refuses_moves_nothing_and_what_is_refused_before_spends_nothing() {
    let mut rig = Rig::start(Flaw::None);
    for (stage, text) in [("action: schema", "5"), ("action: template", "\"..\"")] {
        (0..3).for_each(|_| check(&mut rig, stage, &call("seldom", text), &[]));
    }
    let reply = rig.running.ask(std::str::from_utf8(&call("seldom", "\"x\"")).unwrap());
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    assert_eq!(rig.moved(), [Intent, Credential, Resolver, Connector]);
    for _ in 0..3 {
        check(&mut rig, "the rate", &call("seldom", "\"x\""), &[]);
    }
    assert_eq!(rig.reached(), (1, 0, 1));
    rig.running.end();
}

#[test]
fn without_a_journal_nothing_behind_it_moves() {
    let mut rig = Rig::start(Flaw::NoJournal);
    for tool in KINDS {
        check(&mut rig, "the intent", &call(tool, "\"x\""), &[]);
    }
    rig.running.end();
}

#[test]
fn without_its_credential_a_request_asks_for_no_name() {
    let mut rig = Rig::start(Flaw::OpenCredential);
    check(&mut rig, "the credential", &call("fetch", "\"x\""), &[Intent, Credential]);
    if cfg!(feature = "ssh") {
        check(&mut rig, "the key", &call("remote", "\"x\""), &[Intent, Credential]);
    }
    rig.running.end();
}

#[test]
fn without_what_its_helper_prints_a_request_asks_for_no_name() {
    let mut rig = Rig::start(Flaw::BrokenHelper);
    check(&mut rig, "the helper", &call("minted", "\"x\""), &[Intent, Credential, Helper]);
    // The helper of a credential that a call does not use is nobody's.
    check(&mut rig, "the resolver", &call("unknown", "\"x\""), &[Intent, Credential, Resolver]);
    rig.running.end();
}

#[test]
fn without_an_address_nothing_is_connected() {
    let mut rig = Rig::start(Flaw::None);
    check(&mut rig, "the resolver", &call("unknown", "\"x\""), &[Intent, Credential, Resolver]);
    check(&mut rig, "the target", &call("refusing", "\"x\""), &[Intent, Credential, Resolver, Connector]);
    rig.running.end();
}

#[test]
fn what_nobody_refuses_moves_every_tripwire_in_its_order() {
    let mut rig = Rig::start(Flaw::None);
    let reply = rig.running.ask(std::str::from_utf8(&call("fetch", "\"x\"")).unwrap());
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    assert_eq!(rig.moved(), [Intent, Credential, Resolver, Connector]);
    assert_eq!(rig.reached(), (1, 0, 1));
    rig.running.end();
    let mut rig = Rig::start(Flaw::None);
    let reply = rig.running.ask(std::str::from_utf8(&call("minted", "\"x\"")).unwrap());
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    assert_eq!(rig.moved(), [Intent, Credential, Helper, Resolver, Connector]);
    let reply = rig.running.ask(std::str::from_utf8(&call("minted", "\"x\"")).unwrap());
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    assert_eq!(rig.moved(), [Intent, Credential, Resolver, Connector], "what it printed is used again");
    assert_eq!(rig.reached(), (2, 0, 2));
    rig.running.end();
    let mut rig = Rig::start(Flaw::None);
    let reply = rig.running.ask(std::str::from_utf8(&call("note", "\"x\"")).unwrap());
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    assert_eq!(rig.moved(), [Intent, Credential, Spawn]);
    assert_eq!(rig.reached(), (0, 1, 1));
    rig.running.end();
    if cfg!(feature = "ssh") {
        let mut rig = Rig::start(Flaw::None);
        let reply = rig.running.ask(std::str::from_utf8(&call("remote", "\"x\"")).unwrap());
        assert_eq!(reply["result"]["isError"], false, "{reply}");
        assert_eq!(rig.moved(), [Intent, Credential, Resolver, Connector]);
        assert_eq!(rig.reached(), (1, 1, 1));
        rig.running.end();
    }
}
