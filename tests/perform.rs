//! The steps of `perform`, one by one, without a session: what must stop a call that policy has granted, and what has not
//! happened by then.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::cancel::{CancelToken, Why};
use tidegate::clock::Clock;
use tidegate::config::Config;
use tidegate::executor::credential::Vault;

use tidegate::executor::recorder::Recorder;
use tidegate::executor::{CallCtx, Executors, Hands};
use tidegate::gateway::desk::Desk;
use tidegate::gateway::pipeline::{Asked, World, judge, perform};
use tidegate::journal::append::Journal;
use tidegate::mcp::call::{Call, Step};
use tidegate::mcp::session::Session;
use tidegate::outcome::artifact::Store;
use tidegate::outcome::budget::Sinks;
use tidegate::outcome::result::{Code, Executed, Outcome};
use tidegate::policy::pace::Paces;
use tidegate::policy::rules::{Networks, Toolbox};
use tidegate::rpc::message::{Message, parse};

use crate::kit::dir::Dir;
use crate::kit::modern_call;

/// A gateway's parts around one call of its tool `touch`, which makes the file `marker`.
struct Bench {
    dir: Dir,
    tools: Toolbox,
    world: World,
    token: CancelToken,
    deadline: Instant,
}

impl Bench {
    /// `is_dry`: actions are recorded in the file `record`.
    fn new(is_dry: bool) -> Bench {
        let dir = Dir::new();
        // Others may read it, so that handing it out is seen: the vault remembers the failure.
        let key = dir.write_mode("key", "a key that others may read", 0o644);
        let config = serde_json::json!({
            "state_dir": dir.join("state"),
            "credentials": {"api": {"from": {"file": key}, "for": [{"host": "api.example.com"}]}},
            "tools": [
                {"name": "touch", "description": "Touches", "exec": {"argv": ["touch", dir.join("marker")]}},
                {"name": "fetch", "description": "Fetches", "http": {"url": "https://api.example.com/", "credential": "api"}},
            ],
        });
        let config = Config::parse(Path::new("/perform.json"), &config.to_string(), &|_| None).unwrap();
        let record = File::create(dir.join("record")).unwrap();
        let hands = match is_dry {
            true => Hands::Recorder(Recorder::new(Some(record))),
            false => Hands::Real(Executors::new(Networks::default(), None)),
        };
        let journal = Journal::new(&config.state_dir, config.journal, Clock::System).unwrap();
        let vault = Vault::new(config.credentials, tidegate::sys::user_id());
        let (tools, deadline) = (Toolbox::new(config.tools), Instant::now() + Duration::from_secs(60));
        let paces = Paces::new(&tools, Instant::now());
        let desk = Arc::new(Desk::new(&config.state_dir).unwrap());
        let world =
            World { hands, journal: Arc::new(journal), vault, store: Arc::new(Store::new(&config.state_dir)), paces, desk };
        Bench { dir, tools, world, token: CancelToken::new().unwrap(), deadline }
    }

    fn perform(&self, tool: &str) -> Outcome {
        let call = call(tool);
        let grant = judge(&call, &self.tools).unwrap().granted().unwrap();
        let sinks = Sinks::new(self.world.vault.redactor(), Arc::clone(&self.world.store), tool);
        let ctx = CallCtx { token: &self.token, deadline: self.deadline, sinks };
        perform(grant, &Asked { number: 1, admitted: Instant::now(), call: &call, approval: None }, &ctx, &self.world).unwrap()
    }

    /// The call stopped before anything happened: no record, no effect, no credential looked at, and in `is_silent` no journal.
    #[track_caller]
    fn check_stopped(&self, tool: &str, code: Code, is_silent: bool) {
        let outcome = self.perform(tool);
        assert_eq!((outcome.code, outcome.executed), (Some(code), Executed::No), "{}", outcome.text);
        assert_eq!(self.dir.read("record"), "");
        assert!(!self.dir.join("marker").exists());
        assert!(self.world.vault.failures().is_empty(), "a credential was looked at");
        assert!(!is_silent || !self.dir.join("state").exists(), "something was recorded");
    }
}

fn call(tool: &str) -> Call {
    let line = modern_call(1, tool, "{}");
    let Ok(Message::Request(request)) = parse(&line) else { panic!("no request: {line}") };
    match Session::new(Default::default(), None).request(&request) {
        Step::Call(call) => call,
        other => panic!("no call: {other:?}"),
    }
}

#[test]
fn a_cancelled_call_stops_before_its_first_step() {
    for is_dry in [true, false] {
        let bench = Bench::new(is_dry);
        bench.token.cancel(Why::Client);
        bench.check_stopped("touch", Code::Cancelled, true);
        bench.check_stopped("fetch", Code::Cancelled, true);
    }
}

#[test]
fn a_call_whose_time_was_over_in_the_queue_stops_before_its_first_step() {
    for is_dry in [true, false] {
        let bench = Bench { deadline: Instant::now(), ..Bench::new(is_dry) };
        bench.check_stopped("touch", Code::TimedOut, true);
        bench.check_stopped("fetch", Code::TimedOut, true);
    }
}

#[test]
fn no_credential_is_looked_at_before_the_intent_is_on_disk() {
    let bench = Bench::new(false);
    bench.dir.write("state", "in the way of the state folder");
    bench.check_stopped("touch", Code::JournalUnavailable, false);
    bench.check_stopped("fetch", Code::JournalUnavailable, false);
    std::fs::remove_file(bench.dir.join("state")).unwrap();
    let outcome = bench.perform("fetch");
    assert_eq!((outcome.code, outcome.executed), (Some(Code::CredentialUnavailable), Executed::No), "{}", outcome.text);
    assert_eq!(bench.world.vault.failures().len(), 1);
    let types: Vec<_> = bench.dir.journal_under("state").iter().map(|line| line["type"].clone()).collect();
    assert_eq!(types, ["session", "intent", "outcome"]);
}

#[test]
fn a_dry_run_records_without_a_journal_and_without_a_credential() {
    let bench = Bench::new(true);
    for tool in ["touch", "fetch"] {
        assert_eq!(bench.perform(tool).code, None);
    }
    assert_eq!(bench.dir.read("record").lines().count(), 2);
    assert!(bench.world.vault.failures().is_empty() && !bench.dir.join("marker").exists() && !bench.dir.join("state").exists());
}
