//! SSH tools against a real sshd: what it logged, what its commands did, and what is left of them.
#![cfg(feature = "ssh")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::sshd::{Agent, Sshd, keygen};
use crate::kit::{cancel, modern_call, process, unique};

fn remote(name: &str, script: &str) -> Value {
    json!({"name": name, "description": "Runs a script over there",
        "input": {"type": "object", "properties": {"x": {"type": "string"}}},
        "ssh": {"host": "web1", "argv": ["sh", "-c", script, "sh", "{x}"]}})
}

fn gateway(sshd: &Sshd, host: Value, tools: Value) -> Gateway {
    Gateway::new().set("credentials", sshd.credentials()).set("hosts", json!({"web1": host})).set("tools", tools)
}

#[track_caller]
fn check(running: &mut Running, tool: &str, code: &str, executed: &str, says: &str) -> Value {
    let reply = running.ask(&modern_call(format!("\"{}\"", unique()), tool, "{}"));
    let outcome = &reply["result"]["_meta"]["tidegate/outcome"];
    let got = (outcome["code"].as_str().unwrap_or("none"), outcome["executed"].as_str().unwrap());
    assert_eq!(got, (code, executed), "{reply}\n{}", running.story());
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(says), "{says:?} is not in {text:?}");
    reply["result"]["structuredContent"].clone()
}

#[test]
fn a_remote_command_answers_with_its_streams_and_its_end() {
    let sshd = Sshd::start("");
    let tools = json!([
        remote("both", "head -c 8000000 /dev/zero | tr '\\0' o; head -c 8000000 /dev/zero | tr '\\0' e >&2"),
        remote("fails", "echo out; echo err >&2; exit 7"),
        remote("dies", "kill -KILL $$"),
        remote("silent", "true"),
        remote("binary", "head -c 3000 /dev/urandom"),
        remote("flood", "head -c 100000000 /dev/zero"),
    ]);
    let mut running = gateway(&sshd, sshd.host(), tools).start();
    let both = check(&mut running, "both", "none", "yes", "left out");
    assert_eq!((&both["stdout"]["bytes"], &both["stderr"]["bytes"]), (&json!(8_000_000), &json!(8_000_000)));
    let fails = check(&mut running, "fails", "target_error", "yes", "status 7");
    assert_eq!(
        (&fails["exit"], &fails["stdout"]["text"], &fails["stderr"]["text"]),
        (&json!(7), &json!("out\n"), &json!("err\n"))
    );
    let dies = check(&mut running, "dies", "target_error", "yes", "KILL");
    assert_eq!((&dies["exit"], &dies["signal"]), (&Value::Null, &json!("KILL")));
    assert_eq!(check(&mut running, "silent", "none", "yes", "")["exit"], 0);
    assert_eq!(check(&mut running, "binary", "none", "yes", "")["stdout"]["bytes"], 3000);
    assert_eq!(check(&mut running, "flood", "none", "yes", "left out")["stdout"]["bytes"], 100_000_000);
    running.end();
    let log = sshd.log();
    assert_eq!(log.matches("Accepted publickey for").count(), 1, "one warm session served them all: {log}");
    assert!(log.matches("Starting session: command").count() >= 6, "{log}");
}

#[test]
fn a_host_key_is_judged_before_any_secret_is_sent() {
    let sshd = Sshd::start("");
    keygen(sshd.dir().path(), "other", &["ed25519"], "");
    let line = sshd.known_line("host");
    let key = line.split_once(' ').unwrap().1;
    let hashed = sshd.known_hosts("hashed", &line);
    assert!(Command::new("ssh-keygen").args(["-q", "-H", "-f"]).arg(&hashed).output().unwrap().status.success());
    for (name, text, code, says) in [
        ("empty", String::new(), "host_key_unknown", "SHA256:"),
        ("changed", sshd.known_line("other"), "host_key_changed", "SHA256:"),
        ("revoked", format!("{line}@revoked * {key}"), "host_key_changed", "revoked"),
        (
            "authority",
            format!("@cert-authority * {}", sshd.known_line("other").split_once(' ').unwrap().1),
            "host_key_unknown",
            "",
        ),
        ("other_port", format!("[127.0.0.1]:1 {key}"), "host_key_unknown", ""),
        ("negated", format!("*,!127.0.0.1,![127.0.0.1]:{} {key}", sshd.port()), "host_key_unknown", ""),
        ("plain", format!("# a comment\nrubbish\n{line}"), "none", ""),
        ("hashed", fs::read_to_string(&hashed).unwrap(), "none", ""),
        ("wildcard", format!("[127.0.0.*]:{} {key}", sshd.port()), "none", ""),
    ] {
        let mut host = sshd.host();
        host["known_hosts"] = json!(sshd.known_hosts(name, &text));
        let before = sshd.log().len();
        let mut running = gateway(&sshd, host, json!([remote("true", "true")])).says_anything().start();
        let executed = if code == "none" { "yes" } else { "no" };
        check(&mut running, "true", code, executed, says);
        running.end();
        let logged = sshd.log()[before..].to_owned();
        assert_eq!(logged.contains("userauth-request"), code == "none", "{name}: {logged}");
    }
}

