//! The folder of sockets: one socket a gateway, reached through the opened folder and never by a longer path.
//!
//! Nobody but the folder's owner may change it, and it is no symbolic link. A gateway's socket appears under its name only once
//! it takes connections; so one that refuses them is left by a gateway that has died, and goes. Names are random and never used
//! again: what was found dead cannot have come to life. Nothing else in the folder is touched.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ring::rand::{SecureRandom, SystemRandom};

use crate::limits::APPROVAL_PEERS_WAITING;
use crate::sys;

const SUFFIX: &str = ".sock";
/// Of a socket that takes no connections yet.
const UNREADY: &str = ".new";
/// After this a socket that never took connections is left over as well.
const UNREADY_AGE: Duration = Duration::from_secs(60);

/// The folder of sockets under a state folder.
pub fn of_state(state_dir: &Path) -> PathBuf {
    state_dir.join("approvals")
}

/// The folder, open.
#[derive(Debug)]
pub struct Folder {
    file: File,
    owner: u32,
}

/// A gateway's socket, by its name in the folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The gateway's process id.
    pub pid: u32,
    name: String,
}

impl Name {
    fn new(pid: u32) -> io::Result<Name> {
        let mut bits = [0; 16];
        SystemRandom::new().fill(&mut bits).map_err(|_| io::Error::other("the system has no randomness"))?;
        let random: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Name { pid, name: format!("{pid}-{random}") })
    }

    fn parse(name: &str) -> Option<Name> {
        let (pid, random) = name.split_once('-')?;
        let is_random = random.len() == 32 && random.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let pid = pid.parse().ok().filter(|parsed: &u32| parsed.to_string() == pid)?;
        is_random.then(|| Name { pid, name: name.to_owned() })
    }
}

impl Folder {
    /// The folder, made with mode 0700 if it is not there. Fails if it is a symbolic link, or anybody but us could change it.
    pub fn make(state_dir: &Path) -> io::Result<Folder> {
        let dir = of_state(state_dir);
        // Where there is a link, what it points to counts as made; `open` refuses it.
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let folder = Folder::open(&dir)?;
        folder.check_owner(sys::user_id())?;
        Ok(folder)
    }

