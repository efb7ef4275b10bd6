//! States as an attacker would hand them back, and the folder as two processes and careless hands leave it.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::AtomicU32;

use super::*;

const NOW: u64 = 1_785_456_000_000;
const STANDS: Duration = Duration::from_millis(50_000);
const ID: &str = "00c0ffee";
const BOUND: Bound<'static> =
    Bound { tool: "restart", rule: "tools/restart", action: r#"{"exec":{"argv":["a"]}}"#, extent: Extent::Once };
const THREADS: usize = 16;

/// A state folder of this test alone, removed when dropped.
struct StateDir(PathBuf);

impl StateDir {
    fn new() -> StateDir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-state-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        StateDir(std::env::temp_dir().join(name).join("state"))
    }

    fn open(&self) -> Seal {
        Seal::open(&self.0).unwrap()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join("approvals").join(name)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(folder)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.parent().unwrap());
    }
}

fn sealed(seal: &Seal) -> String {
    seal.seal(ID, &BOUND, NOW, STANDS)
}

#[track_caller]
fn check(seal: &Seal, state: &str, bound: &Bound<'_>, now_ms: u64, expected: Result<&str, StateError>) {
    let got = seal.unseal(state, bound, now_ms).map(|unsealed| unsealed.id);
    assert_eq!(got.as_deref(), expected.as_ref().map(|id| *id), "{state:?}");
}

#[track_caller]
fn check_unreadable(seal: &Seal, state: &str) {
    check(seal, state, &BOUND, NOW, Err(StateError::Unreadable));
}

/// What one thread each makes of it, all at the same moment.
fn at_once<T: Send>(work: impl Fn() -> T + Sync) -> Vec<T> {
    let ready = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let one = || {
            ready.wait();
            work()
        };
        let others: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
        others.into_iter().map(|other| other.join().unwrap()).collect()
    })
}

#[test]
fn a_state_stands_for_its_question() {
    let dir = StateDir::new();
    let seal = dir.open();
    let states: HashSet<String> = (0..100).map(|_| sealed(&seal)).chain([sealed(&dir.open())]).collect();
    assert_eq!(states.len(), 101, "two states are the same");
    for state in states {
        assert_eq!(state.len(), STATE_CHARS);
        check(&seal, &state, &BOUND, NOW, Ok(ID));
    }
    for id in ["00000000", "ffffffff", "12345678"] {
        check(&seal, &seal.seal(id, &BOUND, NOW, STANDS), &BOUND, NOW, Ok(id));
    }
    let unsealed = seal.unseal(&sealed(&seal), &BOUND, NOW + 1).unwrap();
    assert_eq!(unsealed.expires_ms, NOW + 50_000);
}

#[test]
fn only_an_id_is_an_id() {
    for text in ["", "0000000", "000000000", "0000000G", "0000000A", "+1234567", "é00000"] {
        assert_eq!(parse_id(text), None, "{text}");
    }
}

#[test]
fn no_byte_of_a_state_can_be_changed() {
    let dir = StateDir::new();
    let seal = dir.open();
    let state = sealed(&seal);
    let letters = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain("-_+/=. \n\0é".chars());
    for letter in letters {
        for at in 0..state.len() {
            let changed = format!("{}{letter}{}", &state[..at], &state[at + 1..]);
            if changed != state {
                check_unreadable(&seal, &changed);
            }
        }
    }
    let bytes = URL_SAFE_NO_PAD.decode(&state).unwrap();
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        check_unreadable(&seal, &URL_SAFE_NO_PAD.encode(flipped));
    }
}

