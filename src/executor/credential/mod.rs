//! `Vault`: where credentials come from, and every value of theirs this process has seen.
//!
//! A value is had when it is handed out, in `perform`, never earlier for a call's sake: a changed file or variable counts at once,
//! a helper is started only for a call that uses its credential. What was had stays known to the redactor for the life of the
//! process, until its credential has had 64 newer values. Errors name the source and the reason, never a value, its length or what a helper printed.

mod cell;
mod error;
mod file;
mod helper;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cancel::CancelToken;
use crate::executor::credential::cell::Cell;
use crate::executor::credential::error::{Blame, Cause, Stop};
use crate::outcome::result::Failure;
use crate::secret::{Redactor, Secret};

pub use error::CredentialError;

/// Values of one credential that stay known, the newest: more than calls can use at once. A source that has another value each time
/// would else fill the memory, and make each redaction slower.
const KNOWN_VALUES: usize = 64;
/// Names the folder of `Source::Systemd` (systemd.exec(5)).
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// Where a credential's value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An environment variable of the gateway, by name; its value is taken as it is.
    Env(String),
    /// A regular file that the gateway's user or root owns and nobody else may touch; one line feed (or CR LF) at its end is dropped.
    File(PathBuf),
    /// What a program prints; one line feed (or CR LF) at its end is dropped.
    Command(Helper),
    /// A credential that systemd passes to the gateway's unit, by name: a file in `$CREDENTIALS_DIRECTORY`.
    Systemd(String),
}

/// A program that prints a credential's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helper {
    /// The program, an absolute path or a name in the PATH of `env`, and its arguments. No shell reads them.
    pub argv: Vec<String>,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// Variables of the gateway's own environment that it gets beside that, as far as they are set.
    pub inherit: Vec<String>,
    /// The longest it may take.
    pub timeout: Duration,
    /// How long what it printed is used; zero: once.
    pub cache: Duration,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Env(variable) => write!(f, "environment variable {variable}"),
            Source::File(path) => write!(f, "file {}", path.display()),
            Source::Command(helper) => write!(f, "command {:?}", helper.argv.first().map_or("", String::as_str)),
            Source::Systemd(name) => write!(f, "systemd credential {name:?}"),
        }
    }
}

/// A value that was handed out for one call.
#[derive(Clone)]
pub struct Credential {
    secret: Arc<Secret>,
    /// Where it is kept for further calls, if it is.
    cell: Option<Arc<Cell>>,
}

impl Credential {
    /// The target took it for no proof of who we are: whoever asks for this credential next gets a new one, if there can be one.
    /// A source that is read each time anyway has nothing to forget.
    pub fn refused(&self) {
        if let Some(cell) = &self.cell {
            cell.forget(&self.secret);
        }
    }
}

impl Deref for Credential {
    type Target = Secret;

    fn deref(&self) -> &Secret {
        &self.secret
    }
}

impl From<Secret> for Credential {
    /// A value that nobody keeps.
    fn from(secret: Secret) -> Self {
        Credential { secret: Arc::new(secret), cell: None }
    }
}

/// What ends a wait for a value beside its own event: the call it is for.
#[derive(Clone, Copy)]
struct Limit<'a> {
    token: &'a CancelToken,
    until: Instant,
}

/// Hands out credentials and remembers their values for redaction. Shared by all workers.
pub struct Vault {
    entries: Vec<Entry>,
    user_id: u32,
    known: Arc<Mutex<Known>>,
}

struct Entry {
    name: String,
    source: Source,
    /// What a helper printed.
    cell: Arc<Cell>,
}

