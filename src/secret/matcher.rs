//! Finds the leftmost, then longest hit of any form in a stretch of bytes that may go on later.
//!
//! A table of byte pairs passes over what cannot begin a hit. Where one can, an `Attempt` follows every form that fits, one thread for
//! each way to read the input so far; what the end of the input leaves undecided is kept and resumed, so no byte of an attempt is read
//! twice by one thread. It never decides early: a hit is told only when no longer one from the same place is possible.

use zeroize::{Zeroize, Zeroizing};

use super::form::{Form, Unit};
use super::read::{Escape, begins_escape, escape, hex_digit};

/// What is looked at: the bytes, whether they are UTF-8 text whose characters stay whole, and whether more will follow.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) content: Content,
    pub(super) rest: Rest,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Bytes,
    Text,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Follows,
    Nothing,
}

impl Input<'_> {
    fn may_cut(&self, at: usize) -> bool {
        self.content == Content::Bytes || self.bytes.get(at).is_none_or(|byte| byte & 0xC0 != 0x80)
    }
}

/// What was found; offsets count from the beginning of the input.
pub(super) enum Found {
    Hit {
        start: usize,
        end: usize,
        owner: usize,
    },
    /// From here on only the bytes that follow can tell.
    Undecided {
        start: usize,
    },
    Nothing,
}

/// Characters a hit is looked up by before it is followed; every form has more.
const LEAD: usize = 4;

/// All forms of all secrets, with the tables that lead to them. Owners are numbered in the order given; the smaller wins a tie.
pub(super) struct Matcher {
    forms: Vec<(usize, Form)>,
    /// The most input bytes a hit covers; 0 without forms.
    pub(super) bytes_max: usize,
    /// Every character that begins a hit.
    firsts: [bool; 256],
    /// Every pair of characters that begins a hit.
    pairs: PairSet,
    /// Every pair of input bytes that begins a hit, or an escape that may begin one.
    raw_pairs: PairSet,
    /// Every four characters that begin a hit, hashed to a pair.
    leads: PairSet,
    /// The same, sorted, with the place where the hit begins.
    places: Zeroizing<Vec<(Lead, u32, u32)>>,
}

type Lead = u32;

impl Matcher {
    pub(super) fn new(forms: Vec<(usize, Form)>) -> Matcher {
        let mut places = Zeroizing::new(Vec::new());
        for (index, (_, form)) in forms.iter().enumerate() {
            for unit in 0..=form.core_start {
                let place = |lead| (lead, to_u32(index), to_u32(unit));
                places.extend(leads(&form.units[unit..]).map(place));
            }
        }
        places.sort_unstable();
        let (mut firsts, mut pairs, mut leads) = ([false; 256], PairSet::new(), PairSet::new());
        for &(lead, ..) in places.iter() {
            let [first, second, ..] = lead.to_le_bytes();
            firsts[usize::from(first)] = true;
            pairs.insert([first, second]);
            leads.insert(hash(lead));
        }
        let bytes_max = forms.iter().map(|(_, form)| form.bytes_max()).max().unwrap_or(0);
        let mut matcher = Matcher { forms, bytes_max, firsts, pairs, raw_pairs: PairSet::new(), leads, places };
        matcher.raw_pairs = matcher.raw_pairs();
        matcher
    }

    /// The next hit at or behind `from`. An attempt left undecided is resumed wherever it began.
    pub(super) fn find(&self, input: Input<'_>, from: usize, attempt: &mut Attempt) -> Found {
        let mut at = from;
        loop {
            if !attempt.is_pending() {
                let Some(start) = self.candidate(input, at) else { return Found::Nothing };
                attempt.begin(self, input, start);
            }
            match attempt.run(self, input) {
                Found::Nothing => at = attempt.start + 1,
                decided => return decided,
            }
        }
    }

    /// The next place where the tables cannot exclude a hit.
    fn candidate(&self, input: Input<'_>, from: usize) -> Option<usize> {
        if self.forms.is_empty() {
            return None;
        }
        let (&first, behind) = input.bytes.get(from..)?.split_first()?;
        let mut before = first;
        for (offset, &byte) in behind.iter().enumerate() {
            if self.raw_pairs.contains([before, byte]) && self.may_lead(&input.bytes[from + offset..]) {
                return Some(from + offset);
            }
            before = byte;
        }
        let may_begin = begins_escape(before) || self.firsts[usize::from(before)];
        (may_begin && input.rest == Rest::Follows).then(|| input.bytes.len() - 1)
    }

    /// Whether a hit may begin here; where an escape is near, that is left to the attempt.
    fn may_lead(&self, bytes: &[u8]) -> bool {
        let Some(&lead) = bytes.first_chunk::<LEAD>() else { return true };
        self.leads.contains(hash(Lead::from_le_bytes(lead))) || lead.iter().any(|&byte| begins_escape(byte))
    }

