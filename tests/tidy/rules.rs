//! The rules about text: what may stand where.
//!
//! A forbidden word is written as a pattern that does not match itself, so this file obeys its own rules.

use regex_lite::Regex;

use super::rust::Source;
use super::{Finding, check_found};

/// Lines of a source file that are shipped.
const LINES_MAX: usize = 600;
/// Files that may be longer: path and reason.
const LONG: &[(&str, &str)] = &[];
/// As Linux cuts thread names.
const THREAD_NAME_MAX: usize = 15;

/// A pattern that no file may hold, but for the exempt ones.
struct Word {
    pattern: &'static str,
    why: &'static str,
    exempt: &'static [&'static str],
}

const WORDS: &[Word] = &[
    Word {
        pattern: r"crates[.]io|pypi[.]org|pythonhosted[.]org|npmjs[.]org|golang[.]org",
        why: "a registry's host: whoever builds names their own",
        exempt: &["Cargo.lock"],
    },
    Word { pattern: r"(^|[^\w./-])/(work|root)/", why: "a path of one machine", exempt: &[] },
    Word { pattern: r"\b(TOD[O]|FIXM[E])\b", why: "unfinished", exempt: &[] },
    Word { pattern: r"#\[ignor[e]", why: "a test that cannot run fails", exempt: &[] },
    Word { pattern: r"\bdb[g]!", why: "left behind", exempt: &[] },
];

/// The same for shipped code only.
const CODE_WORDS: &[Word] = &[
    Word { pattern: r"\bdisable_verification\b", why: "TLS without verification", exempt: &[] },
    Word {
        pattern: r"\bfrom_(str|slice|reader)::<(serde_json::)?Value>|: (serde_json::)?Value = serde_json::from_",
        why: "peer bytes become a value in one place only, after the strict pass",
        exempt: &["src/action/mod.rs", "src/cli/demo/client.rs"],
    },
    Word {
        pattern: r"\bserde_json::(\{[^}]*\bValue\b|Value\b)",
        why: "no untyped JSON past `action` and the configuration, but in the demo, which is a client",
        exempt: &["src/action/", "src/config/", "src/cli/demo/"],
    },
];

pub fn words(path: &str, text: &str) -> Vec<Finding> {
    matches(path, text, text, WORDS)
}

pub fn code_words(source: &Source) -> Vec<Finding> {
    matches(&source.path, &source.text, &source.shipped, CODE_WORDS)
}

fn matches(path: &str, text: &str, searched: &str, words: &[Word]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for word in words.iter().filter(|word| !word.exempt.iter().any(|exempt| path.starts_with(exempt))) {
        let pattern = Regex::new(&format!("(?m){}", word.pattern)).unwrap();
        for found in pattern.find_iter(searched) {
            let word_found = found.as_str().trim_start();
            let line = text[..found.end() - word_found.len()].matches('\n').count() + 1;
            findings.push(Finding { file: path.to_owned(), line, what: format!("{word_found:?}: {}", word.why) });
        }
    }
    findings
}

/// The top-level modules in the order of their declaration.
pub fn module_order(lib: &Source) -> Vec<String> {
    let declaration = Regex::new(r"(?m)^(?:pub |pub\(crate\) )?mod (\w+);").unwrap();
    declaration.captures_iter(&lib.code).map(|found| found[1].to_owned()).collect()
}

/// Each import of a module that stands below the importing one.
pub fn imports(source: &Source, order: &[String]) -> Vec<Finding> {
    let Some((own, depth)) = source.module() else { return Vec::new() };
    let place = |name: &str| order.iter().position(|known| known == name);
    let from_root = Regex::new(&format!(r"\b(?:crate::|(?:super::){{{depth}}})")).unwrap();
    let finding = |at, what| Finding { file: source.path.clone(), line: source.line_of(at), what };
    let Some(own_place) = place(own) else { return vec![finding(0, format!("lib.rs declares no module {own}"))] };
    let named = from_root.find_iter(&source.shipped).flat_map(|found| first_names(&source.shipped, found.end()));
    let wrong = named.filter_map(|(at, name)| match place(name) {
        Some(place) if place <= own_place => None,
        Some(_) => Some(finding(at, format!("{own} imports {name}, which stands below it in lib.rs"))),
        None => Some(finding(at, format!("{name} is no module of lib.rs"))),
    });
    wrong.collect()
}

