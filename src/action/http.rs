//! The typed HTTP request and its template.
//!
//! Scheme, host and port are literals of the configuration; arguments reach the path, the query, header values and the body
//! only, each in its own encoding. No credential is in here: it is named by the grant and joined by the executor.

use crate::action::host::parse_host;
use crate::action::template::body::{BodyTemplate, BodyWritten};
use crate::action::template::header::{HeaderTemplate, is_token};
use crate::action::template::pairs::{Encoding, PairsTemplate};
use crate::action::template::path::PathTemplate;
use crate::action::template::{Arguments, FillError, Names, quoted};

/// Path and query of one request, filled: the request line that common servers take (RFC 9110 section 4.1 asks for 8000).
pub(in crate::action) const TARGET_BYTES_MAX: usize = 8 << 10;

/// `http` or `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Clear text.
    Http,
    /// TLS.
    Https,
}

impl Scheme {
    /// As it stands in a URL.
    pub fn text(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// RFC 9110 sections 4.2.1, 4.2.2.
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// One HTTP request, ready to send but for its credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAction {
    /// A token (RFC 9110 section 9.1), upper case as configured.
    pub method: String,
    /// How it is sent.
    pub scheme: Scheme,
    /// Host as configured, lower case; an IPv6 literal stands without brackets.
    pub host: String,
    /// Port; the scheme's default where none was configured.
    pub port: u16,
    /// Absolute path, percent-encoded, beginning with `/`.
    pub path: String,
    /// Query without `?`, percent-encoded; `None` if there is none.
    pub query: Option<String>,
    /// Header lines in order, names lower case and unique; values are visible ASCII, space and tab. Never `content-type`,
    /// which belongs to the body.
    pub headers: Vec<(String, String)>,
    /// Body with its media type.
    pub body: Option<HttpBody>,
    /// JSON Pointers with `*` that pick what is kept of a JSON answer; empty keeps all.
    pub select: Vec<String>,
}

/// A request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpBody {
    /// `content-type` of the request.
    pub media_type: String,
    /// The bytes sent.
    pub bytes: Vec<u8>,
}

impl HttpAction {
    /// Host and port as in a URL: an IPv6 address in brackets, no port where it is the scheme's own.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.scheme.default_port() { host } else { format!("{host}:{}", self.port) }
    }

    /// The whole URL, query included.
    pub fn url(&self) -> String {
        let base = format!("{}://{}{}", self.scheme.text(), self.authority(), self.path);
        self.query.as_ref().map_or(base.clone(), |query| format!("{base}?{query}"))
    }
}

/// A request as configured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HttpWritten {
    /// Method, upper case.
    pub method: String,
    /// `https://host[:port]/path` with placeholders in the path only.
    pub url: String,
    /// Query pairs in the order to send: plain text, value with placeholders.
    pub query: Vec<(String, String)>,
    /// Headers in the order to send.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Option<BodyWritten>,
    /// Pointers into a JSON answer.
    pub select: Vec<String>,
}

/// A request with placeholders, checked whole.
#[derive(Debug)]
pub struct HttpTemplate {
    method: String,
    origin: Origin,
    path: PathTemplate,
    query: PairsTemplate,
    headers: Vec<HeaderTemplate>,
    body: Option<(String, BodyTemplate)>,
    select: Vec<String>,
}

/// Whom a request is sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// How.
    pub scheme: Scheme,
    /// Canonical host, IPv6 without brackets.
    pub host: String,
    /// Port, the scheme's default where none was written.
    pub port: u16,
}

impl HttpTemplate {
    /// Checks every piece; all problems at once, each naming its member (`url: ...`, `headers x-a: ...`).
    pub fn new(written: &HttpWritten) -> Result<HttpTemplate, Vec<String>> {
        let mut problems = Vec::new();
        check_method(&written.method, written.body.is_some()).unwrap_or_else(|problem| problems.push(problem));
        written.select.iter().for_each(|pointer| check_pointer(pointer).unwrap_or_else(|problem| problems.push(problem)));
        let target = parse_url(&written.url).map_err(|problem| problems.push(format!("url: {problem}"))).ok();
        let query =
            PairsTemplate::parse(Encoding::Query, &written.query).map_err(|all| prefix(&mut problems, "query", all)).ok();
        let mut headers = parse_headers(&written.headers, &mut problems);
        let body = written.body.as_ref().map(BodyTemplate::parse).transpose();
        let body = body.map_err(|all| prefix(&mut problems, "body", all)).ok().flatten();
        let media_type = take_media_type(&mut headers, written.body.is_some(), &mut problems);
        match (target, query) {
            (Some((origin, path)), Some(query)) if problems.is_empty() => Ok(HttpTemplate {
                method: written.method.clone(),
                origin,
                path,
                query,
                headers,
                body: body.map(|body| (media_type.unwrap_or_else(|| body.media_type().to_owned()), body)),
                select: written.select.clone(),
            }),
            _ => Err(problems),
        }
    }

