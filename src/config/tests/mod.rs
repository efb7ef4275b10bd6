//! Whole configurations: what loads and what it means, what does not and every line that says why.

mod approvals;
mod builtin;
mod meant;
mod remote;
mod source;
mod written;

use std::ffi::OsString;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::action::Action;
use crate::action::http::Scheme;
use crate::journal::append::SyncMode;
use crate::mcp::listing::ToolAnnotations;
use crate::policy::rules::{AtLimit, Confirm, CredentialRule, Network, Placement, Scope};

fn no_env(_: &str) -> Option<OsString> {
    None
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(Path::new("c.json"), text, &no_env)
}

#[track_caller]
fn check_ok(text: &str) -> Config {
    match parse(text) {
        Ok(config) => config,
        Err(error) => panic!("{text}\nis refused:\n{error}"),
    }
}

/// Every line, without the file's name.
#[track_caller]
fn check_errors(text: &str, expected: &[&str]) {
    let error = parse(text).expect_err(text);
    let lines: Vec<&str> = error.lines.iter().map(|line| line.strip_prefix("c.json:").unwrap()).collect();
    assert_eq!(lines, expected, "{text}");
    assert_eq!(error.total, expected.len(), "{text}");
}

#[track_caller]
fn check_warnings(text: &str, expected: &[&str]) {
    let config = check_ok(text);
    let lines: Vec<&str> = config.warnings.iter().map(|line| line.strip_prefix("c.json:").unwrap()).collect();
    assert_eq!(lines, expected, "{text}");
}

/// One tool around `rest`, which begins in column 41 of line 1.
fn tool(rest: &str) -> String {
    format!(r#"{{"tools":[{{"name":"t","description":"d",{rest}}}]}}"#)
}

/// A tool with a credential: the URL it goes to and the members of the credential beside `from`.
fn with_credential(url: &str, rest: &str) -> String {
    format!(
        r#"{{"tools":[{{"name":"t","description":"d","http":{{"url":"{url}","credential":"k"}}}}],
"credentials":{{"k":{{"from":{{"env":"K"}}{rest}}}}}}}"#
    )
}

