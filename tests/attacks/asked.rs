//! Sessions in which tools ask their client first, in both eras: seeded, and judged line by line by a model of their own; then the
//! same with damaged lines, where what was done is counted against the answers that were given.
//!
//! Actions are really carried out here. All sessions share a state folder, so states of earlier ones are brought again as well.

mod model;
mod ops;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Stdio;

use tidegate::clock::Clock;
use tidegate::config::Config;
use tidegate::executor::{Executors, Hands};
use tidegate::gateway::assemble::assemble;
use tidegate::policy::rules::Networks;
use tidegate::wire::stdio::{Input, Output};

use super::drive::Wire;
use super::json::{self, Json};
use super::mutate::{Dice, mutate_line};
use super::seeds;
use crate::kit::PATIENCE;
use crate::kit::dir::Dir;
use crate::kit::gateway::Gateway;
use crate::kit::schema::check_stdout;
use model::{Line, Model, State, WAITING_MAX};
use ops::{Chooser, Op};

/// Of so many seeds one is a session of this kind.
const SHARE: usize = 4;
/// And of so many of these one goes through the real binary.
const BINARY_SHARE: usize = 10;
const BINARY_SESSIONS: usize = 30;

/// The tools; whatever is done, is in the file `done`.
fn config(dir: &Dir) -> String {
    let script = format!("printf '%s %s\\\\n' \\\"$0\\\" \\\"$1\\\" >> '{}'", dir.join("done").display());
    let tool = |name: &str, confirm: &str| {
        format!(
            r#"{{"name": "{name}", "description": "Does it", "confirm": "{confirm}",
     "input": {{"type": "object", "properties": {{"text": {{"type": "string", "maxLength": 20}}}}, "required": ["text"]}},
     "exec": {{"argv": ["sh", "-c", "{script}", "{name}", "{{text}}"], "env": {{"HOME": "/"}}}}}}"#
        )
    };
    format!(
        r#"{{"state_dir": "{}", "session": {{"on_malformed": "continue"}}, "journal": {{"sync": "intents"}},
  "approvals": {{"order": ["client"], "timeout_s": 3600}},
  "tools": [{}, {}, {}]}}"#,
        dir.join("state").display(),
        tool("put", "ask"),
        tool("set", "ask"),
        tool("say", "never")
    )
}

/// How a session ends: hands over its exit code.
type Waits = Box<dyn FnOnce() -> i32>;

/// Both ends of a session.
struct Ends {
    to: Option<Box<dyn Wire>>,
    from: BufReader<UnixStream>,
    stdout: Vec<u8>,
    wait: Waits,
}

impl Ends {
    /// In this process.
    fn memory(dir: &Dir) -> Ends {
        let parsed = Config::parse(Path::new("/asked.json"), &config(dir), &|_| None).unwrap();
        let hands = Hands::Real(Executors::new(Networks::default(), None));
        let assembled = assemble(parsed, hands, Clock::System, None).unwrap();
        let (to, far) = UnixDatagram::pair().unwrap();
        let (from, far_out) = UnixStream::pair().unwrap();
        to.set_write_timeout(Some(PATIENCE)).unwrap();
        let reader = assembled.start(Input::new(far.into()).unwrap(), Output::new(far_out.into()).unwrap()).unwrap();
        let session = std::thread::spawn(move || i32::from(reader.run().exit_code()));
        Ends::new(Box::new(to), from, Box::new(move || session.join().expect("no panic")))
    }

    /// The real binary.
    fn binary(dir: &Dir) -> Ends {
        let gateway = Gateway::new();
        let config = gateway.dir().write("asked.json", config(dir));
        let mut gateway = gateway.args(["--config".into(), config]);
        let (stdin, to) = std::io::pipe().unwrap();
        let (from, stdout) = UnixStream::pair().unwrap();
        let mut command = gateway.command();
        command.stdin(stdin).stdout(OwnedFd::from(stdout)).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // The command holds the gateway's ends.
        drop(command);
        let wait = move || {
            let code = child.wait().unwrap().code().unwrap_or(-1);
            drop(gateway);
            code
        };
        Ends::new(Box::new(to), from, Box::new(wait))
    }

    fn new(to: Box<dyn Wire>, from: UnixStream, wait: Waits) -> Ends {
        from.set_read_timeout(Some(PATIENCE)).unwrap();
        Ends { to: Some(to), from: BufReader::new(from), stdout: Vec::new(), wait }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.to.as_mut().expect("open").put(bytes);
    }

    /// The next line; `None` at the end.
    fn line(&mut self) -> Result<Option<Json>, String> {
        let mut line = Vec::new();
        let count = self.from.read_until(b'\n', &mut line).map_err(|error| format!("no line: {error}"))?;
        self.stdout.extend_from_slice(&line);
        let read = std::str::from_utf8(&line).ok().and_then(json::read);
        match (count, read) {
            (0, _) => Ok(None),
            (_, Some(read)) if !read.is_twice && !read.is_lone => Ok(Some(read.value)),
            _ => Err(format!("a line is no JSON: {}", line.escape_ascii())),
        }
    }

