//! One pass over a JSON text of any size: where it stands, what it writes, and whether it was told to stop.
//!
//! serde_json reads and judges the text; this file follows it by one offset, so that the kind of the next value is known before it
//! is read and no container is ever taken as one piece. It keeps no elements or members: beside what is written, memory is a few
//! words a level. Nothing nested deeper than the limit is entered, so no text can use up the stack.
//!
//! The flag is looked at before every value, and for each 64 KiB of a large string written. The longest stretch without a look is
//! one string, number or run of white space, which serde_json reads in one go: 30 ms for 16 MiB of nothing but escapes, else less.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::value::RawValue;

use crate::limits::{CHUNK_BYTES, NESTING_LEVELS};
use crate::wire::escape::{compact, unit};

/// Why a pass over a JSON text ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The flag said so.
    Cancelled,
    /// The text is not one JSON value.
    NotJson,
    /// It nests deeper than `NESTING_LEVELS`.
    TooDeep,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stopped::Cancelled => f.write_str("cancelled while reading JSON"),
            Stopped::NotJson => f.write_str("expected one JSON value, got other text"),
            Stopped::TooDeep => write!(f, "expected JSON nested at most {NESTING_LEVELS} levels, got deeper"),
        }
    }
}

impl std::error::Error for Stopped {}

