//! An exported run reads back as it was imported.

mod common;

use std::collections::HashMap;
use std::path::Path;

use replay::export::{Format, SnapshotSource, write_snapshot};
use replay::import::{Import, import};
use replay::pickle::{self, Limits};
use replay::snapshot::{self, Snapshot};
use trace_format::{Event, Record, SegmentState, StackId};

fn read(bytes: &[u8]) -> Snapshot {
    snapshot::from_tree(&pickle::read(bytes, Limits::default()).unwrap()).unwrap()
}

/// Renames stacks and strings of `second` to those of `first` that have the same text.
struct SameNames<'a> {
    first: &'a Import,
    second: &'a Import,
    stacks: HashMap<StackId, bool>,
}

impl SameNames<'_> {
    fn same_stack(&mut self, first: StackId, second: StackId) -> bool {
        let text = |import: &Import, stack| -> Vec<(String, String, u32)> {
            let text = |id| import.stacks.text(id).to_owned();
            let frames = import.stacks.frames_of(stack);
            frames.map(|f| (text(f.name), text(f.filename), f.line)).collect()
        };
        let Self { first: a, second: b, stacks } = self;
        let same = *stacks.entry(first).or_insert_with(|| text(a, first) == text(b, second));
        // Stacks are numbered in the order of their first use on both sides.
        same
    }

    fn record(&mut self, at: usize, first: &Record, second: &Record) {
        assert!(self.same_stack(first.stack, second.stack), "stack of record {at}");
        let mut renamed = *second;
        renamed.stack = first.stack;
        if let (Event::Mark { name: a, .. }, Event::Mark { name: b, .. }) =
            (first.event, &mut renamed.event)
        {
            let (text_a, text_b) = (self.first.stacks.text(a), self.second.stacks.text(*b));
            assert_eq!(text_a, text_b, "name of record {at}");
            *b = a;
        }
        assert_eq!(*first, renamed, "record {at}");
    }

    fn segments(&mut self, first: &[SegmentState], second: &[SegmentState]) {
        assert_eq!(first.len(), second.len());
        for (a, b) in first.iter().zip(second) {
            let mut renamed = b.clone();
            assert!(self.same_stack(a.stack, b.stack), "stack of segment {}", a.addr);
            renamed.stack = a.stack;
            for (block_a, block_b) in a.blocks.iter().zip(&mut renamed.blocks) {
                assert!(self.same_stack(block_a.stack, block_b.stack), "block {}", block_a.addr);
                block_b.stack = block_a.stack;
            }
            assert_eq!(*a, renamed);
        }
    }
}

fn assert_same(first: &Import, second: &Import) {
    let mut names = SameNames { first, second, stacks: HashMap::new() };
    assert_eq!(first.config, second.config);
    assert_eq!(first.devices.len(), second.devices.len());
    for (a, b) in first.devices.iter().zip(&second.devices) {
        assert_eq!(a.device, b.device);
        assert_eq!(a.records.len(), b.records.len());
        for (at, (first, second)) in a.records.iter().zip(&b.records).enumerate() {
            names.record(at, first, second);
        }
        if a.unrecorded_frees == 0 {
            names.segments(&a.final_segments, &b.final_segments);
        }
        names.segments(&a.base.segments, &b.base.segments);
        assert_eq!(a.base.pools, b.base.pools);
    }
}

fn imported(path: &Path) -> Import {
    replay::import::import_file(path, &common::known(path)).unwrap()
}

#[test]
fn an_export_reads_back_as_the_import() {
    for path in common::all_traces() {
        println!("{}", path.display());
        let known = common::known(&path);
        let first = imported(&path);
        let bytes = common::export(&first, Format::Pickle);
        let second = import(read(&bytes), &known).unwrap();
        assert_same(&first, &second);
        assert_eq!(
            bytes,
            common::export(&second, Format::Pickle),
            "a second export is the same file"
        );
    }
}

#[test]
fn json_and_pickle_hold_the_same() {
    for path in common::own_traces() {
        let import = imported(&path);
        let pickle = read(&common::export(&import, Format::Pickle));
        let json = common::export(&import, Format::Json);
        let json = pickle::read_json(&json, Limits::default()).unwrap();
        assert_eq!(pickle, snapshot::from_tree(&json).unwrap(), "{}", path.display());
    }
}

#[test]
fn a_file_appears_only_when_it_is_complete() {
    let import = imported(&common::own_traces()[0]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pickle");
    let source =
        SnapshotSource { devices: Vec::new(), stacks: &import.stacks, config: &import.config };
    write_snapshot(&path, &source, Format::Pickle).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(names, [path]);
    let nowhere = folder.path().join("missing/run.pickle");
    let error = write_snapshot(&nowhere, &source, Format::Pickle).unwrap_err().to_string();
    assert!(error.contains("missing/run.pickle"), "{error}");
}
