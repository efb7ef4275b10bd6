//! What the configuration means: defaults filled in, names that must exist, templates against inputs, credentials against
//! targets.
//!
//! It makes the `Config` whose parts nothing checks again. It may look whether a program exists, for a warning; it reads no
//! secret, resolves no name and starts nothing.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::action::exec::{ExecTemplate, ExecWritten as ExecParts};
use crate::action::http::{HttpTemplate, HttpWritten as HttpParts, Origin};
use crate::action::ssh::{SshTemplate, SshWritten as SshParts};
use crate::action::template::LIMIT;
use crate::action::template::argv::Dash;
use crate::action::template::body::BodyWritten as BodyParts;
use crate::action::{Recipe, Tool};
use crate::approval::ApprovalRules;
use crate::config::approvals;
use crate::config::builtin;
use crate::config::file::{Env, base_folder};
use crate::config::host::Hosts;
use crate::config::input::{self, Input};
use crate::config::object::{Said, listed};
use crate::config::scope;
use crate::config::source;
use crate::config::tree::{Node, Problems, quote};
use crate::config::written::approvals::ApprovalsWritten;
use crate::config::written::remote::SshWritten;
use crate::config::written::{
    BodyWritten, CredentialWritten, ExecWritten, HttpWritten, LimitsWritten, RecipeWritten, ToolWritten, Written,
};
use crate::config::{Config, LogRules, SessionRules};
use crate::journal::JournalRules;
use crate::limits::Limits;
use crate::outcome::budget::payload_bytes;
use crate::policy::decide::covers_origin;
use crate::policy::rules::{Allow, AtLimit, CredentialRule, HostRule, Network, Networks, Placement, Tie, ToolRule};
use crate::process::{CHILD_LANG, CHILD_PATH};

/// Tools of the gateway itself.
const RESERVED_NAMES: &[&str] = &["tidegate_status", "read_result"];

/// The configuration as far as it is sound; it counts only if nothing was added to `problems`.
pub fn mean(written: Written<'_>, env: Env<'_>, problems: &mut Problems, warnings: &mut Problems) -> Config {
    let session = SessionRules::default();
    let log = LogRules::default();
    let journal = JournalRules::default();
    let limits = limits(&written.limits);
    let sources = source::sources(&written.credentials, env, problems, warnings);
    let mut credentials = Credentials::read(&written.credentials, problems);
    let hosts = Hosts::read(&written.hosts, env, &mut credentials, problems, warnings);
    let builtins = builtin::names(&written.builtin);
    let mut tools =
        ToolReader { env, limits: &limits, credentials, hosts, names: HashSet::new(), builtins, problems, warnings };
    let mut read: Vec<(Tool, ToolRule)> = written.tools.iter().filter_map(|tool| tools.tool(tool)).collect();
    read.extend(tools.builtin(&written.builtin));
    tools.credentials.warn_unused(tools.warnings);
    tools.hosts.warn_unused(tools.warnings);
    let hosts = tools.hosts.into_rules();
    Config {
        source: None,
        session: SessionRules {
            on_malformed: written.session.on_malformed.unwrap_or(session.on_malformed),
            grace: written.session.grace.unwrap_or(session.grace),
        },
        log: LogRules {
            level: written.log.level.unwrap_or(log.level),
            format: written.log.format.unwrap_or(log.format),
            file: written.log.file,
        },
        journal: JournalRules {
            sync: written.journal.sync.unwrap_or(journal.sync),
            keep: written.journal.keep.unwrap_or(journal.keep),
            file_bytes: written.journal.file_bytes.unwrap_or(journal.file_bytes),
        },
        approvals: approvals::rules(&written.approvals, problems, warnings),
        state_dir: written.state_dir.unwrap_or_else(|| default_state_dir(env)),
        networks: networks(&written.networks, problems, warnings),
        credentials: sources,
        hosts,
        tools: read,
        limits,
        warnings: Vec::new(),
    }
}

/// `$XDG_STATE_HOME/tidegate`, else `$HOME/.local/state/tidegate`, else `/var/lib/tidegate`; relative folders do not count.
pub fn default_state_dir(env: Env<'_>) -> PathBuf {
    let base = base_folder(env, "XDG_STATE_HOME", ".local/state");
    base.unwrap_or_else(|| PathBuf::from("/var/lib")).join("tidegate")
}

