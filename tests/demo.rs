//! `tidegate demo`: it is green, clean and quick to read, and each of its steps can fail.
//!
//! Steps are broken from outside: `--gateway` is a script that runs the real gateway and tampers with its pipes.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kit::dir::Dir;
use crate::kit::process::{is_alive, with_mark};

/// A demo that has ended.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    dir: Dir,
}

/// The command; the demo makes its folder in `dir`.
fn command(dir: &Dir, gateway: Option<&Path>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("demo").env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TMPDIR", dir.path());
    if let Some(gateway) = gateway {
        command.arg("--gateway").arg(gateway);
    }
    command.stdin(Stdio::null());
    command
}

fn demo(dir: Dir, gateway: Option<&Path>) -> Run {
    let output = command(&dir, gateway).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr), dir }
}

/// A gateway that breaks the promise called `tamper`. It is a link, so that no program file is ever written: a file that is
/// open for writing in a child that was just forked cannot be executed.
fn tampering(dir: &Dir, tamper: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/demo/tamper.py");
    symlink(script, dir.join(tamper)).unwrap();
    symlink(env!("CARGO_BIN_EXE_tidegate"), dir.join("real")).unwrap();
    dir.join(tamper)
}

impl Run {
    #[track_caller]
    fn check_nothing_left(&self) {
        let left: Vec<_> = std::fs::read_dir(self.dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        let folders: Vec<_> = left.iter().filter(|name| name.to_string_lossy().starts_with("tidegate-demo")).collect();
        assert!(folders.is_empty(), "{folders:?}\n{}", self.stdout);
        assert_eq!(with_mark(self.dir.path().to_str().unwrap()), [0; 0], "{}", self.stdout);
        for pid in self.napping() {
            assert!(!is_alive(pid), "{pid}\n{}", self.stdout);
        }
    }

    /// The processes that the third step names.
    fn napping(&self) -> Vec<u32> {
        let line = self.stdout.lines().find(|line| line.contains("runs, and its child")).unwrap_or_default();
        line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    }

    fn failed(&self) -> Vec<&str> {
        self.stdout.lines().filter_map(|line| line.trim().strip_prefix("✗ ")).collect()
    }
}

#[test]
fn every_step_holds_and_nothing_is_left() {
    let run = demo(Dir::new(), None);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{}", run.stdout);
    for promise in [
        "Step 1: the server sees the key, the client does not",
        "Step 2: a local command runs as declared, and no shell reads its arguments",
        "Step 3: a cancel ends the work: the command and what it started are gone",
        "Step 4: a malformed line closes the session, and nothing is executed",
        "The end: nothing leaked, nothing is left",
        "✓ the gateway closed the session itself, with exit code 65",
        "All 21 checks held, in ",
    ] {
        assert!(run.stdout.contains(promise), "{promise}\n{}", run.stdout);
    }
    assert_eq!(run.failed(), [""; 0]);
    assert_eq!(run.napping().len(), 2, "{}", run.stdout);
    run.check_nothing_left();
}

#[test]
fn the_key_is_shown_once_where_the_server_saw_it() {
    let run = demo(Dir::new(), None);
    let shown: Vec<&str> = run.stdout.match_indices("demo-key-").map(|(at, _)| &run.stdout[at..at + 41]).collect();
    let [key] = shown.as_slice() else { panic!("{shown:?}\n{}", run.stdout) };
    let digits = &key["demo-key-".len()..];
    assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    assert_eq!(run.stdout.matches(digits).count(), 1);
    assert!(run.stdout.contains(&format!("✓ the server saw  authorization: Bearer {key}")), "{}", run.stdout);
}

#[test]
fn it_fits_a_terminal_and_has_no_colours_elsewhere() {
    let run = demo(Dir::new(), None);
    assert!(run.stdout.lines().count() <= 66, "{}", run.stdout);
    let folder = run.dir.path().to_str().unwrap();
    // Paths are as long as they are; everything else is cut.
    let is_long = |line: &&str| !line.contains(folder) && line.chars().count() > 120;
    assert_eq!(run.stdout.lines().find(is_long), None);
    assert!(!run.stdout.contains('\u{1b}'));
}

/// Breaks the demo with `tamper` and expects exit code 1, these parts in the summary, and a failed check that has `check`.
#[track_caller]
fn check_broken(tamper: &str, parts: &str, check: &str) {
    let dir = Dir::new();
    let gateway = tampering(&dir, tamper);
    let run = demo(dir, Some(&gateway));
    assert_eq!(run.code, Some(1), "{tamper}\n{}{}", run.stdout, run.stderr);
    let summary = format!(" checks did not hold, in: {parts}.\n");
    assert!(run.stdout.contains(&summary), "{tamper}: expected {summary:?}\n{}", run.stdout);
    assert!(run.failed().iter().any(|failed| failed.contains(check)), "{tamper}: {:?}\n{}", run.failed(), run.stdout);
    for title in ["Step 1: ", "Step 2: ", "Step 3: ", "Step 4: ", "The end: "] {
        assert!(run.stdout.contains(title), "{tamper}: {title} is shown all the same\n{}", run.stdout);
    }
    run.check_nothing_left();
}

#[test]
fn an_honest_wrapper_changes_nothing() {
    let dir = Dir::new();
    let gateway = tampering(&dir, "honest");
    let run = demo(dir, Some(&gateway));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{}", run.stdout);
    run.check_nothing_left();
}

#[test]
fn step_1_fails_when_the_server_gets_another_key_or_the_client_gets_it() {
    check_broken("another_key", "step 1", "the server saw one request, with the key made for this run");
    check_broken("leaks_key", "step 1, the end", "the client's 3 lines hold no trace of it");
    check_broken("leaks_key", "step 1, the end", "the client got [redacted:demo] in its place");
}

#[test]
fn step_2_fails_when_the_command_did_not_run_or_a_shell_did() {
    check_broken("makes_up_output", "step 2", "was written for this run");
    check_broken("makes_up_output", "step 2", "the journal has the intent");
    check_broken("runs_a_shell", "step 2", "\"; touch oops\" stayed text");
}

#[test]
fn step_3_fails_when_the_cancel_is_swallowed_or_answered_or_nothing_ran() {
    check_broken("swallows_cancel", "step 3, the end", "are gone");
    check_broken("fakes_command", "step 3, the end", "the gateway goes on");
    check_broken("answers_cancelled", "step 3", "the cancelled one is not");
}

#[test]
fn step_4_fails_when_the_line_is_forgiven_or_something_is_executed() {
    check_broken("drops_malformed", "step 4", "the gateway closed the session itself, with exit code 65");
    check_broken("drops_malformed", "step 4", "one answer, the error -32700");
    check_broken("mends_malformed", "step 4", "no mark");
    check_broken("leaves_a_mark", "step 4", "no mark");
    check_broken("hides_counters", "step 4", "executions: 0");
    check_broken("hides_exit_code", "step 4", "exit code 65");
}

#[test]
fn the_end_fails_when_something_leaked_or_broke() {
    check_broken("whispers_key", "the end", "holds a trace of the key");
    check_broken("prints", "the end", "are whole JSON-RPC messages");
    check_broken("fails_at_end", "the end", "exit code 0");
}

#[test]
fn a_gateway_that_ends_at_once_fails_every_step() {
    let run = demo(Dir::new(), Some(Path::new("false")));
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""), "{}", run.stdout);
    let parts = "in: the beginning, step 1, step 2, step 3, step 4, the end.\n";
    assert!(run.stdout.contains(parts), "{}", run.stdout);
    run.check_nothing_left();
}

