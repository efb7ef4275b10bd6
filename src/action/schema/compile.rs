//! From a JSON document to nodes: one walk over all subschemas that collects every problem, then the references.
//! It must never recurse deeper than the nesting bound, or leave a keyword out of the compiled form without an error.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::keyword::{DIALECT, described, shown};
use super::number::Num;
use super::pattern::Pattern;
use super::reference::PendingRef;
use super::rule::{Bound, Choices, Condition, Contains, Items, Node, NodeId, Properties, Rule, Rules, Size, Types};
use super::text::{self, Path};
use super::value::{self, Kind, View};
use super::{NESTING_MAX, PATTERNS_BYTES_MAX, SUBSCHEMAS_MAX, Schema, SchemaError, URI_BYTES_MAX, Unknown, uri};
use crate::action::json::Json;

type Object = Map<String, Value>;

/// The accepting node, which every compiled schema has.
const ANY: NodeId = 0;

pub(super) fn compile(document: &Value, unknown: Unknown) -> Result<Schema, Vec<SchemaError>> {
    let mut compiler = Compiler {
        unknown,
        nodes: vec![Node::Any],
        places: HashMap::new(),
        resources: HashMap::from([(String::new(), document)]),
        anchors: HashMap::new(),
        refs: Vec::new(),
        pattern_bytes: 0,
        errors: Vec::new(),
    };
    let root = compiler.subschema(document, Place { path: &Path::Root, base: "", depth: 0 });
    compiler.resolve_references();
    if compiler.errors.is_empty() { Ok(Schema { nodes: compiler.nodes, root }) } else { Err(compiler.errors) }
}

pub(super) struct Compiler<'d> {
    pub(super) unknown: Unknown,
    pub(super) nodes: Vec<Node>,
    /// Which node a value of the document became, by its address: references find their target by walking the document.
    pub(super) places: HashMap<*const Value, NodeId>,
    /// Values with an `$id`, by absolute URI; the document itself also by the empty one.
    pub(super) resources: HashMap<String, &'d Value>,
    /// Nodes with an `$anchor`, by the URI of their resource.
    pub(super) anchors: HashMap<(String, &'d str), NodeId>,
    pub(super) refs: Vec<PendingRef<'d>>,
    pattern_bytes: usize,
    pub(super) errors: Vec<SchemaError>,
}

/// Where the walk stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    pub(super) path: &'p Path<'p>,
    /// The URI against which references resolve here.
    pub(super) base: &'p str,
    depth: usize,
}

impl<'d> Compiler<'d> {
    fn subschema(&mut self, value: &'d Value, place: Place<'_>) -> NodeId {
        if self.is_hopeless() {
            return ANY;
        }
        if self.nodes.len() > SUBSCHEMAS_MAX {
            // said once: the walk ends here for good
            if self.nodes.len() == SUBSCHEMAS_MAX + 1 {
                self.nodes.push(Node::Never);
                self.fail(place.path, format!("expected at most {SUBSCHEMAS_MAX} subschemas"));
            }
            return ANY;
        }
        if place.depth > NESTING_MAX {
            self.fail(place.path, format!("expected at most {NESTING_MAX} levels of subschemas"));
            return ANY;
        }
        let id = self.nodes.len();
        self.places.insert(std::ptr::from_ref(value), id);
        self.nodes.push(Node::Any);
        match value {
            Value::Bool(true) => {}
            Value::Bool(false) => self.nodes[id] = Node::Never,
            Value::Object(map) => self.object(id, value, map, place),
            other => self.fail(place.path, format!("expected an object or a boolean, got {}", described(other))),
        }
        id
    }

    fn object(&mut self, id: NodeId, value: &'d Value, map: &'d Object, place: Place<'_>) {
        let base = self.identify(id, value, map, place);
        let place = Place { base: &base, ..place };
        self.check_names(map, place);
        for key in ["$defs", "definitions"] {
            self.named_subschemas(map, key, place);
        }
        self.child(map, "contentSchema", place);

        let mut list = Vec::new();
        self.choices(map, place, &mut list);
        self.numbers(map, place, &mut list);
        self.sizes(map, place, &mut list);
        self.strings(map, place, &mut list);
        self.objects(map, place, &mut list);
        self.arrays(map, place, &mut list);
        self.combinators(map, place, &mut list);
        if let Some(reference) = self.read(map, "$ref", place, "a string", Value::as_str) {
            let pointer = Path::Key(place.path, "$ref").pointer();
            self.refs.push(PendingRef { node: id, base: base.clone(), reference, pointer });
            list.push(Rule::Ref(ANY));
        }
        // last, because they ask what all the others have evaluated
        let unevaluated_items = self.child(map, "unevaluatedItems", place).map(Rule::UnevaluatedItems);
        let unevaluated_properties = self.child(map, "unevaluatedProperties", place).map(Rule::UnevaluatedProperties);
        let tracks = unevaluated_items.is_some() || unevaluated_properties.is_some();
        list.extend(unevaluated_items.into_iter().chain(unevaluated_properties));
        if !list.is_empty() {
            self.nodes[id] = Node::Rules(Rules { list, tracks });
        }
    }

