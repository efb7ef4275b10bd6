//! `pipe`: one request after the other through the pipe: answered by the loop, refused by a worker, carried out.

use std::process::Command;

use super::gateway::{Gateway, META, TOOLS, show, timed};

pub(crate) fn run() {
    let mut gateway = Gateway::start(TOOLS);
    show(
        "pipe: ping",
        timed(5000, |id| {
            gateway.ask(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n"));
        }),
    );
    show(
        "pipe: refused call",
        timed(2000, |id| {
            let call = format!("\"name\":\"true\",\"arguments\":{{\"x\":1}},{META}");
            gateway.ask(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{{call}}}}}\n"));
        }),
    );
    show(
        "pipe: local command, journalled",
        timed(200, |id| {
            let call = format!("\"name\":\"true\",{META}");
            gateway.ask(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{{call}}}}}\n"));
        }),
    );
    show(
        "  beside: /bin/true started and waited for",
        timed(200, |_| {
            assert!(Command::new("/bin/true").status().unwrap().success());
        }),
    );
    gateway.end();
}