#[test]
fn a_gateway_that_cannot_be_started_is_one_clear_line() {
    let run = demo(Dir::new(), Some(Path::new("/nonexistent")));
    assert_eq!((run.code, run.stdout.as_str()), (Some(70), ""));
    assert_eq!(run.stderr, "tidegate: the gateway cannot be started: \"/nonexistent\" not found\n");
    run.check_nothing_left();
}

#[test]
fn a_place_for_its_folder_is_needed() {
    let dir = Dir::new();
    let output = command(&dir, None).env("TMPDIR", "/nonexistent").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(70), &b""[..]));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("tidegate: the folder /nonexistent/tidegate-demo-"), "{stderr}");
}

#[test]
fn an_interrupt_ends_it_and_leaves_nothing() {
    let dir = Dir::new();
    let gateway = tampering(&dir, "is_silent");
    let mut child = command(&dir, Some(&gateway)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (mut shown, mut line) = (String::new(), String::new());
    while !line.contains("client ") {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "{shown}");
        shown.push_str(&line);
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    stdout.read_to_string(&mut shown).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(70), "{shown}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "tidegate: the demo was interrupted\n");
    Run { code: Some(70), stdout: shown, stderr: String::new(), dir }.check_nothing_left();
}

#[test]
fn a_full_disk_behind_stdout_is_told() {
    let dir = Dir::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command(&dir, None).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(74));
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1);
}
