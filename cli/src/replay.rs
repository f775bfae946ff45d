//! `vramtape replay RUN`: what one setting would have reserved.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use replay::address_orders::{ReservedRange, reserved_range};
use replay::export::{Format, SnapshotDevice, SnapshotSource, write_snapshot};
use replay::pool_peaks::PoolsApart;
use replay::report::Report;
use replay::run::{Options as Setting, Outcome, run as replay_run, run_recording};
use replay::start::Departure;
use replay::strategy::Choice;
use serde::Serialize;

use crate::compare::settings;
use crate::progress::Progress;
use crate::runs::{Bound, inferred_notes};
use crate::setting::{Chosen, RunFlags};
use crate::start::{self, Started};
use crate::strategy::StrategyFlag;
use crate::{Verdict, bytes, output, strategy};

/// The help of `--strategy`.
const ABOUT_STRATEGY: &str = "How requests become placements [default: as recorded]";

/// The most orders of addresses.
const ORDERS_MAX: i64 = 64;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    run: RunFlags,
    /// How requests become placements [default: as recorded]
    #[arg(long, value_name = "NAME[:SETTINGS]", long_help = strategy::table(ABOUT_STRATEGY))]
    strategy: Option<StrategyFlag>,
    /// Settings as in PYTORCH_CUDA_ALLOC_CONF; empty is PyTorch's defaults [default: as recorded]
    #[arg(long, value_name = "SETTINGS")]
    config: Option<String>,
    /// Also replay with N other orders of the driver's addresses, and print the range of reserved memory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ORDERS_MAX))]
    address_orders: Option<u32>,
    /// Also write what the allocator did as a PyTorch memory snapshot, for its viewer (.json: as JSON)
    #[arg(long, value_name = "OUT.pickle")]
    snapshot: Option<PathBuf>,
    /// Replace the snapshot if it is there
    #[arg(short, long, requires = "snapshot")]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// The memory before the first record; `null` where the run begins with an empty device.
    start: Option<Started>,
    /// By how much the replay of the recorded settings differs from the recording.
    replay_differs: Option<Departure>,
    /// Reserved memory under other orders of addresses, if they were asked for.
    address_orders: Option<ReservedRange>,
    /// Facts that an import inferred, a sentence each.
    inferred: &'a [String],
    #[serde(flatten)]
    bound: &'a Bound,
}

/// Replays and reports.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    if let Some(snapshot) = &options.snapshot {
        output::check(snapshot, options.force)?;
    }
    let chosen = options.run.read()?;
    let setting = chosen.setting(options.strategy.as_ref(), options.config.as_deref())?;
    let records = chosen.device().records.len() as u64;
    let replays = 1 + u64::from(options.address_orders.unwrap_or(0));
    let progress = Progress::start("replaying", replays * records);
    let mut done = |records| progress.at(records);
    let report = match &options.snapshot {
        None => chosen.with_device(|device| replay_run(device, &setting, &mut done))?,
        Some(snapshot) => {
            let outcome =
                chosen.with_device(|device| run_recording(device, &setting, &mut done))?;
            export(snapshot, &chosen, &setting, &outcome)?;
            outcome.report
        }
    };
    let range = |orders| {
        let next = || progress.add(records);
        chosen.with_device(|device| {
            reserved_range(device, &setting, report.peak_reserved_bytes, orders, &next)
        })
    };
    let address_orders = options.address_orders.map(range).transpose()?;
    drop(progress);
    let bound = Bound::of(&chosen);
    let is_as_recorded = options.strategy.is_none() && options.config.is_none();
    let replay_differs = is_as_recorded.then(|| chosen.departure(&report)).flatten();
    let (start, inferred) = (chosen.started(), chosen.inferred());
    if options.json {
        let (report, bound) = (&report, &bound);
        let answer = Answer { report, start, replay_differs, address_orders, inferred, bound };
        output::print_json(&answer)?;
    } else {
        let compared = (!is_as_recorded).then_some(report.peak_reserved_bytes);
        let about = start::paragraph(start, compared)
            + &replay_differs.as_ref().map_or(String::new(), start::difference)
            + &bound.note();
        let range = address_orders.map_or(String::new(), range_line);
        output::print(&(text(&report, &bound) + &range + &about + &inferred_notes(inferred)))?;
    }
    Ok(Verdict::Good)
}

fn export(path: &Path, chosen: &Chosen, setting: &Setting, outcome: &Outcome) -> Result<()> {
    let Choice::Native(config) = &setting.strategy else {
        bail!("only native, expandable and stitch can write a snapshot: leave out --snapshot");
    };
    let device = chosen.device();
    let source = SnapshotSource {
        devices: vec![SnapshotDevice {
            device: device.id,
            base: &device.base.segments,
            records: &outcome.records,
            segments: &outcome.segments,
        }],
        stacks: &chosen.tape().stacks,
        config,
    };
    let format = match path.extension().and_then(OsStr::to_str) {
        Some("json") => Format::Json,
        _ => Format::Pickle,
    };
    Ok(write_snapshot(path, &source, format)?)
}

fn range_line(range: ReservedRange) -> String {
    let (lower, upper) = (bytes::show(range.lower_bytes), bytes::show(range.upper_bytes));
    format!("{:<15} {lower} to {upper} with {} other orders\n", "addresses", range.orders)
}

fn text(report: &Report, bound: &Bound) -> String {
    let peak = |size_bytes: u64| bound.number(bytes::show(size_bytes));
    // Of expandable segments it is what is reserved.
    let mapped_bytes = report.peak_mapped_bytes;
    let mapped = (mapped_bytes > report.peak_reserved_bytes)
        .then(|| ("peak mapped", format!("{} of addresses", peak(mapped_bytes))));
    let pools = report.pools.into_iter().flat_map(|PoolsApart { default, private }| {
        [("default pool", default), ("private pools", private)].map(|(name, peaks)| {
            let (live, reserved) = (peaks.peak_live_bytes, peaks.peak_reserved_bytes);
            let share = peaks.efficiency;
            (name, format!("{} live, {} reserved, {share:.3}", peak(live), peak(reserved)))
        })
    });
    let rows = [
        ("strategy", report.strategy.clone()),
        ("settings", settings(report).to_owned()),
        ("capacity", report.capacity_bytes.map_or("unlimited".to_owned(), bytes::show)),
        ("peak live", peak(report.peak_live_bytes)),
        ("peak allocated", peak(report.peak_allocated_bytes)),
        ("peak reserved", peak(report.peak_reserved_bytes)),
        ("efficiency", format!("{:.3} (peak live / peak reserved)", report.efficiency)),
        (
            "device calls",
            format!(
                "{} allocations, {} frees; {} driver calls in all, {} of them mappings, about {:.1} ms",
                report.device_allocs,
                report.device_frees,
                report.driver_calls,
                report.driver_maps,
                report.driver_time_ns as f64 / 1e6
            ),
        ),
        ("retries", report.num_alloc_retries.to_string()),
        ("out of memory", report.num_ooms.to_string()),
        ("events", format!("{} in {:.3} s", report.events, report.elapsed_s)),
    ];
    let rows = rows.into_iter().chain(mapped).chain(pools);
    let lines: Vec<_> = rows.map(|(name, value)| format!("{name:<15} {value}")).collect();
    lines.join("\n") + "\n"
}
