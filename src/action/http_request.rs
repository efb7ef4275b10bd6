//! The typed request of `http_request`, the tool whose target the caller writes.
//!
//! The URL is taken apart by the same hand as that of a template, and judged more strictly: what two readers could take for
//! two places is refused, never repaired. What identifies the gateway or steers the message cannot be set: trying is an
//! error. Where such a request may go is decided in `policy`.

use crate::action::ArgumentError;
use crate::action::http::{HttpAction, HttpBody, TARGET_BYTES_MAX, check_method, check_pointer, split_url};
use crate::action::json::{Json, Members};
use crate::action::template::body::BODY_BYTES_MAX;
use crate::action::template::header::parse_given;
use crate::action::template::path::{check_given_path, check_given_query};
use crate::action::template::quoted;

/// The tool's name, and its key under `builtin`.
pub const NAME: &str = "http_request";

/// What it takes: the tool's input schema.
pub const INPUT: &str = r#"{"type":"object","properties":{"method":{"type":"string","maxLength":32,"description":"In upper case; GET if left out"},"url":{"type":"string","maxLength":9000,"description":"https://host/path?query, percent-encoded, without user, password and fragment"},"headers":{"type":"object","additionalProperties":{"type":"string"},"maxProperties":32,"description":"Names and values. The gateway's own (authorization, cookie, host, content-length and the like) cannot be set"},"body":{"type":"object","properties":{"text":{"type":"string","description":"Sent as it is"},"json":{"description":"Any JSON value"}},"minProperties":1,"maxProperties":1,"additionalProperties":false},"select":{"type":"array","items":{"type":"string","maxLength":512},"maxItems":32,"description":"JSON Pointers, * for every element, that pick what is kept of a JSON answer"}},"required":["url"],"additionalProperties":false}"#;

impl HttpAction {
    /// From arguments that have passed `INPUT`; all problems at once.
    pub(crate) fn from_arguments(arguments: &Json<'_>) -> Result<HttpAction, ArgumentError> {
        let mut problems = Vec::new();
        let text = |name: &str| arguments.get(name).and_then(Json::as_str);
        let method = text("method").unwrap_or("GET");
        let body = arguments.get("body").and_then(Json::as_object);
        check_method(method, body.is_some()).unwrap_or_else(|problem| problems.push(format!("arguments.{problem}")));
        let target = parse_given_url(text("url").unwrap_or_default());
        let target = target.map_err(|problem| problems.push(format!("arguments.url: {problem}"))).ok();
        let mut headers = given_headers(arguments.get("headers").and_then(Json::as_object), &mut problems);
        let media_type = take_media_type(&mut headers, body.is_some(), &mut problems);
        let body = body.map(|body| given_body(body, media_type)).transpose();
        let body = body.map_err(|problem| problems.push(problem)).ok().flatten();
        let select = given_select(arguments.get("select"), &mut problems);
        match target {
            Some((origin, path, query)) if problems.is_empty() => Ok(HttpAction {
                method: method.to_owned(),
                scheme: origin.scheme,
                host: origin.host,
                port: origin.port,
                path: path.to_owned(),
                query: query.map(str::to_owned),
                headers,
                body,
                select,
            }),
            _ => Err(ArgumentError { problems }),
        }
    }
}

/// Origin, path and query of a URL that is complete: no fragment, no placeholder, nothing left to encode.
fn parse_given_url(url: &str) -> Result<(crate::action::http::Origin, &str, Option<&str>), String> {
    let (origin, rest) = split_url(url)?;
    if rest.contains('#') {
        return Err("expected no fragment, which is never sent, got #".to_owned());
    }
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let path = if path.is_empty() { "/" } else { path };
    check_given_path(path)?;
    query.map_or(Ok(()), check_given_query)?;
    if path.len() + query.map_or(0, |query| query.len() + 1) > TARGET_BYTES_MAX {
        return Err(format!("expected at most {TARGET_BYTES_MAX} bytes in path and query, got more"));
    }
    Ok((origin, path, query))
}

fn given_headers(given: Option<&Members<'_>>, problems: &mut Vec<String>) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in given.into_iter().flatten() {
        match parse_given(name, value.as_str().unwrap_or_default()) {
            Err(problem) => problems.push(format!("arguments.headers: {problem}")),
            Ok((name, _)) if headers.iter().any(|(other, _)| *other == name) => {
                problems
                    .push(format!("arguments.headers: expected each name once, in whatever case, got {} twice", quoted(&name)));
            }
            Ok(header) => headers.push(header),
        }
    }
    headers
}

/// Takes `content-type` out of the headers: it describes the body, so it needs one.
fn take_media_type(headers: &mut Vec<(String, String)>, has_body: bool, problems: &mut Vec<String>) -> Option<String> {
    let index = headers.iter().position(|(name, _)| name == "content-type")?;
    let (_, value) = headers.remove(index);
    if !has_body || value.is_empty() {
        let got = if has_body { "an empty one" } else { "one without a body" };
        problems.push(format!("arguments.headers: expected a content-type that describes a body, got {got}"));
    }
    Some(value)
}

