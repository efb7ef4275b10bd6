//! What a heads file says of the journals, or a copy of one that was kept elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use crate::journal::chain::Hash;
use crate::journal::verify::file::follow;
use crate::journal::verify::links::{Event, Noted};
use crate::journal::verify::{Kind, Mark, Report, State};

/// What is noted of one journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// The line of its start.
    pub line: u64,
    /// Sequence, hash and line of its noted end.
    pub end: Option<(u64, Hash, u64)>,
    /// Its removal is noted.
    pub is_removed: bool,
}

/// What a heads file says.
#[derive(Debug)]
pub struct Heads {
    /// By the journal's name; without those that are removed, as noted, and gone.
    pub journals: BTreeMap<String, Journal>,
    /// Of those that were asked about, the ones whose removal is noted.
    pub removed: BTreeSet<String>,
    /// Sequence and hash of its last note.
    pub head: Option<(u64, Hash)>,
    /// The file itself.
    pub report: Report,
}

/// What is known before a heads file is read.
#[derive(Default)]
pub struct Context<'a> {
    /// Notes known from elsewhere.
    pub marks: Vec<Mark>,
    /// The journals that are there.
    pub there: BTreeSet<&'a str>,
    /// Journals of which it is to be known whether they were removed.
    pub asked: BTreeSet<&'a str>,
}

/// Reads a heads file. `NotFound` if there is none.
pub fn read(path: &Path, name: &str, context: Context<'_>) -> io::Result<Heads> {
    let Context { marks, there, asked } = context;
    let source = BufReader::with_capacity(64 << 10, File::open(path)?);
    let mut report = Report::new(name, State::Heads);
    let (mut journals, mut removed) = (BTreeMap::new(), BTreeSet::new());
    let head = follow(source, marks, &mut report, &mut |entry, _| {
        let line = entry.line;
        let Event::Note(noted) = entry.event else { return };
        if noted.kind == "removed" && asked.contains(&*noted.file) {
            removed.insert(noted.file.clone());
        }
        note(*noted, line, &mut journals, &there);
    })?;
    Ok(Heads { journals, removed, head, report })
}

fn note(noted: Noted, line: u64, journals: &mut BTreeMap<String, Journal>, there: &BTreeSet<&str>) {
    let Noted { kind, file, last_seq, head } = noted;
    match kind.as_str() {
        "removed" if !there.contains(&*file) => drop(journals.remove(&file)),
        "start" => drop(journals.insert(file, Journal { line, end: None, is_removed: false })),
        _ => {
            let journal = journals.entry(file).or_insert(Journal { line, end: None, is_removed: false });
            journal.is_removed |= kind == "removed";
            journal.end = last_seq.zip(head).map(|(seq, hash)| (seq, hash, line)).or(journal.end);
        }
    }
}

impl Heads {
    /// What it knows of the last record of a journal.
    pub fn mark(&self, journal: &str) -> Option<Mark> {
        let (seq, hash, line) = self.journals.get(journal)?.end?;
        Some(Mark { seq, hash, source: format!("{}:{line}", self.report.file), is_last: true })
    }

    /// Reports each journal that was begun, is gone, and not by `keep_days`.
    pub fn report_missing(&mut self, is_there: &dyn Fn(&str) -> bool) {
        for (name, journal) in &self.journals {
            if !journal.is_removed && !is_there(name) {
                self.report.add(Kind::Missing, journal.line, format!("{name} was begun and is gone"));
            }
        }
        self.report.sort();
    }
}