#[test]
fn a_new_key_is_accepted_once_and_a_changed_one_never() {
    let sshd = Sshd::start("");
    let mut host = sshd.host();
    let known = sshd.dir().join("fresh_known_hosts");
    host["known_hosts"] = json!(known);
    host["host_key"] = json!("accept-new");
    let mut running = gateway(&sshd, host.clone(), json!([remote("true", "true")])).says_anything().start();
    check(&mut running, "true", "none", "yes", "");
    running.end();
    assert_eq!(fs::read_to_string(&known).unwrap().lines().count(), 1);
    keygen(sshd.dir().path(), "other", &["ed25519"], "");
    fs::write(&known, sshd.known_line("other")).unwrap();
    let mut running = gateway(&sshd, host, json!([remote("true", "true")])).says_anything().start();
    check(&mut running, "true", "host_key_changed", "no", "");
    running.end();
}

#[test]
fn every_way_to_log_in_works_and_says_why_it_fails_r077_r078() {
    let sshd = Sshd::start("MaxAuthTries 3");
    let dir = sshd.dir();
    let mut authorized = fs::read_to_string(dir.join("authorized_keys")).unwrap();
    for (name, kind, passphrase) in [
        ("rsa", &["rsa", "-b", "2048"][..], ""),
        ("ecdsa", &["ecdsa"][..], ""),
        ("encrypted", &["ed25519"][..], "open sesame"),
        ("stranger", &["ed25519"][..], ""),
        ("agent_key", &["ed25519"][..], ""),
        ("decoy", &["ed25519"][..], ""),
    ] {
        keygen(dir.path(), name, kind, passphrase);
        if name != "stranger" {
            authorized += &fs::read_to_string(dir.join(&format!("{name}.pub"))).unwrap();
        }
    }
    fs::write(dir.join("authorized_keys"), authorized).unwrap();
    dir.write("passphrase", "open sesame\n");
    dir.write("wrong", "open barley\n");
    let agent = Agent::start(dir, &["decoy", "agent_key"]);
    let file = |name: &str| json!({"from": {"file": dir.join(name)}});
    let credentials = json!({"rsa": file("rsa"), "ecdsa": file("ecdsa"), "encrypted": file("encrypted"), "stranger": file("stranger"),
        "passphrase": file("passphrase"), "wrong": file("wrong"), "user_key": file("user")});
    for (auth, code, says) in [
        (json!({"key": "user_key"}), "none", ""),
        (json!({"key": "rsa"}), "none", ""),
        (json!({"key": "ecdsa"}), "none", ""),
        (json!({"key": "encrypted", "passphrase": "passphrase"}), "none", ""),
        (json!({"key": "encrypted", "passphrase": "wrong"}), "auth_failed", "passphrase"),
        (json!({"key": "encrypted"}), "auth_failed", "passphrase"),
        (json!({"key": "stranger"}), "auth_failed", "publickey"),
        (json!({"agent": {"identity": dir.join("agent_key.pub")}}), "none", ""),
        (json!({"agent": {"identity": dir.join("stranger.pub")}}), "auth_failed", "agent"),
        (json!({"password": "passphrase"}), "auth_failed", "password"),
    ] {
        let mut host = sshd.host();
        host["auth"] = auth.clone();
        let mut running = Gateway::new()
            .set("credentials", credentials.clone())
            .set("hosts", json!({"web1": host}))
            .set("tools", json!([remote("true", "true")]))
            .env("SSH_AUTH_SOCK", agent.socket.display().to_string())
            .says_anything()
            .start();
        let executed = if code == "none" { "yes" } else { "no" };
        check(&mut running, "true", code, executed, says);
        running.end();
    }
    let log = sshd.log();
    assert!(!log.contains("Too many authentication failures"), "one attempt a call: {log}");
    let decoy = Command::new("ssh-keygen").arg("-lf").arg(dir.join("decoy.pub")).output().unwrap().stdout;
    let decoy = String::from_utf8(decoy).unwrap().split_whitespace().nth(1).unwrap().to_owned();
    assert!(!log.contains(&decoy), "only the configured identity is offered");
}