/// Whether JSON nests at most `levels` levels; strings are skipped. Any other text gets some answer.
///
/// # Errors
/// `Cancelled`; `cancelled` is asked for every 64 KiB.
pub fn is_shallow(json: &str, levels: usize, cancelled: &dyn Fn() -> bool) -> Result<bool, Stopped> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for chunk in json.as_bytes().chunks(CHUNK_BYTES) {
        if cancelled() {
            return Err(Stopped::Cancelled);
        }
        for byte in chunk {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = !in_string,
                b'[' | b'{' if !in_string => depth += 1,
                b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > levels {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// What the next value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Array,
    Object,
    Scalar,
}

/// A state of the output to go back to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    bytes: usize,
    replaced: usize,
}

/// The state of one pass.
pub(super) struct Walk<'d, 'o> {
    text: &'d str,
    /// All before it is read.
    at: usize,
    depth: usize,
    out: &'o mut String,
    /// `out` may not become longer.
    bytes_max: usize,
    is_full: bool,
    replaced: usize,
    cancelled: &'o dyn Fn() -> bool,
    stopped: Option<Stopped>,
}

impl<'d, 'o> Walk<'d, 'o> {
    pub(super) fn new(text: &'d str, out: &'o mut String, bytes_max: usize, cancelled: &'o dyn Fn() -> bool) -> Self {
        Walk { text, at: 0, depth: 0, out, bytes_max, is_full: false, replaced: 0, cancelled, stopped: None }
    }

    /// Runs `read` over the text and sees to it that nothing follows.
    pub(super) fn run<T>(
        &mut self,
        read: impl FnOnce(&mut Self, &mut serde_json::Deserializer<serde_json::de::StrRead<'d>>) -> serde_json::Result<T>,
    ) -> Result<T, Stopped> {
        let mut deserializer = serde_json::Deserializer::from_str(self.text);
        let result = read(self, &mut deserializer).and_then(|done| deserializer.end().map(|()| done));
        result.map_err(|_| self.stopped.unwrap_or(Stopped::NotJson))
    }

    /// Goes to where the next value or name begins; returns its offset.
    pub(super) fn seek(&mut self) -> usize {
        // Between two tokens that are no values and no closing brackets, valid JSON has nothing else.
        let between = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':');
        self.at += self.text.as_bytes()[self.at..].iter().take_while(between).count();
        self.at
    }

    /// What comes next. A wrong guess over invalid text is found by the parser, which is asked for exactly this kind.
    pub(super) fn kind(&mut self) -> Kind {
        let at = self.seek();
        match self.text.as_bytes().get(at) {
            Some(b'[') => Kind::Array,
            Some(b'{') => Kind::Object,
            _ => Kind::Scalar,
        }
    }

    pub(super) fn look<E: Error>(&mut self) -> Result<(), E> {
        if (self.cancelled)() { Err(self.stop(Stopped::Cancelled)) } else { Ok(()) }
    }

    fn stop<E: Error>(&mut self, why: Stopped) -> E {
        self.stopped = Some(why);
        E::custom(why)
    }

    /// Enters a container that `kind` has seen.
    pub(super) fn open<E: Error>(&mut self) -> Result<(), E> {
        self.depth += 1;
        self.at += 1;
        if self.depth > NESTING_LEVELS { Err(self.stop(Stopped::TooDeep)) } else { Ok(()) }
    }

    /// Leaves it, all of it read.
    pub(super) fn close(&mut self) {
        self.depth -= 1;
        self.at = self.seek() + 1;
    }

    /// Reads a scalar as it is written.
    pub(super) fn scalar<D: Deserializer<'d>>(&mut self, deserializer: D) -> Result<&'d str, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(self.pass(raw))
    }

    /// Goes behind `raw`, which the parser has just read.
    pub(super) fn pass(&mut self, raw: &'d RawValue) -> &'d str {
        self.at = self.seek() + raw.get().len();
        raw.get()
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { bytes: self.out.len(), replaced: self.replaced }
    }

    /// Takes back what was written since.
    pub(super) fn rewind(&mut self, to: Mark) {
        self.out.truncate(to.bytes);
        self.replaced = to.replaced;
    }

    /// What was written since.
    pub(super) fn since(&self, mark: Mark) -> &str {
        &self.out[mark.bytes..]
    }

    /// Whether something did not fit; from there on nothing was written.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Halves of surrogate pairs replaced in what is written.
    pub(super) fn replaced(&self) -> usize {
        self.replaced
    }

    pub(super) fn push(&mut self, text: &str) {
        self.is_full |= self.out.len() + text.len() > self.bytes_max;
        if !self.is_full {
            self.out.push_str(text);
        }
    }

    /// Writes a scalar or name, which may be as large as the document, compact.
    pub(super) fn push_scalar<E: Error>(&mut self, raw: &str) -> Result<(), E> {
        let Some(mut inside) = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
            self.push(raw);
            return Ok(());
        };
        if raw.len() <= CHUNK_BYTES {
            self.push_compact(|out| compact(raw, out));
            return Ok(());
        }
        self.push("\"");
        while !inside.is_empty() && !self.is_full {
            self.look()?;
            let (piece, rest) = inside.split_at(piece_len(inside));
            self.push_compact(|out| {
                let begin = out.len();
                let replaced = compact(&format!("\"{piece}\""), out);
                out.pop();
                out.remove(begin);
                replaced
            });
            inside = rest;
        }
        self.push("\"");
        Ok(())
    }

    /// `write` appends at most a few times 64 KiB and returns how many halves of surrogate pairs it replaced.
    fn push_compact(&mut self, write: impl FnOnce(&mut String) -> usize) {
        if self.is_full {
            return;
        }
        let begin = self.out.len();
        self.replaced += write(self.out);
        if self.out.len() > self.bytes_max {
            self.out.truncate(begin);
            self.is_full = true;
        }
    }
}

/// The length of a first piece of the inside of a string, near 64 KiB; no character, escape or surrogate pair is divided.
fn piece_len(inside: &str) -> usize {
    let bytes = &inside.as_bytes()[..inside.len().min(CHUNK_BYTES)];
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += found;
        at += escape_len(&inside[at..]);
    }
    at.max(inside.floor_char_boundary(CHUNK_BYTES)).min(inside.len())
}

