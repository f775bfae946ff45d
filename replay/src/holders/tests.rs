use trace_format::{
    Addr, BaseState, BlockState, BlockStatus, Category, Event, Frame, FrameId, PoolId, Record,
    SegmentState, StackId, Stream, THREAD_FILE, ThreadId,
};

use super::{HolderKind, RunHolders};
use crate::tape::{Device, Tape};

const MIB: u64 = 1 << 20;

/// A tape that is made by hand.
#[derive(Default)]
struct Made {
    tape: Tape,
    records: Vec<Record>,
}

impl Made {
    /// A stack, innermost frame first: function, file and line.
    fn stack(&mut self, frames: &[(&str, &str, u32)]) -> StackId {
        let stacks = &mut self.tape.stacks;
        let mut ids = Vec::new();
        for (function, file, line) in frames {
            let (name, filename) = (stacks.add_string(function), stacks.add_string(file));
            stacks.frames.push(Frame { name, filename, line: *line });
            ids.push(FrameId(stacks.frames.len() as u32 - 1));
        }
        stacks.stacks.push(ids.into());
        StackId(stacks.stacks.len() as u32 - 1)
    }

    fn event(&mut self, stack: StackId, event: Event) {
        self.records.push(Record { time_ns: 0, thread: ThreadId::default(), stack, event });
    }

    fn alloc(&mut self, stack: StackId, addr: u64, size_bytes: u64) {
        let (stream, pool, requested_bytes) = (Stream(0), PoolId::DEFAULT, size_bytes);
        let event = Event::Alloc { addr: Addr(addr), requested_bytes, size_bytes, stream, pool };
        self.event(stack, event);
    }

    fn free(&mut self, addr: u64) {
        let (requested_bytes, size_bytes) = (0, 0);
        let event = Event::Free { addr: Addr(addr), requested_bytes, size_bytes, pending: false };
        self.event(StackId::NONE, event);
    }

    fn holders(self) -> RunHolders {
        let device = Device { records: self.records, ..Device::default() };
        RunHolders::of(&self.tape, &device)
    }
}

/// Labels, MiB and blocks of the rows at the peak.
fn rows(holders: &RunHolders) -> Vec<(&str, u64, u64)> {
    let peak = holders.peak.as_ref().unwrap();
    let bytes: u64 = peak.rows.iter().map(|row| row.allocated_bytes).sum();
    let blocks: u64 = peak.rows.iter().map(|row| row.blocks).sum();
    assert_eq!((bytes, blocks), (peak.allocated_bytes, peak.blocks), "the rows add up");
    let of_row = |row: &'_ super::Holder| (row.allocated_bytes / MIB, row.blocks);
    peak.rows.iter().map(|row| (row.label.as_str(), of_row(row).0, of_row(row).1)).collect()
}

const LINEAR: (&str, &str, u32) =
    ("linear", "/v/lib/python3.12/site-packages/torch/nn/functional.py", 9);
const CALL: (&str, &str, u32) =
    ("_call_impl", "/v/lib/python3.12/site-packages/torch/nn/modules/module.py", 8);

#[test]
fn a_block_is_held_by_the_innermost_line_of_the_users_own_code() {
    let mut made = Made::default();
    let attention = ("attention", "/data/ann/model.py", 41);
    let main = ("main", "/data/ann/train.py", 88);
    let one = made.stack(&[LINEAR, attention, CALL, main]);
    let other = made.stack(&[LINEAR, attention, CALL, CALL, main]);
    let outside = made.stack(&[("step", "/data/ann/train.py", 90), main]);
    made.alloc(one, 0, 3 * MIB);
    made.alloc(other, 1 << 30, 2 * MIB);
    made.alloc(outside, 2 << 30, 4 * MIB);
    let found = made.holders();
    assert_eq!(rows(&found), [("model.py:41 attention", 5, 2), ("train.py:90 step", 4, 1)]);
    let first = &found.peak.as_ref().unwrap().rows[0];
    assert_eq!(first.callers, "... 1 frame of torch < train.py:88 main", "of the largest stack");
    assert_eq!((first.stacks.len(), first.stacks_total), (2, 2));
    assert_eq!(first.stacks[0].frames.len(), 4, "whole, the library's frames included");
}

