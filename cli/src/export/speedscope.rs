//! A run as flame graphs of memory, for speedscope.

use std::path::Path;

use anyhow::Result;
use replay::export::write_speedscope;

use crate::progress::Spinner;
use crate::setting::Chosen;

/// Writes the devices as one file.
pub(super) fn write(path: &Path, run: &Path, devices: &[Chosen]) -> Result<()> {
    let writing = Spinner::start(&format!("writing {}", path.display()));
    let name = run.file_name().unwrap_or(run.as_os_str()).to_string_lossy();
    let stacks = &devices[0].tape().stacks;
    let devices: Vec<_> = devices.iter().map(Chosen::device).collect();
    write_speedscope(path, &name, stacks, &devices)?;
    drop(writing);
    Ok(())
}
