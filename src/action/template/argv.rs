//! The argv of a command: each element a template, each argument exactly one element.
//!
//! No shell reads it and no text is ever split. An argument cannot become an option by beginning with a dash, unless the
//! configuration says that it may or ends the options with `--` before it.

use crate::action::template::{Arguments, FillError, Names, Piece, Text, quoted};

/// One element, below Linux's MAX_ARG_STRLEN (128 KiB).
pub const ELEMENT_BYTES_MAX: usize = 64 << 10;
/// All elements with their terminating zeros; the smallest ARG_MAX common systems grant is 128 KiB.
pub const ARGV_BYTES_MAX: usize = 128 << 10;

/// Whether an argument may begin its element with `-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dash {
    /// Only behind a literal `--`.
    Refused,
    /// Anywhere: the tool's `allow_dash`.
    Allowed,
}

/// A command line as a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgvTemplate {
    elements: Vec<Element>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Element {
    text: Text,
    dash: Dash,
}

impl ArgvTemplate {
    /// Parses an argv as configured. The program is a literal. One sentence a problem, each naming its element by index.
    pub fn parse(written: &[String], dash: Dash) -> Result<ArgvTemplate, Vec<String>> {
        let mut problems = Vec::new();
        let mut elements = Vec::new();
        let mut dash = dash;
        for (index, element) in written.iter().enumerate() {
            match Text::parse(element) {
                Ok(_) if element.contains('\0') => problems.push(format!("argv[{index}]: expected text without NUL")),
                Ok(text) => {
                    elements.push(Element { text, dash });
                    dash = if element == "--" { Dash::Allowed } else { dash };
                }
                Err(error) => problems.push(format!("argv[{index}]: {error}")),
            }
        }
        problems.extend(
            written.first().map_or(Some("argv: expected a program, got an empty list".to_owned()), |p| program_problem(p)),
        );
        if problems.is_empty() { Ok(ArgvTemplate { elements }) } else { Err(problems) }
    }

    /// The argv for these arguments. An element whose argument is absent is left out; an array alone in its element gives one
    /// element an item.
    pub fn fill(&self, arguments: &Arguments<'_>) -> Result<Vec<String>, FillError> {
        let mut argv = Filled::default();
        for element in &self.elements {
            for name in element.text.names() {
                check_nul(arguments, name)?;
            }
            match element.text.alone() {
                Some(name) => {
                    for text in arguments.texts(name)? {
                        check_dash(element, &text)?;
                        argv.push(&text)?;
                    }
                }
                None => {
                    let filled =
                        element
                            .text
                            .fill(arguments, "one element of the command", ELEMENT_BYTES_MAX, |text, out| out.push_str(text))?;
                    if let Some(text) = filled {
                        check_dash(element, &text)?;
                        argv.push(&text)?;
                    }
                }
            }
        }
        Ok(argv.elements)
    }

    /// Adds the placeholders: all optional.
    pub fn add_names(&self, names: &mut Names) {
        names.add_optional(self.elements.iter().flat_map(|element| element.text.names()));
    }
}

/// The elements so far, with their size.
#[derive(Default)]
struct Filled {
    elements: Vec<String>,
    bytes: usize,
}

impl Filled {
    fn push(&mut self, text: &str) -> Result<(), FillError> {
        if text.len() > ELEMENT_BYTES_MAX {
            return Err(FillError::TooLong { place: "one element of the command", bytes_max: ELEMENT_BYTES_MAX });
        }
        self.bytes += text.len() + 1;
        if self.bytes > ARGV_BYTES_MAX {
            return Err(FillError::TooLong { place: "the command", bytes_max: ARGV_BYTES_MAX });
        }
        self.elements.push(text.to_owned());
        Ok(())
    }
}

