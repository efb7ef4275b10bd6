//! The decision: pure, default deny.
//!
//! What is not declared does not run. A credential goes with a request only where its own scopes say so, judged on the filled
//! request and by whole segments of its path. Here alone an `Authorized` is made; nothing here may look at the world.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::action::http::Origin;
use crate::action::template::header::folded;
use crate::action::template::quoted;
use crate::action::{Action, ArgumentError, Recipe, Tool};
use crate::policy::allow::{covers, match_command, match_request};
use crate::policy::consent::{Decision, Unapproved, Unconsented};
use crate::policy::grant::{Authorized, Grant, Terms};
use crate::policy::rules::{Allow, CommandRules, Confirm, CredentialRule, HostRule, Placement, Rate, RequestRule, ToolRule};

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
    /// No allow rule of the gateway's own tool matches the action.
    NotAllowed {
        /// Name of the tool, which is its key under `builtin`.
        tool: String,
        /// What was wanted, as in `Terms::target`.
        target: String,
        /// The rule that came nearest and its first part that did not fit; `None` where there is no rule.
        nearest: Option<String>,
    },
    /// The caller sets the header that a credential stands in.
    ReservedHeader {
        /// Its name, lower case.
        header: String,
        /// Name of the credential.
        credential: String,
    },
    /// More calls than the tool's `rate` gives.
    RateLimited {
        /// Name of the tool.
        tool: String,
        /// Its rate.
        rate: Rate,
        /// Until the next one is possible.
        wait: Duration,
    },
    /// As many calls as the tool's `max_concurrent` allows are under way.
    TooManyAtOnce {
        /// Name of the tool.
        tool: String,
        /// How many.
        max: usize,
    },
    /// A human has to be asked first, and nobody said yes.
    Unconsented(Unconsented),
}

impl From<Unconsented> for Refusal {
    fn from(why: Unconsented) -> Refusal {
        Refusal::Unconsented(why)
    }
}

