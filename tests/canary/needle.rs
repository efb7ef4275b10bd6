//! What a canary looks like, and how it is found again: in parts, and in every way the gateway promises to know.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;
use std::io::Read;

/// A secret of a test: two random parts around what encodings change.
pub struct Canary {
    pub name: &'static str,
    pub value: String,
    parts: Vec<String>,
}

fn random() -> String {
    let mut bytes = [0; 12];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    // Letters beside digits, so that both cases of hexadecimal differ.
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().replace('a', "Q").replace('3', "z")
}

impl Canary {
    /// Fit for a header field.
    pub fn new(name: &'static str) -> Canary {
        let parts = vec![random(), random()];
        Canary { name, value: format!("{}\"\\%/+={}", parts[0], parts[1]), parts }
    }

    /// Fit for whatever takes letters alone.
    pub fn plain(name: &'static str) -> Canary {
        let part = random();
        Canary { name, value: part.clone(), parts: vec![part] }
    }

    /// The text of a private key; what is looked for are its lines beyond those that all keys of its kind share.
    pub fn key(name: &'static str, text: &str) -> Canary {
        let parts: Vec<String> =
            text.lines().filter(|line| !line.starts_with('-') && line.len() >= 16).skip(1).map(str::to_owned).collect();
        assert!(parts.len() >= 3, "{name} is no key");
        Canary { name, value: text.to_owned(), parts }
    }
}

/// Everything that is looked for.
pub struct Needles {
    /// Whose, in which form, and the bytes.
    all: Vec<(&'static str, &'static str, memmem::Finder<'static>)>,
    raw: usize,
}

impl Needles {
    pub fn of(canaries: &[Canary]) -> Needles {
        let parts = || canaries.iter().flat_map(|canary| canary.parts.iter().map(move |part| (canary.name, part.as_bytes())));
        let finder = |bytes: Vec<u8>| memmem::Finder::new(&bytes).into_owned();
        let mut all: Vec<_> = parts().map(|(name, part)| (name, "as it is", finder(part.to_vec()))).collect();
        let raw = all.len();
        for (name, part) in parts() {
            all.extend(encoded(part).into_iter().map(|(form, bytes)| (name, form, finder(bytes))));
        }
        Needles { all, raw }
    }

    /// Whose part is in there, and in which form.
    pub fn found(&self, hay: &[u8]) -> Option<(&'static str, &'static str)> {
        self.all.iter().find(|(.., finder)| finder.find(hay).is_some()).map(|(name, form, _)| (*name, *form))
    }

    /// The same for parts as they are alone, as argument lists and environments have them.
    pub fn found_raw(&self, hay: &[u8]) -> Option<&'static str> {
        self.all[..self.raw].iter().find(|(.., finder)| finder.find(hay).is_some()).map(|(name, ..)| *name)
    }
}

fn each(part: &[u8], encode: impl Fn(u8) -> String) -> Vec<u8> {
    part.iter().map(|byte| encode(*byte)).collect::<String>().into_bytes()
}

/// With digits as they are, in the way of servers that encode what is no letter or digit of theirs.
pub fn percent(part: &[u8]) -> String {
    part.iter().map(|byte| if byte.is_ascii_digit() { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn encoded(part: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut forms = vec![
        ("hexadecimal", each(part, |byte| format!("{byte:02x}"))),
        ("hexadecimal", each(part, |byte| format!("{byte:02X}"))),
        ("percent", each(part, |byte| format!("%{byte:02x}"))),
        ("percent", each(part, |byte| format!("%{byte:02X}"))),
        ("percent", percent(part).into_bytes()),
        ("JSON", each(part, |byte| format!("\\u{byte:04x}"))),
        ("JSON", each(part, |byte| format!("\\u{byte:04X}"))),
    ];
    for offset in 0..3 {
        let whole = [&vec![0; offset][..], part].concat();
        // Characters that hold bits of the neighbours too are anybody's.
        let (from, to) = ((offset * 8).div_ceil(6), whole.len() * 8 / 6);
        forms.push(("base64", STANDARD_NO_PAD.encode(&whole).as_bytes()[from..to].to_vec()));
        forms.push(("base64", URL_SAFE_NO_PAD.encode(&whole).as_bytes()[from..to].to_vec()));
    }
    forms
}

#[test]
fn a_canary_is_found_in_every_form_and_in_part() {
    let canaries = [Canary::new("one"), Canary::plain("two")];
    let needles = Needles::of(&canaries);
    assert_eq!(needles.found(b"nothing of it, and 0123456789abcdef neither"), None);
    for canary in &canaries {
        for part in
            [canary.value.as_bytes(), &canary.value.as_bytes()[..24], &canary.value.as_bytes()[canary.value.len() - 24..]]
        {
            assert_eq!(needles.found(&[b"x", part, b"y"].concat()), Some((canary.name, "as it is")));
            assert_eq!(needles.found_raw(&[b"\0", part, b"\0"].concat()), Some(canary.name));
            for before in ["", "a", "me:", "Bearer "] {
                let text = STANDARD_NO_PAD.encode([before.as_bytes(), part, b"behind"].concat());
                assert_eq!(needles.found(text.as_bytes()), Some((canary.name, "base64")), "{before:?}");
            }
            assert_eq!(needles.found(&each(part, |byte| format!("{byte:02X}"))), Some((canary.name, "hexadecimal")));
            assert_eq!(needles.found(&each(part, |byte| format!("%{byte:02x}"))), Some((canary.name, "percent")));
            assert_eq!(needles.found(&each(part, |byte| format!("\\u{byte:04x}"))), Some((canary.name, "JSON")));
        }
    }
}
