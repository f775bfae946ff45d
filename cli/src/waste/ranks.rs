//! The waste of several ranks: the worst one's parts, and each part's spread.

use anyhow::Result;
use replay::advice::{Advice, choose};
use replay::ranks::{Skipped, WasteOfRanks, waste};
use replay::waste::Waste;
use serde::Serialize;

use super::explain::explain;
use super::{Found, share_of};
use crate::runs::{Answers, Rank};
use crate::table::Table;
use crate::{Verdict, bytes, output};

#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    over_all: &'a WasteOfRanks,
    /// The findings for every rank.
    ranks: &'a [Rank<Found>],
    skipped: &'a [Skipped],
    /// Which setting to try, for all ranks together.
    advice: Option<&'a Advice>,
    /// Whether the numbers of any rank are lower bounds.
    lower_bound: bool,
}

/// Prints one row a part.
pub(super) fn report(as_json: bool, answers: &Answers<Found>) -> Result<Verdict> {
    let wastes: Vec<&Waste> = answers.ranks.iter().map(|rank| &rank.found.waste).collect();
    let Some(summary) = waste(&wastes) else { return Ok(Verdict::Good) };
    let measured: Vec<_> = answers.ranks.iter().map(|rank| rank.found.measured.clone()).collect();
    let advice = choose(&measured);
    let advice = advice.as_ref();
    if as_json {
        let (ranks, skipped) = (&answers.ranks, &answers.skipped);
        let lower_bound = answers.is_lower_bound();
        let over_all = &summary;
        output::print_json(&Summary { over_all, ranks, skipped, advice, lower_bound })?;
    } else {
        let text = text(&answers.ranks, &summary, advice);
        output::print(&(text + &answers.notes(summary.worst_rank)))?;
    }
    Ok(Verdict::Good)
}

fn text(ranks: &[Rank<Found>], summary: &WasteOfRanks, advice: Option<&Advice>) -> String {
    let Rank { name, found, .. } = &ranks[summary.worst_rank];
    let (explanation, next_step) = explain(&found.waste, &found.config, advice);
    let plural = if ranks.len() == 1 { "" } else { "s" };
    let out = match summary.ranks_out_of_memory {
        0 => String::new(),
        count => format!(", {count} of them out of memory"),
    };
    let table = table(summary, found.waste.peak.sample.reserved_bytes);
    let worst = super::text(found, &explanation, &next_step);
    format!(
        "{} rank{plural}{out}; the worst is {name}\n\nat each rank's peak:\n{table}\n{name}: {worst}",
        ranks.len()
    )
}

fn table(summary: &WasteOfRanks, worst_bytes: u64) -> String {
    let heads = ["part", ">worst rank", ">share", ">least", ">median", ">most"];
    let mut table = Table::new(&heads);
    let parts = summary.parts.iter().map(|part| (part.part, part.worst_bytes, part.spread));
    for (part, bytes, spread) in parts.chain([("reserved", worst_bytes, summary.peak_reserved)]) {
        table.row([
            part.to_owned(),
            bytes::show(bytes),
            share_of(bytes, worst_bytes),
            bytes::show(spread.min_bytes),
            bytes::show(spread.median_bytes),
            bytes::show(spread.max_bytes),
        ]);
    }
    table.render()
}
