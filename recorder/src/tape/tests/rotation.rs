//! Tapes that may not grow for ever.

use std::path::{Path, PathBuf};

use tempfile::tempdir;
use trace_format::{Event, Frame, Item, MarkKind, Meta, Reader};

use super::model::SharedModel;
use super::{Followed, follow};
use crate::SystemClock;
use crate::tape::{TapeError, TapeRecorder};
use events::Recorder;

fn start_limited(path: &Path, max_bytes: u64) -> TapeRecorder {
    let clock = SystemClock::new();
    TapeRecorder::start_limited(path, Meta::default(), clock, Some(max_bytes)).unwrap()
}

fn previous(path: &Path) -> PathBuf {
    path.with_extension("vtape.1")
}

fn size_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Both parts, oldest first: none may contradict itself, and the second begins where the first ends.
fn follow_both(path: &Path) -> [Followed; 2] {
    let parts = [follow(&previous(path)), follow(path)];
    let first_base = Reader::open(path).unwrap().find_map(|item| match item.unwrap() {
        Item::Base(_, base) => Some(base),
        _ => None,
    });
    let first_base = first_base.expect("a part begins with a state");
    assert_eq!(trace_format::State::from_base(&first_base).unwrap(), parts[0].state);
    parts
}

#[test]
fn a_limited_tape_keeps_the_newest_records_in_two_parts() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let max_bytes = 512 << 10;
    std::fs::write(previous(&path), trace_format::MAGIC).unwrap();
    let model = SharedModel::new(dir.path(), 1 << 14);
    let tape = start_limited(&path, max_bytes);
    assert!(!previous(&path).exists(), "it would look like the beginning of this tape");
    tape.add_with_bases(model.source(), 20_000);
    let mut most_bytes = 0;
    let mut parts_bytes = 0;
    for _ in 0..400 {
        model.run(2_000);
        assert!(tape.flush());
        let both_bytes = size_bytes(&path) + size_bytes(&previous(&path));
        assert!(both_bytes <= max_bytes, "{both_bytes} bytes");
        most_bytes = both_bytes.max(most_bytes);
        parts_bytes = size_bytes(&previous(&path)).max(parts_bytes);
    }
    let summary = tape.stop().unwrap();
    assert!(size_bytes(&path) + size_bytes(&previous(&path)) <= max_bytes);
    assert!(most_bytes > max_bytes / 2, "only {most_bytes} bytes are used");
    assert!(parts_bytes > max_bytes / 4, "a part has only {parts_bytes} bytes");

    let [first, second] = follow_both(&path);
    assert!(first.has_index && second.has_index && second.starts_with_base);
    assert!(first.starts_with_base, "it is not the first part of all");
    assert_eq!((first.lost, second.lost, summary.lost), (0, 0, 0));
    assert_eq!(summary.records, model.recorded());
    assert!(first.records + second.records < model.recorded());
    assert_eq!(second.state, model.state());

    let said = [previous(&path), path].map(|part| Reader::open(&part).unwrap().meta().clone());
    let part = said[1].part.unwrap();
    assert_eq!(said[0].part.unwrap() + 1, part);
    assert!(part > 2 && said[1].dropped_bytes > 0);
    assert_eq!(said[1].dropped_records + first.records + second.records, model.recorded());
}

#[test]
fn a_loss_is_counted_whichever_part_it_falls_into() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 8);
    let tape = start_limited(&path, 256 << 10);
    tape.add_with_bases(model.source(), 20_000);
    while model.recorded() < 400_000 {
        model.run(1_000);
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    let summary = tape.stop().unwrap();
    assert!(summary.lost > 0);
    assert!(model.is_all(summary.records, summary.lost), "{summary:?}");
    assert_eq!(model.ring_info().lost_by_tape, summary.lost);
    assert_eq!(follow(&path).state, model.state());
    follow(&previous(&path));
}

#[test]
fn every_part_has_the_strings_and_devices_that_it_names() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 12);
    let ring = model.ring();
    let (name, filename) = (ring.intern("forward"), ring.intern("model.py"));
    let stack = ring.intern_stack(&[Frame { name, filename, line: 41 }]);
    let tape = start_limited(&path, 64 << 10);
    tape.add(model.source());
    while !previous(&path).exists() {
        let event = Event::Mark { kind: MarkKind::Step, name };
        model.with(|model| model.recorder.record(stack, event));
        model.run(100);
        assert!(tape.flush());
    }
    model.with(|model| model.recorder.record(stack, Event::Mark { kind: MarkKind::Step, name }));
    tape.stop().unwrap();
    for part in [previous(&path), path] {
        let mut reader = Reader::open(&part).unwrap();
        let mut marks = 0;
        while let Some(item) = reader.next() {
            if let Item::Event(_, record) = item.unwrap()
                && let Event::Mark { name, .. } = record.event
            {
                let tables = reader.tables();
                assert_eq!(tables.string(name), Some("forward"));
                let frame = tables.frame(tables.stack(record.stack).unwrap()[0]).unwrap();
                assert_eq!((frame.filename, frame.line), ("model.py", 41));
                marks += 1;
            }
        }
        assert!(marks > 0, "{}", part.display());
        assert_eq!(reader.meta().devices[0].name, "a model");
    }
}

#[test]
fn a_limit_that_a_state_of_memory_fills_is_an_error_that_says_so() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 14);
    model.run(10_000);
    let tape = start_limited(&path, 4 << 10);
    tape.add(model.source());
    while tape.is_recording() {
        model.run(100);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let error = tape.stop().unwrap_err();
    let TapeError::Ended { cause, .. } = &error else { panic!("{error}") };
    assert!(matches!(**cause, TapeError::TooSmall { max_bytes: 4096, .. }), "{error}");
    assert!(error.to_string().contains("tape_max"), "{error}");
}
