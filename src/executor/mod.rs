//! Carrying out what was allowed. Executors take `Authorized<A>` and a `CallCtx`; they never see JSON of the client.
//!
//! An executor ends by its work, its deadline or its cancel, whatever the target does, and its output goes through the
//! budget sink. Nothing upstream of `policy` reaches this module.

pub mod credential;
pub mod address;
pub mod resolve;
pub mod dial;
pub mod http;
pub mod exec;
#[cfg(feature = "ssh")]
pub mod ssh;
pub mod read;
pub mod recorder;

use std::path::PathBuf;
use std::time::Instant;

use crate::action::ssh::SshAction;
use crate::cancel::CancelToken;
use crate::executor::credential::Credential;
use crate::executor::http::HttpExecutor;
use crate::executor::recorder::Recorder;
use crate::outcome::budget::Sinks;
use crate::outcome::result::{Code, Executed, Failure, Outcome};
use crate::policy::grant::{Authorized, Grant};
use crate::policy::rules::Networks;

/// What a running call is given beside its grant.
pub struct CallCtx<'a> {
    /// Cancelled by the client or by the end of the session.
    pub token: &'a CancelToken,
    /// When the call is over at the latest.
    pub deadline: Instant,
    /// What its output is written to.
    pub sinks: Sinks,
}

/// Credential values handed out for one call; each absent if the grant names none.
#[derive(Clone, Default)]
pub struct Handed {
    /// What the action is carried out with: a request's token, a private key, a password.
    pub main: Option<Credential>,
    /// What opens it, if it is an encrypted key.
    pub passphrase: Option<Credential>,
}

#[cfg(feature = "ssh")]
impl Handed {
    /// The target took them for no proof of who we are.
    fn refused(&self) {
        [&self.main, &self.passphrase].into_iter().flatten().for_each(Credential::refused);
    }
}

/// What carries actions out.
pub enum Hands {
    /// The world.
    Real(Executors),
    /// A record of what would be done (`serve --dry-run`).
    Recorder(Recorder),
}

/// One executor a kind of action, shared by the workers.
pub struct Executors {
    http: HttpExecutor,
    #[cfg(feature = "ssh")]
    ssh: ssh::SshExecutor,
}

impl Executors {
    /// Executors that dial public addresses and those that `networks` opens. `agent`: the socket of the SSH agent, if there is one.
    pub fn new(networks: Networks, agent: Option<PathBuf>) -> Self {
        let http = HttpExecutor::new(networks);
        #[cfg(not(feature = "ssh"))]
        drop(agent);
        Executors {
            #[cfg(feature = "ssh")]
            ssh: ssh::SshExecutor::new(http.dialler(), agent),
            http,
        }
    }

    #[cfg(feature = "ssh")]
    fn run_remote(&self, grant: Authorized<SshAction>, handed: &Handed, ctx: &CallCtx<'_>) -> Outcome {
        let Some(host) = grant.terms().host.clone() else {
            return Failure::new(Code::Internal, Executed::No, "the grant of a remote command names no host").into();
        };
        let outcome = self.ssh.run(grant, &host, handed.clone(), ctx);
        // Also where the value is no key at all: a source that gave it may give a better one next time.
        if outcome.code == Some(Code::AuthFailed) {
            handed.refused();
        }
        outcome
    }

    #[cfg(not(feature = "ssh"))]
    fn run_remote(&self, _grant: Authorized<SshAction>, _handed: &Handed, _ctx: &CallCtx<'_>) -> Outcome {
        Failure::new(Code::NotConfigured, Executed::No, "this build has no SSH (feature ssh)").into()
    }

    /// Lets go of what is kept warm between calls. Waits for nobody.
    fn close(&self) {
        #[cfg(feature = "ssh")]
        self.ssh.close();
    }
}

impl Hands {
    /// At the end of the session.
    pub fn close(&self) {
        match self {
            Hands::Real(executors) => executors.close(),
            Hands::Recorder(_) => {}
        }
    }

    /// Carries a grant out with the credentials it names.
    pub fn run(&self, grant: Grant, handed: &Handed, ctx: &CallCtx<'_>) -> Outcome {
        match (self, grant) {
            (Hands::Real(executors), Grant::Http(grant)) => executors.http.run(grant, handed.main.as_ref(), ctx),
            (Hands::Real(_), Grant::Exec(grant)) => exec::run(grant, ctx),
            (Hands::Real(executors), Grant::Ssh(grant)) => executors.run_remote(grant, handed, ctx),
            (Hands::Real(_), Grant::Read(grant)) => read::run(&grant, ctx),
            (Hands::Recorder(recorder), grant) => recorder.record(&grant),
        }
    }
}
