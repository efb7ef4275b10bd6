//! Nothing but protocol on the protocol stream of the installed release binary, whatever prints, and no descriptor or byte of
//! it in the hands of a child. Every test reads raw stdout to its end: `wait` checks each byte.

use std::path::PathBuf;

use serde_json::Value;

use crate::kit::gateway::{Gateway, Running};
use crate::kit::installed::{installed, preload_object};
use crate::kit::peer::{Peer, json};
use crate::kit::process::until;
use crate::kit::{MODERN, legacy_call, modern_call};

const SAY: &str = r#"{"name": "say", "description": "Says it", "exec": {"argv": ["echo", "said"]}}"#;

fn gateway() -> Gateway {
    Gateway::of(installed())
}

fn noise() -> [PathBuf; 2] {
    ["noise.c", "println.rs"].map(preload_object)
}

/// A command tool without arguments.
fn command(name: &str, argv: &[&str], content_bytes: usize) -> String {
    let argv = serde_json::to_string(argv).unwrap();
    format!(r#"{{"name": "{name}", "description": "Runs it", "content_bytes": {content_bytes}, "exec": {{"argv": {argv}}}}}"#)
}

/// A tool that fetches `path` of a loopback server.
fn fetch(name: &str, url: &str) -> String {
    format!(r#"{{"name": "{name}", "description": "Fetches it", "http": {{"method": "GET", "url": "{url}/"}}}}"#)
}

fn text(reply: &Value) -> &str {
    reply["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {reply}"))
}

fn said(gateway: &mut Running, id: u32) {
    assert_eq!(text(&gateway.ask(&modern_call(id, "say", "{}"))), "said\n");
}

#[track_caller]
fn check_printed(stderr: &str, what: &[&str]) {
    for line in what {
        assert!(stderr.lines().any(|printed| printed.starts_with(line)), "nothing printed {line:?}:\n{stderr}");
    }
}

#[test]
fn the_libraries_of_these_tests_do_print() {
    let [first, second] = noise();
    let output = std::process::Command::new("/bin/true").env_clear().env("LD_PRELOAD", first).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    let left = ["noise: unload, left in the buffer", "noise: atexit, left in the buffer"];
    check_printed(&stdout, &["noise: load", "noise: load, by puts", "noise: child", "noise: unload", left[0], left[1]]);
    check_printed(&stderr, &["noise: load", "noise: load, by fputs", "noise: child", "noise: unload", "noise: atexit"]);
    let output = std::process::Command::new("/bin/true").env_clear().env("LD_PRELOAD", second).output().unwrap();
    assert_eq!(text(output.stdout).lines().next(), Some("noise: println"));
    assert_eq!(text(output.stderr).lines().next(), Some("noise: eprintln"));
}

#[test]
fn what_a_library_and_its_children_print_stays_off_the_protocol_r001_r003() {
    let peer = Peer::start(|_| json("{}"));
    let local = peer.url().replace("127.0.0.1", "localhost");
    let tools = format!("[{SAY}, {}, {}]", fetch("fetch", &peer.url()), fetch("named", &local));
    let gateway = gateway().tools(&tools).preload(&noise()).says_anything();
    let unloaded = gateway.dir().join("unloaded");
    let mut gateway = gateway.env("NOISE_UNLOAD", unloaded.to_str().unwrap()).start();
    for (id, tool) in ["say", "fetch", "named"].into_iter().enumerate() {
        gateway.ask(&modern_call(id, tool, "{}"));
    }
    gateway.initialize("2025-11-25");
    for (id, tool) in ["say", "fetch", "named"].into_iter().enumerate() {
        gateway.ask(&legacy_call(id, tool, "{}"));
    }
    let ended = gateway.end();
    check_printed(&ended.stderr, &["noise: connect", "noise: connect, by puts", "noise: connect, by fputs", "noise: child"]);
    check_printed(&ended.stderr, &["noise: eprintln, again", "noise: lookup", "noise: write", "noise: println, again"]);
    assert!(unloaded.exists(), "the destructor did not run");
    assert_eq!(peer.connections(), 4);
}

#[test]
fn prints_do_not_get_into_a_reply_of_one_mebibyte_that_is_read_slowly() {
    const LONGEST_ID: usize = 64 << 10;
    let script = r#"head -c 470000 /dev/zero | tr "\0" x"#;
    let tools = format!("[{}]", command("big", &["sh", "-c", script], (1 << 20) - (96 << 10)));
    let mut gateway = gateway().tools(&tools).preload(&noise()).stdout_in_pieces_of(512).says_anything().start();
    for letter in ["a", "b"] {
        let id = format!("\"{}\"", letter.repeat(LONGEST_ID - 2));
        let reply = gateway.ask(&modern_call(&id, "big", "{}"));
        assert_eq!(text(&reply).len(), 470_000);
    }
    let ended = gateway.end();
    let longest = ended.stdout.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap();
    assert!((1_000_000..=1 << 20).contains(&longest), "{longest}");
    check_printed(&ended.stderr, &["noise: write", "noise: println, again"]);
}

#[test]
fn a_panic_costs_one_call_and_says_nothing_on_the_protocol() {
    let peer = Peer::start(|_| json("{}"));
    let tools = format!("[{SAY}, {}]", fetch("fetch", &peer.url()));
    let gateway = gateway().tools(&tools).preload(&[preload_object("noise.c")]).env("NOISE_PANIC", "1");
    let mut gateway = gateway.set("limits", serde_json::json!({"workers": 1})).says_anything().start();
    for id in 0..3 {
        let reply = gateway.ask(&modern_call(id, "fetch", "{}"));
        assert_eq!(reply["result"]["_meta"]["tidegate/outcome"]["code"], "internal", "{reply}");
        assert_eq!(reply["result"]["_meta"]["tidegate/outcome"]["executed"], "unknown", "{reply}");
        assert!(!reply.to_string().contains("unwrap"), "the panic's text is in {reply}");
        said(&mut gateway, 100 + id);
    }
    let stderr = gateway.end().stderr;
    assert_eq!(stderr.matches("a fault of tidegate itself in tg-worker-1 at ").count(), 3, "{stderr}");
    assert!(!stderr.contains("called `Result::unwrap()`"), "the panic's text is in {stderr}");
}

#[test]
fn a_child_that_floods_what_it_inherited_does_not_keep_the_gateway() {
    let peer = Peer::start(|_| json("{}"));
    let tools = format!("[{SAY}, {}]", fetch("fetch", &peer.url()));
    let gateway = gateway().tools(&tools).preload(&[preload_object("noise.c")]).env("NOISE_FLOOD", "1");
    let mut gateway = gateway.stderr_unread().start();
    gateway.ask(&modern_call(1, "fetch", "{}"));
    until("the flood comes", || {
        let status = gateway.ask(&modern_call(2, "tidegate_status", "{}"));
        status["result"]["structuredContent"]["counters"]["stderr_lines_dropped"].as_u64() > Some(1000)
    });
    said(&mut gateway, 3);
    gateway.end();
}

#[test]
fn a_merged_stderr_is_left_alone_and_the_status_says_why() {
    for objects in [&noise()[..], &[]] {
        let mut gateway = gateway().tools(&format!("[{SAY}]")).preload(objects).stderr_merged().start();
        said(&mut gateway, 1);
        gateway.send(r#"{"jsonrpc":"2.0","id":2,"method":"no/such/method"}"#);
        gateway.reply("2");
        gateway.signal("USR1");
        let status = gateway.ask(&modern_call(3, "tidegate_status", "{}"));
        assert_eq!(status["result"]["structuredContent"]["stderr"], "stdout and stderr are the same file", "{status}");
        gateway.end();
    }
}

#[test]
fn a_merged_stderr_still_shows_what_is_no_session() {
    let output = |arguments: &str| {
        let script = format!(r#"exec "$0" {arguments} 2>&1"#);
        let output = std::process::Command::new("sh").args(["-c", &script]).arg(installed()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(output("--version").starts_with("tidegate "));
    assert!(output("--no-such-flag").contains("no-such-flag"));
}

/// Starts the gateway with some of its descriptors closed.
fn with_closed(closed: &str, objects: &[PathBuf]) -> Running {
    let script = format!(r#"exec "$@" {closed}"#);
    gateway().tools(&format!("[{SAY}]")).preload(objects).through(&script).says_anything().start()
}

#[test]
fn descriptors_closed_at_the_start_are_the_null_device() {
    for objects in [&noise()[..], &[]] {
        for closed in ["0<&-", "0<&- 2>&-", "0<&- 1>&-", "0<&- 1>&- 2>&-"] {
            assert_eq!(with_closed(closed, objects).wait().stdout, b"", "{closed}");
        }
        for closed in ["1>&-", "1>&- 2>&-"] {
            let mut gateway = with_closed(closed, objects);
            gateway.send(&modern_call(1, "say", "{}"));
            until("the call is recorded", || gateway.dir.join("state/journal").exists());
            assert_eq!(gateway.end().stdout, b"", "{closed}");
        }
        let mut gateway = with_closed("2>&-", objects);
        said(&mut gateway, 1);
        assert_eq!(gateway.end().stderr, "");
    }
}

#[track_caller]
fn check_unheard(gateway: Gateway) {
    let tool = r#"[{"name": "echo", "description": "Says it", "exec": {"argv": ["echo", "{text}"]},
        "input": {"type": "object", "properties": {"text": {"type": "string", "maxLength": 9}}, "required": ["text"]}}]"#;
    let mut gateway = gateway.tools(tool).set("log", serde_json::json!({"level": "trace"})).start();
    for (id, bytes) in [40_000, 200_000].into_iter().enumerate() {
        let reply = gateway.ask(&modern_call(id, "echo", &format!(r#"{{"text": "{}"}}"#, "x".repeat(bytes))));
        assert_eq!(reply["result"]["_meta"]["tidegate/outcome"]["code"], "bad_arguments", "{reply}");
    }
    for id in 10..2010 {
        gateway.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{}","params":{{{MODERN}}}}}"#, "x".repeat(100)));
        if id % 100 == 0 {
            gateway.signal("USR1");
        }
    }
    for id in 10..2010 {
        assert_eq!(gateway.reply(&id.to_string())["error"]["code"], -32601);
    }
    gateway.send(&modern_call(9999, "echo", r#"{"text": "ok"}"#));
    assert_eq!(text(&gateway.reply("9999")), "ok\n");
    gateway.end();
}

#[test]
fn a_stderr_that_nobody_reads_hangs_nothing_r041() {
    check_unheard(gateway().stderr_unread());
    check_unheard(gateway().stderr_unread().preload(&noise()));
    check_unheard(gateway().stderr_unread().through(r#"head -c 65536 /dev/zero >&2; exec "$@""#));
}

#[test]
fn a_stderr_that_is_closed_hangs_nothing_r041() {
    check_unheard(gateway().stderr_closed());
    check_unheard(gateway().stderr_closed().preload(&noise()));
}

#[test]
fn children_get_three_descriptors_and_a_bare_environment() {
    let descriptors = command("descriptors", &["ls", "-l", "/proc/self/fd"], 4096);
    let environment = command("environment", &["env"], 4096);
    let gateway =
        gateway().tools(&format!("[{descriptors}, {environment}]")).preload(&noise()).env("SECRET", "of the launcher");
    let gateway = gateway.through(r#"exec 7</etc/passwd 8>"$HOME/left" 9<&0; exec "$@""#);
    let mut gateway = gateway.says_anything().start();
    let listed = gateway.ask(&modern_call(1, "descriptors", "{}"));
    let ends: Vec<String> = text(&listed).lines().filter_map(|line| Some(line.split_once(" -> ")?.1.to_owned())).collect();
    // The fourth is the folder that `ls` itself opened.
    assert_eq!(ends.len(), 4, "{listed}");
    assert_eq!(ends[0], "/dev/null");
    assert!(ends[1].starts_with("pipe:") && ends[2].starts_with("pipe:") && ends[1] != ends[2], "{listed}");
    assert!(ends[3].ends_with("/fd"), "{listed}");
    let environment = gateway.ask(&modern_call(2, "environment", "{}"));
    let mut names: Vec<_> = text(&environment).lines().map(|line| line.split('=').next().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["HOME", "LANG", "PATH", "TIDEGATE_CALL"]);
    gateway.end();
}

#[test]
fn children_eat_no_byte_of_the_requests_behind_theirs_r058() {
    for reader in [&["cat"][..], &["head", "-c", "10"], &["sh", "-c", "read line; echo \"$line\""]] {
        let tools = format!("[{SAY}, {}]", command("reads", reader, 4096));
        let mut gateway = gateway().tools(&tools).start();
        let lines: Vec<String> = (1..=4).map(|id| modern_call(id, if id == 1 { "reads" } else { "say" }, "{}")).collect();
        gateway.send_raw((lines.join("\n") + "\n").as_bytes());
        for id in 2..=4 {
            assert_eq!(text(&gateway.reply(&id.to_string())), "said\n");
        }
        assert!(!text(&gateway.reply("1")).contains("jsonrpc"));
        gateway.end();
    }
}

#[test]
fn the_process_cannot_be_looked_into() {
    use std::os::unix::fs::MetadataExt;
    const NOBODY: u32 = 65534;
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let gateway = gateway().env("HOME", "/").says("no configuration");
    let mut gateway = if is_root { gateway.user(NOBODY) } else { gateway }.start();
    gateway.probe();
    // What may not be dumped, traced or read belongs to root in /proc, whoever runs it.
    let owner = std::fs::metadata(format!("/proc/{}/environ", gateway.pid())).unwrap().uid();
    assert_eq!(owner, 0);
    gateway.end();
}
