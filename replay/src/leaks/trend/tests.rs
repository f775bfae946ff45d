use proptest::prelude::*;

use super::{Kendall, Trend, find, theil_sen, upper_tail};

const KIB: u64 = 1 << 10;

fn series(samples: usize, at: impl Fn(usize) -> u64) -> Vec<u64> {
    (0..samples).map(at).collect()
}

fn found(samples: usize, at: impl Fn(usize) -> u64) -> Option<Trend> {
    find(&series(samples, at))
}

/// A value in `0..range` that depends on the place alone.
fn noise(at: usize, range: u64) -> u64 {
    (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) % range
}

#[test]
fn steady_growth_has_its_rate_and_its_beginning() {
    let trend = found(40, |at| 100 * KIB + at as u64 * KIB).unwrap();
    assert_eq!((trend.slope, trend.since), (KIB as f64, 0));
    assert!(trend.confidence > 0.999_999, "{trend:?}");
    let late = found(60, |at| at.saturating_sub(20) as u64 * KIB).unwrap();
    assert_eq!((late.slope, late.since), (KIB as f64, 20));
}

#[test]
fn the_fewest_samples_that_are_judged() {
    assert!(found(13, |at| at as u64 * KIB).is_some());
    assert_eq!(found(12, |at| at as u64 * KIB), None);
    for samples in 0..5 {
        assert_eq!(found(samples, |at| at as u64 * KIB), None);
    }
}

#[test]
fn growth_at_the_end_of_each_epoch_is_growth() {
    let trend = found(50, |at| (at / 10) as u64 * KIB).unwrap();
    assert!((trend.slope - KIB as f64 / 10.0).abs() < KIB as f64 / 50.0, "{trend:?}");
    assert_eq!(trend.since, 9);
    assert_eq!(found(30, |at| (at / 10) as u64 * KIB), None, "two rises may be anything");
}

#[test]
fn growth_is_found_below_noise_and_peaks() {
    let noisy = found(100, |at| 10 * KIB + at as u64 * 64 + noise(at, KIB)).unwrap();
    assert!((noisy.slope - 64.0).abs() < 6.0, "{noisy:?}");
    let evaluated = found(100, |at| at as u64 * 64 + if at % 10 == 9 { 1 << 30 } else { 0 });
    assert_eq!(evaluated.map(|trend| trend.since), Some(0));
}

#[test]
fn growth_that_is_fast_at_first_and_goes_on_is_growth() {
    assert!(found(100, |at| (at as f64).sqrt() as u64 * KIB + at as u64 * KIB).is_some());
}

#[test]
fn look_alikes_are_no_growth() {
    let steady = 100 * KIB;
    let look_alikes: [(&str, Vec<u64>); 10] = [
        ("constant", series(100, |_| steady)),
        ("noise", series(300, |at| steady + noise(at, 50 * KIB))),
        ("warm-up", series(100, |at| steady + at.min(8) as u64 * KIB)),
        ("optimizer state", series(100, |at| if at < 2 { steady } else { 3 * steady })),
        ("evaluation", series(100, |at| if at % 10 == 9 { 5 * steady } else { steady })),
        ("growth that stops", series(100, |at| at.min(60) as u64 * KIB)),
        ("saturation", series(300, |at| ((at + 1) as f64).ln() as u64 * steady)),
        ("saw-tooth", series(100, |at| (at % 30) as u64 * KIB)),
        (
            "one request after another",
            series(150, |at| (if at < 60 { at } else { at - 60 }) as u64 * KIB),
        ),
        ("falling", series(100, |at| (100 - at) as u64 * KIB)),
    ];
    for (name, samples) in look_alikes {
        assert_eq!(find(&samples), None, "{name}");
    }
}

#[test]
fn growth_that_outlasts_what_was_given_back_is_growth() {
    let given_back = |at: usize| if at < 20 { at } else { at - 20 };
    assert!(found(90, |at| given_back(at) as u64 * KIB).is_some());
    assert_eq!(found(70, |at| given_back(at) as u64 * KIB), None);
    // One large block is no growth that was given back.
    let spike = |at: usize| if at == 4 { 1 << 30 } else { at as u64 * KIB };
    assert!(found(60, spike).is_some());
}

#[test]
fn the_statistics_are_those_of_the_tables() {
    for (z, expected) in [(0.0, 0.5), (1.0, 0.158_655_254), (3.09, 1.000_782e-3)] {
        assert!((upper_tail(z) - expected).abs() < 1e-6 * expected.max(1e-2), "{z}");
    }
    // S = 45 of ten rising samples: z = 44 / sqrt(125).
    let kendall = Kendall::of(&series(10, |at| at as u64));
    assert!((kendall.error - 4.16e-5).abs() < 1e-6, "{}", kendall.error);
    assert!((kendall.gamma - 1.0).abs() < f64::EPSILON);
    assert!((theil_sen(&[0, 1, 2, 100]) - 33.0).abs() < 34.0);
    assert!((theil_sen(&[0, 2, 4, 6, 1000]) - 2.0).abs() < f64::EPSILON);
}

proptest! {
    /// A series that only repeats itself never has a trend, whatever it repeats.
    #[test]
    fn what_repeats_itself_is_no_growth(
        period in prop::collection::vec(0..1_000_000_u64, 1..20),
        repetitions in 3..20_usize,
    ) {
        prop_assert_eq!(find(&period.repeat(repetitions)), None);
    }

    /// Samples in a random order have no trend, but for the probability of error.
    #[test]
    fn steady_growth_is_found_whatever_else_lives(
        base in 0..1_u64 << 40,
        slope in 512..1_u64 << 30,
        samples in 13..200_usize,
    ) {
        let trend = find(&series(samples, |at| base + slope * at as u64));
        prop_assert_eq!(trend.map(|trend| trend.slope), Some(slope as f64));
    }
}
