//! Must Show 1: a canary secret for each source and use, and calls over every action kind, error path and code that can be
//! provoked, at the highest log level and with targets that show it: it is in no byte of stdout, no line of stderr, no record, no
//! stored result, no argument and no environment of another process.

mod needle;
mod targets;
mod watch;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::kit::dir::Dir;
use crate::kit::gateway::{Ended, Gateway, Running};
use crate::kit::process::until;
use crate::kit::sshd::{Sshd, keygen};
use crate::kit::{MODERN, cancel, modern_call};
use needle::{Canary, Needles};
use targets::{Echo, WAYS};
use watch::Watch;

const SOURCES: [&str; 4] = ["env", "file", "command", "systemd"];
const USES: [&str; 2] = ["bearer", "header"];

/// Where the secrets are, what shows them, and what is looked for.
struct World {
    dir: Dir,
    echo: Echo,
    sshd: Sshd,
    canaries: Vec<Canary>,
    needles: Arc<Needles>,
}

impl World {
    fn new() -> World {
        let (dir, sshd) = (Dir::new(), Sshd::start(""));
        let mut canaries: Vec<Canary> = SOURCES.into_iter().map(Canary::new).collect();
        canaries.extend(["passphrase", "password", "rotated", "broken"].map(Canary::plain));
        let passphrase = canaries[4].value.clone();
        keygen(dir.path(), "encrypted", &["ed25519"], &passphrase);
        keygen(dir.path(), "stranger", &["ed25519"], "");
        let known = fs::read_to_string(sshd.dir().join("user.pub")).unwrap() + &dir.read("encrypted.pub");
        fs::write(sshd.dir().join("authorized_keys"), known).unwrap();
        canaries.push(Canary::key("private key", &sshd.dir().read("user")));
        canaries.push(Canary::key("encrypted key", &dir.read("encrypted")));
        canaries.push(Canary::key("refused key", &dir.read("stranger")));
        fs::create_dir(dir.join("passed")).unwrap();
        dir.write("passed/token", &canaries[3].value);
        dir.write("passed/word", format!("{passphrase}\n"));
        dir.write("passed/key", sshd.dir().read("user"));
        for (name, canary) in [("file", 1), ("printed", 2), ("password", 5), ("broken", 7)] {
            dir.write(name, format!("{}\n", canaries[canary].value));
        }
        dir.write_mode("open", &canaries[7].value, 0o644);
        dir.write("lines", format!("{}\n{}\n", canaries[7].value, canaries[7].value));
        let needles = Arc::new(Needles::of(&canaries));
        World { dir, echo: Echo::start(), sshd, canaries, needles }
    }

