//! Records instead of acting: the same pipeline, up to the grant, and then one JSON line.
//!
//! Credentials appear by name only; nothing is resolved, opened, started or handed out.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::outcome::result::{Code, Executed, Failure, Outcome};
use crate::policy::grant::Grant;
use crate::wire::escape::to_line;

/// Where typed actions are recorded.
#[derive(Clone)]
pub struct Recorder {
    file: Option<Arc<Mutex<File>>>,
}

#[derive(Serialize)]
struct Recorded<'a> {
    tool: &'a str,
    rule: &'a str,
    target: &'a str,
    credential: Option<&'a str>,
    action: &'a RawValue,
}

#[derive(Serialize)]
struct Shown<'a> {
    dry_run: bool,
    would: Recorded<'a>,
}

impl Recorder {
    /// Records to `file`, one JSON object a line, or only in the replies.
    pub fn new(file: Option<File>) -> Self {
        Recorder { file: file.map(|file| Arc::new(Mutex::new(file))) }
    }

    /// Records one grant. The outcome says that nothing was executed.
    pub fn record(&self, grant: &Grant) -> Outcome {
        match self.write(grant) {
            Ok(outcome) => outcome,
            Err(error) => {
                let message = format!("the record of the dry run could not be written: {error}");
                Failure::new(Code::Internal, Executed::No, message).into()
            }
        }
    }

    fn write(&self, grant: &Grant) -> std::io::Result<Outcome> {
        let action = RawValue::from_string(grant.record())?;
        let terms = grant.terms();
        let would = Recorded {
            tool: &terms.tool,
            rule: &terms.rule,
            target: &terms.target,
            credential: terms.credential_name(),
            action: &action,
        };
        if let Some(file) = &self.file {
            let line = format!("{}\n", to_line(&would));
            file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())?;
        }
        let text = format!("dry run, nothing was executed; this would be done: {}", terms.target);
        let structured = to_line(&Shown { dry_run: true, would });
        Ok(Outcome { structured: Some(structured), ..Outcome::plain(text) })
    }
}
