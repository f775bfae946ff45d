//! `vramtape export RUN -o OUT`: a run as tables, or as a file for another tool.

mod snapshot;
mod tool;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use replay::compare::{StrategyRow, compare};
use replay::export::{write_firefox, write_perfetto, write_speedscope};
use replay::report::Report as Figures;
use serde::Serialize;
use tables::{Format, Line, Source, Table, Written};

use crate::compare::{choices_of, settings_of};
use crate::progress::{Progress, Spinner};
use crate::setting::{Chosen, MachineFlags};
use crate::strategy::StrategyFlag;
use crate::{Verdict, input, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A tape, a snapshot or a log
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Where to write: a folder for all tables, or for one a file, FILE.parquet or FILE.arrow; FILE.pickle or FILE.json
    /// for a memory snapshot for PyTorch's viewer; FILE.speedscope.json for the flame graphs of speedscope;
    /// FILE.pftrace for Perfetto; FILE.firefox.json or FILE.firefox.json.gz for the Firefox Profiler
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace files that are there
    #[arg(short, long)]
    force: bool,
    /// Write only this table [default for a file: records]
    #[arg(long, value_name = "NAME", value_parser = table_parser())]
    table: Option<Table>,
    /// The kind of files that go to a folder [default: parquet]
    #[arg(long, value_name = "NAME", value_parser = format_parser())]
    format: Option<Format>,
    #[command(flatten)]
    machine: MachineFlags,
    /// Settings to add to the table `series`, as in PYTORCH_CUDA_ALLOC_CONF; may be given several times
    #[arg(long, value_name = "SETTINGS")]
    config: Vec<String>,
    /// A strategy to add to the table `series`, with its settings; may be given several times
    #[arg(long, value_name = "NAME[:SETTINGS]")]
    strategy: Vec<StrategyFlag>,
    /// How many points a line of `series` has, at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    points: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    tables: Vec<TableReport>,
}

#[derive(Serialize)]
struct TableReport {
    table: &'static str,
    file: String,
    rows: u64,
    size_bytes: u64,
}

#[derive(Serialize)]
struct FileReport {
    file: String,
    records: u64,
    size_bytes: u64,
}

/// A table and where it goes.
struct Target {
    table: Table,
    file: PathBuf,
    format: Format,
}

/// Writes the tables.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let output = options.output.as_path();
    if options.machine.cold {
        bail!("--cold is for replays, and export writes the recorded run; leave it out");
    }
    if output == Path::new("-") {
        bail!("a table cannot go to standard output: give -o a folder, FILE.parquet or FILE.arrow");
    }
    if let Some(kind) = ForOthers::of(output) {
        return run_for_others(options, kind);
    }
    let targets = targets(options)?;
    for target in &targets {
        output::check(&target.file, options.force)?;
    }
    let tape = input::read(&options.run, &options.machine.known()?)?;
    let devices = options.machine.devices(&options.run, tape)?;
    let wants_lines = targets.iter().any(|target| target.table == Table::Series);
    let lines = if wants_lines { lines(options, &devices)? } else { Vec::new() };
    let source = Source {
        devices: devices.iter().map(Chosen::device).collect(),
        stacks: &devices[0].tape().stacks,
        lines,
    };
    let is_new_folder = Format::of(output).is_none() && !output.exists();
    if is_new_folder {
        fs::create_dir_all(output).with_context(|| format!("cannot make {}", output.display()))?;
    }
    let written = write(&targets, &source).inspect_err(|_| {
        if is_new_folder {
            drop(fs::remove_dir(output)); // It is empty: what was written went with the error.
        }
    })?;
    let report = Report { tables: written };
    let line = |TableReport { file, rows, .. }: &TableReport| format!("{file}: {rows} rows\n");
    output::print_report(options.json, &report, || report.tables.iter().map(line).collect())?;
    Ok(Verdict::Good)
}

/// A file for another tool.
#[derive(Clone, Copy)]
enum ForOthers {
    Snapshot(replay::export::Format),
    Speedscope,
    Perfetto,
    Firefox,
}

impl ForOthers {
    /// The kind of a file of this name, if it is no table.
    fn of(path: &Path) -> Option<Self> {
        let name = path.as_os_str().as_encoded_bytes();
        if name.ends_with(b".speedscope.json") {
            return Some(Self::Speedscope);
        }
        if name.ends_with(b".firefox.json") || name.ends_with(b".firefox.json.gz") {
            return Some(Self::Firefox);
        }
        if path.extension().is_some_and(|extension| extension == "pftrace") {
            return Some(Self::Perfetto);
        }
        snapshot::format_of(path).map(Self::Snapshot)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Snapshot(_) => "a snapshot",
            Self::Speedscope => "a file for speedscope",
            Self::Perfetto => "a file for Perfetto",
            Self::Firefox => "a file for the Firefox Profiler",
        }
    }
}

