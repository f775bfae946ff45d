//! `vramtape explain --message`: the cause of an out of memory, from the message that a program printed.

mod text;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use replay::message::read;

use crate::input::TrustFlag;
use crate::progress::Spinner;
use crate::{Verdict, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Read the message, or a log of any size with messages in it; - or no FILE is standard input
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    message: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustFlag,
}

/// Reads the text once; good where it has a message.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let Some(path) = &options.message else {
        bail!(
            "explain reads out-of-memory messages: pass --message FILE, or --message and the text on standard input. \
             For a recorded run use `vramtape waste RUN`"
        );
    };
    if path == Path::new("-") && io::stdin().is_terminal() {
        eprintln!("paste the message, then press Ctrl-D");
    }
    let reading = Spinner::start(&format!("reading {}", path.display()));
    let report = read(path, options.trust.factor())?;
    drop(reading);
    let verdict = if report.messages.is_empty() { Verdict::Bad } else { Verdict::Good };
    output::print_report(options.json, &report, || text::text(&report))?;
    Ok(verdict)
}
