//! What the configuration says: every key of `schema.rs` read from the tree, with its type and range checked.
//!
//! This floor and the printed JSON Schema give the same verdict. It knows nothing of other keys' values, templates, schemas
//! or the machine; that is `meant.rs`. What has to do with SSH stands in `remote`, the gateway's own tools in `builtin`, asking in
//! `approvals`.

pub mod remote;
pub mod source;
pub mod builtin;
pub mod approvals;

use std::path::PathBuf;
use std::time::Duration;

use crate::action::environment::is_variable;
use crate::action::http::Scheme;
use crate::action::template::header::is_token;
use crate::config::OnMalformed;
use crate::config::object::{
    Object, Said, absolute_path, flag, list, listed, map, matching, nonempty, pairs, port, seconds, size, text, texts, whole,
    word,
};
use crate::config::schema;
use crate::config::tree::{Member, Node, Problems};
use crate::config::written::approvals::{ApprovalsWritten, approvals, confirm};
use crate::config::written::builtin::{BuiltinWritten, builtin, pace};
use crate::config::written::remote::{HostWritten, SshWritten, hosts, ssh};
use crate::config::written::source::{SourceWritten, source};
use crate::journal::append::SyncMode;
use crate::limits::{
    CALLS, CONTENT_BYTES_MAX, CONTENT_BYTES_MIN, END, JOURNAL_FILE_BYTES_MAX, JOURNAL_FILE_BYTES_MIN, JOURNAL_KEEP_DAYS_MAX,
    LINE_IN_BYTES, TERM_TO_KILL, WORKERS,
};
use crate::mcp::listing::ToolAnnotations;
use crate::policy::rules::{Confirm, Pace};
use crate::wire::log::Format;

/// The shortest line limit in which an `initialize` of real clients fits.
const LINE_IN_BYTES_MIN: usize = 1 << 10;

/// Everything said; `None` where nothing was, or where a problem was reported instead.
#[derive(Debug, Default)]
pub struct Written<'n> {
    /// `session`.
    pub session: SessionWritten,
    /// `limits`.
    pub limits: LimitsWritten,
    /// `log`.
    pub log: LogWritten,
    /// `journal`.
    pub journal: JournalWritten,
    /// `approvals`.
    pub approvals: ApprovalsWritten<'n>,
    /// `state_dir`.
    pub state_dir: Option<PathBuf>,
    /// `networks`.
    pub networks: Vec<Said<&'n str>>,
    /// `credentials`.
    pub credentials: Vec<CredentialWritten<'n>>,
    /// `hosts`.
    pub hosts: Vec<HostWritten<'n>>,
    /// `tools`.
    pub tools: Vec<ToolWritten<'n>>,
    /// `builtin`.
    pub builtin: BuiltinWritten<'n>,
}

/// `journal`.
#[derive(Debug, Default)]
pub struct JournalWritten {
    /// `sync`.
    pub sync: Option<SyncMode>,
    /// `keep_days`.
    pub keep: Option<Duration>,
    /// `file_bytes`.
    pub file_bytes: Option<u64>,
}

/// `session`.
#[derive(Debug, Default)]
pub struct SessionWritten {
    /// `on_malformed`.
    pub on_malformed: Option<OnMalformed>,
    /// `grace_ms`.
    pub grace: Option<Duration>,
}

/// `limits`.
#[derive(Debug, Default)]
pub struct LimitsWritten {
    /// `line_in_bytes`.
    pub line_in_bytes: Option<usize>,
    /// `content_bytes`.
    pub content_bytes: Option<usize>,
    /// `calls`.
    pub calls: Option<usize>,
    /// `workers`.
    pub workers: Option<usize>,
    /// `call_timeout_s`.
    pub call_timeout: Option<Duration>,
}

/// `log`.
#[derive(Debug, Default)]
pub struct LogWritten {
    /// `level`.
    pub level: Option<log::LevelFilter>,
    /// `format`.
    pub format: Option<Format>,
    /// `file`.
    pub file: Option<PathBuf>,
}

/// One of `credentials`.
#[derive(Debug)]
pub struct CredentialWritten<'n> {
    /// Its key.
    pub name: Said<&'n str>,
    /// `from`.
    pub source: Option<SourceWritten<'n>>,
    /// `as`.
    pub placement: PlacementWritten<'n>,
    /// `for`; `None` if one of them was reported.
    pub scopes: Option<Vec<ScopeWritten<'n>>>,
}

