//! The response headers as shown: one JSON object within its own budget, redacted before anything is kept.
//!
//! What matters to whoever goes on from here (type, location, paging, waiting) comes first, so that no flood of other fields
//! displaces it. Fields of the connection itself are not shown and not counted.

use std::borrow::Cow;

use crate::outcome::http::media::windows_1252;
use crate::secret::Redactor;
use crate::wire::escape::{escaped_len, to_line};

/// Response header fields, ready to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// A JSON object: name to value, repeated fields joined by `, ` (RFC 9110 section 5.3), `set-cookie` as an array.
    pub json: String,
    /// Fields that did not fit.
    pub left_out: usize,
    /// `name: value` of the shown fields that a reader of the text needs.
    pub notable: Vec<String>,
}

/// Shown in the text as well.
const NOTABLE: &[&str] = &["location", "link", "retry-after", "www-authenticate"];
/// Shown first, after the notable ones.
const FIRST: &[&str] = &["content-type", "content-length", "content-encoding", "etag", "last-modified", "date"];
/// RFC 9110 section 7.6.1, and what else concerns the connection alone.
const CONNECTION: &[&str] = &["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];

/// Lists `headers` (lower-case names, in order) in at most `budget` bytes of JSON.
pub fn list(headers: &[(String, Vec<u8>)], redactor: &Redactor, budget: usize) -> Listing {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in headers {
        if !names.contains(&name.as_str()) && !CONNECTION.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let rank = |name: &str| NOTABLE.iter().chain(FIRST).position(|first| *first == name).unwrap_or(usize::MAX);
    names.sort_by_key(|name| rank(name));
    let mut listing = Listing { json: "{".to_owned(), left_out: 0, notable: Vec::new() };
    for name in names {
        let values: Vec<String> =
            headers.iter().filter(|(other, _)| other == name).map(|(_, value)| text(value, redactor)).collect();
        listing.add(&redactor.text(name), values, budget);
    }
    listing.json.push('}');
    listing
}

impl Listing {
    /// What it takes in both copies together.
    pub fn cost(&self) -> usize {
        self.json.len() + self.notable.iter().map(|line| escaped_len(line) + 2).sum::<usize>()
    }

    fn add(&mut self, name: &str, values: Vec<String>, budget: usize) {
        let fields = values.len();
        let joined = values.join(", ");
        let value = if name == "set-cookie" { to_line(&values) } else { to_line(&joined) };
        let comma = if self.json.len() > 1 { "," } else { "" };
        let entry = format!("{comma}{}:{value}", to_line(&name));
        if self.json.len() + entry.len() + 1 > budget {
            self.left_out += fields;
            return;
        }
        self.json.push_str(&entry);
        if NOTABLE.contains(&name) {
            self.notable.push(format!("{name}: {joined}"));
        }
    }
}

/// A field value without the secrets; bytes that are no UTF-8 as the historical ISO 8859-1 (RFC 9110 section 5.5).
pub fn text(value: &[u8], redactor: &Redactor) -> String {
    match redactor.bytes(value) {
        Cow::Borrowed(clean) => decode(clean),
        Cow::Owned(clean) => decode(&clean),
    }
}

fn decode(value: &[u8]) -> String {
    str::from_utf8(value).map_or_else(|_| value.iter().map(|byte| windows_1252(*byte)).collect(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(headers: &[(&str, &[u8])], budget: usize) -> Listing {
        let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
        list(&headers, &Redactor::none(), budget)
    }

    #[test]
    fn repeated_fields_are_joined_and_cookies_kept_apart() {
        let listing = listed(
            &[("x-a", b"1"), ("set-cookie", b"a=1"), ("x-a", b"2"), ("connection", b"close"), ("set-cookie", b"b=2")],
            1000,
        );
        assert_eq!(listing.json, r#"{"x-a":"1, 2","set-cookie":["a=1","b=2"]}"#);
        assert_eq!((listing.left_out, listing.notable), (0, vec![]));
    }

    #[test]
    fn what_is_notable_survives_a_flood() {
        let flood: Vec<(String, Vec<u8>)> = (0..100).map(|n| (format!("x-{n}"), vec![b'v'; 50])).collect();
        let headers = [flood, vec![("location".to_owned(), b"/next".to_vec())]].concat();
        for budget in [2, 24, 100, 1000] {
            let listing = list(&headers, &Redactor::none(), budget);
            assert!(listing.json.len() <= budget, "{budget}");
            let shown = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&listing.json).unwrap().len();
            assert_eq!(shown + listing.left_out, 101, "{budget}");
        }
        assert_eq!(list(&headers, &Redactor::none(), 100).notable, ["location: /next"]);
    }

    #[test]
    fn a_value_that_is_no_utf_8_is_latin_1() {
        assert_eq!(listed(&[("server", b"caf\xe9")], 100).json, "{\"server\":\"caf\u{e9}\"}");
        assert_eq!(listed(&[("server", "caf\u{e9}".as_bytes())], 100).json, "{\"server\":\"caf\u{e9}\"}");
    }
}
