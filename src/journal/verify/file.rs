//! One file: its lines, its chain, its calls and questions, and what is known of it from elsewhere.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::rc::Rc;

use crate::journal::chain::Hash;
use crate::journal::lines::{Lines, RawLine};
use crate::journal::read::Seen;
use crate::journal::verify::calls::{Calls, Place};
use crate::journal::verify::links::{Answered, Approved, Asked, Begun, Entry, Event, Links, Noted, Step};
use crate::journal::verify::questions::Questions;
use crate::journal::verify::{Kind, Mark, Report, State};
use crate::limits::JOURNAL_LINE_BYTES;

/// The file that a journal continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Past {
    /// It is not looked at.
    Unchecked,
    /// It is gone, as it should be.
    Removed,
    /// It is gone, and nobody knows why.
    Absent,
    /// Sequence and hash of its last line, the calls it left open, and its questions.
    Known(u64, Hash, BTreeMap<u64, Place>, Box<Questions>),
}

/// What is known of a journal before it is read.
pub struct Known {
    /// Its name; `None` where it came without one.
    pub name: Option<String>,
    /// Records known from elsewhere.
    pub marks: Vec<Mark>,
    /// The file it continues, if it continues one.
    pub past: Past,
    /// Another file continues it.
    pub is_continued: bool,
}

/// What a journal leaves to the file that continues it.
#[derive(Debug, Default)]
pub struct Rest {
    /// Sequence and hash of its last line.
    pub head: Option<(u64, Hash)>,
    /// Calls without an outcome.
    pub open: BTreeMap<u64, Place>,
    /// What was asked and approved.
    pub questions: Questions,
}

/// Reads a journal to its end; findings go to `report`.
pub fn verify(source: impl BufRead, known: Known, report: &mut Report) -> io::Result<Rest> {
    let Known { name, marks, past, is_continued } = known;
    let file = report.file.as_str().into();
    let mut journal = Journal { name, past, file, calls: Calls::default(), questions: Questions::default() };
    let head = follow(source, marks, report, &mut |entry, report| journal.record(entry, report))?;
    let (open, mut questions) = (journal.calls.into_open(), journal.questions);
    if has_gaps(report) {
        questions.lose_sight();
    }
    if report.state != State::InUse && !is_continued {
        report_open(&open, &questions, report);
    }
    report.sort();
    Ok(Rest { head, open, questions })
}

/// What stands open at the end of a chain.
fn report_open(open: &BTreeMap<u64, Place>, questions: &Questions, report: &mut Report) {
    for (call, place) in open {
        let tool = if place.tool.is_empty() { String::new() } else { format!(" of {}", place.tool) };
        let text = format!("the intent of call {call}{tool} has no outcome: whether it was executed is unknown");
        report.add_in(place.file.to_string(), Kind::Unknown, place.line, text);
    }
    for (asked, place) in questions.waiting() {
        let Asked { call, question, by, tool, .. } = asked;
        let text = format!("question {question} to the {by} about call {call} of {tool} has no answer");
        report.add_in(place.file.to_string(), Kind::Unanswered, place.line, text);
    }
}

/// The records of a journal, one after the other.
struct Journal {
    name: Option<String>,
    file: Rc<str>,
    past: Past,
    calls: Calls,
    questions: Questions,
}

impl Journal {
    fn record(&mut self, entry: Entry, report: &mut Report) {
        let line = entry.line;
        if line == 1 {
            self.begin(&entry, report);
        }
        let place = |tool: String| Place { file: Rc::clone(&self.file), line, tool };
        let wrong = match entry.event {
            Event::Intent(call, tool, approved) => {
                let place = place(tool);
                let unapproved = approved.and_then(|approved| self.questions.intent(call, &approved, &place));
                [unapproved, self.calls.intent(call, place)]
            }
            Event::Outcome(call) => [None, self.calls.outcome(call, line)],
            Event::Question(asked) => [None, self.questions.asked(*asked, place(String::new()))],
            Event::Answer(answered) => [None, self.questions.answered(*answered, place(String::new()))],
            Event::Session(_) | Event::Note(_) | Event::Other(_) | Event::Unreadable => [None, None],
        };
        for (kind, text) in wrong.into_iter().flatten() {
            // What it needs before it may be among what is gone, which has been said.
            let is_alone = matches!(kind, Kind::OutcomeAlone | Kind::AnswerAlone | Kind::UnapprovedIntent);
            if !(is_alone && has_gaps(report)) {
                report.add(kind, line, text);
            }
        }
    }

