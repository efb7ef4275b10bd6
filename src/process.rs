//! A child in its own process group: bare environment, three descriptors, kill ladder, reaped.
//!
//! The only place that starts processes. A group is signalled only while its leader is not reaped, under one lock, so that a
//! late kill from another thread can never reach a number that came to mean somebody else; processes that left the group are
//! signalled through descriptors of their own. Nothing here waits for a process without a time limit.
//!
//! `spawn` -> `ask_to_end` (TERM) -> `end` (KILL to whatever is left, reap). Dropping a child ends it.

pub mod mark;
mod program;
pub mod run;
#[cfg(test)]
pub(crate) mod testing;

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cancel::Kill;
use crate::limits::KILL_TO_DETACHED;
use crate::process::mark::{Bearer, Mark};
use crate::sys::{self, Poll, Signal};

/// Where commands of a child are looked up, unless its tool says otherwise.
pub const CHILD_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Text of a child is UTF-8 and in no one's language.
pub const CHILD_LANG: &str = "C.UTF-8";

/// Processes that had to be killed, since the start of the gateway.
static KILLED: AtomicU64 = AtomicU64::new(0);
/// Children that would not die in time: reaped at a later start, so that none stays a zombie for ever.
static DETACHED: Mutex<Vec<std::process::Child>> = Mutex::new(Vec::new());

/// Processes that were sent KILL since the start of the gateway: direct children that were still running, and the processes
/// found by their mark.
pub fn killed_total() -> u64 {
    KILLED.load(Ordering::Relaxed)
}

/// What a child's descriptor 0 is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// /dev/null.
    Null,
    /// A pipe whose other end is `Child::stdin`.
    Pipe,
}

/// What to start.
#[derive(Debug)]
pub struct Spec<'a> {
    /// Program and arguments. The program is an absolute path, or a bare name looked up in the PATH of `env`.
    pub argv: &'a [String],
    /// The whole environment beside the mark.
    pub env: &'a [(String, String)],
    /// Working directory.
    pub cwd: &'a Path,
    /// By what its processes are found; one for each child.
    pub mark: Mark,
    /// Its standard input.
    pub stdin: Stdin,
}

/// Why there is no child. Its text says what was looked for and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpawnError {
    /// Nothing was started.
    NotStarted(String),
    /// It was started, could not be watched, and was killed.
    Killed(String),
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::NotStarted(why) => f.write_str(why),
            SpawnError::Killed(why) => write!(f, "started, but could not be watched and was killed: {why}"),
        }
    }
}

impl std::error::Error for SpawnError {}

/// How a process ended by itself or by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// With this exit status.
    Exited(i32),
    /// By the signal of this number.
    Signalled(i32),
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Self {
        let by_signal = || Status::Signalled(status.signal().unwrap_or_default());
        status.code().map_or_else(by_signal, Status::Exited)
    }
}

/// What `Child::end` saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// How the direct child ended; `None` if it was not seen to, and was let go.
    pub status: Option<Status>,
    /// Processes this sent KILL, the direct child included if it was still running.
    pub killed: u32,
    /// Processes among them that were not seen to end, the direct child included.
    pub alive: u32,
}

/// A running child, its three pipes and everything it started. Dropping it ends all of them and reaps the child.
pub struct Child {
    /// For `Stdin::Pipe`: the write end, non-blocking.
    pub stdin: Option<OwnedFd>,
    /// The read end of its stdout, non-blocking.
    pub stdout: Option<OwnedFd>,
    /// The read end of its stderr, non-blocking.
    pub stderr: Option<OwnedFd>,
    group: Arc<Group>,
    /// Known processes beside the leader that were told to end and not yet seen to.
    others: Vec<Bearer>,
    has_ended: bool,
}

/// A child's process group and the processes that carry its mark: what a cancel token holds on to.
pub struct Group {
    id: i32,
    mark: Mark,
    exit: OwnedFd,
    /// `None` once reaped or let go: from then on the group's number is not ours.
    leader: Mutex<Option<std::process::Child>>,
    leader_counted: AtomicBool,
}

