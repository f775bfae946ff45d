//! Files made to harm the person who looks at them.

mod common;

use std::path::Path;

use common::vramtape;
use serde_json::Value;
use trace_format::{
    Addr, BaseState, DeviceId, DeviceMeta, Event, Meta, PoolId, PoolState, Record, StackId, Stream,
    ThreadId, Writer,
};

/// Clears the screen, sets the title, and the same by a control character of eight bits.
const ESCAPES: &str = "\x1b[2J\x1b]0;owned\x07\u{9b}31m\u{202e}";

/// A verb and its run; pages go where nothing else is.
fn line<'a>(verb: &'a str, run: &'a str) -> Vec<&'a str> {
    const PAGE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/hostile.html");
    if verb == "view" { vec![verb, "-f", "-o", PAGE, run] } else { vec![verb, run] }
}

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
    for verb in VERBS {
        let known = line(verb, run);
        for args in [
            &known[..],
            &[&known[..], &["--json"]].concat(),
            &line(verb, missing),
            &[&known[..], &[run]].concat(),
        ] {
            let (text, _) = vramtape(args);
            let raw =
                text.chars().find(|c| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}');
            assert_eq!(raw, None, "{args:?}: {text:?}");
        }
    }
    let (text, code) = vramtape(&["info", run]);
    assert!(code == Some(0) && text.contains("GPU\\u001b[2J"), "{text}");
}

/// A tape of requests of so many bytes, each alone on the device: strategies that map pages map all of them anew.
fn requests_alone(path: &Path, bytes: u64) {
    // `stitch` passes the bound in the sixteenth.
    const REQUESTS: u64 = 17;
    let mut writer = Writer::create(path, &Meta::default()).unwrap();
    let (addr, stream, pool) = (Addr(2 << 20), Stream(0), PoolId::DEFAULT);
    let (requested_bytes, size_bytes) = (bytes, bytes);
    for _ in 0..REQUESTS {
        for event in [
            Event::Alloc { addr, requested_bytes, size_bytes, stream, pool },
            Event::Free { addr, requested_bytes, size_bytes, pending: false },
            Event::EmptyCache { pool, inferred: false },
        ] {
            let record = Record { time_ns: 1, thread: ThreadId(1), stack: StackId::NONE, event };
            writer.push(DeviceId(0), &record).unwrap();
        }
    }
    writer.finish().unwrap();
}

