//! The methods both eras share, once their own rules have let a request through.

use std::sync::Arc;

use crate::mcp::call::{Call, ElicitationForms, Opened, Step, expect_string, members};
use crate::mcp::era::{Era, Origin};
use crate::mcp::listing::ToolListing;
use crate::mcp::reply::{RESOURCE_NOT_FOUND, Reply};
use crate::mcp::resource::cursor_of;
use crate::rpc::error::{INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, shown};
use crate::rpc::message::Request;
use crate::wire::escape;

/// A longer resource URI is none of ours, and it would have to be echoed.
const URI_BYTES: usize = 4 << 10;

/// What a request meets besides itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Announced<'a> {
    pub(crate) tools: &'a Arc<ToolListing>,
    pub(crate) instructions: &'a Option<Arc<str>>,
}

/// The shared method table.
///
/// # Errors
/// -32601 for a method that is not in it, -32602 for parameters that do not fit theirs.
pub(crate) fn step(
    opened: &Opened<'_>,
    origin: &Origin,
    can_ask: ElicitationForms,
    tools: &Arc<ToolListing>,
) -> Result<Step, RpcError> {
    let request = opened.request;
    let reply = match request.method() {
        "tools/call" => return Call::read(origin.clone(), opened, can_ask).map(Step::Call),
        "tools/list" => only_page(request, Reply::Tools(tools.clone()))?,
        "resources/list" => only_page(request, Reply::Resources)?,
        "resources/templates/list" => only_page(request, Reply::ResourceTemplates)?,
        "resources/read" => return read_resource(request, origin, opened.meta),
        other => return Err(not_found(other)),
    };
    Ok(Step::Answer(origin.clone(), reply))
}

/// Each list has one page, so no cursor was ever handed out and every cursor, the empty one too, is unknown.
fn only_page(request: &Request<'_>, reply: Reply) -> Result<Reply, RpcError> {
    match members(request.params(), ["cursor"]) {
        [None] => Ok(reply),
        [Some(raw)] => Err(RpcError::invalid_params(format!("expected no cursor, got {}", shown(raw)))),
    }
}

/// A stored result is read by a worker, like every call; anything else is no resource.
fn read_resource(request: &Request<'_>, origin: &Origin, meta: Option<&str>) -> Result<Step, RpcError> {
    let [uri] = members(request.params(), ["uri"]);
    let uri = expect_string(uri, "uri")?;
    if uri.len() > URI_BYTES {
        let message = format!("expected a uri of at most {URI_BYTES} bytes, got {}", uri.len());
        return Err(RpcError::invalid_params(message));
    }
    match cursor_of(&uri) {
        Some(cursor) => Call::read_resource(origin.clone(), uri.into_owned(), &cursor, meta).map(Step::Call),
        None => {
            let data = format!(r#"{{"uri":{}}}"#, escape::to_line(&*uri));
            Err(RpcError::new(no_resource(origin.era), "Resource not found").with_data(data))
        }
    }
}

/// The code for a resource that is not there.
pub(crate) fn no_resource(era: Era) -> i64 {
    match era {
        Era::Legacy(_) => RESOURCE_NOT_FOUND,
        Era::Modern => INVALID_PARAMS,
    }
}

pub(crate) fn not_found(method: &str) -> RpcError {
    RpcError::new(METHOD_NOT_FOUND, format!("method not found: {}", shown(method)))
}
