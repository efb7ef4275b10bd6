//! Request ids: a string or an integer, matched by decoded value and type, echoed digit for digit.
//!
//! An integer never passes through a machine number, so no id is rounded, whatever its length.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::limits::ID_BYTES;
use crate::rpc::error::{kind_of, shown};
use crate::rpc::strict;
use crate::wire::escape;

/// A legal request id.
#[derive(Clone)]
pub struct Id(Kind);

#[derive(Clone)]
enum Kind {
    /// `-?(0|[1-9][0-9]*)`, as written.
    Integer(Box<str>),
    /// Decoded.
    Text(Box<str>),
}

/// Why a value is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdError {
    /// Neither a string nor an integer: a fraction and an exponent are none; nor is half a surrogate pair a string.
    WrongKind(&'static str),
    /// Longer than `ID_BYTES` when written.
    TooLong,
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdError::WrongKind(kind) => write!(f, "expected a string or an integer, got {kind}"),
            IdError::TooLong => write!(f, "expected at most {ID_BYTES} bytes, got more"),
        }
    }
}

impl std::error::Error for IdError {}

impl Id {
    /// From the raw text of one valid JSON value.
    ///
    /// # Errors
    /// `IdError`, see there.
    pub fn parse(raw: &str) -> Result<Id, IdError> {
        if raw.starts_with('"') {
            let text = strict::string(raw).ok_or(IdError::WrongKind("a string with half a surrogate pair"))?;
            // The quotes count: the limit is on what is written.
            return match escape::escaped_len(&text) + 2 {
                0..=ID_BYTES => Ok(Id::text(&text)),
                _ => Err(IdError::TooLong),
            };
        }
        if !is_integer(raw) {
            let fraction = raw.starts_with(|c: char| c == '-' || c.is_ascii_digit());
            let kind = if fraction { "a number with a fraction or an exponent" } else { kind_of(raw) };
            return Err(IdError::WrongKind(kind));
        }
        match raw.len() {
            0..=ID_BYTES => Ok(Id(Kind::Integer(raw.into()))),
            _ => Err(IdError::TooLong),
        }
    }

    /// A string id of our own.
    pub fn text(text: &str) -> Id {
        Id(Kind::Text(text.into()))
    }

    /// An integer id of our own.
    pub fn integer(number: i64) -> Id {
        Id(Kind::Integer(number.to_string().into()))
    }

    /// The id as JSON text: an integer as it was written, a string escaped as everything that leaves.
    pub fn to_json(&self) -> String {
        match &self.0 {
            Kind::Integer(digits) => digits.to_string(),
            Kind::Text(text) => escape::to_line(&**text),
        }
    }

    /// The decoded text of a string id.
    pub fn as_text(&self) -> Option<&str> {
        match &self.0 {
            Kind::Integer(_) => None,
            Kind::Text(text) => Some(text),
        }
    }

    /// What equality looks at: -0 is 0, and no integer equals a string.
    fn key(&self) -> (bool, &str) {
        match &self.0 {
            Kind::Integer(digits) if &**digits == "-0" => (false, "0"),
            Kind::Integer(digits) => (false, digits),
            Kind::Text(text) => (true, text),
        }
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Id {}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Cut, for people; a string in quotes, an integer without.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Integer(digits) if digits.len() > 60 => write!(f, "{}…", &digits[..60]),
            Kind::Integer(digits) => f.write_str(digits),
            Kind::Text(text) => f.write_str(&shown(text)),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Kind::Integer(digits) => {
                serde_json::from_str::<&RawValue>(digits).map_err(serde::ser::Error::custom)?.serialize(serializer)
            }
            Kind::Text(text) => text.serialize(serializer),
        }
    }
}

fn is_integer(raw: &str) -> bool {
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    !digits.is_empty() && !leading_zero && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[track_caller]
    fn check_echo(raw: &str, written: &str) {
        let id = Id::parse(raw).unwrap();
        assert_eq!(id.to_json(), written);
        assert_eq!(escape::to_line(&id), written);
        assert_eq!(Id::parse(written).unwrap(), id);
    }

    #[test]
    fn ids_are_echoed_in_value_and_type_s4_r027_r034() {
        for raw in ["0", "-0", "-1", "1", "\"1\"", "\"\"", "9007199254740993", "12345678901234567890"] {
            check_echo(raw, raw);
        }
        check_echo(&"9".repeat(5000), &"9".repeat(5000));
        check_echo(&format!("\"{}\"", "x".repeat(10_000)), &format!("\"{}\"", "x".repeat(10_000)));
        check_echo(r#""\u0061\/\u2028""#, r#""a/\u2028""#);
    }

    #[track_caller]
    fn check_refused(raw: &str, message: &str) {
        assert_eq!(Id::parse(raw).unwrap_err().to_string(), message, "{}", shown(raw));
    }

    #[test]
    fn only_strings_and_integers_are_ids_r026_r027() {
        for (raw, got) in [
            ("null", "null"),
            ("true", "a boolean"),
            ("[1]", "an array"),
            ("{\"a\":1}", "an object"),
            ("1.5", "a number with a fraction or an exponent"),
            ("3100.0", "a number with a fraction or an exponent"),
            ("1e3", "a number with a fraction or an exponent"),
            ("\"\\ud83d\"", "a string with half a surrogate pair"),
        ] {
            check_refused(raw, &format!("expected a string or an integer, got {got}"));
        }
    }

    #[test]
    fn length_at_the_limit_and_one_past_it() {
        let too_long = "expected at most 65536 bytes, got more";
        check_echo(&"7".repeat(ID_BYTES), &"7".repeat(ID_BYTES));
        check_refused(&"7".repeat(ID_BYTES + 1), too_long);
        let text = format!("\"{}\"", "x".repeat(ID_BYTES - 2));
        check_echo(&text, &text);
        check_refused(&format!("\"{}\"", "x".repeat(ID_BYTES - 1)), too_long);
        // What counts is the written form: a raw DEL takes six bytes.
        check_refused(&format!("\"{}\"", "\u{7f}".repeat(ID_BYTES / 6 + 1)), too_long);
    }

    #[test]
    fn ids_match_by_decoded_value_and_type_s103() {
        let parse = |raw| Id::parse(raw).unwrap();
        assert_ne!(parse("1"), parse("\"1\""));
        assert_eq!(parse("-0"), parse("0"));
        assert_eq!(parse(r#""\u0061""#), parse("\"a\""));
        assert_eq!(parse("7"), Id::integer(7));
        assert_eq!(parse("\"tg-1\""), Id::text("tg-1"));
        let set: HashSet<Id> = ["0", "-0", "\"0\"", "1"].into_iter().map(parse).collect();
        assert_eq!(set.len(), 3);
    }
}
