//! The question to the user as `elicitation/create` wants it, in the shape of each revision that has it.
//!
//! One form with one choice. Nothing secret is asked for, and an answer that was not chosen is no.

use crate::mcp::era::Revision;
use crate::rpc::id::Id;
use crate::wire::escape::to_line;

/// The one field of the form.
pub const DECISION: &str = "decision";

/// A choice of the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Yes, this time.
    Once,
    /// Yes, from now on.
    Session,
    /// No.
    Deny,
}

impl Choice {
    fn as_str(self) -> &'static str {
        match self {
            Choice::Once => "once",
            Choice::Session => "session",
            Choice::Deny => "deny",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Choice::Once => "Allow once",
            Choice::Session => "Allow this tool on this target until the gateway ends",
            Choice::Deny => "Deny",
        }
    }

    /// By its value.
    pub(crate) fn parse(text: &str) -> Option<Choice> {
        [Choice::Once, Choice::Session, Choice::Deny].into_iter().find(|decision| decision.as_str() == text)
    }
}

/// A question that is put to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elicitation {
    /// What is asked, for people.
    pub message: String,
    /// What may be chosen.
    pub choices: Vec<Choice>,
}

impl Elicitation {
    /// The parameters of `elicitation/create`, as JSON text. Forms with `mode` and `oneOf` came with 2025-11-25, before that a
    /// choice was `enum` with `enumNames` (2025-06-18).
    pub(crate) fn params(&self, revision: Revision) -> String {
        let (is_new, message) = (revision >= Revision::V2025_11_25, to_line(&self.message));
        let mode = if is_new { r#""mode":"form","# } else { "" };
        let choices = if is_new { self.one_of() } else { self.names() };
        format!(
            r#"{{{mode}"message":{message},"requestedSchema":{{"type":"object","properties":{{"{DECISION}":{{"type":"string","title":"Decision",{choices}}}}},"required":["{DECISION}"]}}}}"#
        )
    }

    fn one_of(&self) -> String {
        let choice = |choice: &Choice| format!(r#"{{"const":"{}","title":"{}"}}"#, choice.as_str(), choice.title());
        let choices: Vec<String> = self.choices.iter().map(choice).collect();
        format!(r#""oneOf":[{}],"default":"{}""#, choices.join(","), Choice::Deny.as_str())
    }

    fn names(&self) -> String {
        let list = |text: fn(Choice) -> &'static str| to_line(&self.choices.iter().map(|c| text(*c)).collect::<Vec<_>>());
        format!(r#""enum":{},"enumNames":{}"#, list(Choice::as_str), list(Choice::title))
    }

    /// The request of the legacy era, as a line without its LF.
    pub fn render(&self, id: &Id, revision: Revision) -> String {
        let (id, params) = (id.to_json(), self.params(revision));
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{params}}}"#)
    }
}
