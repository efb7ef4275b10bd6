//! The protocol state of one session: which era each request belongs to, and what a notification means.
//!
//! The only state is that of the legacy handshake; a request with a claim neither reads nor changes it. Nothing here
//! knows whether a call may run, and nothing slow stands between a request and its `Step`.

use std::sync::Arc;

use crate::mcp::call::{Opened, Step, members};
use crate::mcp::era::Revision;
use crate::mcp::legacy::{Handshake, Ready};
use crate::mcp::listing::ToolListing;
use crate::mcp::method::Announced;
use crate::mcp::modern::{self, PROTOCOL_VERSION};
use crate::rpc::id::Id;
use crate::rpc::message::{Notification, Request};
use crate::rpc::strict;

/// What a notification asks of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// End the work of this request and say nothing more for it.
    Cancel {
        /// Its id, to be matched by value and type.
        id: Id,
        /// As the client put it, of any length.
        reason: Option<String>,
    },
    /// A cancel whose id is none: without effect.
    CancelOfNothing,
    /// The legacy session is ready.
    Initialized,
    /// Unknown, malformed or out of place: dropped without an answer.
    Ignored,
}

/// Both eras of one peer.
#[derive(Debug)]
pub struct Session {
    tools: Arc<ToolListing>,
    instructions: Option<Arc<str>>,
    handshake: Handshake,
    /// 2025-11-25 or later was agreed or claimed at some time.
    recent: bool,
}

impl Session {
    /// A session without a handshake.
    pub fn new(tools: Arc<ToolListing>, instructions: Option<Arc<str>>) -> Session {
        Session { tools, instructions, handshake: Handshake::None, recent: false }
    }

    /// What is announced from now on, after a reload. True if the list of tools is another one.
    pub fn announce(&mut self, tools: Arc<ToolListing>, instructions: Option<Arc<str>>) -> bool {
        let is_news = *self.tools != *tools;
        self.tools = tools;
        self.instructions = instructions;
        is_news
    }

    /// Takes one request in. Every request yields exactly one step, at any time.
    pub fn request(&mut self, request: &Request<'_>) -> Step {
        let opened = Opened::new(request);
        let announced = Announced { tools: &self.tools, instructions: &self.instructions };
        match (opened.meta, members(opened.meta, [PROTOCOL_VERSION])) {
            (Some(meta), [Some(claim)]) => {
                self.recent |= is_recent_claim(claim);
                modern::step(&opened, meta, announced)
            }
            (_, _) => {
                let step = self.handshake.step(&opened, announced);
                let agreement = self.handshake.agreement();
                self.recent |= agreement.is_some_and(|a| a.revision() >= Revision::V2025_11_25);
                step
            }
        }
    }

    /// Takes one notification in.
    pub fn notification(&mut self, notification: &Notification<'_>) -> Note {
        match notification.method() {
            "notifications/cancelled" => cancel(notification.params()),
            "notifications/initialized" if self.handshake.initialized() => Note::Initialized,
            _ => Note::Ignored,
        }
    }

    /// Whether list changes may be announced untagged and questions asked.
    pub fn ready(&self) -> Option<Ready> {
        self.handshake.ready()
    }

    /// Whether an error without an id says `"id": null`: JSON-RPC 2.0 wants it, 2025-11-25 and later forbid it.
    pub fn null_id(&self) -> bool {
        !self.recent
    }
}

fn cancel(params: Option<&str>) -> Note {
    let [id, reason] = members(params, ["requestId", "reason"]);
    match id.map(Id::parse) {
        Some(Ok(id)) => Note::Cancel {
            id,
            // A reason of a wrong type is no reason to let the work run on.
            reason: reason.and_then(strict::string).map(|text| text.into_owned()),
        },
        Some(Err(_)) | None => Note::CancelOfNothing,
    }
}

/// Claims came with 2026-07-28; only one that names an older revision says otherwise.
fn is_recent_claim(raw: &str) -> bool {
    let named = strict::string(raw).and_then(|version| Revision::parse(&version));
    named.is_none_or(|revision| revision >= Revision::V2025_11_25)
}

#[cfg(test)]
mod tests;
