//! Refusals, failures and outcomes as replies: the only place that maps one to the other.
//!
//! Every error a caller sees says whether anything was executed, in its text and in `tidegate/outcome`.

use std::time::Duration;

use crate::gateway::inflight::NotAdmitted;
use crate::limits;
use crate::mcp::call::{Asked, Call};
use crate::mcp::era::Era;
use crate::mcp::reply::{Contents, Link, MISSING_CAPABILITY, Reply, ResourceReply, ToolReply, UNSUPPORTED_VERSION};
use crate::mcp::resource::resource_uri;
use crate::outcome::artifact::Stored;
use crate::outcome::page::{Page, PageBody};
use crate::outcome::result::{Code, Executed, Failure, Outcome};
use crate::policy::consent::Unconsented;
use crate::policy::decide::Refusal;
use crate::rpc::error::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError};

/// The gateway had no room for the reply to a request that is no call.
pub const BUSY: i64 = -32000;

/// What kind of request a reply made on the reader answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// `tools/call`: its errors are results of a tool.
    Call,
    /// `initialize`, which cannot be cancelled.
    Handshake,
    /// Anything else.
    Other,
}

impl RequestKind {
    /// Of a call.
    pub fn of(asked: &Asked) -> Self {
        match asked {
            Asked::Tool => RequestKind::Call,
            Asked::Resource { .. } => RequestKind::Other,
        }
    }

    /// By the method of the request.
    pub fn by(method: &str) -> Self {
        match method {
            "tools/call" => RequestKind::Call,
            "initialize" => RequestKind::Handshake,
            _ => RequestKind::Other,
        }
    }
}

/// A reply, and the stored results it names: they stay only if it leaves.
#[derive(Debug)]
pub struct Answer {
    /// What is said.
    pub reply: Reply,
    /// What goes with it if it does not leave.
    pub stored: Vec<Stored>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Answer { reply, stored: Vec::new() }
    }
}

/// The answer to `call`, which ended in `outcome` after `took`.
pub fn answer(call: &Call, mut outcome: Outcome, took: Duration) -> Answer {
    let stored = std::mem::take(&mut outcome.stored);
    let reply = match call.asked() {
        Asked::Tool => {
            let links = stored.iter().map(link).collect();
            let reply = tool(outcome, took);
            Reply::Tool(ToolReply { links, ..reply })
        }
        Asked::Resource { uri } => resource(uri, outcome, took),
    };
    Answer { reply, stored }
}

/// The reply to a tool call that ended in `outcome` after `took` and stored nothing.
pub fn outcome(outcome: Outcome, took: Duration) -> Reply {
    Reply::Tool(tool(outcome, took))
}

fn tool(outcome: Outcome, took: Duration) -> ToolReply {
    let meta = outcome.meta(took);
    let is_error = outcome.code.is_some();
    let blocks = std::iter::once(outcome.text).chain(outcome.note).collect();
    ToolReply { blocks, links: Vec::new(), structured: outcome.structured, is_error, outcome: meta }
}

fn link(stored: &Stored) -> Link {
    let header = &stored.header;
    Link {
        uri: resource_uri(stored.name.as_str(), 0),
        name: format!("{} {}", header.tool, header.stream),
        media_type: header.media_type(),
        bytes: header.stored,
    }
}

/// The reply to `resources/read`: the page, or that there is no such resource.
fn resource(uri: &str, mut outcome: Outcome, took: Duration) -> Reply {
    let meta = outcome.meta(took);
    match (outcome.code, outcome.page.take()) {
        (None, Some(page)) => {
            let next_uri = page.next().map(|next| resource_uri(next.name.as_str(), next.offset));
            let Page { offset, bytes, total, gone, body, .. } = page;
            let uri = uri.to_owned();
            let contents = match body {
                PageBody::Text(text) => Contents::Text(text),
                PageBody::Base64(base64) => Contents::Blob(base64),
            };
            Reply::Resource(ResourceReply { uri, contents, offset, bytes, total, gone, next_uri, outcome: meta })
        }
        (Some(Code::ResultGone), _) | (None, None) => Reply::ResourceNotFound { uri: uri.to_owned(), outcome: meta },
        (Some(code), _) => {
            // An offset behind the end is the caller's.
            let number = if code == Code::BadArguments { INVALID_PARAMS } else { INTERNAL_ERROR };
            Reply::Error(RpcError::new(number, outcome.text).with_data(outcome_data(&meta)))
        }
    }
}

