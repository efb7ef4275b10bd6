//! The required cases of the official JSON Schema test suite for draft 2020-12, with a pinned list of expected failures:
//! a listed case that starts to pass fails the run just as an unlisted one that fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate::action::schema::{Schema, Unknown};

use crate::shared::shared;

const EXPECTED_FAILURES: &str = include_str!("../fixtures/schema/expected-failures.txt");
/// Required cases at the pinned revision of the suite: a suite that has lost its cases must not pass.
const CASES_MIN: usize = 1_299;

/// `file | group | test` of a case.
type Case = String;

#[test]
fn official_suite_passes_but_for_the_pinned_failures() {
    let Some(folder) = shared("data/json-schema-2020-12/tests/draft2020-12") else {
        return;
    };
    let mut cases = 0;
    let mut failed = BTreeSet::new();
    for file in json_files(&folder) {
        let text = fs::read_to_string(&file).expect("a readable test file");
        let groups: Vec<Value> = serde_json::from_str(&text).expect("a test file is an array of groups");
        let name = file.file_stem().and_then(|stem| stem.to_str()).expect("a plain file name").to_owned();
        for group in &groups {
            for (test, passes) in run_group(group) {
                cases += 1;
                if !passes {
                    failed.insert(format!("{name} | {} | {test}", text_of(&group["description"])));
                }
            }
        }
    }
    assert!(cases >= CASES_MIN, "only {cases} cases in {}", folder.display());
    let expected: BTreeSet<Case> = expected_failures().collect();
    let unlisted: Vec<_> = failed.difference(&expected).collect();
    let passing: Vec<_> = expected.difference(&failed).collect();
    assert!(unlisted.is_empty() && passing.is_empty(), "fails, not listed: {unlisted:#?}\nlisted, but passes: {passing:#?}");
}

/// Each test of a group, and whether the verdict is the one asked for. A schema that is refused fails all its tests.
fn run_group(group: &Value) -> Vec<(String, bool)> {
    let schema = Schema::compile_with(&group["schema"], Unknown::Ignore);
    let tests = group["tests"].as_array().expect("a group has tests");
    let verdicts = tests.iter().map(|test| {
        let passes = schema.as_ref().is_ok_and(|schema| schema.validate(&test["data"].clone().into()).is_ok() == test["valid"]);
        (text_of(&test["description"]), passes)
    });
    verdicts.collect()
}

#[test]
fn expected_failures_have_reasons_and_no_repeats() {
    let lines: Vec<&str> = failure_lines().collect();
    assert!(lines.iter().all(|line| line.split(" | ").count() == 4), "`file | group | test | reason`");
    assert_eq!(expected_failures().collect::<BTreeSet<_>>().len(), lines.len());
}

fn expected_failures() -> impl Iterator<Item = Case> {
    failure_lines().map(|line| line.rsplit_once(" | ").expect("a reason at the end").0.to_owned())
}

fn failure_lines() -> impl Iterator<Item = &'static str> {
    EXPECTED_FAILURES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn text_of(value: &Value) -> String {
    value.as_str().expect("a description").to_owned()
}

/// The files directly in the folder; `optional/` is not required of anybody.
fn json_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect();
    files.sort();
    files
}
