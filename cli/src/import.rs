//! `vramtape import FILE -o RUN.vtape`: another tool's file as a tape.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use replay::tape::Tape;
use serde::Serialize;
use trace_format::{Source, Writer};

use crate::input::TrustFlag;
use crate::output::{self, OutputFlags};
use crate::{Verdict, input};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A snapshot of torch.cuda.memory._dump_snapshot, a log of RMM or a problem of minimalloc (also
    /// .zst or .gz)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// JSON with the run's device_total_bytes and fraction, which a snapshot does not hold
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

#[derive(Serialize)]
struct Report<'a> {
    output: &'a Path,
    devices: usize,
    records: u64,
    inferred: &'a [String],
}

/// Imports and writes.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let output = options.output.output.as_path();
    let to_stdout = output == Path::new("-");
    if to_stdout && options.json {
        bail!("--json and the tape cannot both go to standard output: give -o a file");
    }
    options.output.check()?;
    let tape = input::read(
        &options.file,
        &options.trust.with(&input::recorded(options.meta.as_deref())?.known()),
    )?;
    if tape.meta.source != Source::Imported {
        bail!("{} is a tape already: use it as it is", options.file.display());
    }
    if to_stdout {
        let stdout = std::io::stdout().lock();
        drop(tape.write(Writer::new(stdout, "standard output", &tape.meta)?)?);
        return Ok(Verdict::Good);
    }
    tape.write(Writer::create(output, &tape.meta)?)?;
    let report = Report {
        output,
        devices: tape.devices.len(),
        records: tape.records_len(),
        inferred: &tape.meta.inferred,
    };
    if options.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report, &tape))?;
    }
    Ok(Verdict::Good)
}

fn text(report: &Report<'_>, tape: &Tape) -> String {
    let name = report.output.display();
    let inferred = tape.meta.inferred.iter().map(|what| format!("inferred: {what}\n"));
    let head = format!("{name}: {} records of {} devices\n", report.records, report.devices);
    let next = format!("next: vramtape compare {name}\n");
    std::iter::once(head).chain(inferred).chain([next]).collect()
}
