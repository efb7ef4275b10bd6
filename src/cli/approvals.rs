//! `tidegate approvals list | allow | deny`: the open questions of all gateways that share the state folder, and answers to them.
//!
//! What a gateway says is foreign text: it is escaped for a terminal, and one that is silent or lies keeps nobody from the
//! others. Without the user's being listed as an operator nothing is shown; the gateway decides that, not this command.

use std::fmt::{self, Write};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::approval::operator::ask::{AskError, ask};
use crate::approval::operator::folder::{Folder, Name, of_state};
use crate::approval::operator::protocol::{Listed, Reach, Reply, Request};
use crate::approval::shown::{shown, shown_json};
use crate::cli::serve::load;
use crate::cli::{EXIT_CONFIG, EXIT_IO, EXIT_NO, EXIT_OK, complain, print};
use crate::limits::APPROVAL_GATEWAY_WAIT;
use crate::wire::escape::to_line;

/// The help of the command.
pub const ABOUT: &str = "\
list (or no word) shows the open questions of all gateways that share the state folder of the configuration: what is to
be done exactly, by which tool, which rule asks, and how far a yes goes. allow answers yes, as far as the question
offers: to this action once, or to every action of its tool on its target until its gateway ends; deny answers no. Both
say what was answered. Characters that would not be seen as they are are shown as \\u{...}.

The gateway asks the kernel who answers: only users that approvals.operators lists may, and root is no exception. An
agent with a shell of such a user can answer as well: run the gateway as another user than the agent. A gateway that
gives no answer is named on stderr, and the others are still asked.

Exit code 0: done; 1: no such open question, refused, or a gateway could not be asked; 74: the folder of sockets,
approvals in the state folder, is not safe or cannot be read.";

/// What `approvals` is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ApprovalsAction {
    /// Show the open questions.
    #[default]
    List,
    /// Say yes.
    Allow(String),
    /// Say no.
    Deny(String),
}

