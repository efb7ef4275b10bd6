//! One case of `fixtures/frames/`: what is sent, what must come back, and how the bytes that no text file holds are written.
//!
//! ```text
//! # why
//! ! legacy 2025-06-18       the session begins with this handshake; else with nothing
//! ! small                   lines in are limited to 1 KiB; else to the default of 4 MiB
//! ! eof                     stdin is closed behind the bytes
//! ! real                    only where actions are carried out
//! ! tools note              only aimed at this tool; else at every one
//! ! text …                  what the tool gets to see; else the marker
//! ! action /path            what the HTTP tool asks for; else the marker's path
//! > …                       a line, sent with a line feed behind it
//! >> …                      bytes, sent as they are
//! = lost REASON CODE ID     one error; the peer has lost framing: the session closes, or goes on, as configured
//! = refused REASON CODE ID  one error; the session goes on
//! = failed CODE ID [REASON] one tool result that is an error; nothing was executed. Without a REASON it is the code
//! = silent [REASON]         no answer; with a reason it is recorded
//! = answered ID             one result, and no action
//! = listens ID              a subscription, acknowledged
//! = runs ID                 one result, and one action
//! ```
//! An ID is JSON, or `null` or `absent` for an error that is under none. In what is sent `<<…>>` stands for something: `mark`,
//! `tool`, `args`, `meta`, `params`, `call ID`, `legacy ID`, `hex FF 00` (bytes), `5 x ab` (repeated), `fill 1024` (as many
//! letters as bring the line to that length).

use std::fs;
use std::path::Path;

use crate::kit::{MODERN, legacy_call, modern_call};

/// One case.
pub struct Case {
    pub name: String,
    pub legacy: Option<String>,
    pub is_small: bool,
    pub is_eof: bool,
    pub is_real_only: bool,
    pub tools: Option<String>,
    text: Option<String>,
    action: Option<String>,
    lines: Vec<(String, End)>,
    pub expected: Vec<Expected>,
}

enum End {
    LineFeed,
    Nothing,
}

/// What must come of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    Lost { reason: String, code: i64, id: Under },
    Refused { reason: String, code: i64, id: Under },
    Failed { code: String, id: String, reason: String },
    Silent { reason: Option<String> },
    Answered { id: String },
    Listens { id: String },
    Runs { id: String },
}

/// Where an error stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Under {
    Null,
    Absent,
    Id(String),
}

/// What differs from run to run.
pub struct Fill<'a> {
    pub mark: &'a str,
    pub tool: &'a str,
}

impl Case {
    /// All of them, in the order of their names.
    pub fn all() -> Vec<Case> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/frames");
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let cases = paths
            .iter()
            .map(|path| Case::parse(path.file_stem().unwrap().to_str().unwrap(), &fs::read_to_string(path).unwrap()));
        cases.filter(|case| cfg!(feature = "ssh") || case.tools.as_deref() != Some("remote")).collect()
    }

    fn parse(name: &str, text: &str) -> Case {
        let mut case = Case {
            name: name.to_owned(),
            legacy: None,
            is_small: false,
            is_eof: false,
            is_real_only: false,
            tools: None,
            text: None,
            action: None,
            lines: Vec::new(),
            expected: Vec::new(),
        };
        assert!(text.starts_with("# "), "{name}: a case begins with why");
        for line in text.lines() {
            case.take(line);
        }
        assert!(!case.lines.is_empty() && !case.expected.is_empty(), "{name}: sends nothing or expects nothing");
        case
    }

    fn take(&mut self, line: &str) {
        let (sign, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{}: {line:?}", self.name));
        let (word, value) = rest.split_once(' ').unwrap_or((rest, ""));
        match (sign, word) {
            ("#", _) => {}
            (">", _) => self.lines.push((rest.to_owned(), End::LineFeed)),
            (">>", _) => self.lines.push((rest.to_owned(), End::Nothing)),
            ("!", "legacy") => self.legacy = Some(value.to_owned()),
            ("!", "small") => self.is_small = true,
            ("!", "eof") => self.is_eof = true,
            ("!", "real") => self.is_real_only = true,
            ("!", "tools") => self.tools = Some(value.to_owned()),
            ("!", "text") => self.text = Some(value.to_owned()),
            ("!", "action") => self.action = Some(value.to_owned()),
            ("=", _) => self.expected.push(expected(&rest.split(' ').collect::<Vec<_>>())),
            _ => panic!("{}: {line:?}", self.name),
        }
    }

    /// The bytes to send.
    pub fn bytes(&self, fill: &Fill<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (line, end) in &self.lines {
            bytes.extend(expand(line, fill));
            bytes.extend(match end {
                End::LineFeed => &b"\n"[..],
                End::Nothing => &[],
            });
        }
        bytes
    }

    /// What the tool gets to see of each call that runs.
    pub fn text(&self, fill: &Fill<'_>) -> String {
        let text = self.text.as_deref().unwrap_or("<<mark>>");
        String::from_utf8(expand(text, fill)).unwrap()
    }

    /// The path that the HTTP tool asks for.
    pub fn path(&self, fill: &Fill<'_>) -> String {
        let path = self.action.as_deref().unwrap_or("/at/<<mark>>");
        String::from_utf8(expand(path, fill)).unwrap()
    }

    /// Whether a line of it makes the peer one that has lost framing.
    pub fn is_lost(&self) -> bool {
        self.expected.iter().any(|expected| matches!(expected, Expected::Lost { .. }))
    }

    /// What is answered where such a line closes the session.
    pub fn until_lost(&self) -> &[Expected] {
        let lost = self.expected.iter().position(|expected| matches!(expected, Expected::Lost { .. }));
        &self.expected[..lost.map_or(self.expected.len(), |at| at + 1)]
    }
}

