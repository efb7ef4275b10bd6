//! Runs one command on one channel: input in, both outputs out, until the channel is closed, cancelled or out of time.
//!
//! ```text
//! running ── channel closed ──▶ exit status or signal
//!    ├── exit status, output held open by others ──▶ draining (until it ends, or is silent for 3 s) ──▶ the same, with a note
//!    └── cancel, deadline, stop_at_limit ──▶ stopping (its input ends, the watcher ends it; until closed, or 1.5 s)
//!                                                └──▶ dead or detached
//! ```
//! Both streams are read in turn: reading one of them alone would let the window of the other fill for ever. A packet that has
//! left in part is finished before libssh2 is asked for anything else.

use std::ffi::CString;
use std::time::{Duration, Instant};

use ssh2::Error;

use crate::executor::CallCtx;
use crate::executor::ssh::failure::{Phase, place, stopped};
use crate::executor::ssh::session::{Limit, Link, Stop};
use crate::limits::CHUNK_BYTES;
use crate::outcome::budget::Sink;
use crate::outcome::command::{CommandOutput, Exit, Finish, kept_bytes};
use crate::outcome::result::{Code, Ended, Executed, Failure, Outcome};
use crate::policy::grant::Terms;
use crate::policy::rules::{AtLimit, HostRule, Tie};
use crate::sys::ssh::{Channel, Stream, would_wait};

/// What a command gets to end once its input has: the watcher's half second, and a slow network.
const STOP: Duration = Duration::from_millis(1500);
/// How long output is waited for that others hold open after the command has ended. The exit status overtakes output that is
/// still under way, so this is no less than what a bad network may be silent for.
const DRAIN: Duration = Duration::from_secs(3);
/// For the last packet of a channel whose command has ended; without it the session is not kept.
const CLOSE: Duration = Duration::from_secs(1);
/// The longest signal name shown (RFC 4254 section 6.10 has short ones, and NAME@DOMAIN).
const SIGNAL_BYTES: usize = 64;

/// A command and the session it runs on.
pub(super) struct Pump<'a> {
    link: &'a Link,
    channel: Channel,
    host: &'a HostRule,
    stdout: Sink,
    stderr: Sink,
    at_limit: AtLimit,
    /// What is still to be written.
    stdin: &'a [u8],
    input: Input,
    /// The call that has to be finished first.
    unfinished: Option<Step>,
    phase: Running,
    buffer: Vec<u8>,
    queued: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    /// Open, and ended once written if nothing watches it.
    Open,
    /// To be ended.
    Ending,
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Read(Stream),
    Write,
    End,
    Keepalive,
}

#[derive(Clone, Copy)]
enum Running {
    Freely,
    /// The command has ended; its output has not.
    Draining {
        until: Instant,
    },
    Stopping {
        why: Why,
        until: Instant,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Cancelled,
    TimedOut,
    /// Its output has outgrown the content limit, and its tool wants no more then.
    AtLimit,
}

/// How the loop ended.
enum End {
    Closed,
    /// The command has ended, and others hold its output open.
    HeldOpen,
    /// Given up; the connection is to be cut.
    LetGo,
}

impl<'a> Pump<'a> {
    pub(super) fn new(
        link: &'a Link,
        channel: Channel,
        host: &'a HostRule,
        stdin: &'a [u8],
        terms: &Terms,
        ctx: &CallCtx<'_>,
    ) -> Self {
        let sink = |stream| ctx.sinks.sink(stream, kept_bytes(terms.content_bytes));
        Pump {
            link,
            channel,
            host,
            stdout: sink("stdout"),
            stderr: sink("stderr"),
            at_limit: terms.at_limit,
            stdin,
            input: if stdin.is_empty() && host.tie == Tie::None { Input::Ending } else { Input::Open },
            unfinished: None,
            phase: Running::Freely,
            buffer: vec![0; CHUNK_BYTES],
            queued: 0,
        }
    }

