//! Carries out a local command: one poll loop over its two pipes, its end, the cancel and the deadline.
//!
//! The end of the direct child ends the call, not the end of the pipes; what it left running is ended as well. Output goes to
//! budget sinks and is drained whatever becomes of it. No shell reads anything, and no wait is without a limit.
//!
//! ```text
//! running ── child ended ──▶ draining (until both pipes end, or 200 ms) ──▶ KILL to what is left, reap ──▶ outcome
//!    └── cancel, deadline, stop_at_limit ──▶ stopping (TERM; until all ended, or 500 ms) ──┘
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use crate::action::exec::ExecAction;
use crate::cancel::Kill;
use crate::executor::CallCtx;
use crate::limits::{CHUNK_BYTES, DRAIN, KILL_TO_DETACHED, TERM_TO_KILL};
use crate::outcome::budget::Sink;
use crate::outcome::command::{CommandOutput, Finish, kept_bytes};
use crate::outcome::result::{Code, Ended, Executed, Failure, Outcome};
use crate::policy::grant::{Authorized, Terms};
use crate::policy::rules::AtLimit;
use crate::process::mark::Mark;
use crate::process::{self, Child, End, SpawnError, Spec, Stdin};
use crate::sys::{self, Poll};

/// Chunks taken of each pipe after everybody was killed; an escaped process may go on writing for ever.
const LAST_CHUNKS: usize = 16;

/// Runs the command and returns when it, and what could be found of what it started, has ended or was let go. Takes at most
/// until the deadline and 2.5 s more.
pub fn run(grant: Authorized<ExecAction>, ctx: &CallCtx<'_>) -> Outcome {
    carry_out(grant.action(), grant.terms(), ctx).unwrap_or_else(Outcome::from)
}

fn carry_out(action: &ExecAction, terms: &Terms, ctx: &CallCtx<'_>) -> Result<Outcome, Failure> {
    if ctx.token.is_cancelled() {
        return Err(Failure::cancelled(Executed::No, None));
    }
    if Instant::now() >= ctx.deadline {
        let message = format!("the call's {:?} were over before the command could be started", terms.timeout);
        return Err(Failure::new(Code::TimedOut, Executed::No, message));
    }
    let child = spawn(action)?;
    let handle: Arc<dyn Kill> = child.group();
    // If a cancel came meanwhile, the loop sees the flag before it waits for anything.
    ctx.token.register(&handle);
    let mut work = Work::new(child, terms, ctx);
    match work.watch(ctx) {
        Ok(()) => work.outcome(terms),
        Err(error) => Err(Failure::new(Code::Internal, Executed::Yes, format!("waiting for the command failed: {error}"))),
    }
}

fn spawn(action: &ExecAction) -> Result<Child, Failure> {
    let failed = |executed, why: String| Failure::new(Code::SpawnFailed, executed, format!("the command: {why}"));
    let mark = Mark::random().map_err(|error| failed(Executed::No, error.to_string()))?;
    let spec = Spec { argv: &action.argv, env: &action.env, cwd: &action.cwd, mark, stdin: Stdin::Null };
    process::spawn(&spec).map_err(|error| match error {
        SpawnError::NotStarted(_) => failed(Executed::No, error.to_string()),
        SpawnError::Killed(_) => failed(Executed::Unknown, error.to_string()),
    })
}

/// A running command.
struct Work {
    child: Child,
    stdout: Output,
    stderr: Output,
    at_limit: AtLimit,
    phase: Phase,
    buffer: Vec<u8>,
}

/// One pipe and the sink it is read into; the pipe is gone once it has ended.
struct Output {
    pipe: Option<OwnedFd>,
    sink: Sink,
}

enum Phase {
    Running,
    /// The direct child has ended; what is in the pipes is still read.
    Draining {
        until: Instant,
    },
    /// Asked to end.
    Stopping {
        why: Stop,
        kill_at: Instant,
    },
}

#[derive(Clone, Copy)]
enum Stop {
    Cancelled,
    TimedOut,
    /// Its output has outgrown the content limit.
    AtLimit,
}

impl Work {
    fn new(mut child: Child, terms: &Terms, ctx: &CallCtx<'_>) -> Self {
        let output = |pipe, stream| Output { pipe, sink: ctx.sinks.sink(stream, kept_bytes(terms.content_bytes)) };
        let (stdout, stderr) = (output(child.stdout.take(), "stdout"), output(child.stderr.take(), "stderr"));
        let at_limit = terms.at_limit;
        Work { child, stdout, stderr, at_limit, phase: Phase::Running, buffer: vec![0; CHUNK_BYTES] }
    }