    /// The folder, if there is one. Fails as `make` does; root may look into that of another user.
    pub fn find(state_dir: &Path) -> io::Result<Option<Folder>> {
        let folder = match Folder::open(&of_state(state_dir)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if sys::user_id() != 0 {
            folder.check_owner(sys::user_id())?;
        }
        Ok(Some(folder))
    }

    fn open(dir: &Path) -> io::Result<Folder> {
        let refused = |why: String| io::Error::new(ErrorKind::PermissionDenied, why);
        if fs::symlink_metadata(dir)?.is_symlink() {
            return Err(refused("it is a symbolic link, expected a folder".to_owned()));
        }
        let file = File::options().read(true).custom_flags(sys::NO_FOLLOW | sys::OPEN_NONBLOCKING).open(dir)?;
        let metadata = file.metadata()?;
        if !metadata.is_dir() {
            return Err(refused("expected a folder".to_owned()));
        }
        let mode = metadata.mode() & 0o7777;
        if mode & 0o022 != 0 {
            return Err(refused(format!("others may write it (mode {mode:04o}); run chmod go-w on it")));
        }
        Ok(Folder { file, owner: metadata.uid() })
    }

    fn check_owner(&self, user: u32) -> io::Result<()> {
        if self.owner == user {
            return Ok(());
        }
        let why = format!("owned by user {}, expected user {user}", self.owner);
        Err(io::Error::new(ErrorKind::PermissionDenied, why))
    }

    /// A new socket that takes connections.
    pub fn listen(self) -> io::Result<Socket> {
        let name = Name::new(std::process::id())?;
        // From here on the file goes with the owner, whatever name it has.
        let mut owned = Owned { folder: self, file: format!("{}{UNREADY}", name.name) };
        let listener = sys::listen_unix(&owned.folder.place(&owned.file), APPROVAL_PEERS_WAITING)?;
        let ready = format!("{}{SUFFIX}", name.name);
        fs::rename(owned.folder.place(&owned.file), owned.folder.place(&ready))?;
        owned.file = ready;
        Ok(Socket { _file: owned, listener })
    }

    /// The sockets of gateways, in the order of their process ids.
    pub fn names(&self) -> io::Result<Vec<Name>> {
        let files = self.files()?.into_iter();
        let mut names: Vec<Name> = files.filter_map(|file| Name::parse(file.strip_suffix(SUFFIX)?)).collect();
        names.sort();
        Ok(names)
    }

    /// Connects to a gateway without waiting. `None`: it has ended, and what it left, if anything, is removed.
    ///
    /// # Errors
    /// `WouldBlock`: too many connections wait already.
    pub fn connect(&self, name: &Name) -> io::Result<Option<UnixStream>> {
        let stream = self.connect_file(&format!("{}{SUFFIX}", name.name))?;
        let Some(stream) = stream else { return Ok(None) };
        let user = sys::peer_user(stream.as_fd())?;
        if user != self.owner {
            let why = format!("user {user} listens there, expected user {}, who owns the folder", self.owner);
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
        Ok(Some(stream))
    }

    /// Removes what gateways that have died left. Whatever cannot be removed stays.
    pub fn sweep(&self, now: SystemTime) {
        for file in self.files().unwrap_or_default() {
            let is_due = file.ends_with(SUFFIX) || self.age(&file, now).is_some_and(|age| age > UNREADY_AGE);
            if is_due {
                let _ = self.connect_file(&file);
            }
        }
    }

    fn connect_file(&self, file: &str) -> io::Result<Option<UnixStream>> {
        let place = self.place(file);
        match sys::connect_unix(&place) {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(&place);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Names of sockets that gateways made, ready or not; a symbolic link is none.
    fn files(&self) -> io::Result<Vec<String>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.place("."))? {
            let entry = entry?;
            let Ok(file) = entry.file_name().into_string() else { continue };
            let stem = file.strip_suffix(SUFFIX).or(file.strip_suffix(UNREADY));
            if stem.and_then(Name::parse).is_some() && entry.file_type().is_ok_and(|kind| kind.is_socket()) {
                files.push(file);
            }
        }
        Ok(files)
    }

    fn age(&self, file: &str, now: SystemTime) -> Option<Duration> {
        let made = fs::symlink_metadata(self.place(file)).and_then(|metadata| metadata.modified()).ok()?;
        Some(now.duration_since(made).unwrap_or_default())
    }

    /// A file of this very folder, however long its path and whatever was put in its place since.
    fn place(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{file}", self.file.as_raw_fd()))
    }
}

/// A socket that takes connections; its file is gone once this is dropped.
#[derive(Debug)]
pub struct Socket {
    _file: Owned,
    /// Non-blocking.
    pub listener: UnixListener,
}

/// A file of ours, removed with its owner.
#[derive(Debug)]
struct Owned {
    folder: Folder,
    file: String,
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.place(&self.file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::operator::testing::StateDir;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn listed(dir: &Path) -> Vec<String> {
        let mut files: Vec<_> =
            fs::read_dir(of_state(dir)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        files
    }

    #[test]
    fn nobody_but_the_owner_may_enter_or_connect() {
        let dir = StateDir::new();
        let socket = Folder::make(&dir.0).unwrap().listen().unwrap();
        let [file] = <[String; 1]>::try_from(listed(&dir.0)).unwrap();
        assert_eq!((mode(&of_state(&dir.0)), mode(&of_state(&dir.0).join(&file))), (0o700, 0o600));
        let name = Name::parse(file.strip_suffix(SUFFIX).unwrap()).unwrap();
        assert_eq!(name.pid, std::process::id());
        let folder = Folder::find(&dir.0).unwrap().unwrap();
        assert_eq!(folder.names().unwrap(), std::slice::from_ref(&name));
        assert!(folder.connect(&name).unwrap().is_some());
        drop(socket);
        assert_eq!(listed(&dir.0), [""; 0]);
        assert!(folder.connect(&name).unwrap().is_none());
    }

    #[track_caller]
    fn check_refused(dir: &Path, expected: &str) {
        for error in [Folder::make(dir).unwrap_err(), Folder::find(dir).unwrap_err()] {
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_folder_that_others_may_change_is_refused() {
        let dir = StateDir::new();
        assert!(Folder::find(&dir.0).unwrap().is_none());
        Folder::make(&dir.0).unwrap();
        let path = of_state(&dir.0);
        for bad in [0o720, 0o702, 0o777, 0o1777] {
            fs::set_permissions(&path, fs::Permissions::from_mode(bad)).unwrap();
            check_refused(&dir.0, &format!("others may write it (mode {bad:04o}); run chmod go-w on it"));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Folder::make(&dir.0).unwrap();
        fs::rename(&path, dir.0.join("moved")).unwrap();
        symlink(dir.0.join("moved"), &path).unwrap();
        check_refused(&dir.0, "it is a symbolic link, expected a folder");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert!(Folder::make(&dir.0).is_err());
        assert_eq!(Folder::find(&dir.0).unwrap_err().to_string(), "expected a folder");
    }

    #[test]
    fn only_its_owner_uses_a_folder_and_root_looks() {
        let dir = StateDir::new();
        let folder = Folder { owner: sys::user_id() + 1, ..Folder::make(&dir.0).unwrap() };
        let expected = format!("owned by user {}, expected user {}", folder.owner, sys::user_id());
        assert_eq!(folder.check_owner(sys::user_id()).unwrap_err().to_string(), expected);
        let socket = Folder::make(&dir.0).unwrap().listen().unwrap();
        let name = folder.names().unwrap().remove(0);
        let why = folder.connect(&name).unwrap_err().to_string();
        assert!(why.starts_with(&format!("user {} listens there", sys::user_id())), "{why}");
        drop(socket);
    }

    #[test]
    fn the_dead_go_and_everything_else_stays() {
        let dir = StateDir::new();
        let living = Folder::make(&dir.0).unwrap().listen().unwrap();
        let path = of_state(&dir.0);
        let name = |pid: u32| format!("{pid}-{:032x}", 10);
        let dead = |file: &str| drop(UnixListener::bind(path.join(file)).unwrap());
        let [stale, unready, foreign] = [name(1) + SUFFIX, name(2) + UNREADY, "x.sock".to_owned()];
        [&stale, &unready, &foreign].into_iter().for_each(|file| dead(file));
        let [plain, link] = [name(3), name(4)].map(|name| name + SUFFIX);
        fs::write(path.join(&plain), "").unwrap();
        symlink(path.join(&foreign), path.join(&link)).unwrap();
        let check = |gone: &[&str]| {
            let left = [&stale, &unready, &foreign, &plain, &link].map(|file| path.join(file).symlink_metadata().is_ok());
            let want = [&stale, &unready, &foreign, &plain, &link].map(|file| !gone.contains(&file.as_str()));
            assert_eq!(left, want);
        };
        let folder = Folder::find(&dir.0).unwrap().unwrap();
        check(&[]);
        folder.sweep(SystemTime::now());
        check(&[&stale]);
        folder.sweep(SystemTime::now() + 2 * UNREADY_AGE);
        check(&[&stale, &unready]);
        assert!(folder.connect(&folder.names().unwrap()[0]).unwrap().is_some());
        assert_eq!(folder.names().unwrap().len(), 1);
        drop(living);
        dead(&stale);
        assert!(folder.connect(&Name::parse(&name(1)).unwrap()).unwrap().is_none());
        check(&[&stale, &unready]);
    }

    #[test]
    fn a_path_may_be_longer_than_an_address() {
        let dir = StateDir::new();
        let deep = dir.0.join("x".repeat(200)).join("y".repeat(200));
        let _socket = Folder::make(&deep).unwrap().listen().unwrap();
        let folder = Folder::find(&deep).unwrap().unwrap();
        assert!(folder.connect(&folder.names().unwrap()[0]).unwrap().is_some());
    }

    #[test]
    fn names_are_ours_or_none() {
        let random = "0123456789abcdef".repeat(2);
        assert_eq!(Name::parse(&format!("7-{random}")).unwrap().pid, 7);
        for name in ["", "7", "7-", "7-0123", "x-0", &random] {
            assert_eq!(Name::parse(name), None);
        }
        for pid in ["07", "+7", "-7", "", "4294967296", " 7"] {
            assert_eq!(Name::parse(&format!("{pid}-{random}")), None, "{pid}");
        }
        assert_eq!(Name::parse(&format!("7-{}", random.to_uppercase())), None);
    }
}
