//! Whose address the load goes to: a run against a public address must be meant.

use std::net::IpAddr;

/// How far an address reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// This machine.
    Loopback,
    /// A private or link-local network (RFC 1918, 3927, 4193, 6598).
    Private,
    /// Anything else: perhaps somebody else's.
    Public,
}

/// Says how far `ip` reaches.
#[must_use]
pub fn reach(ip: IpAddr) -> Reach {
    let ip = match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    };
    if ip.is_loopback() || ip.is_unspecified() {
        return Reach::Loopback;
    }
    let private = match ip {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            // 100.64.0.0/10: addresses behind a carrier's or a cloud's translation (RFC 6598).
            v4.is_private() || v4.is_link_local() || (a == 100 && (64..128).contains(&b))
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local(),
    };
    if private {
        Reach::Private
    } else {
        Reach::Public
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_foreign_addresses_are_public() {
        let of = |text: &str| reach(text.parse().unwrap());
        for ip in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "0.0.0.0",
            "::ffff:127.0.0.1",
        ] {
            assert_eq!(of(ip), Reach::Loopback, "{ip}");
        }
        for ip in [
            "10.1.2.3",
            "172.16.0.9",
            "192.168.1.1",
            "100.64.0.1",
            "169.254.1.1",
            "fd00::1",
            "fe80::1",
        ] {
            assert_eq!(of(ip), Reach::Private, "{ip}");
        }
        for ip in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111"] {
            assert_eq!(of(ip), Reach::Public, "{ip}");
        }
    }
}
