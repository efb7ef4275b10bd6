//! The check itself: walks value and nodes together, counting steps and depth.
//!
//! There are two modes. Quiet answers yes or no, for the branches of `anyOf` and the like; loud also writes down what does
//! not fit. A check that has stopped (budget gone, or enough violations) answers no everywhere, and since `not` turns that
//! into a yes, the verdict at the end looks at the state first. It must never allocate while all is well and small.

use super::pattern::Pattern;
use super::rule::{Node, NodeId, Rule, Rules, Size};
use super::text::{self, Path};
use super::value::{self, View};
use super::{DEPTH_MAX, Invalid, STEPS_MAX, VIOLATIONS_MAX, Violation};
use crate::action::json::Json;

pub(super) fn run(nodes: &[Node], root: NodeId, instance: &Json<'_>) -> Result<(), Invalid> {
    let mut run =
        Run { nodes, steps_left: STEPS_MAX, depth_left: DEPTH_MAX, mode: Mode::Loud, state: State::Going, found: Vec::new() };
    let fits = run.check(root, View::of(instance), &Path::Root, None);
    if fits && run.state == State::Going {
        return Ok(());
    }
    Err(Invalid { violations: run.found, exhausted: run.state == State::Exhausted })
}

pub(super) struct Run<'s> {
    pub(super) nodes: &'s [Node],
    pub(super) steps_left: u64,
    pub(super) depth_left: u32,
    mode: Mode,
    state: State,
    found: Vec<Violation>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Quiet,
    Loud,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    /// Enough violations have been found.
    Full,
    /// The budget is gone.
    Exhausted,
}

/// Which items or members of one value have been evaluated, by position; what `unevaluated…` asks for.
#[derive(Default)]
pub(super) struct Marks {
    low: u64,
    high: Vec<u64>,
}

impl Marks {
    pub(super) fn set(&mut self, index: usize) {
        if index < 64 {
            self.low |= 1 << index;
            return;
        }
        let word = index / 64 - 1;
        if word >= self.high.len() {
            self.high.resize(word + 1, 0);
        }
        self.high[word] |= 1 << (index % 64);
    }

    pub(super) fn has(&self, index: usize) -> bool {
        let word = if index < 64 { Some(&self.low) } else { self.high.get(index / 64 - 1) };
        word.is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    pub(super) fn merge(&mut self, other: &Marks) {
        self.low |= other.low;
        if self.high.len() < other.high.len() {
            self.high.resize(other.high.len(), 0);
        }
        for (word, more) in self.high.iter_mut().zip(&other.high) {
            *word |= more;
        }
    }

    fn words(&self) -> u64 {
        self.high.len() as u64
    }
}

impl<'s> Run<'s> {
    /// Whether `value` fits; `marks` takes what is evaluated, and is worth nothing if it does not fit.
    pub(super) fn check(&mut self, node: NodeId, value: View<'_>, path: &Path<'_>, marks: Option<&mut Marks>) -> bool {
        if !self.spend(1) {
            return false;
        }
        match &self.nodes[node] {
            Node::Any => true,
            Node::Never => self.refuse(path, "false", || "expected nothing here".to_owned()),
            Node::Rules(rules) => {
                let Some(left) = self.depth_left.checked_sub(1) else {
                    self.state = State::Exhausted;
                    return false;
                };
                self.depth_left = left;
                let fits =
                    if rules.tracks { self.tracked(rules, value, path, marks) } else { self.rules(rules, value, path, marks) };
                self.depth_left += 1;
                fits
            }
        }
    }

    /// A node with `unevaluated…` sees only what it evaluates itself, then passes that on.
    fn tracked(&mut self, rules: &'s Rules, value: View<'_>, path: &Path<'_>, marks: Option<&mut Marks>) -> bool {
        let mut own = Marks::default();
        let fits = self.rules(rules, value, path, Some(&mut own));
        if fits && let Some(marks) = marks {
            self.spend(own.words());
            marks.merge(&own);
        }
        fits
    }

