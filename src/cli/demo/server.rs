//! A loopback HTTP/1.1 server that knows one key and keeps what it saw.
//!
//! One request a connection, one connection at a time. It sends the authorization it got back to the caller, as careless
//! servers do. It listens on 127.0.0.1 only, takes bounded heads, and ends when its owner does.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cli::demo::Fault;
use crate::cli::demo::wait::PATIENCE;
use crate::sys::{self, Poll};
use crate::thread::{self, Thread};

/// A request head longer than this is not the gateway's.
const HEAD_BYTES: usize = 16 << 10;

/// One request, as it reached the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// `GET /whoami HTTP/1.1`
    pub(super) line: String,
    /// The value of `authorization`, if there was one.
    pub(super) authorization: Option<String>,
}

/// The running server. Dropping it ends and joins it.
pub(super) struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    // The order of these two matters: closing `stop` is what ends the thread that is joined next.
    _stop: PipeWriter,
    _thread: Thread,
}

impl Server {
    /// Serves on a free port of 127.0.0.1; whoever brings `key` as a bearer token is welcome.
    pub(super) fn start(key: &str) -> Result<Self, Fault> {
        let start = || {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            let (stopped, stop) = io::pipe()?;
            let (seen, expected) = (Arc::new(Mutex::new(Vec::new())), format!("Bearer {key}"));
            let keeper = seen.clone();
            let thread = thread::spawn("tg-demo-server", move || serve(&listener, &stopped, &expected, &keeper))?;
            Ok(Server { port, seen, _stop: stop, _thread: thread })
        };
        start().map_err(|error: io::Error| Fault(format!("no HTTP server on 127.0.0.1: {error}")))
    }

    /// The port it listens on.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Every request so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(listener: &TcpListener, stopped: &PipeReader, expected: &str, keeper: &Mutex<Vec<Seen>>) {
    loop {
        let mut fds = [Poll::readable(listener.as_fd()), Poll::readable(stopped.as_fd())];
        if sys::poll(&mut fds, None).is_err() || fds[1].is_ready() {
            return;
        }
        let Ok((mut stream, _)) = listener.accept() else { continue };
        let Some(seen) = read_head(&mut stream, stopped).as_deref().and_then(understand) else { continue };
        let answer = answer(&seen, expected);
        keeper.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        // The caller may have gone; what it asked was seen.
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
        let _ = stream.write_all(answer.as_bytes());
    }
}

/// The bytes up to the empty line; `None` if they do not come in time, are too many, or the server is to end.
fn read_head(stream: &mut TcpStream, stopped: &PipeReader) -> Option<String> {
    stream.set_nonblocking(true).ok()?;
    let (until, mut head, mut chunk) = (Instant::now() + PATIENCE, Vec::new(), [0; 1024]);
    while !head.ends_with(b"\r\n\r\n") {
        let mut fds = [Poll::readable(stream.as_fd()), Poll::readable(stopped.as_fd())];
        sys::poll(&mut fds, Some(until.saturating_duration_since(Instant::now()))).ok()?;
        if fds[1].is_ready() || !fds[0].is_ready() || head.len() > HEAD_BYTES {
            return None;
        }
        match stream.read(&mut chunk) {
            Ok(0) => return None,
            Ok(length) => head.extend_from_slice(&chunk[..length]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return None,
        }
    }
    String::from_utf8(head).ok()
}

fn understand(head: &str) -> Option<Seen> {
    let mut lines = head.split("\r\n");
    let line = lines.next().filter(|line| !line.is_empty())?.to_owned();
    let mut headers = lines.filter_map(|line| line.split_once(':'));
    let authorization = headers.find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    Some(Seen { line, authorization: authorization.map(|(_, value)| value.trim().to_owned()) })
}

fn answer(seen: &Seen, expected: &str) -> String {
    let is_welcome = seen.authorization.as_deref() == Some(expected);
    let (status, hello) = if is_welcome { ("200 OK", "hello, friend") } else { ("401 Unauthorized", "who are you?") };
    let body = serde_json::json!({"hello": hello, "you_sent": {"authorization": seen.authorization}}).to_string();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(server: &Server, head: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[track_caller]
    fn check_answer(authorization: Option<&str>, status: &str) {
        let server = Server::start("the key").unwrap_or_else(|fault| panic!("{fault}"));
        let header = authorization.map_or(String::new(), |value| format!("Authorization: {value}\r\n"));
        let answer = ask(&server, &format!("GET /whoami HTTP/1.1\r\nhost: x\r\n{header}\r\n"));
        assert!(answer.starts_with(status), "{answer}");
        assert!(authorization.is_none_or(|value| answer.contains(value)), "{answer}");
        let line = "GET /whoami HTTP/1.1".to_owned();
        assert_eq!(server.seen(), [Seen { line, authorization: authorization.map(str::to_owned) }]);
    }

    #[test]
    fn only_the_key_is_welcome_and_everything_is_seen_and_sent_back() {
        check_answer(Some("Bearer the key"), "HTTP/1.1 200 OK\r\n");
        check_answer(Some("Bearer the kez"), "HTTP/1.1 401 ");
        check_answer(None, "HTTP/1.1 401 ");
    }

    #[test]
    fn it_ends_while_somebody_is_connected_and_silent() {
        let server = Server::start("the key").unwrap_or_else(|fault| panic!("{fault}"));
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.write_all(b"GET / HT").unwrap();
        drop(server);
        // A reset, or the end: the thread is joined.
        assert!(!stream.read(&mut [0; 8]).is_ok_and(|length| length > 0));
    }
}
