//! A tool's `input`: closed, compiled, and in the shape that clients take.
//!
//! It never widens a schema: `additionalProperties: false` is added where nothing was said, and what our validator does not
//! support is refused where it stands. The listed text is the compiled schema, members and digits as written.

use crate::action::schema::Schema;
use crate::config::object;
use crate::config::tree::{Member, Node, Problems, quote, write_list, write_map};

/// An input schema as far as it is sound.
#[derive(Debug)]
pub struct Input<'n> {
    /// Compiled, and as listed; `None` if anything was reported.
    pub compiled: Option<(Schema, String)>,
    /// Declared arguments and where, in order.
    pub properties: &'n [Member],
    /// Arguments a call always has.
    pub required: Vec<&'n str>,
}

/// What a tool without `input` takes.
const NO_ARGUMENTS: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

/// Keywords that make the top of a schema more than a plain object: clients drop such a tool, or all of them.
const COMBINATORS: &[&str] =
    &["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "$ref", "$dynamicRef"];

/// Checks the `input` of a tool; `None` if what it declares cannot be told, after a report.
pub fn read<'n>(node: Option<&'n Node>, problems: &mut Problems) -> Option<Input<'n>> {
    let Some(node) = node else {
        let value = serde_json::from_str(NO_ARGUMENTS).expect("a constant");
        let schema = Schema::compile(&value).expect("a constant schema");
        return Some(Input { compiled: Some((schema, NO_ARGUMENTS.to_owned())), properties: &[], required: Vec::new() });
    };
    node.members()?;
    let before = problems.total();
    let properties = top(node, problems);
    let required = required(node, properties.unwrap_or_default(), problems);
    let mut json = String::new();
    write_closed(node, true, &mut json);
    let value = serde_json::from_str(&json).expect("a tree renders as JSON within the parser's depth");
    let own = problems.total() - before;
    let schema = match Schema::compile(&value) {
        Ok(schema) => Some(schema),
        // What was reported already is not said again in the validator's words.
        Err(errors) if own == 0 && node.is_whole() => {
            for error in errors {
                problems.add(node.find(&error.pointer).at, error.message);
            }
            None
        }
        Err(_) => None,
    };
    let compiled = schema.filter(|_| own == 0).map(|schema| (schema, json));
    Some(Input { compiled, properties: properties?, required })
}

/// The top level: a plain, closed object that declares its properties, each as an object schema (older MCP revisions know no
/// boolean schema there).
fn top<'n>(node: &'n Node, problems: &mut Problems) -> Option<&'n [Member]> {
    match node.member("type") {
        Some(member) if member.node.text() == Some("object") => {}
        Some(member) => problems.add(member.node.at, "expected \"object\" at the top of an input schema"),
        None => problems.add(node.at, "missing key \"type\", expected \"object\" at the top of an input schema"),
    }
    for member in node.members().unwrap_or_default() {
        let key = member.key.as_str();
        if COMBINATORS.contains(&key) {
            problems.add(
                member.key_at,
                format!("clients drop tools with \"{key}\" at the top of an input schema; use it inside a property"),
            );
        }
        let closed = matches!(member.node.shape, crate::config::tree::Shape::Bool(false));
        if matches!(key, "additionalProperties" | "unevaluatedProperties") && !closed {
            problems.add(member.node.at, "expected false: every argument is declared in \"properties\" and used");
        }
        if key == "patternProperties" {
            problems.add(member.key_at, "every argument is declared in \"properties\" and used, none by pattern");
        }
    }
    let Some(member) = node.member("properties") else {
        problems.add(node.at, "missing key \"properties\"");
        return None;
    };
    let properties = object::map(&member.node, problems)?;
    for property in properties {
        object::map(&property.node, problems);
    }
    Some(properties)
}

fn required<'n>(node: &'n Node, properties: &[Member], problems: &mut Problems) -> Vec<&'n str> {
    let Some(member) = node.member("required") else { return Vec::new() };
    let said = object::texts(&member.node, problems);
    for name in &said {
        if !properties.iter().any(|property| property.key == name.value) {
            problems.add(name.at, format!("{} is required but not declared in \"properties\"", quote(name.value)));
        }
    }
    said.into_iter().map(|name| name.value).collect()
}

