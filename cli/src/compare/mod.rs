//! `vramtape compare RUN...`: the table over strategies and settings, and the page that draws them.

mod edited;
mod ranks;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use replay::advice::{Advice, Measured, choose};
use replay::compare::{StrategyRow, USUAL_SETTINGS, compare};
use replay::driver::DriveError;
use replay::report::Report;
use replay::start::Departure;
use replay::strategy::Choice;
use replay::strategy::table::STITCH;
use serde::Serialize;
use viewer::{PageDevice, StrategiesPlot};

use edited::Edited;

use crate::advice::measured;
use crate::runs::{Bound, Rank, RunsFlags, Share, inferred_notes};
use crate::setting::Chosen;
use crate::strategy::{StrategyFlag, models};
use crate::table::Table;
use crate::{Verdict, bytes, output, page, start, strategy};

/// The help of `--strategy`.
const ABOUT_STRATEGY: &str =
    "A strategy to add to the table, with its settings; may be given several times";

/// Points of a line on the page: about as many as a screen has columns.
const POINTS: usize = 1000;

/// In the place of a row's reserved memory, where its replay passes the bound of driver calls.
const REFUSED: &str = "refused";

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
    /// Write the page of `vramtape view`, with these strategies over time
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
    /// When the run begins.
    #[serde(skip)]
    start_ns: u64,
    /// Which row has the settings that the run was recorded with.
    recorded_row: usize,
    /// By how much the replay of that row differs from the recording.
    replay_differs: Option<Departure>,
    #[serde(skip)]
    is_cold: bool,
    rows: Vec<StrategyRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edited: Option<Edited>,
    /// The recorded run, where a page is asked for.
    #[serde(skip)]
    page: Option<PageDevice>,
    /// Which setting to try, for the edited run if there is one.
    advice: Option<Advice>,
    /// `None` where the run under its recorded settings passes the bound of driver calls.
    #[serde(skip)]
    measured: Option<Measured>,
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
        Err(ranks) => return ranks::report(options, ranks),
    };
    if options.json {
        output::print_json(&rank)?;
    } else {
        let peak = rank.found.recorded().map(|report| report.peak_reserved_bytes);
        let started = start::paragraph(rank.started, peak);
        let text = text(&rank.found, &rank.bound) + &started + &rank.bound.note();
        output::print(&(text + &inferred_notes(&rank.inferred)))?;
    }
    write_page(options, vec![rank])?;
    Ok(Verdict::Good)
}

/// Replays one rank under each, and its edited run.
fn compared(options: &Options, chosen: &Chosen, share: &Share<'_>) -> Result<Comparison> {
    let before = chosen.before_edits();
    let recorded = before.as_ref().map_or(chosen, |(recorded, _)| recorded);
    let choices = choices(recorded, &options.config, &options.strategy)?;
    let work = |chosen: &Chosen| choices.len() as u64 * chosen.device().records.len() as u64;
    let first = work(recorded);
    let drawn = work_of_page(options, recorded);
    share.begin(first + before.as_ref().map_or(0, |_| work(chosen)) + drawn);
    let rows = replayed(options, recorded, &choices, &|done| share.at(done))?;
    let mut edited = None;
    if let Some((_, summary)) = before {
        let rows = replayed(options, chosen, &choices, &|done| share.at(first + done))?;
        let edits = options.runs.ranks.machine.edit.iter().map(ToString::to_string).collect();
        edited = Some(Edited { edits, summary, rows });
    }
    let before_page = first + edited.as_ref().map_or(0, |_| work(chosen));
    let done = AtomicU64::new(before_page);
    let at = |records| share.at(done.fetch_add(records, Ordering::Relaxed) + records);
    let draw = || page::device(share.run, recorded, &at);
    let page = options.html.is_some().then(draw).transpose()?;
    let of_first = rows.first().and_then(StrategyRow::report);
    let replay_differs = of_first.and_then(|report| recorded.departure(report));
    let (capacity_bytes, is_cold) = (chosen.capacity_bytes, chosen.is_cold());
    let known = edited.as_ref().map_or(&rows, |edited: &Edited| &edited.rows);
    let measured = match measured(chosen, None, known, &|| {}) {
        Err(error) if matches!(error.downcast_ref(), Some(DriveError::TooMuch { .. })) => None,
        measured => Some(measured?),
    };
    let advice = choose(measured.as_slice());
    let start_ns = recorded.device().records.first().map_or(0, |record| record.time_ns);
    Ok(Comparison {
        capacity_bytes,
        start_ns,
        recorded_row: 0,
        replay_differs,
        is_cold,
        rows,
        edited,
        page,
        advice,
        measured,
    })
}