/// Starts a long command that writes its pid and its child's, and returns both.
#[track_caller]
fn started(running: &mut Running, id: &str, pids: &std::path::Path) -> Vec<u32> {
    let _ = fs::remove_file(pids);
    running.send(&modern_call(id, "long", "{}"));
    process::written(pids).split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// One that floods both streams is read all the time, and ended as soon as one that is silent; what was stored of it goes.
#[test]
fn a_cancel_ends_a_flooding_remote_command_r073() {
    let sshd = Sshd::start("");
    let pids = sshd.dir().join("pids");
    let script = format!("yes out & yes err >&2 & echo $$ $! > {}; wait", pids.display());
    let tools = json!([remote("long", &script), remote("true", "true")]);
    let mut running = gateway(&sshd, sshd.host(), tools).start();
    let remote_pids = started(&mut running, "1", &pids);
    let results = running.dir.join("state").join("results");
    let stored = || fs::read_dir(&results).into_iter().flatten().flatten().count();
    process::until("both streams are stored", || stored() == 2);
    running.send(&cancel(1));
    process::until("the command is gone", || !remote_pids.iter().any(|pid| process::is_alive(*pid)));
    process::until("nothing is stored any more", || stored() == 0);
    check(&mut running, "true", "none", "yes", "");
    let ended = running.end();
    assert!(!String::from_utf8(ended.stdout).unwrap().contains("\"id\":1,"), "a cancelled call is answered");
}

#[test]
fn cancel_time_out_and_a_cut_connection_end_a_silent_remote_command() {
    let sshd = Sshd::start("");
    let pids = sshd.dir().join("pids");
    let script = format!("sleep 600 & echo $$ $! > {}; wait", pids.display());
    let mut timed = remote("timed", &script);
    timed["timeout_s"] = json!(2);
    let tools = json!([remote("long", &script), timed, remote("true", "true")]);
    let mut running = gateway(&sshd, sshd.host(), tools).start();

    let remote_pids = started(&mut running, "1", &pids);
    assert!(remote_pids.iter().all(|pid| process::is_alive(*pid)));
    running.send(&cancel(1));
    process::until("the cancelled command is gone", || !remote_pids.iter().any(|pid| process::is_alive(*pid)));
    check(&mut running, "true", "none", "yes", "");

    let _ = fs::remove_file(&pids);
    check(&mut running, "timed", "timed_out", "yes", "2s");
    let remote_pids: Vec<u32> = process::written(&pids).split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    process::until("the timed out command is gone", || !remote_pids.iter().any(|pid| process::is_alive(*pid)));
    check(&mut running, "true", "none", "yes", "");

    let remote_pids = started(&mut running, "3", &pids);
    for session in sshd.sessions() {
        assert!(Command::new("kill").args(["-KILL", &session.to_string()]).status().unwrap().success());
    }
    let reply = running.reply("3");
    let outcome = &reply["result"]["_meta"]["tidegate/outcome"];
    assert_eq!((&outcome["code"], &outcome["executed"]), (&json!("connection_lost"), &json!("unknown")), "{reply}");
    process::until("the cut off command is gone", || !remote_pids.iter().any(|pid| process::is_alive(*pid)));
    check(&mut running, "true", "none", "yes", "");
    let ended = running.end();
    assert!(ended.rest.iter().all(|message| message["id"] != 1), "a cancelled call is not answered");
}

#[test]
fn a_connection_cut_on_the_way_ends_the_remote_command() {
    let sshd = Sshd::start("ClientAliveInterval 1\nClientAliveCountMax 1");
    let middle = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = middle.local_addr().unwrap().port();
    let target = sshd.port();
    let (cut_tx, cut_rx) = std::sync::mpsc::channel::<()>();
    let relay = std::thread::spawn(move || {
        let near = middle.accept().unwrap().0;
        let far = TcpStream::connect(("127.0.0.1", target)).unwrap();
        let pump = |from: &TcpStream, to: &TcpStream| {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    if to.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
            })
        };
        let pumps = [pump(&near, &far), pump(&far, &near)];
        let _ = cut_rx.recv();
        for stream in [&near, &far] {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        pumps.into_iter().for_each(|pump| pump.join().unwrap());
    });
    let pids = sshd.dir().join("pids");
    let mut host = sshd.host();
    host["port"] = json!(port);
    let known = sshd.known_line("host").replace(&format!(":{target}"), &format!(":{port}"));
    host["known_hosts"] = json!(sshd.known_hosts("relayed", &known));
    let script = format!("sleep 600 & echo $$ $! > {}; wait", pids.display());
    let mut running = gateway(&sshd, host, json!([remote("long", &script)])).start();
    let remote_pids = started(&mut running, "1", &pids);
    cut_tx.send(()).unwrap();
    assert_eq!(running.reply("1")["result"]["_meta"]["tidegate/outcome"]["code"], "connection_lost");
    process::until("the cut off command is gone", || !remote_pids.iter().any(|pid| process::is_alive(*pid)));
    running.end();
    relay.join().unwrap();
}

