//! What a request asks of the gateway: the neutral `Step`, `Call` and `Listen`, and the readers of their parameters.
//!
//! Every reader takes raw text that the strict pass has accepted, and answers a wrong shape with -32602 saying what was
//! expected. Unknown members are ignored, null is a value. Whether a tool exists, and whether its arguments fit, is not
//! decided here.

use serde::{Serialize, Serializer};

use crate::mcp::answer::Answer;
use crate::mcp::era::{Era, Origin};
use crate::mcp::reply::Reply;
use crate::rpc::error::{RpcError, kind_of};
use crate::rpc::id::{Id, IdError};
use crate::rpc::members::pick;
use crate::rpc::message::Request;
use crate::rpc::strict;
use crate::rpc::text::Text;

/// Under which name a question is asked in `inputRequests`, and answered in `inputResponses`.
pub(crate) const APPROVAL: &str = "approval";
/// A longer state is none of ours.
const STATE_BYTES: usize = 1 << 10;

/// The tool that reads on in a stored result.
pub const READ_RESULT: &str = "read_result";

/// What becomes of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Answered at once, without admission.
    Answer(Origin, Reply),
    /// A tool call, to be admitted.
    Call(Call),
    /// A subscription, to be acknowledged and kept.
    Listen(Listen),
}

/// A well-formed `tools/call`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    origin: Origin,
    tool: String,
    arguments: Text,
    progress: Option<ProgressToken>,
    can_ask: ElicitationForms,
    trace: Option<String>,
    asked: Asked,
    retry: Option<Retry>,
}

/// A call that comes back after `input_required` (2026-07-28).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// `requestState`, as it came; anybody may have written it.
    pub state: String,
    /// What was answered to the question of that name, if anything.
    pub answer: Option<Answer>,
}

/// In which form a call was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// `tools/call`.
    Tool,
    /// `resources/read`, which is a call of `read_result` in another shape.
    Resource {
        /// As it was asked for.
        uri: String,
    },
}

impl Call {
    /// Reads the parameters of `tools/call`.
    ///
    /// # Errors
    /// -32602 where the request does not fit the shape of the method.
    pub(crate) fn read(origin: Origin, opened: &Opened<'_>, can_ask: ElicitationForms) -> Result<Call, RpcError> {
        let tool = expect_string(opened.name, "name")?.into_owned();
        let arguments = match opened.arguments {
            None => Text::from("{}".to_owned()),
            Some(raw) if strict::is_object(raw) => opened.request.keep(raw),
            Some(raw) => return Err(expected("arguments to be an object", Some(raw))),
        };
        let [token, trace] = members(opened.meta, ["progressToken", "traceparent"]);
        let trace = match origin.era {
            Era::Modern => trace.and_then(strict::string).filter(|t| is_traceparent(t)),
            Era::Legacy(_) => None,
        };
        let retry = match origin.era {
            Era::Modern => Retry::read(opened)?,
            Era::Legacy(_) => None,
        };
        Ok(Call {
            origin,
            tool,
            arguments,
            progress: token.map(ProgressToken::read).transpose()?,
            can_ask,
            trace: trace.map(|t| t.into_owned()),
            asked: Asked::Tool,
            retry,
        })
    }

