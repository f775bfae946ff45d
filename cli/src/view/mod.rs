//! `vramtape view RUN...`: runs as one page that needs no network, or as a picture.

mod pictures;
mod serve;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use replay::ranks::{Found, find};
use replay::tape::Tape;
use serde::Serialize;
use viewer::{Page, Pattern, Source};

use crate::input::TrustFlag;
use crate::progress::Progress;
use crate::setting::Chosen;
use crate::{Verdict, bytes, input, output, page};
use pictures::{PictureFlags, WrittenPicture};

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
    /// Write no file: serve the page on this machine until Ctrl-C, for runs whose page is too large for one file
    #[arg(long, conflicts_with_all = ["output", "force", "picture"])]
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

/// Reads the runs and writes the page and the pictures, each whole or not at all, or serves the page.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let found = find(&options.runs)?;
    if options.serve {
        let listener = serve::listen(options.port.unwrap_or(0))?;
        let runs = Runs::read(&found, options)?;
        serve::serve(runs.page("computing the page")?.0, listener, options.json)?;
        return Ok(Verdict::Good);
    }
    let Options { pictures, force, json, .. } = options;
    let is_printed = options.output.as_deref() == Some(Path::new("-"));
    if *json && is_printed {
        bail!("--json and the page cannot both go to standard output: give -o a file");
    }
    let default = || default_page(&found.files[0]);
    let file = options.output.clone().or_else(|| (!pictures.is_given()).then(default));
    pictures.check(file.as_deref(), *force, *json)?;
    if let Some(file) = &file {
        output::check(file, *force)?;
    }
    let runs = Runs::read(&found, options)?;
    let pictures = if pictures.is_given() { runs.draw(pictures)? } else { Vec::new() };
    let page = file.map(|file| runs.write(file)).transpose()?;
    if is_printed || pictures.iter().any(WrittenPicture::is_on_standard_output) {
        return Ok(Verdict::Good);
    }
    let written =
        Written { page, devices: runs.devices().count(), records: runs.records(), pictures };
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

/// The runs of a page.
struct Runs {
    names: Vec<String>,
    tapes: Vec<Arc<Tape>>,
}

impl Runs {
    fn read(found: &Found, options: &Options) -> Result<Self> {
        let known = options.trust.with(&input::recorded(options.meta.as_deref())?.known());
        let tapes = found.files.iter().map(|path| Ok(Arc::new(input::read(path, &known)?)));
        Ok(Self { names: found.names(), tapes: tapes.collect::<Result<_>>()? })
    }

    fn records(&self) -> u64 {
        self.tapes.iter().map(|tape| tape.records_len()).sum()
    }

    /// The devices of all runs, each with its run's name.
    fn devices(&self) -> impl Iterator<Item = (&String, Chosen)> {
        self.names.iter().zip(&self.tapes).flat_map(|(name, tape)| {
            let places = 0..tape.devices.len();
            places.map(move |place| (name, Chosen::as_recorded(tape, place)))
        })
    }

    /// The page, and the parts of training steps for each device.
    fn page(&self, task: &'static str) -> Result<(Page, Vec<Vec<Pattern>>)> {
        let progress = Progress::start(task, page::PASSES * self.records());
        let at = |records| progress.add(records);
        let devices = self.devices().map(|(name, chosen)| page::device(name, &chosen, &at));
        let devices: Vec<_> = devices.collect::<Result<_, _>>()?;
        let patterns = devices.iter().map(|device| device.patterns.clone()).collect();
        Ok((page::page(&self.names[0], devices), patterns))
    }

    fn write(&self, output: PathBuf) -> Result<WrittenPage> {
        let (page, patterns) = self.page("writing the page")?;
        let page_bytes = if output == Path::new("-") {
            page::write_to(&page, &mut io::stdout().lock())?;
            0
        } else {
            page::write(&page, &output)?
        };
        Ok(WrittenPage { output, page_bytes, patterns })
    }

    fn draw(&self, pictures: &PictureFlags) -> Result<Vec<WrittenPicture>> {
        let runs = self.names.iter().zip(&self.tapes);
        let sources: Vec<_> = runs
            .flat_map(|(run, tape)| {
                let source = move |device| Source { run, tape, device, facts: &[] };
                tape.devices.iter().map(source)
            })
            .collect();
        pictures.write(&self.names[0], &sources, self.records())
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
