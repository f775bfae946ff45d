//! Every export satisfies the contract of PyTorch's readers, and so does every snapshot of PyTorch.

mod common;

use std::fs::File;
use std::io::Read;

use replay::driver::Follow;
use replay::export::{Format, SnapshotDevice, SnapshotSource, write_to};
use replay::import::import_file;
use replay::run::{Addresses, DeviceTape, Options, run_recording};
use settings::Config;
use tests::snapshot_contract::{Demand, check};

#[test]
fn every_export_is_good() {
    for path in common::all_traces() {
        let name = path.display();
        let import = import_file(&path, &common::known(&path)).unwrap();
        let report = check(&common::export(&import, Format::Pickle), Demand::Complete).unwrap();
        assert!(report.is_good(), "{name}:\n{}", report.faults);
        for (device, span) in import.devices.iter().zip(&report.spans) {
            let base_bytes: u64 = device.base.segments.iter().map(|s| s.size_bytes).sum();
            assert_eq!(span.start_reserved_bytes, base_bytes, "{name}");
            println!("{name}: {span}");
        }
    }
}

#[test]
fn every_replay_exports_well() {
    for path in common::all_traces() {
        let name = path.display();
        let import = import_file(&path, &common::known(&path)).unwrap();
        for (device, expandable_segments) in
            import.devices.iter().flat_map(|device| [(device, false), (device, true)])
        {
            let config = Config { expandable_segments, ..import.config.clone() };
            let options = Options {
                strategy: config.clone().into(),
                capacity_bytes: None,
                memory_fraction: None,
                addresses: Addresses::Lowest,
                follow: Follow::default(),
            };
            let base = &device.base.segments;
            let tape = DeviceTape { base: &device.base, records: &device.records, text: &|_| "" };
            let outcome = run_recording(tape, &options, &mut |_| {}).unwrap();
            let source = SnapshotSource {
                devices: vec![SnapshotDevice {
                    device: device.device,
                    base,
                    records: &outcome.records,
                    segments: &outcome.segments,
                }],
                stacks: &import.stacks,
                config: &config,
            };
            let mut bytes = Vec::new();
            write_to(&mut bytes, &source, Format::Pickle).unwrap();
            let report = check(&bytes, Demand::Complete).unwrap();
            assert!(report.is_good(), "{name}, {expandable_segments}:\n{}", report.faults);
            let span = report.spans[usize::from(device.device.0)];
            let base_bytes: u64 = base.iter().map(|segment| segment.size_bytes).sum();
            assert_eq!(span.start_reserved_bytes, base_bytes, "{name}, {expandable_segments}");
            assert!(span.events > 0, "{name}");
        }
    }
}

#[test]
fn snapshots_of_pytorch_are_good() {
    for path in common::own_traces() {
        let mut bytes = Vec::new();
        let mut file = zstd::Decoder::new(File::open(&path).unwrap()).unwrap();
        file.window_log_max(27).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        let report = check(&bytes, Demand::Readable).unwrap();
        assert!(report.is_good(), "{}:\n{}", path.display(), report.faults);
        assert_eq!(report.spans[0].start_reserved_bytes, 0, "{}", path.display());
        assert_eq!(report.spans[0].start_requested_bytes, 0, "{}", path.display());
    }
}
