//! How far a call has come, for a client that asked to be told: when something is due, and what it says.
//!
//! ```text
//! admitted ──100 ms and something new, else 1 s──▶ notice ──the same again──▶ notice ─ ─ ▶ reply or cancel: the track is gone
//! ```
//! The value is the call's age in milliseconds: it rises with each notice, whether or not the source said anything. Time is an
//! argument; nothing here waits, sends, or knows of other calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::limits::{PROGRESS_ENVELOPE_BYTES, PROGRESS_EVERY, PROGRESS_HEARTBEAT};
use crate::mcp::call::{Call, ProgressToken};
use crate::mcp::era::Era;
use crate::mcp::render::{Progress, render_progress};
use crate::outcome::meter::Meter;

/// Where an open call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It waits for a worker.
    Queued,
    /// It waits for an approval by whom this names.
    Waiting(&'static str),
    /// A worker has it.
    Running,
}

struct Listener {
    era: Era,
    token: ProgressToken,
}

/// What was told of one call, and what there would be to tell.
pub struct Track {
    to: Arc<Listener>,
    meter: Arc<Meter>,
    admitted: Instant,
    /// Bytes and lines of the last notice.
    told: (u64, u64),
    /// The call's age at the last notice.
    told_at: Duration,
}

/// One notification that is due.
pub struct Notice {
    to: Arc<Listener>,
    done_ms: u64,
    message: String,
}

impl Track {
    /// Of a call admitted at `admitted` whose sources `meter` counts; `None` if its client gave no token.
    pub fn of(call: &Call, meter: &Arc<Meter>, admitted: Instant) -> Option<Self> {
        let to = Arc::new(Listener { era: call.origin().era, token: call.progress()?.clone() });
        Some(Track { to, meter: Arc::clone(meter), admitted, told: (0, 0), told_at: Duration::ZERO })
    }

    /// When the call was admitted.
    pub fn admitted(&self) -> Instant {
        self.admitted
    }

    /// What its notifications take of the outbox at most: one that waits, and one in the writer's hand.
    pub fn reserved_bytes(&self) -> usize {
        2 * (self.to.token.to_json().len() + PROGRESS_ENVELOPE_BYTES)
    }

    /// What is to be told of a call of this age now.
    pub fn notice(&mut self, age: Duration, stage: Stage) -> Option<Notice> {
        let now = (self.meter.bytes(), self.meter.lines());
        let wait = if now == self.told { PROGRESS_HEARTBEAT } else { PROGRESS_EVERY };
        if age.saturating_sub(self.told_at) < wait {
            return None;
        }
        (self.told, self.told_at) = (now, age);
        let done_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        Some(Notice { to: Arc::clone(&self.to), done_ms, message: message(stage, now, age) })
    }

    /// How long nothing can be due, seen from this age, `notice` having been asked.
    pub fn rest(&self, age: Duration) -> Duration {
        let since = age.saturating_sub(self.told_at);
        let soon = PROGRESS_EVERY.saturating_sub(since);
        if soon.is_zero() { PROGRESS_HEARTBEAT.saturating_sub(since).min(PROGRESS_EVERY) } else { soon }
    }
}

impl Notice {
    /// As a line without its LF.
    pub fn render(&self) -> String {
        let progress = Progress { done: self.done_ms, total: None, message: Some(&self.message) };
        render_progress(self.to.era, &self.to.token, progress)
    }
}

