//! The end of a session: when it begins, what is still answered, and when nothing is left to wait for.
//!
//! The beginning of the end is told once; whatever comes later can only make it quicker. It is over two seconds later at the
//! latest, whoever does not answer.

use std::time::{Duration, Instant};

use super::{Cause, Phase, Reader};
use crate::gateway::answer;
use crate::limits::END;
use crate::mcp::render::{render, render_subscription_end};
use crate::sys::{self, Poll};
use crate::wire::outbox;

impl Reader {
    /// The beginning of the end, once; a stronger cause replaces a grace that still runs.
    pub(super) fn end(&mut self, cause: Cause) {
        let has_grace = matches!(cause, Cause::Eof | Cause::Malformed);
        match &mut self.phase {
            Phase::Serving => {
                self.phase = Phase::Ending { cause, began: Instant::now(), grace: self.rules.grace, told: false };
                self.end_subscriptions();
                self.end_questions();
                if cause != Cause::Eof {
                    self.answer_queued();
                }
            }
            Phase::Ending { .. } | Phase::Draining { .. } => {}
        }
        if let Phase::Ending { grace, .. } = &mut self.phase
            && !has_grace
        {
            *grace = Duration::ZERO;
        }
        if matches!(cause, Cause::StdoutBroken | Cause::Stalled) {
            self.shared.outbox.give_up();
        }
    }

    /// Two lines for each of the few there are, once: these need no room.
    fn end_subscriptions(&mut self) {
        for id in self.subscriptions.take_all() {
            for line in render_subscription_end(&id, "server shutting down") {
                self.shared.outbox.push(outbox::Frame::new(line, None));
            }
        }
    }

    fn answer_queued(&self) {
        for (ticket, admitted) in self.shared.inflight.take_queued() {
            let line = render(admitted.job.call.origin(), &answer::ended_before_it_began(admitted.job.call.asked()));
            self.shared.inflight.finish(ticket, line, Vec::new(), &self.shared.outbox);
        }
    }

    /// Moves the end on; `Some` once nothing is left to wait for.
    pub(super) fn step(&mut self) -> Option<Cause> {
        if let Phase::Ending { cause, began, grace, told } = &mut self.phase {
            let (cause, began) = (*cause, *began);
            if !*told && began.elapsed() >= *grace {
                *told = true;
                self.answer_queued();
                self.shared.inflight.end_running();
            }
            if (self.shared.inflight.is_idle() && self.replies.is_empty()) || began.elapsed() >= END {
                self.shared.outbox.close();
                self.phase = Phase::Draining { cause, began };
            }
        }
        if let Phase::Draining { cause, began } = self.phase {
            return (self.shared.outbox.is_over() || began.elapsed() >= END).then_some(cause);
        }
        None
    }

    /// Whether the client has closed stdin, read to its end or not.
    fn is_input_closed(&self) -> bool {
        let mut fds = [Poll::broken(self.input.fd())];
        sys::poll(&mut fds, Some(Duration::ZERO)).is_ok() && fds[0].is_broken()
    }

    /// Joins everything that ends, lets go of what will not, and prints the counters.
    pub(super) fn finish(mut self, cause: Cause) -> Cause {
        // A client that is gone closed both; which was noticed first is chance.
        let is_gone = cause == Cause::StdoutBroken && self.is_input_closed();
        let cause = if is_gone { Cause::Eof } else { cause };
        self.shared.outbox.give_up();
        if let Some(since) = self.unread_since.take() {
            self.shared.counters.waited(since.elapsed());
        }
        if let Some(writer) = self.writer.take() {
            writer.join();
        }
        let is_idle = self.shared.inflight.is_idle();
        if !is_idle {
            self.shared.inflight.kill_running();
        }
        self.shared.inflight.close();
        self.shared.desk.close(is_idle);
        if is_idle {
            self.pool.join();
            self.shared.live().world.hands.close();
            self.shared.journal.close();
        } else {
            log::error!("{} calls would not end and were let go", self.shared.inflight.len());
            self.pool.abandon();
            self.shared.journal.abandon();
        }
        self.shared.print_counters();
        cause
    }
}
