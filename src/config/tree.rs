//! The configuration text as a tree in which every value knows where it stands.
//!
//! Duplicate keys, depth, broken strings and numbers that cannot be held are found here, before any `Value` is made of the
//! text. Positions are byte offsets; line, column and JSON Pointer are worked out only for what is printed. It never says
//! what a key means.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Nesting of the file; far beyond any real schema, far below what recursion could hurt.
pub const DEPTH_MAX: usize = 64;

/// Keys with this prefix make serde_json take an object for something else.
const RESERVED_PREFIX: &str = "$serde_json::private::";

/// One value of the file.
#[derive(Debug)]
pub struct Node {
    /// Byte offset of its first byte.
    pub at: usize,
    /// Byte offset after its last byte.
    pub end: usize,
    /// What it is.
    pub shape: Shape,
}

/// The JSON types, members in the order they were written.
#[derive(Debug)]
pub enum Shape {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number in its own digits.
    Number(String),
    /// A string, unescaped.
    Text(String),
    /// An array.
    List(Vec<Node>),
    /// An object; of a duplicate key the first stands.
    Map(Vec<Member>),
    /// Already reported; nothing more is to be said about it.
    Broken,
}

/// One member of an object.
#[derive(Debug)]
pub struct Member {
    /// The key, unescaped.
    pub key: String,
    /// Byte offset of the key's opening quote.
    pub key_at: usize,
    /// Its value.
    pub node: Node,
}

impl Node {
    /// The type with its article, for messages.
    pub fn kind(&self) -> &'static str {
        match self.shape {
            Shape::Null => "null",
            Shape::Bool(_) => "a boolean",
            Shape::Number(_) => "a number",
            Shape::Text(_) => "a string",
            Shape::List(_) => "an array",
            Shape::Map(_) => "an object",
            Shape::Broken => "something unreadable",
        }
    }

    /// The members, if it is an object.
    pub fn members(&self) -> Option<&[Member]> {
        match &self.shape {
            Shape::Map(members) => Some(members),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    pub fn elements(&self) -> Option<&[Node]> {
        match &self.shape {
            Shape::List(elements) => Some(elements),
            _ => None,
        }
    }

    /// The string, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.shape {
            Shape::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A member of an object.
    pub fn member(&self, key: &str) -> Option<&Member> {
        self.members()?.iter().find(|member| member.key == key)
    }

    /// The node a JSON Pointer (RFC 6901, from this node) leads to, or the last one on its way that exists.
    pub fn find(&self, pointer: &str) -> &Node {
        pointer.split('/').skip(1).try_fold(self, |node, token| node.step(token).ok_or(node)).unwrap_or_else(|last| last)
    }

    fn step(&self, token: &str) -> Option<&Node> {
        match &self.shape {
            Shape::Map(_) => self.member(&token.replace("~1", "/").replace("~0", "~")).map(|member| &member.node),
            Shape::List(elements) => elements.get(token.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// Where the first string that holds one of `needles` stands, in this node or below it.
    pub fn find_text(&self, needles: &[&str]) -> Option<usize> {
        match &self.shape {
            Shape::Text(text) => needles.iter().any(|needle| text.contains(needle)).then_some(self.at),
            Shape::List(elements) => elements.iter().find_map(|node| node.find_text(needles)),
            Shape::Map(members) => members.iter().find_map(|member| member.node.find_text(needles)),
            _ => None,
        }
    }

    /// Whether nothing in it was reported as unreadable.
    pub fn is_whole(&self) -> bool {
        match &self.shape {
            Shape::Broken => false,
            Shape::List(elements) => elements.iter().all(Node::is_whole),
            Shape::Map(members) => members.iter().all(|member| member.node.is_whole()),
            Shape::Null | Shape::Bool(_) | Shape::Number(_) | Shape::Text(_) => true,
        }
    }

    /// Compact JSON, members and digits as written.
    pub fn write_json(&self, out: &mut String) {
        match &self.shape {
            Shape::Null | Shape::Broken => out.push_str("null"),
            Shape::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Shape::Number(digits) => out.push_str(digits),
            Shape::Text(text) => write_text(text, out),
            Shape::List(elements) => write_list(elements, out, |node, out| node.write_json(out)),
            Shape::Map(members) => write_map(members, out, |member, out| member.node.write_json(out)),
        }
    }

    /// The same as a `Value`. Duplicate keys were refused when the tree was made.
    pub fn to_value(&self) -> Value {
        let mut json = String::new();
        self.write_json(&mut json);
        serde_json::from_str(&json).expect("a tree renders as JSON within the parser's depth")
    }
}

/// A JSON string.
pub fn write_text(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}

/// A JSON array whose elements are written by `each`.
pub fn write_list(elements: &[Node], out: &mut String, mut each: impl FnMut(&Node, &mut String)) {
    out.push('[');
    for (index, node) in elements.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        each(node, out);
    }
    out.push(']');
}

/// A JSON object whose values are written by `each`.
pub fn write_map(members: &[Member], out: &mut String, mut each: impl FnMut(&Member, &mut String)) {
    out.push('{');
    for (index, member) in members.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(&member.key, out);
        out.push(':');
        each(member, out);
    }
    out.push('}');
}

/// Problems that are kept with their text; beyond it they are counted only.
const PROBLEMS_KEPT: usize = 1000;

/// What is wrong, and where.
#[derive(Debug, Default)]
pub struct Problems {
    kept: Vec<(usize, String)>,
    total: usize,
}

impl Problems {
    /// One more, at a byte offset: what was expected and what came.
    pub fn add(&mut self, at: usize, text: impl Into<String>) {
        self.total += 1;
        if self.kept.len() < PROBLEMS_KEPT {
            self.kept.push((at, text.into()));
        }
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Byte offsets and texts in the order of the file, as far as they were kept.
    pub fn in_order(mut self) -> Vec<(usize, String)> {
        self.kept.sort_by_key(|(at, _)| *at);
        self.kept
    }
}

/// One JSON value and nothing else; what is wrong with it goes to `problems`. `None` if it is no JSON at all.
pub fn parse(text: &str, problems: &mut Problems) -> Option<Node> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => Some(Builder { text, problems }.node(raw, 1)),
        Err(error) => {
            problems.add(offset_of(text, error.line(), error.column()), syntax_text(&error));
            None
        }
    }
}

fn syntax_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("not JSON: {what}")
}