/// `as` of a credential.
#[derive(Debug, Default)]
pub enum PlacementWritten<'n> {
    /// `bearer`, said or not.
    #[default]
    Bearer,
    /// `header`.
    Header {
        /// `name`, a token in any case.
        name: Said<&'n str>,
        /// `prefix`.
        prefix: &'n str,
    },
    /// Already reported.
    Broken,
}

/// One of a credential's `for`.
#[derive(Debug)]
pub struct ScopeWritten<'n> {
    /// `host`.
    pub host: Said<&'n str>,
    /// `port`.
    pub port: Option<u16>,
    /// `paths`.
    pub paths: Vec<Said<&'n str>>,
    /// `scheme`.
    pub scheme: Option<Said<Scheme>>,
}

/// One of `tools`.
#[derive(Debug)]
pub struct ToolWritten<'n> {
    /// Where it begins.
    pub at: usize,
    /// `name`.
    pub name: Option<Said<&'n str>>,
    /// `title`.
    pub title: Option<&'n str>,
    /// `description`.
    pub description: Option<&'n str>,
    /// `input`; what is no object was reported.
    pub input: Option<&'n Node>,
    /// `annotations`.
    pub annotations: ToolAnnotations,
    /// `http`, `exec` or `ssh`.
    pub recipe: Option<RecipeWritten<'n>>,
    /// `content_bytes`.
    pub content_bytes: Option<usize>,
    /// `timeout_s` beside the recipe.
    pub timeout: Option<Said<Duration>>,
    /// `allow_dash`.
    pub allow_dash: Option<Said<bool>>,
    /// `stop_at_limit`.
    pub stop_at_limit: Option<Said<bool>>,
    /// `rate` and `max_concurrent`.
    pub pace: Pace,
    /// `confirm`.
    pub confirm: Option<Confirm>,
}

/// `http`, `exec` or `ssh` of a tool.
#[derive(Debug)]
pub enum RecipeWritten<'n> {
    /// `http`.
    Http(HttpWritten<'n>),
    /// `exec`.
    Exec(ExecWritten<'n>),
    /// `ssh`.
    Ssh(SshWritten<'n>),
}

/// `http` of a tool.
#[derive(Debug)]
pub struct HttpWritten<'n> {
    /// The whole of it.
    pub node: &'n Node,
    /// `method`.
    pub method: Option<&'n str>,
    /// `url`.
    pub url: Option<Said<&'n str>>,
    /// `query`.
    pub query: Vec<(Said<&'n str>, &'n str)>,
    /// `headers`.
    pub headers: Vec<(Said<&'n str>, &'n str)>,
    /// `body`.
    pub body: Option<BodyWritten<'n>>,
    /// `credential`.
    pub credential: Option<Said<&'n str>>,
    /// `select`.
    pub select: Vec<Said<&'n str>>,
    /// `timeout_s` inside.
    pub timeout: Option<Said<Duration>>,
}

/// `http.body` of a tool.
#[derive(Debug)]
pub enum BodyWritten<'n> {
    /// `json`.
    Json(&'n Node),
    /// `text`.
    Text(&'n str),
    /// `form`.
    Form(Vec<(Said<&'n str>, &'n str)>),
}

/// `exec` of a tool.
#[derive(Debug)]
pub struct ExecWritten<'n> {
    /// The whole of it.
    pub node: &'n Node,
    /// `argv`, never empty.
    pub argv: Vec<Said<&'n str>>,
    /// `env`.
    pub env: Vec<(Said<&'n str>, &'n str)>,
    /// `cwd`.
    pub cwd: Option<PathBuf>,
    /// `timeout_s` inside.
    pub timeout: Option<Said<Duration>>,
}

/// Reads the whole tree; what is wrong goes to `problems`.
pub fn read<'n>(root: &'n Node, problems: &mut Problems) -> Written<'n> {
    let Some(top) = Object::open(root, &schema::TOP, problems) else { return Written::default() };
    top.node("$schema").and_then(|node| text(node, problems));
    Written {
        session: top.node("session").and_then(|node| session(node, problems)).unwrap_or_default(),
        limits: top.node("limits").and_then(|node| limits(node, problems)).unwrap_or_default(),
        log: top.node("log").and_then(|node| log(node, problems)).unwrap_or_default(),
        journal: top.node("journal").and_then(|node| journal(node, problems)).unwrap_or_default(),
        approvals: top.node("approvals").and_then(|node| approvals(node, problems)).unwrap_or_default(),
        state_dir: top.node("state_dir").and_then(|node| absolute_path(node, problems)),
        networks: top.node("networks").map(|node| texts(node, problems)).unwrap_or_default(),
        credentials: top.node("credentials").map(|node| credentials(node, problems)).unwrap_or_default(),
        hosts: top.node("hosts").map(|node| hosts(node, problems)).unwrap_or_default(),
        tools: top.node("tools").map(|node| tools(node, problems)).unwrap_or_default(),
        builtin: top.node("builtin").and_then(|node| builtin(node, problems)).unwrap_or_default(),
    }
}

