//! Random numbers from a seed that is printed.

use std::time::{SystemTime, UNIX_EPOCH};

/// The seed: `VRAMTAPE_SEED`, else from the clock.
pub(crate) fn seed() -> u64 {
    match std::env::var("VRAMTAPE_SEED") {
        Ok(text) => text.parse().expect("VRAMTAPE_SEED is a number"),
        Err(_) => {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Rng(u64);

impl Rng {
    /// Throws that follow from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// One of several.
    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A size from every class: small, 1 to 10 MiB, larger.
    pub(crate) fn bytes(&mut self) -> u64 {
        let class = self.of(&[1_u64 << 12, 1 << 20, 10 << 20, 60 << 20]);
        1 + self.below(class)
    }
}
