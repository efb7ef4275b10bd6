//! The only unsafe code: safe wrappers over the libc calls that std does not offer.
//!
//! Every wrapper owns or borrows its descriptors by type, returns `io::Result`, and retries on EINTR where the call may be
//! repeated. Nothing here knows what a descriptor is for.
#![expect(unsafe_code, reason = "the one home of libc calls; each block says why it is sound")]

#[cfg(feature = "ssh")]
pub mod ssh;
pub mod turns;

use std::fs::File;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use libc::c_int;

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// One descriptor in a `poll`, with what is awaited and what came.
pub struct Poll<'a> {
    fd: BorrowedFd<'a>,
    events: i16,
    came: i16,
}

impl<'a> Poll<'a> {
    /// Waits for bytes, end of file or an error.
    pub fn readable(fd: BorrowedFd<'a>) -> Self {
        Poll { fd, events: libc::POLLIN, came: 0 }
    }

    /// Waits for room, or an error.
    pub fn writable(fd: BorrowedFd<'a>) -> Self {
        Poll { fd, events: libc::POLLOUT, came: 0 }
    }

    /// Waits only for an error or a hang-up.
    pub fn broken(fd: BorrowedFd<'a>) -> Self {
        Poll { fd, events: 0, came: 0 }
    }

    /// Whether anything came, errors and hang-ups included.
    pub fn is_ready(&self) -> bool {
        self.came != 0
    }

    /// Whether the descriptor is in error or hung up (for a pipe's write end: the reader is gone).
    pub fn is_broken(&self) -> bool {
        self.came & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0
    }
}

/// poll(2). `None` waits for ever. A signal counts as a time-out of zero length; callers loop.
pub fn poll(fds: &mut [Poll<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let mut raw: Vec<libc::pollfd> =
        fds.iter().map(|poll| libc::pollfd { fd: poll.fd.as_raw_fd(), events: poll.events, revents: 0 }).collect();
    let wait = timeout.map(|wait| libc::timespec {
        tv_sec: libc::time_t::try_from(wait.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(wait.subsec_nanos().cast_signed()),
    });
    let wait = wait.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `raw` is a live array of its own length, `wait` null or a live timespec, no signal mask.
    let result = unsafe { libc::ppoll(raw.as_mut_ptr(), raw.len() as libc::nfds_t, wait, std::ptr::null()) };
    match checked(result) {
        Ok(_) => fds.iter_mut().zip(&raw).for_each(|(poll, raw)| poll.came = raw.revents),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => fds.iter_mut().for_each(|poll| poll.came = 0),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// What kind of file a descriptor is; decides how it can be used without hanging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A pipe or FIFO.
    Pipe,
    /// A socket of any family.
    Socket,
    /// A regular file.
    File,
    /// A terminal or another device.
    Device,
}

/// Device, inode and kind of the file behind a descriptor: two descriptors with equal `Identity` are the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    /// What kind of file it is.
    pub kind: Kind,
}

/// fstat(2).
pub fn identity(fd: BorrowedFd<'_>) -> io::Result<Identity> {
    // SAFETY: a zeroed stat is a valid out-parameter of its own type.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is borrowed for the call and `stat` is live.
    checked(unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) })?;
    let kind = match stat.st_mode & libc::S_IFMT {
        libc::S_IFIFO => Kind::Pipe,
        libc::S_IFSOCK => Kind::Socket,
        libc::S_IFREG => Kind::File,
        _ => Kind::Device,
    };
    Ok(Identity { device: stat.st_dev, inode: stat.st_ino, kind })
}

