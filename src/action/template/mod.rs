//! Typed templates: parsed once when the configuration is loaded, filled per call.
//!
//! A template is never text pasted into a language: each place of an action (path segment, query pair, header value, argv
//! element, JSON value) has a kind of its own below, which encodes an argument for exactly that place or refuses it. An
//! argument's text is looked at once and never expanded again. Pure: nothing here reads a file, a clock or the environment.

pub mod argv;
pub mod body;
pub mod header;
pub mod pairs;
pub mod path;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::action::json::{Json, Members};

/// Characters of foreign text quoted in an error.
const QUOTED_CHARS: usize = 60;

/// The placeholder that needs no argument: where the input declares none of this name, it stands for the tool's own limit.
pub const LIMIT: &str = "limit";

/// The arguments of one call: a JSON object that has passed the tool's input schema, and the tool's own limit.
#[derive(Debug, Clone, Copy)]
pub struct Arguments<'a> {
    members: Option<&'a Members<'a>>,
    limit: Option<&'a Json<'a>>,
}

impl<'a> Arguments<'a> {
    /// Wraps the validated object; anything else counts as an object without members.
    pub fn new(value: &'a Json<'a>) -> Self {
        Arguments { members: value.as_object(), limit: None }
    }

    /// The same with what `{limit}` stands for: nothing where the input declares an argument of that name.
    pub fn with_limit(self, limit: Option<&'a Json<'a>>) -> Self {
        Arguments { limit, ..self }
    }

    /// The argument as given, or the limit; `None` if the caller left it out. An explicit `null` is `Some(Null)`.
    pub fn get(&self, name: &str) -> Option<&'a Json<'a>> {
        let given = self.members.and_then(|members| members.get(name));
        given.or_else(|| self.limit.filter(|_| name == LIMIT))
    }

    /// The text of a scalar argument. `Ok(None)` if it is absent or `null`; an array or object is an error.
    pub fn text(&self, name: &str) -> Result<Option<Cow<'a, str>>, FillError> {
        match self.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => scalar_text(name, value).map(Some),
        }
    }

    /// Like `text`, where the template has no meaning without the argument.
    pub fn required_text(&self, name: &str) -> Result<Cow<'a, str>, FillError> {
        self.text(name)?.ok_or_else(|| FillError::argument(name, "a value", "none"))
    }

    /// The argument as a list of texts: an array gives each element, a scalar itself, an absent one or `null` nothing.
    pub fn texts(&self, name: &str) -> Result<Vec<Cow<'a, str>>, FillError> {
        match self.get(name) {
            None | Some(Json::Null) => Ok(Vec::new()),
            Some(Json::Array(items)) => items.iter().map(|item| scalar_text(name, item)).collect(),
            Some(value) => Ok(vec![scalar_text(name, value)?]),
        }
    }
}

/// A string as it is, a number as JSON writes it, `true` or `false`.
fn scalar_text<'a>(name: &str, value: &'a Json<'a>) -> Result<Cow<'a, str>, FillError> {
    let got = match value {
        Json::Text(text) => return Ok(Cow::Borrowed(text)),
        Json::Number(number) => return Ok(Cow::Owned(number.to_string())),
        Json::Bool(yes) => return Ok(Cow::Borrowed(if *yes { "true" } else { "false" })),
        Json::Null => "null",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    };
    Err(FillError::argument(name, "a string, number or boolean here", got))
}

/// One stretch of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text of the configuration, `{{` and `}}` already single.
    Literal(String),
    /// `{name}`: the argument's text, encoded for its place.
    Argument(String),
    /// `{+name}`: the same, but `/` stays; in paths only.
    Segments(String),
}

/// A template as written: literal text and placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    pieces: Vec<Piece>,
}

impl Text {
    /// Parses `{name}`, `{{` and `}}`. A lone brace, `{+name}` or any other form is an error that names its position.
    pub fn parse(text: &str) -> Result<Text, TemplateError> {
        let parsed = Text::parse_path(text)?;
        match parsed.pieces.iter().find_map(|piece| if let Piece::Segments(name) = piece { Some(name) } else { None }) {
            None => Ok(parsed),
            Some(name) => {
                let at = text.find("{+").unwrap_or(0);
                Err(TemplateError::new(text, at, format!("expected {{{name}}}, got {{+{name}}}, which is for paths only")))
            }
        }
    }

