//! Name lookups: on at most `LOOKUPS` threads, and never longer than the caller will wait.
//!
//! The C library's lookup cannot be interrupted. A caller that leaves (cancel, deadline) abandons its thread, which keeps its
//! place until the library returns; the thread then ends by itself. Nothing here judges an address or keeps an answer.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};

use crate::cancel::CancelToken;
use crate::limits::LOOKUPS;
use crate::thread;

/// How long a caller waits for a place while others look names up: a slow lookup takes longer, an ordinary one far less.
const PLACE_WAIT: Duration = Duration::from_secs(2);

/// Turns a host and a port into addresses; may block for as long as it likes.
pub type Lookup = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// The lookup of the C library (getaddrinfo), as std calls it.
pub fn system_lookup() -> Lookup {
    Arc::new(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
}

/// Why there are no addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// The call was cancelled meanwhile.
    Cancelled,
    /// The deadline passed.
    TimedOut,
    /// Every lookup thread is taken.
    Busy,
    /// The lookup failed; its reason.
    Failed(String),
}

/// Owns the places of the lookup threads.
pub struct Resolver {
    lookup: Lookup,
    places: (Sender<()>, Receiver<()>),
    abandoned: Arc<AtomicUsize>,
}

impl Resolver {
    /// A resolver with all places free.
    pub fn new(lookup: Lookup) -> Self {
        let places = bounded(LOOKUPS);
        (0..LOOKUPS).for_each(|_| places.0.send(()).expect("the channel is as large as the loop is long"));
        Resolver { lookup, places, abandoned: Arc::default() }
    }

    /// The addresses of `host`, in the order of the lookup, never empty. A literal needs no lookup and no thread.
    pub fn resolve(
        &self,
        host: &str,
        port: u16,
        token: &CancelToken,
        deadline: Instant,
    ) -> Result<Vec<SocketAddr>, Unresolved> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let held = self.take_place(token, deadline)?;
        let left = Arc::clone(&held.left);
        let (answers_tx, answers) = bounded(1);
        let (lookup, name) = (Arc::clone(&self.lookup), host.to_owned());
        let lookup = move || {
            let _held = held;
            // The caller may be gone.
            let _ = answers_tx.send(lookup(&name, port));
        };
        let thread = thread::spawn("tg-resolve", lookup).map_err(|_| Unresolved::Busy)?;
        let ended = select! {
            recv(answers) -> answer => return addresses(answer.unwrap_or_else(|_| Err(io::Error::other("the lookup gave no answer")))),
            recv(token.closed()) -> _ => Unresolved::Cancelled,
            default(deadline.saturating_duration_since(Instant::now())) => Unresolved::TimedOut,
        };
        // Counted before it is marked, so that the thread never takes back what was not yet counted.
        self.abandoned.fetch_add(1, Ordering::SeqCst);
        if left.swap(true, Ordering::SeqCst) {
            self.abandoned.fetch_sub(1, Ordering::SeqCst);
        }
        thread.abandon();
        Err(ended)
    }

    fn take_place(&self, token: &CancelToken, deadline: Instant) -> Result<Held, Unresolved> {
        if token.is_cancelled() {
            return Err(Unresolved::Cancelled);
        }
        if self.abandoned.load(Ordering::SeqCst) >= LOOKUPS {
            return Err(Unresolved::Busy);
        }
        let wait = deadline.saturating_duration_since(Instant::now());
        let (waited, ended) = if wait <= PLACE_WAIT { (wait, Unresolved::TimedOut) } else { (PLACE_WAIT, Unresolved::Busy) };
        select! {
            recv(self.places.1) -> _ => {
                Ok(Held { place: self.places.0.clone(), left: Arc::default(), abandoned: Arc::clone(&self.abandoned) })
            }
            recv(token.closed()) -> _ => Err(Unresolved::Cancelled),
            default(waited) => Err(ended),
        }
    }
}

