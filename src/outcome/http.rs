//! What is shown of an HTTP response: status, bounded headers, and as much of the body as the content limit takes.
//!
//! The body passes the budget sink, redacted before anything is kept. JSON is shown as JSON with its digits, text as text, and
//! bytes that are neither are described or given as base64; nothing is guessed into text, and nothing is cut without saying so.
//!
//! Structured: `{status, headers, headers_left_out?, body, bytes, truncated, incomplete?, notes?}`. Instead of `body`, an array
//! too large has `items` (the first ones), `shown` and `items_total`; bytes in an unknown character set have `base64`; binary
//! media have `body: null` and `described`. `bytes` counts the body as it came.

pub mod headers;
pub mod media;
pub mod walk;
pub mod select;
pub mod items;
pub mod shape;

use crate::limits::{CHUNK_BYTES, JSON_BODY_BYTES};
use crate::outcome::budget::{Sink, Sinks, payload_bytes};
use crate::outcome::http::headers::Listing;
use crate::outcome::http::media::{Charset, Kind, Media};
use crate::outcome::http::select::Select;
use crate::outcome::http::shape::{Body, Look, Shaper};
use crate::outcome::result::{Code, Executed, Outcome, headline};
use crate::wire::escape::{escaped_len, to_line};

/// What notes, marks and member names may take in both copies together, beside the first lines and the headers.
const RESERVED_BYTES: usize = 900;

/// What a cut body needs beside them: cursor, how to go on, link.
const CUT_BYTES: usize = 700;

/// The head of a response, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// The registered phrase of the status; the peer's own words are not shown.
    pub reason: &'static str,
    /// Header fields in order, names lower case.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// How the body ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// All of it came.
    Whole,
    /// It did not; why, in one sentence.
    Cut {
        /// The code of the outcome.
        code: Code,
        /// `the response is incomplete, N of M bytes came, then …`.
        message: String,
    },
}

/// Takes a response and makes its outcome.
pub struct Shown {
    status: u16,
    reason: &'static str,
    listing: Listing,
    media: Media,
    select: Select,
    sinks: Sinks,
    sink: Sink,
    bytes: u64,
    content_bytes: usize,
}

impl Shown {
    /// For the response that begins with `head`; `content_bytes` is for both copies together.
    pub fn new(head: Head, select: &[String], sinks: &Sinks, content_bytes: usize) -> Self {
        let payload = payload_bytes(content_bytes);
        let redactor = &sinks.redactor;
        let listing = headers::list(&head.headers, redactor, payload / 8);
        let value = |wanted: &str| {
            let found = head.headers.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| headers::text(value, redactor))
        };
        let media = Media::new(value("content-type").as_deref(), value("content-encoding").as_deref());
        let keep = match media.kind {
            Kind::Binary => 0,
            // Head and tail together hold a body of this size whole, so that it can be parsed, decoded or encoded.
            Kind::Json | Kind::Text | Kind::Opaque => payload.max(JSON_BODY_BYTES / 2),
        };
        // A failure is shown as it is: a selection made for the good answer would hide its reason.
        let select = Select::new(if head.status < 400 { select } else { &[] });
        Shown {
            status: head.status,
            reason: head.reason,
            listing,
            media,
            select,
            sinks: sinks.clone(),
            sink: sinks.sink("body", keep),
            bytes: 0,
            content_bytes,
        }
    }

    /// Takes at most 64 KiB of the body.
    pub fn write(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        match self.media.charset {
            Charset::Windows1252 if self.media.kind != Kind::Binary => {
                let text: String = chunk.iter().map(|byte| media::windows_1252(*byte)).collect();
                text.as_bytes().chunks(CHUNK_BYTES).for_each(|chunk| self.sink.write(chunk));
            }
            Charset::Windows1252 | Charset::Utf8 | Charset::Assumed | Charset::Unknown(_) => self.sink.write(chunk),
        }
    }

    /// Bytes of the body so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes the outcome: `target_error` for a status of 400 and above, the ending's code if the body was cut, executed: yes.
    /// `look` is asked all the way; `None` if it said `Cancelled`. If it says `Late`, JSON is shown as text.
    pub fn finish(self, ending: Ending, look: &dyn Fn() -> Look) -> Option<Outcome> {
        let Shown { status, reason, listing, media, select, sinks, sink, bytes, content_bytes } = self;
        let (kept, _) = sink.finish();
        let label = if bytes == 0 { "no body".to_owned() } else { format!("{}, {bytes} bytes", media.label()) };
        let first = format!("HTTP {status} {reason}{}{label}", if reason.is_empty() { "" } else { ", " });
        let (code, first) = match &ending {
            Ending::Cut { code, message } => (Some(*code), headline(*code, Executed::Yes, message) + "\n" + &first),
            Ending::Whole if status >= 400 => (Some(Code::TargetError), headline(Code::TargetError, Executed::Yes, &first)),
            Ending::Whole => (None, first),
        };
        let incomplete = match &ending {
            Ending::Cut { message, .. } => to_line(message),
            Ending::Whole => String::new(),
        };
        let above = escaped_len(&first) + incomplete.len() + listing.cost() + RESERVED_BYTES;
        let budget = |reserved| payload_bytes(content_bytes).min(content_bytes.saturating_sub(above + reserved) / 2);
        let (whole_budget, budget) = (budget(0), budget(CUT_BYTES));
        let whole = ending == Ending::Whole;
        let mut body =
            Shaper { media: &media, select: &select, sinks: &sinks, bytes, whole_budget, budget, whole, look }.shape(&kept)?;
        let truncated = body.rest.is_some() || code.is_some_and(|code| code != Code::TargetError);
        let stored = body.store_rest(kept);
        let structured = structured(status, &listing, &body, bytes, truncated, &incomplete);
        let text = text(first, &listing, body);
        Some(Outcome {
            code,
            executed: Executed::Yes,
            structured: Some(structured),
            truncated,
            bytes,
            stored: stored.into_iter().collect(),
            status: Some(i32::from(status)),
            ..Outcome::plain(text)
        })
    }
}

