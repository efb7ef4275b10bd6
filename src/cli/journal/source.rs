//! One file of records on its way to stdout, and several of them merged by time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};

use crate::cli::journal::table::{Filter, Memory};
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

/// A file that is being shown.
struct Source {
    path: PathBuf,
    lines: Lines<BufReader<Take<File>>>,
    shown: Shown,
}

/// What comes next in a file.
struct Next {
    at: String,
    line: Option<String>,
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

    /// The next record, wanted or not; `None` at the end of whole lines.
    fn next(&mut self, filter: &Filter) -> Result<Option<Next>, Problem> {
        loop {
            let Some(raw) = self.lines.next().map_err(Problem::input(&self.path))?.filter(|raw| raw.is_terminated) else {
                return Ok(None);
            };
            self.shown.offset += raw.length;
            match raw.text.map(|text| (text, Seen::parse(text))) {
                Some((text, Ok(seen))) => {
                    let line = self.shown.memory.shown(text, &seen, filter);
                    return Ok(Some(Next { at: seen.at.into_owned(), line }));
                }
                Some((_, Err(_))) | None => self.shown.unreadable += 1,
            }
        }
    }
}

/// Prints the wanted records of files in the order of time, each from where it was shown up to a length. Returns how far each
/// has been shown now. Only files whose records may come next are open at once.
pub fn merge(
    dir: &Path,
    files: Vec<(String, Shown, u64)>,
    filter: &Filter,
    out: &mut Out,
) -> Result<BTreeMap<String, Shown>, Problem> {
    let mut waiting = files.into_iter().map(|(name, shown, length)| (stamp(&name), name, shown, length)).collect::<Vec<_>>();
    waiting.sort_by(|(a, a_name, ..), (b, b_name, ..)| (b, b_name).cmp(&(a, a_name)));
    // By the time of what comes next.
    let mut open: BTreeMap<(String, String), (Source, Option<String>)> = BTreeMap::new();
    let mut done = BTreeMap::new();
    loop {
        let first = open.first_key_value().map(|((at, _), _)| stamp_of(at));
        let is_due = |stamp: &str| first.as_ref().is_none_or(|first| stamp <= first.as_str());
        if let Some((_, name, shown, length)) = waiting.pop_if(|(stamp, ..)| is_due(stamp)) {
            if let Some(source) = Source::open(dir.join(&name), shown, length)? {
                advance(name, source, filter, &mut open, &mut done)?;
            }
            continue;
        }
        let Some(((_, name), (source, line))) = open.pop_first() else { return Ok(done) };
        if let Some(line) = line {
            out.line(&line)?;
        }
        advance(name, source, filter, &mut open, &mut done)?;
    }
}

fn advance(
    name: String,
    mut source: Source,
    filter: &Filter,
    open: &mut BTreeMap<(String, String), (Source, Option<String>)>,
    done: &mut BTreeMap<String, Shown>,
) -> Result<(), Problem> {
    match source.next(filter)? {
        Some(Next { at, line }) => drop(open.insert((at, name), (source, line))),
        None => drop(done.insert(name, source.shown)),
    }
    Ok(())
}

/// Prints the wanted records of one file; also one that is no regular file. Returns how many lines were no records.
pub fn print(path: &Path, filter: &Filter, out: &mut Out) -> Result<u64, Problem> {
    let Some(mut source) = Source::open(path.to_owned(), Shown::default(), u64::MAX)? else {
        return Err(Problem::Input(path.to_owned(), ErrorKind::NotFound.into()));
    };
    while let Some(Next { line, .. }) = source.next(filter)? {
        if let Some(line) = line {
            out.line(&line)?;
        }
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
