//! The least of the agent protocol (draft-miller-ssh-agent): is this identity there, and sign with it.
//!
//! Spoken over a non-blocking socket of our own, so that an agent that hangs, or waits for a person, is ended by the cancel and
//! the deadline like everything else. No other identity is looked at, nothing is added, and the socket is close-on-exec.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use crate::executor::ssh::session::{Limit, Stop};
use crate::sys::{self, Poll};

/// What OpenSSH's agent sends at most; a list of some hundred keys.
const MESSAGE_BYTES: usize = 256 << 10;

const FAILURE: u8 = 5;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;
/// Flags for RSA keys: the hash is the signer's choice, not the key's.
const RSA_SHA2_256: u32 = 2;
const RSA_SHA2_512: u32 = 4;

/// Why the agent did not help.
#[derive(Debug)]
pub(super) enum AgentError {
    /// The call ended meanwhile.
    Stopped(Stop),
    /// It cannot be reached, or went away.
    Unreachable(io::Error),
    /// It refuses.
    Refused,
    /// What it says is not the protocol.
    Malformed(&'static str),
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentError::Stopped(_) => f.write_str("the call ended while the agent was asked"),
            AgentError::Unreachable(error) => write!(f, "it cannot be reached: {error}"),
            AgentError::Refused => f.write_str("it refuses to sign: it may be locked, or wants a confirmation nobody gave"),
            AgentError::Malformed(what) => write!(f, "its answer is malformed: {what}"),
        }
    }
}

/// A connection to the agent.
pub(super) struct Agent<'a> {
    stream: UnixStream,
    limit: Limit<'a>,
}

impl<'a> Agent<'a> {
    pub(super) fn connect(path: &Path, limit: Limit<'a>) -> Result<Agent<'a>, AgentError> {
        let stream = sys::connect_unix(path).map_err(AgentError::Unreachable)?;
        Ok(Agent { stream, limit })
    }

    /// Whether the agent holds the identity with this public key or certificate.
    pub(super) fn holds(&mut self, blob: &[u8]) -> Result<bool, AgentError> {
        let answer = self.ask(&[REQUEST_IDENTITIES])?;
        let mut rest = expect(&answer, IDENTITIES_ANSWER)?;
        let count = number(&mut rest)?;
        for _ in 0..count {
            let (key, _comment) = (field(&mut rest)?, field(&mut rest)?);
            if key == blob {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Signs what a server asked for (RFC 4252 section 7) and gives back the bare signature.
    pub(super) fn sign(&mut self, blob: &[u8], asked: &[u8]) -> Result<Vec<u8>, AgentError> {
        let algorithm = algorithm_asked(asked)?;
        let flags = match algorithm {
            name if name.starts_with(b"rsa-sha2-512") => RSA_SHA2_512,
            name if name.starts_with(b"rsa-sha2-256") => RSA_SHA2_256,
            _ => 0,
        };
        let mut request = vec![SIGN_REQUEST];
        [blob, asked].iter().for_each(|text| put(&mut request, text));
        request.extend_from_slice(&flags.to_be_bytes());
        let answer = self.ask(&request)?;
        let mut rest = expect(&answer, SIGN_RESPONSE)?;
        let mut signature = field(&mut rest)?;
        let made_with = field(&mut signature)?;
        // A certificate is signed for with its plain key's algorithm.
        let plain = algorithm.strip_suffix(b"-cert-v01@openssh.com").unwrap_or(algorithm);
        if made_with != plain {
            return Err(AgentError::Malformed("signed with another algorithm than asked for"));
        }
        Ok(field(&mut signature)?.to_vec())
    }

    fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, AgentError> {
        let mut message = Vec::with_capacity(4 + request.len());
        put(&mut message, request);
        self.send(&message)?;
        let mut length = [0; 4];
        self.receive(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if !(1..=MESSAGE_BYTES).contains(&length) {
            return Err(AgentError::Malformed("its length"));
        }
        let mut answer = vec![0; length];
        self.receive(&mut answer)?;
        Ok(answer)
    }

    fn send(&mut self, mut rest: &[u8]) -> Result<(), AgentError> {
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(sent) => rest = &rest[sent..],
                Err(error) => self.wait(error, Poll::writable(self.stream.as_fd()))?,
            }
        }
        Ok(())
    }

    fn receive(&mut self, mut rest: &mut [u8]) -> Result<(), AgentError> {
        while !rest.is_empty() {
            match self.stream.read(rest) {
                Ok(0) => return Err(AgentError::Unreachable(io::Error::other("it closed the connection"))),
                Ok(got) => rest = &mut rest[got..],
                Err(error) => self.wait(error, Poll::readable(self.stream.as_fd()))?,
            }
        }
        Ok(())
    }

    fn wait(&self, error: io::Error, socket: Poll<'_>) -> Result<(), AgentError> {
        match error.kind() {
            io::ErrorKind::Interrupted => return Ok(()),
            io::ErrorKind::WouldBlock => {}
            _ => return Err(AgentError::Unreachable(error)),
        }
        self.limit.check().map_err(AgentError::Stopped)?;
        let mut fds = [socket, Poll::readable(self.limit.token.wake_fd())];
        let wait = self.limit.until.saturating_duration_since(Instant::now());
        sys::poll(&mut fds, Some(wait)).map_err(|error| AgentError::Stopped(Stop::Io(error)))
    }
}

fn expect(answer: &[u8], kind: u8) -> Result<&[u8], AgentError> {
    match answer.split_first() {
        Some((came, rest)) if *came == kind => Ok(rest),
        Some((&FAILURE, _)) => Err(AgentError::Refused),
        _ => Err(AgentError::Malformed("another kind of answer than asked for")),
    }
}

/// The algorithm in the data of a signature: session, request, user, service, method, true, algorithm, key.
fn algorithm_asked(mut asked: &[u8]) -> Result<&[u8], AgentError> {
    let rest = &mut asked;
    field(rest)?;
    byte(rest)?;
    (0..3).try_for_each(|_| field(rest).map(drop))?;
    byte(rest)?;
    field(rest)
}

fn put(to: &mut Vec<u8>, text: &[u8]) {
    let length = u32::try_from(text.len()).expect("keys and requests are far below 4 GiB");
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(text);
}

fn byte(rest: &mut &[u8]) -> Result<u8, AgentError> {
    let (byte, after) = rest.split_first().ok_or(AgentError::Malformed("cut short"))?;
    *rest = after;
    Ok(*byte)
}

fn number(rest: &mut &[u8]) -> Result<u32, AgentError> {
    let (number, after) = rest.split_first_chunk().ok_or(AgentError::Malformed("cut short"))?;
    *rest = after;
    Ok(u32::from_be_bytes(*number))
}

fn field<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8], AgentError> {
    let length = number(rest)? as usize;
    let (field, after) = rest.split_at_checked(length).ok_or(AgentError::Malformed("cut short"))?;
    *rest = after;
    Ok(field)
}
