//! Valid sessions, what is done to them, and in which pieces they are sent: all of it from one seed.

use std::fs;
use std::path::Path;

use super::aim;
use super::json::{self, Json};
use super::model::{Mode, Pace};
use super::tools::LINE_BYTES;

/// SplitMix64: small, and the same everywhere.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in `n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// One session as it is sent.
#[derive(Debug, Clone)]
pub struct Script {
    pub mode: Mode,
    pub pace: Pace,
    /// What each write holds; together the session.
    pub writes: Vec<Vec<u8>>,
}

impl Script {
    pub fn bytes(&self) -> Vec<u8> {
        self.writes.concat()
    }
}

/// Calls of an aimed session.
const AIMED_CALLS: usize = 30;

/// The `>` lines of each transcript among the fixtures.
pub fn transcripts() -> Vec<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/transcripts");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let is_transcript = |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind == "txt");
    let sent = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().filter_map(|line| line.strip_prefix("> ").map(str::to_owned)).collect::<Vec<_>>()
    };
    paths.iter().filter(|path| is_transcript(path)).map(sent).collect()
}

/// The session of a seed.
pub fn script(seed: u64, transcripts: &[Vec<String>]) -> Script {
    let mut dice = Dice::new(seed);
    let mode = if dice.once_in(2) { Mode::Close } else { Mode::Continue };
    let pace = if dice.below(3) == 0 { Pace::Burst } else { Pace::Answered };
    let mut lines = valid(&mut dice, transcripts);
    let count = [0, 1, 1, 1, 2, 2, 3, 5][dice.below(8)];
    for _ in 0..count {
        mutate_line(&mut dice, &mut lines);
    }
    let mut bytes: Vec<u8> = lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect();
    if count > 0 && dice.once_in(3) {
        mutate_bytes(&mut dice, &mut bytes);
    }
    Script { mode, pace, writes: cut(&mut dice, &bytes) }
}

/// A session of sound lines that call nothing but the tools whose target the caller writes.
pub fn aimed(seed: u64) -> Script {
    let mut dice = Dice::new(seed);
    let line = |number| {
        let (tool, arguments) = aim::call(&mut dice);
        format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},{META}}}}}"#
        )
    };
    let writes = (0..AIMED_CALLS).map(line).map(|line| [line.as_bytes(), b"\n"].concat()).collect();
    Script { mode: Mode::Close, pace: Pace::Answered, writes }
}

fn valid(dice: &mut Dice, transcripts: &[Vec<String>]) -> Vec<Vec<u8>> {
    let lines = if dice.once_in(4) {
        let all = &transcripts[dice.below(transcripts.len())];
        let start = if dice.once_in(2) { 0 } else { dice.below(all.len()) };
        all[start..].iter().take(4 + dice.below(10)).cloned().collect()
    } else {
        made(dice)
    };
    lines.into_iter().map(String::into_bytes).collect()
}

const META: &str =
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// A session with both eras in it, mostly calls.
fn made(dice: &mut Dice) -> Vec<String> {
    let mut lines = Vec::new();
    let is_legacy = !dice.once_in(3);
    if is_legacy {
        let version = dice.of(&["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]);
        lines.push(format!(
            r#"{{"jsonrpc":"2.0","id":"init","method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"x","version":"1"}}}}}}"#
        ));
        lines.push(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned());
    }
    for number in 1..5 + dice.below(8) {
        let meta = if is_legacy && !dice.once_in(4) { String::new() } else { META.to_owned() };
        let id = if dice.once_in(3) { format!("\"{number}\"") } else { number.to_string() };
        lines.push(line(dice, &id, &meta));
    }
    lines
}

fn line(dice: &mut Dice, id: &str, meta: &str) -> String {
    let comma = if meta.is_empty() { "" } else { "," };
    match dice.below(14) {
        0 => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#),
        1 => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{{meta}}}}}"#),
        2 => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"server/discover","params":{{{META}}}}}"#),
        3 => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true}},{META}}}}}"#
        ),
        4 => {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#, 1 + dice.below(6))
        }
        _ => {
            let (tool, arguments) = if dice.once_in(2) { aim::call(dice) } else { call(dice) };
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}{comma}{meta}}}}}"#
            )
        }
    }
}

