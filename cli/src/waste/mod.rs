//! `vramtape waste RUN...`: where reserved memory goes.

mod explain;
mod ranks;

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use replay::advice::{Advice, Measured, REPLAYS_MAX, choose};
use replay::categories::{Categories, CategoryMemory};
use replay::holders::{HOLDER_OOMS_MAX, RunHolders, holders_at};
use replay::tape::Device;
use replay::waste::{Parts, Waste, WasteMoment, waste};
use serde::Serialize;
use settings::Config;

use crate::advice::measured;
use crate::runs::{RunsFlags, Share, inferred_notes};
use crate::setting::Chosen;
use crate::strategy::StrategyFlag;
use crate::table::Table;
use crate::{Verdict, bytes, holders, output, start};
pub(crate) use explain::explain;

/// Moments of no memory that the table has a column for.
const OOM_COLUMNS: usize = 2;
/// Rows of the table over time.
const TIME_ROWS: usize = 8;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    runs: RunsFlags,
    /// How requests become placements: native, expandable or stitch [default: as recorded]
    #[arg(long, value_name = "NAME[:SETTINGS]")]
    strategy: Option<StrategyFlag>,
    /// Settings as in PYTORCH_CUDA_ALLOC_CONF; empty is PyTorch's defaults [default: as recorded]
    #[arg(long, value_name = "SETTINGS")]
    config: Option<String>,
    /// How many moments of the run --json shows, at most
    #[arg(long, value_name = "N", default_value_t = 200)]
    points: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The findings for one rank.
#[derive(Serialize)]
struct Found {
    #[serde(flatten)]
    waste: Waste,
    /// The worst moment in words.
    explanation: String,
    /// The next thing to try.
    next_step: String,
    /// Which setting to try.
    advice: Option<Advice>,
    #[serde(skip)]
    measured: Measured,
    /// The settings that were replayed.
    #[serde(skip)]
    config: Config,
    /// The categories of the requested bytes, in the order of the moments; empty where the run has none.
    held: MomentsHeld,
    /// The code that held what was allocated at the peak and whenever memory was out, as recorded.
    holders: RunHolders,
}

/// The categories of the live blocks, as recorded, at each moment.
#[derive(Default, Serialize)]
struct MomentsHeld {
    peak: Vec<CategoryMemory>,
    filled: Vec<CategoryMemory>,
    ooms: Vec<Vec<CategoryMemory>>,
}

impl MomentsHeld {
    fn of(device: &Device, waste: &Waste) -> Self {
        let categories = Categories::of(&device.base.segments, &device.records);
        if categories.is_empty() {
            return Self::default();
        }
        let at = |moment: &WasteMoment| categories.held_after(moment.sample.after_records as usize);
        let ooms = waste.ooms.iter().map(at).collect();
        Self { peak: at(&waste.peak), filled: at(&waste.filled), ooms }
    }
}

/// Replays and takes apart.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let found = options.runs.each("replaying", 1, |chosen, share| found(options, chosen, share))?;
    let rank = match found.only() {
        Ok(rank) => rank,
        Err(ranks) => return ranks::report(options.json, &ranks),
    };
    if options.json {
        output::print_json(&rank)?;
    } else {
        let peak = rank.found.waste.peak.sample.reserved_bytes;
        let started = start::paragraph(rank.started, Some(peak));
        let Found { explanation, next_step, .. } = &rank.found;
        let text = text(&rank.found, explanation, next_step) + &started + &rank.bound.note();
        output::print(&(text + &inferred_notes(&rank.inferred)))?;
    }
    Ok(Verdict::Good)
}

/// Takes one rank apart.
fn found(options: &Options, chosen: &Chosen, share: &Share<'_>) -> Result<Found> {
    let setting = chosen.setting(options.strategy.as_ref(), options.config.as_deref())?;
    let each = chosen.device().records.len() as u64;
    share.begin((1 + REPLAYS_MAX) * each);
    let points = if options.json { options.points } else { TIME_ROWS };
    let mut at = |records| share.at(records);
    let waste = chosen.with_device(|device| waste(device, &setting, points, &mut at))?;
    let config = setting.native_config()?.clone();
    let is_recorded = options.strategy.is_none() && options.config.is_none();
    let done = AtomicU64::new(1);
    let measured = measured(chosen, (!is_recorded).then_some(config.text.as_str()), &[], &|| {
        share.at((done.fetch_add(1, Ordering::Relaxed) + 1) * each);
    })?;
    share.at((1 + REPLAYS_MAX) * each);
    let advice = choose(std::slice::from_ref(&measured));
    let (explanation, next_step) = explain(&waste, &config, advice.as_ref());
    let held = MomentsHeld::of(chosen.device(), &waste);
    let holders = holders_of(chosen, &waste);
    Ok(Found { waste, explanation, next_step, advice, measured, config, held, holders })
}

