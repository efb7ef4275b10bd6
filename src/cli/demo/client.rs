//! A small MCP client: one gateway as a child process, lines out, lines in, every wait bounded.
//!
//! Keeps each line and each operator message that came, for the checks. It never waits for a child without a limit, and
//! never interprets more of a line than a check needs.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use crate::cli::demo::Fault;
use crate::cli::demo::wait::{Interrupt, PATIENCE};
use crate::process::mark::Mark;
use crate::process::{self, Child, Spec, Status, Stdin};
use crate::sys::{self, Poll};

/// Most that is kept of an unfinished line, and of operator messages.
const KEPT_BYTES: usize = 4 << 20;
/// Chunks taken of a pipe between two looks at everything else.
const CHUNKS: usize = 16;

/// What every modern request says of its sender.
const META: &str =
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// Why a step got no further.
pub(super) enum Trouble {
    /// The gateway did not do its part: a promise that did not hold.
    Gateway(String),
    /// The demo cannot go on.
    Fault(Fault),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Trouble::Fault(fault)
    }
}

/// A running gateway and what it said so far. Dropping it ends it.
pub(super) struct Session<'s> {
    child: Child,
    interrupt: &'s Interrupt,
    partial: Vec<u8>,
    lines: Vec<String>,
    noise: Vec<u8>,
    last_id: u64,
}

/// A gateway that has ended.
pub(super) struct Ended {
    /// How; `None` if it had to be killed.
    pub(super) status: Option<Status>,
    /// Every line it wrote on stdout.
    pub(super) lines: Vec<String>,
    /// What it told its operator.
    pub(super) stderr: String,
}

/// A request and what is sent for it.
pub(super) struct Request {
    /// Its id.
    pub(super) id: u64,
    /// The line, without its newline.
    pub(super) line: String,
}

impl<'s> Session<'s> {
    /// Starts `program serve --config CONFIG` in `cwd` with this environment and no other.
    pub(super) fn start(
        program: &str,
        config: &Path,
        env: &[(String, String)],
        cwd: &Path,
        interrupt: &'s Interrupt,
    ) -> Result<Self, Fault> {
        let failed = |why: String| Fault(format!("the gateway cannot be started: {why}"));
        let config = config.to_string_lossy().into_owned();
        let argv = [program.to_owned(), "serve".to_owned(), "--config".to_owned(), config];
        let mark = Mark::random().map_err(|error| failed(error.to_string()))?;
        let spec = Spec { argv: &argv, env, cwd, mark, stdin: Stdin::Pipe };
        let child = process::spawn(&spec).map_err(|error| failed(error.to_string()))?;
        Ok(Session { child, interrupt, partial: Vec::new(), lines: Vec::new(), noise: Vec::new(), last_id: 0 })
    }

    /// The gateway's process.
    pub(super) fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Every line so far.
    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// A request of the modern era, not sent yet. `members` of its params, as JSON text.
    pub(super) fn request(&mut self, method: &str, members: &str) -> Request {
        self.last_id += 1;
        let separator = if members.is_empty() { "" } else { "," };
        let params = format!("{{{members}{separator}{META}}}");
        let line = format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":{params}}}"#, self.last_id);
        Request { id: self.last_id, line }
    }

