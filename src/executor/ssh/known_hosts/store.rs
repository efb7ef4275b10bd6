//! Adds one key to a known_hosts file: under a lock, as one whole line, and only if no key of the host is known by then.
//!
//! The lock is flock(2) on the file itself; nothing in the file is ever changed or moved. Waits end by cancel and deadline.

use std::fmt;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Unreadable, Verdict, look_up, name, read_open};
use crate::cancel::CancelToken;
use crate::sys::{self, Poll};

/// How long another process may hold the lock; writing one line takes far less.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Between two looks at the lock: flock(2) has no wait that a cancel could end.
const LOCK_EVERY: Duration = Duration::from_millis(10);
/// Opening again when the file was replaced between opening and locking.
const ATTEMPTS: usize = 5;

/// Why a key was not stored.
#[derive(Debug)]
pub enum NotStored {
    /// Another process has stored something about the host meanwhile, and this key is not it.
    Conflict(Verdict),
    /// The file cannot be used.
    Unreadable(Unreadable),
    /// It, or its folder, could not be made, locked or written.
    Io(io::Error),
    /// The call was cancelled or its time was over.
    Interrupted,
}

impl fmt::Display for NotStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotStored::Conflict(_) => f.write_str("another key of the host was stored meanwhile"),
            NotStored::Unreadable(why) => why.fmt(f),
            NotStored::Io(error) => error.fmt(f),
            NotStored::Interrupted => f.write_str("the call ended while another process held the file"),
        }
    }
}

impl From<io::Error> for NotStored {
    fn from(error: io::Error) -> Self {
        NotStored::Io(error)
    }
}

/// Stores the key of `host` at `port` unless it is there already. The file is made if absent (0600, its folder 0700).
pub fn store(
    path: &Path,
    (host, port): (&str, u16),
    (algorithm, blob): (&str, &[u8]),
    token: &CancelToken,
    deadline: Instant,
) -> Result<(), NotStored> {
    let mut file = locked(path, token, deadline)?;
    let bytes = read_open(&file).map_err(NotStored::Unreadable)?;
    match look_up(&bytes, host, port).verdict(blob) {
        Verdict::Match => return Ok(()),
        Verdict::Unknown => {}
        conflict => return Err(NotStored::Conflict(conflict)),
    }
    let first = if bytes.is_empty() || bytes.ends_with(b"\n") { "" } else { "\n" };
    let line = format!("{first}{} {algorithm} {}\n", name(host, port), STANDARD.encode(blob));
    // One write in append mode: whoever reads without the lock sees all of the line or nothing.
    file.write_all(line.as_bytes())?;
    Ok(file.sync_all()?)
}

/// The file, locked, and still the one at `path`.
fn locked(path: &Path, token: &CancelToken, deadline: Instant) -> Result<File, NotStored> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let until = deadline.min(Instant::now() + LOCK_WAIT);
    for _ in 0..ATTEMPTS {
        let file = File::options().read(true).append(true).create(true).mode(0o600).open(path)?;
        lock(&file, token, until)?;
        // ssh-keygen -R renames a new file over the old one.
        let (ours, there) = (file.metadata()?, fs::metadata(path));
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Ok(file);
        }
    }
    Err(NotStored::Io(io::Error::other("the file is replaced all the time")))
}

fn lock(file: &File, token: &CancelToken, until: Instant) -> Result<(), NotStored> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        if token.is_cancelled() || Instant::now() >= until {
            return Err(NotStored::Interrupted);
        }
        sys::poll(&mut [Poll::readable(token.wake_fd())], Some(LOCK_EVERY))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::ssh::testing::Scratch;
    use crate::thread;

    fn key(body: u8) -> Vec<u8> {
        [&[0, 0, 0, 11][..], b"ssh-ed25519", &[0, 0, 0, 1, body]].concat()
    }

    fn store_at(path: &Path, port: u16, body: u8) -> Result<(), NotStored> {
        let deadline = Instant::now() + Duration::from_secs(30);
        store(path, ("web1", port), ("ssh-ed25519", &key(body)), &CancelToken::new().unwrap(), deadline)
    }

    #[test]
    fn a_key_is_stored_once_and_never_replaced() {
        let folder = Scratch::new();
        let path = folder.path().join("new/known_hosts");
        store_at(&path, 2222, 1).unwrap();
        store_at(&path, 2222, 1).unwrap();
        store_at(&path, 22, 2).unwrap();
        let text = "[web1]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAQE=\nweb1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAQI=\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let Err(NotStored::Conflict(Verdict::Changed(_))) = store_at(&path, 2222, 3) else { panic!("replaced") };
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn an_unterminated_last_line_stays_whole() {
        let folder = Scratch::new();
        let path = folder.path().join("known_hosts");
        fs::write(&path, "# no newline").unwrap();
        store_at(&path, 22, 1).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "# no newline\nweb1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAQE=\n");
    }

    #[test]
    fn many_at_once_leave_whole_lines() {
        let folder = Scratch::new();
        let path = folder.path().join("known_hosts");
        let threads: Vec<_> = (1..=8)
            .map(|n| {
                let path = path.clone();
                // Two for each port, with different keys: one of them must lose.
                thread::spawn("tg-test", move || drop(store_at(&path, 2000 + n / 2, n as u8))).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| assert!(thread.join()));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.lines().all(|line| line.split(' ').count() == 3), "{text}");
    }

    #[test]
    fn a_lock_held_by_others_is_not_waited_for_beyond_the_deadline() {
        let folder = Scratch::new();
        let path = folder.path().join("known_hosts");
        let held = File::create(&path).unwrap();
        held.lock().unwrap();
        let (token, deadline) = (CancelToken::new().unwrap(), Instant::now() + Duration::from_millis(50));
        let result = store(&path, ("web1", 22), ("ssh-ed25519", &key(1)), &token, deadline);
        assert!(matches!(result, Err(NotStored::Interrupted)));
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }
}
