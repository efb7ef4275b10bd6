//! Reports from the field about framing and JSON-RPC, each a test named by its number, through the installed binary.
//!
//! A report that expects a session to live on after a line that is no message is tested with `on_malformed: "continue"`; the
//! same bytes in the default mode get one answer, exit code 65, and nothing for what stands behind them.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::kit::gateway::{Ended, Gateway, Running};
use crate::kit::installed::installed;
use crate::kit::peer::{Peer, json as json_answer};
use crate::kit::process::{peak_kib, until};
use crate::kit::{MODERN, legacy_call, modern_call};

const PARSE: i64 = -32700;
const REQUEST: i64 = -32600;
const PARAMS: i64 = -32602;

/// A tool that says its one argument, and one that leaves a mark.
fn gateway(rule: &str) -> Gateway {
    let gateway = Gateway::of(installed());
    let marker = gateway.dir().join("marker");
    let text = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let number = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tools = json!([
        {"name": "echo", "description": "Says it", "input": text, "exec": {"argv": ["printf", "%s", "{text}"]}},
        {"name": "count", "description": "Says it", "input": number, "exec": {"argv": ["printf", "--", "%s", "{n}"]}},
        {"name": "run", "description": "Leaves a mark", "input": text, "exec": {"argv": ["touch", marker, "{text}"]}},
        {"name": "fail", "description": "Fails", "exec": {"argv": ["false"]}},
    ]);
    gateway.set("tools", tools).set("session", json!({"on_malformed": rule}))
}

fn request(id: impl std::fmt::Display, method: &str, params: &str) -> String {
    let params = if params.is_empty() { MODERN.to_owned() } else { format!("{params},{MODERN}") };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
}

/// The request that is answered if anything is.
#[track_caller]
fn check_live(running: &mut Running) {
    let reply = running.ask(&request(99, "tools/list", ""));
    assert!(reply["result"]["tools"].is_array(), "{reply}");
}

/// Lines that are no messages. `codes`: of the answers where the session goes on, all without an id.
#[track_caller]
fn check_lost(bytes: &[u8], codes: &[i64]) {
    let mut running = gateway("continue").says_anything().start();
    running.send_raw(bytes);
    for code in codes {
        let reply = running.next();
        assert_eq!((&reply["error"]["code"], reply.get("id")), (&json!(code), Some(&Value::Null)), "{reply}");
    }
    check_live(&mut running);
    check_nothing_ran(&running.end());
    check_closed(bytes, codes[0]);
}

/// The same in the default mode: one answer, the end, and silence for what came behind.
#[track_caller]
fn check_closed(bytes: &[u8], code: i64) {
    let mut running = gateway("close").exit(65).says("session closed by a line that is no message").start();
    running.offer(&[bytes, request(99, "tools/list", "").as_bytes(), b"\n"].concat());
    let ended = running.wait();
    assert_eq!(ended.rest.len(), 1, "{:#?}", ended.rest);
    assert_eq!(ended.rest[0]["error"]["code"], code, "{:#?}", ended.rest);
    check_nothing_ran(&ended);
}

#[track_caller]
fn check_nothing_ran(ended: &Ended) {
    assert!(!ended.dir.join("marker").exists());
    assert_eq!(ended.counters()["executions"], json!({}), "{}", ended.stderr);
}

/// One request of id 1 in a session of its own, answered under its id as `is_right` wants; the session goes on.
#[track_caller]
fn check_answered(line: &str, is_right: impl Fn(&Value) -> bool) {
    let mut running = gateway("close").start();
    running.send(line);
    let reply = running.reply("1");
    assert!(is_right(&reply), "{reply}");
    check_live(&mut running);
    check_nothing_ran(&running.end());
}

fn text(reply: &Value) -> &str {
    reply["result"]["structuredContent"]["stdout"]["text"].as_str().unwrap_or_else(|| panic!("no text in {reply}"))
}

// Framing and encoding.