/// Starts a child. Its descriptors above 2 are closed, given that the gateway's own are close-on-exec.
pub fn spawn(spec: &Spec<'_>) -> Result<Child, SpawnError> {
    reap_detached();
    let word = spec.argv.first().map_or("", String::as_str);
    let path = spec.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
    let file = program::find(word, path).map_err(SpawnError::NotStarted)?;
    // An absolute program and no `pre_exec` keep std on posix_spawn: no copy of our page tables.
    #[expect(clippy::disallowed_methods, reason = "the one home of process starts")]
    let mut command = Command::new(&file);
    command.arg0(word).args(spec.argv.iter().skip(1));
    command.env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.env(mark::VARIABLE, spec.mark.as_str());
    command.current_dir(spec.cwd).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(match spec.stdin {
        Stdin::Null => Stdio::null(),
        Stdin::Pipe => Stdio::piped(),
    });
    let child = command.spawn().map_err(|error| SpawnError::NotStarted(program::explain(&file, spec.cwd, &error)))?;
    watch(child, spec.mark.clone())
}

/// Takes a started process in charge; kills it if that fails.
fn watch(mut leader: std::process::Child, mark: Mark) -> Result<Child, SpawnError> {
    let id = leader.id().cast_signed();
    let exit = match sys::open_process(id) {
        Ok(exit) => exit,
        Err(error) => {
            // Not reaped yet, so the number is still ours.
            let _ = sys::signal_group(id, Signal::Kill);
            mark.bearers(id).iter().for_each(|bearer| bearer.signal(Signal::Kill));
            detach(leader);
            return Err(SpawnError::Killed(format!("pidfd_open: {error}")));
        }
    };
    let stdin = leader.stdin.take().map(OwnedFd::from);
    let stdout = leader.stdout.take().map(OwnedFd::from);
    let stderr = leader.stderr.take().map(OwnedFd::from);
    let (leader, leader_counted) = (Mutex::new(Some(leader)), AtomicBool::new(false));
    let group = Arc::new(Group { id, mark, exit, leader, leader_counted });
    let child = Child { stdin, stdout, stderr, group, others: Vec::new(), has_ended: false };
    // Each end has a description of its own: the child's ends stay blocking, as programs expect.
    for fd in [&child.stdin, &child.stdout, &child.stderr].into_iter().flatten() {
        sys::set_nonblocking(fd.as_fd()).map_err(|error| SpawnError::Killed(format!("O_NONBLOCK: {error}")))?;
    }
    Ok(child)
}

impl Group {
    /// Signals the group, unless its leader is reaped.
    fn signal(&self, signal: Signal) {
        if self.leader().is_some() {
            // Everybody in it may have ended, or belong to another user.
            let _ = sys::signal_group(self.id, signal);
        }
    }

    /// Kills the group and every other process with the mark; says how many were seen alive, and which beside the leader.
    /// They are looked for first: afterwards the dead could not be counted, nor their end be awaited.
    fn kill_all(&self) -> (u32, Vec<Bearer>) {
        let bearers = self.mark.bearers(self.id);
        let leader = !is_readable(self.exit.as_fd()) && !self.leader_counted.swap(true, Ordering::Relaxed);
        self.signal(Signal::Kill);
        bearers.iter().for_each(|bearer| bearer.signal(Signal::Kill));
        let killed = u32::from(leader) + u32::try_from(bearers.len()).unwrap_or(u32::MAX);
        KILLED.fetch_add(u64::from(killed), Ordering::Relaxed);
        (killed, bearers)
    }

    /// The leader's status if it has ended. From here on the group's number is not ours.
    fn reap(&self) -> Option<Status> {
        let mut leader = self.leader();
        let status = leader.as_mut()?.try_wait().ok()??;
        *leader = None;
        Some(status.into())
    }

    /// Gives up on a leader that will not end; it is reaped whenever it does.
    fn let_go(&self) {
        if let Some(leader) = self.leader().take() {
            detach(leader);
        }
    }

