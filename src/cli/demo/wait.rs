//! The one place where the demo waits: for descriptors, until a time, or until SIGINT or SIGTERM ends the demo.
//!
//! An interrupt is an ordinary fault, so that everything is cleaned up on the way out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cli::demo::Fault;
use crate::sys::{self, Poll, Signal};

/// The longest the demo waits for anything; far more than it takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Readable once the demo was asked to end.
pub(super) struct Interrupt(UnixStream);

impl Interrupt {
    /// From now on SIGINT and SIGTERM no longer end the process at once.
    pub(super) fn listen() -> Result<Self, Fault> {
        let listen = || {
            let (heard, bell) = UnixStream::pair()?;
            signal_hook::low_level::pipe::register(SIGINT, bell.try_clone()?)?;
            signal_hook::low_level::pipe::register(SIGTERM, bell)?;
            Ok(Interrupt(heard))
        };
        listen().map_err(|error: std::io::Error| Fault(format!("signals cannot be listened to: {error}")))
    }

    /// Waits until one of `fds` is ready; false once `until` has come.
    pub(super) fn wait<'a>(&'a self, mut fds: Vec<Poll<'a>>, until: Instant) -> Result<bool, Fault> {
        fds.push(Poll::readable(self.0.as_fd()));
        let left = until.saturating_duration_since(Instant::now());
        sys::poll(&mut fds, Some(left)).map_err(|error| Fault(format!("poll: {error}")))?;
        if fds.last().is_some_and(Poll::is_ready) {
            return Err(Fault("the demo was interrupted".to_owned()));
        }
        Ok(!left.is_zero())
    }
}

/// A process that is none of our children, held so that its number cannot come to mean another one. Killed if it still
/// lives when this is dropped.
pub(super) struct Process {
    pid: i32,
    exit: OwnedFd,
}

impl Process {
    /// The process of this number if it lives and works in the folder `cwd`: whatever else we are told is not ours to kill.
    pub(super) fn of(pid: i32, cwd: &Path) -> Option<Self> {
        let exit = sys::open_process(pid).ok()?;
        let found = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
        let expected = std::fs::canonicalize(cwd).ok()?;
        // Held and alive now, so the link was read of this very process.
        let is_it = found == expected && !is_readable(exit.as_fd());
        // Made only when it is ours: dropping one kills.
        is_it.then(|| Process { pid, exit })
    }

    /// Its number.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Readable once it has ended.
    pub(super) fn exit(&self) -> BorrowedFd<'_> {
        self.exit.as_fd()
    }

    /// Whether it has ended, now.
    pub(super) fn has_ended(&self) -> bool {
        is_readable(self.exit())
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [Poll::readable(fd)];
    sys::poll(&mut fds, Some(Duration::ZERO)).is_ok() && fds[0].is_ready()
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, as it should.
        let _ = sys::signal_process(self.exit(), Signal::Kill);
    }
}
