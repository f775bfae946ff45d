//! How large the block of a request is: PyTorch's trace gives only what was asked for.

use trace_format::{Addr, State};

use allocator::size;
use settings::Config;

/// The block that a request gets at `addr` in this state: rounded, or all of the free block if what would remain
/// is too small to split off (`should_split`).
pub(crate) fn allocated(state: &State, addr: Addr, requested_bytes: u64, config: &Config) -> u64 {
    let rounded = size::round(requested_bytes, config);
    let Some(segment) = state.segment_at(addr) else { return rounded };
    let free = state.free_bytes_in(&segment, addr);
    let Some(remaining) = free.checked_sub(rounded) else { return rounded };
    let is_small_or_expandable = segment.is_expandable || !segment.is_large;
    if size::is_split(rounded, remaining, is_small_or_expandable, config) { rounded } else { free }
}

/// The block that was live at `addr` before the trace said it was freed: rounded, but not into its neighbour.
pub(crate) fn freed(state: &State, addr: Addr, requested_bytes: u64, config: &Config) -> u64 {
    size::round(requested_bytes, config).min(state.free_bytes_at(addr))
}