    fn value(&self, name: &str) -> &str {
        &self.canaries.iter().find(|canary| canary.name == name).unwrap().value
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn credentials(&self) -> Value {
        let port = self.echo.peer.port();
        let scope = json!([
            {"host": "127.0.0.1", "port": port, "paths": ["/at/"]}, {"host": "127.0.0.1", "port": self.sshd.port(), "scheme": "https"},
            {"host": "127.0.0.1", "port": 9}, {"host": "no-such-host.invalid"}, {"host": host_name()}
        ]);
        let mut credentials = json!({});
        for source in SOURCES {
            for placed in USES {
                let from = match source {
                    "env" => json!({"env": "CANARY"}),
                    "file" => json!({"file": self.path("file")}),
                    "command" => json!({"command": ["cat", self.path("printed")]}),
                    _ => json!({"systemd": "token"}),
                };
                let placement = match placed {
                    "bearer" => json!({"bearer": {}}),
                    _ => json!({"header": {"name": "X-Api-Key", "prefix": "Key "}}),
                };
                credentials[format!("{source}_{placed}")] = json!({"from": from, "as": placement, "for": scope});
            }
        }
        let mut more = |name: &str, from: Value| credentials[name] = json!({"from": from, "for": scope});
        more("user_key", json!({"file": self.sshd.dir().join("user")}));
        more("printed_key", json!({"command": ["cat", self.sshd.dir().join("user")]}));
        more("passed_key", json!({"systemd": "key"}));
        more("encrypted_key", json!({"file": self.path("encrypted")}));
        more("stranger_key", json!({"command": ["cat", self.path("stranger")]}));
        more("passphrase", json!({"systemd": "word"}));
        more("password", json!({"file": self.path("password")}));
        more("rotating", json!({"file": self.path("rotating")}));
        for (name, from) in self.broken() {
            more(name, from);
        }
        credentials
    }

    /// Sources that have the secret and do not give it.
    fn broken(&self) -> Vec<(&'static str, Value)> {
        let sh = |script: &str| json!({"command": ["sh", "-c", script, "sh", self.path("broken")], "timeout_s": 0.4});
        vec![
            ("fails", sh("cat \"$1\"; cat \"$1\" >&2; exit 3")),
            ("dies", sh("cat \"$1\" >&2; cat \"$1\"; kill -SEGV $$")),
            ("floods", sh("while :; do cat \"$1\" \"$1\" \"$1\" \"$1\"; done")),
            ("hangs", sh("cat \"$1\"; exec sleep 300")),
            ("absent", json!({"command": [self.path("no-such-helper")]})),
            ("open", json!({"file": self.path("open")})),
            ("lines", json!({"file": self.path("lines")})),
            ("missing", json!({"systemd": "no-such-credential"})),
        ]
    }

    fn hosts(&self) -> Value {
        let host = |auth: Value| {
            let mut host = self.sshd.host();
            host["auth"] = auth;
            host
        };
        let mut unknown = host(json!({"key": "user_key"}));
        unknown["known_hosts"] = json!("/dev/null");
        let mut changed = host(json!({"key": "user_key"}));
        let user = self.sshd.known_line("user");
        changed["known_hosts"] = json!(self.sshd.known_hosts("changed", &user));
        let mut closed = host(json!({"key": "user_key"}));
        closed["port"] = json!(9);
        json!({
            "by_file": host(json!({"key": "user_key"})), "by_command": host(json!({"key": "printed_key"})),
            "by_systemd": host(json!({"key": "passed_key"})),
            "by_passphrase": host(json!({"key": "encrypted_key", "passphrase": "passphrase"})),
            "wrong_passphrase": host(json!({"key": "encrypted_key", "passphrase": "password"})),
            "by_password": host(json!({"password": "password"})), "by_stranger": host(json!({"key": "stranger_key"})),
            "unknown": unknown, "changed": changed, "closed": closed,
        })
    }

    /// What a command prints who has got hold of the secrets.
    fn scripts(&self) -> Vec<(&'static str, String)> {
        let files = ["file", "printed", "passed/token", "passed/word", "passed/key", "encrypted", "password"]
            .map(|name| self.path(name));
        let files = files.iter().map(|path| format!("'{}'", path.display())).collect::<Vec<_>>().join(" ");
        let parent = "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; done 2>/dev/null | grep ^CANARY=";
        vec![
            ("environment", "env; cat /proc/self/environ".to_owned()),
            ("environments", format!("{parent}; true")),
            ("prints", format!("cat {files}")),
            ("complains", format!("cat {files} >&2")),
            ("fails", format!("cat {files}; cat {files} >&2; exit 3")),
            ("dies", format!("cat {files}; kill -KILL $$")),
            ("base64", format!("for f in {files}; do tr -d '\\n' < \"$f\" | base64 -w0; echo; done")),
            ("hex", format!("for f in {files}; do tr -d '\\n' < \"$f\" | od -An -v -tx1 | tr -d ' \\n'; echo; done")),
            ("slowly", format!("for f in {files}; do while IFS= read -r l; do printf %s\\\\n \"$l\"; done < \"$f\"; done")),
            ("stored", format!("for i in 1 2 3 4 5 6 7 8; do head -c 5000 /dev/zero | tr '\\0' x; cat {files}; done")),
            (
                "stored_errors",
                format!("for i in 1 2 3 4 5 6 7 8; do head -c 5000 /dev/zero | tr '\\0' x; cat {files}; done >&2"),
            ),
            ("hangs", format!("cat {files}; exec sleep 300")),
        ]
    }

    fn tools(&self) -> Value {
        let mut tools = Vec::new();
        let way = json!({"type": "object", "properties": {"way": {"type": "string", "maxLength": 20}}, "required": ["way"]});
        let mut http = |name: String, url: String, credential: &str| {
            let input = if url.contains("way}") { way.clone() } else { json!({"type": "object", "properties": {}}) };
            let http = json!({"url": &url, "credential": credential});
            tools.push(json!({"name": name, "description": "Fetches it", "input": input, "http": http, "timeout_s": if url.ends_with("hang") { 0.7 } else { 5.0 }, "content_bytes": 8192}));
        };
        let url = self.echo.peer.url();
        for source in SOURCES {
            for placed in USES {
                http(format!("{source}_{placed}"), format!("{url}/at/{{way}}"), &format!("{source}_{placed}"));
            }
            // A server that speaks first, and no TLS.
            http(format!("{source}_tls"), format!("https://127.0.0.1:{}/", self.sshd.port()), &format!("{source}_bearer"));
            http(format!("{source}_hangs"), format!("{url}/at/hang"), &format!("{source}_bearer"));
            http(format!("{source}_closed"), "http://127.0.0.1:9/".to_owned(), &format!("{source}_bearer"));
            http(format!("{source}_nowhere"), "https://no-such-host.invalid/".to_owned(), &format!("{source}_bearer"));
            http(format!("{source}_blocked"), format!("https://{}/", host_name()), &format!("{source}_header"));
            http(format!("{source}_outside"), format!("{url}/{{+way}}"), &format!("{source}_header"));
        }
        for name in self.broken().into_iter().map(|(name, _)| name).chain(["rotating"]) {
            http(format!("with_{name}"), format!("{url}/at/{{way}}"), name);
        }
        http("with_key".to_owned(), format!("{url}/at/{{way}}"), "user_key");
        tools.push(json!({"name": "seldom", "description": "Fetches it", "input": way, "rate": {"per_minute": 1, "burst": 1},
            "http": {"url": format!("{url}/at/{{way}}"), "credential": "file_bearer"}}));
        tools.push(json!({"name": "selects", "description": "Fetches it", "input": way,
            "http": {"method": "POST", "url": format!("{url}/at/{{way}}"), "credential": "file_bearer", "select": ["/items/*/echo"],
                     "body": {"json": {"way": "{way}"}}}}));
        for (name, script) in self.scripts() {
            let timeout = if name == "hangs" { 1.5 } else { 10.0 };
            let local = json!({"argv": ["sh", "-c", script]});
            tools.push(json!({"name": format!("local_{name}"), "description": "Runs it", "exec": local, "timeout_s": timeout, "content_bytes": 8192}));
            if cfg!(feature = "ssh") {
                let remote = json!({"host": "by_passphrase", "argv": ["sh", "-c", script]});
                tools.push(json!({"name": format!("remote_{name}"), "description": "Runs it there", "ssh": remote, "timeout_s": timeout, "content_bytes": 8192}));
            }
        }
        tools.push(json!({"name": "local_absent", "description": "Is not there", "exec": {"argv": ["/no/such/program"]}}));
        tools.push(json!({"name": "local_flood", "description": "Never ends", "stop_at_limit": true, "content_bytes": 8192,
            "exec": {"argv": ["sh", "-c", format!("while :; do cat '{}'; done", self.path("file").display())]}}));
        if cfg!(feature = "ssh") {
            let show = format!("cat '{}'/user '{}'", self.sshd.dir().path().display(), self.path("encrypted").display());
            for host in self.hosts().as_object().unwrap().keys() {
                tools.push(json!({"name": format!("on_{host}"), "description": "Runs it there",
                    "ssh": {"host": host, "argv": ["sh", "-c", show]}, "timeout_s": 5}));
            }
        }
        Value::Array(tools)
    }

    fn gateway(&self) -> Gateway {
        let gateway = Gateway::new();
        let log = gateway.dir().join("log");
        let mut gateway = gateway
            .set("credentials", self.credentials())
            .set("tools", self.tools())
            .set("limits", json!({"calls": 8, "workers": 4}))
            .set("log", json!({"level": "trace", "file": log}))
            .set("session", json!({"on_malformed": "continue"}))
            .env("RUST_LOG", "trace")
            .env("CANARY", self.value("env"))
            .env("CREDENTIALS_DIRECTORY", self.path("passed").to_str().unwrap())
            .says_anything();
        if cfg!(feature = "ssh") {
            gateway = gateway.set("hosts", self.hosts());
        }
        gateway
    }

    /// No byte of it holds a canary.
    #[track_caller]
    fn check(&self, what: &str, bytes: &[u8]) {
        if let Some((whose, form)) = self.needles.found(bytes) {
            panic!("{whose} is in {what}, {form}: {}", around(bytes, self));
        }
    }

    /// Nor does any file below `folder`; the number of files.
    fn check_files(&self, folder: &Path) -> usize {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        let count = |path: &PathBuf| match path.is_dir() {
            true => self.check_files(path),
            false => {
                self.check(&path.display().to_string(), &fs::read(path).unwrap());
                1
            }
        };
        paths.iter().map(count).sum()
    }

    /// Everything that a gateway has left behind.
    fn check_ended(&self, ended: &Ended) {
        self.check("stdout", &ended.stdout);
        self.check("stderr", ended.stderr.as_bytes());
        self.check("the log file", ended.dir.read("log").as_bytes());
        assert!(self.check_files(&ended.dir.join("state")) > 0, "no journal");
    }
}

/// For a failure: the line it is in, cut.
fn around(bytes: &[u8], world: &World) -> String {
    let line = bytes.split(|byte| *byte == b'\n').find(|line| world.needles.found(line).is_some()).unwrap_or_default();
    line[..line.len().min(3000)].escape_ascii().to_string()
}

/// Our own name, which leads to an address that nobody opened.
fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_lowercase()
}

