//! SSH: hosts, how they are proved, and the tools that run commands on them.

use super::*;
use crate::policy::rules::{HostKeyPolicy, HostRule, SshAuth, Tie};

const FINGERPRINT: &str = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";

/// One host around `rest`, which begins in column 37 of line 1; credentials `k` and `p` stand on line 2.
fn host(rest: &str) -> String {
    format!(
        r#"{{"hosts":{{"h":{{"address":"a.example",{rest}}}}},
"credentials":{{"k":{{"from":{{"env":"K"}}}},"p":{{"from":{{"env":"P"}}}}}}}}"#
    )
}

/// The same with a key, a user and a file of known hosts; `rest` begins in column 94 of line 1.
fn keyed(rest: &str) -> String {
    host(&format!(r#""user":"u","known_hosts":"/dev/null","auth":{{"key":"k"}}{rest}"#))
}

/// A host `web1` on line 1, one tool on line 2 around `rest`, which begins in column 40.
fn remote(rest: &str) -> String {
    format!(
        r#"{{"credentials":{{"k":{{"from":{{"env":"K"}}}}}},"hosts":{{"web1":{{"address":"a.example","user":"u","auth":{{"key":"k"}},"known_hosts":"/dev/null"}}}},
"tools":[{{"name":"t","description":"d",{rest}}}]}}"#
    )
}

fn with_home(name: &str) -> Option<OsString> {
    (name == "HOME").then(|| "/no/such/home".into())
}

#[track_caller]
fn rule(text: &str) -> HostRule {
    HostRule::clone(&check_ok(text).hosts[0])
}

#[test]
fn hosts_mean_what_they_say() {
    let config = check_ok(&full());
    let [web1, web2, web3] = &config.hosts[..] else { panic!() };
    let expected = HostRule {
        name: "web1".to_owned(),
        address: "10.0.0.5".to_owned(),
        port: 2222,
        user: "deploy".to_owned(),
        auth: SshAuth::Key {
            credential: "web_key".to_owned(),
            passphrase: Some("word".to_owned()),
            certificate: Some("/dev/null".into()),
        },
        host_key: HostKeyPolicy::Strict,
        known_hosts: "/dev/null".into(),
        fingerprints: vec![FINGERPRINT.to_owned()],
        tie: Tie::None,
    };
    assert_eq!(**web1, expected);
    assert_eq!((web2.address.as_str(), web2.port, web2.user.as_str()), ("2001:db8::1", 22, "ops"));
    assert_eq!(web2.auth, SshAuth::Agent { identity: "/dev/null".into() });
    assert_eq!((web2.host_key, web2.tie), (HostKeyPolicy::AcceptNew, Tie::Stdin));
    assert_eq!((web3.address.as_str(), web3.user.as_str()), ("web3.example.com", "DOM\\root"));
    assert_eq!(web3.auth, SshAuth::Password { credential: "word".to_owned() });
    assert_eq!((web3.host_key, web3.tie, web3.fingerprints.len()), (HostKeyPolicy::Strict, Tie::Stdin, 0));
}

