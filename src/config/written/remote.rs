//! What the configuration says of SSH: `hosts` and the `ssh` of a tool, with types, words and ranges checked.
//!
//! Like the rest of this floor it gives the verdict of the printed JSON Schema and knows nothing of other keys' values.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::object::{Object, Said, absolute_path, list, listed, map, matching, nonempty, port, seconds, text, word};
use crate::config::schema;
use crate::config::tree::{Member, Node, Problems};
use crate::config::written::{NAME_EXPECTED, argv, environment, is_name};
use crate::policy::rules::{HostKeyPolicy, Tie};

/// The longest remote user: what any system's accounts may have.
const USER_BYTES_MAX: usize = 256;

/// One of `hosts`.
#[derive(Debug)]
pub struct HostWritten<'n> {
    /// Its key.
    pub name: Said<&'n str>,
    /// `address`.
    pub address: Option<Said<&'n str>>,
    /// `port`.
    pub port: Option<u16>,
    /// `user`.
    pub user: Option<&'n str>,
    /// `auth`.
    pub auth: Option<AuthWritten<'n>>,
    /// `host_key`.
    pub host_key: Option<Said<HostKeyPolicy>>,
    /// `known_hosts`; `Some(None)` if it was reported.
    pub known_hosts: Option<Option<Said<PathBuf>>>,
    /// `fingerprints`.
    pub fingerprints: Vec<&'n str>,
    /// `tie`.
    pub tie: Option<Tie>,
}

/// `auth` of a host.
#[derive(Debug)]
pub enum AuthWritten<'n> {
    /// `key`.
    Key {
        /// `key`, the name of a credential.
        credential: Said<&'n str>,
        /// `passphrase`, the name of a credential.
        passphrase: Option<Said<&'n str>>,
        /// `certificate`.
        certificate: Option<Said<PathBuf>>,
    },
    /// `agent`.
    Agent {
        /// `identity`.
        identity: Said<PathBuf>,
    },
    /// `password`, the name of a credential.
    Password(Said<&'n str>),
}

/// `ssh` of a tool.
#[derive(Debug)]
pub struct SshWritten<'n> {
    /// Where the key `ssh` stands.
    pub key_at: usize,
    /// The whole of it.
    pub node: &'n Node,
    /// `host`.
    pub host: Option<Said<&'n str>>,
    /// `argv`, never empty.
    pub argv: Vec<Said<&'n str>>,
    /// `env`.
    pub env: Vec<(Said<&'n str>, &'n str)>,
    /// `cwd`.
    pub cwd: Option<&'n str>,
    /// `stdin`.
    pub stdin: Option<&'n str>,
    /// `timeout_s` inside.
    pub timeout: Option<Said<Duration>>,
}

/// Reads `hosts`.
pub fn hosts<'n>(node: &'n Node, problems: &mut Problems) -> Vec<HostWritten<'n>> {
    let members = map(node, problems).unwrap_or_default();
    members.iter().filter_map(|member| host(member, problems)).collect()
}

fn host<'n>(member: &'n Member, problems: &mut Problems) -> Option<HostWritten<'n>> {
    if !is_name(&member.key) {
        problems.add(member.key_at, NAME_EXPECTED);
    }
    let object = Object::open(&member.node, &schema::HOST, problems)?;
    let policies = [("strict", HostKeyPolicy::Strict), ("accept-new", HostKeyPolicy::AcceptNew)];
    let host_key = object.node("host_key");
    Some(HostWritten {
        name: Said { value: &member.key, at: member.key_at },
        address: object.needed("address", problems).and_then(|node| nonempty(node, problems)),
        port: object.node("port").and_then(|node| port(node, problems)),
        user: object.needed("user", problems).and_then(|node| user(node, problems)),
        auth: object.needed("auth", problems).and_then(|node| auth(node, problems)),
        host_key: host_key.and_then(|node| word(node, &policies, problems).map(|value| Said { value, at: node.at })),
        known_hosts: object.node("known_hosts").map(|node| said_path(node, problems)),
        fingerprints: object.node("fingerprints").map(|node| fingerprints(node, problems)).unwrap_or_default(),
        tie: object.node("tie").and_then(|node| word(node, &[("stdin", Tie::Stdin), ("none", Tie::None)], problems)),
    })
}

