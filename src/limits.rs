//! Every limit of the gateway: a named constant with its reason, and `Limits`, the set as configured.
//!
//! Limits private to one algorithm (the JSON Schema step budget, for example) stand at the top of that algorithm's file.
//! Nothing here reads a file or a clock.

use std::time::Duration;

/// One line in, without its line feed. The largest real call seen is under 1 MiB; four times that is room, not a promise.
pub const LINE_IN_BYTES: usize = 4 << 20;
/// One line out, without its line feed: what the narrowest real reader is known to take.
pub const LINE_OUT_BYTES: usize = 1 << 20;
/// Bytes asked of stdin in one read, the size of a full Linux pipe; also the most a `Lines` buffer holds beyond its limit.
pub const READ_BYTES: usize = 64 << 10;
/// What an envelope needs beside its payload: id (64 KiB), outcome, notes, member names.
pub const ENVELOPE_BYTES: usize = 96 << 10;
/// What a reply takes beside its payload and its id: member names, outcome, server's name, a note on the journal.
pub const REPLY_FRAME_BYTES: usize = 8 << 10;
/// Serialised payload of one result, text block and structured copy together.
pub const CONTENT_BYTES: usize = 32 << 10;
/// The largest `content_bytes` that still makes a legal line.
pub const CONTENT_BYTES_MAX: usize = LINE_OUT_BYTES - ENVELOPE_BYTES;
/// The smallest `content_bytes` in which head, tail, notes and cursors still make sense.
pub const CONTENT_BYTES_MIN: usize = 4 << 10;
/// Calls admitted and not yet answered.
pub const CALLS: usize = 64;
/// Worker threads; each holds one call.
pub const WORKERS: usize = 16;
/// Request lines of admitted calls, in all.
pub const ADMITTED_BYTES: usize = 16 << 20;
/// Replies reserved for admitted calls, in all.
pub const RESERVED_BYTES: usize = 16 << 20;
/// Two notifications of a call's progress are at least so far apart: ten a second are more than anybody reads.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// A call that produces nothing new is told of this often, for clients that wait longer while they hear something.
pub const PROGRESS_HEARTBEAT: Duration = Duration::from_millis(1000);
/// What a progress notification needs beside its token: member names, three numbers of 64 bits, a duration.
pub const PROGRESS_ENVELOPE_BYTES: usize = 256;
/// Replies made by the reader itself that wait for a slow stdout; above it the id of a request waits for a `busy` instead.
pub const READER_REPLY_BYTES: usize = 1 << 20;
/// Ids that wait so, as written; above it stdin is left unread. The last one may stand out by its own length.
pub const WAITING_ID_BYTES: usize = 64 << 10;
/// What such an id counts beside its text: its place in the list.
pub const WAITING_ID_OVERHEAD: usize = 64;
/// Frames handed to one `writev`.
pub const WRITE_FRAMES: usize = 64;
/// One write to a descriptor that cannot be made non-blocking: POSIX PIPE_BUF on Linux, which poll(2) promises to take.
pub const BLOCKING_WRITE_BYTES: usize = 4096;
/// Without one byte leaving for this long, while something waits, the session ends.
pub const STALL: Duration = Duration::from_secs(30);
/// What admitted calls get to finish after end of file on stdin.
pub const GRACE: Duration = Duration::from_millis(1000);
/// From the beginning of the end to exit.
pub const END: Duration = Duration::from_millis(2000);
/// From TERM to KILL.
pub const TERM_TO_KILL: Duration = Duration::from_millis(500);
/// From KILL until work that will not die is called detached.
pub const KILL_TO_DETACHED: Duration = Duration::from_secs(2);
/// How long output of a command is still read after its direct child ended.
pub const DRAIN: Duration = Duration::from_millis(200);
/// A call, from admission to its outcome; below the 60 s after which common hosts give up.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(50);
/// The longest configurable call.
pub const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(3600);
/// One read from a child's pipe or a socket, and the stretch after which loops over data look at the cancel flag.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Name lookups under way; one abandoned keeps its thread until the C library returns.
pub const LOOKUPS: usize = 4;
/// An id or progress token as written: both are echoed, and a line out has to stay within its own limit.
pub const ID_BYTES: usize = 64 << 10;
/// Objects and arrays inside each other, the outermost one counted; far below the JSON library's own 128.
pub const NESTING_LEVELS: usize = 64;
/// How long a worker is not woken for the sake of an answer: a write, a read and the threads that do them.
pub const ANSWER_IS_READ: Duration = Duration::from_micros(300);
/// Values in the arguments of one call, names of members counted: above what anybody writes, far below what fits a line.
pub const ARGUMENT_VALUES: usize = 250_000;
/// Questions to humans that wait at once; more would be a queue in front of one pair of eyes.
pub const QUESTIONS: usize = 8;
/// Bytes of an action as it is shown for approval: what nobody reads whole, nobody can approve.
pub const QUESTION_BYTES: usize = 16 << 10;
/// Bytes of a reply that carries a question: what is shown, its quotes escaped once more, and its form.
pub const QUESTION_REPLY_BYTES: usize = 2 * QUESTION_BYTES + (4 << 10);
/// Tools with targets that stay approved until the process ends; the next one is asked for each time.
pub const STANDING_APPROVALS: usize = 256;
/// How long a question to a person stands: below the 60 s after which common hosts give up the call that waits for it.
pub const APPROVAL_TIMEOUT: Duration = Duration::from_secs(50);
/// The shortest configurable such time: nobody reads what is asked in less.
pub const APPROVAL_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// The longest configurable such time, as of a call: whoever has not answered within an hour is not there. A sealed question that
/// claims more is refused.
pub const APPROVAL_TIMEOUT_MAX: Duration = Duration::from_secs(3600);
/// One request at the operator's socket, without its line feed; the longest of ours is below a hundred bytes.
pub const APPROVAL_REQUEST_BYTES: usize = 4 << 10;
/// One answer there: as much as all admitted calls hold; questions that do not fit are counted.
pub const APPROVAL_ANSWER_BYTES: usize = ADMITTED_BYTES;
/// Connections to it that are served at once.
pub const APPROVAL_PEERS: usize = 4;
/// Connections that wait to be.
pub const APPROVAL_PEERS_WAITING: i32 = 64;
/// What a connection gets to say its line, and then to take the answer.
pub const APPROVAL_PEER_WAIT: Duration = Duration::from_secs(2);
/// After this the oldest connection gives way to one that waits: those who say nothing keep nobody.
pub const APPROVAL_PEER_TURN: Duration = Duration::from_millis(100);
/// How long `tidegate approvals` waits for each gateway; above what a gateway gives a peer.
pub const APPROVAL_GATEWAY_WAIT: Duration = Duration::from_secs(3);
/// The highest configurable rate of a tool, in calls a minute: a hundred a second, beyond which no rate says anything.
pub const RATE_PER_MINUTE_MAX: u32 = 6000;
/// The most calls a tool's rate can save up.
pub const RATE_BURST_MAX: u32 = 1000;
/// Allow rules of a tool of ours that its description lists; a model reads it before every call.
pub const RULES_SHOWN: usize = 20;
/// Characters of one of them.
pub const RULE_CHARS_SHOWN: usize = 200;
/// Open `subscriptions/listen` requests; each may be owed one line.
pub const SUBSCRIPTIONS: usize = 16;
/// One operator line on stderr.
pub const OPERATOR_LINE_BYTES: usize = 4 << 10;
/// Errors without an id sent in a row before further ones are only counted, and how fast the allowance comes back.
pub const UNADDRESSED_ERRORS: u32 = 10;
/// One allowance for an error without an id comes back after this.
pub const UNADDRESSED_ERROR_EVERY: Duration = Duration::from_secs(1);
/// A journal file that has reached this is continued in another: an hour or more of steady calls, and still quick to read.
pub const JOURNAL_FILE_BYTES: u64 = 64 << 20;
/// The smallest configurable such size: one full batch of records has room in it.
pub const JOURNAL_FILE_BYTES_MIN: u64 = 64 << 10;
/// The largest configurable such size.
pub const JOURNAL_FILE_BYTES_MAX: u64 = 1 << 30;
/// One line of a journal; far above the longest that is written, so that whoever reads them is bounded.
pub const JOURNAL_LINE_BYTES: usize = 64 << 10;
/// What an action is aimed at, as recorded; program names and paths are configured and rarely beyond 100 bytes.
pub const JOURNAL_TARGET_BYTES: usize = 4 << 10;
/// How long the journal of a process that has ended is kept.
pub const JOURNAL_KEEP: Duration = Duration::from_secs(30 * 24 * 3600);
/// The most days that can be configured for that: a hundred years.
pub const JOURNAL_KEEP_DAYS_MAX: u64 = 36_500;
/// How long the journal's thread waits for another process that holds the heads file; it holds it for one write and sync.
pub const JOURNAL_HEADS_WAIT: Duration = Duration::from_secs(2);
/// What the journal's thread gets at the end to write what waits; within `END` it is joined or let go.
pub const JOURNAL_CLOSE: Duration = Duration::from_secs(1);
/// Records of what was refused, in a row, before further refusals are only counted: about one file of them.
pub const REFUSAL_RECORDS: u32 = 4096;
/// One more such record may be made after this.
pub const REFUSAL_RECORD_EVERY: Duration = Duration::from_millis(100);
/// A file of such records; a process keeps two.
pub const REFUSAL_FILE_BYTES: u64 = 1 << 20;
/// Such records that wait for the journal's thread; the reader never does.
pub const REFUSALS_WAITING: usize = 1024;
/// Operator lines about refused lines in a session that goes on, in a row, and how fast the allowance comes back.
pub const REFUSAL_LINES: u32 = 3;
/// One more such line may be written after this.
pub const REFUSAL_LINE_EVERY: Duration = Duration::from_secs(60);
/// The shortest secret: a shorter value would be found where it is not meant, and could be guessed from what was redacted.
pub const SECRET_BYTES_MIN: usize = 8;
/// The longest secret: room for any key file, and the bound of what a stream holds back.
pub const SECRET_BYTES_MAX: usize = 64 << 10;
/// A credential helper, unless its source says otherwise: enough for a network round trip, not for a forgotten prompt.
pub const HELPER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the value of a credential helper is used, unless its source says otherwise: well below the life of common tokens.
pub const HELPER_CACHE: Duration = Duration::from_secs(300);
/// The longest such time: a process that lives for weeks should ask again some day.
pub const HELPER_CACHE_MAX: Duration = Duration::from_secs(24 * 3600);
/// A configuration file.
pub const CONFIG_BYTES: u64 = 4 << 20;
/// A response body up to this size is parsed as JSON from memory; above it, from its stored result.
pub const JSON_BODY_BYTES: usize = 1 << 20;
/// One stored result; what a source produces beyond it is counted and thrown away.
pub const ARTIFACT_BYTES: u64 = 16 << 20;
/// All stored results of a state folder; the oldest go first.
pub const ARTIFACTS_BYTES: u64 = 256 << 20;
/// A stored result that was not read for this long is gone.
pub const ARTIFACT_LIFE: Duration = Duration::from_secs(15 * 60);
/// Response headers of an HTTP target, all together (ureq's own default, stated so that it cannot drift).
pub const HTTP_HEADER_BYTES: usize = 64 << 10;

/// The limits of one gateway, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one line in.
    pub line_in_bytes: usize,
    /// Serialised bytes of one result, unless its tool says otherwise.
    pub content_bytes: usize,
    /// Calls admitted at once.
    pub calls: usize,
    /// Worker threads.
    pub workers: usize,
    /// From admission to outcome, unless the tool says otherwise.
    pub call_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            line_in_bytes: LINE_IN_BYTES,
            content_bytes: CONTENT_BYTES,
            calls: CALLS,
            workers: WORKERS,
            call_timeout: CALL_TIMEOUT,
        }
    }
}
