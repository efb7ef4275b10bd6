//! What a session showed, and whether it is one of the courses the model allows.

use super::json::{self, Json};
use super::model::{ACKNOWLEDGED, Call, Course, Id, Mode, Model, NullId, Reply};
use super::tools::Want;

/// What was seen of a session.
#[derive(Debug, Default)]
pub struct Seen {
    pub stdout: Vec<u8>,
    pub record: String,
    pub exit: i32,
}

/// What stdout and the record say.
struct Told {
    replies: Vec<Reply>,
    unaddressed: Vec<(i64, NullId)>,
    records: Vec<Json>,
}

/// Errors without an id that are always sent; beyond them time decides.
const UNADDRESSED: usize = 10;

/// How many actions were recorded, or why the session is none the model allows.
pub fn check(model: &Model, mode: Mode, seen: &Seen) -> Result<usize, String> {
    let told = told(seen)?;
    let mut problems = Vec::new();
    for course in &model.courses {
        match fits(course, mode, seen.exit, &told) {
            Ok(()) => return Ok(told.records.len()),
            Err(_) if model.is_lost => return Ok(told.records.len()),
            Err(problem) => problems.push(problem),
        }
    }
    problems.dedup();
    Err(format!("of {} courses none fits: {}", model.courses.len(), problems.join("\n  or: ")))
}

fn told(seen: &Seen) -> Result<Told, String> {
    let mut told = Told { replies: Vec::new(), unaddressed: Vec::new(), records: Vec::new() };
    let text = std::str::from_utf8(&seen.stdout).map_err(|error| format!("stdout: {error}"))?;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("stdout ends inside a line".to_owned());
    }
    for line in text.split_terminator('\n') {
        let read = json::read(line).filter(|read| !read.is_twice && !read.is_lone);
        let message = read.ok_or_else(|| format!("a stdout line is no JSON: {line}"))?.value;
        message_of(&message, &mut told).ok_or_else(|| format!("a stdout line is nothing known: {line}"))?;
    }
    for line in seen.record.lines() {
        told.records.push(json::read(line).ok_or_else(|| format!("a record is no JSON: {line}"))?.value);
    }
    Ok(told)
}

/// The id of a line on stdout that answers something.
pub fn id_of(line: &str) -> Option<Id> {
    let value = json::read(line)?.value;
    Id::of(value.member("id")?)
}

fn message_of(message: &Json, told: &mut Told) -> Option<()> {
    let subscription = ["params", "_meta", "io.modelcontextprotocol/subscriptionId"];
    let reply = match (message.member("method").and_then(Json::as_text), message.member("error")) {
        (Some("notifications/subscriptions/acknowledged"), None) => {
            Reply { id: Id::of(message.at(&subscription)?)?, what: ACKNOWLEDGED.to_owned() }
        }
        (Some("notifications/cancelled"), None) => {
            Reply { id: Id::of(message.at(&["params", "requestId"])?)?, what: "subscription cancelled".to_owned() }
        }
        (Some(_), _) => return None,
        (None, Some(error)) => {
            let Json::Number(code) = error.member("code")? else { return None };
            let outcome = error.at(&["data", "tidegate/outcome"]);
            if outcome.is_some_and(|outcome| outcome.member("executed") != Some(&Json::text("no"))) {
                return None;
            }
            let is_unknown = outcome.and_then(|outcome| outcome.member("code")) == Some(&Json::text("unknown_tool"));
            let what = format!("error {code}{}", if is_unknown { " unknown_tool" } else { "" });
            match message.member("id") {
                None => return told.unaddressed(code, NullId::No),
                Some(Json::Null) => return told.unaddressed(code, NullId::Yes),
                Some(id) => Reply { id: Id::of(id)?, what },
            }
        }
        (None, None) => Reply { id: Id::of(message.member("id")?)?, what: result_of(message.member("result")?)? },
    };
    told.replies.push(reply);
    Some(())
}

impl Told {
    fn unaddressed(&mut self, code: &str, form: NullId) -> Option<()> {
        self.unaddressed.push((code.parse().ok()?, form));
        Some(())
    }
}

