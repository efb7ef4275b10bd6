//! The configuration's JSON Schema, as printed, and the keys of each of its objects, as read.
//!
//! The schema (`schema.json` beside this file) is for people and editors; the reader in `written.rs` walks the text itself,
//! because it must say line, column and nearest key. Tests hold the two together: the same keys, the same verdicts.

/// JSON Schema 2020-12 of the configuration file, every key with a description.
pub fn text() -> &'static str {
    include_str!("schema.json")
}

/// The keys of one kind of object.
#[derive(Debug)]
pub struct Keys {
    /// JSON Pointer of the object's schema in `text()`.
    pub schema: &'static str,
    /// What is read; anything else is refused.
    pub read: &'static [&'static str],
    /// What is refused as not supported yet, so that nothing an operator relies on is silently ignored.
    pub later: &'static [&'static str],
}

/// The file itself.
pub const TOP: Keys = Keys {
    schema: "",
    read: &[
        "$schema",
        "session",
        "limits",
        "log",
        "journal",
        "approvals",
        "state_dir",
        "networks",
        "credentials",
        "hosts",
        "tools",
        "builtin",
    ],
    later: &["servers"],
};
/// `session`.
pub const SESSION: Keys = Keys { schema: "/$defs/session", read: &["on_malformed", "grace_ms"], later: &[] };
/// `limits`.
pub const LIMITS: Keys = Keys {
    schema: "/$defs/limits",
    read: &["line_in_bytes", "content_bytes", "calls", "workers", "call_timeout_s"],
    later: &[],
};
/// `log`.
pub const LOG: Keys = Keys { schema: "/$defs/log", read: &["level", "format", "file"], later: &[] };
/// `journal`.
pub const JOURNAL: Keys = Keys { schema: "/$defs/journal", read: &["sync", "keep_days", "file_bytes"], later: &[] };
/// `approvals`.
pub const APPROVALS: Keys =
    Keys { schema: "/$defs/approvals", read: &["order", "timeout_s", "command", "operators"], later: &[] };
/// One of `credentials`.
pub const CREDENTIAL: Keys = Keys { schema: "/$defs/credential", read: &["from", "as", "for"], later: &[] };
/// `from` of a credential.
pub const SOURCE: Keys = Keys {
    schema: "/$defs/source",
    read: &["env", "file", "command", "systemd", "inherit", "timeout_s", "cache_s"],
    later: &[],
};
/// `as` of a credential.
pub const PLACEMENT: Keys = Keys { schema: "/$defs/placement", read: &["bearer", "header"], later: &[] };
/// `as.bearer`.
pub const BEARER: Keys = Keys { schema: "/$defs/bearer", read: &[], later: &[] };
/// `as.header`.
pub const HEADER: Keys = Keys { schema: "/$defs/header", read: &["name", "prefix"], later: &[] };
/// One of a credential's `for`.
pub const SCOPE: Keys = Keys { schema: "/$defs/scope", read: &["host", "port", "paths", "scheme"], later: &[] };
/// One of `hosts`.
pub const HOST: Keys = Keys {
    schema: "/$defs/host",
    read: &["address", "port", "user", "auth", "host_key", "known_hosts", "fingerprints", "tie"],
    later: &[],
};
/// `auth` of a host.
pub const AUTH: Keys =
    Keys { schema: "/$defs/auth", read: &["key", "passphrase", "certificate", "agent", "password"], later: &[] };
