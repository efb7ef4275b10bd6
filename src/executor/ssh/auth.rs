//! Proving who we are: one method, as configured, and one attempt a call.
//!
//! What can be known to fail (no key, an encrypted one without its passphrase, an agent without the identity) fails before
//! anything is asked of the server. Secrets are handed to libssh2 and kept nowhere; its copies are its own.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libssh2_sys as raw;
use ssh2::{Error, ErrorCode};
use zeroize::Zeroizing;

use crate::executor::credential::Credential;
use crate::executor::ssh::agent::{Agent, AgentError};
use crate::executor::ssh::failure::{Phase, place, short, stopped};
use crate::executor::ssh::session::{Limit, Link, Stop};
use crate::executor::ssh::{Handed, known_hosts};
use crate::outcome::result::{Code, Executed, Failure};
use crate::policy::rules::{HostRule, SshAuth};
use crate::secret::Secret;
use crate::sys::ssh::{Signing, text, userauth_methods, userauth_signed, would_wait};

/// A public key or certificate file.
const PUBLIC_BYTES: u64 = 64 << 10;
/// How long a server may take to say what it would have accepted; the answer only makes a text better.
const METHODS_WAIT: Duration = Duration::from_secs(1);

/// What is shown to the server, checked as far as can be without it.
pub(super) struct Login<'a> {
    host: &'a HostRule,
    means: Means,
}

enum Means {
    Key { private: Zeroizing<String>, passphrase: Option<Credential>, certificate: Option<String> },
    Agent { socket: PathBuf, blob: Vec<u8>, identity: PathBuf },
    Password(Credential),
}

impl<'a> Login<'a> {
    /// Prepares the configured method. `agent` is the agent's socket.
    pub(super) fn prepare(host: &'a HostRule, secrets: Handed, agent: Option<&Path>) -> Result<Self, Failure> {
        let means = match &host.auth {
            SshAuth::Key { credential, certificate, .. } => {
                let secret = main(secrets.main, credential)?;
                let private = private_key(&secret, secrets.passphrase.is_some(), credential)?;
                let certificate = certificate.as_deref().map(public_file).transpose()?;
                Means::Key { private, passphrase: secrets.passphrase, certificate }
            }
            SshAuth::Agent { identity } => {
                let socket = agent.ok_or_else(|| refused("no agent: SSH_AUTH_SOCK was not set when the gateway started"))?;
                let blob = public_blob(&public_file(identity)?).ok_or_else(|| {
                    refused(format!("expected a public key or certificate in {}, got something else", identity.display()))
                })?;
                Means::Agent { socket: socket.to_owned(), blob, identity: identity.clone() }
            }
            SshAuth::Password { credential } => Means::Password(main(secrets.main, credential)?),
        };
        Ok(Login { host, means })
    }

    /// Logs in.
    pub(super) fn run(&self, link: &Link, limit: Limit<'_>) -> Result<(), Failure> {
        let (host, session) = (self.host, link.session());
        let result = match &self.means {
            Means::Key { private, passphrase, certificate } => {
                let passphrase = passphrase.as_ref().map(|secret| utf8(secret, "the passphrase")).transpose()?;
                link.drive(limit, || session.userauth_pubkey_memory(&host.user, certificate.as_deref(), private, passphrase))
            }
            Means::Password(secret) => {
                let password = utf8(secret, "the password")?;
                link.drive(limit, || session.userauth_password(&host.user, password))
            }
            Means::Agent { socket, blob, identity } => return self.by_agent(link, socket, blob, identity, limit),
        };
        result.map_err(|stop| self.failed(stop, link, limit))
    }

