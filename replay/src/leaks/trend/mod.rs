//! Whether live bytes grow from step to step: a trend test that ignores noise, peaks and growth that is given back.
//!
//! The *floor* at a step is the least that is live then or later: memory that is never given back again. Growth is
//! growth of the floor; `docs/leaks.md` has each rule with its reason.

/// Steps at the start that are not judged: optimizer state, workspaces and caches appear in them.
pub const WARM_UP_STEPS: usize = 3;
/// Samples that growth has to cover. Ten that only rise are a trend with a probability of error of 4 in 100,000.
pub const SAMPLES_MIN: usize = 10;
/// Separate rises of the floor.
pub const RISES_MIN: usize = 4;
/// The probability that a series without a trend looks like this one.
pub const ERROR_MAX: f64 = 0.001;
/// Of the pairs of samples that differ, (rising - falling) / (rising + falling).
pub const GAMMA_MIN: f64 = 0.5;
/// The part of the mean growth that each third has to have, and the part of the trend that the floor has to explain.
pub const SHARE_MIN: f64 = 0.5;
/// After memory was given back, growth counts when it is this many times as much or as long as the growth before.
pub const RESET_FACTOR: u64 = 3;
/// Moments of growth that are tried as its beginning.
const ONSETS_MAX: usize = 16;

/// A trend in a series of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// The sample after which it begins.
    pub since: usize,
    /// Growth from one sample to the next, by Theil and Sen: the median of the slopes of all pairs.
    pub slope: f64,
    /// One less the probability of error of the test of Mann and Kendall.
    pub confidence: f64,
}

/// The trend of a series, if it has one.
pub fn find(samples: &[u64]) -> Option<Trend> {
    let judged = samples.get(WARM_UP_STEPS..)?;
    let floor = floor(samples);
    let onsets = (WARM_UP_STEPS..samples.len() - 1).filter(|at| floor[at + 1] > floor[*at]);
    let least = SAMPLES_MIN.max(judged.len().div_ceil(2));
    for since in onsets.take_while(|at| samples.len() - at >= least).take(ONSETS_MAX) {
        let Some((slope, confidence)) = test(&samples[since..], &floor[since..]) else { continue };
        if was_given_back(samples, &floor, since) {
            continue;
        }
        return Some(Trend { since: before_warm_up(&floor, since, slope), slope, confidence });
    }
    None
}

/// The least of each sample and all later ones. Nothing is known of later ones at the end, so the last tenth is as the
/// least of it.
fn floor(samples: &[u64]) -> Vec<u64> {
    let mut floor = samples.to_vec();
    let end = floor.len() - end_len(floor.len());
    let least = floor[end..].iter().copied().min().unwrap_or(0);
    floor[end..].fill(least);
    for at in (1..floor.len()).rev() {
        floor[at - 1] = floor[at - 1].min(floor[at]);
    }
    floor
}

/// Samples of the end of so many.
fn end_len(samples: usize) -> usize {
    (samples / 10).max(2).min(samples)
}

/// Slope and confidence, if the floor grows all the time and the samples with it.
fn test(samples: &[u64], floor: &[u64]) -> Option<(f64, f64)> {
    if !grows_all_the_time(floor) {
        return None;
    }
    let kendall = Kendall::of(samples);
    let slope = theil_sen(samples);
    let grown_bytes = (floor[floor.len() - 1] - floor[0]) as f64;
    let is_explained = grown_bytes >= SHARE_MIN * slope * (floor.len() - 1) as f64;
    let holds = kendall.error <= ERROR_MAX && kendall.gamma >= GAMMA_MIN && slope > 0.0;
    (holds && is_explained).then_some((slope, 1.0 - kendall.error))
}

