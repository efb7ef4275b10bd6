//! The compiled form: an arena of nodes, each a list of rules in the order in which they are cheapest to check.
//! It must never hold a rule whose keyword is not enforced.

use super::number::Num;
use super::pattern::Pattern;
use super::value::{Kind, View, compare};
use crate::action::json::Json;

/// Index of a node in the arena.
pub(super) type NodeId = usize;

/// One subschema.
pub(super) enum Node {
    /// `true`, and `{}`.
    Any,
    /// `false`.
    Never,
    Rules(Rules),
}

pub(super) struct Rules {
    pub(super) list: Vec<Rule>,
    /// Whether it has `unevaluatedItems` or `unevaluatedProperties`, so that what its rules evaluate must be noted.
    pub(super) tracks: bool,
}

/// One keyword, or several that only have meaning together.
pub(super) enum Rule {
    Type(Types),
    Enum(Choices),
    Const(Choices),
    Bound(Bound, Num),
    MultipleOf(Num),
    Size(Size, u64),
    Pattern(Pattern),
    Items(Items),
    Contains(Contains),
    UniqueItems,
    Properties(Properties),
    PropertyNames(NodeId),
    Required(Vec<Box<str>>),
    DependentRequired(Vec<(Box<str>, Vec<Box<str>>)>),
    DependentSchemas(Vec<(Box<str>, NodeId)>),
    AllOf(Vec<NodeId>),
    AnyOf(Vec<NodeId>),
    OneOf(Vec<NodeId>),
    Not(NodeId),
    If(Condition),
    Ref(NodeId),
    UnevaluatedItems(NodeId),
    UnevaluatedProperties(NodeId),
}

/// `minimum` and its kin.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    AtLeast,
    MoreThan,
    AtMost,
    LessThan,
}

impl Bound {
    pub(super) const ALL: [Bound; 4] = [Bound::AtLeast, Bound::MoreThan, Bound::AtMost, Bound::LessThan];

    pub(super) fn keyword(self) -> &'static str {
        match self {
            Bound::AtLeast => "minimum",
            Bound::MoreThan => "exclusiveMinimum",
            Bound::AtMost => "maximum",
            Bound::LessThan => "exclusiveMaximum",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Bound::AtLeast => "at least",
            Bound::MoreThan => "more than",
            Bound::AtMost => "at most",
            Bound::LessThan => "less than",
        }
    }

    pub(super) fn holds(self, number: Num, limit: Num) -> bool {
        let order = number.compare(limit);
        match self {
            Bound::AtLeast => order.is_ge(),
            Bound::MoreThan => order.is_gt(),
            Bound::AtMost => order.is_le(),
            Bound::LessThan => order.is_lt(),
        }
    }
}

/// `minLength` and its kin: upper bounds first, so that no pattern runs over a text that is too long anyway.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    MaxLength,
    MaxItems,
    MaxProperties,
    MinLength,
    MinItems,
    MinProperties,
}

impl Size {
    pub(super) const ALL: [Size; 6] =
        [Size::MaxLength, Size::MaxItems, Size::MaxProperties, Size::MinLength, Size::MinItems, Size::MinProperties];

    pub(super) fn keyword(self) -> &'static str {
        match self {
            Size::MaxLength => "maxLength",
            Size::MaxItems => "maxItems",
            Size::MaxProperties => "maxProperties",
            Size::MinLength => "minLength",
            Size::MinItems => "minItems",
            Size::MinProperties => "minProperties",
        }
    }

    pub(super) fn is_upper(self) -> bool {
        matches!(self, Size::MaxLength | Size::MaxItems | Size::MaxProperties)
    }

    /// What is counted, one and many of them.
    pub(super) fn nouns(self) -> (&'static str, &'static str) {
        match self {
            Size::MaxLength | Size::MinLength => ("character", "characters"),
            Size::MaxItems | Size::MinItems => ("item", "items"),
            Size::MaxProperties | Size::MinProperties => ("property", "properties"),
        }
    }
}

