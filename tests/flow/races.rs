//! Cancels that meet the end of the work: before it begins, while it runs, as it ends, after its reply. And cancels that meet
//! nothing.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::gateway::{Gateway, Running};
use crate::kit::process::{mark, until, with_mark};
use crate::kit::{Era, call, cancel, modern_call};

use super::{check_said, code, marking, tools};

/// Calls of one round, each cancelled.
const ROUND: usize = 16;
const ROUNDS: usize = 625;
/// Calls that may still be ending when a round begins.
const BACKLOG: u64 = 64 - ROUND as u64;

/// When the cancels of a round are sent.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Each right behind its call, in one write.
    Behind,
    /// All of them behind all calls, after a while.
    After(Duration),
    /// Once so many calls of the round are answered.
    Answered(usize),
}

impl Moment {
    /// Of a round: every moment in turn, each of its kind at another length.
    fn of(round: usize) -> Moment {
        let step = round / 4;
        match round % 4 {
            0 => Moment::Behind,
            // Where the first commands of a round end, on a slow machine and on a fast one.
            1 => Moment::After(Duration::from_micros(step as u64 * 50)),
            2 => Moment::After(Duration::from_micros(1000 + step as u64 * 25)),
            _ => Moment::Answered(1 + step % ROUND),
        }
    }
}

/// One session and what it has answered.
struct Race {
    gateway: Running,
    /// By id, in the order of the answers.
    answered: HashMap<u64, String>,
    status: u64,
}

impl Race {
    fn start() -> Race {
        let tools = json!([{"name": "true", "description": "Does nothing", "exec": {"argv": ["true"]}}]);
        let gateway = Gateway::new().set("tools", tools);
        // A leak of one descriptor in a hundred calls would be felt long before the end.
        let gateway = gateway.set("journal", json!({"sync": "intents"})).through(r#"ulimit -n 300; exec "$@""#);
        Race { gateway: gateway.start(), answered: HashMap::new(), status: 1_000_000 }
    }

    /// Takes the next message of a call in; it has to be the first for its id.
    #[track_caller]
    fn take(&mut self, message: &Value) {
        let id = message["id"].as_u64().unwrap_or_else(|| panic!("for nobody: {message}"));
        assert!(message["result"].is_object(), "{message}");
        let before = self.answered.insert(id, code(message).to_owned());
        assert!(before.is_none(), "two answers for {id}");
    }

    /// `tidegate_status` is answered by the loop in its turn: what was sent before it has been read, and whatever leaves for a
    /// call that was cancelled before it has left. Returns the number of calls under way.
    #[track_caller]
    fn ask_status(&mut self) -> u64 {
        self.status += 1;
        let id = self.status;
        self.gateway.send(&modern_call(id, "tidegate_status", "{}"));
        loop {
            let message = self.gateway.next();
            if message["id"] == id {
                return message["result"]["structuredContent"]["calls_under_way"].as_u64().unwrap();
            }
            self.take(&message);
        }
    }

    #[track_caller]
    fn run(&mut self, round: usize) {
        let ids = round * ROUND..(round + 1) * ROUND;
        let lines = |line: &dyn Fn(usize) -> String| ids.clone().map(|id| line(id) + "\n").collect::<String>();
        let calls = lines(&|id| modern_call(id, "true", "{}"));
        let cancels = lines(&|id| cancel(id));
        match Moment::of(round) {
            Moment::Behind => {
                self.gateway.send_raw(lines(&|id| modern_call(id, "true", "{}") + "\n" + &cancel(id)).as_bytes());
            }
            Moment::After(delay) => {
                self.gateway.send_raw(calls.as_bytes());
                spin(delay);
                self.gateway.send_raw(cancels.as_bytes());
            }
            Moment::Answered(count) => {
                self.gateway.send_raw(calls.as_bytes());
                while ids.clone().filter(|id| self.answered.contains_key(&(*id as u64))).count() < count {
                    let message = self.gateway.next();
                    self.take(&message);
                }
                self.gateway.send_raw(cancels.as_bytes());
            }
        }
        self.ask_status();
        // From here on nothing may come for this round.
        let seen = self.answered.len();
        until("calls end", || self.ask_status() <= BACKLOG);
        assert_eq!(self.answered.len(), seen, "a reply began after its cancel was read, {:?}", Moment::of(round));
    }

    #[track_caller]
    fn settle(&mut self) {
        until("no call is under way", || self.ask_status() == 0);
    }
}

/// Waits without sleeping: a sleep takes longer than the commands whose end is aimed at.
fn spin(delay: Duration) {
    let began = Instant::now();
    while began.elapsed() < delay {
        std::hint::spin_loop();
    }
}

/// Open descriptors of the gateway; `None` where only root may count them.
fn descriptors(pid: u32) -> Option<usize> {
    fs::read_dir(format!("/proc/{pid}/fd")).ok().map(Iterator::count)
}

/// Processes whose parent is the gateway, zombies included.
fn children(pid: u32) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let parent = |stat: String| stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok();
    stats.filter_map(parent).filter(|parent| *parent == pid).count()
}