    /// The request for these arguments.
    pub fn fill(&self, arguments: &Arguments<'_>) -> Result<HttpAction, FillError> {
        let path = self.path.fill(arguments, TARGET_BYTES_MAX)?;
        let query = self.query.fill(arguments, TARGET_BYTES_MAX)?;
        if path.len() + query.as_ref().map_or(0, |query| query.len() + 1) > TARGET_BYTES_MAX {
            return Err(FillError::TooLong { place: "the request target", bytes_max: TARGET_BYTES_MAX });
        }
        let mut headers = Vec::with_capacity(self.headers.len());
        for header in &self.headers {
            headers.extend(header.fill(arguments)?);
        }
        let body = match &self.body {
            None => None,
            Some((media_type, body)) => Some(HttpBody { media_type: media_type.clone(), bytes: body.fill(arguments)? }),
        };
        Ok(HttpAction {
            method: self.method.clone(),
            scheme: self.origin.scheme,
            host: self.origin.host.clone(),
            port: self.origin.port,
            path,
            query,
            headers,
            body,
            select: self.select.clone(),
        })
    }

    /// Whom it is sent to, whatever the arguments.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether the configuration sets this header (lower case): a credential must not be placed in it too.
    pub fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|header| header.name() == name) || (name == "content-type" && self.body.is_some())
    }

    /// Its placeholders.
    pub fn names(&self) -> Names {
        let mut names = Names::default();
        self.path.add_names(&mut names);
        self.query.add_names(&mut names);
        self.headers.iter().for_each(|header| header.add_names(&mut names));
        if let Some((_, body)) = &self.body {
            body.add_names(&mut names);
        }
        names
    }
}

fn prefix(problems: &mut Vec<String>, member: &str, all: Vec<String>) {
    problems.extend(all.into_iter().map(|problem| format!("{member}: {problem}")));
}

pub(crate) fn check_method(method: &str, has_body: bool) -> Result<(), String> {
    if !is_token(method) || method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Err(format!("method: expected a method in upper case such as GET, got {}", quoted(method)));
    }
    match method {
        "CONNECT" | "TRACE" => {
            Err(format!("method: expected another than {method}, which makes a tunnel or echoes credentials"))
        }
        "GET" | "HEAD" if has_body => Err(format!("body: expected none with {method}, got one")),
        _ => Ok(()),
    }
}

/// JSON Pointer (RFC 6901) in which a token `*` stands for every element or member.
pub(in crate::action) fn check_pointer(pointer: &str) -> Result<(), String> {
    let escapes = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if pointer.starts_with('/') && escapes {
        return Ok(());
    }
    Err(format!("select: expected a JSON Pointer such as /items/*/name, with ~0 and ~1 for ~ and /, got {}", quoted(pointer)))
}

fn parse_headers(written: &[(String, String)], problems: &mut Vec<String>) -> Vec<HeaderTemplate> {
    let mut headers: Vec<HeaderTemplate> = Vec::new();
    for (name, value) in written {
        match HeaderTemplate::parse(name, value) {
            Err(problem) => problems.push(format!("headers {}: {problem}", quoted(name))),
            Ok(header) if headers.iter().any(|other| other.name() == header.name()) => {
                problems.push(format!("headers {}: expected each name once, got it twice", quoted(name)));
            }
            Ok(header) => headers.push(header),
        }
    }
    headers
}

/// Takes a configured `content-type` out of the headers: it describes the body, so it needs one, and is literal.
fn take_media_type(headers: &mut Vec<HeaderTemplate>, has_body: bool, problems: &mut Vec<String>) -> Option<String> {
    let index = headers.iter().position(|header| header.name() == "content-type")?;
    let header = headers.remove(index);
    match header.literal() {
        Some(value) if has_body && !value.is_empty() => return Some(value.to_owned()),
        Some(_) if has_body => problems.push("headers content-type: expected a media type, got an empty text".to_owned()),
        Some(_) => problems.push("headers content-type: expected a body with it, got none".to_owned()),
        None => problems.push("headers content-type: expected literal text, got a placeholder".to_owned()),
    }
    None
}