    fn close(&mut self) {
        // An empty datagram reads as the end of the file, and so does a pipe without a writer.
        self.send(b"");
        self.to = None;
    }

    /// Exit code and stdout, once everything has been read.
    fn end(self) -> (i32, Vec<u8>) {
        drop(self.to);
        ((self.wait)(), self.stdout)
    }
}

/// The id of a message as JSON; `-` without one.
fn id_of(message: &Json) -> String {
    message.member("id").map_or_else(|| "-".to_owned(), Json::print)
}

/// One line of stdout as the model says it; a state that is new is put into `Asks`.
fn seen(message: &Json) -> Option<Line> {
    let id = id_of(message);
    let number = |id: &Json| id.as_text()?.strip_prefix("tg-")?.parse().ok();
    match message.member("method").and_then(Json::as_text) {
        Some("elicitation/create") => {
            let text = message.at(&["params", "message"])?.as_text()?;
            let tool = text.strip_prefix("Allow the tool ")?.split(' ').next()?.to_owned();
            return Some(Line::Question { number: number(message.member("id")?)?, tool });
        }
        Some("notifications/cancelled") => {
            return Some(Line::Withdrawn { number: number(message.at(&["params", "requestId"])?)? });
        }
        Some(_) => return None,
        None => {}
    }
    let of = |outcome: &Json| {
        Some((outcome.member("code")?.as_text().unwrap_or("ok").to_owned(), outcome.member("executed")?.as_text()?.to_owned()))
    };
    if let Some(error) = message.member("error") {
        let Json::Number(number) = error.member("code")? else { return None };
        let (code, executed) = of(error.at(&["data", "tidegate/outcome"])?)?;
        return Some(Line::Reply { id, what: format!("error {number} {code} {executed}") });
    }
    let result = message.member("result")?;
    if let Some(state) = result.member("requestState") {
        let request = result.at(&["inputRequests", "approval"])?;
        let text = request.at(&["params", "message"])?.as_text()?;
        let tool = text.strip_prefix("Allow the tool ")?.split(' ').next()?.to_owned();
        let is_sound = request.member("method")?.as_text()? == "elicitation/create"
            && result.member("resultType")?.as_text()? == "input_required";
        let state = Some(state.as_text()?.to_owned());
        return is_sound.then_some(Line::Asks { id, tool, text: text.to_owned(), state });
    }
    let what = match result.at(&["_meta", "tidegate/outcome"]) {
        Some(outcome) => {
            let (code, executed) = of(outcome)?;
            (result.member("isError") == Some(&Json::Bool(code != "ok"))).then(|| format!("tool {code} {executed}"))?
        }
        None if result.member("protocolVersion").is_some() => "initialized".to_owned(),
        None => "pong".to_owned(),
    };
    Some(Line::Reply { id, what })
}

/// Whether a line is the expected one. A question shows its text as it is, as far as that is plain.
fn fits(expected: &Line, got: &Line) -> bool {
    match (expected, got) {
        (Line::Asks { id, tool, text, state }, Line::Asks { id: got_id, tool: got_tool, text: message, state: got_state }) => {
            let is_shown = !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) || message.contains(&format!("\"{text}\""));
            (id, tool) == (got_id, got_tool) && is_shown && (state.is_none() || state == got_state)
        }
        (expected, got) => expected == got,
    }
}

/// The gateway's lines for what was sent, and the model brought to where they lead.
fn check_step(ends: &mut Ends, courses: Vec<(Model, Vec<Line>)>) -> Result<Model, String> {
    let count = courses[0].1.len();
    assert!(courses.iter().all(|(_, lines)| lines.len() == count), "{courses:?}");
    let mut got = Vec::new();
    for _ in 0..count {
        let message = ends.line()?.ok_or("stdout ended")?;
        got.push(seen(&message).ok_or_else(|| format!("a line is nothing known: {}", message.print()))?);
    }
    let fitting = courses.iter().find(|(_, lines)| {
        let mut left = got.clone();
        lines.iter().all(|line| left.iter().position(|got| fits(line, got)).map(|at| left.remove(at)).is_some())
    });
    let Some((model, lines)) = fitting else {
        let expected: Vec<_> = courses.iter().map(|(_, lines)| lines).collect();
        let lines = String::from_utf8_lossy(&ends.stdout);
        return Err(format!("expected one of {expected:?}\ngot {got:?}\nstdout: {lines}"));
    };
    let mut model = model.clone();
    for line in lines {
        if let Line::Asks { id, tool, text, state: None } = line {
            let is_it = |got: &&Line| matches!(got, Line::Asks { id: got, .. } if got == id);
            let Some(Line::Asks { state: Some(value), .. }) = got.iter().find(is_it) else { unreachable!() };
            if model.states.iter().any(|known| known.value == *value) {
                return Err(format!("state {value} was given out before"));
            }
            model.states.push(State { value: value.clone(), tool: tool.clone(), text: text.clone(), is_used: false });
        }
    }
    Ok(model)
}

