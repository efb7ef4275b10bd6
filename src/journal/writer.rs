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
            Record::Session { .. } | Record::Question { .. } | Record::Answer { .. } => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    use crossbeam_channel::bounded;

    use crate::journal::heads::NAME;
    use crate::journal::verify::folder::verify_all;
    use crate::journal::verify::{Kind, Report};

    /// A state folder of the test's own.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("tidegate-journal-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Folder(path)
        }

        fn writer(&self, file_bytes: u64) -> Writer {
            let rules = JournalRules { file_bytes, ..JournalRules::default() };
            Writer::new(&self.0, rules, Clock::System, Instant::now())
        }

        fn journals(&self) -> Vec<PathBuf> {
            let dir = folder::of_state(&self.0);
            folder::list(&dir).unwrap().journals.iter().map(|name| dir.join(name)).collect()
        }

        fn verified(&self) -> Vec<Report> {
            let mut reports = Vec::new();
            verify_all(&self.0, None, &mut |report| reports.push(report)).unwrap();
            reports
        }

        /// What `verify` finds: kind and line.
        #[track_caller]
        fn check(&self, expected: &[(Kind, u64)]) {
            let reports = self.verified();
            let found: Vec<_> = reports.iter().flat_map(|report| &report.findings).collect();
            let kinds: Vec<_> = found.iter().map(|finding| (finding.kind, finding.line)).collect();
            assert_eq!(kinds, expected, "{found:#?}");
        }

        /// Makes a file look as old as this.
        fn age(&self, path: &Path, age: Duration) {
            File::options().append(true).open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn intent(call: u64) -> Record {
        let text = || "x".to_owned();
        Record::Intent {
            call,
            tool: text(),
            rule: text(),
            target: text(),
            args_sha256: text(),
            action_sha256: text(),
            credential: None,
            era: "2026-07-28",
            trace: None,
            question: None,
        }
    }

    fn outcome(call: u64) -> Record {
        Record::Outcome { call, code: "ok", executed: "yes", status: None, bytes: 0, duration_ms: 0, ended: None }
    }

    fn put(writer: &mut Writer, records: impl IntoIterator<Item = Record>) -> Vec<Result<(), String>> {
        let (mut batch, mut results) = (Vec::new(), Vec::new());
        for record in records {
            let (done, result) = bounded(1);
            batch.push(Append { record, sync: true, done });
            results.push(result);
        }
        writer.take(batch);
        results.into_iter().map(|result| result.try_recv().unwrap()).collect()
    }

    #[test]
    fn a_full_file_is_continued_and_the_chain_goes_on() {
        let folder = Folder::new("rotated");
        let mut writer = folder.writer(2000);
        // One call stays open over every file.
        assert_eq!(put(&mut writer, [intent(0)]), [Ok(())]);
        for call in 1..40 {
            assert_eq!(put(&mut writer, [intent(call), outcome(call)]), [Ok(()), Ok(())]);
        }
        put(&mut writer, [outcome(0)]);
        writer.close();
        folder.check(&[]);
        let reports = folder.verified();
        assert!(reports.len() > 8 && reports[1..].iter().all(|report| report.state.as_str() == "closed"), "{reports:#?}");
        let files = folder.journals().len() as u64;
        let records: u64 = reports[1..].iter().map(|report| report.records).sum();
        assert_eq!(records, files + 80);
        assert_eq!(reports.last().unwrap().head.unwrap().0, records - 1);
    }

    #[test]
    fn a_file_that_is_gone_is_missed_and_recording_goes_on_in_another() {
        let folder = Folder::new("unlinked");
        let mut writer = folder.writer(1 << 20);
        put(&mut writer, [intent(1), outcome(1)]);
        std::fs::remove_file(&folder.journals()[0]).unwrap();
        assert_eq!(put(&mut writer, [intent(2), outcome(2)]), [Ok(()), Ok(())]);
        writer.close();
        // Line 1 of the heads file is the start of the first journal.
        folder.check(&[(Kind::Missing, 1)]);
        assert_eq!(folder.verified()[1].head.unwrap().0, 5);
        std::fs::remove_dir_all(folder::of_state(&folder.0)).unwrap();
        folder.check(&[(Kind::Missing, 1), (Kind::Missing, 3)]);
    }

    #[test]
    fn nothing_is_recorded_whose_start_cannot_be_noted() {
        let folder = Folder::new("heads");
        std::fs::create_dir_all(folder.0.join(NAME)).unwrap();
        let mut writer = folder.writer(1 << 20);
        let results = put(&mut writer, [intent(1)]);
        assert!(results[0].as_ref().is_err_and(|error| error.contains("its start cannot be noted")), "{results:?}");
        assert!(folder.journals().is_empty());
        std::fs::remove_dir(folder.0.join(NAME)).unwrap();
        assert_eq!(put(&mut writer, [intent(2), outcome(2)]), [Ok(()), Ok(())]);
        writer.close();
        folder.check(&[]);
    }

    #[test]
    fn an_outcome_that_could_not_be_written_is_written_later() {
        let folder = Folder::new("owed");
        let mut writer = folder.writer(1 << 20);
        put(&mut writer, [intent(1), intent(2)]);
        let current = writer.current.as_mut().unwrap();
        let file = std::mem::replace(&mut current.file, File::options().append(true).open("/dev/full").unwrap());
        let results = put(&mut writer, [outcome(1), intent(3)]);
        assert!(results.iter().all(Result::is_err), "{results:?}");
        // Some of it got there.
        (&file).write_all(b"{\"seq\":3,").unwrap();
        writer.current.as_mut().unwrap().file = file;
        // Call 3 has no intent on disk: its outcome is none.
        assert_eq!(put(&mut writer, [outcome(3), outcome(2)]), [Ok(()), Ok(())]);
        writer.close();
        folder.check(&[]);
        assert_eq!(folder.verified()[1].records, 5);
    }

    #[test]
    fn old_journals_go_with_a_note_and_living_ones_stay() {
        let folder = Folder::new("kept");
        let keep = JournalRules::default().keep;
        let mut closed = folder.writer(1 << 20);
        put(&mut closed, [intent(1), outcome(1)]);
        closed.close();
        let mut living = folder.writer(1 << 20);
        put(&mut living, [intent(1)]);
        let mut killed = folder.writer(1 << 20);
        put(&mut killed, [intent(1)]);
        drop(killed);
        let journals = folder.journals();
        for path in &journals {
            folder.age(path, keep - Duration::from_secs(60));
        }
        let mut one = folder.writer(1 << 20);
        put(&mut one, [intent(1), outcome(1)]);
        assert_eq!(folder.journals().len(), 4);
        // The end of the killed one was noted on the way.
        folder.check(&[(Kind::Unknown, 2)]);
        for path in &journals {
            folder.age(path, keep + Duration::from_secs(60));
        }
        let mut other = folder.writer(1 << 20);
        put(&mut other, [intent(1), outcome(1)]);
        assert_eq!(folder.journals().len(), 3, "the living one is not touched");
        assert!(folder.journals().contains(&journals[1]));
        [living, one, other].into_iter().for_each(Writer::close);
        folder.check(&[(Kind::Unknown, 2)]);
    }
}
