//! `vramtape check SNAPSHOT`: whether PyTorch's viewer and tools can read a snapshot.

use std::path::PathBuf;

use anyhow::{Context, Result};
use replay::check::{Demand, check};
use replay::import::INPUT_BYTES_MAX;
use replay::source::read_all;
use serde::Serialize;

use crate::{Verdict, bytes, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A memory snapshot, pickle or JSON; - is standard input
    #[arg(value_name = "SNAPSHOT")]
    snapshot: PathBuf,
    /// Also ask for what only some readers use, as our own snapshots have it
    #[arg(long)]
    complete: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    good: bool,
    faults_total: u64,
    /// The first hundred.
    faults: Vec<Fault>,
    devices: Vec<Span>,
}

#[derive(Serialize)]
struct Fault {
    place: String,
    rule: String,
    what: String,
}

#[derive(Serialize)]
struct Span {
    device: usize,
    events: usize,
    start_reserved_bytes: u64,
    end_reserved_bytes: u64,
}

/// Checks and reports.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let content = read_all(&options.snapshot, INPUT_BYTES_MAX)?;
    let demand = if options.complete { Demand::Complete } else { Demand::Readable };
    let checked = check(&content, demand).with_context(|| {
        format!("{} is no snapshot of torch.cuda.memory._dump_snapshot", options.snapshot.display())
    })?;
    let fault = |fault: &replay::check::Fault| Fault {
        place: fault.place.clone(),
        rule: fault.rule.to_string(),
        what: fault.what.clone(),
    };
    let span = |span: &replay::check::Span| Span {
        device: span.device,
        events: span.events,
        start_reserved_bytes: span.start_reserved_bytes,
        end_reserved_bytes: span.end_reserved_bytes,
    };
    let report = Report {
        good: checked.is_good(),
        faults_total: checked.faults.total(),
        faults: checked.faults.first().iter().map(fault).collect(),
        devices: checked.spans.iter().map(span).collect(),
    };
    if options.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report))?;
    }
    Ok(if report.good { Verdict::Good } else { Verdict::Bad })
}

fn text(report: &Report) -> String {
    let verdict = match report.faults_total {
        0 => "good".to_owned(),
        total => format!("{total} faults"),
    };
    let devices = report.devices.iter().map(|span| {
        let (start, end) =
            (bytes::show(span.start_reserved_bytes), bytes::show(span.end_reserved_bytes));
        format!(
            "device {}: {} events, reserved {start} before and {end} after them",
            span.device, span.events
        )
    });
    let faults = report
        .faults
        .iter()
        .map(|fault| format!("{}: {}: {}", fault.place, fault.rule, fault.what));
    let lines: Vec<_> = std::iter::once(verdict).chain(devices).chain(faults).collect();
    lines.join("\n") + "\n"
}
