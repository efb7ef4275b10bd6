//! JSON text that survives every reader: the one formatter for bytes that leave.
//!
//! Controls (C0, DEL, C1 with U+0085), U+2028 and U+2029 leave as escapes, so no faulty line reader can cut a message in
//! two and no terminal obeys it. Values stay the same JSON values; digits stay as they were written.
//! It never writes a line feed and never emits half a surrogate pair.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// What stands for half of a surrogate pair.
const REPLACEMENT: &str = "\\ufffd";

/// The compact formatter with the escapes of this file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some((at, c)) = first_special(rest) {
            writer.write_all(&rest.as_bytes()[..at])?;
            write!(writer, "\\u{:04x}", u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_raw_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut text = String::with_capacity(fragment.len());
        compact(fragment, &mut text);
        writer.write_all(text.as_bytes())
    }
}

/// `value` as one line of JSON, without its LF.
///
/// # Panics
/// If `value` has map keys that are no strings or a `Serialize` that fails; values of ours have neither.
pub fn to_line(value: &(impl Serialize + ?Sized)) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, Escaped);
    value.serialize(&mut serializer).expect("our values have string keys and infallible Serialize");
    String::from_utf8(out).expect("serde_json and Escaped write UTF-8")
}

/// Appends `text` as a JSON string, with its quotes.
pub fn push_string(text: &str, out: &mut String) {
    out.push_str(&to_line(text));
}

/// Bytes `text` takes inside a JSON string as written here, without the quotes.
pub fn escaped_len(text: &str) -> usize {
    text.chars().map(escaped_char_len).sum()
}

/// Bytes one character takes inside a JSON string as written here.
pub fn escaped_char_len(c: char) -> usize {
    match c {
        '"' | '\\' | '\u{8}' | '\t' | '\n' | '\u{c}' | '\r' => 2,
        '\0'..='\u{1f}' => 6,
        c if is_special(c) => 6,
        c => c.len_utf8(),
    }
}

/// Appends already validated JSON text with the white space outside strings dropped, digits exact, and the escapes of
/// this file inside strings; idempotent. Returns how many halves of surrogate pairs it replaced by U+FFFD.
pub fn compact(raw_json: &str, out: &mut String) -> usize {
    let mut replaced = 0;
    let mut rest = raw_json;
    out.reserve(raw_json.len());
    while let Some(at) = rest.find(['"', ' ', '\t', '\r', '\n']) {
        out.push_str(&rest[..at]);
        let quote = rest.as_bytes()[at] == b'"';
        rest = &rest[at + 1..];
        if quote {
            out.push('"');
            rest = compact_string(rest, out, &mut replaced);
        }
    }
    out.push_str(rest);
    replaced
}

/// Copies a string from after its opening quote through its closing quote; returns what follows.
fn compact_string<'a>(mut rest: &'a str, out: &mut String, replaced: &mut usize) -> &'a str {
    loop {
        let Some((at, c)) = first_stop(rest) else {
            // Validated text always has its closing quote.
            out.push_str(rest);
            return "";
        };
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match c {
            '"' => {
                out.push('"');
                return &rest[1..];
            }
            '\\' => rest = compact_escape(rest, out, replaced),
            special => {
                push_escape(special, out);
                rest = &rest[special.len_utf8()..];
            }
        }
    }
}

/// Copies one escape, or a surrogate pair of two; returns what follows.
fn compact_escape<'a>(rest: &'a str, out: &mut String, replaced: &mut usize) -> &'a str {
    let (escape, kind) = match unit(rest) {
        None => (2, None),
        Some(unit) => (6, Some(unit)),
    };
    let length = match kind {
        Some(0xd800..=0xdbff) if matches!(rest.get(6..).and_then(unit), Some(0xdc00..=0xdfff)) => 12,
        Some(0xd800..=0xdfff) => {
            *replaced += 1;
            out.push_str(REPLACEMENT);
            return &rest[escape..];
        }
        _ => escape,
    };
    let length = length.min(rest.len());
    out.push_str(&rest[..length]);
    &rest[length..]
}

/// The code unit of the `\uXXXX` that `text` begins with, if it begins with one.
pub fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

fn push_escape(c: char, out: &mut String) {
    use std::fmt::Write;
    write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a String does not fail");
}

/// Whether this file escapes `c` beyond what JSON demands.
fn is_special(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}')
}

