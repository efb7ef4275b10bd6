//! Numbers as mathematics has them: 1, 1.0 and 10e-1 are one number, and no comparison rounds.
//! It must never compare an integer with a fraction by turning the integer into a float.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use serde_json::Number;

/// 2^127: below it an integral float is exactly an `i128`.
const INT_END: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

/// A JSON number. `Float` holds only fractions and integers too large for `Int`, so equal numbers have equal variants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Num {
    Int(i128),
    Float(f64),
}

impl Num {
    pub(super) fn of(number: &Number) -> Num {
        if let Some(n) = number.as_u64() {
            Num::Int(i128::from(n))
        } else if let Some(n) = number.as_i64() {
            Num::Int(i128::from(n))
        } else {
            Num::of_float(number.as_f64().unwrap_or(0.0))
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "integral and below 2^127, hence exact")]
    fn of_float(float: f64) -> Num {
        if float.trunc() == float && float.abs() < INT_END { Num::Int(float as i128) } else { Num::Float(float) }
    }

    pub(super) fn is_integer(self) -> bool {
        match self {
            Num::Int(_) => true,
            Num::Float(f) => f.trunc() == f,
        }
    }

    /// The number as a count: `None` for fractions and negatives, the largest count for what is larger.
    pub(super) fn as_count(self) -> Option<u64> {
        match self {
            Num::Int(n) if n >= 0 => Some(u64::try_from(n).unwrap_or(u64::MAX)),
            Num::Float(f) if f >= INT_END => Some(u64::MAX),
            Num::Int(_) | Num::Float(_) => None,
        }
    }

    pub(super) fn is_positive(self) -> bool {
        match self {
            Num::Int(n) => n > 0,
            Num::Float(f) => f > 0.0,
        }
    }

    /// Exact, also between an integer and a fraction.
    pub(super) fn compare(self, other: Num) -> Ordering {
        match (self, other) {
            (Num::Int(a), Num::Int(b)) => a.cmp(&b),
            (Num::Float(a), Num::Float(b)) => a.total_cmp(&b),
            (Num::Int(a), Num::Float(b)) => compare_mixed(a, b),
            (Num::Float(a), Num::Int(b)) => compare_mixed(b, a).reverse(),
        }
    }

    /// Whether the number is an integral multiple of `step` (above zero), both taken as the decimals they are written as:
    /// 0.3 is a multiple of 0.1, although no binary fraction is.
    pub(super) fn is_multiple_of(self, step: Num) -> bool {
        let (a, a_exponent) = self.decimal();
        let (b, b_exponent) = step.decimal();
        if a == 0 || b == 0 {
            return a == 0;
        }
        let shift = a_exponent.abs_diff(b_exponent);
        if a_exponent >= b_exponent {
            ((a % b) * power_of_ten_modulo(shift, b)).is_multiple_of(b)
        } else {
            // a is below 10^20, so a larger shift leaves no room for a multiple other than zero
            shift < 20 && a.is_multiple_of(b * 10_u128.pow(shift))
        }
    }

    /// Digits (below 2^64) and power of ten of the magnitude.
    fn decimal(self) -> (u128, i32) {
        match self {
            Num::Int(n) if n.unsigned_abs() <= u128::from(u64::MAX) => (n.unsigned_abs(), 0),
            // integers beyond u64 were read as floats, so the way back is exact
            #[expect(clippy::cast_precision_loss, reason = "the integer came from a float")]
            Num::Int(n) => float_decimal(n as f64),
            Num::Float(f) => float_decimal(f),
        }
    }
}

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Num::Int(n) => write!(f, "{n}"),
            Num::Float(x) if x.abs() >= 1e16 || x.abs() < 1e-5 => write!(f, "{x:e}"),
            Num::Float(x) => write!(f, "{x}"),
        }
    }
}

/// `float` is a fraction or at least 2^127 in magnitude, so the two are never equal.
#[expect(clippy::cast_possible_truncation, reason = "the magnitude is below 2^127")]
fn compare_mixed(int: i128, float: f64) -> Ordering {
    if float >= INT_END {
        Ordering::Less
    } else if float <= -INT_END {
        Ordering::Greater
    } else if int <= float.floor() as i128 {
        Ordering::Less
    } else {
        Ordering::Greater
    }
}

