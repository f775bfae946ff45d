//! Which names a request may use for this machine.
//!
//! A page of another site can have its own name resolve to a loopback address, and would read an endpoint there through
//! the user's browser. The request still names the site as its host.

use std::net::IpAddr;

/// The host names that a request to the endpoint may have.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    /// The host of `--listen`.
    configured: String,
    /// Whether the connection came over a loopback address. Others are open to the network, under whatever name.
    is_loopback: bool,
}

impl Hosts {
    pub(super) fn new(configured: &str, local: IpAddr) -> Self {
        let is_loopback = local.to_canonical().is_loopback();
        Self { configured: configured.to_owned(), is_loopback }
    }

    /// Whether a request with this `Host` header is for us.
    pub(super) fn is_ours(&self, header: &[u8]) -> bool {
        let Ok(header) = str::from_utf8(header) else { return false };
        let name = without_port(header.trim());
        let names = ["localhost", "127.0.0.1", "::1", self.configured.as_str()];
        !self.is_loopback || names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The host of `host:port` or `[address]:port`.
fn without_port(header: &str) -> &str {
    match header.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => header.split_once(':').map_or(header, |(host, _)| host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered_on_loopback() {
        let hosts = Hosts::new("127.0.0.2", IpAddr::from([127, 0, 0, 2]));
        for ours in [
            "localhost",
            "LocalHost:18726",
            "127.0.0.1:18726",
            "[::1]:18726",
            "[::1]",
            "127.0.0.2:1",
        ] {
            assert!(hosts.is_ours(ours.as_bytes()), "{ours}");
        }
        for foreign in [
            "evil.example",
            "evil.example:18726",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "[::1",
            "\u{e9}",
        ] {
            assert!(!hosts.is_ours(foreign.as_bytes()), "{foreign}");
        }
        assert!(!hosts.is_ours(b"\xff"));
    }

    #[test]
    fn a_mapped_loopback_address_is_one() {
        let mapped = Hosts::new("::", "::ffff:127.0.0.1".parse().unwrap());
        assert!(!mapped.is_ours(b"evil.example"));
    }

    #[test]
    fn an_address_that_the_network_reaches_has_any_name() {
        let hosts = Hosts::new("0.0.0.0", IpAddr::from([10, 0, 0, 5]));
        assert!(hosts.is_ours(b"gpu01.cluster:18726"));
    }
}
