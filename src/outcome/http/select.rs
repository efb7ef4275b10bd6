//! `select`: a document with everything left out that no pointer names. Digits stay as they came.
//!
//! Pointers are JSON Pointers (RFC 6901) in which a `*` token means every element or member. The result has the shape of the
//! document: `/*/number` and `/*/title` over an array of objects give an array of objects with these two members; `/a/b` gives
//! `{"a":{"b":…}}`. Elements and members in which nothing is named are left out, and so are the positions of elements.
//! The document is read once, whatever its size, and never held as a tree or a list.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::outcome::http::walk::{Kind, Stopped, Walk};
use crate::wire::escape::compact;

/// The pointers of one tool, as a tree.
#[derive(Debug, Default)]
pub struct Select {
    /// A pointer ends here: all of the value is kept.
    keep: bool,
    children: Vec<(Token, Select)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Any,
    Named {
        name: String,
        /// The element it names in an array.
        index: Option<usize>,
    },
}

impl Select {
    /// From pointers that the configuration has checked; none selects everything.
    pub fn new(pointers: &[String]) -> Self {
        let mut root = Select { keep: pointers.is_empty(), children: Vec::new() };
        pointers.iter().for_each(|pointer| root.add(pointer));
        root
    }

    /// Whether all of a document is selected.
    pub fn is_all(&self) -> bool {
        self.keep
    }

    fn add(&mut self, pointer: &str) {
        let Some((_, path)) = pointer.split_once('/') else {
            self.keep = true;
            return;
        };
        let (token, rest) = path.find('/').map_or((path, ""), |at| path.split_at(at));
        let token = Token::new(token);
        let at = self.children.iter().position(|(known, _)| *known == token).unwrap_or_else(|| {
            self.children.push((token, Select::default()));
            self.children.len() - 1
        });
        self.children[at].1.add(rest);
    }
}

impl Token {
    fn new(written: &str) -> Self {
        if written == "*" {
            return Token::Any;
        }
        let name = written.replace("~1", "/").replace("~0", "~");
        let index = name.parse().ok().filter(|index: &usize| index.to_string() == name);
        Token::Named { name, index }
    }

    fn is_element(&self, at: usize) -> bool {
        match self {
            Token::Any => true,
            Token::Named { index, .. } => *index == Some(at),
        }
    }

    /// `raw` is a member name as written; it may be as large as the document, and is then not decoded.
    fn is_member(&self, raw: &str) -> bool {
        let Token::Named { name, .. } = self else { return true };
        let inside = &raw[1..raw.len() - 1];
        // An escape is at most six bytes for one.
        if inside.len() > 6 * name.len() {
            return false;
        }
        inside == name || inside.contains('\\') && decoded(raw).is_some_and(|decoded| decoded == *name)
    }
}

/// A string as it is shown: half a surrogate pair is U+FFFD.
fn decoded(raw: &str) -> Option<String> {
    let mut text = String::new();
    compact(raw, &mut text);
    serde_json::from_str(&text).ok()
}

/// What `pick` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picked {
    /// The pointers name nothing in the document; nothing was written.
    Nothing,
    /// What they name was written.
    Named {
        /// Halves of surrogate pairs that stand as U+FFFD in it.
        replaced: usize,
    },
}

/// Appends what `select` names of `document`, a JSON text, compact; names are written as they came. `cancelled` is asked at every
/// element, member and scalar, and for each 64 KiB written.
///
/// # Errors
/// Why it stopped. Then, as after `Nothing`, `out` is as it was.
pub fn pick(document: &str, select: &Select, out: &mut String, cancelled: &dyn Fn() -> bool) -> Result<Picked, Stopped> {
    let want = if select.keep { Want::All } else { Want::Below(vec![select]) };
    let mut walk = Walk::new(document, out, usize::MAX, cancelled);
    let begin = walk.mark();
    let named = walk.run(|walk, deserializer| Part { walk, want }.deserialize(deserializer));
    if named == Ok(true) {
        return Ok(Picked::Named { replaced: walk.replaced() });
    }
    walk.rewind(begin);
    named.map(|_| Picked::Nothing)
}

