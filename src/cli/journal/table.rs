//! Records as rows of a table, and which of them are wanted.
//!
//! An outcome names its call only; tool and target are those of its intent, remembered per file. An answer names its question,
//! which may stand in another process's file and is remembered for all. Whatever a file holds, a row is one line and moves no
//! cursor: controls and marks of writing direction are shown as escapes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write;

use crate::journal::read::Seen;
use crate::journal::verify::calls::OPEN_MAX;
use crate::journal::verify::questions::REMEMBERED;

/// Which records are wanted, and in which form.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Calls of this tool.
    pub tool: Option<String>,
    /// Outcomes with this code, answers that say so, refusals with this reason.
    pub code: Option<String>,
    /// From this moment on, as `clock::rfc3339` writes it.
    pub since: Option<String>,
    /// The line itself is wanted.
    pub is_json: bool,
}

/// The heading of the table.
pub fn heading() -> String {
    row(["TIME", "PID", "CALL", "TYPE", "TOOL", "CODE", "EXECUTED", "MS", "BYTES"], "TARGET")
}

fn row([at, pid, call, kind, tool, code, executed, ms, bytes]: [&str; 9], rest: &str) -> String {
    let row =
        format!("{at:<24}  {pid:>7}  {call:>5}  {kind:<8}  {tool:<16}  {code:<16}  {executed:<8}  {ms:>6}  {bytes:>8}  {rest}");
    row.trim_end().to_owned()
}

/// What is remembered of a file to show its records.
#[derive(Debug, Default)]
pub struct Memory {
    pid: Option<u32>,
    /// Tool and target of calls without an outcome.
    open: BTreeMap<u64, (String, String)>,
}

/// Tool and target of the latest questions, whichever file they stand in.
#[derive(Debug, Default)]
pub struct Questions {
    about: HashMap<String, (String, String)>,
    /// Their names, the first one first.
    asked: VecDeque<String>,
}

impl Questions {
    fn asked(&mut self, question: &str, about: (String, String)) {
        if self.about.insert(question.to_owned(), about).is_none() {
            self.asked.push_back(question.to_owned());
        }
        if let Some(first) = self.asked.pop_front_if(|_| self.about.len() > REMEMBERED) {
            self.about.remove(&first);
        }
    }

    fn about(&self, question: &str) -> (String, String) {
        self.about.get(question).cloned().unwrap_or_default()
    }
}

impl Memory {
    /// The file goes on with the calls that another one has left open.
    pub fn go_on(&mut self, before: &Memory) {
        self.open.clone_from(&before.open);
    }

    /// The line to print for a record, if it is wanted.
    pub fn shown(&mut self, text: &[u8], seen: &Seen<'_>, filter: &Filter, questions: &mut Questions) -> Option<String> {
        let (tool, target) = self.of_call(seen, questions);
        let is_wanted = filter.tool.as_ref().is_none_or(|wanted| *wanted == tool)
            && filter.code.as_ref().is_none_or(|wanted| code(seen) == Some(wanted))
            && filter.since.as_ref().is_none_or(|since| *seen.at >= **since);
        if !is_wanted {
            return None;
        }
        if !filter.is_json {
            return Some(self.row(seen, &tool, &target));
        }
        // A line of ours comes out as it is; another one comes out without what a terminal would obey.
        let mut line = String::new();
        crate::wire::escape::compact(std::str::from_utf8(text).ok()?, &mut line);
        Some(line)
    }

    fn of_call(&mut self, seen: &Seen<'_>, questions: &mut Questions) -> (String, String) {
        self.pid = seen.pid.or(self.pid);
        let own = || (seen.tool.clone().unwrap_or_default(), seen.target.clone().unwrap_or_default());
        match (&*seen.kind, seen.call) {
            ("intent", Some(call)) => {
                if self.open.len() < OPEN_MAX {
                    self.open.insert(call, own());
                }
                own()
            }
            ("outcome", Some(call)) => self.open.remove(&call).unwrap_or_default(),
            ("question", _) => {
                seen.question.iter().for_each(|question| questions.asked(question, own()));
                own()
            }
            ("answer", _) => seen.question.as_ref().map(|question| questions.about(question)).unwrap_or_default(),
            _ => own(),
        }
    }

    fn row(&self, seen: &Seen<'_>, tool: &str, target: &str) -> String {
        let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let text = |value: &Option<String>| value.as_deref().map_or_else(String::new, cell);
        let mut rest = cell(target);
        for (label, value) in [
            ("asked", seen.asked.clone()),
            ("user", seen.user.map(|user| user.to_string())),
            ("question", seen.question.clone()),
            ("status", seen.status.map(|status| status.to_string())),
            ("ended", seen.ended.clone()),
            ("stage", seen.stage.clone()),
        ] {
            if let Some(value) = value {
                let _ = write!(rest, " ({label}: {})", cell(&value));
            }
        }
        if &*seen.kind == "session" {
            rest.push_str(&text(&seen.file));
        }
        let pid = number(self.pid.map(u64::from));
        let code = code(seen).map_or_else(String::new, |code| cell(code));
        let cells = [
            &cell(&seen.at),
            &pid,
            &number(seen.call),
            &cell(&seen.kind),
            &cell(tool),
            &code,
            &text(&seen.executed),
            &number(seen.duration_ms),
            &number(seen.bytes),
        ];
        row(cells.map(String::as_str), rest.trim_start())
    }
}

fn code<'a>(seen: &'a Seen<'_>) -> Option<&'a String> {
    seen.code.as_ref().or(seen.answer.as_ref()).or(seen.reason.as_ref())
}

