//! Rules about the items of arrays and the members of objects.
//! It must never take longer than the steps it has spent, whatever the number of items.

use super::DEPTH_MAX;
use super::rule::{Contains, Items, Node, NodeId, Properties, Rule, Rules};
use super::text::{self, Path};
use super::validate::{Marks, Run};
use super::value::{self, View, compare};
use crate::action::json::{Json, Members};

/// Up to this many items are compared each with each, which needs no memory.
const PAIRWISE_MAX: usize = 16;

impl<'s> Run<'s> {
    pub(super) fn items(&mut self, rule: &Items, items: &[Json<'_>], path: &Path<'_>, mut marks: Option<&mut Marks>) -> bool {
        let allowed = rule.prefix.len();
        if rule.rest.is_some_and(|node| self.is_never(node)) && items.len() > allowed {
            return self.refuse(path, "items", || {
                format!("expected at most {}, got {}", text::counted(allowed as u64, "item", "items"), items.len())
            });
        }
        let mut fits = true;
        for (index, item) in items.iter().enumerate() {
            let Some(node) = rule.prefix.get(index).copied().or(rule.rest) else {
                break;
            };
            fits &= self.check(node, View::of(item), &Path::Index(path, index), None);
            if !fits && self.is_quiet() {
                return false;
            }
            if let Some(marks) = marks.as_deref_mut() {
                marks.set(index);
            }
        }
        fits
    }

    pub(super) fn contains(
        &mut self,
        rule: &Contains,
        items: &[Json<'_>],
        path: &Path<'_>,
        mut marks: Option<&mut Marks>,
    ) -> bool {
        let mut count = 0;
        for (index, item) in items.iter().enumerate() {
            if rule.max.is_none() && count >= rule.min && marks.is_none() {
                return true;
            }
            if self.quietly(rule.node, View::of(item), &Path::Index(path, index), None) {
                count += 1;
                if let Some(marks) = marks.as_deref_mut() {
                    marks.set(index);
                }
            }
        }
        if count < rule.min {
            let keyword = if rule.min == 1 { "contains" } else { "minContains" };
            return self.refuse(path, keyword, || {
                let wanted = text::counted(rule.min, "item that fits", "items that fit");
                format!("expected at least {wanted} `contains`, got {count}")
            });
        }
        let Some(max) = rule.max.filter(|max| count > *max) else {
            return true;
        };
        self.refuse(path, "maxContains", || {
            let wanted = text::counted(max, "item that fits", "items that fit");
            format!("expected at most {wanted} `contains`, got {count}")
        })
    }

    pub(super) fn unique(&mut self, items: &[Json<'_>], path: &Path<'_>) -> bool {
        let mut total = 0;
        for item in items {
            let Some(cost) = value::cost(View::of(item), self.steps_left, DEPTH_MAX) else {
                return self.exhaust();
            };
            total += cost;
            if !self.spend(cost) {
                return false;
            }
        }
        let rounds = if items.len() <= PAIRWISE_MAX { items.len() as u64 / 2 } else { u64::from(items.len().ilog2()) };
        if !self.spend(total * rounds) {
            return false;
        }
        let Some((first, second)) = equal_pair(items) else {
            return true;
        };
        self.refuse(path, "uniqueItems", || format!("expected each item once, but items {first} and {second} are equal"))
    }

    pub(super) fn unevaluated_items(
        &mut self,
        node: NodeId,
        items: &[Json<'_>],
        path: &Path<'_>,
        marks: Option<&mut Marks>,
    ) -> bool {
        let Some(marks) = marks else { return true };
        let mut fits = true;
        for (index, item) in items.iter().enumerate() {
            if !self.spend(1) {
                return false;
            }
            if !marks.has(index) {
                fits &= self.check(node, View::of(item), &Path::Index(path, index), None);
                marks.set(index);
            }
        }
        fits
    }

    pub(super) fn properties(
        &mut self,
        rule: &'s Properties,
        map: &Members<'_>,
        path: &Path<'_>,
        mut marks: Option<&mut Marks>,
    ) -> bool {
        let mut fits = true;
        let mut unknown = 0;
        for (index, (name, member)) in map.iter().enumerate() {
            let at = Path::Key(path, name);
            let mut matched = false;
            if let Some(node) = rule.find(name) {
                matched = true;
                fits &= self.check(node, View::of(member), &at, None);
            }
            if !rule.patterns.is_empty() {
                let (any, all_fit) = self.matching(rule, name, member, &at);
                matched |= any;
                fits &= all_fit;
            }
            if let Some(node) = rule.rest.filter(|_| !matched) {
                matched = true;
                if self.is_never(node) {
                    fits = self.unknown(path, "additionalProperties", name, Some(rule), unknown);
                    unknown += 1;
                } else {
                    fits &= self.check(node, View::of(member), &at, None);
                }
            }
            if (!fits && self.is_quiet()) || !self.spend(1) {
                return false;
            }
            if let Some(marks) = marks.as_deref_mut().filter(|_| matched) {
                marks.set(index);
            }
        }
        fits
    }

    /// Whether any of `patternProperties` matches the name, and whether the member fits all that do.
    fn matching(&mut self, rule: &Properties, name: &str, member: &Json<'_>, at: &Path<'_>) -> (bool, bool) {
        let (mut any, mut all_fit) = (false, true);
        for (pattern, node) in &rule.patterns {
            if !self.spend(pattern.cost(name)) {
                return (any, false);
            }
            if pattern.matches(name) {
                any = true;
                all_fit &= self.check(*node, View::of(member), at, None);
            }
        }
        (any, all_fit)
    }

    pub(super) fn property_names(&mut self, node: NodeId, map: &Members<'_>, path: &Path<'_>) -> bool {
        let mut fits = true;
        for name in map.keys() {
            if self.quietly(node, View::Text(name), path, None) {
                continue;
            }
            fits = false;
            if self.is_quiet() {
                break;
            }
            let why = self.violations(node, View::Text(name), path);
            let why = why.first().map_or("does not fit", |violation| &violation.message);
            self.refuse(path, "propertyNames", || format!("property name {}: {why}", text::quoted(name)));
        }
        fits
    }

    pub(super) fn required(&mut self, names: &[Box<str>], map: &Members<'_>, path: &Path<'_>) -> bool {
        let mut fits = true;
        for name in names {
            if !self.spend(1) {
                return false;
            }
            if !map.contains_key(&**name) {
                fits = self.refuse(path, "required", || format!("missing property {}", text::quoted(name)));
            }
        }
        fits
    }

    pub(super) fn dependent_required(
        &mut self,
        pairs: &[(Box<str>, Vec<Box<str>>)],
        map: &Members<'_>,
        path: &Path<'_>,
    ) -> bool {
        let mut fits = true;
        for (present, names) in pairs {
            if !self.spend(1) {
                return false;
            }
            for name in names.iter().filter(|_| map.contains_key(&**present)) {
                if !self.spend(1) {
                    return false;
                }
                if !map.contains_key(&**name) {
                    fits = self.refuse(path, "dependentRequired", || {
                        format!("missing property {}, required by {}", text::quoted(name), text::quoted(present))
                    });
                }
            }
        }
        fits
    }

    pub(super) fn dependent_schemas(
        &mut self,
        pairs: &[(Box<str>, NodeId)],
        map: &Members<'_>,
        path: &Path<'_>,
        mut marks: Option<&mut Marks>,
    ) -> bool {
        let mut fits = true;
        for (present, node) in pairs {
            if !self.spend(1) {
                return false;
            }
            if map.contains_key(&**present) {
                fits &= self.check(*node, View::Object(map), path, marks.as_deref_mut());
            }
        }
        fits
    }

    pub(super) fn unevaluated_properties(
        &mut self,
        node: NodeId,
        rules: &'s Rules,
        map: &Members<'_>,
        path: &Path<'_>,
        marks: Option<&mut Marks>,
    ) -> bool {
        let Some(marks) = marks else { return true };
        let declared = rules.list.iter().find_map(|rule| match rule {
            Rule::Properties(properties) => Some(properties),
            _ => None,
        });
        let mut fits = true;
        let mut unknown = 0;
        for (index, (name, member)) in map.iter().enumerate() {
            if !self.spend(1) {
                return false;
            }
            if marks.has(index) {
                continue;
            }
            marks.set(index);
            if self.is_never(node) {
                fits = self.unknown(path, "unevaluatedProperties", name, declared, unknown);
                unknown += 1;
            } else {
                fits &= self.check(node, View::of(member), &Path::Key(path, name), None);
            }
        }
        fits
    }

    /// Refuses a property nobody declared; the first one of an object also says which are.
    fn unknown(
        &mut self,
        path: &Path<'_>,
        keyword: &'static str,
        name: &str,
        declared: Option<&Properties>,
        before: usize,
    ) -> bool {
        self.refuse(path, keyword, || {
            let known = declared.map_or(&[][..], |properties| &properties.known);
            let mut message = format!("unknown property {}", text::quoted(name));
            if let Some(near) = text::nearest(name, known.iter().map(|(known, _)| &**known)) {
                message.push_str(&format!(", did you mean {}?", text::quoted(near)));
            }
            if before == 0 && !known.is_empty() {
                let accepted = text::listed(known.iter().map(|(known, _)| text::quoted(known)));
                message.push_str(&format!(" (accepted: {accepted})"));
            }
            message
        })
    }

    fn is_never(&self, node: NodeId) -> bool {
        matches!(self.nodes[node], Node::Never)
    }
}

/// Positions of two equal items, in order.
fn equal_pair(items: &[Json<'_>]) -> Option<(usize, usize)> {
    let equal = |a: &Json<'_>, b: &Json<'_>| compare(View::of(a), View::of(b)).is_eq();
    if items.len() <= PAIRWISE_MAX {
        return (1..items.len()).find_map(|j| (0..j).find(|i| equal(&items[*i], &items[j])).map(|i| (i, j)));
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|a, b| compare(View::of(&items[*a]), View::of(&items[*b])));
    order.windows(2).find(|pair| equal(&items[pair[0]], &items[pair[1]])).map(|pair| (pair[0], pair[1]))
}
