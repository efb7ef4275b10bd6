//! The gateway's own tools as meant: `builtin` turned into tools with rules, and into words for the model.
//!
//! A rule is checked whole here: hosts and credentials exist, shapes can match, a credential may go where its rule does.
//! It starts nothing, resolves nothing and reads no secret.

use std::sync::Arc;

use crate::action::http::{Origin, check_method};
use crate::action::schema::Schema;
use crate::action::template::shown;
use crate::action::{Recipe, Tool, http_request, ssh_exec};
use crate::config::meant::{ToolReader, at_limit, dash};
use crate::config::object::Said;
use crate::config::scope;
use crate::config::tree::quote;
use crate::config::written::builtin::{BuiltinWritten, HttpRequestWritten, RequestRuleWritten, SshExecWritten, TermsWritten};
use crate::limits::{RULE_CHARS_SHOWN, RULES_SHOWN};
use crate::mcp::listing::ToolAnnotations;
use crate::policy::rules::{Allow, AtLimit, CommandRules, HostRule, RequestRule, Tie, ToolRule};
use crate::policy::shape::Shape;

/// Methods without effect (RFC 9110 section 9.2.1) that a rule allows unless it says which.
const METHODS: [&str; 2] = ["GET", "HEAD"];

/// The names that `builtin` takes.
pub fn names(written: &BuiltinWritten<'_>) -> Vec<&'static str> {
    let request = written.http_request.as_ref().map(|_| http_request::NAME);
    let command = written.ssh_exec.as_ref().map(|_| ssh_exec::NAME);
    request.into_iter().chain(command).collect()
}

impl ToolReader<'_, '_> {
    /// The tools of `builtin`, as far as they are sound.
    pub(in crate::config) fn builtin(&mut self, written: &BuiltinWritten<'_>) -> Vec<(Tool, ToolRule)> {
        let request = written.http_request.as_ref().map(|request| self.http_request(request));
        let command = written.ssh_exec.as_ref().map(|command| self.ssh_exec(command));
        request.into_iter().chain(command).collect()
    }

    fn http_request(&mut self, written: &HttpRequestWritten<'_>) -> (Tool, ToolRule) {
        let rules: Vec<RequestRule> = written.allow.iter().filter_map(|rule| self.request_rule(rule)).collect();
        let is_safe = rules.iter().all(|rule| rule.methods.iter().all(|method| METHODS.contains(&method.as_str())));
        let annotations = ToolAnnotations { read_only: is_safe.then_some(true), ..open_world() };
        let description = request_description(&rules);
        let tool = tool(http_request::NAME, "HTTP request", description, http_request::INPUT, annotations, Recipe::HttpRequest);
        (tool, self.rule(&written.terms, AtLimit::Drain, Allow::Requests(rules)))
    }

    fn request_rule(&mut self, written: &RequestRuleWritten<'_>) -> Option<RequestRule> {
        let scope = scope::scope(&written.scope, "a request of this tool goes", self.problems);
        let methods = match &written.methods {
            Some(methods) => methods.iter().map(|method| self.method(*method)).collect::<Vec<_>>().into_iter().collect(),
            None => Some(METHODS.map(str::to_owned).to_vec()),
        };
        let origin = scope.as_ref().map(|scope| Origin { scheme: scope.scheme, host: scope.host.clone(), port: scope.port });
        let credential = written.credential.map(|name| self.credentials.for_request(name, origin.as_ref(), self.problems));
        let credential = match credential {
            Some(credential) => Some(credential?),
            None => None,
        };
        Some(RequestRule { scope: scope?, methods: methods?, credential })
    }

    fn method(&mut self, said: Said<&str>) -> Option<String> {
        match check_method(said.value, false) {
            Ok(()) => Some(said.value.to_owned()),
            Err(problem) => {
                self.problems.add(said.at, problem.trim_start_matches("method: "));
                None
            }
        }
    }

    fn ssh_exec(&mut self, written: &SshExecWritten<'_>) -> (Tool, ToolRule) {
        if !cfg!(feature = "ssh") {
            self.problems.add(written.key_at, "this build has no SSH (feature ssh)");
        }
        let hosts: Vec<Arc<HostRule>> =
            written.hosts.iter().filter_map(|name| self.hosts.for_tool(*name, self.problems)).collect();
        for host in hosts.iter().filter(|host| host.tie == Tie::None) {
            self.untied(written.stop_at_limit, Some(&Some(Arc::clone(host))));
        }
        let shapes: Vec<Shape> = written.allow.iter().filter_map(|shape| self.shape(shape)).collect();
        let description = command_description(&hosts, &shapes);
        let tool = tool(ssh_exec::NAME, "SSH command", description, ssh_exec::INPUT, open_world(), Recipe::SshExec);
        let rules = CommandRules { hosts, shapes, dash: dash(written.allow_dash) };
        (tool, self.rule(&written.terms, at_limit(written.stop_at_limit), Allow::Commands(rules)))
    }

    fn shape(&mut self, written: &[Said<&str>]) -> Option<Shape> {
        let elements: Vec<String> = written.iter().map(|element| element.value.to_owned()).collect();
        match Shape::parse(&elements) {
            Ok(shape) => Some(shape),
            Err((index, problem)) => {
                self.problems.add(written.get(index).map_or(0, |element| element.at), problem);
                None
            }
        }
    }

    fn rule(&self, terms: &TermsWritten, at_limit: AtLimit, allow: Allow) -> ToolRule {
        ToolRule {
            credential: None,
            host: None,
            content_bytes: terms.content_bytes.unwrap_or(self.limits.content_bytes),
            at_limit,
            timeout: terms.timeout.map_or(self.limits.call_timeout, |said| said.value),
            allow,
            pace: terms.pace,
            confirm: terms.confirm.unwrap_or_default(),
        }
    }
}

fn open_world() -> ToolAnnotations {
    ToolAnnotations { open_world: Some(true), ..ToolAnnotations::default() }
}

fn tool(name: &str, title: &str, description: String, input: &str, annotations: ToolAnnotations, recipe: Recipe) -> Tool {
    let value = serde_json::from_str(input).expect("a constant");
    Tool {
        name: name.to_owned(),
        title: Some(title.to_owned()),
        description,
        annotations,
        input: Schema::compile(&value).expect("a constant schema"),
        input_json: input.to_owned(),
        recipe,
        limit: None,
    }
}

fn request_description(rules: &[RequestRule]) -> String {
    let rule = |rule: &RequestRule| {
        let scope = &rule.scope;
        let paths = if scope.paths.is_empty() { String::new() } else { format!(" under {}", scope.paths.join(", ")) };
        let credential =
            rule.credential.as_ref().map(|credential| format!(", with the credential {}", quote(&credential.name)));
        let place = scope::origin(scope.scheme, &scope.host, scope.port);
        format!("{} {place}{paths}{}", rule.methods.join(", "), credential.unwrap_or_default())
    };
    format!(
        "Sends one HTTP request and shows the response; redirects are shown, not followed. Allowed, and nothing else: {}. The \
         gateway adds credentials itself; headers such as authorization and cookie cannot be set.",
        listed(rules, rule)
    )
}

fn command_description(hosts: &[Arc<HostRule>], shapes: &[Shape]) -> String {
    format!(
        "Runs one command on an SSH host; no shell reads its arguments. Hosts: {}. Allowed as argv, element by element, and \
         nothing else (\"*\" is any one argument): {}.",
        listed(hosts, |host| host.name.clone()),
        listed(shapes, Shape::to_json)
    )
}

/// The first of them, each cut, and how many more there are.
fn listed<T>(items: &[T], each: impl Fn(&T) -> String) -> String {
    let shown: Vec<String> = items.iter().take(RULES_SHOWN).map(|item| shown_rule(&each(item))).collect();
    let more = items.len().saturating_sub(RULES_SHOWN);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", shown.join("; "))
}

fn shown_rule(text: &str) -> String {
    // JSON and URLs have escaped what does not print; only a length is left to bound.
    if text.chars().count() <= RULE_CHARS_SHOWN { text.to_owned() } else { shown(text, RULE_CHARS_SHOWN) }
}
