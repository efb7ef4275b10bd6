//! `drain`: 10 GiB of a command's output through the default budget of 32 KiB; beside the same output through a pipe into `cat`.
//!
//! `TIDEGATE_BENCH_DRAIN=100M`, or any size `head -c` takes, makes it a quick check.

use std::process::Command;
use std::time::{Duration, Instant};

use super::gateway::{Gateway, META};

const ROUNDS: usize = 2;

pub(crate) fn run() {
    let size = std::env::var("TIDEGATE_BENCH_DRAIN").unwrap_or_else(|_| "10G".to_owned());
    let mut gateway = Gateway::start(&format!(
        r#""tools": [{{"name": "drain", "description": "Says much", "timeout_s": 3000,
                      "exec": {{"argv": ["head", "-c", "{size}", "/dev/zero"]}}}}]"#
    ));
    let params = format!("\"name\":\"drain\",{META}");
    let (mut bytes, mut ours, mut bare) = (0, Duration::MAX, Duration::MAX);
    gateway.ask("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ping\"}\n");
    let before = peak(&gateway);
    for id in 1..=ROUNDS {
        let call = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{{params}}}}}\n");
        let start = Instant::now();
        let answer = gateway.answer(&call);
        ours = ours.min(start.elapsed());
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        bytes = answer["result"]["structuredContent"]["stdout"]["bytes"].as_u64().unwrap();
        let start = Instant::now();
        let script = r#"head -c "$0" /dev/zero | cat > /dev/null"#;
        assert!(Command::new("sh").args(["-c", script, &size]).status().unwrap().success());
        bare = bare.min(start.elapsed());
    }
    let gib = bytes as f64 / f64::from(1 << 30);
    let speed = |time: Duration| gib / time.as_secs_f64();
    println!(
        "drain: {gib:.2} GiB of a command's output: {:.2} GiB/s, peak memory {before} before, {} after (best of {ROUNDS})",
        speed(ours),
        peak(&gateway)
    );
    println!("  beside: the same into cat > /dev/null: {:.2} GiB/s", speed(bare));
    gateway.end();
}

fn peak(gateway: &Gateway) -> String {
    let status = gateway.proc("status");
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("?").trim().to_owned()
}
