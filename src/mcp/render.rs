//! From neutral replies and notices to lines, each in the shape of its revision.
//!
//! A line is complete JSON without its LF, and everything foreign in it passes the escape formatter on the way: no reply
//! can hold a raw control character, half a surrogate pair or a second line. Only what was negotiated is used.

use crate::mcp::call::{APPROVAL, Listen, ProgressToken};
use crate::mcp::era::{Era, Origin, Revision};
use crate::mcp::listing::{ToolAnnotations, ToolEntry};
use crate::mcp::method::no_resource;
use crate::mcp::reply::{Contents, Link, Reply, ResourceReply, ToolReply};
use crate::rpc::error::RpcError;
use crate::rpc::id::Id;
use crate::wire::escape;

/// Lists may change at any reload, so a copy is only as good as the moment; asking again is cheap.
const TTL_MS: &str = "0";
/// What a gateway announces depends on whose configuration it runs with.
const CACHE_SCOPE: &str = "private";
const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"resources":{}}"#;
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
const OUTCOME: &str = "tidegate/outcome";
const PAGE: &str = "tidegate/page";

/// The answer to one request, as one line without its LF.
pub fn render(origin: &Origin, reply: &Reply) -> String {
    let mut line = String::new();
    let mut frame = Object::open(&mut line);
    frame.text("jsonrpc", "2.0");
    frame.raw("id", &origin.id.to_json());
    match reply {
        Reply::Error(error) => frame.object("error", |body| write_error(body, error)),
        Reply::ResourceNotFound { uri, outcome } => {
            let error = resource_not_found(origin.era, uri, outcome);
            frame.object("error", |body| write_error(body, &error));
        }
        reply => frame.object("result", |body| write_result(body, origin, reply)),
    }
    frame.close();
    line
}

/// An error that belongs to no request. `null_id` is `Session::null_id`: whether the peer expects `"id": null` there.
pub fn render_unaddressed_error(error: &RpcError, null_id: bool) -> String {
    let mut line = String::new();
    let mut frame = Object::open(&mut line);
    frame.text("jsonrpc", "2.0");
    if null_id {
        frame.raw("id", "null");
    }
    frame.object("error", |body| write_error(body, error));
    frame.close();
    line
}

/// The notification that a request of ours, or a subscription, is over.
pub fn render_cancelled(id: &Id, reason: &str) -> String {
    notice("notifications/cancelled", |params| {
        params.raw("requestId", &id.to_json());
        params.text("reason", reason);
    })
}

/// The first message of a subscription: what of it is honoured.
pub fn render_acknowledged(listen: &Listen) -> String {
    notice("notifications/subscriptions/acknowledged", |params| {
        params.object("_meta", |meta| meta.raw(SUBSCRIPTION_ID, &listen.origin().id.to_json()));
        params.object("notifications", |honoured| {
            if listen.tools_list_changed() {
                honoured.flag("toolsListChanged", true);
            }
        });
    })
}

/// The tool list has changed: tagged for one subscription, or untagged for a legacy session that is ready.
pub fn render_tools_changed(subscription: Option<&Id>) -> String {
    notice("notifications/tools/list_changed", |params| {
        if let Some(id) = subscription {
            params.object("_meta", |meta| meta.raw(SUBSCRIPTION_ID, &id.to_json()));
        }
    })
}

/// The end of a subscription by the server: its result, then, as stdio wants it, the notification. In that order
/// official clients see a graceful end.
pub fn render_subscription_end(id: &Id, reason: &str) -> [String; 2] {
    let origin = Origin { id: id.clone(), era: Era::Modern };
    [render(&origin, &Reply::SubscriptionEnded), render_cancelled(id, reason)]
}

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Rises with each notification of one token; the caller sees to that.
    pub done: u64,
    /// Where `done` ends, if known.
    pub total: Option<u64>,
    /// For people; left out in 2024-11-05.
    pub message: Option<&'a str>,
}

/// A progress notification for an open request that gave `token`.
pub fn render_progress(era: Era, token: &ProgressToken, progress: Progress<'_>) -> String {
    notice("notifications/progress", |params| {
        params.raw("progressToken", &token.to_json());
        params.raw("progress", &progress.done.to_string());
        if let Some(total) = progress.total {
            params.raw("total", &total.to_string());
        }
        if let Some(message) = progress.message.filter(|_| era.revision() > Revision::V2024_11_05) {
            params.text("message", message);
        }
    })
}

