//! The typed remote command and its template.
//!
//! An argv, quoted for the remote POSIX shell argument by argument when it becomes a command line, and not before. Host,
//! environment and working directory are literals of the configuration; arguments reach the argv and the text on stdin only.
//! No credential is in here: it belongs to the host and is joined by the executor.

use crate::action::environment;
use crate::action::json::Json;
use crate::action::shell::{nested_bytes, push_word};
use crate::action::template::argv::{ArgvTemplate, Dash};
use crate::action::template::{Arguments, FillError, Names, Text, quoted};

/// A command line, counted as if it were quoted once more as a whole. It travels in one SSH packet, of which libssh2 sends
/// 34,743 bytes and RFC 4253 section 6.1 promises 32,768; the rest is for what an executor wraps around it.
pub const COMMAND_LINE_BYTES_MAX: usize = 30 << 10;
/// What a command reads, filled.
pub const STDIN_BYTES_MAX: usize = 1 << 20;

/// One remote command, ready to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshAction {
    /// Where; a literal of the configuration.
    pub host: String,
    /// Program and arguments, free of NUL.
    pub argv: Vec<String>,
    /// Variables set on the command line, in order.
    pub env: Vec<(String, String)>,
    /// Remote working directory; the login's own if absent.
    pub cwd: Option<String>,
    /// What the command reads; empty: end of file at once.
    pub stdin: Vec<u8>,
}

impl SshAction {
    /// The text the remote shell is given: `cd -- DIR && exec env NAME=VALUE ... PROGRAM ARGUMENT ...`, for any POSIX shell.
    pub fn command_line(&self) -> String {
        let mut line = String::new();
        if let Some(folder) = &self.cwd {
            line.push_str("cd -- ");
            push_word(folder, &mut line);
            line.push_str(" && ");
        }
        line.push_str("exec");
        if !self.env.is_empty() {
            line.push_str(" env");
        }
        let variables = self.env.iter().map(|(name, value)| format!("{name}={value}"));
        for word in variables.chain(self.argv.iter().cloned()) {
            line.push(' ');
            push_word(&word, &mut line);
        }
        line
    }

    /// Bytes of `command_line` if it is quoted once more; quotes nothing itself.
    fn command_line_bytes(&self) -> usize {
        let folder = self.cwd.as_ref().map_or(0, |folder| "cd --  && ".len() + nested_bytes(folder));
        let env = if self.env.is_empty() { 0 } else { " env".len() };
        let variables = self.env.iter().map(|(name, value)| 1 + nested_bytes(&format!("{name}={value}")));
        let words = self.argv.iter().map(|word| 1 + nested_bytes(word));
        folder + "exec".len() + env + variables.chain(words).sum::<usize>()
    }

    pub(in crate::action) fn fits(self) -> Result<SshAction, FillError> {
        if self.command_line_bytes() > COMMAND_LINE_BYTES_MAX {
            let place = "the command line as quoted for the remote shell";
            return Err(FillError::TooLong { place, bytes_max: COMMAND_LINE_BYTES_MAX });
        }
        Ok(self)
    }
}

/// A remote command as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshWritten {
    /// Name of a host of the configuration, literal.
    pub host: String,
    /// Program and arguments; the program is literal, the arguments are templates.
    pub argv: Vec<String>,
    /// Variables, literal: a brace here is a brace.
    pub env: Vec<(String, String)>,
    /// Remote working directory, absolute and literal.
    pub cwd: Option<String>,
    /// A template of the text on stdin.
    pub stdin: Option<String>,
    /// The tool's `allow_dash`.
    pub dash: Dash,
}

/// A remote command with placeholders, checked whole.
#[derive(Debug)]
pub struct SshTemplate {
    host: String,
    argv: ArgvTemplate,
    env: Vec<(String, String)>,
    cwd: Option<String>,
    stdin: Option<Text>,
}

impl SshTemplate {
    /// Checks every piece; all problems at once, each naming its member (`argv[2]: ...`, `env: ...`, `stdin: ...`).
    pub fn new(written: &SshWritten) -> Result<SshTemplate, Vec<String>> {
        let mut problems = Vec::new();
        let argv = ArgvTemplate::parse(&written.argv, written.dash).map_err(|all| problems.extend(all)).ok();
        problems.extend(written.argv.first().and_then(|program| program_problem(program)));
        problems.extend(environment::problems(&written.env));
        if let Some(folder) = written.cwd.as_ref().filter(|folder| !folder.starts_with('/') || folder.contains('\0')) {
            problems.push(format!("cwd: expected an absolute path, got {}", quoted(folder)));
        }
        let stdin = written.stdin.as_ref().map(|text| Text::parse(text)).transpose();
        let stdin = stdin.map_err(|error| problems.push(format!("stdin: {error}"))).ok().flatten();
        let (host, env, cwd) = (written.host.clone(), written.env.clone(), written.cwd.clone());
        let Some(argv) = argv.filter(|_| problems.is_empty()) else { return Err(problems) };
        let template = SshTemplate { host, argv, env, cwd, stdin };
        // What is literal stands in every command line; a tool that can never be called is no tool.
        match template.command(&Arguments::new(&Json::Null)) {
            Ok(_) => Ok(template),
            Err(error) => Err(vec![format!("argv: {error}")]),
        }
    }