    fn raw_pairs(&self) -> PairSet {
        let mut raw_pairs = PairSet::new();
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                let plain = self.firsts[usize::from(first)] && (begins_escape(second) || self.pairs.contains([first, second]));
                if plain || self.begins_escaped(first, second) {
                    raw_pairs.insert([first, second]);
                }
            }
        }
        raw_pairs
    }

    /// Whether these two input bytes may begin an escape that begins a hit.
    fn begins_escaped(&self, first: u8, second: u8) -> bool {
        match escape(&[first, second]) {
            Escape::Unfinished if first == b'\\' => true,
            Escape::Unfinished => {
                (0..16).any(|low| hex_digit(second).is_some_and(|high| self.firsts[usize::from(high << 4 | low)]))
            }
            Escape::Character(character) => self.firsts[usize::from(character.bytes()[0])],
            Escape::Nothing => false,
        }
    }

    /// Whether a form begins with these characters, as far as the tables tell.
    #[inline]
    fn may_go_on(&self, read: Beginning) -> bool {
        let [first, second, ..] = read.characters.to_le_bytes();
        match read.count {
            1 => self.firsts[usize::from(first)],
            2 | 3 => self.pairs.contains([first, second]),
            _ => self.leads.contains(hash(read.lead())),
        }
    }

    /// The places, as form and unit, where a hit that begins with these characters begins.
    fn places(&self, lead: Lead) -> impl Iterator<Item = (u32, u32)> {
        let from = self.places.partition_point(|place| place.0 < lead);
        self.places[from..].iter().take_while(move |place| place.0 == lead).map(|&(_, form, unit)| (form, unit))
    }
}

/// Every `LEAD` characters these units accept.
fn leads(units: &[Unit]) -> impl Iterator<Item = Lead> {
    let first: Box<dyn Iterator<Item = Lead>> = Box::new(std::iter::once(0));
    units[..LEAD].iter().rev().fold(first, |leads, unit| {
        Box::new(leads.flat_map(move |lead| unit.accepted().map(move |byte| lead << 8 | Lead::from(byte))))
    })
}

fn hash(lead: Lead) -> [u8; 2] {
    let [.., third, fourth] = lead.wrapping_mul(0x9E37_79B1).to_le_bytes();
    [third, fourth]
}

fn to_usize(index: u32) -> usize {
    index.try_into().expect("made from one that fits")
}

fn to_u32(index: usize) -> u32 {
    u32::try_from(index).expect("an index into what fits in memory many times over")
}

/// One reading of the input so far: the next unit of the form stands at `at`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Thread {
    at: usize,
    form: u32,
    unit: u32,
}

/// The search for the longest hit from one place. Reused from place to place.
#[derive(Default)]
pub(super) struct Attempt {
    start: usize,
    /// Sorted, the one furthest back last, without duplicates: readings that meet go on as one.
    threads: Vec<Thread>,
    waiting: Vec<Thread>,
    best: Option<(usize, usize)>,
}

/// The characters read so far, first the lowest: at most three and then one of up to four bytes.
#[derive(Clone, Copy, Default)]
struct Beginning {
    characters: u64,
    count: usize,
}

impl Beginning {
    #[inline]
    fn with(self, bytes: &[u8]) -> Beginning {
        let join = |read: Beginning, &byte: &u8| Beginning {
            characters: read.characters | u64::from(byte) << (8 * read.count),
            count: read.count + 1,
        };
        bytes.iter().fold(self, join)
    }

    #[inline]
    fn lead(self) -> Lead {
        let [first, second, third, fourth, ..] = self.characters.to_le_bytes();
        Lead::from_le_bytes([first, second, third, fourth])
    }
}