    fn by_agent(&self, link: &Link, socket: &Path, blob: &[u8], identity: &Path, limit: Limit<'_>) -> Result<(), Failure> {
        let broken = |error| self.agent_failed(error, socket);
        let mut agent = Agent::connect(socket, limit).map_err(broken)?;
        if !agent.holds(blob).map_err(broken)? {
            return Err(refused(format!(
                "the agent at {} does not hold the identity {}; ssh-add would help",
                socket.display(),
                identity.display()
            )));
        }
        let user = text(&self.host.user).map_err(|error| self.failed(Stop::Failed(error), link, limit))?;
        let mut signing = Signing::default();
        loop {
            limit.check().map_err(|stop| self.failed(stop, link, limit))?;
            match userauth_signed(link.session(), &user, blob, &mut signing) {
                Ok(()) => return Ok(()),
                Err(error) if would_wait(&error) => match (&signing.asked, &signing.signature) {
                    (Some(asked), None) => signing.signature = Some(agent.sign(blob, asked).map_err(broken)?),
                    _ => link.wait(limit, None).map_err(|stop| self.failed(stop, link, limit))?,
                },
                Err(error) => return Err(self.failed(Stop::Failed(error), link, limit)),
            }
        }
    }

    fn agent_failed(&self, error: AgentError, socket: &Path) -> Failure {
        match error {
            AgentError::Stopped(stop) => stopped(stop, Phase::LoggingIn, self.host),
            error => refused(format!("the agent at {}: {error}", socket.display())),
        }
    }

    fn failed(&self, stop: Stop, link: &Link, limit: Limit<'_>) -> Failure {
        let error = match stop {
            // A socket that `kill_now` shut down is no failure of the peer.
            _ if limit.token.is_cancelled() => return stopped(Stop::Cancelled, Phase::LoggingIn, self.host),
            Stop::Failed(error) => error,
            other => return stopped(other, Phase::LoggingIn, self.host),
        };
        let ErrorCode::Session(number) = error.code() else {
            return stopped(Stop::Failed(error), Phase::LoggingIn, self.host);
        };
        match number {
            raw::LIBSSH2_ERROR_AUTHENTICATION_FAILED
            | raw::LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED
            | raw::LIBSSH2_ERROR_PASSWORD_EXPIRED
            | raw::LIBSSH2_ERROR_ALGO_UNSUPPORTED
                if !link.is_closed() =>
            {
                refused(self.rejected(link, limit, &error))
            }
            // Found before anything was sent of the key.
            raw::LIBSSH2_ERROR_FILE
            | raw::LIBSSH2_ERROR_KEYFILE_AUTH_FAILED
            | raw::LIBSSH2_ERROR_DECRYPT
            | raw::LIBSSH2_ERROR_INVAL
            | raw::LIBSSH2_ERROR_METHOD_NONE
            | raw::LIBSSH2_ERROR_METHOD_NOT_SUPPORTED => refused(self.unusable(&error)),
            _ => stopped(Stop::Failed(error), Phase::LoggingIn, self.host),
        }
    }

    /// libssh2 could not read the key: nothing was sent of it.
    fn unusable(&self, error: &Error) -> String {
        match &self.means {
            Means::Key { passphrase: Some(_), .. } => {
                "the private key could not be decrypted: the passphrase is wrong, or the key's cipher is not supported"
                    .to_owned()
            }
            Means::Key { certificate: Some(_), .. } => {
                format!("the private key or its certificate cannot be used: {}", short(error.message()))
            }
            _ => format!("the private key cannot be used: {}", short(error.message())),
        }
    }

    fn rejected(&self, link: &Link, limit: Limit<'_>, error: &Error) -> String {
        let (host, method) = (self.host, self.method());
        let offers = text(&host.user).ok().and_then(|user| offered(link, &user, limit));
        let offers = offers.map_or_else(|| short(error.message()), |list| format!("it offers {}", short(&list)));
        format!("{} refuses the {method} for the user {}; {offers}", place(host), host.user)
    }

    fn method(&self) -> &'static str {
        match &self.means {
            Means::Key { certificate: None, .. } => "key (publickey)",
            Means::Key { certificate: Some(_), .. } => "certificate (publickey)",
            Means::Agent { .. } => "agent's key (publickey)",
            Means::Password(_) => "password",
        }
    }
}

