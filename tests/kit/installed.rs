//! What tests need built: the installed release binary, and objects that the loader puts into it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// The installed release binary: `$TIDEGATE_INSTALLED`, else installed once below the build folder.
pub fn installed() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| std::env::var_os("TIDEGATE_INSTALLED").map_or_else(install, PathBuf::from))
}

fn install() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["install", "--quiet", "--locked", "--offline", "--no-track", "--force", "--path"]);
    cargo.arg(env!("CARGO_MANIFEST_DIR")).arg("--root").arg(&root);
    run(&mut cargo);
    root.join("bin/tidegate")
}

/// A shared object made of `tests/fixtures/preload/NAME`, a C or a Rust file.
pub fn preload_object(name: &str) -> PathBuf {
    // Tests run at once and must not see each other's half-written objects.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/preload").join(name);
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.so"));
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.so", super::unique()));
    if name.ends_with(".rs") {
        run(Command::new("rustc").args(["--edition=2024", "--crate-type=cdylib", "-o"]).arg(&fresh).arg(source));
    } else {
        run(Command::new("cc").args(["-shared", "-fPIC", "-pthread", "-Wall", "-Werror", "-o"]).arg(&fresh).arg(source));
    }
    std::fs::rename(fresh, &object).unwrap();
    object
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
