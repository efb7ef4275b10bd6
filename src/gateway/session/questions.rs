//! Questions to humans, as far as they concern the loop: it puts them to a client that has a handshake, hears its answers, and
//! ends those that have stood for their time or whose call is gone.
//!
//! What an answer leads to is not decided here, and nothing here waits.

use std::time::{Duration, Instant};

use super::{Phase, Reader};
use crate::approval::Answer;
use crate::gateway::answer;
use crate::gateway::answers::answer_of;
use crate::gateway::desk::How;
use crate::gateway::question::elicitation;
use crate::mcp::render::{render, render_cancelled};
use crate::rpc::id::Id;
use crate::rpc::message::Response;
use crate::wire::outbox::Ticket;

impl Reader {
    /// Ends questions that nobody answered in time, asks what is to be asked, and sees that whoever was approved has a worker.
    pub(super) fn see_to_questions(&mut self) {
        if !matches!(self.phase, Phase::Serving) {
            // A call that was judged meanwhile may have asked.
            self.end_questions();
        }
        for ticket in self.shared.desk.overdue(Instant::now()) {
            self.end_question(ticket, How::Answered(Answer::TimedOut), "nobody answered in time");
        }
        self.ask_client();
        if self.shared.inflight.needs_worker()
            && let Err(error) = self.pool.grow(&self.shared)
        {
            log::warn!("no worker thread: {error}");
        }
    }

    /// Until the next question has stood for its time.
    pub(super) fn until_overdue(&self) -> Option<Duration> {
        self.shared.desk.deadline().map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Asks once the client has said `initialized`, and as far as there is room.
    fn ask_client(&mut self) {
        let Some(ready) = self.session.ready().filter(|_| matches!(self.phase, Phase::Serving)) else { return };
        let unsent = self.shared.desk.unsent();
        if unsent.is_empty() {
            return;
        }
        let redactor = self.shared.live().world.vault.redactor();
        for (ticket, question) in unsent {
            if !ready.agreement().can_ask().form {
                // It could when it called, and has shaken hands anew since.
                let answer = Answer::Unusable("it does not say any more that it can be asked".to_owned());
                self.end_question(ticket, How::Answered(answer), "it cannot be asked");
                continue;
            }
            if !self.replies.has_room(&self.shared.outbox) {
                return;
            }
            let Ok(id) = self.questions.open(ready, ticket) else { return };
            let line = elicitation(&question, &redactor).render(&id, ready.agreement().revision());
            self.replies.send_question(line, &key(&id), &self.shared.outbox);
            self.shared.desk.sent(ticket);
        }
    }

    /// A response: the answer to a question, or nothing.
    pub(super) fn take_answer(&mut self, response: &Response<'_>) {
        let Some((ticket, answer)) = self.questions.answer(response) else { return };
        let Some(question) = self.shared.desk.question(ticket) else { return };
        self.shared.desk.end(ticket, How::Answered(answer_of(&answer, question.extent)), None);
    }

    /// The call of a question is gone.
    pub(super) fn withdraw_question(&mut self, ticket: Ticket, why: &str) {
        self.end_question(ticket, How::Withdrawn, why);
    }

    fn end_question(&mut self, ticket: Ticket, how: How, why: &str) {
        // The notice goes before the reply to the call. A question that has not begun to leave was never asked.
        if let Some((id, _)) = self.questions.take_where(|waiting| *waiting == ticket)
            && !self.shared.outbox.withdraw_reply(&key(&id))
        {
            self.replies.send_unaddressed(render_cancelled(&id, why), &self.shared.outbox);
        }
        self.shared.desk.end(ticket, how, None);
    }

    /// The session ends: nobody is asked any longer, and what waits is answered.
    pub(super) fn end_questions(&mut self) {
        for ticket in self.shared.inflight.waiting() {
            self.withdraw_question(ticket, "the session ended");
            let Some(waiting) = self.shared.inflight.take_waiting(ticket) else { continue };
            let call = &waiting.job.call;
            let line = render(call.origin(), &answer::ended_before_it_began(call.asked()));
            self.shared.inflight.finish(ticket, line, Vec::new(), &self.shared.outbox);
        }
    }
}

/// What the outbox finds a question by; no id of a client's request looks like it.
fn key(id: &Id) -> String {
    format!("question {}", id.to_json())
}