/// Text for one cell: one line, at most so long, nothing that a terminal obeys.
pub fn cell(text: &str) -> String {
    const CHARS_MAX: usize = 400;
    let mut shown = String::new();
    for c in text.chars().take(CHARS_MAX) {
        if c.is_control() || is_invisible(c) {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Line and paragraph separators, marks of writing direction, and what has no width.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTENT: &str = r#"{"seq":1,"at":"2026-07-31T00:00:00.001Z","mono_ms":5,"prev":"","type":"intent","call":7,"tool":"say","rule":"r","target":"exec echo \u001b[2J\u202e"}"#;
    const OUTCOME: &str = r#"{"seq":2,"at":"2026-07-31T00:00:00.009Z","mono_ms":9,"prev":"","type":"outcome","call":7,"code":"target_error","executed":"yes","status":3,"bytes":16,"duration_ms":8,"ended":null}"#;

    fn shown(filter: &Filter) -> Vec<Option<String>> {
        shown_of(&[INTENT, OUTCOME], filter)
    }

    fn shown_of(lines: &[&str], filter: &Filter) -> Vec<Option<String>> {
        let mut memory = Memory { pid: Some(42), ..Memory::default() };
        let mut questions = Questions::default();
        let parsed = lines.iter().map(|line| (line.as_bytes(), Seen::parse(line.as_bytes()).unwrap()));
        parsed.map(|(text, seen)| memory.shown(text, &seen, filter, &mut questions)).collect()
    }

    fn words(row: &str) -> String {
        row.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_outcome_shows_tool_and_target_of_its_intent_escaped() {
        let rows: Vec<String> = shown(&Filter::default()).into_iter().flatten().collect();
        let target = r"exec echo \u{1b}[2J\u{202e}";
        assert_eq!(words(&rows[0]), format!("2026-07-31T00:00:00.001Z 42 7 intent say {target}"));
        assert_eq!(
            words(&rows[1]),
            format!("2026-07-31T00:00:00.009Z 42 7 outcome say target_error yes 8 16 {target} (status: 3)")
        );
        let place = |name: &str| heading().find(name).unwrap();
        assert_eq!(rows[1].find("target_error"), Some(place("CODE")));
        assert_eq!(rows[1].find("exec"), Some(place("TARGET")));
    }

    #[test]
    fn filters_agree_and_lines_come_out_as_they_are() {
        let json = Filter { is_json: true, ..Filter::default() };
        assert_eq!(shown(&json), [Some(INTENT.to_owned()), Some(OUTCOME.to_owned())]);
        let some = |filter: Filter| shown(&filter).iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(some(Filter { tool: Some("say".to_owned()), ..Filter::default() }), [true, true]);
        assert_eq!(some(Filter { tool: Some("sa".to_owned()), ..Filter::default() }), [false, false]);
        assert_eq!(some(Filter { code: Some("target_error".to_owned()), ..Filter::default() }), [false, true]);
        assert_eq!(some(Filter { code: Some("ok".to_owned()), ..Filter::default() }), [false, false]);
        assert_eq!(some(Filter { since: Some("2026-07-31T00:00:00.009Z".to_owned()), ..Filter::default() }), [false, true]);
    }

    const QUESTION: &str = r#"{"seq":1,"at":"T","prev":"","type":"question","call":7,"question":"0a1b2c3d","asked":"operator","tool":"say","rule":"r","target":"exec echo","action_sha256":""}"#;
    const ANSWER: &str = r#"{"seq":2,"at":"T","prev":"","type":"answer","call":9,"question":"0a1b2c3d","asked":"operator","answer":"yes","user":1000}"#;
    const APPROVED: &str =
        r#"{"seq":3,"at":"T","prev":"","type":"intent","call":9,"tool":"say","target":"exec echo","question":"0a1b2c3d"}"#;

    #[test]
    fn who_was_asked_what_came_of_it_and_what_it_approved_are_shown() {
        let all = [QUESTION, ANSWER, APPROVED];
        let rows: Vec<String> = shown_of(&all, &Filter::default()).into_iter().flatten().map(|row| words(&row)).collect();
        let expected = [
            "T 42 7 question say exec echo (asked: operator) (question: 0a1b2c3d)",
            "T 42 9 answer say yes exec echo (asked: operator) (user: 1000) (question: 0a1b2c3d)",
            "T 42 9 intent say exec echo (question: 0a1b2c3d)",
        ];
        assert_eq!(rows, expected);
        let some = |filter: Filter| shown_of(&all, &filter).iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(some(Filter { tool: Some("say".to_owned()), ..Filter::default() }), [true, true, true]);
        assert_eq!(some(Filter { code: Some("yes".to_owned()), ..Filter::default() }), [false, true, false]);
    }

    #[test]
    fn questions_are_remembered_up_to_a_bound() {
        let mut questions = Questions::default();
        let about = |at: usize| (at.to_string(), String::new());
        (0..=REMEMBERED).for_each(|at| questions.asked(&at.to_string(), about(at)));
        (0..5).for_each(|_| questions.asked("1", about(1)));
        assert_eq!((questions.about("0"), questions.about("1")), (Default::default(), about(1)));
        assert!(questions.about.len() == REMEMBERED && questions.asked.len() == REMEMBERED);
    }

    #[test]
    fn a_cell_is_one_line_of_bounded_length() {
        assert_eq!(cell("a\nb\u{85}\u{9b}c\u{2028}é"), r"a\u{a}b\u{85}\u{9b}c\u{2028}é");
        assert_eq!(cell(&"x".repeat(401)), format!("{}…", "x".repeat(400)));
    }
}
