//! By how much the peak falls when the blocks of one place of the code go: the second peak counts.

use events::Off;
use rayon::prelude::*;
use serde::Serialize;
use trace_format::Record;

use super::blocks::{Live, Origins};
use super::moment::driver;
use crate::driver::{DriveError, Driver, Result};
use crate::edit::{follow_freed_early, follow_without};
use crate::run::{Addresses, DeviceTape, Options};
use crate::strategy::Native;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Peaks {
    /// The most bytes alive at once.
    pub live_bytes: u64,
    /// The most bytes held from the device at once.
    pub reserved_bytes: u64,
}

impl Peaks {
    /// Of what the driver has replayed.
    pub(super) fn of(driver: &mut Driver<Native<Off>>) -> Self {
        let reserved_bytes = driver.totals().peak_reserved_bytes;
        Self { live_bytes: driver.peak_live_bytes(), reserved_bytes }
    }
}

/// The peaks without the largest places of the code; those without a stack are left out.
pub(super) fn peaks_without(
    tape: DeviceTape<'_>,
    options: &Options,
    live: &Live,
    origins: &Origins<'_>,
) -> Result<Vec<PeakWithout>> {
    let options = Options { addresses: Addresses::Lowest, ..options.clone() };
    let named = live.code.iter().map(|group| (group, origins.stacks_of(&group.name)));
    let named: Vec<_> =
        named.filter(|(_, stacks)| stacks.contains(&true)).take(GROUPS_MAX).collect();
    let options = &options;
    let of_group = |(group, stacks): (&super::LiveGroup, Vec<bool>)| {
        let dropped =
            peaks(tape, options, |step| follow_without(tape.records, stacks.clone(), step))?;
        let freed_early =
            peaks(tape, options, |step| follow_freed_early(tape.records, stacks.clone(), step))?;
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

/// The peaks of the records that `follow` gives: no copy of a run is made.
fn peaks(
    tape: DeviceTape<'_>,
    options: &Options,
    follow: impl FnOnce(&mut dyn FnMut(Record) -> Result<()>) -> Result<()>,
) -> Result<Peaks> {
    let mut driver = driver(tape, options)?;
    follow(&mut |record| driver.step(&record, tape.text))?;
    Ok(Peaks::of(&mut driver))
}
