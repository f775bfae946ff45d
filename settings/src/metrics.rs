//! The destination of metrics: an address that Prometheus scrapes, or a file that node exporter reads.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;

use core::net::Ipv6Addr;

use super::tape_path::{check_placeholders, expand_rank};

/// Where metrics go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsTarget {
    /// An HTTP endpoint of this process.
    Endpoint {
        /// A name or an address, an IPv6 address without its brackets.
        host: String,
        /// The port, or the first of the ports of a job's processes.
        port: u16,
        /// The process number that is added to the port.
        offset: Option<PortOffset>,
    },
    /// A file in Prometheus' text format.
    File(MetricsPath),
}

/// A path with `{rank}` and `{pid}` in it, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsPath(String);

/// The process number that is added to the port, so that the processes of a job have different ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortOffset {
    /// `RANK`: the process's number in the job.
    Rank,
    /// `LOCAL_RANK`: its number on this machine.
    LocalRank,
}

/// The default host: only programs on this machine can connect.
const HOST: &str = "127.0.0.1";

const OFFSETS: [(&str, PortOffset); 2] =
    [("{rank}", PortOffset::Rank), ("{local_rank}", PortOffset::LocalRank)];

impl MetricsTarget {
    /// Reads a target: what ends in `.prom` is a file, all else `port` or `host:port`.
    ///
    /// # Errors
    /// The fault and its remedy, if it cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, (String, String)> {
        if text.strip_suffix(".prom").is_some() {
            check_placeholders(text, &["rank", "pid"], "a metrics file's path")?;
            return Ok(Self::File(MetricsPath(text.to_owned())));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port),
            None => (HOST, text),
        };
        let (port, offset) = match port.split_once('+') {
            Some((port, name)) => {
                let found = OFFSETS.iter().find(|(known, _)| *known == name);
                (port, Some(found.ok_or_else(|| refused(text))?.1))
            }
            None => (port, None),
        };
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port > 0);
        match (bare_host(host), port) {
            (Some(host), Some(port)) => Ok(Self::Endpoint { host: host.to_owned(), port, offset }),
            _ => Err(refused(text)),
        }
    }
}

impl MetricsPath {
    /// The path of one process, whose `RANK` is `rank`.
    ///
    /// # Errors
    /// Where the path has a `{rank}` that is no number.
    pub fn expand(&self, rank: Option<&str>, pid: u32) -> Result<String, String> {
        Ok(expand_rank(&self.0, rank)?.replace("{pid}", &pid.to_string()))
    }

    /// The placeholders' names and values: labels that distinguish this file's values from those of
    /// other processes.
    ///
    /// # Errors
    /// As for [`expand`](Self::expand).
    pub fn labels(
        &self,
        rank: Option<&str>,
        pid: u32,
    ) -> Result<Vec<(&'static str, String)>, String> {
        let mut labels = Vec::new();
        if self.0.contains("{rank}") {
            labels.push(("rank", expand_rank("{rank}", rank)?));
        }
        if self.0.contains("{pid}") {
            labels.push(("pid", pid.to_string()));
        }
        Ok(labels)
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

fn refused(text: &str) -> (String, String) {
    let message = format!("{text:?} is neither an address nor a file whose name ends in .prom");
    let advice = "write metrics:9400, metrics:0.0.0.0:9400, metrics:9400+{local_rank} or \
                  metrics:/path/vramtape-{rank}.prom";
    (message, advice.to_owned())
}

#[cfg(test)]
mod tests {
    use std::borrow::ToOwned;

    use super::*;

    fn endpoint(text: &str) -> (String, u16, Option<PortOffset>) {
        match MetricsTarget::parse(text).unwrap() {
            MetricsTarget::Endpoint { host, port, offset } => (host, port, offset),
            MetricsTarget::File(_) => panic!("{text} is a file"),
        }
    }

    #[test]
    fn a_port_alone_is_open_to_this_machine_only() {
        assert_eq!(endpoint("9400"), ("127.0.0.1".to_owned(), 9400, None));
        assert_eq!(endpoint("0.0.0.0:80"), ("0.0.0.0".to_owned(), 80, None));
        assert_eq!(endpoint("[::1]:9400"), ("::1".to_owned(), 9400, None));
    }

    #[test]
    fn the_processes_of_a_job_have_ports_of_their_own() {
        let local = Some(PortOffset::LocalRank);
        assert_eq!(endpoint("9400+{local_rank}"), ("127.0.0.1".to_owned(), 9400, local));
        assert_eq!(endpoint("node:1+{rank}"), ("node".to_owned(), 1, Some(PortOffset::Rank)));
    }

    #[test]
    fn a_name_that_ends_in_prom_is_a_file() {
        let Ok(MetricsTarget::File(path)) = MetricsTarget::parse("/x:9/{rank}.prom") else {
            panic!("it is no file");
        };
        assert_eq!(path.expand(Some("3"), 77).unwrap(), "/x:9/3.prom");
        assert_eq!(path.labels(Some("3"), 77).unwrap(), [("rank", "3".to_owned())]);
        assert!(path.expand(Some("../3"), 77).expect_err("a way out").contains("RANK"));
    }

    #[test]
    fn anything_else_is_refused_with_a_remedy() {
        for text in [
            "",
            "x",
            "0",
            "+5",
            "65536",
            "9400+1",
            "9400+{pid}",
            "a/b:9400",
            "host:",
            ":9400",
            "/tmp/vramtape.txt",
            "{host}.prom",
            "{rank.prom",
        ] {
            let (_, advice) = MetricsTarget::parse(text).expect_err(text);
            assert!(advice.contains("{rank}"), "{text:?}: {advice}");
        }
    }
}
