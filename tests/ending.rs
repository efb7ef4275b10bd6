//! The end: end of file, signals, broken pipes, malformed lines. Whatever runs is ended, whatever can be answered is, nothing
//! is left, and it does not take longer than it says.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use tidegate::config::Config;

use crate::kit::dir::Dir;
use crate::kit::gateway::{Ended, Gateway, Running};
use crate::kit::memory::Memory;
use crate::kit::process::{self, check_gone, cpu, is_alive, mark, until, with_mark};
use crate::kit::{Era, call, within};

/// The default grace.
const GRACE: Duration = Duration::from_millis(1000);
/// What the end may take beyond the grace.
const SLACK: Duration = Duration::from_millis(200);
/// From the beginning of the end to exit, whatever happens.
const END: Duration = Duration::from_millis(2000);

/// `run` runs a shell script, `say` answers at once.
const TOOLS: &str = r#"[
    {"name": "run", "description": "Runs it", "exec": {"argv": ["sh", "-c", "{script}"]},
     "input": {"type": "object", "properties": {"script": {"type": "string"}}, "required": ["script"]}},
    {"name": "big", "description": "Says much", "content_bytes": 900000,
     "exec": {"argv": ["sh", "-c", "head -c 400000 /dev/zero | tr '\\0' x"]}},
    {"name": "say", "description": "Says it", "exec": {"argv": ["echo", "said"]}}]"#;

fn gateway() -> Gateway {
    Gateway::new().tools(TOOLS)
}

fn run(era: Era, id: u32, script: &str) -> String {
    call(era, id, "run", &json!({"script": script}).to_string())
}

/// Starts a command that does not end by itself and returns once `processes` of it are there.
fn start_command(gateway: &mut Running, id: u32, script: &str, mark: &str, processes: usize) {
    gateway.send(&run(Era::Modern, id, script));
    until("the command runs", || with_mark(mark).len() == processes);
}

/// A command with a child, both of which heed TERM.
fn mild(mark: &str) -> String {
    format!("sleep {mark} & wait; : {mark}")
}

/// A command with a child in its group and one that left it, none of which heeds TERM.
fn stubborn(mark: &str) -> String {
    format!("trap '' TERM; sleep {mark} & setsid sleep {mark} & while :; do sleep {mark}; done")
}

fn outcome(message: &Value) -> (&str, &str) {
    let outcome = &message["result"]["_meta"]["tidegate/outcome"];
    (outcome["code"].as_str().unwrap_or("ok"), outcome["executed"].as_str().unwrap_or_default())
}

fn reply(ended: &Ended, id: u32) -> &Value {
    let mut replies = ended.rest.iter().filter(|message| message["id"] == id);
    let reply = replies.next().unwrap_or_else(|| panic!("no reply for {id} in {:?}", ended.rest));
    assert!(replies.next().is_none(), "two replies for {id}");
    reply
}

/// How long it takes from `event` to exit 0, with nothing of the command left.
#[track_caller]
fn end_of(script: impl Fn(&str) -> String, processes: usize, event: impl Fn(&mut Running)) -> Duration {
    let mark = mark();
    let mut gateway = gateway().says_anything().start();
    start_command(&mut gateway, 1, &script(&mark), &mark, processes);
    event(&mut gateway);
    let ended = gateway.wait();
    until("nothing is left", || with_mark(&mark).is_empty());
    // Where the machine was too slow the call was let go; the run that counts is held to everything.
    if ended.took <= END {
        assert_eq!(ended.operator_lines(), [""; 0]);
        assert_eq!(outcome(reply(&ended, 1)), ("cancelled", "yes"), "the client learns how its call ended");
    }
    ended.took
}

#[test]
fn end_of_file_gives_a_running_command_its_grace_r053() {
    let took = within(GRACE + SLACK, || end_of(mild, 2, Running::close_stdin));
    assert!(took >= GRACE, "ended after {took:?}, before its grace was over");
}

#[test]
fn a_command_that_ends_within_the_grace_is_answered() {
    let mut gateway = gateway().start();
    let begun = gateway.dir.join("begun");
    let (fifo, path) = (gateway.dir.join("go"), gateway.dir.path().display().to_string());
    gateway.send(&run(Era::Modern, 1, &format!("mkfifo {path}/go; echo > {path}/begun; cat {path}/go")));
    process::written(&begun);
    gateway.close_stdin();
    std::fs::write(fifo, "in time").unwrap();
    let ended = gateway.wait();
    assert_eq!(reply(&ended, 1)["result"]["structuredContent"]["stdout"]["text"], "in time");
}