/// What holds where `approvals` is absent.
pub fn default_approvals() -> ApprovalRules {
    approvals::rules(&ApprovalsWritten::default(), &mut Problems::default(), &mut Problems::default())
}

fn limits(written: &LimitsWritten) -> Limits {
    let default = Limits::default();
    Limits {
        line_in_bytes: written.line_in_bytes.unwrap_or(default.line_in_bytes),
        content_bytes: written.content_bytes.unwrap_or(default.content_bytes),
        calls: written.calls.unwrap_or(default.calls),
        workers: written.workers.unwrap_or(default.workers),
        call_timeout: written.call_timeout.unwrap_or(default.call_timeout),
    }
}

fn networks(written: &[Said<&str>], problems: &mut Problems, warnings: &mut Problems) -> Networks {
    let mut range = |said: &Said<&str>| -> Option<Network> {
        let network = scope::network(said.value).map_err(|problem| problems.add(said.at, problem)).ok()?;
        if network.prefix == 0 {
            warnings.add(said.at, "this range is every address, loopback and metadata services included");
        }
        Some(network)
    };
    Networks { ranges: written.iter().filter_map(&mut range).collect() }
}

/// The credentials by name, and whether a tool or a host uses them.
pub struct Credentials<'w> {
    entries: HashMap<&'w str, Entry>,
}

struct Entry {
    at: usize,
    /// `None` if it was reported.
    rule: Option<Arc<CredentialRule>>,
    used: bool,
}

impl<'w> Credentials<'w> {
    fn read(written: &'w [CredentialWritten<'_>], problems: &mut Problems) -> Self {
        let entry = |one: &'w CredentialWritten<'_>| {
            (one.name.value, Entry { at: one.name.at, rule: credential_rule(one, problems).map(Arc::new), used: false })
        };
        Credentials { entries: written.iter().map(entry).collect() }
    }

    /// The rule of the credential a tool names, if it may go where the tool goes.
    fn for_tool(
        &mut self,
        name: Said<&str>,
        template: Option<&HttpTemplate>,
        problems: &mut Problems,
    ) -> Option<Arc<CredentialRule>> {
        let rule = self.for_request(name, template.map(HttpTemplate::origin), problems)?;
        if let Err(problem) = has_room(&rule, template?) {
            problems.add(name.at, problem);
            return None;
        }
        Some(rule)
    }

    /// The rule of the credential that requests to an origin carry, if it may go there.
    pub(in crate::config) fn for_request(
        &mut self,
        name: Said<&str>,
        origin: Option<&Origin>,
        problems: &mut Problems,
    ) -> Option<Arc<CredentialRule>> {
        if !self.use_one(name, problems) {
            return None;
        }
        let rule = self.entries.get(name.value)?.rule.as_ref()?;
        if let Err(problem) = may_go(rule, origin?) {
            problems.add(name.at, problem);
            return None;
        }
        Some(Arc::clone(rule))
    }

    /// Whether the credential a host names exists. It goes to that host alone, whatever its `for` says of requests.
    pub(in crate::config) fn for_host(&mut self, name: Said<&str>, problems: &mut Problems) -> bool {
        self.use_one(name, problems)
    }

    fn use_one(&mut self, name: Said<&str>, problems: &mut Problems) -> bool {
        match self.entries.get_mut(name.value) {
            Some(entry) => {
                entry.used = true;
                true
            }
            None => {
                problems.add(name.at, format!("no credential {}, {}", quote(name.value), self.known()));
                false
            }
        }
    }

    fn known(&self) -> String {
        let mut names: Vec<&str> = self.entries.keys().copied().collect();
        names.sort_unstable();
        if names.is_empty() { "none is configured".to_owned() } else { format!("expected one of {}", listed(&names)) }
    }

    fn warn_unused(&self, warnings: &mut Problems) {
        for entry in self.entries.values().filter(|entry| !entry.used) {
            warnings.add(entry.at, "no tool and no host uses this credential");
        }
    }
}

fn credential_rule(written: &CredentialWritten<'_>, problems: &mut Problems) -> Option<CredentialRule> {
    let placement = scope::placement(&written.placement, problems);
    let scopes = written
        .scopes
        .as_ref()
        .map(|scopes| scopes.iter().map(|one| scope::scope(one, "a credential is sent", problems)).collect::<Vec<_>>());
    let scopes = scopes?.into_iter().collect::<Option<Vec<_>>>()?;
    Some(CredentialRule { name: written.name.value.to_owned(), placement: placement?, scopes })
}

