//! The vocabulary of 2020-12 as we take it: the known keywords, what stands for a foreign one, and readers that check the
//! shape of a keyword's value. It must never let a value of the wrong shape pass as if the keyword were absent.

use serde_json::{Map, Value};

use super::compile::{Compiler, Place};
use super::number::Num;
use super::text::{self, Path};
use super::{ERRORS_MAX, SchemaError, Unknown};

pub(super) const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Every keyword with a meaning here, enforced or annotation.
const KNOWN: [&str; 60] = [
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$ref",
    "$schema",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
    "$dynamicRef",
    "$dynamicAnchor",
    "$vocabulary",
    "$recursiveRef",
    "$recursiveAnchor",
];

/// Keywords whose meaning we do not implement; passing over one would weaken the schema, whatever the caller ignores.
const UNSUPPORTED: [&str; 5] = ["$dynamicRef", "$dynamicAnchor", "$vocabulary", "$recursiveRef", "$recursiveAnchor"];

/// Keywords of other dialects, and what says the same in this one.
const FOREIGN: [(&str, &str); 5] = [
    ("additionalItems", "`items` beside `prefixItems`"),
    ("dependencies", "`dependentRequired` or `dependentSchemas`"),
    ("example", "`examples`"),
    ("id", "`$id`"),
    ("nullable", "`\"type\": [..., \"null\"]`"),
];

impl<'d> Compiler<'d> {
    /// Refuses what is unknown or unsupported, and annotations of the wrong shape.
    pub(super) fn check_names(&mut self, map: &'d Map<String, Value>, place: Place<'_>) {
        for name in map.keys() {
            if UNSUPPORTED.contains(&name.as_str()) {
                self.fail(&Path::Key(place.path, name), format!("`{name}` is not supported"));
            } else if !KNOWN.contains(&name.as_str()) && !name.starts_with("x-") && self.unknown == Unknown::Refuse {
                self.fail(&Path::Key(place.path, name), unknown_keyword(name));
            }
        }
        for key in ["title", "description", "$comment", "format", "contentEncoding", "contentMediaType"] {
            self.read(map, key, place, "a string", Value::as_str);
        }
        for key in ["deprecated", "readOnly", "writeOnly"] {
            self.read(map, key, place, "a boolean", Value::as_bool);
        }
        self.read(map, "examples", place, "an array", Value::as_array);
    }

    /// The value of a keyword, if it is there and `take` accepts its shape; otherwise the error says `wanted`.
    pub(super) fn read<T>(
        &mut self,
        map: &'d Map<String, Value>,
        key: &str,
        place: Place<'_>,
        wanted: &str,
        take: impl Fn(&'d Value) -> Option<T>,
    ) -> Option<T> {
        let value = map.get(key)?;
        let taken = take(value);
        if taken.is_none() {
            self.fail(&Path::Key(place.path, key), format!("expected {wanted}, got {}", described(value)));
        }
        taken
    }

    pub(super) fn read_count(&mut self, map: &'d Map<String, Value>, key: &str, place: Place<'_>) -> Option<u64> {
        self.read(map, key, place, "an integer of zero or more", |v| v.as_number().and_then(|n| Num::of(n).as_count()))
    }

    pub(super) fn read_number(&mut self, map: &'d Map<String, Value>, key: &str, place: Place<'_>) -> Option<Num> {
        self.read(map, key, place, "a number", |v| v.as_number().map(Num::of))
    }

    /// An array of names, each once.
    pub(super) fn read_names(&mut self, value: &'d Value, path: &Path<'_>) -> Vec<Box<str>> {
        let Some(names) = value.as_array().and_then(|a| a.iter().map(Value::as_str).collect::<Option<Vec<_>>>()) else {
            self.fail(path, format!("expected an array of strings, got {}", described(value)));
            return Vec::new();
        };
        let mut sorted = names.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            self.fail(path, format!("expected each name once, got {} twice", text::quoted(twice[0])));
        }
        names.into_iter().map(Box::from).collect()
    }

    pub(super) fn read_object(
        &mut self,
        map: &'d Map<String, Value>,
        key: &str,
        place: Place<'_>,
    ) -> impl Iterator<Item = (&'d String, &'d Value)> + use<'d> {
        self.read(map, key, place, "an object", Value::as_object).into_iter().flatten()
    }

    /// Notes a problem; those beyond the bound are dropped.
    pub(super) fn fail(&mut self, path: &Path<'_>, message: String) {
        self.fail_at(path.pointer(), message);
    }

    pub(super) fn fail_at(&mut self, pointer: String, message: String) {
        if !self.is_hopeless() {
            self.errors.push(SchemaError { pointer, message });
        }
    }

    /// Whether no further problem would be reported, so that further work is in vain.
    pub(super) fn is_hopeless(&self) -> bool {
        self.errors.len() >= ERRORS_MAX
    }
}

fn unknown_keyword(name: &str) -> String {
    let name_quoted = text::quoted(name);
    if let Some((_, instead)) = FOREIGN.iter().find(|(foreign, _)| *foreign == name) {
        return format!("keyword {name_quoted} is not of this dialect, use {instead}");
    }
    match text::nearest(name, KNOWN.into_iter().filter(|k| !UNSUPPORTED.contains(k))) {
        Some(near) => format!("unknown keyword {name_quoted}, did you mean \"{near}\"?"),
        None => format!("unknown keyword {name_quoted} (your own begin with `x-`)"),
    }
}

/// A value of the schema for a message: scalars as they are, containers by kind.
pub(super) fn described(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the string {}", text::quoted(text)),
        Value::Number(number) => Num::of(number).to_string(),
        Value::Bool(_) | Value::Null => value.to_string(),
        Value::Array(items) if items.is_empty() => "an empty array".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// A value of the schema as a choice in a message, cut.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text::quoted(text),
        Value::Number(number) => Num::of(number).to_string(),
        Value::Bool(_) | Value::Null | Value::Array(_) | Value::Object(_) => text::cut(&value.to_string()).into_owned(),
    }
}
