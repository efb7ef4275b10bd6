//! What must come of a session's bytes, said a second time: lines, messages, eras, calls, the end.
//!
//! It shares no code with the project. Where the documents leave freedom (which of two faults in one line is named, whether a
//! call is still under way when the next line is read) it follows every possibility: a `Course` each.

use super::given;
use super::json::{self, Json};
use super::tools::{self, LINE_BYTES, Want};

/// `on_malformed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Close,
    Continue,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Close => "close",
            Mode::Continue => "continue",
        }
    }
}

/// Whether the test sees to it that a call is answered before it sends more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It does: nothing is left to chance.
    Answered,
    /// It does not.
    Burst,
}

/// A request id as written in JSON, decoded if it is a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id {
    pub is_text: bool,
    pub value: String,
}

impl Id {
    pub fn of(value: &Json) -> Option<Id> {
        match value {
            Json::Text(Some(text)) => Some(Id { is_text: true, value: text.clone() }),
            Json::Number(text) if !text.contains(['.', 'e', 'E']) => Some(Id { is_text: false, value: text.clone() }),
            _ => None,
        }
    }

    /// The same id: by type and value.
    fn is(&self, other: &Id) -> bool {
        let value = |id: &Id| if !id.is_text && id.value == "-0" { "0".to_owned() } else { id.value.clone() };
        self.is_text == other.is_text && value(self) == value(other)
    }
}

/// One line on stdout, as far as it is predicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub id: Id,
    pub what: String,
}

/// Whether an error without an id says `"id": null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullId {
    Yes,
    No,
    /// The documents leave it open whether this session has shown itself to be recent.
    Open,
}

/// A call that was admitted.
#[derive(Debug, Clone)]
pub struct Call {
    pub id: Id,
    /// Of a tool whose target the caller writes, or of `read_result`.
    pub is_given: bool,
    pub want: Want,
    /// Its reply was read before anything else was sent.
    pub is_answered: bool,
    /// A cancel for its id came after it.
    pub is_cancelled: bool,
}

/// One way the session may have gone.
#[derive(Debug, Clone, Default)]
pub struct Course {
    /// A malformed line ended it.
    pub is_closed: bool,
    agreed: Option<usize>,
    recent: Option<NullId>,
    open: Vec<Id>,
    pub calls: Vec<Call>,
    /// Lines of the reader.
    pub replies: Vec<Reply>,
    /// Those a cancel came for: taken back if no byte of them had left.
    pub revoked: Vec<Reply>,
    /// Errors without an id, in order: code and form.
    pub unaddressed: Vec<(i64, NullId)>,
}

/// What opens a subscription: a notification with its id.
pub const ACKNOWLEDGED: &str = "subscription acknowledged";
/// More courses than this are not followed.
const COURSES_MAX: usize = 256;

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const NEWEST_LEGACY: usize = 3;
const MODERN: &str = "2026-07-28";
const PREFIX: &str = "io.modelcontextprotocol/";

/// What one line may be taken for.
#[derive(Debug, Clone)]
enum Line {
    /// A blank one, a response, a notification that is not acted on.
    Nothing,
    Refused {
        code: i64,
        id: Option<Id>,
        is_lost: bool,
    },
    Request {
        id: Id,
        method: String,
        params: Option<Json>,
    },
    Notification {
        method: String,
        params: Option<Json>,
    },
}

fn refused(code: i64, id: Option<Id>) -> Line {
    Line::Refused { code, id, is_lost: code != -32602 }
}

/// The model of one session.
pub struct Model {
    mode: Mode,
    pace: Pace,
    pub courses: Vec<Course>,
    pending: Vec<u8>,
    /// Too many courses to follow: nothing can be said.
    pub is_lost: bool,
}

impl Model {
    pub fn new(mode: Mode, pace: Pace) -> Model {
        Model { mode, pace, courses: vec![Course::default()], pending: Vec::new(), is_lost: false }
    }

