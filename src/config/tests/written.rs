//! What is said: JSON, keys, types, bounds, and where each problem stands.

use super::*;

#[test]
fn what_is_no_json_says_where() {
    for (text, line) in [
        ("", "1:1: not JSON: EOF while parsing a value"),
        ("{", "1:1: not JSON: EOF while parsing an object"),
        ("{} {}", "1:4: not JSON: trailing characters"),
        ("{\"log\": {},}", "1:12: not JSON: key must be a string"),
        ("{\n  // no\n}", "2:3: not JSON: key must be a string"),
        ("{\n\"é\": \"ü\" x}", "2:10: not JSON: expected `,` or `}`"),
        ("{\"a\": NaN}", "1:7: not JSON: expected value"),
        ("{\"a\": 01}", "1:8: not JSON: invalid number"),
        ("{\"a\": \"\\x\"}", "1:9: not JSON: invalid escape"),
        ("{\"a\": \"\n\"}", "1:7: not JSON: control character (\\u0000-\\u001F) found while parsing a string"),
        ("\u{feff}{}", "1:1: begins with a byte order mark, expected JSON"),
    ] {
        check_errors(text, &[line]);
    }
}

#[test]
fn duplicate_keys_are_refused_at_any_depth() {
    check_errors("{\"log\": {},\n \"log\": 1}", &["2:2: duplicate key \"log\", first at 1:2"]);
    check_errors(
        &tool("\n\"exec\":{\"argv\":[\"sh\"]},\n\"input\":{\"type\":\"object\",\"properties\":{\"a\":{},\n\"\\u0061\":{}}}"),
        &[
            "3:40: /tools/0/input/properties/a: no placeholder uses this argument",
            "4:1: /tools/0/input/properties: duplicate key \"a\", first at 3:40",
        ],
    );
    check_errors(
        &tool(
            "\"http\":{\"method\":\"POST\",\"url\":\"https://a.example/\",\"body\":{\"json\":[{\"a\":1,\"b\":{\"c\":1,\"c\":1}}]}}",
        ),
        &["1:126: /tools/0/http/body/json/0/b: duplicate key \"c\", first at 1:120"],
    );
}