/// The set of `type`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NONE: Types = Types(0);

    pub(super) fn with(self, kind: Kind) -> Types {
        Types(self.0 | 1 << kind as u8)
    }

    pub(super) fn accepts(self, kind: Kind) -> bool {
        self.has(kind) || kind == Kind::Integer && self.has(Kind::Number)
    }

    /// `integer or null`.
    pub(super) fn words(self) -> String {
        let names: Vec<_> = Kind::ALL.into_iter().filter(|kind| self.has(*kind)).map(Kind::name).collect();
        names.join(" or ")
    }

    fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

/// The members of `enum`, or the one of `const`.
pub(super) struct Choices {
    /// Sorted, to be found by halving.
    members: Vec<Json<'static>>,
    /// As written, cut, for messages.
    pub(super) listed: String,
    /// Steps one look-up costs.
    pub(super) cost: u64,
}

impl Choices {
    /// `comparison` is the dearest comparison with any member, in steps.
    pub(super) fn new(mut members: Vec<Json<'static>>, listed: String, comparison: u64) -> Choices {
        members.sort_by(|a, b| compare(View::of(a), View::of(b)));
        let cost = comparison * (1 + u64::from(members.len().checked_ilog2().unwrap_or(0)));
        Choices { members, listed, cost }
    }

    pub(super) fn contains(&self, value: View<'_>) -> bool {
        self.members.binary_search_by(|member| compare(View::of(member), value)).is_ok()
    }
}

/// `prefixItems` and `items`.
pub(super) struct Items {
    pub(super) prefix: Vec<NodeId>,
    pub(super) rest: Option<NodeId>,
}

/// `contains`, `minContains` and `maxContains`.
pub(super) struct Contains {
    pub(super) node: NodeId,
    pub(super) min: u64,
    pub(super) max: Option<u64>,
}

/// `properties`, `patternProperties` and `additionalProperties`.
pub(super) struct Properties {
    /// Sorted by name.
    pub(super) known: Vec<(Box<str>, NodeId)>,
    pub(super) patterns: Vec<(Pattern, NodeId)>,
    pub(super) rest: Option<NodeId>,
}

impl Properties {
    pub(super) fn find(&self, name: &str) -> Option<NodeId> {
        let found = self.known.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(self.known[found].1)
    }
}

/// `if`, `then` and `else`.
pub(super) struct Condition {
    pub(super) test: NodeId,
    pub(super) then: Option<NodeId>,
    pub(super) otherwise: Option<NodeId>,
}

impl Rule {
    /// Subschemas that apply to the same value as this rule, without going down into it.
    pub(super) fn in_place(&self) -> Vec<NodeId> {
        match self {
            Rule::AllOf(nodes) | Rule::AnyOf(nodes) | Rule::OneOf(nodes) => nodes.clone(),
            Rule::Not(node) | Rule::Ref(node) => vec![*node],
            Rule::If(c) => [Some(c.test), c.then, c.otherwise].into_iter().flatten().collect(),
            Rule::DependentSchemas(pairs) => pairs.iter().map(|(_, node)| *node).collect(),
            Rule::Type(_)
            | Rule::Enum(_)
            | Rule::Const(_)
            | Rule::Bound(..)
            | Rule::MultipleOf(_)
            | Rule::Size(..)
            | Rule::Pattern(_)
            | Rule::Items(_)
            | Rule::Contains(_)
            | Rule::UniqueItems
            | Rule::Properties(_)
            | Rule::PropertyNames(_)
            | Rule::Required(_)
            | Rule::DependentRequired(_)
            | Rule::UnevaluatedItems(_)
            | Rule::UnevaluatedProperties(_) => Vec::new(),
        }
    }

    /// Whether a failure makes the remaining rules of the node noise, or needlessly dear.
    pub(super) fn is_gate(&self) -> bool {
        matches!(self, Rule::Type(_) | Rule::Enum(_) | Rule::Const(_)) || matches!(self, Rule::Size(size, _) if size.is_upper())
    }
}
