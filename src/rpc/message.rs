//! One line, one message: the strict reading of a JSON-RPC 2.0 envelope.
//!
//! The order is fixed: one JSON value; an object; its envelope, read shallowly; the strict pass over the whole text. So an
//! error can carry the request's id even where the rest of the line may not be read. Nothing is decided here about
//! methods, and a notification never gets an answer unless the line is no message at all.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::limits::NESTING_LEVELS;
use crate::rpc::error::{INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, RpcError, kind_of, shown};
use crate::rpc::id::{Id, IdError};
use crate::rpc::members::{self, MembersError};
use crate::rpc::strict::{self, Flaw};
use crate::rpc::text::Text;
use crate::wire::frame::{Frame, FrameError};

/// A request: it has an id and is answered once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    id: Id,
    method: Cow<'a, str>,
    params: Option<&'a str>,
    line: Option<&'a Arc<String>>,
}

impl<'a> Request<'a> {
    /// Its id.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// The method's name, decoded.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The raw text of the object, if there is one.
    pub fn params(&self) -> Option<&'a str> {
        self.params
    }

    /// A part of its line for whoever outlives that: copied, or kept with all of a long line.
    pub fn keep(&self, part: &'a str) -> Text {
        Text::of(part, self.line)
    }
}

/// A notification: never answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification<'a> {
    method: Cow<'a, str>,
    params: Option<&'a str>,
}

impl<'a> Notification<'a> {
    /// The method's name, decoded.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The raw text of the object, if there is one.
    pub fn params(&self) -> Option<&'a str> {
        self.params
    }
}

/// A response, matched by its id or dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<'a> {
    id: Id,
    outcome: Result<&'a str, &'a str>,
    flaw: Option<MalformedKind>,
}

impl<'a> Response<'a> {
    /// The id of the request it answers.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// The raw value of `result` or of `error`; of any JSON type.
    pub fn outcome(&self) -> Result<&'a str, &'a str> {
        self.outcome
    }

    /// `TooDeep` or `LoneSurrogate` where the outcome must not be read further; the id holds all the same.
    pub fn flaw(&self) -> Option<MalformedKind> {
        self.flaw
    }
}

