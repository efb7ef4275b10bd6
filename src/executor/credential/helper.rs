//! Has a credential's value from a program: bare environment, no shell, no standard input, bounded in time and in bytes.
//!
//! What it prints is held in wiped memory and shown to nobody; stderr is read and thrown away, for it may hold the secret too.
//! Helper, group and strays have ended when this returns, or were let go after KILL, as with any command.
//!
//! ```text
//! running ── helper ended ──▶ draining (until its output ends, or 200 ms) ──▶ KILL to what is left, reap ──▶ value
//!    └── cancel, deadline, time limit, too much output ──▶ stopping (TERM; until all ended, or 500 ms) ──┘
//! ```

use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use zeroize::Zeroizing;

use crate::cancel::Kill;
use crate::executor::credential::error::{Cause, Stop};
use crate::executor::credential::file::ROOM;
use crate::executor::credential::{Helper, Limit, accept_line};
use crate::limits::{DRAIN, KILL_TO_DETACHED, TERM_TO_KILL};
use crate::outcome::result::Ended;
use crate::process::mark::Mark;
use crate::process::{self, Child, End, Spec, Status, Stdin};
use crate::secret::{Secret, SecretError};
use crate::sys::{self, Poll};

/// One read of what is thrown away.
const SCRATCH_BYTES: usize = 4 << 10;

/// Runs the helper once. Returns at the latest 2.5 s after the call's deadline, the helper's time limit or the cancel.
pub(super) fn run(helper: &Helper, limit: Limit<'_>) -> Result<Secret, Stop> {
    if limit.token.is_cancelled() {
        return Err(Stop::Cancelled(None));
    }
    if Instant::now() >= limit.until {
        return Err(Stop::TimedOut(None));
    }
    let child = spawn(helper).map_err(Stop::Failed)?;
    let handle: Arc<dyn Kill> = child.group();
    // If a cancel came meanwhile, the loop sees the flag before it waits for anything.
    limit.token.register(&handle);
    let mut work = Work::new(child, Instant::now() + helper.timeout);
    work.watch(limit).map_err(|error| Stop::Failed(Cause::Unwatched(error.to_string())))?;
    work.finish(helper)
}

fn spawn(helper: &Helper) -> Result<Child, Cause> {
    let mark = Mark::random().map_err(|error| Cause::NotStarted(error.to_string()))?;
    let inherited = helper.inherit.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
    let env: Vec<(String, String)> = helper.env.iter().cloned().chain(inherited).collect();
    let spec = Spec { argv: &helper.argv, env: &env, cwd: Path::new("/"), mark, stdin: Stdin::Null };
    process::spawn(&spec).map_err(|error| Cause::NotStarted(error.to_string()))
}

/// A running helper.
struct Work {
    child: Child,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    /// `ROOM` bytes, of which `filled` were printed.
    value: Zeroizing<Vec<u8>>,
    filled: usize,
    scratch: Zeroizing<[u8; SCRATCH_BYTES]>,
    slow_at: Instant,
    phase: Phase,
}

enum Phase {
    Running,
    /// The helper has ended; what is in the pipe is still read.
    Draining {
        until: Instant,
    },
    /// Asked to end.
    Stopping {
        why: Why,
        kill_at: Instant,
    },
}

#[derive(Clone, Copy)]
enum Why {
    Cancelled,
    CallOver,
    TooSlow,
    TooLong,
}

impl Work {
    fn new(mut child: Child, slow_at: Instant) -> Self {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (value, scratch) = (Zeroizing::new(vec![0; ROOM]), Zeroizing::new([0; SCRATCH_BYTES]));
        Work { child, stdout, stderr, value, filled: 0, scratch, slow_at, phase: Phase::Running }
    }

    /// Reads and waits until the helper is over, or has to be killed. Fails only if poll(2) does.
    fn watch(&mut self, limit: Limit<'_>) -> std::io::Result<()> {
        while !self.is_over(limit) {
            self.wait(limit)?;
            self.read();
        }
        Ok(())
    }

