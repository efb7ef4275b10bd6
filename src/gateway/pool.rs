//! Workers: started as calls need them, each holding one call from judgement to reply.
//!
//! A panic costs the call it happened in, which is answered as an internal error without the panic's text; the worker goes on.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::executor::CallCtx;
use crate::gateway::answer::{self, Answer};
use crate::gateway::inflight::Admitted;
use crate::gateway::pipeline::{Asked, judge, perform};
use crate::gateway::shared::{Job, Shared};
use crate::mcp::render::render;
use crate::outcome::budget::Sinks;
use crate::outcome::result::{Code, Executed};
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
        let shared = shared.clone();
        match thread::spawn(&format!("tg-worker-{}", self.workers.len() + 1), move || work(&shared)) {
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

fn work(shared: &Shared) {
    take_turns(Turns::Long);
    while let Some((ticket, admitted)) = shared.inflight.next() {
        let origin = admitted.job.call.origin().clone();
        let asked = admitted.job.call.asked().clone();
        let has_begun = AtomicBool::new(false);
        let carried = catch_unwind(AssertUnwindSafe(|| carry(shared, ticket, admitted, &has_begun)));
        let Answer { reply, stored } = carried.unwrap_or_else(|_| {
            let executed = if has_begun.load(Ordering::SeqCst) { Executed::Unknown } else { Executed::No };
            answer::fault(&asked, executed, "tidegate itself failed in this call; its stderr says where").into()
        });
        let line = render(&origin, &reply);
        drop(reply);
        shared.inflight.finish(ticket, line, stored, &shared.outbox);
        shared.mailbox.poke();
        shared.live().world.store.tidy();
    }
}

/// One call, from judgement to reply.
fn carry(shared: &Shared, ticket: Ticket, admitted: Admitted<Job>, has_begun: &AtomicBool) -> Answer {
    let Admitted { job: Job { call, admitted, timeout, line, meter }, token } = admitted;
    let refused = |refusal: &Refusal| {
        shared.refused(refusal.stage(), refusal.reason(), line, Some(call.origin().era));
        answer::refusal(&call, refusal, shared.clock.since(admitted)).into()
    };
    // Judged and carried out under one configuration, whatever is loaded meanwhile.
    let live = shared.live();
    let grant = match judge(&call, &live.tools) {
        Ok(grant) => grant,
        Err(refusal) => return refused(&refusal),
    };
    has_begun.store(true, Ordering::SeqCst);
    let (redactor, store) = (live.world.vault.redactor(), Arc::clone(&live.world.store));
    let sinks = Sinks { redactor, meter, store, tool: Arc::from(call.tool()) };
    let ctx = CallCtx { token: &token, deadline: admitted + timeout, sinks };
    let asked = Asked { number: ticket, admitted, call: &call };
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
    answer::answer(&call, outcome, shared.clock.since(admitted))
}