/// The first names of the path, or of each path in the braces, that stands at `start`, with their places.
fn first_names(code: &str, start: usize) -> Vec<(usize, &str)> {
    let Some(list) = code[start..].strip_prefix('{') else { return vec![(start, first_name(&code[start..]))] };
    let (mut names, mut depth, mut is_next) = (Vec::new(), 0, true);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_next = true,
            _ if is_next && !c.is_whitespace() => {
                names.push((start + 1 + at, first_name(&list[at..])));
                is_next = false;
            }
            _ => {}
        }
    }
    names
}

fn first_name(code: &str) -> &str {
    &code[..code.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(code.len())]
}

/// Unsafe code outside its home; main.rs has one attribute that places a function before all others. Programs that tests build
/// to misbehave are no code of ours.
pub fn unsafe_code(source: &Source) -> Vec<Finding> {
    let is_home =
        source.path == "src/sys.rs" || source.path.starts_with("src/sys/") || source.path.starts_with("tests/fixtures/");
    let pattern = Regex::new(r"\bunsafe\b").unwrap();
    let found = pattern.find_iter(&source.code).map(|found| found.start());
    let is_link_section = |at: &usize| {
        source.path == "src/main.rs"
            && source.code[..*at].ends_with("#[")
            && source.code[*at..].starts_with("unsafe(link_section")
    };
    let wrong = found.filter(|at| !is_home && !is_link_section(at));
    wrong
        .map(|at| Finding { file: source.path.clone(), line: source.line_of(at), what: "unsafe outside sys".to_owned() })
        .collect()
}

/// A source file that does not open by saying what it owns.
pub fn header(source: &Source) -> Vec<Finding> {
    let is_missing = !source.text.starts_with("//! ");
    let what = || "a file opens with what it owns and must never do, in `//!` lines".to_owned();
    is_missing.then(|| Finding { file: source.path.clone(), line: 1, what: what() }).into_iter().collect()
}

/// A file that wants to be two.
pub fn length(source: &Source) -> Vec<Finding> {
    let is_allowed = LONG.iter().any(|(path, _)| *path == source.path);
    let tests = source.code.lines().zip(source.shipped.lines()).filter(|(code, shipped)| code != shipped).count();
    let lines = source.text.lines().count() - tests;
    let what = || format!("{lines} lines without tests, {LINES_MAX} are the limit");
    let is_long = source.path.starts_with("src/") && lines > LINES_MAX && !is_allowed;
    is_long.then(|| Finding { file: source.path.clone(), line: LINES_MAX + 1, what: what() }).into_iter().collect()
}

