//! Hands records to the journal's thread, and waits until they are on disk.
//!
//! Whoever appends waits for its record to be on disk, or for its cancel; a stalled disk therefore stalls calls, never the
//! reader, and holds neither a cancel nor the end of the process.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, never, select};

use crate::cancel::CancelToken;
use crate::clock::Clock;
use crate::journal::record::Record;
use crate::journal::refusals::{self, Begun, Fingerprint, Refusals, Refused};
use crate::journal::writer::{Append, Writer};
use crate::journal::{JournalRules, folder};
use crate::limits::{CALLS, JOURNAL_CLOSE, REFUSALS_WAITING};
use crate::thread::{self, Thread};

/// Which records are synced before the append returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Intents and outcomes.
    All,
    /// Intents; outcomes are written, and synced with the next intent.
    Intents,
}

/// When a record has to be on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisk {
    /// As the mode asks: the action touches the world.
    ByMode,
    /// With the next record that is synced: nothing outside this process depends on it.
    Later,
}

/// Why a record is not in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendError {
    /// It could not be written; the text says what and why.
    Unavailable(String),
    /// The call was cancelled while it waited; the record may still get there.
    Cancelled,
}

/// The journal of this process.
pub struct Journal {
    state_dir: PathBuf,
    rules: JournalRules,
    clock: Clock,
    started: Instant,
    refusals: Arc<Refusals>,
    running: Mutex<Option<Running>>,
}

struct Running {
    records_tx: Sender<Append>,
    refusals_tx: Sender<Refused>,
    /// Closed once the thread has done its last.
    ended: Receiver<()>,
    thread: Thread,
}

impl Journal {
    /// A journal under `state_dir`; nothing is made before the first record. Fails where the system gives no random bytes.
    pub fn new(state_dir: &Path, rules: JournalRules, clock: Clock) -> std::io::Result<Self> {
        let refusals = Arc::new(Refusals::new()?);
        let (state_dir, started) = (state_dir.to_owned(), Instant::now());
        Ok(Journal { state_dir, rules, clock, started, refusals, running: Mutex::new(None) })
    }

    /// What it was made with.
    pub fn rules(&self) -> JournalRules {
        self.rules
    }

    /// Appends a record and waits until it is on disk as far as the mode asks. `token`: a cancel ends the wait.
    pub fn append(&self, record: Record, on_disk: OnDisk, token: Option<&CancelToken>) -> Result<(), AppendError> {
        let sync = match on_disk {
            OnDisk::ByMode => self.rules.sync == SyncMode::All || matches!(record, Record::Intent { .. }),
            OnDisk::Later => false,
        };
        let withdrawn = withdrawn(&record);
        let (done, written) = bounded(1);
        let records_tx = self.with_running(|running| running.records_tx.clone());
        let records_tx = records_tx.map_err(|error| AppendError::Unavailable(format!("no thread: {error}")))?;
        let gone = || AppendError::Unavailable("the journal has ended".to_owned());
        let forever = never();
        let cancelled = token.map_or(&forever, CancelToken::closed);
        select! {
            send(records_tx, Append { record, sync, done }) -> sent => sent.map_err(|_| gone())?,
            recv(cancelled) -> _ => return Err(AppendError::Cancelled),
        }
        select! {
            recv(written) -> result => result.map_err(|_| gone())?.map_err(AppendError::Unavailable),
            recv(cancelled) -> _ => {
                // The intent may get there yet: what became of it follows it. Nobody waits for that, not even for room.
                if let Some(record) = withdrawn {
                    let _ = records_tx.try_send(Append { record, sync: false, done: bounded(1).0 });
                }
                Err(AppendError::Cancelled)
            }
        }
    }

    /// Records what was refused, unsynced and in a file of its own. Never waits: what cannot be taken now is counted.
    pub fn refuse(&self, refused: Refused) {
        let is_taken = self.refusals.may_record()
            && self.with_running(|running| running.refusals_tx.try_send(refused)).is_ok_and(|sent| sent.is_ok());
        if !is_taken {
            self.refusals.skip(1);
        }
    }

    /// See `Refusals::begin`.
    pub fn begin(&self, unfinished: &[u8], begun: &mut Begun) {
        self.refusals.begin(unfinished, begun);
    }

    /// The fingerprint of a line, for `refuse`.
    pub fn fingerprint(&self, line: &[u8], begun: &Begun) -> Fingerprint {
        self.refusals.fingerprint(line, begun)
    }

