//! What a client answers to a question, in either era: a result of `elicitation/create`.
//!
//! Only an explicit accept, with content that fits what was asked, can mean consent: everything else is some way of no.

use crate::mcp::elicit::{Choice, DECISION};
use crate::rpc::members::pick;
use crate::rpc::strict;

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Accepted; the raw `content` object, still to be checked against what was asked.
    Accepted(String),
    /// An explicit no.
    Declined,
    /// Dismissed without a choice.
    Dismissed,
    /// The client answered with an error.
    Failed,
    /// The client's answer has no meaning.
    Malformed,
}

impl Answer {
    /// Reads a raw result.
    pub(crate) fn read(result: &str) -> Answer {
        let [action, content] = pick(result, ["action", "content"]).unwrap_or([None; 2]);
        match (action.and_then(strict::string).as_deref(), content) {
            (Some("accept"), Some(content)) if strict::is_object(content) => Answer::Accepted(content.to_owned()),
            (Some("decline"), _) => Answer::Declined,
            (Some("cancel"), _) => Answer::Dismissed,
            (Some(_) | None, _) => Answer::Malformed,
        }
    }

    /// What was decided by an accept; `None` where its content is not exactly what was asked for.
    pub fn decision(&self) -> Option<Choice> {
        let Answer::Accepted(content) = self else { return None };
        let members: std::collections::BTreeMap<String, String> = serde_json::from_str(content).ok()?;
        match members.iter().next() {
            Some((name, value)) if name == DECISION && members.len() == 1 => Choice::parse(value),
            _ => None,
        }
    }
}
