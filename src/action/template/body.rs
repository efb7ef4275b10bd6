//! The body of a request: a JSON value, a text or a form.
//!
//! In a JSON body a string that is one placeholder and nothing else becomes the argument's JSON value; any other string is
//! text. The result is written by the JSON library, so no argument can leave its place. Keys are literal.

use serde::Serialize;
use serde_json::Value;

use crate::action::json::Json;
use crate::action::template::pairs::{Encoding, PairsTemplate};
use crate::action::template::{Arguments, FillError, Names, Text};

/// One filled body: twice the longest line an argument can come in, since escapes and repetition grow it.
pub const BODY_BYTES_MAX: usize = 8 << 20;

const PLACE: &str = "the body";

/// A body as configured.
#[derive(Debug, Clone, PartialEq)]
pub enum BodyWritten {
    /// `{"json": VALUE}`
    Json(Value),
    /// `{"text": "..."}`
    Text(String),
    /// `{"form": {...}}`, in the order to send.
    Form(Vec<(String, String)>),
}

/// A body with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyTemplate {
    /// A JSON value.
    Json(JsonTemplate),
    /// Text.
    Text(Text),
    /// Form pairs.
    Form(PairsTemplate),
}

impl BodyTemplate {
    /// Parses a body as configured; one sentence a problem.
    pub fn parse(written: &BodyWritten) -> Result<BodyTemplate, Vec<String>> {
        match written {
            BodyWritten::Json(value) => JsonTemplate::parse(value).map(BodyTemplate::Json),
            BodyWritten::Text(text) => Text::parse(text).map(BodyTemplate::Text).map_err(|error| vec![error.to_string()]),
            BodyWritten::Form(pairs) => PairsTemplate::parse(Encoding::Form, pairs).map(BodyTemplate::Form),
        }
    }

    /// The media type it has unless the configuration names another.
    pub fn media_type(&self) -> &'static str {
        match self {
            BodyTemplate::Json(_) => "application/json",
            BodyTemplate::Text(_) => "text/plain; charset=utf-8",
            BodyTemplate::Form(_) => "application/x-www-form-urlencoded",
        }
    }

    /// The bytes for these arguments, at most `BODY_BYTES_MAX`.
    pub fn fill(&self, arguments: &Arguments<'_>) -> Result<Vec<u8>, FillError> {
        match self {
            BodyTemplate::Json(template) => template.fill(arguments),
            BodyTemplate::Text(text) => {
                for name in text.names() {
                    arguments.required_text(name)?;
                }
                let filled = text.fill(arguments, PLACE, BODY_BYTES_MAX, |text, out| out.push_str(text))?;
                Ok(filled.unwrap_or_default().into_bytes())
            }
            BodyTemplate::Form(pairs) => Ok(pairs.fill(arguments, BODY_BYTES_MAX)?.unwrap_or_default().into_bytes()),
        }
    }

    /// Adds the placeholders; those whose absence would leave no body are required.
    pub fn add_names(&self, names: &mut Names) {
        match self {
            BodyTemplate::Json(template) => template.add_names(names),
            BodyTemplate::Text(text) => names.add_required(text.names()),
            BodyTemplate::Form(pairs) => pairs.add_names(names),
        }
    }
}

/// A JSON value with placeholders in its strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonTemplate {
    root: Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    /// Compact JSON without a placeholder.
    Literal(String),
    /// The argument's JSON value.
    Argument(String),
    /// A string of literals and placeholders.
    Text(Text),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl JsonTemplate {
    /// Parses a JSON value as configured; each problem names its place by JSON Pointer.
    pub fn parse(value: &Value) -> Result<JsonTemplate, Vec<String>> {
        let mut problems = Vec::new();
        let root = parse_node(value, "", &mut problems);
        if problems.is_empty() { Ok(JsonTemplate { root }) } else { Err(problems) }
    }

    /// Compact JSON for these arguments. A member or element whose argument is absent is left out; an explicit `null` that
    /// the schema let pass is a value where the placeholder stands alone.
    pub fn fill(&self, arguments: &Arguments<'_>) -> Result<Vec<u8>, FillError> {
        if let Some(name) = self.root.names_of_one().find(|_| !self.root.is_present(arguments)) {
            return Err(FillError::argument(name, "a value", "none"));
        }
        let mut out = Vec::new();
        write_node(&self.root, arguments, &mut out)?;
        check_size(&out)?;
        Ok(out)
    }

    fn add_names(&self, names: &mut Names) {
        match &self.root {
            Node::Argument(_) | Node::Text(_) => names.add_required(self.root.names_of_one()),
            Node::Literal(_) | Node::Array(_) | Node::Object(_) => add_node_names(&self.root, names),
        }
    }
}

