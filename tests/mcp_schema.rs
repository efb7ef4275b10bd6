//! Everything the server can say, in every revision, against that revision's published schema.
//!
//! `validate_server_line` is for any test that has a line from a server.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;
use tidegate::mcp::call::Step;
use tidegate::mcp::elicit::{Choice, Elicitation};
use tidegate::mcp::era::{Era, Origin, Revision};
use tidegate::mcp::listing::{ToolAnnotations, ToolEntry, ToolListing};
use tidegate::mcp::render::{
    Progress, render, render_acknowledged, render_cancelled, render_progress, render_subscription_end, render_tools_changed,
    render_unaddressed_error,
};
use tidegate::mcp::reply::{Contents, Link, Reply, ResourceReply, ToolReply};
use tidegate::mcp::session::Session;
use tidegate::rpc::error::RpcError;
use tidegate::rpc::id::Id;
use tidegate::rpc::message::{Message, parse};

use crate::shared::shared;

/// The definitions of all revisions, compiled when first needed; one a thread, as the compiler cannot be shared.
struct Definitions {
    schemas: Schemas,
    compiler: Compiler,
    compiled: HashMap<String, Option<SchemaIndex>>,
}

thread_local! {
    static DEFINITIONS: RefCell<Option<Definitions>> = RefCell::new(Definitions::load());
}

impl Definitions {
    fn load() -> Option<Definitions> {
        let folder = shared("data/mcp-schema")?;
        let mut compiler = Compiler::new();
        for revision in Revision::ALL {
            let text = std::fs::read_to_string(folder.join(revision.as_str()).join("schema.json"))
                .expect("each revision has its schema");
            let schema: Value = serde_json::from_str(&text).expect("schemas are JSON");
            compiler.add_resource(&url(revision), schema).expect("the URL is well formed");
        }
        let (schemas, compiled) = (Schemas::new(), HashMap::new());
        Some(Definitions { schemas, compiler, compiled })
    }

    /// Whether `value` satisfies a definition of the revision; a definition that does not exist is an error.
    fn check(&mut self, revision: Revision, name: &str, value: &Value) -> Result<(), String> {
        let keyword = if revision >= Revision::V2025_11_25 { "$defs" } else { "definitions" };
        let pointer = format!("{}#/{keyword}/{name}", url(revision));
        let Definitions { schemas, compiler, compiled } = self;
        let index = compiled.entry(pointer.clone()).or_insert_with(|| compiler.compile(&pointer, schemas).ok());
        let index = index.ok_or_else(|| format!("{} defines no {name}", revision.as_str()))?;
        schemas.validate(value, index).map_err(|error| format!("{} {name}: {error:#}", revision.as_str()))
    }
}

fn url(revision: Revision) -> String {
    format!("https://schema.invalid/{}.json", revision.as_str())
}

/// Whether `line` (without its LF) is something a server may write in `revision`: one JSON object on one line, a message
/// of the protocol, and of the shape its own kind has. The kind of a result is told by its members.
///
/// Where the schemas are not at hand the line passes, and a skip is counted.
pub(crate) fn validate_server_line(revision: Revision, line: &str) -> Result<(), String> {
    if line.contains(['\n', '\r']) {
        return Err(format!("more than one line: {line}"));
    }
    let message: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
    let duties = duties(revision, &message)?;
    DEFINITIONS.with_borrow_mut(|definitions| match definitions {
        None => Ok(()),
        Some(definitions) => duties
            .into_iter()
            .try_for_each(|(name, part)| definitions.check(revision, name, part))
            .map_err(|error| format!("{error}\n{line}")),
    })
}

/// The definitions a message has to satisfy, and the part of it each is about.
fn duties(revision: Revision, message: &Value) -> Result<Vec<(&'static str, &Value)>, String> {
    let method = message["method"].as_str();
    if let Some(result) = message.get("result") {
        let response = if revision >= Revision::V2025_11_25 { "JSONRPCResultResponse" } else { "JSONRPCResponse" };
        return Ok(vec![("JSONRPCMessage", message), (response, message), (result_kind(revision, result), result)]);
    }
    if let Some(error) = message.get("error") {
        return Ok(error_duties(revision, message, error));
    }
    let kind = match method {
        Some("notifications/cancelled") => "CancelledNotification",
        Some("notifications/progress") => "ProgressNotification",
        Some("notifications/tools/list_changed") => "ToolListChangedNotification",
        Some("notifications/subscriptions/acknowledged") => "SubscriptionsAcknowledgedNotification",
        Some("elicitation/create") if revision.is_legacy() => "ElicitRequest",
        other => return Err(format!("no server message: {other:?}")),
    };
    Ok(vec![("JSONRPCMessage", message), (kind, message)])
}

