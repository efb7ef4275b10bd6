//! What the demo prints: titles, real lines shortened, checks, the summary; and the count that makes the exit code.
//!
//! Colours only on a terminal, and not with `NO_COLOR`. What comes from the gateway never reaches the terminal with its
//! control characters.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::time::Duration;

use crate::cli::{EXIT_NO, EXIT_OK, print};

/// Characters a row of a shown line.
const ROW_CHARS: usize = 112;
/// Rows a shown line takes at most.
const ROWS: usize = 2;
/// Members whose objects say nothing about a step.
const OBJECTS_ELIDED: &[&str] = &["_meta", "structuredContent", "capabilities", "tidegate/outcome"];
/// What stands in every message, or in every one that tells no failure.
const MEMBERS_ELIDED: &[&str] = &[r#""jsonrpc":"2.0","#, r#""resultType":"complete","#, r#""isError":false,"#];

#[derive(Clone, Copy)]
enum Colour {
    Bold,
    Dim,
    Green,
    Red,
}

/// Where the demo prints to, and what it has to report in the end.
pub(super) struct Screen {
    is_coloured: bool,
    code: u8,
    part: &'static str,
    checks: u32,
    failed: u32,
    failed_parts: Vec<&'static str>,
}

impl Screen {
    /// Nothing printed yet.
    pub(super) fn new() -> Self {
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_coloured = is_wanted && std::io::stdout().is_terminal();
        Screen { is_coloured, code: EXIT_OK, part: "the beginning", checks: 0, failed: 0, failed_parts: Vec::new() }
    }

    /// Begins a part of the demo; `part` is what the summary calls it.
    pub(super) fn title(&mut self, part: &'static str, promise: &str) {
        let gap = if self.checks == 0 { "" } else { "\n" };
        self.part = part;
        let text = format!("{}{}: {promise}", part[..1].to_uppercase(), &part[1..]);
        self.put(&format!("{gap}{}\n", self.painted(Colour::Bold, &text)));
    }

    /// A plain line.
    pub(super) fn say(&mut self, text: &str) {
        self.put(&format!("  {text}\n"));
    }

    /// A line that was sent.
    pub(super) fn sent(&mut self, line: &str) {
        self.message("→", line);
    }

    /// A line that came back.
    pub(super) fn came(&mut self, line: &str) {
        self.message("←", line);
    }

    fn message(&mut self, arrow: &str, line: &str) {
        for (number, row) in rows(&elided(line)).iter().enumerate() {
            let text = format!("{} {row}", if number == 0 { arrow } else { " " });
            self.say(&self.painted(Colour::Dim, &text));
        }
    }

    /// A promise, and whether it held; `Err` says what came instead.
    pub(super) fn check(&mut self, promise: &str, verdict: Result<(), String>) {
        self.checks += 1;
        match verdict {
            Ok(()) => self.say(&format!("{} {promise}", self.painted(Colour::Green, "✓"))),
            Err(instead) => {
                self.failed += 1;
                if !self.failed_parts.contains(&self.part) {
                    self.failed_parts.push(self.part);
                }
                self.say(&format!("{} {promise}", self.painted(Colour::Red, "✗")));
                let instead = rows(&format!("instead: {instead}")).join("\n    ");
                self.say(&self.painted(Colour::Red, &format!("  {instead}")));
            }
        }
    }

    /// What held, and where to go from here.
    pub(super) fn summary(&mut self, took: Duration) {
        let seconds = took.as_secs_f32();
        let verdict = match self.failed {
            0 => self.painted(Colour::Green, &format!("All {} checks held, in {seconds:.1} s.", self.checks)),
            failed => {
                let text = format!("{failed} of {} checks did not hold, in: {}.", self.checks, self.failed_parts.join(", "));
                self.painted(Colour::Red, &text)
            }
        };
        self.put(&format!("\n{verdict}\n\n{NEXT}"));
    }

    /// 0, 1 if a check did not hold, 74 if stdout takes nothing.
    pub(super) fn exit_code(&self) -> u8 {
        if self.code == EXIT_OK && self.failed > 0 { EXIT_NO } else { self.code }
    }

    fn put(&mut self, text: &str) {
        if self.code == EXIT_OK {
            self.code = print(text);
        }
    }

    fn painted(&self, colour: Colour, text: &str) -> String {
        let number = match colour {
            Colour::Bold => 1,
            Colour::Dim => 2,
            Colour::Green => 32,
            Colour::Red => 31,
        };
        if self.is_coloured { format!("\u{1b}[{number}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

const NEXT: &str = "\
Next:
  put your tools into ~/.config/tidegate/config.json; `tidegate schema` prints its JSON Schema for your editor
  let your agent's MCP client start `tidegate serve`; with `--dry-run` it decides as always and executes nothing
  read README.md: what it refuses to do, whom it protects from whom, and what it cannot protect from
";

/// The line with an ellipsis in place of what says nothing here.
fn elided(line: &str) -> String {
    let mut out = line.to_owned();
    for key in OBJECTS_ELIDED {
        let (member, mut from) = (format!("\"{key}\":{{"), 0);
        while let Some(at) = out[from..].find(&member).map(|at| from + at) {
            let open = at + member.len();
            let Some(inside) = inside_len(&out[open..]) else { break };
            out.replace_range(at..open + inside + 1, "…");
            from = at;
        }
    }
    let out = MEMBERS_ELIDED.iter().fold(out, |out, member| out.replacen(member, "…,", 1));
    out.replace("…,…,", "…,").replace("…,…", "…")
}

/// Bytes up to the brace that closes the object `text` is the inside of.
fn inside_len(text: &str) -> Option<usize> {
    let (mut depth, mut is_string, mut is_escaped) = (1, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b'{' if !is_string => depth += 1,
            b'}' if !is_string => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Rows of at most `ROW_CHARS` characters, controls made visible, the last one cut with an ellipsis.
fn rows(line: &str) -> Vec<String> {
    let mut visible = String::new();
    for character in line.chars() {
        if character.is_control() {
            let _ = write!(visible, "{}", character.escape_default());
        } else {
            visible.push(character);
        }
    }
    let characters: Vec<char> = visible.chars().collect();
    let mut rows: Vec<String> = characters.chunks(ROW_CHARS).map(|row| row.iter().collect()).collect();
    if rows.len() > ROWS {
        rows.truncate(ROWS);
        if let Some(last) = rows.last_mut() {
            last.pop();
            last.push('…');
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_elided(line: &str, expected: &str) {
        assert_eq!(elided(line), expected);
    }

    #[test]
    fn only_what_says_nothing_is_left_out() {
        check_elided(r#"{"id":1,"_meta":{"a":{"b":"}\"}"}},"x":2}"#, r#"{"id":1,…,"x":2}"#);
        check_elided(r#"{"_meta":{"_meta":{}},"structuredContent":{"_meta":{"a":1}}}"#, r#"{…}"#);
        check_elided(r#"{"text":"{\"_meta\":{\"a\":1}}"}"#, r#"{"text":"{\"_meta\":{\"a\":1}}"}"#);
        check_elided(
            r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","x":1}}"#,
            r#"{…,"id":1,"result":{…,"x":1}}"#,
        );
        check_elided(r#"{"_meta":{"cut":"#, r#"{"_meta":{"cut":"#);
    }

    #[test]
    fn a_shown_line_is_bounded_and_carries_no_control() {
        assert_eq!(rows("a\u{1b}[31m\nb"), ["a\\u{1b}[31m\\nb"]);
        assert_eq!(rows(&"é".repeat(ROW_CHARS)), ["é".repeat(ROW_CHARS)]);
        let long = rows(&"é".repeat(5 * ROW_CHARS));
        assert_eq!(long.len(), ROWS);
        assert_eq!(long[ROWS - 1], "é".repeat(ROW_CHARS - 1) + "…");
    }

    #[test]
    fn one_check_that_does_not_hold_decides_the_exit_code() {
        let mut screen = Screen { code: crate::cli::EXIT_OK, ..Screen::new() };
        assert_eq!(screen.exit_code(), EXIT_OK);
        screen.failed = 1;
        assert_eq!(screen.exit_code(), EXIT_NO);
        screen.code = crate::cli::EXIT_IO;
        assert_eq!(screen.exit_code(), crate::cli::EXIT_IO);
    }
}