impl Node {
    /// Placeholders of this node itself, not of its children.
    fn names_of_one(&self) -> impl Iterator<Item = &str> {
        let (alone, text) = match self {
            Node::Argument(name) => (Some(name.as_str()), None),
            Node::Text(text) => (None, Some(text)),
            Node::Literal(_) | Node::Array(_) | Node::Object(_) => (None, None),
        };
        alone.into_iter().chain(text.into_iter().flat_map(Text::names))
    }

    fn is_present(&self, arguments: &Arguments<'_>) -> bool {
        match self {
            Node::Argument(name) => arguments.get(name).is_some(),
            Node::Text(text) => text.names().all(|name| arguments.get(name).is_some_and(|value| *value != Json::Null)),
            Node::Literal(_) | Node::Array(_) | Node::Object(_) => true,
        }
    }
}

fn parse_node(value: &Value, pointer: &str, problems: &mut Vec<String>) -> Node {
    match value {
        Value::String(text) => match Text::parse(text) {
            Ok(parsed) => text_node(parsed),
            Err(error) => {
                problems.push(format!("{}: {error}", place(pointer)));
                Node::Literal(String::new())
            }
        },
        Value::Array(items) => Node::Array(
            items.iter().enumerate().map(|(index, item)| parse_node(item, &format!("{pointer}/{index}"), problems)).collect(),
        ),
        Value::Object(members) => {
            Node::Object(members.iter().map(|(key, member)| parse_member(key, member, pointer, problems)).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Node::Literal(value.to_string()),
    }
}

fn parse_member(key: &str, member: &Value, pointer: &str, problems: &mut Vec<String>) -> (String, Node) {
    let literal = Text::parse_literal(key).unwrap_or_else(|error| {
        problems.push(format!("key in {}: {error}", place(pointer)));
        String::new()
    });
    let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
    (literal, parse_node(member, &pointer, problems))
}

fn text_node(text: Text) -> Node {
    match (text.alone(), text.literal()) {
        (Some(name), _) => Node::Argument(name.to_owned()),
        (_, Some(literal)) => Node::Literal(Value::from(literal).to_string()),
        (None, None) => Node::Text(text),
    }
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() { "the whole".to_owned() } else { crate::action::template::shown(pointer, 100) }
}

/// Writes a node that is present.
fn write_node(node: &Node, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<(), FillError> {
    match node {
        Node::Literal(json) => out.extend_from_slice(json.as_bytes()),
        Node::Argument(name) => write_json(arguments.get(name).unwrap_or(&Json::Null), out),
        Node::Text(text) => {
            let filled = text.fill(arguments, PLACE, BODY_BYTES_MAX, |text, out| out.push_str(text))?;
            write_json(&filled.unwrap_or_default(), out);
        }
        Node::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().filter(|item| item.is_present(arguments)).enumerate() {
                push_comma(index, out);
                write_node(item, arguments, out)?;
            }
            out.push(b']');
        }
        Node::Object(members) => {
            out.push(b'{');
            for (index, (key, member)) in members.iter().filter(|(_, member)| member.is_present(arguments)).enumerate() {
                push_comma(index, out);
                write_json(key, out);
                out.push(b':');
                write_node(member, arguments, out)?;
            }
            out.push(b'}');
        }
    }
    check_size(out)
}

fn push_comma(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

fn write_json(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a JSON value with string keys is always written to memory");
}

fn check_size(out: &[u8]) -> Result<(), FillError> {
    if out.len() > BODY_BYTES_MAX { Err(FillError::TooLong { place: PLACE, bytes_max: BODY_BYTES_MAX }) } else { Ok(()) }
}

fn add_node_names(node: &Node, names: &mut Names) {
    names.add_optional(node.names_of_one());
    match node {
        Node::Array(items) => items.iter().for_each(|item| add_node_names(item, names)),
        Node::Object(members) => members.iter().for_each(|(_, member)| add_node_names(member, names)),
        Node::Literal(_) | Node::Argument(_) | Node::Text(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::template::sample;
    use serde_json::json;

    fn fill(body: BodyWritten, arguments: &Value) -> Result<String, String> {
        let filled = BodyTemplate::parse(&body)
            .unwrap()
            .fill(&Arguments::new(&arguments.clone().into()))
            .map_err(|error| error.to_string())?;
        Ok(String::from_utf8(filled).unwrap())
    }

    #[track_caller]
    fn check_json(template: Value, arguments: Value, want: &str) {
        assert_eq!(fill(BodyWritten::Json(template.clone()), &arguments).as_deref(), Ok(want), "{template} {arguments}");
    }

    #[track_caller]
    fn check_parse_refused(template: Value, part: &str) {
        let problems = BodyTemplate::parse(&BodyWritten::Json(template.clone())).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(part), "{template}: {problems:?}");
    }

    #[test]
    fn json_bodies() {
        check_json(json!({"a": [1, null, "x"], "b": true}), json!({}), r#"{"a":[1,null,"x"],"b":true}"#);
        check_json(json!({"n": "{x}", "t": "no {x}"}), json!({"x": 3}), r#"{"n":3,"t":"no 3"}"#);
        check_json(json!({"o": "{x}"}), json!({"x": {"a": ["{y}", 1.5]}}), r#"{"o":{"a":["{y}",1.5]}}"#);
        check_json(json!({"a": "{x}", "b": "v{x}", "c": ["{x}", 1, "v{x}"]}), json!({}), r#"{"c":[1]}"#);
        check_json(json!({"a": "{x}", "b": "v{x}"}), json!({"x": null}), r#"{"a":null}"#);
        check_json(json!("{x}"), json!({"x": [1]}), "[1]");
        check_json(json!({"{{k}}": "{{x}}"}), json!({"x": 1}), r#"{"{k}":"{x}"}"#);
        check_json(json!({"i": "{x}"}), json!({"x": u64::MAX}), r#"{"i":18446744073709551615}"#);
        check_json(json!({"q": "\"{x}\""}), json!({"x": "\\\n"}), r#"{"q":"\"\\\n\""}"#);
    }

    #[test]
    fn refused() {
        check_parse_refused(json!({"a/b": ["x", "{"]}), "/a~1b/1: ");
        check_parse_refused(json!("{+x}"), "the whole: ");
        check_parse_refused(json!({"a": {"{x}": 1}}), "key in /a: ");
        let error = fill(BodyWritten::Json(json!({"a": "v{x}"})), &json!({"x": [1]})).unwrap_err();
        assert!(error.contains("got an array"), "{error}");
        for body in [BodyWritten::Json(json!("{x}")), BodyWritten::Json(json!("v{x}")), BodyWritten::Text("{x}".to_owned())] {
            let mut names = Names::default();
            BodyTemplate::parse(&body).unwrap().add_names(&mut names);
            assert_eq!(names.required().collect::<Vec<_>>(), ["x"]);
            assert_eq!(fill(body, &json!({})), Err("argument \"x\": expected a value, got none".to_owned()));
        }
        let large = json!({"x": "a".repeat(3 << 20)});
        for body in [BodyWritten::Json(json!({"a": "{x}", "b": "{x}", "c": "{x}"})), BodyWritten::Text("{x}{x}{x}".to_owned())]
        {
            assert!(fill(body, &large).unwrap_err().contains("8388608"));
        }
    }

    #[test]
    fn optional_names() {
        let body = BodyWritten::Json(json!({"a": "{x}", "b": ["{y} {z}"]}));
        let mut names = Names::default();
        BodyTemplate::parse(&body).unwrap().add_names(&mut names);
        assert_eq!(names.used().collect::<Vec<_>>(), ["x", "y", "z"]);
        assert_eq!(names.required().count(), 0);
    }

    #[test]
    fn any_text_arrives_as_the_value() {
        let template = json!({"whole": "{x}", "mixed": "<{x}>", "list": ["{x}", "{deep}"]});
        for text in sample::texts() {
            let arguments = json!({"x": text, "deep": {"k": [text, 1]}});
            let filled = fill(BodyWritten::Json(template.clone()), &arguments).unwrap();
            let parsed: Value = serde_json::from_str(&filled).unwrap();
            let want = json!({"whole": text, "mixed": format!("<{text}>"), "list": [text, {"k": [text, 1]}]});
            assert_eq!(parsed, want, "{filled}");
            assert_eq!(fill(BodyWritten::Text("<{x}>".to_owned()), &arguments), Ok(format!("<{text}>")));
        }
    }

    #[test]
    fn forms() {
        let form = BodyWritten::Form(vec![("a".to_owned(), "{x}".to_owned()), ("b".to_owned(), "{y}".to_owned())]);
        assert_eq!(fill(form.clone(), &json!({"x": "1 2"})), Ok("a=1+2".to_owned()));
        assert_eq!(fill(form, &json!({})), Ok(String::new()));
    }
}
