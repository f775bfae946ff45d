//! By how much the peak falls when the blocks of one place of the code go: the second peak counts.

use rayon::prelude::*;
use serde::Serialize;
use trace_format::Record;

use super::blocks::{Live, Origins};
use crate::driver::{DriveError, Result};
use crate::edit::{requests_freed_early, requests_without};
use crate::report::Report;
use crate::run::{DeviceTape, Options, run};

/// Places of the code that are tried.
const GROUPS_MAX: usize = 3;

/// A place of the code, and the peaks of replays without its blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeakWithout {
    /// The code.
    pub code: String,
    /// Bytes of its blocks at the peak.
    pub allocated_bytes: u64,
    /// The peaks where it allocates nothing.
    pub dropped: Peaks,
    /// The peaks where its blocks are freed after their last recorded use.
    pub freed_early: Peaks,
}

/// The peaks of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Peaks {
    /// The most bytes alive at once.
    pub live_bytes: u64,
    /// The most bytes held from the device at once.
    pub reserved_bytes: u64,
}

impl Peaks {
    fn of(report: &Report) -> Self {
        let Report { peak_live_bytes, peak_reserved_bytes, .. } = *report;
        Self { live_bytes: peak_live_bytes, reserved_bytes: peak_reserved_bytes }
    }
}

/// The peaks of the whole run.
pub(super) fn peaks(tape: DeviceTape<'_>, options: &Options) -> Result<Peaks> {
    Ok(Peaks::of(&run(tape, options, |_| {})?))
}

/// The peaks without the largest places of the code; those without a stack are left out.
pub(super) fn peaks_without(
    tape: DeviceTape<'_>,
    options: &Options,
    live: &Live,
    origins: &Origins<'_>,
) -> Result<Vec<PeakWithout>> {
    let options = Options { recorded_addresses: false, ..options.clone() };
    let named = live.code.iter().map(|group| (group, origins.stacks_of(&group.name)));
    let named: Vec<_> =
        named.filter(|(_, stacks)| stacks.contains(&true)).take(GROUPS_MAX).collect();
    let options = &options;
    let of_group = |(group, stacks): (&super::LiveGroup, Vec<bool>)| {
        let replay = |records: &[Record]| {
            let text = |id| (tape.text)(id);
            peaks(DeviceTape { base: tape.base, records, text: &text }, options)
        };
        // One edited copy of the records at a time: groups are what runs in parallel.
        let dropped = replay(&requests_without(tape.records, stacks.clone()))?;
        let freed_early = replay(&requests_freed_early(tape.records, stacks))?;
        Ok(PeakWithout {
            code: group.name.clone(),
            allocated_bytes: group.allocated_bytes,
            dropped,
            freed_early,
        })
    };
    let found: Vec<Result<PeakWithout>> = named.into_par_iter().map(of_group).collect();
    let is_of_edit = |error: &DriveError| matches!(error, DriveError::TooMuch { .. });
    found.into_iter().filter(|it| !it.as_ref().is_err_and(is_of_edit)).collect()
}
