//! Takes descriptors 0, 1 and 2 before anything else runs, and reads and writes the real ones without ever hanging.
//!
//! After `take`, descriptor 0 is the null device and descriptors 1 and 2 are a pipe of ours: no print, panic, C library or
//! child can read or write a protocol byte. A pipe is reopened non-blocking through /proc/self/fd (its open file description
//! is then ours alone), a socket is used with MSG_DONTWAIT, anything else is polled and written at most 4 KiB at a time.

use std::fs::File;
use std::io::{self, IoSlice, IsTerminal, PipeReader};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use crate::limits::BLOCKING_WRITE_BYTES;
use crate::sys::{self, Kind, Poll, StandardFd};

/// How a descriptor is used without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The description is ours and non-blocking.
    Nonblocking,
    /// A socket: per call.
    Socket,
    /// A regular file: never waits for a peer.
    File,
    /// Polled first; writes are small.
    Polled,
}

/// The protocol's input.
pub struct Input {
    fd: OwnedFd,
    way: Way,
}

/// The protocol's output.
pub struct Output {
    fd: OwnedFd,
    way: Way,
}

/// Opens the same pipe again with a description of our own, which can be made non-blocking without touching the peer's.
fn reopen(fd: BorrowedFd<'_>, write: bool) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    if !write && !std::fs::read_link(&path)?.as_os_str().as_encoded_bytes().starts_with(b"pipe:") {
        // A FIFO opened when its last writer has left never tells poll(2) of the end of file.
        return Err(io::ErrorKind::Unsupported.into());
    }
    let file = File::options().read(!write).write(write).custom_flags(sys::OPEN_NONBLOCKING).open(path)?;
    Ok(file.into())
}

fn settle(fd: OwnedFd, write: bool) -> io::Result<(OwnedFd, Way)> {
    Ok(match sys::identity(fd.as_fd())?.kind {
        // A pipe of another user, and a FIFO to read, are not opened again; they still work, polled.
        Kind::Pipe => match reopen(fd.as_fd(), write) {
            Ok(own) => (own, Way::Nonblocking),
            Err(_) => (fd, Way::Polled),
        },
        Kind::Socket => (fd, Way::Socket),
        Kind::File => (fd, Way::File),
        Kind::Device => (fd, Way::Polled),
    })
}

fn is_ready(poll: Poll<'_>) -> io::Result<bool> {
    let mut fds = [poll];
    sys::poll(&mut fds, Some(Duration::ZERO))?;
    Ok(fds[0].is_ready())
}

impl Input {
    /// Uses `fd` as input, whatever kind of file it is.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        settle(fd, false).map(|(fd, way)| Input { fd, way })
    }

    /// For polling.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Reads what is there; `Ok(0)` is end of file, `WouldBlock` means nothing is there yet.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.way {
            Way::Nonblocking | Way::File => sys::read(self.fd(), buffer),
            Way::Socket => sys::receive_nowait(self.fd(), buffer),
            Way::Polled if is_ready(Poll::readable(self.fd()))? => sys::read(self.fd(), buffer),
            Way::Polled => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Output {
    /// Uses `fd` as output, whatever kind of file it is.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        settle(fd, true).map(|(fd, way)| Output { fd, way })
    }

    /// For polling.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Writes what the peer takes now; `WouldBlock` means nothing.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.way {
            Way::Nonblocking | Way::File => sys::write(self.fd(), parts),
            Way::Socket => sys::send_nowait(self.fd(), parts),
            Way::Polled if is_ready(Poll::writable(self.fd()))? => {
                let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
                sys::write(self.fd(), &[IoSlice::new(&first[..first.len().min(BLOCKING_WRITE_BYTES)])])
            }
            Way::Polled => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// The descriptors the process was started with, taken.
pub struct Taken {
    /// The real stdin.
    pub input: Input,
    /// The real stdout.
    pub output: Output,
    /// What `log` drains: everything written to descriptors 1 and 2 from now on.
    pub noise: PipeReader,
    /// The real stderr.
    pub stderr: Output,
    /// Whether the real stderr is the same pipe, socket or file as the real stdout, so that nothing may be written to it.
    pub is_merged: bool,
}

/// Why the descriptors could not be taken.
#[derive(Debug)]
pub struct NotTaken {
    /// What the system said.
    pub error: io::Error,
    /// Whether descriptor 2 is the real stderr again, with room for a last line; false if that could be the protocol stream.
    pub may_tell: bool,
}

