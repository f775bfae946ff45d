//! `vramtape view RUN...`: runs as one page that needs no network.

mod serve;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use replay::ranks::{Found, find};
use replay::tape::Tape;
use serde::Serialize;
use viewer::{PageDevice, Pattern};

use crate::input::TrustFlag;
use crate::progress::Progress;
use crate::setting::Chosen;
use crate::{Verdict, bytes, input, output, page};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Tapes, snapshots or logs, or folders of them
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Where to write; - is standard output [default: the name of the first run, with .html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(short, long)]
    force: bool,
    /// Write no file: serve the page on this machine until Ctrl-C, for runs whose page is too large for one file
    #[arg(long, conflicts_with_all = ["output", "force"])]
    serve: bool,
    /// Port to serve on [default: one that is free]
    #[arg(long, value_name = "N", requires = "serve")]
    port: Option<u16>,
    /// JSON with the run's device_total_bytes and fraction, which a snapshot does not hold
    #[arg(long, value_name = "META.json")]
    meta: Option<PathBuf>,
    /// Print JSON; with --serve, the URL
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustFlag,
}

#[derive(Serialize)]
struct Written {
    output: PathBuf,
    page_bytes: u64,
    devices: usize,
    records: u64,
    /// The parts of training steps, for each device.
    patterns: Vec<Vec<Pattern>>,
}

/// Reads the runs and writes the page, whole or not at all, or serves it.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let found = find(&options.runs)?;
    let title = found.names()[0].clone();
    if options.serve {
        let listener = serve::listen(options.port.unwrap_or(0))?;
        let (devices, _) = devices(&found, options, "computing the page")?;
        serve::serve(page::page(&title, devices), listener, options.json)?;
        return Ok(Verdict::Good);
    }
    if options.json && options.output.as_deref() == Some(Path::new("-")) {
        bail!("--json and the page cannot both go to standard output: give -o a file");
    }
    let file = options.output.clone().unwrap_or_else(|| default_page(&found.files[0]));
    output::check(&file, options.force)?;
    let (devices, records) = devices(&found, options, "writing the page")?;
    let (count, patterns) = (devices.len(), devices.iter().map(|it| it.patterns.clone()).collect());
    let page = page::page(&title, devices);
    if file == Path::new("-") {
        page::write_to(&page, &mut io::stdout().lock())?;
        return Ok(Verdict::Good);
    }
    let page_bytes = page::write(&page, &file)?;
    let size = bytes::show(page_bytes);
    let text = format!("{}: {records} records in {size}; open it in a browser\n", file.display());
    let written = Written { output: file, page_bytes, devices: count, records, patterns };
    output::print_report(options.json, &written, || text)?;
    Ok(Verdict::Good)
}

/// The data of all devices of the runs, and the number of records.
fn devices(found: &Found, options: &Options, task: &'static str) -> Result<(Vec<PageDevice>, u64)> {
    let known = options.trust.with(&input::recorded(options.meta.as_deref())?.known());
    let tapes = found.files.iter().map(|path| Ok(Arc::new(input::read(path, &known)?)));
    let tapes: Vec<Arc<Tape>> = tapes.collect::<Result<_>>()?;
    let records = tapes.iter().map(|tape| tape.records_len()).sum();
    let progress = Progress::start(task, page::PASSES * records);
    let of_run = |(name, tape): (&String, &Arc<Tape>)| {
        let device = |place| {
            let chosen = Chosen::as_recorded(tape, place);
            page::device(name, &chosen, &|records| progress.add(records))
        };
        (0..tape.devices.len()).map(device).collect::<Vec<_>>()
    };
    let devices = found.names().iter().zip(&tapes).flat_map(of_run).collect::<Result<_, _>>()?;
    Ok((devices, records))
}

/// `run.vtape` becomes `run.html`.
fn default_page(run: &Path) -> PathBuf {
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').find(|part| !part.is_empty() && *part != "-");
    PathBuf::from(format!("{}.html", stem.unwrap_or("run")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_name_of_its_run() {
        let named = |run: &str| default_page(Path::new(run)).display().to_string();
        assert_eq!(named("/tapes/run.vtape"), "run.html");
        assert_eq!(named("run.pickle.zst"), "run.html");
        assert_eq!(named("-"), "run.html");
    }
}
