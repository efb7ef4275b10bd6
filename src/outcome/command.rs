//! What a finished command becomes: a plain rendering and a structured one, together within the content limit.
//!
//! stderr is guaranteed a quarter of the payload and stdout the rest; what one stream does not use goes to the other. Whether
//! both renderings fit is measured, never estimated. Nothing is cut without both of them saying so.

use serde::Serialize;

use crate::action::read::Cursor;
use crate::outcome::artifact::Stored;
use crate::outcome::budget::{Capture, Kept, LINK_BYTES};
use crate::outcome::result::{Code, Ended, Executed, Failure, Outcome, headline};
use crate::process::Status;
use crate::sys;
use crate::wire::escape::{escaped_len, to_line};

/// What would narrow a result that was cut.
const ASK_FOR_LESS: &str = "to need less, use arguments of this tool that filter or limit its output";

/// How a command came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// By itself, or by a signal that was not ours.
    Itself(Exit),
    /// We ended it; the status that this gave it is not reported as its own.
    Stopped(Failure),
    /// The same, because its output had outgrown the content limit and its tool wants no more then (`stop_at_limit`): no
    /// failure. To be said of a command of which a sink did not keep everything.
    AtLimit {
        /// Whether it was seen to end.
        ended: Ended,
        /// A clause that says how it ended.
        how: &'static str,
    },
}

/// What a command that ended by itself left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// Its exit status.
    Status(i32),
    /// The name of the signal that ended it, without `SIG`; as the server wrote it for a remote one.
    Signal(String),
}

impl From<Status> for Exit {
    fn from(status: Status) -> Self {
        match status {
            Status::Exited(status) => Exit::Status(status),
            Status::Signalled(number) => Exit::Signal(sys::signal_name(number)),
        }
    }
}

/// A finished command and what is left of its output.
pub struct CommandOutput {
    /// How it ended.
    pub finish: Finish,
    /// What a sink that kept `kept_bytes` has of its stdout, and the bytes it produced.
    pub stdout: (Kept, u64),
    /// The same of its stderr.
    pub stderr: (Kept, u64),
    /// Sentences of ours on what the reader should know; with a failure's message at most 400 bytes in all.
    pub notes: Vec<String>,
    /// Serialised bytes of both renderings together, at least `CONTENT_BYTES_MIN`.
    pub content_bytes: usize,
}

/// What each of the two sinks must keep so that any split of the budget can be filled.
pub fn kept_bytes(content_bytes: usize) -> usize {
    content_bytes / 2
}

/// `{exit, signal?, stdout, stderr, truncated, nextCursor?, notes?}` (section 8 of the design).
#[derive(Serialize)]
struct Structured<'a> {
    exit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    stdout: Stream,
    stderr: Stream,
    truncated: bool,
    #[serde(rename = "nextCursor", skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<&'a str>,
}

#[derive(Serialize)]
struct Stream {
    text: String,
    bytes: u64,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_utf8: Option<u64>,
    #[serde(rename = "nextCursor", skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_stored: Option<u64>,
}

/// Both renderings.
struct Rendered {
    text: String,
    structured: String,
    cut: [bool; 2],
    links: usize,
}

/// What became of the part of a stream that is not shown; `None` while nothing had to be left out.
type Rest = Option<Result<Stored, String>>;

/// A command's output on its way into the content limit.
struct Fitting {
    output: CommandOutput,
    /// Of stdout and of stderr.
    rests: [Rest; 2],
}

/// One stream as shown.
struct Part<'a> {
    name: &'static str,
    capture: Capture,
    rest: &'a Rest,
}

