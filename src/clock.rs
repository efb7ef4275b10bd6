//! Wall-clock time, injected so that tests can hold it still, its text form, and what may happen only so often.
//!
//! Deadlines use `Instant` and are never injected: only what is shown or recorded is.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where shown times come from.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The system's clock.
    System,
    /// One moment for ever; every duration is zero.
    Fixed(SystemTime),
}

impl Clock {
    /// Now, as RFC 3339 in UTC with milliseconds.
    pub fn now_text(self) -> String {
        match self {
            Clock::System => rfc3339(SystemTime::now()),
            Clock::Fixed(moment) => rfc3339(moment),
        }
    }

    /// Milliseconds since 1970; 0 before.
    pub fn unix_ms(self) -> u64 {
        let moment = match self {
            Clock::System => SystemTime::now(),
            Clock::Fixed(moment) => moment,
        };
        let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// How long it is since `start`.
    pub fn since(self, start: Instant) -> Duration {
        match self {
            Clock::System => start.elapsed(),
            Clock::Fixed(_) => Duration::ZERO,
        }
    }
}

/// A moment as RFC 3339 in UTC with milliseconds. A moment before 1970 is shown as 1970.
pub fn rfc3339(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, days) = (since.as_secs() % 86_400, since.as_secs() / 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Days since 1970-01-01 as year, month, day of the proleptic Gregorian calendar, counted in eras of 400 years.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468; // days since 0000-03-01
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Lets something happen in a burst, and then only so often.
#[derive(Debug)]
pub struct Allowance {
    burst: u32,
    every: Duration,
    left: u32,
    since: Instant,
}

impl Allowance {
    /// `burst` at once; one comes back each `every`.
    pub fn new(burst: u32, every: Duration) -> Self {
        Allowance { burst, every, left: burst, since: Instant::now() }
    }

    /// Takes one; false where none is left now.
    pub fn take(&mut self) -> bool {
        self.take_at(Instant::now())
    }

    fn take_at(&mut self, now: Instant) -> bool {
        let come_back = now.saturating_duration_since(self.since).as_secs_f64() / self.every.as_secs_f64();
        if come_back >= 1.0 {
            self.left = self.burst.min(self.left.saturating_add(come_back as u32));
            self.since = now;
        }
        let has_one = self.left > 0;
        self.left = self.left.saturating_sub(1);
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_gives_a_burst_and_then_one_at_a_time() {
        let mut allowance = Allowance::new(3, Duration::from_secs(2));
        let begin = allowance.since;
        let mut take = |millis| allowance.take_at(begin + Duration::from_millis(millis));
        assert_eq!([0, 0, 1, 2, 1999].map(&mut take), [true, true, true, false, false]);
        assert_eq!([2000, 2001, 3999, 4000].map(&mut take), [true, false, false, true]);
        assert_eq!([1_000_000, 1_000_000, 1_000_000, 1_000_000].map(&mut take), [true, true, true, false]);
    }

    #[test]
    fn moments_read_as_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (1_785_456_000, "2026-07-31T00:00:00.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
