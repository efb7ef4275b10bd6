//! The grant: an action that may be carried out, together with its terms.
//!
//! `Authorized` has private fields, is neither `Clone` nor constructible outside `policy`, and is the only thing an executor
//! takes. Whoever holds one got it from `decide`.

use std::sync::Arc;
use std::time::Duration;

use crate::action::exec::ExecAction;
use crate::action::http::HttpAction;
use crate::policy::rules::CredentialRule;

/// An action that was allowed, and under which terms.
#[must_use]
#[derive(Debug)]
pub struct Authorized<A> {
    action: A,
    terms: Terms,
}

/// The terms of a grant: the executor's only source of these values.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The tool that asked.
    pub tool: String,
    /// The rule that allowed it, as recorded.
    pub rule: String,
    /// What the action is aimed at, bounded and escaped, for people and records: `GET https://api.example.com/v1`, `exec df -h`.
    pub target: String,
    /// The credential to join, by name and placement.
    pub credential: Option<Arc<CredentialRule>>,
    /// Serialised bytes of the result, both copies.
    pub content_bytes: usize,
    /// From admission to outcome.
    pub timeout: Duration,
}

impl<A> Authorized<A> {
    pub(in crate::policy) fn new(action: A, terms: Terms) -> Self {
        Authorized { action, terms }
    }

    /// A grant out of thin air, for unit tests of executors.
    #[cfg(test)]
    pub(crate) fn in_test(action: A, terms: Terms) -> Self {
        Authorized { action, terms }
    }

    /// The action as it will be carried out.
    pub fn action(&self) -> &A {
        &self.action
    }

    /// The terms it was allowed under.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }
}

/// A grant of any kind.
#[must_use]
#[derive(Debug)]
pub enum Grant {
    /// An HTTP request may be sent.
    Http(Authorized<HttpAction>),
    /// A command may be started.
    Exec(Authorized<ExecAction>),
}

impl Grant {
    /// The terms, whatever the kind.
    pub fn terms(&self) -> &Terms {
        match self {
            Grant::Http(grant) => grant.terms(),
            Grant::Exec(grant) => grant.terms(),
        }
    }

    /// What the action is aimed at without its arguments: program, or method, origin and path. For the journal.
    pub fn place(&self) -> String {
        match self {
            Grant::Http(grant) => grant.terms.target.clone(),
            Grant::Exec(grant) => format!("exec {}", grant.action.argv.first().map_or("", String::as_str)),
        }
    }

    /// The action as recorded: compact JSON, credentials by name only.
    pub fn record(&self) -> String {
        match self {
            Grant::Http(grant) => grant.action.record(),
            Grant::Exec(grant) => grant.action.record(),
        }
    }
}
