//! `tidegate explain`: judges a call as `serve` would, prints the decision with its rule and the exact action, and stops there.
//!
//! It reads the configuration, and stdin where it is asked to; it starts, resolves, connects, records and hands out nothing,
//! and asks nobody: it says who would be asked. What it prints is escaped for a terminal; credentials appear by name.

use std::io::Read;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::approval::{ApprovalRules, Approver};
use crate::cli::flags::ExplainOptions;
use crate::cli::serve::load;
use crate::cli::{EXIT_CONFIG, EXIT_IO, EXIT_NO, EXIT_OK, EXIT_USAGE, complain, print};
use crate::config::Config;
use crate::gateway::pipeline::judge_arguments;
use crate::gateway::{answer, live, status};
use crate::limits::LINE_IN_BYTES;
use crate::policy::decide::Refusal;
use crate::policy::grant::Grant;
use crate::policy::rules::{Confirm, HostRule, Pace, Placement, Rate};
use crate::rpc::strict;
use crate::wire::escape::to_line;

/// What is printed of a call that would be carried out.
#[derive(Serialize)]
struct Allowed<'a> {
    decision: &'static str,
    tool: &'a str,
    rule: &'a str,
    target: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<Credential<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<Host<'a>>,
    terms: Terms,
    confirm: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<Approval<'a>>,
    action: &'a RawValue,
}

/// A credential by name, and the header it stands in; none where it logs in to a host.
#[derive(Serialize)]
struct Credential<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    passphrase: Option<&'a str>,
}

#[derive(Serialize)]
struct Host<'a> {
    name: &'a str,
    address: &'a str,
    port: u16,
    user: &'a str,
}

#[derive(Serialize)]
struct Terms {
    content_bytes: usize,
    timeout_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_minute: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_concurrent: Option<usize>,
}

/// Who is asked first, where somebody is: the first of `order` who can be.
#[derive(Serialize)]
struct Approval<'a> {
    order: &'a [Approver],
    timeout_s: f64,
}

/// What is printed of a call that would be refused.
#[derive(Serialize)]
struct Refused<'a> {
    decision: &'static str,
    tool: &'a str,
    code: &'static str,
    stage: &'static str,
    reason: &'static str,
    text: String,
}

/// Explains one call. 0: it would be carried out, once whoever has to be asked says yes; 1: it would be refused.
pub fn run(options: &ExplainOptions) -> u8 {
    let arguments = match arguments(options.arguments.as_deref()) {
        Ok(arguments) => arguments,
        Err((problem, code)) => {
            complain(&problem);
            return code;
        }
    };
    let config = match load(options.config.as_deref()) {
        Ok(config) => config,
        Err(problems) => {
            problems.lines().for_each(complain);
            return EXIT_CONFIG;
        }
    };
    let (text, code) = explain(config, &options.tool, &arguments, options.json);
    match print(&text) {
        EXIT_OK => code,
        failed => failed,
    }
}

