//! Raw access to the members of an object, for who needs a few of them and of the rest nothing.
//!
//! `read` is for text of which nothing is known: serde_json reads it to its end and says whether it is JSON. `pick` is for what it
//! has accepted, and only looks for ends: a second reading of 4 MiB would take three times as long.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::rpc::strict::{string, string_end};

const WHITE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Why members could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembersError {
    /// The value is valid JSON and no object.
    NotAnObject,
    /// One of the wanted names occurs twice.
    Twice(&'static str),
}

/// The raw values of the wanted members of an object, in the order of `names`; others are skipped. `null` is a value:
/// only an absent member is `None`. Shallow and without recursion, whatever the depth.
///
/// # Errors
/// `NotAnObject` also where `raw` is no JSON at all, or more than one value.
pub fn read<'a, const N: usize>(raw: &'a str, names: [&'static str; N]) -> Result<[Option<&'a str>; N], MembersError> {
    let mut picked = Picked { names, values: [None; N], twice: None };
    let mut reader = serde_json::Deserializer::from_str(raw);
    match reader.deserialize_map(&mut picked).and_then(|()| reader.end()) {
        Err(_) => Err(MembersError::NotAnObject),
        Ok(()) => picked.finish(),
    }
}

/// As `read`, of text that is known to be JSON.
///
/// # Errors
/// As `read`, but what is no JSON may also pass for an object.
pub fn pick<'a, const N: usize>(json: &'a str, names: [&'static str; N]) -> Result<[Option<&'a str>; N], MembersError> {
    let mut picked = Picked { names, values: [None; N], twice: None };
    let mut rest = json.trim_start_matches(WHITE).strip_prefix('{').ok_or(MembersError::NotAnObject)?;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', ',']);
        let Some(key) = rest.starts_with('"').then(|| &rest[..string_end(rest, 0).0]) else { break };
        let value = rest[key.len()..].trim_start_matches([' ', '\t', '\n', '\r', ':']);
        let (value, behind) = value.split_at(value_end(value));
        picked.take(key, value);
        rest = behind;
    }
    match rest {
        _ if rest.trim_end_matches(WHITE) != "}" => Err(MembersError::NotAnObject),
        _ => picked.finish(),
    }
}

struct Picked<'a, const N: usize> {
    names: [&'static str; N],
    values: [Option<&'a str>; N],
    twice: Option<&'static str>,
}

impl<'a, const N: usize> Picked<'a, N> {
    /// The key is taken raw: one with half a surrogate pair is no error here, it is only none of the wanted ones.
    fn take(&mut self, key: &str, value: &'a str) {
        let key = string(key).unwrap_or_default();
        let Some(slot) = self.names.iter().position(|name| *name == key) else { return };
        if self.values[slot].replace(value).is_some() {
            self.twice = Some(self.names[slot]);
        }
    }

    fn finish(self) -> Result<[Option<&'a str>; N], MembersError> {
        self.twice.map_or(Ok(self.values), |name| Err(MembersError::Twice(name)))
    }
}

impl<'a, const N: usize> Visitor<'a> for &mut Picked<'a, N> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            self.take(key.get(), value.get());
        }
        Ok(())
    }
}

/// Where the value ends that `json` begins with.
fn value_end(json: &str) -> usize {
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(b) = bytes.get(at) {
        match b {
            b'"' => at = string_end(json, at).0 - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b'}' | b']' if depth == 1 => return at + 1,
            b'}' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::strict::tests::random_value;

    #[track_caller]
    fn check<const N: usize>(json: &str, names: [&'static str; N], expected: Result<[Option<&str>; N], MembersError>) {
        assert_eq!(read(json, names), expected, "read: {json}");
        assert_eq!(pick(json, names), expected, "pick: {json}");
    }

    #[test]
    fn members_are_raw_and_tell_null_from_absent() {
        let raw = r#" { "b" : 1.0e0, "zzz":[{}], "\u0061": null } "#;
        check(raw, ["a", "b", "c"], Ok([Some("null"), Some("1.0e0"), None]));
        check(r#"{"a":1,"\u0061":1}"#, ["a"], Err(MembersError::Twice("a")));
        check(r#"{"z":1,"z":1,"\ud800":2}"#, ["a"], Ok([None]));
        check("{}", ["a"], Ok([None]));
        check("\r\n\t{\t}\n", ["a"], Ok([None]));
        for raw in ["[1]", "[]", "null", "\"a\"", "5", "{"] {
            check(raw, ["a"], Err(MembersError::NotAnObject));
        }
        let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
        check(&format!("{{\"x\":{open}{close},\"a\":2}}"), ["a"], Ok([Some("2")]));
    }

    #[test]
    fn values_end_where_they_end() {
        for value in
            ["null", "-0.5E+1", r#""""#, r#""\\""#, r#""\"}]""#, "[]", "{}", r#"[ "]" , [ ] ]"#, r#"{"a":{"a":"}"},"b":[{}]}"#]
        {
            for (before, behind) in [("", ""), (" ", " "), ("\n\t", "\r")] {
                let object = format!("{{\"b\":{before}{value}{behind},{before}\"a\"{behind}:{before}{value}{behind}}}");
                check(&object, ["a", "b"], Ok([Some(value); 2]));
            }
        }
    }

    #[test]
    fn picking_agrees_with_reading() {
        let mut objects = 0;
        for seed in 0..20_000 {
            let mut text = String::new();
            random_value(&mut (seed * 7919), 4, &mut text);
            let names = ["a", "b", "}\"]"];
            assert_eq!(pick(&text, names), read(&text, names), "{text}");
            objects += usize::from(text.starts_with('{'));
        }
        assert!(objects > 1000, "one-sided: {objects}");
    }

    #[test]
    fn text_that_is_no_json_ends_too() {
        let json = r#"{"a":[1,{"b":"\"c"}],"d":2}"#;
        for cut in 0..json.len() {
            assert_eq!(pick(&json[..cut], ["a"]), Err(MembersError::NotAnObject), "{}", &json[..cut]);
            let _ = pick(&json[cut..], ["a"]);
        }
        for text in ["", "}", "{\"", "{\"a\"", "{\"a\\", "{,,", "{a}", "{\"a\":}}", "{\"a\"]"] {
            let _ = pick(text, ["a"]);
        }
    }
}
