//! The cancel token of one call: a flag, a descriptor and a channel that wake every wait, and handles that kill.
//!
//! Whoever waits, waits on `wake_fd` (poll) or `closed` (select) beside its own source and one deadline; both stay ready for
//! ever once the call is cancelled, so no wake-up can be lost. Loops over data look at `is_cancelled` at least every 64 KiB.
//! A handle is registered after its work exists and pulled only by `kill_now`; no lock is held while work is started.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crossbeam_channel::{Receiver, Sender, bounded};

/// Why a call is to end before its work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The client sent `notifications/cancelled`: nothing more leaves for the request.
    Client,
    /// The session ends; the call is still answered if stdout takes it.
    SessionEnd,
}

/// Something that can be killed from another thread without waiting: a process group, a socket.
pub trait Kill: Send + Sync {
    /// Ends the work at once. Called at most a few times; must not block.
    fn kill(&self);
}

/// The cancel token of one call. Clones share it.
#[derive(Clone)]
pub struct CancelToken(Arc<Inner>);

struct Inner {
    state: AtomicU8,
    wake: PipeReader,
    waker: Mutex<Option<(PipeWriter, Sender<()>)>>,
    closed: Receiver<()>,
    handles: Mutex<Vec<Weak<dyn Kill>>>,
}

const LIVE: u8 = 0;
const CLIENT: u8 = 1;
const SESSION_END: u8 = 2;
const URGENT: u8 = 4;

impl CancelToken {
    /// A token that is not cancelled. Fails only when the process is out of descriptors.
    pub fn new() -> io::Result<Self> {
        let (wake, writer) = io::pipe()?;
        let (sender, closed) = bounded(0);
        Ok(CancelToken(Arc::new(Inner {
            state: AtomicU8::new(LIVE),
            wake,
            waker: Mutex::new(Some((writer, sender))),
            closed,
            handles: Mutex::new(Vec::new()),
        })))
    }

    /// Cancels the call; the first reason stays.
    pub fn cancel(&self, why: Why) {
        let bit = match why {
            Why::Client => CLIENT,
            Why::SessionEnd => SESSION_END,
        };
        let first = self.0.state.compare_exchange(LIVE, bit, Ordering::SeqCst, Ordering::SeqCst);
        if first.is_ok() {
            let waker = self.0.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some((mut pipe, _sender)) = waker {
                // One byte into an empty pipe cannot block; the dropped ends would wake the waits as well.
                let _ = pipe.write(&[1]);
            }
        }
    }

    /// Cancels the call and kills its work without any grace.
    pub fn kill_now(&self) {
        self.cancel(Why::SessionEnd);
        self.0.state.fetch_or(URGENT, Ordering::SeqCst);
        let handles = self.0.handles.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for handle in handles.iter().filter_map(Weak::upgrade) {
            handle.kill();
        }
    }

    /// Registers work that `kill_now` ends; if that was already called, the work is killed here.
    pub fn register(&self, handle: &Arc<dyn Kill>) {
        let mut handles = self.0.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.retain(|known| known.strong_count() > 0);
        handles.push(Arc::downgrade(handle));
        drop(handles);
        if self.0.state.load(Ordering::SeqCst) & URGENT != 0 {
            handle.kill();
        }
    }

    /// Whether the call is cancelled, and why.
    pub fn why(&self) -> Option<Why> {
        match self.0.state.load(Ordering::SeqCst) & !URGENT {
            LIVE => None,
            CLIENT => Some(Why::Client),
            _ => Some(Why::SessionEnd),
        }
    }

    /// Whether the call is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.why().is_some()
    }

    /// Readable (or hung up) from the moment of the cancel, for ever. For poll(2); never read from it.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }

    /// Disconnected from the moment of the cancel. For `select!`; nothing is ever sent.
    pub fn closed(&self) -> &Receiver<()> {
        &self.0.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct Counter(AtomicUsize);
    impl Kill for Counter {
        fn kill(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_first_reason_stays() {
        let token = CancelToken::new().unwrap();
        assert_eq!(token.why(), None);
        token.cancel(Why::Client);
        token.cancel(Why::SessionEnd);
        assert_eq!(token.why(), Some(Why::Client));
        token.kill_now();
        assert_eq!(token.why(), Some(Why::Client));
    }

    #[test]
    fn a_cancel_wakes_the_channel_for_ever() {
        let token = CancelToken::new().unwrap();
        assert!(token.closed().try_recv().is_err_and(|error| error.is_empty()));
        token.cancel(Why::Client);
        assert!(token.closed().recv().is_err());
        assert!(token.closed().recv().is_err());
    }

    #[test]
    fn a_handle_is_pulled_whether_it_came_before_or_after() {
        for before in [true, false] {
            let token = CancelToken::new().unwrap();
            let counter = Arc::new(Counter(AtomicUsize::new(0)));
            let handle: Arc<dyn Kill> = counter.clone();
            if before {
                token.register(&handle);
            }
            token.kill_now();
            if !before {
                token.register(&handle);
            }
            assert_eq!(counter.0.load(Ordering::SeqCst), 1, "registered before: {before}");
        }
    }

    #[test]
    fn an_ordinary_cancel_pulls_no_handle() {
        let token = CancelToken::new().unwrap();
        let counter = Arc::new(Counter(AtomicUsize::new(0)));
        let handle: Arc<dyn Kill> = counter.clone();
        token.register(&handle);
        token.cancel(Why::Client);
        assert_eq!(counter.0.load(Ordering::SeqCst), 0);
    }
}
