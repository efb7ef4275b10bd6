//! Why a credential cannot be handed out, in words that name the source and the reason and nothing of a value.
//!
//! What a helper printed is never quoted, on stderr neither: it may be the secret itself.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use crate::executor::credential::Source;
use crate::outcome::result::{Code, Ended, Executed, Failure};
use crate::secret::SecretError;
use crate::sys;

/// Why a credential cannot be handed out. Names its source, never its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialError {
    pub(super) name: String,
    pub(super) blame: Blame,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Blame {
    Unknown,
    Source(Source, Cause),
}

/// What is wrong with a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    Unset,
    Empty,
    Unreadable(ErrorKind),
    NotRegular,
    Owner(u32),
    Mode(u32),
    Unfit(SecretError),
    /// There is no `$CREDENTIALS_DIRECTORY`.
    NoFolder,
    /// Others may change what is in it.
    OpenFolder(u32),
    NotStarted(String),
    TooSlow(Duration),
    Failed(i32),
    Killed(i32),
    /// Ours: waiting failed, or the status was lost.
    Unwatched(String),
}

/// Why a value was not had for a call.
pub(super) enum Stop {
    Failed(Cause),
    /// The call was cancelled; how the helper ended if it was running.
    Cancelled(Option<Ended>),
    /// The call's own time is over.
    TimedOut(Option<Ended>),
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CredentialError { name, blame } = self;
        write!(f, "credential {:?}: ", name.chars().take(64).collect::<String>())?;
        match blame {
            Blame::Unknown => f.write_str("expected a configured one, got an unknown name"),
            Blame::Source(source, cause) => write!(f, "{source} {cause}"),
        }
    }
}

impl std::error::Error for CredentialError {}

/// Whoever ran a helper by hand sees what is kept back here.
const BY_HAND: &str = "run it by hand to see why, for what it prints is shown nowhere";

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Unset => f.write_str("is not set"),
            Cause::Empty => f.write_str("is empty"),
            Cause::Unreadable(kind) => write!(f, "cannot be read: {kind}"),
            Cause::NotRegular => f.write_str("is not a regular file"),
            Cause::Owner(owner) => write!(f, "belongs to user {owner}; expected the gateway's own user or root"),
            Cause::Mode(mode) => {
                let deed = if mode & 0o044 != 0 { "read" } else { "used" };
                write!(f, "may be {deed} by others (mode {mode:04o}); run chmod 600")
            }
            Cause::Unfit(error) => write!(f, "does not fit: {error}"),
            Cause::NoFolder => f.write_str(
                "cannot be found: $CREDENTIALS_DIRECTORY names no absolute folder; systemd sets it for a unit with LoadCredential=",
            ),
            Cause::OpenFolder(mode) => write!(f, "stands in a folder that others may change (mode {mode:04o})"),
            Cause::NotStarted(why) => write!(f, "could not be started: {why}"),
            Cause::TooSlow(timeout) => write!(f, "had not ended after {timeout:?} and was ended; its timeout_s sets that limit"),
            Cause::Failed(status) => write!(f, "ended with status {status}; {BY_HAND}"),
            Cause::Killed(signal) => write!(f, "was ended by signal {}; {BY_HAND}", sys::signal_name(*signal)),
            Cause::Unwatched(why) => write!(f, "could not be watched: {why}"),
        }
    }
}

impl From<CredentialError> for Failure {
    fn from(error: CredentialError) -> Self {
        Failure::new(Code::CredentialUnavailable, Executed::No, error.to_string())
    }
}

/// The call was cancelled while it waited for its credential.
pub(super) fn cancelled(ended: Option<Ended>) -> Failure {
    Failure::cancelled(Executed::No, ended)
}

/// The call's time was over while it waited for its credential.
pub(super) fn timed_out(name: &str, source: &Source, ended: Option<Ended>) -> Failure {
    let message = format!("the call's time was over while it waited for credential {name:?}: {source} had not ended");
    Failure { ended, ..Failure::new(Code::TimedOut, Executed::No, message) }
}
