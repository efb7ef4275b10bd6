//! Whatever the installed release binary starts in — environment, configuration, files, descriptors — its stdout holds whole
//! protocol lines or nothing, also when it cannot start, and its stderr says what the operator has to know.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use tidegate::sys::OPEN_NONBLOCKING;

use crate::kit::gateway::{Gateway, Running};
use crate::kit::installed::{installed, preload_object};
use crate::kit::peer::{Peer, json as json_answer};
use crate::kit::process::until;
use crate::kit::schema::check_stdout;
use crate::kit::{MODERN, modern_call};

const SAY: &str = r#"[{"name": "say", "description": "Says it", "exec": {"argv": ["echo", "said"]}}]"#;
const PING: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

fn gateway() -> Gateway {
    Gateway::of(installed())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn said(gateway: &mut Running, id: u32) {
    let reply = gateway.ask(&modern_call(id, "say", "{}"));
    assert_eq!(reply["result"]["content"][0]["text"], "said\n", "{reply}");
}

fn tools(gateway: &mut Running) -> Vec<String> {
    let list = gateway.ask(&format!(r#"{{"jsonrpc":"2.0","id":"list","method":"tools/list","params":{{{MODERN}}}}}"#));
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools in {list}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Starts a command on pipes, sends `input`, closes it and reads both streams to their ends.
fn output(command: &mut Command, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end without having read it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A session with these variables set; on stderr stand the closing counters and the line with each of `told`, nothing else.
#[track_caller]
fn check_variables(variables: &[(&str, &str)], told: &[&str]) {
    let peer = Peer::start(|_| json_answer("{}"));
    let fetch = json!({"name": "fetch", "description": "Fetches it", "http": {"url": format!("{}/", peer.url())}});
    let mut tools: Value = serde_json::from_str(SAY).unwrap();
    tools.as_array_mut().unwrap().push(fetch);
    let gateway = variables.iter().fold(gateway().set("tools", tools), |gateway, (name, value)| gateway.env(name, *value));
    let mut gateway = told.iter().fold(gateway, |gateway, line| gateway.says(line)).exit(65).start();
    gateway.initialize("2025-11-25");
    said(&mut gateway, 1);
    gateway.ask(&modern_call(2, "fetch", "{}"));
    gateway.send("not JSON");
    let ended = gateway.wait();
    assert!(ended.stderr.contains("{\"frames_in\":5,"), "no counters: {}", ended.stderr);
}

#[test]
fn variables_that_make_programs_talk_change_no_byte_of_the_protocol_r001() {
    const CLOSED: &str = "WARN session closed by a line that is no message: not_json";
    check_variables(&[], &[CLOSED]);
    check_variables(&[("RUST_LOG", "trace"), ("RUST_BACKTRACE", "full"), ("RUST_LOG_STYLE", "always")], &[CLOSED]);
    check_variables(&[("RUST_LOG", "ureq=trace,rustls=trace,tidegate=trace,=,;"), ("DEBUG", "*"), ("VERBOSE", "1")], &[CLOSED]);
    check_variables(&[("RUST_LOG", "off")], &[]);
    check_variables(
        &[
            ("SSLKEYLOGFILE", "/dev/stdout"),
            ("SSL_CERT_FILE", "/nowhere/at/all"),
            ("OPENSSL_CONF", "/nowhere/at/all"),
            ("HTTP_PROXY", "http://127.0.0.1:1/"),
            ("http_proxy", "http://127.0.0.1:1/"),
            ("ALL_PROXY", "socks5://127.0.0.1:1/"),
            ("LC_ALL", "no_SUCH.locale"),
            ("TZ", ":/dev/stdout"),
            ("RES_OPTIONS", "debug"),
            ("MALLOC_CHECK_", "3"),
            ("MALLOC_TRACE", "/dev/stdout"),
            ("GLIBC_TUNABLES", "glibc.malloc.check=3"),
            ("GCONV_PATH", "."),
            ("BASH_ENV", "/dev/stdout"),
            ("PYTHONVERBOSE", "1"),
        ],
        &[CLOSED],
    );
}

/// What the loader prints on stderr comes before us and between; what it is asked to print on stdout instead of running the
/// program is beyond any program that it loads.
#[test]
fn what_the_loader_is_told_to_print_stays_on_stderr() {
    for (name, value, printed) in
        [("LD_DEBUG", "all", "calling preinit: "), ("LD_PRELOAD", "/nowhere/at/all.so", "cannot be preloaded")]
    {
        let mut gateway = gateway().tools(SAY).env(name, value).says_anything().start();
        said(&mut gateway, 1);
        let stderr = gateway.end().stderr;
        assert!(stderr.contains(printed) && stderr.contains("{\"frames_in\":1,"), "{name}={value}: {stderr}");
    }
}

#[test]
fn a_healthy_start_says_nothing_on_stderr_r005() {
    let mut gateway = gateway().tools(SAY).start();
    gateway.initialize("2025-11-25");
    said(&mut gateway, 1);
    assert_eq!(gateway.stderr(), "", "the first line is the counters at the end");
    gateway.end();
}

#[test]
fn the_working_directory_configures_nothing_r001() {
    let tempting = format!(r#"{{"tools": {SAY}, "log": {{"level": "trace"}}}}"#);
    let dotenv = "TIDEGATE_CONFIG=config.json\nRUST_LOG=trace\nPATH=.\n";
    let mut seen = Vec::new();
    for is_tempted in [false, true] {
        let gateway = gateway().env("HOME", "/nowhere/at/all").says("no configuration");
        if is_tempted {
            for name in ["config.json", "tidegate.json", ".tidegate.json"] {
                gateway.dir().write(name, &tempting);
            }
            gateway.dir().write(".env", dotenv);
            for folder in ["tidegate", ".config/tidegate", ".tidegate"] {
                std::fs::create_dir_all(gateway.dir().join(folder)).unwrap();
                gateway.dir().write(&format!("{folder}/config.json"), &tempting);
            }
        }
        let mut gateway = gateway.start();
        gateway.initialize("2025-11-25");
        assert_eq!(tools(&mut gateway), ["tidegate_status"]);
        seen.push(gateway.end().stdout);
    }
    assert_eq!(seen[0], seen[1], "a file of the working directory shows on stdout");
}

/// Starts with `--config PATH` and with `$TIDEGATE_CONFIG`, stderr apart and merged: exit 78, no byte on stdout, `told`.
#[track_caller]
fn check_config(make: impl Fn(&Gateway) -> PathBuf, told: &[&str]) {
    for is_variable in [false, true] {
        for is_merged in [false, true] {
            let gateway = gateway().exit(78);
            let path = make(&gateway);
            let gateway = if is_variable {
                gateway.env("TIDEGATE_CONFIG", path.to_str().unwrap())
            } else {
                gateway.args(["--config", path.to_str().unwrap()])
            };
            let gateway = match is_merged {
                true => gateway.stderr_merged(),
                false => told.iter().fold(gateway, |gateway, line| gateway.says(line)),
            };
            let mut gateway = gateway.start();
            gateway.send_ignored(PING);
            let ended = gateway.wait();
            assert_eq!((text(&ended.stdout), ended.stderr.contains("frames_in")), (String::new(), false));
        }
    }
}

#[test]
fn a_configuration_that_cannot_be_used_is_told_on_stderr_alone() {
    let file = |content: &'static [u8], mode: u32| move |gateway: &Gateway| gateway.dir().write_mode("given", content, mode);
    check_config(|gateway| gateway.dir().join("missing"), &["/missing: cannot be opened: No such file"]);
    check_config(|gateway| gateway.dir().path().to_owned(), &["expected a regular file"]);
    check_config(|_| "/dev/stdin".into(), &["/dev/stdin: expected a regular file"]);
    check_config(
        |gateway| {
            let fifo = gateway.dir().join("fifo");
            assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
            fifo
        },
        &["/fifo: expected a regular file"],
    );
    check_config(file(b"{}", 0o666), &["/given: others may write it (mode 0666); run chmod go-w on it"]);
    check_config(file(b"", 0o600), &["/given:1:1: not JSON: EOF"]);
    check_config(file(b"{\"tools\": [", 0o600), &["/given:1:11: not JSON: EOF"]);
    check_config(file(b"{\"tools\": \"\xff\"}", 0o600), &["/given:1:12: expected UTF-8"]);
    check_config(file(b"\xef\xbb\xbf{}", 0o600), &["/given:1:1: "]);
    check_config(|gateway| gateway.dir().write("given", vec![b' '; 5 << 20]), &["/given: larger than 4194304 bytes"]);
    let two = b"{\"tolls\": [],\n \"log\": {\"level\": \"loud\"}}";
    check_config(file(two, 0o600), &["/given:1:2: /tolls: unknown key, nearest is \"tools\"", "/given:2:19: /log/level: "]);
}

#[test]
fn a_configuration_that_may_not_be_read_is_told() {
    const NOBODY: u32 = 65534;
    let gateway = gateway();
    let path = gateway.dir().write_mode("given", "{}", 0o000);
    // Root reads everything; for anybody else our folder is closed.
    let gateway = if is_root() { gateway.user(NOBODY) } else { gateway };
    let gateway = gateway.env("TIDEGATE_CONFIG", path.to_str().unwrap()).exit(78);
    let ended = gateway.says("/given: cannot be opened: Permission denied").start().wait();
    assert_eq!(text(&ended.stdout), "");
}

#[test]
fn a_relative_configuration_from_the_environment_is_refused() {
    let gateway = gateway().env("TIDEGATE_CONFIG", "config.json").exit(78);
    gateway.dir().write("config.json", "{}");
    let ended = gateway.says("TIDEGATE_CONFIG: expected an absolute path, got \"config.json\"").start().wait();
    assert_eq!(text(&ended.stdout), "");
}

#[test]
fn a_wrong_command_line_says_nothing_on_stdout() {
    for (arguments, told) in [
        (&["serve", "--cfg", "x"][..], "serve knows no flag \"--cfg\""),
        (&["serve", "--config"], "--config"),
        (&["serve", "x"], "serve takes no argument, got \"x\""),
        (&["serve", "--record", "x"], "--record needs --dry-run"),
        (&["sevre"], "unknown command \"sevre\""),
        (&[], "a command is missing"),
    ] {
        let output = output(Command::new(installed()).args(arguments).env_clear(), PING);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{arguments:?}");
        assert!(text(&output.stderr).contains(told), "{arguments:?}: {}", text(&output.stderr));
    }
}

/// With no variable at all, from an empty folder: HOME and PATH are what hosts may forget.
#[test]
fn it_starts_and_lists_its_tools_without_any_variable_r085() {
    let mut gateway = gateway().tools(SAY).through(r#"cd "$HOME" && shift && exec env -i "$@""#).start();
    gateway.initialize("2025-11-25");
    assert_eq!(tools(&mut gateway), ["say", "read_result", "tidegate_status"]);
    said(&mut gateway, 1);
    gateway.end();
}

#[test]
fn a_state_folder_that_cannot_be_made_costs_the_calls_and_not_the_start() {
    let gateway = gateway().tools(SAY).set("state_dir", json!("/dev/null/state"));
    let mut gateway = gateway.start();
    gateway.initialize("2025-11-25");
    assert_eq!(tools(&mut gateway), ["say", "read_result", "tidegate_status"]);
    let reply = gateway.ask(&modern_call(1, "say", "{}"));
    assert_eq!(reply["result"]["_meta"]["tidegate/outcome"]["code"], "journal_unavailable", "{reply}");
    assert_eq!(reply["result"]["_meta"]["tidegate/outcome"]["executed"], "no", "{reply}");
    gateway.probe();
    assert!(gateway.end().stderr.contains(r#""executions":{"journal_unavailable":1}"#));
}

#[track_caller]
fn check_not_started(gateway: Gateway, exit: i32, told: &str) {
    let mut gateway = gateway.exit(exit).says(told).start();
    gateway.send_ignored(PING);
    assert_eq!(text(&gateway.wait().stdout), "");
}

/// A log file and a record file that cannot be opened, are a FIFO nobody reads, or are the protocol stream by another name.
#[test]
fn a_file_that_cannot_be_written_beside_the_protocol_ends_the_start() {
    let log = |file: PathBuf| gateway().tools(SAY).set("log", json!({"file": file}));
    let record = |file: PathBuf| gateway().tools(SAY).args(["--dry-run", "--record", file.to_str().unwrap()]);
    for (with_file, exit, what) in [
        (&log as &dyn Fn(PathBuf) -> Gateway, 78, "the log file cannot be opened: "),
        (&record, 74, "the record of the dry run cannot be opened: "),
    ] {
        check_not_started(with_file("/nowhere/at/all".into()), exit, &format!("{what}No such file or directory"));
        check_not_started(with_file("/dev".into()), exit, &format!("{what}Is a directory"));
        let gateway = with_file("/dev/stdin".into());
        let fifo = gateway.dir().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        check_not_started(with_file(fifo), exit, &format!("{what}No such device or address"));
        // The descriptors it keeps the real stdin and stdout in have numbers that can be guessed.
        let refused = (3..=8).filter(|number| {
            let mut gateway = with_file(format!("/dev/fd/{number}").into()).says_anything();
            let output = output(&mut gateway.command(), PING);
            check_stdout(&output.stdout).unwrap_or_else(|problem| panic!("{problem}"));
            text(&output.stderr).contains("it is stdin or stdout itself")
        });
        assert!(refused.count() >= 1, "the protocol stream was found under no number");
        let gateway = with_file("same".into());
        let same = gateway.dir().join("same");
        let gateway = with_file(same.clone()).through(&format!(r#"exec "$@" >{}"#, same.display()));
        check_not_started(gateway, exit, &format!("{what}it is stdin or stdout itself"));
        drop(same);
    }
}

#[test]
fn a_record_on_stdout_is_an_operator_line() {
    for path in ["/dev/stdout", "/dev/stderr", "/proc/self/fd/1"] {
        let gateway = gateway().tools(SAY).args(["--dry-run", "--record", path]).says(r#"{"tool":"say""#);
        let mut gateway = gateway.start();
        gateway.ask(&modern_call(1, "say", "{}"));
        gateway.end();
    }
}

#[test]
fn a_full_log_file_is_told_once_and_costs_nothing() {
    let gateway = gateway().tools(SAY).set("log", json!({"file": "/dev/full"}));
    let gateway = gateway.says("the log file cannot be written: No space left on device").says("at work").says("at work");
    let mut gateway = gateway.start();
    gateway.probe();
    for id in 0..2 {
        gateway.signal("HUP");
        until("the operator is told", || gateway.stderr().matches("the configuration is at work").count() == id + 1);
        said(&mut gateway, u32::try_from(id).unwrap());
    }
    gateway.end();
}

/// What a launcher prints around a gateway that it does not become is its own noise: it stands before and after whole lines.
#[test]
fn a_wrapper_that_prints_before_and_after_leaves_our_lines_whole() {
    for script in [
        r#"echo before; echo before >&2; "$@"; code=$?; echo after; echo after >&2; exit $code"#,
        r#"printf 'before\n'; "$@" 2>&1; code=$?; echo after; exit $code"#,
        r#"echo before; (sleep 0; echo beside >&2) & "$@" 2>/dev/null; code=$?; echo after; exit $code"#,
    ] {
        let mut gateway = gateway().tools(SAY).through(script);
        let input = format!("{}\n{}\nnot JSON\n", modern_call(1, "say", "{}"), modern_call(2, "say", "{}"));
        let output = output(&mut gateway.command(), &input);
        assert_eq!(output.status.code(), Some(65), "{script}");
        let stdout = text(&output.stdout);
        let ours = stdout.strip_prefix("before\n").and_then(|rest| rest.strip_suffix("after\n"));
        let ours = ours.unwrap_or_else(|| panic!("{script}: {stdout}"));
        check_stdout(ours.as_bytes()).unwrap_or_else(|problem| panic!("{script}: {problem}"));
        assert_eq!(ours.lines().count(), 3, "{script}: {ours}");
    }
}

#[test]
fn a_failing_start_behind_a_wrapper_leaves_its_lines_alone() {
    let mut gateway = gateway().set("tolls", json!([])).through(r#"echo before; "$@" 2>&1; echo "after $?""#);
    let output = output(&mut gateway.command(), PING);
    assert_eq!(text(&output.stdout), "before\nafter 78\n");
}

/// The commands of a tool may print whatever looks like a message: it is text of their result.
#[test]
fn what_a_command_prints_is_never_a_line_of_its_own_r002() {
    const LINES: &str =
        r#"{"status":200,"message":"ok"}\n{"jsonrpc":"2.0","id":2,"result":{}}\n{"level":30,"id":1,"msg":"x"}\n"#;
    let gateway = gateway().says_anything();
    let script = format!("printf '{LINES}'; printf '{LINES}' >&2; (printf '{LINES}' >/proc/$PPID/fd/1) 2>&-; :");
    let script = gateway.dir().write("script", script);
    let print = json!([{"name": "print", "description": "Prints it", "exec": {"argv": ["sh", script]}}]);
    let mut gateway = gateway.set("tools", print).start();
    let reply = gateway.ask(&modern_call(1, "print", "{}"));
    let shown = &reply["result"]["structuredContent"];
    assert_eq!(
        (&shown["stdout"]["bytes"], &shown["stderr"]["text"]),
        (&json!(LINES.len() - 3), &json!(LINES.replace("\\n", "\n")))
    );
    assert_eq!(gateway.probe(), [Value::Null; 0], "a message of the command's came out");
    let ended = gateway.end();
    assert_eq!(ended.stdout.split(|byte| *byte == b'\n').count(), 3, "two lines and the end");
}

/// A library that prints when a connection fails, and a child of the process that prints once the session has idled: both
/// are operator lines, and the next request is answered as the first.
#[test]
fn noise_at_the_first_failure_and_after_idling_stays_off_the_protocol_r003() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut tools: Value = serde_json::from_str(SAY).unwrap();
    let fetch = json!({"name": "fetch", "description": "Fetches it", "http": {"url": format!("http://{closed}/")}});
    tools.as_array_mut().unwrap().push(fetch);
    let gateway = gateway().set("tools", tools).preload(&[preload_object("noise.c")]).says_anything();
    let fifo = gateway.dir().join("later");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut gateway = gateway.env("NOISE_LATER", fifo.to_str().unwrap()).start();
    said(&mut gateway, 1);
    let reply = gateway.ask(&modern_call(2, "fetch", "{}"));
    assert_eq!(reply["result"]["_meta"]["tidegate/outcome"]["code"], "connect_failed", "{reply}");
    gateway.probe();
    let mut later = None;
    until("somebody waits for the noise", || {
        later = std::fs::File::options().write(true).custom_flags(OPEN_NONBLOCKING).open(&fifo).ok();
        later.is_some()
    });
    later.unwrap().write_all(b"noise: later\n").unwrap();
    until("the noise came", || gateway.stderr().matches("noise: later").count() == 2);
    said(&mut gateway, 3);
    let stderr = gateway.end().stderr;
    assert!(stderr.contains("noise: connect\n"), "{stderr}");
}

#[test]
fn sockets_and_files_are_as_good_as_pipes() {
    let mut gateway = gateway().tools(SAY);
    let (input, out) = (gateway.dir().write("in", modern_call(1, "say", "{}") + "\n"), gateway.dir().join("out"));
    let script = format!(r#"exec "$@" <{} >{} 2>{}"#, input.display(), out.display(), gateway.dir().join("err").display());
    gateway = gateway.through(&script);
    let output = output(&mut gateway.command(), "");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    let written = std::fs::read(out).unwrap();
    check_stdout(&written).unwrap_or_else(|problem| panic!("{problem}"));
    assert!(text(&written).contains("said"), "{}", text(&written));
    assert!(gateway.dir().read("err").starts_with("{\"frames_in\":1,"), "{}", gateway.dir().read("err"));

    let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = gateway_command();
    let far = std::os::fd::OwnedFd::from(far);
    let child = command.0.stdin(far.try_clone().unwrap()).stdout(far).stderr(Stdio::piped()).spawn();
    drop(command.0);
    near.write_all(format!("{}\n", modern_call(1, "say", "{}")).as_bytes()).unwrap();
    near.shutdown(std::net::Shutdown::Write).unwrap();
    let mut written = Vec::new();
    near.read_to_end(&mut written).unwrap();
    check_stdout(&written).unwrap_or_else(|problem| panic!("{problem}"));
    assert!(text(&written).contains("said"), "{}", text(&written));
    assert_eq!(child.unwrap().wait_with_output().unwrap().status.code(), Some(0));
}

fn gateway_command() -> (Command, Gateway) {
    let mut gateway = gateway().tools(SAY);
    (gateway.command(), gateway)
}
