//! The desk: questions that stand open, who was asked and until when, and what came of them.
//!
//! ```text
//! open ─▶ (recorded, its call parked) ─▶ published ──answer, time-out, cancel: the first counts──▶ ended ─▶ recorded, gone
//! ```
//! Nothing here waits but `next_ended`, for the one thread that records answers. A question holds its place until that thread is
//! done with it, so that a stalled disk lets nothing pile up. Which call may go ahead is not decided here.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::approval::operator::{self, Operator};
use crate::approval::state::Seal;
use crate::approval::{Answer, Approver, Extent, Question};
use crate::cancel::{CancelToken, Why};
use crate::limits::{QUESTIONS, STANDING_APPROVALS};
use crate::thread::Thread;
use crate::wire::outbox::Ticket;

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// With an answer, or none in time.
    Answered(Answer),
    /// Its call was cancelled, or the session ended.
    Withdrawn,
}

impl How {
    /// As recorded.
    pub fn as_str(&self) -> &'static str {
        match self {
            How::Withdrawn => "withdrawn",
            How::Answered(Answer::Yes(Extent::Once)) => "yes",
            How::Answered(Answer::Yes(Extent::Session)) => "yes_for_session",
            How::Answered(Answer::No(_)) => "no",
            How::Answered(Answer::TimedOut) => "timed_out",
            How::Answered(Answer::Unusable(_)) => "unusable",
        }
    }
}

/// A question that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The call that waits for it.
    pub ticket: Ticket,
    /// What was asked.
    pub question: Arc<Question>,
    /// Who was asked.
    pub asked: Approver,
    /// How long it stood, at most.
    pub stands: Duration,
    /// How it ended.
    pub how: How,
    /// The operator who answered.
    pub user: Option<u32>,
}

struct Open {
    ticket: Ticket,
    question: Arc<Question>,
    asked: Approver,
    stands: Duration,
    until: Instant,
    /// Ends an approver command.
    token: CancelToken,
    is_published: bool,
    /// The client was asked.
    is_sent: bool,
}

#[derive(Default)]
struct Table {
    open: Vec<Open>,
    ended: VecDeque<Ended>,
    /// Ended ones that are being recorded.
    in_hand: usize,
    /// Tool and target that were approved until the process ends, and the question that did it.
    standing: HashMap<(String, String), String>,
    /// Of the thread that records answers, and of those that wait for a command.
    threads: Vec<Thread>,
    has_recorder: bool,
    is_closed: bool,
}

/// The desk of a session.
pub struct Desk {
    table: Mutex<Table>,
    changed: Condvar,
    state_dir: PathBuf,
    seal: Mutex<Option<Arc<Seal>>>,
    operator: Mutex<Option<Operator>>,
    end: CancelToken,
}

