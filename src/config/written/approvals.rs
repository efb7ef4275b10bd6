//! What the configuration says of `approvals` and of any tool's `confirm`, with types, words and ranges checked.
//!
//! Like the rest of this floor it gives the verdict of the printed JSON Schema and knows nothing of other keys' values.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use serde::Serialize;

use crate::approval::Approver;
use crate::config::object::{Object, Said, list, seconds_within, whole, word};
use crate::config::schema;
use crate::config::tree::{Node, Problems};
use crate::config::written::{all, argv};
use crate::limits::{APPROVAL_TIMEOUT_MAX, APPROVAL_TIMEOUT_MIN};
use crate::policy::rules::Confirm;
use crate::wire::escape::to_line;

/// The highest user id; the one above it means "none" (chown(2), setreuid(2)).
const USER_ID_MAX: u64 = 4_294_967_294;

/// `approvals`.
#[derive(Debug, Default)]
pub struct ApprovalsWritten<'n> {
    /// `order`; empty or with somebody twice only where that was reported.
    pub order: Option<Vec<Said<Approver>>>,
    /// `timeout_s`.
    pub timeout: Option<Duration>,
    /// Where the key `command` stands, whatever became of its value.
    pub command_at: Option<usize>,
    /// `command`, never empty.
    pub command: Option<Vec<Said<&'n str>>>,
    /// `operators`; empty or with an id twice only where that was reported.
    pub operators: Option<Vec<u32>>,
}

/// Reads `approvals`.
pub fn approvals<'n>(node: &'n Node, problems: &mut Problems) -> Option<ApprovalsWritten<'n>> {
    let object = Object::open(node, &schema::APPROVALS, problems)?;
    let bounds = APPROVAL_TIMEOUT_MIN.as_secs_f64()..=APPROVAL_TIMEOUT_MAX.as_secs_f64();
    Some(ApprovalsWritten {
        order: object.node("order").and_then(|node| order(node, problems)),
        timeout: object.node("timeout_s").and_then(|node| seconds_within(node, bounds, problems)).map(|said| said.value),
        command_at: object.member("command").map(|member| member.key_at),
        command: object.node("command").and_then(|node| argv(node, problems)),
        operators: object.node("operators").and_then(|node| operators(node, problems)),
    })
}

/// Reads the `confirm` of a tool.
pub fn confirm(object: &Object<'_>, problems: &mut Problems) -> Option<Confirm> {
    let words = [("never", Confirm::Never), ("ask", Confirm::Ask), ("session", Confirm::Session)];
    object.node("confirm").and_then(|node| word(node, &words, problems))
}

fn order(node: &Node, problems: &mut Problems) -> Option<Vec<Said<Approver>>> {
    let words = [Approver::Client, Approver::Operator, Approver::Command].map(|approver| (approver.as_str(), approver));
    some_once(node, "approver", problems, |node, problems| word(node, &words, problems))
}

fn operators(node: &Node, problems: &mut Problems) -> Option<Vec<u32>> {
    let ids = some_once(node, "user id", problems, |node, problems| {
        whole(node, 0..=USER_ID_MAX, "a user id", problems).and_then(|id| u32::try_from(id).ok())
    })?;
    Some(ids.into_iter().map(|id| id.value).collect())
}

/// A list that says something, and each thing once: an empty one would read as "nobody" to one and as "anybody" to another.
fn some_once<T: Copy + Eq + Hash + Serialize>(
    node: &Node,
    what: &str,
    problems: &mut Problems,
    mut read: impl FnMut(&Node, &mut Problems) -> Option<T>,
) -> Option<Vec<Said<T>>> {
    let nodes = list(node, problems)?;
    if nodes.is_empty() {
        problems.add(node.at, format!("expected at least one {what}, got an empty array"));
    }
    let said = all(nodes, |node| read(node, problems).map(|value| Said { value, at: node.at }))?;
    let mut seen = HashSet::new();
    for one in &said {
        if !seen.insert(one.value) {
            problems.add(one.at, format!("expected each {what} once, got {} again", to_line(&one.value)));
        }
    }
    Some(said)
}
