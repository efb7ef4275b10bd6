//! One header line of a request: a literal name, a value of literals and placeholders.
//!
//! A value is visible ASCII with spaces between (RFC 9110 section 5.5): an argument with anything else is refused, never
//! changed. Fields that frame the message, name its target or carry a credential cannot be configured.

use crate::action::template::{Arguments, FillError, Names, Piece, Text, quoted};

/// One filled value; common servers refuse longer lines.
const VALUE_BYTES_MAX: usize = 8 << 10;

/// Fields the executor owns (RFC 9110 sections 6.6, 7.2, 7.6, 10.1; RFC 9112 sections 6, 9).
const OWNED: &[&str] =
    &["host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect"];

/// Fields that carry credentials.
const CREDENTIALS: &[&str] = &["authorization", "cookie", "proxy-authorization"];

/// Fields by which some servers take a request for another one than its request line says: another method, path or host.
const STEERING: &[&str] =
    &["forwarded", "x-host", "x-http-host-override", "x-http-method", "x-http-method-override", "x-method-override"];
const STEERING_PREFIXES: &[&str] = &["x-forwarded-", "x-original-", "x-rewrite-"];

/// A header with its name in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderTemplate {
    name: String,
    value: Text,
}

impl HeaderTemplate {
    /// Parses a header as configured; the problem names the header.
    pub fn parse(name: &str, value: &str) -> Result<HeaderTemplate, String> {
        let lower = parse_name(name)?;
        let value = Text::parse(value).map_err(|error| format!("value {error}"))?;
        let literals =
            value.pieces().iter().filter_map(|piece| if let Piece::Literal(text) = piece { Some(text) } else { None });
        if let Some(text) = literals.into_iter().find(|text| !text.bytes().all(|byte| is_visible(byte) || byte == b'\t')) {
            return Err(format!("value: expected visible ASCII, space and tab, got {}", quoted(text)));
        }
        let edges = [value.pieces().first(), value.pieces().last()];
        let [first, last] = edges.map(|piece| if let Some(Piece::Literal(text)) = piece { text.as_str() } else { "" });
        if first.starts_with([' ', '\t']) || last.ends_with([' ', '\t']) {
            return Err("value: expected no white space at its ends, where it would be lost".to_owned());
        }
        Ok(HeaderTemplate { name: lower, value })
    }

    /// The field name, lower case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value, if it has no placeholder.
    pub fn literal(&self) -> Option<&str> {
        self.value.literal()
    }

    /// Name and value for these arguments; `None` if one is absent.
    pub fn fill(&self, arguments: &Arguments<'_>) -> Result<Option<(String, String)>, FillError> {
        for name in self.value.names() {
            if arguments.text(name)?.is_some_and(|text| !text.bytes().all(is_visible)) {
                return Err(FillError::argument(name, "visible ASCII and spaces for a header value", "other characters"));
            }
        }
        let value = self.value.fill(arguments, "a header value", VALUE_BYTES_MAX, |text, out| out.push_str(text))?;
        let Some(value) = value else { return Ok(None) };
        if value.trim_ascii().len() != value.len() {
            let blamed = if value.starts_with([' ', '\t']) { self.value.names().next() } else { self.value.names().last() };
            let expected = "no white space at the ends of a header value, where it would be lost";
            return Err(FillError::argument(blamed.unwrap_or_default(), expected, "some"));
        }
        Ok(Some((self.name.clone(), value)))
    }

    /// Adds the placeholders: all optional.
    pub fn add_names(&self, names: &mut Names) {
        names.add_optional(self.value.names());
    }
}

/// A header as a caller wrote it, name in lower case: its own, and visible ASCII without white space at its ends. The problem
/// names the header and never its value, which may be a secret in the wrong place.
pub(in crate::action) fn parse_given(name: &str, value: &str) -> Result<(String, String), String> {
    if !is_token(name) {
        return Err(format!("expected a header name such as x-request-id, got {}", quoted(name)));
    }
    let lower = name.to_ascii_lowercase();
    let (shown, meant) = (quoted(&lower), folded(&lower));
    if CREDENTIALS.contains(&meant.as_str()) {
        return Err(format!("expected no {shown}, which carries a credential: the gateway adds those where a rule says so"));
    }
    if OWNED.contains(&meant.as_str()) || meant.starts_with("proxy-") {
        return Err(format!("expected no {shown}, which the gateway sets itself"));
    }
    if STEERING.contains(&meant.as_str()) || STEERING_PREFIXES.iter().any(|prefix| meant.starts_with(prefix)) {
        return Err(format!("expected no {shown}, by which a server could read another target than the one that was judged"));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(format!("expected at most {VALUE_BYTES_MAX} bytes in the value of {shown}, got {}", value.len()));
    }
    if !value.bytes().all(is_visible) || value.trim_ascii().len() != value.len() {
        return Err(format!("expected visible ASCII without spaces at its ends in the value of {shown}, got something else"));
    }
    Ok((lower, value.to_owned()))
}

