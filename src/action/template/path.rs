//! The path of a request target: literal text as configured, arguments as percent-encoded segments.
//!
//! Whatever the arguments are, the path has the segments the configuration drew (`{+name}` may add some) and none of them is
//! empty, `.` or `..`, in any spelling a server might undo. A path never leaves the folder its literal text names.

use std::ops::Range;

use crate::action::template::{
    Arguments, FillError, Names, Piece, TemplateError, Text, is_unreserved, push_encoded, push_percent, quoted,
};

const PLACE: &str = "the request target";

/// An absolute path (RFC 3986 section 3.3, `path-absolute`, also with empty segments) with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathTemplate {
    text: Text,
}

impl PathTemplate {
    /// Parses a path as configured: already percent-encoded, beginning with `/`, free of `?`, `#` and dot segments.
    pub fn parse(text: &str) -> Result<PathTemplate, TemplateError> {
        check_characters(text)?;
        let parsed = Text::parse_path(text)?;
        check_segments(text)?;
        Ok(PathTemplate { text: parsed })
    }

    /// The path for these arguments, percent-encoded, at most three times `bytes_max` long. An absent argument, an empty or
    /// dot segment an argument makes, or too much text is an error.
    pub fn fill(&self, arguments: &Arguments<'_>, bytes_max: usize) -> Result<String, FillError> {
        let mut path = String::new();
        let mut holes: Vec<(Range<usize>, &str)> = Vec::new();
        for piece in self.text.pieces() {
            let start = path.len();
            let (name, push): (&str, fn(&str, &mut String)) = match piece {
                Piece::Literal(text) => {
                    path.push_str(text);
                    continue;
                }
                Piece::Argument(name) => (name, push_percent),
                Piece::Segments(name) => (name, |text, out| push_encoded(text, out, |byte| byte == b'/')),
            };
            let text = arguments.required_text(name)?;
            if start + text.len() > bytes_max {
                return Err(FillError::TooLong { place: PLACE, bytes_max });
            }
            push(&text, &mut path);
            holes.push((start..path.len(), name));
        }
        check_filled(&path, &holes)?;
        Ok(path)
    }

    /// Adds the placeholders: all required.
    pub fn add_names(&self, names: &mut Names) {
        names.add_required(self.text.names());
    }
}

/// Checks a path that holds no placeholder: a prefix of a credential's scope, say.
pub fn check_path(text: &str) -> Result<(), TemplateError> {
    PathTemplate::parse(text)?;
    Text::parse_literal(text).map(|_| ())
}

/// Checks a whole path that a caller wrote: percent-encoded once and for all, with segments that no server reads in two ways.
/// Beside dot segments it has no empty one (but behind a last `/`), no encoded separator, control or escape, and is UTF-8.
pub(in crate::action) fn check_given_path(path: &str) -> Result<(), String> {
    check_given_characters(path, is_path_char)?;
    let decoded = percent_decoded(path);
    let Ok(text) = std::str::from_utf8(&decoded) else {
        return Err(format!("expected UTF-8 behind the escapes of the path, got {}", quoted(path)));
    };
    let escaped = |separator: char| text.matches(separator).count() > path.matches(separator).count();
    if escaped('/') || escaped('\\') {
        return Err(format!("expected no encoded separator (%2F, %5C) in the path, got {}", quoted(path)));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("expected no encoded control character in the path, got {}", quoted(path)));
    }
    if percent_decoded(text) != decoded {
        return Err(format!("expected no escape inside an escape (such as %252F) in the path, got {}", quoted(path)));
    }
    if has_dot_segment(path) {
        return Err(format!("expected a path without . and .. segments, got {}", quoted(path)));
    }
    if path.contains("//") {
        return Err(format!("expected a path without an empty segment, got {}", quoted(path)));
    }
    Ok(())
}

/// Checks a query that a caller wrote (RFC 3986 section 3.4): percent-encoded already.
pub(in crate::action) fn check_given_query(query: &str) -> Result<(), String> {
    check_given_characters(query, |char| char == '?' || is_path_char(char))
}

fn check_given_characters(text: &str, fits: fn(char) -> bool) -> Result<(), String> {
    for (at, char) in text.char_indices() {
        let digits = text.as_bytes().get(at + 1..at + 3);
        if char == '%' && !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(format!("expected % and two hex digits, got {}", quoted(text)));
        }
        if char != '%' && !fits(char) {
            return Err(format!(
                "expected no character that must be encoded as %XX, got {} in {}",
                quoted(&char.to_string()),
                quoted(text)
            ));
        }
    }
    Ok(())
}

