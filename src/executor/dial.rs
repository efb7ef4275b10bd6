//! From a configured host to a connected socket: look up, judge every address, dial in order.
//!
//! Shared by the executors that open connections. Every wait ends by the cancel or the deadline, no address is dialled that
//! was not judged, and there is no second lookup. Nothing here sends a byte.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cancel::CancelToken;
use crate::executor::address::verdict;
use crate::executor::resolve::{Lookup, Resolver, Unresolved};
use crate::outcome::result::{Code, Executed, Failure};
use crate::policy::rules::Networks;
use crate::sys::{self, Poll};

/// The most one address may take to connect: a SYN and two retransmissions, and a black hole still leaves time for the next.
const CONNECT: Duration = Duration::from_secs(10);
/// Addresses tried; more would only eat the call's time.
const ADDRESSES: usize = 16;

/// Turns hosts into connections. One for the whole gateway: the lookup threads are counted in it.
pub struct Dialler {
    networks: Networks,
    resolver: Arc<Resolver>,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undialled {
    /// The call was cancelled meanwhile.
    Cancelled,
    /// The call's deadline passed.
    TimedOut,
    /// No address took a connection; the first few with their reasons.
    Unreachable(String),
    /// poll(2) failed.
    Broken(String),
}

impl Dialler {
    /// Dials public addresses and those that `networks` opens; looks names up with `lookup`.
    pub fn new(networks: Networks, lookup: Lookup) -> Self {
        Dialler { networks, resolver: Arc::new(Resolver::new(lookup)) }
    }

    /// Other networks with the same lookups, whose threads are counted together.
    pub fn next(&self, networks: Networks) -> Self {
        Dialler { networks, resolver: Arc::clone(&self.resolver) }
    }

    /// The same networks with another lookup.
    pub fn with_lookup(&self, lookup: Lookup) -> Self {
        Dialler::new(self.networks.clone(), lookup)
    }

    /// The addresses of a configured host, each of which may be dialled; at most 16, never none.
    pub fn addresses(&self, host: &str, port: u16, token: &CancelToken, deadline: Instant) -> Result<Vec<SocketAddr>, Failure> {
        let mut addresses = self.resolver.resolve(host, port, token, deadline).map_err(|why| unresolved(&why, host))?;
        for address in &addresses {
            verdict(address.ip(), host, &self.networks).map_err(|blocked| {
                let message = format!(
                    "the address of {host} may not be dialled: {blocked}; `networks` in the configuration can open its range"
                );
                Failure::new(Code::BlockedTarget, Executed::No, message)
            })?;
        }
        if token.is_cancelled() {
            return Err(Failure::cancelled(Executed::No, None));
        }
        addresses.truncate(ADDRESSES);
        Ok(addresses)
    }
}

fn unresolved(why: &Unresolved, host: &str) -> Failure {
    let (code, message) = match why {
        Unresolved::Cancelled => return Failure::cancelled(Executed::No, None),
        Unresolved::TimedOut => (
            Code::TimedOut,
            format!(
                "the call's time ran out while resolving {host}; the name service does not answer, or `timeout_s` is too short"
            ),
        ),
        Unresolved::Busy => {
            (Code::Busy, format!("{host} was not looked up: every lookup thread waits for the name service; try again later"))
        }
        Unresolved::Failed(reason) => {
            (Code::UnknownHost, format!("{host} could not be resolved: {reason}; check the host in the configuration"))
        }
    };
    Failure::new(code, Executed::No, message)
}

/// Dials the addresses in order until one takes the connection. The stream is non-blocking and sends without delay.
pub fn connect(addresses: &[SocketAddr], token: &CancelToken, deadline: Instant) -> Result<TcpStream, Undialled> {
    let mut reasons = Vec::new();
    for (index, address) in addresses.iter().enumerate() {
        let others = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        let share = CONNECT.min(remaining(token, deadline)? / others);
        match connect_to(*address, Instant::now() + share, token, deadline)? {
            Ok(stream) => return Ok(stream),
            Err(error) => reasons.push(format!("{address}: {error}")),
        }
    }
    let more = reasons.len().saturating_sub(3);
    reasons.truncate(3);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Err(Undialled::Unreachable(reasons.join("; ") + &more))
}

/// The inner error concerns this address alone.
fn connect_to(
    address: SocketAddr,
    until: Instant,
    token: &CancelToken,
    deadline: Instant,
) -> Result<io::Result<TcpStream>, Undialled> {
    let begin = Instant::now();
    let stream = match sys::connect_start(address) {
        Ok(stream) => stream,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        let mut fds = [Poll::writable(stream.as_fd()), Poll::readable(token.wake_fd())];
        let wait = until.saturating_duration_since(Instant::now());
        sys::poll(&mut fds, Some(wait)).map_err(|error| Undialled::Broken(error.to_string()))?;
        remaining(token, deadline)?;
        if fds[0].is_ready() {
            break;
        }
        if Instant::now() >= until {
            let waited = until.duration_since(begin).as_millis();
            return Ok(Err(io::Error::other(format!("no answer within {waited} ms"))));
        }
    }
    Ok(match stream.take_error() {
        Ok(None) => stream.set_nodelay(true).map(|()| stream),
        Ok(Some(error)) | Err(error) => Err(error),
    })
}

/// Fails once the call is cancelled or over; otherwise says how long it may still take.
fn remaining(token: &CancelToken, deadline: Instant) -> Result<Duration, Undialled> {
    if token.is_cancelled() {
        return Err(Undialled::Cancelled);
    }
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Undialled::TimedOut) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_gets_its_share_and_a_refusal_is_told() {
        let refused = |_: usize| std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let token = CancelToken::new().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        assert_eq!(connect(&[refused(0), good], &token, deadline).unwrap().peer_addr().unwrap(), good);

        let addresses: Vec<_> = (0..5).map(refused).collect();
        let Err(Undialled::Unreachable(reasons)) = connect(&addresses, &token, deadline) else { panic!("not unreachable") };
        assert!(reasons.contains("refused") && reasons.ends_with("; and 2 more"), "{reasons}");
    }
}
