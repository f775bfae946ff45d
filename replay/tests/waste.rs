//! Every reserved byte is in exactly one part, and in the one that `docs/waste.md` defines.

mod common;

use common::builder::{MIB, Program, options, random_program, random_steps};
use proptest::prelude::*;
use replay::run::{DeviceTape, Options, run};
use replay::tape::Tape;
use replay::waste::{Waste, WasteMoment, waste};
use settings::Config;
use trace_format::PoolId;

/// Fails unless the parts of every moment add up to what the heap itself counts as reserved.
fn assert_adds_up(waste: &Waste) -> Result<(), String> {
    let moments = std::iter::once(&waste.peak).chain([&waste.filled]).chain(&waste.ooms);
    let samples = moments.map(|moment| &moment.sample).chain(&waste.series);
    for sample in samples {
        if sample.parts.sum_bytes() != sample.reserved_bytes {
            return Err(format!("{sample:?} sums to {}", sample.parts.sum_bytes()));
        }
    }
    for moment in std::iter::once(&waste.peak).chain(&waste.ooms) {
        let parts = &moment.sample.parts;
        let of_streams: u64 = moment.streams.iter().map(|stream| stream.stranded_bytes).sum();
        let of_pools: u64 = moment.pools.iter().map(|pool| pool.stranded_bytes).sum();
        if (of_streams, of_pools) != (parts.stranded_by_stream_bytes, parts.stranded_by_pool_bytes)
        {
            return Err(format!("{moment:?}: streams {of_streams}, pools {of_pools}"));
        }
        if moment.returnable_bytes > parts.free_bytes()
            || moment.withheld_by_settings_bytes > parts.stranded_by_fragmentation_bytes
        {
            return Err(format!("{moment:?}: more than there is"));
        }
    }
    Ok(())
}

fn of(program: &Program, options: &Options) -> Waste {
    program.with_tape(|tape| waste(tape, options, 1000, &mut |_| {})).expect("a consistent program")
}

/// Moments of each run that are looked at, where it has so many.
const POINTS: usize = 60;

#[test]
fn parts_add_up_to_what_is_reserved_on_every_trace_under_every_policy() {
    for path in common::all_traces() {
        let tape = Tape::open(&path, &common::known(&path)).expect("a snapshot");
        for device in &tape.devices {
            let recorded = Config::parse(&tape.meta.alloc_conf, tape.compat()).unwrap().config;
            let capacity_bytes = tape.device_meta(device.id).and_then(|meta| meta.capacity_bytes);
            for (text, capacity_bytes) in [
                (tape.meta.alloc_conf.as_str(), capacity_bytes),
                ("max_split_size_mb:32,roundup_power2_divisions:4", None),
                ("expandable_segments:True,max_split_size_mb:64", None),
            ] {
                let config = Config::parse(text, recorded.compat).unwrap().config;
                let options = Options { strategy: config.into(), ..options("", capacity_bytes) };
                let text = |id| tape.text(id);
                let device =
                    DeviceTape { base: &device.base, records: &device.records, text: &text };
                let found =
                    waste(device, &options, POINTS, &mut |_| {}).expect("a consistent trace");
                assert_adds_up(&found).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                let report = run(device, &options, &mut |_| {}).unwrap();
                assert_eq!(found.ooms_total, report.num_ooms as u64, "{}", path.display());
                if report.num_alloc_retries == 0 {
                    let peak = found.peak.sample.reserved_bytes;
                    assert_eq!(peak, report.peak_reserved_bytes, "{}", path.display());
                }
                let moments = POINTS.min(device.records.len() + 1);
                assert_eq!(found.series.len(), moments, "{}", path.display());
            }
        }
    }
}

proptest! {
    #[test]
    fn parts_add_up_after_every_step_of_any_program(
        steps in random_steps(1..120),
        config in prop::sample::select(vec![
            "",
            "expandable_segments:True",
            "max_split_size_mb:20",
            "expandable_segments:True,max_split_size_mb:20",
            "roundup_power2_divisions:2",
            "large_segment_size_mb:40,max_non_split_rounding_mb:64",
        ]),
        capacity_mib in prop::option::of(30..600u64),
    ) {
        let capacity_bytes = capacity_mib.map(|mib| mib * MIB);
        let program = random_program(&steps);
        let found = of(&program, &options(config, capacity_bytes));
        prop_assert_eq!(found.series.len(), program.records.len() + 1);
        assert_adds_up(&found).map_err(TestCaseError::fail)?;
    }
}

/// The parts of the last moment, by name, those that are not zero.
fn last(waste: &Waste) -> Vec<(&'static str, u64)> {
    let parts = waste.series.last().expect("a moment").parts;
    parts.named().into_iter().filter(|(_, bytes)| *bytes > 0).collect()
}