    /// Reads and waits until the command is over, or has to be killed. Fails only if poll(2) does.
    fn watch(&mut self, ctx: &CallCtx<'_>) -> io::Result<()> {
        while !self.is_over(ctx) {
            self.wait(ctx)?;
            // One chunk of each in turn: a flood in one starves neither the other nor the cancel.
            self.stdout.read(&mut self.buffer);
            self.stderr.read(&mut self.buffer);
        }
        Ok(())
    }

    /// Moves on to the next phase where it is due. True once nothing is worth waiting for.
    fn is_over(&mut self, ctx: &CallCtx<'_>) -> bool {
        // In this order: `kill_now` sets the flag first, so an end it brought about is never taken for the command's own.
        let ended = self.child.has_ended();
        let cancelled = ctx.token.is_cancelled();
        let now = Instant::now();
        if matches!(self.phase, Phase::Running) {
            if cancelled {
                self.stop(Stop::Cancelled, now);
            } else if ended {
                self.phase = Phase::Draining { until: now + DRAIN };
            } else if now >= ctx.deadline {
                self.stop(Stop::TimedOut, now);
            } else if self.at_limit == AtLimit::Stop && self.is_past_limit() {
                self.stop(Stop::AtLimit, now);
            }
        }
        match self.phase {
            Phase::Running => false,
            Phase::Draining { until } => cancelled || now >= until || !self.is_open(),
            Phase::Stopping { why, kill_at } => {
                let over = self.child.is_over();
                // A command that is ended for its output alone can still be cancelled, and be late.
                let why = match why {
                    Stop::AtLimit if cancelled => Stop::Cancelled,
                    Stop::AtLimit if !over && now >= ctx.deadline => Stop::TimedOut,
                    Stop::AtLimit | Stop::Cancelled | Stop::TimedOut => why,
                };
                self.phase = Phase::Stopping { why, kill_at };
                over || now >= kill_at
            }
        }
    }

    fn stop(&mut self, why: Stop, now: Instant) {
        self.child.ask_to_end();
        self.phase = Phase::Stopping { why, kill_at: now + TERM_TO_KILL };
    }

    /// Whether a result could not show all that came, whatever its shares.
    fn is_past_limit(&self) -> bool {
        !(self.stdout.sink.is_whole() && self.stderr.sink.is_whole())
    }

    fn is_open(&self) -> bool {
        self.stdout.pipe.is_some() || self.stderr.pipe.is_some()
    }

    /// Sleeps until something can be read, somebody ended, the cancel came (while it is news), or time is up.
    fn wait(&self, ctx: &CallCtx<'_>) -> io::Result<()> {
        let (until, cancel) = match self.phase {
            Phase::Running => (ctx.deadline, Some(ctx.token.wake_fd())),
            Phase::Draining { until } => (until, Some(ctx.token.wake_fd())),
            Phase::Stopping { why: Stop::AtLimit, kill_at } => (kill_at.min(ctx.deadline), Some(ctx.token.wake_fd())),
            Phase::Stopping { why: Stop::Cancelled | Stop::TimedOut, kill_at } => (kill_at, None),
        };
        let pipes = [&self.stdout, &self.stderr].into_iter().filter_map(|output| output.pipe.as_ref());
        let waited = pipes.map(AsFd::as_fd).chain(self.child.exits()).chain(cancel);
        let mut fds: Vec<Poll<'_>> = waited.map(Poll::readable).collect();
        sys::poll(&mut fds, Some(until.saturating_duration_since(Instant::now())))
    }

    /// Ends and reaps whatever is left, and says what became of the command.
    fn outcome(mut self, terms: &Terms) -> Result<Outcome, Failure> {
        let still_open = self.is_open();
        let end = self.child.end(KILL_TO_DETACHED);
        let finish = match self.phase {
            Phase::Stopping { why: Stop::Cancelled, .. } => return Err(cancelled(end)),
            Phase::Stopping { why: Stop::TimedOut, .. } => {
                self.read_last();
                Finish::Stopped(timed_out(terms, end))
            }
            Phase::Stopping { why: Stop::AtLimit, .. } => {
                self.read_last();
                Finish::AtLimit { ended: ended(end), how: how(end) }
            }
            Phase::Running | Phase::Draining { .. } => Finish::Itself(end.status.ok_or_else(status_lost)?.into()),
        };
        let notes = match finish {
            Finish::Itself(_) => leftovers(still_open, end),
            Finish::Stopped(_) | Finish::AtLimit { .. } => Vec::new(),
        };
        let (stdout, stderr) = (self.stdout.sink.finish(), self.stderr.sink.finish());
        Ok(Outcome::command(CommandOutput { finish, stdout, stderr, notes, content_bytes: terms.content_bytes }))
    }

