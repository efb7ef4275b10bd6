//! Stored results: what of an output did not fit its reply, kept for a while so that it can be read on.
//!
//! A result is one file under the state folder, mode 0600, shared by every process with that folder: a header that says what it
//! is, then the stored stream. It is written as `NAME.part`, locked by its writer, and renamed once complete; so what has a
//! name is whole. Nothing is synced: a result is a convenience, the journal is the record.
//!
//! ```text
//! draft (NAME.part) ──complete──▶ stored (NAME) ──reply left──▶ kept ──15 min unread, or room needed──▶ gone
//!    └── dropped: unlinked           └── dropped: unlinked
//! ```

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::action::read::{Cursor, Name};
use crate::limits::{ARTIFACT_BYTES, ARTIFACT_LIFE, ARTIFACTS_BYTES};
use crate::sys;
use crate::wire::escape::to_line;

/// Bytes of a file before the stored stream: a JSON object, spaces, a line feed.
pub const HEADER_BYTES: usize = 512;
/// A draft grows by at most this before room is looked for again.
const GROWTH_BYTES: u64 = 1 << 20;
/// A draft that nobody has locked is taken for an orphan after this.
const ORPHAN_AGE: Duration = Duration::from_secs(60);
/// Between two looks for what is over its time.
const TIDY_EVERY: Duration = Duration::from_secs(60);
const PART: &str = ".part";

/// The folder of stored results.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    /// When `tidy` last looked.
    tidied: Mutex<Option<Instant>>,
}

/// The first bytes of a file: what it is, for whoever finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    tidegate_result: u32,
    /// The tool whose output it is.
    pub tool: String,
    /// `stdout`, `stderr` or `body`.
    pub stream: String,
    /// Whether all of it is UTF-8.
    pub is_text: bool,
    /// Bytes of the stream in the file.
    pub stored: u64,
    /// Bytes of the stream that came after them and are gone.
    pub gone: u64,
}

impl Header {
    /// Of a stream that is known whole.
    pub fn new(tool: &str, stream: &str, is_text: bool, stored: u64, gone: u64) -> Header {
        Header { tidegate_result: 1, tool: tool.to_owned(), stream: stream.to_owned(), is_text, stored, gone }
    }

    /// What it is, for clients.
    pub fn media_type(&self) -> &'static str {
        if self.is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" }
    }
}

impl Store {
    /// Results under `state_dir`; nothing is made before the first one.
    pub fn new(state_dir: &Path) -> Self {
        Store { dir: state_dir.join("results"), tidied: Mutex::new(None) }
    }

    /// Begins a result.
    fn draft(self: &Arc<Self>, tool: &str, stream: &str) -> io::Result<Draft> {
        let mut bits = [0; 16];
        SystemRandom::new().fill(&mut bits).map_err(|_| io::Error::other("the system has no randomness"))?;
        let name = Name::new(bits);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        self.make_room(GROWTH_BYTES)?;
        let path = self.dir.join(format!("{}{PART}", name.as_str()));
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let header = Header::new(tool, stream, true, 0, 0);
        let draft = Draft { store: Arc::clone(self), name, path, file, header, utf8: Utf8::default(), failed: None };
        draft.file.lock()?;
        Ok(draft)
    }

    /// Opens a stored result. `NotFound` if there is none of that name, or its time is over.
    pub fn open(&self, name: &Name) -> io::Result<Artifact> {
        let gone = || io::Error::from(ErrorKind::NotFound);
        let path = self.dir.join(name.as_str());
        let file = File::options().read(true).custom_flags(sys::NO_FOLLOW).open(&path)?;
        let metadata = file.metadata()?;
        if age(metadata.modified()?) > ARTIFACT_LIFE {
            let _ = fs::remove_file(&path);
            return Err(gone());
        }
        let mut first = [0; HEADER_BYTES];
        file.read_exact_at(&mut first, 0).map_err(|_| gone())?;
        let header: Header = serde_json::from_slice(&first).map_err(|_| gone())?;
        if header.tidegate_result != 1 || metadata.len() != header.stored + HEADER_BYTES as u64 {
            return Err(gone());
        }
        // Whoever reads is not done with it. A folder that takes no changes is no reason to refuse.
        let _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(Artifact { file, header })
    }

