//! What a known_hosts file (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT) says about one host's key. Pure but for reading the file.
//!
//! Never libssh2's own check, which accepts revoked keys. Decides as `ssh -o StrictHostKeyChecking=yes` does, or refuses more:
//! an authority's certificate is never accepted, so a host known by its authority alone is refused; a file that others may
//! write, or that is larger than `FILE_BYTES`, is not read.

pub mod store;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::{digest, hmac};

/// The largest file that is read: some 40,000 hosts.
pub const FILE_BYTES: u64 = 8 << 20;
/// Port 22 stands in the file as the bare name.
const SSH_PORT: u16 = 22;

/// What the file says about one host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// Its keys.
    pub keys: Vec<Entry>,
    /// Keys of the bare name, where `keys` are those of a port: good if there are no others, but their absence says nothing.
    pub bare: Vec<Entry>,
    /// Keys that must not be accepted for it.
    pub revoked: Vec<Entry>,
    /// Lines of authorities whose certificates would be.
    pub authorities: Vec<usize>,
}

/// One key and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Line of the file, from 1.
    pub line: usize,
    /// Its type as written: `ssh-ed25519`.
    pub algorithm: String,
    /// The public key (RFC 4253 section 6.6).
    pub blob: Vec<u8>,
}

/// What becomes of a host key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is the known one.
    Match,
    /// No key of the host is known.
    Unknown,
    /// Another key of the host is known: the first that is.
    Changed(Entry),
    /// It must not be accepted.
    Revoked {
        /// Line of the file.
        line: usize,
    },
    /// Only an authority is known, and certificates are not supported.
    CertAuthority {
        /// Line of the file.
        line: usize,
    },
}

/// Why a file could not be used.
#[derive(Debug)]
pub enum Unreadable {
    /// It could not be opened or read.
    Io(io::Error),
    /// Larger than `FILE_BYTES`.
    TooLarge(u64),
    /// Group or others may write it.
    Writable(u32),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Io(error) => write!(f, "it cannot be read: {error}"),
            Unreadable::TooLarge(bytes) => write!(f, "expected at most {FILE_BYTES} bytes, got {bytes}"),
            Unreadable::Writable(mode) => write!(f, "others may write it (mode {mode:04o}); chmod go-w would help"),
        }
    }
}

/// The file's bytes; none if it does not exist.
pub fn read(path: &Path) -> Result<Vec<u8>, Unreadable> {
    match File::open(path) {
        Ok(file) => read_open(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Unreadable::Io(error)),
    }
}

fn read_open(mut file: &File) -> Result<Vec<u8>, Unreadable> {
    let metadata = file.metadata().map_err(Unreadable::Io)?;
    if !metadata.is_file() {
        return Err(Unreadable::Io(io::Error::other("expected a regular file")));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(Unreadable::Writable(metadata.mode() & 0o7777));
    }
    let mut bytes = Vec::new();
    file.by_ref().take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(Unreadable::Io)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(Unreadable::TooLarge(metadata.len()));
    }
    Ok(bytes)
}

/// The host's name in the file: bare for port 22, `[host]:port` for others.
pub fn name(host: &str, port: u16) -> String {
    if port == SSH_PORT { host.to_owned() } else { format!("[{host}]:{port}") }
}

/// What the file says about `host` at `port`. `host` is in lower case.
pub fn look_up(file: &[u8], host: &str, port: u16) -> Known {
    let mut known = look_up_name(file, &name(host, port));
    if port != SSH_PORT {
        let bare = look_up_name(file, host);
        known.revoked.extend(bare.revoked);
        known.bare = bare.keys;
    }
    known
}

fn look_up_name(file: &[u8], name: &str) -> Known {
    let mut known = Known::default();
    for (index, line) in file.split(|byte| *byte == b'\n').enumerate() {
        let Some(line) = Line::parse(line) else { continue };
        if !names(line.hosts, name.as_bytes()) {
            continue;
        }
        let entry = Entry { line: index + 1, algorithm: line.algorithm, blob: line.blob };
        match line.marker {
            Marker::None => known.keys.push(entry),
            Marker::Revoked => known.revoked.push(entry),
            Marker::CertAuthority => known.authorities.push(entry.line),
        }
    }
    known
}