    fn leader(&self) -> MutexGuard<'_, Option<std::process::Child>> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kill for Group {
    fn kill(&self) {
        if self.leader().is_some() {
            if !is_readable(self.exit.as_fd()) && !self.leader_counted.swap(true, Ordering::Relaxed) {
                KILLED.fetch_add(1, Ordering::Relaxed);
            }
            // At once, before anybody looks through /proc.
            self.signal(Signal::Kill);
            self.kill_all();
        }
    }
}

impl Child {
    /// The number of the child and of its group.
    pub fn pid(&self) -> i32 {
        self.group.id
    }

    /// The handle that kills the child and all it started; does nothing once the child is reaped.
    pub fn group(&self) -> Arc<Group> {
        Arc::clone(&self.group)
    }

    /// Descriptors to poll: each becomes readable when one of the processes that are waited for has ended.
    pub fn exits(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let leader = (!self.has_ended).then(|| self.group.exit.as_fd());
        leader.into_iter().chain(self.others.iter().map(Bearer::exit))
    }

    /// Whether the direct child has ended.
    pub fn has_ended(&mut self) -> bool {
        self.has_ended = self.has_ended || is_readable(self.group.exit.as_fd());
        self.has_ended
    }

    /// Whether the direct child and every process told to end with it have ended.
    pub fn is_over(&mut self) -> bool {
        self.others.retain(|other| {
            let ended = is_readable(other.exit());
            if ended {
                // Ours to reap only if we are process 1 or a subreaper; otherwise somebody else does.
                let _ = sys::reap_process(other.exit());
            }
            !ended
        });
        self.has_ended() && self.others.is_empty()
    }

    /// Sends TERM to the group and to the processes that left it, once to each.
    pub fn ask_to_end(&mut self) {
        // The look through /proc takes its time; the group need not wait for it.
        self.group.signal(Signal::Term);
        self.others = self.group.mark.bearers(self.group.id);
        for other in &self.others {
            if sys::group_of(other.pid).ok() != Some(self.group.id) {
                other.signal(Signal::Term);
            }
        }
    }

    /// Kills whatever is left of the group and of the processes that left it, again until none is found, waits at most
    /// `patience` for all of them to end, and reaps the child. To be called once.
    pub fn end(&mut self, patience: Duration) -> End {
        let until = Instant::now() + patience;
        let mut killed = 0;
        loop {
            // While the leader lived it may have started more behind our back: then look again.
            let settled = self.has_ended();
            let (count, bearers) = self.group.kill_all();
            killed += count;
            let settled = settled && bearers.is_empty();
            self.others = bearers;
            if !self.wait_over(until) || settled {
                break;
            }
        }
        let status = self.group.reap();
        self.group.let_go();
        let alive = u32::from(!self.has_ended) + u32::try_from(self.others.len()).unwrap_or(u32::MAX);
        End { status, killed, alive }
    }

    /// Waits until everything known has ended. False if it did not in time.
    fn wait_over(&mut self, until: Instant) -> bool {
        while !self.is_over() {
            let now = Instant::now();
            let mut fds: Vec<Poll<'_>> = self.exits().map(Poll::readable).collect();
            if now >= until || sys::poll(&mut fds, Some(until - now)).is_err() {
                return false;
            }
        }
        true
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let forgotten = self.group.leader().is_some();
        if forgotten {
            self.end(KILL_TO_DETACHED);
        }
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [Poll::readable(fd)];
    sys::poll(&mut fds, Some(Duration::ZERO)).is_ok() && fds[0].is_ready()
}

fn detached() -> MutexGuard<'static, Vec<std::process::Child>> {
    DETACHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn detach(leader: std::process::Child) {
    detached().push(leader);
}

/// Reaps those that have ended meanwhile.
fn reap_detached() {
    detached().retain_mut(|leader| matches!(leader.try_wait(), Ok(None)));
}

#[cfg(test)]
mod tests {
    use super::testing::{PATH, Told, read_all};
    use super::*;
    use std::path::PathBuf;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn start_in(cwd: &str, argv: &[&str], stdin: Stdin) -> Result<Child, SpawnError> {
        let env = [("PATH".to_owned(), PATH.to_owned()), ("HOME".to_owned(), "/nowhere".to_owned())];
        let mark = Mark::random().unwrap();
        spawn(&Spec { argv: &strings(argv), env: &env, cwd: Path::new(cwd), mark, stdin })
    }

