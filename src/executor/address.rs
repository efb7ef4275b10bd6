//! May this address be dialled? Pure.
//!
//! The decision is taken on the numeric address, never on text: every IPv4 address embedded in an IPv6 one is unpacked and judged
//! as well. Only public unicast is open to everybody; the rest is open where the configuration says so, and nowhere else.
//! Sources: the IANA special-purpose registries (RFC 6890 and its updates), RFC 4291, RFC 6052, RFC 3056, RFC 4380.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::policy::rules::{Network, Networks};

/// An address that may not be dialled, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// The address as it would have been dialled.
    pub address: IpAddr,
    /// What stands behind it: the address itself, or the IPv4 address it embeds.
    pub place: IpAddr,
    /// Its kind, for people: `a loopback address`.
    pub kind: &'static str,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.address == self.place {
            write!(f, "{} is {}", self.address, self.kind)
        } else {
            write!(f, "{} stands for {}, {}", self.address, self.place, self.kind)
        }
    }
}

/// Whether `ip` may be dialled for the host `host_as_configured` (an IPv6 literal without brackets).
///
/// A non-public address may be dialled if the host is that very address as a literal, if the host is `localhost` and the
/// address loopback, or if a configured range contains it. An address that embeds another is no literal of it.
pub fn verdict(ip: IpAddr, host_as_configured: &str, networks: &Networks) -> Result<(), Blocked> {
    if opened(networks, ip) {
        return Ok(());
    }
    for place in places(ip) {
        let Some(kind) = special(place) else { continue };
        let literal = host_as_configured.parse() == Ok(place);
        let localhost = host_as_configured == "localhost" && place.is_loopback();
        if !literal && !localhost && !opened(networks, place) {
            return Err(Blocked { address: ip, place, kind });
        }
    }
    Ok(())
}

/// Whether one of the ranges contains `ip`. An IPv4 range contains no IPv6 address and the other way round.
fn opened(networks: &Networks, ip: IpAddr) -> bool {
    networks.ranges.iter().any(|range| contains(range, ip))
}

fn contains(range: &Network, ip: IpAddr) -> bool {
    let (width, address, ip) = match (range.address, ip) {
        (IpAddr::V4(address), IpAddr::V4(ip)) => (32, u128::from(address.to_bits()), u128::from(ip.to_bits())),
        (IpAddr::V6(address), IpAddr::V6(ip)) => (128, address.to_bits(), ip.to_bits()),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
    };
    let host_bits = width - u32::from(range.prefix).min(width);
    // A shift by the whole width is the empty prefix: everything.
    address.checked_shr(host_bits).unwrap_or(0) == ip.checked_shr(host_bits).unwrap_or(0)
}

/// What an address reaches: the IPv4 addresses it embeds, or itself.
fn places(ip: IpAddr) -> Vec<IpAddr> {
    match ip {
        IpAddr::V4(_) => vec![ip],
        IpAddr::V6(v6) => match embedded(v6) {
            found if found.is_empty() => vec![ip],
            found => found.into_iter().map(IpAddr::V4).collect(),
        },
    }
}

fn embedded(ip: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bits = ip.to_bits();
    let at = |shift: u32| Ipv4Addr::from_bits(((bits >> shift) & 0xffff_ffff) as u32);
    match ip.segments() {
        // `::` and `::1` are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => vec![],
        // Mapped (RFC 4291 section 2.5.5.2), compatible (2.5.5.1), translated (RFC 2765), NAT64 (RFC 6052 section 2.1).
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            vec![at(0)]
        }
        // 6to4 (RFC 3056 section 2).
        [0x2002, ..] => vec![at(80)],
        // Teredo (RFC 4380 section 4): the server, and the client with its bits flipped.
        [0x2001, 0, ..] => vec![at(64), Ipv4Addr::from_bits(!at(0).to_bits())],
        _ => vec![],
    }
}

