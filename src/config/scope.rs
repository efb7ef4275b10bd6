//! Where things may go: hosts, scopes of credentials, address ranges, the header a credential stands in.
//!
//! Pure: no name is resolved. A host is compared whole later on, so it gets its one spelling here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::action::host::parse_host;
use crate::action::http::Scheme;
use crate::config::object::Said;
use crate::config::tree::{Problems, quote};
use crate::config::written::{PlacementWritten, ScopeWritten};
use crate::policy::rules::{Network, Placement, Scope};

/// Headers that frame or describe the message (RFC 9110 sections 6.6, 7.2, 7.6, 8.3, 10.1; RFC 9112 sections 6, 9).
const HEADERS_REFUSED: &[&str] = &[
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
];

/// `as` of a credential; `authorization` is allowed, for that is what it is about.
pub fn placement(written: &PlacementWritten<'_>, problems: &mut Problems) -> Option<Placement> {
    match written {
        PlacementWritten::Bearer => Some(Placement::Bearer),
        PlacementWritten::Broken => None,
        PlacementWritten::Header { name, prefix } => {
            let lower = name.value.to_ascii_lowercase();
            if HEADERS_REFUSED.contains(&lower.as_str()) || lower.starts_with("proxy-") {
                problems.add(name.at, format!("a credential cannot stand in the header {}", quote(&lower)));
                return None;
            }
            Some(Placement::Header { name: lower, prefix: (*prefix).to_owned() })
        }
    }
}

/// `https://host:port`, for messages.
pub fn origin(scheme: Scheme, host: &str, port: u16) -> String {
    let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
    format!("{}://{open}{host}{close}:{port}", scheme.text())
}

/// One of a credential's `for`, or an allow rule's place: https everywhere, http for loopback hosts alone. `what` goes there.
pub fn scope(written: &ScopeWritten<'_>, what: &str, problems: &mut Problems) -> Option<Scope> {
    let paths: Option<Vec<String>> =
        written.paths.iter().map(|path| path_prefix(*path, problems)).collect::<Vec<_>>().into_iter().collect();
    let host = match parse_host(written.host.value) {
        Ok(host) => host,
        Err(problem) => {
            problems.add(written.host.at, problem);
            return None;
        }
    };
    let scheme = match written.scheme {
        Some(said) if said.value == Scheme::Http && !is_loopback(&host) => {
            problems.add(said.at, format!("{what} over https, over http to a loopback host only; {} is none", quote(&host)));
            return None;
        }
        Some(said) => said.value,
        None if is_loopback(&host) => Scheme::Http,
        None => Scheme::Https,
    };
    Some(Scope { scheme, port: written.port.unwrap_or(scheme.default_port()), host, paths: paths? })
}

/// Compared with request paths by segment later on, so it may not hold what a request path cannot.
fn path_prefix(said: Said<&str>, problems: &mut Problems) -> Option<String> {
    let plain = said.value.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'\\'));
    if !plain || said.value.split('/').any(|segment| matches!(segment, "." | "..")) {
        let expected = "expected a path prefix of visible ASCII without \"?\", \"#\", \"\\\" and dot segments";
        problems.add(said.at, format!("{expected}, got {}", quote(said.value)));
        return None;
    }
    Some(said.value.to_owned())
}

/// `localhost`, 127.0.0.0/8 or ::1, in the spelling of `parse_host`.
pub fn is_loopback(host: &str) -> bool {
    host == "localhost" || IpAddr::from_str(host).is_ok_and(|address| address.is_loopback())
}

/// One of `networks`, in CIDR notation with host bits zero.
pub fn network(text: &str) -> Result<Network, String> {
    let expected = || format!("expected an address range such as 10.0.0.0/24 or fd00::/8, got {}", quote(text));
    let (address, prefix) = text.split_once('/').ok_or_else(expected)?;
    let address = IpAddr::from_str(address).map_err(|_| expected())?;
    let digits =
        !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit()) && (prefix == "0" || !prefix.starts_with('0'));
    let prefix = prefix.parse::<u8>().ok().filter(|_| digits).ok_or_else(expected)?;
    let masked = mask(address, prefix).ok_or_else(expected)?;
    if let IpAddr::V6(v6) = masked
        && let (Some(v4), 96..) = (v6.to_ipv4_mapped(), prefix)
    {
        return Err(format!("an IPv4 range is written as {v4}/{}, got {}", prefix - 96, quote(text)));
    }
    if masked != address {
        return Err(format!("the address has bits beyond its prefix, expected {masked}/{prefix}, got {}", quote(text)));
    }
    Ok(Network { address, prefix })
}

/// The address with everything beyond the prefix zero; `None` if the prefix is too long for it.
fn mask(address: IpAddr, prefix: u8) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => {
            let host_bits = 32u32.checked_sub(prefix.into())?;
            Some(Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(host_bits).unwrap_or(0)).into())
        }
        IpAddr::V6(v6) => {
            let host_bits = 128u32.checked_sub(prefix.into())?;
            Some(Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(host_bits).unwrap_or(0)).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_network(text: &str, expected: Result<(&str, u8), &str>) {
        let got = network(text).map(|network| (network.address.to_string(), network.prefix));
        assert_eq!(got, expected.map(|(address, prefix)| (address.to_owned(), prefix)).map_err(str::to_owned), "{text}");
    }

    #[test]
    fn networks_are_canonical() {
        for (text, address, prefix) in [
            ("10.0.0.0/24", "10.0.0.0", 24),
            ("10.0.0.5/32", "10.0.0.5", 32),
            ("0.0.0.0/0", "0.0.0.0", 0),
            ("fd00::/8", "fd00::", 8),
            ("::1/128", "::1", 128),
            ("::/0", "::", 0),
            ("FD00:0::/8", "fd00::", 8),
        ] {
            check_network(text, Ok((address, prefix)));
        }
    }

    #[test]
    fn host_bits_get_the_canonical_form() {
        for (text, canonical) in [
            ("10.0.0.5/24", "10.0.0.0/24"),
            ("10.0.0.1/0", "0.0.0.0/0"),
            ("10.0.0.1/31", "10.0.0.0/31"),
            ("fd00::1/8", "fd00::/8"),
            ("::1/0", "::/0"),
        ] {
            let expected = format!("the address has bits beyond its prefix, expected {canonical}, got \"{text}\"");
            check_network(text, Err(&expected));
        }
        check_network("::ffff:10.0.0.0/104", Err("an IPv4 range is written as 10.0.0.0/8, got \"::ffff:10.0.0.0/104\""));
        check_network("::ffff:10.0.0.9/120", Err("an IPv4 range is written as 10.0.0.0/24, got \"::ffff:10.0.0.9/120\""));
    }

    #[test]
    fn nothing_else_is_a_network() {
        for text in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "10.0.0.0/-1",
            "10.0.0/8",
            "010.0.0.0/8",
            "fd00::/129",
            "fd00::%eth0/8",
            " 10.0.0.0/8",
            "host/8",
            "10.0.0.0/8/8",
            "10.0.0.0/256",
        ] {
            check_network(text, Err(&format!("expected an address range such as 10.0.0.0/24 or fd00::/8, got \"{text}\"")));
        }
    }

    #[test]
    fn loopback_is_three_things() {
        for (host, expected) in [
            ("localhost", true),
            ("127.0.0.1", true),
            ("127.255.0.9", true),
            ("::1", true),
            ("128.0.0.1", false),
            ("::2", false),
            ("localhost.example.com", false),
            ("127.0.0.1.example.com", false),
            ("0.0.0.0", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }
}
