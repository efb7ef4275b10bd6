//! The neutral reply: what the gateway says, before any revision gives it a shape.

use std::sync::Arc;

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
    /// JSON text of an object; left out before 2025-06-18.
    pub structured: Option<String>,
    /// The call did not do what it was asked.
    pub is_error: bool,
    /// JSON text of the object under `_meta["tidegate/outcome"]`.
    pub outcome: String,
}
