//! Bounded lines: the only way from bytes to a `Frame`.
//!
//! A line is the bytes up to 0x0A, found in bytes and decoded once, so no read boundary can damage a character. It never
//! holds more than the limit and one read, never looks at a byte twice in search of the line feed, and never gives out
//! the text of a line that was too long, not UTF-8, or cut off by the end of the stream. A long line is handed over as it
//! lies, so that whoever needs a part of it later keeps it and copies nothing.
//! Forgiven: one CR before the LF, and lines of JSON white space only. Pure: the caller reads, this file only keeps.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use memchr::memchr;

use crate::limits::READ_BYTES;

/// A longer line is handed over with the buffer it lies in.
const LONG_BYTES: usize = READ_BYTES;

/// One line: valid UTF-8, at most the limit, not blank, without its line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    text: Text<'a>,
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Text<'a> {
    Lent(&'a str),
    Whole(Arc<String>),
}

impl Frame<'_> {
    /// The line without LF and without one CR before it.
    pub fn text(&self) -> &str {
        match &self.text {
            Text::Lent(text) => text,
            Text::Whole(text) => text,
        }
    }

    /// The same of a long line, to be kept; `None` for one that is cheaper to copy from.
    pub fn whole(&self) -> Option<&Arc<String>> {
        match &self.text {
            Text::Lent(_) => None,
            Text::Whole(text) => Some(text),
        }
    }

    /// Bytes the line took before its LF, a forgiven CR included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Why a line gave no frame. Nothing of the line's content is in here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// More bytes than the limit before the LF; told once, when the line's end was found.
    TooLong {
        /// The limit in bytes.
        limit: usize,
        /// Bytes the line had, all but the kept part already thrown away.
        seen: usize,
    },
    /// Not UTF-8.
    NotUtf8 {
        /// Offset of the first bad byte in the line.
        at: usize,
    },
    /// The stream ended after bytes that no LF closed; never executed, even if they are complete JSON.
    Unterminated {
        /// Bytes after the last LF.
        bytes: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLong { limit, seen } => {
                write!(f, "expected a line of at most {limit} bytes, got {seen}")
            }
            FrameError::NotUtf8 { at } => {
                write!(f, "expected UTF-8, got an invalid byte at offset {at}")
            }
            FrameError::Unterminated { bytes } => {
                write!(f, "expected a line feed, got the end of the stream after {bytes} bytes")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// The line reader. Read into `spare`, say `filled`, take `next_frame` until it is `None`; at end of stream `finish`.
#[derive(Debug)]
pub struct Lines {
    /// Zeroed storage; `start..end` holds bytes not yet given out.
    buffer: Vec<u8>,
    start: usize,
    /// Everything in `start..scanned` is known to hold no LF.
    scanned: usize,
    end: usize,
    limit: usize,
    /// While a line over the limit is thrown away: how many of its bytes have gone.
    discarded: Option<usize>,
    /// Where the line lies that was spoken of last.
    last: Range<usize>,
    /// That line, if it was a long one that is not UTF-8.
    last_long: Vec<u8>,
}

enum Found {
    Line(Range<usize>),
    TooLong { seen: usize },
}

impl Lines {
    /// A reader whose lines have at most `limit` bytes before their LF (a CR counts).
    pub fn new(limit: usize) -> Lines {
        Lines { buffer: Vec::new(), start: 0, scanned: 0, end: 0, limit, discarded: None, last: 0..0, last_long: Vec::new() }
    }

    /// Room for the next read, at least 64 KiB. Call it only after `next_frame` returned `None`: then at most
    /// limit + one read is held.
    pub fn spare(&mut self) -> &mut [u8] {
        self.compact();
        let needed = self.end + READ_BYTES;
        if needed > self.buffer.len() {
            let doubled = (2 * self.buffer.len()).min(self.limit.saturating_add(READ_BYTES));
            let target = needed.max(doubled);
            self.buffer.reserve_exact(target - self.buffer.len());
            self.buffer.resize(target, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// The first `n` bytes of the last `spare` now hold input.
    ///
    /// # Panics
    /// If `n` is more than `spare` offered.
    pub fn filled(&mut self, n: usize) {
        assert!(n <= self.buffer.len() - self.end, "filled more than spare offered");
        self.end += n;
    }

    /// The next complete line, or why it gave no frame; `None` when more input is needed. Blank lines are skipped.
    pub fn next_frame(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        loop {
            let line = match self.next_line()? {
                Found::TooLong { seen } => {
                    let limit = self.limit;
                    return Some(Err(FrameError::TooLong { limit, seen }));
                }
                Found::Line(range) if is_blank(&self.buffer[range.clone()]) => continue,
                Found::Line(range) if self.is_worth_a_buffer(&range) => return Some(self.hand_over(range)),
                Found::Line(range) => &self.buffer[range],
            };
            let body = line.strip_suffix(b"\r").unwrap_or(line);
            let bytes = line.len();
            return Some(match std::str::from_utf8(body) {
                Ok(text) => Ok(Frame { text: Text::Lent(text), bytes }),
                Err(error) => Err(FrameError::NotUtf8 { at: error.valid_up_to() }),
            });
        }
    }

    /// What lies behind the line is copied, so that it never is more than the line itself.
    fn is_worth_a_buffer(&self, line: &Range<usize>) -> bool {
        line.len() > LONG_BYTES && line.len() >= self.end - self.start
    }

    /// A long line goes with its buffer; what was read behind it begins another.
    fn hand_over(&mut self, range: Range<usize>) -> Result<Frame<'static>, FrameError> {
        let bytes = range.len();
        let rest = self.buffer[self.start..self.end].to_vec();
        (self.start, self.scanned, self.end, self.last) = (0, 0, rest.len(), 0..0);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.truncate(range.end);
        line.drain(..range.start);
        // Admission counts the line, not what its buffer grew to.
        line.shrink_to_fit();
        match String::from_utf8(line) {
            Ok(mut text) => {
                if text.ends_with('\r') {
                    text.pop();
                }
                Ok(Frame { text: Text::Whole(Arc::new(text)), bytes })
            }
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                self.last_long = error.into_bytes();
                Err(FrameError::NotUtf8 { at })
            }
        }
    }

    /// At end of stream, after `next_frame` returned `None`: what an unfinished last line means. White space alone is
    /// as harmless there as on a line of its own.
    pub fn finish(&mut self) -> Option<FrameError> {
        let rest = self.start..self.end;
        self.last = rest.clone();
        self.start = self.end;
        self.scanned = self.end;
        match self.discarded.take() {
            Some(seen) => Some(FrameError::TooLong { limit: self.limit, seen: seen + rest.len() }),
            None if is_blank(&self.buffer[rest.clone()]) => None,
            None => Some(FrameError::Unterminated { bytes: rest.len() }),
        }
    }

    /// The bytes of the line that `next_frame` or `finish` refused last, to be fingerprinted and for nothing else; of a line
    /// over the limit only what was not thrown away. Gone with the next line or `spare`.
    pub fn last(&self) -> &[u8] {
        if self.last_long.is_empty() { &self.buffer[self.last.clone()] } else { &self.last_long }
    }

    /// The line that has begun and not ended, as far as it was read; empty while one over the limit is thrown away.
    pub fn unfinished(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Bytes of the line that has begun and not ended, those thrown away included; 0 between lines.
    pub fn unfinished_bytes(&self) -> usize {
        self.discarded.unwrap_or(0) + (self.end - self.start)
    }

    fn next_line(&mut self) -> Option<Found> {
        let Some(at) = memchr(b'\n', &self.buffer[self.scanned..self.end]) else {
            self.keep_or_discard();
            return None;
        };
        let line = self.start..self.scanned + at;
        self.last = line.clone();
        self.last_long = Vec::new();
        self.start = line.end + 1;
        self.scanned = self.start;
        let seen = self.discarded.take().unwrap_or(0) + line.len();
        Some(if seen > self.limit { Found::TooLong { seen } } else { Found::Line(line) })
    }

    /// No LF in sight: remembers how far was looked, and throws away what is over the limit.
    fn keep_or_discard(&mut self) {
        self.scanned = self.end;
        let seen = self.unfinished_bytes();
        if seen > self.limit {
            self.discarded = Some(seen);
            self.start = self.end;
        }
    }

    /// Moves the unfinished line to the front, once a line, and gives back what one over the limit had needed.
    fn compact(&mut self) {
        self.last = 0..0;
        self.last_long = Vec::new();
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.scanned -= self.start;
            self.start = 0;
        }
        if self.buffer.len() > 4 * READ_BYTES && self.end <= READ_BYTES {
            self.buffer.truncate(2 * READ_BYTES);
            self.buffer.shrink_to_fit();
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader made of the input: texts in quotes, errors by their Debug form.
    fn read(limit: usize, chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::new(limit);
        let mut out = Vec::new();
        for chunk in chunks {
            for part in chunk.chunks(READ_BYTES) {
                lines.spare()[..part.len()].copy_from_slice(part);
                lines.filled(part.len());
                drain(&mut lines, &mut out);
                assert!(lines.end - lines.start <= limit, "holds more than the limit");
            }
        }
        out.extend(lines.finish().map(|error| format!("{error:?}")));
        out
    }

    fn drain(lines: &mut Lines, out: &mut Vec<String>) {
        while let Some(item) = lines.next_frame() {
            out.push(match item {
                Ok(frame) => format!("{:?}", frame.text()),
                Err(error) => format!("{error:?}"),
            });
        }
    }

    #[track_caller]
    fn check_lines(limit: usize, input: &[u8], expected: &[&str]) {
        assert_eq!(read(limit, &[input]), expected, "in one piece");
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(read(limit, &bytes), expected, "byte by byte");
    }

    #[test]
    fn blank_lines_are_skipped_r006() {
        check_lines(99, b"   \r\n\n \t\n{\"a\":1}\n\n\r\n", &[r#""{\"a\":1}""#]);
        check_lines(99, b"", &[]);
    }

    #[test]
    fn only_json_white_space_makes_a_line_blank() {
        check_lines(99, b"\x0b\n\x0c\n\xc2\xa0\n", &[r#""\u{b}""#, r#""\u{c}""#, r#""\u{a0}""#]);
    }

    #[test]
    fn cr_before_lf_is_forgiven_r007() {
        check_lines(99, b"{}\r\n", &[r#""{}""#]);
        check_lines(99, b"{}\r\r\n", &[r#""{}\r""#]);
    }

    #[test]
    fn a_bad_byte_costs_its_own_line_alone_r010() {
        check_lines(99, b"\xff\xfe\n{\"x\":\"\xff\"}\n{}\n", &["NotUtf8 { at: 0 }", "NotUtf8 { at: 6 }", r#""{}""#]);
        check_lines(99, b"\xef\xbb\xbf{}\n", &[r#""\u{feff}{}""#]);
    }

    #[test]
    fn unicode_separators_are_no_line_ends_r013() {
        let line = "left\u{2028}right\u{2029}end\u{85}x";
        check_lines(99, format!("{line}\n").as_bytes(), &[&format!("{line:?}")]);
    }

    #[test]
    fn an_unterminated_last_line_is_never_a_frame_r023() {
        check_lines(99, b"{}\n{\"a\":1}", &[r#""{}""#, "Unterminated { bytes: 7 }"]);
        check_lines(99, b"{}\n \r", &[r#""{}""#]);
    }

    #[test]
    fn a_message_over_several_lines_is_several_lines_r017() {
        check_lines(99, b"{\n  \"a\": 1\n}\n", &[r#""{""#, r#""  \"a\": 1""#, r#""}""#]);
    }

    #[test]
    fn limit_counts_every_byte_before_the_lf() {
        check_lines(4, b"1234\n", &[r#""1234""#]);
        check_lines(4, b"123\r\n", &[r#""123""#]);
        check_lines(4, b"12345\n{}\n", &["TooLong { limit: 4, seen: 5 }", r#""{}""#]);
        check_lines(4, b"1234\r\n", &["TooLong { limit: 4, seen: 5 }"]);
        check_lines(4, b"123456", &["TooLong { limit: 4, seen: 6 }"]);
        check_lines(4, b"      \n", &["TooLong { limit: 4, seen: 6 }"]);
    }

    #[test]
    fn a_refused_line_can_be_fingerprinted_until_the_next_read() {
        let mut lines = Lines::new(9);
        lines.spare()[..9].copy_from_slice(b"{}\n\xff\xfe\n{\"a");
        lines.filled(9);
        let mut seen = Vec::new();
        while lines.next_frame().is_some() {
            seen.push(lines.last().to_vec());
        }
        lines.spare();
        assert_eq!(lines.last(), b"");
        assert!(lines.finish().is_some());
        seen.push(lines.last().to_vec());
        assert_eq!(seen, [&b"{}"[..], b"\xff\xfe", b"{\"a"]);
    }

    #[test]
    fn endless_line_is_counted_and_thrown_away_r015() {
        let mut lines = Lines::new(100_000);
        for _ in 0..200 {
            let room = lines.spare();
            assert!(room.len() >= READ_BYTES);
            room[..READ_BYTES].fill(b'A');
            lines.filled(READ_BYTES);
            assert!(lines.next_frame().is_none());
            assert!(lines.buffer.capacity() <= 100_000 + READ_BYTES);
        }
        assert_eq!(lines.unfinished_bytes(), 200 * READ_BYTES);
        let seen = 200 * READ_BYTES;
        assert_eq!(lines.finish(), Some(FrameError::TooLong { limit: 100_000, seen }));
        assert_eq!(lines.finish(), None);
    }

    #[test]
    fn every_split_gives_the_same_frames_r009() {
        let input = "{\"s\":\"a\u{2014}\u{1f389}b\"}\r\n\n\u{e9}\u{1f389}\u{1f389}\u{1f389}\u{1f389}\n{}\nrest\u{2014}";
        let whole = read(24, &[input.as_bytes()]);
        assert_eq!(whole.len(), 4, "{whole:?}");
        for first in 0..=input.len() {
            for second in first..=input.len() {
                let (a, rest) = input.as_bytes().split_at(first);
                let (b, c) = rest.split_at(second - first);
                assert_eq!(read(24, &[a, b, c]), whole, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn character_across_a_full_read_survives_r009() {
        for shift in 0..4 {
            let text = format!("{}\u{1f389}", "x".repeat(READ_BYTES - shift));
            assert_eq!(read(1 << 20, &[format!("{text}\n").as_bytes()]), [format!("{text:?}")]);
        }
    }

    /// All of it is in the buffer before the first line is taken.
    fn read_at_once(input: &[u8]) -> Lines {
        let mut lines = Lines::new(4 << 20);
        for part in input.chunks(READ_BYTES) {
            lines.spare()[..part.len()].copy_from_slice(part);
            lines.filled(part.len());
        }
        lines
    }

    #[test]
    fn a_long_line_is_handed_over_and_what_follows_stays() {
        for (before, line_bytes, is_whole) in
            [("", LONG_BYTES, false), ("", LONG_BYTES + 1, true), ("{}\n", LONG_BYTES + 1, true)]
        {
            let input = format!("{before}{}\u{1f389}\r\n{{\"a\":1}}\nrest", "x".repeat(line_bytes - 5));
            let mut lines = read_at_once(input.as_bytes());
            if !before.is_empty() {
                assert_eq!(lines.next_frame().unwrap().unwrap().text(), "{}");
            }
            let frame = lines.next_frame().unwrap().unwrap();
            assert_eq!((frame.bytes(), frame.whole().is_some()), (line_bytes, is_whole));
            assert!(frame.text().ends_with("x\u{1f389}"));
            if let Some(whole) = frame.whole() {
                assert!(whole.capacity() <= line_bytes, "admission counts no more than the line");
            }
            assert_eq!(lines.next_frame().unwrap().unwrap().text(), "{\"a\":1}");
            assert!(lines.next_frame().is_none());
            assert_eq!(lines.unfinished(), b"rest");
            lines.spare()[..2].copy_from_slice(b"!\n");
            lines.filled(2);
            assert_eq!(lines.next_frame().unwrap().unwrap().text(), "rest!");
        }
    }

    #[test]
    fn a_long_line_with_more_behind_it_than_itself_stays_where_it_is() {
        let line = "x".repeat(LONG_BYTES + 1);
        let mut lines = read_at_once(format!("{line}\n{line}\n{line}\n").as_bytes());
        let is_whole = [(); 3].map(|()| lines.next_frame().unwrap().unwrap().whole().is_some());
        assert_eq!(is_whole, [false, false, true]);
    }

    #[test]
    fn a_long_line_that_is_not_utf8_can_be_fingerprinted() {
        let mut bad = vec![b'x'; LONG_BYTES + 1];
        bad[LONG_BYTES - 1] = 0xff;
        let mut lines = read_at_once(&[&bad[..], b"\n{}\n\xff\n"].concat());
        assert_eq!(lines.next_frame(), Some(Err(FrameError::NotUtf8 { at: LONG_BYTES - 1 })));
        assert_eq!(lines.last(), bad);
        assert_eq!(lines.next_frame().unwrap().unwrap().text(), "{}");
        assert_eq!(lines.next_frame(), Some(Err(FrameError::NotUtf8 { at: 0 })));
        assert_eq!(lines.last(), b"\xff");
    }

    #[test]
    fn large_line_gives_its_room_back() {
        let mut lines = Lines::new(4 << 20);
        let line = [vec![b'x'; 4 << 20], vec![b'\n']].concat();
        for part in line.chunks(READ_BYTES) {
            lines.spare()[..part.len()].copy_from_slice(part);
            lines.filled(part.len());
        }
        assert_eq!(lines.next_frame().map(|f| f.map(|f| f.bytes())), Some(Ok(4 << 20)));
        lines.spare();
        assert!(lines.buffer.capacity() <= 4 * READ_BYTES);
    }

    #[test]
    fn a_megabyte_byte_by_byte_is_looked_at_once() {
        let mut lines = Lines::new(4 << 20);
        for n in 1..=1 << 20 {
            lines.spare()[0] = b'x';
            lines.filled(1);
            assert!(lines.next_frame().is_none());
            assert_eq!(lines.scanned, n, "the next search begins where this one ended");
        }
        assert_eq!(lines.finish(), Some(FrameError::Unterminated { bytes: 1 << 20 }));
    }
}
