//! Reading a RUN: a tape or a PyTorch snapshot, told apart by content.

use std::path::Path;

use anyhow::Result;
use replay::tape::{Device, Tape};

/// Reads a run, and warns where part of it is missing.
pub(crate) fn read(path: &Path) -> Result<Tape> {
    let tape = if path == Path::new("-") {
        Tape::read(std::io::stdin().lock(), "standard input")?
    } else {
        Tape::open(path)?
    };
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
