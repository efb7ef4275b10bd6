//! Sixteen commands that ignore TERM at the end of the session: gone, and the gateway with them, within its limit.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use serde_json::json;

use tidegate::sys::{self, Poll};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::process::{mark, until, with_mark};
use crate::kit::{PATIENCE, modern_call, within};

/// The end takes 2 s at most; what is beyond that is the machine's.
const END: Duration = Duration::from_millis(2500);

/// From `event` until the gateway and all that its commands have started are seen to end, each by a descriptor of its own.
#[track_caller]
fn check(name: &str, event: impl Fn(&mut Running)) {
    const PROCESSES: usize = 16 * 2;
    let took = within(END, || {
        let mark = mark();
        let script = "trap '' TERM; sleep \"$0\" & while :; do wait; done";
        let tools = json!([{"name": "stay", "description": "Stays", "exec": {"argv": ["sh", "-c", script, &mark]}}]);
        let mut gateway = Gateway::new().set("tools", tools).says_anything().start();
        (1..=16).for_each(|id| gateway.send(&modern_call(id, "stay", "{}")));
        until("all commands run", || with_mark(&mark).len() == PROCESSES);
        let open = |pid: u32| sys::open_process(pid.try_into().unwrap()).unwrap();
        let ends: Vec<OwnedFd> = with_mark(&mark).into_iter().chain([gateway.pid()]).map(open).collect();
        assert_eq!(ends.len(), PROCESSES + 1);
        let began = Instant::now();
        event(&mut gateway);
        ends.iter().for_each(wait_for_end);
        let took = began.elapsed();
        assert!(with_mark(&mark).is_empty());
        gateway.wait();
        took
    });
    eprintln!("flow: sixteen commands that ignore TERM and the gateway, gone after {name}: {took:?}");
}

#[track_caller]
fn wait_for_end(process: &OwnedFd) {
    let mut fds = [Poll::readable(process.as_fd())];
    sys::poll(&mut fds, Some(PATIENCE)).unwrap();
    assert!(fds[0].is_ready(), "a process does not end");
}

#[test]
fn sixteen_commands_that_ignore_term_are_gone_after_the_end_of_file() {
    check("end of file", Running::close_stdin);
}

#[test]
fn sixteen_commands_that_ignore_term_are_gone_after_sigterm() {
    check("SIGTERM", |gateway| gateway.signal("TERM"));
}
