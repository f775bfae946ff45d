//! `vramtape leaks RUN...`: the code and the modules that hold more memory from step to step.

use std::fmt::Write;

use anyhow::Result;
use replay::leaks::{GrowingCode, Growth, Leaks, Verdict as Answer, leaks};
use replay::ranks::Skipped;
use replay::steps::StepSource;
use serde::Serialize;

use crate::runs::{Rank, RunsFlags, inferred_notes};
use crate::table::Table;
use crate::{Verdict, bytes, output};

/// Rows of a table; JSON has all.
const ROWS: usize = 10;
/// Blocks of a row that the text shows.
const BLOCKS: usize = 2;

/// The flags.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 nothing grows, or the run has too few steps to know; 1 something grows."
)]
pub(crate) struct Options {
    #[command(flatten)]
    runs: RunsFlags,
    /// Begin a step at each mark of this name, such as epoch for `epoch 1` and `epoch 2`; or where code allocates, such
    /// as train.py:31 [default: the marks of steps]
    #[arg(long, value_name = "MARK|CODE")]
    step: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Summary<'a> {
    /// Growth where any rank grows.
    verdict: Answer,
    ranks: &'a [Rank<Leaks>],
    skipped: &'a [Skipped],
}

/// Compares the steps of each rank.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let found = options.runs.each("comparing steps", 1, |chosen, share| {
        let records = chosen.device().records.len() as u64;
        share.begin(records);
        let (step, capacity) = (options.step.as_deref(), chosen.capacity_bytes);
        let found = leaks(chosen.tape(), chosen.device(), step, capacity);
        share.at(records);
        Ok(found)
    })?;
    let verdict = |answer| if answer == Answer::Growth { Verdict::Bad } else { Verdict::Good };
    match found.only() {
        Ok(rank) => {
            let notes = || inferred_notes(&rank.inferred);
            output::print_report(options.json, &rank, || text(&rank.found) + &notes())?;
            Ok(verdict(rank.found.verdict))
        }
        Err(ranks) => {
            let answers = || ranks.ranks.iter().map(|rank| rank.found.verdict);
            let worst = [Answer::Growth, Answer::NoGrowth].into_iter();
            let worst = worst.clone().find(|one| answers().any(|answer| answer == *one));
            let worst = worst.unwrap_or(Answer::TooFewSteps);
            let (of_ranks, skipped) = (&ranks.ranks, &ranks.skipped);
            let summary = Summary { verdict: worst, ranks: of_ranks, skipped };
            output::print_report(options.json, &summary, || {
                let text = |rank: &Rank<Leaks>| format!("{}: {}", rank.name, text(&rank.found));
                let texts: Vec<_> = of_ranks.iter().map(text).collect();
                texts.join("\n") + &ranks.left_out()
            })?;
            Ok(verdict(worst))
        }
    }
}

/// The report of one rank.
fn text(found: &Leaks) -> String {
    if let Some(note) = &found.note {
        return format!("not known: {note}\n");
    }
    let steps = steps(found);
    if found.verdict != Answer::Growth {
        return format!("no growth {steps}\n");
    }
    let mut text = format!(
        "growth: {} per step {steps}; {} are live\n",
        bytes::show(found.bytes_per_step),
        bytes::show(found.live_bytes)
    );
    if let Some(out) = &found.out_of_memory {
        let (capacity, peak) = (bytes::show(out.capacity_bytes), bytes::show(out.peak_bytes));
        let _ = writeln!(
            text,
            "out of memory in {} steps, in step {}, at this rate: {peak} of {capacity} are in use at \
             the peak of a step",
            out.steps_left, out.step
        );
    }
    text.push('\n');
    text.push_str(&codes(&found.rows));
    if !found.modules.is_empty() {
        let mut table = Table::new(&[">per step", ">live", ">confidence", "since", "module"]);
        for row in found.modules.iter().take(ROWS) {
            table.row(cells(&row.growth, row.module.clone()));
        }
        let _ = write!(text, "\n{}{}", table.render(), more(found.modules.len()));
    }
    text
}

/// `over 300 steps (step 1 to step 300)`.
fn steps(found: &Leaks) -> String {
    let Leaks { steps, first_step, last_step, .. } = found;
    let name = |step: &Option<String>| step.clone().unwrap_or_default();
    let by = match found.steps_by {
        StepSource::Code => ", by the allocations of --step",
        _ => "",
    };
    format!("over {steps} steps ({} to {}{by})", name(first_step), name(last_step))
}

fn codes(rows: &[GrowingCode]) -> String {
    let mut table = Table::new(&[">per step", ">live", ">confidence", "since", "code"]);
    for row in rows.iter().take(ROWS) {
        let modules = match &row.modules[..] {
            [] => String::new(),
            [module] => format!(" [{module}]"),
            [module, others @ ..] => format!(" [{module} and {} others]", others.len()),
        };
        table.row(cells(&row.growth, row.code.line() + &modules));
    }
    let mut text = table.render() + &more(rows.len());
    text.push_str("\nblocks\n");
    for row in rows.iter().take(ROWS) {
        for block in row.blocks.iter().take(BLOCKS) {
            let _ = writeln!(
                text,
                "  {:#x}  {:>11}  {} steps old, of {}: {}",
                block.addr,
                bytes::show(block.size_bytes),
                block.age_steps,
                block.step,
                row.code.label
            );
        }
        let shown = row.blocks.len().min(BLOCKS);
        if row.blocks_total > shown {
            let _ = writeln!(text, "  and {} more of {}", row.blocks_total - shown, row.code.label);
        }
    }
    text
}

fn cells(growth: &Growth, name: String) -> [String; 5] {
    [
        bytes::show(growth.bytes_per_step),
        bytes::show(growth.live_bytes),
        confidence(growth.confidence),
        growth.since_step.clone(),
        name,
    ]
}

/// Never 100 %: a test has a probability of error.
fn confidence(confidence: f64) -> String {
    if confidence > 0.9999 {
        return "> 99.99 %".to_owned();
    }
    format!("{:.2} %", 100.0 * confidence)
}

fn more(rows: usize) -> String {
    match rows.saturating_sub(ROWS) {
        0 => String::new(),
        hidden => format!("and {hidden} more: --json has them\n"),
    }
}