/// What a line can mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// To be answered.
    Request(Request<'a>),
    /// To be acted on or dropped.
    Notification(Notification<'a>),
    /// To be matched or dropped.
    Response(Response<'a>),
    /// An error with no id, or with `null`: it answers nothing and is worth a diagnosis. The raw `error`.
    Unaddressed(&'a str),
    /// A notification that cannot be read and must not be answered.
    Ignored(MalformedKind),
}

/// Reads one frame.
///
/// # Errors
/// As `parse`.
pub fn read<'a>(frame: &'a Frame<'_>) -> Result<Message<'a>, Malformed> {
    parse(frame.text()).map(|message| match message {
        Message::Request(request) => Message::Request(Request { line: frame.whole(), ..request }),
        other => other,
    })
}

/// Reads one line.
///
/// # Errors
/// `Malformed` where the line is no message, or a request that must be refused before anybody looks at its method.
pub fn parse(line: &str) -> Result<Message<'_>, Malformed> {
    let text = line.trim_matches([' ', '\t', '\r']);
    let envelope = Envelope::read(text).map_err(|malformed| {
        // Iterative and without a depth limit in serde_json, so `[` a million times is an error and no overflow.
        let parsed: serde_json::Result<&RawValue> = serde_json::from_str(line);
        parsed.err().map_or(malformed, |error| not_json(line, &error))
    })?;
    match strict::inspect(text) {
        Ok(()) => envelope.message(None),
        Err(Flaw::TooDeep) => {
            envelope.flawed(MalformedKind::TooDeep, format!("expected at most {NESTING_LEVELS} levels of nesting, got more"))
        }
        Err(Flaw::LoneSurrogate) => {
            envelope.flawed(MalformedKind::LoneSurrogate, "expected whole characters, got half a surrogate pair".to_owned())
        }
        Err(Flaw::DuplicateKey(key)) => {
            Err(envelope.refuse(MalformedKind::DuplicateKey, format!("expected each key once, got {key} twice in one object")))
        }
        Err(Flaw::ReservedKey(key)) => {
            Err(envelope.refuse(MalformedKind::ReservedKey, format!("expected no reserved key, got {key}")))
        }
    }
}

/// The members that make a message, raw, and the id they agree on.
struct Envelope<'a> {
    version: Option<&'a str>,
    /// `None` where absent or, with `error`, null.
    id: Option<Id>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
}

impl<'a> Envelope<'a> {
    fn read(text: &'a str) -> Result<Envelope<'a>, Malformed> {
        let names = ["jsonrpc", "id", "method", "params", "result", "error"];
        let [version, raw_id, method, params, result, error] = members::read(text, names).map_err(|e| match e {
            MembersError::NotAnObject => not_an_object(text),
            MembersError::Twice(name) => twice(text, name),
        })?;
        let id = match raw_id {
            Some("null") if error.is_some() && method.is_none() && result.is_none() => None,
            Some(raw) => Some(Id::parse(raw).map_err(bad_id)?),
            None => None,
        };
        Ok(Envelope { version, id, method, params, result, error })
    }

    fn message(self, flaw: Option<MalformedKind>) -> Result<Message<'a>, Malformed> {
        self.check_version()?;
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => self.call(method),
            (None, Some(result), None) => self.response(Ok(result), flaw),
            (None, None, Some(error)) => self.response(Err(error), flaw),
            (None, None, None) => {
                Err(self
                    .refuse(MalformedKind::NoMethodOrOutcome, "expected one of method, result and error, got none".to_owned()))
            }
            (Some(_), _, _) | (None, Some(_), Some(_)) => {
                Err(self
                    .refuse(MalformedKind::Ambiguous, "expected one of method, result and error, got more than one".to_owned()))
            }
        }
    }

    fn check_version(&self) -> Result<(), Malformed> {
        let got = match self.version {
            Some(raw) if strict::string(raw).is_some_and(|version| version == "2.0") => {
                return Ok(());
            }
            Some(raw) if raw.starts_with('"') => shown(raw.trim_matches('"')),
            Some(raw) => kind_of(raw).to_owned(),
            None => "nothing".to_owned(),
        };
        Err(self.refuse(MalformedKind::WrongVersion, format!("expected jsonrpc \"2.0\", got {got}")))
    }

    fn call(self, raw_method: &'a str) -> Result<Message<'a>, Malformed> {
        let Some(method) = strict::string(raw_method) else {
            let got = kind_of(raw_method);
            return Err(self.refuse(MalformedKind::BadMethod, format!("expected method to be a string, got {got}")));
        };
        match (self.id.clone(), self.params) {
            (Some(_), Some(raw)) if !strict::is_object(raw) => {
                let got = kind_of(raw);
                Err(self.refuse(MalformedKind::BadParams, format!("expected params to be an object, got {got}")))
            }
            (None, Some(raw)) if !strict::is_object(raw) => Ok(Message::Ignored(MalformedKind::BadParams)),
            (Some(id), params) => Ok(Message::Request(Request { id, method, params, line: None })),
            (None, params) => Ok(Message::Notification(Notification { method, params })),
        }
    }

    fn response(self, outcome: Result<&'a str, &'a str>, flaw: Option<MalformedKind>) -> Result<Message<'a>, Malformed> {
        match (self.id, outcome) {
            (Some(id), outcome) => Ok(Message::Response(Response { id, outcome, flaw })),
            (None, Err(error)) => Ok(Message::Unaddressed(error)),
            (None, Ok(_)) => {
                Err(Malformed::new(MalformedKind::MissingId, None, "expected a result to have an id, got none".to_owned()))
            }
        }
    }

    /// The envelope holds, the rest of the line may not be read: a request is refused under its id, a notification is
    /// dropped, a response keeps its id so that whoever waits for it learns of it.
    fn flawed(self, kind: MalformedKind, message: String) -> Result<Message<'a>, Malformed> {
        let id = self.id.clone();
        let method_is_text = self.method.is_some_and(|raw| raw.starts_with('"'));
        match self.message(Some(kind)) {
            Ok(Message::Request(_)) => {}
            Ok(Message::Notification(_) | Message::Ignored(_)) => return Ok(Message::Ignored(kind)),
            Ok(other @ (Message::Response(_) | Message::Unaddressed(_))) => return Ok(other),
            // A method that cannot be decoded is this flaw and no other.
            Err(malformed) if malformed.kind == MalformedKind::BadMethod && method_is_text => {}
            Err(malformed) => return Err(malformed),
        }
        match id {
            Some(id) => Err(Malformed::new(kind, Some(id), message)),
            None => Ok(Message::Ignored(kind)),
        }
    }

    /// The id goes along, except where the line is a response: its id is one of ours, or of nobody.
    fn refuse(&self, kind: MalformedKind, message: String) -> Malformed {
        let response = self.method.is_none() && (self.result.is_some() || self.error.is_some());
        let id = if response { None } else { self.id.clone() };
        Malformed::new(kind, id, message)
    }
}

