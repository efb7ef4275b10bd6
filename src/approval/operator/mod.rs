//! Asking an operator: a Unix socket in the state folder, at which a human lists the open questions and answers them.
//!
//! One thread serves a few peers in one poll loop and never waits for any of them. The kernel says who a peer is; whoever is not
//! listed, root included, is told so and sees nothing. A peer says one line, gets one line, and is closed. The socket asks no
//! question and decides nothing: `Desk` holds the questions and takes the answers.
//!
//! ```text
//! STATE/approvals/PID-RANDOM.sock    one a gateway: `folder`; the lines: `protocol`; one connection: `peer`; the other end: `ask`
//! ```

pub mod folder;
pub mod protocol;
pub mod peer;
pub mod ask;
#[cfg(test)]
pub(crate) mod testing;

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::approval::operator::folder::{Folder, Socket};
use crate::approval::operator::peer::Peer;
use crate::approval::operator::protocol::{Reach, Request, done_line, error_line, questions_line};
use crate::approval::{Answer, Extent, Question};
use crate::cancel::{CancelToken, Why};
use crate::clock::Allowance;
use crate::limits::{APPROVAL_PEER_TURN, APPROVAL_PEER_WAIT, APPROVAL_PEERS, REFUSAL_LINE_EVERY, REFUSAL_LINES};
use crate::sys::{self, Poll};
use crate::thread::{self, Thread};

/// What a peer is told whose line is no request.
const EXPECTED: &str = "expected one line: {\"do\":\"list\"}, {\"do\":\"allow\",\"id\":\"…\",\"extent\":\"once\" or \"session\"} or \
                        {\"do\":\"deny\",\"id\":\"…\"}";

/// What stands open, and takes answers: the gateway's table. Called on the operator's thread; never waits long.
pub trait Desk: Send + Sync {
    /// Open questions an operator may answer, oldest first, and how long each still stands.
    fn open(&self) -> Vec<(Question, Duration)>;

    /// Answers a question, in the name of the user `by`. False: no such question is open (any more).
    fn answer(&self, id: &str, answer: Answer, by: u32) -> bool;
}

/// Owns the thread `tg-operator` and the socket's file; both are gone once this is dropped.
pub struct Operator {
    operators: Arc<Mutex<Vec<u32>>>,
    stop: CancelToken,
    _thread: Thread,
}

impl Operator {
    /// Opens a socket under `state_dir` and serves it. What gateways that have died left there is removed.
    ///
    /// # Errors
    /// The folder cannot be made or is not safe, or descriptors or threads have run out.
    pub fn start(state_dir: &Path, operators: Vec<u32>, desk: Arc<dyn Desk>) -> io::Result<Operator> {
        Operator::start_with(state_dir, operators, desk, APPROVAL_PEER_WAIT)
    }

    fn start_with(state_dir: &Path, operators: Vec<u32>, desk: Arc<dyn Desk>, wait: Duration) -> io::Result<Operator> {
        let folder = Folder::make(state_dir)?;
        folder.sweep(SystemTime::now());
        let socket = folder.listen()?;
        let stop = CancelToken::new()?;
        let operators = Arc::new(Mutex::new(operators));
        let counter =
            Counter { operators: operators.clone(), desk, refusals: Allowance::new(REFUSAL_LINES, REFUSAL_LINE_EVERY) };
        let serving = Serving { socket, counter, peers: Vec::new(), wait, paused_until: None };
        let watched = stop.clone();
        let thread = thread::spawn("tg-operator", move || serving.run(&watched))?;
        Ok(Operator { operators, stop, _thread: thread })
    }

    /// From now on these users are operators; a peer that was accepted before and is none any more is refused.
    pub fn set_operators(&self, operators: Vec<u32>) {
        *self.operators.lock().unwrap_or_else(PoisonError::into_inner) = operators;
    }

    /// Stops and joins at once, whatever peers do.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.stop.cancel(Why::SessionEnd);
    }
}

/// The thread's own.
struct Serving {
    socket: Socket,
    counter: Counter,
    /// Oldest first.
    peers: Vec<Peer>,
    /// What each gets to say its line, and again to take the answer.
    wait: Duration,
    /// No connection is accepted before, because there was no room for one.
    paused_until: Option<Instant>,
}

