//! JSON as the model reads it: written for these tests, strict, and sharing nothing with the project or its JSON library.
//!
//! It notes what two readers could read differently (a key twice, half a surrogate pair) instead of stopping there, because
//! the model has to know every fault of a line. It also prints, for mutations.

use std::fmt::Write;

/// One value. A text with half a surrogate pair has no decoded form.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    Text(Option<String>),
    List(Vec<Json>),
    Object(Vec<(Option<String>, Json)>),
    /// Printed as it is; never read.
    Raw(String),
}

/// One value with everything that is wrong with it although it is JSON.
#[derive(Debug, Clone)]
pub struct Read {
    pub value: Json,
    /// Some object has a key twice.
    pub is_twice: bool,
    /// Some object has a key the JSON library gives a meaning to.
    pub is_reserved: bool,
    /// Some text or key has half a surrogate pair.
    pub is_lone: bool,
    /// Objects and lists inside each other at most.
    pub depth: usize,
}

const RESERVED: &str = "$serde_json::private::";

impl Json {
    pub fn text(text: &str) -> Json {
        Json::Text(Some(text.to_owned()))
    }

    /// The first member of this name.
    pub fn member(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(key, _)| key.as_deref() == Some(name)).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The member at the end of a path.
    pub fn at(&self, path: &[&str]) -> Option<&Json> {
        path.iter().try_fold(self, |value, name| value.member(name))
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(Some(text)) => Some(text),
            _ => None,
        }
    }

    pub fn is_object(&self) -> bool {
        matches!(self, Json::Object(_))
    }

    /// Equal as data: members in any order, numbers by value.
    pub fn is_same(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Number(a), Json::Number(b)) => decimal(a) == decimal(b),
            (Json::List(a), Json::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_same(b)),
            (Json::Object(a), Json::Object(b)) => {
                let is_in = |(key, value): &(Option<String>, Json)| b.iter().any(|(k, v)| k == key && v.is_same(value));
                a.len() == b.len() && a.iter().all(is_in)
            }
            (a, b) => a == b,
        }
    }

    pub fn print(&self) -> String {
        let mut out = String::new();
        self.print_to(&mut out);
        out
    }

    fn print_to(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
            Json::Number(text) | Json::Raw(text) => out.push_str(text),
            Json::Text(text) => print_text(text.as_deref(), out),
            Json::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    item.print_to(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    print_text(key.as_deref(), out);
                    out.push(':');
                    value.print_to(out);
                }
                out.push('}');
            }
        }
    }
}

fn print_text(text: Option<&str>, out: &mut String) {
    out.push('"');
    for c in text.unwrap_or("lone").chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\0'..='\x1f' => write!(out, "\\u{:04x}", u32::from(c)).unwrap(),
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// A decimal numeral as sign, significant digits and power of ten; equal for equal numbers. `None` for none, and for an
/// exponent beyond all reason.
pub fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i64>()),
        None => (text, Ok(0)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = format!("{whole}{fraction}").trim_start_matches('0').to_owned();
    if digits.is_empty() {
        return Some((false, digits, 0));
    }
    let mut power = exponent.ok()?.checked_sub(fraction.len() as i64)?;
    while digits.ends_with('0') {
        digits.pop();
        power += 1;
    }
    Some((is_negative, digits, power))
}

/// Reads exactly one value with white space around it; `None` if the text is anything else.
pub fn read(text: &str) -> Option<Read> {
    let mut reader = Reader { bytes: text.as_bytes(), text, at: 0, depth: 0, found: Found::default() };
    reader.skip_space();
    let value = reader.value()?;
    reader.skip_space();
    let Found { is_twice, is_reserved, is_lone, depth } = reader.found;
    (reader.at == reader.bytes.len()).then_some(Read { value, is_twice, is_reserved, is_lone, depth })
}

#[derive(Default)]
struct Found {
    is_twice: bool,
    is_reserved: bool,
    is_lone: bool,
    depth: usize,
}

