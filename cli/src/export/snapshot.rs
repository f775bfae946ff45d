//! A run as a PyTorch memory snapshot: what was recorded, not what a replay of it does.

use std::path::Path;

use anyhow::{Context, Result, bail};
use replay::export::{Format, SnapshotDevice, SnapshotSource, segments_after, write_snapshot};
use replay::strategy::Choice;
use trace_format::SegmentState;

use crate::progress::Spinner;
use crate::setting::Chosen;

/// The format of a file of this name, if it is a snapshot's.
pub(super) fn format_of(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()? {
        "pickle" => Some(Format::Pickle),
        "json" => Some(Format::Json),
        _ => None,
    }
}

/// Writes the devices as one snapshot.
pub(super) fn write(path: &Path, format: Format, devices: &[Chosen]) -> Result<()> {
    let setting = devices[0].setting(None, None)?;
    let Choice::Native(config) = &setting.strategy else {
        bail!("only runs recorded under native, expandable or stitch can be written as a snapshot");
    };
    let writing = Spinner::start(&format!("writing {}", path.display()));
    let ends = devices.iter().map(|chosen| {
        let device = chosen.device();
        segments_after(&device.base.segments, &device.records).with_context(|| {
            format!("device {}: the run contradicts itself; record it again", device.id)
        })
    });
    let ends = ends.collect::<Result<Vec<_>>>()?;
    let source = SnapshotSource {
        devices: devices.iter().zip(&ends).map(snapshot_of).collect(),
        stacks: &devices[0].tape().stacks,
        config,
    };
    write_snapshot(path, &source, format)?;
    drop(writing);
    Ok(())
}

fn snapshot_of<'a>((chosen, end): (&'a Chosen, &'a Vec<SegmentState>)) -> SnapshotDevice<'a> {
    let device = chosen.device();
    let (base, records) = (&device.base.segments, &device.records);
    SnapshotDevice { device: device.id, base, records, segments: end }
}
