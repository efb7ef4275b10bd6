//! The executor against loopback servers: one connection each, scripted by the test.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use serde_json::{Value, json};

use super::*;
use crate::action::http::HttpBody;
use crate::cancel::{CancelToken, Why};
use crate::outcome::result::Code;
use crate::outcome::testing::sinks_with;
use crate::policy::grant::Terms;
use crate::policy::rules::{AtLimit, CredentialRule, Network, Placement};
use crate::secret::{Redactor, Secret};
use crate::sys::{self, Poll};
use crate::thread::{self, Thread};

/// What a return after a cancel or a deadline may take on a busy machine.
const PROMPT: Duration = Duration::from_secs(2);

/// A server for one connection, on a thread of its own.
struct Server {
    address: SocketAddr,
    thread: Thread,
}

fn serve(script: impl FnOnce(TcpStream) + Send + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accept = move || {
        let mut fds = [Poll::readable(listener.as_fd())];
        sys::poll(&mut fds, Some(Duration::from_secs(20))).unwrap();
        assert!(fds[0].is_ready(), "nobody came");
        script(listener.accept().unwrap().0);
    };
    let thread = thread::spawn("tg-test-server", accept).unwrap();
    Server { address, thread }
}

/// Answers one request with `answer` and closes.
fn answering(answer: impl Into<Vec<u8>>) -> Server {
    let answer = answer.into();
    serve(move |mut stream| {
        request(&mut stream);
        stream.write_all(&answer).unwrap();
    })
}

/// Reads one request, with as much body as it announces.
fn request(stream: &mut TcpStream) -> String {
    let mut got = head(stream);
    let length = got.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    got.push_str(&String::from_utf8_lossy(&body));
    got
}

fn head(stream: &mut TcpStream) -> String {
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        got.push(byte[0]);
    }
    String::from_utf8(got).unwrap()
}

/// Reads until the client is gone; what came.
fn until_gone(stream: &mut TcpStream) -> Vec<u8> {
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(amount @ 1..) = stream.read(&mut buffer) {
        got.extend_from_slice(&buffer[..amount]);
    }
    got
}

fn to(address: SocketAddr) -> HttpAction {
    HttpAction {
        method: "GET".into(),
        scheme: Scheme::Http,
        host: address.ip().to_string(),
        port: address.port(),
        path: "/a".into(),
        query: None,
        headers: vec![],
        body: None,
        select: vec![],
    }
}

fn post(address: SocketAddr, bytes: Vec<u8>) -> HttpAction {
    HttpAction { method: "POST".into(), body: Some(HttpBody { media_type: "text/plain".into(), bytes }), ..to(address) }
}

/// One call: everything `run` is given.
struct Call {
    executor: HttpExecutor,
    action: HttpAction,
    credential: Option<(CredentialRule, Secret)>,
    token: CancelToken,
    timeout: Duration,
}

fn call(action: HttpAction) -> Call {
    Call {
        executor: HttpExecutor::new(Networks::default()),
        action,
        credential: None,
        token: CancelToken::new().unwrap(),
        timeout: Duration::from_secs(60),
    }
}

impl Call {
    fn with_credential(mut self, placement: Placement, value: &str) -> Self {
        let secret = Secret::new(value.into()).unwrap_or_else(|_| panic!("a secret of {} bytes", value.len()));
        self.credential = Some((CredentialRule { name: "key".into(), placement, scopes: vec![] }, secret));
        self
    }

    fn run(self) -> Outcome {
        let (rule, secret) = self.credential.unzip();
        let redactor = Redactor::new(secret.iter().map(|secret| ("key".to_owned(), secret)));
        let credential = secret.map(Credential::from);
        let terms = Terms {
            tool: "t".into(),
            rule: "r".into(),
            target: "x".into(),
            credential: rule.map(Arc::new),
            host: None,
            content_bytes: 32 << 10,
            at_limit: AtLimit::Drain,
            timeout: self.timeout,
        };
        let ctx = CallCtx { token: &self.token, deadline: Instant::now() + self.timeout, sinks: sinks_with(redactor) };
        self.executor.run(Authorized::in_test(self.action, terms), credential.as_ref(), &ctx)
    }
}

