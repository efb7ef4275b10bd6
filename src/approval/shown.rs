//! Foreign text for eyes that decide: what is shown is what is there.
//!
//! What stays is an allow-list: printable ASCII, and letters and digits of scripts that run from left to right. Everything else
//! is written as its number: what a terminal obeys, what has no width or looks like nothing, and what would be shown in another
//! order than it has. So two different texts never look the same but for letters that look alike, and no text hides a part.

use std::fmt::Write;

/// Text as it is shown: `\u{…}` for what is not in the list, a backslash doubled, so that it can be told from an escape.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            _ if is_plain(c) => out.push(c),
            _ => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    out
}

/// Valid JSON text without white space outside its strings, shown by the same list. It stays the same JSON value: its own escapes
/// are left, and what is not in the list becomes one of them.
pub fn shown_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_plain(c) {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

fn is_plain(c: char) -> bool {
    matches!(c, ' '..='~') || (!c.is_ascii() && c.is_alphanumeric() && !is_blank(c) && !is_right_to_left(c))
}

/// Letters by their category that show nothing: the fillers of Hangul, the blanks among the hieroglyphs.
fn is_blank(c: char) -> bool {
    matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{13441}' | '\u{13442}')
}

/// The blocks whose letters turn the order of what stands between them, numbers and quotes included (UAX #9, classes R and AL;
/// ranges of DerivedBidiClass.txt, unassigned places included).
fn is_right_to_left(c: char) -> bool {
    matches!(c,
        '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}' | '\u{10800}'..='\u{10fff}'
        | '\u{1e800}'..='\u{1efff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str, expected_json: &str) {
        assert_eq!((shown(text).as_str(), shown_json(text).as_str()), (expected, expected_json), "{text:?}");
    }

    #[test]
    fn what_is_plain_stays() {
        for text in ["", " rm -rf /srv/\"a\"; ~$'`{}", "éßŁ", "Привет 你好 こんにちは ٪"] {
            let want = text.replace('٪', "\\u{66a}");
            assert_eq!(shown(text), want);
        }
        check("𝒜९", "𝒜९", "𝒜९");
    }

    #[test]
    fn everything_else_is_written_as_its_number() {
        check(
            "a\u{1b}[2J\n\t\0\u{7f}\u{85}\u{9b}",
            "a\\u{1b}[2J\\u{a}\\u{9}\\u{0}\\u{7f}\\u{85}\\u{9b}",
            "a\\u001b[2J\\u000a\\u0009\\u0000\\u007f\\u0085\\u009b",
        );
        check(
            "a\u{202e}b\u{2066}c\u{200b}\u{feff}\u{ad}",
            "a\\u{202e}b\\u{2066}c\\u{200b}\\u{feff}\\u{ad}",
            "a\\u202eb\\u2066c\\u200b\\ufeff\\u00ad",
        );
        check("\u{1f389}\u{e0041}", "\\u{1f389}\\u{e0041}", "\\ud83c\\udf89\\udb40\\udc41");
        check("\u{a0}\u{3000}\u{2800}\u{301}", "\\u{a0}\\u{3000}\\u{2800}\\u{301}", "\\u00a0\\u3000\\u2800\\u0301");
    }

    #[test]
    fn a_backslash_of_the_text_is_no_escape_of_ours() {
        check(r"\u{1b}", r"\\u{1b}", r"\u{1b}");
        check(r#"{"a":"\u001b\\"}"#, r#"{"a":"\\u001b\\\\"}"#, r#"{"a":"\u001b\\"}"#);
    }

    #[test]
    fn letters_that_show_nothing_or_turn_the_order_are_no_letters_here() {
        for c in ['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}', '\u{13441}', 'א', 'ش', '٣', 'ﷲ', '\u{1e900}', '\u{10800}']
        {
            assert!(c.is_alphanumeric() && shown(&c.to_string()) == format!("\\u{{{:x}}}", u32::from(c)), "{c:?}");
        }
    }

    #[test]
    fn whatever_is_shown_is_in_the_list() {
        let every: String = ('\0'..=char::MAX).collect();
        for text in [shown(&every), shown_json(&every)] {
            assert!(text.chars().all(is_plain));
        }
    }
}
