//! Calls between admission and the last byte of their reply: the table, the queue of those not yet started, and who may answer.
//!
//! ```text
//! admit ─▶ Queued ──worker──▶ Running ──finish──▶ Replying ──last byte left──▶ gone
//!           │ │ ▲               │ │ cancel            │ cancel: reply withdrawn if no byte left ─▶ gone
//!    cancel │ │ └─resume─ Waiting◀┘park
//!           ▼ ▼            │ cancel       Silenced ──finish──▶ gone (nothing is sent)
//!          gone ◀──────────┘
//! ```
//! One mutex, held for a few instructions, never across IO. Whoever removes an entry or finds it silenced sends nothing, so
//! two replies, or a reply after a cancel, cannot be written; nor can progress behind either, whose track goes under the same
//! lock. The queue lives in the table and not in a channel because a cancelled call must give its slot back at once, behind
//! sixteen busy workers too.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cancel::{CancelToken, Why};
use crate::gateway::progress::{Notice, Stage, Track};
use crate::limits::{ADMITTED_BYTES, RESERVED_BYTES};
use crate::outcome::artifact::Stored;
use crate::rpc::id::Id;
use crate::wire::outbox::{Frame, Outbox, Ticket};

/// Why a call is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAdmitted {
    /// As many calls as allowed are under way.
    Calls,
    /// The request lines of admitted calls fill their room.
    LineBytes,
    /// The replies reserved for admitted calls fill their room.
    ReplyBytes,
}

/// What a cancel found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It had not started; it never will.
    Queued,
    /// It waited for an approval; its question is to be withdrawn.
    Waiting(Ticket),
    /// It runs; its work is being ended.
    Running,
    /// Its reply had not begun to leave and was withdrawn.
    Withdrawn,
    /// Its reply is leaving.
    TooLate,
    /// No such call.
    Unknown,
}

/// What is known of a call that waits for a worker or runs.
pub struct Admitted<J> {
    /// What the worker does.
    pub job: J,
    /// Cancels it.
    pub token: CancelToken,
}

enum State<J> {
    Queued(J),
    /// For an approval by `by`.
    Waiting {
        job: J,
        by: &'static str,
    },
    Running,
    Silenced,
    Replying,
}

struct Entry<J> {
    id: Id,
    state: State<J>,
    token: CancelToken,
    line_bytes: usize,
    reply_bytes: usize,
    /// What its reply names: goes with an entry whose reply did not leave.
    stored: Vec<Stored>,
}

struct Table<J> {
    entries: HashMap<Ticket, Entry<J>>,
    by_id: HashMap<Id, Ticket>,
    /// Of calls that are queued or run, and whose client asked for progress.
    tracks: HashMap<Ticket, Track>,
    queue: VecDeque<Ticket>,
    line_bytes: usize,
    reply_bytes: usize,
    idle_workers: usize,
    /// Stored results of replies that were taken back: a worker removes the files.
    withdrawn: Vec<Vec<Stored>>,
    is_closed: bool,
    last: Ticket,
}

/// The table of calls under way.
pub struct Inflight<J> {
    table: Mutex<Table<J>>,
    work: Condvar,
    calls_max: usize,
}

impl<J> Table<J> {
    fn remove(&mut self, ticket: Ticket) -> Option<Entry<J>> {
        let entry = self.entries.remove(&ticket)?;
        self.line_bytes -= entry.line_bytes;
        self.reply_bytes -= entry.reply_bytes;
        self.forget_id(&entry.id, ticket);
        Some(entry)
    }

    /// After a cancel the id is the client's again; it may already name another call.
    fn forget_id(&mut self, id: &Id, ticket: Ticket) {
        if self.by_id.get(id) == Some(&ticket) {
            self.by_id.remove(id);
        }
    }
}

impl<J> Inflight<J> {
    /// An empty table that admits `calls_max` calls at once.
    pub fn new(calls_max: usize) -> Self {
        let table = Table {
            entries: HashMap::new(),
            by_id: HashMap::new(),
            tracks: HashMap::new(),
            queue: VecDeque::new(),
            line_bytes: 0,
            reply_bytes: 0,
            idle_workers: 0,
            withdrawn: Vec::new(),
            is_closed: false,
            last: 0,
        };
        Inflight { table: Mutex::new(table), work: Condvar::new(), calls_max }
    }

