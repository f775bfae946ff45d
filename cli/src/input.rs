//! Reading a RUN: a tape or a PyTorch snapshot, told apart by content.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use replay::import::Known;
use replay::tape::{Device, Tape};

/// Reads a run, and warns where part of it is missing.
pub(crate) fn read(path: &Path, known: &Known) -> Result<Tape> {
    let tape = Tape::open(path, known)?;
    if tape.recovery.torn.is_some() {
        eprintln!("warning: {}: {}", path.display(), tape.recovery);
    }
    for device in &tape.devices {
        if let Some(gap) = gap(device) {
            eprintln!("warning: {}: {gap}", path.display());
        }
    }
    Ok(tape)
}

/// What is missing from a device's records.
fn gap(device: &Device) -> Option<String> {
    let Device { id, lost, left_out, records, .. } = device;
    (*lost > 0).then(|| {
        format!(
            "device {id}: {lost} records were lost while recording; using the longest part without a gap \
             ({} records, {left_out} left out). A larger ring_events loses less",
            records.len()
        )
    })
}

/// Reads a `--meta` file: what is known about a snapshot's run from outside it.
pub(crate) fn known(meta: Option<&Path>) -> Result<Known> {
    let Some(path) = meta else { return Ok(Known::default()) };
    let context = || format!("cannot use --meta {}", path.display());
    Ok(Known::from_meta(&fs::read(path).with_context(context)?).with_context(context)?)
}
