//! The snapshots that tests run on.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod builder;
pub(crate) mod drawn;
pub(crate) mod explained;
pub(crate) mod recordings;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use replay::export::{Format, SnapshotDevice, SnapshotSource, segments_after, write_to};
use replay::import::{Import, RunLimits};
use replay::verify::RecordedRun;

/// The seed of a test, printed: 7 unless `VRAMTAPE_SEED` names another.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("VRAMTAPE_SEED").map_or(7, |text| text.parse().expect("a number"));
    println!("VRAMTAPE_SEED={seed}");
    seed
}

/// The processor's time that this thread took: other programs of the machine do not count.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a time since the thread began")
}

/// The snapshots kept in this repository.
pub(crate) fn own_traces() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
    let traces = snapshots_in(&folder);
    assert!(!traces.is_empty(), "no snapshots in {}", folder.display());
    traces
}

/// Those, and the larger collection, where there is one: in the folder that `VRAMTAPE_TRACES` names, or in
/// `shared/traces` beside the checkout.
pub(crate) fn all_traces() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let folder = std::env::var_os("VRAMTAPE_TRACES").map_or(beside, PathBuf::from);
    let mut traces = own_traces();
    let larger = [snapshots_in(&folder), snapshots_in(&folder.join("real"))].concat();
    if larger.is_empty() {
        println!("no snapshots in {}: only those in tests/data are read", folder.display());
    }
    traces.extend(larger);
    traces
}

#[allow(dead_code, reason = "not every test file asks")]
/// The limits of a run, from the description beside its snapshot.
pub(crate) fn known(snapshot: &Path) -> RunLimits {
    let name = snapshot.file_name().expect("a file").to_string_lossy().into_owned();
    let meta = snapshot.with_file_name(name.replace(".pickle.zst", ".json"));
    match fs::read(&meta) {
        Ok(json) => RecordedRun::from_json(&json).expect("a run description").known(),
        Err(_) => RunLimits::default(),
    }
}

/// The bytes of an import's export.
pub(crate) fn export(import: &Import, format: Format) -> Vec<u8> {
    let ends: Vec<_> = import
        .devices
        .iter()
        .map(|device| match device.unrecorded_frees {
            0 => device.final_segments.clone(),
            _ => segments_after(&device.base.segments, &device.records).unwrap(),
        })
        .collect();
    let devices = import.devices.iter().zip(&ends).map(|(device, segments)| SnapshotDevice {
        device: device.device,
        base: &device.base.segments,
        records: &device.records,
        segments,
    });
    let source = SnapshotSource {
        devices: devices.collect(),
        stacks: &import.stacks,
        config: &import.config,
    };
    let mut bytes = Vec::new();
    write_to(&mut bytes, &source, format).unwrap();
    bytes
}

fn snapshots_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.to_string_lossy().ends_with(".pickle.zst")).collect();
    paths.sort();
    paths
}
