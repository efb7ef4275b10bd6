//! The tools of the attacked configuration, and what the model says each does with given arguments.
//!
//! Every rule stands here a second time, written from the documentation: what the schema takes, how a place of a template is
//! filled, where the credential may go. The tools whose target the caller writes are in `given`.

use super::given::{self, Given, No};
use super::json::{Json, decimal};

/// The configuration: `on_malformed` is put in, and a state folder that no dry run touches.
pub fn config(on_malformed: &str) -> String {
    let (builtin, hosts) = (given::builtin(), if given::HAS_SSH { given::HOSTS } else { "{}" });
    format!(
        r#"{{
  "state_dir": "/nonexistent/tidegate-attacks",
  "session": {{"on_malformed": "{on_malformed}", "grace_ms": 1500}},
  "limits": {{"line_in_bytes": {LINE_BYTES}}},
  "credentials": {{"api": {{"from": {{"env": "ATTACKS_KEY"}}, "for": [{{"host": "api.example.com", "paths": ["/v1/ours/"]}}]}},
    "web_key": {{"from": {{"env": "ATTACKS_WEB_KEY"}}}},
    "key": {{"from": {{"env": "ATTACKS_KEY"}}, "as": {{"header": {{"name": "X-API-Key"}}}},
      "for": [{{"host": "keyed.example.com", "paths": ["/v2/ours/"]}}]}}}},
  "hosts": {hosts},
  "builtin": {builtin},
  "tools": [
    {{"name": "say", "description": "Says a text",
     "input": {{"type": "object", "properties": {{"text": {{"type": "string", "maxLength": 20}}}}, "required": ["text"]}},
     "exec": {{"argv": ["echo", "{{text}}"], "env": {{"HOME": "/"}}}}}},
    {{"name": "tag", "description": "Tags names",
     "input": {{"type": "object", "properties": {{"color": {{"enum": ["red", "green"]}},
       "names": {{"type": "array", "items": {{"type": "string"}}, "maxItems": 3}}}}}},
     "exec": {{"argv": ["tag", "{{color}}", "--", "{{names}}"], "env": {{"HOME": "/"}}}}}},
    {{"name": "issues", "description": "Issues of a repository",
     "input": {{"type": "object", "properties": {{"repo": {{"type": "string"}}, "page": {{"type": "integer", "minimum": 1}}}},
       "required": ["repo"]}},
     "http": {{"url": "https://api.example.com/v1/{{+repo}}/issues", "query": {{"page": "{{page}}"}}, "credential": "api"}}}},
    {{"name": "file", "description": "Files a note",
     "input": {{"type": "object", "properties": {{"name": {{"type": "string"}}, "title": {{"type": "string"}},
       "done": {{"type": "boolean"}}, "n": {{"type": "number", "minimum": 0}}}}, "required": ["name"]}},
     "http": {{"method": "POST", "url": "https://api.example.com/v1/files/{{name}}",
       "body": {{"json": {{"title": "{{title}}", "done": "{{done}}", "n": "{{n}}"}}}}}}}}
  ]
}}"#
    )
}

/// The longest line the attacked gateway takes.
pub const LINE_BYTES: usize = 1536;

/// What a call comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Want {
    /// This is carried out: recorded once, and exactly so.
    Action(Action),
    /// A result that is an error, with this code.
    Refused(&'static str),
    UnknownTool,
}

/// An action, as far as the record shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Exec { tool: &'static str, argv: Vec<String> },
    Http { tool: &'static str, method: &'static str, path: String, page: Option<String>, body: Option<Json>, is_keyed: bool },
    Given(Given),
}

/// What the model says of a call. `arguments` is an object without a key twice and without half a surrogate pair.
pub fn judge(tool: &str, arguments: &Json) -> Want {
    if given::is_given(tool) {
        return match given::judge(tool, arguments) {
            _ if !are_exact(arguments) => Want::Refused("bad_arguments"),
            Ok(given) => Want::Action(Action::Given(given)),
            Err(No::BadArguments) => Want::Refused("bad_arguments"),
            Err(No::Denied) => Want::Refused("denied"),
        };
    }
    let filled = match tool {
        "say" => say,
        "tag" => tag,
        "issues" => issues,
        "file" => file,
        _ => return Want::UnknownTool,
    };
    if !are_exact(arguments) {
        return Want::Refused("bad_arguments");
    }
    match filled(arguments) {
        // The scope is judged once there is an action.
        Some(Action::Http { path, is_keyed: true, .. }) if path != "/v1/ours" && !path.starts_with("/v1/ours/") => {
            Want::Refused("denied")
        }
        Some(action) => Want::Action(action),
        None => Want::Refused("bad_arguments"),
    }
}