fn result_kind(revision: Revision, result: &Value) -> &'static str {
    let has = |name: &str| result.get(name).is_some();
    match () {
        () if has("protocolVersion") => "InitializeResult",
        () if has("supportedVersions") => "DiscoverResult",
        () if has("tools") => "ListToolsResult",
        () if has("content") => "CallToolResult",
        () if has("resources") => "ListResourcesResult",
        () if has("resourceTemplates") => "ListResourceTemplatesResult",
        () if has("contents") => "ReadResourceResult",
        () if has("inputRequests") || has("requestState") => "InputRequiredResult",
        () if result["_meta"].get("io.modelcontextprotocol/subscriptionId").is_some() => "SubscriptionsListenResult",
        () if revision.is_legacy() => "EmptyResult",
        () => "Result",
    }
}

fn error_duties<'a>(revision: Revision, message: &'a Value, error: &'a Value) -> Vec<(&'static str, &'a Value)> {
    if revision < Revision::V2025_11_25 {
        // Those schemas have no form at all for an error that belongs to no request; JSON-RPC 2.0 has `"id": null`.
        let addressed = message.get("id").is_some_and(|id| !id.is_null());
        return if addressed { vec![("JSONRPCMessage", message), ("JSONRPCError", message)] } else { Vec::new() };
    }
    let mut duties = vec![("JSONRPCMessage", message), ("JSONRPCErrorResponse", message)];
    if revision == Revision::V2026_07_28 {
        match error["code"].as_i64() {
            Some(-32700) => duties.push(("ParseError", error)),
            Some(-32600) => duties.push(("InvalidRequestError", error)),
            Some(-32601) => duties.push(("MethodNotFoundError", error)),
            Some(-32602) => duties.push(("InvalidParamsError", error)),
            Some(-32603) => duties.push(("InternalError", error)),
            Some(-32021) => duties.push(("MissingRequiredClientCapabilityError", message)),
            Some(-32022) => duties.push(("UnsupportedProtocolVersionError", message)),
            _ => {}
        }
    }
    duties
}

#[track_caller]
fn check_valid(revision: Revision, line: &str) {
    validate_server_line(revision, line).unwrap_or_else(|error| panic!("{error}"));
}

fn era(revision: Revision) -> Era {
    if revision.is_legacy() { Era::Legacy(revision) } else { Era::Modern }
}

fn listing() -> Arc<ToolListing> {
    let entry = |name: &str, annotations| ToolEntry {
        name: name.to_owned(),
        title: Some("Title".to_owned()),
        description: "What it does".to_owned(),
        input_schema: r#"{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}"#.to_owned(),
        annotations,
    };
    let all =
        ToolAnnotations { read_only: Some(false), destructive: Some(true), idempotent: Some(false), open_world: Some(true) };
    Arc::new(ToolListing { entries: vec![entry("one", all), entry("two", ToolAnnotations::default())] })
}

fn resource(contents: Contents) -> Reply {
    Reply::Resource(ResourceReply {
        uri: "tidegate://result/0123456789abcdef0123456789abcdef".to_owned(),
        contents,
        offset: 1,
        bytes: 2,
        total: 9,
        gone: 4,
        next_uri: Some("tidegate://result/0123456789abcdef0123456789abcdef?offset=3".to_owned()),
        outcome: r#"{"code":null}"#.to_owned(),
    })
}

fn elicitation() -> Elicitation {
    let choices = vec![Choice::Once, Choice::Session, Choice::Deny];
    Elicitation { message: "Allow \"this\"?\nExact action: {}".to_owned(), choices }
}