    fn begin(&mut self, entry: &Entry, report: &mut Report) {
        let Event::Session(begun) = &entry.event else {
            let text = format!("expected a session record to begin the file, got a record with seq {}", entry.seq);
            return report.add(Kind::FirstLine, 1, text);
        };
        if let (Some(name), Some(file)) = (&self.name, &begun.file)
            && name != file
        {
            report.add(Kind::Foreign, 1, format!("it says it is {file}"));
        }
        match &begun.previous {
            None if entry.seq == 0 && entry.prev == Some(Hash::NONE) => {}
            None => {
                let text = "it continues no file, so expected seq 0 and a prev of zeros".to_owned();
                report.add(Kind::FirstLine, 1, text);
            }
            Some(previous) => self.go_on(entry, begun, previous, report),
        }
    }

    fn go_on(&mut self, entry: &Entry, begun: &Begun, previous: &str, report: &mut Report) {
        let mut open: BTreeMap<u64, Place> = BTreeMap::new();
        for call in &begun.open {
            open.insert(*call, Place { file: Rc::clone(&self.file), line: 1, tool: String::new() });
        }
        match std::mem::replace(&mut self.past, Past::Unchecked) {
            Past::Unchecked | Past::Removed => self.questions.lose_sight(),
            Past::Absent => report.add(Kind::Chain, 1, format!("it continues {previous}, which is not there")),
            Past::Known(seq, hash, left, questions) => {
                self.questions = *questions;
                if entry.prev != Some(hash) || seq.checked_add(1) != Some(entry.seq) {
                    report.add(Kind::Chain, 1, format!("its first line does not follow the last line of {previous}"));
                } else if !left.keys().eq(open.keys()) {
                    report.add(Kind::Chain, 1, format!("the calls it names as open are not those that {previous} left open"));
                }
                open.extend(left);
            }
        }
        self.calls = Calls::inherited(open);
    }
}

fn has_gaps(report: &Report) -> bool {
    let is_gap = |kind: Kind| matches!(kind, Kind::Malformed | Kind::Removed | Kind::FirstLine | Kind::Inserted | Kind::Chain);
    report.left_out > 0 || report.findings.iter().any(|finding| is_gap(finding.kind))
}

/// Reads any chained file to its end and hands over each line that belongs to it, one behind. Returns the last one's sequence
/// and hash.
pub fn follow(
    source: impl BufRead,
    marks: Vec<Mark>,
    report: &mut Report,
    each: &mut dyn FnMut(Entry, &mut Report),
) -> io::Result<Option<(u64, Hash)>> {
    let mut lines = Lines::new(source);
    let mut walk = Walk { links: Links::default(), marks, unreadable: 0, lines: 0 };
    while let Some(raw) = lines.next()? {
        if !raw.is_terminated {
            if report.state != State::InUse {
                report.add(
                    Kind::Torn,
                    raw.number,
                    format!("{} bytes without a line feed: cut while it was written", raw.length),
                );
            }
            break;
        }
        walk.line(&raw, report);
        walk.take(report, each);
    }
    let last = walk.marks.iter().find(|mark| mark.is_last).map(|mark| (mark.seq, mark.hash));
    walk.links.finish(last);
    walk.take(report, each);
    walk.end(report);
    let head = walk.links.head().map(|(seq, hash, _)| (seq, hash));
    report.head = head;
    report.sort();
    Ok(head)
}

struct Walk {
    links: Links,
    marks: Vec<Mark>,
    /// Lines that could not be read, since the last that could.
    unreadable: u64,
    lines: u64,
}