/// What may come of lines that are sent in one write: workers may take two calls in either order.
fn courses(model: &Model, ops: &[Op]) -> Vec<(Model, Vec<Line>)> {
    let taken = |ops: &mut dyn Iterator<Item = &Op>| {
        let mut model = model.clone();
        let lines = ops.flat_map(|op| model.take(op)).collect();
        (model, lines)
    };
    let mut courses = vec![taken(&mut ops.iter())];
    if ops.iter().all(|op| matches!(op, Op::Modern { .. })) {
        courses.push(taken(&mut ops.iter().rev()));
    }
    courses
}

fn done(dir: &Dir) -> Vec<(String, String)> {
    let text = dir.read("done");
    text.lines()
        .map(|line| line.split_once(' ').expect("tool and text"))
        .map(|(tool, text)| (tool.to_owned(), text.to_owned()))
        .collect()
}

/// The tests of a state folder: what is done in it, and what was given out.
struct Folder {
    dir: Dir,
    model: Model,
}

impl Folder {
    fn new() -> Folder {
        Folder { dir: Dir::new(), model: Model::default() }
    }

    /// One session; `Err`: it was none that the model allows.
    fn attack(&mut self, seed: u64, start: fn(&Dir) -> Ends, sent: &mut Vec<String>) -> Result<(), String> {
        self.model.next_session();
        let (mut dice, mut number, mut ends) = (Dice::new(seed), 0, start(&self.dir));
        let many = 10 + dice.below(20);
        for step in 0..many {
            let mut chooser = Chooser { dice: &mut dice, model: &self.model, number: &mut number };
            let ops = match step {
                0 => vec![chooser.initialize()],
                1 => vec![Op::Initialized],
                _ => chooser.ops(),
            };
            if self.model.waiting.len() >= WAITING_MAX && ops.iter().any(|op| matches!(op, Op::Legacy { .. })) {
                continue;
            }
            let bytes: String = ops.iter().map(|op| op.line() + "\n").collect();
            sent.push(bytes.clone());
            ends.send(bytes.as_bytes());
            self.model = check_step(&mut ends, courses(&self.model, &ops))?;
            // Nothing else has come.
            ends.send(b"{\"jsonrpc\":\"2.0\",\"id\":\"ping\",\"method\":\"ping\"}\n");
            let pong = Line::Reply { id: "\"ping\"".to_owned(), what: "pong".to_owned() };
            self.model = check_step(&mut ends, vec![(self.model.clone(), vec![pong])])?;
        }
        ends.close();
        let last = self.model.end();
        self.model = check_step(&mut ends, vec![(self.model.clone(), last)])?;
        if let Some(line) = ends.line()? {
            return Err(format!("a line too many: {}", line.print()));
        }
        let (exit, stdout) = ends.end();
        check_stdout(&stdout)?;
        let (mut expected, mut got) = (self.model.done.clone(), done(&self.dir));
        expected.sort();
        got.sort();
        if (exit, &expected) != (0, &got) {
            return Err(format!("exit {exit}; expected {} deeds, got {}: {got:?}", expected.len(), got.len()));
        }
        Ok(())
    }
}

fn attack_all(seeds: impl Iterator<Item = u64>, start: fn(&Dir) -> Ends) -> Folder {
    let mut folder = Folder::new();
    for seed in seeds {
        let mut sent = Vec::new();
        if let Err(why) = folder.attack(seed, start, &mut sent) {
            panic!("seed {seed} of its run: {why}\nsent:\n{}", sent.concat());
        }
    }
    folder
}

#[test]
fn what_asks_is_done_once_for_each_yes_and_never_without() {
    let folder = attack_all(seeds().step_by(SHARE), Ends::memory);
    let states = &folder.model.states;
    let (used, asking) = (
        states.iter().filter(|state| state.is_used).count(),
        folder.model.done.iter().filter(|(tool, _)| tool != "say").count(),
    );
    eprintln!("attacks: {} states given out, {used} used; {asking} asking calls were approved and done", states.len());
    let sessions = seeds().step_by(SHARE).count();
    assert!(sessions == 1 || (used >= sessions / 2 && asking >= sessions / 2 && states.len() > used), "too little was tried");
}

#[test]
fn what_asks_is_done_once_for_each_yes_by_the_real_binary() {
    attack_all(seeds().step_by(SHARE * BINARY_SHARE).take(BINARY_SESSIONS), Ends::binary);
}

