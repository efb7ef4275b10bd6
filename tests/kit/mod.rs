//! What the tests share: a gateway in a process, a gateway in memory, loopback peers, scratch folders, skips.
//!
//! Every wait has one generous bound and fails with everything needed to understand it; nothing waits for time to pass.

pub mod dir;
pub mod gateway;
pub mod installed;
pub mod memory;
pub mod peer;
pub mod process;
pub mod schema;
pub mod tap;

use std::time::Duration;

/// The longest a test waits for an event before it fails. Never waited for in a test that passes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// `_meta` of a modern request, as a member with a trailing comma to stand before others.
pub const MODERN: &str =
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// A number no other test or run uses: marks effects so that a test finds its own.
pub fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{SystemTime, UNIX_EPOCH};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    format!("{:x}-{:x}-{:x}", std::process::id(), nanos, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// `initialize` and `notifications/initialized` for `revision`, as two lines.
pub fn handshake(revision: &str) -> [String; 2] {
    [
        format!(
            r#"{{"jsonrpc":"2.0","id":"init","method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"kit","version":"1"}}}}}}"#
        ),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
    ]
}

/// A `tools/call` line of the modern era.
pub fn modern_call(id: impl std::fmt::Display, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},{MODERN}}}}}"#
    )
}

/// A `tools/call` line of the legacy era.
pub fn legacy_call(id: impl std::fmt::Display, tool: &str, arguments: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#)
}

/// A `notifications/cancelled` line.
pub fn cancel(id: impl std::fmt::Display) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}
