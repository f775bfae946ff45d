//! The smallest device that is enough: it is, a page less is not, and what more memory does is not taken on trust.

mod common;

use common::builder::{MIB, Program, options, random_program, random_steps};
use proptest::prelude::*;
use replay::driver::Follow;
use replay::fit::{Fit, PAGE_BYTES, Search, fit};
use replay::report::Report;
use replay::run::{DeviceTape, Options, run};
use replay::strategy::Choice;
use replay::tape::Tape;
use settings::{Compat, Config};
use trace_format::Event;

const SEARCH: Search = Search {
    follow: Follow { is_as_recorded: false, inferred_empty_cache: true, trust_factor: 1 },
    checks: 16,
    device_bytes: None,
};

fn fit_of(tape: DeviceTape<'_>, config: &Config, search: Search) -> Fit {
    fit(tape, &[config.clone().into()], search, &|| {}).expect("a consistent tape").remove(0)
}

fn ooms(tape: DeviceTape<'_>, config: &Config, capacity_bytes: u64) -> i64 {
    let options = Options { strategy: config.clone().into(), ..options("", Some(capacity_bytes)) };
    run(tape, &options, &mut |_| {}).expect("a consistent tape").num_ooms
}

/// Settings that every capacity is tried with.
const SETTINGS: [&str; 9] = [
    "",
    "max_split_size_mb:20",
    "roundup_power2_divisions:2",
    "expandable_segments:True",
    "expandable_segments:True,max_split_size_mb:20",
    "garbage_collection_threshold:0.5",
    "async-pool",
    "bfc",
    "rmm-pool",
];

fn choice(text: &str) -> Choice {
    if text.contains('-') || text == "bfc" {
        return Choice::parse(text, Compat::default()).expect("a model");
    }
    config(text).into()
}

fn report_of(tape: DeviceTape<'_>, choice: &Choice, capacity_bytes: u64) -> Option<Report> {
    let options = Options { strategy: choice.clone(), ..options("", Some(capacity_bytes)) };
    run(tape, &options, &mut |_| {}).ok()
}

fn ooms_of(tape: DeviceTape<'_>, choice: &Choice, capacity_bytes: u64) -> i64 {
    report_of(tape, choice, capacity_bytes).map_or(1, |report| report.num_ooms)
}

fn config(text: &str) -> Config {
    options(text, None).native_config().expect("the live allocator").clone()
}

/// With little memory the 600 MiB are flushed before a small block can be cut from them. With 228 MiB more they are
/// still cached then, and the small block keeps them from ever going back.
fn more_is_less() -> Program {
    let mut program = Program::default();
    program.alloc("a", 600 * MIB, 0);
    program.alloc("stays", 30 * MIB, 0);
    program.free("a");
    program.alloc("b", 640 * MIB, 0);
    program.alloc("little", 12 * MIB, 0);
    program.free("b");
    program.alloc("c", 1000 * MIB, 0);
    program
}

#[test]
fn more_memory_can_be_too_little_where_less_was_enough() {
    let program = more_is_less();
    let config = config("");
    let expected = [(1040, 1), (1042, 0), (1268, 0), (1270, 1), (1628, 1), (1630, 0), (4096, 0)];
    for (mib, times) in expected {
        let found = program.with_tape(|tape| ooms(tape, &config, mib * MIB));
        assert_eq!(found, times, "{mib} MiB");
    }
    let found = program.with_tape(|tape| fit_of(tape, &config, SEARCH));
    assert_eq!(found.capacity_bytes, Some(1630 * MIB), "{found:?}");
    let exception = found.exception.expect("a smaller one that is enough");
    assert_eq!((exception.fits_bytes, exception.fails_bytes), (1042 * MIB, 1628 * MIB));
    assert!(found.settled_share >= 1.0, "{found:?}");
}

#[test]
fn the_answer_is_enough_on_every_trace_and_a_page_less_is_not() {
    for path in common::own_traces() {
        let tape = Tape::open(&path, &common::known(&path)).expect("a snapshot");
        for device in &tape.devices {
            let text = |id| tape.text(id);
            let device = DeviceTape { base: &device.base, records: &device.records, text: &text };
            for text in ["", "expandable_segments:True", "garbage_collection_threshold:0.8"] {
                let config = Config { compat: tape.compat(), ..config(text) };
                let search = Search { checks: 4, ..SEARCH };
                let found = fit_of(device, &config, search);
                let bytes = found.capacity_bytes.expect("a device that is enough");
                let name = path.display();
                assert!(bytes >= found.peak_live_bytes, "{name}: {found:?}");
                assert_eq!(ooms(device, &config, bytes), 0, "{name} {text}");
                assert_eq!(ooms(device, &config, found.unlimited_peak_bytes.max(bytes)), 0);
                if bytes - PAGE_BYTES >= found.peak_live_bytes {
                    assert!(ooms(device, &config, bytes - PAGE_BYTES) > 0, "{name} {text}");
                }
            }
        }
    }
}

#[test]
fn a_device_on_the_command_line_is_replayed_itself() {
    let program = more_is_less();
    let on = |mib: u64| {
        let search = Search { device_bytes: Some(mib * MIB), ..SEARCH };
        program.with_tape(|tape| fit_of(tape, &config(""), search)).on_device.unwrap()
    };
    assert_eq!(
        (on(1268).num_ooms, on(1300).num_ooms),
        (0, 1),
        "1300 MiB are larger and do not fit"
    );
    assert_eq!(on(2000).spare_bytes, 370 * MIB);
}

