//! Transcripts as data: `fixtures/transcripts/*.txt`, run on the in-memory pair and on the real binary, word for word.
//!
//! `#` says why, `>` is sent, `<` must come back, `! close` ends stdin, `! exit N` is the exit code (0 if absent), and
//! `! continue` chooses `on_malformed: "continue"`. Actions are recorded, not carried out. UPDATE_FIXTURES=1 rewrites the `<`
//! lines from the real binary; review the diff.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate::config::Config;

use crate::kit::gateway::Gateway;
use crate::kit::memory::Memory;

struct Transcript {
    path: PathBuf,
    steps: Vec<Step>,
    exit: i32,
    is_lenient: bool,
}

enum Step {
    Why(String),
    Send(String),
    Close,
    Expect(String),
    Directive(String),
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/transcripts")
}

fn read(path: &Path) -> Transcript {
    let text = fs::read_to_string(path).unwrap();
    let steps: Vec<Step> = text.lines().filter(|line| !line.is_empty()).map(step).collect();
    let directive = |name: &str| {
        steps.iter().find_map(|step| match step {
            Step::Directive(text) => text.strip_prefix(name).map(str::trim),
            _ => None,
        })
    };
    let exit = directive("exit").map_or(0, |code| code.parse().unwrap());
    let is_lenient = directive("continue").is_some();
    Transcript { path: path.to_owned(), steps, exit, is_lenient }
}

fn step(line: &str) -> Step {
    match line.split_at_checked(2) {
        Some(("> ", text)) => Step::Send(text.to_owned()),
        Some(("< ", text)) => Step::Expect(text.to_owned()),
        Some(("! ", "close")) => Step::Close,
        Some(("! ", text)) => Step::Directive(text.to_owned()),
        _ if line.starts_with('#') => Step::Why(line.to_owned()),
        _ => panic!("a transcript line starts with #, >, < or !: {line}"),
    }
}

fn transcripts() -> Vec<Transcript> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "txt")).collect();
    paths.sort();
    assert!(paths.len() >= 6, "the transcripts are there");
    paths.iter().map(|path| read(path)).collect()
}

fn config(transcript: &Transcript) -> Value {
    let mut config: Value = serde_json::from_str(&fs::read_to_string(folder().join("config.json")).unwrap()).unwrap();
    if transcript.is_lenient {
        config["session"] = json!({"on_malformed": "continue"});
    }
    config
}

/// What differs from run to run stands still.
fn settled(line: &str) -> String {
    let line = line.replace(concat!("\"version\":\"", env!("CARGO_PKG_VERSION"), "\""), "\"version\":\"VERSION\"");
    match line.split_once("\"duration_ms\":") {
        Some((before, after)) => format!("{before}\"duration_ms\":{}", after.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => line,
    }
}

#[track_caller]
fn compare(transcript: &Transcript, expected: &str, got: &str) {
    assert_eq!(settled(got), settled(expected), "\nin {}", transcript.path.display());
}

#[test]
fn transcripts_hold_on_the_in_memory_pair() {
    for transcript in transcripts() {
        let text = config(&transcript).to_string();
        let config = Config::parse(Path::new("/transcript.json"), &text, &|_| None).unwrap();
        let mut memory = Some(Memory::start(config));
        let mut rest = Vec::new().into_iter();
        for step in &transcript.steps {
            match (step, &mut memory) {
                (Step::Send(line), Some(memory)) => memory.send(line),
                (Step::Close, running) => {
                    let (cause, lines) = running.take().expect("closed once").end();
                    assert_eq!(i32::from(cause.exit_code()), transcript.exit, "{}", transcript.path.display());
                    rest = lines.into_iter();
                }
                (Step::Expect(expected), Some(memory)) => compare(&transcript, expected, &memory.line().expect("a line")),
                (Step::Expect(expected), None) => compare(&transcript, expected, &rest.next().expect("a line after the close")),
                (Step::Why(_) | Step::Directive(_), _) => {}
                (Step::Send(_), None) => panic!("sent after the close"),
            }
        }
        assert_eq!(rest.next(), None, "{}", transcript.path.display());
        assert!(memory.is_none(), "{} ends with ! close", transcript.path.display());
    }
}

#[test]
fn transcripts_hold_on_the_real_binary() {
    let is_update = std::env::var_os("UPDATE_FIXTURES").is_some();
    for transcript in transcripts() {
        let mut gateway = Gateway::new().args(["--dry-run"]).says_anything().exit(transcript.exit);
        for (member, value) in config(&transcript).as_object().unwrap() {
            gateway = gateway.set(member, value.clone());
        }
        let mut running = Some(gateway.start());
        let (mut rest, mut written) = (Vec::new().into_iter(), String::new());
        for step in &transcript.steps {
            match (step, &mut running) {
                (Step::Send(line), Some(running)) => {
                    running.send(line);
                    written += &format!("> {line}\n");
                    if is_update {
                        running
                            .lines_for_a_while()
                            .iter()
                            .for_each(|line| written += &format!("< {}\n", settled(line.trim_end())));
                    }
                }
                (Step::Close, gateway) => {
                    let ended = gateway.take().expect("closed once").end();
                    let unread = ended.unread.clone();
                    written += "! close\n";
                    if is_update {
                        unread.iter().for_each(|line| written += &format!("< {}\n", settled(line)));
                    }
                    rest = unread.into_iter();
                }
                (Step::Expect(_), _) if is_update => {}
                (Step::Expect(expected), Some(running)) => compare(&transcript, expected, running.next_line().trim_end()),
                (Step::Expect(expected), None) => compare(&transcript, expected, &rest.next().expect("a line after the close")),
                (Step::Why(text), _) => written += &format!("{text}\n"),
                (Step::Directive(text), _) => written += &format!("! {text}\n"),
                (Step::Send(_), None) => panic!("sent after the close"),
            }
        }
        if is_update {
            fs::write(&transcript.path, written).unwrap();
        } else {
            assert_eq!(rest.next(), None, "{}", transcript.path.display());
        }
    }
}