/// Makes the open file description behind `fd` non-blocking. Only for descriptions nobody else shares.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: F_GETFL and F_SETFL take no pointers.
    let flags = checked(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: as above.
    checked(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// sendmsg(2) that never waits and raises no signal. For sockets.
pub fn send_nowait(fd: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: a zeroed msghdr is valid: no address, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // IoSlice is ABI-compatible with iovec (std's guarantee); sendmsg does not write through it.
    message.msg_iov = parts.as_ptr().cast::<libc::iovec>().cast_mut();
    message.msg_iovlen = parts.len();
    // SAFETY: `message` and the slices it points to are live for the call.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// recv(2) that never waits. For sockets.
pub fn receive_nowait(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is live and as long as said.
    let got = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Starts a TCP connection without waiting; poll for `writable`, then look at `take_error`. The stream is non-blocking.
pub fn connect_start(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: socket takes no pointers.
    let fd = checked(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let stream = TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let result = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: `raw` is a live sockaddr_in of the size given.
            unsafe { libc::connect(fd, std::ptr::from_ref(&raw).cast(), size_of_val(&raw) as libc::socklen_t) }
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: `raw` is a live sockaddr_in6 of the size given.
            unsafe { libc::connect(fd, std::ptr::from_ref(&raw).cast(), size_of_val(&raw) as libc::socklen_t) }
        }
    };
    match checked(result) {
        Ok(_) => Ok(stream),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(stream),
        Err(error) => Err(error),
    }
}

/// Connects to the Unix socket at `path` without waiting: one whose queue is full fails with `WouldBlock`. Non-blocking,
/// close-on-exec.
pub fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let raw = unix_address(path)?;
    let fd = unix_socket()?;
    // SAFETY: `raw` is a live sockaddr_un of the size given.
    checked(unsafe { libc::connect(fd.as_raw_fd(), std::ptr::from_ref(&raw).cast(), size_of_val(&raw) as libc::socklen_t) })?;
    Ok(UnixStream::from(fd))
}

/// Listens on a new Unix socket at `path`, whose file has mode 0600 (less the umask) from the moment it exists; at most `queue`
/// connections wait to be accepted. Non-blocking, close-on-exec. Fails with `AddrInUse` where there is a file already; one that
/// was made before a failure stays.
pub fn listen_unix(path: &Path, queue: i32) -> io::Result<UnixListener> {
    let raw = unix_address(path)?;
    let fd = unix_socket()?;
    // Linux gives the file that bind makes the mode of the socket.
    // SAFETY: no pointers.
    checked(unsafe { libc::fchmod(fd.as_raw_fd(), 0o600) })?;
    // SAFETY: `raw` is a live sockaddr_un of the size given.
    checked(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&raw).cast(), size_of_val(&raw) as libc::socklen_t) })?;
    // SAFETY: no pointers.
    checked(unsafe { libc::listen(fd.as_raw_fd(), queue) })?;
    Ok(UnixListener::from(fd))
}

fn unix_socket() -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointers.
    let fd = checked(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn unix_address(path: &Path) -> io::Result<libc::sockaddr_un> {
    // SAFETY: a zeroed sockaddr_un is valid: an empty, terminated path.
    let mut raw: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    raw.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.len() >= raw.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no path of a Unix socket"));
    }
    raw.sun_path.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from as libc::c_char);
    Ok(raw)
}

/// SO_PEERCRED: the effective user id of the other end of a connected Unix socket, at the moment it connected or began to listen.
pub fn peer_user(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut size = size_of_val(&peer) as libc::socklen_t;
    let value = std::ptr::from_mut(&mut peer).cast();
    // SAFETY: `peer` is a live struct of the size given, `size` is live.
    checked(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, value, &mut size) })?;
    Ok(peer.uid)
}

/// SO_LINGER with zero: closing the socket resets the connection, and what was not yet sent never leaves.
pub fn reset_on_close(fd: BorrowedFd<'_>) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = size_of_val(&linger) as libc::socklen_t;
    let value = std::ptr::from_ref(&linger).cast();
    // SAFETY: `linger` is a live struct of the size given.
    checked(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, size) }).map(drop)
}

/// A signal a process group can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ask to end.
    Term,
    /// End.
    Kill,
}

impl Signal {
    fn number(self) -> c_int {
        match self {
            Signal::Term => libc::SIGTERM,
            Signal::Kill => libc::SIGKILL,
        }
    }
}