struct Reader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    depth: usize,
    found: Found,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn take(&mut self, literal: &str) -> Option<()> {
        self.text[self.at..].starts_with(literal).then(|| self.at += literal.len())
    }

    fn value(&mut self) -> Option<Json> {
        match self.peek()? {
            b'n' => self.take("null").map(|()| Json::Null),
            b't' => self.take("true").map(|()| Json::Bool(true)),
            b'f' => self.take("false").map(|()| Json::Bool(false)),
            b'"' => self.string().map(Json::Text),
            b'[' => self.nested(Reader::list),
            b'{' => self.nested(Reader::object),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Option<Json>) -> Option<Json> {
        self.at += 1;
        self.depth += 1;
        self.found.depth = self.found.depth.max(self.depth);
        let value = read(self)?;
        self.depth -= 1;
        Some(value)
    }

    /// Behind the opening bracket: whether the closing one follows at once.
    fn is_empty(&mut self, close: u8) -> bool {
        self.skip_space();
        let is_empty = self.peek() == Some(close);
        self.at += usize::from(is_empty);
        is_empty
    }

    /// Behind a value: true for a comma, false for the closing bracket.
    fn goes_on(&mut self, close: u8) -> Option<bool> {
        self.skip_space();
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            byte if byte == close => Some(false),
            _ => None,
        }
    }

    fn list(&mut self) -> Option<Json> {
        let mut items = Vec::new();
        if self.is_empty(b']') {
            return Some(Json::List(items));
        }
        loop {
            self.skip_space();
            items.push(self.value()?);
            if !self.goes_on(b']')? {
                return Some(Json::List(items));
            }
        }
    }

    fn object(&mut self) -> Option<Json> {
        let mut members: Vec<(Option<String>, Json)> = Vec::new();
        if self.is_empty(b'}') {
            return Some(Json::Object(members));
        }
        loop {
            self.skip_space();
            let key = if self.peek()? == b'"' { self.string()? } else { return None };
            self.skip_space();
            self.take(":")?;
            self.skip_space();
            self.found.is_twice |= key.is_some() && members.iter().any(|(other, _)| *other == key);
            self.found.is_reserved |= key.as_ref().is_some_and(|key| key.starts_with(RESERVED));
            let value = self.value()?;
            members.push((key, value));
            if !self.goes_on(b'}')? {
                return Some(Json::Object(members));
            }
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.at;
        let _ = self.take("-");
        let first = self.peek();
        let count = self.digits();
        if count == 0 || (count > 1 && first == Some(b'0')) {
            return None;
        }
        if self.take(".").is_some() && self.digits() == 0 {
            return None;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return None;
            }
        }
        Some(Json::Number(self.text[start..self.at].to_owned()))
    }

    /// `None`: no string. `Some(None)`: one with half a surrogate pair.
    fn string(&mut self) -> Option<Option<String>> {
        self.at += 1;
        let (mut out, mut is_whole) = (String::new(), true);
        loop {
            let c = self.text[self.at..].chars().next()?;
            self.at += c.len_utf8();
            match c {
                '"' => break,
                '\0'..='\x1f' => return None,
                '\\' => match self.escape()? {
                    Some(c) => out.push(c),
                    None => is_whole = false,
                },
                c => out.push(c),
            }
        }
        self.found.is_lone |= !is_whole;
        Some(is_whole.then_some(out))
    }

    fn escape(&mut self) -> Option<Option<char>> {
        let byte = self.peek()?;
        self.at += 1;
        let c = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unit().map(|unit| self.pair(unit)),
            _ => return None,
        };
        Some(Some(c))
    }

    fn unit(&mut self) -> Option<u32> {
        let hex = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        hex.iter().try_fold(0, |sum, byte| Some(sum * 16 + char::from(*byte).to_digit(16)?))
    }

    /// The character of one unit, taking the second half of a pair if it follows.
    fn pair(&mut self, unit: u32) -> Option<char> {
        let before = self.at;
        if (0xd800..0xdc00).contains(&unit) {
            let low = self.take("\\u").and_then(|()| self.unit());
            if let Some(low @ 0xdc00..0xe000) = low {
                return char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
            }
            self.at = before;
        }
        char::from_u32(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_reads_json_strictly() {
        for text in [
            "",
            "{",
            "01",
            "1.",
            "-",
            "+1",
            "1e",
            "nul",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "\"\t\"",
            "\"\\x\"",
            "1 2",
            "\u{feff}1",
        ] {
            assert!(read(text).is_none(), "{text}");
        }
        let all = r#" {"a":[1,-0.5e+3,true,null,"\u0061\ud83c\udf89\/"],"b":{}} "#;
        let printed = read(all).unwrap().value.print();
        assert_eq!(printed, r#"{"a":[1,-0.5e+3,true,null,"a🎉/"],"b":{}}"#);
        assert!(read(r#"[{"a":1,"\u0061":2}]"#).unwrap().is_twice);
        assert!(read(r#""\ud83c\u0041""#).unwrap().is_lone);
        assert!(read(r#"{"$serde_json::private::X":1}"#).unwrap().is_reserved);
        assert_eq!(read("[[],[[]]]").unwrap().depth, 3);
    }

    #[test]
    fn numbers_are_equal_by_value() {
        for (a, b) in [("1", "1.0"), ("100", "1e2"), ("-0", "0.00"), ("0.10", "1e-1"), ("1e+30", "1E30")] {
            assert_eq!(decimal(a), decimal(b), "{a} {b}");
        }
        for (a, b) in [("1", "10"), ("-1", "1"), ("9007199254740993", "9007199254740992")] {
            assert_ne!(decimal(a), decimal(b), "{a} {b}");
        }
    }
}
