//! JSON-RPC 2.0, strict, one message a line; it knows no MCP.
//!
//! A line becomes a `Message` or a `Malformed` that says what was expected, what came, and what that means for the
//! session. What a message carries stays raw text: nothing here turns a peer's bytes into a tree of values.

pub mod error;

pub mod strict;

pub mod members;

pub mod id;

pub mod text;

pub mod message;