impl Known {
    /// What becomes of the key with this blob.
    pub fn verdict(&self, blob: &[u8]) -> Verdict {
        if let Some(line) = self.revoked_at(blob) {
            return Verdict::Revoked { line };
        }
        match (self.keys.first(), self.authorities.first()) {
            _ if self.keys.iter().any(|entry| entry.blob == blob) => Verdict::Match,
            (Some(first), _) => {
                let algorithm = algorithm(blob);
                let same = self.keys.iter().find(|entry| Some(entry.algorithm.as_str()) == algorithm);
                Verdict::Changed(same.unwrap_or(first).clone())
            }
            _ if self.bare.iter().any(|entry| entry.blob == blob) => Verdict::Match,
            (None, Some(line)) => Verdict::CertAuthority { line: *line },
            (None, None) => Verdict::Unknown,
        }
    }

    /// The line that revokes this key.
    pub fn revoked_at(&self, blob: &[u8]) -> Option<usize> {
        self.revoked.iter().find(|entry| entry.blob == blob).map(|entry| entry.line)
    }
}

/// The algorithm a public key names (RFC 4253 section 6.6).
pub fn algorithm(blob: &[u8]) -> Option<&str> {
    let (length, rest) = blob.split_first_chunk()?;
    let name = rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    str::from_utf8(name).ok()
}

/// Whether a key is a row of strings to its very end (RFC 4251 section 5), as every kind of key is.
fn is_whole(mut blob: &[u8]) -> bool {
    while let Some((length, rest)) = blob.split_first_chunk() {
        let Some(rest) = rest.get(u32::from_be_bytes(*length) as usize..) else { return false };
        blob = rest;
    }
    blob.is_empty()
}

/// `SHA256:` and the digest, as `ssh-keygen -lf` prints it.
pub fn fingerprint(blob: &[u8]) -> String {
    format!("SHA256:{}", STANDARD_NO_PAD.encode(digest::digest(&digest::SHA256, blob)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    None,
    Revoked,
    CertAuthority,
}

/// One line that is an entry.
struct Line<'a> {
    marker: Marker,
    hosts: &'a [u8],
    algorithm: String,
    blob: Vec<u8>,
}

impl<'a> Line<'a> {
    /// `None` for a comment, an empty line and everything that is no entry: such lines are skipped, as ssh does.
    fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r')).filter(|word| !word.is_empty());
        let first = words.next()?;
        let (marker, hosts) = match first {
            comment if comment.starts_with(b"#") => return None,
            b"@revoked" => (Marker::Revoked, words.next()?),
            b"@cert-authority" => (Marker::CertAuthority, words.next()?),
            unknown if unknown.starts_with(b"@") => return None,
            hosts => (Marker::None, hosts),
        };
        let written = words.next()?;
        let blob = STANDARD.decode(words.next()?).ok()?;
        let algorithm = algorithm(&blob)?.to_owned();
        let is_key = algorithm.as_bytes() == written && is_whole(&blob) && !hosts.starts_with(b"@");
        is_key.then_some(Line { marker, hosts, algorithm, blob })
    }
}

/// Whether the host field covers `name`: one hashed name, or a list of patterns of which one fits and none that fits is negated.
fn names(field: &[u8], name: &[u8]) -> bool {
    if let Some(hashed) = field.strip_prefix(b"|") {
        return is_hash_of(hashed, name);
    }
    let mut covered = false;
    for pattern in field.split(|byte| *byte == b',') {
        match pattern.strip_prefix(b"!") {
            Some(pattern) if fits(pattern, name) => return false,
            Some(_) => {}
            None => covered |= fits(pattern, name),
        }
    }
    covered
}