    fn start(argv: &[&str]) -> Child {
        start_in("/", argv, Stdin::Null).unwrap()
    }

    #[track_caller]
    fn check_refused(cwd: &str, argv: &[&str], want: &str) {
        match start_in(cwd, argv, Stdin::Null) {
            Err(SpawnError::NotStarted(why)) => assert!(why.contains(want), "{why}"),
            Err(error) => panic!("{argv:?}: {error}"),
            Ok(_) => panic!("{argv:?} was started"),
        }
    }

    #[test]
    fn a_failed_start_says_exactly_why() {
        let folder = std::env::temp_dir().join(format!("tidegate-{}", Mark::random().unwrap().as_str()));
        std::fs::create_dir(&folder).unwrap();
        let file = |name: &str, content: &str, mode| {
            let path: PathBuf = folder.join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let plain = file("plain", "#!/bin/sh\n", 0o644);
        let orphan = file("orphan", "#!/nowhere/interpreter\n", 0o755);
        let noise = file("noise", "\u{1}\u{2}\u{3}", 0o755);
        check_refused("/", &[], "empty name");
        check_refused("/", &["no-such-program"], &format!("\"no-such-program\" not found in the command's PATH {PATH:?}"));
        check_refused("/", &["/no/such/program"], "\"/no/such/program\" not found");
        check_refused("/", &["bin/sh"], "expected an absolute path or a bare name");
        check_refused("/", &[&plain], "is not executable");
        check_refused("/", &["/etc"], "\"/etc\" is not a file");
        check_refused("/", &[&orphan], "interpreter or loader it names was not found");
        check_refused("/", &[&noise], "Exec format error");
        check_refused("/no/such/folder", &["true"], "working directory \"/no/such/folder\": not found");
        check_refused(&plain, &["true"], "is not a folder");
        check_refused("/", &["true", "a\0b"], "nul byte");
        check_refused("/", &["true", &"x".repeat(200 << 10)], "longer than the system takes");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_child_sees_three_descriptors_its_own_group_and_its_own_name() {
        sys::close_on_exec_above_2();
        let mut told = Told::new();
        let mut child =
            start_in("/usr", &["sh", "-c", r#"(echo "$0 $(pwd)" > "$1"); sleep 300; :"#, "sh", &told.path()], Stdin::Null)
                .unwrap();
        assert_eq!(told.line(), "sh /usr");
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.pid())).unwrap();
        let mut numbers: Vec<_> = open.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        numbers.sort();
        assert_eq!(numbers, ["0", "1", "2"]);
        assert_eq!(std::fs::read_link(format!("/proc/{}/fd/0", child.pid())).unwrap(), Path::new("/dev/null"));
        assert_eq!(sys::group_of(child.pid()).unwrap(), child.pid());
        let end = child.end(PATIENCE);
        assert_eq!((end.status, end.alive), (Some(Status::Signalled(9)), 0));
    }

    #[test]
    fn the_environment_is_what_was_given_and_the_mark() {
        let mark = Mark::random().unwrap();
        let env = [("PATH", PATH), ("WORDS", "a  b=c"), (mark::VARIABLE, "forged")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut child =
            spawn(&Spec { argv: &strings(&["env"]), env: &env, cwd: Path::new("/"), mark: mark.clone(), stdin: Stdin::Null })
                .unwrap();
        let text = read_all(child.stdout.take().unwrap());
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, [&format!("PATH={PATH}"), &format!("TIDEGATE_CALL={}", mark.as_str()), "WORDS=a  b=c"]);
        assert!(child.wait_over(Instant::now() + PATIENCE));
        assert_eq!(child.end(PATIENCE), End { status: Some(Status::Exited(0)), killed: 0, alive: 0 });
    }

    #[test]
    fn a_pipe_to_stdin_is_ours_to_write() {
        let mut child = start_in("/", &["cat"], Stdin::Pipe).unwrap();
        let stdin = child.stdin.take().unwrap();
        sys::write(stdin.as_fd(), &[std::io::IoSlice::new(b"given\n")]).unwrap();
        drop(stdin);
        assert_eq!(read_all(child.stdout.take().unwrap()), "given\n");
    }

    /// A shell, a process in its group and one that left it, none of which heeds TERM.
    fn start_stubborn(told: &mut Told) -> (Child, [testing::Known; 3]) {
        let script = r#"trap '' TERM; echo $$ > "$1"; sleep 300 & echo $! > "$1"
            setsid sh -c 'echo $$ > "$1"; exec sleep 300' sh "$1" & wait"#;
        let child = start(&["sh", "-c", script, "sh", &told.path()]);
        let known = [told.process(), told.process(), told.process()];
        assert_ne!(sys::group_of(known[2].pid).unwrap(), child.pid());
        (child, known)
    }

    #[test]
    fn end_kills_and_counts_the_group_and_those_that_left_it() {
        let (mut child, known) = start_stubborn(&mut Told::new());
        let before = killed_total();
        child.ask_to_end();
        assert!(!child.is_over());
        assert_eq!(child.end(PATIENCE), End { status: Some(Status::Signalled(9)), killed: 3, alive: 0 });
        assert!(known.iter().all(testing::Known::has_ended) && known[0].is_reaped());
        assert!(killed_total() >= before + 3);
    }

    #[test]
    fn a_dropped_child_is_ended_with_all_it_started() {
        let (child, known) = start_stubborn(&mut Told::new());
        drop(child);
        assert!(known.iter().all(testing::Known::has_ended) && known[0].is_reaped());
    }

    #[test]
    fn the_handle_kills_at_once_and_never_after_the_end() {
        let (mut child, known) = start_stubborn(&mut Told::new());
        let handle = child.group();
        handle.kill();
        assert!(known.iter().all(testing::Known::ends));
        assert_eq!(child.end(PATIENCE).status, Some(Status::Signalled(9)));
        // The number may belong to somebody else by now; a mark that nobody carries is all that is left to look for.
        handle.kill();
        assert!(handle.leader().is_none());
    }

    #[test]
    fn term_reaches_each_process_once() {
        let mut told = Told::new();
        let script = r#"trap 'echo inside > "$1"; exit 0' TERM
            setsid sh -c 'trap "echo outside > \"$1\"; exit 0" TERM; echo $$ > "$1"; while :; do sleep 0.01; done' sh "$1" &
            echo $$ > "$1"; while :; do sleep 0.01; done"#;
        let mut child = start(&["sh", "-c", script, "sh", &told.path()]);
        let known = [told.process(), told.process()];
        child.ask_to_end();
        assert!(known.iter().all(testing::Known::ends));
        let mut heard = [told.line(), told.line()];
        heard.sort();
        assert_eq!(heard, ["inside", "outside"]);
        assert!(!told.hears(Duration::ZERO));
        assert!(child.wait_over(Instant::now() + PATIENCE));
        assert_eq!(child.end(PATIENCE).status, Some(Status::Exited(0)));
    }

    #[test]
    fn one_that_keeps_replacing_its_program_is_found() {
        let again = r#"exec sh -c "$0" "$0""#;
        for _ in 0..20 {
            let mut told = Told::new();
            let script = r#"setsid sh -c 'echo $$ > "$1"; exec sh -c "$2" "$2"' sh "$1" "$2" & sleep 300"#;
            let mut child = start(&["sh", "-c", script, "sh", &told.path(), again]);
            let known = told.process();
            assert_eq!(child.end(PATIENCE).alive, 0);
            assert!(known.has_ended());
        }
    }

    #[test]
    fn one_that_was_let_go_is_reaped_later() {
        let mut told = Told::new();
        let child = start(&["sh", "-c", r#"echo $$ > "$1"; exec sleep 300"#, "sh", &told.path()]);
        let known = told.process();
        child.group.let_go();
        child.group.mark.bearers(0).iter().for_each(|bearer| bearer.signal(Signal::Kill));
        assert!(known.ends());
        drop(start(&["true"]));
        assert!(known.is_reaped());
    }
}