    fn lock(&self) -> MutexGuard<'_, Table<J>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request with this id is under way. `outbox`: a reply in the writer's hand is waited for (microseconds), so that
    /// a client that has its reply may use the id again at once.
    pub fn is_taken(&self, id: &Id, outbox: &Outbox) -> bool {
        let is_replying = {
            let table = self.lock();
            let Some(entry) = table.by_id.get(id).and_then(|ticket| table.entries.get(ticket)) else { return false };
            matches!(entry.state, State::Replying)
        };
        if is_replying {
            outbox.settle();
        }
        self.lock().by_id.contains_key(id)
    }

    /// Admits a call: `line_bytes` of request, `reply_bytes` reserved for its reply; what its progress takes (`track`: somebody
    /// asked for it) is reserved as well. The caller has checked `is_taken`, and calls `wake` soon. Ok(true): no worker is free to
    /// take it now.
    pub fn admit(
        &self,
        id: Id,
        call: Admitted<J>,
        track: Option<Track>,
        line_bytes: usize,
        reply_bytes: usize,
    ) -> Result<bool, NotAdmitted> {
        let reply_bytes = reply_bytes + track.as_ref().map_or(0, Track::reserved_bytes);
        let mut table = self.lock();
        if table.entries.len() >= self.calls_max {
            return Err(NotAdmitted::Calls);
        }
        if table.line_bytes + line_bytes > ADMITTED_BYTES {
            return Err(NotAdmitted::LineBytes);
        }
        if table.reply_bytes + reply_bytes > RESERVED_BYTES {
            return Err(NotAdmitted::ReplyBytes);
        }
        table.last += 1;
        let ticket = table.last;
        table.line_bytes += line_bytes;
        table.reply_bytes += reply_bytes;
        table.by_id.insert(id.clone(), ticket);
        let entry =
            Entry { id, state: State::Queued(call.job), token: call.token, line_bytes, reply_bytes, stored: Vec::new() };
        table.entries.insert(ticket, entry);
        if let Some(track) = track {
            table.tracks.insert(ticket, track);
        }
        table.queue.push_back(ticket);
        Ok(table.idle_workers < table.queue.len())
    }

    /// Wakes a worker for a call that was admitted.
    pub fn wake(&self) {
        self.work.notify_one();
    }

    /// A worker's next call; `None` once the table is closed and nothing is queued.
    pub fn next(&self) -> Option<(Ticket, Admitted<J>)> {
        let mut table = self.lock();
        loop {
            while let Some(ticket) = table.queue.pop_front() {
                let Some(entry) = table.entries.get_mut(&ticket) else { continue };
                if let State::Queued(job) = std::mem::replace(&mut entry.state, State::Running) {
                    return Some((ticket, Admitted { job, token: entry.token.clone() }));
                }
            }
            if let Some(withdrawn) = table.withdrawn.pop() {
                // A slow disk keeps this worker, and neither the reader nor the table.
                drop(table);
                drop(withdrawn);
                table = self.lock();
                continue;
            }
            if table.is_closed {
                return None;
            }
            table.idle_workers += 1;
            table = self.work.wait(table).unwrap_or_else(PoisonError::into_inner);
            table.idle_workers -= 1;
        }
    }

    /// A running call waits for an approval by `by`, without its worker. False: it was cancelled, and is gone.
    pub fn park(&self, ticket: Ticket, job: J, by: &'static str) -> bool {
        let mut table = self.lock();
        match table.entries.get_mut(&ticket) {
            Some(entry) if matches!(entry.state, State::Running) => {
                entry.state = State::Waiting { job, by };
                true
            }
            _ => {
                let gone = table.remove(ticket);
                drop(table);
                drop((gone, job));
                false
            }
        }
    }

    /// A call that waited is queued again, before all others: it has waited long enough. Without effect on one that is gone.
    pub fn resume(&self, ticket: Ticket, change: impl FnOnce(&mut J)) {
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(&ticket) else { return };
        entry.state = match std::mem::replace(&mut entry.state, State::Running) {
            State::Waiting { mut job, .. } => {
                change(&mut job);
                State::Queued(job)
            }
            other => {
                entry.state = other;
                return;
            }
        };
        table.queue.push_front(ticket);
        self.work.notify_one();
    }

    /// Takes a call that waits for an approval; the caller answers it.
    pub fn take_waiting(&self, ticket: Ticket) -> Option<Admitted<J>> {
        let mut table = self.lock();
        let entry = table.entries.get_mut(&ticket)?;
        match std::mem::replace(&mut entry.state, State::Running) {
            State::Waiting { job, .. } => Some(Admitted { job, token: entry.token.clone() }),
            other => {
                entry.state = other;
                None
            }
        }
    }

