//! The decision: pure, default deny.
//!
//! What is not declared does not run. A credential goes with a request only where its own scopes say so, judged on the filled
//! request and by whole segments of its path. Here alone an `Authorized` is made; nothing here may look at the world.

use std::fmt;
use std::sync::Arc;

use crate::action::http::{HttpAction, Origin};
use crate::action::template::path::has_dot_segment;
use crate::action::template::quoted;
use crate::action::{Action, ArgumentError, Recipe, Tool};
use crate::policy::grant::{Authorized, Grant, Terms};
use crate::policy::rules::{CredentialRule, HostRule, Scope, ToolRule};

/// Why a call was refused. Nothing was executed and no credential was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No tool of this name is declared.
    UnknownTool {
        /// The name as the caller wrote it.
        name: String,
    },
    /// The arguments make no action.
    BadArguments(ArgumentError),
    /// The tool's credential may not go where the action does.
    CredentialScope {
        /// Name of the credential.
        credential: String,
        /// What it would have been sent to, as in `Terms::target`.
        target: String,
    },
    /// The remote command goes to another host than the tool's own.
    UndeclaredHost {
        /// Name of the host.
        host: String,
    },
}

impl Refusal {
    /// The stage that could not be passed, for records: `call`, `action` or `grant`, the type that was not made.
    pub fn stage(&self) -> &'static str {
        match self {
            Refusal::UnknownTool { .. } => "call",
            Refusal::BadArguments(_) => "action",
            Refusal::CredentialScope { .. } | Refusal::UndeclaredHost { .. } => "grant",
        }
    }

    /// Stable name of the reason, for records and counters.
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::UnknownTool { .. } => "unknown_tool",
            Refusal::BadArguments(_) => "bad_arguments",
            Refusal::CredentialScope { .. } => "credential_scope",
            Refusal::UndeclaredHost { .. } => "undeclared_host",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::UnknownTool { name } => write!(f, "expected a declared tool, got {}", quoted(name)),
            Refusal::BadArguments(error) => f.write_str(&error.problems.join("; ")),
            Refusal::CredentialScope { credential, target } => {
                write!(f, "credential {}: expected a target within its \"for\", got {target}", quoted(credential))
            }
            Refusal::UndeclaredHost { host } => write!(f, "expected the declared host of the tool, got {}", quoted(host)),
        }
    }
}

impl std::error::Error for Refusal {}

/// Decides about a tool's action. A declared tool may act by the rule `declared:NAME`; a credential narrows that to its
/// scopes, and to HTTP; a remote command needs the host the tool was declared with, whose credentials are that host's own.
pub fn decide(tool: &Tool, rule: &ToolRule, action: Action) -> Result<Grant, Refusal> {
    let target = action.target();
    if let Some(credential) = &rule.credential
        && !may_carry(credential, &action)
    {
        return Err(Refusal::CredentialScope { credential: credential.name.clone(), target });
    }
    let host = host_of(rule, &action)?;
    let terms = Terms {
        tool: tool.name.clone(),
        rule: rule_name(tool),
        target,
        credential: rule.credential.as_ref().map(Arc::clone),
        host,
        content_bytes: rule.content_bytes,
        at_limit: rule.at_limit,
        timeout: rule.timeout,
    };
    Ok(match action {
        Action::Http(action) => Grant::Http(Authorized::new(action, terms)),
        Action::Exec(action) => Grant::Exec(Authorized::new(action, terms)),
        Action::Ssh(action) => Grant::Ssh(Authorized::new(action, terms)),
        Action::Read(action) => Grant::Read(Authorized::new(action, terms)),
    })
}

/// What allows a tool to act, as recorded: what the operator declared, or what every gateway offers.
fn rule_name(tool: &Tool) -> String {
    match tool.recipe {
        Recipe::Http(_) | Recipe::Exec(_) | Recipe::Ssh(_) => format!("declared:{}", tool.name),
        Recipe::Read => format!("builtin:{}", tool.name),
    }
}

/// The host of a remote command; other actions have none.
fn host_of(rule: &ToolRule, action: &Action) -> Result<Option<Arc<HostRule>>, Refusal> {
    let Action::Ssh(action) = action else { return Ok(None) };
    match rule.host.as_ref().filter(|host| host.name == action.host) {
        Some(host) => Ok(Some(Arc::clone(host))),
        None => Err(Refusal::UndeclaredHost { host: action.host.clone() }),
    }
}

/// Whether a credential has any business with an origin: for the check at load that a tool can ever use its credential.
pub fn covers_origin(credential: &CredentialRule, origin: &Origin) -> bool {
    credential
        .scopes
        .iter()
        .any(|scope| scope.scheme == origin.scheme && scope.host == origin.host && scope.port == origin.port)
}

