//! `pattern`: ECMA 262 regular expressions, translated for a matcher that takes linear time.
//!
//! Every construct is read here and written anew, so nothing reaches the matcher that means something else there.
//! Look-around, back-references and Unicode classes are refused: no linear matcher has the first two, and the tables for
//! the third are large. It must never accept a construct it cannot translate exactly.

use std::iter::Peekable;
use std::str::Chars;

use regex_lite::{Regex, RegexBuilder};

use super::{PATTERN_BYTES_MAX, PATTERN_CHARS_MAX};

/// Sizes of compiled patterns that are told apart when work is counted; the last is the limit.
const TIERS: [usize; 4] = [2 * 1024, 8 * 1024, 32 * 1024, PATTERN_BYTES_MAX];

/// A compiled pattern, not anchored.
pub(super) struct Pattern {
    regex: Regex,
    /// As written in the schema.
    pub(super) source: Box<str>,
    /// How much dearer than the lowest tier a byte of text is.
    weight: u64,
}

impl Pattern {
    /// # Errors
    /// What is not supported or not well formed.
    pub(super) fn compile(source: &str) -> Result<Pattern, String> {
        if source.chars().count() > PATTERN_CHARS_MAX {
            return Err(format!("expected a pattern of at most {PATTERN_CHARS_MAX} characters"));
        }
        let translated = Translator { chars: source.chars().peekable(), out: String::new() }.run()?;
        let mut problem = String::new();
        for (tier, limit) in TIERS.into_iter().enumerate() {
            match RegexBuilder::new(&translated).size_limit(limit).build() {
                Ok(regex) => {
                    return Ok(Pattern { regex, source: source.into(), weight: 1 << (2 * tier) });
                }
                Err(e) => problem = e.to_string(),
            }
        }
        Err(format!("pattern cannot be used: {problem}"))
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Steps one match costs: the matcher's work grows with text and pattern. A byte takes some 70 ns with an ordinary
    /// pattern, ten times that if all states of the lowest tier are alive at once.
    pub(super) fn cost(&self, text: &str) -> u64 {
        self.weight * (1 + text.len() as u64)
    }

    /// Upper bound of the memory of the compiled pattern.
    pub(super) fn bytes(&self) -> usize {
        TIERS.into_iter().find(|tier| (*tier / TIERS[0]) as u64 >= self.weight).unwrap_or(PATTERN_BYTES_MAX)
    }
}

type Ranges = Vec<(char, char)>;

const DIGIT: &[(char, char)] = &[('0', '9')];
const WORD: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
/// WhiteSpace and LineTerminator of ECMA 262.
const SPACE: &[(char, char)] = &[
    ('\t', '\r'),
    (' ', ' '),
    ('\u{a0}', '\u{a0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{2000}', '\u{200a}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202f}', '\u{202f}'),
    ('\u{205f}', '\u{205f}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{feff}', '\u{feff}'),
];
/// What `.` does not match.
const LINE_END: &[(char, char)] = &[('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')];
const ALL: &[(char, char)] = &[('\0', char::MAX)];

/// One element of a pattern.
enum Atom {
    Char(char),
    Set(Ranges),
}

struct Translator<'p> {
    chars: Peekable<Chars<'p>>,
    out: String,
}

