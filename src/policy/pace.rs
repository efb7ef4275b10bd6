//! How often and how many at once: the rates and the slots of tools, shared by the workers.
//!
//! A token bucket a tool, one short lock for all of them, time as an argument. A token is spent, and a slot taken, when a call
//! is about to be carried out and never before; what is refused here has spent nothing. A slot comes back when it is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::policy::decide::Refusal;
use crate::policy::rules::{Rate, Toolbox};

/// What a bucket holds, in time: it is full when `full_at` is past, and each call moves that by `every`. Time alone never rounds.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    rate: Rate,
    full_at: Instant,
}

impl Bucket {
    /// Takes one call, or says how long it is until there is one.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let every = every(self.rate);
        let spent = self.full_at.saturating_duration_since(now);
        let room = every.saturating_mul(self.rate.burst.max(1));
        match (spent + every).checked_sub(room) {
            None | Some(Duration::ZERO) => {
                self.full_at = self.full_at.max(now) + every;
                Ok(())
            }
            Some(wait) => Err(wait),
        }
    }
}

/// From one call's return to the next.
fn every(rate: Rate) -> Duration {
    Duration::from_secs(60) / rate.per_minute.max(1)
}

#[derive(Debug)]
struct State {
    bucket: Option<Bucket>,
    max_concurrent: Option<usize>,
    running: usize,
}

/// The paces of all tools.
#[derive(Debug, Clone, Default)]
pub struct Paces {
    states: Arc<Mutex<HashMap<String, State>>>,
}

/// A place among the calls of its tool that run.
#[must_use]
#[derive(Debug)]
pub struct Slot {
    /// `None` where the tool's calls are not counted.
    held: Option<(Paces, String)>,
}

impl Paces {
    /// Full buckets and free slots, from `now` on.
    pub fn new(tools: &Toolbox, now: Instant) -> Self {
        let paces = Paces::default();
        paces.reload(tools, now);
        paces
    }

