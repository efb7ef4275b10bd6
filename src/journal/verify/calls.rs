//! Pairs intents with outcomes: which are open, which have an outcome too many or none to begin with.
//!
//! By construction a process has as many calls open as it admits at once; a damaged file may claim more, so what is remembered
//! is bounded, and what goes beyond it is said.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use crate::journal::verify::Kind;

/// Open calls that are remembered.
pub const OPEN_MAX: usize = 4096;
/// Closed calls that are remembered, to tell a second outcome from one that never had an intent.
const CLOSED: usize = 4096;

/// Where an intent stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Rc<str>,
    /// The line.
    pub line: u64,
    /// The tool that asked.
    pub tool: String,
}

/// The calls of one chain.
#[derive(Debug, Default)]
pub struct Calls {
    open: BTreeMap<u64, Place>,
    /// Call and line of its outcome.
    closed: HashMap<u64, u64>,
    /// The same calls, the first closed first.
    closing: VecDeque<u64>,
    /// Intents that found no room.
    beyond: u64,
}

impl Calls {
    /// With these open calls of the file before.
    pub fn inherited(open: BTreeMap<u64, Place>) -> Calls {
        Calls { open, ..Calls::default() }
    }

    /// An intent; what is wrong with it.
    pub fn intent(&mut self, call: u64, place: Place) -> Option<(Kind, String)> {
        if let Some(first) = self.open.get(&call) {
            return Some((Kind::SecondIntent, format!("call {call} has an intent in line {} already", first.line)));
        }
        if let Some(line) = self.closed.get(&call) {
            return Some((Kind::SecondIntent, format!("call {call} has had its outcome in line {line}")));
        }
        if self.open.len() >= OPEN_MAX {
            self.beyond += 1;
            let text = || format!("more than {OPEN_MAX} intents are open: from here on no further one is paired");
            return (self.beyond == 1).then(|| (Kind::TooManyOpen, text()));
        }
        self.open.insert(call, place);
        None
    }

    /// An outcome; what is wrong with it.
    pub fn outcome(&mut self, call: u64, line: u64) -> Option<(Kind, String)> {
        if self.open.remove(&call).is_some() {
            self.closed.insert(call, line);
            self.closing.push_back(call);
            if let Some(first) = self.closing.pop_front_if(|_| self.closed.len() > CLOSED) {
                self.closed.remove(&first);
            }
            return None;
        }
        match self.closed.get(&call) {
            Some(first) => Some((Kind::SecondOutcome, format!("call {call} has an outcome in line {first} already"))),
            None if self.beyond > 0 => None,
            None => Some((Kind::OutcomeAlone, format!("call {call} has no intent before it"))),
        }
    }

    /// Numbers of the open calls.
    pub fn open(&self) -> impl Iterator<Item = u64> {
        self.open.keys().copied()
    }

    /// The open calls.
    pub fn into_open(self) -> BTreeMap<u64, Place> {
        self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u64) -> Place {
        Place { file: "f".into(), line, tool: "t".to_owned() }
    }

    fn kind(wrong: Option<(Kind, String)>) -> Option<Kind> {
        wrong.map(|(kind, _)| kind)
    }

    #[test]
    fn an_intent_has_one_outcome() {
        let mut calls = Calls::default();
        assert_eq!(kind(calls.intent(7, place(1))), None);
        assert_eq!(kind(calls.intent(8, place(2))), None);
        assert_eq!(kind(calls.intent(7, place(3))), Some(Kind::SecondIntent));
        assert_eq!(kind(calls.outcome(7, 4)), None);
        assert_eq!(kind(calls.outcome(7, 5)), Some(Kind::SecondOutcome));
        assert_eq!(kind(calls.intent(7, place(6))), Some(Kind::SecondIntent));
        assert_eq!(kind(calls.outcome(9, 7)), Some(Kind::OutcomeAlone));
        assert_eq!(calls.into_open(), BTreeMap::from([(8, place(2))]));
    }

    #[test]
    fn what_is_open_is_bounded_and_that_is_said_once() {
        let mut calls = Calls::default();
        let said: Vec<Kind> = (0..2 * OPEN_MAX as u64).filter_map(|call| kind(calls.intent(call, place(call)))).collect();
        assert_eq!((said, calls.open().count()), (vec![Kind::TooManyOpen], OPEN_MAX));
        assert_eq!(kind(calls.outcome(OPEN_MAX as u64, 1)), None, "whether it had one is not known");
        (0..OPEN_MAX as u64).for_each(|call| drop(calls.outcome(call, call)));
        assert!(calls.closed.len() == CLOSED && calls.closing.len() == CLOSED);
    }
}
