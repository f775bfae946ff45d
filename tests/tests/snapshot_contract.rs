//! The snapshot contract finds each kind of fault, and the program that checks it prints the file and the place.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tests::snapshot_contract::{Demand, Report, Rule, check};

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

/// What the program prints about the files, and its exit code.
fn program(folder: &tempfile::TempDir, arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_snapshot-contract"));
    let output = command.args(arguments).current_dir(folder.path()).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (String::from_utf8(printed).unwrap(), output.status.code())
}

#[test]
fn the_program_names_the_file_and_the_place_of_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, snapshot: &Value| {
        fs::write(folder.path().join(name), serde_json::to_vec(snapshot).unwrap()).unwrap();
    };
    let (mut incomplete, mut late) = (small(), small());
    incomplete["segments"][0].as_object_mut().unwrap().remove("stream");
    late["device_traces"][0][1]["time_us"] = json!(9);
    write("good.json", &small());
    write("incomplete.json", &incomplete);
    write("late.json", &late);
    fs::write(folder.path().join("text.json"), "no snapshot").unwrap();

    assert_eq!(program(&folder, &["--complete", "good.json"]), (String::new(), Some(0)));
    assert_eq!(program(&folder, &["incomplete.json"]), (String::new(), Some(0)));
    let (text, code) = program(&folder, &["--complete", "good.json", "incomplete.json"]);
    assert!(text.starts_with("incomplete.json: segments[0].stream: "), "{text}");
    assert_eq!((text.lines().count(), code), (1, Some(1)), "{text}");
    let (text, code) = program(&folder, &["late.json", "good.json"]);
    assert!(text.starts_with("late.json: device_traces[0][1]: "), "{text}");
    assert_eq!(code, Some(1), "{text}");
    for name in ["text.json", "missing.json", "."] {
        let (text, code) = program(&folder, &["late.json", name]);
        let last = text.lines().last().unwrap();
        assert!(last.starts_with(&format!("{name}: ")), "{text}");
        assert!(!last[name.len()..].contains(name), "{text}");
        assert_eq!(code, Some(2), "{text}");
    }
    assert_eq!(program(&folder, &["--complete"]).1, Some(2));
}
