//! `tidegate serve`: takes the descriptors, reads the configuration, runs the session, waits for signals.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crossbeam_channel::bounded;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::{Handle, Signals};

use crate::cli::flags::ServeOptions;
use crate::cli::{EXIT_CONFIG, EXIT_INTERNAL, EXIT_IO, complain};
use crate::clock::Clock;
use crate::config::Config;
use crate::config::file::{Found, find};
use crate::executor::recorder::Recorder;
use crate::executor::{Executors, Hands};
use crate::gateway::assemble::assemble;
use crate::gateway::shared::Event;
use crate::sys::Kind;
use crate::wire::log::Operator;
use crate::wire::stdio::{self, Input, Output};
use crate::{sys, thread, wire};

/// Runs the gateway until its session ends.
pub fn run(options: &ServeOptions) -> u8 {
    sys::reset_signals();
    let taken = match stdio::take() {
        Ok(taken) => taken,
        Err(stdio::NotTaken { error, may_tell }) => {
            if may_tell {
                complain(&format!("stdin, stdout and stderr cannot be used: {error}"));
            }
            return EXIT_IO;
        }
    };
    let operator = match wire::log::start(taken.noise, taken.stderr, taken.is_merged) {
        Ok(operator) => operator,
        Err(_) => return EXIT_INTERNAL,
    };
    let code = serve(options, taken.input, taken.output, &operator);
    stdio::let_go();
    operator.finish();
    code
}

fn serve(options: &ServeOptions, input: Input, output: Output, operator: &Operator) -> u8 {
    sys::set_undumpable();
    sys::give_back_memory();
    wire::log::hook_panics();
    let config = match load(options.config.as_deref()) {
        Ok(config) => config,
        Err(problems) => {
            problems.lines().for_each(complain);
            return EXIT_CONFIG;
        }
    };
    let protocol = [input.fd(), output.fd()];
    let log_file = match config.log.file.as_deref().map(|path| open_to_append(path, protocol)).transpose() {
        Ok(file) => file,
        Err(error) => {
            complain(&format!("the log file cannot be opened: {error}"));
            return EXIT_CONFIG;
        }
    };
    if let Some(file) = log_file {
        operator.shared().set_file(file);
    }
    wire::log::init(config.log.level, config.log.format, Clock::System);
    let hands = match hands(options, &config, protocol) {
        Ok(hands) => hands,
        Err(error) => {
            complain(&format!("the record of the dry run cannot be opened: {error}"));
            return EXIT_IO;
        }
    };
    match session(config, hands, input, output, operator) {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("the session cannot start: {error}"));
            EXIT_INTERNAL
        }
    }
}

/// The configuration, checked whole; every problem of it, a line each.
pub(in crate::cli) fn load(explicit: Option<&Path>) -> Result<Config, String> {
    let env = |name: &str| std::env::var_os(name);
    match find(explicit, &env) {
        Found::File(path) => Config::load(&path, &env).map_err(|error| error.to_string()),
        Found::Nowhere { .. } => Ok(Config::unconfigured(&env)),
        Found::Refused(why) => Err(why),
    }
}

/// Opens a file beside the protocol stream, never that stream under another name. A FIFO that nobody reads fails here, and a
/// full one where it is written: neither makes anybody wait.
fn open_to_append(path: &Path, protocol: [BorrowedFd<'_>; 2]) -> io::Result<File> {
    let flags = sys::OPEN_NONBLOCKING;
    let file = File::options().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let its = sys::identity(file.as_fd())?;
    // Terminals and the null device are shared by whoever likes.
    if its.kind != Kind::Device && protocol.iter().any(|fd| sys::identity(*fd).is_ok_and(|identity| identity == its)) {
        return Err(io::Error::other("it is stdin or stdout itself, where nothing but the protocol may be"));
    }
    Ok(file)
}

fn hands(options: &ServeOptions, config: &Config, protocol: [BorrowedFd<'_>; 2]) -> io::Result<Hands> {
    if !options.dry_run {
        let agent = std::env::var_os("SSH_AUTH_SOCK").filter(|socket| !socket.is_empty()).map(PathBuf::from);
        return Ok(Hands::Real(Executors::new(config.networks.clone(), agent)));
    }
    let record = options.record.as_deref().map(|path| open_to_append(path, protocol)).transpose()?;
    Ok(Hands::Recorder(Recorder::new(record)))
}

/// Runs the loop on a thread of its own, while this one waits for signals.
fn session(config: Config, hands: Hands, input: Input, output: Output, operator: &Operator) -> io::Result<u8> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1])?;
    let assembled = assemble(config, hands, Clock::System, Some(operator.shared().clone()))?;
    let shared = assembled.shared.clone();
    let reader = assembled.start(input, output)?;
    let (cause_tx, cause_rx) = bounded(1);
    let handle = signals.handle();
    let thread = thread::spawn("tg-reader", move || {
        let _waiting = Waiting(handle);
        let _ = cause_tx.send(reader.run());
    })?;
    let mut asked = false;
    for signal in signals.forever() {
        match signal {
            SIGTERM | SIGINT => {
                shared.mailbox.tell(if asked { Event::EndNow } else { Event::End });
                asked = true;
            }
            SIGUSR1 => shared.mailbox.tell(Event::PrintCounters),
            _ => log::warn!("SIGHUP: this version reads its configuration at start only; start it again to apply a change"),
        }
    }
    thread.join();
    Ok(cause_rx.recv().map_or(EXIT_INTERNAL, |cause| cause.exit_code()))
}

/// The wait for signals; over when this is dropped, be it that the reader panicked.
struct Waiting(Handle);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.close();
    }
}
