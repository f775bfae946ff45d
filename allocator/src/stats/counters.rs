//! The statistics as the heap keeps them: an allocation and its free move six numbers each way, the rest is derived
//! on request.
//!
//! What is active is what callers hold and what waits for other streams, so the active counters are kept only as far
//! as something waits. While nothing does, both peaks are one.

use events::PoolId;

use super::stat_counter::StatCounter;
use super::{Stat, StatArray, Stats};
use settings::Compat;

/// All counters of a heap.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    allocation: StatCounter,
    allocated_bytes: StatCounter,
    requested_bytes: StatCounter,
    inactive_split: StatCounter,
    inactive_split_bytes: StatCounter,
    waiting: Waiting,
    waiting_bytes: Waiting,
    /// Bytes that private pools hold from the device.
    pub(crate) private_reserved_bytes: u64,
    /// What moves with segments and events, kept as it is shown; its other fields stay zero.
    pub(crate) rare: Stats,
}

impl Counters {
    pub(crate) fn new(compat: Compat, max_split_size_bytes: u64) -> Self {
        let (counter, waiting) = (StatCounter::default(), Waiting::default());
        Self {
            allocation: counter,
            allocated_bytes: counter,
            requested_bytes: counter,
            inactive_split: counter,
            inactive_split_bytes: counter,
            waiting,
            waiting_bytes: waiting,
            private_reserved_bytes: 0,
            rare: Stats::new(compat, max_split_size_bytes),
        }
    }

    /// A block was handed out.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn on_alloc(&mut self, pool_is_small: bool, size_bytes: u64, requested_bytes: u64) {
        self.allocation.increase(pool_is_small, 1);
        self.allocated_bytes.increase(pool_is_small, size_bytes.cast_signed());
        self.requested_bytes.increase(pool_is_small, requested_bytes.cast_signed());
        if self.waiting.total() > 0 {
            self.note_active_peaks();
        }
    }

    /// A block was given back.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn on_free_requested(&mut self, pool_is_small: bool, size_bytes: u64) {
        self.allocation.decrease(pool_is_small, 1);
        self.allocated_bytes.decrease(pool_is_small, size_bytes.cast_signed());
    }

    /// A block that was given back waits for other streams.
    pub(crate) fn on_wait(&mut self, pool_is_small: bool, size_bytes: u64) {
        self.waiting.add(pool_is_small, 1);
        self.waiting_bytes.add(pool_is_small, size_bytes.cast_signed());
    }

    /// It no longer waits.
    pub(crate) fn on_waited(&mut self, pool_is_small: bool, size_bytes: u64) {
        self.waiting.add(pool_is_small, -1);
        self.waiting_bytes.add(pool_is_small, -size_bytes.cast_signed());
    }

    /// A block became reusable.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn on_free_completed(&mut self, pool_is_small: bool, requested_bytes: u64) {
        self.requested_bytes.decrease(pool_is_small, requested_bytes.cast_signed());
    }

    /// A segment was split for the first time, or a piece of one was put back: so many bytes of it are a free piece.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn on_piece_added(&mut self, pool_is_small: bool, size_bytes: u64) {
        self.inactive_split.increase(pool_is_small, 1);
        self.inactive_split_bytes.increase(pool_is_small, size_bytes.cast_signed());
    }

    /// A free piece was handed out whole.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn on_piece_taken(&mut self, pool_is_small: bool, size_bytes: u64) {
        self.inactive_split.decrease(pool_is_small, 1);
        self.inactive_split_bytes.decrease(pool_is_small, size_bytes.cast_signed());
    }

    /// The front of a free piece was handed out.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn on_piece_cut(&mut self, pool_is_small: bool, front_bytes: u64) {
        self.inactive_split_bytes.decrease(pool_is_small, front_bytes.cast_signed());
    }

    /// A free merged pieces: only the difference moves the counters, as in PyTorch.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn on_pieces_merged(&mut self, pool_is_small: bool, merge: PieceMerge) {
        let PieceMerge { added, removed } = merge;
        self.inactive_split.change(pool_is_small, added.count, removed.count);
        let (added_bytes, removed_bytes) =
            (added.size_bytes.cast_signed(), removed.size_bytes.cast_signed());
        self.inactive_split_bytes.change(pool_is_small, added_bytes, removed_bytes);
    }

    /// Memory was obtained from the device: a segment, or pages mapped into one.
    pub(crate) fn on_reserve(&mut self, pool: PoolId, pool_is_small: bool, size_bytes: u64) {
        self.rare.num_device_alloc += 1;
        self.rare.reserved_bytes.increase(pool_is_small, size_bytes.cast_signed());
        if !pool.is_default() {
            self.private_reserved_bytes += size_bytes;
            let reserved = self.rare.private_pool_reserved_bytes(pool);
            reserved.increase(pool_is_small, size_bytes.cast_signed());
        }
    }

    /// Memory was returned to the device.
    pub(crate) fn on_unreserve(&mut self, pool: PoolId, pool_is_small: bool, size_bytes: u64) {
        self.rare.num_device_free += 1;
        self.rare.reserved_bytes.decrease(pool_is_small, size_bytes.cast_signed());
        if !pool.is_default() {
            self.private_reserved_bytes -= size_bytes;
            let reserved = self.rare.private_pool_reserved_bytes(pool);
            reserved.decrease(pool_is_small, size_bytes.cast_signed());
        }
    }

    /// Every peak restarts from the current value.
    pub(crate) fn reset_peak(&mut self) {
        self.rare.reset_peak();
        self.stat_counters().into_iter().for_each(StatCounter::reset_peak);
        self.waiting.reset_peak(&self.allocation.array());
        self.waiting_bytes.reset_peak(&self.allocated_bytes.array());
    }

    /// Every sum and event counter restarts from zero.
    pub(crate) fn reset_accumulated(&mut self) {
        self.rare.reset_accumulated();
        self.stat_counters().into_iter().for_each(StatCounter::reset_accumulated);
        self.waiting.reset_accumulated();
        self.waiting_bytes.reset_accumulated();
    }

    /// As PyTorch shows them.
    pub(crate) fn stats(&self) -> Stats {
        let [
            allocation,
            segment,
            active,
            inactive_split,
            allocated_bytes,
            reserved_bytes,
            active_bytes,
            inactive_split_bytes,
            requested_bytes,
        ] = self.arrays();
        Stats {
            allocation,
            segment,
            active,
            inactive_split,
            allocated_bytes,
            reserved_bytes,
            active_bytes,
            inactive_split_bytes,
            requested_bytes,
            ..self.rare.clone()
        }
    }

    /// The quantities of pools, in the order of the fields of [`Stats`].
    pub(super) fn arrays(&self) -> [StatArray; 9] {
        let allocation = self.allocation.array();
        let allocated_bytes = self.allocated_bytes.array();
        [
            allocation,
            self.rare.segment,
            self.waiting.active(&allocation),
            self.inactive_split.array(),
            allocated_bytes,
            self.rare.reserved_bytes,
            self.waiting_bytes.active(&allocated_bytes),
            self.inactive_split_bytes.array(),
            self.requested_bytes.array(),
        ]
    }

    #[cold]
    fn note_active_peaks(&mut self) {
        self.waiting.note_peak(&self.allocation.array());
        self.waiting_bytes.note_peak(&self.allocated_bytes.array());
    }

    fn stat_counters(&mut self) -> [&mut StatCounter; 5] {
        [
            &mut self.allocation,
            &mut self.allocated_bytes,
            &mut self.requested_bytes,
            &mut self.inactive_split,
            &mut self.inactive_split_bytes,
        ]
    }
}

