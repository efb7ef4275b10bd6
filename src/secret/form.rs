//! The ways a secret is written: itself, base64 in three alignments, hexadecimal.
//!
//! A form is a row of units; a unit says which characters may stand in its place. That a character may itself be percent-encoded or
//! JSON-escaped is not told here: the matcher reads every character through `read`. Forms hold the secret and are wiped on drop.

use zeroize::{DefaultIsZeroes, Zeroizing};

use super::read::hex_digit;

/// One place of a form.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// This byte; for a space also the `+` of `application/x-www-form-urlencoded`.
    Byte(u8),
    /// A base64 character of either alphabet whose value agrees with `value` in the bits of `mask`.
    Sextet { value: u8, mask: u8 },
    /// A hexadecimal digit of either case.
    Nibble(u8),
    /// The padding of base64.
    Padding,
}

impl Default for Unit {
    fn default() -> Self {
        Unit::Byte(0)
    }
}

impl DefaultIsZeroes for Unit {}

impl Unit {
    pub(super) fn accepts(self, byte: u8) -> bool {
        match self {
            Unit::Byte(own) => byte == own || (own == b' ' && byte == b'+'),
            Unit::Sextet { value, mask } => sextet(byte).is_some_and(|sextet| sextet & mask == value),
            Unit::Nibble(own) => hex_digit(byte) == Some(own),
            Unit::Padding => byte == b'=',
        }
    }

    /// Every byte the unit accepts.
    pub(super) fn accepted(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |&byte| self.accepts(byte))
    }

    /// The most input bytes it takes to write this unit: `\u0041` for one byte, `\uD83D\uDE00` for four, `%FF` for one that is not ASCII.
    fn bytes_max(self) -> usize {
        match self {
            Unit::Byte(0x80..) => 3,
            Unit::Byte(_) | Unit::Sextet { .. } | Unit::Nibble(_) | Unit::Padding => 6,
        }
    }
}

/// One way to write a secret. A hit covers the units from 0, or from `core_start`, to `core_end` or any later one.
pub(super) struct Form {
    pub(super) units: Zeroizing<Vec<Unit>>,
    /// 0 or 1: the first unit is shared with what stands before the secret, and may be missing.
    pub(super) core_start: usize,
    /// Units from here on are shared with what stands behind the secret, or padding, and may be missing.
    pub(super) core_end: usize,
}

impl Form {
    /// The most input bytes a hit covers.
    pub(super) fn bytes_max(&self) -> usize {
        self.units.iter().map(|unit| unit.bytes_max()).sum()
    }

    fn exact(units: Vec<Unit>) -> Form {
        Form { core_start: 0, core_end: units.len(), units: Zeroizing::new(units) }
    }

    /// RFC 4648 sections 4 and 5, for a secret that stands `offset` bytes (modulo 3) behind the beginning of the encoded text.
    ///
    /// Characters that hold bits of the secret and of a neighbour belong to the hit when they are there: their bits of the secret are
    /// nobody's business either, and the padding would tell its length modulo 3.
    fn base64(secret: &[u8], offset: usize) -> Form {
        let bits = offset * 8..(offset + secret.len()) * 8;
        let mut units: Vec<Unit> = Vec::with_capacity(secret.len() * 4 / 3 + 5);
        units.extend((bits.start / 6..bits.end.div_ceil(6)).map(|index| {
            let (mut value, mut mask) = (0, 0);
            for bit in index * 6..index * 6 + 6 {
                let known = bits.contains(&bit);
                let set = known && secret[bit / 8 - offset] >> (7 - bit % 8) & 1 == 1;
                value = value << 1 | u8::from(set);
                mask = mask << 1 | u8::from(known);
            }
            Unit::Sextet { value, mask }
        }));
        let core_start = usize::from(bits.start % 6 != 0);
        let core_end = units.len() - usize::from(bits.end % 6 != 0);
        let padding = (3 - (offset + secret.len()) % 3) % 3;
        units.extend(std::iter::repeat_n(Unit::Padding, padding));
        Form { units: Zeroizing::new(units), core_start, core_end }
    }
}