/// Writes a file for another tool.
fn run_for_others(options: &Options, kind: ForOthers) -> Result<Verdict> {
    let output = options.output.as_path();
    if options.table.is_some() || options.format.is_some() {
        bail!("{} is {}: leave out --table and --format", output.display(), kind.name());
    }
    output::check(output, options.force)?;
    let tape = input::read(&options.run, &options.machine.known()?)?;
    let devices = options.machine.devices(&options.run, tape)?;
    match kind {
        ForOthers::Snapshot(format) => snapshot::write(output, format, &devices)?,
        ForOthers::Speedscope => tool::write(output, &options.run, &devices, write_speedscope)?,
        ForOthers::Perfetto => tool::write(output, &options.run, &devices, write_perfetto)?,
        ForOthers::Firefox => tool::write(output, &options.run, &devices, write_firefox)?,
    }
    let records = devices.iter().map(|chosen| chosen.device().records.len() as u64).sum();
    let (file, size_bytes) = (output.display().to_string(), size_of(output));
    let text = format!("{file}: {records} records\n");
    output::print_report(options.json, &FileReport { file, records, size_bytes }, || text)?;
    Ok(Verdict::Good)
}

fn size_of(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |file| file.len())
}

/// Which tables go where.
fn targets(options: &Options) -> Result<Vec<Target>> {
    let output = options.output.as_path();
    if let Some(format) = Format::of(output) {
        if options.format.is_some_and(|asked| asked != format) {
            bail!("--format contradicts the name {}; leave it out", output.display());
        }
        let table = options.table.unwrap_or(Table::Records);
        return Ok(vec![Target { table, file: output.to_owned(), format }]);
    }
    if output.is_file() {
        bail!("{} is a file: give -o a folder, FILE.parquet or FILE.arrow", output.display());
    }
    if let Some(kind) = output.extension().filter(|_| !is_folder(output)) {
        let (kind, output) = (kind.display(), output.display());
        bail!(
            "there is no format `{kind}`: give -o FILE.parquet, FILE.arrow, FILE.pickle, FILE.json, \
             FILE.speedscope.json, FILE.pftrace, FILE.firefox.json, or for a folder {output}/"
        );
    }
    let format = options.format.unwrap_or(Format::Parquet);
    let tables = options.table.map_or(Table::ALL.to_vec(), |table| vec![table]);
    let target = |table: Table| {
        let file = output.join(format!("{}.{}", table.name(), format.extension()));
        Target { table, file, format }
    };
    Ok(tables.into_iter().map(target).collect())
}

/// Whether the output is a folder, or is named as one.
fn is_folder(output: &Path) -> bool {
    output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Replays every device under the recorded settings and those that were asked for.
fn lines(options: &Options, devices: &[Chosen]) -> Result<Vec<Line>> {
    let asked = 1 + options.config.len() + options.strategy.len();
    let records = devices.iter().map(|chosen| chosen.device().records.len() as u64).sum::<u64>();
    let progress = Progress::start("replaying", records * asked as u64);
    let mut lines = Vec::new();
    let mut before = 0;
    for chosen in devices {
        let configs = options.config.iter().map(String::as_str);
        let choices = choices_of(chosen, configs, Vec::new(), &options.strategy)?;
        let (capacity_bytes, follow) = (chosen.capacity_bytes, chosen.follow);
        let replayed = chosen.with_device(|device| {
            let done = |records| progress.at(before + records);
            compare(device, &choices, capacity_bytes, follow, options.points.max(1), &done)
        })?;
        before += (choices.len() * chosen.device().records.len()) as u64;
        let device = chosen.device().id;
        for (at, row) in replayed.into_iter().enumerate() {
            let (report, points) = match row {
                StrategyRow::Replayed { report, points } => (report, points),
                StrategyRow::Refused { strategy, config, error } => {
                    bail!("{strategy}, {}: {error}", settings_of(&strategy, &config))
                }
            };
            let Figures { strategy, config, .. } = report;
            lines.push(Line { device, strategy, config, is_recorded: at == 0, points });
        }
    }
    Ok(lines)
}

/// Writes all tables, and then gives all of them their names.
fn write(targets: &[Target], source: &Source<'_>) -> Result<Vec<TableReport>> {
    let mut written: Vec<Written> = Vec::new();
    for Target { table, file, format } in targets {
        let writing = Spinner::start(&format!("writing {}", file.display()));
        written.push(table.write(source, file, *format)?);
        drop(writing);
    }
    let mut reports = Vec::new();
    for (target, written) in targets.iter().zip(written) {
        let rows = written.rows;
        written.finish()?;
        let size_bytes = size_of(&target.file);
        let file = target.file.display().to_string();
        reports.push(TableReport { table: target.table.name(), file, rows, size_bytes });
    }
    Ok(reports)
}

fn table_parser() -> impl TypedValueParser<Value = Table> {
    let named = |name: String| Table::ALL.into_iter().find(|table| table.name() == name);
    PossibleValuesParser::new(Table::ALL.map(Table::name))
        .try_map(move |name| named(name).ok_or("no table"))
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    let named = |name: String| Format::ALL.into_iter().find(|format| format.extension() == name);
    PossibleValuesParser::new(Format::ALL.map(Format::extension))
        .try_map(move |name| named(name).ok_or("no format"))
}
