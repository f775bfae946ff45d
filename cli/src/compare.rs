//! `vramtape compare RUN`: the table over strategies and settings.

use anyhow::Result;
use replay::compare::{USUAL_SETTINGS, compare};
use replay::report::Report;
use replay::strategy::Choice;
use replay::strategy::table::row;
use serde::Serialize;

use crate::progress::Progress;
use crate::setting::{Chosen, RunFlags};
use crate::strategy::{StrategyFlag, models};
use crate::table::Table;
use crate::{Verdict, bytes, output, strategy};

/// What `--strategy` does.
const ABOUT_STRATEGY: &str =
    "A strategy to add to the table, with its settings; may be given several times";

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    run: RunFlags,
    /// Settings to add to the table, as in PYTORCH_CUDA_ALLOC_CONF; may be given several times
    #[arg(long, value_name = "SETTINGS")]
    config: Vec<String>,
    /// A strategy to add to the table, with its settings; may be given several times
    #[arg(long, value_name = "NAME[:SETTINGS]", long_help = strategy::table(ABOUT_STRATEGY))]
    strategy: Vec<StrategyFlag>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Comparison {
    device: u16,
    /// Which row has the settings that the run was recorded with.
    recorded_row: usize,
    rows: Vec<Report>,
    /// What an import concluded, a sentence each.
    inferred: Vec<String>,
}

/// Replays under each and prints one row a setting.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let chosen = options.run.read()?;
    let choices = choices(&chosen, &options.config, &options.strategy)?;
    let total = choices.len() as u64 * chosen.device().records.len() as u64;
    let progress = Progress::start("comparing", total);
    let rows = chosen.with_device(|device| {
        let done = |records| progress.at(records);
        compare(device, &choices, chosen.capacity_bytes, chosen.follow, done)
    })?;
    drop(progress);
    let inferred = chosen.inferred().to_vec();
    let comparison = Comparison { device: chosen.device().id.0, recorded_row: 0, rows, inferred };
    if options.json {
        output::print_json(&comparison)?;
    } else {
        output::print(&(text(&comparison, chosen.capacity_bytes) + &chosen.concluded()))?;
    }
    Ok(Verdict::Good)
}

/// The recorded settings, the usual ones and the given ones, all models and the given strategies, each once.
pub(crate) fn choices(
    chosen: &Chosen,
    configs: &[String],
    strategies: &[StrategyFlag],
) -> Result<Vec<Choice>> {
    let mut choices = vec![chosen.choice(None, None)?];
    let mut add = |choice: Choice| {
        let key = |choice: &Choice| (choice.name(), choice.text().to_owned());
        if choices.iter().all(|known| key(known) != key(&choice)) {
            choices.push(choice);
        }
    };
    for text in USUAL_SETTINGS.into_iter().chain(configs.iter().map(String::as_str)) {
        add(chosen.choice(None, Some(text))?);
    }
    for model in models() {
        add(model?);
    }
    for strategy in strategies {
        add(chosen.choice(Some(strategy), None)?);
    }
    Ok(choices)
}

/// The settings of a row, in words where they are none.
pub(crate) fn settings(report: &Report) -> &str {
    settings_of(&report.strategy, &report.config)
}

/// The same, of a strategy's name and its settings.
pub(crate) fn settings_of<'r>(strategy: &str, config: &'r str) -> &'r str {
    match (config, row(strategy).is_ok_and(|row| row.is_live)) {
        ("", true) => "PyTorch's defaults",
        ("", false) => "defaults",
        (text, _) => text,
    }
}

fn is_live(report: &Report) -> bool {
    row(&report.strategy).is_ok_and(|row| row.is_live)
}

fn text(comparison: &Comparison, capacity_bytes: Option<u64>) -> String {
    let heads = [
        "strategy",
        "settings",
        ">reserved",
        ">efficiency",
        ">device calls",
        ">driver ms",
        ">retries",
        ">OOMs",
    ];
    let mut table = Table::new(&heads);
    for (at, row) in comparison.rows.iter().enumerate() {
        let settings = settings(row);
        let recorded = if at == comparison.recorded_row { " (as recorded)" } else { "" };
        table.row([
            row.strategy.clone(),
            format!("{settings}{recorded}"),
            bytes::show(row.peak_reserved_bytes),
            format!("{:.3}", row.efficiency),
            (row.device_allocs + row.device_frees).to_string(),
            format!("{:.1}", row.driver_time_ns as f64 / 1e6),
            row.num_alloc_retries.to_string(),
            row.num_ooms.to_string(),
        ]);
    }
    let mut text = table.render();
    if let Some(row) = comparison.rows.first() {
        let capacity = capacity_bytes.map_or("unlimited".to_owned(), bytes::show);
        let live = bytes::show(row.peak_live_bytes);
        text =
            format!("peak live {live} (no policy can reserve less), capacity {capacity}\n\n{text}");
    }
    if let Some(better) = verdict(comparison) {
        text.push_str(&better);
    }
    text
}

/// What the table says, in a sentence, where a setting that can be had live reserves less than the recorded one did.
fn verdict(comparison: &Comparison) -> Option<String> {
    let recorded = comparison.rows.get(comparison.recorded_row)?;
    let fits = |row: &&Report| is_live(row) && row.num_ooms <= recorded.num_ooms;
    let best = comparison.rows.iter().filter(fits).min_by_key(|row| row.peak_reserved_bytes)?;
    let saved = recorded.peak_reserved_bytes.checked_sub(best.peak_reserved_bytes)?;
    (saved > 0).then(|| {
        let share = 100.0 * saved as f64 / recorded.peak_reserved_bytes as f64;
        let settings = if best.config.is_empty() { "its defaults" } else { &best.config };
        format!(
            "\nleast with {settings}: {} less than recorded ({share:.1} %)\n",
            bytes::show(saved)
        )
    })
}
