//! What a human is shown: the exact action and which rule asks, in words that nothing in them can bend.

use ring::rand::{SecureRandom, SystemRandom};

use crate::approval::shown::{shown, shown_json};
use crate::approval::{Extent, Question};
use crate::limits::QUESTION_BYTES;
use crate::mcp::elicit::{Choice, Elicitation};
use crate::policy::consent::{Unapproved, Unconsented};
use crate::policy::rules::Confirm;
use crate::secret::Redactor;

/// The question about an action that asks.
///
/// # Errors
/// The action is too long to be shown, or the system gives no random bytes.
pub fn question(unapproved: &Unapproved) -> Result<Question, Unconsented> {
    let (grant, terms) = (unapproved.grant(), unapproved.grant().terms());
    let action = grant.record();
    // What is shown is at least as long as what it shows.
    if action.len() > QUESTION_BYTES || shown_json(&action).len() > QUESTION_BYTES {
        return Err(Unconsented::TooLong { max: QUESTION_BYTES });
    }
    let mut bytes = [0; 4];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Unconsented::NotRecorded { why: "no random bytes".to_owned() })?;
    Ok(Question {
        id: format!("{:08x}", u32::from_be_bytes(bytes)),
        tool: terms.tool.clone(),
        rule: terms.rule.clone(),
        target: grant.target(),
        action,
        extent: extent(unapproved.confirm()),
    })
}

/// How far a yes goes at most.
pub fn extent(confirm: Confirm) -> Extent {
    match confirm {
        Confirm::Session => Extent::Session,
        Confirm::Ask | Confirm::Never => Extent::Once,
    }
}

/// The question as it is put to the user behind the client, who must not learn a credential by it.
pub fn elicitation(question: &Question, redactor: &Redactor) -> Elicitation {
    let choices = match question.extent {
        Extent::Once => vec![Choice::Once, Choice::Deny],
        Extent::Session => vec![Choice::Once, Choice::Session, Choice::Deny],
    };
    let Question { tool, rule, target, action, .. } = question;
    let (rule, target, action) = (shown(rule), shown(target), shown_json(action));
    let message = format!("Allow the tool {tool} to do this? (rule {rule} asks)\nTarget: {target}\nExact action: {action}");
    Elicitation { message: redactor.text(&message).into_owned(), choices }
}
