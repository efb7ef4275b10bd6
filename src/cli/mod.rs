//! The command line: one file a subcommand, one table of flags, exit codes.
//!
//! Exit codes are a documented contract: 0 clean end, 1 the command's own no, 2 usage, 65 malformed peer, 70 internal, 74 I/O on
//! the protocol stream, 78 configuration.

pub mod flags;
pub mod serve;
pub mod explain;
pub mod demo;
pub mod journal;
pub mod approvals;

use std::ffi::OsString;
use std::io::Write;

use crate::cli::flags::Parsed;

/// Clean end.
pub const EXIT_OK: u8 = 0;
/// The command's own no.
pub const EXIT_NO: u8 = 1;
/// The command line is wrong.
pub const EXIT_USAGE: u8 = 2;
/// A fault of tidegate itself.
pub const EXIT_INTERNAL: u8 = 70;
/// Reading or writing failed.
pub const EXIT_IO: u8 = 74;
/// The configuration is wrong.
pub const EXIT_CONFIG: u8 = 78;

/// Runs the command that the arguments (program name first) ask for and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    match flags::parse(arguments) {
        Ok(Parsed::Serve(options)) => serve::run(&options),
        Ok(Parsed::Explain(options)) => with_output(|| explain::run(&options)),
        Ok(Parsed::Demo(options)) => with_output(|| demo::run(&options)),
        Ok(Parsed::Journal(options)) => with_output(|| journal::run(&options)),
        Ok(Parsed::Approvals(options)) => with_output(|| approvals::run(&options)),
        Ok(Parsed::Text(text)) => with_output(|| print(&text)),
        Err(error) => with_output(|| {
            complain(&format!("{error}\ntry: tidegate --help"));
            EXIT_USAGE
        }),
    }
}

/// What does not speak the protocol gets stdout and stderr back first.
fn with_output(command: impl FnOnce() -> u8) -> u8 {
    match crate::sys::restore_output() {
        Ok(()) => command(),
        Err(error) => {
            complain(&format!("stdout and stderr cannot be used: {error}"));
            EXIT_IO
        }
    }
}

/// Prints to stdout; a reader that is gone is a normal end.
pub(crate) fn print(text: &str) -> u8 {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => EXIT_OK,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => EXIT_OK,
        Err(error) => {
            complain(&format!("stdout cannot be written: {error}"));
            EXIT_IO
        }
    }
}

/// One message for the operator on stderr.
pub(crate) fn complain(message: &str) {
    crate::wire::log::operator_line(&format!("tidegate: {message}"));
}