#[test]
fn ten_thousand_cancels_that_meet_the_end_of_the_work_leave_one_answer_or_none() {
    let mut race = Race::start();
    race.run(0);
    race.run(3);
    race.settle();
    race.answered.clear();
    let pid = race.gateway.pid();
    let before = descriptors(pid);
    (4..ROUNDS + 4).for_each(|round| race.run(round));
    race.settle();
    assert_eq!(descriptors(pid), before, "descriptors are left open");
    assert_eq!(children(pid), 0);
    if before.is_none() {
        eprintln!("flow: only root may count the gateway's descriptors one by one; their limit of 300 was kept");
    }
    assert!(race.answered.values().all(|code| code == "ok"), "{:?}", race.answered);
    let (answered, mut gateway) = (race.answered.len(), race.gateway);
    let reply = gateway.ask(&modern_call(2_000_000, "true", "{}"));
    assert_eq!(code(&reply), "ok", "{reply}");
    assert!(gateway.probe().is_empty());
    let counters = gateway.end().counters();
    let found = counters["cancels"].as_object().unwrap();
    eprintln!("flow: {} races: {answered} answered; cancels found {}", ROUND * ROUNDS, counters["cancels"]);
    let total: u64 = found.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(total, ((ROUNDS + 2) * ROUND) as u64, "each cancel is counted once");
    for state in ["queued", "running", "unknown"] {
        assert!(found.contains_key(state), "no cancel met a call that was {state}: {found:?}");
    }
}

/// Sends cancels of which none names the one call that runs, then one that does. `ids`: as written, empty for no id at all. None
/// is answered, none ends the call. Returns what the counters say.
#[track_caller]
fn cancel_nothing(era: Era, ids: &[&str]) -> Value {
    let mut gateway = Gateway::new().tools(&tools(32 << 10)).start();
    era.begin(&mut gateway);
    let (file, mark) = (gateway.dir.join("begun"), mark());
    gateway.send(&call(era, 5, "mark", &marking(&file, &mark)));
    until("the command waits", || file.with_added_extension("said").exists() && with_mark(&mark).len() == 1);
    check_said(&gateway.ask(&call(era, 9, "say", "{}")));
    // Once a later answer is here, the writer is done with this one, and a cancel of it finds nothing.
    gateway.probe();
    for id in ids {
        let params = if id.is_empty() { "{}".to_owned() } else { format!(r#"{{"requestId":{id}}}"#) };
        gateway.send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#));
    }
    assert_eq!(gateway.probe(), [Value::Null; 0], "a cancel is answered");
    assert_eq!(with_mark(&mark).len(), 1, "the call was ended by a cancel that does not name it");
    gateway.send(&cancel(5));
    until("the command is gone", || with_mark(&mark).is_empty());
    assert_eq!(gateway.probe(), [Value::Null; 0], "the cancelled call is answered");
    gateway.end().counters()
}

#[test]
fn late_unknown_and_differently_typed_cancels_change_nothing_and_are_counted() {
    const IDS: [&str; 6] = [r#""5""#, r#""9""#, "9", "6", "-5", r#""six""#];
    for era in Era::BOTH {
        assert_eq!(cancel_nothing(era, &IDS)["cancels"], json!({"running": 1, "unknown": IDS.len()}));
    }
}

/// Among the cancels or among the refusals: whoever looks for a client that cancels wrongly finds it.
#[test]
fn cancels_whose_id_is_none_change_nothing_and_are_counted() {
    const IDS: [&str; 8] = ["null", "{}", "[5]", "5.0", "5.5", "5e0", "true", ""];
    for era in Era::BOTH {
        let counters = cancel_nothing(era, &IDS);
        let counts = ["cancels", "refusals"].map(|member| counters[member].as_object().unwrap().values());
        let total: u64 = counts.into_iter().flatten().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(total, 1 + IDS.len() as u64, "{counters}");
    }
}
