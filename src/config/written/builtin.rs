//! What the configuration says of `builtin`, and of the pace of any tool, with types and ranges checked.
//!
//! Like the rest of this floor it gives the verdict of the printed JSON Schema and knows nothing of other keys' values.

use std::time::Duration;

use crate::config::object::{Object, Said, flag, list, nonempty, seconds, whole};
use crate::config::schema;
use crate::config::tree::{Member, Node, Problems};
use crate::config::written::approvals::confirm;
use crate::config::written::{ScopeWritten, all, argv, content_bytes, scope_of};
use crate::limits::{CALLS, RATE_BURST_MAX, RATE_PER_MINUTE_MAX};
use crate::policy::rules::{Confirm, Pace, Rate};

/// `builtin`.
#[derive(Debug, Default)]
pub struct BuiltinWritten<'n> {
    /// `http_request`.
    pub http_request: Option<HttpRequestWritten<'n>>,
    /// `ssh_exec`.
    pub ssh_exec: Option<SshExecWritten<'n>>,
}

/// What is said of a builtin tool beside what it may be used for.
#[derive(Debug)]
pub struct TermsWritten {
    /// `content_bytes`.
    pub content_bytes: Option<usize>,
    /// `timeout_s`.
    pub timeout: Option<Said<Duration>>,
    /// `rate` and `max_concurrent`.
    pub pace: Pace,
    /// `confirm`.
    pub confirm: Option<Confirm>,
}

/// `builtin.http_request`.
#[derive(Debug)]
pub struct HttpRequestWritten<'n> {
    /// `allow`; a rule that is not here was reported.
    pub allow: Vec<RequestRuleWritten<'n>>,
    /// Its terms.
    pub terms: TermsWritten,
}

/// One of `builtin.http_request.allow`.
#[derive(Debug)]
pub struct RequestRuleWritten<'n> {
    /// `host`, `port`, `paths` and `scheme`.
    pub scope: ScopeWritten<'n>,
    /// `methods`; `None` if absent.
    pub methods: Option<Vec<Said<&'n str>>>,
    /// `credential`.
    pub credential: Option<Said<&'n str>>,
}

/// `builtin.ssh_exec`.
#[derive(Debug)]
pub struct SshExecWritten<'n> {
    /// Where the key stands.
    pub key_at: usize,
    /// `hosts`.
    pub hosts: Vec<Said<&'n str>>,
    /// `allow`: shapes, none of them empty.
    pub allow: Vec<Vec<Said<&'n str>>>,
    /// `allow_dash`.
    pub allow_dash: Option<Said<bool>>,
    /// `stop_at_limit`.
    pub stop_at_limit: Option<Said<bool>>,
    /// Its terms.
    pub terms: TermsWritten,
}

/// Reads `builtin`.
pub fn builtin<'n>(node: &'n Node, problems: &mut Problems) -> Option<BuiltinWritten<'n>> {
    let object = Object::open(node, &schema::BUILTIN, problems)?;
    Some(BuiltinWritten {
        http_request: object.node("http_request").and_then(|node| http_request(node, problems)),
        ssh_exec: object.member("ssh_exec").and_then(|member| ssh_exec(member, problems)),
    })
}

fn http_request<'n>(node: &'n Node, problems: &mut Problems) -> Option<HttpRequestWritten<'n>> {
    let object = Object::open(node, &schema::HTTP_REQUEST, problems)?;
    let allow = object.needed("allow", problems).and_then(|node| some(node, "rule", problems)).unwrap_or_default();
    let allow = allow.iter().filter_map(|node| request_rule(node, problems)).collect();
    Some(HttpRequestWritten { allow, terms: terms(&object, problems) })
}

fn request_rule<'n>(node: &'n Node, problems: &mut Problems) -> Option<RequestRuleWritten<'n>> {
    let object = Object::open(node, &schema::REQUEST_RULE, problems)?;
    let methods = object.node("methods").map(|node| said_texts(node, "method", problems));
    let credential = object.node("credential").map(|node| nonempty(node, problems));
    let scope = scope_of(&object, problems);
    // What was reported is not the same as what was not said.
    let credential = match credential {
        Some(credential) => Some(credential?),
        None => None,
    };
    Some(RequestRuleWritten { scope: scope?, methods, credential })
}

fn ssh_exec<'n>(member: &'n Member, problems: &mut Problems) -> Option<SshExecWritten<'n>> {
    let object = Object::open(&member.node, &schema::SSH_EXEC, problems)?;
    let hosts = object.needed("hosts", problems).map(|node| said_texts(node, "host", problems)).unwrap_or_default();
    let allow = object.needed("allow", problems).and_then(|node| some(node, "command", problems)).unwrap_or_default();
    let allow = all(allow, |node| argv(node, problems)).unwrap_or_default();
    Some(SshExecWritten {
        key_at: member.key_at,
        hosts,
        allow,
        allow_dash: object.node("allow_dash").and_then(|node| flag(node, problems)),
        stop_at_limit: object.node("stop_at_limit").and_then(|node| flag(node, problems)),
        terms: terms(&object, problems),
    })
}

fn terms(object: &Object<'_>, problems: &mut Problems) -> TermsWritten {
    TermsWritten {
        content_bytes: object.node("content_bytes").and_then(|node| content_bytes(node, problems)),
        timeout: object.node("timeout_s").and_then(|node| seconds(node, problems)),
        pace: pace(object, problems),
        confirm: confirm(object, problems),
    }
}

/// Reads `rate` and `max_concurrent` of a tool.
pub fn pace(object: &Object<'_>, problems: &mut Problems) -> Pace {
    let calls = 1..=CALLS as u64;
    let max = object.node("max_concurrent").and_then(|node| whole(node, calls, "calls at once", problems));
    let max_concurrent = max.and_then(|max| usize::try_from(max).ok());
    Pace { rate: object.node("rate").and_then(|node| rate(node, problems)), max_concurrent }
}

/// Without `burst` a minute's calls may come at once.
fn rate(node: &Node, problems: &mut Problems) -> Option<Rate> {
    let object = Object::open(node, &schema::RATE, problems)?;
    let per_minute =
        object.needed("per_minute", problems).and_then(|node| calls(node, RATE_PER_MINUTE_MAX, "calls a minute", problems));
    let burst = object.node("burst").map(|node| calls(node, RATE_BURST_MAX, "calls at once", problems));
    let burst = match burst {
        Some(burst) => burst?,
        None => per_minute?.min(RATE_BURST_MAX),
    };
    Some(Rate { per_minute: per_minute?, burst })
}

fn calls(node: &Node, most: u32, what: &str, problems: &mut Problems) -> Option<u32> {
    whole(node, 1..=u64::from(most), what, problems).and_then(|value| u32::try_from(value).ok())
}

/// A list that says something: an empty one would read as "none" to one and as "any" to another.
fn some<'n>(node: &'n Node, what: &str, problems: &mut Problems) -> Option<&'n [Node]> {
    let nodes = list(node, problems)?;
    if nodes.is_empty() {
        problems.add(node.at, format!("expected at least one {what}, got an empty array"));
    }
    Some(nodes)
}

fn said_texts<'n>(node: &'n Node, what: &str, problems: &mut Problems) -> Vec<Said<&'n str>> {
    some(node, what, problems).unwrap_or_default().iter().filter_map(|node| nonempty(node, problems)).collect()
}