fn expected(words: &[&str]) -> Expected {
    let owned = |text: &str| text.to_owned();
    match words {
        ["lost", reason, code, id] => Expected::Lost { reason: owned(reason), code: code.parse().unwrap(), id: under(id) },
        ["refused", reason, code, id] => {
            Expected::Refused { reason: owned(reason), code: code.parse().unwrap(), id: under(id) }
        }
        ["failed", code, id] => Expected::Failed { code: owned(code), id: owned(id), reason: owned(code) },
        ["failed", code, id, reason] => Expected::Failed { code: owned(code), id: owned(id), reason: owned(reason) },
        ["silent"] => Expected::Silent { reason: None },
        ["silent", reason] => Expected::Silent { reason: Some(owned(reason)) },
        ["answered", id] => Expected::Answered { id: owned(id) },
        ["listens", id] => Expected::Listens { id: owned(id) },
        ["runs", id @ ..] => {
            let id = expand(&id.join(" "), &Fill { mark: "", tool: "" });
            Expected::Runs { id: String::from_utf8(id).unwrap() }
        }
        _ => panic!("{words:?} is no expectation"),
    }
}

fn under(id: &str) -> Under {
    match id {
        "null" => Under::Null,
        "absent" => Under::Absent,
        id => Under::Id(id.to_owned()),
    }
}

impl Expected {
    /// What is counted and recorded as refused.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Expected::Lost { reason, .. } | Expected::Refused { reason, .. } => Some(reason),
            Expected::Failed { reason, .. } => Some(reason),
            Expected::Silent { reason } => reason.as_deref(),
            Expected::Answered { .. } | Expected::Listens { .. } | Expected::Runs { .. } => None,
        }
    }
}

/// Text with what `<<…>>` stands for.
fn expand(text: &str, fill: &Fill<'_>) -> Vec<u8> {
    let (mut bytes, mut rest, mut filled) = (Vec::new(), text, None);
    while let Some((before, behind)) = rest.split_once("<<") {
        let (what, after) = behind.split_once(">>").unwrap_or_else(|| panic!("<< without >> in {text:?}"));
        bytes.extend_from_slice(before.as_bytes());
        match what.split_once(' ') {
            Some(("fill", length)) => filled = Some((bytes.len(), length.parse::<usize>().unwrap())),
            _ => bytes.extend(meaning(what, fill)),
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    if let Some((at, length)) = filled {
        let missing = length.checked_sub(bytes.len()).expect("the rest of the line is shorter than what it is filled up to");
        bytes.splice(at..at, std::iter::repeat_n(b'x', missing));
    }
    bytes
}

fn meaning(what: &str, fill: &Fill<'_>) -> Vec<u8> {
    let Fill { mark, tool } = fill;
    let args = format!(r#"{{"text":"{mark}"}}"#);
    let text = match what.split_once(' ').unwrap_or((what, "")) {
        ("mark", "") => (*mark).to_owned(),
        ("tool", "") => (*tool).to_owned(),
        ("args", "") => args,
        ("meta", "") => MODERN.to_owned(),
        ("params", "") => format!(r#"{{"name":"{tool}","arguments":{args},{MODERN}}}"#),
        ("call", id) => modern_call(id, tool, &args),
        ("legacy", id) => legacy_call(id, tool, &args),
        ("hex", bytes) => return bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect(),
        (count, repeated) => match (count.parse(), repeated.strip_prefix("x ")) {
            (Ok(count), Some(repeated)) => repeated.repeat(count),
            _ => panic!("<<{what}>> stands for nothing"),
        },
    };
    text.into_bytes()
}

#[test]
fn what_stands_in_a_case_is_what_is_sent() {
    let case = Case::parse("name", "# why\n! small\n> a<<hex ff 0a>><<3 x [>>\n>> <<fill 10>>|<<mark>>\n= silent\n");
    assert_eq!(case.bytes(&Fill { mark: "m", tool: "t" }), b"a\xff\n[[[\nxxxxxxxx|m");
    assert!(case.is_small && !case.is_eof && !case.is_lost());
}