#[test]
fn a_held_block_is_the_request_its_rounding_and_the_unsplit_rest() {
    let mut program = Program::default();
    program.alloc("one", 12 * MIB - 100, 0);
    let found = of(&program, &options("", None));
    assert_eq!(last(&found), [("requested", 12 * MIB - 100), ("rounding", 100)]);
    let found = of(&program, &options("roundup_power2_divisions:1", None));
    assert_eq!(last(&found), [("requested", 12 * MIB - 100), ("rounding", 100)]);
    // With two divisions 8 MiB are followed by 12 MiB.
    program.alloc("two", 9 * MIB, 0);
    let found = of(&program, &options("roundup_power2_divisions:2", None));
    assert_eq!(last(&found), [("requested", 21 * MIB - 100), ("rounding", 3 * MIB + 100)]);
}

#[test]
fn the_rest_of_a_large_segment_made_for_one_block_is_the_drivers_granularity() {
    let mut program = Program::default();
    program.alloc("one", 11 * MIB + 512, 0); // A segment of 12 MiB: the rest is under 1 MiB.
    let found = of(&program, &options("", None));
    let rest = MIB - 512;
    assert_eq!(last(&found), [("requested", 11 * MIB + 512), ("driver granularity", rest)]);
    // The same block of a 20 MiB segment is a rest that was not cut off.
    let mut program = Program::default();
    program.alloc("big", 20 * MIB, 0);
    program.free("big");
    program.alloc("one", 19 * MIB + 512, 0);
    let found = of(&program, &options("", None));
    assert_eq!(last(&found), [("requested", 19 * MIB + 512), ("driver granularity", rest)]);
    let mut program = Program::default();
    program.alloc("first", 5 * MIB, 0);
    program.alloc("second", 14 * MIB + 512, 0); // From the rest of the first's 20 MiB.
    let found = of(&program, &options("", None));
    assert_eq!(last(&found), [("requested", 19 * MIB + 512), ("unsplit remainder", rest)]);
}

/// 30 MiB are free in one piece, and then a request takes 24 MiB from the device.
fn free_piece(stream: u64, pool: PoolId, blocker: bool) -> Program {
    let mut program = Program::default();
    program.alloc_in("piece", 30 * MIB, stream, pool);
    program.free("piece");
    if blocker {
        program.alloc_in("blocker", 7 * MIB, stream, pool);
    }
    program.alloc("asks", 24 * MIB, 0);
    program
}

fn peak_part(program: &Program, config: &str) -> WasteMoment {
    of(program, &options(config, None)).peak
}

#[test]
fn a_fitting_piece_of_another_stream_is_stranded_by_the_stream_and_named() {
    let peak = peak_part(&free_piece(7, PoolId::DEFAULT, false), "");
    assert_eq!(peak.sample.parts.stranded_by_stream_bytes, 30 * MIB);
    assert_eq!((peak.streams[0].stream.0, peak.streams[0].stranded_bytes), (7, 30 * MIB));
    assert_eq!(peak.returnable_bytes, 30 * MIB, "a flush returns it");
}

#[test]
fn a_fitting_piece_of_another_pool_is_stranded_by_the_pool_and_named() {
    let pool = PoolId(0, 3);
    let peak = peak_part(&free_piece(0, pool, false), "");
    assert_eq!(peak.sample.parts.stranded_by_pool_bytes, 30 * MIB);
    assert_eq!((peak.pools[0].pool, peak.pools[0].stranded_bytes), (pool, 30 * MIB));
    assert_eq!(peak.returnable_bytes, 0, "no flush returns what a pool in use holds");
}

#[test]
fn a_piece_that_is_too_small_is_fragmentation_for_any_owner() {
    for (stream, pool) in [(0, PoolId::DEFAULT), (7, PoolId::DEFAULT), (0, PoolId(0, 3))] {
        let parts = peak_part(&free_piece(stream, pool, true), "").sample.parts;
        assert_eq!(parts.stranded_by_fragmentation_bytes, 23 * MIB, "{stream} {pool}");
        assert_eq!(parts.free_bytes(), 23 * MIB);
    }
}

#[test]
fn a_whole_segment_of_another_stream_is_stranded_by_it_even_where_it_is_too_small() {
    let mut program = free_piece(7, PoolId::DEFAULT, false);
    program.alloc("more", 64 * MIB, 0);
    let peak = peak_part(&program, "");
    assert_eq!(peak.sample.parts.stranded_by_stream_bytes, 30 * MIB);
}

#[test]
fn freed_memory_is_reusable_if_the_last_miss_fits_in_it() {
    let mut program = Program::default();
    program.alloc("asks", 24 * MIB, 0);
    program.free("asks");
    program.alloc("little", 22 * MIB, 0); // From the cache; 2 MiB are left of it.
    assert_eq!(
        last(&of(&program, &options("", None))),
        [("requested", 22 * MIB), ("stranded by fragmentation", 2 * MIB)]
    );
    program.free("little");
    assert_eq!(last(&of(&program, &options("", None))), [("cached and reusable", 24 * MIB)]);
}