#[test]
fn a_signal_ends_a_running_command_at_once() {
    for signal in ["TERM", "INT"] {
        within(SLACK, || end_of(mild, 2, |gateway| gateway.signal(signal)));
    }
}

#[test]
fn what_the_launcher_ignored_or_blocked_changes_nothing() {
    let launcher = r#"exec env --ignore-signal=CHLD,TERM,INT --block-signal=CHLD,TERM,INT,USR1 "$@""#;
    within(SLACK, || {
        let mark = mark();
        let mut gateway = gateway().through(launcher).start();
        let reply = gateway.ask(&run(Era::Modern, 2, "exit 3"));
        assert_eq!(reply["result"]["structuredContent"]["exit"], 3, "{reply}");
        start_command(&mut gateway, 1, &mild(&mark), &mark, 2);
        gateway.signal("TERM");
        let ended = gateway.wait();
        check_gone(&mark);
        ended.took
    });
}

#[test]
fn a_signal_cuts_the_grace_short() {
    within(SLACK, || {
        end_of(mild, 2, |gateway| {
            gateway.close_stdin();
            gateway.signal("TERM");
        })
    });
}

#[test]
fn a_command_that_ignores_term_is_killed_r057() {
    const TERM_TO_KILL: Duration = Duration::from_millis(500);
    let took = within(TERM_TO_KILL + SLACK, || end_of(stubborn, 4, |gateway| gateway.signal("TERM")));
    assert!(took >= TERM_TO_KILL, "killed after {took:?}");
    within(GRACE + TERM_TO_KILL + SLACK, || end_of(stubborn, 4, Running::close_stdin));
}

#[test]
fn a_second_signal_kills_at_once() {
    within(SLACK, || {
        end_of(stubborn, 4, |gateway| {
            gateway.signal("TERM");
            gateway.signal("TERM");
        })
    });
}

#[test]
fn sixteen_commands_that_ignore_term_are_gone_in_two_seconds_r062() {
    within(END, || {
        let mark = mark();
        let mut gateway = gateway().says_anything().start();
        for id in 1..=16 {
            gateway.send(&run(Era::Modern, id, &stubborn(&mark)));
        }
        until("all commands run", || with_mark(&mark).len() == 16 * 4);
        gateway.close_stdin();
        let ended = gateway.wait();
        until("nothing is left", || with_mark(&mark).is_empty());
        if ended.took <= END {
            assert_eq!(ended.operator_lines(), [""; 0]);
            (1..=16).for_each(|id| assert_eq!(outcome(reply(&ended, id)), ("cancelled", "yes")));
        }
        ended.took
    });
}

#[test]
fn an_idle_gateway_ends_at_once() {
    for era in Era::BOTH {
        for event in [Running::close_stdin, |gateway: &mut Running| gateway.signal("TERM")] {
            within(SLACK, || {
                let mut gateway = gateway().start();
                era.begin(&mut gateway);
                gateway.ask(&call(era, 1, "say", "{}"));
                gateway.probe();
                event(&mut gateway);
                let ended = gateway.wait();
                assert_eq!(ended.rest, [Value::Null; 0]);
                ended.took
            });
        }
    }
}

/// The loop and the writer meet at the end; whichever comes first, neither waits for the other to be noticed.
#[test]
fn no_end_of_many_waits_for_its_deadline() {
    for _ in 0..500 {
        let gateway = Memory::start(Config::unconfigured(&|_| None));
        let began = Instant::now();
        gateway.end();
        assert!(began.elapsed() < END, "{:?}", began.elapsed());
    }
}

