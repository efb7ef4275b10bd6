//! What the session counted, printed as one JSON line at its end and on SIGUSR1.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

/// A number that only grows.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Keeps the larger of both.
    pub fn raise(&self, to: u64) {
        self.0.fetch_max(to, Ordering::Relaxed);
    }

    /// The number now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts by a short, fixed name.
#[derive(Default)]
pub struct Tally(Mutex<BTreeMap<&'static str, u64>>);

impl Tally {
    /// One more of `name`.
    pub fn add(&self, name: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
    }

    /// All of them.
    pub fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Everything a session counts. Refusals and executions are apart.
#[derive(Default)]
pub struct Counters {
    /// Lines read.
    pub frames_in: Count,
    /// Bytes read.
    pub bytes_in: Count,
    /// Lines of which every byte left.
    pub frames_out: Count,
    /// Bytes of those lines.
    pub bytes_out: Count,
    /// The largest line read.
    pub largest_in: Count,
    /// The largest line that left.
    pub largest_out: Count,
    /// What was refused before an executor saw it, by reason.
    pub refusals: Tally,
    /// What an executor carried out or tried to, by outcome code (`ok` for success).
    pub executions: Tally,
    /// What a dry run recorded instead of carrying it out.
    pub recorded: Count,
    /// What cancels found, by state.
    pub cancels: Tally,
    /// How many requests became a `busy` because replies waited for stdout, in `waits` as `ids`.
    pub waiting_ids: Count,
    /// How often stdin was left unread because too many of those waited.
    pub waits: Count,
    /// For how long, in all, in microseconds.
    pub waited_us: Count,
    /// The longest of those waits, in microseconds.
    pub longest_wait_us: Count,
}

#[derive(Serialize)]
struct Shown {
    frames_in: u64,
    bytes_in: u64,
    frames_out: u64,
    bytes_out: u64,
    largest_in: u64,
    largest_out: u64,
    refusals: BTreeMap<&'static str, u64>,
    refusals_unrecorded: u64,
    executions: BTreeMap<&'static str, u64>,
    recorded: u64,
    cancels: BTreeMap<&'static str, u64>,
    waits: Waits,
    children_killed: u64,
    stderr_lines_dropped: u64,
}

#[derive(Serialize)]
struct Waits {
    ids: u64,
    count: u64,
    total_ms: u64,
    longest_ms: u64,
}

impl Counters {
    /// One wait for stdout is over.
    pub fn waited(&self, wait: Duration) {
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.waits.add(1);
        self.waited_us.add(micros);
        self.longest_wait_us.raise(micros);
    }

    /// All counts as one compact JSON object.
    pub fn to_json(&self, refusals_unrecorded: u64, children_killed: u64, stderr_lines_dropped: u64) -> String {
        let shown = Shown {
            frames_in: self.frames_in.value(),
            bytes_in: self.bytes_in.value(),
            frames_out: self.frames_out.value(),
            bytes_out: self.bytes_out.value(),
            largest_in: self.largest_in.value(),
            largest_out: self.largest_out.value(),
            refusals: self.refusals.all(),
            refusals_unrecorded,
            executions: self.executions.all(),
            recorded: self.recorded.value(),
            cancels: self.cancels.all(),
            waits: Waits {
                ids: self.waiting_ids.value(),
                count: self.waits.value(),
                total_ms: self.waited_us.value() / 1000,
                longest_ms: self.longest_wait_us.value() / 1000,
            },
            children_killed,
            stderr_lines_dropped,
        };
        crate::wire::escape::to_line(&shown)
    }
}