/// What is wanted of a value.
#[derive(Debug)]
pub(super) enum Want<'s> {
    Nothing,
    All,
    /// What these name below it; none of them keeps all of it.
    Below(Vec<&'s Select>),
}

impl<'s> Want<'s> {
    fn below(&self, matches: impl Fn(&Token) -> bool) -> Self {
        let nodes = match self {
            Want::Nothing => return Want::Nothing,
            Want::All => return Want::All,
            Want::Below(nodes) => nodes,
        };
        let mut matching = Vec::new();
        for (_, node) in nodes.iter().flat_map(|node| &node.children).filter(|(token, _)| matches(token)) {
            if node.keep {
                return Want::All;
            }
            matching.push(node);
        }
        if matching.is_empty() { Want::Nothing } else { Want::Below(matching) }
    }

    fn is_all(&self) -> bool {
        matches!(self, Want::All)
    }

    fn push(&self, text: &str, walk: &mut Walk<'_, '_>) {
        if !matches!(self, Want::Nothing) {
            walk.push(text);
        }
    }
}

/// Reads one value and writes what is wanted of it; gives whether that is anything. If not, some of it may be written all the same.
pub(super) struct Part<'w, 'd, 'o, 's> {
    pub(super) walk: &'w mut Walk<'d, 'o>,
    pub(super) want: Want<'s>,
}

impl<'d> DeserializeSeed<'d> for Part<'_, 'd, '_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'d>>(self, deserializer: D) -> Result<bool, D::Error> {
        self.walk.look()?;
        match self.walk.kind() {
            Kind::Array => deserializer.deserialize_seq(self),
            Kind::Object => deserializer.deserialize_map(self),
            Kind::Scalar => {
                let raw = self.walk.scalar(deserializer)?;
                if self.want.is_all() {
                    self.walk.push_scalar(raw)?;
                }
                Ok(self.want.is_all())
            }
        }
    }
}

