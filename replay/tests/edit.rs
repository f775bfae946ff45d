//! Edits change only the requests that they name.

mod common;

use common::builder::{MIB, Program, options};
use replay::edit::{Edit, EditError, Summary, edit};
use replay::export::segments_after;
use replay::import::RunLimits;
use replay::report::Report;
use replay::run::{DeviceTape, Options, run};
use replay::tape::{Device, Tape};
use trace_format::{BlockStatus, Event, Frame, FrameId, Record, Stream, StringId, Writer};

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
    Report { elapsed_s: 0.0, ..run(device, options, &mut |_| {}).unwrap() }
}

/// Edits as people write them.
fn edits(texts: &[&str]) -> Vec<Edit> {
    texts.iter().map(|text| text.parse().unwrap_or_else(|e| panic!("{e}"))).collect()
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
        let (same, summary) = edit(&original, &edits(&["scale:1"])).unwrap();
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
fn requests_of_a_stack_are_dropped_with_their_frees() {
    let original = tape(&two_stacks());
    let (edited, summary) = edit(&original, &edits(&["drop:train.py:20 log"])).unwrap();
    assert_eq!((summary.dropped, summary.dropped_bytes), (2, 60 * MIB));
    let found = report(&edited, &options("", None));
    assert_eq!((found.peak_reserved_bytes, found.peak_live_bytes), (100 * MIB, 100 * MIB));
    assert_eq!(report(&original, &options("", None)).peak_reserved_bytes, 160 * MIB);
    let frees = |event: &Event| matches!(event, Event::Free { .. } | Event::FreeCompleted { .. });
    assert_eq!(edited.devices[0].records.iter().filter(|record| frees(&record.event)).count(), 1);
    assert!(edited.meta.inferred[0].contains("2 requests dropped"), "{:?}", edited.meta.inferred);
}

#[test]
fn sizes_are_scaled_everywhere_or_for_matching_stacks() {
    let original = tape(&two_stacks());
    let (edited, summary) = edit(&original, &edits(&["scale:0.5"])).unwrap();
    assert_eq!(summary.scaled, 3);
    assert_eq!(report(&edited, &options("", None)).peak_live_bytes, 80 * MIB);
    let (edited, summary) = edit(&original, &edits(&["scale:2:forward"])).unwrap();
    assert_eq!(summary.scaled, 1);
    assert_eq!(report(&edited, &options("", None)).peak_live_bytes, 260 * MIB);
}

#[test]
fn on_one_stream_a_free_does_not_wait() {
    let mut program = Program::default();
    program.alloc("shared", 30 * MIB, 0);
    program.record_stream("shared", 5);
    program.alloc("own", 10 * MIB, 5);
    program.free_later("shared");
    program.alloc("next", 30 * MIB, 0);
    program.complete("shared");
    let original = tape(&program);
    assert_eq!(report(&original, &options("", None)).peak_reserved_bytes, 70 * MIB);
    let (edited, summary) = edit(&original, &edits(&["merge-stream:5"])).unwrap();
    assert_eq!((summary.moved, summary.freed_at_once), (1, 1));
    assert_eq!(report(&edited, &options("", None)).peak_reserved_bytes, 40 * MIB);
    // To a third stream the other still is another.
    let (edited, summary) = edit(&original, &edits(&["merge-stream:5=9"])).unwrap();
    assert_eq!((summary.moved, summary.freed_at_once), (1, 0));
    assert_eq!(report(&edited, &options("", None)).peak_reserved_bytes, 70 * MIB);
}

#[test]
fn an_edited_tape_is_a_tape_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edited.vtape");
    let (edited, _) = edit(&tape(&two_stacks()), &edits(&["scale:3:log"])).unwrap();
    edited.write(Writer::create(&file, &edited.meta).unwrap()).unwrap();
    let read = Tape::open(&file, &RunLimits::default()).unwrap();
    assert_eq!(report(&read, &options("", None)), report(&edited, &options("", None)));
}

