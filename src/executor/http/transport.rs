//! One HTTP exchange over one socket: connecting, sending and receiving, each wait ended by the cancel or the deadline.
//!
//! All of ureq's unversioned API is in this file. ureq runs resolver, connector and transport on the caller's thread; the
//! `Exchange` they share with the caller says how far it came and why it ended. ureq's own timeouts stay unset, its proxies,
//! redirects and pool stay unused: a connection serves one call, so no call sees what another left behind.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, RustlsConnector, Transport,
};
use ureq::{Agent, Error};

use crate::action::http::Scheme;
use crate::cancel::CancelToken;
use crate::executor::dial::{self, Undialled};
use crate::limits::HTTP_HEADER_BYTES;
use crate::sys::{self, Poll};

/// More than the header limit, so that a header block over it is told apart from a full buffer.
const INPUT_BYTES: usize = HTTP_HEADER_BYTES + (4 << 10);
/// One write of a request; also bounds its longest line, the request line included.
const OUTPUT_BYTES: usize = 64 << 10;

/// The TLS connector, made once an executor.
pub(super) type Tls = RustlsConnector;

/// What the transport and its caller share for the length of one call.
pub(super) struct Exchange {
    token: CancelToken,
    deadline: Instant,
    tls: bool,
    /// Checked addresses, dialled in this order; there is no second lookup.
    addresses: Vec<SocketAddr>,
    progress: Mutex<Progress>,
}

/// How far an exchange came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) phase: Phase,
    /// At least one byte of the request was handed to the socket.
    pub(super) sent: bool,
    /// The socket came to its end by the peer's doing.
    pub(super) ended: bool,
    /// The peer reset the connection while the request was sent. Told once by the kernel; afterwards the socket just ends.
    pub(super) reset: bool,
    /// Why the transport gave up; `None` if it did not.
    pub(super) fault: Option<Fault>,
}

/// What the exchange is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Connecting,
    Handshake,
    Sending,
    Awaiting,
    Reading,
}

/// Why the transport gave up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    Cancelled,
    TimedOut,
    /// No address took a connection; each with its reason.
    Unreachable(String),
    /// The socket reported an error.
    Broken(String),
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Connecting => "connecting",
            Phase::Handshake => "in the TLS handshake",
            Phase::Sending => "sending the request",
            Phase::Awaiting => "waiting for the response head",
            Phase::Reading => "reading the response body",
        })
    }
}

/// Stands in ureq's errors for the fault that the exchange keeps.
#[derive(Debug)]
struct GaveUp;

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the transport gave up")
    }
}

impl std::error::Error for GaveUp {}

impl Exchange {
    pub(super) fn new(token: &CancelToken, deadline: Instant, scheme: Scheme, addresses: Vec<SocketAddr>) -> Self {
        let tls = scheme == Scheme::Https;
        let progress = Progress { phase: Phase::Connecting, sent: false, ended: false, reset: false, fault: None };
        Exchange { token: token.clone(), deadline, tls, addresses, progress: Mutex::new(progress) }
    }

    pub(super) fn progress(&self) -> Progress {
        self.lock().clone()
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls
    }

    /// The response head is here; what follows is its body.
    pub(super) fn head_came(&self) {
        self.lock().phase = Phase::Reading;
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_up(&self, fault: Fault) -> Error {
        self.lock().fault.get_or_insert(fault);
        Error::Other(Box::new(GaveUp))
    }

    /// Fails once the call is cancelled or over; otherwise says how long it may still take.
    fn remaining(&self) -> Result<Duration, Error> {
        if self.token.is_cancelled() {
            return Err(self.give_up(Fault::Cancelled));
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(self.give_up(Fault::TimedOut)) } else { Ok(left) }
    }

    /// Waits for the socket, the cancel or `wait`, whichever comes first; true if it was the socket.
    fn wait(&self, socket: Poll<'_>, wait: Duration) -> Result<bool, Error> {
        let mut fds = [socket, Poll::readable(self.token.wake_fd())];
        sys::poll(&mut fds, Some(wait)).map_err(|error| self.give_up(Fault::Broken(error.to_string())))?;
        self.remaining()?;
        Ok(fds[0].is_ready())
    }

    fn connect(&self) -> Result<TcpStream, Error> {
        dial::connect(&self.addresses, &self.token, self.deadline).map_err(|why| {
            self.give_up(match why {
                Undialled::Cancelled => Fault::Cancelled,
                Undialled::TimedOut => Fault::TimedOut,
                Undialled::Unreachable(reasons) => Fault::Unreachable(reasons),
                Undialled::Broken(reason) => Fault::Broken(reason),
            })
        })
    }
}

/// An agent for this one exchange.
pub(super) fn agent(exchange: &Arc<Exchange>, tls: &Arc<Tls>, roots: RootCerts) -> Agent {
    let connector = ().chain(Dial(Arc::clone(exchange))).chain(SharedTls(Arc::clone(tls))).chain(Ready(Arc::clone(exchange)));
    Agent::with_parts(config(roots), connector, Checked(Arc::clone(exchange)))
}

fn config(roots: RootCerts) -> Config {
    Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
        .accept("*/*")
        .accept_encoding("identity")
        .max_response_header_size(HTTP_HEADER_BYTES)
        .input_buffer_size(INPUT_BYTES)
        .output_buffer_size(OUTPUT_BYTES)
        .max_idle_connections(0)
        .max_idle_connections_per_host(0)
        .tls_config(TlsConfig::builder().root_certs(roots).build())
        .build()
}

/// Hands ureq the addresses that were checked before; the connector dials them from the exchange.
struct Checked(Arc<Exchange>);

impl Resolver for Checked {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        self.0.addresses.iter().for_each(|address| addresses.push(*address));
        Ok(addresses)
    }
}

