//! Tables of lines and what they mean; the rows follow the table "What a bad line does".

use super::*;
use std::collections::HashSet;

/// `request 1 ping {}`, `notification x/y -`, `response 1 ok {}`, or `not_json -32700 Lost -: message`.
fn meaning(line: &str) -> String {
    match parse(line) {
        Ok(Message::Request(r)) => {
            format!("request {} {} {}", r.id, r.method, r.params.unwrap_or("-"))
        }
        Ok(Message::Notification(n)) => {
            format!("notification {} {}", n.method, n.params.unwrap_or("-"))
        }
        Ok(Message::Response(r)) => {
            let flaw = r.flaw.map_or("", MalformedKind::name);
            match r.outcome {
                Ok(raw) => format!("response {} result {raw} {flaw}", r.id),
                Err(raw) => format!("response {} error {raw} {flaw}", r.id),
            }
        }
        Ok(Message::Unaddressed(raw)) => format!("unaddressed {raw}"),
        Ok(Message::Ignored(kind)) => format!("ignored {}", kind.name()),
        Err(m) => {
            let id = m.id().map_or("-".to_owned(), Id::to_string);
            format!("{} {} {:?} {id}", m.kind().name(), m.code(), m.class())
        }
    }
}

#[track_caller]
fn check_meaning(line: &str, expected: &str) {
    assert_eq!(meaning(line).trim_end(), expected, "{}", shown(line));
}

#[track_caller]
fn check_text(line: &str, expected: &str) {
    assert_eq!(parse(line).unwrap_err().message(), expected);
}

