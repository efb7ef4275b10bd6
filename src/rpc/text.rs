//! A part of a line that is needed longer than the line.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Text of its own, or a part of a long line that is kept whole: copying 4 MiB costs more time than reading them.
#[derive(Clone)]
pub struct Text(Kept);

#[derive(Clone)]
enum Kept {
    Own(String),
    Part { line: Arc<String>, range: Range<usize> },
}

impl Text {
    /// `part` as it stands in `line`, which is kept; a copy where there is no such line.
    pub fn of(part: &str, line: Option<&Arc<String>>) -> Text {
        let kept = line.and_then(|line| Some(Kept::Part { range: place(part, line)?, line: Arc::clone(line) }));
        Text(kept.unwrap_or_else(|| Kept::Own(part.to_owned())))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Kept::Own(text) => text,
            Kept::Part { line, range } => &line[range.clone()],
        }
    }
}

/// Where `part` lies in `line`; `None` for text from elsewhere.
fn place(part: &str, line: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(line.as_ptr().addr())?;
    let range = start..start + part.len();
    std::ptr::eq(line.get(range.clone())?, part).then_some(range)
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(Kept::Own(text))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_line_is_kept_with_it_and_other_text_is_copied() {
        let line = Arc::new("{\"a\":\"\u{e9}t\u{e9}\"}".to_owned());
        let part = Text::of(&line[5..12], Some(&line));
        let copies = [Text::of(&line[5..12], None), Text::of(&String::from(&line[5..12]), Some(&line))];
        assert_eq!((part.as_str(), Arc::strong_count(&line)), ("\"\u{e9}t\u{e9}\"", 2));
        assert_eq!(copies, [part.clone(), part]);
        assert_eq!(Arc::strong_count(&line), 1);
    }
}
