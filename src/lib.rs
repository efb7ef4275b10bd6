//! Tidegate: an MCP gateway on stdio that lets an agent act on the outside world without holding a key.
//!
//! The modules stand in the order of a request's way, and each imports only what stands above it:
//!
//! ```text
//! stdin bytes ─▶ Frame ─▶ Message ─▶ Call ─▶ Action ─▶ Authorized<Action> ─▶ Outcome ─▶ Reply ─▶ stdout bytes
//!               wire      rpc        mcp     action    policy (intent on     executor,   mcp,     wire
//!                                                      disk: journal)        outcome     rpc      outbox
//! ```
//! Where a rule asks, a human's consent stands between the grant and its execution: `policy::consent`, `approval`,
//! `gateway::asking`. `gateway::pipeline` is the security argument in two functions; `gateway::session` is the loop.
//!
//! What must never exist, held by lints and by the `tidy` test:
//! - an import of a module that stands below; a second place that knows protocol eras than `mcp`;
//! - an `Authorized` made outside `policy`; a `serde_json::Value` in an executor;
//! - a write to the protocol stream outside `wire::outbox`; a print;
//! - `unsafe` outside `sys`, a process start outside `process`, a thread start outside `thread`;
//! - a thread that nobody joins, but for a name lookup that the C library holds on to;
//! - an async runtime.

pub mod limits;
pub mod sys;
pub mod secret;
pub mod cancel;
pub mod clock;
pub mod thread;
pub mod process;
pub mod wire;
pub mod rpc;
pub mod mcp;
pub mod action;
pub mod policy;
pub mod outcome;
pub mod executor;
pub mod journal;
pub mod approval;
pub mod config;
pub mod gateway;
pub mod cli;
