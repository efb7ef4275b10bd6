//! `Vault`: where credentials come from, and every value of theirs this process has seen.
//!
//! A value is read when it is handed out, never earlier for a call's sake, so that a changed file or variable counts at once. What was
//! read stays known to the redactor for the life of the process. A file that others may read is no credential; a path that is no regular
//! file is never waited for. Errors name the source and the reason, never a value or its length.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zeroize::Zeroizing;

use crate::limits::SECRET_BYTES_MAX;
use crate::secret::{Redactor, Secret, SecretError};
use crate::sys;

/// Where a credential's value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An environment variable of the gateway, by name; its value is taken as it is.
    Env(String),
    /// A regular file that the gateway's user or root owns and nobody else may touch; one line feed (or CR LF) at its end is dropped.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Env(variable) => write!(f, "environment variable {variable}"),
            Source::File(path) => write!(f, "file {}", path.display()),
        }
    }
}

/// Hands out credentials and remembers their values for redaction. Shared by all workers.
pub struct Vault {
    sources: Vec<(String, Source)>,
    user_id: u32,
    known: Mutex<Known>,
}

struct Known {
    /// In the order in which they were first seen.
    values: Vec<(String, Arc<Secret>)>,
    redactor: Arc<Redactor>,
    failures: BTreeMap<String, CredentialError>,
}

impl Vault {
    /// A vault of credential names, each with its source. Reads nothing. `user_id` is the effective user id of this process.
    pub fn new(sources: Vec<(String, Source)>, user_id: u32) -> Vault {
        let known = Known { values: Vec::new(), redactor: Arc::new(Redactor::none()), failures: BTreeMap::new() };
        Vault { sources, user_id, known: Mutex::new(known) }
    }

    /// Reads a credential's value and hands it out. Called in `perform` only.
    ///
    /// Fails when there is no credential of this name, when its source cannot be read or may be read by others, and when the value is
    /// no `Secret`.
    pub fn hand_out(&self, name: &str) -> Result<Arc<Secret>, CredentialError> {
        let Some((name, source)) = self.sources.iter().find(|(known, _)| known == name) else {
            return Err(CredentialError { name: name.to_owned(), blame: Blame::Unknown });
        };
        let failed = |cause| CredentialError { name: name.clone(), blame: Blame::Source(source.clone(), cause) };
        let read = read(source, self.user_id).map_err(failed);
        let mut known = self.lock();
        match read {
            Ok(secret) => {
                known.failures.remove(name);
                Ok(known.remember(name, secret))
            }
            Err(error) => {
                known.failures.insert(name.clone(), error.clone());
                Err(error)
            }
        }
    }

    /// Reads whatever can be read, so that results of calls that use no credential are redacted as well. Failures are kept, not raised.
    pub fn load_known(&self) {
        for (name, _) in &self.sources {
            // The failure is remembered by `hand_out`; the call that needs the credential will raise it.
            let _ = self.hand_out(name);
        }
    }

    /// Redacts every value seen so far. Grows with the next hand-out, so ask for it after that.
    pub fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.lock().redactor)
    }

    /// Why credentials were not available when last read, in the order of their names.
    pub fn failures(&self) -> Vec<CredentialError> {
        self.lock().failures.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Gives back the one copy of this value, and makes it known if it was not.
    fn remember(&mut self, name: &str, secret: Secret) -> Arc<Secret> {
        if let Some((_, known)) = self.values.iter().find(|(_, known)| known.expose() == secret.expose()) {
            return Arc::clone(known);
        }
        let secret = Arc::new(secret);
        self.values.push((name.to_owned(), Arc::clone(&secret)));
        self.redactor = Arc::new(Redactor::new(self.values.iter().map(|(name, value)| (name.clone(), &**value))));
        secret
    }
}

/// Why a credential cannot be handed out. Names its source, never its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialError {
    name: String,
    blame: Blame,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Blame {
    Unknown,
    Source(Source, Cause),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Unset,
    Empty,
    Unreadable(ErrorKind),
    NotRegular,
    Owner(u32),
    Mode(u32),
    Unfit(SecretError),
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CredentialError { name, blame } = self;
        write!(f, "credential {:?}: ", name.chars().take(64).collect::<String>())?;
        match blame {
            Blame::Unknown => f.write_str("expected a configured one, got an unknown name"),
            Blame::Source(source, cause) => write!(f, "{source} {cause}"),
        }
    }
}

