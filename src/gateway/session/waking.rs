//! When a worker is woken for a call.
//!
//! At once, but for one that came in a long line. Whoever has read for long is last in the kernel's eyes, so a worker woken now
//! would take this thread's core, and the writer's, for a whole turn, while another core may be idle. So what came right behind
//! the line is looked at first, and what was said to it may leave. It must never wait for more than that, or for the client.

use std::time::Duration;

use super::Reader;
use crate::limits::{ANSWER_LEAVES, READ_BYTES};

/// Calls that are queued, and for which no worker was woken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unannounced {
    calls: usize,
    /// What came behind them was looked at, and the answer has not left.
    has_looked: bool,
}

impl Unannounced {
    /// How long the next poll may take; `None` if nobody is to be woken.
    pub(super) fn patience(self) -> Option<Duration> {
        match self {
            Unannounced { calls: 0, .. } => None,
            Unannounced { has_looked: false, .. } => Some(Duration::ZERO),
            Unannounced { has_looked: true, .. } => Some(ANSWER_LEAVES),
        }
    }
}

impl Reader {
    /// A call of a line of so many bytes was admitted.
    pub(super) fn wake_worker(&mut self, line_bytes: usize) {
        match line_bytes {
            0..=READ_BYTES => self.shared.inflight.wake(),
            _ => self.unannounced.calls += 1,
        }
    }

    /// Wakes the workers that were owed before a poll and a read; once it does not, for the sake of an answer.
    pub(super) fn wake_workers(&mut self, owed: Unannounced) {
        let is_leaving = self.shared.outbox.reader_bytes() > 0;
        match owed {
            Unannounced { calls: 0, .. } => {}
            Unannounced { has_looked: false, .. } if is_leaving => self.unannounced.has_looked = true,
            _ => {
                let Unannounced { calls, .. } = std::mem::take(&mut self.unannounced);
                (0..calls).for_each(|_| self.shared.inflight.wake());
            }
        }
    }
}
