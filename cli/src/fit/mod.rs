//! `vramtape fit RUN...`: the smallest device that is enough, and whether a given one is.

mod ranks;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use replay::fit::{Exception, Fit, Search, Verdict as OnDevice, fit, verdict};
use replay::run::run as replay_run;
use replay::start::Departure;
use serde::Serialize;

use crate::compare::{choices, choices_max, settings_of};
use crate::runs::{Bound, RanksFlags, Share, inferred_notes};
use crate::setting::Chosen;
use crate::strategy::{StrategyFlag, is_proven};
use crate::table::Table;
use crate::{Verdict, bytes, caller, output, start};

/// Replays that a configuration takes as a rule besides its checks, for the progress bar.
const USUAL_REPLAYS: u64 = 14;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Tapes, snapshots or logs, or folders of them; several are the ranks of a job, each on a device of its own
    #[arg(value_name = "RUN", required_unless_present = "gpu")]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    ranks: RanksFlags,
    /// Settings to add to the table, as in PYTORCH_CUDA_ALLOC_CONF; may be given several times
    #[arg(long, value_name = "SETTINGS")]
    config: Vec<String>,
    /// A strategy to add to the table, with its settings; may be given several times
    #[arg(long, value_name = "NAME[:SETTINGS]")]
    strategy: Vec<StrategyFlag>,
    /// Also answer for this GPU: h100, 4090, "NVIDIA A100-SXM4-40GB", ...; `list` names them all, each with its memory
    /// and where that number is from. The last line is the answer, and so is the exit code: 0 is yes, as recorded or
    /// with settings that are available live; 1 is no, or unknown because the run died, was cut or handled refused
    /// requests
    #[arg(long, value_name = "NAME", conflicts_with = "capacity")]
    gpu: Option<String>,
    /// Larger capacities that are tried as well: more memory is not always enough where less was
    #[arg(long, value_name = "N", default_value_t = 16)]
    checks: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer<'a, T: Serialize> {
    /// The device that was asked for.
    on: Option<&'a FitDevice>,
    /// The answer for it.
    verdict: Option<&'a OnDevice>,
    #[serde(flatten)]
    found: &'a T,
}

/// The table of one rank.
#[derive(Serialize)]
struct Fits {
    /// Which row has the settings that the run was recorded with.
    recorded_row: usize,
    /// By how much a replay of that row on the recorded device differs from the recording.
    replay_differs: Option<Departure>,
    #[serde(skip)]
    is_cold: bool,
    rows: Vec<Fit>,
}

/// A device given on the command line.
#[derive(Serialize)]
struct FitDevice {
    name: String,
    usable_bytes: u64,
}

#[derive(Serialize)]
struct GpuRow {
    name: &'static str,
    total_bytes: u64,
    usable_bytes: u64,
    source: &'static str,
    compute_capability: String,
    context_bytes: u64,
}

/// Searches and prints one row a configuration.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    if options.gpu.as_deref() == Some("list") {
        return list(options.json);
    }
    let place = place(options)?;
    if options.runs.is_empty() {
        bail!("which RUN? Only --gpu list needs none");
    }
    let jobs = choices_max(&options.config, &options.strategy);
    let device_bytes = place.as_ref().map(|place| place.usable_bytes);
    let fits = options.ranks.each(&options.runs, "fitting", jobs, |chosen, share| {
        fits(options, device_bytes, chosen, share)
    })?;
    let rank = match fits.only() {
        Ok(rank) => rank,
        Err(ranks) => return ranks::report(options.json, place.as_ref(), &ranks),
    };
    let rows = &rank.found.rows;
    let on = place.as_ref();
    let verdict = on.and_then(|place| verdict(rows, &place.name, &rank.bound.ending));
    if options.json {
        output::print_json(&Answer { on, verdict: verdict.as_ref(), found: &rank })?;
    } else {
        let peak = rows.first().map(|row| row.unlimited_peak_bytes);
        let differs = rank.found.replay_differs.as_ref();
        let label = start::label(differs, rank.found.is_cold);
        let about = start::paragraph(rank.started, peak)
            + &differs.map_or(String::new(), start::difference)
            + &rank.bound.note();
        let text = text(rows, on, &rank.bound, label) + &about + &inferred_notes(&rank.inferred);
        output::print(&(text + &line(verdict.as_ref())))?;
    }
    // A model is not available to a live program, so it does not count.
    let is_enough = |fit: &Fit| is_proven(&fit.strategy);
    Ok(exit(verdict.as_ref(), rows.iter().any(is_enough)))
}

/// The verdict as the last line of a report.
fn line(verdict: Option<&OnDevice>) -> String {
    verdict.map_or(String::new(), |verdict| format!("\n{}\n", verdict.text))
}

/// The exit code: the verdict's, if a device was asked for.
fn exit(verdict: Option<&OnDevice>, otherwise: bool) -> Verdict {
    let is_yes = verdict.map_or(otherwise, OnDevice::is_yes);
    if is_yes { Verdict::Good } else { Verdict::Bad }
}

/// Searches for one rank.
fn fits(
    options: &Options,
    device_bytes: Option<u64>,
    chosen: &Chosen,
    share: &Share<'_>,
) -> Result<Fits> {
    let choices = choices(chosen, &options.config, &options.strategy)?;
    let search = Search { follow: chosen.follow, checks: options.checks, device_bytes };
    let replays = choices.len() as u64 * (USUAL_REPLAYS + u64::from(options.checks));
    let each = chosen.device().records.len() as u64;
    share.begin(replays * each);
    let done = AtomicU64::new(0);
    let rows = chosen.with_device(|device| {
        fit(device, &choices, search, &|| {
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            share.at(done.min(replays) * each);
        })
    })?;
    // Only a start can make the replay another one: whole runs need no replay more.
    let mut replay_differs = None;
    if chosen.started().is_some() && !chosen.is_cold() && chosen.before_edits().is_none() {
        let setting = chosen.setting(None, None)?;
        let report = chosen.with_device(|device| replay_run(device, &setting, &mut |_| ()))?;
        replay_differs = chosen.departure(&report);
    }
    Ok(Fits { recorded_row: 0, replay_differs, is_cold: chosen.is_cold(), rows })
}