#[test]
fn nothing_can_be_taken_from_a_state_or_added() {
    let dir = StateDir::new();
    let seal = dir.open();
    let state = sealed(&seal);
    for at in 0..state.len() {
        check_unreadable(&seal, &state[..at]);
        check_unreadable(&seal, &state[at + 1..]);
        check_unreadable(&seal, &format!("{}A{}", &state[..at], &state[at..]));
    }
    for end in ["A", "=", "==", "AAAA", "\n", " ", "\0"] {
        check_unreadable(&seal, &format!("{state}{end}"));
        check_unreadable(&seal, &format!("{end}{state}"));
    }
    check_unreadable(&seal, &format!("{state}{state}"));
    check_unreadable(&seal, &state.repeat((4 << 20) / state.len()));
    check_unreadable(&seal, &"A".repeat(STATE_CHARS));
    check(&seal, &state, &BOUND, NOW, Ok(ID));
}

#[test]
fn a_layout_that_is_not_this_one_is_unreadable_though_sealed() {
    let dir = StateDir::new();
    let seal = dir.open();
    let mut bytes = URL_SAFE_NO_PAD.decode(sealed(&seal)).unwrap();
    bytes[2] += 1;
    let tag = hmac::sign(&seal.key, &bytes[..BODY_BYTES]);
    bytes.splice(BODY_BYTES.., tag.as_ref().iter().copied());
    check_unreadable(&seal, &URL_SAFE_NO_PAD.encode(bytes));
}

#[test]
fn a_state_holds_for_exactly_what_was_asked() {
    let dir = StateDir::new();
    let seal = dir.open();
    let state = sealed(&seal);
    for other in [
        Bound { tool: "restart2", ..BOUND },
        Bound { rule: "tools/restart2", ..BOUND },
        Bound { action: r#"{"exec":{"argv":["b"]}}"#, ..BOUND },
        Bound { action: r#"{"exec":{"argv":["a"]}} "#, ..BOUND },
        Bound { action: "", ..BOUND },
        Bound { extent: Extent::Session, ..BOUND },
        // The same letters, cut elsewhere.
        Bound { tool: "restar", rule: "ttools/restart", ..BOUND },
        Bound { tool: "restartt", rule: "ools/restart", ..BOUND },
    ] {
        check(&seal, &state, &other, NOW, Err(StateError::OtherAction));
        check(&seal, &seal.seal(ID, &other, NOW, STANDS), &BOUND, NOW, Err(StateError::OtherAction));
    }
}

#[test]
fn a_state_has_its_time() {
    let dir = StateDir::new();
    let seal = dir.open();
    let max = millis(APPROVAL_TIMEOUT_MAX);
    let state = sealed(&seal);
    for (now, expected) in [
        (NOW + 49_999, Ok(ID)),
        (NOW + 50_000, Err(StateError::Expired)),
        (u64::MAX, Err(StateError::Expired)),
        // The clock was set back.
        (NOW + 50_000 - max, Ok(ID)),
        (NOW + 49_999 - max, Err(StateError::Expired)),
        (0, Err(StateError::Expired)),
    ] {
        check(&seal, &state, &BOUND, now, expected);
    }
    let longest = seal.seal(ID, &BOUND, NOW, Duration::MAX);
    check(&seal, &longest, &BOUND, NOW + max - 1, Ok(ID));
    check(&seal, &longest, &BOUND, NOW + max, Err(StateError::Expired));
    check(&seal, &seal.seal(ID, &BOUND, NOW, Duration::ZERO), &BOUND, NOW, Err(StateError::Expired));
    check(&seal, &seal.seal(ID, &BOUND, u64::MAX, STANDS), &BOUND, u64::MAX, Err(StateError::Expired));
}

#[test]
fn the_first_thing_wrong_is_what_is_said() {
    let dir = StateDir::new();
    let (seal, mut other) = (dir.open(), dir.open());
    other.user += 1;
    let theirs = sealed(&other);
    let action = Bound { action: "", ..BOUND };
    check(&seal, &theirs, &BOUND, NOW, Err(StateError::OtherUser));
    check(&seal, &theirs, &action, u64::MAX, Err(StateError::OtherUser));
    check(&seal, &sealed(&seal), &action, u64::MAX, Err(StateError::Expired));
    check(&StateDir::new().open(), &theirs, &action, u64::MAX, Err(StateError::Unreadable));
}

#[test]
fn another_folder_has_another_key() {
    let (dir, other) = (StateDir::new(), StateDir::new());
    check_unreadable(&other.open(), &sealed(&dir.open()));
    // It outlives the process, and is not made again.
    let state = sealed(&dir.open());
    check(&dir.open(), &state, &BOUND, NOW, Ok(ID));
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(dir.at("")), mode(dir.at("spent")), mode(dir.at("key"))], [0o700, 0o700, 0o600]);
}

