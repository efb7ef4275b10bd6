//! Generated attacks: seeded mutations of valid sessions, and a model that says what must come of each.
//!
//! The model shares no code with the project. Exactly the actions it predicts are recorded, exactly the replies it predicts
//! are on stdout, every line of which fits the published schema, and the session is open or closed as documented.
//! `TIDEGATE_ATTACKS=10000` runs that many sessions, `TIDEGATE_ATTACKS_SEED=N` only the one of a seed.

mod aim;
mod asked;
mod drive;
mod given;
mod json;
mod model;
mod mutate;
mod tools;
mod verdict;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::kit::MODERN;
use crate::kit::dir::Dir;
use crate::kit::schema::check_stdout;
use drive::{Memory, run_binary};
use model::{Mode, Model, Pace};
use mutate::{Script, aimed, script, transcripts};
use tools::Want;
use verdict::Seen;

/// Sessions of a short run.
const SESSIONS: u64 = 600;
/// Of so many sessions one goes through the real binary.
const BINARY_SHARE: usize = 10;
/// As many go through the real binary at most.
const BINARY_SESSIONS: usize = 100;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: expected a number, got {text}")))
}

/// Where seeds begin: fixed in a short run, so that it always says the same; told in a long one.
fn seeds() -> std::ops::Range<u64> {
    if let Some(seed) = number("TIDEGATE_ATTACKS_SEED") {
        return seed..seed + 1;
    }
    match number("TIDEGATE_ATTACKS") {
        None => 1..1 + SESSIONS,
        Some(count) => {
            let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() << 20;
            eprintln!("attacks: {count} sessions from seed {start}");
            start..start + count
        }
    }
}

/// Of so many sessions one is of such calls alone.
const AIMED_SHARE: usize = 6;

type Run<'a> = &'a mut dyn FnMut(&Script, &mut Model) -> Result<Seen, String>;

/// Runs a script: how many actions were recorded, and the model with what it allowed.
fn run_checked(script: &Script, run: Run<'_>) -> Result<(usize, Model), String> {
    let mut model = Model::new(script.mode, script.pace);
    let seen = run(script, &mut model)?;
    let recorded = verdict::check(&model, script.mode, &seen).and_then(|count| check_stdout(&seen.stdout).map(|()| count));
    let story = |why| format!("{why}\nstdout: {}\nrecord: {}exit: {}", seen.stdout.escape_ascii(), seen.record, seen.exit);
    recorded.map(|count| (count, model)).map_err(story)
}

fn check(script: &Script, run: Run<'_>) -> Result<usize, String> {
    run_checked(script, run).map(|(recorded, _)| recorded)
}

/// What was seen in many sessions.
#[derive(Default)]
struct Tally {
    sessions: AtomicUsize,
    /// Something was recorded.
    active: AtomicUsize,
    /// The model allowed one course alone.
    sure: AtomicUsize,
    /// The model gave up on them.
    lost: AtomicUsize,
    /// Calls whose target the caller wrote: carried out, denied, and with arguments that make no action.
    given: [AtomicUsize; 3],
}

impl Tally {
    fn attack(&self, seed: u64, run: Run<'_>, script: &Script) {
        let (recorded, model) = run_checked(script, run).unwrap_or_else(|why| panic!("{}\n{why}", told(seed, script)));
        let add = |count: &AtomicUsize, yes: bool| {
            count.fetch_add(usize::from(yes), Ordering::Relaxed);
        };
        add(&self.sessions, true);
        add(&self.active, recorded > 0);
        add(&self.sure, model.courses.len() == 1);
        add(&self.lost, model.is_lost);
        for call in model.courses[0].calls.iter().filter(|call| call.is_given) {
            add(&self.given[0], matches!(call.want, Want::Action(_)));
            add(&self.given[1], call.want == Want::Refused("denied"));
            add(&self.given[2], call.want == Want::Refused("bad_arguments"));
        }
    }

    /// Most of the sessions have to say something.
    #[track_caller]
    fn check(self) {
        let [sessions, active, sure, lost] = [self.sessions, self.active, self.sure, self.lost].map(AtomicUsize::into_inner);
        let [allowed, denied, bad] = self.given.map(AtomicUsize::into_inner);
        eprintln!("attacks: {sessions} sessions, {active} executed something, {sure} had one course, {lost} were not followed");
        eprintln!(
            "attacks: of calls whose target the caller wrote {allowed} were allowed, {denied} denied, {bad} made no action"
        );
        if sessions > 1 {
            assert!(active * 10 >= sessions * 3, "only {active} of {sessions} sessions executed anything");
            assert!(sure * 10 >= sessions * 6, "only {sure} of {sessions} sessions had one course");
            assert!(lost * 100 <= sessions, "{lost} of {sessions} sessions were not followed");
            let least = [allowed, denied, bad].into_iter().min().unwrap_or(0);
            assert!(least * 10 >= sessions, "calls: {allowed} allowed, {denied} denied, {bad} made no action");
        }
    }
}