impl std::error::Error for CredentialError {}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Cause::Unset => f.write_str("is not set"),
            Cause::Empty => f.write_str("is empty"),
            Cause::Unreadable(kind) => write!(f, "cannot be read: {kind}"),
            Cause::NotRegular => f.write_str("is not a regular file"),
            Cause::Owner(owner) => write!(f, "belongs to user {owner}; expected the gateway's own user or root"),
            Cause::Mode(mode) => {
                let deed = if mode & 0o044 != 0 { "read" } else { "used" };
                write!(f, "may be {deed} by others (mode {mode:04o}); run chmod 600")
            }
            Cause::Unfit(error) => write!(f, "does not fit: {error}"),
        }
    }
}

fn read(source: &Source, user_id: u32) -> Result<Secret, Cause> {
    match source {
        Source::Env(variable) => accept_variable(std::env::var_os(variable).map(OsStringExt::into_vec)),
        Source::File(path) => read_file(path, user_id),
    }
}

fn accept_variable(value: Option<Vec<u8>>) -> Result<Secret, Cause> {
    accept(value.ok_or(Cause::Unset)?)
}

fn accept(value: Vec<u8>) -> Result<Secret, Cause> {
    if value.is_empty() {
        return Err(Cause::Empty);
    }
    Secret::new(value).map_err(Cause::Unfit)
}

/// Symbolic links are followed, for secret managers use them; what counts is the file that was opened.
fn read_file(path: &Path, user_id: u32) -> Result<Secret, Cause> {
    let unreadable = |error: std::io::Error| Cause::Unreadable(error.kind());
    let file = open(path).map_err(unreadable)?;
    check_private(&file.metadata().map_err(unreadable)?, user_id)?;
    // Room for a value that is too long by one and for its line end: the buffer never grows, so no unwiped copy is left behind.
    let room = SECRET_BYTES_MAX + 3;
    let mut value = Zeroizing::new(Vec::with_capacity(room));
    File::take(file, room as u64).read_to_end(&mut value).map_err(unreadable)?;
    let line_end = [&b"\r\n"[..], b"\n"].into_iter().find(|end| value.ends_with(end));
    accept(value[..value.len() - line_end.map_or(0, <[u8]>::len)].to_vec())
}

/// Opens without waiting: a blocking open of a FIFO waits for its writer, that of a terminal may wait for its line.
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(sys::OPEN_NONBLOCKING).open(path)
}

