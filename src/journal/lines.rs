//! Lines of a file, one at a time, with number and hash: memory is bounded whatever the file holds.

use std::io::{self, BufRead};

use crate::journal::chain::{Hash, Hasher};
use crate::limits::JOURNAL_LINE_BYTES;

/// Reads lines.
pub struct Lines<R> {
    source: R,
    number: u64,
    text: Vec<u8>,
}

/// One line, without its line feed.
#[derive(Debug)]
pub struct RawLine<'a> {
    /// From 1.
    pub number: u64,
    /// Of all its bytes.
    pub hash: Hash,
    /// Its bytes; `None` for more than a journal's line may have.
    pub text: Option<&'a [u8]>,
    /// How many bytes it took, line feed included.
    pub length: u64,
    /// Whether its line feed was there: only the last line can lack it.
    pub is_terminated: bool,
}

impl<R: BufRead> Lines<R> {
    /// Of what `source` yields.
    pub fn new(source: R) -> Self {
        Lines { source, number: 0, text: Vec::new() }
    }

    /// The next line; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "a line borrows the reader")]
    pub fn next(&mut self) -> io::Result<Option<RawLine<'_>>> {
        self.text.clear();
        let (mut hasher, mut length, mut is_terminated) = (Hasher::new(), 0_u64, false);
        while !is_terminated {
            let read = match self.source.fill_buf() {
                Ok([]) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = memchr::memchr(b'\n', read);
            let part = &read[..end.unwrap_or(read.len())];
            hasher.update(part);
            // One byte over the limit is kept, so that a line at the limit is told from a longer one.
            let room = (JOURNAL_LINE_BYTES + 1).saturating_sub(self.text.len());
            self.text.extend_from_slice(&part[..part.len().min(room)]);
            is_terminated = end.is_some();
            let taken = part.len() + usize::from(is_terminated);
            length += taken as u64;
            self.source.consume(taken);
        }
        if length == 0 {
            return Ok(None);
        }
        self.number += 1;
        let text = (self.text.len() <= JOURNAL_LINE_BYTES).then_some(self.text.as_slice());
        Ok(Some(RawLine { number: self.number, hash: hasher.finish(), text, length, is_terminated }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    #[track_caller]
    fn check(bytes: &[u8], expected: &[(Option<&[u8]>, bool)]) {
        for capacity in [1, 7, 4096] {
            let mut lines = Lines::new(BufReader::with_capacity(capacity, bytes));
            let mut seen = 0;
            while let Some(line) = lines.next().unwrap() {
                let (text, is_terminated) = expected[seen];
                seen += 1;
                assert_eq!((line.number, line.text, line.is_terminated), (seen as u64, text, is_terminated));
                assert!(text.is_none_or(|text| line.hash == Hash::of(text)));
            }
            assert_eq!(seen, expected.len());
        }
    }

    #[test]
    fn lines_have_number_hash_and_end() {
        check(b"", &[]);
        check(b"a\n\nbc", &[(Some(b"a"), true), (Some(b""), true), (Some(b"bc"), false)]);
        check(b"a\r\n", &[(Some(b"a\r"), true)]);
    }

    #[test]
    fn a_line_at_the_limit_is_kept_and_a_longer_one_is_only_hashed() {
        let full = vec![b'x'; JOURNAL_LINE_BYTES];
        let longer = [&full[..], b"x"].concat();
        check(&[&full[..], b"\nb"].concat(), &[(Some(&full), true), (Some(b"b"), false)]);
        check(&[&longer[..], b"\nb\n"].concat(), &[(None, true), (Some(b"b"), true)]);
        let mut lines = Lines::new(&longer[..]);
        assert_eq!(lines.next().unwrap().unwrap().hash, Hash::of(&longer));
        assert!(lines.text.len() <= JOURNAL_LINE_BYTES + 1);
    }
}
