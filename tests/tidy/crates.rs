//! The rules about other people's crates: which, from where, how many, for which reason.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use regex_lite::Regex;
use serde_json::{Value, json};

use super::{Finding, check_found, root};

/// Crates that end up in the binary, our own not counted: as built by default, and without SSH.
pub const LINKED_MAX: [(&str, usize); 2] = [("--features=default", 46), ("--no-default-features", 36)];

/// Every direct dependency: its section and its name. A new one is a decision that is made here too.
const DIRECT: &[(&str, &str)] = &[
    ("dependencies", "base64"),
    ("dependencies", "crossbeam-channel"),
    ("dependencies", "env_logger"),
    ("dependencies", "lexopt"),
    ("dependencies", "libc"),
    ("dependencies", "libssh2-sys"),
    ("dependencies", "log"),
    ("dependencies", "memchr"),
    ("dependencies", "regex-lite"),
    ("dependencies", "ring"),
    ("dependencies", "serde"),
    ("dependencies", "serde_json"),
    ("dependencies", "signal-hook"),
    ("dependencies", "ssh2"),
    ("dependencies", "ureq"),
    ("dependencies", "zeroize"),
    ("dev-dependencies", "boon"),
];

/// Direct dependencies that are not listed, have no reason above them, take default features, or come from elsewhere.
pub fn manifest(text: &str) -> Vec<Finding> {
    let (mut findings, mut section, mut above) = (Vec::new(), "", "");
    for (at, line) in text.lines().enumerate() {
        let header = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        section = header.unwrap_or(section);
        let mut find = |what: String| findings.push(Finding { file: "Cargo.toml".to_owned(), line: at + 1, what });
        match line.split_once(" = ") {
            Some((name, value)) if section.ends_with("dependencies") => dependency(section, name, value, above, &mut find),
            _ if header.is_some_and(|header| header.contains("dependencies.")) => find("a dependency is one line".to_owned()),
            _ => {}
        }
        above = line;
    }
    findings
}

fn dependency(section: &str, name: &str, value: &str, above: &str, find: &mut impl FnMut(String)) {
    if !DIRECT.contains(&(section, name)) {
        find(format!("{name} is not among the known {section}"));
    }
    if !above.starts_with("# ") {
        find(format!("the reason for {name} stands above it"));
    }
    if !value.contains("default-features = false") {
        find(format!("{name} takes default features"));
    }
    if !value.contains("version = \"")
        || value.contains("version = \"*")
        || ["git", "path", "registry"].iter().any(|key| value.contains(&format!("{key} = ")))
    {
        find(format!("{name} comes by version from the registry"));
    }
}

/// Crates that are banned, or do not come from the registry.
pub fn lock(text: &str, banned: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let quoted = |key: &str| line.strip_prefix(key).and_then(|value| value.strip_suffix('"'));
        let mut find = |what: String| findings.push(Finding { file: "Cargo.lock".to_owned(), line: at + 1, what });
        if let Some(name) = quoted("name = \"").filter(|name| banned.iter().any(|banned| banned == name)) {
            find(format!("{name} is banned by .deny.toml"));
        }
        if let Some(source) = quoted("source = \"").filter(|source| !source.starts_with("registry+")) {
            find(format!("{source} is no registry"));
        }
    }
    let (packages, sources) = (text.matches("[[package]]").count(), text.matches("\nsource = ").count());
    if packages != sources + 1 {
        let what = format!("{} packages have no source, only our own may", packages - sources);
        findings.push(Finding { file: "Cargo.lock".to_owned(), line: 1, what });
    }
    findings
}

