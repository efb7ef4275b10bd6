//! Public test data that is read where it lies and is no part of this project.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// `path` below the folder of shared data: `$TIDEGATE_SHARED`, else `../shared` beside the project. `None` where it is
/// absent: the caller skips, and the skip is printed and counted here.
#[expect(clippy::print_stderr, reason = "a skipped test has to be seen")]
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let root = std::env::var_os("TIDEGATE_SHARED").map_or_else(beside, PathBuf::from);
    let found = Some(root.join(path)).filter(|path| path.exists());
    if found.is_none() {
        let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
        eprintln!("skipped ({count} so far): no {path} below {}", root.display());
    }
    found
}