fn program_problem(program: &str) -> Option<String> {
    let text = Text::parse(program).ok()?;
    let problem = match text.literal() {
        None => "expected a literal program, got a placeholder",
        Some("") => "expected a program, got an empty text",
        Some(name) if name.contains('/') && !name.starts_with('/') => "expected an absolute path or a bare name",
        Some(_) => return None,
    };
    Some(format!("argv[0]: {problem}: {}", quoted(program)))
}

fn check_nul(arguments: &Arguments<'_>, name: &str) -> Result<(), FillError> {
    if arguments.texts(name)?.iter().any(|text| text.contains('\0')) {
        return Err(FillError::argument(name, "text without NUL for a command", "one"));
    }
    Ok(())
}

/// An element that begins with a placeholder must not come out as an option, whichever piece the dash is from.
fn check_dash(element: &Element, text: &str) -> Result<(), FillError> {
    match (element.dash, element.text.pieces().first()) {
        (Dash::Refused, Some(Piece::Argument(name) | Piece::Segments(name))) if text.starts_with('-') => {
            Err(FillError::argument(
                name,
                "text that does not begin with -, which the command would read as an option",
                &quoted(text),
            ))
        }
        (Dash::Refused | Dash::Allowed, _) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::template::sample;
    use serde_json::{Value, json};

    fn fill(argv: &[&str], dash: Dash, arguments: &Value) -> Result<Vec<String>, String> {
        let written: Vec<String> = argv.iter().map(|element| (*element).to_owned()).collect();
        ArgvTemplate::parse(&written, dash)
            .unwrap()
            .fill(&Arguments::new(&arguments.clone().into()))
            .map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_fill(argv: &[&str], arguments: Value, want: &[&str]) {
        let filled = fill(argv, Dash::Refused, &arguments).unwrap();
        assert_eq!(filled, want, "{argv:?} {arguments}");
    }

    #[track_caller]
    fn check_fill_refused(argv: &[&str], arguments: Value, part: &str) {
        let error = fill(argv, Dash::Refused, &arguments).unwrap_err();
        assert!(error.contains(part), "{argv:?} {arguments}: {error}");
    }

    #[track_caller]
    fn check_parse_refused(argv: &[&str], part: &str) {
        let written: Vec<String> = argv.iter().map(|element| (*element).to_owned()).collect();
        let problems = ArgvTemplate::parse(&written, Dash::Refused).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(part)), "{argv:?}: {problems:?}");
    }

    #[test]
    fn filled() {
        check_fill(&["df", "-h"], json!({}), &["df", "-h"]);
        check_fill(&["p", "{x}"], json!({"x": "a b"}), &["p", "a b"]);
        check_fill(&["p", "{x}"], json!({"x": ""}), &["p", ""]);
        check_fill(&["p", "{x}", "z"], json!({}), &["p", "z"]);
        check_fill(&["p", "--n={x}"], json!({"x": -3}), &["p", "--n=-3"]);
        check_fill(&["p", "--n={x}"], json!({"x": null}), &["p"]);
        check_fill(&["p", "{x}"], json!({"x": ["a b", 1, false]}), &["p", "a b", "1", "false"]);
        check_fill(&["p", "{x}", "z"], json!({"x": []}), &["p", "z"]);
        check_fill(&["p", "--", "{x}"], json!({"x": ["-rf", "--"]}), &["p", "--", "-rf", "--"]);
        check_fill(&["p", "{x}"], json!({"x": "{y}", "y": "no"}), &["p", "{y}"]);
        check_fill(&["p", "{{{x}}}"], json!({"x": "a"}), &["p", "{a}"]);
        assert_eq!(fill(&["p", "{x}"], Dash::Allowed, &json!({"x": "-v"})), Ok(vec!["p".to_owned(), "-v".to_owned()]));
    }

    #[test]
    fn refused_when_filled() {
        check_fill_refused(&["p", "{x}"], json!({"x": "-v"}), "does not begin with -");
        check_fill_refused(&["p", "{x}"], json!({"x": -3}), "does not begin with -");
        check_fill_refused(&["p", "{x}"], json!({"x": ["a", "-v"]}), "does not begin with -");
        check_fill_refused(&["p", "{x}b"], json!({"x": "-"}), "does not begin with -");
        check_fill_refused(&["p", "{x}-b"], json!({"x": ""}), "does not begin with -");
        check_fill_refused(&["p", "{x}", "--"], json!({"x": "-v"}), "does not begin with -");
        check_fill_refused(&["p", "--x", "{x}"], json!({"x": "-v"}), "does not begin with -");
        check_fill_refused(&["p", "{y}", "{x}"], json!({"x": "-v", "y": "--"}), "\"y\": expected");
        check_fill_refused(&["p", "{y}", "{x}"], json!({"x": "-v", "y": "a"}), "\"x\": expected");
        check_fill_refused(&["p", "-e{x}", "{x}"], json!({"x": "-v"}), "does not begin with -");
        check_fill_refused(&["p", "--", "a{x}"], json!({"x": "\0"}), "NUL");
        check_fill_refused(&["p", "{x}"], json!({"x": ["\0"]}), "NUL");
        check_fill_refused(&["p", "{x}"], json!({"x": {"a": 1}}), "got an object");
        check_fill_refused(&["p", "{x}"], json!({"x": [["a"]]}), "got an array");
        check_fill_refused(&["p", "{x}"], json!({"x": [null]}), "got null");
        check_fill_refused(&["p", "a{x}"], json!({"x": ["a"]}), "got an array");
        check_fill_refused(&["p", "{x}"], json!({"x": "a".repeat(ELEMENT_BYTES_MAX + 1)}), "65536");
        check_fill_refused(&["p", "{x}"], json!({"x": vec![""; ARGV_BYTES_MAX - 1]}), "131072");
        assert!(fill(&["p", "{x}"], Dash::Refused, &json!({"x": vec![""; ARGV_BYTES_MAX - 2]})).is_ok());
        assert!(fill(&["p", "{x}"], Dash::Refused, &json!({"x": "a".repeat(ELEMENT_BYTES_MAX)})).is_ok());
    }

    #[test]
    fn refused_when_parsed() {
        check_parse_refused(&[], "empty list");
        check_parse_refused(&[""], "empty text");
        check_parse_refused(&["{x}"], "literal program");
        check_parse_refused(&["/bin/{x}"], "literal program");
        check_parse_refused(&["./run"], "absolute path or a bare name");
        check_parse_refused(&["p", "{"], "argv[1]: ");
        check_parse_refused(&["p", "{+x}"], "for paths only");
        check_parse_refused(&["p", "a\0"], "argv[1]: expected text without NUL");
    }

    #[test]
    fn any_text_arrives_as_one_argument_or_is_refused() {
        let mut filled = 0;
        for text in sample::texts() {
            let arguments = json!({"x": text, "list": [text, "b", text]});
            let clean = !text.contains('\0');
            let plain = clean && !text.starts_with('-');
            let joined = format!("--x={text}!");
            let cases: [(&[&str], Vec<&str>, bool); 5] = [
                (&["p", "{x}"], vec!["p", &text], plain),
                (&["p", "--", "{x}"], vec!["p", "--", &text], clean),
                (&["p", "--x={x}!"], vec!["p", &joined], clean),
                (&["p", "{list}"], vec!["p", &text, "b", &text], plain),
                (&["p", "--", "{list}", "z"], vec!["p", "--", &text, "b", &text, "z"], clean),
            ];
            for (argv, want, fits) in cases {
                match fill(argv, Dash::Refused, &arguments) {
                    Ok(argv) => {
                        assert!(fits, "filled {text:?}");
                        assert_eq!(argv, want);
                        filled += 1;
                    }
                    Err(_) => assert!(!fits, "refused {text:?}"),
                }
            }
        }
        assert!(filled > 5000, "{filled}");
    }
}