/// Whether the target is one of the credential's places.
fn may_go(rule: &CredentialRule, to: &Origin) -> Result<(), String> {
    let name = quote(&rule.name);
    if rule.scopes.is_empty() {
        return Err(format!("credential {name} has no \"for\", so it may be sent nowhere"));
    }
    if !covers_origin(rule, to) {
        let places: Vec<String> = rule.scopes.iter().map(|one| scope::origin(one.scheme, &one.host, one.port)).collect();
        let target = scope::origin(to.scheme, &to.host, to.port);
        return Err(format!("credential {name} may be sent to {} only, not to {target}", places.join(", ")));
    }
    Ok(())
}

/// Whether the header it stands in is free.
fn has_room(rule: &CredentialRule, template: &HttpTemplate) -> Result<(), String> {
    match &rule.placement {
        Placement::Header { name: header, .. } if template.has_header(header) => {
            let name = quote(&rule.name);
            Err(format!("credential {name} stands in the header {}, which the tool sets itself", quote(header)))
        }
        Placement::Header { .. } | Placement::Bearer => Ok(()),
    }
}

/// Reads tools one after the other.
pub(in crate::config) struct ToolReader<'c, 'w> {
    env: Env<'c>,
    pub(in crate::config) limits: &'c Limits,
    pub(in crate::config) credentials: Credentials<'w>,
    pub(in crate::config) hosts: Hosts<'w>,
    /// Names taken so far.
    names: HashSet<&'w str>,
    /// Names that `builtin` takes.
    builtins: Vec<&'static str>,
    pub(in crate::config) problems: &'c mut Problems,
    warnings: &'c mut Problems,
}