fn structured(outcome: &Outcome) -> Value {
    serde_json::from_str(outcome.structured.as_deref().expect("content")).unwrap()
}

#[track_caller]
fn check_failure(outcome: &Outcome, code: Code, executed: Executed, text: &str) {
    assert_eq!((outcome.code, outcome.executed), (Some(code), executed), "{}", outcome.text);
    assert!(outcome.text.contains(text), "{}", outcome.text);
}

// What is sent.

#[track_caller]
fn check_request(change: impl FnOnce(&mut HttpAction), expected: &str) {
    let (got_tx, got) = bounded(1);
    let server = serve(move |mut stream| {
        got_tx.send(request(&mut stream)).unwrap();
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    });
    let mut action = to(server.address);
    change(&mut action);
    let outcome = call(action).run();
    assert_eq!(outcome.code, None, "{}", outcome.text);
    assert!(server.thread.join());
    let got = got.recv().unwrap().replace(&server.address.to_string(), "HOST").replace("\r\n", "\n");
    assert_eq!(got, expected);
}

/// The fields every request has.
const OWN: &str = concat!(
    "accept-encoding: identity\nuser-agent: tidegate/",
    env!("CARGO_PKG_VERSION"),
    "\naccept: */*\nhost: HOST\nconnection: close\n"
);

#[test]
fn requests_as_they_leave() {
    check_request(|action| action.query = Some("b=%20".into()), &format!("GET /a?b=%20 HTTP/1.1\n{OWN}\n"));
    let typed = |length: usize| OWN.replacen("user-agent", &format!("content-length: {length}\nuser-agent"), 1);
    check_request(
        |action| *action = post(SocketAddr::new(action.host.parse().unwrap(), action.port), b"hello".to_vec()),
        &format!("POST /a HTTP/1.1\n{}content-type: text/plain\n\nhello", typed(5)),
    );
    check_request(|action| action.method = "PUT".into(), &format!("PUT /a HTTP/1.1\n{}\n", typed(0)));
    check_request(|action| action.method = "PROPFIND".into(), &format!("PROPFIND /a HTTP/1.1\n{OWN}\n"));
    check_request(
        |action| action.headers = vec![("accept".into(), "a/b".into()), ("x-a".into(), "1".into()), ("x-a".into(), "2".into())],
        &format!("GET /a HTTP/1.1\n{}accept: a/b\nx-a: 1\nx-a: 2\n\n", OWN.replace("accept: */*\n", "")),
    );
}

#[test]
fn a_response_is_shown() {
    let server = answering("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n{\"a\": 1}");
    let outcome = call(to(server.address)).run();
    assert_eq!(outcome.text, "HTTP 200 OK, application/json, 8 bytes\n{\"a\":1}");
    assert_eq!((outcome.code, outcome.executed), (None, Executed::Yes));
}

// What comes back.