#[test]
fn no_input_at_all_is_an_end_r053() {
    within(SLACK, || {
        let ended = gateway().through(r#"exec "$@" </dev/null"#).start().wait();
        assert_eq!(ended.stdout, b"");
        ended.took
    });
}

#[test]
fn a_fifo_whose_writer_has_left_ends() {
    let gateway = gateway();
    let (fifo, lines) = (gateway.dir().join("in"), gateway.dir().write("lines", call(Era::Modern, 1, "say", "{}") + "\n"));
    // The shell opens the FIFO while its writer is there and starts the gateway once it has left.
    let script = format!(
        r#"mkfifo {fifo}; cat {lines} > {fifo} & exec <{fifo}; wait; exec "$@""#,
        fifo = fifo.display(),
        lines = lines.display()
    );
    let ended = gateway.through(&script).start().wait();
    assert_eq!(outcome(reply(&ended, 1)), ("ok", "yes"));
}

#[test]
fn quick_calls_still_queued_at_the_end_of_file_are_all_answered() {
    for era in Era::BOTH {
        // As long a grace as there is: eight commands in turn are quick only on an idle machine.
        let gateway = gateway().set("session", json!({"grace_ms": 1500})).set("limits", json!({"workers": 1}));
        let mut gateway = gateway.start();
        era.begin(&mut gateway);
        let lines: Vec<String> = (1..=8).map(|id| call(era, id, "say", "{}")).collect();
        gateway.send_raw((lines.join("\n") + "\n").as_bytes());
        let ended = gateway.end();
        for id in 1..=8 {
            assert_eq!(reply(&ended, id)["result"]["structuredContent"]["stdout"]["text"], "said\n");
        }
    }
}

#[test]
fn an_unterminated_last_line_is_never_executed() {
    let mark = mark();
    for (rule, exit) in [("close", 65), ("continue", 0)] {
        let gateway = gateway().set("session", json!({"on_malformed": rule})).exit(exit);
        let mut gateway = gateway.says("unterminated").start();
        let touched = gateway.dir.join("touched");
        gateway.send_raw(run(Era::Modern, 1, &format!("echo {mark} > {}", touched.display())).as_bytes());
        let ended = gateway.end();
        assert_eq!(ended.rest.len(), 1, "{:?}", ended.rest);
        assert_eq!(ended.rest[0]["error"]["code"], -32700);
        assert!(!touched.exists());
    }
}

#[test]
fn a_malformed_line_ends_what_runs_and_starts_nothing_more() {
    within(GRACE + SLACK, || {
        let mark = mark();
        let gateway = gateway().set("limits", json!({"workers": 1})).exit(65).says("session closed");
        let touched = gateway.dir().join("touched");
        let mut gateway = gateway.start();
        start_command(&mut gateway, 1, &mild(&mark), &mark, 2);
        let script = format!("echo > {}", touched.display());
        for id in [2, 3] {
            gateway.send(&run(Era::Modern, id, &script));
        }
        gateway.send("not JSON");
        gateway.send_ignored(&(run(Era::Modern, 4, &script) + "\n"));
        gateway.send_ignored("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}\n");
        let ended = gateway.wait();
        assert_eq!(outcome(reply(&ended, 1)), ("cancelled", "yes"));
        assert_eq!(outcome(reply(&ended, 2)), ("cancelled", "no"));
        assert_eq!(outcome(reply(&ended, 3)), ("cancelled", "no"));
        let errors: Vec<_> = ended.rest.iter().filter(|message| message["id"].is_null()).collect();
        assert_eq!((errors.len(), &errors[0]["error"]["code"]), (1, &json!(-32700)));
        assert_eq!(ended.rest.len(), 4, "the lines behind it are not read: {:?}", ended.rest);
        assert!(!touched.exists());
        check_gone(&mark);
        ended.took
    });
}

#[test]
fn a_stdout_that_closes_while_idle_is_noticed() {
    for era in Era::BOTH {
        within(SLACK, || {
            let mut gateway = gateway().exit(74).start();
            era.begin(&mut gateway);
            gateway.probe();
            gateway.close_stdout();
            gateway.wait().took
        });
    }
}

#[test]
fn a_stdout_that_closes_ends_a_running_command_at_once() {
    within(SLACK, || {
        let mark = mark();
        let mut gateway = gateway().exit(74).start();
        start_command(&mut gateway, 1, &mild(&mark), &mark, 2);
        gateway.close_stdout();
        let ended = gateway.wait();
        check_gone(&mark);
        ended.took
    });
}

#[test]
fn broken_pipes_end_the_gateway_quietly_r055() {
    within(SLACK, || {
        let mut gateway = gateway().stderr_closed().exit(74).start();
        gateway.probe();
        gateway.close_stdout();
        gateway.send_ignored("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}\n");
        gateway.wait().took
    });
}

/// Closing both is what the end of a client looks like: no fault, whichever is noticed first.
#[test]
fn a_client_that_is_gone_is_a_clean_end_r055() {
    for closes in [[Running::close_stdin, Running::close_stdout], [Running::close_stdout, Running::close_stdin]] {
        let mark = mark();
        let mut gateway = gateway().stderr_closed().exit(0).start();
        start_command(&mut gateway, 1, &stubborn(&mark), &mark, 4);
        closes.iter().for_each(|close| close(&mut gateway));
        assert!(gateway.wait().took < END);
        check_gone(&mark);
    }
}

/// A parent that holds both ends of the gateway's pipes, sent one line and waits.
struct Parent {
    shell: Child,
    gateway: u32,
    _dirs: (Dir, Gateway),
}

impl Parent {
    fn start(line: &str) -> Parent {
        let (mut gateway, dir) = (gateway(), Dir::new());
        let command = gateway.command();
        let script = r#"cd "$0"; mkfifo in out; "$@" <in >out 2>/dev/null & echo $! > pid; exec 3>in 4<out; cat line >&3; read answer <&4"#;
        dir.write("line", format!("{line}\n"));
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).arg(dir.path()).arg(command.get_program()).args(command.get_args());
        let shell = shell.spawn().unwrap();
        let gateway_pid = process::written(&dir.join("pid")).trim().parse().unwrap();
        Parent { shell, gateway: gateway_pid, _dirs: (dir, gateway) }
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
fn the_death_of_the_parent_is_the_end_r053() {
    within(END, || {
        let mark = mark();
        let mut parent = Parent::start(&run(Era::Modern, 1, &stubborn(&mark)));
        until("the command runs", || with_mark(&mark).len() == 4);
        assert!(is_alive(parent.gateway));
        let killed = Instant::now();
        parent.shell.kill().unwrap();
        parent.shell.wait().unwrap();
        until("the gateway ended", || !is_alive(parent.gateway));
        let took = killed.elapsed();
        check_gone(&mark);
        took
    });
}

/// CPU time of the gateway over an end that takes as long as it may.
fn cpu_of_end(exit: i32, event: impl Fn(&mut Running)) -> Duration {
    let mark = mark();
    let mut gateway = gateway().exit(exit).says_anything().start();
    start_command(&mut gateway, 1, &stubborn(&mark), &mark, 4);
    let before = cpu(gateway.pid()).unwrap();
    event(&mut gateway);
    let mut last = before;
    until("it ends", || cpu(gateway.pid()).inspect(|now| last = *now).is_none());
    gateway.wait();
    last - before
}

#[test]
fn the_end_is_waited_for_not_polled_for_r054() {
    const LITTLE: Duration = Duration::from_millis(150);
    within(LITTLE, || cpu_of_end(0, Running::close_stdin));
    within(LITTLE, || cpu_of_end(0, |gateway| gateway.signal("TERM")));
    within(LITTLE, || cpu_of_end(74, Running::close_stdout));
    within(LITTLE, || {
        cpu_of_end(0, |gateway| {
            gateway.close_stdin();
            gateway.close_stdout();
        })
    });
}

#[test]
fn a_stdout_that_nobody_reads_does_not_keep_the_gateway() {
    const PIPE: usize = 64 << 10;
    let mut gateway = gateway().start();
    gateway.probe();
    gateway.hold();
    gateway.send(&call(Era::Modern, 1, "big", "{}"));
    until("the call has run", || gateway.journal().iter().any(|record| record["type"] == "outcome"));
    gateway.signal("TERM");
    let (took, stdout) = gateway.ended_with_stdout_unread();
    assert!(took < END + SLACK, "{took:?}");
    // What the pipe took is the beginning of the reply; nobody was there to read the rest.
    assert!(stdout.len() >= PIPE / 2, "{}", stdout.len());
}

#[test]
fn threads_have_their_names_and_an_idle_gateway_has_few() {
    let mark = mark();
    let mut gateway = gateway().start();
    gateway.probe();
    let names = |gateway: &Running| {
        let mut names = process::threads(gateway.pid());
        names.sort();
        names
    };
    assert_eq!(names(&gateway), ["tg-reader", "tg-stderr", "tg-writer", "tidegate"]);
    for id in 1..=20 {
        gateway.send(&run(Era::Modern, id, &mild(&mark)));
    }
    until("sixteen commands run", || with_mark(&mark).len() == 16 * 2);
    let mut expected: Vec<String> = (1..=16).map(|number| format!("tg-worker-{number}")).collect();
    expected.extend(["tg-journal", "tg-reader", "tg-stderr", "tg-writer", "tidegate"].map(str::to_owned));
    expected.sort();
    assert_eq!(names(&gateway), expected);
    gateway.signal("TERM");
    gateway.wait();
    check_gone(&mark);
}
