//! The security argument, in two functions.
//!
//! `judge` turns a call into a grant or a refusal: tool, schema, typed action, decision. It is pure: it resolves no name, opens
//! no socket, starts no process and sees no credential. `perform` carries a grant out: the intent is on disk before anything
//! happens, the credential is handed out after that, and the outcome is recorded before it is answered. There is no other way
//! from a line on stdin to an effect: an executor takes `Authorized<A>`, and only `policy::decide` makes one.

use std::sync::Arc;
use std::time::Instant;

use crate::action::Action;
use crate::executor::credential::Vault;
use crate::executor::{CallCtx, Handed, Hands};
use crate::journal::append::{AppendError, Journal, OnDisk};
use crate::journal::chain::Hash;
use crate::journal::record::Record;
use crate::limits::JOURNAL_TARGET_BYTES;
use crate::mcp::call::Call;
use crate::outcome::artifact::Store;
use crate::outcome::budget::Sinks;
use crate::outcome::result::{Code, Executed, Failure, Outcome};
use crate::policy::decide::{Refusal, decide};
use crate::policy::grant::Grant;
use crate::policy::rules::Toolbox;

/// What `perform` works with.
pub struct World {
    /// Carries actions out, or records them.
    pub hands: Hands,
    /// Where intents and outcomes go.
    pub journal: Journal,
    /// Holds the credentials.
    pub vault: Vault,
    /// Keeps what did not fit a reply.
    pub store: Arc<Store>,
}

/// Decides about a call. Nothing has happened when it returns, whatever it returns.
pub fn judge(call: &Call, tools: &Toolbox) -> Result<Grant, Refusal> {
    let (tool, rule) = tools.find(call.tool()).ok_or_else(|| Refusal::UnknownTool { name: call.tool().to_owned() })?;
    let action: Action = tool.action(call.arguments()).map_err(Refusal::BadArguments)?;
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
}

/// Carries out what was granted.
pub fn perform(grant: Grant, asked: &Asked<'_>, ctx: &CallCtx<'_>, world: &World) -> Outcome {
    if ctx.token.is_cancelled() {
        return Failure::cancelled(Executed::No, None).into();
    }
    if Instant::now() >= ctx.deadline {
        let message = "the call's time was over before it could begin: too many calls were ahead of it; try again later";
        return Failure::new(Code::TimedOut, Executed::No, message).into();
    }
    if let Hands::Recorder(recorder) = &world.hands {
        return recorder.record(&grant);
    }
    let on_disk = if grant.touches_world() { OnDisk::ByMode } else { OnDisk::Later };
    if let Err(error) = world.journal.append(intent(&grant, asked), on_disk, Some(ctx.token)) {
        return not_recorded(error).into();
    }
    let outcome = match hand_out(&grant, &world.vault) {
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

/// The values of the credentials the grant names: the request's own, or those its host asks for.
fn hand_out(grant: &Grant, vault: &Vault) -> Result<Handed, Failure> {
    // Outputs of calls that carry no credential are redacted as well.
    vault.load_known();
    let value = |name: Option<&str>| match name {
        Some(name) => match vault.hand_out(name) {
            Ok(secret) => Ok(Some(secret)),
            Err(error) => Err(Failure::new(Code::CredentialUnavailable, Executed::No, error.to_string())),
        },
        None => Ok(None),
    };
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

/// The action was carried out but its outcome is not on disk: the reply says both.
fn unrecorded(outcome: Outcome, error: AppendError) -> Outcome {
    let why = match error {
        AppendError::Unavailable(why) => why,
        AppendError::Cancelled => "cancelled".to_owned(),
    };
    log::error!("an outcome could not be recorded: {why}");
    let text = format!("{}\n[tidegate: the outcome could not be recorded in the journal: {why}]", outcome.text);
    Outcome { code: outcome.code.or(Some(Code::JournalUnavailable)), text, ..outcome }
}