/// DESIGN's example without what this version does not carry out, and with every other key there is.
pub(super) const FULL: &str = r#"{
  "$schema": "https://example.com/schema.json",
  "session": {"on_malformed": "continue", "grace_ms": 500},
  "limits": {"line_in_bytes": 1048576, "content_bytes": 65536, "calls": 32, "workers": 8, "call_timeout_s": 20.5},
  "log": {"level": "debug", "format": "json", "file": "/var/log/tidegate.log"},
  "journal": {"sync": "intents", "keep_days": 7, "file_bytes": 65536},
  "approvals": {"order": ["command", "client", "operator"], "timeout_s": 2.5, "command": ["sh", "/x"], "operators": [0, 1000]},
  "state_dir": "/var/lib/tg",
  "networks": ["10.0.0.0/24", "fd00::/8"],
  "credentials": {
    "github":  {"from": {"env": "GITHUB_TOKEN"}, "as": {"bearer": {}}, "for": [{"host": "api.github.com", "paths": ["/repos/"]}]},
    "web_key": {"from": {"file": "/etc/tidegate/web.key"}, "as": {"header": {"name": "X-Api-Key", "prefix": "Key "}},
                "for": [{"host": "localhost", "port": 8080, "scheme": "http"}]},
    "word":    {"from": {"env": "WORD"}},
    "minted":  {"from": {"command": ["sh", "/x"], "inherit": ["XDG_RUNTIME_DIR"], "timeout_s": 2.5, "cache_s": 0}},
    "passed":  {"from": {"systemd": "db-password"}}
  },
  "hosts": {
    "web1": {"address": "10.0.0.5", "port": 2222, "user": "deploy",
             "auth": {"key": "web_key", "passphrase": "word", "certificate": "/dev/null"},
             "host_key": "strict", "known_hosts": "/dev/null", "tie": "none",
             "fingerprints": ["SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"]},
    "web2": {"address": "[2001:DB8:0::1]", "user": "ops", "auth": {"agent": {"identity": "/dev/null"}},
             "host_key": "accept-new", "known_hosts": "/no/such/file", "tie": "stdin"},
    "web3": {"address": "Web3.Example.com", "user": "DOM\\root", "auth": {"password": "word"}, "known_hosts": "/dev/null"}
  },
  "builtin": {
    "http_request": {
      "allow": [
        {"host": "API.Example.com", "methods": ["GET", "PUT"], "paths": ["/v1/"]},
        {"host": "localhost", "port": 8080, "scheme": "http", "credential": "web_key"}
      ],
      "content_bytes": 16384, "timeout_s": 2.5, "rate": {"per_minute": 30}, "max_concurrent": 4, "confirm": "session"},
    "ssh_exec": {
      "hosts": ["web2", "web3"], "allow": [["uptime"], ["journalctl", "-u", "*", "-n", "*"]], "allow_dash": true, "stop_at_limit": true,
      "content_bytes": 8192, "timeout_s": 3, "rate": {"per_minute": 60, "burst": 5}, "max_concurrent": 2, "confirm": "ask"}
  },
  "tools": [
    {"name": "list_issues", "title": "Issues", "description": "Open issues of a repository",
     "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true},
     "input": {"type": "object", "properties": {"repo": {"type": "string"}, "page": {"type": "integer", "minimum": 1}}, "required": ["repo"]},
     "http": {"method": "GET", "url": "https://api.github.com/repos/{+repo}/issues", "query": {"per_page": "50", "page": "{page}"},
              "headers": {"accept": "application/json"}, "credential": "github", "select": ["/*/number", "/*/title"], "timeout_s": 30},
     "content_bytes": 8192, "confirm": "ask"},
    {"name": "save", "description": "Save", "timeout_s": 0.5,
     "input": {"type": "object", "properties": {"x": {"type": "number"}}},
     "http": {"method": "POST", "url": "http://localhost:8080/x", "body": {"json": {"z": "{x}", "a": [1.50]}}, "credential": "web_key"}},
    {"name": "note", "description": "Note", "http": {"method": "POST", "url": "https://example.com/", "body": {"text": "hello"}}},
    {"name": "form", "description": "Form", "http": {"method": "POST", "url": "https://example.com/", "body": {"form": {"a": "b"}}}},
    {"name": "disk", "description": "Disk use", "allow_dash": true, "stop_at_limit": true, "rate": {"per_minute": 6, "burst": 2}, "max_concurrent": 1,
     "input": {"type": "object", "properties": {"path": {"type": "string"}}},
     "exec": {"argv": ["sh", "{path}"], "env": {"LANG": "C", "EXTRA": "1"}, "cwd": "/tmp", "timeout_s": 10}},
    {"name": "restart", "description": "Restart", "allow_dash": true,
     "input": {"type": "object", "properties": {"unit": {"type": "string"}, "note": {"type": "string"}}, "required": ["note"]},
     "ssh": {"host": "web1", "argv": ["sudo", "systemctl", "restart", "{unit}"], "env": {"A": "it's"}, "cwd": "/srv/my app",
             "stdin": "{note}\n", "timeout_s": 5}},
    {"name": "up2", "description": "Up", "ssh": {"host": "web2", "argv": ["uptime"]}},
    {"name": "up3", "description": "Up", "ssh": {"host": "web3", "argv": ["uptime"]}}
  ]
}"#;

/// `FULL` as far as this build carries it out: without the feature `ssh`, without its SSH tools, which stand last.
fn full() -> String {
    if cfg!(feature = "ssh") {
        return FULL.to_owned();
    }
    let (rest, _) = FULL.split_once(",\n    {\"name\": \"restart\"").unwrap();
    let (before, builtin) = rest.split_once(",\n    \"ssh_exec\"").unwrap();
    let (_, tools) = builtin.split_once("\n  },\n  \"tools\"").unwrap();
    format!("{before}\n  }},\n  \"tools\"{tools}\n  ]\n}}")
}

