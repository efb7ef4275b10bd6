//! An action as it is shown: whole as JSON for the recorder, in one short line for people.
//!
//! Both say what will be done, never what it will be done with: a credential is joined later and has no way in here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::action::Action;
use crate::action::exec::ExecAction;
use crate::action::http::{HttpAction, HttpBody};
use crate::action::template::shown;

/// Characters of a target line, before escaping.
const TARGET_CHARS_MAX: usize = 200;

impl Action {
    /// Compact JSON of the whole action: `{"http": {"method", "url", "headers": [[name, value]], "body"?, "select"?}}` with a
    /// body of `{"media_type", "text"}` (or `"base64"` if it is not UTF-8), or `{"exec": {"argv", "env", "cwd"}}`.
    pub fn record(&self) -> String {
        match self {
            Action::Http(action) => action.record(),
            Action::Exec(action) => action.record(),
        }
    }

    /// What it is aimed at, in one bounded, escaped line: `GET https://api.example.com/v1/x` without the query, `exec df -h`
    /// with each element quoted that is not plain.
    pub fn target(&self) -> String {
        let line = match self {
            Action::Http(action) => {
                let query = if action.query.is_some() { "?…" } else { "" };
                format!("{} {}://{}{}{query}", action.method, action.scheme.text(), action.authority(), action.path)
            }
            Action::Exec(action) => return exec_target(action),
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
    match std::str::from_utf8(&body.bytes) {
        Ok(text) => json!({"media_type": body.media_type, "text": text}),
        Err(_) => json!({"media_type": body.media_type, "base64": STANDARD.encode(&body.bytes)}),
    }
}

fn exec_record(action: &ExecAction) -> Value {
    let env: Map<String, Value> = action.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({"argv": action.argv, "env": env, "cwd": action.cwd.to_string_lossy()})
}

fn exec_target(action: &ExecAction) -> String {
    let mut line = "exec".to_owned();
    let mut room = TARGET_CHARS_MAX;
    for element in &action.argv {
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
    }

    #[test]
    fn targets() {
        check_target(&Action::Http(http()), "POST https://api.example.com/v1/x?…");
        let local = HttpAction { scheme: Scheme::Http, host: "::1".to_owned(), port: 8080, query: None, ..http() };
        check_target(&Action::Http(local), "POST http://[::1]:8080/v1/x");
        check_target(&exec(&["df", "-h"]), "exec df -h");
        check_target(&exec(&["rm", "a b", "", "x\n\u{1b}[2J\"", "é"]), r#"exec rm "a b" "" "x\n\u{1b}[2J\"" "é""#);
        let long = exec(&["p", &"a".repeat(300), "b"]).target();
        assert!(long.starts_with("exec p aaa") && long.ends_with("a… …") && long.chars().count() < 220, "{long}");
    }
}
