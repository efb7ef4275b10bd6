//! Refusals, failures and outcomes as replies: the only place that maps one to the other.
//!
//! Every error a caller sees says whether anything was executed, in its text and in `tidegate/outcome`.

use std::time::Duration;

use crate::gateway::inflight::NotAdmitted;
use crate::limits;
use crate::mcp::reply::{MISSING_CAPABILITY, Reply, ToolReply, UNSUPPORTED_VERSION};
use crate::outcome::result::{Code, Executed, Failure, Outcome};
use crate::policy::decide::Refusal;
use crate::rpc::error::{INVALID_PARAMS, METHOD_NOT_FOUND, RpcError};

/// The gateway had no room for the reply to a request that is no call.
pub const BUSY: i64 = -32000;

/// What kind of request a reply made on the reader answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// `tools/call`: its errors are results of a tool.
    Call,
    /// `initialize`, which cannot be cancelled.
    Handshake,
    /// Anything else.
    Other,
}

impl Asked {
    /// By the method of the request.
    pub fn by(method: &str) -> Self {
        match method {
            "tools/call" => Asked::Call,
            "initialize" => Asked::Handshake,
            _ => Asked::Other,
        }
    }
}

/// The reply to a call that ended in `outcome` after `took`.
pub fn outcome(outcome: Outcome, took: Duration) -> Reply {
    let meta = outcome.meta(took);
    let is_error = outcome.code.is_some();
    Reply::Tool(ToolReply { blocks: vec![outcome.text], structured: outcome.structured, is_error, outcome: meta })
}

/// The reply to a call that policy refused.
pub fn refusal(refusal: &Refusal, took: Duration) -> Reply {
    let failure = Failure::new(code(refusal), Executed::No, refusal.to_string());
    match refusal {
        // The protocol wants an unknown tool answered as an error of the request, not as a result of a tool.
        Refusal::UnknownTool { name } => {
            let meta = Outcome::from(failure).meta(took);
            let message = format!("Unknown tool: {}", crate::rpc::error::shown(name));
            Reply::Error(with_meta(RpcError::new(INVALID_PARAMS, message), &meta))
        }
        Refusal::BadArguments(_) | Refusal::CredentialScope { .. } | Refusal::UndeclaredHost { .. } => {
            self::outcome(failure.into(), took)
        }
    }
}

fn code(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::UnknownTool { .. } => Code::UnknownTool,
        Refusal::BadArguments(_) => Code::BadArguments,
        Refusal::CredentialScope { .. } | Refusal::UndeclaredHost { .. } => Code::Denied,
    }
}

/// The reply to a call above the admission limits.
pub fn busy(why: NotAdmitted, calls_max: usize) -> Reply {
    let message = match why {
        NotAdmitted::Calls => format!("{calls_max} calls are under way; wait for one to be answered, then try again"),
        NotAdmitted::LineBytes => {
            format!(
                "the requests under way fill {} MiB; wait for one to be answered, then try again",
                limits::ADMITTED_BYTES >> 20
            )
        }
        NotAdmitted::ReplyBytes => {
            format!("the replies under way may fill {} MiB; wait for one, then try again", limits::RESERVED_BYTES >> 20)
        }
    };
    outcome(Failure::new(Code::Busy, Executed::No, message).into(), Duration::ZERO)
}

/// The reply to a request whose own reply did not fit what waits for stdout.
pub fn no_room(asked: Asked) -> Reply {
    let mib = limits::READER_REPLY_BYTES >> 20;
    let message = format!("answers that nobody has read yet fill {mib} MiB; read them, then try again");
    let outcome = Outcome::from(Failure::new(Code::Busy, Executed::No, message));
    match asked {
        Asked::Call => self::outcome(outcome, Duration::ZERO),
        Asked::Handshake | Asked::Other => {
            let meta = outcome.meta(Duration::ZERO);
            Reply::Error(with_meta(RpcError::new(BUSY, outcome.text), &meta))
        }
    }
}

/// The reply to a call that the end of the session caught before it began.
pub fn ended_before_it_began() -> Reply {
    let failure = Failure::new(Code::Cancelled, Executed::No, "the session ended before the call began");
    outcome(failure.into(), Duration::ZERO)
}

/// The reply to a call in which tidegate itself failed.
pub fn fault(executed: Executed, message: &str) -> Reply {
    outcome(Failure::new(Code::Internal, executed, message).into(), Duration::ZERO)
}

/// The error of a call's request, saying in its data that nothing was executed.
pub fn bad_call(error: RpcError) -> RpcError {
    let meta = Outcome::from(Failure::new(Code::BadArguments, Executed::No, "")).meta(Duration::ZERO);
    with_meta(error, &meta)
}

/// The error of a line that is no message, saying in its data that nothing was executed. No code of a call applies.
pub fn bad_line(error: RpcError) -> RpcError {
    let outcome = Outcome { code: None, ..Outcome::from(Failure::new(Code::Internal, Executed::No, "")) };
    with_meta(error, &outcome.meta(Duration::ZERO))
}

/// The data of some protocol errors has a shape of its own and stays as it is.
fn with_meta(error: RpcError, meta: &str) -> RpcError {
    if error.data.is_some() { error } else { error.with_data(format!("{{\"tidegate/outcome\":{meta}}}")) }
}

/// Stable name of a protocol error, for counters.
pub fn protocol_reason(code: i64) -> &'static str {
    match code {
        METHOD_NOT_FOUND => "unknown_method",
        INVALID_PARAMS => "invalid_params",
        UNSUPPORTED_VERSION => "unsupported_version",
        MISSING_CAPABILITY => "missing_capability",
        _ => "protocol_error",
    }
}