fn not_json(line: &str, error: &serde_json::Error) -> Malformed {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    if line.len() >= 15 && line.as_bytes()[..15].eq_ignore_ascii_case(b"content-length:") {
        let message = "expected one JSON message a line, got a header as of the Language Server Protocol";
        return Malformed::new(MalformedKind::LspHeader, None, message.to_owned());
    }
    let message = format!("expected one JSON value, got {} ({what} at column {})", shown(line), error.column());
    Malformed { at: Some(error.column()), ..Malformed::new(MalformedKind::NotJson, None, message) }
}

fn not_an_object(text: &str) -> Malformed {
    let hint = if text.starts_with('[') { ": batches are not supported" } else { "" };
    let message = format!("expected one message object, got {}{hint}", kind_of(text));
    Malformed::new(MalformedKind::NotAnObject, None, message)
}

fn twice(text: &str, name: &str) -> Malformed {
    // The id is unambiguous as long as it is not itself the member that came twice, and the line is no response.
    let is_request = name == "method" || matches!(members::read(text, ["method"]), Ok([Some(_)]));
    let id = match members::read(text, ["id"]) {
        Ok([Some(raw)]) if is_request => Id::parse(raw).ok(),
        _ => None,
    };
    let message = format!("expected each key once, got \"{name}\" twice in one object");
    Malformed::new(MalformedKind::DuplicateKey, id, message)
}

fn bad_id(error: IdError) -> Malformed {
    Malformed::new(MalformedKind::BadId, None, format!("bad id: {error}"))
}

/// Why a line is refused. Each has a stable name for records and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MalformedKind {
    /// More bytes than the limit.
    LineTooLong,
    /// Not UTF-8.
    NotUtf8,
    /// Cut at the end of the stream.
    Unterminated,
    /// Not one JSON value.
    NotJson,
    /// Nor that, but the `Content-Length` of another protocol's framing: the peer will never send a line.
    LspHeader,
    /// An array (so a batch) or a scalar.
    NotAnObject,
    /// A key twice in one object, at any depth.
    DuplicateKey,
    /// A key serde_json gives a meaning to.
    ReservedKey,
    /// `jsonrpc` is not "2.0".
    WrongVersion,
    /// `id` is present and no legal id.
    BadId,
    /// A result for nothing.
    MissingId,
    /// `method` is not a string.
    BadMethod,
    /// None of `method`, `result` and `error`.
    NoMethodOrOutcome,
    /// More than one of them.
    Ambiguous,
    /// `params` is not an object.
    BadParams,
    /// The id is that of a request still in flight.
    IdInFlight,
    /// Nested too deep.
    TooDeep,
    /// Half a surrogate pair.
    LoneSurrogate,
}