impl Refusal {
    /// The stage that could not be passed, for records: `call`, `action` or `grant`, the type that was not made; `pace`, where
    /// there was a grant and it is too early; `approval`, where a human has the last word.
    pub fn stage(&self) -> &'static str {
        match self {
            Refusal::UnknownTool { .. } => "call",
            Refusal::BadArguments(_) => "action",
            Refusal::CredentialScope { .. }
            | Refusal::UndeclaredHost { .. }
            | Refusal::NotAllowed { .. }
            | Refusal::ReservedHeader { .. } => "grant",
            Refusal::RateLimited { .. } | Refusal::TooManyAtOnce { .. } => "pace",
            Refusal::Unconsented(_) => "approval",
        }
    }

    /// Stable name of the reason, for records and counters.
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::UnknownTool { .. } => "unknown_tool",
            Refusal::BadArguments(_) => "bad_arguments",
            Refusal::CredentialScope { .. } => "credential_scope",
            Refusal::UndeclaredHost { .. } => "undeclared_host",
            Refusal::NotAllowed { .. } => "not_allowed",
            Refusal::ReservedHeader { .. } => "reserved_header",
            Refusal::RateLimited { .. } => "rate_limited",
            Refusal::TooManyAtOnce { .. } => "max_concurrent",
            Refusal::Unconsented(why) => why.reason(),
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
            Refusal::NotAllowed { tool, target, nearest } => {
                write!(f, "builtin.{tool}: no allow rule matches {target}")?;
                nearest.as_ref().map_or(Ok(()), |nearest| write!(f, "; nearest is {nearest}"))
            }
            Refusal::ReservedHeader { header, credential } => {
                let (header, credential) = (quoted(header), quoted(credential));
                write!(f, "headers: expected no {header}, which the gateway sets with the credential {credential}")
            }
            Refusal::RateLimited { tool, rate, wait } => {
                // Rounded up: whoever waits that long is not refused again.
                let tenths = wait.as_nanos().div_ceil(100_000_000).max(1);
                let (tool, seconds) = (quoted(tool), format!("{}.{}", tenths / 10, tenths % 10));
                let Rate { per_minute, burst } = rate;
                write!(f, "rate of tool {tool}: {per_minute} a minute, burst {burst}; the next call is possible in {seconds} s")
            }
            Refusal::TooManyAtOnce { tool, max } => {
                let tool = quoted(tool);
                write!(f, "max_concurrent of tool {tool}: expected at most {max} at once, got one more; wait for one to end")
            }
            Refusal::Unconsented(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

/// What an action may be carried out by: the rule as recorded, and what comes with it.
struct Basis {
    rule: String,
    credential: Option<Arc<CredentialRule>>,
    host: Option<Arc<HostRule>>,
}

/// Decides about a tool's action. A declared tool may act by the rule `declared:NAME`, for its target is fixed; a tool of the
/// gateway's own by the first of its allow rules that matches whole. A credential narrows that to its scopes, and to HTTP; a
/// remote command goes to a host that the rule names, whose credentials are that host's own.
pub fn decide(tool: &Tool, rule: &ToolRule, action: Action) -> Result<Decision, Refusal> {
    let target = action.target();
    let basis = match &rule.allow {
        Allow::AsDeclared => as_declared(tool, rule, &action)?,
        Allow::Requests(rules) => by_request_rule(tool, rules, &action)?,
        Allow::Commands(rules) => by_command_rule(tool, rules, &action)?,
    };
    if let Some(credential) = &basis.credential {
        check_credential(credential, &action)?;
    }
    let terms = Terms {
        tool: tool.name.clone(),
        rule: basis.rule,
        target,
        credential: basis.credential,
        host: basis.host,
        content_bytes: rule.content_bytes,
        at_limit: rule.at_limit,
        timeout: rule.timeout,
    };
    let grant = match action {
        Action::Http(action) => Grant::Http(Authorized::new(action, terms)),
        Action::Exec(action) => Grant::Exec(Authorized::new(action, terms)),
        Action::Ssh(action) => Grant::Ssh(Authorized::new(action, terms)),
        Action::Read(action) => Grant::Read(Authorized::new(action, terms)),
    };
    Ok(match rule.confirm {
        Confirm::Never => Decision::Granted(grant),
        confirm @ (Confirm::Ask | Confirm::Session) => Decision::Asks(Unapproved::new(grant, confirm)),
    })
}

/// What the operator declared, or what every gateway offers. A tool whose target the caller writes is neither.
fn as_declared(tool: &Tool, rule: &ToolRule, action: &Action) -> Result<Basis, Refusal> {
    let name = match tool.recipe {
        Recipe::Http(_) | Recipe::Exec(_) | Recipe::Ssh(_) => format!("declared:{}", tool.name),
        Recipe::Read => format!("builtin:{}", tool.name),
        Recipe::HttpRequest | Recipe::SshExec => return Err(not_allowed(tool, action, None)),
    };
    let host = host_of(rule, action)?;
    Ok(Basis { rule: name, credential: rule.credential.as_ref().map(Arc::clone), host })
}

fn by_request_rule(tool: &Tool, rules: &[RequestRule], action: &Action) -> Result<Basis, Refusal> {
    let Action::Http(request) = action else { return Err(not_allowed(tool, action, None)) };
    let (index, rule) = match_request(rules, request).map_err(|nearest| not_allowed(tool, action, nearest))?;
    Ok(Basis { rule: allow_rule(tool, index), credential: rule.credential.as_ref().map(Arc::clone), host: None })
}

fn by_command_rule(tool: &Tool, rules: &CommandRules, action: &Action) -> Result<Basis, Refusal> {
    let Action::Ssh(command) = action else { return Err(not_allowed(tool, action, None)) };
    let (index, host) = match_command(rules, command).map_err(|nearest| not_allowed(tool, action, nearest))?;
    Ok(Basis { rule: allow_rule(tool, index), credential: None, host: Some(Arc::clone(host)) })
}

/// Where the rule stands in the configuration.
fn allow_rule(tool: &Tool, index: usize) -> String {
    format!("builtin.{}.allow[{index}]", tool.name)
}

fn not_allowed(tool: &Tool, action: &Action, nearest: Option<String>) -> Refusal {
    Refusal::NotAllowed { tool: tool.name.clone(), target: action.target(), nearest }
}

/// The host of a declared remote command; other actions have none.
fn host_of(rule: &ToolRule, action: &Action) -> Result<Option<Arc<HostRule>>, Refusal> {
    let Action::Ssh(action) = action else { return Ok(None) };
    match rule.host.as_ref().filter(|host| host.name == action.host) {
        Some(host) => Ok(Some(Arc::clone(host))),
        None => Err(Refusal::UndeclaredHost { host: action.host.clone() }),
    }
}

/// Whether a credential may go with the action, and has the header it stands in to itself.
fn check_credential(credential: &CredentialRule, action: &Action) -> Result<(), Refusal> {
    let Action::Http(request) = action else { return Err(out_of_scope(credential, action)) };
    if !credential.scopes.iter().any(|scope| covers(scope, request)) {
        return Err(out_of_scope(credential, action));
    }
    let header = match &credential.placement {
        Placement::Bearer => "authorization",
        Placement::Header { name, .. } => name,
    };
    if request.headers.iter().any(|(name, _)| folded(name) == folded(header)) {
        return Err(Refusal::ReservedHeader { header: header.to_owned(), credential: credential.name.clone() });
    }
    Ok(())
}

fn out_of_scope(credential: &CredentialRule, action: &Action) -> Refusal {
    Refusal::CredentialScope { credential: credential.name.clone(), target: action.target() }
}

/// Whether a credential has any business with an origin: for the check at load that a tool can ever use its credential.
pub fn covers_origin(credential: &CredentialRule, origin: &Origin) -> bool {
    credential
        .scopes
        .iter()
        .any(|scope| scope.scheme == origin.scheme && scope.host == origin.host && scope.port == origin.port)
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
    use crate::policy::rules::{AtLimit, Confirm, HostKeyPolicy, Pace, Scope, SshAuth, Tie, Toolbox};
    use crate::policy::shape::Shape;
    use serde_json::json;
    use std::path::PathBuf;
    use std::time::Duration;

    fn decide(tool: &Tool, rule: &ToolRule, action: Action) -> Result<Grant, Refusal> {
        super::decide(tool, rule, action).map(|decision| match decision {
            Decision::Granted(grant) => grant,
            Decision::Asks(unapproved) => panic!("no rule here asks: {unapproved:?}"),
        })
    }

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
            allow: Allow::AsDeclared,
            pace: Pace::default(),
            confirm: Confirm::Never,
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

    fn builtin_tool(name: &str, recipe: Recipe) -> Tool {
        let input =
            if matches!(recipe, Recipe::SshExec) { crate::action::ssh_exec::INPUT } else { crate::action::http_request::INPUT };
        tool(name, serde_json::from_str(input).unwrap(), recipe)
    }

    /// Requests under /v1/, and under /v1/keyed/ those that carry a credential for less.
    fn request_rules() -> ToolRule {
        let with_paths = |paths: &[&str]| Scope {
            scheme: Scheme::Https,
            host: "api.example.com".to_owned(),
            port: 443,
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        let credential = |name: &str, placement| {
            let scopes = vec![with_paths(&["/keyed/ours/"])];
            Some(Arc::new(CredentialRule { name: name.to_owned(), placement, scopes }))
        };
        let header = Placement::Header { name: "x-api-key".to_owned(), prefix: String::new() };
        let rule = |paths: &[&str], methods: &[&str], credential| RequestRule {
            scope: with_paths(paths),
            methods: methods.iter().map(|method| (*method).to_owned()).collect(),
            credential,
        };
        let rules = vec![
            rule(&["/v1/"], &["GET"], None),
            rule(&["/keyed/"], &["GET"], credential("github", Placement::Bearer)),
            rule(&["/keyed/"], &["PUT"], credential("web_key", header)),
        ];
        ToolRule { credential: None, allow: Allow::Requests(rules), ..self::rule(&[]) }
    }

    #[track_caller]
    fn check_request(arguments: serde_json::Value, want: Result<(&str, Option<&str>), (&str, &str)>) {
        let tool = builtin_tool("http_request", Recipe::HttpRequest);
        let action = tool.action(&arguments.to_string()).unwrap();
        match (decide(&tool, &request_rules(), action), want) {
            (Ok(grant), Ok((rule, credential))) => {
                let terms = grant.terms();
                assert_eq!((terms.rule.as_str(), terms.credential_name()), (rule, credential), "{arguments}");
                assert!(matches!(grant, Grant::Http(_)));
            }
            (Err(refusal), Err((reason, says))) => {
                assert_eq!((refusal.stage(), refusal.reason()), ("grant", reason), "{arguments}");
                assert!(refusal.to_string().contains(says), "{says:?} is not in {refusal}");
            }
            (got, want) => panic!("{arguments}: {got:?}, not {want:?}"),
        }
    }

    #[test]
    fn requests_run_by_an_allow_rule_and_carry_its_credential() {
        let url = |path: &str| format!("https://api.example.com{path}");
        check_request(json!({"url": url("/v1/x")}), Ok(("builtin.http_request.allow[0]", None)));
        check_request(json!({"url": url("/keyed/ours/x")}), Ok(("builtin.http_request.allow[1]", Some("github"))));
        let put = json!({"method": "PUT", "url": url("/keyed/ours/x"), "headers": {"x-other": "1"}});
        check_request(put, Ok(("builtin.http_request.allow[2]", Some("web_key"))));
        let nearest = "builtin.http_request: no allow rule matches GET https://api.example.com/v2?…; nearest is allow[0]: expected a path";
        check_request(json!({"url": url("/v2?key=secret")}), Err(("not_allowed", nearest)));
        let scope = "credential \"github\": expected a target within its \"for\", got GET https://api.example.com/keyed/theirs";
        check_request(json!({"url": url("/keyed/theirs")}), Err(("credential_scope", scope)));
        let set = json!({"method": "PUT", "url": url("/keyed/ours/x"), "headers": {"X-Api-Key": "mine"}});
        let says = "headers: expected no \"x-api-key\", which the gateway sets with the credential \"web_key\"";
        check_request(set, Err(("reserved_header", says)));
        let alias = json!({"method": "PUT", "url": url("/keyed/ours/x"), "headers": {"X_Api_Key": "mine"}});
        check_request(alias, Err(("reserved_header", says)));
        // Where no credential stands in it, it is a header like any other.
        let own = json!({"url": url("/v1/x"), "headers": {"X-Api-Key": "mine"}});
        check_request(own, Ok(("builtin.http_request.allow[0]", None)));
    }

    #[test]
    fn commands_run_by_a_shape_on_a_named_host() {
        let tool = builtin_tool("ssh_exec", Recipe::SshExec);
        let agent = SshAuth::Agent { identity: PathBuf::from("/id.pub") };
        let web1 = host(agent).host.unwrap();
        let shapes = vec![Shape::parse(&["uptime".to_owned()]).unwrap()];
        let rules = CommandRules { hosts: vec![web1], shapes, dash: Dash::Refused };
        let rule = ToolRule { credential: None, allow: Allow::Commands(rules), ..rule(&[]) };
        let decided = |arguments: serde_json::Value| decide(&tool, &rule, tool.action(&arguments.to_string()).unwrap());
        let grant = decided(json!({"host": "web1", "argv": ["uptime"]})).unwrap();
        assert_eq!(
            (grant.terms().rule.as_str(), grant.terms().target.as_str()),
            ("builtin.ssh_exec.allow[0]", "ssh web1 uptime")
        );
        assert_eq!(grant.terms().host.as_ref().unwrap().address, "10.0.0.5");
        let refusal = decided(json!({"host": "web1", "argv": ["uptime", "; touch x"]})).unwrap_err();
        let says = "builtin.ssh_exec: no allow rule matches ssh web1 uptime \"; touch x\"; nearest is allow[0]: expected 1 element, got 2";
        assert_eq!((refusal.reason(), refusal.to_string().as_str()), ("not_allowed", says));
        let refusal = decided(json!({"host": "web2", "argv": ["uptime"]})).unwrap_err();
        let says = "builtin.ssh_exec: no allow rule matches ssh web2 uptime; nearest is hosts: expected \"web1\", got \"web2\"";
        assert_eq!(refusal.to_string(), says);
    }

    /// Whatever rules a tool is given by mistake, one whose target the caller writes runs by rules of its own kind alone.
    #[test]
    fn a_target_that_the_caller_writes_needs_a_rule_of_its_kind() {
        let request = builtin_tool("http_request", Recipe::HttpRequest);
        let command = builtin_tool("ssh_exec", Recipe::SshExec);
        let agent = SshAuth::Agent { identity: PathBuf::from("/id.pub") };
        let no_commands = CommandRules { hosts: Vec::new(), shapes: Vec::new(), dash: Dash::Allowed };
        let with = |allow: Allow| ToolRule { credential: None, allow, ..host(agent.clone()) };
        let url = r#"{"url": "https://api.example.com/v1/x"}"#;
        let argv = r#"{"host": "web1", "argv": ["uptime"]}"#;
        for (tool, arguments, allow) in [
            (&request, url, Allow::AsDeclared),
            (&request, url, Allow::Requests(Vec::new())),
            (&request, url, Allow::Commands(no_commands.clone())),
            (&command, argv, Allow::AsDeclared),
            (&command, argv, Allow::Commands(no_commands)),
            (&command, argv, request_rules().allow),
        ] {
            let refusal = decide(tool, &with(allow), tool.action(arguments).unwrap()).unwrap_err();
            assert_eq!((refusal.stage(), refusal.reason()), ("grant", "not_allowed"), "{refusal}");
        }
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