    /// Starts the command and sees it to its end. True if the session is good for another one.
    pub(super) fn run(mut self, command: &CString, terms: &Terms, ctx: &CallCtx<'_>) -> (Outcome, bool) {
        let limit = Limit { token: ctx.token, until: ctx.deadline };
        if let Err(stop) = self.link.drive(limit, || self.channel.exec(command)) {
            let mut failure = stopped(stop, Phase::Starting, self.host);
            failure.ended = matches!(failure.code, Code::Cancelled | Code::TimedOut).then_some(Ended::Detached);
            return (failure.into(), false);
        }
        match self.watch(ctx) {
            Ok(end) => self.outcome(end, terms, limit),
            Err(stop) => (self.broken(stop, terms, ctx), false),
        }
    }

    fn watch(&mut self, ctx: &CallCtx<'_>) -> Result<End, Stop> {
        loop {
            if let Some(end) = self.move_on(ctx) {
                return Ok(end);
            }
            let moved = self.steps().map_err(Stop::Failed)?;
            if self.unfinished.is_none() && self.channel.is_eof() && self.is_closed()? {
                return Ok(End::Closed);
            }
            let queued = self.channel.queued_bytes();
            // What a read has queued for the other stream is read before waiting; what nobody can read is not waited out.
            let readable = queued != 0 && queued != self.queued;
            self.queued = queued;
            match (moved || readable, self.phase) {
                (true, Running::Draining { .. }) if !self.is_at_limit() => self.phase = Running::Freely,
                (true, Running::Freely | Running::Draining { .. } | Running::Stopping { .. }) => {}
                (false, phase) => {
                    if matches!(phase, Running::Freely) && self.exit().is_some() {
                        self.phase = Running::Draining { until: Instant::now() + DRAIN };
                    }
                    self.wait(ctx)?;
                }
            }
        }
    }

    /// Moves on to stopping where it is due; the end, once nothing is worth waiting for.
    fn move_on(&mut self, ctx: &CallCtx<'_>) -> Option<End> {
        let now = Instant::now();
        match self.phase {
            Running::Stopping { why, until } => {
                // A command that is ended for its output alone can still be cancelled, and be late.
                let why = match why {
                    Why::AtLimit if ctx.token.is_cancelled() => Why::Cancelled,
                    Why::AtLimit if now >= ctx.deadline => Why::TimedOut,
                    Why::AtLimit | Why::Cancelled | Why::TimedOut => why,
                };
                self.phase = Running::Stopping { why, until };
                return (now >= until).then_some(End::LetGo);
            }
            Running::Draining { until } if now >= until => return Some(End::HeldOpen),
            // Cancel and deadline cannot undo what has ended by itself, but they end the wait for its output.
            Running::Draining { .. } => {
                return (ctx.token.is_cancelled() || now >= ctx.deadline).then_some(End::HeldOpen);
            }
            Running::Freely => {}
        }
        let why = match ctx.token.is_cancelled() {
            true => Why::Cancelled,
            false if now >= ctx.deadline => Why::TimedOut,
            false if self.is_at_limit() => match self.exit() {
                None => Why::AtLimit,
                // It has ended by itself; what others go on saying in its place is not waited for without end.
                Some(_) => {
                    self.phase = Running::Draining { until: now + DRAIN };
                    return None;
                }
            },
            false => return None,
        };
        self.phase = Running::Stopping { why, until: now + STOP };
        self.stdin = &[];
        if self.input == Input::Open {
            self.input = Input::Ending;
        }
        // Without the watcher nobody ends it.
        (self.host.tie == Tie::None).then_some(End::LetGo)
    }

    /// Whether more came than any result can show, and the tool wants no more then.
    fn is_at_limit(&self) -> bool {
        self.at_limit == AtLimit::Stop && !(self.stdout.is_whole() && self.stderr.is_whole())
    }

    /// One round of everything that can be done without waiting. True if something moved.
    fn steps(&mut self) -> Result<bool, Error> {
        if let Some(step) = self.unfinished {
            return self.step(step);
        }
        let mut moved = false;
        for step in [Step::Read(Stream::Stdout), Step::Read(Stream::Stderr), Step::Write, Step::End] {
            moved |= self.step(step)?;
            if self.unfinished.is_some() {
                break;
            }
        }
        Ok(moved)
    }

