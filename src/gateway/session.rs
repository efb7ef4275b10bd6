//! The loop: one thread reads stdin, registers, cancels, admits, answers what needs no work, and leads to the one end.
//!
//! It waits in one poll over stdin, its mailbox, the error state of stdout and the nearest deadline, and nowhere else.
//!
//! ```text
//! Serving ──EOF, signal, malformed line, stdout broken or stalled──▶ Ending ──calls gone──▶ Draining ──written──▶ done
//!                                                                      └──── 2 s after the beginning of the end ──▶ done
//! ```
//! Why nothing blocks: a worker's reply goes into an outbox that takes it at once, since every admitted call holds a
//! reservation for its reply and its progress; the reader's own replies have room of their own, and what does not fit leaves its
//! id behind for a `busy`; the writer never sleeps in a write; no lock is held across IO. So no ring of full queues can form.
//! Why memory is bounded: reservations are, that room is, and those ids are. Once they fill theirs too, the next line stays
//! where it is, in the buffer and then in the pipe, until the writer made room; until then every line is taken, so every
//! cancel is. If nothing leaves for 30 s while something is owed, the session ends and says why.
//! Why a ping is answered soon: a long line is handed on as it lies, this thread and the writer go before workers, and no worker is
//! woken for a long line before what came right behind it was looked at (`session/waking.rs`).

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cancel::CancelToken;
use crate::clock::Allowance;
use crate::config::{OnMalformed, SessionRules};
use crate::gateway::answer::{self, RequestKind};
use crate::gateway::inflight::{Admitted, Cancelled, NotAdmitted};
use crate::gateway::live::Announcement;
use crate::gateway::pool::Pool;
use crate::gateway::progress::Track;
use crate::gateway::shared::{Event, Job, Shared};
use crate::gateway::status;
use crate::gateway::waiting::Replies;
use crate::gateway::writer::{Release, WriterTold};
use crate::journal::refusals::{self, Begun, Fingerprint};
use crate::limits::{
    END, QUESTION_REPLY_BYTES, REFUSAL_LINE_EVERY, REFUSAL_LINES, REPLY_FRAME_BYTES, STALL, UNADDRESSED_ERROR_EVERY,
    UNADDRESSED_ERRORS,
};
use crate::mcp::call::{Asked, Call, Listen, Step};
use crate::mcp::era::{Era, Origin};
use crate::mcp::question::Questions;
use crate::mcp::render::{render, render_acknowledged, render_tools_changed, render_unaddressed_error};
use crate::mcp::reply::Reply;
use crate::mcp::session::{Note, Session};
use crate::mcp::subscription::Subscriptions;
use crate::outcome::result::Executed;
use crate::policy::rules::Confirm;
use crate::rpc::error::RpcError;
use crate::rpc::id::Id;
use crate::rpc::message::{self, Class, Malformed, Message, Request};
use crate::sys::turns::{Turns, take_turns};
use crate::sys::{self, Poll};
use crate::thread::{self, Thread};
use crate::wire::frame::{Frame, FrameError, Lines};
use crate::wire::outbox::Ticket;
use crate::wire::stdio::{Input, Output};

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// End of file on stdin.
    Eof,
    /// SIGTERM or SIGINT.
    Signal,
    /// A malformed line closed it.
    Malformed,
    /// stdout takes nothing any more.
    StdoutBroken,
    /// stdin cannot be read.
    StdinBroken,
    /// Not one byte left for the stall limit while something waited.
    Stalled,
}

impl Cause {
    /// The process's exit code: a documented contract.
    pub fn exit_code(self) -> u8 {
        match self {
            Cause::Eof | Cause::Signal => 0,
            Cause::Malformed => 65,
            Cause::StdoutBroken | Cause::StdinBroken | Cause::Stalled => 74,
        }
    }
}

/// The loop's own state.
pub struct Reader {
    _release: Release,
    shared: Arc<Shared>,
    input: Input,
    output: Arc<Output>,
    lines: Lines,
    /// What is known of the line that has begun.
    begun: Begun,
    session: Session,
    subscriptions: Subscriptions,
    questions: Questions<Ticket>,
    rules: SessionRules,
    pool: Pool,
    writer: Option<Thread>,
    phase: Phase,
    replies: Replies,
    /// Lines may stand in the buffer that are not taken, since when.
    unread_since: Option<Instant>,
    unaddressed: Allowance,
    told: Allowance,
    /// Calls for which no worker was woken yet.
    unannounced: waking::Unannounced,
    /// A legacy session has not yet heard that the tool list has changed.
    owes_change: bool,
}