/// `auth.agent`.
pub const AGENT: Keys = Keys { schema: "/$defs/agent", read: &["identity"], later: &[] };
/// One of `tools`.
pub const TOOL: Keys = Keys {
    schema: "/$defs/tool",
    read: &[
        "name",
        "title",
        "description",
        "input",
        "annotations",
        "http",
        "exec",
        "ssh",
        "content_bytes",
        "timeout_s",
        "allow_dash",
        "stop_at_limit",
        "rate",
        "max_concurrent",
        "confirm",
    ],
    later: &[],
};
/// `rate` of a tool.
pub const RATE: Keys = Keys { schema: "/$defs/rate", read: &["per_minute", "burst"], later: &[] };
/// `annotations` of a tool.
pub const ANNOTATIONS: Keys = Keys {
    schema: "/$defs/annotations",
    read: &["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"],
    later: &[],
};
/// `http` of a tool.
pub const HTTP: Keys = Keys {
    schema: "/$defs/http",
    read: &["method", "url", "query", "headers", "body", "credential", "select", "timeout_s"],
    later: &[],
};
/// `http.body` of a tool.
pub const BODY: Keys = Keys { schema: "/$defs/body", read: &["json", "text", "form"], later: &[] };
/// `exec` of a tool.
pub const EXEC: Keys = Keys { schema: "/$defs/exec", read: &["argv", "env", "cwd", "timeout_s"], later: &[] };
/// `ssh` of a tool.
pub const SSH: Keys = Keys { schema: "/$defs/ssh", read: &["host", "argv", "env", "cwd", "stdin", "timeout_s"], later: &[] };

/// `builtin`.
pub const BUILTIN: Keys = Keys { schema: "/$defs/builtin", read: &["http_request", "ssh_exec"], later: &[] };
/// `builtin.http_request`.
pub const HTTP_REQUEST: Keys = Keys {
    schema: "/$defs/http_request",
    read: &["allow", "content_bytes", "timeout_s", "rate", "max_concurrent", "confirm"],
    later: &[],
};
/// One of `builtin.http_request.allow`.
pub const REQUEST_RULE: Keys =
    Keys { schema: "/$defs/request_rule", read: &["host", "port", "paths", "scheme", "methods", "credential"], later: &[] };
/// `builtin.ssh_exec`.
pub const SSH_EXEC: Keys = Keys {
    schema: "/$defs/ssh_exec",
    read: &["hosts", "allow", "allow_dash", "stop_at_limit", "content_bytes", "timeout_s", "rate", "max_concurrent", "confirm"],
    later: &[],
};

