//! The smallest device that is enough for every rank of a job.

use serde::Serialize;

use super::Spread;
use super::align::{Aligned, align};
use crate::fit::Fit;

/// One strategy with its settings, over all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitRow {
    /// Its name in the [table](crate::strategy::TABLE).
    pub strategy: String,
    /// Its settings. Of the recorded row, where ranks were recorded under different ones, the largest rank's.
    pub config: String,
    /// Whether each rank was replayed under the settings that it was recorded with.
    pub is_recorded: bool,
    /// Whether that is under different settings.
    pub is_mixed: bool,
    /// How many ranks this is of: less than all only where what was asked for builds on recorded settings that differ.
    pub ranks: usize,
    /// The smallest capacity that is enough for every rank; `None` where none is for some.
    pub capacity_bytes: Option<u64>,
    /// The rank that needs it, by its place among the ranks, from 0.
    pub largest_rank: usize,
    /// What each rank needs, of those that fit at all.
    pub capacity: Spread,
    /// For what share of the larger capacities this was shown, of the rank of which the least was.
    pub settled_share: f64,
    /// How many ranks do not fit the device that was asked for.
    pub ranks_that_do_not_fit: Option<usize>,
}

/// The rows over all ranks, of each rank's searches. The first of each is of its recorded settings, and so is the first
/// row.
pub fn fit(tables: &[&[Fit]]) -> Vec<FitRow> {
    let rows = align(tables, |fit| (fit.strategy.as_str(), fit.config.as_str()));
    rows.into_iter().filter_map(|row| row_of(&row)).collect()
}

fn row_of(row: &Aligned<'_, Fit>) -> Option<FitRow> {
    let Aligned { is_recorded, is_mixed, ref rows } = *row;
    // What fits nowhere needs more than anything that fits.
    let needs = |fit: &Fit| fit.capacity_bytes.unwrap_or(u64::MAX);
    let (largest_rank, largest) = rows
        .iter()
        .copied()
        .reduce(|one, other| if needs(other.1) > needs(one.1) { other } else { one })?;
    let on_device = |(_, fit): &(usize, &Fit)| Some(fit.on_device?.num_ooms > 0);
    let misfits: Option<Vec<bool>> = rows.iter().map(on_device).collect();
    Some(FitRow {
        strategy: largest.strategy.clone(),
        config: largest.config.clone(),
        is_recorded,
        is_mixed,
        ranks: rows.len(),
        capacity_bytes: largest.capacity_bytes,
        largest_rank,
        capacity: Spread::of(rows.iter().filter_map(|(_, fit)| fit.capacity_bytes)),
        settled_share: rows.iter().map(|(_, fit)| fit.settled_share).fold(1.0, f64::min),
        ranks_that_do_not_fit: misfits.map(|list| list.into_iter().filter(|no| *no).count()),
    })
}
