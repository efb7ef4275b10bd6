//! `select`: a document with everything left out that no pointer names. Digits stay as they came.
//!
//! Pointers are JSON Pointers (RFC 6901) in which a `*` token means every element or member. The result has the shape of the
//! document: `/*/number` and `/*/title` over an array of objects give an array of objects with these two members; `/a/b` gives
//! `{"a":{"b":…}}`. Elements and members in which nothing is named are left out, and so are the positions of elements.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::wire::escape::{compact, to_line};

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
    Named(String),
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
        let token = match token {
            "*" => Token::Any,
            name => Token::Named(name.replace("~1", "/").replace("~0", "~")),
        };
        let at = self.children.iter().position(|(known, _)| *known == token).unwrap_or_else(|| {
            self.children.push((token, Select::default()));
            self.children.len() - 1
        });
        self.children[at].1.add(rest);
    }

    fn matching<'a>(nodes: &[&'a Select], name: &str) -> Vec<&'a Select> {
        let children = nodes.iter().flat_map(|node| &node.children);
        let matches = |token: &Token| match token {
            Token::Any => true,
            Token::Named(known) => known == name,
        };
        children.filter(|(token, _)| matches(token)).map(|(_, node)| node).collect()
    }
}

/// Appends what `select` names of `document`, compact; returns how many halves of surrogate pairs were replaced. `None` if it names
/// nothing in it, or a member name of it cannot be read; `out` is then as it was.
pub fn pick(document: &RawValue, select: &Select, out: &mut String) -> Option<usize> {
    let begin = out.len();
    let picked = pick_from(document, &[select], out).ok().flatten();
    if picked.is_none() {
        out.truncate(begin);
    }
    picked
}

fn pick_from(value: &RawValue, nodes: &[&Select], out: &mut String) -> serde_json::Result<Option<usize>> {
    let text = value.get();
    if nodes.iter().any(|node| node.keep) {
        return Ok(Some(compact(text, out)));
    }
    let (open, close, parts) = match text.as_bytes().first() {
        Some(b'{') => ('{', '}', serde_json::from_str::<Members<'_>>(text)?.0),
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(text)?;
            ('[', ']', elements.into_iter().enumerate().map(|(index, element)| (index.to_string(), element)).collect())
        }
        _ => return Ok(None),
    };
    let mut replaced = None;
    out.push(open);
    for (name, part) in parts {
        let below = Select::matching(nodes, &name);
        let begin = out.len();
        if below.is_empty() {
            continue;
        }
        if replaced.is_some() {
            out.push(',');
        }
        if open == '{' {
            out.push_str(&to_line(&name));
            out.push(':');
        }
        match pick_from(part, &below, out)? {
            Some(more) => replaced = Some(replaced.unwrap_or(0) + more),
            None => out.truncate(begin),
        }
    }
    out.push(close);
    Ok(replaced)
}

/// The members of an object in order, their values unparsed.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_select(document: &str, pointers: &[&str], expected: Option<&str>) {
        let pointers: Vec<String> = pointers.iter().map(|pointer| (*pointer).to_owned()).collect();
        let raw: &RawValue = serde_json::from_str(document).unwrap();
        let mut out = "x".to_owned();
        let picked = pick(raw, &Select::new(&pointers), &mut out);
        assert_eq!(picked.map(|_| &out[1..]), expected, "{pointers:?} of {document}");
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