fn session(node: &Node, problems: &mut Problems) -> Option<SessionWritten> {
    let object = Object::open(node, &schema::SESSION, problems)?;
    let words = [("close", OnMalformed::Close), ("continue", OnMalformed::Continue)];
    // What is killed at the end of the grace still needs its time before the end.
    let grace_max = u64::try_from((END - TERM_TO_KILL).as_millis()).expect("a constant of seconds");
    Some(SessionWritten {
        on_malformed: object.node("on_malformed").and_then(|node| word(node, &words, problems)),
        grace: object
            .node("grace_ms")
            .and_then(|node| whole(node, 0..=grace_max, "milliseconds", problems))
            .map(Duration::from_millis),
    })
}

fn limits(node: &Node, problems: &mut Problems) -> Option<LimitsWritten> {
    let object = Object::open(node, &schema::LIMITS, problems)?;
    Some(LimitsWritten {
        line_in_bytes: object
            .node("line_in_bytes")
            .and_then(|node| size(node, LINE_IN_BYTES_MIN..=LINE_IN_BYTES, "bytes", problems)),
        content_bytes: object.node("content_bytes").and_then(|node| content_bytes(node, problems)),
        calls: object.node("calls").and_then(|node| size(node, 1..=CALLS, "calls", problems)),
        workers: object.node("workers").and_then(|node| size(node, 1..=WORKERS, "workers", problems)),
        call_timeout: object.node("call_timeout_s").and_then(|node| seconds(node, problems)).map(|said| said.value),
    })
}

fn content_bytes(node: &Node, problems: &mut Problems) -> Option<usize> {
    size(node, CONTENT_BYTES_MIN..=CONTENT_BYTES_MAX, "bytes (the most that fits one line out)", problems)
}

fn log(node: &Node, problems: &mut Problems) -> Option<LogWritten> {
    use log::LevelFilter::{Debug, Error, Info, Off, Trace, Warn};
    let object = Object::open(node, &schema::LOG, problems)?;
    let levels = [("off", Off), ("error", Error), ("warn", Warn), ("info", Info), ("debug", Debug), ("trace", Trace)];
    let formats = [("text", Format::Text), ("json", Format::Json)];
    Some(LogWritten {
        level: object.node("level").and_then(|node| word(node, &levels, problems)),
        format: object.node("format").and_then(|node| word(node, &formats, problems)),
        file: object.node("file").and_then(|node| absolute_path(node, problems)),
    })
}

fn journal(node: &Node, problems: &mut Problems) -> Option<JournalWritten> {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let object = Object::open(node, &schema::JOURNAL, problems)?;
    let words = [("all", SyncMode::All), ("intents", SyncMode::Intents)];
    let sizes = JOURNAL_FILE_BYTES_MIN..=JOURNAL_FILE_BYTES_MAX;
    Some(JournalWritten {
        sync: object.node("sync").and_then(|node| word(node, &words, problems)),
        keep: object
            .node("keep_days")
            .and_then(|node| whole(node, 1..=JOURNAL_KEEP_DAYS_MAX, "days", problems))
            .and_then(|days| DAY.checked_mul(u32::try_from(days).ok()?)),
        file_bytes: object.node("file_bytes").and_then(|node| whole(node, sizes, "bytes", problems)),
    })
}

fn credentials<'n>(node: &'n Node, problems: &mut Problems) -> Vec<CredentialWritten<'n>> {
    let members = map(node, problems).unwrap_or_default();
    members.iter().filter_map(|member| credential(member, problems)).collect()
}

fn credential<'n>(member: &'n Member, problems: &mut Problems) -> Option<CredentialWritten<'n>> {
    if !is_name(&member.key) {
        problems.add(member.key_at, NAME_EXPECTED);
    }
    let object = Object::open(&member.node, &schema::CREDENTIAL, problems)?;
    Some(CredentialWritten {
        name: Said { value: &member.key, at: member.key_at },
        source: object.needed("from", problems).and_then(|node| source(node, problems)),
        placement: match object.node("as") {
            Some(node) => placement(node, problems).unwrap_or(PlacementWritten::Broken),
            None => PlacementWritten::Bearer,
        },
        scopes: match object.node("for") {
            Some(node) => list(node, problems).and_then(|nodes| all(nodes, |node| scope(node, problems))),
            None => Some(Vec::new()),
        },
    })
}

