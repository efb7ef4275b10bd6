//! The loop on pipes of its own, with little room for its replies, before a stdout that takes nothing until the test says so.
//!
//! What the loop has seen is read off its counters, so that no test waits for time to pass.

use super::*;
use std::io::{BufRead, BufReader, IoSlice, PipeReader, PipeWriter, Read, Write};
use std::sync::{Mutex, PoisonError};

use crate::clock::Clock;
use crate::config::Config;
use crate::executor::Hands;
use crate::executor::recorder::Recorder;
use crate::gateway::assemble::{Assembled, assemble};
use crate::gateway::counters::Tally;
use crate::limits::WAITING_ID_OVERHEAD;
use crate::wire::outbox::Outbox;

/// Room for four answers to pings whose ids have two digits (each takes 37 bytes and its line feed).
const ROOM: usize = 4 * 38;
/// Room for three such ids.
const IDS: usize = 3 * (2 + WAITING_ID_OVERHEAD);
const PATIENCE: Duration = Duration::from_secs(30);
const META: &str =
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

struct Rig {
    shared: Arc<Shared>,
    stdin: Option<PipeWriter>,
    stdout: BufReader<PipeReader>,
    ended: crossbeam_channel::Receiver<Cause>,
    thread: Thread,
}

fn assembled() -> Assembled {
    let config = Config::parse(std::path::Path::new("/c.json"), r#"{"session": {"on_malformed": "continue"}}"#, &|_| None);
    assemble(config.unwrap(), Hands::Recorder(Recorder::new(None)), Clock::System, None).unwrap()
}

impl Rig {
    fn start() -> Rig {
        Rig::of(assembled())
    }

    fn of(assembled: Assembled) -> Rig {
        let (stdin_reader, stdin) = io::pipe().unwrap();
        let (stdout, stdout_writer) = io::pipe().unwrap();
        let output = Output::new(stdout_writer.into()).unwrap();
        while output.write(&[IoSlice::new(&[b'\n'; 4096])]).is_ok() {}
        let shared = Arc::clone(&assembled.shared);
        let mut reader = assembled.start(Input::new(stdin_reader.into()).unwrap(), output).unwrap();
        reader.replies = Replies::new(ROOM, IDS);
        let (ended_tx, ended) = crossbeam_channel::bounded(1);
        let thread = thread::spawn("tg-reader", move || {
            let _ = ended_tx.send(reader.run());
        });
        Rig { shared, stdin: Some(stdin), stdout: BufReader::new(stdout), ended, thread: thread.unwrap() }
    }

    fn send(&mut self, lines: &str) {
        self.stdin.as_mut().expect("stdin is open").write_all(lines.as_bytes()).unwrap();
    }

    /// Pings with these ids, in one write.
    fn ping(&mut self, ids: std::ops::Range<u32>) {
        let lines: String = ids.map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")).collect();
        self.send(&lines);
    }

    fn cancel(&mut self, id: u32) {
        self.send(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n"
        ));
    }

    /// Waits until everything sent so far was dealt with: a cancel that names nothing leaves its trace when it is.
    #[track_caller]
    fn dealt_with(&mut self) {
        let before = count(&self.shared.counters.cancels, "unknown");
        self.cancel(99);
        self.until(|shared| count(&shared.counters.cancels, "unknown") > before);
    }

    /// Waits until so many ids had to wait, or more.
    #[track_caller]
    fn waiting(&self, ids: u64) {
        self.until(|shared| shared.counters.waiting_ids.value() >= ids);
    }

    #[track_caller]
    fn until(&self, is_so: impl Fn(&Shared) -> bool) {
        let began = Instant::now();
        while !is_so(&self.shared) {
            assert!(began.elapsed() < PATIENCE, "never; {}", self.shared.counters_json());
            std::thread::yield_now();
        }
    }

    /// The next line on stdout that is not blank.
    fn line(&mut self) -> String {
        let mut line = String::new();
        while line.trim().is_empty() {
            line.clear();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "stdout ended");
        }
        line.trim_end().to_owned()
    }

    /// So many answers: ids of the pongs, ids of those that are told `busy`, in the order in which they came.
    fn answers(&mut self, count: usize) -> (Vec<u32>, Vec<u32>) {
        let lines: Vec<String> = (0..count).map(|_| self.line()).collect();
        let id = |line: &String| {
            let digits: String = line.split("\"id\":").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        };
        let (pongs, busy): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.ends_with("\"result\":{}}"));
        assert!(busy.iter().all(|line| line.contains("tidegate: busy (executed: no): ")), "{busy:?}");
        (pongs.into_iter().map(id).collect(), busy.into_iter().map(id).collect())
    }

    /// Closes stdin; why the session ended, and what was still on stdout.
    fn end(mut self) -> (Cause, Vec<String>) {
        self.stdin = None;
        let rest = self.stdout.by_ref().lines().map(Result::unwrap).filter(|line| !line.is_empty()).collect();
        assert!(self.thread.join());
        (self.ended.recv().unwrap(), rest)
    }
}

fn count(tally: &Tally, name: &str) -> u64 {
    tally.all().get(name).copied().unwrap_or(0)
}

#[test]
fn what_does_not_fit_is_told_busy_and_the_rest_answered() {
    let mut rig = Rig::start();
    rig.ping(10..16);
    rig.dealt_with();
    assert_eq!(rig.answers(6), ((10..14).collect(), vec![14, 15]));
    rig.ping(16..17);
    assert_eq!(rig.answers(1), (vec![16], vec![]));
    assert_eq!(rig.shared.counters.waiting_ids.value(), 2);
    assert_eq!(rig.shared.counters.waits.value(), 0);
    assert_eq!(rig.end(), (Cause::Eof, vec![]));
}

