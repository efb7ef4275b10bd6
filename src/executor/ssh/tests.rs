//! The executor against a real sshd.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::testing::{Caller, PATIENCE, Scratch, Server, action, executor, keygen, must, run, secrets, user, wait_closed};
use crate::cancel::{CancelToken, Why};
use crate::executor::credential::Credential;
use crate::outcome::result::{Code, Ended, Executed, Outcome};
use crate::policy::rules::{AtLimit, HostKeyPolicy, HostRule, SshAuth, Tie};
use crate::process::Status;
use crate::process::testing::{Known, Told, peak_kib};
use crate::secret::Secret;
use crate::sys;
use crate::thread;

fn structured(outcome: &Outcome) -> Value {
    serde_json::from_str(outcome.structured.as_deref().unwrap_or_else(|| panic!("{}", outcome.text))).unwrap()
}

#[track_caller]
fn check_failed(outcome: &Outcome, code: Code, executed: Executed, texts: &[&str]) {
    assert_eq!((outcome.code, outcome.executed), (Some(code), executed), "{}", outcome.text);
    texts.iter().for_each(|text| assert!(outcome.text.contains(text), "expected {text:?} in {}", outcome.text));
}

#[track_caller]
fn check_ok(outcome: &Outcome, text: &str) {
    assert_eq!((outcome.code, outcome.text.as_str()), (None, text));
    assert_eq!(outcome.executed, Executed::Yes);
}

#[test]
fn a_command_ends_as_it_says() {
    let server = Server::new();
    let mut caller = Caller::new(&server);
    for tie in [Tie::Stdin, Tie::None] {
        let rule = HostRule { tie, ..server.rule() };
        caller.rule = rule.into();
        check_ok(&caller.run(&["printf", "%s|", "a b", "$HOME;`id`\n", "it's", ""]), "a b|$HOME;`id`\n|it's||");
        let outcome = caller.script("echo out; echo err >&2; exit 3", &[]);
        check_failed(&outcome, Code::TargetError, Executed::Yes, &["exited with status 3\nout\n[stderr]\nerr\n"]);
        for (signal, name) in [("TERM", "TERM"), ("KILL", "KILL"), ("INT", "INT")] {
            let outcome = caller.script("echo before; kill -$1 $$", &[signal]);
            assert_eq!(structured(&outcome)["signal"], name, "{}", outcome.text);
            assert_eq!((outcome.code, &structured(&outcome)["exit"]), (Some(Code::TargetError), &Value::Null));
        }
        check_ok(&caller.run(&["cat"]), "[tidegate: the command exited with status 0 and printed nothing]");
        let outcome = caller.run(&["no-such-program"]);
        check_failed(&outcome, Code::TargetError, Executed::Yes, &["status 127"]);
        let outcome = caller.run(&["printf", r"\377\000\001a"]);
        assert_eq!(structured(&outcome)["stdout"]["not_utf8"], 1);
        let with = crate::action::ssh::SshAction {
            env: vec![("COLOUR".into(), "it's $blue".into())],
            cwd: Some("/usr/bin".into()),
            ..action(&["sh", "-c", "pwd; echo \"$COLOUR\""])
        };
        check_ok(&caller.call(with, PATIENCE, &CancelToken::new().unwrap()), "/usr/bin\nit's $blue\n");
    }
    // Every command of both rounds but the first ran on a session that was there already.
    server.wait_log("Accepted publickey");
    assert_eq!(server.log().matches("Accepted publickey").count(), 2, "{}", server.log());
}

#[test]
fn both_streams_are_drained_at_once_and_memory_is_bounded_r073() {
    let server = Server::new();
    let caller = Caller::new(&server);
    let flood = "yes out | head -c 8000000 & yes err | head -c 8000000 >&2 & wait";
    check_drained(&caller, flood, 8_000_000, 8_000_000);
    let before = peak_kib();
    check_drained(&caller, "head -c 200000000 /dev/zero; echo boom >&2; exit 0", 200_000_000, 5);
    let grown = peak_kib() - before;
    assert!(grown < 24 << 10, "{grown} KiB more");
}

#[track_caller]
fn check_drained(caller: &Caller, script: &str, stdout: u64, stderr: u64) {
    let outcome = caller.script(script, &[]);
    assert_eq!(outcome.code, None, "{}", outcome.text);
    let value = structured(&outcome);
    assert_eq!((&value["stdout"]["bytes"], &value["stderr"]["bytes"]), (&Value::from(stdout), &Value::from(stderr)));
    assert!(outcome.truncated && outcome.text.len() + outcome.structured.unwrap().len() < 40 << 10);
}

const AT_LIMIT: &str = "tidegate told the command to end at its content limit (stop_at_limit); ";

