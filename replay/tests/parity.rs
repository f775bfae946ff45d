//! `native` does what PyTorch's allocator did, event for event, place for place, number for number.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use replay::driver::Follow;
use replay::import::{self, DeviceImport, Import};
use replay::placements::{Run, compare};
use replay::run::{Addresses, DeviceTape, Options, Outcome, run_recording};
use replay::verify::{RecordedRun, verify};
use settings::Config;
use trace_format::{Addr, Event};

/// A snapshot, with its run's description where there is one.
struct Recording {
    name: String,
    import: Import,
    run: Option<RecordedRun>,
}

/// Every recording, read once for all tests.
fn recordings() -> &'static [Recording] {
    static RECORDINGS: OnceLock<Vec<Recording>> = OnceLock::new();
    RECORDINGS.get_or_init(|| common::all_traces().iter().map(|path| load(path)).collect())
}

fn load(snapshot: &Path) -> Recording {
    let name = snapshot.file_name().expect("a file").to_string_lossy().into_owned();
    let json = fs::read(snapshot.with_file_name(name.replace(".pickle.zst", ".json"))).ok();
    let run = json.map(|json| RecordedRun::from_json(&json).expect("a description"));
    let known = run.as_ref().map(RecordedRun::known).unwrap_or_default();
    let import = import::import_file(snapshot, &known).expect("a snapshot");
    Recording { name, import, run }
}

/// Gives every block a name of its own, so that nothing is left of where it was.
fn without_block_addresses(device: &DeviceImport) -> DeviceImport {
    let mut device = device.clone();
    let mut names = HashMap::new();
    let mut next = 1 << 60;
    for record in &mut device.records {
        match &mut record.event {
            Event::Alloc { addr, .. } => {
                next += 1;
                names.insert(addr.0, next);
                *addr = Addr(next);
            }
            Event::Free { addr, .. } | Event::FreeCompleted { addr, .. } => {
                *addr = Addr(names[&addr.0]);
            }
            _ => {}
        }
    }
    device
}

fn replay(device: &DeviceImport, options: &Options) -> Outcome {
    let tape = DeviceTape { base: &device.base, records: &device.records, text: &|_| "" };
    run_recording(tape, options, &mut |_| {}).expect("a consistent trace")
}

#[test]
fn every_recorded_run_is_reproduced_exactly() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for Recording { name, import, run } in recordings() {
        let Some(run) = run else { continue };
        for (device, verdict) in verify(import, run).expect("a consistent trace") {
            checked += 1;
            if !verdict.holds() {
                wrong.push(format!("{name}, device {device}: {verdict:#?}"));
            }
        }
    }
    println!("{checked} recorded runs checked");
    assert!(checked >= 5, "the traces kept with the project are checked");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn placements_do_not_depend_on_recorded_block_addresses() {
    for Recording { name, import, run } in recordings() {
        let Some(run) = run else { continue };
        let options = Options {
            strategy: Config { compat: run.compat(), ..import.config.clone() }.into(),
            capacity_bytes: run.device_total_bytes,
            memory_fraction: None,
            addresses: Addresses::Recorded,
            follow: Follow::default(),
        };
        for device in &import.devices {
            let blind = replay(&without_block_addresses(device), &options);
            let base = &device.base.segments;
            let report = compare(
                Run { base, events: device.records.iter().map(|record| record.event) },
                Run { base, events: blind.records.iter().map(|record| record.event) },
            );
            assert_eq!(report.difference, None, "{name}");
            assert!(report.allocations > 0, "{name} has allocations");
        }
    }
}

#[test]
fn every_snapshot_replays_under_every_policy_and_never_below_its_live_bytes() {
    for Recording { name, import, .. } in recordings() {
        for device in &import.devices {
            for expandable_segments in [false, true] {
                let options = Options {
                    strategy: Config { expandable_segments, ..import.config.clone() }.into(),
                    capacity_bytes: None,
                    memory_fraction: None,
                    addresses: Addresses::Lowest,
                    follow: Follow { is_as_recorded: false, ..Follow::default() },
                };
                let report = replay(device, &options).report;
                assert!(report.peak_reserved_bytes >= report.peak_live_bytes, "{name}: {report:?}");
                assert!(report.events > 0 && report.num_ooms == 0, "{name}: {report:?}");
            }
        }
    }
}
