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
    let mut walk = Walk::new(document, out, usize::MAX, cancelled);
    let begin = walk.mark();
    let named = walk.run(|walk, deserializer| Part { walk, want: Want::of(vec![select]) }.deserialize(deserializer));
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
    fn of(nodes: Vec<&'s Select>) -> Self {
        match nodes {
            nodes if nodes.is_empty() => Want::Nothing,
            nodes if nodes.iter().any(|node| node.keep) => Want::All,
            nodes => Want::Below(nodes),
        }
    }

    fn below(&self, matches: impl Fn(&Token) -> bool) -> Self {
        match self {
            Want::Nothing => Want::Nothing,
            Want::All => Want::All,
            Want::Below(nodes) => {
                let children = nodes.iter().flat_map(|node| &node.children);
                Want::of(children.filter(|(token, _)| matches(token)).map(|(_, node)| node).collect())
            }
        }
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
    use super::*;

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
    }
}
