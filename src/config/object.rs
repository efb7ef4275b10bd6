//! Reading one object or one value of the tree: known keys, types, ranges, each failure at its place.
//!
//! An unknown key is an error with its nearest neighbour; a key of a later version is an error of its own. Every reader
//! returns `None` after it has said why, so callers go on and find further problems.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::schema::Keys;
use crate::config::tree::{Member, Node, Problems, Shape, quote};
use crate::limits::CALL_TIMEOUT_MAX;

/// A value and where it was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said<T> {
    /// What.
    pub value: T,
    /// Byte offset.
    pub at: usize,
}

/// An object whose keys have been checked.
#[derive(Debug)]
pub struct Object<'n> {
    /// Where it begins.
    pub at: usize,
    members: &'n [Member],
    keys: &'static Keys,
}

impl<'n> Object<'n> {
    /// Reports a value of another type and every key that is not read.
    pub fn open(node: &'n Node, keys: &'static Keys, problems: &mut Problems) -> Option<Self> {
        let members = map(node, problems)?;
        for member in members {
            let key = member.key.as_str();
            if keys.later.contains(&key) {
                problems.add(member.key_at, not_supported(key));
            } else if !keys.read.contains(&key) {
                problems.add(member.key_at, unknown_key(key, keys.read));
            }
        }
        Some(Object { at: node.at, members, keys })
    }

    /// A member that may be absent.
    pub fn member(&self, key: &'static str) -> Option<&'n Member> {
        assert!(self.keys.read.contains(&key), "{key} is read but not among the keys of {:?}", self.keys.schema);
        self.members.iter().find(|member| member.key == key)
    }

    /// The value of a key that may be absent.
    pub fn node(&self, key: &'static str) -> Option<&'n Node> {
        self.member(key).map(|member| &member.node)
    }

    /// The value of a key that may not be absent.
    pub fn needed(&self, key: &'static str, problems: &mut Problems) -> Option<&'n Node> {
        let node = self.node(key);
        if node.is_none() {
            problems.add(self.at, format!("missing key \"{key}\""));
        }
        node
    }

    /// Whether it says nothing that was reported as no key: so that what is missing is reported once.
    pub fn is_known(&self) -> bool {
        self.members.iter().all(|member| self.keys.read.contains(&member.key.as_str()))
    }

    /// The one key of an object that says one of several things; an object with keys of no version was reported already.
    pub fn exactly_one(&self, problems: &mut Problems) -> Option<(&'static str, &'n Node)> {
        let mut known = self.keys.read.iter().filter_map(|key| Some((*key, self.node(key)?)));
        match (known.next(), known.next()) {
            (Some(one), None) => Some(one),
            (None, _) if !self.members.is_empty() => None,
            _ => {
                problems.add(self.at, format!("expected exactly one of {}", listed(self.keys.read)));
                None
            }
        }
    }
}

/// What is said about a key that is known and that this version does not carry out.
fn not_supported(what: &str) -> String {
    format!("\"{what}\" is not supported by this version")
}

fn unknown_key(key: &str, known: &[&'static str]) -> String {
    match nearest(key, known) {
        Some(near) => format!("unknown key, nearest is \"{near}\""),
        None if known.is_empty() => "unknown key, expected none".to_owned(),
        None => format!("unknown key, expected one of {}", listed(known)),
    }
}

/// Words in quotes, so that one can be copied into the file.
pub fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

/// The word of `known` that `key` is most like, if it is like any.
pub fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    if key.len() > 64 {
        return None;
    }
    let scored = known.iter().map(|near| (distance(&key.to_lowercase(), &near.to_lowercase()), *near));
    scored.filter(|(score, near)| *score <= 1 + near.len() / 4).min_by_key(|(score, _)| *score).map(|(_, near)| near)
}

/// Optimal string alignment distance: insertions, deletions, substitutions, swapped neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

fn wrong<T>(node: &Node, expected: &str, problems: &mut Problems) -> Option<T> {
    if !matches!(node.shape, Shape::Broken) {
        problems.add(node.at, format!("expected {expected}, got {}", node.kind()));
    }
    None
}

/// An object.
pub fn map<'n>(node: &'n Node, problems: &mut Problems) -> Option<&'n [Member]> {
    node.members().or_else(|| wrong(node, "an object", problems))
}

/// An array.
pub fn list<'n>(node: &'n Node, problems: &mut Problems) -> Option<&'n [Node]> {
    node.elements().or_else(|| wrong(node, "an array", problems))
}

/// A string.
pub fn text<'n>(node: &'n Node, problems: &mut Problems) -> Option<Said<&'n str>> {
    node.text().map(|value| Said { value, at: node.at }).or_else(|| wrong(node, "a string", problems))
}

/// A string that says something.
pub fn nonempty<'n>(node: &'n Node, problems: &mut Problems) -> Option<Said<&'n str>> {
    matching(node, "a string that is not empty", |text| !text.is_empty(), problems)
}

/// A string of some form.
pub fn matching<'n>(
    node: &'n Node,
    expected: &str,
    holds: impl Fn(&str) -> bool,
    problems: &mut Problems,
) -> Option<Said<&'n str>> {
    let said = text(node, problems)?;
    if !holds(said.value) {
        problems.add(node.at, format!("expected {expected}, got {}", quote(said.value)));
        return None;
    }
    Some(said)
}