impl<'w> ToolReader<'_, 'w> {
    fn tool(&mut self, written: &'w ToolWritten<'_>) -> Option<(Tool, ToolRule)> {
        let name = written.name.and_then(|name| self.name(name));
        let input = input::read(written.input, self.problems);
        let (recipe, node, credential, host, timeout) = match written.recipe.as_ref()? {
            RecipeWritten::Http(http) => {
                let template = self.http(http, written);
                let credential = http.credential.map(|name| self.credentials.for_tool(name, template.as_ref(), self.problems));
                (template.map(Recipe::Http), http.node, credential, None, http.timeout)
            }
            RecipeWritten::Exec(exec) => {
                let template = self.exec(exec, dash(written.allow_dash));
                (template.map(Recipe::Exec), exec.node, None, None, exec.timeout)
            }
            RecipeWritten::Ssh(ssh) => {
                let template = self.ssh(ssh, dash(written.allow_dash));
                let host = ssh.host.map(|name| self.hosts.for_tool(name, self.problems));
                self.untied(written.stop_at_limit, host.as_ref());
                (template.map(Recipe::Ssh), ssh.node, None, host, ssh.timeout)
            }
        };
        let timeout = self.timeout(written.timeout, timeout);
        let (recipe, input) = (recipe?, input?);
        self.placeholders(&recipe, node, &input);
        let content_bytes = written.content_bytes.unwrap_or(self.limits.content_bytes);
        let limit = (!declares(&input, LIMIT)).then(|| payload_bytes(content_bytes));
        let (schema, input_json) = input.compiled?;
        let tool = Tool {
            name: name?.to_owned(),
            title: written.title.map(str::to_owned),
            description: written.description?.to_owned(),
            annotations: written.annotations,
            input: schema,
            input_json,
            recipe,
            limit,
        };
        let (credential, host) = (sound(credential)?, sound(host)?);
        let at_limit = at_limit(written.stop_at_limit);
        Some((
            tool,
            ToolRule {
                credential,
                host,
                content_bytes,
                at_limit,
                timeout,
                allow: Allow::AsDeclared,
                pace: written.pace,
                confirm: written.confirm.unwrap_or_default(),
            },
        ))
    }

    fn name(&mut self, name: Said<&'w str>) -> Option<&'w str> {
        if RESERVED_NAMES.contains(&name.value) {
            self.problems.add(name.at, format!("{} is a tool of the gateway itself", quote(name.value)));
            return None;
        }
        if self.builtins.contains(&name.value) {
            self.problems
                .add(name.at, format!("{} is the tool that \"builtin\" configures under this name", quote(name.value)));
            return None;
        }
        if !self.names.insert(name.value) {
            self.problems.add(name.at, format!("another tool is named {} already", quote(name.value)));
            return None;
        }
        Some(name.value)
    }

    fn http(&mut self, http: &HttpWritten<'_>, tool: &ToolWritten<'_>) -> Option<HttpTemplate> {
        if let Some(said) = tool.allow_dash {
            self.problems.add(said.at, "\"allow_dash\" is for \"exec\" and \"ssh\" only");
        }
        if let Some(said) = tool.stop_at_limit {
            let why = "it ends a command, and an HTTP request starts none";
            self.problems.add(said.at, format!("\"stop_at_limit\" is for \"exec\" and \"ssh\" only: {why}"));
        }
        let url = http.url?;
        http_template(http, url.value).map_err(|problems| self.report(http.node, problems)).ok()
    }

    fn exec(&mut self, exec: &ExecWritten<'_>, dash: Dash) -> Option<ExecTemplate> {
        let env = child_env(&exec.env, self.env);
        let path = env.iter().find(|(name, _)| name == "PATH").map_or(CHILD_PATH, |(_, value)| value);
        if let Some(program) = exec.argv.first() {
            self.program(*program, path);
        }
        exec_template(exec, env, dash).map_err(|problems| self.report(exec.node, problems)).ok()
    }

    fn ssh(&mut self, ssh: &SshWritten<'_>, dash: Dash) -> Option<SshTemplate> {
        if !cfg!(feature = "ssh") {
            self.problems.add(ssh.key_at, "this build has no SSH (feature ssh)");
        }
        ssh_template(ssh, dash).map_err(|problems| self.report(ssh.node, problems)).ok()
    }

    /// Without the tie a remote command hears of no end.
    pub(in crate::config) fn untied(&mut self, stop_at_limit: Option<Said<bool>>, host: Option<&Option<Arc<HostRule>>>) {
        let host = host.and_then(Option::as_ref).filter(|host| host.tie == Tie::None);
        if let (Some(Said { value: true, at }), Some(host)) = (stop_at_limit, host) {
            let name = quote(&host.name);
            self.warnings
                .add(at, format!("host {name} has no tie: at the limit the connection is cut, and the command may run on"));
        }
    }

    /// What the template refuses is not looked up.
    fn program(&mut self, program: Said<&str>, path: &str) {
        let name = program.value;
        let relative = name.contains('/') && !name.starts_with('/');
        if !(name.is_empty() || name.contains(['{', '}']) || relative) {
            look_for(program, path, self.warnings);
        }
    }

    /// Templates name the member that is wrong (`url: …`, `argv[2]: …`); here it becomes a place.
    fn report(&mut self, node: &Node, problems: Vec<String>) {
        for problem in problems {
            let (at, text) = locate(node, &problem);
            self.problems.add(at, text);
        }
    }

    /// Every placeholder is an argument or the limit, every argument is used, and what has no meaning without one is required.
    fn placeholders(&mut self, recipe: &Recipe, node: &Node, input: &Input<'_>) {
        let names = recipe.names();
        let place = |name: &str| node.find_text(&[&format!("{{{name}}}"), &format!("{{+{name}}}")]).unwrap_or(node.at);
        let declared = |name: &str| declares(input, name);
        for name in names.used().filter(|name| *name != LIMIT && !declared(name)) {
            self.problems.add(place(name), format!("placeholder {{{name}}} is no property of \"input\""));
        }
        for name in names.required().filter(|name| declared(name) && !input.required.contains(name)) {
            let why = "its place cannot be left out";
            self.problems.add(place(name), format!("placeholder {{{name}}} needs its argument in \"required\": {why}"));
        }
        for property in input.properties.iter().filter(|property| !names.used().any(|name| name == property.key)) {
            self.problems.add(property.key_at, "no placeholder uses this argument");
        }
    }

    fn timeout(&mut self, beside: Option<Said<Duration>>, inside: Option<Said<Duration>>) -> Duration {
        if let (Some(_), Some(inside)) = (beside, inside) {
            self.problems.add(inside.at, "\"timeout_s\" is said twice for this tool");
        }
        beside.or(inside).map_or(self.limits.call_timeout, |said| said.value)
    }
}

fn declares(input: &Input<'_>, name: &str) -> bool {
    input.properties.iter().any(|property| property.key == name)
}

pub(in crate::config) fn dash(allow_dash: Option<Said<bool>>) -> Dash {
    if allow_dash.is_some_and(|said| said.value) { Dash::Allowed } else { Dash::Refused }
}