/// The arguments as strictly checked text of one JSON object.
fn arguments(given: Option<&str>) -> Result<String, (String, u8)> {
    let text = match given {
        None => return Ok("{}".to_owned()),
        Some("-") => stdin().map_err(|problem| (problem, EXIT_IO))?,
        Some(text) => text.to_owned(),
    };
    let usage = |problem: String| (format!("the arguments: {problem}"), EXIT_USAGE);
    match serde_json::from_str::<&RawValue>(&text) {
        Err(error) => Err(usage(format!("expected one JSON object, got what is no JSON: {error}"))),
        Ok(raw) if !strict::is_object(raw.get()) => {
            Err(usage(format!("expected one JSON object, got {}", crate::rpc::error::kind_of(raw.get()))))
        }
        // As deep as they stand in a request.
        Ok(raw) => match strict::inspect(&format!(r#"{{"params":{{"arguments":{raw}}}}}"#)) {
            Ok(()) => Ok(raw.get().to_owned()),
            Err(flaw) => Err(usage(format!("expected one JSON object with one meaning, got {}", flaw_text(&flaw)))),
        },
    }
}

fn stdin() -> Result<String, String> {
    let mut bytes = Vec::new();
    let most = LINE_IN_BYTES as u64 + 1;
    std::io::stdin().lock().take(most).read_to_end(&mut bytes).map_err(|error| format!("stdin cannot be read: {error}"))?;
    if bytes.len() > LINE_IN_BYTES {
        return Err(format!("stdin: expected at most {LINE_IN_BYTES} bytes, got more"));
    }
    String::from_utf8(bytes).map_err(|_| "stdin: expected UTF-8, got something else".to_owned())
}

fn flaw_text(flaw: &strict::Flaw) -> String {
    match flaw {
        strict::Flaw::TooDeep => "one nested too deep".to_owned(),
        strict::Flaw::LoneSurrogate => "half a surrogate pair".to_owned(),
        strict::Flaw::DuplicateKey(key) => format!("the key {key} twice"),
        strict::Flaw::ReservedKey(key) => format!("the reserved key {key}"),
    }
}

/// What is printed, and the exit code.
fn explain(config: Config, tool: &str, arguments: &str, json: bool) -> (String, u8) {
    if tool == status::NAME {
        let text = "tidegate_status is answered by the gateway itself: there is no action to decide about";
        let line = format!("{{\"decision\":\"allowed\",\"tool\":{},\"rule\":\"builtin:{tool}\"}}", to_line(tool));
        return (format!("{}\n", if json { &line } else { text }), EXIT_OK);
    }
    let tools = live::toolbox(config.tools, &config.limits);
    let (pace, confirm) = tools.find(tool).map(|(_, rule)| (rule.pace, rule.confirm)).unwrap_or_default();
    match judge_arguments(tool, arguments, &tools) {
        Ok(decision) => (allowed(decision.grant(), pace, confirm, &config.approvals, json), EXIT_OK),
        Err(refusal) => (refused(tool, &refusal, json), EXIT_NO),
    }
}

fn allowed(grant: &Grant, pace: Pace, confirm: Confirm, approvals: &ApprovalRules, json: bool) -> String {
    let terms = grant.terms();
    let action = RawValue::from_string(grant.record()).expect("a record is JSON");
    let header = terms.credential.as_ref().map(|rule| match &rule.placement {
        Placement::Bearer => "authorization",
        Placement::Header { name, .. } => name.as_str(),
    });
    let credential = terms.credential_name();
    let allowed = Allowed {
        decision: "allowed",
        tool: &terms.tool,
        rule: &terms.rule,
        target: &terms.target,
        credential: credential.map(|name| Credential { name, header, passphrase: terms.passphrase_name() }),
        host: terms.host.as_deref().map(host),
        terms: Terms {
            content_bytes: terms.content_bytes,
            timeout_s: terms.timeout.as_secs_f64(),
            per_minute: pace.rate.map(|rate| rate.per_minute),
            burst: pace.rate.map(|rate| rate.burst),
            max_concurrent: pace.max_concurrent,
        },
        confirm: confirm_word(confirm),
        approval: approval(confirm, approvals),
        action: &action,
    };
    if json { format!("{}\n", terminal(&to_line(&allowed))) } else { readable(&allowed, pace) }
}

/// As in the configuration.
fn confirm_word(confirm: Confirm) -> &'static str {
    match confirm {
        Confirm::Never => "never",
        Confirm::Ask => "ask",
        Confirm::Session => "session",
    }
}

/// The operator always counts as there: whoever stands behind is never asked.
fn approval(confirm: Confirm, approvals: &ApprovalRules) -> Option<Approval<'_>> {
    let order = &approvals.order;
    let end = order.iter().position(|approver| *approver == Approver::Operator).map_or(order.len(), |last| last + 1);
    match confirm {
        Confirm::Never => None,
        Confirm::Ask | Confirm::Session => Some(Approval { order: &order[..end], timeout_s: approvals.timeout.as_secs_f64() }),
    }
}

fn host(rule: &HostRule) -> Host<'_> {
    Host { name: &rule.name, address: &rule.address, port: rule.port, user: &rule.user }
}

fn readable(allowed: &Allowed<'_>, pace: Pace) -> String {
    let mut rows = vec![("allowed", format!("{} by {}", allowed.tool, allowed.rule)), ("target", allowed.target.to_owned())];
    if let Some(host) = &allowed.host {
        rows.push(("host", format!("{}: {}@{} port {}", host.name, host.user, host.address, host.port)));
    }
    if let Some(credential) = &allowed.credential {
        let header = credential.header.map(|header| format!(", in the header {header}")).unwrap_or_default();
        let opened = credential.passphrase.map(|name| format!(", opened by {name}")).unwrap_or_default();
        rows.push(("credential", format!("{}{header}{opened}", credential.name)));
    }
    let mut limits = format!("{} bytes of result, {} s", allowed.terms.content_bytes, allowed.terms.timeout_s);
    if let Some(Rate { per_minute, burst }) = pace.rate {
        limits.push_str(&format!(", {per_minute} calls a minute (burst {burst})"));
    }
    if let Some(max) = pace.max_concurrent {
        limits.push_str(&format!(", {max} at once"));
    }
    rows.push(("limits", limits));
    rows.push(("confirm", readable_confirm(allowed)));
    rows.push(("action", to_line(allowed.action)));
    rows.iter().map(|(label, text)| format!("{label:<11} {}\n", terminal(text))).collect()
}

