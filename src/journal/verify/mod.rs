//! `verify`: what was done to the journals of a state folder, or to one file, and in which line.
//!
//! Everything streams: memory grows with the number of files and of what is wrong, both bounded, never with their size. Files are
//! opened for reading only. A chain without a key proves nothing against whoever can rewrite a whole file and the heads file
//! with it; a copy of the heads file kept elsewhere (`--heads`, `--head`) does.

pub mod links;
pub mod calls;
pub mod questions;
pub mod file;
pub mod noted;
pub mod folder;

use crate::journal::chain::Hash;

/// Findings kept of one file; what goes beyond is counted.
pub const FINDINGS_MAX: usize = 1000;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $variant:ident = $text:literal $is_damage:literal,)*) => {
        /// What was found. The text form is stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$variant,)*];

            /// The stable text.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Kind::$variant => $text,)*
                }
            }

            /// Whether it cannot come about by a crash or a full disk.
            pub fn is_damage(self) -> bool {
                match self {
                    $(Kind::$variant => $is_damage,)*
                }
            }
        }
    };
}

kinds! {
    /// The line is no record.
    Malformed = "malformed" true,
    /// The line was changed after the next one was written.
    Edited = "edited" true,
    /// Records before this line are gone.
    Removed = "removed" true,
    /// The line does not belong here.
    Inserted = "inserted" true,
    /// The line stands here for the second time.
    Duplicated = "duplicated" true,
    /// The line stands in the wrong place.
    Reordered = "reordered" true,
    /// The file does not begin with a session record that begins a chain.
    FirstLine = "first_line" true,
    /// The file says it is another one.
    Foreign = "foreign" true,
    /// The file does not continue the one it says it continues.
    Chain = "chain" true,
    /// The file ends before the record that was noted.
    Truncated = "truncated" true,
    /// The record in this place is not the one that was noted.
    Rewritten = "rewritten" true,
    /// The file goes on behind the record that was noted as its last.
    Appended = "appended" true,
    /// A journal was begun and is gone.
    Missing = "missing" true,
    /// A journal is there whose beginning was not noted.
    NotNoted = "not_noted" true,
    /// An outcome has no intent.
    OutcomeAlone = "outcome_alone" true,
    /// A call has more than one intent.
    SecondIntent = "second_intent" true,
    /// A call has more than one outcome.
    SecondOutcome = "second_outcome" true,
    /// More intents are open than can be remembered.
    TooManyOpen = "too_many_open" true,
    /// An approver of ours said yes to a question that nobody asked.
    AnswerAlone = "answer_alone" true,
    /// A question has more than one answer.
    SecondAnswer = "second_answer" true,
    /// An intent names a question, and no yes to it that covers this intent.
    UnapprovedIntent = "unapproved_intent" true,
    /// A yes to one action approved more than one intent.
    SecondUse = "second_use" true,
    /// The last line has no end: it was cut while it was written.
    Torn = "torn" false,
    /// An intent has no outcome: whether it was executed is unknown.
    Unknown = "unknown" false,
    /// A question whose call waits has no answer.
    Unanswered = "unanswered" false,
    /// More questions or approvals stand than can be remembered.
    TooManyQuestions = "too_many_questions" false,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file it is found in.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// What.
    pub kind: Kind,
    /// The same in a clause.
    pub text: String,
}

/// Whether a journal is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its end is noted.
    Closed,
    /// A living process writes it.
    InUse,
    /// Its process was ended before it could note the end, or that is not known.
    NotClosed,
    /// It is no journal: the heads file, which every process goes on with.
    Heads,
}

impl State {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Closed => "closed",
            State::InUse => "in use",
            State::NotClosed => "not closed",
            State::Heads => "heads",
        }
    }
}

/// What is to be said of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its name.
    pub file: String,
    /// Lines that are records in their place.
    pub records: u64,
    /// Sequence and hash of the last of them: to be kept elsewhere.
    pub head: Option<(u64, Hash)>,
    /// Whether it is finished.
    pub state: State,
    /// What was found, in the order of lines.
    pub findings: Vec<Finding>,
    /// How many more findings there are.
    pub left_out: u64,
    /// Whether one of those is damage.
    pub is_left_out_damage: bool,
}

impl Report {
    /// Of a file about which nothing is known yet.
    pub fn new(file: &str, state: State) -> Report {
        let file = file.to_owned();
        Report { file, records: 0, head: None, state, findings: Vec::new(), left_out: 0, is_left_out_damage: false }
    }

    /// Adds a finding in this file.
    pub fn add(&mut self, kind: Kind, line: u64, text: String) {
        let file = self.file.clone();
        self.add_in(file, kind, line, text);
    }

    /// Adds a finding that lies in another file of the same chain.
    pub fn add_in(&mut self, file: String, kind: Kind, line: u64, text: String) {
        if self.findings.len() < FINDINGS_MAX {
            return self.findings.push(Finding { file, line, kind, text });
        }
        self.left_out += 1;
        self.is_left_out_damage |= kind.is_damage();
    }

    /// Whether anything was found that cannot come about by a crash or a full disk.
    pub fn is_damaged(&self) -> bool {
        self.is_left_out_damage || self.findings.iter().any(|finding| finding.kind.is_damage())
    }

    /// Puts the findings in the order of their places.
    pub fn sort(&mut self) {
        self.findings.sort_by(|a, b| (&a.file, a.line, a.kind).cmp(&(&b.file, b.line, b.kind)));
    }
}

/// A record that is known from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Its sequence.
    pub seq: u64,
    /// Its hash.
    pub hash: Hash,
    /// Who knows it: `FILE:LINE`, or the flag.
    pub source: String,
    /// Whether it is known to be the last one.
    pub is_last: bool,
}