/// The reply to a call that policy refused.
pub fn refusal(call: &Call, refusal: &Refusal, took: Duration) -> Reply {
    let failure = Failure::new(code(refusal), Executed::No, refusal.to_string());
    match refusal {
        // What is no cursor names nothing, and a gateway without tools has stored nothing.
        Refusal::UnknownTool { .. } | Refusal::BadArguments(_) if let Asked::Resource { uri } = call.asked() => {
            let outcome = Outcome::from(Failure { code: Code::ResultGone, ..failure }).meta(took);
            Reply::ResourceNotFound { uri: uri.clone(), outcome }
        }
        // The protocol wants an unknown tool answered as an error of the request, not as a result of a tool.
        Refusal::UnknownTool { name } => {
            let meta = Outcome::from(failure).meta(took);
            let message = format!("Unknown tool: {}", crate::rpc::error::shown(name));
            Reply::Error(with_meta(RpcError::new(INVALID_PARAMS, message), &meta))
        }
        Refusal::BadArguments(_)
        | Refusal::CredentialScope { .. }
        | Refusal::UndeclaredHost { .. }
        | Refusal::NotAllowed { .. }
        | Refusal::ReservedHeader { .. }
        | Refusal::RateLimited { .. }
        | Refusal::TooManyAtOnce { .. } => self::outcome(failure.into(), took),
        Refusal::Unconsented(why) => unconsented(call, why, failure, took),
    }
}

/// What a client did wrong in the protocol's own terms is an error of its request; all else is a result of the tool.
fn unconsented(call: &Call, why: &Unconsented, failure: Failure, took: Duration) -> Reply {
    let number = match (why, call.origin().era) {
        (Unconsented::NoApprover { client_alone: true }, Era::Modern) => MISSING_CAPABILITY,
        (Unconsented::BadState { .. }, _) => INVALID_PARAMS,
        _ => return self::outcome(failure.into(), took),
    };
    let outcome = Outcome::from(failure);
    let (meta, text) = (outcome.meta(took), outcome.text);
    let data = match number {
        MISSING_CAPABILITY => {
            format!(r#"{{"requiredCapabilities":{{"elicitation":{{"form":{{}}}}}},"tidegate/outcome":{meta}}}"#)
        }
        _ => outcome_data(&meta),
    };
    Reply::Error(RpcError::new(number, text).with_data(data))
}

/// The code a refusal is answered with.
pub fn code(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::UnknownTool { .. } => Code::UnknownTool,
        Refusal::BadArguments(_) => Code::BadArguments,
        Refusal::CredentialScope { .. }
        | Refusal::UndeclaredHost { .. }
        | Refusal::NotAllowed { .. }
        | Refusal::ReservedHeader { .. } => Code::Denied,
        Refusal::RateLimited { .. } => Code::RateLimited,
        Refusal::TooManyAtOnce { .. } => Code::Busy,
        Refusal::Unconsented(why) => match why {
            Unconsented::NoApprover { .. } => Code::NoApprover,
            Unconsented::TooMany { .. } => Code::Busy,
            Unconsented::TimedOut { .. } | Unconsented::BadState { expired: true, .. } => Code::ApprovalTimeout,
            Unconsented::Denied { .. }
            | Unconsented::Unusable { .. }
            | Unconsented::TooLong { .. }
            | Unconsented::OtherAction
            | Unconsented::BadState { expired: false, .. } => Code::ApprovalDenied,
            Unconsented::NotRecorded { .. } => Code::JournalUnavailable,
        },
    }
}

/// The reply to a call above the admission limits.
pub fn busy(asked: &Asked, why: NotAdmitted, calls_max: usize) -> Reply {
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
    failed(asked, Failure::new(Code::Busy, Executed::No, message))
}

/// The reply to a call that failed without having been carried out, in the shape it was asked for.
fn failed(asked: &Asked, failure: Failure) -> Reply {
    let code = if failure.code == Code::Busy { BUSY } else { INTERNAL_ERROR };
    match asked {
        Asked::Tool => outcome(failure.into(), Duration::ZERO),
        Asked::Resource { .. } => error(code, failure.into()),
    }
}

fn error(code: i64, outcome: Outcome) -> Reply {
    let meta = outcome.meta(Duration::ZERO);
    Reply::Error(RpcError::new(code, outcome.text).with_data(outcome_data(&meta)))
}

/// The reply to a request whose own reply did not fit what waits for stdout.
pub fn no_room(kind: RequestKind) -> Reply {
    let mib = limits::READER_REPLY_BYTES >> 20;
    let message = format!("answers that nobody has read yet fill {mib} MiB; read them, then try again");
    let outcome = Outcome::from(Failure::new(Code::Busy, Executed::No, message));
    match kind {
        RequestKind::Call => self::outcome(outcome, Duration::ZERO),
        RequestKind::Handshake | RequestKind::Other => error(BUSY, outcome),
    }
}

/// The reply to a call that the end of the session caught before it began.
pub fn ended_before_it_began(asked: &Asked) -> Reply {
    failed(asked, Failure::new(Code::Cancelled, Executed::No, "the session ended before the call began"))
}

/// The reply to a call in which tidegate itself failed.
pub fn fault(asked: &Asked, executed: Executed, message: &str) -> Reply {
    failed(asked, Failure::new(Code::Internal, executed, message))
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
    if error.data.is_some() { error } else { error.with_data(outcome_data(meta)) }
}

fn outcome_data(meta: &str) -> String {
    format!("{{\"tidegate/outcome\":{meta}}}")
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
