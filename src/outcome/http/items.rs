//! The first elements of an array too large to be shown whole, how many there are, and where the rest begins.
//!
//! One pass: an element is kept only while it may fit, and all behind the cut are counted alone. Nothing is cut inside an element.

use std::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use crate::outcome::http::select::{Part, Want};
use crate::outcome::http::walk::{Kind, Stopped, Walk};

/// The elements of an array that fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstItems {
    /// The array of these alone, compact.
    pub json: String,
    /// How many they are; at least one.
    pub shown: usize,
    /// How many there are.
    pub total: usize,
    /// Where the first one not shown begins, in bytes of the text as given; `None` if all are shown.
    pub rest_at: Option<usize>,
    /// Halves of surrogate pairs that stand as U+FFFD in `json`.
    pub replaced: usize,
}

/// The first elements of the array `json`, a JSON text, whose `cost` together, with that of `[]` and of a `,` for each, is at most
/// `budget`. `cost` is given compact JSON and is never less than its length. `None` if it is no array or not even one fits.
///
/// # Errors
/// Why it stopped; `cancelled` is asked at every element and scalar, and for each 64 KiB written.
pub fn first_items(
    json: &str,
    budget: usize,
    cost: &dyn Fn(&str) -> usize,
    cancelled: &dyn Fn() -> bool,
) -> Result<Option<FirstItems>, Stopped> {
    let mut out = String::new();
    let mut walk = Walk::new(json, &mut out, budget, cancelled);
    if walk.kind() != Kind::Array {
        return Ok(None);
    }
    let mut found = FirstItems::default();
    let read = walk.run(|walk, deserializer| deserializer.deserialize_seq(Items { walk, budget, cost, found: &mut found }));
    found.replaced = walk.replaced();
    match read {
        Ok(()) if found.shown > 0 => Ok(Some(FirstItems { json: out + "]", ..found })),
        Ok(()) => Ok(None),
        Err(Stopped::NotJson) if found.is_nothing() => Ok(None),
        Err(stopped) => Err(stopped),
    }
}

impl FirstItems {
    /// Whether the first element was read and does not fit.
    fn is_nothing(&self) -> bool {
        self.shown == 0 && self.rest_at.is_some()
    }
}

struct Items<'w, 'd, 'o> {
    walk: &'w mut Walk<'d, 'o>,
    budget: usize,
    cost: &'w dyn Fn(&str) -> usize,
    found: &'w mut FirstItems,
}

impl<'d> Visitor<'d> for Items<'_, 'd, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut seq: A) -> Result<(), A::Error> {
        let Items { walk, budget, cost, found } = self;
        walk.open()?;
        walk.push("[");
        let mut spent = cost("[]");
        loop {
            let (begin, at) = (walk.mark(), walk.seek());
            if found.rest_at.is_none() && found.shown > 0 {
                walk.push(",");
            }
            let element = walk.mark();
            let want = if found.rest_at.is_none() { Want::All } else { Want::Nothing };
            if seq.next_element_seed(Part { walk, want })?.is_none() {
                walk.rewind(begin);
                break;
            }
            found.total += 1;
            if found.rest_at.is_some() {
                continue;
            }
            spent += cost(walk.since(element)) + cost(",");
            if !walk.is_full() && spent <= budget {
                found.shown += 1;
                continue;
            }
            walk.rewind(begin);
            found.rest_at = Some(at);
            if found.is_nothing() {
                // Where nothing fits, nobody asks how many there are.
                return Err(A::Error::custom("not even one element fits"));
            }
        }
        walk.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::limits::CHUNK_BYTES;

    /// With each byte costing two; also reads on from where the rest begins.
    #[track_caller]
    fn check_items(json: &str, budget: usize, expected: Option<(&str, usize, Option<&str>)>) {
        let found = first_items(json, budget, &|text| 2 * text.len(), &|| false).unwrap();
        let seen = found.as_ref().map(|found| (found.json.as_str(), found.total, found.rest_at.map(|at| &json[at..])));
        assert_eq!(seen, expected, "{budget} for {json:.80}");
        let Some(found) = found else { return };
        assert_eq!(serde_json::from_str::<Vec<serde::de::IgnoredAny>>(&found.json).unwrap().len(), found.shown);
        if let Some(at) = found.rest_at {
            let rest = first_items(&format!("[{}", &json[at..]), usize::MAX, &str::len, &|| false).unwrap().unwrap();
            assert_eq!((rest.shown + found.shown, rest.rest_at), (found.total, None));
        }
    }

