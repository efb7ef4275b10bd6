//! `--since`: a moment, said as such or by how long it is ago.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// From when on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// That long ago.
    Ago(Duration),
    /// At that moment.
    At(SystemTime),
}

impl Since {
    /// `90s`, `15m`, `2h`, `7d`, or RFC 3339 (section 5.6): `2026-07-31T08:00:00Z`, with a fraction or an offset if need be.
    pub fn parse(text: &str) -> Option<Since> {
        ago(text).map(Since::Ago).or_else(|| moment(text).map(Since::At))
    }

    /// The moment.
    pub fn moment(self, now: SystemTime) -> SystemTime {
        match self {
            Since::Ago(ago) => now.checked_sub(ago).unwrap_or(UNIX_EPOCH),
            Since::At(moment) => moment,
        }
    }
}

fn ago(text: &str) -> Option<Duration> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 24 * 3600)];
    let (unit, seconds) = units.into_iter().find(|(unit, _)| text.ends_with(*unit))?;
    let count: u64 = digits(text.strip_suffix(unit)?)?;
    Some(Duration::from_secs(count.checked_mul(seconds)?))
}

fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn moment(text: &str) -> Option<SystemTime> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (time, rest) = (rest.get(..8)?, rest.get(8..)?);
    let [year, month, day] = fields(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = fields(time, ':', [2, 2, 2])?;
    let days_in = days_in(year, month)?;
    if !(1970..=9999).contains(&year) || !(1..=days_in).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction, zone) = rest.split_at(rest.find(['Z', 'z', '+', '-'])?);
    let nanos = match fraction.strip_prefix('.') {
        Some(fraction) => digits(&format!("{:0<9.9}", fraction)).filter(|_| digits(fraction).is_some())?,
        None if fraction.is_empty() => 0,
        None => return None,
    };
    let local = days_to(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let seconds = i64::try_from(local).ok()? - offset(zone)?;
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?) + Duration::from_nanos(nanos))
}

fn fields(text: &str, separator: char, lengths: [usize; 3]) -> Option<[u64; 3]> {
    let parts: Vec<&str> = text.split(separator).collect();
    let parts: [&str; 3] = parts.try_into().ok()?;
    let is_fitting = parts.iter().zip(lengths).all(|(part, length)| part.len() == length);
    let [Some(a), Some(b), Some(c)] = parts.map(digits) else { return None };
    is_fitting.then_some([a, b, c])
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hour, minute) = zone.get(1..)?.split_once(':')?;
    let (hour, minute) = (digits(hour)?, digits(minute)?);
    (zone.len() == 6 && hour <= 23 && minute <= 59).then(|| sign * i64::try_from(hour * 3600 + minute * 60).unwrap_or(0))
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in(year: u64, month: u64) -> Option<u64> {
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 => Some(28 + u64::from(is_leap(year))),
        _ => None,
    }
}

/// Days from 1970-01-01 to a date that exists.
fn days_to(year: u64, month: u64, day: u64) -> u64 {
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months: u64 = (1..month).filter_map(|month| days_in(year, month)).sum();
    years + months + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::rfc3339;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let now = UNIX_EPOCH + Duration::from_secs(1_785_456_000);
        let shown = Since::parse(text).map(|since| rfc3339(since.moment(now)));
        assert_eq!(shown.as_deref(), expected, "{text}");
    }

    #[test]
    fn a_moment_is_said_by_name_or_by_distance() {
        check("0s", Some("2026-07-31T00:00:00.000Z"));
        check("90s", Some("2026-07-30T23:58:30.000Z"));
        check("15m", Some("2026-07-30T23:45:00.000Z"));
        check("2h", Some("2026-07-30T22:00:00.000Z"));
        check("7d", Some("2026-07-24T00:00:00.000Z"));
        check("99999999d", Some("1970-01-01T00:00:00.000Z"));
        check("2026-07-31T08:00:00Z", Some("2026-07-31T08:00:00.000Z"));
        check("2024-02-29t23:59:59.0625z", Some("2024-02-29T23:59:59.062Z"));
        check("2026-07-31 01:30:00.1+02:30", Some("2026-07-30T23:00:00.100Z"));
        check("2026-12-31T23:30:00-00:30", Some("2027-01-01T00:00:00.000Z"));
        check("2100-03-01T00:00:00Z", Some("2100-03-01T00:00:00.000Z"));
    }

    #[test]
    fn anything_else_is_no_moment() {
        for text in [
            "",
            "h",
            "-2h",
            "2",
            "2w",
            "1.5h",
            "+1s",
            "18446744073709551615d",
            "2026-07-31",
            "2026-07-31T08:00:00",
            "2026-7-31T08:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+2:00",
            "2026-01-01T00:00:00+24:00",
            "1969-12-31T00:00:00Z",
            "2026-01-01T00:00:00,5Z",
            "2026-01-01T00:00:00ZZ",
            "é026-01-01T00:00:00Z",
        ] {
            check(text, None);
        }
    }
}