impl MalformedKind {
    /// Every kind, for tables and counters.
    pub const ALL: [MalformedKind; 18] = [
        MalformedKind::LineTooLong,
        MalformedKind::NotUtf8,
        MalformedKind::Unterminated,
        MalformedKind::NotJson,
        MalformedKind::LspHeader,
        MalformedKind::NotAnObject,
        MalformedKind::DuplicateKey,
        MalformedKind::ReservedKey,
        MalformedKind::WrongVersion,
        MalformedKind::BadId,
        MalformedKind::MissingId,
        MalformedKind::BadMethod,
        MalformedKind::NoMethodOrOutcome,
        MalformedKind::Ambiguous,
        MalformedKind::BadParams,
        MalformedKind::IdInFlight,
        MalformedKind::TooDeep,
        MalformedKind::LoneSurrogate,
    ];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            MalformedKind::LineTooLong => "line_too_long",
            MalformedKind::NotUtf8 => "not_utf8",
            MalformedKind::Unterminated => "unterminated",
            MalformedKind::NotJson => "not_json",
            MalformedKind::LspHeader => "lsp_header",
            MalformedKind::NotAnObject => "not_an_object",
            MalformedKind::DuplicateKey => "duplicate_key",
            MalformedKind::ReservedKey => "reserved_key",
            MalformedKind::WrongVersion => "wrong_version",
            MalformedKind::BadId => "bad_id",
            MalformedKind::MissingId => "missing_id",
            MalformedKind::BadMethod => "bad_method",
            MalformedKind::NoMethodOrOutcome => "no_method_or_outcome",
            MalformedKind::Ambiguous => "ambiguous",
            MalformedKind::BadParams => "bad_params",
            MalformedKind::IdInFlight => "id_in_flight",
            MalformedKind::TooDeep => "too_deep",
            MalformedKind::LoneSurrogate => "lone_surrogate",
        }
    }

    /// The JSON-RPC error code of the answer.
    pub fn code(self) -> i64 {
        match self {
            MalformedKind::LineTooLong
            | MalformedKind::NotUtf8
            | MalformedKind::Unterminated
            | MalformedKind::NotJson
            | MalformedKind::LspHeader => PARSE_ERROR,
            MalformedKind::TooDeep | MalformedKind::LoneSurrogate => INVALID_PARAMS,
            MalformedKind::NotAnObject
            | MalformedKind::DuplicateKey
            | MalformedKind::ReservedKey
            | MalformedKind::WrongVersion
            | MalformedKind::BadId
            | MalformedKind::MissingId
            | MalformedKind::BadMethod
            | MalformedKind::NoMethodOrOutcome
            | MalformedKind::Ambiguous
            | MalformedKind::BadParams
            | MalformedKind::IdInFlight => INVALID_REQUEST,
        }
    }

    /// What it says about the peer.
    pub fn class(self) -> Class {
        match self.code() {
            INVALID_PARAMS => Class::Kept,
            _ => Class::Lost,
        }
    }
}

/// Whether the peer can still be taken to speak the protocol after such a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It has lost framing or message form: the session closes by default.
    Lost,
    /// One well-formed request is refused; the session goes on.
    Kept,
}

/// A refused line: why, under which id, and in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    kind: MalformedKind,
    id: Option<Id>,
    message: String,
    at: Option<usize>,
}

impl Malformed {
    fn new(kind: MalformedKind, id: Option<Id>, message: String) -> Malformed {
        Malformed { kind, id, message, at: None }
    }

    /// A request whose id (value and type) is still in flight. The error carries no id: it belongs to the other one.
    pub fn id_in_flight(id: &Id) -> Malformed {
        let message = format!("expected an id that is not in flight, got {id}");
        Malformed::new(MalformedKind::IdInFlight, None, message)
    }

    /// Why.
    pub fn kind(&self) -> MalformedKind {
        self.kind
    }

    /// The id to answer under: there is one wherever the envelope yields one unambiguous legal id of a request.
    pub fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    /// What was expected and what came; foreign text in it is quoted, escaped and cut.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The column in bytes, from 1, where known.
    pub fn at(&self) -> Option<usize> {
        self.at
    }

    /// The JSON-RPC error code of the answer.
    pub fn code(&self) -> i64 {
        self.kind.code()
    }

    /// What it says about the peer.
    pub fn class(&self) -> Class {
        self.kind.class()
    }

    /// The error object of the answer.
    pub fn to_error(&self) -> RpcError {
        RpcError::new(self.code(), self.message.clone())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Malformed {}

impl From<FrameError> for Malformed {
    fn from(error: FrameError) -> Malformed {
        let kind = match error {
            FrameError::TooLong { .. } => MalformedKind::LineTooLong,
            FrameError::NotUtf8 { .. } => MalformedKind::NotUtf8,
            FrameError::Unterminated { .. } => MalformedKind::Unterminated,
        };
        Malformed::new(kind, None, error.to_string())
    }
}

#[cfg(test)]
mod tests;
