//! Growth from step to step as a person meets it: the text, the JSON and the exit code.
//!
//! The expected texts are in `tests/golden`; `UPDATE_GOLDEN=1 cargo test -p cli` writes them anew.

mod common;

use std::fs;
use std::path::Path;

use common::{golden, good, json, vramtape};
use trace_format::{
    Addr, DeviceId, DeviceMeta, Event, Frame, MarkKind, Meta, PoolId, Record, StackId, Stream,
    ThreadId, Writer,
};

const MIB: u64 = 1 << 20;

/// A tape of 40 steps that keeps a block of each, where `leaks` says so, and its activations until the next step.
fn tape(path: &Path, leaks: bool) -> String {
    let device =
        DeviceMeta { id: DeviceId(0), capacity_bytes: Some(1 << 30), ..DeviceMeta::default() };
    let meta = Meta { devices: vec![device], ..Meta::default() };
    let mut writer = Writer::create(path, &meta).unwrap();
    let mut frame = |name: &str, line| Frame {
        name: writer.string(name).unwrap(),
        filename: writer.string("/d/train.py").unwrap(),
        line,
    };
    let (append, forward, main) = (frame("append", 31), frame("forward", 7), frame("main", 60));
    let kept = writer.stack(&[append, main]).unwrap();
    let activation = writer.stack(&[forward, main]).unwrap();
    let mut time_ns = 1_800_000_000_000_000_000;
    let mut push = |writer: &mut Writer<_>, stack, event| {
        time_ns += 1_000_000;
        let record = Record { time_ns, thread: ThreadId(1), stack, event };
        writer.push(DeviceId(0), &record).unwrap();
    };
    let (stream, pool) = (Stream(0), PoolId::DEFAULT);
    let (addr, size_bytes, is_large) = (Addr(0), 512 * MIB, true);
    let segment = Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large };
    push(&mut writer, StackId::NONE, segment);
    let alloc = |at: u64, size_bytes| Event::Alloc {
        addr: Addr(at * MIB),
        requested_bytes: size_bytes,
        size_bytes,
        stream,
        pool,
    };
    for step in 0..40_u64 {
        let name = writer.string(&format!("step {step}")).unwrap();
        push(&mut writer, StackId::NONE, Event::Mark { kind: MarkKind::Step, name });
        push(&mut writer, activation, alloc(400 + step % 2 * 4, 4 * MIB));
        if leaks {
            push(&mut writer, kept, alloc(step * 2, 2 * MIB));
        }
        if step > 0 {
            let (requested_bytes, size_bytes, pending) = (4 * MIB, 4 * MIB, false);
            let addr = Addr((400 + (step + 1) % 2 * 4) * MIB);
            push(
                &mut writer,
                StackId::NONE,
                Event::Free { addr, requested_bytes, size_bytes, pending },
            );
        }
    }
    writer.finish().unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn growth_is_1_with_its_code_and_none_is_0() {
    let folder = tempfile::tempdir().unwrap();
    let leaking = tape(&folder.path().join("leaking.vtape"), true);
    let tight = tape(&folder.path().join("tight.vtape"), false);
    let (text, code) = vramtape(&["leaks", &leaking]);
    assert_eq!(code, Some(1), "{text}");
    golden("leaks", &text);
    golden("leaks-none", &good(&["leaks", &tight]));

    let (text, code) = vramtape(&["leaks", "--json", &leaking]);
    assert_eq!(code, Some(1), "{text}");
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&found["verdict"], &found["bytes_per_step"]),
        (&"growth".into(), &(2 * MIB).into())
    );
    let row = &found["rows"][0];
    assert_eq!(row["label"], "train.py:31 append");
    assert_eq!(row["blocks"].as_array().unwrap().len(), 32);
    assert_eq!(row["blocks_total"], 40);
    assert_eq!(found["out_of_memory"]["capacity_bytes"], 1 << 30);

    let half = ["leaks", "--json", &leaking, "--edit", "scale:0.5:append", "--capacity", "2GiB"];
    let half: serde_json::Value = serde_json::from_str(&vramtape(&half).0).unwrap();
    assert_eq!(half["bytes_per_step"], MIB);
    assert_eq!(half["out_of_memory"]["capacity_bytes"], 2_u64 << 30);
    good(&["leaks", &leaking, "--edit", "drop:append"]);
}

#[test]
fn of_several_ranks_one_that_grows_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    tape(&folder.path().join("rank0.vtape"), false);
    tape(&folder.path().join("rank1.vtape"), true);
    let folder = folder.path().to_str().unwrap();
    let (text, code) = vramtape(&["leaks", folder]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("rank0.vtape: no growth over 40 steps"), "{text}");
    assert!(text.contains("rank1.vtape: growth: 2.00 MiB per step"), "{text}");
    let found: serde_json::Value =
        serde_json::from_str(&vramtape(&["leaks", "--json", folder]).0).unwrap();
    assert_eq!(
        (&found["verdict"], &found["ranks"][1]["verdict"]),
        (&"growth".into(), &"growth".into())
    );
}

#[test]
fn a_step_begins_at_a_named_mark_or_where_named_code_allocates() {
    let folder = tempfile::tempdir().unwrap();
    let leaking = tape(&folder.path().join("leaking.vtape"), true);
    for (name, by) in [("step", "named"), ("train.py:7", "code")] {
        let (text, code) = vramtape(&["leaks", "--json", &leaking, "--step", name]);
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &found["steps_by"]), (Some(1), &by.into()), "{text}");
        assert_eq!(found["steps"], 40);
    }
    let text = good(&["leaks", &leaking, "--step", "epoch"]);
    assert!(text.starts_with("not known: no mark is called \"epoch\""), "{text}");
}

#[test]
fn no_recorded_run_raises_an_alarm() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    let mut runs = 0;
    for folder in ["traces", "snapshots", "tapes", "logs"] {
        for entry in fs::read_dir(data.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_str().unwrap();
            let is_json = path.extension().is_some_and(|extension| extension == "json");
            if folder == "traces" && is_json {
                continue; // The description of the snapshot beside it.
            }
            let found = json(&["leaks", name]);
            let ranks = found["ranks"].as_array().cloned().unwrap_or_else(|| vec![found]);
            for rank in &ranks {
                assert_ne!(rank["verdict"], "growth", "{name}");
            }
            runs += 1;
        }
    }
    assert!(runs > 15, "only {runs} runs");
}
