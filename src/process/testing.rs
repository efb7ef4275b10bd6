//! How tests hear from the children they start: by a pipe whose path the child is given, never by sleeping.
//!
//! Compiled for tests alone.

use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use crate::sys::{self, Poll};

/// The PATH of children in tests.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Longer than anything a test waits for takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Hears lines that children write to `path`.
pub(crate) struct Told {
    reader: BufReader<PipeReader>,
    writer: PipeWriter,
}

/// A process a child told of; without a descriptor if it had ended when it was heard of.
pub(crate) struct Known {
    pub(crate) pid: i32,
    exit: Option<OwnedFd>,
}

impl Told {
    pub(crate) fn new() -> Self {
        let (reader, writer) = io::pipe().unwrap();
        Told { reader: BufReader::new(reader), writer }
    }

    /// A file a child may write to.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.writer.as_raw_fd())
    }

    /// The next line.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        assert!(self.reader.buffer().contains(&b'\n') || self.hears(PATIENCE), "no child wrote a line");
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The process whose number is the next line.
    #[track_caller]
    pub(crate) fn process(&mut self) -> Known {
        let pid = self.line().parse().unwrap();
        Known { pid, exit: sys::open_process(pid).ok() }
    }

    /// Whether something unread comes in time.
    pub(crate) fn hears(&self, wait: Duration) -> bool {
        let mut fds = [Poll::readable(self.reader.get_ref().as_fd())];
        sys::poll(&mut fds, Some(wait)).unwrap();
        fds[0].is_ready()
    }
}

impl Known {
    /// Whether it has ended, now.
    pub(crate) fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Whether it ends in good time.
    pub(crate) fn ends(&self) -> bool {
        self.ends_within(PATIENCE)
    }

    fn ends_within(&self, wait: Duration) -> bool {
        let Some(exit) = &self.exit else { return true };
        let mut fds = [Poll::readable(exit.as_fd())];
        sys::poll(&mut fds, Some(wait)).unwrap();
        fds[0].is_ready()
    }

    /// Whether nothing is left of it, not even a zombie.
    pub(crate) fn is_reaped(&self) -> bool {
        self.has_ended() && !Path::new(&format!("/proc/{}", self.pid)).exists()
    }
}

/// Reads a non-blocking pipe to its end.
pub(crate) fn read_all(pipe: OwnedFd) -> String {
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        sys::poll(&mut [Poll::readable(pipe.as_fd())], Some(PATIENCE)).unwrap();
        match sys::read(pipe.as_fd(), &mut buffer).unwrap() {
            0 => return String::from_utf8(text).unwrap(),
            length => text.extend_from_slice(&buffer[..length]),
        }
    }
}

/// The highest resident memory of this process so far, in KiB.
pub(crate) fn peak_kib() -> u64 {
    let status = BufReader::new(File::open("/proc/self/status").unwrap());
    let line = status.lines().map(Result::unwrap).find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
