//! The heads file: where each journal begins and ends, noted by every process that shares the state folder.
//!
//! It stands beside the folder, so that a folder that is gone is missed as well. Each note is one line, chained like a journal's,
//! appended in one write under flock and synced. A journal without a note of its end belongs to a process that runs or was
//! killed; the next process notes how far it got. Nobody rewrites it.
//!
//! ```text
//! start ──▶ end (closed, rotated, found) ──▶ removed (`keep_days`)
//! ```

use std::collections::HashSet;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::clock::Clock;
use crate::journal::chain::Hash;
use crate::journal::folder::tail;
use crate::journal::read::Seen;
use crate::limits::JOURNAL_HEADS_WAIT;

/// The name of the file in the state folder.
pub const NAME: &str = "journal-heads.jsonl";
/// How much of its end is looked through for journals without an end: some thousand processes.
const TAIL_BYTES: u64 = 1 << 20;
/// Between two looks at the lock: flock(2) has no wait with an end.
const LOCK_LOOK: Duration = Duration::from_millis(2);

/// Why a journal got no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Its process ended in order.
    Closed,
    /// It is continued in another file.
    Rotated,
    /// Its process ended without a note; another one looked how far it got.
    Found,
}

/// One note.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Note {
    /// A journal begins.
    Start {
        /// Its name.
        file: String,
        /// The process that writes it.
        pid: u32,
    },
    /// It gets no further.
    End {
        /// Its name.
        file: String,
        /// The sequence of its last line.
        last_seq: u64,
        /// The hash of its last line.
        head: String,
        /// Why.
        why: Why,
    },
    /// It is removed, because its time is over.
    Removed {
        /// Its name.
        file: String,
        /// The sequence of its last line, if it had one.
        last_seq: Option<u64>,
        /// The hash of its last line, if it had one.
        head: Option<String>,
    },
}

impl Note {
    /// A journal of this process begins.
    pub fn start(file: &str) -> Note {
        Note::Start { file: file.to_owned(), pid: std::process::id() }
    }

    /// A journal ends with this line.
    pub fn end(file: &str, (last_seq, head): (u64, Hash), why: Why) -> Note {
        Note::End { file: file.to_owned(), last_seq, head: head.to_string(), why }
    }