/// A session, to be shown and to be run again.
fn told(seed: u64, script: &Script) -> String {
    let bytes = script.bytes();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| format!("{}\n", line.escape_ascii()));
    let (mode, pace, writes) = (script.mode.name(), script.pace, script.writes.len());
    format!("TIDEGATE_ATTACKS_SEED={seed}, on_malformed {mode}, {pace:?}, {writes} writes:\n{}", lines.collect::<String>())
}

#[test]
fn mutated_sessions_do_what_the_model_predicts() {
    let (seeds, lines, dir, tally) = (seeds(), transcripts(), Dir::new(), Tally::default());
    std::thread::scope(|scope| {
        for part in 0..2 {
            let (seeds, lines, tally, record) = (seeds.clone(), &lines, &tally, dir.join(&format!("record-{part}")));
            scope.spawn(move || {
                let mut memory = Memory::new(&record);
                let mut run = |script: &Script, model: &mut Model| memory.run(script, model);
                seeds.filter(|seed| seed % 2 == part).for_each(|seed| tally.attack(seed, &mut run, &script(seed, lines)));
            });
        }
    });
    tally.check();
}

#[test]
fn mutated_sessions_through_the_real_binary_do_the_same() {
    let (lines, tally) = (transcripts(), Tally::default());
    let seeds = seeds().step_by(BINARY_SHARE).take(BINARY_SESSIONS);
    seeds.for_each(|seed| tally.attack(seed, &mut run_binary, &script(seed, &lines)));
    tally.check();
}

#[test]
fn calls_whose_target_the_caller_writes_do_what_the_model_predicts() {
    let (dir, tally) = (Dir::new(), Tally::default());
    let mut memory = Memory::new(&dir.join("record"));
    let mut run = |script: &Script, model: &mut Model| memory.run(script, model);
    seeds().step_by(AIMED_SHARE).for_each(|seed| tally.attack(seed, &mut run, &aimed(seed)));
    tally.check();
}

fn modern(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params},{MODERN}}}}}"#)
}

/// One write, and a session of which the model knows one course.
#[track_caller]
fn check_lines(lines: &[&str], recorded: usize) {
    let dir = Dir::new();
    let mut memory = Memory::new(&dir.join("record"));
    for mode in [Mode::Close, Mode::Continue] {
        let writes = vec![format!("{}\n", lines.join("\n")).into_bytes()];
        let script = Script { mode, pace: Pace::Answered, writes };
        let got = check(&script, &mut |script, model| memory.run(script, model));
        assert_eq!(got, Ok(recorded), "on_malformed {}", mode.name());
    }
}

#[test]
fn an_error_never_goes_out_under_the_id_of_an_open_request() {
    let open = modern("1", "subscriptions/listen", r#""notifications":{}"#);
    for broken in [
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","z":1,"z":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","z":"\ud83d"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
    ] {
        check_lines(&[&open, broken], 0);
    }
    check_lines(&[&open, r#"{"jsonrpc":"2.0","id":"1","method":"ping","params":[]}"#], 0);
}

#[test]
fn nothing_behind_the_line_that_closed_is_read() {
    let call = modern("1", "tools/call", r#""name":"say","arguments":{"text":"a"}"#);
    let behind = modern("2", "tools/call", r#""name":"say","arguments":{"text":"b"}"#);
    let ping = r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#;
    let dir = Dir::new();
    let mut memory = Memory::new(&dir.join("record"));
    for broken in ["{not json}", "[]", r#"{"jsonrpc":"2.0","id":4}"#] {
        let session = [&call, broken, &behind, ping].map(|line| format!("{line}\n").into_bytes()).concat();
        // In one write: the line that closes and those behind it are one read.
        let (first, rest) = session.split_at(call.len() + 1);
        for (mode, recorded) in [(Mode::Close, 1), (Mode::Continue, 2)] {
            let script = Script { mode, pace: Pace::Answered, writes: vec![first.to_vec(), rest.to_vec()] };
            assert_eq!(check(&script, &mut |script, model| memory.run(script, model)), Ok(recorded), "{broken} {mode:?}");
        }
    }
}

/// A session with every kind of character and line end, cut in two at every byte.
#[test]
fn every_boundary_between_two_writes_is_one_and_the_same_session() {
    let session = [
        r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}}"#,
        "",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"say","arguments":{"text":"\ud83c\udf89 🎉é"}}}"#,
        "{\"bad\u{2028}\r",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tag","arguments":{"color":"red"}}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#,
    ];
    let bytes = session.join("\n").into_bytes();
    let dir = Dir::new();
    let mut memory = Memory::new(&dir.join("record"));
    for at in 0..bytes.len() {
        let writes = [&bytes[..at], &bytes[at..]].into_iter().filter(|write| !write.is_empty()).map(<[u8]>::to_vec).collect();
        let script = Script { mode: Mode::Continue, pace: Pace::Answered, writes };
        let recorded = check(&script, &mut |script, model| memory.run(script, model));
        assert_eq!(recorded, Ok(2), "cut at {at}");
    }
}
