//! The stderr sink: everything printed to descriptors 1 and 2 is drained here and becomes operator lines on the real stderr.
//!
//! Each line is bounded, escaped, redacted, and written only if stderr takes it now: full or closed, it is dropped and
//! counted. So no print of ours, of a library or of a panic can hang the gateway or carry a secret or a terminal sequence out.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, IoSlice, PipeReader, Read, Write as _};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cancel::{CancelToken, Why};
use crate::clock::Clock;
use crate::limits::{OPERATOR_LINE_BYTES, READ_BYTES, SECRET_BYTES_MAX};
use crate::secret::Redactor;
use crate::sys::{self, Poll};
use crate::thread::{self, Thread};
use crate::wire::stdio::Output;

/// What a pipe holds unless somebody asked for more; nobody does for ours.
const PIPE_BYTES: usize = 64 << 10;

/// Of a line kept until its end: what is shown, and any secret that begins in it, in the longest form it is known by.
const HELD_BYTES: usize = OPERATOR_LINE_BYTES + 4 * SECRET_BYTES_MAX;

/// Owns the sink's thread; `finish` drains what is left and joins it.
pub struct Operator {
    shared: Arc<Shared>,
    stop: CancelToken,
    thread: Option<Thread>,
}

/// What other threads may know and set of the sink.
pub struct Shared {
    redactor: Mutex<Arc<Redactor>>,
    dropped: AtomicU64,
    why_muted: Option<&'static str>,
    file: Mutex<Option<LogFile>>,
}

/// The log file; a full disk is told once on stderr and silences nothing there.
struct LogFile {
    file: std::fs::File,
    is_failing: bool,
}

impl Shared {
    /// From now on every line goes to this file as well, as it goes to stderr.
    pub fn set_file(&self, file: std::fs::File) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(LogFile { file, is_failing: false });
    }

    /// From now on these values are redacted.
    pub fn set_redactor(&self, redactor: Arc<Redactor>) {
        *self.redactor.lock().unwrap_or_else(PoisonError::into_inner) = redactor;
    }

    /// Lines that stderr did not take.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Why nothing is written to stderr, if nothing is.
    pub fn why_muted(&self) -> Option<&'static str> {
        self.why_muted
    }
}

/// Starts the sink. `is_merged`: stderr is the protocol stream, so nothing may be written to it. Fails without room for a
/// descriptor or a thread, and has then said so itself: nobody else could.
pub fn start(noise: PipeReader, stderr: Output, is_merged: bool) -> io::Result<Operator> {
    let stderr = Arc::new(stderr);
    start_drain(noise, stderr.clone(), is_merged).inspect_err(|error| {
        if !is_merged {
            let _ = stderr.write(&[IoSlice::new(format!("tidegate: stderr cannot be used: {error}\n").as_bytes())]);
        }
    })
}

fn start_drain(noise: PipeReader, stderr: Arc<Output>, is_merged: bool) -> io::Result<Operator> {
    let shared = Arc::new(Shared {
        redactor: Mutex::new(Arc::new(Redactor::none())),
        dropped: AtomicU64::new(0),
        why_muted: is_merged.then_some("stdout and stderr are the same file"),
        file: Mutex::new(None),
    });
    let stop = CancelToken::new()?;
    sys::set_nonblocking(noise.as_fd())?;
    let drain = Drain { noise, stderr, shared: shared.clone(), line: Vec::new(), cut: 0 };
    let watched = stop.clone();
    let thread = thread::spawn("tg-stderr", move || drain.run(&watched))?;
    Ok(Operator { shared, stop, thread: Some(thread) })
}

impl Operator {
    /// What other threads may know and set.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Writes what was printed so far and ends the thread.
    pub fn finish(mut self) {
        self.stop.cancel(Why::SessionEnd);
        drop(self.thread.take());
    }
}

struct Drain {
    noise: PipeReader,
    stderr: Arc<Output>,
    shared: Arc<Shared>,
    line: Vec<u8>,
    cut: u64,
}