/// The length of the escape, or surrogate pair of two, that `text` begins with.
fn escape_len(text: &str) -> usize {
    match unit(text) {
        None => 2,
        Some(0xd800..=0xdbff) if matches!(text.get(6..).and_then(unit), Some(0xdc00..=0xdfff)) => 12,
        Some(_) => 6,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[track_caller]
    fn check_shallow(json: &str, levels: usize, expected: bool) {
        assert_eq!(is_shallow(json, levels, &|| false), Ok(expected), "{levels} levels: {json:.80}");
    }

    #[test]
    fn levels_are_counted_outside_strings() {
        check_shallow("1", 0, true);
        check_shallow("[]", 0, false);
        check_shallow("[[],{},[[1]]]", 3, true);
        check_shallow("[[],{},[[1]]]", 2, false);
        check_shallow(r#"["[[\"[[\\",{"{{":"}]"}]"#, 2, true);
        check_shallow(r#"["\\",[[]]]"#, 2, false);
        check_shallow("]]][", 1, true);
        let deep = "[".repeat(CHUNK_BYTES - 1) + "\"]" + &" ".repeat(CHUNK_BYTES) + "[\"[";
        check_shallow(&deep, CHUNK_BYTES, true);
        check_shallow(&deep, CHUNK_BYTES - 1, false);
    }

    #[test]
    fn a_cancel_ends_the_count_within_64_kib() {
        let json = "1".repeat(10 * CHUNK_BYTES);
        for stop_at in 0..10 {
            let looks = Cell::new(0);
            let cancelled = || looks.replace(looks.get() + 1) == stop_at;
            assert_eq!(is_shallow(&json, 1, &cancelled), Err(Stopped::Cancelled));
            assert_eq!(looks.get(), stop_at + 1);
        }
    }

    /// A string with `inside`, written in pieces, has to be what it is in one piece.
    #[track_caller]
    fn check_pieces(inside: &str) {
        let raw = format!("\"{inside}\"");
        let (mut expected, mut out, looks) = (String::new(), String::new(), Cell::new(0));
        let replaced = compact(&raw, &mut expected);
        let count = || {
            looks.set(looks.get() + 1);
            false
        };
        let mut walk = Walk::new(&raw, &mut out, usize::MAX, &count);
        walk.push_scalar::<serde_json::Error>(&raw).unwrap();
        assert_eq!(walk.replaced(), replaced);
        assert!(out == expected, "{:.80}", inside.trim_start_matches('x'));
        assert!(looks.get() > (inside.len() - 1) / (CHUNK_BYTES + 12), "{} looks for {} bytes", looks.get(), inside.len());
    }

    #[test]
    fn a_large_string_is_written_in_pieces_that_divide_nothing() {
        let units = [
            r"\n",
            r"\\",
            r"\u00e9",
            r"\ud83c\udf89",
            r"\ud83c\ud83c\udf89",
            r"\udf89\ud83c",
            "\u{e9}",
            "\u{1f389}",
            "\u{85} ",
        ];
        for unit in units {
            for before in CHUNK_BYTES - 20..CHUNK_BYTES + 2 {
                check_pieces(&("x".repeat(before) + unit + unit + &"y".repeat(100)));
            }
            check_pieces(&unit.repeat(3 * CHUNK_BYTES / unit.len()));
        }
    }

    #[test]
    fn from_what_does_not_fit_on_nothing_is_written() {
        let large = format!("\"{}\"", "x".repeat(3 * CHUNK_BYTES));
        for (bytes_max, raw, expected) in [
            (1, "\"x\"", "a"),
            (4, "\"x\"", "a["),
            (5, "\"x\"", "a[\"x\""),
            (6, "\"x\"", "a[\"x\"]"),
            (4, "123", "a["),
            (CHUNK_BYTES, &large, "a[\""),
        ] {
            let mut out = String::from("a");
            let mut walk = Walk::new("", &mut out, bytes_max, &|| false);
            walk.push("[");
            walk.push_scalar::<serde_json::Error>(raw).unwrap();
            walk.push("]");
            let is_full = walk.is_full();
            assert_eq!((out.as_str(), is_full), (expected, !expected.ends_with(']')), "{bytes_max}");
        }
    }
}
