//! What a response body is: JSON, text, or bytes that are neither; and in which character set.
//!
//! The table of character sets is small on purpose; a body in any other is shown as base64, never guessed into text.

/// What a media type promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// application/json and everything that ends in `+json`.
    Json,
    /// Text by its type, or no type at all.
    Text,
    /// Bytes by their type or by their content encoding; never made into text.
    Binary,
    /// A type that promises nothing known: text if its bytes are.
    Opaque,
}

/// The character set of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Charset {
    /// Declared as UTF-8.
    Utf8,
    /// Not declared, or declared as its subset US-ASCII: UTF-8 if the bytes are.
    Assumed,
    /// Windows-1252, and ISO 8859-1 as it is used in fact (WHATWG Encoding).
    Windows1252,
    /// Declared and not in our table.
    Unknown(String),
}

/// Media type, character set and content encoding of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Lower case, without parameters, cut; empty if there was none.
    pub name: String,
    /// What it promises.
    pub kind: Kind,
    /// How its text is coded.
    pub charset: Charset,
    /// The content encoding, unless it is `identity`.
    pub encoding: Option<String>,
}

/// The longest media type or character set shown.
const NAME_CHARS: usize = 80;

impl Media {
    /// From the values of `content-type` and `content-encoding` (RFC 9110 sections 8.3 and 8.4).
    pub fn new(content_type: Option<&str>, content_encoding: Option<&str>) -> Self {
        let mut parts = content_type.unwrap_or_default().split(';');
        let name = tame(parts.next().unwrap_or_default());
        let charset = parts.find_map(|part| {
            let (key, value) = part.split_once('=')?;
            key.trim().eq_ignore_ascii_case("charset").then(|| tame(value.trim().trim_matches('"')))
        });
        let encoding = content_encoding.map(tame).filter(|encoding| !encoding.is_empty() && encoding != "identity");
        let kind = if encoding.is_some() { Kind::Binary } else { kind(&name) };
        Media { name, kind, charset: charset_of(charset), encoding }
    }

    /// The type as shown, with its encoding.
    pub fn label(&self) -> String {
        let name = if self.name.is_empty() { "no media type" } else { &self.name };
        match &self.encoding {
            Some(encoding) => format!("{name} encoded with {encoding}"),
            None => name.to_owned(),
        }
    }
}

fn tame(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(NAME_CHARS).flat_map(char::to_lowercase).collect()
}

fn charset_of(declared: Option<String>) -> Charset {
    match declared.as_deref() {
        None | Some("" | "us-ascii" | "ascii") => Charset::Assumed,
        Some("utf-8" | "utf8") => Charset::Utf8,
        Some("iso-8859-1" | "iso8859-1" | "latin1" | "windows-1252" | "cp1252") => Charset::Windows1252,
        Some(_) => Charset::Unknown(declared.unwrap_or_default()),
    }
}

fn kind(name: &str) -> Kind {
    const TEXT: &[&str] = &[
        "application/xml",
        "application/javascript",
        "application/ecmascript",
        "application/x-javascript",
        "application/x-www-form-urlencoded",
        "application/x-ndjson",
        "application/jsonl",
        "application/json-seq",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/sql",
        "application/graphql",
        "application/x-sh",
        "message/rfc822",
    ];
    const BINARY: &[&str] = &[
        "application/octet-stream",
        "application/zip",
        "application/gzip",
        "application/x-gzip",
        "application/x-tar",
        "application/x-7z-compressed",
        "application/pdf",
        "application/wasm",
        "application/protobuf",
        "application/x-protobuf",
        "application/msgpack",
        "application/cbor",
    ];
    match name {
        "application/json" | "text/json" => Kind::Json,
        _ if name.ends_with("+json") => Kind::Json,
        "" => Kind::Text,
        _ if name.starts_with("text/") || name.ends_with("+xml") || TEXT.contains(&name) => Kind::Text,
        _ if BINARY.contains(&name) || ["image/", "audio/", "video/", "font/"].iter().any(|top| name.starts_with(top)) => {
            Kind::Binary
        }
        _ => Kind::Opaque,
    }
}

/// One byte of Windows-1252 as a character; the five unassigned bytes are the C1 controls of the same number.
pub fn windows_1252(byte: u8) -> char {
    const HIGH: [char; 32] = [
        '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}', '\u{2030}',
        '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}',
        '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}',
        '\u{17e}', '\u{178}',
    ];
    match byte {
        0x80..=0x9f => HIGH[usize::from(byte) - 0x80],
        _ => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types() {
        let check = |content_type: &str, kind: Kind, charset: Charset| {
            let media = Media::new(Some(content_type), None);
            assert_eq!((media.kind, media.charset), (kind, charset), "{content_type}");
        };
        check("application/json", Kind::Json, Charset::Assumed);
        check("Application/Problem+JSON; charset=UTF-8", Kind::Json, Charset::Utf8);
        check("text/html; x=y; Charset=\"latin1\"", Kind::Text, Charset::Windows1252);
        check("image/svg+xml", Kind::Text, Charset::Assumed);
        check("text/plain; charset=gbk", Kind::Text, Charset::Unknown("gbk".into()));
        check("image/png", Kind::Binary, Charset::Assumed);
        check("application/pdf", Kind::Binary, Charset::Assumed);
        check("application/x-own", Kind::Opaque, Charset::Assumed);
        check("", Kind::Text, Charset::Assumed);
    }

    #[test]
    fn an_encoded_body_is_no_text_whatever_its_type() {
        let media = Media::new(Some("application/json"), Some("gzip"));
        assert_eq!((media.kind, media.label().as_str()), (Kind::Binary, "application/json encoded with gzip"));
        assert_eq!(Media::new(Some("application/json"), Some("Identity")).kind, Kind::Json);
    }

    #[test]
    fn windows_1252_is_latin_1_but_for_its_high_controls() {
        let text: String = [b'a', 0xe9, 0x80, 0x9f, 0x81, 0xff].map(windows_1252).iter().collect();
        assert_eq!(text, "a\u{e9}\u{20ac}\u{178}\u{81}\u{ff}");
    }
}
