//! Real clients: the official Python SDK and `fastmcp`, as their users run them, in both eras; and more that ask their user.
//!
//! What a client reports is never believed alone: a web server's log, a file that a command wrote, the process table and the
//! gateway's exit code say the same. The clients stand in `.venv` and `.npm`, made by `make deps`; without them these tests fail.
//! The server is the installed release binary that `$TIDEGATE_INSTALLED` names, else the one under test.

mod approvals;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::kit::dir::Dir;
use crate::kit::process::is_alive;
use crate::kit::unique;

/// Each mode of a client and the revision it must end up with.
const MODES: [(&str, &str); 3] = [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")];

/// What every client must list, in this order.
const TOOLS: [&str; 6] = ["item", "write", "hang", "talk", "read_result", "tidegate_status"];

#[test]
fn the_official_client_lists_and_calls_both_kinds_of_tool_in_both_eras() {
    MODES.iter().for_each(|(mode, revision)| check_session("mcp", mode, revision));
}

#[test]
fn fastmcp_lists_and_calls_both_kinds_of_tool_in_both_eras() {
    MODES.iter().for_each(|(mode, revision)| check_session("fastmcp", mode, revision));
}

#[test]
fn a_cancel_by_the_official_client_ends_the_command() {
    ["auto", "legacy"].iter().for_each(|mode| check_cancel("mcp", mode));
}

#[test]
fn a_cancel_by_fastmcp_ends_the_command() {
    ["auto", "legacy"].iter().for_each(|mode| check_cancel("fastmcp", mode));
}

#[test]
fn the_clients_hear_of_progress_in_both_eras() {
    ["mcp", "fastmcp"].iter().for_each(|library| ["auto", "legacy"].iter().for_each(|mode| check_progress(library, mode)));
}

/// S155: clients pass a handful of variables, some launchers none.
#[test]
fn an_empty_environment_is_enough() {
    let scene = Scene::new();
    let server = scene.server(&["/usr/bin/env", "-i"]);
    let seen = scene.drive("mcp", "auto", &server, &[scene.item_step(), scene.write_step()]);
    scene.check_item(&seen["steps"][0]);
    scene.check_write(&seen["steps"][1]);
    scene.end();
}

#[test]
fn the_command_line_of_fastmcp_lists_and_calls() {
    let scene = Scene::new();
    let listed = scene.fastmcp_command(&["list"]);
    assert_eq!(names(&listed["tools"]), TOOLS);

    let call = |step: &Value| {
        let (tool, arguments) = (step["tool"].as_str().expect("a tool"), step["arguments"].to_string());
        scene.fastmcp_command(&["call", "--target", tool, "--input-json", &arguments])
    };
    let item = call(&scene.item_step());
    assert_eq!(item["structured_content"]["body"], scene.body(), "{item}");
    let write = call(&scene.write_step());
    assert_eq!(write["structured_content"]["stdout"]["text"], format!("wrote {}", scene.mark), "{write}");
    assert_eq!(scene.dir.read("written"), scene.mark);
    scene.end();
}

/// One session from the first message to the exit code.
#[track_caller]
fn check_session(library: &str, mode: &str, revision: &str) {
    let scene = Scene::new();
    let wrong = json!({"tool": "write", "arguments": {"valeu": scene.mark}});
    let unknown = json!({"tool": "erase", "arguments": {}});
    let steps = [scene.item_step(), scene.write_step(), wrong, unknown, status_step()];
    let seen = scene.drive(library, mode, &scene.server(&[]), &steps);

    assert_eq!(seen["protocol_version"], revision, "{library} {mode}");
    // A pinned modern client asks nobody for a name.
    let name = if mode == revision { Value::Null } else { "tidegate".into() };
    assert_eq!(seen["server"], name, "{library} {mode}");
    assert_eq!(names(&seen["tools"]), TOOLS, "{library} {mode}");
    assert_eq!(seen["tools"][0]["input"], item_schema(), "{library} {mode}");

    let [item, write, wrong, unknown, status] = [0, 1, 2, 3, 4].map(|step: usize| &seen["steps"][step]);
    scene.check_item(item);
    scene.check_write(write);
    assert_eq!(wrong["is_error"], true, "{wrong}");
    assert_eq!(wrong["outcome"]["executed"], "no", "{wrong}");
    assert!(text_of(wrong).starts_with("tidegate: bad_arguments (executed: no): "), "{wrong}");
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    check_gone(&status["structured"]["pid"]);
    scene.end();
}

/// The command of a cancelled call is gone before the session ends, and the session goes on.
#[track_caller]
fn check_cancel(library: &str, mode: &str) {
    let scene = Scene::new();
    let hang = json!({"tool": "hang", "arguments": {}, "cancel_once_written": scene.path("pid")});
    let seen = scene.drive(library, mode, &scene.server(&[]), &[status_step(), hang, scene.item_step(), status_step()]);

    let [before, hang, item, after] = [0, 1, 2, 3].map(|step: usize| &seen["steps"][step]);
    assert_eq!((&hang["was_there"], &hang["is_gone"]), (&true.into(), &true.into()), "{library} {mode}: {hang}");
    check_gone(&hang["pid"]);
    scene.check_item(item);
    assert_eq!(before["structured"]["pid"], after["structured"]["pid"], "{library} {mode}: one session");
    check_gone(&after["structured"]["pid"]);
    scene.end();
}

/// The command goes on until the client has heard of it twice.
#[track_caller]
fn check_progress(library: &str, mode: &str) {
    let scene = Scene::new();
    let talk = json!({"tool": "talk", "arguments": {}, "write_once_told": scene.path("told")});
    let seen = scene.drive(library, mode, &scene.server(&[]), &[talk, scene.item_step()]);
    let talk = &seen["steps"][0];
    assert_eq!(talk["is_error"], false, "{library} {mode}: {talk}");
    let told = talk["told"].as_array().expect("a list");
    let values: Vec<_> = told.iter().map(|told| told["progress"].as_f64().expect("a number")).collect();
    assert!(values.len() >= 2 && values.windows(2).all(|pair| pair[0] < pair[1]), "{library} {mode}: {talk}");
    let is_fine = |told: &Value| told["total"].is_null() && told["message"].as_str().is_some_and(|text| text.ends_with(" s"));
    assert!(told.iter().all(is_fine), "{library} {mode}: {talk}");
    scene.check_item(&seen["steps"][1]);
    scene.end();
}

/// A process that a client or command told of has ended.
#[track_caller]
fn check_gone(pid: &Value) {
    let pid = pid.as_u64().and_then(|pid| pid.try_into().ok()).unwrap_or_else(|| panic!("no process id: {pid}"));
    assert!(!is_alive(pid), "process {pid} is still there");
}

/// A web server with one item, a configuration with a tool of each kind, and a mark that no other run uses.
struct Scene {
    dir: Dir,
    web: Web,
    mark: String,
}

impl Scene {
    fn new() -> Scene {
        let (dir, mark) = (Dir::new(), unique());
        fs::create_dir(dir.join("web")).unwrap();
        let scene = Scene { web: Web::start(&dir.join("web")), dir, mark };
        scene.dir.write(&format!("web/{}.json", scene.mark), scene.body().to_string());
        scene.dir.write("config.json", scene.config().to_string());
        scene
    }

    fn config(&self) -> Value {
        json!({"state_dir": self.path("state"), "tools": [
            {"name": "item", "description": "One item", "input": item_schema(),
             "http": {"method": "GET", "url": format!("http://127.0.0.1:{}/{{name}}.json", self.web.port),
                      "query": {"page": "{page}"}, "headers": {"x-mark": "for {name}"}}},
            {"name": "write", "description": "Writes a value to a file",
             "input": {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]},
             "exec": {"argv": ["sh", "-c", r#"printf %s "$1" >"$2"; printf 'wrote %s' "$1""#, "sh", "{value}",
                               self.path("written")]}},
            // Its own time limit lies far beyond the client's patience, so that only the cancel can end it.
            {"name": "hang", "description": "Writes its process id to a file and does not end", "timeout_s": 300,
             "exec": {"argv": ["sh", "-c", r#"echo $$ >"$1"; exec sleep 600"#, "sh", self.path("pid")]}},
            {"name": "talk", "description": "Says something until a file is there", "timeout_s": 300,
             "exec": {"argv": ["sh", "-c", r#"while [ ! -e "$1" ]; do echo line; sleep 0.01; done"#, "sh", self.path("told")]}},
        ]})
    }

    /// The path of a file in the scratch folder, as text.
    fn path(&self, name: &str) -> String {
        self.dir.join(name).into_os_string().into_string().expect("a UTF-8 path")
    }

    /// What the web server has to say of the item; the number is one that a double cannot hold.
    fn body(&self) -> Value {
        json!({"of": self.mark, "number": 9_007_199_254_740_993_u64})
    }

    fn item_step(&self) -> Value {
        json!({"tool": "item", "arguments": {"name": self.mark, "page": 7}})
    }

    fn write_step(&self) -> Value {
        json!({"tool": "write", "arguments": {"value": self.mark}})
    }

    /// The command line of the gateway behind `before`, in a shell that tells its exit code.
    fn server(&self, before: &[&str]) -> Vec<String> {
        let shell = ["/bin/sh", "-c", r#""$@"; echo $? >"$0""#].map(str::to_owned);
        let gateway = [gateway(), "serve".to_owned(), "--config".to_owned(), self.path("config.json")];
        let before = before.iter().map(|word| (*word).to_owned());
        shell.into_iter().chain([self.path("exit")]).chain(before).chain(gateway).collect()
    }

    /// What a client saw that walked through these steps. Nothing but the gateway's closing counters may stand on stderr.
    #[track_caller]
    fn drive(&self, library: &str, mode: &str, server: &[String], steps: &[Value]) -> Value {
        let plan = self.dir.write("plan.json", json!({"server": server, "steps": steps}).to_string());
        let mut command = self.python();
        command.arg(script("drive.py")).args([library, mode]).stdin(File::open(plan).unwrap());
        let (seen, stderr) = run(command);
        let noise: Vec<_> = stderr.lines().filter(|line| !line.starts_with(r#"{"frames_in""#)).collect();
        assert!(noise.is_empty() && !stderr.is_empty(), "{library} {mode}, stderr: {stderr}");
        self.check_exit_code();
        seen
    }

    /// What the command line of `fastmcp` prints.
    #[track_caller]
    fn fastmcp_command(&self, arguments: &[&str]) -> Value {
        let server: Vec<_> = self.server(&[]).iter().map(|word| format!("'{word}'")).collect();
        let mut command = self.python();
        command.args(["-m", "fastmcp.cli"]).args(arguments).args(["--json", "--command", &server.join(" ")]);
        let (seen, _) = run(command);
        self.check_exit_code();
        seen
    }

    fn python(&self) -> Command {
        let mut command = python();
        command.current_dir(self.dir.path()).env("HOME", self.dir.path()).env("FASTMCP_CHECK_FOR_UPDATES", "off");
        command
    }

    #[track_caller]
    fn check_item(&self, seen: &Value) {
        assert_eq!(seen["is_error"], false, "{seen}");
        assert_eq!(seen["structured"]["status"], 200, "{seen}");
        assert_eq!(seen["structured"]["body"], self.body(), "{seen}");
        assert!(text_of(seen).contains(&self.mark), "{seen}");
        assert_eq!(seen["outcome"]["executed"], "yes", "{seen}");
    }

    #[track_caller]
    fn check_write(&self, seen: &Value) {
        assert_eq!(seen["is_error"], false, "{seen}");
        assert_eq!(seen["structured"]["exit"], 0, "{seen}");
        assert_eq!(seen["structured"]["stdout"]["text"], format!("wrote {}", self.mark), "{seen}");
        assert_eq!(text_of(seen), format!("wrote {}", self.mark), "{seen}");
        assert_eq!(self.dir.read("written"), self.mark);
    }

    /// The gateway ended cleanly, by itself: the shell lived to tell.
    #[track_caller]
    fn check_exit_code(&self) {
        assert_eq!(self.dir.read("exit"), "0\n", "the gateway's exit code");
        fs::remove_file(self.dir.join("exit")).unwrap();
    }

    /// The web server saw the item's request, as declared, and nothing else.
    #[track_caller]
    fn end(self) {
        let requests = self.web.end();
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert_eq!(requests[0]["line"], format!("GET /{}.json?page=7 HTTP/1.1", self.mark));
        assert_eq!(requests[0]["headers"]["x-mark"], format!("for {}", self.mark));
        assert_eq!(requests[0]["status"], 200);
    }
}

fn item_schema() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string"}, "page": {"type": "integer"}}, "required": ["name"],
           "additionalProperties": false})
}

fn status_step() -> Value {
    json!({"tool": "tidegate_status", "arguments": {}})
}

fn names(tools: &Value) -> Vec<&str> {
    tools.as_array().expect("a list of tools").iter().map(|tool| tool["name"].as_str().expect("a name")).collect()
}

/// The one content block of a result.
fn text_of(seen: &Value) -> &str {
    match seen["text"].as_array().map(Vec::as_slice) {
        Some([Value::String(text)]) => text,
        _ => panic!("one text block expected: {seen}"),
    }
}

/// A real web server, in a process of its own that ends with its stdin.
struct Web {
    child: Child,
    lines: BufReader<ChildStdout>,
    port: u16,
}

impl Web {
    fn start(folder: &Path) -> Web {
        let mut command = python();
        command.arg(script("web.py")).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the web server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut port = String::new();
        lines.read_line(&mut port).unwrap();
        Web { child, lines, port: port.trim().parse().expect("a port") }
    }

    /// Every request it got.
    fn end(mut self) -> Vec<Value> {
        drop(self.child.stdin.take());
        let requests = self.lines.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        assert!(self.child.wait().unwrap().success());
        requests
    }
}

/// The program that is the server.
fn gateway() -> String {
    let gateway = std::env::var("TIDEGATE_INSTALLED").unwrap_or_else(|_| env!("CARGO_BIN_EXE_tidegate").to_owned());
    assert!(Path::new(&gateway).is_file(), "no gateway at {gateway}: run `make test`");
    gateway
}

/// The interpreter that has the clients, with next to no environment.
fn python() -> Command {
    bare(&installed(".venv/bin/python"))
}

/// A program that `make deps` has put below the project's root.
fn installed(path: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    assert!(program.exists(), "{path} is missing: run `make deps`");
    program
}

/// A program with next to no environment.
fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").stdin(Stdio::null());
    command
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// The JSON value that a command prints, and its stderr.
#[track_caller]
fn run(mut command: Command) -> (Value, String) {
    let output = command.output().expect("the program starts");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", output.status);
    let seen = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{command:?}: {error} in {stdout:?}\n{stderr}"));
    (seen, stderr)
}