    /// Takes bytes in, up to and with one line feed. `Some`: how many replies of this id have to be there before more is sent.
    pub fn line(&mut self, bytes: &[u8]) -> Option<(Id, usize)> {
        self.pending.extend_from_slice(bytes);
        let line = self.pending.strip_suffix(b"\n")?.to_vec();
        self.pending.clear();
        self.take(&meanings(&line));
        self.settle()
    }

    /// End of input.
    pub fn end(&mut self) {
        let rest = std::mem::take(&mut self.pending);
        if rest.len() > LINE_BYTES || !is_blank(&rest) {
            self.take(&[refused(-32700, None)]);
        }
        for course in &mut self.courses {
            for id in std::mem::take(&mut course.open) {
                course.replies.push(Reply { id: id.clone(), what: "subscription ended".to_owned() });
                course.replies.push(Reply { id, what: "subscription cancelled".to_owned() });
            }
        }
    }

    fn take(&mut self, meanings: &[Line]) {
        let mut next = Vec::new();
        for course in self.courses.drain(..) {
            if course.is_closed {
                next.push(course);
            } else {
                next.extend(meanings.iter().flat_map(|line| course.clone().take(line, self.mode)));
            }
        }
        self.is_lost |= next.len() > COURSES_MAX;
        next.truncate(COURSES_MAX);
        self.courses = next;
    }

    /// With one course and a call just admitted, the call is answered before anything else is sent.
    fn settle(&mut self) -> Option<(Id, usize)> {
        let [course] = &mut self.courses[..] else { return None };
        if self.pace == Pace::Burst || course.is_closed {
            return None;
        }
        let call = course.calls.last_mut().filter(|call| !call.is_answered)?;
        call.is_answered = true;
        let id = call.id.clone();
        // An acknowledgement names the id and is no reply.
        let is_reply = |reply: &&Reply| reply.id == id && reply.what != ACKNOWLEDGED;
        let of_reader = course.replies.iter().filter(is_reply).count();
        let of_calls = course.calls.iter().filter(|call| call.id == id).count();
        Some((id, of_reader + of_calls))
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| [b' ', b'\t', b'\r', b'\n'].contains(byte))
}

/// What a line without its line feed may be taken for; one of them.
fn meanings(line: &[u8]) -> Vec<Line> {
    if line.len() > LINE_BYTES {
        return vec![refused(-32700, None)];
    }
    if is_blank(line) {
        return vec![Line::Nothing];
    }
    let line = if line.ends_with(b"\r") { &line[..line.len() - 1] } else { line };
    match std::str::from_utf8(line).ok().and_then(json::read) {
        Some(read) => envelope(&read),
        None => vec![refused(-32700, None)],
    }
}

/// The members that make a message.
struct Members<'a> {
    version: Vec<&'a Json>,
    id: Vec<&'a Json>,
    method: Vec<&'a Json>,
    params: Vec<&'a Json>,
    result: Vec<&'a Json>,
    error: Vec<&'a Json>,
}

fn envelope(read: &json::Read) -> Vec<Line> {
    let Json::Object(members) = &read.value else { return vec![refused(-32600, None)] };
    let all = |name: &str| members.iter().filter(|(key, _)| key.as_deref() == Some(name)).map(|(_, value)| value).collect();
    let members = Members {
        version: all("jsonrpc"),
        id: all("id"),
        method: all("method"),
        params: all("params"),
        result: all("result"),
        error: all("error"),
    };
    members.meanings(read)
}

