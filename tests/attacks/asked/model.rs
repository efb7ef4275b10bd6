//! What must come of each line of a session in which some tools ask: said once more, from the documents alone.
//!
//! A state is good where it is letter for letter one that was given out, was not used, and is brought for the tool and the text it
//! was given out for. Nothing of an asking tool is done but by a yes to exactly that.

use super::super::json::Json;
use super::ops::{Op, Retry, read};

/// Revisions with a handshake, and one without that clients ask for all the same.
pub const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// Calls that wait at most; the gateway has room for a few more, and what is just being recorded takes room too.
pub const WAITING_MAX: usize = 6;

/// One line that has to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// An answer to the request with this id.
    Reply { id: String, what: String },
    /// A question that the call comes back with: with this state, or with a new one.
    Asks { id: String, tool: String, text: String, state: Option<String> },
    /// `elicitation/create` with this number.
    Question { number: u64, tool: String },
    /// `notifications/cancelled` for it.
    Withdrawn { number: u64 },
}

#[derive(Debug, Clone)]
pub struct State {
    pub value: String,
    pub tool: String,
    pub text: String,
    pub is_used: bool,
}

#[derive(Debug, Clone)]
pub struct Waiting {
    pub id: String,
    tool: String,
    text: String,
    /// The number of its question, once it was sent.
    pub question: Option<u64>,
}

/// A session, and what was given out and done in all that share its state folder.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// Whether the client can be asked, once a handshake was made.
    handshake: Option<bool>,
    is_ready: bool,
    pub asked: u64,
    pub waiting: Vec<Waiting>,
    pub states: Vec<State>,
    /// Tool and text of all that was done.
    pub done: Vec<(String, String)>,
}

/// What an answer comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Yes,
    No,
    /// None at all; brought with a call it is a fault of the request, to a question it is no yes.
    Malformed,
}

fn meaning(answer: &Json) -> Meaning {
    let content = answer.member("content");
    match answer.member("action").and_then(Json::as_text) {
        Some("decline" | "cancel") => Meaning::No,
        Some("accept") if content.is_some_and(Json::is_object) => {
            let is_yes = content == Some(&Json::Object(vec![(Some("decision".to_owned()), Json::text("once"))]));
            if is_yes { Meaning::Yes } else { Meaning::No }
        }
        _ => Meaning::Malformed,
    }
}

/// What can be done with these capabilities: forms are what an empty `elicitation` means.
fn has_form(capabilities: &Json) -> bool {
    let Some(elicitation) = capabilities.member("elicitation").filter(|value| value.is_object()) else { return false };
    let has = |name| elicitation.member(name).is_some_and(Json::is_object);
    has("form") || !has("url")
}

fn reply(id: &str, what: &str) -> Vec<Line> {
    vec![Line::Reply { id: id.to_owned(), what: what.to_owned() }]
}

const REFUSED: &str = "error -32602 approval_denied no";
const MALFORMED: &str = "error -32602 bad_arguments no";
const CANNOT: &str = "error -32021 no_approver no";

impl Model {
    /// The next session on the same state folder.
    pub fn next_session(&mut self) {
        (self.handshake, self.is_ready, self.asked) = (None, false, 0);
        self.waiting.clear();
    }

    /// What must come of a line.
    pub fn take(&mut self, op: &Op) -> Vec<Line> {
        match op {
            Op::Modern { id, tool, text, capabilities, retry } => {
                let can_ask = has_form(&read(capabilities));
                self.modern(id, tool, text, can_ask, retry)
            }
            Op::Legacy { id, tool, text, .. } => self.legacy(id, tool, text),
            Op::Initialize { id, revision, capabilities } => {
                let elicitation = read(capabilities);
                let can_ask = match *revision {
                    "2024-11-05" | "2025-03-26" => false,
                    "2025-06-18" => elicitation.member("elicitation").is_some_and(Json::is_object),
                    _ => has_form(&elicitation),
                };
                (self.handshake, self.is_ready) = (Some(can_ask), false);
                reply(id, "initialized")
            }
            Op::Initialized => {
                self.is_ready = self.handshake.is_some();
                self.send_questions()
            }
            Op::Response { id, body } => self.response(id, body),
            Op::Cancel { id } => self.cancel(id),
        }
    }

