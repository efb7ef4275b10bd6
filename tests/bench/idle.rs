//! `idle`: what it costs to do nothing.

use std::time::Duration;

use super::gateway::{Gateway, TOOLS, discover};

pub(crate) fn run() {
    let mut gateway = Gateway::start(TOOLS);
    gateway.ask(&discover(1));
    let cpu = |gateway: &Gateway| {
        let stat = gateway.proc("stat");
        let fields: Vec<u64> =
            stat.rsplit(')').next().unwrap().split_whitespace().filter_map(|field| field.parse().ok()).collect();
        fields[10] + fields[11]
    };
    let before = cpu(&gateway);
    std::thread::sleep(Duration::from_secs(2));
    let status = gateway.proc("status");
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim().to_owned();
    let woken = |gateway: &Gateway| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", gateway.child.id())).unwrap().flatten();
        let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
        let switches = |text: String| {
            text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
        };
        statuses.filter_map(switches).sum::<u64>()
    };
    let wakes = woken(&gateway);
    std::thread::sleep(Duration::from_secs(2));
    println!(
        "idle: RSS {}, peak {}, threads {}, CPU ticks in 2 s {}, wake-ups in 2 s {}",
        field("VmRSS:"),
        field("VmHWM:"),
        field("Threads:"),
        cpu(&gateway) - before,
        woken(&gateway) - wakes
    );
    gateway.end();
}
