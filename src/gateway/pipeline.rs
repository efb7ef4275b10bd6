//! The security argument, in two functions.
//!
//! `judge` turns a call into a decision or a refusal: tool, schema, typed action, grant, and whether a human is asked first. It is
//! pure: it resolves no name, opens no socket, starts no process and sees no credential. `perform` carries a grant out, if the
//! tool's pace lets it begin: an approval is used up and the intent is on disk before anything happens, the credential is handed out after that, and the outcome is recorded before it is answered. There is no other way
//! from a line on stdin to an effect: an executor takes `Authorized<A>`, and only `policy::decide` makes one.

use std::sync::Arc;
use std::time::Instant;

use crate::action::Action;
use crate::approval::state::{SpendError, Unsealed};
use crate::approval::{Answer, Approver, Extent};
use crate::executor::credential::{Source, Vault};
use crate::executor::{CallCtx, Handed, Hands};
use crate::gateway::desk::{Desk, How};
use crate::journal::append::{AppendError, Journal, OnDisk};
use crate::journal::chain::Hash;
use crate::journal::record::Record;
use crate::limits::JOURNAL_TARGET_BYTES;
use crate::mcp::call::Call;
use crate::outcome::artifact::Store;
use crate::outcome::budget::Sinks;
use crate::outcome::result::{Code, Executed, Failure, Outcome};
use crate::policy::consent::{Consent, Decision, Unconsented};
use crate::policy::decide::{Refusal, decide};
use crate::policy::grant::Grant;
use crate::policy::pace::Paces;
use crate::policy::rules::{Networks, Toolbox};

/// What `perform` works with.
pub struct World {
    /// Carries actions out, or records them.
    pub hands: Hands,
    /// Where intents and outcomes go.
    pub journal: Arc<Journal>,
    /// Holds the credentials.
    pub vault: Vault,
    /// Keeps what did not fit a reply.
    pub store: Arc<Store>,
    /// Rates and slots of the tools.
    pub paces: Paces,
    /// Where approvals are used up.
    pub desk: Arc<Desk>,
}

/// A yes, to be used up.
#[derive(Debug)]
pub struct Approval {
    /// The question.
    pub question: String,
    /// To what it was said.
    pub consent: Consent,
    /// What the client brought back, which holds once, and how far that yes goes.
    pub brought: Option<(Unsealed, Extent)>,
}

impl World {
    /// The world of the next configuration: same journal and store, other networks, credentials and paces. Values known so far stay
    /// known to the redactor.
    pub fn next(&self, networks: Networks, sources: Vec<(String, Source)>, tools: &Toolbox, now: Instant) -> World {
        self.paces.reload(tools, now);
        World {
            hands: self.hands.next(networks),
            journal: Arc::clone(&self.journal),
            vault: self.vault.next(sources),
            store: Arc::clone(&self.store),
            paces: self.paces.clone(),
            desk: Arc::clone(&self.desk),
        }
    }
}

impl World {
    /// In a dry run: what would be carried out, asked for or not. `None` where actions are carried out.
    pub fn rehearse(&self, grant: &Grant) -> Option<Outcome> {
        match &self.hands {
            Hands::Recorder(recorder) => Some(recorder.record(grant)),
            _ => None,
        }
    }
}

/// Decides about a call. Nothing has happened when it returns, whatever it returns.
pub fn judge(call: &Call, tools: &Toolbox) -> Result<Decision, Refusal> {
    judge_arguments(call.tool(), call.arguments(), tools)
}

/// The same for a call that nobody made: arguments as strictly checked JSON text of an object.
pub fn judge_arguments(name: &str, arguments: &str, tools: &Toolbox) -> Result<Decision, Refusal> {
    let (tool, rule) = tools.find(name).ok_or_else(|| Refusal::UnknownTool { name: name.to_owned() })?;
    let action: Action = tool.action(arguments).map_err(Refusal::BadArguments)?;
    decide(tool, rule, action)
}

/// What the journal says of a call beside its action.
pub struct Asked<'a> {
    /// Names it in the journal.
    pub number: u64,
    /// When its time began.
    pub admitted: Instant,
    /// As it was asked for.
    pub call: &'a Call,
    /// What approved it, where its rule asks.
    pub approval: Option<&'a Approval>,
}

/// Carries out what was granted.
///
/// # Errors
/// The tool's rate or its `max_concurrent`, or an approval that was used before; nothing was done.
pub fn perform(grant: Grant, asked: &Asked<'_>, ctx: &CallCtx<'_>, world: &World) -> Result<Outcome, Refusal> {
    if ctx.token.is_cancelled() {
        return Ok(Failure::cancelled(Executed::No, None).into());
    }
    if Instant::now() >= ctx.deadline {
        let message = "the call's time was over before it could begin: too many calls were ahead of it; try again later";
        return Ok(Failure::new(Code::TimedOut, Executed::No, message).into());
    }
    if let Some(recorded) = world.rehearse(&grant) {
        return Ok(recorded);
    }
    // Held until the work has ended and its outcome is recorded.
    let _slot = world.paces.enter(&grant.terms().tool, Instant::now())?;
    if let Some(approval) = asked.approval {
        use_up(approval, &grant, asked, ctx, world)?;
    }
    Ok(carry_out(grant, asked, ctx, world))
}

