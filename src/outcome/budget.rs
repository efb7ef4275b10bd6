//! The sink every executor writes its output to: redaction, then a head and a tail within a budget of serialised bytes, then a
//! stored result for all that does not fit them.
//!
//! Memory is bounded by the budget whatever the source does; the source is always drained. Bytes are counted as the source
//! produced them; what is kept is counted as stored, that is after redaction. A cut never splits a UTF-8 sequence.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::limits::CHUNK_BYTES;
use crate::outcome::artifact::{Spill, Store, Stored, Target};
use crate::outcome::meter::Meter;
use crate::secret::{Redactor, Stream};
use crate::wire::escape::escaped_len;

/// What the members, notes and marks of one result may take beside its payload.
pub const FRAMEWORK_BYTES: usize = 1 << 10;

/// What the link to one stored result may take in the reply.
pub const LINK_BYTES: usize = 288;

/// The payload one copy (text block or structured object) may take of a content limit that counts both.
pub fn payload_bytes(content_bytes: usize) -> usize {
    content_bytes.saturating_sub(FRAMEWORK_BYTES) / 2
}

/// What the sinks of one call have in common.
#[derive(Clone)]
pub struct Sinks {
    /// Every credential value this process has seen.
    pub redactor: Arc<Redactor>,
    /// Counts what the call's sources produce.
    pub meter: Arc<Meter>,
    /// Where goes what does not fit.
    pub store: Arc<Store>,
    /// The tool that is called.
    pub tool: Arc<str>,
}

impl Sinks {
    /// For a call of `tool` that has produced nothing yet.
    pub fn new(redactor: Arc<Redactor>, store: Arc<Store>, tool: &str) -> Self {
        Sinks { redactor, meter: Arc::default(), store, tool: Arc::from(tool) }
    }

    /// A sink that keeps enough to show `keep` serialised bytes of `stream` (`stdout`, `stderr`, `body`).
    pub fn sink(&self, stream: &'static str, keep: usize) -> Sink {
        let kept = self.kept(stream, keep);
        Sink { redaction: self.redactor.stream(), meter: Arc::clone(&self.meter), kept, bytes: 0 }
    }

    /// What a sink would have kept of bytes that are redacted and counted already.
    pub fn keep(&self, stream: &'static str, keep: usize, bytes: &[u8]) -> Kept {
        let mut kept = self.kept(stream, keep);
        bytes.chunks(CHUNK_BYTES).for_each(|chunk| kept.push(chunk));
        kept
    }

    fn kept(&self, stream: &'static str, keep: usize) -> Kept {
        let spill = Spill::Not(Target { store: Arc::clone(&self.store), tool: Arc::clone(&self.tool), stream });
        Kept { head: Vec::new(), tail: VecDeque::new(), keep, stored: 0, spill }
    }
}

/// Takes a stream of bytes and keeps what a budget of `keep` serialised bytes can show of it.
pub struct Sink {
    redaction: Stream,
    meter: Arc<Meter>,
    kept: Kept,
    bytes: u64,
}

/// What a sink kept.
pub struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    keep: usize,
    stored: u64,
    spill: Spill,
}

/// A kept stream, cut to a budget and decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// All of it, or its beginning.
    pub head: String,
    /// Its end; empty unless something was left out.
    pub tail: String,
    /// Bytes the source produced.
    pub bytes: u64,
    /// Stored bytes that the head shows: where whoever reads on begins.
    pub head_bytes: u64,
    /// Stored bytes left out between head and tail.
    pub left_out: u64,
    /// Bytes shown that were not UTF-8; each stands as U+FFFD.
    pub not_utf8: u64,
}

impl Sink {
    /// Takes one chunk, at most 64 KiB so that the caller's loop looks at its cancel flag often enough.
    pub fn write(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        self.meter.count(chunk);
        let kept = &mut self.kept;
        self.redaction.push(chunk, &mut |clean| kept.push(clean));
    }

    /// Bytes the source produced so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all that was stored so far is still kept.
    pub fn is_whole(&self) -> bool {
        self.kept.is_whole()
    }

    /// Ends the stream.
    pub fn finish(mut self) -> (Kept, u64) {
        let kept = &mut self.kept;
        self.redaction.finish(&mut |clean| kept.push(clean));
        (self.kept, self.bytes)
    }
}