#[test]
fn a_memory_fraction_takes_a_larger_device_and_none_is_enough_for_nothing() {
    let mut program = Program::default();
    program.memory_fraction(0.5);
    program.alloc("a", 100 * MIB, 0);
    let found = program.with_tape(|tape| fit_of(tape, &config(""), SEARCH));
    assert_eq!(found.capacity_bytes, Some(200 * MIB));
    let mut program = Program::default();
    program.memory_fraction(0.0);
    program.alloc("a", 100 * MIB, 0);
    let found = program.with_tape(|tape| fit_of(tape, &config(""), SEARCH));
    assert_eq!((found.capacity_bytes, found.at_capacity), (None, None));
}

#[test]
fn a_model_is_searched_like_the_live_allocator() {
    let program = more_is_less();
    let choice = Choice::parse("bfc", Compat::default()).unwrap();
    let found =
        program.with_tape(|tape| fit(tape, std::slice::from_ref(&choice), SEARCH, &|| {})).unwrap();
    let bytes = found[0].capacity_bytes.expect("a device that is enough");
    let ooms = |bytes| {
        let options = Options { strategy: choice.clone(), ..options("", Some(bytes)) };
        program.with_tape(|tape| run(tape, &options, &mut |_| {})).unwrap().num_ooms
    };
    assert_eq!((found[0].strategy.as_str(), ooms(bytes)), ("bfc", 0));
    assert!(ooms(bytes - PAGE_BYTES) > 0);
}

/// The frees claim that nothing was asked for, so that all of it seems to live at once.
#[test]
fn a_tape_whose_frees_give_back_too_little_is_searched_to_an_end() {
    let mut program = Program::default();
    for at in 0..100 {
        program.alloc("a", (40 + at) * MIB, 0);
        program.free("a");
        program.empty_cache();
    }
    let honest = program.with_tape(|tape| fit_of(tape, &config(""), SEARCH));
    for record in &mut program.records {
        if let Event::Free { requested_bytes, .. } = &mut record.event {
            *requested_bytes = 0;
        }
    }
    let found = program.with_tape(|tape| fit_of(tape, &config(""), SEARCH));
    assert_eq!(found.capacity_bytes, honest.capacity_bytes);
}

#[test]
fn a_memory_fraction_of_next_to_nothing_fits_nowhere() {
    for fraction in [f64::MIN_POSITIVE, 1e-12, f64::NAN] {
        let mut program = Program::default();
        program.alloc("a", 100 * MIB, 0);
        program.free("a");
        program.memory_fraction(fraction);
        let ask = |tape: DeviceTape<'_>| fit(tape, &[config("").into()], SEARCH, &|| {});
        // A fraction that is no number is refused by the replay.
        if let Ok(found) = program.with_tape(ask) {
            assert_eq!(found[0].capacity_bytes, None, "{fraction}");
        }
    }
}

#[test]
fn an_empty_run_fits_anywhere() {
    let found = Program::default().with_tape(|tape| fit_of(tape, &config(""), SEARCH));
    assert_eq!(found.capacity_bytes, Some(PAGE_BYTES));
}

proptest! {
    /// Capacities that a replay settles without trying give the same result when tried.
    #[test]
    fn every_capacity_that_counts_as_settled_is_as_it_says(
        steps in random_steps(1..80),
        text in prop::sample::select(SETTINGS.to_vec()),
    ) {
        let program = random_program(&steps);
        let choice = choice(text);
        let ooms = |bytes| program.with_tape(|tape| ooms_of(tape, &choice, bytes));
        let choices = std::slice::from_ref(&choice);
        let found = program.with_tape(|tape| fit(tape, choices, SEARCH, &|| {})).unwrap().remove(0);
        let bytes = found.capacity_bytes.expect("a device that is enough");
        prop_assert_eq!(ooms(bytes), 0);
        if bytes > PAGE_BYTES && bytes - PAGE_BYTES >= found.peak_live_bytes {
            prop_assert!(ooms(bytes - PAGE_BYTES) > 0);
        }
        let at_capacity = found.at_capacity.expect("a device that is enough");
        let report = program.with_tape(|tape| report_of(tape, &choice, bytes)).expect("it fits");
        prop_assert_eq!(at_capacity.num_alloc_retries, report.num_alloc_retries);
        prop_assert_eq!(at_capacity.device_calls, report.device_allocs + report.device_frees);
        let last = found.unlimited_peak_bytes + 4 * PAGE_BYTES;
        let mut capacity_bytes = bytes;
        let mut failed = 0;
        while capacity_bytes <= last {
            failed += i32::from(ooms(capacity_bytes) > 0);
            capacity_bytes += PAGE_BYTES;
        }
        if found.settled_share >= 1.0 {
            prop_assert_eq!(failed, 0, "{:?}", found);
        }
        if let Some(exception) = found.exception {
            prop_assert_eq!(ooms(exception.fits_bytes), 0);
            prop_assert!(ooms(exception.fails_bytes) > 0);
        }
    }
}
