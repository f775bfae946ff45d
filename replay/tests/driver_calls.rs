//! A short tape cannot make a replay call the simulated device without end.

mod common;

use common::builder::{Program, options};
use replay::driver::{DriveError, Follow};
use replay::run::{Options, run};
use replay::strategy::Choice;
use settings::Compat;

#[test]
fn a_short_tape_makes_no_more_driver_calls_than_it_is_trusted_with() {
    let mut program = Program::default();
    for _ in 0..40 {
        program.alloc("block", 1 << 40, 0);
        program.free("block");
        program.empty_cache();
    }
    let replay = |trust_factor| {
        let follow = Follow { trust_factor, ..Follow::default() };
        let strategy = Choice::parse("async-pool", Compat::V2_15).expect("a strategy");
        let options = Options { strategy, follow, ..options("", None) };
        program.with_tape(|tape| run(tape, &options, &mut |_| {}))
    };
    let error = replay(1).map(|report| report.driver_calls).unwrap_err();
    assert!(matches!(error, DriveError::TooMuch { .. }), "{error}");
    assert!(error.to_string().contains("driver calls so far, where at most"), "{error}");
    assert!(error.to_string().contains("--trust-factor"), "{error}");
    replay(1_000).expect("a trusted tape is replayed");
}