    /// Removes what is over its time, at most once a minute: a session that stores nothing more would else keep it for ever. To be
    /// called where nobody waits.
    pub fn tidy(&self) {
        let now = Instant::now();
        let mut tidied = self.tidied.lock().unwrap_or_else(PoisonError::into_inner);
        if tidied.is_none_or(|tidied| now.duration_since(tidied) >= TIDY_EVERY) {
            *tidied = Some(now);
            drop(tidied);
            // A folder that is not there holds nothing.
            let _ = self.sweep();
        }
    }

    /// Removes the oldest until `bytes` more fit, and what `sweep` does.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let (mut complete, mut total) = self.sweep()?;
        complete.sort();
        for (_, length, path) in complete {
            if total + bytes <= ARTIFACTS_BYTES {
                break;
            }
            match fs::remove_file(&path) {
                // Another process makes room as well.
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => total -= length,
            }
        }
        if total + bytes <= ARTIFACTS_BYTES {
            return Ok(());
        }
        let full = format!("results still being written fill the {} MiB for all of them", ARTIFACTS_BYTES >> 20);
        Err(io::Error::new(ErrorKind::StorageFull, full))
    }

    /// Removes what is over its time and orphans. What is left and complete, and the length of all that is left.
    fn sweep(&self) -> io::Result<(Vec<Left>, u64)> {
        let mut complete = Vec::new();
        let mut total = 0;
        for entry in fs::read_dir(&self.dir)?.flatten() {
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|_| metadata.is_file()) else { continue };
            let at = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let is_over = match name.strip_suffix(PART) {
                Some(_) => age(at) > ORPHAN_AGE && is_orphan(&path),
                None => age(at) > ARTIFACT_LIFE,
            };
            if is_over {
                let _ = fs::remove_file(&path);
                continue;
            }
            total += metadata.len();
            if Name::parse(name).is_some() {
                complete.push((at, metadata.len(), path));
            }
        }
        Ok((complete, total))
    }
}

/// When a result was last read, its length, and where it is.
type Left = (SystemTime, u64, PathBuf);

fn age(at: SystemTime) -> Duration {
    SystemTime::now().duration_since(at).unwrap_or_default()
}

fn is_orphan(path: &Path) -> bool {
    match File::open(path).map(|file| file.try_lock()) {
        Ok(Ok(())) => true,
        Ok(Err(TryLockError::WouldBlock | TryLockError::Error(_))) | Err(_) => false,
    }
}

/// A result being written.
#[derive(Debug)]
pub struct Draft {
    store: Arc<Store>,
    name: Name,
    path: PathBuf,
    file: File,
    header: Header,
    utf8: Utf8,
    failed: Option<String>,
}

impl Draft {
    /// Takes what comes next; beyond the limit, and after a failure, it is counted and thrown away.
    pub fn write(&mut self, bytes: &[u8]) {
        let room = if self.header.gone > 0 { 0 } else { ARTIFACT_BYTES - self.header.stored };
        let (taken, rest) = bytes.split_at(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
        if let Err(error) = self.store_bytes(taken) {
            log::warn!("a result could not be stored further: {error}");
            self.failed = Some(error.to_string());
            self.cut_at_character();
            self.header.gone += taken.len() as u64;
        }
        if !rest.is_empty() {
            self.cut_at_character();
            self.header.gone += rest.len() as u64;
        }
    }

    fn store_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (before, length) = (self.header.stored, bytes.len() as u64);
        if before / GROWTH_BYTES != (before + length) / GROWTH_BYTES {
            self.store.make_room(GROWTH_BYTES)?;
        }
        self.file.write_all_at(bytes, HEADER_BYTES as u64 + before)?;
        self.header.stored += length;
        self.utf8.push(bytes);
        Ok(())
    }

    /// What is thrown away begins with a whole character.
    fn cut_at_character(&mut self) {
        let begun = self.utf8.begun() as u64;
        self.header.stored -= begun;
        self.header.gone += begun;
        self.utf8.forget_begun();
    }

    /// Bytes in the file.
    pub fn stored(&self) -> u64 {
        self.header.stored
    }

