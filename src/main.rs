//! Hands over the arguments, returns the exit code.

use std::process::ExitCode;

#[expect(unsafe_code, reason = "a link section runs the function before any library's constructor; see `hide_output_early`")]
#[used]
#[unsafe(link_section = ".preinit_array")]
static HIDE_OUTPUT: extern "C" fn() = tidegate::sys::hide_output_early;

fn main() -> ExitCode {
    ExitCode::from(tidegate::cli::run(std::env::args_os()))
}