    /// Other rules, from `now` on. What was spent under the same rate stays spent, and what runs still counts.
    pub fn reload(&self, tools: &Toolbox, now: Instant) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *states);
        // Those without a pace too: what runs of them counts once they have one.
        for (tool, rule) in tools.iter() {
            let known = before.remove(&tool.name);
            let spent = known.as_ref().and_then(|state| state.bucket);
            let bucket = |rate| spent.filter(|bucket| bucket.rate == rate).unwrap_or(Bucket { rate, full_at: now });
            let (bucket, max_concurrent) = (rule.pace.rate.map(bucket), rule.pace.max_concurrent);
            let running = known.map_or(0, |state| state.running);
            states.insert(tool.name.clone(), State { bucket, max_concurrent, running });
        }
        // A tool that is gone may come back before its calls have ended.
        states.extend(before.into_iter().filter(|(_, state)| state.running > 0));
    }

    /// Lets one call of `tool` begin, or says why it may not now. The slot is held while the call is carried out.
    ///
    /// # Errors
    /// `Refusal::TooManyAtOnce`, which spends no token, or `Refusal::RateLimited`, which takes no slot.
    pub fn enter(&self, tool: &str, now: Instant) -> Result<Slot, Refusal> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = states.get_mut(tool) else { return Ok(Slot { held: None }) };
        if let Some(max) = state.max_concurrent.filter(|max| state.running >= *max) {
            return Err(Refusal::TooManyAtOnce { tool: tool.to_owned(), max });
        }
        if let Some(bucket) = &mut state.bucket {
            let rate = bucket.rate;
            bucket.take(now).map_err(|wait| Refusal::RateLimited { tool: tool.to_owned(), rate, wait })?;
        }
        state.running += 1;
        Ok(Slot { held: Some((self.clone(), tool.to_owned())) })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some((paces, tool)) = self.held.take() else { return };
        if let Some(state) = paces.states.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&tool) {
            state.running = state.running.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paces(rate: Option<(u32, u32)>, max_concurrent: Option<usize>, now: Instant) -> Paces {
        let rate = rate.map(|(per_minute, burst)| Rate { per_minute, burst });
        let bucket = rate.map(|rate| Bucket { rate, full_at: now });
        let state = State { bucket, max_concurrent, running: 0 };
        Paces { states: Arc::new(Mutex::new(HashMap::from([("t".to_owned(), state)]))) }
    }

    /// Calls at these milliseconds, and how long each that was refused would have had to wait.
    #[track_caller]
    fn check_rate(per_minute: u32, burst: u32, calls: &[(u64, Option<u64>)]) {
        let begin = Instant::now();
        let paces = paces(Some((per_minute, burst)), None, begin);
        for (at, waits) in calls {
            let entered = paces.enter("t", begin + Duration::from_millis(*at));
            let waited = match &entered {
                Ok(_) => None,
                Err(Refusal::RateLimited { wait, .. }) => Some(u64::try_from(wait.as_millis()).unwrap()),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(waited, *waits, "{per_minute} a minute, burst {burst}, at {at} ms");
        }
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_what_came_back() {
        check_rate(60, 1, &[(0, None), (0, Some(1000)), (999, Some(1)), (1000, None), (1000, Some(1000)), (60_000, None)]);
        check_rate(60, 3, &[(0, None), (0, None), (0, None), (0, Some(1000)), (1000, None), (1500, Some(500)), (3000, None)]);
        check_rate(1, 1, &[(0, None), (59_999, Some(1)), (60_000, None)]);
        check_rate(1, 2, &[(0, None), (0, None), (0, Some(60_000)), (60_000, None), (60_000, Some(60_000))]);
        check_rate(7, 1, &[(0, None), (8_571, Some(0)), (8_572, None)]);
    }

    #[test]
    fn what_is_saved_up_is_bounded() {
        check_rate(60, 2, &[(3_600_000, None), (3_600_000, None), (3_600_000, Some(1000))]);
    }

    #[test]
    fn what_is_refused_spends_nothing() {
        check_rate(60, 1, &[(0, None), (500, Some(500)), (600, Some(400)), (700, Some(300)), (1000, None)]);
        let now = Instant::now();
        let paces = paces(Some((60, 2)), Some(1), now);
        let slot = paces.enter("t", now).unwrap();
        for _ in 0..5 {
            let refusal = paces.enter("t", now).unwrap_err();
            assert_eq!(
                refusal.to_string(),
                "max_concurrent of tool \"t\": expected at most 1 at once, got one more; wait for one to end"
            );
        }
        drop(slot);
        drop(paces.enter("t", now).unwrap());
        let refusal = paces.enter("t", now).unwrap_err();
        assert_eq!(refusal.to_string(), "rate of tool \"t\": 60 a minute, burst 2; the next call is possible in 1.0 s");
        // A call that the rate refuses holds no slot.
        assert!(paces.enter("t", now + Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn a_slot_comes_back_when_it_is_dropped() {
        let now = Instant::now();
        let paces = paces(None, Some(2), now);
        let (one, two) = (paces.enter("t", now).unwrap(), paces.enter("t", now).unwrap());
        assert!(paces.enter("t", now).is_err());
        drop(one);
        let three = paces.enter("t", now).unwrap();
        assert!(paces.enter("t", now).is_err());
        drop((two, three));
        let _held = (paces.enter("t", now).unwrap(), paces.enter("t", now).unwrap());
        assert!(paces.enter("t", now).is_err());
        assert!(paces.enter("other", now).is_ok(), "each tool has its own");
    }

    /// The tool `t` at this many at once, if it is there and if that is bounded.
    fn toolbox(max_concurrent: Option<Option<usize>>) -> Toolbox {
        let tool = |max_concurrent| {
            let limits = crate::limits::Limits::default();
            let (mut tool, mut rule) = crate::gateway::reading::tool(&limits);
            tool.name = "t".to_owned();
            rule.pace.max_concurrent = max_concurrent;
            (tool, rule)
        };
        Toolbox::new(max_concurrent.map(tool).into_iter().collect())
    }

    #[test]
    fn what_runs_counts_whatever_was_loaded_in_between() {
        let now = Instant::now();
        for between in [vec![None], vec![Some(None)], vec![None, Some(None)], vec![Some(Some(5)), None, None]] {
            let paces = Paces::new(&toolbox(Some(Some(1))), now);
            let slot = paces.enter("t", now).unwrap();
            between.iter().for_each(|max| paces.reload(&toolbox(*max), now));
            paces.reload(&toolbox(Some(Some(1))), now);
            assert!(paces.enter("t", now).is_err(), "{between:?}");
            drop(slot);
            assert!(paces.enter("t", now).is_ok(), "{between:?}");
        }
        // A tool without a bound is counted for the time when it has one.
        let paces = Paces::new(&toolbox(Some(None)), now);
        let _slots: Vec<_> = (0..3).map(|_| paces.enter("t", now).unwrap()).collect();
        paces.reload(&toolbox(Some(Some(3))), now);
        assert!(paces.enter("t", now).is_err());
    }

    #[test]
    fn workers_share_them() {
        let now = Instant::now();
        let paces = paces(Some((1, 10)), None, now);
        let entered: usize = std::thread::scope(|scope| {
            let enter = || (0..20).filter(|_| paces.enter("t", now).is_ok()).count();
            let workers: Vec<_> = (0..8).map(|_| scope.spawn(enter)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(entered, 10);
    }
}
