//! A scratch folder that is gone when its owner is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A scratch folder.
pub struct Dir(PathBuf);

impl Dir {
    /// A new, empty folder of mode 0700.
    pub fn new() -> Dir {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(super::unique());
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Dir(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file of mode 0600 and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        self.write_mode(name, content, 0o600)
    }

    /// Writes a file of the given mode and returns its path.
    pub fn write_mode(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// The text of a file in it, empty if there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.join(name)).unwrap_or_default()
    }

    /// All journal lines written under the state folder `state`: actions, not what was refused.
    pub fn journal_under(&self, state: &str) -> Vec<serde_json::Value> {
        read_lines(self.journal_files(state).into_iter().filter(|path| !is_of_refusals(path)))
    }

    /// All records of what was refused, without the lines that begin their files.
    pub fn refusals_under(&self, state: &str) -> Vec<serde_json::Value> {
        let mut lines = read_lines(self.journal_files(state).into_iter().filter(|path| is_of_refusals(path)));
        lines.retain(|line| line["type"] != "session");
        lines.sort_by_key(|line| line["seq"].as_u64());
        lines
    }

    /// Every file of the journal's folder.
    pub fn journal_files(&self, state: &str) -> Vec<PathBuf> {
        let folder = self.join(state).join("journal");
        let mut files: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        files
    }
}

fn is_of_refusals(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("refusals-"))
}

fn read_lines(files: impl Iterator<Item = PathBuf>) -> Vec<serde_json::Value> {
    let text: String = files.map(|path| fs::read_to_string(path).unwrap()).collect();
    // While the gateway runs the last line may still be written.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