    /// `$schema`, `$id` and `$anchor`; gives the base URI of what is inside.
    fn identify(&mut self, node: NodeId, value: &'d Value, map: &'d Object, place: Place<'_>) -> String {
        self.read(map, "$schema", place, &format!("\"{DIALECT}\""), |v| {
            v.as_str().filter(|dialect| dialect.strip_suffix('#').unwrap_or(dialect) == DIALECT)
        });
        let mut base = place.base.to_owned();
        let id = self.read(map, "$id", place, "a URI reference without fragment", |v| {
            v.as_str().map(uri::split_fragment).filter(|(_, fragment)| fragment.is_empty()).map(|(id, _)| id)
        });
        if let Some(id) = id {
            let path = Path::Key(place.path, "$id");
            base = uri::resolve(place.base, id);
            if base.len() > URI_BYTES_MAX {
                self.fail(&path, format!("expected a URI of at most {URI_BYTES_MAX} bytes, got {}", base.len()));
                base.clear();
            } else if self.resources.insert(base.clone(), value).is_some_and(|other| !std::ptr::eq(other, value)) {
                self.fail(&path, "expected each `$id` once in a document".to_owned());
            }
        }
        let anchor = self.read(map, "$anchor", place, "a name of letters, digits, `-`, `_` and `.`", |v| {
            v.as_str().filter(|name| is_anchor(name))
        });
        if let Some(anchor) = anchor
            && self.anchors.insert((base.clone(), anchor), node).is_some()
        {
            self.fail(&Path::Key(place.path, "$anchor"), "expected each `$anchor` once in a resource".to_owned());
        }
        base
    }

    fn choices(&mut self, map: &'d Object, place: Place<'_>, list: &mut Vec<Rule>) {
        const NAMES: &str =
            "one of \"null\", \"boolean\", \"integer\", \"number\", \"string\", \"array\", \"object\", or several in an array";
        list.extend(self.read(map, "type", place, NAMES, read_types).map(Rule::Type));
        if let Some(members) = self.read(map, "enum", place, "an array", Value::as_array) {
            let path = Path::Key(place.path, "enum");
            list.push(Rule::Enum(self.chosen(members, &path)));
        }
        if let Some(member) = map.get("const") {
            let path = Path::Key(place.path, "const");
            list.push(Rule::Const(self.chosen(std::slice::from_ref(member), &path)));
        }
    }

    fn chosen(&mut self, members: &'d [Value], path: &Path<'_>) -> Choices {
        let depth = u32::try_from(NESTING_MAX).expect("the nesting bound is small");
        let choices: Vec<Json<'static>> = members.iter().cloned().map(Json::from).collect();
        let costs: Option<Vec<u64>> = choices.iter().map(|m| value::cost(View::of(m), u64::MAX, depth)).collect();
        if costs.is_none() {
            self.fail(path, format!("expected at most {NESTING_MAX} levels of nesting"));
            return Choices::new(Vec::new(), String::new(), 1);
        }
        let dearest = costs.into_iter().flatten().max().unwrap_or(1);
        Choices::new(choices, text::listed(members.iter().map(shown)), dearest)
    }

    fn numbers(&mut self, map: &'d Object, place: Place<'_>, list: &mut Vec<Rule>) {
        for bound in Bound::ALL {
            list.extend(self.read_number(map, bound.keyword(), place).map(|limit| Rule::Bound(bound, limit)));
        }
        let step = self
            .read(map, "multipleOf", place, "a number above zero", |v| v.as_number().map(Num::of).filter(|n| n.is_positive()));
        list.extend(step.map(Rule::MultipleOf));
    }

    fn sizes(&mut self, map: &'d Object, place: Place<'_>, list: &mut Vec<Rule>) {
        for size in Size::ALL {
            list.extend(self.read_count(map, size.keyword(), place).map(|limit| Rule::Size(size, limit)));
        }
    }

    fn strings(&mut self, map: &'d Object, place: Place<'_>, list: &mut Vec<Rule>) {
        if let Some(source) = self.read(map, "pattern", place, "a string", Value::as_str) {
            let path = Path::Key(place.path, "pattern");
            list.extend(self.pattern(source, &path).map(Rule::Pattern));
        }
    }

    fn pattern(&mut self, source: &str, path: &Path<'_>) -> Option<Pattern> {
        if self.is_hopeless() {
            return None;
        }
        let compiled = Pattern::compile(source).and_then(|pattern| {
            self.pattern_bytes += pattern.bytes();
            if self.pattern_bytes > PATTERNS_BYTES_MAX { Err("too many large patterns".to_owned()) } else { Ok(pattern) }
        });
        compiled.map_err(|problem| self.fail(path, problem)).ok()
    }