/// The device to try: a named GPU, or `--capacity`.
fn place(options: &Options) -> Result<Option<FitDevice>> {
    if let Some(name) = &options.gpu {
        let Some(gpu) = gpus::find(name) else {
            let close = gpus::suggest(name).join(", ");
            let meant =
                if close.is_empty() { ";".to_owned() } else { format!("; did you mean {close}?") };
            bail!(
                "--gpu {name}: not known{meant} `vramtape fit --gpu list` names all; or give --capacity"
            );
        };
        if let Some(other) = gpus::other_size(name) {
            caller::warn(&format!(
                "--gpu {name} is read as {}; the other is {}",
                gpu.name, other.name
            ));
        }
        return Ok(Some(FitDevice { name: gpu.name.clone(), usable_bytes: gpu.usable_bytes() }));
    }
    let asked = options.ranks.machine.capacity()?;
    Ok(asked.map(|bytes| FitDevice { name: bytes::show(bytes), usable_bytes: bytes }))
}

fn text(rows: &[Fit], place: Option<&FitDevice>, bound: &Bound, label: &str) -> String {
    let mut heads = vec![
        "strategy",
        "settings",
        bound.head(">fits from", ">fits from at least"),
        bound.head(">unlimited", ">unlimited at least"),
        ">retries there",
        ">settled",
    ];
    if place.is_some() {
        heads.push(">on this device");
    }
    let mut table = Table::new(&heads);
    for (at, row) in rows.iter().enumerate() {
        let settings = settings_of(&row.strategy, &row.config);
        let recorded = if at == 0 { format!(" ({label})") } else { String::new() };
        let retries = row.at_capacity.map_or(String::new(), |at| at.num_alloc_retries.to_string());
        let mut cells = vec![
            row.strategy.clone(),
            format!("{settings}{recorded}"),
            row.capacity_bytes.map_or("never".to_owned(), bytes::show),
            bytes::show(row.unlimited_peak_bytes),
            retries,
            format!("{:.0} %", 100.0 * row.settled_share),
        ];
        cells.extend(row.on_device.map(|on| match on.num_ooms {
            0 if bound.lower_bound => {
                format!("unknown, at most {} left", bytes::show(on.spare_bytes))
            }
            0 => format!("fits, {} left", bytes::show(on.spare_bytes)),
            times => format!("no, {times} OOMs"),
        }));
        table.row(cells);
    }
    let live = |row: &Fit| bound.number(bytes::show(row.peak_live_bytes));
    let mut text = match (rows.first(), place) {
        (Some(row), Some(place)) => format!(
            "peak live {} (no policy can reserve less), on {}: {} for the allocator\n\n",
            live(row),
            place.name,
            bytes::show(place.usable_bytes)
        ),
        (Some(row), None) => {
            format!("peak live {} (no policy can reserve less)\n\n", live(row))
        }
        (None, _) => String::new(),
    };
    text.push_str(&table.render());
    text.push_str(&notes(rows, bound));
    text
}

/// The lines below the table: exceptions, and the best row.
fn notes(rows: &[Fit], bound: &Bound) -> String {
    let settings = |row: &Fit| {
        let settings = settings_of(&row.strategy, &row.config);
        if is_proven(&row.strategy) {
            settings.to_owned()
        } else {
            format!("{} ({settings})", row.strategy)
        }
    };
    let exceptions = rows.iter().filter_map(|row| {
        let Exception { fits_bytes, fails_bytes } = row.exception?;
        let (fits, fails) = (bytes::show(fits_bytes), bytes::show(fails_bytes));
        Some(format!("{}: {fits} happens to be enough, though {fails} is not", settings(row)))
    });
    let enough = rows
        .iter()
        .filter(|row| is_proven(&row.strategy))
        .filter_map(|row| Some((row.capacity_bytes?, row)));
    let best = match enough.min_by_key(|(bytes, _)| *bytes) {
        Some((bytes, row)) => {
            format!(
                "the smallest device that is enough: {} with {}",
                bound.number(bytes::show(bytes)),
                settings(row)
            )
        }
        None => "no device is enough: the run asks for more than its limits allow".to_owned(),
    };
    "\n".to_owned() + &exceptions.chain([best]).collect::<Vec<_>>().join("\n") + "\n"
}

fn list(as_json: bool) -> Result<Verdict> {
    let rows = gpus::all().iter().map(|gpu| GpuRow {
        name: &gpu.name,
        total_bytes: gpu.memory_bytes,
        usable_bytes: gpu.usable_bytes(),
        source: &gpu.memory_source,
        compute_capability: format!("{}.{}", gpu.capability.major, gpu.capability.minor),
        context_bytes: gpu.context.expected_bytes,
    });
    let rows: Vec<_> = rows.collect();
    if as_json {
        output::print_json(&rows)?;
        return Ok(Verdict::Good);
    }
    let mut table = Table::new(&["name", ">total", ">for the allocator", "source of the total"]);
    for row in rows {
        let (total, usable) = (bytes::show(row.total_bytes), bytes::show(row.usable_bytes));
        table.row([row.name.to_owned(), total, usable, row.source.to_owned()]);
    }
    output::print(&table.render())?;
    Ok(Verdict::Good)
}
