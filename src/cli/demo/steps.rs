//! The steps: what is sent, what comes back, and what is checked on the far side.
//!
//! A step that gets stuck is a promise that did not hold; the next one is shown all the same. A check looks at what the
//! gateway cannot say: the server's own memory, the process table, files, the exit code.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::demo::Fault;
use crate::cli::demo::client::{Ended, Request, Session, Trouble};
use crate::cli::demo::report::Screen;
use crate::cli::demo::scene::{REDACTED, Scene, state};
use crate::cli::demo::wait::Process;
use crate::process::Status;
use crate::sys;

/// The longest a cancelled command may live: the gateway's own limit is half a second to its KILL and two for its end.
const GONE: Duration = Duration::from_secs(5);
/// The revision the client speaks.
const MODERN: &str = "2026-07-28";
/// What a library or a wrapper prints where it should not.
const BANNER: &str = "listening on 3000 ";

/// Shows who plays, and what the gateway says of itself.
pub(super) fn introduce(scene: &Scene<'_>, session: &mut Session<'_>, screen: &mut Screen) -> Result<(), Trouble> {
    screen.title("the beginning", "a server, a gateway and a client, on this machine alone");
    screen.say(&format!("server   http://127.0.0.1:{}, wants a key that was made for this run", scene.server.port()));
    screen.say(&format!("gateway  process {}, has the key in its environment", session.pid()));
    screen.say(&format!("         {}", scene.command()));
    screen.say("client   this program; → it sends and ← it gets one JSON-RPC message a line, shown with … for the rest");
    let discover = session.request("server/discover", "");
    let answer = session.ask(&discover)?;
    let versions = parsed(&answer)["result"]["supportedVersions"].clone();
    let versions: Vec<&str> = versions.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_modern = versions.contains(&MODERN);
    screen.check(&format!("it speaks MCP {}", versions.join(", ")), is_modern.then_some(()).ok_or(answer));
    let list = session.request("tools/list", "");
    let answer = session.ask(&list)?;
    let tools = parsed(&answer)["result"]["tools"].clone();
    let names: Vec<&str> = tools.as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect();
    let is_complete = ["whoami", "find_note", "nap", "leave_mark"].iter().all(|tool| names.contains(tool));
    screen.check(&format!("it offers {}", names.join(", ")), is_complete.then_some(()).ok_or(answer));
    Ok(())
}

fn exchange(session: &mut Session<'_>, request: &Request, screen: &mut Screen) -> Result<String, Trouble> {
    screen.sent(&request.line);
    let answer = session.ask(request)?;
    screen.came(&answer);
    Ok(answer)
}

/// Step 1: an HTTP call with a credential.
pub(super) fn credentialed_call(scene: &Scene<'_>, session: &mut Session<'_>, screen: &mut Screen) -> Result<(), Trouble> {
    screen.title("step 1", "the server sees the key, the client does not");
    screen.say(&format!("credential  {}", scene.credential()));
    screen.say(&format!("http        {}", scene.recipe("whoami")));
    let request = session.call("whoami", &json!({}));
    let answer = exchange(session, &request, screen)?;
    check_seen(scene, screen);
    let is_redacted = answer.contains(REDACTED);
    screen.check(
        &format!("the server sent it back, and the client got {REDACTED} in its place"),
        is_redacted.then_some(()).ok_or(answer),
    );
    let promise = format!("the client's {} lines hold no trace of it", session.lines().len());
    screen.check(&promise, without_key(scene, "line", session.lines()));
    Ok(())
}

fn check_seen(scene: &Scene<'_>, screen: &mut Screen) {
    let expected = format!("Bearer {}", scene.key);
    let seen = scene.server.seen();
    match seen.as_slice() {
        [one] if one.authorization.as_ref() == Some(&expected) => {
            screen.check(&format!("the server saw  authorization: {expected}  (of this run, shown only here)"), Ok(()));
        }
        other => {
            let lines: Vec<String> = other.iter().map(|seen| format!("{} {:?}", seen.line, seen.authorization)).collect();
            let came = format!("{} requests: {}", other.len(), lines.join("; "));
            screen.check("the server saw one request, with the key made for this run", Err(came));
        }
    }
}

