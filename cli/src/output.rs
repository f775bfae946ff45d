//! Where results go: `-o FILE`, `-f` to replace it, `-` for standard output.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use trace_format::{Commit, visible};

use crate::caller;

/// The flags of every verb that makes a file.
#[derive(clap::Args)]
pub(crate) struct OutputFlags {
    /// Where to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Replace the file if it is there
    #[arg(short, long)]
    pub(crate) force: bool,
}

impl OutputFlags {
    /// Fails before any work is done if the file is there and may not be replaced.
    pub(crate) fn check(&self) -> Result<()> {
        check(&self.output, self.force)
    }
}

/// As [`OutputFlags::check`], for a file named by another flag.
pub(crate) fn check(output: &Path, force: bool) -> Result<()> {
    if output != Path::new("-") && output.exists() && !force {
        bail!("{} exists: use -f to replace it, or name another file", output.display());
    }
    Ok(())
}

/// Writes a file under a temporary name and renames it; `-` is standard output.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    if path == Path::new("-") {
        return Ok(io::stdout().lock().write_all(content)?);
    }
    let failed = || format!("cannot write {}", path.display());
    let (mut file, commit) = Commit::begin(path).with_context(failed)?;
    file.write_all(content).with_context(failed)?;
    commit.finish().with_context(failed)
}

/// Prints text.
pub(crate) fn print(text: &str) -> Result<()> {
    if caller::keep(text) {
        return Ok(());
    }
    Ok(io::stdout().lock().write_all(visible(text).as_bytes())?)
}

/// Prints a report as JSON, or in words.
pub(crate) fn print_report(
    json: bool,
    report: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<()> {
    if json { print_json(report) } else { print(&text()) }
}

/// Prints JSON, one indented document.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).context("cannot make JSON")?;
    text.push('\n');
    print(&text)
}
