//! A disk that is full, read-only or does not answer: nothing is done without a record, the session lives, and recovery needs no
//! restart.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{check_sound, journal, lines};
use crate::kit::dir::Dir;
use crate::kit::gateway::{Gateway, Running};
use crate::kit::installed::{installed, preload_object};
use crate::kit::process::until;
use crate::kit::{cancel, modern_call};

/// The installed gateway with a tool `note`.
fn gateway() -> Gateway {
    noting(Gateway::of(installed()))
}

/// Gives a gateway the tool `note`, which adds a line to the file `target`.
fn noting(gateway: Gateway) -> Gateway {
    let script = format!("echo done >> {}", gateway.dir().join("target").display());
    gateway.set("tools", json!([{"name": "note", "description": "Notes", "exec": {"argv": ["sh", "-c", script]}}]))
}

fn done(dir: &Dir) -> usize {
    dir.read("target").lines().count()
}

/// Code and `executed` of the outcome of a call.
fn call(running: &mut Running, id: usize) -> (String, String) {
    let reply = running.ask(&modern_call(id, "note", "{}"));
    let outcome = &reply["result"]["_meta"]["tidegate/outcome"];
    let text = |value: &Value| value.as_str().unwrap_or("ok").to_owned();
    (text(&outcome["code"]), text(&outcome["executed"]))
}

/// Nothing is done while it cannot be recorded, and the session lives; after `repair` it goes on.
#[track_caller]
fn check_refused_and_recovered(mut running: Running, repair: impl FnOnce(&Running)) {
    let before = done(&running.dir);
    for id in 1000..1003 {
        assert_eq!(call(&mut running, id), ("journal_unavailable".to_owned(), "no".to_owned()), "{}", running.story());
    }
    running.probe();
    assert_eq!(done(&running.dir), before, "nothing was done");
    repair(&running);
    for id in 2000..2003 {
        assert_eq!(call(&mut running, id), ("ok".to_owned(), "yes".to_owned()), "{}", running.story());
    }
    assert_eq!(done(&running.dir), before + 3);
    let ended = running.end();
    let verdict = check_sound(&ended.dir.join("state"));
    assert_eq!((&verdict["unknown"], &verdict["torn"]), (&json!(0), &json!(0)), "{verdict}");
}

#[track_caller]
fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn pid(running: &Running) -> String {
    running.pid().to_string()
}

