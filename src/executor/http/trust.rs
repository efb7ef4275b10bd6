//! Whom TLS believes: the certificate authorities, read once, when the first https request needs them.
//!
//! A configured file, else `SSL_CERT_FILE`, else the system's bundle, else the authorities compiled in. A file that was named
//! and cannot be used is a failure, never a reason to trust somebody else. Verification cannot be switched off.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};

use crate::executor::http::transport::Tls;
use crate::outcome::result::{Code, Executed, Failure};

/// Where Debian, Alpine, Arch and their kin keep the bundle.
const SYSTEM_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

#[derive(Default)]
pub(super) struct Trust {
    file: Option<PathBuf>,
    roots: OnceLock<RootCerts>,
    connector: Arc<Tls>,
}

impl Trust {
    pub(super) fn from_file(file: PathBuf) -> Self {
        Trust { file: Some(file), ..Trust::default() }
    }

    /// The same file, read anew when it is first needed.
    pub(super) fn next(&self) -> Self {
        Trust { file: self.file.clone(), ..Trust::default() }
    }

    /// For requests without TLS.
    pub(super) fn nobody() -> RootCerts {
        RootCerts::new_with_certs(&[])
    }

    /// The TLS connector: it keeps the roots in parsed form and session tickets between calls.
    pub(super) fn connector(&self) -> &Arc<Tls> {
        &self.connector
    }

    /// The authorities. Only a success is kept, so a repaired file is found by the next call.
    pub(super) fn roots(&self) -> Result<RootCerts, Failure> {
        if let Some(roots) = self.roots.get() {
            return Ok(roots.clone());
        }
        let roots = self.read().map_err(|message| Failure::new(Code::TlsFailed, Executed::No, message))?;
        Ok(self.roots.get_or_init(|| roots).clone())
    }

    fn read(&self) -> Result<RootCerts, String> {
        let named =
            self.file.clone().or_else(|| std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from));
        if let Some(file) = named {
            return certificates(&file).map(RootCerts::from);
        }
        certificates(Path::new(SYSTEM_BUNDLE)).map(RootCerts::from).or_else(|error| {
            log::warn!("using the compiled-in certificate authorities: {error}");
            Ok(RootCerts::WebPki)
        })
    }
}

fn certificates(file: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let name = file.display();
    let pem = std::fs::read(file).map_err(|error| format!("the certificate authorities in {name} cannot be read: {error}"))?;
    let items = parse_pem(&pem).collect::<Result<Vec<_>, _>>();
    let items = items.map_err(|error| format!("the certificate authorities in {name} are not PEM: {error}"))?;
    let found: Vec<_> = items
        .into_iter()
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    if found.is_empty() { Err(format!("no certificate in {name}")) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_that_cannot_be_used_is_a_failure() {
        for file in ["/dev/null", "/nonexistent/roots.pem"] {
            let failure = Trust::from_file(file.into()).roots().unwrap_err();
            assert_eq!((failure.code, failure.executed), (Code::TlsFailed, Executed::No));
            assert!(failure.message.contains(file), "{}", failure.message);
        }
    }
}
