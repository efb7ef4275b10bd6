//! `Secret`, a credential's value, and the redaction of known values in text and in streams.
//!
//! A secret has no Debug, Display, Clone or Serialize, is wiped on drop, and leaves by `expose` alone. A `Redactor` replaces each value
//! it knows by `[redacted:NAME]`, whether it stands there as it is, percent-encoded, JSON-escaped (whole or in part), in base64 or in
//! hexadecimal; of a private key's text it knows each line as well. It knows values, not kinds of values: it guesses nothing, and what
//! was transformed otherwise (encoded twice, broken into lines, compressed, cut into pieces) passes. Redaction is the second line of defence; the first is that no tool sees a secret.
//!
//! Nothing here reads a file, a clock or the environment.

mod form;
mod matcher;
mod read;

use std::borrow::Cow;
use std::sync::Arc;
use std::{fmt, mem};

use zeroize::Zeroizing;

use crate::limits::{SECRET_BYTES_MAX, SECRET_BYTES_MIN};
use form::forms;
use matcher::{Attempt, Content, Found, Input, Matcher, Rest};

/// The value of a credential, wiped on drop.
///
/// It cannot be shown, copied or stored by accident:
///
/// ```compile_fail,E0277
/// fn show<T: std::fmt::Debug>() {}
/// show::<tidegate::secret::Secret>();
/// ```
/// ```compile_fail,E0277
/// fn copy<T: Clone>() {}
/// copy::<tidegate::secret::Secret>();
/// ```
/// ```compile_fail,E0277
/// fn store<T: serde::Serialize>() {}
/// store::<tidegate::secret::Secret>();
/// ```
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes a value of `SECRET_BYTES_MIN` to `SECRET_BYTES_MAX` bytes; one that is refused is wiped.
    pub fn new(bytes: Vec<u8>) -> Result<Secret, SecretError> {
        let bytes = Zeroizing::new(bytes);
        match bytes.len() {
            ..SECRET_BYTES_MIN => Err(SecretError::TooShort),
            SECRET_BYTES_MIN..=SECRET_BYTES_MAX => Ok(Secret(bytes)),
            _ => Err(SecretError::TooLong),
        }
    }

    /// The value. Called by executors, inside `perform`.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The value for a header field: visible ASCII and spaces (RFC 9110 section 5.5), else `NotPrintable`.
    pub fn expose_str(&self) -> Result<&str, SecretError> {
        let printable = self.0.iter().all(|byte| matches!(byte, b' '..=b'~'));
        printable.then(|| str::from_utf8(&self.0).ok()).flatten().ok_or(SecretError::NotPrintable)
    }
}

/// Why a value cannot be used; says nothing of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretError {
    /// Below `SECRET_BYTES_MIN`.
    TooShort,
    /// Above `SECRET_BYTES_MAX`.
    TooLong,
    /// Needed as text, but has control or non-ASCII characters.
    NotPrintable,
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretError::TooShort => write!(f, "expected a secret of at least {SECRET_BYTES_MIN} bytes, got a shorter one"),
            SecretError::TooLong => write!(f, "expected a secret of at most {SECRET_BYTES_MAX} bytes, got a longer one"),
            SecretError::NotPrintable => f.write_str("expected a secret of printable ASCII characters, got one with others"),
        }
    }
}

impl std::error::Error for SecretError {}

/// Replaces the secrets it was made with by `[redacted:NAME]`. Immutable, shared by `Arc`; wiped on drop.
///
/// Of several hits the leftmost wins, of those the longest, of those the secret given first. The replacement does not depend on the
/// value, nor on the form it was found in.
pub struct Redactor {
    matcher: Matcher,
    markers: Vec<String>,
}

impl Redactor {
    /// Knows nothing and replaces nothing.
    pub fn none() -> Redactor {
        Redactor::new([])
    }

