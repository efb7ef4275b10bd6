//! `approvals` and `confirm`: what they come to, and what is wrong with them.

use super::*;
use crate::approval::Approver::{Client, Command, Operator};
use crate::sys;

/// What `FULL` says.
pub(super) fn full() -> ApprovalRules {
    ApprovalRules {
        order: vec![Command, Client, Operator],
        timeout: Duration::from_millis(2500),
        command: Some(vec!["sh".to_owned(), "/x".to_owned()]),
        operators: vec![0, 1000],
    }
}

/// What holds where nothing is said.
pub(super) fn default() -> ApprovalRules {
    ApprovalRules {
        order: vec![Client, Operator],
        timeout: Duration::from_secs(50),
        command: None,
        operators: vec![sys::user_id()],
    }
}

/// `approvals` around `rest`, which begins in column 15 of line 1.
fn approvals(rest: &str) -> String {
    format!(r#"{{"approvals":{{{rest}}}}}"#)
}

#[track_caller]
fn check(rest: &str, expected: ApprovalRules) {
    let config = check_ok(&approvals(rest));
    assert_eq!((config.approvals, config.warnings), (expected, Vec::new()), "{rest}");
}

#[test]
fn what_is_not_said_is_filled_in() {
    let sh = || Some(vec!["sh".to_owned()]);
    check("", default());
    check(r#""command":["sh"]"#, ApprovalRules { order: vec![Client, Command, Operator], command: sh(), ..default() });
    check(r#""order":["client"]"#, ApprovalRules { order: vec![Client], ..default() });
    check(r#""order":["operator"]"#, ApprovalRules { order: vec![Operator], ..default() });
    check(r#""order":["command"],"command":["sh"]"#, ApprovalRules { order: vec![Command], command: sh(), ..default() });
    check(r#""timeout_s":1"#, ApprovalRules { timeout: Duration::from_secs(1), ..default() });
    check(r#""timeout_s":3600"#, ApprovalRules { timeout: Duration::from_secs(3600), ..default() });
    check(r#""operators":[4294967294,0]"#, ApprovalRules { operators: vec![4_294_967_294, 0], ..default() });
}

#[test]
fn a_tool_asks_as_it_says() {
    for (said, expected) in [
        ("", Confirm::Never),
        (r#""confirm":"never","#, Confirm::Never),
        (r#""confirm":"ask","#, Confirm::Ask),
        (r#""confirm":"session","#, Confirm::Session),
    ] {
        let config = check_ok(&tool(&format!(r#"{said}"exec":{{"argv":["sh"]}}"#)));
        assert_eq!(config.tools[0].1.confirm, expected, "{said}");
        let config = check_ok(&format!(r#"{{"builtin":{{"http_request":{{{said}"allow":[{{"host":"a"}}]}}}}}}"#));
        assert_eq!(config.tools[0].1.confirm, expected, "{said}");
    }
    let config = check_ok(&super::full());
    let confirm = |name: &str| config.tools.iter().find(|(tool, _)| tool.name == name).map(|(_, rule)| rule.confirm);
    assert_eq!((confirm("list_issues"), confirm("save")), (Some(Confirm::Ask), Some(Confirm::Never)));
    assert_eq!(confirm("http_request"), Some(Confirm::Session));
    assert_eq!(confirm("ssh_exec"), cfg!(feature = "ssh").then_some(Confirm::Ask));
}

#[test]
fn whoever_stands_behind_the_operator_is_told() {
    let never = |who: &str| format!("\"{who}\" stands behind \"operator\", who can always be asked, so it is never asked");
    check_warnings(
        &approvals("\"command\":[\"sh\"],\n\"order\":[\"operator\",\n\"command\",\n\"client\"]"),
        &[&format!("3:1: /approvals/order/1: {}", never("command")), &format!("4:1: /approvals/order/2: {}", never("client"))],
    );
    check_warnings(&approvals(r#""order":["client","operator"]"#), &[]);
    check_warnings(
        &approvals(r#""command":["/no/such/program"]"#),
        &["1:26: /approvals/command/0: no program \"/no/such/program\" there"],
    );
}

#[test]
fn the_command_stands_in_the_order_if_there_is_one() {
    check_errors(
        &approvals(r#""order":["client","command"]"#),
        &["1:33: /approvals/order/1: \"command\" in \"order\" needs the key \"command\" beside it: what is run"],
    );
    check_errors(
        &approvals("\"order\":[\"client\",\"operator\"],\n\"command\":[\"sh\"]"),
        &["2:1: /approvals/command: \"order\" does not name \"command\", so this program would never be asked"],
    );
    // What was reported counts as said.
    check_errors(
        &approvals(r#""order":["command"],"command":[]"#),
        &["1:45: /approvals/command: expected a program and its arguments, got an empty array"],
    );
}

#[test]
fn what_says_nothing_sound_is_refused() {
    for (rest, problem) in [
        (r#""order":[]"#, "1:23: /approvals/order: expected at least one approver, got an empty array"),
        (
            r#""order":["clients"]"#,
            "1:24: /approvals/order/0: expected one of \"client\", \"operator\", \"command\", got \"clients\"",
        ),
        (r#""order":["client","client"]"#, "1:33: /approvals/order/1: expected each approver once, got \"client\" again"),
        (r#""order":"client""#, "1:23: /approvals/order: expected an array, got a string"),
        (r#""timeout_s":0.999"#, "1:27: /approvals/timeout_s: expected seconds from 1 to 3600, got 0.999"),
        (r#""timeout_s":3600.1"#, "1:27: /approvals/timeout_s: expected seconds from 1 to 3600, got 3600.1"),
        (r#""timeout_s":"50""#, "1:27: /approvals/timeout_s: expected a number of seconds, got a string"),
        (r#""command":[""]"#, "1:26: /approvals/command/0: expected an absolute path or a bare name, got \"\""),
        (r#""command":["./x"]"#, "1:26: /approvals/command/0: expected an absolute path or a bare name, got \"./x\""),
        (r#""command":["sh","a\u0000"]"#, "1:31: /approvals/command/1: expected an argument without NUL"),
        (r#""operators":[]"#, "1:27: /approvals/operators: expected at least one user id, got an empty array"),
        (
            r#""operators":[4294967295]"#,
            "1:28: /approvals/operators/0: expected a user id from 0 to 4294967294, got 4294967295",
        ),
        (r#""operators":["root"]"#, "1:28: /approvals/operators/0: expected a whole number, got a string"),
        (r#""operators":[7,8,7.0]"#, "1:32: /approvals/operators/2: expected each user id once, got 7 again"),
        (r#""operator":[7]"#, "1:15: /approvals/operator: unknown key, nearest is \"operators\""),
    ] {
        check_errors(&approvals(rest), &[problem]);
    }
    check_errors(r#"{"approval":{}}"#, &["1:2: /approval: unknown key, nearest is \"approvals\""]);
    check_errors(
        r#"{"builtin":{"http_request":{"allow":[{"host":"a"}],"confirm":"once"}}}"#,
        &["1:62: /builtin/http_request/confirm: expected one of \"never\", \"ask\", \"session\", got \"once\""],
    );
}
