//! Helpers as a vault runs them: what they get and print, how they end, how often they are started.

use std::path::PathBuf;
use std::sync::Barrier;

use super::*;
use crate::cancel::{CancelToken, Why};
use crate::executor::credential::tests::{Folder, LONG, had};
use crate::executor::credential::{Source, Vault};
use crate::limits::SECRET_BYTES_MAX;
use crate::outcome::result::{Code, Executed, Failure};
use crate::process::testing::{Known, PATH, Told};
use std::time::Duration;

fn helper(script: &str, arguments: &[&str]) -> Helper {
    let argv = ["sh", "-c", script, "sh"].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
    let env = [("PATH", PATH), ("HOME", "/nowhere"), ("LANG", "C.UTF-8")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Helper { argv, env, inherit: Vec::new(), timeout: LONG, cache: LONG }
}

fn vault(helper: Helper) -> Vault {
    Vault::new(vec![("minted".to_owned(), Source::Command(helper))], 0)
}

#[track_caller]
fn check_value(helper: Helper, expected: &str) {
    match had(&vault(helper), "minted") {
        Ok(secret) => assert_eq!(String::from_utf8_lossy(secret.expose()), expected),
        Err(error) => panic!("{error}"),
    }
}

/// What is said of a helper that gives no value: never what it printed.
#[track_caller]
fn check_refused(helper: Helper, expected: &str) {
    let program = helper.argv[0].clone();
    let vault = vault(helper);
    let Err(error) = had(&vault, "minted") else { panic!("not refused: {expected}") };
    assert_eq!(error, format!("credential \"minted\": command {program:?} {expected}"));
    assert_eq!(vault.failures().iter().map(ToString::to_string).collect::<Vec<_>>(), [error]);
    assert_eq!(vault.redactor().longest_bytes(), 0, "a failure made something known");
}

#[test]
fn what_it_prints_is_the_value_without_its_line_end() {
    for (printed, value) in [
        ("value-1234", "value-1234"),
        ("value-1234\\n", "value-1234"),
        ("value-1234\\r\\n", "value-1234"),
        ("value-1234\\n\\n", "value-1234\n"),
    ] {
        check_value(helper(&format!("printf '{printed}'"), &[]), value);
    }
    check_value(helper("printf value-; printf 1234", &[]), "value-1234");
    check_value(helper("echo complaint-1234 >&2; echo value-1234", &[]), "value-1234");
    let longest = "x".repeat(SECRET_BYTES_MAX);
    check_value(helper("head -c 65536 /dev/zero | tr '\\0' x; printf '\\r\\n'", &[]), &longest);
}

#[test]
fn no_shell_reads_its_arguments() {
    check_value(helper("printf %s \"$1\"", &["$(echo no) ; `echo no` > x"]), "$(echo no) ; `echo no` > x");
}

#[test]
fn its_environment_is_bare_but_for_what_it_inherits() {
    let print = "tr '\\0' '\\n' < /proc/$$/environ | sed 's/=.*//' | grep -v '^TIDEGATE_CALL$' | sort | tr '\\n' ' '; pwd";
    check_value(helper(print, &[]), "HOME LANG PATH /");
    let inherit = ["CARGO_PKG_NAME", "TEST_VARIABLE_THAT_IS_UNSET", "CARGO_MANIFEST_DIR"].map(str::to_owned).to_vec();
    check_value(Helper { inherit, ..helper(print, &[]) }, "CARGO_MANIFEST_DIR CARGO_PKG_NAME HOME LANG PATH /");
    check_value(helper("readlink /proc/self/fd/0", &[]), "/dev/null");
}

#[test]
fn what_is_no_value_is_refused_without_a_word_of_it() {
    let by_hand = "run it by hand to see why, for what it prints is shown nowhere";
    check_refused(helper("echo value-1234; echo why-12345 >&2; exit 3", &[]), &format!("ended with status 3; {by_hand}"));
    check_refused(helper("echo value-1234; kill -KILL $$", &[]), &format!("was ended by signal KILL; {by_hand}"));
    for nothing in ["true", "echo", "printf '\\r\\n'"] {
        check_refused(helper(nothing, &[]), "is empty");
    }
    check_refused(helper("echo 1234567", &[]), "does not fit: expected a secret of at least 8 bytes, got a shorter one");
    let too_long = "does not fit: expected a secret of at most 65536 bytes, got a longer one";
    check_refused(helper("head -c 65537 /dev/zero", &[]), too_long);
    check_refused(helper("yes value-1234", &[]), too_long);
    check_refused(helper("trap '' TERM PIPE; while :; do echo value-1234; done", &[]), too_long);
    let missing = Helper { argv: vec!["no-such-helper".to_owned()], ..helper("", &[]) };
    check_refused(missing, &format!("could not be started: \"no-such-helper\" not found in the command's PATH {PATH:?}"));
}

#[test]
fn a_flood_on_stderr_hinders_nobody() {
    check_value(helper("head -c 1000000 /dev/zero >&2; echo value-1234", &[]), "value-1234");
}

#[test]
fn one_that_takes_too_long_is_ended_with_all_it_started() {
    let mut told = Told::new();
    let script = r#"trap '' TERM; echo $$ > "$1"; setsid sh -c 'echo $$ > "$1"; exec sleep 300' sh "$1" & wait; wait"#;
    let timeout = Duration::from_millis(1500);
    let expected = "had not ended after 1.5s and was ended; its timeout_s sets that limit";
    check_refused(Helper { timeout, ..helper(script, &[&told.path()]) }, expected);
    assert!([told.process(), told.process()].iter().all(Known::has_ended));
}

#[test]
fn what_it_leaves_running_is_ended_and_not_waited_for() {
    let mut told = Told::new();
    let script = r#"echo value-1234; (echo $$; exec sleep 300) & echo $! > "$1""#;
    // Inside the parentheses `$$` is the helper, so its own pipe gets a second line.
    let value = had(&vault(helper(script, &[&told.path()])), "minted").ok().unwrap();
    assert!(value.expose().starts_with(b"value-1234\n"));
    assert!(told.process().has_ended());
}

/// The failure of a call that ends while its helper runs.
#[track_caller]
fn check_ended_with_its_call(timeout: Duration, end: impl Fn(&CancelToken)) -> Failure {
    let (mut told, token) = (Told::new(), CancelToken::new().unwrap());
    let vault = vault(helper(r#"echo $$ > "$1"; exec sleep 300"#, &[&told.path()]));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| vault.hand_out("minted", &token, Instant::now() + timeout).err().unwrap());
        let helper = told.process();
        end(&token);
        let failure = waiting.join().unwrap();
        assert!(helper.has_ended() && helper.is_reaped());
        assert_eq!((failure.executed, failure.ended), (Executed::No, Some(Ended::Dead)), "{}", failure.message);
        assert_eq!(vault.failures(), [], "the end of a call is no failure of its credential");
        failure
    })
}

#[test]
fn it_ends_with_the_call_it_runs_for() {
    assert_eq!(check_ended_with_its_call(LONG, |token| token.cancel(Why::Client)).code, Code::Cancelled);
    assert_eq!(check_ended_with_its_call(LONG, CancelToken::kill_now).code, Code::Cancelled);
    let late = check_ended_with_its_call(Duration::from_millis(1500), |_| {});
    assert_eq!(late.code, Code::TimedOut);
    assert!(late.message.ends_with("waited for credential \"minted\": command \"sh\" had not ended"), "{}", late.message);
}

#[test]
fn a_call_that_is_over_starts_no_helper() {
    let told = Told::new();
    let vault = vault(helper(r#"echo $$ > "$1"; echo value-1234"#, &[&told.path()]));
    let token = CancelToken::new().unwrap();
    assert_eq!(vault.hand_out("minted", &token, Instant::now()).err().unwrap().code, Code::TimedOut);
    token.cancel(Why::Client);
    assert_eq!(vault.hand_out("minted", &token, Instant::now() + LONG).err().unwrap().code, Code::Cancelled);
    vault.load_known();
    assert!(!told.hears(Duration::ZERO), "a helper was started");
    assert_eq!(vault.failures(), []);
}

/// A helper that prints another value each time and counts its runs in a file.
struct Minter {
    folder: Folder,
    runs: PathBuf,
}

impl Minter {
    fn new() -> Minter {
        let folder = Folder::new();
        let runs = folder.file("runs", b"", 0o600);
        Minter { folder, runs }
    }

    fn vault(&self, cache: Duration) -> Vault {
        let script = r#"echo run >> "$1"; printf 'value-no-%s' "$(wc -l < "$1")""#;
        vault(Helper { cache, ..helper(script, &[self.runs.to_str().unwrap()]) })
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(&self.runs).unwrap().lines().count()
    }
}

#[track_caller]
fn shown(vault: &Vault) -> String {
    String::from_utf8(had(vault, "minted").ok().unwrap().expose().to_vec()).unwrap()
}

#[test]
fn a_value_is_used_until_it_is_too_old() {
    let minter = Minter::new();
    let vault = minter.vault(LONG);
    assert_eq!([shown(&vault), shown(&vault)], ["value-no-1", "value-no-1"]);
    let vault = minter.vault(Duration::ZERO);
    assert_eq!([shown(&vault), shown(&vault)], ["value-no-2", "value-no-3"]);
    // Over before anybody can ask again.
    let vault = minter.vault(Duration::from_nanos(1));
    assert_eq!([shown(&vault), shown(&vault)], ["value-no-4", "value-no-5"]);
    assert_eq!(vault.redactor().text("value-no-3 value-no-4 value-no-5"), "value-no-3 [redacted:minted] [redacted:minted]");
}

#[test]
fn a_refused_value_is_had_anew_by_the_next_call_and_stays_known() {
    let minter = Minter::new();
    let vault = minter.vault(LONG);
    let [first, again] = [(); 2].map(|()| had(&vault, "minted").ok().unwrap());
    assert_eq!(minter.runs(), 1);
    first.refused();
    assert_eq!(minter.runs(), 1, "nothing runs before somebody asks");
    assert_eq!(shown(&vault), "value-no-2");
    again.refused();
    assert_eq!(shown(&vault), "value-no-2", "a refusal of the old value says nothing of the new one");
    assert_eq!(vault.redactor().text("value-no-1 value-no-2"), "[redacted:minted] [redacted:minted]");
    assert!(minter.folder.0.exists());
}

#[test]
fn a_failure_is_not_kept() {
    let folder = Folder::new();
    let path = folder.file("value", b"", 0o600);
    let vault = vault(helper("cat \"$1\"", &[path.to_str().unwrap()]));
    assert!(had(&vault, "minted").is_err());
    folder.file("value", b"value-1234", 0o600);
    assert_eq!(shown(&vault), "value-1234");
    assert_eq!(vault.failures(), []);
}

const CALLS: usize = 16;

/// What so many calls at once get while the helper, of which one may run at a time, counts itself.
fn at_once(vault: &Vault) -> Vec<Result<String, String>> {
    let ready = Barrier::new(CALLS);
    std::thread::scope(|scope| {
        let call = || {
            ready.wait();
            had(vault, "minted").map(|secret| String::from_utf8_lossy(secret.expose()).into_owned())
        };
        let calls: Vec<_> = (0..CALLS).map(|_| scope.spawn(call)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    })
}

/// Fails if another is running: `mkdir` makes a folder once.
const ALONE: &str = r#"mkdir "$1/alone" || { echo clash >> "$1/clashes"; }; echo run >> "$1/runs"; "#;

#[test]
fn one_run_serves_all_who_wait_for_it() {
    let folder = Folder::new();
    let script = format!(r#"{ALONE} rmdir "$1/alone"; printf 'value-no-%s' "$(wc -l < "$1/runs")""#);
    let waiting = vault(helper(&script, &[folder.0.to_str().unwrap()]));
    assert!(at_once(&waiting).iter().all(|got| got.as_deref() == Ok("value-no-1")));
    let failing = vault(helper(&format!(r#"{ALONE} rmdir "$1/alone"; exit 1"#), &[folder.0.to_str().unwrap()]));
    assert!(at_once(&failing).iter().all(Result::is_err));
    // Each has its own: one after the other.
    let own = vault(Helper { cache: Duration::ZERO, ..helper(&script, &[folder.0.to_str().unwrap()]) });
    let mut got = at_once(&own);
    got.sort();
    got.dedup();
    assert_eq!(got.len(), CALLS);
    assert!(!folder.0.join("clashes").exists(), "two ran at once");
}

#[test]
fn who_waits_for_the_run_of_another_call_ends_alone_and_takes_over() {
    let (mut told, folder) = (Told::new(), Folder::new());
    let go = folder.0.join("go");
    // The first never ends by itself, the second at once.
    let script = r#"echo $$ > "$1"; if mkdir "$2"; then exec sleep 300; fi; echo value-1234"#;
    let vault = vault(helper(script, &[&told.path(), go.to_str().unwrap()]));
    let [first, second, third] = [(); 3].map(|()| CancelToken::new().unwrap());
    std::thread::scope(|scope| {
        let vault = &vault;
        let ask = |token| scope.spawn(move || vault.hand_out("minted", token, Instant::now() + LONG));
        let first_call = ask(&first);
        let hanging = told.process();
        let (second_call, third_call) = (ask(&second), ask(&third));
        second.cancel(Why::Client);
        assert_eq!(second_call.join().unwrap().err().unwrap().code, Code::Cancelled);
        assert!(!hanging.has_ended(), "the helper of another call was ended");
        let late = vault.hand_out("minted", &CancelToken::new().unwrap(), Instant::now() + Duration::from_millis(20));
        assert_eq!(late.err().unwrap().code, Code::TimedOut);
        first.cancel(Why::Client);
        assert_eq!(first_call.join().unwrap().err().unwrap().code, Code::Cancelled);
        assert_eq!(third_call.join().unwrap().map_err(|failure| failure.message).ok().unwrap().expose(), b"value-1234");
    });
}
