//! What became of a call that did not get as far as its command's end: the code, what was executed, and what would help.
//!
//! Separate words for separate things: no connection, no time left, and a connection that broke. Text of the peer is cut.

use std::fmt;

use libssh2_sys as raw;
use ssh2::{Error, ErrorCode};

use crate::executor::dial::Undialled;
use crate::executor::ssh::session::Stop;
use crate::outcome::result::{Code, Executed, Failure};
use crate::policy::rules::HostRule;

/// The most shown of a text the peer had a part in.
const REASON_CHARS: usize = 160;

/// What a call is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Connecting,
    Handshake,
    LoggingIn,
    Opening,
    Starting,
    Running,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Connecting => "connecting",
            Phase::Handshake => "in the SSH handshake",
            Phase::LoggingIn => "logging in",
            Phase::Opening => "opening a channel",
            Phase::Starting => "asking the server to start the command",
            Phase::Running => "running the command",
        })
    }
}

impl Phase {
    /// What may have happened once a call failed here.
    fn executed(self) -> Executed {
        match self {
            Phase::Connecting | Phase::Handshake | Phase::LoggingIn | Phase::Opening => Executed::No,
            Phase::Starting | Phase::Running => Executed::Unknown,
        }
    }
}

/// `web1 (10.0.0.5:22)`.
pub(super) fn place(host: &HostRule) -> String {
    format!("{} ({}:{})", host.name, host.address, host.port)
}

/// No connection.
pub(super) fn undialled(why: Undialled, host: &HostRule) -> Failure {
    match why {
        Undialled::Cancelled => Failure::cancelled(Executed::No, None),
        Undialled::TimedOut => timed_out(Phase::Connecting, host),
        Undialled::Unreachable(reasons) => {
            Failure::new(Code::ConnectFailed, Executed::No, format!("no connection to {}: {}", place(host), short(&reasons)))
        }
        Undialled::Broken(reason) => Failure::new(Code::Internal, Executed::No, format!("waiting failed: {reason}")),
    }
}

/// A step that did not come to its end.
pub(super) fn stopped(stop: Stop, phase: Phase, host: &HostRule) -> Failure {
    match stop {
        Stop::Cancelled => Failure::cancelled(phase.executed(), None),
        Stop::TimedOut => timed_out(phase, host),
        Stop::Io(error) => Failure::new(Code::Internal, phase.executed(), format!("waiting failed: {error}")),
        Stop::Failed(error) => failed(&error, phase, host),
    }
}

fn timed_out(phase: Phase, host: &HostRule) -> Failure {
    let message =
        format!("the call's time ran out while {phase}: {}; raise the tool's `timeout_s` if it needs longer", place(host));
    Failure::new(Code::TimedOut, phase.executed(), message)
}

fn failed(error: &Error, phase: Phase, host: &HostRule) -> Failure {
    let (place, reason) = (place(host), short(error.message()));
    let number = match error.code() {
        ErrorCode::Session(number) => number,
        ErrorCode::SFTP(_) => raw::LIBSSH2_ERROR_PROTO,
    };
    let (code, executed, message) = match (phase, number) {
        (_, raw::LIBSSH2_ERROR_TIMEOUT) => {
            (Code::TimedOut, phase.executed(), format!("{place} did not answer for 60 s while {phase}"))
        }
        (Phase::Handshake, _) => (Code::ConnectFailed, Executed::No, handshake(number, &place, &reason)),
        (Phase::Opening, raw::LIBSSH2_ERROR_CHANNEL_FAILURE) => {
            (Code::ConnectFailed, Executed::No, format!("{place} opens no session for this user: {reason}"))
        }
        (Phase::Starting, raw::LIBSSH2_ERROR_CHANNEL_REQUEST_DENIED) => {
            (Code::SpawnFailed, Executed::No, format!("{place} refuses to run commands for this user"))
        }
        (Phase::Starting | Phase::Running, _) => (
            Code::ConnectionLost,
            Executed::Unknown,
            format!(
                "the connection to {place} broke while {phase}: {reason}; the exit status is unknown, the command may still run"
            ),
        ),
        (Phase::Connecting | Phase::LoggingIn | Phase::Opening, _) => {
            (Code::ConnectionLost, Executed::No, format!("the connection to {place} broke while {phase}: {reason}"))
        }
    };
    Failure::new(code, executed, message)
}

/// Names the cause that an operator can do something about.
fn handshake(number: i32, place: &str, reason: &str) -> String {
    let cause = match number {
        raw::LIBSSH2_ERROR_KEX_FAILURE
        | raw::LIBSSH2_ERROR_KEY_EXCHANGE_FAILURE
        | raw::LIBSSH2_ERROR_METHOD_NONE
        | raw::LIBSSH2_ERROR_METHOD_NOT_SUPPORTED
        | raw::LIBSSH2_ERROR_ALGO_UNSUPPORTED => {
            "no algorithm in common; the server must offer a current one of each kind: key exchange curve25519-sha256 or \
             ecdh-sha2-nistp256, host key ssh-ed25519, ecdsa or rsa-sha2-512, cipher aes-gcm, aes-ctr or chacha20-poly1305"
        }
        raw::LIBSSH2_ERROR_HOSTKEY_INIT | raw::LIBSSH2_ERROR_HOSTKEY_SIGN => {
            "the server did not prove that it owns the host key it showed"
        }
        raw::LIBSSH2_ERROR_BANNER_RECV => "it does not speak SSH; is the port right?",
        raw::LIBSSH2_ERROR_SOCKET_DISCONNECT | raw::LIBSSH2_ERROR_SOCKET_RECV | raw::LIBSSH2_ERROR_SOCKET_SEND => {
            "it closed the connection; is it an SSH port, or has the server too many connections?"
        }
        _ => "it broke off",
    };
    format!("the SSH handshake with {place} failed: {cause} ({reason})")
}

/// Text of the peer or the library, tame and short.
pub(super) fn short(reason: &str) -> String {
    let mut cut: String = reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect();
    if cut.len() < reason.len() {
        cut.push_str("...");
    }
    cut
}
