//! The rows of the protocol's duties, as lines in and lines out.

use super::*;
use crate::mcp::listing::{ToolAnnotations, ToolEntry};
use crate::mcp::render::render;
use crate::rpc::message::{Message, parse};

const CLAIM: &str =
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
const BOTH_WAYS: &str = "not initialized: send initialize first, or per-request _meta";

/// One session and the lines that went in.
struct Peer(Session);

impl Peer {
    fn new() -> Peer {
        let entry = ToolEntry {
            name: "disk".to_owned(),
            title: Some("Disk use".to_owned()),
            description: "Disk use".to_owned(),
            input_schema: r#"{"type":"object","additionalProperties":false}"#.to_owned(),
            annotations: ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() },
        };
        Peer(Session::new(Arc::new(ToolListing { entries: vec![entry] }), None))
    }

    fn legacy(version: &str) -> Peer {
        let mut peer = Peer::new();
        peer.send(&initialize(version, "{}"));
        peer.note("notifications/initialized", "");
        peer
    }

    fn step(&mut self, line: &str) -> Step {
        match parse(line) {
            Ok(Message::Request(request)) => self.0.request(&request),
            other => panic!("no request: {line}: {other:?}"),
        }
    }

    /// The answer line; a call or a subscription is answered with its name.
    fn send(&mut self, line: &str) -> String {
        match self.step(line) {
            Step::Answer(origin, reply) => render(&origin, &reply),
            Step::Call(call) => format!("call {} {} {:?}", call.tool(), call.arguments(), call.origin().era),
            Step::Listen(listen) => format!("listen {}", listen.tools_list_changed()),
        }
    }

    fn note(&mut self, method: &str, params: &str) -> Note {
        let line = format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#);
        match parse(&line) {
            Ok(Message::Notification(notification)) => self.0.notification(&notification),
            other => panic!("no notification: {line}: {other:?}"),
        }
    }

    #[track_caller]
    fn check(&mut self, line: &str, parts: &[&str]) {
        let answer = self.send(line);
        for part in parts {
            assert!(answer.contains(part), "expected {part} in the answer\n{answer}\nto {line}");
        }
    }

    #[track_caller]
    fn check_error(&mut self, line: &str, code: i64, message: &str) {
        self.check(line, &[&format!(r#""error":{{"code":{code},"message":""#), message]);
    }
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#)
}

fn initialize(version: &str, capabilities: &str) -> String {
    request(
        "initialize",
        &format!(r#""protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{{"name":"x","version":"1"}}"#),
    )
}

fn claim(version: &str) -> String {
    CLAIM.replace("2026-07-28", version)
}

#[test]
fn request_before_anything_names_both_ways_in_u1_s26_r090() {
    let mut peer = Peer::new();
    for method in ["tools/list", "tools/call", "resources/read", "no/such", "logging/setLevel"] {
        peer.check_error(&request(method, ""), -32602, BOTH_WAYS);
    }
    peer.check(&initialize("2025-11-25", "{}"), &[r#""protocolVersion":"2025-11-25""#]);
}

#[test]
fn ping_before_initialize_is_answered_u2_s29_r087() {
    let mut peer = Peer::new();
    peer.check(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#, &[r#"{"jsonrpc":"2.0","id":"a","result":{}}"#]);
    peer.check(&request("ping", r#""_meta":5"#), &[r#""result":{}"#]);
    Peer::legacy("2024-11-05").check(&request("ping", ""), &[r#""result":{}"#]);
}

#[test]
fn discover_locks_nothing_u3_u6_r090_r091() {
    let mut peer = Peer::new();
    let discover = request("server/discover", CLAIM);
    peer.check(&discover, &[r#""supportedVersions":["2026-07-28","2025-11-25""#]);
    peer.check(&initialize("2025-11-25", "{}"), &[r#""protocolVersion":"2025-11-25""#]);
    peer.check(&discover, &[r#""supportedVersions":["2026-07-28""#, r#""resultType":"complete""#]);
}

#[test]
fn both_eras_are_served_side_by_side_u4_u5_s44() {
    let mut peer = Peer::new();
    let (modern, legacy) =
        (request("tools/call", &format!(r#""name":"disk",{CLAIM}"#)), request("tools/call", r#""name":"disk""#));
    peer.check(&modern, &["call disk {} Modern"]);
    peer.check_error(&legacy, -32602, BOTH_WAYS);
    peer.send(&initialize("2025-06-18", "{}"));
    peer.check(&legacy, &["call disk {} Legacy(V2025_06_18)"]);
    peer.check(&modern, &["call disk {} Modern"]);
    peer.check(&request("tools/list", CLAIM), &[r#""resultType":"complete""#, "serverInfo"]);
    let answer = peer.send(&request("tools/list", ""));
    assert!(!answer.contains("resultType") && !answer.contains("serverInfo"), "{answer}");
}

#[test]
fn initialize_with_a_claim_is_no_method_u7() {
    let line = initialize("2025-11-25", "{}").replace(r#""params":{"#, &format!(r#""params":{{{CLAIM},"#));
    let mut peer = Peer::new();
    peer.check_error(&line, -32601, "without _meta for 2025-11-25");
    peer.check_error(&request("tools/list", ""), -32602, BOTH_WAYS);
    // The version comes before the method.
    peer.check_error(&line.replace("Version\":\"2026-07-28", "Version\":\"2025-11-25"), -32022, "");
}

#[test]
fn initialize_agrees_on_what_is_spoken_s21_u8_r086() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        Peer::new().check(&initialize(version, "{}"), &[&format!(r#""protocolVersion":"{version}""#)]);
    }
    for version in ["2024-10-07", "1999-01-01", "2026-07-28", "2030-01-01", "x", "", "2099-01-01"] {
        Peer::new().check(&initialize(version, "{}"), &[r#""protocolVersion":"2025-11-25""#]);
    }
}

#[test]
fn initialize_needs_its_three_members_s22_r086() {
    let mut peer = Peer::new();
    let whole = initialize("2025-11-25", "{}");
    for (from, to, message) in [
        (r#""protocolVersion":"2025-11-25","#, "", "expected protocolVersion to be a string, got nothing"),
        (r#"Version":"2025-11-25""#, r#"Version":5"#, "expected protocolVersion to be a string, got a number"),
        (r#""capabilities":{},"#, "", "expected capabilities to be an object, got nothing"),
        (r#""capabilities":{}"#, r#""capabilities":[]"#, "expected capabilities to be an object, got an array"),
        (r#","clientInfo":{"name":"x","version":"1"}"#, "", "expected clientInfo to be an object, got nothing"),
        (r#""params":{"#, r#""params":{"_meta":[],"#, "expected _meta to be an object, got an array"),
    ] {
        let line = whole.replacen(from, to, 1);
        assert_ne!(line, whole, "{from}");
        peer.check_error(&line, -32602, message);
        peer.check_error(&request("tools/list", ""), -32602, BOTH_WAYS);
    }
    peer.check(&whole, &[r#""protocolVersion":"2025-11-25""#]);
}

#[test]
fn second_initialize_renegotiates_u9_s27() {
    let mut peer = Peer::legacy("2025-06-18");
    peer.check(&request("tools/list", ""), &[r#""title":"Disk use""#, "readOnlyHint"]);
    assert!(peer.0.ready().is_some());
    peer.check(&initialize("2024-11-05", "{}"), &[r#""protocolVersion":"2024-11-05""#]);
    assert!(peer.0.ready().is_none());
    let answer = peer.send(&request("tools/list", ""));
    assert!(!answer.contains("title") && !answer.contains("annotations"), "{answer}");
}

#[test]
fn malformed_second_initialize_changes_nothing() {
    let mut peer = Peer::legacy("2024-11-05");
    peer.check_error(&request("initialize", ""), -32602, "");
    assert!(peer.0.ready().is_some());
}

#[test]
fn calls_are_served_before_initialized_u10_s24_s25() {
    let mut peer = Peer::new();
    peer.send(&initialize("2025-11-25", r#"{"elicitation":{}}"#));
    let Step::Call(call) = peer.step(&request("tools/call", r#""name":"disk","arguments":{"a":1}"#)) else { panic!("no call") };
    assert_eq!((call.arguments(), call.can_ask().form), (r#"{"a":1}"#, true));
    assert!(peer.0.ready().is_none(), "no question yet");
    assert_eq!(peer.note("notifications/initialized", ""), Note::Initialized);
    assert!(peer.0.ready().is_some());
}

#[test]
fn questions_need_a_revision_that_knows_them_s130_s28() {
    for (version, capabilities, form, url) in [
        ("2024-11-05", r#"{"elicitation":{}}"#, false, false),
        ("2025-03-26", r#"{"elicitation":{}}"#, false, false),
        ("2025-06-18", r#"{"elicitation":{}}"#, true, false),
        ("2025-11-25", r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
        ("2025-11-25", r#"{"elicitation":{"url":{}}}"#, false, true),
        ("2025-11-25", "{}", false, false),
    ] {
        let mut peer = Peer::new();
        peer.send(&initialize(version, capabilities));
        let Step::Call(call) = peer.step(&request("tools/call", r#""name":"disk""#)) else { panic!("no call") };
        assert_eq!((call.can_ask().form, call.can_ask().url), (form, url), "{version} {capabilities}");
    }
}

#[test]
fn capabilities_count_for_their_own_request_only_s44() {
    let mut peer = Peer::new();
    let with = CLAIM.replace(r#"Capabilities":{}"#, r#"Capabilities":{"elicitation":{"form":{}}}"#);
    for (meta, form) in [(with.as_str(), true), (CLAIM, false)] {
        let Step::Call(call) = peer.step(&request("tools/call", &format!(r#""name":"disk",{meta}"#))) else {
            panic!("no call")
        };
        assert_eq!(call.can_ask().form, form);
    }
}

#[test]
fn legacy_version_in_a_claim_lists_modern_ones_only_u11() {
    for version in ["2025-11-25", "2024-11-05"] {
        let data = format!(r#""data":{{"supported":["2026-07-28"],"requested":"{version}"}}"#);
        Peer::new().check(&request("tools/list", &claim(version)), &[r#""code":-32022"#, &data]);
    }
}

#[test]
fn unknown_version_in_a_claim_lists_all_u12_s43() {
    for version in ["1900-01-01", "2030-01-01", "v999.0.0", ""] {
        let all = r#""data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"#;
        let data = format!(r#"{all}"{version}"}}"#);
        Peer::new().check(&request("tools/list", &claim(version)), &[r#""code":-32022"#, &data]);
    }
    Peer::new().check_error(&request("tools/list", &claim(&"x".repeat(257))), -32602, "at most 256 bytes, got 257");
}

#[test]
fn incomplete_claims_are_invalid_params_u13_s41() {
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let capabilities = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
    for mut peer in [Peer::new(), Peer::legacy("2025-11-25")] {
        for method in ["server/discover", "tools/list", "tools/call", "subscriptions/listen", "no/such"] {
            for meta in [
                format!(r#""_meta":{{{version}}}"#),
                format!(r#""_meta":{{{capabilities}}}"#),
                format!(r#""_meta":{{{version},"io.modelcontextprotocol/clientCapabilities":[]}}"#),
                format!(r#""_meta":{{"io.modelcontextprotocol/protocolVersion":5,{capabilities}}}"#),
                format!(r#""_meta":{{"io.modelcontextprotocol/protocolVersion":null,{capabilities}}}"#),
                format!(r#""_meta":[{version:?}]"#),
            ] {
                peer.check_error(&request(method, &meta), -32602, "_meta");
            }
        }
        for method in ["server/discover", "subscriptions/listen"] {
            peer.check_error(&request(method, ""), -32602, "io.modelcontextprotocol/protocolVersion");
        }
    }
}

#[test]
fn client_info_is_never_looked_at_u14_s42_s58() {
    let mut answers = [
        "",
        r#","io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"}"#,
        r#","io.modelcontextprotocol/clientInfo":{"name":"b","version":"2"}"#,
    ]
    .map(|info| {
        let meta = CLAIM.replace(r#"Capabilities":{}"#, &format!(r#"Capabilities":{{}}{info}"#));
        Peer::new().send(&request("tools/list", &meta))
    });
    assert!(answers[0].contains(r#""tools":[{"name":"disk""#));
    answers.sort();
    assert_eq!(answers[0], answers[2]);
}

#[test]
fn removed_methods_are_not_found_with_a_claim_u15_s53_s9() {
    for method in
        ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "prompts/list", "x"]
    {
        Peer::new().check_error(&request(method, CLAIM), -32601, &format!(r#"method not found: \"{method}\""#));
    }
}

#[test]
fn unknown_methods_are_not_found_in_a_session_s9_s126() {
    let mut peer = Peer::legacy("2025-11-25");
    for method in ["prompts/list", "logging/setLevel", "resources/subscribe", "completion/complete", "no/such", ""] {
        peer.check_error(&request(method, ""), -32601, &format!(r#"method not found: \"{method}\""#));
    }
}

#[test]
fn order_of_checks_in_a_modern_request_s43() {
    let mut peer = Peer::new();
    let broken_meta = claim("1900-01-01").replace(r#"Capabilities":{}"#, r#"Capabilities":5"#);
    peer.check_error(&request("no/such", &broken_meta), -32602, "clientCapabilities");
    peer.check_error(&request("no/such", &claim("1900-01-01")), -32022, "");
    peer.check_error(&request("no/such", &format!(r#""name":5,{CLAIM}"#)), -32601, "");
    peer.check_error(&request("tools/call", &format!(r#""name":5,{CLAIM}"#)), -32602, "expected name");
}

#[test]
fn unknown_members_and_capabilities_are_ignored_s12_s31_s52_s56() {
    let mut peer = Peer::legacy("2025-11-25");
    peer.check(
        &request(
            "tools/call",
            r#""name":"disk","task":{},"zzz":1,"_meta":{"progressToken":0,"threadId":"x","claudecode/toolUseId":"y"}"#,
        ),
        &["call disk {}"],
    );
    peer.check(&initialize("2025-11-25", r#"{"zzz":1,"experimental":{},"extensions":{"x/y":{}}}"#), &[r#""result""#]);
    let meta = CLAIM.replace(
        r#"Capabilities":{}"#,
        r#"Capabilities":{"roots":{"listChanged":true},"extensions":{"x/y":{}}},"io.modelcontextprotocol/logLevel":"debug""#,
    );
    peer.check(&request("tools/list", &format!(r#"{meta},"zzz":1"#)), &[r#""resultType":"complete""#]);
    peer.check_error(&request("tools/list", &meta.replace("debug", "loud")), -32602, r#"expected a log level, got \"loud\""#);
}

#[test]
fn unknown_tool_is_no_matter_of_the_protocol_layer_s64() {
    Peer::legacy("2025-11-25").check(&request("tools/call", r#""name":"nope""#), &["call nope {}"]);
}

#[test]
fn malformed_calls_are_invalid_params_s65() {
    for (mut peer, meta) in [(Peer::new(), format!(",{CLAIM}")), (Peer::legacy("2024-11-05"), String::new())] {
        for params in
            [r#""arguments":{}"#, r#""name":null"#, r#""name":"run","arguments":[1]"#, r#""name":"run","arguments":null"#]
        {
            peer.check_error(&request("tools/call", &format!("{params}{meta}")), -32602, "expected");
        }
    }
    let mut peer = Peer::legacy("2025-11-25");
    peer.check_error(&request("tools/call", r#""name":"disk","_meta":[]"#), -32602, "expected _meta to be an object");
    peer.check_error(&request("tools/call", r#""name":"disk","_meta":{"progressToken":1.5}"#), -32602, "progressToken");
}

#[test]
fn every_cursor_is_unknown_s81_s82_s83_r037_r038() {
    for (mut peer, meta) in [(Peer::new(), format!(",{CLAIM}")), (Peer::legacy("2025-03-26"), String::new())] {
        for method in ["tools/list", "resources/list", "resources/templates/list"] {
            for cursor in [r#""""#, r#""bogus""#, "null", "5"] {
                let line = request(method, &format!(r#""cursor":{cursor}{meta}"#));
                peer.check_error(&line, -32602, "expected no cursor");
            }
            let answer = peer.send(&request(method, meta.trim_start_matches(',')));
            assert!(answer.contains(r#""result""#) && !answer.contains("nextCursor"), "{answer}");
        }
    }
}

#[test]
fn missing_resources_by_era_s121_s122_s50() {
    let uri = r#""uri":"result://gone/\u2028""#;
    let data = r#""message":"Resource not found","data":{"uri":"result://gone/\u2028"}"#;
    Peer::new().check(&request("resources/read", &format!("{uri},{CLAIM}")), &[r#""code":-32602"#, data]);
    Peer::legacy("2025-11-25").check(&request("resources/read", uri), &[r#""code":-32002"#, data]);
    Peer::legacy("2025-11-25").check_error(&request("resources/read", ""), -32602, "expected uri to be a string");
    let long = format!(r#""uri":"{}""#, "x".repeat(4097));
    Peer::legacy("2025-11-25").check_error(&request("resources/read", &long), -32602, "at most 4096 bytes, got 4097");
}

#[test]
fn listen_is_modern_only_s110_s114() {
    let listen = |wanted: &str| request("subscriptions/listen", &format!(r#""notifications":{wanted},{CLAIM}"#));
    let mut peer = Peer::new();
    peer.check(&listen(r#"{"toolsListChanged":true,"promptsListChanged":true}"#), &["listen true"]);
    peer.check(&listen(r#"{"promptsListChanged":true}"#), &["listen false"]);
    peer.check_error(&listen("[]"), -32602, "expected notifications to be an object");
    peer.check_error(&request("subscriptions/listen", r#""notifications":{}"#), -32602, "protocolVersion");
}

#[test]
fn cancels_are_taken_by_id_with_its_type_u16_s102_s103() {
    let mut peer = Peer::new();
    let cancel = |id: Id, reason: Option<&str>| Note::Cancel { id, reason: reason.map(str::to_owned) };
    let method = "notifications/cancelled";
    for meta in ["", &format!(",{CLAIM}")] {
        let params = format!(r#","params":{{"requestId":"7","reason":"u\u0073er"{meta}}}"#);
        assert_eq!(peer.note(method, &params), cancel(Id::text("7"), Some("user")));
    }
    assert_eq!(peer.note(method, r#","params":{"requestId":7}"#), cancel(Id::integer(7), None));
    assert_eq!(peer.note(method, r#","params":{"requestId":7,"reason":5}"#), cancel(Id::integer(7), None));
    for params in ["", r#","params":{}"#, r#","params":{"requestId":null}"#, r#","params":{"requestId":1.5}"#] {
        assert_eq!(peer.note(method, params), Note::CancelOfNothing, "{params}");
    }
}

#[test]
fn other_notifications_are_ignored_s6() {
    let mut peer = Peer::new();
    for method in ["x/y", "notifications/initialized", "initialize", "notifications/roots/list_changed", "tools/call"] {
        assert_eq!(peer.note(method, r#","params":{}"#), Note::Ignored, "{method}");
    }
}

#[test]
fn errors_without_id_follow_the_newest_revision_seen_s8_r030() {
    let after = |lines: &[String]| {
        let mut peer = Peer::new();
        for line in lines {
            peer.send(line);
        }
        peer.0.null_id()
    };
    assert!(after(&[]));
    assert!(after(&[request("ping", ""), request("tools/list", "")]));
    assert!(after(&[initialize("2025-06-18", "{}")]));
    assert!(!after(&[initialize("2025-11-25", "{}")]));
    assert!(!after(&[initialize("2026-07-28", "{}")]));
    assert!(!after(&[initialize("2025-11-25", "{}"), initialize("2024-11-05", "{}")]), "once is enough");
    assert!(!after(&[request("server/discover", CLAIM)]));
    assert!(!after(&[request("tools/list", &claim("2025-11-25"))]));
    assert!(!after(&[request("tools/list", &claim("2030-01-01"))]));
    assert!(after(&[request("tools/list", &claim("2024-11-05"))]));
}

#[test]
fn announcement_changes_at_a_reload() {
    let mut peer = Peer::legacy("2025-11-25");
    peer.0.announce(Arc::default(), Some("New.".into()));
    peer.check(&request("tools/list", ""), &[r#""result":{"tools":[]}"#]);
    peer.check(&request("server/discover", CLAIM), &[r#""instructions":"New.""#]);
}
