//! Values that stand in files: private ones by path, and those that systemd passes to a unit.
//!
//! A file that others may read is no credential, and one that is no regular file is never waited for. What systemd made is
//! judged by systemd's rules: it may be readable by an access list, which shows as a group's permission.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use zeroize::Zeroizing;

use crate::executor::credential::accept_line;
use crate::executor::credential::error::Cause;
use crate::limits::SECRET_BYTES_MAX;
use crate::secret::Secret;
use crate::sys;

/// Room for a value that is too long by one and for its line end: the buffer never grows, so no unwiped copy is left behind.
pub(super) const ROOM: usize = SECRET_BYTES_MAX + 3;

/// Symbolic links are followed, for secret managers use them; what counts is the file that was opened.
pub(super) fn read(path: &Path, user_id: u32) -> Result<Secret, Cause> {
    let file = open(path, 0).map_err(unreadable)?;
    check(&file.metadata().map_err(unreadable)?, user_id, 0o077)?;
    read_line(file)
}

/// Reads the credential `name`, one path segment, of the folder systemd made (systemd.exec(5), Credentials). Such a file belongs to
/// root or the unit's user, mode 0400, or 0440 where an access list lets the user read it; there are no links in the folder.
pub(super) fn read_passed(folder: Option<&OsStr>, name: &str, user_id: u32) -> Result<Secret, Cause> {
    let folder = folder.map(Path::new).filter(|folder| folder.is_absolute()).ok_or(Cause::NoFolder)?;
    let mode = fs::metadata(folder).map_err(unreadable)?.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(Cause::OpenFolder(mode));
    }
    let file = open(&folder.join(name), sys::NO_FOLLOW).map_err(unreadable)?;
    check(&file.metadata().map_err(unreadable)?, user_id, 0o037)?;
    read_line(file)
}

fn unreadable(error: io::Error) -> Cause {
    Cause::Unreadable(error.kind())
}

/// Opens without waiting: a blocking open of a FIFO waits for its writer, that of a terminal may wait for its line.
pub(super) fn open(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(sys::OPEN_NONBLOCKING | flags).open(path)
}

/// `open_to_others`: the permissions that nobody but the owner may have.
fn check(metadata: &Metadata, user_id: u32, open_to_others: u32) -> Result<(), Cause> {
    let mode = metadata.mode() & 0o7777;
    match metadata.uid() {
        _ if !metadata.is_file() => Err(Cause::NotRegular),
        owner if owner != user_id && owner != 0 => Err(Cause::Owner(owner)),
        _ if mode & open_to_others != 0 => Err(Cause::Mode(mode)),
        _ => Ok(()),
    }
}

fn read_line(file: File) -> Result<Secret, Cause> {
    let mut value = Zeroizing::new(Vec::with_capacity(ROOM));
    File::take(file, ROOM as u64).read_to_end(&mut value).map_err(unreadable)?;
    accept_line(&value)
}
