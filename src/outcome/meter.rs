//! How far a call has come: bytes and lines its source has produced so far, counted by its sinks, read by whoever shows progress.
//!
//! Counts only rise. Nothing here waits.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a call's source has produced so far.
#[derive(Debug, Default)]
pub struct Meter {
    bytes: AtomicU64,
    lines: AtomicU64,
}

impl Meter {
    /// Counts one chunk, as the source produced it.
    pub fn count(&self, chunk: &[u8]) {
        let lines = chunk.iter().filter(|byte| **byte == b'\n').count();
        self.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        self.lines.fetch_add(lines as u64, Ordering::Relaxed);
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Line feeds so far.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_line_feeds_add_up() {
        let meter = Meter::default();
        ["a\nb", "", "\n\n"].iter().for_each(|chunk| meter.count(chunk.as_bytes()));
        assert_eq!((meter.bytes(), meter.lines()), (5, 3));
    }
}