impl Attempt {
    /// Whether an attempt is under way that only further input can decide.
    fn is_pending(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Says that the bytes before the undecided place were dropped from the input.
    pub(super) fn rebase(&mut self) {
        let dropped = std::mem::take(&mut self.start);
        self.threads.iter_mut().for_each(|thread| thread.at -= dropped);
        self.best = self.best.map(|(end, owner)| (end - dropped, owner));
    }

    fn begin(&mut self, matcher: &Matcher, input: Input<'_>, start: usize) {
        (self.start, self.best) = (start, None);
        if input.may_cut(start) {
            self.look_up(matcher, input, start, Beginning::default());
        }
    }

    /// Reads on from `at` in every way until there are enough characters, and starts a thread for each form that begins with them.
    fn look_up(&mut self, matcher: &Matcher, input: Input<'_>, at: usize, read: Beginning) {
        if read.count >= LEAD {
            matcher.places(read.lead()).for_each(|(form, unit)| self.insert(Thread { at: self.start, form, unit }));
            return;
        }
        let Some(&byte) = input.bytes.get(at) else { return self.start_all(matcher, input) };
        let plain = read.with(&[byte]);
        if matcher.may_go_on(plain) {
            self.look_up(matcher, input, at + 1, plain);
        }
        if !begins_escape(byte) {
            return;
        }
        match escape(&input.bytes[at..]) {
            Escape::Nothing => {}
            Escape::Unfinished => self.start_all(matcher, input),
            Escape::Character(character) => {
                let read = read.with(character.bytes());
                if matcher.may_go_on(read) {
                    self.look_up(matcher, input, at + character.taken, read);
                }
            }
        }
    }

    /// Too little is there to look up: starts every form, if more is to come.
    fn start_all(&mut self, matcher: &Matcher, input: Input<'_>) {
        if input.rest == Rest::Nothing {
            return;
        }
        for (form, (_, Form { core_start, .. })) in matcher.forms.iter().enumerate().rev() {
            (0..=*core_start)
                .rev()
                .for_each(|unit| self.insert(Thread { at: self.start, form: to_u32(form), unit: to_u32(unit) }));
        }
    }

    fn insert(&mut self, thread: Thread) {
        if let Err(place) = self.threads.binary_search_by(|other| thread.cmp(other)) {
            self.threads.insert(place, thread);
        }
    }

    fn run(&mut self, matcher: &Matcher, input: Input<'_>) -> Found {
        while let Some(thread) = self.threads.pop() {
            match input.bytes.get(thread.at) {
                None => self.wait(input, thread),
                Some(&byte) if begins_escape(byte) => self.step(matcher, input, thread),
                Some(_) => self.follow(matcher, input, thread),
            }
        }
        std::mem::swap(&mut self.threads, &mut self.waiting);
        self.threads.reverse();
        match self.best {
            _ if self.is_pending() => Found::Undecided { start: self.start },
            Some((end, owner)) => Found::Hit { start: self.start, end, owner },
            None => Found::Nothing,
        }
    }

    /// Reads plain characters up to the next escape or the end of the input.
    fn follow(&mut self, matcher: &Matcher, input: Input<'_>, mut thread: Thread) {
        let (owner, form) = &matcher.forms[to_usize(thread.form)];
        for unit in &form.units[to_usize(thread.unit)..] {
            match input.bytes.get(thread.at) {
                Some(&byte) if !begins_escape(byte) => {
                    if !unit.accepts(byte) {
                        return;
                    }
                }
                _ => return self.insert(thread),
            }
            thread = Thread { at: thread.at + 1, unit: thread.unit + 1, ..thread };
            self.note(input, (*owner, form), thread);
        }
    }

    /// Reads one character that begins like an escape, in each way it can be read.
    fn step(&mut self, matcher: &Matcher, input: Input<'_>, thread: Thread) {
        let (owner, form) = &matcher.forms[to_usize(thread.form)];
        let mut advance = |bytes: &[u8], taken: usize| {
            let units = &form.units[to_usize(thread.unit)..];
            if bytes.len() <= units.len() && bytes.iter().zip(units).all(|(&byte, unit)| unit.accepts(byte)) {
                let thread = Thread { at: thread.at + taken, unit: thread.unit + to_u32(bytes.len()), ..thread };
                self.note(input, (*owner, form), thread);
                if bytes.len() < units.len() {
                    self.insert(thread);
                }
            }
        };
        advance(&input.bytes[thread.at..=thread.at], 1);
        match escape(&input.bytes[thread.at..]) {
            Escape::Nothing => {}
            Escape::Unfinished => self.wait(input, thread),
            Escape::Character(character) => advance(character.bytes(), character.taken),
        }
    }

    /// Keeps the hit that ends where the thread is, if one does and none found so far is better.
    fn note(&mut self, input: Input<'_>, (owner, form): (usize, &Form), thread: Thread) {
        let better = |(end, other): (usize, usize)| thread.at > end || (thread.at == end && owner < other);
        if to_usize(thread.unit) >= form.core_end && input.may_cut(thread.at) && self.best.is_none_or(better) {
            self.best = Some((thread.at, owner));
        }
    }

    /// Keeps a thread for the input that follows, if any. Threads come here in order, and a thread at most once.
    fn wait(&mut self, input: Input<'_>, thread: Thread) {
        if input.rest == Rest::Follows {
            self.waiting.push(thread);
        }
    }
}

/// A set of byte pairs, 8 KiB. Wiped on drop: it tells how secrets begin.
struct PairSet(Box<[u64; 1024]>);

impl PairSet {
    fn new() -> PairSet {
        PairSet(Box::new([0; 1024]))
    }

    fn insert(&mut self, pair: [u8; 2]) {
        let (word, bit) = PairSet::place(pair);
        self.0[word] |= 1 << bit;
    }

    fn contains(&self, pair: [u8; 2]) -> bool {
        let (word, bit) = PairSet::place(pair);
        self.0[word] >> bit & 1 == 1
    }

    fn place([first, second]: [u8; 2]) -> (usize, u32) {
        (usize::from(first) << 2 | usize::from(second) >> 6, u32::from(second) & 63)
    }
}

impl Drop for PairSet {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