/// A lower-case name as servers may hand it on: many give `x_a` and `x-a` to a program under one name (RFC 3875 section 4.1.18).
pub(crate) fn folded(name: &str) -> String {
    name.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '-' }).collect()
}

/// Checks a field name (RFC 9110 section 5.1) and gives it in lower case. The executor's and credential fields are refused.
fn parse_name(name: &str) -> Result<String, String> {
    if !is_token(name) {
        return Err(format!("name: expected a header name such as x-request-id, got {}", quoted(name)));
    }
    let lower = name.to_ascii_lowercase();
    if CREDENTIALS.contains(&lower.as_str()) {
        return Err(format!("name: {lower} cannot be configured as a header; name the secret under \"credentials\" instead"));
    }
    if OWNED.contains(&lower.as_str()) || lower.starts_with("proxy-") {
        return Err(format!("name: {lower} is set by the gateway itself and cannot be configured"));
    }
    Ok(lower)
}

/// RFC 9110 section 5.6.2.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn is_visible(byte: u8) -> bool {
    (0x20..=0x7e).contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::template::sample;
    use serde_json::{Value, json};

    fn fill(value: &str, arguments: &Value) -> Result<Option<String>, String> {
        let template = HeaderTemplate::parse("X-Note", value).unwrap();
        let filled = template.fill(&Arguments::new(&arguments.clone().into())).map_err(|error| error.to_string())?;
        Ok(filled.map(|(name, value)| {
            assert_eq!(name, "x-note");
            value
        }))
    }

    #[track_caller]
    fn check_parse_refused(name: &str, value: &str, part: &str) {
        let error = HeaderTemplate::parse(name, value).unwrap_err();
        assert!(error.contains(part), "{name}: {value}: {error}");
    }

    #[test]
    fn values() {
        assert_eq!(fill("a\tb", &json!({})), Ok(Some("a\tb".to_owned())));
        assert_eq!(fill("v{x}", &json!({"x": 2})), Ok(Some("v2".to_owned())));
        assert_eq!(fill("v{x}", &json!({})), Ok(None));
        assert_eq!(fill("{x}", &json!({"x": ""})), Ok(Some(String::new())));
        assert_eq!(fill("{x}", &json!({"x": "{y}", "y": "no"})), Ok(Some("{y}".to_owned())));
        assert!(fill("{x}", &json!({"x": "a".repeat(8193)})).unwrap_err().contains("8192"));
        assert!(fill("{x}", &json!({"x": ["a"]})).unwrap_err().contains("got an array"));
        assert!(fill("a {x}", &json!({"x": ""})).unwrap_err().contains("\"x\": expected no white space"));
    }

    #[test]
    fn refused_when_parsed() {
        for name in ["", "a b", "a:", "é", "x\r\n", "(x)", "{x}"] {
            check_parse_refused(name, "a", "expected a header name");
        }
        for name in ["Host", "content-length", "Transfer-Encoding", "Connection", "TE", "trailer", "upgrade", "Expect"] {
            check_parse_refused(name, "a", "set by the gateway");
        }
        check_parse_refused("Proxy-Connection", "a", "set by the gateway");
        for name in ["Authorization", "COOKIE", "proxy-authorization"] {
            check_parse_refused(name, "{x}", "\"credentials\"");
        }
        for value in ["a\r\nb", "a\0", "é", "\u{7f}", "\u{1b}"] {
            check_parse_refused("x", value, "visible ASCII");
        }
        check_parse_refused("x", " a", "ends");
        check_parse_refused("x", "{a}\t", "ends");
        check_parse_refused("x", "{", "lone {");
    }

    #[test]
    fn any_text_arrives_or_is_refused() {
        let mut filled = 0;
        for text in sample::texts() {
            let legal = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
            let trimmed = text.trim_matches(' ') == text;
            for (template, want, fits) in [("{x}", text.clone(), legal && trimmed), ("<{x}>", format!("<{text}>"), legal)] {
                match fill(template, &json!({ "x": text })) {
                    Ok(value) => {
                        assert!(fits, "filled {text:?}");
                        assert_eq!(value, Some(want));
                        filled += 1;
                    }
                    Err(_) => assert!(!fits, "refused {text:?}"),
                }
            }
        }
        assert!(filled > 200, "{filled}");
    }
}
