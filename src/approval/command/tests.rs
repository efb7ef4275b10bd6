//! Commands that answer, and commands that do anything but: each is ended, and nothing it does is taken for a yes but status 0.

use std::time::Duration;

use super::*;
use crate::cancel::Why;
use crate::process::testing::{Known, Told};

const LONG: Duration = Duration::from_secs(60);
/// Room for a shell to start on a busy machine, before the deadline that a test is about.
const SHORT: Duration = Duration::from_millis(1500);

fn question(action: &str, extent: Extent) -> Question {
    let [id, tool, rule, target] = ["00c0ffee", "restart", "tools/restart", "exec a"].map(str::to_owned);
    Question { id, tool, rule, target, action: action.to_owned(), extent }
}

/// One whose document fills no pipe.
fn small() -> Question {
    question(r#"{"exec":{"argv":["a"]}}"#, Extent::Once)
}

/// One whose document is longer than any pipe.
fn large() -> Question {
    question(&format!("{{\"exec\":{{\"argv\":[\"{}\"]}}}}", "x".repeat(3 << 20)), Extent::Once)
}

fn argv(script: &str, told: &Told) -> Vec<String> {
    ["sh", "-c", script, "sh", &told.path()].map(str::to_owned).to_vec()
}

fn asked(script: &str, told: &Told, question: &Question, timeout: Duration) -> Answer {
    match ask(&argv(script, told), question, &CancelToken::new().unwrap(), Instant::now() + timeout) {
        Asked::Answered(answer) => answer,
        Asked::Cancelled => panic!("cancelled by nobody"),
    }
}

#[track_caller]
fn check(script: &str, question: &Question, expected: Answer) {
    assert_eq!(asked(script, &Told::new(), question, LONG), expected, "{script}");
}

fn no(status: i32) -> Answer {
    Answer::No(format!("the approver command ended with status {status}"))
}

fn failed(what: &str) -> Answer {
    Answer::Unusable(format!("the approver command {what}"))
}

#[test]
fn the_status_is_the_answer() {
    check("cat > /dev/null", &small(), Answer::Yes(Extent::Once));
    check("cat > /dev/null", &question("{}", Extent::Session), Answer::Yes(Extent::Session));
    for status in [1, 2, 77, 126, 127, 128 + 9, 255] {
        check(&format!("echo yes; exit {status}"), &small(), no(status));
    }
    check("exec no-such-program-of-the-command", &small(), no(127));
    check("kill -KILL $$", &small(), failed("was ended by signal KILL"));
    check("kill -TERM $$", &small(), failed("was ended by signal TERM"));
}

#[test]
fn one_that_cannot_be_started_is_no_answer() {
    for (argv, why) in [
        (&["no-such-approver"][..], format!("\"no-such-approver\" not found in the command's PATH {CHILD_PATH:?}")),
        (&["bin/approver"], "expected an absolute path or a bare name, got \"bin/approver\"".to_owned()),
        (&["/etc"], "\"/etc\" is not a file".to_owned()),
        (&[], "expected a program, got an empty name".to_owned()),
    ] {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let asked = ask(&argv, &small(), &CancelToken::new().unwrap(), Instant::now() + LONG);
        assert_eq!(asked, Asked::Answered(failed(&format!("could not be started: {why}"))));
    }
}

#[test]
fn it_is_shown_the_exact_action() {
    let mut told = Told::new();
    let action = "{\"http\":{\"url\":\"https://a/?b=\\u001b[2J\u{2028}é\\\"\",\"n\":[1.10,18446744073709551615,1e400]}}";
    let yes = asked(r#"cat > "$1""#, &told, &question(action, Extent::Session), LONG);
    let expected = format!(
        "{{\"id\":\"00c0ffee\",\"tool\":\"restart\",\"rule\":\"tools/restart\",\"target\":\"exec a\",\"extent\":\"session\",\"action\":{}}}",
        action.replace('\u{2028}', "\\u2028")
    );
    assert_eq!((yes, told.line()), (Answer::Yes(Extent::Session), expected));
    assert!(!told.hears(Duration::ZERO), "more than one line");
    for action in ["", "{", "{} {}", "no"] {
        let answer = asked(r#"echo ran > "$1""#, &told, &question(action, Extent::Once), LONG);
        assert!(matches!(&answer, Answer::Unusable(why) if why.contains("expected an action in JSON")), "{answer:?}");
    }
    assert!(!told.hears(Duration::ZERO), "it was asked about nothing");
}

#[test]
fn a_long_document_comes_whole_and_with_an_end() {
    let (mut told, question) = (Told::new(), large());
    assert_eq!(asked(r#"wc -c > "$1""#, &told, &question, LONG), Answer::Yes(Extent::Once));
    assert_eq!(told.line(), document(&question).unwrap().len().to_string());
}

#[test]
fn one_that_does_not_read_answers_all_the_same() {
    for (script, expected) in [
        ("exit 0", Answer::Yes(Extent::Once)),
        ("exit 1", no(1)),
        ("exec <&-; sleep 0.05; exit 1", no(1)),
        ("head -c 100000 > /dev/null; exit 1", no(1)),
        ("head -c 1 > /dev/null; exec <&- >&- 2>&-; sleep 0.05; exit 0", Answer::Yes(Extent::Once)),
    ] {
        check(script, &small(), expected.clone());
        check(script, &large(), expected);
    }
}

#[test]
fn its_environment_is_bare() {
    let mut told = Told::new();
    let print = r#"tr '\0' '\n' < /proc/$$/environ | sed 's/=.*//' | sort | tr '\n' ' ' > "$1"; pwd > "$1""#;
    assert_eq!(asked(print, &told, &small(), LONG), Answer::Yes(Extent::Once));
    assert_eq!(told.line(), "HOME LANG PATH TIDEGATE_CALL /");
}

#[test]
fn no_shell_reads_its_arguments() {
    let mut told = Told::new();
    let mut argv = argv(r#"printf '%s\n' "$2" > "$1""#, &told);
    argv.push("$(echo no) ; `echo no` > x".to_owned());
    let asked = ask(&argv, &small(), &CancelToken::new().unwrap(), Instant::now() + LONG);
    assert_eq!((asked, &*told.line()), (Asked::Answered(Answer::Yes(Extent::Once)), "$(echo no) ; `echo no` > x"));
}

#[test]
fn a_flood_hinders_nobody() {
    check("head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2; exit 1", &large(), no(1));
    let mut told = Told::new();
    let endless = r#"trap '' TERM PIPE; echo $$ > "$1"; while :; do echo yes; echo yes >&2; done"#;
    assert_eq!(asked(endless, &told, &large(), SHORT), Answer::TimedOut);
    assert!(told.process().is_reaped());
}

#[test]
fn the_log_gets_the_beginning_of_stderr() {
    let token = CancelToken::new().unwrap();
    let stderr = |script: &str| {
        let (_, stderr) = put(&argv(script, &Told::new()), &small(), &token, Instant::now() + LONG).ok().unwrap();
        String::from_utf8(stderr.0).unwrap()
    };
    assert_eq!(stderr("echo yes; exec >&-; echo why >&2"), "why\n");
    assert_eq!(stderr("printf a >&2; head -c 100000 /dev/zero | tr '\\0' b >&2"), format!("a{}", "b".repeat(199)));
}

#[test]
fn one_that_takes_too_long_is_ended_with_all_it_started() {
    let mut told = Told::new();
    let script = r#"trap '' TERM; echo $$ > "$1"; setsid sh -c 'echo $$ > "$1"; exec sleep 300' sh "$1" & wait; wait"#;
    assert_eq!(asked(script, &told, &large(), SHORT), Answer::TimedOut);
    assert!([told.process(), told.process()].iter().all(Known::has_ended));
}

/// A shell that says yes as soon as it is asked to end.
const YES_AT_TERM: &str = r#"trap 'exit 0' TERM; echo $$ > "$1"; while :; do sleep 0.01; done"#;

#[test]
fn a_yes_that_comes_too_late_is_none() {
    let mut told = Told::new();
    assert_eq!(asked(YES_AT_TERM, &told, &small(), SHORT), Answer::TimedOut);
    assert!(told.process().is_reaped());
}

#[test]
fn what_it_leaves_running_is_ended_and_not_waited_for() {
    let mut told = Told::new();
    let script = r#"(exec sleep 300) & echo $! > "$1"; setsid sh -c 'echo $$ > "$1"; exec sleep 300' sh "$1" & echo $! > "$1""#;
    assert_eq!(asked(script, &told, &large(), LONG), Answer::Yes(Extent::Once));
    // The last of them may have been ended before it told of itself a second time.
    assert!([told.process(), told.process()].iter().all(Known::has_ended));
}

#[track_caller]
fn check_cancelled(script: &str, question: &Question, cancel: impl Fn(&CancelToken)) {
    let (mut told, token) = (Told::new(), CancelToken::new().unwrap());
    let argv = argv(script, &told);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(&argv, question, &token, Instant::now() + LONG));
        let command = told.process();
        cancel(&token);
        assert_eq!(waiting.join().unwrap(), Asked::Cancelled, "{script}");
        assert!(command.is_reaped());
    });
}

#[test]
fn a_cancel_ends_it_and_makes_its_answer_none() {
    let stubborn = r#"trap '' TERM; echo $$ > "$1"; while :; do sleep 0.01; done"#;
    for question in [small(), large()] {
        for script in [YES_AT_TERM, stubborn, r#"echo $$ > "$1"; exec sleep 300"#] {
            check_cancelled(script, &question, |token| token.cancel(Why::Client));
            check_cancelled(script, &question, CancelToken::kill_now);
        }
    }
}

#[test]
fn one_nobody_waits_for_is_not_started() {
    let (told, token) = (Told::new(), CancelToken::new().unwrap());
    let argv = argv(r#"echo $$ > "$1""#, &told);
    assert_eq!(ask(&argv, &small(), &token, Instant::now()), Asked::Answered(Answer::TimedOut));
    token.cancel(Why::Client);
    assert_eq!(ask(&argv, &small(), &token, Instant::now() + LONG), Asked::Cancelled);
    assert!(!told.hears(Duration::ZERO), "it was started");
}