/// Four pongs, three ids; the eighth line stays, and so do those behind it in the pipe.
#[test]
fn lines_that_stay_are_taken_once_there_is_room_without_a_further_byte_on_stdin() {
    let mut rig = Rig::start();
    rig.ping(10..20);
    rig.waiting(3);
    rig.ping(20..30);
    let (pongs, busy) = rig.answers(20);
    assert_eq!(pongs[..4], [10, 11, 12, 13]);
    assert_eq!(busy[..3], [14, 15, 16]);
    let mut all = [pongs, busy].concat();
    all.sort_unstable();
    assert_eq!(all, (10..30).collect::<Vec<_>>());
    assert!(rig.shared.counters.waits.value() >= 1);
    assert_eq!(rig.end(), (Cause::Eof, vec![]));
}

#[test]
fn the_end_of_stdin_stands_behind_the_lines_that_stay() {
    let mut rig = Rig::start();
    rig.ping(10..30);
    rig.waiting(3);
    rig.stdin = None;
    let (pongs, busy) = rig.answers(20);
    assert_eq!(pongs.len() + busy.len(), 20);
    assert_eq!(rig.end(), (Cause::Eof, vec![]));
}

#[test]
fn cancels_are_heeded_while_ids_wait_and_silence_them() {
    let mut rig = Rig::start();
    rig.ping(10..16);
    rig.cancel(14);
    rig.cancel(10);
    rig.dealt_with();
    // The id is the client's again, and the place it had is free.
    rig.ping(16..18);
    rig.waiting(3);
    assert_eq!(rig.answers(6), (vec![11, 12, 13, 16], vec![15, 17]));
    assert_eq!(count(&rig.shared.counters.cancels, "waiting"), 1);
    assert_eq!(count(&rig.shared.counters.cancels, "withdrawn"), 1, "an answer that has not begun is called back");
    assert_eq!(rig.end(), (Cause::Eof, vec![]));
}

#[test]
fn an_id_that_waits_is_in_flight() {
    let mut rig = Rig::start();
    rig.ping(10..15);
    rig.ping(14..15);
    rig.dealt_with();
    assert_eq!(count(&rig.shared.counters.refusals, "id_in_flight"), 1);
    // The error that answers no id did not fit and is counted.
    assert_eq!(count(&rig.shared.counters.refusals, "unanswered"), 1);
    assert_eq!(rig.answers(5), ((10..14).collect(), vec![14]));
    rig.ping(14..15);
    assert_eq!(rig.answers(1), (vec![14], vec![]));
    assert_eq!(rig.end(), (Cause::Eof, vec![]));
}

#[test]
fn a_bad_request_with_an_id_waits_like_a_good_one() {
    let mut rig = Rig::start();
    rig.ping(10..14);
    rig.send("{\"jsonrpc\":\"1.0\",\"id\":14,\"method\":\"ping\"}\n");
    rig.dealt_with();
    assert_eq!(rig.answers(5), ((10..14).collect(), vec![14]));
    assert_eq!(rig.end(), (Cause::Eof, vec![]));
}

#[test]
fn a_subscription_that_could_not_be_acknowledged_has_not_begun() {
    let mut rig = Rig::start();
    rig.ping(10..14);
    rig.send(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":14,\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":{{\"toolsListChanged\":true}},{META}}}}}\n"
    ));
    rig.dealt_with();
    assert_eq!(rig.answers(5), ((10..14).collect(), vec![14]));
    assert_eq!(rig.end(), (Cause::Eof, vec![]), "no subscription ends");
}

#[test]
fn what_waits_at_the_end_is_still_told() {
    let mut rig = Rig::start();
    rig.ping(10..16);
    rig.dealt_with();
    rig.shared.mailbox.tell(Event::End);
    assert_eq!(rig.answers(6), ((10..14).collect(), vec![14, 15]));
    assert_eq!(rig.end(), (Cause::Signal, vec![]));
}

#[test]
fn an_end_waits_for_a_stdout_that_takes_nothing_no_longer_than_it_says() {
    let mut rig = Rig::start();
    rig.ping(10..16);
    rig.dealt_with();
    let began = Instant::now();
    rig.shared.mailbox.tell(Event::End);
    assert_eq!(rig.ended.recv_timeout(PATIENCE), Ok(Cause::Signal));
    assert!(began.elapsed() >= END, "it gave what waits its time");
    assert!(rig.thread.join());
}

/// Keeps every line that is logged in this process.
struct Kept(Mutex<Vec<String>>);

impl log::Log for Kept {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record.args().to_string());
    }

    fn flush(&self) {}
}

#[test]
fn a_stdout_that_takes_nothing_ends_the_session_which_says_why() {
    static KEPT: Kept = Kept(Mutex::new(Vec::new()));
    log::set_logger(&KEPT).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let mut assembled = assembled();
    let stall = Duration::from_millis(10);
    Arc::get_mut(&mut assembled.shared).expect("not yet shared").outbox = Outbox::with_stall(stall).unwrap();
    let mut rig = Rig::of(assembled);
    rig.ping(10..30);
    assert_eq!(rig.ended.recv_timeout(PATIENCE), Ok(Cause::Stalled));
    assert_eq!(Cause::Stalled.exit_code(), 74);
    assert!(rig.shared.counters.waits.value() <= 1);
    assert!(rig.thread.join());
    let said = KEPT.0.lock().unwrap();
    assert!(
        said.iter().any(|line| line == "session ended: stdout took not one byte for 30 s while an answer waited"),
        "{said:?}"
    );
}
