//! The default pool and the private pools of a run, apart.
//!
//! A private pool (a CUDA graph's, a `MemPool`) is as in `native` under `stitch`, and its memory stays with it under
//! every strategy. Its bytes would hide how strategies differ in the default pool.

use serde::Serialize;

/// The peaks of the default pool, or of all private pools together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PoolPeaks {
    /// The most bytes alive at once, in the strategy's smallest unit.
    pub peak_live_bytes: u64,
    /// The most bytes held from the device at once, after any record.
    pub peak_reserved_bytes: u64,
    /// `peak_live_bytes / peak_reserved_bytes`.
    pub efficiency: f64,
}

/// Both kinds of pools of a run that has private ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PoolsApart {
    /// The default pool.
    pub default: PoolPeaks,
    /// All private pools.
    pub private: PoolPeaks,
}

/// The part of the reserved bytes that was alive, by their peaks: 1 where nothing was reserved.
pub(crate) fn efficiency(peak_live_bytes: u64, peak_reserved_bytes: u64) -> f64 {
    if peak_reserved_bytes == 0 {
        return 1.0;
    }
    peak_live_bytes as f64 / peak_reserved_bytes as f64
}

/// Live and reserved bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldBytes {
    pub(crate) live_bytes: u64,
    pub(crate) reserved_bytes: u64,
}

impl HeldBytes {
    fn raise(&mut self, now: Self) {
        self.live_bytes = self.live_bytes.max(now.live_bytes);
        self.reserved_bytes = self.reserved_bytes.max(now.reserved_bytes);
    }
}

impl From<HeldBytes> for PoolPeaks {
    fn from(HeldBytes { live_bytes, reserved_bytes }: HeldBytes) -> Self {
        Self {
            peak_live_bytes: live_bytes,
            peak_reserved_bytes: reserved_bytes,
            efficiency: efficiency(live_bytes, reserved_bytes),
        }
    }
}

/// The peaks so far, from the first private pool on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolTracker {
    default: HeldBytes,
    private: HeldBytes,
}

impl PoolTracker {
    /// Where the default pool alone had these peaks.
    pub(crate) fn new(default: HeldBytes) -> Self {
        Self { default, private: HeldBytes::default() }
    }

    /// Takes in one moment: all pools, and the private ones.
    pub(crate) fn note(&mut self, all: HeldBytes, private: HeldBytes) {
        self.private.raise(private);
        self.default.raise(HeldBytes {
            live_bytes: all.live_bytes - private.live_bytes,
            reserved_bytes: all.reserved_bytes - private.reserved_bytes,
        });
    }

    /// Whether a moment would raise a peak.
    pub(crate) fn would_rise(mut self, all: HeldBytes, private: HeldBytes) -> bool {
        let before = self;
        self.note(all, private);
        self != before
    }

    pub(crate) fn peaks(&self) -> PoolsApart {
        PoolsApart { default: self.default.into(), private: self.private.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_pool_has_peaks_of_its_own_moments() {
        let held = |live_bytes, reserved_bytes| HeldBytes { live_bytes, reserved_bytes };
        let mut tracker = PoolTracker::new(held(512, 1024));
        tracker.note(held(4096, 8192), held(2048, 2048));
        tracker.note(held(1024, 8192), held(512, 4096));
        let PoolsApart { default, private } = tracker.peaks();
        assert_eq!((default.peak_live_bytes, default.peak_reserved_bytes), (2048, 6144));
        assert_eq!((private.peak_live_bytes, private.peak_reserved_bytes), (2048, 4096));
        assert!((private.efficiency - 0.5).abs() < f64::EPSILON);
    }
}
