//! Runs a script: against a gateway in this process, whose every read is exactly one write, or against the real binary.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};

use tidegate::clock::Clock;
use tidegate::config::Config;
use tidegate::executor::Hands;
use tidegate::executor::recorder::Recorder;
use tidegate::gateway::assemble::assemble;
use tidegate::wire::stdio::{Input, Output};

use super::model::{Id, Model};
use super::mutate::Script;
use super::tools;
use super::verdict::{Seen, id_of};
use crate::kit::PATIENCE;
use crate::kit::gateway::Gateway;

/// Both ends of a session: where the script goes and where lines come from.
struct Ends<W> {
    to: W,
    from: BufReader<UnixStream>,
    stdout: Vec<u8>,
}

/// A way to the gateway.
pub trait Wire {
    /// Sends one piece; whether anybody took it is not asked: a closed session takes nothing.
    fn put(&mut self, piece: &[u8]);
}

impl Wire for UnixDatagram {
    fn put(&mut self, piece: &[u8]) {
        let _ = self.send(piece);
    }
}

impl Wire for std::io::PipeWriter {
    fn put(&mut self, piece: &[u8]) {
        let _ = self.write_all(piece);
    }
}

impl<W: Wire> Ends<W> {
    /// Sends a script and brings the model to the same point.
    fn play(&mut self, script: &Script, model: &mut Model) -> Result<(), String> {
        for write in &script.writes {
            // A write is cut only where the test has to wait inside it.
            let mut piece = Vec::new();
            for part in write.split_inclusive(|byte| *byte == b'\n') {
                piece.extend_from_slice(part);
                if let Some((id, count)) = model.line(part) {
                    self.to.put(&std::mem::take(&mut piece));
                    self.wait_for(&id, count)?;
                }
            }
            if !piece.is_empty() {
                self.to.put(&piece);
            }
        }
        model.end();
        Ok(())
    }

    fn wait_for(&mut self, id: &Id, count: usize) -> Result<(), String> {
        let seen = self.stdout.split(|byte| *byte == b'\n').filter(|line| is_for(line, id)).count();
        for _ in seen..count {
            loop {
                let mut line = Vec::new();
                match self.from.read_until(b'\n', &mut line) {
                    Ok(0) => return Err(format!("stdout ended before reply {count} to {id:?}")),
                    Err(error) => return Err(format!("no reply {count} to {id:?}: {error}")),
                    Ok(_) => self.stdout.extend_from_slice(&line),
                }
                if is_for(line.strip_suffix(b"\n").unwrap_or(&line), id) {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl<W> Ends<W> {
    /// All of stdout, once it has ended.
    fn rest(mut self) -> Result<Vec<u8>, String> {
        self.from.read_to_end(&mut self.stdout).map_err(|error| format!("stdout: {error}"))?;
        Ok(self.stdout)
    }
}

fn is_for(line: &[u8], id: &Id) -> bool {
    std::str::from_utf8(line).is_ok_and(|line| id_of(line).as_ref() == Some(id))
}

/// Runs sessions in this process, one after the other.
pub struct Memory {
    record: File,
}

impl Memory {
    /// `record` is created, and emptied for each session.
    pub fn new(record: &Path) -> Memory {
        let record = OpenOptions::new().create(true).append(true).read(true).open(record).unwrap();
        Memory { record }
    }

    pub fn run(&mut self, script: &Script, model: &mut Model) -> Result<Seen, String> {
        let parsed = Config::parse(Path::new("/attacks.json"), &tools::config(script.mode.name()), &|_| None);
        self.record.set_len(0).unwrap();
        let recorder = Recorder::new(Some(self.record.try_clone().unwrap()));
        let moment = UNIX_EPOCH + Duration::from_secs(1_785_456_000);
        let assembled = assemble(parsed.unwrap(), Hands::Recorder(recorder), Clock::Fixed(moment), None).unwrap();
        let (to, far) = UnixDatagram::pair().unwrap();
        let (from, far_out) = UnixStream::pair().unwrap();
        to.set_write_timeout(Some(PATIENCE)).unwrap();
        from.set_read_timeout(Some(PATIENCE)).unwrap();
        let reader = assembled.start(Input::new(far.into()).unwrap(), Output::new(far_out.into()).unwrap()).unwrap();
        let session = std::thread::spawn(move || i32::from(reader.run().exit_code()));
        let mut ends = Ends { to, from: BufReader::new(from), stdout: Vec::new() };
        let played = ends.play(script, model);
        // An empty datagram reads as the end of the file.
        ends.to.put(b"");
        let exit = session.join().map_err(|_| "the session panicked".to_owned())?;
        let stdout = ends.rest()?;
        played.map_err(|why| format!("{why}\nstdout: {}", stdout.escape_ascii()))?;
        let mut record = String::new();
        self.record.rewind().unwrap();
        self.record.read_to_string(&mut record).unwrap();
        Ok(Seen { stdout, record, exit })
    }
}

/// Runs one session through the real binary: stdin is a pipe, stdout a socket that can be read with a time limit.
pub fn run_binary(script: &Script, model: &mut Model) -> Result<Seen, String> {
    let gateway = Gateway::new();
    let record = gateway.dir().join("record");
    let config = gateway.dir().write("attacks.json", tools::config(script.mode.name()));
    let mut gateway = gateway.args(["--config".into(), config, "--dry-run".into(), "--record".into(), record.clone()]);
    let (stdin, to) = std::io::pipe().unwrap();
    let (from, stdout) = UnixStream::pair().unwrap();
    from.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = gateway.command();
    command.stdin(stdin).stdout(OwnedFd::from(stdout)).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // The command holds the gateway's ends.
    drop(command);
    let mut ends = Ends { to, from: BufReader::new(from), stdout: Vec::new() };
    let played = ends.play(script, model);
    let Ends { to, from, stdout } = ends;
    drop(to);
    let rest = Ends { to: (), from, stdout }.rest();
    if rest.is_err() {
        let _ = child.kill();
    }
    let exit = child.wait().unwrap().code().unwrap_or(-1);
    let stdout = rest?;
    played.map_err(|why| format!("{why}\nstdout: {}", stdout.escape_ascii()))?;
    Ok(Seen { stdout, record: std::fs::read_to_string(record).unwrap_or_default(), exit })
}
