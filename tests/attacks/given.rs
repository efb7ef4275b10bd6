//! The tools whose target the caller writes, and `read_result`: what the model says each does with given arguments.
//!
//! It decides on its own: URLs, headers, argv and cursors are judged here a second time, written from the documentation, and
//! what is allowed is a table of its own beside the configuration. It never asks the project.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::json::{self, Json};

/// `builtin`, as it stands in the configuration of the attacked gateway.
pub fn builtin() -> String {
    let ssh_exec = if HAS_SSH {
        r#",
    "ssh_exec": {"hosts": ["web1", "web2"],
      "allow": [["uptime"], ["journalctl", "-u", "*", "-n", "*"], ["cat", "--", "*"], ["systemctl", "restart", "app"], ["systemctl", "*", "app"]]}"#
    } else {
        ""
    };
    format!(
        r#"{{
    "http_request": {{"allow": [
      {{"host": "api.example.com", "paths": ["/v1/"]}},
      {{"host": "api.example.com", "methods": ["POST", "PUT"], "paths": ["/v1/notes", "/v1/a%20b/"]}},
      {{"host": "api.example.com", "port": 8443, "methods": ["DELETE"]}},
      {{"host": "127.0.0.1", "port": 8080, "scheme": "http", "paths": ["/local/"]}},
      {{"host": "[::1]", "scheme": "https", "methods": ["GET", "POST"]}},
      {{"host": "keyed.example.com", "methods": ["GET"], "paths": ["/v2/"], "credential": "key"}},
      {{"host": "keyed.example.com", "methods": ["GET"]}}]}}{ssh_exec}}}"#
    )
}

/// `hosts`.
pub const HOSTS: &str = r#"{
    "web1": {"address": "10.0.0.5", "user": "u", "auth": {"agent": {"identity": "/dev/null"}}, "known_hosts": "/dev/null"},
    "web2": {"address": "10.0.0.6", "user": "u", "auth": {"key": "web_key"}, "known_hosts": "/dev/null"}}"#;

/// The build has SSH.
pub const HAS_SSH: bool = cfg!(feature = "ssh");

struct Rule {
    origin: (&'static str, &'static str, u16),
    methods: &'static [&'static str],
    /// None: any path.
    folders: &'static [&'static str],
    credential: Option<&'static str>,
}

/// The same rules, defaults written out.
const RULES: [Rule; 7] = [
    Rule { origin: ("https", "api.example.com", 443), methods: &["GET", "HEAD"], folders: &["/v1"], credential: None },
    Rule {
        origin: ("https", "api.example.com", 443),
        methods: &["POST", "PUT"],
        folders: &["/v1/notes", "/v1/a%20b"],
        credential: None,
    },
    Rule { origin: ("https", "api.example.com", 8443), methods: &["DELETE"], folders: &[], credential: None },
    Rule { origin: ("http", "127.0.0.1", 8080), methods: &["GET", "HEAD"], folders: &["/local"], credential: None },
    Rule { origin: ("https", "[::1]", 443), methods: &["GET", "POST"], folders: &[], credential: None },
    Rule { origin: ("https", "keyed.example.com", 443), methods: &["GET"], folders: &["/v2"], credential: Some("key") },
    Rule { origin: ("https", "keyed.example.com", 443), methods: &["GET"], folders: &[], credential: None },
];

/// Where the credential `key` may go, and the header it stands in.
const KEY_FOLDER: &str = "/v2/ours";
const KEY_HEADER: &str = "x-api-key";

/// Hosts with the credential their login takes.
const LOGINS: [(&str, Option<&str>); 2] = [("web1", None), ("web2", Some("web_key"))];

const SHAPES: [&[&str]; 5] = [
    &["uptime"],
    &["journalctl", "-u", "*", "-n", "*"],
    &["cat", "--", "*"],
    &["systemctl", "restart", "app"],
    &["systemctl", "*", "app"],
];

