//! JSONTestSuite through the strict reading of a line: what it must accept is never called unparsable, what it must
//! reject is never anything else, alone or as the parameters of a request.

use std::fs;

use tidegate::rpc::error::PARSE_ERROR;
use tidegate::rpc::message::{MalformedKind, Message, parse};

use crate::shared::shared;

/// The files whose names begin with `prefix`: name and bytes.
fn files(prefix: &str) -> Vec<(String, Vec<u8>)> {
    let Some(folder) = shared("data/json-test-suite/test_parsing") else {
        return Vec::new();
    };
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .expect("the folder exists")
        .map(|entry| entry.expect("the folder is readable"))
        .map(|entry| (entry.file_name().into_string().expect("names are ASCII"), entry.path()))
        .filter(|(name, _)| name.starts_with(prefix))
        .map(|(name, path)| (name, fs::read(path).expect("the file is readable")))
        .collect();
    files.sort();
    assert!(files.len() > 30, "only {} files begin with {prefix}", files.len());
    files
}

fn as_params(text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"v":{text}}}}}"#)
}

#[test]
fn what_is_json_is_never_unparsable() {
    for (name, bytes) in files("y_") {
        let text = String::from_utf8(bytes).expect("y_ files are UTF-8");
        // None of them is a message, so each is refused, and for another reason.
        let code = parse(&text).unwrap_err().code();
        assert_ne!(code, PARSE_ERROR, "{name}");
        match parse(&as_params(&text)) {
            Ok(Message::Request(request)) => {
                assert_eq!(request.params(), Some(&*format!("{{\"v\":{text}}}")), "{name}");
            }
            Err(malformed) => {
                assert_eq!(malformed.kind(), MalformedKind::DuplicateKey, "{name}");
                assert!(name.starts_with("y_object_duplicated_key"), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn what_is_no_json_is_unparsable() {
    for (name, bytes) in files("n_") {
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        for line in [text.clone(), as_params(&text)] {
            let malformed = parse(&line).expect_err(&name);
            assert_eq!(malformed.code(), PARSE_ERROR, "{name}: {malformed}");
            assert_eq!(malformed.id(), None, "{name}");
        }
    }
}

#[test]
fn what_parsers_may_differ_on_is_decided() {
    for (name, bytes) in files("i_") {
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        let decided = match parse(&as_params(&text)) {
            Ok(Message::Request(_)) => "exact",
            Err(malformed) => malformed.kind().name(),
            Ok(other) => panic!("{name}: {other:?}"),
        };
        // Numbers stay as they are written; the rest has no meaning that everybody shares.
        let expected = match &*name {
            "i_structure_500_nested_arrays.json" => "too_deep",
            "i_structure_UTF-8_BOM_empty_object.json" => "not_json",
            name if name.starts_with("i_number") => "exact",
            _ => "lone_surrogate",
        };
        assert_eq!(decided, expected, "{name}");
    }
}