/// Whether each third of the floor has its share of the growth, and the growth goes on to the end.
fn grows_all_the_time(floor: &[u64]) -> bool {
    let last = floor.len() - 1;
    let rises: Vec<usize> = (0..last).filter(|at| floor[at + 1] > floor[*at]).collect();
    if rises.len() < RISES_MIN {
        return false;
    }
    let grown = |from: usize, to: usize| (floor[to] - floor[from]) as f64;
    let least_bytes = SHARE_MIN * grown(0, last) / 3.0;
    let thirds = [(0, last / 3), (last / 3, 2 * last / 3), (2 * last / 3, last)];
    let longest_pause = rises.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    let pause = last - 1 - rises[rises.len() - 1];
    thirds.into_iter().all(|(from, to)| grown(from, to) >= least_bytes)
        && pause <= 2 * longest_pause + end_len(floor.len())
}

/// Whether the series grew before and gave it back, and has not grown for much longer than it did then.
fn was_given_back(samples: &[u64], floor: &[u64], since: usize) -> bool {
    let peak = (0..=since).rev().max_by_key(|at| samples[*at]).unwrap_or(since);
    let low = (peak..=since).min_by_key(|at| samples[*at]).unwrap_or(since);
    let given_back_bytes = samples[peak] - samples[low];
    let grown_bytes = floor[floor.len() - 1] - floor[low];
    if RESET_FACTOR.saturating_mul(given_back_bytes) < grown_bytes {
        return false;
    }
    let earlier = self::floor(&samples[..=peak]);
    let rises: Vec<usize> = (0..peak).filter(|at| earlier[at + 1] > earlier[*at]).collect();
    let is_gradual = rises.len() >= RISES_MIN - 1;
    is_gradual && samples.len() - low < RESET_FACTOR as usize * (peak - rises[0] + 1)
}

/// The begin of growth that was found after the warm-up, if it grew at this rate before.
fn before_warm_up(floor: &[u64], since: usize, slope: f64) -> usize {
    let is_alike = |at: usize| {
        let rise = (floor[at + 1] - floor[at]) as f64;
        rise >= slope / 2.0 && rise <= slope * 2.0
    };
    (0..since).rev().take_while(|at| is_alike(*at)).last().unwrap_or(since)
}

/// The test of Mann and Kendall for a rising trend.
struct Kendall {
    /// The probability of error, one-sided, by the normal approximation with the correction for ties.
    error: f64,
    /// Goodman's and Kruskal's gamma.
    gamma: f64,
}

impl Kendall {
    fn of(samples: &[u64]) -> Self {
        let (mut rising, mut falling) = (0_u64, 0_u64);
        for (at, earlier) in samples.iter().enumerate() {
            for later in &samples[at + 1..] {
                rising += u64::from(later > earlier);
                falling += u64::from(later < earlier);
            }
        }
        let n = samples.len() as f64;
        let spread = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|tied| spread(tied.len() as f64)).sum();
        let variance = (spread(n) - ties) / 18.0;
        let score = rising as f64 - falling as f64;
        // Without a difference there is no trend.
        if score <= 0.0 || variance <= 0.0 {
            return Self { error: 1.0, gamma: 0.0 };
        }
        let gamma = score / (rising + falling) as f64;
        Self { error: upper_tail((score - 1.0) / variance.sqrt()), gamma }
    }
}

/// The probability that a normal variable is larger than `z`, for `z` of at least 0; the relative error is below
/// 1.2e-7 (Numerical Recipes, `erfcc`).
fn upper_tail(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let factors = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_87,
        -1.135_203_98,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_68,
        -1.265_512_23,
    ];
    let series = factors.into_iter().fold(0.0, |sum, factor| sum * t + factor);
    0.5 * t * (-x * x + series).exp()
}

/// The median of the slopes of all pairs.
fn theil_sen(samples: &[u64]) -> f64 {
    let mut slopes = Vec::with_capacity(samples.len() * (samples.len() - 1) / 2);
    for (at, earlier) in samples.iter().enumerate() {
        for (later, distance) in samples[at + 1..].iter().zip(1_u32..) {
            slopes.push((*later as f64 - *earlier as f64) / f64::from(distance));
        }
    }
    let middle = slopes.len() / 2;
    let (_, median, _) = slopes.select_nth_unstable_by(middle, f64::total_cmp);
    *median
}

#[cfg(test)]
mod tests;
