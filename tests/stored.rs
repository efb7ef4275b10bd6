//! Reading on: what did not fit a reply is stored, read back byte for byte by either way, and gone when it should be.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use crate::flow::wait_for_idle_workers;
use crate::kit::dir::Dir;
use crate::kit::gateway::{Gateway, Running};
use crate::kit::peer::{Peer, ok};
use crate::kit::process::{mark, until, with_mark};
#[cfg(feature = "ssh")]
use crate::kit::sshd::Sshd;
use crate::kit::{Era, call, cancel};

const MIB: usize = 1 << 20;
const GUESS: &str = "0123456789abcdef0123456789abcdef";

/// Tools that print the files of a folder, whole or in another way.
fn tools(files: &Path) -> Value {
    let file = json!({"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]});
    json!([
        {"name": "print", "description": "Prints a file", "input": file,
         "exec": {"argv": ["cat", "--", "{file}"], "cwd": files}},
        {"name": "complain", "description": "Prints a file on stderr", "input": file,
         "exec": {"argv": ["sh", "-c", "cat -- \"$1\" >&2", "sh", "{file}"], "cwd": files}},
        {"name": "flood", "description": "Prints 40 MiB",
         "exec": {"argv": ["sh", "-c", "yes 0123456789abcde | head -c 41943040"]}},
        {"name": "wait", "description": "Prints a file, then waits",
         "input": {"type": "object", "properties": {"file": {"type": "string"}, "mark": {"type": "string"}}},
         "exec": {"argv": ["sh", "-c", "cat -- \"$1\"; exec sleep \"$2\"", "sh", "{file}", "{mark}"], "cwd": files}},
    ])
}

/// With pages of about 100 KB, so that a payload takes few calls.
fn gateway(dir: &Dir) -> Gateway {
    Gateway::new().set("tools", tools(dir.path())).set("limits", json!({"content_bytes": 200_000}))
}

fn results(gateway: &Running) -> Vec<PathBuf> {
    results_of(&gateway.dir.join("state"))
}

fn results_of(state: &Path) -> Vec<PathBuf> {
    fs::read_dir(state.join("results")).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// A call whose result is cut; gives that result.
#[track_caller]
fn cut(gateway: &mut Running, era: Era, tool: &str, arguments: Value) -> Value {
    let reply = gateway.ask(&call(era, 1, tool, &arguments.to_string()));
    let result = &reply["result"];
    assert_eq!(result["structuredContent"]["truncated"], true, "{reply}");
    assert_eq!(result["_meta"]["tidegate/outcome"]["truncated"], true);
    result.clone()
}

/// The cursor, as the structured copy has it; the text names the same.
#[track_caller]
fn cursor(result: &Value) -> String {
    let cursor = result["structuredContent"]["nextCursor"].as_str().unwrap_or_else(|| panic!("{result}"));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(&format!("cursor {cursor}")), "{}", &text[text.len().saturating_sub(600)..]);
    cursor.to_owned()
}

fn from_start(cursor: &str) -> String {
    cursor.split_once(':').unwrap().0.to_owned()
}

/// Follows the cursors with `read_result`; gives the bytes and the last page's result.
#[track_caller]
fn read_on(gateway: &mut Running, era: Era, cursor: &str) -> (Vec<u8>, Value) {
    let (mut bytes, mut next) = (Vec::new(), Some(cursor.to_owned()));
    let mut last = Value::Null;
    while let Some(cursor) = next {
        let reply = gateway.ask(&call(era, 2, "read_result", &json!({"cursor": cursor}).to_string()));
        let result = &reply["result"];
        assert_eq!(result["isError"], false, "{reply}");
        let page = &result["structuredContent"];
        let shown = page["text"].as_str().or(page["base64"].as_str()).unwrap();
        assert_eq!(result["content"][0]["text"], shown, "the first block is exactly the page");
        let piece = match page["base64"].as_str() {
            Some(base64) => BASE64_STANDARD.decode(base64).unwrap(),
            None => shown.as_bytes().to_vec(),
        };
        assert_eq!(page["bytes"], piece.len());
        bytes.extend_from_slice(&piece);
        next = page["nextCursor"].as_str().map(str::to_owned);
        last = result.clone();
    }
    (bytes, last)
}

/// Follows the URIs with `resources/read`.
#[track_caller]
fn read_resource(gateway: &mut Running, era: Era, uri: &str) -> Vec<u8> {
    let (mut bytes, mut next) = (Vec::new(), Some(uri.to_owned()));
    while let Some(uri) = next {
        let reply = gateway.ask(&resources_read(era, &uri));
        let contents = reply["result"]["contents"].as_array().unwrap_or_else(|| panic!("{reply}"));
        assert_eq!((contents.len(), contents[0]["uri"].as_str()), (1, Some(uri.as_str())));
        let piece = match contents[0]["blob"].as_str() {
            Some(blob) => BASE64_STANDARD.decode(blob).unwrap(),
            None => contents[0]["text"].as_str().unwrap().as_bytes().to_vec(),
        };
        bytes.extend_from_slice(&piece);
        next = reply["result"]["_meta"]["tidegate/page"]["nextUri"].as_str().map(str::to_owned);
    }
    bytes
}

fn resources_read(era: Era, uri: &str) -> String {
    let meta = match era {
        Era::Legacy => String::new(),
        Era::Modern => format!(",{}", era.meta()),
    };
    format!(r#"{{"jsonrpc":"2.0","id":"r","method":"resources/read","params":{{"uri":"{uri}"{meta}}}}}"#)
}

fn pseudo_random(length: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Payloads of every kind, each larger than a reply.
fn payloads() -> Vec<(&'static str, Vec<u8>)> {
    let lines: String = (0..40_000).map(|number| format!("line {number}\n")).collect();
    vec![
        ("text", lines.into_bytes()),
        ("unbroken", vec![b'x'; MIB / 2]),
        ("multibyte", "a\u{e9}\u{2014}\u{1F389}".repeat(40_000).into_bytes()),
        ("escapes", b"\0\x1b\"\\\x7f\n".repeat(30_000)),
        ("separators", "\u{85}\u{2028}\u{2029}".repeat(30_000).into_bytes()),
        ("binary", pseudo_random(MIB / 2)),
        ("cut_short", ["x".repeat(MIB / 2).as_bytes(), b"\xf0\x9f"].concat()),
    ]
}

#[test]
fn what_a_command_printed_is_read_back_byte_for_byte() {
    let dir = Dir::new();
    for era in Era::BOTH {
        let mut gateway = gateway(&dir).start();
        era.begin(&mut gateway);
        for (name, bytes) in payloads() {
            dir.write(name, &bytes);
            for tool in ["print", "complain"] {
                let result = cut(&mut gateway, era, tool, json!({"file": name}));
                let cursor = cursor(&result);
                let stream = &result["structuredContent"][if tool == "print" { "stdout" } else { "stderr" }];
                assert_eq!((&stream["bytes"], &stream["nextCursor"]), (&json!(bytes.len()), &json!(cursor)));
                let (read, _) = read_on(&mut gateway, era, &from_start(&cursor));
                let differs = read.iter().zip(&bytes).position(|(one, other)| one != other);
                assert!(read == bytes, "{name} by {tool}: {} of {} bytes, {differs:?}", read.len(), bytes.len());
                let (rest, last) = read_on(&mut gateway, era, &cursor);
                assert!(bytes.ends_with(&rest) && rest.len() < bytes.len(), "{name} by {tool}");
                let note = last["content"][1]["text"].as_str().unwrap();
                assert!(note.contains("this is the end"), "{note}");
                let link = result["content"].as_array().unwrap().last().unwrap().clone();
                assert_eq!((link["type"].as_str(), &link["size"]), (Some("resource_link"), &json!(bytes.len())));
                assert!(read_resource(&mut gateway, era, link["uri"].as_str().unwrap()) == bytes, "{name} by {tool}");
            }
        }
        gateway.end();
    }
}

#[test]
fn the_head_that_is_shown_and_what_the_cursor_gives_are_the_whole() {
    let dir = Dir::new();
    let mut gateway = Gateway::new().set("tools", tools(dir.path())).start();
    for (name, bytes) in payloads().into_iter().filter(|(name, _)| ["text", "multibyte", "escapes"].contains(name)) {
        let bytes = &bytes[..100_000 / 12 * 12];
        dir.write(name, bytes);
        let result = cut(&mut gateway, Era::Modern, "print", json!({"file": name}));
        let shown = result["structuredContent"]["stdout"]["text"].as_str().unwrap();
        let (head, _) = shown.split_once("\n[tidegate: ").unwrap();
        let (rest, _) = read_on(&mut gateway, Era::Modern, &cursor(&result));
        assert!([head.as_bytes(), &rest].concat() == bytes, "{name}");
    }
    gateway.end();
}

#[test]
fn ten_mib_are_put_together_again_and_of_forty_the_first_sixteen() {
    let dir = Dir::new();
    let ten: Vec<u8> = (0..10 * MIB as u32 / 16).flat_map(|number| format!("{number:015}\n").into_bytes()).collect();
    dir.write("ten", &ten);
    let mut gateway = gateway(&dir).start();
    let result = cut(&mut gateway, Era::Modern, "print", json!({"file": "ten"}));
    let (read, last) = read_on(&mut gateway, Era::Modern, &from_start(&cursor(&result)));
    assert!(read == ten);
    assert!(last["structuredContent"].get("not_stored").is_none(), "{last}");

    let result = cut(&mut gateway, Era::Modern, "flood", json!({}));
    let stdout = &result["structuredContent"]["stdout"];
    assert_eq!((&stdout["bytes"], &stdout["not_stored"]), (&json!(40 * MIB), &json!(24 * MIB)));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("only its first 16777216 bytes are stored, 25165824 more are gone"));
    let (read, last) = read_on(&mut gateway, Era::Modern, &from_start(&cursor(&result)));
    assert!(read == b"0123456789abcde\n".repeat(MIB));
    let note = last["content"][1]["text"].as_str().unwrap();
    assert!(note.contains("25165824 bytes that came after them were not stored and are gone"), "{note}");
    assert_eq!(last["structuredContent"]["not_stored"], 24 * MIB);
    gateway.end();
}

#[test]
fn what_an_http_target_sent_is_read_back_byte_for_byte() {
    let (text, binary) = (payloads().swap_remove(2).1, pseudo_random(2 * MIB));
    let items: Vec<Value> =
        (0..40_000).map(|number| json!({"number": number, "title": format!("t\u{2014}{number}")})).collect();
    // Not compact: what is stored is what came.
    let array = serde_json::to_string_pretty(&items).unwrap();
    let object = json!({"a": "x".repeat(2 * MIB), "b": items[0]}).to_string();
    let bodies = [
        ("text/plain; charset=utf-8", text),
        ("application/octet-stream", binary),
        ("application/json", array.clone().into_bytes()),
        ("application/json", object.into_bytes()),
    ];
    let served = bodies.clone();
    let peer = Peer::start(move |seen| {
        let (media, body) = &served[seen.line.split(' ').nth(1).unwrap()[1..].parse::<usize>().unwrap()];
        ok(media, body)
    });
    let number = json!({"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]});
    let tools = json!([
        {"name": "fetch", "description": "Fetches", "input": number, "http": {"url": format!("{}/{{n}}", peer.url())}},
        {"name": "titles", "description": "Fetches titles", "input": number,
         "http": {"url": format!("{}/{{n}}", peer.url()), "select": ["/*/title"]}},
    ]);
    let mut gateway = Gateway::new().set("tools", tools).set("limits", json!({"content_bytes": 200_000})).start();
    for (number, (media, body)) in bodies.iter().enumerate() {
        let result = cut(&mut gateway, Era::Modern, "fetch", json!({"n": number.to_string()}));
        let cursor = cursor(&result);
        let (read, _) = read_on(&mut gateway, Era::Modern, &from_start(&cursor));
        assert!(read == *body, "{media}");
        if let Some(shown) = result["structuredContent"]["shown"].as_u64() {
            let (rest, _) = read_on(&mut gateway, Era::Modern, &cursor);
            let begins = format!("{{\n    \"number\": {shown},");
            assert!(rest.starts_with(begins.as_bytes()), "{:?}", String::from_utf8_lossy(&rest[..80]));
        }
    }
    let titles: Vec<Value> = items.iter().map(|item| json!({"title": item["title"]})).collect();
    let result = cut(&mut gateway, Era::Modern, "titles", json!({"n": "2"}));
    let (read, _) = read_on(&mut gateway, Era::Modern, &from_start(&cursor(&result)));
    assert!(read == json!(titles).to_string().into_bytes(), "a selection is stored as selected");
    gateway.end();
}

#[cfg(feature = "ssh")]
#[test]
fn what_a_remote_command_printed_is_read_back_byte_for_byte() {
    let (dir, sshd) = (Dir::new(), Sshd::start(""));
    let file = json!({"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]});
    let tools = json!([{"name": "print", "description": "Prints a file over there", "input": file,
        "ssh": {"host": "web1", "argv": ["cat", "--", "{file}"], "cwd": dir.path()}}]);
    let mut gateway = Gateway::new()
        .set("credentials", sshd.credentials())
        .set("hosts", json!({"web1": sshd.host()}))
        .set("tools", tools)
        .set("limits", json!({"content_bytes": 200_000}))
        .start();
    for (name, bytes) in payloads() {
        dir.write(name, &bytes);
        let result = cut(&mut gateway, Era::Modern, "print", json!({"file": name}));
        let (read, _) = read_on(&mut gateway, Era::Modern, &from_start(&cursor(&result)));
        assert!(read == bytes, "{name}");
    }
    gateway.end();
}

#[test]
fn a_link_is_given_where_the_revision_has_it_s125() {
    let dir = Dir::new();
    dir.write("text", vec![b'x'; 100_000]);
    for (revision, has_link) in [("2024-11-05", false), ("2025-03-26", false), ("2025-06-18", true), ("2025-11-25", true)] {
        let mut gateway = Gateway::new().set("tools", tools(dir.path())).start();
        gateway.initialize(revision);
        let reply = gateway.ask(&call(Era::Legacy, 1, "print", r#"{"file":"text"}"#));
        let blocks = reply["result"]["content"].as_array().unwrap();
        assert_eq!(blocks.iter().any(|block| block["type"] == "resource_link"), has_link, "{revision}");
        // Whoever reads the text alone has the cursor too.
        let text = blocks[0]["text"].as_str().unwrap();
        let cursor = text.split("cursor ").nth(1).unwrap().split([']', ';']).next().unwrap();
        let reply = gateway.ask(&call(Era::Legacy, 2, "read_result", &json!({"cursor": cursor}).to_string()));
        assert!(reply["result"]["content"][0]["text"].as_str().unwrap().starts_with("xxx"));
        gateway.end();
    }
}

#[track_caller]
fn check_gone(gateway: &mut Running, cursor: &str) {
    let reply = gateway.ask(&call(Era::Modern, 1, "read_result", &json!({"cursor": cursor}).to_string()));
    let outcome = &reply["result"]["_meta"]["tidegate/outcome"];
    assert_eq!((&outcome["code"], &outcome["executed"]), (&json!("result_gone"), &json!("no")), "{reply}");
    assert_eq!(reply["result"]["isError"], true);
    let uri = format!("tidegate://result/{}", cursor.split(':').next().unwrap());
    let error = &gateway.ask(&resources_read(Era::Modern, &uri))["error"];
    assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!(uri)));
    assert_eq!(error["data"]["tidegate/outcome"]["executed"], "no");
}

#[test]
fn a_result_is_read_by_another_process_and_after_a_restart_s57() {
    let dir = Dir::new();
    let bytes = payloads().swap_remove(0).1;
    dir.write("text", &bytes);
    let state = dir.join("shared state");
    let start = || gateway(&dir).set("state_dir", json!(state)).start();
    let (mut one, mut other) = (start(), start());
    let cursor = cursor(&cut(&mut one, Era::Modern, "print", json!({"file": "text"})));
    assert!(read_on(&mut other, Era::Modern, &from_start(&cursor)).0 == bytes);
    one.end();
    other.end();
    let mut again = start();
    assert!(read_on(&mut again, Era::Modern, &from_start(&cursor)).0 == bytes);
    again.end();
    assert_eq!(results_of(&state).len(), 1);
}

#[test]
fn a_result_that_was_never_there_or_is_over_is_gone_s121_s122_s124() {
    let dir = Dir::new();
    dir.write("text", vec![b'x'; 100_000]);
    let mut gateway = Gateway::new().set("tools", tools(dir.path())).start();
    check_gone(&mut gateway, GUESS);
    let cursor = cursor(&cut(&mut gateway, Era::Modern, "print", json!({"file": "text"})));
    let file = File::options().append(true).open(&results(&gateway)[0]).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(15 * 60 + 1)).unwrap();
    check_gone(&mut gateway, &cursor);
    assert!(results(&gateway).is_empty());
    gateway.end();
}

#[test]
fn what_is_no_cursor_is_refused_and_opens_nothing_s123() {
    let dir = Dir::new();
    let mut gateway = Gateway::new().set("tools", tools(dir.path())).start();
    dir.write("secret", "secret");
    for bad in ["", "../secret", "/etc/passwd", "0123456789abcdef0123456789abcdeg", "%2e%2e", ":0"] {
        let reply = gateway.ask(&call(Era::Modern, 1, "read_result", &json!({"cursor": bad}).to_string()));
        let outcome = &reply["result"]["_meta"]["tidegate/outcome"];
        assert_eq!((&outcome["code"], &outcome["executed"]), (&json!("bad_arguments"), &json!("no")), "{reply}");
        let reply = gateway.ask(&resources_read(Era::Modern, &format!("tidegate://result/{bad}")));
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
    }
    let reply = gateway.ask(&call(Era::Modern, 1, "read_result", r#"{"cursor":"x","path":"/etc/passwd"}"#));
    assert_eq!(reply["result"]["_meta"]["tidegate/outcome"]["code"], "bad_arguments");
    assert!(gateway.journal().iter().all(|record| record["type"] != "intent"), "nothing was carried out");
    gateway.end();
}

#[test]
fn an_offset_may_be_anywhere_and_says_where_the_page_begins() {
    let dir = Dir::new();
    let text = "a\u{1F389}".repeat(20_000);
    dir.write("text", &text);
    let mut gateway = Gateway::new().set("tools", tools(dir.path())).start();
    let name = from_start(&cursor(&cut(&mut gateway, Era::Modern, "print", json!({"file": "text"}))));
    let mut read = |offset: usize| {
        let arguments = json!({"cursor": name, "offset": offset}).to_string();
        gateway.ask(&call(Era::Modern, 1, "read_result", &arguments))["result"].clone()
    };
    for (offset, begins) in [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1), (5, 5), (100, 100), (99_999, 99_996), (100_000, 100_000)] {
        let page = read(offset)["structuredContent"].clone();
        assert_eq!(page["offset"], begins, "{offset}");
        assert!(text[begins..].starts_with(page["text"].as_str().unwrap()), "{offset}");
        assert_eq!(page["text"] == "", offset == 100_000, "{offset}");
    }
    let past = read(100_001);
    assert_eq!(past["_meta"]["tidegate/outcome"]["code"], "bad_arguments", "{past}");
    assert!(past["content"][0]["text"].as_str().unwrap().contains("at most 100000"), "{past}");
    let past = gateway.ask(&resources_read(Era::Modern, &format!("tidegate://result/{name}?offset=100001")));
    let outcome = &past["error"]["data"]["tidegate/outcome"];
    assert_eq!((&past["error"]["code"], &outcome["code"]), (&json!(-32602), &json!("bad_arguments")), "{past}");
    gateway.end();
}

#[test]
fn a_literal_text_is_found_with_its_offset_its_line_and_its_surroundings() {
    let dir = Dir::new();
    let mut lines: Vec<String> = (0..200_000).map(|number| format!("line {number} of the file")).collect();
    lines[0] = "needle first".to_owned();
    lines[150_000] = format!("{} needle {}", "\u{2014}".repeat(90), "\u{1F389}".repeat(90));
    lines[199_999] = "the last needle".to_owned();
    let text = lines.join("\n");
    dir.write("text", &text);
    let mut gateway = Gateway::new().set("tools", tools(dir.path())).start();
    let name = from_start(&cursor(&cut(&mut gateway, Era::Modern, "print", json!({"file": "text"}))));
    let mut find =
        |arguments: Value| gateway.ask(&call(Era::Modern, 1, "read_result", &arguments.to_string()))["result"].clone();
    let found = find(json!({"cursor": name, "find": "needle"}));
    let matches = found["structuredContent"]["matches"].as_array().unwrap().clone();
    let places: Vec<usize> = matches.iter().map(|found| found["offset"].as_u64().unwrap() as usize).collect();
    assert_eq!(places, text.match_indices("needle").map(|(at, _)| at).collect::<Vec<_>>());
    assert_eq!(matches.iter().map(|found| found["line"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 150_001, 200_000]);
    let excerpt = matches[1]["excerpt"].as_str().unwrap();
    assert!(excerpt.contains("\u{2014} needle \u{1F389}") && !excerpt.contains('\u{FFFD}') && excerpt.len() < 200, "{excerpt}");
    assert!(found["content"][0]["text"].as_str().unwrap().contains("line 200000: the last needle"));
    let later = find(json!({"cursor": name, "offset": 1, "find": "needle"}));
    assert_eq!(later["structuredContent"]["matches"][0]["line"], 150_001);
    let nothing = find(json!({"cursor": name, "find": "Needle"}));
    assert_eq!(nothing["structuredContent"]["matches"], json!([]));
    assert!(nothing["content"][0]["text"].as_str().unwrap().contains("not found"));

    // More places than a reply takes: the cursor goes on, none is lost or told twice.
    let (mut next, mut numbers) = (json!({"cursor": name, "find": "0 of"}), Vec::new());
    while numbers.len() < 2000 {
        let found = find(next)["structuredContent"].clone();
        let matches = found["matches"].as_array().unwrap();
        numbers.extend(matches.iter().map(|found| found["line"].as_u64().unwrap()));
        next = json!({"cursor": found["nextCursor"], "find": "0 of"});
    }
    let expected: Vec<u64> =
        (1..200_000_u64).filter(|number| number % 10 == 0 && *number != 150_000).map(|number| number + 1).collect();
    assert_eq!(numbers[..2000], expected[..2000]);
    gateway.end();
}

#[test]
fn a_cancelled_call_leaves_no_result_behind() {
    let dir = Dir::new();
    dir.write("text", vec![b'x'; 5 * MIB]);
    let mut gateway = Gateway::new().set("tools", tools(dir.path())).start();
    let mark = mark();
    gateway.send(&call(Era::Modern, 1, "wait", &json!({"file": "text", "mark": mark}).to_string()));
    until("it is stored", || {
        let sizes: Vec<u64> =
            results(&gateway).iter().filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).collect();
        sizes.iter().any(|size| *size > 5 * MIB as u64)
    });
    gateway.send(&cancel(1));
    until("the command is gone", || with_mark(&mark).is_empty());
    until("nothing is left", || results(&gateway).is_empty());
    gateway.end();
}

/// All of a large body has come and is being selected from when the cancel comes: the one worker is free again, nothing is said
/// and nothing stays stored.
#[test]
fn a_selection_over_16_mib_is_cancelled() {
    let item = json!({"number": 1, "title": "x".repeat(40)}).to_string();
    let body = format!("[{}]", vec![item.as_str(); 16 * MIB / (item.len() + 1) - 1].join(","));
    let length = body.len() as u64;
    let peer = Peer::start(move |_| ok("application/json", body.as_bytes()));
    let tools = json!([
        {"name": "fetch", "description": "Fetches", "http": {"url": peer.url(), "select": ["/*/number", "/*/title"]}},
        {"name": "say", "description": "Says it", "exec": {"argv": ["echo", "said"]}},
    ]);
    let mut gateway = Gateway::new().set("tools", tools).set("limits", json!({"workers": 1})).start();
    gateway.send(&call(Era::Modern, 1, "fetch", "{}"));
    until("all of it is stored", || {
        results(&gateway).iter().filter_map(|path| fs::metadata(path).ok()).any(|file| file.len() >= length)
    });
    gateway.send(&cancel(1));
    let reply = gateway.ask(&call(Era::Modern, 2, "say", "{}"));
    assert_eq!(reply["result"]["structuredContent"]["stdout"]["text"], "said\n");
    assert!(results(&gateway).is_empty());
    let outcomes: Vec<Value> = gateway.journal().into_iter().filter(|record| record["type"] == "outcome").collect();
    assert_eq!((&outcomes[0]["code"], &outcomes[0]["executed"]), (&json!("cancelled"), &json!("yes")));
    let ended = gateway.end();
    assert!(!String::from_utf8(ended.stdout).unwrap().contains("\"id\":1,"), "a cancelled call is answered");
}

#[test]
fn a_reply_that_is_withdrawn_takes_its_result_with_it() {
    let dir = Dir::new();
    dir.write("text", vec![b'x'; 5 * MIB]);
    let mut gateway = gateway(&dir).stdout_held().start();
    // The first reply fills the pipe and has begun; the second waits behind it.
    for id in [1, 2] {
        gateway.send(&call(Era::Modern, id, "print", r#"{"file":"text"}"#));
        until("it is stored", || results(&gateway).iter().filter(|path| path.extension().is_none()).count() == id);
        until("it is answered", || gateway.journal().iter().filter(|record| record["code"] == "ok").count() == id);
    }
    wait_for_idle_workers(&gateway);
    let stored = results(&gateway);
    gateway.send(&cancel(2));
    until("the second result is gone", || results(&gateway).len() == 1);
    assert!(stored.contains(&results(&gateway)[0]));
    gateway.read_on();
    let result = gateway.reply("1");
    let cursor = result["result"]["structuredContent"]["nextCursor"].as_str().unwrap().to_owned();
    assert_eq!(read_on(&mut gateway, Era::Modern, &from_start(&cursor)).0.len(), 5 * MIB);
    assert_eq!(gateway.end().counters()["cancels"], json!({"withdrawn": 1}));
}

#[test]
fn a_folder_that_takes_nothing_costs_the_rest_and_not_the_call() {
    let dir = Dir::new();
    dir.write("text", vec![b'x'; 5 * MIB]);
    let gateway = Gateway::new().set("tools", tools(dir.path()));
    fs::create_dir_all(gateway.dir().join("state")).unwrap();
    gateway.dir().write("state/results", "a file where the folder should be");
    let mut gateway = gateway.start();
    let result = cut(&mut gateway, Era::Modern, "print", json!({"file": "text"}));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("what was left out could not be stored: "), "{}", &text[text.len() - 400..]);
    assert_eq!((&result["structuredContent"]["exit"], &result["isError"]), (&json!(0), &json!(false)));
    assert!(result["structuredContent"].get("nextCursor").is_none());
    gateway.end();
}

#[test]
fn a_stored_result_holds_no_secret_and_only_its_owner_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new();
    let key = dir.write_mode("key", "correct-horse-battery", 0o600);
    dir.write("text", "correct-horse-battery and more\n".repeat(10_000));
    let mut gateway = Gateway::new()
        .set("tools", tools(dir.path()))
        .set("credentials", json!({"key": {"from": {"file": key}, "for": [{"host": "localhost", "scheme": "http"}]}}))
        .says_anything()
        .start();
    let result = cut(&mut gateway, Era::Modern, "print", json!({"file": "text"}));
    let (read, _) = read_on(&mut gateway, Era::Modern, &from_start(&cursor(&result)));
    let read = String::from_utf8(read).unwrap();
    assert!(!read.contains("horse") && read.matches(" and more\n").count() == 10_000);
    let path = &results(&gateway)[0];
    assert!(!String::from_utf8(fs::read(path).unwrap()).unwrap().contains("horse"));
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    gateway.end();
}

#[test]
fn without_tools_there_is_nothing_to_read_on() {
    let mut gateway = Gateway::new().says_anything().start();
    let reply =
        gateway.ask(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{}}}}}"#, Era::Modern.meta()));
    let names: Vec<&Value> = reply["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["tidegate_status"]);
    let error = &gateway.ask(&resources_read(Era::Modern, &format!("tidegate://result/{GUESS}")))["error"];
    assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!("Resource not found")));
    gateway.end();
}
