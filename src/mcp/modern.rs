//! The stateless era, 2026-07-28: a request carries its version and capabilities, and nothing earlier counts.
//!
//! The order of the checks is fixed: `_meta`, version, method, parameters. Who the client says it is, is never looked at.

use crate::mcp::call::{ElicitationForms, Listen, Opened, Step, expect_object, expect_string, members};
use crate::mcp::era::{Era, Origin, Revision};
use crate::mcp::method::{self, Announced, not_found};
use crate::mcp::reply::{Reply, UNSUPPORTED_VERSION};
use crate::rpc::error::{METHOD_NOT_FOUND, RpcError, shown};
use crate::wire::escape;

pub(crate) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const LOG_LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
/// A longer version is none, and it would have to be echoed.
const VERSION_BYTES: usize = 256;

/// Serves a request whose `meta` has a claim.
pub(crate) fn step(opened: &Opened<'_>, meta: &str, announced: Announced<'_>) -> Step {
    let origin = Origin { id: opened.request.id().clone(), era: Era::Modern };
    match route(opened, &origin, meta, announced) {
        Ok(step) => step,
        Err(error) => Step::Answer(origin, Reply::Error(error)),
    }
}

fn route(opened: &Opened<'_>, origin: &Origin, meta: &str, announced: Announced<'_>) -> Result<Step, RpcError> {
    let request = opened.request;
    let can_ask = read_claim(meta)?;
    match request.method() {
        "server/discover" => {
            let instructions = announced.instructions.clone();
            Ok(Step::Answer(origin.clone(), Reply::Discovered { instructions }))
        }
        "subscriptions/listen" => Listen::read(origin.clone(), request.params()).map(Step::Listen),
        "initialize" => Err(RpcError::new(
            METHOD_NOT_FOUND,
            format!(
                "method not found: \"initialize\": 2026-07-28 has no handshake; send it without _meta for {} and older",
                Revision::NEWEST_LEGACY.as_str()
            ),
        )),
        "ping" => Err(not_found("ping")),
        _ => method::step(opened, origin, can_ask, announced.tools),
    }
}

/// What the request claims, or why it is not served so.
fn read_claim(meta: &str) -> Result<ElicitationForms, RpcError> {
    let names = [PROTOCOL_VERSION, CLIENT_CAPABILITIES, LOG_LEVEL];
    let [version, capabilities, log_level] = members(Some(meta), names);
    let version = expect_string(version, &format!("_meta[\"{PROTOCOL_VERSION}\"]"))?;
    if version.len() > VERSION_BYTES {
        return Err(RpcError::invalid_params(format!(
            "expected a version of at most {VERSION_BYTES} bytes, got {}",
            version.len()
        )));
    }
    let capabilities = expect_object(capabilities, &format!("_meta[\"{CLIENT_CAPABILITIES}\"]"))?;
    if log_level.is_some() {
        // Deprecated and never acted on; a level that does not exist is still no level.
        let level = expect_string(log_level, &format!("_meta[\"{LOG_LEVEL}\"]"))?;
        if !LOG_LEVELS.contains(&&*level) {
            return Err(RpcError::invalid_params(format!("expected a log level, got {}", shown(&level))));
        }
    }
    match Revision::parse(&version) {
        Some(Revision::V2026_07_28) => Ok(ElicitationForms::declared(capabilities)),
        Some(legacy) => Err(unsupported(
            &version,
            &format!("{} is spoken after initialize, not per request", legacy.as_str()),
            &[Revision::V2026_07_28],
        )),
        None => Err(unsupported(&version, "unsupported protocol version", &Revision::ALL)),
    }
}

/// A client that shares no modern version with us falls back to `initialize` only if the older ones are listed.
fn unsupported(requested: &str, message: &str, supported: &[Revision]) -> RpcError {
    let supported: Vec<&str> = supported.iter().map(|revision| revision.as_str()).collect();
    let data = format!(r#"{{"supported":{},"requested":{}}}"#, escape::to_line(&supported), escape::to_line(requested));
    RpcError::new(UNSUPPORTED_VERSION, message).with_data(data)
}
