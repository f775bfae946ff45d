//! The settings that `tune` recommends were replayed, help, and harm no run.

mod common;

use common::builder::{MIB, Program, options};
use replay::driver::Follow;
use replay::run::{Options, run};
use replay::tape::Tape;
use replay::tune::{Member, TuneError, Tuning, tune};
use settings::{Compat, StitchConfig};

const FOLLOW: Follow = Follow { is_as_recorded: true, inferred_empty_cache: true, trust_factor: 1 };

/// Tunes programs together, each recorded with its settings on its device.
fn tuned(runs: &[(&Program, &str, Option<u64>)], lines: usize) -> Result<Tuning, TuneError> {
    let base = trace_format::BaseState::default();
    let members: Vec<_> = runs
        .iter()
        .map(|(program, settings, capacity_bytes)| Member {
            tape: replay::run::DeviceTape { base: &base, records: &program.records, text: &|_| "" },
            settings: (*settings).to_owned(),
            stitched: None,
            capacity_bytes: *capacity_bytes,
            follow: FOLLOW,
        })
        .collect();
    tune(&members, Compat::V2_15, lines, &|| {})
}

/// Large blocks that come and go in growing sizes, with a small one left in each hole.
fn fragmenting() -> Program {
    let mut program = Program::default();
    for round in 0..12 {
        let name = format!("large {round}");
        program.alloc(&name, (40 + 10 * round) * MIB, 0);
        program.free(&name);
        program.alloc(&format!("kept {round}"), 12 * MIB, 0);
    }
    program
}

#[test]
fn a_recommendation_matches_its_replay() {
    let mut gains = 0;
    for path in common::own_traces() {
        let tape = Tape::open(&path, &common::known(&path)).expect("a snapshot");
        for device in &tape.devices {
            let text = |id| tape.text(id);
            let device = replay::run::DeviceTape {
                base: &device.base,
                records: &device.records,
                text: &text,
            };
            let capacity_bytes = tape.meta.devices[0].capacity_bytes;
            let settings = tape.meta.alloc_conf.clone();
            let member =
                Member { tape: device, settings, stitched: None, capacity_bytes, follow: FOLLOW };
            let found = tune(&[member], tape.compat(), 40, &|| {}).unwrap();
            assert!(found.lines > 1 && found.lines <= 48, "{found:?}");
            let before = &found.before.runs[0];
            if let (Some(best), Some(further)) = (&found.best, &found.further) {
                let (best, further) = (&best.runs[0], &further.runs[0]);
                let better = further.peak_reserved_bytes < best.peak_reserved_bytes
                    || further.device_calls < best.device_calls
                    || further.num_ooms < best.num_ooms;
                assert!(better, "a longer search is named where it is worth it: {found:?}");
            }
            for proof in
                [&found.best, &found.further, &found.best_without_more_calls].into_iter().flatten()
            {
                gains += 1;
                let after = &proof.runs[0];
                let config = options(&proof.settings, None).native_config().unwrap().clone();
                let config = settings::Config {
                    compat: tape.compat(),
                    search_after_flush: proof.search_after_flush,
                    ..config
                };
                let options = Options { strategy: config.into(), ..options("", capacity_bytes) };
                let report = run(device, &options, &mut |_| {}).unwrap();
                assert_eq!(after.peak_reserved_bytes, report.peak_reserved_bytes);
                assert_eq!(after.device_calls, report.device_allocs + report.device_frees);
                assert_eq!(after.num_ooms, report.num_ooms, "{}", path.display());
                assert!(after.num_ooms <= before.num_ooms, "{found:?}");
                let better = after.peak_reserved_bytes < before.peak_reserved_bytes
                    || after.device_calls < before.device_calls
                    || after.num_ooms < before.num_ooms;
                assert!(better, "{found:?}");
            }
        }
    }
    assert!(gains > 0, "gpt2_train is known to gain");
}

