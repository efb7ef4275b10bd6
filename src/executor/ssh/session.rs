//! One SSH session over one socket of ours: every step is non-blocking and waits in one poll, ended by cancel and time limit.
//!
//! A session belongs to one thread at a time. Whatever goes wrong, the socket is shut down first and the session dropped after:
//! nothing of libssh2 ever waits for the peer on its own.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libssh2_sys::LIBSSH2_ERROR_HOSTKEY_INIT;
use ssh2::{BlockDirections, Error, ErrorCode, MethodType, Session};

use crate::cancel::{CancelToken, Kill};
use crate::sys::ssh::{Channel, would_wait};
use crate::sys::{self, Poll};

/// What we call ourselves (RFC 4253 section 4.2).
const BANNER: &str = concat!("SSH-2.0-tidegate_", env!("CARGO_PKG_VERSION"));
/// A silent command's connection is kept alive by a request this often, in seconds; NAT tables forget after some minutes.
const KEEPALIVE_S: u32 = 15;

/// What ends a wait beside its own event.
#[derive(Clone, Copy)]
pub(super) struct Limit<'a> {
    pub(super) token: &'a CancelToken,
    pub(super) until: Instant,
}

/// Why a step did not come to its end.
#[derive(Debug)]
pub(super) enum Stop {
    Cancelled,
    TimedOut,
    /// libssh2 says no: the peer, the socket, or an argument.
    Failed(Error),
    /// poll(2) failed.
    Io(io::Error),
}

impl Limit<'_> {
    /// The same, but over at `until` at the latest.
    pub(super) fn at_most(self, wait: Duration) -> Self {
        Limit { until: self.until.min(Instant::now() + wait), ..self }
    }

    pub(super) fn check(self) -> Result<(), Stop> {
        if self.token.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        if Instant::now() >= self.until { Err(Stop::TimedOut) } else { Ok(()) }
    }
}

/// The socket, shared with the session and with whoever kills the call.
pub(super) struct Socket(TcpStream);

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Socket {
    fn kill(&self) {
        // Fails only if the peer was faster.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// What the call at work is killed by.
struct Cut(Arc<Socket>);

impl Kill for Cut {
    fn kill(&self) {
        self.0.kill();
    }
}

/// A session and its socket; dropping it cuts the connection.
pub(super) struct Link {
    session: Session,
    socket: Arc<Socket>,
    /// Held for the call at work alone: its token knows it by a weak reference.
    cut: Option<Arc<dyn Kill>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.socket.kill();
    }
}

impl Link {
    /// The handshake over a connected, non-blocking stream. `host_keys` is the preference list of host key algorithms.
    pub(super) fn handshake(stream: TcpStream, host_keys: &str, limit: Limit<'_>) -> Result<Link, Stop> {
        let mut session = Session::new().map_err(Stop::Failed)?;
        let socket = Arc::new(Socket(stream));
        session.set_blocking(false);
        session.set_tcp_stream(Arc::clone(&socket));
        let prepared = session.set_banner(BANNER).and_then(|()| session.method_pref(MethodType::HostKey, host_keys));
        let mut link = Link { session: session.clone(), socket, cut: None };
        prepared.map_err(Stop::Failed)?;
        link.attach(limit.token);
        link.drive(limit, || session.handshake())?;
        link.session.set_keepalive(true, KEEPALIVE_S);
        Ok(link)
    }

    /// Lets `kill_now` of this call cut the connection, until `detach`.
    pub(super) fn attach(&mut self, token: &CancelToken) {
        let cut: Arc<dyn Kill> = Arc::new(Cut(Arc::clone(&self.socket)));
        token.register(&cut);
        self.cut = Some(cut);
    }

    /// The call is over; the session may serve another.
    pub(super) fn detach(&mut self) {
        self.cut = None;
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// The server's public key (RFC 4253 section 6.6).
    pub(super) fn host_key(&self) -> Result<&[u8], Stop> {
        let none = || Stop::Failed(Error::from_errno(ErrorCode::Session(LIBSSH2_ERROR_HOSTKEY_INIT)));
        self.session.host_key().map(|(blob, _)| blob).ok_or_else(none)
    }

    /// Repeats `step` until it does not have to wait any more.
    pub(super) fn drive<T>(&self, limit: Limit<'_>, mut step: impl FnMut() -> Result<T, Error>) -> Result<T, Stop> {
        loop {
            limit.check()?;
            match step() {
                Ok(done) => return Ok(done),
                Err(error) if would_wait(&error) => self.wait(limit, None)?,
                // A socket that `kill_now` shut down is no failure of the peer.
                Err(_) if limit.token.is_cancelled() => return Err(Stop::Cancelled),
                Err(error) => return Err(Stop::Failed(error)),
            }
        }
    }

    /// Waits for what libssh2 waits for, for the cancel and the limit, or `longest`.
    pub(super) fn wait(&self, limit: Limit<'_>, longest: Option<Duration>) -> Result<(), Stop> {
        self.poll(Some(limit.token), limit.until, longest).map_err(Stop::Io)
    }

    /// The same; without a token for work that was cancelled already.
    pub(super) fn poll(&self, token: Option<&CancelToken>, until: Instant, longest: Option<Duration>) -> io::Result<()> {
        let socket = self.socket.0.as_fd();
        let reads = !matches!(self.session.block_directions(), BlockDirections::Outbound);
        let writes = self.is_sending();
        let sources = [
            reads.then(|| Poll::readable(socket)),
            writes.then(|| Poll::writable(socket)),
            token.map(|token| Poll::readable(token.wake_fd())),
        ];
        let mut fds: Vec<Poll<'_>> = sources.into_iter().flatten().collect();
        let wait = until.saturating_duration_since(Instant::now());
        sys::poll(&mut fds, Some(longest.map_or(wait, |longest| wait.min(longest))))
    }

    /// Whether a packet has left in part: nothing else may be asked of libssh2 before the same call has finished it.
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.session.block_directions(), BlockDirections::Outbound | BlockDirections::Both)
    }

    /// Sends the keepalive if it is due, and says when to look again. Not while something else is being sent.
    pub(super) fn keepalive(&self) -> Result<Duration, Error> {
        self.session.keepalive_send().map(|seconds| Duration::from_secs(u64::from(seconds.max(1))))
    }

    pub(super) fn open(&self, limit: Limit<'_>) -> Result<Channel, Stop> {
        self.drive(limit, || Channel::open(&self.session))
    }

    /// Whether an idle connection was closed or has said something: then it is of no more use. No wait.
    pub(super) fn is_stale(&self) -> bool {
        let mut byte = [0];
        !matches!(self.socket.0.peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether the peer has closed the connection. No wait.
    pub(super) fn is_closed(&self) -> bool {
        match self.socket.0.peek(&mut [0]) {
            Ok(length) => length == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}
