//! `vramtape view RUN...`: runs as one page that needs no network.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use replay::import::RunLimits;
use replay::tape::Tape;
use serde::Serialize;
use trace_format::Commit;
use viewer::PageRun;

use crate::input::TrustFlag;
use crate::progress::Progress;
use crate::{Verdict, bytes, info, input, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Tapes, snapshots or logs
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// The page [default: the name of the first run with .html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustFlag,
}

#[derive(Serialize)]
struct Written {
    page: PathBuf,
    page_bytes: u64,
    runs: usize,
    devices: usize,
    records: u64,
}

/// Reads the runs and writes the page, whole or not at all.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let known = options.trust.with(&RunLimits::default());
    let tapes: Vec<Tape> =
        options.runs.iter().map(|path| input::read(path, &known)).collect::<Result<_>>()?;
    let page = options.output.clone().unwrap_or_else(|| default_page(&options.runs[0]));
    let runs = options.runs.iter().zip(&tapes);
    let runs: Vec<_> = runs
        .map(|(path, tape)| PageRun { name: name(path), tape, facts: info::facts(&tape.meta) })
        .collect();
    let records = tapes.iter().map(Tape::records_len).sum();
    let progress = Progress::start("writing the page", records);
    let cannot = || format!("cannot write {}", page.display());
    let (file, commit) = Commit::begin(&page).with_context(cannot)?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let title = format!("{} - vramtape", runs[0].name);
    viewer::write(&mut file, &title, &runs, |done| progress.at(done))?;
    file.flush().with_context(cannot)?;
    drop(file);
    commit.finish().with_context(cannot)?;
    drop(progress);
    let page_bytes = std::fs::metadata(&page).with_context(cannot)?.len();
    let devices = tapes.iter().map(|tape| tape.devices.len()).sum();
    let written = Written { page, page_bytes, runs: runs.len(), devices, records };
    if options.json {
        output::print_json(&written)?;
    } else {
        let Written { page, page_bytes, records, .. } = &written;
        let size = bytes::show(*page_bytes);
        output::print(&format!("{records} records, {size}: open {}\n", page.display()))?;
    }
    Ok(Verdict::Good)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// `run.vtape` becomes `run.html`.
fn default_page(run: &Path) -> PathBuf {
    let name = name(run);
    let stem = name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or("run");
    PathBuf::from(format!("{}.html", if stem == "-" { "run" } else { stem }))
}
