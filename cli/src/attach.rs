//! `vramtape attach PID -o FILE`: a tape of a job that runs already.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use recorder::{AttachedCounts, AttachedTape};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::output::OutputFlags;
use crate::rings::RingFolder;
use crate::{Verdict, output, process};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The process [default: the only one that records]
    #[arg(value_name = "PID")]
    pid: Option<u32>,
    #[command(flatten)]
    output: OutputFlags,
    /// How long, for example 30s or 5m [default: until Ctrl-C or the end of the process]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    rings: RingFolder,
}

/// Often enough for the fastest job and a ring of the usual size.
const DRAIN_EVERY: Duration = Duration::from_millis(5);
/// How often is looked for devices that the process has begun to use.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Serialize)]
struct Report {
    output: PathBuf,
    pid: u32,
    seconds: f64,
    /// Why it ended.
    end: &'static str,
    devices: Vec<DeviceReport>,
}

#[derive(Serialize)]
struct DeviceReport {
    device: u16,
    records: u64,
    lost: u64,
    /// Whether the tape starts with all that was live.
    is_complete: bool,
    /// Records that its ring had no space for, a sentence each.
    missing: Vec<String>,
}

/// Writes the tape and prints its content.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let path = &options.output.output;
    if path == Path::new("-") {
        bail!("a tape of a running job has to be a file: name one with -o");
    }
    options.output.check()?;
    let stop = on_signals().context("cannot listen to Ctrl-C")?;
    let report = record(options, path, &stop)?;
    output::print_report(options.json, &report, || text(&report))?;
    Ok(Verdict::Good)
}

/// Set by the first Ctrl-C; the second ends the program at once.
fn on_signals() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn record(options: &Options, path: &Path, stop: &AtomicBool) -> Result<Report> {
    let folder = options.rings.path();
    let mut process = process::choose(&folder, options.pid)?;
    let mut tape = AttachedTape::begin(path, &process.rings)?;
    let started = Instant::now();
    let mut looked_at = started;
    let spinner = ProgressBar::new_spinner();
    let end = loop {
        let counts = tape.counts();
        if let Err(error) = tape.drain() {
            spinner.finish_and_clear();
            let kept = tape.finish().is_ok();
            let what =
                if kept { "holds the records read until then" } else { "could not be written" };
            return Err(error).context(format!("{} {what}", path.display()));
        }
        if stop.load(Ordering::Relaxed) {
            break "stopped";
        }
        if options.duration.is_some_and(|duration| started.elapsed() >= duration) {
            break "the time is over";
        }
        // Asked before the last records were read.
        if !counts.iter().any(|ring| ring.is_live) {
            break "the process ended";
        }
        if looked_at.elapsed() >= LOOK_EVERY {
            looked_at = Instant::now();
            spinner.set_message(progress(&counts, started.elapsed()));
            spinner.tick();
            let now = process::list(&folder).unwrap_or_default();
            for now in now.into_iter().filter(|now| now.pid == process.pid) {
                for ring in now.rings {
                    // It may be gone again.
                    if !process.rings.contains(&ring) && tape.add(&ring).is_ok() {
                        process.rings.push(ring);
                    }
                }
            }
        }
        thread::sleep(DRAIN_EVERY);
    };
    spinner.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    if tape.counts().iter().all(|ring| !ring.has_state) {
        match tape.no_state() {
            Some(error) => {
                bail!("there is no state of process {} to start from: {error}", process.pid)
            }
            None => bail!("process {} has no ring to read", process.pid),
        }
    }
    let devices = tape.finish()?.into_iter().map(DeviceReport::of).collect();
    Ok(Report { output: path.to_owned(), pid: process.pid, seconds, end, devices })
}

impl DeviceReport {
    fn of(counts: AttachedCounts) -> Self {
        let AttachedCounts { device, records, lost, has_state, is_complete, missing, .. } = counts;
        Self { device: device.0, records, lost, is_complete: has_state && is_complete, missing }
    }
}

fn progress(counts: &[AttachedCounts], elapsed: Duration) -> String {
    let records: u64 = counts.iter().map(|ring| ring.records).sum();
    let lost: u64 = counts.iter().map(|ring| ring.lost).sum();
    format!("{records} records in {} s, {lost} lost; Ctrl-C finishes the tape", elapsed.as_secs())
}

fn text(report: &Report) -> String {
    let Report { output, pid, seconds, end, devices } = report;
    let mut lines = vec![format!("{}: process {pid}, {seconds:.1} s, {end}\n", output.display())];
    for DeviceReport { device, records, lost, is_complete, missing } in devices {
        lines.push(format!("  device {device}: {records} records, {lost} lost\n"));
        if !is_complete {
            lines.push("    its state at the start is incomplete\n".to_owned());
        }
        lines.extend(missing.iter().map(|what| format!("    {what}\n")));
    }
    lines.concat()
}

/// `30s`, `5m`, `1h`, or seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, scale) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number * scale < 1e9 => {
            Ok(Duration::from_secs_f64(number * scale))
        }
        _ => Err("write for example 30s, 5m or 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for text in ["", "s", "-1s", "0", "nan", "1d", "1e30h", "ü"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }
}
