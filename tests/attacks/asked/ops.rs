//! What a client does in a session in which some tools ask: calls, retries with good and bad states, answers and handshakes, with and
//! without what the protocol wants of them. Chosen by dice among what the session has seen so far.

use super::super::json::{self, Json};
use super::super::mutate::Dice;
use super::model::{Model, REVISIONS};

/// One line of the client.
#[derive(Debug, Clone)]
pub enum Op {
    /// `tools/call` without a handshake; `retry`: the members that bring something back, as JSON.
    Modern {
        id: String,
        tool: String,
        text: String,
        capabilities: &'static str,
        retry: Retry,
    },
    /// `tools/call` of the handshake's era, with a state that means nothing there.
    Legacy {
        id: String,
        tool: String,
        text: String,
        stray: Option<String>,
    },
    Initialize {
        id: String,
        revision: &'static str,
        capabilities: &'static str,
    },
    Initialized,
    /// A response: `id` and `body` (`result` or `error` with its value) as JSON.
    Response {
        id: String,
        body: String,
    },
    /// Of the request with this id, as JSON.
    Cancel {
        id: String,
    },
}

/// What a retry brings, as JSON; `None`: the member is not there.
#[derive(Debug, Clone, Default)]
pub struct Retry {
    pub state: Option<String>,
    pub responses: Option<String>,
}

const PREFIX: &str = "io.modelcontextprotocol/";

impl Op {
    pub fn line(&self) -> String {
        match self {
            Op::Modern { id, tool, text, capabilities, retry } => {
                let mut more = String::new();
                for (name, value) in [("requestState", &retry.state), ("inputResponses", &retry.responses)] {
                    more.extend(value.iter().map(|value| format!(r#","{name}":{value}"#)));
                }
                let meta = format!(
                    r#""_meta":{{"{PREFIX}protocolVersion":"2026-07-28","{PREFIX}clientCapabilities":{capabilities}}}"#
                );
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":{}}}{more},{meta}}}}}"#,
                    Json::text(text).print()
                )
            }
            Op::Legacy { id, tool, text, stray } => {
                let stray = stray
                    .as_ref()
                    .map_or(String::new(), |state| format!(r#","requestState":{state},"inputResponses":{{"approval":{YES}}}"#));
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":{}}}{stray}}}}}"#,
                    Json::text(text).print()
                )
            }
            Op::Initialize { id, revision, capabilities } => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{capabilities},"clientInfo":{{"name":"x","version":"1"}}}}}}"#
            ),
            Op::Initialized => r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
            Op::Response { id, body } => format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#),
            Op::Cancel { id } => {
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
            }
        }
    }
}

pub const YES: &str = r#"{"action":"accept","content":{"decision":"once"}}"#;

const CAPABILITIES: [&str; 9] = [
    r#"{"elicitation":{"form":{}}}"#,
    r#"{"elicitation":{}}"#,
    r#"{"elicitation":{"form":{},"url":{}}}"#,
    r#"{"elicitation":{"url":{}}}"#,
    r#"{"elicitation":{"form":true}}"#,
    r#"{"elicitation":{"form":null,"url":{}}}"#,
    r#"{"elicitation":[]}"#,
    r#"{"elicitation":true,"sampling":{}}"#,
    "{}",
];

/// Answers to a question, the first of which is the only yes.
const ANSWERS: [&str; 22] = [
    YES,
    r#"{"action":"decline"}"#,
    r#"{"action":"cancel"}"#,
    r#"{"action":"accept","content":{"decision":"deny"}}"#,
    r#"{"action":"accept","content":{"decision":"session"}}"#,
    r#"{"action":"accept","content":{"decision":"Once"}}"#,
    r#"{"action":"accept","content":{"decision":"once "}}"#,
    r#"{"action":"accept","content":{"decision":["once"]}}"#,
    r#"{"action":"accept","content":{"decision":true}}"#,
    r#"{"action":"accept","content":{"decision":"once","x":"y"}}"#,
    r#"{"action":"accept","content":{"Decision":"once"}}"#,
    r#"{"action":"accept","content":{}}"#,
    r#"{"action":"decline","content":{"decision":"once"}}"#,
    r#"{"action":"cancel","content":{"decision":"once"}}"#,
    r#"{"action":"accept","content":[]}"#,
    r#"{"action":"accept"}"#,
    r#"{"action":"ACCEPT","content":{"decision":"once"}}"#,
    r#"{"action":true,"content":{"decision":"once"}}"#,
    r#"{"content":{"decision":"once"}}"#,
    "{}",
    r#""accept""#,
    "null",
];

