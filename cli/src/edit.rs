//! `vramtape edit RUN -o OUT.vtape`: changes a run's requests.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use replay::edit::{Edit, FORMS, Summary, edit};
use serde::Serialize;

use crate::Verdict;
use crate::tape_file::TapeFlags;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A tape, a snapshot or a log
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// A change to the program's requests, such as scale:0.5
    #[arg(value_name = "EDIT", required = true, long_help = about())]
    edits: Vec<Edit>,
    #[command(flatten)]
    tape: TapeFlags,
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
    let output = options.tape.check()?;
    if !is_apart(&options.run, output) {
        bail!("{} is the run itself: name another file with -o", output.display());
    }
    let tape = options.tape.read(&options.run)?;
    let (edited, summary) = edit(&tape, &options.edits)?;
    let report = Report { output, records: edited.records_len(), summary };
    options.tape.write(&edited, &report, || text(&report))
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
