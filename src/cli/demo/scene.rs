//! What the steps play in: the folder, the key, the server, the configuration, the gateway's command line.
//!
//! The key is made for one run and reaches the gateway in its environment alone; no file and no argument ever holds it.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::demo::Fault;
use crate::cli::demo::client::Session;
use crate::cli::demo::folder::Folder;
use crate::cli::demo::server::Server;
use crate::cli::demo::wait::Interrupt;
use crate::process::mark::Mark;
use crate::sys;

/// The gateway finds the key in this variable.
const KEY_VARIABLE: &str = "TIDEGATE_DEMO_KEY";
/// The name the configuration gives the key.
pub(super) const CREDENTIAL: &str = "demo";
/// What a message shows in place of the key.
pub(super) const REDACTED: &str = "[redacted:demo]";

/// Everything the steps share. Dropping it ends the server and removes the folder.
pub(super) struct Scene<'s> {
    /// Made for this run.
    pub(super) key: String,
    /// Sees the key.
    pub(super) server: Server,
    /// Holds configurations, state folders, notes and marks.
    pub(super) folder: Folder,
    /// A note that only this run knows.
    pub(super) note: String,
    /// Where the command of the third step tells its process numbers.
    pub(super) told: Told,
    /// SIGINT and SIGTERM.
    pub(super) interrupt: &'s Interrupt,
    program: String,
}

/// A pipe that a command writes to as if it were a file in the folder, so that its news wake who waits for them.
pub(super) struct Told {
    /// Non-blocking.
    pub(super) reader: PipeReader,
    /// The command opens it anew through `/proc`.
    _writer: PipeWriter,
}

impl<'s> Scene<'s> {
    /// Sets everything up for `program`, else for this very one.
    pub(super) fn set(gateway: Option<&Path>, interrupt: &'s Interrupt) -> Result<Self, Fault> {
        let program = program(gateway)?;
        let [name, key, note] = [random()?, random()?, random()?];
        let key = format!("demo-key-{key}");
        let note = format!("spring tide; touch oops {}", &note[..8]);
        let folder = Folder::make(&name[..8])?;
        folder.write("notes.txt", &format!("neap tide, a quiet day\n{note}\nslack water at noon\n"))?;
        let told = Told::new(&folder.join("pids"))?;
        Ok(Scene { server: Server::start(&key)?, key, folder, note, told, interrupt, program })
    }

    /// Starts a gateway with a state folder of its own, `state-NAME`.
    pub(super) fn start(&self, name: &str) -> Result<Session<'s>, Fault> {
        let config = json!({
            "state_dir": self.folder.text(&state(name)),
            "credentials": {CREDENTIAL: self.credential()},
            "tools": self.tools(),
        });
        let config = self.folder.write(&format!("config-{name}.json"), &format!("{config:#}\n"))?;
        let mut env: Vec<(String, String)> = vec![(KEY_VARIABLE.to_owned(), self.key.clone())];
        env.extend(["PATH", "HOME", "LANG"].iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))));
        Session::start(&self.program, &config, &env, self.folder.path(), self.interrupt)
    }

    /// The command line, for people.
    pub(super) fn command(&self) -> String {
        format!("{} serve --config {}", self.program, self.folder.join("config-1.json").display())
    }

    /// The credential, as configured.
    pub(super) fn credential(&self) -> Value {
        json!({"from": {"env": KEY_VARIABLE}, "for": [{"host": "127.0.0.1", "port": self.server.port(), "paths": ["/whoami"]}]})
    }

    /// What a tool does, as configured.
    pub(super) fn recipe(&self, tool: &str) -> Value {
        let command = |argv: &[&str]| json!({"argv": argv, "cwd": self.folder.path()});
        match tool {
            "whoami" => {
                let url = format!("http://127.0.0.1:{}/whoami", self.server.port());
                json!({"method": "GET", "url": url, "credential": CREDENTIAL})
            }
            "find_note" => command(&["grep", "-n", "-F", "-e", "{text}", "notes.txt"]),
            "nap" => command(&["sh", "-c", "sleep 600 & echo $$ $! > pids; wait"]),
            _ => command(&["touch", "mark-{name}"]),
        }
    }

    /// Ends the server and removes the folder; an error says why that was not possible.
    pub(super) fn close(self) -> io::Result<()> {
        drop(self.server);
        self.folder.remove()
    }

    fn tools(&self) -> Value {
        let tool = |name: &str, kind: &str, description: &str| json!({"name": name, "description": description, kind: self.recipe(name)});
        let taking = |argument: &str, mut tool: Value| {
            tool["input"] = json!({"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]});
            tool
        };
        json!([
            tool("whoami", "http", "Ask the server who we are"),
            taking("text", tool("find_note", "exec", "Find the notes that hold a text")),
            tool("nap", "exec", "Sleep for ten minutes, with a helper"),
            taking("name", tool("leave_mark", "exec", "Leave a file behind")),
        ])
    }
}

impl Told {
    fn new(path: &Path) -> Result<Self, Fault> {
        let make = || {
            let (reader, writer) = io::pipe()?;
            sys::set_nonblocking(reader.as_fd())?;
            symlink(format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd()), path)?;
            Ok(Told { reader, _writer: writer })
        };
        make().map_err(|error: io::Error| Fault(format!("{} cannot be made: {error}", path.display())))
    }
}

/// The state folder of the session `name`.
pub(super) fn state(name: &str) -> String {
    format!("state-{name}")
}

/// Where the gateway is: a bare name is looked up in PATH, a path is taken from the working directory.
fn program(gateway: Option<&Path>) -> Result<String, Fault> {
    let path = match gateway {
        None => std::env::current_exe(),
        Some(name) if name.components().count() == 1 && !name.is_absolute() => Ok(name.to_owned()),
        Some(path) => std::path::absolute(path),
    };
    let path = path.map_err(|error| Fault(format!("the gateway's program cannot be found: {error}")))?;
    path.into_os_string().into_string().map_err(|path| Fault(format!("--gateway: expected UTF-8, got {path:?}")))
}

/// 32 hex digits.
fn random() -> Result<String, Fault> {
    let mark = Mark::random().map_err(|error| Fault(error.to_string()))?;
    Ok(mark.as_str().to_owned())
}