/// `Err` names the first of `texts` that holds the random part of the key.
fn without_key(scene: &Scene<'_>, what: &str, texts: &[String]) -> Result<(), String> {
    let trace = scene.key.rsplit('-').next().unwrap_or(&scene.key);
    match texts.iter().position(|text| text.contains(trace)) {
        None => Ok(()),
        Some(at) => Err(format!("{what} {} of {} holds it", at + 1, texts.len())),
    }
}

/// Step 2: a local command.
pub(super) fn local_command(scene: &Scene<'_>, session: &mut Session<'_>, screen: &mut Screen) -> Result<(), Trouble> {
    screen.title("step 2", "a local command runs as declared, and no shell reads its arguments");
    screen.say(&format!("exec {}", scene.recipe("find_note")));
    let request = session.call("find_note", &json!({"text": "tide; touch oops"}));
    let answer = exchange(session, &request, screen)?;
    let text = parsed(&answer)["result"]["structuredContent"]["stdout"]["text"].clone();
    let has_run = text == format!("2:{}\n", scene.note);
    screen.check(&format!("it ran: \"{}\" was written for this run", scene.note), has_run.then_some(()).ok_or(answer));
    let is_text = !scene.folder.join("oops").exists();
    screen.check(
        "\"; touch oops\" stayed text: no shell made a file of it",
        is_text.then_some(()).ok_or_else(|| "there is a file oops".to_owned()),
    );
    let kinds = journal_of(scene, "find_note");
    let is_recorded = kinds.first().is_some_and(|first| first == "intent") && kinds[1..] == ["outcome ok"];
    screen.check("the journal has the intent, and after it the outcome", is_recorded.then_some(()).ok_or(format!("{kinds:?}")));
    Ok(())
}

/// What the first session's journal says of calls of `tool`, in order: `intent`, `outcome CODE`, `outcome CODE ENDED`.
fn journal_of(scene: &Scene<'_>, tool: &str) -> Vec<String> {
    let records: Vec<Value> = scene.folder.journal(&state("1")).iter().map(|line| parsed(line)).collect();
    let is_intent = |record: &&Value| record["type"] == "intent" && record["tool"] == tool;
    let calls: Vec<&Value> = records.iter().filter(is_intent).map(|record| &record["call"]).collect();
    let of_tool = records.iter().filter(|record| calls.contains(&&record["call"]));
    let words = of_tool.map(|record| ["type", "code", "ended"].map(|member| record[member].as_str().unwrap_or_default()));
    words.map(|words| words.join(" ").trim_end().to_owned()).collect()
}

/// Step 3: a command that is cancelled.
pub(super) fn cancelled_command(scene: &Scene<'_>, session: &mut Session<'_>, screen: &mut Screen) -> Result<(), Trouble> {
    screen.title("step 3", "a cancel ends the work: the command and what it started are gone");
    screen.say(&format!("exec {}", scene.recipe("nap")));
    let request = session.call("nap", &json!({}));
    screen.sent(&request.line);
    session.send(&format!("{}\n", request.line))?;
    let [command, helper] = started(scene, session, request.id)?;
    screen.say(&format!("  process {} runs, and its child {}", command.pid(), helper.pid()));
    let both = [command, helper];
    screen.check("neither has the key in its environment", bare(scene, &both));
    let cancel = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#, request.id);
    screen.sent(&cancel);
    let began = Instant::now();
    session.send(&format!("{cancel}\n"))?;
    let alive = wait_gone(scene, &both, began + GONE)?;
    let promise = format!("processes {} and {} are gone", both[0].pid(), both[1].pid());
    if alive.is_empty() {
        screen.check(&format!("{promise}, {} ms after the cancel", began.elapsed().as_millis()), Ok(()));
    } else {
        screen.check(&promise, Err(format!("{alive:?} still running after {GONE:?}")));
    }
    let next = session.call("find_note", &json!({"text": "slack"}));
    exchange(session, &next, screen)?;
    let late = session.find(request.id).map(str::to_owned);
    screen.check("this call is answered, the cancelled one is not", late.map_or(Ok(()), Err));
    Ok(())
}

