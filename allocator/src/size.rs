//! How a requested size becomes a block and a segment size: PyTorch's constants and rounding.
//!
//! Source: `c10/core/AllocatorConfig.h` (constants) and `DeviceCachingAllocator::round_size`,
//! `roundup_power2_next_division` and `get_allocation_size` in `c10/cuda/CUDACachingAllocator.cpp`.

use events::{Addr, BlockState, SegmentState};
use settings::{Config, UNLIMITED};

/// Every block is a multiple of this (`kMinBlockSize`).
pub const MIN_BLOCK_BYTES: u64 = 512;
/// The largest request that the small pool serves (`kSmallSize`).
pub const SMALL_BYTES: u64 = 1 << 20;
/// Segments of the small pool, and pages of small expandable segments (`kSmallBuffer`).
pub const SMALL_SEGMENT_BYTES: u64 = 2 << 20;
/// Requests from this size on get a segment of their own size (`kMinLargeAlloc`).
pub const MIN_LARGE_BYTES: u64 = 10 << 20;
/// Segments of their own size are rounded up to this (`kRoundLarge`).
pub const ROUND_LARGE_BYTES: u64 = 2 << 20;
/// Requests from this size on are refused before anything is asked of the device (1 EiB;
/// `NativeCachingAllocator::allocate`).
pub const MAX_REQUEST_BYTES: u64 = 1_152_921_504_606_846_976;

/// Whether a block of this rounded size belongs to the small pool.
pub const fn is_small(size_bytes: u64) -> bool {
    size_bytes <= SMALL_BYTES
}

/// The block size for a request (`round_size`).
#[inline]
pub fn round(requested_bytes: u64, config: &Config) -> u64 {
    if requested_bytes < MIN_BLOCK_BYTES {
        return MIN_BLOCK_BYTES;
    }
    let divisions = config.roundup_divisions(requested_bytes);
    if divisions > 1 && requested_bytes > MIN_BLOCK_BYTES.wrapping_mul(divisions) {
        round_to_division(requested_bytes, divisions)
    } else {
        round_plain(requested_bytes)
    }
}

/// Whether [`round`] is a multiple of 512 bytes for every request: no setting divides powers of two.
pub fn is_plain(config: &Config) -> bool {
    config.roundup_power2_divisions.iter().all(|divisions| *divisions <= 1)
}

/// Whether every request is rounded by [`round_plain`]: where it [is plain](is_plain), and under `stitch`, which has no
/// use for blocks of few sizes.
pub fn rounds_plainly(config: &Config) -> bool {
    config.stitch.is_some() || is_plain(config)
}

/// [`round`] where it [is plain](is_plain).
#[inline]
pub const fn round_plain(requested_bytes: u64) -> u64 {
    if requested_bytes < MIN_BLOCK_BYTES {
        return MIN_BLOCK_BYTES;
    }
    requested_bytes.next_multiple_of(MIN_BLOCK_BYTES)
}

/// Rounds up to the next of `divisions` equal steps between two powers of two: 1200 with 4 becomes 1280.
fn round_to_division(size_bytes: u64, divisions: u64) -> u64 {
    if size_bytes.is_power_of_two() {
        return size_bytes;
    }
    let floor = 1 << size_bytes.ilog2();
    let step = floor >> divisions.ilog2();
    if step == 0 { floor << 1 } else { size_bytes.next_multiple_of(step) }
}

/// Whether `max_split_size_mb` lets a free block that is large enough serve a request of this rounded size: an oversize
/// block only serves an oversize request, and one that would waste too much of it none (`get_free_block`).
#[inline]
pub fn may_serve(block_bytes: u64, size_bytes: u64, config: &Config) -> bool {
    let max_split = config.max_split_size_bytes;
    if max_split == UNLIMITED {
        return true;
    }
    if size_bytes < max_split {
        return block_bytes < max_split;
    }
    block_bytes < size_bytes.saturating_add(config.max_non_split_rounding_bytes)
}

/// Whether a free block of the request's own stream and pool may serve it (`get_free_block`).
pub fn serves(config: &Config, is_expandable: bool, block_bytes: u64, size_bytes: u64) -> bool {
    block_bytes >= size_bytes
        && (config.expandable_segments || !is_expandable)
        && may_serve(block_bytes, size_bytes, config)
}

