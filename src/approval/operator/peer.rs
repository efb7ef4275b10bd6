//! One connection at the operator's socket: a line is heard, an answer is said, and that is all.
//!
//! ```text
//! asking ──a line, or too much without one──▶ answering ──all of it taken──▶ gone
//!    └── end, error, time over ──▶ gone           └── error, time over ──▶ gone
//! ```
//! Each step does what can be done without waiting. What a peer says after its line is no part of anything.

use std::io::{ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::limits::APPROVAL_REQUEST_BYTES;
use crate::sys::{self, Poll};

/// A connection whose user is known.
#[derive(Debug)]
pub struct Peer {
    stream: UnixStream,
    user: u32,
    since: Instant,
    until: Instant,
    talk: Talk,
}

#[derive(Debug)]
enum Talk {
    /// What was heard so far of its line.
    Asking(Vec<u8>),
    /// What is to be said, and how much of it was taken.
    Answering(Vec<u8>, usize),
}

impl Peer {
    /// A peer that has `wait` to say its line.
    pub fn new(stream: UnixStream, user: u32, wait: Duration) -> Peer {
        let since = Instant::now();
        Peer { stream, user, since, until: since + wait, talk: Talk::Asking(Vec::new()) }
    }

    /// When it came.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// When its time is over.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// What it is waited for.
    pub fn awaited(&self) -> Poll<'_> {
        match self.talk {
            Talk::Asking(_) => Poll::readable(self.stream.as_fd()),
            Talk::Answering(..) => Poll::writable(self.stream.as_fd()),
        }
    }

    /// Does what can be done now. `answer` gets the line without its line feed, or `None` for one that is too long, and the user;
    /// the peer has `wait` to take what it returns. `None`: it is done with, or gone.
    pub fn go_on(self, wait: Duration, answer: impl FnOnce(Option<&[u8]>, u32) -> String) -> Option<Peer> {
        let Peer { stream, user, since, until, talk } = self;
        let (line, sent, until) = match talk {
            Talk::Answering(line, sent) => (line, sent, until),
            Talk::Asking(heard) => match hear(&stream, heard)? {
                Heard::Part(heard) => return Some(Peer { stream, user, since, until, talk: Talk::Asking(heard) }),
                Heard::Line(line) => (answer(Some(&line), user).into_bytes(), 0, Instant::now() + wait),
                Heard::TooMuch => (answer(None, user).into_bytes(), 0, Instant::now() + wait),
            },
        };
        let sent = sent + say(&stream, &line[sent..])?;
        (sent < line.len()).then_some(Peer { stream, user, since, until, talk: Talk::Answering(line, sent) })
    }
}

enum Heard {
    Part(Vec<u8>),
    Line(Vec<u8>),
    TooMuch,
}

/// One read. `None`: the peer is gone, or has said all it will and no line.
fn hear(stream: &UnixStream, mut heard: Vec<u8>) -> Option<Heard> {
    let mut buffer = [0; APPROVAL_REQUEST_BYTES + 1];
    let room = buffer.len() - heard.len();
    match sys::receive_nowait(stream.as_fd(), &mut buffer[..room]) {
        Ok(0) => return None,
        Ok(count) => heard.extend_from_slice(&buffer[..count]),
        Err(error) if is_for_later(&error) => {}
        Err(_) => return None,
    }
    match heard.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            heard.truncate(end);
            Some(Heard::Line(heard))
        }
        None if heard.len() > APPROVAL_REQUEST_BYTES => Some(Heard::TooMuch),
        None => Some(Heard::Part(heard)),
    }
}

/// How much the peer takes now. `None`: it is gone.
fn say(stream: &UnixStream, rest: &[u8]) -> Option<usize> {
    match sys::send_nowait(stream.as_fd(), &[IoSlice::new(rest)]) {
        Ok(count) => Some(count),
        Err(error) if is_for_later(&error) => Some(0),
        Err(_) => None,
    }
}

fn is_for_later(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
