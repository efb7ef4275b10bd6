//! One character of somebody's output, as it was before percent-encoding or JSON escaping.
//!
//! Pure and without memory: it looks at the first bytes it is given and says what they stand for, or that more are needed to tell.
//! It never reads on past one character, and never decodes twice: `%2525` is `%25`, not `%`.

/// What a sequence that begins with `%` or `\` stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// The bytes of one character.
    Character(Character),
    /// So far the beginning of an escape; the input ends too early to tell which.
    Unfinished,
    /// No escape: the first byte stands for itself.
    Nothing,
}

/// The bytes of one character, one to four of them, and how many input bytes it took to write them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Character {
    buffer: [u8; 4],
    count: usize,
    pub(super) taken: usize,
}

impl Character {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.count]
    }

    fn byte(value: u8, taken: usize) -> Escape {
        Escape::Character(Character { buffer: [value, 0, 0, 0], count: 1, taken })
    }

    fn scalar(code: u32, taken: usize) -> Escape {
        let Some(char) = char::from_u32(code) else { return Escape::Nothing };
        let mut buffer = [0; 4];
        let count = char.encode_utf8(&mut buffer).len();
        Escape::Character(Character { buffer, count, taken })
    }
}

/// Whether a byte can begin an escape.
#[inline]
pub(super) fn begins_escape(byte: u8) -> bool {
    byte == b'%' || byte == b'\\'
}

/// Reads the escape at the start of `input`: RFC 3986 section 2.1, RFC 8259 section 7.
#[inline]
pub(super) fn escape(input: &[u8]) -> Escape {
    match input.first() {
        Some(b'%') => match digits(input, 1, 2) {
            Digits::Value(value) => Character::byte(value.to_le_bytes()[0], 3),
            Digits::Unfinished => Escape::Unfinished,
            Digits::No => Escape::Nothing,
        },
        Some(b'\\') => json_escape(input),
        _ => Escape::Nothing,
    }
}

fn json_escape(input: &[u8]) -> Escape {
    let Some(&letter) = input.get(1) else { return Escape::Unfinished };
    match letter {
        b'"' | b'\\' | b'/' => Character::byte(letter, 2),
        b'b' => Character::byte(0x08, 2),
        b'f' => Character::byte(0x0C, 2),
        b'n' => Character::byte(b'\n', 2),
        b'r' => Character::byte(b'\r', 2),
        b't' => Character::byte(b'\t', 2),
        b'u' => match digits(input, 2, 4) {
            Digits::Value(high @ 0xD800..=0xDBFF) => second_surrogate(input, high),
            Digits::Value(code) => Character::scalar(code, 6),
            Digits::Unfinished => Escape::Unfinished,
            Digits::No => Escape::Nothing,
        },
        _ => Escape::Nothing,
    }
}

fn second_surrogate(input: &[u8], high: u32) -> Escape {
    let lead = &input[6..input.len().min(8)];
    if !b"\\u".starts_with(lead) {
        return Escape::Nothing;
    }
    match digits(input, 8, 4) {
        Digits::Value(low @ 0xDC00..=0xDFFF) => Character::scalar(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), 12),
        Digits::Unfinished => Escape::Unfinished,
        Digits::Value(_) | Digits::No => Escape::Nothing,
    }
}

enum Digits {
    Value(u32),
    Unfinished,
    No,
}

/// `count` hexadecimal digits from `at` on.
#[inline]
fn digits(input: &[u8], at: usize, count: usize) -> Digits {
    let mut value = 0;
    for offset in at..at + count {
        let Some(&byte) = input.get(offset) else { return Digits::Unfinished };
        let Some(digit) = hex_digit(byte) else { return Digits::No };
        value = value << 4 | u32::from(digit);
    }
    Digits::Value(value)
}

/// The value of a hexadecimal digit of either case.
#[inline]
pub(super) fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_read(input: &str, bytes: &[u8], taken: usize) {
        let Escape::Character(read) = escape(input.as_bytes()) else { panic!("{input:?} is no escape") };
        assert_eq!((read.bytes(), read.taken), (bytes, taken), "{input:?}");
        for cut in 1..taken {
            assert_eq!(escape(&input.as_bytes()[..cut]), Escape::Unfinished, "{input:?} cut at {cut}");
        }
    }

    #[test]
    fn escapes_are_read_and_wait_when_cut() {
        check_read("%41b", b"A", 3);
        check_read("%fF", &[0xFF], 3);
        check_read("%2525", b"%", 3);
        check_read("\\n", b"\n", 2);
        check_read("\\\\n", b"\\", 2);
        check_read("\\/", b"/", 2);
        check_read("\\u0041", b"A", 6);
        check_read("\\u20aC.", "€".as_bytes(), 6);
        check_read("\\ud83d\\uDe00", "😀".as_bytes(), 12);
    }

    #[test]
    fn what_is_no_escape_is_nothing() {
        for input in ["", "a", "%4g", "%g", "\\x41", "\\u00g0", "\\ude00", "\\ud83dx", "\\ud83d\\n", "\\ud83d\\u0041"] {
            assert_eq!(escape(input.as_bytes()), Escape::Nothing, "{input:?}");
        }
    }
}