/// The object has no other members than these.
fn is_closed(arguments: &Json, names: &[&str]) -> bool {
    let Json::Object(members) = arguments else { return false };
    members.iter().all(|(key, _)| key.as_deref().is_some_and(|key| names.contains(&key)))
}

fn say(arguments: &Json) -> Option<Action> {
    let text = arguments.member("text")?.as_text()?;
    let is_fine =
        is_closed(arguments, &["text"]) && text.chars().count() <= 20 && !text.starts_with('-') && !text.contains('\0');
    is_fine.then(|| Action::Exec { tool: "say", argv: vec!["echo".to_owned(), text.to_owned()] })
}

fn tag(arguments: &Json) -> Option<Action> {
    let mut argv = vec!["tag".to_owned()];
    match arguments.member("color") {
        None => {}
        Some(color) => argv.push(color.as_text().filter(|color| ["red", "green"].contains(color))?.to_owned()),
    }
    argv.push("--".to_owned());
    match arguments.member("names") {
        None => {}
        Some(Json::List(names)) if names.len() <= 3 => {
            for name in names {
                argv.push(name.as_text().filter(|name| !name.contains('\0'))?.to_owned());
            }
        }
        Some(_) => return None,
    }
    is_closed(arguments, &["color", "names"]).then_some(Action::Exec { tool: "tag", argv })
}

fn issues(arguments: &Json) -> Option<Action> {
    let repo = arguments.member("repo")?.as_text()?;
    let page = match arguments.member("page") {
        None => None,
        Some(Json::Number(page)) => Some(page.clone()).filter(|page| is_integer_from_one(page)).map(Some)?,
        Some(_) => return None,
    };
    let is_fine = is_closed(arguments, &["repo", "page"]) && !repo.split('/').any(str::is_empty) && !has_dots(repo);
    is_fine.then(|| Action::Http {
        tool: "issues",
        method: "GET",
        path: format!("/v1/{}/issues", encode(repo, "/")),
        page,
        body: None,
        is_keyed: true,
    })
}

fn file(arguments: &Json) -> Option<Action> {
    let name = arguments.member("name")?.as_text()?;
    let mut body = Vec::new();
    for (member, is_right) in [
        ("title", (|value| matches!(value, Json::Text(_))) as fn(&Json) -> bool),
        ("done", |value| matches!(value, Json::Bool(_))),
        ("n", |value| matches!(value, Json::Number(n) if decimal(n).is_some_and(|(is_negative, ..)| !is_negative))),
    ] {
        match arguments.member(member) {
            None => {}
            Some(value) if is_right(value) => body.push((Some(member.to_owned()), value.clone())),
            Some(_) => return None,
        }
    }
    let is_fine = is_closed(arguments, &["name", "title", "done", "n"]) && !name.is_empty() && !has_dots(name);
    is_fine.then(|| Action::Http {
        tool: "file",
        method: "POST",
        path: format!("/v1/files/{}", encode(name, "")),
        page: None,
        body: Some(Json::Object(body)),
        is_keyed: false,
    })
}

fn is_integer_from_one(text: &str) -> bool {
    decimal(text).is_some_and(|(is_negative, digits, power)| !is_negative && !digits.is_empty() && power >= 0)
}

/// Whether a segment is `.` or `..` in a spelling some server undoes: also between backslashes, also before parameters.
fn has_dots(text: &str) -> bool {
    let mut segments = text.split(['/', '\\']).map(|segment| segment.split(';').next().unwrap_or(""));
    segments.any(|segment| segment == "." || segment == "..")
}

