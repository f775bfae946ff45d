//! The smallest device that is enough for every one of several ranks.

use anyhow::Result;
use replay::fit::Fit;
use replay::ranks::{FitRow, Skipped, fit};
use serde::Serialize;

use super::{Answer, Fits, Place};
use crate::compare::label_of;
use crate::runs::{Answers, Rank};
use crate::strategy::is_live;
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
}

/// Prints one row a configuration.
pub(super) fn report(
    as_json: bool,
    place: Option<&Place>,
    answers: &Answers<Fits>,
) -> Result<Verdict> {
    let (ranks, skipped) = (&answers.ranks, &answers.skipped);
    let tables: Vec<&[Fit]> = ranks.iter().map(|rank| rank.found.rows.as_slice()).collect();
    let rows = fit(&tables);
    if as_json {
        let answer = Summary { recorded_row: 0, rows: &rows, ranks, skipped };
        output::print_json(&Answer { on: place, answer: &answer })?;
    } else {
        let largest = rows.first().map_or(0, |recorded| recorded.largest_rank);
        output::print(&(text(ranks, &rows, place) + &answers.notes(largest)))?;
    }
    let fits =
        |row: &FitRow| is_live(&row.strategy) && row.ranks_that_do_not_fit.is_none_or(|no| no == 0);
    Ok(if rows.iter().any(fits) { Verdict::Good } else { Verdict::Bad })
}

fn text(ranks: &[Rank<Fits>], rows: &[FitRow], place: Option<&Place>) -> String {
    let mut heads =
        vec!["strategy", "settings", "largest rank", ">fits from", ">least", ">median", ">settled"];
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
            0 => "all fit".to_owned(),
            count => format!("{count} of {} do not", row.ranks),
        }));
        table.row(cells);
    }
    let on = place.map_or(String::new(), |place| {
        format!(", on {}: {} for the allocator", place.name, bytes::show(place.usable_bytes))
    });
    let plural = if ranks.len() == 1 { "" } else { "s" };
    format!("{} rank{plural}{on}\n\n{}\n{}\n", ranks.len(), table.render(), best(ranks.len(), rows))
}

fn label(row: &FitRow) -> String {
    label_of(&row.strategy, &row.config, row.is_recorded, row.is_mixed)
}

/// The best row, in a sentence.
fn best(ranks: usize, rows: &[FitRow]) -> String {
    let all = rows.iter().filter(|row| is_live(&row.strategy) && row.ranks == ranks);
    let enough = all.filter_map(|row| Some((row.capacity_bytes?, row)));
    match enough.min_by_key(|(bytes, _)| *bytes) {
        Some((bytes, row)) => format!(
            "the smallest device that is enough for every rank: {} with {}",
            bytes::show(bytes),
            label(row)
        ),
        None => "no device is enough for every rank: some ask for more than their limits allow"
            .to_owned(),
    }
}