enum Phase {
    Serving,
    Ending { cause: Cause, began: Instant, grace: Duration, told: bool },
    Draining { cause: Cause, began: Instant },
}

impl Reader {
    /// Readies a session over `input` and `output` and starts its writer.
    pub fn start(shared: Arc<Shared>, input: Input, output: Output, session: Session, rules: SessionRules) -> io::Result<Self> {
        let output = Arc::new(output);
        let (for_writer, writer_output) = (shared.clone(), output.clone());
        let writer = thread::spawn("tg-writer", move || {
            take_turns(Turns::Short);
            let told = WriterTold(for_writer);
            told.0.outbox.write_all_to(&writer_output, &told);
        })?;
        Ok(Reader {
            lines: Lines::new(shared.limits.line_in_bytes),
            begun: Begun::default(),
            pool: Pool::new(shared.limits.workers),
            _release: Release(shared.clone()),
            shared,
            input,
            output,
            session,
            subscriptions: Subscriptions::new(),
            questions: Questions::new(),
            rules,
            writer: Some(writer),
            phase: Phase::Serving,
            replies: Replies::default(),
            unread_since: None,
            unaddressed: Allowance::new(UNADDRESSED_ERRORS, UNADDRESSED_ERROR_EVERY),
            told: Allowance::new(REFUSAL_LINES, REFUSAL_LINE_EVERY),
            unannounced: waking::Unannounced::default(),
            owes_change: false,
        })
    }

    /// Serves until the end; everything is joined or let go when it returns.
    pub fn run(mut self) -> Cause {
        take_turns(Turns::Short);
        loop {
            self.take_events();
            self.catch_up();
            self.see_to_questions();
            if let Some(cause) = self.step() {
                return self.finish(cause);
            }
            self.wait_and_read();
        }
    }

    fn take_events(&mut self) {
        for event in self.shared.mailbox.empty() {
            match event {
                Event::End => self.end(Cause::Signal),
                Event::EndNow => {
                    self.end(Cause::Signal);
                    self.shared.inflight.kill_running();
                }
                Event::PrintCounters => self.shared.print_counters(),
                Event::Reloaded => self.reloaded(),
                Event::StdoutBroken => self.end(Cause::StdoutBroken),
                Event::Stalled => {
                    log::warn!("session ended: stdout took not one byte for {} s while an answer waited", STALL.as_secs());
                    self.end(Cause::Stalled);
                }
            }
        }
    }

    /// Another configuration is at work: from here on it is announced, and whoever asked hears that the list has changed.
    fn reloaded(&mut self) {
        let Some(Announcement { listing, instructions, rules }) = self.shared.mailbox.take_announcement() else { return };
        self.rules = rules;
        if self.session.announce(listing, Some(instructions)) && matches!(self.phase, Phase::Serving) {
            self.subscriptions.tools_changed();
            self.owes_change = self.session.ready().is_some();
            self.tell_changes();
        }
    }

    /// One line each, as there is room: however often the list changes meanwhile, each is owed one.
    fn tell_changes(&mut self) {
        while self.replies.has_room(&self.shared.outbox) {
            let line = match std::mem::take(&mut self.owes_change) {
                true => render_tools_changed(None),
                false => match self.subscriptions.take_owed() {
                    Some(id) => render_tools_changed(Some(&id)),
                    None => return,
                },
            };
            self.replies.send_unaddressed(line, &self.shared.outbox);
        }
    }

    /// What had to wait for the writer: replies that are owed, notices of a change, then lines not yet taken.
    fn catch_up(&mut self) {
        self.replies.catch_up(&self.shared.outbox);
        self.tell_changes();
        if self.unread_since.is_some() {
            self.take_lines();
        }
    }

