//! Random calls to the heap and to a naive reference of PyTorch's rules, which must agree on every address, refusal,
//! statistic and snapshot.

mod agreement;
mod ops;
mod pair;
mod reference;

use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, RngAlgorithm, TestError, TestRng, TestRunner};
use settings::Config;

use crate::support::{GIB, MIB, seed};
use ops::{Mix, compat};
use pair::Pair;

const REGRESSIONS: &str = "tests/heap/model/regressions.txt";

/// Runs random calls under settings that start from the mix's: `PROPTEST_CASES` times, else a hundred.
fn agree(name: &str, mix: &Mix) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let settings = ProptestConfig {
        cases: cases.unwrap_or(100),
        max_shrink_iters: 20_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS))),
        ..ProptestConfig::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed(name).to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(settings, rng);
    let runs = (compat(), any::<bool>(), mix.ops());
    let outcome = runner.run(&runs, |(compat, reuse, ops)| {
        let config =
            Config { compat, graph_capture_record_stream_reuse: reuse, ..mix.config.clone() };
        Pair::new(mix.capacity_bytes, config).run(&ops)
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, run)) => panic!("{name}: {why}\nminimal run: {run:?}"),
        Err(error) => panic!("{name}: {error}"),
    }
}

#[test]
fn default_settings_place_as_the_reference() {
    agree("default", &Mix::new(4 * GIB, Config::default()));
}

#[test]
fn a_split_limit_places_as_the_reference() {
    let config = Config {
        max_split_size_bytes: 32 * MIB,
        max_non_split_rounding_bytes: 8 * MIB,
        ..Config::default()
    };
    agree("split limit", &Mix { settings: 1, ..Mix::new(700 * MIB, config) });
}

#[test]
fn roundup_divisions_place_as_the_reference() {
    let mut divisions = [4; 16];
    divisions[0] = 8;
    divisions[2] = 1;
    divisions[5] = 2;
    let config = Config { roundup_power2_divisions: divisions, ..Config::default() };
    agree("roundup", &Mix::new(2 * GIB, config));
}

#[test]
fn garbage_collection_collects_as_the_reference() {
    let config = Config {
        garbage_collection_threshold: 0.5,
        per_process_memory_fraction: 0.8,
        ..Config::default()
    };
    agree("garbage", &Mix { settings: 1, fraction: 1, ..Mix::new(GIB, config) });
}

#[test]
fn another_large_segment_size_places_as_the_reference() {
    let config = Config { large_segment_size_bytes: 64 * MIB, ..Config::default() };
    agree("segment size", &Mix { settings: 1, ..Mix::new(GIB, config) });
}

#[test]
fn expandable_segments_grow_and_shrink_as_the_reference() {
    let config = Config { expandable_segments: true, ..Config::default() };
    agree("expandable", &Mix { settings: 1, ..Mix::new(2 * GIB, config) });
}

#[test]
fn short_memory_is_retried_and_refused_as_the_reference() {
    agree("short", &Mix { fraction: 1, settings: 1, ..Mix::new(256 * MIB, Config::default()) });
}

#[test]
fn short_memory_under_expandable_segments_is_refused_as_the_reference() {
    let config = Config { expandable_segments: true, ..Config::default() };
    agree("short expandable", &Mix { fraction: 1, ..Mix::new(200 * MIB, config) });
}

#[test]
fn pools_and_captures_hold_back_and_reuse_as_the_reference() {
    let mix = Mix { pools: 8, streams: 6, settings: 1, ..Mix::new(500 * MIB, Config::default()) };
    agree("pools", &mix);
}

#[test]
fn pools_under_expandable_segments_place_as_the_reference() {
    let config = Config { expandable_segments: true, ..Config::default() };
    let mix = Mix { pools: 8, streams: 4, settings: 1, ..Mix::new(600 * MIB, config) };
    agree("expandable pools", &mix);
}