/// What is carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    pub tool: &'static str,
    pub rule: String,
    pub credential: Option<&'static str>,
    what: What,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    Request { method: String, url: String, headers: Vec<(String, String)>, body: Option<Body>, select: Vec<Json> },
    Command { host: String, argv: Vec<Json> },
    Page { cursor: String, find: Json },
}

#[derive(Debug, Clone, PartialEq)]
struct Body {
    media_type: String,
    /// A text, or the value whose JSON it is.
    is_text: bool,
    value: Json,
}

/// Refused: the arguments make no action, or there is no rule for it.
pub enum No {
    BadArguments,
    Denied,
}

/// The tools of this file.
pub fn is_given(tool: &str) -> bool {
    matches!(tool, "http_request" | "read_result") || (tool == "ssh_exec" && HAS_SSH)
}

/// What the model says of a call of one of them. `arguments` is an object without a key twice, half a surrogate pair or a number
/// that loses digits.
pub fn judge(tool: &str, arguments: &Json) -> Result<Given, No> {
    match tool {
        "http_request" => {
            let request = Request::read(arguments).ok_or(No::BadArguments)?;
            request.by_rule().ok_or(No::Denied)
        }
        "ssh_exec" => {
            let (host, argv) = command(arguments).ok_or(No::BadArguments)?;
            by_shape(host, argv).ok_or(No::Denied)
        }
        _ => page(arguments).ok_or(No::BadArguments),
    }
}

/// Every member has one of these names.
fn is_closed(arguments: &Json, names: &[&str]) -> bool {
    let Json::Object(members) = arguments else { return false };
    members.iter().all(|(key, _)| key.as_deref().is_some_and(|key| names.contains(&key)))
}

/// A text of at most so many characters.
fn short(value: &Json, most: usize) -> Option<&str> {
    value.as_text().filter(|text| text.chars().count() <= most)
}

/// A request whose arguments are sound.
struct Request {
    method: String,
    place: Place,
    headers: Vec<(String, String)>,
    body: Option<Body>,
    select: Vec<Json>,
}

impl Request {
    fn read(arguments: &Json) -> Option<Request> {
        if !is_closed(arguments, &["method", "url", "headers", "body", "select"]) {
            return None;
        }
        let method = arguments.member("method").map_or(Some("GET"), |method| short(method, 32))?;
        let is_method = !method.is_empty() && method.bytes().all(|byte| is_token(byte) && !byte.is_ascii_lowercase());
        if !is_method || ["CONNECT", "TRACE"].contains(&method) {
            return None;
        }
        let place = Place::read(short(arguments.member("url")?, 9000)?)?;
        let mut headers = headers(arguments.member("headers"))?;
        let body = match arguments.member("body") {
            None => None,
            Some(_) if ["GET", "HEAD"].contains(&method) => return None,
            Some(body) => Some(body_of(body)?),
        };
        // It describes the body and goes with it.
        let media_type = headers.iter().position(|(name, _)| name == "content-type").map(|at| headers.remove(at).1);
        let body = match (body, media_type) {
            (body, None) => body,
            (Some(body), Some(media_type)) if !media_type.is_empty() => Some(Body { media_type, ..body }),
            _ => return None,
        };
        let select = select(arguments.member("select"))?;
        Some(Request { method: method.to_owned(), place, headers, body, select })
    }

    /// The first rule that fits decides, also where its credential may not go along.
    fn by_rule(self) -> Option<Given> {
        let fits = |rule: &Rule| {
            let (scheme, host, port) = rule.origin;
            (scheme, host, port) == (self.place.scheme, self.place.host.as_str(), self.place.port)
                && rule.methods.contains(&self.method.as_str())
                && (rule.folders.is_empty() || rule.folders.iter().any(|folder| is_in(folder, &self.place.path)))
        };
        let at = RULES.iter().position(fits)?;
        let credential = RULES[at].credential;
        let sets_key = self.headers.iter().any(|(name, _)| as_handed_on(name) == KEY_HEADER);
        if credential.is_some() && (sets_key || !is_in(KEY_FOLDER, &self.place.path)) {
            return None;
        }
        let Request { method, place, headers, body, select } = self;
        let what = What::Request { method, url: place.url(), headers, body, select };
        Some(Given { tool: "http_request", rule: format!("builtin.http_request.allow[{at}]"), credential, what })
    }
}