impl Walk {
    fn line(&mut self, raw: &RawLine<'_>, report: &mut Report) {
        self.lines = raw.number;
        let seen = match raw.text {
            Some(text) => Seen::parse(text),
            None => Err(format!("longer than {JOURNAL_LINE_BYTES} bytes")),
        };
        let (line, hash) = (raw.number, raw.hash);
        let entry = match seen {
            Ok(seen) => {
                self.unreadable = 0;
                Entry { line, seq: seen.seq, prev: seen.prev(), hash, event: event(seen) }
            }
            Err(error) => {
                self.unreadable += 1;
                report.add(Kind::Malformed, line, format!("no record: {error}"));
                Entry { line, seq: 0, prev: None, hash, event: Event::Unreadable }
            }
        };
        self.links.push(entry);
    }

    fn take(&mut self, report: &mut Report, each: &mut dyn FnMut(Entry, &mut Report)) {
        for step in self.links.steps() {
            match step {
                Step::Wrong(kind, line, text) => report.add(kind, line, text),
                Step::Belongs(entry) => {
                    self.compare(&entry, report);
                    report.records += 1;
                    each(entry, report);
                }
            }
        }
    }

    fn compare(&self, entry: &Entry, report: &mut Report) {
        for mark in &self.marks {
            if mark.seq == entry.seq && mark.hash != entry.hash {
                let text = format!("the record with seq {} is not the one that {} knows", entry.seq, mark.source);
                report.add(Kind::Rewritten, entry.line, text);
            }
            if mark.is_last && mark.seq.checked_add(1) == Some(entry.seq) {
                let text = format!("{} knows seq {} as the last one", mark.source, mark.seq);
                report.add(Kind::Appended, entry.line, text);
            }
        }
    }

    fn end(&self, report: &mut Report) {
        let head = self.links.head();
        let got = head.map_or(0, |(seq, _, _)| seq.saturating_add(1));
        for mark in self.marks.iter().filter(|mark| mark.seq >= got.saturating_add(self.unreadable)) {
            let line = head.map_or(1, |(_, _, line)| line);
            let count = mark.seq - got + 1;
            let text = format!("{count} records are missing behind it: {} knows one with seq {}", mark.source, mark.seq);
            report.add(Kind::Truncated, line, text);
        }
    }
}

/// What is remembered of a text that a record of ours has in 64 characters at most.
fn cut(text: Option<String>) -> String {
    const BYTES_MAX: usize = 256;
    let text = text.unwrap_or_default();
    text[..text.floor_char_boundary(BYTES_MAX)].to_owned()
}

fn event(seen: Seen<'_>) -> Event {
    match (&*seen.kind, seen.call, seen.file) {
        ("session", _, file) => Event::Session(Box::new(Begun { file, previous: seen.previous, open: seen.open })),
        ("intent", Some(call), _) => {
            let action = cut(seen.action_sha256);
            let approved = seen.question.map(|question| Box::new(Approved { question: cut(Some(question)), action }));
            Event::Intent(call, seen.tool.unwrap_or_default(), approved)
        }
        ("outcome", Some(call), _) => Event::Outcome(call),
        ("question", Some(call), _) => {
            let [question, by, tool, action] = [seen.question, seen.asked, seen.tool, seen.action_sha256].map(cut);
            // Revisions are dates: with 2026-07-28 the handshake went.
            let has_handshake = seen.era.is_some_and(|era| *era < *"2026-07-28");
            let has_waiting_call = matches!(&*by, "operator" | "command") || (by == "client" && has_handshake);
            Event::Question(Box::new(Asked { call, question, by, tool, action, has_waiting_call }))
        }
        ("answer", Some(call), _) => {
            let [question, by, answer] = [seen.question, seen.asked, seen.answer].map(cut);
            Event::Answer(Box::new(Answered { call, question, by, answer }))
        }
        (kind @ ("start" | "end" | "removed"), _, Some(file)) => {
            let head = seen.head.as_deref().and_then(Hash::parse);
            Event::Note(Box::new(Noted { kind: kind.to_owned(), file, last_seq: seen.last_seq, head }))
        }
        (kind, _, _) => Event::Other(kind.to_owned()),
    }
}
