//! `vramtape view RUN...`: runs as one page that needs no network.

mod serve;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use replay::ranks::{Found, find};
use replay::tape::Tape;
use serde::Serialize;
use trace_format::Commit;
use viewer::{Page, PageRun, Pattern};

use crate::input::TrustFlag;
use crate::progress::Progress;
use crate::{Verdict, bytes, info, input, output};

/// Bytes of the page that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

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
struct Written<'a> {
    output: &'a Path,
    page_bytes: u64,
    devices: usize,
    records: u64,
    /// The parts of training steps, for each device.
    patterns: &'a [Vec<Pattern>],
}

/// Reads the runs and writes the page, whole or not at all, or serves it.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let found = find(&options.runs)?;
    if options.serve {
        let listener = serve::listen(options.port.unwrap_or(0))?;
        let page = Runs::read(&found, options)?.page("computing the page")?;
        serve::serve(page, listener, options.json)?;
        return Ok(Verdict::Good);
    }
    if options.json && options.output.as_deref() == Some(Path::new("-")) {
        bail!("--json and the page cannot both go to standard output: give -o a file");
    }
    let file = options.output.clone().unwrap_or_else(|| default_page(&found.files[0]));
    output::check(&file, options.force)?;
    let runs = Runs::read(&found, options)?;
    let put = |out: &mut dyn Write| -> Result<Page> {
        let page = runs.page("writing the page")?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
        page.write(&mut out)?;
        out.flush()?;
        Ok(page)
    };
    if file == Path::new("-") {
        put(&mut io::stdout().lock())?;
        return Ok(Verdict::Good);
    }
    let cannot = || format!("cannot write {}", file.display());
    let (mut to, commit) = Commit::begin(&file).with_context(cannot)?;
    let page = put(&mut to).with_context(cannot)?;
    drop(to);
    commit.finish().with_context(cannot)?;
    let page_bytes = fs::metadata(&file).with_context(cannot)?.len();
    let (records, size) = (runs.records(), bytes::show(page_bytes));
    let text = format!("{}: {records} records in {size}; open it in a browser\n", file.display());
    let patterns = page.patterns();
    let written = Written { output: &file, page_bytes, devices: patterns.len(), records, patterns };
    output::print_report(options.json, &written, || text)?;
    Ok(Verdict::Good)
}

/// The runs of a page.
struct Runs {
    names: Vec<String>,
    tapes: Vec<Tape>,
}

impl Runs {
    fn read(found: &Found, options: &Options) -> Result<Self> {
        let known = options.trust.with(&input::recorded(options.meta.as_deref())?.known());
        let tapes = found.files.iter().map(|path| input::read(path, &known));
        Ok(Self { names: found.names(), tapes: tapes.collect::<Result<_>>()? })
    }

    fn records(&self) -> u64 {
        self.tapes.iter().map(Tape::records_len).sum()
    }

    fn page(&self, task: &'static str) -> Result<Page> {
        let runs = self.names.iter().zip(&self.tapes).map(|(name, tape)| {
            let facts = info::facts(&tape.meta);
            PageRun { name: name.clone(), tape, facts }
        });
        let runs: Vec<PageRun<'_>> = runs.collect();
        let title = format!("{} - vramtape", runs[0].name);
        let progress = Progress::start(task, self.records());
        Ok(Page::new(&title, &runs, |done| progress.at(done))?)
    }
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
