//! An action as it is shown: whole as JSON for the recorder, in one short line for people.
//!
//! Both say what will be done, never what it will be done with: a credential is joined later and has no way in here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::action::Action;
use crate::action::exec::ExecAction;
use crate::action::http::{HttpAction, HttpBody};
use crate::action::ssh::SshAction;
use crate::action::template::shown;

/// Characters of a target line, before escaping.
const TARGET_CHARS_MAX: usize = 200;

impl Action {
    /// Compact JSON of the whole action: `{"http": {"method", "url", "headers": [[name, value]], "body"?, "select"?}}` with a
    /// body of `{"media_type", "text"}` (or `"base64"` if it is not UTF-8), `{"exec": {"argv", "env", "cwd"}}`,
    /// `{"ssh": {"host", "argv", "env", "cwd"?, "stdin"?}}` with a stdin of `{"text"}` or `{"base64"}`, or
    /// `{"read": {"cursor", "find"}}`.
    pub fn record(&self) -> String {
        match self {
            Action::Http(action) => action.record(),
            Action::Exec(action) => action.record(),
            Action::Ssh(action) => action.record(),
            Action::Read(action) => action.record(),
        }
    }

    /// What it is aimed at, in one bounded, escaped line: `GET https://api.example.com/v1/x` without the query, `exec df -h`
    /// or `ssh web1 uptime` with each element quoted that is not plain.
    pub fn target(&self) -> String {
        let line = match self {
            Action::Http(action) => {
                let query = if action.query.is_some() { "?…" } else { "" };
                format!("{} {}://{}{}{query}", action.method, action.scheme.text(), action.authority(), action.path)
            }
            Action::Exec(action) => return command_target("exec".to_owned(), &action.argv),
            Action::Ssh(action) => return command_target(format!("ssh {}", action.host), &action.argv),
            Action::Read(action) => format!("stored result {}", action.cursor),
        };
        shown(&line, TARGET_CHARS_MAX)
    }
}

impl HttpAction {
    /// Compact JSON, see `Action::record`.
    pub fn record(&self) -> String {
        json!({ "http": http_record(self) }).to_string()
    }
}

impl ExecAction {
    /// Compact JSON, see `Action::record`.
    pub fn record(&self) -> String {
        json!({ "exec": exec_record(self) }).to_string()
    }
}

impl SshAction {
    /// Compact JSON, see `Action::record`.
    pub fn record(&self) -> String {
        json!({ "ssh": ssh_record(self) }).to_string()
    }
}

fn http_record(action: &HttpAction) -> Value {
    let mut members = Map::new();
    members.insert("method".to_owned(), json!(action.method));
    members.insert("url".to_owned(), json!(action.url()));
    members.insert("headers".to_owned(), json!(action.headers));
    if let Some(body) = &action.body {
        members.insert("body".to_owned(), body_record(body));
    }
    if !action.select.is_empty() {
        members.insert("select".to_owned(), json!(action.select));
    }
    Value::Object(members)
}

fn body_record(body: &HttpBody) -> Value {
    let mut members = bytes_record(&body.bytes);
    members.insert("media_type".to_owned(), json!(body.media_type));
    Value::Object(members)
}

fn bytes_record(bytes: &[u8]) -> Map<String, Value> {
    let (key, value) = match std::str::from_utf8(bytes) {
        Ok(text) => ("text", json!(text)),
        Err(_) => ("base64", json!(STANDARD.encode(bytes))),
    };
    Map::from_iter([(key.to_owned(), value)])
}

fn exec_record(action: &ExecAction) -> Value {
    json!({"argv": action.argv, "env": env_record(&action.env), "cwd": action.cwd.to_string_lossy()})
}

fn ssh_record(action: &SshAction) -> Value {
    let mut members = Map::new();
    members.insert("host".to_owned(), json!(action.host));
    members.insert("argv".to_owned(), json!(action.argv));
    members.insert("env".to_owned(), env_record(&action.env));
    if let Some(folder) = &action.cwd {
        members.insert("cwd".to_owned(), json!(folder));
    }
    if !action.stdin.is_empty() {
        members.insert("stdin".to_owned(), Value::Object(bytes_record(&action.stdin)));
    }
    Value::Object(members)
}

fn env_record(env: &[(String, String)]) -> Value {
    env.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
}