#[test]
fn a_run_that_wastes_nothing_has_nothing_to_gain() {
    let mut program = Program::default();
    program.alloc("weights", 100 * MIB, 0);
    let found = tuned(&[(&program, "", Some(1 << 30))], 100).unwrap();
    assert_eq!((found.best, found.best_without_more_calls), (None, None));
    assert_eq!(found.before.runs[0].margin_bytes, Some((1024 - 100) * MIB as i64));
}

#[test]
fn a_gain_is_found_and_the_line_keeps_what_it_does_not_tune_and_no_idle_knob() {
    let program = fragmenting();
    let kept = "pinned_num_register_threads:8";
    let settings = format!("{kept},max_split_size_mb:4096");
    let found = tuned(&[(&program, &settings, None)], 200).unwrap();
    let best = found.best.clone().expect("a gain");
    assert!(best.settings.ends_with(kept) && !best.settings.contains("4096"), "{best:?}");
    let (before, after) = (&found.before.runs[0], &best.runs[0]);
    assert!(after.peak_reserved_bytes < before.peak_reserved_bytes / 2, "{found:?}");
    assert!(!found.stopped_early);
    assert_eq!(tuned(&[(&program, &settings, None)], 200).unwrap(), found, "every time the same");
}

#[test]
fn no_run_runs_out_of_memory_for_the_good_of_another() {
    // Rounding up to a power of two helps neither run; a setting that helps the first must not hurt the second.
    let first = fragmenting();
    let mut second = Program::default();
    for at in 0..9 {
        second.alloc(&at.to_string(), 11 * MIB, 0);
    }
    let runs = [(&first, "", None), (&second, "", Some(108 * MIB))];
    let found = tuned(&runs, 200).unwrap();
    assert_eq!(found.before.runs[1].num_ooms, 0, "{found:?}");
    if let Some(best) = &found.best {
        assert_eq!(best.runs[1].num_ooms, 0, "{best:?}");
    }
}

/// A run of `stitch` begins with what it reserved there, not with what `native` would have.
#[test]
fn stitch_is_listed_and_a_run_recorded_under_it_is_compared_with_it() {
    let program = fragmenting();
    let base = trace_format::BaseState::default();
    let tape = replay::run::DeviceTape { base: &base, records: &program.records, text: &|_| "" };
    let config = settings::Config { stitch: Some(StitchConfig::default()), ..Default::default() };
    let options = Options { strategy: config.clone().into(), ..options("", None) };
    let peak_bytes = run(tape, &options, &mut |_| {}).unwrap().peak_reserved_bytes;
    for stitched in [None, Some(config)] {
        let is_stitched = stitched.is_some();
        let settings = String::new();
        let member = Member { tape, settings, stitched, capacity_bytes: None, follow: FOLLOW };
        let found = tune(&[member], Compat::V2_15, 40, &|| {}).unwrap();
        let listed = found.stitch.expect("it can be replayed").runs[0].peak_reserved_bytes;
        assert_eq!(listed, peak_bytes);
        assert_eq!(found.before.runs[0].peak_reserved_bytes == peak_bytes, is_stitched);
    }
}

#[test]
fn the_search_stops_at_its_limit_and_reports_it() {
    let found = tuned(&[(&fragmenting(), "", None)], 3).unwrap();
    assert!(found.stopped_early && found.lines <= 9, "{found:?}");
}

#[test]
fn runs_with_other_settings_besides_and_no_runs_at_all_are_errors() {
    let program = Program::default();
    let runs = [(&program, "", None), (&program, "release_lock_on_cudamalloc:True", None)];
    let error = tuned(&runs, 10).unwrap_err();
    assert!(error.to_string().contains("tune them apart"), "{error}");
    assert!(matches!(tuned(&[], 10).unwrap_err(), TuneError::Empty));
    let error = tuned(&[(&program, "max_split_size_mb:3", None)], 10).unwrap_err();
    assert!(matches!(error, TuneError::Settings { .. }), "{error}");
}