/// Reads every element, so that each problem is found; `None` unless all are sound.
fn all<'n, T>(nodes: &'n [Node], each: impl FnMut(&'n Node) -> Option<T>) -> Option<Vec<T>> {
    let read: Vec<Option<T>> = nodes.iter().map(each).collect();
    read.into_iter().collect()
}

const NAME_EXPECTED: &str = "expected a name of 1 to 64 letters, digits, _ or -";

/// What clients and models take as a tool name, and records as a handle.
fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn placement<'n>(node: &'n Node, problems: &mut Problems) -> Option<PlacementWritten<'n>> {
    let object = Object::open(node, &schema::PLACEMENT, problems)?;
    let bearer = object.node("bearer").map(|node| Object::open(node, &schema::BEARER, problems).is_some());
    let header = object.node("header").and_then(|node| header(node, problems));
    object.exactly_one(problems)?;
    if bearer == Some(true) { Some(PlacementWritten::Bearer) } else { header }
}

fn header<'n>(node: &'n Node, problems: &mut Problems) -> Option<PlacementWritten<'n>> {
    let object = Object::open(node, &schema::HEADER, problems)?;
    let name = object.needed("name", problems).and_then(|node| matching(node, "a header name", is_token, problems));
    let printable = |text: &str| text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    let prefix = match object.node("prefix") {
        Some(node) => matching(node, "visible ASCII, spaces and tabs", printable, problems)?.value,
        None => "",
    };
    Some(PlacementWritten::Header { name: name?, prefix })
}

fn scope<'n>(node: &'n Node, problems: &mut Problems) -> Option<ScopeWritten<'n>> {
    let object = Object::open(node, &schema::SCOPE, problems)?;
    scope_of(&object, problems)
}

/// `host`, `port`, `paths` and `scheme` of an object that has them among its keys.
fn scope_of<'n>(object: &Object<'n>, problems: &mut Problems) -> Option<ScopeWritten<'n>> {
    let schemes = [("https", Scheme::Https), ("http", Scheme::Http)];
    let host = object.needed("host", problems).and_then(|node| nonempty(node, problems));
    let port = object.node("port").map(|node| port(node, problems));
    let paths = object.node("paths").map(|node| paths(node, problems)).unwrap_or_default();
    let scheme = object.node("scheme").and_then(|node| word(node, &schemes, problems).map(|value| Said { value, at: node.at }));
    let port = match port {
        Some(port) => Some(port?),
        None => None,
    };
    Some(ScopeWritten { host: host?, port, paths, scheme })
}

/// An empty list would read as "no path" and mean "every path".
fn paths<'n>(node: &'n Node, problems: &mut Problems) -> Vec<Said<&'n str>> {
    let nodes = list(node, problems);
    if nodes.is_some_and(<[Node]>::is_empty) {
        problems.add(node.at, "expected at least one path prefix; leave \"paths\" out for every path");
    }
    let path = |node| matching(node, "a path prefix beginning with /", |text| text.starts_with('/'), problems);
    nodes.unwrap_or_default().iter().filter_map(path).collect()
}

fn tools<'n>(node: &'n Node, problems: &mut Problems) -> Vec<ToolWritten<'n>> {
    list(node, problems).unwrap_or_default().iter().filter_map(|node| tool(node, problems)).collect()
}

fn tool<'n>(node: &'n Node, problems: &mut Problems) -> Option<ToolWritten<'n>> {
    let object = Object::open(node, &schema::TOOL, problems)?;
    Some(ToolWritten {
        at: node.at,
        name: object.needed("name", problems).and_then(|node| {
            let said = text(node, problems)?;
            if !is_name(said.value) {
                problems.add(said.at, NAME_EXPECTED);
                return None;
            }
            Some(said)
        }),
        title: object.node("title").and_then(|node| nonempty(node, problems)).map(|said| said.value),
        description: object.needed("description", problems).and_then(|node| nonempty(node, problems)).map(|said| said.value),
        input: object.node("input").inspect(|node| {
            map(node, problems);
        }),
        annotations: object.node("annotations").and_then(|node| annotations(node, problems)).unwrap_or_default(),
        recipe: recipe(&object, problems),
        content_bytes: object.node("content_bytes").and_then(|node| content_bytes(node, problems)),
        timeout: object.node("timeout_s").and_then(|node| seconds(node, problems)),
        allow_dash: object.node("allow_dash").and_then(|node| flag(node, problems)),
        stop_at_limit: object.node("stop_at_limit").and_then(|node| flag(node, problems)),
        pace: pace(&object, problems),
        confirm: confirm(&object, problems),
    })
}

