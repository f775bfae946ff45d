//! Moments of runs: what is printed, word for word, and the errors with the next thing to try.

mod common;

use common::{command, golden, good, json, vramtape};
use trace_format::{
    Addr, DeviceId, DeviceMeta, Event, Meta, PoolId, Record, StackId, Stream, ThreadId, Writer,
};

const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/traces/");
const TAPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/tapes/");

fn trace(name: &str) -> String {
    format!("{TRACES}{name}.pickle.zst")
}

#[test]
fn an_out_of_memory_is_explained_from_the_verdict_to_what_is_live() {
    let full = trace("resnet50_batchsweep-oom");
    golden("explain-run-full", &good(&["explain", &full]));
    let fragmented = trace("gpt2_train-default");
    golden("explain-run-fragmented", &good(&["explain", &fragmented, "--capacity", "15256MiB"]));
    golden("explain-run-peak", &good(&["explain", &fragmented]));
}

#[test]
fn the_answer_in_json_has_the_same_numbers() {
    let found = json(&["explain", &trace("resnet50_batchsweep-oom"), "--at", "oom"]);
    let oom = &found["oom"];
    assert_eq!(oom["verdict"], "capacity");
    assert_eq!(oom["request"]["requested_bytes"], 98 << 20);
    assert_eq!((&found["lower_bound"], &oom["pinning"]["is_exact"]), (&true.into(), &true.into()));
    let sum = |rows: &serde_json::Value, key: &str| -> u64 {
        rows.as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).sum()
    };
    let free_bytes = sum(&found["free_space"], "free_bytes");
    let reserved_bytes = found["moment"]["reserved_bytes"].as_u64().unwrap();
    assert_eq!(free_bytes, reserved_bytes - sum(&found["live"]["code"], "allocated_bytes"));
    assert_eq!(sum(&oom["pinning"]["blocks"], "size_bytes"), oom["pinning"]["bytes"]);
    // The capacity is not in the file: the refused request shows it.
    assert_eq!(found["capacity_bytes"], 4_194_304_000_u64);
}

/// A run on 80 GiB is explained on a device of 64 MiB: what the recorded one has more is not held by others.
#[test]
fn a_capacity_names_a_device_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vtape");
    let devices = vec![DeviceMeta { total_bytes: Some(80 << 30), ..DeviceMeta::default() }];
    let mut writer = Writer::create(&path, &Meta { devices, ..Meta::default() }).unwrap();
    for addr in [1 << 30, 2 << 30] {
        let (addr, stream, pool) = (Addr(addr), Stream(0), PoolId::DEFAULT);
        let (requested_bytes, size_bytes) = (40 << 20, 40 << 20);
        let event = Event::Alloc { addr, requested_bytes, size_bytes, stream, pool };
        let record = Record { time_ns: 1, thread: ThreadId(1), stack: StackId::NONE, event };
        writer.push(DeviceId(0), &record).unwrap();
    }
    writer.finish().unwrap();
    let line = ["explain", path.to_str().unwrap(), "--capacity", "64MiB"];
    assert_eq!(json(&line)["oom"]["verdict"], "capacity");
    let text = good(&line);
    assert!(!text.contains("others") && !text.contains("other processes"), "{text}");
}

#[test]
fn a_moment_is_an_out_of_memory_a_record_or_a_time() {
    let run = trace("gpt2_train-default");
    let of = |at: &str| json(&["explain", &run, "--at", at])["moment"].clone();
    assert_eq!((&of("12")["kind"], &of("12")["after_records"]), (&"record".into(), &12.into()));
    assert_eq!(of("last")["kind"], "last");
    assert_eq!(of("1ms")["kind"], "time");
    assert_eq!(of("peak")["kind"], "peak");
    let tight = ["explain", &run, "--capacity", "15256MiB", "--at", "4487"];
    assert_eq!(json(&tight)["moment"]["kind"], "oom", "its request is refused");
}

#[test]
fn what_cannot_be_explained_is_an_error_with_the_next_thing_to_try() {
    let run = format!("{TAPES}one-shot-side-stream.vtape");
    for (args, part) in [
        (vec!["--at", "oom"], "--at peak"),
        (vec!["--at", "99999999"], "the run has records 0 to"),
        (vec!["--at", "100000s"], "shorter than 100000.000 s"),
        (vec!["--at", "soon"], "write oom, peak, last"),
        (vec!["--message", "train.log"], "not both"),
        (vec!["--strategy", "bfc"], "choose native, expandable or stitch"),
    ] {
        let line = [&["explain", &run][..], &args].concat();
        let (text, code) = vramtape(&line);
        assert!(code == Some(2) && text.contains(part), "{args:?}: {text}");
    }
    let output = command(&["explain"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("name RUN"));
}
