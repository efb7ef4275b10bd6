//! The neutral reply: what the gateway says, before any revision gives it a shape.

use std::sync::Arc;

use crate::mcp::elicit::Elicitation;
use crate::mcp::listing::ToolListing;
use crate::rpc::error::RpcError;

/// Needed client capability was not declared (2026-07-28).
pub const MISSING_CAPABILITY: i64 = -32021;
/// The claimed version is not spoken per request (2026-07-28).
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// No such resource (2025-11-25 and older; later -32602).
pub const RESOURCE_NOT_FOUND: i64 = -32002;

/// An answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To `ping`.
    Pong,
    /// To `initialize`; the agreed revision is that of the origin.
    Initialized {
        /// For the model.
        instructions: Option<Arc<str>>,
    },
    /// To `server/discover`.
    Discovered {
        /// For the model.
        instructions: Option<Arc<str>>,
    },
    /// To `tools/list`: all of them, on one page.
    Tools(Arc<ToolListing>),
    /// To `resources/list`: none is listed.
    Resources,
    /// To `resources/templates/list`: there is none.
    ResourceTemplates,
    /// To `tools/call`.
    Tool(ToolReply),
    /// To `tools/call` in the stateless era, in place of a result: the user is to be asked (2026-07-28, multi round-trip requests).
    InputRequired {
        /// What the user is asked, under the name "approval".
        elicitation: Elicitation,
        /// To be brought back with the answer.
        state: String,
    },
    /// To `resources/read`.
    Resource(ResourceReply),
    /// To `resources/read`, if there is none.
    ResourceNotFound {
        /// As it was asked for.
        uri: String,
        /// JSON text of the object under `error.data["tidegate/outcome"]`.
        outcome: String,
    },
    /// To `subscriptions/listen`, when the server ends it.
    SubscriptionEnded,
    /// To anything.
    Error(RpcError),
}

/// A tool's result, already within its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReply {
    /// One text block each.
    pub blocks: Vec<String>,
    /// One `resource_link` each; known from 2025-06-18 on.
    pub links: Vec<Link>,
    /// JSON text of an object; left out before 2025-06-18.
    pub structured: Option<String>,
    /// The call did not do what it was asked.
    pub is_error: bool,
    /// JSON text of the object under `_meta["tidegate/outcome"]`.
    pub outcome: String,
}

/// A stored result that a tool's result names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Of `mcp::resource`.
    pub uri: String,
    /// For people.
    pub name: String,
    /// What it holds.
    pub media_type: &'static str,
    /// How much.
    pub bytes: u64,
}

/// One page of a stored result, already within its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceReply {
    /// As it was asked for.
    pub uri: String,
    /// The bytes.
    pub contents: Contents,
    /// Stored bytes before the page.
    pub offset: u64,
    /// Stored bytes on the page.
    pub bytes: u64,
    /// Stored bytes in all.
    pub total: u64,
    /// Bytes that came after the stored ones and are gone.
    pub gone: u64,
    /// Of the next page.
    pub next_uri: Option<String>,
    /// JSON text of the object under `_meta["tidegate/outcome"]`.
    pub outcome: String,
}

/// The bytes of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// UTF-8.
    Text(String),
    /// Base64 (RFC 4648 section 4).
    Blob(String),
}
