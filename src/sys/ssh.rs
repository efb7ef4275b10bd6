//! The calls of libssh2 that ssh2 does not bind, or binds without what we need: a channel of our own and signatures from outside.
//!
//! ssh2's `Channel` frees itself without the session's lock, cannot tell exit status 0 from none, and unwraps text of the peer.
//! Everything here is non-blocking, takes the session's lock for one call, and has been made sound by owning a `Session`.

use std::ffi::{CStr, CString, c_char, c_uchar, c_void};
use std::ptr::{null, null_mut};

use libc::{c_int, c_uint, size_t};
use libssh2_sys::{self as raw, LIBSSH2_CHANNEL, LIBSSH2_SESSION};
use ssh2::{Error, ErrorCode, Session};

/// What a peer may send before it has to wait for us; also what libssh2 holds of a channel at most.
const WINDOW_BYTES: c_uint = 2 << 20;
/// RFC 4253 section 6.1: what everybody takes.
const PACKET_BYTES: c_uint = 32 << 10;

type Sign =
    extern "C" fn(*mut LIBSSH2_SESSION, *mut *mut c_uchar, *mut size_t, *const c_uchar, size_t, *mut *mut c_void) -> c_int;

// Declared as in libssh2.h of the bundled library; both are missing in libssh2-sys.
unsafe extern "C" {
    fn libssh2_channel_has_exit_status(channel: *mut LIBSSH2_CHANNEL) -> c_int;
    fn libssh2_userauth_publickey(
        session: *mut LIBSSH2_SESSION,
        username: *const c_char,
        key: *const c_uchar,
        key_len: size_t,
        sign: Sign,
        abstrakt: *mut *mut c_void,
    ) -> c_int;
}

/// Which stream of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error (RFC 4254 section 5.2).
    Stderr,
}

/// A session channel (RFC 4254 section 6.1) of a non-blocking session. Its calls fail with `EAGAIN` where they would wait.
pub struct Channel {
    raw: *mut LIBSSH2_CHANNEL,
    session: Session,
}

impl Channel {
    /// Opens one. The session must be non-blocking.
    pub fn open(session: &Session) -> Result<Channel, Error> {
        debug_assert!(!session.is_blocking());
        let mut guard = session.raw();
        let handle = std::ptr::from_mut(&mut *guard);
        let kind = b"session";
        // SAFETY: the session is live and locked; the name is as long as said; no message.
        let channel = unsafe {
            raw::libssh2_channel_open_ex(
                handle,
                kind.as_ptr().cast(),
                kind.len() as c_uint,
                WINDOW_BYTES,
                PACKET_BYTES,
                null(),
                0,
            )
        };
        if channel.is_null() {
            return Err(last_error(handle));
        }
        drop(guard);
        Ok(Channel { raw: channel, session: session.clone() })
    }

    /// Runs one libssh2 call under the session's lock.
    fn call(&self, call: impl FnOnce(*mut LIBSSH2_CHANNEL) -> isize) -> Result<usize, Error> {
        let mut guard = self.session.raw();
        let result = call(self.raw);
        usize::try_from(result).map_err(|_| {
            let code = c_int::try_from(result).unwrap_or(raw::LIBSSH2_ERROR_PROTO);
            Error::from_session_error_raw(std::ptr::from_mut(&mut *guard), code)
        })
    }

    /// Asks the server to run a command line (RFC 4254 section 6.5). Called again with the same text until it does not wait.
    pub fn exec(&self, command: &CStr) -> Result<(), Error> {
        let (kind, command) = (b"exec", command.to_bytes());
        // SAFETY: the channel is live, its session locked, both texts as long as said.
        self.call(|channel| unsafe {
            raw::libssh2_channel_process_startup(
                channel,
                kind.as_ptr().cast(),
                kind.len() as c_uint,
                command.as_ptr().cast(),
                command.len() as c_uint,
            ) as isize
        })
        .map(drop)
    }

    /// Reads what is there of one stream; 0 is its end, or an empty packet: ask `is_eof`.
    pub fn read(&self, stream: Stream, buffer: &mut [u8]) -> Result<usize, Error> {
        let stream = match stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        // SAFETY: the channel is live, its session locked, the buffer as long as said.
        self.call(|channel| unsafe { raw::libssh2_channel_read_ex(channel, stream, buffer.as_mut_ptr().cast(), buffer.len()) })
    }

