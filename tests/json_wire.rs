//! JSONTestSuite through the real wire: each file as a whole line and as a value inside a valid request, sent to the binary
//! with `on_malformed: "continue"`. A probe behind every line shows that the session lives on, and nothing more was answered.

use std::fs;

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::shared::shared;

/// Answers a session gives before another one begins: ten errors without an id are always sent, and one file makes up to four.
const ANSWERS: usize = 6;

/// What came back for one line: `[code, id]` of an error, `[{}, id]` of a result.
type Answers = Vec<Value>;

struct Wire {
    gateway: Option<Running>,
    answered: usize,
}

impl Wire {
    fn new() -> Wire {
        Wire { gateway: None, answered: 0 }
    }

    /// Sends bytes and a line feed; everything that is answered before the probe is.
    #[track_caller]
    fn ask(&mut self, bytes: &[u8]) -> Answers {
        if self.answered > ANSWERS {
            self.end();
        }
        let start = || Gateway::new().set("session", json!({"on_malformed": "continue"})).says_anything().start();
        let gateway = self.gateway.get_or_insert_with(start);
        gateway.send_raw(&[bytes, b"\n"].concat());
        let is_error = |message: &Value| message.get("error").is_some();
        let answer = |message: Value| match is_error(&message) {
            true => json!([message["error"]["code"], message["id"]]),
            false => json!([message["result"], message["id"]]),
        };
        let answers: Answers = gateway.probe().into_iter().map(answer).collect();
        self.answered += answers.len();
        answers
    }

    fn end(&mut self) {
        self.answered = 0;
        if let Some(gateway) = self.gateway.take() {
            gateway.end();
        }
    }
}

/// The files whose names begin with `prefix`: name and bytes, without a line feed at the end.
fn files(prefix: &str) -> Vec<(String, Vec<u8>)> {
    let Some(folder) = shared("data/json-test-suite/test_parsing") else { return Vec::new() };
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = entries.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path));
    let mut files: Vec<_> = named.filter(|(name, _)| name.starts_with(prefix)).collect();
    files.sort();
    assert!(files.len() > 30, "only {} files begin with {prefix}", files.len());
    let read = |path| {
        let bytes = fs::read(path).unwrap();
        bytes.strip_suffix(b"\n").map_or(bytes.clone(), <[u8]>::to_vec)
    };
    files.into_iter().map(|(name, path)| (name, read(path))).collect()
}

fn inside_ping(bytes: &[u8]) -> Vec<u8> {
    [br#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"#, bytes, b"}}"].concat()
}

/// A value over several lines is several lines: each is refused, none is anything else.
#[track_caller]
fn check_spread(name: &str, answers: &Answers) {
    assert!(!answers.is_empty(), "{name}");
    for answer in answers {
        assert!([json!(-32700), json!(-32600)].contains(&answer[0]) && answer[1].is_null(), "{name}: {answers:?}");
    }
}

#[test]
fn what_is_json_is_no_message_alone_and_a_value_inside_one() {
    let mut wire = Wire::new();
    for (name, bytes) in files("y_") {
        let (alone, inside) = (wire.ask(&bytes), wire.ask(&inside_ping(&bytes)));
        if bytes.contains(&b'\n') {
            check_spread(&name, &inside);
            continue;
        }
        // One of them has an id, under which the refusal of the rest is sent.
        let id = if name == "y_object_long_strings.json" { json!("x".repeat(40)) } else { Value::Null };
        assert_eq!(alone, [json!([-32600, id])], "{name}");
        // The suite allows a key twice; whoever reads a request must not.
        let expected = if name.starts_with("y_object_duplicated_key") { json!([-32600, 7]) } else { json!([{}, 7]) };
        assert_eq!(inside, [expected], "{name}");
    }
    wire.end();
}

#[test]
fn what_is_no_json_is_a_parse_error_alone_and_inside_a_message() {
    let mut wire = Wire::new();
    let is_blank = |bytes: &[u8]| bytes.iter().all(|byte| b" \t\r".contains(byte));
    for (name, bytes) in files("n_") {
        let (alone, inside) = (wire.ask(&bytes), wire.ask(&inside_ping(&bytes)));
        if bytes.contains(&b'\n') {
            check_spread(&name, &alone);
            check_spread(&name, &inside);
            continue;
        }
        let expected = if is_blank(&bytes) { vec![] } else { vec![json!([-32700, null])] };
        assert_eq!(alone, expected, "{name}");
        assert_eq!(inside, [json!([-32700, null])], "{name}");
    }
    wire.end();
}

#[test]
fn what_parsers_may_differ_on_is_decided_on_the_wire() {
    let mut wire = Wire::new();
    for (name, bytes) in files("i_") {
        let expected = match &*name {
            _ if std::str::from_utf8(&bytes).is_err() || name.contains("BOM_empty_object") => json!([-32700, null]),
            // Nothing reads the digits of a ping.
            name if name.starts_with("i_number") => json!([{}, 7]),
            // Five hundred levels, or half a surrogate pair.
            _ => json!([-32602, 7]),
        };
        assert_eq!(wire.ask(&inside_ping(&bytes)), [expected], "{name}");
    }
    wire.end();
}