    /// Like `parse`, with `{+name}` allowed.
    pub fn parse_path(text: &str) -> Result<Text, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(brace) = text[at..].find(['{', '}']).map(|offset| at + offset) {
            literal.push_str(&text[at..brace]);
            if text[brace..].starts_with("{{") || text[brace..].starts_with("}}") {
                literal.push_str(&text[brace..=brace]);
                at = brace + 2;
                continue;
            }
            let (piece, end) = parse_placeholder(text, brace)?;
            push_literal(&mut pieces, &mut literal);
            pieces.push(piece);
            at = end;
        }
        literal.push_str(&text[at..]);
        push_literal(&mut pieces, &mut literal);
        Ok(Text { pieces })
    }

    /// A template that must hold no placeholder: a name or a key. Gives its text.
    pub fn parse_literal(text: &str) -> Result<String, TemplateError> {
        let parsed = Text::parse(text)?;
        match parsed.literal() {
            Some(literal) => Ok(literal.to_owned()),
            None => {
                let name = parsed.names().next().unwrap_or_default();
                let at = text.find(&format!("{{{name}}}")).unwrap_or(0);
                Err(TemplateError::new(text, at, format!("expected literal text, got the placeholder {{{name}}}")))
            }
        }
    }

    /// The pieces in order; no two literals stand side by side and none is empty.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Names of the placeholders, in order, with repetitions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Literal(_) => None,
            Piece::Argument(name) | Piece::Segments(name) => Some(name.as_str()),
        })
    }

    /// The name, if the template is one placeholder and nothing else.
    pub fn alone(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Argument(name) | Piece::Segments(name)] => Some(name),
            _ => None,
        }
    }

    /// The text, if there is no placeholder.
    pub fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Fills every piece with `push`, which encodes for the place. `Ok(None)` if an argument is absent. `place` names the
    /// whole for the error that says it grew over `bytes_max` (counted before encoding, so that the result stays bounded).
    pub fn fill(
        &self,
        arguments: &Arguments<'_>,
        place: &'static str,
        bytes_max: usize,
        push: fn(&str, &mut String),
    ) -> Result<Option<String>, FillError> {
        let mut out = String::new();
        for piece in &self.pieces {
            let text = match piece {
                Piece::Literal(text) => Cow::Borrowed(text.as_str()),
                Piece::Argument(name) | Piece::Segments(name) => match arguments.text(name)? {
                    Some(text) => text,
                    None => return Ok(None),
                },
            };
            if out.len() + text.len() > bytes_max {
                return Err(FillError::TooLong { place, bytes_max });
            }
            push(&text, &mut out);
        }
        Ok(Some(out))
    }
}

fn push_literal(pieces: &mut Vec<Piece>, literal: &mut String) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(std::mem::take(literal)));
    }
}

/// Parses the placeholder whose brace stands at byte `at`; gives it with the offset behind it.
fn parse_placeholder(text: &str, at: usize) -> Result<(Piece, usize), TemplateError> {
    let rest = &text[at..];
    let wrong = |problem: String| TemplateError::new(text, at, problem);
    if rest.starts_with('}') {
        return Err(wrong("expected }} for a brace, got a lone }".to_owned()));
    }
    let Some(close) = rest.find('}') else {
        return Err(wrong("expected a placeholder {name}, or {{ for a brace, got a lone {".to_owned()));
    };
    let inner = &rest[1..close];
    let (name, segments) = inner.strip_prefix('+').map_or((inner, false), |name| (name, true));
    if !is_name(name) {
        let got = quoted(&rest[..=close]);
        return Err(wrong(format!(
            "expected a placeholder {{name}} of letters, digits, _ and -, or {{{{ for a brace, got {got}"
        )));
    }
    let name = name.to_owned();
    Ok((if segments { Piece::Segments(name) } else { Piece::Argument(name) }, at + close + 1))
}

/// `[A-Za-z_][A-Za-z0-9_-]*`
fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The placeholders of a recipe: what it uses, and what it cannot do without.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    used: BTreeSet<String>,
    required: BTreeSet<String>,
}

