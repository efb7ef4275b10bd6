//! When a worker is woken for a call.
//!
//! At once, but for one that came in a long line. Whoever has read for long is last in the kernel's eyes, so a worker woken now
//! would take this thread's core, or the writer's, or the client's, for a whole turn, while another core may be idle. So what came
//! right behind the line is looked at first, and what was said to it may leave and be read. It must never wait for more than that.

use std::time::{Duration, Instant};

use super::Reader;
use crate::limits::{ANSWER_IS_READ, READ_BYTES};

/// Calls that are queued, and for which no worker was woken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unannounced {
    calls: usize,
    /// What came behind them was looked at then, and had an answer.
    answered: Option<Instant>,
}

impl Unannounced {
    /// How long the next poll may take; `None` if nobody is to be woken.
    pub(super) fn patience(self) -> Option<Duration> {
        match self {
            Unannounced { calls: 0, .. } => None,
            Unannounced { answered, .. } => {
                Some(answered.map_or(Duration::ZERO, |at| ANSWER_IS_READ.saturating_sub(at.elapsed())))
            }
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

    /// Wakes the workers that were owed before a poll and a read, unless there was something to answer a moment ago.
    pub(super) fn wake_workers(&mut self, owed: Unannounced) {
        let is_leaving = self.shared.outbox.reader_bytes() > 0;
        match owed {
            Unannounced { calls: 0, .. } => {}
            Unannounced { answered: None, .. } if is_leaving => self.unannounced.answered = Some(Instant::now()),
            Unannounced { answered: Some(at), .. } if at.elapsed() < ANSWER_IS_READ => {}
            Unannounced { .. } => {
                let Unannounced { calls, .. } = std::mem::take(&mut self.unannounced);
                (0..calls).for_each(|_| self.shared.inflight.wake());
            }
        }
    }
}
