//! The socket as peers of every kind see it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::*;
use crate::approval::operator::testing::{StateDir, Table, question, sockets};
use crate::limits::APPROVAL_REQUEST_BYTES;
use crate::sys::user_id;

/// A test that waits longer has failed; none that passes does.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of peers that are to be closed because they say nothing.
const SHORT: Duration = Duration::from_millis(100);

const LIST: &str = "{\"do\":\"list\"}\n";
const DONE: &str = "{\"done\":true}\n";
const NONE_OPEN: &str = "{\"error\":\"no such question is open\"}\n";

fn start_with(dir: &StateDir, table: &Arc<Table>, wait: Duration) -> Operator {
    Operator::start_with(&dir.0, vec![user_id()], table.clone(), wait).unwrap()
}

/// With peers that have all the time a test has.
fn start(dir: &StateDir, table: &Arc<Table>) -> Operator {
    start_with(dir, table, PATIENCE)
}

/// The only socket of a folder.
fn socket(dir: &StateDir) -> std::path::PathBuf {
    let [path] = <[_; 1]>::try_from(sockets(&dir.0)).unwrap();
    path
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What a gateway says until it closes.
fn heard(mut stream: &UnixStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        // What was said and not read is lost with the connection, what was answered is not.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    String::from_utf8(bytes).unwrap()
}

fn asked(path: &Path, request: &[u8]) -> String {
    let mut stream = connect(path);
    stream.write_all(request).unwrap();
    heard(&stream)
}

fn ids(answer: &str) -> Vec<&str> {
    answer.split("{\"id\":\"").skip(1).map(|rest| &rest[..8]).collect()
}

#[test]
fn questions_are_listed_and_answered_once() {
    let dir = StateDir::new();
    let [a, b] = ["0000000a", "0000000b"];
    let table = Table::of(&[(a, Extent::Session), (b, Extent::Once)]);
    let operator = start(&dir, &table);
    let path = socket(&dir);
    assert_eq!(ids(&asked(&path, LIST.as_bytes())), [a, b]);
    let allow = |id: &str, extent: &str| format!("{{\"do\":\"allow\",\"id\":\"{id}\",\"extent\":\"{extent}\"}}\n");
    let deny = |id: &str| format!("{{\"do\":\"deny\",\"id\":\"{id}\"}}\n");
    let too_far = asked(&path, allow(b, "session").as_bytes());
    assert_eq!(too_far, "{\"error\":\"a yes to this question goes no further than once\"}\n");
    for (request, expected) in [
        (allow("0000000c", "once"), NONE_OPEN),
        (deny("0000000c"), NONE_OPEN),
        (allow(a, "session"), DONE),
        (allow(a, "session"), NONE_OPEN),
        (deny(a), NONE_OPEN),
        (allow(b, "once"), DONE),
    ] {
        assert_eq!(asked(&path, request.as_bytes()), expected, "{request}");
    }
    assert_eq!(asked(&path, LIST.as_bytes()), "{\"questions\":[],\"left_out\":0}\n");
    let yes = |id: &str, extent| (id.to_owned(), Answer::Yes(extent), user_id());
    assert_eq!(table.answers(), [yes(a, Extent::Session), yes(b, Extent::Once)]);
    operator.close();
}

#[test]
fn gateways_share_a_folder_and_leave_it_as_it_was() {
    let dir = StateDir::new();
    let tables = ["0000000a", "0000000b"].map(|id| Table::of(&[(id, Extent::Once)]));
    let [first, second] = [start(&dir, &tables[0]), start(&dir, &tables[1])];
    let paths = sockets(&dir.0);
    let mut open: Vec<String> = paths.iter().map(|path| ids(&asked(path, LIST.as_bytes())).concat()).collect();
    open.sort();
    assert_eq!(open, ["0000000a", "0000000b"]);
    first.close();
    assert_eq!(Arc::strong_count(&tables[0]), 1, "the thread is gone");
    assert_eq!(ids(&asked(&socket(&dir), LIST.as_bytes())), ["0000000b"]);
    // What a gateway that was killed has left goes when another starts.
    let stale = Folder::make(&dir.0).unwrap().listen().unwrap();
    let file = sockets(&dir.0).into_iter().find(|path| !paths.contains(path)).unwrap();
    drop(stale);
    drop(std::os::unix::net::UnixListener::bind(&file).unwrap());
    let third = start(&dir, &tables[0]);
    assert!(!file.exists() && sockets(&dir.0).len() == 2);
    drop((second, third));
    assert_eq!(sockets(&dir.0), [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn only_users_that_are_listed_are_heard() {
    let dir = StateDir::new();
    let table = Table::of(&[("0000000a", Extent::Once)]);
    let operator = start(&dir, &table);
    let path = socket(&dir);
    let user = user_id();
    let refusal =
        format!("{{\"error\":\"user {user} is no operator: approvals.operators of the configuration does not list it\"}}\n");
    // Accepted as an operator, which it is no more when it asks.
    let mut early = connect(&path);
    early.write_all(&LIST.as_bytes()[..5]).unwrap();
    assert_eq!(ids(&asked(&path, LIST.as_bytes())), ["0000000a"]);
    for operators in [vec![user + 1], vec![], vec![0].into_iter().filter(|root| *root != user).collect()] {
        operator.set_operators(operators);
        let allow = b"{\"do\":\"allow\",\"id\":\"0000000a\",\"extent\":\"once\"}\n".as_slice();
        for request in [LIST.as_bytes(), allow, b"garbage\n", b""] {
            let mut stream = connect(&path);
            // It may be closed before it has asked.
            let _ = stream.write_all(request);
            assert_eq!(heard(&stream), refusal);
        }
    }
    early.write_all(&LIST.as_bytes()[5..]).unwrap();
    assert_eq!(heard(&early), refusal);
    assert_eq!(table.answers(), []);
    operator.set_operators(vec![user + 1, user]);
    assert_eq!(ids(&asked(&path, LIST.as_bytes())), ["0000000a"]);
}

#[test]
fn whatever_is_no_request_does_nothing_and_says_so() {
    let dir = StateDir::new();
    let table = Table::of(&[("0000000a", Extent::Once)]);
    let _operator = start(&dir, &table);
    let path = socket(&dir);
    let expected = error_line(EXPECTED);
    let padded = |length: usize| format!("{}{}\n", " ".repeat(length + 1 - LIST.len()), LIST.trim_end());
    for request in [
        b"\n".as_slice(),
        b"GET / HTTP/1.1\r\n",
        b"\xff\xfe\n",
        b"{\"do\":\"deny\",\"id\":\"0000000a\",\"extra\":1}\n",
        b"{\"do\":\"deny\",\"id\":\"0000000a\",\"id\":\"0000000a\"}\n",
        b"[{\"do\":\"list\"}]\n",
        padded(APPROVAL_REQUEST_BYTES + 1).as_bytes(),
        &[b'x'; APPROVAL_REQUEST_BYTES + 1],
    ] {
        assert_eq!(asked(&path, request), expected, "{}", String::from_utf8_lossy(request));
    }
    assert_eq!(ids(&asked(&path, padded(APPROVAL_REQUEST_BYTES).as_bytes())), ["0000000a"]);
    // A line that is not ended is not carried out, and what follows the first is no line.
    let mut cut = connect(&path);
    cut.write_all(b"{\"do\":\"deny\",\"id\":\"0000000a\"}").unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    assert_eq!(heard(&cut), "");
    let two = format!("{LIST}{{\"do\":\"deny\",\"id\":\"0000000a\"}}\n");
    assert_eq!(ids(&asked(&path, two.as_bytes())), ["0000000a"]);
    assert_eq!(table.answers(), []);
}

#[test]
fn a_peer_may_be_slow_but_not_for_ever() {
    let dir = StateDir::new();
    let table = Table::of(&[("0000000a", Extent::Once)]);
    let operator = start(&dir, &table);
    let mut slow = connect(&socket(&dir));
    for byte in LIST.as_bytes() {
        slow.write_all(&[*byte]).unwrap();
    }
    slow.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ids(&heard(&slow)), ["0000000a"]);
    operator.close();
    let _operator = start_with(&dir, &table, SHORT);
    for begun in ["", "{\"do\":"] {
        assert_eq!(asked(&socket(&dir), begun.as_bytes()), "", "closed after its time");
    }
}

/// As many bytes as no buffer of a socket holds.
fn long_question() -> (Question, Duration) {
    let action = format!("\"{}\"", "x".repeat(8 << 20));
    (Question { action, ..question("0000000b", Extent::Once) }, PATIENCE)
}

#[test]
fn a_peer_that_does_not_take_its_answer_is_let_go() {
    let dir = StateDir::new();
    let table = Table::of(&[]);
    table.open.lock().unwrap().push(long_question());
    let operator = start(&dir, &table);
    assert_eq!(ids(&asked(&socket(&dir), LIST.as_bytes())), ["0000000b"], "whole, for who reads it");
    operator.close();
    let _operator = start_with(&dir, &table, SHORT);
    let path = socket(&dir);
    let mut deaf = connect(&path);
    deaf.write_all(LIST.as_bytes()).unwrap();
    let mut gone = [Poll::broken(deaf.as_fd())];
    sys::poll(&mut gone, Some(PATIENCE)).unwrap();
    assert!(gone[0].is_broken());
    let answer = heard(&deaf);
    assert!(answer.starts_with("{\"questions\":[{\"id\"") && !answer.ends_with('\n'), "{} bytes", answer.len());
}

/// Everybody who can be a nuisance, as many as there are places; each is kept for as long as it is served.
fn nuisances(path: &Path) -> Vec<UnixStream> {
    let silent = connect(path);
    let mut half = connect(path);
    half.write_all(b"{\"do\"").unwrap();
    let mut deaf = connect(path);
    deaf.write_all(LIST.as_bytes()).unwrap();
    let mut closing = connect(path);
    closing.write_all(LIST.as_bytes()).unwrap();
    closing.shutdown(Shutdown::Write).unwrap();
    assert_eq!(APPROVAL_PEERS, 4);
    vec![silent, half, deaf, closing]
}

#[test]
fn nobody_is_kept_by_those_who_hold_all_places() {
    let dir = StateDir::new();
    let table = Table::of(&[("0000000a", Extent::Once)]);
    table.open.lock().unwrap().push(long_question());
    let operator = start(&dir, &table);
    let path = socket(&dir);
    let nuisances: Vec<UnixStream> = (0..3).flat_map(|_| nuisances(&path)).collect();
    let answer = asked(&path, b"{\"do\":\"deny\",\"id\":\"0000000a\"}\n");
    assert_eq!(answer, DONE, "long before anybody's time is over");
    operator.close();
    assert_eq!(sockets(&dir.0), [""; 0].map(std::path::PathBuf::from));
    assert_eq!(Arc::strong_count(&table), 1);
    assert!(nuisances.iter().all(|peer| !heard(peer).ends_with('\n')), "all were closed");
}

#[test]
fn a_flood_is_cut_and_keeps_nobody() {
    let dir = StateDir::new();
    let table = Table::of(&[("0000000a", Extent::Once)]);
    let operator = start(&dir, &table);
    let path = socket(&dir);
    let (begun_tx, begun) = crossbeam_channel::bounded(1);
    let flooded = path.clone();
    let flood = move || {
        // Until the socket is gone.
        while let Ok(mut stream) = UnixStream::connect(&flooded) {
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
            let _ = begun_tx.try_send(());
        }
    };
    let flood = thread::spawn("tg-test", flood).unwrap();
    begun.recv().unwrap();
    for _ in 0..20 {
        assert_eq!(ids(&asked(&path, LIST.as_bytes())), ["0000000a"]);
    }
    let mut flooding = connect(&path);
    let _ = flooding.write_all(&[b'x'; 64 << 10]);
    let mut first = String::new();
    let _ = BufReader::new(&flooding).read_line(&mut first);
    assert_eq!(first, error_line(EXPECTED));
    operator.close();
    assert!(flood.join());
}
