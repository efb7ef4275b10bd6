//! Is this the host we mean? Decided after the key exchange and before anything of ours is shown to it.
//!
//! A key is good if it is pinned, or known. One that nobody knows is good only with `accept-new`, and is stored after the login.

use crate::executor::ssh::failure::place;
use crate::executor::ssh::known_hosts::store::{NotStored, store};
use crate::executor::ssh::known_hosts::{self, Known, Verdict, algorithm, fingerprint};
use crate::executor::ssh::session::Limit;
use crate::outcome::result::{Code, Executed, Failure};
use crate::policy::rules::{HostKeyPolicy, HostRule};

/// Plain host key types, best first, and the algorithms they sign with (RFC 8332 for RSA). No certificates: an authority is
/// not evaluated here.
const TYPES: &[(&str, &str)] = &[
    ("ssh-ed25519", "ssh-ed25519"),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256"),
    ("ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384"),
    ("ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521"),
    ("ssh-rsa", "rsa-sha2-512,rsa-sha2-256"),
];

/// A key that may be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Pinned or known.
    Known,
    /// Nobody knows it; to be stored once the login has worked.
    New,
}

/// What is known of a host, read once a connection.
pub(super) struct Judge<'a> {
    host: &'a HostRule,
    known: Known,
}

impl<'a> Judge<'a> {
    /// Reads the known_hosts file. One that is there but cannot be used fails: it may say that a key is revoked.
    pub(super) fn new(host: &'a HostRule) -> Result<Self, Failure> {
        let file = known_hosts::read(&host.known_hosts).map_err(|why| {
            let message = format!("the known hosts file {} cannot be used: {why}", host.known_hosts.display());
            Failure::new(Code::HostKeyUnknown, Executed::No, message)
        })?;
        Ok(Judge { host, known: known_hosts::look_up(&file, &host.address, host.port) })
    }

    /// Host key algorithms to ask for: first those of the known keys, so that a server with more keys shows one of these.
    pub(super) fn algorithms(&self) -> String {
        let is_known = |kind: &str| self.known.keys.iter().chain(&self.known.bare).any(|entry| entry.algorithm == kind);
        let known = TYPES.iter().filter(|(kind, _)| is_known(kind));
        let others = TYPES.iter().filter(|(kind, _)| !is_known(kind));
        known.chain(others).map(|(_, signs)| *signs).collect::<Vec<_>>().join(",")
    }

    /// Decides about the key that came.
    pub(super) fn judge(&self, blob: &[u8]) -> Result<Trust, Failure> {
        if self.host.fingerprints.is_empty() {
            return self.verdict(self.known.verdict(blob), blob);
        }
        if let Some(line) = self.known.revoked_at(blob) {
            return self.verdict(Verdict::Revoked { line }, blob);
        }
        let came = fingerprint(blob);
        let pinned = self.host.fingerprints.iter().any(|pin| pin.trim_end_matches('=') == came);
        if pinned { Ok(Trust::Known) } else { Err(self.not_pinned(blob)) }
    }

    fn verdict(&self, verdict: Verdict, blob: &[u8]) -> Result<Trust, Failure> {
        match (verdict, self.host.host_key) {
            (Verdict::Match, _) => Ok(Trust::Known),
            (Verdict::Unknown, HostKeyPolicy::AcceptNew) => Ok(Trust::New),
            (refused, _) => Err(self.refusal(&refused, blob)),
        }
    }

    fn refusal(&self, verdict: &Verdict, blob: &[u8]) -> Failure {
        let (place, came, file) = (place(self.host), shown(blob), self.host.known_hosts.display());
        let (code, message) = match verdict {
            Verdict::Match | Verdict::Unknown => (
                Code::HostKeyUnknown,
                format!(
                    "no key of {place} is known; it shows {came}; compare this with the host's own (ssh-keygen -lf) and add it \
                     to {file}, or pin it in the configuration"
                ),
            ),
            Verdict::Changed(entry) => (
                Code::HostKeyChanged,
                format!(
                    "{place} shows {came}, but line {} of {file} knows {}; either the host was set up anew, or somebody is in \
                     between: ask its administrator, then replace the line",
                    entry.line,
                    shown(&entry.blob)
                ),
            ),
            Verdict::Revoked { line } => (
                Code::HostKeyChanged,
                format!("{place} shows {came}, which line {line} of {file} has revoked; the host needs a new key"),
            ),
            Verdict::CertAuthority { line } => (
                Code::HostKeyUnknown,
                format!(
                    "{place} is known by a certificate authority alone (line {line} of {file}), and host certificates are not \
                     supported; it shows {came}; add this key to the file, or pin it in the configuration"
                ),
            ),
        };
        Failure::new(code, Executed::No, message)
    }

    fn not_pinned(&self, blob: &[u8]) -> Failure {
        let message = format!(
            "{} shows {}, which is none of the pinned keys; if the host has several keys, pin the one of this type as well",
            place(self.host),
            shown(blob)
        );
        Failure::new(Code::HostKeyChanged, Executed::No, message)
    }

    /// Stores a new key, after the login. A key that cannot be stored is not accepted: the next call could not tell it apart.
    pub(super) fn remember(&self, blob: &[u8], limit: Limit<'_>) -> Result<(), Failure> {
        let host = self.host;
        let kind = algorithm(blob).unwrap_or_default();
        store(&host.known_hosts, (&host.address, host.port), (kind, blob), limit.token, limit.until).map_err(|why| match why {
            NotStored::Conflict(verdict) => self.refusal(&verdict, blob),
            NotStored::Interrupted if limit.token.is_cancelled() => Failure::cancelled(Executed::No, None),
            why => {
                let message = format!(
                    "the new key of {} could not be stored in {}, so it is not accepted: {why}",
                    place(host),
                    host.known_hosts.display()
                );
                Failure::new(Code::HostKeyUnknown, Executed::No, message)
            }
        })
    }
}

/// `ssh-ed25519 SHA256:...`.
fn shown(blob: &[u8]) -> String {
    format!("{} {}", algorithm(blob).unwrap_or("an unknown kind of key"), fingerprint(blob))
}