fn may_carry(credential: &CredentialRule, action: &Action) -> bool {
    match action {
        Action::Http(action) => credential.scopes.iter().any(|scope| covers(scope, action)),
        Action::Exec(_) | Action::Ssh(_) | Action::Read(_) => false,
    }
}

fn covers(scope: &Scope, action: &HttpAction) -> bool {
    scope.scheme == action.scheme
        && scope.host == action.host
        && scope.port == action.port
        && action.path.starts_with('/')
        && !has_dot_segment(&action.path)
        && (scope.paths.is_empty() || scope.paths.iter().any(|prefix| is_under(prefix, &action.path)))
}

/// Compares raw segments from the root, so that `/repos` covers `/repos` and `/repos/x` but neither `/reposx` nor
/// `/repos%2Fx`. A prefix that is no absolute path covers nothing.
fn is_under(prefix: &str, path: &str) -> bool {
    let (Some(prefix), Some(path)) = (prefix.strip_prefix('/'), path.strip_prefix('/')) else { return false };
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let mut segments = path.split('/');
    prefix.is_empty() || prefix.split('/').all(|segment| segments.next() == Some(segment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::exec::{ExecTemplate, ExecWritten};
    use crate::action::http::{HttpTemplate, HttpWritten, Scheme};
    use crate::action::schema::Schema;
    use crate::action::ssh::{SshTemplate, SshWritten};
    use crate::action::template::argv::Dash;
    use crate::mcp::listing::ToolAnnotations;
    use crate::policy::rules::{AtLimit, HostKeyPolicy, Placement, SshAuth, Tie, Toolbox};
    use serde_json::json;
    use std::path::PathBuf;
    use std::time::Duration;

    fn tool(name: &str, input: serde_json::Value, recipe: Recipe) -> Tool {
        Tool {
            name: name.to_owned(),
            title: None,
            description: String::new(),
            annotations: ToolAnnotations::default(),
            input: Schema::compile(&input).unwrap(),
            input_json: input.to_string(),
            recipe,
            limit: None,
        }
    }

    fn http_tool(url: &str) -> Tool {
        let written = HttpWritten { method: "GET".to_owned(), url: url.to_owned(), ..HttpWritten::default() };
        let input = json!({"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": false});
        tool("issues", input, Recipe::Http(HttpTemplate::new(&written).unwrap()))
    }

    fn exec_tool() -> Tool {
        let argv = vec!["df".to_owned(), "-h".to_owned()];
        let written = ExecWritten { argv, env: Vec::new(), cwd: PathBuf::from("/"), dash: Dash::Refused };
        let input = json!({"type": "object", "additionalProperties": false});
        tool("disk", input, Recipe::Exec(ExecTemplate::new(&written).unwrap()))
    }

    fn ssh_tool(host: &str) -> Tool {
        let argv = vec!["uptime".to_owned()];
        let dash = Dash::Refused;
        let written = SshWritten { host: host.to_owned(), argv, env: Vec::new(), cwd: None, stdin: None, dash };
        let input = json!({"type": "object", "additionalProperties": false});
        tool("up", input, Recipe::Ssh(SshTemplate::new(&written).unwrap()))
    }

    fn host(auth: SshAuth) -> ToolRule {
        let host = HostRule {
            name: "web1".to_owned(),
            address: "10.0.0.5".to_owned(),
            port: 22,
            user: "deploy".to_owned(),
            auth,
            host_key: HostKeyPolicy::Strict,
            known_hosts: PathBuf::from("/known_hosts"),
            fingerprints: Vec::new(),
            tie: Tie::Stdin,
        };
        ToolRule { credential: None, host: Some(Arc::new(host)), ..rule(&[]) }
    }

    #[track_caller]
    fn check_ssh(auth: SshAuth, credential: Option<&str>, passphrase: Option<&str>) {
        let tool = ssh_tool("web1");
        let grant = decide(&tool, &host(auth), tool.action("{}").unwrap()).unwrap();
        let terms = grant.terms();
        assert_eq!((terms.target.as_str(), terms.rule.as_str()), ("ssh web1 uptime", "declared:up"));
        assert_eq!(terms.host.as_ref().unwrap().address, "10.0.0.5");
        assert_eq!((terms.credential_name(), terms.passphrase_name()), (credential, passphrase));
        assert!(terms.credential.is_none() && matches!(grant, Grant::Ssh(_)));
    }

    fn rule(paths: &[&str]) -> ToolRule {
        let scope = Scope {
            scheme: Scheme::Https,
            host: "api.example.com".to_owned(),
            port: 443,
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        let credential = CredentialRule { name: "github".to_owned(), placement: Placement::Bearer, scopes: vec![scope] };
        ToolRule {
            credential: Some(Arc::new(credential)),
            host: None,
            content_bytes: 4096,
            at_limit: AtLimit::Stop,
            timeout: Duration::from_secs(5),
        }
    }

    #[track_caller]
    fn check_scope(paths: &[&str], url: &str, x: &str, want: bool) {
        let tool = http_tool(url);
        let action = tool.action(&json!({ "x": x }).to_string()).unwrap();
        let decision = decide(&tool, &rule(paths), action);
        assert_eq!(decision.is_ok(), want, "{paths:?} {url} {x}: {decision:?}");
    }

    /// A path no template makes: the decision must not lean on the template.
    #[track_caller]
    fn check_raw_path(prefix: &str, path: &str, want: bool) {
        let tool = http_tool("https://api.example.com/");
        let Ok(Action::Http(mut action)) = tool.action("{}") else { panic!("no action") };
        action.path = path.to_owned();
        assert_eq!(decide(&tool, &rule(&[prefix]), Action::Http(action)).is_ok(), want, "{prefix} {path}");
    }

    #[test]
    fn grants_carry_the_terms() {
        let tool = http_tool("https://api.example.com/v1/{x}");
        let action = tool.action(r#"{"x": "a b"}"#).unwrap();
        let grant = decide(&tool, &rule(&[]), action.clone()).unwrap();
        let terms = grant.terms();
        assert_eq!((terms.tool.as_str(), terms.rule.as_str()), ("issues", "declared:issues"));
        assert_eq!(terms.target, "GET https://api.example.com/v1/a%20b");
        assert_eq!((terms.content_bytes, terms.at_limit, terms.timeout), (4096, AtLimit::Stop, Duration::from_secs(5)));
        assert_eq!(terms.credential.as_ref().unwrap().name, "github");
        assert_eq!((terms.credential_name(), terms.passphrase_name(), &terms.host), (Some("github"), None, &None));
        let Grant::Http(grant) = grant else { panic!("expected an HTTP grant") };
        assert_eq!(Action::Http(grant.action().clone()), action);
    }

    #[test]
    fn exec_never_carries_a_credential() {
        let tool = exec_tool();
        let without = ToolRule { credential: None, ..rule(&[]) };
        let grant = decide(&tool, &without, tool.action("{}").unwrap()).unwrap();
        assert_eq!((grant.terms().target.as_str(), grant.terms().rule.as_str()), ("exec df -h", "declared:disk"));
        let refusal = decide(&tool, &rule(&[]), tool.action("{}").unwrap()).unwrap_err();
        assert_eq!(refusal.to_string(), "credential \"github\": expected a target within its \"for\", got exec df -h");
        assert_eq!((refusal.stage(), refusal.reason()), ("grant", "credential_scope"));
    }

    #[test]
    fn remote_commands_carry_their_host_and_its_credentials() {
        let named = |name: &str| name.to_owned();
        let (credential, certificate) = (named("web_key"), None);
        check_ssh(SshAuth::Key { credential, passphrase: Some(named("pass")), certificate }, Some("web_key"), Some("pass"));
        check_ssh(SshAuth::Password { credential: named("word") }, Some("word"), None);
        check_ssh(SshAuth::Agent { identity: PathBuf::from("/id.pub") }, None, None);
    }

    #[test]
    fn remote_commands_go_to_their_declared_host_alone() {
        let agent = || SshAuth::Agent { identity: PathBuf::from("/id.pub") };
        let undeclared = |tool: &Tool, rule: &ToolRule| decide(tool, rule, tool.action("{}").unwrap()).unwrap_err();
        for (tool, rule) in [
            (ssh_tool("web2"), host(agent())),
            (ssh_tool("Web1"), host(agent())),
            (ssh_tool("web1"), ToolRule { host: None, ..host(agent()) }),
        ] {
            let refusal = undeclared(&tool, &rule);
            assert_eq!((refusal.stage(), refusal.reason()), ("grant", "undeclared_host"));
            assert!(refusal.to_string().starts_with("expected the declared host of the tool, got \""), "{refusal}");
        }
        let with_credential = ToolRule { credential: rule(&[]).credential, ..host(agent()) };
        let refusal = undeclared(&ssh_tool("web1"), &with_credential);
        assert_eq!(refusal.to_string(), "credential \"github\": expected a target within its \"for\", got ssh web1 uptime");
        let exec = exec_tool();
        let grant = decide(&exec, &host(agent()), exec.action("{}").unwrap()).unwrap();
        assert_eq!(grant.terms().host, None);
    }

    #[test]
    fn scheme_host_and_port_are_compared_whole() {
        check_scope(&[], "https://api.example.com/any/{x}", "a", true);
        check_scope(&[], "https://API.example.com:443/{x}", "a", true);
        check_scope(&[], "http://api.example.com:443/{x}", "a", false);
        check_scope(&[], "https://api.example.com:444/{x}", "a", false);
        check_scope(&[], "https://api.example.com.evil.example/{x}", "a", false);
        check_scope(&[], "https://example.com/{x}", "a", false);
        let mut nowhere = rule(&[]);
        nowhere.credential = Some(Arc::new(CredentialRule {
            scopes: Vec::new(),
            ..CredentialRule::clone(nowhere.credential.as_ref().unwrap())
        }));
        let tool = http_tool("https://api.example.com/");
        assert!(decide(&tool, &nowhere, tool.action("{}").unwrap()).is_err());
        let Recipe::Http(template) = &tool.recipe else { panic!("no HTTP recipe") };
        assert!(covers_origin(rule(&[]).credential.as_ref().unwrap(), template.origin()));
        assert!(!covers_origin(nowhere.credential.as_ref().unwrap(), template.origin()));
    }

    #[test]
    fn paths_are_compared_by_segment() {
        for prefix in ["/repos", "/repos/"] {
            check_scope(&[prefix], "https://api.example.com/repos", "", true);
            check_scope(&[prefix], "https://api.example.com/repos/", "", true);
            check_scope(&["/other", prefix], "https://api.example.com/repos/{+x}", "a/b", true);
            check_scope(&[prefix], "https://api.example.com/repos{x}", "x", false);
            check_scope(&[prefix], "https://api.example.com/{x}", "repos/a", false);
            check_scope(&[prefix], "https://api.example.com/{x}", "Repos", false);
            check_scope(&[prefix], "https://api.example.com/{x}", "repos", true);
            check_scope(&[prefix], "https://api.example.com/", "", false);
        }
        check_scope(&["/"], "https://api.example.com/a", "", true);
        check_scope(&["/a/b"], "https://api.example.com/a", "", false);
        check_scope(&["/a/b"], "https://api.example.com/a/bc", "", false);
        check_scope(&["/a/b/"], "https://api.example.com/a/b/c", "", true);
        check_scope(&["repos"], "https://api.example.com/repos", "", false);
    }

    #[test]
    fn tricks_are_outside() {
        for path in [
            "/repos/../user",
            "/repos/..",
            "/repos/./x",
            "/repos/%2e%2e/user",
            "/repos/.%2E/user",
            "/repos/..%2Fuser",
            "/repos/x%2f..%2f..%2fuser",
            "/repos/..%5cuser",
            "/repos/..;/user",
            "/repos/..%3b/user",
            "/repos%2Fx",
            "/repos%2f",
            "/%72epos/x",
            "//repos/x",
            "/reposx",
            "repos/x",
            "",
        ] {
            check_raw_path("/repos/", path, false);
        }
        check_raw_path("/repos/", "/repos/a%2Fb", true);
        check_raw_path("/repos/", "/repos/..a/.b/c..", true);
    }

    #[test]
    fn refusals() {
        let unknown = Refusal::UnknownTool { name: "a\nb".to_owned() };
        assert_eq!(unknown.to_string(), "expected a declared tool, got \"a\\nb\"");
        assert_eq!((unknown.stage(), unknown.reason()), ("call", "unknown_tool"));
        let bad = Refusal::BadArguments(ArgumentError { problems: vec!["a".to_owned(), "b".to_owned()] });
        assert_eq!(bad.to_string(), "a; b");
        assert_eq!((bad.stage(), bad.reason()), ("action", "bad_arguments"));
    }

    #[test]
    fn a_toolbox_is_ordered_and_found_by_name() {
        let disk = ToolRule { credential: None, ..rule(&[]) };
        let toolbox = Toolbox::new(vec![(http_tool("https://api.example.com/"), rule(&[])), (exec_tool(), disk)]);
        assert_eq!(toolbox.iter().map(|(tool, _)| tool.name.as_str()).collect::<Vec<_>>(), ["disk", "issues"]);
        let (tool, rule) = toolbox.find("issues").unwrap();
        assert!(tool.name == "issues" && rule.credential.is_some());
        assert!(toolbox.find("Issues").is_none() && Toolbox::default().find("").is_none());
    }
}