    /// `resources/read` of a stored result: a call of `read_result` with `cursor`.
    ///
    /// # Errors
    /// -32602 where `meta` does not fit its shape.
    pub(crate) fn read_resource(origin: Origin, uri: String, cursor: &str, meta: Option<&str>) -> Result<Call, RpcError> {
        let [token] = members(meta, ["progressToken"]);
        Ok(Call {
            origin,
            tool: READ_RESULT.to_owned(),
            arguments: Text::from(format!(r#"{{"cursor":"{cursor}"}}"#)),
            progress: token.map(ProgressToken::read).transpose()?,
            can_ask: ElicitationForms::default(),
            trace: None,
            asked: Asked::Resource { uri },
            retry: None,
        })
    }

    /// In which form it was asked for.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Whom the reply goes to.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The name as given; it may be no tool's.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Raw JSON text of the arguments object, `{}` where the request had none; strictly checked, digits exact.
    pub fn arguments(&self) -> &str {
        self.arguments.as_str()
    }

    /// The token for progress notifications, if they are wanted.
    pub fn progress(&self) -> Option<&ProgressToken> {
        self.progress.as_ref()
    }

    /// What the client declared it can ask its user: at `initialize`, or in this very request. In the legacy era a
    /// question also needs `Session::ready`.
    pub fn can_ask(&self) -> ElicitationForms {
        self.can_ask
    }

    /// What it brings back from an `input_required`, if it does.
    pub fn retry(&self) -> Option<&Retry> {
        self.retry.as_ref()
    }

    /// A valid W3C `traceparent`: data for records, never trusted.
    pub fn trace(&self) -> Option<&str> {
        self.trace.as_deref()
    }
}

impl Retry {
    /// `None`: nothing is brought back. Answers without a state answer nothing, for it says what was asked.
    ///
    /// # Errors
    /// -32602 where either does not fit its shape.
    fn read(opened: &Opened<'_>) -> Result<Option<Retry>, RpcError> {
        let [approval] = match opened.responses {
            None => [None],
            Some(raw) => members(Some(expect_object(Some(raw), "inputResponses")?), [APPROVAL]),
        };
        let answer = approval.map(|raw| {
            let raw = expect_object(Some(raw), "inputResponses.approval")?;
            match Answer::read(raw) {
                Answer::Malformed => Err(expected("inputResponses.approval to be an answer to an elicitation", Some(raw))),
                answer => Ok(answer),
            }
        });
        let answer = answer.transpose()?;
        let Some(state) = opened.state else { return Ok(None) };
        let state = expect_string(Some(state), "requestState")?;
        if state.len() > STATE_BYTES {
            return Err(RpcError::invalid_params(format!(
                "expected a requestState of at most {STATE_BYTES} bytes, got {}",
                state.len()
            )));
        }
        Ok(Some(Retry { state: state.into_owned(), answer }))
    }
}

/// A progress token: string or integer, echoed with its type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProgressToken(Id);

impl ProgressToken {
    fn read(raw: &str) -> Result<ProgressToken, RpcError> {
        match Id::parse(raw) {
            Ok(id) => Ok(ProgressToken(id)),
            Err(error @ (IdError::WrongKind(_) | IdError::TooLong)) => {
                Err(RpcError::invalid_params(format!("bad _meta.progressToken: {error}")))
            }
        }
    }

    /// As JSON text.
    pub fn to_json(&self) -> String {
        self.0.to_json()
    }
}

impl Serialize for ProgressToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The ways in which a client can ask its user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ElicitationForms {
    /// A form with fields.
    pub form: bool,
    /// A page to open; known from 2025-11-25 on.
    pub url: bool,
}

impl ElicitationForms {
    /// What a raw `capabilities` object declares. Unknown capabilities are ignored; an empty `elicitation` means forms.
    pub(crate) fn declared(capabilities: &str) -> ElicitationForms {
        let [elicitation] = members(Some(capabilities), ["elicitation"]);
        let Some(raw) = elicitation.filter(|raw| strict::is_object(raw)) else {
            return ElicitationForms::default();
        };
        let [form, url] = members(Some(raw), ["form", "url"]).map(|raw| raw.is_some_and(strict::is_object));
        ElicitationForms { form: form || !url, url }
    }
}

/// A well-formed `subscriptions/listen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    origin: Origin,
    tools_list_changed: bool,
}

impl Listen {
    /// Reads the parameters of `subscriptions/listen`: of all that may be asked for, the tool list alone is honoured.
    ///
    /// # Errors
    /// -32602 where the request does not fit the shape of the method.
    pub(crate) fn read(origin: Origin, params: Option<&str>) -> Result<Listen, RpcError> {
        let [wanted] = members(params, ["notifications"]);
        let wanted = expect_object(wanted, "notifications")?;
        let names = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];
        let values = members(Some(wanted), names);
        for (name, value) in names.into_iter().zip(values) {
            match value {
                None | Some("true" | "false") => {}
                raw => {
                    return Err(expected(&format!("notifications.{name} to be a boolean"), raw));
                }
            }
        }
        Ok(Listen { origin, tools_list_changed: values[0] == Some("true") })
    }

