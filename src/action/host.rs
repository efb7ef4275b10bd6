//! Hosts as the configuration may write them: one spelling each, so that comparing texts compares hosts.
//!
//! A numeric form that some resolver would read as an address (`127.1`, `0x7f.1`, `2130706433`) is refused rather than
//! interpreted. Nothing here looks a name up.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::action::template::quoted;

/// Octets of a DNS name in text form (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 253;
/// Octets of one label.
const LABEL_BYTES_MAX: usize = 63;

/// A host in the canonical form actions and scopes hold: a lower-case DNS name of LDH labels (RFC 5890 section 2.3.1), a
/// dotted IPv4 address, or an IPv6 address, which is written in brackets in a URL and held without them (RFC 5952).
pub fn parse_host(text: &str) -> Result<String, String> {
    if let Some(inner) = text.strip_prefix('[') {
        return parse_ipv6(text, inner);
    }
    if text.contains(':') {
        return Err(format!("expected an IPv6 address in brackets, got {}", quoted(text)));
    }
    let lower = text.to_ascii_lowercase();
    if lower.ends_with('.') {
        return Err(format!("expected a host without a dot at its end, got {}", quoted(text)));
    }
    if lower.rsplit('.').next().is_some_and(is_numeric) {
        return match lower.parse::<Ipv4Addr>() {
            Ok(_) => Ok(lower),
            Err(_) => Err(format!(
                "expected an IPv4 address in its canonical form, four decimal numbers with dots, got {}",
                quoted(text)
            )),
        };
    }
    if lower.len() <= NAME_BYTES_MAX && lower.split('.').all(is_label) {
        return Ok(lower);
    }
    Err(format!(
        "expected a host name of letters, digits and hyphens (an international name in its xn-- form) or an address, got {}",
        quoted(text)
    ))
}

fn parse_ipv6(text: &str, inner: &str) -> Result<String, String> {
    let address: Option<Ipv6Addr> = inner.strip_suffix(']').and_then(|address| address.parse().ok());
    let Some(address) = address else {
        return Err(format!("expected an IPv6 address in brackets, without a zone, got {}", quoted(text)));
    };
    match address.to_ipv4_mapped() {
        Some(v4) => Err(format!("expected the IPv4 address itself, {v4}, got {}", quoted(text))),
        None => Ok(address.to_string()),
    }
}

/// What WHATWG URL section 3.5 takes for the last part of an IPv4 address: digits, or `0x` and hex digits.
fn is_numeric(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.len() <= LABEL_BYTES_MAX
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(parse_host(text).as_deref(), Ok(want));
    }

    #[track_caller]
    fn check_refused(text: &str, part: &str) {
        let error = parse_host(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }

    #[test]
    fn canonical_hosts() {
        check("localhost", "localhost");
        check("API.Example.com", "api.example.com");
        check("xn--bcher-kva.example", "xn--bcher-kva.example");
        check("1.example.com", "1.example.com");
        check("10.0.0.5", "10.0.0.5");
        check("[::1]", "::1");
        check("[2001:DB8:0:0::1]", "2001:db8::1");
    }

    #[test]
    fn one_spelling_each() {
        for text in [
            "2130706433",
            "0x7f.1",
            "127.1",
            "0",
            "0x7f000001",
            "127.0.0.01",
            "0177.0.0.1",
            "1.2.3.4.5",
            "256.1.1.1",
            "a.0x1",
            "0x",
        ] {
            check_refused(text, "canonical form");
        }
        check_refused("example.com.", "dot at its end");
        check_refused("127.0.0.1.", "dot at its end");
        check_refused("[::ffff:127.0.0.1]", "127.0.0.1");
        check_refused("[fe80::1%eth0]", "without a zone");
        check_refused("[::1", "in brackets");
        check_refused("[127.0.0.1]", "in brackets");
        check_refused("::1", "in brackets");
    }

    #[test]
    fn names() {
        for text in
            ["", ".", "a..b", "-a.example", "a-.example", "a_b.example", "a b", "é.example", "a%2eb", "a\\b", "a@b", "*", "{x}"]
        {
            assert!(parse_host(text).is_err(), "{text}");
        }
        let label = "a".repeat(63);
        check(&label, &label);
        assert!(parse_host(&format!("{label}a")).is_err());
        let name = [label.as_str(); 4].join(".");
        assert_eq!(name.len(), 255);
        assert!(parse_host(&name[2..]).is_ok() && parse_host(&name[1..]).is_err());
    }
}