fn encode(text: &str, kept: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-._~".contains(c) || kept.contains(c) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, rest) {
            (b'%', [high, low, tail @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0) as u8;
                out.push(digit(high) * 16 + digit(low));
                rest = tail;
            }
            _ => out.push(*first),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether every number, at any depth, survives 64 bits digit for digit.
fn are_exact(value: &Json) -> bool {
    match value {
        Json::Number(text) => is_exact(text),
        Json::List(items) => items.iter().all(are_exact),
        Json::Object(members) => members.iter().all(|(_, value)| are_exact(value)),
        _ => true,
    }
}

fn is_exact(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if is_plain && text.parse::<i128>().is_ok_and(|n| n >= i128::from(i64::MIN) && n <= i128::from(u64::MAX)) {
        return true;
    }
    match text.parse::<f64>() {
        Ok(float) if float.is_finite() => {
            // The shortest decimal that gives this float again: another one was not meant.
            decimal(text).is_some() && decimal(text) == decimal(&format!("{float:e}"))
        }
        _ => false,
    }
}

impl Action {
    /// Whether a line of the record is this action and nothing else.
    pub fn is_recorded_as(&self, record: &Json) -> bool {
        let (tool, rule, credential) = match self {
            Action::Exec { tool, .. } => (*tool, format!("declared:{tool}"), None),
            Action::Http { tool, is_keyed, .. } => (*tool, format!("declared:{tool}"), is_keyed.then_some("api")),
            Action::Given(given) => (given.tool, given.rule.clone(), given.credential),
        };
        let is_head = record.member("tool") == Some(&Json::text(tool))
            && record.member("rule") == Some(&Json::text(&rule))
            && record.member("credential") == Some(&credential.map_or(Json::Null, Json::text));
        let Some(Json::Object(action)) = record.member("action") else { return false };
        is_head && action.len() == 1 && self.is_action(&action[0])
    }

    fn is_action(&self, (kind, got): &(Option<String>, Json)) -> bool {
        match self {
            Action::Given(given) => given.is_action(kind.as_deref(), got),
            Action::Exec { argv, .. } => {
                let argv = Json::List(argv.iter().map(|element| Json::text(element)).collect());
                let env = [("HOME", "/"), ("LANG", "C.UTF-8"), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
                let env = env.map(|(name, value)| (Some(name.to_owned()), Json::text(value)));
                kind.as_deref() == Some("exec")
                    && got.is_same(&object(vec![("argv", argv), ("cwd", Json::text("/")), ("env", Json::Object(env.into()))]))
            }
            Action::Http { method, path, page, body, .. } => {
                let Json::Object(members) = got else { return false };
                kind.as_deref() == Some("http")
                    && members.len() == if body.is_some() { 4 } else { 3 }
                    && got.member("method") == Some(&Json::text(method))
                    && got.member("headers") == Some(&Json::List(Vec::new()))
                    && got.member("url").and_then(Json::as_text).is_some_and(|url| is_url(url, path, page.as_deref()))
                    && is_body(got.member("body"), body.as_ref())
            }
        }
    }
}

fn object(members: Vec<(&str, Json)>) -> Json {
    Json::Object(members.into_iter().map(|(name, value)| (Some(name.to_owned()), value)).collect())
}

/// The page is compared as a number: 2.0 may be written 2.0 or 2.
fn is_url(url: &str, path: &str, page: Option<&str>) -> bool {
    let (base, query) = url.split_once('?').map_or((url, None), |(base, query)| (base, Some(query)));
    let is_page = match (query, page) {
        (None, None) => true,
        (Some(query), Some(page)) => {
            query.strip_prefix("page=").is_some_and(|text| decimal(page).is_some() && decimal(&decode(text)) == decimal(page))
        }
        _ => false,
    };
    base == format!("https://api.example.com{path}") && is_page
}

fn is_body(got: Option<&Json>, body: Option<&Json>) -> bool {
    match (got, body) {
        (None, None) => true,
        (Some(got), Some(body)) => {
            let text = got.member("text").and_then(Json::as_text).and_then(super::json::read);
            got.member("media_type") == Some(&Json::text("application/json"))
                && text.is_some_and(|read| !read.is_twice && read.value.is_same(body))
        }
        _ => false,
    }
}