fn readable_confirm(allowed: &Allowed<'_>) -> String {
    let Some(Approval { order, timeout_s }) = &allowed.approval else { return allowed.confirm.to_owned() };
    let who: Vec<&str> = order.iter().map(|approver| approver.as_str()).collect();
    let first = if who.len() > 1 { "the first who can be asked of " } else { "" };
    format!("{}: {first}{}, with {timeout_s} s to answer", allowed.confirm, who.join(", "))
}

fn refused(tool: &str, refusal: &Refusal, json: bool) -> String {
    let refused = Refused {
        decision: "refused",
        tool,
        code: answer::code(refusal).as_str(),
        stage: refusal.stage(),
        reason: refusal.reason(),
        text: refusal.to_string(),
    };
    if json {
        return format!("{}\n", terminal(&to_line(&refused)));
    }
    let Refused { code, stage, reason, text, .. } = &refused;
    let rows = [("refused", format!("{tool} with {code}, at the stage {stage}: {reason}")), ("why", text.clone())];
    rows.iter().map(|(label, text)| format!("{label:<11} {}\n", terminal(text))).collect()
}

/// Text that a terminal shows as it is: what it would obey, or not show at all, is written as a JSON escape. JSON stays the
/// same value.
fn terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let is_hidden = matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
        if character.is_control() || is_hidden {
            let mut units = [0; 2];
            character.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const CONFIG: &str = r#"{
      "credentials": {"api": {"from": {"env": "NO_SUCH_VARIABLE"}, "for": [{"host": "api.example.com"}]}},
      "tools": [{"name": "say", "description": "d", "rate": {"per_minute": 6, "burst": 2}, "max_concurrent": 3,
                 "input": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
                 "exec": {"argv": ["echo", "{text}"], "env": {"HOME": "/"}}}],
      "approvals": {"command": ["sh"], "timeout_s": 2.5},
      "builtin": {"http_request": {"allow": [{"host": "api.example.com", "paths": ["/v1/"], "credential": "api"}], "confirm": "session"}}
    }"#;

    #[track_caller]
    fn check(tool: &str, arguments: &str, json: bool, code: u8, want: &str) {
        let config = Config::parse(Path::new("c.json"), CONFIG, &|_| None).unwrap();
        let arguments = super::arguments(Some(arguments)).unwrap();
        assert_eq!(explain(config, tool, &arguments, json), (want.to_owned(), code));
    }

    #[test]
    fn what_would_be_done_is_said_in_words() {
        check(
            "say",
            r#"{"text":"a\u001b[2Jb\u202e"}"#,
            false,
            EXIT_OK,
            "allowed     say by declared:say\n\
             target      exec echo \"a\\u{1b}[2Jb\\u{202e}\"\n\
             limits      32768 bytes of result, 50 s, 6 calls a minute (burst 2), 3 at once\n\
             confirm     never\n\
             action      {\"exec\":{\"argv\":[\"echo\",\"a\\u001b[2Jb\\u202e\"],\"cwd\":\"/\",\"env\":{\"HOME\":\"/\",\"LANG\":\"C.UTF-8\",\"PATH\":\"/usr/local/bin:/usr/bin:/bin\"}}}\n",
        );
        check(
            "http_request",
            r#"{"url":"https://api.example.com/v1/x?q=1"}"#,
            false,
            EXIT_OK,
            "allowed     http_request by builtin.http_request.allow[0]\n\
             target      GET https://api.example.com/v1/x?…\n\
             credential  api, in the header authorization\n\
             limits      32768 bytes of result, 50 s\n\
             confirm     session: the first who can be asked of client, command, operator, with 2.5 s to answer\n\
             action      {\"http\":{\"headers\":[],\"method\":\"GET\",\"url\":\"https://api.example.com/v1/x?q=1\"}}\n",
        );
    }

    #[test]
    fn what_would_be_refused_is_said_with_its_rule() {
        check(
            "http_request",
            r#"{"url":"https://api.example.com/v2"}"#,
            false,
            EXIT_NO,
            "refused     http_request with denied, at the stage grant: not_allowed\n\
             why         builtin.http_request: no allow rule matches GET https://api.example.com/v2; nearest is allow[0]: expected a path under \"/v1/\", got \"/v2\"\n",
        );
        check(
            "nothing\u{1b}",
            "{}",
            true,
            EXIT_NO,
            "{\"decision\":\"refused\",\"tool\":\"nothing\\u001b\",\"code\":\"unknown_tool\",\"stage\":\"call\",\"reason\":\"unknown_tool\",\"text\":\"expected a declared tool, got \\\"nothing\\\\u{1b}\\\"\"}\n",
        );
    }

    #[test]
    fn json_is_one_line() {
        check(
            "http_request",
            r#"{"url":"https://api.example.com/v1/x"}"#,
            true,
            EXIT_OK,
            "{\"decision\":\"allowed\",\"tool\":\"http_request\",\"rule\":\"builtin.http_request.allow[0]\",\"target\":\"GET https://api.example.com/v1/x\",\
             \"credential\":{\"name\":\"api\",\"header\":\"authorization\"},\"terms\":{\"content_bytes\":32768,\"timeout_s\":50.0},\
             \"confirm\":\"session\",\"approval\":{\"order\":[\"client\",\"command\",\"operator\"],\"timeout_s\":2.5},\
             \"action\":{\"http\":{\"headers\":[],\"method\":\"GET\",\"url\":\"https://api.example.com/v1/x\"}}}\n",
        );
        check(
            "tidegate_status",
            "{}",
            true,
            EXIT_OK,
            "{\"decision\":\"allowed\",\"tool\":\"tidegate_status\",\"rule\":\"builtin:tidegate_status\"}\n",
        );
    }

    #[track_caller]
    fn check_confirm(approvals: &str, confirm: &str, readable: &str, json: &str) {
        let text = format!(
            r#"{{"approvals": {{{approvals}}},
                "tools": [{{"name": "t", "description": "d", "confirm": "{confirm}", "exec": {{"argv": ["echo"]}}}}]}}"#
        );
        let said = |is_json| {
            let config = Config::parse(Path::new("c.json"), &text, &|_| None).unwrap();
            let (said, code) = explain(config, "t", "{}", is_json);
            assert_eq!(code, EXIT_OK, "{text}");
            said
        };
        assert!(said(false).contains(&format!("\nconfirm     {readable}\n")), "{text}: {}", said(false));
        assert!(said(true).contains(&format!(",\"confirm\":\"{confirm}\",{json}\"action\":")), "{text}: {}", said(true));
    }

    #[test]
    fn who_would_be_asked_is_said_in_order() {
        check_confirm("", "never", "never", "");
        check_confirm(
            "",
            "ask",
            "ask: the first who can be asked of client, operator, with 50 s to answer",
            r#""approval":{"order":["client","operator"],"timeout_s":50.0},"#,
        );
        let command = r#""command": ["sh"], "order": ["client", "command"], "timeout_s": 1.5"#;
        check_confirm(
            command,
            "session",
            "session: the first who can be asked of client, command, with 1.5 s to answer",
            r#""approval":{"order":["client","command"],"timeout_s":1.5},"#,
        );
        // Nobody behind the operator is ever asked.
        check_confirm(
            r#""command": ["sh"], "order": ["operator", "client", "command"]"#,
            "ask",
            "ask: operator, with 50 s to answer",
            r#""approval":{"order":["operator"],"timeout_s":50.0},"#,
        );
        check_confirm(command, "never", "never", "");
    }

    #[test]
    fn arguments_are_one_object_with_one_meaning() {
        for (given, part) in [
            ("", "no JSON"),
            ("{} {}", "no JSON"),
            ("[]", "got an array"),
            ("\"a\"", "got a string"),
            (r#"{"a":1,"\u0061":2}"#, "twice"),
            (r#"{"a":"\ud800"}"#, "surrogate"),
            (&format!("{{\"a\":{}{}}}", "[".repeat(62), "]".repeat(62)), "too deep"),
        ] {
            let (problem, code) = arguments(Some(given)).unwrap_err();
            assert!(code == EXIT_USAGE && problem.contains(part), "{given}: {problem}");
        }
        let deepest = format!("{{\"a\":{}{}}}", "[".repeat(61), "]".repeat(61));
        assert_eq!(arguments(Some(&deepest)), Ok(deepest.clone()));
        assert_eq!(arguments(None), Ok("{}".to_owned()));
        assert_eq!(arguments(Some(" {\"a\": 1.50}\n")), Ok("{\"a\": 1.50}".to_owned()));
    }

    #[test]
    fn nothing_printed_moves_a_terminal() {
        assert_eq!(terminal("a\u{1b}[0m\n\u{9b}\u{202e}\u{e0041}é"), "a\\u001b[0m\\u000a\\u009b\\u202e\\udb40\\udc41é");
    }
}
