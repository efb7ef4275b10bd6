//! All journals of a state folder: each by itself, as a continuation of the one before it, and against the heads file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, ErrorKind};
use std::path::Path;

use crate::journal::chain::Hash;
use crate::journal::folder::{is_in_use, list, of_state};
use crate::journal::heads::NAME;
use crate::journal::lines::Lines;
use crate::journal::read::Seen;
use crate::journal::verify::file::{Known, Past, Rest, verify};
use crate::journal::verify::noted::{self, Context, Heads};
use crate::journal::verify::{Kind, Mark, Report, State};

/// Bytes read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Verifies all journals under `state_dir`, and the heads file; `each` gets what is to be said of each file. `saved`: a copy of
/// the heads file that was kept elsewhere. False if there is nothing to verify.
pub fn verify_all(state_dir: &Path, saved: Option<&Path>, each: &mut dyn FnMut(Report)) -> io::Result<bool> {
    let dir = of_state(state_dir);
    let listed = list(&dir)?.journals;
    let there: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    let is_there = |name: &str| there.contains(name) || dir.join(name).exists();
    let mut saved = saved.map(|path| read_saved(path, there.clone())).transpose()?;
    let marks = saved.iter().filter_map(saved_head).collect();
    let asked = saved.iter().flat_map(|saved| saved.journals.keys().map(String::as_str)).collect();
    let mut own = match noted::read(&state_dir.join(NAME), NAME, Context { marks, there: there.clone(), asked }) {
        Ok(heads) => Some(heads),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if let Some(saved) = &mut saved {
        // What was there when the copy was made may have been removed in order since.
        saved.report_missing(&|name| is_there(name) || own.as_ref().is_some_and(|own| own.removed.contains(name)));
        each(saved.report.clone());
    }
    if let Some(own) = &mut own {
        own.report_missing(&is_there);
        each(own.report.clone());
    }
    if own.is_none() && !listed.is_empty() {
        let mut report = Report::new(NAME, State::Heads);
        report.add(Kind::Missing, 1, "it is gone: which journals there were is not known".to_owned());
        each(report);
    }
    let is_anything = own.is_some() || !listed.is_empty();
    Folder { dir: &dir, own, saved, rests: BTreeMap::new() }.verify(&listed, each)?;
    Ok(is_anything)
}

/// Verifies one file by itself. `head`: sequence and hash of a record that was kept elsewhere.
pub fn verify_one(path: &Path, saved: Option<&Path>, head: Option<(u64, Hash)>) -> io::Result<Report> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let saved = saved.map(|path| read_saved(path, BTreeSet::new())).transpose()?;
    let mut marks: Vec<Mark> = saved.iter().filter_map(|heads| heads.mark(&name)).collect();
    marks.extend(head.map(|(seq, hash)| Mark { seq, hash, source: "--head".to_owned(), is_last: false }));
    let file = File::open(path)?;
    let state = if is_in_use(&file) { State::InUse } else { State::NotClosed };
    let state = if marks.iter().any(|mark| mark.is_last) { State::Closed } else { state };
    let mut report = Report::new(&name, state);
    let name = name.ends_with(".jsonl").then_some(name);
    let known = Known { name, marks, past: Past::Unchecked, is_continued: false };
    verify(BufReader::with_capacity(BUFFER_BYTES, file), known, &mut report)?;
    Ok(report)
}

fn read_saved(path: &Path, there: BTreeSet<&str>) -> io::Result<Heads> {
    noted::read(path, &path.display().to_string(), Context { there, ..Context::default() })
}

/// The last note of a saved copy has to be in the heads file as well.
fn saved_head(saved: &Heads) -> Option<Mark> {
    let (seq, hash) = saved.head?;
    Some(Mark { seq, hash, source: saved.report.file.clone(), is_last: false })
}

struct Folder<'a> {
    dir: &'a Path,
    own: Option<Heads>,
    saved: Option<Heads>,
    /// What each file leaves to the one that continues it, until that one is read.
    rests: BTreeMap<String, Rest>,
}

impl Folder<'_> {
    fn verify(&mut self, listed: &[String], each: &mut dyn FnMut(Report)) -> io::Result<()> {
        // By the name of the file that is continued.
        let mut next: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut first = Vec::new();
        let there: BTreeSet<&String> = listed.iter().collect();
        for name in listed {
            match self.previous(name).filter(|previous| there.contains(previous) && previous != name) {
                Some(previous) => next.entry(previous).or_default().push(name.clone()),
                None => first.push(name.clone()),
            }
        }
        let mut waiting = first;
        waiting.reverse();
        let mut left: BTreeSet<String> = listed.iter().cloned().collect();
        loop {
            // Files that name each other in a ring are begun anywhere.
            let Some(name) = waiting.pop().or_else(|| left.first().cloned()) else { return Ok(()) };
            if !left.remove(&name) {
                continue;
            }
            let following = next.remove(&name).unwrap_or_default();
            if let Some(report) = self.one(&name, !following.is_empty())? {
                each(report);
            }
            waiting.extend(following);
        }
    }

    /// The file that this one says it continues.
    fn previous(&self, name: &str) -> Option<String> {
        let file = File::open(self.dir.join(name)).ok()?;
        let mut lines = Lines::new(BufReader::with_capacity(4096, file));
        let line = lines.next().ok()??;
        Seen::parse(line.text?).ok()?.previous
    }

    /// `None` for a file that went away, and for one that was begun and never used.
    fn one(&mut self, name: &str, is_continued: bool) -> io::Result<Option<Report>> {
        let file = match File::open(self.dir.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let marks: Vec<Mark> = [&self.own, &self.saved].into_iter().flatten().filter_map(|heads| heads.mark(name)).collect();
        let is_empty = file.metadata()?.len() == 0;
        if is_empty && marks.is_empty() {
            return Ok(None);
        }
        let state = match marks.is_empty() {
            false => State::Closed,
            true if is_in_use(&file) => State::InUse,
            true => State::NotClosed,
        };
        let mut report = Report::new(name, state);
        if self.own.as_ref().is_some_and(|own| !own.journals.contains_key(name)) {
            report.add(Kind::NotNoted, 1, format!("its beginning is not noted in {NAME}"));
        }
        let past = match self.previous(name) {
            None => Past::Unchecked,
            Some(previous) => self.past(&previous),
        };
        let known = Known { name: Some(name.to_owned()), marks, past, is_continued };
        let rest = verify(BufReader::with_capacity(BUFFER_BYTES, file), known, &mut report)?;
        if is_continued {
            self.rests.insert(name.to_owned(), rest);
        }
        Ok(Some(report))
    }

    fn past(&mut self, previous: &str) -> Past {
        match self.rests.remove(previous) {
            Some(Rest { head: Some((seq, hash)), open, questions }) => Past::Known(seq, hash, open, Box::new(questions)),
            Some(Rest { head: None, .. }) => Past::Absent,
            // A note of its removal takes it out of what the heads file knows; a missing one is reported there.
            None => Past::Removed,
        }
    }
}