/// A row of each choice, with what it held over time if a page is asked for.
fn replayed(
    options: &Options,
    chosen: &Chosen,
    choices: &[Choice],
    done: &(dyn Fn(u64) + Sync),
) -> Result<Vec<StrategyRow>, DriveError> {
    let (capacity_bytes, follow) = (chosen.capacity_bytes, chosen.follow);
    let points = if options.html.is_some() { POINTS } else { 0 };
    chosen.with_device(|device| compare(device, choices, capacity_bytes, follow, points, done))
}

/// The records that the page of a device takes, if one is asked for.
fn work_of_page(options: &Options, chosen: &Chosen) -> u64 {
    let records = chosen.device().records.len() as u64;
    if options.html.is_some() { page::PASSES * records } else { 0 }
}

/// Writes the page of these ranks, if one is asked for. The table is printed already if that fails.
fn write_page(options: &Options, ranks: Vec<Rank<Comparison>>) -> Result<()> {
    let Some(file) = &options.html else { return Ok(()) };
    let title = ranks[0].name.clone();
    let drawn = |mut rank: Rank<Comparison>| {
        let mut page = rank.found.page.take()?;
        page.add_strategies(&plot(&rank));
        Some(page)
    };
    page::write(&page::page(&title, ranks.into_iter().filter_map(drawn).collect()), file)?;
    Ok(())
}

/// The comparison over time.
fn plot(rank: &Rank<Comparison>) -> StrategiesPlot {
    let comparison = &rank.found;
    let edited = comparison.edited.as_ref().map(|edited| &edited.rows[..]);
    let runs: Vec<_> = [Some(&comparison.rows[..]), edited].into_iter().flatten().collect();
    let labels: Vec<_> = (0..comparison.rows.len()).map(|at| comparison.label(at)).collect();
    let at_least = rank.bound.ending.at_least();
    let refused = Some(refused(comparison));
    let sentences = [live(comparison, &rank.bound), refused, verdict(comparison), at_least];
    let sentences = sentences.into_iter().flatten();
    let summary: Vec<String> = sentences
        .map(|sentence| sentence.trim().replace('\n', ". "))
        .filter(|s| !s.is_empty())
        .collect();
    let mut plot = StrategiesPlot::new(comparison.start_ns, &labels, &runs);
    plot.summary = summary.join(". ");
    plot.capacity_bytes = comparison.capacity_bytes;
    plot.inferred.clone_from(&rank.inferred);
    plot
}

impl Comparison {
    /// The replay under the recorded settings.
    fn recorded(&self) -> Option<&Report> {
        self.rows.get(self.recorded_row)?.report()
    }

    /// The settings of a row, in words.
    fn label(&self, at: usize) -> String {
        let (strategy, config) = self.rows[at].name_and_config();
        let settings = settings_of(strategy, config);
        if at != self.recorded_row {
            return settings.to_owned();
        }
        format!("{settings} ({})", start::label(self.replay_differs.as_ref(), self.is_cold))
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
    let configs = USUAL_SETTINGS.into_iter().chain(configs.iter().map(String::as_str));
    let stitch = chosen.choice(Some(&StrategyFlag::live(&STITCH)), None)?;
    let models = models().collect::<Result<Vec<_>, _>>()?;
    choices_of(chosen, configs, [vec![stitch], models].concat(), strategies)
}

/// The recorded settings and what is given, each once.
pub(crate) fn choices_of<'c>(
    chosen: &Chosen,
    configs: impl IntoIterator<Item = &'c str>,
    models: Vec<Choice>,
    strategies: &[StrategyFlag],
) -> Result<Vec<Choice>> {
    let mut choices = vec![chosen.choice(None, None)?];
    let mut add = |choice: Choice| {
        let key = |choice: &Choice| (choice.name(), choice.text().to_owned());
        if choices.iter().all(|known| key(known) != key(&choice)) {
            choices.push(choice);
        }
    };
    for text in configs {
        add(chosen.choice(None, Some(text))?);
    }
    models.into_iter().for_each(&mut add);
    for strategy in strategies {
        add(chosen.choice(Some(strategy), None)?);
    }
    Ok(choices)
}

/// How many choices that makes at most.
pub(crate) fn choices_max(configs: &[String], strategies: &[StrategyFlag]) -> usize {
    2 + USUAL_SETTINGS.len() + models().count() + configs.len() + strategies.len()
}

/// The settings of a row, in words where they are none.
pub(crate) fn settings(report: &Report) -> &str {
    settings_of(&report.strategy, &report.config)
}

