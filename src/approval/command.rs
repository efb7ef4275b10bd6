//! The approver command: a program of the configuration that is shown one question and answers by its exit status.
//!
//! It gets one JSON document on stdin and the end of it, a bare environment and no credential. What it prints is no answer and is
//! thrown away, but for the beginning of its stderr, which the operator's log gets. Command, group and strays have ended when an
//! answer is given, or were let go after KILL.
//!
//! The status is the whole answer: 0 is yes, whether the question was read or not; anything else is no.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::approval::{Answer, Extent, Question};
use crate::cancel::CancelToken;
use crate::process::mark::Mark;
use crate::process::run::{self, Finished, Output, Stopped, Taken};
use crate::process::{self, Child, Spec, Status, Stdin};
use crate::process::{CHILD_LANG, CHILD_PATH};
use crate::sys;
use crate::wire::escape::to_line;

/// Of its stderr, for the operator's log: the line that says why.
const STDERR_BYTES: usize = 200;

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// An answer, or the lack of one.
    Answered(Answer),
    /// Nobody waits for an answer any more.
    Cancelled,
}

/// Asks the command `argv` (program and arguments; no shell reads them) and waits for its end; blocks its own thread only. The document on
/// its stdin is one line, `{"id", "tool", "rule", "target", "extent": "once"|"session", "action": {…}}`.
///
/// Yes is exit status 0, if the command ended by itself before the cancel and before `until`; it goes as far as was asked. Another
/// status is `No`; a command that cannot be started or watched, or that a signal ended, is `Unusable`. At `until` it is ended (TERM,
/// after 500 ms KILL) and the answer is `TimedOut`. Returns at the latest 2.5 s after `until` or the cancel.
pub fn ask(argv: &[String], question: &Question, token: &CancelToken, until: Instant) -> Asked {
    if token.is_cancelled() {
        return Asked::Cancelled;
    }
    if Instant::now() >= until {
        return Asked::Answered(Answer::TimedOut);
    }
    match put(argv, question, token, until) {
        Ok((finished, stderr)) => answer(finished, question.extent, &stderr),
        Err(why) => Asked::Answered(unusable(why)),
    }
}

/// The command's end and the beginning of its stderr.
fn put(argv: &[String], question: &Question, token: &CancelToken, until: Instant) -> Result<(Finished, Stderr), String> {
    let document = document(question)?;
    let child = spawn(argv)?;
    let mut stderr = Stderr(Vec::new());
    let finished = run::run(child, document.as_bytes(), &mut stderr, token, until);
    finished.map(|finished| (finished, stderr)).map_err(|error| format!("could not be watched: {error}"))
}

#[derive(Serialize)]
struct Document<'a> {
    id: &'a str,
    tool: &'a str,
    rule: &'a str,
    target: &'a str,
    extent: Extent,
    action: &'a RawValue,
}

/// One line. The action stands in it as the object it is, digits and order unchanged.
fn document(question: &Question) -> Result<String, String> {
    let Question { id, tool, rule, target, action, extent } = question;
    let action = serde_json::from_str(action).map_err(|error| format!("was not asked: expected an action in JSON: {error}"))?;
    let document = Document { id, tool, rule, target, extent: *extent, action };
    Ok(to_line(&document) + "\n")
}

fn spawn(argv: &[String]) -> Result<Child, String> {
    let failed = |why: String| format!("could not be started: {why}");
    let mark = Mark::random().map_err(|error| failed(error.to_string()))?;
    let home = std::env::var("HOME").ok().filter(|home| home.starts_with('/'));
    let env = [("PATH", CHILD_PATH), ("HOME", home.as_deref().unwrap_or("/")), ("LANG", CHILD_LANG)];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let spec = Spec { argv, env: &env, cwd: Path::new("/"), mark, stdin: Stdin::Pipe };
    process::spawn(&spec).map_err(|error| failed(error.to_string()))
}

fn answer(finished: Finished, extent: Extent, stderr: &Stderr) -> Asked {
    let answer = match (finished.stopped, finished.end.status) {
        (Some(Stopped::Cancelled), _) => return Asked::Cancelled,
        (Some(Stopped::Late), _) => Answer::TimedOut,
        (Some(Stopped::Refused), _) => unusable("was ended for what it printed".to_owned()),
        (None, Some(Status::Exited(0))) => Answer::Yes(extent),
        (None, Some(Status::Exited(status))) => Answer::No(format!("the approver command ended with status {status}")),
        (None, Some(Status::Signalled(signal))) => unusable(format!("was ended by signal {}", sys::signal_name(signal))),
        (None, None) => unusable("ended, but its exit status was lost".to_owned()),
    };
    stderr.log(&answer);
    Asked::Answered(answer)
}

fn unusable(what: String) -> Answer {
    Answer::Unusable(format!("the approver command {what}"))
}

/// The beginning of its stderr.
struct Stderr(Vec<u8>);

impl Output for Stderr {
    fn stdout(&mut self, _bytes: &[u8]) -> Taken {
        Taken::Wanted
    }

    fn stderr(&mut self, bytes: &[u8]) {
        let room = STDERR_BYTES - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Stderr {
    fn log(&self, answer: &Answer) {
        let said = String::from_utf8_lossy(&self.0);
        match answer {
            _ if said.trim().is_empty() => {}
            Answer::Yes(_) | Answer::No(_) => log::info!("the approver command said on stderr: {said:?}"),
            Answer::TimedOut | Answer::Unusable(_) => log::warn!("the approver command failed and said on stderr: {said:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
