//! Calls of the tools whose target the caller writes, and changes aimed at their arguments: other spellings of a host, ports, percent
//! escapes, dots, names of headers, an element of an argv more or less, a leading dash, cursors that were never given.

use super::json::{self, Json};
use super::mutate::Dice;

const REQUESTS: [&str; 17] = [
    r#"{"url":"https://api.example.com/v1/"}"#,
    r#"{"url":"https://api.example.com/v1/x%20y?q=1&r=a/b?c"}"#,
    r#"{"method":"HEAD","url":"HTTPS://API.example.com:443/v1","headers":{"Accept":"text/csv","X-Trace":"a b"}}"#,
    r#"{"method":"POST","url":"https://api.example.com/v1/notes","body":{"text":"a\nb"}}"#,
    r#"{"method":"POST","url":"https://api.example.com/v1/notes/7","body":{"json":{"n":1.50,"a":[null,"é"]}},"select":["/*/id"]}"#,
    r#"{"method":"PUT","url":"https://api.example.com/v1/a%20b/c","headers":{"Content-Type":"text/csv"},"body":{"text":""}}"#,
    r#"{"method":"DELETE","url":"https://api.example.com:8443/v1/notes/7"}"#,
    r#"{"url":"http://127.0.0.1:8080/local/x"}"#,
    r#"{"url":"https://[::1]/x;v=1"}"#,
    r#"{"url":"https://keyed.example.com/v2/ours/x","headers":{"x-request-id":"7"}}"#,
    r#"{"url":"https://keyed.example.com/v3"}"#,
    r#"{"url":"https://keyed.example.com/v2/theirs"}"#,
    r#"{"url":"https://keyed.example.com/v2/ours","headers":{"X-API-Key":"mine"}}"#,
    r#"{"url":"https://api.example.com/v2/"}"#,
    r#"{"url":"http://api.example.com/v1/"}"#,
    r#"{"method":"POST","url":"https://api.example.com/v1/"}"#,
    r#"{"url":"https://api.example.com/v1/%2e%2e/x"}"#,
];

const COMMANDS: [&str; 11] = [
    r#"{"host":"web1","argv":["uptime"]}"#,
    r#"{"host":"web2","argv":["uptime"]}"#,
    r#"{"host":"web1","argv":["journalctl","-u","app","-n","50"]}"#,
    r#"{"host":"web2","argv":["journalctl","-u","a; reboot","-n","$(reboot)"]}"#,
    r#"{"host":"web1","argv":["cat","--","-rf"]}"#,
    r#"{"host":"web1","argv":["systemctl","restart","app"]}"#,
    r#"{"host":"web1","argv":["systemctl","status","app"]}"#,
    r#"{"host":"web3","argv":["uptime"]}"#,
    r#"{"host":"web1","argv":["uptime; reboot"]}"#,
    r#"{"host":"web1","argv":["sh","-c","uptime"]}"#,
    r#"{"host":"web1","argv":["journalctl","-u","-o","-n","1"]}"#,
];

const PAGES: [&str; 6] = [
    r#"{"cursor":"0123456789abcdef0123456789abcdef"}"#,
    r#"{"cursor":"0123456789abcdef0123456789abcdef:32768"}"#,
    r#"{"cursor":"ffffffffffffffffffffffffffffffff:0","offset":7,"find":"x"}"#,
    r#"{"cursor":"../../../../../../../etc/passwd"}"#,
    r#"{"cursor":"0123456789ABCDEF0123456789ABCDEF:0"}"#,
    r#"{"cursor":"0123456789abcdef0123456789abcdef.part"}"#,
];

/// A call of one of these tools, mostly with a change or two already.
pub fn call(dice: &mut Dice) -> (&'static str, String) {
    let (tool, arguments) = match dice.below(9) {
        0..=4 => ("http_request", REQUESTS[dice.below(REQUESTS.len())]),
        5..=7 => ("ssh_exec", COMMANDS[dice.below(COMMANDS.len())]),
        _ => ("read_result", PAGES[dice.below(PAGES.len())]),
    };
    let mut arguments = json::read(arguments).expect("a constant").value;
    for _ in 0..[0, 0, 1, 1, 1, 2][dice.below(6)] {
        change(dice, tool, &mut arguments);
    }
    (tool, arguments.print())
}

/// Changes the arguments of a line that calls one of these tools.
pub fn mutate(dice: &mut Dice, line: &mut Vec<u8>) {
    let Some(mut read) = std::str::from_utf8(line).ok().and_then(json::read) else { return };
    let Some(params) = member(&mut read.value, "params") else { return };
    let Some(tool) = params.member("name").and_then(Json::as_text).map(str::to_owned) else { return };
    if let Some(arguments) = member(params, "arguments") {
        change(dice, &tool, arguments);
        *line = read.value.print().into_bytes();
    }
}

