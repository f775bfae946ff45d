//! Files made to harm the person who looks at them.

mod common;

use std::path::Path;

use common::vramtape;
use trace_format::{
    Addr, DeviceId, DeviceMeta, Event, Meta, PoolId, Record, StackId, Stream, ThreadId, Writer,
};

/// Clears the screen, sets the title, and the same by a control character of eight bits.
const ESCAPES: &str = "\x1b[2J\x1b]0;owned\x07\u{9b}31m\u{202e}";

/// A tape all of whose names hold escape sequences.
fn tape(path: &Path) {
    let named = |what: &str| Some(format!("{what}{ESCAPES}"));
    let meta = Meta {
        producer: format!("a test{ESCAPES}"),
        strategy: named("native"),
        torch_version: named("2.11.0"),
        hostname: named("host"),
        inferred: vec![format!("inferred{ESCAPES}")],
        devices: vec![DeviceMeta { name: format!("GPU{ESCAPES}"), ..DeviceMeta::default() }],
        ..Meta::default()
    };
    let mut writer = Writer::create(path, &meta).unwrap();
    let (addr, stream, pool) = (Addr(2 << 20), Stream(0), PoolId::DEFAULT);
    let size_bytes = 2 << 20;
    let events = [
        Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large: false },
        Event::Alloc { addr, requested_bytes: 100, size_bytes: 512, stream, pool },
        Event::Mark { kind: trace_format::MarkKind::Step, name: writer.string(ESCAPES).unwrap() },
    ];
    for event in events {
        let record = Record { time_ns: 1, thread: ThreadId(1), stack: StackId::NONE, event };
        writer.push(DeviceId(0), &record).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn escape_sequences_never_reach_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join(format!("run{ESCAPES}.vtape"));
    tape(&run);
    let missing = folder.path().join(format!("missing{ESCAPES}.vtape"));
    let (run, missing) = (run.to_str().unwrap(), missing.to_str().unwrap());
    for verb in ["info", "replay", "compare", "waste", "fit", "tune", "verify"] {
        for args in [&[verb, run][..], &[verb, run, "--json"], &[verb, missing], &[verb, run, run]]
        {
            let (text, _) = vramtape(args);
            let raw =
                text.chars().find(|c| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}');
            assert_eq!(raw, None, "{args:?}: {text:?}");
        }
    }
    let (text, code) = vramtape(&["info", run]);
    assert!(code == Some(0) && text.contains("GPU\\u001b[2J"), "{text}");
}

#[test]
fn a_small_file_that_holds_much_is_refused_by_every_verb_and_read_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let bomb = folder.path().join("bomb.vtape");
    let mut writer = Writer::create(&bomb, &Meta::default()).unwrap();
    for _ in 0..3 << 20 {
        let (thread, stack, event) = (ThreadId(1), StackId::NONE, Event::ResetPeak);
        writer.push(DeviceId(0), &Record { time_ns: 1, thread, stack, event }).unwrap();
    }
    writer.finish().unwrap();
    let bomb = bomb.to_str().unwrap();
    for verb in ["info", "replay", "compare", "waste", "fit", "tune", "verify"] {
        let (text, code) = vramtape(&[verb, bomb]);
        assert!(code == Some(2) && text.contains("--trust-factor"), "{verb}: {text}");
    }
    let (text, code) = vramtape(&["info", bomb, "--trust-factor", "2"]);
    assert!(code == Some(0) && text.contains("3145728"), "{text}");
}