impl Desk {
    /// An empty desk. Nothing is made under `state_dir` before somebody is asked.
    pub fn new(state_dir: &Path) -> io::Result<Desk> {
        Ok(Desk {
            table: Mutex::default(),
            changed: Condvar::new(),
            state_dir: state_dir.to_owned(),
            seal: Mutex::new(None),
            operator: Mutex::new(None),
            end: CancelToken::new()?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a question that stands for `stands` from now. Nobody sees it before `publish`. `token`: is cancelled
    /// once the question has ended. False: there is no place.
    pub fn open(&self, ticket: Ticket, question: Arc<Question>, asked: Approver, stands: Duration, token: CancelToken) -> bool {
        let mut table = self.lock();
        let taken = table.open.len() + table.ended.len() + table.in_hand;
        if taken >= QUESTIONS || table.is_closed {
            return false;
        }
        let until = Instant::now() + stands;
        table.open.push(Open { ticket, question, asked, stands, until, token, is_published: false, is_sent: false });
        true
    }

    /// Gives up the place of a question that nobody saw.
    pub fn forget(&self, ticket: Ticket) {
        self.lock().open.retain(|open| open.ticket != ticket);
    }

    /// Lets the approver see it, unless it has ended meanwhile: then false.
    pub fn publish(&self, ticket: Ticket) -> bool {
        let mut table = self.lock();
        let open = table.open.iter_mut().find(|open| open.ticket == ticket);
        open.map(|open| open.is_published = true).is_some()
    }

    /// Questions for the client that it has not been sent.
    pub fn unsent(&self) -> Vec<(Ticket, Arc<Question>)> {
        let table = self.lock();
        let unsent = table.open.iter().filter(|open| open.is_published && !open.is_sent && open.asked == Approver::Client);
        unsent.map(|open| (open.ticket, Arc::clone(&open.question))).collect()
    }

    /// The client has been asked.
    pub fn sent(&self, ticket: Ticket) {
        self.lock().open.iter_mut().filter(|open| open.ticket == ticket).for_each(|open| open.is_sent = true);
    }

    /// The question that this call waits for, and how far a yes to it goes.
    pub fn question(&self, ticket: Ticket) -> Option<Arc<Question>> {
        self.lock().open.iter().find(|open| open.ticket == ticket).map(|open| Arc::clone(&open.question))
    }

    /// Ends a question; who was asked, or `None` where it has ended before.
    pub fn end(&self, ticket: Ticket, how: How, user: Option<u32>) -> Option<Approver> {
        self.end_where(|open| open.ticket == ticket, how, user)
    }

    fn end_where(&self, fits: impl Fn(&Open) -> bool, how: How, user: Option<u32>) -> Option<Approver> {
        let mut table = self.lock();
        let at = table.open.iter().position(fits)?;
        let Open { ticket, question, asked, stands, token, .. } = table.open.remove(at);
        table.ended.push_back(Ended { ticket, question, asked, stands, how, user });
        self.changed.notify_all();
        drop(table);
        token.cancel(Why::Client);
        Some(asked)
    }

    /// Calls whose question has stood for its time. One that is not published yet does not end by time: its call is not parked,
    /// and nobody would answer it.
    pub fn overdue(&self, now: Instant) -> Vec<Ticket> {
        let table = self.lock();
        let overdue = table.open.iter().filter(|open| open.is_published && open.until <= now);
        overdue.map(|open| open.ticket).collect()
    }

    /// When the next one will have.
    pub fn deadline(&self) -> Option<Instant> {
        self.lock().open.iter().filter(|open| open.is_published).map(|open| open.until).min()
    }

    /// Questions that stand open or are being recorded.
    pub fn len(&self) -> usize {
        let table = self.lock();
        table.open.len() + table.ended.len() + table.in_hand
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next question that has ended, to be recorded: then `recorded`. Waits; `None` once the desk is closed and all are.
    pub fn next_ended(&self) -> Option<Ended> {
        let mut table = self.lock();
        loop {
            if let Some(ended) = table.ended.pop_front() {
                table.in_hand += 1;
                return Some(ended);
            }
            if table.is_closed {
                return None;
            }
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What `next_ended` gave has been dealt with.
    pub fn recorded(&self) {
        self.lock().in_hand -= 1;
    }

    /// Ends every wait of the thread that records.
    pub fn token(&self) -> &CancelToken {
        &self.end
    }

    /// A yes to every action of `tool` on `target`, given as an answer to `question`. One more than there is room for is asked
    /// for again.
    pub fn stand(&self, tool: &str, target: &str, question: &str) {
        let mut table = self.lock();
        if table.standing.len() < STANDING_APPROVALS {
            table.standing.insert((tool.to_owned(), target.to_owned()), question.to_owned());
        }
    }

    /// The question whose answer approved every action of `tool` on `target`.
    pub fn standing(&self, tool: &str, target: &str) -> Option<String> {
        self.lock().standing.get(&(tool.to_owned(), target.to_owned())).cloned()
    }

    /// The seal of what a client brings back; made on first use.
    pub fn seal(&self) -> io::Result<Arc<Seal>> {
        let mut seal = self.seal.lock().unwrap_or_else(PoisonError::into_inner);
        match &*seal {
            Some(seal) => Ok(Arc::clone(seal)),
            None => Ok(Arc::clone(seal.insert(Arc::new(Seal::open(&self.state_dir)?)))),
        }
    }

    /// Lets these operators answer; the socket is made on first use.
    pub fn admit_operators(self: &Arc<Self>, operators: &[u32]) -> io::Result<()> {
        let mut operator = self.operator.lock().unwrap_or_else(PoisonError::into_inner);
        match &*operator {
            Some(operator) => operator.set_operators(operators.to_vec()),
            None => *operator = Some(Operator::start(&self.state_dir, operators.to_vec(), Arc::clone(self) as _)?),
        }
        Ok(())
    }

    /// After a reload: who may answer, where the socket has been made.
    pub fn set_operators(&self, operators: &[u32]) {
        if let Some(operator) = &*self.operator.lock().unwrap_or_else(PoisonError::into_inner) {
            operator.set_operators(operators.to_vec());
        }
    }

    /// Starts the thread that records answers, once.
    pub fn record_with(&self, start: impl FnOnce() -> io::Result<Thread>) -> io::Result<()> {
        let mut table = self.lock();
        if !table.has_recorder {
            let thread = start()?;
            table.threads.push(thread);
            table.has_recorder = true;
        }
        Ok(())
    }

    /// Keeps a thread that waits for a command, to be joined at the end; those that have ended are joined now.
    pub fn keep(&self, thread: Thread) {
        let mut table = self.lock();
        let (over, going): (Vec<_>, Vec<_>) = table.threads.drain(..).partition(Thread::is_finished);
        table.threads = going;
        table.threads.push(thread);
        drop(table);
        for thread in over {
            thread.join();
        }
    }

    /// Withdraws what stands open, lets the recorder finish and joins every thread. `gently` false: the disk is stalled, so what
    /// waits for it is let go.
    pub fn close(&self, gently: bool) {
        let open: Vec<Ticket> = self.lock().open.iter().map(|open| open.ticket).collect();
        for ticket in open {
            self.end(ticket, How::Withdrawn, None);
        }
        if let Some(operator) = self.operator.lock().unwrap_or_else(PoisonError::into_inner).take() {
            operator.close();
        }
        if !gently {
            self.end.cancel(Why::SessionEnd);
        }
        let threads = {
            let mut table = self.lock();
            table.is_closed = true;
            self.changed.notify_all();
            std::mem::take(&mut table.threads)
        };
        for thread in threads {
            thread.join();
        }
    }
}

impl operator::Desk for Desk {
    fn open(&self) -> Vec<(Question, Duration)> {
        let (table, now) = (self.lock(), Instant::now());
        let open = table.open.iter().filter(|open| open.is_published && open.asked == Approver::Operator);
        open.map(|open| (Question::clone(&open.question), open.until.saturating_duration_since(now))).collect()
    }

    fn answer(&self, id: &str, answer: Answer, by: u32) -> bool {
        let fits = |open: &Open| open.is_published && open.asked == Approver::Operator && open.question.id == id;
        self.end_where(fits, How::Answered(answer), Some(by)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::operator::Desk as _;

    const LONG: Duration = Duration::from_secs(3600);

    fn desk() -> Desk {
        Desk::new(Path::new("/nowhere")).unwrap()
    }

    fn question(id: &str) -> Arc<Question> {
        let text = |text: &str| text.to_owned();
        let (tool, rule, target, action) = (text("t"), text("r"), text("x"), text("{}"));
        Arc::new(Question { id: text(id), tool, rule, target, action, extent: Extent::Once })
    }

    fn open(desk: &Desk, ticket: Ticket, asked: Approver, stands: Duration) -> bool {
        Desk::open(desk, ticket, question(&format!("{ticket:08}")), asked, stands, CancelToken::new().unwrap())
    }

    fn answer(desk: &Desk, ticket: Ticket) -> Option<Approver> {
        desk.end(ticket, How::Answered(Answer::Yes(Extent::Once)), None)
    }

    #[test]
    fn a_place_is_held_until_the_answer_is_recorded() {
        let desk = desk();
        (0..8).for_each(|ticket| assert!(open(&desk, ticket, Approver::Operator, LONG)));
        assert!(!open(&desk, 9, Approver::Operator, LONG));
        assert_eq!(answer(&desk, 3), Some(Approver::Operator));
        assert!(!open(&desk, 9, Approver::Operator, LONG), "it waits to be recorded");
        assert_eq!(desk.next_ended().map(|ended| ended.ticket), Some(3));
        assert!(!open(&desk, 9, Approver::Operator, LONG), "it is being recorded");
        desk.recorded();
        assert!(open(&desk, 9, Approver::Operator, LONG));
        desk.forget(9);
        assert_eq!(desk.len(), 7);
    }

    #[test]
    fn the_first_answer_counts_and_ends_the_command() {
        let (desk, token) = (desk(), CancelToken::new().unwrap());
        assert!(Desk::open(&desk, 1, question("00000001"), Approver::Command, LONG, token.clone()));
        assert!(desk.publish(1));
        assert_eq!(desk.end(1, How::Withdrawn, None), Some(Approver::Command));
        assert_eq!((answer(&desk, 1), desk.publish(1)), (None, false));
        assert!(token.is_cancelled());
        assert_eq!(desk.next_ended().map(|ended| ended.how), Some(How::Withdrawn));
    }

    #[test]
    fn nobody_sees_or_answers_what_is_not_published_or_not_his() {
        let desk = desk();
        assert!(open(&desk, 1, Approver::Operator, LONG) && open(&desk, 2, Approver::Client, LONG));
        let yes = || Answer::Yes(Extent::Once);
        assert!(operator::Desk::open(&desk).is_empty() && desk.unsent().is_empty());
        assert!(!desk.answer("00000001", yes(), 0));
        assert!(desk.publish(1) && desk.publish(2));
        assert_eq!(operator::Desk::open(&desk).iter().map(|(asked, _)| asked.id.as_str()).collect::<Vec<_>>(), ["00000001"]);
        assert!(!desk.answer("00000002", yes(), 0), "that one is the client's");
        assert!(desk.answer("00000001", yes(), 7) && !desk.answer("00000001", yes(), 7));
        assert_eq!(desk.next_ended().map(|ended| (ended.ticket, ended.user)), Some((1, Some(7))));
        assert_eq!(desk.unsent().len(), 1);
        desk.sent(2);
        assert!(desk.unsent().is_empty());
    }

    #[test]
    fn a_question_stands_for_its_time() {
        let desk = desk();
        assert_eq!(desk.deadline(), None);
        assert!(open(&desk, 1, Approver::Operator, LONG) && open(&desk, 2, Approver::Operator, Duration::ZERO));
        assert!(desk.publish(1) && desk.publish(2));
        assert_eq!(desk.overdue(Instant::now()), [2]);
        assert!(desk.deadline().is_some_and(|until| until <= Instant::now()));
        assert_eq!(desk.overdue(Instant::now() + LONG + LONG), [1, 2]);
    }

    #[test]
    fn what_stands_approved_is_one_tool_on_one_target_and_bounded() {
        let desk = desk();
        desk.stand("t", "x", "q");
        let standing = |tool, target| desk.standing(tool, target);
        assert_eq!((standing("t", "x").as_deref(), standing("t", "y"), standing("u", "x")), (Some("q"), None, None));
        (0..2 * STANDING_APPROVALS).for_each(|number| desk.stand("many", &number.to_string(), "q"));
        assert_eq!(desk.lock().standing.len(), STANDING_APPROVALS);
        assert!(standing("t", "x").is_some());
    }

    #[test]
    fn a_closed_desk_takes_no_question_and_hands_out_what_it_has() {
        let desk = desk();
        assert!(open(&desk, 1, Approver::Operator, LONG));
        desk.close(true);
        assert!(!open(&desk, 2, Approver::Operator, LONG));
        assert_eq!(desk.next_ended().map(|ended| (ended.ticket, ended.how)), Some((1, How::Withdrawn)));
        assert!(desk.next_ended().is_none());
    }

    #[test]
    fn what_is_not_published_is_seen_by_nobody_and_ended_by_no_time() {
        let desk = desk();
        assert!(open(&desk, 1, Approver::Client, Duration::ZERO) && open(&desk, 2, Approver::Client, Duration::ZERO));
        assert_eq!((desk.overdue(Instant::now()), desk.deadline(), desk.unsent().len()), (vec![], None, 0));
        assert!(desk.publish(2));
        assert_eq!((desk.overdue(Instant::now()), desk.deadline().is_some(), desk.unsent().len()), (vec![2], true, 1));
    }
}