fn structured(status: u16, listing: &Listing, body: &Body, bytes: u64, truncated: bool, incomplete: &str) -> String {
    let mut out = format!("{{\"status\":{status},\"headers\":{}", listing.json);
    if listing.left_out > 0 {
        out.push_str(&format!(",\"headers_left_out\":{}", listing.left_out));
    }
    out.push_str(&format!(",{},\"bytes\":{bytes},\"truncated\":{truncated}", body.members));
    if !incomplete.is_empty() {
        out.push_str(&format!(",\"incomplete\":{incomplete}"));
    }
    if !body.notes.is_empty() {
        out.push_str(&format!(",\"notes\":{}", to_line(&body.notes)));
    }
    out.push('}');
    out
}

fn text(first: String, listing: &Listing, body: Body) -> String {
    let mut lines = vec![first];
    lines.extend(listing.notable.iter().cloned());
    if !body.text.is_empty() {
        lines.push(body.text);
    }
    lines.extend(body.notes.iter().map(|note| format!("[tidegate: {note}]")));
    if listing.left_out > 0 {
        lines.push(format!("[tidegate: {} header fields left out]", listing.left_out));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ARTIFACT_BYTES;
    use crate::limits::{CONTENT_BYTES_MIN, NESTING_LEVELS};
    use crate::outcome::testing::{StateDir, sinks};
    use serde_json::{Value, json};

    struct Case<'a> {
        status: u16,
        headers: Vec<(&'a str, String)>,
        body: &'a [u8],
        select: &'a [&'a str],
        content_bytes: usize,
        ending: Ending,
    }

    fn case<'a>(content_type: &str, body: &'a [u8]) -> Case<'a> {
        let headers = if content_type.is_empty() { vec![] } else { vec![("content-type", content_type.to_owned())] };
        Case { status: 200, headers, body, select: &[], content_bytes: 32 << 10, ending: Ending::Whole }
    }

    /// Also checks what holds for every outcome.
    #[track_caller]
    fn shown(case: &Case<'_>) -> (Outcome, Value) {
        let reason = if case.status == 200 { "OK" } else { "Not Found" };
        let headers = case.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into_bytes())).collect();
        let select: Vec<String> = case.select.iter().map(|pointer| (*pointer).to_owned()).collect();
        let head = Head { status: case.status, reason, headers };
        let mut shown = Shown::new(head, &select, &sinks(), case.content_bytes);
        case.body.chunks(1000).for_each(|chunk| shown.write(chunk));
        let outcome = shown.finish(case.ending.clone(), &|| Look::GoOn).unwrap();
        let structured = outcome.structured.as_deref().unwrap();
        let spent = escaped_len(&outcome.text) + 2 + structured.len();
        assert!(spent <= case.content_bytes, "{spent} bytes of {}: {}", case.content_bytes, outcome.text);
        let value: Value = serde_json::from_str(structured).unwrap_or_else(|error| panic!("{error}: {structured}"));
        assert_eq!(value["truncated"], outcome.truncated);
        assert_eq!(value["bytes"], case.body.len());
        assert_eq!(outcome.bytes, case.body.len() as u64);
        assert_eq!(outcome.executed, Executed::Yes);
        (outcome, value)
    }

    #[track_caller]
    fn check_body(content_type: &str, body: &[u8], member: &str, expected: Value, note: &str) {
        let (outcome, value) = shown(&case(content_type, body));
        assert_eq!(value[member], expected, "{value}");
        assert!(!outcome.truncated, "{value}");
        assert!(outcome.text.contains(note), "{}", outcome.text);
        assert_eq!(value["notes"].is_null(), note.is_empty(), "{value}");
        if let Value::String(text) = expected {
            assert!(outcome.text.contains(&text), "{}", outcome.text);
        }
    }

    #[test]
    fn bodies_are_shown_as_what_they_are_r070() {
        check_body("text/plain", b"hello", "body", json!("hello"), "");
        check_body("text/plain; charset=utf-8", "h\u{e9}".as_bytes(), "body", json!("h\u{e9}"), "");
        check_body("text/plain; charset=iso-8859-1", b"h\xe9 \x80", "body", json!("h\u{e9} \u{20ac}"), "");
        check_body("text/plain; charset=gbk", b"\xc4\xe3\xba\xc3", "base64", json!("xOO6ww=="), "gbk is not known");
        check_body("text/plain", b"\xc4\xe3\xba\xc3", "base64", json!("xOO6ww=="), "no character set is declared");
        check_body("", b"\xc4\xe3\xba\xc3", "base64", json!("xOO6ww=="), "no character set is declared");
        check_body("text/plain; charset=utf-8", b"a\xff", "body", json!("a\u{fffd}"), "1 bytes were not UTF-8");
        check_body("application/json", b"\xef\xbb\xbf{\"a\": 1}", "body", json!({"a": 1}), "byte order mark");
        check_body("application/json", b"{\"a\": \"\xff\"}", "base64", json!("eyJhIjogIv8ifQ=="), "not UTF-8");
        check_body("application/json", b"{oops", "body", json!("{oops"), "not valid JSON");
        check_body("application/x-own", b"text after all", "body", json!("text after all"), "");
        check_body("application/json", b"", "body", Value::Null, "");
    }

    #[test]
    fn bytes_that_are_no_text_are_described_and_stored() {
        for (content_type, body) in
            [("image/png", b"\x89PNG".as_slice()), ("image/png", b"text"), ("application/x-own", b"a\0b")]
        {
            let (outcome, value) = shown(&case(content_type, body));
            let described = format!("{content_type}, {} bytes, not text", body.len());
            assert_eq!((&value["body"], value["described"].as_str()), (&Value::Null, Some(described.as_str())));
            assert!(outcome.truncated && outcome.text.contains(&described), "{}", outcome.text);
            assert!(outcome.text.contains("could not be stored"), "{}", outcome.text);
        }
    }

    #[test]
    fn a_rendering_stands_alone() {
        let mut case = case("application/json", br#"{"id": 9007199254740993, "f": 1.0}"#);
        case.headers.push(("location", "/next".into()));
        let (outcome, _) = shown(&case);
        assert_eq!(
            outcome.text,
            "HTTP 200 OK, application/json, 34 bytes\nlocation: /next\n{\"id\":9007199254740993,\"f\":1.0}"
        );
        assert_eq!(
            outcome.structured.unwrap(),
            r#"{"status":200,"headers":{"location":"/next","content-type":"application/json"},"body":{"id":9007199254740993,"f":1.0},"bytes":34,"truncated":false}"#
        );
        assert_eq!(outcome.code, None);
    }

    #[test]
    fn digits_survive_whatever_their_size_r035() {
        let body = br#"{"id":9007199254740993,"f":1.0,"e":1e2,"big":725653563933458432}"#;
        let (outcome, _) = shown(&case("application/json", body));
        assert!(outcome.structured.unwrap().contains(str::from_utf8(body).unwrap()));
    }

    #[test]
    fn half_a_surrogate_pair_never_leaves_r021() {
        let (outcome, value) = shown(&case("application/json", br#"{"a":"x\ud83d y","b":"\u0000"}"#));
        assert_eq!(value["body"], json!({"a": "x\u{fffd} y", "b": "\0"}));
        assert!(outcome.text.contains("1 halves of surrogate pairs"), "{}", outcome.text);
    }

    #[test]
    fn deep_json_is_shown_as_text() {
        for (depth, as_text) in [(NESTING_LEVELS, false), (NESTING_LEVELS + 1, true), (10_000, true)] {
            let body = format!("{}\"]\\\"[\"{}", "[".repeat(depth), "]".repeat(depth));
            let (_, value) = shown(&case("application/json", body.as_bytes()));
            assert_eq!(value["body"].is_string(), as_text, "{depth}");
        }
    }

    #[test]
    fn a_large_array_shows_its_first_items_and_the_count() {
        let body = json!((0..2000).map(|n| json!({"number": n, "title": "t\"itle"})).collect::<Vec<_>>()).to_string();
        let (outcome, value) = shown(&case("application/json", body.as_bytes()));
        let items = value["items"].as_array().unwrap();
        assert_eq!((value["shown"].as_u64(), value["items_total"].as_u64()), (Some(items.len() as u64), Some(2000)));
        assert_eq!(items[7], json!({"number": 7, "title": "t\"itle"}));
        assert!(items.len() > 200 && outcome.truncated && value["body"].is_null());
        assert!(outcome.text.contains(&format!("the first {} of 2000 items", items.len())), "{}", outcome.text);

        let (outcome, value) = shown(&Case { select: &["/*/number"], ..case("application/json", body.as_bytes()) });
        assert!(!outcome.truncated || value["shown"].as_u64() > Some(900), "{value}");
    }

    #[test]
    fn json_that_does_not_fit_is_cut_as_text() {
        let body = json!({"a": "x".repeat(50_000), "z": 1}).to_string();
        let (outcome, value) = shown(&case("application/json", body.as_bytes()));
        let text = value["body"].as_str().unwrap();
        assert!(text.starts_with("{\"a\":\"xxx") && text.ends_with("\"z\":1}") && outcome.truncated);
        assert!(outcome.text.contains(text) && outcome.text.contains("narrow the request"));
    }

    /// A body with a selection, shown by sinks that can store.
    fn stored(dir: &StateDir, body: &[u8], select: &[&str], look: &dyn Fn() -> Look) -> Option<Outcome> {
        let select: Vec<String> = select.iter().map(|pointer| (*pointer).to_owned()).collect();
        let headers = vec![("content-type".to_owned(), b"application/json".to_vec())];
        let mut shown = Shown::new(Head { status: 200, reason: "OK", headers }, &select, &dir.sinks(), 32 << 10);
        body.chunks(CHUNK_BYTES).for_each(|chunk| shown.write(chunk));
        shown.finish(Ending::Whole, look)
    }

    #[test]
    fn json_is_parsed_up_to_its_limit_and_shown_as_text_past_it() {
        let dir = StateDir::new();
        let limit = usize::try_from(ARTIFACT_BYTES).unwrap();
        for (length, parsed) in [(JSON_BODY_BYTES, true), (JSON_BODY_BYTES + 1, true), (limit, true), (limit + 1, false)] {
            let body = format!("[\"a\",\"{}\"]", "x".repeat(length - 8));
            let outcome = stored(&dir, body.as_bytes(), &[], &|| Look::GoOn).unwrap();
            let value: Value = serde_json::from_str(outcome.structured.as_deref().unwrap()).unwrap();
            assert_eq!(value["items"] == json!(["a"]), parsed, "{length}");
            assert_eq!(value["notes"].to_string().contains("larger than 16 MiB"), !parsed, "{length}");
            assert_eq!((outcome.truncated, outcome.stored.len()), (true, 1));
        }
    }

    #[test]
    fn a_selection_of_16_mib_looks_at_the_cancel() {
        let dir = StateDir::new();
        let element = json!({"number": 7, "rest": "x".repeat(900)}).to_string();
        let count = usize::try_from(ARTIFACT_BYTES).unwrap() / (element.len() + 1) - 1;
        let body = format!("[{}]", vec![element; count].join(","));
        let looks = std::cell::Cell::new(0_u64);
        let never = || {
            looks.set(looks.get() + 1);
            Look::GoOn
        };
        let outcome = stored(&dir, body.as_bytes(), &["/*/number"], &never).unwrap();
        assert_eq!(outcome.stored.len(), 1);
        assert!(looks.get() > ARTIFACT_BYTES / CHUNK_BYTES as u64, "{}", looks.get());
        let half = looks.get() / 2;
        looks.set(0);
        let at_half = || {
            looks.set(looks.get() + 1);
            if looks.get() >= half { Look::Cancelled } else { Look::GoOn }
        };
        assert!(stored(&dir, body.as_bytes(), &["/*/number"], &at_half).is_none());
        assert!(looks.get() < half + 8, "{} of {half}", looks.get());
        drop(outcome);
        assert_eq!(dir.files(), [""; 0]);
    }

    #[test]
    fn json_whose_time_is_over_is_shown_as_text_and_says_so() {
        let dir = StateDir::new();
        let body = json!([{"number": 1}, {"number": 2}]).to_string();
        let outcome = stored(&dir, body.as_bytes(), &["/*/number"], &|| Look::Late).unwrap();
        let note = "[tidegate: the call's time was over before the JSON had been looked at, so `select` was not applied]";
        assert!(outcome.text.contains(&body) && outcome.text.contains(note), "{}", outcome.text);
        assert_eq!((outcome.code, outcome.truncated), (None, false));
    }

    #[test]
    fn a_selection_applies_to_what_succeeded() {
        let body = br#"[{"number":1,"title":"a","x":2}]"#;
        let selected = Case { select: &["/*/number", "/*/title"], ..case("application/json", body) };
        assert_eq!(shown(&selected).1["body"], json!([{"number": 1, "title": "a"}]));
        assert_eq!(shown(&Case { status: 404, ..selected }).1["body"], json!([{"number": 1, "title": "a", "x": 2}]));
        let (outcome, value) = shown(&Case { select: &["/nothing"], ..case("application/json", body) });
        assert_eq!(value["body"][0]["x"], 2);
        assert!(outcome.text.contains("names nothing"), "{}", outcome.text);
    }

    #[test]
    fn a_failure_of_the_target_is_one_with_its_content() {
        let (outcome, value) = shown(&Case { status: 404, ..case("application/json", br#"{"message":"no"}"#) });
        assert_eq!(outcome.code, Some(Code::TargetError));
        assert_eq!(value["body"], json!({"message": "no"}));
        assert_eq!(
            outcome.text,
            "tidegate: target_error (executed: yes): HTTP 404 Not Found, application/json, 16 bytes\n{\"message\":\"no\"}"
        );
    }

    #[test]
    fn a_cut_body_never_looks_whole() {
        let message = "the response is incomplete, 2 of 30 bytes came, then the connection was closed";
        let ending = Ending::Cut { code: Code::ConnectionLost, message: message.into() };
        let (outcome, value) = shown(&Case { ending, ..case("application/json", b"12") });
        assert_eq!((outcome.code, outcome.truncated), (Some(Code::ConnectionLost), true));
        assert_eq!((&value["incomplete"], &value["body"]), (&json!(message), &json!("12")));
        assert!(outcome.text.starts_with(&format!("tidegate: connection_lost (executed: yes): {message}\nHTTP 200 OK")));
    }

    #[test]
    fn both_copies_of_anything_stay_within_any_limit() {
        let bodies: [Vec<u8>; 7] = [
            b"plain text ".repeat(9000),
            b"\x1b]8;;x\x07\xc2\x9b\r\"\\".repeat(9000),
            vec![0; 80_000],
            (0..=255).cycle().take(100_000).collect(),
            json!((0..5000).collect::<Vec<_>>()).to_string().into_bytes(),
            json!({"deep": {"\u{1}\u{85}\u{2028}\"": "\u{1F389}\\".repeat(20_000)}}).to_string().into_bytes(),
            json!(vec!["\"\\".repeat(300); 200]).to_string().into_bytes(),
        ];
        let types = [
            "application/json",
            "text/plain",
            "text/plain; charset=latin1",
            "text/x; charset=utf-8",
            "a/b; charset=x-nobody",
            "image/png",
        ];
        let flood: Vec<(&str, String)> =
            (0..100).map(|_| ("x-flood", "\u{1F389}\"".repeat(9))).chain([("link", "l".repeat(30))]).collect();
        for (body, content_type) in bodies.iter().flat_map(|body| types.map(|content_type| (body, content_type))) {
            for content_bytes in [CONTENT_BYTES_MIN, 5000, 32 << 10, 300_000] {
                for length in [1, 500, 2000, body.len()] {
                    let mut case = Case { content_bytes, ..case(content_type, &body[..length.min(body.len())]) };
                    case.headers.extend(flood.clone());
                    shown(&case);
                    case.status = 404;
                    let message = format!(
                        "the response is incomplete, {0} of {0} bytes came, then it was malformed: {1}",
                        u64::MAX,
                        "x".repeat(200)
                    );
                    case.ending = Ending::Cut { code: Code::ResponseMalformed, message };
                    shown(&case);
                }
            }
        }
    }

    #[test]
    fn a_cancel_ends_the_work_on_a_body() {
        let head = Head { status: 200, reason: "OK", headers: vec![("content-type".into(), b"application/json".to_vec())] };
        let mut shown = Shown::new(head, &[], &sinks(), 32 << 10);
        shown.write(b"[1]");
        assert_eq!(shown.finish(Ending::Whole, &|| Look::Cancelled), None);
    }
}
