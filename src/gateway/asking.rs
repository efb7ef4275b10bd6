//! From a grant that asks to a consent: who is asked, and what a call that brings its answer back may do.
//!
//! ```text
//! asks ──stands approved, or the call brings its answer back──▶ grant
//!   ├──client, stateless──▶ input_required: the call is over
//!   └──client with a handshake, operator, command──▶ parked, without a worker ──yes──▶ queued, judged again ─▶ grant
//!                                                       └──anything else──▶ refused
//! ```
//! A question is recorded before anybody sees it. Nothing is carried out here, and nothing but an explicit yes makes a consent.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::approval::state::{Bound, Seal, SpendError, StateError};
use crate::approval::{Answer, ApprovalRules, Approver, Question, command};
use crate::cancel::CancelToken;
use crate::gateway::answers::{self, answer_of, append, refusal};
use crate::gateway::desk::How;
use crate::gateway::live::Live;
use crate::gateway::pipeline::{Approval, bad_state, unspent};
use crate::gateway::question::{elicitation, extent, question};
use crate::gateway::shared::{Job, Shared};
use crate::journal::chain::Hash;
use crate::journal::record::Record;
use crate::limits::{JOURNAL_TARGET_BYTES, QUESTIONS};
use crate::mcp::call::{Call, Retry};
use crate::mcp::elicit::Elicitation;
use crate::mcp::era::Era;
use crate::mcp::reply::Reply;
use crate::policy::consent::{Consent, Unapproved, Unconsented};
use crate::policy::grant::Grant;
use crate::policy::rules::Confirm;
use crate::thread;
use crate::wire::outbox::Ticket;

/// What becomes of a call whose rule asks.
pub enum Way {
    /// It may go ahead.
    Ahead(Box<Grant>, Approval),
    /// Somebody is asked; the worker is free.
    Parked,
    /// It is answered so, and nothing was done.
    Reply(Reply),
}

/// A call at hand.
pub struct Case<'a> {
    /// What the threads share.
    pub shared: &'a Arc<Shared>,
    /// Names the call.
    pub ticket: Ticket,
    /// Ends the waits for its records.
    pub token: &'a CancelToken,
    /// The configuration it was judged under.
    pub live: &'a Live,
}