    /// Whom notifications and the end go to; its id names the subscription.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether changes of the tool list were asked for, and so are honoured.
    pub fn tools_list_changed(&self) -> bool {
        self.tools_list_changed
    }
}

/// A request whose parameters were looked through once for what a call needs: a second pass over 4 MiB is one too many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened<'a> {
    pub(crate) request: &'a Request<'a>,
    /// The raw `_meta`.
    pub(crate) meta: Option<&'a str>,
    name: Option<&'a str>,
    arguments: Option<&'a str>,
    responses: Option<&'a str>,
    state: Option<&'a str>,
}

impl<'a> Opened<'a> {
    pub(crate) fn new(request: &'a Request<'a>) -> Opened<'a> {
        let names = ["_meta", "name", "arguments", "inputResponses", "requestState"];
        let [meta, name, arguments, responses, state] = members(request.params(), names);
        Opened { request, meta, name, arguments, responses, state }
    }
}

/// The wanted members of an object; none of an absent one.
pub(crate) fn members<'a, const N: usize>(raw: Option<&'a str>, names: [&'static str; N]) -> [Option<&'a str>; N] {
    raw.and_then(|raw| pick(raw, names).ok()).unwrap_or([None; N])
}

pub(crate) fn expect_string<'a>(raw: Option<&'a str>, name: &str) -> Result<std::borrow::Cow<'a, str>, RpcError> {
    raw.and_then(strict::string).ok_or_else(|| expected(&format!("{name} to be a string"), raw))
}

pub(crate) fn expect_object<'a>(raw: Option<&'a str>, name: &str) -> Result<&'a str, RpcError> {
    raw.filter(|raw| strict::is_object(raw)).ok_or_else(|| expected(&format!("{name} to be an object"), raw))
}

/// -32602 that says what was expected and what kind of value came.
pub(crate) fn expected(what: &str, got: Option<&str>) -> RpcError {
    RpcError::invalid_params(format!("expected {what}, got {}", got.map_or("nothing", kind_of)))
}

