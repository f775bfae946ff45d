//! What is exported reads back as what was imported.

mod common;

use std::collections::HashMap;
use std::path::Path;

use replay::export::{Format, SnapshotDevice, SnapshotSource, write_to};
use replay::import::{Import, import};
use replay::pickle::{self, Limits};
use replay::snapshot::{self, Snapshot};
use trace_format::{Event, Record, SegmentState, StackId};

fn export(import: &Import, format: Format) -> Vec<u8> {
    let devices = import.devices.iter().map(|device| SnapshotDevice {
        device: device.device,
        base: &device.base.segments,
        records: &device.records,
        segments: &device.final_segments,
    });
    let source = SnapshotSource {
        devices: devices.collect(),
        stacks: &import.stacks,
        config: &import.config,
    };
    let mut bytes = Vec::new();
    write_to(&mut bytes, &source, format).unwrap();
    bytes
}

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
        names.segments(&a.final_segments, &b.final_segments);
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
        let bytes = export(&first, Format::Pickle);
        let second = import(&read(&bytes), &known).unwrap();
        assert_same(&first, &second);
        assert_eq!(bytes, export(&second, Format::Pickle), "a second export is the same file");
    }
}
