//! The demo's private folder: made for one run, mode 0700, gone when its owner is.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::cli::demo::Fault;
use crate::journal::refusals::PREFIX;

/// A private folder.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes it under `$TMPDIR`, else `/tmp`; `unique` goes into its name.
    pub(super) fn make(unique: &str) -> Result<Self, Fault> {
        let failed = |path: &Path, error: io::Error| Fault(format!("the folder {} cannot be made: {error}", path.display()));
        let temp = std::env::temp_dir();
        let path = std::path::absolute(&temp).map_err(|error| failed(&temp, error))?.join(format!("tidegate-demo-{unique}"));
        if path.to_str().is_none() {
            return Err(Fault(format!("$TMPDIR: expected UTF-8, as the configuration is, got {}", temp.display())));
        }
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| failed(&path, error))?;
        Ok(Folder(path))
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of `name` in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The path of `name` in it, for a configuration.
    pub(super) fn text(&self, name: &str) -> String {
        self.join(name).to_str().expect("`make` refuses what is not UTF-8").to_owned()
    }

    /// Writes a new file of mode 0600.
    pub(super) fn write(&self, name: &str, content: &str) -> Result<PathBuf, Fault> {
        let path = self.join(name);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(content.as_bytes()));
        written.map(|()| path.clone()).map_err(|error| Fault(format!("{} cannot be written: {error}", path.display())))
    }

    /// Every line of every journal of actions under the state folder `name`; none if there is no journal.
    pub(super) fn journal(&self, name: &str) -> Vec<String> {
        let files = fs::read_dir(self.join(name).join("journal")).into_iter().flatten().flatten();
        let files = files.filter(|file| !file.file_name().to_string_lossy().starts_with(PREFIX));
        let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// The text of every regular file in it, at any depth.
    pub(super) fn texts(&self) -> Vec<String> {
        let (mut folders, mut texts) = (vec![self.0.clone()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() => {
                        texts.extend(fs::read(entry.path()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        texts
    }

    /// Removes it and all in it.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[track_caller]
    fn check_mode(path: &Path, expected: u32) {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, expected, "{}", path.display());
    }

    #[test]
    fn it_is_private_and_gone_with_its_owner() {
        let unique = format!("test-{}", std::process::id());
        let folder = Folder::make(&unique).unwrap_or_else(|fault| panic!("{fault}"));
        let file = folder.write("file", "text").unwrap_or_else(|fault| panic!("{fault}"));
        check_mode(folder.path(), 0o700);
        check_mode(&file, 0o600);
        assert_eq!(folder.texts(), ["text"]);
        assert!(Folder::make(&unique).is_err(), "what is there already is not ours");
        assert!(folder.write("file", "again").is_err());
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }
}