#[test]
fn a_piece_that_max_split_size_keeps_from_the_request_is_withheld() {
    let mut program = Program::default();
    program.alloc("large", 100 * MIB, 0);
    program.free("large");
    program.alloc("asks", 24 * MIB, 0);
    let peak = peak_part(&program, "max_split_size_mb:50");
    assert_eq!(peak.sample.parts.stranded_by_fragmentation_bytes, 100 * MIB);
    assert_eq!(peak.withheld_by_settings_bytes, 100 * MIB);
    let peak = peak_part(&program, "");
    assert_eq!((peak.withheld_by_settings_bytes, peak.sample.reserved_bytes), (0, 100 * MIB));
}

#[test]
fn a_free_that_waits_for_another_stream_is_pending() {
    let mut program = Program::default();
    program.alloc("shared", 24 * MIB, 0);
    program.free_later("shared");
    assert_eq!(last(&of(&program, &options("", None))), [("pending free", 24 * MIB)]);
    program.complete("shared");
    assert_eq!(last(&of(&program, &options("", None))), [("cached and reusable", 24 * MIB)]);
}

#[test]
fn the_free_end_of_an_expandable_segment_serves_whatever_it_can_grow_to() {
    let mut program = Program::default();
    program.alloc("one", 30 * MIB, 0); // Two pages of 20 MiB.
    program.alloc("two", 90 * MIB, 0); // Grows from the free 10 MiB on.
    let found = of(&program, &options("expandable_segments:True", None));
    assert_eq!(last(&found), [("requested", 120 * MIB)]);
    program.alloc("three", 5 * MIB, 0);
    let found = of(&program, &options("expandable_segments:True", None));
    assert_eq!(last(&found), [("requested", 125 * MIB), ("cached and reusable", 15 * MIB)]);
    // A hole between blocks grows nowhere: it is fragmentation for what does not fit.
    program.free("one");
    program.alloc("four", 35 * MIB, 0);
    let found = of(&program, &options("expandable_segments:True", None));
    let parts = found.series.last().unwrap().parts;
    assert_eq!(parts.stranded_by_fragmentation_bytes, 30 * MIB);
}

#[test]
fn out_of_memory_is_judged_by_the_request_that_was_refused() {
    let mut program = Program::default();
    for name in ["a", "b", "c", "d"] {
        program.alloc(name, 8 * MIB, 0); // Two to a segment of 20 MiB.
    }
    program.free("a");
    program.free("c");
    program.alloc("asks", 14 * MIB, 0);
    let found = of(&program, &options("", Some(50 * MIB)));
    assert_eq!((found.ooms_total, found.ooms.len()), (1, 1));
    let oom = &found.ooms[0];
    let refused = oom.refused.expect("a refused request");
    assert_eq!((refused.requested_bytes, refused.stream.0), (14 * MIB, 0));
    assert_eq!((oom.available_bytes, oom.largest_free.large_bytes), (10 * MIB, 8 * MIB));
    assert_eq!(oom.sample.parts.stranded_by_fragmentation_bytes, 24 * MIB);
    assert_eq!(oom.sample.after_records, 7);
    assert!(found.peak.refused.is_none(), "the peak was before");
}

#[test]
fn a_fraction_limits_the_available_memory() {
    let mut program = Program::default();
    program.memory_fraction(0.5);
    program.alloc("a", 40 * MIB, 0);
    program.alloc("b", 40 * MIB, 0);
    let found = of(&program, &options("", Some(128 * MIB)));
    assert_eq!((found.ooms_total, found.ooms[0].available_bytes), (1, 24 * MIB));
}

#[test]
fn the_series_is_bounded_and_never_hides_the_peak() {
    let mut program = Program::default();
    for at in 0..100 {
        program.alloc(&at.to_string(), (at % 10 + 1) * MIB, 0);
        if at % 3 == 0 {
            program.free(&at.to_string());
        }
    }
    for points in [1, 2, 7, 50] {
        let options = options("", None);
        let found = program.with_tape(|tape| waste(tape, &options, points, &mut |_| {})).unwrap();
        assert!(found.series.len() <= points, "{points}");
        let most = found.series.iter().map(|sample| sample.reserved_bytes).max();
        assert_eq!(most, Some(found.peak.sample.reserved_bytes));
        assert!(found.series.is_sorted_by_key(|sample| sample.after_records));
    }
    let found =
        Program::default().with_tape(|tape| waste(tape, &options("", None), 0, &mut |_| {}));
    assert_eq!(found.unwrap().peak.sample.reserved_bytes, 0, "an empty tape");
}