/// The first character JSON does not escape by itself and this file does.
fn first_special(text: &str) -> Option<(usize, char)> {
    first_where(text, |b| b == 0x7f, is_special)
}

/// The first character at which copying the inside of a JSON string has to stop.
fn first_stop(text: &str) -> Option<(usize, char)> {
    first_where(text, |b| matches!(b, b'"' | b'\\' | 0x7f), is_special)
}

/// Looks at bytes alone until one of `ascii`, or one that can begin U+0080..U+009F or U+2028..U+2029, comes.
fn first_where(text: &str, ascii: impl Fn(u8) -> bool, wide: impl Fn(char) -> bool) -> Option<(usize, char)> {
    let mut from = 0;
    loop {
        let found = text.as_bytes()[from..].iter().position(|b| ascii(*b) || matches!(b, 0xc2 | 0xe2))?;
        let at = from + found;
        let c = text[at..].chars().next().expect("a leading byte was found at `at`");
        if c.is_ascii() || wide(c) {
            return Some((at, c));
        }
        from = at + c.len_utf8();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    const ODD: &str = "a\u{0}\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f} \"\\/\u{7f}\u{80}\u{85}\u{9f}\u{a0}\u{c2}\u{2027}\u{2028}\u{2029}\u{202a}\u{1f389}z";

    #[test]
    fn controls_and_separators_leave_as_escapes_r013() {
        let line = to_line(ODD);
        assert_eq!(
            line,
            "\"a\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/\\u007f\\u0080\\u0085\\u009f\u{a0}\u{c2}\u{2027}\\u2028\\u2029\u{202a}\u{1f389}z\""
        );
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), ODD);
    }

    #[test]
    fn escaped_len_is_what_is_written() {
        assert_eq!(escaped_len(ODD) + 2, to_line(ODD).len());
        for c in ('\0'..'\u{3000}').chain(['\u{ffff}', '\u{1f389}']) {
            assert_eq!(escaped_char_len(c) + 2, to_line(&c.to_string()).len(), "{c:?}");
        }
    }

    #[test]
    fn raw_values_are_escaped_on_their_way_out() {
        let raw: &RawValue = serde_json::from_str("{ \"a\" : \"\u{2028}\" , \"b\" : 1.0 }").unwrap();
        assert_eq!(to_line(raw), r#"{"a":"\u2028","b":1.0}"#);
    }

    #[track_caller]
    fn check_compact(raw: &str, expected: &str, replaced: usize) {
        let mut out = String::new();
        assert_eq!(compact(raw, &mut out), replaced, "replaced in {raw}");
        assert_eq!(out, expected);
        let mut again = String::new();
        assert_eq!(compact(&out, &mut again), 0);
        assert_eq!(again, out, "idempotent");
    }

    #[test]
    fn compact_drops_white_space_outside_strings_only() {
        check_compact(" { \"a b\" :\t[ 1 ,\r\n \" x \\n \" ] } ", r#"{"a b":[1," x \n "]}"#, 0);
        check_compact("", "", 0);
    }

    #[test]
    fn compact_keeps_digits_and_escapes_r035() {
        check_compact(
            r#"{"id":9007199254740993,"f":1.0,"e":1e2,"n":-0,"s":"\u0041\/\\\"\u0085"}"#,
            r#"{"id":9007199254740993,"f":1.0,"e":1e2,"n":-0,"s":"\u0041\/\\\"\u0085"}"#,
            0,
        );
        check_compact("[\"\u{7f}\u{85}\u{2028}\u{e9}\u{1f389}\"]", "[\"\\u007f\\u0085\\u2028\u{e9}\u{1f389}\"]", 0);
    }

    #[test]
    fn lone_surrogates_are_replaced_r021() {
        check_compact(r#""a\ud83d b""#, r#""a\ufffd b""#, 1);
        check_compact(r#""\ud83c\udf89""#, r#""\ud83c\udf89""#, 0);
        check_compact(r#""\udf89\ud83c""#, r#""\ufffd\ufffd""#, 2);
        check_compact(r#""\ud83c\ud83c\udf89\uD83C""#, r#""\ufffd\ud83c\udf89\ufffd""#, 2);
        check_compact(r#""\ud83c\\udf89""#, r#""\ufffd\\udf89""#, 1);
        check_compact(r#""\ud83c\n\u0000""#, r#""\ufffd\n\u0000""#, 1);
        check_compact("\"\\ud83c\u{1f389}\"", "\"\\ufffd\u{1f389}\"", 1);
    }
}
