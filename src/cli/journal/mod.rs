//! `tidegate journal show | follow | verify`: the record of what was executed, for people, pipes and scheduled jobs.
//!
//! Reads, and changes nothing: no lock is kept, no file is made. What is printed for people is escaped; a reader of stdout that
//! goes away is a normal end.

pub mod since;
pub mod table;
pub mod source;
pub mod show;
pub mod follow;
pub mod verify;

use std::io::{self, BufWriter, ErrorKind, Stdout, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::cli::flags::{JournalAction, JournalOptions};
use crate::cli::journal::table::Filter;
use crate::cli::{EXIT_CONFIG, EXIT_IO, EXIT_OK, complain};
use crate::clock::rfc3339;
use crate::config::Config;
use crate::config::file::{Found, find};

/// The help of the command: also the documentation of the lines, field by field.
pub const ABOUT: &str = "\
show prints the records of all processes that share the state folder, in the order of time; follow prints what comes,
until SIGINT; verify says what was done to the journals, file and line: edits, removals, insertions, repetitions, moved
lines, files cut short or gone, intents without an outcome, and intents that an approval they name does not cover. It
ends with 1 if it found damage; an unknown outcome, a question without an answer, a line that was cut while it was
written, and a journal that was not closed are what a killed process leaves, and no damage. Whoever can rewrite all
files can make them fit again: keep a copy of journal-heads.jsonl elsewhere and compare with --heads.

The state folder has journal/TIME-PID-N.jsonl, one JSON object a line, with these members; absent values are null:
  seq, at, mono_ms   number in the process's chain, time (RFC 3339, UTC), milliseconds since its start
  prev               SHA-256 of the line before, without its line feed; 64 zeros in the first
  type               session, question, answer, intent or outcome; ignore what you do not know
  session            first line of a file. format: 1. version, pid: who writes. file: its name. previous: the file it
                     continues. open: calls whose intent stands there
  question           a human is asked. call: its number in the process. question: its name, 8 hex digits. asked: client,
                     operator or command. tool, rule: what it is about and which rule asks. target: what at.
                     action_sha256: of the action that is shown. era: revision of the request
  answer             call: that of the question, or the one that a client without a handshake brought it with, perhaps
                     to another process. question: its name. asked: who was. answer: yes (to this action),
                     yes_for_session (to this tool on this target, until the process ends), no, timed_out, unusable
                     or withdrawn (its call was cancelled, or the session ended). user: of an operator, the user id
  intent             call: its number in the process. tool, rule: what asked and what allowed it. target: what at.
                     args_sha256: of the arguments as received. action_sha256: of the action. credential: its name.
                     era: revision of the request. trace: its traceparent. question: the one whose yes approved it
  outcome            call: that of the intent. code: ok, or why not. executed: yes, no or unknown. status: exit or
                     HTTP status. bytes: what the source produced. duration_ms: since admission. ended: dead or
                     detached, if told to end
journal/refusals-*.jsonl has seq, at, type (refusal), stage, reason, bytes, fingerprint (keyed), era, skipped.
journal-heads.jsonl has seq, at, prev, type (start, end, removed), file, pid, last_seq, head, why (closed, rotated,
found).";

/// Reads the journal as asked.
pub fn run(options: &JournalOptions) -> u8 {
    let place = match place(options) {
        Ok(place) => place,
        Err(problems) => {
            problems.lines().for_each(complain);
            return EXIT_CONFIG;
        }
    };
    let mut out = Out { stdout: BufWriter::new(io::stdout()) };
    let filter = Filter {
        tool: options.tool.clone(),
        code: options.code.clone(),
        since: options.since.map(|since| rfc3339(since.moment(SystemTime::now()))),
        is_json: options.json,
    };
    let result = match options.action {
        Some(JournalAction::Verify) => verify::run(&place, options, &mut out),
        Some(JournalAction::Follow) => follow::run(&place, options.refusals, filter, &mut out),
        Some(JournalAction::Show) | None => show::run(&place, options.refusals, filter, &mut out),
    };
    let result = result.and_then(|code| out.stdout.flush().map(|()| code).map_err(Problem::Output));
    match result {
        Ok(code) => code,
        Err(Problem::Output(error)) if error.kind() == ErrorKind::BrokenPipe => EXIT_OK,
        Err(Problem::Output(error)) => {
            complain(&format!("stdout cannot be written: {error}"));
            EXIT_IO
        }
        Err(Problem::Input(path, error)) => {
            complain(&format!("{} cannot be read: {error}", table::cell(&path.to_string_lossy())));
            EXIT_IO
        }
    }
}

/// What is read.
pub enum Place {
    /// One file.
    File(PathBuf),
    /// A state folder.
    State(PathBuf),
}

/// Why a command could not go on.
#[derive(Debug)]
pub enum Problem {
    /// Writing failed.
    Output(io::Error),
    /// Reading this file failed.
    Input(PathBuf, io::Error),
}

impl Problem {
    /// Reading `path` failed.
    pub fn input(path: &Path) -> impl Fn(io::Error) -> Problem {
        |error| Problem::Input(path.to_owned(), error)
    }
}

/// Where results go.
pub struct Out {
    stdout: BufWriter<Stdout>,
}

impl Out {
    /// One line.
    pub fn line(&mut self, line: &str) -> Result<(), Problem> {
        let written = self.stdout.write_all(line.as_bytes()).and_then(|()| self.stdout.write_all(b"\n"));
        written.map_err(Problem::Output)
    }

    /// What was written so far is seen now.
    pub fn flush(&mut self) -> Result<(), Problem> {
        self.stdout.flush().map_err(Problem::Output)
    }
}

fn place(options: &JournalOptions) -> Result<Place, String> {
    if let Some(file) = &options.file {
        return Ok(Place::File(file.clone()));
    }
    if let Some(state_dir) = &options.state_dir {
        return Ok(Place::State(state_dir.clone()));
    }
    let env = |name: &str| std::env::var_os(name);
    let config = match find(options.config.as_deref(), &env) {
        Found::File(path) => Config::load(&path, &env).map_err(|error| error.to_string())?,
        Found::Nowhere { .. } => Config::unconfigured(&env),
        Found::Refused(why) => return Err(why),
    };
    Ok(Place::State(config.state_dir))
}