    /// One poll; then, while serving, everything that stdin has now, up to one read.
    fn wait_and_read(&mut self) {
        let is_reading = matches!(self.phase, Phase::Serving) && self.unread_since.is_none();
        // A broken stdout stays ready for ever: once it is known, or only the writer is waited for, it is no news.
        let is_watching = !matches!(self.phase, Phase::Draining { .. }) && !self.shared.outbox.is_broken();
        let owed = self.unannounced;
        let waits = [owed.patience(), self.timeout(), self.tell_progress(), self.until_overdue()];
        let timeout = waits.into_iter().flatten().min();
        let mut fds = vec![Poll::readable(self.shared.mailbox.bell())];
        if is_watching {
            fds.push(Poll::broken(self.output.fd()));
        }
        if is_reading {
            fds.push(Poll::readable(self.input.fd()));
        }
        if let Err(error) = sys::poll(&mut fds, timeout) {
            log::error!("poll failed: {error}");
            return self.end(Cause::StdinBroken);
        }
        let is_broken = is_watching && fds[1].is_broken();
        let is_readable = is_reading && fds.last().is_some_and(Poll::is_ready);
        drop(fds);
        if is_broken {
            self.end(Cause::StdoutBroken);
        }
        if is_readable && matches!(self.phase, Phase::Serving) {
            self.read();
        }
        self.wake_workers(owed);
    }

    /// Whether another line may be taken, whatever it asks; counts the waits for that.
    fn has_room(&mut self) -> bool {
        self.replies.catch_up(&self.shared.outbox);
        let has_room = !self.replies.is_full();
        match (has_room, self.unread_since) {
            (false, None) => self.unread_since = Some(Instant::now()),
            (true, Some(since)) => {
                self.shared.counters.waited(since.elapsed());
                self.unread_since = None;
            }
            (false, Some(_)) | (true, None) => {}
        }
        has_room
    }