pub(in crate::config) fn at_limit(stop_at_limit: Option<Said<bool>>) -> AtLimit {
    if stop_at_limit.is_some_and(|said| said.value) { AtLimit::Stop } else { AtLimit::Drain }
}

/// What was not said is sound; what was reported is not.
fn sound<T>(said: Option<Option<T>>) -> Option<Option<T>> {
    match said {
        Some(value) => value.map(Some),
        None => Some(None),
    }
}

/// A program that is missing may be installed later, so this only warns.
pub(in crate::config) fn look_for(program: Said<&str>, path: &str, warnings: &mut Problems) {
    let name = program.value;
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    let found = if name.starts_with('/') {
        is_program(Path::new(name))
    } else {
        folders.map(Path::new).any(|folder| is_program(&folder.join(name)))
    };
    if !found {
        let place = if name.starts_with('/') { "there".to_owned() } else { format!("in {path}") };
        warnings.add(program.at, format!("no program {} {place}", quote(name)));
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The whole environment of a child: three defaults, then what the tool says, which overrides.
pub(in crate::config) fn child_env(written: &[(Said<&str>, &str)], env: Env<'_>) -> Vec<(String, String)> {
    let home = env("HOME").and_then(|home| home.into_string().ok()).filter(|home| home.starts_with('/'));
    let defaults = [
        ("PATH".to_owned(), CHILD_PATH.to_owned()),
        ("HOME".to_owned(), home.unwrap_or_else(|| "/".to_owned())),
        ("LANG".to_owned(), CHILD_LANG.to_owned()),
    ];
    let own = written.iter().map(|(name, value)| (name.value.to_owned(), (*value).to_owned()));
    let kept = defaults.into_iter().filter(|(name, _)| !written.iter().any(|(own, _)| own.value == name));
    kept.chain(own).collect()
}

/// Where in `node` a problem of the form `member: what` or `member[2]: what` belongs, and what it says there.
fn locate<'p>(node: &Node, problem: &'p str) -> (usize, &'p str) {
    let word_end = problem.find(|byte: char| !byte.is_ascii_lowercase()).unwrap_or(problem.len());
    let (word, rest) = problem.split_at(word_end);
    let Some(member) = node.member(word) else { return (node.at, problem) };
    let element = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match element.and_then(|(index, rest)| Some((member.node.elements()?.get(index.parse::<usize>().ok()?)?, rest))) {
        Some((element, rest)) => (element.at, rest.trim_start_matches([':', ' '])),
        None => (member.node.at, rest.trim_start_matches([':', ' '])),
    }
}

fn http_template(http: &HttpWritten<'_>, url: &str) -> Result<HttpTemplate, Vec<String>> {
    HttpTemplate::new(&HttpParts {
        method: http.method.unwrap_or("GET").to_owned(),
        url: url.to_owned(),
        query: owned(&http.query),
        headers: owned(&http.headers),
        body: http.body.as_ref().map(|body| match body {
            BodyWritten::Json(node) => BodyParts::Json(node.to_value()),
            BodyWritten::Text(text) => BodyParts::Text((*text).to_owned()),
            BodyWritten::Form(pairs) => BodyParts::Form(owned(pairs)),
        }),
        select: http.select.iter().map(|said| said.value.to_owned()).collect(),
    })
}

fn exec_template(exec: &ExecWritten<'_>, env: Vec<(String, String)>, dash: Dash) -> Result<ExecTemplate, Vec<String>> {
    ExecTemplate::new(&ExecParts {
        argv: exec.argv.iter().map(|said| said.value.to_owned()).collect(),
        env,
        cwd: exec.cwd.clone().unwrap_or_else(|| PathBuf::from("/")),
        dash,
    })
}

fn ssh_template(ssh: &SshWritten<'_>, dash: Dash) -> Result<SshTemplate, Vec<String>> {
    SshTemplate::new(&SshParts {
        host: ssh.host.map_or(String::new(), |said| said.value.to_owned()),
        argv: ssh.argv.iter().map(|said| said.value.to_owned()).collect(),
        env: owned(&ssh.env),
        cwd: ssh.cwd.map(str::to_owned),
        stdin: ssh.stdin.map(str::to_owned),
        dash,
    })
}

fn owned(pairs: &[(Said<&str>, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (name.value.to_owned(), (*value).to_owned())).collect()
}