/// Version 00 of W3C Trace Context, section 3.2: lower-case hex, neither id all zero.
fn is_traceparent(text: &str) -> bool {
    let fields: Vec<&str> = text.split('-').collect();
    let is_hex =
        |field: &str, length: usize| field.len() == length && field.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_zero = |field: &str| field.bytes().all(|b| b == b'0');
    match fields[..] {
        ["00", trace, parent, flags] => {
            is_hex(trace, 32) && !is_zero(trace) && is_hex(parent, 16) && !is_zero(parent) && is_hex(flags, 2)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::message::{Message, parse};

    fn origin(era: Era) -> Origin {
        Origin { id: Id::integer(1), era }
    }

    impl Call {
        /// Read from these parameters.
        pub(crate) fn testing(origin: Origin, params: &str) -> Result<Call, RpcError> {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            let Ok(Message::Request(request)) = parse(&line) else { panic!("no request: {line}") };
            Call::read(origin, &Opened::new(&request), ElicitationForms::default())
        }
    }

    #[track_caller]
    fn check_call(params: &str, expected: Result<(&str, &str), &str>) {
        let call = Call::testing(origin(Era::Modern), params);
        let got = call.as_ref().map(|call| (call.tool(), call.arguments()));
        assert_eq!(got.map_err(|error| error.message.as_str()), expected, "{params}");
    }

    #[test]
    fn call_parameters_have_a_shape_s65() {
        check_call(r#"{"name":"r\u0075n"}"#, Ok(("run", "{}")));
        check_call(r#"{"name":"","arguments":{ "a" : 1.0 },"task":{},"zzz":[]}"#, Ok(("", r#"{ "a" : 1.0 }"#)));
        check_call(r#"{"arguments":{}}"#, Err("expected name to be a string, got nothing"));
        check_call(r#"{"name":5}"#, Err("expected name to be a string, got a number"));
        check_call(r#"{"name":"run","arguments":[1]}"#, Err("expected arguments to be an object, got an array"));
        check_call(r#"{"name":"run","arguments":null}"#, Err("expected arguments to be an object, got null"));
    }

    #[track_caller]
    fn check_token(token: &str, expected: Result<&str, &str>) {
        let params = format!(r#"{{"name":"x","_meta":{{"progressToken":{token}}}}}"#);
        let call = Call::testing(origin(Era::Modern), &params);
        match (call, expected) {
            (Ok(call), Ok(written)) => assert_eq!(call.progress().unwrap().to_json(), written),
            (Err(error), Err(message)) => {
                assert_eq!((error.code, &*error.message), (-32602, message))
            }
            (got, _) => panic!("{token}: {got:?}"),
        }
    }

    #[test]
    fn progress_tokens_keep_their_type_s90() {
        for token in ["0", "\"0\"", "\"\"", "12345678901234567890"] {
            check_token(token, Ok(token));
        }
        for (token, got) in [("null", "null"), ("{}", "an object"), ("1.5", "a number with a fraction or an exponent")] {
            let message = format!("bad _meta.progressToken: expected a string or an integer, got {got}");
            check_token(token, Err(&message));
        }
        check_token(&"7".repeat(65_537), Err("bad _meta.progressToken: expected at most 65536 bytes, got more"));
    }

    #[track_caller]
    fn check_trace(text: &str, valid: bool) {
        let params = format!(r#"{{"name":"x","_meta":{{"traceparent":"{text}"}}}}"#);
        let read = |era| Call::testing(origin(era), &params);
        assert_eq!(read(Era::Modern).unwrap().trace(), valid.then_some(text));
        assert_eq!(read(Era::Legacy(crate::mcp::era::Revision::V2025_11_25)).unwrap().trace(), None);
    }

    #[test]
    fn trace_context_is_taken_if_valid_and_else_ignored_s54() {
        let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7");
        check_trace(&format!("00-{trace}-{parent}-01"), true);
        check_trace(&format!("00-{}-{parent}-01", "0".repeat(32)), false);
        check_trace(&format!("00-{trace}-{}-01", "0".repeat(16)), false);
        check_trace(&format!("00-{}-{parent}-01", trace.to_uppercase()), false);
        check_trace(&format!("ff-{trace}-{parent}-01"), false);
        check_trace(&format!("00-{trace}-{parent}-01-x"), false);
        check_trace("garbage", false);
        check_trace("", false);
    }

    #[test]
    fn an_empty_elicitation_means_forms_s130() {
        for (capabilities, form, url) in [
            ("{}", false, false),
            (r#"{"elicitation":{}}"#, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}"#, true, true),
            (r#"{"elicitation":true}"#, false, false),
            (r#"{"elicitation":null,"extensions":{"x/y":{}}}"#, false, false),
        ] {
            assert_eq!(ElicitationForms::declared(capabilities), ElicitationForms { form, url }, "{capabilities}");
        }
    }

    #[track_caller]
    fn check_listen(params: &str, expected: Result<bool, &str>) {
        let listen = Listen::read(origin(Era::Modern), Some(params));
        let got = listen.as_ref().map(Listen::tools_list_changed);
        assert_eq!(got.map_err(|error| error.message.as_str()), expected, "{params}");
    }

    #[test]
    fn only_tool_list_changes_are_honoured_s110_s114() {
        check_listen(r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}"#, Ok(true));
        check_listen(r#"{"notifications":{"toolsListChanged":false}}"#, Ok(false));
        check_listen(r#"{"notifications":{"resourceSubscriptions":["a:b"]}}"#, Ok(false));
        check_listen(r#"{"notifications":{}}"#, Ok(false));
        check_listen("{}", Err("expected notifications to be an object, got nothing"));
        check_listen(
            r#"{"notifications":{"toolsListChanged":1}}"#,
            Err("expected notifications.toolsListChanged to be a boolean, got a number"),
        );
    }
}
