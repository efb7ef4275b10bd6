//! What the process table says.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

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

/// Fails if a process whose command line holds `mark` is there.
#[track_caller]
pub fn check_gone(mark: &str) {
    let left: Vec<String> = with_mark(mark).into_iter().map(command_line).collect();
    assert!(left.is_empty(), "still running: {left:?}");
}

fn command_line(pid: u32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).replace('\0', " ")
}

/// A number of seconds that no other test sleeps for: `sleep MARK` is found by `with_mark`.
pub fn mark() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("3000.{}{:04}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// User and system time of a process, in steps of 10 ms; `None` once it is gone or a zombie.
pub fn cpu(pid: u32) -> Option<Duration> {
    const TICK_MS: u64 = 10;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    (fields.first() != Some(&"Z")).then_some(())?;
    Some(Duration::from_millis((ticks(11)? + ticks(12)?) * TICK_MS))
}

/// Waits until `is_so` holds, looking again and again; fails with `what` if it never does.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(2));
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

/// A TCP socket of somebody who connects or has connected to a port on loopback.
#[derive(Debug)]
pub struct Connection {
    /// The connection is not yet made.
    pub is_connecting: bool,
    /// Bytes that have arrived and are not read.
    pub unread: u64,
}

/// The client ends of connections to a port on loopback.
pub fn connections(port: u16) -> Vec<Connection> {
    let peer = format!("0100007F:{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[2] == peer && matches!(row[3], "01" | "02"))
        .map(|row| Connection {
            is_connecting: row[3] == "02",
            unread: u64::from_str_radix(row[4].split(':').nth(1).unwrap(), 16).unwrap(),
        })
        .collect()
}

/// Names of the threads of a process.
pub fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

/// The most memory a process ever had, in KiB.
pub fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a running process has a peak");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