/// The soft limit of file sizes is what a full disk is to one process; it can be raised from outside.
#[test]
fn a_full_disk_executes_nothing_and_recovers() {
    // 8 KiB in blocks of 512 bytes.
    let mut running = gateway().through(r#"ulimit -S -f 16; exec "$@""#).says_anything().start();
    let outcomes: Vec<_> = (0..40).map(|id| call(&mut running, id)).collect();
    let fine = outcomes.iter().take_while(|(code, _)| code == "ok").count();
    assert!((1..40).contains(&fine), "{outcomes:?}");
    // The last one may have been done before its outcome found no room, which its reply says.
    let unrecorded =
        outcomes.iter().filter(|outcome| **outcome == ("journal_unavailable".to_owned(), "yes".to_owned())).count();
    assert_eq!(done(&running.dir), fine + unrecorded);
    assert!(unrecorded <= 1 && outcomes[fine + unrecorded..].iter().all(|(_, executed)| executed == "no"), "{outcomes:?}");
    check_refused_and_recovered(running, |running| run("prlimit", &["--pid", &pid(running), "--fsize=unlimited:"]));
}

/// A folder that is mounted read-only, where one may be mounted; elsewhere one that nobody may write.
#[test]
fn a_read_only_state_folder_executes_nothing_and_recovers() {
    let may_mount = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if may_mount {
        let mount = r#"mkdir "$HOME/state"; mount --bind "$HOME/state" "$HOME/state"; mount -o remount,bind,ro "$HOME/state""#;
        let script = format!(r#"exec unshare -m sh -c '{mount}; exec "$@"' sh "$@""#);
        let running = gateway().through(&script).says_anything().start();
        check_refused_and_recovered(running, |running| {
            let state = running.dir.join("state");
            run("nsenter", &["-t", &pid(running), "-m", "mount", "-o", "remount,bind,rw", state.to_str().unwrap()]);
        });
    } else {
        let gateway = gateway().says_anything();
        let state = gateway.dir().join("state");
        std::fs::create_dir(&state).unwrap();
        set_mode(&state, 0o500);
        check_refused_and_recovered(gateway.start(), |_| set_mode(&state, 0o700));
    }
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A gateway whose fdatasync does not come back while there is a file `stalled`.
fn stalled() -> (Running, std::path::PathBuf) {
    let gateway = gateway();
    let marker = gateway.dir().write("stalled", "");
    (stalling(gateway, &marker).says_anything().start(), marker)
}

fn stalling(gateway: Gateway, marker: &Path) -> Gateway {
    gateway.preload(&[preload_object("stalled_sync.c")]).env("STALLED_SYNC", marker.to_str().unwrap())
}

/// Not only the first one, behind which the start of the journal is noted.
#[test]
fn each_call_waits_for_its_own_intent_to_be_on_disk() {
    let gateway = noting(Gateway::new());
    let marker = gateway.dir().join("stalled");
    let mut running = stalling(gateway, &marker).start();
    assert_eq!(call(&mut running, 1), ("ok".to_owned(), "yes".to_owned()));
    std::fs::write(&marker, "").unwrap();
    running.send(&modern_call(2, "note", "{}"));
    until("the disk is asked", || running.dir.join("stalled.asked").exists() || done(&running.dir) > 1);
    assert!(running.probe().is_empty(), "no call is answered");
    assert_eq!(done(&running.dir), 1, "nothing is done before its intent is on disk");
    std::fs::remove_file(marker).unwrap();
    let reply = running.reply("2");
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    assert_eq!(done(&running.end().dir), 2);
}

/// The intent stands in the file before its call is done, and is waited for until it is on disk.
#[test]
fn a_stalled_disk_holds_calls_and_neither_the_reader_nor_a_cancel() {
    let (mut running, marker) = stalled();
    for id in 0..4 {
        running.send(&modern_call(id, "note", "{}"));
    }
    until("the disk is asked", || running.dir.join("stalled.asked").exists());
    assert!(running.probe().is_empty(), "no call is answered");
    running.send(&cancel(1));
    running.send(&cancel(2));
    // The slots of cancelled calls are free as soon as their workers let go, which no disk delays.
    let busy = |running: &mut Running| {
        let reply = running.ask(r#"{"jsonrpc":"2.0","id":"status","method":"tools/call","params":{"name":"tidegate_status","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#);
        reply["result"]["structuredContent"]["calls_under_way"].as_u64().unwrap()
    };
    until("cancelled calls are gone", || busy(&mut running) == 2);
    assert_eq!(done(&running.dir), 0, "nothing is done before its intent is on disk");
    std::fs::remove_file(marker).unwrap();
    for id in [0, 3] {
        let reply = running.reply(&id.to_string());
        assert_eq!(reply["result"]["isError"], false, "{reply}");
    }
    let ended = running.end();
    assert_eq!(done(&ended.dir), 2);
    let verdict = check_sound(&ended.dir.join("state"));
    assert_eq!(verdict["unknown"], 0, "{verdict}");
    let cancelled = ended.dir.journal_under("state").into_iter().filter(|line| line["code"] == "cancelled");
    assert!(cancelled.into_iter().all(|line| line["executed"] == "no"));
}

#[test]
fn a_stalled_disk_does_not_hold_the_end() {
    const END: Duration = Duration::from_millis(3500);
    let (mut running, _marker) = stalled();
    running.send(&modern_call(1, "note", "{}"));
    until("the disk is asked", || running.dir.join("stalled.asked").exists());
    let began = Instant::now();
    let ended = running.end();
    assert!(began.elapsed() < END, "{:?}", began.elapsed());
    assert_eq!(done(&ended.dir), 0);
}

/// Many processes, small files: one chain each, continued from file to file.
#[test]
fn files_are_continued_and_processes_share_the_folder() {
    let start = || {
        let gateway = gateway().set("journal", json!({"file_bytes": 65_536}));
        gateway.says_anything().start()
    };
    let mut running = start();
    let calls: Vec<String> = (0..150).map(|id| modern_call(id, "note", "{}")).collect();
    for some in calls.chunks(30) {
        some.iter().for_each(|call| running.send(call));
        for id in some.iter().map(|call| serde_json::from_str::<Value>(call).unwrap()["id"].to_string()) {
            running.reply(&id);
        }
    }
    let state = running.dir.join("state");
    let said = journal(&["verify", "--json", "--state-dir", state.to_str().unwrap()]);
    let states: Vec<Value> = lines(&said.stdout).into_iter().filter(|line| line["type"] == "file").collect();
    let in_use = states.iter().filter(|line| line["state"] == "in use").count();
    assert!(states.len() > 2 && in_use == 1, "{}", said.stdout);
    let ended = running.end();
    let verdict = check_sound(&ended.dir.join("state"));
    assert_eq!((&verdict["unknown"], &verdict["torn"]), (&json!(0), &json!(0)));
    let outcomes = ended.dir.journal_under("state").into_iter().filter(|line| line["type"] == "outcome").count();
    assert_eq!(outcomes, 150);
}
