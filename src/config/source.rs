//! Credential sources as meant: defaults filled in, and programs that can be started at all.
//!
//! It may look whether a program exists, for a warning; it starts none and reads no value.

use crate::config::file::Env;
use crate::config::meant::{child_env, look_for};
use crate::config::object::Said;
use crate::config::tree::{Problems, quote};
use crate::config::written::CredentialWritten;
use crate::config::written::source::{CommandWritten, SourceWritten};
use crate::executor::credential::{Helper, Source};
use crate::limits::{HELPER_CACHE, HELPER_TIMEOUT};
use crate::process::CHILD_PATH;

/// The sources by name, in the order of the file, but for those that were reported.
pub(in crate::config) fn sources(
    written: &[CredentialWritten<'_>],
    env: Env<'_>,
    problems: &mut Problems,
    warnings: &mut Problems,
) -> Vec<(String, Source)> {
    let mut source = |one: &CredentialWritten<'_>| {
        let source = match one.source.as_ref()? {
            SourceWritten::Env(name) => Source::Env((*name).to_owned()),
            SourceWritten::File(path) => Source::File(path.clone()),
            SourceWritten::Systemd(name) => Source::Systemd((*name).to_owned()),
            SourceWritten::Command(command) => Source::Command(helper(command, env, problems, warnings)),
        };
        Some((one.name.value.to_owned(), source))
    };
    written.iter().filter_map(&mut source).collect()
}

fn helper(written: &CommandWritten<'_>, env: Env<'_>, problems: &mut Problems, warnings: &mut Problems) -> Helper {
    Helper {
        argv: command_line(&written.argv, problems, warnings),
        env: child_env(&[], env),
        inherit: written.inherit.iter().map(|name| (*name).to_owned()).collect(),
        timeout: written.timeout.unwrap_or(HELPER_TIMEOUT),
        cache: written.cache.unwrap_or(HELPER_CACHE),
    }
}

/// A program that the gateway starts for itself, with literal arguments; relative paths would depend on where it was started.
pub(in crate::config) fn command_line(argv: &[Said<&str>], problems: &mut Problems, warnings: &mut Problems) -> Vec<String> {
    for said in argv.iter().filter(|said| said.value.contains('\0')) {
        problems.add(said.at, "expected an argument without NUL");
    }
    if let Some(program) = argv.first() {
        let name = program.value;
        if name.is_empty() || name.contains('/') && !name.starts_with('/') {
            problems.add(program.at, format!("expected an absolute path or a bare name, got {}", quote(name)));
        } else {
            look_for(*program, CHILD_PATH, warnings);
        }
    }
    argv.iter().map(|said| said.value.to_owned()).collect()
}
