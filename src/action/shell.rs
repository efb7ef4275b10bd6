//! Words for a POSIX shell on the far side: any text without NUL becomes exactly one word with exactly that text.
//!
//! Only single quotes are used: between them every character stands for itself (POSIX.1-2024, Shell Command Language 2.2.2),
//! line feeds included, so there is nothing to escape but the quote. Holds for dash, bash, busybox ash, ksh and zsh; csh and
//! fish read quotes otherwise and are not promised. Nothing here runs a shell or decides what is run.

/// Appends `word`, quoted unless it is plain. It must be free of NUL, which no command line can carry.
pub fn push_word(word: &str, line: &mut String) {
    if is_plain(word) {
        line.push_str(word);
        return;
    }
    line.push('\'');
    for (index, part) in word.split('\'').enumerate() {
        if index > 0 {
            line.push_str(r"'\''");
        }
        line.push_str(part);
    }
    line.push('\'');
}

/// The bytes of `word` in a command line that is itself quoted once more as a whole, as a wrapper has to do.
///
/// Quoting gives `len + 2 + 3q` bytes for `q` quotes inside, `2 + 3q` of which are quotes; each of those costs 3 more.
pub fn nested_bytes(word: &str) -> usize {
    let quotes = word.bytes().filter(|byte| *byte == b'\'').count();
    if is_plain(word) { word.len() } else { word.len() + 8 + 12 * quotes }
}

/// Whether every shell takes it for itself without quotes. A leading `=` is an expansion in zsh.
fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && !word.starts_with('=')
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./:=@%+,-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::template::sample;

    #[track_caller]
    fn check(word: &str, want: &str) {
        let mut line = String::new();
        push_word(word, &mut line);
        assert_eq!(line, want);
    }

    #[test]
    fn plain_words_stay_readable() {
        for word in ["systemctl", "-n", "--lines=50", "/srv/a_b.c", "user@host:22", "50%", "+x", "a,b", "%1"] {
            check(word, word);
        }
    }

    #[test]
    fn everything_else_is_quoted() {
        check("", "''");
        check("a b", "'a b'");
        check("~", "'~'");
        check("~/x", "'~/x'");
        check("=ls", "'=ls'");
        check("it's", r"'it'\''s'");
        check("'", r"''\'''");
        check("''", r"''\'''\'''");
        check("note\ntouch pwned", "'note\ntouch pwned'");
        check("$(touch pwned)", "'$(touch pwned)'");
        check("\\", "'\\'");
        for word in
            ["a;b", "a|b", "a&b", "a>b", "a*", "a?", "[a]", "{a,b}", "#a", "!a", "^a", "a\"b", "a`b", "é", "\t", "\r", "\u{1}"]
        {
            check(word, &format!("'{word}'"));
        }
    }

    #[test]
    fn the_size_is_known_before_anything_is_quoted() {
        for text in sample::texts() {
            let (mut line, mut nested) = (String::new(), String::new());
            push_word(&text, &mut line);
            push_word(&line, &mut nested);
            let outer = if is_plain(&line) { 0 } else { 2 };
            assert_eq!(nested_bytes(&text), nested.len() - outer, "{text:?}");
        }
    }
}