fn call(dice: &mut Dice) -> (&'static str, String) {
    let calls = [
        ("say", r#"{"text":"hello"}"#),
        ("say", r#"{"text":"a \"b\" é🎉"}"#),
        ("say", r#"{"text":""}"#),
        ("say", r#"{"text":"12345678901234567890"}"#),
        ("tag", "{}"),
        ("tag", r#"{"color":"red"}"#),
        ("tag", r#"{"names":["a","-b","c d"],"color":"green"}"#),
        ("issues", r#"{"repo":"ours/tide gate"}"#),
        ("issues", r#"{"repo":"ours/x","page":2}"#),
        ("issues", r#"{"repo":"theirs/x","page":1}"#),
        ("file", r#"{"name":"n/1"}"#),
        ("file", r#"{"name":"n","title":"t\n\u2028","done":true,"n":0.5}"#),
        ("file", r#"{"name":"..a","n":18446744073709551615}"#),
        ("say", r#"{"text":"a\u0000b"}"#),
        ("tag", r#"{"names":["a\u0000"]}"#),
        ("issues", r#"{"repo":"oursx/x"}"#),
        ("issues", r#"{"repo":"Ours/x"}"#),
        ("tidegate_status", "{}"),
    ];
    let (tool, arguments) = calls[dice.below(calls.len())];
    (tool, arguments.to_owned())
}

/// One change to whole lines, or to the JSON of one.
pub fn mutate_line(dice: &mut Dice, lines: &mut Vec<Vec<u8>>) {
    if lines.is_empty() {
        return;
    }
    let at = dice.below(lines.len());
    match dice.below(29) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let other = dice.below(lines.len());
            lines.swap(at, other);
        }
        3 => {
            let (left, right) = split(dice, &lines[at]);
            lines.splice(at..=at, [left, right]);
        }
        4 if at + 1 < lines.len() => {
            let next = lines.remove(at + 1);
            let glue = dice.of(&["", " ", "\r", ",", "\u{b}"]);
            lines[at].extend_from_slice(glue.as_bytes());
            lines[at].extend_from_slice(&next);
        }
        5 => lines[at].extend_from_slice(dice.of(&[" ", "\r", "\t \r", " banner", "{}", "\0", "\u{a0}", ",", "}"]).as_bytes()),
        6 => {
            let before = dice.of(&[" ", "\t", "\u{feff}", "DEBUG ", "\u{2028}", "\r", "[", "Content-Length: 9\r\n\r\n"]);
            lines[at].splice(0..0, before.bytes());
        }
        7 => {
            let noise = [
                "",
                " \r",
                "{",
                "null",
                "[]",
                "[{}]",
                "{}",
                "7",
                "\"x\"",
                "<html>",
                "{not json}",
                "x\r",
                "\u{2028}",
                "\u{b}",
                "\u{c}",
            ];
            lines.insert(at, dice.of(&noise).as_bytes().to_vec());
        }
        8 => pad(dice, &mut lines[at]),
        9 => lines.truncate(at + 1),
        13 => {
            let ids = [
                "1.0",
                "3100.0",
                "1e0",
                "null",
                "true",
                "[1]",
                "-0",
                "01",
                "1234567890123456789012",
                r#""\ud83d""#,
                r#""\u0031""#,
            ];
            let id = Json::Raw(dice.of(&ids).to_owned());
            give_id(&mut lines[at], id);
        }
        14 => {
            let bytes: [&[u8]; 4] = [b"\xff", b"\xc3", b"\xf0\x9f\x8e", b"\xed\xa0\x80"];
            lines[at].extend_from_slice(dice.of(&bytes));
        }
        15 => {
            let levels = 55 + dice.below(14);
            let deep = format!(r#","zzz":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
            if lines[at].ends_with(b"}}") {
                lines[at].pop();
                lines[at].extend_from_slice(deep.as_bytes());
            }
        }
        10 | 11 => share_id(dice, lines, at),
        12 => {
            let id = dice.of(&["1", "2", "3", "\"1\"", "\"2\"", "\"init\""]);
            let head = dice.of(&["\"1.0\"", "2.0", "\"2.0\""]);
            let deep = format!(r#","method":"ping","params":{{"a":{}{}}}"#, "[".repeat(64), "]".repeat(64));
            let tail =
                dice.of(&["", r#","method":"ping","params":[]"#, r#","method":"ping","z":"\ud83d""#, r#","method":1"#, &deep]);
            lines.insert(at, format!(r#"{{"jsonrpc":{head},"id":{id}{tail}}}"#).into_bytes());
        }
        16..=19 => aim::mutate(dice, &mut lines[at]),
        _ => mutate_json(dice, &mut lines[at]),
    }
}

/// Gives a line the id of another one, be it a request or the mention of one in a cancel.
fn share_id(dice: &mut Dice, lines: &mut [Vec<u8>], at: usize) {
    let read = |line: &[u8]| std::str::from_utf8(line).ok().and_then(json::read).map(|read| read.value);
    let from = dice.below(lines.len());
    let id = read(&lines[from]).and_then(|value| value.member("id").cloned());
    if let Some(id) = id {
        give_id(&mut lines[at], id);
    }
}

fn give_id(line: &mut Vec<u8>, id: Json) {
    let Some(mut read) = std::str::from_utf8(line).ok().and_then(json::read) else { return };
    if let Json::Object(members) = &mut read.value {
        match members.iter_mut().find(|(key, _)| key.as_deref() == Some("id")) {
            Some((_, own)) => *own = id,
            None => members.push((Some("id".to_owned()), id)),
        }
        *line = read.value.print().into_bytes();
    }
}

fn split(dice: &mut Dice, line: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (left, right) = line.split_at(dice.below(line.len() + 1));
    (left.to_vec(), right.to_vec())
}

/// Brings a line to the limit, or one byte to either side: with white space, or inside a text.
fn pad(dice: &mut Dice, line: &mut Vec<u8>) {
    let length = LINE_BYTES - 1 + dice.below(3);
    let Some(missing) = length.checked_sub(line.len()) else { return };
    let at = if dice.once_in(2) { line.len() } else { 0 };
    match (dice.once_in(2), line.iter().position(|byte| *byte == b'{')) {
        (true, Some(at)) if missing > 8 => {
            let member = format!(r#""zzz":"{}","#, "z".repeat(missing - 9));
            line.splice(at + 1..=at, member.bytes());
        }
        _ => drop(line.splice(at..at, std::iter::repeat_n(b' ', missing))),
    }
}

fn mutate_json(dice: &mut Dice, line: &mut Vec<u8>) {
    let Some(read) = std::str::from_utf8(line).ok().and_then(json::read) else { return };
    let mut value = read.value;
    let mut place = dice.below(places(&value));
    change(dice, &mut value, &mut place);
    *line = value.print().into_bytes();
}

/// Values inside a value, itself included.
fn places(value: &Json) -> usize {
    1 + match value {
        Json::List(items) => items.iter().map(places).sum(),
        Json::Object(members) => members.iter().map(|(_, value)| places(value)).sum(),
        _ => 0,
    }
}

/// Changes the value at a place; in an object mostly one of its members. True once it is done.
fn change(dice: &mut Dice, value: &mut Json, place: &mut usize) -> bool {
    if *place == 0 {
        match value {
            Json::Object(members) if !members.is_empty() && !dice.once_in(6) => change_member(dice, members),
            value => *value = other(dice, value),
        }
        return true;
    }
    *place -= 1;
    match value {
        Json::List(items) => items.iter_mut().any(|item| change(dice, item, place)),
        Json::Object(members) => members.iter_mut().any(|(_, value)| change(dice, value, place)),
        _ => false,
    }
}

fn change_member(dice: &mut Dice, members: &mut Vec<(Option<String>, Json)>) {
    let at = dice.below(members.len());
    let names =
        ["jsonrpc", "id", "method", "params", "result", "error", "name", "arguments", "_meta", "text", "progressToken", "zzz"];
    match dice.below(9) {
        0 | 1 => drop(members.remove(at)),
        2 | 3 => {
            let (key, value) = members[at].clone();
            let value = if dice.once_in(2) { value } else { other(dice, &value) };
            members.insert(dice.below(members.len() + 1), (key, value));
        }
        4 => members[at].0 = Some(dice.of(&names).to_owned()),
        5 => {
            let value = other(dice, &Json::Null);
            members.insert(at, (Some(dice.of(&names).to_owned()), value));
        }
        6 => members.insert(at, (Some("$serde_json::private::RawValue".to_owned()), Json::text("{}"))),
        7 => members.reverse(),
        _ => {
            let value = other(dice, &members[at].1);
            members[at].1 = value;
        }
    }
}

/// Something else in the place of a value: of its own kind, of another, or wrapped.
fn other(dice: &mut Dice, value: &Json) -> Json {
    let raw = |text: &str| Json::Raw(text.to_owned());
    match (dice.below(8), value) {
        (0, value) => {
            let levels = [1, 2, 59, 60, 61, 62, 63, 64, 65, 128, 300][dice.below(11)];
            let (open, close) = if dice.once_in(2) { ("[", "]") } else { ("{\"a\":", "}") };
            Json::Raw(format!("{}{}{}", open.repeat(levels), value.print(), close.repeat(levels)))
        }
        (1..=4, Json::Number(_)) => raw(dice.of(&[
            "0",
            "-0",
            "-1",
            "1",
            "2",
            "3",
            "1.0",
            "2e0",
            "1.5",
            "1e400",
            "12345678901234567890",
            "18446744073709551616",
            "0.1",
            "0.12345678901234567890",
            "9007199254740993",
            "1E+2",
            "01",
            "- 1",
            "NaN",
            "1e-400",
        ])),
        (1..=4, Json::Text(_)) => raw(dice.of(&[
            r#""""#,
            r#""-n""#,
            r#""a\u0000b""#,
            r#""\ud83d""#,
            r#""\ud83c\udf89""#,
            r#""\u2028""#,
            r#""..""#,
            r#""../x""#,
            r#""ours/../x""#,
            r#""ours\\..\\x""#,
            r#""ours/..;a/x""#,
            r#""ours//x""#,
            r#""ours/%2e%2e/x""#,
            r#""our\u0073/x""#,
            r#""ours""#,
            r#""a/b""#,
            r#""ping""#,
            r#""tools/call""#,
            r#""2.0""#,
            r#""1""#,
            r#""say""#,
            r#""SAY""#,
            r#""red""#,
            r#""tidegate_status""#,
            r#""2025-11-25""#,
            r#""2026-07-28""#,
            r#""notifications/cancelled""#,
            r#""ééééééééééééééééééééx""#,
            "\"a\tb\"",
            r#""\x""#,
            "'a'",
        ])),
        (5, Json::Text(Some(text))) => {
            // The same text, written otherwise.
            Json::Raw(format!("\"{}\"", text.chars().map(escaped).collect::<String>()))
        }
        _ => raw(dice.of(&[
            "null",
            "true",
            "false",
            "0",
            "7",
            "1.5",
            r#""x""#,
            "[]",
            "[1]",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
        ])),
    }
}

fn escaped(c: char) -> String {
    let mut units = [0; 2];
    c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// One change that knows nothing of lines.
fn mutate_bytes(dice: &mut Dice, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = dice.below(bytes.len());
    match dice.below(7) {
        0 | 1 => bytes[at] ^= 1 << dice.below(8),
        2 => drop(bytes.remove(at)),
        3 => {
            let specials: [&[u8]; 11] =
                [b"\"", b"{", b"}", b"\\", b"\n", b"\r\n", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf"];
            let special = dice.of(&specials);
            bytes.splice(at..at, special.iter().copied());
        }
        4 => bytes.truncate(at),
        5 => drop(bytes.pop()),
        _ => {
            let end = (at + 1 + dice.below(40)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
    }
}

/// Cuts a session into writes: in one, byte by byte, by lines, or anywhere.
fn cut(dice: &mut Dice, bytes: &[u8]) -> Vec<Vec<u8>> {
    match dice.below(8) {
        0 => vec![bytes.to_vec()],
        1 => bytes.chunks(1).map(<[u8]>::to_vec).collect(),
        2 => bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect(),
        _ => {
            let (mut writes, mut rest) = (Vec::new(), bytes);
            while !rest.is_empty() {
                let most = [3, 40, 400, 4000][dice.below(4)];
                let (write, after) = rest.split_at((1 + dice.below(most)).min(rest.len()));
                writes.push(write.to_vec());
                rest = after;
            }
            writes
        }
    }
}
