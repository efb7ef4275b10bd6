//! What the process table says.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::PATIENCE;

/// Whether the process is there and no zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// Every process whose command line holds `mark`, but for ourselves.
pub fn with_mark(mark: &str) -> Vec<u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    pids.filter(|pid| *pid != own && is_alive(*pid) && command_line(*pid).contains(mark)).collect()
}

fn command_line(pid: u32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).replace('\0', " ")
}

/// Waits until `is_so` holds, looking again and again; fails with `what` if it never does.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
        std::thread::park_timeout(std::time::Duration::from_millis(2));
    }
}

/// Waits until a file holds something and returns it.
#[track_caller]
pub fn written(path: &Path) -> String {
    let mut text = String::new();
    until(&format!("{} written", path.display()), || {
        text = fs::read_to_string(path).unwrap_or_default();
        text.ends_with('\n')
    });
    text
}

/// Names of the threads of a process.
pub fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}