/// What `approvals` was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalsOptions {
    /// Its words.
    pub action: ApprovalsAction,
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--json`.
    pub json: bool,
    /// `--once`.
    pub once: bool,
}

impl ApprovalsOptions {
    /// The same with what the words ask for; `Err`: one line.
    pub fn with_words(self, words: &[String]) -> Result<ApprovalsOptions, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let action = match words[..] {
            [] | ["list"] => ApprovalsAction::List,
            ["allow", id] => ApprovalsAction::Allow(checked_id(id)?),
            ["deny", id] => ApprovalsAction::Deny(checked_id(id)?),
            ["list", ..] => return Err("approvals list takes no argument".to_owned()),
            [word @ ("allow" | "deny"), ..] => return Err(format!("approvals {word} needs the id of a question")),
            [word, ..] => {
                let got = crate::rpc::error::shown(word);
                return Err(format!("approvals: expected list, allow ID or deny ID, got {got}"));
            }
        };
        match action {
            ApprovalsAction::List | ApprovalsAction::Deny(_) if self.once => Err("--once is of approvals allow".to_owned()),
            ApprovalsAction::Allow(_) | ApprovalsAction::Deny(_) if self.json => Err("--json is of approvals list".to_owned()),
            action => Ok(ApprovalsOptions { action, ..self }),
        }
    }
}

fn checked_id(id: &str) -> Result<String, String> {
    let is_id = id.len() == 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let expected = "expected the id of a question, eight lower-case hexadecimal digits";
    if is_id { Ok(id.to_owned()) } else { Err(format!("approvals: {expected}, got {}", crate::rpc::error::shown(id))) }
}

/// Lists or answers.
pub fn run(options: &ApprovalsOptions) -> u8 {
    let config = match load(options.config.as_deref()) {
        Ok(config) => config,
        Err(problems) => {
            problems.lines().for_each(complain);
            return EXIT_CONFIG;
        }
    };
    let said = perform(&config.state_dir, options, APPROVAL_GATEWAY_WAIT);
    said.complaints.iter().for_each(|complaint| complain(complaint));
    match print(&said.text) {
        EXIT_OK => said.code,
        code => code,
    }
}

/// What comes of a command.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    text: String,
    complaints: Vec<String>,
    code: u8,
}

/// An open question, and whose it is.
struct Open {
    name: Name,
    listed: Listed,
}

fn perform(state_dir: &Path, options: &ApprovalsOptions, wait: Duration) -> Said {
    let mut gateways = match Gateways::find(state_dir, wait) {
        Ok(gateways) => gateways,
        Err(error) => {
            let dir = shown(&of_state(state_dir).to_string_lossy());
            return Said { text: String::new(), complaints: vec![format!("{dir} cannot be used: {error}")], code: EXIT_IO };
        }
    };
    let result = match &options.action {
        ApprovalsAction::List => {
            let open = gateways.open(None);
            // A list is whole or says no.
            let code = if gateways.complaints.is_empty() { EXIT_OK } else { EXIT_NO };
            Ok((if options.json { listed_json(&open) } else { listed(&open) }, code))
        }
        ApprovalsAction::Allow(id) => gateways.allow(id, options.once).map(|text| (text, EXIT_OK)),
        ApprovalsAction::Deny(id) => gateways.deny(id).map(|text| (text, EXIT_OK)),
    };
    let mut complaints = gateways.complaints;
    let (text, code) = result.unwrap_or_else(|why| {
        complaints.push(why);
        (String::new(), EXIT_NO)
    });
    Said { text, complaints, code }
}

/// The gateways that share a state folder, and what is wrong with some of them.
struct Gateways {
    folder: Option<Folder>,
    names: Vec<Name>,
    wait: Duration,
    complaints: Vec<String>,
}

impl Gateways {
    fn find(state_dir: &Path, wait: Duration) -> io::Result<Gateways> {
        let folder = Folder::find(state_dir)?;
        let names = folder.as_ref().map(Folder::names).transpose()?.unwrap_or_default();
        Ok(Gateways { folder, names, wait, complaints: Vec::new() })
    }

    /// The open questions, oldest first for each gateway; no further than to the gateway that has the wanted one.
    fn open(&mut self, wanted: Option<&str>) -> Vec<Open> {
        let mut open = Vec::new();
        for name in std::mem::take(&mut self.names) {
            match self.ask(&name, &Request::List) {
                Ok(None) => {}
                Ok(Some(Reply::Questions(questions, left_out))) => {
                    open.extend(questions.into_iter().map(|listed| Open { name: name.clone(), listed }));
                    if left_out > 0 {
                        self.complaints.push(about(&name, format_args!("{left_out} open questions are too long to be shown")));
                    }
                }
                Ok(Some(Reply::Done | Reply::Error(_))) => self.complaints.push(about(&name, AskError::Malformed)),
                Err(why) => self.complaints.push(why),
            }
            if open.iter().any(|open| Some(open.listed.id.as_str()) == wanted) {
                break;
            }
        }
        open
    }

    fn one(&mut self, id: &str) -> Result<Open, String> {
        let found = self.open(Some(id)).into_iter().find(|open| open.listed.id == id);
        found.ok_or_else(|| format!("no question {id} is open"))
    }

    fn allow(&mut self, id: &str, is_once: bool) -> Result<String, String> {
        let found = self.one(id)?;
        let extent = if is_once { Reach::Once } else { found.listed.extent };
        self.settle(&found, &Request::Allow { id: id.to_owned(), extent })?;
        Ok(format!("allowed {}: {}\n", subject(&found), reach(extent)))
    }

    fn deny(&mut self, id: &str) -> Result<String, String> {
        let found = self.one(id)?;
        self.settle(&found, &Request::Deny { id: id.to_owned() })?;
        Ok(format!("denied {}\n", subject(&found)))
    }

    fn settle(&self, Open { name, .. }: &Open, request: &Request) -> Result<(), String> {
        match self.ask(name, request)? {
            Some(Reply::Done) => Ok(()),
            Some(Reply::Questions(..) | Reply::Error(_)) => Err(about(name, AskError::Malformed)),
            None => Err(about(name, "it has ended meanwhile")),
        }
    }

    /// `None`: it has ended. `Err`: there is no reply, or it is an error; in words.
    fn ask(&self, name: &Name, request: &Request) -> Result<Option<Reply>, String> {
        let Some(folder) = &self.folder else { return Ok(None) };
        match ask(folder, name, request, self.wait) {
            Ok(Some(Reply::Error(why))) => Err(about(name, shown(&why))),
            Ok(reply) => Ok(reply),
            Err(error) => Err(about(name, error)),
        }
    }
}

/// A message about a gateway.
fn about(name: &Name, what: impl fmt::Display) -> String {
    format!("gateway {}: {what}", name.pid)
}

fn subject(open: &Open) -> String {
    format!("{} ({})", shown(&open.listed.tool), shown(&open.listed.target))
}

fn reach(extent: Reach) -> &'static str {
    match extent {
        Reach::Once => "this action once",
        Reach::Session => "every action of this tool on this target until the gateway ends",
    }
}

/// For people.
fn listed(open: &[Open]) -> String {
    if open.is_empty() {
        return "no question is open\n".to_owned();
    }
    let mut text = String::new();
    for Open { name, listed } in open {
        let Listed { id, tool, rule, target, extent, rest_ms, action } = listed;
        let _ = writeln!(text, "{}  stands for another {} s, at gateway {}", shown(id), rest_ms / 1000, name.pid);
        let action = shown_json(&to_line(action));
        let (tool, rule, target) = (shown(tool), shown(rule), shown(target));
        for (label, value) in
            [("tool", &*tool), ("rule", &*rule), ("target", &*target), ("yes is for", reach(*extent)), ("action", &*action)]
        {
            let _ = writeln!(text, "  {label:<11} {value}");
        }
    }
    text
}

/// For programs: one object a line.
fn listed_json(open: &[Open]) -> String {
    #[derive(Serialize)]
    struct Row<'a> {
        id: &'a str,
        pid: u32,
        tool: &'a str,
        rule: &'a str,
        target: &'a str,
        extent: Reach,
        rest_ms: u64,
        action: &'a RawValue,
    }
    let row = |Open { name, listed }: &Open| {
        let Listed { id, tool, rule, target, extent, rest_ms, action } = listed;
        let row = Row { id, pid: name.pid, tool, rule, target, extent: *extent, rest_ms: *rest_ms, action };
        format!("{}\n", shown_json(&to_line(&row)))
    };
    open.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;

    use crate::approval::operator::Operator;
    use crate::approval::operator::testing::{StateDir, Table, impostor};
    use crate::approval::{Answer, Extent};
    use crate::sys::user_id;
    use crate::thread;

    /// Longer than any test runs.
    const WAIT: Duration = Duration::from_secs(60);

    fn start(dir: &StateDir, table: &Arc<Table>) -> Operator {
        Operator::start(&dir.0, vec![user_id()], table.clone()).unwrap()
    }

    fn list() -> ApprovalsOptions {
        ApprovalsOptions::default()
    }

    fn allow(id: &str, once: bool) -> ApprovalsOptions {
        ApprovalsOptions { action: ApprovalsAction::Allow(id.to_owned()), once, ..list() }
    }

    fn deny(id: &str) -> ApprovalsOptions {
        ApprovalsOptions { action: ApprovalsAction::Deny(id.to_owned()), ..list() }
    }

    #[track_caller]
    fn check(dir: &StateDir, options: &ApprovalsOptions, code: u8, text: &str, complaints: &[&str]) {
        let said = perform(&dir.0, options, WAIT);
        assert_eq!(
            said,
            Said { text: text.to_owned(), complaints: complaints.iter().map(|&part| part.to_owned()).collect(), code }
        );
    }

    #[test]
    fn questions_are_shown_whole_and_move_no_terminal() {
        let dir = StateDir::new();
        let table = Table::of(&[("0000000a", Extent::Once), ("0000000b", Extent::Session)]);
        let operator = start(&dir, &table);
        let pid = std::process::id();
        let one = |id: &str, reach: &str| {
            format!(
                "{id}  stands for another 42 s, at gateway {pid}\n  tool        restart\n  rule        declared:restart\n  \
                 target      ssh web1 {id}\\u{{1b}}[2J\\u{{202e}}\\\\\n  yes is for  {reach}\n  \
                 action      {{\"ssh\":{{\"argv\":[\"restart\",\"{id}\\u001b\\u202eé\"]}}}}\n"
            )
        };
        let session = "every action of this tool on this target until the gateway ends";
        let text = [one("0000000a", "this action once"), one("0000000b", session)].concat();
        check(&dir, &list(), EXIT_OK, &text, &[]);
        let row = |id: &str, extent: &str| {
            format!(
                "{{\"id\":\"{id}\",\"pid\":{pid},\"tool\":\"restart\",\"rule\":\"declared:restart\",\
                 \"target\":\"ssh web1 {id}\\u001b[2J\\u202e\\\\\",\"extent\":\"{extent}\",\"rest_ms\":42900,\
                 \"action\":{{\"ssh\":{{\"argv\":[\"restart\",\"{id}\\u001b\\u202eé\"]}}}}}}\n"
            )
        };
        let json = ApprovalsOptions { json: true, ..list() };
        check(&dir, &json, EXIT_OK, &[row("0000000a", "once"), row("0000000b", "session")].concat(), &[]);
        operator.close();
        check(&dir, &json, EXIT_OK, "", &[]);
        check(&dir, &list(), EXIT_OK, "no question is open\n", &[]);
    }

    #[test]
    fn a_yes_goes_as_far_as_is_offered_or_asked() {
        let dir = StateDir::new();
        let ids = ["0000000a", "0000000b", "0000000c", "0000000d"];
        let [a, b, c, d] = ids;
        let first = Table::of(&[(a, Extent::Once), (b, Extent::Session)]);
        let second = Table::of(&[(c, Extent::Session), (d, Extent::Once)]);
        let _operators = [start(&dir, &first), start(&dir, &second)];
        let subject = |id: &str| format!("restart (ssh web1 {id}\\u{{1b}}[2J\\u{{202e}}\\\\)");
        let session = "every action of this tool on this target until the gateway ends";
        check(&dir, &allow(a, false), EXIT_OK, &format!("allowed {}: this action once\n", subject(a)), &[]);
        check(&dir, &allow(b, false), EXIT_OK, &format!("allowed {}: {session}\n", subject(b)), &[]);
        check(&dir, &allow(c, true), EXIT_OK, &format!("allowed {}: this action once\n", subject(c)), &[]);
        check(&dir, &deny(d), EXIT_OK, &format!("denied {}\n", subject(d)), &[]);
        let yes = |id: &str, extent| (id.to_owned(), Answer::Yes(extent), user_id());
        assert_eq!(first.answers(), [yes(a, Extent::Once), yes(b, Extent::Session)]);
        let no = (d.to_owned(), Answer::No("an operator said no".to_owned()), user_id());
        assert_eq!(second.answers(), [yes(c, Extent::Once), no]);
        for id in ids {
            let complaint = format!("no question {id} is open");
            check(&dir, &allow(id, false), EXIT_NO, "", &[&complaint]);
            check(&dir, &deny(id), EXIT_NO, "", &[&complaint]);
        }
    }

    #[test]
    fn who_is_no_operator_sees_nothing() {
        let dir = StateDir::new();
        let table = Table::of(&[("0000000a", Extent::Once)]);
        let operator = start(&dir, &table);
        operator.set_operators(vec![user_id() + 1]);
        let (pid, user) = (std::process::id(), user_id());
        let refused =
            format!("gateway {pid}: user {user} is no operator: approvals.operators of the configuration does not list it");
        check(&dir, &list(), EXIT_NO, "no question is open\n", &[&refused]);
        check(&dir, &allow("0000000a", false), EXIT_NO, "", &[&refused, "no question 0000000a is open"]);
        assert_eq!(table.answers(), []);
    }

    /// Says `text` to everybody who connects, as often as `times`, until the test process ends.
    fn say(listener: UnixListener, text: &'static [u8], times: usize) {
        let body = move || {
            for mut stream in listener.incoming().flatten() {
                let _ = (0..times).try_for_each(|_| stream.write_all(text));
            }
        };
        thread::spawn("tg-test", body).unwrap().abandon();
    }

    #[test]
    fn who_lies_keeps_nobody_from_the_others() {
        let dir = StateDir::new();
        say(impostor(&dir.0, 1), b"\x1b[2J\xff\n", 1);
        say(impostor(&dir.0, 2), b"{\"error\":\"\\u001b[2J\"}\n", 1);
        say(impostor(&dir.0, 3), b"", 1);
        say(impostor(&dir.0, 4), &[b'x'; 1 << 16], usize::MAX);
        say(impostor(&dir.0, 5), b"{\"done\":true}\n", 1);
        let complaints = [
            "gateway 1: what it says is no answer",
            "gateway 2: \\u{1b}[2J",
            "gateway 3: it went away without an answer",
            "gateway 4: expected an answer of at most 16777216 bytes, got more",
            "gateway 5: what it says is no answer",
        ];
        let table = Table::of(&[("0000000a", Extent::Once)]);
        let _operator = start(&dir, &table);
        let said = perform(&dir.0, &list(), WAIT);
        assert!(said.code == EXIT_NO && said.text.starts_with("0000000a  stands"), "{said:?}");
        assert_eq!(said.complaints, complaints);
        let said = perform(&dir.0, &allow("0000000a", false), WAIT);
        assert!(said.code == EXIT_OK && said.text.starts_with("allowed restart "), "{said:?}");
        assert_eq!(said.complaints, complaints);
    }

    #[test]
    fn who_is_silent_keeps_nobody_from_the_others() {
        let dir = StateDir::new();
        let _silent = impostor(&dir.0, 1);
        let table = Table::of(&[("0000000a", Extent::Once)]);
        let _operator = start(&dir, &table);
        let said = perform(&dir.0, &list(), Duration::from_secs(2));
        assert!(said.code == EXIT_NO && said.text.starts_with("0000000a  stands"), "{said:?}");
        assert_eq!(said.complaints, ["gateway 1: expected an answer within 2 s, got none"]);
    }
}
