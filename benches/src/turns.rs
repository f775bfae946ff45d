//! Times of setups that are measured in turns. The load of a shared machine changes from second to second: measured one
//! after the other, two equal setups differ by a third; in turns they meet the same load, and their ratio is steady.

use std::time::Duration;

const ROUNDS: usize = 61;

/// Whether this is a bench; else cargo only tests that it runs.
pub fn is_bench() -> bool {
    std::env::args().any(|arg| arg == "--bench")
}

/// The times of setups in the same rounds.
pub struct Turns {
    /// Nanoseconds per operation, by setup and round.
    times_ns: Vec<Vec<f64>>,
}

impl Turns {
    /// Measures each of `setups` in turn; once each where cargo only tests the bench. `measure` returns the time that
    /// `operations` took.
    pub fn measure<S>(
        setups: &[S],
        operations: u64,
        mut measure: impl FnMut(&S) -> Duration,
    ) -> Self {
        let mut times_ns: Vec<_> = setups.iter().map(|_| Vec::new()).collect();
        for _ in 0..if is_bench() { ROUNDS } else { 1 } {
            for (setup, times_ns) in setups.iter().zip(&mut times_ns) {
                times_ns.push(measure(setup).as_nanos() as f64 / operations as f64);
            }
        }
        Self { times_ns }
    }

    /// The median time of an operation of a setup.
    pub fn median_ns(&self, setup: usize) -> f64 {
        quartiles(self.times_ns[setup].clone())[1]
    }

    /// How many times as long one setup takes as another one: the quartiles over the rounds.
    pub fn ratio(&self, setup: usize, to: usize) -> [f64; 3] {
        let pairs = self.times_ns[setup].iter().zip(&self.times_ns[to]);
        quartiles(pairs.map(|(one, other)| one / other).collect())
    }
}

/// The lower quartile, the median and the upper quartile.
pub fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}
