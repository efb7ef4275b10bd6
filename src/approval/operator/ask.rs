//! The other end of the socket: one request to one gateway, its reply within bounds.
//!
//! Whoever listens may lie, be silent or talk for ever: there is one deadline for all of it, and an answer is never longer than
//! a gateway makes one. Nothing here waits but in poll.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::approval::operator::folder::{Folder, Name};
use crate::approval::operator::protocol::{Reply, Request};
use crate::limits::{APPROVAL_ANSWER_BYTES, CHUNK_BYTES};
use crate::sys::{self, Poll};

/// Why there is no reply.
#[derive(Debug)]
pub enum AskError {
    /// It cannot be reached, or went away without an answer.
    Lost(io::Error),
    /// It takes no connection now.
    Busy,
    /// It said no line in time.
    Silent(Duration),
    /// What it said is no answer.
    Malformed,
    /// What it said is longer than an answer.
    TooLong,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Lost(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                f.write_str("it went away without an answer")
            }
            AskError::Lost(error) => write!(f, "it cannot be reached: {error}"),
            AskError::Busy => f.write_str("too many others wait for it"),
            AskError::Silent(wait) => write!(f, "expected an answer within {} s, got none", wait.as_secs_f64()),
            AskError::Malformed => f.write_str("what it says is no answer"),
            AskError::TooLong => write!(f, "expected an answer of at most {APPROVAL_ANSWER_BYTES} bytes, got more"),
        }
    }
}

impl std::error::Error for AskError {}

/// Asks the gateway behind a socket. `None`: it has ended.
pub fn ask(folder: &Folder, name: &Name, request: &Request, wait: Duration) -> Result<Option<Reply>, AskError> {
    let deadline = Instant::now() + wait;
    let stream = match folder.connect(name) {
        Ok(Some(stream)) => stream,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(AskError::Busy),
        Err(error) => return Err(AskError::Lost(error)),
    };
    // A request fits into the buffer of a new socket. Who is no operator may be closed before it asks, and is answered all the same.
    let _ = sys::send_nowait(stream.as_fd(), &[IoSlice::new(request.to_line().as_bytes())]);
    let line = hear(&stream, deadline)?.ok_or(AskError::Silent(wait))?;
    Reply::parse(&line).map(Some).ok_or(AskError::Malformed)
}

/// A line, without its line feed; `None` if it did not come in time.
fn hear(stream: &UnixStream, deadline: Instant) -> Result<Option<Vec<u8>>, AskError> {
    let (mut line, mut buffer) = (Vec::new(), vec![0; CHUNK_BYTES]);
    loop {
        // Looked at in each round: somebody who always has something to say is not heard for longer.
        let rest = deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Ok(None);
        }
        match sys::receive_nowait(stream.as_fd(), &mut buffer) {
            Ok(0) => return Err(AskError::Lost(ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                let heard = &buffer[..count];
                let end = heard.iter().position(|byte| *byte == b'\n');
                line.extend_from_slice(&heard[..end.unwrap_or(count)]);
                if line.len() > APPROVAL_ANSWER_BYTES {
                    return Err(AskError::TooLong);
                }
                if end.is_some() {
                    return Ok(Some(line));
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                sys::poll(&mut [Poll::readable(stream.as_fd())], Some(rest)).map_err(AskError::Lost)?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(AskError::Lost(error)),
        }
    }
}
