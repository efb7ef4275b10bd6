//! Runs a child to its end in bounded time: feeds its stdin, drains its output, ends it on cancel, deadline or unwanted output.
//!
//! For small helpers of the gateway itself; commands of tools have their own loop with budgets. Child, group and strays have ended when
//! this returns, or were let go after KILL. Nothing here keeps or shows what a child prints.
//!
//! ```text
//! running ── child ended ──▶ draining (until stdout ends, or 200 ms) ──▶ KILL to what is left, reap ──▶ Finished
//!    └── cancel, deadline, output refused ──▶ stopping (TERM; until all ended, or 500 ms) ──┘
//! ```

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use zeroize::Zeroizing;

use crate::cancel::{CancelToken, Kill};
use crate::limits::{DRAIN, KILL_TO_DETACHED, TERM_TO_KILL};
use crate::process::{Child, End};
use crate::sys::{self, Poll};

/// One read of a pipe.
const READ_BYTES: usize = 4 << 10;

/// Takes what a child prints.
pub trait Output {
    /// The next bytes of stdout. `Refused` ends the child; what it prints after that is thrown away.
    fn stdout(&mut self, bytes: &[u8]) -> Taken;
    /// The next bytes of stderr.
    fn stderr(&mut self, bytes: &[u8]);
}

/// Whether output is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is.
    Wanted,
    /// It is too much, or wrong.
    Refused,
}

/// Why a child was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The cancel came.
    Cancelled,
    /// The deadline passed before its end was seen.
    Late,
    /// Its output was refused.
    Refused,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// Why it was asked to; `None` if it ended by itself, or by somebody else's signal, in time.
    pub stopped: Option<Stopped>,
    /// What was seen.
    pub end: End,
}

/// Runs `child` to its end. `input` is written to its stdin, if that is a pipe, and then its end; a child that does not read it is none
/// the worse for it. Returns at the latest 2.5 s after the cancel or `until`. Fails if poll(2) does; the child is ended then, too.
pub fn run(child: Child, input: &[u8], output: &mut dyn Output, token: &CancelToken, until: Instant) -> io::Result<Finished> {
    let handle: Arc<dyn Kill> = child.group();
    // If a cancel came meanwhile, the loop sees the flag before it waits for anything.
    token.register(&handle);
    let mut work = Work::new(child, input, output);
    while !work.is_over(token, until) {
        work.wait(token, until)?;
        work.write();
        work.read();
    }
    Ok(work.finish())
}

/// A running child.
struct Work<'a> {
    child: Child,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    input: &'a [u8],
    output: &'a mut dyn Output,
    taken: Taken,
    /// What is printed may be a secret.
    buffer: Zeroizing<Vec<u8>>,
    phase: Phase,
}

enum Phase {
    Running,
    /// The child has ended; what is in the pipes is still read.
    Draining {
        until: Instant,
    },
    /// Asked to end.
    Stopping {
        why: Stopped,
        kill_at: Instant,
    },
}

impl<'a> Work<'a> {
    fn new(mut child: Child, input: &'a [u8], output: &'a mut dyn Output) -> Self {
        let [stdin, stdout, stderr] = [child.stdin.take(), child.stdout.take(), child.stderr.take()];
        let buffer = Zeroizing::new(vec![0; READ_BYTES]);
        Work { child, stdin, stdout, stderr, input, output, taken: Taken::Wanted, buffer, phase: Phase::Running }
    }

    /// Moves on to the next phase where it is due. True once nothing is worth waiting for.
    fn is_over(&mut self, token: &CancelToken, until: Instant) -> bool {
        // In this order: `kill_now` sets the flag first, so an end it brought about is never taken for the child's own. An end that
        // is seen only after the deadline is late.
        let ended = self.child.has_ended();
        let now = Instant::now();
        let is_running = matches!(self.phase, Phase::Running);
        if !matches!(self.phase, Phase::Stopping { .. }) {
            if token.is_cancelled() {
                self.stop(Stopped::Cancelled, now);
            } else if self.taken == Taken::Refused {
                self.stop(Stopped::Refused, now);
            } else if is_running && now >= until {
                self.stop(Stopped::Late, now);
            } else if is_running && ended {
                self.stdin = None;
                self.phase = Phase::Draining { until: now + DRAIN };
            }
        }
        match self.phase {
            Phase::Running => false,
            Phase::Draining { until } => now >= until || self.stdout.is_none(),
            Phase::Stopping { kill_at, .. } => self.child.is_over() || now >= kill_at,
        }
    }

    fn stop(&mut self, why: Stopped, now: Instant) {
        self.stdin = None;
        self.child.ask_to_end();
        self.phase = Phase::Stopping { why, kill_at: now + TERM_TO_KILL };
    }

    /// Sleeps until something can be read or written, somebody ended, the cancel came (while it is news), or time is up.
    fn wait(&self, token: &CancelToken, until: Instant) -> io::Result<()> {
        let (until, cancel) = match self.phase {
            Phase::Running => (until, Some(token.wake_fd())),
            Phase::Draining { until } => (until, Some(token.wake_fd())),
            Phase::Stopping { kill_at, .. } => (kill_at, None),
        };
        let pipes = [&self.stdout, &self.stderr].into_iter().flatten().map(AsFd::as_fd);
        let read = pipes.chain(self.child.exits()).chain(cancel).map(Poll::readable);
        let written = self.stdin.as_ref().map(|stdin| Poll::writable(stdin.as_fd()));
        let mut fds: Vec<Poll<'_>> = read.chain(written).collect();
        sys::poll(&mut fds, Some(until.saturating_duration_since(Instant::now())))
    }

    /// Gives stdin what it takes; closed once it has all, or its reader is gone.
    fn write(&mut self) {
        let Some(stdin) = &self.stdin else { return };
        match sys::write(stdin.as_fd(), &[IoSlice::new(self.input)]) {
            Ok(length) => self.input = &self.input[length..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(_) => self.input = &[],
        }
        if self.input.is_empty() {
            self.stdin = None;
        }
    }

    /// One read of each pipe: a flood in one starves neither the other nor the cancel.
    fn read(&mut self) {
        let length = read(&mut self.stdout, &mut self.buffer[..]);
        if length > 0 && self.taken == Taken::Wanted {
            self.taken = self.output.stdout(&self.buffer[..length]);
        }
        self.read_stderr();
    }

    fn read_stderr(&mut self) {
        let length = read(&mut self.stderr, &mut self.buffer[..]);
        if length > 0 {
            self.output.stderr(&self.buffer[..length]);
        }
    }

    /// Ends and reaps whatever is left, and says what came of it.
    fn finish(mut self) -> Finished {
        // What came between the last read and the end.
        self.read_stderr();
        let end = self.child.end(KILL_TO_DETACHED);
        let stopped = match self.phase {
            Phase::Stopping { why, .. } => Some(why),
            Phase::Running | Phase::Draining { .. } => None,
        };
        Finished { stopped, end }
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