/// The holders at the moments of the replay.
fn holders_of(chosen: &Chosen, waste: &Waste) -> RunHolders {
    let (tape, device) = (chosen.tape(), chosen.device());
    let without = RunHolders::none(tape);
    if without.note.is_some() {
        return without;
    }
    let moments = std::iter::once(&waste.peak).chain(waste.ooms.iter().take(HOLDER_OOMS_MAX));
    let after: Vec<_> = moments.map(|moment| moment.sample.after_records as usize).collect();
    let mut found = holders_at(tape, device, &after).into_iter();
    RunHolders {
        peak: found.next(),
        ooms: found.collect(),
        ooms_total: waste.ooms_total,
        ..without
    }
}

/// The report of a rank; among several, the advice is for all of them.
fn text(found: &Found, explanation: &str, next_step: &str) -> String {
    let Found { waste, held, holders, .. } = found;
    let holders = holders::text(holders);
    let head = head(waste);
    let parts = parts(waste, held);
    let time = over_time(waste);
    let graphs = found.advice.as_ref().and_then(|advice| advice.graph_pools);
    let graphs = graphs.map_or_else(String::new, |graphs| graphs.to_string());
    format!("{head}\n{parts}\n{explanation}\nNext: {next_step}.\n{graphs}\n{holders}\n{time}")
}

/// The replayed strategy.
fn head(waste: &Waste) -> String {
    let settings = if waste.config.is_empty() { "PyTorch's defaults" } else { &waste.config };
    let capacity = waste.capacity_bytes.map_or("unlimited".to_owned(), bytes::show);
    format!("{}, {settings}, capacity {capacity}\n", waste.strategy)
}

/// One row a part, one column a moment.
fn parts(waste: &Waste, held: &MomentsHeld) -> String {
    let is_apart = waste.filled.sample.after_records != waste.peak.sample.after_records;
    let filled = is_apart.then_some((&waste.filled, &held.filled, ">filling up"));
    // As many as there are moments, also without categories.
    let no_held = Vec::new();
    let held_at = |at| held.ooms.get(at).unwrap_or(&no_held);
    let ooms = waste.ooms.iter().enumerate().zip([">1st OOM", ">2nd OOM"]).take(OOM_COLUMNS);
    let columns: Vec<(&WasteMoment, &Vec<CategoryMemory>, &'static str)> =
        [(&waste.peak, &held.peak, ">peak")]
            .into_iter()
            .chain(filled)
            .chain(ooms.map(|((at, oom), head)| (oom, held_at(at), head)))
            .collect();
    let mut heads = vec!["part"];
    for (_, _, head) in &columns {
        heads.extend([*head, ">share"]);
    }
    let mut table = Table::new(&heads);
    let share = |moment: &WasteMoment, part: u64| share_of(part, moment.sample.reserved_bytes);
    for (at, (name, _)) in Parts::default().named().into_iter().enumerate() {
        let mut cells = vec![name.to_owned()];
        for (moment, _, _) in &columns {
            let part = moment.sample.parts.named()[at].1;
            cells.extend([bytes::show(part), share(moment, part)]);
        }
        table.row(cells);
        // Requested bytes are the first part.
        let kinds = if at == 0 { held.peak.len() } else { 0 };
        for kind in 0..kinds {
            let mut cells = vec![format!("  {}", held.peak[kind].category)];
            for (moment, held, _) in &columns {
                let requested_bytes = held[kind].requested_bytes;
                cells.extend([bytes::show(requested_bytes), share(moment, requested_bytes)]);
            }
            table.row(cells);
        }
    }
    let mut cells = vec!["reserved".to_owned()];
    for (moment, _, _) in &columns {
        let reserved = moment.sample.reserved_bytes;
        cells.extend([bytes::show(reserved), share(moment, reserved)]);
    }
    table.row(cells);
    match waste.ooms_total.saturating_sub(OOM_COLUMNS as u64) {
        0 => table.render(),
        more => table.render() + &format!("and {more} more times out of memory: --json has them\n"),
    }
}

/// A part in percent; nothing of nothing.
fn share_of(part_bytes: u64, reserved_bytes: u64) -> String {
    match reserved_bytes {
        0 => String::new(),
        reserved => format!("{:.1} %", 100.0 * part_bytes as f64 / reserved as f64),
    }
}

/// The fullest moment of each stretch of the run.
fn over_time(waste: &Waste) -> String {
    let heads = [
        ">record",
        ">reserved",
        ">requested",
        ">rounding",
        ">unsplit",
        ">reusable",
        ">stranded",
        ">pending",
        ">granularity",
    ];
    let mut table = Table::new(&heads);
    for sample in &waste.series {
        let Parts {
            requested_bytes,
            rounding_bytes,
            unsplit_remainder_bytes,
            cached_reusable_bytes,
            pending_free_bytes,
            driver_granularity_bytes,
            ..
        } = sample.parts;
        let stranded_bytes = sample.parts.free_bytes() - cached_reusable_bytes;
        let sizes = [
            sample.reserved_bytes,
            requested_bytes,
            rounding_bytes,
            unsplit_remainder_bytes,
            cached_reusable_bytes,
            stranded_bytes,
            pending_free_bytes,
            driver_granularity_bytes,
        ];
        let sizes = sizes.into_iter().map(bytes::show);
        table.row(std::iter::once(sample.after_records.to_string()).chain(sizes));
    }
    format!("over time, the fullest moment of each stretch:\n{}", table.render())
}
