//! The era of the handshake, 2024-11-05 to 2025-11-25: one state for the session.
//!
//! ```text
//! None ──initialize──▶ Agreed ──notifications/initialized──▶ Ready
//!                        ▲                                     │
//!                        └───────────── initialize ────────────┘
//! ```
//! Tools may be called from `Agreed` on. No question may be asked before `Ready`.

use crate::mcp::call::{ElicitationForms, Opened, Step, expect_object, expect_string, members};
use crate::mcp::era::{Era, Origin, Revision};
use crate::mcp::method::{self, Announced};
use crate::mcp::reply::Reply;
use crate::rpc::error::RpcError;
use crate::rpc::message::Request;

/// How far the handshake of the session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    None,
    Agreed(Agreement),
    Ready(Agreement),
}

/// What `initialize` settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    revision: Revision,
    can_ask: ElicitationForms,
}

impl Agreement {
    /// The agreed revision.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// What the client declared it can ask its user.
    pub fn can_ask(&self) -> ElicitationForms {
        self.can_ask
    }
}

/// The proof that a legacy session is ready: list changes may be announced to it, and questions asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready(Agreement);

impl Ready {
    /// What the handshake settled.
    pub fn agreement(&self) -> Agreement {
        self.0
    }
}

impl Handshake {
    pub(crate) fn agreement(&self) -> Option<Agreement> {
        match self {
            Handshake::None => None,
            Handshake::Agreed(agreement) | Handshake::Ready(agreement) => Some(*agreement),
        }
    }

    pub(crate) fn ready(&self) -> Option<Ready> {
        match self {
            Handshake::None | Handshake::Agreed(_) => None,
            Handshake::Ready(agreement) => Some(Ready(*agreement)),
        }
    }

    /// `notifications/initialized` came; `false` where it means nothing.
    pub(crate) fn initialized(&mut self) -> bool {
        match *self {
            Handshake::None => false,
            Handshake::Agreed(agreement) | Handshake::Ready(agreement) => {
                *self = Handshake::Ready(agreement);
                true
            }
        }
    }

    /// Serves a request without a claim.
    pub(crate) fn step(&mut self, opened: &Opened<'_>, announced: Announced<'_>) -> Step {
        let era = Era::Legacy(self.agreement().map_or(Revision::V2024_11_05, |agreement| agreement.revision));
        let origin = Origin { id: opened.request.id().clone(), era };
        match self.route(opened, &origin, announced) {
            Ok(step) => step,
            Err(error) => Step::Answer(origin, Reply::Error(error)),
        }
    }

    fn route(&mut self, opened: &Opened<'_>, origin: &Origin, announced: Announced<'_>) -> Result<Step, RpcError> {
        let request = opened.request;
        // A life sign: answered at any time, before `initialize` too.
        if request.method() == "ping" {
            return Ok(Step::Answer(origin.clone(), Reply::Pong));
        }
        if let Some(meta) = opened.meta {
            expect_object(Some(meta), "_meta")?;
        }
        if request.method() == "initialize" {
            return self.initialize(request, announced);
        }
        refuse_modern(request, opened.meta)?;
        let agreement = self.agreement().ok_or_else(not_initialized)?;
        method::step(opened, origin, agreement.can_ask, announced.tools)
    }

    /// Agrees on the asked revision, or on the newest one with a handshake: never an error for an unknown version, as
    /// real clients ask for 2026-07-28 here. A second `initialize` starts over; a malformed one changes nothing.
    fn initialize(&mut self, request: &Request<'_>, announced: Announced<'_>) -> Result<Step, RpcError> {
        let names = ["protocolVersion", "capabilities", "clientInfo"];
        let [version, capabilities, client] = members(request.params(), names);
        let version = expect_string(version, "protocolVersion")?;
        let capabilities = expect_object(capabilities, "capabilities")?;
        expect_object(client, "clientInfo")?;
        let revision = Revision::parse(&version).filter(|revision| revision.is_legacy()).unwrap_or(Revision::NEWEST_LEGACY);
        let can_ask = can_ask(revision, capabilities);
        *self = Handshake::Agreed(Agreement { revision, can_ask });
        let origin = Origin { id: request.id().clone(), era: Era::Legacy(revision) };
        let instructions = announced.instructions.clone();
        Ok(Step::Answer(origin, Reply::Initialized { instructions }))
    }
}

/// Questions came with 2025-06-18, as forms only; pages to open with 2025-11-25.
fn can_ask(revision: Revision, capabilities: &str) -> ElicitationForms {
    let declared = ElicitationForms::declared(capabilities);
    match revision {
        Revision::V2024_11_05 | Revision::V2025_03_26 => ElicitationForms::default(),
        Revision::V2025_06_18 => ElicitationForms { form: declared.form || declared.url, url: false },
        Revision::V2025_11_25 | Revision::V2026_07_28 => declared,
    }
}

/// A request that is modern in all but its claim is told what is missing.
fn refuse_modern(request: &Request<'_>, meta: Option<&str>) -> Result<(), RpcError> {
    let keys = [
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/logLevel",
        "io.modelcontextprotocol/serverInfo",
        "io.modelcontextprotocol/subscriptionId",
    ];
    let stray = keys.into_iter().zip(members(meta, keys)).find(|(_, value)| value.is_some());
    let why = match (request.method(), stray) {
        (method @ ("server/discover" | "subscriptions/listen"), _) => method,
        (_, Some((key, _))) => key,
        (_, None) => return Ok(()),
    };
    Err(RpcError::invalid_params(format!(
        "expected _meta[\"io.modelcontextprotocol/protocolVersion\"] together with {why}, got none"
    )))
}

fn not_initialized() -> RpcError {
    RpcError::invalid_params(
        "not initialized: send initialize first, or per-request _meta with io.modelcontextprotocol/protocolVersion \
         and io.modelcontextprotocol/clientCapabilities (2026-07-28)",
    )
}