impl Outcome {
    /// The outcome of a command that was started: a success for exit status 0, otherwise `target_error`, or the code of
    /// what made us end it, with the full bounded content.
    pub fn command(output: CommandOutput) -> Self {
        let mut fitting = Fitting { output, rests: [None, None] };
        let Rendered { text, structured, cut, .. } = fitting.fit();
        let Fitting { output, rests } = fitting;
        let stored = rests.into_iter().zip(cut).filter(|(_, is_cut)| *is_cut).filter_map(|(rest, _)| rest?.ok()).collect();
        let (code, executed, ended) = match &output.finish {
            Finish::Itself(Exit::Status(0)) => (None, Executed::Yes, None),
            Finish::Itself(_) => (Some(Code::TargetError), Executed::Yes, None),
            Finish::Stopped(failure) => (Some(failure.code), failure.executed, failure.ended),
            Finish::AtLimit { ended, .. } => (None, Executed::Yes, Some(*ended)),
        };
        let status = match &output.finish {
            Finish::Itself(Exit::Status(status)) => Some(*status),
            Finish::Itself(Exit::Signal(_)) | Finish::Stopped(_) | Finish::AtLimit { .. } => None,
        };
        let bytes = output.stdout.1 + output.stderr.1;
        let truncated = cut.contains(&true);
        let structured = Some(structured);
        Outcome { code, executed, structured, truncated, bytes, stored, ended, status, ..Outcome::plain(text) }
    }
}

impl Fitting {
    /// Renders as much as the content limit takes, and stores what has to be left out.
    fn fit(&mut self) -> Rendered {
        loop {
            let rendered = self.fitted();
            let mut is_new = false;
            let streams = [&mut self.output.stdout, &mut self.output.stderr];
            for ((is_cut, rest), (kept, _)) in rendered.cut.into_iter().zip(&mut self.rests).zip(streams) {
                if is_cut && rest.is_none() {
                    *rest = Some(kept.store());
                    is_new = true;
                }
            }
            // A cursor takes room itself, which may cut the other stream too: at most three rounds.
            if !is_new {
                return rendered;
            }
        }
    }

    /// Renders as much as the content limit takes.
    fn fitted(&self) -> Rendered {
        let content_bytes = self.output.content_bytes;
        let whole = self.output.stdout.0.cost().saturating_add(self.output.stderr.0.cost());
        if whole <= content_bytes / 2 {
            let rendered = self.rendered(whole);
            if rendered.bytes() <= content_bytes {
                return rendered;
            }
        }
        let frame = self.rendered(0).bytes();
        let mut payload = content_bytes.saturating_sub(frame) / 2;
        loop {
            let rendered = self.rendered(payload);
            let over = rendered.bytes().saturating_sub(content_bytes);
            if over == 0 || payload == 0 {
                return rendered;
            }
            // Counts that only a cut with content has, such as bytes that are no text, were not in the frame.
            payload = payload.saturating_sub(over.div_ceil(2));
        }
    }

    /// Renders with `payload` serialised bytes of output in each of the two renderings.
    fn rendered(&self, payload: usize) -> Rendered {
        let ((stdout, stdout_bytes), (stderr, stderr_bytes)) = (&self.output.stdout, &self.output.stderr);
        let (stdout_budget, stderr_budget) = split(payload, stdout.cost(), stderr.cost());
        let [stdout_rest, stderr_rest] = &self.rests;
        let parts = [
            Part { name: "stdout", capture: stdout.capture(*stdout_bytes, stdout_budget), rest: stdout_rest },
            Part { name: "stderr", capture: stderr.capture(*stderr_bytes, stderr_budget), rest: stderr_rest },
        ];
        Rendered {
            text: self.output.text(&parts),
            cut: [parts[0].capture.is_cut(), parts[1].capture.is_cut()],
            links: parts.iter().filter(|part| part.cursor().is_some()).count(),
            structured: self.output.structured(&parts),
        }
    }
}

impl Part<'_> {
    fn stored(&self) -> Option<&Stored> {
        self.rest.as_ref().filter(|_| self.capture.is_cut()).and_then(|rest| rest.as_ref().ok())
    }

    /// Where reading goes on: where the beginning that is shown ended.
    fn cursor(&self) -> Option<Cursor> {
        self.stored().map(|stored| stored.cursor(self.capture.head_bytes))
    }

    /// What a reader of the stream must know beside its text.
    fn describe(&self, lines: &mut Vec<String>) {
        let (name, capture) = (self.name, &self.capture);
        if capture.is_cut() {
            let (left_out, bytes) = (capture.left_out, capture.bytes);
            lines.push(format!("{name}: {left_out} of {bytes} bytes left out; its beginning and its end are shown"));
            match self.rest {
                Some(Ok(stored)) => {
                    let gone = stored.gone_note().map(|note| format!("; {note}")).unwrap_or_default();
                    let cursor = stored.cursor(capture.head_bytes);
                    lines.push(format!("{name}: read_result goes on after its beginning with cursor {cursor}{gone}"));
                }
                Some(Err(why)) => lines.push(format!("{name}: what was left out could not be stored: {why}")),
                None => {}
            }
        }
        if capture.not_utf8 > 0 {
            lines.push(format!("{name}: {} bytes shown are no UTF-8; each stands as U+FFFD", capture.not_utf8));
        }
    }
}

