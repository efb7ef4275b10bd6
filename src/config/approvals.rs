//! Who is asked before an action, as meant: `approvals` with its defaults, and an order in which everybody can be reached.
//!
//! It may look whether the approver command exists, for a warning; it starts nothing and asks nobody.

use crate::approval::{ApprovalRules, Approver};
use crate::config::object::Said;
use crate::config::source;
use crate::config::tree::Problems;
use crate::config::written::approvals::ApprovalsWritten;
use crate::limits::APPROVAL_TIMEOUT;
use crate::sys;

/// The rules as far as they are sound; of nothing said, every default.
pub fn rules(written: &ApprovalsWritten<'_>, problems: &mut Problems, warnings: &mut Problems) -> ApprovalRules {
    let command = written.command.as_ref().map(|argv| source::command_line(argv, problems, warnings));
    let order = match &written.order {
        Some(order) => {
            check_command(order, written.command_at, problems);
            warn_unasked(order, warnings);
            order.iter().map(|said| said.value).collect()
        }
        // The operator always counts as there, so whoever can be missing stands before.
        None if command.is_some() => vec![Approver::Client, Approver::Command, Approver::Operator],
        None => vec![Approver::Client, Approver::Operator],
    };
    ApprovalRules {
        order,
        timeout: written.timeout.unwrap_or(APPROVAL_TIMEOUT),
        command,
        operators: written.operators.clone().unwrap_or_else(|| vec![sys::user_id()]),
    }
}

/// The command stands in the order if and only if there is one.
fn check_command(order: &[Said<Approver>], command_at: Option<usize>, problems: &mut Problems) {
    match (order.iter().find(|said| said.value == Approver::Command), command_at) {
        (Some(named), None) => {
            problems.add(named.at, "\"command\" in \"order\" needs the key \"command\" beside it: what is run")
        }
        (None, Some(at)) => problems.add(at, "\"order\" does not name \"command\", so this program would never be asked"),
        (Some(_), Some(_)) | (None, None) => {}
    }
}

fn warn_unasked(order: &[Said<Approver>], warnings: &mut Problems) {
    for said in order.iter().skip_while(|said| said.value != Approver::Operator).skip(1) {
        let who = said.value;
        warnings.add(said.at, format!("\"{who}\" stands behind \"operator\", who can always be asked, so it is never asked"));
    }
}