impl Translator<'_> {
    fn run(mut self) -> Result<String, String> {
        let mut open = 0_usize;
        // whether a quantifier may follow
        let mut quantifiable = false;
        while let Some(c) = self.chars.next() {
            match c {
                '(' => {
                    self.group()?;
                    open += 1;
                    quantifiable = false;
                }
                ')' => {
                    open = open.checked_sub(1).ok_or("`)` without `(`")?;
                    self.out.push(')');
                    quantifiable = true;
                }
                '|' | '^' | '$' => {
                    self.out.push(c);
                    quantifiable = false;
                }
                '*' | '+' | '?' => {
                    self.quantifier(&c.to_string(), quantifiable)?;
                    quantifiable = false;
                }
                '{' => match self.repetition() {
                    Some(written) => {
                        self.quantifier(&written, quantifiable)?;
                        quantifiable = false;
                    }
                    None => quantifiable = self.atom(Atom::Char('{')),
                },
                '.' => quantifiable = self.atom(Atom::Set(complement(LINE_END))),
                '[' => {
                    let class = self.class()?;
                    quantifiable = self.atom(Atom::Set(class));
                }
                '\\' => quantifiable = self.edge_or_escape()?,
                literal => quantifiable = self.atom(Atom::Char(literal)),
            }
        }
        if open > 0 { Err("`(` without `)`".to_owned()) } else { Ok(self.out) }
    }

    /// Writes an element; true, because a quantifier may follow it.
    fn atom(&mut self, atom: Atom) -> bool {
        match atom {
            Atom::Char(c) => push_char(&mut self.out, c),
            Atom::Set(ranges) => push_set(&mut self.out, &ranges),
        }
        true
    }

    fn edge_or_escape(&mut self) -> Result<bool, String> {
        if let Some(edge) = self.chars.next_if(|c| matches!(c, 'b' | 'B')) {
            self.out.push('\\');
            self.out.push(edge);
            return Ok(false);
        }
        let atom = self.escape()?;
        Ok(self.atom(atom))
    }

    fn quantifier(&mut self, written: &str, quantifiable: bool) -> Result<(), String> {
        if !quantifiable {
            return Err(format!("nothing for `{written}` to repeat"));
        }
        self.out.push_str(written);
        if self.chars.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        Ok(())
    }

    /// After `(`. Nothing is ever captured, so all groups become plain ones.
    fn group(&mut self) -> Result<(), String> {
        self.out.push_str("(?:");
        if self.chars.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        match self.chars.next() {
            Some(':') => Ok(()),
            Some('=' | '!') => Err("look-ahead is not supported".to_owned()),
            Some('<') if matches!(self.chars.peek(), Some('=' | '!')) => Err("look-behind is not supported".to_owned()),
            Some('<') => self.group_name(),
            _ => Err("expected `(?:` or `(?<name>` after `(?`".to_owned()),
        }
    }

    fn group_name(&mut self) -> Result<(), String> {
        let mut length = 0;
        for c in self.chars.by_ref() {
            match c {
                '>' if length > 0 => return Ok(()),
                c if c.is_alphanumeric() || c == '_' || c == '$' => length += 1,
                _ => break,
            }
        }
        Err("expected a group name closed by `>`".to_owned())
    }

    /// After `{`: `n}`, `n,}` or `n,m}`; anything else makes the brace a plain character (ECMA 262 annex B.1.2).
    fn repetition(&mut self) -> Option<String> {
        let mut ahead = self.chars.clone();
        let mut written = String::from("{");
        let mut digits = 0;
        let mut comma = false;
        loop {
            let c = ahead.next()?;
            match c {
                '0'..='9' => digits += 1,
                ',' if digits > 0 && !comma => comma = true,
                '}' if digits > 0 => break,
                _ => return None,
            }
            written.push(c);
        }
        written.push('}');
        self.chars = ahead;
        Some(written)
    }

    /// After `[`.
    fn class(&mut self) -> Result<Ranges, String> {
        let negated = self.chars.next_if_eq(&'^').is_some();
        let mut ranges = Ranges::new();
        loop {
            let first = match self.chars.next().ok_or("`[` without `]`")? {
                ']' => break,
                c => self.class_atom(c)?,
            };
            let mut ahead = self.chars.clone();
            if ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']') {
                self.chars.next();
                let c = self.chars.next().ok_or("`[` without `]`")?;
                let second = self.class_atom(c)?;
                push_range(&mut ranges, first, second)?;
            } else {
                push_members(&mut ranges, first);
            }
        }
        Ok(if negated { complement(&ranges) } else { ranges })
    }

    fn class_atom(&mut self, c: char) -> Result<Atom, String> {
        if c == '\\' { self.escape() } else { Ok(Atom::Char(c)) }
    }

    /// After a backslash, `\b` and `\B` outside a class apart.
    fn escape(&mut self) -> Result<Atom, String> {
        let c = self.chars.next().ok_or("`\\` at the end")?;
        Ok(match c {
            'd' => Atom::Set(DIGIT.to_vec()),
            'D' => Atom::Set(complement(DIGIT)),
            'w' => Atom::Set(WORD.to_vec()),
            'W' => Atom::Set(complement(WORD)),
            's' => Atom::Set(SPACE.to_vec()),
            'S' => Atom::Set(complement(SPACE)),
            'b' => Atom::Char('\u{8}'),
            't' => Atom::Char('\t'),
            'n' => Atom::Char('\n'),
            'r' => Atom::Char('\r'),
            'v' => Atom::Char('\u{b}'),
            'f' => Atom::Char('\u{c}'),
            '0' if !self.chars.peek().is_some_and(char::is_ascii_digit) => Atom::Char('\0'),
            'c' => Atom::Char(self.control()?),
            'x' => Atom::Char(self.scalar(2)?),
            'u' => Atom::Char(self.unicode()?),
            'p' | 'P' => return Err(format!("unicode classes (`\\{c}`) are not supported")),
            '1'..='9' | 'k' => return Err("back-references are not supported".to_owned()),
            c if c.is_alphanumeric() => return Err(format!("unknown escape `\\{c}`")),
            c => Atom::Char(c),
        })
    }

    fn control(&mut self) -> Result<char, String> {
        let letter = self.chars.next().filter(char::is_ascii_alphabetic).ok_or("expected a letter after `\\c`")?;
        Ok(char::from(letter as u8 % 32))
    }

    /// After `\u`: `XXXX`, a pair of them for one character, or `{X…}`.
    fn unicode(&mut self) -> Result<char, String> {
        if self.chars.next_if_eq(&'{').is_some() {
            let digits: String = self.chars.by_ref().take_while(|c| *c != '}').take(8).collect();
            let code = u32::from_str_radix(&digits, 16).ok();
            return code.and_then(char::from_u32).ok_or_else(|| "expected a character in `\\u{…}`".to_owned());
        }
        let high = self.hex(4)?;
        if !(0xd800..0xdc00).contains(&high) {
            return scalar(high);
        }
        let low = if self.chars.next() == Some('\\') && self.chars.next() == Some('u') { self.hex(4)? } else { 0 };
        if !(0xdc00..0xe000).contains(&low) {
            return scalar(high);
        }
        scalar(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn scalar(&mut self, digits: usize) -> Result<char, String> {
        self.hex(digits).and_then(scalar)
    }

    fn hex(&mut self, digits: usize) -> Result<u32, String> {
        (0..digits).try_fold(0, |code, _| {
            let digit = self.chars.next().and_then(|c| c.to_digit(16));
            digit.map(|d| code * 16 + d).ok_or_else(|| format!("expected {digits} hexadecimal digits in an escape"))
        })
    }
}

/// `first-second`; if one of them is a set, both and the hyphen by themselves (ECMA 262 annex B.1.2).
fn push_range(ranges: &mut Ranges, first: Atom, second: Atom) -> Result<(), String> {
    match (first, second) {
        (Atom::Char(from), Atom::Char(to)) if from <= to => ranges.push((from, to)),
        (Atom::Char(from), Atom::Char(to)) => {
            return Err(format!("range {from:?}-{to:?} is the wrong way round"));
        }
        (first, second) => {
            push_members(ranges, first);
            ranges.push(('-', '-'));
            push_members(ranges, second);
        }
    }
    Ok(())
}

fn push_members(ranges: &mut Ranges, atom: Atom) {
    match atom {
        Atom::Char(c) => ranges.push((c, c)),
        Atom::Set(set) => ranges.extend(set),
    }
}

fn scalar(code: u32) -> Result<char, String> {
    char::from_u32(code).ok_or_else(|| format!("`\\u{code:04x}` alone is not a character"))
}

/// All characters outside the ranges.
fn complement(ranges: &[(char, char)]) -> Ranges {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut out = Ranges::new();
    // the first character not yet decided, none once the last one has been
    let mut next = Some('\0');
    for (from, to) in sorted {
        let Some(start) = next else { break };
        if let Some(end) = before(from).filter(|end| start <= *end) {
            out.push((start, end));
        }
        if to >= start {
            next = after(to);
        }
    }
    out.extend(next.map(|start| (start, char::MAX)));
    out
}

/// The neighbours of a character; ranges of characters step over the surrogates by themselves.
fn before(c: char) -> Option<char> {
    ('\0'..c).next_back()
}

fn after(c: char) -> Option<char> {
    (c..=char::MAX).nth(1)
}

fn push_char(out: &mut String, c: char) {
    if c.is_alphanumeric() {
        out.push(c);
    } else {
        out.push_str(&format!("\\x{{{:X}}}", u32::from(c)));
    }
}

fn push_set(out: &mut String, ranges: &[(char, char)]) {
    // an empty class cannot be written: everything but everything
    let (open, ranges) = if ranges.is_empty() { ("[^", ALL) } else { ("[", ranges) };
    out.push_str(open);
    for (from, to) in ranges {
        push_char(out, *from);
        out.push('-');
        push_char(out, *to);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_match(source: &str, yes: &[&str], no: &[&str]) {
        let pattern = Pattern::compile(source).expect(source);
        for text in yes {
            assert!(pattern.matches(text), "{source:?} should match {text:?}");
        }
        for text in no {
            assert!(!pattern.matches(text), "{source:?} should not match {text:?}");
        }
    }

    #[test]
    fn ecma_262_is_matched_as_written() {
        check_match("^a*$", &["", "aaa"], &["b", "a\n"]);
        check_match("a+", &["xxaxx"], &["xyz"]);
        check_match("^.$", &["x", "é", "\u{85}", "🦀"], &["\n", "\r", "\u{2028}", ""]);
        check_match("^\\s$", &[" ", "\u{b}", "\u{a0}", "\u{feff}", "\u{2003}"], &["x", "\u{85}", "\u{180e}"]);
        check_match("^\\S$", &["x", "\u{85}"], &[" ", "\u{a0}"]);
        check_match("^\\d\\D\\w\\W$", &["1x_-", "0éZé"], &["x1__", "٣x_-"]);
        check_match("^[\\d\\-_]+$", &["1-_"], &["a"]);
        check_match("^[^\\s\\d]$", &["x"], &[" ", "5"]);
        check_match("^[\\w-.]+$", &["a-.b"], &["a b"]);
        check_match("^[\\w-a-]+$", &["z-a"], &["."]);
        check_match("^[\\b-\\n]$", &["\t"], &["-"]);
        check_match("^[a-]+$", &["a-"], &["b"]);
        check_match("^[[&&--~~]+$", &["[&-~"], &["]"]);
        check_match("^[]", &[], &["", "x"]);
        check_match("^[^]$", &["x", "\n"], &[""]);
        check_match("^[\\b]$", &["\u{8}"], &["b"]);
        check_match("\\bfoo\\b", &["a foo b"], &["food"]);
        check_match("^a{2}b{1,}c{0,1}$", &["aab", "aabbc"], &["ab", "aabcc"]);
        check_match("^{a}{,2}$", &["{a}{,2}"], &["a"]);
        check_match("^(?:a|b)(?<x>c)(d)$", &["acd", "bcd"], &["abcd"]);
        check_match("^a+?b*?$", &["aab"], &["c"]);
        check_match("^\\u0041\\x42\\u{1F980}\\uD83E\\uDD80\\cJ\\0$", &["AB🦀🦀\n\0"], &["AB"]);
        check_match("^[\\uD83E\\uDD80-\\u{1F981}]$", &["🦀", "🦁"], &["🦂"]);
        check_match("^\\/\\.\\-\\@\\ #$", &["/.-@ #"], &["/x-@ #"]);
        check_match("^(a|)$", &["", "a"], &["b"]);
        check_match("^[\\s\\S]*$", &["", "any\nthing"], &[]);
        check_match("^[é-ü]$", &["é", "ü"], &["e"]);
        check_match("<b>", &["<b>"], &["b"]);
        check_match("(?:)", &["", "x"], &[]);
    }

    #[track_caller]
    fn check_refused(source: &str, expected: &str) {
        match Pattern::compile(source) {
            Ok(_) => panic!("{source} should be refused"),
            Err(e) => assert!(e.contains(expected), "{source}: {e}"),
        }
    }

    #[test]
    fn what_cannot_be_matched_is_refused() {
        check_refused("(?=a)", "look-ahead");
        check_refused("(?!a)", "look-ahead");
        check_refused("(?<=a)", "look-behind");
        check_refused("(?<!a)", "look-behind");
        check_refused("(a)\\1", "back-reference");
        check_refused("(?<n>a)\\k<n>", "back-reference");
        check_refused("^\\p{Letter}+$", "unicode class");
        check_refused("[\\P{L}]", "unicode class");
        check_refused("(?i)a", "after `(?`");
        check_refused("(?P<n>a)", "after `(?`");
        check_refused("(?<n", "group name");
        check_refused("(?<>a)", "group name");
        check_refused("\\Aa\\z", "unknown escape `\\A`");
        check_refused("\\a", "unknown escape");
        check_refused("[\\B]", "unknown escape");
        check_refused("a**", "to repeat");
        check_refused("a{1}{2}", "to repeat");
        check_refused("*a", "to repeat");
        check_refused("(|*)", "to repeat");
        check_refused("^*", "to repeat");
        check_refused("\\b+", "to repeat");
        check_refused("(a", "without `)`");
        check_refused("a)", "without `(`");
        check_refused("[a", "without `]`");
        check_refused("[a-", "without `]`");
        check_refused("[z-a]", "wrong way round");
        check_refused("a\\", "at the end");
        check_refused("\\x4", "hexadecimal");
        check_refused("\\uD83E", "not a character");
        check_refused("\\uD83Ex", "not a character");
        check_refused("\\u{110000}", "expected a character");
        check_refused("\\c1", "letter");
        check_refused("\\01", "unknown escape");
        check_refused("a{3,2}", "cannot be used");
        check_refused("((a{1000}){1000}){1000}", "size limit");
        check_refused(&"a".repeat(PATTERN_CHARS_MAX + 1), "at most 4096 characters");
        check_refused(&"(".repeat(4_000), "without `)`");
        check_refused(&format!("{}{}", "(".repeat(2_000), ")".repeat(2_000)), "nesting");
    }

    #[test]
    fn dear_patterns_cost_more() {
        let cheap = Pattern::compile("^[a-z]+$").expect("a pattern");
        let dear = Pattern::compile("^(?:[a-z]{1,30}x){30}$").expect("a pattern");
        let text = "x".repeat(4_000);
        assert_eq!(cheap.cost(&text), 4_001);
        assert_eq!(dear.cost(&text), 64 * 4_001);
        assert_eq!(cheap.bytes(), TIERS[0]);
        assert_eq!(dear.bytes(), PATTERN_BYTES_MAX);
    }

    #[test]
    fn nested_repetition_takes_linear_time() {
        let pattern = Pattern::compile("^(a+)+$").expect("a pattern");
        assert!(!pattern.matches(&format!("{}b", "a".repeat(20_000))));
    }
}