/// Calls, their codes, and what their texts were.
struct Calls<'w> {
    world: &'w World,
    running: Running,
    count: usize,
    codes: BTreeSet<String>,
    hidden: usize,
}

impl Calls<'_> {
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.count += 1;
        let reply = self.running.ask(&modern_call(self.count, tool, &arguments.to_string()));
        self.take(&reply);
        reply
    }

    fn take(&mut self, reply: &Value) {
        let result = reply.get("result").map_or(&reply["error"]["data"], |result| &result["_meta"]);
        let code = &result["tidegate/outcome"]["code"];
        self.codes.insert(code.as_str().unwrap_or("ok").to_owned());
        self.hidden += reply.to_string().matches("[redacted:").count();
        self.world.check(&format!("the reply {}", self.count), reply.to_string().as_bytes());
    }

    fn requests(&mut self) {
        for source in SOURCES {
            for placed in USES {
                for way in WAYS {
                    self.call(&format!("{source}_{placed}"), &json!({"way": way}));
                }
            }
            for target in ["tls", "closed", "nowhere", "blocked", "hangs"] {
                self.call(&format!("{source}_{target}"), &json!({}));
            }
            self.call(&format!("{source}_outside"), &json!({"way": "elsewhere/x"}));
        }
        for way in ["json", "escaped", "member", "large", "plain"] {
            self.call("selects", &json!({"way": way}));
        }
    }

    fn commands(&mut self) {
        let kinds: &[&str] = if cfg!(feature = "ssh") { &["local", "remote"] } else { &["local"] };
        for kind in kinds {
            for (name, _) in self.world.scripts() {
                let reply = self.call(&format!("{kind}_{name}"), &json!({}));
                self.read_on(&reply);
            }
        }
        for tool in ["local_absent", "local_flood"] {
            self.call(tool, &json!({}));
        }
        if cfg!(feature = "ssh") {
            for host in self.world.hosts().as_object().unwrap().keys() {
                self.call(&format!("on_{host}"), &json!({}));
            }
        }
    }

    /// Reads a stored result to its end in both ways.
    fn read_on(&mut self, reply: &Value) {
        let structured = &reply["result"]["structuredContent"];
        let mut next = structured["nextCursor"].as_str().map(str::to_owned);
        while let Some(cursor) = next {
            let page = self.call("read_result", &json!({"cursor": cursor}));
            let (name, offset) = cursor.split_once(':').unwrap();
            self.call("read_result", &json!({"cursor": format!("{name}:0"), "find": "[redacted:"}));
            self.count += 1;
            let id = self.count;
            let uri = format!("tidegate://result/{name}?offset={offset}");
            let request =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/read","params":{{"uri":"{uri}",{MODERN}}}}}"#);
            let resource = self.running.ask(&request);
            assert!(resource["result"]["contents"][0].is_object(), "{resource}");
            self.take(&resource);
            next = page["result"]["structuredContent"]["nextCursor"].as_str().map(str::to_owned);
        }
    }

    /// Calls that are refused, or that fail before anything is sent.
    fn failures(&mut self) {
        for (name, _) in self.world.broken() {
            self.call(&format!("with_{name}"), &json!({"way": "plain"}));
        }
        self.call("with_key", &json!({"way": "plain"}));
        self.call("no_such_tool", &json!({}));
        (0..2).for_each(|_| drop(self.call("seldom", &json!({"way": "plain"}))));
        self.call("env_bearer", &json!({"way": 5}));
        self.call("env_bearer", &json!({"way": ".."}));
        self.call("env_bearer", &json!({"other": "x"}));
        self.call("read_result", &json!({"cursor": "0123456789abcdef0123456789abcdef:0"}));
        self.call("tidegate_status", &json!({}));
        for line in ["not JSON", "[1]", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#] {
            self.running.send(line);
            let error = self.running.next();
            self.take(&error);
        }
    }

    /// More calls at once than are admitted, all of which are cancelled after that.
    fn crowd(&mut self) {
        let first = self.count + 1;
        self.count += 10;
        (first..=self.count).for_each(|id| self.running.send(&modern_call(id, "local_hangs", "{}")));
        for _ in 0..2 {
            let busy = self.running.next();
            self.take(&busy);
        }
        (first..=self.count).for_each(|id| self.running.send(&cancel(id)));
        until("all have ended", || {
            let reply = self.running.ask(&modern_call("\"status\"", "tidegate_status", "{}"));
            reply["result"]["structuredContent"]["calls_under_way"] == 0
        });
    }

    /// A value that changes: the old one stays hidden.
    fn rotation(&mut self) {
        for canary in ["rotated", "password"] {
            self.world.dir.write("rotating", self.world.value(canary));
            self.call("with_rotating", &json!({"way": "plain"}));
        }
        fs::set_permissions(self.world.path("rotating"), fs::Permissions::from_mode(0o644)).unwrap();
        self.call("with_rotating", &json!({"way": "plain"}));
    }
}