#[test]
fn an_edit_without_effect_is_an_error_that_suggests_another() {
    let original = tape(&two_stacks());
    let error = |edits: &[Edit]| edit(&original, edits).unwrap_err();
    assert!(matches!(error(&[]), EditError::Nothing));
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let scale = Edit::Scale { factor, pattern: None };
        assert!(matches!(error(&[scale]), EditError::Factor { .. }), "{factor}");
    }
    for kind in ["scale:0.5:backward", "drop:backward", "free-after:0:backward"] {
        let found = error(&edits(&[kind])).to_string();
        assert!(found.contains("`backward`"), "{found}");
    }
    let found = error(&edits(&["merge-stream:4"])).to_string();
    assert!(found.contains("no work on stream 4, only on 0"), "{found}");
    let mut timeless = original.clone();
    timeless.devices[0].records.iter_mut().for_each(|record| record.time_ns = 0);
    let found = edit(&timeless, &edits(&["free-after:1ms:log"])).unwrap_err().to_string();
    assert!(found.contains("as a number of requests"), "{found}");
    let mut bare = original.clone();
    bare.stacks.stacks.truncate(1);
    let found = edit(&bare, &edits(&["drop:log"])).unwrap_err().to_string();
    assert!(found.contains("without stacks; stacks:alloc"), "{found}");
}

/// The blocks that streams used, of a tape.
fn uses(tape: &Tape) -> Vec<Stream> {
    let records = &tape.devices[0].records;
    let used = records.iter().filter_map(|record| match record.event {
        Event::RecordStream { stream, .. } => Some(stream),
        _ => None,
    });
    used.collect()
}

#[test]
fn an_edited_tape_knows_which_streams_used_a_block_and_can_be_edited_again() {
    let mut program = Program::default();
    program.call_from(1);
    program.alloc("moves", 10 * MIB, 0);
    program.alloc("shared", 30 * MIB, 0);
    program.free("moves");
    program.record_stream("shared", 5);
    program.record_stream("shared", 6);
    program.free_later("shared");
    program.alloc("own", 30 * MIB, 5);
    program.complete("shared");
    let original = tape(&program);
    let (larger, _) = edit(&original, &edits(&["scale:2"])).unwrap();
    assert_eq!(uses(&larger), [Stream(5), Stream(6)]);
    let after = segments_after(&[], &larger.devices[0].records);
    after.unwrap_or_else(|e| panic!("each use is of a block that is there: {e}"));
    let (fewer, _) = edit(&larger, &edits(&["merge-stream:5=0"])).unwrap();
    assert_eq!(uses(&fewer), [Stream(6)], "a stream's own use is none of another");
    let on_one = ["scale:2", "merge-stream:5", "merge-stream:6"];
    let (at_once, first) = edit(&original, &edits(&on_one)).unwrap();
    let (again, second) = edit(&larger, &edits(&on_one[1..])).unwrap();
    assert_eq!((first.freed_at_once, second.freed_at_once), (1, 1));
    assert_eq!(report(&again, &options("", None)), report(&at_once, &options("", None)));
}

/// 100 MiB of the model that stay; a log of 40 MiB that is last used by stream 5 and freed at the end.
fn long_lived_log() -> Program {
    let mut program = Program::default();
    program.call_from(1);
    program.alloc("model", 100 * MIB, 0);
    program.call_from(2);
    program.alloc("log", 40 * MIB, 0);
    program.call_from(1);
    for name in ["a", "b", "c"] {
        program.alloc(name, 40 * MIB, 0);
        program.free(name);
    }
    program.free("log");
    program.alloc("end", 40 * MIB, 0);
    program
}

#[test]
fn a_block_is_freed_so_many_requests_or_so_long_after_its_allocation() {
    let original = tape(&long_lived_log());
    let peak = |text: &str| {
        let (edited, summary) = edit(&original, &edits(&[text])).unwrap();
        let after = segments_after(&[], &edited.devices[0].records);
        after.unwrap_or_else(|e| panic!("{text}: {e}"));
        (report(&edited, &options("", None)).peak_live_bytes / MIB, summary.freed_early)
    };
    assert_eq!(report(&original, &options("", None)).peak_live_bytes, 180 * MIB);
    assert_eq!(peak("free-after:0:log"), (140, 1), "before the next request");
    assert_eq!(peak("free-after:1:log"), (180, 1), "one request finds it there");
    assert_eq!(peak("free-after:2:log"), (180, 1));
    assert_eq!(peak("free-after:3:log"), (180, 0), "the run freed it then");
    // A record each millisecond; the log is the second one.
    assert_eq!(peak("free-after:500us:log"), (140, 1));
    assert_eq!(peak("free-after:1ms:log"), (180, 1));
    assert_eq!(peak("free-after:5ms:log"), (180, 1));
    assert_eq!(peak("free-after:6ms:log"), (180, 0), "the run freed it then");
    assert_eq!(peak("free-after:0:train.py:10"), (100, 1), "the model, which the run kept");
}

