//! `vramtape edit RUN -o OUT.vtape`: changes a run's requests.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use replay::edit::{Edit, FORMS, Summary, edit};
use serde::Serialize;
use trace_format::Writer;

use crate::input::TrustFlag;
use crate::output::{self, OutputFlags};
use crate::{Verdict, input};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A tape, a snapshot or a log
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// A change to the program's requests, such as scale:0.5
    #[arg(value_name = "EDIT", required = true, long_help = about())]
    edits: Vec<Edit>,
    /// JSON with values that a snapshot does not hold: torch, device_total_bytes, fraction
    #[arg(long, value_name = "META.json")]
    meta: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustFlag,
}

#[derive(Serialize)]
struct Report<'a> {
    output: &'a Path,
    records: u64,
    #[serde(flatten)]
    summary: Summary,
}

/// The edits there are.
fn about() -> String {
    let forms = FORMS.map(|form| format!("\n- {form}  {}", form.what)).concat();
    format!(
        "Changes to the program's requests; each applies to the run as it was recorded:\n{forms}"
    )
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
    let tape = input::read(
        &options.run,
        &options.trust.with(&input::recorded(options.meta.as_deref())?.known()),
    )?;
    let (edited, summary) = edit(&tape, &options.edits)?;
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

fn text(report: &Report<'_>) -> String {
    let name = report.output.display();
    let (records, summary) = (report.records, report.summary);
    format!("{name}: {records} records\n{summary}\nnext: vramtape compare {name}\n")
}
