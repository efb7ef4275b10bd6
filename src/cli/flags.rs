//! The flag table: what may be asked, from which parsing and help are both made.
//!
//! Nothing here has an effect; `--help` and `--version` are answered before anything that can fail.

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::path::PathBuf;

use lexopt::{Arg, Parser};

use crate::cli::approvals::ApprovalsOptions;
use crate::cli::journal::since::Since;
use crate::journal::chain::Hash;

/// A subcommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// The gateway.
    Serve,
    /// What a call would come to.
    Explain,
    /// The guided tour.
    Demo,
    /// Reading the journal.
    Journal,
    /// Answering what is asked.
    Approvals,
    /// The configuration's JSON Schema.
    Schema,
}

/// One subcommand, as helped.
struct CommandRow {
    command: Command,
    name: &'static str,
    /// What stands behind the name, as helped; the most there is of it is `arguments_max`.
    arguments: &'static str,
    arguments_max: usize,
    summary: &'static str,
    about: &'static str,
}

const COMMANDS: &[CommandRow] = &[
    CommandRow {
        command: Command::Serve,
        name: "serve",
        arguments: "",
        arguments_max: 0,
        summary: "be the gateway: an MCP server on stdin and stdout",
        about: "Speaks MCP on stdin and stdout, one JSON-RPC message a line, for every revision from 2024-11-05 to 2026-07-28,\n\
                and carries out the tools that the configuration declares. Ends with end of file on stdin, SIGTERM or SIGINT.\n\
                SIGHUP takes the configuration anew, whole or not at all; SIGUSR1 prints the counters on stderr.\n\n\
                Without --config the configuration is looked for in $TIDEGATE_CONFIG, $XDG_CONFIG_HOME/tidegate/config.json\n\
                and /etc/tidegate/config.json, never in the working directory. Without any it offers tidegate_status alone.",
    },
    CommandRow {
        command: Command::Explain,
        name: "explain",
        arguments: " TOOL [ARGS]",
        arguments_max: 2,
        summary: "say what a call of a tool would come to, and why",
        about: "Judges a call as the gateway would and prints the decision, the rule and the exact action, credentials by name.\n\
                Nothing is started, resolved, connected or recorded, no credential is read and nobody is asked; where the tool's\n\
                confirm asks, it says in which order and how long. ARGS is one JSON object, - reads it from stdin; without it\n\
                the call has no arguments. Exit code 0 if the call is allowed, 1 if it is refused.",
    },
    CommandRow {
        command: Command::Demo,
        name: "demo",
        arguments: "",
        arguments_max: 0,
        summary: "show in four steps what the gateway does, on loopback only",
        about: "Starts a small HTTP server on loopback and the gateway as a child process, and shows a credentialed HTTP call, a\n\
                local command, a cancelled command, and a malformed line. Exit code 1 if a step did not hold.",
    },
    CommandRow {
        command: Command::Journal,
        name: "journal",
        arguments: " show|follow|verify",
        arguments_max: 1,
        summary: "show, follow or verify the record of what was executed",
        about: crate::cli::journal::ABOUT,
    },
    CommandRow {
        command: Command::Approvals,
        name: "approvals",
        arguments: " [list|allow ID|deny ID]",
        arguments_max: 2,
        summary: "list the actions that wait for a yes, and allow or deny them",
        about: crate::cli::approvals::ABOUT,
    },
    CommandRow {
        command: Command::Schema,
        name: "schema",
        arguments: "",
        arguments_max: 0,
        summary: "print the JSON Schema of the configuration file",
        about: "Prints the JSON Schema 2020-12 of the configuration file; editors complete and check with it.",
    },
];