    /// A journal that ended with this line is removed.
    pub fn removed(file: &str, last: Option<(u64, Hash)>) -> Note {
        let (last_seq, head) = (last.map(|(seq, _)| seq), last.map(|(_, head)| head.to_string()));
        Note::Removed { file: file.to_owned(), last_seq, head }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    at: String,
    prev: String,
    #[serde(flatten)]
    note: &'a Note,
}

/// The heads file of a state folder.
#[derive(Debug, Clone)]
pub struct Heads {
    path: PathBuf,
    clock: Clock,
}

impl Heads {
    /// Under `state_dir`; nothing is made before the first note.
    pub fn new(state_dir: &Path, clock: Clock) -> Self {
        Heads { path: state_dir.join(NAME), clock }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends notes, all or none, synced. Fails with `TimedOut` while another process holds the file for too long.
    pub fn append(&self, notes: &[Note]) -> io::Result<()> {
        if notes.is_empty() {
            return Ok(());
        }
        let mut file = self.open_locked()?;
        let is_new = file.metadata()?.len() == 0;
        let (good, mut next) = end_of(&mut file)?;
        let mut lines = Vec::new();
        for note in notes {
            let (seq, prev) = next;
            let line = Line { seq, at: self.clock.now_text(), prev: prev.to_string(), note };
            let line = crate::wire::escape::to_line(&line);
            next = (seq + 1, Hash::of(line.as_bytes()));
            lines.extend_from_slice(line.as_bytes());
            lines.push(b'\n');
        }
        if good < file.metadata()?.len() {
            file.set_len(good)?;
        }
        let written = file.write_all(&lines).and_then(|()| file.sync_data());
        if written.is_err() {
            let _ = file.set_len(good);
            return written;
        }
        if is_new { File::open(self.path.parent().unwrap_or(Path::new("/")))?.sync_all() } else { Ok(()) }
    }

    /// Locked, and still the file of that name.
    fn open_locked(&self) -> io::Result<File> {
        let began = Instant::now();
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        loop {
            let file = File::options().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
            match file.try_lock() {
                Ok(()) if file.metadata()?.nlink() > 0 => return Ok(file),
                Ok(()) => {}
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if began.elapsed() >= JOURNAL_HEADS_WAIT => {
                    return Err(io::Error::new(ErrorKind::TimedOut, format!("{NAME} is held by another process")));
                }
                Err(TryLockError::WouldBlock) => std::thread::park_timeout(LOCK_LOOK),
            }
        }
    }

    /// Names of journals that have begun and not ended, as far as the end of the file tells.
    pub fn unended(&self) -> io::Result<HashSet<String>> {
        let mut open = HashSet::new();
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(open),
            Err(error) => return Err(error),
        };
        for line in tail(&mut file, TAIL_BYTES)?.split(|byte| *byte == b'\n') {
            let Ok(Seen { kind, file: Some(name), .. }) = Seen::parse(line) else { continue };
            match &*kind {
                "start" => drop(open.insert(name)),
                "end" | "removed" => drop(open.remove(&name)),
                _ => {}
            }
        }
        Ok(open)
    }
}

/// Where whole lines end, and number and link of the line to come.
fn end_of(file: &mut File) -> io::Result<(u64, (u64, Hash))> {
    const NOTE_BYTES: u64 = 8 << 10;
    let length = file.metadata()?.len();
    let tail = tail(file, NOTE_BYTES)?;
    let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else {
        let is_all = tail.len() as u64 == length;
        return Ok((if is_all { 0 } else { length }, (0, Hash::NONE)));
    };
    let begin = tail[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = &tail[begin..end];
    // What cannot be read is for `verify` to name; the chain goes on behind it.
    let seq = Seen::parse(line).map_or(0, |seen| seen.seq.saturating_add(1));
    Ok((length - (tail.len() - end - 1) as u64, (seq, Hash::of(line))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Rig(PathBuf);

    impl Rig {
        fn new(name: &str) -> (Rig, Heads) {
            let dir = std::env::temp_dir().join(format!("tidegate-heads-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            let heads = Heads::new(&dir, Clock::System);
            (Rig(dir), heads)
        }

        fn lines(&self) -> Vec<String> {
            fs::read_to_string(self.0.join(NAME)).unwrap().lines().map(str::to_owned).collect()
        }
    }

    impl Drop for Rig {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn notes_of_many_processes_are_one_chain() {
        let (rig, heads) = Rig::new("chain");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let heads = heads.clone();
                scope.spawn(move || (0..10).for_each(|n| heads.append(&[Note::start(&format!("{thread}-{n}"))]).unwrap()));
            }
        });
        let mut prev = Hash::NONE;
        for (at, line) in rig.lines().iter().enumerate() {
            let seen = Seen::parse(line.as_bytes()).unwrap();
            assert_eq!((seen.seq, seen.prev()), (at as u64, Some(prev)));
            prev = Hash::of(line.as_bytes());
        }
        assert_eq!(heads.unended().unwrap().len(), 40);
        heads.append(&[Note::end("0-0", (1, prev), Why::Closed), Note::removed("0-1", None)]).unwrap();
        assert_eq!(heads.unended().unwrap().len(), 38);
    }

    #[test]
    fn what_a_cut_note_left_is_taken_back() {
        let (rig, heads) = Rig::new("cut");
        heads.append(&[Note::start("a")]).unwrap();
        let path = rig.0.join(NAME);
        fs::write(&path, fs::read_to_string(&path).unwrap() + "{\"seq\":1,\"at").unwrap();
        heads.append(&[Note::start("b")]).unwrap();
        let lines = rig.lines();
        assert_eq!(lines.len(), 2);
        assert_eq!(Seen::parse(lines[1].as_bytes()).unwrap().prev(), Some(Hash::of(lines[0].as_bytes())));
        fs::write(&path, "no line").unwrap();
        heads.append(&[Note::start("c")]).unwrap();
        assert_eq!(rig.lines().len(), 1);
    }
}
