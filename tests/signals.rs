//! SIGTERM and SIGINT at every moment of a start and a session: a clean end, or death by the signal before the first byte;
//! stdout holds whole lines, and nothing that ran is left.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tidegate::sys::{self, Signal};

use crate::kit::gateway::Gateway;
use crate::kit::installed::installed;
use crate::kit::process::{mark, until, with_mark};
use crate::kit::schema::check_stdout;
use crate::kit::{handshake, modern_call};

const SIGTERM: i32 = 15;
const SIGINT: i32 = 2;
/// Exit after the signal, with room for a busy machine.
const END: Duration = Duration::from_secs(5);

/// When the signal is sent.
#[derive(Debug, Clone, Copy)]
enum Moment {
    After(Duration),
    AtByte(usize),
}

fn send(child: &Child, signal: i32) {
    if signal == SIGTERM {
        let process = sys::open_process(child.id().try_into().unwrap()).unwrap();
        // It may have ended.
        let _ = sys::signal_process(process.as_fd(), Signal::Term);
    } else {
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    }
}

/// A session with calls that end and one that does not; returns how many bytes it had written.
#[track_caller]
fn check(signal: i32, moment: Moment) -> usize {
    let mark = mark();
    let tools = format!(
        r#"[{{"name": "say", "description": "Says it", "exec": {{"argv": ["echo", "said"]}}}},
            {{"name": "wait", "description": "Waits", "exec": {{"argv": ["sh", "-c", "sleep {mark} & wait; : {mark}"]}}}}]"#
    );
    let mut gateway = Gateway::of(installed()).tools(&tools);
    let mut command = gateway.command();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = handshake("2025-11-25").to_vec();
    lines.push(modern_call(1, "wait", "{}"));
    lines.extend((2..=6).map(|id| modern_call(id, "say", "{}")));
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all((lines.join("\n") + "\n").as_bytes());
    let (mut stdout, mut written) = (child.stdout.take().unwrap(), Vec::new());
    match moment {
        Moment::After(delay) => std::thread::park_timeout(delay),
        Moment::AtByte(count) => {
            (&mut stdout).take(count as u64).read_to_end(&mut written).unwrap();
        }
    }
    let sent = Instant::now();
    send(&child, signal);
    stdout.read_to_end(&mut written).unwrap();
    let output = child.wait_with_output().unwrap();
    let (status, stderr) = (output.status, String::from_utf8(output.stderr).unwrap());
    drop(stdin);
    let told = format!("{moment:?}: {status:?}\nstdout: {}\nstderr: {stderr}", String::from_utf8_lossy(&written));
    assert!(sent.elapsed() < END, "{told}");
    match status.code() {
        Some(code) => {
            assert_eq!(code, 0, "{told}");
            assert!(stderr.starts_with("{\"frames_in\":") && stderr.lines().count() == 1, "{told}");
        }
        // Nothing of ours was there yet to receive it.
        None => assert_eq!((status.signal(), written.len(), stderr.as_str()), (Some(signal), 0, ""), "{told}"),
    }
    check_stdout(&written).unwrap_or_else(|problem| panic!("{problem}\n{told}"));
    until("nothing is left", || with_mark(&mark).is_empty());
    written.len()
}

#[test]
fn a_signal_at_any_time_of_the_start_is_an_end() {
    const STEP: Duration = Duration::from_micros(400);
    for step in 0..30 {
        check(SIGTERM, Moment::After(STEP * step));
        check(SIGINT, Moment::After(STEP * step));
    }
}

#[test]
fn a_signal_at_any_byte_of_the_output_is_an_end() {
    for signal in [SIGTERM, SIGINT] {
        let least = check(signal, Moment::AtByte(1));
        assert!(least > 1);
        // Up to the replies of the calls that end; the last one is cancelled.
        for byte in (0..=2600).step_by(130) {
            check(signal, Moment::AtByte(byte));
        }
    }
}
