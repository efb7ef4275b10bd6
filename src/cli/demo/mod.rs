//! `tidegate demo`: four promises, shown and checked with nothing but this binary, on loopback only.
//!
//! Starts an HTTP server of its own, the gateway as a real child process and a small client, and looks at the far side of
//! every step: what the server saw, which processes live, which files exist. It waits for events, never for time to pass,
//! and leaves nothing behind: children reaped, server joined, folder removed. It must never show the key anywhere but once.

mod client;
mod folder;
mod report;
mod scene;
mod server;
mod steps;
mod wait;

use std::fmt;
use std::time::Instant;

use crate::cli::demo::client::Trouble;
use crate::cli::demo::report::Screen;
use crate::cli::demo::scene::Scene;
use crate::cli::demo::wait::Interrupt;
use crate::cli::flags::DemoOptions;
use crate::cli::{EXIT_INTERNAL, complain};

/// Why the demo itself cannot go on, in one line. A promise that does not hold is none.
struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Shows the steps and says whether all of them held: 0, or 1 if one did not; 70 with one line on stderr if the demo could
/// not be given, 74 if stdout takes nothing.
pub fn run(options: &DemoOptions) -> u8 {
    let mut screen = Screen::new();
    match tour(options, &mut screen) {
        Ok(()) => screen.exit_code(),
        Err(fault) => {
            complain(&fault.to_string());
            EXIT_INTERNAL
        }
    }
}

fn tour(options: &DemoOptions, screen: &mut Screen) -> Result<(), Fault> {
    let began = Instant::now();
    let interrupt = Interrupt::listen()?;
    let scene = Scene::set(options.gateway.as_deref(), &interrupt)?;
    let mut session = scene.start("1")?;
    settle(steps::introduce(&scene, &mut session, screen), screen)?;
    settle(steps::credentialed_call(&scene, &mut session, screen), screen)?;
    settle(steps::local_command(&scene, &mut session, screen), screen)?;
    settle(steps::cancelled_command(&scene, &mut session, screen), screen)?;
    settle(steps::malformed_line(&scene, screen), screen)?;
    steps::afterwards(scene, session, screen)?;
    screen.summary(began.elapsed());
    Ok(())
}

/// A gateway that does not do its part is a promise that did not hold; the next step is shown all the same.
fn settle(shown: Result<(), Trouble>, screen: &mut Screen) -> Result<(), Fault> {
    match shown {
        Ok(()) => Ok(()),
        Err(Trouble::Gateway(why)) => {
            screen.check("the gateway goes on", Err(why));
            Ok(())
        }
        Err(Trouble::Fault(fault)) => Err(fault),
    }
}