/// A schema with `additionalProperties: false` where it declares properties and says nothing of others. Branches of `allOf`
/// and the like are left alone: there the properties are declared elsewhere too.
fn write_closed(node: &Node, is_top: bool, out: &mut String) {
    let Some(members) = node.members() else { return node.write_json(out) };
    let declares = node.member("properties").is_some();
    write_map(members, out, |member, out| match member.key.as_str() {
        "properties" | "patternProperties" | "$defs" if member.node.members().is_some() => {
            let schemas = member.node.members().unwrap_or_default();
            write_map(schemas, out, |member, out| write_closed(&member.node, false, out));
        }
        "items" | "additionalProperties" => write_closed(&member.node, false, out),
        "prefixItems" => write_each_closed(&member.node, out),
        "anyOf" | "oneOf" if !declares => write_each_closed(&member.node, out),
        _ => member.node.write_json(out),
    });
    let says = |key| node.member(key).is_some();
    if (declares || is_top) && !says("additionalProperties") && !says("unevaluatedProperties") {
        out.pop();
        out.push_str(if members.is_empty() { "" } else { "," });
        out.push_str("\"additionalProperties\":false}");
    }
}

fn write_each_closed(node: &Node, out: &mut String) {
    match node.elements() {
        Some(schemas) => write_list(schemas, out, |node, out| write_closed(node, false, out)),
        None => node.write_json(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree;

    #[track_caller]
    fn check_closed(written: &str, expected: &str) {
        let mut problems = Problems::default();
        let root = tree::parse(written, &mut problems).unwrap();
        let input = read(Some(&root), &mut problems);
        assert_eq!(problems.in_order(), []);
        assert_eq!(input.unwrap().compiled.unwrap().1, expected);
    }

    #[test]
    fn schemas_are_closed_where_they_say_nothing() {
        check_closed(
            r#"{ "type": "object", "properties": {} }"#,
            r#"{"type":"object","properties":{},"additionalProperties":false}"#,
        );
        check_closed(
            r#"{"properties":{"z":{"type":"integer","maximum":1e2},"a":{}},"type":"object","additionalProperties":false}"#,
            r#"{"properties":{"z":{"type":"integer","maximum":1e2},"a":{}},"type":"object","additionalProperties":false}"#,
        );
        check_closed(
            r#"{"type":"object","properties":{"a":{"type":"array","items":{"properties":{"b":{"type":"object"}}}}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"array","items":{"properties":{"b":{"type":"object"}},"additionalProperties":false}}},"additionalProperties":false}"#,
        );
        check_closed(
            r#"{"type":"object","properties":{"a":{"properties":{"additionalProperties":{}},"additionalProperties":true}}}"#,
            r#"{"type":"object","properties":{"a":{"properties":{"additionalProperties":{}},"additionalProperties":true}},"additionalProperties":false}"#,
        );
    }

    #[test]
    fn branches_are_closed_only_where_they_stand_alone() {
        check_closed(
            r#"{"type":"object","properties":{"a":{"anyOf":[{"properties":{"b":{}}},{"type":"null"}]}}}"#,
            r#"{"type":"object","properties":{"a":{"anyOf":[{"properties":{"b":{}},"additionalProperties":false},{"type":"null"}]}},"additionalProperties":false}"#,
        );
        check_closed(
            r#"{"type":"object","properties":{"a":{"properties":{"b":{}},"anyOf":[{"properties":{"b":{"const":1}}}],"additionalProperties":true}}}"#,
            r#"{"type":"object","properties":{"a":{"properties":{"b":{}},"anyOf":[{"properties":{"b":{"const":1}}}],"additionalProperties":true}},"additionalProperties":false}"#,
        );
        check_closed(
            r#"{"type":"object","properties":{"a":{"allOf":[{"properties":{"b":{}}}],"default":{"properties":{}}}}}"#,
            r#"{"type":"object","properties":{"a":{"allOf":[{"properties":{"b":{}}}],"default":{"properties":{}}}},"additionalProperties":false}"#,
        );
    }

    #[test]
    fn no_input_is_no_arguments() {
        let input = read(None, &mut Problems::default()).unwrap();
        assert_eq!(input.compiled.unwrap().1, NO_ARGUMENTS);
        assert!(input.properties.is_empty() && input.required.is_empty());
    }
}