    fn objects(&mut self, map: &'d Object, place: Place<'_>, list: &mut Vec<Rule>) {
        if let Some(names) = map.get("required") {
            let names = self.read_names(names, &Path::Key(place.path, "required"));
            list.push(Rule::Required(names));
        }
        let mut dependents = Vec::new();
        let under = Path::Key(place.path, "dependentRequired");
        for (name, names) in self.read_object(map, "dependentRequired", place) {
            let names = self.read_names(names, &Path::Key(&under, name));
            dependents.push((name.as_str().into(), names));
        }
        if !dependents.is_empty() {
            list.push(Rule::DependentRequired(dependents));
        }
        list.extend(self.child(map, "propertyNames", place).map(Rule::PropertyNames));
        let properties = Properties {
            known: self.known_properties(map, place),
            patterns: self.pattern_properties(map, place),
            rest: self.child(map, "additionalProperties", place),
        };
        if !properties.known.is_empty() || !properties.patterns.is_empty() || properties.rest.is_some() {
            list.push(Rule::Properties(properties));
        }
    }

    fn known_properties(&mut self, map: &'d Object, place: Place<'_>) -> Vec<(Box<str>, NodeId)> {
        let mut known = self.named_subschemas(map, "properties", place);
        known.sort();
        known
    }

    fn pattern_properties(&mut self, map: &'d Object, place: Place<'_>) -> Vec<(Pattern, NodeId)> {
        let under = Path::Key(place.path, "patternProperties");
        let named = self.named_subschemas(map, "patternProperties", place);
        let compiled = named.into_iter().filter_map(|(source, node)| {
            let pattern = self.pattern(&source, &Path::Key(&under, &source))?;
            Some((pattern, node))
        });
        compiled.collect()
    }

    fn arrays(&mut self, map: &'d Object, place: Place<'_>, list: &mut Vec<Rule>) {
        let items = Items {
            prefix: self.subschemas(map, "prefixItems", place).unwrap_or_default(),
            rest: self.child(map, "items", place),
        };
        if !items.prefix.is_empty() || items.rest.is_some() {
            list.push(Rule::Items(items));
        }
        let min = self.read_count(map, "minContains", place).unwrap_or(1);
        let max = self.read_count(map, "maxContains", place);
        let contains = self.child(map, "contains", place);
        list.extend(contains.map(|node| Rule::Contains(Contains { node, min, max })));
        if self.read(map, "uniqueItems", place, "a boolean", Value::as_bool) == Some(true) {
            list.push(Rule::UniqueItems);
        }
    }

    fn combinators(&mut self, map: &'d Object, place: Place<'_>, list: &mut Vec<Rule>) {
        list.extend(self.subschemas(map, "allOf", place).map(Rule::AllOf));
        list.extend(self.subschemas(map, "anyOf", place).map(Rule::AnyOf));
        list.extend(self.subschemas(map, "oneOf", place).map(Rule::OneOf));
        list.extend(self.child(map, "not", place).map(Rule::Not));
        let then = self.child(map, "then", place);
        let otherwise = self.child(map, "else", place);
        let test = self.child(map, "if", place);
        list.extend(test.map(|test| Rule::If(Condition { test, then, otherwise })));
        let dependents = self.named_subschemas(map, "dependentSchemas", place);
        if !dependents.is_empty() {
            list.push(Rule::DependentSchemas(dependents));
        }
    }

    /// A keyword whose value is one subschema.
    fn child(&mut self, map: &'d Object, key: &str, place: Place<'_>) -> Option<NodeId> {
        let value = map.get(key)?;
        let path = Path::Key(place.path, key);
        if key == "items" && value.is_array() {
            self.fail(&path, "expected one subschema, got an array (use `prefixItems`)".to_owned());
            return None;
        }
        Some(self.subschema(value, Place { path: &path, depth: place.depth + 1, ..place }))
    }

    /// A keyword whose value is an array of subschemas.
    fn subschemas(&mut self, map: &'d Object, key: &str, place: Place<'_>) -> Option<Vec<NodeId>> {
        let values = self
            .read(map, key, place, "an array of one subschema or more", |v| v.as_array().filter(|items| !items.is_empty()))?;
        let under = Path::Key(place.path, key);
        let nodes = values.iter().enumerate().map(|(index, value)| {
            self.subschema(value, Place { path: &Path::Index(&under, index), depth: place.depth + 1, ..place })
        });
        Some(nodes.collect())
    }

    /// A keyword whose value is an object of subschemas.
    fn named_subschemas(&mut self, map: &'d Object, key: &str, place: Place<'_>) -> Vec<(Box<str>, NodeId)> {
        let under = Path::Key(place.path, key);
        let members = self.read_object(map, key, place);
        let nodes = members.map(|(name, value)| {
            let path = Path::Key(&under, name);
            (name.as_str().into(), self.subschema(value, Place { path: &path, depth: place.depth + 1, ..place }))
        });
        nodes.collect()
    }
}

fn read_types(value: &Value) -> Option<Types> {
    let names = match value {
        Value::Array(names) if !names.is_empty() => names.as_slice(),
        Value::String(_) => std::slice::from_ref(value),
        _ => return None,
    };
    names.iter().try_fold(Types::NONE, |types, name| {
        let with = types.with(Kind::named(name.as_str()?)?);
        (with != types).then_some(with)
    })
}

fn is_anchor(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}
