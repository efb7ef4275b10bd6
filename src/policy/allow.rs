//! What the tools of the gateway's own may be used for: an action among the allow rules.
//!
//! Default deny: a request or a command that no rule matches whole does not run. Texts are compared whole, paths by segment,
//! an argv by its shape, element by element; nothing here looks at a prefix of a text or splits one. Pure.

use std::sync::Arc;

use crate::action::http::HttpAction;
use crate::action::ssh::SshAction;
use crate::action::template::path::has_dot_segment;
use crate::action::template::{quoted, shown};
use crate::policy::rules::{CommandRules, HostRule, RequestRule, Scope};
use crate::policy::shape::Misfit;

/// Characters of a list in a refusal.
const LISTED_CHARS: usize = 200;

/// The first rule that matches the request, with its place in the list; else what the one that came nearest misses.
pub fn match_request<'r>(rules: &'r [RequestRule], action: &HttpAction) -> Result<(usize, &'r RequestRule), Option<String>> {
    first_match(rules, |rule| compare_request(rule, action))
}

/// Host and place in `allow` of the first shape that matches the command; else what the one that came nearest misses.
pub fn match_command<'r>(rules: &'r CommandRules, action: &SshAction) -> Result<(usize, &'r Arc<HostRule>), Option<String>> {
    let Some(host) = rules.hosts.iter().find(|host| host.name == action.host) else {
        let names: Vec<String> = rules.hosts.iter().map(|host| quoted(&host.name)).collect();
        let names = shown_list(&names);
        return Err(Some(format!("hosts: expected {names}, got {}", quoted(&action.host))));
    };
    first_match(&rules.shapes, |shape| shape.compare(&action.argv, rules.dash)).map(|(index, _)| (index, host))
}

fn first_match<R>(rules: &[R], compare: impl Fn(&R) -> Result<(), Misfit>) -> Result<(usize, &R), Option<String>> {
    let mut nearest: Option<(usize, Misfit)> = None;
    for (index, rule) in rules.iter().enumerate() {
        match compare(rule) {
            Ok(()) => return Ok((index, rule)),
            Err(misfit) if nearest.as_ref().is_none_or(|(_, other)| misfit.fitting > other.fitting) => {
                nearest = Some((index, misfit));
            }
            Err(_) => {}
        }
    }
    Err(nearest.map(|(index, misfit)| format!("allow[{index}]: {}", misfit.text)))
}

fn compare_request(rule: &RequestRule, action: &HttpAction) -> Result<(), Misfit> {
    let scope = &rule.scope;
    let misfit = |fitting, text| Err(Misfit { fitting, text });
    if scope.host != action.host {
        return misfit(0, format!("expected the host {}, got {}", quoted(&scope.host), quoted(&action.host)));
    }
    if scope.scheme != action.scheme {
        return misfit(1, format!("expected the scheme {}, got {}", scope.scheme.text(), action.scheme.text()));
    }
    if scope.port != action.port {
        return misfit(2, format!("expected the port {}, got {}", scope.port, action.port));
    }
    if !rule.methods.contains(&action.method) {
        return misfit(3, format!("expected the method {}, got {}", shown_list(&rule.methods), quoted(&action.method)));
    }
    if !covers_path(&scope.paths, &action.path) {
        let paths: Vec<String> = scope.paths.iter().map(|path| quoted(path)).collect();
        return misfit(4, format!("expected a path under {}, got {}", shown_list(&paths), quoted(&action.path)));
    }
    Ok(())
}

fn shown_list(items: &[String]) -> String {
    let list = items.join(" or ");
    if list.chars().count() <= LISTED_CHARS { list } else { shown(&list, LISTED_CHARS) }
}

/// Whether a request goes where the scope says.
pub fn covers(scope: &Scope, action: &HttpAction) -> bool {
    scope.scheme == action.scheme
        && scope.host == action.host
        && scope.port == action.port
        && covers_path(&scope.paths, &action.path)
}