/// Takes the three descriptors. Call first of all in a command that speaks the protocol, once. Fails without room for
/// descriptors.
pub fn take() -> Result<Taken, NotTaken> {
    // What cannot be taken is still in its place.
    let (in_place, err_in_place) = (io::stdout(), io::stderr());
    let stdout = sys::take_stdout().map_err(|error| not_taken(error, in_place.as_fd(), err_in_place.as_fd()))?;
    let stderr = sys::take_stderr().map_err(|error| not_taken(error, stdout.as_fd(), err_in_place.as_fd()))?;
    replace(stdout.as_fd(), stderr.as_fd()).map_err(|error| not_taken(error, stdout.as_fd(), stderr.as_fd()))
}

fn replace(stdout: BorrowedFd<'_>, stderr: BorrowedFd<'_>) -> io::Result<Taken> {
    let is_merged = is_same(stdout, stderr)?;
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let (stdout, stderr) = (stdout.try_clone_to_owned()?, stderr.try_clone_to_owned()?);
    let (noise, writer) = io::pipe()?;
    sys::redirect(sys::null_device()?.as_fd(), StandardFd::Stdin)?;
    sys::redirect(writer.as_fd(), StandardFd::Stdout)?;
    sys::redirect(writer.as_fd(), StandardFd::Stderr)?;
    sys::close_on_exec_above_2();
    Ok(Taken { input: Input::new(stdin)?, output: Output::new(stdout)?, noise, stderr: Output::new(stderr)?, is_merged })
}

/// Lets descriptor 2 be the real stderr again, if that is not the protocol stream and has room for a line.
fn not_taken(error: io::Error, stdout: BorrowedFd<'_>, stderr: BorrowedFd<'_>) -> NotTaken {
    let is_free = is_same(stdout, stderr).is_ok_and(|same| !same) && is_ready(Poll::writable(stderr)).unwrap_or(false);
    NotTaken { error, may_tell: is_free && sys::redirect(stderr, StandardFd::Stderr).is_ok() }
}

/// Whether stderr is the protocol stream.
fn is_same(stdout: BorrowedFd<'_>, stderr: BorrowedFd<'_>) -> io::Result<bool> {
    let same = sys::identity(stdout)? == sys::identity(stderr)?;
    Ok(same && !stdout.is_terminal() && !is_null(stdout))
}

fn is_null(fd: BorrowedFd<'_>) -> bool {
    let null = sys::null_device().and_then(|null| sys::identity(null.as_fd()));
    sys::identity(fd).is_ok_and(|identity| null.is_ok_and(|null| null == identity))
}

/// Lets go of descriptors 1 and 2: what is printed from now on (exit handlers, destructors) goes nowhere and waits for nobody.
pub fn let_go() {
    if let Ok(null) = sys::null_device() {
        let _ = sys::redirect(null.as_fd(), StandardFd::Stdout);
        let _ = sys::redirect(null.as_fd(), StandardFd::Stderr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_full_pipe_or_socket_never_hangs_the_writer() {
        let (reader, writer) = io::pipe().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        for output in [Output::new(writer.into()).unwrap(), Output::new(near.into()).unwrap()] {
            let chunk = vec![b'x'; 64 << 10];
            let full = (0..10_000).find_map(|_| output.write(&[IoSlice::new(&chunk)]).err()).unwrap();
            assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        }
        drop((reader, far));
    }

    #[test]
    fn the_peer_keeps_its_blocking_description() {
        let (reader, writer) = io::pipe().unwrap();
        let copy = reader.try_clone().unwrap();
        let input = Input::new(reader.into()).unwrap();
        assert_eq!(input.read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let flags = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", copy.as_raw_fd())).unwrap();
        let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim().to_owned();
        assert_eq!(i32::from_str_radix(&flags, 8).unwrap() & libc::O_NONBLOCK, 0);
        drop(writer);
    }

    #[test]
    fn end_of_file_is_told_from_nothing_there() {
        let (reader, mut writer) = io::pipe().unwrap();
        let input = Input::new(reader.into()).unwrap();
        writer.write_all(b"ab").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(input.read(&mut buffer).unwrap(), 2);
        assert_eq!(input.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(writer);
        assert_eq!(input.read(&mut buffer).unwrap(), 0);
    }
}
