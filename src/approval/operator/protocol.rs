//! The lines at the operator's socket: one request, one answer, each a JSON object on a line of its own.
//!
//! ```text
//! {"do":"list"}                                        {"questions":[{"id", "tool", "rule", "target", "extent", "rest_ms",
//!                                                        "action"}, …],"left_out":0}
//! {"do":"allow","id":"…","extent":"once"|"session"}    {"done":true}
//! {"do":"deny","id":"…"}                               {"done":true}
//!                                                      {"error":"…"}    nothing was done
//! ```
//! A request has exactly these members. Nothing of a request that is refused is repeated in the answer.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::approval::{Extent, Question};
use crate::limits::APPROVAL_ANSWER_BYTES;
use crate::rpc::strict;
use crate::wire::escape::to_line;

/// What an answer takes beside its questions.
const FRAME_BYTES: usize = 256;

/// What a peer wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// The open questions.
    List,
    /// A yes.
    Allow {
        /// Of the question.
        id: String,
        /// How far it goes.
        extent: Reach,
    },
    /// A no.
    Deny {
        /// Of the question.
        id: String,
    },
}

/// `Extent`, on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// `Extent::Once`.
    Once,
    /// `Extent::Session`.
    Session,
}

impl Reach {
    fn parse(text: &str) -> Option<Reach> {
        match text {
            "once" => Some(Reach::Once),
            "session" => Some(Reach::Session),
            _ => None,
        }
    }
}

impl From<Extent> for Reach {
    fn from(extent: Extent) -> Reach {
        match extent {
            Extent::Once => Reach::Once,
            Extent::Session => Reach::Session,
        }
    }
}

impl From<Reach> for Extent {
    fn from(reach: Reach) -> Extent {
        match reach {
            Reach::Once => Extent::Once,
            Reach::Session => Extent::Session,
        }
    }
}

impl Request {
    /// Reads a line, without its line feed. `None` for everything but exactly one request.
    pub fn parse(line: &[u8]) -> Option<Request> {
        let text = std::str::from_utf8(line).ok()?;
        let raw: &RawValue = serde_json::from_str(text).ok()?;
        strict::inspect(raw.get()).ok()?;
        // Every member is a string, and none stands there twice.
        let members: BTreeMap<String, String> = serde_json::from_str(raw.get()).ok()?;
        let member = |name: &str| members.get(name).cloned();
        match (members.len(), member("do")?.as_str(), member("id"), member("extent")) {
            (1, "list", None, None) => Some(Request::List),
            (3, "allow", Some(id), Some(extent)) => Some(Request::Allow { id, extent: Reach::parse(&extent)? }),
            (2, "deny", Some(id), None) => Some(Request::Deny { id }),
            _ => None,
        }
    }

    /// As a line, its line feed included.
    pub fn to_line(&self) -> String {
        format!("{}\n", to_line(self))
    }
}

/// An open question, as answered.
#[derive(Debug, Serialize, Deserialize)]
pub struct Listed {
    /// Of the question.
    pub id: String,
    /// As in `Question`.
    pub tool: String,
    /// As in `Question`.
    pub rule: String,
    /// As in `Question`.
    pub target: String,
    /// How far a yes goes at most.
    pub extent: Reach,
    /// For how long it still stands.
    pub rest_ms: u64,
    /// The exact action: a JSON object.
    pub action: Box<RawValue>,
}

impl Listed {
    fn new(question: Question, rest: Duration) -> Listed {
        let Question { id, tool, rule, target, action, extent } = question;
        // What is no JSON, which no action is, is shown as a string.
        let as_string = |text: String| RawValue::from_string(to_line(&text)).expect("a string is JSON");
        let action = RawValue::from_string(action.clone()).unwrap_or_else(|_| as_string(action));
        let rest_ms = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
        Listed { id, tool, rule, target, extent: extent.into(), rest_ms, action }
    }
}

/// The answer with these questions, in their order; those that do not fit any more are counted.
pub fn questions_line(open: Vec<(Question, Duration)>) -> String {
    let (mut questions, mut left_out) = (String::new(), 0);
    for (question, rest) in open {
        let next = to_line(&Listed::new(question, rest));
        if questions.len() + next.len() + FRAME_BYTES > APPROVAL_ANSWER_BYTES {
            left_out += 1;
            continue;
        }
        if !questions.is_empty() {
            questions.push(',');
        }
        questions.push_str(&next);
    }
    format!("{{\"questions\":[{questions}],\"left_out\":{left_out}}}\n")
}

/// The answer to what was done.
pub fn done_line() -> String {
    "{\"done\":true}\n".to_owned()
}

/// The answer to what was not done; `why` is ours.
pub fn error_line(why: &str) -> String {
    format!("{{\"error\":{}}}\n", to_line(why))
}

/// An answer, read.
#[derive(Debug)]
pub enum Reply {
    /// The open questions, and how many do not fit.
    Questions(Vec<Listed>, u64),
    /// It is done.
    Done,
    /// Nothing was done, and why; foreign text.
    Error(String),
}

