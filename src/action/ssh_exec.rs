//! The typed command of `ssh_exec`, the tool whose host and argv the caller writes.
//!
//! An argv is a list from beginning to end: no text is ever split, and none is quoted before the executor asks for the
//! command line. Which host and which shapes of an argv may run is decided in `policy`.

use crate::action::ArgumentError;
use crate::action::json::Json;
use crate::action::ssh::SshAction;

/// The tool's name, and its key under `builtin`.
pub const NAME: &str = "ssh_exec";

/// What it takes: the tool's input schema.
pub const INPUT: &str = r#"{"type":"object","properties":{"host":{"type":"string","maxLength":64,"description":"Name of a configured host"},"argv":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":256,"description":"Program and arguments, one element each; no shell reads them"}},"required":["host","argv"],"additionalProperties":false}"#;

impl SshAction {
    /// From arguments that have passed `INPUT`.
    pub(crate) fn from_arguments(arguments: &Json<'_>) -> Result<SshAction, ArgumentError> {
        let argv = arguments.get("argv").and_then(Json::as_array).into_iter().flatten();
        let argv: Vec<String> = argv.filter_map(Json::as_str).map(str::to_owned).collect();
        let nul = argv.iter().position(|element| element.contains('\0'));
        if let Some(index) = nul {
            let problems = vec![format!("arguments.argv[{index}]: expected text without NUL for a command, got one")];
            return Err(ArgumentError { problems });
        }
        let host = arguments.get("host").and_then(Json::as_str).unwrap_or_default().to_owned();
        let action = SshAction { host, argv, env: Vec::new(), cwd: None, stdin: Vec::new() };
        action.fits().map_err(|error| ArgumentError { problems: vec![error.to_string()] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::schema::Schema;
    use crate::action::ssh::COMMAND_LINE_BYTES_MAX;
    use crate::action::template::sample;
    use serde_json::{Value, json};

    fn read(arguments: &Value) -> Result<SshAction, String> {
        let schema = Schema::compile(&serde_json::from_str(INPUT).unwrap()).unwrap();
        let arguments = Json::from(arguments.clone());
        match schema.validate(&arguments) {
            Ok(()) => SshAction::from_arguments(&arguments).map_err(|error| error.problems.join("; ")),
            Err(_) => Err("schema".to_owned()),
        }
    }

    #[track_caller]
    fn check_refused(arguments: Value, part: &str) {
        let problems = read(&arguments).expect_err("it is refused");
        assert!(problems.contains(part), "{arguments}: {problems}");
    }

    #[test]
    fn any_text_is_one_element_or_refused() {
        for text in sample::texts() {
            match read(&json!({"host": "web1", "argv": ["p", text, "z"]})) {
                Ok(action) => assert_eq!(action.argv, ["p", &text, "z"]),
                Err(_) => assert!(text.contains('\0'), "{text:?}"),
            }
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for arguments in [
            json!({}),
            json!({"host": "web1"}),
            json!({"host": "web1", "argv": []}),
            json!({"host": "web1", "argv": "uptime; touch x"}),
            json!({"host": "web1", "argv": [["uptime"]]}),
            json!({"host": "web1", "argv": ["uptime", 1]}),
            json!({"host": "web1", "argv": ["uptime"], "stdin": "x"}),
            json!({"host": "web1", "argv": ["uptime"], "env": {}}),
            json!({"host": ["web1"], "argv": ["uptime"]}),
        ] {
            check_refused(arguments, "schema");
        }
        check_refused(json!({"host": "web1", "argv": ["p", "a", "a\0b"]}), "arguments.argv[2]: expected text without NUL");
        check_refused(json!({"host": "web1", "argv": ["p", "a".repeat(COMMAND_LINE_BYTES_MAX)]}), "30720");
    }
}