    /// Writes to the command's standard input; says how much was taken.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Error> {
        // SAFETY: the channel is live, its session locked, the bytes as many as said.
        self.call(|channel| unsafe { raw::libssh2_channel_write_ex(channel, 0, bytes.as_ptr().cast(), bytes.len()) })
    }

    /// Ends the command's standard input.
    pub fn send_eof(&self) -> Result<(), Error> {
        // SAFETY: the channel is live and its session locked.
        self.call(|channel| unsafe { raw::libssh2_channel_send_eof(channel) as isize }).map(drop)
    }

    /// Whether the server has ended its output and all of it was read.
    pub fn is_eof(&self) -> bool {
        // SAFETY: the channel is live and its session locked.
        self.call(|channel| unsafe { raw::libssh2_channel_eof(channel) as isize }).is_ok_and(|eof| eof != 0)
    }

    /// Bytes of both streams that have arrived and were not read. No socket access.
    pub fn queued_bytes(&self) -> u64 {
        let _guard = self.session.raw();
        let mut queued = 0;
        // SAFETY: the channel is live, its session locked, `queued` a live out-parameter; null is allowed for the other.
        unsafe { raw::libssh2_channel_window_read_ex(self.raw, &mut queued, null_mut()) };
        queued
    }

    /// Waits for the server to close the channel; only after `is_eof`.
    pub fn wait_closed(&self) -> Result<(), Error> {
        // SAFETY: the channel is live and its session locked.
        self.call(|channel| unsafe { raw::libssh2_channel_wait_closed(channel) as isize }).map(drop)
    }

    /// Closes our side.
    pub fn close(&self) -> Result<(), Error> {
        // SAFETY: the channel is live and its session locked.
        self.call(|channel| unsafe { raw::libssh2_channel_close(channel) as isize }).map(drop)
    }

    /// The exit status (RFC 4254 section 6.10), if the server has sent one.
    pub fn exit_status(&self) -> Option<i32> {
        let _guard = self.session.raw();
        // SAFETY: the channel is live and its session locked.
        unsafe { (libssh2_channel_has_exit_status(self.raw) != 0).then(|| raw::libssh2_channel_get_exit_status(self.raw)) }
    }

    /// The signal that ended the command, without `SIG`, as the server wrote it, if it has sent one.
    pub fn exit_signal(&self) -> Option<Vec<u8>> {
        let mut guard = self.session.raw();
        let (mut name, mut length) = (null_mut(), 0);
        // SAFETY: the channel is live, its session locked; null is allowed for what is not asked for.
        let result = unsafe {
            raw::libssh2_channel_get_exit_signal(
                self.raw,
                &mut name,
                &mut length,
                null_mut(),
                null_mut(),
                null_mut(),
                null_mut(),
            )
        };
        if result != 0 || name.is_null() {
            return None;
        }
        // SAFETY: libssh2 allocated `length` bytes for us to free.
        unsafe {
            let signal = std::slice::from_raw_parts(name.cast::<u8>(), length).to_vec();
            raw::libssh2_free(&mut *guard, name.cast());
            Some(signal)
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let _guard = self.session.raw();
        // SAFETY: the channel is live and its session locked. Where this would wait, libssh2 keeps the channel in the session
        // and frees it with that; nobody has this pointer any more.
        unsafe { raw::libssh2_channel_free(self.raw) };
    }
}

/// A signature made outside of libssh2: first it tells what is to be signed, then it is given the signature.
#[derive(Debug, Default)]
pub struct Signing {
    /// What the server wants signed (RFC 4252 section 7), once it is known.
    pub asked: Option<Vec<u8>>,
    /// The bare signature, without its algorithm's name.
    pub signature: Option<Vec<u8>>,
}

/// Public key authentication with a signature from outside. `EAGAIN` with `signing.asked` set and no signature yet means: sign.
pub fn userauth_signed(session: &Session, user: &CStr, key: &[u8], signing: &mut Signing) -> Result<(), Error> {
    let mut guard = session.raw();
    let handle = std::ptr::from_mut(&mut *guard);
    let abstrakt = std::ptr::from_mut(signing).cast::<*mut c_void>();
    // SAFETY: the session is live and locked, key and name live; libssh2 hands `abstrakt` to `sign` within this call only.
    let result = unsafe { libssh2_userauth_publickey(handle, user.as_ptr(), key.as_ptr(), key.len(), sign, abstrakt) };
    if result < 0 { Err(Error::from_session_error_raw(handle, result)) } else { Ok(()) }
}

extern "C" fn sign(
    _session: *mut LIBSSH2_SESSION,
    signature: *mut *mut c_uchar,
    signature_len: *mut size_t,
    data: *const c_uchar,
    data_len: size_t,
    abstrakt: *mut *mut c_void,
) -> c_int {
    // SAFETY: `userauth_signed` passed a live `Signing` that nobody else uses during its call.
    let signing = unsafe { &mut *abstrakt.cast::<Signing>() };
    let Some(made) = &signing.signature else {
        // SAFETY: libssh2 gives `data_len` readable bytes.
        signing.asked = Some(unsafe { std::slice::from_raw_parts(data, data_len) }.to_vec());
        return raw::LIBSSH2_ERROR_EAGAIN;
    };
    // SAFETY: malloc(3) is the allocator of a session made without one of its own; libssh2 frees it.
    let copy = unsafe { libc::malloc(made.len().max(1)) }.cast::<u8>();
    if copy.is_null() {
        return raw::LIBSSH2_ERROR_ALLOC;
    }
    // SAFETY: `copy` has room for all of it; the out-parameters are live.
    unsafe {
        std::ptr::copy_nonoverlapping(made.as_ptr(), copy, made.len());
        *signature = copy;
        *signature_len = made.len();
    }
    0
}

/// The authentication methods the server offers `user` (a "none" request, RFC 4252 section 5.2), comma-separated.
pub fn userauth_methods(session: &Session, user: &CStr) -> Result<String, Error> {
    let mut guard = session.raw();
    let handle = std::ptr::from_mut(&mut *guard);
    let length = user.to_bytes().len() as c_uint;
    // SAFETY: the session is live and locked, the name as long as said.
    let list = unsafe { raw::libssh2_userauth_list(handle, user.as_ptr(), length) };
    if list.is_null() {
        return Err(last_error(handle));
    }
    // SAFETY: libssh2 keeps a terminated text for us until the next call; the lock is held.
    Ok(unsafe { CStr::from_ptr(list) }.to_string_lossy().into_owned())
}

fn last_error(session: *mut LIBSSH2_SESSION) -> Error {
    // SAFETY: the caller holds the live session's lock.
    let code = unsafe { raw::libssh2_session_last_errno(session) };
    Error::from_session_error_raw(session, code)
}

/// Whether a call has to be repeated once the socket is ready.
pub fn would_wait(error: &Error) -> bool {
    error.code() == ErrorCode::Session(raw::LIBSSH2_ERROR_EAGAIN)
}

/// Text for libssh2; the error says that it has a NUL.
pub fn text(text: &str) -> Result<CString, Error> {
    Ok(CString::new(text)?)
}