/// Opens the socket.
struct Dial(Arc<Exchange>);

impl Connector for Dial {
    type Out = Socket;

    fn connect(&self, _: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Socket>, Error> {
        let stream = self.0.connect()?;
        if self.0.tls {
            self.0.lock().phase = Phase::Handshake;
        }
        let buffers = LazyBuffers::new(INPUT_BYTES, OUTPUT_BYTES);
        Ok(Some(Socket { stream, exchange: Arc::clone(&self.0), buffers }))
    }
}

/// The TLS connector of the executor, shared by its agents: it keeps the parsed roots and the session tickets.
struct SharedTls(Arc<Tls>);

impl<In: Transport> Connector<In> for SharedTls {
    type Out = <Tls as Connector<In>>::Out;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        self.0.connect(details, chained)
    }
}

/// Marks the end of connecting: what the socket is given from here on belongs to the request.
struct Ready(Arc<Exchange>);

impl<In: Transport> Connector<In> for Ready {
    type Out = In;

    fn connect(&self, _: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<In>, Error> {
        self.0.lock().phase = Phase::Sending;
        Ok(chained)
    }
}

/// A non-blocking socket.
struct Socket {
    stream: TcpStream,
    exchange: Arc<Exchange>,
    buffers: LazyBuffers,
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
        let sent = send(&self.stream, &self.exchange, &self.buffers.output()[..amount]);
        if sent.is_err() {
            // What still waits in the socket belongs to a request that is given up: it must not leave on its own.
            let _ = sys::reset_on_close(self.stream.as_fd());
        }
        sent
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
        let exchange = &*self.exchange;
        exchange.begin_receive();
        let free = self.buffers.input_append_buf();
        // A full buffer that makes no progress is the peer's malformed answer, not its end.
        while !free.is_empty() {
            let left = exchange.remaining()?;
            match (&self.stream).read(free) {
                Ok(0) => return exchange.end(),
                Ok(amount) => {
                    self.buffers.input_appended(amount);
                    return Ok(true);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => drop(exchange.wait(Poll::readable(self.stream.as_fd()), left)?),
                    io::ErrorKind::Interrupted => {}
                    // Never passed on as it is: ureq takes a reset for the end of a body that only the close ends.
                    _ => return Err(exchange.give_up(Fault::Broken(error.to_string()))),
                },
            }
        }
        Ok(false)
    }

    fn is_open(&mut self) -> bool {
        false
    }
}

fn send(mut stream: &TcpStream, exchange: &Exchange, mut rest: &[u8]) -> Result<(), Error> {
    let request = exchange.begin_send();
    while !rest.is_empty() {
        let left = exchange.remaining()?;
        match stream.write(rest) {
            Ok(written) => {
                exchange.lock().sent |= request;
                rest = &rest[written..];
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => drop(exchange.wait(Poll::writable(stream.as_fd()), left)?),
                io::ErrorKind::Interrupted => {}
                // A peer that wants no more of the request may have answered already: what it said is worth reading.
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset if exchange.lock().sent => {
                    exchange.lock().reset = true;
                    return Ok(());
                }
                _ => return Err(exchange.give_up(Fault::Broken(error.to_string()))),
            },
        }
    }
    Ok(())
}

impl Exchange {
    /// Whether what is sent now belongs to the request.
    fn begin_send(&self) -> bool {
        let mut progress = self.lock();
        match progress.phase {
            Phase::Connecting | Phase::Handshake => false,
            Phase::Sending | Phase::Awaiting => {
                progress.phase = Phase::Sending;
                true
            }
            Phase::Reading => true,
        }
    }

    /// The socket has nothing more to give.
    fn end(&self) -> Result<bool, Error> {
        let mut progress = self.lock();
        progress.ended = true;
        let reset = progress.reset;
        drop(progress);
        if reset { Err(self.give_up(Fault::Broken("connection reset by the peer".to_owned()))) } else { Ok(false) }
    }

    fn begin_receive(&self) {
        let mut progress = self.lock();
        if progress.phase == Phase::Sending {
            progress.phase = Phase::Awaiting;
        }
    }
}

macro_rules! opaque_debug {
    ($($name:ident)*) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        })*
    };
}

opaque_debug!(Checked Dial SharedTls Ready Socket);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_follows_nothing_and_trusts_no_environment() {
        let config = config(RootCerts::WebPki);
        assert!(config.proxy().is_none());
        assert_eq!(config.max_redirects(), 0);
        assert!(!config.http_status_as_error());
        assert!(!config.tls_config().disable_verification());
        assert_eq!(config.max_response_header_size(), HTTP_HEADER_BYTES);
        assert_eq!(config.max_idle_connections(), 0);
    }
}
