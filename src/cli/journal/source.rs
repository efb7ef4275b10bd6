//! One file of records on its way to stdout, and several of them merged by time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};

use crate::cli::journal::table::{Filter, Memory, Questions};
use crate::cli::journal::{Out, Problem};
use crate::journal::lines::Lines;
use crate::journal::read::Seen;
use crate::journal::refusals;

/// A place in a file up to which it has been shown.
#[derive(Debug, Default)]
pub struct Shown {
    /// Bytes, whole lines only.
    pub offset: u64,
    /// What is remembered of them.
    pub memory: Memory,
    /// Lines that were no records.
    pub unreadable: u64,
}

/// What was shown before.
#[derive(Debug, Default)]
pub struct Done {
    /// Files that were shown to their ends.
    pub files: BTreeMap<String, Shown>,
    /// What was asked in any file.
    pub questions: Questions,
}

/// A file that is being shown.
struct Source {
    path: PathBuf,
    lines: Lines<BufReader<Take<File>>>,
    shown: Shown,
}

/// What comes next in a file.
struct Next {
    at: String,
    text: Vec<u8>,
}

impl Source {
    /// Behind what was shown, up to `length`; `None` for a file that went away.
    fn open(path: PathBuf, shown: Shown, length: u64) -> Result<Option<Source>, Problem> {
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Problem::Input(path, error)),
        };
        if shown.offset > 0 {
            file.seek(SeekFrom::Start(shown.offset)).map_err(Problem::input(&path))?;
        }
        let lines = Lines::new(BufReader::new(file.take(length.saturating_sub(shown.offset))));
        Ok(Some(Source { path, lines, shown }))
    }

    /// The next record; `None` at the end of whole lines.
    fn next(&mut self) -> Result<Option<Next>, Problem> {
        loop {
            let Some(raw) = self.lines.next().map_err(Problem::input(&self.path))?.filter(|raw| raw.is_terminated) else {
                return Ok(None);
            };
            self.shown.offset += raw.length;
            match raw.text.map(|text| (text, Seen::parse(text))) {
                Some((text, Ok(seen))) => return Ok(Some(Next { at: seen.at.into_owned(), text: text.to_owned() })),
                Some((_, Err(_))) | None => self.shown.unreadable += 1,
            }
        }
    }

    /// Prints a record of this file, if it is wanted.
    fn print(&mut self, next: &Next, filter: &Filter, done: &mut Done, out: &mut Out) -> Result<(), Problem> {
        let Ok(seen) = Seen::parse(&next.text) else { return Ok(()) };
        if let Some(before) = seen.previous.as_ref().and_then(|previous| done.files.get(previous)) {
            self.shown.memory.go_on(&before.memory);
        }
        match self.shown.memory.shown(&next.text, &seen, filter, &mut done.questions) {
            Some(line) => out.line(&line),
            None => Ok(()),
        }
    }
}

/// Files that are being shown, by the time of what comes next in each.
type Open = BTreeMap<(String, String), (Source, Next)>;

/// Prints the wanted records of files in the order of time, each from where it was shown up to a length, and adds how far each
/// has been shown to `done`. Only files whose records may come next are open at once.
pub fn merge(
    dir: &Path,
    files: Vec<(String, Shown, u64)>,
    filter: &Filter,
    done: &mut Done,
    out: &mut Out,
) -> Result<(), Problem> {
    let mut waiting = files.into_iter().map(|(name, shown, length)| (stamp(&name), name, shown, length)).collect::<Vec<_>>();
    waiting.sort_by(|(a, a_name, ..), (b, b_name, ..)| (b, b_name).cmp(&(a, a_name)));
    let mut open = Open::new();
    loop {
        let first = open.first_key_value().map(|((at, _), _)| stamp_of(at));
        let is_due = |stamp: &str| first.as_ref().is_none_or(|first| stamp <= first.as_str());
        if let Some((_, name, shown, length)) = waiting.pop_if(|(stamp, ..)| is_due(stamp)) {
            if let Some(source) = Source::open(dir.join(&name), shown, length)? {
                advance(name, source, &mut open, done)?;
            }
            continue;
        }
        let Some(((_, name), (mut source, next))) = open.pop_first() else { return Ok(()) };
        source.print(&next, filter, done, out)?;
        advance(name, source, &mut open, done)?;
    }
}

fn advance(name: String, mut source: Source, open: &mut Open, done: &mut Done) -> Result<(), Problem> {
    match source.next()? {
        Some(next) => drop(open.insert((next.at.clone(), name), (source, next))),
        None => drop(done.files.insert(name, source.shown)),
    }
    Ok(())
}

/// Prints the wanted records of one file; also one that is no regular file. Returns how many lines were no records.
pub fn print(path: &Path, filter: &Filter, out: &mut Out) -> Result<u64, Problem> {
    let Some(mut source) = Source::open(path.to_owned(), Shown::default(), u64::MAX)? else {
        return Err(Problem::Input(path.to_owned(), ErrorKind::NotFound.into()));
    };
    let mut done = Done::default();
    while let Some(next) = source.next()? {
        source.print(&next, filter, &mut done, out)?;
    }
    Ok(source.shown.unreadable)
}

/// When a file was begun, as its name says; a name that says nothing was begun before all others.
fn stamp(name: &str) -> String {
    let name = name.strip_prefix(refusals::PREFIX).unwrap_or(name);
    let stamp = name.split('-').next().unwrap_or_default();
    if stamp.starts_with(|c: char| c.is_ascii_digit()) { stamp.to_owned() } else { String::new() }
}

fn stamp_of(at: &str) -> String {
    at.chars().filter(char::is_ascii_alphanumeric).collect()
}