    fn rules(&mut self, rules: &'s Rules, value: View<'_>, path: &Path<'_>, mut marks: Option<&mut Marks>) -> bool {
        let mut fits = true;
        for rule in &rules.list {
            // what has failed did not evaluate all it would have, so the rest only looks unevaluated
            if !fits && matches!(rule, Rule::UnevaluatedItems(_) | Rule::UnevaluatedProperties(_)) {
                break;
            }
            if !self.rule(rules, rule, value, path, marks.as_deref_mut()) {
                fits = false;
                if self.is_quiet() || rule.is_gate() {
                    break;
                }
            }
        }
        fits
    }

    fn rule(&mut self, rules: &'s Rules, rule: &'s Rule, value: View<'_>, path: &Path<'_>, marks: Option<&mut Marks>) -> bool {
        if !self.spend(1) {
            return false;
        }
        match (rule, value) {
            (Rule::Type(_) | Rule::Enum(_) | Rule::Const(_), _) => self.choice(rule, value, path),
            (Rule::Bound(..) | Rule::MultipleOf(_), View::Number(_)) => self.number(rule, value, path),
            (Rule::Size(size, limit), _) => self.size(*size, *limit, value, path),
            (Rule::Pattern(pattern), View::Text(text)) => self.pattern(pattern, text, path),
            (Rule::Items(rule), View::Array(items)) => self.items(rule, items, path, marks),
            (Rule::Contains(rule), View::Array(items)) => self.contains(rule, items, path, marks),
            (Rule::UniqueItems, View::Array(items)) => self.unique(items, path),
            (Rule::UnevaluatedItems(node), View::Array(items)) => self.unevaluated_items(*node, items, path, marks),
            (Rule::Properties(rule), View::Object(map)) => self.properties(rule, map, path, marks),
            (Rule::PropertyNames(node), View::Object(map)) => self.property_names(*node, map, path),
            (Rule::Required(names), View::Object(map)) => self.required(names, map, path),
            (Rule::DependentRequired(pairs), View::Object(map)) => self.dependent_required(pairs, map, path),
            (Rule::DependentSchemas(pairs), View::Object(map)) => self.dependent_schemas(pairs, map, path, marks),
            (Rule::UnevaluatedProperties(node), View::Object(map)) => {
                self.unevaluated_properties(*node, rules, map, path, marks)
            }
            (Rule::AllOf(nodes), _) => self.all_of(nodes, value, path, marks),
            (Rule::AnyOf(nodes), _) => self.any_of(nodes, value, path, marks),
            (Rule::OneOf(nodes), _) => self.one_of(nodes, value, path, marks),
            (Rule::Not(node), _) => self.not(*node, value, path),
            (Rule::If(condition), _) => self.condition(condition, value, path, marks),
            (Rule::Ref(node), _) => self.check(*node, value, path, marks),
            // the rest are rules about another kind of value
            (Rule::Bound(..) | Rule::MultipleOf(_) | Rule::Pattern(_), _)
            | (Rule::Items(_) | Rule::Contains(_) | Rule::UniqueItems | Rule::UnevaluatedItems(_), _)
            | (Rule::Properties(_) | Rule::PropertyNames(_) | Rule::UnevaluatedProperties(_), _)
            | (Rule::Required(_) | Rule::DependentRequired(_) | Rule::DependentSchemas(_), _) => true,
        }
    }

    fn choice(&mut self, rule: &Rule, value: View<'_>, path: &Path<'_>) -> bool {
        let kind = value.kind();
        match rule {
            Rule::Type(types) => {
                types.accepts(kind) || self.refuse(path, "type", || format!("expected {}, got {}", types.words(), kind.name()))
            }
            Rule::Enum(choices) => {
                let found = self.spend(choices.cost) && choices.contains(value);
                found || self.refuse(path, "enum", || format!("expected one of {}", choices.listed))
            }
            Rule::Const(choices) => {
                let found = self.spend(choices.cost) && choices.contains(value);
                found || self.refuse(path, "const", || format!("expected {}", choices.listed))
            }
            _ => true,
        }
    }