fn check_private(metadata: &Metadata, user_id: u32) -> Result<(), Cause> {
    let mode = metadata.mode() & 0o7777;
    match metadata.uid() {
        _ if !metadata.is_file() => Err(Cause::NotRegular),
        owner if owner != user_id && owner != 0 => Err(Cause::Owner(owner)),
        _ if mode & 0o077 != 0 => Err(Cause::Mode(mode)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A folder of its own for each test, removed with everything in it.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Folder {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let name = format!("tidegate-credential-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Folder(path)
        }

        fn file(&self, name: &str, value: &[u8], mode: u32) -> PathBuf {
            let path = self.0.join(name);
            let _ = fs::remove_file(&path); // an earlier one may be read-only
            fs::write(&path, value).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn user_id(&self) -> u32 {
            fs::metadata(&self.0).unwrap().uid()
        }

        fn vault(&self, path: &Path) -> Vault {
            Vault::new(vec![("web_key".to_owned(), Source::File(path.to_owned()))], self.user_id())
        }

        /// What the vault says of the file, with the folder's name cut out.
        #[track_caller]
        fn check_refused(&self, path: &Path, expected: &str) {
            let vault = self.vault(path);
            let Err(error) = vault.hand_out("web_key") else { panic!("{} was accepted", path.display()) };
            assert_eq!(error.to_string().replace(&format!("{}/", self.0.display()), "/"), expected);
            assert_eq!(vault.failures(), [error]);
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[track_caller]
    fn check_value(vault: &Vault, name: &str, expected: &[u8]) {
        match vault.hand_out(name) {
            Ok(secret) => assert_eq!(String::from_utf8_lossy(secret.expose()), String::from_utf8_lossy(expected)),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn one_line_end_is_dropped() {
        let folder = Folder::new();
        let cases: [(&[u8], &[u8]); 6] = [
            (b"value-1234", b"value-1234"),
            (b"value-1234\n", b"value-1234"),
            (b"value-1234\r\n", b"value-1234"),
            (b"value-1234\n\n", b"value-1234\n"),
            (b"value-1234\r", b"value-1234\r"),
            (b" value-1234 \n", b" value-1234 "),
        ];
        for (written, expected) in cases {
            check_value(&folder.vault(&folder.file("web.key", written, 0o600)), "web_key", expected);
        }
    }

    #[test]
    fn sizes_count_without_the_line_end() {
        let folder = Folder::new();
        let longest = vec![b'x'; SECRET_BYTES_MAX];
        check_value(&folder.vault(&folder.file("web.key", &[&longest[..], b"\r\n"].concat(), 0o600)), "web_key", &longest);
        for value in [
            [&longest[..], b"x"].concat(),
            [&longest[..], b"x\r\n"].concat(),
            [&longest[..], b"\n\n\n\n"].concat(),
            longest.repeat(3),
        ] {
            let refused = "credential \"web_key\": file /web.key does not fit: expected a secret of at most 65536 bytes, got a longer one";
            folder.check_refused(&folder.file("web.key", &value, 0o600), refused);
        }
        let refused =
            "credential \"web_key\": file /web.key does not fit: expected a secret of at least 8 bytes, got a shorter one";
        folder.check_refused(&folder.file("web.key", b"1234567\n", 0o600), refused);
        for value in [&b""[..], b"\n", b"\r\n"] {
            folder.check_refused(&folder.file("web.key", value, 0o600), "credential \"web_key\": file /web.key is empty");
        }
    }

    #[test]
    fn files_that_others_may_touch_are_refused() {
        let folder = Folder::new();
        for (mode, deed) in
            [(0o644, "read"), (0o640, "read"), (0o604, "read"), (0o620, "used"), (0o602, "used"), (0o601, "used")]
        {
            let expected =
                format!("credential \"web_key\": file /web.key may be {deed} by others (mode {mode:04o}); run chmod 600");
            folder.check_refused(&folder.file("web.key", b"value-1234", mode), &expected);
        }
        for mode in [0o600, 0o400, 0o700] {
            check_value(&folder.vault(&folder.file("web.key", b"value-1234", mode)), "web_key", b"value-1234");
        }
    }

    #[test]
    fn files_of_other_users_are_refused() {
        let folder = Folder::new();
        let path = folder.file("web.key", b"value-1234", 0o600);
        // Root's files are anybody's credentials, so root gives the file away; anybody else calls himself another.
        let (owner, user_id) = match folder.user_id() {
            0 => (12345, 0),
            own => (own, own + 1),
        };
        if user_id == 0 {
            chown(&path, Some(owner), None).unwrap();
        }
        let vault = Vault::new(vec![("web_key".to_owned(), Source::File(path.clone()))], user_id);
        let error = vault.hand_out("web_key").err().unwrap().to_string();
        let expected = format!("file {} belongs to user {owner}; expected the gateway's own user or root", path.display());
        assert_eq!(error, format!("credential \"web_key\": {expected}"));
    }

    #[test]
    fn links_are_followed_to_the_file_that_counts() {
        let folder = Folder::new();
        let link = folder.0.join("link");
        symlink(folder.file("web.key", b"value-1234", 0o600), &link).unwrap();
        check_value(&folder.vault(&link), "web_key", b"value-1234");
        folder.file("web.key", b"value-1234", 0o644);
        folder.check_refused(&link, "credential \"web_key\": file /link may be read by others (mode 0644); run chmod 600");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let folder = Folder::new();
        let missing = folder.0.join("missing");
        folder.check_refused(&missing, "credential \"web_key\": file /missing cannot be read: entity not found");
        let socket = folder.0.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert!(folder.vault(&socket).hand_out("web_key").is_err());
        folder.check_refused(&folder.0.join("."), "credential \"web_key\": file /. is not a regular file");
        let device = folder.vault(Path::new("/dev/null")).hand_out("web_key").err().unwrap();
        assert_eq!(device.to_string(), "credential \"web_key\": file /dev/null is not a regular file");
    }

    /// A pipe opened by its descriptor's path is a FIFO, but one whose open never waits: hence the look at the flags.
    #[test]
    fn a_fifo_is_refused_without_waiting_for_its_writer() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        let error = Folder::new().vault(&path).hand_out("web_key").err().unwrap().to_string();
        assert_eq!(error, format!("credential \"web_key\": file {} is not a regular file", path.display()));
        let opened = open(&path).unwrap();
        let state = fs::read_to_string(format!("/proc/self/fdinfo/{}", opened.as_raw_fd())).unwrap();
        let flags = state.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        let flags = i32::from_str_radix(flags.trim(), 8).unwrap();
        assert_eq!(flags & libc::O_NONBLOCK, libc::O_NONBLOCK, "{state}");
    }

    #[test]
    fn variables_are_read_at_hand_out() {
        let name = |name: &str, variable: &str| (name.to_owned(), Source::Env(variable.to_owned()));
        let vault = Vault::new(vec![name("set", "CARGO_PKG_DESCRIPTION"), name("unset", "TIDEGATE_TEST_UNSET")], 0);
        let expected = std::env::var("CARGO_PKG_DESCRIPTION").unwrap();
        check_value(&vault, "set", expected.as_bytes());
        assert_eq!(vault.redactor().text(&format!("in {expected}/src")), "in [redacted:set]/src");
        let error = vault.hand_out("unset").err().unwrap().to_string();
        assert_eq!(error, "credential \"unset\": environment variable TIDEGATE_TEST_UNSET is not set");
        let cause = |value: Option<&[u8]>| accept_variable(value.map(<[u8]>::to_vec)).err();
        assert_eq!(cause(None), Some(Cause::Unset));
        assert_eq!(cause(Some(b"")), Some(Cause::Empty));
        assert_eq!(cause(Some(b"1234567")), Some(Cause::Unfit(SecretError::TooShort)));
        assert_eq!(cause(Some(b"value-1234\n")), None);
    }

    #[test]
    fn unknown_names_are_refused_and_cut() {
        let vault = Vault::new(Vec::new(), 0);
        let error = vault.hand_out(&"x\n".repeat(100)).err().unwrap().to_string();
        assert_eq!(error, format!("credential \"{}\": expected a configured one, got an unknown name", "x\\n".repeat(32)));
        assert_eq!(vault.failures(), []);
    }

    #[test]
    fn a_changed_value_is_used_and_the_old_one_stays_known() {
        let folder = Folder::new();
        let path = folder.file("web.key", b"first-value", 0o600);
        let vault = folder.vault(&path);
        let text = "first-value second-value";
        assert_eq!(vault.redactor().text(text), text);
        check_value(&vault, "web_key", b"first-value");
        let before = vault.redactor();
        check_value(&vault, "web_key", b"first-value");
        assert!(Arc::ptr_eq(&before, &vault.redactor()), "the same value changes nothing");
        folder.file("web.key", b"second-value", 0o600);
        check_value(&vault, "web_key", b"second-value");
        assert_eq!(before.text(text), "[redacted:web_key] second-value");
        assert_eq!(vault.redactor().text(text), "[redacted:web_key] [redacted:web_key]");
        fs::remove_file(&path).unwrap();
        assert!(vault.hand_out("web_key").is_err());
        assert_eq!(vault.redactor().text(text), "[redacted:web_key] [redacted:web_key]");
    }

    #[test]
    fn what_can_be_loaded_is_known_and_failures_are_kept_until_they_end() {
        let folder = Folder::new();
        let sources = ["good", "open", "same"].map(|name| {
            let value: &[u8] = if name == "open" { b"open-value" } else { b"good-value" };
            (name.to_owned(), Source::File(folder.file(name, value, if name == "open" { 0o644 } else { 0o600 })))
        });
        let vault = Vault::new(sources.to_vec(), folder.user_id());
        vault.load_known();
        assert_eq!(vault.redactor().text("good-value open-value"), "[redacted:good] open-value");
        let failures: Vec<_> = vault.failures().into_iter().map(|error| error.name).collect();
        assert_eq!(failures, ["open"]);
        check_value(&vault, "same", b"good-value");
        folder.file("open", b"open-value", 0o600);
        check_value(&vault, "open", b"open-value");
        assert_eq!(vault.failures(), []);
        assert_eq!(vault.redactor().text("good-value open-value"), "[redacted:good] [redacted:open]");
    }

    #[test]
    fn vaults_are_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Vault>();
    }
}