#[test]
fn no_secret_is_seen_anywhere() {
    let world = World::new();
    let running = world.gateway().start();
    let watch = Watch::start(world.needles.clone(), running.pid());
    let mut calls = Calls { world: &world, running, count: 0, codes: BTreeSet::new(), hidden: 0 };
    calls.rotation();
    calls.requests();
    calls.commands();
    calls.failures();
    calls.crowd();
    calls.running.signal("USR1");
    let Calls { running, count, codes, hidden, .. } = calls;
    let ended = running.end();
    let seen = watch.finish();
    world.check_ended(&ended);
    assert_eq!(seen.leaks, BTreeSet::new());

    // What would make the rest mean nothing: too few calls, secrets that were never sent or never shown, nobody looked at.
    eprintln!("{count} calls, {hidden} hidden, codes {codes:?}");
    assert!(count >= 200 && hidden >= 200, "{count} calls, {hidden} hidden");
    let expected = [
        "ok",
        "bad_arguments",
        "unknown_tool",
        "busy",
        "denied",
        "connect_failed",
        "tls_failed",
        "timed_out",
        "connection_lost",
        "response_malformed",
        "spawn_failed",
        "credential_unavailable",
        "result_gone",
        "rate_limited",
        "target_error",
    ];
    let of_ssh: &[&str] = if cfg!(feature = "ssh") { &["host_key_unknown", "host_key_changed", "auth_failed"] } else { &[] };
    let missing: Vec<_> = expected.iter().chain(of_ssh).filter(|code| !codes.contains(**code)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}, but {codes:?}");
    let shown = world.echo.sent();
    for way in WAYS.iter().filter(|way| !["chunked", "nothing"].contains(way)) {
        let answers: Vec<_> = shown.iter().filter(|(known, _)| known == way).collect();
        assert!(answers.len() >= 8, "{way}: {}", answers.len());
        assert!(answers.iter().all(|(_, bytes)| world.needles.found(bytes).is_some()), "{way} shows nothing");
    }
    for source in SOURCES {
        let count = world.echo.peer.seen().iter().filter(|seen| targets::value(seen) == world.value(source)).count();
        assert!(count >= 2 * WAYS.len(), "{source} was sent {count} times");
    }
    let programs = ["sh", "dash", "cat", "sleep", "base64"].iter().filter(|name| seen.programs.contains(**name)).count();
    assert!(programs >= 2, "no child was looked at: {:?}", seen.programs);
    assert!(ended.dir.join("state/results").is_dir(), "nothing was stored");
}