fn change(dice: &mut Dice, tool: &str, arguments: &mut Json) {
    match (tool, dice.below(10)) {
        ("http_request", 0..=5) => change_text(dice, arguments, "url", change_url),
        ("http_request", 6 | 7) => change_headers(dice, arguments),
        ("http_request", 8) => set_one_of(dice, arguments, "method", &METHODS),
        ("http_request", _) => match dice.below(2) {
            0 => set_one_of(dice, arguments, "body", &BODIES),
            _ => set_one_of(dice, arguments, "select", &SELECTS),
        },
        ("ssh_exec", 0 | 1) => set_one_of(dice, arguments, "host", &HOSTS),
        ("ssh_exec", _) => change_argv(dice, arguments),
        ("read_result", 0..=5) => change_text(dice, arguments, "cursor", change_cursor),
        ("read_result", 6 | 7) => set_one_of(dice, arguments, "offset", &OFFSETS),
        ("read_result", _) => set_one_of(dice, arguments, "find", &FINDS),
        _ => {}
    }
}

const METHODS: [&str; 12] = [
    r#""GET""#,
    r#""HEAD""#,
    r#""POST""#,
    r#""PUT""#,
    r#""DELETE""#,
    r#""get""#,
    r#""GET ""#,
    r#""GET\r\nX: y""#,
    r#""CONNECT""#,
    r#""TRACE""#,
    r#""""#,
    "null",
];

const BODIES: [&str; 10] = [
    r#"{"text":"x"}"#,
    r#"{"json":null}"#,
    r#"{"json":{"a":1e2}}"#,
    r#"{"json":"\u2028"}"#,
    r#"{"text":"x","json":1}"#,
    "{}",
    r#""x""#,
    r#"{"text":1}"#,
    r#"{"base64":"eA=="}"#,
    r#"{"json":12345678901234567890.5}"#,
];