/// The command and its child, once it tells their numbers.
fn started(scene: &Scene<'_>, session: &mut Session<'_>, id: u64) -> Result<[Process; 2], Trouble> {
    let (fd, mut told) = (scene.told.reader.as_fd(), Vec::new());
    let is_alive = session.wait_for("word of the command", &[fd], |session| {
        let mut chunk = [0; 256];
        // Not ready, or nothing at all: then it is asked again.
        let length = sys::read(fd, &mut chunk).unwrap_or(0);
        told.extend_from_slice(&chunk[..length]);
        told.ends_with(b"\n") || session.find(id).is_some()
    })?;
    if told.is_empty() {
        let why = if is_alive { "it answered instead of running the command" } else { "it ended before it ran the command" };
        return Err(Trouble::Gateway(why.to_owned()));
    }
    let text = String::from_utf8_lossy(&told).into_owned();
    let processes = text.split_whitespace().map(|word| Process::of(word.parse().ok()?, scene.folder.path()));
    let processes: Vec<Process> = processes.flatten().collect();
    processes.try_into().map_err(|_| Trouble::Gateway(format!("no such two processes run in its folder: {text}")))
}

/// `Err` names what of the processes' environments holds the key, or cannot be looked at.
fn bare(scene: &Scene<'_>, processes: &[Process]) -> Result<(), String> {
    let read = |process: &Process| std::fs::read(format!("/proc/{}/environ", process.pid()));
    let texts: Result<Vec<Vec<u8>>, std::io::Error> = processes.iter().map(read).collect();
    let texts = texts.map_err(|error| format!("/proc cannot be read: {error}"))?;
    let texts: Vec<String> = texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    without_key(scene, "environment", &texts)
}

/// Waits until all have ended; those that have not by `until` are named.
fn wait_gone(scene: &Scene<'_>, processes: &[Process], until: Instant) -> Result<Vec<i32>, Fault> {
    loop {
        let alive: Vec<&Process> = processes.iter().filter(|process| !process.has_ended()).collect();
        let exits = alive.iter().map(|process| sys::Poll::readable(process.exit())).collect();
        if alive.is_empty() || !scene.interrupt.wait(exits, until)? {
            return Ok(alive.iter().map(|process| process.pid()).collect());
        }
    }
}

/// Step 4: a malformed line, in a session of its own.
pub(super) fn malformed_line(scene: &Scene<'_>, screen: &mut Screen) -> Result<(), Trouble> {
    screen.title("step 4", "a malformed line closes the session, and nothing is executed");
    screen.say(&format!("exec {}", scene.recipe("leave_mark")));
    let mut session = scene.start("2")?;
    let discover = session.request("server/discover", "");
    session.ask(&discover)?;
    let before = session.lines().len();
    let glued = format!("{BANNER}{}", session.call("leave_mark", &json!({"name": "one"})).line);
    let valid = session.call("leave_mark", &json!({"name": "two"}));
    screen.sent(&glued);
    screen.sent(&valid.line);
    session.send(&format!("{glued}\n{}\n", valid.line))?;
    session.wait_for("end of it", &[], |session| session.find(valid.id).is_some())?;
    let ended = session.finish()?;
    check_closed(&ended, before, screen);
    check_nothing_executed(scene, &ended, screen);
    check_control(scene, &valid, screen)
}

