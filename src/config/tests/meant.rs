//! What is meant: tools, inputs, templates, credentials, networks.

use super::*;

#[test]
fn tool_names_are_plain_unique_and_not_ours_r081() {
    let named = |names: &[&str]| {
        let tools: Vec<String> =
            names.iter().map(|name| format!(r#"{{"name":"{name}","description":"d","exec":{{"argv":["sh"]}}}}"#)).collect();
        format!("{{\"tools\":[\n{}]}}", tools.join(",\n"))
    };
    check_ok(&named(&["a", "A-_9", &"x".repeat(64)]));
    for name in ["", "a.b", "a b", "ä", &"x".repeat(65)] {
        check_errors(&named(&[name]), &["2:9: /tools/0/name: expected a name of 1 to 64 letters, digits, _ or -"]);
    }
    check_errors(&named(&["a", "b", "a"]), &["4:9: /tools/2/name: another tool is named \"a\" already"]);
    for name in ["tidegate_status", "read_result"] {
        check_errors(&named(&[name]), &[&format!("2:9: /tools/0/name: \"{name}\" is a tool of the gateway itself")]);
    }
}

#[test]
fn a_tool_has_a_name_a_description_and_one_recipe() {
    check_errors(
        r#"{"tools":[{}]}"#,
        &[
            "1:11: /tools/0: missing key \"name\"",
            "1:11: /tools/0: missing key \"description\"",
            "1:11: /tools/0: expected exactly one of \"http\", \"exec\", \"ssh\"",
        ],
    );
    check_errors(
        &tool(r#""http":{"url":"https://a.example/"},"exec":{"argv":["sh"]}"#),
        &["1:11: /tools/0: expected exactly one of \"http\", \"exec\", \"ssh\""],
    );
    check_errors(
        r#"{"tools":[{"name":"t","description":"","http":{},"exec":{}}]}"#,
        &[
            "1:11: /tools/0: expected exactly one of \"http\", \"exec\", \"ssh\"",
            "1:37: /tools/0/description: expected a string that is not empty, got \"\"",
            "1:47: /tools/0/http: missing key \"url\"",
            "1:57: /tools/0/exec: missing key \"argv\"",
        ],
    );
}

#[test]
fn time_outs_stand_beside_or_inside_but_once() {
    for (rest, expected) in [
        (r#""exec":{"argv":["sh"],"timeout_s":2}"#, Some(2)),
        (r#""timeout_s":3,"exec":{"argv":["sh"]}"#, Some(3)),
        (r#""http":{"url":"https://a.example/","timeout_s":4}"#, Some(4)),
        (r#""http":{"url":"https://a.example/"}"#, Some(50)),
        (r#""timeout_s":3,"exec":{"argv":["sh"],"timeout_s":3}"#, None),
    ] {
        match expected {
            Some(seconds) => assert_eq!(check_ok(&tool(rest)).tools[0].1.timeout, Duration::from_secs(seconds)),
            None => check_errors(&tool(rest), &["1:89: /tools/0/exec/timeout_s: \"timeout_s\" is said twice for this tool"]),
        }
    }
}

#[test]
fn only_a_command_is_told_to_end_at_its_limit() {
    check_errors(
        &tool(r#""stop_at_limit":false,"http":{"url":"https://a.example/"}"#),
        &[
            "1:57: /tools/0/stop_at_limit: \"stop_at_limit\" is for \"exec\" and \"ssh\" only: it ends a command, and an HTTP request starts none",
        ],
    );
    for (rest, expected) in
        [("", AtLimit::Drain), (r#""stop_at_limit":false,"#, AtLimit::Drain), (r#""stop_at_limit":true,"#, AtLimit::Stop)]
    {
        assert_eq!(check_ok(&tool(&format!(r#"{rest}"exec":{{"argv":["sh"]}}"#))).tools[0].1.at_limit, expected);
    }
}

#[test]
fn inputs_are_plain_objects_that_clients_take_r082() {
    for (input, line) in [
        (r#"[]"#, "1:49: /tools/0/input: expected an object, got an array"),
        (
            r#"{"properties":{}}"#,
            "1:49: /tools/0/input: missing key \"type\", expected \"object\" at the top of an input schema",
        ),
        (
            r#"{"type":["object"],"properties":{}}"#,
            "1:57: /tools/0/input/type: expected \"object\" at the top of an input schema",
        ),
        (r#"{"type":"object"}"#, "1:49: /tools/0/input: missing key \"properties\""),
        (r#"{"type":"object","properties":[]}"#, "1:79: /tools/0/input/properties: expected an object, got an array"),
        (
            r#"{"type":"object","properties":{},"anyOf":[{}]}"#,
            "1:82: /tools/0/input/anyOf: clients drop tools with \"anyOf\" at the top of an input schema; use it inside a property",
        ),
        (
            r#"{"type":"object","properties":{},"additionalProperties":true}"#,
            "1:105: /tools/0/input/additionalProperties: expected false: every argument is declared in \"properties\" and used",
        ),
        (
            r#"{"type":"object","properties":{},"patternProperties":{}}"#,
            "1:82: /tools/0/input/patternProperties: every argument is declared in \"properties\" and used, none by pattern",
        ),
        (
            r#"{"type":"object","properties":{},"required":["a"]}"#,
            "1:94: /tools/0/input/required/0: \"a\" is required but not declared in \"properties\"",
        ),
    ] {
        check_errors(&tool(&format!(r#""input":{input},"exec":{{"argv":["sh"]}}"#)), &[line]);
    }
    check_errors(
        &tool(r#""input":{"type":"object","properties":{"a":true}},"exec":{"argv":["sh","{a}"]}"#),
        &["1:84: /tools/0/input/properties/a: expected an object, got a boolean"],
    );
}

#[test]
fn what_the_validator_refuses_stands_where_it_is() {
    check_errors(
        &tool(
            "\"input\":{\"type\":\"object\",\"properties\":{\n\"a\":{\"minimun\":1},\n\"b\":{\"type\":\"strin\"}}},\"exec\":{\"argv\":[\"sh\",\"{a}\",\"{b}\"]}",
        ),
        &[
            "2:16: /tools/0/input/properties/a/minimun: unknown keyword \"minimun\", did you mean \"minimum\"?",
            "3:13: /tools/0/input/properties/b/type: expected one of \"null\", \"boolean\", \"integer\", \"number\", \"string\", \"array\", \"object\", or several in an array, got the string \"strin\"",
        ],
    );
}

/// The tool around `rest`, called with `arguments`, as it is recorded.
#[track_caller]
fn check_filled(rest: &str, arguments: &str, part: &str) {
    let action = action(&check_ok(&tool(rest)), "t", arguments).record();
    assert!(action.contains(part), "{part} is not in {action}");
}

#[test]
fn the_limit_is_filled_wherever_a_placeholder_may_stand() {
    // (4096 - 1024) / 2 of its own, (32768 - 1024) / 2 by default.
    check_filled(
        r#""content_bytes":4096,"exec":{"argv":["head","-c","{limit}","--","n={limit}"]}"#,
        "{}",
        r#"["head","-c","1536","--","n=1536"]"#,
    );
    check_filled(r#""exec":{"argv":["head","-c{limit}"]}"#, "{}", r#"["head","-c15872"]"#);
    let http = r#""http":{"method":"POST","url":"https://a.example/{limit}/{+limit}","query":{"n":"{limit}"},"headers":{"x-n":"<{limit}>"},"body":BODY}"#;
    for (body, part) in [
        (r#"{"json":{"n":"{limit}","of":["{limit} bytes"]}}"#, r#""text":"{\"n\":15872,\"of\":[\"15872 bytes\"]}""#),
        (r#"{"text":"{limit}"}"#, r#""text":"15872""#),
        (r#"{"form":{"n":"{limit}"}}"#, r#""text":"n=15872""#),
    ] {
        let http = http.replace("BODY", body);
        check_filled(&http, "{}", part);
        check_filled(&http, "{}", r#""url":"https://a.example/15872/15872?n=15872""#);
        check_filled(&http, "{}", r#"["x-n","<15872>"]"#);
    }
}

#[test]
fn a_declared_limit_is_the_callers() {
    let declared = r#""input":{"type":"object","properties":{"limit":{"type":"integer"}}},"#;
    let exec = format!(r#"{declared}"exec":{{"argv":["head","{{limit}}"]}}"#);
    check_filled(&exec, r#"{"limit":7}"#, r#"["head","7"]"#);
    check_filled(&exec, "{}", r#"["head"]"#);
    assert!(check_ok(&tool(r#""exec":{"argv":["head","{limit}"]}"#)).tools[0].0.action(r#"{"limit":7}"#).is_err());
    let path = format!(r#"{declared}"http":{{"url":"https://a.example/{{limit}}"}}"#);
    let why = "placeholder {limit} needs its argument in \"required\": its place cannot be left out";
    check_errors(&tool(&path), &[&format!("1:123: /tools/0/http/url: {why}")]);
    let unused = format!(r#"{declared}"exec":{{"argv":["true"]}}"#);
    check_errors(&tool(&unused), &["1:80: /tools/0/input/properties/limit: no placeholder uses this argument"]);
}

#[test]
fn placeholders_and_properties_match() {
    check_errors(
        &tool(
            "\"input\":{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"required\":[\"b\"]},\n\"http\":{\"url\":\"https://x.example/{a}/{b}\",\n\"query\":{\"d\":\"{d}\"}}",
        ),
        &[
            "1:94: /tools/0/input/properties/c: no placeholder uses this argument",
            "2:15: /tools/0/http/url: placeholder {a} needs its argument in \"required\": its place cannot be left out",
            "3:14: /tools/0/http/query/d: placeholder {d} is no property of \"input\"",
        ],
    );
    check_errors(
        &tool(r#""exec":{"argv":["sh","{x}"]}"#),
        &["1:62: /tools/0/exec/argv/1: placeholder {x} is no property of \"input\""],
    );
}

#[test]
fn templates_are_checked_where_they_stand() {
    check_errors(
        &tool(
            "\"http\":{\"url\":\"ftp://a.example/\",\n\"headers\":{\"host\":\"x\"},\"body\":{\"json\":1},\n\"select\":[\"x\"]}",
        ),
        &[
            "1:55: /tools/0/http/url: expected the scheme https or http, got \"ftp\"",
            "2:11: /tools/0/http/headers: \"host\": name: host is set by the gateway itself and cannot be configured",
            "2:31: /tools/0/http/body: expected none with GET, got one",
            "3:10: /tools/0/http/select: expected a JSON Pointer such as /items/*/name, with ~0 and ~1 for ~ and /, got \"x\"",
        ],
    );
    check_errors(
        &tool("\"exec\":{\"argv\":[\"sh\",\n\"{\"],\"cwd\":\"/\"}"),
        &["2:1: /tools/0/exec/argv/1: \"{\", character 1: expected a placeholder {name}, or {{ for a brace, got a lone {"],
    );
    check_errors(
        &tool("\"exec\":{\"argv\":[\"{p}\"]},\"input\":{\"type\":\"object\",\"properties\":{\"p\":{}}}"),
        &["1:57: /tools/0/exec/argv/0: expected a literal program, got a placeholder: \"{p}\""],
    );
}

#[test]
fn programs_are_absolute_or_looked_up() {
    check_errors(
        &tool(r#""exec":{"argv":["./run"]}"#),
        &["1:57: /tools/0/exec/argv/0: expected an absolute path or a bare name: \"./run\""],
    );
    check_warnings(&tool(r#""exec":{"argv":["sh"]}"#), &[]);
    check_warnings(&tool(r#""exec":{"argv":["/bin/sh"]}"#), &[]);
    check_warnings(
        &tool(r#""exec":{"argv":["/bin/no-such-program"]}"#),
        &["1:57: /tools/0/exec/argv/0: no program \"/bin/no-such-program\" there"],
    );
    check_warnings(
        &tool(r#""exec":{"argv":["no-such-program"]}"#),
        &["1:57: /tools/0/exec/argv/0: no program \"no-such-program\" in /usr/local/bin:/usr/bin:/bin"],
    );
    check_warnings(
        &tool(r#""exec":{"argv":["sh"],"env":{"PATH":"/dev"}}"#),
        &["1:57: /tools/0/exec/argv/0: no program \"sh\" in /dev"],
    );
}

#[test]
fn the_environment_of_a_child_is_said_by_name() {
    check_errors(
        &tool(r#""exec":{"argv":["sh"],"env":{"1A":"","A=B":"","TIDEGATE_X":"","LD_PRELOAD":"","A":1}}"#),
        &[
            "1:70: /tools/0/exec/env/1A: expected the name of an environment variable",
            "1:78: /tools/0/exec/env/A=B: expected the name of an environment variable",
            "1:87: /tools/0/exec/env/TIDEGATE_X: names beginning with TIDEGATE_ are the gateway's own",
            "1:123: /tools/0/exec/env/A: expected a string, got a number",
        ],
    );
    check_errors(
        &tool(r#""allow_dash":true,"http":{"url":"https://a.example/"}"#),
        &["1:54: /tools/0/allow_dash: \"allow_dash\" is for \"exec\" and \"ssh\" only"],
    );
}

#[test]
fn credentials_go_where_they_may() {
    for (url, rest) in [
        ("https://a.example/", r#","for":[{"host":"A.example"}]"#),
        ("https://a.example:8443/", r#","for":[{"host":"b.example"},{"host":"a.example","port":8443}]"#),
        ("http://localhost/", r#","for":[{"host":"localhost"}]"#),
        ("http://127.0.0.9:81/", r#","for":[{"host":"127.0.0.9","port":81,"scheme":"http"}]"#),
        ("http://[::1]/", r#","for":[{"host":"[::1]"}]"#),
        ("https://localhost/", r#","for":[{"host":"localhost","scheme":"https"}]"#),
        ("https://a.example/", r#","as":{"header":{"name":"Authorization","prefix":"Token "}},"for":[{"host":"a.example"}]"#),
    ] {
        assert!(check_ok(&with_credential(url, rest)).tools[0].1.credential.is_some());
    }
    for (url, rest, problem) in [
        ("https://a.example/", "", r#"credential "k" has no "for", so it may be sent nowhere"#),
        ("https://a.example/", r#","for":[]"#, r#"credential "k" has no "for", so it may be sent nowhere"#),
        (
            "https://b.example/",
            r#","for":[{"host":"a.example"}]"#,
            r#"credential "k" may be sent to https://a.example:443 only, not to https://b.example:443"#,
        ),
        (
            "https://a.example:444/",
            r#","for":[{"host":"a.example"}]"#,
            r#"credential "k" may be sent to https://a.example:443 only, not to https://a.example:444"#,
        ),
        (
            "http://a.example/",
            r#","for":[{"host":"a.example"}]"#,
            r#"credential "k" may be sent to https://a.example:443 only, not to http://a.example:80"#,
        ),
        (
            "https://[::1]/",
            r#","for":[{"host":"[::1]"},{"host":"localhost"}]"#,
            r#"credential "k" may be sent to http://[::1]:80, http://localhost:80 only, not to https://[::1]:443"#,
        ),
    ] {
        let column = 71 + url.len();
        check_errors(&with_credential(url, rest), &[&format!("1:{column}: /tools/0/http/credential: {problem}")]);
    }
}

#[test]
fn credentials_exist() {
    let text = tool(r#""http":{"url":"https://a.example/","credential":"k"}"#);
    check_errors(&text, &["1:89: /tools/0/http/credential: no credential \"k\", none is configured"]);
    check_errors(
        &text.replacen('{', r#"{"credentials":{"j":{"from":{"env":"K"}}},"#, 1),
        &["1:130: /tools/0/http/credential: no credential \"k\", expected one of \"j\""],
    );
    check_warnings(
        r#"{"credentials":{"j":{"from":{"env":"K"}}}}"#,
        &["1:17: /credentials/j: no tool and no host uses this credential"],
    );
}

#[test]
fn credentials_are_said_whole() {
    for (members, lines) in [
        (r#""as":{"bearer":{}}"#, &["1:21: /credentials/k: missing key \"from\""][..]),
        (r#""from":{}"#, &["1:29: /credentials/k/from: expected exactly one of \"env\", \"file\", \"command\", \"systemd\""]),
        (
            r#""from":{"env":"A","file":"/f"}"#,
            &["1:29: /credentials/k/from: expected exactly one of \"env\", \"file\", \"command\", \"systemd\""],
        ),
        (
            r#""from":{"env":"A B"}"#,
            &["1:36: /credentials/k/from/env: expected the name of an environment variable, got \"A B\""],
        ),
        (r#""from":{"file":"f"}"#, &["1:37: /credentials/k/from/file: expected an absolute path, got \"f\""]),
        (r#""from":{"env":"A"},"as":{}"#, &["1:46: /credentials/k/as: expected exactly one of \"bearer\", \"header\""]),
        (r#""from":{"env":"A"},"as":{"header":{}}"#, &["1:56: /credentials/k/as/header: missing key \"name\""]),
        (
            r#""from":{"env":"A"},"as":{"header":{"name":"a b"}}"#,
            &["1:64: /credentials/k/as/header/name: expected a header name, got \"a b\""],
        ),
        (
            r#""from":{"env":"A"},"as":{"header":{"name":"Host"}}"#,
            &["1:64: /credentials/k/as/header/name: a credential cannot stand in the header \"host\""],
        ),
        (
            r#""from":{"env":"A"},"as":{"header":{"name":"Proxy-X"}}"#,
            &["1:64: /credentials/k/as/header/name: a credential cannot stand in the header \"proxy-x\""],
        ),
        (
            r#""from":{"env":"A"},"as":{"header":{"name":"x","prefix":"é"}}"#,
            &["1:77: /credentials/k/as/header/prefix: expected visible ASCII, spaces and tabs, got \"é\""],
        ),
        (r#""from":{"env":"A"},"for":{}"#, &["1:47: /credentials/k/for: expected an array, got an object"]),
        (r#""from":{"env":"A"},"for":[{}]"#, &["1:48: /credentials/k/for/0: missing key \"host\""]),
        (
            r#""from":{"env":"A"},"for":[{"host":"a.example","port":0}]"#,
            &["1:75: /credentials/k/for/0/port: expected a port from 1 to 65535, got 0"],
        ),
        (
            r#""from":{"env":"A"},"for":[{"host":"a.example","paths":[]}]"#,
            &["1:76: /credentials/k/for/0/paths: expected at least one path prefix; leave \"paths\" out for every path"],
        ),
        (
            r#""from":{"env":"A"},"for":[{"host":"a.example","paths":["x"]}]"#,
            &["1:77: /credentials/k/for/0/paths/0: expected a path prefix beginning with /, got \"x\""],
        ),
        (
            r#""from":{"env":"A"},"for":[{"host":"a.example","paths":["/a/../b"]}]"#,
            &[
                "1:77: /credentials/k/for/0/paths/0: expected a path prefix of visible ASCII without \"?\", \"#\", \"\\\" and dot segments, got \"/a/../b\"",
            ],
        ),
        (
            r#""from":{"env":"A"},"for":[{"host":"a.example","scheme":"http"}]"#,
            &[
                "1:77: /credentials/k/for/0/scheme: a credential is sent over https, over http to a loopback host only; \"a.example\" is none",
            ],
        ),
        (
            r#""from":{"env":"A"},"for":[{"host":"*.example"}]"#,
            &[
                "1:56: /credentials/k/for/0/host: expected a host name of letters, digits and hyphens (an international name in its xn-- form) or an address, got \"*.example\"",
            ],
        ),
    ] {
        check_errors(&format!(r#"{{"credentials":{{"k":{{{members}}}}}}}"#), lines);
    }
    check_errors(
        r#"{"credentials":{"a b":{"from":{"env":"A"}}}}"#,
        &["1:17: /credentials/a b: expected a name of 1 to 64 letters, digits, _ or -"],
    );
    check_errors(
        &with_credential("https://a.example/", r#","as":{"header":{"name":"X-K"}},"for":[{"host":"a.example"}]"#)
            .replace(r#""credential""#, r#""headers":{"x-k":"1"},"credential""#),
        &["1:111: /tools/0/http/credential: credential \"k\" stands in the header \"x-k\", which the tool sets itself"],
    );
}

#[test]
fn every_address_is_worth_a_warning() {
    let warning = "this range is every address, loopback and metadata services included";
    check_warnings(
        r#"{"networks":["0.0.0.0/0","::/0","10.0.0.0/8"]}"#,
        &[&format!("1:14: /networks/0: {warning}"), &format!("1:26: /networks/1: {warning}")],
    );
}