fn call_stopping(caller: &Caller, script: &str, told: &Told) -> Outcome {
    let with = action(&["sh", "-c", script, "sh", &told.path()]);
    caller.call_under(AtLimit::Stop, with, PATIENCE, &CancelToken::new().unwrap())
}

#[track_caller]
fn check_at_limit(outcome: &Outcome, ended: Ended, how: &str) {
    let (value, note) = (structured(outcome), format!("{AT_LIMIT}{how}"));
    assert_eq!((outcome.code, outcome.executed, outcome.ended), (None, Executed::Yes, Some(ended)), "{}", outcome.text);
    assert!(outcome.truncated && value["exit"].is_null() && value.get("signal").is_none(), "{value}");
    assert!(value["notes"][0] == note && outcome.text.contains(&format!("\n[tidegate: {note}]\n")), "{}", outcome.text);
}

#[test]
fn a_flood_is_ended_on_the_host_at_the_limit_r073() {
    let server = Server::new();
    let caller = Caller::new(&server);
    for (script, processes) in [
        (r#"echo $$ > "$1"; exec yes"#, 1),
        (r#"echo $$ > "$1"; exec cat /dev/zero"#, 1),
        (r#"echo $$ > "$1"; exec yes >&2"#, 1),
        (r#"trap "" TERM; echo $$ > "$1"; sleep 300 & echo $! > "$1"; exec yes"#, 2),
    ] {
        let mut told = Told::new();
        let outcome = call_stopping(&caller, script, &told);
        let known: Vec<Known> = (0..processes).map(|_| told.process()).collect();
        assert!(known.iter().all(Known::ends), "the remote command runs on");
        check_at_limit(&outcome, Ended::Dead, "it was ended on the host");
    }
    check_ok(&caller.run(&["echo", "next"]), "next\n");
    assert_eq!(server.log().matches("Accepted publickey").count(), 1, "one session served them all");
}

#[test]
fn one_that_ends_by_itself_says_how_whatever_its_output_r073() {
    let server = Server::new();
    let caller = Caller::new(&server);
    let (told, limit) = (Told::new(), crate::limits::CONTENT_BYTES);
    let fits = format!("head -c {limit} /dev/zero; head -c {limit} /dev/zero >&2; exit 3");
    let outcome = call_stopping(&caller, &fits, &told);
    assert_eq!((outcome.code, outcome.bytes, outcome.ended), (Some(Code::TargetError), 2 * limit as u64, None));
    assert_eq!(structured(&outcome)["exit"], 3);
    // What floods in the place of a command that has ended is not read without end.
    let left = "p=$$; (while kill -0 $p; do sleep 0.01; done 2>/dev/null; exec yes) & exit 4";
    let outcome = call_stopping(&caller, left, &told);
    let note = "its output was still open 3s after the command had ended";
    check_failed(&outcome, Code::TargetError, Executed::Yes, &["status 4", note]);
    check_ok(&caller.run(&["echo", "next"]), "next\n");
}

#[test]
fn without_the_tie_a_flood_is_let_go_at_the_limit_r073() {
    let server = Server::new();
    let caller = Caller::of(HostRule { tie: Tie::None, ..server.rule() }, server.secret("id"));
    let mut told = Told::new();
    let outcome = call_stopping(&caller, r#"echo $$ > "$1"; exec yes"#, &told);
    check_at_limit(&outcome, Ended::Detached, "the connection was cut; without `tie` it may still run on the host");
    // Nobody reads it any more.
    assert!(told.process().ends());
}

/// A flood that the watcher cannot reach, so that it is being ended for the whole of 1.5 s; the command tells when that begins.
const ESCAPED: &str = r#"trap 'echo $$ > "$1"' TERM; setsid yes & while :; do sleep 0.01; done"#;

#[test]
fn while_it_is_ended_at_its_limit_cancel_and_deadline_count() {
    let server = Server::new();
    let caller = Caller::new(&server);
    let (mut told, token) = (Told::new(), CancelToken::new().unwrap());
    let with = action(&["sh", "-c", ESCAPED, "sh", &told.path()]);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| caller.call_under(AtLimit::Stop, with.clone(), PATIENCE, &token));
        told.line();
        token.cancel(Why::Client);
        let outcome = call.join().unwrap();
        check_failed(&outcome, Code::Cancelled, Executed::Yes, &["the call was cancelled; the command had begun"]);
        assert_eq!(outcome.ended, Some(Ended::Detached));
    });
    check_ok(&caller.run(&["echo", "warm"]), "warm\n");
    let timeout = Duration::from_millis(1300);
    let outcome = caller.call_under(AtLimit::Stop, with.clone(), timeout, &CancelToken::new().unwrap());
    check_failed(&outcome, Code::TimedOut, Executed::Yes, &["had not finished after 1.3s"]);
    let outcome = caller.call_under(AtLimit::Stop, with, PATIENCE, &CancelToken::new().unwrap());
    let how = "the connection was cut, which ends it on the host; its end was not seen";
    check_at_limit(&outcome, Ended::Detached, how);
}

#[test]
fn the_input_arrives_byte_for_byte() {
    let server = Server::new();
    let mut caller = Caller::new(&server);
    for tie in [Tie::Stdin, Tie::None] {
        caller.rule = HostRule { tie, ..server.rule() }.into();
        for length in [1, 4096, 70_000, 3_000_000] {
            let stdin: Vec<u8> = (0..length).map(|n| (n * 7 % 251) as u8).collect();
            let sum = must_sum(&server, &stdin);
            let with = crate::action::ssh::SshAction { stdin: stdin.clone(), ..action(&["cksum"]) };
            check_ok(&caller.call(with, PATIENCE, &CancelToken::new().unwrap()), &sum);
            let with = crate::action::ssh::SshAction { stdin, ..action(&["cat"]) };
            let echoed = caller.call(with, PATIENCE, &CancelToken::new().unwrap());
            assert_eq!(structured(&echoed)["stdout"]["bytes"], length, "{}", echoed.text);
            // A command that does not read its input is not held up by it.
            let with = crate::action::ssh::SshAction { stdin: vec![b'x'; length], ..action(&["echo", "done"]) };
            check_ok(&caller.call(with, PATIENCE, &CancelToken::new().unwrap()), "done\n");
        }
    }
}

fn must_sum(server: &Server, bytes: &[u8]) -> String {
    fs::write(server.at("input"), bytes).unwrap();
    must(&["sh", "-c", "cksum <\"$1\"", "sh", &server.at("input")], &[])
}

/// A session whose host key is not good: nothing of ours is shown.
#[track_caller]
fn check_refused(server: &Server, rule: HostRule, code: Code, texts: &[&str]) {
    let outcome = Caller::of(rule, server.secret("id")).run(&["true"]);
    check_failed(&outcome, code, Executed::No, texts);
    server.wait_log("[preauth]");
    let log = server.log();
    assert!(!log.contains("userauth-request") && !log.contains("Accepted"), "{log}");
}

#[test]
fn a_host_key_that_is_not_good_ends_it_before_any_login() {
    let server = Server::new();
    let other = Scratch::new();
    let other_key = other.path().join("key").to_str().unwrap().to_owned();
    keygen(&other_key, "ed25519", "");
    let other = fs::read_to_string(other_key + ".pub").unwrap();
    let (name, key) = (format!("[127.0.0.1]:{}", server.port), server.host_key("ed25519"));
    let print = must(&["ssh-keygen", "-lf", &server.at("host_ed25519.pub")], &[]);
    let print = print.split(' ').nth(1).unwrap();
    let rule = server.rule();
    server.know("");
    check_refused(&server, rule.clone(), Code::HostKeyUnknown, &["no key of box (127.0.0.1:", print, "known_hosts"]);
    let missing = HostRule { known_hosts: server.at("absent").into(), ..rule.clone() };
    check_refused(&server, missing, Code::HostKeyUnknown, &["no key of box"]);
    server.know(&format!("\n{name} {other}"));
    check_refused(&server, rule.clone(), Code::HostKeyChanged, &["line 2", print, "knows ssh-ed25519 SHA256:"]);
    check_refused(
        &server,
        HostRule { host_key: HostKeyPolicy::AcceptNew, ..rule.clone() },
        Code::HostKeyChanged,
        &["line 2", print],
    );
    server.know(&format!("{name} {key}\n@revoked * {key}\n"));
    check_refused(&server, rule.clone(), Code::HostKeyChanged, &["line 2", "has revoked"]);
    check_refused(
        &server,
        HostRule { fingerprints: vec![print.into()], ..rule.clone() },
        Code::HostKeyChanged,
        &["line 2", "has revoked"],
    );
    server.know(&format!("@cert-authority * {other}"));
    check_refused(&server, rule.clone(), Code::HostKeyUnknown, &["authority alone (line 1"]);
    let known = server.know(&format!("{name} {key}\n"));
    let wrong = HostRule { fingerprints: vec!["SHA256:AAAA".into()], ..rule.clone() };
    check_refused(&server, wrong, Code::HostKeyChanged, &["none of the pinned keys", print]);
    fs::set_permissions(&known, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    check_refused(&server, rule.clone(), Code::HostKeyUnknown, &["others may write it (mode 0666)"]);
    fs::set_permissions(&known, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    server.know("");
    let pinned = HostRule { fingerprints: vec![print.into()], ..rule };
    check_ok(&Caller::of(pinned, server.secret("id")).run(&["echo", "in"]), "in\n");
}

#[test]
fn a_new_key_is_stored_after_the_login_and_no_sooner() {
    let server = Server::new();
    keygen(&server.at("stranger"), "ed25519", "");
    let known_hosts: PathBuf = server.at("new/known_hosts").into();
    let rule = HostRule { host_key: HostKeyPolicy::AcceptNew, known_hosts: known_hosts.clone(), ..server.rule() };
    let outcome = Caller::of(rule.clone(), server.secret("stranger")).run(&["true"]);
    check_failed(&outcome, Code::AuthFailed, Executed::No, &["publickey", &user()]);
    assert!(!known_hosts.exists());
    check_ok(&Caller::of(rule.clone(), server.secret("id")).run(&["echo", "in"]), "in\n");
    let line = format!("[127.0.0.1]:{} {}\n", server.port, server.host_key("ed25519"));
    assert_eq!(fs::read_to_string(&known_hosts).unwrap(), line);
    let strict = HostRule { host_key: HostKeyPolicy::Strict, ..rule };
    check_ok(&Caller::of(strict, server.secret("id")).run(&["echo", "in"]), "in\n");
    assert_eq!(fs::read_to_string(&known_hosts).unwrap(), line);
}

#[test]
fn every_kind_of_key_logs_in_r078() {
    let server = Server::new();
    let mut caller = Caller::new(&server);
    for kind in ["ed25519", "rsa", "ecdsa"] {
        for (format, passphrase) in
            [("", ""), ("", "correct horse"), ("PEM", ""), ("PEM", "correct horse"), ("PKCS8", "correct horse")]
        {
            if kind == "ed25519" && !format.is_empty() {
                continue;
            }
            let file = format!("{kind}{format}{}", passphrase.len());
            keygen(&server.at(&file), kind, passphrase);
            if !format.is_empty() {
                let path = server.at(&file);
                must(&["ssh-keygen", "-q", "-p", "-m", format, "-f", &path, "-P", passphrase, "-N", passphrase], &[]);
            }
            server.accept(&file);
            // As an environment variable or a careless editor would leave it.
            let text = fs::read_to_string(server.at(&file)).unwrap();
            let mut with = secrets(text.trim_end().as_bytes());
            let secret = |text: &str| Credential::from(Secret::new(text.as_bytes().to_vec()).unwrap());
            with.passphrase = (!passphrase.is_empty()).then(|| secret(passphrase));
            (caller.executor, caller.secrets) = (executor(None), with.clone());
            check_ok(&caller.run(&["echo", &file]), &format!("{file}\n"));
            if !passphrase.is_empty() {
                caller.executor.close();
                caller.secrets.passphrase = None;
                check_failed(&caller.run(&["true"]), Code::AuthFailed, Executed::No, &["is encrypted", "no passphrase"]);
                caller.secrets.passphrase = Some(secret("wrong horse"));
                check_failed(
                    &caller.run(&["true"]),
                    Code::AuthFailed,
                    Executed::No,
                    &["could not be decrypted", "passphrase is wrong"],
                );
            }
        }
    }
    caller.executor = executor(None);
    caller.secrets = secrets(b"this is no key at all");
    check_failed(&caller.run(&["true"]), Code::AuthFailed, Executed::No, &["expected a private key in id"]);
}

#[test]
fn a_certificate_logs_in_where_the_key_alone_does_not() {
    let folder = Scratch::new();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    keygen(&at("authority"), "ed25519", "");
    let server = Server::with(&["ed25519"], &format!("TrustedUserCAKeys {}", at("authority.pub")));
    for kind in ["ed25519", "rsa", "ecdsa"] {
        let key = server.at(&format!("of_{kind}"));
        keygen(&key, kind, "");
        let mut rule = server.rule();
        let outcome = Caller::of(rule.clone(), server.secret(&format!("of_{kind}"))).run(&["true"]);
        check_failed(&outcome, Code::AuthFailed, Executed::No, &["refuses the key (publickey)", "it offers publickey"]);
        must(&["ssh-keygen", "-q", "-s", &at("authority"), "-I", "test", "-n", &user(), &format!("{key}.pub")], &[]);
        let certificate = Some(format!("{key}-cert.pub").into());
        rule.auth = SshAuth::Key { credential: "id".into(), passphrase: None, certificate };
        check_ok(&Caller::of(rule, server.secret(&format!("of_{kind}"))).run(&["echo", kind]), &format!("{kind}\n"));
    }
}

#[test]
fn the_agent_signs_for_the_configured_identity_alone() {
    let server = Server::new();
    let socket = server.at("agent");
    let mut agent = super::testing::start(&["ssh-agent", "-D", "-a", &socket], &[]);
    wait_for_file(agent.stdout.take().unwrap());
    let env = [("SSH_AUTH_SOCK", socket.as_str())];
    for kind in ["ed25519", "rsa", "ecdsa"] {
        let key = server.at(kind);
        keygen(&key, kind, "");
        must(&["ssh-add", "-q", &key], &env);
        let mut rule = server.rule();
        rule.auth = SshAuth::Agent { identity: format!("{key}.pub").into() };
        let mut caller = Caller::of(rule, Default::default());
        caller.executor = executor(Some(socket.clone().into()));
        check_failed(&caller.run(&["true"]), Code::AuthFailed, Executed::No, &["refuses the agent's key (publickey)"]);
        server.accept(kind);
        check_ok(&caller.run(&["echo", kind]), &format!("{kind}\n"));
        caller.executor = executor(Some(socket.clone().into()));
        must(&["ssh-add", "-q", "-d", &key], &env);
        check_failed(&caller.run(&["true"]), Code::AuthFailed, Executed::No, &["does not hold the identity", kind]);
    }
    // A certificate in the agent.
    keygen(&server.at("authority"), "ed25519", "");
    keygen(&server.at("certified"), "rsa", "");
    must(&["ssh-keygen", "-q", "-s", &server.at("authority"), "-I", "t", "-n", &user(), &server.at("certified.pub")], &[]);
    must(&["ssh-add", "-q", &server.at("certified")], &env);
    let authority = fs::read_to_string(server.at("authority.pub")).unwrap();
    fs::write(server.at("authorized_keys"), format!("cert-authority {authority}")).unwrap();
    let mut rule = server.rule();
    rule.auth = SshAuth::Agent { identity: server.at("certified-cert.pub").into() };
    let mut caller = Caller::of(rule, Default::default());
    caller.executor = executor(Some(socket.clone().into()));
    check_ok(&caller.run(&["echo", "certified"]), "certified\n");

    drop(agent);
    caller.executor = executor(Some(socket.into()));
    check_failed(&caller.run(&["true"]), Code::AuthFailed, Executed::No, &["cannot be reached"]);
    caller.executor = executor(None);
    check_failed(&caller.run(&["true"]), Code::AuthFailed, Executed::No, &["SSH_AUTH_SOCK"]);
}

/// ssh-agent says where it listens once it does.
fn wait_for_file(stdout: std::os::fd::OwnedFd) {
    sys::poll(&mut [sys::Poll::readable(stdout.as_fd())], Some(PATIENCE)).unwrap();
}

#[test]
fn an_agent_that_hangs_is_left_by_cancel_and_deadline_r077() {
    let server = Server::new();
    let listener = UnixListener::bind(server.at("agent")).unwrap();
    let mut rule = server.rule();
    rule.auth = SshAuth::Agent { identity: server.at("id.pub").into() };
    let mut caller = Caller::of(rule, Default::default());
    caller.executor = executor(Some(server.at("agent").into()));
    let outcome = caller.call(action(&["true"]), Duration::from_millis(700), &CancelToken::new().unwrap());
    check_failed(&outcome, Code::TimedOut, Executed::No, &["logging in"]);
    let token = CancelToken::new().unwrap();
    let canceller = token.clone();
    std::thread::scope(|scope| {
        let agent = scope.spawn(move || {
            let connections = [listener.accept().unwrap(), listener.accept().unwrap()];
            canceller.cancel(Why::Client);
            connections
        });
        let outcome = caller.call(action(&["true"]), PATIENCE, &token);
        assert_eq!((outcome.code, outcome.executed), (Some(Code::Cancelled), Executed::No), "{}", outcome.text);
        drop(agent.join().unwrap());
    });
}

#[test]
fn a_password_logs_in_once_and_a_wrong_one_is_told() {
    let folder = Scratch::new();
    let shadow = folder.path().join("shadow");
    // Of "correct horse", for nobody's account: it covers the real file for this sshd alone, in a mount namespace of its own.
    let hash = must(&["openssl", "passwd", "-6", "-salt", "salt", "correct horse"], &[]);
    fs::write(&shadow, format!("{}:{}:19000:0:99999:7:::\n", user(), hash.trim())).unwrap();
    let script = "mount --bind \"$0\" /etc/shadow && exec \"$@\"";
    let by = ["unshare", "-m", "sh", "-c", script, shadow.to_str().unwrap()];
    if run(&["unshare", "-m", "mount", "--bind", shadow.to_str().unwrap(), "/etc/shadow"], &[]).0 != Some(Status::Exited(0)) {
        let _ = writeln!(std::io::stderr(), "skipped: password login needs a mount namespace of its own (root)");
        return;
    }
    let server = Server::under(&by, Scratch::new(), &["ed25519"], "PasswordAuthentication yes");
    let rule = HostRule { auth: SshAuth::Password { credential: "word".into() }, ..server.rule() };
    check_ok(&Caller::of(rule.clone(), secrets(b"correct horse")).run(&["echo", "in"]), "in\n");
    let outcome = Caller::of(rule, secrets(b"wrong horse")).run(&["true"]);
    check_failed(&outcome, Code::AuthFailed, Executed::No, &["refuses the password", &user(), "it offers publickey,password"]);
    assert_eq!(server.log().matches("Failed password").count(), 1, "{}", server.log());
}

/// Starts a family of silent processes, lets `end` end the call, and sees all of them gone.
#[track_caller]
fn check_killed(rule: HostRule, server: &Server, how: &str, ended: Ended, end: fn(&CancelToken)) -> Outcome {
    let caller = Caller::of(rule, server.secret("id"));
    let mut told = Told::new();
    let token = CancelToken::new().unwrap();
    let with = action(&[
        "sh",
        "-c",
        &format!("{how} sleep 300 & echo $! > \"$1\"; echo $$ > \"$1\"; while :; do sleep 1; done"),
        "sh",
        &told.path(),
    ]);
    let outcome = std::thread::scope(|scope| {
        let call = scope.spawn(|| caller.call(with, PATIENCE, &token));
        let family = [told.process(), told.process()];
        end(&token);
        let outcome = call.join().unwrap();
        assert!(family.iter().all(Known::ends), "the remote command runs on");
        outcome
    });
    assert_eq!((outcome.executed, outcome.ended), (Executed::Yes, Some(ended)), "{}", outcome.text);
    check_ok(&caller.run(&["echo", "next"]), "next\n");
    outcome
}

#[test]
fn a_cancelled_command_is_gone_from_the_host() {
    let server = Server::new();
    let cancel: fn(&CancelToken) = |token| token.cancel(Why::Client);
    let outcome = check_killed(server.rule(), &server, "", Ended::Dead, cancel);
    assert_eq!(outcome.code, Some(Code::Cancelled));
    check_killed(server.rule(), &server, "trap '' TERM HUP INT;", Ended::Dead, cancel);
}

#[test]
fn a_cut_connection_ends_the_command_on_the_host() {
    let server = Server::new();
    check_killed(server.rule(), &server, "", Ended::Detached, CancelToken::kill_now);
    check_killed(server.rule(), &server, "trap '' TERM HUP INT;", Ended::Detached, CancelToken::kill_now);
}

#[test]
fn at_the_deadline_what_came_is_shown() {
    let server = Server::new();
    let caller = Caller::new(&server);
    let mut told = Told::new();
    let with = action(&[
        "sh",
        "-c",
        "echo $$ > \"$1\"; echo partial; trap 'echo bye; exit 0' TERM; while :; do sleep 0.01; done",
        "sh",
        &told.path(),
    ]);
    let outcome = caller.call(with, Duration::from_millis(1500), &CancelToken::new().unwrap());
    assert!(told.process().ends());
    check_failed(
        &outcome,
        Code::TimedOut,
        Executed::Yes,
        &["had not finished after 1.5s; it was ended on the host", "partial\nbye\n"],
    );
    assert_eq!(outcome.ended, Some(Ended::Dead));
    check_ok(&caller.run(&["echo", "next"]), "next\n");
}

#[test]
fn what_holds_the_output_open_is_not_waited_for() {
    let server = Server::new();
    let caller = Caller::new(&server);
    let mut told = Told::new();
    let outcome = caller.script("sleep 300 & echo $! > \"$1\"; echo started; exit 3", &[&told.path()]);
    let process = told.process();
    assert!(!process.has_ended());
    let note = "started\n[tidegate: its output was still open 3s after the command had ended; later output is not shown]";
    check_failed(&outcome, Code::TargetError, Executed::Yes, &["status 3", note]);
    signal(process.pid);
    check_ok(&caller.run(&["echo", "next"]), "next\n");
}

#[test]
fn without_the_tie_a_cancelled_command_is_let_go() {
    let server = Server::new();
    let rule = HostRule { tie: Tie::None, ..server.rule() };
    let caller = Caller::of(rule, server.secret("id"));
    let (mut told, token) = (Told::new(), CancelToken::new().unwrap());
    let with = action(&["sh", "-c", "echo $$ > \"$1\"; exec sleep 300", "sh", &told.path()]);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| caller.call(with, PATIENCE, &token));
        let process = told.process();
        token.cancel(Why::Client);
        let outcome = call.join().unwrap();
        assert_eq!((outcome.code, outcome.ended), (Some(Code::Cancelled), Some(Ended::Detached)), "{}", outcome.text);
        assert!(outcome.text.contains("may still run"), "{}", outcome.text);
        assert!(!process.has_ended());
        signal(process.pid);
        assert!(process.ends());
    });
}

fn signal(pid: i32) {
    sys::signal_process(sys::open_process(pid).unwrap().as_fd(), sys::Signal::Kill).unwrap();
}

#[test]
fn a_connection_that_breaks_is_another_word_r079() {
    let server = Server::new();
    let caller = Caller::new(&server);
    let mut told = Told::new();
    let with = action(&["sh", "-c", "echo $$ > \"$1\"; echo $PPID > \"$1\"; exec sleep 300", "sh", &told.path()]);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| caller.call(with, PATIENCE, &CancelToken::new().unwrap()));
        let (command, session) = (told.process(), told.process());
        signal(session.pid);
        let outcome = call.join().unwrap();
        check_failed(&outcome, Code::ConnectionLost, Executed::Unknown, &["exit status is unknown", "may still run"]);
        assert!(command.ends());
    });
    check_ok(&caller.run(&["echo", "next"]), "next\n");
}

