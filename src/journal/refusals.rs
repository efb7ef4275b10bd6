//! What was refused, in a file of its own: stage, reason and a keyed fingerprint of the line, never a byte of its text.
//!
//! Whoever refuses hands a record over and goes on; what does not fit, comes too fast or cannot be written is counted. A file
//! that is full becomes the older of two, and the one before it goes: the newest records stay and the disk is bounded. Written
//! unsynced by the journal's thread, beside the records of actions and never in their file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ring::hmac::{self, HMAC_SHA256};
use ring::rand::SystemRandom;
use serde::Serialize;

use crate::clock::{Allowance, Clock};
use crate::journal::folder::create;
use crate::limits::{REFUSAL_FILE_BYTES, REFUSAL_RECORD_EVERY, REFUSAL_RECORDS};
use crate::rpc::message::MalformedKind;

/// A shorter line is fingerprinted whole, once it is here.
const LONG_LINE_BYTES: usize = 64 << 10;

/// How the names of these files begin; no other file of the journal's folder begins so.
pub const PREFIX: &str = "refusals-";

/// The type of the request's way that a refused line or call did not become, as in `Refusal::stage`.
pub const FRAME: &str = "frame";
/// See `FRAME`.
pub const MESSAGE: &str = "message";
/// See `FRAME`.
pub const CALL: &str = "call";
/// A call above the admission limits.
pub const ADMISSION: &str = "admission";
/// See `FRAME`.
pub const ACTION: &str = "action";

/// The stage at which a line of this kind dies.
pub fn stage_of(kind: MalformedKind) -> &'static str {
    match kind {
        MalformedKind::LineTooLong | MalformedKind::NotUtf8 | MalformedKind::Unterminated => FRAME,
        MalformedKind::NotJson
        | MalformedKind::LspHeader
        | MalformedKind::NotAnObject
        | MalformedKind::DuplicateKey
        | MalformedKind::ReservedKey
        | MalformedKind::WrongVersion
        | MalformedKind::BadId
        | MalformedKind::MissingId
        | MalformedKind::BadMethod
        | MalformedKind::NoMethodOrOutcome
        | MalformedKind::Ambiguous
        | MalformedKind::BadParams
        | MalformedKind::IdInFlight
        | MalformedKind::TooDeep
        | MalformedKind::LoneSurrogate => MESSAGE,
    }
}

/// What a record says of the line itself. The same line gives the same fingerprint within a session, and no other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    bytes: u64,
    /// HMAC-SHA-256; none for a line that was thrown away while it was read.
    code: Option<[u8; 32]>,
}

impl Fingerprint {
    /// Of a line whose bytes were never kept.
    pub fn of_discarded(bytes: usize) -> Self {
        Fingerprint { bytes: bytes as u64, code: None }
    }
}

/// A line of which not all has come.
#[derive(Clone, Default)]
pub struct Begun {
    context: Option<hmac::Context>,
    bytes: usize,
}

/// One refused line or call.
#[derive(Debug, Clone, Copy)]
pub struct Refused {
    /// `frame`, `message`, `call`, `admission`, `action` or `grant`.
    pub stage: &'static str,
    /// The stable name that is also counted.
    pub reason: &'static str,
    /// Of the line it came in.
    pub line: Fingerprint,
    /// The revision whose shape the answer took, where the line came so far.
    pub era: Option<&'static str>,
}

/// What the threads share of it: the key, how fast records may come, and how many there are none of.
pub struct Refusals {
    key: hmac::Key,
    allowance: Mutex<Allowance>,
    unrecorded: AtomicU64,
    skipped: AtomicU64,
    has_failed: AtomicBool,
}

impl Refusals {
    /// With a key of this process alone. Fails where the system gives no random bytes.
    pub fn new() -> std::io::Result<Self> {
        let key = hmac::Key::generate(HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| std::io::Error::other("the system gives no random bytes"))?;
        Ok(Refusals {
            key,
            allowance: Mutex::new(Allowance::new(REFUSAL_RECORDS, REFUSAL_RECORD_EVERY)),
            unrecorded: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
        })
    }

