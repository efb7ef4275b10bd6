//! `cold`: from the start of the process to its first answer, and from end of file to its exit.

use std::time::Instant;

use super::gateway::{Gateway, TOOLS, discover, show};

pub(crate) fn run() {
    let (mut first, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..30 {
        let start = Instant::now();
        let mut gateway = Gateway::start(TOOLS);
        gateway.ask(&discover(1));
        first.push(start.elapsed());
        ends.push(gateway.end());
    }
    show("cold: start to first answer", first);
    show("cold: end of file to exit", ends);
}