#[test]
fn all_who_start_at_once_have_one_key() {
    for _ in 0..10 {
        let dir = StateDir::new();
        let seals = at_once(|| dir.open());
        for state in seals.iter().map(sealed) {
            seals.iter().for_each(|seal| check(seal, &state, &BOUND, NOW, Ok(ID)));
        }
        assert_eq!(dir.names(""), ["key", "spent"]);
    }
}

#[test]
fn a_state_is_used_once_in_all_processes() {
    let dir = StateDir::new();
    let (seal, other) = (dir.open(), dir.open());
    let [first, second] = [(); 2].map(|()| seal.unseal(&sealed(&seal), &BOUND, NOW).unwrap());
    assert!(!seal.is_spent(&first));
    let spent = at_once(|| dir.open().spend(&first));
    assert_eq!(spent.iter().filter(|spent| spent.is_ok()).count(), 1);
    let used = |spent: &Result<(), SpendError>| matches!(spent, Err(SpendError::AlreadyUsed));
    assert_eq!(spent.iter().filter(|spent| used(spent)).count(), THREADS - 1, "{spent:?}");
    assert!(used(&other.spend(&first)) && used(&seal.spend(&first)));
    assert!(other.is_spent(&first) && !other.is_spent(&second));
    other.spend(&second).unwrap();
    assert!(used(&seal.spend(&second)));
    assert_eq!(dir.names("spent").len(), 2);
}

#[test]
fn what_cannot_be_noted_is_not_used() {
    let dir = StateDir::new();
    let seal = dir.open();
    let unsealed = seal.unseal(&sealed(&seal), &BOUND, NOW).unwrap();
    fs::remove_dir_all(&dir.0).unwrap();
    let gone = seal.spend(&unsealed).unwrap_err().to_string();
    let expected = format!("an answer cannot be noted as used: {}: No such file", dir.at("spent").display());
    assert!(gone.starts_with(&expected), "{gone}");
    seal.sweep(u64::MAX);
    // Another process makes the folder again, with another key: what was sealed before is worth nothing there.
    check_unreadable(&dir.open(), &sealed(&seal));
    assert!(matches!(seal.spend(&unsealed), Err(SpendError::Unavailable(_))));
}

#[test]
fn a_sweep_forgets_only_what_is_long_over() {
    let dir = StateDir::new();
    let seal = dir.open();
    let states: Vec<Unsealed> = (0..1000)
        .map(|number| {
            let now = NOW + number;
            seal.unseal(&seal.seal(ID, &BOUND, now, STANDS), &BOUND, now).unwrap()
        })
        .collect();
    states.iter().for_each(|state| seal.spend(state).unwrap());
    let foreign = ["note", ".hidden", "0-1", &format!("{}-1", "g".repeat(32)), &format!("{}-", "0".repeat(32))];
    foreign.iter().for_each(|name| fs::write(dir.at("spent").join(name), "").unwrap());
    fs::create_dir(dir.at("spent").join(format!("{}-1", "0".repeat(32)))).unwrap();
    let sweep_all = |now| (0..10).for_each(|_| seal.sweep(now));
    // The last moment at which the first of them might still be tried after the clock was set back by an hour.
    let last = NOW + 50_000 + 3_600_000;
    sweep_all(last);
    assert_eq!(dir.names("spent").len(), 1006);
    sweep_all(last + 500);
    assert_eq!(dir.names("spent").len(), 506);
    assert_eq!(states.iter().filter(|state| dir.open().spend(state).is_ok()).count(), 500);
    let once = dir.names("spent").len();
    seal.sweep(u64::MAX);
    assert!(dir.names("spent").len() >= once - 256, "one sweep looked at too much");
    sweep_all(u64::MAX);
    assert_eq!(dir.names("spent").len(), 6, "{:?}", dir.names("spent"));
}