const TEXTS: [&str; 10] =
    ["a", "b", "a ", "", "A", "-x", "a \"q\" é🎉", "a\u{202e}b", "12345678901234567890", "123456789012345678901"];

const TOOLS: [&str; 6] = ["put", "put", "put", "set", "say", "nothing"];

/// What dice choose from.
pub struct Chooser<'a> {
    pub dice: &'a mut Dice,
    pub model: &'a Model,
    pub number: &'a mut usize,
}

impl Chooser<'_> {
    fn id(&mut self) -> String {
        *self.number += 1;
        if self.dice.once_in(3) { format!("\"{}\"", self.number) } else { self.number.to_string() }
    }

    /// The next one or two lines, sent in one write.
    pub fn ops(&mut self) -> Vec<Op> {
        match self.dice.below(20) {
            0..=3 => vec![self.fresh()],
            4..=8 => vec![self.retry()],
            9 | 10 => self.twins(),
            11 | 12 => vec![self.legacy()],
            13..=15 => vec![self.response()],
            16 => vec![self.cancel()],
            17 => vec![self.cancel(), self.response()],
            18 => vec![Op::Initialized],
            _ => vec![self.initialize()],
        }
    }

    /// What a legacy session begins with, mostly.
    pub fn initialize(&mut self) -> Op {
        let revision = if self.dice.once_in(2) { "2025-11-25" } else { self.dice.of(&REVISIONS) };
        Op::Initialize { id: self.id(), revision, capabilities: self.capabilities() }
    }

    fn capabilities(&mut self) -> &'static str {
        if self.dice.once_in(3) { CAPABILITIES[self.dice.below(CAPABILITIES.len())] } else { CAPABILITIES[0] }
    }

    fn tool(&mut self) -> String {
        TOOLS[self.dice.below(TOOLS.len())].to_owned()
    }

    fn text(&mut self) -> String {
        let among = if self.dice.once_in(3) { TEXTS.len() } else { 3 };
        TEXTS[self.dice.below(among)].to_owned()
    }

    fn answer(&mut self) -> &'static str {
        if self.dice.once_in(2) { YES } else { ANSWERS[self.dice.below(ANSWERS.len())] }
    }

    fn fresh(&mut self) -> Op {
        let responses = self.dice.once_in(6).then(|| self.responses());
        let retry = Retry { state: None, responses };
        Op::Modern { id: self.id(), tool: self.tool(), text: self.text(), capabilities: self.capabilities(), retry }
    }

    fn responses(&mut self) -> String {
        let answer = self.answer();
        match self.dice.below(12) {
            0 => "{}".to_owned(),
            1 => format!(r#"{{"Approval":{answer}}}"#),
            2 => "[]".to_owned(),
            3 => "null".to_owned(),
            4 => format!(r#"{{"other":5,"approval":{answer}}}"#),
            _ => format!(r#"{{"approval":{answer}}}"#),
        }
    }

    /// A state with the call it belongs to, mostly; of those that are used as well.
    fn retry(&mut self) -> Op {
        let fresh = self.fresh();
        let Op::Modern { id, mut tool, mut text, capabilities, .. } = fresh else { return fresh };
        let state = self.state().map(|(state, own_tool, own_text)| {
            if !self.dice.once_in(8) {
                tool = own_tool;
            }
            if !self.dice.once_in(8) {
                text = own_text;
            }
            state
        });
        let state = state.map_or_else(|| r#""none""#.to_owned(), |state| self.spoiled(&state));
        let responses = (!self.dice.once_in(8)).then(|| self.responses());
        Op::Modern { id, tool, text, capabilities, retry: Retry { state: Some(state), responses } }
    }

    /// One that is not used yet, one of the last, or any.
    fn state(&mut self) -> Option<(String, String, String)> {
        let states = &self.model.states;
        let last = states.len().checked_sub(1)?;
        let unused = states.iter().rposition(|state| !state.is_used).filter(|_| self.dice.once_in(2));
        let recent = if self.dice.once_in(3) { states.len() } else { states.len().min(3) };
        let at = unused.unwrap_or(last - self.dice.below(recent));
        let state = &states[at];
        Some((state.value.clone(), state.tool.clone(), state.text.clone()))
    }

    /// A state as JSON: mostly as it is, else altered in some way.
    fn spoiled(&mut self, state: &str) -> String {
        let at = self.dice.below(state.len());
        let text = match self.dice.below(30) {
            0 | 1 => {
                let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
                let other = char::from(alphabet[self.dice.below(alphabet.len())]);
                format!("{}{other}{}", &state[..at], &state[at + 1..])
            }
            2 => state[..at].to_owned(),
            3 => state[at..].to_owned(),
            4 => format!("{state}{}", self.dice.of(&["A", "=", " ", "\n", "AAAA"])),
            5 => format!("{}{state}", self.dice.of(&["A", " ", "\u{feff}"])),
            6 => state.to_ascii_lowercase(),
            7 => "A".repeat([0, 132, 1024, 1025][self.dice.below(4)]),
            8 => return self.dice.of(&["5", "null", "[]", "{}", "true"]).to_owned(),
            9 => {
                // The same text, spelled otherwise.
                let c = u32::from(state.as_bytes()[at]);
                return format!(r#""{}\u{c:04x}{}""#, &state[..at], &state[at + 1..]);
            }
            _ => state.to_owned(),
        };
        Json::text(&text).print()
    }

    /// Two retries with one state: of two that could be carried out one is.
    fn twins(&mut self) -> Vec<Op> {
        let first = self.retry();
        let Op::Modern { tool, text, capabilities, retry, .. } = &first else { return vec![first] };
        let responses = if self.dice.once_in(3) { Some(self.responses()) } else { retry.responses.clone() };
        let retry = Retry { state: retry.state.clone(), responses };
        let second = Op::Modern { id: self.id(), tool: tool.clone(), text: text.clone(), capabilities, retry };
        vec![first, second]
    }

    fn legacy(&mut self) -> Op {
        let stray = if self.dice.once_in(4) { self.state() } else { None };
        let stray = stray.map(|(state, ..)| Json::text(&state).print());
        Op::Legacy { id: self.id(), tool: self.tool(), text: self.text(), stray }
    }

    /// To a question that stands, mostly.
    fn response(&mut self) -> Op {
        let open: Vec<u64> = self.model.waiting.iter().filter_map(|waiting| waiting.question).collect();
        let question = match open.len() {
            0 => self.model.asked.max(1),
            many => open[self.dice.below(many)],
        };
        let id = match self.dice.below(12) {
            0 => format!("\"tg-{}\"", self.dice.below(12)),
            1 => format!("\"TG-{question}\""),
            2 => question.to_string(),
            3 => format!("\"tg-0{question}\""),
            4 => format!("\"\\u0074g-{question}\""),
            5 => self.dice.below(20).to_string(),
            _ => format!("\"tg-{question}\""),
        };
        let body = match self.dice.below(10) {
            0 => r#""error":{"code":-32603,"message":"no"}"#.to_owned(),
            1 => r#""error":{"action":"accept","content":{"decision":"once"}}"#.to_owned(),
            2 => r#""result":{"action":"accept","content":{"decision":"\ud800"}}"#.to_owned(),
            _ => format!(r#""result":{}"#, self.answer()),
        };
        Op::Response { id, body }
    }

    fn cancel(&mut self) -> Op {
        let waiting = &self.model.waiting;
        let id = match waiting.len() {
            0 => (1 + self.dice.below(20)).to_string(),
            many => waiting[self.dice.below(many)].id.clone(),
        };
        Op::Cancel { id: if self.dice.once_in(6) { format!("\"{}\"", 1 + self.dice.below(20)) } else { id } }
    }
}

/// What stands behind a member of a value given as JSON text.
pub fn read(text: &str) -> Json {
    json::read(text).expect("ours").value
}
