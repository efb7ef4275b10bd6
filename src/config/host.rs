//! SSH hosts as meant: the one spelling of their address, the credentials they use, the files their keys are in.
//!
//! It may look whether a file exists, for a warning; it reads none, resolves no name and dials nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::action::host::parse_host;
use crate::config::file::{Env, base_folder};
use crate::config::meant::Credentials;
use crate::config::object::{Said, listed, nearest};
use crate::config::tree::{Problems, quote};
use crate::config::written::remote::{AuthWritten, HostWritten};
use crate::policy::rules::{HostKeyPolicy, HostRule, SshAuth, Tie};

/// Port of SSH (RFC 4253 section 4.1).
const PORT: u16 = 22;
/// The system's own file of host keys (sshd(8)).
const SYSTEM_KNOWN_HOSTS: &str = "/etc/ssh/ssh_known_hosts";

/// The hosts by name, and whether a tool uses them.
pub struct Hosts<'w> {
    entries: Vec<Entry<'w>>,
}

struct Entry<'w> {
    name: Said<&'w str>,
    /// `None` if it was reported.
    rule: Option<Arc<HostRule>>,
    used: bool,
}

impl<'w> Hosts<'w> {
    /// Reads every host; what they use of `credentials` counts as used.
    pub fn read(
        written: &'w [HostWritten<'_>],
        env: Env<'_>,
        credentials: &mut Credentials<'_>,
        problems: &mut Problems,
        warnings: &mut Problems,
    ) -> Self {
        let mut entry = |one: &'w HostWritten<'_>| {
            let rule = host_rule(one, env, credentials, problems);
            warn(one, rule.as_ref(), warnings);
            Entry { name: one.name, rule: rule.map(Arc::new), used: false }
        };
        Hosts { entries: written.iter().map(&mut entry).collect() }
    }

    /// The host a tool names; `None` after a report.
    pub fn for_tool(&mut self, name: Said<&str>, problems: &mut Problems) -> Option<Arc<HostRule>> {
        match self.entries.iter_mut().find(|entry| entry.name.value == name.value) {
            Some(entry) => {
                entry.used = true;
                entry.rule.clone()
            }
            None => {
                problems.add(name.at, format!("no host {}, {}", quote(name.value), self.known(name.value)));
                None
            }
        }
    }

    fn known(&self, name: &str) -> String {
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.name.value).collect();
        match nearest(name, &names) {
            _ if names.is_empty() => "none is configured".to_owned(),
            Some(near) => format!("nearest is {}", quote(near)),
            None => format!("expected one of {}", listed(&names)),
        }
    }

    /// Says which hosts are of no use.
    pub fn warn_unused(&self, warnings: &mut Problems) {
        for entry in self.entries.iter().filter(|entry| !entry.used) {
            warnings.add(entry.name.at, "no tool uses this host");
        }
    }

    /// The sound ones, in the order of the file.
    pub fn into_rules(self) -> Vec<Arc<HostRule>> {
        self.entries.into_iter().filter_map(|entry| entry.rule).collect()
    }
}

fn host_rule(
    written: &HostWritten<'_>,
    env: Env<'_>,
    credentials: &mut Credentials<'_>,
    problems: &mut Problems,
) -> Option<HostRule> {
    let address =
        written.address.and_then(|said| parse_host(said.value).map_err(|problem| problems.add(said.at, problem)).ok());
    let auth = written.auth.as_ref().and_then(|auth| self::auth(auth, credentials, problems));
    let known_hosts = known_hosts(written, env, problems);
    Some(HostRule {
        name: written.name.value.to_owned(),
        address: address?,
        port: written.port.unwrap_or(PORT),
        user: written.user?.to_owned(),
        auth: auth?,
        host_key: written.host_key.map_or(HostKeyPolicy::Strict, |said| said.value),
        known_hosts: known_hosts?,
        fingerprints: written.fingerprints.iter().map(|one| (*one).to_owned()).collect(),
        tie: written.tie.unwrap_or(Tie::Stdin),
    })
}

fn auth(written: &AuthWritten<'_>, credentials: &mut Credentials<'_>, problems: &mut Problems) -> Option<SshAuth> {
    let mut named = |name: &Said<&str>| credentials.for_host(*name, problems).then(|| name.value.to_owned());
    match written {
        AuthWritten::Key { credential, passphrase, certificate } => {
            let (credential, passphrase) = (named(credential), passphrase.as_ref().map(named));
            let passphrase = match passphrase {
                Some(passphrase) => Some(passphrase?),
                None => None,
            };
            let certificate = certificate.as_ref().map(|said| said.value.clone());
            Some(SshAuth::Key { credential: credential?, passphrase, certificate })
        }
        AuthWritten::Agent { identity } => Some(SshAuth::Agent { identity: identity.value.clone() }),
        AuthWritten::Password(credential) => Some(SshAuth::Password { credential: named(credential)? }),
    }
}

/// Pinned keys need no file of the user's; without either nothing could ever be accepted.
fn known_hosts(written: &HostWritten<'_>, env: Env<'_>, problems: &mut Problems) -> Option<PathBuf> {
    if let Some(said) = &written.known_hosts {
        return said.as_ref().map(|said| said.value.clone());
    }
    match base_folder(env, "HOME", "") {
        Some(home) => Some(home.join(".ssh/known_hosts")),
        None if !written.fingerprints.is_empty() => Some(PathBuf::from(SYSTEM_KNOWN_HOSTS)),
        None => {
            problems.add(written.name.at, "missing key \"known_hosts\", which has no default without an absolute $HOME");
            None
        }
    }
}

/// Files may come later, so what is missing is no problem yet.
fn warn(written: &HostWritten<'_>, rule: Option<&HostRule>, warnings: &mut Problems) {
    let mut missing = |said: &Said<PathBuf>, what: &str| {
        if !is_file(&said.value) {
            warnings.add(said.at, format!("no {what} there"));
        }
    };
    match &written.auth {
        Some(AuthWritten::Key { certificate: Some(certificate), .. }) => missing(certificate, "certificate"),
        Some(AuthWritten::Agent { identity }) => missing(identity, "public key"),
        Some(AuthWritten::Key { certificate: None, .. } | AuthWritten::Password(_)) | None => {}
    }
    let pinned = !written.fingerprints.is_empty();
    let accepts_new = written.host_key.filter(|said| said.value == HostKeyPolicy::AcceptNew);
    if let (true, Some(said)) = (pinned, accepts_new) {
        warnings.add(said.at, "\"accept-new\" says nothing beside \"fingerprints\": only those are accepted");
    }
    if let Some(rule) = rule.filter(|rule| !pinned && accepts_new.is_none() && !is_file(&rule.known_hosts)) {
        let at = written.known_hosts.iter().flatten().next().map_or(written.name.at, |said| said.at);
        warnings.add(at, format!("no file {}: every host key will be refused", quote(&rule.known_hosts.to_string_lossy())));
    }
}

fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_dir())
}