#[test]
fn blank_lines_are_no_lines_r006() {
    let mut running = gateway("close").start();
    running.send_raw(b"\n \t\n\r\n   \r\n");
    running.initialize("2025-11-25");
    running.send_raw(b"\n\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n\r\n");
    assert_eq!(running.reply("2")["result"], json!({}));
    let ended = running.end();
    assert!(ended.rest.is_empty(), "{:#?}", ended.rest);
    assert_eq!(ended.counters()["refusals"], json!({}));
}

#[test]
fn crlf_is_read_and_never_written_r007() {
    let mut running = gateway("close").start();
    running.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n");
    running.reply("1");
    running.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\r\r\n");
    running.reply("2");
    assert!(!running.end().stdout.contains(&b'\r'));
}

#[test]
fn a_character_cut_by_a_read_arrives_whole_r009() {
    let mut running = gateway("close").start();
    let ping = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;
    running.ask(ping);
    let line = format!("{}\n", modern_call(1, "echo", "{\"text\":\"a\u{2014}\u{1f389}b\"}"));
    let cut = line.find('\u{2014}').unwrap() + 1;
    running.send_raw(&line.as_bytes()[..cut]);
    until("the first half is read", || {
        running.signal("USR1");
        running.stderr().contains(&format!("\"bytes_in\":{},", ping.len() + 1 + cut))
    });
    running.send_raw(&line.as_bytes()[cut..]);
    assert_eq!(text(&running.reply("1")), "a\u{2014}\u{1f389}b");
    let line = format!("{}\n", modern_call(2, "echo", "{\"text\":\"\u{1f389}\"}"));
    line.bytes().for_each(|byte| running.send_raw(&[byte]));
    assert_eq!(text(&running.reply("2")), "\u{1f389}");
    running.end();
}

#[test]
fn a_line_that_is_not_utf8_costs_itself_alone_r010() {
    check_lost(b"\xff\xfe\n", &[PARSE]);
}

