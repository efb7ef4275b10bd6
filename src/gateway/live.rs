//! What a reload replaces as a whole: the tools, and what they are carried out with.
//!
//! A call takes one of these when it is judged and is carried out with the same one, whatever is loaded meanwhile: so running
//! calls keep their terms. Nothing in it changes once it is in use.

use std::sync::Arc;
use std::time::Instant;

use crate::action::Tool;
use crate::approval::ApprovalRules;
use crate::config::{Config, SessionRules};
use crate::gateway::pipeline::World;
use crate::gateway::shared::Facts;
use crate::gateway::{reading, status};
use crate::limits::Limits;
use crate::mcp::listing::{ToolEntry, ToolListing};
use crate::policy::rules::{ToolRule, Toolbox};

const HOW_TO_CONFIGURE: &str = "no configuration: write one (tidegate schema prints its JSON Schema) and name it with --config FILE or \
                                $TIDEGATE_CONFIG, or put it in $XDG_CONFIG_HOME/tidegate/config.json or /etc/tidegate/config.json";

/// One configuration at work.
pub struct Live {
    /// The tools with their rules.
    pub tools: Toolbox,
    /// What `perform` works with.
    pub world: World,
    /// What is shown of the configuration.
    pub facts: Facts,
    /// Who is asked for approval.
    pub approvals: ApprovalRules,
}

/// What the loop has to say and to heed from a configuration on.
pub struct Announcement {
    /// The tools as announced.
    pub listing: Arc<ToolListing>,
    /// For the model.
    pub instructions: Arc<str>,
    /// How the peer is treated.
    pub rules: SessionRules,
}

impl Announcement {
    /// Of a configuration.
    pub fn of(config: &Config) -> Self {
        Announcement { listing: listing(config), instructions: instructions(config), rules: config.session }
    }
}

impl Live {
    /// The next configuration, to be carried out by the same executors' heirs, with the same journal, store and known secrets.
    /// What a running session cannot change is told: it needs a new start.
    pub fn next(&self, config: Config, limits: &Limits) -> Live {
        let facts = facts(&config, self.facts.dry_run);
        if facts.state_dir != self.facts.state_dir {
            log::warn!(
                "reload: state_dir is read at start only; journal and results stay in {}",
                self.facts.state_dir.display()
            );
        }
        if [config.limits.line_in_bytes, config.limits.calls, config.limits.workers]
            != [limits.line_in_bytes, limits.calls, limits.workers]
        {
            log::warn!("reload: limits.line_in_bytes, calls and workers are read at start only");
        }
        if config.journal != self.world.journal.rules() {
            log::warn!("reload: journal is read at start only");
        }
        if facts.log != self.facts.log {
            log::warn!("reload: log is read at start only");
        }
        let tools = toolbox(config.tools, &config.limits);
        let world = self.world.next(config.networks, config.credentials, &tools, Instant::now());
        world.desk.set_operators(&config.approvals.operators);
        let approvals = config.approvals;
        Live {
            tools,
            world,
            approvals,
            facts: Facts { state_dir: self.facts.state_dir.clone(), log: self.facts.log.clone(), ..facts },
        }
    }
}

/// What is shown of the configuration; notes reach the operator too.
pub fn facts(config: &Config, dry_run: bool) -> Facts {
    let mut notes = config.warnings.clone();
    if config.source.is_none() {
        notes.push(HOW_TO_CONFIGURE.to_owned());
    }
    notes.iter().for_each(|note| log::warn!("{note}"));
    Facts { config: config.source.clone(), state_dir: config.state_dir.clone(), log: config.log.clone(), dry_run, notes }
}

fn instructions(config: &Config) -> Arc<str> {
    match &config.source {
        Some(_) => Arc::from(
            "Tools of a Tidegate gateway. They hold the credentials; you need none. A result that was cut says so and \
             names a cursor for read_result; an error says whether anything was executed.",
        ),
        None => Arc::from(
            "This Tidegate gateway is not configured: it offers tidegate_status alone, which says how to configure it.",
        ),
    }
}

/// The tools as announced: the configured ones in their order, then those of every gateway.
fn listing(config: &Config) -> Arc<ToolListing> {
    let configured = config.tools.iter().map(|(tool, _)| ToolEntry {
        name: tool.name.clone(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_json.clone(),
        annotations: tool.annotations,
    });
    // Without a tool nothing is ever stored.
    let reading = (!config.tools.is_empty()).then(reading::entry);
    Arc::new(ToolListing { entries: configured.chain(reading).chain([status::entry()]).collect() })
}

/// The configured tools, and the one that reads on in what they leave.
pub fn toolbox(mut configured: Vec<(Tool, ToolRule)>, limits: &Limits) -> Toolbox {
    if !configured.is_empty() {
        configured.push(reading::tool(limits));
    }
    Toolbox::new(configured)
}