#[test]
fn a_dead_warm_session_costs_one_new_connection() {
    let server = Server::new();
    let caller = Caller::new(&server);
    let session = caller.script("echo $PPID", &[]).text.trim().parse().unwrap();
    signal(session);
    check_ok(&caller.run(&["echo", "next"]), "next\n");
    server.wait_log_times("Accepted publickey", 2);
    caller.executor.close();
    check_ok(&caller.run(&["echo", "again"]), "again\n");
    server.wait_log_times("Accepted publickey", 3);
}

#[test]
fn what_does_not_answer_or_is_no_ssh_server_is_told_apart() {
    let server = Server::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let rule = HostRule { port, ..server.rule() };
    let caller = Caller::of(rule.clone(), server.secret("id"));
    let outcome = caller.call(action(&["true"]), Duration::from_millis(300), &CancelToken::new().unwrap());
    check_failed(&outcome, Code::TimedOut, Executed::No, &["in the SSH handshake", "box (127.0.0.1:"]);
    let thread = thread::spawn("tg-test", move || {
        drop(listener.accept().unwrap());
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(400)).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        wait_closed(&stream);
    })
    .unwrap();
    let outcome = caller.run(&["true"]);
    check_failed(&outcome, Code::ConnectFailed, Executed::No, &["handshake", "failed"]);
    assert!(thread.join());
    let outcome = caller.run(&["true"]);
    check_failed(&outcome, Code::ConnectFailed, Executed::No, &["no connection to box", "refused"]);
}

