//! Frames waiting for stdout, and the writer: the only code that writes the protocol stream.
//!
//! A frame is *waiting* (may be withdrawn) or *writing* (in the writer's hand for one system call, or begun: some byte of it
//! left, so the rest must follow). The writer never sleeps in a write; a frame that has begun is finished before any other,
//! whatever arrives, unless stdout breaks or the session gives up on it.
//!
//! ```text
//! push ─▶ waiting ──writer takes──▶ in hand ──every byte left──▶ left
//!           │  ▲                      │  └──some bytes left──▶ begun ──rest left──▶ left
//!        withdraw └──no byte left─────┘
//! ```
//! Of each call at most one progress frame waits: a newer one takes its place, the reply or a cancel removes it.
//! The queue needs no bound of its own: calls reserve reply and progress on admission, the reader looks for room before it
//! pushes a reply of its own (`gateway::waiting`), and subscriptions are few. So `push` never waits, and no ring of full queues
//! can form.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cancel::{CancelToken, Why};
use crate::limits::{STALL, WRITE_FRAMES};
use crate::sys::{self, Poll};
use crate::wire::stdio::Output;

/// Names the call a frame answers.
pub type Ticket = u64;

/// One line for stdout, line feed included.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    of: Of,
    /// Of a reply of the reader's own: which request it answers.
    key: Option<String>,
}

/// Whose a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Made on the reader.
    Reader,
    /// Answers a call.
    Reply(Ticket),
    /// Tells how far a call has come; worth nothing once a newer one, the reply or a cancel is there.
    Progress(Ticket),
}

impl Of {
    /// The call it belongs to.
    fn ticket(self) -> Option<Ticket> {
        match self {
            Of::Reader => None,
            Of::Reply(ticket) | Of::Progress(ticket) => Some(ticket),
        }
    }
}

impl Frame {
    /// A frame of one JSON text without a raw line feed; `ticket` names the call it answers, `None` is the reader's own.
    pub fn new(line: String, ticket: Option<Ticket>) -> Self {
        Frame::of(line, ticket.map_or(Of::Reader, Of::Reply))
    }

    /// A reply of the reader's own; `key` names the request it answers, so that a cancel can take it back.
    pub fn reply(line: String, key: Option<String>) -> Self {
        Frame { key, ..Frame::of(line, Of::Reader) }
    }

    /// A frame that tells how far the call `ticket` has come. The outbox keeps the newest of a call, and none behind its reply.
    pub fn progress(line: String, ticket: Ticket) -> Self {
        Frame::of(line, Of::Progress(ticket))
    }

    fn of(line: String, of: Of) -> Self {
        debug_assert!(!line.contains('\n'), "a frame is one line");
        let mut bytes = line.into_bytes();
        bytes.push(b'\n');
        Frame { bytes, of, key: None }
    }

    fn reader_bytes(&self) -> usize {
        if self.of == Of::Reader { self.bytes.len() } else { 0 }
    }
}

/// Frames on their way to stdout.
pub struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
    give_up: CancelToken,
    stall: Duration,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Frame>,
    reader_bytes: usize,
    in_call: bool,
    is_closed: bool,
    is_broken: bool,
    is_over: bool,
}

impl State {
    fn take(&mut self, frame: Frame) {
        // The reader's own can be many; only calls, which are few, are looked for.
        let progress = frame.of.ticket().map(Of::Progress);
        let told = progress.and_then(|progress| self.waiting.iter().position(|waiting| waiting.of == progress));
        match (told.and_then(|at| self.waiting.get_mut(at)), frame.of) {
            // In its place, so that a client that reads slowly still hears of every call in turn.
            (Some(told), Of::Progress(_)) => *told = frame,
            (_, Of::Reader | Of::Progress(_)) => self.waiting.push_back(frame),
            (_, Of::Reply(_)) => {
                told.map(|at| self.waiting.remove(at));
                self.waiting.push_back(frame);
            }
        }
    }

    /// Takes back a frame of which no byte left; progress that was overtaken in the meantime is dropped.
    fn take_back(&mut self, frame: Frame) {
        let is_overtaken =
            matches!(frame.of, Of::Progress(_)) && self.waiting.iter().any(|waiting| waiting.of.ticket() == frame.of.ticket());
        if !is_overtaken {
            self.waiting.push_front(frame);
        }
    }
}