/// Every kind of object there is.
pub const ALL: &[&Keys] = &[
    &TOP,
    &SESSION,
    &LIMITS,
    &LOG,
    &JOURNAL,
    &APPROVALS,
    &CREDENTIAL,
    &SOURCE,
    &PLACEMENT,
    &BEARER,
    &HEADER,
    &SCOPE,
    &HOST,
    &AUTH,
    &AGENT,
    &TOOL,
    &ANNOTATIONS,
    &HTTP,
    &BODY,
    &EXEC,
    &SSH,
    &RATE,
    &BUILTIN,
    &HTTP_REQUEST,
    &REQUEST_RULE,
    &SSH_EXEC,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use crate::action::schema::Schema;
    use crate::config::tests::FULL;
    use crate::config::tree::{self, Problems};
    use crate::config::written;

    fn document() -> Value {
        serde_json::from_str(text()).unwrap()
    }

    /// What the reader of shapes says, without the meaning.
    fn reader_problems(text: &str) -> Vec<String> {
        let mut problems = Problems::default();
        let root = tree::parse(text, &mut problems).unwrap();
        written::read(&root, &mut problems);
        problems.in_order().into_iter().map(|(at, what)| format!("{}: {what}", tree::pointer_of(&root, at))).collect()
    }

    struct Validators {
        schemas: boon::Schemas,
        index: boon::SchemaIndex,
        ours: Schema,
    }

    impl Validators {
        fn new() -> Self {
            let mut schemas = boon::Schemas::new();
            let mut compiler = boon::Compiler::new();
            compiler.add_resource("config.json", document()).unwrap();
            let index = compiler.compile("config.json", &mut schemas).unwrap();
            Validators { schemas, index, ours: Schema::compile(&document()).unwrap() }
        }

        #[track_caller]
        fn check(&self, document: &Value, valid: bool) {
            let problems = reader_problems(&document.to_string());
            assert_eq!(self.schemas.validate(document, self.index).is_ok(), valid, "schema by boon: {document}");
            assert_eq!(self.ours.validate(&document.clone().into()).is_ok(), valid, "schema by our validator: {document}");
            assert_eq!(problems.is_empty(), valid, "reader: {document}\n{problems:#?}");
        }
    }

    #[test]
    fn schema_and_reader_have_the_same_keys() {
        let document = document();
        for keys in ALL {
            let object = document.pointer(keys.schema).unwrap();
            let declared: BTreeSet<&str> = object["properties"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(declared, keys.read.iter().copied().collect(), "{:?}", keys.schema);
            assert_eq!(object["additionalProperties"], false, "{:?}", keys.schema);
            assert!(keys.later.iter().all(|later| !declared.contains(later)), "{:?}", keys.schema);
        }
        let known: BTreeSet<&str> = ALL.iter().map(|keys| keys.schema).collect();
        let objects = document["$defs"].as_object().unwrap().iter().filter(|(_, schema)| schema.get("properties").is_some());
        for (name, _) in objects {
            assert!(known.contains(format!("/$defs/{name}").as_str()), "{name} is read by nobody");
        }
    }

    #[test]
    fn every_key_is_described() {
        let document = document();
        for keys in ALL {
            let properties = document.pointer(keys.schema).unwrap()["properties"].as_object().unwrap();
            for (key, schema) in properties {
                let description = schema["description"].as_str().unwrap_or_default();
                assert!(description.len() > 10, "{:?} {key}: {description:?}", keys.schema);
            }
        }
    }

    /// Pointers of every value that is a key of ours in `FULL`, with the keys' home.
    fn places(value: &Value, keys: &'static Keys, pointer: &str, out: &mut Vec<(String, &'static Keys, &'static str)>) {
        for key in keys.read {
            let Some(inner) = value.get(key) else { continue };
            let pointer = format!("{pointer}/{key}");
            out.push((pointer.clone(), keys, key));
            let home = |name: &str| ALL.iter().copied().find(|keys| keys.schema == format!("/$defs/{name}"));
            match *key {
                "from" => places(inner, &SOURCE, &pointer, out),
                "as" => places(inner, &PLACEMENT, &pointer, out),
                "credentials" | "hosts" if inner.is_object() => {
                    let keys = if *key == "hosts" { &HOST } else { &CREDENTIAL };
                    for (name, one) in inner.as_object().unwrap() {
                        places(one, keys, &format!("{pointer}/{name}"), out);
                    }
                }
                // Shapes are lists in a list: no object of ours.
                "allow" if inner.as_array().unwrap().iter().all(Value::is_array) => {}
                "tools" | "for" | "allow" => {
                    let keys = match *key {
                        "tools" => &TOOL,
                        "for" => &SCOPE,
                        _ => &REQUEST_RULE,
                    };
                    for (index, one) in inner.as_array().unwrap().iter().enumerate() {
                        places(one, keys, &format!("{pointer}/{index}"), out);
                    }
                }
                key => home(key).into_iter().for_each(|keys| places(inner, keys, &pointer, out)),
            }
        }
    }

    /// No key takes `null`, but for a JSON body; so a key that does not complain about it is a key that nobody reads.
    #[test]
    fn every_key_of_the_schema_is_read() {
        let full: Value = serde_json::from_str(FULL).unwrap();
        let mut found = Vec::new();
        places(&full, &TOP, "", &mut found);
        for keys in ALL {
            for key in keys.read {
                let seen = found.iter().any(|(_, home, name)| home.schema == keys.schema && name == key);
                assert!(seen, "no example of {key} in {:?}", keys.schema);
            }
        }
        for (pointer, keys, key) in found.into_iter().filter(|(_, keys, key)| (keys.schema, *key) != (BODY.schema, "json")) {
            let mut changed = full.clone();
            *changed.pointer_mut(&pointer).unwrap() = Value::Null;
            let problems = reader_problems(&changed.to_string());
            let own = format!("{pointer}: expected ");
            assert!(
                problems.iter().any(|problem| problem.starts_with(&own) && problem.ends_with(", got null")),
                "{:?} {key}: {problems:?}",
                keys.schema
            );
        }
    }

    #[test]
    fn schema_and_reader_give_the_same_verdict() {
        let validators = Validators::new();
        let full: Value = serde_json::from_str(FULL).unwrap();
        validators.check(&full, true);
        for (pointer, good, bad) in verdicts() {
            let mut changed = full.clone();
            for (values, valid) in [(good, true), (bad, false)] {
                for value in values.as_array().unwrap() {
                    *changed.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value.clone();
                    validators.check(&changed, valid);
                }
            }
        }
    }

    /// A place in `FULL`, what may stand there, what may not.
    fn verdicts() -> Vec<(&'static str, Value, Value)> {
        let long = "x".repeat(64);
        let too_long = "x".repeat(65);
        vec![
            ("", json!([{}, {"$schema": ""}]), json!([[], null, 1, {"x": 1}, {"servers": {}}, {"$schema": 1}])),
            ("/session", json!([{}]), json!([null, [], {"on_malformed": "no"}, {"on_malformed": 1}, {"grace": 1}])),
            ("/session/grace_ms", json!([0, 1500, 7.0, 1e3]), json!([-1, 1501, 1.5, "1", true, null])),
            ("/limits", json!([{}]), json!([{"line_in_byte": 1}, [], "x"])),
            ("/limits/line_in_bytes", json!([1024, 4_194_304]), json!([1023, 4_194_305, 1e30])),
            ("/limits/content_bytes", json!([4096, 950_272]), json!([4095, 950_273])),
            ("/limits/calls", json!([1, 64]), json!([0, 65])),
            ("/limits/workers", json!([1, 16]), json!([0, 17])),
            ("/limits/call_timeout_s", json!([0.001, 1, 3600, 3600.0]), json!([0, 0.0009, 3600.01, -1, "1"])),
            ("/log", json!([{}]), json!([{"levels": "info"}, null])),
            ("/log/level", json!(["off", "error", "warn", "info", "debug", "trace"]), json!(["", "Info", 1])),
            ("/log/format", json!(["text", "json"]), json!(["xml", null])),
            ("/log/file", json!(["/x", "/"]), json!(["x", "", "~/x", "/a\u{0}"])),
            ("/journal", json!([{}, {"sync": "all"}]), json!([{"sync": "none"}, {"keep": 1}])),
            ("/journal/keep_days", json!([1, 36_500]), json!([0, 36_501, 0.5, "1", null])),
            ("/journal/file_bytes", json!([65_536, 1 << 30]), json!([65_535, (1 << 30) + 1, true])),
            (
                "/approvals",
                json!([{}, {"order": ["client"]}, {"command": ["x"]}]),
                json!([[], null, "client", {"orders": []}, {"order": null}, {"timeout": 1}, {"ask": "client"}]),
            ),
            (
                "/approvals/order",
                json!([["client"], ["operator"], ["command"], ["operator", "command", "client"]]),
                json!([
                    [],
                    {},
                    "client",
                    ["Client"],
                    [""],
                    ["nobody"],
                    [1],
                    [["client"]],
                    ["client", "client"],
                    ["client", "operator", "command", "operator"]
                ]),
            ),
            ("/approvals/timeout_s", json!([1, 1.0, 1.5, 3600]), json!([0, 0.999, 3600.1, -1, "50", true])),
            ("/approvals/command", json!([["x"], ["/x", "", "-y"]]), json!([[], {}, "x", [1], ["x", null]])),
            (
                "/approvals/operators",
                json!([[0], [4_294_967_294_u32], [1000, 0, 1001], [1.0]]),
                json!([
                    [],
                    {},
                    1000,
                    "root",
                    ["root"],
                    ["1000"],
                    [-1],
                    [4_294_967_295_u32],
                    [4_294_967_296_u64],
                    [0.5],
                    [1, 1],
                    [1, 1.0],
                    [1, null]
                ]),
            ),
            ("/state_dir", json!(["/x"]), json!(["x", 1, {}])),
            ("/networks", json!([[], ["x"]]), json!([{}, [1], "10.0.0.0/8"])),
            (
                "/credentials",
                json!([{}]),
                json!([[], {"a b": {"from": {"env": "A"}}}, {"": {"from": {"env": "A"}}}, {"k": {}}, {"k": null}]),
            ),
            (
                "/credentials/github/from",
                json!([
                    {"env": "_A1"}, {"file": "/f"}, {"command": ["x", ""]}, {"systemd": "x"}, {"systemd": "a b..~"},
                    {"command": [""], "inherit": [], "timeout_s": 0.001, "cache_s": 86400}
                ]),
                json!([
                    {}, {"env": "A", "file": "/f"}, {"env": "1"}, {"env": ""}, {"env": "A-B"}, {"file": "f"}, "A",
                    {"env": "A", "systemd": "x"}, {"env": "A", "timeout_s": 1}, {"file": "/f", "cache_s": 1}, {"cache_s": 1},
                    {"systemd": "x", "inherit": []}, {"command": "x"}, {"command": []}, {"command": [1]},
                    {"systemd": ""}, {"systemd": "."}, {"systemd": ".."}, {"systemd": "a/b"}, {"systemd": "a:b"},
                    {"systemd": "é"}, {"systemd": "a\n"}, {"systemd": "x".repeat(256)}, {"commands": ["x"]}
                ]),
            ),
            ("/credentials/minted/from/inherit", json!([["A", "_b1"]]), json!(["A", ["A-B"], ["TIDEGATE_X"], [1], [""]])),
            ("/credentials/minted/from/timeout_s", json!([0.001, 3600]), json!([0, 3601, "1"])),
            ("/credentials/minted/from/cache_s", json!([0, 0.0, 0.5, 86400]), json!([-1, 86401, "1", true])),
            (
                "/credentials/github/as",
                json!([{"bearer": {}}, {"header": {"name": "X-A"}}, {"header": {"name": "x", "prefix": "a\tb "}}]),
                json!([
                    {}, {"bearer": {}, "header": {"name": "x"}}, {"bearer": {"x": 1}}, {"bearer": null}, {"header": {}},
                    {"header": {"name": ""}}, {"header": {"name": "a b"}}, {"header": {"name": "x", "prefix": "\n"}},
                    {"header": {"name": "x", "prefix": "é"}}, {"basic": {}}, "bearer"
                ]),
            ),
            (
                "/credentials/github/for",
                json!([
                    [], [{"host": "x"}], [{"host": "x", "port": 1, "paths": ["/"], "scheme": "http"}],
                    [{"host": "x", "port": 65535}]
                ]),
                json!([
                    {}, [{}], [{"host": ""}], [{"host": "x", "port": 0}], [{"host": "x", "port": 65536}],
                    [{"host": "x", "paths": []}], [{"host": "x", "paths": ["y"]}], [{"host": "x", "paths": [1]}],
                    [{"host": "x", "scheme": "ftp"}], [{"host": "x", "path": "/"}], ["x"]
                ]),
            ),
            ("/tools", json!([[]]), json!([{}, [1], [{}], [{"name": "a", "description": "d"}]])),
            ("/tools/0/name", json!(["a", long, "A-_9"]), json!(["", too_long, "a.b", "a b", "ä", 1])),
            ("/tools/0/title", json!(["x"]), json!(["", 1])),
            ("/tools/0/description", json!(["x"]), json!(["", 1])),
            ("/tools/0/input", json!([{}]), json!([[], true, "x"])),
            ("/tools/0/annotations", json!([{}, {"readOnlyHint": true}]), json!([{"readOnlyHint": 1}, {"title": "x"}, []])),
            ("/tools/0/content_bytes", json!([4096, 950_272]), json!([4095, 950_273, "1"])),
            ("/tools/0/confirm", json!(["never", "ask", "session"]), json!(["always", "Ask", "", 1, true, ["ask"], {}])),
            ("/tools/1/timeout_s", json!([0.001, 3600]), json!([0, 3601])),
            ("/tools/4/allow_dash", json!([true, false]), json!([1, "true"])),
            ("/tools/4/stop_at_limit", json!([true, false]), json!([1, "true"])),
            (
                "/tools/2",
                json!([{"name": "a", "description": "d", "http": {"url": "x"}}]),
                json!([
                    {"name": "a", "description": "d", "http": {"url": "x"}, "exec": {"argv": ["x"]}},
                    {"name": "a", "description": "d", "http": {"url": "x"}, "ssh": {"host": "h", "argv": ["x"]}},
                    {"name": "a", "description": "d", "http": {"url": "x"}, "rate": {}},
                    {"name": "a", "description": "d", "http": {"url": "x"}, "allow": [{"host": "x"}]},
                    {"description": "d", "http": {"url": "x"}}
                ]),
            ),
            (
                "/tools/0/http",
                json!([{"url": "x"}, {"url": "x", "timeout_s": 1}]),
                json!([{}, {"url": ""}, {"url": 1}, {"url": "x", "timeout_s": 0}, {"url": "x", "timeout": 1}, []]),
            ),
            ("/tools/0/http/method", json!(["GET", "x"]), json!(["", 1])),
            ("/tools/0/http/query", json!([{}, {"a": ""}]), json!([{"a": 1}, [], "a=b"])),
            ("/tools/0/http/headers", json!([{}, {"a": ""}]), json!([{"a": null}, []])),
            ("/tools/0/http/credential", json!(["x"]), json!([1, {}])),
            ("/tools/0/http/select", json!([[], ["x"]]), json!([[1], "x", {}])),
            (
                "/tools/1/http/body",
                json!([{"json": null}, {"json": [1]}, {"text": ""}, {"form": {}}, {"form": {"a": "b"}}]),
                json!([{}, {"json": 1, "text": ""}, {"text": 1}, {"form": {"a": 1}}, {"xml": ""}, "x"]),
            ),
            (
                "/tools/4/exec",
                json!([{"argv": [""]}, {"argv": ["x"], "timeout_s": 1}]),
                json!([
                    {}, {"argv": []}, {"argv": [1]}, {"argv": "x"}, {"argv": ["x"], "timeout_s": 0},
                    {"argv": ["x"], "shell": true}
                ]),
            ),
            (
                "/tools/4/exec/env",
                json!([{}, {"A": ""}, {"LD_PRELOAD": ""}, {"TIDEGATE": ""}]),
                json!([{"1": ""}, {"": ""}, {"A-B": ""}, {"TIDEGATE_X": ""}, {"A": 1}, []]),
            ),
            ("/tools/4/exec/cwd", json!(["/", "/x"]), json!(["x", "", "/\u{0}", 1])),
            (
                "/tools/5/ssh",
                json!([{"host": "x", "argv": [""]}, {"host": "x", "argv": ["x"], "timeout_s": 1}]),
                json!([
                    {}, {"host": "x"}, {"argv": ["x"]}, {"host": "x", "argv": []}, {"host": "x", "argv": [1]},
                    {"host": "", "argv": ["x"]}, {"host": "x", "argv": ["x"], "credential": "k"}, "x"
                ]),
            ),
            ("/tools/5/ssh/env", json!([{}, {"A": ""}]), json!([{"1": ""}, {"TIDEGATE_X": ""}, {"A": 1}, []])),
            ("/tools/5/ssh/cwd", json!(["/", "/x"]), json!(["x", "", "~", "/\u{0}", 1])),
            ("/tools/5/ssh/stdin", json!(["", "x"]), json!([1, {"text": ""}])),
            (
                "/hosts",
                json!([{}, {"a": {"address": "x", "user": "x", "auth": {"key": "x"}}}]),
                json!([
                    [], {"a": {}}, {"a": null}, {"a b": {"address": "x", "user": "x", "auth": {"key": "x"}}},
                    {"a": {"address": "x", "user": "x"}}, {"a": {"address": "x", "auth": {"key": "x"}}},
                    {"a": {"user": "x", "auth": {"key": "x"}}}
                ]),
            ),
            ("/hosts/web1/address", json!(["x", "[::1]"]), json!(["", 1])),
            ("/hosts/web1/port", json!([1, 65535, 22.0]), json!([0, 65536, 1.5, "22"])),
            (
                "/hosts/web1/user",
                json!(["root", "a-b", "a@b", "DOM\\u", "~", "x".repeat(256)]),
                json!(["", "-a", "a b", " a", "a\n", "a\u{7f}", "é", "x".repeat(257), 1]),
            ),
            (
                "/hosts/web1/auth",
                json!([
                    {"key": "x"}, {"key": "x", "passphrase": "y", "certificate": "/z"}, {"agent": {"identity": "/x"}},
                    {"password": "x"}
                ]),
                json!([
                    {}, {"key": "x", "password": "y"}, {"key": "x", "agent": {"identity": "/x"}}, {"passphrase": "y"},
                    {"password": "x", "passphrase": "y"}, {"agent": {"identity": "/x"}, "certificate": "/z"}, {"agent": {}},
                    {"agent": {"identity": "x"}}, {"agent": {"identity": "/x", "socket": "/y"}}, {"key": ""},
                    {"key": "x", "certificate": "z"}, {"password": 1}, {"password": ""}, {"none": {}}, "key", null
                ]),
            ),
            ("/hosts/web1/host_key", json!(["strict", "accept-new"]), json!(["no", "", "Strict", true])),
            ("/hosts/web1/known_hosts", json!(["/x"]), json!(["x", "~/.ssh/known_hosts", 1])),
            (
                "/hosts/web1/fingerprints",
                json!([["SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"]]),
                json!([
                    [],
                    "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
                    [1],
                    [""],
                    ["SHA256:"],
                    ["47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"],
                    ["SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="],
                    ["SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV"],
                    ["SHA256:47DEQpj8HBSa-_TImW+5JCeuQeRkm5NMpJWZG3hSuFU"],
                    ["MD5:d4:1d:8c:d9:8f:00:b2:04:e9:80:09:98:ec:f8:42:7e"]
                ]),
            ),
            ("/hosts/web1/tie", json!(["stdin", "none"]), json!(["pty", "", null])),
            (
                "/tools/4/rate",
                json!([{"per_minute": 1}, {"per_minute": 6000, "burst": 1000}, {"per_minute": 1.0, "burst": 1}]),
                json!([
                    {}, {"burst": 1}, {"per_minute": 0}, {"per_minute": 6001}, {"per_minute": 0.5}, {"per_minute": "1"},
                    {"per_minute": 1, "burst": 0}, {"per_minute": 1, "burst": 1001}, {"per_minute": 1, "per_hour": 1}, 1, null
                ]),
            ),
            ("/tools/4/max_concurrent", json!([1, 64]), json!([0, 65, 1.5, "1"])),
            ("/builtin", json!([{}]), json!([[], null, {"exec": {}}, {"http_request": {}}, {"ssh_exec": {}}])),
            (
                "/builtin/http_request",
                json!([{"allow": [{"host": "x"}]}]),
                json!([{"allow": []}, {"allow": {}}, {"allow": [{}]}, {"hosts": ["x"], "allow": [{"host": "x"}]}, [], null]),
            ),
            (
                "/builtin/http_request/allow/0",
                json!([{"host": "x", "port": 1, "paths": ["/"], "scheme": "http", "methods": ["x"], "credential": "x"}]),
                json!([
                    "x", ["x"], {"host": ""}, {"host": 1}, {"host": "x", "port": 0}, {"host": "x", "paths": []},
                    {"host": "x", "paths": ["y"]}, {"host": "x", "scheme": "ftp"}, {"host": "x", "methods": []},
                    {"host": "x", "methods": [""]}, {"host": "x", "methods": "GET"}, {"host": "x", "methods": [1]},
                    {"host": "x", "credential": ""}, {"host": "x", "credential": 1}, {"host": "x", "url": "y"}
                ]),
            ),
            ("/builtin/http_request/rate", json!([{"per_minute": 60}]), json!([{}, 60])),
            ("/builtin/http_request/confirm", json!(["never", "ask", "session"]), json!(["once", "", true])),
            ("/builtin/ssh_exec/confirm", json!(["never", "ask", "session"]), json!(["once", "", true])),
            ("/builtin/ssh_exec/hosts", json!([["x"]]), json!([[], [""], [1], "x", {}])),
            (
                "/builtin/ssh_exec/allow",
                json!([[["x"]], [["x", "*"], [""]]]),
                json!([[], [[]], ["x"], [[1]], [{"host": "x"}], "x", {}]),
            ),
            ("/builtin/ssh_exec/allow_dash", json!([true, false]), json!([1, "true"])),
            ("/builtin/ssh_exec/max_concurrent", json!([1, 64]), json!([0, 65])),
            ("/builtin/ssh_exec/timeout_s", json!([0.001, 3600]), json!([0, 3601])),
        ]
    }
}
