//! The `requestState` in the hands of an attacker who holds all of the client: brought again, altered, for something else, too late,
//! twice at once, to another process, over a crash. Whatever is tried, the command's file shows no second execution.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Barrier;

use serde_json::{Value, json};

use super::modern::{YES, asked, brings, call, client_only, state_of};
use super::{check_outcome, outcome, story, tools_into};
use crate::kit::dir::Dir;
use crate::kit::gateway::{Gateway, Running};
use crate::kit::installed::preload_object;
use crate::kit::peer::{Peer, json as json_answer};
use crate::kit::process::until;

/// A state folder and a file of what was done, shared by all gateways of a test.
pub struct Home(pub Dir);

impl Home {
    pub fn new() -> Home {
        Home(Dir::new())
    }

    pub fn state_dir(&self) -> PathBuf {
        self.0.join("state")
    }

    pub fn members(&self, confirm: &str, approvals: Value) -> Vec<(&'static str, Value)> {
        let tools = tools_into(&self.0.join("done"), confirm);
        vec![("state_dir", json!(self.state_dir())), ("tools", tools), ("approvals", approvals)]
    }

    fn gateway(&self, confirm: &str, approvals: Value) -> Gateway {
        self.configured(&self.members(confirm, approvals))
    }

    /// With this configuration. A command's environment belongs to its action: all gateways have one HOME.
    pub fn configured(&self, members: &[(&'static str, Value)]) -> Gateway {
        let gateway = Gateway::new().env("HOME", self.0.path().to_str().unwrap());
        members.iter().fold(gateway, |gateway, (member, value)| gateway.set(member, value.clone()))
    }

    /// One more gateway, whose tools ask each time.
    fn start(&self) -> Running {
        self.gateway("ask", client_only()).start()
    }

    #[track_caller]
    pub fn check_done(&self, expected: &[&str]) {
        let text = self.0.read("done");
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    /// Of all gateways, one after the other as they were started last.
    pub fn story(&self) -> Vec<String> {
        story(&self.0.journal_under("state"))
    }

    /// States noted as used.
    fn spent(&self) -> usize {
        std::fs::read_dir(self.state_dir().join("approvals/spent")).into_iter().flatten().count()
    }
}

/// Puts another configuration to work.
pub fn reload(running: &Running, members: &[(&'static str, Value)]) {
    let times = || running.stderr().matches("reload: the configuration is at work").count();
    let before = times();
    let config: serde_json::Map<_, _> = members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    running.dir.write("config.json", Value::Object(config).to_string());
    running.signal("HUP");
    until("the configuration is at work", || times() > before);
}

/// Brings the state with a yes.
#[track_caller]
fn bring(running: &mut Running, state: &str) -> Value {
    running.ask(&call(unique_id(), "write", "x", &brings(state, YES)))
}

fn unique_id() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1000);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Refused as an error of the request, with nothing done.
#[track_caller]
fn check_refused(reply: &Value, code: &str, says: &str) {
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
    check_outcome(reply, code, "no");
    assert!(reply["error"]["message"].as_str().unwrap().contains(says), "{says:?}: {reply}");
}

/// Whatever is brought with a used state is refused.
#[track_caller]
fn check_used(running: &mut Running, state: &str) {
    const DECLINE: &str = r#"{"action":"decline"}"#;
    for members in [brings(state, YES), brings(state, DECLINE), format!(r#""requestState":"{state}","#), brings(state, YES)] {
        let reply = running.ask(&call(unique_id(), "write", "x", &members));
        check_refused(&reply, "approval_denied", "it was already used");
    }
}

#[test]
fn a_yes_counts_once_here_after_a_restart_and_beside_s139() {
    let home = Home::new();
    let (mut here, mut beside) = (home.start(), home.start());
    let state = asked(&mut here, 1, "write", "x");
    // The one beside opens its folder before anything was used.
    let other = asked(&mut beside, 1, "write", "x");
    assert_ne!(state, other);
    check_outcome(&bring(&mut here, &state), "none", "yes");
    check_used(&mut here, &state);
    check_used(&mut beside, &state);
    here.end();
    let mut again = home.start();
    check_used(&mut again, &state);
    home.check_done(&["x"]);
    // What was not used is still good, and once.
    check_outcome(&bring(&mut again, &other), "none", "yes");
    check_used(&mut beside, &other);
    again.end();
    beside.end();
    home.check_done(&["x", "x"]);
    assert_eq!(home.spent(), 2);
    let mut story = home.story();
    story.sort();
    assert_eq!(
        story,
        ["answer:yes", "answer:yes", "intent", "intent", "outcome:ok", "outcome:ok", "question", "question"],
        "a replay leaves no answer"
    );
}

#[test]
fn what_was_asked_in_one_process_is_answered_in_another_s57() {
    let home = Home::new();
    let (mut here, mut beside) = (home.start(), home.start());
    let state = asked(&mut here, 1, "write", "x");
    home.check_done(&[]);
    check_outcome(&bring(&mut beside, &state), "none", "yes");
    home.check_done(&["x"]);
    check_used(&mut here, &state);
    check_used(&mut beside, &state);
    here.end();
    beside.end();
    home.check_done(&["x"]);
    let named: Vec<Value> = home.0.journal_under("state").iter().filter_map(|record| record.get("question").cloned()).collect();
    assert!(named.len() == 3 && named.iter().all(|name| *name == named[0]), "{named:?}");
}

/// Sends these states with a yes, a few at a time; each is refused as none of ours.
#[track_caller]
fn check_all_refused(running: &mut Running, states: &[String]) {
    for some in states.chunks(32) {
        let ids: Vec<u64> = some.iter().map(|_| unique_id()).collect();
        for (id, state) in ids.iter().zip(some) {
            running.send(&call(*id, "write", "x", &brings(state, YES)));
        }
        for (id, state) in ids.iter().zip(some) {
            let reply = running.reply(&id.to_string());
            assert_eq!(reply["error"]["code"], -32602, "{state:?}: {reply}");
            assert_eq!(outcome(&reply).1, "no", "{state:?}: {reply}");
        }
    }
}

const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What may stand in the place of a character: neighbours in the alphabet, each of its six bits turned, other alphabets, padding,
/// what decoders skip, what is no ASCII.
fn substitutes(c: char) -> Vec<char> {
    let at = ALPHABET.find(c).expect("base64url");
    let in_alphabet = |at: usize| char::from(ALPHABET.as_bytes()[at % ALPHABET.len()]);
    let turned = (0..6).map(|bit| in_alphabet(at ^ (1 << bit)));
    let near = [in_alphabet(at + 1), in_alphabet(at + 63)];
    let odd = ['A', '=', '+', '/', ' ', '\n', '\0', 'é', '\u{ff21}'];
    turned.chain(near).chain(odd).filter(|other| *other != c).collect()
}

#[test]
fn no_character_can_be_changed_s137() {
    let home = Home::new();
    let mut running = home.start();
    let state = asked(&mut running, 1, "write", "x");
    assert!(state.chars().all(|c| ALPHABET.contains(c)), "{state}");
    let changed = |at: usize, to: char| state.char_indices().map(|(i, c)| if i == at { to } else { c }).collect::<String>();
    let states: Vec<String> = state
        .char_indices()
        .flat_map(|(at, c)| substitutes(c).into_iter().map(move |to| (at, to)))
        .map(|(at, to)| changed(at, to))
        .collect();
    assert!(states.len() > 14 * state.len());
    check_all_refused(&mut running, &states);
    home.check_done(&[]);
    assert_eq!(home.spent(), 0);
    // None of it used the real one up, however its characters are spelled.
    let spelled: String = state.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let members = format!(r#""requestState":"{spelled}","inputResponses":{{"approval":{YES}}},"#);
    check_outcome(&running.ask(&call(2, "write", "x", &members)), "none", "yes");
    check_used(&mut running, &state);
    running.end();
    home.check_done(&["x"]);
    assert_eq!(home.story(), ["question", "answer:yes", "intent", "outcome:ok"]);
}

#[test]
fn no_part_of_a_state_and_nothing_around_it_is_one() {
    let home = Home::new();
    let mut running = home.start();
    let state = asked(&mut running, 1, "write", "x");
    let other = asked(&mut running, 2, "write", "x");
    let mut states: Vec<String> = (0..state.len()).map(|length| state[..length].to_owned()).collect();
    states.extend((1..state.len()).map(|from| state[from..].to_owned()));
    for more in ["A", "=", "==", "AA==", "AAAA", " ", "\n", "\0", ".", &state] {
        states.push(format!("{state}{more}"));
        states.push(format!("{more}{state}"));
    }
    // Two whole ones, cut and joined anywhere.
    states
        .extend((1..state.len()).map(|at| format!("{}{}", &state[..at], &other[at..])).filter(|s| *s != state && *s != other));
    states.extend([state.to_lowercase(), state.to_uppercase(), state.chars().rev().collect(), "A".repeat(state.len())]);
    states.extend([1023, 1024, 1025, 100_000].map(|length| "A".repeat(length)));
    check_all_refused(&mut running, &states);
    home.check_done(&[]);
    assert_eq!(home.spent(), 0);
    check_outcome(&bring(&mut running, &state), "none", "yes");
    running.end();
    home.check_done(&["x"]);
}

#[test]
fn a_state_is_worth_nothing_for_another_call() {
    let home = Home::new();
    let mut running = home.start();
    let state = asked(&mut running, 1, "write", "x");
    for (tool, text) in [("write", "y"), ("write", "x "), ("write", ""), ("write", "X"), ("other", "x")] {
        let reply = running.ask(&call(unique_id(), tool, text, &brings(&state, YES)));
        check_refused(&reply, "approval_denied", "got that of another one");
    }
    check_refused(&running.ask(&call(2, "free", "x", &brings(&state, YES))), "approval_denied", "asks nobody");
    home.check_done(&[]);
    // An action is what counts, not how its arguments are written.
    let spelled = call(3, "write", "x", &brings(&state, YES)).replace(r#"{"text":"x"}"#, r#"{ "\u0074ext" : "\u0078" }"#);
    check_outcome(&running.ask(&spelled), "none", "yes");
    running.end();
    home.check_done(&["x"]);
}

/// What was asked under one configuration is refused under another, loaded here or at work beside, and good again under the first.
#[track_caller]
fn check_other(
    home: &Home,
    first: &[(&'static str, Value)],
    second: &[(&'static str, Value)],
    tool: &str,
    arguments: &str,
    done: &dyn Fn() -> usize,
) {
    let line = |more: &str| call(unique_id(), tool, "ARGUMENTS", more).replace(r#"{"text":"ARGUMENTS"}"#, arguments);
    let mut here = home.configured(first).says_anything().start();
    let mut beside = home.configured(second).start();
    let state = state_of(&here.ask(&line("")));
    let retry = line(&brings(&state, YES));
    check_refused(&beside.ask(&retry), "approval_denied", "got that of another one");
    reload(&here, second);
    check_refused(&here.ask(&retry), "approval_denied", "got that of another one");
    assert_eq!(done(), 0);
    reload(&here, first);
    check_outcome(&here.ask(&retry), "none", "yes");
    check_refused(&here.ask(&retry), "approval_denied", "it was already used");
    here.end();
    beside.end();
    assert_eq!(done(), 1);
}

#[test]
fn a_state_is_worth_nothing_under_another_extent() {
    for (one, other) in [("ask", "session"), ("session", "ask")] {
        let home = Home::new();
        let members = |confirm| home.members(confirm, client_only());
        let done = || home.0.read("done").lines().count();
        check_other(&home, &members(one), &members(other), "write", r#"{"text":"x"}"#, &done);
    }
}

#[test]
fn a_state_is_worth_nothing_for_another_command_of_the_same_tool() {
    let home = Home::new();
    let first = home.members("ask", client_only());
    let mut second = first.clone();
    second[1].1[0]["exec"]["argv"][3] = json!("another");
    let done = || home.0.read("done").lines().count();
    check_other(&home, &first, &second, "write", r#"{"text":"x"}"#, &done);
}

/// The same request, allowed by the second rule instead of the first.
#[test]
fn a_state_is_worth_nothing_under_another_rule() {
    let home = Home::new();
    let peer = Peer::start(|_| json_answer("{}"));
    let port = peer.port();
    let members = |first: &str, second: &str| {
        let rule =
            |path: &str| json!({"host": "localhost", "port": port, "scheme": "http", "methods": ["POST"], "paths": [path]});
        let allow = json!([rule(first), rule(second)]);
        vec![
            ("state_dir", json!(home.state_dir())),
            ("approvals", client_only()),
            ("builtin", json!({"http_request": {"confirm": "ask", "allow": allow}})),
        ]
    };
    let arguments = format!(r#"{{"method":"POST","url":"http://localhost:{port}/a/x"}}"#);
    let done = || peer.connections();
    check_other(&home, &members("/a/", "/b/"), &members("/b/", "/a/"), "http_request", &arguments, &done);
}

#[test]
fn a_state_is_worth_nothing_in_another_state_folder() {
    let (home, stranger) = (Home::new(), Home::new());
    let (mut here, mut there) = (home.start(), stranger.start());
    let state = asked(&mut here, 1, "write", "x");
    let foreign = asked(&mut there, 1, "write", "x");
    check_refused(&bring(&mut there, &state), "approval_denied", "altered or foreign");
    check_refused(&bring(&mut here, &foreign), "approval_denied", "altered or foreign");
    home.check_done(&[]);
    stranger.check_done(&[]);
    // Nor in the same one once its key is another.
    here.end();
    std::fs::remove_file(home.state_dir().join("approvals/key")).unwrap();
    let mut here = home.start();
    check_refused(&bring(&mut here, &state), "approval_denied", "altered or foreign");
    home.check_done(&[]);
    check_outcome(&bring(&mut there, &foreign), "none", "yes");
    stranger.check_done(&["x"]);
    here.end();
    there.end();
}

#[test]
fn a_state_is_worth_nothing_after_its_time() {
    let home = Home::new();
    let mut running = home.gateway("ask", json!({"order": ["client"], "timeout_s": 1})).start();
    let state = asked(&mut running, 1, "write", "x");
    let mut last = Value::Null;
    until("its time is over", || {
        last = running.ask(&call(unique_id(), "write", "x", &format!(r#""requestState":"{state}","#)));
        last["result"]["resultType"] != "input_required"
    });
    check_refused(&last, "approval_timeout", "outside its time");
    check_refused(&bring(&mut running, &state), "approval_timeout", "outside its time");
    // A process whose questions stand longer does not make this one longer.
    let mut patient = home.start();
    check_refused(&bring(&mut patient, &state), "approval_timeout", "outside its time");
    home.check_done(&[]);
    running.end();
    patient.end();
    assert_eq!(home.story(), ["question"]);
}

/// Of two replies to the same state one says that it was done, the other that the state was used.
#[track_caller]
fn check_one_of(replies: [Value; 2]) {
    let [won, lost] = if replies[0].get("error").is_some() { [&replies[1], &replies[0]] } else { [&replies[0], &replies[1]] };
    check_outcome(won, "none", "yes");
    check_refused(lost, "approval_denied", "it was already used");
}

#[test]
fn of_two_retries_in_one_write_one_is_carried_out() {
    const TIMES: usize = 100;
    let home = Home::new();
    let mut running = home.start();
    for round in 0..TIMES {
        let state = asked(&mut running, unique_id(), "write", "x");
        let ids = [unique_id(), unique_id()];
        let both: String = ids.iter().map(|id| call(*id, "write", "x", &brings(&state, YES)) + "\n").collect();
        running.send_raw(both.as_bytes());
        check_one_of(ids.map(|id| running.reply(&id.to_string())));
        assert_eq!(home.0.read("done").lines().count(), round + 1);
    }
    running.end();
    home.check_done(&["x"; TIMES]);
    assert_eq!(home.spent(), TIMES);
    let story = home.story();
    let count = |what: &str| story.iter().filter(|record| *record == what).count();
    assert_eq!([count("question"), count("answer:yes"), count("intent"), count("outcome:ok")], [TIMES; 4]);
}

#[test]
fn of_two_processes_at_once_one_carries_it_out() {
    const TIMES: usize = 50;
    let home = Home::new();
    let (mut here, mut beside) = (home.start(), home.start());
    for round in 0..TIMES {
        let state = asked(if round % 2 == 0 { &mut here } else { &mut beside }, unique_id(), "write", "x");
        let line = call(unique_id(), "write", "x", &brings(&state, YES)) + "\n";
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            for mut writer in [here.writer(), beside.writer()] {
                let (barrier, line) = (&barrier, &line);
                scope.spawn(move || {
                    barrier.wait();
                    writer.write_all(line.as_bytes()).unwrap();
                });
            }
        });
        let id = serde_json::from_str::<Value>(&line).unwrap()["id"].to_string();
        check_one_of([here.reply(&id), beside.reply(&id)]);
        assert_eq!(home.0.read("done").lines().count(), round + 1);
    }
    here.end();
    beside.end();
    home.check_done(&["x"; TIMES]);
    assert_eq!(home.spent(), TIMES);
}

/// Brings a yes while the disk does not answer to this call, and kills the gateway there; the state stays used.
#[track_caller]
fn check_killed(stalled: &str, is_recorded: bool) {
    let home = Home::new();
    let marker = home.0.join("stalled");
    let gateway = home.gateway("ask", client_only()).preload(&[preload_object("stalled_sync.c")]);
    let mut running = gateway.env(stalled, marker.to_str().unwrap()).start();
    let state = asked(&mut running, 1, "write", "x");
    std::fs::write(&marker, "").unwrap();
    running.send(&call(2, "write", "x", &brings(&state, YES)));
    until("the disk is asked", || home.0.join("stalled.asked").exists());
    assert_eq!(home.spent(), 1, "used up before anything else");
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    home.check_done(&[]);
    let mut expected = vec!["question"];
    expected.extend(if is_recorded { &["answer:yes", "intent"][..] } else { &[] });
    assert_eq!(home.story(), expected, "{stalled}");
    let mut again = home.start();
    check_used(&mut again, &state);
    home.check_done(&[]);
    // The next question is answered like any.
    let state = asked(&mut again, 3, "write", "x");
    check_outcome(&bring(&mut again, &state), "none", "yes");
    again.end();
    home.check_done(&["x"]);
}

#[test]
fn a_state_stays_used_when_the_process_dies_before_the_action() {
    check_killed("STALLED_FSYNC", false);
    check_killed("STALLED_SYNC", true);
}

#[test]
fn without_a_note_that_it_was_used_nothing_is_done() {
    let home = Home::new();
    let mut running = home.start();
    let state = asked(&mut running, 1, "write", "x");
    let spent = home.state_dir().join("approvals/spent");
    std::fs::remove_dir(&spent).unwrap();
    let reply = bring(&mut running, &state);
    check_outcome(&reply, "journal_unavailable", "no");
    home.check_done(&[]);
    running.end();
    assert_eq!(home.story(), ["question"]);
}

/// The state is used, and nothing was done.
#[test]
fn without_a_record_of_the_answer_nothing_is_done() {
    let home = Home::new();
    // 8 KiB in blocks of 512 bytes: questions fill it.
    let gateway = home.gateway("ask", client_only()).through(r#"ulimit -S -f 16; exec "$@""#).says_anything();
    let mut running = gateway.start();
    let first = asked(&mut running, 1, "write", "x");
    let full = (0..100).any(|_| running.ask(&call(unique_id(), "write", "x", ""))["result"]["isError"] == true);
    assert!(full, "the disk is full");
    check_outcome(&bring(&mut running, &first), "journal_unavailable", "no");
    home.check_done(&[]);
    check_used(&mut running, &first);
    running.end();
    home.check_done(&[]);
}

/// A client that does not say in this very request that it can ask is asked nothing, whatever it brings.
#[test]
fn a_standing_question_is_not_put_to_a_client_that_cannot_ask_s44_s136() {
    let home = Home::new();
    let mut running = home.start();
    let state = asked(&mut running, 1, "write", "x");
    let bare = call(2, "write", "x", &format!(r#""requestState":"{state}","#)).replace(r#""elicitation":{"form":{}}"#, "");
    let reply = running.ask(&bare);
    assert_eq!(reply["error"]["code"], -32021, "{reply}");
    check_outcome(&bring(&mut running, &state), "none", "yes");
    running.end();
    home.check_done(&["x"]);
}