    fn read_last(&mut self) {
        self.stdout.read_last(&mut self.buffer);
        self.stderr.read_last(&mut self.buffer);
    }
}

impl Output {
    /// Takes what is there, at most one chunk. False if there was nothing.
    fn read(&mut self, buffer: &mut [u8]) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        match sys::read(pipe.as_fd(), buffer) {
            Ok(0) => self.pipe = None,
            Ok(length) => {
                self.sink.write(&buffer[..length]);
                return true;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.pipe = None,
        }
        false
    }

    fn read_last(&mut self, buffer: &mut [u8]) {
        for _ in 0..LAST_CHUNKS {
            if !self.read(buffer) {
                break;
            }
        }
    }
}

fn ended(end: End) -> Ended {
    if end.alive == 0 { Ended::Dead } else { Ended::Detached }
}

fn cancelled(end: End) -> Failure {
    let how = match ended(end) {
        Ended::Dead => "was ended before it had finished",
        Ended::Detached => "would not end and was let go",
    };
    let message = format!("the call was cancelled; the command had begun and {how}");
    Failure { message, ..Failure::cancelled(Executed::Yes, Some(ended(end))) }
}

fn how(end: End) -> &'static str {
    match ended(end) {
        Ended::Dead => "it was ended together with all it had started",
        Ended::Detached => "it would not end and was let go",
    }
}

fn timed_out(terms: &Terms, end: End) -> Failure {
    let how = how(end);
    let message = format!(
        "the command had not finished after {:?}; {how}; part of its work may be done: ask for less, or raise the tool's timeout_s",
        terms.timeout
    );
    Failure { ended: Some(ended(end)), ..Failure::new(Code::TimedOut, Executed::Yes, message) }
}

/// Only if somebody else took the status: SIGCHLD ignored in this process, or a foreign wait.
fn status_lost() -> Failure {
    Failure::new(Code::Internal, Executed::Yes, "the command ended, but its exit status was lost")
}