impl Names {
    /// Adds placeholders whose place disappears with an absent argument.
    pub(crate) fn add_optional<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.used.extend(names.map(str::to_owned));
    }

    /// Adds placeholders without which there is no action: those of a path and of a text body.
    pub(crate) fn add_required<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            self.used.insert(name.to_owned());
            self.required.insert(name.to_owned());
        }
    }

    /// Every placeholder, sorted.
    pub fn used(&self) -> impl Iterator<Item = &str> {
        self.used.iter().map(String::as_str)
    }

    /// Those the input schema must list in `required`, sorted.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        self.required.iter().map(String::as_str)
    }

    /// Compares with an input schema (`properties`, `required`): each placeholder is a property or `{limit}`, each property is
    /// used, and what cannot be left out is required. One sentence a problem; empty if all is well.
    pub fn check(&self, input: &Value) -> Vec<String> {
        let properties: BTreeSet<&str> =
            input["properties"].as_object().map(|map| map.keys().map(String::as_str).collect()).unwrap_or_default();
        let required: BTreeSet<&str> =
            input["required"].as_array().map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default();
        let declared = match properties.len() {
            0 => "none".to_owned(),
            _ => properties.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "),
        };
        let unknown = self.used().filter(|name| *name != LIMIT && !properties.contains(name));
        let unknown =
            unknown.map(|name| format!("placeholder {{{name}}}: expected a property of the input (declared: {declared})"));
        let unused = properties.iter().filter(|name| !self.used.contains(**name));
        let unused = unused.map(|name| format!("property {}: expected a placeholder that uses it, got none", quoted(name)));
        let optional = self.required().filter(|name| properties.contains(name) && !required.contains(name));
        let optional = optional.map(|name| {
            format!("placeholder {{{name}}}: expected its property in \"required\": a path or a whole body cannot leave it out")
        });
        unknown.chain(unused).chain(optional).collect()
    }
}

/// Why a template of the configuration is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The template, quoted and cut.
    pub template: String,
    /// Where, in characters, counted from one.
    pub position: usize,
    /// What was expected there and what came.
    pub problem: String,
}

impl TemplateError {
    pub(crate) fn new(template: &str, byte: usize, problem: String) -> Self {
        let position = template.char_indices().take_while(|(at, _)| *at < byte).count() + 1;
        TemplateError { template: quoted(template), position, problem }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, character {}: {}", self.template, self.position, self.problem)
    }
}

impl std::error::Error for TemplateError {}

/// Why valid arguments still fill no template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FillError {
    /// One argument cannot stand in its place.
    Argument {
        /// Property name.
        name: String,
        /// What its place takes.
        expected: &'static str,
        /// What came, cut.
        got: String,
    },
    /// The whole is longer than its place may be.
    TooLong {
        /// Which whole.
        place: &'static str,
        /// The most it may have.
        bytes_max: usize,
    },
}

impl FillError {
    pub(crate) fn argument(name: &str, expected: &'static str, got: &str) -> Self {
        FillError::Argument { name: name.to_owned(), expected, got: got.to_owned() }
    }
}

impl fmt::Display for FillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FillError::Argument { name, expected, got } => {
                write!(f, "argument {}: expected {expected}, got {got}", quoted(name))
            }
            FillError::TooLong { place, bytes_max } => {
                write!(f, "arguments: expected at most {bytes_max} bytes in {place} once filled, got more")
            }
        }
    }
}

impl std::error::Error for FillError {}

/// Foreign text for an error: quoted, escaped, cut.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", shown(text, QUOTED_CHARS))
}

/// Foreign text for people: controls, quotes and what does not print are escaped, and at most `chars_max` characters of it
/// are kept, with an ellipsis where more was left out.
pub(crate) fn shown(text: &str, chars_max: usize) -> String {
    let mut out: String = text.chars().take(chars_max).flat_map(char::escape_debug).collect();
    if text.chars().nth(chars_max).is_some() {
        out.push('…');
    }
    out
}

/// Appends `text` percent-encoded: all but RFC 3986 section 2.3 unreserved bytes.
pub(crate) fn push_percent(text: &str, out: &mut String) {
    push_encoded(text, out, |_| false);
}