#[test]
fn a_strategy_that_passes_the_bound_of_driver_calls_is_a_row_of_compare_with_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (run, small) = (path("run.vtape"), path("small.vtape"));
    requests_alone(Path::new(&run), 1 << 40);
    requests_alone(Path::new(&small), 1 << 30);
    let bound = "driver calls so far, where at most";

    // A replay up to the bound takes seconds: as few as there are forms of the table.
    let page = path("page.html");
    let (text, code) = vramtape(&["compare", &run, "--json", "--html", &page]);
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, Some(0), "{text}");
    for row in found["rows"].as_array().unwrap() {
        let is_refused = row["strategy"] == "async-pool" || row["strategy"] == "stitch";
        let error = row["error"].as_str().unwrap_or_default();
        assert_eq!(error.contains(bound), is_refused, "{row}");
        assert_eq!(row["peak_reserved_bytes"].is_null(), is_refused, "{row}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    let plot = tests::page::json(&page, "d0/plots/strategies");
    let text = plot["summary"].as_str().unwrap();
    assert!(text.contains("async-pool, defaults: record ") && text.contains(bound), "{text}");
    let rows = plot["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["strategy"] != "async-pool"), "no line to draw");

    // Beside a run that ends soon.
    let (text, code) = vramtape(&["compare", &run, &small]);
    assert!(code == Some(0) && text.contains("run.vtape: async-pool, defaults: record "), "{text}");
    assert!(text.contains(bound), "{text}");
    let (text, code) = vramtape(&["compare", &small, "--edit", "scale:1000"]);
    assert!(code == Some(0) && text.contains("async-pool, defaults, edited: record "), "{text}");
    assert!(text.contains(bound), "{text}");
    let (text, _) = vramtape(&["compare", &run, "--trust-factor", "100"]);
    assert!(!text.contains(bound) && !text.contains("refused"), "{text}");
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
    for verb in VERBS {
        let (text, code) = vramtape(&line(verb, bomb));
        assert!(code == Some(2) && text.contains("--trust-factor"), "{verb}: {text}");
    }
    let (text, code) = vramtape(&["info", bomb, "--trust-factor", "2"]);
    assert!(code == Some(0) && text.contains("3145728"), "{text}");
}

/// A tape of one device that claims so much memory, of a state and of what happened.
fn tape_of(path: &Path, capacity_bytes: Option<u64>, base: &BaseState, events: &[Event]) {
    let devices = vec![DeviceMeta { capacity_bytes, ..DeviceMeta::default() }];
    let mut writer = Writer::create(path, &Meta { devices, ..Meta::default() }).unwrap();
    writer.base(DeviceId(0), base).unwrap();
    for event in events {
        let record =
            Record { time_ns: 1, thread: ThreadId(1), stack: StackId::NONE, event: *event };
        writer.push(DeviceId(0), &record).unwrap();
    }
    writer.finish().unwrap();
}

const VERBS: [&str; 8] = ["info", "replay", "compare", "waste", "fit", "tune", "verify", "view"];

fn alloc(addr: u64, bytes: u64) -> Event {
    let (addr, stream, pool) = (Addr(addr), Stream(0), PoolId::DEFAULT);
    Event::Alloc { addr, requested_bytes: bytes, size_bytes: bytes, stream, pool }
}

#[test]
fn a_pool_with_four_thousand_million_users_takes_no_longer_than_one_with_two() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("users.vtape");
    let pool = PoolState {
        pool: PoolId(0, 7),
        use_count: u32::MAX,
        own_source: false,
        use_on_oom: false,
        no_split: false,
    };
    let base = BaseState { pools: vec![pool], ..BaseState::default() };
    let create = Event::PoolCreate { pool: PoolId(0, 7), own_source: false };
    tape_of(&run, None, &base, &[create, alloc(512, 512)]);
    for strategy in ["native", "bfc", "async-pool", "rmm-pool", "rmm-arena"] {
        let (text, code) = vramtape(&["replay", run.to_str().unwrap(), "--strategy", strategy]);
        assert_eq!(code, Some(0), "{strategy}: {text}");
    }
}

#[test]
fn a_device_of_more_memory_than_there_is_and_addresses_at_their_end_are_no_surprise() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("large.vtape");
    let (addr, stream, pool) = (Addr(u64::MAX - (64 << 20)), Stream(0), PoolId::DEFAULT);
    let size_bytes = 20 << 20;
    let map = Event::SegmentMap { addr, size_bytes, stream, pool, is_large: true };
    tape_of(&run, Some(u64::MAX), &BaseState::default(), &[map, alloc(addr.0, 3 << 20)]);
    for verb in VERBS {
        let (text, code) = vramtape(&line(verb, run.to_str().unwrap()));
        assert!(matches!(code, Some(0 | 1)), "{verb}: {text}");
    }
    let out = folder.path().join("series.parquet");
    let line = ["export", run.to_str().unwrap(), "-o", out.to_str().unwrap(), "--table", "series"];
    let (text, code) = vramtape(&[&line[..], &["--points", "18446744073709551615"]].concat());
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn sizes_that_do_not_add_up_are_refused_by_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("sums.vtape");
    let much = 1 << 61;
    for (events, says) in [
        (vec![alloc(512, much), alloc(1024, much), alloc(1536, much)], "more than 4 EiB"),
        (vec![alloc(u64::MAX - 511, 1024)], "past the end"),
    ] {
        tape_of(&run, None, &BaseState::default(), &events);
        for verb in VERBS {
            let (text, code) = vramtape(&line(verb, run.to_str().unwrap()));
            assert!(code == Some(2) && text.contains(says), "{verb}: {text}");
        }
        std::fs::remove_file(&run).unwrap();
    }
}
