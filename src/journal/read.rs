//! Journal lines as read back: the members that anybody here looks at, whatever version wrote the others.
//!
//! What is read may have been written by anybody: every member but the ones of the chain may be absent, and text is data.

use std::borrow::Cow;

use serde::Deserialize;

use crate::journal::chain::Hash;

/// One line of a journal, of the heads file or of a file of refusals.
#[derive(Debug, Deserialize)]
pub struct Seen<'a> {
    /// The place in the chain.
    pub seq: u64,
    /// When it was written.
    #[serde(borrow)]
    pub at: Cow<'a, str>,
    /// As written; refusals have none.
    #[serde(borrow, default)]
    pub prev: Cow<'a, str>,
    /// What it is.
    #[serde(borrow, rename = "type")]
    pub kind: Cow<'a, str>,
    /// Of question, answer, intent and outcome.
    pub call: Option<u64>,
    /// Of a session, and of a note in the heads file.
    pub file: Option<String>,
    /// Of a session, and of a start in the heads file.
    pub pid: Option<u32>,
    /// Of a session.
    pub previous: Option<String>,
    /// Of a session.
    #[serde(default)]
    pub open: Vec<u64>,
    /// Of an end in the heads file.
    pub last_seq: Option<u64>,
    /// Of an end in the heads file.
    pub head: Option<String>,
    /// Of a question and of an answer; of an intent that was approved.
    pub question: Option<String>,
    /// Of a question, and of an answer.
    pub asked: Option<String>,
    /// Of an answer.
    pub answer: Option<String>,
    /// Of an answer.
    pub user: Option<u32>,
    /// Of a question, and of an intent.
    pub tool: Option<String>,
    /// Of a question, and of an intent.
    pub target: Option<String>,
    /// Of a question, and of an intent.
    pub action_sha256: Option<String>,
    /// Of a question, of an intent, and of a refusal.
    pub era: Option<String>,
    /// Of an outcome.
    pub code: Option<String>,
    /// Of an outcome.
    pub executed: Option<String>,
    /// Of an outcome.
    pub status: Option<i64>,
    /// Of an outcome, and of a refusal.
    pub bytes: Option<u64>,
    /// Of an outcome.
    pub duration_ms: Option<u64>,
    /// Of an outcome.
    pub ended: Option<String>,
    /// Of a refusal.
    pub stage: Option<String>,
    /// Of a refusal.
    pub reason: Option<String>,
}

impl<'a> Seen<'a> {
    /// Reads a line; the text of an error says what is wrong with it.
    pub fn parse(line: &'a [u8]) -> Result<Self, String> {
        let seen: Seen<'a> = serde_json::from_slice(line).map_err(|error| described(&error))?;
        let is_of_question = matches!(&*seen.kind, "question" | "answer");
        let is_of_call = is_of_question || matches!(&*seen.kind, "intent" | "outcome");
        if is_of_call && seen.call.is_none() {
            return Err(format!("expected the number of its call in the record of type {}, got none", seen.kind));
        }
        if is_of_question && seen.question.is_none() {
            return Err(format!("expected the name of its question in the record of type {}, got none", seen.kind));
        }
        Ok(seen)
    }

    /// The hash of the line before it; `None` where the member is no hash.
    pub fn prev(&self) -> Option<Hash> {
        Hash::parse(&self.prev)
    }
}

/// The library counts lines of its own.
fn described(error: &serde_json::Error) -> String {
    let (text, place) = (error.to_string(), format!(" at line {} column {}", error.line(), error.column()));
    format!("{} at byte {}", text.strip_suffix(&place).unwrap_or(&text), error.column())
}