/// What makes an address special; `None` for public unicast.
fn special(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

fn special_v4(ip: Ipv4Addr) -> Option<&'static str> {
    match ip.octets() {
        [0, 0, 0, 0] => Some("the unspecified address"),
        [0, ..] => Some("an address of this network"),
        [127, ..] => Some("a loopback address"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some("a private address"),
        [100, 64..=127, ..] => Some("a shared carrier address"),
        [169, 254, ..] => Some("a link-local address"),
        [255, 255, 255, 255] => Some("the broadcast address"),
        [224..=239, ..] => Some("a multicast address"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some("a documentation address"),
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [240..=255, ..] => Some("a reserved address"),
        _ => None,
    }
}

fn special_v6(ip: Ipv6Addr) -> Option<&'static str> {
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("the unspecified address"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        // RFC 8215: where the IPv4 address stands in it is a local matter, so it cannot be unpacked.
        [0x64, 0xff9b, 1, ..] => Some("a local translation address"),
        [0x100, 0, 0, 0, ..] => Some("a discard address"),
        [0xfc00..=0xfdff, ..] => Some("a unique local address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfec0..=0xfeff, ..] => Some("a site-local address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("a documentation address"),
        [0x2001, 0..=0x1ff, ..] => Some("a reserved address"),
        // Global unicast (RFC 4291 section 2.4 and the IANA allocations): the only part that is public.
        [0x2000..=0x3fff, ..] => None,
        _ => Some("a reserved address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(ranges: &[(&str, u8)]) -> Networks {
        Networks {
            ranges: ranges
                .iter()
                .map(|(address, prefix)| Network { address: address.parse().unwrap(), prefix: *prefix })
                .collect(),
        }
    }

    #[track_caller]
    fn check_open(ip: &str, host: &str, ranges: &[(&str, u8)]) {
        assert_eq!(verdict(ip.parse().unwrap(), host, &networks(ranges)), Ok(()), "{ip} for {host}");
    }

    #[track_caller]
    fn check_blocked(ip: &str, host: &str, ranges: &[(&str, u8)]) -> Blocked {
        verdict(ip.parse().unwrap(), host, &networks(ranges)).expect_err(ip)
    }

    #[test]
    fn everything_that_is_not_public_is_blocked_r066() {
        let table = "0.0.0.0 0.1.2.3 127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 \
            100.127.255.255 169.254.169.254 224.0.0.1 239.255.255.255 255.255.255.255 240.0.0.1 192.0.0.8 192.0.2.1 198.18.0.1 \
            198.19.255.255 198.51.100.1 203.0.113.7 :: ::1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::127.0.0.1 ::2 \
            ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::10.1.2.3 64:ff9b:1::7f00:1 64:ff9b:1::808:808 2002:7f00:1:: 2002:a00:1::1 \
            2001:0:a00:1::f7f7:f7f7 2001:0:808:808::80ff:fffe fd00::1 fc00::1 fe80::1 febf::1 fec0::1 ff02::1 2001:db8::1 \
            3fff::1 100::1 2001:2::1 2001:10::1 4000::1 ::1:0:0:0:1";
        for ip in table.split_whitespace() {
            check_blocked(ip, "api.example.com", &[]);
            check_blocked(ip, "localhost.", &[]);
        }
    }

    #[test]
    fn public_addresses_are_open() {
        let table = "1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.0.1.1 198.17.0.1 198.20.0.1 223.255.255.255 \
            2606:4700::1111 2a00::1 64:ff9b::808:808 ::ffff:8.8.8.8 2002:808:808::1 2001:0:808:808::f7f7:f7f7 2001:200::1";
        for ip in table.split_whitespace() {
            check_open(ip, "api.example.com", &[]);
        }
    }

    #[test]
    fn a_blocked_address_says_what_it_stands_for() {
        assert_eq!(check_blocked("127.0.0.1", "a.test", &[]).to_string(), "127.0.0.1 is a loopback address");
        assert_eq!(
            check_blocked("64:ff9b::a00:1", "a.test", &[]).to_string(),
            "64:ff9b::a00:1 stands for 10.0.0.1, a private address"
        );
    }

    #[test]
    fn the_configuration_opens_exactly_what_it_says() {
        check_open("127.0.0.1", "127.0.0.1", &[]);
        check_open("::1", "::1", &[]);
        check_open("fd00::1", "fd00:0::1", &[]);
        check_open("127.0.0.1", "localhost", &[]);
        check_open("::1", "localhost", &[]);
        check_open("10.0.0.5", "web1", &[("10.0.0.0", 24)]);
        check_open("::ffff:10.0.0.5", "web1", &[("10.0.0.0", 24)]);
        check_open("fd00::5", "web1", &[("fd00::", 8)]);
        check_open("127.0.0.1", "a.test", &[("0.0.0.0", 0)]);

        check_blocked("127.0.0.2", "127.0.0.1", &[]);
        check_blocked("10.0.0.1", "localhost", &[]);
        check_blocked("::ffff:10.0.0.1", "::ffff:10.0.0.1", &[]);
        check_blocked("::ffff:127.0.0.1", "::ffff:7f00:1", &[]);
        check_blocked("127.0.0.1", "LOCALHOST", &[]);
        check_blocked("127.0.0.1", "2130706433", &[]);
        check_blocked("127.0.0.1", "0x7f.1", &[]);
        check_blocked("127.0.0.1", "127.1", &[]);
        check_blocked("10.0.1.5", "web1", &[("10.0.0.0", 24)]);
        check_blocked("fd00::5", "web1", &[("0.0.0.0", 0)]);
    }

    #[test]
    fn one_private_place_of_two_is_enough_to_block() {
        let blocked = check_blocked("2001:0:808:808::80ff:fffe", "a.test", &[]);
        assert_eq!(blocked.place, "127.0.0.1".parse::<IpAddr>().unwrap());
    }
}