/// The folder itself, and what is below it.
fn is_in(folder: &str, path: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Where a request goes, in the one spelling of it.
struct Place {
    scheme: &'static str,
    /// In lower case; an IPv6 address in brackets.
    host: String,
    port: u16,
    path: String,
    query: Option<String>,
}

impl Place {
    fn read(url: &str) -> Option<Place> {
        let (scheme, rest) = url.split_once("://")?;
        let (scheme, usual) = match scheme.to_ascii_lowercase().as_str() {
            "https" => ("https", 443),
            "http" => ("http", 80),
            _ => return None,
        };
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let path = if path.is_empty() { "/" } else { path };
        let (host, port) = match authority.find(']') {
            Some(end) => authority.split_at(end + 1),
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let is_sound = is_path(path) && query.is_none_or(|query| written(query, "/?").is_some());
        is_sound.then_some(Place {
            scheme,
            host: host_of(host)?,
            port: if port.is_empty() { usual } else { port_of(port.strip_prefix(':')?)? },
            path: path.to_owned(),
            query: query.map(str::to_owned),
        })
    }

    fn url(&self) -> String {
        let usual = if self.scheme == "https" { 443 } else { 80 };
        let port = if self.port == usual { String::new() } else { format!(":{}", self.port) };
        let query = self.query.as_ref().map_or(String::new(), |query| format!("?{query}"));
        format!("{}://{}{port}{}{query}", self.scheme, self.host, self.path)
    }
}

fn port_of(text: &str) -> Option<u16> {
    let port: u16 = text.parse().ok().filter(|port| *port > 0)?;
    // One spelling: no sign, no zero before it.
    (port.to_string() == text).then_some(port)
}

/// A name of letters, digits and hyphens, or an address in its own spelling: what resolvers read as a number is none.
fn host_of(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    if let Some(inner) = text.strip_prefix('[') {
        let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
        return address.to_ipv4_mapped().is_none().then(|| format!("[{address}]"));
    }
    let labels: Vec<&str> = text.split('.').collect();
    let last = labels.last()?;
    let is_number = match last.strip_prefix("0x") {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    let is_label = |label: &&str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_host = if is_number { text.parse::<Ipv4Addr>().is_ok() } else { text.len() <= 253 && labels.iter().all(is_label) };
    is_host.then_some(text)
}

/// What a percent-encoded text stands for; `None` where a character should have been encoded, or an escape is none. RFC 3986
/// section 3.3: `pchar`, and what `more` has.
fn written(text: &str, more: &str) -> Option<Vec<u8>> {
    let (mut out, mut rest) = (Vec::new(), text.chars());
    while let Some(c) = rest.next() {
        match c {
            '%' => {
                let mut digit = || rest.next()?.to_digit(16);
                let (high, low) = (digit()?, digit()?);
                out.push(u8::try_from(high * 16 + low).ok()?);
            }
            c if c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@".contains(c) || more.contains(c) => out.push(c as u8),
            _ => return None,
        }
    }
    Some(out)
}

/// A path whose segments are the same to every server.
fn is_path(path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else { return false };
    let is_segment = |(at, segment): (usize, &str)| {
        let is_last = at == path.matches('/').count();
        let Some(text) = written(segment, "").and_then(|bytes| String::from_utf8(bytes).ok()) else { return false };
        let name = text.split(';').next().unwrap_or("");
        let has_bad = text.chars().any(|c| c < ' ' || ('\u{7f}'..='\u{9f}').contains(&c) || c == '/' || c == '\\');
        !has_bad && name != "." && name != ".." && !has_escape(&text) && (is_last || !segment.is_empty())
    };
    path.split('/').enumerate().all(is_segment)
}

fn has_escape(text: &str) -> bool {
    let is_hex = |byte: &u8| byte.is_ascii_hexdigit();
    text.as_bytes().windows(3).any(|window| window[0] == b'%' && window[1..].iter().all(is_hex))
}

/// What the gateway itself sends, what carries a credential, and by what a server takes a request for another one.
const NOT_THE_CALLERS: [&str; 18] = [
    "authorization",
    "cookie",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "forwarded",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "proxy-authorization",
];
const NOT_THE_CALLERS_EITHER: [&str; 4] = ["proxy-", "x-forwarded-", "x-original-", "x-rewrite-"];

/// CGI (RFC 3875 section 4.1.18) hands on `x_a` and `x-a` under one name, and some servers do so with every other sign.
fn as_handed_on(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

/// Names in lower case with their values.
fn headers(given: Option<&Json>) -> Option<Vec<(String, String)>> {
    let Some(given) = given else { return Some(Vec::new()) };
    let Json::Object(members) = given else { return None };
    if members.len() > 32 {
        return None;
    }
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in members {
        let (name, value) = (name.as_deref()?.to_ascii_lowercase(), value.as_text()?);
        let is_name = !name.is_empty() && name.bytes().all(is_token);
        let meant = as_handed_on(&name);
        let is_callers = !NOT_THE_CALLERS.contains(&meant.as_str())
            && !NOT_THE_CALLERS_EITHER.iter().any(|prefix| meant.starts_with(prefix))
            && headers.iter().all(|(other, _)| *other != name);
        let is_value = value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && value == value.trim_matches(' ');
        if !is_name || !is_callers || !is_value {
            return None;
        }
        headers.push((name, value.to_owned()));
    }
    Some(headers)
}

fn body_of(given: &Json) -> Option<Body> {
    let Json::Object(members) = given else { return None };
    let [(Some(kind), value)] = &members[..] else { return None };
    let (is_text, media_type) = match (kind.as_str(), value) {
        ("text", Json::Text(_)) => (true, "text/plain; charset=utf-8"),
        ("json", _) => (false, "application/json"),
        _ => return None,
    };
    Some(Body { media_type: media_type.to_owned(), is_text, value: value.clone() })
}

/// JSON Pointers (RFC 6901), none of them to the whole.
fn select(given: Option<&Json>) -> Option<Vec<Json>> {
    let Some(given) = given else { return Some(Vec::new()) };
    let Json::List(pointers) = given else { return None };
    let is_pointer = |pointer: &Json| {
        short(pointer, 512).is_some_and(|text| {
            let plain = text.replace("~0", "").replace("~1", "");
            text.starts_with('/') && !plain.contains('~')
        })
    };
    (pointers.len() <= 32 && pointers.iter().all(is_pointer)).then(|| pointers.clone())
}

fn command(arguments: &Json) -> Option<(&str, &[Json])> {
    let host = short(arguments.member("host")?, 64)?;
    let Json::List(argv) = arguments.member("argv")? else { return None };
    let is_element = |element: &Json| element.as_text().is_some_and(|text| !text.contains('\0'));
    let is_fine = is_closed(arguments, &["host", "argv"]) && (1..=256).contains(&argv.len()) && argv.iter().all(is_element);
    is_fine.then_some((host, argv))
}

fn by_shape(host: &str, argv: &[Json]) -> Option<Given> {
    let (_, credential) = LOGINS.iter().find(|(name, _)| *name == host)?;
    let fits = |shape: &&[&str]| {
        // An option may stand in the place of a star behind a `--` only.
        let end_of_options = shape.iter().position(|word| *word == "--").unwrap_or(usize::MAX);
        let is_fine = |(at, (word, element)): (usize, (&&str, &Json))| {
            let element = element.as_text().unwrap_or_default();
            if *word == "*" { at > end_of_options || !element.starts_with('-') } else { *word == element }
        };
        shape.len() == argv.len() && shape.iter().zip(argv).enumerate().all(is_fine)
    };
    let at = SHAPES.iter().position(fits)?;
    let what = What::Command { host: host.to_owned(), argv: argv.to_vec() };
    Some(Given { tool: "ssh_exec", rule: format!("builtin.ssh_exec.allow[{at}]"), credential: *credential, what })
}

/// A cursor that was never given is a cursor; that there is no such result is found when it is read.
fn page(arguments: &Json) -> Option<Given> {
    let (name, behind) = short(arguments.member("cursor")?, 64)?.split_at_checked(32)?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let offset = if behind.is_empty() { "0" } else { behind.strip_prefix(':')? };
    let offset = offset_of(offset)?;
    let offset = match arguments.member("offset") {
        None => offset,
        // A number of bytes: digits and nothing else.
        Some(Json::Number(text)) => offset_of(text)?,
        Some(_) => return None,
    };
    let find = match arguments.member("find") {
        None => Json::Null,
        Some(find) => short(find, 256).filter(|text| !text.is_empty()).map(Json::text)?,
    };
    let is_fine = is_closed(arguments, &["cursor", "offset", "find"]) && is_name;
    let what = What::Page { cursor: format!("{name}:{offset}"), find };
    is_fine.then(|| Given { tool: "read_result", rule: "builtin:read_result".to_owned(), credential: None, what })
}

fn offset_of(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

impl Given {
    /// Whether a recorded action is this one: its kind and its members.
    pub fn is_action(&self, kind: Option<&str>, got: &Json) -> bool {
        let expected = match &self.what {
            What::Request { method, url, headers, body, select } => {
                return kind == Some("http") && is_request(got, (method, url), headers, body.as_ref(), select);
            }
            What::Command { host, argv } => {
                let argv = Json::List(argv.clone());
                ("ssh", vec![("host", Json::text(host)), ("argv", argv), ("env", Json::Object(Vec::new()))])
            }
            What::Page { cursor, find } => ("read", vec![("cursor", Json::text(cursor)), ("find", find.clone())]),
        };
        let members = expected.1.into_iter().map(|(name, value)| (Some(name.to_owned()), value)).collect();
        kind == Some(expected.0) && got.is_same(&Json::Object(members))
    }
}

/// Headers may stand in any order.
fn is_request(
    got: &Json,
    (method, url): (&str, &str),
    headers: &[(String, String)],
    body: Option<&Body>,
    select: &[Json],
) -> bool {
    let Json::Object(members) = got else { return false };
    let Some(Json::List(lines)) = got.member("headers") else { return false };
    let is_line = |(name, value): &(String, String)| lines.contains(&Json::List(vec![Json::text(name), Json::text(value)]));
    let is_select = match got.member("select") {
        None => select.is_empty(),
        Some(got) => !select.is_empty() && *got == Json::List(select.to_vec()),
    };
    members.len() == 3 + usize::from(body.is_some()) + usize::from(!select.is_empty())
        && got.member("method") == Some(&Json::text(method))
        && got.member("url") == Some(&Json::text(url))
        && lines.len() == headers.len()
        && headers.iter().all(is_line)
        && is_select
        && is_body(got.member("body"), body)
}

fn is_body(got: Option<&Json>, body: Option<&Body>) -> bool {
    let (Some(got), Some(body)) = (got, body) else { return got.is_none() && body.is_none() };
    let Json::Object(members) = got else { return false };
    let is_value = match (got.member("text"), body.is_text) {
        (Some(text), true) => *text == body.value,
        (Some(text), false) => {
            let read = text.as_text().and_then(json::read);
            read.is_some_and(|read| !read.is_twice && read.value.is_same(&body.value))
        }
        (None, _) => false,
    };
    members.len() == 2 && got.member("media_type") == Some(&Json::text(&body.media_type)) && is_value
}
