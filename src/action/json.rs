//! The arguments of a call as a JSON value whose text stays where it is: in the line.
//!
//! Only a string with an escape in it is copied, so a line of 4 MiB is judged without a second one of it in memory. Made of text
//! that the strict pass has taken: of a key that came twice it would keep the last, and a number no 64 bits hold it would
//! change. It must never hold more values than the limit: two bytes of text can be a value, and a value takes thirty-two.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Number, Value};

use crate::limits::ARGUMENT_VALUES;

/// A JSON value (RFC 8259).
#[derive(Debug, Clone, PartialEq)]
pub enum Json<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string, decoded.
    Text(Cow<'a, str>),
    /// An array.
    Array(Vec<Json<'a>>),
    /// An object.
    Object(Members<'a>),
}

/// Why a text gives no value.
#[derive(Debug)]
pub enum JsonError {
    /// More than `ARGUMENT_VALUES`.
    TooMany,
    /// serde_json does not take it.
    NotJson(serde_json::Error),
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonError::TooMany => write!(f, "expected at most {ARGUMENT_VALUES} values, names of members counted, got more"),
            JsonError::NotJson(error) => write!(f, "expected JSON, got {error}"),
        }
    }
}

impl std::error::Error for JsonError {}

/// The members of an object, sorted by name.
pub type Members<'a> = BTreeMap<Cow<'a, str>, Json<'a>>;

impl<'a> Json<'a> {
    /// Reads one value, at most 127 levels deep.
    ///
    /// # Errors
    /// More than `ARGUMENT_VALUES`, or what serde_json has against the text; of the latter nothing, where the strict pass has
    /// taken it.
    pub fn parse(text: &'a str) -> Result<Json<'a>, JsonError> {
        let left = Cell::new(ARGUMENT_VALUES + 1);
        let mut text = serde_json::Deserializer::from_str(text);
        let value = Reader { left: &left }.deserialize(&mut text).and_then(|value| text.end().map(|()| value));
        value.map_err(|error| if left.get() == 0 { JsonError::TooMany } else { JsonError::NotJson(error) })
    }

    /// The member of this name; `None` for what is no object too.
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.as_object()?.get(name)
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }

    /// A number that is an integer from 0 to 2^64 - 1 and written as one.
    pub fn as_u64(&self) -> Option<u64> {
        if let Json::Number(number) = self { number.as_u64() } else { None }
    }

    /// The elements of an array.
    pub fn as_array(&self) -> Option<&[Json<'a>]> {
        if let Json::Array(items) = self { Some(items) } else { None }
    }

    /// The members of an object.
    pub fn as_object(&self) -> Option<&Members<'a>> {
        if let Json::Object(members) = self { Some(members) } else { None }
    }
}

/// What is not from a line: the choices of a schema.
impl From<Value> for Json<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Json::Null,
            Value::Bool(yes) => Json::Bool(yes),
            Value::Number(number) => Json::Number(number),
            Value::String(text) => Json::Text(Cow::Owned(text)),
            Value::Array(items) => Json::Array(items.into_iter().map(Json::from).collect()),
            Value::Object(members) => {
                Json::Object(members.into_iter().map(|(name, member)| (Cow::Owned(name), Json::from(member))).collect())
            }
        }
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(yes) => serializer.serialize_bool(*yes),
            Json::Number(number) => number.serialize(serializer),
            Json::Text(text) => serializer.serialize_str(text),
            Json::Array(items) => serializer.collect_seq(items),
            Json::Object(members) => serializer.collect_map(members),
        }
    }
}