fn result_of(result: &Json) -> Option<String> {
    if let Some(outcome) = result.at(&["_meta", "tidegate/outcome"]) {
        let code = match outcome.member("code")? {
            Json::Null => "ok",
            code => code.as_text()?,
        };
        let is_sound = outcome.member("executed") == Some(&Json::text("no"))
            && result.member("isError") == Some(&Json::Bool(code != "ok"));
        return is_sound.then(|| format!("tool {code}"));
    }
    if let Some(version) = result.member("protocolVersion") {
        return Some(format!("initialized {}", version.as_text()?));
    }
    let kinds = [
        ("supportedVersions", "discovered"),
        ("tools", "tools/list"),
        ("resources", "resources/list"),
        ("resourceTemplates", "resources/templates/list"),
    ];
    let kind = kinds.iter().find(|(member, _)| result.member(member).is_some()).map(|(_, kind)| *kind);
    let is_subscription = result.at(&["_meta", "io.modelcontextprotocol/subscriptionId"]).is_some();
    Some(kind.unwrap_or(if is_subscription { "subscription ended" } else { "pong" }).to_owned())
}

fn fits(course: &Course, mode: Mode, exit: i32, told: &Told) -> Result<(), String> {
    let expected = if course.is_closed { 65 } else { 0 };
    if exit != expected {
        return Err(format!("exit code {expected} in mode {}, got {exit}", mode.name()));
    }
    check_unaddressed(&course.unaddressed, &told.unaddressed)?;
    let mut replies = told.replies.clone();
    for reply in &course.replies {
        let at = replies.iter().position(|seen| seen == reply).ok_or_else(|| format!("no {reply:?}"))?;
        replies.remove(at);
    }
    for reply in &course.revoked {
        if let Some(at) = replies.iter().position(|seen| seen == reply) {
            replies.remove(at);
        }
    }
    let records: Vec<&Json> = told.records.iter().collect();
    if course.calls.iter().all(|call| call.is_answered) {
        check_order(&course.calls, &records)?;
    }
    if assign(&course.calls, course.is_closed, &replies, &records) {
        return Ok(());
    }
    Err(format!("the calls are {:?}, but left are the replies {replies:?} and the records {records:?}", course.calls))
}

fn check_unaddressed(expected: &[(i64, NullId)], seen: &[(i64, NullId)]) -> Result<(), String> {
    let is_same = |(a, b): (&(i64, NullId), &(i64, NullId))| a.0 == b.0 && (a.1 == NullId::Open || a.1 == b.1);
    let sure = expected.len().min(UNADDRESSED);
    let is_fine = (sure..=expected.len()).contains(&seen.len()) && expected.iter().zip(seen).take(sure).all(is_same);
    if is_fine { Ok(()) } else { Err(format!("errors without an id: expected {expected:?}, got {seen:?}")) }
}

/// Each call was answered before the next one was sent: the record has their order.
fn check_order(calls: &[Call], records: &[&Json]) -> Result<(), String> {
    let actions: Vec<_> =
        calls.iter().filter_map(|call| if let Want::Action(action) = &call.want { Some(action) } else { None }).collect();
    let is_same =
        actions.len() == records.len() && actions.iter().zip(records).all(|(action, record)| action.is_recorded_as(record));
    if is_same { Ok(()) } else { Err(format!("expected exactly the actions {actions:?}, got {records:?}")) }
}

/// What may come of one call: the reply it gets, and whether its action is recorded.
fn fates(call: &Call, is_closed: bool) -> Vec<(Option<&'static str>, bool)> {
    let (what, is_recorded) = match &call.want {
        Want::Action(_) => ("tool ok", true),
        Want::Refused("denied") => ("tool denied", false),
        Want::Refused(_) => ("tool bad_arguments", false),
        Want::UnknownTool => ("error -32602 unknown_tool", false),
    };
    let mut fates = vec![(Some(what), is_recorded)];
    if !call.is_answered && is_closed {
        fates.push((Some("tool cancelled"), false));
    }
    if call.is_cancelled {
        fates.push((None, false));
        fates.extend(is_recorded.then_some((None, true)));
    }
    fates
}

/// Whether the calls account for exactly these replies and records.
fn assign(calls: &[Call], is_closed: bool, replies: &[Reply], records: &[&Json]) -> bool {
    let [call, rest @ ..] = calls else { return replies.is_empty() && records.is_empty() };
    fates(call, is_closed).into_iter().any(|(what, is_recorded)| {
        let (mut replies, mut records) = (replies.to_vec(), records.to_vec());
        if let Some(what) = what {
            let Some(at) = replies.iter().position(|seen| seen.id == call.id && seen.what == what) else { return false };
            replies.remove(at);
        }
        if is_recorded {
            let Want::Action(action) = &call.want else { return false };
            let Some(at) = records.iter().position(|record| action.is_recorded_as(record)) else { return false };
            records.remove(at);
        }
        assign(rest, is_closed, &replies, &records)
    })
}
