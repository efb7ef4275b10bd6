//! Follows the chain of one file and says where it is broken, and how: what was edited, removed, inserted, repeated or moved.
//!
//! A line belongs behind the one whose hash it names. One that does not fit is set aside until the lines behind it show which
//! explanation holds: if they go on without it, it does not belong here; if they go on from it, something before it was changed
//! or is gone. What is set aside is bounded; beyond that the chain is taken up again at the newest line.
//!
//! ```text
//! head ◀── next line            accepted
//! head     next line ◀── next   a break between head and the next line
//! head ◀── next, one between    the one between does not belong here, or comes too early
//! ```

use std::collections::VecDeque;

use crate::journal::chain::Hash;
use crate::journal::verify::Kind;

/// Lines set aside at once.
const STRAYS_MAX: usize = 16;
/// Lines that are remembered, to know a repeated one and to give up on one that was set aside.
const RECENT: usize = 64;
/// Gaps that are remembered, to know a line that stands somewhere else.
const GAPS: usize = 64;

/// What a line says, as far as calls are paired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A file begins.
    Session(Box<Begun>),
    /// Call and tool, and what approved it where its rule asks.
    Intent(u64, String, Option<Box<Approved>>),
    /// The call.
    Outcome(u64),
    /// Somebody is asked.
    Question(Box<Asked>),
    /// What came of it.
    Answer(Box<Answered>),
    /// A note of the heads file.
    Note(Box<Noted>),
    /// Anything else.
    Other(String),
    /// It cannot be read; that has been said.
    Unreadable,
}

/// What a session record says of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The name it gives its file.
    pub file: Option<String>,
    /// The file it continues.
    pub previous: Option<String>,
    /// Calls whose intent stands there.
    pub open: Vec<u64>,
}

/// What a question record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The call that waits for it, or that it was the answer to.
    pub call: u64,
    /// Its name.
    pub question: String,
    /// Who is asked.
    pub by: String,
    /// The tool.
    pub tool: String,
    /// The digest of the action.
    pub action: String,
    /// Its call waits for the answer; else it was over with the question, and the answer may come anywhere, or never.
    pub has_waiting_call: bool,
}

/// What an answer record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The call it came for or with.
    pub call: u64,
    /// The question.
    pub question: String,
    /// Who was asked.
    pub by: String,
    /// As written.
    pub answer: String,
}

/// What an intent says of its approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    /// The question.
    pub question: String,
    /// The digest of the action.
    pub action: String,
}

/// A note of the heads file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// `start`, `end` or `removed`.
    pub kind: String,
    /// The journal it is about.
    pub file: String,
    /// The sequence of its last line.
    pub last_seq: Option<u64>,
    /// The hash of its last line.
    pub head: Option<Hash>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// From 1.
    pub line: u64,
    /// As written.
    pub seq: u64,
    /// The hash it names; `None` if it names none.
    pub prev: Option<Hash>,
    /// Its own hash.
    pub hash: Hash,
    /// What it says.
    pub event: Event,
}

impl Entry {
    fn follows(&self, seq: u64, hash: Hash) -> bool {
        self.prev == Some(hash) && seq.checked_add(1) == Some(self.seq)
    }

    fn is_readable(&self) -> bool {
        self.event != Event::Unreadable
    }
}

/// What has become clear.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A line belongs to the chain, or to where it stands although it was changed.
    Belongs(Entry),
    /// Something is wrong at a line.
    Wrong(Kind, u64, String),
}

/// The chain of one file.
#[derive(Default)]
pub struct Links {
    head: Option<Entry>,
    before: Option<(u64, Hash)>,
    strays: Vec<Entry>,
    /// Unreadable lines since the head that are not even set aside any more.
    dropped: u64,
    recent: VecDeque<Hash>,
    gaps: VecDeque<(u64, u64)>,
    steps: Vec<Step>,
}

