//! The order of the driver's addresses decides ties, and the range of reserved memory shows by how much.

mod common;

use common::builder::{MIB, Program, options};
use replay::address_orders::reserved_range;
use replay::run::{DeviceTape, Options, run};
use settings::{Compat, Config};
use trace_format::BaseState;

/// Two segments of 20 MiB with a free block of 4 MiB each. The next request takes the one at the lower address; if that
/// is the second segment, the first has room for a request of 8 MiB later.
fn tie() -> Program {
    let mut program = Program::default();
    for name in ["a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3", "b4", "b5"] {
        program.alloc(name, 4 * MIB, 0);
    }
    for name in ["a1", "b1"] {
        program.free(name);
    }
    program.alloc("either", 4 * MIB, 0);
    program.free("a2");
    program.alloc("later", 8 * MIB, 0);
    program
}

#[test]
fn a_tie_between_two_segments_is_a_range_of_reserved_memory() {
    let program = tie();
    let options = Options {
        strategy: Config::parse("", Compat::V2_11).unwrap().config.into(),
        ..options("", None)
    };
    let base = BaseState::default();
    let tape = DeviceTape { base: &base, records: &program.records, text: &|_| "" };
    let own_bytes = run(tape, &options, &mut |_| {}).unwrap().peak_reserved_bytes;
    assert_eq!(own_bytes, 60 * MIB);
    let range = |orders| reserved_range(tape, &options, own_bytes, orders, &|| {}).unwrap();
    assert_eq!((range(1).lower_bytes, range(1).upper_bytes), (60 * MIB, 60 * MIB));
    assert_eq!((range(2).lower_bytes, range(2).upper_bytes), (40 * MIB, 60 * MIB));
    assert_eq!(range(8), range(8), "the same orders every time");
}
