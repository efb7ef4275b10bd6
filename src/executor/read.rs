//! Reads a page of a stored result, or searches it for a literal text; both look at the cancel every 64 KiB.
//!
//! It opens files of the folder of results and nothing else.

use std::io::ErrorKind;
use std::time::Instant;

use memchr::memmem::Finder;

use crate::action::read::{Cursor, ReadAction};
use crate::executor::CallCtx;
use crate::limits::CHUNK_BYTES;
use crate::outcome::artifact::Artifact;
use crate::outcome::budget::payload_bytes;
use crate::outcome::page::{Match, Matches, Page, whole_characters};
use crate::outcome::result::{Code, Executed, Failure, Outcome};
use crate::policy::grant::Authorized;

/// Of a line on each side of a place that was found.
const EXCERPT_BYTES: u64 = 80;
/// The longest UTF-8 sequence.
const CHARACTER_BYTES: u64 = 4;

/// Carries out `read_result`: a page, or what a search found.
pub fn run(grant: &Authorized<ReadAction>, ctx: &CallCtx<'_>) -> Outcome {
    attempt(grant, ctx).unwrap_or_else(Outcome::from)
}

fn attempt(grant: &Authorized<ReadAction>, ctx: &CallCtx<'_>) -> Result<Outcome, Failure> {
    let ReadAction { cursor, find } = grant.action();
    let artifact = ctx.sinks.store.open(&cursor.name).map_err(|error| match error.kind() {
        ErrorKind::NotFound => gone(),
        _ => failed(&error),
    })?;
    if cursor.offset > artifact.header.stored {
        let message = format!("offset: expected at most {}, got {}", artifact.header.stored, cursor.offset);
        return Err(Failure::new(Code::BadArguments, Executed::No, message));
    }
    let budget = payload_bytes(grant.terms().content_bytes);
    match find {
        None => page(&artifact, cursor, budget),
        Some(find) => search(&artifact, cursor, find, budget, ctx),
    }
}

fn page(artifact: &Artifact, cursor: &Cursor, budget: usize) -> Result<Outcome, Failure> {
    let offset = if artifact.header.is_text { character_start(artifact, cursor.offset)? } else { cursor.offset };
    let bytes = artifact.read_at(offset, budget).map_err(|error| failed(&error))?;
    Ok(Page::new(&cursor.name, &artifact.header, offset, &bytes, budget).into_outcome(&artifact.header))
}

/// Where the character at `offset` begins; the reply says where the page really begins.
fn character_start(artifact: &Artifact, offset: u64) -> Result<u64, Failure> {
    let from = offset.saturating_sub(CHARACTER_BYTES - 1);
    let around = artifact.read_at(from, CHARACTER_BYTES as usize).map_err(|error| failed(&error))?;
    let back = around.iter().take((offset - from) as usize + 1).rev().take_while(|byte| **byte & 0xC0 == 0x80).count() as u64;
    Ok(offset - if offset == artifact.header.stored { 0 } else { back })
}

/// A search for `find` from `cursor` on.
fn search(artifact: &Artifact, cursor: &Cursor, find: &str, budget: usize, ctx: &CallCtx<'_>) -> Result<Outcome, Failure> {
    let (finder, mut matches) = (Finder::new(find), Matches::new(budget, find));
    let (mut line, mut counted, mut at) = (1, 0, cursor.offset);
    while counted < at {
        // Lines are counted from the beginning, wherever the search begins.
        check(ctx)?;
        let length = usize::try_from(at - counted).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let bytes = artifact.read_at(counted, length).map_err(|error| failed(&error))?;
        line += line_feeds(&bytes);
        counted += bytes.len() as u64;
    }
    loop {
        check(ctx)?;
        let bytes = artifact.read_at(at, CHUNK_BYTES + find.len()).map_err(|error| failed(&error))?;
        let mut done = 0;
        while let Some(found) = finder.find(&bytes[done..]).map(|found| done + found) {
            line += line_feeds(&bytes[done..found]);
            let offset = at + found as u64;
            let excerpt = excerpt(artifact, offset, find.len() as u64).map_err(|error| failed(&error))?;
            if !matches.add(Match { offset, line, excerpt }) {
                let next = Cursor { offset, ..cursor.clone() };
                return Ok(matches.into_outcome(find, cursor, Some(&next), &artifact.header));
            }
            line += line_feeds(&bytes[found..found + find.len()]);
            done = found + find.len();
        }
        if bytes.len() < CHUNK_BYTES + find.len() {
            return Ok(matches.into_outcome(find, cursor, None, &artifact.header));
        }
        // What may be the beginning of a match is looked at again.
        let step = done.max(bytes.len() - (find.len() - 1));
        line += line_feeds(&bytes[done..step]);
        at += step as u64;
    }
}

