//! `verify` of a very large journal: time aside, it costs no more memory than that of a small one.

use std::io::Write;
use std::process::Stdio;

use ring::digest::{SHA256, digest};

use super::{command, findings, lines};
use crate::kit::process::{peak_kib, until};

const BYTES: usize = 1 << 30;
const MEMORY_KIB: u64 = 32 << 10;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A sound journal, line by line; the last call stays open.
struct Growing {
    prev: String,
    seq: u64,
}

impl Growing {
    fn push(&mut self, record: &str, to: &mut Vec<u8>) {
        let line =
            format!(r#"{{"seq":{},"at":"2026-07-31T08:00:00.000Z","mono_ms":0,"prev":"{}",{record}}}"#, self.seq, self.prev);
        self.prev = hex(digest(&SHA256, line.as_bytes()).as_ref());
        self.seq += 1;
        to.extend_from_slice(line.as_bytes());
        to.push(b'\n');
    }
}

#[test]
fn a_gibibyte_is_verified_in_little_memory() {
    let mut verify = command(&["verify", "--json", "--file", "/dev/stdin"]);
    let mut child = verify.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut growing = Growing { prev: "0".repeat(64), seq: 0 };
    let (mut chunk, mut sent, mut call) = (Vec::new(), 0, 0_u64);
    growing.push(r#""type":"session","format":1,"version":"0.1.0","pid":1,"file":"x","previous":null,"open":[]"#, &mut chunk);
    // As long as a target may be: the fewest lines to make here, not the fewest to read there.
    let target = "x".repeat(1500);
    while sent < BYTES {
        for _ in 0..40 {
            call += 1;
            growing.push(&format!(r#""type":"intent","call":{call},"tool":"say","target":"{target}""#), &mut chunk);
            growing.push(&format!(r#""type":"outcome","call":{call},"code":"ok","executed":"yes""#), &mut chunk);
        }
        stdin.write_all(&chunk).unwrap();
        sent += chunk.len();
        chunk.clear();
    }
    growing.push(r#""type":"intent","call":0,"tool":"say""#, &mut chunk);
    stdin.write_all(&chunk).unwrap();
    // All but what a pipe holds has been read.
    let peak = peak_kib(child.id());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    drop(stdin);
    until("it has ended", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    let said = lines(&String::from_utf8(output.stdout).unwrap());
    assert_eq!((output.status.code(), findings(&said)), (Some(0), vec![format!("unknown stdin:{}", growing.seq)]));
    assert_eq!(said.last().unwrap()["records"], growing.seq);
}

/// More is wrong than anybody wants to read, and more is open than could be: both are bounded and said.
#[test]
fn a_ruin_is_verified_in_little_memory() {
    let mut verify = command(&["verify", "--json", "--file", "/dev/stdin"]);
    let mut child = verify.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut growing = Growing { prev: "0".repeat(64), seq: 0 };
    let mut text = Vec::new();
    growing.push(r#""type":"session""#, &mut text);
    (0..50_000).for_each(|call| growing.push(&format!(r#""type":"intent","call":{call}"#), &mut text));
    // A line without an end, and lines of another file.
    text.extend_from_slice(&vec![b'x'; 8 << 20]);
    text.push(b'\n');
    for seq in 0..50_000 {
        text.extend_from_slice(format!("{{\"seq\":{seq},\"at\":\"\",\"prev\":\"\",\"type\":\"other\"}}\n").as_bytes());
    }
    stdin.write_all(&text).unwrap();
    let peak = peak_kib(child.id());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = lines(&String::from_utf8(output.stdout).unwrap());
    let found = findings(&said);
    assert_eq!(output.status.code(), Some(1));
    assert!(found.contains(&"too_many_open stdin:4098".to_owned()), "{found:?}");
    assert!(found.contains(&"malformed stdin:50002".to_owned()), "{found:?}");
    let summary = said.iter().find(|line| line["type"] == "file").unwrap();
    assert!(summary["findings"].as_u64().unwrap() > 50_000 && found.len() == 1000, "{summary}");
}