/// The crates that `.deny.toml` denies.
pub fn banned(deny: &str) -> Vec<String> {
    let banned = Regex::new(r#"\{ crate = "([^"]+)""#).unwrap();
    some(banned.captures_iter(deny).map(|found| found[1].to_owned()).collect())
}

/// The licences that it allows.
pub fn allowed_licences(deny: &str) -> Vec<String> {
    list(deny, "[licenses]", "allow")
}

/// The targets it speaks of.
pub fn targets(deny: &str) -> Vec<String> {
    list(deny, "[graph]", "targets")
}

fn list(deny: &str, section: &str, key: &str) -> Vec<String> {
    let (_, section) = deny.split_once(section).expect("the section");
    let (_, list) = section.split_once(&format!("\n{key} = [")).expect("the key");
    let (list, _) = list.split_once(']').expect("a closed list");
    some(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

fn some(list: Vec<String>) -> Vec<String> {
    assert!(!list.is_empty(), "an empty list holds nobody back");
    list
}

/// What cargo prints, from the lock file and without a network.
#[track_caller]
pub fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(arguments).args(["--locked", "--offline"]);
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// The crates of a printed tree, each once, without our own.
pub fn linked(tree: &str) -> BTreeSet<&str> {
    let crates = tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty());
    crates.skip(1).collect()
}

/// Name and licence of everything that normal dependencies lead to from our own package, which is not among them.
pub fn normal(metadata: &Value) -> Vec<(String, Option<String>)> {
    let array = |value: &Value| value.as_array().expect("a list").clone();
    let (nodes, packages) = (array(&metadata["resolve"]["nodes"]), array(&metadata["packages"]));
    let with_id = |list: &[Value], id: &Value| list.iter().find(|item| item["id"] == *id).expect("a known id").clone();
    let own = metadata["resolve"]["root"].clone();
    let (mut found, mut open) = (Vec::new(), vec![own.clone()]);
    while let Some(id) = open.pop() {
        for link in array(&with_id(&nodes, &id)["deps"]) {
            let is_normal = array(&link["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            if is_normal && !found.contains(&link["pkg"]) {
                found.push(link["pkg"].clone());
                open.push(link["pkg"].clone());
            }
        }
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let packages = found.iter().map(|id| with_id(&packages, id));
    packages.map(|package| (text(&package["name"]).expect("a name"), text(&package["license"]))).collect()
}

/// What the compiler beside this cargo says of itself.
pub fn running_rust() -> String {
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let output = Command::new(&rustc).arg("--version").output().unwrap_or_else(|error| panic!("{}: {error}", rustc.display()));
    String::from_utf8(output.stdout).expect("rustc prints UTF-8")
}

/// A promise that nobody tests is none.
pub fn rust_version(manifest: &str, running: &str) -> Option<Finding> {
    let promised = Regex::new(r#"(?m)^rust-version = "(\d+\.\d+)"#).unwrap();
    let minor = Regex::new(r"^rustc (\d+\.\d+)\.").unwrap();
    let running = minor.captures(running).map(|found| found[1].to_owned());
    let Some(found) = promised.captures(manifest) else {
        return Some(Finding { file: "Cargo.toml".to_owned(), line: 1, what: "no rust-version".to_owned() });
    };
    let line = manifest[..found.get(1).map_or(0, |promised| promised.start())].matches('\n').count() + 1;
    let what = || format!("promises Rust {}, {} runs", &found[1], running.as_deref().unwrap_or("an unknown one"));
    (running.as_deref() != Some(&found[1])).then(|| Finding { file: "Cargo.toml".to_owned(), line, what: what() })
}

#[test]
fn loose_dependencies_are_found() {
    let fine = "[dependencies]\n# parses\nserde = { version = \"1\", default-features = false }\n[lints.rust]\nx = 1\n";
    check_found(manifest(fine), &[]);
    check_found(manifest(&fine.replace("# parses\n", "")), &[(2, "reason")]);
    check_found(manifest(&fine.replace("serde", "anyhow")), &[(3, "not among")]);
    check_found(manifest(&fine.replace("[dep", "[build-dep")), &[(3, "not among the known build-dependencies")]);
    check_found(manifest(&fine.replace(", default-features = false", "")), &[(3, "default features")]);
    check_found(manifest(&fine.replace("version = \"1\"", "git = \"x\"")), &[(3, "by version")]);
    check_found(manifest(&fine.replace("\"1\"", "\"*\"")), &[(3, "by version")]);
    check_found(manifest("[dependencies.serde]\nversion = \"1\"\n"), &[(1, "one line")]);
}

#[test]
fn banned_crates_and_foreign_sources_are_found() {
    let deny = "[graph]\ntargets = [\"t\"]\n[bans]\ndeny = [\n  { crate = \"bad\", reason = \"x\" },\n]\n[licenses]\nallow = [\"A\", \"B\"]\n";
    assert_eq!(
        (banned(deny), allowed_licences(deny), targets(deny)),
        (vec!["bad".into()], vec!["A".into(), "B".into()], vec!["t".into()])
    );
    let fine = "[[package]]\nname = \"own\"\n\n[[package]]\nname = \"good\"\nsource = \"registry+x\"\n";
    check_found(lock(fine, &banned(deny)), &[]);
    check_found(lock(&fine.replace("good", "bad"), &banned(deny)), &[(5, "banned")]);
    check_found(lock(&fine.replace("registry+", "git+"), &banned(deny)), &[(6, "no registry")]);
    check_found(lock(&fine.replace("source = \"registry+x\"\n", ""), &banned(deny)), &[(1, "2 packages have no source")]);
}

#[test]
fn linked_crates_are_counted_once() {
    let tree = "own v0.1.0 (/somewhere)\na v1.0.0\nb v1.0.0\na v1.0.0 (*)\na v2.0.0\nb v1.0.0\n";
    assert_eq!(linked(tree), BTreeSet::from(["a v1.0.0", "a v2.0.0", "b v1.0.0"]));
}

#[test]
fn normal_dependencies_are_followed() {
    let link = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
    let metadata = json!({
        "packages": [{"id": "own", "name": "own", "license": "A"}, {"id": "a", "name": "a", "license": "B"},
                     {"id": "b", "name": "b", "license": null}, {"id": "c", "name": "c", "license": "C"}],
        "resolve": {"root": "own", "nodes": [
            {"id": "own", "deps": [link("a", Value::Null), link("c", json!("dev"))]},
            {"id": "a", "deps": [link("b", Value::Null), link("c", json!("build"))]},
            {"id": "b", "deps": [link("a", Value::Null)]}, {"id": "c", "deps": []}]},
    });
    assert_eq!(normal(&metadata), [("a".to_owned(), Some("B".to_owned())), ("b".to_owned(), None)]);
}

#[test]
fn an_untested_rust_version_is_found() {
    let manifest = "[package]\nrust-version = \"1.95\"   # why\n";
    assert!(rust_version(manifest, "rustc 1.95.3 (x)").is_none());
    check_found(rust_version(manifest, "rustc 1.96.0 (x)"), &[(2, "promises Rust 1.95, 1.96 runs")]);
    check_found(rust_version(manifest, "nonsense"), &[(2, "unknown")]);
    check_found(rust_version("[package]\n", "rustc 1.95.0"), &[(1, "no rust-version")]);
}
