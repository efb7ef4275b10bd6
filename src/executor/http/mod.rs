//! Carries out one HTTP request: resolve, judge, connect, join the credential, send, read within the budget.
//!
//! Every wait ends by the cancel or the deadline. Redirects are shown, never followed; proxies of the environment are never
//! used; a connection serves one call. Whoever is told `executed: no` can rely on it: not one byte of the request had left.

mod failure;
mod request;
mod transport;
mod trust;

use std::io::Read;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ureq::Body;
use ureq::http::{Response, StatusCode};

use crate::action::http::{HttpAction, Scheme};
use crate::executor::CallCtx;
use crate::executor::credential::Credential;
use crate::executor::dial::Dialler;
use crate::executor::http::transport::Exchange;
use crate::executor::http::trust::Trust;
use crate::executor::resolve::{Lookup, system_lookup};
use crate::limits::CHUNK_BYTES;
use crate::outcome::http::shape::Look;
use crate::outcome::http::{Ending, Head, Shown};
use crate::outcome::result::{Code, Ended, Executed, Failure, Outcome};
use crate::policy::grant::Authorized;
use crate::policy::rules::Networks;

/// Sends HTTP requests. One for the whole gateway; shared by the workers.
pub struct HttpExecutor {
    dialler: Arc<Dialler>,
    trust: Trust,
}

impl HttpExecutor {
    /// An executor that dials public addresses and those that `networks` opens, and looks names up with the C library.
    pub fn new(networks: Networks) -> Self {
        HttpExecutor { dialler: Arc::new(Dialler::new(networks, system_lookup())), trust: Trust::default() }
    }

    /// One that dials what `networks` opens, with the same lookups. Certificate authorities are read anew.
    pub fn next(&self, networks: Networks) -> Self {
        HttpExecutor { dialler: Arc::new(self.dialler.next(networks)), trust: self.trust.next() }
    }

    /// The same with another lookup.
    pub fn with_lookup(mut self, lookup: Lookup) -> Self {
        self.dialler = Arc::new(self.dialler.with_lookup(lookup));
        self
    }

    /// What it dials with, for others to share: the lookup threads are counted in it.
    pub fn dialler(&self) -> Arc<Dialler> {
        Arc::clone(&self.dialler)
    }

    /// The same with the certificate authorities of a PEM file instead of the system's.
    pub fn with_roots(mut self, file: PathBuf) -> Self {
        self.trust = Trust::from_file(file);
        self
    }

    /// Carries out one request. Blocks until the response is read, the deadline or the cancel.
    ///
    /// `credential` is the value of the credential the terms name; it is joined as the last step before sending, and told if the
    /// answer is 401 (RFC 9110 section 15.5.2: no valid credentials). 403 is no such answer: the target knew who we are. A status of
    /// 400 and above is `target_error`, executed: yes, with its content; whatever is read of a response is in the outcome.
    pub fn run(&self, grant: Authorized<HttpAction>, credential: Option<&Credential>, ctx: &CallCtx<'_>) -> Outcome {
        self.attempt(&grant, credential, ctx).unwrap_or_else(|mut failure| {
            failure.message = ctx.sinks.redactor.text(&failure.message).into_owned();
            failure.into()
        })
    }

    fn attempt(
        &self,
        grant: &Authorized<HttpAction>,
        credential: Option<&Credential>,
        ctx: &CallCtx<'_>,
    ) -> Result<Outcome, Failure> {
        let (action, terms) = (grant.action(), grant.terms());
        let exchange = Arc::new(self.exchange(action, ctx)?);
        let roots = match action.scheme {
            Scheme::Http => Trust::nobody(),
            Scheme::Https => self.trust.roots()?,
        };
        let agent = transport::agent(&exchange, self.trust.connector(), roots);
        let refused = || credential.into_iter().for_each(Credential::refused);
        let secret = credential.map(Deref::deref);
        let response = request::send(&agent, action, terms, secret, |error| failure::unanswered(error, &exchange, action))
            // What is no header text will be none the next time either.
            .inspect_err(|failure| {
                if failure.code == Code::CredentialUnavailable {
                    refused()
                }
            })?;
        exchange.head_came();
        if response.status() == StatusCode::UNAUTHORIZED {
            refused();
        }
        let shown = Shown::new(head(&response), &action.select, &ctx.sinks, terms.content_bytes);
        read(response, shown, &exchange, ctx)
    }

    /// Looks the host up and judges every address of the answer.
    fn exchange(&self, action: &HttpAction, ctx: &CallCtx<'_>) -> Result<Exchange, Failure> {
        let addresses = self.dialler.addresses(&action.host, action.port, ctx.token, ctx.deadline)?;
        Ok(Exchange::new(ctx.token, ctx.deadline, action.scheme, addresses))
    }
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
fn read(response: Response<Body>, mut shown: Shown, exchange: &Exchange, ctx: &CallCtx<'_>) -> Result<Outcome, Failure> {
    let (token, deadline) = (ctx.token, ctx.deadline);
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
    let look = || match token.is_cancelled() {
        true => Look::Cancelled,
        false if Instant::now() >= deadline => Look::Late,
        false => Look::GoOn,
    };
    let outcome = if look() == Look::Cancelled { None } else { shown.finish(ending, &look) };
    outcome.ok_or_else(|| Failure::cancelled(Executed::Yes, Some(Ended::Dead)))
}

#[cfg(test)]
mod tests;
