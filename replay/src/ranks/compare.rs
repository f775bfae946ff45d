//! Adds up the tables of several ranks.

use serde::Serialize;

use super::align::{Aligned, align};
use super::{Badness, Spread, worst};
use crate::report::Report;

/// One strategy with its settings, over all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompareRow {
    /// Its name in the [table](crate::strategy::TABLE).
    pub strategy: String,
    /// Its settings. Of the recorded row, where ranks were recorded under different ones, the worst rank's.
    pub config: String,
    /// Whether each rank was replayed under the settings that it was recorded with.
    pub is_recorded: bool,
    /// Whether that is under different settings.
    pub is_mixed: bool,
    /// How many ranks this is of: less than all only where what was asked for builds on recorded settings that differ.
    pub ranks: usize,
    /// The rank that decides.
    pub worst: Worst,
    /// The most that each rank held from the device at once.
    pub peak_reserved: Spread,
    /// How many ranks ran out of memory.
    pub ranks_out_of_memory: usize,
}

/// The worst rank of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// Its place among the ranks, from 0.
    pub rank: usize,
    /// The most that it held from the device at once.
    pub peak_reserved_bytes: u64,
    /// The most bytes it had alive at once.
    pub peak_live_bytes: u64,
    /// Its calls that obtained or returned device memory.
    pub device_calls: i64,
    /// Estimated time of all its driver calls.
    pub driver_time_ns: u64,
    /// Times memory could not be had.
    pub num_ooms: i64,
}

/// The rows over all ranks, of each rank's reports. The first report of each is of its recorded settings, and so is the
/// first row.
pub fn compare(tables: &[&[Report]]) -> Vec<CompareRow> {
    let rows = align(tables, |report| (report.strategy.as_str(), report.config.as_str()));
    rows.into_iter().filter_map(|row| row_of(&row)).collect()
}

fn row_of(row: &Aligned<'_, Report>) -> Option<CompareRow> {
    let Aligned { is_recorded, is_mixed, ref rows } = *row;
    let (rank, report) = worst(rows.iter().copied(), |(_, report)| badness(report))?;
    let peaks = rows.iter().map(|(_, report)| report.peak_reserved_bytes);
    Some(CompareRow {
        strategy: report.strategy.clone(),
        config: report.config.clone(),
        is_recorded,
        is_mixed,
        ranks: rows.len(),
        worst: Worst {
            rank,
            peak_reserved_bytes: report.peak_reserved_bytes,
            peak_live_bytes: report.peak_live_bytes,
            device_calls: device_calls(report),
            driver_time_ns: report.driver_time_ns,
            num_ooms: report.num_ooms,
        },
        peak_reserved: Spread::of(peaks),
        ranks_out_of_memory: rows.iter().filter(|(_, report)| report.num_ooms > 0).count(),
    })
}

fn badness(report: &Report) -> Badness {
    Badness {
        is_out_of_memory: report.num_ooms > 0,
        peak_reserved_bytes: report.peak_reserved_bytes,
        device_calls: device_calls(report),
    }
}

fn device_calls(report: &Report) -> i64 {
    report.device_allocs + report.device_frees
}
