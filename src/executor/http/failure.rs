//! What became of a request that was not answered, or not to the end: the code, what was executed, and what would help.
//!
//! The exchange knows what happened at the socket; ureq's error is asked only for what the peer said. Text of the peer is cut.

use std::io;

use ureq::Error;

use crate::action::http::HttpAction;
use crate::executor::http::transport::{Exchange, Fault, Phase, Progress};
use crate::limits::HTTP_HEADER_BYTES;
use crate::outcome::http::Ending;
use crate::outcome::result::{Code, Ended, Executed, Failure};

/// The most shown of a text the peer had a part in.
const REASON_CHARS: usize = 200;

/// A request without a response head.
pub(super) fn unanswered(error: Error, exchange: &Exchange, action: &HttpAction) -> Failure {
    let progress = exchange.progress();
    let executed = if progress.sent { Executed::Unknown } else { Executed::No };
    let target = format!("{}:{}", action.host, action.port);
    let (code, message) = match &progress.fault {
        Some(Fault::Cancelled) => return Failure::cancelled(executed, Some(Ended::Dead)),
        Some(Fault::TimedOut) => (
            Code::TimedOut,
            format!(
                "the call's time ran out while {} ({target}); raise the tool's `timeout_s` if it needs longer",
                progress.phase
            ),
        ),
        Some(Fault::Unreachable(reasons)) => (Code::ConnectFailed, format!("no connection to {target}: {}", short(reasons))),
        Some(Fault::Broken(reason)) if progress.phase == Phase::Handshake => (Code::TlsFailed, handshake(&target, reason)),
        Some(Fault::Broken(reason)) => {
            (Code::ConnectionLost, format!("the connection to {target} broke while {}: {reason}", progress.phase))
        }
        None => unfaulted(&error, &progress, &target),
    };
    Failure::new(code, executed, message)
}

/// The socket did what it should; the peer or the request did not.
fn unfaulted(error: &Error, progress: &Progress, target: &str) -> (Code, String) {
    let reason = short(&error.to_string());
    match error {
        _ if progress.phase == Phase::Handshake => (Code::TlsFailed, handshake(target, &error.to_string())),
        Error::LargeResponseHeader(..) => {
            (Code::ResponseMalformed, format!("the response head of {target} is larger than {HTTP_HEADER_BYTES} bytes"))
        }
        Error::Protocol(_) | Error::Http(_) | Error::BadUri(_) if !progress.sent => {
            (Code::BadArguments, format!("the request does not fit into HTTP/1.1: {reason}; shorten the URL or the headers"))
        }
        Error::Protocol(_) | Error::Http(_) => {
            (Code::ResponseMalformed, format!("the answer of {target} is no HTTP/1.1 response: {reason}"))
        }
        Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            (Code::TlsFailed, format!("TLS with {target} failed while {}: {reason}", progress.phase))
        }
        Error::Io(_) => (
            Code::ConnectionLost,
            format!("{target} closed the connection before a response head was complete, while {}", progress.phase),
        ),
        _ => (Code::ConnectionLost, format!("the exchange with {target} failed while {}: {reason}", progress.phase)),
    }
}

/// Names the cause that an operator can do something about.
fn handshake(target: &str, reason: &str) -> String {
    const CAUSES: &[(&str, &str)] = &[
        ("expired", "its certificate has expired"),
        ("Expired", "its certificate has expired"),
        ("not valid yet", "its certificate is not valid yet"),
        ("NotValidYet", "its certificate is not valid yet"),
        ("UnknownIssuer", "its certificate's issuer is unknown; `SSL_CERT_FILE` can name a bundle that has it"),
        ("not valid for", "its certificate is for another name"),
        ("NotValidForName", "its certificate is for another name"),
        ("Revoked", "its certificate is revoked"),
        ("eof", "it closed the connection; is it a TLS port?"),
        ("corrupt message", "it does not speak TLS; is the scheme right?"),
        ("InvalidContentType", "it does not speak TLS; is the scheme right?"),
        ("HandshakeFailure", "it accepts none of our TLS versions or ciphers"),
        ("ProtocolVersion", "it accepts none of our TLS versions"),
    ];
    let cause = CAUSES.iter().find(|(mark, _)| reason.contains(mark)).map_or("", |(_, cause)| cause);
    let separator = if cause.is_empty() { "" } else { "; " };
    format!("the TLS handshake with {target} failed: {cause}{separator}{}", short(reason))
}

/// A body that ended before its end.
pub(super) fn cut(error: io::Error, exchange: &Exchange, bytes: u64, announced: Option<u64>) -> Ending {
    let progress = exchange.progress();
    let error = Error::from(error);
    let (code, why) = match (&progress.fault, &error) {
        (Some(Fault::TimedOut), _) => (Code::TimedOut, "the call's time ran out".to_owned()),
        (Some(Fault::Cancelled), _) => (Code::Cancelled, "the call was cancelled".to_owned()),
        (Some(Fault::Broken(reason) | Fault::Unreachable(reason)), _) => {
            (Code::ConnectionLost, format!("the connection broke: {reason}"))
        }
        (None, Error::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
            (Code::ResponseMalformed, format!("TLS failed: {}", short(&error.to_string())))
        }
        (None, Error::Io(_)) => (Code::ConnectionLost, "the connection was closed".to_owned()),
        (None, error) => (Code::ResponseMalformed, format!("it was malformed: {}", short(&error.to_string()))),
    };
    let of = announced.map(|announced| format!(" of {announced}")).unwrap_or_default();
    Ending::Cut { code, message: format!("the response is incomplete, {bytes}{of} bytes came, then {why}") }
}

/// A body that only the end of the connection ends. Under TLS that end has to be said by the peer itself (RFC 8446 section
/// 6.1); a bare end of the socket can be anybody's.
pub(super) fn close_delimited(exchange: &Exchange) -> Ending {
    let progress = exchange.progress();
    if progress.ended && exchange.is_tls() {
        let message = "the response may be incomplete: the connection ended without the TLS closing alert".to_owned();
        Ending::Cut { code: Code::ConnectionLost, message }
    } else {
        Ending::Whole
    }
}

fn short(reason: &str) -> String {
    let mut cut: String = reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect();
    if cut.len() < reason.len() {
        cut.push_str("...");
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_failure_names_its_cause() {
        for (reason, cause) in [
            ("invalid peer certificate: certificate expired: verification time 5", "has expired"),
            ("invalid peer certificate: Expired", "has expired"),
            ("invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
            ("invalid peer certificate: certificate not valid for name \"a.test\"", "another name"),
            ("tls handshake eof", "TLS port"),
            ("received corrupt message of type InvalidContentType", "scheme"),
        ] {
            let text = handshake("a.test:443", reason);
            assert!(text.contains(cause) && text.contains(reason), "{text}");
        }
    }

    #[test]
    fn text_of_the_peer_is_cut_and_tame() {
        let text = short(&format!("a\u{1b}[2J{}", "x".repeat(500)));
        assert!(text.starts_with("a[2Jx") && text.ends_with("...") && text.len() <= REASON_CHARS + 3);
    }
}
