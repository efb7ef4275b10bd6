//! `builtin`, `rate` and `max_concurrent`: what they come to, and what is wrong with them.

use super::*;
use crate::policy::rules::{Allow, Pace, Rate};

fn http_request(rest: &str) -> String {
    format!(r#"{{"builtin":{{"http_request":{{{rest}}}}}}}"#)
}

/// A rule with a credential: its members, and those of the credential beside `from`.
fn with_credential(rule: &str, credential: &str) -> String {
    format!(
        r#"{{"builtin":{{"http_request":{{"allow":[{{{rule},"credential":"k"}}]}}}},
"credentials":{{"k":{{"from":{{"env":"K"}}{credential}}}}}}}"#
    )
}

#[cfg(feature = "ssh")]
fn ssh_exec(rest: &str) -> String {
    format!(
        r#"{{"builtin":{{"ssh_exec":{{{rest}}}}},
"hosts":{{"web1":{{"address":"10.0.0.5","user":"u","auth":{{"agent":{{"identity":"/dev/null"}}}},"known_hosts":"/dev/null"}}}}}}"#
    )
}

#[test]
fn requests_come_with_their_rules_and_terms() {
    let config = check_ok(&full());
    let (tool, rule) = config.tools.iter().find(|(tool, _)| tool.name == "http_request").unwrap();
    let Allow::Requests(rules) = &rule.allow else { panic!("{rule:?}") };
    let scope = |scheme, host: &str, port, paths: &[&str]| Scope {
        scheme,
        host: host.to_owned(),
        port,
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    assert_eq!(rules[0].scope, scope(Scheme::Https, "api.example.com", 443, &["/v1/"]));
    assert_eq!((rules[0].methods.as_slice(), &rules[0].credential), (["GET".to_owned(), "PUT".to_owned()].as_slice(), &None));
    assert_eq!(rules[1].scope, scope(Scheme::Http, "localhost", 8080, &[]));
    assert_eq!(rules[1].methods, ["GET", "HEAD"]);
    assert_eq!(rules[1].credential.as_ref().unwrap().name, "web_key");
    assert_eq!((rule.content_bytes, rule.timeout), (16384, Duration::from_millis(2500)));
    assert_eq!(rule.pace, Pace { rate: Some(Rate { per_minute: 30, burst: 30 }), max_concurrent: Some(4) });
    assert_eq!((rule.at_limit, &rule.credential, &rule.host), (AtLimit::Drain, &None, &None));
    let says = "Allowed, and nothing else: GET, PUT https://api.example.com:443 under /v1/; GET, HEAD http://localhost:8080, with \
                the credential \"web_key\".";
    assert!(tool.description.contains(says), "{}", tool.description);
    assert_eq!((tool.annotations.read_only, tool.annotations.open_world), (None, Some(true)));
    let plain = check_ok(&http_request(r#""allow":[{"host":"a"}]"#));
    let (tool, rule) = &plain.tools[0];
    assert_eq!((rule.content_bytes, rule.timeout, rule.pace), (32768, Duration::from_secs(50), Pace::default()));
    assert_eq!(tool.annotations.read_only, Some(true));
}

#[test]
#[cfg(feature = "ssh")]
fn commands_come_with_their_rules_and_terms() {
    use crate::action::template::argv::Dash;
    let config = check_ok(&full());
    let (tool, rule) = config.tools.iter().find(|(tool, _)| tool.name == "ssh_exec").unwrap();
    let Allow::Commands(rules) = &rule.allow else { panic!("{rule:?}") };
    assert_eq!(rules.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["web2", "web3"]);
    let shapes: Vec<String> = rules.shapes.iter().map(|shape| shape.to_json()).collect();
    assert_eq!(shapes, [r#"["uptime"]"#, r#"["journalctl","-u","*","-n","*"]"#]);
    assert_eq!((rules.dash, rule.at_limit, rule.content_bytes), (Dash::Allowed, AtLimit::Stop, 8192));
    assert_eq!(rule.pace, Pace { rate: Some(Rate { per_minute: 60, burst: 5 }), max_concurrent: Some(2) });
    let says = r#"Hosts: web2; web3. Allowed as argv, element by element, and nothing else ("*" is any one argument): ["uptime"]; ["journalctl","-u","*","-n","*"]."#;
    assert!(tool.description.contains(says), "{}", tool.description);
    let plain = check_ok(&ssh_exec(r#""hosts":["web1"],"allow":[["uptime"]]"#));
    let Allow::Commands(rules) = &plain.tools[0].1.allow else { panic!() };
    assert_eq!(rules.dash, Dash::Refused);
}

#[test]
fn a_pace_is_that_of_its_tool() {
    let config = check_ok(&full());
    let pace = |name: &str| config.tools.iter().find(|(tool, _)| tool.name == name).unwrap().1.pace;
    assert_eq!(pace("disk"), Pace { rate: Some(Rate { per_minute: 6, burst: 2 }), max_concurrent: Some(1) });
    assert_eq!(pace("save"), Pace::default());
    let many = check_ok(&tool(r#""rate":{"per_minute":6000},"exec":{"argv":["sh"]}"#));
    assert_eq!(many.tools[0].1.pace.rate, Some(Rate { per_minute: 6000, burst: 1000 }));
    let config = r#""rate":{"per_minute":0,"burst":1001},"max_concurrent":65,"exec":{"argv":["sh"]}"#;
    check_errors(
        &tool(config),
        &[
            "1:62: /tools/0/rate/per_minute: expected calls a minute from 1 to 6000, got 0",
            "1:72: /tools/0/rate/burst: expected calls at once from 1 to 1000, got 1001",
            "1:95: /tools/0/max_concurrent: expected calls at once from 1 to 64, got 65",
        ],
    );
}

#[test]
fn descriptions_are_bounded() {
    let rules: Vec<String> =
        (0..500).map(|n| format!(r#"{{"host":"h{n}.example.com","paths":["/{}"]}}"#, "x".repeat(300))).collect();
    let config = check_ok(&http_request(&format!(r#""allow":[{}]"#, rules.join(","))));
    let description = &config.tools[0].0.description;
    assert!(description.len() < 5000 && description.contains("; and 480 more."), "{}: {description}", description.len());
}

#[test]
fn rules_that_say_nothing_sound_are_refused() {
    check_errors(
        &http_request(
            r#""allow":[
{"host":"a","methods":["get","CONNECT"]},
{"host":"127.1"},
{"host":"a","scheme":"http"},
{"host":"a","paths":["/a/../b"]},
{"host":"a","path":"/a"}]"#,
        ),
        &[
            "2:24: /builtin/http_request/allow/0/methods/0: expected a method in upper case such as GET, got \"get\"",
            "2:30: /builtin/http_request/allow/0/methods/1: expected another than CONNECT, which makes a tunnel or echoes credentials",
            "3:9: /builtin/http_request/allow/1/host: expected an IPv4 address in its canonical form, four decimal numbers with dots, got \"127.1\"",
            "4:22: /builtin/http_request/allow/2/scheme: a request of this tool goes over https, over http to a loopback host only; \"a\" is none",
            "5:22: /builtin/http_request/allow/3/paths/0: expected a path prefix of visible ASCII without \"?\", \"#\", \"\\\" and dot segments, got \"/a/../b\"",
            "6:13: /builtin/http_request/allow/4/path: unknown key, nearest is \"paths\"",
        ],
    );
    check_errors(
        &http_request(r#""allow":[]"#),
        &["1:37: /builtin/http_request/allow: expected at least one rule, got an empty array"],
    );
}

#[test]
fn a_credential_may_go_where_its_rule_does() {
    let config = check_ok(&with_credential(r#""host":"a.example""#, r#","for":[{"host":"a.example"}]"#));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let at = "/builtin/http_request/allow/0/credential";
    for (rule, credential, column, problem) in [
        (r#""host":"a.example""#, "", 71, "credential \"k\" has no \"for\", so it may be sent nowhere"),
        (
            r#""host":"a.example""#,
            r#","for":[{"host":"b.example"}]"#,
            71,
            "credential \"k\" may be sent to https://b.example:443 only, not to https://a.example:443",
        ),
        (
            r#""host":"a.example","port":8443"#,
            r#","for":[{"host":"a.example"}]"#,
            83,
            "credential \"k\" may be sent to https://a.example:443 only, not to https://a.example:8443",
        ),
    ] {
        check_errors(&with_credential(rule, credential), &[&format!("1:{column}: {at}: {problem}")]);
    }
    check_errors(
        &http_request(r#""allow":[{"host":"a","credential":"k"}]"#),
        &[&format!("1:63: {at}: no credential \"k\", none is configured")],
    );
}

#[test]
#[cfg(feature = "ssh")]
fn shapes_and_hosts_that_match_nothing_are_refused() {
    let what = "expected \"*\", which is any one argument, or literal text: no part of one and no several";
    check_errors(
        &ssh_exec(
            r#""hosts":["web1","web2"],"allow":[
["*"],
["p","a","app-*"],
["p","**"]]"#,
        ),
        &[
            "1:41: /builtin/ssh_exec/hosts/1: no host \"web2\", nearest is \"web1\"",
            "2:2: /builtin/ssh_exec/allow/0/0: expected a literal program, got \"*\"",
            &format!("3:10: /builtin/ssh_exec/allow/1/2: {what}, got \"app-*\""),
            &format!("4:6: /builtin/ssh_exec/allow/2/1: {what}, got \"**\""),
        ],
    );
}

#[test]
#[cfg(not(feature = "ssh"))]
fn without_the_feature_the_tool_is_refused() {
    let error = parse(r#"{"builtin":{"ssh_exec":{"hosts":["a"],"allow":[["x"]]}}}"#).unwrap_err();
    assert!(error.lines[0].contains("/builtin/ssh_exec: this build has no SSH (feature ssh)"), "{error}");
}

#[test]
fn names_are_taken_only_by_what_is_configured() {
    let declared = |name: &str, rest: &str| {
        format!(r#"{{"tools":[{{"name":"{name}","description":"d","exec":{{"argv":["sh"]}}}}]{rest}}}"#)
    };
    for name in ["http_request", "ssh_exec"] {
        assert_eq!(check_ok(&declared(name, "")).tools[0].0.name, name);
    }
    let builtin = r#","builtin":{"http_request":{"allow":[{"host":"a"}]}}"#;
    check_errors(
        &declared("http_request", builtin),
        &["1:19: /tools/0/name: \"http_request\" is the tool that \"builtin\" configures under this name"],
    );
    assert_eq!(check_ok(&declared("ssh_exec", builtin)).tools.len(), 2);
    assert_eq!(check_ok(r#"{"builtin":{}}"#).tools.len(), 0);
}