/// `1|SALT|HASH`: HMAC-SHA1 of the name, keyed with the salt.
fn is_hash_of(hashed: &[u8], name: &[u8]) -> bool {
    let mut parts = hashed.split(|byte| *byte == b'|');
    let (Some(b"1"), Some(salt), Some(hash), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let (Ok(salt), Ok(hash)) = (STANDARD.decode(salt), STANDARD.decode(hash)) else { return false };
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    hmac::verify(&key, name, &hash).is_ok()
}

/// Whether a pattern with `*` and `?` fits the whole name, letters compared without case. Linear but for one step back.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(byte) if *byte == b'?' || byte.eq_ignore_ascii_case(&name[in_name]) => {
                at += 1;
                in_name += 1;
            }
            _ => {
                // The last star takes one byte more.
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                at = star_at + 1;
                in_name = taken + 1;
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key blob that is well-formed on its surface.
    fn blob(algorithm: &str, body: &str) -> Vec<u8> {
        let field = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
        [field(algorithm), field(body)].concat()
    }

    fn key(algorithm: &str, body: &str) -> String {
        format!("{algorithm} {}", STANDARD.encode(blob(algorithm, body)))
    }

    #[track_caller]
    fn check_names(field: &str, name: &str, covered: bool) {
        assert_eq!(names(field.as_bytes(), name.as_bytes()), covered, "{field} for {name}");
    }

    #[test]
    fn host_fields_cover_what_they_say() {
        check_names("web1", "web1", true);
        check_names("WEB1", "web1", true);
        check_names("web1,10.0.0.5", "10.0.0.5", true);
        check_names("web1", "web11", false);
        check_names("web?", "web1", true);
        check_names("web?", "web", false);
        check_names("*", "anything", true);
        check_names("*.example.com", "a.example.com", true);
        check_names("*.example.com", "example.com", false);
        check_names("a*b*c", "aXbYbZc", true);
        check_names("a*b*c", "aXbYbZ", false);
        check_names("*.example.com,!bad.example.com", "bad.example.com", false);
        check_names("!bad.example.com,*.example.com", "bad.example.com", false);
        check_names("!bad.example.com", "good.example.com", false);
        check_names("[web1]:2222", "[web1]:2222", true);
        check_names("[web1]:2222", "web1", false);
        check_names("[web?]:22*", "[web1]:2222", true);
        check_names("", "web1", false);
    }

    #[test]
    fn hashed_names_are_compared_by_their_hash() {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"01234567890123456789");
        let hash = |name: &str| {
            let tag = hmac::sign(&key, name.as_bytes());
            format!("|1|{}|{}", STANDARD.encode(b"01234567890123456789"), STANDARD.encode(tag))
        };
        check_names(&hash("web1"), "web1", true);
        check_names(&hash("web1"), "web2", false);
        check_names(&hash("[web1]:2222"), "[web1]:2222", true);
        check_names(&hash("web1").replace("|1|", "|2|"), "web1", false);
        check_names("|1|", "web1", false);
        check_names("|1|!!|!!", "web1", false);
    }

    #[track_caller]
    fn check(file: &str, want: &Verdict) {
        let known = look_up(file.as_bytes(), "web1", 2222);
        assert_eq!(&known.verdict(&blob("ssh-ed25519", "good")), want, "{file}");
    }

    #[test]
    fn files_are_decided_line_by_line() {
        let (good, other) = (key("ssh-ed25519", "good"), key("ssh-ed25519", "other"));
        let changed =
            |line| Verdict::Changed(Entry { line, algorithm: "ssh-ed25519".into(), blob: blob("ssh-ed25519", "other") });
        check("", &Verdict::Unknown);
        check(&format!("[web1]:2222 {good}"), &Verdict::Match);
        check(&format!("[web1]:2222 {good} a comment\r\n"), &Verdict::Match);
        check(&format!("  \t[web1]:2222\t{good}"), &Verdict::Match);
        check(&format!("web1 {good}"), &Verdict::Match);
        check(&format!("web1 {other}"), &Verdict::Unknown);
        check(&format!("web1 {good}\n@revoked web1 {good}"), &Verdict::Revoked { line: 2 });
        check(&format!("#[web1]:2222 {good}"), &Verdict::Unknown);
        check(&format!("[web1]:2222 {other}"), &changed(1));
        check(&format!("[web1]:2222 {other}\n[web1]:2222 {good}"), &Verdict::Match);
        check(&format!("[web1]:2222 {other}\nweb1 {good}"), &changed(1));
        check(&format!("\n\n[web1]:2222 {}\n[web1]:2222 {other}", key("ssh-rsa", "r")), &changed(4));
        check(&format!("garbage\n\u{1}\n[web1]:2222 ssh-ed25519 ???\n[web1]:2222 {good}"), &Verdict::Match);
        check(&format!("[web1]:2222 ssh-rsa {}", &good["ssh-ed25519 ".len()..]), &Verdict::Unknown);
        check(&format!("[web1]:2222 {good}\n@revoked * {good}"), &Verdict::Revoked { line: 2 });
        check(&format!("@revoked [web1]:2222 {other}\n[web1]:2222 {good}"), &Verdict::Match);
        check(&format!("@cert-authority * {other}"), &Verdict::CertAuthority { line: 1 });
        check(&format!("@cert-authority * {other}\n[web1]:2222 {good}"), &Verdict::Match);
        check(&format!("@unknown [web1]:2222 {good}"), &Verdict::Unknown);
        check(&format!("@revoked @revoked [web1]:2222 {good}"), &Verdict::Unknown);
    }

    #[test]
    fn a_fingerprint_is_what_ssh_keygen_prints() {
        let text = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
        let github = STANDARD.decode(text).unwrap();
        assert_eq!(fingerprint(&github), "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU");
    }
}
