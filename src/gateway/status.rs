//! `tidegate_status`: what the gateway is and how it fares, answered by the reader itself, without admission.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::action::Recipe;
use crate::gateway::shared::Shared;
use crate::mcp::listing::{ToolAnnotations, ToolEntry};
use crate::outcome::result::{Code, Executed, Failure, Outcome};
use crate::wire::escape::to_line;

/// The tool's name.
pub const NAME: &str = "tidegate_status";

/// The tool's description, as listed.
pub const DESCRIPTION: &str = "Shows what this Tidegate gateway is configured to do and how it fares: version, configuration \
                               file, number of tools, calls under way, counters, and problems an operator should know of.";

#[derive(Serialize)]
struct Status<'a> {
    version: &'a str,
    pid: u32,
    uptime_s: u64,
    config: Option<String>,
    state_dir: String,
    tools: usize,
    dry_run: bool,
    calls_under_way: usize,
    waiting_for_approval: usize,
    stderr: &'a str,
    notes: &'a [String],
    counters: &'a RawValue,
}

/// The status as an outcome; takes no argument and refuses any.
pub fn outcome(shared: &Shared, arguments: &str) -> Outcome {
    let members = arguments.trim().trim_start_matches('{').trim_end_matches('}');
    if !members.trim().is_empty() {
        let message = "arguments: expected none, got some: tidegate_status takes no arguments";
        return Failure::new(Code::BadArguments, Executed::No, message).into();
    }
    let counters = RawValue::from_string(shared.counters_json()).unwrap_or_default();
    let live = shared.live();
    let facts = &live.facts;
    let status = Status {
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        uptime_s: shared.clock.since(shared.started).as_secs(),
        config: facts.config.as_ref().map(|path| path.display().to_string()),
        state_dir: facts.state_dir.display().to_string(),
        tools: live.tools.iter().filter(|(tool, _)| !matches!(tool.recipe, Recipe::Read)).count(),
        dry_run: facts.dry_run,
        calls_under_way: shared.inflight.len(),
        waiting_for_approval: shared.inflight.waiting().len(),
        stderr: shared.operator.as_ref().and_then(|operator| operator.why_muted()).unwrap_or("written"),
        notes: &facts.notes,
        counters: &counters,
    };
    let structured = to_line(&status);
    Outcome { structured: Some(structured), ..Outcome::plain(text(&status)) }
}

fn text(status: &Status<'_>) -> String {
    let config = status.config.as_deref().unwrap_or("none");
    let mut text = format!(
        "Tidegate {}, up {} s. Configuration: {config}. Tools: {}. Calls under way: {}. State folder: {}. stderr: {}.",
        status.version, status.uptime_s, status.tools, status.calls_under_way, status.state_dir, status.stderr
    );
    if status.waiting_for_approval > 0 {
        text.push_str(&format!(" Waiting for approval: {}.", status.waiting_for_approval));
    }
    if status.dry_run {
        text.push_str(" Dry run: nothing is executed.");
    }
    for note in status.notes {
        text.push_str("\n- ");
        text.push_str(note);
    }
    text.push_str("\nCounters: ");
    text.push_str(status.counters.get());
    text
}

/// The tool as announced.
pub fn entry() -> ToolEntry {
    ToolEntry {
        name: NAME.to_owned(),
        title: Some("Tidegate status".to_owned()),
        description: DESCRIPTION.to_owned(),
        input_schema: r#"{"type":"object","properties":{},"additionalProperties":false}"#.to_owned(),
        annotations: ToolAnnotations {
            read_only: Some(true),
            destructive: Some(false),
            idempotent: Some(true),
            open_world: Some(false),
        },
    }
}
