//! Public test data that is read where it lies and is no part of this project.
//!
//! Where it is absent a test skips; every skip is printed, past the capture of test output, and counted. Where none may be,
//! as in CI, `$TIDEGATE_NO_SKIP` makes it a failure.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// `path` below the folder of shared data: `$TIDEGATE_SHARED`, else `../shared` beside the project. `None` where it is
/// absent, and the skip is told: the caller returns.
#[track_caller]
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let root = env::var_os("TIDEGATE_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let found = Some(root.join(path)).filter(|path| path.exists());
    if found.is_none() {
        skip(&format!("no {path} below {}", root.display()), env::var_os("TIDEGATE_NO_SKIP").is_none());
    }
    found
}

#[track_caller]
fn skip(why: &str, is_allowed: bool) {
    assert!(is_allowed, "skipped where nothing may be: {why}");
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    writeln!(std::io::stderr(), "skipped ({count} so far): {why}").expect("stderr is open");
}

#[test]
#[should_panic(expected = "skipped where nothing may be: no data")]
fn a_skip_fails_where_none_may_be() {
    skip("no data", false);
}
