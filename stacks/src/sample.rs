//! Which calls have their stack taken where not all do: by bytes, so that what is large is not missed.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes still to go, and the state of a generator of random numbers, which is never 0.
#[derive(Clone, Copy, Debug)]
struct Countdown {
    left: u64,
    random: u64,
}

impl Countdown {
    fn new(every: NonZero<u64>, seed: u64) -> Self {
        let mut countdown = Self { left: 0, random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 };
        countdown.restart(every);
        countdown
    }

    /// An exponential distance: what was counted before makes no difference to what is next.
    fn restart(&mut self, every: NonZero<u64>) {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let bits = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        // In (0, 1].
        let unit = (bits + 1) as f64 / (1_u64 << 53) as f64;
        self.left = (-unit.ln() * every.get() as f64) as u64;
    }

    fn takes(&mut self, every: NonZero<u64>, size_bytes: u64) -> bool {
        if size_bytes <= self.left {
            self.left -= size_bytes;
            return false;
        }
        self.restart(every);
        true
    }
}

/// Whether a call of the calling thread about `size_bytes` is one of those whose stack is taken: with probability
/// `1 - e^(-size_bytes / every)`, whatever came before it.
#[inline]
pub fn is_sampled(every: NonZero<u64>, size_bytes: u64) -> bool {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static COUNTDOWN: Cell<Option<Countdown>> = const { Cell::new(None) };
    }
    let mut countdown = COUNTDOWN
        .get()
        .unwrap_or_else(|| Countdown::new(every, THREADS.fetch_add(1, Ordering::Relaxed)));
    let takes = countdown.takes(every, size_bytes);
    COUNTDOWN.set(Some(countdown));
    takes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_taken_as_often_as_its_bytes_say_whatever_is_between() {
        let every = NonZero::new(1 << 20).unwrap();
        for seed in 1..5 {
            let mut countdown = Countdown::new(every, seed);
            let sizes = [512, 1 << 16, 1 << 20, 20 << 20];
            let mut taken = [0_u32; 4];
            let rounds = 200_000;
            for _ in 0..rounds {
                for (size, taken) in sizes.iter().zip(&mut taken) {
                    *taken += u32::from(countdown.takes(every, *size));
                }
            }
            for (size, taken) in sizes.into_iter().zip(taken) {
                let expected = 1.0 - (-(size as f64) / every.get() as f64).exp();
                let mean = expected * f64::from(rounds);
                let spread = (mean * (1.0 - expected)).sqrt();
                let off = (f64::from(taken) - mean).abs();
                assert!(off < 5.0 * spread + 1.0, "seed {seed}, {size} bytes: {taken}, not {mean}");
            }
        }
    }
}
