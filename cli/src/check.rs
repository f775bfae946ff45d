//! `vramtape check SNAPSHOT`: whether PyTorch's viewer and tools can read a snapshot.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use replay::check::{Demand, FaultGroup, check_within};
use replay::import::Known;
use replay::pickle::Limits;
use replay::source::{Input, read_all};
use replay::tape::Tape;
use serde::Serialize;

use crate::input::TrustFlag;
use crate::{Verdict, bytes, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A memory snapshot, pickle or JSON; - is standard input
    #[arg(value_name = "SNAPSHOT")]
    snapshot: PathBuf,
    /// Also require the fields that only some readers use; vramtape's own snapshots have them
    #[arg(long)]
    complete: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustFlag,
}

#[derive(Serialize)]
struct Report {
    good: bool,
    faults_total: u64,
    /// Faults that differ in nothing but numbers, together.
    groups: Vec<Group>,
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
struct Group {
    rule: String,
    what: String,
    count: u64,
    /// The first few.
    places: Vec<String>,
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
    let factor = options.trust.with(&Known::default()).trust_factor;
    if options.snapshot != Path::new("-")
        && let Some(tape) = Tape::open_recorded(&options.snapshot, factor)?
    {
        drop(tape);
        let name = options.snapshot.display();
        bail!(
            "{name} is a tape, and check is for snapshots: `vramtape info {name}` says whether a tape is whole, \
             `vramtape export {name} -o FILE.pickle` makes a snapshot of it"
        );
    }
    let Input { bytes, stored_bytes } = read_all(&options.snapshot, factor)?;
    let limits = Limits::of_file(stored_bytes, factor);
    let demand = if options.complete { Demand::Complete } else { Demand::Readable };
    let checked = check_within(&bytes, limits, demand).with_context(|| {
        format!("{} is no snapshot of torch.cuda.memory._dump_snapshot", options.snapshot.display())
    })?;
    let fault = |fault: &replay::check::Fault| Fault {
        place: fault.place.clone(),
        rule: fault.rule.to_string(),
        what: fault.what.clone(),
    };
    let group = |group: &FaultGroup| Group {
        rule: group.first.rule.to_string(),
        what: group.first.what.clone(),
        count: group.count,
        places: std::iter::once(&group.first.place).chain(&group.more_places).cloned().collect(),
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
        groups: checked.faults.groups().iter().map(group).collect(),
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
        1 => "1 fault".to_owned(),
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
    let faults = report.groups.iter().map(|Group { rule, what, count, places }| match count {
        1 => format!("{}: {rule}: {what}", places[0]),
        count => {
            let more = if *count > places.len() as u64 { ", ..." } else { "" };
            format!("{count} times: {rule}: {what}\n  at {}{more}", places.join(", "))
        }
    });
    let lines: Vec<_> = std::iter::once(verdict).chain(devices).chain(faults).collect();
    lines.join("\n") + "\n"
}
