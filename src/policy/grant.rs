//! The grant: an action that may be carried out, together with its terms.
//!
//! `Authorized` has private fields, is neither `Clone` nor constructible outside `policy`, and is the only thing an executor
//! takes. Whoever holds one got it from `decide`.

use std::sync::Arc;
use std::time::Duration;

use crate::action::exec::ExecAction;
use crate::action::http::HttpAction;
use crate::action::read::ReadAction;
use crate::action::ssh::SshAction;
use crate::policy::rules::{AtLimit, CredentialRule, HostRule};

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
    /// The host of a remote command, with how it is proved and how we prove ourselves to it.
    pub host: Option<Arc<HostRule>>,
    /// Serialised bytes of the result, both copies.
    pub content_bytes: usize,
    /// What becomes of a command whose output outgrows that.
    pub at_limit: AtLimit,
    /// From admission to outcome.
    pub timeout: Duration,
}

impl Terms {
    /// Name of the credential the action is carried out with: the request's own, or the one the host asks for.
    pub fn credential_name(&self) -> Option<&str> {
        let request = self.credential.as_ref().map(|rule| rule.name.as_str());
        request.or_else(|| self.host.as_ref()?.auth.credential())
    }

    /// Name of the credential that opens that one.
    pub fn passphrase_name(&self) -> Option<&str> {
        self.host.as_ref()?.auth.passphrase()
    }
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
    /// A remote command may be run.
    Ssh(Authorized<SshAction>),
    /// A stored result may be read.
    Read(Authorized<ReadAction>),
}

impl Grant {
    /// The terms, whatever the kind.
    pub fn terms(&self) -> &Terms {
        match self {
            Grant::Http(grant) => grant.terms(),
            Grant::Exec(grant) => grant.terms(),
            Grant::Ssh(grant) => grant.terms(),
            Grant::Read(grant) => grant.terms(),
        }
    }

    /// What the action is aimed at without its arguments: program, or method, origin and path. For the journal.
    pub fn place(&self) -> String {
        match self {
            Grant::Http(grant) => grant.terms.target.clone(),
            Grant::Exec(grant) => format!("exec {}", program(&grant.action.argv)),
            Grant::Ssh(grant) => format!("ssh {} {}", grant.action.host, program(&grant.action.argv)),
            Grant::Read(grant) => format!("stored result {}", grant.action.cursor.name.as_str()),
        }
    }

    /// The same in full: what a human approves for more than one action is never cut. The query of a URL and the body are
    /// arguments.
    pub fn target(&self) -> String {
        match self {
            Grant::Http(Authorized { action, .. }) => {
                format!("{} {}://{}{}", action.method, action.scheme.text(), action.authority(), action.path)
            }
            Grant::Exec(_) | Grant::Ssh(_) | Grant::Read(_) => self.place(),
        }
    }

    /// Whether carrying it out touches anything outside this process and its own stored results.
    pub fn touches_world(&self) -> bool {
        match self {
            Grant::Http(_) | Grant::Exec(_) | Grant::Ssh(_) => true,
            Grant::Read(_) => false,
        }
    }

    /// The action as recorded: compact JSON, credentials by name only.
    pub fn record(&self) -> String {
        match self {
            Grant::Http(grant) => grant.action.record(),
            Grant::Exec(grant) => grant.action.record(),
            Grant::Ssh(grant) => grant.action.record(),
            Grant::Read(grant) => grant.action.record(),
        }
    }
}

/// A literal of the configuration, whatever the arguments are.
fn program(argv: &[String]) -> &str {
    argv.first().map_or("", String::as_str)
}
