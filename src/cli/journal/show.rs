//! `tidegate journal show`: what there is, in the order of time.

use std::fs;
use std::path::Path;

use crate::cli::journal::source::{Done, Shown, merge, print};
use crate::cli::journal::table::{Filter, cell, heading};
use crate::cli::journal::{Out, Place, Problem};
use crate::cli::{EXIT_OK, complain};
use crate::journal::folder::{list, of_state};

/// Prints the wanted records.
pub fn run(place: &Place, with_refusals: bool, filter: Filter, out: &mut Out) -> Result<u8, Problem> {
    let unreadable = match place {
        Place::File(path) => {
            begin(&filter, out)?;
            vec![(path.display().to_string(), print(path, &filter, out)?)]
        }
        Place::State(state_dir) => {
            let dir = of_state(state_dir);
            let names = names(&dir, with_refusals)?;
            if names.is_empty() {
                complain(&format!("nothing is recorded under {}", cell(&dir.to_string_lossy())));
                return Ok(EXIT_OK);
            }
            begin(&filter, out)?;
            let files = names.into_iter().map(|name| (name, Shown::default(), u64::MAX)).collect();
            let mut shown = Done::default();
            merge(&dir, files, &filter, &mut shown, out)?;
            shown.files.into_iter().map(|(name, shown)| (name, shown.unreadable)).collect()
        }
    };
    out.flush()?;
    for (name, count) in unreadable.into_iter().filter(|(_, count)| *count > 0) {
        complain(&format!("{}: {count} lines are no records; tidegate journal verify says which", cell(&name)));
    }
    Ok(EXIT_OK)
}

/// Prints the heading, where there is a table.
pub fn begin(filter: &Filter, out: &mut Out) -> Result<(), Problem> {
    if filter.is_json { Ok(()) } else { out.line(&heading()) }
}

/// The files to be shown.
pub fn names(dir: &Path, with_refusals: bool) -> Result<Vec<String>, Problem> {
    let mut listed = list(dir).map_err(Problem::input(dir))?;
    if with_refusals {
        listed.journals.append(&mut listed.refusals);
    }
    Ok(listed.journals)
}

/// How long a file is; 0 for one that went away.
pub fn length(dir: &Path, name: &str) -> u64 {
    fs::metadata(dir.join(name)).map_or(0, |metadata| metadata.len())
}
