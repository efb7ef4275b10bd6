//! What is unread in the two pipes of a gateway. Looks at them and takes nothing out; opens no way in or out of its own.

use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::Command;

/// An end of stdin and one of stdout. While it lives, a stdin that the test closed is not closed, nor is such a stdout.
pub struct Pipes {
    /// The writing end: a gateway that is gone still breaks the pipe.
    stdin: PipeWriter,
    stdout: PipeReader,
}

/// What a pipe holds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unread {
    pub bytes: usize,
    pub capacity: usize,
}

impl Pipes {
    /// Copies of both.
    pub fn of(stdin: &PipeWriter, stdout: &PipeReader) -> Pipes {
        Pipes { stdin: stdin.try_clone().unwrap(), stdout: stdout.try_clone().unwrap() }
    }

    /// What was sent and is not read.
    pub fn stdin(&self) -> Unread {
        unread(self.stdin.as_fd())
    }

    /// Whether everything sent so far was read.
    pub fn is_stdin_read(&self) -> bool {
        self.stdin().bytes == 0
    }

    /// What was written on stdout and is not read.
    pub fn stdout(&self) -> Unread {
        unread(self.stdout.as_fd())
    }
}

/// FIONREAD, which the library has no use for: a fixture asks.
fn unread(pipe: BorrowedFd<'_>) -> Unread {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pipe/unread.py");
    let output = Command::new("python3").arg("-IS").arg(script).stdin(pipe.try_clone_to_owned().unwrap()).output();
    let output = output.expect("python3 is there: make deps");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap());
    let mut next = || numbers.next().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    Unread { bytes: next(), capacity: next() }
}