impl Links {
    /// Takes the next line.
    pub fn push(&mut self, entry: Entry) {
        let Some(head) = &self.head else {
            if entry.is_readable() {
                self.head = Some(entry);
            }
            return;
        };
        if entry.is_readable() && entry.follows(head.seq, head.hash) {
            return self.go_on(entry);
        }
        let is_known =
            |hash: Hash| head.hash == hash || self.recent.contains(&hash) || self.strays.iter().any(|stray| stray.hash == hash);
        if entry.is_readable() && is_known(entry.hash) {
            return self.wrong(Kind::Duplicated, entry.line, format!("the record with seq {} stands here again", entry.seq));
        }
        let from = self.strays.iter().position(|stray| stray.is_readable() && entry.follows(stray.seq, stray.hash));
        if let Some(at) = from.filter(|_| entry.is_readable()) {
            let stray = self.strays.remove(at);
            self.take_up(stray);
            return self.go_on(entry);
        }
        self.set_aside(entry);
    }

    /// What has become clear since the last time.
    pub fn steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// No more lines come. `end`: what is noted of the last one.
    pub fn finish(&mut self, end: Option<(u64, Hash)>) {
        let Some(head) = &self.head else { return };
        let (head_line, head_seq) = (head.line, head.seq);
        let is_head_last = end.is_some_and(|(_, hash)| hash == head.hash);
        let is_sibling =
            |entry: &Entry| entry.seq == head_seq && self.before.is_some_and(|(seq, hash)| entry.follows(seq, hash));
        let tail: Vec<&Entry> = self.strays.iter().filter(|stray| stray.line > head_line && stray.is_readable()).collect();
        match tail[..] {
            [] => {}
            _ if is_head_last => {}
            [only] if is_sibling(only) && end.is_none_or(|(_, hash)| hash != only.hash) => {}
            [.., last] => {
                let last = last.clone();
                self.strays.retain(|stray| stray.line != last.line);
                self.take_up(last);
            }
        }
        self.give_up(u64::MAX);
        if let Some(head) = &self.head {
            self.steps.push(Step::Belongs(head.clone()));
        }
    }

    /// Sequence, hash and line of the last line of the chain.
    pub fn head(&self) -> Option<(u64, Hash, u64)> {
        self.head.as_ref().map(|head| (head.seq, head.hash, head.line))
    }

    fn wrong(&mut self, kind: Kind, line: u64, text: String) {
        self.steps.push(Step::Wrong(kind, line, text));
    }

    /// The chain goes on with this line, and with what was set aside and comes behind it.
    fn go_on(&mut self, entry: Entry) {
        self.advance(entry);
        while let Some(at) = self.strays.iter().position(|stray| self.is_next(stray)) {
            let stray = self.strays.remove(at);
            let behind = self.head.as_ref().map_or(0, |head| head.line);
            self.wrong(
                Kind::Reordered,
                stray.line,
                format!("seq {} stands before line {behind}, it belongs behind it", stray.seq),
            );
            self.advance(stray);
        }
        let line = self.head.as_ref().map_or(0, |head| head.line);
        self.give_up(line.saturating_sub(RECENT as u64));
    }

    fn is_next(&self, entry: &Entry) -> bool {
        entry.is_readable() && self.head.as_ref().is_some_and(|head| entry.follows(head.seq, head.hash))
    }

    fn advance(&mut self, entry: Entry) {
        self.dropped = 0;
        if let Some(old) = self.head.replace(entry) {
            self.before = Some((old.seq, old.hash));
            self.recent.push_back(old.hash);
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
            self.steps.push(Step::Belongs(old));
        }
    }

    /// Lines up to this one that were set aside do not belong where they stand.
    fn give_up(&mut self, line: u64) {
        let (over, kept) = std::mem::take(&mut self.strays).into_iter().partition(|stray| stray.line <= line);
        self.strays = kept;
        self.intruders(over);
    }

    fn intruders(&mut self, entries: Vec<Entry>) {
        for entry in entries.into_iter().filter(Entry::is_readable) {
            let is_missed = self.gaps.iter().any(|(from, to)| (*from..=*to).contains(&entry.seq));
            let kind = if is_missed { Kind::Reordered } else { Kind::Inserted };
            self.wrong(kind, entry.line, format!("the record with seq {} does not belong here", entry.seq));
        }
    }