/// Whether a percent-encoded path has a `.` or `..` segment in a spelling some server undoes: behind `%2e`, `%2f`, a
/// backslash, or before a `;` parameter.
pub fn has_dot_segment(path: &str) -> bool {
    let decoded = percent_decoded(path);
    decoded.split(|byte| matches!(byte, b'/' | b'\\')).any(|segment| {
        let segment = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        segment == b"." || segment == b".."
    })
}

fn check_characters(text: &str) -> Result<(), TemplateError> {
    let wrong = |at: usize, problem: &str| Err(TemplateError::new(text, at, problem.to_owned()));
    if !text.starts_with('/') {
        return wrong(0, "expected a path that begins with /");
    }
    for (at, char) in text.char_indices() {
        let rest = &text.as_bytes()[at..];
        match char {
            '?' => return wrong(at, "expected a path, got ?: write the query under \"query\""),
            '#' => return wrong(at, "expected a path, got #: a fragment is never sent"),
            '{' | '}' if rest.get(1) == rest.first() => return wrong(at, "expected %7B or %7D for a brace in a path"),
            '{' | '}' => {}
            '%' if rest.len() >= 3 && rest[1..3].iter().all(u8::is_ascii_hexdigit) => {}
            '%' => return wrong(at, "expected % and two hex digits"),
            _ if is_path_char(char) => {}
            _ => return wrong(at, "expected a percent-encoded path, got a character that must be encoded"),
        }
    }
    Ok(())
}

/// `pchar` without `pct-encoded` (RFC 3986 section 3.3), or the separator.
fn is_path_char(char: char) -> bool {
    u8::try_from(char).is_ok_and(|byte| is_unreserved(byte) || b"!$&'()*+,;=:@/".contains(&byte))
}

/// Refuses dot segments of the literal text; segments with a placeholder are judged when they are filled.
fn check_segments(text: &str) -> Result<(), TemplateError> {
    let mut at = 0;
    for segment in text.split('/') {
        if !segment.contains('{') && has_dot_segment(segment) {
            return Err(TemplateError::new(text, at, "expected a path without . and .. segments".to_owned()));
        }
        at += segment.len() + 1;
    }
    Ok(())
}