#[test]
fn no_algorithm_in_common_is_told_as_that() {
    for more in ["KexAlgorithms diffie-hellman-group1-sha1", "HostKeyAlgorithms ssh-rsa"] {
        let server = Server::with(&["ed25519", "rsa"], more);
        let outcome = Caller::new(&server).run(&["true"]);
        check_failed(&outcome, Code::ConnectFailed, Executed::No, &["no algorithm in common", "rsa-sha2-512"]);
    }
}

#[test]
fn a_server_with_more_keys_shows_the_known_one() {
    let server = Server::with(&["ed25519", "rsa", "ecdsa"], "");
    for kind in ["rsa", "ecdsa", "ed25519"] {
        let rule = server.rule();
        server.know(&format!("[127.0.0.1]:{} {}\n", server.port, server.host_key(kind)));
        check_ok(&Caller::of(rule, server.secret("id")).run(&["echo", kind]), &format!("{kind}\n"));
    }
}

/// One known_hosts file, decided by us and by ssh itself.
#[track_caller]
fn check_as_ssh(server: &Server, file: &str, ours: Option<Code>, ssh: bool) {
    let rule = server.rule();
    let known = server.know(file);
    let port = server.port.to_string();
    let options = ["StrictHostKeyChecking=yes", "BatchMode=yes", "IdentitiesOnly=yes", "GlobalKnownHostsFile=/dev/null"];
    let file_option = format!("UserKnownHostsFile={}", known.display());
    let mut argv = vec!["ssh", "-F", "none", "-i"];
    let id = server.at("id");
    argv.push(&id);
    options.iter().chain([&file_option.as_str()]).for_each(|option| argv.extend(["-o", option]));
    let login = format!("{}@127.0.0.1", rule.user);
    argv.extend(["-p", &port, &login, "true"]);
    let (status, text) = run(&argv, &[]);
    assert_eq!(status == Some(Status::Exited(0)), ssh, "ssh with\n{file}\n{text}");
    let outcome = Caller::of(rule, server.secret("id")).run(&["true"]);
    assert_eq!(outcome.code, ours, "with\n{file}\n{}", outcome.text);
}

