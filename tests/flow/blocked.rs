//! Cancels while nobody reads stdout and the writer stands in the middle of a frame.

use std::path::PathBuf;

use crate::kit::gateway::Gateway;
use crate::kit::process::{mark, until, with_mark};
use crate::kit::{Era, call, cancel, handshake};

use super::{check_big, check_said, marking, tools, wait_for_blocked_writer};

const CALLS: usize = 40;
const WORKERS: usize = 16;

/// Forty calls behind a reply that has begun to leave. `admitted`: how many of them the room for replies has space for.
#[track_caller]
fn check(era: Era, content_bytes: usize, admitted: usize) {
    let mark = mark();
    let (mut gateway, pipes) = Gateway::new().tools(&tools(content_bytes)).stdout_held().start_watched();
    gateway.send(&call(Era::Modern, 0, "big", "{}"));
    wait_for_blocked_writer(&gateway, &pipes);
    let full = pipes.stdout();
    if era == Era::Legacy {
        handshake("2025-11-25").iter().for_each(|line| gateway.send(line));
    }
    let files: Vec<PathBuf> = (0..=CALLS).map(|id| gateway.dir.join(&format!("begun-{id}"))).collect();
    let has_begun = |id: &usize| files[*id].exists();
    (1..=CALLS).for_each(|id| gateway.send(&call(era, id, "mark", &marking(&files[id], &mark))));
    let said = |id: usize| files[id].with_added_extension("said");
    until("sixteen commands have said all", || (1..=WORKERS).all(|id| said(id).exists()));
    until("sixteen commands wait", || with_mark(&mark).len() == WORKERS);
    // The queued ones first: the cancel of a running one makes room for the next.
    (1..=CALLS).rev().for_each(|id| gateway.send(&cancel(id)));
    until("the commands are gone", || with_mark(&mark).is_empty());
    until("the cancels are read", || pipes.is_stdin_read());
    assert_eq!(pipes.stdout(), full, "all that on an unread stdout");
    assert_eq!((1..=CALLS).filter(has_begun).count(), WORKERS, "a queued call was started");

    gateway.send(&call(era, 50, "say", "{}"));
    gateway.read_on();
    check_big(&gateway.next());
    check_said(&gateway.reply("50"));
    let rest = gateway.probe();
    // What was not admitted was told `busy`, of which no byte had left when its cancel came.
    let others: Vec<_> = rest.iter().filter(|message| message["id"] != "init").collect();
    assert!(others.is_empty(), "a cancelled call is answered: {others:?}");
    assert_eq!((1..=CALLS).filter(has_begun).count(), WORKERS, "a queued call was started later");
    drop(pipes);
    // Every line is a whole message: checked there.
    let ended = gateway.end();
    assert_eq!(ended.counters()["cancels"]["running"], WORKERS);
    assert_eq!(ended.counters()["cancels"]["queued"], admitted - WORKERS);
    assert_eq!(ended.counters()["cancels"]["withdrawn"].as_u64().unwrap_or(0) as usize, CALLS - admitted);
}

#[test]
fn sixteen_running_and_twenty_four_queued_calls_are_cancelled_past_a_begun_reply_r042_r049() {
    for era in Era::BOTH {
        check(era, 256 << 10, CALLS);
    }
}

/// 16 MiB are set aside for replies: a little more than 520 KiB for each call of this size, the one that is leaving included.
#[test]
fn calls_of_half_a_mebibyte_are_cancelled_past_a_begun_reply_r042_r043() {
    check(Era::Modern, 512 << 10, 30);
}
