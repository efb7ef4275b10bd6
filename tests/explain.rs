//! `tidegate explain`: the decision, the rule and the exact action of a call that is not made.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::kit::dir::Dir;
use crate::kit::gateway::Gateway;
use crate::kit::installed::preload_object;
use crate::kit::modern_call;

/// A scratch folder with a configuration in it, whose credential is a file that is never opened.
struct Bench {
    dir: Dir,
    config: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let dir = Dir::new();
        let key = dir.write_mode("key", "key-of-the-explanation", 0o600);
        let config = dir.write("config.json", config(&dir.join("state"), &key).to_string());
        Bench { dir, config }
    }

    /// The deeds of the process go to the file `deeds`.
    fn explain(&self, arguments: &[&str], stdin: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("explain").arg("--config").arg(&self.config).args(arguments).env_clear();
        command.env("LD_PRELOAD", preload_object("tripwire.c")).env("TRIPWIRE", self.dir.join("deeds"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// One call: exit code, stdout, and nothing in the world.
    #[track_caller]
    fn check(&self, arguments: &[&str], code: i32, says: &[&str]) -> String {
        let output = self.explain(arguments, "");
        let said = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}{stderr}");
        let both = format!("{said}{stderr}");
        says.iter().for_each(|part| assert!(both.contains(part), "{arguments:?}: {part:?} is not in {both}"));
        assert!(!both.contains("key-of-the-explanation"));
        said
    }
}

fn config(state: &Path, key: &Path) -> Value {
    let text = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let mut config = json!({
        "state_dir": state,
        "approvals": {"order": ["client", "command", "operator"], "command": ["touch", "asked"], "timeout_s": 20},
        "credentials": {"api": {"from": {"file": key}, "for": [{"host": "unknown.test", "paths": ["/v1/ours/"]}]},
                        "user": {"from": {"file": key}}},
        "tools": [
            {"name": "say", "description": "Says it", "input": text, "exec": {"argv": ["echo", "{text}"], "env": {"HOME": "/"}}},
            {"name": "wipe", "description": "Wipes it", "confirm": "ask", "exec": {"argv": ["touch", "wiped"]}},
            {"name": "fetch", "description": "Fetches it", "input": text, "http": {"url": "https://unknown.test/v1/{+text}", "credential": "api"}},
        ],
        "builtin": {"http_request": {"allow": [{"host": "unknown.test", "methods": ["GET", "POST"], "paths": ["/v1/"]}]}},
    });
    if cfg!(feature = "ssh") {
        config["hosts"] =
            json!({"web1": {"address": "unknown.test", "user": "deploy", "auth": {"key": "user"}, "known_hosts": "/dev/null"}});
        config["builtin"]["ssh_exec"] = json!({"hosts": ["web1"], "allow": [["uptime"], ["journalctl", "-u", "*", "-n", "*"]]});
    }
    config
}

/// A tool and its arguments, allowed and refused ones.
const CALLS: &[(&str, &str)] = &[
    ("say", r#"{"text":"a b"}"#),
    ("say", r#"{"text":"-x"}"#),
    ("say", r#"{"txt":"x"}"#),
    ("say", "{}"),
    ("fetch", r#"{"text":"ours/x"}"#),
    ("fetch", r#"{"text":"theirs/x"}"#),
    ("fetch", r#"{"text":".."}"#),
    ("http_request", r#"{"url":"https://unknown.test/v1/x?y=1","headers":{"x-a":"b"}}"#),
    ("http_request", r#"{"method":"POST","url":"https://unknown.test/v1/","body":{"json":[1.50,"é"]},"select":["/a"]}"#),
    ("http_request", r#"{"url":"https://unknown.test/v2/"}"#),
    ("http_request", r#"{"url":"https://unknown.test/v1/","headers":{"authorization":"x"}}"#),
    ("nothing", "{}"),
];
#[cfg(feature = "ssh")]
const COMMANDS: &[(&str, &str)] = &[
    ("ssh_exec", r#"{"host":"web1","argv":["uptime"]}"#),
    ("ssh_exec", r#"{"host":"web1","argv":["journalctl","-u","a; touch x","-n","5"]}"#),
    ("ssh_exec", r#"{"host":"web1","argv":["uptime","; touch x"]}"#),
    ("ssh_exec", r#"{"host":"web2","argv":["uptime"]}"#),
];
#[cfg(not(feature = "ssh"))]
const COMMANDS: &[(&str, &str)] = &[];
/// Somebody would be asked, by a command among others.
const ASKING: &[(&str, &str)] = &[("wipe", "{}")];

#[test]
fn it_says_what_the_gateway_would_do() {
    let bench = Bench::new();
    let mut running = Gateway::new().args(["--dry-run", "--config"]).args([&bench.config]).says_anything().start();
    for (tool, arguments) in CALLS.iter().chain(COMMANDS) {
        let reply = running.ask(&modern_call(1, tool, arguments));
        let would = &reply["result"]["structuredContent"]["would"];
        let code = if would.is_object() { 0 } else { 1 };
        let said = bench.check(&["--json", tool, arguments], code, &[]);
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        if code == 0 {
            assert_eq!(said["decision"], "allowed");
            for key in ["tool", "rule", "target", "action"] {
                assert_eq!(said[key], would[key], "{tool} {arguments}: {key}");
            }
            assert_eq!(said["credential"]["name"], would["credential"], "{tool} {arguments}");
            continue;
        }
        let outcome = match reply.get("error") {
            Some(error) => &error["data"]["tidegate/outcome"],
            None => &reply["result"]["_meta"]["tidegate/outcome"],
        };
        assert_eq!((&said["decision"], &said["code"]), (&json!("refused"), &outcome["code"]), "{tool} {arguments}");
        if reply.get("error").is_none() {
            let text = reply["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.ends_with(said["text"].as_str().unwrap()), "{text}: {said}");
        }
    }
    running.end();
}

#[test]
fn it_starts_resolves_connects_asks_and_reads_nothing() {
    let bench = Bench::new();
    for (tool, arguments) in CALLS.iter().chain(COMMANDS).chain(ASKING) {
        bench.explain(&[tool, arguments], "");
    }
    let deeds = bench.dir.read("deeds");
    let read: Vec<&str> = deeds.lines().filter(|deed| deed.contains(bench.dir.path().to_str().unwrap())).collect();
    assert_eq!(
        read.len(),
        CALLS.len() + COMMANDS.len() + ASKING.len(),
        "the configuration each time, and nothing else: {deeds}"
    );
    assert!(read.iter().all(|deed| deed.ends_with("config.json")), "{read:?}");
    let acts: Vec<&str> = deeds.lines().filter(|deed| !deed.starts_with("open ")).collect();
    assert!(acts.is_empty(), "{acts:?}");
    assert!(!bench.dir.join("state").exists());
}

#[test]
fn it_is_read_by_people_and_ends_with_a_code() {
    let bench = Bench::new();
    let said = bench.check(
        &["say", "{\"text\":\"a\\u001b[2J\\u202eb\u{202e}\"}"],
        0,
        &["allowed     say by declared:say\n", "\\u001b[2J\\u202e"],
    );
    assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said}");
    bench.check(
        &["fetch", r#"{"text":"ours/x"}"#],
        0,
        &["credential  api, in the header authorization\n", "limits      32768 bytes of result, 50 s\n"],
    );
    let [(asking, _)] = ASKING else { panic!() };
    bench.check(
        &[asking],
        0,
        &[
            "allowed     wipe by declared:wipe\n",
            "confirm     ask: the first who can be asked of client, command, operator, with 20 s to answer\n",
        ],
    );
    bench.check(&["say", r#"{"text":"a"}"#], 0, &["confirm     never\n"]);
    bench.check(
        &["say"],
        1,
        &["refused     say with bad_arguments, at the stage action: bad_arguments\n", "missing property \"text\""],
    );
    bench.check(&["nothing"], 1, &["refused     nothing with unknown_tool"]);
    bench.check(&["tidegate_status"], 0, &["answered by the gateway itself"]);
    bench.check(&["read_result", r#"{"cursor":"0123456789abcdef0123456789abcdef"}"#], 0, &["by builtin:read_result"]);
    if cfg!(feature = "ssh") {
        let says = [
            "allowed     ssh_exec by builtin.ssh_exec.allow[0]\n",
            "host        web1: deploy@unknown.test port 22\n",
            "credential  user\n",
        ];
        bench.check(&["ssh_exec", r#"{"host":"web1","argv":["uptime"]}"#], 0, &says);
    }
    bench.check(&["say", "{}", "more"], 2, &["explain takes TOOL [ARGS]"]);
    bench.check(&[], 2, &["explain needs the name of a tool"]);
    bench.check(&["say", "text"], 2, &["expected one JSON object"]);
    bench.check(&["say", r#"{"text":"a","text":"b"}"#], 2, &["twice"]);
    let stdin = bench.explain(&["say", "-"], "{\"text\":\n\"a\"}\n");
    assert_eq!(stdin.status.code(), Some(0), "{}", String::from_utf8_lossy(&stdin.stderr));
    std::fs::write(&bench.config, r#"{"tools":[{"name":"say"}]}"#).unwrap();
    bench.check(&["say"], 78, &["missing key \"description\""]);
}
