//! The README's examples are true: its session is run as it stands, its configurations load, its lists are complete.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tidegate::config::Config;
use tidegate::outcome::result::Code;

use crate::kit::dir::Dir;
use crate::kit::gateway::Gateway;

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// The fenced blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let text = readme();
    let fenced = text.split("\n```").filter_map(|block| block.strip_prefix(&format!("{language}\n")));
    fenced.map(str::to_owned).collect()
}

/// Member order of the first, durations aside.
fn settled(line: &str) -> String {
    match line.split_once("\"duration_ms\":") {
        Some((before, after)) => format!("{before}\"duration_ms\":{}", after.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => line.to_owned(),
    }
}

#[test]
fn the_session_runs_as_it_stands() {
    let session = blocks("sh").into_iter().find(|block| block.starts_with("$ cat hello.json")).unwrap();
    let (config, rest) = session.strip_prefix("$ cat hello.json\n").unwrap().split_once("\n$ tidegate serve").unwrap();
    let (input, output) = rest.split_once("<<'END'\n").unwrap().1.split_once("\nEND\n").unwrap();
    let dir = Dir::new();
    let state = dir.join("state").display().to_string();
    let config = dir.write("hello.json", config.replace("/tmp/tidegate-hello", &state));
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["serve", "--config"])
        .arg(config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(format!("{input}\n").as_bytes()).unwrap();
    let got = child.wait_with_output().unwrap();
    assert!(got.status.success());
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(settled).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(std::str::from_utf8(&got.stdout).unwrap()), sorted(output));
}

#[test]
fn its_configurations_load() {
    let configs: Vec<String> = blocks("json").into_iter().filter(|block| block.contains("\"tools\"")).collect();
    assert_eq!(configs.len(), 1);
    for text in configs {
        let config = Config::parse(Path::new("/readme.json"), &text, &|_| None).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.tools.len(), 5);
    }
}

#[test]
fn its_lists_are_complete() {
    let text = readme();
    for code in Code::ALL {
        assert!(text.contains(code.as_str()), "{code}");
    }
    let help = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for exit in
        ["0 clean end", "1 the command's own no", "2 usage", "65 malformed", "70 internal", "74 I/O", "78 configuration"]
    {
        assert!(text.contains(exit) && help.contains(exit), "{exit}");
    }
    assert!(text.lines().count() <= 150);
}

/// "Forgiven on the wire" names two things; their neighbours end the session.
#[test]
fn it_forgives_what_it_says_and_nothing_else() {
    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let ended = |before: &str, after: &str| {
        let gateway = Gateway::new().says("no configuration").says_anything();
        let mut gateway =
            if before.is_empty() && after.bytes().all(|byte| b" \t\r\n".contains(&byte)) { gateway } else { gateway.exit(65) }
                .start();
        gateway.send_raw(format!("{before}{PING}{after}\n").as_bytes());
        let reply = gateway.next();
        assert!(gateway.end().rest.is_empty(), "{before:?} and {after:?} are answered once");
        reply.get("result").is_some()
    };
    assert!(ended("", "") && ended("", "\r") && ended("", "\n \t\r\n\n\r"));
    for (before, after) in
        [("\u{feff}", ""), ("\u{a0}", ""), ("", "\u{b}"), ("", "\0"), ("", ","), ("\u{1e}", ""), ("data: ", "")]
    {
        assert!(!ended(before, after), "forgiven: {before:?} before and {after:?} behind");
    }
}