fn given_body(body: &Members<'_>, media_type: Option<String>) -> Result<HttpBody, String> {
    let (default, bytes) = match (body.get("text").and_then(Json::as_str), body.get("json")) {
        (Some(text), _) => ("text/plain; charset=utf-8", text.as_bytes().to_vec()),
        (None, json) => ("application/json", json.unwrap_or(&Json::Null).to_string().into_bytes()),
    };
    if bytes.len() > BODY_BYTES_MAX {
        return Err(format!("arguments.body: expected at most {BODY_BYTES_MAX} bytes, got {}", bytes.len()));
    }
    Ok(HttpBody { media_type: media_type.unwrap_or_else(|| default.to_owned()), bytes })
}

fn given_select(given: Option<&Json<'_>>, problems: &mut Vec<String>) -> Vec<String> {
    let pointers: Vec<&str> = given.and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
    for pointer in &pointers {
        check_pointer(pointer).unwrap_or_else(|problem| problems.push(format!("arguments.{problem}")));
    }
    pointers.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::http::Scheme;
    use crate::action::schema::Schema;
    use crate::action::template::sample;
    use serde_json::{Value, json};

    fn read(arguments: &Value) -> Result<HttpAction, String> {
        let schema = Schema::compile(&serde_json::from_str(INPUT).unwrap()).unwrap();
        let arguments = Json::from(arguments.clone());
        match schema.validate(&arguments) {
            Ok(()) => HttpAction::from_arguments(&arguments).map_err(|error| error.problems.join("; ")),
            Err(_) => Err("schema".to_owned()),
        }
    }

    #[track_caller]
    fn check_url(url: &str, want: &str) {
        assert_eq!(read(&json!({ "url": url })).unwrap().url(), want);
    }

    #[track_caller]
    fn check_refused(arguments: Value, part: &str) {
        let problems = read(&arguments).expect_err("it is refused");
        assert!(problems.contains(part), "{arguments}: {problems}");
    }

    #[test]
    fn urls_have_one_reading() {
        check_url("https://api.example.com", "https://api.example.com/");
        check_url("HTTPS://API.Example.com:443/v1/a%20b?q=%0A&r=a/b?c", "https://api.example.com/v1/a%20b?q=%0A&r=a/b?c");
        check_url("https://api.example.com?q=1", "https://api.example.com/?q=1");
        check_url("http://[::1]:8080/a/", "http://[::1]:8080/a/");
        check_url("https://a/a;v=1/@b:c/...", "https://a/a;v=1/@b:c/...");
    }

    #[test]
    fn urls_with_two_readings_are_refused() {
        for (url, part) in [
            ("", "expected https://host/path"),
            ("/v1", "expected https://host/path"),
            ("//a/v1", "expected https://host/path"),
            ("ftp://a/", "scheme https or http"),
            ("file:///etc/passwd", "scheme https or http"),
            (" https://a/", "scheme https or http"),
            ("https://u:p@a/", "no user or password"),
            ("https://a@b/", "no user or password"),
            ("https://a\\@b/", "no user or password"),
            ("https://a\\b/", "host name"),
            ("https://a#@b/", "fragment"),
            ("https://a/#", "fragment"),
            ("https://a/x?y#z", "fragment"),
            ("https://a:0/", "port"),
            ("https://a:080/", "port"),
            ("https://127.1/", "canonical form"),
            ("https://2130706433/", "canonical form"),
            ("https://0x7f.1/", "canonical form"),
            ("https://[::ffff:127.0.0.1]/", "127.0.0.1"),
            ("https://a./", "dot at its end"),
            ("https://{x}/", "host name"),
            ("https://a%2eb/", "host name"),
            ("https://a/..", "segments"),
            ("https://a/v1/../x", "segments"),
            ("https://a/v1/.", "segments"),
            ("https://a/%2e%2e/x", "segments"),
            ("https://a/.%2E/x", "segments"),
            ("https://a/..;/x", "segments"),
            ("https://a/v1//x", "empty segment"),
            ("https://a//", "empty segment"),
            ("https://a/v1%2fx", "encoded separator"),
            ("https://a/v1%5Cx", "encoded separator"),
            ("https://a/v1\\x", "must be encoded"),
            ("https://a/%252e%252e/x", "escape inside an escape"),
            ("https://a/%c0%ae%c0%ae/x", "UTF-8"),
            ("https://a/%ff", "UTF-8"),
            ("https://a/%0d%0ax", "control"),
            ("https://a/%00", "control"),
            ("https://a/%7f", "control"),
            ("https://a/%2", "two hex digits"),
            ("https://a/%zz", "two hex digits"),
            ("https://a/{x}", "must be encoded"),
            ("https://a/a b", "must be encoded"),
            ("https://a/é", "must be encoded"),
            ("https://a/x\r\nHost: b", "must be encoded"),
            ("https://a/x?a b", "must be encoded"),
            ("https://a/x?y=\n", "must be encoded"),
            ("https://a/x?%", "two hex digits"),
        ] {
            check_refused(json!({ "url": url }), part);
        }
        check_refused(json!({"url": format!("https://a/{}", "x".repeat(TARGET_BYTES_MAX))}), "8192");
    }

    #[test]
    fn what_is_the_gateways_own_cannot_be_set() {
        for name in ["authorization", "Authorization", "COOKIE", "proxy-authorization"] {
            check_refused(json!({"url": "https://a/", "headers": {name: "x"}}), "carries a credential");
            check_refused(json!({"url": "https://a/", "headers": {name: "x"}}), &quoted(&name.to_ascii_lowercase()));
        }
        for name in
            ["Host", "content-length", "Transfer-Encoding", "connection", "keep-alive", "TE", "upgrade", "expect", "proxy-x"]
        {
            check_refused(json!({"url": "https://a/", "headers": {name: "x"}}), "the gateway sets itself");
        }
        for (name, part) in [
            ("x_http_method_override", "another target"),
            ("X_Forwarded.Host", "another target"),
            ("transfer_encoding", "the gateway sets itself"),
            ("Proxy_Authorization", "carries a credential"),
        ] {
            check_refused(json!({"url": "https://a/", "headers": {name: "x"}}), part);
        }
        for name in
            ["X-HTTP-Method-Override", "x-method-override", "x-original-url", "x-rewrite-url", "X-Forwarded-Host", "forwarded"]
        {
            check_refused(json!({"url": "https://a/", "headers": {name: "x"}}), "another target");
        }
        for (name, value) in
            [("a b", "x"), ("", "x"), ("a:", "x"), ("x\r\ny", "x"), ("x", "a\r\nb: c"), ("x", "é"), ("x", " a")]
        {
            check_refused(json!({"url": "https://a/", "headers": {name: value}}), "arguments.headers: ");
        }
        check_refused(json!({"url": "https://a/", "headers": {"x-a": "1", "X-A": "2"}}), "\"x-a\" twice");
        check_refused(json!({"url": "https://a/", "headers": {"x": "a".repeat(8193)}}), "8192");
        check_refused(json!({"url": "https://a/", "headers": {"content-type": "a/b"}}), "without a body");
    }

    #[test]
    fn whole_requests() {
        let action = read(&json!({"method": "POST", "url": "https://a:8443/v1", "headers": {"X-Trace": "a {b}"},
            "body": {"json": {"a": [1, null]}}, "select": ["/*/id"]}))
        .unwrap();
        assert_eq!((action.scheme, action.host.as_str(), action.port), (Scheme::Https, "a", 8443));
        assert_eq!(action.headers, [("x-trace".to_owned(), "a {b}".to_owned())]);
        let body = action.body.unwrap();
        assert_eq!((body.media_type.as_str(), body.bytes.as_slice()), ("application/json", br#"{"a":[1,null]}"#.as_slice()));
        assert_eq!((action.method.as_str(), action.select.as_slice()), ("POST", ["/*/id".to_owned()].as_slice()));
        let typed =
            json!({"method": "PUT", "url": "https://a/", "headers": {"Content-Type": "text/csv"}, "body": {"text": "{a}"}});
        let body = read(&typed).unwrap().body.unwrap();
        assert_eq!((body.media_type.as_str(), body.bytes.as_slice()), ("text/csv", b"{a}".as_slice()));
        assert_eq!(read(&json!({"url": "https://a/"})).unwrap().method, "GET");
    }

    #[test]
    fn everything_else_is_refused() {
        for method in ["get", "CONNECT", "TRACE", "G ET", "", "GET\r\n"] {
            check_refused(json!({"method": method, "url": "https://a/"}), "arguments.method: ");
        }
        check_refused(json!({"url": "https://a/", "body": {"text": ""}}), "arguments.body: expected none with GET");
        check_refused(json!({"url": "https://a/", "select": ["id"]}), "arguments.select: ");
        for arguments in [
            json!({}),
            json!({"url": 1}),
            json!({"url": "https://a/", "header": {}}),
            json!({"url": "https://a/", "headers": {"x": 1}}),
            json!({"method": "POST", "url": "https://a/", "body": "x"}),
            json!({"method": "POST", "url": "https://a/", "body": {}}),
            json!({"method": "POST", "url": "https://a/", "body": {"text": "", "json": 1}}),
            json!({"method": "POST", "url": "https://a/", "body": {"base64": ""}}),
            json!({"url": "https://a/", "credential": "k"}),
        ] {
            check_refused(arguments, "schema");
        }
    }

    #[test]
    fn no_text_moves_the_target() {
        for text in sample::texts() {
            for url in [
                format!("https://a.example/v1/{text}"),
                format!("https://a.example{text}"),
                format!("https://{text}a.example/"),
            ] {
                let Ok(action) = read(&json!({ "url": url })) else { continue };
                // What is taken stands in the action as it was written, host in lower case.
                assert!(!action.path.contains("/../") && action.path.is_ascii(), "{url:?}");
                let (host, path) = (&action.host, &action.path);
                assert!(
                    url.to_ascii_lowercase().contains(host.as_str()) && (url.contains(path.as_str()) || path == "/"),
                    "{url:?}"
                );
            }
        }
    }
}