impl Kept {
    fn push(&mut self, clean: &[u8]) {
        self.stored += clean.len() as u64;
        if self.stored > 2 * self.keep as u64 {
            let (front, back) = self.tail.as_slices();
            self.spill.push([&self.head, front, back], clean);
        }
        let room = self.keep - self.head.len();
        let (first, rest) = clean.split_at(room.min(clean.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.keep)..];
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(self.keep);
        self.tail.drain(..over);
    }

    /// Whether everything that was stored is still here.
    pub fn is_whole(&self) -> bool {
        self.stored == (self.head.len() + self.tail.len()) as u64
    }

    /// The stored bytes, if all of them are here.
    pub fn whole(&self) -> Option<Vec<u8>> {
        let (front, back) = self.tail.as_slices();
        self.is_whole().then(|| [&self.head, front, back].concat())
    }

    /// All stored bytes, from memory or from where they were put; `None` if part of them is gone.
    pub fn load(&self) -> Option<Vec<u8>> {
        match &self.spill {
            Spill::To(draft) => draft.read_back().ok().flatten(),
            Spill::Not(_) | Spill::Failed(_) => self.whole(),
        }
    }

    /// Bytes stored, after redaction.
    pub fn stored_bytes(&self) -> u64 {
        self.stored
    }

    /// Makes a stored result of all of it, or as much as one takes; once. `Err`: why there is none.
    pub fn store(&mut self) -> Result<Stored, String> {
        let (front, back) = self.tail.as_slices();
        self.spill.begin([&self.head, front, back]);
        std::mem::replace(&mut self.spill, Spill::Failed("it was stored already".to_owned())).complete()
    }

    /// Serialised bytes that showing all of it would take; `usize::MAX` if part of it is gone.
    pub fn cost(&self) -> usize {
        self.whole().map_or(usize::MAX, |bytes| escaped_len(&String::from_utf8_lossy(&bytes)))
    }

    /// Cuts to `budget` serialised bytes: two thirds of it for the head, the rest for the tail.
    pub fn capture(&self, bytes: u64, budget: usize) -> Capture {
        if let Some(whole) = self.whole() {
            let (text, not_utf8) = decode(&whole);
            if escaped_len(&text) <= budget {
                let head_bytes = whole.len() as u64;
                return Capture { head: text, tail: String::new(), bytes, head_bytes, left_out: 0, not_utf8 };
            }
            let (head, tail) = (prefix(&whole, budget / 3 * 2), suffix(&whole, budget / 3));
            return self.cut(head, tail, bytes);
        }
        let (front, back) = self.tail.as_slices();
        let tail = [front, back].concat();
        self.cut(prefix(&self.head, budget / 3 * 2), suffix(&tail, budget / 3), bytes)
    }

    fn cut(&self, head: &[u8], tail: &[u8], bytes: u64) -> Capture {
        let (head_bytes, shown) = (head.len() as u64, (head.len() + tail.len()) as u64);
        let ((head, bad_head), (tail, bad_tail)) = (decode(head), decode(tail));
        Capture { head, tail, bytes, head_bytes, left_out: self.stored - shown, not_utf8: bad_head + bad_tail }
    }
}

impl Capture {
    /// Whether something was left out.
    pub fn is_cut(&self) -> bool {
        self.left_out > 0
    }

    /// Head, a mark that says how much is missing, tail.
    pub fn text(&self) -> String {
        if self.is_cut() {
            format!("{}\n[tidegate: {} bytes left out here]\n{}", self.head, self.left_out, self.tail)
        } else {
            self.head.clone()
        }
    }
}

/// Decodes, each byte that belongs to no UTF-8 sequence becoming one U+FFFD; says how many those were.
fn decode(bytes: &[u8]) -> (String, u64) {
    let (mut text, mut bad) = (String::with_capacity(bytes.len()), 0);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        bad += chunk.invalid().len() as u64;
        chunk.invalid().iter().for_each(|_| text.push(char::REPLACEMENT_CHARACTER));
    }
    (text, bad)
}

/// The longest beginning that takes at most `budget` serialised bytes and splits no UTF-8 sequence.
pub(in crate::outcome) fn prefix(bytes: &[u8], budget: usize) -> &[u8] {
    let (mut end, mut cost) = (0, 0);
    while let Some((length, taken)) = step(&bytes[end..]) {
        if cost + taken > budget {
            break;
        }
        (end, cost) = (end + length, cost + taken);
    }
    &bytes[..end]
}