impl Case<'_> {
    /// Finds a consent for what `job` wants, or somebody to ask for one.
    ///
    /// # Errors
    /// There is none, and nobody was asked.
    pub fn consent(&self, job: &Job, given: Option<Approval>, unapproved: Unapproved) -> Result<Way, Unconsented> {
        if let Some(approval) = given {
            return ahead(unapproved, approval);
        }
        // An answer that was brought counts, a no as well, whatever was approved before.
        if let Some(retry) = job.call.retry() {
            return self.brought(job, retry, unapproved);
        }
        match self.standing(&unapproved) {
            Some(approval) => ahead(unapproved, approval),
            None => self.ask(job, &unapproved),
        }
    }

    fn standing(&self, unapproved: &Unapproved) -> Option<Approval> {
        let (tool, target) = (unapproved.grant().terms().tool.clone(), unapproved.grant().target());
        let question = match unapproved.confirm() {
            Confirm::Session => self.shared.desk.standing(&tool, &target)?,
            Confirm::Ask | Confirm::Never => return None,
        };
        Some(Approval { question, consent: Consent::Standing { tool, target }, brought: None })
    }

    /// The call brings an answer back, or a state without one.
    fn brought(&self, job: &Job, retry: &Retry, unapproved: Unapproved) -> Result<Way, Unconsented> {
        if !self.rules().order.contains(&Approver::Client) {
            return Err(bad_state("the client is not asked any more (approvals.order)"));
        }
        let (terms, action) = (unapproved.grant().terms(), unapproved.grant().record());
        let extent = extent(unapproved.confirm());
        let bound = Bound { tool: &terms.tool, rule: &terms.rule, action: &action, extent };
        let seal = self.seal()?;
        let state = seal.unseal(&retry.state, &bound, self.now_ms()).map_err(|error| refused_state(&error))?;
        if seal.is_spent(&state) {
            return Err(unspent(SpendError::AlreadyUsed));
        }
        let Some(answer) = &retry.answer else { return self.ask_again(job, retry, &unapproved) };
        match answer_of(answer, extent) {
            Answer::Yes(extent) => {
                let consent = Consent::Once { tool: terms.tool.clone(), rule: terms.rule.clone(), action };
                ahead(unapproved, Approval { question: state.id.clone(), consent, brought: Some((state, extent)) })
            }
            // A no is final: the same state cannot be brought again with a yes.
            no => {
                seal.spend(&state).map_err(unspent)?;
                let how = How::Answered(no.clone());
                append(self.shared, answers::record(self.ticket, &state.id, Approver::Client, &how, None), self.token)?;
                Err(refusal(no, Approver::Client, self.rules().timeout))
            }
        }
    }

    /// The question that still stands; afresh, and somebody else, where this request does not say that its client can ask.
    fn ask_again(&self, job: &Job, retry: &Retry, unapproved: &Unapproved) -> Result<Way, Unconsented> {
        if !job.call.can_ask().form {
            return self.ask(job, unapproved);
        }
        let elicitation = self.elicitation(&question(unapproved)?);
        Ok(Way::Reply(Reply::InputRequired { elicitation, state: retry.state.clone() }))
    }

    fn ask(&self, job: &Job, unapproved: &Unapproved) -> Result<Way, Unconsented> {
        let approver = self.approver(&job.call)?;
        let question = question(unapproved)?;
        match (approver, job.call.origin().era) {
            (Approver::Client, Era::Modern) => self.send_back(&question),
            (Approver::Client, Era::Legacy(_)) | (Approver::Operator | Approver::Command, _) => {
                self.park(job, question, approver)
            }
        }
    }

    /// The first of the order who can be asked.
    fn approver(&self, call: &Call) -> Result<Approver, Unconsented> {
        let can_be_asked = |approver: &Approver| match approver {
            Approver::Client => call.can_ask().form,
            Approver::Operator => self.has_operator(),
            Approver::Command => self.rules().command.is_some(),
        };
        let client_alone = self.rules().order == [Approver::Client];
        self.rules().order.iter().copied().find(can_be_asked).ok_or(Unconsented::NoApprover { client_alone })
    }

    fn has_operator(&self) -> bool {
        let socket = self.shared.desk.admit_operators(&self.rules().operators);
        socket.inspect_err(|error| log::warn!("the operator cannot be asked, there is no socket: {error}")).is_ok()
    }

    /// The call is over; the client asks and comes back.
    fn send_back(&self, question: &Question) -> Result<Way, Unconsented> {
        let (seal, now) = (self.seal()?, self.now_ms());
        let Question { tool, rule, action, extent, .. } = question;
        let state = seal.seal(&question.id, &Bound { tool, rule, action, extent: *extent }, now, self.rules().timeout);
        seal.sweep(now);
        self.record(question, Approver::Client, Era::Modern)?;
        Ok(Way::Reply(Reply::InputRequired { elicitation: self.elicitation(question), state }))
    }

    /// The call waits, its worker does not.
    fn park(&self, job: &Job, question: Question, approver: Approver) -> Result<Way, Unconsented> {
        let desk = &self.shared.desk;
        let token = CancelToken::new().map_err(|error| no_room(approver, &error))?;
        let question = Arc::new(question);
        if !desk.open(self.ticket, Arc::clone(&question), approver, self.rules().timeout, token.clone()) {
            return Err(Unconsented::TooMany { max: QUESTIONS });
        }
        let recorder = answers::start(self.shared).map_err(|error| no_room(approver, &error));
        if let Err(why) = recorder.and_then(|()| self.record(&question, approver, job.call.origin().era)) {
            desk.forget(self.ticket);
            return Err(why);
        }
        if !self.shared.inflight.park(self.ticket, job.to_park(), approver.as_str()) {
            // Cancelled meanwhile: nobody was asked.
            desk.end(self.ticket, How::Withdrawn, None);
        } else if desk.publish(self.ticket) {
            self.tell(question, approver, token);
        }
        Ok(Way::Parked)
    }

    /// Brings a published question to its approver; an operator finds it by himself.
    fn tell(&self, question: Arc<Question>, approver: Approver, token: CancelToken) {
        self.shared.mailbox.poke();
        let Some(argv) = self.rules().command.clone().filter(|_| approver == Approver::Command) else { return };
        let (desk, ticket, until) = (Arc::clone(&self.shared.desk), self.ticket, Instant::now() + self.rules().timeout);
        let asking = thread::spawn("tg-asking", move || {
            if let command::Asked::Answered(answer) = command::ask(&argv, &question, &token, until) {
                desk.end(ticket, How::Answered(answer), None);
            }
        });
        match asking {
            Ok(thread) => self.shared.desk.keep(thread),
            Err(error) => {
                let answer = Answer::Unusable(format!("it could not be asked: {error}"));
                self.shared.desk.end(ticket, How::Answered(answer), None);
            }
        }
    }

    fn record(&self, question: &Question, approver: Approver, era: Era) -> Result<(), Unconsented> {
        let mut target = question.target.clone();
        target.truncate(target.floor_char_boundary(JOURNAL_TARGET_BYTES));
        let record = Record::Question {
            call: self.ticket,
            question: question.id.clone(),
            asked: approver.as_str(),
            tool: question.tool.clone(),
            rule: question.rule.clone(),
            target,
            action_sha256: Hash::of(question.action.as_bytes()).to_string(),
            era: era.revision().as_str(),
        };
        append(self.shared, record, self.token)
    }

    fn rules(&self) -> &ApprovalRules {
        &self.live.approvals
    }

    fn elicitation(&self, question: &Question) -> Elicitation {
        elicitation(question, &self.live.world.vault.redactor())
    }

    fn seal(&self) -> Result<Arc<Seal>, Unconsented> {
        self.shared.desk.seal().map_err(|error| Unconsented::NotRecorded { why: error.to_string() })
    }

    fn now_ms(&self) -> u64 {
        self.shared.clock.unix_ms()
    }
}

fn ahead(unapproved: Unapproved, approval: Approval) -> Result<Way, Unconsented> {
    let grant = unapproved.approved(&approval.consent)?;
    Ok(Way::Ahead(Box::new(grant), approval))
}

/// A call that brings a state back to a tool that asks nobody.
pub fn nothing_asked() -> Unconsented {
    bad_state("expected none, for this tool asks nobody")
}

fn refused_state(error: &StateError) -> Unconsented {
    match error {
        StateError::Expired => {
            let why = "the question was not answered in time; call again to be asked again";
            Unconsented::BadState { why: why.to_owned(), expired: true }
        }
        StateError::Unreadable | StateError::OtherUser | StateError::OtherAction => bad_state(&error.to_string()),
    }
}

fn no_room(approver: Approver, error: &io::Error) -> Unconsented {
    Unconsented::Unusable { by: approver.as_str(), words: format!("it could not be asked: {error}") }
}
