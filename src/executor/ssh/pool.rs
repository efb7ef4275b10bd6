//! Warm sessions: few a host, for a short while, each for one command at a time.
//!
//! A session in use belongs to its worker and is not here. One that failed or was cancelled never comes back. Idle ones are
//! swept whenever somebody comes by; no thread waits for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::executor::ssh::session::Link;
use crate::policy::rules::HostRule;

/// Idle sessions kept for one host: a second call at the same time is common, a third is not.
const PER_HOST: usize = 2;
/// How long one is kept: long enough for an agent's next step, short for a server that counts sessions.
const IDLE: Duration = Duration::from_secs(60);

/// The idle sessions.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<HashMap<String, Vec<Idle>>>,
}

struct Idle {
    /// As it was when the session logged in; a session of other terms is not reused.
    rule: Arc<HostRule>,
    link: Link,
    since: Instant,
}

impl Pool {
    /// The session of this host that was used last, if it is still good as far as can be seen without waiting.
    pub(super) fn take(&self, rule: &HostRule) -> Option<Link> {
        let mut idle = self.lock();
        let swept = sweep(&mut idle, Instant::now());
        let of_host = idle.get_mut(&rule.name);
        let mut stale = Vec::new();
        let found = of_host.and_then(|sessions| {
            while let Some(session) = sessions.pop() {
                if *session.rule == *rule && !session.link.is_stale() {
                    return Some(session.link);
                }
                stale.push(session);
            }
            None
        });
        // Sockets are closed without the lock.
        drop(idle);
        drop((swept, stale));
        found
    }

    /// Keeps a session that ended its command well, unless there are enough.
    pub(super) fn give(&self, rule: &Arc<HostRule>, link: Link) {
        let mut idle = self.lock();
        let swept = sweep(&mut idle, Instant::now());
        let sessions = idle.entry(rule.name.clone()).or_default();
        let surplus = (sessions.len() >= PER_HOST).then(|| sessions.remove(0));
        sessions.push(Idle { rule: Arc::clone(rule), link, since: Instant::now() });
        drop(idle);
        drop((swept, surplus));
    }

    /// Lets go of all.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes out what was idle for too long.
fn sweep(idle: &mut HashMap<String, Vec<Idle>>, now: Instant) -> Vec<Idle> {
    let old = |session: &mut Idle| now.duration_since(session.since) >= IDLE;
    let swept = idle.values_mut().flat_map(|sessions| sessions.extract_if(.., old)).collect();
    idle.retain(|_, sessions| !sessions.is_empty());
    swept
}