    /// Knows these secrets by these credential names. Of two equal values the first gives the name.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (String, &'a Secret)>) -> Redactor {
        let mut known: Vec<(String, &Secret)> = Vec::new();
        for (name, secret) in secrets {
            if !known.iter().any(|(_, other)| other.expose() == secret.expose()) {
                known.push((name, secret));
            }
        }
        let owned = |(owner, (_, secret)): (usize, &(String, &Secret))| {
            forms(secret.expose()).into_iter().map(move |form| (owner, form))
        };
        let matcher = Matcher::new(known.iter().enumerate().flat_map(owned).collect());
        Redactor { matcher, markers: known.iter().map(|(name, _)| format!("[redacted:{name}]")).collect() }
    }

    /// The text without the secrets; borrowed when there was none. Characters stay whole: what is not UTF-8 is found encoded only.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.whole(text.as_bytes(), Content::Text) {
            None => Cow::Borrowed(text),
            Some(clean) => Cow::Owned(String::from_utf8(clean).expect("hits in text begin and end between characters")),
        }
    }

    /// The bytes without the secrets; borrowed when there was none.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.whole(bytes, Content::Bytes).map_or(Cow::Borrowed(bytes), Cow::Owned)
    }

    /// Redaction of a stream that comes in chunks, with the same result as `bytes` on all of it.
    pub fn stream(self: &Arc<Self>) -> Stream {
        Stream { redactor: Arc::clone(self), held: Zeroizing::default(), attempt: Attempt::default() }
    }

    /// The most bytes one hit covers, and so the most a stream holds back; 0 if nothing is known.
    pub fn longest_bytes(&self) -> usize {
        self.matcher.bytes_max
    }

    fn whole(&self, bytes: &[u8], content: Content) -> Option<Vec<u8>> {
        let input = Input { bytes, content, rest: Rest::Nothing };
        let (mut clean, mut done) = (None, 0);
        let mut attempt = Attempt::default();
        while let Found::Hit { start, end, owner } = self.matcher.find(input, done, &mut attempt) {
            let clean = clean.get_or_insert_with(|| Vec::with_capacity(bytes.len()));
            clean.extend_from_slice(&bytes[done..start]);
            clean.extend_from_slice(self.markers[owner].as_bytes());
            done = end;
        }
        clean.as_mut()?.extend_from_slice(&bytes[done..]);
        clean
    }
}

/// Redaction of one stream. Holds back at most `longest_bytes`: from the first byte that may still begin a hit.
///
/// A stream that ends within a secret gives out what it held: a part is not the value. Whoever cuts a preview therefore cuts what comes
/// out of here, never what goes in.
pub struct Stream {
    redactor: Arc<Redactor>,
    held: Zeroizing<Vec<u8>>,
    attempt: Attempt,
}

impl Stream {
    /// Takes the next chunk and gives out, in order, everything that is decided.
    pub fn push(&mut self, chunk: &[u8], out: &mut dyn FnMut(&[u8])) {
        if self.held.is_empty() {
            let done = self.settle(chunk, Rest::Follows, out);
            self.held.extend_from_slice(&chunk[done..]);
        } else {
            let mut held = mem::take(&mut self.held);
            held.extend_from_slice(chunk);
            let done = self.settle(&held, Rest::Follows, out);
            held.drain(..done);
            self.held = held;
        }
    }

    /// The stream has ended: gives out the rest. The next `push` begins a new stream.
    pub fn finish(&mut self, out: &mut dyn FnMut(&[u8])) {
        let held = mem::take(&mut self.held);
        self.settle(&held, Rest::Nothing, out);
    }