#[test]
fn strings_numbers_and_depth_are_held_or_refused() {
    check_errors(r#"{"state_dir":"/\ud800"}"#, &["1:14: /state_dir: not JSON: unexpected end of hex escape"]);
    check_errors(r#"{"limits":{"calls":1e999}}"#, &["1:20: /limits/calls: the number \"1e999\" cannot be held exactly"]);
    check_errors(r#"{"$serde_json::private::RawValue":"{}"}"#, &["1:2: keys with this prefix are serde_json's own"]);
    let nested = |levels: usize| {
        let inner = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        tool(&format!(r#""http":{{"method":"POST","url":"https://a.example/","body":{{"json":{inner}}}}}"#))
    };
    check_ok(&nested(tree::DEPTH_MAX - 5));
    let pointer = format!("/tools/0/http/body/json{}", "/0".repeat(tree::DEPTH_MAX - 5));
    check_errors(&nested(tree::DEPTH_MAX - 4), &[&format!("1:166: {pointer}: nested deeper than 64 levels")]);
    let deep = parse(&nested(20_000)).unwrap_err();
    assert_eq!(deep.total, 1);
}

#[test]
fn positions_hold_behind_multibyte_text_and_lines() {
    check_errors(
        "{\n  \"tools\": [\n    {\"name\": \"a\", \"description\": \"größer 🦀\", \"tite\": \"\",\n     \"exec\": {\"argv\": [\"sh\", 1]}}\n  ],\n  \"é/~\\n\": 1\n}",
        &[
            "3:46: /tools/0/tite: unknown key, nearest is \"title\"",
            "4:30: /tools/0/exec/argv/1: expected a string, got a number",
            "6:3: /é~1~0\\u{a}: unknown key, expected one of \"$schema\", \"session\", \"limits\", \"log\", \"journal\", \"approvals\", \"state_dir\", \"networks\", \"credentials\", \"hosts\", \"tools\", \"builtin\"",
        ],
    );
}

#[test]
fn unknown_keys_name_their_nearest() {
    check_errors(r#"{"toolz":[]}"#, &["1:2: /toolz: unknown key, nearest is \"tools\""]);
    check_errors(r#"{"log":{"levle":"info"}}"#, &["1:9: /log/levle: unknown key, nearest is \"level\""]);
    check_errors(
        &tool(r#""http":{"methud":"GET","url":"https://a.example/"}"#),
        &["1:49: /tools/0/http/methud: unknown key, nearest is \"method\""],
    );
    check_errors(
        r#"{"credentials":{"k":{"from":{"env":"K"},"as":{"bearer":{"x":1}},"for":[{"host":"a.example","path":[]}]}}}"#,
        &[
            "1:57: /credentials/k/as/bearer/x: unknown key, expected none",
            "1:92: /credentials/k/for/0/path: unknown key, nearest is \"paths\"",
        ],
    );
}

#[test]
fn what_is_not_carried_out_yet_is_refused() {
    check_errors(r#"{"servers":{}}"#, &["1:2: /servers: \"servers\" is not supported by this version"]);
}

#[test]
fn types_and_words() {
    check_errors("[]", &["1:1: expected an object, got an array"]);
    for (text, line) in [
        (r#"{"$schema":1}"#, "1:12: /$schema: expected a string, got a number"),
        (r#"{"session":null}"#, "1:12: /session: expected an object, got null"),
        (
            r#"{"session":{"on_malformed":"open"}}"#,
            "1:28: /session/on_malformed: expected one of \"close\", \"continue\", got \"open\"",
        ),
        (
            r#"{"log":{"level":"INFO"}}"#,
            "1:17: /log/level: expected one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", got \"INFO\"",
        ),
        (r#"{"log":{"format":"xml"}}"#, "1:18: /log/format: expected one of \"text\", \"json\", got \"xml\""),
        (r#"{"log":{"file":"x.log"}}"#, "1:16: /log/file: expected an absolute path, got \"x.log\""),
        (r#"{"log":{"file":"/x\u0000"}}"#, "1:16: /log/file: expected an absolute path, got \"/x\\u{0}\""),
        (r#"{"journal":{"sync":true}}"#, "1:20: /journal/sync: expected a string, got a boolean"),
        (r#"{"state_dir":"state"}"#, "1:14: /state_dir: expected an absolute path, got \"state\""),
        (r#"{"networks":{}}"#, "1:13: /networks: expected an array, got an object"),
        (
            r#"{"networks":["10.0.0.1/8"]}"#,
            "1:14: /networks/0: the address has bits beyond its prefix, expected 10.0.0.0/8, got \"10.0.0.1/8\"",
        ),
        (r#"{"tools":{}}"#, "1:10: /tools: expected an array, got an object"),
        (r#"{"tools":[1]}"#, "1:11: /tools/0: expected an object, got a number"),
    ] {
        check_errors(text, &[line]);
    }
    check_errors(
        &tool(r#""annotations":{"readOnlyHint":"yes"},"allow_dash":1,"confirm":"always","title":"","exec":{"argv":["sh"]}"#),
        &[
            "1:71: /tools/0/annotations/readOnlyHint: expected true or false, got a string",
            "1:91: /tools/0/allow_dash: expected true or false, got a number",
            "1:103: /tools/0/confirm: expected one of \"never\", \"ask\", \"session\", got \"always\"",
            "1:120: /tools/0/title: expected a string that is not empty, got \"\"",
        ],
    );
}

#[test]
fn bounds_hold_at_the_limit_and_not_one_past() {
    for (section, key, least, most, what) in [
        ("session", "grace_ms", 0, 1500, "milliseconds"),
        ("limits", "line_in_bytes", 1024, 4_194_304, "bytes"),
        ("limits", "content_bytes", 4096, 950_272, "bytes (the most that fits one line out)"),
        ("limits", "calls", 1, 64, "calls"),
        ("limits", "workers", 1, 16, "workers"),
    ] {
        let text = |value: i64| format!(r#"{{"{section}":{{"{key}":{value}}}}}"#);
        let at = section.len() + key.len() + 9;
        let line = |got: i64| format!("1:{at}: /{section}/{key}: expected {what} from {least} to {most}, got {got}");
        check_ok(&text(least));
        check_ok(&text(most));
        check_errors(&text(least - 1), &[&line(least - 1)]);
        check_errors(&text(most + 1), &[&line(most + 1)]);
    }
    for (seconds, expected) in [
        ("0.001", Ok(1)),
        ("0.25", Ok(250)),
        ("3600", Ok(3_600_000)),
        ("36e2", Ok(3_600_000)),
        ("0.0009", Err(())),
        ("0", Err(())),
        ("3600.1", Err(())),
        ("-1", Err(())),
    ] {
        let text = format!(r#"{{"limits":{{"call_timeout_s":{seconds}}}}}"#);
        match expected {
            Ok(ms) => assert_eq!(check_ok(&text).limits.call_timeout, Duration::from_millis(ms)),
            Err(()) => {
                check_errors(
                    &text,
                    &[&format!("1:29: /limits/call_timeout_s: expected seconds from 0.001 to 3600, got {seconds}")],
                );
            }
        }
    }
}