    fn set_aside(&mut self, entry: Entry) {
        self.strays.push(entry);
        if self.strays.len() <= STRAYS_MAX {
            return;
        }
        match self.strays.iter().rposition(Entry::is_readable) {
            Some(at) => {
                let newest = self.strays.remove(at);
                self.take_up(newest);
            }
            None => {
                self.strays.remove(0);
                self.dropped += 1;
            }
        }
    }

    /// The chain is taken up again at a line that does not follow the head: what happened between them is said.
    fn take_up(&mut self, entry: Entry) {
        let Some(head) = self.head.clone() else { return };
        let is_between = |stray: &Entry| stray.line > head.line && stray.line < entry.line;
        let (between, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.strays).into_iter().partition(is_between);
        self.strays = kept;
        if self.before.is_some_and(|(seq, hash)| entry.follows(seq, hash)) {
            self.wrong(Kind::Inserted, head.line, format!("the record with seq {} does not belong here", head.seq));
            self.intruders(between);
            self.head = Some(entry);
            return;
        }
        let there = between.len() as u64 + self.dropped;
        let (seq, line) = (entry.seq, entry.line);
        self.advance(entry);
        if seq <= head.seq {
            self.wrong(Kind::Reordered, line, format!("seq {seq} stands behind seq {}", head.seq));
            return self.intruders(between);
        }
        let missing = seq - head.seq - 1;
        if missing == 0 {
            let text = format!("its bytes are not those that line {line} names as the line before it");
            self.wrong(Kind::Edited, head.line, text);
            return self.intruders(between);
        }
        let is_in_place = |stray: &Entry| !stray.is_readable() || there <= missing || (head.seq..seq).contains(&stray.seq);
        let (edited, others) = between.into_iter().partition(is_in_place);
        self.edited(edited);
        self.intruders(others);
        if missing > there {
            self.gaps.push_back((head.seq + 1, seq - 1));
            if self.gaps.len() > GAPS {
                self.gaps.pop_front();
            }
            let text = format!("{} records are missing before it: seq {} follows seq {}", missing - there, seq, head.seq);
            self.wrong(Kind::Removed, line, text);
        }
    }

