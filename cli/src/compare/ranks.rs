//! The comparison of several ranks: of every row the worst one and the spread.

use anyhow::Result;
use replay::advice::{Advice, choose};
use replay::compare::StrategyRow;
use replay::ranks::{CompareRow, RefusedRank, Skipped, compare};
use serde::Serialize;

use super::{Comparison, Options, REFUSED, label_of, write_page};
use crate::runs::{Answers, Rank};
use crate::table::Table;
use crate::{Verdict, bytes, output};

#[derive(Serialize)]
struct Summary<'a> {
    /// Which row has each rank under the settings that it was recorded with.
    recorded_row: usize,
    /// The table: each row over all ranks.
    rows: &'a [CompareRow],
    /// The same of the edited runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    edited: Option<&'a [CompareRow]>,
    /// The table of every rank.
    ranks: &'a [Rank<Comparison>],
    skipped: &'a [Skipped],
    /// Which setting to try, for all ranks together.
    advice: Option<&'a Advice>,
    /// Whether the numbers of any rank are lower bounds.
    lower_bound: bool,
}

/// Prints one row a setting, and writes the page of all ranks.
pub(super) fn report(options: &Options, answers: Answers<Comparison>) -> Result<Verdict> {
    let tables: Vec<&[StrategyRow]> =
        answers.ranks.iter().map(|rank| rank.found.rows.as_slice()).collect();
    let rows = compare(&tables);
    let edited: Option<Vec<&[StrategyRow]>> =
        answers.ranks.iter().map(|rank| Some(&rank.found.edited.as_ref()?.rows[..])).collect();
    let edited = edited.map(|tables| compare(&tables));
    let worst = rows.first().and_then(|recorded| Some(recorded.worst.as_ref()?.rank)).unwrap_or(0);
    let measured: Option<Vec<_>> =
        answers.ranks.iter().map(|rank| rank.found.measured.clone()).collect();
    let advice = measured.and_then(|measured| choose(&measured));
    let lower_bound = answers.is_lower_bound();
    let advice = advice.as_ref();
    if options.json {
        let (ranks, skipped) = (&answers.ranks, &answers.skipped);
        output::print_json(&Summary {
            recorded_row: 0,
            rows: &rows,
            edited: edited.as_deref(),
            ranks,
            skipped,
            advice,
            lower_bound,
        })?;
    } else {
        let text = text(&answers.ranks, &rows, edited.as_deref(), lower_bound);
        let advice = advice.map_or(String::new(), |advice| format!("\n{}\n", advice.text));
        output::print(&(text + &advice + &answers.notes(worst)))?;
    }
    write_page(options, answers.ranks)?;
    Ok(Verdict::Good)
}

fn text(
    ranks: &[Rank<Comparison>],
    rows: &[CompareRow],
    edited: Option<&[CompareRow]>,
    lower_bound: bool,
) -> String {
    let mut heads = vec![
        "strategy",
        "settings",
        "worst rank",
        if lower_bound { ">reserved at least" } else { ">reserved" },
        ">least",
        ">median",
        ">most",
        ">out of memory",
        ">device calls",
        ">driver ms",
    ];
    if edited.is_some() {
        heads.push(">most, edited");
    }
    let mut table = Table::new(&heads);
    for (at, row) in rows.iter().enumerate() {
        let mut cells = vec![row.strategy.clone(), label(row, ranks.len())];
        match &row.worst {
            Some(worst) => cells.extend([
                ranks[worst.rank].name.clone(),
                bytes::show(worst.peak_reserved_bytes),
                bytes::show(row.peak_reserved.min_bytes),
                bytes::show(row.peak_reserved.median_bytes),
                bytes::show(row.peak_reserved.max_bytes),
                row.ranks_out_of_memory.to_string(),
                worst.device_calls.to_string(),
                format!("{:.1}", worst.driver_time_ns as f64 / 1e6),
            ]),
            None => cells.extend(["", REFUSED, "", "", "", "", "", ""].map(str::to_owned)),
        }
        cells.extend(edited.map(|edited| match edited.get(at) {
            Some(row) if row.refused.is_some() => REFUSED.to_owned(),
            Some(row) => bytes::show(row.peak_reserved.max_bytes),
            None => String::new(),
        }));
        table.row(cells);
    }
    let all = rows.iter().map(|row| ("", row));
    let all = all.chain(edited.into_iter().flatten().map(|row| (", edited", row)));
    let refused = |(edited, row): (&str, &CompareRow)| {
        let RefusedRank { rank, error } = row.refused.as_ref()?;
        let (rank, label) = (&ranks[*rank].name, label(row, ranks.len()));
        Some(format!("\n{rank}: {}, {label}{edited}: {error}\n", row.strategy))
    };
    let refused: String = all.filter_map(refused).collect();
    format!("{}\n\n{}{refused}", head(ranks, lower_bound), table.render())
}

/// The settings of a row, in words.
fn label(row: &CompareRow, ranks: usize) -> String {
    let settings = label_of(&row.strategy, &row.config, row.is_recorded, row.is_mixed);
    if row.ranks == ranks { settings } else { format!("{settings} ({} of {ranks})", row.ranks) }
}

/// The lower bound of every policy.
fn head(ranks: &[Rank<Comparison>], lower_bound: bool) -> String {
    // Of what no policy can go below the most counts, which is no bound where a rank may have asked for more.
    let bound = if lower_bound { "at least" } else { "at most" };
    let live = |rank: &Rank<Comparison>| {
        Some(rank.found.rows.iter().find_map(StrategyRow::report)?.peak_live_bytes)
    };
    let most = ranks.iter().filter_map(live).max().unwrap_or(0);
    let capacities = ranks.iter().map(|rank| rank.found.capacity_bytes);
    let known = capacities.map(|bytes| bytes.map_or("unlimited".to_owned(), bytes::show));
    let mut known: Vec<_> = known.collect();
    known.sort();
    known.dedup();
    let plural = if ranks.len() == 1 { "" } else { "s" };
    format!(
        "{} rank{plural}, peak live {bound} {} (no policy can reserve less), capacity {}",
        ranks.len(),
        bytes::show(most),
        known.join(" or ")
    )
}
