//! `vramtape waste RUN`: where reserved memory goes.

mod explain;

use anyhow::Result;
use replay::waste::{Moment, Parts, Waste, waste};
use serde::Serialize;

use crate::progress::Progress;
use crate::setting::RunFlags;
use crate::strategy::StrategyFlag;
use crate::table::Table;
use crate::{Verdict, bytes, output};
use explain::explain;

/// Moments of no memory that the table has a column for.
const OOM_COLUMNS: usize = 2;
/// Rows of the table over time.
const TIME_ROWS: usize = 8;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    run: RunFlags,
    /// How requests become placements: native or expandable [default: as recorded]
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

#[derive(Serialize)]
struct Report<'a> {
    device: u16,
    #[serde(flatten)]
    waste: &'a Waste,
    /// The worst moment in words.
    explanation: &'a str,
    /// What to try next.
    next_step: &'a str,
    /// What an import concluded, a sentence each.
    inferred: &'a [String],
}

/// Replays and takes apart.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let chosen = options.run.read()?;
    let setting = chosen.setting(options.strategy.as_ref(), options.config.as_deref())?;
    let progress = Progress::start("replaying", 2 * chosen.device().records.len() as u64);
    let points = if options.json { options.points } else { TIME_ROWS };
    let found = chosen
        .with_device(|device| waste(device, &setting, points, |records| progress.at(records)))?;
    drop(progress);
    let (explanation, next_step) = explain(&found, setting.native_config()?);
    if options.json {
        let device = chosen.device().id.0;
        output::print_json(&Report {
            device,
            waste: &found,
            explanation: &explanation,
            next_step: &next_step,
            inferred: chosen.inferred(),
        })?;
    } else {
        output::print(&(text(&found, &explanation, &next_step) + &chosen.concluded()))?;
    }
    Ok(Verdict::Good)
}

fn text(waste: &Waste, explanation: &str, next_step: &str) -> String {
    let settings = if waste.config.is_empty() { "PyTorch's defaults" } else { &waste.config };
    let capacity = waste.capacity_bytes.map_or("unlimited".to_owned(), bytes::show);
    let head = format!("{}, {settings}, capacity {capacity}\n", waste.strategy);
    let parts = parts(waste);
    let time = over_time(waste);
    format!("{head}\n{parts}\n{explanation}\nNext: {next_step}.\n\n{time}")
}

/// One row a part, one column a moment.
fn parts(waste: &Waste) -> String {
    let is_apart = waste.filled.sample.after_records != waste.peak.sample.after_records;
    let filled = is_apart.then_some((&waste.filled, ">filling up"));
    let columns: Vec<(&Moment, &'static str)> = [(&waste.peak, ">peak")]
        .into_iter()
        .chain(filled)
        .chain(waste.ooms.iter().zip([">1st OOM", ">2nd OOM"]).take(OOM_COLUMNS))
        .collect();
    let mut heads = vec!["part"];
    for (_, head) in &columns {
        heads.extend([*head, ">share"]);
    }
    let mut table = Table::new(&heads);
    let share = |moment: &Moment, part: u64| match moment.sample.reserved_bytes {
        0 => String::new(),
        reserved => format!("{:.1} %", 100.0 * part as f64 / reserved as f64),
    };
    for (at, (name, _)) in Parts::default().named().into_iter().enumerate() {
        let mut cells = vec![name.to_owned()];
        for (moment, _) in &columns {
            let part = moment.sample.parts.named()[at].1;
            cells.extend([bytes::show(part), share(moment, part)]);
        }
        table.row(cells);
    }
    let mut cells = vec!["reserved".to_owned()];
    for (moment, _) in &columns {
        let reserved = moment.sample.reserved_bytes;
        cells.extend([bytes::show(reserved), share(moment, reserved)]);
    }
    table.row(cells);
    match waste.ooms_total.saturating_sub(OOM_COLUMNS as u64) {
        0 => table.render(),
        more => table.render() + &format!("and {more} more times out of memory: --json has them\n"),
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
