//! The one strict pass over text that serde_json has already found to be valid JSON.
//!
//! serde_json alone decides what JSON is; this file only walks what it accepted, without recursion, and refuses what two
//! readers could read differently: a key twice (compared after unescaping), half a surrogate pair, keys that serde_json
//! itself gives a meaning to, and nesting that a later reader could not follow. Numbers are looked at only by
//! `numbers_exact`, and never converted.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use memchr::{memchr, memchr2};

use crate::limits::NESTING_LEVELS;
use crate::rpc::error::shown;
use crate::wire::escape;

/// Keys with this prefix make serde_json treat an object as something else.
const RESERVED_PREFIX: &str = "$serde_json::private::";

/// What the strict pass refuses; the first one in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// More than `NESTING_LEVELS`.
    TooDeep,
    /// An escape for half a surrogate pair, in a key or a value.
    LoneSurrogate,
    /// A key that occurs twice in its object, at any depth; cut and quoted.
    DuplicateKey(String),
    /// A key that begins with serde_json's private prefix; cut and quoted.
    ReservedKey(String),
}

/// Walks valid JSON text once. Linear in its length; holds the keys of the open objects, at most 64 of them.
///
/// # Errors
/// The first flaw met.
pub fn inspect(text: &str) -> Result<(), Flaw> {
    let bytes = text.as_bytes();
    let mut open = Open::default();
    let mut at = 0;
    while let Some(b) = bytes.get(at) {
        match b {
            b'{' | b'[' => open.begin(*b == b'{')?,
            b'}' | b']' => open.end(),
            b',' => open.key_next = open.in_object(),
            b'"' => {
                let (end, has_code_unit) = string_end(text, at);
                let string = &text[at..end];
                if has_code_unit {
                    inspect_surrogates(string)?;
                }
                if std::mem::take(&mut open.key_next) {
                    open.keys().inspect(string)?;
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// The objects and arrays around one place of a text.
#[derive(Default)]
struct Open<'a> {
    depth: usize,
    /// One bit a level, the innermost lowest: whether it is an object.
    objects: u64,
    /// Those of the objects, by depth; further in may be some of objects that have ended.
    keys: Vec<Keys<'a>>,
    /// Whether the next string is a key.
    key_next: bool,
}

impl<'a> Open<'a> {
    fn begin(&mut self, is_object: bool) -> Result<(), Flaw> {
        if self.depth == NESTING_LEVELS {
            return Err(Flaw::TooDeep);
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u64::from(is_object);
        self.key_next = is_object;
        if is_object {
            match self.keys.get_mut(self.depth - 1) {
                Some(keys) => keys.clear(),
                None => self.keys.resize_with(self.depth, Keys::default),
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.objects >>= 1;
        self.key_next = false;
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn keys(&mut self) -> &mut Keys<'a> {
        &mut self.keys[self.depth - 1]
    }
}

const _: () = assert!(NESTING_LEVELS <= u64::BITS as usize, "a bit for each level");

/// The keys of one object: a few are compared one by one, which is quicker than finding a place for them.
#[derive(Default)]
struct Keys<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Keys<'a> {
    const FEW: usize = 16;

    fn inspect(&mut self, raw: &'a str) -> Result<(), Flaw> {
        let key = string(raw).ok_or(Flaw::LoneSurrogate)?;
        if key.starts_with(RESERVED_PREFIX) {
            return Err(Flaw::ReservedKey(shown(&key)));
        }
        self.add(key).map_or(Ok(()), |twice| Err(Flaw::DuplicateKey(shown(&twice))))
    }

    /// Gives a key back that it has already.
    fn add(&mut self, key: Cow<'a, str>) -> Option<Cow<'a, str>> {
        if !self.many.is_empty() {
            return self.many.replace(key);
        }
        if self.few.contains(&key) {
            return Some(key);
        }
        self.few.push(key);
        if self.few.len() > Keys::FEW {
            self.many.extend(self.few.drain(..));
        }
        None
    }

    fn clear(&mut self) {
        self.few.clear();
        // Emptying a large table takes as long as filling it did.
        if !self.many.is_empty() {
            self.many = HashSet::new();
        }
    }
}

fn inspect_surrogates(string: &str) -> Result<(), Flaw> {
    let mut rest = string;
    while let Some(at) = rest.find('\\') {
        rest = &rest[at..];
        let pair = (escape::unit(rest), rest.get(6..).and_then(escape::unit));
        rest = match pair {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => &rest[12..],
            (Some(0xd800..=0xdfff), _) => return Err(Flaw::LoneSurrogate),
            (Some(_), _) => &rest[6..],
            (None, _) => &rest[2..],
        };
    }
    Ok(())
}

/// Where the string that begins at `start` ends, its closing quote included, and whether it has a `\u` escape.
pub(crate) fn string_end(text: &str, start: usize) -> (usize, bool) {
    // Most strings are over before a search that is quick on long ones has begun.
    const SHORT: usize = 3;
    let bytes = text.as_bytes();
    let mut at = start + 1;
    let mut has_code_unit = false;
    while let Some(b) = bytes.get(at).filter(|b| **b != b'\\' && at < start + SHORT) {
        at += 1;
        if *b == b'"' {
            return (at, false);
        }
    }
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        if bytes[at + found] == b'"' {
            return (at + found + 1, has_code_unit);
        }
        has_code_unit |= bytes.get(at + found + 1) == Some(&b'u');
        at += found + 2;
    }
    (text.len(), has_code_unit)
}

/// The decoded text of a raw JSON string; `None` for any other value, and for half a surrogate pair.
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    let [b'"', inside @ .., b'"'] = raw.as_bytes() else { return None };
    match memchr(b'\\', inside) {
        None => Some(Cow::Borrowed(&raw[1..=inside.len()])),
        Some(_) => serde_json::from_str::<String>(raw).ok().map(Cow::Owned),
    }
}

/// Whether a raw JSON value is an object.
pub fn is_object(raw: &str) -> bool {
    raw.trim_start().starts_with('{')
}

/// A number that neither i64, u64 nor f64 can hold without changing a digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InexactNumber {
    /// The number as written, cut and quoted.
    pub token: String,
}

impl fmt::Display for InexactNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected a number that 64 bits hold exactly, got {}: send it as a string", self.token)
    }
}

impl std::error::Error for InexactNumber {}

/// Whether every number in valid JSON text survives a 64-bit reader digit for digit.
///
/// # Errors
/// The first number that does not.
pub fn numbers_exact(raw: &str) -> Result<(), InexactNumber> {
    let bytes = raw.as_bytes();
    let mut at = 0;
    while let Some(b) = bytes.get(at) {
        match b {
            b'"' => at = string_end(raw, at).0,
            b'-' | b'0'..=b'9' => {
                let length = bytes[at..].iter().take_while(|b| is_number_byte(**b)).count();
                let token = &raw[at..at + length];
                if !is_exact(token) {
                    return Err(InexactNumber { token: shown(token) });
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

fn is_number_byte(b: u8) -> bool {
    matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
}

fn is_exact(token: &str) -> bool {
    // Every integer of so many digits.
    const FITS: usize = 18;
    if token.len() <= FITS && token.bytes().all(|b| b.is_ascii_digit()) {
        return true;
    }
    if token.parse::<i64>().is_ok() || token.parse::<u64>().is_ok() {
        return true;
    }
    let value = token.parse::<f64>().unwrap_or(f64::INFINITY);
    value.is_finite() && decimal(token) == decimal(&format!("{value:e}"))
}

/// A decimal numeral as significant digits and the power of ten of their first; zero has no digits.
fn decimal(token: &str) -> Option<(String, i64)> {
    let token = token.strip_prefix('-').unwrap_or(token);
    let (mantissa, exponent) = token.split_once(['e', 'E']).unwrap_or((token, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0');
    let skipped = digits.len() - significant.len();
    let significant = significant.trim_end_matches('0');
    if significant.is_empty() {
        return Some((String::new(), 0));
    }
    let first = i64::try_from(whole.len()).ok()? - i64::try_from(skipped).ok()?;
    let exponent = exponent.parse::<i64>().ok()?;
    Some((significant.to_owned(), first.checked_add(exponent)?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde::de::{Deserializer, MapAccess, Visitor};
    use serde_json::value::RawValue;

    #[track_caller]
    fn check_inspect(text: &str, expected: Result<(), Flaw>) {
        serde_json::from_str::<&RawValue>(text).expect("the test's own text is JSON");
        assert_eq!(inspect(text), expected, "{}", shown(text));
    }

    fn nested(open: &str, levels: usize, close: &str) -> String {
        format!("{}1{}", open.repeat(levels), close.repeat(levels))
    }

    #[test]
    fn nesting_at_the_limit_and_one_past_it_r033() {
        check_inspect(&nested("[", 64, "]"), Ok(()));
        check_inspect(&nested("[", 65, "]"), Err(Flaw::TooDeep));
        check_inspect(&nested("{\"a\":", 64, "}"), Ok(()));
        check_inspect(&nested("{\"a\":", 65, "}"), Err(Flaw::TooDeep));
        check_inspect(&nested("{\"a\":[", 500_000, "]}"), Err(Flaw::TooDeep));
        check_inspect(&format!("[{}]", vec!["[[]]"; 1000].join(",")), Ok(()));
        check_inspect(r#"["[[[","{{{",{"a":"}\"]"}]"#, Ok(()));
    }

    #[test]
    fn duplicate_keys_at_any_depth_after_unescaping() {
        let twice = |key: &str| Err(Flaw::DuplicateKey(key.to_owned()));
        check_inspect(r#"{"a":1,"a":1}"#, twice(r#""a""#));
        check_inspect(r#"{"a":1,"\u0061":2}"#, twice(r#""a""#));
        check_inspect(r#"[{"x":[{"a":[],"b":{},"a":1}]}]"#, twice(r#""a""#));
        check_inspect(r#"{"":1,"":2}"#, twice(r#""""#));
        check_inspect(r#"{"a":{"a":{"a":["a","a",{"a":"a"}]}},"b":"a"}"#, Ok(()));
        check_inspect(r#"[{"a":1},{"a":1},"a","a"]"#, Ok(()));
        check_inspect(r#"{"a":1,"A":1,"a ":1}"#, Ok(()));
    }

    /// An object of so many keys, each with this value.
    fn object(keys: usize, value: &str) -> String {
        let members: Vec<String> = (0..keys).map(|key| format!("\"k{key}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    }

    #[test]
    fn keys_of_large_objects_are_their_own() {
        for keys in [1, Keys::FEW - 1, Keys::FEW, Keys::FEW + 1, Keys::FEW + 2, 50] {
            let one = object(keys, "0");
            let open = one.trim_end_matches('}');
            for key in [0, keys / 2, keys - 1] {
                let twice = Err(Flaw::DuplicateKey(format!("\"k{key}\"")));
                check_inspect(&format!("{open},\"k{key}\":1}}"), twice.clone());
                check_inspect(&format!("{open},\"\\u006b{key}\":1}}"), twice.clone());
                check_inspect(&format!("{open},\"x\":{one},\"k{key}\":1}}"), twice);
            }
            check_inspect(&format!("[{one},{one},{{\"a\":{one}}},{one}]"), Ok(()));
            check_inspect(&object(keys, &one), Ok(()));
            check_inspect(&format!("{open},\"x\":[{one},{one}],\"y\":1}}"), Ok(()));
        }
    }

    #[test]
    fn reserved_keys_are_refused_anywhere() {
        let key = "$serde_json::private::RawValue";
        let reserved = Err(Flaw::ReservedKey(format!("\"{key}\"")));
        check_inspect(&format!(r#"{{"{key}":"{{}}"}}"#), reserved.clone());
        check_inspect(&format!(r#"{{"a":[{{"\u0024{}":1}}]}}"#, &key[1..]), reserved);
        check_inspect(&format!(r#"["{key}",{{"a":"{key}"}}]"#), Ok(()));
    }

    #[test]
    fn lone_surrogates_are_found_in_keys_and_values_r021() {
        for text in [
            r#""\ud83d""#,
            r#""\n\ud83c\n""#,
            r#""\\\ud83c\\u""#,
            r#"["\udf89\ud83c"]"#,
            r#"{"\ud83c":1}"#,
            r#""\ud83c\u0041""#,
            r#""\ud83cx""#,
        ] {
            check_inspect(text, Err(Flaw::LoneSurrogate));
        }
        for text in [r#""\ud83c\udf89""#, r#""\\ud83d""#, r#""\uD83C\uDF89\u0000""#, r#"{"\ud83c\udf89":"\ufffd"}"#] {
            check_inspect(text, Ok(()));
        }
    }

    #[test]
    fn numbers_of_any_size_pass_the_walk_r034() {
        check_inspect(&format!("[{},1e400,-1E-400,0.1]", "9".repeat(5000)), Ok(()));
    }

    /// The same question asked of serde_json's own recursive reader, for texts whose numbers it can read.
    struct NoDuplicates;
    impl<'de> serde::de::DeserializeSeed<'de> for NoDuplicates {
        type Value = ();
        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
            deserializer.deserialize_any(self)
        }
    }
    impl<'de> Visitor<'de> for NoDuplicates {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("JSON")
        }
        fn visit_bool<E>(self, _: bool) -> Result<(), E> {
            Ok(())
        }
        fn visit_i64<E>(self, _: i64) -> Result<(), E> {
            Ok(())
        }
        fn visit_u64<E>(self, _: u64) -> Result<(), E> {
            Ok(())
        }
        fn visit_f64<E>(self, _: f64) -> Result<(), E> {
            Ok(())
        }
        fn visit_str<E>(self, _: &str) -> Result<(), E> {
            Ok(())
        }
        fn visit_unit<E>(self) -> Result<(), E> {
            Ok(())
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
            while seq.next_element_seed(NoDuplicates)?.is_some() {}
            Ok(())
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            let mut keys = HashSet::new();
            while let Some(key) = map.next_key::<String>()? {
                if key.starts_with(RESERVED_PREFIX) || !keys.insert(key) {
                    return Err(serde::de::Error::custom("refused key"));
                }
                map.next_value_seed(NoDuplicates)?;
            }
            Ok(())
        }
    }

    /// A JSON value chosen by a linear congruence: thousands of shapes, the same ones in each run.
    pub(crate) fn random_value(state: &mut u64, levels: u64, out: &mut String) {
        let mut pick = |n: u64| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*state >> 33) % n
        };
        let strings = [
            r#""a""#,
            r#""\u0061""#,
            r#""b""#,
            r#""c""#,
            r#""}\"]""#,
            r#""\\""#,
            r#""\ud83c\udf89""#,
            r#""d""#,
            r#""\ud83c""#,
            r#""$serde_json::private::x""#,
        ];
        let string_count = if pick(8) == 0 { 10 } else { 8 };
        let (kind, count) = (pick(if levels == 0 { 3 } else { 6 }), pick(4));
        match kind {
            0 => out.push_str(strings[usize::try_from(pick(string_count)).unwrap()]),
            1 => out.push_str("-0.5e1"),
            2 => out.push_str(" null "),
            _ => {
                out.push_str(if kind == 3 { "[ " } else { "{ " });
                for index in 0..count {
                    out.push_str(if index > 0 { ", " } else { "" });
                    if kind != 3 {
                        out.push_str(strings[usize::try_from(pick(string_count)).unwrap()]);
                        out.push(':');
                    }
                    let mut inner = pick(u64::MAX);
                    random_value(&mut inner, levels - 1, out);
                }
                out.push_str(if kind == 3 { " ]" } else { " }" });
            }
        }
    }

    #[test]
    fn the_walk_agrees_with_a_recursive_reader() {
        let mut compared = [0_usize; 2];
        for seed in 0..20_000 {
            let mut text = String::new();
            random_value(&mut (seed * 7919), 4, &mut text);
            let mut reader = serde_json::Deserializer::from_str(&text);
            let accepted = serde::de::DeserializeSeed::deserialize(NoDuplicates, &mut reader).is_ok();
            assert_eq!(inspect(&text).is_ok(), accepted, "{text}");
            compared[usize::from(accepted)] += 1;
        }
        assert!(compared[0] > 1000 && compared[1] > 1000, "one-sided: {compared:?}");
    }

    #[track_caller]
    fn check_exact(numbers: &[&str], exact: bool) {
        for number in numbers {
            let raw = format!("{{\"n\":[{number}],\"s\":\"1e400\"}}");
            serde_json::from_str::<&RawValue>(&raw).expect("the test's own text is JSON");
            assert_eq!(numbers_exact(&raw).is_ok(), exact, "{}", shown(number));
        }
    }

    #[test]
    fn numbers_that_sixty_four_bits_hold() {
        check_exact(
            &[
                "0",
                "-0",
                "-0.0",
                "0e99999999999999999999",
                "1",
                "1.0",
                "1e2",
                "1E+2",
                "100e-2",
                "0.1",
                "-2.50",
                "1e23",
                "9007199254740993",
                "-9223372036854775808",
                "18446744073709551615",
                "5e-324",
                "1.7976931348623157e308",
                "7.038531e-26",
            ],
            true,
        );
    }

    #[test]
    fn numbers_that_would_change_a_digit_r034_r035() {
        let nines = "9".repeat(5000);
        let tiny = format!("0.{}1", "0".repeat(5000));
        check_exact(
            &[
                "1e400",
                "-1e400",
                "1e-400",
                "12345678901234567890123",
                "0.12345678901234567890",
                "9007199254740993.0",
                "18446744073709551616",
                "-9223372036854775809",
                "4e-324",
                "1e99999999999999999999",
                &nines,
                &tiny,
            ],
            false,
        );
        assert_eq!(
            numbers_exact("[1e400]").unwrap_err().to_string(),
            "expected a number that 64 bits hold exactly, got \"1e400\": send it as a string"
        );
    }
}
