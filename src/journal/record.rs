//! The shape of a journal line. Members are a documented contract: no payload and no secret is among them, and of the arguments
//! only what the path of an HTTP target shows.

use serde::Serialize;

/// A record on its way to the journal; sequence and time are put on by the writer.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// The first line of a file: who writes it.
    Session {
        /// Of the binary.
        version: &'static str,
        /// Of the process.
        pid: u32,
    },
    /// An action is about to be carried out.
    Intent {
        /// Names the call in this file: pairs intent and outcome.
        call: u64,
        /// The tool that asked.
        tool: String,
        /// The rule that allowed it.
        rule: String,
        /// What it is aimed at.
        target: String,
        /// SHA-256 of the typed action's record, hex.
        action_sha256: String,
        /// The credential it carries, by name.
        credential: Option<String>,
    },
    /// What became of it.
    Outcome {
        /// The call of the intent.
        call: u64,
        /// The outcome code; `ok` for success.
        code: &'static str,
        /// `yes`, `no` or `unknown`.
        executed: &'static str,
        /// Bytes the source produced.
        bytes: u64,
        /// From admission.
        duration_ms: u64,
        /// How work that was told to end did end.
        ended: Option<&'static str>,
    },
}

/// One line of the journal.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    /// From 0, without gaps.
    pub seq: u64,
    /// RFC 3339, UTC.
    pub at: String,
    /// What is recorded.
    #[serde(flatten)]
    pub record: &'a Record,
}
