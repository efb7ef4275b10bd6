//! The journal's thread: chains records, writes all that wait in one go, syncs once (group commit), rotates by size.
//!
//! Nothing is acknowledged that is not written and, where asked, synced; what a failed write left behind is taken back before the
//! next one. A file that cannot be begun, written or noted in the heads file fails the records that wait, and the next ones try
//! again: recovery needs no restart.
//!
//! ```text
//! (none) ──first record──▶ begun: made, locked, noted as started ──batches──▶ full ──▶ noted as ended; the next is begun
//!                             └── unlinked behind our back: the next is begun, the chain goes on
//! ```

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, never, select};

use crate::clock::Clock;
use crate::journal::JournalRules;
use crate::journal::chain::Hash;
use crate::journal::folder;
use crate::journal::heads::{Heads, Note, Why};
use crate::journal::record::{FORMAT, Line, Record};
use crate::journal::refusals::{self, Refusals, Refused};
use crate::limits::CALLS;

/// A record on its way.
pub struct Append {
    /// What is recorded.
    pub record: Record,
    /// Whether it has to be on disk before it is acknowledged.
    pub sync: bool,
    /// Whoever waits; it may be gone.
    pub done: Sender<Result<(), String>>,
}

/// The file that is written.
struct Current {
    file: File,
    name: String,
    /// Bytes that count.
    good: u64,
    /// What stands behind them is of a write that failed.
    is_torn: bool,
}

/// The file before it.
struct Past {
    name: String,
    /// Sequence and hash of its last line.
    last: (u64, Hash),
}

/// Where the chain stands.
#[derive(Clone)]
struct Chain {
    seq: u64,
    prev: Hash,
    /// Calls with an intent and no outcome.
    open: BTreeSet<u64>,
}

/// Writes records.
pub struct Writer {
    dir: PathBuf,
    heads: Heads,
    rules: JournalRules,
    clock: Clock,
    started: Instant,
    current: Option<Current>,
    past: Option<Past>,
    /// The past file's end is not yet in the heads file.
    is_past_owed: bool,
    chain: Chain,
    /// Outcomes that could not be written when they were due.
    owed: Vec<Record>,
    is_tidy: bool,
}

impl Writer {
    /// A writer under `state_dir`; nothing is made before the first record.
    pub fn new(state_dir: &Path, rules: JournalRules, clock: Clock, started: Instant) -> Self {
        Writer {
            dir: folder::of_state(state_dir),
            heads: Heads::new(state_dir, clock),
            rules,
            clock,
            started,
            current: None,
            past: None,
            is_past_owed: false,
            chain: Chain { seq: 0, prev: Hash::NONE, open: BTreeSet::new() },
            owed: Vec::new(),
            is_tidy: false,
        }
    }

    /// Writes until both queues are closed and empty.
    pub fn run(
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
        self.close();
    }

    /// Writes a batch and tells everybody who waits what became of it.
    pub fn take(&mut self, batch: Vec<Append>) {
        let is_sync = batch.iter().any(|append| append.sync);
        let result = self.write(batch.iter().map(|append| &append.record), is_sync);
        let result = result.map_err(|error| format!("{}: {error}", self.dir.display()));
        if result.is_err() {
            self.owe(batch.iter().map(|append| &append.record));
        }
        for append in batch {
            // A waiter that was cancelled is gone.
            let _ = append.done.send(result.clone());
        }
        if result.is_ok() && !self.is_tidy {
            self.tidy();
        }
    }

