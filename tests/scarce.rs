//! Too little of everything: descriptors, threads, room on the disk. The gateway starts and answers, or says why it cannot;
//! either way stdout holds whole protocol lines, and a call that could not be carried out says so.

use std::os::unix::fs::MetadataExt;

use serde_json::Value;

use tidegate::clock::Clock;
use tidegate::config::Config;
use tidegate::executor::Hands;
use tidegate::executor::recorder::Recorder;
use tidegate::gateway::assemble::assemble;
use tidegate::wire::stdio::{Input, Output};

use crate::kit::gateway::{Ended, Gateway};
use crate::kit::installed::installed;
use crate::kit::modern_call;

const SAY: &str = r#"[{"name": "say", "description": "Says it", "exec": {"argv": ["echo", "said"]}}]"#;

fn gateway() -> Gateway {
    Gateway::of(installed()).tools(SAY)
}

fn outcome(reply: &Value) -> (&str, &str) {
    let outcome = &reply["result"]["_meta"]["tidegate/outcome"];
    (outcome["code"].as_str().unwrap_or("ok"), outcome["executed"].as_str().unwrap_or_default())
}

/// Runs one call under `ulimit -n LIMIT`; the exit code and the one reply's code, if it got so far.
#[track_caller]
fn with_descriptors(limit: u32, is_merged: bool) -> (i32, Option<String>) {
    let script = format!(r#"ulimit -n {limit}; exec "$@""#);
    let mut gateway = gateway().through(&script).says_anything();
    let mut command = gateway.command();
    if is_merged {
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", r#"exec "$@" 2>&1"#, "sh"]).arg(command.get_program()).args(command.get_args());
        command = shell;
        command.env_clear();
    }
    let (reader, mut writer) = std::io::pipe().unwrap();
    command.stdin(reader).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    let _ = std::io::Write::write_all(&mut writer, format!("{}\n", modern_call(1, "say", "{}")).as_bytes());
    drop(writer);
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    crate::kit::schema::check_stdout(stdout.as_bytes()).unwrap_or_else(|problem| panic!("{limit}: {problem}"));
    let code = output.status.code().unwrap_or_else(|| panic!("{limit}: {:?}: {stdout}{stderr}", output.status));
    let is_told = if code == 0 { stderr.contains("{\"frames_in\":1,") } else { stderr.contains("os error 24") };
    assert!(is_told || is_merged, "{limit}: ended with {code} and said nothing: {stderr}");
    let reply: Option<Value> = stdout.lines().next().map(|line| serde_json::from_str(line).unwrap());
    (code, reply.map(|reply| format!("{} {}", outcome(&reply).0, outcome(&reply).1)))
}

#[test]
fn few_descriptors_are_told_and_cost_calls_not_the_protocol() {
    // Below four the loader itself cannot load the program.
    let ways: Vec<_> = (4..=40).map(|limit| with_descriptors(limit, false)).collect();
    for (at, (code, reply)) in ways.iter().enumerate() {
        assert_eq!(*code == 0, reply.is_some(), "{at}: {code} {reply:?}");
    }
    let replies: Vec<&str> = ways.iter().filter_map(|(_, reply)| reply.as_deref()).collect();
    for expected in ["internal no", "journal_unavailable no", "spawn_failed no", "ok yes"] {
        assert!(replies.contains(&expected), "no {expected} in {replies:?}");
    }
    assert_eq!(ways[0].0, 74, "it cannot even take its descriptors");
    assert_eq!(ways.last().unwrap().1.as_deref(), Some("ok yes"));
}

#[test]
fn few_descriptors_and_a_merged_stderr_still_leave_the_protocol_alone() {
    (4..=24).for_each(|limit| drop(with_descriptors(limit, true)));
}

/// A user of this test alone, whose processes nobody else counts; `None` unless we may become one.
fn own_user() -> Option<u32> {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    is_root.then(|| 1_000_000 + std::process::id())
}

/// The limit counts threads of the user: only root can have a user to itself.
#[test]
fn few_threads_are_told_and_cost_calls_not_the_protocol() {
    let Some(user) = own_user() else {
        eprintln!("skipped: a limit of threads needs a user of its own, which only root can have");
        return;
    };
    let start = |limit: u32| {
        let script = format!(r#"exec bash -c 'ulimit -u {limit}; exec "$@"' bash "$@""#);
        Gateway::of(installed()).env("HOME", "/").user(user).through(&script)
    };
    for (limit, exit, told) in [
        (1, 70, "stderr cannot be used: Resource temporarily unavailable"),
        (2, 70, "the session cannot start: Resource temporarily unavailable"),
        (3, 70, "the session cannot start: Resource temporarily unavailable"),
    ] {
        let mut gateway = start(limit).exit(exit).says(told).says_anything().start();
        gateway.send_ignored("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
        assert_eq!(gateway.wait().stdout, b"", "{limit}");
    }
    // All but the workers.
    let mut gateway = start(4).says("no configuration").start();
    let reply = gateway.ask(&modern_call(1, "no_such_tool", "{}"));
    assert_eq!(outcome(&reply), ("internal", "no"), "{reply}");
    assert!(reply.to_string().contains("no room for another call"), "{reply}");
    gateway.probe();
    assert!(gateway.end().stderr.contains(r#""refusals":{"no_resources":1}"#));
}

/// A loop for which no thread is left has a writer already: it ends with it.
#[test]
fn a_loop_that_never_ran_leaves_no_thread_to_wait_for() {
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let hands = Hands::Recorder(Recorder::new(None));
    let assembled = assemble(Config::unconfigured(&|_| None), hands, Clock::System, None).unwrap();
    let (input, output) = (Input::new(far.try_clone().unwrap().into()).unwrap(), Output::new(far.into()).unwrap());
    drop(assembled.start(input, output).unwrap());
    drop(near);
}

/// Calls until the disk is full, and a few more; the codes of their outcomes.
fn fill(gateway: Gateway) -> (Vec<String>, Ended) {
    const CALLS: u32 = 60;
    let mut gateway = gateway.says_anything().start();
    let calls = (0..CALLS).map(|id| gateway.ask(&modern_call(id, "say", "{}")));
    let outcomes = calls.map(|reply| format!("{} {}", outcome(&reply).0, outcome(&reply).1)).collect();
    gateway.probe();
    (outcomes, gateway.end())
}

#[track_caller]
fn check_full(outcomes: &[String], stderr: &str) {
    let fine = outcomes.iter().take_while(|outcome| *outcome == "ok yes").count();
    assert!((1..50).contains(&fine), "{outcomes:?}");
    // One may have been carried out before its outcome found no room.
    let refused = outcomes[fine..].iter().filter(|outcome| *outcome == "journal_unavailable no").count();
    assert!(refused + 1 >= outcomes.len() - fine && refused > 0, "{outcomes:?}");
    assert!(stderr.contains("\"journal_unavailable\":"), "{stderr}");
}

#[test]
fn a_file_that_may_not_grow_costs_calls_and_not_the_session() {
    let (outcomes, ended) = fill(gateway().through(r#"ulimit -f 16; exec "$@""#));
    check_full(&outcomes, &ended.stderr);
    let types: Vec<Value> = ended.dir.journal_under("state").into_iter().map(|line| line["type"].clone()).collect();
    assert!(types.iter().filter(|kind| **kind == "intent").count() >= 1, "{types:?}");
    let files = std::fs::read_dir(ended.dir.join("state/journal")).unwrap();
    for file in files.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()) {
        let (whole, rest) = file.rsplit_once('\n').unwrap();
        assert!(whole.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{whole}");
        // What did not fit whole is taken back before the next record, and there was none.
        assert!(rest.is_empty() || file.len() >= 4096, "{rest}");
    }
}

/// The signal that comes with the limit is not passed on to commands: theirs ends them as they expect.
#[test]
fn commands_keep_the_default_of_the_signals_we_handle() {
    let script = r#"grep -E "Sig(Blk|Ign)" /proc/self/status"#;
    let argv = serde_json::to_string(&["sh", "-c", script]).unwrap();
    let tools = format!(r#"[{{"name": "signals", "description": "Shows them", "exec": {{"argv": {argv}}}}}]"#);
    let mut gateway = Gateway::of(installed()).tools(&tools).start();
    let reply = gateway.ask(&modern_call(1, "signals", "{}"));
    let shown = reply["result"]["content"][0]["text"].as_str().unwrap();
    // The C library keeps its own two, 32 and 33, from whatever it starts.
    const OURS: u64 = 0x7fff_ffff;
    for set in ["SigBlk:\t", "SigIgn:\t"] {
        let mask = shown.lines().find_map(|line| line.strip_prefix(set)).unwrap_or_else(|| panic!("no {set} in {shown}"));
        assert_eq!(u64::from_str_radix(mask, 16).unwrap() & OURS, 0, "{shown}");
    }
    gateway.end();
}

/// Everything of the state folder on a disk of a few pages, where one may be mounted; the limit above does it everywhere.
#[test]
fn a_full_disk_costs_calls_and_not_the_session() {
    let mount = "mount -t tmpfs -o size=16k none";
    let probe = std::process::Command::new("unshare").args(["-m", "sh", "-c", &format!("{mount} /mnt")]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: nothing may be mounted here");
        return;
    }
    let script = format!(r#"mkdir "$HOME/state"; exec unshare -m sh -c '{mount} "$HOME/state"; exec "$@"' sh "$@""#);
    let (outcomes, ended) = fill(gateway().through(&script));
    check_full(&outcomes, &ended.stderr);
}
