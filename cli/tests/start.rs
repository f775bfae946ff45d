//! Runs whose tape begins in the middle: the sentence, the label that is earned, and `--cold`.

mod common;

use std::path::{Path, PathBuf};

use common::vramtape;
use serde_json::Value;
use trace_format::{
    Addr, BaseState, BlockState, BlockStatus, DeviceId, Event, Meta, PoolId, Record, SegmentState,
    StackId, Stream, ThreadId, Writer,
};

const MIB: u64 = 1 << 20;
const SEGMENT: Addr = Addr(1 << 40);
const OTHER: Addr = Addr(1 << 41);

/// A tape that begins with a segment of 100 MiB, of which 30 MiB are live, and goes on with a request of 40 MiB, which
/// `recorded` places.
fn tape(folder: &Path, name: &str, recorded: &[Event]) -> PathBuf {
    let block = |at: u64, size_bytes, status| BlockState {
        addr: Addr(SEGMENT.0 + at),
        size_bytes,
        requested_bytes: size_bytes,
        status,
        stack: StackId::NONE,
    };
    let segment = SegmentState {
        addr: SEGMENT,
        size_bytes: 100 * MIB,
        stream: Stream(0),
        pool: PoolId::DEFAULT,
        is_large: true,
        is_expandable: false,
        stack: StackId::NONE,
        blocks: vec![
            block(0, 30 * MIB, BlockStatus::Allocated),
            block(30 * MIB, 70 * MIB, BlockStatus::Inactive),
        ],
    };
    let base = BaseState { segments: vec![segment], ..BaseState::default() };
    let path = folder.join(name);
    let mut writer = Writer::create(&path, &Meta::default()).unwrap();
    writer.base(DeviceId(0), &base).unwrap();
    for event in recorded {
        let (time_ns, thread, stack) = (1000, ThreadId(1), StackId::NONE);
        writer.push(DeviceId(0), &Record { time_ns, thread, stack, event: *event }).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn alloc(addr: Addr) -> Event {
    let (size_bytes, stream, pool) = (40 * MIB, Stream(0), PoolId::DEFAULT);
    Event::Alloc { addr, requested_bytes: size_bytes, size_bytes, stream, pool }
}

/// As the allocator does it.
fn as_ours() -> Vec<Event> {
    vec![alloc(Addr(SEGMENT.0 + 30 * MIB))]
}

/// As another one did it: in a segment of its own.
fn as_another() -> Vec<Event> {
    let (size_bytes, stream, pool) = (40 * MIB, Stream(0), PoolId::DEFAULT);
    let segment = Event::SegmentAlloc { addr: OTHER, size_bytes, stream, pool, is_large: true };
    vec![segment, alloc(OTHER)]
}

fn text(verb: &[&str], path: &Path) -> String {
    let line: Vec<_> = verb.iter().copied().chain([path.to_str().unwrap()]).collect();
    vramtape(&line).0
}

fn json(verb: &[&str], path: &Path) -> Value {
    serde_json::from_str(&text(&[verb, &["--json"]].concat(), path)).unwrap()
}

const SENTENCE: &str = "starts mid-run: 100.00 MiB reserved before, 30.00 MiB of it allocated";

#[test]
fn every_verb_that_replays_prints_the_memory_reserved_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = tape(folder.path(), "ours.vtape", &as_ours());
    for verb in ["replay", "compare", "fit", "tune", "waste", "info", "verify"] {
        let text = text(&[verb], &path);
        assert!(text.contains(SENTENCE), "{verb}: {text}");
        let is_comparing = ["compare", "fit", "tune", "waste"].contains(&verb);
        assert_eq!(text.contains("--cold requests the live blocks anew"), is_comparing, "{verb}");
    }
    for verb in ["replay", "compare", "fit", "waste"] {
        let start = &json(&[verb], &path)["start"];
        assert_eq!(start["reserved_bytes"], 100 * MIB, "{verb}");
        assert_eq!(start["allocated_bytes"], 30 * MIB, "{verb}");
    }
    assert_eq!(json(&["tune"], &path)["start"][0]["reserved_bytes"], 100 * MIB);
    for verb in ["info", "verify"] {
        assert_eq!(json(&[verb], &path)["devices"][0]["start"]["reserved_bytes"], 100 * MIB);
    }
}

#[test]
fn as_recorded_labels_only_a_replay_equal_to_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let ours = tape(folder.path(), "ours.vtape", &as_ours());
    let another = tape(folder.path(), "another.vtape", &as_another());
    let differs = "the replay of the recorded settings differs: peak reserved 140.00 MiB recorded, \
                   100.00 MiB replayed; 1 segment calls recorded, 0 replayed";
    for verb in ["compare", "fit"] {
        let (same, other) = (text(&[verb], &ours), text(&[verb], &another));
        assert!(same.contains("(as recorded)") && !same.contains("differs"), "{same}");
        assert!(!other.contains("as recorded"), "{other}");
        assert!(other.contains("(recorded settings; replay differs)"), "{other}");
        assert!(other.contains(differs), "{other}");
        assert_eq!(json(&[verb], &ours)["replay_differs"], Value::Null);
        let found = &json(&[verb], &another)["replay_differs"];
        assert_eq!(found["recorded"]["peak_reserved_bytes"], 140 * MIB);
        assert_eq!(found["replayed"]["segment_calls"], 0);
    }
    assert!(text(&["replay"], &another).contains(differs));
    assert!(text(&["verify"], &ours).contains("the same as recorded"));
    let verified = text(&["verify"], &another);
    assert!(verified.contains(differs), "{verified}");
    assert!(verified.contains("0 of 1 allocations are placed as recorded up to there"));
}

#[test]
fn a_cold_start_requests_the_live_blocks_anew_and_shows_what_the_segments_hid() {
    let folder = tempfile::tempdir().unwrap();
    let path = tape(folder.path(), "ours.vtape", &as_ours());
    let warm = json(&["replay", "--config", "expandable_segments:True"], &path);
    let cold = json(&["replay", "--cold", "--config", "expandable_segments:True"], &path);
    assert_eq!(warm["peak_reserved_bytes"], 100 * MIB);
    assert_eq!(cold["peak_reserved_bytes"], 80 * MIB);
    assert_eq!(cold["start"]["cold"], true);
    for verb in ["compare", "fit"] {
        let text = text(&[verb, "--cold"], &path);
        assert!(text.contains("(recorded settings, cold start)"), "{text}");
        assert!(text.contains("requested anew from an empty device (--cold)"), "{text}");
    }
    for verb in ["tune", "waste"] {
        let text = text(&[verb, "--cold"], &path);
        assert!(text.contains("requested anew from an empty device (--cold)"), "{text}");
    }
}