#[test]
fn another_streams_use_is_a_use_and_its_wait_is_as_long_as_it_was() {
    let mut program = Program::default();
    program.call_from(2);
    program.alloc("log", 40 * MIB, 0);
    program.call_from(1);
    let step = |program: &mut Program, name: &str| {
        program.alloc(name, 40 * MIB, 0);
        program.free(name);
    };
    step(&mut program, "a");
    program.record_stream("log", 5);
    for name in ["b", "c", "d"] {
        step(&mut program, name);
    }
    program.free_later("log");
    step(&mut program, "e");
    program.complete("log");
    step(&mut program, "f");
    let original = tape(&program);
    let (edited, summary) = edit(&original, &edits(&["free-after:0:log"])).unwrap();
    assert_eq!((summary.freed_early, summary.freed_early_bytes), (1, 40 * MIB));
    let order = edited.devices[0].records.iter().filter_map(|record| match record.event {
        Event::Alloc { .. } => Some('a'),
        Event::Free { pending: true, .. } => Some('p'),
        Event::Free { .. } => Some('f'),
        Event::FreeCompleted { .. } => Some('c'),
        Event::RecordStream { .. } => Some('u'),
        _ => None,
    });
    assert_eq!(
        order.collect::<String>(),
        "aafupafcafafafaf",
        "freed behind its use, done a request later"
    );
}

#[test]
fn a_free_is_not_moved_into_a_retry_whose_flush_would_take_it_for_its_own() {
    let mut program = long_lived_log();
    let request = program.records.iter().position(|r| r.stack.0 == 1 && r.time_ns > 2_000_000);
    let at = request.unwrap();
    let refused = Event::DriverRefused { size_bytes: 40 * MIB };
    program.records.insert(at, Record { event: refused, ..program.records[at] });
    let (edited, _) = edit(&tape(&program), &edits(&["free-after:0:log"])).unwrap();
    let records = &edited.devices[0].records;
    let at = |is: fn(&Event) -> bool| records.iter().position(|record| is(&record.event)).unwrap();
    let freed = at(|event| matches!(event, Event::Free { .. }));
    assert!(freed < at(|event| matches!(event, Event::DriverRefused { .. })), "{records:?}");
}

/// Steps by `train.py:10 forward`, each of which leaves a result that the next one frees, on a model that stays.
fn steps(count: u32) -> Program {
    let mut program = Program::default();
    program.call_from(2);
    program.alloc("model", 64 * MIB, 0);
    for step in 0..count {
        program.call_from(1);
        program.alloc("activation", 30 * MIB, 0);
        program.call_from(2);
        program.alloc(&format!("result{step}"), 8 * MIB, 0);
        program.free_later("activation");
        program.complete("activation");
        if step > 0 {
            program.free(&format!("result{}", step - 1));
        }
    }
    program.call_from(1);
    program.alloc("last", 2 * MIB, 0);
    program.free(&format!("result{}", count - 1));
    program.free("model");
    program
}

#[test]
fn a_repeated_step_frees_what_its_last_repetition_left() {
    let original = tape(&steps(3));
    let (edited, summary) = edit(&original, &edits(&["repeat:5:forward"])).unwrap();
    assert_eq!(summary.repeated_steps, 5);
    let (before, after) =
        (report(&original, &options("", None)), report(&edited, &options("", None)));
    assert_eq!(
        after.peak_live_bytes, before.peak_live_bytes,
        "a repetition leaves as much as the step"
    );
    let count = |tape: &Tape, is: fn(&Event) -> bool| {
        tape.devices[0].records.iter().filter(|record| is(&record.event)).count()
    };
    let allocs: fn(&Event) -> bool = |event| matches!(event, Event::Alloc { .. });
    let frees: fn(&Event) -> bool = |event| matches!(event, Event::Free { .. });
    assert_eq!(count(&edited, allocs), count(&original, allocs) + 5 * 2);
    assert_eq!(count(&edited, frees), count(&original, frees) + 5 * 2);
    let segments = segments_after(&[], &edited.devices[0].records).unwrap();
    let live = segments.iter().flat_map(|segment| &segment.blocks);
    let live: u64 =
        live.filter(|block| block.status == BlockStatus::Allocated).map(|b| b.size_bytes).sum();
    assert_eq!(live, 2 * MIB, "everything but the last block was freed");
}

#[test]
fn a_run_without_two_steps_cannot_be_repeated() {
    let error = edit(&tape(&steps(3)), &edits(&["repeat:5"])).unwrap_err();
    assert!(matches!(error, EditError::NoStep), "{error}");
}
