//! The folder behind the seal: its key, and one file for each state that was used up.
//!
//! Folders are held open and everything is reached through their descriptors, so key and used states stay together whatever becomes of
//! the path; in a folder that was removed nothing can be noted, so nothing is used twice. Nothing here follows a link or trusts
//! what another user owns or may change. A name that is not ours is left alone.

use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, ReadDir};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use super::{NONCE_BYTES, millis};
use crate::limits::APPROVAL_TIMEOUT_MAX;
use crate::sys;

/// As long as the digest the key is for (RFC 2104 section 3).
const KEY_BYTES: usize = 32;
const KEY: &str = "key";
const SPENT: &str = "spent";
/// How long a used state is remembered after its time: a clock that is set back by less makes nothing usable twice.
const SPENT_MARGIN: Duration = APPROVAL_TIMEOUT_MAX;
/// Entries one sweep looks at: a few milliseconds, and far more than are made between two sweeps.
const SWEEP_ENTRIES: usize = 256;

/// `approvals` under a state folder, and `spent` in it.
pub(super) struct Folder {
    own: File,
    spent: File,
    /// For people; never opened again.
    path: PathBuf,
    /// Where the next sweep goes on.
    sweep: Mutex<Option<ReadDir>>,
}

impl Folder {
    /// Opens the folders, or makes them (0700).
    pub(super) fn open(state_dir: &Path, user: u32) -> io::Result<Folder> {
        let path = state_dir.join("approvals");
        let own = open_folder(&path, user).map_err(|error| named(&path, error))?;
        let spent = open_folder(&within(&own, SPENT), user).map_err(|error| named(&path.join(SPENT), error))?;
        Ok(Folder { own, spent, path, sweep: Mutex::new(None) })
    }

    /// The key; made if there is none.
    pub(super) fn key(&self, user: u32) -> io::Result<Zeroizing<[u8; KEY_BYTES]>> {
        let key = match self.read_key(user) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.make_key().and_then(|()| self.read_key(user)),
            read => read,
        };
        key.map_err(|error| named(&self.path.join(KEY), error))
    }

    fn read_key(&self, user: u32) -> io::Result<Zeroizing<[u8; KEY_BYTES]>> {
        let mut file = open_no_link(&within(&self.own, KEY))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("expected a regular file"));
        }
        check(&metadata, user, 0o077, "remove it, and a new one is made")?;
        if metadata.len() != KEY_BYTES as u64 {
            let what = format!("expected {KEY_BYTES} bytes, got {}; remove it, and a new one is made", metadata.len());
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        file.read_exact(&mut key[..])?;
        Ok(key)
    }

    /// Written whole under another name first. If another process is quicker, its key stands.
    fn make_key(&self) -> io::Result<()> {
        let draft = within(&self.own, &format!("{KEY}-{}.part", Hex(&random::<16>()?[..])));
        let made = write_key(&draft).and_then(|()| fs::hard_link(&draft, within(&self.own, KEY)));
        let _ = fs::remove_file(&draft);
        match made {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => self.own.sync_all(),
        }
    }

    /// Notes a state as used. `AlreadyExists` if it was.
    pub(super) fn spend(&self, nonce: &[u8; NONCE_BYTES], expires_ms: u64) -> io::Result<()> {
        let path = within(&self.spent, &spent_name(nonce, expires_ms));
        let noted = File::options().write(true).create_new(true).mode(0o600).open(path).and_then(|_| self.spent.sync_all());
        noted.map_err(|error| named(&self.path.join(SPENT), error))
    }

    /// Whether a state is noted as used; what cannot be seen is not.
    pub(super) fn is_spent(&self, nonce: &[u8; NONCE_BYTES], expires_ms: u64) -> bool {
        within(&self.spent, &spent_name(nonce, expires_ms)).exists()
    }

    /// Looks at the next entries and removes those whose time, and the margin, is over.
    pub(super) fn sweep(&self, now_ms: u64) {
        // Whoever holds it does what is to be done.
        let Ok(mut entries) = self.sweep.try_lock() else { return };
        for _ in 0..SWEEP_ENTRIES {
            if entries.is_none() {
                *entries = fs::read_dir(within(&self.spent, "")).ok();
            }
            let Some(Ok(entry)) = entries.as_mut().and_then(Iterator::next) else {
                *entries = None;
                return;
            };
            let expires = entry.file_name().to_str().and_then(expires_of);
            if expires.is_some_and(|expires| now_ms > expires.saturating_add(millis(SPENT_MARGIN))) {
                // Another process sweeps as well.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Fresh random bytes, wiped after use.
pub(super) fn random<const N: usize>() -> io::Result<Zeroizing<[u8; N]>> {
    let mut bytes = Zeroizing::new([0; N]);
    SystemRandom::new().fill(&mut bytes[..]).map_err(|_| io::Error::other("the system has no randomness"))?;
    Ok(bytes)
}

fn write_key(path: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&random::<KEY_BYTES>()?[..])?;
    file.sync_all()
}

/// What the folder behind an open descriptor holds by this name.
fn within(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

fn open_folder(path: &Path, user: u32) -> io::Result<File> {
    let folder = match open_no_link(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            open_no_link(path)?
        }
        opened => opened?,
    };
    let metadata = folder.metadata()?;
    if !metadata.is_dir() {
        return Err(io::Error::other("expected a folder"));
    }
    check(&metadata, user, 0o022, "run chmod go-w on it")?;
    Ok(folder)
}

/// Opens without waiting and without following a link in the last place.
fn open_no_link(path: &Path) -> io::Result<File> {
    let opened = File::options().read(true).custom_flags(sys::NO_FOLLOW | sys::OPEN_NONBLOCKING).open(path);
    opened.map_err(|error| match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => io::Error::other("it is a symbolic link, which is not followed here"),
        _ => error,
    })
}

/// `open_to_others`: the permissions that nobody but the owner may have.
fn check(metadata: &Metadata, user: u32, open_to_others: u32, advice: &str) -> io::Result<()> {
    let mode = metadata.mode() & 0o7777;
    if metadata.uid() != user {
        return Err(io::Error::other(format!("expected it to belong to user {user}, it belongs to user {}", metadata.uid())));
    }
    if mode & open_to_others != 0 {
        let what = format!("others may use it (mode {mode:04o}); {advice}");
        return Err(io::Error::new(ErrorKind::PermissionDenied, what));
    }
    Ok(())
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The expiry stands in the name: an entry is whole as soon as it is there, and a sweep opens nothing.
fn spent_name(nonce: &[u8; NONCE_BYTES], expires_ms: u64) -> String {
    format!("{}-{expires_ms}", Hex(nonce))
}

/// `None` if it is no name of ours.
fn expires_of(name: &str) -> Option<u64> {
    let (nonce, expires) = name.split_once('-')?;
    let is_nonce = nonce.len() == 2 * NONCE_BYTES && nonce.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_number = expires.bytes().all(|byte| byte.is_ascii_digit());
    (is_nonce && is_number).then(|| expires.parse().ok()).flatten()
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