/// Free pieces of split segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    pub(crate) count: i64,
    pub(crate) size_bytes: u64,
}

impl Pieces {
    /// One piece.
    #[inline]
    pub(crate) const fn one(size_bytes: u64) -> Self {
        Self { count: 1, size_bytes }
    }
}

/// What a free does to the pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceMerge {
    /// What is a free piece now.
    pub(crate) added: Pieces,
    /// The free neighbours that it took up.
    pub(crate) removed: Pieces,
}

/// What waits for other streams, of a quantity that callers hold the rest of. Small, large.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    current: [i64; 2],
    /// Active peaks, small, large and all, as far as something waited.
    active_peaks: [i64; 3],
    /// What waited when the sums were last zeroed.
    start: [i64; 2],
}

impl Waiting {
    #[inline]
    fn total(&self) -> i64 {
        self.current[0] + self.current[1]
    }

    fn add(&mut self, pool_is_small: bool, amount: i64) {
        self.current[usize::from(!pool_is_small)] += amount;
    }

    fn active_currents(&self, held: &StatArray) -> [i64; 3] {
        let small = held.small_pool.current + self.current[0];
        let large = held.large_pool.current + self.current[1];
        [small, large, small + large]
    }

    fn note_peak(&mut self, held: &StatArray) {
        let currents = self.active_currents(held);
        for (peak, current) in self.active_peaks.iter_mut().zip(currents) {
            *peak = current.max(*peak);
        }
    }

    fn reset_peak(&mut self, held: &StatArray) {
        self.active_peaks = self.active_currents(held);
    }

    fn reset_accumulated(&mut self) {
        self.start = self.current;
    }

    /// What is active: as much is allocated, and freed is what no longer waits either.
    fn active(&self, held: &StatArray) -> StatArray {
        let currents = self.active_currents(held);
        let [small, large] = [0, 1].map(|at| self.start[at] - self.current[at]);
        let stat = |held: &Stat, at: usize, freed_more: i64| Stat {
            current: currents[at],
            peak: self.active_peaks[at].max(held.peak),
            allocated: held.allocated,
            freed: held.freed + freed_more,
        };
        StatArray {
            all: stat(&held.all, 2, small + large),
            small_pool: stat(&held.small_pool, 0, small),
            large_pool: stat(&held.large_pool, 1, large),
        }
    }
}
