//! From the action to the request on the wire. The credential joins here, last, and in its configured place alone.
//!
//! Header values pass the `http` crate's check, so no value can end its line. What frames a message is the transport's alone.

use ureq::http::header::{CONNECTION, CONTENT_TYPE};
use ureq::http::{HeaderName, HeaderValue, Request, Response, request::Builder};
use ureq::{Agent, Body, Error};

use crate::action::http::{HttpAction, Scheme};
use crate::outcome::result::{Code, Executed, Failure};
use crate::policy::grant::Terms;
use crate::policy::rules::{CredentialRule, Placement};
use crate::secret::Secret;

/// Fields that frame a message or steer the connection (RFC 9112 sections 6 and 9); no tool sets them.
const TRANSPORT_FIELDS: &[&str] =
    &["connection", "content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/// Builds the request, joins the credential and sends it. Returns when the response head is here; `unanswered` says what
/// became of a request without one.
pub(super) fn send(
    agent: &Agent,
    action: &HttpAction,
    terms: &Terms,
    credential: Option<&Secret>,
    unanswered: impl FnOnce(Error) -> Failure,
) -> Result<Response<Body>, Failure> {
    let request = join(build(action)?, terms.credential.as_deref(), credential)?;
    let unbuildable = |error: ureq::http::Error| unfit(format!("the request cannot be built: {error}"));
    let answer = match &action.body {
        Some(body) => agent.run(request.body(body.bytes.as_slice()).map_err(unbuildable)?),
        // These announce a length even if it is zero (RFC 9110 section 8.6).
        None if matches!(action.method.as_str(), "POST" | "PUT" | "PATCH") => {
            agent.run(request.body([].as_slice()).map_err(unbuildable)?)
        }
        None => agent.run(request.body(()).map_err(unbuildable)?),
    };
    answer.map_err(unanswered)
}

fn unfit(message: String) -> Failure {
    Failure::new(Code::BadArguments, Executed::No, message)
}

/// The URL as it will be asked for.
pub(super) fn url(action: &HttpAction) -> String {
    let (scheme, default_port) = match action.scheme {
        Scheme::Http => ("http", 80),
        Scheme::Https => ("https", 443),
    };
    let host = if action.host.contains(':') { format!("[{}]", action.host) } else { action.host.clone() };
    let port = if action.port == default_port { String::new() } else { format!(":{}", action.port) };
    let query = action.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{host}{port}{}{query}", action.path)
}

fn build(action: &HttpAction) -> Result<Builder, Failure> {
    let mut request = Request::builder().method(action.method.as_str()).uri(url(action)).header(CONNECTION, "close");
    for (name, value) in &action.headers {
        if TRANSPORT_FIELDS.contains(&name.as_str()) {
            let message = format!("the tool's configuration sets the header `{name}`, which is the transport's own; remove it");
            return Err(Failure::new(Code::NotConfigured, Executed::No, message));
        }
        request = request.header(name, value);
    }
    let typed = action.headers.iter().any(|(name, _)| name == CONTENT_TYPE.as_str());
    match &action.body {
        Some(body) if !typed => Ok(request.header(CONTENT_TYPE, &body.media_type)),
        _ => Ok(request),
    }
}

/// Puts the credential where its rule says; a header of the same name gives way to it.
fn join(mut request: Builder, rule: Option<&CredentialRule>, credential: Option<&Secret>) -> Result<Builder, Failure> {
    let Some(rule) = rule else { return Ok(request) };
    let unusable = |why: &str| {
        let message = format!("the credential `{}` cannot be used: {why}", rule.name);
        Failure::new(Code::CredentialUnavailable, Executed::No, message)
    };
    let secret = credential.ok_or_else(|| unusable("its value is missing"))?;
    let secret = secret.expose_str().map_err(|error| unusable(&format!("as a header value, {error}")))?;
    let (name, prefix) = match &rule.placement {
        Placement::Bearer => ("authorization", "Bearer "),
        Placement::Header { name, prefix } => (name.as_str(), prefix.as_str()),
    };
    let name: HeaderName = name.parse().map_err(|_| unusable("its header name is none"))?;
    let mut value = HeaderValue::from_str(&format!("{prefix}{secret}")).map_err(|_| unusable("its value is no header text"))?;
    value.set_sensitive(true);
    if let Some(headers) = request.headers_mut() {
        headers.insert(name, value);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::http::HttpBody;

    fn action() -> HttpAction {
        HttpAction {
            method: "GET".into(),
            scheme: Scheme::Https,
            host: "api.test".into(),
            port: 443,
            path: "/a".into(),
            query: None,
            headers: vec![],
            body: None,
            select: vec![],
        }
    }

    fn rule(placement: Placement) -> CredentialRule {
        CredentialRule { name: "key".into(), placement, scopes: vec![] }
    }

    fn secret(text: &str) -> Secret {
        Secret::new(text.into()).unwrap_or_else(|_| panic!("a secret of {} bytes", text.len()))
    }

    #[test]
    fn urls() {
        let check = |change: fn(&mut HttpAction), expected: &str| {
            let mut action = action();
            change(&mut action);
            assert_eq!(url(&action), expected);
        };
        check(|_| (), "https://api.test/a");
        check(|action| action.port = 80, "https://api.test:80/a");
        check(|action| action.query = Some("b=c".into()), "https://api.test/a?b=c");
        check(|action| action.host = "::1".into(), "https://[::1]/a");
        check(|action| (action.scheme, action.port) = (Scheme::Http, 80), "http://api.test/a");
    }

    #[track_caller]
    fn check_refused(action: HttpAction, code: Code) {
        let failure =
            build(&action).and_then(|request| request.body(()).map_err(|error| unfit(error.to_string()))).unwrap_err();
        assert_eq!((failure.code, failure.executed), (code, Executed::No), "{}", failure.message);
    }

    #[test]
    fn no_header_ends_its_line_or_frames_the_message() {
        for value in ["a\r\nx: y", "a\nb", "a\0b", "a\u{7f}"] {
            check_refused(HttpAction { headers: vec![("x-a".into(), value.into())], ..action() }, Code::BadArguments);
        }
        for name in ["content-length", "transfer-encoding", "connection", "expect"] {
            check_refused(HttpAction { headers: vec![(name.into(), "5".into())], ..action() }, Code::NotConfigured);
        }
        check_refused(HttpAction { path: "/a b".into(), ..action() }, Code::BadArguments);
        check_refused(HttpAction { path: format!("/{}", "a".repeat(70_000)), ..action() }, Code::BadArguments);
    }

    #[test]
    fn headers_stay_in_order_and_the_body_names_its_type() {
        let headers = vec![("x-a".to_owned(), "1".to_owned()), ("x-a".to_owned(), "2".to_owned())];
        let body = Some(HttpBody { media_type: "text/x".into(), bytes: b"b".to_vec() });
        let request = build(&HttpAction { headers, body, ..action() }).unwrap().body(()).unwrap();
        let values: Vec<_> = request.headers().get_all("x-a").iter().collect();
        assert_eq!(values, ["1", "2"]);
        assert_eq!(request.headers()["content-type"], "text/x");
    }

    #[test]
    fn the_credential_takes_its_place_alone() {
        let mut action = action();
        action.headers = vec![("authorization".into(), "Basic eA==".into())];
        let with = |placement, value: Option<&str>| {
            let secret = value.map(secret);
            join(build(&action).unwrap(), Some(&rule(placement)), secret.as_ref()).map(|request| request.body(()).unwrap())
        };
        let request = with(Placement::Bearer, Some("s3cret-value")).unwrap();
        assert_eq!(request.headers().get_all("authorization").iter().collect::<Vec<_>>(), ["Bearer s3cret-value"]);
        assert!(request.headers()["authorization"].is_sensitive());

        let place = Placement::Header { name: "private-token".into(), prefix: "t ".into() };
        assert_eq!(with(place, Some("s3cret-value")).unwrap().headers()["private-token"], "t s3cret-value");

        for value in [None, Some("s3cret\r\nx: y")] {
            let failure = with(Placement::Bearer, value).unwrap_err();
            assert_eq!((failure.code, failure.executed), (Code::CredentialUnavailable, Executed::No));
            assert!(failure.message.contains("`key`") && !failure.message.contains("s3cret"), "{}", failure.message);
        }
    }
}
