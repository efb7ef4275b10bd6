//! The error object of JSON-RPC 2.0, section 5.1, its codes, and how foreign text is quoted in one.

use crate::wire::escape;

/// The line is not one JSON value.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON is no message.
pub const INVALID_REQUEST: i64 = -32600;
/// No such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The method exists, its parameters are wrong.
pub const INVALID_PARAMS: i64 = -32602;
/// The fault is ours, or there is no room.
pub const INTERNAL_ERROR: i64 = -32603;

/// Characters of foreign text a message quotes at most.
const QUOTED_CHARS: usize = 60;

/// The `error` member of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// One of the codes of JSON-RPC, or of the protocol above it.
    pub code: i64,
    /// For people: lower case, no full stop, says what was expected and what came.
    pub message: String,
    /// Compact JSON text, when there is something for programs.
    pub data: Option<String>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }

    /// `INVALID_PARAMS` without data.
    pub fn invalid_params(message: impl Into<String>) -> RpcError {
        RpcError::new(INVALID_PARAMS, message)
    }

    /// The same error with `data`, compact JSON text.
    #[must_use]
    pub fn with_data(self, data: String) -> RpcError {
        RpcError { data: Some(data), ..self }
    }
}

/// Foreign text for a message: quoted, escaped, cut to 60 characters.
pub fn shown(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS) {
        None => escape::to_line(text),
        Some((at, _)) => format!("{}…", escape::to_line(&text[..at])),
    }
}

/// What kind of JSON value a raw text is, with its article: `an array`.
pub fn kind_of(raw: &str) -> &'static str {
    match raw.trim_start().bytes().next() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(_) => "a number",
        None => "nothing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_cut_and_escaped() {
        assert_eq!(shown("a\n\"b\"\u{85}"), r#""a\n\"b\"\u0085""#);
        assert_eq!(shown(&"é".repeat(60)), format!("\"{}\"", "é".repeat(60)));
        assert_eq!(shown(&"é".repeat(61)), format!("\"{}\"…", "é".repeat(60)));
    }
}