    fn edited(&mut self, entries: Vec<Entry>) {
        for entry in entries.into_iter().filter(Entry::is_readable) {
            let text = "neither the line before it nor the line behind it fits to it".to_owned();
            self.wrong(Kind::Edited, entry.line, text);
            self.steps.push(Step::Belongs(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sound chain: seq 0 to 9 in lines 1 to 10.
    fn sound() -> Vec<Entry> {
        let mut prev = Hash::NONE;
        let entry = |seq: u64| {
            let hash = Hash::of(seq.to_string().as_bytes());
            let before = std::mem::replace(&mut prev, hash);
            Entry { line: 0, seq, prev: Some(before), hash, event: Event::Outcome(seq) }
        };
        (0..10).map(entry).collect()
    }

    fn forged(seq: u64, prev: Option<Hash>) -> Entry {
        Entry { line: 0, seq, prev, hash: Hash::of(format!("forged {seq} {prev:?}").as_bytes()), event: Event::Outcome(seq) }
    }

    fn unreadable() -> Entry {
        Entry { event: Event::Unreadable, ..forged(0, None) }
    }

    /// What is found in a chain that was changed like this, and which sequence numbers belong to it.
    #[track_caller]
    fn check(change: impl FnOnce(&mut Vec<Entry>), end: Option<(u64, Hash)>, expected: &[(Kind, u64)], belong: &[u64]) {
        let mut entries = sound();
        change(&mut entries);
        let mut links = Links::default();
        for (at, mut entry) in entries.into_iter().enumerate() {
            entry.line = at as u64 + 1;
            links.push(entry);
        }
        links.finish(end);
        let (mut found, mut seqs) = (Vec::new(), Vec::new());
        for step in links.steps() {
            match step {
                Step::Belongs(entry) => seqs.push(entry.seq),
                Step::Wrong(kind, line, _) => found.push((kind, line)),
            }
        }
        assert_eq!((&found[..], &seqs[..]), (expected, belong));
    }

    const ALL: &[u64] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

    #[test]
    fn a_sound_chain_has_nothing_wrong() {
        check(|_| {}, None, &[], ALL);
        check(Vec::clear, None, &[], &[]);
        check(|all| all.truncate(1), None, &[], &[0]);
    }

    #[test]
    fn an_edit_is_found_at_its_line() {
        let other = Hash::of(b"other");
        for at in 0..9 {
            check(|all| all[at].hash = other, None, &[(Kind::Edited, at as u64 + 1)], ALL);
        }
        // With its link: the line before it is beyond suspicion as soon as two lines follow.
        for at in 1..8 {
            check(|all| (all[at].hash, all[at].prev) = (other, None), None, &[(Kind::Edited, at as u64 + 1)], ALL);
        }
        let rest: Vec<u64> = ALL.iter().copied().filter(|seq| *seq != 4).collect();
        check(|all| all[4] = unreadable(), None, &[], &rest);
        // Of the last line only a noted head can tell.
        check(|all| all[9].hash = other, None, &[], ALL);
    }

    #[test]
    fn a_removal_is_found_at_the_line_behind_it() {
        check(|all| drop(all.remove(4)), None, &[(Kind::Removed, 5)], &[0, 1, 2, 3, 5, 6, 7, 8, 9]);
        check(|all| drop(all.drain(2..5)), None, &[(Kind::Removed, 3)], &[0, 1, 5, 6, 7, 8, 9]);
        check(|all| drop(all.remove(8)), None, &[(Kind::Removed, 9)], &[0, 1, 2, 3, 4, 5, 6, 7, 9]);
    }

    #[test]
    fn a_moved_line_is_found_where_it_stands() {
        for at in 1..9 {
            check(|all| all.swap(at, at + 1), None, &[(Kind::Reordered, at as u64 + 1)], ALL);
        }
        let moved = |all: &mut Vec<Entry>| {
            let one = all.remove(3);
            all.insert(8, one);
        };
        check(moved, None, &[(Kind::Removed, 4), (Kind::Reordered, 9)], &[0, 1, 2, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn a_repeated_line_is_found_where_it_stands_again() {
        for (from, to) in [(4, 5), (4, 8), (9, 10), (0, 1)] {
            check(|all| all.insert(to, all[from].clone()), None, &[(Kind::Duplicated, to as u64 + 1)], ALL);
        }
    }

    #[test]
    fn an_inserted_line_is_found_where_it_stands() {
        for seq in [0, 4, 5, 77] {
            check(|all| all.insert(5, forged(seq, None)), None, &[(Kind::Inserted, 6)], ALL);
        }
        // One that names the line before it, in place of the true one and behind it.
        check(|all| all.insert(5, forged(5, all[4].hash.into())), None, &[(Kind::Inserted, 6)], ALL);
        check(|all| all.insert(6, forged(5, all[4].hash.into())), None, &[(Kind::Inserted, 7)], ALL);
        check(|all| all.push(forged(9, all[8].hash.into())), None, &[(Kind::Inserted, 11)], ALL);
        let end = Some((9, sound()[9].hash));
        check(|all| all.push(forged(10, None)), end, &[(Kind::Inserted, 11)], ALL);
    }

    #[test]
    fn a_ruin_is_bounded_and_the_chain_is_taken_up_again() {
        let ruin = |all: &mut Vec<Entry>| {
            for seq in 10..1000 {
                all.push(forged(seq, None));
            }
        };
        let mut entries = sound();
        ruin(&mut entries);
        let mut links = Links::default();
        for (at, mut entry) in entries.into_iter().enumerate() {
            entry.line = at as u64 + 1;
            links.push(entry);
            assert!(links.strays.len() <= STRAYS_MAX && links.recent.len() <= RECENT);
        }
        links.finish(None);
        let wrong = links.steps().into_iter().filter(|step| matches!(step, Step::Wrong(..))).count();
        assert!(wrong > 900, "{wrong}");
        check(|all| (0..100).for_each(|_| all.insert(5, unreadable())), None, &[], ALL);
    }
}