/// Compact JSON.
impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// Reads a value, while there may be another: one less than `left`.
#[derive(Clone, Copy)]
struct Reader<'c> {
    left: &'c Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        self.left.set(self.left.get().saturating_sub(1));
        match self.left.get() {
            0 => Err(D::Error::custom("too many values")),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(yes))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Json<'de>, E> {
        Number::from_f64(number).map(Json::Number).ok_or_else(|| E::custom("expected a finite number"))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = elements.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        let mut members = Members::new();
        while let Some((name, member)) = map.next_entry_seed(self, self)? {
            let Json::Text(name) = name else { return Err(A::Error::custom("expected a name that is a string")) };
            members.insert(name, member);
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check_read(text: &str) {
        let value: Value = serde_json::from_str(text).expect("the test's own text is JSON");
        let read = Json::parse(text).expect("what serde_json reads");
        assert_eq!(read, Json::from(value.clone()), "{text}");
        assert_eq!((serde_json::to_value(&read).unwrap(), read.to_string()), (value.clone(), value.to_string()), "{text}");
    }

    #[test]
    fn it_reads_and_writes_what_serde_json_does() {
        for text in ["null", "true", " [ ] ", "{}", "0", "-0", "-0.0", "-7", "1e2", "18446744073709551615", "0.1", "5e-324"] {
            check_read(text);
        }
        for text in [r#""""#, r#""a\u00e9\n\"\\""#, r#""\ud83c\udf89""#, "\"\u{1f389}\"", r#"["a",["b\/"],{}]"#] {
            check_read(text);
        }
        check_read(r#"{"z":1,"a\u0062":{"\"":[null,false,{"x":"y"}]},"":"é"}"#);
        check_read(&format!("{}1{}", "[".repeat(64), "]".repeat(64)));
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for text in ["", "{", "[1,]", "{\"a\":}", "nul", "1 2", "\"\\ud83c\"", "1e400"] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
        assert!(matches!(Json::parse(&"[".repeat(200_000)), Err(JsonError::NotJson(_))));
    }

    #[test]
    fn values_are_counted_with_the_names_of_members() {
        let zeros = |count: usize| format!("[{}]", vec!["0"; count].join(","));
        let names = |count: usize| format!("{{{}}}", (0..count).map(|n| format!("\"{n}\":0")).collect::<Vec<_>>().join(","));
        for fits in [zeros(ARGUMENT_VALUES - 1), names(ARGUMENT_VALUES / 2 - 1)] {
            assert!(Json::parse(&fits).is_ok(), "{} bytes", fits.len());
        }
        for more in [zeros(ARGUMENT_VALUES), names(ARGUMENT_VALUES / 2), format!("[{}0]", "{},".repeat(ARGUMENT_VALUES))] {
            let error = Json::parse(&more).expect_err("more than the limit").to_string();
            assert_eq!(error, "expected at most 250000 values, names of members counted, got more");
        }
    }

    /// Whether each text in it lies in `line`.
    fn is_lent(value: &Json<'_>, line: &str) -> bool {
        let is_lent = |text: &Cow<'_, str>| matches!(text, Cow::Borrowed(part) if line.as_bytes().as_ptr_range().contains(&part.as_ptr()));
        match value {
            Json::Null | Json::Bool(_) | Json::Number(_) => true,
            Json::Text(text) => is_lent(text),
            Json::Array(items) => items.iter().all(|item| self::is_lent(item, line)),
            Json::Object(members) => members.iter().all(|(name, member)| is_lent(name) && self::is_lent(member, line)),
        }
    }

    #[test]
    fn text_without_an_escape_is_not_copied() {
        let line = r#"{"name":"é","list":["x",{"deep":"text"}]}"#;
        assert!(is_lent(&Json::parse(line).unwrap(), line));
        for line in [r#"{"name":"\u00e9"}"#, r#"{"\u006e":1}"#] {
            assert!(!is_lent(&Json::parse(line).unwrap(), line), "{line}");
        }
    }

    #[test]
    fn members_and_kinds() {
        let value = Json::from(json!({"s": "t", "n": 5, "f": 5.0, "a": [1], "o": {"k": null}}));
        let get = |name| value.get(name).unwrap();
        assert_eq!((get("s").as_str(), get("n").as_u64(), get("f").as_u64()), (Some("t"), Some(5), None));
        assert_eq!((get("a").as_array().map(<[_]>::len), get("o").get("k")), (Some(1), Some(&Json::Null)));
        assert_eq!((value.get("x"), get("s").get("x"), get("s").as_u64(), get("n").as_str()), (None, None, None, None));
        assert_eq!((get("s").as_array(), get("a").as_object()), (None, None));
    }
}
