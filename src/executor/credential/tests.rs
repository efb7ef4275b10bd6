//! What each source hands out and refuses, what stays known, and what a helper may and may not do.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::Cause;
use super::*;
use crate::limits::SECRET_BYTES_MAX;
use crate::outcome::result::{Code, Executed};
use crate::secret::SecretError;

pub(super) const LONG: Duration = Duration::from_secs(60);

/// What a call that has time gets.
pub(super) fn had(vault: &Vault, name: &str) -> Result<Credential, String> {
    vault.hand_out(name, &CancelToken::new().unwrap(), Instant::now() + LONG).map_err(|failure| {
        assert_eq!((failure.code, failure.executed), (Code::CredentialUnavailable, Executed::No));
        failure.message
    })
}

/// A folder of its own for each test, removed with everything in it.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-credential-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub(super) fn file(&self, name: &str, value: &[u8], mode: u32) -> PathBuf {
        let path = self.0.join(name);
        let _ = fs::remove_file(&path); // an earlier one may be read-only
        fs::write(&path, value).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn user_id(&self) -> u32 {
        fs::metadata(&self.0).unwrap().uid()
    }

    /// Whose a file is from now on, and as whom to read it. Root's files are anybody's credentials, so root gives the file away;
    /// anybody else calls himself another.
    fn belongs_to_another(&self, path: &Path) -> (u32, u32) {
        match self.user_id() {
            0 => {
                chown(path, Some(12345), None).unwrap();
                (12345, 0)
            }
            own => (own, own + 1),
        }
    }

    fn vault(&self, path: &Path) -> Vault {
        Vault::new(vec![("web_key".to_owned(), Source::File(path.to_owned()))], self.user_id())
    }

    /// What the vault says of the file, with the folder's name cut out.
    #[track_caller]
    fn check_refused(&self, path: &Path, expected: &str) {
        let vault = self.vault(path);
        let Err(error) = had(&vault, "web_key") else { panic!("{} was accepted", path.display()) };
        assert_eq!(error.replace(&format!("{}/", self.0.display()), "/"), expected);
        assert_eq!(vault.failures().iter().map(ToString::to_string).collect::<Vec<_>>(), [error]);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn check_value(vault: &Vault, name: &str, expected: &[u8]) {
    match had(vault, name) {
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
        let refused =
            "credential \"web_key\": file /web.key does not fit: expected a secret of at most 65536 bytes, got a longer one";
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
    for (mode, deed) in [(0o644, "read"), (0o640, "read"), (0o604, "read"), (0o620, "used"), (0o602, "used"), (0o601, "used")] {
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
    let (owner, user_id) = folder.belongs_to_another(&path);
    let vault = Vault::new(vec![("web_key".to_owned(), Source::File(path.clone()))], user_id);
    let error = had(&vault, "web_key").err().unwrap();
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
    assert!(had(&folder.vault(&socket), "web_key").is_err());
    folder.check_refused(&folder.0.join("."), "credential \"web_key\": file /. is not a regular file");
    let device = had(&folder.vault(Path::new("/dev/null")), "web_key").err().unwrap();
    assert_eq!(device, "credential \"web_key\": file /dev/null is not a regular file");
}

/// A pipe opened by its descriptor's path is a FIFO, but one whose open never waits: hence the look at the flags.
#[test]
fn a_fifo_is_refused_without_waiting_for_its_writer() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
    let error = had(&Folder::new().vault(&path), "web_key").err().unwrap();
    assert_eq!(error, format!("credential \"web_key\": file {} is not a regular file", path.display()));
    let opened = file::open(&path, 0).unwrap();
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
    let error = had(&vault, "unset").err().unwrap();
    assert_eq!(error, "credential \"unset\": environment variable TIDEGATE_TEST_UNSET is not set");
    let cause = |value: Option<&[u8]>| accept_variable(value.map(|value| OsString::from_vec(value.to_vec()))).err();
    assert_eq!(cause(None), Some(Cause::Unset));
    assert_eq!(cause(Some(b"")), Some(Cause::Empty));
    assert_eq!(cause(Some(b"1234567")), Some(Cause::Unfit(SecretError::TooShort)));
    assert_eq!(cause(Some(b"value-1234\n")), None);
}

#[test]
fn unknown_names_are_refused_and_cut() {
    let vault = Vault::new(Vec::new(), 0);
    let error = had(&vault, &"x\n".repeat(100)).err().unwrap();
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
    assert!(had(&vault, "web_key").is_err());
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

#[track_caller]
fn check_passed(folder: &Folder, name: &str, expected: Result<&[u8], &str>) {
    let read = file::read_passed(Some(folder.0.as_os_str()), name, folder.user_id());
    match (read, expected) {
        (Ok(secret), Ok(value)) => assert_eq!(secret.expose(), value),
        (Err(cause), Err(text)) => assert_eq!(cause.to_string(), text),
        (Ok(_), Err(text)) => panic!("accepted, not: {text}"),
        (Err(cause), Ok(_)) => panic!("{cause}"),
    }
}

#[test]
fn what_systemd_passes_is_read_where_it_was_put() {
    let folder = Folder::new();
    // With an access list for the unit's user the mask stands where the group's permission is.
    for mode in [0o400, 0o440, 0o600] {
        folder.file("token", b"value-1234\n", mode);
        check_passed(&folder, "token", Ok(b"value-1234"));
    }
    for (mode, deed) in [(0o444, "read"), (0o460, "read"), (0o402, "used"), (0o410, "used")] {
        folder.file("token", b"value-1234", mode);
        check_passed(&folder, "token", Err(&format!("may be {deed} by others (mode {mode:04o}); run chmod 600")));
    }
    folder.file("token", b"", 0o400);
    check_passed(&folder, "token", Err("is empty"));
    check_passed(&folder, "other", Err("cannot be read: entity not found"));
    fs::create_dir(folder.0.join("folder")).unwrap();
    check_passed(&folder, "folder", Err("is not a regular file"));
    symlink(folder.file("key", b"value-1234", 0o400), folder.0.join("link")).unwrap();
    let read = file::read_passed(Some(folder.0.as_os_str()), "link", folder.user_id());
    assert!(matches!(read.err(), Some(Cause::Unreadable(_))), "a link out of the folder is followed");
}

#[test]
fn what_systemd_passes_is_the_gateways_own_or_roots() {
    let folder = Folder::new();
    let (owner, user_id) = folder.belongs_to_another(&folder.file("token", b"value-1234", 0o440));
    let read = |user_id| file::read_passed(Some(folder.0.as_os_str()), "token", user_id);
    assert_eq!(read(user_id).err(), Some(Cause::Owner(owner)));
    assert_eq!(read(owner).ok().map(|secret| secret.expose().to_vec()), Some(b"value-1234".to_vec()));
}

#[test]
fn what_systemd_passes_needs_its_folder() {
    let folder = Folder::new();
    folder.file("token", b"value-1234", 0o400);
    for unusable in [None, Some(OsStr::new("")), Some(OsStr::new("run/credentials"))] {
        assert_eq!(file::read_passed(unusable, "token", folder.user_id()).err(), Some(Cause::NoFolder), "{unusable:?}");
    }
    for mode in [0o777, 0o720, 0o702] {
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(mode)).unwrap();
        check_passed(&folder, "token", Err(&format!("stands in a folder that others may change (mode {mode:04o})")));
    }
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o500)).unwrap();
    check_passed(&folder, "token", Ok(b"value-1234"));
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).unwrap();
    let vault = Vault::new(vec![("k".to_owned(), Source::Systemd("token".to_owned()))], folder.user_id());
    let error = had(&vault, "k").err().unwrap();
    let expected = "credential \"k\": systemd credential \"token\" cannot be found: $CREDENTIALS_DIRECTORY names no absolute \
                    folder; systemd sets it for a unit with LoadCredential=";
    assert_eq!(error, expected);
}

#[test]
fn the_newest_values_of_a_credential_stay_known_and_their_number_is_bounded() {
    let folder = Folder::new();
    let (one, other) = (folder.0.join("one"), folder.0.join("other"));
    let sources = [("one", &one), ("other", &other)].map(|(name, path)| (name.to_owned(), Source::File(path.clone())));
    let vault = Vault::new(sources.to_vec(), folder.user_id());
    let value = |number: usize| format!("value-{number:04}");
    folder.file("other", b"other-value", 0o600);
    vault.load_known();
    for number in 0..=2 * KNOWN_VALUES {
        folder.file("one", value(number).as_bytes(), 0o600);
        check_value(&vault, "one", value(number).as_bytes());
    }
    let shown = |text: &str| vault.redactor().text(text).into_owned();
    assert_eq!(vault.lock().values.len(), KNOWN_VALUES + 1);
    assert_eq!(shown(&value(KNOWN_VALUES)), value(KNOWN_VALUES));
    for number in KNOWN_VALUES + 1..=2 * KNOWN_VALUES {
        assert_eq!(shown(&value(number)), "[redacted:one]");
    }
    assert_eq!(shown("other-value"), "[redacted:other]", "each credential has its own");
}