#[track_caller]
fn check_refused(spoil: impl Fn(&StateDir), name: &str, expected: &str) {
    let dir = StateDir::new();
    drop(dir.open());
    spoil(&dir);
    let error = Seal::open(&dir.0).err().unwrap().to_string();
    let path = if name.is_empty() { dir.0.join("approvals") } else { dir.at(name) };
    assert_eq!(error, format!("{}: {expected}", path.display()));
}

fn set_mode(path: PathBuf, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_odd_key_is_refused() {
    let replace = |dir: &StateDir, bytes: usize| fs::write(dir.at("key"), vec![7; bytes]).unwrap();
    for bytes in [0, 31, 33, 4096] {
        let expected = format!("expected 32 bytes, got {bytes}; remove it, and a new one is made");
        check_refused(|dir| replace(dir, bytes), "key", &expected);
    }
    for mode in [0o640, 0o604, 0o620, 0o602, 0o777] {
        let expected = format!("others may use it (mode {mode:04o}); remove it, and a new one is made");
        check_refused(|dir| set_mode(dir.at("key"), mode), "key", &expected);
    }
    let link = "it is a symbolic link, which is not followed here";
    let to_itself = |dir: &StateDir| {
        fs::rename(dir.at("key"), dir.at("other")).unwrap();
        symlink(dir.at("other"), dir.at("key")).unwrap();
    };
    check_refused(to_itself, "key", link);
    let to_nothing = |dir: &StateDir| {
        fs::remove_file(dir.at("key")).unwrap();
        symlink("/nowhere", dir.at("key")).unwrap();
    };
    check_refused(to_nothing, "key", link);
    let folder = |dir: &StateDir| {
        fs::remove_file(dir.at("key")).unwrap();
        fs::create_dir(dir.at("key")).unwrap();
    };
    check_refused(folder, "key", "expected a regular file");
}

#[test]
fn an_odd_folder_is_refused() {
    let open = "others may use it (mode 0770); run chmod go-w on it";
    check_refused(|dir| set_mode(dir.at(""), 0o770), "", open);
    check_refused(|dir| set_mode(dir.at("spent"), 0o770), "spent", open);
    let link = "it is a symbolic link, which is not followed here";
    let to_itself = |dir: &StateDir, name: &str| {
        let path = if name.is_empty() { dir.0.join("approvals") } else { dir.at(name) };
        let moved = dir.0.join("moved");
        fs::rename(&path, &moved).unwrap();
        symlink(moved, path).unwrap();
    };
    check_refused(|dir| to_itself(dir, ""), "", link);
    check_refused(|dir| to_itself(dir, "spent"), "spent", link);
    let file = |dir: &StateDir| {
        fs::remove_dir(dir.at("spent")).unwrap();
        fs::write(dir.at("spent"), "").unwrap();
    };
    check_refused(file, "spent", "expected a folder");
    let not_a_folder = Seal::open(Path::new("/dev/null")).err().unwrap().to_string();
    assert!(not_a_folder.starts_with("/dev/null/approvals: Not a directory"), "{not_a_folder}");
}

#[test]
fn what_belongs_to_another_user_is_refused() {
    let dir = StateDir::new();
    drop(dir.open());
    let user = sys::user_id();
    let words = format!("expected it to belong to user {}, it belongs to user {user}", user + 1);
    let folder = Folder::open(&dir.0, user + 1).err().unwrap().to_string();
    assert_eq!(folder, format!("{}: {words}", dir.0.join("approvals").display()));
    let key = Folder::open(&dir.0, user).unwrap().key(user + 1).unwrap_err().to_string();
    assert_eq!(key, format!("{}: {words}", dir.at("key").display()));
}