    /// The command for these arguments.
    pub fn fill(&self, arguments: &Arguments<'_>) -> Result<SshAction, FillError> {
        let stdin = self.stdin(arguments)?;
        Ok(SshAction { stdin, ..self.command(arguments)? })
    }

    /// The host it goes to, whatever the arguments.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its placeholders: those of stdin are required, as those of a text body are.
    pub fn names(&self) -> Names {
        let mut names = Names::default();
        self.argv.add_names(&mut names);
        if let Some(text) = &self.stdin {
            names.add_required(text.names());
        }
        names
    }

    /// All but stdin.
    fn command(&self, arguments: &Arguments<'_>) -> Result<SshAction, FillError> {
        let (host, env, cwd) = (self.host.clone(), self.env.clone(), self.cwd.clone());
        SshAction { host, argv: self.argv.fill(arguments)?, env, cwd, stdin: Vec::new() }.fits()
    }

    fn stdin(&self, arguments: &Arguments<'_>) -> Result<Vec<u8>, FillError> {
        let Some(text) = &self.stdin else { return Ok(Vec::new()) };
        for name in text.names() {
            arguments.required_text(name)?;
        }
        let filled = text.fill(arguments, "the text on stdin", STDIN_BYTES_MAX, |text, out| out.push_str(text))?;
        Ok(filled.unwrap_or_default().into_bytes())
    }
}