/// What makes nobody wait and may be read at any time, and what may not.
enum Place<'e> {
    Here(Standing<'e>),
    Helper(&'e Helper),
}

/// Where a value stands to be read.
enum Standing<'e> {
    Env(&'e str),
    File(&'e Path),
    Systemd(&'e str),
}

struct Known {
    /// In the order in which they were first seen.
    values: Vec<(String, Arc<Secret>)>,
    redactor: Arc<Redactor>,
    failures: BTreeMap<String, CredentialError>,
}

impl Vault {
    /// A vault of credential names, each with its source. Reads nothing. `user_id` is the effective user id of this process.
    pub fn new(sources: Vec<(String, Source)>, user_id: u32) -> Vault {
        let known = Known { values: Vec::new(), redactor: Arc::new(Redactor::none()), failures: BTreeMap::new() };
        let entry = |(name, source)| Entry { name, source, cell: Arc::default() };
        Vault { entries: sources.into_iter().map(entry).collect(), user_id, known: Arc::new(Mutex::new(known)) }
    }

    /// A vault of other sources with the same memory. A helper whose source stays the same keeps what it printed.
    pub fn next(&self, sources: Vec<(String, Source)>) -> Vault {
        let cell = |name: &str, source: &Source| {
            let same = self.entries.iter().find(|entry| entry.name == name && entry.source == *source);
            same.map(|entry| Arc::clone(&entry.cell)).unwrap_or_default()
        };
        let entry = |(name, source): (String, Source)| Entry { cell: cell(&name, &source), name, source };
        let entries: Vec<Entry> = sources.into_iter().map(entry).collect();
        self.lock().failures.retain(|name, _| entries.iter().any(|entry| entry.name == *name));
        Vault { entries, user_id: self.user_id, known: Arc::clone(&self.known) }
    }

    /// Has a credential's value and hands it out. Called in `perform` only.
    ///
    /// A helper that has to run makes the call wait: for no longer than its own time limit and `deadline`, and not once `token` is
    /// cancelled. Fails (executed: no) as cancelled or timed out then, else as `credential_unavailable`: there is no credential of
    /// this name, its source cannot be read or may be read by others, or the value is no `Secret`.
    pub fn hand_out(&self, name: &str, token: &CancelToken, deadline: Instant) -> Result<Credential, Failure> {
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else {
            return Err(CredentialError { name: name.to_owned(), blame: Blame::Unknown }.into());
        };
        let had = match entry.place() {
            Place::Here(standing) => self.read(entry, standing).map_err(Stop::Failed),
            Place::Helper(helper) => self.ask_helper(entry, helper, Limit { token, until: deadline }),
        };
        had.map_err(|stop| match stop {
            Stop::Failed(cause) => entry.error(cause).into(),
            Stop::Cancelled(ended) => error::cancelled(ended),
            Stop::TimedOut(ended) => error::timed_out(name, &entry.source, ended),
        })
    }

    /// Reads whatever can be read, so that results of calls that use no credential are redacted as well. Failures are kept, not
    /// raised. Starts no helper: what one prints is known once it was handed out.
    pub fn load_known(&self) {
        for entry in &self.entries {
            match entry.place() {
                // The failure is remembered; the call that needs the credential will raise it.
                Place::Here(standing) => drop(self.read(entry, standing)),
                Place::Helper(_) => {}
            }
        }
    }

    /// Redacts every value seen so far. Grows with the next hand-out, so ask for it after that.
    pub fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.lock().redactor)
    }

    /// Why credentials were not available when last asked for, in the order of their names.
    pub fn failures(&self) -> Vec<CredentialError> {
        self.lock().failures.values().cloned().collect()
    }

    fn ask_helper(&self, entry: &Entry, helper: &Helper, limit: Limit<'_>) -> Result<Credential, Stop> {
        let cell = &entry.cell;
        let secret = cell.value(helper.cache, limit, || {
            let printed = match helper::run(helper, limit) {
                Ok(secret) => Ok(secret),
                Err(Stop::Failed(cause)) => Err(cause),
                Err(stop @ (Stop::Cancelled(_) | Stop::TimedOut(_))) => return Err(stop),
            };
            self.keep(entry, printed).map_err(Stop::Failed)
        })?;
        Ok(Credential { secret, cell: Some(Arc::clone(cell)) })
    }

    fn read(&self, entry: &Entry, standing: Standing<'_>) -> Result<Credential, Cause> {
        let variable = |name: &str| std::env::var_os(name);
        let read = match standing {
            Standing::Env(name) => accept_variable(variable(name)),
            Standing::File(path) => file::read(path, self.user_id),
            Standing::Systemd(name) => file::read_passed(variable(CREDENTIALS_DIRECTORY).as_deref(), name, self.user_id),
        };
        self.keep(entry, read).map(|secret| Credential { secret, cell: None })
    }

    /// Makes a value known, or the failure to have it.
    fn keep(&self, entry: &Entry, had: Result<Secret, Cause>) -> Result<Arc<Secret>, Cause> {
        let mut known = self.lock();
        match had {
            Ok(secret) => {
                known.failures.remove(&entry.name);
                Ok(known.remember(&entry.name, secret))
            }
            Err(cause) => {
                known.failures.insert(entry.name.clone(), entry.error(cause.clone()));
                Err(cause)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn place(&self) -> Place<'_> {
        match &self.source {
            Source::Env(name) => Place::Here(Standing::Env(name)),
            Source::File(path) => Place::Here(Standing::File(path)),
            Source::Systemd(name) => Place::Here(Standing::Systemd(name)),
            Source::Command(helper) => Place::Helper(helper),
        }
    }

    fn error(&self, cause: Cause) -> CredentialError {
        CredentialError { name: self.name.clone(), blame: Blame::Source(self.source.clone(), cause) }
    }
}

impl Known {
    /// Gives back the one copy of this value, and makes it known if it was not.
    fn remember(&mut self, name: &str, secret: Secret) -> Arc<Secret> {
        if let Some((_, known)) = self.values.iter().find(|(_, known)| known.expose() == secret.expose()) {
            return Arc::clone(known);
        }
        let secret = Arc::new(secret);
        self.values.push((name.to_owned(), Arc::clone(&secret)));
        let is_same = |(known, _): &(String, Arc<Secret>)| known == name;
        if self.values.iter().filter(|value| is_same(value)).count() > KNOWN_VALUES
            && let Some(oldest) = self.values.iter().position(is_same)
        {
            self.values.remove(oldest);
        }
        self.redactor = Arc::new(Redactor::new(self.values.iter().map(|(name, value)| (name.clone(), &**value))));
        secret
    }
}

fn accept_variable(value: Option<OsString>) -> Result<Secret, Cause> {
    accept(value.ok_or(Cause::Unset)?.into_vec())
}

fn accept(value: Vec<u8>) -> Result<Secret, Cause> {
    if value.is_empty() {
        return Err(Cause::Empty);
    }
    Secret::new(value).map_err(Cause::Unfit)
}

/// The same without the one line end that programs and editors put behind a value.
fn accept_line(value: &[u8]) -> Result<Secret, Cause> {
    let line_end = [&b"\r\n"[..], b"\n"].into_iter().find(|end| value.ends_with(end));
    accept(value[..value.len() - line_end.map_or(0, <[u8]>::len)].to_vec())
}

#[cfg(test)]
mod tests;