fn command_target(mut line: String, argv: &[String]) -> String {
    let mut room = TARGET_CHARS_MAX;
    for element in argv {
        if room == 0 {
            line.push_str(" …");
            break;
        }
        let plain = !element.is_empty() && element.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\'".contains(&byte));
        let text = shown(element, room);
        line.push_str(&if plain { format!(" {text}") } else { format!(" \"{text}\"") });
        room = room.saturating_sub(element.chars().take(room).count() + 1);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::http::Scheme;
    use std::path::PathBuf;

    fn http() -> HttpAction {
        HttpAction {
            method: "POST".to_owned(),
            scheme: Scheme::Https,
            host: "api.example.com".to_owned(),
            port: 443,
            path: "/v1/x".to_owned(),
            query: Some("q=1".to_owned()),
            headers: vec![("x-a".to_owned(), "1".to_owned())],
            body: Some(HttpBody { media_type: "text/plain".to_owned(), bytes: b"hi\n".to_vec() }),
            select: Vec::new(),
        }
    }

    fn exec(argv: &[&str]) -> Action {
        Action::Exec(ExecAction {
            argv: argv.iter().map(|element| (*element).to_owned()).collect(),
            env: vec![("LANG".to_owned(), "C".to_owned())],
            cwd: PathBuf::from("/"),
        })
    }

    fn ssh(argv: &[&str]) -> SshAction {
        let argv = argv.iter().map(|element| (*element).to_owned()).collect();
        SshAction { host: "web1".to_owned(), argv, env: Vec::new(), cwd: None, stdin: Vec::new() }
    }

    #[track_caller]
    fn check_target(action: &Action, want: &str) {
        assert_eq!(action.target(), want);
    }

    #[test]
    fn records() {
        let record: Value = serde_json::from_str(&Action::Http(http()).record()).unwrap();
        let want = json!({"http": {"method": "POST", "url": "https://api.example.com/v1/x?q=1", "headers": [["x-a", "1"]],
            "body": {"media_type": "text/plain", "text": "hi\n"}}});
        assert_eq!(record, want);
        let mut binary = http();
        binary.body = Some(HttpBody { media_type: "a/b".to_owned(), bytes: vec![0xff] });
        assert!(Action::Http(binary).record().contains(r#""base64":"/w==""#));
        assert_eq!(exec(&["df", "-h"]).record(), r#"{"exec":{"argv":["df","-h"],"cwd":"/","env":{"LANG":"C"}}}"#);
        let plain = ssh(&["uptime"]);
        assert_eq!(plain.record(), r#"{"ssh":{"argv":["uptime"],"env":{},"host":"web1"}}"#);
        let env = vec![("A".to_owned(), "b".to_owned())];
        let full = SshAction { env, cwd: Some("/srv".to_owned()), stdin: b"hi\n".to_vec(), ..plain };
        let want =
            json!({"ssh": {"host": "web1", "argv": ["uptime"], "env": {"A": "b"}, "cwd": "/srv", "stdin": {"text": "hi\n"}}});
        assert_eq!(serde_json::from_str::<Value>(&Action::Ssh(full.clone()).record()).unwrap(), want);
        assert!(SshAction { stdin: vec![0xff], ..full }.record().contains(r#""stdin":{"base64":"/w=="}"#));
    }

    #[test]
    fn targets() {
        check_target(&Action::Http(http()), "POST https://api.example.com/v1/x?…");
        let local = HttpAction { scheme: Scheme::Http, host: "::1".to_owned(), port: 8080, query: None, ..http() };
        check_target(&Action::Http(local), "POST http://[::1]:8080/v1/x");
        check_target(&exec(&["df", "-h"]), "exec df -h");
        check_target(&exec(&["rm", "a b", "", "x\n\u{1b}[2J\"", "é"]), r#"exec rm "a b" "" "x\n\u{1b}[2J\"" "é""#);
        check_target(&Action::Ssh(ssh(&["systemctl", "restart", "app"])), "ssh web1 systemctl restart app");
        check_target(&Action::Ssh(ssh(&["sh", "-c", "a\nb"])), r#"ssh web1 sh -c "a\nb""#);
        let long = exec(&["p", &"a".repeat(300), "b"]).target();
        assert!(long.starts_with("exec p aaa") && long.ends_with("a… …") && long.chars().count() < 220, "{long}");
    }
}