impl<'d> Visitor<'d> for Part<'_, 'd, '_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut seq: A) -> Result<bool, A::Error> {
        let Part { walk, want } = self;
        walk.open()?;
        want.push("[", walk);
        let mut named = false;
        for at in 0.. {
            let below = want.below(|token| token.is_element(at));
            let begin = walk.mark();
            if named {
                below.push(",", walk);
            }
            let more = seq.next_element_seed(Part { walk, want: below })?;
            if more == Some(true) {
                named = true;
            } else {
                walk.rewind(begin);
            }
            if more.is_none() {
                break;
            }
        }
        walk.close();
        want.push("]", walk);
        Ok(named || want.is_all())
    }

    fn visit_map<A: MapAccess<'d>>(self, mut map: A) -> Result<bool, A::Error> {
        let Part { walk, want } = self;
        walk.open()?;
        want.push("{", walk);
        let mut named = false;
        while let Some(name) = map.next_key()? {
            let name = walk.pass(name);
            let below = want.below(|token| token.is_member(name));
            let begin = walk.mark();
            if !matches!(below, Want::Nothing) {
                walk.push(if named { "," } else { "" });
                walk.push_scalar(name)?;
                walk.push(":");
            }
            if map.next_value_seed(Part { walk, want: below })? {
                named = true;
            } else {
                walk.rewind(begin);
            }
        }
        walk.close();
        want.push("}", walk);
        Ok(named || want.is_all())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::escape::to_line;

    #[track_caller]
    fn check_select(document: &str, pointers: &[&str], expected: Option<&str>) {
        let pointers: Vec<String> = pointers.iter().map(|pointer| (*pointer).to_owned()).collect();
        let mut out = "x".to_owned();
        let picked = pick(document, &Select::new(&pointers), &mut out, &|| false).unwrap();
        assert_eq!((picked != Picked::Nothing).then(|| &out[1..]), expected, "{pointers:?} of {document}");
        if expected.is_none() {
            assert_eq!(out, "x");
        }
    }

    const ISSUES: &str = r#"[{"number":9007199254740993,"title":"a","x":1.0},{"title":"b"},{"x":2},3]"#;

    #[test]
    fn a_selection_is_the_document_with_the_rest_left_out() {
        check_select(ISSUES, &["/*/number", "/*/title"], Some(r#"[{"number":9007199254740993,"title":"a"},{"title":"b"}]"#));
        check_select(ISSUES, &["/*/x"], Some(r#"[{"x":1.0},{"x":2}]"#));
        check_select(ISSUES, &["/1"], Some(r#"[{"title":"b"}]"#));
        check_select(ISSUES, &["/0/title", "/*/x"], Some(r#"[{"title":"a","x":1.0},{"x":2}]"#));
        check_select(r#"{"a":{"b":1e2,"c":2},"d":3}"#, &["/a/b"], Some(r#"{"a":{"b":1e2}}"#));
        check_select(r#"{"a":{"b":1},"d":{"b":2},"e":5}"#, &["/*/b"], Some(r#"{"a":{"b":1},"d":{"b":2}}"#));
        check_select(r#"{"a":[{"b":[1, 2]}]}"#, &["/a/*/b/*"], Some(r#"{"a":[{"b":[1,2]}]}"#));
    }

    #[test]
    fn pointers_are_unescaped_and_the_empty_one_is_everything() {
        check_select(r#"{"a/b":1,"m~n":2,"":3}"#, &["/a~1b", "/m~0n", "/"], Some(r#"{"a/b":1,"m~n":2,"":3}"#));
        check_select(r#"{"~1":1}"#, &["/~01"], Some(r#"{"~1":1}"#));
        check_select(r#"{"a":1}"#, &[""], Some(r#"{"a":1}"#));
        check_select(r#"{"a":1}"#, &[], Some(r#"{"a":1}"#));
    }

    #[test]
    fn nothing_named_is_nothing() {
        check_select(r#"{"message":"not found"}"#, &["/*/number"], None);
        check_select("[]", &["/*"], None);
        check_select("5", &["/a"], None);
        check_select("[[],{}]", &["/*/*"], None);
        check_select(r#"{"a":"\ud83d"}"#, &["/a/b"], None);
        check_select("[[],{}]", &["/*"], Some("[[],{}]"));
    }

    #[test]
    fn an_element_is_named_by_its_index_as_written_without_zeros() {
        check_select("[5,6,7]", &["/2"], Some("[7]"));
        check_select("[5,6,7]", &["/02", "/+1", "/-", "/3", "/"], None);
        check_select(r#"{"02":1,"2":3}"#, &["/02"], Some(r#"{"02":1}"#));
    }

    #[track_caller]
    fn check_stopped(document: &str, expected: Result<(), Stopped>) {
        for pointers in [&[][..], &["/*".to_owned()], &["/0/0".to_owned()], &["/none".to_owned()]] {
            let mut out = "x".to_owned();
            let picked = pick(document, &Select::new(pointers), &mut out, &|| false);
            assert_eq!(picked.map(|_| ()), expected, "{pointers:?} of {:.80}", document);
            assert!(out == "x" || picked.is_ok(), "{out}");
        }
    }

    #[test]
    fn all_of_a_document_is_judged_whatever_is_picked() {
        for broken in [
            "",
            " ",
            "[",
            "[1",
            "[1,]",
            "[,1]",
            "[,[1]]",
            "{\"a\":1",
            "{,}",
            "{\"a\":,[1]}",
            "{\"a\"::[1]}",
            "[1]]",
            "1 2",
            "nul",
        ] {
            check_stopped(broken, Err(Stopped::NotJson));
        }
        for (levels, expected) in [(64, Ok(())), (65, Err(Stopped::TooDeep)), (2_000_000, Err(Stopped::TooDeep))] {
            check_stopped(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)), expected);
            check_stopped(&format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels)), expected);
        }
        check_stopped(&"[".repeat(1 << 20), Err(Stopped::TooDeep));
        check_stopped("[1e999,\"\\ud83d\",-0]", Ok(()));
    }

    #[test]
    fn an_array_of_8_million_elements_is_picked_from() {
        let ones = format!("[{}1]", "1,".repeat(8 << 20));
        check_select(&ones, &["/*", "/8388608/a"], Some(&ones));
    }

    /// Runs once with each look saying stop.
    #[track_caller]
    fn check_cancel(document: &str, pointer: &str, looks_least: usize) {
        let looks = Cell::new(0_usize);
        let run = |stop_at: usize| {
            looks.set(0);
            let mut out = "x".to_owned();
            let cancelled = || looks.replace(looks.get() + 1) == stop_at;
            let picked = pick(document, &Select::new(&[pointer.to_owned()]), &mut out, &cancelled);
            (picked, out)
        };
        assert!(matches!(run(usize::MAX).0, Ok(Picked::Named { .. })));
        let all = looks.get();
        assert!(all >= looks_least, "{all} looks of {looks_least}");
        for stop_at in 0..all {
            assert_eq!(run(stop_at), (Err(Stopped::Cancelled), "x".to_owned()), "at look {stop_at} of {all}");
            assert_eq!(looks.get(), stop_at + 1);
        }
    }

    #[test]
    fn a_cancel_at_any_look_ends_it_and_leaves_no_output() {
        check_cancel(ISSUES, "/*/x", 5 + 4);
        check_cancel(ISSUES, "", 5 + 4);
        check_cancel(r#"{"skipped":[1,2,3,[4]],"a":1}"#, "/a", 7);
        check_cancel(&format!("[\"{}\",1]", "x\\n".repeat(1 << 18)), "/0", 12);
        check_cancel(&format!("{{\"{}\":1}}", "x\\n".repeat(1 << 18)), "/*", 12);
    }

    /// Deterministic pseudo-random numbers (SplitMix64).
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) as usize % end
        }

        fn name(&mut self) -> &'static str {
            const NAMES: [&str; 12] =
                ["a", "b", "", "0", "1", "02", "a/b", "m~n", "q\"\\", "\u{85}\u{2028}\n", "\u{1f389}x", "\u{fffd}\u{1f389}"];
            NAMES[self.below(NAMES.len())]
        }

        fn value(&mut self, levels: usize) -> Value {
            match self.below(if levels == 0 { 4 } else { 8 }) {
                0 => json!(self.name()),
                1 => json!(self.below(1000)),
                2 => json!(self.below(1000) as f64 / -8.0),
                3 => [json!(null), json!(true), json!([]), json!({})][self.below(4)].clone(),
                4 | 5 => (0..self.below(5)).map(|_| self.value(levels - 1)).collect(),
                _ => (0..self.below(5)).map(|_| (self.name().to_owned(), self.value(levels - 1))).collect(),
            }
        }

        fn space(&mut self) -> &'static str {
            ["", "", "", " ", "\r\n\t"][self.below(5)]
        }

        /// With white space and needless escapes; U+FFFD as half a surrogate pair.
        fn write_loosely(&mut self, value: &Value, out: &mut String) {
            out.push_str(self.space());
            match value {
                Value::String(text) => self.write_string(text, out),
                Value::Array(elements) => {
                    out.push('[');
                    for (at, element) in elements.iter().enumerate() {
                        out.push_str(if at > 0 { "," } else { "" });
                        self.write_loosely(element, out);
                    }
                    out.push_str(self.space());
                    out.push(']');
                }
                Value::Object(members) => {
                    out.push('{');
                    for (at, (name, member)) in members.iter().enumerate() {
                        out.push_str(if at > 0 { "," } else { "" });
                        out.push_str(self.space());
                        self.write_string(name, out);
                        out.push_str(self.space());
                        out.push(':');
                        self.write_loosely(member, out);
                    }
                    out.push_str(self.space());
                    out.push('}');
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
            }
            out.push_str(self.space());
        }

        fn write_string(&mut self, text: &str, out: &mut String) {
            out.push('"');
            for c in text.chars() {
                match c {
                    '\u{fffd}' => out.push_str("\\ud83d"),
                    c if c < ' ' || matches!(c, '"' | '\\') || self.below(3) == 0 => {
                        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
                    }
                    c => out.push(c),
                }
            }
            out.push('"');
        }

        /// A pointer as its tokens.
        fn pointer(&mut self) -> Vec<&'static str> {
            (0..self.below(4)).map(|_| if self.below(2) == 0 { "*" } else { self.name() }).collect()
        }
    }

    /// The same selection over a tree.
    fn selected(value: &Value, pointers: &[&[&str]]) -> Option<Value> {
        if pointers.iter().any(|pointer| pointer.is_empty()) {
            return Some(value.clone());
        }
        let below = |name: &str, part: &Value| {
            let matching = pointers.iter().filter(|pointer| pointer[0] == "*" || pointer[0] == name);
            selected(part, &matching.map(|pointer| &pointer[1..]).collect::<Vec<_>>())
        };
        let picked: Value = match value {
            Value::Array(elements) => {
                elements.iter().enumerate().filter_map(|(at, element)| below(&at.to_string(), element)).collect()
            }
            Value::Object(members) => {
                members.iter().filter_map(|(name, member)| Some((name.clone(), below(name, member)?))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        (picked != json!([]) && picked != json!({})).then_some(picked)
    }

    #[test]
    fn a_selection_is_that_over_a_tree_whatever_the_document() {
        let (mut dice, mut named) = (Dice(1), 0);
        for round in 0..4000 {
            let value = dice.value(5);
            let pointers: Vec<_> = (0..=dice.below(3)).map(|_| dice.pointer()).collect();
            let expected = selected(&value, &pointers.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let written = |pointer: &Vec<&str>| {
                pointer.iter().map(|token| format!("/{}", token.replace('~', "~0").replace('/', "~1"))).collect()
            };
            let select = Select::new(&pointers.iter().map(written).collect::<Vec<String>>());
            let mut loose = String::new();
            dice.write_loosely(&value, &mut loose);
            for (document, is_loose) in [(to_line(&value), false), (loose, true)] {
                let mut out = String::new();
                let picked = pick(&document, &select, &mut out, &|| false).unwrap();
                let Some(expected) = &expected else {
                    assert_eq!((picked, out.as_str()), (Picked::Nothing, ""), "round {round}: {pointers:?} of {document}");
                    continue;
                };
                named += 1;
                let line = to_line(expected);
                let replaced = if is_loose { line.matches('\u{fffd}').count() } else { 0 };
                assert_eq!(picked, Picked::Named { replaced }, "round {round}: {pointers:?} of {document}");
                let mut again = String::new();
                assert_eq!((compact(&out, &mut again), &again), (0, &out), "round {round}: not compact");
                let shown = if is_loose { to_line(&serde_json::from_str::<Value>(&out).unwrap()) } else { out };
                assert_eq!(shown, line, "round {round}: {pointers:?} of {document}");
            }
        }
        assert!(named > 1000, "{named}");
    }

    #[test]
    fn any_text_is_judged_as_the_parser_judges_it() {
        let (mut dice, mut valid) = (Dice(2), 0);
        for _ in 0..8000 {
            let mut text = String::new();
            let value = dice.value(3);
            dice.write_loosely(&value, &mut text);
            for _ in 0..=dice.below(2) {
                let at = text.floor_char_boundary(dice.below(text.len() + 1));
                let end = if dice.below(2) == 0 { at } else { text.ceil_char_boundary(at + 1) };
                text.replace_range(at..end, ["", "[", "]", "{", "}", ",", ":", "\"", "\\", " ", "1"][dice.below(11)]);
            }
            let is_json = serde_json::from_str::<&RawValue>(&text).is_ok();
            valid += usize::from(is_json);
            check_stopped(&text, if is_json { Ok(()) } else { Err(Stopped::NotJson) });
        }
        assert!((500..7500).contains(&valid), "{valid}");
    }
}
