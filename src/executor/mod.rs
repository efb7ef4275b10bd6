//! Carrying out what was allowed. Executors take `Authorized<A>` and a `CallCtx`; they never see JSON of the client.
//!
//! An executor ends by its work, its deadline or its cancel, whatever the target does, and its output goes through the
//! budget sink. Nothing upstream of `policy` reaches this module.

pub mod credential;
pub mod http;
pub mod exec;
pub mod recorder;

use std::sync::Arc;
use std::time::Instant;

use crate::cancel::CancelToken;
use crate::executor::http::HttpExecutor;
use crate::executor::recorder::Recorder;
use crate::outcome::result::{Code, Executed, Failure, Outcome};
use crate::policy::grant::Grant;
use crate::secret::{Redactor, Secret};

/// What a running call is given beside its grant.
pub struct CallCtx<'a> {
    /// Cancelled by the client or by the end of the session.
    pub token: &'a CancelToken,
    /// When the call is over at the latest.
    pub deadline: Instant,
    /// Every credential value this process has seen.
    pub redactor: Arc<Redactor>,
}

/// Credential values handed out for one call; each absent if the grant names none.
#[derive(Default)]
pub struct Handed {
    /// What the action is carried out with: a request's token, a private key, a password.
    pub main: Option<Arc<Secret>>,
    /// What opens it, if it is an encrypted key.
    pub passphrase: Option<Arc<Secret>>,
}

/// What carries actions out.
pub enum Hands {
    /// The world.
    Real(HttpExecutor),
    /// A record of what would be done (`serve --dry-run`).
    Recorder(Recorder),
}

impl Hands {
    /// Carries a grant out with the credentials it names.
    pub fn run(&self, grant: Grant, handed: &Handed, ctx: &CallCtx<'_>) -> Outcome {
        match (self, grant) {
            (Hands::Real(http), Grant::Http(grant)) => http.run(grant, handed.main.as_deref(), ctx),
            (Hands::Real(_), Grant::Exec(grant)) => exec::run(grant, ctx),
            // JOIN: the SSH executor is called here; it takes `grant`, `handed` and `ctx`.
            (Hands::Real(_), Grant::Ssh(_)) => Failure::new(Code::NotConfigured, Executed::No, "this build has no SSH").into(),
            (Hands::Recorder(recorder), grant) => recorder.record(&grant),
        }
    }
}