/// A line of a key's text from this length on is known by itself: too long to be met by chance.
const LINE_BYTES_MIN: usize = 16;

/// All forms of one secret; of a private key's text also those of its lines, which are often shown one by one, or in another layout.
pub(super) fn forms(secret: &[u8]) -> Vec<Form> {
    std::iter::once(secret).chain(body_lines(secret)).flat_map(forms_of).collect()
}

/// The lines of base64 between the labels of textual encoding (RFC 7468).
fn body_lines(secret: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_text = secret.starts_with(b"-----BEGIN ");
    let lines = secret.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let is_body =
        |line: &&[u8]| line.len() >= LINE_BYTES_MIN && line.iter().all(|byte| sextet(*byte).is_some() || *byte == b'=');
    lines.filter(move |line| is_text && is_body(line))
}

fn forms_of(secret: &[u8]) -> Vec<Form> {
    let itself = secret.iter().map(|&byte| Unit::Byte(byte)).collect();
    let hexadecimal = secret.iter().flat_map(|&byte| [Unit::Nibble(byte >> 4), Unit::Nibble(byte & 15)]).collect();
    let base64 = (0..3).map(|offset| Form::base64(secret, offset));
    [Form::exact(itself), Form::exact(hexadecimal)].into_iter().chain(base64).collect()
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units as text: the base64 character where all six bits are known, `?` where some are, `=` for padding.
    fn sketch(form: &Form) -> String {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let letter = |unit: &Unit| match *unit {
            Unit::Byte(byte) => char::from(byte),
            Unit::Sextet { value, mask: 0x3F } => char::from(alphabet[usize::from(value)]),
            Unit::Sextet { .. } => '?',
            Unit::Nibble(value) => char::from_digit(u32::from(value), 16).unwrap(),
            Unit::Padding => '=',
        };
        form.units.iter().map(letter).collect()
    }

    #[test]
    fn forms_of_a_short_secret() {
        let forms = forms(b"pass/wd?");
        let sketches: Vec<_> = forms.iter().map(|form| (sketch(form), form.core_start, form.core_end)).collect();
        let expected = [
            ("pass/wd?", 0, 8),
            ("706173732f77643f", 0, 16),
            ("cGFzcy93ZD?=", 0, 10),
            ("?Bhc3Mvd2Q/", 1, 11),
            ("?wYXNzL3dkP?==", 1, 11),
        ];
        assert_eq!(sketches, expected.map(|(sketch, start, end)| (sketch.to_owned(), start, end)));
    }

    #[test]
    fn the_lines_of_a_key_are_known_by_themselves() {
        let check = |text: &str, expected: &[&str]| {
            let lines: Vec<_> = body_lines(text.as_bytes()).map(|line| str::from_utf8(line).unwrap()).collect();
            assert_eq!(lines, expected, "{text}");
        };
        let (whole, short) = ("MIIBVgIBADANBgkqhkiG9w0BAQEFAASC", "AUAwggE8AgEAAk=");
        check(
            &format!("-----BEGIN PRIVATE KEY-----\n{whole}\r\n {whole}\n{short}\n-----END PRIVATE KEY-----\n"),
            &[whole, whole],
        );
        check(
            &format!("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{short}=\n{whole}"),
            &[&format!("{short}="), whole],
        );
        check(&format!("one\n{whole}\n"), &[]);
        assert_eq!(forms(format!("-----BEGIN X-----\n{whole}\n-----END X-----").as_bytes()).len(), 10);
    }

    #[test]
    fn cores_are_long_enough_not_to_hit_by_chance() {
        for bytes in 8..20 {
            for form in forms(&vec![b'x'; bytes]) {
                assert!(form.core_end - form.core_start >= 8, "{}", sketch(&form));
            }
        }
    }
}