    /// Calls that wait for an approval.
    pub fn waiting(&self) -> Vec<Ticket> {
        let table = self.lock();
        let waiting = table.entries.iter().filter(|(_, entry)| matches!(entry.state, State::Waiting { .. }));
        waiting.map(|(ticket, _)| *ticket).collect()
    }

    /// Whether more calls are queued than workers are free to take them.
    pub fn needs_worker(&self) -> bool {
        let table = self.lock();
        table.idle_workers < table.queue.len()
    }

    /// The work of a call has ended; its reply is handed to the outbox unless the call was silenced. True if it was.
    pub fn finish(&self, ticket: Ticket, line: String, stored: Vec<Stored>, outbox: &Outbox) -> bool {
        let mut table = self.lock();
        table.tracks.remove(&ticket);
        match table.entries.get_mut(&ticket) {
            Some(entry) if !matches!(entry.state, State::Silenced) => {
                (entry.state, entry.stored) = (State::Replying, stored);
            }
            _ => {
                let gone = table.remove(ticket);
                // Files are unlinked without the table locked.
                drop(table);
                drop((gone, stored));
                return false;
            }
        }
        // The outbox takes its own lock for a few instructions and never this one while holding it.
        let is_sent = outbox.push(Frame::new(line, Some(ticket)));
        let gone = if is_sent { None } else { table.remove(ticket) };
        drop(table);
        drop(gone);
        is_sent
    }

    /// The last byte of a call's reply has left: what it names stays.
    pub fn left(&self, ticket: Ticket) {
        let entry = self.lock().remove(ticket);
        entry.iter().flat_map(|entry| &entry.stored).for_each(Stored::keep);
    }

    /// A call's reply was taken back: what it names goes, by a worker's hand.
    fn withdrawn(&self, ticket: Ticket) {
        let mut table = self.lock();
        let stored = table.remove(ticket).map(|entry| entry.stored).unwrap_or_default();
        if !stored.is_empty() {
            table.withdrawn.push(stored);
            self.work.notify_one();
        }
    }

    /// The client cancels request `id`: nothing more leaves for it, and its work is ended.
    pub fn cancel(&self, id: &Id, outbox: &Outbox) -> Cancelled {
        let mut table = self.lock();
        let Some(&ticket) = table.by_id.get(id) else { return Cancelled::Unknown };
        let may_have_told = table.tracks.remove(&ticket).is_some();
        let Some(entry) = table.entries.get_mut(&ticket) else { return Cancelled::Unknown };
        match entry.state {
            State::Queued(_) | State::Waiting { .. } => {
                let is_waiting = matches!(entry.state, State::Waiting { .. });
                table.remove(ticket);
                table.queue.retain(|queued| *queued != ticket);
                drop(table);
                withdraw_progress(may_have_told, ticket, outbox);
                if is_waiting { Cancelled::Waiting(ticket) } else { Cancelled::Queued }
            }
            State::Running => {
                entry.state = State::Silenced;
                let token = entry.token.clone();
                table.forget_id(id, ticket);
                drop(table);
                token.cancel(Why::Client);
                withdraw_progress(may_have_told, ticket, outbox);
                Cancelled::Running
            }
            State::Replying => {
                // The writer may hold the frame for a system call, at whose end it takes this lock.
                drop(table);
                if outbox.withdraw(ticket) {
                    self.withdrawn(ticket);
                    Cancelled::Withdrawn
                } else {
                    Cancelled::TooLate
                }
            }
            State::Silenced => Cancelled::TooLate,
        }
    }

    /// What is to be told now of calls whose client asked for progress, and when to ask again: `None`, no such call is open.
    /// `age`: how long it is since a call was admitted.
    pub fn progress(&self, age: impl Fn(Instant) -> Duration) -> (Vec<(Ticket, Notice)>, Option<Duration>) {
        let mut table = self.lock();
        let Table { tracks, entries, .. } = &mut *table;
        let (mut notices, mut rest) = (Vec::new(), None);
        for (ticket, track) in tracks {
            let stage = match entries.get(ticket).map(|entry| &entry.state) {
                Some(State::Queued(_)) => Stage::Queued,
                Some(State::Waiting { by, .. }) => Stage::Waiting(by),
                Some(State::Running | State::Silenced | State::Replying) | None => Stage::Running,
            };
            let age = age(track.admitted());
            let notice = track.notice(age, stage);
            notices.extend(notice.map(|notice| (*ticket, notice)));
            rest = Some(rest.map_or(track.rest(age), |rest: Duration| rest.min(track.rest(age))));
        }
        (notices, rest)
    }