/// An absolute path.
pub fn absolute_path(node: &Node, problems: &mut Problems) -> Option<PathBuf> {
    let absolute = |text: &str| Path::new(text).is_absolute() && !text.contains('\0');
    matching(node, "an absolute path", absolute, problems).map(|said| PathBuf::from(said.value))
}

/// `true` or `false`.
pub fn flag(node: &Node, problems: &mut Problems) -> Option<Said<bool>> {
    match node.shape {
        Shape::Bool(value) => Some(Said { value, at: node.at }),
        _ => wrong(node, "true or false", problems),
    }
}

/// One of a few words.
pub fn word<T: Copy>(node: &Node, words: &[(&str, T)], problems: &mut Problems) -> Option<T> {
    let said = text(node, problems)?;
    let found = words.iter().find(|(word, _)| *word == said.value).map(|(_, meaning)| *meaning);
    if found.is_none() {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        problems.add(node.at, format!("expected one of {}, got {}", listed(&known), quote(said.value)));
    }
    found
}

/// A whole number within bounds; `unit` and reason belong to the message.
pub fn whole(node: &Node, bounds: RangeInclusive<u64>, what: &str, problems: &mut Problems) -> Option<u64> {
    let Shape::Number(digits) = &node.shape else { return wrong(node, "a whole number", problems) };
    let value = whole_of(digits).filter(|value| bounds.contains(value));
    if value.is_none() {
        problems.add(node.at, format!("expected {what} from {} to {}, got {digits}", bounds.start(), bounds.end()));
    }
    value
}

/// `1.0` and `1e3` are whole numbers too (JSON Schema 2020-12 validation, section 6.1.1).
fn whole_of(digits: &str) -> Option<u64> {
    digits.parse::<u64>().ok().or_else(|| {
        let value = digits.parse::<f64>().ok()?;
        let whole = value.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&value);
        whole.then_some(value as u64)
    })
}

/// A whole number that fits this machine.
pub fn size(node: &Node, bounds: RangeInclusive<usize>, what: &str, problems: &mut Problems) -> Option<usize> {
    let bounds = *bounds.start() as u64..=*bounds.end() as u64;
    whole(node, bounds, what, problems).and_then(|value| usize::try_from(value).ok())
}

/// Seconds, fractions allowed, from 1 ms to the longest call.
pub fn seconds(node: &Node, problems: &mut Problems) -> Option<Said<Duration>> {
    seconds_within(node, 0.001..=CALL_TIMEOUT_MAX.as_secs_f64(), problems)
}

/// Seconds, fractions allowed, within bounds.
pub fn seconds_within(node: &Node, bounds: RangeInclusive<f64>, problems: &mut Problems) -> Option<Said<Duration>> {
    let Shape::Number(digits) = &node.shape else { return wrong(node, "a number of seconds", problems) };
    let value = digits.parse::<f64>().ok().filter(|value| bounds.contains(value));
    if value.is_none() {
        problems.add(node.at, format!("expected seconds from {} to {}, got {digits}", bounds.start(), bounds.end()));
    }
    value.map(|value| Said { value: Duration::from_secs_f64(value), at: node.at })
}

/// A port.
pub fn port(node: &Node, problems: &mut Problems) -> Option<u16> {
    whole(node, 1..=u64::from(u16::MAX), "a port", problems).and_then(|value| u16::try_from(value).ok())
}

/// An array of strings.
pub fn texts<'n>(node: &'n Node, problems: &mut Problems) -> Vec<Said<&'n str>> {
    list(node, problems).unwrap_or_default().iter().filter_map(|node| text(node, problems)).collect()
}

/// An object of strings, in order, each at its key.
pub fn pairs<'n>(node: &'n Node, problems: &mut Problems) -> Vec<(Said<&'n str>, &'n str)> {
    let members = map(node, problems).unwrap_or_default().iter();
    let pair = |member: &'n Member| {
        let key = Said { value: member.key.as_str(), at: member.key_at };
        Some((key, text(&member.node, problems)?.value))
    };
    members.filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_unknown(key: &str, expected: &str) {
        assert_eq!(unknown_key(key, &["method", "url", "headers", "timeout_s"]), expected);
    }

    #[test]
    fn a_typing_error_gets_its_nearest_key() {
        for (key, near) in [
            ("methud", "method"),
            ("mehtod", "method"),
            ("Method", "method"),
            ("uri", "url"),
            ("header", "headers"),
            ("timeout", "timeout_s"),
            ("timeout_ms", "timeout_s"),
        ] {
            check_unknown(key, &format!("unknown key, nearest is \"{near}\""));
        }
        let all = "unknown key, expected one of \"method\", \"url\", \"headers\", \"timeout_s\"";
        check_unknown("proxy", all);
        check_unknown("", all);
        check_unknown(&"u".repeat(65), all);
        assert_eq!(unknown_key("x", &[]), "unknown key, expected none");
    }

    #[test]
    fn distances_count_swapped_neighbours_once() {
        for (a, b, expected) in [("", "", 0), ("", "ab", 2), ("ab", "ba", 1), ("kitten", "sitting", 3), ("äb", "ab", 1)] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn whole_numbers_in_any_spelling() {
        for (digits, expected) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("1.0", Some(1)),
            ("1e3", Some(1000)),
            ("1.5", None),
            ("-1", None),
            ("-0", Some(0)),
            ("1e300", None),
        ] {
            assert_eq!(whole_of(digits), expected, "{digits}");
        }
    }
}