    /// Takes in what of a long line has come so far, so that nobody waits for that once its end is here.
    pub fn begin(&self, unfinished: &[u8], begun: &mut Begun) {
        if unfinished.len() < begun.bytes {
            *begun = Begun::default();
        }
        if unfinished.len() > LONG_LINE_BYTES {
            let context = begun.context.get_or_insert_with(|| hmac::Context::with_key(&self.key));
            context.update(&unfinished[begun.bytes..]);
            begun.bytes = unfinished.len();
        }
    }

    /// The fingerprint of a line, of which `begun` may know the beginning.
    pub fn fingerprint(&self, line: &[u8], begun: &Begun) -> Fingerprint {
        let tag = match (&begun.context, line.get(begun.bytes..)) {
            (Some(context), Some(rest)) => {
                let mut context = context.clone();
                context.update(rest);
                context.sign()
            }
            // A carriage return that was taken in is no part of the line.
            (None, _) | (_, None) => hmac::sign(&self.key, line),
        };
        Fingerprint { bytes: line.len() as u64, code: tag.as_ref().try_into().ok() }
    }

    /// Whether another record may be made now.
    pub fn may_record(&self) -> bool {
        self.allowance.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// These have no record.
    pub fn skip(&self, count: u64) {
        self.unrecorded.fetch_add(count, Ordering::Relaxed);
        self.skipped.fetch_add(count, Ordering::Relaxed);
    }

    /// How many have none, in all.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded.load(Ordering::Relaxed)
    }

    fn take_skipped(&self) -> u64 {
        self.skipped.swap(0, Ordering::Relaxed)
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "refusal")]
struct Shown<'a> {
    seq: u64,
    at: String,
    stage: &'a str,
    reason: &'a str,
    bytes: u64,
    fingerprint: Option<String>,
    era: Option<&'a str>,
    /// How many before this one have no record.
    #[serde(skip_serializing_if = "is_zero")]
    skipped: u64,
}

/// The first line of a file: who writes it.
#[derive(Serialize)]
struct First<'a> {
    seq: u64,
    at: String,
    #[serde(rename = "type")]
    kind: &'a str,
    version: &'a str,
    pid: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Writes them: the journal thread's half.
pub struct Writer {
    dir: PathBuf,
    clock: Clock,
    file: Option<(File, PathBuf)>,
    /// The full one that is kept beside it.
    older: Option<PathBuf>,
    bytes: u64,
    seq: u64,
}

impl Writer {
    /// A writer below `dir`; nothing is made before the first record.
    pub fn new(dir: &Path, clock: Clock) -> Self {
        Writer { dir: dir.to_owned(), clock, file: None, older: None, bytes: 0, seq: 0 }
    }

    /// Appends records. What cannot be written is counted; the operator is told of it once.
    pub fn write(&mut self, batch: &[Refused], refusals: &Refusals) {
        let skipped = refusals.take_skipped();
        let Err(error) = self.append(batch, skipped) else { return };
        refusals.skipped.fetch_add(skipped, Ordering::Relaxed);
        refusals.skip(batch.len() as u64);
        self.take_back();
        if !refusals.has_failed.swap(true, Ordering::Relaxed) {
            log::warn!("what is refused cannot be recorded, only counted: {}: {error}", self.dir.display());
        }
    }

    fn append(&mut self, batch: &[Refused], skipped: u64) -> std::io::Result<()> {
        let (mut lines, mut next) = self.lines(self.seq, batch, skipped);
        if self.file.is_some() && self.bytes + lines.len() as u64 > REFUSAL_FILE_BYTES {
            self.turn_over()?;
        }
        if self.file.is_none() {
            let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
            let first = First { seq: self.seq, at: self.clock.now_text(), kind: "session", version, pid };
            (lines, next) = self.lines(self.seq + 1, batch, skipped);
            lines.insert_str(0, &(crate::wire::escape::to_line(&first) + "\n"));
            let (file, name) = create(&self.dir, PREFIX, &self.clock.now_text())?;
            self.file = Some((file, self.dir.join(name)));
            self.bytes = 0;
        }
        let (file, _) = self.file.as_mut().expect("made above");
        file.write_all(lines.as_bytes())?;
        self.bytes += lines.len() as u64;
        self.seq = next;
        Ok(())
    }

