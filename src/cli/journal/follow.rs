//! `tidegate journal follow`: what comes, until SIGINT, SIGTERM, or until nobody reads any more.
//!
//! Looks again four times a second; only whole lines are shown. A file that was read and went away is forgotten.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::EXIT_OK;
use crate::cli::journal::show::{begin, length, names};
use crate::cli::journal::source::{Done, Shown, merge};
use crate::cli::journal::table::Filter;
use crate::cli::journal::{Out, Place, Problem};
use crate::clock::rfc3339;
use crate::journal::folder::{is_in_use, of_state};
use crate::sys::{Poll, poll};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// Prints the wanted records that come, after those since the wanted moment.
pub fn run(place: &Place, with_refusals: bool, filter: Filter, out: &mut Out) -> Result<u8, Problem> {
    let (Place::State(state_dir) | Place::File(state_dir)) = place;
    let dir = of_state(state_dir);
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Problem::Output)?;
    begin(&filter, out)?;
    let mut shown = first(&dir, with_refusals, &filter, out)?;
    loop {
        out.flush()?;
        if !waited()? || signals.pending().next().is_some() {
            return Ok(EXIT_OK);
        }
        again(&dir, with_refusals, &filter, &mut shown, out)?;
    }
}

/// What there is already: shown since the wanted moment; without one only what living processes write is read, so that their
/// outcomes to come are shown with their tools.
fn first(dir: &Path, with_refusals: bool, filter: &Filter, out: &mut Out) -> Result<Done, Problem> {
    let now = rfc3339(SystemTime::now());
    let silent = Filter { since: Some(filter.since.clone().unwrap_or(now)), ..filter.clone() };
    let (mut read, mut shown) = (Vec::new(), Done::default());
    for name in names(dir, with_refusals)? {
        let length = length(dir, &name);
        if filter.since.is_some() || File::open(dir.join(&name)).is_ok_and(|file| is_in_use(&file)) {
            read.push((name, Shown::default(), length));
        } else {
            shown.files.insert(name, Shown { offset: length, ..Shown::default() });
        }
    }
    merge(dir, read, &silent, &mut shown, out)?;
    Ok(shown)
}

/// What has come since the last look.
fn again(dir: &Path, with_refusals: bool, filter: &Filter, shown: &mut Done, out: &mut Out) -> Result<(), Problem> {
    let (mut before, mut grown) = (std::mem::take(&mut shown.files), Vec::new());
    for name in names(dir, with_refusals)? {
        let mut file = before.remove(&name).unwrap_or_default();
        let length = length(dir, &name);
        if length > file.offset {
            grown.push((name, file, length));
        } else {
            // What a failed write had left is taken back.
            file.offset = file.offset.min(length);
            shown.files.insert(name, file);
        }
    }
    merge(dir, grown, filter, shown, out)
}

/// Waits until it is time for another look; false once nobody reads stdout.
fn waited() -> Result<bool, Problem> {
    let stdout = io::stdout();
    let mut fds = [Poll::broken(stdout.as_fd())];
    poll(&mut fds, Some(LOOK)).map_err(Problem::Output)?;
    Ok(!fds[0].is_broken())
}