/// What a reader should know of processes that outlived the command.
fn leftovers(still_open: bool, end: End) -> Vec<String> {
    let mut notes = Vec::new();
    if still_open {
        notes.push(format!("its output was still open {DRAIN:?} after the command had ended; later output is not shown"));
    }
    if end.killed > end.alive {
        notes.push(format!("processes the command left running were ended: {}", end.killed - end.alive));
    }
    if end.alive > 0 {
        notes.push(format!("processes the command left running would not end and were let go: {}", end.alive));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::{CancelToken, Why};
    use crate::limits::CONTENT_BYTES;
    use crate::outcome::testing::sinks;
    use crate::process::testing::{Known, PATH, Told, peak_kib};
    use serde_json::Value;
    use std::path::PathBuf;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    fn action(argv: &[&str]) -> ExecAction {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let env = vec![("PATH".to_owned(), PATH.to_owned())];
        ExecAction { argv, env, cwd: PathBuf::from("/") }
    }

    fn terms(at_limit: AtLimit, timeout: Duration) -> Terms {
        let [tool, rule, target] = ["tool", "rule", "exec"].map(str::to_owned);
        Terms { tool, rule, target, credential: None, host: None, content_bytes: CONTENT_BYTES, at_limit, timeout }
    }

    fn ctx(token: &CancelToken, timeout: Duration) -> CallCtx<'_> {
        CallCtx { token, deadline: Instant::now() + timeout, sinks: sinks() }
    }

    fn run_with(argv: &[&str], timeout: Duration, token: &CancelToken) -> Outcome {
        let grant = Authorized::in_test(action(argv), terms(AtLimit::Drain, timeout));
        run(grant, &ctx(token, timeout))
    }

    fn run_plain(argv: &[&str]) -> Outcome {
        run_with(argv, LONG, &CancelToken::new().unwrap())
    }

    fn run_script(script: &str, told: &Told, timeout: Duration) -> Outcome {
        run_with(&["sh", "-c", script, "sh", &told.path()], timeout, &CancelToken::new().unwrap())
    }

    fn structured(outcome: &Outcome) -> Value {
        serde_json::from_str(outcome.structured.as_deref().unwrap()).unwrap()
    }

    #[track_caller]
    fn check(argv: &[&str], code: Option<Code>, text: &str) {
        let outcome = run_plain(argv);
        assert_eq!((outcome.code, outcome.text.as_str()), (code, text), "{argv:?}");
        assert_eq!(outcome.executed, Executed::Yes);
    }

    #[test]
    fn a_command_ends_as_it_says() {
        check(&["echo", "a b", "$HOME;`id`\n\u{e9}"], None, "a b $HOME;`id`\n\u{e9}\n");
        check(&["cat"], None, "[tidegate: the command exited with status 0 and printed nothing]");
        check(
            &["sh", "-c", "echo out; echo err >&2; exit 3"],
            Some(Code::TargetError),
            "tidegate: target_error (executed: yes): the command exited with status 3\nout\n[stderr]\nerr\n",
        );
        check(
            &["sh", "-c", "kill -KILL $$"],
            Some(Code::TargetError),
            "tidegate: target_error (executed: yes): the command was ended by signal KILL",
        );
    }

    #[test]
    fn a_command_that_cannot_be_started_was_not_executed() {
        let outcome = run_plain(&["no-such-program"]);
        assert_eq!((outcome.code, outcome.executed), (Some(Code::SpawnFailed), Executed::No));
        assert!(outcome.text.contains("\"no-such-program\" not found in the command's PATH"), "{}", outcome.text);
    }

    #[test]
    fn both_pipes_are_drained_while_the_child_runs_r045() {
        let script = r#"head -c 300000 /dev/zero | tr "\0" x; head -c 300000 /dev/zero | tr "\0" y >&2"#;
        let outcome = run_plain(&["sh", "-c", script]);
        let value = structured(&outcome);
        assert_eq!((outcome.code, outcome.bytes, outcome.truncated), (None, 600_000, true));
        for (stream, letter) in [("stdout", 'x'), ("stderr", 'y')] {
            assert_eq!(value[stream]["bytes"], 300_000);
            let text = value[stream]["text"].as_str().unwrap();
            assert!(text.starts_with(letter) && text.ends_with(letter), "{text}");
        }
    }

    #[test]
    fn a_flood_is_counted_in_bounded_memory_r073() {
        let before = peak_kib();
        let outcome = run_plain(&["head", "-c", "100000000", "/dev/zero"]);
        assert_eq!((outcome.code, outcome.bytes, outcome.truncated), (None, 100_000_000, true));
        assert!(outcome.text.len() < CONTENT_BYTES);
        assert!(peak_kib() - before < 64 << 10, "the flood was kept");
    }

    fn run_stopping(script: &str, told: &Told) -> Outcome {
        let action = action(&["sh", "-c", script, "sh", &told.path()]);
        run(Authorized::in_test(action, terms(AtLimit::Stop, LONG)), &ctx(&CancelToken::new().unwrap(), LONG))
    }

    /// The script and `processes` of it tell their number; all must be gone when it was ended at its limit.
    #[track_caller]
    fn check_stopped(script: &str, processes: usize) -> Duration {
        let (mut told, began) = (Told::new(), Instant::now());
        let outcome = run_stopping(script, &told);
        let took = began.elapsed();
        let known: Vec<Known> = (0..processes).map(|_| told.process()).collect();
        assert!(known.iter().all(Known::has_ended), "something is still running");
        check_at_limit(&outcome);
        took
    }

    #[track_caller]
    fn check_at_limit(outcome: &Outcome) {
        let note = "tidegate told the command to end at its content limit (stop_at_limit); it was ended together with all it had \
                    started";
        let value = structured(outcome);
        assert_eq!((outcome.code, outcome.executed, outcome.ended), (None, Executed::Yes, Some(Ended::Dead)), "{value}");
        assert!(outcome.truncated && outcome.bytes > CONTENT_BYTES as u64, "{value}");
        assert!(value["exit"].is_null() && value.get("signal").is_none() && value["truncated"] == true, "{value}");
        assert!(value["notes"][0] == note && outcome.text.contains(&format!("\n[tidegate: {note}]\n")), "{}", outcome.text);
    }

    #[test]
    fn a_flood_is_ended_at_the_limit_r073() {
        check_stopped(r#"echo $$ > "$1"; exec yes"#, 1);
        check_stopped(r#"echo $$ > "$1"; exec cat /dev/zero"#, 1);
        check_stopped(r#"echo $$ > "$1"; exec yes >&2"#, 1);
        check_stopped(
            r#"echo $$ > "$1"; sleep 300 & echo $! > "$1"; setsid sh -c 'echo $$ > "$1"; exec yes >&2' sh "$1" & wait"#,
            3,
        );
        let took = check_stopped(r#"trap "" TERM; echo $$ > "$1"; sleep 300 & echo $! > "$1"; exec yes"#, 2);
        assert!(took >= TERM_TO_KILL, "killed after {took:?}, without its grace");
    }

    #[test]
    fn one_that_fits_is_not_ended_and_one_byte_more_is_r073() {
        let mut told = Told::new();
        let fits = format!("head -c {CONTENT_BYTES} /dev/zero; head -c {CONTENT_BYTES} /dev/zero >&2; exit 3");
        let outcome = run_stopping(&fits, &told);
        assert_eq!((outcome.code, outcome.bytes, outcome.ended), (Some(Code::TargetError), 2 * CONTENT_BYTES as u64, None));
        assert_eq!(structured(&outcome)["exit"], 3);
        let more = format!("echo $$ > \"$1\"; head -c {} /dev/zero; exec sleep 300", CONTENT_BYTES + 1);
        check_at_limit(&run_stopping(&more, &told));
        assert!(told.process().has_ended());
    }

    /// A command that has said more than fits, or has ended, when it is looked at for the first time.
    fn unwatched(script: &str, ctx: &CallCtx<'_>, is_ready: impl Fn(&mut Work) -> bool) -> Work {
        let mut work = Work::new(spawn(&action(&["sh", "-c", script])).unwrap(), &terms(AtLimit::Stop, LONG), ctx);
        while !is_ready(&mut work) {
            work.wait(ctx).unwrap();
            work.stdout.read(&mut work.buffer);
        }
        work
    }

    #[test]
    fn one_that_ended_before_anybody_looked_has_ended_by_itself() {
        let token = CancelToken::new().unwrap();
        let ctx = ctx(&token, LONG);
        let mut work = unwatched("head -c 100000 /dev/zero; exit 4", &ctx, |work| work.child.has_ended());
        assert!(work.is_past_limit());
        work.watch(&ctx).unwrap();
        let outcome = work.outcome(&terms(AtLimit::Stop, LONG)).unwrap();
        assert_eq!((outcome.code, outcome.ended, &structured(&outcome)["exit"]), (Some(Code::TargetError), None, &4.into()));
    }

    #[test]
    fn while_it_is_ended_at_its_limit_cancel_and_deadline_count() {
        let stubborn = "trap '' TERM; yes";
        for (cancels, late, code) in
            [(true, false, Code::Cancelled), (true, true, Code::Cancelled), (false, true, Code::TimedOut)]
        {
            let token = CancelToken::new().unwrap();
            let mut ctx = ctx(&token, LONG);
            let mut work = unwatched(stubborn, &ctx, |work| work.is_past_limit());
            assert!(!work.is_over(&ctx) && matches!(work.phase, Phase::Stopping { why: Stop::AtLimit, .. }));
            if cancels {
                token.cancel(Why::Client);
            }
            if late {
                ctx.deadline = Instant::now();
            }
            work.watch(&ctx).unwrap();
            let outcome = work.outcome(&terms(AtLimit::Stop, LONG)).unwrap_or_else(Outcome::from);
            assert_eq!((outcome.code, outcome.ended), (Some(code), Some(Ended::Dead)), "{}", outcome.text);
        }
    }

    /// Cancels (or kills) the script once `processes` of them told their number; all must be gone at return.
    #[track_caller]
    fn check_cancelled(script: &str, processes: usize, end: impl Fn(&CancelToken)) -> Duration {
        let (mut told, token) = (Told::new(), CancelToken::new().unwrap());
        let path = told.path();
        let (outcome, known, took) = std::thread::scope(|scope| {
            let running = scope.spawn(|| run_with(&["sh", "-c", script, "sh", &path], LONG, &token));
            let known: Vec<Known> = (0..processes).map(|_| told.process()).collect();
            let began = Instant::now();
            end(&token);
            (running.join().unwrap(), known, began.elapsed())
        });
        assert!(known.iter().all(Known::has_ended), "something is still running");
        assert!(known[0].is_reaped(), "the child is a zombie");
        assert_eq!((outcome.code, outcome.executed), (Some(Code::Cancelled), Executed::Yes));
        assert_eq!(outcome.ended, Some(Ended::Dead));
        assert!(outcome.text.ends_with("the command had begun and was ended before it had finished"), "{}", outcome.text);
        took
    }

    const FAMILY: &str = r#"echo $$ > "$1"; sleep 300 & echo $! > "$1"
        setsid sh -c 'echo $$ > "$1"; exec sleep 300' sh "$1" & wait"#;

    #[test]
    fn a_cancel_ends_the_child_its_group_and_those_that_left_it() {
        let by_client = |token: &CancelToken| token.cancel(Why::Client);
        check_cancelled(FAMILY, 3, by_client);
        let took = check_cancelled(&format!("trap '' TERM; {FAMILY}"), 3, by_client);
        assert!(took >= TERM_TO_KILL, "killed after {took:?}, without its grace");
    }

    #[test]
    fn a_flood_does_not_hide_the_cancel() {
        check_cancelled(r#"echo $$ > "$1"; yes & yes >&2"#, 1, |token| token.cancel(Why::SessionEnd));
    }

    #[test]
    fn kill_now_leaves_no_grace() {
        let took = check_cancelled(&format!("trap '' TERM; {FAMILY}"), 3, CancelToken::kill_now);
        assert!(took < TERM_TO_KILL, "killed only after {took:?}");
    }

    #[test]
    fn a_cancelled_call_never_starts() {
        let (told, token) = (Told::new(), CancelToken::new().unwrap());
        token.cancel(Why::Client);
        let outcome = run_with(&["sh", "-c", r#"echo begun > "$1""#, "sh", &told.path()], LONG, &token);
        assert_eq!((outcome.code, outcome.executed), (Some(Code::Cancelled), Executed::No));
        let outcome = run_script(r#"echo begun > "$1""#, &told, Duration::ZERO);
        assert_eq!((outcome.code, outcome.executed), (Some(Code::TimedOut), Executed::No));
        assert!(!told.hears(Duration::ZERO));
    }

    #[track_caller]
    fn check_left_running(script: &str) {
        let mut told = Told::new();
        let outcome = run_script(script, &told, LONG);
        assert!(told.process().has_ended(), "what it left is still running");
        let lines: Vec<&str> = outcome.text.lines().collect();
        assert_eq!(lines.len(), 3, "{}", outcome.text);
        assert_eq!((outcome.code, lines[0]), (None, "started"));
        assert!(lines[1].starts_with("[tidegate: its output was still open 200ms after the command had ended"), "{lines:?}");
        assert_eq!(lines[2], "[tidegate: processes the command left running were ended: 1]");
        assert_eq!(structured(&outcome)["notes"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_background_process_that_holds_the_pipe_is_not_waited_for_r059() {
        check_left_running(r#"sleep 300 & echo $! > "$1"; echo started"#);
        check_left_running(r#"setsid sleep 300 & echo $! > "$1"; echo started"#);
    }

    #[test]
    fn a_background_process_without_the_pipe_is_ended_too() {
        let outcome = run_plain(&["sh", "-c", "sleep 300 > /dev/null 2>&1 & echo started"]);
        assert_eq!(outcome.text, "started\n[tidegate: processes the command left running were ended: 1]");
    }

    #[test]
    fn at_the_deadline_what_came_is_shown() {
        let mut told = Told::new();
        let script =
            r#"exec 2>/dev/null; trap 'echo bye; exit 0' TERM; echo partial; echo $$ > "$1"; while :; do sleep 0.01; done"#;
        let outcome = run_script(script, &told, Duration::from_millis(1500));
        assert!(!std::path::Path::new(&format!("/proc/{}", told.line())).exists());
        assert_eq!((outcome.code, outcome.executed, outcome.ended), (Some(Code::TimedOut), Executed::Yes, Some(Ended::Dead)));
        let (first, rest) = outcome.text.split_once('\n').unwrap();
        assert!(
            first.starts_with("tidegate: timed_out (executed: yes): the command had not finished after 1.5s; it was ended")
        );
        assert_eq!(rest, "partial\nbye\n");
        let value = structured(&outcome);
        assert_eq!((&value["exit"], &value["stdout"]["text"]), (&Value::Null, &Value::from("partial\nbye\n")));
        assert!(value["notes"][0].as_str().is_some_and(|note| note.contains("1.5s")), "{value}");
    }
}