    fn number(&mut self, rule: &Rule, value: View<'_>, path: &Path<'_>) -> bool {
        match (rule, value) {
            (Rule::Bound(bound, limit), View::Number(number)) => {
                bound.holds(number, *limit)
                    || self.refuse(path, bound.keyword(), || format!("expected {} {limit}", bound.words()))
            }
            (Rule::MultipleOf(step), View::Number(number)) => {
                number.is_multiple_of(*step) || self.refuse(path, "multipleOf", || format!("expected a multiple of {step}"))
            }
            _ => true,
        }
    }

    fn size(&mut self, size: Size, limit: u64, value: View<'_>, path: &Path<'_>) -> bool {
        let count = match (size, value) {
            (Size::MaxLength | Size::MinLength, View::Text(text)) => {
                if !self.spend(value::text_cost(text)) {
                    return false;
                }
                text.chars().count()
            }
            (Size::MaxItems | Size::MinItems, View::Array(items)) => items.len(),
            (Size::MaxProperties | Size::MinProperties, View::Object(map)) => map.len(),
            _ => return true,
        } as u64;
        let fits = if size.is_upper() { count <= limit } else { count >= limit };
        fits || self.refuse(path, size.keyword(), || {
            let (one, many) = size.nouns();
            let words = if size.is_upper() { "at most" } else { "at least" };
            format!("expected {words} {}, got {count}", text::counted(limit, one, many))
        })
    }

    fn pattern(&mut self, pattern: &Pattern, text: &str, path: &Path<'_>) -> bool {
        if !self.spend(pattern.cost(text)) {
            return false;
        }
        pattern.matches(text)
            || self.refuse(path, "pattern", || format!("expected text that matches `{}`", text::cut(&pattern.source)))
    }

    /// Takes steps from the budget; false if the check has stopped or stops here.
    pub(super) fn spend(&mut self, steps: u64) -> bool {
        if self.state != State::Going {
            return false;
        }
        match self.steps_left.checked_sub(steps) {
            Some(left) => self.steps_left = left,
            None => self.state = State::Exhausted,
        }
        self.state == State::Going
    }

    /// For a budget that something else has found too small.
    pub(super) fn exhaust(&mut self) -> bool {
        self.state = State::Exhausted;
        false
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.mode == Mode::Quiet
    }

    /// Notes a violation if anybody wants to hear of it; always false, the answer of the rule that calls it.
    pub(super) fn refuse(&mut self, path: &Path<'_>, keyword: &'static str, message: impl FnOnce() -> String) -> bool {
        if self.mode == Mode::Loud && self.state == State::Going {
            self.found.push(Violation { pointer: path.pointer(), keyword, message: message() });
            self.stop_when_full();
        }
        false
    }

    /// Whether `value` fits, without a word about why not.
    pub(super) fn quietly(&mut self, node: NodeId, value: View<'_>, path: &Path<'_>, marks: Option<&mut Marks>) -> bool {
        let mode = std::mem::replace(&mut self.mode, Mode::Quiet);
        let fits = self.check(node, value, path, marks);
        self.mode = mode;
        fits
    }

    /// What a node has against `value`, at most as much as a whole check may find; empty if it fits.
    pub(super) fn violations(&mut self, node: NodeId, value: View<'_>, path: &Path<'_>) -> Vec<Violation> {
        let found = std::mem::take(&mut self.found);
        self.check(node, value, path, None);
        if self.state == State::Full {
            self.state = State::Going;
        }
        std::mem::replace(&mut self.found, found)
    }

    /// Takes over violations found by [`Run::violations`]; always false.
    pub(super) fn adopt(&mut self, violations: Vec<Violation>) -> bool {
        if self.state == State::Going {
            self.found.extend(violations);
            self.found.truncate(VIOLATIONS_MAX);
            self.stop_when_full();
        }
        false
    }

    fn stop_when_full(&mut self) {
        if self.found.len() == VIOLATIONS_MAX {
            self.state = State::Full;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_remember_positions_on_both_sides_of_the_first_word() {
        let (mut a, mut b) = (Marks::default(), Marks::default());
        for index in [0, 63, 64, 200] {
            a.set(index);
        }
        b.set(127);
        b.merge(&a);
        let marked: Vec<usize> = (0..300).filter(|index| b.has(*index)).collect();
        assert_eq!(marked, [0, 63, 64, 127, 200]);
        assert!(!a.has(127) && !a.has(100_000));
    }
}
