//! `from` of a credential: which source, and what is said beside one that is a program.
//!
//! It looks at no variable, file or program; a value never stands in a configuration.

use std::path::PathBuf;
use std::time::Duration;

use crate::action::environment::is_variable;
use crate::config::object::{Object, Said, absolute_path, listed, matching, seconds, seconds_within, texts};
use crate::config::schema;
use crate::config::tree::{Node, Problems};
use crate::config::written::{argv, variable};
use crate::limits::HELPER_CACHE_MAX;

/// The sources there are.
const SOURCES: [&str; 4] = ["env", "file", "command", "systemd"];
/// What may stand beside `command` alone.
const OF_COMMAND: [&str; 3] = ["inherit", "timeout_s", "cache_s"];
/// As NAME_MAX has it.
const NAME_BYTES_MAX: usize = 255;

/// `from` of a credential.
#[derive(Debug)]
pub enum SourceWritten<'n> {
    /// `env`.
    Env(&'n str),
    /// `file`.
    File(PathBuf),
    /// `systemd`.
    Systemd(&'n str),
    /// `command`.
    Command(CommandWritten<'n>),
}

/// `command` of a source, and what is said beside it.
#[derive(Debug)]
pub struct CommandWritten<'n> {
    /// `command`, never empty.
    pub argv: Vec<Said<&'n str>>,
    /// `inherit`.
    pub inherit: Vec<&'n str>,
    /// `timeout_s`.
    pub timeout: Option<Duration>,
    /// `cache_s`.
    pub cache: Option<Duration>,
}

/// Reads the `from` of a credential.
pub fn source<'n>(node: &'n Node, problems: &mut Problems) -> Option<SourceWritten<'n>> {
    let object = Object::open(node, &schema::SOURCE, problems)?;
    let said = SOURCES.into_iter().filter(|key| object.node(key).is_some()).count();
    if said > 1 || said == 0 && object.is_known() {
        problems.add(object.at, format!("expected exactly one of {}", listed(&SOURCES)));
    }
    let is_command = object.node("command").is_some();
    for member in OF_COMMAND.into_iter().filter_map(|key| object.member(key)).filter(|_| !is_command) {
        problems.add(member.key_at, format!("\"{}\" is for \"command\" only", member.key));
    }
    let mut named = |key, expected, holds: fn(&str) -> bool| {
        object.node(key).and_then(|node| matching(node, expected, holds, problems)).map(|said| said.value)
    };
    let env = named("env", "the name of an environment variable", is_variable);
    let systemd = named("systemd", "the name of a systemd credential (one file name without \":\")", is_passed_name);
    let file = object.node("file").and_then(|node| absolute_path(node, problems));
    let command = command(&object, problems);
    (said == 1).then_some(())?;
    let command = command.map(SourceWritten::Command);
    env.map(SourceWritten::Env).or(file.map(SourceWritten::File)).or(systemd.map(SourceWritten::Systemd)).or(command)
}

fn command<'n>(object: &Object<'n>, problems: &mut Problems) -> Option<CommandWritten<'n>> {
    let argv = object.node("command").and_then(|node| argv(node, problems));
    let inherit = object.node("inherit").map(|node| inherit(node, problems)).unwrap_or_default();
    let timeout = object.node("timeout_s").and_then(|node| seconds(node, problems));
    let cache = object.node("cache_s").and_then(|node| seconds_within(node, 0.0..=HELPER_CACHE_MAX.as_secs_f64(), problems));
    let value = |said: Said<Duration>| said.value;
    Some(CommandWritten { argv: argv?, inherit, timeout: timeout.map(value), cache: cache.map(value) })
}

fn inherit<'n>(node: &'n Node, problems: &mut Problems) -> Vec<&'n str> {
    let names = texts(node, problems).into_iter().filter(|said| variable(*said, problems));
    names.map(|said| said.value).collect()
}

/// A file name that is also the name of a descriptor (systemd.exec(5), LoadCredential=): printable ASCII without `/` and `:`.
fn is_passed_name(name: &str) -> bool {
    let fits = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'/' && byte != b':';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits) && name != "." && name != ".."
}
