//! The whole shape of a command: what an allow rule of `ssh_exec` says.
//!
//! Whoever evaluates an argv is the one who was given it as a list: elements are compared whole and in number, and no text is
//! split or matched by its beginning.

use crate::action::template::argv::Dash;
use crate::action::template::quoted;
use crate::wire::escape::to_line;

/// The whole shape of an argv.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    words: Vec<Word>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Exactly(String),
    /// `*`: any one argument.
    Any,
}

impl Shape {
    /// Reads a shape as configured; the problem names the element by index (`[2]: …`). The program is literal.
    pub fn parse(written: &[String]) -> Result<Shape, (usize, String)> {
        let words = written.iter().enumerate().map(|(index, element)| match element.as_str() {
            "*" if index > 0 => Ok(Word::Any),
            text => match element_problem(index, text) {
                None => Ok(Word::Exactly(text.to_owned())),
                Some(problem) => Err((index, format!("{problem}, got {}", quoted(text)))),
            },
        });
        let words = words.collect::<Result<Vec<_>, _>>()?;
        if words.is_empty() { Err((0, "expected a program, got an empty list".to_owned())) } else { Ok(Shape { words }) }
    }

    /// How far the argv fits, element by element, and what does not.
    pub(in crate::policy) fn compare(&self, argv: &[String], dash: Dash) -> Result<(), Misfit> {
        let mut may_dash = dash == Dash::Allowed;
        for (index, (word, element)) in self.words.iter().zip(argv).enumerate() {
            match word {
                Word::Exactly(text) if text != element => {
                    let text = format!("expected {} as element {index}, got {}", quoted(text), quoted(element));
                    return Err(Misfit { fitting: index, text });
                }
                Word::Exactly(text) => may_dash |= text == "--",
                Word::Any if !may_dash && element.starts_with('-') => {
                    let text = format!("expected no - at the beginning of element {index}, a *, got {}", quoted(element));
                    return Err(Misfit { fitting: index, text });
                }
                Word::Any => {}
            }
        }
        if self.words.len() != argv.len() {
            let s = if self.words.len() == 1 { "" } else { "s" };
            let text = format!("expected {} element{s}, got {}", self.words.len(), argv.len());
            return Err(Misfit { fitting: self.words.len().min(argv.len()), text });
        }
        Ok(())
    }

    /// As configured, a JSON array.
    pub fn to_json(&self) -> String {
        let text = |word: &Word| match word {
            Word::Exactly(text) => text.clone(),
            Word::Any => "*".to_owned(),
        };
        to_line(&self.words.iter().map(text).collect::<Vec<_>>())
    }
}

/// What a shape cannot say. A pattern that looks like more than one whole argument would be trusted as such.
fn element_problem(index: usize, text: &str) -> Option<&'static str> {
    let is_program = index == 0;
    match text {
        _ if text.contains('\0') => Some("expected text without NUL"),
        _ if text.contains('*') && is_program => Some("expected a literal program"),
        _ if text.contains('*') => {
            Some("expected \"*\", which is any one argument, or literal text: no part of one and no several")
        }
        "" if is_program => Some("expected a program"),
        _ if is_program && text.starts_with('-') => Some("expected a program and no option"),
        _ if is_program && text.contains('=') => Some("expected a program without =, which would be read as a variable"),
        _ if is_program && text.contains('/') && !text.starts_with('/') => Some("expected an absolute path or a bare name"),
        _ => None,
    }
}

/// Why a rule does not match, and how many of its parts did before.
#[derive(Debug)]
pub(in crate::policy) struct Misfit {
    pub(in crate::policy) fitting: usize,
    pub(in crate::policy) text: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::template::sample;

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_shape_matches_what_it_says_and_nothing_else() {
        let shape = Shape::parse(&owned(&["p", "*", "x"])).unwrap();
        for text in sample::texts() {
            let fits = |argv: &[&str]| shape.compare(&owned(argv), Dash::Refused).is_ok();
            assert_eq!(fits(&["p", &text, "x"]), !text.starts_with('-'), "{text:?}");
            assert_eq!(fits(&["p", "a", &text]), text == "x", "{text:?}");
            assert_eq!(fits(&[&text, "a", "x"]), text == "p", "{text:?}");
            assert!(!fits(&["p", "a", "x", &text]) && !fits(&["p", &text]));
        }
    }

    #[track_caller]
    fn check_shape_refused(written: &[&str], index: usize, part: &str) {
        let (at, problem) = Shape::parse(&owned(written)).unwrap_err();
        assert!(at == index && problem.contains(part), "{written:?}: [{at}]: {problem}");
    }

    #[test]
    fn shapes_that_would_be_trusted_as_something_else_are_refused() {
        check_shape_refused(&[], 0, "empty list");
        check_shape_refused(&["*"], 0, "literal program");
        check_shape_refused(&["/bin/*"], 0, "literal program");
        check_shape_refused(&[""], 0, "expected a program, got \"\"");
        check_shape_refused(&["./run"], 0, "absolute path or a bare name");
        check_shape_refused(&["-x"], 0, "no option");
        check_shape_refused(&["A=b"], 0, "variable");
        check_shape_refused(&["p", "a\0"], 1, "NUL");
        for pattern in ["**", "app-*", "*.log", "--unit=*"] {
            check_shape_refused(&["p", "a", pattern], 2, "any one argument");
        }
        assert_eq!(Shape::parse(&owned(&["p", "*", "a\"b"])).unwrap().to_json(), r#"["p","*","a\"b"]"#);
    }
}
