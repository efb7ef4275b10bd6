//! Name and value pairs: the query of a request target and a form body.
//!
//! Names are literal, values are templates of plain text; both are encoded here, so no argument can end its pair or begin
//! another one.

use crate::action::template::{Arguments, FillError, Names, Text, push_percent};

/// How the text of pairs is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// RFC 3986: all but unreserved bytes as `%XX`, a space as `%20`.
    Query,
    /// `application/x-www-form-urlencoded` (WHATWG URL section 5.2): a space as `+`, `*` as it is, `~` as `%7E`.
    Form,
}

impl Encoding {
    fn push(self) -> fn(&str, &mut String) {
        match self {
            Encoding::Query => push_percent,
            Encoding::Form => push_form,
        }
    }

    fn place(self) -> &'static str {
        match self {
            Encoding::Query => "the request target",
            Encoding::Form => "the body",
        }
    }
}

/// Pairs in the order configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairsTemplate {
    encoding: Encoding,
    pairs: Vec<(String, Text)>,
}

impl PairsTemplate {
    /// Parses pairs of plain text. One sentence a problem, each naming its pair.
    pub fn parse(encoding: Encoding, written: &[(String, String)]) -> Result<PairsTemplate, Vec<String>> {
        let mut problems = Vec::new();
        let mut pairs = Vec::new();
        for (name, value) in written {
            match (Text::parse_literal(name), Text::parse(value)) {
                (Ok(name), Ok(_)) if name.is_empty() => problems.push("expected a name, got an empty one".to_owned()),
                (Ok(name), Ok(value)) => {
                    let mut encoded = String::new();
                    encoding.push()(&name, &mut encoded);
                    pairs.push((encoded, value));
                }
                (Err(error), _) => problems.push(format!("name {error}")),
                (_, Err(error)) => problems.push(format!("value {error}")),
            }
        }
        if problems.is_empty() { Ok(PairsTemplate { encoding, pairs }) } else { Err(problems) }
    }

    /// The encoded pairs joined by `&`, with at most `bytes_max` bytes. A pair whose argument is absent is left out; an array
    /// alone in its value repeats the pair. `None` if no pair is left.
    pub fn fill(&self, arguments: &Arguments<'_>, bytes_max: usize) -> Result<Option<String>, FillError> {
        let mut out = String::new();
        for (name, value) in &self.pairs {
            match value.alone() {
                Some(argument) => {
                    for text in arguments.texts(argument)? {
                        self.check_room(out.len() + text.len(), bytes_max)?;
                        let mut encoded = String::new();
                        self.encoding.push()(&text, &mut encoded);
                        self.push_pair(&mut out, name, &encoded, bytes_max)?;
                    }
                }
                None => {
                    if let Some(encoded) = value.fill(arguments, self.encoding.place(), bytes_max, self.encoding.push())? {
                        self.push_pair(&mut out, name, &encoded, bytes_max)?;
                    }
                }
            }
        }
        Ok(if out.is_empty() { None } else { Some(out) })
    }

    /// Adds the placeholders: all optional.
    pub fn add_names(&self, names: &mut Names) {
        names.add_optional(self.pairs.iter().flat_map(|(_, value)| value.names()));
    }

    fn push_pair(&self, out: &mut String, name: &str, value: &str, bytes_max: usize) -> Result<(), FillError> {
        if !out.is_empty() {
            out.push('&');
        }
        out.push_str(name);
        out.push('=');
        out.push_str(value);
        self.check_room(out.len(), bytes_max)
    }

    fn check_room(&self, bytes: usize, bytes_max: usize) -> Result<(), FillError> {
        if bytes > bytes_max { Err(FillError::TooLong { place: self.encoding.place(), bytes_max }) } else { Ok(()) }
    }
}