/// A segment, or a mapped run of an expandable one, as far as it decides which parts of it can go back to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunShape {
    /// Where it starts.
    pub addr: Addr,
    /// Whether it serves large requests (over 1 MiB).
    pub is_large: bool,
    /// Whether it is part of an expandable segment.
    pub is_expandable: bool,
    /// Whether it is a single block.
    pub is_one_block: bool,
}

impl From<&SegmentState> for RunShape {
    fn from(segment: &SegmentState) -> Self {
        let SegmentState { addr, is_large, is_expandable, ref blocks, .. } = *segment;
        Self { addr, is_large, is_expandable, is_one_block: blocks.len() == 1 }
    }
}

/// Of a free block, the bytes that could go back to the device: all of them where the block is a whole segment, the
/// whole pages of an expandable one.
pub fn whole_bytes(run: RunShape, block: &BlockState, config: &Config) -> u64 {
    if !run.is_expandable {
        return if run.is_one_block { block.size_bytes } else { 0 };
    }
    let page_bytes = page_bytes(!run.is_large, config);
    let begin = (block.addr.0 - run.addr.0).next_multiple_of(page_bytes);
    let end = (block.addr.0 + block.size_bytes - run.addr.0) / page_bytes * page_bytes;
    end.saturating_sub(begin)
}

/// Whether the rest of a block is cut off when this rounded size is handed out (`should_split`): in the small half and
/// in expandable segments whenever there is one, in other segments if it is more than 1 MiB, and never off an oversize
/// block.
#[inline]
pub fn is_split(
    size_bytes: u64,
    rest_bytes: u64,
    is_small_or_expandable: bool,
    config: &Config,
) -> bool {
    if is_small_or_expandable {
        rest_bytes >= MIN_BLOCK_BYTES
    } else {
        size_bytes < config.max_split_size_bytes && rest_bytes > SMALL_BYTES
    }
}

/// The size of the segment obtained for a block of this rounded size (`get_allocation_size`).
pub fn segment_bytes(size_bytes: u64, config: &Config) -> u64 {
    if is_small(size_bytes) {
        SMALL_SEGMENT_BYTES
    } else if size_bytes < MIN_LARGE_BYTES {
        config.large_segment_size_bytes
    } else {
        size_bytes.next_multiple_of(ROUND_LARGE_BYTES)
    }
}

/// The page of an expandable segment of this pool.
pub const fn page_bytes(is_small: bool, config: &Config) -> u64 {
    if is_small { SMALL_SEGMENT_BYTES } else { config.large_segment_size_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_divisions(divisions: u64) -> Config {
        Config { roundup_power2_divisions: [divisions; 16], ..Config::default() }
    }

    #[test]
    fn only_settings_that_divide_make_rounding_more_than_plain() {
        for (divisions, plain) in [(0, true), (1, true), (2, false)] {
            let config = with_divisions(divisions);
            assert_eq!(is_plain(&config), plain, "{divisions}");
            let sizes = (1..5_000_000).step_by(4_321);
            let are_equal = sizes.clone().all(|size| round(size, &config) == round_plain(size));
            assert_eq!(are_equal, plain, "{divisions}");
        }
    }

    #[test]
    fn sizes_round_to_512_bytes() {
        let config = Config::default();
        for (requested, rounded) in [(1, 512), (511, 512), (512, 512), (513, 1024), (1200, 1536)] {
            assert_eq!(round(requested, &config), rounded);
        }
    }

    #[test]
    fn divisions_apply_above_512_bytes_times_their_number() {
        let config = with_divisions(4);
        assert_eq!(round(1200, &config), 1536, "too small to divide");
        assert_eq!(round(1_200_000, &config), 1_310_720, "floor 1 MiB, step 256 KiB");
        assert_eq!(round(1 << 21, &config), 1 << 21);
        assert_eq!(round_to_division(1200, 4), 1280, "PyTorch's own example");
    }

    #[test]
    fn segments_are_2_mib_20_mib_or_rounded_to_2_mib() {
        let config = Config::default();
        for (size, segment) in [
            (512, 2 << 20),
            (1 << 20, 2 << 20),
            ((1 << 20) + 512, 20 << 20),
            ((10 << 20) - 512, 20 << 20),
            (10 << 20, 10 << 20),
            ((10 << 20) + 512, 12 << 20),
        ] {
            assert_eq!(segment_bytes(size, &config), segment);
        }
    }
}
