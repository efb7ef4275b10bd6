//! Named threads, owned and joined: the only place that starts one.
//!
//! Linux cuts thread names at 15 bytes, so every name is at most that long. Dropping an owner joins its thread; only a name
//! lookup that the C library holds on to is let go of, by `abandon`.

use std::io;
use std::thread::JoinHandle;

/// Owns a running thread; joined on drop.
#[must_use]
pub struct Thread {
    handle: Option<JoinHandle<()>>,
}

/// Starts a thread named `name` (at most 15 bytes). Fails when the system has no thread left.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    debug_assert!(name.len() <= 15, "Linux cuts the thread name {name:?}");
    #[expect(clippy::disallowed_methods, reason = "the one home of thread starts")]
    let handle = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
    Ok(Thread { handle: Some(handle) })
}

impl Thread {
    /// Whether the thread's body has returned.
    pub fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the thread to end. True if its body returned, false if it panicked.
    pub fn join(mut self) -> bool {
        self.handle.take().is_none_or(|handle| handle.join().is_ok())
    }

    /// Lets the thread go on alone. For name lookups, and at the end of a session that cannot wait any longer.
    pub fn abandon(mut self) {
        drop(self.handle.take());
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            // A panic was already reported by the hook; the owner that cares calls `join`.
            let _ = handle.join();
        }
    }
}