    /// Hands a progress notification to the outbox, in place of one of the same call that waits there, unless the call was
    /// answered or cancelled meanwhile.
    pub fn tell(&self, ticket: Ticket, line: String, outbox: &Outbox) -> bool {
        let table = self.lock();
        table.tracks.contains_key(&ticket) && outbox.push(Frame::progress(line, ticket))
    }

    /// Takes what has not started; the caller answers it.
    pub fn take_queued(&self) -> Vec<(Ticket, Admitted<J>)> {
        let mut table = self.lock();
        let queue = std::mem::take(&mut table.queue);
        let mut taken = Vec::new();
        for ticket in queue {
            let Some(entry) = table.entries.get_mut(&ticket) else { continue };
            if let State::Queued(job) = std::mem::replace(&mut entry.state, State::Running) {
                taken.push((ticket, Admitted { job, token: entry.token.clone() }));
            }
        }
        taken
    }

    /// Cancels everything that runs because the session ends; the calls are still answered.
    pub fn end_running(&self) {
        self.tokens().iter().for_each(|token| token.cancel(Why::SessionEnd));
    }

    /// Kills everything that runs, without any grace.
    pub fn kill_running(&self) {
        self.tokens().iter().for_each(CancelToken::kill_now);
    }

    fn tokens(&self) -> Vec<CancelToken> {
        self.lock().entries.values().map(|entry| entry.token.clone()).collect()
    }

    /// Lets the workers end once nothing is queued.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_all();
    }

    /// Calls under way: admitted, and the last byte of the reply has not left (or the silenced work has not ended).
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether no call is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no work is left: what is still here only waits for its reply to leave.
    pub fn is_idle(&self) -> bool {
        self.lock().entries.values().all(|entry| matches!(entry.state, State::Replying))
    }
}