fn message(stage: Stage, (bytes, lines): (u64, u64), age: Duration) -> String {
    let age = format!("{}.{} s", age.as_secs(), age.subsec_millis() / 100);
    match (stage, bytes) {
        (Stage::Queued, _) => format!("queued, {age}"),
        (Stage::Waiting(by), _) => format!("waiting for approval by the {by}, {age}"),
        (Stage::Running, 0) => format!("running, {age}"),
        (Stage::Running, _) => format!("{bytes} bytes, {lines} lines, {age}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::era::{Origin, Revision};
    use crate::rpc::id::Id;

    const TEN: u64 = 10;

    impl Track {
        /// Of a call that was just admitted and has produced nothing.
        pub(crate) fn testing() -> Track {
            track(Era::Modern, "\"t\"").0
        }
    }

    fn track(era: Era, token: &str) -> (Track, Arc<Meter>) {
        let params = format!(r#"{{"name":"x","_meta":{{"progressToken":{token}}}}}"#);
        let call = Call::testing(Origin { id: Id::integer(1), era }, &params).unwrap();
        let meter = Arc::default();
        (Track::of(&call, &meter, Instant::now()).unwrap(), meter)
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Looks at a call every 10 ms of its first `until_ms`, `produce` saying what it produces by then; the ages told of.
    fn told(until_ms: u64, produce: impl Fn(u64, &Meter)) -> Vec<u64> {
        let (mut track, meter) = track(Era::Modern, "1");
        let ages = (0..=until_ms / TEN).map(|look| look * TEN).filter(|age| {
            produce(*age, &meter);
            track.notice(ms(*age), Stage::Running).is_some()
        });
        ages.collect()
    }

    #[test]
    fn a_flood_is_told_of_ten_times_a_second() {
        assert_eq!(told(1000, |_, meter| meter.count(b"x\n")), (1..=10).map(|tenth| tenth * 100).collect::<Vec<_>>());
    }

    #[test]
    fn a_silent_call_is_told_of_once_a_second_and_a_quick_one_never() {
        assert_eq!(told(3500, |_, _| {}), [1000, 2000, 3000]);
        assert_eq!(told(90, |_, meter| meter.count(b"x")), [0; 0]);
    }

    #[test]
    fn what_is_new_is_told_at_the_next_tenth_and_the_heartbeat_counts_from_there() {
        let once = |at: u64| {
            move |age: u64, meter: &Meter| {
                if age == at {
                    meter.count(b"x")
                }
            }
        };
        assert_eq!(told(2500, once(50)), [100, 1100, 2100]);
        assert_eq!(told(2500, once(550)), [550, 1550]);
        assert_eq!(told(2500, once(1050)), [1000, 1100, 2100]);
    }

    #[test]
    fn nothing_is_due_before_it_is_looked_at_again() {
        for (age, rest) in [(0, 100), (30, 70), (100, 100), (899, 100), (950, 50), (999, 1)] {
            let (mut track, _meter) = track(Era::Modern, "1");
            assert!(track.notice(ms(age), Stage::Running).is_none());
            assert_eq!(track.rest(ms(age)), ms(rest), "{age}");
        }
        let (mut track, _meter) = track(Era::Modern, "1");
        assert!(track.notice(ms(1000), Stage::Running).is_some());
        assert_eq!(track.rest(ms(1000)), ms(100));
    }

    #[track_caller]
    fn check_message(stage: Stage, output: &[u8], age_ms: u64, expected: &str) {
        let meter = Meter::default();
        meter.count(output);
        assert_eq!(message(stage, (meter.bytes(), meter.lines()), ms(age_ms)), expected);
    }

    #[test]
    fn a_message_says_what_came_and_how_long_it_takes() {
        check_message(Stage::Queued, b"", 450, "queued, 0.4 s");
        check_message(Stage::Waiting("operator"), b"", 9_999, "waiting for approval by the operator, 9.9 s");
        check_message(Stage::Running, b"", 1000, "running, 1.0 s");
        check_message(Stage::Running, b"a\nb\nc", 3299, "5 bytes, 2 lines, 3.2 s");
    }

    #[test]
    fn the_token_is_echoed_and_2024_11_05_has_no_message_s90_s93() {
        let line = |era, token: &str| {
            let (mut track, _meter) = track(era, token);
            track.notice(ms(1000), Stage::Running).unwrap().render()
        };
        for token in ["7", "\"7\"", "\"\"", "123456789012345678901234567890"] {
            let head = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1000"#
            );
            assert_eq!(line(Era::Legacy(Revision::V2024_11_05), token), format!("{head}}}}}"));
            assert_eq!(line(Era::Modern, token), format!(r#"{head},"message":"running, 1.0 s"}}}}"#));
        }
    }

    #[test]
    fn the_longest_notification_fits_what_is_reserved_for_it() {
        let (track, _meter) = track(Era::Modern, "\"\"");
        let message = message(Stage::Running, (u64::MAX, u64::MAX), Duration::MAX);
        let notice = Notice { to: track.to.clone(), done_ms: u64::MAX, message };
        assert!(2 * (notice.render().len() + 1) <= track.reserved_bytes(), "{}", notice.render());
    }
}
