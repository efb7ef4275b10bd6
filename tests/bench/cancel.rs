//! `cancel`: from the cancel's line to the death of the command, seen through a descriptor of its process; beside a signal of
//! our own to the same command, started by ourselves.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tidegate::sys::{self, Poll, Signal};

use super::gateway::{Gateway, META, show};

const RUNS: usize = 200;
/// Says its process id into a FIFO and waits; dies on TERM.
const SCRIPT: &str = r#"echo $$ > "$0"; exec sleep 1000"#;

/// The process that has just said its id. Opening the FIFO waits for it.
fn started(fifo: &Path) -> OwnedFd {
    let pid = fs::read_to_string(fifo).unwrap();
    sys::open_process(pid.trim().parse().unwrap()).unwrap()
}

/// From now to the death of the process that `end` ends.
fn death(process: &OwnedFd, end: impl FnOnce()) -> Duration {
    let start = Instant::now();
    end();
    sys::poll(&mut [Poll::readable(process.as_fd())], None).unwrap();
    start.elapsed()
}

pub(crate) fn run() {
    let folder = std::env::temp_dir().join(format!("tidegate-bench-cancel-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let fifo = folder.join("pid");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let argv = format!("[\"sh\", \"-c\", {}, \"{}\"]", serde_json::to_string(SCRIPT).unwrap(), fifo.display());
    let mut gateway =
        Gateway::start(&format!(r#""tools": [{{"name": "wait", "description": "Waits", "exec": {{"argv": {argv}}}}}]"#));
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for id in 0..RUNS {
        let call = format!("\"name\":\"wait\",{META}");
        gateway.send(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{{call}}}}}\n"));
        let process = started(&fifo);
        let cancel =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n");
        ours.push(death(&process, || gateway.send(&cancel)));
        let mut child = Command::new("sh").args(["-c", SCRIPT]).arg(&fifo).spawn().unwrap();
        let process = started(&fifo);
        bare.push(death(&process, || sys::signal_process(process.as_fd(), Signal::Term).unwrap()));
        child.wait().unwrap();
    }
    show("cancel: line to death of the command", ours);
    show("  beside: TERM from here", bare);
    gateway.end();
    fs::remove_dir_all(folder).unwrap();
}
