//! The edited program's run beside the recorded one.

use replay::compare::StrategyRow;
use replay::edit::Summary;
use replay::report::Report;
use serde::Serialize;

use super::{Comparison, figure, reserved};
use crate::bytes;
use crate::table::Table;

/// The edited run's results: a row for each of the recorded run's.
#[derive(Serialize)]
pub(super) struct Edited {
    /// The edits, as they are written.
    pub(super) edits: Vec<String>,
    #[serde(flatten)]
    pub(super) summary: Summary,
    pub(super) rows: Vec<StrategyRow>,
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
        let efficiency = |report: &Report| format!("{:.3}", report.efficiency);
        let num_ooms = |report: &Report| report.num_ooms.to_string();
        table.row([
            row.name_and_config().0.to_owned(),
            comparison.label(at),
            reserved(row),
            reserved(edited),
            row.report().zip(edited.report()).map_or(String::new(), change),
            figure(row, efficiency),
            figure(edited, efficiency),
            figure(row, num_ooms),
            figure(edited, num_ooms),
        ]);
    }
    table
}

/// `-12.5 %`.
fn change((before, after): (&Report, &Report)) -> String {
    match (before.peak_reserved_bytes, after.peak_reserved_bytes) {
        (0, _) => String::new(),
        (before, after) => format!("{:+.1} %", 100.0 * (after as f64 / before as f64 - 1.0)),
    }
}

/// The effect of the edits under the recorded settings.
pub(super) fn verdict(comparison: &Comparison, edited: &Edited) -> Option<String> {
    let before = comparison.recorded()?;
    let after = edited.rows.get(comparison.recorded_row)?.report()?;
    let show = |row: &Report| bytes::show(row.peak_reserved_bytes);
    Some(format!(
        "\nedited: {} instead of {} under the recorded settings ({})\n",
        show(after),
        show(before),
        change((before, after))
    ))
}
