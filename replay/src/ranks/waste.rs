//! Adds up the parts of several ranks.

use serde::Serialize;

use super::{Badness, Spread, worst};
use crate::waste::Waste;

/// The parts of reserved memory over all ranks, each at its own peak.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WasteOfRanks {
    /// The rank that decides, by its place among the ranks, from 0.
    pub worst_rank: usize,
    /// The most that each rank held from the device at once.
    pub peak_reserved: Spread,
    /// Each part in the order of the table. The worst rank's add up to its peak; the others are of different ranks.
    pub parts: Vec<PartSpread>,
    /// How many ranks ran out of memory.
    pub ranks_out_of_memory: usize,
}

/// One part of reserved memory over all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PartSpread {
    /// Its name in the table.
    pub part: &'static str,
    /// The part's size on the worst rank.
    pub worst_bytes: u64,
    /// The part's size over all ranks.
    #[serde(flatten)]
    pub spread: Spread,
}

/// The parts over all ranks; `None` where there is no rank.
pub fn waste(ranks: &[&Waste]) -> Option<WasteOfRanks> {
    let (worst_rank, most) = worst(ranks.iter().enumerate(), |(_, waste)| badness(waste))?;
    let parts = |waste: &Waste| waste.peak.sample.parts.named();
    let part = |(at, (part, worst_bytes)): (usize, (&'static str, u64))| PartSpread {
        part,
        worst_bytes,
        spread: Spread::of(ranks.iter().map(|waste| parts(waste)[at].1)),
    };
    let peaks = ranks.iter().map(|waste| waste.peak.sample.reserved_bytes);
    Some(WasteOfRanks {
        worst_rank,
        peak_reserved: Spread::of(peaks),
        parts: parts(most).into_iter().enumerate().map(part).collect(),
        ranks_out_of_memory: ranks.iter().filter(|waste| waste.ooms_total > 0).count(),
    })
}

fn badness(waste: &Waste) -> Badness {
    Badness {
        is_out_of_memory: waste.ooms_total > 0,
        peak_reserved_bytes: waste.peak.sample.reserved_bytes,
        // Waste does not count calls.
        device_calls: 0,
    }
}