#[test]
fn a_raw_invalid_byte_in_an_argument_never_gets_to_the_tool_r011() {
    let line = modern_call(3, "run", r#"{"text":"echo ??"}"#).replace("??", "\u{1}");
    let bytes: Vec<u8> = line.bytes().flat_map(|byte| if byte == 1 { vec![0xff, 0xfe] } else { vec![byte] }).collect();
    check_lost(&[&bytes[..], b"\n"].concat(), &[PARSE]);
}

#[test]
fn separators_of_unicode_split_no_line_and_leave_escaped_r013() {
    let separators = "left\u{2028}right\u{2029}end\u{85}x";
    let mut running = gateway("close").start();
    let reply = running.ask(&modern_call(1, "echo", &format!("{{\"text\":\"{separators}\\u000by\\u000cz\"}}")));
    assert_eq!(text(&reply), format!("{separators}\u{b}y\u{c}z"));
    let stdout = String::from_utf8(running.end().stdout).unwrap();
    assert!(!stdout.contains(['\u{2028}', '\u{2029}', '\u{85}', '\u{b}', '\u{c}']), "{stdout}");
}

#[test]
fn long_requests_are_read_to_the_limit_and_told_beyond_r014() {
    const LIMIT: usize = 4 << 20;
    let line_of = |bytes: usize| {
        let empty = request(7, "tools/list", r#""x":"""#);
        request(7, "tools/list", &format!(r#""x":"{}""#, "x".repeat(bytes - empty.len())))
    };
    let mut running = gateway("continue").says("line_too_long").start();
    for bytes in [65_535, 65_536, 65_537, 1 << 20, LIMIT] {
        let line = line_of(bytes);
        assert_eq!(line.len(), bytes);
        assert!(running.ask(&line)["result"]["tools"].is_array(), "{bytes}");
    }
    running.send(&line_of(LIMIT + 1));
    let error = running.next();
    assert_eq!(error["error"]["code"], PARSE);
    assert!(error["error"]["message"].as_str().unwrap().contains("4194304 bytes, got 4194305"), "{error}");
    check_live(&mut running);
    running.end();
    check_closed(format!("{}\n", line_of(LIMIT + 1)).as_bytes(), PARSE);
}

#[test]
fn a_gibibyte_without_a_line_feed_takes_no_memory_r015() {
    const CHUNK: usize = 1 << 20;
    const MEMORY_KIB: u64 = 16 << 10;
    for rule in ["continue", "close"] {
        let gateway = gateway(rule).exit(if rule == "close" { 65 } else { 0 });
        let mut running = gateway.says("line_too_long").start();
        running.send_raw(br#"{"jsonrpc":"2.0","id":1,"result":{"x":""#);
        running.flood(&vec![b'A'; CHUNK], (1 << 30) / CHUNK);
        let peak = peak_kib(running.pid());
        assert!(peak < MEMORY_KIB, "{peak} KiB");
        running.send_raw(b"\n");
        let error = running.next();
        assert_eq!(error["error"]["code"], PARSE, "{error}");
        if rule == "continue" {
            check_live(&mut running);
            assert!(peak_kib(running.pid()) < MEMORY_KIB);
        }
        let ended = if rule == "close" { running.wait() } else { running.end() };
        assert_eq!(ended.counters()["refusals"], json!({"line_too_long": 1}));
    }
}

#[test]
fn a_message_over_several_lines_is_not_put_together_r017() {
    check_lost(b"{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n  \"method\": \"ping\"\n}\n", &[PARSE; 5]);
    let mut running = gateway("continue").says_anything().start();
    let indented = format!("{{\n{}}}\n", "  \"x\": 1,\n".repeat(1000));
    running.send_raw(indented.as_bytes());
    let answers = running.probe().len();
    assert!((1..=12).contains(&answers), "{answers} answers to one message of a thousand lines");
    let ended = running.end();
    assert!(ended.operator_lines().len() <= 3, "{}", ended.stderr);
}

#[test]
fn content_length_headers_are_named_and_never_obeyed_r019() {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let framed = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let mut running = gateway("continue").says("lsp_header").says("not_json").says("unterminated").start();
    running.send_raw(framed.as_bytes());
    let error = running.next();
    assert!(error["error"]["message"].as_str().unwrap().contains("Language Server Protocol"), "{error}");
    // The second header is glued to the first body; the second body is cut by the end.
    running.send_raw(framed.as_bytes());
    assert_eq!(running.next()["error"]["code"], PARSE);
    let ended = running.end();
    let codes: Vec<_> = ended.rest.iter().map(|reply| reply["error"]["code"].clone()).collect();
    assert_eq!(codes, [PARSE], "{:#?}", ended.rest);
    let mut running = gateway("close").exit(65).says("session closed by a line that is no message: lsp_header").start();
    running.offer(framed.repeat(2).as_bytes());
    assert_eq!(running.wait().rest.len(), 1);
}

#[test]
fn half_a_surrogate_pair_neither_comes_in_nor_goes_out_r021() {
    check_answered(&modern_call(1, "run", r#"{"text":"a\ud83d b"}"#), |reply| reply["error"]["code"] == PARAMS);
    check_answered(&modern_call(1, "run", r#"{"text":"a\u0000b"}"#), |reply| reply["result"]["isError"] == true);
    let peer = Peer::start(|_| json_answer(r#"{"text":"a\ud83d b","nul":"\u0000"}"#));
    let tools = json!([{"name": "fetch", "description": "Fetches it", "http": {"url": format!("{}/", peer.url())}}]);
    let mut running = Gateway::of(installed()).set("tools", tools).start();
    let reply = running.ask(&modern_call(1, "fetch", "{}"));
    assert_eq!(reply["result"]["structuredContent"]["body"], json!({"text": "a\u{fffd} b", "nul": "\0"}), "{reply}");
    running.end();
}

#[test]
fn answers_leave_while_stdin_stays_open_r022() {
    let mut running = gateway("close").start();
    assert!(running.initialize("2025-11-25")["result"].is_object());
    assert_eq!(text(&running.ask(&legacy_call(1, "echo", r#"{"text":"now"}"#))), "now");
    running.end();
}

#[test]
fn shell_text_and_cut_json_are_refused_line_by_line_r023() {
    check_lost(b"& \"$env:X\\\\y\"\n{\"jsonrp\n{\"a\":1}\n", &[PARSE, PARSE, REQUEST]);
    let whole = br#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#;
    for bytes in [&whole[..], &whole[..20]] {
        for (rule, exit) in [("continue", 0), ("close", 65)] {
            let mut running = gateway(rule).exit(exit).says("unterminated").start();
            running.send_raw(bytes);
            let ended = running.end();
            assert_eq!(ended.rest.len(), 1, "{:#?}", ended.rest);
            assert_eq!(ended.rest[0]["error"]["code"], PARSE);
        }
    }
}

// JSON-RPC.

#[test]
fn an_id_keeps_its_type_r025() {
    let mut running = gateway("close").start();
    for id in ["0", "\"0\"", "-1", "\"\"", "\"1\"", "1"] {
        let reply = running.ask(&request(id, "tools/list", ""));
        assert_eq!(reply["id"].to_string(), id);
    }
    running.end();
}

#[test]
fn an_id_that_is_none_makes_no_notification_r026() {
    for id in ["null", "true", "[1]", r#"{"a":1}"#] {
        check_lost(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"}}\n").as_bytes(), &[REQUEST]);
    }
}

#[test]
fn fractions_are_no_ids_and_integers_are_echoed_digit_for_digit_r027() {
    for id in ["1.5", "3100.0", "1e3"] {
        check_lost(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n").as_bytes(), &[REQUEST]);
    }
    for id in ["-0", "12345678901234567890", "9007199254740993", "123456789012345678901234567890"] {
        let mut running = gateway("close").start();
        running.send(&request(id, "tools/list", ""));
        let line = running.next_line();
        assert!(line.contains(&format!("\"id\":{id},")), "{line}");
        running.end();
    }
}

#[test]
fn a_failure_stands_under_the_id_of_its_request_and_under_no_other_r029() {
    let mut running = gateway("continue").says("not_an_object").start();
    let reply = running.ask(&modern_call(8, "fail", "{}"));
    assert_eq!(reply["result"]["_meta"]["tidegate/outcome"]["code"], "target_error", "{reply}");
    running.send("[]");
    let error = running.next();
    assert_eq!((&error["error"]["code"], error.get("id")), (&json!(REQUEST), None), "{error}");
    let reply = running.ask(&modern_call(9, "nothing", "{}"));
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(9), &json!(PARAMS)));
    running.end();
}

#[test]
fn an_error_for_nobody_has_no_id_where_the_revision_knows_of_it_r030() {
    let revisions = [("nothing", true), ("2025-06-18", true), ("2025-11-25", false), ("2026-07-28", false)];
    for (opened, is_null) in revisions {
        for (rule, exit) in [("continue", 0), ("close", 65)] {
            let mut running = gateway(rule).exit(exit).says("not_json at column 2").start();
            match opened {
                "nothing" => {}
                "2026-07-28" => check_live(&mut running),
                revision => drop(running.initialize(revision)),
            }
            running.send("{bad");
            let error = running.next();
            let id = is_null.then_some(&Value::Null);
            assert_eq!((&error["error"]["code"], error.get("id")), (&json!(PARSE), id), "{opened}: {error}");
            running.end();
        }
    }
}

#[test]
fn arrays_and_scalars_are_refused_whole_r031() {
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
    let call = format!("[{}]", modern_call(1, "run", r#"{"text":"x"}"#));
    for line in [batch, &call, "[]", "\"hi\"", "42", "null"] {
        check_lost(format!("{line}\n").as_bytes(), &[REQUEST]);
    }
    // In the revision that once had them too.
    let mut running = gateway("continue").says("not_an_object").start();
    running.initialize("2025-03-26");
    running.send(batch);
    assert_eq!(running.next()["error"]["code"], REQUEST);
    assert!(running.probe().is_empty());
    running.end();
}

#[test]
fn arguments_nested_too_deep_cost_their_request_alone_r033() {
    for levels in [61, 62, 100, 124, 125, 126, 127, 128, 1000, 100_000] {
        let arguments = format!("{{\"x\":{}1{}}}", "{\"x\":".repeat(levels - 1), "}".repeat(levels - 1));
        check_answered(&modern_call(1, "run", &arguments), |reply| match levels {
            // Two levels of the message stand around them.
            ..=62 => reply["result"]["_meta"]["tidegate/outcome"]["code"] == "bad_arguments",
            _ => reply["error"]["code"] == PARAMS,
        });
    }
}

#[test]
fn numbers_of_any_size_kill_nobody_r034() {
    let nines = "9".repeat(5000);
    for number in [nines.as_str(), "1e400", "-1e-400"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"n":{number}}}}}"#);
        check_answered(&line, |reply| reply["result"] == json!({}));
        check_answered(&modern_call(1, "count", &format!(r#"{{"n":{number}}}"#)), |reply| {
            reply["result"]["_meta"]["tidegate/outcome"]["code"] == "bad_arguments"
        });
    }
    for number in ["NaN", "Infinity", "-Infinity"] {
        check_lost(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{{\"n\":{number}}}}}\n").as_bytes(),
            &[PARSE],
        );
    }
    check_lost(format!("{}\n", "[".repeat(100_000)).as_bytes(), &[PARSE]);
    // No reader of the tests takes such an id as a number, so the bytes are compared.
    let mut gateway = gateway("close");
    let mut command = gateway.command();
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{nines},\"method\":\"ping\"}}\n");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{{\"jsonrpc\":\"2.0\",\"id\":{nines},\"result\":{{}}}}\n"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn integers_beyond_two_to_the_53rd_arrive_digit_for_digit_r035() {
    let mut running = gateway("close").start();
    for number in ["9007199254740993", "725653563933458432", "-9223372036854775808", "18446744073709551615"] {
        let reply = running.ask(&modern_call(1, "count", &format!(r#"{{"n":{number}}}"#)));
        assert_eq!(text(&reply), number);
    }
    running.end();
    let body = r#"{"id":9007199254740993,"f":1.0,"e":1e2,"big":725653563933458432}"#;
    let peer = Peer::start(move |_| json_answer(body));
    let tools = json!([{"name": "fetch", "description": "Fetches it", "http": {"url": format!("{}/", peer.url())}}]);
    let mut running = Gateway::of(installed()).set("tools", tools).start();
    running.send(&modern_call(1, "fetch", "{}"));
    let line = running.next_line();
    assert!(line.contains(body), "{line}");
    running.end();
}

#[test]
fn a_list_has_one_page_and_every_cursor_is_unknown_r037_r038() {
    let mut running = gateway("close").start();
    for method in ["tools/list", "resources/list", "resources/templates/list"] {
        let reply = running.ask(&request(1, method, ""));
        assert!(reply["result"].is_object() && reply["result"].get("nextCursor").is_none(), "{reply}");
        for cursor in ["", "p1", "bogus"] {
            let reply = running.ask(&request(2, method, &format!(r#""cursor":"{cursor}""#)));
            assert_eq!(reply["error"]["code"], PARAMS, "{reply}");
        }
    }
    running.end();
}

#[test]
fn a_result_is_an_object_and_never_beside_an_error_r039() {
    let mut running = gateway("close").start();
    running.initialize("2025-11-25");
    assert_eq!(running.ask(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)["result"], json!({}));
    for line in [
        legacy_call(2, "echo", r#"{"text":""}"#),
        modern_call(3, "fail", "{}"),
        request(4, "server/discover", ""),
        request(5, "prompts/list", ""),
        request(6, "tools/list", ""),
    ] {
        let reply = running.ask(&line);
        assert!(reply.get("result").is_some() != reply.get("error").is_some(), "{reply}");
        assert!(reply.get("result").or(reply.get("error")).unwrap().is_object(), "{reply}");
    }
    running.end();
}
