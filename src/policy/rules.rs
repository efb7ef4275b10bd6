//! What the configuration allows, as plain data.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::action::Tool;
use crate::action::http::Scheme;
use crate::action::template::argv::Dash;
use crate::policy::shape::Shape;

/// The tools with their rules, ordered by name.
#[derive(Debug, Default)]
pub struct Toolbox {
    tools: Vec<(Tool, ToolRule)>,
}

impl Toolbox {
    /// Orders the tools. The configuration has made sure that names are unique.
    pub fn new(mut tools: Vec<(Tool, ToolRule)>) -> Toolbox {
        tools.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        Toolbox { tools }
    }

    /// The tool of exactly this name, with its rule.
    pub fn find(&self, name: &str) -> Option<(&Tool, &ToolRule)> {
        let index = self.tools.binary_search_by(|(tool, _)| tool.name.as_str().cmp(name)).ok()?;
        self.tools.get(index).map(|(tool, rule)| (tool, rule))
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Tool, &ToolRule)> {
        self.tools.iter().map(|(tool, rule)| (tool, rule))
    }
}

/// The terms under which one tool runs.
#[derive(Debug, Clone)]
pub struct ToolRule {
    /// The credential its request carries, if any.
    pub credential: Option<Arc<CredentialRule>>,
    /// The host its remote command goes to, if it is one. What a host asks for by way of credentials is its own.
    pub host: Option<Arc<HostRule>>,
    /// Serialised bytes of one result, text block and structured copy together.
    pub content_bytes: usize,
    /// What becomes of a command whose output outgrows that.
    pub at_limit: AtLimit,
    /// From admission to outcome.
    pub timeout: Duration,
    /// What may be done with it.
    pub allow: Allow,
    /// How often, and how many at once.
    pub pace: Pace,
    /// Whether a human is asked first.
    pub confirm: Confirm,
}

/// Whether a human is asked before an action is carried out: `confirm`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Confirm {
    /// Nobody is asked.
    #[default]
    Never,
    /// Each time.
    Ask,
    /// Until somebody said yes to this tool on this target for as long as the process lives.
    Session,
}

/// What may be done with a tool.
#[derive(Debug, Clone, Default)]
pub enum Allow {
    /// What it was declared with, whose target is fixed; of the gateway's own tools, `read_result`.
    #[default]
    AsDeclared,
    /// Requests that one of these rules matches: `http_request`.
    Requests(Vec<RequestRule>),
    /// Commands that these rules match: `ssh_exec`.
    Commands(CommandRules),
}

/// One of `builtin.http_request.allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRule {
    /// Where a request may go.
    pub scope: Scope,
    /// With which methods, upper case; never empty.
    pub methods: Vec<String>,
    /// The credential it carries, within that credential's own scopes.
    pub credential: Option<Arc<CredentialRule>>,
}

/// Of `builtin.ssh_exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRules {
    /// Where commands may run.
    pub hosts: Vec<Arc<HostRule>>,
    /// Which commands: `allow`.
    pub shapes: Vec<Shape>,
    /// Whether what a `*` stands for may begin with `-`: `allow_dash`.
    pub dash: Dash,
}

/// How often a tool is used, and how many calls of it run at once; each absent where nothing was said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pace {
    /// `rate`.
    pub rate: Option<Rate>,
    /// `max_concurrent`, at least 1.
    pub max_concurrent: Option<usize>,
}

/// How often a tool is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Calls that come back within a minute, at least 1.
    pub per_minute: u32,
    /// Calls that are there at the beginning, and the most that are ever saved up, at least 1.
    pub burst: u32,
}

/// What becomes of a command whose output outgrows the content limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtLimit {
    /// It runs on; what it says is read, and counted.
    Drain,
    /// It is told to end: the tool's `stop_at_limit`.
    Stop,
}

/// Where a credential goes and what it is for. Its value is elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRule {
    /// Its name in the configuration; a handle, safe to show.
    pub name: String,
    /// How it is put on a request.
    pub placement: Placement,
    /// Where it may be sent; nowhere else. Never empty for a credential a tool uses.
    pub scopes: Vec<Scope>,
}

/// How a credential is put on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// `authorization: Bearer VALUE` (RFC 6750 section 2.1).
    Bearer,
    /// A header of its own: `NAME: PREFIX VALUE`.
    Header {
        /// Lower-case field name.
        name: String,
        /// Stands before the value, with its own space if it wants one.
        prefix: String,
    },
}

/// One place a credential may be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Scheme the request must use: https, or http for a loopback host.
    pub scheme: Scheme,
    /// Lower-case host, compared whole.
    pub host: String,
    /// Port, compared whole.
    pub port: u16,
    /// Path prefixes, compared by segment; empty means every path.
    pub paths: Vec<String>,
}

/// Which addresses beyond the public ones may be dialled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    /// `networks` of the configuration.
    pub ranges: Vec<Network>,
}

/// An address range in CIDR notation (RFC 4632, RFC 4291 section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The network address, host bits zero.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub prefix: u8,
}

/// One SSH host, as configured under `hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    /// Its name in the configuration; safe to show.
    pub name: String,
    /// Lower-case host name or IP literal that is dialled.
    pub address: String,
    /// TCP port.
    pub port: u16,
    /// Remote user.
    pub user: String,
    /// How we prove who we are.
    pub auth: SshAuth,
    /// What an unknown host key does.
    pub host_key: HostKeyPolicy,
    /// File in the format of sshd(8) SSH_KNOWN_HOSTS; absolute.
    pub known_hosts: PathBuf,
    /// Pinned keys as `SHA256:BASE64` (ssh-keygen -lf); if there are any, only these are accepted.
    pub fingerprints: Vec<String>,
    /// How a remote command is made to end with us.
    pub tie: Tie,
}

/// How we prove who we are. Values are credentials by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SshAuth {
    /// A private key.
    Key {
        /// The credential that holds the key file's text.
        credential: String,
        /// The credential that holds its passphrase, if it is encrypted.
        passphrase: Option<String>,
        /// A user certificate (`-cert.pub`) file; absolute.
        certificate: Option<PathBuf>,
    },
    /// One identity of the agent at $SSH_AUTH_SOCK.
    Agent {
        /// The identity's public key (or certificate) file; absolute. No other identity is offered.
        identity: PathBuf,
    },
    /// A password.
    Password {
        /// The credential that holds it.
        credential: String,
    },
}

impl SshAuth {
    /// The credential that proves who we are: the key or the password. An agent keeps its own.
    pub fn credential(&self) -> Option<&str> {
        match self {
            SshAuth::Key { credential, .. } | SshAuth::Password { credential } => Some(credential),
            SshAuth::Agent { .. } => None,
        }
    }

    /// The credential that opens the key.
    pub fn passphrase(&self) -> Option<&str> {
        match self {
            SshAuth::Key { passphrase, .. } => passphrase.as_deref(),
            SshAuth::Password { .. } | SshAuth::Agent { .. } => None,
        }
    }
}

/// What a host key that nobody knows does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKeyPolicy {
    /// It is refused.
    Strict,
    /// It is stored after a successful login, if no key of this host is known at all.
    AcceptNew,
}

/// How a remote command is made to end with us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// A wrapper (`exec sh -c`, POSIX) ends it when its stdin does: on cancel, time-out, and a cut connection.
    Stdin,
    /// Nothing: the outcome of a cancelled command says `detached`.
    None,
}
