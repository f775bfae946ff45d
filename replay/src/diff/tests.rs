use trace_format::{
    Addr, Event, Frame, FrameId, MarkKind, PoolId, Record, StackId, Stream, ThreadId,
};

use super::{Change, Pair, RunDiff, diff};
use crate::tape::{Device, Tape};

const MIB: u64 = 1 << 20;

/// A run of five steps: code by function, file and line allocates MiB in each and keeps nothing.
fn run(codes: &[(&str, &str, u32, u64)]) -> (Tape, Device) {
    let mut tape = Tape::default();
    let (mut records, mut stacks) = (Vec::new(), Vec::new());
    for (function, file, line, _) in codes {
        let (name, filename) = (tape.stacks.add_string(function), tape.stacks.add_string(file));
        tape.stacks.frames.push(Frame { name, filename, line: *line });
        tape.stacks.stacks.push([FrameId(tape.stacks.frames.len() as u32 - 1)].into());
        stacks.push(StackId(tape.stacks.stacks.len() as u32 - 1));
    }
    let mut push = |stack, event| {
        records.push(Record { time_ns: 0, thread: ThreadId(1), stack, event });
    };
    let name = tape.stacks.add_string("step");
    for _ in 0..5 {
        push(StackId::NONE, Event::Mark { kind: MarkKind::Step, name });
        let sized = || codes.iter().zip(1..).map(|((.., mib), at)| (Addr(at << 40), mib * MIB));
        for (stack, (addr, size_bytes)) in stacks.iter().zip(sized()) {
            let (stream, pool, requested_bytes) = (Stream(0), PoolId::DEFAULT, size_bytes);
            push(*stack, Event::Alloc { addr, requested_bytes, size_bytes, stream, pool });
        }
        for (addr, size_bytes) in sized() {
            let (requested_bytes, pending) = (size_bytes, false);
            push(StackId::NONE, Event::Free { addr, requested_bytes, size_bytes, pending });
        }
    }
    (tape, Device { records, ..Device::default() })
}

fn compare(before: &(Tape, Device), after: &(Tape, Device)) -> RunDiff {
    diff((&before.0, &before.1), (&after.0, &after.1), None)
}

fn change(name: &str, before: u64, after: u64) -> Change {
    let bytes = Pair { before_bytes: before * MIB, after_bytes: after * MIB };
    Change { name: name.to_owned(), bytes }
}

const MODEL: &str = "/ci/1/model.py";

#[test]
fn a_run_does_not_differ_from_itself_nor_from_one_whose_lines_moved() {
    let one = run(&[("forward", MODEL, 10, 3), ("forward", MODEL, 12, 5), ("load", MODEL, 40, 1)]);
    let moved = "/data/ann/model.py";
    let other =
        run(&[("forward", moved, 22, 5), ("forward", moved, 20, 3), ("load", moved, 52, 1)]);
    for found in [compare(&one, &one), compare(&one, &other)] {
        assert_eq!(
            (&found.at_peak, &found.over_step),
            (&super::Changes::default(), &super::Changes::default())
        );
        assert_eq!(found.peak, Pair { before_bytes: 9 * MIB, after_bytes: 9 * MIB });
        assert_eq!((found.step, found.steps), (Some(found.peak), [4, 4]));
        assert_eq!(found.reserved, None, "no segments");
    }
}

#[test]
fn growth_and_new_code_are_named_the_largest_growth_first() {
    let one = run(&[("forward", MODEL, 10, 3), ("gone", MODEL, 30, 2), ("load", MODEL, 40, 1)]);
    let other = run(&[("forward", MODEL, 11, 4), ("new", MODEL, 35, 7), ("load", MODEL, 44, 1)]);
    let found = compare(&one, &other);
    let expected = [
        change("model.py:35 new", 0, 7),
        change("model.py:11 forward", 3, 4),
        change("model.py:30 gone", 2, 0),
    ];
    assert_eq!(found.at_peak.code, expected);
    assert_eq!(found.over_step.code, expected);
    assert_eq!(found.peak.grown_bytes(), 6 * i128::from(MIB));
}

#[test]
fn where_a_function_has_more_lines_than_before_equal_lines_are_the_same() {
    let one = run(&[("forward", MODEL, 10, 3), ("forward", MODEL, 12, 5)]);
    let other =
        run(&[("forward", MODEL, 10, 3), ("forward", MODEL, 11, 9), ("forward", MODEL, 12, 5)]);
    assert_eq!(compare(&one, &other).at_peak.code, [change("model.py:11 forward", 0, 9)]);
}
