//! `read_result`: the tool that reads on in what did not fit a reply. It passes the same pipeline as every declared tool.

use crate::action::read::INPUT;
use crate::action::schema::Schema;
use crate::action::{Recipe, Tool};
use crate::limits::Limits;
use crate::mcp::call::READ_RESULT;
use crate::mcp::listing::{ToolAnnotations, ToolEntry};
use crate::policy::rules::{Allow, AtLimit, Confirm, Pace, ToolRule};

const TITLE: &str = "Read on in a result";
/// The tool's description, as listed.
const DESCRIPTION: &str = "Reads on in the result of an earlier call that was too large for one reply: give the nextCursor of that \
                           result. The first text block is exactly the next page; its note has the cursor of the page after. \
                           With find, shows where a literal text stands instead. Results are kept for 15 minutes.";
const ANNOTATIONS: ToolAnnotations =
    ToolAnnotations { read_only: Some(true), destructive: Some(false), idempotent: Some(true), open_world: Some(false) };

/// The tool and the terms it runs under.
pub fn tool(limits: &Limits) -> (Tool, ToolRule) {
    let value = serde_json::from_str(INPUT).expect("a constant");
    let tool = Tool {
        name: READ_RESULT.to_owned(),
        title: Some(TITLE.to_owned()),
        description: DESCRIPTION.to_owned(),
        annotations: ANNOTATIONS,
        input: Schema::compile(&value).expect("a constant schema"),
        input_json: INPUT.to_owned(),
        recipe: Recipe::Read,
        limit: None,
    };
    let rule = ToolRule {
        credential: None,
        host: None,
        content_bytes: limits.content_bytes,
        at_limit: AtLimit::Drain,
        timeout: limits.call_timeout,
        allow: Allow::AsDeclared,
        pace: Pace::default(),
        confirm: Confirm::Never,
    };
    (tool, rule)
}

/// The tool as announced.
pub fn entry() -> ToolEntry {
    ToolEntry {
        name: READ_RESULT.to_owned(),
        title: Some(TITLE.to_owned()),
        description: DESCRIPTION.to_owned(),
        input_schema: INPUT.to_owned(),
        annotations: ANNOTATIONS,
    }
}
