//! A run as one file for another tool.

use std::path::Path;

use anyhow::Result;
use replay::export::ExportError;
use replay::snapshot::Stacks;
use replay::tape::Device;

use crate::progress::Spinner;
use crate::setting::Chosen;

/// A writer of such files: path, name of the run, stacks and devices.
type Writer = fn(&Path, &str, &Stacks, &[&Device]) -> Result<(), ExportError>;

/// Writes the devices as one file.
pub(super) fn write(path: &Path, run: &Path, devices: &[Chosen], writer: Writer) -> Result<()> {
    let writing = Spinner::start(&format!("writing {}", path.display()));
    let name = run.file_name().unwrap_or(run.as_os_str()).to_string_lossy();
    let stacks = &devices[0].tape().stacks;
    let devices: Vec<_> = devices.iter().map(Chosen::device).collect();
    writer(path, &name, stacks, &devices)?;
    drop(writing);
    Ok(())
}
