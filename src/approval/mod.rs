//! Asking a human: what is asked, who may be asked, and what an answer can be.
//!
//! A question shows the exact action and which rule asks; an answer is a plain yes by somebody who may give it, or it is a no.
//! Nothing here carries an action out, and no approver ever gets a credential.

pub mod shown;
pub mod state;
pub mod command;
pub mod operator;

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// By whom an action may be approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    /// The user behind the client, who is asked over the protocol.
    Client,
    /// Somebody at `tidegate approvals`.
    Operator,
    /// A command of the configuration: exit status 0 is yes.
    Command,
}

impl Approver {
    /// As in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Approver::Client => "client",
            Approver::Operator => "operator",
            Approver::Command => "command",
        }
    }
}

impl fmt::Display for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `approvals` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRules {
    /// Who is asked: the first of these who can be. Never empty, nobody twice.
    pub order: Vec<Approver>,
    /// How long a question stands.
    pub timeout: Duration,
    /// The approver command: program and arguments, never empty.
    pub command: Option<Vec<String>>,
    /// User ids that may answer at the operator's socket.
    pub operators: Vec<u32>,
}

/// How far a yes goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// This one action.
    Once,
    /// Every action of this tool on this target until the process ends.
    Session,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Go ahead.
    Yes(Extent),
    /// An explicit no, or a dialog that was closed; in words.
    No(String),
    /// No answer in time.
    TimedOut,
    /// An answer that means nothing, or an approver that failed; in words.
    Unusable(String),
}

/// What a human is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// Eight lower-case hexadecimal digits, random.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The rule that allowed the action and asks, as recorded.
    pub rule: String,
    /// What the action is aimed at without its arguments, as in `Grant::target`.
    pub target: String,
    /// The exact action as compact JSON, as in `Action::record`.
    pub action: String,
    /// How far a yes goes at most.
    pub extent: Extent,
}