#[test]
fn blocks_without_a_stack_are_a_row_of_their_own_and_nothing_is_estimated() {
    let mut made = Made::default();
    made.tape.meta.vramtape_conf = "stacks_every:1MiB".to_owned();
    let stack = made.stack(&[("f", "train.py", 3)]);
    made.alloc(stack, 0, 2 * MIB);
    made.alloc(StackId::NONE, 1 << 30, 5 * MIB);
    let found = made.holders();
    assert_eq!(rows(&found), [("train.py:3 f", 2, 1), ("unattributed (no stack sampled)", 5, 1)]);
    assert_eq!(found.sampled_every_bytes, Some(MIB));
}

#[test]
fn the_peak_is_the_first_moment_with_the_most_and_what_was_freed_before_is_not_in_it() {
    let mut made = Made::default();
    let (a, b) = (made.stack(&[("a", "t.py", 1)]), made.stack(&[("b", "t.py", 2)]));
    made.alloc(a, 0, 4 * MIB);
    made.free(0);
    made.alloc(b, 0, 4 * MIB);
    made.alloc(b, 1 << 30, MIB);
    made.free(1 << 30);
    made.alloc(a, 1 << 30, MIB);
    let found = made.holders();
    assert_eq!(rows(&found), [("t.py:2 b", 5, 2)]);
    assert_eq!(found.peak.unwrap().after_records, 4);
}

#[test]
fn each_out_of_memory_has_its_holders_and_the_code_that_was_refused() {
    let mut made = Made::default();
    let (a, b) = (made.stack(&[("a", "t.py", 1)]), made.stack(&[LINEAR, ("b", "t.py", 2)]));
    made.alloc(a, 0, 4 * MIB);
    let (stream, pool) = (Stream(0), PoolId::DEFAULT);
    let (requested_bytes, size_bytes, device_free_bytes) = (8 * MIB, 8 * MIB, 0);
    let oom = Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool };
    made.event(b, oom);
    made.free(0);
    let found = made.holders();
    assert_eq!((found.ooms.len(), found.ooms_total), (1, 1));
    let oom = &found.ooms[0];
    assert_eq!((oom.after_records, oom.rows[0].label.as_str()), (2, "t.py:1 a"));
    let refused = oom.refused.as_ref().unwrap();
    assert_eq!((refused.requested_bytes, refused.label.as_str()), (8 * MIB, "t.py:2 b"));
}

#[test]
fn threads_without_python_and_libraries_without_the_user_are_named_as_such() {
    let mut made = Made::default();
    let worker = |made: &mut Made, name: &str| made.stack(&[(name, THREAD_FILE, 0)]);
    let (first, second) = (worker(&mut made, "pt_autograd_0"), worker(&mut made, "pt_autograd_1"));
    let other = worker(&mut made, "loader");
    let library = made.stack(&[LINEAR, CALL]);
    made.alloc(first, 0, 4 * MIB);
    made.alloc(second, 1 << 30, 4 * MIB);
    made.alloc(other, 2 << 30, 2 * MIB);
    made.alloc(library, 3 << 30, MIB);
    let found = made.holders();
    let expected = [
        ("autograd backward (no Python frame)", 8, 2),
        ("thread loader (no Python frame)", 2, 1),
        ("functional.py:9 linear (only torch)", 1, 1),
    ];
    assert_eq!(rows(&found), expected);
    let kinds: Vec<_> = found.peak.unwrap().rows.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [HolderKind::AutogradBackward, HolderKind::Thread, HolderKind::Library]);
}

#[test]
fn a_backward_pass_is_a_row_of_the_line_that_made_its_node() {
    let mut made = Made::default();
    let line = ("forward", "model.py", 7);
    let forward = made.stack(&[LINEAR, line]);
    let node = ("AddmmBackward0", trace_format::BACKWARD_FILE, 0);
    let backward = made.stack(&[node, LINEAR, line]);
    made.alloc(forward, 0, MIB);
    made.alloc(backward, 1 << 30, 2 * MIB);
    let expected = [("backward of model.py:7 forward", 2, 1), ("model.py:7 forward", 1, 1)];
    assert_eq!(rows(&made.holders()), expected);
}

