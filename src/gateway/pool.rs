//! Workers: started as calls need them, each holding one call from judgement to reply.
//!
//! A panic costs the call it happened in, which is answered as an internal error without the panic's text; the worker goes on.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::executor::CallCtx;
use crate::gateway::answer::{self, Answer};
use crate::gateway::asking::{Case, Way, nothing_asked};
use crate::gateway::inflight::Admitted;
use crate::gateway::pipeline::{Asked, judge, perform};
use crate::gateway::shared::{Job, Shared};
use crate::mcp::render::render;
use crate::outcome::budget::Sinks;
use crate::outcome::result::{Code, Executed};
use crate::policy::consent::Decision;
use crate::policy::decide::Refusal;
use crate::sys::turns::{Turns, take_turns};
use crate::thread::{self, Thread};
use crate::wire::outbox::Ticket;

/// The threads that hold calls.
pub struct Pool {
    workers: Vec<Thread>,
    workers_max: usize,
}

impl Pool {
    /// No thread yet, at most `workers_max` later.
    pub fn new(workers_max: usize) -> Self {
        Pool { workers: Vec::new(), workers_max }
    }

    /// Starts one more worker if the limit allows. Fails if the system has no thread and there is no other worker.
    pub fn grow(&mut self, shared: &Arc<Shared>) -> io::Result<()> {
        if self.workers.len() >= self.workers_max {
            return Ok(());
        }
        let for_worker = Arc::clone(shared);
        match thread::spawn(&format!("tg-worker-{}", self.workers.len() + 1), move || work(&for_worker)) {
            Ok(worker) => self.workers.push(worker),
            Err(error) if self.workers.is_empty() => return Err(error),
            Err(error) => log::warn!("no further worker thread: {error}"),
        }
        Ok(())
    }

    /// Joins the workers; the table must be closed.
    pub fn join(self) {
        for worker in self.workers {
            worker.join();
        }
    }

    /// Joins those that have ended and lets the others go: the session cannot wait for them any longer.
    pub fn abandon(self) {
        for worker in self.workers {
            if worker.is_finished() {
                worker.join();
            } else {
                worker.abandon();
            }
        }
    }
}

fn work(shared: &Arc<Shared>) {
    take_turns(Turns::Long);
    while let Some((ticket, admitted)) = shared.inflight.next() {
        let origin = admitted.job.call.origin().clone();
        let asked = admitted.job.call.asked().clone();
        let has_begun = AtomicBool::new(false);
        let carried = catch_unwind(AssertUnwindSafe(|| carry(shared, ticket, admitted, &has_begun)));
        let carried = carried.unwrap_or_else(|_| {
            let executed = if has_begun.load(Ordering::SeqCst) { Executed::Unknown } else { Executed::No };
            Some(answer::fault(&asked, executed, "tidegate itself failed in this call; its stderr says where").into())
        });
        let Some(Answer { reply, stored }) = carried else { continue };
        let line = render(&origin, &reply);
        drop(reply);
        shared.inflight.finish(ticket, line, stored, &shared.outbox);
        shared.mailbox.poke();
        shared.live().world.store.tidy();
    }
}

/// One call, from judgement to reply; `None` where it waits for an approval now.
fn carry(shared: &Arc<Shared>, ticket: Ticket, admitted: Admitted<Job>, has_begun: &AtomicBool) -> Option<Answer> {
    let Admitted { mut job, token } = admitted;
    let given = job.approval.take();
    let refused = |refusal: &Refusal| {
        shared.refused(refusal.stage(), refusal.reason(), job.line, Some(job.call.origin().era));
        Some(answer::refusal(&job.call, refusal, shared.clock.since(job.admitted)).into())
    };
    // Judged and carried out under one configuration, whatever is loaded meanwhile.
    let live = shared.live();
    let (grant, approval) = match judge(&job.call, &live.tools) {
        Ok(Decision::Granted(_)) if job.call.retry().is_some() => return refused(&nothing_asked().into()),
        Ok(Decision::Granted(grant)) => (grant, None),
        Ok(Decision::Asks(unapproved)) => {
            if let Some(outcome) = live.world.rehearse(unapproved.grant()) {
                shared.counters.recorded.add(1);
                return Some(answer::answer(&job.call, outcome, shared.clock.since(job.admitted)));
            }
            match (Case { shared, ticket, rules: &live.approvals }).consent(&job, given, unapproved) {
                Ok(Way::Ahead(grant, approval)) => (*grant, Some(approval)),
                Ok(Way::Parked) => return None,
                Ok(Way::Reply(reply)) => return Some(reply.into()),
                Err(why) => return refused(&why.into()),
            }
        }
        Err(refusal) => return refused(&refusal),
    };
    has_begun.store(true, Ordering::SeqCst);
    let (redactor, store) = (live.world.vault.redactor(), Arc::clone(&live.world.store));
    let sinks = Sinks { redactor, meter: Arc::clone(&job.meter), store, tool: Arc::from(job.call.tool()) };
    let ctx = CallCtx { token: &token, deadline: job.deadline(), sinks };
    let asked = Asked { number: ticket, admitted: job.admitted, call: &job.call, approval: approval.as_ref() };
    let outcome = match perform(grant, &asked, &ctx, &live.world) {
        Ok(outcome) => outcome,
        Err(refusal) => return refused(&refusal),
    };
    shared.operator_redactor();
    if shared.dry_run {
        shared.counters.recorded.add(1);
    } else {
        shared.counters.executions.add(outcome.code.map_or("ok", Code::as_str));
    }
    Some(answer::answer(&job.call, outcome, shared.clock.since(job.admitted)))
}
