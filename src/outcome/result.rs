//! The outcome of a call, its stable codes, and whether anything was executed.
//!
//! Codes are a documented contract: a code, once released, keeps its meaning. Nothing here knows JSON-RPC or MCP.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::outcome::artifact::Stored;
use crate::outcome::page::Page;

/// Whether the action reached the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executed {
    /// It was carried out, whatever came of it.
    Yes,
    /// Nothing was done.
    No,
    /// It may or may not have been done.
    Unknown,
}

impl Executed {
    /// `yes`, `no` or `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Executed::Yes => "yes",
            Executed::No => "no",
            Executed::Unknown => "unknown",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $variant:ident = $text:literal,)*) => {
        /// Why a call did not simply succeed. The text form is stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            /// The stable text of the code.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    /// The arguments do not fit the tool's schema or cannot fill its template.
    BadArguments = "bad_arguments",
    /// No tool has this name.
    UnknownTool = "unknown_tool",
    /// The gateway runs without a configuration, or the tool needs a part of it that is missing.
    NotConfigured = "not_configured",
    /// More calls at once, or more bytes, than the gateway admits.
    Busy = "busy",
    /// More calls a minute than the tool's rule allows.
    RateLimited = "rate_limited",
    /// The policy refuses the action; the text names the rule.
    Denied = "denied",
    /// A person said no.
    ApprovalDenied = "approval_denied",
    /// Nobody answered in time.
    ApprovalTimeout = "approval_timeout",
    /// Nobody can be asked.
    NoApprover = "no_approver",
    /// The target's address is private, loopback or special, and the configuration does not name it.
    BlockedTarget = "blocked_target",
    /// The target's name could not be resolved.
    UnknownHost = "unknown_host",
    /// The SSH host's key is not known.
    HostKeyUnknown = "host_key_unknown",
    /// The SSH host's key is not the known one.
    HostKeyChanged = "host_key_changed",
    /// The target refused the credential.
    AuthFailed = "auth_failed",
    /// No connection to the target.
    ConnectFailed = "connect_failed",
    /// The TLS handshake failed.
    TlsFailed = "tls_failed",
    /// The call's deadline passed.
    TimedOut = "timed_out",
    /// The connection broke before the answer was complete.
    ConnectionLost = "connection_lost",
    /// The call was cancelled.
    Cancelled = "cancelled",
    /// The target's answer is malformed.
    ResponseMalformed = "response_malformed",
    /// The upstream server is not running.
    UpstreamDown = "upstream_down",
    /// The command could not be started.
    SpawnFailed = "spawn_failed",
    /// The credential could not be had.
    CredentialUnavailable = "credential_unavailable",
    /// The journal could not be written.
    JournalUnavailable = "journal_unavailable",
    /// The stored result is gone.
    ResultGone = "result_gone",
    /// The action was carried out and the target reports a failure.
    TargetError = "target_error",
    /// A fault of the gateway itself.
    Internal = "internal",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How work that was told to end did end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was seen to end.
    Dead,
    /// It would not end in time and was let go.
    Detached,
}

impl Ended {
    /// `dead` or `detached`.
    pub fn as_str(self) -> &'static str {
        match self {
            Ended::Dead => "dead",
            Ended::Detached => "detached",
        }
    }
}

/// A failure of the target or of a limit, or a fault of ours: no content, one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub code: Code,
    /// Whether anything was done.
    pub executed: Executed,
    /// One sentence: what happened and what would help. No secret, no payload.
    pub message: String,
    /// For work that was told to end.
    pub ended: Option<Ended>,
}

impl Failure {
    /// A failure with `message`.
    pub fn new(code: Code, executed: Executed, message: impl Into<String>) -> Self {
        Failure { code, executed, message: message.into(), ended: None }
    }

    /// The call was cancelled (or its session ended).
    pub fn cancelled(executed: Executed, ended: Option<Ended>) -> Self {
        let message = match (executed, ended) {
            (Executed::No, _) => "the call was cancelled before it began",
            (_, Some(Ended::Detached)) => "the call was cancelled; its work would not end and was let go",
            _ => "the call was cancelled while it ran",
        };
        Failure { code: Code::Cancelled, executed, message: message.to_owned(), ended }
    }
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// `None`: it simply succeeded.
    pub code: Option<Code>,
    /// Whether anything was done.
    pub executed: Executed,
    /// The plain rendering: stands alone.
    pub text: String,
    /// The structured rendering, a compact JSON object: stands alone.
    pub structured: Option<String>,
    /// Whether something was left out of both renderings.
    pub truncated: bool,
    /// Bytes the source produced, shown or not.
    pub bytes: u64,
    /// A second text block, for people; `None` where the text says all.
    pub note: Option<String>,
    /// Results that were stored for it: they stay only if its reply leaves.
    pub stored: Vec<Stored>,
    /// The page of a stored result that it is, if it is one.
    pub page: Option<Page>,
    /// For work that was told to end.
    pub ended: Option<Ended>,
    /// The exit status of a command that ended by itself, or the status of an HTTP response; for the journal.
    pub status: Option<i32>,
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        let Failure { code, executed, message, ended } = failure;
        let text = headline(code, executed, &message);
        Outcome { code: Some(code), executed, ended, ..Outcome::plain(text) }
    }
}

/// The first line of every error: `tidegate: CODE (executed: no): MESSAGE`.
pub fn headline(code: Code, executed: Executed, message: &str) -> String {
    format!("tidegate: {code} (executed: {}): {message}", executed.as_str())
}

#[derive(Serialize)]
struct Meta<'a> {
    code: Option<&'a str>,
    executed: &'a str,
    truncated: bool,
    bytes: u64,
    duration_ms: u64,
}

impl Outcome {
    /// A plain success without an effect, all of which is `text`.
    pub fn plain(text: String) -> Self {
        Outcome {
            code: None,
            executed: Executed::No,
            text,
            structured: None,
            truncated: false,
            bytes: 0,
            note: None,
            stored: Vec::new(),
            page: None,
            ended: None,
            status: None,
        }
    }

    /// The object of `_meta["tidegate/outcome"]`, compact: `{code, executed, truncated, bytes, duration_ms}`; `code` is null
    /// for a plain success.
    pub fn meta(&self, took: Duration) -> String {
        let meta = Meta {
            code: self.code.map(Code::as_str),
            executed: self.executed.as_str(),
            truncated: self.truncated,
            bytes: self.bytes,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        };
        crate::wire::escape::to_line(&meta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_snake_case() {
        let mut seen = std::collections::HashSet::new();
        for code in Code::ALL {
            let text = code.as_str();
            assert!(text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{text}");
            assert!(seen.insert(text), "{text} twice");
        }
        assert_eq!(Code::ALL.len(), 27);
    }

    #[test]
    fn an_error_says_whether_anything_was_executed() {
        let outcome = Outcome::from(Failure::new(Code::Busy, Executed::No, "64 calls are under way"));
        assert_eq!(outcome.text, "tidegate: busy (executed: no): 64 calls are under way");
        assert_eq!(
            outcome.meta(Duration::from_millis(7)),
            r#"{"code":"busy","executed":"no","truncated":false,"bytes":0,"duration_ms":7}"#
        );
    }
}
