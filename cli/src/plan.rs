//! `vramtape plan RUN... -o FILE`: places the requests of runs for `stitch`, offline.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use replay::plan::{PlannedStream, plan};
use replay::report::Report;
use replay::run::{Options as Setting, run as replay};
use replay::strategy::Choice;
use replay::strategy::table::{NATIVE, STITCH};
use serde::Serialize;
use settings::{Config, Plan};

use crate::output::{self, OutputFlags};
use crate::progress::Spinner;
use crate::setting::{Chosen, MachineFlags};
use crate::strategy::StrategyFlag;
use crate::table::Table;
use crate::{Verdict, bytes};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A tape, a snapshot or a log; several are planned side by side
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    output: OutputFlags,
    /// Search for better placements of a stream for so long at most
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    time: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Planned<'a> {
    output: &'a Path,
    runs: Vec<PlannedRun<'a>>,
}

/// A run, and its replays.
#[derive(Serialize)]
struct PlannedRun<'a> {
    run: &'a Path,
    streams: Vec<PlannedStream>,
    native: Replayed,
    stitch: Replayed,
    planned: Replayed,
}

/// A replay of the whole run.
#[derive(Serialize)]
struct Replayed {
    peak_reserved_bytes: u64,
    efficiency: f64,
    driver_calls: u64,
    driver_time_ns: u64,
    num_ooms: i64,
}

impl From<Report> for Replayed {
    fn from(report: Report) -> Self {
        let Report {
            peak_reserved_bytes, efficiency, driver_calls, driver_time_ns, num_ooms, ..
        } = report;
        Self { peak_reserved_bytes, efficiency, driver_calls, driver_time_ns, num_ooms }
    }
}

/// A number of seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "write a number of seconds, at most 86400".to_owned())
}

/// Plans, writes the plan, and replays each run with it.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    if options.json && options.output.output == Path::new("-") {
        bail!("--json and the plan cannot both go to standard output: give -o a file");
    }
    options.output.check()?;
    let mut runs = Vec::with_capacity(options.runs.len());
    for path in &options.runs {
        runs.push((path, options.machine.read_one(path)?));
    }
    let mut whole = Plan::default();
    let mut streams = Vec::new();
    for (path, chosen) in &runs {
        let planning = Spinner::start(&format!("planning {}", path.display()));
        let started = Instant::now();
        let budget = Duration::from_secs_f64(options.time);
        let setting = stitch(chosen)?;
        let planned =
            chosen.with_device(|tape| plan(tape, &setting, &mut || started.elapsed() > budget));
        let (plan, of_run) = planned.with_context(|| path.display().to_string())?;
        drop(planning);
        whole.sequences.extend(plan.sequences);
        streams.push(of_run);
    }
    output::write_file(&options.output.output, whole.to_string().as_bytes())?;
    if options.output.output == Path::new("-") {
        return Ok(Verdict::Good);
    }
    let whole = Arc::new(whole);
    let replaying = Spinner::start("replaying");
    let reports = runs.iter().zip(streams).map(|((run, chosen), streams)| {
        let stitch = stitch(chosen)?;
        let native = chosen.setting(Some(&StrategyFlag::live(&NATIVE)), None)?;
        let config = Config { plan: Some(Arc::clone(&whole)), ..stitch.native_config()?.clone() };
        let planned = Setting { strategy: Choice::Native(config), ..stitch.clone() };
        let replayed = |setting: &Setting| {
            let report = chosen.with_device(|tape| replay(tape, setting, &mut |_| {}))?;
            anyhow::Ok(Replayed::from(report))
        };
        let (native, stitch) = (replayed(&native)?, replayed(&stitch)?);
        Ok(PlannedRun { run, streams, native, stitch, planned: replayed(&planned)? })
    });
    let runs: Vec<_> = reports.collect::<Result<_>>()?;
    drop(replaying);
    let planned = Planned { output: &options.output.output, runs };
    output::print_report(options.json, &planned, || text(&planned))?;
    Ok(Verdict::Good)
}

fn stitch(chosen: &Chosen) -> Result<Setting> {
    chosen.setting(Some(&StrategyFlag::live(&STITCH)), None)
}

fn text(planned: &Planned<'_>) -> String {
    let runs: String = planned.runs.iter().map(run_text).collect();
    format!("{runs}next: VRAMTAPE_CONF=strategy:stitch,plan:{}\n", planned.output.display())
}

fn run_text(run: &PlannedRun<'_>) -> String {
    let heads = ["", ">reserved", ">in use at the peak", ">driver calls"];
    let mut table = Table::new(&heads);
    let rows = [("native", &run.native), ("stitch", &run.stitch), ("with the plan", &run.planned)];
    for (name, replayed) in rows {
        table.row([
            name.to_owned(),
            bytes::show(replayed.peak_reserved_bytes),
            format!("{:.2} %", 100.0 * replayed.efficiency),
            replayed.driver_calls.to_string(),
        ]);
    }
    let requests: u64 = run.streams.iter().map(|stream| stream.requests).sum();
    let left_out: u64 = run.streams.iter().map(|stream| stream.left_out).sum();
    let left_out =
        if left_out > 0 { format!("; {left_out} later ones have none") } else { String::new() };
    let name = run.run.display();
    format!("{name}: {requests} large requests have places{left_out}\n{}", table.render())
}
