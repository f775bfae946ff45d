//! `vramtape pack FILE`: offsets for buffers whose lifetimes are known.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use packing::{Packing, bound_bytes, pack};
use replay::import::RunLimits;
use replay::pack::{Problem, blocks, read};
use serde::Serialize;
use settings::parse_bytes;

use crate::input::{self, TrustFlag};
use crate::plan::seconds;
use crate::progress::Spinner;
use crate::{Verdict, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A problem of minimalloc (CSV with id, lower, upper, size), or a run, whose blocks are packed
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where to write the problem with an offset for each buffer; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(short, long)]
    force: bool,
    /// Fit the buffers into so many bytes, and stop there [default: as low as possible]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<String>,
    /// Search for so long at most
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    time: f64,
    /// Which device of a run, if it has several
    #[arg(long, value_name = "N")]
    device: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustFlag,
}

#[derive(Serialize)]
struct Report<'a> {
    file: &'a Path,
    /// Where the offsets were written.
    output: Option<&'a Path>,
    buffers: usize,
    capacity_bytes: Option<u64>,
    /// Whether the buffers fit; `null` without a capacity.
    fits: Option<bool>,
    height_bytes: u64,
    /// The most bytes that live at once: no packing is lower.
    bound_bytes: u64,
    elapsed_s: f64,
}

/// Packs, checks, writes and reports.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let is_to_stdout = options.output.as_deref() == Some(Path::new("-"));
    if is_to_stdout && options.json {
        bail!("--json and the offsets cannot both go to standard output: give -o a file");
    }
    if let Some(output) = &options.output {
        output::check(output, options.force)?;
    }
    let capacity = options.capacity.as_deref().map(parse_bytes).transpose();
    let capacity_bytes = capacity.map_err(anyhow::Error::msg).context("--capacity")?;
    let problem = problem(options)?;

    let packing = Spinner::start("packing");
    let (started, budget) = (Instant::now(), Duration::from_secs_f64(options.time));
    let made = pack(&problem.buffers, capacity_bytes, &mut || started.elapsed() > budget);
    let elapsed_s = started.elapsed().as_secs_f64();
    drop(packing);
    let checked = packing::check::check(&problem.buffers, &made.offsets);
    assert_eq!(checked, Ok(()), "buffers overlap");
    if let Some(output) = &options.output {
        output::write_file(output, &csv(&problem, &made)?)?;
    }

    let fits = capacity_bytes.map(|capacity_bytes| made.height_bytes <= capacity_bytes);
    let report = Report {
        file: &options.file,
        output: options.output.as_deref(),
        buffers: problem.buffers.len(),
        capacity_bytes,
        fits,
        height_bytes: made.height_bytes,
        bound_bytes: bound_bytes(&problem.buffers),
        elapsed_s,
    };
    if !is_to_stdout {
        output::print_report(options.json, &report, || text(&report))?;
    }
    Ok(if fits == Some(false) { Verdict::Bad } else { Verdict::Good })
}

/// The problem, or the blocks of the run.
fn problem(options: &Options) -> Result<Problem> {
    let known = options.trust.with(&RunLimits::default());
    if let Some(problem) = read(&options.file, &known)? {
        return Ok(problem);
    }
    let tape = input::read(&options.file, &known)?;
    let ids: Vec<_> = tape.devices.iter().map(|device| device.id.0).collect();
    let is_wanted = |id: u16| options.device.is_none_or(|wanted| wanted == id);
    let mut wanted = tape.devices.iter().filter(|device| is_wanted(device.id.0));
    match (wanted.next(), wanted.next()) {
        (Some(device), None) => Ok(blocks(device)?),
        _ => bail!("the run has devices {ids:?}: choose one with --device N"),
    }
}

/// The problem in minimalloc's format, with offsets.
fn csv(problem: &Problem, made: &Packing) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["id", "lower", "upper", "size", "offset"])?;
    for ((name, buffer), offset) in problem.names.iter().zip(&problem.buffers).zip(&made.offsets) {
        let numbers = [buffer.lower.to_string(), buffer.upper.to_string()];
        let [lower, upper] = &numbers;
        let (size, offset) = (buffer.size_bytes.to_string(), offset.to_string());
        writer.write_record([name, lower, upper, &size, &offset])?;
    }
    Ok(writer.into_inner()?)
}

fn text(report: &Report<'_>) -> String {
    let Report { buffers, height_bytes, bound_bytes, elapsed_s, .. } = report;
    let file = report.file.display();
    let above = if height_bytes == bound_bytes || *bound_bytes == 0 {
        "as low as possible".to_owned()
    } else {
        let above = 100.0 * (*height_bytes as f64 / *bound_bytes as f64 - 1.0);
        format!("{above:.2} % above the {bound_bytes} that live at once")
    };
    let fits = match (report.fits, report.capacity_bytes) {
        (Some(true), Some(capacity)) => format!("fits into {capacity} bytes\n"),
        (Some(false), Some(capacity)) if *bound_bytes > capacity => {
            format!("cannot fit into {capacity} bytes: more live at once\n")
        }
        (Some(false), Some(capacity)) => {
            format!("not fitted into {capacity} bytes; search longer with --time\n")
        }
        _ => String::new(),
    };
    let output = report.output.map(|output| format!("offsets: {}\n", output.display()));
    let output = output.unwrap_or_default();
    format!(
        "{file}: {buffers} buffers in {height_bytes} bytes, {above} ({elapsed_s:.2} s)\n{fits}{output}"
    )
}
