//! `vramtape explain RUN` and `vramtape explain --message`: the cause of an out of memory.

mod host;
mod message_text;
mod of_run;
mod run_text;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use replay::explain::At;
use replay::message::read;

use crate::progress::Spinner;
use crate::setting::MachineFlags;
use crate::strategy::StrategyFlag;
use crate::{Verdict, output};
pub(crate) use of_run::explained;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A tape or a snapshot
    #[arg(value_name = "RUN")]
    run: Option<PathBuf>,
    /// Explain a message instead: read it, or a log of any size with messages in it; - or no FILE is standard input
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    message: Option<PathBuf>,
    /// Which moment of RUN: oom, peak, last, the number of a record, or a time since the first such as 1500ms
    /// [default: oom where memory was out, else peak]
    #[arg(long, value_name = "MOMENT")]
    at: Option<At>,
    #[command(flatten)]
    machine: MachineFlags,
    /// How requests become placements: native, expandable or stitch [default: as recorded]
    #[arg(long, value_name = "NAME[:SETTINGS]")]
    strategy: Option<StrategyFlag>,
    /// Settings as in PYTORCH_CUDA_ALLOC_CONF; empty is PyTorch's defaults [default: as recorded]
    #[arg(long, value_name = "SETTINGS")]
    config: Option<String>,
    /// Write the page of `view` with the explanation, and the pinning set where it lies; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "message")]
    html: Option<PathBuf>,
    /// Replace the file of --html if it is there
    #[arg(short, long, requires = "html")]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Explains the run or the text.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    match (&options.run, &options.message) {
        (Some(run), None) => of_run::run(options, run),
        (None, Some(path)) => of_message(options, path),
        (Some(_), Some(_)) => {
            bail!("explain takes a RUN or --message, not both: leave out one of them")
        }
        (None, None) => bail!(
            "explain takes a tape or a snapshot: name RUN. For an out-of-memory message pass --message FILE, or \
             --message and the text on standard input"
        ),
    }
}

/// Reads the text once; good where it has a message.
fn of_message(options: &Options, path: &Path) -> Result<Verdict> {
    if path == Path::new("-") && io::stdin().is_terminal() {
        eprintln!("paste the message, then press Ctrl-D");
    }
    let reading = Spinner::start(&format!("reading {}", path.display()));
    let report = read(path, options.machine.trust_factor())?;
    drop(reading);
    let verdict = if report.messages.is_empty() { Verdict::Bad } else { Verdict::Good };
    output::print_report(options.json, &report, || message_text::text(&report))?;
    Ok(verdict)
}
