//! From a checked configuration to what the threads share: the one place that puts a gateway together.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::action::Tool;
use crate::clock::Clock;
use crate::config::{Config, SessionRules};
use crate::executor::Hands;
use crate::executor::credential::Vault;
use crate::gateway::counters::Counters;
use crate::gateway::inflight::Inflight;
use crate::gateway::pipeline::World;
use crate::gateway::session::Reader;
use crate::gateway::shared::{Facts, Mailbox, Shared};
use crate::gateway::{reading, status};
use crate::journal::append::Journal;
use crate::limits::Limits;
use crate::mcp::listing::{ToolEntry, ToolListing};
use crate::mcp::session::Session;
use crate::outcome::artifact::Store;
use crate::policy::rules::{ToolRule, Toolbox};
use crate::wire::outbox::Outbox;
use crate::wire::stdio::{Input, Output};

const HOW_TO_CONFIGURE: &str = "no configuration: write one (tidegate schema prints its JSON Schema) and name it with --config FILE or \
                                $TIDEGATE_CONFIG, or put it in $XDG_CONFIG_HOME/tidegate/config.json or /etc/tidegate/config.json";

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
    let session = Session::new(listing(&config), Some(instructions(&config)));
    let rules = config.session;
    let facts = facts(&config, matches!(hands, Hands::Recorder(_)));
    let tools = tools(config.tools, &config.limits);
    let journal = Journal::new(&config.state_dir, config.journal, clock)?;
    let vault = Vault::new(config.credentials, crate::sys::user_id());
    let world = World { hands, journal, vault, store: Arc::new(Store::new(&config.state_dir)) };
    let shared = Shared {
        inflight: Inflight::new(config.limits.calls),
        outbox: Outbox::new()?,
        mailbox: Mailbox::new()?,
        tools: Toolbox::new(tools),
        world,
        counters: Counters::default(),
        clock,
        started: Instant::now(),
        limits: config.limits,
        facts,
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

/// What is shown of the configuration; notes reach the operator too.
fn facts(config: &Config, dry_run: bool) -> Facts {
    let mut notes = config.warnings.clone();
    if config.source.is_none() {
        notes.push(HOW_TO_CONFIGURE.to_owned());
    }
    notes.iter().for_each(|note| log::warn!("{note}"));
    Facts { config: config.source.clone(), state_dir: config.state_dir.clone(), dry_run, notes }
}

fn instructions(config: &Config) -> Arc<str> {
    match &config.source {
        Some(_) => Arc::from(
            "Tools of a Tidegate gateway. They hold the credentials; you need none. A result that says it was cut tells how to \
             ask for less; an error says whether anything was executed.",
        ),
        None => Arc::from(
            "This Tidegate gateway is not configured: it offers tidegate_status alone, which says how to configure it.",
        ),
    }
}

/// The tools as announced: the declared ones in the order of the configuration, then ours.
fn listing(config: &Config) -> Arc<ToolListing> {
    let declared = config.tools.iter().map(|(tool, _)| ToolEntry {
        name: tool.name.clone(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_json.clone(),
        annotations: tool.annotations,
    });
    // Without a declared tool nothing is ever stored.
    let reading = (!config.tools.is_empty()).then(reading::entry);
    Arc::new(ToolListing { entries: declared.chain(reading).chain([status::entry()]).collect() })
}

/// The declared tools, and the one that reads on in what they leave.
fn tools(mut declared: Vec<(Tool, ToolRule)>, limits: &Limits) -> Vec<(Tool, ToolRule)> {
    if !declared.is_empty() {
        declared.push(reading::tool(limits));
    }
    declared
}
