//! The `requestState` of a question to the client (MCP 2026-07-28): sealed, bound to one action, short-lived, good for one answer.
//!
//! The client keeps the state and hands it back, perhaps to another process, and the client is the attacker: nothing in a state counts
//! before its seal holds. A state says which question it stands for and never what is asked; it is no yes, and it is worth nothing
//! for another action, rule, extent or user.
//!
//! ```text
//! seal ──▶ state, with the client ──unseal──▶ Unsealed ──spend──▶ used up, in every process that shares the folder
//! ```

mod folder;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Context, SHA256};
use ring::hmac::{self, HMAC_SHA256};

use crate::approval::Extent;
use crate::approval::state::folder::{Folder, random};
use crate::limits::APPROVAL_TIMEOUT_MAX;
use crate::sys;

/// What a state begins with: ours, in this layout.
const HEAD: &[u8; 3] = b"tg\x01";
/// Head, id, nonce, expiry, user id, digest of what is bound.
const BODY_BYTES: usize = HEAD.len() + 4 + NONCE_BYTES + 8 + 4 + 32;
const TAG_BYTES: usize = 32;
/// A whole number of base64 groups: no bit of the text is left over that could be changed unseen.
const STATE_BYTES: usize = BODY_BYTES + TAG_BYTES;
const STATE_CHARS: usize = STATE_BYTES / 3 * 4;
const _: () = assert!(STATE_BYTES.is_multiple_of(3));
const NONCE_BYTES: usize = 16;

/// What a question was asked about; an answer holds for nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The rule that asks, as recorded.
    pub rule: &'a str,
    /// The exact action, as in `Action::record`.
    pub action: &'a str,
    /// How far a yes goes.
    pub extent: Extent,
}

impl Bound<'_> {
    /// Each part with its length before it: no two different bounds read the same.
    fn digest(&self) -> [u8; 32] {
        let extent = match self.extent {
            Extent::Once => "once",
            Extent::Session => "session",
        };
        let mut context = Context::new(&SHA256);
        for part in [self.tool, self.rule, extent, self.action] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
        context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

/// Makes states and tells its own from all others; knows which were used. Shared by all calls of a process.
pub struct Seal {
    key: hmac::Key,
    /// Nonces are this process's random key over a count: random, and never out of randomness.
    nonces: hmac::Key,
    count: AtomicU64,
    user: u32,
    folder: Folder,
}

/// A state whose seal holds, for the action that is at hand, in its time. Not yet used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsealed {
    /// The `Question`'s id.
    pub id: String,
    /// When it is worth nothing any more, in ms since 1970.
    pub expires_ms: u64,
    nonce: [u8; NONCE_BYTES],
}

/// Why a state counts for nothing. Whatever it is: ask again, carry nothing out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateError {
    /// Not ours, or altered.
    Unreadable,
    /// Ours, of another user.
    OtherUser,
    /// Its time is over, or lies further ahead than any question stands: then the clock was set back.
    Expired,
    /// Ours, for another action, rule or extent.
    OtherAction,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StateError::Unreadable => "expected a requestState as this gateway gave it out, got an altered or foreign one",
            StateError::OtherUser => "expected a requestState of the user the gateway runs as, got that of another user",
            StateError::Expired => "expected a requestState of a question that still stands, got one from outside its time",
            StateError::OtherAction => "expected the requestState of exactly this action, got that of another one",
        })
    }
}

impl std::error::Error for StateError {}

/// Why a state could not be used up: then nothing may be carried out.
#[derive(Debug)]
pub enum SpendError {
    /// It was used before.
    AlreadyUsed,
    /// It cannot be noted.
    Unavailable(io::Error),
}

impl fmt::Display for SpendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpendError::AlreadyUsed => f.write_str("expected an answer that was not used yet, got one that was"),
            SpendError::Unavailable(error) => write!(f, "an answer cannot be noted as used: {error}"),
        }
    }
}

impl std::error::Error for SpendError {}

impl Seal {
    /// Reads the key of a state folder, or makes it: `approvals/key`, 32 random bytes, mode 0600. Processes that start at once end
    /// with the same key. Fails if it cannot be made, or if key or folders are links, another user's or open to others; the
    /// error names the file.
    pub fn open(state_dir: &Path) -> io::Result<Seal> {
        let user = sys::user_id();
        let folder = Folder::open(state_dir, user)?;
        let key = hmac::Key::new(HMAC_SHA256, &folder.key(user)?[..]);
        let nonces = hmac::Key::new(HMAC_SHA256, &random::<32>()?[..]);
        Ok(Seal { key, nonces, count: AtomicU64::new(0), user, folder })
    }

