//! From a checked configuration to what the threads share: the one place that puts a gateway together.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::clock::Clock;
use crate::config::{Config, SessionRules};
use crate::executor::Hands;
use crate::executor::credential::Vault;
use crate::gateway::counters::Counters;
use crate::gateway::desk::Desk;
use crate::gateway::inflight::Inflight;
use crate::gateway::live::{self, Announcement, Live};
use crate::gateway::pipeline::World;
use crate::gateway::session::Reader;
use crate::gateway::shared::{Mailbox, Shared};
use crate::journal::append::Journal;
use crate::mcp::session::Session;
use crate::outcome::artifact::Store;
use crate::policy::pace::Paces;
use crate::wire::outbox::Outbox;
use crate::wire::stdio::{Input, Output};

/// A gateway that is put together and has not begun to read.
pub struct Assembled {
    /// What its threads share; signals are told to its mailbox.
    pub shared: Arc<Shared>,
    session: Session,
    rules: SessionRules,
}

/// Puts a gateway together. `operator`: the stderr sink, where the process has one.
pub fn assemble(
    config: Config,
    hands: Hands,
    clock: Clock,
    operator: Option<Arc<crate::wire::log::Shared>>,
) -> io::Result<Assembled> {
    let Announcement { listing, instructions, rules } = Announcement::of(&config);
    let session = Session::new(listing, Some(instructions));
    let dry_run = matches!(hands, Hands::Recorder(_));
    let facts = live::facts(&config, dry_run);
    let tools = live::toolbox(config.tools, &config.limits);
    let journal = Arc::new(Journal::new(&config.state_dir, config.journal, clock)?);
    let vault = Vault::new(config.credentials, crate::sys::user_id());
    let paces = Paces::new(&tools, Instant::now());
    let store = Arc::new(Store::new(&config.state_dir));
    let desk = Arc::new(Desk::new(&config.state_dir)?);
    let world = World { hands, journal: Arc::clone(&journal), vault, store, paces, desk: Arc::clone(&desk) };
    let approvals = config.approvals;
    let shared = Shared {
        inflight: Inflight::new(config.limits.calls),
        outbox: Outbox::new()?,
        mailbox: Mailbox::new()?,
        live: Mutex::new(Arc::new(Live { tools, world, facts, approvals })),
        desk,
        journal,
        counters: Counters::default(),
        clock,
        started: Instant::now(),
        limits: config.limits,
        dry_run,
        operator,
    };
    Ok(Assembled { shared: Arc::new(shared), session, rules })
}

impl Assembled {
    /// Starts the writer; the reader that is returned serves once `run` is called.
    pub fn start(self, input: Input, output: Output) -> io::Result<Reader> {
        Reader::start(self.shared, input, output, self.session, self.rules)
    }
}
