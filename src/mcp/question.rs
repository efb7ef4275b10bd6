//! Questions to the user that wait for an answer in the legacy era: requests of ours, in a table of their own.
//!
//! Ids are `"tg-N"` and never used twice. An answer is matched by exact id and type or dropped, and only an explicit
//! accept with content can mean consent: everything else is some way of no.

use crate::limits::QUESTIONS;
use crate::mcp::answer::Answer;
use crate::mcp::legacy::Ready;
use crate::rpc::id::Id;
use crate::rpc::message::Response;

/// The table; `T` is what waits for the answer.
#[derive(Debug)]
pub struct Questions<T> {
    asked: u64,
    open: Vec<(Id, T)>,
}

/// The table is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyQuestions;

impl<T> Default for Questions<T> {
    fn default() -> Questions<T> {
        Questions { asked: 0, open: Vec::new() }
    }
}

impl<T> Questions<T> {
    /// An empty table.
    pub fn new() -> Questions<T> {
        Questions::default()
    }

    /// Opens a question; the returned id is for its request. `_ready` proves that the client has said `initialized`.
    ///
    /// # Errors
    /// `TooManyQuestions` above `QUESTIONS` open ones.
    pub fn open(&mut self, _ready: Ready, waiting: T) -> Result<Id, TooManyQuestions> {
        if self.open.len() >= QUESTIONS {
            return Err(TooManyQuestions);
        }
        self.asked += 1;
        let id = Id::text(&format!("tg-{}", self.asked));
        self.open.push((id.clone(), waiting));
        Ok(id)
    }

    /// Ends a question: what waited, or nothing for an id that is not open.
    pub fn take(&mut self, id: &Id) -> Option<T> {
        let at = self.open.iter().position(|(open, _)| open == id)?;
        Some(self.open.remove(at).1)
    }

    /// Ends the first question whose waiting side fits, so that it can be withdrawn under its id.
    pub fn take_where(&mut self, fits: impl Fn(&T) -> bool) -> Option<(Id, T)> {
        let at = self.open.iter().position(|(_, waiting)| fits(waiting))?;
        Some(self.open.remove(at))
    }

    /// Matches a response; `None` for one that answers no open question, which is dropped.
    pub fn answer(&mut self, response: &Response<'_>) -> Option<(T, Answer)> {
        let waiting = self.take(response.id())?;
        Some((waiting, read_answer(response)))
    }

    /// Open questions.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no question is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

fn read_answer(response: &Response<'_>) -> Answer {
    match (response.flaw(), response.outcome()) {
        (Some(_), _) => Answer::Malformed,
        (None, Err(_)) => Answer::Failed,
        (None, Ok(result)) => Answer::read(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::session::Session;
    use crate::rpc::message::{Message, parse};
    use std::sync::Arc;

    fn session_after(lines: &[&str]) -> Session {
        let mut session = Session::new(Arc::default(), None);
        for line in lines {
            match parse(line).unwrap() {
                Message::Request(request) => drop(session.request(&request)),
                Message::Notification(notification) => drop(session.notification(&notification)),
                other => panic!("unexpected {other:?}"),
            }
        }
        session
    }

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{}}}"#;
    const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

    fn ready() -> Ready {
        session_after(&[INITIALIZE, INITIALIZED]).ready().unwrap()
    }

    #[test]
    fn no_question_before_initialized_s23_u10() {
        assert_eq!(session_after(&[]).ready(), None);
        assert_eq!(session_after(&[INITIALIZED]).ready(), None);
        assert_eq!(session_after(&[INITIALIZE]).ready(), None);
        assert!(ready().agreement().can_ask().form);
        // A second initialize starts over.
        assert_eq!(session_after(&[INITIALIZE, INITIALIZED, INITIALIZE]).ready(), None);
    }

    #[track_caller]
    fn check_answer(outcome: &str, expected: Answer) {
        let mut table = Questions::new();
        table.open(ready(), 'a').unwrap();
        let id = table.open(ready(), 'b').unwrap();
        let line = format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, id.to_json());
        let Ok(Message::Response(response)) = parse(&line) else { panic!("no response: {line}") };
        assert_eq!(table.answer(&response), Some(('b', expected)), "{outcome}");
        assert_eq!(table.answer(&response), None, "only once");
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn only_an_explicit_accept_with_content_can_be_consent_s133() {
        check_answer(r#""result":{"action":"accept","content":{"d":"once"}}"#, Answer::Accepted(r#"{"d":"once"}"#.to_owned()));
        check_answer(r#""result":{"action":"decline","content":{}}"#, Answer::Declined);
        check_answer(r#""result":{"action":"cancel"}"#, Answer::Dismissed);
        check_answer(r#""error":{"code":-32602,"message":"x"}"#, Answer::Failed);
        for result in [
            r#"{"action":"accept"}"#,
            r#"{"action":"accept","content":[]}"#,
            r#"{"action":"ACCEPT","content":{}}"#,
            "{}",
            "null",
            "[]",
        ] {
            check_answer(&format!(r#""result":{result}"#), Answer::Malformed);
        }
        check_answer(r#""result":{"action":"accept","content":{"d":"\ud83d"}}"#, Answer::Malformed);
    }

    #[test]
    fn answers_to_nothing_are_dropped_u17() {
        let mut table = Questions::new();
        assert_eq!(table.open(ready(), ()).unwrap(), Id::text("tg-1"));
        for id in ["1", "\"tg-2\"", "\"\"", "\"TG-1\""] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"decline"}}}}"#);
            let Ok(Message::Response(response)) = parse(&line) else { panic!("no response: {line}") };
            assert_eq!(table.answer(&response), None, "{id}");
        }
        assert_eq!(table.take_where(|()| true), Some((Id::text("tg-1"), ())));
        assert!(table.is_empty());
    }

    #[test]
    fn the_table_is_full_at_its_limit_and_ids_are_never_reused() {
        let mut table = Questions::new();
        let ids: Vec<Id> = (0..QUESTIONS).map(|n| table.open(ready(), n).unwrap()).collect();
        assert_eq!(table.open(ready(), 99), Err(TooManyQuestions));
        assert_eq!(table.take(&ids[2]), Some(2));
        assert_eq!(table.open(ready(), 99).unwrap(), Id::text("tg-9"));
    }
}
