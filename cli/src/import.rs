//! `vramtape import FILE -o RUN.vtape`: another tool's file as a tape.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use replay::tape::Tape;
use serde::Serialize;
use trace_format::Source;

use crate::Verdict;
use crate::tape_file::TapeFlags;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A snapshot of torch.cuda.memory._dump_snapshot, a log of RMM or a problem of minimalloc (also
    /// .zst or .gz)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    tape: TapeFlags,
}

#[derive(Serialize)]
struct Report<'a> {
    output: &'a Path,
    devices: usize,
    records: u64,
    inferred: &'a [String],
}

/// Imports and writes.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let output = options.tape.check()?;
    let tape = options.tape.read(&options.file)?;
    if tape.meta.source != Source::Imported {
        bail!("{} is a tape already: use it as it is", options.file.display());
    }
    let report = Report {
        output,
        devices: tape.devices.len(),
        records: tape.records_len(),
        inferred: &tape.meta.inferred,
    };
    options.tape.write(&tape, &report, || text(&report, &tape))
}

fn text(report: &Report<'_>, tape: &Tape) -> String {
    let name = report.output.display();
    let inferred = tape.meta.inferred.iter().map(|what| format!("inferred: {what}\n"));
    let head = format!("{name}: {} records of {} devices\n", report.records, report.devices);
    let next = format!("next: vramtape compare {name}\n");
    std::iter::once(head).chain(inferred).chain([next]).collect()
}