/// A URL as configured: placeholders in its path only.
fn parse_url(url: &str) -> Result<(Origin, PathTemplate), String> {
    let after_scheme = url.split_once("://").map_or(0, |(scheme, _)| scheme.len() + 3);
    let authority_end = url[after_scheme..].find(['/', '?', '#']).map_or(url.len(), |end| after_scheme + end);
    if url[..authority_end].contains('{') {
        return Err(format!("expected placeholders in the path only: scheme, host and port are literal, got {}", quoted(url)));
    }
    let (origin, path) = split_url(url)?;
    let path = if path.is_empty() { "/" } else { path };
    let path = PathTemplate::parse(path).map_err(|error| format!("path {error}"))?;
    Ok((origin, path))
}

/// Splits `https://host[:port]/path` by hand, with what follows the host as it stands: no form but this one is understood, so
/// none can be misunderstood.
pub(in crate::action) fn split_url(url: &str) -> Result<(Origin, &str), String> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("expected https://host/path, got {}", quoted(url)))?;
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        _ => return Err(format!("expected the scheme https or http, got {}", quoted(scheme))),
    };
    if authority.contains('@') {
        return Err("expected no user or password before the host; a secret is named under \"credentials\"".to_owned());
    }
    let (host, port) = split_port(authority);
    let origin = Origin { scheme, host: parse_host(host)?, port: port.map_or(Ok(scheme.default_port()), parse_port)? };
    Ok((origin, path))
}