const SELECTS: [&str; 8] =
    ["[]", r#"["/a"]"#, r#"["/a~1b","/*/~0"]"#, r#"["a"]"#, r#"[""]"#, r#"["/a~2"]"#, r#"["/~"]"#, r#"[1]"#];

const HOSTS: [&str; 12] = [
    r#""web1""#,
    r#""web2""#,
    r#""Web1""#,
    r#""web1.""#,
    r#""web1 ""#,
    r#""web1\u0000""#,
    r#""""#,
    r#""*""#,
    r#""10.0.0.5""#,
    r#""-oProxyCommand=x""#,
    r#""u@web1""#,
    r#"["web1"]"#,
];

const OFFSETS: [&str; 10] =
    ["0", "5", "18446744073709551615", "20000000000000000000", "-1", "-0", "2.0", "1e1", r#""5""#, "null"];

const FINDS: [&str; 6] = [r#""x""#, r#""""#, r#""\u0000\ud83c\udf89""#, "null", "1", r#"["x"]"#];

/// Sound hosts and ports: one that is allowed somewhere, or beside one.
const NEIGHBOURS: [&str; 18] = [
    "api.example.com.evil.test",
    "api.example.comx",
    "sub.api.example.com",
    "xapi.example.com",
    "api-example.com",
    "api.example",
    "evil.test",
    "api.example.com:80",
    "api.example.com:8443",
    "keyed.example.com",
    "keyed.example.com:8443",
    "127.0.0.1",
    "127.0.0.11:8080",
    "127.0.0.1:8080",
    "localhost:8080",
    "[::1]:8443",
    "[::2]",
    "API.Example.COM",
];

/// Places that some reader takes for one that is allowed.
const AUTHORITIES: [&str; 37] = [
    "api.example.com",
    "api.example.com:443",
    "api.example.com:0443",
    "api.example.com:",
    "api.example.com:0",
    "api.example.com:65536",
    "api.example.com:+443",
    "api.example.com:443:443",
    "api.example.com:44 3",
    "api.example.com.",
    "api.example.com..",
    ".api.example.com",
    "api..example.com",
    "evil.test:443@api.example.com",
    "api.example.com@evil.test",
    "api.example.com%40evil.test",
    "api.example.com\\@evil.test",
    "api.example.com%2eevil.test",
    "api%2eexample.com",
    "api。example.com",
    "аpi.example.com",
    "api_.example.com",
    "-api.example.com",
    "*.example.com",
    "127.1:8080",
    "127.0.0.1.:8080",
    "127.0.0.01:8080",
    "0177.0.0.1:8080",
    "0x7f.0.0.1:8080",
    "2130706433:8080",
    "[::ffff:127.0.0.1]:8080",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::1]:443",
    "[::1%25lo]",
    "::1",
    "",
];

const PORTS: [&str; 6] = [":443", ":8443", ":8080", ":80", ":00443", ":4294967739"];

/// Put anywhere into a URL.
const SNIPPETS: [&str; 36] = [
    "/",
    "//",
    "../",
    "/..",
    "./",
    "..;/",
    ";x",
    "..",
    "%2e%2e/",
    "/%2E.",
    "%2f",
    "%2F..%2F",
    "%5c",
    "\\",
    "%00",
    "%0d%0aHost: evil.test",
    "\r\n",
    "%7f",
    "%C2%85",
    "%C3%A9",
    "%c0%ae",
    "%ff",
    "%",
    "%2",
    "%zz",
    "%25",
    "%252e",
    "%25zz",
    "é",
    " ",
    "#",
    "?",
    "@",
    ":",
    "{x}",
    "*",
];

const PATHS: [&str; 22] = [
    "",
    "/",
    "/v1",
    "/v1/",
    "/v1x",
    "/V1/",
    "/v1;x",
    "/v1%2f",
    "/%761/",
    "/v1/notes",
    "/v1/notesx",
    "/v1/a%20b",
    "/v1/a+b",
    "/v1/a%20b%20",
    "/v2/ours",
    "/v2/ours/../theirs",
    "/v2/ours%2f..%2ftheirs",
    "/v2/ours;/x",
    "/v2/theirs",
    "/v2/oursx",
    "/local",
    "?/v1/",
];

fn change_url(dice: &mut Dice, url: &mut String) {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let target = url[authority..].find(['/', '?', '#']).map_or(url.len(), |at| authority + at);
    match dice.below(8) {
        0 => url.replace_range(authority..target, dice.of(&NEIGHBOURS)),
        1 => url.replace_range(authority..target, dice.of(&AUTHORITIES)),
        2 => url.insert_str(target, dice.of(&PORTS)),
        3 => {
            let scheme = dice.of(&["http://", "https://", "HTTPS://", "ftp://", "file://", "//", "", " https://", "https:/"]);
            url.replace_range(..authority, scheme);
        }
        4 => url.replace_range(target.., dice.of(&PATHS)),
        5 => escape_one(dice, url, target),
        6 => change_letter(dice, url),
        _ => {
            let at = place(dice, url);
            url.insert_str(at, dice.of(&SNIPPETS));
        }
    }
}

/// A place between two characters.
fn place(dice: &mut Dice, text: &str) -> usize {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    places[dice.below(places.len())]
}

/// One character of the rest of a text, written as an escape.
fn escape_one(dice: &mut Dice, text: &mut String, from: usize) {
    let at = from + place(dice, &text[from..]);
    if let Some(c) = text[at..].chars().next() {
        let bytes = c.to_string().into_bytes();
        let is_upper = dice.once_in(2);
        let escape = |byte: &u8| if is_upper { format!("%{byte:02X}") } else { format!("%{byte:02x}") };
        text.replace_range(at..at + c.len_utf8(), &bytes.iter().map(escape).collect::<String>());
    }
}

/// One character: gone, in the other case, or twice.
fn change_letter(dice: &mut Dice, text: &mut String) {
    let at = place(dice, text);
    let Some(c) = text[at..].chars().next() else { return };
    let turned = if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    let instead = match dice.below(3) {
        0 => String::new(),
        1 => turned.to_string(),
        _ => format!("{c}{c}"),
    };
    text.replace_range(at..at + c.len_utf8(), &instead);
}

const NAMES: [&str; 35] = [
    "accept",
    "x-request-id",
    "range",
    "content-type",
    "x-api-key",
    "authorization",
    "cookie",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "proxy-authorization",
    "proxy-x",
    "forwarded",
    "x-forwarded-host",
    "x-forwarded",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
    "host ",
    " host",
    "ho\u{17f}t",
    "x:y",
    "x\r\ny",
    "",
    "hosts",
];

const VALUES: [&str; 10] =
    [r#""x""#, r#""""#, r#""a b""#, r#"" a""#, r#""a\t""#, r#""a\r\nHost: b""#, r#""é""#, "1", "null", r#""\u007f""#];

fn change_headers(dice: &mut Dice, arguments: &mut Json) {
    if dice.once_in(12) {
        let many = 32 + dice.below(2);
        let text = (0..many).map(|number| format!(r#""h{number}":"""#)).collect::<Vec<_>>().join(",");
        return set(arguments, "headers", Json::Raw(format!("{{{text}}}")));
    }
    let instead = dice.of(&["-", "-", "_", "."]);
    let name: String = dice
        .of(&NAMES)
        .replace('-', instead)
        .chars()
        .map(|c| if dice.once_in(3) { c.to_ascii_uppercase() } else { c })
        .collect();
    let value = json::read(dice.of(&VALUES)).expect("a constant").value;
    if member(arguments, "headers").is_none() {
        set(arguments, "headers", Json::Object(Vec::new()));
    }
    if let Some(Json::Object(headers)) = member(arguments, "headers") {
        // Not the same name twice, which is another fault; but one in two cases.
        headers.retain(|(other, _)| other.as_ref() != Some(&name));
        let twin =
            dice.once_in(6).then(|| (Some(swapped(&name)), value.clone())).filter(|(twin, _)| *twin != Some(name.clone()));
        headers.retain(|(other, _)| twin.as_ref().is_none_or(|(twin, _)| other != twin));
        headers.push((Some(name), value));
        headers.extend(twin);
    }
}

fn swapped(text: &str) -> String {
    let swap = |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    text.chars().map(swap).collect()
}

/// Elements of an argv.
const ELEMENTS: [&str; 20] = [
    r#""""#,
    r#""-""#,
    r#""--""#,
    r#""-n""#,
    r#""-u""#,
    r#""--output=x""#,
    r#""*""#,
    r#""app""#,
    r#""App""#,
    r#""uptime""#,
    r#""cat""#,
    r#""; reboot""#,
    r#""$(reboot)""#,
    r#""a\nb""#,
    r#""a\u0000""#,
    r#""\u2010n""#,
    r#""restart app""#,
    "1",
    "null",
    r#"["uptime"]"#,
];

fn change_argv(dice: &mut Dice, arguments: &mut Json) {
    if dice.once_in(15) {
        let many = 256 + dice.below(2);
        return set(arguments, "argv", Json::Raw(format!("[{}]", vec![r#""""#; many].join(","))));
    }
    let Some(Json::List(argv)) = member(arguments, "argv") else { return };
    let element = json::read(dice.of(&ELEMENTS)).expect("a constant").value;
    let at = dice.below(argv.len() + 1);
    match (dice.below(8), at < argv.len()) {
        (0 | 1, _) => argv.insert(at, element),
        (2, _) => argv.push(element),
        (3, true) => drop(argv.remove(at)),
        (4, true) => argv[at] = element,
        (5, true) => argv.swap(at, 0),
        (6, true) => argv.insert(at, argv[at].clone()),
        (_, true) => change_element(dice, argv, at),
        _ => {}
    }
}

/// A dash before an element, a text behind it, or two elements in one.
fn change_element(dice: &mut Dice, argv: &mut Vec<Json>, at: usize) {
    let Some(text) = argv[at].as_text().map(str::to_owned) else { return };
    let text = match dice.below(3) {
        0 => format!("-{text}"),
        1 => format!("{text}{}", dice.of(&[" ", "\n", "; reboot", "\0", "x", "\u{a0}"])),
        _ if at + 1 < argv.len() => {
            let next = argv.remove(at + 1);
            format!("{text} {}", next.as_text().unwrap_or_default())
        }
        _ => text.to_uppercase(),
    };
    argv[at] = Json::text(&text);
}

fn change_cursor(dice: &mut Dice, cursor: &mut String) {
    let tails = [
        ":",
        ":0",
        ":007",
        ":-1",
        ":+1",
        ": 1",
        ":1.0",
        ":0x1",
        ":18446744073709551615",
        ":18446744073709551616",
        ":0:0",
        ".part",
        "/",
        "\0",
    ];
    match dice.below(5) {
        0 => cursor.push_str(dice.of(&tails)),
        1 => *cursor = cursor.to_uppercase(),
        2 => cursor.insert_str(0, dice.of(&["/", "./", "../", "file:", " ", "0"])),
        3 => *cursor = dice.of(&["", ":0", "*", "0123456789abcdef0123456789abcde\u{e9}", "journal-heads.jsonl"]).to_owned(),
        _ => change_letter(dice, cursor),
    }
}

fn member<'j>(object: &'j mut Json, name: &str) -> Option<&'j mut Json> {
    let Json::Object(members) = object else { return None };
    members.iter_mut().find(|(key, _)| key.as_deref() == Some(name)).map(|(_, value)| value)
}

/// Sets a member, or adds it.
fn set(object: &mut Json, name: &str, value: Json) {
    match member(object, name) {
        Some(own) => *own = value,
        None => {
            if let Json::Object(members) = object {
                members.push((Some(name.to_owned()), value));
            }
        }
    }
}

fn set_one_of(dice: &mut Dice, object: &mut Json, name: &str, values: &[&str]) {
    let value = json::read(dice.of(values)).expect("a constant").value;
    set(object, name, value);
}

fn change_text(dice: &mut Dice, object: &mut Json, name: &str, change: fn(&mut Dice, &mut String)) {
    let Some(mut text) = object.member(name).and_then(Json::as_text).map(str::to_owned) else { return };
    change(dice, &mut text);
    set(object, name, Json::text(&text));
}