#[test]
fn every_key_means_what_it_says() {
    let config = check_ok(&full());
    assert_eq!(config.source, Some("c.json".into()));
    assert_eq!(config.session, SessionRules { on_malformed: OnMalformed::Continue, grace: Duration::from_millis(500) });
    let limits = Limits {
        line_in_bytes: 1 << 20,
        content_bytes: 65536,
        calls: 32,
        workers: 8,
        call_timeout: Duration::from_millis(20_500),
    };
    assert_eq!(config.limits, limits);
    let file = Some("/var/log/tidegate.log".into());
    assert_eq!(config.log, LogRules { level: log::LevelFilter::Debug, format: Format::Json, file });
    let keep = Duration::from_secs(7 * 24 * 3600);
    assert_eq!(config.journal, JournalRules { sync: SyncMode::Intents, keep, file_bytes: 65_536 });
    assert_eq!(config.approvals, approvals::full());
    assert_eq!(config.state_dir, Path::new("/var/lib/tg"));
    let network = |address: &str, prefix| Network { address: address.parse::<IpAddr>().unwrap(), prefix };
    assert_eq!(config.networks.ranges, [network("10.0.0.0", 24), network("fd00::", 8)]);
    let sources = [
        ("github".to_owned(), Source::Env("GITHUB_TOKEN".to_owned())),
        ("web_key".to_owned(), Source::File("/etc/tidegate/web.key".into())),
        ("word".to_owned(), Source::Env("WORD".to_owned())),
        ("minted".to_owned(), Source::Command(source::minted())),
        ("passed".to_owned(), Source::Systemd("db-password".to_owned())),
    ];
    assert_eq!(config.credentials, sources);
    let unused = if cfg!(feature = "ssh") { 0 } else { 3 };
    let of_credentials = ["15:5: /credentials/minted", "16:5: /credentials/passed"];
    let of_credentials = of_credentials.map(|place| format!("c.json:{place}: no tool and no host uses this credential"));
    let (warned, of_hosts): (Vec<_>, Vec<_>) = config.warnings.iter().cloned().partition(|line| of_credentials.contains(line));
    assert_eq!((warned.len(), of_hosts.len()), (2, unused), "{:?}", config.warnings);
    assert!(of_hosts.iter().all(|warning| warning.ends_with("no tool uses this host")), "{of_hosts:?}");
    let names: Vec<&str> = config.tools.iter().map(|(tool, _)| tool.name.as_str()).collect();
    let mut all = vec!["list_issues", "save", "note", "form", "disk", "restart", "up2", "up3", "http_request", "ssh_exec"];
    if unused > 0 {
        all.retain(|name| !["restart", "up2", "up3", "ssh_exec"].contains(name));
    }
    assert_eq!(names, all);
}

#[test]
fn tools_carry_their_terms() {
    let config = check_ok(&full());
    let [(issues, issue_rule), (_, save_rule), _, _, (_, disk_rule), ..] = &config.tools[..] else { panic!() };
    assert_eq!((issues.title.as_deref(), issues.description.as_str()), (Some("Issues"), "Open issues of a repository"));
    let hints =
        ToolAnnotations { read_only: Some(true), destructive: Some(false), idempotent: Some(true), open_world: Some(true) };
    assert_eq!(issues.annotations, hints);
    assert_eq!(
        issues.input_json,
        r#"{"type":"object","properties":{"repo":{"type":"string"},"page":{"type":"integer","minimum":1}},"required":["repo"],"additionalProperties":false}"#
    );
    assert_eq!((issue_rule.content_bytes, issue_rule.timeout), (8192, Duration::from_secs(30)));
    assert_eq!((save_rule.content_bytes, save_rule.timeout), (65536, Duration::from_millis(500)));
    assert_eq!((disk_rule.timeout, disk_rule.at_limit), (Duration::from_secs(10), AtLimit::Stop));
    assert_eq!(issue_rule.at_limit, AtLimit::Drain);
    let github = CredentialRule {
        name: "github".to_owned(),
        placement: Placement::Bearer,
        scopes: vec![Scope {
            scheme: Scheme::Https,
            host: "api.github.com".to_owned(),
            port: 443,
            paths: vec!["/repos/".to_owned()],
        }],
    };
    assert_eq!(issue_rule.credential.as_deref(), Some(&github));
    let web_key = CredentialRule {
        name: "web_key".to_owned(),
        placement: Placement::Header { name: "x-api-key".to_owned(), prefix: "Key ".to_owned() },
        scopes: vec![Scope { scheme: Scheme::Http, host: "localhost".to_owned(), port: 8080, paths: vec![] }],
    };
    assert_eq!(save_rule.credential.as_deref(), Some(&web_key));
    assert_eq!(disk_rule.credential, None);
}

#[track_caller]
fn action(config: &Config, name: &str, arguments: &str) -> Action {
    config.tools.iter().find(|(tool, _)| tool.name == name).unwrap().0.action(arguments).unwrap()
}

