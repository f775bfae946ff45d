//! `vramtape compare RUN...`: the table over strategies and settings, and the page that draws them.

mod page;
mod ranks;

use std::path::{Path, PathBuf};

use anyhow::Result;
use replay::compare::{USUAL_SETTINGS, compare, compare_over_time};
use replay::driver::DriveError;
use replay::report::Report;
use replay::series::Point;
use replay::strategy::Choice;
use serde::Serialize;

use crate::runs::{Rank, RunsFlags, Share, concluded};
use crate::setting::Chosen;
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
    runs: RunsFlags,
    /// Settings to add to the table, as in PYTORCH_CUDA_ALLOC_CONF; may be given several times
    #[arg(long, value_name = "SETTINGS")]
    config: Vec<String>,
    /// A strategy to add to the table, with its settings; may be given several times
    #[arg(long, value_name = "NAME[:SETTINGS]", long_help = strategy::table(ABOUT_STRATEGY))]
    strategy: Vec<StrategyFlag>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a page with plots over time, of the worst rank if there are several; it needs nothing but a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace that file if it is there
    #[arg(short, long, requires = "html")]
    force: bool,
}

/// The table of one rank.
#[derive(Serialize)]
struct Comparison {
    capacity_bytes: Option<u64>,
    /// Which row has the settings that the run was recorded with.
    recorded_row: usize,
    rows: Vec<Report>,
    /// What each row held over time, for a page.
    #[serde(skip)]
    series: Vec<Vec<Point>>,
}

/// Replays under each and prints one row a setting.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    if let Some(file) = &options.html {
        output::check(file, options.force)?;
    }
    let jobs = choices_max(&options.config, &options.strategy);
    let compared =
        options.runs.each("comparing", jobs, |chosen, share| compared(options, chosen, share))?;
    let rank = match compared.only() {
        Ok(rank) => rank,
        Err(ranks) => return ranks::report(options, &ranks),
    };
    if options.json {
        output::print_json(&rank)?;
    } else {
        output::print(&(text(&rank.found) + &concluded(&rank.inferred)))?;
    }
    // The table is there already if the page cannot be written.
    if let Some(file) = &options.html {
        write_page(file, &rank, rank.name.clone())?;
    }
    Ok(Verdict::Good)
}

/// Replays one rank under each.
fn compared(options: &Options, chosen: &Chosen, share: &Share<'_>) -> Result<Comparison> {
    let choices = choices(chosen, &options.config, &options.strategy)?;
    share.begin(choices.len() as u64 * chosen.device().records.len() as u64);
    let (capacity_bytes, follow) = (chosen.capacity_bytes, chosen.follow);
    let done = |records| share.at(records);
    let (rows, series) = chosen.with_device(|device| {
        Ok::<_, DriveError>(match options.html {
            None => (compare(device, &choices, capacity_bytes, follow, done)?, Vec::new()),
            Some(_) => {
                compare_over_time(device, &choices, capacity_bytes, follow, page::POINTS, done)?
                    .into_iter()
                    .unzip()
            }
        })
    })?;
    Ok(Comparison { capacity_bytes, recorded_row: 0, rows, series })
}

/// Writes the page of a rank, which it calls `run`.
fn write_page(file: &Path, rank: &Rank<Comparison>, run: String) -> Result<()> {
    let comparison = &rank.found;
    let rows = comparison.rows.iter().zip(&comparison.series).enumerate();
    let rows: Vec<_> =
        rows.map(|(at, (report, points))| (comparison.label(at), report, &points[..])).collect();
    let sentences = [live(comparison), verdict(comparison)].into_iter().flatten();
    let summary: Vec<String> = sentences.map(|sentence| sentence.trim().to_owned()).collect();
    let about = page::About {
        run,
        device: rank.device,
        capacity_bytes: comparison.capacity_bytes,
        summary: summary.join(". "),
        inferred: &rank.inferred,
    };
    page::write(file, &page::Data::new(about, &rows))
}

impl Comparison {
    /// The settings of a row, in words.
    fn label(&self, at: usize) -> String {
        let recorded = if at == self.recorded_row { " (as recorded)" } else { "" };
        format!("{}{recorded}", settings(&self.rows[at]))
    }
}

/// The settings of a row over several ranks, in words.
pub(crate) fn label_of(name: &str, config: &str, is_recorded: bool, is_mixed: bool) -> String {
    match (is_recorded, is_mixed) {
        (true, true) => "each its own (as recorded)".to_owned(),
        (true, false) => format!("{} (as recorded)", settings_of(name, config)),
        (false, _) => settings_of(name, config).to_owned(),
    }
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

/// How many choices that makes at most.
pub(crate) fn choices_max(configs: &[String], strategies: &[StrategyFlag]) -> usize {
    1 + USUAL_SETTINGS.len() + models().count() + configs.len() + strategies.len()
}

/// The settings of a row, in words where they are none.
pub(crate) fn settings(report: &Report) -> &str {
    settings_of(&report.strategy, &report.config)
}

/// The same, of a strategy's name and its settings.
pub(crate) fn settings_of<'r>(name: &str, config: &'r str) -> &'r str {
    match (config, strategy::is_live(name)) {
        ("", true) => "PyTorch's defaults",
        ("", false) => "defaults",
        (text, _) => text,
    }
}

fn text(comparison: &Comparison) -> String {
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
        table.row([
            row.strategy.clone(),
            comparison.label(at),
            bytes::show(row.peak_reserved_bytes),
            format!("{:.3}", row.efficiency),
            (row.device_allocs + row.device_frees).to_string(),
            format!("{:.1}", row.driver_time_ns as f64 / 1e6),
            row.num_alloc_retries.to_string(),
            row.num_ooms.to_string(),
        ]);
    }
    let mut text = table.render();
    if let Some(live) = live(comparison) {
        text = format!("{live}\n\n{text}");
    }
    if let Some(better) = verdict(comparison) {
        text.push_str(&better);
    }
    text
}

/// What nothing can go below.
fn live(comparison: &Comparison) -> Option<String> {
    let live = bytes::show(comparison.rows.first()?.peak_live_bytes);
    let capacity = comparison.capacity_bytes.map_or("unlimited".to_owned(), bytes::show);
    Some(format!("peak live {live} (no policy can reserve less), capacity {capacity}"))
}

/// What the table says, in a sentence, where a setting that can be had live reserves less than the recorded one did.
fn verdict(comparison: &Comparison) -> Option<String> {
    let recorded = comparison.rows.get(comparison.recorded_row)?;
    let fits =
        |row: &&Report| strategy::is_live(&row.strategy) && row.num_ooms <= recorded.num_ooms;
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
