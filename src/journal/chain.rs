//! The chain: SHA-256 over the bytes of a line, without its line feed, as the next line names it.
//!
//! The hash is over the bytes as they stand in the file: nobody who checks has to serialise anything again.

use std::fmt;

use ring::digest::{Context, SHA256, digest};

/// The hash of one line.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// What the first line of a chain names.
    pub const NONE: Hash = Hash([0; 32]);

    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash::from_digest(&digest(&SHA256, bytes))
    }

    /// 64 lower-case hexadecimal digits; `None` for anything else.
    pub fn parse(text: &str) -> Option<Hash> {
        let is_hex = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hex {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
        }
        Some(Hash(bytes))
    }

    fn from_digest(digest: &ring::digest::Digest) -> Hash {
        Hash(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A hash in the making, for a line that is not held as a whole.
pub struct Hasher(Context);

impl Hasher {
    /// Of nothing yet.
    #[expect(clippy::new_without_default, reason = "a beginning, not a default")]
    pub fn new() -> Hasher {
        Hasher(Context::new(&SHA256))
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Of all that was taken.
    pub fn finish(self) -> Hash {
        Hash::from_digest(&self.0.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_hash_is_sha_256_in_lower_case_hexadecimal() {
        assert_eq!(Hash::of(b"abc").to_string(), ABC);
        let mut hasher = Hasher::new();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(Some(hasher.finish()), Hash::parse(ABC));
        for wrong in ["", &ABC[1..], &ABC.to_uppercase(), &format!("{ABC}0"), &ABC.replace('b', "g"), &"é".repeat(32)] {
            assert_eq!(Hash::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Hash::NONE.to_string(), "0".repeat(64));
    }
}