impl Members<'_> {
    fn meanings(&self, read: &json::Read) -> Vec<Line> {
        let every = [&self.version, &self.id, &self.method, &self.params, &self.result, &self.error];
        let id = if self.id.len() == 1 { Id::of(self.id[0]) } else { None };
        let is_response = self.method.is_empty() && (!self.result.is_empty() || !self.error.is_empty());
        if every.iter().any(|values| values.len() > 1) {
            // Whether there is one request whose id is sure may be seen either way.
            let with_id = id.filter(|_| !is_response).map(|id| refused(-32600, Some(id)));
            return [refused(-32600, None)].into_iter().chain(with_id).collect();
        }
        let is_null_fine = self.method.is_empty() && self.result.is_empty() && !self.error.is_empty();
        if id.is_none() && !self.id.is_empty() && !(is_null_fine && *self.id[0] == Json::Null) {
            return vec![refused(-32600, None)];
        }
        let answer_id = id.clone().filter(|_| !is_response);
        let message = self.message(id.clone()).unwrap_or_else(|| refused(-32600, answer_id.clone()));
        let mut lines = Vec::new();
        if matches!(message, Line::Refused { .. }) {
            lines.push(message.clone());
            // Two faults: params that are no object, and a method that cannot be read.
            if self.is_method_lone() && self.has_version() && self.is_call() {
                lines.extend(answer_id.map(|id| refused(-32602, Some(id))));
            }
            return lines;
        }
        if read.is_twice || read.is_reserved {
            lines.push(refused(-32600, answer_id.clone()));
        }
        if read.is_lone || read.depth > 64 {
            lines.push(match (message, answer_id) {
                (Line::Request { .. }, Some(id)) => refused(-32602, Some(id)),
                _ => Line::Nothing,
            });
        } else if lines.is_empty() {
            lines.push(message);
        }
        lines
    }

    fn has_version(&self) -> bool {
        self.version.first().and_then(|version| version.as_text()) == Some("2.0")
    }

    fn is_method_lone(&self) -> bool {
        self.method.first() == Some(&&Json::Text(None))
    }

    fn is_call(&self) -> bool {
        self.result.is_empty() && self.error.is_empty()
    }

    /// The message of a sound envelope; `None` where it is none.
    fn message(&self, id: Option<Id>) -> Option<Line> {
        if !self.has_version() {
            return None;
        }
        match (self.method.first(), self.result.first(), self.error.first()) {
            (Some(method), None, None) => self.call(method, id),
            (None, Some(_), None) => id.map(|_| Line::Nothing),
            (None, None, Some(_)) => Some(Line::Nothing),
            _ => None,
        }
    }

    fn call(&self, method: &Json, id: Option<Id>) -> Option<Line> {
        let Json::Text(method) = method else { return None };
        // With half a surrogate pair in it nobody reads the method.
        let method = method.clone().unwrap_or_default();
        let params = self.params.first().map(|params| (*params).clone());
        let is_fine = params.as_ref().is_none_or(Json::is_object);
        match id {
            Some(id) => is_fine.then_some(Line::Request { id, method, params }),
            None if is_fine => Some(Line::Notification { method, params }),
            // Never answered, whatever is in it.
            None => Some(Line::Nothing),
        }
    }
}

impl Course {
    /// What becomes of the session by one line, in one or more ways.
    fn take(self, line: &Line, mode: Mode) -> Vec<Course> {
        match line {
            Line::Nothing => vec![self],
            Line::Refused { code, id: None, is_lost } => vec![self.refuse(*code, None, *is_lost, mode)],
            Line::Refused { code, id: Some(id), is_lost } => self.refuse_addressed(*code, id, *is_lost, mode),
            Line::Notification { method, params } => vec![self.notification(method, params.as_ref())],
            Line::Request { id, method, params } => {
                let mut courses = Vec::new();
                if self.may_be_taken(id) {
                    courses.push(self.clone().refuse(-32600, None, true, mode));
                }
                if !self.is_open(id) {
                    courses.push(self.request(id, method, params.as_ref()));
                }
                courses
            }
        }
    }

    fn is_open(&self, id: &Id) -> bool {
        self.open.iter().any(|open| open.is(id))
    }

