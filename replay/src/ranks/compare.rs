//! Adds up the tables of several ranks.

use serde::Serialize;

use super::align::{Aligned, align};
use super::{Badness, Spread, worst};
use crate::compare::StrategyRow;
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
    /// The rank that decides; `None` where one was refused.
    pub worst: Option<Worst>,
    /// The first rank whose replay was stopped at the bound of driver calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedRank>,
    /// The most that each rank held from the device at once, of those that were replayed.
    pub peak_reserved: Spread,
    /// How many ranks ran out of memory.
    pub ranks_out_of_memory: usize,
}

/// A rank that was not replayed to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedRank {
    /// Its place among the ranks, from 0.
    pub rank: usize,
    /// Where it was stopped, and the bound.
    pub error: String,
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

/// The rows over all ranks, of each rank's rows. The first of each is of its recorded settings, and so is the first
/// that comes out.
pub fn compare(tables: &[&[StrategyRow]]) -> Vec<CompareRow> {
    let rows = align(tables, StrategyRow::name_and_config);
    rows.into_iter().filter_map(|row| row_of(&row)).collect()
}

fn row_of(row: &Aligned<'_, StrategyRow>) -> Option<CompareRow> {
    let Aligned { is_recorded, is_mixed, ref rows } = *row;
    let refused = rows
        .iter()
        .find_map(|(rank, row)| Some(RefusedRank { rank: *rank, error: row.error()?.to_owned() }));
    let reports = || rows.iter().filter_map(|(rank, row)| Some((*rank, row.report()?)));
    let worst = worst(reports(), |(_, report)| badness(report)).filter(|_| refused.is_none());
    let (strategy, config) = match worst {
        Some((_, Report { strategy, config, .. })) => (strategy.as_str(), config.as_str()),
        None => rows.first()?.1.name_and_config(),
    };
    Some(CompareRow {
        strategy: strategy.to_owned(),
        config: config.to_owned(),
        is_recorded,
        is_mixed,
        ranks: rows.len(),
        worst: worst.map(|(rank, report)| Worst {
            rank,
            peak_reserved_bytes: report.peak_reserved_bytes,
            peak_live_bytes: report.peak_live_bytes,
            device_calls: device_calls(report),
            driver_time_ns: report.driver_time_ns,
            num_ooms: report.num_ooms,
        }),
        refused,
        peak_reserved: Spread::of(reports().map(|(_, report)| report.peak_reserved_bytes)),
        ranks_out_of_memory: reports().filter(|(_, report)| report.num_ooms > 0).count(),
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