/// After a cancel nothing is said of a call's progress either; the caller has let go of the table, as for its reply.
fn withdraw_progress(may_have_told: bool, ticket: Ticket, outbox: &Outbox) {
    if may_have_told {
        outbox.withdraw(ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> Id {
        Id::parse(&number.to_string()).unwrap()
    }

    struct Rig {
        calls: Inflight<u32>,
        outbox: Outbox,
    }

    impl Rig {
        fn new(calls_max: usize) -> Self {
            Rig { calls: Inflight::new(calls_max), outbox: Outbox::new().unwrap() }
        }

        fn admit(&self, number: u32) -> Result<bool, NotAdmitted> {
            let call = Admitted { job: number, token: CancelToken::new().unwrap() };
            self.calls.admit(id(number), call, None, 100, 1000)
        }

        fn is_taken(&self, number: u32) -> bool {
            self.calls.is_taken(&id(number), &self.outbox)
        }

        fn cancel(&self, number: u32) -> Cancelled {
            self.calls.cancel(&id(number), &self.outbox)
        }
    }

    #[test]
    fn a_call_goes_from_queue_to_reply_and_is_gone_when_its_reply_left() {
        let rig = Rig::new(2);
        assert_eq!(rig.admit(1), Ok(true));
        assert!(rig.is_taken(1));
        let (ticket, call) = rig.calls.next().unwrap();
        assert_eq!(call.job, 1);
        assert!(rig.calls.finish(ticket, "{}".to_owned(), Vec::new(), &rig.outbox));
        assert!(rig.is_taken(1));
        rig.calls.left(ticket);
        assert!(!rig.is_taken(1));
        assert!(rig.calls.is_empty());
    }

    #[test]
    fn a_cancelled_queued_call_never_starts_and_frees_its_slot_at_once() {
        let rig = Rig::new(1);
        rig.admit(1).unwrap();
        assert_eq!(rig.admit(2), Err(NotAdmitted::Calls));
        assert_eq!(rig.cancel(1), Cancelled::Queued);
        rig.admit(2).unwrap();
        assert_eq!(rig.calls.next().unwrap().1.job, 2);
    }

    #[test]
    fn a_cancelled_running_call_keeps_its_slot_until_its_work_ends_and_says_nothing() {
        let rig = Rig::new(1);
        rig.admit(1).unwrap();
        let (ticket, call) = rig.calls.next().unwrap();
        assert_eq!(rig.cancel(1), Cancelled::Running);
        assert_eq!(call.token.why(), Some(Why::Client));
        assert_eq!(rig.cancel(1), Cancelled::Unknown);
        assert!(!rig.is_taken(1), "the id is the client's again");
        assert_eq!(rig.admit(2), Err(NotAdmitted::Calls));
        assert!(!rig.calls.finish(ticket, "{}".to_owned(), Vec::new(), &rig.outbox));
        rig.admit(2).unwrap();
    }

    #[test]
    fn an_id_used_again_after_a_cancel_names_the_new_call() {
        let rig = Rig::new(2);
        rig.admit(1).unwrap();
        let (first, _call) = rig.calls.next().unwrap();
        rig.cancel(1);
        rig.admit(1).unwrap();
        rig.calls.finish(first, "{}".to_owned(), Vec::new(), &rig.outbox);
        assert!(rig.is_taken(1));
        assert_eq!(rig.cancel(1), Cancelled::Queued);
    }

    #[test]
    fn a_waiting_reply_is_withdrawn() {
        let rig = Rig::new(1);
        rig.admit(1).unwrap();
        let (ticket, _call) = rig.calls.next().unwrap();
        rig.calls.finish(ticket, "{}".to_owned(), Vec::new(), &rig.outbox);
        assert_eq!(rig.cancel(1), Cancelled::Withdrawn);
        assert!(rig.calls.is_empty());
        assert!(!rig.outbox.withdraw(ticket));
    }

    /// Call 1 asks for progress under the token "t" and was admitted long ago.
    fn with_progress() -> Rig {
        let rig = Rig::new(2);
        let call = Admitted { job: 1, token: CancelToken::new().unwrap() };
        rig.calls.admit(id(1), call, Some(Track::testing()), 100, 1000).unwrap();
        rig
    }

    impl Rig {
        /// Tells what is due, every call being a second older than at the last time; says what it was.
        fn tell(&self, age_s: u64) -> Option<String> {
            let (notices, _) = self.calls.progress(|_| Duration::from_secs(age_s));
            let lines: Vec<_> = notices.iter().map(|(ticket, notice)| (*ticket, notice.render())).collect();
            lines.iter().for_each(|(ticket, line)| assert!(self.calls.tell(*ticket, line.clone(), &self.outbox)));
            lines.into_iter().next().map(|(_, line)| line)
        }
    }

    #[test]
    fn progress_says_where_its_call_stands_until_it_is_answered() {
        let rig = with_progress();
        rig.admit(2).unwrap();
        assert_eq!(rig.calls.progress(|_| Duration::from_millis(950)).1, Some(Duration::from_millis(50)));
        assert!(rig.tell(1).unwrap().contains("queued, 1.0 s"));
        let (ticket, _call) = rig.calls.next().unwrap();
        assert!(rig.tell(2).unwrap().contains("running, 2.0 s"));
        assert!(rig.calls.finish(ticket, "{}".to_owned(), Vec::new(), &rig.outbox));
        assert_eq!((rig.tell(3), rig.calls.progress(|_| Duration::MAX).1), (None, None));
        // The reply took the place of the progress that still waited.
        assert!(rig.outbox.withdraw(ticket));
        assert!(!rig.outbox.withdraw(ticket));
    }

    #[track_caller]
    fn check_cancelled_progress(is_running: bool) {
        let rig = with_progress();
        let ticket = if is_running { rig.calls.next().unwrap().0 } else { 1 };
        let (notices, _) = rig.calls.progress(|_| Duration::from_secs(1));
        assert!(rig.calls.tell(ticket, notices[0].1.render(), &rig.outbox));
        rig.cancel(1);
        assert!(!rig.outbox.withdraw(ticket), "it went with the cancel");
        assert!(!rig.calls.tell(ticket, "{}".to_owned(), &rig.outbox), "what was rendered before the cancel is late");
        assert_eq!((rig.tell(2), rig.calls.progress(|_| Duration::MAX).1), (None, None));
    }

    #[test]
    fn a_cancel_takes_progress_that_waits_and_lets_none_follow() {
        check_cancelled_progress(false);
        check_cancelled_progress(true);
    }

    #[test]
    fn progress_is_part_of_what_a_call_reserves() {
        let rig = with_progress();
        let call = || Admitted { job: 0, token: CancelToken::new().unwrap() };
        let rest = RESERVED_BYTES - 1000 - Track::testing().reserved_bytes();
        assert_eq!(rig.calls.admit(id(2), call(), None, 0, rest + 1), Err(NotAdmitted::ReplyBytes));
        rig.calls.admit(id(2), call(), None, 0, rest).unwrap();
    }

    /// Call 1 waits for an approval.
    fn parked() -> (Rig, Ticket) {
        let rig = Rig::new(2);
        rig.admit(1).unwrap();
        let (ticket, call) = rig.calls.next().unwrap();
        assert!(rig.calls.park(ticket, call.job, "operator"));
        assert_eq!((rig.calls.waiting(), rig.calls.is_idle()), (vec![ticket], false));
        (rig, ticket)
    }

    #[test]
    fn a_call_that_waited_goes_before_all_others_once() {
        let (rig, ticket) = parked();
        rig.admit(2).unwrap();
        rig.calls.resume(ticket, |job| *job = 11);
        rig.calls.resume(ticket, |job| *job = 12);
        assert!(rig.calls.waiting().is_empty() && rig.calls.take_waiting(ticket).is_none());
        let taken = [rig.calls.next().unwrap().1.job, rig.calls.next().unwrap().1.job];
        assert_eq!(taken, [11, 2]);
        assert!(!rig.calls.needs_worker());
    }

    #[test]
    fn a_call_that_waits_is_answered_without_a_worker() {
        let (rig, ticket) = parked();
        assert_eq!(rig.calls.take_waiting(ticket).map(|call| call.job), Some(1));
        rig.calls.resume(ticket, |_| panic!("it waits no more"));
        assert!(rig.calls.finish(ticket, "{}".to_owned(), Vec::new(), &rig.outbox));
        assert!(rig.calls.is_idle());
    }

    #[test]
    fn a_cancel_of_a_call_that_waits_names_its_question_and_leaves_nothing() {
        let (rig, ticket) = parked();
        assert_eq!(rig.calls.cancel(&id(1), &rig.outbox), Cancelled::Waiting(ticket));
        rig.calls.resume(ticket, |_| panic!("it is gone"));
        assert!(rig.calls.take_waiting(ticket).is_none() && rig.calls.is_empty() && !rig.is_taken(1));
        assert!(!rig.calls.needs_worker());
    }

    #[test]
    fn a_call_that_was_cancelled_while_it_ran_does_not_wait() {
        let rig = Rig::new(1);
        rig.admit(1).unwrap();
        let (ticket, call) = rig.calls.next().unwrap();
        rig.cancel(1);
        assert!(!rig.calls.park(ticket, call.job, "operator"));
        assert!(rig.calls.is_empty() && rig.calls.waiting().is_empty());
    }

    #[test]
    fn progress_says_for_whom_a_call_waits() {
        let rig = with_progress();
        let (ticket, call) = rig.calls.next().unwrap();
        assert!(rig.calls.park(ticket, call.job, "operator"));
        assert!(rig.tell(1).unwrap().contains("waiting for approval by the operator, 1.0 s"));
    }

    #[test]
    fn ids_match_by_value_and_type() {
        let rig = Rig::new(1);
        rig.admit(1).unwrap();
        let text = Id::parse("\"1\"").unwrap();
        assert_eq!(rig.calls.cancel(&text, &rig.outbox), Cancelled::Unknown);
        assert!(!rig.calls.is_taken(&text, &rig.outbox));
    }

    #[test]
    fn bytes_are_admitted_up_to_their_limits_and_come_back() {
        let rig = Rig::new(100);
        let call = || Admitted { job: 0, token: CancelToken::new().unwrap() };
        rig.calls.admit(id(1), call(), None, ADMITTED_BYTES - 10, 1).unwrap();
        assert_eq!(rig.calls.admit(id(2), call(), None, 11, 1), Err(NotAdmitted::LineBytes));
        rig.calls.admit(id(3), call(), None, 10, 1).unwrap();
        assert_eq!(rig.calls.admit(id(4), call(), None, 0, RESERVED_BYTES), Err(NotAdmitted::ReplyBytes));
        rig.cancel(1);
        rig.calls.admit(id(5), call(), None, 11, RESERVED_BYTES - 1).unwrap();
    }

    #[test]
    fn what_is_queued_at_the_end_is_taken_once() {
        let rig = Rig::new(3);
        for number in 1..=3 {
            rig.admit(number).unwrap();
        }
        let (_ticket, running) = rig.calls.next().unwrap();
        assert_eq!(rig.calls.take_queued().len(), 2);
        assert_eq!(rig.calls.take_queued().len(), 0);
        rig.calls.end_running();
        assert_eq!(running.token.why(), Some(Why::SessionEnd));
        rig.calls.close();
        assert!(rig.calls.next().is_none());
    }
}