/// The POSIX name of a signal number, without `SIG`; its number as text where it has none.
pub fn signal_name(number: i32) -> String {
    const NAMES: &[(c_int, &str)] = &[
        (libc::SIGHUP, "HUP"),
        (libc::SIGINT, "INT"),
        (libc::SIGQUIT, "QUIT"),
        (libc::SIGILL, "ILL"),
        (libc::SIGTRAP, "TRAP"),
        (libc::SIGABRT, "ABRT"),
        (libc::SIGBUS, "BUS"),
        (libc::SIGFPE, "FPE"),
        (libc::SIGKILL, "KILL"),
        (libc::SIGUSR1, "USR1"),
        (libc::SIGSEGV, "SEGV"),
        (libc::SIGUSR2, "USR2"),
        (libc::SIGPIPE, "PIPE"),
        (libc::SIGALRM, "ALRM"),
        (libc::SIGTERM, "TERM"),
        (libc::SIGXCPU, "XCPU"),
        (libc::SIGXFSZ, "XFSZ"),
        (libc::SIGSYS, "SYS"),
    ];
    let known = NAMES.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

/// killpg(2). The caller guarantees that the group's leader is not yet reaped, or the number may belong to somebody else.
pub fn signal_group(group: i32, signal: Signal) -> io::Result<()> {
    assert!(group > 1, "group {group} is never ours");
    // SAFETY: no pointers.
    checked(unsafe { libc::killpg(group, signal.number()) }).map(drop)
}

/// pidfd_open(2): readable once the process has ended, reaped or not.
pub fn open_process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; flags 0.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = checked(RawFd::try_from(fd).unwrap_or(-1))?;
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// pidfd_send_signal(2): reaches exactly the process the descriptor was opened for, or fails with ESRCH.
pub fn signal_process(process: BorrowedFd<'_>, signal: Signal) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null siginfo is allowed; flags 0.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal.number(), none, 0) };
    checked(c_int::try_from(result).unwrap_or(-1)).map(drop)
}

/// waitid(2) on a pidfd, without waiting: takes the status of an ended child. `false` while it runs; ECHILD unless it is a
/// child of ours, be it one adopted because we are process 1 or a subreaper.
pub fn reap_process(process: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: a zeroed siginfo is a valid out-parameter of its own type.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let id = libc::id_t::try_from(process.as_raw_fd()).unwrap_or(libc::id_t::MAX);
    // SAFETY: the descriptor is borrowed for the call and `info` is live.
    checked(unsafe { libc::waitid(libc::P_PIDFD, id, &mut info, libc::WEXITED | libc::WNOHANG) })?;
    // SAFETY: waitid filled it, or left it zero because nothing has ended.
    Ok(unsafe { info.si_pid() } != 0)
}

/// getpgid(2): the process group of a process.
pub fn group_of(pid: i32) -> io::Result<i32> {
    // SAFETY: no pointers.
    checked(unsafe { libc::getpgid(pid) })
}

/// Undoes what a launcher may have left behind: an ignored SIGCHLD, with which the kernel reaps our children before we see how
/// they ended, and blocked signals, with which nobody could ask us to end. SIGXFSZ, sent to whoever writes past the file size
/// limit, gets a handler that does nothing: such a write fails instead of ending the process. It is not ignored, because
/// children would inherit that. For the first thread, before it starts others.
pub fn reset_signals() {
    extern "C" fn nothing(_signal: c_int) {}
    let nothing: extern "C" fn(c_int) = nothing;
    // SAFETY: SIG_DFL is no function of ours, `nothing` has nothing to do with anything; `none` is a live set, made empty
    // before it is used.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, nothing as libc::sighandler_t);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// The effective user id.
pub fn user_id() -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() }
}

/// Lets the allocator give large blocks back as soon as they are freed, and keeps few arenas: a burst of large results must not
/// stay in memory. glibc alone has this; musl gives large blocks back anyway.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers; called before any thread is started, as mallopt(3) wants; a failure leaves things as they were.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}

/// PR_SET_DUMPABLE 0: other processes of the same user cannot read our memory, environment or descriptors.
pub fn set_undumpable() {
    // SAFETY: no pointers; a failure leaves things as they were.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}

/// Marks every descriptor above 2 close-on-exec: what a launcher left open reaches no child.
pub fn close_on_exec_above_2() {
    // SAFETY: only sets a flag on descriptors, of which std and we rely on none being inherited.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 {
        return;
    }
    // Linux before 5.11: one by one, from the kernel's own list.
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = open.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
    for fd in numbers.filter(|fd| *fd > 2).collect::<Vec<_>>() {
        // SAFETY: sets a flag; a descriptor closed meanwhile gives EBADF.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// dup2(2): makes descriptor number `onto` (0, 1 or 2) mean what `fd` means. Children that inherit it see the same.
pub fn redirect(fd: BorrowedFd<'_>, onto: StandardFd) -> io::Result<()> {
    // SAFETY: the standard numbers are never owned by a Rust value that would close them.
    checked(unsafe { libc::dup2(fd.as_raw_fd(), onto as RawFd) }).map(drop)
}

/// The three descriptors every process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum StandardFd {
    /// Standard input.
    Stdin = 0,
    /// Standard output.
    Stdout = 1,
    /// Standard error.
    Stderr = 2,
}

/// What descriptors 1 and 2 were before `hide_output_early`; -1: in their place, or handed out.
static REAL: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];