    /// The stored stream, if none of it is gone.
    pub fn read_back(&self) -> io::Result<Option<Vec<u8>>> {
        if self.header.gone > 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(self.header.stored).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, HEADER_BYTES as u64)?;
        Ok(Some(bytes))
    }

    /// Writes the header and gives the file its name. The error of an earlier write is told here if nothing could be stored.
    pub fn complete(mut self) -> io::Result<Stored> {
        if let Some(why) = self.failed.take().filter(|_| self.header.stored == 0) {
            return Err(io::Error::other(why));
        }
        self.header.is_text = self.utf8.is_whole();
        let mut first = to_line(&self.header).into_bytes();
        first.resize(HEADER_BYTES - 1, b' ');
        first.push(b'\n');
        self.file.write_all_at(&first, 0)?;
        // After a failed write the file may be longer than what counts.
        self.file.set_len(HEADER_BYTES as u64 + self.header.stored)?;
        let path = self.store.dir.join(self.name.as_str());
        fs::rename(&self.path, &path)?;
        let guard = Guard { path, is_kept: AtomicBool::new(false) };
        Ok(Stored { name: self.name.clone(), header: self.header.clone(), guard: Arc::new(guard) })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Nothing is there any more once it was renamed.
        let _ = fs::remove_file(&self.path);
    }
}

/// A complete result whose reply has not left: unlinked when the last copy is dropped, unless it was kept.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub header: Header,
    guard: Arc<Guard>,
}

#[derive(Debug)]
struct Guard {
    path: PathBuf,
    is_kept: AtomicBool,
}

impl Stored {
    /// Where reading goes on after `offset` bytes.
    pub fn cursor(&self, offset: u64) -> Cursor {
        Cursor { name: self.name.clone(), offset }
    }

    /// What a reader must know if not all of the stream is here.
    pub fn gone_note(&self) -> Option<String> {
        let Header { stored, gone, .. } = self.header;
        (gone > 0).then(|| format!("only its first {stored} bytes are stored, {gone} more are gone"))
    }

    /// The reply that names it has left: it stays.
    pub fn keep(&self) {
        self.guard.is_kept.store(true, Ordering::SeqCst);
    }
}

impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Stored {}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::SeqCst) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A stored result, open for reading; it can be read to its end even if it goes meanwhile.
#[derive(Debug)]
pub struct Artifact {
    file: File,
    /// What it is.
    pub header: Header,
}

impl Artifact {
    /// At most `length` bytes from `offset` on; less only at the end of the stored stream.
    pub fn read_at(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let rest = self.header.stored.saturating_sub(offset);
        let mut bytes = vec![0; length.min(usize::try_from(rest).unwrap_or(usize::MAX))];
        self.file.read_exact_at(&mut bytes, HEADER_BYTES as u64 + offset)?;
        Ok(bytes)
    }
}

/// Looks at a stream in pieces and knows whether it is UTF-8.
#[derive(Debug, Default)]
struct Utf8 {
    /// A sequence that has begun.
    begun: Vec<u8>,
    is_broken: bool,
}

impl Utf8 {
    fn push(&mut self, bytes: &[u8]) {
        if self.is_broken {
            return;
        }
        let joined = if self.begun.is_empty() { None } else { Some([&self.begun, bytes].concat()) };
        let bytes = joined.as_deref().unwrap_or(bytes);
        match std::str::from_utf8(bytes) {
            Ok(_) => self.begun.clear(),
            Err(error) if error.error_len().is_none() => self.begun = bytes[error.valid_up_to()..].to_vec(),
            Err(_) => (self.is_broken, self.begun) = (true, Vec::new()),
        }
    }

    fn begun(&self) -> usize {
        self.begun.len()
    }

    fn forget_begun(&mut self) {
        self.begun.clear();
    }

    fn is_whole(&self) -> bool {
        !self.is_broken && self.begun.is_empty()
    }
}

/// Where a sink puts what does not fit: a file from when it is needed.
#[derive(Debug)]
pub enum Spill {
    /// Nothing was put anywhere; what is needed for a file.
    Not(Target),
    /// To a file.
    To(Box<Draft>),
    /// There is no file, and why.
    Failed(String),
}

/// What a file will be called after.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it goes.
    pub store: Arc<Store>,
    /// The tool whose output it is.
    pub tool: Arc<str>,
    /// `stdout`, `stderr` or `body`.
    pub stream: &'static str,
}

impl Spill {
    /// Takes what comes next, after everything that was put there before; `earlier` is what stood in memory until now.
    pub fn push(&mut self, earlier: [&[u8]; 3], bytes: &[u8]) {
        self.begin(earlier);
        if let Spill::To(draft) = self {
            draft.write(bytes);
        }
    }

    /// Begins the file, if there is none, with what stood in memory until now.
    pub fn begin(&mut self, earlier: [&[u8]; 3]) {
        let Spill::Not(Target { store, tool, stream }) = self else { return };
        *self = match store.draft(tool, stream) {
            Ok(mut draft) => {
                earlier.iter().for_each(|bytes| draft.write(bytes));
                Spill::To(Box::new(draft))
            }
            Err(error) => Spill::Failed(error.to_string()),
        };
    }

