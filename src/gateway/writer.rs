//! What the writer tells the loop, and what lets both go if the loop never comes to its end.
//!
//! The writer runs on a thread of its own and never waits for the loop: it counts, frees slots and rings.

use std::io;
use std::sync::Arc;

use crate::gateway::shared::{Event, Shared};
use crate::wire::outbox::{Ticket, Told};

/// The writer's word to the loop.
pub struct WriterTold(pub Arc<Shared>);

impl Told for WriterTold {
    fn left(&self, ticket: Option<Ticket>, bytes: usize) {
        let counters = &self.0.counters;
        counters.frames_out.add(1);
        counters.bytes_out.add(bytes as u64);
        counters.largest_out.raise(bytes as u64);
        if let Some(ticket) = ticket {
            self.0.inflight.left(ticket);
        }
        self.0.mailbox.poke();
    }

    fn broken(&self, error: Option<io::Error>) {
        self.0.mailbox.tell(error.map_or(Event::Stalled, |_| Event::StdoutBroken));
    }
}

impl Drop for WriterTold {
    /// The writer's last word, also if it panicked: its thread may take a moment longer to be gone, which the loop does not see.
    fn drop(&mut self) {
        self.0.outbox.end();
        if std::thread::panicking() {
            self.0.mailbox.tell(Event::StdoutBroken);
        }
        self.0.mailbox.poke();
    }
}

/// Dropped before the threads that a loop owns are joined: one that never ran, or that panicked, has told none of them to end.
pub struct Release(pub Arc<Shared>);

impl Drop for Release {
    fn drop(&mut self) {
        drop(self.0.inflight.take_queued());
        self.0.inflight.kill_running();
        self.0.inflight.close();
        self.0.outbox.give_up();
    }
}