/// Calls each tool once, and looks for canaries in what the gateway said until its end.
fn ask_each(world: &World, mut running: Running, names: &[String]) -> Ended {
    for (id, name) in names.iter().enumerate() {
        let arguments = if name.contains("_bearer") || name.starts_with("with_") { r#"{"way":"plain"}"# } else { "{}" };
        running.ask(&modern_call(id, name, arguments));
    }
    let ended = running.end();
    world.check("stdout", &ended.stdout);
    world.check("stderr", ended.stderr.as_bytes());
    ended
}

/// The same where nothing can be recorded, where nothing is carried out, and where the log is JSON.
#[test]
fn no_secret_is_seen_where_nothing_happens() {
    let world = World::new();
    let gateway = world.gateway();
    gateway.dir().write("state", "in the way");
    let running = gateway.start();
    let mut names: Vec<String> = Vec::new();
    for tool in world.tools().as_array().unwrap() {
        names.push(tool["name"].as_str().unwrap().to_owned());
    }
    let ended = ask_each(&world, running, &names);
    assert!(String::from_utf8_lossy(&ended.stdout).matches("journal_unavailable").count() > 20);
    assert_eq!(world.echo.peer.connections(), 0);

    let gateway = world.gateway().set("log", json!({"level": "trace", "format": "json"}));
    let record = gateway.dir().join("record");
    let running = gateway.args(["--dry-run", "--record"]).args([record]).start();
    let ended = ask_each(&world, running, &names);
    world.check("the record", ended.dir.read("record").as_bytes());
    assert!(ended.dir.read("record").lines().count() > 20);
    assert_eq!(world.echo.peer.connections(), 0);
}