    fn timeout(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Serving => None,
            Phase::Ending { began, grace, told: false, .. } => Some(grace.saturating_sub(began.elapsed())),
            Phase::Ending { began, .. } | Phase::Draining { began, .. } => Some(END.saturating_sub(began.elapsed())),
        }
    }

    /// Tells how far calls have come, where somebody asked; when to look again, `None` if nobody does.
    fn tell_progress(&self) -> Option<Duration> {
        let Shared { inflight, outbox, clock, .. } = &*self.shared;
        let (notices, rest) = inflight.progress(|admitted| clock.since(admitted));
        for (ticket, notice) in notices {
            inflight.tell(ticket, notice.render(), outbox);
        }
        rest
    }

    fn read(&mut self) {
        match self.input.read(self.lines.spare()) {
            Ok(0) => {
                let mut lines = std::mem::replace(&mut self.lines, Lines::new(0));
                if let Some(error) = lines.finish() {
                    self.bad_frame(error, lines.last());
                }
                self.end(Cause::Eof);
            }
            Ok(count) => {
                self.shared.counters.bytes_in.add(count as u64);
                self.lines.filled(count);
                self.take_lines();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => {
                log::error!("stdin cannot be read: {error}");
                self.end(Cause::StdinBroken);
            }
        }
    }

    fn take_lines(&mut self) {
        // The buffer is lent out while a line of it is looked at; nothing below reads stdin.
        let mut lines = std::mem::replace(&mut self.lines, Lines::new(0));
        while matches!(self.phase, Phase::Serving) && self.has_room() {
            match lines.next_frame() {
                Some(Ok(frame)) => {
                    self.shared.counters.frames_in.add(1);
                    self.shared.counters.largest_in.raise(frame.bytes() as u64);
                    self.take_line(&frame);
                }
                Some(Err(error)) => self.bad_frame(error, lines.last()),
                None => {
                    self.shared.journal.begin(lines.unfinished(), &mut self.begun);
                    break;
                }
            }
            self.begun = Begun::default();
        }
        self.lines = lines;
    }

    fn bad_frame(&mut self, error: FrameError, line: &[u8]) {
        let line = match error {
            FrameError::TooLong { seen, .. } => Fingerprint::of_discarded(seen),
            FrameError::NotUtf8 { .. } | FrameError::Unterminated { .. } => self.fingerprint(line),
        };
        self.refuse(&Malformed::from(error), line);
    }

    fn fingerprint(&self, line: &[u8]) -> Fingerprint {
        self.shared.journal.fingerprint(line, &self.begun)
    }

    fn take_line(&mut self, frame: &Frame<'_>) {
        let line = frame.text();
        match message::read(frame) {
            Ok(Message::Request(request)) => self.take_request(&request, line),
            Ok(Message::Notification(notification)) => match self.session.notification(&notification) {
                Note::Cancel { id, reason: _ } => self.cancel(&id),
                Note::CancelOfNothing => self.shared.counters.cancels.add("no_id"),
                Note::Initialized | Note::Ignored => {}
            },
            Ok(Message::Response(response)) => self.take_answer(&response),
            Ok(Message::Ignored(kind)) => {
                self.shared.refused(refusals::stage_of(kind), kind.name(), self.fingerprint(line.as_bytes()), None);
            }
            Ok(Message::Unaddressed(_)) => {}
            Err(malformed) => self.refuse(&malformed, self.fingerprint(line.as_bytes())),
        }
    }

    fn take_request(&mut self, request: &Request<'_>, line: &str) {
        if self.is_in_flight(request.id()) {
            return self.refuse(&Malformed::id_in_flight(request.id()), self.fingerprint(line.as_bytes()));
        }
        let asked = RequestKind::by(request.method());
        match self.session.request(request) {
            Step::Answer(origin, reply) => {
                let reply = match reply {
                    Reply::Error(error) => {
                        self.refused(refusals::CALL, answer::protocol_reason(error.code), line, &origin);
                        Reply::Error(if asked == RequestKind::Call { answer::bad_call(error) } else { error })
                    }
                    reply => reply,
                };
                self.answer(&origin, asked, &reply);
            }
            Step::Call(call) if call.tool() == status::NAME => self.answer_status(&call, line),
            Step::Call(call) => self.admit(call, line),
            Step::Listen(listen) => self.listen(listen, line),
        }
    }

    /// Whether a request with this id is still to be answered.
    fn is_in_flight(&self, id: &Id) -> bool {
        let Shared { inflight, outbox, .. } = &*self.shared;
        inflight.is_taken(id, outbox) || self.subscriptions.contains(id) || self.replies.contains(id)
    }

    /// A request was refused without a worker having seen it.
    fn refused(&self, stage: &'static str, reason: &'static str, line: &str, origin: &Origin) {
        self.shared.refused(stage, reason, self.fingerprint(line.as_bytes()), Some(origin.era));
    }

    fn answer(&mut self, origin: &Origin, asked: RequestKind, reply: &Reply) {
        self.send(origin, asked, render(origin, reply));
    }

    /// Sends what the reader has to say to a request; false where a `busy` will be sent instead.
    fn send(&mut self, origin: &Origin, asked: RequestKind, line: String) -> bool {
        let is_sent = self.replies.send(origin, asked, line, &self.shared.outbox);
        self.shared.counters.waiting_ids.add(u64::from(!is_sent));
        is_sent
    }

    fn answer_status(&mut self, call: &Call, line: &str) {
        let outcome = status::outcome(&self.shared, call.arguments());
        if let Some(code) = outcome.code {
            self.refused(refusals::ACTION, code.as_str(), line, call.origin());
        }
        self.answer(call.origin(), RequestKind::Call, &answer::outcome(outcome, Duration::ZERO));
    }

    fn admit(&mut self, call: Call, line: &str) {
        let live = self.shared.live();
        let rule = live.tools.find(call.tool()).map(|(_, rule)| rule);
        let timeout = rule.map_or(self.shared.limits.call_timeout, |rule| rule.timeout);
        let origin = call.origin().clone();
        let asked = call.asked().clone();
        let asks = rule.is_some_and(|rule| rule.confirm != Confirm::Never);
        let content_bytes = rule.map_or(self.shared.limits.content_bytes, |rule| rule.content_bytes);
        let content_bytes = if asks { content_bytes.max(QUESTION_REPLY_BYTES) } else { content_bytes };
        let reply_bytes = content_bytes + origin.id.to_json().len() + REPLY_FRAME_BYTES;
        let token = match CancelToken::new() {
            Ok(token) => token,
            Err(error) => return self.no_resources(&origin, &asked, line, &error),
        };
        let (admitted, meter) = (Instant::now(), Arc::default());
        let track = Track::of(&call, &meter, admitted);
        let (call, line_print) = (Arc::new(call), self.fingerprint(line.as_bytes()));
        let job =
            Job { call, admitted, timeout, line: line_print, meter, approval: None, parked: None, waited: Duration::ZERO };
        let admission = self.shared.inflight.admit(origin.id.clone(), Admitted { job, token }, track, line.len(), reply_bytes);
        if admission.is_ok() {
            self.wake_worker(line.len());
        }
        match admission {
            Ok(true) => {
                if let Err(error) = self.pool.grow(&self.shared) {
                    self.shared.inflight.cancel(&origin.id, &self.shared.outbox);
                    self.no_resources(&origin, &asked, line, &error);
                }
            }
            Ok(false) => {}
            Err(why) => self.busy(&origin, &asked, line, why),
        }
    }

    fn busy(&mut self, origin: &Origin, asked: &Asked, line: &str, why: NotAdmitted) {
        self.refused(refusals::ADMISSION, "busy", line, origin);
        self.answer(origin, RequestKind::of(asked), &answer::busy(asked, why, self.shared.limits.calls));
    }

    fn no_resources(&mut self, origin: &Origin, asked: &Asked, line: &str, error: &io::Error) {
        self.refused(refusals::ADMISSION, "no_resources", line, origin);
        let message = format!("the system has no room for another call: {error}");
        self.answer(origin, RequestKind::of(asked), &answer::fault(asked, Executed::No, &message));
    }

    fn cancel(&mut self, id: &Id) {
        if self.subscriptions.remove(id) {
            return self.shared.counters.cancels.add("subscription");
        }
        if self.replies.cancel(id) {
            return self.shared.counters.cancels.add("waiting");
        }
        let cancelled = match self.shared.inflight.cancel(id, &self.shared.outbox) {
            Cancelled::Queued => "queued",
            Cancelled::Waiting(ticket) => {
                self.withdraw_question(ticket, "the call was cancelled");
                "waiting_for_approval"
            }
            Cancelled::Running => "running",
            Cancelled::Withdrawn => "withdrawn",
            Cancelled::TooLate => "too_late",
            Cancelled::Unknown if self.replies.take_back(id, &self.shared.outbox) => "withdrawn",
            Cancelled::Unknown => "unknown",
        };
        self.shared.counters.cancels.add(cancelled);
    }

    fn listen(&mut self, listen: Listen, line: &str) {
        let (origin, acknowledged) = (listen.origin().clone(), render_acknowledged(&listen));
        match self.subscriptions.insert(listen) {
            Ok(()) if self.send(&origin, RequestKind::Other, acknowledged) => {}
            // A subscription begins with its acknowledgement, or not at all.
            Ok(()) => {
                self.subscriptions.remove(&origin.id);
            }
            Err(error) => {
                self.refused(refusals::ADMISSION, "subscriptions", line, &origin);
                self.answer(&origin, RequestKind::Other, &Reply::Error(error));
            }
        }
    }

    /// A line that is no message, or a request that may not be: answered once, and by its class it ends the session.
    fn refuse(&mut self, malformed: &Malformed, line: Fingerprint) {
        let kind = malformed.kind();
        self.shared.refused(refusals::stage_of(kind), kind.name(), line, None);
        let error = answer::bad_line(malformed.to_error());
        // Under the id of a request that is still to be answered the client would take it for that answer.
        match malformed.id().filter(|id| !self.is_in_flight(id)) {
            Some(id) => self.answer(&Origin { id: id.clone(), era: Era::Modern }, RequestKind::Other, &Reply::Error(error)),
            None => self.send_unaddressed(&error),
        }
        if malformed.class() == Class::Lost {
            self.lost(malformed);
        }
    }

    /// The peer has lost framing. The operator learns kind and place, never the text, and of a flood only its beginning.
    fn lost(&mut self, malformed: &Malformed) {
        let place = malformed.at().map(|column| format!(" at column {column}")).unwrap_or_default();
        let what = format!("a line that is no message: {}{place}", malformed.kind().name());
        match self.rules.on_malformed {
            OnMalformed::Close => {
                log::warn!("session closed by {what}");
                self.end(Cause::Malformed);
            }
            OnMalformed::Continue if self.told.take() => log::warn!("refused {what}"),
            OnMalformed::Continue => {}
        }
    }

    fn send_unaddressed(&mut self, error: &RpcError) {
        let line = self.unaddressed.take().then(|| render_unaddressed_error(error, self.session.null_id()));
        if !line.is_some_and(|line| self.replies.send_unaddressed(line, &self.shared.outbox)) {
            self.shared.counters.refusals.add("unanswered");
        }
    }
}

mod end;
mod questions;
mod waking;

#[cfg(test)]
mod tests;