    /// What a failed write left goes; so does a file in which nothing else stands, or each further failure would leave another.
    fn take_back(&mut self) {
        let Some((file, path)) = &self.file else { return };
        if self.bytes == 0 {
            let _ = std::fs::remove_file(path);
        }
        if self.bytes == 0 || file.set_len(self.bytes).is_err() {
            self.file = None;
        }
    }

    /// A line each, numbered from `seq`, and the number that follows; the first tells how many were skipped before it.
    fn lines(&self, mut seq: u64, batch: &[Refused], mut skipped: u64) -> (String, u64) {
        let mut lines = String::new();
        for refused in batch {
            lines += &self.line(seq, refused, std::mem::take(&mut skipped));
            lines.push('\n');
            seq += 1;
        }
        (lines, seq)
    }

    fn line(&self, seq: u64, refused: &Refused, skipped: u64) -> String {
        crate::wire::escape::to_line(&Shown {
            seq,
            at: self.clock.now_text(),
            stage: refused.stage,
            reason: refused.reason,
            bytes: refused.line.bytes,
            fingerprint: refused.line.code.map(|code| code.iter().map(|byte| format!("{byte:02x}")).collect()),
            era: refused.era,
            skipped,
        })
    }

    /// The full file is kept beside the next one; the one kept so far goes.
    fn turn_over(&mut self) -> std::io::Result<()> {
        let Some((_, path)) = self.file.take() else { return Ok(()) };
        let older = path.with_extension("old.jsonl");
        std::fs::rename(&path, &older)?;
        if let Some(oldest) = self.older.replace(older).filter(|oldest| Some(oldest) != self.older.as_ref()) {
            let _ = std::fs::remove_file(oldest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::UNIX_EPOCH;

    /// A writer in a folder of the test's own.
    struct Rig {
        dir: PathBuf,
        writer: Writer,
        refusals: Refusals,
    }

    impl Rig {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("tidegate-refusals-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            let writer = Writer::new(&dir, Clock::Fixed(UNIX_EPOCH));
            Rig { dir, writer, refusals: Refusals::new().unwrap() }
        }

        fn write(&mut self, count: usize) {
            let line = self.refusals.fingerprint(b"{bad", &Begun::default());
            let refused = Refused { stage: MESSAGE, reason: "not_json", line, era: None };
            self.writer.write(&vec![refused; count], &self.refusals);
        }

        fn files(&self) -> Vec<(String, String)> {
            let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
            let read = |path: PathBuf| (path.display().to_string(), fs::read_to_string(&path).unwrap());
            let mut files: Vec<_> = entries.map(|entry| read(entry.path())).collect();
            files.sort();
            files
        }
    }

    impl Drop for Rig {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }

    #[test]
    fn a_record_holds_stage_reason_and_fingerprint_and_no_text() {
        let mut rig = Rig::new("shape");
        rig.refusals.skip(3);
        rig.write(2);
        let [(path, text)] = &rig.files()[..] else { panic!("one file") };
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with(r#"{"seq":0,"#) && lines[0].contains(r#""type":"session""#), "{text}");
        let print: String =
            rig.refusals.fingerprint(b"{bad", &Begun::default()).code.unwrap().iter().map(|b| format!("{b:02x}")).collect();
        let record = format!(
            r#"{{"type":"refusal","seq":1,"at":"1970-01-01T00:00:00.000Z","stage":"message","reason":"not_json","bytes":4,"fingerprint":"{print}","era":null,"skipped":3}}"#
        );
        assert_eq!(lines[1], record);
        assert!(lines[2].contains(r#""seq":2,"#) && !lines[2].contains("skipped"), "{text}");
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_line_that_came_in_pieces_has_the_fingerprint_of_the_whole() {
        let refusals = Refusals::new().unwrap();
        let line: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        let whole = refusals.fingerprint(&line, &Begun::default());
        for ends in [vec![100], vec![70_000], vec![65_536, 65_537, 200_000], vec![70_000, 300_000]] {
            let mut begun = Begun::default();
            ends.iter().for_each(|end| refusals.begin(&line[..*end], &mut begun));
            assert_eq!(refusals.fingerprint(&line, &begun), whole, "{ends:?}");
        }
        // One byte of it was the carriage return of the line end.
        let mut begun = Begun::default();
        refusals.begin(&line, &mut begun);
        let shorter = &line[..line.len() - 1];
        assert_eq!(refusals.fingerprint(shorter, &begun), refusals.fingerprint(shorter, &Begun::default()));
        // Another line has begun.
        refusals.begin(&line[..70_000], &mut begun);
        assert_eq!(refusals.fingerprint(&line, &begun), whole);
    }

    #[test]
    fn fingerprints_tell_lines_apart_and_mean_nothing_to_another_process() {
        let (one, other) = (Refusals::new().unwrap(), Refusals::new().unwrap());
        assert_eq!(one.fingerprint(b"a", &Begun::default()), one.fingerprint(b"a", &Begun::default()));
        assert_ne!(one.fingerprint(b"a", &Begun::default()), one.fingerprint(b"b", &Begun::default()));
        assert_ne!(one.fingerprint(b"a", &Begun::default()), other.fingerprint(b"a", &Begun::default()));
    }

    #[test]
    fn a_full_file_becomes_the_older_of_two_and_the_newest_records_stay() {
        check_two_files("bound", Clock::Fixed(UNIX_EPOCH));
        check_two_files("ticking", Clock::System);
    }

    #[track_caller]
    fn check_two_files(name: &str, clock: Clock) {
        let mut rig = Rig::new(name);
        rig.writer.clock = clock;
        for _ in 0..40 {
            rig.write(500);
        }
        let files = rig.files();
        assert_eq!(files.len(), 2, "{:?}", files.iter().map(|(path, _)| path).collect::<Vec<_>>());
        assert!(files.iter().all(|(_, text)| text.len() as u64 <= REFUSAL_FILE_BYTES));
        let newest = files.iter().flat_map(|(_, text)| text.lines()).filter(|line| line.contains(r#""seq":19999,"#)).count();
        assert_eq!(newest, 1);
        assert_eq!(rig.refusals.unrecorded(), 0);
    }

    /// The first writes go to a disk that is full; what stood in the file before stays its own.
    #[test]
    fn a_full_disk_leaves_no_file_behind_and_nothing_torn() {
        let mut rig = Rig::new("disk");
        let full = || File::options().append(true).open("/dev/full").unwrap();
        for _ in 0..3 {
            // A new file on a full disk: there is its entry and nothing in it.
            let (_, name) = create(&rig.dir, PREFIX, &rig.writer.clock.now_text()).unwrap();
            (rig.writer.file, rig.writer.bytes) = (Some((full(), rig.dir.join(name))), 0);
            rig.write(1);
        }
        assert_eq!((rig.files(), rig.refusals.unrecorded()), (vec![], 3));
        rig.write(1);
        let before = rig.files();
        (&rig.writer.file.as_ref().unwrap().0).write_all(b"{\"torn").unwrap();
        rig.writer.take_back();
        assert_eq!(rig.files(), before);
        rig.write(1);
        let [(_, text)] = &rig.files()[..] else { panic!("one file") };
        assert!(text.starts_with(&before[0].1) && text.lines().count() == 3, "{text}");
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_the_next_record_says_so() {
        let mut rig = Rig::new("full");
        fs::write(&rig.dir, "in the way").unwrap();
        rig.write(2);
        assert_eq!(rig.refusals.unrecorded(), 2);
        fs::remove_file(&rig.dir).unwrap();
        rig.write(1);
        assert!(rig.files()[0].1.contains(r#""skipped":2"#));
        assert_eq!(rig.refusals.unrecorded(), 2);
    }
}
