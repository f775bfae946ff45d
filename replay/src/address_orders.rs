//! The range of reserved memory over the addresses that a driver could have given.
//!
//! Of two free blocks of one size PyTorch before 2.15 takes the one at the lower address, and a driver's addresses
//! follow no rule: on a GPU too, two runs of a program can reserve a segment more or less. PyTorch 2.15 takes the older
//! segment.

use rayon::prelude::*;
use serde::Serialize;

use crate::driver::Result;
use crate::run::{Addresses, DeviceTape, Options, run};

/// Reserved memory under several orders of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ReservedRange {
    /// The orders that were tried, beside the run's own.
    pub orders: u32,
    /// The least peak of reserved memory.
    pub lower_bytes: u64,
    /// The greatest.
    pub upper_bytes: u64,
}

/// Replays under so many orders of addresses, and takes in `peak_reserved_bytes`, the peak under the run's own.
/// `progress` is called after each replay.
///
/// # Errors
/// As [`run`].
pub fn reserved_range(
    tape: DeviceTape<'_>,
    options: &Options,
    peak_reserved_bytes: u64,
    orders: u32,
    progress: &(dyn Fn() + Sync),
) -> Result<ReservedRange> {
    let all: Vec<Addresses> = Addresses::orders(orders).collect();
    let peak_of = |addresses| {
        let options = Options { addresses, ..options.clone() };
        let report = run(tape, &options, &mut |_| ())?;
        progress();
        Ok(report.peak_reserved_bytes)
    };
    let peaks: Result<Vec<u64>> = all.into_par_iter().map(peak_of).collect();
    let own = peak_reserved_bytes;
    let (lower_bytes, upper_bytes) = peaks?
        .into_iter()
        .fold((own, own), |(least, most), peak| (least.min(peak), most.max(peak)));
    Ok(ReservedRange { orders, lower_bytes, upper_bytes })
}