    fn may_be_taken(&self, id: &Id) -> bool {
        self.is_open(id) || self.calls.iter().any(|call| !call.is_answered && call.id.is(id))
    }

    fn refuse(mut self, code: i64, id: Option<&Id>, is_lost: bool, mode: Mode) -> Course {
        match id {
            Some(id) => self.replies.push(Reply { id: id.clone(), what: format!("error {code}") }),
            None => self.unaddressed.push((code, self.recent.unwrap_or(NullId::Yes))),
        }
        self.is_closed = is_lost && mode == Mode::Close;
        self
    }

    /// No error goes out under the id of a request that is still to be answered.
    fn refuse_addressed(self, code: i64, id: &Id, is_lost: bool, mode: Mode) -> Vec<Course> {
        let mut courses = Vec::new();
        if self.may_be_taken(id) {
            courses.push(self.clone().refuse(code, None, is_lost, mode));
            // Two faults, of which either may be named.
            courses.extend((!is_lost).then(|| self.clone().refuse(-32600, None, true, mode)));
        }
        if !self.is_open(id) {
            courses.push(self.refuse(code, Some(id), is_lost, mode));
        }
        courses
    }

    fn notification(mut self, method: &str, params: Option<&Json>) -> Course {
        if params.and_then(claim_of).is_some() && self.recent.is_none() {
            // A claim, but of no request.
            self.recent = Some(NullId::Open);
        }
        if method == "notifications/cancelled"
            && let Some(id) = params.and_then(|params| params.member("requestId")).and_then(Id::of)
        {
            self.open.retain(|open| !open.is(&id));
            let is_revoked = |reply: &mut Reply| reply.id.is(&id) && !reply.what.starts_with("initialized");
            self.revoked.extend(self.replies.extract_if(.., is_revoked));
            self.calls.iter_mut().filter(|call| !call.is_answered && call.id.is(&id)).for_each(|call| call.is_cancelled = true);
        }
        self
    }

    fn answer(mut self, id: &Id, what: impl Into<String>) -> Course {
        self.replies.push(Reply { id: id.clone(), what: what.into() });
        self
    }

    fn request(self, id: &Id, method: &str, params: Option<&Json>) -> Course {
        match params.and_then(claim_of) {
            Some(claim) => self.modern(id, method, params.expect("it holds the claim"), claim),
            None => self.legacy(id, method, params),
        }
    }

    fn modern(mut self, id: &Id, method: &str, params: &Json, claim: &Json) -> Course {
        self.recent = match (claim.as_text(), self.recent) {
            (_, Some(NullId::No)) => Some(NullId::No),
            (Some(MODERN), _) => Some(NullId::No),
            (Some(text), _) if text == LEGACY[NEWEST_LEGACY] => Some(NullId::No),
            (Some(text), before) if LEGACY.contains(&text) => before,
            // Nothing we know was claimed.
            _ => Some(NullId::Open),
        };
        let meta = params.member("_meta").expect("it holds the claim");
        let has_capabilities = meta.member(&format!("{PREFIX}clientCapabilities")).is_some_and(Json::is_object);
        let is_level_fine = meta.member(&format!("{PREFIX}logLevel")).is_none_or(is_log_level);
        let Some(version) = claim.as_text().filter(|version| version.len() <= 256 && has_capabilities && is_level_fine) else {
            return self.answer(id, "error -32602");
        };
        if version != MODERN {
            return self.answer(id, "error -32022");
        }
        match method {
            "server/discover" => self.answer(id, "discovered"),
            "subscriptions/listen" => self.listen(id, params),
            "initialize" | "ping" => self.answer(id, "error -32601"),
            _ => self.shared(id, method, Some(params), Some(meta), -32602),
        }
    }