    /// How many refusals have no record.
    pub fn unrecorded(&self) -> u64 {
        self.refusals.unrecorded()
    }

    /// Asks the thread's owner for something; starts the thread if there is none.
    fn with_running<T>(&self, ask: impl FnOnce(&Running) -> T) -> std::io::Result<T> {
        let mut running = self.lock();
        if running.is_none() {
            *running = Some(self.start()?);
        }
        Ok(ask(running.as_ref().expect("started above")))
    }

    fn start(&self) -> std::io::Result<Running> {
        // Each admitted call has at most one record on its way, and one that was cancelled another.
        let (records_tx, records_rx) = bounded(2 * CALLS);
        let (refusals_tx, refusals_rx) = bounded(REFUSALS_WAITING);
        let (ended_tx, ended) = bounded(0);
        let writer = Writer::new(&self.state_dir, self.rules, self.clock, self.started);
        let beside = refusals::Writer::new(&folder::of_state(&self.state_dir), self.clock);
        let refusals = self.refusals.clone();
        let thread = thread::spawn("tg-journal", move || {
            let _ended: Sender<()> = ended_tx;
            writer.run(records_rx, beside, refusals_rx, &refusals);
        })?;
        Ok(Running { records_tx, refusals_tx, ended, thread })
    }

    /// Writes what waits and ends the thread; one that a stalled disk holds for too long is let go. True if all was written.
    pub fn close(&self) -> bool {
        let running = self.lock().take();
        running.is_none_or(|Running { records_tx, refusals_tx, ended, thread }| {
            drop((records_tx, refusals_tx));
            if ended.recv_timeout(JOURNAL_CLOSE) == Err(RecvTimeoutError::Timeout) {
                log::error!("the journal's disk does not answer: what is not yet written is lost");
                thread.abandon();
                return false;
            }
            thread.join()
        })
    }

    /// Lets a thread go that a stalled disk holds.
    pub fn abandon(&self) {
        let running = self.lock().take();
        if let Some(running) = running {
            running.thread.abandon();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is recorded of an intent whose call was cancelled while it waited for the disk.
fn withdrawn(record: &Record) -> Option<Record> {
    let Record::Intent { call, .. } = record else { return None };
    let (call, code, executed) = (*call, "cancelled", "no");
    Some(Record::Outcome { call, code, executed, status: None, bytes: 0, duration_ms: 0, ended: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::Why;

    /// A journal whose thread is held by its disk, and what was handed to it.
    fn stalled(room: usize) -> (Journal, Receiver<Append>) {
        let journal = Journal::new(Path::new("/nowhere"), JournalRules::default(), Clock::System).unwrap();
        let (records_tx, records_rx) = bounded(room);
        let (thread, ended) = (thread::spawn("tg-journal", || {}).unwrap(), never());
        *journal.lock() = Some(Running { records_tx, refusals_tx: bounded(1).0, ended, thread });
        (journal, records_rx)
    }

    fn intent(call: u64) -> Record {
        Record::Intent {
            call,
            tool: String::new(),
            rule: String::new(),
            target: String::new(),
            args_sha256: String::new(),
            action_sha256: String::new(),
            credential: None,
            era: "",
            trace: None,
            question: None,
        }
    }

    #[test]
    fn a_stalled_disk_holds_no_cancel() {
        let (journal, records) = stalled(3);
        let token = CancelToken::new().unwrap();
        token.cancel(Why::Client);
        // More than there is room for: no cancelled call waits for room either.
        for call in 0..64 {
            assert_eq!(journal.append(intent(call), OnDisk::ByMode, Some(&token)), Err(AppendError::Cancelled));
        }
        // An intent that may get there is followed by what became of its call.
        let handed: Vec<Record> = records.try_iter().map(|append| append.record).collect();
        let Some(Record::Intent { call: first, .. }) = handed.first() else { panic!("{handed:?}") };
        let next = handed.iter().find(|record| matches!(record, Record::Outcome { call, .. } if call == first));
        let Some(Record::Outcome { code, executed, .. }) = next else { panic!("{handed:?}") };
        assert_eq!((*code, *executed), ("cancelled", "no"));
    }

    #[test]
    fn a_stalled_disk_does_not_hold_the_end() {
        let (journal, _records) = stalled(1);
        let began = Instant::now();
        assert!(!journal.close());
        assert!(began.elapsed() < 2 * JOURNAL_CLOSE);
    }
}
