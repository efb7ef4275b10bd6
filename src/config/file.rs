//! Which configuration file is read, and whether it may be trusted: found, opened once, checked on the descriptor.
//!
//! Never the working directory: a repository that an agent opens must not configure its gateway. A file that others may
//! write is refused, whatever it says.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::limits::CONFIG_BYTES;
use crate::sys;

/// Looks up a variable of the gateway's environment.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Where the configuration is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// To be read; it must exist and be sound.
    File(PathBuf),
    /// Nowhere: the gateway runs without tools.
    Nowhere {
        /// Where one was looked for, in order.
        searched: Vec<PathBuf>,
    },
    /// The environment names something that cannot be meant.
    Refused(String),
}

/// `--config`, `$TIDEGATE_CONFIG`, `$XDG_CONFIG_HOME/tidegate/config.json` (else `$HOME/.config/…`), `/etc/tidegate/config.json`.
///
/// The first two are taken whether or not they exist, so that a typing error never means "no configuration". A relative
/// `$TIDEGATE_CONFIG` is refused and relative base folders are ignored (XDG Base Directory Specification): both would mean the
/// working directory.
pub fn find(explicit: Option<&Path>, env: Env<'_>) -> Found {
    find_under(explicit, env, Path::new("/etc"))
}

fn find_under(explicit: Option<&Path>, env: Env<'_>, etc: &Path) -> Found {
    if let Some(path) = explicit {
        return Found::File(path.to_owned());
    }
    if let Some(named) = said(env, "TIDEGATE_CONFIG") {
        if named.is_absolute() {
            return Found::File(named);
        }
        return Found::Refused(format!(
            "TIDEGATE_CONFIG: expected an absolute path, got {}",
            super::tree::quote(&named.to_string_lossy())
        ));
    }
    let personal = base_folder(env, "XDG_CONFIG_HOME", ".config").map(|base| base.join("tidegate/config.json"));
    let searched: Vec<PathBuf> = personal.into_iter().chain([etc.join("tidegate/config.json")]).collect();
    match searched.iter().find(|path| may_exist(path)) {
        Some(path) => Found::File(path.clone()),
        None => Found::Nowhere { searched },
    }
}

/// An absolute base folder from its own variable, else from HOME.
pub fn base_folder(env: Env<'_>, variable: &str, under_home: &str) -> Option<PathBuf> {
    let own = said(env, variable).filter(|path| path.is_absolute());
    own.or_else(|| said(env, "HOME").filter(|path| path.is_absolute()).map(|home| home.join(under_home)))
}

