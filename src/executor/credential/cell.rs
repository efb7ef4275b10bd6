//! One value that is dear to have: kept for a while, had by one call at a time, waited for by the others.
//!
//! ```text
//! empty ── a call begins to have it ──▶ running ── had ──▶ held ── too old, refused by a target ──▶ empty
//!                                          └── failed, or that call's own end ──▶ empty
//! ```
//! A call that waited takes what it waited for, a failure too; what ended with the call that began it, it tries itself. No lock
//! is held while anybody waits.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};

use crate::executor::credential::Limit;
use crate::executor::credential::error::{Cause, Stop};
use crate::secret::Secret;

/// A value of a source that is not asked each time.
#[derive(Default)]
pub(super) struct Cell {
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Empty,
    Running(Arc<Attempt>),
    Held {
        secret: Arc<Secret>,
        until: Instant,
    },
}

/// One try to have the value.
struct Attempt {
    /// Disconnected once it is over.
    over: Receiver<()>,
    /// What came of it; nothing if its call ended first.
    came: OnceLock<Result<Arc<Secret>, Cause>>,
}

/// What a call has to do for the value.
enum Turn<'c> {
    Nothing(Arc<Secret>),
    Wait(Arc<Attempt>),
    Try(Trying<'c>),
}

/// The try of this call; over when it is dropped, be it by a panic.
struct Trying<'c> {
    cell: &'c Cell,
    attempt: Arc<Attempt>,
    _over: Sender<()>,
}

impl Cell {
    /// The value, kept or had by `have`; kept for `cache` from then on. With no time to keep it, each call has its own.
    pub(super) fn value(
        &self,
        cache: Duration,
        limit: Limit<'_>,
        have: impl FnOnce() -> Result<Arc<Secret>, Stop>,
    ) -> Result<Arc<Secret>, Stop> {
        loop {
            match self.turn() {
                Turn::Nothing(secret) => return Ok(secret),
                Turn::Try(trying) => return trying.run(cache, have),
                Turn::Wait(attempt) => {
                    wait(&attempt.over, limit)?;
                    match attempt.came.get() {
                        Some(Ok(secret)) if !cache.is_zero() => return Ok(Arc::clone(secret)),
                        Some(Err(cause)) => return Err(Stop::Failed(cause.clone())),
                        Some(Ok(_)) | None => {}
                    }
                }
            }
        }
    }

    /// Lets go of the value if it is still this one.
    pub(super) fn forget(&self, refused: &Arc<Secret>) {
        let mut state = self.lock();
        if matches!(&*state, State::Held { secret, .. } if Arc::ptr_eq(secret, refused)) {
            *state = State::Empty;
        }
    }

    fn turn(&self) -> Turn<'_> {
        let mut state = self.lock();
        match &*state {
            State::Held { secret, until } if Instant::now() < *until => Turn::Nothing(Arc::clone(secret)),
            State::Running(attempt) => Turn::Wait(Arc::clone(attempt)),
            State::Held { .. } | State::Empty => {
                let (_over, over) = bounded(0);
                let attempt = Arc::new(Attempt { over, came: OnceLock::new() });
                *state = State::Running(Arc::clone(&attempt));
                Turn::Try(Trying { cell: self, attempt, _over })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trying<'_> {
    fn run(self, cache: Duration, have: impl FnOnce() -> Result<Arc<Secret>, Stop>) -> Result<Arc<Secret>, Stop> {
        let had = have();
        let came = match &had {
            Ok(secret) => Some(Ok(Arc::clone(secret))),
            Err(Stop::Failed(cause)) => Some(Err(cause.clone())),
            Err(Stop::Cancelled(_) | Stop::TimedOut(_)) => None,
        };
        if let Some(came) = came {
            // The only writer.
            let _ = self.attempt.came.set(came);
        }
        if let (Ok(secret), false) = (&had, cache.is_zero()) {
            *self.cell.lock() = State::Held { secret: Arc::clone(secret), until: Instant::now() + cache };
        }
        had
    }
}

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        // Before those that wait hear of the end, which is when the fields are dropped.
        let mut state = self.cell.lock();
        if matches!(&*state, State::Running(attempt) if Arc::ptr_eq(attempt, &self.attempt)) {
            *state = State::Empty;
        }
    }
}

fn wait(over: &Receiver<()>, limit: Limit<'_>) -> Result<(), Stop> {
    if limit.token.is_cancelled() {
        return Err(Stop::Cancelled(None));
    }
    select! {
        recv(over) -> _ => Ok(()),
        recv(limit.token.closed()) -> _ => Err(Stop::Cancelled(None)),
        default(limit.until.saturating_duration_since(Instant::now())) => Err(Stop::TimedOut(None)),
    }
}