#[test]
fn recipes_fill_as_configured() {
    let config = check_ok(&full());
    let Action::Http(issues) = action(&config, "list_issues", r#"{"repo":"a/b","page":2}"#) else { panic!() };
    assert_eq!(
        (issues.method.as_str(), issues.url().as_str()),
        ("GET", "https://api.github.com/repos/a/b/issues?per_page=50&page=2")
    );
    assert_eq!(issues.headers, [("accept".to_owned(), "application/json".to_owned())]);
    assert_eq!(issues.select, ["/*/number", "/*/title"]);
    let Action::Http(note) = action(&config, "note", "{}") else { panic!() };
    assert_eq!(note.body.unwrap().bytes, b"hello");
    let Action::Http(form) = action(&config, "form", "{}") else { panic!() };
    assert_eq!(form.body.unwrap().bytes, b"a=b");
    let Action::Exec(disk) = action(&config, "disk", r#"{"path":"-x"}"#) else { panic!() };
    assert_eq!(disk.argv, ["sh", "-x"]);
    assert_eq!(disk.cwd, Path::new("/tmp"));
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/"), ("LANG", "C"), ("EXTRA", "1")];
    assert_eq!(disk.env, env.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn an_empty_object_is_every_default() {
    let config = check_ok("{}");
    let nothing = Config::unconfigured(&no_env);
    assert_eq!(nothing.source, None);
    assert_eq!(Config { source: None, ..config }.session, nothing.session);
    for config in [check_ok(" {\n} \r\n"), nothing] {
        assert_eq!(config.session, SessionRules { on_malformed: OnMalformed::Close, grace: GRACE });
        assert_eq!(config.limits, Limits::default());
        assert_eq!(config.log, LogRules { level: log::LevelFilter::Info, format: Format::Text, file: None });
        assert_eq!(config.journal, JournalRules::default());
        assert_eq!(config.approvals, approvals::default());
        assert_eq!(config.state_dir, Path::new("/var/lib/tidegate"));
        assert!(
            config.networks.ranges.is_empty()
                && config.credentials.is_empty()
                && config.hosts.is_empty()
                && config.tools.is_empty()
        );
        assert_eq!(config.warnings, Vec::<String>::new());
    }
}

#[test]
fn state_and_home_come_from_the_environment() {
    for (pairs, expected) in [
        (&[("XDG_STATE_HOME", "/x"), ("HOME", "/h")][..], "/x/tidegate"),
        (&[("XDG_STATE_HOME", "x"), ("HOME", "/h")], "/h/.local/state/tidegate"),
        (&[("XDG_STATE_HOME", ""), ("HOME", "/h")], "/h/.local/state/tidegate"),
        (&[("HOME", "h")], "/var/lib/tidegate"),
        (&[], "/var/lib/tidegate"),
    ] {
        let env = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        let text = tool(r#""exec":{"argv":["sh"]}"#);
        let config = Config::parse(Path::new("c.json"), &text, &env).unwrap();
        assert_eq!(config.state_dir, Path::new(expected));
        let Action::Exec(exec) = action(&config, "t", "{}") else { panic!() };
        let home = env("HOME").filter(|home| home == "/h").map_or("/".to_owned(), |home| home.into_string().unwrap());
        assert_eq!(exec.env[1], ("HOME".to_owned(), home));
    }
}

/// DESIGN section 9, as it stands there.
const DESIGN: &str = r#"{
  "session": {"on_malformed": "close", "grace_ms": 1000},
  "limits": {"line_in_bytes": 4194304, "content_bytes": 32768, "calls": 64, "workers": 16, "call_timeout_s": 50},
  "log": {"level": "info", "format": "text"},
  "journal": {"sync": "all", "keep_days": 30},
  "approvals": {"order": ["client", "operator", "command"], "timeout_s": 50, "command": ["approve-on-phone"]},
  "networks": ["10.0.0.0/24"],
  "credentials": {
    "github":  {"from": {"env": "GITHUB_TOKEN"}, "as": {"bearer": {}}, "for": [{"host": "api.github.com", "paths": ["/repos/"]}]},
    "web_key": {"from": {"file": "/etc/tidegate/web.key"}}
  },
  "hosts": {"web1": {"address": "10.0.0.5", "port": 22, "user": "deploy", "auth": {"key": "web_key"},
                     "host_key": "strict", "known_hosts": "/etc/tidegate/known_hosts"}},
  "tools": [
    {"name": "list_issues", "description": "Open issues of a repository",
     "input": {"type": "object", "properties": {"repo": {"type": "string"}, "page": {"type": "integer", "minimum": 1}}, "required": ["repo"]},
     "http": {"method": "GET", "url": "https://api.github.com/repos/{+repo}/issues", "query": {"per_page": "50", "page": "{page}"},
              "credential": "github", "select": ["/*/number", "/*/title"]}},
    {"name": "restart", "description": "Restart a service on web1", "confirm": "ask",
     "input": {"type": "object", "properties": {"unit": {"enum": ["app", "worker"]}}, "required": ["unit"]},
     "ssh": {"host": "web1", "argv": ["sudo", "systemctl", "restart", "{unit}"]}},
    {"name": "disk", "description": "Disk use", "exec": {"argv": ["df", "-h"], "timeout_s": 10}}
  ],
  "builtin": {"http_request": {"allow": [{"host": "api.example.com", "methods": ["GET"], "paths": ["/v1/"]}]},
              "ssh_exec": {"hosts": ["web1"], "allow": [["uptime"], ["journalctl", "-u", "*", "-n", "*"]]}},
  "servers": {"files": {"command": ["mcp-server-files", "/srv"], "tools": {"allow": ["read_*"], "confirm": {"write_*": "ask"}}}}
}"#;

#[test]
fn the_example_of_the_design_lacks_only_what_is_to_come() {
    let mut expected = vec!["26:3: /servers: \"servers\" is not supported by this version".to_owned()];
    if !cfg!(feature = "ssh") {
        expected.insert(0, "21:6: /tools/1/ssh: this build has no SSH (feature ssh)".to_owned());
        expected.insert(1, "25:15: /builtin/ssh_exec: this build has no SSH (feature ssh)".to_owned());
    }
    check_errors(DESIGN, &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
#[cfg(feature = "ssh")]
fn the_example_of_the_design_loads_without_it() {
    let mut value: serde_json::Value = serde_json::from_str(DESIGN).unwrap();
    let top = value.as_object_mut().unwrap();
    top.remove("servers").unwrap();
    let config = check_ok(&format!("{value:#}"));
    assert_eq!(config.limits, Limits::default());
    let names: Vec<&str> = config.tools.iter().map(|(tool, _)| tool.name.as_str()).collect();
    assert_eq!(names, ["list_issues", "restart", "disk", "http_request", "ssh_exec"]);
    assert_eq!(config.tools[2].1.timeout, Duration::from_secs(10));
    let Action::Ssh(restart) = action(&config, "restart", r#"{"unit":"app"}"#) else { panic!() };
    assert_eq!((restart.host.as_str(), restart.command_line().as_str()), ("web1", "exec sudo systemctl restart app"));
    assert_eq!(config.tools[1].1.host.as_ref(), config.hosts.first());
    let known = Path::new("/etc/tidegate/known_hosts");
    assert_eq!((config.hosts.len(), config.hosts[0].known_hosts.as_path()), (1, known));
    let told = |end: &str| config.warnings.iter().filter(|line| line.ends_with(end)).count();
    let missing = told("every host key will be refused");
    assert_eq!(missing, usize::from(!known.exists()), "{:?}", config.warnings);
    assert_eq!((told("so it is never asked"), told("no program \"approve-on-phone\" in /usr/local/bin:/usr/bin:/bin")), (1, 1));
    assert_eq!(config.warnings.len(), missing + 2, "{:?}", config.warnings);
    assert_eq!(config.tools[1].1.confirm, Confirm::Ask);
}

#[test]
fn many_problems_are_counted() {
    let keys: Vec<String> = (0..25).map(|index| format!("\"key{index}\":1")).collect();
    let error = parse(&format!("{{{}}}", keys.join(",\n"))).unwrap_err();
    assert_eq!((error.lines.len(), error.total), (PROBLEMS_SHOWN, 25));
    let text = error.to_string();
    assert!(text.starts_with("c.json:1:2: /key0: unknown key, expected one of"), "{text}");
    assert!(text.ends_with("\nand 5 more problems"), "{text}");
    let twenty = parse(&format!("{{{}}}", keys[..20].join(",\n"))).unwrap_err().to_string();
    assert_eq!(twenty.lines().count(), 20);
    let flood = format!("{{{}}}", "\"a\":1,".repeat(20_000).trim_end_matches(','));
    assert_eq!(parse(&flood).unwrap_err().total, 20_000);
}

#[test]
fn long_names_are_cut_and_escaped() {
    let error = parse(&format!(r#"{{"{}\u001b[2J":1}}"#, "k".repeat(58))).unwrap_err().to_string();
    assert!(error.starts_with(&format!("c.json:1:2: /{}\\u{{1b}}[…: unknown key", "k".repeat(58))), "{error}");
}

#[test]
fn files_are_read_and_named() {
    let path = std::env::temp_dir().join(format!("tidegate-config-load-{}.json", std::process::id()));
    let write = |bytes: &[u8], mode: u32| {
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let load = || Config::load(&path, &no_env);
    let name = path.display();
    write(b"{}", 0o600);
    assert_eq!(load().unwrap().source.as_ref(), Some(&path));
    write(b"{\n \"\xc3\xa9\xff\"}", 0o600);
    assert_eq!(load().unwrap_err().to_string(), format!("{name}:2:4: expected UTF-8"));
    write(b"{}", 0o666);
    let advice = format!("{name}: others may write it (mode 0666); run chmod go-w on it");
    assert_eq!(load().unwrap_err().to_string(), advice);
    std::fs::remove_file(&path).unwrap();
    assert!(load().unwrap_err().to_string().starts_with(&format!("{name}: cannot be opened: ")));
}
