//! A server that shows what it was sent, in every way a server might: each path is one.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::json;

use super::needle::percent;
use crate::kit::peer::{Answer, Peer, Seen};

/// The ways, by the last segment of the path. `hang` answers for ever.
pub const WAYS: &[&str] = &[
    "plain",
    "twice",
    "json",
    "escaped",
    "member",
    "page",
    "unauthorized",
    "forbidden",
    "broken",
    "header",
    "cookie",
    "challenge",
    "redirect",
    "percent",
    "base64",
    "base64url",
    "basic",
    "hex",
    "chunked",
    "large",
    "large64",
    "binary",
    "cut",
    "reason",
    "garbage",
    "colon",
    "headers",
    "nothing",
];

/// Path and bytes of each answer.
type Sent = Vec<(String, Vec<u8>)>;

/// The server, and everything it has sent.
pub struct Echo {
    pub peer: Peer,
    sent: Arc<Mutex<Sent>>,
}

impl Echo {
    pub fn start() -> Echo {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let kept = sent.clone();
        let peer = Peer::start(move |seen| {
            let way = seen.line.split(' ').nth(1).unwrap().rsplit('/').next().unwrap().to_owned();
            let value = value(seen);
            let bytes = answer(&way, &value);
            kept.lock().unwrap().push((way.clone(), bytes.clone()));
            if way == "hang" { Answer::Hold(bytes) } else { Answer::Bytes(bytes) }
        });
        Echo { peer, sent }
    }

    /// Every answer.
    pub fn sent(&self) -> Sent {
        self.sent.lock().unwrap().clone()
    }
}

/// The credential as it came, without what stands before it.
pub fn value(seen: &Seen) -> String {
    let bearer = seen.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let header = seen.header("x-api-key").and_then(|value| value.strip_prefix("Key "));
    bearer.or(header).unwrap_or_default().to_owned()
}

fn with(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    [format!("HTTP/1.1 {status}\r\n{fields}content-length: {length}\r\n\r\n").as_bytes(), body].concat()
}

fn text(body: impl AsRef<[u8]>) -> Vec<u8> {
    with("200 OK", "content-type: text/plain\r\n", body.as_ref())
}

fn answer(way: &str, value: &str) -> Vec<u8> {
    let filler = "line of the page that is no secret at all\n".repeat(2000);
    let json_type = "content-type: application/json\r\n";
    match way {
        "plain" | "hang" => text(value),
        "twice" => text(format!("{value}{value} {value}")),
        "json" => with("200 OK", json_type, json!({"items": [{"echo": value}, {"echo": [value]}]}).to_string().as_bytes()),
        "escaped" => {
            let escaped: String = value.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
            with("200 OK", json_type, format!("{{\"items\":[{{\"echo\":\"{escaped}\"}}]}}").as_bytes())
        }
        "member" => with("200 OK", json_type, json!({value: {"echo": 1}}).to_string().as_bytes()),
        "page" => with("200 OK", "content-type: text/html\r\n", format!("<p title='{value}'>{value}</p>").as_bytes()),
        "unauthorized" => with("401 Unauthorized", json_type, json!({"bad token": value}).to_string().as_bytes()),
        "forbidden" => with("403 Forbidden", "", value.as_bytes()),
        "broken" => with("500 Internal Server Error", "content-type: text/html\r\n", format!("<pre>{value}</pre>").as_bytes()),
        "header" => with("200 OK", &format!("x-echo: {value}\r\n"), b"see above"),
        "cookie" => with("200 OK", &format!("set-cookie: token={value}; Path=/\r\n"), b"see above"),
        "challenge" => with("401 Unauthorized", &format!("www-authenticate: Bearer realm=\"{value}\"\r\n"), b""),
        "redirect" => with("302 Found", &format!("location: https://a.example/?token={}\r\n", percent(value.as_bytes())), b""),
        "percent" => text(format!("token={}&x=y", percent(value.as_bytes()))),
        "base64" => text(STANDARD.encode(value)),
        "base64url" => text(URL_SAFE.encode(value)),
        "basic" => text(format!("authorization: Basic {}", STANDARD.encode(format!("me:{value}")))),
        "hex" => text(value.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()),
        "chunked" => {
            let chunks: String = value.chars().map(|one| format!("1\r\n{one}\r\n")).collect();
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n").into_bytes()
        }
        "large" => text(format!("{filler}{value}{filler}{value}{filler}")),
        "large64" => text(format!("{filler}{}{filler}", STANDARD.encode(value))),
        "binary" => with("200 OK", "content-type: application/octet-stream\r\n", format!("\0\u{1}{value}\0").as_bytes()),
        "cut" => format!("HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n{value} and more to come").into_bytes(),
        "reason" => with(&format!("200 {value}"), "", b"see above"),
        "garbage" => format!("{value} is what you sent, and this is no HTTP\r\n\r\n").into_bytes(),
        "colon" => format!("HTTP/1.1 200 OK\r\nno colon in {value}\r\n\r\n").into_bytes(),
        "headers" => with("200 OK", &format!("x-echo: {value}{}\r\n", "x".repeat(100_000)), b""),
        _ => Vec::new(),
    }
}