/// One place, held by a lookup thread; given back when it ends, also by a panic.
struct Held {
    place: Sender<()>,
    /// Set by whoever leaves first, caller or thread.
    left: Arc<AtomicBool>,
    abandoned: Arc<AtomicUsize>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.left.swap(true, Ordering::SeqCst) {
            self.abandoned.fetch_sub(1, Ordering::SeqCst);
        }
        // Cannot be full: this place was taken from it.
        let _ = self.place.try_send(());
    }
}

fn addresses(answer: io::Result<Vec<SocketAddr>>) -> Result<Vec<SocketAddr>, Unresolved> {
    match answer {
        Ok(addresses) if addresses.is_empty() => Err(Unresolved::Failed("it has no address".to_owned())),
        Ok(addresses) => Ok(addresses),
        Err(error) => Err(Unresolved::Failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::Why;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    fn late() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// A lookup that hangs until the returned sender is dropped, and tells when it has begun.
    fn hanging() -> (Lookup, Receiver<()>, Sender<()>) {
        let (begun_tx, begun) = bounded(64);
        let (release, released) = bounded::<()>(0);
        let lookup: Lookup = Arc::new(move |_, _| {
            begun_tx.send(()).unwrap();
            let _ = released.recv();
            Ok(vec![])
        });
        (lookup, begun, release)
    }

    #[test]
    fn a_literal_needs_no_lookup() {
        let resolver = Resolver::new(Arc::new(|_, _| panic!("looked up")));
        let token = CancelToken::new().unwrap();
        for (host, address) in [("192.0.2.7", "192.0.2.7:80"), ("::1", "[::1]:80")] {
            assert_eq!(resolver.resolve(host, 80, &token, late()), Ok(vec![address.parse().unwrap()]));
        }
    }

    #[test]
    fn answers_keep_their_order_and_failures_their_reason() {
        let resolver = Resolver::new(Arc::new(|host, port| match host {
            "two.test" => Ok(vec![([192, 0, 2, 2], port).into(), ([192, 0, 2, 1], port).into()]),
            "none.test" => Ok(vec![]),
            "panic.test" => panic!("of the test"),
            _ => Err(io::Error::other("no such name")),
        }));
        let token = CancelToken::new().unwrap();
        let resolve = |host| resolver.resolve(host, 80, &token, late());
        for _ in 0..=LOOKUPS {
            assert_eq!(resolve("two.test"), Ok(vec!["192.0.2.2:80".parse().unwrap(), "192.0.2.1:80".parse().unwrap()]));
            assert_eq!(resolve("none.test"), Err(Unresolved::Failed("it has no address".to_owned())));
            assert_eq!(resolve("x.test"), Err(Unresolved::Failed("no such name".to_owned())));
            assert_eq!(resolve("panic.test"), Err(Unresolved::Failed("the lookup gave no answer".to_owned())));
        }
    }

    #[test]
    fn a_cancel_ends_the_wait_for_a_lookup_that_hangs() {
        let (lookup, begun, _release) = hanging();
        let resolver = Resolver::new(lookup);
        let token = CancelToken::new().unwrap();
        let canceller = token.clone();
        let thread = thread::spawn("tg-test", move || {
            begun.recv().unwrap();
            canceller.cancel(Why::Client);
        })
        .unwrap();
        assert_eq!(resolver.resolve("a.test", 80, &token, late()), Err(Unresolved::Cancelled));
        assert!(thread.join());
    }

    #[test]
    fn abandoned_lookups_keep_their_places_until_they_return() {
        let (lookup, _begun, release) = hanging();
        let resolver = Resolver::new(lookup);
        let token = CancelToken::new().unwrap();
        for _ in 0..LOOKUPS {
            assert_eq!(resolver.resolve("a.test", 80, &token, soon()), Err(Unresolved::TimedOut));
        }
        let begin = Instant::now();
        assert_eq!(resolver.resolve("a.test", 80, &token, late()), Err(Unresolved::Busy));
        assert!(begin.elapsed() < PLACE_WAIT);

        drop(release);
        // The places come back when the threads end; taking them all is waiting for that.
        (0..LOOKUPS).for_each(|_| resolver.places.1.recv().unwrap());
        assert_eq!(resolver.abandoned.load(Ordering::SeqCst), 0);
    }
}