/// Runs before any constructor of any library (ELF `.preinit_array`): opens closed standard descriptors on the null device,
/// then moves the real stdout and stderr to private close-on-exec descriptors and lets 1 and 2 mean the null device, so that
/// what a preloaded object or its children print while loading reaches no protocol byte, and no full or closed stderr ends or
/// hangs the process before anything of ours runs.
///
/// Only async-signal-safe calls: libc itself may not be initialised yet.
pub extern "C" fn hide_output_early() {
    // SAFETY: descriptor calls on plain numbers and a constant path; they work before libc's own constructors ran.
    unsafe {
        let null = c"/dev/null".as_ptr();
        for fd in 0..=2 {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                // The lowest free number is this one.
                libc::open(null, libc::O_RDWR);
            }
        }
        let hidden = libc::open(null, libc::O_RDWR | libc::O_CLOEXEC);
        for (fd, real) in [1, 2].into_iter().zip(&REAL) {
            let kept = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3);
            if kept >= 3 && hidden >= 0 && libc::dup2(hidden, fd) == fd {
                real.store(kept, Ordering::SeqCst);
            } else if kept >= 3 {
                libc::close(kept);
            }
        }
        if hidden > 2 {
            libc::close(hidden);
        }
    }
}

/// Takes the real stdout: what `hide_output_early` put away, else a private copy of descriptor 1. Once per process.
pub fn take_stdout() -> io::Result<OwnedFd> {
    take_hidden(&REAL[0]).map_or_else(|| io::stdout().as_fd().try_clone_to_owned(), Ok)
}

/// Takes the real stderr, as `take_stdout` does the real stdout.
pub fn take_stderr() -> io::Result<OwnedFd> {
    take_hidden(&REAL[1]).map_or_else(|| io::stderr().as_fd().try_clone_to_owned(), Ok)
}

/// Puts the real stdout and stderr back in their places, for whoever does not speak the protocol. No effect if they are there.
pub fn restore_output() -> io::Result<()> {
    for (real, place) in REAL.iter().zip([StandardFd::Stdout, StandardFd::Stderr]) {
        if let Some(real) = take_hidden(real) {
            redirect(real.as_fd(), place)?;
        }
    }
    Ok(())
}

fn take_hidden(real: &AtomicI32) -> Option<OwnedFd> {
    let fd = real.swap(-1, Ordering::SeqCst);
    // SAFETY: `hide_output_early` made it for us and the swap hands it out once.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// For `OpenOptionsExt::custom_flags`: a symbolic link in the last place is refused.
pub const NO_FOLLOW: i32 = libc::O_NOFOLLOW;
/// Flags for opening a file so that neither the open nor a read or write on it waits; close-on-exec.
pub const OPEN_NONBLOCKING: i32 = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;

/// Reads without waiting if the descriptor is non-blocking; otherwise as read(2) does.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is live and as long as said.
    let got = unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// writev(2).
pub fn write(fd: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let count = c_int::try_from(parts.len().min(1024)).unwrap_or(1024);
    // SAFETY: IoSlice is ABI-compatible with iovec and the slices are live.
    let sent = unsafe { libc::writev(fd.as_raw_fd(), parts.as_ptr().cast(), count) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// /dev/null, for reading and writing.
pub fn null_device() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn poll_tells_ready_from_silent_and_broken() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut fds = [Poll::readable(reader.as_fd())];
        poll(&mut fds, Some(Duration::ZERO)).unwrap();
        assert!(!fds[0].is_ready());
        writer.write_all(b"x").unwrap();
        poll(&mut fds, None).unwrap();
        assert!(fds[0].is_ready() && !fds[0].is_broken());

        drop(reader);
        let mut fds = [Poll::broken(writer.as_fd())];
        poll(&mut fds, None).unwrap();
        assert!(fds[0].is_broken());
    }

    #[test]
    fn identity_tells_pipes_apart() {
        let (first, first_writer) = io::pipe().unwrap();
        let (second, _writer) = io::pipe().unwrap();
        let id = |fd: BorrowedFd<'_>| identity(fd).unwrap();
        assert_eq!(id(first.as_fd()), id(first_writer.as_fd()));
        assert_ne!(id(first.as_fd()), id(second.as_fd()));
        assert_eq!(id(null_device().unwrap().as_fd()).kind, Kind::Device);
    }

    #[test]
    fn a_connection_is_started_without_waiting() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = connect_start(listener.local_addr().unwrap()).unwrap();
        poll(&mut [Poll::writable(stream.as_fd())], None).unwrap();
        assert!(stream.take_error().unwrap().is_none());
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    }

    #[test]
    fn a_unix_socket_is_its_owners_alone_and_knows_its_peer() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("tidegate-sys-{}.sock", std::process::id()));
        let listener = listen_unix(&path, 4).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(listen_unix(&path, 4).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let stream = connect_unix(&path).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!([&stream, &accepted].map(|end| peer_user(end.as_fd()).unwrap()), [user_id(); 2]);
        std::fs::remove_file(&path).unwrap();
        assert!(peer_user(io::pipe().unwrap().0.as_fd()).is_err());
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(15), "TERM");
        assert_eq!(signal_name(64), "64");
    }
}