    fn step(&mut self, step: Step) -> Result<bool, Error> {
        let done = match step {
            Step::Read(stream) => self.read(stream),
            Step::Write if self.stdin.is_empty() => Ok(false),
            Step::Write => self.channel.write(&self.stdin[..self.stdin.len().min(CHUNK_BYTES)]).map(|taken| {
                self.stdin = &self.stdin[taken..];
                if self.stdin.is_empty() && self.host.tie == Tie::None {
                    self.input = Input::Ending;
                }
                taken > 0
            }),
            Step::End if self.input != Input::Ending => Ok(false),
            Step::End => self.channel.send_eof().map(|()| {
                self.input = Input::Ended;
                true
            }),
            Step::Keepalive => self.link.keepalive().map(|_| false),
        };
        match done {
            Ok(moved) => {
                self.unfinished = None;
                Ok(moved)
            }
            Err(error) if would_wait(&error) => {
                self.unfinished = self.link.is_sending().then_some(step);
                Ok(false)
            }
            // A command that reads no more of its input has not failed: what it says and how it ends is still to come.
            Err(_) if matches!(step, Step::Write | Step::End) && self.channel.is_eof() => {
                (self.stdin, self.input, self.unfinished) = (&[], Input::Ended, None);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn read(&mut self, stream: Stream) -> Result<bool, Error> {
        let length = self.channel.read(stream, &mut self.buffer)?;
        let sink = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        sink.write(&self.buffer[..length]);
        Ok(length > 0)
    }

    fn is_closed(&self) -> Result<bool, Stop> {
        match self.channel.wait_closed() {
            Ok(()) => Ok(true),
            Err(error) if would_wait(&error) => Ok(false),
            Err(error) => Err(Stop::Failed(error)),
        }
    }

    /// Sleeps until the socket, the cancel (while it is news), the next keepalive or the end of the time.
    fn wait(&mut self, ctx: &CallCtx<'_>) -> Result<(), Stop> {
        let mut longest = None;
        if self.unfinished.is_none() {
            match self.link.keepalive() {
                Ok(next) => longest = Some(next),
                Err(error) if would_wait(&error) => self.unfinished = self.link.is_sending().then_some(Step::Keepalive),
                Err(error) => return Err(Stop::Failed(error)),
            }
        }
        let (token, until) = match self.phase {
            Running::Freely => (Some(ctx.token), ctx.deadline),
            Running::Draining { until } => (Some(ctx.token), until.min(ctx.deadline)),
            Running::Stopping { why: Why::AtLimit, until } => (Some(ctx.token), until.min(ctx.deadline)),
            Running::Stopping { why: Why::Cancelled | Why::TimedOut, until } => (None, until),
        };
        self.link.poll(token, until, longest).map_err(Stop::Io)
    }

    /// The connection is of no more use. A cancel that cut it comes first: `kill_now` sets the flag before it cuts.
    fn broken(self, stop: Stop, terms: &Terms, ctx: &CallCtx<'_>) -> Outcome {
        let why = match self.phase {
            Running::Stopping { why: Why::AtLimit, .. } if ctx.token.is_cancelled() => Some(Why::Cancelled),
            Running::Stopping { why, .. } => Some(why),
            Running::Freely | Running::Draining { .. } => ctx.token.is_cancelled().then_some(Why::Cancelled),
        };
        match why {
            Some(Why::Cancelled) => self.cancelled(Ended::Detached).into(),
            Some(Why::TimedOut) => {
                let failure = self.timed_out(Ended::Detached, terms);
                self.shown(Finish::Stopped(failure), Vec::new(), terms)
            }
            Some(Why::AtLimit) => {
                let finish = self.at_limit(Ended::Detached);
                self.shown(finish, Vec::new(), terms)
            }
            None => {
                let failure = stopped(stop, Phase::Running, self.host);
                self.shown(Finish::Stopped(failure), Vec::new(), terms)
            }
        }
    }

    fn outcome(self, end: End, terms: &Terms, limit: Limit<'_>) -> (Outcome, bool) {
        let ended = match end {
            End::Closed | End::HeldOpen => Ended::Dead,
            End::LetGo => Ended::Detached,
        };
        match self.phase {
            Running::Stopping { why: Why::Cancelled, .. } => (self.cancelled(ended).into(), false),
            Running::Stopping { why: Why::TimedOut, .. } => {
                let failure = self.timed_out(ended, terms);
                (self.shown(Finish::Stopped(failure), Vec::new(), terms), false)
            }
            Running::Stopping { why: Why::AtLimit, .. } => {
                // Nothing went wrong: a session whose channel is closed is as good as after any other command.
                let keep = ended == Ended::Dead && self.close(limit);
                let finish = self.at_limit(ended);
                (self.shown(finish, Vec::new(), terms), keep)
            }
            Running::Freely | Running::Draining { .. } => {
                let notes = match end {
                    End::HeldOpen => vec![format!(
                        "its output was still open {DRAIN:?} after the command had ended; later output is not shown"
                    )],
                    End::Closed | End::LetGo => Vec::new(),
                };
                let closed = self.close(limit);
                let finish = self.finish();
                let keep = closed && matches!(finish, Finish::Itself(_));
                (self.shown(finish, notes, terms), keep)
            }
        }
    }

    /// Sends the last packet of the channel. False if the session is of no more use.
    fn close(&self, limit: Limit<'_>) -> bool {
        let closing = Limit { until: Instant::now() + CLOSE, ..limit };
        self.link.drive(closing, || self.channel.close()).is_ok()
    }

    fn finish(&self) -> Finish {
        self.exit().map_or_else(
            || {
                let message = format!("{} closed the channel without saying how the command ended", place(self.host));
                Finish::Stopped(Failure::new(Code::ConnectionLost, Executed::Unknown, message))
            },
            Finish::Itself,
        )
    }

    /// How the command ended, once the server has said so. The signal is looked at first: a killed command has status 0.
    fn exit(&self) -> Option<Exit> {
        let signal = self.channel.exit_signal().map(|name| Exit::Signal(signal_name(&name)));
        signal.or_else(|| self.channel.exit_status().map(Exit::Status))
    }

    /// A clause on a command that was told to end.
    fn how(&self, ended: Ended) -> &'static str {
        match (ended, self.host.tie) {
            (Ended::Dead, _) => "it was ended on the host",
            (Ended::Detached, Tie::Stdin) => "the connection was cut, which ends it on the host; its end was not seen",
            (Ended::Detached, Tie::None) => "the connection was cut; without `tie` it may still run on the host",
        }
    }

    fn cancelled(&self, ended: Ended) -> Failure {
        let message = format!("the call was cancelled; the command had begun and {}", self.how(ended));
        Failure { message, ..Failure::cancelled(Executed::Yes, Some(ended)) }
    }

    fn timed_out(&self, ended: Ended, terms: &Terms) -> Failure {
        let message = format!(
            "the command had not finished after {:?}; {}; part of its work may be done: ask for less, or raise the tool's \
             timeout_s",
            terms.timeout,
            self.how(ended)
        );
        Failure { ended: Some(ended), ..Failure::new(Code::TimedOut, Executed::Yes, message) }
    }

    fn at_limit(&self, ended: Ended) -> Finish {
        Finish::AtLimit { ended, how: self.how(ended) }
    }

    fn shown(self, finish: Finish, notes: Vec<String>, terms: &Terms) -> Outcome {
        let (stdout, stderr) = (self.stdout.finish(), self.stderr.finish());
        Outcome::command(CommandOutput { finish, stdout, stderr, notes, content_bytes: terms.content_bytes })
    }
}

/// The server's text, as far as it can be a signal's name.
fn signal_name(name: &[u8]) -> String {
    let plain = |byte: &&u8| byte.is_ascii_alphanumeric() || b"@.-_+".contains(byte);
    let name: String = name.iter().filter(plain).take(SIGNAL_BYTES).map(|byte| char::from(*byte)).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}
