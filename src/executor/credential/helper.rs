//! Has a credential's value from a program: bare environment, no shell, no standard input, bounded in time and in bytes.
//!
//! What it prints is held in wiped memory and shown to nobody; stderr is read and thrown away, for it may hold the secret too.
//! Helper, group and strays have ended when this returns, or were let go after KILL, as with any command.

use std::path::Path;
use std::time::Instant;

use zeroize::Zeroizing;

use crate::executor::credential::error::{Cause, Stop};
use crate::executor::credential::file::ROOM;
use crate::executor::credential::{Helper, Limit, accept_line};
use crate::outcome::result::Ended;
use crate::process::mark::Mark;
use crate::process::run::{self, Output, Stopped, Taken};
use crate::process::{self, Child, End, Spec, Status, Stdin};
use crate::secret::{Secret, SecretError};

/// Runs the helper once. Returns at the latest 2.5 s after the call's deadline, the helper's time limit or the cancel.
pub(super) fn run(helper: &Helper, limit: Limit<'_>) -> Result<Secret, Stop> {
    if limit.token.is_cancelled() {
        return Err(Stop::Cancelled(None));
    }
    if Instant::now() >= limit.until {
        return Err(Stop::TimedOut(None));
    }
    let child = spawn(helper).map_err(Stop::Failed)?;
    let slow_at = Instant::now() + helper.timeout;
    let mut printed = Printed(Zeroizing::new(Vec::with_capacity(ROOM)));
    let finished = run::run(child, &[], &mut printed, limit.token, slow_at.min(limit.until))
        .map_err(|error| Stop::Failed(Cause::Unwatched(error.to_string())))?;
    let failed = |cause| Err(Stop::Failed(cause));
    match finished.stopped {
        Some(Stopped::Cancelled) => Err(Stop::Cancelled(Some(ended(finished.end)))),
        Some(Stopped::Late) if limit.until <= slow_at => Err(Stop::TimedOut(Some(ended(finished.end)))),
        Some(Stopped::Late) => failed(Cause::TooSlow(helper.timeout)),
        Some(Stopped::Refused) => failed(Cause::Unfit(SecretError::TooLong)),
        None => match finished.end.status {
            Some(Status::Exited(0)) => accept_line(&printed.0).map_err(Stop::Failed),
            Some(Status::Exited(status)) => failed(Cause::Failed(status)),
            Some(Status::Signalled(signal)) => failed(Cause::Killed(signal)),
            None => failed(Cause::Unwatched("its exit status was lost".to_owned())),
        },
    }
}

fn spawn(helper: &Helper) -> Result<Child, Cause> {
    let mark = Mark::random().map_err(|error| Cause::NotStarted(error.to_string()))?;
    let inherited = helper.inherit.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
    let env: Vec<(String, String)> = helper.env.iter().cloned().chain(inherited).collect();
    let spec = Spec { argv: &helper.argv, env: &env, cwd: Path::new("/"), mark, stdin: Stdin::Null };
    process::spawn(&spec).map_err(|error| Cause::NotStarted(error.to_string()))
}

/// What the helper printed; never more than `ROOM`, so that no unwiped copy is left behind.
struct Printed(Zeroizing<Vec<u8>>);

impl Output for Printed {
    fn stdout(&mut self, bytes: &[u8]) -> Taken {
        let fits = bytes.len().min(ROOM - self.0.len());
        self.0.extend_from_slice(&bytes[..fits]);
        if self.0.len() < ROOM { Taken::Wanted } else { Taken::Refused }
    }

    fn stderr(&mut self, _bytes: &[u8]) {}
}

fn ended(end: End) -> Ended {
    if end.alive == 0 { Ended::Dead } else { Ended::Detached }
}

#[cfg(test)]
mod tests;
