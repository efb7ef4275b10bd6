//! The Model Context Protocol, server side, in five revisions and two eras; the only place that knows of either.
//!
//! `Session` turns a JSON-RPC request into a neutral `Step`, and `render` turns a neutral `Reply` back into one line in the
//! shape of the revision the request came in. The era is chosen for each request: one that claims a version is served
//! statelessly, any other by the handshake of its session. Pure: no thread, clock, file or environment.

pub mod era;

pub mod listing;

pub mod reply;
pub mod resource;

pub mod elicit;
pub mod answer;

pub mod call;

pub mod render;

pub mod subscription;

pub mod question;

pub(crate) mod method;

pub mod legacy;

pub(crate) mod modern;

pub mod session;
