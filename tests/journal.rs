//! The journal from outside: what `tidegate journal` says of it, and what stands in it after the worst has happened.

mod asked;
mod damage;
mod kill;
mod large;
mod show;
mod trouble;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::kit::installed::installed;

/// What `tidegate journal ARGUMENTS` said.
struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(installed());
    command.arg("journal").args(arguments).env_clear().stdin(Stdio::null());
    command
}

fn journal(arguments: &[&str]) -> Said {
    let output = command(arguments).output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Said { code: output.status.code().unwrap(), stdout, stderr }
}

/// What `tidegate journal verify --json` says of a state folder, and its exit code.
fn verified(state: &Path, more: &[&str]) -> (i32, Vec<Value>) {
    let said = journal(&[&["verify", "--json", "--state-dir", state.to_str().unwrap()], more].concat());
    assert_eq!(said.stderr, "");
    (said.code, lines(&said.stdout))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// `KIND FILE:LINE` of each finding.
fn findings(said: &[Value]) -> Vec<String> {
    let found = said.iter().filter(|line| line["type"] == "finding");
    found.map(|line| format!("{} {}:{}", text(&line["kind"]), text(&line["file"]), line["line"])).collect()
}

/// Fails if a state folder shows any damage. Returns the verdict.
#[track_caller]
fn check_sound(state: &Path) -> Value {
    let (code, said) = verified(state, &[]);
    assert_eq!(code, 0, "{said:#?}");
    said.last().unwrap().clone()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}