/// The longest end that takes at most `budget` serialised bytes and splits no UTF-8 sequence.
fn suffix(bytes: &[u8], budget: usize) -> &[u8] {
    let from = bytes.len().saturating_sub(budget);
    let mut start = from + bytes[from..].iter().take(3).take_while(|byte| is_continuation(**byte)).count();
    let mut cost: usize = 0;
    let mut at = start;
    while let Some((length, taken)) = step(&bytes[at..]) {
        (at, cost) = (at + length, cost + taken);
    }
    while cost > budget {
        let Some((length, taken)) = step(&bytes[start..]) else { break };
        (start, cost) = (start + length, cost - taken);
    }
    &bytes[start..]
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The next character (or undecodable byte): its length and what it takes serialised. `None` at the end.
fn step(bytes: &[u8]) -> Option<(usize, usize)> {
    let length = match bytes.first()? {
        0x00..=0x7F => 1,
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 0,
    };
    match bytes.get(..length).and_then(|sequence| std::str::from_utf8(sequence).ok()).filter(|text| !text.is_empty()) {
        Some(text) => Some((length, escaped_len(text))),
        None => Some((1, char::REPLACEMENT_CHARACTER.len_utf8())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::testing;

    fn captured(input: &[u8], keep: usize, budget: usize, chunk: usize) -> Capture {
        let mut sink = testing::sinks().sink("stdout", keep);
        input.chunks(chunk).for_each(|chunk| sink.write(chunk));
        let (kept, bytes) = sink.finish();
        kept.capture(bytes, budget)
    }

    #[track_caller]
    fn check_budget(input: &[u8], budget: usize) {
        let whole = captured(input, budget, budget, input.len().max(1));
        for chunk in [1, 7, 64] {
            assert_eq!(captured(input, budget, budget, chunk), whole, "chunks of {chunk}");
        }
        assert!(escaped_len(&whole.head) + escaped_len(&whole.tail) <= budget);
        assert_eq!(whole.bytes, input.len() as u64);
        let text = String::from_utf8_lossy(input);
        if !whole.is_cut() {
            assert_eq!(whole.head, text);
        }
    }

    #[test]
    fn every_shape_of_payload_stays_within_every_budget() {
        let shapes: [Vec<u8>; 5] = [
            b"plain text without a break ".repeat(40),
            "mehrbytig \u{2014} \u{1F389} ".repeat(40).into_bytes(),
            vec![0; 500],
            b"\"\\\n".repeat(200),
            (0..=255).cycle().take(1000).collect(),
        ];
        for shape in &shapes {
            for budget in [6, 60, 100, 299, 300, 301, 5000] {
                check_budget(shape, budget);
            }
        }
    }

    #[test]
    fn at_the_budget_nothing_is_cut_and_one_past_it_something_is() {
        for (length, cut) in [(299, false), (300, false), (301, true)] {
            let capture = captured(&vec![b'x'; length], 300, 300, 64);
            assert_eq!(capture.is_cut(), cut, "{length}");
        }
    }

    #[test]
    fn a_cut_keeps_both_ends_and_counts_the_middle() {
        let input: Vec<u8> = (0..1000).flat_map(|number| format!("{number:04}\n").into_bytes()).collect();
        let capture = captured(&input, 300, 300, 64);
        assert!(capture.head.starts_with("0000\n0001\n"));
        assert!(capture.tail.ends_with("0999\n"));
        assert_eq!(capture.left_out + (capture.head.len() + capture.tail.len()) as u64, 5000);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        for pad in 0..4 {
            let input = ["x".repeat(pad), "\u{1F389}".repeat(400)].concat();
            let capture = captured(input.as_bytes(), 301, 301, 5);
            assert!(capture.is_cut());
            assert_eq!(capture.not_utf8, 0, "pad {pad}");
            assert!(!capture.text().contains(char::REPLACEMENT_CHARACTER));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_counted() {
        let capture = captured(b"a\xff\xfeb", 300, 300, 1);
        assert_eq!((capture.head.as_str(), capture.not_utf8), ("a\u{fffd}\u{fffd}b", 2));
    }
}
