//! What `verify` finds, and where: state folders of which somebody changed, removed, moved, repeated or invented something.

use std::fs;
use std::path::{Path, PathBuf};

use super::{findings, journal, verified};
use crate::kit::dir::Dir;

const A: &str = "20260731T080000000Z-100-0.jsonl";
const FILES: [(&str, &str); 4] = [
    ("A", A),
    ("P", "20260731T090000000Z-200-0.jsonl"),
    ("Q", "20260731T091000000Z-200-0.jsonl"),
    ("H", "journal-heads.jsonl"),
];
/// What a crash or a full disk leaves.
const HARMLESS: [&str; 3] = ["unknown", "torn", "unanswered"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal")
}

/// `KIND FILE:LINE` as the table has it, with the whole name.
fn expanded(finding: &str) -> String {
    let (kind, place) = finding.split_once(' ').unwrap();
    let (file, line) = place.split_once(':').unwrap();
    let (_, name) = FILES.iter().find(|(letter, _)| *letter == file).unwrap();
    format!("{kind} {name}:{line}")
}

#[test]
fn every_damage_is_named_at_its_line() {
    let table = fs::read_to_string(fixtures().join("table.txt")).unwrap();
    let rows: Vec<(&str, &str)> =
        table.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": ")).collect();
    let folders = fs::read_dir(fixtures()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(rows.len(), folders);
    for (case, expected) in rows {
        let (code, said) = verified(&fixtures().join(case), &[]);
        let expected: Vec<String> = expected.split(", ").filter(|finding| *finding != "nothing").map(expanded).collect();
        assert_eq!(findings(&said), expected, "{case}: {said:#?}");
        let is_harmless = expected.iter().all(|finding| HARMLESS.iter().any(|kind| finding.starts_with(kind)));
        assert_eq!(code, i32::from(!is_harmless), "{case}");
    }
}

#[test]
fn findings_are_for_people_too() {
    let said = journal(&["verify", "--state-dir", fixtures().join("swapped").to_str().unwrap()]);
    assert!(said.stdout.contains(&format!("\n{A}:4: reordered: seq 4 stands before line 5")), "{}", said.stdout);
    assert!(said.stdout.ends_with(
        "damage in 1 places, 0 intents with an unknown outcome, 0 questions without an answer, 0 lines cut while written\n"
    ));
}

/// The last line of a journal that was not closed can be changed and cut without a trace in the folder; a copy tells.
#[test]
fn what_the_folder_cannot_tell_a_kept_head_does() {
    let dir = Dir::new();
    let sound = fixtures().join("sound/journal").join(A);
    let text = fs::read_to_string(&sound).unwrap();
    let all: Vec<&str> = text.lines().collect();
    let file = dir.write(A, all[..6].join("\n") + "\n");
    let check = |arguments: &[&str], expected: &[&str]| {
        let said = journal(&[&["verify", "--json", "--file", file.to_str().unwrap()], arguments].concat());
        let found = findings(&super::lines(&said.stdout));
        assert_eq!(found, expected.iter().map(|one| expanded(one)).collect::<Vec<_>>(), "{}", said.stdout);
    };
    check(&[], &["unknown A:6"]);
    let copy = fixtures().join("sound/journal-heads.jsonl");
    check(&["--heads", copy.to_str().unwrap()], &["truncated A:6", "unknown A:6"]);
    // The head as `verify` prints it of the whole file.
    let whole = journal(&["verify", "--file", sound.to_str().unwrap()]).stdout;
    let head = whole.split_once(", head ").unwrap().1.lines().next().unwrap();
    assert!(head.starts_with("8:"), "{whole}");
    check(&["--head", head], &["truncated A:6", "unknown A:6"]);
    let other = format!("5:{}", "0".repeat(64));
    check(&["--head", &other], &["rewritten A:6", "unknown A:6"]);
}

/// A copy of the heads file knows what was there, whatever became of the heads file itself.
#[test]
fn a_kept_copy_of_the_heads_file_misses_what_is_gone() {
    let dir = Dir::new();
    let copy = dir.write("copy.jsonl", fs::read(fixtures().join("continued/journal-heads.jsonl")).unwrap());
    let copy_name = copy.to_str().unwrap();
    let found = |case: &str| findings(&verified(&fixtures().join(case), &["--heads", copy_name]).1);
    assert_eq!(found("continued"), [""; 0]);
    let here = |one: &str| expanded(one);
    // The folder of one journal only, and its heads file that knows of no other.
    let expected = [format!("missing {copy_name}:3"), format!("missing {copy_name}:5"), here("truncated H:2")];
    assert_eq!(found("sound"), expected);
}

#[test]
fn nothing_is_nothing_wrong_and_no_place_is_said() {
    let dir = Dir::new();
    let state = dir.join("state");
    let (code, said) = verified(&state, &[]);
    assert_eq!((code, said.len()), (0, 1));
    let said = journal(&["show", "--state-dir", state.to_str().unwrap()]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""));
    assert!(said.stderr.contains("nothing is recorded under"), "{}", said.stderr);
    let said = journal(&["verify", "--file", "/no/such/file"]);
    assert_eq!((said.code, said.stdout.as_str()), (74, ""));
    assert!(said.stderr.contains("/no/such/file cannot be read: "), "{}", said.stderr);
    let config = dir.write("config.json", "{\"state\": 1}");
    let said = journal(&["show", "--config", config.to_str().unwrap()]);
    assert_eq!(said.code, 78, "{}", said.stderr);
    let config = dir.write("config.json", format!("{{\"state_dir\": {:?}}}", fixtures().join("sound")));
    let said = journal(&["show", "--json", "--config", config.to_str().unwrap()]);
    assert_eq!((said.code, said.stdout), (0, fs::read_to_string(fixtures().join("sound/journal").join(A)).unwrap()));
    assert_eq!(journal(&["verify", "--since", "2h"]).code, 2);
}