fn said(env: Env<'_>, variable: &str) -> Option<PathBuf> {
    env(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// What cannot be looked at counts as there: opening it will say why it fails, and nothing is configured by accident.
fn may_exist(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

/// The bytes of a regular file of ours or of root's that nobody else may write, at most `CONFIG_BYTES`.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a FIFO waits for a writer; the descriptor is checked again below, where it counts.
    let before = fs::metadata(path).map_err(|error| format!("cannot be opened: {error}"))?;
    if !before.is_file() {
        return Err("expected a regular file".to_owned());
    }
    let mut file = File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    trusted(&file, sys::user_id())?;
    let mut bytes = Vec::new();
    file.by_ref().take(CONFIG_BYTES + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > CONFIG_BYTES {
        return Err(format!("larger than {CONFIG_BYTES} bytes"));
    }
    Ok(bytes)
}

fn trusted(file: &File, user: u32) -> Result<(), String> {
    let found = file.metadata().map_err(|error| format!("cannot be examined: {error}"))?;
    if !found.is_file() {
        return Err("expected a regular file".to_owned());
    }
    if found.uid() != user && found.uid() != 0 {
        return Err(format!("owned by user {}, expected user {user} or root", found.uid()));
    }
    let mode = found.permissions().mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(format!("others may write it (mode {mode:04o}); run chmod go-w on it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// A folder of this test alone, removed when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("tidegate-config-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn file(&self, name: &str, text: &[u8], mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn env_of(pairs: &[(&str, &Path)]) -> impl Fn(&str) -> Option<OsString> + use<> {
        let map: HashMap<String, OsString> =
            pairs.iter().map(|(name, path)| ((*name).to_owned(), path.as_os_str().to_owned())).collect();
        move |name| map.get(name).cloned()
    }

    #[track_caller]
    fn check_found(explicit: Option<&str>, pairs: &[(&str, &Path)], etc: &Path, expected: Found) {
        assert_eq!(find_under(explicit.map(Path::new), &env_of(pairs), etc), expected);
    }

    #[test]
    fn the_first_that_is_said_or_exists_is_taken() {
        let folder = Folder::new("find");
        let (home, xdg, etc) = (folder.0.join("home"), folder.0.join("xdg"), folder.0.join("etc"));
        let [at_home, at_xdg, at_etc] =
            [home.join(".config"), xdg.clone(), etc.clone()].map(|base| base.join("tidegate/config.json"));
        let said = [("TIDEGATE_CONFIG", Path::new("/missing")), ("XDG_CONFIG_HOME", &xdg), ("HOME", &home)];

        check_found(Some("rel.json"), &said, &etc, Found::File("rel.json".into()));
        check_found(None, &said, &etc, Found::File("/missing".into()));
        let relative = "TIDEGATE_CONFIG: expected an absolute path, got \"rel.json\"".to_owned();
        check_found(None, &[("TIDEGATE_CONFIG", Path::new("rel.json"))], &etc, Found::Refused(relative));

        let searched = |first: &PathBuf| Found::Nowhere { searched: vec![first.clone(), at_etc.clone()] };
        check_found(None, &said[1..], &etc, searched(&at_xdg));
        check_found(None, &said[2..], &etc, searched(&at_home));
        check_found(None, &[("XDG_CONFIG_HOME", Path::new("rel")), ("HOME", &home)], &etc, searched(&at_home));
        check_found(None, &[("XDG_CONFIG_HOME", Path::new("")), ("HOME", &home)], &etc, searched(&at_home));
        let nothing = Found::Nowhere { searched: vec![at_etc.clone()] };
        check_found(None, &[("HOME", Path::new("rel"))], &etc, nothing.clone());
        check_found(None, &[], &etc, nothing);

        folder.file("etc/tidegate/config.json", b"{}", 0o600);
        check_found(None, &said[1..], &etc, Found::File(at_etc.clone()));
        folder.file("home/.config/tidegate/config.json", b"{}", 0o600);
        check_found(None, &said[2..], &etc, Found::File(at_home));
        check_found(None, &said[1..], &etc, Found::File(at_etc));
        folder.file("xdg/tidegate/config.json", b"{}", 0o600);
        check_found(None, &said[1..], &etc, Found::File(at_xdg));
    }

    #[test]
    fn a_dangling_link_is_not_the_same_as_no_file() {
        let folder = Folder::new("link");
        let path = folder.0.join("tidegate/config.json");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", &path).unwrap();
        check_found(None, &[], &folder.0, Found::File(path.clone()));
        assert_eq!(read(&path), Err("cannot be opened: No such file or directory (os error 2)".to_owned()));
    }

    #[track_caller]
    fn check_read(path: &Path, expected: Result<&[u8], &str>) {
        assert_eq!(read(path), expected.map(<[u8]>::to_vec).map_err(str::to_owned));
    }

    #[test]
    fn a_file_others_may_write_is_refused() {
        let folder = Folder::new("mode");
        for mode in [0o600, 0o400, 0o640, 0o644, 0o755] {
            check_read(&folder.file("ok", b"{}", mode), Ok(b"{}"));
        }
        for mode in [0o620, 0o602, 0o666, 0o660] {
            let expected = format!("others may write it (mode {mode:04o}); run chmod go-w on it");
            check_read(&folder.file("bad", b"{}", mode), Err(&expected));
        }
    }

    #[test]
    fn a_link_to_a_sound_file_is_followed() {
        let folder = Folder::new("followed");
        let target = folder.file("real", b"{}", 0o600);
        let link = folder.0.join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        check_read(&link, Ok(b"{}"));
        folder.file("real", b"{}", 0o622);
        check_read(&link, Err("others may write it (mode 0622); run chmod go-w on it"));
    }

    #[test]
    fn only_regular_files_up_to_the_limit() {
        let folder = Folder::new("kind");
        let limit = usize::try_from(CONFIG_BYTES).unwrap();
        let at_limit = vec![b' '; limit];
        check_read(&folder.file("at", &at_limit, 0o600), Ok(&at_limit));
        check_read(&folder.file("past", &vec![b' '; limit + 1], 0o600), Err("larger than 4194304 bytes"));
        check_read(&folder.0, Err("expected a regular file"));
        check_read(Path::new("/dev/null"), Err("expected a regular file"));
        check_read(&folder.0.join("missing"), Err("cannot be opened: No such file or directory (os error 2)"));
    }

    #[test]
    fn the_owner_is_us_or_root() {
        let folder = Folder::new("owner");
        let file = File::open(folder.file("mine", b"{}", 0o600)).unwrap();
        let owner = file.metadata().unwrap().uid();
        assert_eq!(trusted(&file, owner), Ok(()));
        let stranger = trusted(&file, owner + 1);
        if owner == 0 {
            assert_eq!(stranger, Ok(()));
        } else {
            assert_eq!(stranger, Err(format!("owned by user {owner}, expected user {} or root", owner + 1)));
        }
    }
}