/// What is known of damaged sessions: states and questions that were given out, and those that some line brought a yes for.
#[derive(Default)]
struct Account {
    given: HashSet<String>,
    approved: HashSet<String>,
}

impl Account {
    fn hear(&mut self, session: u64, line: &Line) {
        self.given.extend(match line {
            Line::Asks { state, .. } => state.clone(),
            Line::Question { number, .. } => Some(format!("tg-{number} of {session}")),
            Line::Reply { .. } | Line::Withdrawn { .. } => None,
        });
    }

    /// A line that was sent, whatever the gateway makes of it; its id.
    fn say(&mut self, session: u64, line: &str) -> Option<String> {
        let value = json::read(line)?.value;
        let state = value.at(&["params", "requestState"]).and_then(Json::as_text).map(str::to_owned);
        let question = value.member("id").and_then(Json::as_text).filter(|_| value.member("result").is_some());
        let is_yes = line.contains("once") || line.contains("\\u");
        self.approved.extend(state.or(question.map(|id| format!("{id} of {session}"))).filter(|_| is_yes));
        value.member("id").map(Json::print)
    }

    /// How many yes there were at most.
    fn most(&self) -> usize {
        self.given.intersection(&self.approved).count()
    }
}

/// A session with damaged lines. Nobody follows what it comes to, but nothing asking is done without a yes of its own, and no line has
/// more than one reply.
fn damage(seed: u64, dir: &Dir, account: &mut Account, model: &mut Model, sent: &mut Vec<u8>) -> Result<(), String> {
    model.next_session();
    let (mut dice, mut number, mut ends) = (Dice::new(seed), 0, Ends::memory(dir));
    let (mut asked, mut answered): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut all = Vec::new();
    for step in 0..10 + dice.below(20) {
        let mut chooser = Chooser { dice: &mut dice, model, number: &mut number };
        let ops = match step {
            0 => vec![chooser.initialize()],
            1 => vec![Op::Initialized],
            _ => chooser.ops(),
        };
        let mut lines: Vec<Vec<u8>> = ops.iter().map(|op| op.line().into_bytes()).collect();
        if step > 1 && dice.once_in(2) {
            mutate_line(&mut dice, &mut lines);
        }
        let ping = format!("\"ping {step}\"");
        lines.push(format!(r#"{{"jsonrpc":"2.0","id":{ping},"method":"ping"}}"#).into_bytes());
        let bytes: Vec<u8> = lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect();
        let whole = bytes.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        asked.extend(whole.filter_map(|line| account.say(seed, line)));
        sent.extend_from_slice(&bytes);
        all.extend(ops);
        ends.send(&bytes);
        loop {
            let message = ends.line()?.ok_or("stdout ended")?;
            if let Some(line) = seen(&message) {
                account.hear(seed, &line);
                model.hear(&line, &all);
            }
            answered.extend(message.member("method").is_none().then(|| id_of(&message)));
            if id_of(&message) == ping {
                break;
            }
        }
    }
    ends.close();
    while let Some(message) = ends.line()? {
        seen(&message).iter().for_each(|line| account.hear(seed, line));
        answered.extend(message.member("method").is_none().then(|| id_of(&message)));
    }
    let (exit, stdout) = ends.end();
    check_stdout(&stdout)?;
    for id in answered.iter().filter(|id| *id != "-" && *id != "null") {
        let [asked, told] = [&asked, &answered].map(|all| all.iter().filter(|other| *other == id).count());
        if told > asked {
            return Err(format!("{told} replies to {asked} requests with the id {id}"));
        }
    }
    let asking = done(dir).iter().filter(|(tool, _)| tool != "say").count();
    if exit != 0 || asking > account.most() {
        return Err(format!("exit {exit}; {asking} asking calls were done, and {} approved at most", account.most()));
    }
    Ok(())
}

#[test]
fn damaged_lines_approve_nothing() {
    let (dir, mut account, mut model) = (Dir::new(), Account::default(), Model::default());
    for seed in seeds().step_by(SHARE) {
        let mut sent = Vec::new();
        if let Err(why) = damage(seed, &dir, &mut account, &mut model, &mut sent) {
            panic!("seed {seed} of its run: {why}\nsent:\n{}", sent.escape_ascii().to_string().replace("\\n", "\n"));
        }
    }
    let (asking, most) = (done(&dir).iter().filter(|(tool, _)| tool != "say").count(), account.most());
    eprintln!(
        "attacks: {asking} asking calls done in damaged sessions, {most} may have been approved, of {}",
        account.given.len()
    );
    let sessions = seeds().step_by(SHARE).count();
    assert!(sessions == 1 || (asking >= sessions / 6 && account.given.len() > most), "too little was tried");
}
