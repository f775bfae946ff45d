//! The state as a list of segments with their blocks, and back.

use alloc::vec::Vec;

use super::{MappedRange, PoolsState, Problem, State, StateError, ranges::end_of};
use crate::{
    base::BaseState,
    ids::{Addr, StackId},
    segment::{BlockState, BlockStatus, SegmentState},
};

impl State {
    /// The state that `segments` show; they may come in any order, their blocks must tile them.
    ///
    /// # Errors
    /// Where segments overlap, or blocks leave gaps in them.
    pub fn from_segments(segments: &[SegmentState]) -> Result<Self, StateError> {
        let mut state = Self::new();
        segments
            .iter()
            .try_for_each(|segment| state.add(segment))
            .map_err(|problem| StateError { event: "snapshot", undoing: false, problem })?;
        Ok(state)
    }

    /// The state that `base` carries, its pools and scopes included.
    ///
    /// # Errors
    /// As [`from_segments`](Self::from_segments).
    pub fn from_base(base: &BaseState) -> Result<Self, StateError> {
        let mut pools = PoolsState::new(base.pools.clone(), base.scopes.iter().copied());
        pools.memory_fraction = Some(base.memory_fraction.unwrap_or(1.0));
        let pages = base.pages.iter().copied().collect();
        Ok(Self { pages, pools, ..Self::from_segments(&base.segments)? })
    }

    /// The segments in ascending order, each tiled by its live blocks and the free blocks between them.
    ///
    /// A free block's requested size and stack are not part of the state; they come out as zero and none.
    pub fn segments(&self) -> Vec<SegmentState> {
        tile(self.ranges.from(Addr(0)), self.blocks.from(Addr(0)))
            .expect("live blocks lie apart, in mapped ranges")
    }

    fn add(&mut self, segment: &SegmentState) -> Result<(), Problem> {
        check_segment(segment)?;
        self.ranges.insert(segment.addr, MappedRange::of(segment))?;
        let is_live = |block: &&BlockState| block.status != BlockStatus::Inactive;
        segment.blocks.iter().filter(is_live).try_for_each(|block| self.blocks.insert(*block))
    }
}

/// Fills segments with their live blocks and the free ones between them, both in order of address; `None` where a
/// block lies in no segment, or in another block.
pub fn tile(
    segments: impl Iterator<Item = SegmentState>,
    live: impl Iterator<Item = BlockState>,
) -> Option<Vec<SegmentState>> {
    let mut live = live.peekable();
    let fill = |mut segment: SegmentState| {
        let end = Addr(segment.addr.0.checked_add(segment.size_bytes)?);
        let mut free_from = segment.addr;
        while let Some(block) = live.next_if(|block| block.addr < end) {
            if block.addr < free_from {
                return None;
            }
            segment.blocks.extend(gap(free_from, block.addr));
            free_from = Addr(block.addr.0.checked_add(block.size_bytes)?);
            segment.blocks.push(block);
        }
        segment.blocks.extend(gap(free_from, end));
        (free_from <= end).then_some(segment)
    };
    let segments = segments.map(fill).collect::<Option<_>>()?;
    live.next().is_none().then_some(segments)
}

/// Checks that segments do not overlap, and that the blocks of each tile it and hold what was requested of them.
///
/// # Errors
/// The first problem: what [`State::from_segments`](crate::State::from_segments) refuses, without building a state.
pub fn check_segments(segments: &[SegmentState]) -> Result<(), Problem> {
    segments.iter().try_for_each(check_segment)?;
    let mut ranges: Vec<_> =
        segments.iter().map(|segment| (segment.addr, segment.size_bytes)).collect();
    ranges.sort_unstable(); // Usually they are sorted, and this is one pass.
    for pair in ranges.windows(2) {
        let [(segment, before_bytes), (addr, size_bytes)] = [pair[0], pair[1]];
        if addr.0 - segment.0 < before_bytes {
            return Err(Problem::AlreadyMapped { addr, size_bytes, segment });
        }
    }
    Ok(())
}

fn check_segment(segment: &SegmentState) -> Result<(), Problem> {
    let end = end_of(segment.addr, segment.size_bytes)?;
    let mut expected = segment.addr;
    for block in &segment.blocks {
        if block.addr != expected {
            return Err(Problem::NotTiled { segment: segment.addr, expected, found: block.addr });
        }
        expected = end_of(block.addr, block.size_bytes)?;
        if expected > end {
            return Err(Problem::NotMapped { addr: block.addr, size_bytes: block.size_bytes });
        }
        if block.status != BlockStatus::Inactive {
            block.check()?;
        }
    }
    if expected == end {
        Ok(())
    } else {
        Err(Problem::NotTiled { segment: segment.addr, expected: end, found: expected })
    }
}

/// The free block between two addresses, if there is room for one.
fn gap(from: Addr, to: Addr) -> Option<BlockState> {
    (from < to).then(|| BlockState {
        addr: from,
        size_bytes: to.0 - from.0,
        requested_bytes: 0,
        status: BlockStatus::Inactive,
        stack: StackId::NONE,
    })
}