/// The same, of a strategy's name and its settings.
pub(crate) fn settings_of<'r>(name: &str, config: &'r str) -> &'r str {
    match (config, strategy::is_proven(name)) {
        ("", _) if name == "stitch" => "defaults (run on one GPU so far)",
        ("", true) => "PyTorch's defaults",
        ("", false) => "defaults",
        (text, _) => text,
    }
}

fn text(comparison: &Comparison, bound: &Bound) -> String {
    let table = match &comparison.edited {
        None => table(comparison, bound),
        Some(edited) => edited::table(comparison, edited),
    };
    let live = live(comparison, bound).map_or(String::new(), |live| live + "\n\n");
    let differs = comparison.replay_differs.as_ref();
    let differs =
        differs.map_or(String::new(), |differs| format!("\n{}", start::difference(differs)));
    let verdict = verdict(comparison).unwrap_or_default();
    live + &table.render() + &refused(comparison) + &verdict + &differs
}

fn table(comparison: &Comparison, bound: &Bound) -> Table {
    let mut reports = comparison.rows.iter().filter_map(StrategyRow::report);
    let has_private_pools = reports.any(|report| report.pools.is_some());
    let before =
        ["strategy", "settings", bound.head(">reserved", ">reserved at least"), ">efficiency"];
    let default_pool = has_private_pools.then_some(">default pool's");
    let behind = [">device calls", ">driver ms", ">retries", ">OOMs"];
    let mut table = Table::new(&[&before[..], default_pool.as_slice(), &behind].concat());
    for (at, row) in comparison.rows.iter().enumerate() {
        let before = [
            row.name_and_config().0.to_owned(),
            comparison.label(at),
            reserved(row),
            figure(row, |report| format!("{:.3}", report.efficiency)),
        ];
        let of_default_pool = |report: &Report| {
            report.pools.map_or(String::new(), |pools| format!("{:.3}", pools.default.efficiency))
        };
        let default_pool = has_private_pools.then(|| figure(row, of_default_pool));
        let behind = [
            figure(row, |report| (report.device_allocs + report.device_frees).to_string()),
            figure(row, |report| format!("{:.1}", report.driver_time_ns as f64 / 1e6)),
            figure(row, |report| report.num_alloc_retries.to_string()),
            figure(row, |report| report.num_ooms.to_string()),
        ];
        table.row(before.into_iter().chain(default_pool).chain(behind));
    }
    table
}

/// A row's reserved memory, or that there is none.
fn reserved(row: &StrategyRow) -> String {
    let show = |report: &Report| bytes::show(report.peak_reserved_bytes);
    row.report().map_or(REFUSED.to_owned(), show)
}

/// A figure of a row; empty where it was refused.
fn figure(row: &StrategyRow, show: impl Fn(&Report) -> String) -> String {
    row.report().map_or(String::new(), show)
}

/// Why rows have no figures, a line each.
fn refused(comparison: &Comparison) -> String {
    let edited = comparison.edited.iter().flat_map(|edited| edited.rows.iter().enumerate());
    let rows = comparison.rows.iter().enumerate();
    let rows = rows.map(|row| ("", row)).chain(edited.map(|row| (", edited", row)));
    let line = |(edited, (at, row)): (&str, (usize, &StrategyRow))| {
        let (strategy, _) = row.name_and_config();
        Some(format!("\n{strategy}, {}{edited}: {}\n", comparison.label(at), row.error()?))
    };
    rows.filter_map(line).collect()
}

/// The lower bound of every row.
fn live(comparison: &Comparison, bound: &Bound) -> Option<String> {
    let live = |rows: &[StrategyRow]| {
        let report = rows.iter().find_map(StrategyRow::report)?;
        Some(bound.number(bytes::show(report.peak_live_bytes)))
    };
    let edited = comparison.edited.as_ref().and_then(|edited| live(&edited.rows));
    let edited = edited.map_or(String::new(), |edited| format!(", edited {edited}"));
    let live = live(&comparison.rows)?;
    let capacity = comparison.capacity_bytes.map_or("unlimited".to_owned(), bytes::show);
    Some(format!("peak live {live}{edited} (no policy can reserve less), capacity {capacity}"))
}

/// The table in a sentence: the setting to try and, with edits, their effect.
fn verdict(comparison: &Comparison) -> Option<String> {
    let advice = format!("\n{}\n", comparison.advice.as_ref()?.text);
    match &comparison.edited {
        Some(edited) => Some(edited::verdict(comparison, edited).unwrap_or_default() + &advice),
        None => Some(advice),
    }
}
