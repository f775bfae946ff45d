//! Reading a RUN: a tape or another tool's file, distinguished by content.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use replay::import::RunLimits;
use replay::tape::{Device, Tape};
use replay::verify::{RecordedRun, recorded_plan};
use trace_format::{EndKind, utc};

use crate::caller;
use crate::progress::Spinner;

/// The flag of every verb that reads runs.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct TrustFlag {
    /// Accept files that hold N times more than is expected of their size
    #[arg(long = "trust-factor", value_name = "N", default_value_t = 1)]
    factor: u64,
}

impl TrustFlag {
    /// The flag's number.
    pub(crate) fn factor(self) -> u64 {
        self.factor
    }

    /// `known`, with the flag's number.
    pub(crate) fn with(self, known: &RunLimits) -> RunLimits {
        RunLimits { trust_factor: self.factor, ..*known }
    }
}

/// Reads a run, and warns where part of it is missing.
pub(crate) fn read(path: &Path, known: &RunLimits) -> Result<Tape> {
    let reading = Spinner::start(&format!("reading {}", path.display()));
    let tape = Tape::open(path, known)?;
    drop(reading);
    warn_of(path, &tape);
    Ok(tape)
}

/// The same, where others are read meanwhile and one bar shows them all.
pub(crate) fn read_among_others(path: &Path, known: &RunLimits) -> Result<Tape> {
    let tape = Tape::open(path, known)?;
    warn_of(path, &tape);
    Ok(tape)
}

/// Warns where part of a run is missing.
pub(crate) fn warn_of(path: &Path, tape: &Tape) {
    if tape.recovery.torn.is_some() {
        caller::warn(&format!("{}: {}", path.display(), tape.recovery));
    }
    let failed = tape.meta.end.as_ref().filter(|end| end.kind == EndKind::TapeFailed);
    if let Some(end) = failed {
        let lost: u64 = tape.devices.iter().map(|device| device.lost).sum();
        let at = end.time_ns.map_or_else(String::new, |time_ns| format!(", at {}", utc(time_ns)));
        caller::warn(&format!(
            "{}: the tape ended early{at}: {}; {lost} records after that are not on it",
            path.display(),
            end.detail
        ));
    }
    // Behind the end of such a tape is no gap.
    let is_gap = |device: &&Device| failed.is_none() || device.left_out > 0;
    for gap in tape.devices.iter().filter(is_gap).filter_map(gap) {
        caller::warn(&format!("{}: {gap}", path.display()));
    }
}

/// Warns where a replay under the recorded settings lacks the run's plan.
pub(crate) fn warn_of_plan(tape: &Tape) {
    if let Some(Err(error)) = recorded_plan(tape) {
        caller::warn(&format!(
            "{error}; the run followed it: put the plan there, else its replay has other placements"
        ));
    }
}

/// Losses in a device's records.
fn gap(device: &Device) -> Option<String> {
    let Device { id, lost, left_out, records, .. } = device;
    (*lost > 0).then(|| {
        format!(
            "device {id}: {lost} records were lost while recording; using the longest part without a gap \
             ({} records, {left_out} left out). A larger ring_events loses less",
            records.len()
        )
    })
}

/// Reads a `--meta` file: what is known about a snapshot's run from outside it.
pub(crate) fn recorded(meta: Option<&Path>) -> Result<RecordedRun> {
    let Some(path) = meta else { return Ok(RecordedRun::default()) };
    let context = || {
        format!(
            "cannot use --meta {}: it has to be the JSON object of a recorded run",
            path.display()
        )
    };
    RecordedRun::from_json(&fs::read(path).with_context(context)?).with_context(context)
}
