//! The shape of a journal line. Members are a documented contract: no payload and no secret is among them, and of the arguments
//! only a digest, and what the path of an HTTP target shows.
//!
//! A line is one JSON object without spaces, in ASCII but for what targets hold, ended by a line feed. Members keep their
//! meaning once released; more may be added. Absent values are null. `tidegate journal --help` has the same list.

use serde::Serialize;

/// The version of the format: `format` of a session record.
pub const FORMAT: u32 = 1;

/// A record on its way to the journal; sequence, times and the link of the chain are put on by the writer.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// The first line of a file: who writes it.
    Session {
        /// `FORMAT`.
        format: u32,
        /// Of the binary.
        version: &'static str,
        /// Of the process.
        pid: u32,
        /// The name of the file it stands in.
        file: String,
        /// The file of the same process that this one continues, whose last line `prev` names.
        previous: Option<String>,
        /// Calls whose intent stands in an earlier file, and whose outcome is still to come.
        open: Vec<u64>,
    },
    /// A human is asked whether an action may be carried out.
    Question {
        /// Names the call in this process.
        call: u64,
        /// Names the question: pairs it with its answer, which may come to another process, and with the intent.
        question: String,
        /// Who is asked: `client`, `operator` or `command`.
        asked: &'static str,
        /// The tool.
        tool: String,
        /// The rule that allowed it and asks.
        rule: String,
        /// What it is aimed at.
        target: String,
        /// SHA-256 of the typed action's record, hex.
        action_sha256: String,
        /// The protocol revision of the request: a client without a handshake may leave its question unanswered.
        era: &'static str,
    },
    /// What came of a question.
    Answer {
        /// The call that the answer came for or with.
        call: u64,
        /// The question.
        question: String,
        /// Who was asked.
        asked: &'static str,
        /// `yes`, `yes_for_session`, `no`, `timed_out`, `unusable` or `withdrawn`.
        answer: &'static str,
        /// The user id of the operator who answered.
        user: Option<u32>,
    },
    /// An action is about to be carried out.
    Intent {
        /// Names the call in this process: pairs intent and outcome.
        call: u64,
        /// The tool that asked.
        tool: String,
        /// The rule that allowed it.
        rule: String,
        /// What it is aimed at.
        target: String,
        /// SHA-256 of the arguments as they were received, hex.
        args_sha256: String,
        /// SHA-256 of the typed action's record, hex.
        action_sha256: String,
        /// The credential it carries, by name.
        credential: Option<String>,
        /// The protocol revision of the request.
        era: &'static str,
        /// The request's W3C `traceparent`, if it had a valid one.
        trace: Option<String>,
        /// The question whose answer approved it, where the rule asks.
        question: Option<String>,
    },
    /// What became of it.
    Outcome {
        /// The call of the intent.
        call: u64,
        /// The outcome code; `ok` for success.
        code: &'static str,
        /// `yes`, `no` or `unknown`.
        executed: &'static str,
        /// The exit status of a command that ended by itself, or the status of an HTTP response.
        status: Option<i32>,
        /// Bytes the source produced.
        bytes: u64,
        /// From admission.
        duration_ms: u64,
        /// How work that was told to end did end: `dead` or `detached`.
        ended: Option<&'static str>,
    },
}

/// One line of the journal.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    /// From 0, without gaps, on through all files of a process.
    pub seq: u64,
    /// RFC 3339, UTC.
    pub at: String,
    /// Milliseconds since the gateway started, by a clock that is never set.
    pub mono_ms: u64,
    /// SHA-256 of the line before, without its line feed; zeros in the first line of a process.
    pub prev: String,
    /// What is recorded.
    #[serde(flatten)]
    pub record: &'a Record,
}