    /// Ends it. `Err`: why there is none.
    pub fn complete(self) -> Result<Stored, String> {
        match self {
            Spill::Not(_) => Err("nothing was stored".to_owned()),
            Spill::To(draft) => draft.complete().map_err(|error| error.to_string()),
            Spill::Failed(why) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::testing::StateDir;

    /// Stores `pieces` and gives what can be read back.
    fn stored(dir: &StateDir, pieces: &[&[u8]]) -> (Stored, Vec<u8>) {
        let mut draft = dir.store().draft("tool", "stdout").unwrap();
        pieces.iter().for_each(|piece| draft.write(piece));
        let stored = draft.complete().unwrap();
        let artifact = dir.store().open(&stored.name).unwrap();
        assert_eq!(artifact.header, stored.header);
        let bytes = artifact.read_at(0, usize::MAX).unwrap();
        (stored, bytes)
    }

    #[track_caller]
    fn check_text(pieces: &[&[u8]], is_text: bool) {
        let (stored, bytes) = stored(&StateDir::new(), pieces);
        assert_eq!((stored.header.is_text, bytes), (is_text, pieces.concat()), "{pieces:?}");
    }

    #[test]
    fn what_is_read_is_what_was_written_and_known_for_what_it_is() {
        check_text(&[b"hello", b"", b" world"], true);
        check_text(&[], true);
        check_text(&[b"a\xe2", b"\x80", b"\x94b\xf0\x9f", b"\x8e\x89"], true);
        check_text(&[b"\0\x7f"], true);
        check_text(&[b"a\xff"], false);
        check_text(&[b"a\xe2", b"\x80"], false);
        check_text(&[b"\xe2", b"a"], false);
        check_text(&[b"\xc0\x80"], false);
    }

    #[test]
    fn a_result_is_bounded_and_cut_between_characters() {
        let limit = usize::try_from(ARTIFACT_BYTES).unwrap();
        for (length, gone) in [(limit - 1, 0), (limit, 0), (limit + 1, 1), (limit + 100_000, 100_000)] {
            let input = vec![b'x'; length];
            let (stored, bytes) = stored(&StateDir::new(), &input.chunks(65_000).collect::<Vec<_>>());
            assert_eq!((stored.header.gone, bytes.len()), (gone, length.min(limit)));
        }
        let input = "x".repeat(limit - 2) + "\u{1F389}\u{1F389}";
        let (stored, bytes) = stored(&StateDir::new(), &[input.as_bytes()]);
        assert_eq!((stored.header.is_text, stored.header.gone, bytes.len()), (true, 8, limit - 2));
    }

    #[test]
    fn only_what_was_kept_stays_and_nobody_else_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = StateDir::new();
        let (first, _) = stored(&dir, &[b"first"]);
        let (second, _) = stored(&dir, &[b"second"]);
        let draft = dir.store().draft("tool", "stdout").unwrap();
        assert_eq!(dir.files().len(), 3);
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let folder = dir.0.join("results");
        assert_eq!((mode(folder.clone()), mode(folder.join(first.name.as_str()))), (0o700, 0o600));
        drop(draft);
        let copy = first.clone();
        first.keep();
        drop((first, second));
        assert_eq!(dir.files(), [copy.name.as_str()]);
    }

    fn set_age(dir: &StateDir, name: &str, age: Duration) {
        let file = File::options().append(true).open(dir.0.join("results").join(name)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn a_result_is_gone_after_its_time_and_reading_gives_it_more() {
        let dir = StateDir::new();
        let (result, _) = stored(&dir, &[b"x"]);
        let name = result.name.as_str();
        set_age(&dir, name, ARTIFACT_LIFE - Duration::from_secs(60));
        dir.store().open(&result.name).unwrap();
        let modified = fs::metadata(dir.0.join("results").join(name)).unwrap().modified().unwrap();
        assert!(age(modified) < Duration::from_secs(60));
        set_age(&dir, name, ARTIFACT_LIFE + Duration::from_secs(1));
        assert_eq!(dir.store().open(&result.name).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(dir.files(), [""; 0]);
    }

    #[test]
    fn orphans_and_the_old_make_room() {
        let dir = StateDir::new();
        let held = dir.store().draft("tool", "stdout").unwrap();
        let held_name = format!("{}{PART}", held.name.as_str());
        let orphan = format!("{}{PART}", "0".repeat(32));
        fs::write(dir.0.join("results").join(&orphan), "").unwrap();
        let (old, _) = stored(&dir, &[b"x"]);
        set_age(&dir, &held_name, ARTIFACT_LIFE * 2);
        set_age(&dir, &orphan, ORPHAN_AGE + Duration::from_secs(1));
        set_age(&dir, old.name.as_str(), ARTIFACT_LIFE + Duration::from_secs(1));
        let (new, _) = stored(&dir, &[b"y"]);
        let mut files = dir.files();
        files.sort();
        let mut expected = [held_name, new.name.as_str().to_owned()];
        expected.sort();
        assert_eq!(files, expected);
    }

    #[test]
    fn what_is_over_its_time_goes_though_nothing_more_is_stored() {
        let dir = StateDir::new();
        dir.store().tidy();
        let ((old, _), (young, _)) = (stored(&dir, &[b"x"]), stored(&dir, &[b"y"]));
        let store = dir.store();
        store.tidy();
        set_age(&dir, old.name.as_str(), ARTIFACT_LIFE + Duration::from_secs(1));
        store.tidy();
        assert_eq!(dir.files().len(), 2, "it looked less than a minute ago");
        dir.store().tidy();
        assert_eq!(dir.files(), [young.name.as_str()]);
    }

    #[test]
    fn processes_make_room_at_the_same_time() {
        let dir = StateDir::new();
        let names: Vec<String> = (0..256).map(|number| format!("{number:032x}")).collect();
        std::fs::create_dir_all(dir.0.join("results")).unwrap();
        let fill = || {
            names.iter().for_each(|name| {
                let file = File::create(dir.0.join("results").join(name)).unwrap();
                file.set_len(2 * ARTIFACTS_BYTES / 256).unwrap();
            });
        };
        for _ in 0..10 {
            fill();
            let make_room = || Store::new(&dir.0).make_room(ARTIFACTS_BYTES);
            std::thread::scope(|scope| {
                let others: Vec<_> = (0..4).map(|_| scope.spawn(make_room)).collect();
                others.into_iter().for_each(|other| other.join().unwrap().unwrap());
            });
            assert_eq!(dir.files(), [""; 0]);
        }
    }

    #[test]
    fn the_oldest_go_first_when_there_is_no_room() {
        let dir = StateDir::new();
        let results: Vec<Stored> = (0..3).map(|_| stored(&dir, &[b"x"]).0).collect();
        for (number, result) in results.iter().enumerate() {
            // Sparse: the size counts, no space is taken.
            let path = dir.0.join("results").join(result.name.as_str());
            File::options().append(true).open(path).unwrap().set_len(ARTIFACTS_BYTES / 3).unwrap();
            set_age(&dir, result.name.as_str(), Duration::from_secs(60 - 10 * number as u64));
        }
        let (new, _) = stored(&dir, &[b"y"]);
        let mut files = dir.files();
        files.sort();
        let mut expected = [&results[1], &results[2], &new].map(|result| result.name.as_str().to_owned());
        expected.sort();
        assert_eq!(files, expected);
    }

    #[test]
    fn what_is_no_whole_result_is_not_there() {
        let dir = StateDir::new();
        let (result, _) = stored(&dir, &[b"hello"]);
        let path = dir.0.join("results").join(result.name.as_str());
        let whole = fs::read(&path).unwrap();
        for bad in [&whole[..whole.len() - 1], &whole[..100], b"", &[whole.as_slice(), b"x"].concat(), &vec![b'x'; 600]] {
            fs::write(&path, bad).unwrap();
            assert_eq!(dir.store().open(&result.name).unwrap_err().kind(), ErrorKind::NotFound);
        }
        fs::remove_file(&path).unwrap();
        let elsewhere = dir.0.join("elsewhere");
        fs::write(&elsewhere, &whole).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(dir.store().open(&result.name).is_err(), "a link to a whole result");
    }

    #[test]
    fn a_folder_that_cannot_be_had_is_told() {
        let store = Arc::new(Store::new(Path::new("/dev/null")));
        let target = Target { store, tool: Arc::from("tool"), stream: "stdout" };
        let mut spill = Spill::Not(target);
        spill.push([b"a", b"", b""], b"b");
        let why = spill.complete().unwrap_err();
        assert!(why.contains("Not a directory"), "{why}");
    }
}