fn annotations(node: &Node, problems: &mut Problems) -> Option<ToolAnnotations> {
    let object = Object::open(node, &schema::ANNOTATIONS, problems)?;
    let mut hint = |key| object.node(key).and_then(|node| flag(node, problems)).map(|said| said.value);
    Some(ToolAnnotations {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    })
}

fn recipe<'n>(object: &Object<'n>, problems: &mut Problems) -> Option<RecipeWritten<'n>> {
    let keys = ["http", "exec", "ssh"];
    if keys.into_iter().filter(|key| object.node(key).is_some()).count() != 1 {
        problems.add(object.at, format!("expected exactly one of {}", listed(&keys)));
    }
    let http = object.node("http").and_then(|node| http(node, problems)).map(RecipeWritten::Http);
    let exec = object.node("exec").and_then(|node| exec(node, problems)).map(RecipeWritten::Exec);
    let ssh = object.member("ssh").and_then(|member| ssh(member, problems)).map(RecipeWritten::Ssh);
    http.or(exec).or(ssh)
}

fn http<'n>(node: &'n Node, problems: &mut Problems) -> Option<HttpWritten<'n>> {
    let object = Object::open(node, &schema::HTTP, problems)?;
    Some(HttpWritten {
        node,
        method: object.node("method").and_then(|node| nonempty(node, problems)).map(|said| said.value),
        url: object.needed("url", problems).and_then(|node| nonempty(node, problems)),
        query: object.node("query").map(|node| pairs(node, problems)).unwrap_or_default(),
        headers: object.node("headers").map(|node| pairs(node, problems)).unwrap_or_default(),
        body: object.node("body").and_then(|node| body(node, problems)),
        credential: object.node("credential").and_then(|node| text(node, problems)),
        select: object.node("select").map(|node| texts(node, problems)).unwrap_or_default(),
        timeout: object.node("timeout_s").and_then(|node| seconds(node, problems)),
    })
}

fn body<'n>(node: &'n Node, problems: &mut Problems) -> Option<BodyWritten<'n>> {
    let object = Object::open(node, &schema::BODY, problems)?;
    let json = object.node("json").map(BodyWritten::Json);
    let text = object.node("text").and_then(|node| text(node, problems)).map(|said| BodyWritten::Text(said.value));
    let form = object.node("form").map(|node| BodyWritten::Form(pairs(node, problems)));
    object.exactly_one(problems)?;
    json.or(text).or(form)
}

fn exec<'n>(node: &'n Node, problems: &mut Problems) -> Option<ExecWritten<'n>> {
    let object = Object::open(node, &schema::EXEC, problems)?;
    let argv = object.needed("argv", problems).and_then(|node| argv(node, problems));
    let env = object.node("env").map(|node| environment(node, problems)).unwrap_or_default();
    let cwd = object.node("cwd").and_then(|node| absolute_path(node, problems));
    let timeout = object.node("timeout_s").and_then(|node| seconds(node, problems));
    Some(ExecWritten { node, argv: argv?, env, cwd, timeout })
}

fn argv<'n>(node: &'n Node, problems: &mut Problems) -> Option<Vec<Said<&'n str>>> {
    let nodes = list(node, problems)?;
    if nodes.is_empty() {
        problems.add(node.at, "expected a program and its arguments, got an empty array");
        return None;
    }
    all(nodes, |node| text(node, problems))
}

fn environment<'n>(node: &'n Node, problems: &mut Problems) -> Vec<(Said<&'n str>, &'n str)> {
    let mut env = pairs(node, problems);
    env.retain(|(name, _)| variable(*name, problems));
    env
}

/// Names that begin with `TIDEGATE_` are the mark by which strays of a call are found.
fn variable(name: Said<&str>, problems: &mut Problems) -> bool {
    if !is_variable(name.value) {
        problems.add(name.at, "expected the name of an environment variable");
        return false;
    }
    if name.value.starts_with("TIDEGATE_") {
        problems.add(name.at, "names beginning with TIDEGATE_ are the gateway's own");
        return false;
    }
    true
}