impl Reply {
    /// Reads a line. `None` for everything but an answer; members of a later version are skipped.
    pub fn parse(line: &[u8]) -> Option<Reply> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Shape {
            Error { error: String },
            Done { done: bool },
        }
        #[derive(Deserialize)]
        struct Questions {
            questions: Vec<Listed>,
            left_out: u64,
        }
        if let Ok(Questions { questions, left_out }) = serde_json::from_slice(line) {
            return Some(Reply::Questions(questions, left_out));
        }
        match serde_json::from_slice(line).ok()? {
            Shape::Error { error } => Some(Reply::Error(error)),
            Shape::Done { done } => done.then_some(Reply::Done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<Request>) {
        assert_eq!(Request::parse(line.as_bytes()), expected, "{line}");
    }

    fn allow(extent: Reach) -> Request {
        Request::Allow { id: "0a".to_owned(), extent }
    }

    #[test]
    fn a_request_is_read_back_as_it_was_written() {
        let deny = Request::Deny { id: "0a".to_owned() };
        for (request, line) in [
            (Request::List, r#"{"do":"list"}"#),
            (allow(Reach::Once), r#"{"do":"allow","id":"0a","extent":"once"}"#),
            (allow(Reach::Session), r#"{"do":"allow","id":"0a","extent":"session"}"#),
            (deny, r#"{"do":"deny","id":"0a"}"#),
        ] {
            assert_eq!(request.to_line(), format!("{line}\n"));
            check(line, Some(request));
        }
        check(" { \"extent\" : \"once\" , \"id\" : \"\\u0030a\" , \"do\" : \"allow\" } \r", Some(allow(Reach::Once)));
    }

    #[test]
    fn everything_else_is_no_request() {
        for line in [
            "",
            "list",
            "null",
            "{}",
            r#"["list"]"#,
            r#"["allow","0a","once"]"#,
            r#"["deny",{"id":"0a"}]"#,
            r#"{"do":"lists"}"#,
            r#"{"do":["list"]}"#,
            r#"{"do":"list","id":"0a"}"#,
            r#"{"do":"list"} {"do":"list"}"#,
            r#"{"do":"list","do":"list"}"#,
            r#"{"do":"deny","\u0064o":"deny","id":"0a"}"#,
            r#"{"do":"allow","id":"0a"}"#,
            r#"{"do":"allow","id":"0a","extent":"ever"}"#,
            r#"{"do":"allow","id":"0a","extent":null}"#,
            r#"{"do":"allow","id":10,"extent":"once"}"#,
            r#"{"do":"allow","id":"0a","extent":"once","note":1}"#,
            r#"{"do":"allow","id":"0a","id":"0b","extent":"once"}"#,
            r#"{"do":"allow","id":"0a","extent":{"once":null}}"#,
            r#"{"do":"list","id":null}"#,
            r#"{"do":"deny"}"#,
            r#"{"do":"deny","id":"0a","extent":"once"}"#,
            r#"{"do":"deny","id":"\ud800"}"#,
            r#"{"DO":"list"}"#,
            "\u{feff}{\"do\":\"list\"}",
        ] {
            check(line, None);
        }
        assert_eq!(Request::parse(b"{\"do\":\"deny\",\"id\":\"\xff\"}"), None);
    }

    fn question(id: &str, action: String) -> Question {
        let [tool, rule, target] = ["t", "r", "a\u{1b}\u{85}"].map(str::to_owned);
        Question { id: id.to_owned(), tool, rule, target, action, extent: Extent::Session }
    }

    #[track_caller]
    fn questions(line: &str) -> (Vec<Listed>, u64) {
        match Reply::parse(line.strip_suffix('\n').unwrap().as_bytes()) {
            Some(Reply::Questions(questions, left_out)) => (questions, left_out),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn questions_arrive_as_they_are_and_in_order() {
        let deep = format!("{{\"a\":{}1.50{}}}", "[".repeat(100), "]".repeat(100));
        let open = [("1", "{\"exec\":\"\\u001b\u{202e}\"}".to_owned()), ("2", deep.clone()), ("3", "no JSON".to_owned())];
        let open = open.map(|(id, action)| (question(id, action), Duration::from_millis(1500)));
        let line = questions_line(open.into());
        assert!(!line.contains(['\u{1b}', '\u{85}']) && line.matches('\n').count() == 1, "{line}");
        let (questions, left_out) = questions(&line);
        let seen: Vec<_> = questions.iter().map(|listed| (listed.id.as_str(), listed.action.get())).collect();
        let want = [("1", "{\"exec\":\"\\u001b\u{202e}\"}"), ("2", deep.as_str()), ("3", "\"no JSON\"")];
        assert_eq!((seen.as_slice(), left_out), (want.as_slice(), 0));
        let Listed { tool, rule, target, extent, rest_ms, .. } = &questions[0];
        assert_eq!((tool.as_str(), rule.as_str(), target.as_str()), ("t", "r", "a\u{1b}\u{85}"));
        assert_eq!((*extent, *rest_ms), (Reach::Session, 1500));
    }

    #[test]
    fn an_answer_is_bounded_and_says_what_is_left_out() {
        let long = format!("\"{}\"", "x".repeat(APPROVAL_ANSWER_BYTES / 2));
        let open = [("1", long.clone()), ("2", long), ("3", "{}".to_owned())];
        let line = questions_line(open.map(|(id, action)| (question(id, action), Duration::ZERO)).into());
        assert!(line.len() <= APPROVAL_ANSWER_BYTES);
        let (questions, left_out) = questions(&line);
        assert_eq!((questions.iter().map(|listed| listed.id.as_str()).collect::<Vec<_>>(), left_out), (vec!["1", "3"], 1));
    }

    #[test]
    fn other_answers_are_told_apart() {
        assert!(matches!(Reply::parse(done_line().as_bytes()), Some(Reply::Done)));
        assert!(matches!(Reply::parse(error_line("no \"x\"").as_bytes()), Some(Reply::Error(why)) if why == "no \"x\""));
        for line in ["", "{}", "{\"done\":false}", "[true]", "{\"questions\":[{}],\"left_out\":0}", "{\"error\":1}"] {
            assert!(Reply::parse(line.as_bytes()).is_none(), "{line}");
        }
    }
}