#[test]
fn well_formed_messages() {
    for (line, expected) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping -"),
        (
            r#" { "method" : "a\u0062" , "params" : { "x" : 1.0 } , "id" : "1" , "jsonrpc" : "2.0" } "#,
            r#"request "1" ab { "x" : 1.0 }"#,
        ),
        (r#"{"jsonrpc":"2\u002e0","id":-0,"method":"","params":{},"zzz":1}"#, "request -0  {}"),
        (r#"{"jsonrpc":"2.0","method":"x/y"}"#, "notification x/y -"),
        (r#"{"jsonrpc":"2.0","method":"x/y","params":{"a":[]}}"#, r#"notification x/y {"a":[]}"#),
        (r#"{"jsonrpc":"2.0","id":"tg-1","result":{"a":1.0}}"#, r#"response "tg-1" result {"a":1.0}"#),
        (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "response 1 result null"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#, r#"response 1 error {"code":1}"#),
        // An error for nobody is no reason to answer anything (R029, R030).
        (r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#, r#"unaddressed {"code":-32700,"message":"x"}"#),
        (r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, "unaddressed {}"),
    ] {
        check_meaning(line, expected);
    }
}

#[test]
fn unparsable_lines_are_parse_errors_without_id_s8_r023_r030() {
    for line in [
        "{bad",
        "",
        "& \"$env:X\\\\y\"",
        "{\"jsonrp",
        "NaN",
        "{\"a\":Infinity}",
        "{\"id\":1,}",
        "// x",
        "\u{feff}{}",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#,
        r#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#,
        "{'id':1}",
        "[1,",
        "tru",
        "\u{a0}{}",
        "\u{b}{}",
        "{\"a\":\"\t\"}",
    ] {
        check_meaning(line, "not_json -32700 Lost -");
    }
}

#[test]
fn a_hundred_thousand_brackets_are_only_a_parse_error_r034() {
    check_meaning(&"[".repeat(100_000), "not_json -32700 Lost -");
    check_meaning(&"{\"a\":".repeat(100_000), "not_json -32700 Lost -");
}

#[test]
fn each_line_of_a_spread_message_is_malformed_r017() {
    for line in ["{", "  \"jsonrpc\": \"2.0\",", "  \"id\": 1,", "  \"method\": \"ping\"", "}"] {
        check_meaning(line, "not_json -32700 Lost -");
    }
}

#[test]
fn arrays_and_scalars_are_no_messages_s11_r031() {
    for line in [r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "[]", "\"hi\"", "42", "null", "true", " [ ] "] {
        check_meaning(line, "not_an_object -32600 Lost -");
    }
}

#[test]
fn broken_envelopes_are_invalid_requests() {
    for (line, expected) in [
        (r#"{"a":1}"#, "wrong_version -32600 Lost -"),
        (r#"{}"#, "wrong_version -32600 Lost -"),
        (r#"{"id":3,"method":"ping"}"#, "wrong_version -32600 Lost 3"),
        (r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#, "wrong_version -32600 Lost 3"),
        (r#"{"jsonrpc":2.0,"id":3,"method":"ping"}"#, "wrong_version -32600 Lost 3"),
        (r#"{"jsonrpc":null,"method":"x"}"#, "wrong_version -32600 Lost -"),
        (r#"{"jsonrpc":"2.0","id":3}"#, "no_method_or_outcome -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0"}"#, "no_method_or_outcome -32600 Lost -"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"x","result":{}}"#, "ambiguous -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"x","error":{}}"#, "ambiguous -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","id":3,"result":{},"error":{}}"#, "ambiguous -32600 Lost -"),
        (r#"{"jsonrpc":"2.0","id":3,"method":5}"#, "bad_method -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":null}"#, "bad_method -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","method":["x"]}"#, "bad_method -32600 Lost -"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"x","params":[1]}"#, "bad_params -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"x","params":null}"#, "bad_params -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"x","params":"{}"}"#, "bad_params -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","result":{}}"#, "missing_id -32600 Lost -"),
    ] {
        check_meaning(line, expected);
    }
}

#[test]
fn illegal_ids_are_never_notifications_s5_r026_r027() {
    for id in ["null", "true", "[1]", "{\"a\":1}", "1.5", "3100.0", "1e3", "\"\\ud83d\""] {
        check_meaning(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#), "bad_id -32600 Lost -");
    }
    check_meaning(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, "bad_id -32600 Lost -");
    check_meaning(r#"{"jsonrpc":"2.0","id":null,"error":{},"method":"x"}"#, "bad_id -32600 Lost -");
    check_meaning(r#"{"jsonrpc":"2.0","id":1.5,"error":{}}"#, "bad_id -32600 Lost -");
}

#[test]
fn ids_of_any_length_are_exact_r034() {
    let line = format!(r#"{{"jsonrpc":"2.0","id":{},"method":"ping"}}"#, "9".repeat(5000));
    let Ok(Message::Request(request)) = parse(&line) else { panic!("no request") };
    assert_eq!(request.id().to_json(), "9".repeat(5000));
    let line = line.replace("999", &"9".repeat(300));
    check_meaning(&line, "bad_id -32600 Lost -");
}

#[test]
fn numbers_in_params_stay_raw_r034_r035() {
    for number in ["9".repeat(5000), "1e400".to_owned(), "1.0".to_owned(), "9007199254740993".to_owned()] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"n":{number}}}}}"#);
        check_meaning(&line, &format!("request 1 ping {{\"n\":{number}}}"));
    }
}

#[test]
fn duplicate_keys_are_refused_at_any_depth() {
    for (line, expected) in [
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":3,"method":"x"}"#, "duplicate_key -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","id":3,"id":3,"method":"x"}"#, "duplicate_key -32600 Lost -"),
        (r#"{"jsonrpc":"2.0","id":3,"\u0069d":4,"method":"x"}"#, "duplicate_key -32600 Lost -"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"x","meth\u006fd":"y"}"#, "duplicate_key -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"x","params":{},"params":{}}"#, "duplicate_key -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"x","z":1,"z":1}"#, "duplicate_key -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"x","params":{"a":[{"b":1,"\u0062":2}]}}"#, "duplicate_key -32600 Lost 3"),
        (r#"{"jsonrpc":"2.0","method":"x","params":{"a":1,"a":1}}"#, "duplicate_key -32600 Lost -"),
        // The id of a response is not the peer's request: no error may go out under it.
        (r#"{"jsonrpc":"2.0","id":3,"result":{"a":1,"a":1}}"#, "duplicate_key -32600 Lost -"),
        (r#"{"jsonrpc":"2.0","id":3,"result":{},"result":{}}"#, "duplicate_key -32600 Lost -"),
    ] {
        check_meaning(line, expected);
    }
}

#[test]
fn reserved_keys_are_refused() {
    let line = r#"{"jsonrpc":"2.0","id":3,"method":"x","params":{"a":{"$serde_json::private::RawValue":"{}"}}}"#;
    check_meaning(line, "reserved_key -32600 Lost 3");
}

fn deep(head: &str, levels: usize) -> String {
    format!("{head}{}1{}}}", "{\"x\":".repeat(levels), "}".repeat(levels))
}

#[test]
fn nesting_is_refused_under_the_id_r033() {
    let request = r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":"#;
    let Ok(Message::Request(_)) = parse(&deep(request, 63)) else { panic!("64 levels are legal") };
    for levels in [64, 100, 124, 125, 126, 127, 128, 1000, 100_000] {
        check_meaning(&deep(request, levels), "too_deep -32602 Kept 9");
    }
    check_meaning(&deep(r#"{"jsonrpc":"2.0","method":"x","params":"#, 1000), "ignored too_deep");
    let response = deep(r#"{"jsonrpc":"2.0","id":9,"result":"#, 1000);
    assert!(meaning(&response).ends_with(" too_deep"), "the id of a response survives");
    // The envelope comes first: a message that is none stays none.
    check_meaning(&deep(r#"{"jsonrpc":"2.0","id":9,"z":"#, 1000), "no_method_or_outcome -32600 Lost 9");
    check_meaning(&deep(r#"{"jsonrpc":"2.0","id":9,"id":9,"method":"x","z":"#, 1000), "duplicate_key -32600 Lost -");
}

#[test]
fn half_a_surrogate_pair_is_refused_under_the_id_r021() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"a\ud83d b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"\ud83d":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"\ud83d"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","\ud83d":1}"#,
    ] {
        check_meaning(line, "lone_surrogate -32602 Kept 1");
    }
    check_meaning(r#"{"jsonrpc":"2.0","method":"\ud83d"}"#, "ignored lone_surrogate");
    // The envelope comes first, for a method that cannot be decoded too.
    check_meaning(r#"{"jsonrpc":"1.0","id":1,"method":"\ud83d"}"#, "wrong_version -32600 Lost 1");
    check_meaning(r#"{"jsonrpc":"2.0","id":1,"method":"\ud83d","result":{}}"#, "ambiguous -32600 Lost 1");
    check_meaning(r#"{"jsonrpc":"2.0","method":"x","params":{"a":"\udf89"}}"#, "ignored lone_surrogate");
    check_meaning(r#"{"jsonrpc":"2.0","id":1,"result":{"a":"\ud83d"}}"#, r#"response 1 result {"a":"\ud83d"} lone_surrogate"#);
    check_meaning(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\u0000"}}"#, r#"request 1 x {"a":"\u0000"}"#);
}

#[test]
fn notifications_with_other_params_are_dropped_s6() {
    for params in ["[1]", "null", "5"] {
        check_meaning(&format!(r#"{{"jsonrpc":"2.0","method":"x","params":{params}}}"#), "ignored bad_params");
    }
}

#[test]
fn messages_say_what_was_expected_and_what_came() {
    check_text("{bad", r#"expected one JSON value, got "{bad" (key must be a string at column 2)"#);
    check_text("[1]", "expected one message object, got an array: batches are not supported");
    check_text("7", "expected one message object, got a number");
    check_text(r#"{"jsonrpc":"1","id":1}"#, r#"expected jsonrpc "2.0", got "1""#);
    check_text(r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "bad id: expected a string or an integer, got null");
    check_text(
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"k\n":1,"k\n":2}}"#,
        r#"expected each key once, got "k\n" twice in one object"#,
    );
    let long = format!("{{{}", "x".repeat(5000));
    assert!(parse(&long).unwrap_err().message().len() < 160);
    assert_eq!(parse("{bad").unwrap_err().at(), Some(2));
}

#[test]
fn lsp_framing_is_named_r019() {
    check_text("Content-Length: 46", "expected one JSON message a line, got a header as of the Language Server Protocol");
}

#[test]
fn kinds_have_stable_names_and_classes() {
    let names: HashSet<&str> = MalformedKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), MalformedKind::ALL.len());
    for kind in MalformedKind::ALL {
        let kept = matches!(kind, MalformedKind::TooDeep | MalformedKind::LoneSurrogate);
        assert_eq!(kind.class() == Class::Kept, kept, "{kind:?}");
    }
}

#[test]
fn frame_errors_are_parse_errors_without_id() {
    for (error, name) in [
        (FrameError::TooLong { limit: 1, seen: 2 }, "line_too_long"),
        (FrameError::NotUtf8 { at: 0 }, "not_utf8"),
        (FrameError::Unterminated { bytes: 3 }, "unterminated"),
    ] {
        let malformed = Malformed::from(error);
        assert_eq!((malformed.kind().name(), malformed.code(), malformed.id()), (name, -32700, None));
    }
    let in_flight = Malformed::id_in_flight(&Id::integer(5));
    assert_eq!((in_flight.code(), in_flight.class(), in_flight.id()), (-32600, Class::Lost, None));
}
