//! What the threads of one session share, and how they wake its loop.
//!
//! Whatever stands here is either immutable, counts, or holds one short lock. The mailbox never makes its caller wait.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::clock::Clock;
use crate::config::LogRules;
use crate::gateway::counters::Counters;
use crate::gateway::desk::Desk;
use crate::gateway::inflight::Inflight;
use crate::gateway::live::{Announcement, Live};
use crate::gateway::pipeline::Approval;
use crate::journal::append::Journal;
use crate::journal::refusals::{Fingerprint, Refused};
use crate::limits::Limits;
use crate::mcp::call::Call;
use crate::mcp::era::Era;
use crate::outcome::meter::Meter;
use crate::sys;
use crate::wire::outbox::Outbox;

/// What a worker needs of an admitted call.
pub struct Job {
    /// The call.
    pub call: Arc<Call>,
    /// When it was admitted: its time runs from there.
    pub admitted: Instant,
    /// How long it may take, queueing included.
    pub timeout: Duration,
    /// Of the line it came in.
    pub line: Fingerprint,
    /// What its source has produced.
    pub meter: Arc<Meter>,
    /// A yes that was waited for.
    pub approval: Option<Approval>,
    /// Since when it waits for one.
    pub parked: Option<Instant>,
    /// For how long it waited; its own time stood still meanwhile.
    pub waited: Duration,
}

impl Job {
    /// The same, to wait for an approval from now on.
    pub fn to_park(&self) -> Job {
        let Job { admitted, timeout, line, waited, .. } = *self;
        let (call, meter) = (Arc::clone(&self.call), Arc::clone(&self.meter));
        Job { call, admitted, timeout, line, meter, approval: None, parked: Some(Instant::now()), waited }
    }

    /// It was approved, and goes on.
    pub fn resumed(&mut self, approval: Approval) {
        self.waited += self.parked.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.approval = Some(approval);
    }

    /// When its time is over.
    pub fn deadline(&self) -> Instant {
        self.admitted + self.timeout + self.waited
    }
}

/// What others tell the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A signal asks the session to end.
    End,
    /// A second signal: at once.
    EndNow,
    /// SIGUSR1: print the counters.
    PrintCounters,
    /// Another configuration is at work; what to say of it lies in the mailbox.
    Reloaded,
    /// The writer found stdout broken.
    StdoutBroken,
    /// Nothing left for the stall limit.
    Stalled,
}

/// The loop's mailbox: a bounded queue and a descriptor that wakes its poll.
pub struct Mailbox {
    events_tx: Sender<Event>,
    events_rx: Receiver<Event>,
    bell: PipeWriter,
    rung: PipeReader,
    announcement: Mutex<Option<Announcement>>,
}

impl Mailbox {
    /// An empty mailbox.
    pub fn new() -> io::Result<Self> {
        let (events_tx, events_rx) = bounded(64);
        let (rung, bell) = io::pipe()?;
        sys::set_nonblocking(rung.as_fd())?;
        sys::set_nonblocking(bell.as_fd())?;
        Ok(Mailbox { events_tx, events_rx, bell, rung, announcement: Mutex::new(None) })
    }

    /// Tells the loop something. Never waits: in a full mailbox the same news already stands many times.
    pub fn tell(&self, event: Event) {
        let _ = self.events_tx.try_send(event);
        self.poke();
    }

    /// Tells the loop that another configuration is at work. Of several at once the last counts.
    pub fn announce(&self, announcement: Announcement) {
        *self.announcement.lock().unwrap_or_else(PoisonError::into_inner) = Some(announcement);
        self.tell(Event::Reloaded);
    }

    /// What `announce` was told. For the loop alone.
    pub fn take_announcement(&self) -> Option<Announcement> {
        self.announcement.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Makes the loop look at the shared state again. Never waits: a full bell has rung.
    pub fn poke(&self) {
        let _ = (&self.bell).write(&[1]);
    }

    /// For polling: readable once somebody rang.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.rung.as_fd()
    }

    /// Silences the bell and hands over what was told. For the loop alone.
    pub fn empty(&self) -> Vec<Event> {
        let mut rung = [0; 512];
        while (&self.rung).read(&mut rung).is_ok_and(|count| count == rung.len()) {}
        self.events_rx.try_iter().collect()
    }
}

/// What is shown of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The file it came from.
    pub config: Option<PathBuf>,
    /// Where journals go.
    pub state_dir: PathBuf,
    /// What is logged, and where.
    pub log: LogRules,
    /// Nothing is executed.
    pub dry_run: bool,
    /// What an operator should know of.
    pub notes: Vec<String>,
}

/// What the threads of one session share.
pub struct Shared {
    /// Calls under way.
    pub inflight: Inflight<Job>,
    /// Frames on their way out.
    pub outbox: Outbox,
    /// The loop's mailbox.
    pub mailbox: Mailbox,
    /// The configuration at work.
    pub live: Mutex<Arc<Live>>,
    /// Questions to humans.
    pub desk: Arc<Desk>,
    /// Where intents, outcomes and refusals go.
    pub journal: Arc<Journal>,
    /// What was counted.
    pub counters: Counters,
    /// Where shown times come from.
    pub clock: Clock,
    /// When the session began.
    pub started: Instant,
    /// Limits as configured.
    pub limits: Limits,
    /// Nothing is executed.
    pub dry_run: bool,
    /// The stderr sink, where there is one.
    pub operator: Option<Arc<crate::wire::log::Shared>>,
}

impl Shared {
    /// The configuration at work now; whoever holds it keeps it.
    pub fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another configuration to work; gives back the one before.
    pub fn replace_live(&self, live: Live) -> Arc<Live> {
        std::mem::replace(&mut *self.live.lock().unwrap_or_else(PoisonError::into_inner), Arc::new(live))
    }

    /// Lets the stderr sink redact every credential seen so far.
    pub fn operator_redactor(&self) {
        if let Some(operator) = &self.operator {
            operator.set_redactor(self.live().world.vault.redactor());
        }
    }

    /// A line or a call was refused: counted, and recorded apart from what is executed. A dry run leaves no state behind.
    pub fn refused(&self, stage: &'static str, reason: &'static str, line: Fingerprint, era: Option<Era>) {
        self.counters.refusals.add(reason);
        if !self.dry_run {
            self.journal.refuse(Refused { stage, reason, line, era: era.map(|era| era.revision().as_str()) });
        }
    }

    /// Prints the counters, where there is an operator to read them.
    pub fn print_counters(&self) {
        if self.operator.is_some() {
            crate::wire::log::operator_line(&self.counters_json());
        }
    }

    /// The counters as one line.
    pub fn counters_json(&self) -> String {
        let dropped = self.operator.as_ref().map_or(0, |operator| operator.dropped());
        self.counters.to_json(self.journal.unrecorded(), crate::process::killed_total(), dropped)
    }
}
