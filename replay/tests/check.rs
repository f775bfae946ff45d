//! Everything we export satisfies the contract of PyTorch's readers, and the checker notices where one does not.

mod common;

use std::fs::File;
use std::io::Read;

use replay::check::{Demand, Report, Rule, check};
use replay::driver::Follow;
use replay::export::{Format, SnapshotDevice, SnapshotSource, write_to};
use replay::import::import_file;
use replay::run::{DeviceTape, Options, run_recording};
use serde_json::{Value, json};
use settings::Config;

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
                recorded_addresses: false,
                follow: Follow::default(),
            };
            let base = &device.base.segments;
            let tape = DeviceTape { base: &device.base, records: &device.records, text: &|_| "" };
            let outcome = run_recording(tape, &options, |_| {}).unwrap();
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

/// A good snapshot of two blocks in one segment, one of them freed.
fn small() -> Value {
    let entry = |action: &str, addr: u64, size: u64, time_us: u64| {
        json!({
            "action": action, "addr": addr, "size": size, "stream": 0, "time_us": time_us,
            "pool_id": [0, 0], "segment_pool_id": [0, 0],
            "frames": [{"name": "f", "filename": "f.py", "line": 1}],
        })
    };
    let block = |address: u64, size: u64, requested: u64, state: &str| {
        json!({
            "address": address, "size": size, "requested_size": requested, "state": state,
            "frames": [],
        })
    };
    json!({
        "segments": [{
            "device": 0, "address": 4096, "total_size": 2048, "allocated_size": 512,
            "active_size": 512, "requested_size": 100, "stream": 0, "segment_type": "small",
            "segment_pool_id": [0, 0], "is_expandable": false, "frames": [],
            "blocks": [
                block(4096, 512, 100, "active_allocated"),
                block(4608, 1536, 700, "inactive"),
            ],
        }],
        "device_traces": [[
            entry("segment_alloc", 4096, 2048, 1),
            entry("alloc", 4096, 100, 2),
            entry("alloc", 4608, 700, 3),
            entry("free_requested", 4608, 700, 4),
            entry("free_completed", 4608, 700, 4),
        ]],
        "allocator_settings": {},
        "external_annotations": [],
    })
}

fn report(snapshot: &Value) -> Report {
    check(&serde_json::to_vec(snapshot).unwrap(), Demand::Complete).unwrap()
}

/// Changes the small snapshot, and expects faults of one rule.
fn assert_fault(rule: Rule, what: &str, change: impl FnOnce(&mut Value)) {
    let mut snapshot = small();
    change(&mut snapshot);
    let report = report(&snapshot);
    let found = report.faults.first().iter().any(|fault| fault.rule == rule);
    assert!(found, "{what}: expected {rule:?}, found:\n{}", report.faults);
}

#[test]
fn a_small_snapshot_is_good() {
    let report = report(&small());
    assert!(report.is_good(), "{}", report.faults);
    assert_eq!(report.spans[0].start_reserved_bytes, 0);
    assert_eq!(report.spans[0].end_requested_bytes, 100);
}

#[test]
fn a_missing_key_is_found() {
    let keys =
        ["action", "addr", "size", "stream", "time_us", "pool_id", "segment_pool_id", "frames"];
    for key in keys.into_iter().skip(3) {
        assert_fault(Rule::Key, key, |s| {
            s["device_traces"][0][1].as_object_mut().unwrap().remove(key);
        });
    }
    for key in ["stream", "segment_type", "segment_pool_id", "is_expandable", "frames"] {
        assert_fault(Rule::Key, key, |s| {
            s["segments"][0].as_object_mut().unwrap().remove(key);
        });
    }
    for key in ["address", "requested_size", "frames"] {
        assert_fault(Rule::Key, key, |s| {
            s["segments"][0]["blocks"][0].as_object_mut().unwrap().remove(key);
        });
    }
    for key in ["name", "filename", "line"] {
        assert_fault(Rule::Key, key, |s| {
            s["device_traces"][0][1]["frames"][0].as_object_mut().unwrap().remove(key);
        });
    }
}

#[test]
fn an_event_without_action_address_or_size_is_no_snapshot() {
    for key in ["action", "addr", "size"] {
        let mut snapshot = small();
        snapshot["device_traces"][0][1].as_object_mut().unwrap().remove(key);
        let bytes = serde_json::to_vec(&snapshot).unwrap();
        let error = check(&bytes, Demand::Readable).unwrap_err().to_string();
        assert!(error.contains(&format!("device_traces[0][1].{key}")), "{error}");
    }
}

#[test]
fn a_category_without_unknown_is_found() {
    assert_fault(Rule::Category, "one category", |s| {
        s["device_traces"][0][1]["category"] = json!("weights");
    });
}

#[test]
fn sums_and_gaps_of_a_segment_are_found() {
    for key in ["total_size", "allocated_size", "active_size", "requested_size"] {
        assert_fault(Rule::Tiling, key, |s| s["segments"][0][key] = json!(4096));
    }
    assert_fault(Rule::Tiling, "a gap", |s| {
        s["segments"][0]["blocks"][1]["address"] = json!(5120);
    });
    assert_fault(Rule::Tiling, "segments that overlap", |s| {
        let segment = s["segments"][0].clone();
        s["segments"].as_array_mut().unwrap().push(segment);
    });
}

#[test]
fn disorder_is_found() {
    assert_fault(Rule::Order, "time", |s| s["device_traces"][0][1]["time_us"] = json!(9));
}

#[test]
fn an_event_that_cannot_be_undone_is_found() {
    let swap = |a: usize, b: usize| {
        move |s: &mut Value| s["device_traces"][0].as_array_mut().unwrap().swap(a, b)
    };
    assert_fault(Rule::Undo, "the segment after its block", swap(0, 1));
    assert_fault(Rule::Undo, "the completion before the request", swap(3, 4));
    assert_fault(Rule::Undo, "the free before the allocation", swap(2, 3));
    assert_fault(Rule::Undo, "a request without completion", |s| {
        s["device_traces"][0].as_array_mut().unwrap().pop();
    });
    assert_fault(Rule::Undo, "another size on the free", |s| {
        s["device_traces"][0][3]["size"] = json!(701);
    });
    assert_fault(Rule::Undo, "another stream than the segment's", |s| {
        s["device_traces"][0][2]["stream"] = json!(7);
    });
    assert_fault(Rule::Undo, "a segment freed with a live block", |s| {
        s["device_traces"][0][0]["size"] = json!(1024);
    });
    assert_fault(Rule::Undo, "a segment mapped that was allocated", |s| {
        s["device_traces"][0][0]["action"] = json!("segment_map");
    });
}

#[test]
fn a_pickle_that_the_viewer_cannot_read_is_found() {
    let body = b"}(\x8c\x08segments]\x8c\x0ddevice_traces]u.";
    let with = |head: &[u8]| check(&[head, body].concat(), Demand::Readable).unwrap();
    assert!(with(b"\x80\x04").is_good(), "{}", with(b"\x80\x04").faults);
    assert_eq!(with(b"\x80\x05").faults.first()[0].rule, Rule::Encoding);
    let batch = [&b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](]("[..]].concat();
    let batch = [batch, b"N".repeat(1001), b"e0eu.".to_vec()].concat();
    let report = check(&batch, Demand::Readable).unwrap();
    assert_eq!(report.faults.first()[0].rule, Rule::Encoding, "{}", report.faults);
}
