//! The smallest device that is enough for every one of several ranks.

use anyhow::Result;
use replay::fit::Fit;
use replay::ranks::{FitRow, Skipped, fit, fit_verdict};
use serde::Serialize;

use super::{Answer, FitDevice, Fits, exit, line};
use crate::compare::label_of;
use crate::runs::{Answers, Rank};
use crate::strategy::is_proven;
use crate::table::Table;
use crate::{Verdict, bytes, output};

#[derive(Serialize)]
struct Summary<'a> {
    /// Which row has each rank under the settings that it was recorded with.
    recorded_row: usize,
    /// The table: each row over all ranks.
    rows: &'a [FitRow],
    /// The table of every rank.
    ranks: &'a [Rank<Fits>],
    skipped: &'a [Skipped],
    /// Whether the numbers of any rank are lower bounds.
    lower_bound: bool,
}

/// Prints one row a configuration.
pub(super) fn report(
    as_json: bool,
    place: Option<&FitDevice>,
    answers: &Answers<Fits>,
) -> Result<Verdict> {
    let (ranks, skipped) = (&answers.ranks, &answers.skipped);
    let tables: Vec<&[Fit]> = ranks.iter().map(|rank| rank.found.rows.as_slice()).collect();
    let rows = fit(&tables);
    let endings = ranks.iter().map(|rank| (rank.name.as_str(), &rank.bound.ending));
    let verdict = place.and_then(|place| fit_verdict(&rows, ranks.len(), &place.name, endings));
    let (verdict, lower_bound) = (verdict.as_ref(), answers.is_lower_bound());
    if as_json {
        let answer = Summary { recorded_row: 0, rows: &rows, ranks, skipped, lower_bound };
        output::print_json(&Answer { on: place, verdict, found: &answer })?;
    } else {
        let largest = rows.first().map_or(0, |recorded| recorded.largest_rank);
        let text = text(ranks, &rows, place, lower_bound) + &answers.notes(largest);
        output::print(&(text + &line(verdict)))?;
    }
    Ok(exit(verdict, rows.iter().any(|row| is_proven(&row.strategy))))
}

fn text(
    ranks: &[Rank<Fits>],
    rows: &[FitRow],
    place: Option<&FitDevice>,
    lower_bound: bool,
) -> String {
    let fits_from = if lower_bound { ">fits from at least" } else { ">fits from" };
    let mut heads =
        vec!["strategy", "settings", "largest rank", fits_from, ">least", ">median", ">settled"];
    if place.is_some() {
        heads.push(">on this device");
    }
    let mut table = Table::new(&heads);
    for row in rows {
        let mut cells = vec![
            row.strategy.clone(),
            label(row),
            ranks[row.largest_rank].name.clone(),
            row.capacity_bytes.map_or("never".to_owned(), bytes::show),
            bytes::show(row.capacity.min_bytes),
            bytes::show(row.capacity.median_bytes),
            format!("{:.0} %", 100.0 * row.settled_share),
        ];
        cells.extend(row.ranks_that_do_not_fit.map(|count| match count {
            0 if lower_bound => "unknown".to_owned(),
            0 => "all fit".to_owned(),
            count => format!("{count} of {} do not", row.ranks),
        }));
        table.row(cells);
    }
    let on = place.map_or(String::new(), |place| {
        format!(", on {}: {} for the allocator", place.name, bytes::show(place.usable_bytes))
    });
    let plural = if ranks.len() == 1 { "" } else { "s" };
    let best = best(ranks.len(), rows, lower_bound);
    format!("{} rank{plural}{on}\n\n{}\n{best}\n", ranks.len(), table.render())
}

fn label(row: &FitRow) -> String {
    label_of(&row.strategy, &row.config, row.is_recorded, row.is_mixed)
}

/// The best row, in a sentence.
fn best(ranks: usize, rows: &[FitRow], lower_bound: bool) -> String {
    let at_least = if lower_bound { "at least " } else { "" };
    let all = rows.iter().filter(|row| is_proven(&row.strategy) && row.ranks == ranks);
    let enough = all.filter_map(|row| Some((row.capacity_bytes?, row)));
    match enough.min_by_key(|(bytes, _)| *bytes) {
        Some((bytes, row)) => format!(
            "the smallest device that is enough for every rank: {at_least}{} with {}",
            bytes::show(bytes),
            label(row)
        ),
        None => "no device is enough for every rank: some ask for more than their limits allow"
            .to_owned(),
    }
}
