//! The test's end of a gateway's stdout: read at once, held back, read in small pieces, or closed, whenever the test says so.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tidegate::sys::{self, Poll};

/// What is done with the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Hold,
    Close,
}

/// Owns the thread that reads the stream.
pub struct Tap {
    mode: Arc<Mutex<Mode>>,
    bell: PipeWriter,
    thread: JoinHandle<()>,
}

impl Tap {
    /// Reads `chunk` bytes at a time; keeps all of them in `raw` and sends each line. `is_held`: only once told to.
    pub fn start(stream: PipeReader, chunk: usize, is_held: bool, raw: Arc<Mutex<Vec<u8>>>, lines: Sender<String>) -> Tap {
        let mode = Arc::new(Mutex::new(if is_held { Mode::Hold } else { Mode::Read }));
        let (rung, bell) = std::io::pipe().unwrap();
        let watched = mode.clone();
        let thread = std::thread::spawn(move || run(stream, &rung, chunk, &watched, &raw, &lines));
        Tap { mode, bell, thread }
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
        // The thread ends by itself at the end of the stream.
        let _ = (&self.bell).write_all(&[1]);
    }

    /// Reads from now on.
    pub fn read_on(&self) {
        self.set(Mode::Read);
    }

    /// Leaves unread what comes from now on.
    pub fn hold(&self) {
        self.set(Mode::Hold);
    }

    /// Closes the stream.
    pub fn close(&self) {
        self.set(Mode::Close);
    }

    /// Waits for the end of the stream, reading what was held back.
    pub fn finish(self) {
        if *self.mode.lock().unwrap() == Mode::Hold {
            self.read_on();
        }
        self.thread.join().unwrap();
    }
}

fn run(
    mut stream: PipeReader,
    mut rung: &PipeReader,
    chunk: usize,
    mode: &Mutex<Mode>,
    raw: &Mutex<Vec<u8>>,
    lines: &Sender<String>,
) {
    let (mut buffer, mut line) = (vec![0; chunk], Vec::new());
    loop {
        let mode = *mode.lock().unwrap();
        let mut fds = vec![Poll::readable(rung.as_fd())];
        match mode {
            Mode::Close => return,
            Mode::Hold => {}
            Mode::Read => fds.push(Poll::readable(stream.as_fd())),
        }
        sys::poll(&mut fds, None).unwrap();
        let (is_told, is_readable) = (fds[0].is_ready(), fds.get(1).is_some_and(Poll::is_ready));
        drop(fds);
        if is_told {
            rung.read_exact(&mut [0]).unwrap();
        } else if is_readable {
            let count = stream.read(&mut buffer).unwrap();
            if count == 0 {
                return;
            }
            raw.lock().unwrap().extend_from_slice(&buffer[..count]);
            for piece in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if line.ends_with(b"\n") {
                    let _ = lines.send(String::from_utf8_lossy(&line).into_owned());
                    line.clear();
                }
            }
        }
    }
}
