//! Carries out one HTTP request: resolve, judge, connect, join the credential, send, read within the budget.
//!
//! Every wait ends by the cancel or the deadline. Redirects are shown, never followed; proxies of the environment are never
//! used; a connection serves one call. Whoever is told `executed: no` can rely on it: not one byte of the request had left.

pub mod address;
pub mod resolve;
mod failure;
mod request;
mod transport;
mod trust;

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use ureq::Body;
use ureq::http::Response;

use crate::action::http::{HttpAction, Scheme};
use crate::cancel::CancelToken;
use crate::executor::CallCtx;
use crate::executor::http::resolve::{Lookup, Resolver, Unresolved, system_lookup};
use crate::executor::http::transport::Exchange;
use crate::executor::http::trust::Trust;
use crate::limits::CHUNK_BYTES;
use crate::outcome::http::{Ending, Head, Shown};
use crate::outcome::result::{Code, Ended, Executed, Failure, Outcome};
use crate::policy::grant::Authorized;
use crate::policy::rules::Networks;
use crate::secret::Secret;

/// Sends HTTP requests. One for the whole gateway; shared by the workers.
pub struct HttpExecutor {
    networks: Networks,
    resolver: Resolver,
    trust: Trust,
}

impl HttpExecutor {
    /// An executor that dials public addresses and those that `networks` opens, and looks names up with the C library.
    pub fn new(networks: Networks) -> Self {
        HttpExecutor { networks, resolver: Resolver::new(system_lookup()), trust: Trust::default() }
    }

    /// The same with another lookup.
    pub fn with_lookup(mut self, lookup: Lookup) -> Self {
        self.resolver = Resolver::new(lookup);
        self
    }

    /// The same with the certificate authorities of a PEM file instead of the system's.
    pub fn with_roots(mut self, file: PathBuf) -> Self {
        self.trust = Trust::from_file(file);
        self
    }

    /// Carries out one request. Blocks until the response is read, the deadline or the cancel.
    ///
    /// `credential` is the value of the credential the terms name; it is joined as the last step before sending. A status of
    /// 400 and above is `target_error`, executed: yes, with its content; whatever is read of a response is in the outcome.
    pub fn run(&self, grant: Authorized<HttpAction>, credential: Option<&Secret>, ctx: &CallCtx<'_>) -> Outcome {
        self.attempt(&grant, credential, ctx).unwrap_or_else(|mut failure| {
            failure.message = ctx.redactor.text(&failure.message).into_owned();
            failure.into()
        })
    }

    fn attempt(
        &self,
        grant: &Authorized<HttpAction>,
        credential: Option<&Secret>,
        ctx: &CallCtx<'_>,
    ) -> Result<Outcome, Failure> {
        let (action, terms) = (grant.action(), grant.terms());
        let exchange = Arc::new(self.exchange(action, ctx)?);
        let roots = match action.scheme {
            Scheme::Http => Trust::nobody(),
            Scheme::Https => self.trust.roots()?,
        };
        let agent = transport::agent(&exchange, self.trust.connector(), roots);
        let response = request::send(&agent, action, terms, credential, |error| failure::unanswered(error, &exchange, action))?;
        exchange.head_came();
        let shown = Shown::new(head(&response), &action.select, &ctx.redactor, terms.content_bytes);
        read(response, shown, &exchange, ctx.token)
    }

    /// Looks the host up and judges every address of the answer.
    fn exchange(&self, action: &HttpAction, ctx: &CallCtx<'_>) -> Result<Exchange, Failure> {
        let HttpAction { host, port, .. } = action;
        let addresses = self.resolver.resolve(host, *port, ctx.token, ctx.deadline).map_err(|why| unresolved(&why, host))?;
        for address in &addresses {
            address::verdict(address.ip(), host, &self.networks).map_err(|blocked| {
                let message = format!(
                    "the address of {host} may not be dialled: {blocked}; `networks` in the configuration can open its range"
                );
                Failure::new(Code::BlockedTarget, Executed::No, message)
            })?;
        }
        if ctx.token.is_cancelled() {
            return Err(Failure::cancelled(Executed::No, None));
        }
        Ok(Exchange::new(ctx.token, ctx.deadline, action.scheme, addresses))
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
            (Code::UnknownHost, format!("{host} could not be resolved: {reason}; check the host of the tool's URL"))
        }
    };
    Failure::new(code, Executed::No, message)
}

fn head(response: &Response<Body>) -> Head {
    let headers = response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    Head {
        status: response.status().as_u16(),
        reason: response.status().canonical_reason().unwrap_or_default(),
        headers: headers.collect(),
    }
}

/// Reads the body into what will be shown of it, to its end or to where it is cut.
fn read(response: Response<Body>, mut shown: Shown, exchange: &Exchange, token: &CancelToken) -> Result<Outcome, Failure> {
    let announced = response.body().content_length();
    let mut reader = response.into_body().into_reader();
    let mut chunk = vec![0; CHUNK_BYTES];
    let ending = loop {
        match reader.read(&mut chunk) {
            Ok(0) if announced.is_none() => break failure::close_delimited(exchange),
            Ok(0) => break Ending::Whole,
            Ok(amount) => shown.write(&chunk[..amount]),
            Err(error) => break failure::cut(error, exchange, shown.bytes(), announced),
        }
    };
    // The connection ends here, before anything is made of what it brought.
    drop(reader);
    let cancelled = || token.is_cancelled();
    let outcome = if cancelled() { None } else { shown.finish(ending, &cancelled) };
    outcome.ok_or_else(|| Failure::cancelled(Executed::Yes, Some(Ended::Dead)))
}

#[cfg(test)]
mod tests;
