//! The folder of journals: the names in it, new files, and the removal of old ones.
//!
//! A file that a living process writes is locked by it (flock) until the process has ended, however it ends; nobody removes a
//! locked file. Removal is noted in the heads file before it happens, so that a file that is gone without a note is missed.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::journal::chain::Hash;
use crate::journal::heads::{Heads, Note, Why};
use crate::journal::read::Seen;
use crate::journal::refusals;
use crate::limits::JOURNAL_LINE_BYTES;

const SUFFIX: &str = ".jsonl";

/// The folder of journals under a state folder.
pub fn of_state(state_dir: &Path) -> PathBuf {
    state_dir.join("journal")
}

/// A new file that no other process uses: time, process id and a number, mode 0600, in a folder of mode 0700; locked for as long
/// as it is open.
pub fn create(dir: &Path, prefix: &str, now: &str) -> io::Result<(File, String)> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let stamp: String = now.chars().filter(char::is_ascii_alphanumeric).collect();
    let mut last = None;
    for number in 0..100 {
        let name = format!("{prefix}{stamp}-{}-{number}{SUFFIX}", std::process::id());
        match File::options().append(true).create_new(true).mode(0o600).open(dir.join(&name)) {
            Ok(file) => {
                // A file system without locks loses nothing but the protection from being tidied away.
                let _ = file.try_lock();
                return Ok((file, name));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}

/// Whether a living process writes this file.
pub fn is_in_use(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

/// Whether it is known that nobody writes this file any more.
fn is_free(file: &File) -> bool {
    file.try_lock_shared().is_ok_and(|()| file.unlock().is_ok())
}

/// What a folder holds, by name; the names of journals in the order in which they were begun.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Journals of actions.
    pub journals: Vec<String>,
    /// Files of refusals.
    pub refusals: Vec<String>,
}

/// Lists a folder; one that is not there holds nothing.
pub fn list(dir: &Path) -> io::Result<Listed> {
    let mut listed = Listed::default();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listed),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.ends_with(SUFFIX) {
            continue;
        }
        let is_refusals = name.starts_with(refusals::PREFIX);
        if is_refusals { &mut listed.refusals } else { &mut listed.journals }.push(name);
    }
    listed.journals.sort_by_cached_key(|name| age_key(name));
    listed.refusals.sort();
    Ok(listed)
}

/// Time, process and number of a name, comparable.
fn age_key(name: &str) -> (String, u64, u64, String) {
    let mut parts = name.trim_end_matches(SUFFIX).split('-');
    let stamp = parts.next().unwrap_or_default().to_owned();
    let mut number = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    (stamp, number(), number(), name.to_owned())
}

/// Sequence and hash of the last whole line of a journal; `None` if it has none that can be read.
pub fn last_line(file: &mut File) -> io::Result<Option<(u64, Hash)>> {
    let tail = tail(file, 2 * JOURNAL_LINE_BYTES as u64)?;
    let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else { return Ok(None) };
    let begin = tail[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = &tail[begin..end];
    Ok(Seen::parse(line).ok().map(|seen| (seen.seq, Hash::of(line))))
}

/// At most `bytes` from the end of a file.
pub fn tail(file: &mut File, bytes: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut tail = Vec::new();
    file.take(bytes).read_to_end(&mut tail)?;
    Ok(tail)
}

/// Notes how far journals got whose process ended without saying so, then removes what is older than `keep`.
pub fn tidy(dir: &Path, heads: &Heads, keep: Duration, now: SystemTime) -> io::Result<()> {
    let listed = list(dir)?;
    let unended = heads.unended()?;
    let (mut notes, mut old) = (Vec::new(), Vec::new());
    for name in listed.journals {
        let path = dir.join(&name);
        let is_old = is_older(&path, keep, now);
        let is_unended = unended.contains(&name);
        if !is_old && !is_unended {
            continue;
        }
        let Ok(mut file) = File::open(&path) else { continue };
        if !is_free(&file) {
            continue;
        }
        let last = last_line(&mut file)?;
        if is_old {
            notes.push(Note::removed(&name, last));
            old.push(path);
        } else if let Some(last) = last {
            notes.push(Note::end(&name, last, Why::Found));
        }
    }
    heads.append(&notes)?;
    let refusals = listed.refusals.iter().map(|name| dir.join(name));
    let is_left = |path: &PathBuf| is_older(path, keep, now) && File::open(path).is_ok_and(|file| is_free(&file));
    old.extend(refusals.filter(is_left));
    old.iter().try_for_each(fs::remove_file)
}

fn is_older(path: &Path, keep: Duration, now: SystemTime) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| now.duration_since(modified).is_ok_and(|age| age > keep))
}
