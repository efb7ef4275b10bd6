//! HTTPS against a real TLS server: `openssl s_server` with a certificate authority made for the test.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::kit::dir::Dir;
use crate::kit::gateway::Gateway;
use crate::kit::modern_call;

/// A certificate authority in a folder, and the certificates it made.
struct Authority(Dir);

impl Authority {
    fn new() -> Authority {
        let authority = Authority(Dir::new());
        let subject = ["-subj", "/CN=Tidegate test authority", "-addext", "basicConstraints=critical,CA:TRUE"];
        authority.openssl(
            &[
                &["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
                &subject[..],
                &["-days", "2", "-keyout", "ca.key", "-out", "ca.pem"],
            ]
            .concat(),
        );
        authority
    }

    fn openssl(&self, arguments: &[&str]) {
        let output =
            Command::new("openssl").args(arguments).current_dir(self.0.path()).output().expect("openssl is there: make deps");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A certificate for `names`, valid for `days` from `start`.
    fn certificate(&self, file: &str, names: &str, days: &str) {
        self.0.write("names", format!("subjectAltName={names}\n"));
        let (key, request, certificate) = (format!("{file}.key"), format!("{file}.csr"), format!("{file}.pem"));
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            "/CN=test",
            "-keyout",
            &key,
            "-out",
            &request,
        ]);
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            days,
            "-extfile",
            "names",
            "-out",
            &certificate,
        ]);
    }

    fn roots(&self) -> PathBuf {
        self.0.join("ca.pem")
    }

    fn serve(&self, file: &str) -> Server {
        let mut child = Command::new("openssl")
            .args([
                "s_server",
                "-accept",
                "127.0.0.1:0",
                "-www",
                "-key",
                &format!("{file}.key"),
                "-cert",
                &format!("{file}.pem"),
            ])
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port =
            lines.find_map(|line| line.unwrap().strip_prefix("ACCEPT 127.0.0.1:").map(|port| port.trim().parse().unwrap()));
        let drain = std::thread::spawn(move || lines.for_each(drop));
        Server { child, port: port.expect("the server says its port"), drain: Some(drain) }
    }
}

struct Server {
    child: Child,
    port: u16,
    drain: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(drain) = self.drain.take() {
            let _ = drain.join();
        }
    }
}

#[track_caller]
fn fetched(host: &str, server: &Server, roots: Option<PathBuf>) -> Value {
    let url = format!("https://{host}:{}/", server.port);
    let mut gateway = Gateway::new().set("tools", json!([{"name": "get", "description": "x", "http": {"url": url}}]));
    if let Some(roots) = roots {
        gateway = gateway.env("SSL_CERT_FILE", roots.display().to_string());
    }
    let mut running = gateway.start();
    let reply = running.ask(&modern_call(1, "get", "{}"));
    running.end();
    reply["result"].clone()
}

#[track_caller]
fn check_refused(host: &str, server: &Server, roots: Option<PathBuf>, says: &str) {
    let result = fetched(host, server, roots);
    let outcome = &result["_meta"]["tidegate/outcome"];
    assert_eq!((&outcome["code"], &outcome["executed"]), (&json!("tls_failed"), &json!("no")), "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(says), "{says:?} is not in {text:?}");
}

#[test]
fn a_certificate_is_believed_for_its_names_its_time_and_its_authority() {
    let authority = Authority::new();
    authority.certificate("good", "DNS:localhost", "1");
    let server = authority.serve("good");
    let result = fetched("localhost", &server, Some(authority.roots()));
    assert_eq!((&result["isError"], &result["structuredContent"]["status"]), (&json!(false), &json!(200)), "{result}");
    check_refused("127.0.0.1", &server, Some(authority.roots()), "name");
    check_refused("localhost", &server, None, "issuer");
    drop(server);
    authority.certificate("old", "DNS:localhost", "-1");
    check_refused("localhost", &authority.serve("old"), Some(authority.roots()), "expired");
}