fn line_feeds(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The line around a match, cut to `EXCERPT_BYTES` on each side of it.
fn excerpt(artifact: &Artifact, offset: u64, length: u64) -> std::io::Result<String> {
    let from = offset.saturating_sub(EXCERPT_BYTES);
    let bytes = artifact.read_at(from, (offset - from + length + EXCERPT_BYTES) as usize)?;
    let (before, rest) = bytes.split_at((offset - from) as usize);
    let (found, after) = rest.split_at(length as usize);
    let before = before.iter().rposition(|byte| *byte == b'\n').map_or(before, |at| &before[at + 1..]);
    let after = after.iter().position(|byte| *byte == b'\n').map_or(after, |at| &after[..at]);
    // A character cut at either end is left out.
    let cut = before.iter().take_while(|byte| **byte & 0xC0 == 0x80).count();
    let text = [&before[cut.min(3)..], found, whole_characters(after)].concat();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn check(ctx: &CallCtx<'_>) -> Result<(), Failure> {
    if ctx.token.is_cancelled() {
        let message = "the search was cancelled; it changes nothing".to_owned();
        return Err(Failure { message, ..Failure::cancelled(Executed::Yes, None) });
    }
    if Instant::now() >= ctx.deadline {
        return Err(Failure::new(Code::TimedOut, Executed::Yes, "the search took too long; search from a later offset"));
    }
    Ok(())
}

fn gone() -> Failure {
    let message = "there is no stored result of this name: results are kept for 15 minutes after they were last read, and only as \
                   long as there is room for them; make the call again, for less at once";
    Failure::new(Code::ResultGone, Executed::No, message)
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::new(Code::Internal, Executed::No, format!("the stored result cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;

    use crate::cancel::{CancelToken, Why};
    use crate::limits::{ARTIFACT_BYTES, CONTENT_BYTES};
    use crate::outcome::artifact::Stored;
    use crate::outcome::testing::StateDir;
    use crate::policy::grant::Terms;
    use crate::policy::rules::AtLimit;

    fn stored(dir: &StateDir, bytes: &[u8]) -> Stored {
        dir.sinks().keep("stdout", 10, bytes).store().unwrap()
    }

    fn ask(dir: &StateDir, arguments: &serde_json::Value, token: &CancelToken, timeout: Duration) -> Outcome {
        let [tool, rule, target] = ["read_result", "builtin:read_result", "stored result"].map(str::to_owned);
        let (content_bytes, at_limit) = (CONTENT_BYTES, AtLimit::Drain);
        let terms = Terms { tool, rule, target, credential: None, host: None, content_bytes, at_limit, timeout };
        let action = ReadAction::from_arguments(&arguments.clone().into()).unwrap();
        let ctx = CallCtx { token, deadline: Instant::now() + timeout, sinks: dir.sinks() };
        run(&Authorized::in_test(action, terms), &ctx)
    }

    #[track_caller]
    fn check_places(text: &str, find: &str, from: usize) {
        let dir = StateDir::new();
        let name = stored(&dir, text.as_bytes());
        let token = CancelToken::new().unwrap();
        let (mut next, mut found) = (json!({"cursor": name.name.as_str(), "offset": from, "find": find}), Vec::new());
        loop {
            let outcome = ask(&dir, &next, &token, Duration::from_secs(60));
            let value: serde_json::Value = serde_json::from_str(outcome.structured.as_deref().unwrap()).unwrap();
            let matches = value["matches"].as_array().unwrap();
            found.extend(matches.iter().map(|one| (one["offset"].as_u64().unwrap(), one["line"].as_u64().unwrap())));
            if value["nextCursor"].is_null() {
                break;
            }
            next = json!({"cursor": value["nextCursor"], "find": find});
        }
        let line = |at: usize| text[..at].matches('\n').count() as u64 + 1;
        let expected: Vec<(u64, u64)> =
            text[from..].match_indices(find).map(|(at, _)| ((from + at) as u64, line(from + at))).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_text_is_found_wherever_the_pieces_of_the_search_meet() {
        for shift in [0, 1, 2, 5, 6] {
            let text = format!("{}needle\n{}needle", "\n".repeat(CHUNK_BYTES - shift), "x".repeat(CHUNK_BYTES - shift));
            check_places(&text, "needle", 0);
            check_places(&text, "needle", 7);
            check_places(&text, "\n", 65_530);
        }
        check_places(&"aaaa".repeat(40_000), "aaa", 0);
        check_places("", "a", 0);
        check_places("\u{2014}\u{2014}", "\u{2014}", 0);
    }

    #[test]
    fn a_search_ends_by_cancel_and_by_its_time() {
        let dir = StateDir::new();
        let name = stored(&dir, &vec![b'x'; usize::try_from(ARTIFACT_BYTES).unwrap()]);
        let arguments = json!({"cursor": name.name.as_str(), "find": "y"});
        let token = CancelToken::new().unwrap();
        let late = ask(&dir, &arguments, &token, Duration::ZERO);
        assert_eq!((late.code, late.executed), (Some(Code::TimedOut), Executed::Yes));
        let (arguments, dir, meant) = (Arc::new(arguments), Arc::new(dir), token.clone());
        let search = crate::thread::spawn("tg-test", move || {
            loop {
                let outcome = ask(&dir, &arguments, &meant, Duration::from_secs(60));
                if outcome.code == Some(Code::Cancelled) {
                    return;
                }
            }
        });
        token.cancel(Why::Client);
        assert!(search.unwrap().join());
    }
}