fn push_form(text: &str, out: &mut String) {
    let mut percent = String::new();
    for char in text.chars() {
        match char {
            ' ' => out.push('+'),
            '*' => out.push('*'),
            '~' => out.push_str("%7E"),
            _ => {
                percent.clear();
                push_percent(char.encode_utf8(&mut [0; 4]), &mut percent);
                out.push_str(&percent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::template::sample;
    use serde_json::{Value, json};

    fn fill(encoding: Encoding, pairs: &[(&str, &str)], arguments: &Value) -> Result<Option<String>, String> {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let template = PairsTemplate::parse(encoding, &pairs).unwrap();
        template.fill(&Arguments::new(&arguments.clone().into()), 8192).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_query(pairs: &[(&str, &str)], arguments: Value, want: Option<&str>) {
        assert_eq!(fill(Encoding::Query, pairs, &arguments), Ok(want.map(str::to_owned)), "{pairs:?} {arguments}");
    }

    #[track_caller]
    fn check_parse_refused(name: &str, value: &str, part: &str) {
        let problems = PairsTemplate::parse(Encoding::Query, &[(name.to_owned(), value.to_owned())]).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(part), "{problems:?}");
    }

    #[test]
    fn queries() {
        check_query(&[], json!({}), None);
        check_query(&[("per_page", "50"), ("page", "{page}")], json!({"page": 2}), Some("per_page=50&page=2"));
        check_query(&[("per_page", "50"), ("page", "{page}")], json!({}), Some("per_page=50"));
        check_query(&[("page", "{page}")], json!({"page": null}), None);
        check_query(&[("b", "1"), ("a b", "x y+&="), ("c", "")], json!({}), Some("b=1&a%20b=x%20y%2B%26%3D&c="));
        check_query(&[("q", "is:{state} {text}")], json!({"state": "open", "text": "a&b"}), Some("q=is%3Aopen%20a%26b"));
        check_query(&[("q", "is:{state} {text}")], json!({"state": "open"}), None);
        check_query(&[("tag[]", "{tags}")], json!({"tags": ["a", 1, true]}), Some("tag%5B%5D=a&tag%5B%5D=1&tag%5B%5D=true"));
        check_query(&[("tag", "{tags}")], json!({"tags": []}), None);
        check_query(&[("q", "{x}")], json!({"x": "{y}", "y": "no"}), Some("q=%7By%7D"));
        check_query(&[("q", "{{{x}}}")], json!({"x": ""}), Some("q=%7B%7D"));
    }

    #[test]
    fn refused() {
        check_parse_refused("{x}", "a", "expected literal text");
        check_parse_refused("a", "{", "lone {");
        check_parse_refused("a", "{+x}", "for paths only");
        check_parse_refused("", "a", "empty");
        for (value, arguments) in [("{x}", json!({"x": [[1]]})), ("{x}", json!({"x": [null]})), ("{x}", json!({"x": {}}))] {
            let error = fill(Encoding::Query, &[("q", value)], &arguments).unwrap_err();
            assert!(error.starts_with("argument \"x\": expected a string"), "{error}");
        }
        assert!(fill(Encoding::Query, &[("q", "a{x}")], &json!({"x": ["b"]})).unwrap_err().contains("got an array"));
        let long = json!({"x": vec!["a"; 5000]});
        assert!(fill(Encoding::Query, &[("q", "{x}")], &long).unwrap_err().contains("8192"));
    }

    #[test]
    fn any_text_arrives_as_the_value() {
        for text in sample::texts() {
            let arguments = json!({"x": text, "list": [text, text]});
            for (encoding, plus) in [(Encoding::Query, '+'), (Encoding::Form, ' ')] {
                let filled = fill(encoding, &[("a", "{x}"), ("b", "<{x}>"), ("c", "{list}")], &arguments).unwrap().unwrap();
                assert!(
                    filled.is_ascii() && !filled.bytes().any(|byte| byte <= b' ' || byte == b'#' || byte == 0x7f),
                    "{filled}"
                );
                let pairs: Vec<(&str, String)> = filled
                    .split('&')
                    .map(|pair| pair.split_once('=').unwrap())
                    .map(|(name, value)| (name, sample::decode(value, plus)))
                    .collect();
                let want = [("a", text.clone()), ("b", format!("<{text}>")), ("c", text.clone()), ("c", text.clone())];
                assert_eq!(pairs, want, "{filled}");
            }
        }
    }

    #[test]
    fn form_encoding() {
        let filled = fill(Encoding::Form, &[("a b", "{x}")], &json!({"x": "1 + 1*~é"}));
        assert_eq!(filled, Ok(Some("a+b=1+%2B+1*%7E%C3%A9".to_owned())));
    }
}