impl Serving {
    fn run(mut self, stop: &CancelToken) {
        while !stop.is_cancelled() {
            let now = Instant::now();
            self.peers.retain(|peer| peer.until() > now);
            let is_accepting = self.accepts_from().is_none_or(|from| from <= now);
            let mut fds = vec![Poll::readable(stop.wake_fd())];
            fds.extend(self.peers.iter().map(Peer::awaited));
            if is_accepting {
                fds.push(Poll::readable(self.socket.listener.as_fd()));
            }
            let next = self.peers.iter().map(Peer::until).chain(self.accepts_from().filter(|_| !is_accepting)).min();
            if let Err(error) = sys::poll(&mut fds, next.map(|next| next.saturating_duration_since(now))) {
                return log::error!("approvals by an operator have ended: {error}");
            }
            let ready: Vec<bool> = fds[1..].iter().map(Poll::is_ready).collect();
            self.serve(&ready);
            if is_accepting && ready.last() == Some(&true) {
                self.accept();
            }
        }
    }

    /// When the next connection may be accepted; `None`: now. With all places taken that is once the oldest has had its turn.
    fn accepts_from(&self) -> Option<Instant> {
        let turn =
            (self.peers.len() >= APPROVAL_PEERS).then(|| self.peers.first().map(|oldest| oldest.since() + APPROVAL_PEER_TURN));
        self.paused_until.max(turn.flatten())
    }

    /// Goes on with each peer that is ready, in their order.
    fn serve(&mut self, ready: &[bool]) {
        let peers = std::mem::take(&mut self.peers).into_iter();
        let counter = &mut self.counter;
        let kept = peers.zip(ready).filter_map(|(peer, is_ready)| {
            if *is_ready { peer.go_on(self.wait, |line, user| counter.answer(line, user)) } else { Some(peer) }
        });
        self.peers = kept.collect();
    }

    fn accept(&mut self) {
        self.paused_until = None;
        match self.socket.listener.accept() {
            Ok((stream, _)) => {
                let Ok(user) = sys::peer_user(stream.as_fd()) else { return };
                if let Some(refusal) = self.counter.refusal(user) {
                    // Goes into the empty buffer of a new socket at once; whoever is refused takes nobody's place.
                    let _ = sys::send_nowait(stream.as_fd(), &[io::IoSlice::new(refusal.as_bytes())]);
                    return;
                }
                if self.peers.len() >= APPROVAL_PEERS {
                    self.peers.remove(0);
                }
                let peer = Peer::new(stream, user, self.wait);
                self.peers.extend(peer.go_on(self.wait, |line, user| self.counter.answer(line, user)));
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            // The connection still waits, and would wake the loop again and again.
            Err(_) => self.paused_until = Some(Instant::now() + APPROVAL_PEER_TURN),
        }
    }
}

/// What peers are answered.
struct Counter {
    operators: Arc<Mutex<Vec<u32>>>,
    desk: Arc<dyn Desk>,
    refusals: Allowance,
}

impl Counter {
    /// The answer for somebody who is no operator.
    fn refusal(&mut self, user: u32) -> Option<String> {
        let is_operator = self.operators.lock().unwrap_or_else(PoisonError::into_inner).contains(&user);
        if is_operator {
            return None;
        }
        if self.refusals.take() {
            log::warn!("user {user} asked for the open approvals and is no operator");
        }
        Some(error_line(&format!("user {user} is no operator: approvals.operators of the configuration does not list it")))
    }

    /// The answer to a line; `None`: one that is too long.
    fn answer(&mut self, line: Option<&[u8]>, user: u32) -> String {
        if let Some(refusal) = self.refusal(user) {
            return refusal;
        }
        match line.and_then(Request::parse) {
            None => error_line(EXPECTED),
            Some(Request::List) => questions_line(self.desk.open()),
            Some(Request::Allow { id, extent }) => self.allow(&id, extent, user),
            Some(Request::Deny { id }) => self.settle(&id, Answer::No("an operator said no".to_owned()), user),
        }
    }

    /// A yes goes no further than the question.
    fn allow(&self, id: &str, extent: Reach, user: u32) -> String {
        let offered = self.desk.open().into_iter().find(|(question, _)| question.id == id).map(|(question, _)| question.extent);
        match (extent, offered) {
            (Reach::Session, Some(Extent::Once)) => error_line("a yes to this question goes no further than once"),
            (Reach::Once | Reach::Session, Some(Extent::Once | Extent::Session)) => {
                self.settle(id, Answer::Yes(extent.into()), user)
            }
            (Reach::Once | Reach::Session, None) => error_line(NOT_OPEN),
        }
    }

    fn settle(&self, id: &str, answer: Answer, user: u32) -> String {
        if self.desk.answer(id, answer, user) { done_line() } else { error_line(NOT_OPEN) }
    }
}

const NOT_OPEN: &str = "no such question is open";

#[cfg(test)]
mod tests;
