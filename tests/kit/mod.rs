//! What the tests share: a gateway in a process, a gateway in memory, loopback peers, scratch folders, skips.
//!
//! Every wait has one generous bound and fails with everything needed to understand it; nothing waits for time to pass.

pub mod dir;
pub mod gateway;
pub mod installed;
pub mod memory;
pub mod peer;
pub mod pipes;
pub mod process;
pub mod schema;
pub mod sshd;
pub mod tap;

use std::time::Duration;

use gateway::Running;

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

/// A protocol era, as far as a test has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub const BOTH: [Era; 2] = [Era::Legacy, Era::Modern];

    /// What comes before the first call.
    pub fn begin(self, gateway: &mut Running) {
        if self == Era::Legacy {
            gateway.initialize("2025-11-25");
        }
    }

    /// What the `params` of a request hold whatever its method.
    pub fn meta(self) -> &'static str {
        match self {
            Era::Legacy => "",
            Era::Modern => MODERN,
        }
    }
}

/// A `tools/call` line.
pub fn call(era: Era, id: impl std::fmt::Display, tool: &str, arguments: &str) -> String {
    match era {
        Era::Legacy => legacy_call(id, tool, arguments),
        Era::Modern => modern_call(id, tool, arguments),
    }
}

/// The best of at most three runs, which has to be within `bound`: other work on the machine can slow a run down, never speed
/// it up.
#[track_caller]
pub fn within(bound: Duration, mut run: impl FnMut() -> Duration) -> Duration {
    let mut times = Vec::new();
    while times.len() < 3 {
        let took = run();
        if took <= bound {
            return took;
        }
        times.push(took);
    }
    panic!("never within {bound:?}: {times:?}");
}