    #[test]
    fn as_many_elements_are_shown_as_fit() {
        let json = " [ 1 , {\"a\" : [2, 3]} ,\n \"x y\" ] ";
        let rest = ["{\"a\" : [2, 3]} ,\n \"x y\" ] ", "\"x y\" ] "];
        check_items(json, 7, None);
        check_items(json, 8, Some(("[1]", 3, Some(rest[0]))));
        check_items(json, 31, Some(("[1]", 3, Some(rest[0]))));
        check_items(json, 32, Some(("[1,{\"a\":[2,3]}]", 3, Some(rest[1]))));
        check_items(json, 43, Some(("[1,{\"a\":[2,3]}]", 3, Some(rest[1]))));
        check_items(json, 44, Some(("[1,{\"a\":[2,3]},\"x y\"]", 3, None)));
        check_items(json, usize::MAX, Some(("[1,{\"a\":[2,3]},\"x y\"]", 3, None)));
        // One that is small does not follow one that is left out.
        check_items("[1,[2,2,2],3]", 16, Some(("[1]", 3, Some("[2,2,2],3]"))));
    }

    #[test]
    fn what_is_no_array_or_too_large_at_once_has_no_items() {
        for json in ["[]", " [ ] ", "{\"a\":[1]}", "\"[1]\"", "1", ""] {
            check_items(json, 1000, None);
        }
        check_items("[[1,2,3],1]", 10, None);
        check_items(&format!("[\"{}\",1]", "x".repeat(1 << 20)), 1 << 20, None);
    }

    #[test]
    fn elements_are_shown_compact_with_their_digits() {
        let json = "[ 9007199254740993 ,1.0, \"\\ud83d\u{85}\", \"\\ud83d\" ]";
        let found = first_items(json, 46, &str::len, &|| false).unwrap().unwrap();
        assert_eq!(found.json, "[9007199254740993,1.0,\"\\ufffd\\u0085\"]");
        assert_eq!((found.shown, found.total, found.replaced), (3, 4, 1));
    }

    #[test]
    fn all_of_it_is_judged() {
        for (json, stopped) in [
            ("[1,2", Stopped::NotJson),
            ("[1,2]]", Stopped::NotJson),
            ("[1,2,{]", Stopped::NotJson),
            (&format!("[1,2,{}{}]", "[".repeat(64), "]".repeat(64)), Stopped::TooDeep),
        ] {
            assert_eq!(first_items(json, 5, &str::len, &|| false), Err(stopped), "{json}");
        }
    }

    #[test]
    fn a_cancel_at_any_look_ends_it() {
        let json = format!("[1,[2,3],\"{}\",4,{{\"a\":5}}]", "x".repeat(4 * CHUNK_BYTES));
        for budget in [10, usize::MAX] {
            let looks = Cell::new(0_usize);
            let run = |stop_at: usize| {
                looks.set(0);
                first_items(&json, budget, &str::len, &|| looks.replace(looks.get() + 1) == stop_at)
            };
            assert_eq!(run(usize::MAX).unwrap().unwrap().total, 5);
            let all = looks.get();
            assert!(all >= if budget == 10 { 8 } else { 12 }, "{all}");
            for stop_at in 0..all {
                assert_eq!(run(stop_at), Err(Stopped::Cancelled), "at look {stop_at} of {all}");
                assert_eq!(looks.get(), stop_at + 1);
            }
        }
    }

    #[test]
    fn elements_behind_the_cut_are_counted_whatever_their_number() {
        let json = format!("[{}1]", "1,".repeat(8 << 20));
        let found = first_items(&json, 1000, &str::len, &|| false).unwrap().unwrap();
        assert_eq!((found.shown, found.total, found.rest_at), (499, (8 << 20) + 1, Some(999)));
        assert!(found.json.capacity() < 4000, "{} bytes kept", found.json.capacity());
    }
}
