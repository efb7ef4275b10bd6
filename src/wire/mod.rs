//! Bytes: lines in, frames out, and the operator's stderr. Knows nothing of JSON-RPC.
//!
//! `frame` and `escape` are pure. `stdio` takes the descriptors, `outbox` owns everything that leaves on stdout, `log` owns
//! everything that leaves on stderr.

pub mod frame;
pub mod escape;
pub mod stdio;
pub mod outbox;
pub mod log;
