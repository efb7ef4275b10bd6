//! What unit tests of sinks and executors have in common: a folder for stored results that is gone after the test's process.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::outcome::artifact::Store;
use crate::outcome::budget::Sinks;
use crate::secret::Redactor;

/// A state folder of this test's own, removed when it is dropped.
pub(crate) struct StateDir(pub(crate) PathBuf);

impl StateDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        StateDir(std::env::temp_dir().join(format!("tidegate-unit-{}-{number}", std::process::id())))
    }

    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::new(Store::new(&self.0))
    }

    pub(crate) fn sinks(&self) -> Sinks {
        Sinks::new(Arc::new(Redactor::none()), self.store(), "test")
    }

    /// Names of the stored results, and of what is being written.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join("results")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap_or_default()).collect()
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sinks for a test that looks at no stored result: no folder can be made where they would be.
pub(crate) fn sinks() -> Sinks {
    sinks_with(Redactor::none())
}

/// The same, with secrets to redact.
pub(crate) fn sinks_with(redactor: Redactor) -> Sinks {
    Sinks::new(Arc::new(redactor), Arc::new(Store::new(std::path::Path::new("/dev/null"))), "test")
}