/// Thread names that are cut, or that nobody can read here.
pub fn thread_names(source: &Source) -> Vec<Finding> {
    let start = Regex::new(r"\bthread::spawn\(").unwrap();
    let name = Regex::new(r#"^\s*(?:&?format!\()?"(tg-[^"]*)""#).unwrap();
    let hole = Regex::new(r"\{[^}]*\}").unwrap();
    let verdict = |at: usize| match name.captures(&source.text[at..]) {
        None => Some("a thread's name stands here as a literal that begins with tg-".to_owned()),
        // The most that is ever filled in is a number of two digits.
        Some(found) => Some(hole.replace_all(&found[1], "00"))
            .filter(|name| name.len() > THREAD_NAME_MAX)
            .map(|name| format!("{name:?} is longer than {THREAD_NAME_MAX} bytes")),
    };
    let found = start.find_iter(&source.shipped).filter_map(|found| verdict(found.end()).map(|what| (found.start(), what)));
    found.map(|(at, what)| Finding { file: source.path.clone(), line: source.line_of(at), what }).collect()
}

#[track_caller]
fn check(rule: fn(&Source) -> Vec<Finding>, path: &str, text: &str, expected: &[(usize, &str)]) {
    check_found(rule(&Source::parse(path, text)), expected);
}

#[test]
fn forbidden_words_are_found() {
    let todo = concat!("x\n// TO", "DO: x\ny\nFIX", "ME");
    check_found(words("README.md", todo), &[(2, "unfinished"), (4, "unfinished")]);
    check_found(words("a", concat!("x TO", "DOS y")), &[]);
    check_found(words("a", concat!("cd /wo", "rk/x")), &[(1, "a path")]);
    check_found(words("a", concat!("a\n/ro", "ot/x")), &[(2, "a path")]);
    check_found(words("a", concat!("net/wo", "rk/x")), &[]);
    check_found(words("a", concat!("crates", ".io")), &[(1, "registry")]);
    check_found(words("Cargo.lock", concat!("crates", ".io")), &[]);
    check_found(words("a", concat!("#[ig", "nore = \"slow\"]")), &[(1, "cannot run")]);
    check_found(words("a", concat!("db", "g!(x)")), &[(1, "left behind")]);
}

#[test]
fn forbidden_code_is_found() {
    let parse = "f;\nlet a = serde_json::from_str::<Value>(x);\nlet b: Value = serde_json::from_slice(y);";
    check(code_words, "src/rpc/a.rs", parse, &[(2, "one place"), (3, "one place")]);
    check(code_words, "src/action/mod.rs", parse, &[]);
    check(code_words, "src/a.rs", "use serde_json::{\n Map, Value};", &[(1, "untyped")]);
    check(code_words, "src/a.rs", "use serde_json::value::RawValue;", &[]);
    check(code_words, "src/a.rs", "fn f(x: serde_json::Value) {}", &[(1, "untyped")]);
    check(code_words, "src/a.rs", "#[cfg(test)]\nmod tests { use serde_json::Value; }", &[]);
    check(code_words, "src/a.rs", "c.disable_verification(true) // disable_verification", &[(1, "verification")]);
}

#[track_caller]
fn check_imports(path: &str, text: &str, expected: &[(usize, &str)]) {
    let lib = Source::parse("src/lib.rs", "//! pub mod no;\npub mod low;\nmod mid;\npub mod high;\n");
    let order = module_order(&lib);
    assert_eq!(order, ["low", "mid", "high"]);
    check_found(imports(&Source::parse(path, text), &order), expected);
}

#[test]
fn imports_from_below_are_found() {
    check_imports("src/mid.rs", "use crate::low::A;\nuse crate::mid::b;\ncrate::high::f()", &[(3, "mid imports high")]);
    check_imports("src/mid/x.rs", "use crate::{\n    low::{A, high},\n    high::B,\n};\n", &[(3, "mid imports high")]);
    check_imports("src/mid/x.rs", "super::high(); super::super::high::f()", &[(1, "mid imports high")]);
    check_imports("src/mid/mod.rs", "super::high::f(); self::high::f()", &[(1, "mid imports high")]);
    check_imports("src/mid.rs", "// crate::high\n\"crate::high\"\n#[cfg(test)]\nmod tests { use crate::high::X; }", &[]);
    check_imports("src/low.rs", "use crate::nowhere;", &[(1, "no module")]);
    check_imports("src/other.rs", "", &[(1, "declares no module other")]);
    check_imports("src/main.rs", "use crate::high;", &[]);
}

#[test]
fn unsafe_code_is_found_outside_its_home() {
    check(unsafe_code, "src/a.rs", "#![deny(unsafe_code)] // unsafe\nunsafe { f() }", &[(2, "outside sys")]);
    check(unsafe_code, "tests/a.rs", "\"unsafe\"; unsafe fn f() {}", &[(1, "outside sys")]);
    check(unsafe_code, "src/sys.rs", "unsafe {}", &[]);
    let attribute = "#[unsafe(link_section = \"x\")]\nunsafe {}\n#[unsafe(no_mangle)]";
    check(unsafe_code, "src/main.rs", attribute, &[(2, "outside sys"), (3, "outside sys")]);
    check(unsafe_code, "src/a.rs", attribute, &[(1, "outside sys"), (2, "outside sys"), (3, "outside sys")]);
}

#[test]
fn a_missing_header_and_a_long_file_are_found() {
    check(header, "src/a.rs", "// x\n//! y", &[(1, "opens with")]);
    check(header, "src/a.rs", "//! x", &[]);
    let lines = |count: usize, more: &str| format!("{}{more}", "f();\n".repeat(count));
    check(length, "src/a.rs", &lines(600, ""), &[]);
    check(length, "src/a.rs", &lines(601, ""), &[(601, "601 lines")]);
    check(length, "src/a.rs", &lines(600, "#[cfg(test)]\nmod tests {\nf();\n}\n"), &[]);
}

#[test]
fn thread_names_that_are_cut_are_found() {
    check(thread_names, "src/a.rs", "thread::spawn(\"tg-reader-fifteen\", f)", &[(1, "longer than 15")]);
    check(thread_names, "src/a.rs", "crate::thread::spawn(\n  \"tg-exactly-this\", f)", &[]);
    check(thread_names, "src/a.rs", "x;\nthread::spawn(&format!(\"tg-worker-no-{}\", n), f)", &[]);
    check(thread_names, "src/a.rs", "x;\nthread::spawn(&format!(\"tg-worker-nr-{n:?}\", n), f)", &[]);
    check(thread_names, "src/a.rs", "x;\nthread::spawn(&format!(\"tg-worker-num-{n:?}\", n), f)", &[(2, "tg-worker-num-00")]);
    check(thread_names, "src/a.rs", "thread::spawn(name, f); thread::spawn(\"reader\", f)", &[(1, "literal"), (1, "literal")]);
}