/// One flag: its row is its documentation.
struct FlagRow {
    flag: Flag,
    long: &'static str,
    value: Option<&'static str>,
    command: Command,
    help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flag {
    Config,
    DryRun,
    Record,
    ExplainConfig,
    ExplainJson,
    Gateway,
    JournalConfig,
    StateDir,
    File,
    Heads,
    Head,
    Tool,
    Code,
    Since,
    Refusals,
    Json,
    ApprovalsConfig,
    ApprovalsJson,
    Once,
}

const FLAGS: &[FlagRow] = &[
    FlagRow {
        flag: Flag::Config,
        long: "config",
        value: Some("FILE"),
        command: Command::Serve,
        help: "the configuration file",
    },
    FlagRow {
        flag: Flag::DryRun,
        long: "dry-run",
        value: None,
        command: Command::Serve,
        help: "check and decide as always, but execute nothing; replies say what would be done",
    },
    FlagRow {
        flag: Flag::Record,
        long: "record",
        value: Some("FILE"),
        command: Command::Serve,
        help: "with --dry-run: append each typed action to FILE, one JSON object a line",
    },
    FlagRow {
        flag: Flag::ExplainConfig,
        long: "config",
        value: Some("FILE"),
        command: Command::Explain,
        help: "the configuration file, looked for as serve does if absent",
    },
    FlagRow {
        flag: Flag::ExplainJson,
        long: "json",
        value: None,
        command: Command::Explain,
        help: "print one JSON object and nothing else",
    },
    FlagRow {
        flag: Flag::Gateway,
        long: "gateway",
        value: Some("PROGRAM"),
        command: Command::Demo,
        help: "the gateway to show, instead of this very program",
    },
    FlagRow {
        flag: Flag::JournalConfig,
        long: "config",
        value: Some("FILE"),
        command: Command::Journal,
        help: "the configuration file, for its state folder",
    },
    FlagRow {
        flag: Flag::StateDir,
        long: "state-dir",
        value: Some("DIR"),
        command: Command::Journal,
        help: "the state folder, instead of the configured one",
    },
    FlagRow {
        flag: Flag::File,
        long: "file",
        value: Some("FILE"),
        command: Command::Journal,
        help: "show, verify: this journal alone",
    },
    FlagRow {
        flag: Flag::Tool,
        long: "tool",
        value: Some("NAME"),
        command: Command::Journal,
        help: "show, follow: only calls of this tool",
    },
    FlagRow {
        flag: Flag::Code,
        long: "code",
        value: Some("CODE"),
        command: Command::Journal,
        help: "show, follow: only outcomes with this code (ok: success), and answers",
    },
    FlagRow {
        flag: Flag::Since,
        long: "since",
        value: Some("TIME"),
        command: Command::Journal,
        help: "show, follow: only from then on: 2026-07-31T08:00:00Z, or 90s, 15m, 2h, 7d ago",
    },
    FlagRow {
        flag: Flag::Refusals,
        long: "refusals",
        value: None,
        command: Command::Journal,
        help: "show, follow: what was refused as well",
    },
    FlagRow {
        flag: Flag::Heads,
        long: "heads",
        value: Some("FILE"),
        command: Command::Journal,
        help: "verify: compare with this copy of the heads file as well",
    },
    FlagRow {
        flag: Flag::Head,
        long: "head",
        value: Some("SEQ:HASH"),
        command: Command::Journal,
        help: "verify, with --file: the record with this sequence has this hash",
    },
    FlagRow {
        flag: Flag::Json,
        long: "json",
        value: None,
        command: Command::Journal,
        help: "show, follow: the lines as they are; verify: one JSON object a line",
    },
    FlagRow {
        flag: Flag::ApprovalsConfig,
        long: "config",
        value: Some("FILE"),
        command: Command::Approvals,
        help: "the configuration file, for its state folder",
    },
    FlagRow {
        flag: Flag::ApprovalsJson,
        long: "json",
        value: None,
        command: Command::Approvals,
        help: "list: one JSON object a line",
    },
    FlagRow {
        flag: Flag::Once,
        long: "once",
        value: None,
        command: Command::Approvals,
        help: "allow: this action alone, whatever the question offers",
    },
];

/// What `serve` was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeOptions {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--dry-run`.
    pub dry_run: bool,
    /// `--record`.
    pub record: Option<PathBuf>,
}

/// What `explain` was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExplainOptions {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--json`.
    pub json: bool,
    /// The tool.
    pub tool: String,
    /// Its arguments, `-` for stdin.
    pub arguments: Option<String>,
}

/// What `demo` was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DemoOptions {
    /// `--gateway`.
    pub gateway: Option<PathBuf>,
}

/// What `journal` is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalAction {
    /// Print what there is.
    Show,
    /// Print what comes.
    Follow,
    /// Say what was done to it.
    Verify,
}

