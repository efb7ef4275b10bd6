//! What `read_result` and `resources/read` show of a stored result: one page of it, or where a text stands in it.
//!
//! A page is exactly the stored bytes: text cut between characters, anything else as base64. What surrounds it, the note and
//! the counts, never mixes with it.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Serialize;

use crate::action::read::{Cursor, Name};
use crate::outcome::artifact::Header;
use crate::outcome::budget::prefix;
use crate::outcome::result::{Executed, Outcome};
use crate::wire::escape::{escaped_len, to_line};

/// One page of a stored result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Which result.
    pub name: Name,
    /// Stored bytes before the page.
    pub offset: u64,
    /// Stored bytes on the page.
    pub bytes: u64,
    /// Stored bytes in all.
    pub total: u64,
    /// Bytes of the stream that came after the stored ones and are gone.
    pub gone: u64,
    /// The bytes.
    pub body: PageBody,
}

/// The bytes of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageBody {
    /// UTF-8 as it is.
    Text(String),
    /// RFC 4648 section 4; pages of one result can be joined before decoding.
    Base64(String),
}

#[derive(Serialize)]
struct Structured<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<&'a str>,
    offset: u64,
    bytes: u64,
    total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_stored: Option<u64>,
    #[serde(rename = "nextCursor", skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Page {
    /// The page that begins at `offset` and takes at most `budget` serialised bytes; `bytes` is what is stored there, at least
    /// `budget` of it unless the stored stream ends before.
    pub fn new(name: &Name, header: &Header, offset: u64, bytes: &[u8], budget: usize) -> Page {
        let text = header.is_text.then(|| prefix(whole_characters(bytes), budget)).map(std::str::from_utf8);
        let (body, taken) = match text {
            Some(Ok(text)) => (PageBody::Text(text.to_owned()), text.len()),
            Some(Err(_)) | None => {
                let taken = bytes.len().min(budget / 4 * 3);
                (PageBody::Base64(BASE64_STANDARD.encode(&bytes[..taken])), taken)
            }
        };
        let Header { stored, gone, .. } = *header;
        Page { name: name.clone(), offset, bytes: taken as u64, total: stored, gone, body }
    }

    /// Where the next page begins; `None` after the last one.
    pub fn next(&self) -> Option<Cursor> {
        let offset = self.offset + self.bytes;
        (offset < self.total).then(|| Cursor { name: self.name.clone(), offset })
    }

    /// The bytes as they stand in a reply.
    pub fn shown(&self) -> &str {
        match &self.body {
            PageBody::Text(text) | PageBody::Base64(text) => text,
        }
    }

    fn structured(&self) -> String {
        let (text, base64) = match &self.body {
            PageBody::Text(text) => (Some(text.as_str()), None),
            PageBody::Base64(base64) => (None, Some(base64.as_str())),
        };
        to_line(&Structured {
            text,
            base64,
            offset: self.offset,
            bytes: self.bytes,
            total: self.total,
            not_stored: (self.gone > 0).then_some(self.gone),
            next_cursor: self.next().map(|cursor| cursor.to_string()),
        })
    }

    fn note(&self, header: &Header) -> String {
        let Page { offset, bytes, total, gone, .. } = self;
        let form = if matches!(self.body, PageBody::Text(_)) { "" } else { ", as base64" };
        let Header { tool, stream, .. } = header;
        let what = format!("bytes {offset} to {} of the {total} stored of {stream} of {tool}{form}", offset + bytes);
        match self.next() {
            Some(next) => format!("[tidegate: {what}; the next page: read_result with cursor {next}]"),
            None if *gone > 0 => format!("[tidegate: {what}; {gone} bytes that came after them were not stored and are gone]"),
            None => format!("[tidegate: {what}; this is the end]"),
        }
    }

    /// As the outcome of a call: the first text is exactly the page.
    pub fn into_outcome(self, header: &Header) -> Outcome {
        Outcome {
            structured: Some(self.structured()),
            truncated: self.next().is_some(),
            bytes: self.bytes,
            note: Some(self.note(header)),
            executed: Executed::Yes,
            text: self.shown().to_owned(),
            page: Some(self),
            ..Outcome::plain(String::new())
        }
    }
}

/// Without a character that is cut at the end.
pub fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        Ok(_) | Err(_) => bytes,
    }
}

/// A place where the text was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Match {
    /// Stored bytes before it.
    pub offset: u64,
    /// Line feeds before it, and one.
    pub line: u64,
    /// Of the line around it.
    pub excerpt: String,
}

/// What a search found, as far as a reply takes it.
#[derive(Debug)]
pub struct Matches {
    found: Vec<Match>,
    spent: usize,
    budget: usize,
}

