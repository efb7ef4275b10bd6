//! Words for people and models: places in a document, quoted names, lists, the nearest known name.
//! Everything is cut to a bound. It must never be given a checked value to quote, only names, types and counts.

use std::borrow::Cow;
use std::fmt;

use super::{LIST_CHARS_MAX, POINTER_BYTES_MAX, QUOTE_CHARS_MAX};

/// A place in a document, linked to the place above it on the stack: costs nothing until somebody asks for the pointer.
pub(super) enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// The JSON Pointer (RFC 6901), each name cut to the quoting bound and the whole to the pointer bound.
    pub(super) fn pointer(&self) -> String {
        let mut segments = Vec::new();
        let mut at = self;
        loop {
            at = match at {
                Path::Root => break,
                Path::Key(up, key) => {
                    segments.push(cut(key).replace('~', "~0").replace('/', "~1"));
                    up
                }
                Path::Index(up, index) => {
                    segments.push(index.to_string());
                    up
                }
            };
        }
        let mut pointer = String::new();
        for segment in segments.iter().rev() {
            if pointer.len() + segment.len() > POINTER_BYTES_MAX {
                pointer.push_str("/…");
                break;
            }
            pointer.push('/');
            pointer.push_str(segment);
        }
        pointer
    }
}

/// `at `/a/b`: message`, or `at the root: message`.
pub(super) fn fmt_at(f: &mut fmt::Formatter<'_>, pointer: &str, message: &str) -> fmt::Result {
    if pointer.is_empty() { write!(f, "at the root: {message}") } else { write!(f, "at `{pointer}`: {message}") }
}

/// A pointer in the notation models write themselves: `.name`, `[3]`, `["odd name"]`; nothing for the root.
pub(super) fn dotted(pointer: &str) -> String {
    let mut out = String::new();
    for segment in pointer.split('/').skip(1) {
        if !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit()) {
            out.push_str(&format!("[{segment}]"));
        } else if is_word(segment) {
            out.push_str(&format!(".{segment}"));
        } else {
            out.push_str(&format!("[{}]", quoted(&segment.replace("~1", "/").replace("~0", "~"))));
        }
    }
    out
}

fn is_word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// At most the quoting bound of characters, with a mark where it was cut.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Cut, in double quotes, controls escaped.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", cut(text))
}

/// `a, b, c` up to the list bound, then how many there are in all.
pub(super) fn listed(items: impl ExactSizeIterator<Item = String>) -> String {
    let count = items.len();
    let mut out = String::new();
    for (i, item) in items.enumerate() {
        if i > 0 && out.len() + item.len() > LIST_CHARS_MAX {
            out.push_str(&format!(", … ({count} in all)"));
            break;
        }
        if i > 0 {
            out.push_str(", ");
        }
        out.push_str(&item);
    }
    out
}

/// `1 item`, `2 items`.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The candidate that a typing error most likely meant, if any is near: one edit for short names, a third of long ones.
pub(super) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let name: Vec<char> = name.chars().take(QUOTE_CHARS_MAX + 1).collect();
    if name.len() > QUOTE_CHARS_MAX {
        return None;
    }
    let allowed = (name.len() / 3).clamp(1, 4);
    candidates
        .take(256)
        .filter(|c| c.chars().count().abs_diff(name.len()) <= allowed)
        .map(|c| (distance(&name, &c.chars().collect::<Vec<_>>()), c))
        .filter(|(d, c)| *d <= allowed && *d < c.len())
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// Edit distance that counts a swap of neighbours and a change of case as one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let same = a[i - 1] == b[j - 1];
            row[j] = (above[j - 1] + usize::from(!same)).min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_nearest(name: &str, expected: Option<&str>) {
        let known = ["minimum", "maximum", "items", "minItems", "not", "if"];
        assert_eq!(nearest(name, known.into_iter()), expected, "{name}");
    }

    #[test]
    fn nearest_finds_typing_errors_and_nothing_else() {
        check_nearest("minimun", Some("minimum"));
        check_nearest("mimimum", Some("minimum"));
        check_nearest("itmes", Some("items"));
        check_nearest("minitems", Some("minItems"));
        check_nearest("nto", Some("not"));
        check_nearest("zz", None);
        check_nearest("wholly different", None);
        check_nearest(&"m".repeat(10_000), None);
        check_nearest("", None);
    }

    #[track_caller]
    fn check_dotted(pointer: &str, expected: &str) {
        assert_eq!(dotted(pointer), expected, "{pointer}");
    }

    #[test]
    fn dotted_reads_like_code() {
        check_dotted("", "");
        check_dotted("/seconds", ".seconds");
        check_dotted("/items/3/dry-run", ".items[3].dry-run");
        check_dotted("/a b", "[\"a b\"]");
        check_dotted("/a~1b~0c", "[\"a/b~c\"]");
        check_dotted("/", "[\"\"]");
        check_dotted("/a\nb", "[\"a\\nb\"]");
    }

    #[test]
    fn pointers_are_escaped_and_bounded() {
        let root = Path::Root;
        let a = Path::Key(&root, "a/b~c");
        assert_eq!(Path::Index(&a, 7).pointer(), "/a~1b~0c/7");
        let long = "k".repeat(5_000);
        assert_eq!(Path::Key(&root, &long).pointer(), format!("/{}…", "k".repeat(QUOTE_CHARS_MAX)));
        let mut path = Path::Root;
        let mut made = String::new();
        check_bounded(&mut path, &long, 100, &mut made);
        assert!(made.len() <= POINTER_BYTES_MAX + 8, "{}", made.len());
        assert!(made.ends_with("/…"));
    }

    fn check_bounded(path: &mut Path<'_>, key: &str, levels: usize, made: &mut String) {
        if levels == 0 {
            *made = path.pointer();
        } else {
            check_bounded(&mut Path::Key(path, key), key, levels - 1, made);
        }
    }

    #[test]
    fn lists_are_bounded() {
        assert_eq!(listed(["a", "b"].map(String::from).into_iter()), "a, b");
        let many = listed((0..1_000).map(|n| format!("name{n}")).collect::<Vec<_>>().into_iter());
        assert!(many.len() < LIST_CHARS_MAX + 40, "{many}");
        assert!(many.ends_with("(1000 in all)"), "{many}");
    }
}