struct Builder<'t, 'p> {
    text: &'t str,
    problems: &'p mut Problems,
}

impl<'t> Builder<'t, '_> {
    fn node(&mut self, raw: &'t RawValue, depth: usize) -> Node {
        let json = raw.get();
        let at = self.offset(raw);
        let shape = match json.as_bytes().first() {
            Some(b'{' | b'[') if depth > DEPTH_MAX => self.broken(at, format!("nested deeper than {DEPTH_MAX} levels")),
            Some(b'{') => self.map(json, at, depth),
            Some(b'[') => self.list(json, at, depth),
            Some(b'"') => self.string(json, at).map_or(Shape::Broken, Shape::Text),
            Some(b't') => Shape::Bool(true),
            Some(b'f') => Shape::Bool(false),
            Some(b'n') => Shape::Null,
            _ => self.number(json, at),
        };
        Node { at, end: at + json.len(), shape }
    }

    /// Raw values borrow from the text, so their address says where they stand.
    fn offset(&self, raw: &RawValue) -> usize {
        raw.get().as_ptr() as usize - self.text.as_ptr() as usize
    }

    fn broken(&mut self, at: usize, text: String) -> Shape {
        self.problems.add(at, text);
        Shape::Broken
    }

    fn map(&mut self, json: &'t str, at: usize, depth: usize) -> Shape {
        let pairs = match serde_json::from_str::<Pairs<'t>>(json) {
            Ok(Pairs(pairs)) => pairs,
            Err(error) => return self.broken(at, syntax_text(&error)),
        };
        let mut members = Vec::with_capacity(pairs.len());
        let mut seen: HashMap<String, usize> = HashMap::with_capacity(pairs.len());
        for (raw_key, raw_value) in pairs {
            let key_at = self.offset(raw_key);
            let Some(key) = self.string(raw_key.get(), key_at) else { continue };
            if key.starts_with(RESERVED_PREFIX) {
                self.problems.add(key_at, "keys with this prefix are serde_json's own");
                continue;
            }
            if let Some(first) = seen.get(&key) {
                self.duplicate(&key, key_at, *first);
                continue;
            }
            seen.insert(key.clone(), key_at);
            let node = self.node(raw_value, depth + 1);
            members.push(Member { key, key_at, node });
        }
        Shape::Map(members)
    }

    /// Looking for the line costs a pass over the text, which a file full of duplicates does not get.
    fn duplicate(&mut self, key: &str, at: usize, first: usize) {
        if self.problems.total() >= PROBLEMS_KEPT {
            return self.problems.add(at, "duplicate key");
        }
        let (line, column) = line_column(self.text, first);
        self.problems.add(at, format!("duplicate key {}, first at {line}:{column}", quote(key)));
    }

    fn list(&mut self, json: &'t str, at: usize, depth: usize) -> Shape {
        match serde_json::from_str::<Vec<&'t RawValue>>(json) {
            Ok(elements) => Shape::List(elements.into_iter().map(|raw| self.node(raw, depth + 1)).collect()),
            Err(error) => self.broken(at, syntax_text(&error)),
        }
    }

    fn string(&mut self, json: &str, at: usize) -> Option<String> {
        match serde_json::from_str(json) {
            Ok(text) => Some(text),
            Err(error) => {
                self.problems.add(at, syntax_text(&error));
                None
            }
        }
    }

    /// Digits that would change on their way through `Value` are refused rather than rounded.
    fn number(&mut self, json: &str, at: usize) -> Shape {
        if serde_json::from_str::<serde_json::Number>(json).is_err() || crate::rpc::strict::numbers_exact(json).is_err() {
            return self.broken(at, format!("the number {} cannot be held exactly", quote(json)));
        }
        Shape::Number(json.to_owned())
    }
}

