//! The typed local command and its template.
//!
//! An argv, never a command line: no shell reads it, and an argument is exactly one element of it.

use std::path::PathBuf;

use crate::action::environment;
use crate::action::template::argv::{ArgvTemplate, Dash};
use crate::action::template::{Arguments, FillError, Names, quoted};

/// One local command, ready to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecAction {
    /// Program and arguments, free of NUL; the program is absolute or looked up in the child's PATH.
    pub argv: Vec<String>,
    /// The whole environment of the child beside the gateway's own mark.
    pub env: Vec<(String, String)>,
    /// Working directory.
    pub cwd: PathBuf,
}

/// A command as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecWritten {
    /// Program and arguments; the program is literal, the arguments are templates.
    pub argv: Vec<String>,
    /// The whole environment, literal: a brace here is a brace.
    pub env: Vec<(String, String)>,
    /// Working directory, absolute.
    pub cwd: PathBuf,
    /// The tool's `allow_dash`.
    pub dash: Dash,
}

/// A command with placeholders, checked whole.
#[derive(Debug)]
pub struct ExecTemplate {
    argv: ArgvTemplate,
    env: Vec<(String, String)>,
    cwd: PathBuf,
}

impl ExecTemplate {
    /// Checks every piece; all problems at once, each naming its member (`argv[2]: ...`, `env: ...`).
    pub fn new(written: &ExecWritten) -> Result<ExecTemplate, Vec<String>> {
        let mut problems = Vec::new();
        let argv = ArgvTemplate::parse(&written.argv, written.dash).map_err(|all| problems.extend(all)).ok();
        problems.extend(environment::problems(&written.env));
        let cwd = written.cwd.to_string_lossy();
        if !written.cwd.is_absolute() || cwd.contains('\0') {
            problems.push(format!("cwd: expected an absolute path, got {}", quoted(&cwd)));
        }
        match argv {
            Some(argv) if problems.is_empty() => Ok(ExecTemplate { argv, env: written.env.clone(), cwd: written.cwd.clone() }),
            _ => Err(problems),
        }
    }

    /// The command for these arguments.
    pub fn fill(&self, arguments: &Arguments<'_>) -> Result<ExecAction, FillError> {
        Ok(ExecAction { argv: self.argv.fill(arguments)?, env: self.env.clone(), cwd: self.cwd.clone() })
    }

    /// Its placeholders.
    pub fn names(&self) -> Names {
        let mut names = Names::default();
        self.argv.add_names(&mut names);
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(argv: &[&str], env: &[(&str, &str)], cwd: &str) -> ExecWritten {
        ExecWritten {
            argv: argv.iter().map(|element| (*element).to_owned()).collect(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            cwd: PathBuf::from(cwd),
            dash: Dash::Refused,
        }
    }

    #[track_caller]
    fn check_refused(written: &ExecWritten, parts: &[&str]) {
        let problems = ExecTemplate::new(written).unwrap_err();
        assert_eq!(problems.len(), parts.len(), "{problems:?}");
        for (problem, part) in problems.iter().zip(parts) {
            assert!(problem.contains(part), "expected {part}: {problem}");
        }
    }

    #[test]
    fn filled() {
        let template = ExecTemplate::new(&written(&["tail", "-n", "{n}", "--", "{file}"], &[("LANG", "{n}")], "/srv")).unwrap();
        let arguments = json!({"n": 5, "file": "-a b"});
        let action = template.fill(&Arguments::new(&arguments.into())).unwrap();
        assert_eq!(action.argv, ["tail", "-n", "5", "--", "-a b"]);
        assert_eq!(action.env, [("LANG".to_owned(), "{n}".to_owned())]);
        assert_eq!(action.cwd, PathBuf::from("/srv"));
        assert_eq!(template.names().used().collect::<Vec<_>>(), ["file", "n"]);
        assert_eq!(template.names().required().count(), 0);
    }

    #[test]
    fn refused() {
        check_refused(&written(&[], &[], "/"), &["argv: expected a program"]);
        check_refused(
            &written(&["{x}", "{"], &[("1A", ""), ("", "")], "srv"),
            &["argv[1]", "argv[0]", "\"1A\"", "\"\"", "cwd"],
        );
        check_refused(&written(&["p"], &[("A", "x\0"), ("A=B", ""), ("A", "")], "/\0"), &["NUL", "\"A=B\"", "twice", "cwd"]);
    }
}