/// Visible ASCII: neither white space nor a control, and no option to whatever reads it.
fn user<'n>(node: &'n Node, problems: &mut Problems) -> Option<&'n str> {
    let expected = "a user name of visible ASCII that does not begin with -";
    let fits = |text: &str| {
        (1..=USER_BYTES_MAX).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    matching(node, expected, fits, problems).map(|said| said.value)
}

fn auth<'n>(node: &'n Node, problems: &mut Problems) -> Option<AuthWritten<'n>> {
    let object = Object::open(node, &schema::AUTH, problems)?;
    let ways = ["key", "agent", "password"];
    let said = ways.into_iter().filter(|way| object.node(way).is_some()).count();
    let is_key = object.node("key").is_some();
    if said != 1 {
        problems.add(object.at, format!("expected exactly one of {}", listed(&ways)));
    }
    for member in ["passphrase", "certificate"].into_iter().filter_map(|key| object.member(key)).filter(|_| !is_key) {
        problems.add(member.key_at, format!("\"{}\" is for \"key\" only", member.key));
    }
    let mut name = |key| object.node(key).and_then(|node| nonempty(node, problems));
    let (key, passphrase, password) = (name("key"), name("passphrase"), name("password"));
    let certificate = object.node("certificate").and_then(|node| said_path(node, problems));
    let agent = object.node("agent").and_then(|node| agent(node, problems));
    let key = key.map(|credential| AuthWritten::Key { credential, passphrase, certificate });
    key.or(agent).or(password.map(AuthWritten::Password))
}

fn agent<'n>(node: &'n Node, problems: &mut Problems) -> Option<AuthWritten<'n>> {
    let object = Object::open(node, &schema::AGENT, problems)?;
    let identity = object.needed("identity", problems).and_then(|node| said_path(node, problems))?;
    Some(AuthWritten::Agent { identity })
}

fn said_path(node: &Node, problems: &mut Problems) -> Option<Said<PathBuf>> {
    absolute_path(node, problems).map(|value| Said { value, at: node.at })
}

/// An empty list would read as "no key" and mean "every known key".
fn fingerprints<'n>(node: &'n Node, problems: &mut Problems) -> Vec<&'n str> {
    let nodes = list(node, problems);
    if nodes.is_some_and(<[Node]>::is_empty) {
        problems.add(node.at, "expected at least one fingerprint; leave \"fingerprints\" out to go by \"known_hosts\" alone");
    }
    let expected = "a fingerprint as ssh-keygen -lf shows it, SHA256: and 43 characters";
    let one = |node| matching(node, expected, is_fingerprint, problems).map(|said| said.value);
    nodes.unwrap_or_default().iter().filter_map(one).collect()
}

/// Base64 of 32 bytes without padding: 43 characters, of which the last carries four bits and two zeros.
fn is_fingerprint(text: &str) -> bool {
    let Some(digest) = text.strip_prefix("SHA256:") else { return false };
    let in_alphabet = digest.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'));
    digest.len() == 43 && in_alphabet && digest.ends_with(|last| "AEIMQUYcgkosw048".contains(last))
}

/// Reads the `ssh` of a tool.
pub fn ssh<'n>(member: &'n Member, problems: &mut Problems) -> Option<SshWritten<'n>> {
    let node = &member.node;
    let object = Object::open(node, &schema::SSH, problems)?;
    let host = object.needed("host", problems).and_then(|node| nonempty(node, problems));
    let argv = object.needed("argv", problems).and_then(|node| argv(node, problems));
    let env = object.node("env").map(|node| environment(node, problems)).unwrap_or_default();
    let absolute = |text: &str| text.starts_with('/') && !text.contains('\0');
    let cwd = object.node("cwd").and_then(|node| matching(node, "an absolute path", absolute, problems));
    let stdin = object.node("stdin").and_then(|node| text(node, problems));
    let timeout = object.node("timeout_s").and_then(|node| seconds(node, problems));
    let (cwd, stdin) = (cwd.map(|said| said.value), stdin.map(|said| said.value));
    Some(SshWritten { key_at: member.key_at, node, host, argv: argv?, env, cwd, stdin, timeout })
}
