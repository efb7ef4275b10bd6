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
