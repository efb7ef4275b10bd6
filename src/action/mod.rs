//! From arguments to a typed action: the schema check, the filled template, the closed `Action` enum.
//!
//! All pure: no name is resolved and no socket opened; text is quoted for a remote shell only when the SSH executor asks for
//! the command line. After this module no JSON value of a peer exists any more; executors see `HttpAction`,
//! `ExecAction`, `SshAction` and `ReadAction` only.

pub mod json;
pub mod schema;
pub mod template;
pub mod host;
pub mod http;
pub mod http_request;
pub mod environment;
pub mod exec;
pub mod shell;
pub mod ssh;
pub mod ssh_exec;
pub mod read;
pub mod record;

use crate::action::exec::{ExecAction, ExecTemplate};
use crate::action::http::{HttpAction, HttpTemplate};
use crate::action::json::Json;
use crate::action::read::ReadAction;
use crate::action::schema::Schema;
use crate::action::ssh::{SshAction, SshTemplate};
use crate::action::template::Names;
use crate::mcp::listing::ToolAnnotations;

/// Everything the gateway can do in the world. Closed: a new kind of effect is a new variant here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// One HTTP request.
    Http(HttpAction),
    /// One local command.
    Exec(ExecAction),
    /// One remote command.
    Ssh(SshAction),
    /// A look into a stored result of ours; touches nothing else.
    Read(ReadAction),
}

/// What a tool does with its arguments.
#[derive(Debug)]
pub enum Recipe {
    /// Fills an HTTP request.
    Http(HttpTemplate),
    /// Fills a command line.
    Exec(ExecTemplate),
    /// Fills a remote command line.
    Ssh(SshTemplate),
    /// Reads on in a stored result: `read_result`.
    Read,
    /// Sends the request the caller writes: `http_request`.
    HttpRequest,
    /// Runs the command the caller writes on a host: `ssh_exec`.
    SshExec,
}

impl Recipe {
    /// Its placeholders, to be compared with the tool's input schema when the configuration is loaded.
    pub fn names(&self) -> Names {
        match self {
            Recipe::Http(template) => template.names(),
            Recipe::Exec(template) => template.names(),
            Recipe::Ssh(template) => template.names(),
            Recipe::Read | Recipe::HttpRequest | Recipe::SshExec => Names::default(),
        }
    }
}

/// A tool, checked whole when the configuration was loaded.
#[derive(Debug)]
pub struct Tool {
    /// `^[a-zA-Z0-9_-]{1,64}$`, unique.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// For the model.
    pub description: String,
    /// What the tool says of itself.
    pub annotations: ToolAnnotations,
    /// The compiled, closed input schema.
    pub input: Schema,
    /// The same schema as compact JSON, as listed.
    pub input_json: String,
    /// What is filled once the arguments hold.
    pub recipe: Recipe,
    /// What `{limit}` stands for: payload bytes of one copy of its result. `None` where `input` declares an argument `limit`.
    pub limit: Option<usize>,
}

/// Why arguments make no action. Nothing was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentError {
    /// One sentence a problem, each naming the argument, what was expected and what came.
    pub problems: Vec<String>,
}

impl Tool {
    /// Checks the arguments (raw JSON text of an object, already free of duplicate keys) and fills the recipe.
    pub fn action(&self, arguments: &str) -> Result<Action, ArgumentError> {
        crate::rpc::strict::numbers_exact(arguments).map_err(|error| ArgumentError { problems: vec![error.to_string()] })?;
        let value = Json::parse(arguments).map_err(|error| ArgumentError { problems: vec![format!("arguments: {error}")] })?;
        self.input.validate(&value).map_err(|invalid| ArgumentError { problems: invalid.problems("arguments") })?;
        let limit = self.limit.map(|bytes| Json::Number(bytes.into()));
        let arguments = template::Arguments::new(&value).with_limit(limit.as_ref());
        match &self.recipe {
            Recipe::Http(template) => template.fill(&arguments).map(Action::Http),
            Recipe::Exec(template) => template.fill(&arguments).map(Action::Exec),
            Recipe::Ssh(template) => template.fill(&arguments).map(Action::Ssh),
            Recipe::Read => return ReadAction::from_arguments(&value).map(Action::Read),
            Recipe::HttpRequest => return HttpAction::from_arguments(&value).map(Action::Http),
            Recipe::SshExec => return SshAction::from_arguments(&value).map(Action::Ssh),
        }
        .map_err(|error| ArgumentError { problems: vec![error.to_string()] })
    }
}