#[test]
fn a_program_that_is_a_text_is_the_users_and_a_librarys_generated_text_is_not() {
    let mut made = Made::default();
    let program = made.stack(&[LINEAR, ("f", "<string>", 3), ("<module>", "<string>", 9)]);
    let generated = made.stack(&[("__init__", "<string>", 3), ("<module>", "train.py", 4)]);
    let spawn = ("spawn_main", "/usr/lib/python3.11/multiprocessing/spawn.py", 122);
    let worker = made.stack(&[LINEAR, spawn, ("<module>", "<string>", 1)]);
    made.alloc(program, 0, 3 * MIB);
    made.alloc(generated, 1 << 30, 2 * MIB);
    made.alloc(worker, 2 << 30, MIB);
    let linear = ("functional.py:9 linear (only torch)", 1, 1);
    assert_eq!(rows(&made.holders()), [("<string>:3 f", 3, 1), ("train.py:4", 2, 1), linear]);
}

#[test]
fn more_holders_than_are_listed_are_one_row() {
    let mut made = Made::default();
    for line in 1..=60 {
        let stack = made.stack(&[("f", "train.py", line)]);
        made.alloc(stack, u64::from(line) << 30, u64::from(line) * MIB);
    }
    let found = made.holders();
    let rows = rows(&found);
    assert_eq!(rows.len(), 51);
    assert_eq!((rows[0], rows[50]), (("train.py:60 f", 60, 1), ("10 others", 55, 10)));
}

#[test]
fn categories_of_blocks_are_joined_where_the_program_set_them() {
    let mut made = Made::default();
    let stack = made.stack(&[("f", "train.py", 3)]);
    made.alloc(stack, 0, 2 * MIB);
    made.alloc(stack, 1 << 30, MIB);
    let event = Event::Category { addr: Addr(0), category: Category::Parameter };
    made.event(StackId::NONE, event);
    let peak = made.holders().peak.unwrap();
    let held: Vec<_> =
        peak.rows[0].categories.iter().map(|(name, bytes)| (*name, *bytes)).collect();
    assert_eq!(held, [("other", MIB), ("parameter", 2 * MIB)]);
}

#[test]
fn without_stacks_a_note_says_how_to_get_them() {
    let mut made = Made::default();
    made.alloc(StackId::NONE, 0, MIB);
    let found = made.holders();
    assert!(found.peak.is_none() && found.ooms.is_empty());
    let note = "no stacks recorded: pass --conf stacks_every:1MiB, or set it in VRAMTAPE_CONF";
    assert_eq!(found.note.unwrap(), note);
}

#[test]
fn the_end_has_what_is_left_and_how_much_of_it_is_new() {
    let mut made = Made::default();
    let (a, b) = (made.stack(&[("a", "t.py", 1)]), made.stack(&[("b", "t.py", 2)]));
    made.alloc(a, 0, 4 * MIB);
    made.alloc(b, 1 << 30, 2 * MIB);
    made.free(0);
    let block = |addr, stack| BlockState {
        addr: Addr(addr),
        size_bytes: MIB,
        requested_bytes: MIB,
        status: BlockStatus::Allocated,
        stack,
    };
    let segment = SegmentState {
        addr: Addr(2 << 30),
        size_bytes: 2 * MIB,
        stream: Stream(0),
        pool: PoolId::DEFAULT,
        is_large: true,
        is_expandable: false,
        stack: StackId::NONE,
        blocks: vec![block(2 << 30, b), block((2 << 30) + MIB, a)],
    };
    let base = BaseState { segments: vec![segment], ..BaseState::default() };
    let device = Device { records: made.records, base, ..Device::default() };
    let found = RunHolders::of(&made.tape, &device);
    let (peak, end) = (found.peak.unwrap(), found.end.unwrap());
    assert_eq!((peak.allocated_bytes, peak.new_bytes), (8 * MIB, 6 * MIB));
    assert_eq!((end.after_records, end.allocated_bytes, end.new_bytes), (3, 4 * MIB, 2 * MIB));
    let rows = end.rows.iter().map(|row| (row.label.as_str(), row.allocated_bytes, row.new_bytes));
    assert!(rows.eq([("t.py:2 b", 3 * MIB, 2 * MIB), ("t.py:1 a", MIB, 0)]));
}