    /// A state for this question, good until `now_ms` (ms since 1970) and `stands`, at most `APPROVAL_TIMEOUT_MAX`: 132 characters
    /// of base64url. `id` is the `Question`'s, by which the records of question and answer are paired.
    ///
    /// # Panics
    /// If `id` is not eight lower-case hexadecimal digits.
    pub fn seal(&self, id: &str, bound: &Bound<'_>, now_ms: u64, stands: Duration) -> String {
        let body = Body {
            id: parse_id(id).expect("a question's id is eight lower-case hexadecimal digits"),
            nonce: self.next_nonce(),
            expires_ms: now_ms.saturating_add(millis(stands.min(APPROVAL_TIMEOUT_MAX))),
            user: self.user,
            digest: bound.digest(),
        };
        let mut bytes = body.to_bytes();
        let tag = hmac::sign(&self.key, &bytes);
        bytes.extend_from_slice(tag.as_ref());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// What a state stands for, if it is ours and whole, of this user, in its time, and for exactly this bound action; the first of
    /// these that does not hold is the error. Its length is looked at before anything else. Says nothing of earlier use.
    pub fn unseal(&self, state: &str, bound: &Bound<'_>, now_ms: u64) -> Result<Unsealed, StateError> {
        let body = self.open_body(state).ok_or(StateError::Unreadable)?;
        let left_ms = body.expires_ms.saturating_sub(now_ms);
        if body.user != self.user {
            return Err(StateError::OtherUser);
        }
        if left_ms == 0 || left_ms > millis(APPROVAL_TIMEOUT_MAX) {
            return Err(StateError::Expired);
        }
        if body.digest != bound.digest() {
            return Err(StateError::OtherAction);
        }
        Ok(Unsealed { id: format!("{:08x}", body.id), expires_ms: body.expires_ms, nonce: body.nonce })
    }

    fn open_body(&self, state: &str) -> Option<Body> {
        if state.len() != STATE_CHARS {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(state).ok()?;
        let (body, tag) = bytes.split_at_checked(BODY_BYTES)?;
        // In constant time.
        hmac::verify(&self.key, body, tag).ok()?;
        Body::parse(body)
    }

    /// Uses a state up, in all processes that share the folder: of those who try, one succeeds, ever. On disk when this returns.
    pub fn spend(&self, unsealed: &Unsealed) -> Result<(), SpendError> {
        match self.folder.spend(&unsealed.nonce, unsealed.expires_ms) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(SpendError::AlreadyUsed),
            Err(error) => Err(SpendError::Unavailable(error)),
        }
    }

    /// Whether a state was used up, so that nobody is asked for nothing and a replay costs nothing. No proof that it can still be
    /// used: only `spend` is.
    pub fn is_spent(&self, unsealed: &Unsealed) -> bool {
        self.folder.is_spent(&unsealed.nonce, unsealed.expires_ms)
    }

    /// Forgets some of what was used up and has expired long ago: looks at a bounded number of entries and goes on there the next
    /// time. Entries that are not ours stay. To be called now and then, where nobody waits.
    pub fn sweep(&self, now_ms: u64) {
        self.folder.sweep(now_ms);
    }

    fn next_nonce(&self) -> [u8; NONCE_BYTES] {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let tag = hmac::sign(&self.nonces, &count.to_be_bytes());
        *tag.as_ref().first_chunk().expect("HMAC-SHA-256 has 32 bytes")
    }
}

/// What the seal is over.
struct Body {
    id: u32,
    nonce: [u8; NONCE_BYTES],
    expires_ms: u64,
    user: u32,
    digest: [u8; 32],
}

impl Body {
    fn to_bytes(&self) -> Vec<u8> {
        let (id, expires, user) = (self.id.to_be_bytes(), self.expires_ms.to_be_bytes(), self.user.to_be_bytes());
        [&HEAD[..], &id, &self.nonce, &expires, &user, &self.digest].concat()
    }

    fn parse(bytes: &[u8]) -> Option<Body> {
        let rest = bytes.strip_prefix(HEAD)?;
        let (id, rest) = rest.split_first_chunk()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let (expires, rest) = rest.split_first_chunk()?;
        let (user, digest) = rest.split_first_chunk()?;
        Some(Body {
            id: u32::from_be_bytes(*id),
            nonce: *nonce,
            expires_ms: u64::from_be_bytes(*expires),
            user: u32::from_be_bytes(*user),
            digest: digest.try_into().ok()?,
        })
    }
}

fn parse_id(id: &str) -> Option<u32> {
    let is_id = id.len() == 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_id.then(|| u32::from_str_radix(id, 16).ok()).flatten()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
