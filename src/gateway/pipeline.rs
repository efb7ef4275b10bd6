//! The security argument, in two functions.
//!
//! `judge` turns a call into a grant or a refusal: tool, schema, typed action, decision. It is pure: it resolves no name, opens
//! no socket, starts no process and sees no credential. `perform` carries a grant out, if the tool's pace lets it begin: the
//! intent is on disk before anything happens, the credential is handed out after that, and the outcome is recorded before it is answered. There is no other way
//! from a line on stdin to an effect: an executor takes `Authorized<A>`, and only `policy::decide` makes one.

use std::sync::Arc;
use std::time::Instant;

use ring::digest::{SHA256, digest};

use crate::action::Action;
use crate::executor::credential::Vault;
use crate::executor::{CallCtx, Handed, Hands};
use crate::journal::append::{AppendError, Journal, OnDisk};
use crate::journal::record::Record;
use crate::mcp::call::Call;
use crate::outcome::artifact::Store;
use crate::outcome::budget::Sinks;
use crate::outcome::result::{Code, Executed, Failure, Outcome};
use crate::policy::decide::{Refusal, decide};
use crate::policy::grant::Grant;
use crate::policy::pace::Paces;
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
    /// Rates and slots of the tools.
    pub paces: Paces,
}

/// Decides about a call. Nothing has happened when it returns, whatever it returns.
pub fn judge(call: &Call, tools: &Toolbox) -> Result<Grant, Refusal> {
    judge_arguments(call.tool(), call.arguments(), tools)
}

/// The same for a call that nobody made: arguments as strictly checked JSON text of an object.
pub fn judge_arguments(name: &str, arguments: &str, tools: &Toolbox) -> Result<Grant, Refusal> {
    let (tool, rule) = tools.find(name).ok_or_else(|| Refusal::UnknownTool { name: name.to_owned() })?;
    let action: Action = tool.action(arguments).map_err(Refusal::BadArguments)?;
    decide(tool, rule, action)
}

/// Carries out what was granted. `number` names the call in the journal, `admitted` is when its time began.
///
/// # Errors
/// The tool's rate or its `max_concurrent`; nothing was done.
pub fn perform(grant: Grant, number: u64, admitted: Instant, ctx: &CallCtx<'_>, world: &World) -> Result<Outcome, Refusal> {
    if ctx.token.is_cancelled() {
        return Ok(Failure::cancelled(Executed::No, None).into());
    }
    if Instant::now() >= ctx.deadline {
        let message = "the call's time was over before it could begin: too many calls were ahead of it; try again later";
        return Ok(Failure::new(Code::TimedOut, Executed::No, message).into());
    }
    if let Hands::Recorder(recorder) = &world.hands {
        return Ok(recorder.record(&grant));
    }
    // Held until the work has ended and its outcome is recorded.
    let _slot = world.paces.enter(&grant.terms().tool, Instant::now())?;
    Ok(carry_out(grant, number, admitted, ctx, world))
}

/// Between the intent and the record of its outcome.
fn carry_out(grant: Grant, number: u64, admitted: Instant, ctx: &CallCtx<'_>, world: &World) -> Outcome {
    let on_disk = if grant.touches_world() { OnDisk::ByMode } else { OnDisk::Later };
    if let Err(error) = world.journal.append(intent(&grant, number), on_disk, Some(ctx.token)) {
        return not_recorded(error).into();
    }
    let outcome = match hand_out(&grant, &world.vault, ctx) {
        Ok(handed) => {
            let sinks = Sinks { redactor: world.vault.redactor(), ..ctx.sinks.clone() };
            world.hands.run(grant, &handed, &CallCtx { sinks, ..*ctx })
        }
        Err(failure) => failure.into(),
    };
    match world.journal.append(closing(&outcome, number, admitted), on_disk, None) {
        Ok(()) => outcome,
        Err(error) => unrecorded(outcome, error),
    }
}

fn intent(grant: &Grant, number: u64) -> Record {
    let terms = grant.terms();
    Record::Intent {
        call: number,
        tool: terms.tool.clone(),
        rule: terms.rule.clone(),
        target: grant.place(),
        action_sha256: hex(digest(&SHA256, grant.record().as_bytes()).as_ref()),
        credential: terms.credential_name().map(str::to_owned),
    }
}

fn closing(outcome: &Outcome, number: u64, admitted: Instant) -> Record {
    Record::Outcome {
        call: number,
        code: outcome.code.map_or("ok", Code::as_str),
        executed: outcome.executed.as_str(),
        bytes: outcome.bytes,
        duration_ms: u64::try_from(admitted.elapsed().as_millis()).unwrap_or(u64::MAX),
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