/// Refuses empty and dot segments that an argument takes part in.
fn check_filled(path: &str, holes: &[(Range<usize>, &str)]) -> Result<(), FillError> {
    let mut start = 1;
    for segment in path[1..].split('/') {
        let end = start + segment.len();
        let blamed = holes.iter().find(|(hole, _)| hole.start <= end && hole.end >= start);
        if let Some((_, name)) = blamed {
            if segment.is_empty() {
                return Err(FillError::argument(name, "no empty segment in the path", "one"));
            }
            if has_dot_segment(segment) {
                return Err(FillError::argument(name, "no . or .. segment in the path", "one"));
            }
        }
        start = end + 1;
    }
    Ok(())
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| byte == b'%');
        let value = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match value.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                out.push(value);
                at += 3;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::template::sample;
    use serde_json::json;

    fn fill(template: &str, x: &str) -> Result<String, String> {
        let value = json!({ "x": x, "y": "." });
        let template = PathTemplate::parse(template).unwrap();
        template.fill(&Arguments::new(&value.into()), 8192).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_fill(template: &str, x: &str, want: &str) {
        assert_eq!(fill(template, x).as_deref(), Ok(want), "{template} {x:?}");
    }

    #[track_caller]
    fn check_fill_refused(template: &str, x: &str, part: &str) {
        let error = fill(template, x).unwrap_err();
        assert!(error.starts_with("argument \"x\": expected") && error.contains(part), "{template} {x:?}: {error}");
    }

    #[track_caller]
    fn check_parse_refused(template: &str, position: usize, part: &str) {
        let error = PathTemplate::parse(template).unwrap_err();
        assert_eq!(error.position, position, "{template}: {error}");
        assert!(error.problem.contains(part), "{template}: {error}");
    }

    #[test]
    fn filled() {
        check_fill("/", "unused", "/");
        check_fill("/v1//a%20b;c=1", "unused", "/v1//a%20b;c=1");
        check_fill("/a/{x}/b", "c d", "/a/c%20d/b");
        check_fill("/a/{x}/b", "c/d", "/a/c%2Fd/b");
        check_fill("/a/{x}", "é?#%", "/a/%C3%A9%3F%23%25");
        check_fill("/a/{x}.json", "", "/a/.json");
        check_fill("/a/{x}", "...", "/a/...");
        check_fill("/a/{x}", "%2e%2e", "/a/%252e%252e");
        check_fill("/a/{x}", "{y}", "/a/%7By%7D");
        check_fill("/a/{+x}/b", "c/d e", "/a/c/d%20e/b");
        check_fill("/a/p{+x}", "/b", "/a/p/b");
    }

    #[test]
    fn refused_when_filled() {
        for x in ["", ".", "..", "../b", "b/..", "..\\b", "..;b", "b/./c"] {
            check_fill_refused("/a/{x}/c", x, "segment");
        }
        for x in ["", ".", "..", "../b", "b/..", "b/../c", "./b", "/b", "b/", "b//c", "/", "..\\b", "b/..;c"] {
            check_fill_refused("/a/{+x}/c", x, "segment");
            check_fill_refused("/a/{+x}", x, "segment");
        }
        check_fill_refused("/a/.{x}", ".", ". or ..");
        check_fill_refused("/a/.{x}", "", ". or ..");
        check_fill_refused("/a/%2e{x}", ".", ". or ..");
        check_fill_refused("/a/..{+x}", "/b", ". or ..");
        check_fill_refused("/a/{+x}.", "b/", ". or ..");
        check_fill_refused("/a/{x}{y}", ".", ". or ..");
        let nothing = json!({"x": null});
        let error = PathTemplate::parse("/{x}").unwrap().fill(&Arguments::new(&nothing.into()), 8192).unwrap_err();
        assert_eq!(error.to_string(), "argument \"x\": expected a value, got none");
        assert!(fill("/{x}", &"a".repeat(8193)).unwrap_err().contains("8192"));
    }

    #[test]
    fn refused_when_parsed() {
        check_parse_refused("", 1, "begins with /");
        check_parse_refused("a", 1, "begins with /");
        check_parse_refused("/{x", 2, "lone {");
        check_parse_refused("/a?b", 3, "query");
        check_parse_refused("/a#b", 3, "fragment");
        check_parse_refused("/a b", 3, "encoded");
        check_parse_refused("/é", 2, "encoded");
        check_parse_refused("/\n", 2, "encoded");
        check_parse_refused("/\\", 2, "encoded");
        check_parse_refused("/{{x}}", 2, "%7B");
        check_parse_refused("/%2", 2, "two hex digits");
        check_parse_refused("/%zz", 2, "two hex digits");
        check_parse_refused("/%2{x}", 2, "two hex digits");
        check_parse_refused("/%é", 2, "two hex digits");
        for dots in [".", "..", "%2e", "%2E.", ".%2e", "%2e%2E", "..%2fx", "x%5c..", "..;a"] {
            check_parse_refused(&format!("/{dots}"), 2, "segments");
            check_parse_refused(&format!("/a/{dots}/b"), 4, "segments");
        }
        assert!(check_path("/repos/").is_ok());
        assert!(check_path("/repos/{x}").is_err());
    }

    #[test]
    fn any_text_arrives_as_one_segment_or_is_refused() {
        let mut filled = 0;
        for text in sample::texts() {
            let Ok(path) = fill("/a/{x}/b", &text) else {
                let harmless = !text.is_empty() && !text.split(['/', '\\']).any(|part| part.starts_with('.'));
                assert!(!harmless, "refused {text:?}");
                continue;
            };
            let segments: Vec<&str> = path.split('/').collect();
            assert_eq!(segments.len(), 4, "{text:?}: {path}");
            assert!(path.bytes().all(|byte| is_unreserved(byte) || byte == b'/' || byte == b'%'), "{path}");
            assert_eq!(sample::decode(segments[2], '+'), text);
            filled += 1;
        }
        assert!(filled > 1200, "{filled}");
    }

    #[test]
    fn any_text_arrives_as_segments_or_is_refused() {
        let mut filled = 0;
        for text in sample::texts() {
            let plain = text.split('/').all(|part| !part.is_empty() && !part.split('\\').any(|part| part.starts_with('.')));
            let Ok(path) = fill("/a/{+x}/b", &text) else {
                assert!(!plain, "refused {text:?}");
                continue;
            };
            assert_eq!(sample::decode(&path, '+'), format!("/a/{text}/b"));
            assert!(!path.contains("//") && !path.split('/').any(|part| part == "." || part == ".."), "{path}");
            filled += 1;
        }
        assert!(filled > 1000, "{filled}");
    }
}