#[test]
#[cfg(feature = "ssh")]
fn tools_carry_their_host_and_fill_as_configured() {
    let config = check_ok(FULL);
    let rule = |name: &str| &config.tools.iter().find(|(tool, _)| tool.name == name).unwrap().1;
    for (tool, index) in [("restart", 0), ("up2", 1), ("up3", 2)] {
        assert_eq!(rule(tool).host.as_ref(), Some(&config.hosts[index]));
        assert_eq!(rule(tool).credential, None);
    }
    assert_eq!(rule("disk").host, None);
    assert_eq!(rule("restart").timeout, Duration::from_secs(5));
    let Action::Ssh(restart) = action(&config, "restart", r#"{"unit":"-a; reboot","note":"x"}"#) else { panic!() };
    let line = r"cd -- '/srv/my app' && exec env 'A=it'\''s' sudo systemctl restart '-a; reboot'";
    assert_eq!((restart.command_line().as_str(), &restart.stdin[..]), (line, &b"x\n"[..]));
}

#[test]
#[cfg(feature = "ssh")]
fn the_limit_is_filled_in_argv_and_stdin() {
    let text = remote(r#""content_bytes":4096,"ssh":{"host":"web1","argv":["head","-c","{limit}"],"stdin":"{limit}\n"}"#);
    let Action::Ssh(head) = action(&check_ok(&text), "t", "{}") else { panic!() };
    assert_eq!((head.command_line().as_str(), &head.stdin[..]), ("exec head -c 1536", &b"1536\n"[..]));
}

#[test]
#[cfg(feature = "ssh")]
fn a_command_that_hears_of_no_end_is_worth_a_warning() {
    let untied = |stop: &str| {
        let text = remote(&format!(r#""stop_at_limit":{stop},"ssh":{{"host":"web1","argv":["yes"]}}"#));
        text.replace(r#""user":"u""#, r#""user":"u","tie":"none""#)
    };
    let warning = "host \"web1\" has no tie: at the limit the connection is cut, and the command may run on";
    check_warnings(&untied("true"), &[&format!("2:56: /tools/0/stop_at_limit: {warning}")]);
    check_warnings(&untied("false"), &[]);
    check_warnings(&remote(r#""stop_at_limit":true,"ssh":{"host":"web1","argv":["yes"]}"#), &[]);
}

#[test]
#[cfg(not(feature = "ssh"))]
fn without_the_feature_its_tools_are_refused() {
    check_errors(
        &remote(r#""ssh":{"host":"web1","argv":["uptime"]}"#),
        &["2:40: /tools/0/ssh: this build has no SSH (feature ssh)"],
    );
    check_warnings(
        &keyed(""),
        &["1:11: /hosts/h: no tool uses this host", "2:41: /credentials/p: no tool and no host uses this credential"],
    );
}

#[test]
fn hosts_are_said_whole() {
    check_errors(
        r#"{"hosts":{"a b":{}}}"#,
        &[
            "1:11: /hosts/a b: expected a name of 1 to 64 letters, digits, _ or -",
            "1:11: /hosts/a b: missing key \"known_hosts\", which has no default without an absolute $HOME",
            "1:17: /hosts/a b: missing key \"address\"",
            "1:17: /hosts/a b: missing key \"user\"",
            "1:17: /hosts/a b: missing key \"auth\"",
        ],
    );
    for (rest, line) in [
        (r#","port":0"#, "1:101: /hosts/h/port: expected a port from 1 to 65535, got 0"),
        (r#","host_key":"ask""#, "1:105: /hosts/h/host_key: expected one of \"strict\", \"accept-new\", got \"ask\""),
        (r#","tie":"pty""#, "1:100: /hosts/h/tie: expected one of \"stdin\", \"none\", got \"pty\""),
        (r#","addres":"b""#, "1:94: /hosts/h/addres: unknown key, nearest is \"address\""),
        (
            r#","fingerprints":[]"#,
            "1:109: /hosts/h/fingerprints: expected at least one fingerprint; leave \"fingerprints\" out to go by \"known_hosts\" alone",
        ),
        (
            r#","fingerprints":["MD5:d4:1d"]"#,
            "1:110: /hosts/h/fingerprints/0: expected a fingerprint as ssh-keygen -lf shows it, SHA256: and 43 characters, got \"MD5:d4:1d\"",
        ),
    ] {
        check_errors(&keyed(rest), &[line]);
    }
}

#[test]
fn addresses_have_one_spelling() {
    for (address, expected) in
        [("A.Example", "a.example"), ("10.0.0.5", "10.0.0.5"), ("[::1]", "::1"), ("localhost", "localhost")]
    {
        assert_eq!(rule(&keyed("").replace("a.example", address)).address, expected);
    }
    for (address, problem) in [
        ("127.1", "expected an IPv4 address in its canonical form, four decimal numbers with dots, got \"127.1\""),
        ("::1", "expected an IPv6 address in brackets, got \"::1\""),
        (
            "u@a",
            "expected a host name of letters, digits and hyphens (an international name in its xn-- form) or an address, got \"u@a\"",
        ),
        (
            "-oProxyCommand=x",
            "expected a host name of letters, digits and hyphens (an international name in its xn-- form) or an address, got \"-oProxyCommand=x\"",
        ),
    ] {
        check_errors(&keyed("").replace("a.example", address), &[&format!("1:26: /hosts/h/address: {problem}")]);
    }
}

#[test]
fn users_are_visible_and_no_option() {
    for user in ["root", "a.b-c_d", "DOM\\\\u", "u@dom"] {
        check_ok(&keyed("").replace(r#""user":"u""#, &format!(r#""user":"{user}""#)));
    }
    for (user, shown) in [("", ""), ("-l", "-l"), ("a b", "a b"), ("a\\n", "a\\u{a}"), ("é", "é")] {
        let expected = "expected a user name of visible ASCII that does not begin with -";
        let text = keyed("").replace(r#""user":"u""#, &format!(r#""user":"{user}""#));
        check_errors(&text, &[&format!("1:45: /hosts/h/user: {expected}, got \"{shown}\"")]);
    }
}

#[test]
fn a_host_is_proved_to_in_one_way() {
    let ways = "expected exactly one of \"key\", \"agent\", \"password\"";
    for (auth, lines) in [
        (r#"{}"#, &[format!("1:82: /hosts/h/auth: {ways}")][..]),
        (r#"{"key":"k","password":"p"}"#, &[format!("1:82: /hosts/h/auth: {ways}")]),
        (
            r#"{"password":"p","passphrase":"p"}"#,
            &["1:98: /hosts/h/auth/passphrase: \"passphrase\" is for \"key\" only".to_owned()],
        ),
        (
            r#"{"agent":{"identity":"/dev/null"},"certificate":"/dev/null"}"#,
            &["1:116: /hosts/h/auth/certificate: \"certificate\" is for \"key\" only".to_owned()],
        ),
        (r#"{"agent":{}}"#, &["1:91: /hosts/h/auth/agent: missing key \"identity\"".to_owned()]),
        (
            r#"{"agent":{"identity":"id.pub"}}"#,
            &["1:103: /hosts/h/auth/agent/identity: expected an absolute path, got \"id.pub\"".to_owned()],
        ),
        (
            r#"{"key":"kk","passphrase":"pp"}"#,
            &[
                "1:89: /hosts/h/auth/key: no credential \"kk\", expected one of \"k\", \"p\"".to_owned(),
                "1:107: /hosts/h/auth/passphrase: no credential \"pp\", expected one of \"k\", \"p\"".to_owned(),
            ],
        ),
        (
            r#"{"password":"K"}"#,
            &["1:94: /hosts/h/auth/password: no credential \"K\", expected one of \"k\", \"p\"".to_owned()],
        ),
    ] {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        check_errors(&keyed("").replace(r#"{"key":"k"}"#, auth), &lines);
    }
}

#[test]
fn known_hosts_are_the_users_own_unless_said() {
    let text = host(r#""user":"u","auth":{"key":"k"}"#);
    let config = Config::parse(Path::new("c.json"), &text, &with_home).unwrap();
    assert_eq!(config.hosts[0].known_hosts, Path::new("/no/such/home/.ssh/known_hosts"));
    check_errors(&text, &["1:11: /hosts/h: missing key \"known_hosts\", which has no default without an absolute $HOME"]);
    let wrong = host(r#""user":"u","auth":{"key":"k"},"known_hosts":"known""#);
    check_errors(&wrong, &["1:82: /hosts/h/known_hosts: expected an absolute path, got \"known\""]);
    let pinned = host(&format!(r#""user":"u","auth":{{"key":"k"}},"fingerprints":["{FINGERPRINT}"]"#));
    assert_eq!(rule(&pinned).known_hosts, Path::new("/etc/ssh/ssh_known_hosts"));
}

#[test]
fn what_may_be_a_mistake_is_a_warning() {
    let unused = "1:11: /hosts/h: no tool uses this host";
    let credential = "2:41: /credentials/p: no tool and no host uses this credential";
    check_warnings(&keyed(""), &[unused, credential]);
    check_warnings(&keyed("").replace(r#"{"key":"k"}"#, r#"{"key":"k","passphrase":"p"}"#), &[unused]);
    for (rest, warning) in [
        (
            r#""known_hosts":"/no/known","auth":{"key":"k"}"#,
            Some("1:63: /hosts/h/known_hosts: no file \"/no/known\": every host key will be refused"),
        ),
        (
            r#""known_hosts":"/tmp","auth":{"key":"k"}"#,
            Some("1:63: /hosts/h/known_hosts: no file \"/tmp\": every host key will be refused"),
        ),
        (r#""known_hosts":"/no/known","auth":{"key":"k"},"host_key":"accept-new""#, None),
        (
            r#""known_hosts":"/dev/null","auth":{"key":"k","certificate":"/no/cert"}"#,
            Some("1:107: /hosts/h/auth/certificate: no certificate there"),
        ),
        (
            r#""known_hosts":"/dev/null","host_key":"accept-new","auth":{"key":"k"},"fingerprints":["FP"]"#,
            Some("1:86: /hosts/h/host_key: \"accept-new\" says nothing beside \"fingerprints\": only those are accepted"),
        ),
        (r#""known_hosts":"/no/known","auth":{"key":"k"},"fingerprints":["FP"]"#, None),
    ] {
        let text = host(&format!(r#""user":"u",{rest}"#).replace("FP", FINGERPRINT));
        check_warnings(&text, &[unused].into_iter().chain(warning).chain([credential]).collect::<Vec<_>>());
    }
    check_warnings(
        &keyed("").replace(r#"{"key":"k"}"#, r#"{"agent":{"identity":"/no/id.pub"}}"#),
        &[
            unused,
            "1:103: /hosts/h/auth/agent/identity: no public key there",
            "2:16: /credentials/k: no tool and no host uses this credential",
            credential,
        ],
    );
}

#[test]
#[cfg(feature = "ssh")]
fn remote_commands_are_checked_where_they_stand() {
    check_warnings(&remote(r#""ssh":{"host":"web1","argv":["uptime"]}"#), &[]);
    for (rest, lines) in [
        (r#""ssh":{}"#, &["2:46: /tools/0/ssh: missing key \"host\"", "2:46: /tools/0/ssh: missing key \"argv\""][..]),
        (r#""ssh":{"host":"wbe1","argv":["uptime"]}"#, &["2:54: /tools/0/ssh/host: no host \"wbe1\", nearest is \"web1\""]),
        (
            r#""ssh":{"host":"Database","argv":["uptime"]}"#,
            &["2:54: /tools/0/ssh/host: no host \"Database\", expected one of \"web1\""],
        ),
        (
            r#""ssh":{"host":"web1","argv":["uptime"],"credential":"k"}"#,
            &[
                "2:79: /tools/0/ssh/credential: unknown key, expected one of \"host\", \"argv\", \"env\", \"cwd\", \"stdin\", \"timeout_s\"",
            ],
        ),
        (
            r#""ssh":{"host":"web1","argv":["./run","{"],"cwd":"srv","env":{"TIDEGATE_A":""},"stdin":"}"}"#,
            &[
                "2:69: /tools/0/ssh/argv/0: expected an absolute path or a bare name: \"./run\"",
                "2:77: /tools/0/ssh/argv/1: \"{\", character 1: expected a placeholder {name}, or {{ for a brace, got a lone {",
                "2:88: /tools/0/ssh/cwd: expected an absolute path, got \"srv\"",
                "2:101: /tools/0/ssh/env/TIDEGATE_A: names beginning with TIDEGATE_ are the gateway's own",
                "2:126: /tools/0/ssh/stdin: \"}\", character 1: expected }} for a brace, got a lone }",
            ],
        ),
        (
            r#""ssh":{"host":"web1","argv":["A=b"]}"#,
            &["2:69: /tools/0/ssh/argv/0: expected a program without =, which would be read as a variable: \"A=b\""],
        ),
        (
            r#""ssh":{"host":"web1","argv":["cat","{x}"],"stdin":"{y}"},"input":{"type":"object","properties":{"y":{},"z":{}}}"#,
            &[
                "2:75: /tools/0/ssh/argv/1: placeholder {x} is no property of \"input\"",
                "2:90: /tools/0/ssh/stdin: placeholder {y} needs its argument in \"required\": its place cannot be left out",
                "2:143: /tools/0/input/properties/z: no placeholder uses this argument",
            ],
        ),
        (
            r#""ssh":{"host":"web1","argv":["a"]},"exec":{"argv":["sh"]}"#,
            &["2:10: /tools/0: expected exactly one of \"http\", \"exec\", \"ssh\""],
        ),
    ] {
        check_errors(&remote(rest), lines);
    }
    check_errors(
        &tool(r#""ssh":{"host":"web1","argv":["uptime"]}"#),
        &["1:55: /tools/0/ssh/host: no host \"web1\", none is configured"],
    );
}

#[test]
#[cfg(feature = "ssh")]
fn one_credential_may_serve_a_host_and_requests() {
    let text = remote(
        r#""http":{"url":"https://b.example/","credential":"k"}},{"name":"u","description":"d","ssh":{"host":"web1","argv":["a"]}"#,
    );
    let scoped = text.replace(r#"{"from":{"env":"K"}}"#, r#"{"from":{"env":"K"},"for":[{"host":"b.example"}]}"#);
    let config = check_ok(&scoped);
    assert_eq!(config.warnings, Vec::<String>::new());
    assert_eq!(config.tools[0].1.credential.as_ref().unwrap().name, "k");
    assert_eq!(config.tools[1].1.host.as_ref().unwrap().auth.credential(), Some("k"));
    let error = parse(&text).unwrap_err();
    assert!(error.lines[0].ends_with("credential \"k\" has no \"for\", so it may be sent nowhere"), "{error}");
}
