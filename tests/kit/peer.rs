//! Loopback peers: an HTTP server that a test scripts, and the record of what reached it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate::sys::{self, Poll};

use super::PATIENCE;

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// `GET /path HTTP/1.1`
    pub line: String,
    /// Header lines, names as sent.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Seen {
    /// A header's value, by lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What the server does with a connection once a request has come.
pub enum Answer {
    /// Sends these bytes and closes.
    Bytes(Vec<u8>),
    /// Sends these bytes, keeps the connection and tells when the client closed it.
    Hold(Vec<u8>),
}

/// An answer with a JSON body.
pub fn json(body: &str) -> Answer {
    ok("application/json", body.as_bytes())
}

/// An answer of status 200.
pub fn ok(media_type: &str, body: &[u8]) -> Answer {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    Answer::Bytes([head.as_bytes(), body].concat())
}

/// A loopback HTTP server.
pub struct Peer {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<Mutex<usize>>,
    requested: Receiver<()>,
    closed: Receiver<()>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Script<F> {
    answer: F,
    seen: Arc<Mutex<Vec<Seen>>>,
    requested: Sender<()>,
    closed: Sender<()>,
}

impl Peer {
    /// Serves on a free port; `answer` decides for each request.
    pub fn start(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, connections) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let (requested_tx, requested) = channel();
        let (closed_tx, closed) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let script = Arc::new(Script { answer, seen: seen.clone(), requested: requested_tx, closed: closed_tx });
        let (counted, stopped) = (connections.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut served = Vec::new();
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                *counted.lock().unwrap() += 1;
                let (stream, script) = (stream.unwrap(), script.clone());
                served.push((stream.try_clone().unwrap(), std::thread::spawn(move || script.serve(stream))));
            }
            for (stream, thread) in served {
                let _ = stream.shutdown(Shutdown::Both);
                thread.join().unwrap();
            }
        });
        Peer { port, seen, connections, requested, closed, stop, thread: Some(thread) }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    /// Waits for the next request.
    #[track_caller]
    pub fn wait_for_request(&self) {
        self.requested.recv_timeout(PATIENCE).expect("a request reaches the server");
    }

    /// Waits until a held connection was closed by the client.
    #[track_caller]
    pub fn wait_for_close(&self) {
        self.closed.recv_timeout(PATIENCE).expect("the client closes its connection");
    }
}

impl<F: Fn(&Seen) -> Answer> Script<F> {
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let Some(request) = read_request(&mut reader) else { return };
        let answer = (self.answer)(&request);
        self.seen.lock().unwrap().push(request);
        let mut stream = stream;
        match answer {
            Answer::Bytes(bytes) => {
                let _ = stream.write_all(&bytes);
                let _ = self.requested.send(());
                let _ = stream.shutdown(Shutdown::Write);
            }
            Answer::Hold(bytes) => {
                let _ = stream.write_all(&bytes);
                let _ = self.requested.send(());
                let mut rest = [0; 1024];
                while reader.read(&mut rest).is_ok_and(|count| count > 0) {}
                let _ = self.closed.send(());
            }
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Seen> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        match header.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => break,
        }
    }
    let mut seen = Seen { line: line.trim_end().to_owned(), headers, body: Vec::new() };
    let length = seen.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    seen.body = vec![0; length];
    reader.read_exact(&mut seen.body).ok()?;
    Some(seen)
}

/// A listener that accepts nothing and whose queue is full: whoever connects waits.
pub struct FullListener {
    listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl FullListener {
    /// Listens on a free port and fills the queue.
    pub fn bind() -> FullListener {
        const LONGEST_QUEUE: usize = 5000;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        for _ in 0..LONGEST_QUEUE {
            let stream = sys::connect_start(address).unwrap();
            let mut fds = [Poll::writable(stream.as_fd())];
            // On loopback a connection is made at once or waits for room.
            sys::poll(&mut fds, Some(Duration::from_millis(50))).unwrap();
            if !fds[0].is_ready() {
                return FullListener { listener, _queued: queued };
            }
            queued.push(stream);
        }
        panic!("the queue takes more than {LONGEST_QUEUE} connections");
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
