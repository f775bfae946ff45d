//! Edits change what they say, and nothing besides.

mod common;

use common::builder::{MIB, Program, options};
use replay::edit::{EditError, Edits, Scale, Summary, edit};
use replay::export::segments_after;
use replay::import::Known;
use replay::report::Report;
use replay::run::{DeviceTape, Options, run};
use replay::tape::{Device, Tape};
use trace_format::{Event, Frame, FrameId, Stream, StringId, Writer};

/// A program's tape with two stacks: 1 is `train.py:10 forward`, 2 is `train.py:20 log`.
fn tape(program: &Program) -> Tape {
    let mut tape = Tape::default();
    tape.stacks.strings = ["", "train.py", "forward", "log"].map(str::to_owned).into();
    let frame = |name, line| Frame { name: StringId(name), filename: StringId(1), line };
    tape.stacks.frames = vec![frame(2, 10), frame(3, 20)];
    tape.stacks.stacks = vec![Box::default(), Box::new([FrameId(0)]), Box::new([FrameId(1)])];
    tape.devices = vec![Device { records: program.records.clone(), ..Device::default() }];
    tape
}

fn report(tape: &Tape, options: &Options) -> Report {
    let text = |id| tape.text(id);
    let device = &tape.devices[0];
    let device = DeviceTape { base: &device.base, records: &device.records, text: &text };
    Report { elapsed_s: 0.0, ..run(device, options, |_| {}).unwrap() }
}

fn scale(factor: f64, pattern: Option<&str>) -> Edits {
    let pattern = pattern.map(str::to_owned);
    Edits { scale: vec![Scale { factor, pattern }], ..Edits::default() }
}

/// 100 MiB of the model, 60 MiB of a log.
fn two_stacks() -> Program {
    let mut program = Program::default();
    program.call_from(1);
    program.alloc("model", 100 * MIB, 0);
    program.call_from(2);
    program.alloc("log", 40 * MIB, 0);
    program.alloc("late", 20 * MIB, 0);
    program.free("log");
    program.free_later("late");
    program.complete("late");
    program.call_from(1);
    program.free("model");
    program
}

#[test]
fn an_edit_that_changes_nothing_replays_as_the_run_itself_under_any_setting() {
    for path in common::all_traces() {
        let original = Tape::open(&path, &common::known(&path)).unwrap();
        let (same, summary) = edit(&original, &scale(1.0, None)).unwrap();
        assert_eq!(summary, Summary::default(), "{}", path.display());
        let capacity_bytes = original.meta.devices[0].capacity_bytes;
        for (settings, capacity_bytes) in [
            (original.meta.alloc_conf.as_str(), capacity_bytes),
            ("max_split_size_mb:64", None),
            ("expandable_segments:True", capacity_bytes),
        ] {
            let options = options(settings, capacity_bytes);
            assert_eq!(report(&same, &options), report(&original, &options), "{}", path.display());
        }
        let device = &same.devices[0];
        let after = segments_after(&device.base.segments, &device.records);
        after.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

#[test]
fn what_a_stack_asked_for_is_dropped_with_its_frees() {
    let original = tape(&two_stacks());
    let edits = Edits { drop: vec!["train.py:20 log".to_owned()], ..Edits::default() };
    let (edited, summary) = edit(&original, &edits).unwrap();
    assert_eq!((summary.dropped, summary.dropped_bytes), (2, 60 * MIB));
    let found = report(&edited, &options("", None));
    assert_eq!((found.peak_reserved_bytes, found.peak_live_bytes), (100 * MIB, 100 * MIB));
    assert_eq!(report(&original, &options("", None)).peak_reserved_bytes, 160 * MIB);
    let frees = |event: &Event| matches!(event, Event::Free { .. } | Event::FreeCompleted { .. });
    assert_eq!(edited.devices[0].records.iter().filter(|record| frees(&record.event)).count(), 1);
    assert!(edited.meta.inferred[0].contains("2 requests dropped"), "{:?}", edited.meta.inferred);
}

#[test]
fn sizes_are_scaled_everywhere_or_where_a_stack_says() {
    let original = tape(&two_stacks());
    let (edited, summary) = edit(&original, &scale(0.5, None)).unwrap();
    assert_eq!(summary.scaled, 3);
    assert_eq!(report(&edited, &options("", None)).peak_live_bytes, 80 * MIB);
    let (edited, summary) = edit(&original, &scale(2.0, Some("forward"))).unwrap();
    assert_eq!(summary.scaled, 1);
    assert_eq!(report(&edited, &options("", None)).peak_live_bytes, 260 * MIB);
}

#[test]
fn on_one_stream_a_free_waits_for_nobody() {
    let mut program = Program::default();
    program.alloc("shared", 30 * MIB, 0);
    program.record_stream("shared", 5);
    program.alloc("own", 10 * MIB, 5);
    program.free_later("shared");
    program.alloc("next", 30 * MIB, 0);
    program.complete("shared");
    let original = tape(&program);
    assert_eq!(report(&original, &options("", None)).peak_reserved_bytes, 70 * MIB);
    let merge =
        |from, to| Edits { merge_streams: vec![(Stream(from), Stream(to))], ..Edits::default() };
    let (edited, summary) = edit(&original, &merge(5, 0)).unwrap();
    assert_eq!((summary.moved, summary.freed_at_once), (1, 1));
    assert_eq!(report(&edited, &options("", None)).peak_reserved_bytes, 40 * MIB);
    // To a third stream the other still is another.
    let (edited, summary) = edit(&original, &merge(5, 9)).unwrap();
    assert_eq!((summary.moved, summary.freed_at_once), (1, 0));
    assert_eq!(report(&edited, &options("", None)).peak_reserved_bytes, 70 * MIB);
}

#[test]
fn an_edited_tape_is_a_tape_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edited.vtape");
    let (edited, _) = edit(&tape(&two_stacks()), &scale(3.0, Some("log"))).unwrap();
    edited.write(Writer::create(&file, &edited.meta).unwrap()).unwrap();
    let read = Tape::open(&file, &Known::default()).unwrap();
    assert_eq!(report(&read, &options("", None)), report(&edited, &options("", None)));
}

#[test]
fn an_edit_that_means_nothing_is_an_error_that_says_what_would() {
    let original = tape(&two_stacks());
    let error = |edits: &Edits| edit(&original, edits).unwrap_err();
    assert!(matches!(error(&Edits::default()), EditError::Nothing));
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(error(&scale(factor, None)), EditError::Factor { .. }), "{factor}");
    }
    let found = error(&scale(0.5, Some("backward"))).to_string();
    assert!(found.contains("`backward`"), "{found}");
    let merge = Edits { merge_streams: vec![(Stream(4), Stream(0))], ..Edits::default() };
    assert!(error(&merge).to_string().contains("stream 4, only on 0"), "{}", error(&merge));
    let mut bare = original.clone();
    bare.stacks.stacks.truncate(1);
    let edits = Edits { drop: vec!["log".to_owned()], ..Edits::default() };
    let found = edit(&bare, &edits).unwrap_err().to_string();
    assert!(found.contains("without stacks; stacks:alloc"), "{found}");
}
