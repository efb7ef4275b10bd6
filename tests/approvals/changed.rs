//! Another configuration while a question stands: what was approved is done, or nothing is.

use serde_json::{Value, json};

use super::legacy::{YES, answer, begin};
use super::modern::{YES as BROUGHT, asked as asked_back, brings, call, client_only};
use super::state::{Home, reload};
use super::{check_outcome, story};
use crate::kit::gateway::Running;
use crate::kit::legacy_call;
use crate::kit::peer::{Peer, json as json_answer};

type Members = Vec<(&'static str, Value)>;

/// Asked under `first`, answered under `second`; the reply.
#[track_caller]
fn answered_under(home: &Home, first: &Members, second: &Members, line: &str, outcome: &str) -> Value {
    let mut running = begin(home.configured(first).says_anything(), "2025-11-25");
    running.send(line);
    let question = running.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    reload(&running, second);
    running.probe();
    running.send(&answer(&question, outcome));
    let reply = running.reply("1");
    running.end();
    reply
}

fn write_x() -> String {
    legacy_call(1, "write", r#"{"text":"x"}"#)
}

#[test]
fn a_yes_to_what_would_not_be_done_any_more_does_nothing() {
    let home = Home::new();
    let first = home.members("ask", client_only());
    let mut second = first.clone();
    second[1].1[0]["exec"]["argv"][3] = json!("another");
    let reply = answered_under(&home, &first, &second, &write_x(), YES);
    check_outcome(&reply, "approval_denied", "no");
    assert!(reply.to_string().contains("the configuration changed while the question stood"), "{reply}");
    home.check_done(&[]);
    assert_eq!(home.story(), ["question", "answer:yes"]);
}

/// The same request, allowed by the second rule instead of the first.
#[test]
fn a_yes_under_another_rule_does_nothing() {
    let home = Home::new();
    let peer = Peer::start(|_| json_answer("{}"));
    let port = peer.port();
    let members = |paths: [&str; 2]| {
        let rule =
            |path: &str| json!({"host": "localhost", "port": port, "scheme": "http", "methods": ["POST"], "paths": [path]});
        let allow = json!(paths.map(rule));
        let builtin = json!({"http_request": {"confirm": "ask", "allow": allow}});
        vec![("state_dir", json!(home.state_dir())), ("approvals", client_only()), ("builtin", builtin)]
    };
    let line = legacy_call(1, "http_request", &format!(r#"{{"method":"POST","url":"http://localhost:{port}/a/x"}}"#));
    let reply = answered_under(&home, &members(["/a/", "/b/"]), &members(["/b/", "/a/"]), &line, YES);
    check_outcome(&reply, "approval_denied", "no");
    assert_eq!(peer.connections(), 0);
}

/// What need not be asked any more is still not done after a no.
#[test]
fn an_answer_counts_although_nobody_would_be_asked_any_more() {
    for (outcome, code, executed, done) in
        [(YES, "none", "yes", &["x"][..]), (r#""result":{"action":"decline"}"#, "approval_denied", "no", &[])]
    {
        let home = Home::new();
        let [first, second] = ["ask", "never"].map(|confirm| home.members(confirm, client_only()));
        let reply = answered_under(&home, &first, &second, &write_x(), outcome);
        check_outcome(&reply, code, executed);
        home.check_done(done);
    }
}

/// A yes for the session counts where a rule asks once a session, and nowhere else.
#[test]
fn a_standing_yes_counts_for_a_rule_of_its_kind() {
    let home = Home::new();
    let [session, ask] = ["session", "ask"].map(|confirm| home.members(confirm, client_only()));
    let mut running = begin(home.configured(&session).says_anything(), "2025-11-25");
    let question = |running: &mut Running, id| {
        running.send(&legacy_call(id, "write", r#"{"text":"x"}"#));
        running.next()
    };
    let asked = question(&mut running, 1);
    running.send(&answer(&asked, r#""result":{"action":"accept","content":{"decision":"session"}}"#));
    check_outcome(&running.reply("1"), "none", "yes");
    reload(&running, &ask);
    let asked = question(&mut running, 2);
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    running.send(&answer(&asked, r#""result":{"action":"decline"}"#));
    check_outcome(&running.reply("2"), "approval_denied", "no");
    reload(&running, &session);
    let reply = question(&mut running, 3);
    check_outcome(&reply, "none", "yes");
    running.end();
    home.check_done(&["x", "x"]);
    assert_eq!(story(&home.0.journal_under("state")).iter().filter(|record| *record == "question").count(), 2);
}

#[test]
fn a_state_is_worth_nothing_once_the_client_is_not_asked_any_more() {
    let home = Home::new();
    let first = home.members("ask", client_only());
    let second = home.members("ask", json!({"order": ["command"], "command": ["true"], "timeout_s": 60}));
    let mut running = home.configured(&first).says_anything().start();
    let state = asked_back(&mut running, 1, "write", "x");
    reload(&running, &second);
    let reply = running.ask(&call(2, "write", "x", &brings(&state, BROUGHT)));
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
    check_outcome(&reply, "approval_denied", "no");
    home.check_done(&[]);
    reload(&running, &first);
    check_outcome(&running.ask(&call(3, "write", "x", &brings(&state, BROUGHT))), "none", "yes");
    running.end();
    home.check_done(&["x"]);
}
