//! The gateway on an in-memory pair: the same assembly on two socket pairs, the clock held still, actions recorded.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use tidegate::clock::Clock;
use tidegate::config::Config;
use tidegate::executor::Hands;
use tidegate::executor::recorder::Recorder;
use tidegate::gateway::assemble::assemble;
use tidegate::gateway::session::Cause;
use tidegate::wire::stdio::{Input, Output};

use super::PATIENCE;

/// A gateway in this process.
pub struct Memory {
    near: UnixStream,
    lines: BufReader<UnixStream>,
    session: Option<JoinHandle<Cause>>,
}

impl Memory {
    /// Starts one that records instead of acting.
    pub fn start(config: Config) -> Memory {
        let moment = UNIX_EPOCH + Duration::from_secs(1_785_456_000);
        let hands = Hands::Recorder(Recorder::new(None));
        let assembled = assemble(config, hands, Clock::Fixed(moment), None).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let (out, far_out) = UnixStream::pair().unwrap();
        out.set_read_timeout(Some(PATIENCE)).unwrap();
        let (input, output) = (Input::new(far.into()).unwrap(), Output::new(far_out.into()).unwrap());
        let reader = assembled.start(input, output).unwrap();
        let session = std::thread::spawn(move || reader.run());
        Memory { near, lines: BufReader::new(out), session: Some(session) }
    }

    /// Sends one line.
    pub fn send(&mut self, line: &str) {
        self.near.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line, without its line feed; `None` at the end.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.lines.read_line(&mut line).expect("a line in time");
        (count > 0).then(|| line.trim_end_matches('\n').to_owned())
    }

    /// Closes the input and returns why the session ended, with the lines that were still unread.
    pub fn end(mut self) -> (Cause, Vec<String>) {
        self.near.shutdown(std::net::Shutdown::Write).unwrap();
        let cause = self.session.take().unwrap().join().unwrap();
        (cause, std::iter::from_fn(|| self.line()).collect())
    }
}
