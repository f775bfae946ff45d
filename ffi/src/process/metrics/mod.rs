//! Metrics in Prometheus' text format, for those who ask: an endpoint of this process, or a file
//! that node exporter reads. Nothing of it runs unless `metrics` is in `VRAMTAPE_CONF`.

mod caller;
mod collect;
mod endpoint;
mod family;
mod host;
mod http;
mod render;
mod text_file;

use std::{env, process};

use settings::{MetricsTarget, PortOffset};

use super::Process;
use endpoint::Endpoint;
use text_file::TextFile;

/// The exporter of the process's metrics.
pub(super) enum Metrics {
    Endpoint(Endpoint),
    File(TextFile),
}

impl Process {
    /// Starts the export, if one is asked for and none runs. What keeps it from starting is a
    /// warning: a port that is taken is no reason not to train.
    pub(super) fn start_metrics(&mut self) {
        // Asked for once: a warning shall not come with every device.
        let Some(target) = self.settings.metrics.take() else { return };
        let context = collect::Context {
            strategy: self.settings.strategy.name(),
            compat: self.config.compat.name(),
            rank: env::var("RANK").ok(),
        };
        self.metrics = match start(&target, context) {
            Ok(metrics) => Some(metrics),
            Err(problem) => {
                tracing::warn!("no metrics: {problem}");
                None
            }
        };
    }
}

impl Metrics {
    /// Writes the file for the last time; an endpoint answers until the process is gone. Not to be
    /// called with the process's lock held, which the export may be waiting for.
    pub(super) fn finish(self) {
        match self {
            Self::Endpoint(_) => {}
            Self::File(file) => file.finish(),
        }
    }

    /// Call in a forked child: the port and the file are the parent's.
    pub(super) fn after_fork_child(self) {
        match self {
            Self::Endpoint(endpoint) => endpoint.after_fork_child(),
            Self::File(file) => file.after_fork_child(),
        }
    }
}

fn start(target: &MetricsTarget, context: collect::Context) -> Result<Metrics, String> {
    match target {
        MetricsTarget::Endpoint { host, port, offset } => {
            let variable = offset.map(|offset| match offset {
                PortOffset::Rank => "RANK",
                PortOffset::LocalRank => "LOCAL_RANK",
            });
            let port = port_of_process(*port, variable, |name| env::var(name).ok())?;
            Ok(Metrics::Endpoint(Endpoint::start(host, port, context)?))
        }
        MetricsTarget::File(path) => {
            let rank = context.rank.as_deref();
            let (path, labels) =
                (path.expand(rank, process::id())?, path.labels(rank, process::id())?);
            Ok(Metrics::File(TextFile::start(path.into(), labels, context)?))
        }
    }
}

/// The port of this process of its job.
fn port_of_process(
    first: u16,
    variable: Option<&str>,
    read: impl Fn(&str) -> Option<String>,
) -> Result<u16, String> {
    let Some((name, text)) = variable.and_then(|name| Some((name, read(name)?))) else {
        return Ok(first);
    };
    let port = text.parse().ok().and_then(|number| first.checked_add(number));
    port.ok_or_else(|| format!("{first} and {name}, which is {text:?}, make no port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_of_a_job_has_its_port() {
        let rank = |text: &str| {
            let text = text.to_owned();
            port_of_process(9400, Some("RANK"), move |name| (name == "RANK").then(|| text.clone()))
        };
        assert_eq!(rank("3"), Ok(9403));
        assert_eq!(port_of_process(9400, Some("RANK"), |_| None), Ok(9400), "no job at all");
        assert_eq!(port_of_process(9400, None, |_| Some("3".to_owned())), Ok(9400));
        for text in ["65000", "-1", "x", ""] {
            assert!(rank(text).unwrap_err().contains("make no port"), "{text:?}");
        }
    }
}
