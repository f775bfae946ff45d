//! The edited program's run beside the recorded one.

use replay::edit::Summary;
use replay::report::Report;
use replay::series::Point;
use serde::Serialize;

use super::Comparison;
use crate::bytes;
use crate::table::Table;

/// The edited run's results: a row for each of the recorded run's.
#[derive(Serialize)]
pub(super) struct Edited {
    /// The edits, as they are written.
    pub(super) edits: Vec<String>,
    #[serde(flatten)]
    pub(super) summary: Summary,
    pub(super) rows: Vec<Report>,
    /// Each row's memory over time, for a page.
    #[serde(skip)]
    pub(super) series: Vec<Vec<Point>>,
}

/// The table: the results of the run and of the edited run under each setting.
pub(super) fn table(comparison: &Comparison, edited: &Edited) -> Table {
    let heads = [
        "strategy",
        "settings",
        ">reserved",
        ">edited",
        ">change",
        ">efficiency",
        ">edited",
        ">OOMs",
        ">edited",
    ];
    let mut table = Table::new(&heads);
    for (at, (row, edited)) in comparison.rows.iter().zip(&edited.rows).enumerate() {
        let (before, after) = (row.peak_reserved_bytes, edited.peak_reserved_bytes);
        table.row([
            row.strategy.clone(),
            comparison.label(at),
            bytes::show(before),
            bytes::show(after),
            change(before, after),
            format!("{:.3}", row.efficiency),
            format!("{:.3}", edited.efficiency),
            row.num_ooms.to_string(),
            edited.num_ooms.to_string(),
        ]);
    }
    table
}

/// `-12.5 %`.
fn change(before_bytes: u64, after_bytes: u64) -> String {
    match before_bytes {
        0 => String::new(),
        before => format!("{:+.1} %", 100.0 * (after_bytes as f64 / before as f64 - 1.0)),
    }
}

/// The effect of the edits under the recorded settings.
pub(super) fn verdict(comparison: &Comparison, edited: &Edited) -> Option<String> {
    let before = comparison.rows.get(comparison.recorded_row)?;
    let after = edited.rows.get(comparison.recorded_row)?;
    let show = |row: &Report| bytes::show(row.peak_reserved_bytes);
    let change = change(before.peak_reserved_bytes, after.peak_reserved_bytes);
    Some(format!(
        "\nedited: {} instead of {} under the recorded settings ({change})\n",
        show(after),
        show(before)
    ))
}
