//! What must hold of the tree and no compiler holds: import order, forbidden words, crates, licences, sizes.
//!
//! A rule is a function from text to findings; each has a check of its own that shows it fail. A finding names file and line.

mod crates;
mod licence;
mod rules;
mod rust;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rust::Source;
use serde_json::Value;

/// Something that must not be.
struct Finding {
    file: String,
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

#[test]
fn modules_import_only_what_stands_above_them() {
    let sources = sources();
    let order = rules::module_order(of(&sources, "src/lib.rs"));
    check_clean(sources.iter().flat_map(|source| rules::imports(source, &order)));
}

#[test]
fn no_file_holds_a_forbidden_word() {
    check_clean(tracked().into_iter().flat_map(|(path, text)| rules::words(&path, &text)));
}

#[test]
fn source_keeps_to_its_homes_and_sizes() {
    let every = [rules::code_words, rules::unsafe_code, rules::header, rules::length, rules::thread_names];
    check_clean(sources().iter().flat_map(|source| every.iter().flat_map(|rule| rule(source))));
}

#[test]
fn direct_dependencies_are_known_reasoned_and_bare() {
    check_clean(crates::manifest(&read("Cargo.toml")));
}

#[test]
fn the_lock_file_holds_no_banned_crate_and_no_foreign_source() {
    check_clean(crates::lock(&read("Cargo.lock"), &crates::banned(&read(".deny.toml"))));
}

/// Whoever installs them names the registry; what comes from it has to be what was locked.
#[test]
fn the_node_clients_are_pinned_by_digest_and_to_no_host() {
    let lock: Value = serde_json::from_str(&read("tests/clients/package-lock.json")).unwrap();
    let packages: Vec<_> = lock["packages"].as_object().unwrap().iter().filter(|(path, _)| !path.is_empty()).collect();
    assert!(packages.len() > 50, "only {}", packages.len());
    let loose = packages.iter().filter(|(_, package)| package["integrity"].is_null() || package.get("resolved").is_some());
    assert_eq!(loose.map(|(path, _)| path.as_str()).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn few_crates_are_linked_and_none_twice() {
    for (features, most) in crates::LINKED_MAX {
        let tree = crates::cargo(&["tree", "-e", "normal,no-proc-macro", "--prefix", "none", features]);
        let linked = crates::linked(&tree);
        assert!(linked.len() <= most, "{} crates are linked with {features}: {linked:#?}", linked.len());
    }
    assert_eq!(crates::cargo(&["tree", "-e", "normal", "--duplicates"]).trim(), "", "a crate is linked in two versions");
}

#[test]
fn every_linked_licence_is_allowed() {
    let deny = read(".deny.toml");
    let mut arguments = vec!["metadata".to_owned(), "--format-version=1".to_owned()];
    arguments.extend(crates::targets(&deny).into_iter().map(|target| format!("--filter-platform={target}")));
    let metadata = crates::cargo(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let packages = crates::normal(&serde_json::from_str(&metadata).unwrap());
    assert!(packages.len() > 20, "only {packages:?}");
    let refused = licence::refused(&packages, &crates::allowed_licences(&deny));
    assert!(refused.is_empty(), "not allowed by .deny.toml: {refused:#?}");
}

#[test]
fn the_promised_rust_version_is_the_one_that_runs() {
    check_clean(crates::rust_version(&read("Cargo.toml"), &crates::running_rust()));
}

#[track_caller]
fn check_clean(findings: impl IntoIterator<Item = Finding>) {
    let findings: Vec<_> = findings.into_iter().map(|finding| finding.to_string()).collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// For the checks of the rules: where `findings` lie, as `line: part of what`.
#[track_caller]
fn check_found(findings: impl IntoIterator<Item = Finding>, expected: &[(usize, &str)]) {
    let findings: Vec<_> = findings.into_iter().collect();
    let shown: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), lines(expected), "{shown:#?}");
    for (finding, (_, part)) in findings.iter().zip(expected) {
        assert!(finding.what.contains(part), "{part:?} in {finding}");
    }
}

fn lines(expected: &[(usize, &str)]) -> Vec<usize> {
    expected.iter().map(|(line, _)| *line).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every Rust file of `src` and `tests`.
fn sources() -> Vec<Source> {
    let files = tracked().into_iter().filter(|(path, _)| path.ends_with(".rs"));
    let mut sources: Vec<_> = files.map(|(path, text)| Source::parse(&path, &text)).collect();
    let test_files: Vec<_> = sources.iter().flat_map(Source::test_files).collect();
    sources.iter_mut().filter(|source| test_files.contains(&source.path)).for_each(Source::make_test);
    assert!(sources.len() > 50, "where is the source?");
    sources
}

fn of<'a>(sources: &'a [Source], path: &str) -> &'a Source {
    sources.iter().find(|source| source.path == path).unwrap_or_else(|| panic!("no {path}"))
}

/// Path and text of every file that is not ignored by `.gitignore`, which names entries of the top level only.
fn tracked() -> Vec<(String, String)> {
    let ignored = read(".gitignore");
    let ignored: Vec<_> =
        ignored.lines().map(|line| line.strip_prefix('/').expect("a top-level entry")).chain([".git"]).collect();
    let mut files = Vec::new();
    for entry in fs::read_dir(root()).unwrap() {
        let entry = entry.unwrap();
        if !ignored.iter().any(|name| entry.file_name() == *name) {
            walk(entry.path(), &mut files);
        }
    }
    files.sort();
    files
}

fn walk(path: PathBuf, files: &mut Vec<(String, String)>) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| walk(entry.unwrap().path(), files));
    } else {
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        files.push((path.strip_prefix(root()).unwrap().to_str().expect("a UTF-8 path").to_owned(), text));
    }
}