/// Percent-encodes all but unreserved bytes and those `keep` names (which must be ASCII).
pub(crate) fn push_encoded(text: &str, out: &mut String, keep: fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if is_unreserved(byte) || keep(byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// RFC 3986 section 2.3.
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Texts every kind of template is tried with.
#[cfg(test)]
pub(crate) mod sample {
    /// Texts that have broken gateways, each control byte, and 1,500 random ones from a fixed seed.
    pub(crate) fn texts() -> Vec<String> {
        let mut texts: Vec<String> = FIXED.iter().map(|text| (*text).to_owned()).collect();
        texts.extend((0..=0x9f_u8).map(|byte| format!("a{}b", char::from(byte))));
        texts.extend((0..0x20_u8).map(|byte| char::from(byte).to_string()));
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        texts.extend((0..1500).map(|_| random.text()));
        texts
    }

    const FIXED: &[&str] = &[
        "",
        "note\ntouch pwned",
        "$(touch pwned)",
        "`touch pwned`",
        "; touch pwned",
        "| sh",
        "&& x",
        "> x",
        "\0",
        "a\0b",
        "\r",
        "x\r\nx-injected: 1",
        "-rf",
        "--",
        "-",
        "--upload-file=/etc/passwd",
        "'",
        "\"",
        "\\",
        "'; x '",
        "\",\"admin\":true,\"x\":\"",
        "{x}",
        "{other}",
        "{+x}",
        "{{",
        "}}",
        "{",
        "}",
        ".",
        "..",
        "...",
        "../x",
        "x/..",
        "a/../b",
        "a/./b",
        "a//b",
        "/",
        "/a",
        "a/",
        "a/b",
        "..\\x",
        "..;x",
        "%2e%2e",
        "%2F",
        "%",
        "%zz",
        "a+b c",
        "?q=1#f",
        "a&b=c",
        "~*!",
        "@evil.example",
        " lead",
        "trail ",
        "\ttab",
        "naïve",
        "日本語",
        "🦀",
        "e\u{301}",
        "\u{85}\u{2028}\u{2029}\u{feff}",
        "\u{202e}",
        "\u{fffd}\u{10ffff}",
    ];

    /// xorshift64*: no crate, the same texts on every machine.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
        }

        fn text(&mut self) -> String {
            (0..self.below(12)).map(|_| self.char()).collect()
        }

        fn char(&mut self) -> char {
            const SHARP: &[u8] = b"-./%{}+x\\\"'`$();&|<> \n\r\0?#=:@~*[]";
            match self.below(4) {
                0 => char::from(SHARP[self.below(SHARP.len())]),
                1 => char::from(self.below(128) as u8),
                2 => char::from(b'a' + self.below(26) as u8),
                _ => char::from_u32(self.below(0x11_0000) as u32).unwrap_or('é'),
            }
        }
    }

    /// Decodes `%XX`; with `plus`, `+` is a space. Written apart from the encoder.
    pub(crate) fn decode(text: &str, plus: char) -> String {
        let bytes = text.as_bytes();
        let mut out = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == b'%' {
                out.push(u8::from_str_radix(&text[at + 1..at + 3], 16).unwrap());
                at += 3;
            } else {
                out.push(if bytes[at] == b'+' { plus as u8 } else { bytes[at] });
                at += 1;
            }
        }
        String::from_utf8(out).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check_parse(text: &str, want: &[Piece]) {
        assert_eq!(Text::parse_path(text).unwrap().pieces(), want, "{text}");
    }

    #[track_caller]
    fn check_refused(text: &str, position: usize, part: &str) {
        let error = Text::parse(text).unwrap_err();
        assert_eq!(error.position, position, "{text}: {error}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }

    fn literal(text: &str) -> Piece {
        Piece::Literal(text.to_owned())
    }

    fn argument(name: &str) -> Piece {
        Piece::Argument(name.to_owned())
    }

    #[test]
    fn pieces() {
        check_parse("", &[]);
        check_parse("plain", &[literal("plain")]);
        check_parse("{x}", &[argument("x")]);
        check_parse("a{x}b{y-2}{_z}", &[literal("a"), argument("x"), literal("b"), argument("y-2"), argument("_z")]);
        check_parse("{+x}", &[Piece::Segments("x".to_owned())]);
        check_parse("{{x}}", &[literal("{x}")]);
        check_parse("{{{x}}}", &[literal("{"), argument("x"), literal("}")]);
        check_parse("é{{}}", &[literal("é{}")]);
    }

    #[test]
    fn wrong_forms() {
        check_refused("{", 1, "lone {");
        check_refused("ab}", 3, "lone }");
        check_refused("éé{x", 3, "lone {");
        check_refused("a{}", 2, "got \"{}\"");
        check_refused("{1x}", 1, "got \"{1x}\"");
        check_refused("{x y}", 1, "got \"{x y}\"");
        check_refused("{?x}", 1, "got \"{?x}\"");
        check_refused("{x*}", 1, "got \"{x*}\"");
        check_refused("{é}", 1, "placeholder");
        check_refused("{x}}", 4, "lone }");
        check_refused("a{+x}", 2, "for paths only");
        let error = Text::parse_literal("a{x}").unwrap_err();
        assert_eq!(error.to_string(), "\"a{x}\", character 2: expected literal text, got the placeholder {x}");
    }

    #[test]
    fn scalar_texts() {
        let value = json!({"s": "a{b}", "i": -3, "u": u64::MAX, "f": 1.50, "t": true, "n": null, "a": [1], "o": {}});
        let value = Json::from(value);
        let arguments = Arguments::new(&value);
        let text = |name| arguments.text(name).map(|text| text.map(Cow::into_owned)).map_err(|error| error.to_string());
        assert_eq!(text("s"), Ok(Some("a{b}".to_owned())));
        assert_eq!(text("i"), Ok(Some("-3".to_owned())));
        assert_eq!(text("u"), Ok(Some("18446744073709551615".to_owned())));
        assert_eq!(text("f"), Ok(Some("1.5".to_owned())));
        assert_eq!(text("t"), Ok(Some("true".to_owned())));
        assert_eq!(text("n"), Ok(None));
        assert_eq!(text("missing"), Ok(None));
        assert_eq!(text("a"), Err("argument \"a\": expected a string, number or boolean here, got an array".to_owned()));
        assert_eq!(text("o"), Err("argument \"o\": expected a string, number or boolean here, got an object".to_owned()));
        assert!(Arguments::new(&json!([1]).into()).get("0").is_none());
    }

    #[test]
    fn the_limit_stands_where_no_argument_of_its_name_was_given() {
        let (limit, value, given) = (json!(512).into(), json!({"a": 1}).into(), json!({"limit": null}).into());
        let text = |value, name| Arguments::new(value).with_limit(Some(&limit)).text(name).unwrap().map(Cow::into_owned);
        assert_eq!(text(&value, "limit").as_deref(), Some("512"));
        assert_eq!(text(&Json::Null, "limit").as_deref(), Some("512"));
        assert_eq!((text(&value, "a").as_deref(), text(&value, "b")), (Some("1"), None));
        assert_eq!(text(&given, "limit"), None);
        assert_eq!(Arguments::new(&value).with_limit(None).get("limit"), None);
    }

    #[test]
    fn names_against_the_schema() {
        let mut names = Names::default();
        names.add_required(["repo"].into_iter());
        names.add_optional(["page"].into_iter());
        let input =
            |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
        assert!(names.check(&input(json!({"repo": {}, "page": {}}), json!(["repo"]))).is_empty());
        let problems = names.check(&input(json!({"repo": {}, "pages": {}}), json!([])));
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("{page}") && problems[0].contains("\"pages\""), "{problems:?}");
        assert!(problems[1].contains("property \"pages\""), "{problems:?}");
        assert!(problems[2].contains("{repo}") && problems[2].contains("required"), "{problems:?}");
        names.add_required([LIMIT].into_iter());
        assert!(names.check(&input(json!({"repo": {}, "page": {}}), json!(["repo"]))).is_empty());
        assert_eq!(names.check(&input(json!({"repo": {}, "page": {}, "limit": {}}), json!(["repo"]))).len(), 1);
        assert_eq!(names.check(&json!({"type": "object"})).len(), 2);
    }

    #[test]
    fn shown_text_is_cut_and_escaped() {
        assert_eq!(shown("a\nb\u{202e}\"", 99), "a\\nb\\u{202e}\\\"");
        assert_eq!(shown("ééé", 2), "éé…");
        assert_eq!(shown("éé", 2), "éé");
    }
}