    fn listen(mut self, id: &Id, params: &Json) -> Course {
        let names = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];
        let is_flag = |wanted: &Json, name| wanted.member(name).is_none_or(|value| matches!(value, Json::Bool(_)));
        match params.member("notifications").filter(|wanted| wanted.is_object()) {
            Some(wanted) if names.iter().all(|name| is_flag(wanted, name)) => {
                self.open.push(id.clone());
                self.answer(id, ACKNOWLEDGED)
            }
            _ => self.answer(id, "error -32602"),
        }
    }

    fn legacy(self, id: &Id, method: &str, params: Option<&Json>) -> Course {
        if method == "ping" {
            return self.answer(id, "pong");
        }
        let meta = params.and_then(|params| params.member("_meta"));
        if meta.is_some_and(|meta| !meta.is_object()) {
            return self.answer(id, "error -32602");
        }
        if method == "initialize" {
            return self.initialize(id, params);
        }
        let stray = ["clientCapabilities", "clientInfo", "logLevel", "serverInfo", "subscriptionId"];
        let is_stray = meta.is_some_and(|meta| stray.iter().any(|name| meta.member(&format!("{PREFIX}{name}")).is_some()));
        if is_stray || ["server/discover", "subscriptions/listen"].contains(&method) || self.agreed.is_none() {
            return self.answer(id, "error -32602");
        }
        self.shared(id, method, params, meta, -32002)
    }

    fn initialize(mut self, id: &Id, params: Option<&Json>) -> Course {
        let member = |name| params.and_then(|params| params.member(name));
        let version = member("protocolVersion").and_then(Json::as_text);
        let are_objects = ["capabilities", "clientInfo"].iter().all(|name| member(name).is_some_and(Json::is_object));
        let Some(version) = version.filter(|_| are_objects) else { return self.answer(id, "error -32602") };
        let agreed = LEGACY.iter().position(|known| *known == version).unwrap_or(NEWEST_LEGACY);
        self.agreed = Some(agreed);
        if agreed == NEWEST_LEGACY {
            self.recent = Some(NullId::No);
        }
        self.answer(id, format!("initialized {}", LEGACY[agreed]))
    }

    /// What both eras have. `no_resource` is the code of a resource that is not there.
    fn shared(mut self, id: &Id, method: &str, params: Option<&Json>, meta: Option<&Json>, no_resource: i64) -> Course {
        let member = |name| params.and_then(|params| params.member(name));
        let what = match method {
            "tools/call" => {
                let empty = Json::Object(Vec::new());
                let arguments = member("arguments").unwrap_or(&empty);
                let is_token_fine =
                    meta.and_then(|meta| meta.member("progressToken")).is_none_or(|token| Id::of(token).is_some());
                match member("name").and_then(Json::as_text).filter(|_| arguments.is_object() && is_token_fine) {
                    None => "error -32602".to_owned(),
                    Some("tidegate_status") => {
                        let is_empty = *arguments == empty;
                        if is_empty { "tool ok".to_owned() } else { "tool bad_arguments".to_owned() }
                    }
                    Some(name) => {
                        let want = tools::judge(name, arguments);
                        let is_given = given::is_given(name);
                        self.calls.push(Call { id: id.clone(), is_given, want, is_answered: false, is_cancelled: false });
                        return self;
                    }
                }
            }
            "tools/list" | "resources/list" | "resources/templates/list" => match member("cursor") {
                None => method.to_owned(),
                Some(_) => "error -32602".to_owned(),
            },
            "resources/read" => match member("uri").and_then(Json::as_text) {
                Some(_) => format!("error {no_resource}"),
                None => "error -32602".to_owned(),
            },
            _ => "error -32601".to_owned(),
        };
        self.answer(id, what)
    }
}

/// The version a request claims to be of.
fn claim_of(params: &Json) -> Option<&Json> {
    params.member("_meta")?.member(&format!("{PREFIX}protocolVersion"))
}

fn is_log_level(value: &Json) -> bool {
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    value.as_text().is_some_and(|level| levels.contains(&level))
}
