//! What answers mean, and the thread that records them and lets their calls go on.
//!
//! It takes one ended question after another from the desk, records it, and then queues the call again or refuses it. A yes that
//! could not be recorded is none. It is a thread of its own so that neither sixteen busy workers nor a slow disk hold an answer
//! back from the reader.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::approval::{Answer, Approver, Extent};
use crate::cancel::CancelToken;
use crate::gateway::answer;
use crate::gateway::desk::{Ended, How};
use crate::gateway::pipeline::Approval;
use crate::gateway::shared::Shared;
use crate::journal::append::{AppendError, OnDisk};
use crate::journal::record::Record;
use crate::mcp::answer::Answer as ClientAnswer;
use crate::mcp::elicit::Choice;
use crate::mcp::render::render;
use crate::policy::consent::{Consent, Unconsented};
use crate::policy::decide::Refusal;
use crate::thread;
use crate::wire::outbox::Ticket;

/// Starts the thread, once.
pub fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let for_thread = Arc::clone(shared);
    shared.desk.record_with(|| thread::spawn("tg-answers", move || take_answers(&for_thread)))
}

fn take_answers(shared: &Arc<Shared>) {
    while let Some(ended) = shared.desk.next_ended() {
        take(shared, ended);
        shared.desk.recorded();
        shared.mailbox.poke();
    }
}

fn take(shared: &Arc<Shared>, ended: Ended) {
    let Ended { ticket, question, asked, stands, how, user } = ended;
    let recorded = append(shared, record(ticket, &question.id, asked, &how, user), shared.desk.token());
    let answer = match (how, recorded) {
        // The call is gone already.
        (How::Withdrawn, _) => return,
        (How::Answered(Answer::Yes(_)), Err(why)) => return refuse(shared, ticket, why),
        (How::Answered(answer), _) => answer,
    };
    let Answer::Yes(extent) = answer else { return refuse(shared, ticket, refusal(answer, asked, stands)) };
    if extent == Extent::Session && question.extent == Extent::Session {
        shared.desk.stand(&question.tool, &question.target, &question.id);
    }
    let (tool, rule, action) = (question.tool.clone(), question.rule.clone(), question.action.clone());
    let approval = Approval { question: question.id.clone(), consent: Consent::Once { tool, rule, action }, brought: None };
    shared.inflight.resume(ticket, |job| job.resumed(approval));
}

fn refuse(shared: &Shared, ticket: Ticket, why: Unconsented) {
    let Some(waiting) = shared.inflight.take_waiting(ticket) else { return };
    let (job, refusal) = (waiting.job, Refusal::from(why));
    shared.refused(refusal.stage(), refusal.reason(), job.line, Some(job.call.origin().era));
    let reply = answer::refusal(&job.call, &refusal, shared.clock.since(job.admitted));
    shared.inflight.finish(ticket, render(job.call.origin(), &reply), Vec::new(), &shared.outbox);
}

/// What a client's answer to a question means, whose yes goes so far at most.
pub fn answer_of(answer: &ClientAnswer, extent: Extent) -> Answer {
    match (answer, answer.decision()) {
        (ClientAnswer::Accepted(_), Some(Choice::Once)) => Answer::Yes(Extent::Once),
        (ClientAnswer::Accepted(_), Some(Choice::Session)) if extent == Extent::Session => Answer::Yes(Extent::Session),
        (ClientAnswer::Accepted(_), Some(Choice::Deny)) => Answer::No("the user chose to deny it".to_owned()),
        (ClientAnswer::Accepted(_), _) => Answer::Unusable("its content is none of the choices".to_owned()),
        (ClientAnswer::Declined, _) => Answer::No("the user declined".to_owned()),
        (ClientAnswer::Dismissed, _) => Answer::No("the user closed the question without a choice".to_owned()),
        (ClientAnswer::Failed, _) => Answer::Unusable("it answered with an error".to_owned()),
        (ClientAnswer::Malformed, _) => Answer::Unusable("its answer is no answer to an elicitation".to_owned()),
    }
}

/// Why an answer that is no yes leads nowhere.
pub fn refusal(answer: Answer, asked: Approver, stood: Duration) -> Unconsented {
    let by = asked.as_str();
    match answer {
        Answer::No(words) => Unconsented::Denied { by, words },
        Answer::TimedOut => Unconsented::TimedOut { by, seconds: stood.as_secs() },
        Answer::Unusable(words) => Unconsented::Unusable { by, words },
        // Nobody asks this of a yes; if somebody did, it would be no consent.
        Answer::Yes(_) => Unconsented::OtherAction,
    }
}

/// The record of how a question ended.
pub fn record(call: Ticket, question: &str, asked: Approver, how: &How, user: Option<u32>) -> Record {
    Record::Answer { call, question: question.to_owned(), asked: asked.as_str(), answer: how.as_str(), user }
}

/// Records it, to be on disk with the next record that is synced, which an intent is. `token`: a cancel ends the wait.
pub fn append(shared: &Shared, record: Record, token: &CancelToken) -> Result<(), Unconsented> {
    shared.journal.append(record, OnDisk::Later, Some(token)).map_err(|error| {
        let why = match error {
            AppendError::Unavailable(why) => why,
            AppendError::Cancelled => "nobody waits for it any more".to_owned(),
        };
        Unconsented::NotRecorded { why }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, extent: Extent, expected: Option<Extent>) {
        let answer = answer_of(&ClientAnswer::Accepted(content.to_owned()), extent);
        let got = if let Answer::Yes(extent) = answer { Some(extent) } else { None };
        assert_eq!(got, expected, "{content}");
    }

    #[test]
    fn a_yes_goes_as_far_as_was_offered_and_chosen() {
        check(r#"{"decision":"once"}"#, Extent::Once, Some(Extent::Once));
        check(r#"{"decision":"once"}"#, Extent::Session, Some(Extent::Once));
        check(r#"{"decision":"session"}"#, Extent::Session, Some(Extent::Session));
        check(r#"{"decision":"session"}"#, Extent::Once, None);
        check(r#" { "d\u0065cision" : "\u006fnce" } "#, Extent::Once, Some(Extent::Once));
        for content in [
            "{}",
            r#"{"decision":"deny"}"#,
            r#"{"decision":"yes"}"#,
            r#"{"decision":"Once"}"#,
            r#"{"decision":null}"#,
            r#"{"decision":true}"#,
            r#"{"decision":["once"]}"#,
            r#"{"decision":"once","also":"once"}"#,
            r#"{"Decision":"once"}"#,
        ] {
            check(content, Extent::Session, None);
        }
    }

    #[test]
    fn nothing_but_an_accept_is_a_yes() {
        let answers = [ClientAnswer::Declined, ClientAnswer::Dismissed, ClientAnswer::Failed, ClientAnswer::Malformed];
        for answer in answers {
            assert!(!matches!(answer_of(&answer, Extent::Session), Answer::Yes(_)), "{answer:?}");
        }
    }
}