#[test]
fn a_thousand_texts_arrive_exactly_or_are_refused_r074() {
    let sshd = Sshd::start("");
    let mut show = remote("show", "printf %s \"$1\"");
    show["allow_dash"] = json!(true);
    let mut running = gateway(&sshd, sshd.host(), json!([show])).start();
    let mut seed: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let pieces = [
        "'",
        "\"",
        "\\",
        "$(touch pwned)",
        "`id`",
        ";",
        "|",
        "&",
        "\n",
        "\r",
        "\t",
        " ",
        "-",
        "~",
        "*",
        "é",
        "\u{1F389}",
        "!",
        "a",
        "%s",
        "\u{1}",
        "\u{7f}",
        "#",
        "{x}",
    ];
    let mut refused = 0;
    for number in 0..1000 {
        let text: String = (0..random() % 12).map(|_| pieces[(random() % pieces.len() as u64) as usize]).collect();
        let arguments = json!({"x": text}).to_string();
        let reply = running.ask(&modern_call(number, "show", &arguments));
        let result = &reply["result"];
        if result["_meta"]["tidegate/outcome"]["executed"] == "no" {
            refused += 1;
            continue;
        }
        assert_eq!(result["structuredContent"]["stdout"]["text"], json!(text), "{reply}");
    }
    assert!(refused < 100, "{refused} refused");
    running.end();
}

#[test]
fn an_agent_that_hangs_is_cancelled_and_reaches_no_child() {
    let sshd = Sshd::start("");
    let socket = sshd.dir().join("hanging");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let mut host = sshd.host();
    host["auth"] = json!({"agent": {"identity": sshd.dir().join("user.pub")}});
    let env = json!({"name": "env", "description": "x", "exec": {"argv": ["env"]}});
    let mut running = gateway(&sshd, host, json!([remote("long", "true"), env]))
        .env("SSH_AUTH_SOCK", socket.display().to_string())
        .says_anything()
        .start();
    running.send(&modern_call(1, "long", "{}"));
    let (asked, _) = listener.accept().unwrap();
    running.send(&cancel(1));
    let shown = check(&mut running, "env", "none", "yes", "PATH=");
    assert!(!shown.to_string().contains("SSH_AUTH_SOCK"));
    process::until("the call is gone", || {
        let reply = running.ask(&modern_call("\"again\"", "tidegate_status", "{}"));
        reply["result"]["structuredContent"]["calls_under_way"] == 0
    });
    drop(asked);
    running.end();
}