/// The members of one object, keys and values raw, duplicates kept.
struct Pairs<'t>(Vec<(&'t RawValue, &'t RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Pairs<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// Line and column of a byte offset, both from 1; columns count characters.
pub fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The byte offset of serde_json's position: lines from 1, columns in bytes, 0 right after a line feed.
fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let line_start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (line_start + column.saturating_sub(1)).min(text.len())
}

/// The JSON Pointer of the innermost value around a byte offset, each token escaped and cut for one line of print.
pub fn pointer_of(root: &Node, offset: usize) -> String {
    let mut pointer = String::new();
    let mut node = root;
    loop {
        let next = match &node.shape {
            Shape::Map(members) => members
                .iter()
                .find(|member| (member.key_at..member.node.end).contains(&offset))
                .map(|member| (shown(&member.key.replace('~', "~0").replace('/', "~1")), &member.node)),
            Shape::List(elements) => elements
                .iter()
                .position(|element| (element.at..element.end).contains(&offset))
                .map(|index| (index.to_string(), &elements[index])),
            _ => None,
        };
        let Some((token, inner)) = next else { return pointer };
        pointer.push('/');
        pointer.push_str(&token);
        node = inner;
    }
}

/// The most characters of somebody's text in a message.
const SHOWN_CHARS: usize = 60;

/// Text for one line of print: controls escaped, cut.
pub fn shown(text: &str) -> String {
    let mut out = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == SHOWN_CHARS {
            out.push('…');
            break;
        }
        let breaks_line = character.is_control()
            || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if breaks_line { out.extend(character.escape_unicode()) } else { out.push(character) }
    }
    out
}

/// The same in quotes.
pub fn quote(text: &str) -> String {
    format!("\"{}\"", shown(text))
}