#[test]
fn a_redirect_is_shown_and_not_followed_r067() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let location = format!("http://{}/", elsewhere.local_addr().unwrap());
    let server = answering(format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"));
    let place = Placement::Header { name: "private-token".into(), prefix: String::new() };
    let outcome = call(to(server.address)).with_credential(place, "s3cret-value").run();
    assert_eq!(outcome.text, format!("HTTP 307 Temporary Redirect, no body\nlocation: {location}"));
    assert_eq!(outcome.code, None);
    elsewhere.set_nonblocking(true).unwrap();
    assert_eq!(elsewhere.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn what_the_target_refuses_is_its_answer() {
    for status in ["401 Unauthorized", "403 Forbidden", "500 Internal Server Error"] {
        let server = answering(format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nno"));
        let outcome = call(to(server.address)).run();
        check_failure(&outcome, Code::TargetError, Executed::Yes, &format!("HTTP {status}, text/plain, 2 bytes\nno"));
    }
}

#[track_caller]
fn check_answer(answer: &str, code: Code, executed: Executed, text: &str) -> Outcome {
    let server = answering(answer.replace('\n', "\r\n"));
    let outcome = call(to(server.address)).run();
    assert!(server.thread.join());
    check_failure(&outcome, code, executed, text);
    outcome
}

#[test]
fn lengths_of_the_peer_are_not_believed_r069() {
    use Code::{ConnectionLost, ResponseMalformed};
    let cut = |answer: &str, code, text: &str, body: &str| {
        let outcome = check_answer(answer, code, Executed::Yes, text);
        assert_eq!(structured(&outcome)["body"], body);
        assert!(outcome.truncated && outcome.text.ends_with(body), "{}", outcome.text);
    };
    cut("HTTP/1.1 200 OK\nContent-Length: 4294967296\n\nhi", ConnectionLost, "incomplete, 2 of 4294967296 bytes", "hi");
    cut("HTTP/1.1 200 OK\nContent-Length: 30\n\ntwelve bytes", ConnectionLost, "incomplete, 12 of 30 bytes", "twelve bytes");
    let chunked = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n4\nabcd\n";
    for bad in ["zz\nabc", "ffffffffffffffffff\nabc"] {
        check_answer(&format!("{chunked}{bad}"), ResponseMalformed, Executed::Yes, "the response is incomplete");
    }
    cut(&format!("{chunked}5\nab"), ConnectionLost, "incomplete, 6 bytes came", "abcdab");
    for head in ["Content-Length: 1\nContent-Length: 2", "Content-Length: -1", "Content-Length: 99999999999999999999999"] {
        check_answer(&format!("HTTP/1.1 200 OK\n{head}\n\nab"), ResponseMalformed, Executed::Unknown, "no HTTP/1.1 response");
    }
}

#[test]
fn what_is_no_http_is_said_to_be() {
    for answer in ["SSH-2.0-OpenSSH_9\n", "HTTP/1.1 200 OK\nserver: demo\u{1b}[2J\n\n", "HTTP/1.1 20 OK\n\n"] {
        let outcome = check_answer(answer, Code::ResponseMalformed, Executed::Unknown, "no HTTP/1.1 response");
        assert!(!outcome.text.contains('\u{1b}'));
    }
    check_answer("HTTP/1.1 200 OK\nx-a: b\n", Code::ConnectionLost, Executed::Unknown, "before a response head was complete");
    check_answer("", Code::ConnectionLost, Executed::Unknown, "waiting for the response head");
}

#[test]
fn a_reset_is_no_end_of_a_body() {
    let server = serve(|mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nabc").unwrap();
        // Closing with the request's body unread resets the connection.
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
    });
    let outcome = call(post(server.address, vec![b'x'; 100_000])).run();
    assert_eq!(outcome.code, Some(Code::ConnectionLost), "{}", outcome.text);
    assert!(outcome.text.contains("reset"), "{}", outcome.text);
}

#[test]
fn an_answer_is_read_although_the_request_was_not() {
    let server = serve(|mut stream| {
        head(&mut stream);
        // Closing with most of the request unread resets the connection under the client's next write.
        stream.write_all(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno").unwrap();
    });
    let outcome = call(post(server.address, vec![b'x'; 32 << 20])).run();
    check_failure(&outcome, Code::TargetError, Executed::Yes, "HTTP 413 Payload Too Large");
}

#[test]
fn header_blocks_have_a_limit() {
    let answer = |header: &str| answering(format!("HTTP/1.1 200 OK\r\n{header}content-length: 2\r\n\r\nok"));
    let large = answer(&format!("x-large: {}\r\nx-small: 1\r\n", "a".repeat(20_000)));
    let outcome = call(to(large.address)).run();
    assert_eq!(outcome.code, None, "{}", outcome.text);
    assert_eq!(structured(&outcome)["headers"], json!({"x-small": "1", "content-length": "2"}));
    assert_eq!(structured(&outcome)["headers_left_out"], 1);

    for bomb in [format!("x: {}\r\n", "a".repeat(crate::limits::HTTP_HEADER_BYTES)), "x: a\r\n".repeat(200)] {
        let outcome = call(to(answer(&bomb).address)).run();
        check_failure(&outcome, Code::ResponseMalformed, Executed::Unknown, "");
    }
}

#[test]
fn a_body_that_floods_is_counted_and_bounded() {
    let server = serve(|mut stream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").unwrap();
        (0..320).for_each(|_| stream.write_all(&[b'x'; 64 << 10]).unwrap());
    });
    let outcome = call(to(server.address)).run();
    assert_eq!((outcome.bytes, outcome.truncated, outcome.code), (20 << 20, true, None));
    assert!(outcome.text.len() < 16 << 10);
}

#[test]
fn an_echoed_credential_is_redacted_across_segments() {
    let server = serve(|mut stream| {
        request(&mut stream);
        stream.set_nodelay(true).unwrap();
        for part in ["HTTP/1.1 200 OK\r\nx-echo: Bearer s3cr", "et-value\r\n\r\nyou sent s3", "cret-va", "lue."] {
            stream.write_all(part.as_bytes()).unwrap();
        }
    });
    let outcome = call(to(server.address)).with_credential(Placement::Bearer, "s3cret-value").run();
    assert_eq!(structured(&outcome)["headers"], json!({"x-echo": "Bearer [redacted:key]"}));
    assert_eq!(structured(&outcome)["body"], "you sent [redacted:key].");
    assert!(outcome.text.ends_with("you sent [redacted:key]."), "{}", outcome.text);
}

// Whom is dialled.

fn fixed(answers: Vec<Vec<SocketAddr>>) -> (Lookup, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    (Arc::new(move |_, _| Ok(answers[count.fetch_add(1, Ordering::SeqCst)].clone())), asked)
}

#[track_caller]
fn check_blocked(host: &str, answer: &str, text: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = answer.split(' ').map(|ip| SocketAddr::new(ip.parse().unwrap(), address.port())).collect();
    let mut call = call(HttpAction { host: host.into(), ..to(address) });
    // One loopback address is open, so that no test has to name one of the outside.
    let open = Network { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), prefix: 32 };
    call.executor = HttpExecutor::new(Networks { ranges: vec![open] }).with_lookup(fixed(vec![answer]).0);
    check_failure(&call.run(), Code::BlockedTarget, Executed::No, text);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn every_address_of_an_answer_must_pass_r065() {
    check_blocked("a.test", "127.0.0.1", "127.0.0.1 is a loopback address");
    check_blocked("a.test", "127.0.0.2 127.0.0.1", "127.0.0.1 is a loopback address");
    check_blocked("a.test", "::ffff:127.0.0.1", "stands for 127.0.0.1");
    check_blocked("localhost.", "127.0.0.1", "loopback");
    check_blocked("localhost", "10.0.0.1", "private");
}

#[test]
fn odd_spellings_of_inside_addresses_are_blocked_r066() {
    for host in [
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "0",
        "2130706433",
        "0x7f.1",
        "127.1",
        "fe80::1%lo",
    ] {
        let outcome = call(HttpAction { host: host.into(), ..to(([127, 0, 0, 1], 9).into()) }).run();
        check_failure(&outcome, Code::BlockedTarget, Executed::No, host);
    }
}

#[test]
fn the_address_that_was_checked_is_the_one_dialled() {
    let server = answering("HTTP/1.1 204 No Content\r\n\r\n");
    let (lookup, asked) = fixed(vec![vec![server.address], vec![([127, 0, 0, 2], 1).into()]]);
    let loopback = Network { address: [127, 0, 0, 1].into(), prefix: 32 };
    let mut call = call(HttpAction { host: "a.test".into(), ..to(server.address) });
    call.executor = HttpExecutor::new(Networks { ranges: vec![loopback] }).with_lookup(lookup);
    let outcome = call.run();
    assert_eq!((outcome.code, outcome.text.as_str()), (None, "HTTP 204 No Content, no body"));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn nobody_at_the_address_and_no_such_name() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check_failure(&call(to(nobody)).run(), Code::ConnectFailed, Executed::No, "refused");
    let mut call = call(HttpAction { host: "a.test".into(), ..to(nobody) });
    call.executor = call.executor.with_lookup(Arc::new(|_, _| Err(std::io::Error::other("no such name"))));
    check_failure(&call.run(), Code::UnknownHost, Executed::No, "a.test could not be resolved: no such name");
}

#[test]
fn without_its_credential_nothing_leaves() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let call = call(to(listener.local_addr().unwrap())).with_credential(Placement::Bearer, "s3cret\r\nx: y");
    check_failure(&call.run(), Code::CredentialUnavailable, Executed::No, "`key`");
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

// How it ends early.

/// Where a call hangs, who it hangs on, and what is said of it.
struct Hang {
    call: Call,
    /// Something is received when the call has come there.
    there: Receiver<()>,
    /// Something is received when the server has seen the client go; never, if it had not seen it come.
    gone: Option<Receiver<()>>,
    phase: &'static str,
    executed: Executed,
    /// What has to live as long as the call.
    _peer: Vec<Box<dyn Send>>,
}

fn hang_in(
    phase: &'static str,
    executed: Executed,
    action: impl FnOnce(SocketAddr) -> HttpAction,
    script: impl FnOnce(&mut TcpStream, &dyn Fn()) + Send + 'static,
) -> Hang {
    let ((there_tx, there), (gone_tx, gone)) = (bounded(1), bounded(1));
    let server = serve(move |mut stream| {
        script(&mut stream, &|| there_tx.send(()).unwrap());
        gone_tx.send(()).unwrap();
    });
    Hang { call: call(action(server.address)), there, gone: Some(gone), phase, executed, _peer: vec![Box::new(server.thread)] }
}

fn hang_in_body(head: &'static str) -> Hang {
    hang_in("reading the response body", Executed::Yes, to, move |stream, there| {
        request(stream);
        stream.write_all(head.as_bytes()).unwrap();
        there();
        until_gone(stream);
    })
}

fn hang_in_head() -> Hang {
    hang_in("waiting for the response head", Executed::Unknown, to, |stream, there| {
        request(stream);
        there();
        until_gone(stream);
    })
}

fn hang_in_handshake() -> Hang {
    let action = |address| HttpAction { scheme: Scheme::Https, ..to(address) };
    hang_in("in the TLS handshake", Executed::No, action, |stream, there| {
        stream.read_exact(&mut [0]).unwrap();
        there();
        until_gone(stream);
    })
}

/// The server takes the connection and nothing of a request larger than any socket buffer.
fn hang_in_sending() -> Hang {
    hang_in(
        "sending the request",
        Executed::Unknown,
        |address| post(address, vec![b'x'; 32 << 20]),
        |stream, there| {
            sys::poll(&mut [Poll::readable(stream.as_fd())], None).unwrap();
            there();
            let mut fds = [Poll::broken(stream.as_fd())];
            sys::poll(&mut fds, Some(PROMPT)).unwrap();
            assert!(fds[0].is_broken(), "the rest of the request was left to the kernel");
        },
    )
}

fn hang_in_lookup() -> Hang {
    let (there_tx, there) = bounded(1);
    let (release, released) = bounded::<()>(0);
    let mut call = call(HttpAction { host: "a.test".into(), ..to(([127, 0, 0, 1], 1).into()) });
    call.executor = call.executor.with_lookup(Arc::new(move |_, _| {
        there_tx.send(()).unwrap();
        let _ = released.recv();
        Ok(vec![])
    }));
    Hang { call, there, gone: None, phase: "resolving a.test", executed: Executed::No, _peer: vec![Box::new(release)] }
}

/// A listener whose backlog is full lets a connection wait for ever.
fn hang_in_connect() -> Hang {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut peer: Vec<Box<dyn Send>> = vec![Box::new(listener)];
    loop {
        let stream = sys::connect_start(address).unwrap();
        let mut fds = [Poll::writable(stream.as_fd())];
        sys::poll(&mut fds, Some(Duration::from_millis(100))).unwrap();
        let full = !fds[0].is_ready();
        peer.push(Box::new(stream));
        if full {
            break;
        }
    }
    let (there_tx, there) = bounded(1);
    there_tx.send(()).unwrap();
    Hang { call: call(to(address)), there, gone: None, phase: "connecting", executed: Executed::No, _peer: peer }
}

const HANGS: [fn() -> Hang; 8] = [
    hang_in_lookup,
    hang_in_connect,
    hang_in_handshake,
    hang_in_sending,
    hang_in_head,
    || hang_in_body("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"),
    || hang_in_body("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"),
    || hang_in_body("HTTP/1.1 200 OK\r\n\r\nabc"),
];

#[test]
fn a_cancel_ends_every_phase_at_once() {
    for hang in HANGS {
        let hang = hang();
        let (token, there, phase) = (hang.call.token.clone(), hang.there, hang.phase);
        let (cancelled_tx, cancelled) = bounded(1);
        let canceller = thread::spawn("tg-test", move || {
            there.recv().unwrap();
            cancelled_tx.send(Instant::now()).unwrap();
            token.cancel(Why::Client);
        });
        let outcome = hang.call.run();
        assert!(cancelled.recv().unwrap().elapsed() < PROMPT, "{phase}");
        assert_eq!(outcome.code, Some(Code::Cancelled), "{phase}: {}", outcome.text);
        // The cancel may come before the client has looked at what the server sent.
        let may_be = [hang.executed, if hang.executed == Executed::Yes { Executed::Unknown } else { hang.executed }];
        assert!(may_be.contains(&outcome.executed), "{phase}: {}", outcome.text);
        assert_eq!(outcome.structured, None, "{phase}");
        if let Some(gone) = hang.gone {
            gone.recv_timeout(PROMPT).expect(phase);
        }
        drop(canceller);
    }
}

#[test]
fn a_deadline_ends_every_phase_and_names_it_r079() {
    for hang in HANGS {
        let mut hang = hang();
        let phase = hang.phase;
        hang.call.timeout = Duration::from_millis(300);
        let begin = Instant::now();
        let outcome = hang.call.run();
        assert!(begin.elapsed() < Duration::from_millis(300) + PROMPT, "{phase}");
        check_failure(&outcome, Code::TimedOut, hang.executed, "the call's time ran out");
        if hang.executed == Executed::Yes {
            assert_eq!(structured(&outcome)["body"], "abc");
            assert!(outcome.text.contains("incomplete, 3"), "{}", outcome.text);
        } else {
            assert!(outcome.text.contains(phase), "{phase}: {}", outcome.text);
        }
        if let Some(gone) = hang.gone {
            gone.recv_timeout(PROMPT).expect(phase);
        }
    }
}

#[test]
fn a_call_cancelled_before_it_began_dials_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let call = call(to(listener.local_addr().unwrap()));
    call.token.cancel(Why::SessionEnd);
    check_failure(&call.run(), Code::Cancelled, Executed::No, "");
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn tls_to_a_port_without_it_says_so() {
    let server = serve(|mut stream| {
        stream.read_exact(&mut [0; 5]).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        until_gone(&mut stream);
    });
    let outcome = call(HttpAction { scheme: Scheme::Https, ..to(server.address) }).run();
    check_failure(&outcome, Code::TlsFailed, Executed::No, "does not speak TLS");
}