    /// What has to come once the input has ended.
    pub fn end(&mut self) -> Vec<Line> {
        let mut lines = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            lines.extend(waiting.question.map(|number| Line::Withdrawn { number }));
            lines.extend(reply(&waiting.id, "tool cancelled no"));
        }
        lines
    }

    /// What was given out or used up by an answer to one of these lines, where nobody follows what becomes of it.
    pub fn hear(&mut self, line: &Line, ops: &[Op]) {
        let call = |wanted: &str| {
            ops.iter().find_map(|op| match op {
                Op::Modern { id, tool, text, retry, .. } if id == wanted => {
                    Some((tool.clone(), text.clone(), retry.state.clone()))
                }
                _ => None,
            })
        };
        match line {
            Line::Asks { id, state: Some(value), .. } => {
                let (tool, text, _) = call(id).unwrap_or_default();
                self.states.push(State { value: value.clone(), tool, text, is_used: false });
            }
            Line::Question { number, tool } => {
                let (id, tool, text) = ("0".to_owned(), tool.clone(), String::new());
                self.waiting.push(Waiting { id, tool, text, question: Some(*number) });
            }
            Line::Reply { id, .. } => {
                let brought = call(id).and_then(|(.., state)| state);
                let used = brought.map(|state| read(&state)).filter(|state| state.as_text().is_some());
                self.states
                    .iter_mut()
                    .filter(|known| used == Some(Json::text(&known.value)))
                    .for_each(|known| known.is_used = true);
            }
            Line::Asks { .. } | Line::Withdrawn { .. } => {}
        }
    }

    /// What a tool makes of a call before anybody is asked; `Ok`: whether it asks.
    fn judge(tool: &str, text: &str) -> Result<bool, &'static str> {
        match tool {
            "nothing" => Err("error -32602 unknown_tool no"),
            _ if text.chars().count() > 20 || text.starts_with('-') => Err("tool bad_arguments no"),
            tool => Ok(tool != "say"),
        }
    }

    fn carry_out(&mut self, id: &str, tool: &str, text: &str) -> Vec<Line> {
        self.done.push((tool.to_owned(), text.to_owned()));
        reply(id, "tool ok yes")
    }

    fn modern(&mut self, id: &str, tool: &str, text: &str, can_ask: bool, retry: &Retry) -> Vec<Line> {
        let responses = retry.responses.as_deref().map(read);
        let answer = match &responses {
            None => None,
            Some(value) if value.is_object() => value.member("approval").map(meaning),
            Some(_) => return reply(id, MALFORMED),
        };
        if answer == Some(Meaning::Malformed) {
            return reply(id, MALFORMED);
        }
        let state = match retry.state.as_deref().map(read) {
            None => None,
            Some(Json::Text(Some(state))) if state.len() <= 1024 => Some(state),
            Some(_) => return reply(id, MALFORMED),
        };
        let asks = match Model::judge(tool, text) {
            Ok(asks) => asks,
            Err(what) => return reply(id, what),
        };
        match (state, asks) {
            (Some(_), false) => reply(id, REFUSED),
            (None, false) => self.carry_out(id, tool, text),
            (Some(state), true) => self.brought(id, (tool, text), can_ask, &state, answer),
            (None, true) => Model::asks(id, (tool, text), can_ask, None),
        }
    }

    fn asks(id: &str, (tool, text): (&str, &str), can_ask: bool, state: Option<&str>) -> Vec<Line> {
        if !can_ask {
            return reply(id, CANNOT);
        }
        let [id, tool, text] = [id, tool, text].map(str::to_owned);
        vec![Line::Asks { id, tool, text, state: state.map(str::to_owned) }]
    }

    fn brought(&mut self, id: &str, call: (&str, &str), can_ask: bool, state: &str, answer: Option<Meaning>) -> Vec<Line> {
        let is_it = |known: &&mut State| known.value == state && (known.tool.as_str(), known.text.as_str()) == call;
        let Some(known) = self.states.iter_mut().find(is_it).filter(|known| !known.is_used) else { return reply(id, REFUSED) };
        match answer {
            None => Model::asks(id, call, can_ask, Some(state)),
            Some(Meaning::Yes) => {
                known.is_used = true;
                self.carry_out(id, call.0, call.1)
            }
            Some(Meaning::No | Meaning::Malformed) => {
                known.is_used = true;
                reply(id, "tool approval_denied no")
            }
        }
    }

    fn legacy(&mut self, id: &str, tool: &str, text: &str) -> Vec<Line> {
        let Some(can_ask) = self.handshake else { return reply(id, MALFORMED) };
        match Model::judge(tool, text) {
            Err(what) => reply(id, what),
            Ok(false) => self.carry_out(id, tool, text),
            Ok(true) if !can_ask => reply(id, "tool no_approver no"),
            Ok(true) => {
                let [id, tool, text] = [id, tool, text].map(str::to_owned);
                self.waiting.push(Waiting { id, tool, text, question: None });
                self.send_questions()
            }
        }
    }

    /// Asks once there is a handshake by which the client can be; where there is none any more, nobody is.
    fn send_questions(&mut self) -> Vec<Line> {
        let (true, Some(can_ask)) = (self.is_ready, self.handshake) else { return Vec::new() };
        if !can_ask {
            let unsent = self.waiting.extract_if(.., |waiting| waiting.question.is_none());
            return unsent.flat_map(|waiting| reply(&waiting.id, "tool approval_denied no")).collect();
        }
        let mut lines = Vec::new();
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.question.is_none()) {
            self.asked += 1;
            waiting.question = Some(self.asked);
            lines.push(Line::Question { number: self.asked, tool: waiting.tool.clone() });
        }
        lines
    }

    fn response(&mut self, id: &str, body: &str) -> Vec<Line> {
        let id = read(id);
        let is_it = |waiting: &Waiting| waiting.question.is_some_and(|number| id == Json::text(&format!("tg-{number}")));
        let Some(at) = self.waiting.iter().position(is_it) else { return Vec::new() };
        let Waiting { id, tool, text, .. } = self.waiting.remove(at);
        let body = read(&format!("{{{body}}}"));
        match body.member("result").map(meaning) {
            Some(Meaning::Yes) => self.carry_out(&id, &tool, &text),
            Some(Meaning::No | Meaning::Malformed) | None => reply(&id, "tool approval_denied no"),
        }
    }

    fn cancel(&mut self, id: &str) -> Vec<Line> {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id) else { return Vec::new() };
        let gone = self.waiting.remove(at);
        gone.question.map(|number| Line::Withdrawn { number }).into_iter().collect()
    }
}