/// What `exec` and `env` would read as an option or a variable instead of a program.
fn program_problem(program: &str) -> Option<String> {
    let problem = if program.starts_with('-') {
        "expected a program, got an option"
    } else if program.contains('=') {
        "expected a program without =, which would be read as a variable"
    } else {
        return None;
    };
    Some(format!("argv[0]: {problem}: {}", quoted(program)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::template::sample;
    use serde_json::json;

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn written(argv: &[&str]) -> SshWritten {
        SshWritten {
            host: "web1".to_owned(),
            argv: argv.iter().map(|element| (*element).to_owned()).collect(),
            env: Vec::new(),
            cwd: None,
            stdin: None,
            dash: Dash::Refused,
        }
    }

    fn fill(written: &SshWritten, arguments: serde_json::Value) -> Result<SshAction, String> {
        SshTemplate::new(written).unwrap().fill(&Arguments::new(&arguments.into())).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_line(written: &SshWritten, arguments: serde_json::Value, want: &str) {
        assert_eq!(fill(written, arguments).unwrap().command_line(), want);
    }

    #[track_caller]
    fn check_refused(written: &SshWritten, parts: &[&str]) {
        let problems = SshTemplate::new(written).unwrap_err();
        assert_eq!(problems.len(), parts.len(), "{problems:?}");
        for (problem, part) in problems.iter().zip(parts) {
            assert!(problem.contains(part), "expected {part}: {problem}");
        }
    }

    #[test]
    fn command_lines() {
        let restart = written(&["sudo", "systemctl", "restart", "{unit}"]);
        check_line(&restart, json!({"unit": "app"}), "exec sudo systemctl restart app");
        check_line(&restart, json!({"unit": "a b; $(reboot)"}), "exec sudo systemctl restart 'a b; $(reboot)'");
        check_line(&restart, json!({}), "exec sudo systemctl restart");
        check_line(&restart, json!({"unit": ""}), "exec sudo systemctl restart ''");
        let full = SshWritten {
            env: owned(&[("A", "{x} it's"), ("B", "")]),
            cwd: Some("/srv/my app".to_owned()),
            ..written(&["./bin", "-n", "{n}"])
        };
        check_refused(&full, &["absolute path or a bare name"]);
        let full = SshWritten { argv: written(&["/opt/bin", "-n", "{n}"]).argv, ..full };
        check_line(&full, json!({"n": 5}), r"cd -- '/srv/my app' && exec env 'A={x} it'\''s' B= /opt/bin -n 5");
    }

    #[test]
    fn actions_hold_the_pieces_apart() {
        let template = SshWritten {
            env: owned(&[("A", "{n}")]),
            cwd: Some("/srv".to_owned()),
            stdin: Some("to {{file}}: {text}\n".to_owned()),
            ..written(&["tee", "--", "{file}"])
        };
        let action = fill(&template, json!({"file": "-a b", "text": "x\0{y}"})).unwrap();
        assert_eq!(action.argv, ["tee", "--", "-a b"]);
        assert_eq!((action.host.as_str(), action.cwd.as_deref()), ("web1", Some("/srv")));
        assert_eq!(action.env, owned(&[("A", "{n}")]));
        assert_eq!(action.stdin, b"to {file}: x\0{y}\n");
        let names = SshTemplate::new(&template).unwrap().names();
        assert_eq!(
            (names.used().collect::<Vec<_>>(), names.required().collect::<Vec<_>>()),
            (vec!["file", "text"], vec!["text"])
        );
        assert!(fill(&template, json!({"file": "a"})).unwrap_err().contains("argument \"text\": expected a value"));
        assert_eq!(fill(&written(&["true"]), json!({})).unwrap().stdin, b"");
    }

    #[test]
    fn refused_when_filled() {
        let tail = written(&["tail", "{x}"]);
        for (value, part) in [("-f", "does not begin with -"), ("a\0b", "NUL")] {
            let error = fill(&tail, json!({ "x": value })).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let allowed = SshWritten { dash: Dash::Allowed, ..tail };
        check_line(&allowed, json!({"x": "-f"}), "exec tail -f");
    }

    #[test]
    fn refused_when_parsed() {
        check_refused(&written(&[]), &["argv: expected a program"]);
        check_refused(&written(&["{x}"]), &["literal program"]);
        check_refused(&written(&["-c"]), &["got an option"]);
        check_refused(&written(&["A=b"]), &["without ="]);
        let wrong = SshWritten {
            env: owned(&[("1A", ""), ("A", "\0")]),
            cwd: Some("srv".to_owned()),
            stdin: Some("{".to_owned()),
            ..written(&["p", "{"])
        };
        check_refused(&wrong, &["argv[1]", "\"1A\"", "NUL", "cwd: expected an absolute path, got \"srv\"", "stdin: "]);
        for folder in ["-", "~", "", "/a\0"] {
            check_refused(&SshWritten { cwd: Some(folder.to_owned()), ..written(&["p"]) }, &["cwd"]);
        }
    }

    #[test]
    fn the_whole_command_line_is_bounded() {
        let echo = written(&["echo", "{x}"]);
        let room = COMMAND_LINE_BYTES_MAX - "exec echo ".len();
        let plain = |bytes| json!({"x": "a".repeat(bytes)});
        assert_eq!(fill(&echo, plain(room)).unwrap().command_line().len(), COMMAND_LINE_BYTES_MAX);
        assert!(fill(&echo, plain(room + 1)).unwrap_err().contains("30720 bytes in the command line"));
        // A quote costs 13 bytes once the line is quoted again, the text around it 8.
        let quotes = |count| json!({"x": "'".repeat(count)});
        assert!(fill(&echo, quotes((room - 8) / 13)).is_ok());
        assert!(fill(&echo, quotes((room - 8) / 13 + 1)).is_err());
        let literal = written(&["echo", &"a".repeat(room), "{x}"]);
        assert!(SshTemplate::new(&literal).is_ok());
        check_refused(&written(&["echo", &"a".repeat(room + 1)]), &["argv: "]);
        check_refused(&SshWritten { env: owned(&[("A", &"a".repeat(room))]), ..echo }, &["command line"]);
    }

    #[test]
    fn stdin_is_bounded() {
        let tee = SshWritten { stdin: Some("{x}!".to_owned()), ..written(&["cat"]) };
        let text = |bytes| json!({"x": "a".repeat(bytes)});
        assert_eq!(fill(&tee, text(STDIN_BYTES_MAX - 1)).unwrap().stdin.len(), STDIN_BYTES_MAX);
        assert!(fill(&tee, text(STDIN_BYTES_MAX)).unwrap_err().contains("1048576 bytes in the text on stdin"));
    }

    #[test]
    fn the_size_is_that_of_the_line_quoted_again() {
        for text in sample::texts() {
            let action = SshAction {
                host: String::new(),
                argv: vec!["p".to_owned(), text.clone()],
                env: vec![("A".to_owned(), text.clone())],
                cwd: Some(format!("/{text}")),
                stdin: Vec::new(),
            };
            let mut again = String::new();
            push_word(&action.command_line(), &mut again);
            assert_eq!(action.command_line_bytes(), again.len() - 2, "{text:?}");
        }
    }
}
