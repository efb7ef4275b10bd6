//! The mark in a child's environment, and the processes that still carry it.
//!
//! A process that left its group (`setsid`) keeps its environment, so every descendant can be found in `/proc`, unless it
//! replaced its environment or runs as a user whose processes we may not read. Such a process cannot be found; a mark is a
//! broom, not a fence. What is read of other processes is compared, wiped and never kept.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use crate::sys;

/// The environment variable that holds the mark.
pub const VARIABLE: &str = "TIDEGATE_CALL";
/// Read of one process's environment: what Linux allows for a single argument or variable.
const ENVIRONMENT_BYTES: u64 = 128 << 10;
/// Processes taken in one look; each needs a descriptor. Who kills looks again until none is left.
const BEARERS: usize = 256;

/// Looks at a process that is just replacing its program, and the pause between two of them.
const EXECVE_TRIES: usize = 20;
const EXECVE_PAUSE: Duration = Duration::from_millis(1);

/// The value that tells the processes of one call from all others: 128 random bits in hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(String);

/// A living process that carries a mark, held so that its number cannot come to mean another process.
pub(super) struct Bearer {
    pub(super) pid: i32,
    exit: OwnedFd,
}

impl Mark {
    /// A new mark. Fails only if the system has no randomness.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system has no randomness"))?;
        Ok(Mark(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// 32 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The living processes that carry the mark, but for `except`; at most `BEARERS` of them.
    pub(super) fn bearers(&self, except: i32) -> Vec<Bearer> {
        let entry = format!("{VARIABLE}={}", self.0).into_bytes();
        let mut buffer = Zeroizing::new(Vec::with_capacity(4096));
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
        let mut found = Vec::new();
        for pid in pids.filter(|pid| *pid != except) {
            if found.len() == BEARERS {
                break;
            }
            if !carries(pid, &entry, &mut buffer) {
                continue;
            }
            // The number may have changed hands before the descriptor was opened, but cannot afterwards.
            if let Ok(exit) = sys::open_process(pid)
                && carries(pid, &entry, &mut buffer)
            {
                found.push(Bearer { pid, exit });
            }
        }
        found
    }
}

impl Bearer {
    pub(super) fn signal(&self, signal: sys::Signal) {
        // It may have ended by itself.
        let _ = sys::signal_process(self.exit.as_fd(), signal);
    }

    /// Readable once the process has ended.
    pub(super) fn exit(&self) -> BorrowedFd<'_> {
        self.exit.as_fd()
    }
}

/// Whether the environment of process `pid` has the whole `entry`. An ended process has no environment.
fn carries(pid: i32, entry: &[u8], buffer: &mut Vec<u8>) -> bool {
    for _ in 0..EXECVE_TRIES {
        read(pid, "environ", buffer);
        if buffer.is_empty() && is_complete(pid, buffer) {
            read(pid, "environ", buffer);
            return has(buffer, entry);
        }
        if !buffer.is_empty() {
            return has(buffer, entry);
        }
        // Within execve the old environment is gone and the new one not there yet: it must not slip through.
        let _ = sys::poll(&mut [], Some(EXECVE_PAUSE));
    }
    false
}

/// Whether an empty environment may be the last word: no program (ended, kernel thread, not ours to see), or a whole one.
fn is_complete(pid: i32, buffer: &mut Vec<u8>) -> bool {
    let is_program = fs::read_link(format!("/proc/{pid}/exe")).is_ok();
    read(pid, "cmdline", buffer);
    let has_arguments = !buffer.is_empty();
    buffer.clear();
    !is_program || has_arguments
}

fn has(environment: &[u8], entry: &[u8]) -> bool {
    environment.split(|byte| *byte == 0).any(|variable| variable == entry)
}

fn read(pid: i32, name: &str, buffer: &mut Vec<u8>) {
    buffer.clear();
    if let Ok(file) = File::open(format!("/proc/{pid}/{name}")) {
        // A part that could be read before an error is looked at as well.
        let _ = file.take(ENVIRONMENT_BYTES).read_to_end(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_long_and_never_the_same() {
        let (first, second) = (Mark::random().unwrap(), Mark::random().unwrap());
        assert_ne!(first, second);
        assert_eq!(first.as_str().len(), 32);
        assert!(first.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(first.bearers(0).is_empty());
    }
}