    /// Moves on to the next phase where it is due. True once nothing is worth waiting for.
    fn is_over(&mut self, limit: Limit<'_>) -> bool {
        // In this order: `kill_now` sets the flag first, so an end it brought about is never taken for the helper's own.
        let ended = self.child.has_ended();
        let now = Instant::now();
        if !matches!(self.phase, Phase::Stopping { .. }) {
            if limit.token.is_cancelled() {
                self.stop(Why::Cancelled, now);
            } else if self.filled == ROOM {
                self.stop(Why::TooLong, now);
            } else if matches!(self.phase, Phase::Running) && ended {
                self.phase = Phase::Draining { until: now + DRAIN };
            } else if matches!(self.phase, Phase::Running) && now >= limit.until {
                self.stop(Why::CallOver, now);
            } else if matches!(self.phase, Phase::Running) && now >= self.slow_at {
                self.stop(Why::TooSlow, now);
            }
        }
        match self.phase {
            Phase::Running => false,
            Phase::Draining { until } => now >= until || self.stdout.is_none(),
            Phase::Stopping { kill_at, .. } => self.child.is_over() || now >= kill_at,
        }
    }

    fn stop(&mut self, why: Why, now: Instant) {
        self.child.ask_to_end();
        self.phase = Phase::Stopping { why, kill_at: now + TERM_TO_KILL };
    }

    /// Sleeps until something can be read, somebody ended, the cancel came (while it is news), or time is up.
    fn wait(&self, limit: Limit<'_>) -> std::io::Result<()> {
        let (until, cancel) = match self.phase {
            Phase::Running => (self.slow_at.min(limit.until), Some(limit.token.wake_fd())),
            Phase::Draining { until } => (until, Some(limit.token.wake_fd())),
            Phase::Stopping { kill_at, .. } => (kill_at, None),
        };
        let pipes = [&self.stdout, &self.stderr].into_iter().flatten().map(AsFd::as_fd);
        let mut fds: Vec<Poll<'_>> = pipes.chain(self.child.exits()).chain(cancel).map(Poll::readable).collect();
        sys::poll(&mut fds, Some(until.saturating_duration_since(Instant::now())))
    }

    /// Takes what is there of the value, while there is room, and throws away what is there of the rest.
    fn read(&mut self) {
        if self.filled < ROOM {
            self.filled += read(&mut self.stdout, &mut self.value[self.filled..]);
        } else {
            read(&mut self.stdout, &mut self.scratch[..]);
        }
        read(&mut self.stderr, &mut self.scratch[..]);
    }

    /// Ends and reaps whatever is left, and says what came of it.
    fn finish(mut self, helper: &Helper) -> Result<Secret, Stop> {
        let end = self.child.end(KILL_TO_DETACHED);
        let failed = |cause| Err(Stop::Failed(cause));
        match self.phase {
            Phase::Stopping { why: Why::Cancelled, .. } => Err(Stop::Cancelled(Some(ended(end)))),
            Phase::Stopping { why: Why::CallOver, .. } => Err(Stop::TimedOut(Some(ended(end)))),
            Phase::Stopping { why: Why::TooSlow, .. } => failed(Cause::TooSlow(helper.timeout)),
            Phase::Stopping { why: Why::TooLong, .. } => failed(Cause::Unfit(SecretError::TooLong)),
            Phase::Running | Phase::Draining { .. } => match end.status {
                Some(Status::Exited(0)) => accept_line(&self.value[..self.filled]).map_err(Stop::Failed),
                Some(Status::Exited(status)) => failed(Cause::Failed(status)),
                Some(Status::Signalled(signal)) => failed(Cause::Killed(signal)),
                None => failed(Cause::Unwatched("its exit status was lost".to_owned())),
            },
        }
    }
}

/// One read of a pipe, which is gone once it has ended; how many bytes came.
fn read(pipe: &mut Option<OwnedFd>, into: &mut [u8]) -> usize {
    let Some(fd) = &*pipe else { return 0 };
    match sys::read(fd.as_fd(), into) {
        Ok(0) => *pipe = None,
        Ok(count) => return count,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
        Err(_) => *pipe = None,
    }
    0
}

fn ended(end: End) -> Ended {
    if end.alive == 0 { Ended::Dead } else { Ended::Detached }
}

#[cfg(test)]
mod tests;