/// The shortest decimal that reads back as this float: what its author wrote, if that had at most 15 digits.
fn float_decimal(float: f64) -> (u128, i32) {
    let mut written = Written { bytes: [0; 32], len: 0 };
    write!(written, "{:e}", float.abs()).expect("a float in scientific notation has at most 24 bytes");
    let text = std::str::from_utf8(&written.bytes[..written.len]).expect("digits are ASCII");
    let (mantissa, exponent) = text.split_once('e').expect("scientific notation has an exponent");
    let fraction = mantissa.split_once('.').map_or(0, |(_, digits)| digits.len());
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).fold(0, |n, b| n * 10 + u128::from(b - b'0'));
    let exponent: i32 = exponent.parse().expect("an exponent is a small integer");
    (digits, exponent - i32::try_from(fraction).expect("at most 17 digits"))
}

/// A place on the stack to write a number to.
struct Written {
    bytes: [u8; 32],
    len: usize,
}

impl Write for Written {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// `modulus` is below 2^64, so no product overflows.
fn power_of_ten_modulo(mut exponent: u32, modulus: u128) -> u128 {
    let mut result = 1 % modulus;
    let mut square = 10 % modulus;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * square % modulus;
        }
        square = square * square % modulus;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn num(text: &str) -> Num {
        Num::of(&serde_json::from_str(text).expect("a number"))
    }

    #[track_caller]
    fn check_order(a: &str, b: &str, expected: Ordering) {
        assert_eq!(num(a).compare(num(b)), expected, "{a} {b}");
        assert_eq!(num(b).compare(num(a)), expected.reverse(), "{b} {a}");
    }

    #[test]
    fn order_is_exact() {
        check_order("1", "1.0", Ordering::Equal);
        check_order("0", "-0.0", Ordering::Equal);
        check_order("100", "1e2", Ordering::Equal);
        check_order("18446744073709551615", "18446744073709551614", Ordering::Greater);
        check_order("18446744073709551615", "18446744073709551616.0", Ordering::Less);
        check_order("9007199254740993", "9007199254740992.0", Ordering::Greater);
        check_order("-9223372036854775808", "-9223372036854775809.0", Ordering::Equal);
        check_order("-1", "-1.5", Ordering::Greater);
        check_order("-2", "-1.5", Ordering::Less);
        check_order("2", "1.5", Ordering::Greater);
        check_order("1e300", "18446744073709551615", Ordering::Greater);
        check_order("-1e300", "-9223372036854775808", Ordering::Less);
        check_order("0.1", "0.10000000000000001", Ordering::Equal);
    }

    #[track_caller]
    fn check_multiple(number: &str, step: &str, expected: bool) {
        assert_eq!(num(number).is_multiple_of(num(step)), expected, "{number} of {step}");
    }

    #[test]
    fn multiples_are_those_of_the_written_decimals() {
        check_multiple("0.3", "0.1", true);
        check_multiple("0.0075", "0.0001", true);
        check_multiple("0.00751", "0.0001", false);
        check_multiple("4.35", "0.01", true);
        check_multiple("-4.5", "1.5", true);
        check_multiple("35", "1.5", false);
        check_multiple("0", "0.7", true);
        check_multiple("0.0", "3", true);
        check_multiple("1e308", "0.5", true);
        check_multiple("1e308", "0.123456789", false);
        check_multiple("12391239123", "1e-8", true);
        check_multiple("1e-300", "1e300", false);
        check_multiple("1e300", "1e-300", true);
        check_multiple("18446744073709551615", "5", true);
        check_multiple("18446744073709551615", "2", false);
        check_multiple("1.5", "1", false);
        check_multiple("7.5", "2.5", true);
        check_multiple("1e23", "1e22", true);
        check_multiple("5e-324", "5e-324", true);
    }

    #[track_caller]
    fn check_count(number: &str, expected: Option<u64>) {
        assert_eq!(num(number).as_count(), expected, "{number}");
    }

    #[test]
    fn counts_are_integers_of_zero_or_more() {
        check_count("2.0", Some(2));
        check_count("0", Some(0));
        check_count("-0.0", Some(0));
        check_count("-1", None);
        check_count("1.5", None);
        check_count("1e300", Some(u64::MAX));
        check_count("-1e300", None);
    }

    #[test]
    fn display_is_short_and_plain() {
        let shown = ["1.0", "-2", "0.25", "1e300", "1e-7"].map(|n| num(n).to_string());
        assert_eq!(shown, ["1", "-2", "0.25", "1e300", "1e-7"]);
    }
}
