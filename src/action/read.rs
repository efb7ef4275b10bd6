//! Reading on in a stored result: the cursor, and the typed action of `read_result`.
//!
//! A name is 128 random bits in hex, so whoever has one was given it; it never becomes part of a path unless it is exactly that.

use std::fmt;

use serde_json::json;

use crate::action::ArgumentError;
use crate::action::json::Json;
use crate::action::template::quoted;

/// What `read_result` takes: the tool's input schema.
pub const INPUT: &str = r#"{"type":"object","properties":{"cursor":{"type":"string","description":"A nextCursor (or the name before its colon) of an earlier result","maxLength":64},"offset":{"type":"integer","minimum":0,"description":"Read from this byte instead of the cursor's"},"find":{"type":"string","minLength":1,"maxLength":256,"description":"Search this literal text from there on, instead of reading"}},"required":["cursor"],"additionalProperties":false}"#;

/// Names a stored result: 32 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(String);

impl Name {
    /// From 128 random bits.
    pub fn new(bits: [u8; 16]) -> Name {
        Name(bits.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Exactly a name, or nothing.
    pub fn parse(text: &str) -> Option<Name> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (text.len() == 32 && is_hex).then(|| Name(text.to_owned()))
    }

    /// 32 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A position in a stored result: `NAME:OFFSET`, the offset in bytes of the stored stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Which result.
    pub name: Name,
    /// Bytes before it.
    pub offset: u64,
}

impl Cursor {
    /// `NAME:OFFSET`, or `NAME` for the beginning.
    pub fn parse(text: &str) -> Option<Cursor> {
        let (name, offset) = text.split_once(':').unwrap_or((text, "0"));
        let is_number = !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_digit());
        let offset = is_number.then(|| offset.parse().ok()).flatten()?;
        Some(Cursor { name: Name::parse(name)?, offset })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name.0, self.offset)
    }
}

/// Reads one page of a stored result, or searches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadAction {
    /// Where to begin.
    pub cursor: Cursor,
    /// Literal text to look for; `None` reads a page.
    pub find: Option<String>,
}

impl ReadAction {
    /// From arguments that have passed `INPUT`.
    pub(crate) fn from_arguments(arguments: &Json<'_>) -> Result<ReadAction, ArgumentError> {
        let text = |name: &str| arguments.get(name).and_then(Json::as_str);
        let given = text("cursor").unwrap_or_default();
        let mut cursor = Cursor::parse(given).ok_or_else(|| ArgumentError {
            problems: vec![format!("arguments.cursor: expected a nextCursor of an earlier result, got {}", quoted(given))],
        })?;
        if let Some(offset) = arguments.get("offset") {
            cursor.offset = offset.as_u64().ok_or_else(|| ArgumentError {
                problems: vec![format!("arguments.offset: expected a number of bytes, got {offset}")],
            })?;
        }
        Ok(ReadAction { cursor, find: text("find").map(str::to_owned) })
    }

    /// Compact JSON, see `Action::record`.
    pub fn record(&self) -> String {
        json!({"read": {"cursor": self.cursor.to_string(), "find": self.find}}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "0123456789abcdef0123456789abcdef";

    #[track_caller]
    fn check_cursor(text: &str, offset: Option<u64>) {
        let cursor = Cursor::parse(text);
        assert_eq!(cursor.as_ref().map(|cursor| cursor.offset), offset, "{text}");
        if let Some(cursor) = cursor {
            assert_eq!(cursor.name.as_str(), NAME);
            assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
        }
    }

    #[test]
    fn a_cursor_is_exactly_a_name_and_an_offset() {
        check_cursor(NAME, Some(0));
        check_cursor(&format!("{NAME}:0"), Some(0));
        check_cursor(&format!("{NAME}:18446744073709551615"), Some(u64::MAX));
        for bad in ["", ":", ":0", "../../etc/passwd", &NAME[1..], &NAME.to_uppercase(), "0123456789abcdef0123456789abcde/"] {
            check_cursor(bad, None);
        }
        for tail in [":", ":-1", ":+1", ":1.0", ":0x1", ": 1", ":18446744073709551616", ":0:0", ".part", "\0", "0"] {
            check_cursor(&format!("{NAME}{tail}"), None);
        }
    }

    #[track_caller]
    fn check_arguments(arguments: serde_json::Value, expected: Result<(u64, Option<&str>), &str>) {
        let arguments = Json::from(arguments);
        let action = ReadAction::from_arguments(&arguments);
        let got = action.as_ref().map(|action| (action.cursor.offset, action.find.as_deref()));
        assert_eq!(got.map_err(|error| error.problems[0].as_str()), expected, "{arguments}");
    }

    #[test]
    fn an_offset_replaces_that_of_the_cursor() {
        check_arguments(json!({"cursor": format!("{NAME}:5")}), Ok((5, None)));
        check_arguments(json!({"cursor": format!("{NAME}:5"), "offset": 7, "find": "x"}), Ok((7, Some("x"))));
        check_arguments(
            json!({"cursor": "page 2"}),
            Err("arguments.cursor: expected a nextCursor of an earlier result, got \"page 2\""),
        );
        check_arguments(
            json!({"cursor": NAME, "offset": 1e300}),
            Err("arguments.offset: expected a number of bytes, got 1e+300"),
        );
    }
}
