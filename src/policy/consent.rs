//! Consent: what stands between a grant and its execution where a rule wants a human asked.
//!
//! `decide` gives an `Unapproved` in place of a grant; nothing can be carried out with it, and nothing but a consent that covers
//! exactly this action, or this tool and target for as long as the process lives, turns it into one. Pure, like the decision.

use std::fmt;

use crate::policy::grant::Grant;
use crate::policy::rules::Confirm;

/// What was decided about a call that may go ahead.
#[must_use]
#[derive(Debug)]
pub enum Decision {
    /// At once.
    Granted(Grant),
    /// Once a human has said yes.
    Asks(Unapproved),
}

impl Decision {
    /// The grant, unless a human has to be asked.
    pub fn granted(self) -> Option<Grant> {
        match self {
            Decision::Granted(grant) => Some(grant),
            Decision::Asks(_) => None,
        }
    }

    /// What would be carried out, to be shown.
    pub fn grant(&self) -> &Grant {
        match self {
            Decision::Granted(grant) | Decision::Asks(Unapproved { grant, .. }) => grant,
        }
    }
}

/// A grant that a human has to approve first.
#[must_use]
#[derive(Debug)]
pub struct Unapproved {
    grant: Grant,
    confirm: Confirm,
}

/// A human's yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consent {
    /// To this action alone.
    Once {
        /// The tool that asked.
        tool: String,
        /// The rule that allowed it.
        rule: String,
        /// As in `Grant::record`.
        action: String,
    },
    /// To every action of this tool on this target.
    Standing {
        /// The tool.
        tool: String,
        /// As in `Grant::target`.
        target: String,
    },
}

impl Unapproved {
    pub(in crate::policy) fn new(grant: Grant, confirm: Confirm) -> Unapproved {
        Unapproved { grant, confirm }
    }

    /// What would be carried out, to be shown.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Why it is asked.
    pub fn confirm(&self) -> Confirm {
        self.confirm
    }

    /// Turns it into a grant.
    ///
    /// # Errors
    /// The consent was given to something else.
    pub fn approved(self, consent: &Consent) -> Result<Grant, Unconsented> {
        let terms = self.grant.terms();
        let covers = match consent {
            Consent::Once { tool, rule, action } => {
                (tool, rule) == (&terms.tool, &terms.rule) && *action == self.grant.record()
            }
            Consent::Standing { tool, target } => {
                self.confirm == Confirm::Session && *tool == terms.tool && *target == self.grant.target()
            }
        };
        if covers { Ok(self.grant) } else { Err(Unconsented::OtherAction) }
    }
}

/// Why nobody's consent was had. Nothing was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unconsented {
    /// Nobody of `approvals.order` can be asked.
    NoApprover {
        /// The client alone would have been, and did not say that it can ask its user by a form.
        client_alone: bool,
    },
    /// Enough questions stand open.
    TooMany {
        /// How many may.
        max: usize,
    },
    /// The action is too long for anybody to read before saying yes.
    TooLong {
        /// Bytes that may be shown.
        max: usize,
    },
    /// A no.
    Denied {
        /// Who said it, as in `approvals.order`.
        by: &'static str,
        /// What was said.
        words: String,
    },
    /// No answer in time.
    TimedOut {
        /// Who was asked.
        by: &'static str,
        /// How long.
        seconds: u64,
    },
    /// An answer without meaning, or an approver that failed.
    Unusable {
        /// Who was asked.
        by: &'static str,
        /// What came.
        words: String,
    },
    /// The yes was given to another action than the one at hand.
    OtherAction,
    /// A `requestState` that is none, or none for this call.
    BadState {
        /// What is wrong with it.
        why: String,
        /// It was one, and its time is over.
        expired: bool,
    },
    /// Question or answer could not be recorded.
    NotRecorded {
        /// Why.
        why: String,
    },
}

impl Unconsented {
    /// Stable name of the reason, for records and counters.
    pub fn reason(&self) -> &'static str {
        match self {
            Unconsented::NoApprover { .. } => "no_approver",
            Unconsented::TooMany { .. } => "too_many_questions",
            Unconsented::TooLong { .. } => "too_long_to_ask",
            Unconsented::Denied { .. } => "approval_denied",
            Unconsented::TimedOut { .. } => "approval_timeout",
            Unconsented::Unusable { .. } => "approval_unusable",
            Unconsented::OtherAction => "approval_of_another_action",
            Unconsented::BadState { .. } => "request_state",
            Unconsented::NotRecorded { .. } => "approval_not_recorded",
        }
    }
}

impl fmt::Display for Unconsented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unconsented::NoApprover { client_alone: true } => f.write_str(
                "this tool asks the user first, and the client did not declare that it can (capability elicitation, form)",
            ),
            Unconsented::NoApprover { client_alone: false } => {
                f.write_str("this tool asks a human first, and nobody of approvals.order can be asked")
            }
            Unconsented::TooMany { max } => {
                write!(f, "{max} calls wait for an approval; wait for one to be answered, then try again")
            }
            Unconsented::TooLong { max } => {
                write!(
                    f,
                    "this tool asks a human first, and more than {max} bytes cannot be shown for approval; send less at once"
                )
            }
            Unconsented::Denied { by, words } => write!(f, "the {by} said no: {words}"),
            Unconsented::TimedOut { by, seconds } => write!(f, "the {by} did not answer within {seconds} s"),
            Unconsented::Unusable { by, words } => write!(f, "the {by} gave no answer that can be used: {words}"),
            Unconsented::OtherAction => {
                f.write_str("the configuration changed while the question stood: what was approved is not what would be done")
            }
            Unconsented::BadState { why, .. } => write!(f, "requestState: {why}"),
            Unconsented::NotRecorded { why } => write!(f, "the approval could not be recorded, so nothing was done: {why}"),
        }
    }
}