/// What the writer tells while it works. Called without the outbox locked.
pub trait Told {
    /// Every byte of a frame has left; `ticket` names the call it answered.
    fn left(&self, ticket: Option<Ticket>, bytes: usize);
    /// Nothing can leave any more. `None`: the stall limit passed.
    fn broken(&self, error: Option<io::Error>);
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> io::Result<Self> {
        Outbox::with_stall(STALL)
    }

    /// An empty outbox whose writer breaks off when not one byte of what is owed left for this long.
    pub fn with_stall(stall: Duration) -> io::Result<Self> {
        Ok(Outbox { state: Mutex::default(), changed: Condvar::new(), give_up: CancelToken::new()?, stall })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a frame. Never waits. False: the stream is broken or closed and the frame is gone.
    pub fn push(&self, frame: Frame) -> bool {
        let mut state = self.lock();
        if state.is_broken || state.is_closed {
            return false;
        }
        state.reader_bytes += frame.reader_bytes();
        state.take(frame);
        self.changed.notify_all();
        true
    }

    /// Takes back the frame of a call, reply or progress, if no byte of it left; a frame in the writer's hand is waited for, as
    /// in `settle`. True if it was taken back. The caller holds no lock that `Told::left` takes.
    pub fn withdraw(&self, ticket: Ticket) -> bool {
        let mut state = self.settled();
        let at = state.waiting.iter().position(|frame| frame.of.ticket() == Some(ticket));
        at.and_then(|at| state.waiting.remove(at)).is_some()
    }

    /// Takes back a reply of the reader's own by its key, as `withdraw` does that of a call.
    pub fn withdraw_reply(&self, key: &str) -> bool {
        let mut state = self.settled();
        let at = state.waiting.iter().position(|frame| frame.key.as_deref() == Some(key));
        let frame = at.and_then(|at| state.waiting.remove(at));
        state.reader_bytes -= frame.as_ref().map_or(0, Frame::reader_bytes);
        frame.is_some()
    }

    /// Waits until the writer is not inside a system call: microseconds, since no write waits.
    pub fn settle(&self) {
        drop(self.settled());
    }

    fn settled(&self) -> MutexGuard<'_, State> {
        self.changed.wait_while(self.lock(), |state| state.in_call).unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the reader's own replies that have not left.
    pub fn reader_bytes(&self) -> usize {
        self.lock().reader_bytes
    }

    /// Whether nothing can leave any more: stdout is broken, or was given up.
    pub fn is_broken(&self) -> bool {
        self.lock().is_broken
    }

    /// Takes no further frame; the writer ends once everything has left.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// The writer says that it is gone; takes no further frame.
    pub fn end(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.is_over = true;
        state.in_call = false;
        self.changed.notify_all();
    }

    /// Whether the writer is gone.
    pub fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Takes no further frame and throws away what waits; the writer ends now.
    pub fn give_up(&self) {
        self.give_up.cancel(Why::SessionEnd);
        let mut state = self.lock();
        state.is_broken = true;
        state.waiting.clear();
        self.changed.notify_all();
    }

    /// The writer's life: returns when the outbox is closed and empty, broken, or given up.
    pub fn write_all_to(&self, output: &Output, told: &dyn Told) {
        let mut begun = None;
        let (mut last_left, mut was_owed) = (Instant::now(), false);
        while let Some(hand) = self.take_hand(begun.take()) {
            // Progress alone is owed to nobody: a client may sleep through it, and the clock starts with the first reply.
            if hand.was_idle || !hand.is_owed || !was_owed {
                last_left = Instant::now();
            }
            was_owed = hand.is_owed;
            match self.write_hand(output, hand.frames, told) {
                Ok(Wrote { begun: rest, any: true, .. }) => (begun, last_left) = (rest, Instant::now()),
                Ok(Wrote { begun: rest, .. }) => {
                    begun = rest;
                    if !self.wait_for_room(output, last_left) {
                        return self.break_off(None, told);
                    }
                }
                Err(error) => return self.break_off(Some(error), told),
            }
        }
    }

    /// Waits for frames; takes the begun one and what else fits one system call. `None`: the writer's life is over.
    fn take_hand(&self, begun: Option<Begun>) -> Option<Hand> {
        let mut state = self.lock();
        let was_idle = begun.is_none() && state.waiting.is_empty();
        while begun.is_none() && state.waiting.is_empty() && !state.is_closed && !state.is_broken {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_broken || (begun.is_none() && state.waiting.is_empty()) {
            return None;
        }
        state.in_call = true;
        let mut frames = begun.iter().map(|begun| &begun.frame).chain(&state.waiting);
        let is_owed = frames.any(|frame| !matches!(frame.of, Of::Progress(_)));
        let room = WRITE_FRAMES - usize::from(begun.is_some());
        let count = state.waiting.len().min(room);
        let fresh = state.waiting.drain(..count).map(|frame| Begun { frame, done: 0 });
        Some(Hand { frames: begun.into_iter().chain(fresh).collect(), was_idle, is_owed })
    }

    /// One system call. What left is told, what did not begin goes back to the front of the queue.
    fn write_hand(&self, output: &Output, mut hand: VecDeque<Begun>, told: &dyn Told) -> io::Result<Wrote> {
        let parts: Vec<_> = hand.iter().map(|begun| IoSlice::new(&begun.frame.bytes[begun.done..])).collect();
        let mut wrote = match output.write(&parts) {
            Ok(wrote) => wrote,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(error) => {
                self.back(VecDeque::new());
                return Err(error);
            }
        };
        drop(parts);
        let any = wrote > 0;
        let mut left = Vec::new();
        while let Some(first) = hand.front_mut() {
            let rest = first.frame.bytes.len() - first.done;
            if wrote < rest {
                first.done += wrote;
                break;
            }
            wrote -= rest;
            left.extend(hand.pop_front().map(|begun| begun.frame));
        }
        let begun = if hand.front().is_some_and(|first| first.done > 0) { hand.pop_front() } else { None };
        self.tell_left(&left, told);
        self.back(hand);
        Ok(Wrote { begun, any })
    }

    /// Counts first: whoever is told looks for the room.
    fn tell_left(&self, left: &[Frame], told: &dyn Told) {
        self.lock().reader_bytes -= left.iter().map(Frame::reader_bytes).sum::<usize>();
        for frame in left {
            let answered = if let Of::Reply(ticket) = frame.of { Some(ticket) } else { None };
            told.left(answered, frame.bytes.len());
        }
    }

    fn back(&self, hand: VecDeque<Begun>) {
        let mut state = self.lock();
        hand.into_iter().rev().for_each(|untouched| state.take_back(untouched.frame));
        state.in_call = false;
        self.changed.notify_all();
    }

    /// Waits until stdout takes bytes again or the outbox is given up. False: nothing left for the stall limit.
    fn wait_for_room(&self, output: &Output, last_left: Instant) -> bool {
        let rest = self.stall.saturating_sub(last_left.elapsed());
        let mut fds = [Poll::writable(output.fd()), Poll::readable(self.give_up.wake_fd())];
        // A poll that fails leaves it to the next write to say why.
        let _ = sys::poll(&mut fds, Some(rest.max(Duration::from_millis(1))));
        !rest.is_zero()
    }

    fn break_off(&self, error: Option<io::Error>, told: &dyn Told) {
        let is_ours = self.give_up.is_cancelled();
        self.give_up();
        if !is_ours {
            told.broken(error);
        }
    }
}

struct Begun {
    frame: Frame,
    done: usize,
}

struct Hand {
    frames: VecDeque<Begun>,
    /// Nothing waited when the hand was opened.
    was_idle: bool,
    /// Something other than progress is in it, or waits.
    is_owed: bool,
}

struct Wrote {
    begun: Option<Begun>,
    any: bool,
}

#[cfg(test)]
impl Outbox {
    /// What the writer does in one turn, for tests that are their own writer.
    pub(crate) fn write_once(&self, output: &Output, told: &dyn Told) {
        let hand = self.take_hand(None).expect("something waits");
        let wrote = self.write_hand(output, hand.frames, told).expect("an open stdout");
        assert!(wrote.begun.is_none(), "stdout has room for all of it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use std::sync::Arc;

    use crossbeam_channel::{Receiver, Sender, unbounded};

    /// Tells what left; at the end `Ticket::MAX` where stdout broke, one less where it stalled.
    struct Log(Sender<Option<Ticket>>);
    impl Told for Log {
        fn left(&self, ticket: Option<Ticket>, _bytes: usize) {
            let _ = self.0.send(ticket);
        }
        fn broken(&self, error: Option<io::Error>) {
            assert!(error.as_ref().is_none_or(|error| error.kind() == ErrorKind::BrokenPipe));
            let _ = self.0.send(Some(Ticket::MAX - Ticket::from(error.is_none())));
        }
    }

    struct Rig {
        outbox: Arc<Outbox>,
        reader: io::PipeReader,
        left: Receiver<Option<Ticket>>,
        writer: crate::thread::Thread,
    }

    fn rig() -> Rig {
        rig_with(STALL)
    }

    fn rig_with(stall: Duration) -> Rig {
        let (reader, writer) = io::pipe().unwrap();
        let outbox = Arc::new(Outbox::with_stall(stall).unwrap());
        let (tx, left) = unbounded();
        let (shared, output) = (outbox.clone(), Output::new(writer.into()).unwrap());
        let writer = crate::thread::spawn("tg-writer", move || shared.write_all_to(&output, &Log(tx))).unwrap();
        Rig { outbox, reader, left, writer }
    }

    #[test]
    fn frames_leave_whole_and_in_order_through_a_pipe_smaller_than_one() {
        let Rig { outbox, reader, left, writer } = rig();
        let lines: Vec<String> = (0..200).map(|number| format!("{number} {}", "x".repeat(number * 40_000 / 199))).collect();
        for (ticket, line) in lines.iter().enumerate() {
            assert!(outbox.push(Frame::new(line.clone(), Some(ticket as Ticket))));
        }
        outbox.close();
        let got: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
        assert!(writer.join());
        assert!(got == lines);
        assert_eq!(left.iter().flatten().collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn only_frames_of_which_no_byte_left_are_withdrawn() {
        let Rig { outbox, mut reader, left, writer } = rig();
        outbox.push(Frame::new("a".repeat(200_000), Some(1)));
        let mut first = [0; 1];
        reader.read_exact(&mut first).unwrap();
        outbox.push(Frame::new("b".repeat(10), Some(2)));
        assert!(!outbox.withdraw(1), "begun");
        assert!(outbox.withdraw(2), "waiting");
        assert!(!outbox.withdraw(2), "gone");
        outbox.push(Frame::new("c".to_owned(), Some(3)));
        outbox.close();
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert!(writer.join());
        assert_eq!(rest.len(), 200_000 + 2);
        assert!(rest.ends_with("a\nc\n"));
        assert_eq!(left.iter().flatten().collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn a_frame_the_writer_tried_in_vain_is_withdrawn() {
        let (_reader, writer) = io::pipe().unwrap();
        let output = Output::new(writer.into()).unwrap();
        while output.write(&[IoSlice::new(&[b'x'; 4096])]).is_ok() {}
        let outbox = Arc::new(Outbox::new().unwrap());
        outbox.push(Frame::new("a".to_owned(), Some(1)));
        let hand = outbox.take_hand(None).unwrap();
        let (asked_tx, asked) = unbounded();
        let (asking, answer_tx) = (outbox.clone(), asked_tx.clone());
        let thread = crate::thread::spawn("tg-test", move || {
            asked_tx.send(None).unwrap();
            answer_tx.send(Some(asking.withdraw(1))).unwrap();
        });
        assert_eq!(asked.recv(), Ok(None));
        // An answer before the system call is over could only be a guess.
        assert!(asked.recv_timeout(Duration::from_millis(20)).is_err());
        outbox.write_hand(&output, hand.frames, &Log(unbounded().0)).unwrap();
        assert_eq!(asked.recv(), Ok(Some(true)));
        assert!(thread.unwrap().join());
    }

    /// A stdout that takes nothing, and an outbox whose only writer is the test.
    fn blocked() -> (io::PipeReader, Output, Outbox) {
        let (reader, writer) = io::pipe().unwrap();
        let output = Output::new(writer.into()).unwrap();
        while output.write(&[IoSlice::new(&[b'x'; 4096])]).is_ok() {}
        (reader, output, Outbox::new().unwrap())
    }

    #[track_caller]
    fn check_waiting(outbox: &Outbox, expected: &str) {
        let state = outbox.lock();
        let texts = state.waiting.iter().map(|frame| String::from_utf8_lossy(&frame.bytes).trim_end().to_owned());
        assert_eq!(texts.collect::<Vec<_>>().join(" "), expected);
    }

    fn progress(outbox: &Outbox, text: &str, ticket: Ticket) {
        assert!(outbox.push(Frame::progress(text.to_owned(), ticket)));
    }

    fn reply(outbox: &Outbox, text: &str, ticket: Ticket) {
        assert!(outbox.push(Frame::new(text.to_owned(), Some(ticket))));
    }

    #[test]
    fn the_newest_progress_of_each_call_waits_in_the_place_of_the_first() {
        let (_reader, _output, outbox) = blocked();
        for round in ["a", "b", "c"] {
            progress(&outbox, &format!("1{round}"), 1);
            progress(&outbox, &format!("2{round}"), 2);
            outbox.push(Frame::new(format!("ping-{round}"), None));
        }
        check_waiting(&outbox, "1c 2c ping-a ping-b ping-c");
        reply(&outbox, "1-reply", 1);
        check_waiting(&outbox, "2c ping-a ping-b ping-c 1-reply");
        assert!(outbox.withdraw(2));
        check_waiting(&outbox, "ping-a ping-b ping-c 1-reply");
    }

    #[test]
    fn progress_that_was_overtaken_in_the_writers_hand_is_dropped() {
        let (_reader, output, outbox) = blocked();
        for ticket in 1..=3 {
            progress(&outbox, &format!("{ticket}a"), ticket);
        }
        let hand = outbox.take_hand(None).unwrap();
        progress(&outbox, "1b", 1);
        reply(&outbox, "2-reply", 2);
        outbox.write_hand(&output, hand.frames, &Log(unbounded().0)).unwrap();
        check_waiting(&outbox, "3a 1b 2-reply");
    }

    #[test]
    fn progress_frees_no_call_and_counts_as_none_of_the_readers_bytes() {
        let Rig { outbox, reader, left, writer } = rig();
        progress(&outbox, "1", 7);
        outbox.settle();
        assert_eq!(outbox.reader_bytes(), 0);
        outbox.close();
        assert_eq!(BufReader::new(reader).lines().map(Result::unwrap).collect::<Vec<_>>(), ["1"]);
        assert!(writer.join());
        assert_eq!(left.iter().collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn the_readers_bytes_are_counted_until_they_left() {
        let Rig { outbox, mut reader, left, writer } = rig();
        outbox.push(Frame::new("a".repeat(200_000), None));
        outbox.push(Frame::new("b".repeat(10), Some(7)));
        outbox.settle();
        assert_eq!(outbox.reader_bytes(), 200_001);
        let mut all = vec![0; 200_001 + 11];
        reader.read_exact(&mut all).unwrap();
        assert_eq!(left.recv().unwrap(), None);
        assert_eq!(left.recv().unwrap(), Some(7));
        outbox.settle();
        assert_eq!(outbox.reader_bytes(), 0);
        outbox.close();
        assert!(writer.join());
    }

    #[test]
    fn a_reader_that_is_gone_breaks_the_stream_once() {
        let Rig { outbox, reader, left, writer } = rig();
        drop(reader);
        outbox.push(Frame::new("a".to_owned(), Some(1)));
        assert!(writer.join());
        assert_eq!(left.iter().flatten().collect::<Vec<_>>(), [Ticket::MAX]);
        assert!(!outbox.push(Frame::new("b".to_owned(), Some(2))));
    }

    #[test]
    fn a_reply_that_nobody_reads_ends_the_writer_at_the_stall_limit() {
        let Rig { outbox, reader, left, writer } = rig_with(Duration::from_millis(10));
        reply(&outbox, &"a".repeat(200_000), 1);
        assert!(writer.join());
        assert_eq!(left.iter().collect::<Vec<_>>(), [Some(Ticket::MAX - 1)]);
        assert!(outbox.is_broken());
        drop(reader);
    }

    #[test]
    fn progress_that_nobody_reads_ends_nothing_until_a_reply_waits_behind_it() {
        let Rig { outbox, reader, left, writer } = rig_with(Duration::from_millis(10));
        for round in 0..3 {
            progress(&outbox, &round.to_string().repeat(200_000), 1);
            assert!(left.recv_timeout(Duration::from_millis(15)).is_err(), "the writer broke off");
        }
        reply(&outbox, "reply", 2);
        assert!(writer.join());
        assert_eq!(left.iter().collect::<Vec<_>>(), [Some(Ticket::MAX - 1)]);
        drop(reader);
    }

    #[test]
    fn giving_up_ends_a_writer_that_waits_for_room() {
        let Rig { outbox, mut reader, left, writer } = rig();
        outbox.push(Frame::new("a".repeat(200_000), Some(1)));
        reader.read_exact(&mut [0; 1]).unwrap();
        outbox.give_up();
        assert!(writer.join());
        assert_eq!(left.iter().count(), 0);
    }
}
