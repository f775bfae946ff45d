//! `vramtape edit RUN -o OUT.vtape`: the tape of a program that asks for something else.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use replay::edit::{Edits, Scale, Summary, edit};
use serde::Serialize;
use trace_format::{Stream, Writer};

use crate::output::{self, OutputFlags};
use crate::{Verdict, bytes, input};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A tape, a snapshot or a log
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Leave out allocations with this in a frame of their stack, `file:line name`; may be given several times
    #[arg(long, value_name = "PATTERN")]
    drop: Vec<String>,
    /// Multiply sizes, everywhere or where a frame has this; may be given several times
    #[arg(long, value_name = "FACTOR[:PATTERN]")]
    scale: Vec<String>,
    /// Do the work of this stream on another, the default stream if none is named; may be given several times
    #[arg(long, value_name = "STREAM[=STREAM]")]
    merge_stream: Vec<String>,
    /// JSON with what a snapshot does not hold: torch, device_total_bytes, fraction
    #[arg(long, value_name = "META.json")]
    meta: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    output: &'a Path,
    records: u64,
    #[serde(flatten)]
    summary: Summary,
}

/// Edits and writes.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let output = options.output.output.as_path();
    let to_stdout = output == Path::new("-");
    if to_stdout && options.json {
        bail!("--json and the tape cannot both go to standard output: give -o a file");
    }
    options.output.check()?;
    if !is_apart(&options.run, output) {
        bail!("{} is the run itself: name another file with -o", output.display());
    }
    let edits = Edits {
        drop: options.drop.clone(),
        scale: options.scale.iter().map(|text| scale(text)).collect::<Result<_>>()?,
        merge_streams: options
            .merge_stream
            .iter()
            .map(|text| merge(text))
            .collect::<Result<_>>()?,
    };
    let tape = input::read(&options.run, &input::recorded(options.meta.as_deref())?.known())?;
    let (edited, summary) = edit(&tape, &edits)?;
    if to_stdout {
        let stdout = std::io::stdout().lock();
        drop(edited.write(Writer::new(stdout, "standard output", &edited.meta)?)?);
        return Ok(Verdict::Good);
    }
    edited.write(Writer::create(output, &edited.meta)?)?;
    let report = Report { output, records: edited.records_len(), summary };
    if options.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report))?;
    }
    Ok(Verdict::Good)
}

/// Whether these are two files: a run is not replaced by its own edit.
fn is_apart(run: &Path, output: &Path) -> bool {
    match (run.canonicalize(), output.canonicalize()) {
        (Ok(run), Ok(output)) => run != output,
        _ => true,
    }
}

/// `0.5` or `0.5:PATTERN`.
fn scale(text: &str) -> Result<Scale> {
    let (factor, pattern) = match text.split_once(':') {
        Some((factor, pattern)) => (factor, Some(pattern.to_owned())),
        None => (text, None),
    };
    let factor = factor.trim().parse();
    let factor = factor
        .with_context(|| format!("--scale {text}: write FACTOR or FACTOR:PATTERN, such as 0.5"))?;
    Ok(Scale { factor, pattern })
}

/// `0x1f` or `31`, alone or `=` another.
fn merge(text: &str) -> Result<(Stream, Stream)> {
    let one = |part: &str| {
        let part = part.trim();
        let number = match part.strip_prefix("0x") {
            Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
            None => part.parse(),
        };
        let what =
            || format!("--merge-stream {text}: write a stream's number, such as 7 or 0x7f00");
        number.map(Stream).with_context(what)
    };
    match text.split_once('=') {
        Some((from, to)) => Ok((one(from)?, one(to)?)),
        None => Ok((one(text)?, Stream(0))),
    }
}

fn text(report: &Report<'_>) -> String {
    let name = report.output.display();
    let Summary { dropped, dropped_bytes, scaled, moved, freed_at_once } = report.summary;
    format!(
        "{name}: {} records\n{dropped} requests dropped ({} together), {scaled} scaled, {moved} moved to another \
         stream, {freed_at_once} frees wait for nobody any more\nnext: vramtape compare {name}\n",
        report.records,
        bytes::show(dropped_bytes)
    )
}
