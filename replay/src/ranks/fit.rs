//! The smallest device that is enough for every rank of a job.

use serde::Serialize;

use super::Spread;
use super::align::{Aligned, align};
use crate::ending::Ending;
use crate::fit::{Fit, OneRow, Verdict, verdict_of};

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
    /// The capacity that each rank needs, of those that fit at all.
    pub capacity: Spread,
    /// For what share of the larger capacities this was shown, of the rank of which the least was.
    pub settled_share: f64,
    /// How many ranks do not fit the device that was asked for.
    pub ranks_that_do_not_fit: Option<usize>,
    /// The least memory left on any rank, if all ranks fit.
    pub least_spare_bytes: Option<u64>,
}

/// The rows over all ranks, of each rank's searches. The first of each is of its recorded settings, and so is the first
/// row.
pub fn fit(tables: &[&[Fit]]) -> Vec<FitRow> {
    let rows = align(tables, |fit| (fit.strategy.as_str(), fit.config.as_str()));
    rows.into_iter().filter_map(|row| row_of(&row)).collect()
}

/// The verdict on a device called `name` for every one of so many ranks, which ended as `endings` says with their
/// names: one rank that might have asked for more makes it unknown. `None` where no device was asked for.
pub fn fit_verdict<'e>(
    rows: &[FitRow],
    ranks: usize,
    name: &str,
    endings: impl IntoIterator<Item = (&'e str, &'e Ending)>,
) -> Option<Verdict> {
    rows.first()?.ranks_that_do_not_fit?;
    let of_all = rows.iter().filter(|row| row.ranks == ranks);
    let rows: Vec<_> = of_all
        .map(|row| OneRow {
            strategy: &row.strategy,
            config: if row.is_mixed { "each its own settings" } else { &row.config },
            is_recorded: row.is_recorded,
            capacity_bytes: row.capacity_bytes,
            spare_bytes: row.least_spare_bytes,
        })
        .collect();
    let cut = endings.into_iter().find(|(_, ending)| ending.is_lower_bound());
    let cut = cut.map(|(rank, ending)| format!("of {rank}, {}", ending.reason()));
    Some(verdict_of(&rows, name, cut.as_deref()))
}

fn row_of(row: &Aligned<'_, Fit>) -> Option<FitRow> {
    let Aligned { is_recorded, is_mixed, ref rows } = *row;
    // A row that fits nowhere needs more than any that fits.
    let needs = |fit: &Fit| fit.capacity_bytes.unwrap_or(u64::MAX);
    let (largest_rank, largest) = rows
        .iter()
        .copied()
        .reduce(|one, other| if needs(other.1) > needs(one.1) { other } else { one })?;
    let on_device = |(_, fit): &(usize, &Fit)| Some(fit.on_device?.num_ooms > 0);
    let misfits: Option<Vec<bool>> = rows.iter().map(on_device).collect();
    let spare = |(_, fit): &(usize, &Fit)| {
        fit.on_device.filter(|on| on.num_ooms == 0).map(|on| on.spare_bytes)
    };
    let spares: Option<Vec<u64>> = rows.iter().map(spare).collect();
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
        least_spare_bytes: spares.and_then(|spares| spares.into_iter().min()),
        ranks_that_do_not_fit: misfits.map(|list| list.into_iter().filter(|no| *no).count()),
    })
}