/// The colon of a port stands behind the bracket of an IPv6 address.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    let from = authority.rfind(']').unwrap_or(0);
    match authority[from..].find(':').map(|offset| from + offset) {
        // More than one colon and no bracket: an address without brackets, for which parse_host has the advice.
        Some(colon) if !authority[colon + 1..].contains(':') => (&authority[..colon], Some(&authority[colon + 1..])),
        Some(_) | None => (authority, None),
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let port = if canonical { text.parse().ok() } else { None };
    port.ok_or_else(|| format!("expected a port from 1 to 65535, got {}", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn written(method: &str, url: &str) -> HttpWritten {
        HttpWritten { method: method.to_owned(), url: url.to_owned(), ..HttpWritten::default() }
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn fill(written: &HttpWritten, arguments: Value) -> Result<HttpAction, String> {
        HttpTemplate::new(written).unwrap().fill(&Arguments::new(&arguments.into())).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_url(url: &str, want: &str) {
        assert_eq!(fill(&written("GET", url), json!({"x": "a b"})).unwrap().url(), want, "{url}");
    }

    #[track_caller]
    fn check_refused(written: &HttpWritten, parts: &[&str]) {
        let problems = HttpTemplate::new(written).unwrap_err();
        assert_eq!(problems.len(), parts.len(), "{problems:?}");
        for (problem, part) in problems.iter().zip(parts) {
            assert!(problem.contains(part), "expected {part}: {problem}");
        }
    }

    #[test]
    fn urls() {
        check_url("https://api.example.com/v1/{x}", "https://api.example.com/v1/a%20b");
        check_url("HTTPS://API.Example.com:443/", "https://api.example.com/");
        check_url("http://localhost:8080/a", "http://localhost:8080/a");
        check_url("http://localhost", "http://localhost/");
        check_url("http://[::1]:1/", "http://[::1]:1/");
        check_url("https://[2001:DB8::0]/", "https://[2001:db8::]/");
        check_url("https://10.0.0.5:65535/a@b:c", "https://10.0.0.5:65535/a@b:c");
    }

    #[test]
    fn urls_refused() {
        for (url, part) in [
            ("", "expected https://host/path"),
            ("api.example.com/v1", "expected https://host/path"),
            ("//api.example.com/", "expected https://host/path"),
            ("ftp://a/", "scheme https or http"),
            ("https:///v1", "host name"),
            ("https://a\\@b/", "no user or password"),
            ("https://u:p@a/", "no user or password"),
            ("https://a/x?y=1", "under \"query\""),
            ("https://a?y=1", "begins with /"),
            ("https://a#f", "begins with /"),
            ("https://a/x#f", "fragment"),
            ("{s}://a/", "in the path only"),
            ("https://{h}/", "in the path only"),
            ("https://a{x}/", "in the path only"),
            ("https://a:{p}/", "in the path only"),
            ("https://a:/", "port"),
            ("https://a:0/", "port"),
            ("https://a:65536/", "port"),
            ("https://a:+80/", "port"),
            ("https://a:080/", "port"),
            ("https://a:80:80/", "in brackets"),
            ("https://::1/", "in brackets"),
            ("https://[::1]x/", "in brackets"),
            ("https://2130706433/", "canonical form"),
            ("https://0x7f.1/", "canonical form"),
            ("https://127.1/", "canonical form"),
            ("https://0/", "canonical form"),
            ("https://a./", "dot at its end"),
            (" https://a/", "scheme https or http"),
            ("https:// a/", "host name"),
            ("https://a/../b", "segments"),
        ] {
            check_refused(&written("GET", url), &[part]);
        }
    }

    #[test]
    fn whole_request() {
        let mut post = written("POST", "https://api.example.com/repos/{+repo}/issues");
        post.query = pairs(&[("per_page", "50"), ("page", "{page}")]);
        post.headers = pairs(&[("X-Trace", "t-{trace}"), ("Content-Type", "application/vnd.x+json"), ("X-Gone", "{gone}")]);
        post.body = Some(BodyWritten::Json(json!({"title": "{title}"})));
        post.select = vec!["/*/number".to_owned()];
        let action = fill(&post, json!({"repo": "a/b", "page": 2, "trace": "{page}", "title": "\"}"})).unwrap();
        assert_eq!(action.url(), "https://api.example.com/repos/a/b/issues?per_page=50&page=2");
        assert_eq!(action.headers, pairs(&[("x-trace", "t-{page}")]));
        let body = action.body.unwrap();
        assert_eq!(
            (body.media_type.as_str(), body.bytes.as_slice()),
            ("application/vnd.x+json", br#"{"title":"\"}"}"#.as_slice())
        );
        assert_eq!(action.select, ["/*/number"]);
        let template = HttpTemplate::new(&post).unwrap();
        assert_eq!(template.names().used().collect::<Vec<_>>(), ["gone", "page", "repo", "title", "trace"]);
        assert_eq!(template.names().required().collect::<Vec<_>>(), ["repo"]);
        assert!(template.has_header("x-trace") && template.has_header("content-type") && !template.has_header("x-key"));
        assert_eq!(template.origin().host, "api.example.com");
    }

    #[test]
    fn all_problems_at_once() {
        let mut wrong = written("get", "https://127.1/");
        wrong.query = pairs(&[("{a}", "x")]);
        wrong.headers = pairs(&[("Host", "x"), ("X-A", "1"), ("x-a", "2"), ("content-type", "{t}")]);
        wrong.body = Some(BodyWritten::Text("{".to_owned()));
        wrong.select = vec!["items".to_owned()];
        let parts = ["method", "select", "url", "query", "\"Host\"", "\"x-a\"", "body", "content-type"];
        check_refused(&wrong, &parts);
    }

    #[test]
    fn methods_and_bodies() {
        for method in ["", "GE T", "GET\r\n", "Get", "CONNECT", "TRACE"] {
            check_refused(&written(method, "https://a/"), &["method"]);
        }
        for method in ["GET", "HEAD"] {
            let with_body = HttpWritten { body: Some(BodyWritten::Text(String::new())), ..written(method, "https://a/") };
            check_refused(&with_body, &["body: expected none"]);
        }
        let typed = HttpWritten { headers: pairs(&[("content-type", "a/b")]), ..written("POST", "https://a/") };
        check_refused(&typed, &["expected a body with it"]);
        assert!(HttpTemplate::new(&written("M-SEARCH", "https://a/")).is_ok());
    }

    #[test]
    fn pointers() {
        for pointer in ["/a", "/*/a~0b~1c", "/", "/a//b"] {
            assert_eq!(check_pointer(pointer), Ok(()), "{pointer}");
        }
        for pointer in ["", "a", "#/a", "/a~", "/a~2", "/~~0"] {
            assert!(check_pointer(pointer).is_err(), "{pointer}");
        }
    }

    #[test]
    fn the_target_is_bounded() {
        let mut long = written("GET", "https://a/{x}");
        long.query = pairs(&[("q", "{y}")]);
        assert!(fill(&long, json!({"x": "a".repeat(4094), "y": "b".repeat(4094)})).is_ok());
        let error = fill(&long, json!({"x": "a".repeat(4095), "y": "b".repeat(4094)})).unwrap_err();
        assert!(error.contains("8192"), "{error}");
        assert!(fill(&long, json!({"x": " ".repeat(2000), "y": " ".repeat(1000)})).unwrap_err().contains("8192"));
    }
}
