//! The address to listen on.

use std::net::Ipv6Addr;

/// Outside the ports that Prometheus' list gives to exporters (9400 is that of DCGM's), and outside those that Linux
/// gives to outgoing connections.
const PORT: u16 = 18726;

/// Only programs on this machine can connect.
const HOST: &str = "127.0.0.1";

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listen {
    /// A name or an address, an IPv6 address without its brackets.
    pub(super) host: String,
    /// 0 for any that is free.
    pub(super) port: u16,
}

impl Default for Listen {
    fn default() -> Self {
        Self { host: HOST.to_owned(), port: PORT }
    }
}

impl Listen {
    /// Reads `port` or `host:port`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (host, port) = text.rsplit_once(':').unwrap_or((HOST, text));
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_number);
        match (bare_host(host), port) {
            (Some(host), Some(port)) => Ok(Self { host: host.to_owned(), port }),
            _ => Err(format!("write for example {PORT}, 0.0.0.0:{PORT} or [::1]:{PORT}")),
        }
    }
}

/// A host without the brackets that an IPv6 address has beside a port.
fn bare_host(host: &str) -> Option<&str> {
    if let Some(inside) = host.strip_prefix('[') {
        let inside = inside.strip_suffix(']')?;
        return inside.parse::<Ipv6Addr>().is_ok().then_some(inside);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (!host.is_empty() && host.chars().all(is_name)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_open_to_this_machine_only() {
        let listen = |host: &str, port| Ok(Listen { host: host.to_owned(), port });
        assert_eq!(Listen::parse("18726"), listen("127.0.0.1", 18726));
        assert_eq!(Listen::parse("0.0.0.0:80"), listen("0.0.0.0", 80));
        assert_eq!(Listen::parse("[::1]:0"), listen("::1", 0));
        assert_eq!(Listen::parse("gpu-01.cluster:9"), listen("gpu-01.cluster", 9));
        assert_eq!(Listen::parse("18726"), Ok(Listen::default()));
    }

    #[test]
    fn the_default_port_is_that_of_no_known_exporter_and_no_outgoing_connection() {
        assert!(!(9090..=9999).contains(&PORT) && PORT < 32_768);
    }

    #[test]
    fn anything_else_is_refused_with_examples() {
        for text in ["", "x", "+5", "65536", "a/b:9400", "host:", ":9400", "[::1", "::1:9400"] {
            let error = Listen::parse(text).expect_err(text);
            assert!(error.contains("0.0.0.0:18726"), "{text:?}: {error}");
        }
    }
}
