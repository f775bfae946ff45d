//! `vramtape diff BEFORE AFTER`: what grew between two runs.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail};
use replay::diff::{Change, Pair, RunDiff, diff};
use replay::import::RunLimits;
use replay::strategy::Choice;
use replay::tape::{Device, Tape};
use replay::verify::recorded_config;
use serde::Serialize;

use crate::fail_on::{Exceeded, Limits};
use crate::input::TrustFlag;
use crate::table::Table;
use crate::{Verdict, bytes, input, output};

/// Rows of a table; JSON has all.
const ROWS: usize = 8;

/// The flags.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 within the limits, 1 a limit of --fail-on is exceeded.")]
pub(crate) struct Options {
    /// The run to compare with
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The run to compare
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Fail if a figure grew by more, such as peak:+2%,reserved:+1GiB; the figures are peak, reserved and step
    #[arg(long, value_name = "LIMITS")]
    fail_on: Option<Limits>,
    /// Write a summary for a pull request in Markdown; - is standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Begin a step at each mark of this name, or where code allocates, as in leaks [default: the marks of steps]
    #[arg(long, value_name = "MARK|CODE")]
    step: Option<String>,
    /// Which device of the runs, if they have several
    #[arg(long, value_name = "N")]
    device: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustFlag,
}

#[derive(Serialize)]
struct Report {
    /// Whether no limit is exceeded.
    within: bool,
    devices: Vec<DeviceReport>,
}

#[derive(Serialize)]
struct DeviceReport {
    device: u16,
    /// `native`, `expandable` or `stitch`, of both runs.
    strategies: [&'static str; 2],
    #[serde(flatten)]
    diff: RunDiff,
    exceeded: Vec<Exceeded>,
}

/// Compares device by device.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let known = options.trust.with(&RunLimits::default());
    let before = input::read(&options.before, &known)?;
    let after = input::read(&options.after, &known)?;
    let mut devices = Vec::new();
    for (one, other) in pairs(&before, &after, options.device)? {
        let diff = diff((&before, one), (&after, other), options.step.as_deref());
        let exceeded = options.fail_on.as_ref().map(|limits| limits.exceeded(&diff));
        devices.push(DeviceReport {
            device: one.id.0,
            strategies: [strategy(&before, one), strategy(&after, other)],
            exceeded: exceeded.transpose().map_err(Error::msg)?.unwrap_or_default(),
            diff,
        });
    }
    let within = devices.iter().all(|device| device.exceeded.is_empty());
    let report = Report { within, devices };
    match options.markdown.as_deref() {
        Some(file) if file == Path::new("-") && !options.json => {
            output::print(&markdown(&report))?;
        }
        file => {
            if let Some(file) = file.filter(|file| *file != Path::new("-")) {
                let context = || format!("cannot write --markdown {}", file.display());
                fs::write(file, markdown(&report)).with_context(context)?;
            }
            output::print_report(options.json, &report, || text(&report))?;
        }
    }
    Ok(if report.within { Verdict::Good } else { Verdict::Bad })
}

/// The devices of both runs, the one that was asked for or all.
fn pairs<'t>(
    before: &'t Tape,
    after: &'t Tape,
    wanted: Option<u16>,
) -> Result<Vec<(&'t Device, &'t Device)>> {
    let ids = |tape: &Tape| tape.devices.iter().map(|device| device.id.0).collect::<Vec<_>>();
    let (one, other) = (ids(before), ids(after));
    if let Some(wanted) = wanted {
        let find = |tape: &'t Tape| tape.devices.iter().find(|device| device.id.0 == wanted);
        let Some(pair) = find(before).zip(find(after)) else {
            bail!("--device {wanted}: the runs have the devices {one:?} and {other:?}");
        };
        return Ok(vec![pair]);
    }
    if one != other || one.is_empty() {
        bail!(
            "the runs have other devices ({one:?} and {other:?}): choose one of both with --device N"
        );
    }
    Ok(before.devices.iter().zip(&after.devices).collect())
}

/// The strategy that a run was recorded under.
fn strategy(tape: &Tape, device: &Device) -> &'static str {
    let config = recorded_config(tape, device, tape.compat());
    Choice::from(config.unwrap_or_default()).name()
}

/// The figures of a device by name.
fn figures(diff: &RunDiff) -> Vec<(&'static str, Pair)> {
    let figures = [
        ("peak allocated", Some(diff.peak)),
        ("peak reserved", diff.reserved),
        ("allocated in a median step", diff.step),
    ];
    figures.into_iter().filter_map(|(name, pair)| Some((name, pair?))).collect()
}