    /// An outcome whose intent is on disk is written as soon as that is possible again.
    fn owe<'a>(&mut self, records: impl Iterator<Item = &'a Record>) {
        let outcomes =
            records.filter(|record| matches!(record, Record::Outcome { call, .. } if self.chain.open.contains(call)));
        let room = CALLS - self.owed.len();
        self.owed.extend(outcomes.take(room).cloned());
    }

    fn write<'a>(&mut self, records: impl Iterator<Item = &'a Record>, is_sync: bool) -> io::Result<()> {
        self.ready()?;
        let mut chain = self.chain.clone();
        let current = self.current.as_ref().expect("made ready");
        let mut lines = Vec::new();
        if current.good == 0 {
            let session = self.session(current.name.clone());
            self.push(&mut lines, &mut chain, &session);
        }
        self.owed.iter().for_each(|record| self.push(&mut lines, &mut chain, record));
        records.for_each(|record| self.push(&mut lines, &mut chain, record));
        let current = self.current.as_mut().expect("made ready");
        current.append(&lines, is_sync)?;
        self.chain = chain;
        self.owed.clear();
        Ok(())
    }

    fn session(&self, file: String) -> Record {
        Record::Session {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            file,
            previous: self.past.as_ref().map(|past| past.name.clone()),
            open: self.chain.open.iter().copied().collect(),
        }
    }

    /// Appends the line of a record, but for an outcome whose intent never got there.
    fn push(&self, lines: &mut Vec<u8>, chain: &mut Chain, record: &Record) {
        match record {
            Record::Session { .. } => {}
            Record::Intent { call, .. } => drop(chain.open.insert(*call)),
            Record::Outcome { call, .. } => {
                if !chain.open.remove(call) {
                    return;
                }
            }
        }
        let mono_ms = u64::try_from(self.clock.since(self.started).as_millis()).unwrap_or(u64::MAX);
        let line = Line { seq: chain.seq, at: self.clock.now_text(), mono_ms, prev: chain.prev.to_string(), record };
        let line = crate::wire::escape::to_line(&line);
        chain.seq += 1;
        chain.prev = Hash::of(line.as_bytes());
        lines.extend_from_slice(line.as_bytes());
        lines.push(b'\n');
    }

    /// A file with room that still has its name.
    fn ready(&mut self) -> io::Result<()> {
        if let Some(current) = &self.current {
            let is_gone = current.file.metadata()?.nlink() == 0;
            if !is_gone && current.good < self.rules.file_bytes {
                return Ok(());
            }
            if !is_gone {
                current.file.sync_data()?;
            }
            self.leave();
        }
        let (file, name) = folder::create(&self.dir, "", &self.clock.now_text())?;
        // The file's own entry must survive a power cut as its lines do.
        File::open(&self.dir)?.sync_all()?;
        let ended = self.past.as_ref().filter(|_| self.is_past_owed);
        let mut notes: Vec<Note> = ended.map(|past| Note::end(&past.name, past.last, Why::Rotated)).into_iter().collect();
        notes.push(Note::start(&name));
        if let Err(error) = self.heads.append(&notes) {
            let _ = std::fs::remove_file(self.dir.join(&name));
            return Err(io::Error::new(error.kind(), format!("its start cannot be noted: {error}")));
        }
        self.is_past_owed = false;
        self.is_tidy = false;
        self.current = Some(Current { file, name, good: 0, is_torn: false });
        Ok(())
    }

    /// The current file becomes the past one, if there is anything in it.
    fn leave(&mut self) {
        let Some(current) = self.current.take().filter(|current| current.good > 0) else { return };
        self.past = Some(Past { name: current.name, last: (self.chain.seq - 1, self.chain.prev) });
        self.is_past_owed = true;
    }

    /// Once a file, behind its first records: nobody waits for it.
    fn tidy(&mut self) {
        self.is_tidy = true;
        if let Err(error) = folder::tidy(&self.dir, &self.heads, self.rules.keep, SystemTime::now()) {
            log::warn!("old journals cannot be tidied away: {}: {error}", self.dir.display());
        }
    }

    fn close(mut self) {
        if !self.owed.is_empty() {
            let _ = self.write(std::iter::empty(), true);
        }
        if let Some(current) = &self.current {
            let _ = current.file.sync_data();
        }
        self.leave();
        let Some(past) = self.past.as_ref().filter(|_| self.is_past_owed) else { return };
        if let Err(error) = self.heads.append(&[Note::end(&past.name, past.last, Why::Closed)]) {
            log::warn!("the end of the journal cannot be noted: {error}");
        }
    }
}

impl Current {
    fn append(&mut self, lines: &[u8], is_sync: bool) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.good)?;
        }
        self.is_torn = true;
        self.file.write_all(lines)?;
        if is_sync {
            self.file.sync_data()?;
        }
        self.is_torn = false;
        self.good += lines.len() as u64;
        Ok(())
    }
}