    /// A `tools/call`, not sent yet.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Request {
        self.request("tools/call", &format!(r#""name":"{tool}","arguments":{arguments}"#))
    }

    /// Sends bytes, all of them.
    pub(super) fn send(&mut self, text: &str) -> Result<(), Trouble> {
        let (until, mut rest) = (Instant::now() + PATIENCE, text.as_bytes());
        while !rest.is_empty() {
            let Some(stdin) = &self.child.stdin else { return Err(self.gone("it could be sent a line")) };
            match sys::write(stdin.as_fd(), &[IoSlice::new(rest)]) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.interrupt.wait(vec![Poll::writable(stdin.as_fd())], until)? {
                        return Err(Trouble::Gateway(format!("it has read nothing for {PATIENCE:?}")));
                    }
                }
                Err(_) => {
                    self.child.stdin = None;
                    // What it said and how it ended is still to be heard.
                    self.wait_for("end of it", &[], |_| false)?;
                    return Err(self.gone("it could be sent a line"));
                }
            }
        }
        Ok(())
    }

    /// Sends a request and waits for its reply.
    pub(super) fn ask(&mut self, request: &Request) -> Result<String, Trouble> {
        self.send(&format!("{}\n", request.line))?;
        self.reply(request.id)
    }

    /// The reply to request `id`.
    pub(super) fn reply(&mut self, id: u64) -> Result<String, Trouble> {
        self.wait_for(&format!("reply to request {id}"), &[], |session| session.find(id).is_some())?;
        self.find(id).map(str::to_owned).ok_or_else(|| self.gone(&format!("it answered request {id}")))
    }

    /// The line that answers request `id`, if it came.
    pub(super) fn find(&self, id: u64) -> Option<&str> {
        find(&self.lines, id)
    }

    /// Waits until `is_there`, or the gateway has ended: false then. `others` wake it as well. `what` is for the complaint.
    pub(super) fn wait_for(
        &mut self,
        what: &str,
        others: &[BorrowedFd<'_>],
        mut is_there: impl FnMut(&Self) -> bool,
    ) -> Result<bool, Trouble> {
        let until = Instant::now() + PATIENCE;
        loop {
            if is_there(self) {
                return Ok(true);
            }
            if self.is_over() {
                return Ok(false);
            }
            if !self.pump(others, until)? {
                return Err(Trouble::Gateway(format!("no {what} within {PATIENCE:?}")));
            }
        }
    }

    /// Closes stdin, waits for the end, and reaps.
    pub(super) fn finish(mut self) -> Result<Ended, Fault> {
        self.child.stdin = None;
        let in_time = match self.wait_for("end of it", &[], |_| false) {
            Ok(_) => true,
            Err(Trouble::Gateway(_)) => false,
            Err(Trouble::Fault(fault)) => return Err(fault),
        };
        let status = self.child.end(PATIENCE).status.filter(|_| in_time);
        Ok(Ended { status, lines: self.lines, stderr: String::from_utf8_lossy(&self.noise).into_owned() })
    }

    /// Whether it has ended and everything it said was read.
    fn is_over(&mut self) -> bool {
        self.child.has_ended() && self.child.stdout.is_none() && self.child.stderr.is_none()
    }

    /// Waits for news and takes them; false once `until` has come.
    fn pump(&mut self, others: &[BorrowedFd<'_>], until: Instant) -> Result<bool, Trouble> {
        let pipes = [&self.child.stdout, &self.child.stderr].into_iter().flatten().map(AsFd::as_fd);
        let fds = pipes.chain(self.child.exits()).chain(others.iter().copied()).map(Poll::readable).collect();
        let in_time = self.interrupt.wait(fds, until)?;
        take(&mut self.child.stdout, &mut self.partial);
        take(&mut self.child.stderr, &mut self.noise);
        self.child.has_ended();
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.lines.push(String::from_utf8_lossy(&line[..end]).into_owned());
        }
        if self.child.stdout.is_none() && !self.partial.is_empty() {
            self.lines.push(String::from_utf8_lossy(&std::mem::take(&mut self.partial)).into_owned());
        }
        Ok(in_time)
    }

    fn gone(&self, before: &str) -> Trouble {
        let said = String::from_utf8_lossy(&self.noise);
        let last = said.lines().rfind(|line| !line.starts_with('{')).unwrap_or("nothing");
        Trouble::Gateway(format!("it ended before {before}; it told its operator: {last}"))
    }
}

/// The line that answers request `id`.
pub(super) fn find(lines: &[String], id: u64) -> Option<&str> {
    let is_it = |line: &&String| {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        message["id"] == id && message.get("method").is_none()
    };
    lines.iter().find(is_it).map(String::as_str)
}

/// Takes what is there, within bounds; the pipe is gone once it has ended.
fn take(pipe: &mut Option<OwnedFd>, kept: &mut Vec<u8>) {
    let mut chunk = [0; 4096];
    for _ in 0..CHUNKS {
        let Some(fd) = pipe else { return };
        match sys::read(fd.as_fd(), &mut chunk) {
            Ok(length) if length > 0 => {
                let room = KEPT_BYTES.saturating_sub(kept.len());
                kept.extend_from_slice(&chunk[..length.min(room)]);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return,
            Ok(_) | Err(_) => *pipe = None,
        }
    }
}