impl CommandOutput {
    /// stdout, a `[stderr]` line with what follows it, then what a reader must know as `[tidegate: ...]` lines.
    fn text(&self, parts: &[Part<'_>; 2]) -> String {
        let [stdout, stderr] = parts.each_ref().map(|part| &part.capture);
        let mut text = String::new();
        if let Some(line) = self.headline() {
            push_line(&mut text, &line);
        }
        push_line(&mut text, &stdout.text());
        if stderr.bytes > 0 {
            push_line(&mut text, "[stderr]");
            push_line(&mut text, &stderr.text());
        }
        let mut lines = Vec::new();
        parts.iter().for_each(|part| part.describe(&mut lines));
        lines.extend(self.told_to_end());
        lines.extend(self.notes.iter().cloned());
        if stdout.is_cut() || stderr.is_cut() {
            lines.push(ASK_FOR_LESS.to_owned());
        }
        if text.is_empty() && lines.is_empty() {
            lines.push("the command exited with status 0 and printed nothing".to_owned());
        }
        for line in lines {
            push_line(&mut text, &format!("[tidegate: {line}]"));
        }
        text
    }

    fn headline(&self) -> Option<String> {
        let (code, executed, message) = match &self.finish {
            Finish::Itself(Exit::Status(0)) | Finish::AtLimit { .. } => return None,
            Finish::Itself(Exit::Status(status)) => {
                (Code::TargetError, Executed::Yes, format!("the command exited with status {status}"))
            }
            Finish::Itself(Exit::Signal(name)) => {
                (Code::TargetError, Executed::Yes, format!("the command was ended by signal {name}"))
            }
            Finish::Stopped(failure) => (failure.code, failure.executed, failure.message.clone()),
        };
        Some(headline(code, executed, &message))
    }

    /// For a command that is no failure although it was told to end.
    fn told_to_end(&self) -> Option<String> {
        match &self.finish {
            Finish::AtLimit { how, .. } => {
                Some(format!("tidegate told the command to end at its content limit (stop_at_limit); {how}"))
            }
            Finish::Itself(_) | Finish::Stopped(_) => None,
        }
    }

    fn structured(&self, parts: &[Part<'_>; 2]) -> String {
        let [stdout, stderr] = parts.each_ref().map(|part| &part.capture);
        let told_to_end = self.told_to_end();
        let (exit, signal, why) = match &self.finish {
            Finish::Itself(Exit::Status(status)) => (Some(*status), None, None),
            Finish::Itself(Exit::Signal(name)) => (None, Some(name.clone()), None),
            Finish::Stopped(failure) => (None, None, Some(failure.message.as_str())),
            Finish::AtLimit { .. } => (None, None, told_to_end.as_deref()),
        };
        let truncated = stdout.is_cut() || stderr.is_cut();
        let ours = self.notes.iter().map(String::as_str);
        let notes = why.into_iter().chain(ours).chain(truncated.then_some(ASK_FOR_LESS)).collect();
        let next_cursor = parts.iter().find_map(Part::cursor).map(|cursor| cursor.to_string());
        let [stdout, stderr] = parts.each_ref().map(Stream::new);
        to_line(&Structured { exit, signal, stdout, stderr, truncated, next_cursor, notes })
    }
}

impl Stream {
    fn new(part: &Part<'_>) -> Self {
        let capture = &part.capture;
        Stream {
            text: capture.text(),
            bytes: capture.bytes,
            truncated: capture.is_cut(),
            left_out: capture.is_cut().then_some(capture.left_out),
            not_utf8: (capture.not_utf8 > 0).then_some(capture.not_utf8),
            next_cursor: part.cursor().map(|cursor| cursor.to_string()),
            not_stored: part.stored().map(|stored| stored.header.gone).filter(|gone| *gone > 0),
        }
    }
}

impl Rendered {
    fn bytes(&self) -> usize {
        escaped_len(&self.text) + self.structured.len() + self.links * LINK_BYTES
    }
}

/// The shares of stdout and stderr in a payload.
fn split(payload: usize, stdout: usize, stderr: usize) -> (usize, usize) {
    let guaranteed = payload / 4;
    let stderr = if stdout <= payload - guaranteed { payload - stdout } else { stderr.min(guaranteed) };
    (payload - stderr, stderr)
}

/// Appends on a line of its own, as it is.
fn push_line(text: &mut String, line: &str) {
    if !(text.is_empty() || text.ends_with('\n') || line.is_empty()) {
        text.push('\n');
    }
    text.push_str(line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{CONTENT_BYTES_MAX, CONTENT_BYTES_MIN};
    use crate::outcome::testing::sinks;

    fn kept(input: &[u8], content_bytes: usize) -> (Kept, u64) {
        let mut sink = sinks().sink("stdout", kept_bytes(content_bytes));
        input.chunks(64 << 10).for_each(|chunk| sink.write(chunk));
        sink.finish()
    }

    fn output(finish: Finish, stdout: &[u8], stderr: &[u8], content_bytes: usize) -> CommandOutput {
        let (stdout, stderr) = (kept(stdout, content_bytes), kept(stderr, content_bytes));
        CommandOutput { finish, stdout, stderr, notes: Vec::new(), content_bytes }
    }

    fn stopped() -> Finish {
        let message = "m".repeat(250);
        Finish::Stopped(Failure { ended: Some(Ended::Dead), ..Failure::new(Code::TimedOut, Executed::Yes, message) })
    }

    fn at_limit() -> Finish {
        Finish::AtLimit { ended: Ended::Dead, how: "it was ended" }
    }

    #[track_caller]
    fn check(finish: Finish, stdout: &str, stderr: &str, text: &str, structured: &str) {
        let outcome = Outcome::command(output(finish, stdout.as_bytes(), stderr.as_bytes(), 4096));
        assert_eq!(outcome.text, text);
        assert_eq!(outcome.structured.as_deref(), Some(structured));
        assert_eq!(outcome.bytes, (stdout.len() + stderr.len()) as u64);
        assert!(!outcome.truncated);
    }

    #[test]
    fn what_fits_is_shown_as_it_is() {
        check(
            Finish::Itself(Exit::Status(0)),
            "a\nb\n",
            "",
            "a\nb\n",
            r#"{"exit":0,"stdout":{"text":"a\nb\n","bytes":4,"truncated":false},"stderr":{"text":"","bytes":0,"truncated":false},"truncated":false}"#,
        );
        check(
            Finish::Itself(Exit::Status(0)),
            "",
            "",
            "[tidegate: the command exited with status 0 and printed nothing]",
            r#"{"exit":0,"stdout":{"text":"","bytes":0,"truncated":false},"stderr":{"text":"","bytes":0,"truncated":false},"truncated":false}"#,
        );
        check(
            Finish::Itself(Exit::Status(3)),
            "a",
            "no\n",
            "tidegate: target_error (executed: yes): the command exited with status 3\na\n[stderr]\nno\n",
            r#"{"exit":3,"stdout":{"text":"a","bytes":1,"truncated":false},"stderr":{"text":"no\n","bytes":3,"truncated":false},"truncated":false}"#,
        );
        check(
            Finish::Itself(Exit::Signal("KILL".to_owned())),
            "",
            "",
            "tidegate: target_error (executed: yes): the command was ended by signal KILL",
            r#"{"exit":null,"signal":"KILL","stdout":{"text":"","bytes":0,"truncated":false},"stderr":{"text":"","bytes":0,"truncated":false},"truncated":false}"#,
        );
        check(
            Finish::Stopped(Failure::new(Code::TimedOut, Executed::Yes, "too long")),
            "a\n",
            "",
            "tidegate: timed_out (executed: yes): too long\na\n",
            r#"{"exit":null,"stdout":{"text":"a\n","bytes":2,"truncated":false},"stderr":{"text":"","bytes":0,"truncated":false},"truncated":false,"notes":["too long"]}"#,
        );
    }

    #[test]
    fn notes_and_undecodable_bytes_are_told_in_both_renderings() {
        let mut odd = output(Finish::Itself(Exit::Status(0)), b"a\xff", b"", 4096);
        odd.notes.push("still open".to_owned());
        let outcome = Outcome::command(odd);
        assert_eq!(
            outcome.text,
            "a\u{fffd}\n[tidegate: stdout: 1 bytes shown are no UTF-8; each stands as U+FFFD]\n[tidegate: still open]"
        );
        let structured = outcome.structured.unwrap();
        assert!(structured.contains(r#""not_utf8":1"#) && structured.ends_with(r#""notes":["still open"]}"#), "{structured}");
    }

    #[test]
    fn a_cut_is_told_with_counts_and_both_ends_r073() {
        let stdout: String = (0..10_000).map(|line| format!("{line}\n")).collect();
        let outcome = Outcome::command(output(Finish::Itself(Exit::Status(1)), stdout.as_bytes(), b"boom\n", 4096));
        let value: serde_json::Value = serde_json::from_str(outcome.structured.as_deref().unwrap()).unwrap();
        let left_out = value["stdout"]["left_out"].as_u64().unwrap();
        assert!(outcome.truncated && value["truncated"] == true && value["stdout"]["truncated"] == true);
        assert_eq!(value["stderr"]["text"], "boom\n");
        let text = value["stdout"]["text"].as_str().unwrap();
        assert!(text.starts_with("0\n1\n") && text.ends_with("9998\n9999\n"));
        let mark = format!("\n[tidegate: {left_out} bytes left out here]\n");
        assert_eq!((text.len() - mark.len()) as u64 + left_out, stdout.len() as u64);
        let told = format!("[tidegate: stdout: {left_out} of 48890 bytes left out; its beginning and its end are shown]\n");
        assert!(outcome.text.contains(&told) && outcome.text.contains(text), "{}", outcome.text);
        assert!(outcome.text.ends_with("its output]") && value["notes"][0] == ASK_FOR_LESS);
    }

    #[test]
    fn a_command_ended_at_its_limit_has_no_exit_and_no_error_r073() {
        let note = "tidegate told the command to end at its content limit (stop_at_limit); it was ended";
        for (stdout, stderr) in [(5000, 0), (3, 5000)] {
            let outcome = Outcome::command(output(at_limit(), &b"y\n".repeat(stdout), &b"e\n".repeat(stderr), 4096));
            assert_eq!((outcome.code, outcome.executed, outcome.ended), (None, Executed::Yes, Some(Ended::Dead)));
            let value: serde_json::Value = serde_json::from_str(outcome.structured.as_deref().unwrap()).unwrap();
            assert!(outcome.truncated && value["truncated"] == true && value["exit"].is_null(), "{value}");
            assert!(value.get("signal").is_none() && value["notes"] == serde_json::json!([note, ASK_FOR_LESS]), "{value}");
            let end = format!("]\n[tidegate: {note}]\n[tidegate: {ASK_FOR_LESS}]");
            assert!(outcome.text.starts_with("y\n") && outcome.text.ends_with(&end), "{}", outcome.text);
        }
    }

    #[test]
    fn each_stream_has_its_share_and_the_rest_of_the_other() {
        let (x, y) = (vec![b'x'; 100_000], vec![b'y'; 100_000]);
        let shares = |stdout: &[u8], stderr: &[u8]| {
            let outcome = Outcome::command(output(Finish::Itself(Exit::Status(0)), stdout, stderr, 32 << 10));
            let value: serde_json::Value = serde_json::from_str(&outcome.structured.unwrap()).unwrap();
            let length = |name: &str| value[name]["text"].as_str().unwrap().len();
            (length("stdout"), length("stderr"))
        };
        let (stdout, stderr) = shares(&x, &y);
        assert!((11_000..12_200).contains(&stdout) && (3_700..4_200).contains(&stderr), "{stdout} {stderr}");
        let (stdout, stderr) = shares(&x, b"small");
        assert!((15_000..16_384).contains(&stdout) && stderr == 5, "{stdout} {stderr}");
        let (stdout, stderr) = shares(b"small", &y);
        assert!((15_000..16_384).contains(&stderr) && stdout == 5, "{stdout} {stderr}");
    }

    #[track_caller]
    fn check_limit(finish: &Finish, stdout: &[u8], stderr: &[u8], content_bytes: usize) {
        let mut output = output(finish.clone(), stdout, stderr, content_bytes);
        // Counts as wide as they get.
        (output.stdout.1, output.stderr.1) = (u64::MAX / 2, u64::MAX / 2);
        output.notes = vec!["n".repeat(150)];
        let outcome = Outcome::command(output);
        let structured = outcome.structured.unwrap();
        let bytes = escaped_len(&outcome.text) + structured.len();
        assert!(bytes <= content_bytes, "{bytes} of {content_bytes} for {} and {} bytes", stdout.len(), stderr.len());
        let value: serde_json::Value = serde_json::from_str(&structured).unwrap();
        assert_eq!(value["truncated"], outcome.truncated);
        if !outcome.truncated {
            assert_eq!(value["stdout"]["text"], String::from_utf8_lossy(stdout).as_ref());
        }
    }

    #[test]
    fn both_renderings_together_never_exceed_the_limit() {
        let every_byte: Vec<u8> = (0..=255).collect();
        let shapes: [&[u8]; 6] = [
            b"",
            b"plain text\n",
            b"\x01\x02\"\\\n\x1b",
            "\u{2028}\u{85}mehrbytig \u{2014} \u{1F389}".as_bytes(),
            &every_byte,
            b"\xff",
        ];
        let limits = [CONTENT_BYTES_MIN, CONTENT_BYTES_MIN + 1, 5000, 10_007, 32 << 10, 250_001, CONTENT_BYTES_MAX];
        let finishes = [Finish::Itself(Exit::Status(0)), Finish::Itself(Exit::Status(-1)), stopped(), at_limit()];
        let pairs = (0..shapes.len()).flat_map(|first| (0..shapes.len()).map(move |second| (first, second)));
        for (number, content_bytes) in limits.into_iter().enumerate() {
            let [small, large] = [content_bytes / 20, content_bytes * 2];
            // The largest limits are slow to fill, and nothing but the counts gets wider there.
            for (first, second) in pairs.clone().filter(|(first, second)| number < 6 || first == second) {
                let finish = &finishes[(number + first + second) % finishes.len()];
                for (stdout_bytes, stderr_bytes) in [(large, large), (small, large), (large, small)] {
                    let fill = |shape: &[u8], bytes| shape.repeat(bytes / shape.len().max(1));
                    let (stdout, stderr) = (fill(shapes[first], stdout_bytes), fill(shapes[second], stderr_bytes));
                    check_limit(finish, &stdout, &stderr, content_bytes);
                }
            }
        }
    }

    #[test]
    fn around_the_limit_nothing_is_cut_before_it_must_be() {
        for finish in [Finish::Itself(Exit::Status(0)), stopped()] {
            let lengths = 100..2000;
            let is_cut = |length: &usize| {
                let stdout = vec![b'x'; *length];
                let limit = CONTENT_BYTES_MIN;
                let outcome = Outcome::command(output(finish.clone(), &stdout, b"e", limit));
                assert!(escaped_len(&outcome.text) + outcome.structured.unwrap().len() <= limit, "{length}");
                outcome.truncated
            };
            let first = lengths.clone().find(is_cut).unwrap();
            let whole = Outcome::command(output(finish.clone(), &vec![b'x'; first - 1], b"e", CONTENT_BYTES_MIN));
            let used = escaped_len(&whole.text) + whole.structured.unwrap().len();
            assert!((CONTENT_BYTES_MIN - 4..=CONTENT_BYTES_MIN).contains(&used), "{used}");
            assert!(lengths.skip(first).all(|length| is_cut(&length)));
        }
    }
}
