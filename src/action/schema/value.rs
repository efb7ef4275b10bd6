//! JSON values as the validator sees them: their kinds, one order over all of them, and what comparing them costs.
//! It must never depend on how a number was written or in which order members were.

use std::cmp::Ordering;

use super::number::Num;
use crate::action::json::{Json, Members};

/// A value, or a property name on its way through `propertyNames`.
#[derive(Clone, Copy)]
pub(super) enum View<'v> {
    Null,
    Bool(bool),
    Number(Num),
    Text(&'v str),
    Array(&'v [Json<'v>]),
    Object(&'v Members<'v>),
}

impl<'v> View<'v> {
    pub(super) fn of(value: &'v Json<'v>) -> View<'v> {
        match value {
            Json::Null => View::Null,
            Json::Bool(b) => View::Bool(*b),
            Json::Number(n) => View::Number(Num::of(n)),
            Json::Text(s) => View::Text(s),
            Json::Array(items) => View::Array(items),
            Json::Object(members) => View::Object(members),
        }
    }

    /// The most special kind: `integer` rather than `number`.
    pub(super) fn kind(self) -> Kind {
        match self {
            View::Null => Kind::Null,
            View::Bool(_) => Kind::Boolean,
            View::Number(n) if n.is_integer() => Kind::Integer,
            View::Number(_) => Kind::Number,
            View::Text(_) => Kind::String,
            View::Array(_) => Kind::Array,
            View::Object(_) => Kind::Object,
        }
    }

    fn rank(self) -> u8 {
        match self {
            View::Null => 0,
            View::Bool(_) => 1,
            View::Number(_) => 2,
            View::Text(_) => 3,
            View::Array(_) => 4,
            View::Object(_) => 5,
        }
    }
}

/// The types of `type`; every integer is also a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    pub(super) const ALL: [Kind; 7] =
        [Kind::Null, Kind::Boolean, Kind::Integer, Kind::Number, Kind::String, Kind::Array, Kind::Object];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }

    pub(super) fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A total order in which values are equal exactly when JSON Schema calls them equal. Recursion is as deep as the
/// shallower value.
pub(super) fn compare(a: View<'_>, b: View<'_>) -> Ordering {
    match (a, b) {
        (View::Bool(a), View::Bool(b)) => a.cmp(&b),
        (View::Number(a), View::Number(b)) => a.compare(b),
        (View::Text(a), View::Text(b)) => a.cmp(b),
        (View::Array(a), View::Array(b)) => compare_arrays(a, b),
        (View::Object(a), View::Object(b)) => compare_objects(a, b),
        (a, b) => a.rank().cmp(&b.rank()),
    }
}

fn compare_arrays(a: &[Json<'_>], b: &[Json<'_>]) -> Ordering {
    let by_length = a.len().cmp(&b.len());
    let by_items = || a.iter().zip(b).map(|(a, b)| compare(View::of(a), View::of(b))).find(|o| o.is_ne());
    by_length.then_with(|| by_items().unwrap_or(Ordering::Equal))
}

/// The members of a map come sorted by name, so equal objects list equal members at equal places.
fn compare_objects(a: &Members<'_>, b: &Members<'_>) -> Ordering {
    let by_length = a.len().cmp(&b.len());
    let by_members = || {
        a.iter()
            .zip(b)
            .map(|((a_name, a), (b_name, b))| a_name.cmp(b_name).then_with(|| compare(View::of(a), View::of(b))))
            .find(|o| o.is_ne())
    };
    by_length.then_with(|| by_members().unwrap_or(Ordering::Equal))
}

/// Steps to compare a text once: memory comparison is quick, hence one step for 64 bytes.
pub(super) fn text_cost(text: &str) -> u64 {
    1 + (text.len() / 64) as u64
}

/// Steps to walk a value once, or `None` if that takes more than `steps` or is nested deeper than `depth`.
pub(super) fn cost(value: View<'_>, steps: u64, depth: u32) -> Option<u64> {
    let mut spent = 1;
    match value {
        View::Null | View::Bool(_) | View::Number(_) => {}
        View::Text(text) => spent = text_cost(text),
        View::Array(items) => {
            let depth = depth.checked_sub(1)?;
            for item in items {
                spent += cost(View::of(item), steps.checked_sub(spent)?, depth)?;
            }
        }
        View::Object(members) => {
            let depth = depth.checked_sub(1)?;
            for (name, member) in members {
                spent += text_cost(name);
                spent += cost(View::of(member), steps.checked_sub(spent)?, depth)?;
            }
        }
    }
    (spent <= steps).then_some(spent)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_equal(a: &str, b: &str, expected: bool) {
        let [a, b] = [a, b].map(|text| Json::parse(text).expect("JSON"));
        assert_eq!(compare(View::of(&a), View::of(&b)).is_eq(), expected, "{a} {b}");
        assert_eq!(compare(View::of(&b), View::of(&a)), compare(View::of(&a), View::of(&b)).reverse());
    }

    #[test]
    fn equality_is_that_of_json_schema() {
        check_equal("[1, {\"a\": 2.0}]", "[1.0, {\"a\": 2}]", true);
        check_equal("{\"b\": 1, \"a\": 2}", "{\"a\": 2, \"b\": 1}", true);
        check_equal("{\"a\": 1}", "{\"b\": 1}", false);
        check_equal("{\"a\": 1}", "{\"a\": 1, \"b\": 2}", false);
        check_equal("[1, 2]", "[2, 1]", false);
        check_equal("false", "0", false);
        check_equal("null", "false", false);
        check_equal("\"1\"", "1", false);
        check_equal("[]", "{}", false);
    }

    #[test]
    fn cost_counts_and_stops() {
        let value = Json::from(json!([1, "x".repeat(640), {"a": null}]));
        assert_eq!(cost(View::of(&value), 1_000, 8), Some(1 + 1 + 11 + 1 + 1 + 1));
        assert_eq!(cost(View::of(&value), 16, 8), Some(16));
        assert_eq!(cost(View::of(&value), 15, 8), None);
        assert_eq!(cost(View::of(&value), 1_000, 2), Some(16));
        assert_eq!(cost(View::of(&value), 1_000, 1), None);
    }
}