/// The lines from number `before` on answer the malformed one.
fn check_closed(ended: &Ended, before: usize, screen: &mut Screen) {
    let answers = &ended.lines[before..];
    answers.iter().for_each(|line| screen.came(line));
    let is_one_error = match answers {
        [one] => {
            let answer = parsed(one);
            answer["error"]["code"] == -32700 && answer["id"].is_null()
        }
        _ => false,
    };
    let came = format!("{} answers: {}", answers.len(), answers.join(" "));
    screen.check("one answer, the error -32700, and none to the call behind it", is_one_error.then_some(()).ok_or(came));
    screen.check("the gateway closed the session itself, with exit code 65", exited(ended, 65));
}

fn check_nothing_executed(scene: &Scene<'_>, ended: &Ended, screen: &mut Screen) {
    let marks: Vec<&str> = ["mark-one", "mark-two"].into_iter().filter(|mark| scene.folder.join(mark).exists()).collect();
    let verdict = if marks.is_empty() { Ok(()) } else { Err(marks.join(", ")) };
    screen.check("no mark: neither the call in the line nor the valid one behind it was executed", verdict);
    let (journal, counters) = (scene.folder.journal(&state("2")), counters(&ended.stderr));
    let is_zero = journal.is_empty() && counters["executions"] == json!({}) && counters["refusals"] != json!({});
    let came = format!("{} journal records, counters {counters}", journal.len());
    screen.check("executions: 0 in the closing counters, and no journal was begun", is_zero.then_some(()).ok_or(came));
}

/// Without this, a tool that never works would look as safe as a gateway that does not call it.
fn check_control(scene: &Scene<'_>, valid: &Request, screen: &mut Screen) -> Result<(), Trouble> {
    let mut session = scene.start("3")?;
    let answer = session.ask(valid)?;
    let is_executed = scene.folder.join("mark-two").exists();
    screen.check("the same valid line, alone in a new session, leaves its mark", is_executed.then_some(()).ok_or(answer));
    session.finish()?;
    Ok(())
}

/// The end of the first session, and what is left of everything.
pub(super) fn afterwards(scene: Scene<'_>, session: Session<'_>, screen: &mut Screen) -> Result<(), Fault> {
    screen.title("the end", "nothing leaked, nothing is left");
    let ended = session.finish()?;
    screen.check("end of file on stdin ends the first session with exit code 0", exited(&ended, 0));
    let broken = ended.lines.iter().find(|line| parsed(line)["jsonrpc"] != "2.0").cloned();
    screen.check(&format!("all {} lines it wrote are whole JSON-RPC messages", ended.lines.len()), broken.map_or(Ok(()), Err));
    let kinds = journal_of(&scene, "nap");
    let is_recorded = kinds == ["intent", "outcome cancelled dead"];
    screen.check("the journal says of nap: cancelled, seen to be dead", is_recorded.then_some(()).ok_or(format!("{kinds:?}")));
    let texts = [ended.lines, vec![ended.stderr], scene.folder.texts()].concat();
    screen.check(
        "no line, operator message, configuration or journal holds a trace of the key",
        without_key(&scene, "text", &texts),
    );
    let path = scene.folder.path().display().to_string();
    let verdict = scene.close().map_err(|error| error.to_string());
    screen.check(&format!("{path} is removed"), verdict);
    Ok(())
}

fn exited(ended: &Ended, code: i32) -> Result<(), String> {
    match ended.status {
        Some(Status::Exited(status)) if status == code => Ok(()),
        Some(Status::Exited(status)) => Err(format!("exit code {status}")),
        Some(Status::Signalled(number)) => Err(format!("ended by {}", sys::signal_name(number))),
        None => Err("it did not end and was killed".to_owned()),
    }
}

/// The closing counters, null if there are none.
fn counters(stderr: &str) -> Value {
    stderr.lines().rfind(|line| line.starts_with("{\"frames_in\"")).map_or(Value::Null, parsed)
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_default()
}