fn covers_path(prefixes: &[String], path: &str) -> bool {
    path.starts_with('/')
        && !has_dot_segment(path)
        && (prefixes.is_empty() || prefixes.iter().any(|prefix| is_under(prefix, path)))
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
    use crate::action::http::Scheme;
    use crate::action::template::argv::Dash;
    use crate::policy::rules::{HostKeyPolicy, SshAuth, Tie};
    use crate::policy::shape::Shape;
    use std::path::PathBuf;

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn request_rule(host: &str, port: u16, methods: &[&str], paths: &[&str]) -> RequestRule {
        let scope = Scope { scheme: Scheme::Https, host: host.to_owned(), port, paths: owned(paths) };
        RequestRule { scope, methods: owned(methods), credential: None }
    }

    fn rules() -> Vec<RequestRule> {
        vec![
            request_rule("api.example.com", 443, &["GET", "HEAD"], &["/v1/"]),
            request_rule("api.example.com", 443, &["POST"], &["/v1/notes", "/v1/drafts"]),
            request_rule("api.example.com", 8443, &["GET"], &[]),
        ]
    }

    fn request(method: &str, scheme: Scheme, host: &str, port: u16, path: &str) -> HttpAction {
        HttpAction {
            method: method.to_owned(),
            scheme,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            query: None,
            headers: Vec::new(),
            body: None,
            select: Vec::new(),
        }
    }

    #[track_caller]
    fn check_request(method: &str, path: &str, want: Result<usize, &str>) {
        let got = request(method, Scheme::Https, "api.example.com", 443, path);
        let matched = match_request(&rules(), &got).map(|(index, _)| index).map_err(Option::unwrap_or_default);
        assert_eq!(matched, want.map_err(str::to_owned), "{method} {path}");
    }

    #[test]
    fn a_request_runs_by_the_first_rule_that_matches_it_whole() {
        check_request("GET", "/v1/", Ok(0));
        check_request("HEAD", "/v1/notes/7", Ok(0));
        check_request("POST", "/v1/notes", Ok(1));
        check_request("POST", "/v1/drafts/7", Ok(1));
        check_request("GET", "/v2/", Err("allow[0]: expected a path under \"/v1/\", got \"/v2/\""));
        check_request(
            "POST",
            "/v1/notesx",
            Err("allow[1]: expected a path under \"/v1/notes\" or \"/v1/drafts\", got \"/v1/notesx\""),
        );
        check_request("DELETE", "/v1/", Err("allow[0]: expected the method GET or HEAD, got \"DELETE\""));
        check_request("get", "/v1/", Err("allow[0]: expected the method GET or HEAD, got \"get\""));
        for path in ["/", "/v1x", "/V1/", "//v1/", "/v1/../v2", "/v1/%2e%2e/v2", "/v1%2f", "/%761/", "v1/", ""] {
            assert!(match_request(&rules(), &request("GET", Scheme::Https, "api.example.com", 443, path)).is_err(), "{path}");
        }
    }

    #[test]
    fn origins_are_compared_whole() {
        let matched =
            |scheme, host, port| match_request(&rules(), &request("GET", scheme, host, port, "/v1/")).map(|(index, _)| index);
        assert_eq!(matched(Scheme::Https, "api.example.com", 8443), Ok(2));
        for (scheme, host, port, nearest) in [
            (Scheme::Https, "api.example.com.evil.example", 443, "allow[0]: expected the host \"api.example.com\", got "),
            (Scheme::Https, "example.com", 443, "allow[0]: expected the host \"api.example.com\", got "),
            (Scheme::Https, "API.example.com", 443, "allow[0]: expected the host \"api.example.com\", got "),
            (Scheme::Http, "api.example.com", 443, "allow[0]: expected the scheme https, got http"),
            (Scheme::Https, "api.example.com", 444, "allow[0]: expected the port 443, got 444"),
        ] {
            let misfit = matched(scheme, host, port).unwrap_err().unwrap();
            assert!(misfit.starts_with(nearest), "{misfit}");
        }
        assert_eq!(match_request(&[], &request("GET", Scheme::Https, "a", 443, "/")).unwrap_err(), None);
    }

    fn command_rules(dash: Dash) -> CommandRules {
        let host = HostRule {
            name: "web1".to_owned(),
            address: "10.0.0.5".to_owned(),
            port: 22,
            user: "deploy".to_owned(),
            auth: SshAuth::Agent { identity: PathBuf::from("/id.pub") },
            host_key: HostKeyPolicy::Strict,
            known_hosts: PathBuf::from("/known_hosts"),
            fingerprints: Vec::new(),
            tie: Tie::Stdin,
        };
        let shapes: [&[&str]; 4] =
            [&["uptime"], &["journalctl", "-u", "*", "-n", "*"], &["cat", "--", "*"], &["echo", "*", "--", "*"]];
        CommandRules {
            hosts: vec![Arc::new(host)],
            shapes: shapes.iter().map(|shape| Shape::parse(&owned(shape)).unwrap()).collect(),
            dash,
        }
    }

    fn command(host: &str, argv: &[&str]) -> SshAction {
        SshAction { host: host.to_owned(), argv: owned(argv), env: Vec::new(), cwd: None, stdin: Vec::new() }
    }

    #[track_caller]
    fn check_command(argv: &[&str], want: Result<usize, &str>) {
        let rules = command_rules(Dash::Refused);
        let matched = match_command(&rules, &command("web1", argv));
        let got = matched.map(|(index, _)| index).map_err(Option::unwrap_or_default);
        assert_eq!(got, want.map_err(str::to_owned), "{argv:?}");
    }

    #[test]
    fn a_command_runs_by_a_shape_that_matches_it_whole() {
        check_command(&["uptime"], Ok(0));
        check_command(&["journalctl", "-u", "app", "-n", "50"], Ok(1));
        check_command(&["journalctl", "-u", "", "-n", "a b; $(reboot)"], Ok(1));
        check_command(&["cat", "--", "-rf"], Ok(2));
        check_command(&["echo", "a", "--", "-b"], Ok(3));
        check_command(&[], Err("allow[0]: expected 1 element, got 0"));
        check_command(&["uptime", "-p"], Err("allow[0]: expected 1 element, got 2"));
        check_command(&["Uptime"], Err("allow[0]: expected \"uptime\" as element 0, got \"Uptime\""));
        check_command(&["/usr/bin/uptime"], Err("allow[0]: expected \"uptime\" as element 0, got \"/usr/bin/uptime\""));
        check_command(&["journalctl", "-u", "app"], Err("allow[1]: expected 5 elements, got 3"));
        check_command(&["journalctl", "-u", "app", "-f", "50"], Err("allow[1]: expected \"-n\" as element 3, got \"-f\""));
        check_command(&["cat", "/etc/passwd"], Err("allow[2]: expected \"--\" as element 1, got \"/etc/passwd\""));
        check_command(&["cat", "--", "a", "b"], Err("allow[2]: expected 3 elements, got 4"));
    }

    #[test]
    fn an_argument_in_the_place_of_a_star_is_no_option() {
        let dash = "expected no - at the beginning of element";
        check_command(&["journalctl", "-u", "-o", "-n", "1"], Err(&format!("allow[1]: {dash} 2, a *, got \"-o\"")));
        check_command(&["journalctl", "-u", "a", "-n", "--"], Err(&format!("allow[1]: {dash} 4, a *, got \"--\"")));
        check_command(&["echo", "--", "--", "-b"], Err(&format!("allow[3]: {dash} 1, a *, got \"--\"")));
        let allowed = command_rules(Dash::Allowed);
        assert!(match_command(&allowed, &command("web1", &["journalctl", "-u", "-o", "-n", "1"])).is_ok());
    }

    /// R075: what an allow list of texts lets through.
    #[test]
    fn text_that_goes_on_behind_an_allowed_command_is_another_command_r075() {
        let tails =
            ["; touch x", "\ntouch x", " $(touch x)", " && x", " > x", " & x", " | sh", "\0", "\r\ntouch x", "`touch x`"];
        for tail in tails {
            let text = format!("uptime{tail}");
            let words: Vec<&str> = text.split(' ').collect();
            for argv in [vec![text.as_str()], words, vec!["uptime", tail], vec!["sh", "-c", &text], vec![tail, "uptime"]] {
                assert!(match_command(&command_rules(Dash::Refused), &command("web1", &argv)).is_err(), "{argv:?}");
            }
            // In the place of a star it is one argument and nothing else.
            check_command(&["journalctl", "-u", &text, "-n", tail], Ok(1));
        }
    }

    #[test]
    fn hosts_are_those_named() {
        for host in ["web2", "Web1", "web1.", "", "10.0.0.5", "*"] {
            let misfit = match_command(&command_rules(Dash::Refused), &command(host, &["uptime"])).unwrap_err().unwrap();
            assert_eq!(misfit, format!("hosts: expected \"web1\", got {}", quoted(host)));
        }
    }
}