#[test]
fn known_hosts_files_are_decided_as_ssh_decides_them() {
    use Code::{HostKeyChanged, HostKeyUnknown};
    let server = Server::with(&["ed25519", "rsa"], "");
    let scratch = Scratch::new();
    let other = scratch.path().join("other").to_str().unwrap().to_owned();
    keygen(&other, "ed25519", "");
    let other = fs::read_to_string(other + ".pub").unwrap().trim().to_owned();
    let (key, rsa, port) = (server.host_key("ed25519"), server.host_key("rsa"), server.port);
    let name = format!("[127.0.0.1]:{port}");
    let hashed = |line: &str| {
        let path = scratch.path().join("hashed").to_str().unwrap().to_owned();
        fs::write(&path, line).unwrap();
        must(&["ssh-keygen", "-H", "-f", &path], &[]);
        fs::read_to_string(path).unwrap()
    };
    let good: &[String] = &[
        format!("{name} {key}\n"),
        format!("{name} {key} a comment\r\n"),
        hashed(&format!("{name} {key}\n")),
        format!("web1,{name},10.0.0.1 {key}\n"),
        format!("[127.0.0.*]:{port} {key}\n"),
        format!("[127.0.0.?]:* {key}\n"),
        format!("* {key}\n"),
        format!("127.0.0.1 {key}\n"),
        format!("garbage\n!!!\n{name} ssh-ed25519 %%%\n{name} {key}\n"),
        format!("# {name} {other}\n\n{name} {key}"),
        format!("{name} {other}\n{name} {key}\n"),
        format!("{name} {rsa}\n"),
        format!("{name} {rsa}\n{name} {key}\n"),
        format!("@cert-authority * {other}\n{name} {key}\n"),
        format!("@revoked * {other}\n{name} {key}\n"),
        format!("  \t {name}\t{key}\n"),
    ];
    good.iter().for_each(|file| check_as_ssh(&server, file, None, true));
    let bad: &[(String, Code)] = &[
        (String::new(), HostKeyUnknown),
        (format!("{name} {other}\n"), HostKeyChanged),
        (hashed(&format!("{name} {other}\n")), HostKeyChanged),
        (format!("[127.0.0.1]:22 {key}\n"), HostKeyUnknown),
        (format!("[127.0.0.1]:{} {key}\n", port ^ 1), HostKeyUnknown),
        (format!("127.0.0.1 {other}\n"), HostKeyUnknown),
        (format!("*,!{name},!127.0.0.1 {key}\n!{name} {key}\n"), HostKeyUnknown),
        (format!("{name} {key}\n@revoked {name} {key}\n"), HostKeyChanged),
        (format!("@revoked * {key}\n{name} {key}\n"), HostKeyChanged),
        (hashed(&format!("{name} {key}\n")) + &format!("@revoked * {key}\n"), HostKeyChanged),
        (format!("@cert-authority {name} {other}\n"), HostKeyUnknown),
        (format!("@cert-authority {name} {other}\n{name} {other}\n"), HostKeyChanged),
        (format!("@marker {name} {key}\n"), HostKeyUnknown),
        (format!("{name} ssh-rsa {}\n", key.split(' ').nth(1).unwrap()), HostKeyUnknown),
        (format!("{name} {}\n", &key[..key.len() - 8]), HostKeyUnknown),
    ];
    bad.iter().for_each(|(file, code)| check_as_ssh(&server, file, Some(*code), false));
    // Where more is refused than by ssh.
    check_as_ssh(&server, &format!("{name} {key}\n@revoked 127.0.0.1 {key}\n"), Some(HostKeyChanged), true);
}

