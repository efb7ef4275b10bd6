//! Carries out one remote command: a warm session or a new one, the host's key, the login, the command, its end.
//!
//! Every wait ends by the cancel or the deadline. Nothing of ours is shown to a host whose key is not good; there is one login
//! attempt a call. Whoever is told `executed: no` can rely on it: the server was not yet asked to start anything.

pub mod known_hosts;
mod agent;
mod auth;
mod failure;
mod host_key;
mod pool;
mod pump;
mod session;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod wrapper;

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::action::ssh::SshAction;
use crate::executor::dial::{self, Dialler};
use crate::executor::ssh::auth::Login;
use crate::executor::ssh::failure::{Phase, place, stopped, undialled};
use crate::executor::ssh::host_key::{Judge, Trust};
use crate::executor::ssh::pool::Pool;
use crate::executor::ssh::pump::Pump;
use crate::executor::ssh::session::{Limit, Link, Stop};
use crate::executor::{CallCtx, Handed};
use crate::outcome::result::{Code, Executed, Failure, Outcome};
use crate::policy::grant::Authorized;
use crate::policy::rules::HostRule;
use crate::sys::ssh::Channel;

/// How long a warm session may take to open a channel; a network that forgot it says nothing at all.
const WARM_OPEN: Duration = Duration::from_secs(3);

/// Runs remote commands. One for the whole gateway, shared by the workers.
pub struct SshExecutor {
    dialler: Arc<Dialler>,
    agent: Option<PathBuf>,
    pool: Pool,
}

impl SshExecutor {
    /// An executor without sessions. `agent` is the agent's socket (`$SSH_AUTH_SOCK` as the gateway was started with).
    pub fn new(dialler: Arc<Dialler>, agent: Option<PathBuf>) -> Self {
        SshExecutor { dialler, agent, pool: Pool::default() }
    }

    /// One with `dialler` and the same agent, without sessions.
    pub fn next(&self, dialler: Arc<Dialler>) -> Self {
        SshExecutor::new(dialler, self.agent.clone())
    }

    /// Carries out one command on `host`, which must be the rule of the action's host. Blocks until the command has ended, the
    /// deadline or the cancel, and at most 1.5 s longer where the remote command is told to end.
    ///
    /// A status other than 0 or a signal is `target_error`, executed: yes, with the output.
    pub fn run(&self, grant: Authorized<SshAction>, host: &Arc<HostRule>, secrets: Handed, ctx: &CallCtx<'_>) -> Outcome {
        self.attempt(&grant, host, secrets, ctx).unwrap_or_else(|mut failure| {
            failure.message = ctx.sinks.redactor.text(&failure.message).into_owned();
            failure.into()
        })
    }

    /// Lets go of the warm sessions, without waiting for their servers. At the end of a session, and when hosts have changed.
    pub fn close(&self) {
        self.pool.clear();
    }

    fn attempt(
        &self,
        grant: &Authorized<SshAction>,
        host: &Arc<HostRule>,
        secrets: Handed,
        ctx: &CallCtx<'_>,
    ) -> Result<Outcome, Failure> {
        let (action, terms) = (grant.action(), grant.terms());
        let limit = Limit { token: ctx.token, until: ctx.deadline };
        limit.check().map_err(|stop| stopped(stop, Phase::Connecting, host))?;
        let command = CString::new(wrapper::command_line(action, host.tie))
            .map_err(|_| Failure::new(Code::BadArguments, Executed::No, "expected a command without NUL, got one with it"))?;
        let (mut link, channel) = match self.warm(host, limit)? {
            Some(warm) => warm,
            None => self.fresh(host, secrets, limit)?,
        };
        let pump = Pump::new(&link, channel, host, &action.stdin, terms, ctx);
        let (outcome, keep) = pump.run(&command, terms, ctx);
        if keep {
            link.detach();
            self.pool.give(host, link);
        }
        Ok(outcome)
    }

    /// A warm session that opens a channel. One that does not is dropped: nothing was executed on it.
    fn warm(&self, host: &Arc<HostRule>, limit: Limit<'_>) -> Result<Option<(Link, Channel)>, Failure> {
        let Some(mut link) = self.pool.take(host) else { return Ok(None) };
        link.attach(limit.token);
        match link.open(limit.at_most(WARM_OPEN)) {
            Ok(channel) => Ok(Some((link, channel))),
            Err(stop @ Stop::Cancelled) => Err(stopped(stop, Phase::Opening, host)),
            Err(Stop::TimedOut) if Instant::now() >= limit.until => Err(stopped(Stop::TimedOut, Phase::Opening, host)),
            Err(Stop::TimedOut | Stop::Failed(_) | Stop::Io(_)) => {
                log::info!("ssh: the warm session with {} was gone; connecting anew", place(host));
                Ok(None)
            }
        }
    }

    fn fresh(&self, host: &HostRule, secrets: Handed, limit: Limit<'_>) -> Result<(Link, Channel), Failure> {
        let login = Login::prepare(host, secrets, self.agent.as_deref())?;
        let judge = Judge::new(host)?;
        let addresses = self.dialler.addresses(&host.address, host.port, limit.token, limit.until)?;
        let stream = dial::connect(&addresses, limit.token, limit.until).map_err(|why| undialled(why, host))?;
        let link = Link::handshake(stream, &judge.algorithms(), limit).map_err(|stop| stopped(stop, Phase::Handshake, host))?;
        let key = link.host_key().map_err(|stop| stopped(stop, Phase::Handshake, host))?;
        let trust = judge.judge(key)?;
        login.run(&link, limit)?;
        if trust == Trust::New {
            judge.remember(key, limit)?;
        }
        let channel = link.open(limit).map_err(|stop| stopped(stop, Phase::Opening, host))?;
        Ok((link, channel))
    }
}
