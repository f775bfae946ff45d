//! A tape that a verb makes of a run: read, write, report.

use std::io::stdout;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use replay::tape::Tape;
use serde::Serialize;
use trace_format::Writer;

use crate::Verdict;
use crate::input::{self, TrustFlag};
use crate::output::{self, OutputFlags};

/// The flags of every verb that makes a tape of a run.
#[derive(clap::Args)]
pub(crate) struct TapeFlags {
    /// JSON with values that a snapshot does not hold: torch, device_total_bytes, fraction
    #[arg(long, value_name = "META.json")]
    meta: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustFlag,
}

impl TapeFlags {
    /// Where the tape goes. Fails before any work is done if it cannot go there.
    pub(crate) fn check(&self) -> Result<&Path> {
        if self.is_to_stdout() && self.json {
            bail!("--json and the tape cannot both go to standard output: give -o a file");
        }
        self.output.check()?;
        Ok(&self.output.output)
    }

    /// Reads the run.
    pub(crate) fn read(&self, run: &Path) -> Result<Tape> {
        input::read(run, &self.trust.with(&input::recorded(self.meta.as_deref())?.known()))
    }

    /// Writes the tape and, unless it is on standard output, prints the report.
    pub(crate) fn write(
        &self,
        tape: &Tape,
        report: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<Verdict> {
        if self.is_to_stdout() {
            drop(tape.write(Writer::new(stdout().lock(), "standard output", &tape.meta)?)?);
        } else {
            tape.write(Writer::create(&self.output.output, &tape.meta)?)?;
            output::print_report(self.json, report, text)?;
        }
        Ok(Verdict::Good)
    }

    fn is_to_stdout(&self) -> bool {
        self.output.output == Path::new("-")
    }
}
