//! Looks at the argument list and the environment of every process, again and again, for as long as calls run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::needle::Needles;

/// Between two looks at the whole process table.
const PAUSE: Duration = Duration::from_millis(6);

/// Owns the thread that looks.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What was seen.
#[derive(Default)]
pub struct Seen {
    /// Where a canary was: what of which process, and whose.
    pub leaks: BTreeSet<String>,
    /// Programs that were looked at.
    pub programs: BTreeSet<String>,
}

impl Watch {
    /// Looks at all but `except`, and at whatever still is a copy of that process: a child before its program has begun.
    pub fn start(needles: Arc<Needles>, except: u32) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !stopped.load(Ordering::SeqCst) {
                look(&needles, except, &mut seen);
                std::thread::park_timeout(PAUSE);
            }
            seen
        });
        Watch { stop, thread }
    }

    /// What was seen until now.
    pub fn finish(self) -> Seen {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn look(needles: &Needles, except: u32, seen: &mut Seen) {
    let its_program = fs::read_link(format!("/proc/{except}/exe")).ok();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| *pid != except) {
        // First: a process may become another program, but never again the gateway's.
        let Ok(program) = fs::read_link(format!("/proc/{pid}/exe")) else { continue };
        if Some(&program) == its_program.as_ref() {
            continue;
        }
        seen.programs.insert(name(&program));
        for what in ["cmdline", "environ"] {
            let bytes = fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            if let Some(whose) = needles.found_raw(&bytes) {
                seen.leaks.insert(format!("{whose} in {what} of {}", name(&program)));
            }
        }
    }
}

fn name(program: &Path) -> String {
    program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[test]
fn a_canary_in_an_argument_or_a_variable_is_seen() {
    use super::needle::Canary;
    use crate::kit::process::until;
    let canaries = [Canary::new("argument"), Canary::new("variable")];
    let needles = Arc::new(Needles::of(&canaries));
    let watch = Watch::start(needles.clone(), 0);
    let mut child = std::process::Command::new("sh")
        .args(["-c", "read line", "sh", &canaries[0].value])
        .env("VARIABLE", &canaries[1].value)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = Seen::default();
    until("both are there", || {
        look(&needles, 0, &mut seen);
        seen.leaks.len() >= 2
    });
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(seen.leaks.iter().any(|leak| leak.starts_with("argument in cmdline of ")), "{:?}", seen.leaks);
    assert!(seen.leaks.iter().any(|leak| leak.starts_with("variable in environ of ")), "{:?}", seen.leaks);
    watch.finish();
}
