//! `vramtape replay RUN`: what one setting would have reserved.

use anyhow::Result;
use replay::report::Report;
use replay::run::{Options as Setting, run as replay_run};

use crate::progress::Progress;
use crate::setting::{RunFlags, StrategyFlag};
use crate::{Verdict, bytes, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    run: RunFlags,
    /// How requests become placements [default: as recorded]
    #[arg(long, value_name = "NAME")]
    strategy: Option<StrategyFlag>,
    /// Settings as in PYTORCH_CUDA_ALLOC_CONF; empty is PyTorch's defaults [default: as recorded]
    #[arg(long, value_name = "SETTINGS")]
    config: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Replays and reports.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let chosen = options.run.read()?;
    let is_as_recorded = options.config.is_none() && options.strategy.is_none();
    let mut follow = chosen.follow;
    follow.settings = is_as_recorded; // Recorded changes would undo the settings in question.
    let setting = Setting {
        config: chosen.config(options.config.as_deref(), options.strategy)?,
        capacity_bytes: chosen.capacity_bytes,
        memory_fraction: None,
        recorded_addresses: is_as_recorded && options.run.capacity.is_none(),
        follow,
    };
    let progress = Progress::start("replaying", chosen.device().records.len() as u64);
    let report =
        chosen.with_device(|device| replay_run(device, &setting, |done| progress.at(done)))?;
    drop(progress);
    if options.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report))?;
    }
    Ok(Verdict::Good)
}

fn text(report: &Report) -> String {
    let settings = if report.config.is_empty() { "PyTorch's defaults" } else { &report.config };
    let rows = [
        ("strategy", report.strategy.clone()),
        ("settings", settings.to_owned()),
        ("capacity", report.capacity_bytes.map_or("unlimited".to_owned(), bytes::show)),
        ("peak live", bytes::show(report.peak_live_bytes)),
        ("peak allocated", bytes::show(report.peak_allocated_bytes)),
        ("peak reserved", bytes::show(report.peak_reserved_bytes)),
        ("efficiency", format!("{:.3} (peak live / peak reserved)", report.efficiency)),
        (
            "device calls",
            format!(
                "{} allocations, {} frees, about {:.1} ms",
                report.device_allocs,
                report.device_frees,
                report.driver_time_ns as f64 / 1e6
            ),
        ),
        ("retries", report.num_alloc_retries.to_string()),
        ("out of memory", report.num_ooms.to_string()),
        ("events", format!("{} in {:.3} s", report.events, report.elapsed_s)),
    ];
    let lines = rows.map(|(name, value)| format!("{name:<15} {value}"));
    lines.join("\n") + "\n"
}