/// The methods the server names. It counts this as one more failed attempt; the session is thrown away after it.
fn offered(link: &Link, user: &CString, limit: Limit<'_>) -> Option<String> {
    link.drive(limit.at_most(METHODS_WAIT), || userauth_methods(link.session(), user)).ok()
}

fn refused(message: impl Into<String>) -> Failure {
    Failure::new(Code::AuthFailed, Executed::No, message)
}

fn main(secret: Option<Credential>, credential: &str) -> Result<Credential, Failure> {
    secret.ok_or_else(|| {
        Failure::new(Code::CredentialUnavailable, Executed::No, format!("the credential {credential} was not handed out"))
    })
}

fn utf8<'s>(secret: &'s Secret, what: &str) -> Result<&'s str, Failure> {
    let text = str::from_utf8(secret.expose()).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| refused(format!("expected {what} as UTF-8 text without NUL, got other bytes")))
}

/// The key's text as libssh2 wants it, if it can be a key and its passphrase is there where it needs one.
fn private_key(secret: &Secret, has_passphrase: bool, credential: &str) -> Result<Zeroizing<String>, Failure> {
    let text = utf8(secret, "a private key")?;
    match Wrapping::of(text) {
        Some(Wrapping::Encrypted) if !has_passphrase => {
            Err(refused(format!("the private key in {credential} is encrypted, and no passphrase is configured for it")))
        }
        Some(_) => {
            let mut private = Zeroizing::new(String::with_capacity(text.len() + 1));
            private.push_str(text.trim_end());
            // OpenSSH's format ends with a line feed, or it is not read.
            private.push('\n');
            Ok(private)
        }
        None => Err(refused(format!("expected a private key in {credential} (OpenSSH, PEM or PKCS#8), got something else"))),
    }
}

/// Whether a private key is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrapping {
    Plain,
    Encrypted,
}

impl Wrapping {
    /// `None` if it is no private key.
    fn of(text: &str) -> Option<Wrapping> {
        let (_, body) = text.split_once("-----BEGIN ")?;
        let (label, body) = body.split_once("-----")?;
        if !label.ends_with("PRIVATE KEY") {
            return None;
        }
        let encrypted = match label {
            "OPENSSH PRIVATE KEY" => openssh_cipher(body)? != b"none",
            "ENCRYPTED PRIVATE KEY" => true,
            // RFC 1421 section 4.6.1.1.
            _ => body.lines().take(4).any(|line| line.starts_with("Proc-Type:") && line.contains("ENCRYPTED")),
        };
        Some(if encrypted { Wrapping::Encrypted } else { Wrapping::Plain })
    }
}

/// The cipher's name at the beginning of OpenSSH's own format (PROTOCOL.key).
fn openssh_cipher(body: &str) -> Option<Vec<u8>> {
    const MAGIC: &[u8] = b"openssh-key-v1\0";
    // The first 48 characters are 36 bytes: the magic, a length and the longest cipher name or its beginning.
    let first: String = body.chars().filter(|c| !c.is_whitespace()).take(48).collect();
    let bytes = STANDARD.decode(first).ok()?;
    let (length, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    Some(rest[..length.min(rest.len())].to_vec())
}

fn public_file(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(PUBLIC_BYTES).read_to_string(&mut text));
    read.map_err(|error| refused(format!("the public file {} cannot be read: {error}", path.display())))?;
    Ok(text)
}

/// The blob of a `TYPE BASE64 COMMENT` line.
fn public_blob(text: &str) -> Option<Vec<u8>> {
    let mut words = text.split_ascii_whitespace();
    let (kind, blob) = (words.next()?, STANDARD.decode(words.next()?).ok()?);
    (known_hosts::algorithm(&blob) == Some(kind)).then_some(blob)
}