/// The sections of a device that have rows.
fn sections(diff: &RunDiff) -> Vec<(String, &[Change])> {
    let mut sections = Vec::new();
    for (when, changes) in [("at the peak", &diff.at_peak), ("in a median step", &diff.over_step)] {
        for (what, rows) in [
            ("code", &changes.code),
            ("modules", &changes.modules),
            ("categories", &changes.categories),
            ("phases", &changes.phases),
        ] {
            if !rows.is_empty() {
                sections.push((format!("{what} {when}"), &rows[..]));
            }
        }
    }
    sections
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for DeviceReport { device, strategies, diff, exceeded } in &report.devices {
        if report.devices.len() > 1 {
            let _ = writeln!(text, "device {device}");
        }
        if strategies[0] != strategies[1] {
            let _ = writeln!(text, "strategy: {} instead of {}", strategies[1], strategies[0]);
        }
        let mut table = Table::new(&["figure", ">before", ">after", ">change", ">"]);
        for (name, pair) in figures(diff) {
            table.row(cells(name, pair));
        }
        text.push_str(&table.render());
        for (title, rows) in sections(diff) {
            let _ = writeln!(text, "\n{title}");
            let mut table = Table::new(&[">change", ">before", ">after", "name"]);
            for Change { name, bytes } in shown(rows) {
                let [_, before, after, change, _] = cells(name, *bytes);
                table.row([change, before, after, name.clone()]);
            }
            text.push_str(&table.render());
            text.push_str(&more(rows));
        }
        for exceeded in exceeded {
            let _ = writeln!(text, "\n{}", exceeded.sentence());
        }
    }
    text
}

fn markdown(report: &Report) -> String {
    let mut text = String::from("### GPU memory\n");
    for DeviceReport { device, strategies, diff, exceeded } in &report.devices {
        if report.devices.len() > 1 {
            let _ = writeln!(text, "\n#### Device {device}");
        }
        let bold = if exceeded.is_empty() { "" } else { "**" };
        for exceeded in exceeded {
            let _ = writeln!(text, "\n{bold}{}{bold}", exceeded.sentence());
        }
        if strategies[0] != strategies[1] {
            let _ = writeln!(text, "\nStrategy: {} instead of {}", strategies[1], strategies[0]);
        }
        text.push_str("\n| | before | after | change | |\n|---|--:|--:|--:|--:|\n");
        for (name, pair) in figures(diff) {
            let _ = writeln!(text, "| {} |", cells(name, pair).join(" | "));
        }
        for (title, rows) in sections(diff) {
            let _ =
                writeln!(text, "\n| {title} | before | after | change | |\n|---|--:|--:|--:|--:|");
            for Change { name, bytes } in shown(rows) {
                let name = format!("`{}`", name.replace('`', "'").replace('|', "\\|"));
                let _ = writeln!(text, "| {} |", cells(&name, *bytes).join(" | "));
            }
            if rows.len() > ROWS {
                let _ = writeln!(text, "\n{}", more(rows).trim_end());
            }
        }
    }
    text
}

/// The rows with the largest differences, growth first.
fn shown(rows: &[Change]) -> Vec<&Change> {
    let mut largest: Vec<_> = rows.iter().enumerate().collect();
    largest.sort_by_key(|(_, row)| std::cmp::Reverse(row.bytes.grown_bytes().unsigned_abs()));
    largest.truncate(ROWS);
    largest.sort_by_key(|(at, _)| *at);
    largest.into_iter().map(|(_, row)| row).collect()
}

fn more(rows: &[Change]) -> String {
    match rows.len().saturating_sub(ROWS) {
        0 => String::new(),
        hidden => format!("and {hidden} smaller ones: --json has them\n"),
    }
}

/// Name, both numbers, the difference and the same in percent.
fn cells(name: &str, pair: Pair) -> [String; 5] {
    let grown_bytes = pair.grown_bytes();
    let size = bytes::show(u64::try_from(grown_bytes.unsigned_abs()).unwrap_or(u64::MAX));
    let sign = match grown_bytes {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    let percent = match pair.before_bytes {
        0 => String::new(),
        before => format!("{:+.1} %", 100.0 * grown_bytes as f64 / before as f64),
    };
    let (before, after) = (bytes::show(pair.before_bytes), bytes::show(pair.after_bytes));
    [name.to_owned(), before, after, format!("{sign}{size}"), percent]
}

#[cfg(test)]
mod tests {
    use trace_format::Meta;

    use super::*;

    #[test]
    fn a_run_has_the_name_of_its_strategy() {
        for name in ["native", "expandable", "stitch"] {
            let meta = Meta { strategy: Some(name.to_owned()), ..Meta::default() };
            let tape = Tape { meta, ..Tape::default() };
            assert_eq!(strategy(&tape, &Device::default()), name);
        }
    }
}