    /// Gives out what is decided and says how many bytes that settled.
    fn settle(&mut self, bytes: &[u8], rest: Rest, out: &mut dyn FnMut(&[u8])) -> usize {
        let input = Input { bytes, content: Content::Bytes, rest };
        let mut done = 0;
        let mut pass = |piece: &[u8]| {
            if !piece.is_empty() {
                out(piece)
            }
        };
        loop {
            match self.redactor.matcher.find(input, done, &mut self.attempt) {
                Found::Hit { start, end, owner } => {
                    pass(&bytes[done..start]);
                    pass(self.redactor.markers[owner].as_bytes());
                    done = end;
                }
                Found::Undecided { start } => {
                    pass(&bytes[done..start]);
                    self.attempt.rebase();
                    return start;
                }
                Found::Nothing => {
                    pass(&bytes[done..]);
                    return bytes.len();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

    use super::*;

    /// Names and values; among them all that is special to one of the encodings.
    const KNOWN: [(&str, &[u8]); 10] = [
        ("token", b"ghp_0123456789abcdefghijABCDEFGHIJ"),
        ("words", b"correct horse battery"),
        ("odd", b"a\"b\\c/d%25e?f&\n\t\x01~"),
        ("german", "schlüssel-größe-€-😀".as_bytes()),
        ("binary", &[0xBF, 0xFB, 0xEF, 0xBE, 0xFF, 0xFE, 0x00, 0x80, 0xA9]),
        ("inner", b"password"),
        ("outer", b"password-and-more"),
        ("slashes", b"\\\\\\\\\\\\\\\\"),
        ("repeats", b"abababababab"),
        ("pem", b"-----BEGIN KEY-----\nAAAAAAAAB3NzaC1yc2E+/w==\n-----END KEY-----"),
    ];

    fn redactor(known: &[(&str, &[u8])]) -> Arc<Redactor> {
        let secrets: Vec<_> = known.iter().map(|(name, value)| (name, Secret::new(value.to_vec()).unwrap())).collect();
        Arc::new(Redactor::new(secrets.iter().map(|(name, secret)| (name.to_string(), secret))))
    }

    fn value_of(name: &str) -> &'static [u8] {
        KNOWN.iter().find(|(known, _)| *known == name).unwrap().1
    }

    fn percent(value: &[u8], digit: fn(u32) -> String, mut keep: impl FnMut(u8) -> bool) -> Vec<u8> {
        let encode = |&byte: &u8| if keep(byte) { vec![byte] } else { format!("%{}", digit(byte.into())).into_bytes() };
        value.iter().flat_map(encode).collect()
    }

    fn upper(value: u32) -> String {
        format!("{value:02X}")
    }

    fn lower(value: u32) -> String {
        format!("{value:02x}")
    }

    /// What the stream makes of the input when it comes in these chunks; checks what is held back on the way.
    fn streamed<'a>(redactor: &Arc<Redactor>, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let (mut stream, mut clean) = (redactor.stream(), Vec::new());
        for chunk in chunks {
            stream.push(chunk, &mut |piece| clean.extend_from_slice(piece));
            assert!(stream.held.len() < redactor.longest_bytes().max(1), "{} bytes held", stream.held.len());
        }
        stream.finish(&mut |piece| clean.extend_from_slice(piece));
        clean
    }

    /// The input, alone and between other bytes, is replaced as a whole, however it is cut.
    #[track_caller]
    fn check_hidden(redactor: &Arc<Redactor>, name: &str, input: &[u8]) {
        let shown = String::from_utf8_lossy(input).into_owned();
        for (before, behind) in [("", ""), ("<", ">"), ("key: \"", "\"\n"), ("%", "%"), (" %7", "\\"), ("\\u00", "\\u00")] {
            if behind.starts_with('\\') && input.ends_with(b"\\") {
                continue; // the longest hit takes the two as one escaped backslash
            }
            let input = [before.as_bytes(), input, behind.as_bytes()].concat();
            let expected = format!("{before}[redacted:{name}]{behind}");
            assert_eq!(String::from_utf8_lossy(&redactor.bytes(&input)), expected, "{name} as {shown:?}");
            for cut in 0..=input.len() {
                let clean = streamed(redactor, [&input[..cut], &input[cut..]]);
                assert_eq!(String::from_utf8_lossy(&clean), expected, "{name} as {shown:?} cut at {cut}");
            }
            if let Ok(text) = str::from_utf8(&input)
                && str::from_utf8(value_of(name)).is_ok()
            {
                assert_eq!(redactor.text(text), expected, "{name} as text {shown:?}");
            }
        }
    }

    #[track_caller]
    fn check_untouched(redactor: &Arc<Redactor>, input: &[u8]) {
        assert!(matches!(redactor.bytes(input), Cow::Borrowed(_)), "{:?}", String::from_utf8_lossy(input));
        assert_eq!(streamed(redactor, [input]), input);
        if let Ok(text) = str::from_utf8(input) {
            assert!(matches!(redactor.text(text), Cow::Borrowed(_)), "{text:?}");
        }
    }

    #[test]
    fn sizes_are_checked_at_both_ends() {
        let check = |bytes: usize| Secret::new(vec![b'x'; bytes]).map(|secret| secret.expose().len());
        assert_eq!(check(SECRET_BYTES_MIN), Ok(SECRET_BYTES_MIN));
        assert_eq!(check(SECRET_BYTES_MIN - 1), Err(SecretError::TooShort));
        assert_eq!(check(SECRET_BYTES_MAX), Ok(SECRET_BYTES_MAX));
        assert_eq!(check(SECRET_BYTES_MAX + 1), Err(SecretError::TooLong));
    }

    #[test]
    fn only_printable_values_become_header_text() {
        let check = |value: &str| Secret::new(value.into()).unwrap().expose_str().map(str::to_owned);
        assert_eq!(check("with space ~!"), Ok("with space ~!".to_owned()));
        for value in ["line\nfeed", "carriage\rreturn", "nul-\0-nul", "delete-\x7F-", "größe-größe"] {
            assert_eq!(check(value), Err(SecretError::NotPrintable), "{value:?}");
        }
    }

    /// Compiles only while `Secret` has none of these traits: with one, two implementations fit and the call is ambiguous.
    #[test]
    fn a_secret_has_no_way_to_show_itself() {
        struct Has;
        trait Unless<T> {
            fn holds() {}
        }
        impl<T: ?Sized> Unless<()> for T {}
        macro_rules! lacks {
            ($of:ty: $($name:path),*) => { $({
                struct Mark;
                impl<T: ?Sized + $name> Unless<(Has, Mark)> for T {}
                <$of as Unless<_>>::holds();
            })* };
        }
        lacks!(Secret: fmt::Debug, fmt::Display, Clone, serde::Serialize);
        lacks!(Redactor: fmt::Debug, Clone, serde::Serialize);
        lacks!(Stream: fmt::Debug, Clone, serde::Serialize);
    }

    #[test]
    fn redactors_are_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        fn sent<T: Send>() {}
        shared::<Redactor>();
        shared::<Secret>();
        sent::<Stream>();
    }

    #[test]
    fn values_are_found_as_they_are_and_in_hexadecimal() {
        let redactor = redactor(&KNOWN);
        for (name, value) in KNOWN {
            check_hidden(&redactor, name, value);
            check_hidden(&redactor, name, value.iter().map(|&byte| lower(byte.into())).collect::<String>().as_bytes());
            check_hidden(&redactor, name, value.iter().map(|&byte| upper(byte.into())).collect::<String>().as_bytes());
        }
    }

    #[test]
    fn values_are_found_percent_encoded_in_whole_and_in_part() {
        let redactor = redactor(&KNOWN);
        let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        for (name, value) in KNOWN {
            for digits in [upper, lower] {
                check_hidden(&redactor, name, &percent(value, digits, unreserved));
                check_hidden(&redactor, name, &percent(value, digits, |_| false));
                let mut odd = false;
                check_hidden(
                    &redactor,
                    name,
                    &percent(value, digits, |_| {
                        odd = !odd;
                        odd
                    }),
                );
            }
        }
        check_hidden(&redactor, "words", b"correct+horse+battery");
        check_hidden(&redactor, "words", b"correct+horse%20batter%79");
        check_hidden(&redactor, "odd", &percent(value_of("odd"), upper, |byte| byte == b'%' || unreserved(byte)));
    }

    #[test]
    fn values_are_found_json_escaped() {
        let redactor = redactor(&KNOWN);
        for (name, value) in KNOWN {
            let Ok(text) = str::from_utf8(value) else { continue };
            let plain = serde_json::to_string(text).unwrap();
            let plain = &plain[1..plain.len() - 1];
            check_hidden(&redactor, name, plain.as_bytes());
            check_hidden(&redactor, name, plain.replace('/', "\\/").as_bytes());
            let units: Vec<u16> = text.encode_utf16().collect();
            check_hidden(&redactor, name, units.iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>().as_bytes());
            check_hidden(&redactor, name, units.iter().map(|unit| format!("\\u{unit:04X}")).collect::<String>().as_bytes());
        }
        check_hidden(&redactor, "german", "schl\\u00fcssel-gr\\u00F6%C3%9fe-\\u20ac-\\uD83D\\ude00".as_bytes());
    }

    /// The echo of an Authorization header: characters that hold bits of the user name alone stay, all others go, padding too.
    #[test]
    fn values_are_found_in_base64_at_every_alignment() {
        let redactor = redactor(&KNOWN);
        for (name, value) in KNOWN {
            for (user, engine) in
                (0..=5).flat_map(|user| [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD].map(|engine| (user, engine)))
            {
                let user = format!("{}:", &"admin"[..user]);
                let encoded = engine.encode([user.as_bytes(), value].concat());
                let kept = &encoded[..user.len() * 8 / 6];
                for echoed in [encoded.clone(), encoded.replace('=', "%3D").replace('+', "%2b"), encoded.replace('/', "\\/")] {
                    let expected = format!("Basic {kept}[redacted:{name}]");
                    assert_eq!(redactor.text(&format!("Basic {echoed}")), expected, "{name} with {user:?} as {echoed}");
                    assert_eq!(
                        redactor.text(&format!("Basic {echoed}\r\n")),
                        expected + "\r\n",
                        "{name} with {user:?} as {echoed}"
                    );
                }
                check_hidden(&redactor, name, engine.encode(value).as_bytes());
                let core = &encoded[(user.len() * 8).div_ceil(6)..];
                assert_eq!(redactor.text(core), format!("[redacted:{name}]"), "{name} as {core}, the first part cut off");
            }
            for before in 0..3 {
                let encoded = STANDARD.encode([&[b'\n'; 2][..before], value, b"\nnext line"].concat());
                let end = (before + value.len()) * 8;
                let expected = format!("{}[redacted:{name}]{}", &encoded[..before * 8 / 6], &encoded[end.div_ceil(6)..]);
                assert_eq!(redactor.text(&encoded), expected, "{name} behind {before} bytes");
            }
        }
    }

    #[test]
    fn a_key_is_hidden_in_any_layout() {
        let (one, two) = ("b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE", "bm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW==");
        let key = format!("-----BEGIN KEY-----\n{one}\n{two}\n-----END KEY-----");
        let redactor = redactor(&[("key", key.as_bytes())]);
        let mark = "[redacted:key]";
        for (shown, expected) in [
            (key.clone(), mark.to_owned()),
            (key.replace('\n', "\r\n"), format!("-----BEGIN KEY-----\r\n{mark}\r\n{mark}\r\n-----END KEY-----")),
            (key.replace('\n', "\n> "), format!("-----BEGIN KEY-----\n> {mark}\n> {mark}\n> -----END KEY-----")),
            (format!("{one}{two}"), format!("{mark}{mark}")),
            (format!("[\"{two}\",\"{one}\"]"), format!("[\"{mark}\",\"{mark}\"]")),
            (STANDARD.encode(format!("2:{one}")), format!("{}{mark}", &STANDARD.encode("2:")[..2])),
        ] {
            assert_eq!(redactor.text(&shown), expected, "{shown}");
            assert_eq!(streamed(&redactor, shown.as_bytes().chunks(1)), expected.as_bytes(), "{shown} byte by byte");
        }
    }

    #[test]
    fn near_misses_stay() {
        // Parts of the key are known by themselves.
        let known: Vec<_> = KNOWN.into_iter().filter(|(name, _)| !["inner", "pem"].contains(name)).collect();
        let redactor = redactor(&known);
        for (_, value) in known {
            let forms = [value.to_vec(), percent(value, upper, |_| false), STANDARD_NO_PAD.encode(value).into_bytes()];
            for form in forms {
                check_untouched(&redactor, &form[..form.len() - 2]);
                check_untouched(&redactor, &[&form[..form.len() / 2], b"!", &form[form.len() / 2..]].concat());
            }
            for at in 0..value.len() {
                let mut other = value.to_vec();
                other[at] ^= 0x04;
                check_untouched(&redactor, &other);
                check_untouched(&redactor, &percent(&other, lower, |_| false));
            }
        }
        check_untouched(&redactor, b"correct%2horse%20battery ghp_%u0030 \\u00");
        check_untouched(&redactor, b"");
    }

    #[test]
    fn nothing_known_changes_nothing() {
        let redactor = Arc::new(Redactor::none());
        assert_eq!(redactor.longest_bytes(), 0);
        check_untouched(&redactor, b"password % \\ \\u0041 %41 =");
    }

    #[test]
    fn the_leftmost_hit_wins_then_the_longest_then_the_first_named() {
        let check = |known: &[(&str, &str)], input: &str, expected: &str| {
            let known: Vec<_> = known.iter().map(|&(name, value)| (name, value.as_bytes())).collect();
            let redactor = redactor(&known);
            assert_eq!(redactor.text(input), expected);
            for cut in 0..=input.len() {
                let clean = streamed(&redactor, [&input.as_bytes()[..cut], &input.as_bytes()[cut..]]);
                assert_eq!(String::from_utf8(clean).unwrap(), expected, "cut at {cut}");
            }
        };
        let nested = [("short", "password"), ("long", "password-and-more"), ("late", "word-and")];
        check(&nested, "password-and-more", "[redacted:long]");
        check(&nested, "password-and-mor", "[redacted:short]-and-mor");
        check(&nested, "-word-and-more", "-[redacted:late]-more");
        check(&nested, "passwordpassword", "[redacted:short][redacted:short]");
        check(&[("one", "same-value"), ("two", "same-value")], "same-value", "[redacted:one]");
        check(&[("periodic", "abababab")], "ababababab", "[redacted:periodic]ab");
        check(&[("periodic", "abababab")], "ababbabababab", "ababb[redacted:periodic]");
    }

    #[test]
    fn the_marker_tells_nothing_of_the_length() {
        let redactor = redactor(&[("key", &[b'k'; 8]), ("long", &[b'l'; 4000])]);
        assert_eq!(redactor.text(&"l".repeat(4000)), "[redacted:long]");
        assert_eq!(redactor.text(&STANDARD.encode("l".repeat(4000))), "[redacted:long]");
    }

    /// Redacting this binary value as bytes would leave the first half of a character.
    #[test]
    fn text_keeps_its_characters_whole() {
        let value = [&[0xA9][..], b"ABCDEFGH", &[0xC3]].concat();
        let redactor = redactor(&[("binary", &value)]);
        let text = "éABCDEFGHé";
        assert!(matches!(redactor.text(text), Cow::Borrowed(_)));
        assert_eq!(&*redactor.bytes(text.as_bytes()), b"\xC3[redacted:binary]\xA9");
        assert_eq!(redactor.text("é%a9ABCDEFGH%C3é"), "é[redacted:binary]é");
        assert_eq!(redactor.text(&format!("é{}", STANDARD.encode(value))), "é[redacted:binary]");
    }

    #[test]
    fn a_stream_gives_out_what_is_decided_and_holds_the_rest() {
        let redactor = redactor(&[("token", b"s3cr3t-value"), ("long", b"s3cr3t-value-and-more")]);
        let mut stream = redactor.stream();
        let mut check = |chunk: &str, expected: &str| {
            let mut clean = String::new();
            match chunk {
                "end" => stream.finish(&mut |piece| clean.push_str(str::from_utf8(piece).unwrap())),
                _ => stream.push(chunk.as_bytes(), &mut |piece| clean.push_str(str::from_utf8(piece).unwrap())),
            }
            assert_eq!(clean, expected, "after {chunk:?}");
        };
        check("line 1\n", "line 1\n");
        check("x = s3cr3t-val", "x = ");
        check("ve\n", "s3cr3t-valve\n");
        check("s3cr3t-value", "");
        check("-and-less\n", "[redacted:token]-and-less\n");
        check("s3cr3t-value-and-mor", "");
        check("e", "[redacted:long]");
        check("100 %", "100 ");
        check("\n", "%\n");
        check("s3cr", "");
        check("end", "s3cr");
        check("3t-value \n", "3t-value \n");
    }

    fn xorshift(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        usize::try_from(*state >> 33).unwrap()
    }

    /// Secrets in many forms, whole and cut, between pieces that begin forms and escapes.
    fn soup(state: &mut u64) -> Vec<u8> {
        const NOISE: [&str; 12] =
            ["%", "\\", "\\u00", "%7", "password", "ghp_", "\\\\\\", "abab", "é", "%25", "=", " plain text "];
        let mut soup = Vec::new();
        for _ in 0..12 {
            let value = KNOWN[xorshift(state) % KNOWN.len()].1;
            let form = match xorshift(state) % 6 {
                0 => value.to_vec(),
                1 => percent(value, upper, |byte| byte.is_ascii_alphanumeric()),
                2 => percent(value, lower, |_| xorshift(state).is_multiple_of(2)),
                3 => URL_SAFE.encode(value).into_bytes(),
                4 => STANDARD.encode([b"me:", value].concat()).into_bytes(),
                _ => String::from_utf8_lossy(value)
                    .chars()
                    .map(|char| format!("\\u{:04x}", u32::from(char)))
                    .collect::<String>()
                    .into(),
            };
            let cut = if xorshift(state).is_multiple_of(3) { xorshift(state) % form.len() } else { form.len() };
            soup.extend_from_slice(&form[..cut]);
            soup.extend_from_slice(NOISE[xorshift(state) % NOISE.len()].as_bytes());
        }
        soup
    }

    #[test]
    fn chunks_change_nothing() {
        let (redactor, mut state) = (redactor(&KNOWN), 0x9E37_79B9_7F4A_7C15);
        let mut hits = 0;
        for round in 0..40 {
            let input = soup(&mut state);
            let whole = redactor.bytes(&input).into_owned();
            hits += whole.windows(10).filter(|window| window == b"[redacted:").count();
            for cut in 0..=input.len() {
                assert_eq!(streamed(&redactor, [&input[..cut], &input[cut..]]), whole, "round {round}, cut at {cut}");
            }
            assert_eq!(streamed(&redactor, input.chunks(1)), whole, "round {round}, byte by byte");
            for _ in 0..20 {
                let most = 1 + xorshift(&mut state) % 40;
                let chunks = input.chunk_by(|_, _| !xorshift(&mut state).is_multiple_of(most));
                assert_eq!(streamed(&redactor, chunks), whole, "round {round}, chunks around {most}");
            }
        }
        assert!(hits > 200, "{hits} hits make no test");
    }

    /// Input that follows a long secret to its last byte but one, again and again, costs a multiple of its length, not its square.
    #[test]
    fn long_beginnings_of_secrets_are_read_once() {
        let mut value = b"beginning of a long key ".to_vec();
        let mut state = 1;
        value.extend((value.len()..SECRET_BYTES_MAX).map(|_| xorshift(&mut state).to_le_bytes()[0]));
        let redactor = redactor(&[("long", &value)]);
        let cut = &value[..value.len() - 1];
        assert_eq!(streamed(&redactor, cut.chunks(1)), cut);
        assert_eq!(streamed(&redactor, value.chunks(1)), b"[redacted:long]");
    }
}