#[test]
fn an_authority_alone_is_refused_where_ssh_would_accept_its_certificate() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    keygen(&at("authority"), "ed25519", "");
    keygen(&at("host_ed25519"), "ed25519", "");
    must(&["ssh-keygen", "-q", "-s", &at("authority"), "-I", "t", "-h", "-n", "127.0.0.1", &at("host_ed25519.pub")], &[]);
    let authority = fs::read_to_string(at("authority.pub")).unwrap().trim().to_owned();
    let certificate = at("host_ed25519-cert.pub");
    let more = format!("HostKey {}\nHostCertificate {certificate}", at("host_ed25519"));
    let server = Server::with(&["rsa"], &more);
    fs::copy(at("host_ed25519.pub"), server.at("host_ed25519.pub")).unwrap();
    let (name, key) = (format!("[127.0.0.1]:{}", server.port), server.host_key("ed25519"));
    check_as_ssh(&server, &format!("{name} {key}\n"), None, true);
    check_as_ssh(&server, &format!("@cert-authority * {authority}\n"), Some(Code::HostKeyUnknown), true);
}

#[test]
fn idle_sessions_are_few_and_of_the_same_terms() {
    let server = Server::new();
    let caller = Caller::new(&server);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| check_ok(&caller.run(&["echo", "in"]), "in\n"))).collect();
        calls.into_iter().for_each(|call| call.join().unwrap());
    });
    let other = HostRule { user: "nobody-here".into(), ..server.rule() };
    let outcome = Caller { executor: executor(None), rule: other.into(), secrets: server.secret("id") }.run(&["true"]);
    check_failed(&outcome, Code::AuthFailed, Executed::No, &["nobody-here"]);
    let begin = Instant::now();
    for _ in 0..3 {
        check_ok(&caller.run(&["echo", "in"]), "in\n");
    }
    assert!(begin.elapsed() < PATIENCE);
    assert!(server.log().matches("Accepted publickey").count() <= 4, "{}", server.log());
}