fn notice(method: &str, write_params: impl FnOnce(&mut Object<'_>)) -> String {
    let mut line = String::new();
    let mut frame = Object::open(&mut line);
    frame.text("jsonrpc", "2.0");
    frame.text("method", method);
    frame.object("params", write_params);
    frame.close();
    line
}

fn write_error(body: &mut Object<'_>, error: &RpcError) {
    body.raw("code", &error.code.to_string());
    body.text("message", &error.message);
    if let Some(data) = &error.data {
        body.raw("data", data);
    }
}

fn write_result(body: &mut Object<'_>, origin: &Origin, reply: &Reply) {
    let revision = origin.era.revision();
    if origin.era == Era::Modern {
        let is_complete = !matches!(reply, Reply::InputRequired { .. });
        body.text("resultType", if is_complete { "complete" } else { "input_required" });
    }
    match reply {
        Reply::Pong | Reply::SubscriptionEnded | Reply::ResourceNotFound { .. } | Reply::Error(_) => {}
        Reply::Initialized { instructions } => {
            body.text("protocolVersion", revision.as_str());
            body.raw("capabilities", CAPABILITIES);
            body.object("serverInfo", |info| write_server_info(info, revision));
            instructions.iter().for_each(|text| body.text("instructions", text));
        }
        Reply::Discovered { instructions } => {
            body.array("supportedVersions", Revision::ALL, |revision| escape::to_line(revision.as_str()));
            body.raw("capabilities", CAPABILITIES);
            instructions.iter().for_each(|text| body.text("instructions", text));
        }
        Reply::Tools(listing) => body.array("tools", &listing.entries, |entry| tool(entry, revision)),
        Reply::Resources => body.raw("resources", "[]"),
        Reply::ResourceTemplates => body.raw("resourceTemplates", "[]"),
        Reply::Tool(tool) => write_tool(body, tool, revision),
        Reply::InputRequired { elicitation, state } => {
            body.object("inputRequests", |requests| {
                requests.object(APPROVAL, |request| {
                    request.text("method", "elicitation/create");
                    request.raw("params", &elicitation.params(revision));
                })
            });
            body.text("requestState", state);
        }
        Reply::Resource(resource) => body.array("contents", [resource], contents),
    }
    if origin.era == Era::Modern {
        write_caching(body, reply);
    }
    write_result_meta(body, origin, reply);
}

/// `ttlMs` and `cacheScope`, on the results that must have them.
fn write_caching(body: &mut Object<'_>, reply: &Reply) {
    match reply {
        Reply::Discovered { .. } | Reply::Tools(_) | Reply::Resources | Reply::ResourceTemplates | Reply::Resource(_) => {
            body.raw("ttlMs", TTL_MS);
            body.text("cacheScope", CACHE_SCOPE);
        }
        Reply::Pong
        | Reply::Initialized { .. }
        | Reply::Tool(_)
        | Reply::InputRequired { .. }
        | Reply::SubscriptionEnded
        | Reply::ResourceNotFound { .. }
        | Reply::Error(_) => {}
    }
}

fn write_result_meta(body: &mut Object<'_>, origin: &Origin, reply: &Reply) {
    let outcome = match reply {
        Reply::Tool(tool) => Some(&tool.outcome),
        Reply::Resource(resource) => Some(&resource.outcome),
        _ => None,
    };
    if outcome.is_none() && origin.era != Era::Modern {
        return;
    }
    body.object("_meta", |meta| {
        if *reply == Reply::SubscriptionEnded {
            meta.raw(SUBSCRIPTION_ID, &origin.id.to_json());
        }
        if origin.era == Era::Modern {
            meta.object(SERVER_INFO, |info| write_server_info(info, Revision::V2026_07_28));
        }
        if let Some(outcome) = outcome {
            meta.raw(OUTCOME, outcome);
        }
        if let Reply::Resource(resource) = reply {
            meta.object(PAGE, |page| write_page(page, resource));
        }
    });
}

fn write_server_info(info: &mut Object<'_>, revision: Revision) {
    info.text("name", "tidegate");
    if revision >= Revision::V2025_06_18 {
        info.text("title", "Tidegate");
    }
    info.text("version", env!("CARGO_PKG_VERSION"));
}

fn write_tool(body: &mut Object<'_>, tool: &ToolReply, revision: Revision) {
    let texts = tool.blocks.iter().map(|text| format!(r#"{{"type":"text","text":{}}}"#, escape::to_line(text)));
    let links = tool.links.iter().filter(|_| revision >= Revision::V2025_06_18).map(link);
    body.array("content", texts.chain(links), |block| block);
    if let Some(structured) = tool.structured.as_ref().filter(|_| revision >= Revision::V2025_06_18) {
        body.raw("structuredContent", structured);
    }
    body.flag("isError", tool.is_error);
}

fn link(link: &Link) -> String {
    let mut out = String::new();
    let mut body = Object::open(&mut out);
    body.text("type", "resource_link");
    body.text("uri", &link.uri);
    body.text("name", &link.name);
    body.text("mimeType", link.media_type);
    body.raw("size", &link.bytes.to_string());
    body.close();
    out
}

fn contents(resource: &ResourceReply) -> String {
    let mut out = String::new();
    let mut body = Object::open(&mut out);
    body.text("uri", &resource.uri);
    match &resource.contents {
        Contents::Text(text) => {
            body.text("mimeType", "text/plain; charset=utf-8");
            body.text("text", text);
        }
        Contents::Blob(blob) => {
            body.text("mimeType", "application/octet-stream");
            body.text("blob", blob);
        }
    }
    body.close();
    out
}

fn write_page(page: &mut Object<'_>, resource: &ResourceReply) {
    page.raw("offset", &resource.offset.to_string());
    page.raw("bytes", &resource.bytes.to_string());
    page.raw("total", &resource.total.to_string());
    if resource.gone > 0 {
        page.raw("not_stored", &resource.gone.to_string());
    }
    if let Some(uri) = &resource.next_uri {
        page.text("nextUri", uri);
    }
}

/// -32002 with a handshake, -32602 per request.
fn resource_not_found(era: Era, uri: &str, outcome: &str) -> RpcError {
    let data = format!(r#"{{"uri":{},"tidegate/outcome":{outcome}}}"#, escape::to_line(uri));
    RpcError::new(no_resource(era), "Resource not found").with_data(data)
}

fn tool(entry: &ToolEntry, revision: Revision) -> String {
    let mut out = String::new();
    let mut body = Object::open(&mut out);
    body.text("name", &entry.name);
    if let Some(title) = entry.title.as_ref().filter(|_| revision >= Revision::V2025_06_18) {
        body.text("title", title);
    }
    body.text("description", &entry.description);
    body.raw("inputSchema", &entry.input_schema);
    if revision >= Revision::V2025_03_26 && entry.annotations != ToolAnnotations::default() {
        body.object("annotations", |hints| write_annotations(hints, entry.annotations));
    }
    body.close();
    out
}

fn write_annotations(hints: &mut Object<'_>, annotations: ToolAnnotations) {
    for (name, value) in [
        ("readOnlyHint", annotations.read_only),
        ("destructiveHint", annotations.destructive),
        ("idempotentHint", annotations.idempotent),
        ("openWorldHint", annotations.open_world),
    ] {
        if let Some(value) = value {
            hints.flag(name, value);
        }
    }
}

/// A JSON object under construction. Names are ours and need no escape; values pass the escape formatter.
struct Object<'a> {
    out: &'a mut String,
    empty: bool,
}

impl<'a> Object<'a> {
    fn open(out: &'a mut String) -> Object<'a> {
        out.push('{');
        Object { out, empty: true }
    }

    fn close(self) {
        self.out.push('}');
    }

    fn name(&mut self, name: &str) {
        self.out.push_str(if self.empty { "\"" } else { ",\"" });
        self.out.push_str(name);
        self.out.push_str("\":");
        self.empty = false;
    }

    fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        self.out.push_str(&escape::to_line(text));
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.name(name);
        self.out.push_str(if value { "true" } else { "false" });
    }

    /// `json` is valid JSON text.
    fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        escape::compact(json, self.out);
    }

    fn object(&mut self, name: &str, write: impl FnOnce(&mut Object<'_>)) {
        self.name(name);
        let mut inner = Object::open(self.out);
        write(&mut inner);
        inner.close();
    }

    fn array<T>(&mut self, name: &str, items: impl IntoIterator<Item = T>, to_json: impl Fn(T) -> String) {
        self.name(name);
        self.out.push('[');
        for (index, item) in items.into_iter().enumerate() {
            self.out.push_str(if index > 0 { "," } else { "" });
            escape::compact(&to_json(item), self.out);
        }
        self.out.push(']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::listing::ToolListing;
    use std::sync::Arc;

    const LEGACY: [Revision; 4] = [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18, Revision::V2025_11_25];

    #[track_caller]
    fn check_render(era: Era, reply: &Reply, result: &str) {
        let origin = Origin { id: Id::integer(1), era };
        let version = env!("CARGO_PKG_VERSION");
        let info =
            format!(r#""io.modelcontextprotocol/serverInfo":{{"name":"tidegate","title":"Tidegate","version":"{version}"}}"#);
        let expected = result.replace("<INFO>", &info).replace("<VERSION>", version);
        assert_eq!(render(&origin, reply), format!(r#"{{"jsonrpc":"2.0","id":1,{expected}}}"#), "{era:?}");
    }

    fn tool_reply() -> Reply {
        Reply::Tool(ToolReply {
            blocks: vec!["exit 0\n".to_owned(), "note\u{2028}".to_owned()],
            links: Vec::new(),
            structured: Some(r#"{ "exit": 0, "big": 9007199254740993, "f": 1.0 }"#.to_owned()),
            is_error: false,
            outcome: r#"{"code":"ok","executed":"yes"}"#.to_owned(),
        })
    }

    #[test]
    fn tool_results_take_the_shape_of_their_revision_s28_s46_s47_s68() {
        let content = r#""content":[{"type":"text","text":"exit 0\n"},{"type":"text","text":"note\u2028"}]"#;
        let structured = r#""structuredContent":{"exit":0,"big":9007199254740993,"f":1.0}"#;
        let outcome = r#""tidegate/outcome":{"code":"ok","executed":"yes"}"#;
        for revision in LEGACY {
            let structured = if revision >= Revision::V2025_06_18 { format!("{structured},") } else { String::new() };
            check_render(
                Era::Legacy(revision),
                &tool_reply(),
                &format!(r#""result":{{{content},{structured}"isError":false,"_meta":{{{outcome}}}}}"#),
            );
        }
        check_render(
            Era::Modern,
            &tool_reply(),
            &format!(
                r#""result":{{"resultType":"complete",{content},{structured},"isError":false,"_meta":{{<INFO>,{outcome}}}}}"#
            ),
        );
    }

    #[test]
    fn initialize_names_the_agreed_revision_s20() {
        for revision in LEGACY {
            let title = if revision >= Revision::V2025_06_18 { r#""title":"Tidegate","# } else { "" };
            let expected = format!(
                r#""result":{{"protocolVersion":"{}","capabilities":{CAPABILITIES},"serverInfo":{{"name":"tidegate",{title}"version":"<VERSION>"}},"instructions":"Hi."}}"#,
                revision.as_str()
            );
            check_render(Era::Legacy(revision), &Reply::Initialized { instructions: Some("Hi.".into()) }, &expected);
        }
    }

    #[test]
    fn discover_lists_every_revision_newest_first_s40_s48() {
        check_render(
            Era::Modern,
            &Reply::Discovered { instructions: None },
            &format!(
                r#""result":{{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{CAPABILITIES},"ttlMs":0,"cacheScope":"private","_meta":{{<INFO>}}}}"#
            ),
        );
    }

    fn listing() -> Arc<ToolListing> {
        let entry = |name: &str, annotations| ToolEntry {
            name: name.to_owned(),
            title: Some("T".to_owned()),
            description: "D".to_owned(),
            input_schema: r#"{"type": "object"}"#.to_owned(),
            annotations,
        };
        let hints = ToolAnnotations { read_only: Some(true), open_world: Some(false), ..ToolAnnotations::default() };
        Arc::new(ToolListing { entries: vec![entry("b", hints), entry("a", ToolAnnotations::default())] })
    }

    #[test]
    fn lists_use_only_what_was_negotiated_s28() {
        for revision in LEGACY {
            let title = if revision >= Revision::V2025_06_18 { r#""title":"T","# } else { "" };
            let hints = if revision >= Revision::V2025_03_26 {
                r#","annotations":{"readOnlyHint":true,"openWorldHint":false}"#
            } else {
                ""
            };
            let schema = r#""description":"D","inputSchema":{"type":"object"}"#;
            check_render(
                Era::Legacy(revision),
                &Reply::Tools(listing()),
                &format!(r#""result":{{"tools":[{{"name":"b",{title}{schema}{hints}}},{{"name":"a",{title}{schema}}}]}}"#),
            );
        }
        check_render(
            Era::Modern,
            &Reply::Tools(Arc::default()),
            r#""result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private","_meta":{<INFO>}}"#,
        );
    }

    #[test]
    fn the_list_has_the_same_bytes_each_time_s51_s61() {
        let origin = Origin { id: Id::integer(1), era: Era::Modern };
        let first = render(&origin, &Reply::Tools(listing()));
        for _ in 0..100 {
            assert_eq!(render(&origin, &Reply::Tools(listing())), first);
        }
    }

    #[test]
    fn resource_lists_are_empty_s120() {
        let legacy = Era::Legacy(Revision::V2025_11_25);
        check_render(legacy, &Reply::Resources, r#""result":{"resources":[]}"#);
        check_render(legacy, &Reply::ResourceTemplates, r#""result":{"resourceTemplates":[]}"#);
        check_render(
            Era::Modern,
            &Reply::ResourceTemplates,
            r#""result":{"resultType":"complete","resourceTemplates":[],"ttlMs":0,"cacheScope":"private","_meta":{<INFO>}}"#,
        );
    }

    #[test]
    fn pong_is_an_empty_object_s29() {
        check_render(Era::Legacy(Revision::V2024_11_05), &Reply::Pong, r#""result":{}"#);
    }

    #[test]
    fn errors_have_one_shape_in_all_revisions_s7() {
        let error = RpcError::new(-32602, "a \"b\"\u{85}").with_data(r#"{ "uri": "x" }"#.to_owned());
        for era in [Era::Modern, Era::Legacy(Revision::V2024_11_05)] {
            check_render(
                era,
                &Reply::Error(error.clone()),
                r#""error":{"code":-32602,"message":"a \"b\"\u0085","data":{"uri":"x"}}"#,
            );
        }
        let error = RpcError::new(-32700, "m");
        assert_eq!(
            render_unaddressed_error(&error, true),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#
        );
        assert_eq!(render_unaddressed_error(&error, false), r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}"#);
    }

    #[test]
    fn no_reply_can_hold_a_second_line_or_half_a_character_s1_r013_r021() {
        let odd = "a\n\r\u{85}\u{2028}\u{2029}\u{0}\u{7f}";
        let reply = Reply::Tool(ToolReply {
            blocks: vec![odd.to_owned()],
            links: vec![Link { uri: odd.to_owned(), name: odd.to_owned(), media_type: "text/plain", bytes: 1 }],
            structured: Some("{\n\"a\": \"\\ud83d\u{2028}\"\r\n}".to_owned()),
            is_error: true,
            outcome: "{ }".to_owned(),
        });
        let origin = Origin { id: Id::text(odd), era: Era::Modern };
        let line = render(&origin, &reply);
        assert!(line.chars().all(|c| !c.is_control() && c != '\u{2028}' && c != '\u{2029}'), "{line}");
        assert!(line.contains(r#""structuredContent":{"a":"\ufffd\u2028"}"#), "{line}");
        serde_json::from_str::<serde_json::Value>(&line).unwrap();
    }

    #[test]
    fn subscriptions_are_tagged_with_their_id_s110_s112_s116() {
        for raw in ["1", "\"1\""] {
            let id = Id::parse(raw).unwrap();
            let origin = Origin { id: id.clone(), era: Era::Modern };
            let tag = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{raw}}}"#);
            for (asked, honoured) in [("true", r#"{"toolsListChanged":true}"#), ("false", "{}")] {
                let params = format!(r#"{{"notifications":{{"toolsListChanged":{asked},"promptsListChanged":true}}}}"#);
                let listen = Listen::read(origin.clone(), Some(&params)).unwrap();
                assert_eq!(
                    render_acknowledged(&listen),
                    format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{{tag},"notifications":{honoured}}}}}"#
                    )
                );
            }
            assert_eq!(
                render_tools_changed(Some(&id)),
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{{tag}}}}}"#)
            );
            let [result, cancelled] = render_subscription_end(&id, "shutting down");
            assert!(result.contains(&format!(
                r#""id":{raw},"result":{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{raw},"#
            )));
            assert_eq!(
                cancelled,
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{raw},"reason":"shutting down"}}}}"#
                )
            );
        }
        assert_eq!(render_tools_changed(None), r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}"#);
    }

    #[test]
    fn progress_has_no_message_in_the_oldest_revision_s90_s93_s95() {
        let origin = Origin { id: Id::integer(1), era: Era::Modern };
        let call = crate::mcp::call::Call::testing(origin, r#"{"name":"x","_meta":{"progressToken":"0"}}"#);
        let token = call.unwrap().progress().cloned().unwrap();
        let progress = Progress { done: 1, total: Some(2), message: Some("m") };
        let expected = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"0","progress":1,"total":2,"message":"m"}}"#;
        assert_eq!(render_progress(Era::Modern, &token, progress), expected);
        assert_eq!(
            render_progress(Era::Legacy(Revision::V2024_11_05), &token, progress),
            expected.replace(r#","message":"m""#, "")
        );
    }
}