#[derive(Serialize)]
struct Found<'a> {
    find: &'a str,
    matches: &'a [Match],
    offset: u64,
    total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_stored: Option<u64>,
    #[serde(rename = "nextCursor", skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Matches {
    /// None yet; each rendering takes about `budget` serialised bytes, `find` included.
    pub fn new(budget: usize, find: &str) -> Self {
        Matches { found: Vec::new(), spent: escaped_len(find), budget }
    }

    /// Takes one more place. False: there is no room for it.
    pub fn add(&mut self, found: Match) -> bool {
        self.spent += to_line(&found).len().max(escaped_len(&line(&found))) + 1;
        if self.spent <= self.budget {
            self.found.push(found);
            return true;
        }
        // A search must come on, however narrow its reply: the first place is told, if without its line.
        let is_first = self.found.is_empty();
        if is_first {
            self.found.push(Match { excerpt: String::new(), ..found });
        }
        is_first
    }

    /// The outcome of a search that began at `from` and went on to `next`, or to the end.
    pub fn into_outcome(self, find: &str, from: &Cursor, next: Option<&Cursor>, header: &Header) -> Outcome {
        let Header { tool, stream, stored, gone, .. } = header;
        let text = match self.found.as_slice() {
            [] => format!("[tidegate: not found in bytes {} to {stored} of {stream} of {tool}]", from.offset),
            found => found.iter().map(line).collect::<Vec<_>>().join("\n"),
        };
        let structured = to_line(&Found {
            find,
            matches: &self.found,
            offset: from.offset,
            total: *stored,
            not_stored: (*gone > 0).then_some(*gone),
            next_cursor: next.map(|cursor| cursor.to_string()),
        });
        let more = next.map(|next| format!("; more may follow: the same search with cursor {next}")).unwrap_or_default();
        let gone = if *gone > 0 { format!("; {gone} bytes that came after the stored ones are gone") } else { String::new() };
        let note = format!("[tidegate: {} places{more}{gone}; read_result with offset reads there]", self.found.len());
        Outcome {
            structured: Some(structured),
            truncated: next.is_some(),
            note: (!self.found.is_empty()).then_some(note),
            executed: Executed::Yes,
            ..Outcome::plain(text)
        }
    }
}

/// As a line of text: `offset 123, line 4: excerpt`.
fn line(found: &Match) -> String {
    format!("offset {}, line {}: {}", found.offset, found.line, found.excerpt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(is_text: bool, stored: u64, gone: u64) -> Header {
        Header::new("tool", "stdout", is_text, stored, gone)
    }

    #[track_caller]
    fn check_page(bytes: &[u8], is_text: bool, budget: usize, shown: &str, next: Option<u64>) {
        let name = Name::new([7; 16]);
        let header = header(is_text, 10 + bytes.len() as u64, 0);
        let page = Page::new(&name, &header, 10, bytes, budget);
        assert_eq!(page.shown(), shown);
        assert_eq!(page.next().map(|cursor| cursor.offset), next);
        let outcome = page.into_outcome(&header);
        assert_eq!((outcome.text.as_str(), outcome.truncated), (shown, next.is_some()));
        assert!(escaped_len(&outcome.text) <= budget);
    }

    #[test]
    fn a_page_is_exactly_the_stored_bytes() {
        check_page(b"hello", true, 5, "hello", None);
        check_page(b"hello", true, 4, "hell", Some(14));
        check_page("a\u{1F389}b".as_bytes(), true, 4, "a", Some(11));
        check_page("a\u{1F389}b".as_bytes(), true, 5, "a\u{1F389}", Some(15));
        check_page(&"a\u{1F389}".as_bytes()[..4], true, 9, "a", Some(11));
        check_page(b"\0\0\0", true, 12, "\0\0", Some(12));
        check_page(b"", true, 12, "", None);
        check_page(b"\xff\xfe\xfd\xfc", false, 4, "//79", Some(13));
        check_page(b"\xff\xfe\xfd\xfc", false, 8, "//79/A==", None);
        check_page(b"text", false, 8, "dGV4dA==", None);
    }

    #[test]
    fn the_last_page_says_what_is_gone() {
        let header = header(true, 3, 5);
        let outcome = Page::new(&Name::new([0; 16]), &header, 0, b"abc", 100).into_outcome(&header);
        assert_eq!(outcome.structured.as_deref(), Some(r#"{"text":"abc","offset":0,"bytes":3,"total":3,"not_stored":5}"#));
        let note = "[tidegate: bytes 0 to 3 of the 3 stored of stdout of tool; 5 bytes that came after them were not stored and are \
                    gone]";
        assert_eq!(outcome.note.as_deref(), Some(note));
    }

    #[test]
    fn places_are_taken_until_the_budget_is_spent() {
        let place = |offset| Match { offset, line: 1, excerpt: "x".repeat(50) };
        let mut matches = Matches::new(300, "x");
        let taken = (0..9).take_while(|offset| matches.add(place(*offset))).count();
        assert!((2..4).contains(&taken), "{taken}");
        let from = Cursor { name: Name::new([0; 16]), offset: 0 };
        let next = Cursor { offset: 3, ..from.clone() };
        let outcome = matches.into_outcome("x", &from, Some(&next), &header(true, 99, 0));
        assert!(escaped_len(&outcome.text) <= 300 && outcome.truncated);
        let note = outcome.note.unwrap();
        assert!(note.contains(&next.to_string()), "{note}");
    }
}
