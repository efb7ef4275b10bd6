//! The journal: what was about to be done is on disk before it is done, and what became of it is there after.
//!
//! One JSONL file a process, made at the first call and continued in another where it grows too large. Each line names the
//! SHA-256 of the line before it, and the heads file beside the folder notes where each file begins and ends.
//!
//! ```text
//! STATE/journal/20260731T101500123Z-4711-0.jsonl    session, intent, outcome, …: `record` is the shape, `append` and `writer` write
//! STATE/journal/refusals-….jsonl                    what was refused, unsynced and unchained: `refusals`
//! STATE/journal-heads.jsonl                         start, end and removal of each journal, by every process: `heads`
//! ```
//! `lines` and `read` read them back for people, `verify` says what was done to them. Nothing here decides.

pub mod chain;
pub mod record;
pub mod lines;
pub mod read;
pub mod folder;
pub mod heads;
pub mod refusals;
pub mod writer;
pub mod append;
pub mod verify;

use std::time::Duration;

use crate::journal::append::SyncMode;
use crate::limits::{JOURNAL_FILE_BYTES, JOURNAL_KEEP};

/// How a journal is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalRules {
    /// Which records are synced.
    pub sync: SyncMode,
    /// A journal of a process that has ended is removed this long after its last record.
    pub keep: Duration,
    /// A file that has reached this size is continued in another.
    pub file_bytes: u64,
}

impl Default for JournalRules {
    fn default() -> Self {
        JournalRules { sync: SyncMode::All, keep: JOURNAL_KEEP, file_bytes: JOURNAL_FILE_BYTES }
    }
}