/// An answer that a client brought with the call counts once, in all processes; its record follows, and then the intent.
fn use_up(approval: &Approval, grant: &Grant, asked: &Asked<'_>, ctx: &CallCtx<'_>, world: &World) -> Result<(), Unconsented> {
    let Some((state, extent)) = &approval.brought else { return Ok(()) };
    let unrecorded = |why: String| Unconsented::NotRecorded { why };
    let seal = world.desk.seal().map_err(|error| unrecorded(error.to_string()))?;
    seal.spend(state).map_err(unspent)?;
    let answer = How::Answered(Answer::Yes(*extent)).as_str();
    let (question, client) = (approval.question.clone(), Approver::Client.as_str());
    let record = Record::Answer { call: asked.number, question, asked: client, answer, user: None };
    world.journal.append(record, OnDisk::Later, Some(ctx.token)).map_err(|error| unrecorded(said(error)))?;
    if *extent == Extent::Session {
        world.desk.stand(&grant.terms().tool, &grant.target(), &approval.question);
    }
    Ok(())
}

/// A state that is none, or none for this call.
pub fn bad_state(why: &str) -> Unconsented {
    Unconsented::BadState { why: why.to_owned(), expired: false }
}

/// The answer was used before, or cannot be used up, so it does not count.
pub fn unspent(error: SpendError) -> Unconsented {
    match error {
        SpendError::AlreadyUsed => bad_state("it was already used"),
        SpendError::Unavailable(error) => Unconsented::NotRecorded { why: error.to_string() },
    }
}

/// Between the intent and the record of its outcome.
fn carry_out(grant: Grant, asked: &Asked<'_>, ctx: &CallCtx<'_>, world: &World) -> Outcome {
    let on_disk = if grant.touches_world() { OnDisk::ByMode } else { OnDisk::Later };
    if let Err(error) = world.journal.append(intent(&grant, asked), on_disk, Some(ctx.token)) {
        return not_recorded(error).into();
    }
    let outcome = match hand_out(&grant, &world.vault, ctx) {
        Ok(handed) => {
            let sinks = Sinks { redactor: world.vault.redactor(), ..ctx.sinks.clone() };
            world.hands.run(grant, &handed, &CallCtx { sinks, ..*ctx })
        }
        Err(failure) => failure.into(),
    };
    match world.journal.append(closing(&outcome, asked), on_disk, None) {
        Ok(()) => outcome,
        Err(error) => unrecorded(outcome, error),
    }
}

fn intent(grant: &Grant, asked: &Asked<'_>) -> Record {
    let (terms, call) = (grant.terms(), asked.call);
    let mut target = grant.place();
    target.truncate(target.floor_char_boundary(JOURNAL_TARGET_BYTES));
    Record::Intent {
        call: asked.number,
        tool: terms.tool.clone(),
        rule: terms.rule.clone(),
        target,
        args_sha256: Hash::of(call.arguments().as_bytes()).to_string(),
        action_sha256: Hash::of(grant.record().as_bytes()).to_string(),
        credential: terms.credential_name().map(str::to_owned),
        era: call.origin().era.revision().as_str(),
        trace: call.trace().map(str::to_owned),
        question: asked.approval.map(|approval| approval.question.clone()),
    }
}

fn closing(outcome: &Outcome, asked: &Asked<'_>) -> Record {
    Record::Outcome {
        call: asked.number,
        code: outcome.code.map_or("ok", Code::as_str),
        executed: outcome.executed.as_str(),
        status: outcome.status,
        bytes: outcome.bytes,
        duration_ms: u64::try_from(asked.admitted.elapsed().as_millis()).unwrap_or(u64::MAX),
        ended: outcome.ended.map(|ended| ended.as_str()),
    }
}

/// The values of the credentials the grant names: the request's own, or those its host asks for. A credential helper is
/// part of the call: it is started here, nowhere else, and ends with the call.
fn hand_out(grant: &Grant, vault: &Vault, ctx: &CallCtx<'_>) -> Result<Handed, Failure> {
    // Outputs of calls that carry no credential are redacted as well.
    vault.load_known();
    let value = |name: Option<&str>| name.map(|name| vault.hand_out(name, ctx.token, ctx.deadline)).transpose();
    let terms = grant.terms();
    Ok(Handed { main: value(terms.credential_name())?, passphrase: value(terms.passphrase_name())? })
}

fn not_recorded(error: AppendError) -> Failure {
    match error {
        AppendError::Cancelled => Failure::cancelled(Executed::No, None),
        AppendError::Unavailable(why) => Failure::new(
            Code::JournalUnavailable,
            Executed::No,
            format!("the intent could not be recorded, so nothing was done: {why}"),
        ),
    }
}

fn said(error: AppendError) -> String {
    match error {
        AppendError::Unavailable(why) => why,
        AppendError::Cancelled => "cancelled".to_owned(),
    }
}

/// The action was carried out but its outcome is not on disk: the reply says both.
fn unrecorded(outcome: Outcome, error: AppendError) -> Outcome {
    let why = said(error);
    log::error!("an outcome could not be recorded: {why}");
    let text = format!("{}\n[tidegate: the outcome could not be recorded in the journal: {why}]", outcome.text);
    Outcome { code: outcome.code.or(Some(Code::JournalUnavailable)), text, ..outcome }
}
