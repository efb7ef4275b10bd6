//! Configuration: one JSON file in, one checked `Config` out, or every problem at once.
//!
//! Two floors: `written` takes what was said (types, keys, ranges), `meant` what it means (names that must exist, schemas,
//! templates, scopes). A key that is not understood is refused, never ignored. No secret value is read here: only where it is.

pub mod tree;
pub mod file;
pub mod schema;
pub mod object;
pub mod written;
pub mod scope;
pub mod input;
pub mod host;
pub mod source;
pub mod meant;
pub mod builtin;
pub mod approvals;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::action::Tool;
use crate::approval::ApprovalRules;
use crate::config::file::Env;
use crate::config::tree::{Node, Problems, line_column, pointer_of, shown};
use crate::executor::credential::Source;
use crate::journal::JournalRules;
use crate::limits::{GRACE, Limits};
use crate::policy::rules::{HostRule, Networks, ToolRule};
use crate::wire::log::Format;

/// What the gateway runs under. Checked whole; nothing downstream checks it again.
#[derive(Debug)]
pub struct Config {
    /// The file it came from; `None` if nothing is configured.
    pub source: Option<PathBuf>,
    /// How the peer is treated.
    pub session: SessionRules,
    /// Limits of the whole gateway.
    pub limits: Limits,
    /// What operators read.
    pub log: LogRules,
    /// The record of executions.
    pub journal: JournalRules,
    /// Who is asked before an action whose tool says so.
    pub approvals: ApprovalRules,
    /// Absolute folder of journals and results; made when first needed.
    pub state_dir: PathBuf,
    /// Addresses beyond the public ones that may be dialled.
    pub networks: Networks,
    /// Where each credential's value comes from, by name, in the order of the file.
    pub credentials: Vec<(String, Source)>,
    /// The SSH hosts, in the order of the file.
    pub hosts: Vec<Arc<HostRule>>,
    /// The tools with the terms they run under: the declared ones in the order of the file, then those of `builtin`.
    pub tools: Vec<(Tool, ToolRule)>,
    /// One line each: sound, but perhaps not what was wanted.
    pub warnings: Vec<String>,
}

/// `session`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRules {
    /// What a line that is no message does.
    pub on_malformed: OnMalformed,
    /// What admitted calls get after end of file.
    pub grace: Duration,
}

/// `session.on_malformed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMalformed {
    /// Answer once and close.
    Close,
    /// Answer and go on at the next line.
    Continue,
}

/// `log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRules {
    /// The least grave level that is written.
    pub level: log::LevelFilter,
    /// How a line looks.
    pub format: Format,
    /// An absolute path that gets the log as well.
    pub file: Option<PathBuf>,
}

impl Default for SessionRules {
    fn default() -> Self {
        SessionRules { on_malformed: OnMalformed::Close, grace: GRACE }
    }
}

impl Default for LogRules {
    fn default() -> Self {
        LogRules { level: log::LevelFilter::Info, format: Format::Text, file: None }
    }
}

impl Config {
    /// No file, no tools, every default.
    pub fn unconfigured(env: Env<'_>) -> Config {
        Config {
            source: None,
            session: SessionRules::default(),
            limits: Limits::default(),
            log: LogRules::default(),
            journal: JournalRules::default(),
            approvals: meant::default_approvals(),
            state_dir: meant::default_state_dir(env),
            networks: Networks::default(),
            credentials: Vec::new(),
            hosts: Vec::new(),
            tools: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Reads and checks a file. Fails with every problem it has; the gateway then exits 78 or keeps what it had.
    pub fn load(path: &Path, env: Env<'_>) -> Result<Config, ConfigError> {
        let bytes = file::read(path).map_err(|problem| ConfigError::of_file(path, &problem))?;
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            Err(error) => return Err(not_utf8(path, &bytes, error.valid_up_to())),
        };
        Config::parse(path, text, env)
    }

    /// Checks the text of a file; `path` is for messages and `source` only.
    pub fn parse(path: &Path, text: &str, env: Env<'_>) -> Result<Config, ConfigError> {
        if text.starts_with('\u{feff}') {
            return Err(ConfigError::at(path, 1, 1, "begins with a byte order mark, expected JSON"));
        }
        let mut problems = Problems::default();
        let Some(root) = tree::parse(text, &mut problems) else {
            return Err(ConfigError::new(path, text, None, problems));
        };
        let written = written::read(&root, &mut problems);
        let mut warnings = Problems::default();
        let config = meant::mean(written, env, &mut problems, &mut warnings);
        if problems.total() > 0 {
            return Err(ConfigError::new(path, text, Some(&root), problems));
        }
        let warnings = lines(path, text, Some(&root), warnings, usize::MAX);
        Ok(Config { source: Some(path.to_owned()), warnings, ..config })
    }
}

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// `FILE:LINE:COLUMN: POINTER: what`, at most `PROBLEMS_SHOWN`, in the order of the file.
    pub lines: Vec<String>,
    /// How many there are.
    pub total: usize,
}

/// Enough to work through in one go; the rest is counted.
pub const PROBLEMS_SHOWN: usize = 20;

impl ConfigError {
    fn new(path: &Path, text: &str, root: Option<&Node>, problems: Problems) -> Self {
        let total = problems.total();
        ConfigError { lines: lines(path, text, root, problems, PROBLEMS_SHOWN), total }
    }

    /// A problem with the file as a whole.
    pub fn of_file(path: &Path, problem: &str) -> Self {
        ConfigError { lines: vec![format!("{}: {problem}", shown_path(path))], total: 1 }
    }

    fn at(path: &Path, line: usize, column: usize, problem: &str) -> Self {
        ConfigError { lines: vec![format!("{}:{line}:{column}: {problem}", shown_path(path))], total: 1 }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.lines.join("\n"))?;
        match self.total - self.lines.len() {
            0 => Ok(()),
            more => write!(out, "\nand {more} more problems"),
        }
    }
}

impl std::error::Error for ConfigError {}

fn lines(path: &Path, text: &str, root: Option<&Node>, problems: Problems, most: usize) -> Vec<String> {
    let path = shown_path(path);
    let line = |(at, what): (usize, String)| {
        let (line, column) = line_column(text, at);
        let pointer = root.map(|root| pointer_of(root, at)).filter(|pointer| !pointer.is_empty());
        let pointer = pointer.map(|pointer| format!("{pointer}: ")).unwrap_or_default();
        format!("{path}:{line}:{column}: {pointer}{what}")
    };
    problems.in_order().into_iter().take(most).map(line).collect()
}

fn not_utf8(path: &Path, bytes: &[u8], valid_up_to: usize) -> ConfigError {
    let before = std::str::from_utf8(&bytes[..valid_up_to]).expect("valid up to here");
    let (line, column) = line_column(before, before.len());
    ConfigError::at(path, line, column, "expected UTF-8")
}

/// A path for one line of print; long paths are kept whole.
fn shown_path(path: &Path) -> String {
    path.to_string_lossy().split('/').map(shown).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests;
