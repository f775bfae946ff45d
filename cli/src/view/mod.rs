//! `vramtape view RUN...`: runs as one page that needs no network, or as a picture.

mod pictures;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use replay::ranks::find;
use replay::tape::Tape;
use serde::Serialize;
use trace_format::Commit;
use viewer::{PageRun, Pattern};

use crate::input::TrustFlag;
use crate::progress::Progress;
use crate::{Verdict, bytes, info, input, output};
use pictures::{PictureFlags, WrittenPicture};

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
    #[command(flatten)]
    pictures: PictureFlags,
    /// Replace the file if it is there
    #[arg(short, long)]
    force: bool,
    /// JSON with the run's device_total_bytes and fraction, which a snapshot does not hold
    #[arg(long, value_name = "META.json")]
    meta: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustFlag,
}

#[derive(Serialize)]
struct Written {
    #[serde(flatten)]
    page: Option<WrittenPage>,
    devices: usize,
    records: u64,
    pictures: Vec<WrittenPicture>,
}

#[derive(Serialize)]
struct WrittenPage {
    output: PathBuf,
    page_bytes: u64,
    /// The parts of training steps, for each device.
    patterns: Vec<Vec<Pattern>>,
}

/// Reads the runs and writes the page and the pictures, each whole or not at all.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let found = find(&options.runs)?;
    let names = found.names();
    if options.json && options.output.as_deref() == Some(Path::new("-")) {
        bail!("--json and the page cannot both go to standard output: give -o a file");
    }
    let Options { pictures, force, json, .. } = options;
    let default = || default_page(&found.files[0]);
    let page = options.output.clone().or_else(|| (!pictures.is_given()).then(default));
    pictures.check(page.as_deref(), *force, *json)?;
    if let Some(page) = &page {
        output::check(page, *force)?;
    }
    let known = options.trust.with(&input::recorded(options.meta.as_deref())?.known());
    let tapes = found.files.iter().map(|path| input::read(path, &known));
    let tapes: Vec<Tape> = tapes.collect::<Result<_>>()?;
    let runs = names.iter().zip(&tapes).map(|(name, tape)| {
        let facts = info::facts(&tape.meta);
        PageRun { name: name.clone(), tape, facts }
    });
    let runs: Vec<PageRun<'_>> = runs.collect();
    let records = tapes.iter().map(Tape::records_len).sum();
    let devices = tapes.iter().map(|tape| tape.devices.len()).sum();
    let pictures = if pictures.is_given() { pictures.write(&runs, records)? } else { Vec::new() };
    let is_page_printed = page.as_deref() == Some(Path::new("-"));
    let page = page.map(|page| write_page(page, &runs, records)).transpose()?;
    if is_page_printed || pictures.iter().any(WrittenPicture::is_on_standard_output) {
        return Ok(Verdict::Good);
    }
    let written = Written { page, devices, records, pictures };
    output::print_report(*json, &written, || report(&written))?;
    Ok(Verdict::Good)
}

fn report(written: &Written) -> String {
    let page = written.page.as_ref().map(|page| {
        let (output, size) = (page.output.display(), bytes::show(page.page_bytes));
        format!("{output}: {} records in {size}; open it in a browser\n", written.records)
    });
    page.into_iter().chain(written.pictures.iter().map(WrittenPicture::line)).collect()
}

fn write_page(page: PathBuf, runs: &[PageRun<'_>], records: u64) -> Result<WrittenPage> {
    let title = format!("{} - vramtape", runs[0].name);
    let progress = Progress::start("writing the page", records);
    let put = |out: &mut dyn Write| -> Result<viewer::Written> {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
        let shown = viewer::write(&mut out, &title, runs, |done| progress.at(done))?;
        out.flush()?;
        Ok(shown)
    };
    if page == Path::new("-") {
        let viewer::Written { patterns } = put(&mut io::stdout().lock())?;
        return Ok(WrittenPage { output: page, page_bytes: 0, patterns });
    }
    let cannot = || format!("cannot write {}", page.display());
    let (mut file, commit) = Commit::begin(&page).with_context(cannot)?;
    let viewer::Written { patterns } = put(&mut file).with_context(cannot)?;
    drop(file);
    commit.finish().with_context(cannot)?;
    drop(progress);
    let page_bytes = fs::metadata(&page).with_context(cannot)?.len();
    Ok(WrittenPage { output: page, page_bytes, patterns })
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
