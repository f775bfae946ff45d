//! `vramtape exporter`: the statistics of all processes that record on this machine, for Prometheus.
//!
//! It reads the rings of those processes, which do nothing for it: no server, thread or file of it is in a training
//! process.

mod family;
mod host;
mod listen;
mod metrics;
mod render;
mod rings;
mod text_file;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::http::{Listener, Server, on_signals};
use crate::rings::RingFolder;
use crate::{Verdict, output};
use listen::Listen;
use metrics::Metrics;
use rings::RingTable;
use text_file::TextFile;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Address and port to listen on; without the address, this machine only [default: 127.0.0.1:18726, and with
    /// --textfile none]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = Listen::parse)]
    listen: Option<Listen>,
    /// Write a file for node exporter's textfile collector, which is removed at the end
    #[arg(long, value_name = "PATH.prom", value_parser = text_file::path)]
    textfile: Option<PathBuf>,
    /// Seconds between two texts of the file
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    interval: Duration,
    /// Print the metrics once, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    rings: RingFolder,
}

/// Serves until a signal ends it.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let mut rings = RingTable::new(options.rings.path());
    if options.json {
        output::print_json(&render::json(&render::families(&rings.devices())))?;
        return Ok(Verdict::Good);
    }
    let listen = match (&options.listen, &options.textfile) {
        (None, Some(_)) => None,
        (listen, _) => Some(listen.clone().unwrap_or_default()),
    };
    let bind = |Listen { host, port }: &Listen| Listener::bind(host, *port, "--listen");
    let listener = listen.as_ref().map(bind).transpose()?;
    let stop = on_signals().context("cannot listen to Ctrl-C")?;
    if let Some(listener) = &listener {
        eprintln!("metrics: http://{}/metrics", listener.address()?);
    }
    let text_file = options.textfile.clone().map(|path| TextFile::new(path, options.interval));
    let host = listen.map(|listen| listen.host).unwrap_or_default();
    let mut server = Server { listener, service: Metrics { rings, host, text_file }, stop };
    server.run();
    server.service.end();
    Ok(Verdict::Good)
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds from 0.1 to 3600".to_owned()),
    }
}
