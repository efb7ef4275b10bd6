//! Appends records: one file a process, one thread, one `fdatasync` for all records that wait (group commit).
//!
//! Whoever appends waits for its record to be on disk, or for its cancel; a stalled disk therefore stalls calls, never the
//! reader. A record that could not be written leaves no partial line behind.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded, never, select};

use crate::cancel::CancelToken;
use crate::clock::Clock;
use crate::journal::record::{Line, Record};
use crate::journal::refusals::{self, Begun, Fingerprint, Refusals, Refused};
use crate::limits::{CALLS, REFUSALS_WAITING};
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

struct Append {
    record: Record,
    sync: bool,
    done: Sender<Result<(), String>>,
}

/// The journal of this process.
pub struct Journal {
    dir: PathBuf,
    mode: SyncMode,
    clock: Clock,
    refusals: Arc<Refusals>,
    running: Mutex<Option<Running>>,
}

struct Running {
    records_tx: Sender<Append>,
    refusals_tx: Sender<Refused>,
    thread: Thread,
}

impl Journal {
    /// A journal under `state_dir`; nothing is made before the first record. Fails where the system gives no random bytes.
    pub fn new(state_dir: &Path, mode: SyncMode, clock: Clock) -> std::io::Result<Self> {
        let refusals = Arc::new(Refusals::new()?);
        Ok(Journal { dir: state_dir.join("journal"), mode, clock, refusals, running: Mutex::new(None) })
    }

    /// Appends a record and waits until it is on disk as far as the mode asks. `token`: a cancel ends the wait.
    pub fn append(&self, record: Record, on_disk: OnDisk, token: Option<&CancelToken>) -> Result<(), AppendError> {
        let sync = match on_disk {
            OnDisk::ByMode => self.mode == SyncMode::All || matches!(record, Record::Intent { .. }),
            OnDisk::Later => false,
        };
        let (done, written) = bounded(1);
        let records_tx = self.with_running(|running| running.records_tx.clone());
        let records_tx = records_tx.map_err(|error| AppendError::Unavailable(format!("no thread: {error}")))?;
        let gone = || AppendError::Unavailable("the journal has ended".to_owned());
        records_tx.send(Append { record, sync, done }).map_err(|_| gone())?;
        let forever = never();
        let cancelled = token.map_or(&forever, CancelToken::closed);
        select! {
            recv(written) -> result => result.map_err(|_| gone())?.map_err(AppendError::Unavailable),
            recv(cancelled) -> _ => Err(AppendError::Cancelled),
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
        // Each admitted call has at most one record on its way.
        let (records_tx, records_rx) = bounded(2 * CALLS);
        let (refusals_tx, refusals_rx) = bounded(REFUSALS_WAITING);
        let writer = Writer { dir: self.dir.clone(), clock: self.clock, file: None, seq: 0, good: 0 };
        let (beside, refusals) = (refusals::Writer::new(&self.dir, self.clock), self.refusals.clone());
        let thread = thread::spawn("tg-journal", move || writer.run(records_rx, beside, refusals_rx, &refusals))?;
        Ok(Running { records_tx, refusals_tx, thread })
    }

    /// Writes what waits and ends the thread. True unless it panicked.
    pub fn close(&self) -> bool {
        let running = self.lock().take();
        running.is_none_or(|Running { records_tx, refusals_tx, thread }| {
            drop((records_tx, refusals_tx));
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

struct Writer {
    dir: PathBuf,
    clock: Clock,
    file: Option<File>,
    seq: u64,
    good: u64,
}

impl Writer {
    /// Until both are closed and empty.
    fn run(
        mut self,
        mut records_rx: Receiver<Append>,
        mut beside: refusals::Writer,
        mut refusals_rx: Receiver<Refused>,
        refusals: &Refusals,
    ) {
        let mut open = 2;
        while open > 0 {
            select! {
                recv(records_rx) -> first => match first {
                    Ok(first) => self.take(std::iter::once(first).chain(records_rx.try_iter()).collect()),
                    Err(_) => (records_rx, open) = (never(), open - 1),
                },
                recv(refusals_rx) -> first => match first {
                    Ok(first) => {
                        let batch: Vec<Refused> = std::iter::once(first).chain(refusals_rx.try_iter()).collect();
                        beside.write(&batch, refusals);
                    }
                    Err(_) => (refusals_rx, open) = (never(), open - 1),
                },
            }
        }
        if let Some(file) = &self.file {
            let _ = file.sync_data();
        }
    }

    fn take(&mut self, batch: Vec<Append>) {
        let result = self.write(&batch).map_err(|error| format!("{}: {error}", self.dir.display()));
        for append in batch {
            // A waiter that was cancelled is gone.
            let _ = append.done.send(result.clone());
        }
    }

    fn write(&mut self, batch: &[Append]) -> std::io::Result<()> {
        let mut lines = Vec::new();
        let mut seq = self.seq;
        if self.file.is_none() {
            let session = Record::Session { version: env!("CARGO_PKG_VERSION"), pid: std::process::id() };
            self.line(&mut lines, &mut seq, &session);
        }
        for append in batch {
            self.line(&mut lines, &mut seq, &append.record);
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => self.create()?,
        };
        let file = self.file.insert(file);
        // What an earlier failure left half written goes first.
        file.set_len(self.good)?;
        file.write_all(&lines)?;
        if batch.iter().any(|append| append.sync) {
            file.sync_data()?;
        }
        self.good += lines.len() as u64;
        self.seq = seq;
        Ok(())
    }

    fn create(&self) -> std::io::Result<File> {
        let (file, _) = create(&self.dir, "", &self.clock.now_text())?;
        // The file's own entry must survive a power cut as its lines do.
        File::open(&self.dir)?.sync_all()?;
        Ok(file)
    }

    fn line(&self, lines: &mut Vec<u8>, seq: &mut u64, record: &Record) {
        let line = Line { seq: *seq, at: self.clock.now_text(), record };
        lines.extend_from_slice(crate::wire::escape::to_line(&line).as_bytes());
        lines.push(b'\n');
        *seq += 1;
    }
}

/// A new file that no other process uses: time, process id and a number, mode 0600 in a folder of mode 0700.
pub(crate) fn create(dir: &Path, prefix: &str, now: &str) -> std::io::Result<(File, PathBuf)> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let stamp: String = now.chars().filter(char::is_ascii_alphanumeric).collect();
    let mut last = None;
    for number in 0..100 {
        let path = dir.join(format!("{prefix}{stamp}-{}-{number}.jsonl", std::process::id()));
        match File::options().append(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| std::io::ErrorKind::AlreadyExists.into()))
}