fn replies(revision: Revision) -> Vec<Reply> {
    let tool = |is_error, structured: Option<&str>| {
        Reply::Tool(ToolReply {
            blocks: vec!["text\u{2028}".to_owned(), String::new()],
            links: vec![Link {
                uri: "tidegate://result/0123456789abcdef0123456789abcdef".to_owned(),
                name: "one stdout".to_owned(),
                media_type: "text/plain; charset=utf-8",
                bytes: 5,
            }],
            structured: structured.map(str::to_owned),
            is_error,
            outcome: r#"{"code":"ok","executed":"yes","truncated":false}"#.to_owned(),
        })
    };
    let mut replies = vec![
        Reply::Tools(listing()),
        Reply::Tools(Arc::default()),
        Reply::Resources,
        Reply::ResourceTemplates,
        tool(false, Some(r#"{"exit":0,"big":9007199254740993}"#)),
        tool(true, None),
        resource(Contents::Text("text\u{2028}".to_owned())),
        resource(Contents::Blob("AAE=".to_owned())),
        Reply::ResourceNotFound { uri: "tidegate://x".to_owned(), outcome: "{}".to_owned() },
    ];
    let instructions = Some("Use it well.".into());
    if revision.is_legacy() {
        replies.extend([Reply::Pong, Reply::Initialized { instructions }, Reply::Initialized { instructions: None }]);
    } else {
        replies.extend([Reply::Discovered { instructions }, Reply::Discovered { instructions: None }]);
        replies.push(Reply::InputRequired { elicitation: elicitation(), state: "c3RhdGU".to_owned() });
        let data = r#"{"requiredCapabilities":{"elicitation":{"form":{}}},"tidegate/outcome":{}}"#;
        replies.push(Reply::Error(RpcError::new(-32021, "message").with_data(data.to_owned())));
    }
    for code in [-32700, -32600, -32601, -32602, -32603] {
        replies.push(Reply::Error(RpcError::new(code, "message").with_data(r#"{"uri":"x"}"#.to_owned())));
        replies.push(Reply::Error(RpcError::new(code, "message")));
    }
    replies
}

#[test]
fn every_reply_in_every_revision() {
    for revision in Revision::ALL {
        for id in ["0", "-1", "\"\"", "\"a\"", "9007199254740993"] {
            let origin = Origin { id: Id::parse(id).unwrap(), era: era(revision) };
            for reply in replies(revision) {
                check_valid(revision, &render(&origin, &reply));
            }
        }
    }
}

#[test]
fn every_notice_in_every_revision() {
    for revision in Revision::ALL {
        check_valid(revision, &render_cancelled(&Id::text("tg-1"), "the call was cancelled"));
        if revision.is_legacy() && revision >= Revision::V2025_06_18 {
            check_valid(revision, &elicitation().render(&Id::text("tg-1"), revision));
        }
        let tag = Id::integer(1);
        check_valid(revision, &render_tools_changed((!revision.is_legacy()).then_some(&tag)));
        let token = progress_token();
        for (total, message) in [(None, None), (Some(9), Some("half way"))] {
            check_valid(revision, &render_progress(era(revision), &token, Progress { done: 4, total, message }));
        }
        for null_id in [false, true] {
            let line = render_unaddressed_error(&RpcError::new(-32700, "message"), null_id);
            if !null_id || revision < Revision::V2025_11_25 {
                check_valid(revision, &line);
            }
        }
    }
    for line in render_subscription_end(&Id::text("s"), "the server ends") {
        check_valid(Revision::V2026_07_28, &line);
    }
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":0}"#;

fn step(session: &mut Session, method: &str, params: &str) -> Step {
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#);
    match parse(&line) {
        Ok(Message::Request(request)) => session.request(&request),
        other => panic!("{line}: {other:?}"),
    }
}

fn progress_token() -> tidegate::mcp::call::ProgressToken {
    let mut session = Session::new(Arc::default(), None);
    match step(&mut session, "tools/call", &format!(r#""name":"x",{META}"#)) {
        Step::Call(call) => call.progress().cloned().expect("META has a token"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn acknowledgements_and_refusals_of_a_session() {
    let mut session = Session::new(listing(), None);
    for wanted in [r#"{"toolsListChanged":true}"#, r#"{"promptsListChanged":true,"resourceSubscriptions":["a:b"]}"#] {
        match step(&mut session, "subscriptions/listen", &format!(r#""notifications":{wanted},{META}"#)) {
            Step::Listen(listen) => check_valid(Revision::V2026_07_28, &render_acknowledged(&listen)),
            other => panic!("{other:?}"),
        }
    }
    let old = META.replace("2026-07-28", "2025-11-25");
    let unknown = META.replace("2026-07-28", "1900-01-01");
    for (method, params) in [
        ("tools/list", old.as_str()),
        ("tools/list", &unknown),
        ("no/such", META),
        ("initialize", META),
        ("ping", META),
        ("tools/call", META),
        ("resources/read", &format!(r#""uri":"result://gone",{META}"#)),
        ("resources/list", &format!(r#""cursor":"",{META}"#)),
    ] {
        match step(&mut session, method, params) {
            Step::Answer(origin, reply) => check_valid(Revision::V2026_07_28, &render(&origin, &reply)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_validator_finds_what_is_wrong() {
    if shared("data/mcp-schema").is_none() {
        return;
    }
    let modern = Revision::V2026_07_28;
    for (revision, line) in [
        (modern, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
        (modern, r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[]}}"#),
        (modern, r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#),
        (modern, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{}}}"#),
        (modern, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#),
        (Revision::V2025_11_25, r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text"}]}}"#),
        (Revision::V2025_06_18, r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#),
        (Revision::V2024_11_05, r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"x"}]}}"#),
        (Revision::V2024_11_05, r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05"}}"#),
        (Revision::V2024_11_05, "{}\n"),
        (Revision::V2024_11_05, "started"),
    ] {
        assert!(validate_server_line(revision, line).is_err(), "{}: {line}", revision.as_str());
    }
}