impl Drain {
    fn run(mut self, stop: &CancelToken) {
        let mut buffer = vec![0; READ_BYTES];
        // What was printed before the stop fits into the pipe; a child that inherited it may print for ever.
        let mut last = PIPE_BYTES;
        while last > 0 {
            let is_stopped = stop.is_cancelled();
            match self.noise.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    self.take(&buffer[..count]);
                    last = last.saturating_sub(if is_stopped { count } else { 0 });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if is_stopped {
                        break;
                    }
                    let mut fds = [Poll::readable(self.noise.as_fd()), Poll::readable(stop.wake_fd())];
                    let _ = sys::poll(&mut fds, None);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if !self.line.is_empty() {
            self.end_line();
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            let room = HELD_BYTES - self.line.len();
            let kept = text.len().min(room);
            self.line.extend_from_slice(&text[..kept]);
            self.cut += (text.len() - kept) as u64;
            if ends {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let redactor = self.shared.redactor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Redacted before it is cut: of a secret that the cut divides, the first half would be shown.
        let clean = redactor.bytes(&self.line);
        let shown = &clean[..clean.len().min(OPERATOR_LINE_BYTES)];
        let cut = self.cut + (clean.len() - shown.len()) as u64;
        let mut line = escape(&String::from_utf8_lossy(shown));
        if cut > 0 {
            let _ = write!(line, " [{cut} bytes cut]");
        }
        line.push('\n');
        self.line.clear();
        self.line.shrink_to(OPERATOR_LINE_BYTES);
        self.cut = 0;
        self.write(&line);
    }

    fn write(&self, line: &str) {
        if let Some(file) = self.shared.file.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            let result = file.file.write_all(line.as_bytes());
            if let (Err(error), false) = (&result, file.is_failing) {
                self.write_stderr(&format!("tidegate: the log file cannot be written: {error}\n"));
            }
            file.is_failing = result.is_err();
        }
        self.write_stderr(line);
    }

    fn write_stderr(&self, line: &str) {
        let is_written = self.shared.why_muted.is_none()
            && self.stderr.write(&[IoSlice::new(line.as_bytes())]).is_ok_and(|count| count == line.len());
        if !is_written {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Makes control characters visible: nothing printed here can drive a terminal.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\t' => out.push('\t'),
            _ if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out
}

/// One operator line, past any level. Never fails and never waits for the reader of stderr.
pub fn operator_line(line: &str) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `TIME LEVEL message`.
    Text,
    /// One JSON object: `{"ts", "level", "target", "message"}`.
    Json,
}

/// Sets up `log`: level `level` for ours, warnings at most for libraries; RUST_LOG overrides the first, never the second.
pub fn init(level: log::LevelFilter, format: Format, clock: Clock) {
    let mut builder = env_logger::Builder::new();
    builder.filter_level(log::LevelFilter::Warn).filter_module("tidegate", level);
    let asked = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<log::LevelFilter>().ok());
    builder.filter_module("tidegate", asked.unwrap_or(level));
    builder.format(move |out, record| {
        let (time, level, target, message) = (clock.now_text(), record.level(), record.target(), record.args());
        match format {
            Format::Text => writeln!(out, "{time} {level} {message}"),
            Format::Json => {
                let line =
                    serde_json::json!({"ts": time, "level": level.as_str(), "target": target, "message": message.to_string()});
                writeln!(out, "{line}")
            }
        }
    });
    builder.target(env_logger::Target::Stderr);
    // A second initialisation (tests) keeps the first.
    let _ = builder.try_init();
}

/// Replaces the panic hook: one operator line with the place, never the text, which may hold payload.
pub fn hook_panics() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        log::error!("a fault of tidegate itself in {} at {place}", thread.name().unwrap_or("a thread"));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn sink(is_merged: bool) -> (Operator, io::PipeWriter, PipeReader) {
        let (noise, writer) = io::pipe().unwrap();
        let (reader, stderr) = io::pipe().unwrap();
        (start(noise, Output::new(stderr.into()).unwrap(), is_merged).unwrap(), writer, reader)
    }

    #[track_caller]
    fn check_line(input: &[u8], expected: &str) {
        let (operator, mut writer, mut reader) = sink(false);
        writer.write_all(input).unwrap();
        operator.finish();
        let mut got = String::new();
        reader.read_to_string(&mut got).unwrap();
        assert_eq!(got, expected);
    }

    #[test]
    fn lines_are_bounded_escaped_and_whole_r071() {
        check_line(b"plain\nsecond\n", "plain\nsecond\n");
        check_line(b"no line feed", "no line feed\n");
        check_line(b"\x1b[2Jcleared\x07\xc2\x9b\r\n", "\\u001b[2Jcleared\\u0007\\u009b\\u000d\n");
        check_line(b"\xff\n", "\u{fffd}\n");
        let long = [vec![b'x'; OPERATOR_LINE_BYTES + 5], b"\n".to_vec()].concat();
        check_line(&long, &format!("{} [5 bytes cut]\n", "x".repeat(OPERATOR_LINE_BYTES)));
    }

    #[test]
    fn a_reader_that_never_reads_hangs_nobody() {
        let (operator, mut writer, reader) = sink(false);
        let line = [vec![b'x'; 999], b"\n".to_vec()].concat();
        (0..1000).for_each(|_| writer.write_all(&line).unwrap());
        let shared = operator.shared().clone();
        operator.finish();
        assert!(shared.dropped() > 0);
        assert!(reader.as_raw_fd() > 2);
    }

    #[test]
    fn a_print_without_end_does_not_keep_the_sink() {
        let (noise, mut writer) = io::pipe().unwrap();
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let operator = start(noise, Output::new(null.into()).unwrap(), true).unwrap();
        let (begun_tx, begun) = crossbeam_channel::bounded(1);
        let flood = move || {
            while writer.write_all(&[b'x'; 4096]).is_ok() {
                let _ = begun_tx.try_send(());
            }
        };
        let flood = thread::spawn("tg-test", flood).unwrap();
        begun.recv().unwrap();
        operator.finish();
        assert!(flood.join());
    }

    #[test]
    fn nothing_is_written_where_stderr_is_the_protocol_stream() {
        let (operator, mut writer, mut reader) = sink(true);
        writer.write_all(b"noise\n").unwrap();
        let shared = operator.shared().clone();
        operator.finish();
        let mut got = String::new();
        reader.read_to_string(&mut got).unwrap();
        assert_eq!((got.as_str(), shared.dropped()), ("", 1));
    }
}