/// What `journal` was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalOptions {
    /// Its second word.
    pub action: Option<JournalAction>,
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--state-dir`.
    pub state_dir: Option<PathBuf>,
    /// `--file`.
    pub file: Option<PathBuf>,
    /// `--heads`.
    pub heads: Option<PathBuf>,
    /// `--head`.
    pub head: Option<(u64, Hash)>,
    /// `--tool`.
    pub tool: Option<String>,
    /// `--code`.
    pub code: Option<String>,
    /// `--since`.
    pub since: Option<Since>,
    /// `--refusals`.
    pub refusals: bool,
    /// `--json`.
    pub json: bool,
}

/// A command line that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// Run the gateway.
    Serve(ServeOptions),
    /// Judge a call.
    Explain(ExplainOptions),
    /// Run the tour.
    Demo(DemoOptions),
    /// Read the journal.
    Journal(JournalOptions),
    /// Answer what is asked.
    Approvals(ApprovalsOptions),
    /// Print this text.
    Text(String),
}

/// A command line that was not; one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn shown(text: impl AsRef<std::ffi::OsStr>) -> String {
    crate::rpc::error::shown(&text.as_ref().to_string_lossy())
}

/// What was set so far, for whichever command it is.
#[derive(Default)]
struct Options {
    serve: ServeOptions,
    explain: ExplainOptions,
    demo: DemoOptions,
    journal: JournalOptions,
    approvals: ApprovalsOptions,
    words: Vec<String>,
}

/// Understands the arguments, program name first.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, UsageError> {
    let mut parser = Parser::from_iter(arguments);
    let mut command: Option<&CommandRow> = None;
    let mut options = Options::default();
    while let Some(argument) = parser.next().map_err(|error| UsageError(error.to_string()))? {
        match argument {
            Arg::Long("help") | Arg::Short('h') => return Ok(Parsed::Text(help(command))),
            Arg::Long("version") | Arg::Short('V') => return Ok(Parsed::Text(version())),
            Arg::Value(word) => match command {
                None => command = Some(find_command(&word)?),
                Some(row) if options.words.len() < row.arguments_max => options.words.push(utf8(word)?),
                Some(row) if row.arguments_max > 0 => {
                    let expected = row.arguments.trim_start();
                    return Err(UsageError(format!("{} takes {expected}, got {} as well", row.name, shown(word))));
                }
                Some(row) => return Err(UsageError(format!("{} takes no argument, got {}", row.name, shown(word)))),
            },
            Arg::Long(name) => {
                let row = find_flag(command, name)?;
                let value = row.value.map(|_| parser.value()).transpose().map_err(|error| UsageError(error.to_string()))?;
                set(row.flag, value, &mut options)?;
            }
            Arg::Short(short) => return Err(UsageError(format!("unknown flag -{short}"))),
        }
    }
    finish(command, options)
}

fn utf8(word: OsString) -> Result<String, UsageError> {
    word.into_string().map_err(|word| UsageError(format!("expected UTF-8, got {}", shown(word))))
}

fn finish(command: Option<&CommandRow>, options: Options) -> Result<Parsed, UsageError> {
    let Options { serve, explain, demo, journal, approvals, words } = options;
    if serve.record.is_some() && !serve.dry_run {
        return Err(UsageError("--record needs --dry-run: a gateway that acts keeps its journal instead".to_owned()));
    }
    match command.map(|row| row.command) {
        None => Err(UsageError(format!("a command is missing: expected {}", commands()))),
        Some(Command::Serve) => Ok(Parsed::Serve(serve)),
        Some(Command::Explain) => {
            let mut words = words.into_iter();
            let tool = words.next().ok_or_else(|| UsageError("explain needs the name of a tool".to_owned()))?;
            Ok(Parsed::Explain(ExplainOptions { tool, arguments: words.next(), ..explain }))
        }
        Some(Command::Demo) => Ok(Parsed::Demo(demo)),
        Some(Command::Journal) => {
            let action = words.first().map(|word| find_action(word)).transpose()?;
            finish_journal(JournalOptions { action, ..journal })
        }
        Some(Command::Approvals) => approvals.with_words(&words).map(Parsed::Approvals).map_err(UsageError),
        Some(Command::Schema) => Ok(Parsed::Text(crate::config::schema::text().to_owned())),
    }
}

/// `serve, demo or schema`, for messages.
fn commands() -> String {
    let names: Vec<&str> = COMMANDS.iter().map(|row| row.name).collect();
    match names.split_last() {
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// Each action has flags of its own.
fn finish_journal(journal: JournalOptions) -> Result<Parsed, UsageError> {
    let is_filtered = journal.tool.is_some() || journal.code.is_some() || journal.since.is_some() || journal.refusals;
    let is_compared = journal.heads.is_some() || journal.head.is_some();
    let wrong = match journal.action {
        None => "journal: expected show, follow or verify",
        Some(JournalAction::Verify) if is_filtered => {
            "journal verify looks at every record: it takes no --tool, --code, --since or --refusals"
        }
        Some(JournalAction::Show | JournalAction::Follow) if is_compared => "--heads and --head are of journal verify",
        Some(JournalAction::Follow) if journal.file.is_some() => {
            "journal follow takes no --file: the file may be continued in another"
        }
        Some(JournalAction::Verify) if journal.head.is_some() && journal.file.is_none() => {
            "--head needs --file: each process has a chain of its own"
        }
        Some(_) if journal.state_dir.is_some() && journal.config.is_some() => "--state-dir and --config exclude each other",
        Some(_) if journal.file.is_some() && (journal.state_dir.is_some() || journal.config.is_some()) => {
            "--file needs no --state-dir and no --config"
        }
        Some(_) => return Ok(Parsed::Journal(journal)),
    };
    Err(UsageError(wrong.to_owned()))
}

fn find_action(word: &str) -> Result<JournalAction, UsageError> {
    match word {
        "show" => Ok(JournalAction::Show),
        "follow" => Ok(JournalAction::Follow),
        "verify" => Ok(JournalAction::Verify),
        _ => Err(UsageError(format!("journal: expected show, follow or verify, got {}", shown(word)))),
    }
}

fn find_command(word: &OsString) -> Result<&'static CommandRow, UsageError> {
    let names: Vec<&str> = COMMANDS.iter().map(|row| row.name).collect();
    let row = COMMANDS.iter().find(|row| word == row.name);
    row.ok_or_else(|| UsageError(format!("unknown command {}: expected one of {}", shown(word), names.join(", "))))
}

fn find_flag(command: Option<&CommandRow>, name: &str) -> Result<&'static FlagRow, UsageError> {
    let Some(command) = command else {
        return Err(UsageError(format!("--{name} must follow its command: expected {} first", commands())));
    };
    let row = FLAGS.iter().find(|row| row.long == name && row.command == command.command);
    row.ok_or_else(|| UsageError(format!("{} knows no flag {}", command.name, shown(format!("--{name}")))))
}

fn set(flag: Flag, value: Option<OsString>, options: &mut Options) -> Result<(), UsageError> {
    let Options { serve, explain, demo, journal, approvals, words: _ } = options;
    let text = || -> Result<Option<String>, UsageError> {
        let value = value
            .clone()
            .map(|value| value.into_string().map_err(|value| UsageError(format!("{}: expected UTF-8", shown(value)))));
        value.transpose()
    };
    let path = || value.clone().map(PathBuf::from);
    match flag {
        Flag::Config => serve.config = path(),
        Flag::DryRun => serve.dry_run = true,
        Flag::Record => serve.record = path(),
        Flag::ExplainConfig => explain.config = path(),
        Flag::ExplainJson => explain.json = true,
        Flag::Gateway => demo.gateway = path(),
        Flag::JournalConfig => journal.config = path(),
        Flag::StateDir => journal.state_dir = path(),
        Flag::File => journal.file = path(),
        Flag::Heads => journal.heads = path(),
        Flag::Head => journal.head = text()?.map(|text| head(&text)).transpose()?,
        Flag::Tool => journal.tool = text()?,
        Flag::Code => journal.code = text()?,
        Flag::Since => journal.since = text()?.map(|text| since(&text)).transpose()?,
        Flag::Refusals => journal.refusals = true,
        Flag::Json => journal.json = true,
        Flag::ApprovalsConfig => approvals.config = path(),
        Flag::ApprovalsJson => approvals.json = true,
        Flag::Once => approvals.once = true,
    }
    Ok(())
}

fn head(text: &str) -> Result<(u64, Hash), UsageError> {
    let parsed = text.split_once(':').and_then(|(seq, hash)| Some((seq.parse().ok()?, Hash::parse(hash)?)));
    parsed.ok_or_else(|| {
        UsageError(format!("--head: expected SEQ:HASH with 64 lower-case hexadecimal digits, got {}", shown(text)))
    })
}

fn since(text: &str) -> Result<Since, UsageError> {
    let expected = "expected a time like 2026-07-31T08:00:00Z, or a number with s, m, h or d";
    Since::parse(text).ok_or_else(|| UsageError(format!("--since: {expected}, got {}", shown(text))))
}

fn version() -> String {
    format!("tidegate {}\n", env!("CARGO_PKG_VERSION"))
}

fn help(command: Option<&CommandRow>) -> String {
    let mut text = String::new();
    match command {
        None => {
            text.push_str("Tidegate lets an agent act on the outside world without holding a key.\n\n");
            text.push_str("Usage: tidegate COMMAND [FLAGS]\n\nCommands:\n");
            for row in COMMANDS {
                let _ = writeln!(text, "  {:<11}{}", row.name, row.summary);
            }
            text.push_str("\nFlags of every command:\n");
        }
        Some(row) => {
            let _ = write!(
                text,
                "tidegate {}: {}\n\nUsage: tidegate {}{} [FLAGS]\n\n{}\n\nFlags:\n",
                row.name, row.summary, row.name, row.arguments, row.about
            );
            for flag in FLAGS.iter().filter(|flag| flag.command == row.command) {
                let name = format!("--{} {}", flag.long, flag.value.unwrap_or_default());
                let _ = writeln!(text, "  {name:<20}{}", flag.help);
            }
        }
    }
    for (name, what) in [("-h, --help", "show this, or the help of a command"), ("-V, --version", "show the version")] {
        let _ = writeln!(text, "  {name:<20}{what}");
    }
    if command.is_none() {
        text.push_str("\nExit codes: 0 clean end, 1 the command's own no, 2 usage, 65 malformed peer, 70 internal,\n74 I/O on the protocol stream, 78 configuration.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::approvals::ApprovalsAction;

    fn parsed(line: &str) -> Result<Parsed, String> {
        let arguments = std::iter::once("tidegate").chain(line.split_whitespace()).map(OsString::from);
        parse(arguments).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_error(line: &str, expected: &str) {
        assert_eq!(parsed(line), Err(expected.to_owned()), "{line}");
    }

    #[test]
    fn flags_reach_their_command() {
        let options = ServeOptions { config: Some("/a".into()), dry_run: true, record: Some("/b".into()) };
        assert_eq!(parsed("serve --config /a --dry-run --record=/b"), Ok(Parsed::Serve(options)));
        let explain =
            ExplainOptions { config: Some("/a".into()), json: true, tool: "t".to_owned(), arguments: Some("-".to_owned()) };
        assert_eq!(parsed("explain --config /a t - --json"), Ok(Parsed::Explain(explain)));
        let explain = ExplainOptions { tool: "t".to_owned(), ..ExplainOptions::default() };
        assert_eq!(parsed("explain t"), Ok(Parsed::Explain(explain)));
        assert_eq!(parsed("demo --gateway x"), Ok(Parsed::Demo(DemoOptions { gateway: Some("x".into()) })));
        assert_eq!(parsed("--version"), Ok(Parsed::Text(version())));
    }

    #[test]
    fn a_bad_command_line_is_one_clear_line() {
        check_error("", "a command is missing: expected serve, explain, demo, journal, approvals or schema");
        check_error("sevre", "unknown command \"sevre\": expected one of serve, explain, demo, journal, approvals, schema");
        check_error("explain", "explain needs the name of a tool");
        check_error("explain t {} x", "explain takes TOOL [ARGS], got \"x\" as well");
        check_error("explain t --dry-run", "explain knows no flag \"--dry-run\"");
        check_error("serve x", "serve takes no argument, got \"x\"");
        check_error("serve --cfg x", "serve knows no flag \"--cfg\"");
        check_error("serve --gateway x", "serve knows no flag \"--gateway\"");
        check_error(
            "--config x serve",
            "--config must follow its command: expected serve, explain, demo, journal, approvals or schema first",
        );
        check_error("serve -x", "unknown flag -x");
        check_error("serve --record x", "--record needs --dry-run: a gateway that acts keeps its journal instead");
        assert!(parsed("serve --config").is_err());
        assert!(parsed("serve --dry-run=yes").is_err());
    }

    #[track_caller]
    fn check_journal(line: &str, expected: JournalOptions) {
        assert_eq!(parsed(line), Ok(Parsed::Journal(expected)), "{line}");
    }

    #[test]
    fn the_journal_is_shown_followed_and_verified() {
        let of = |action| JournalOptions { action: Some(action), ..JournalOptions::default() };
        check_journal("journal show", of(JournalAction::Show));
        let filtered = JournalOptions {
            tool: Some("t".to_owned()),
            code: Some("ok".to_owned()),
            since: Since::parse("2h"),
            refusals: true,
            json: true,
            state_dir: Some("/s".into()),
            ..of(JournalAction::Follow)
        };
        check_journal("journal follow --tool t --code ok --since 2h --refusals --json --state-dir /s", filtered);
        let hash = "0".repeat(64);
        let compared = JournalOptions {
            file: Some("f".into()),
            heads: Some("h".into()),
            head: Some((7, Hash::NONE)),
            ..of(JournalAction::Verify)
        };
        check_journal(&format!("journal --file f verify --heads h --head 7:{hash}"), compared);
        check_error("journal", "journal: expected show, follow or verify");
        check_error("journal list", "journal: expected show, follow or verify, got \"list\"");
        check_error("journal show verify", "journal takes show|follow|verify, got \"verify\" as well");
        check_error("journal show --heads x", "--heads and --head are of journal verify");
        check_error(
            "journal verify --head 7:x --file f",
            "--head: expected SEQ:HASH with 64 lower-case hexadecimal digits, got \"7:x\"",
        );
        check_error(&format!("journal verify --head 7:{hash}"), "--head needs --file: each process has a chain of its own");
        check_error(
            "journal verify --since 2h",
            "journal verify looks at every record: it takes no --tool, --code, --since or --refusals",
        );
        check_error("journal follow --file f", "journal follow takes no --file: the file may be continued in another");
        check_error("journal show --state-dir a --config b", "--state-dir and --config exclude each other");
        check_error("journal verify --file a --config b", "--file needs no --state-dir and no --config");
        check_error(
            "journal show --since soon",
            "--since: expected a time like 2026-07-31T08:00:00Z, or a number with s, m, h or d, got \"soon\"",
        );
    }

    #[track_caller]
    fn check_approvals(line: &str, action: ApprovalsAction, expected: ApprovalsOptions) {
        assert_eq!(parsed(line), Ok(Parsed::Approvals(ApprovalsOptions { action, ..expected })), "{line}");
    }

    #[test]
    fn approvals_are_listed_allowed_and_denied() {
        let none = ApprovalsOptions::default;
        let id = || "0123abcd".to_owned();
        check_approvals("approvals", ApprovalsAction::List, none());
        let listed = ApprovalsOptions { json: true, config: Some("/c".into()), ..none() };
        check_approvals("approvals --config /c list --json", ApprovalsAction::List, listed);
        check_approvals("approvals allow 0123abcd", ApprovalsAction::Allow(id()), none());
        let once = ApprovalsOptions { once: true, ..none() };
        check_approvals("approvals allow --once 0123abcd", ApprovalsAction::Allow(id()), once);
        check_approvals("approvals deny 0123abcd", ApprovalsAction::Deny(id()), none());
        check_error("approvals yes", "approvals: expected list, allow ID or deny ID, got \"yes\"");
        check_error("approvals allow", "approvals allow needs the id of a question");
        check_error("approvals deny", "approvals deny needs the id of a question");
        check_error("approvals list 0123abcd", "approvals list takes no argument");
        check_error("approvals deny 0123abcd x", "approvals takes [list|allow ID|deny ID], got \"x\" as well");
        for (id, shown) in [("0123ABCD", "0123ABCD"), ("0123abc", "0123abc"), ("0123abcde", "0123abcde"), ("é1230", "é1230")]
        {
            let expected = "approvals: expected the id of a question, eight lower-case hexadecimal digits";
            check_error(&format!("approvals allow {id}"), &format!("{expected}, got \"{shown}\""));
        }
        check_error("approvals --once", "--once is of approvals allow");
        check_error("approvals deny 0123abcd --once", "--once is of approvals allow");
        check_error("approvals allow 0123abcd --json", "--json is of approvals list");
        check_error("approvals --state-dir x", "approvals knows no flag \"--state-dir\"");
    }

    #[test]
    fn every_flag_and_command_is_in_the_help() {
        for row in COMMANDS {
            assert!(help(None).contains(row.summary));
            let help = help(Some(row));
            for flag in FLAGS.iter().filter(|flag| flag.command == row.command) {
                assert!(help.contains(&format!("--{}", flag.long)) && help.contains(flag.help));
            }
        }
    }

    #[test]
    fn help_fits_a_terminal() {
        for row in COMMANDS.iter().map(Some).chain([None]) {
            assert!(help(row).lines().all(|line| line.len() <= 120));
        }
    }
}
