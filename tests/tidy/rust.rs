//! Just enough of Rust's syntax to tell code from comments, literals and tests.
//!
//! Blanked text keeps its length and its lines, so that a place in it is the same place in the original.

/// A Rust file.
pub struct Source {
    /// From the project's root, with `/`.
    pub path: String,
    /// As written.
    pub text: String,
    /// With comments and literals blanked.
    pub code: String,
    /// `code` with the parts that only tests compile blanked as well.
    pub shipped: String,
    test_modules: Vec<String>,
}

impl Source {
    pub fn parse(path: &str, text: &str) -> Source {
        let code = without_text(text);
        let (shipped, test_modules) = without_tests(&code);
        let mut source = Source { path: path.to_owned(), text: text.to_owned(), code, shipped, test_modules };
        if path.starts_with("tests/") {
            source.make_test();
        }
        source
    }

    /// Declares that only tests compile this file.
    pub fn make_test(&mut self) {
        self.shipped = blank(&self.code);
    }

    /// The files of the modules that are declared for tests only, and of those below them.
    pub fn test_files(&self) -> Vec<String> {
        let folder = self.path.strip_suffix("/mod.rs").or(self.path.strip_suffix(".rs")).unwrap_or(&self.path);
        let files = |name: &String| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
        self.test_modules.iter().flat_map(files).collect()
    }

    /// The top-level module it belongs to, and how deep its own module lies in the crate.
    pub fn module(&self) -> Option<(&str, usize)> {
        let path = self.path.strip_prefix("src/")?.strip_suffix(".rs")?;
        let path = path.strip_suffix("/mod").unwrap_or(path);
        let top = path.split('/').next().filter(|top| !["lib", "main"].contains(top))?;
        Some((top, path.split('/').count()))
    }

    /// The number of the line that holds this byte, from 1.
    pub fn line_of(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }
}

fn blank(text: &str) -> String {
    text.chars().flat_map(|c| std::iter::repeat_n(if c == '\n' { c } else { ' ' }, c.len_utf8())).collect()
}

fn without_text(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let (length, is_code) = token(rest);
        let (token, after) = rest.split_at(length);
        out.push_str(&if is_code { token.to_owned() } else { blank(token) });
        rest = after;
    }
    out
}

/// The length of the token that `text` begins with, and whether it is code.
fn token(text: &str) -> (usize, bool) {
    let word = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    if text.starts_with("//") {
        (text.find('\n').unwrap_or(text.len()), false)
    } else if text.starts_with("/*") {
        (block_comment(text), false)
    } else if let Some(length) = raw_string(text, word) {
        (length, false)
    } else if word > 0 {
        (word, true)
    } else if text.starts_with('"') {
        (quoted(text, '"'), false)
    } else if text.starts_with('\'') {
        character(text).map_or((1, true), |length| (length, false))
    } else {
        (text.chars().next().map_or(0, char::len_utf8), true)
    }
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn raw_string(text: &str, word: usize) -> Option<usize> {
    let hashes = text[word..].find(|c| c != '#')?;
    let is_raw = ["r", "br", "cr"].contains(&&text[..word]) && text[word + hashes..].starts_with('"');
    let start = word + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    is_raw.then(|| text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// Up to the closing `quote` that no backslash stands before; the opening one is the first character.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A character literal; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.chars().skip(1);
    match (chars.next()?, chars.next()?) {
        ('\\', _) => Some(quoted(text, '\'')),
        (one, '\'') => Some(one.len_utf8() + 2),
        _ => None,
    }
}

/// Blanks each item behind `#[cfg(test)]`; also the names of the modules declared so.
fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let (mut out, mut modules, mut rest) = (String::with_capacity(code.len()), Vec::new(), code);
    while let Some(at) = rest.find(MARK) {
        let (before, item) = rest.split_at(at);
        let (item, after) = item.split_at(MARK.len() + item_end(&item[MARK.len()..]));
        out.push_str(before);
        out.push_str(&blank(item));
        if let Some((_, name)) = item.strip_suffix(';').and_then(|item| item.rsplit_once("mod ")) {
            modules.push(name.trim().to_owned());
        }
        rest = after;
    }
    (out + rest, modules)
}

/// The end of the item that `code` begins with: its `;`, or the brace that closes it.
fn item_end(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 && (c == ';' || c == '}') {
            return at + 1;
        }
        if depth < 0 {
            return at;
        }
    }
    code.len()
}

#[track_caller]
fn check_blanked(text: &str, code: &str) {
    assert_eq!(without_text(text), code, "{text}");
}

#[test]
fn comments_and_literals_are_no_code() {
    check_blanked("a // b\nc", "a     \nc");
    check_blanked("a /* b /* c */ d */ e", "a                   e");
    check_blanked(r#"f("a \" b", c)"#, "f(        , c)");
    check_blanked(r##"f(r#"a " b"#, r"\", br"x") r#fn"##, "f(          ,     ,      ) r#fn");
    check_blanked(r"f('a', '\'', '\u{1}', b'x') <'a> 'b:", r"f(   ,     ,        , b   ) <'a> 'b:");
    check_blanked("\"\" x \"\\\\\" y", "   x      y");
    check_blanked("\"ä\" x", "     x");
}

#[track_caller]
fn check_shipped(text: &str, shipped: &str, test_files: &[&str]) {
    let source = Source::parse("src/a.rs", text);
    assert_eq!(source.shipped.split_whitespace().collect::<Vec<_>>().join(" "), shipped, "{text}");
    assert_eq!(source.test_files().iter().step_by(2).collect::<Vec<_>>(), test_files, "{text}");
}

#[test]
fn tests_are_not_shipped() {
    check_shipped("a; #[cfg(test)] mod tests { fn f() { \"}\" } } b;", "a; b;", &[]);
    check_shipped("#[cfg(test)]\nmod t;\nb;", "b;", &["src/a/t.rs"]);
    check_shipped("#[cfg(test)] pub(crate) mod testing; b;", "b;", &["src/a/testing.rs"]);
    check_shipped("#[cfg(test)] #[x] fn f(a: [u8; 3]) -> B { c } d", "d", &[]);
    check_shipped("#[cfg(test)] use a::{b, c}; d", "; d", &[]);
    check_shipped("#[cfg(not(test))] a", "#[cfg(not(test))] a", &[]);
}
