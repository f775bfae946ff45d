//! Best fit: which free block serves a request (`get_free_block`), and whether it is split (`should_split`).

use super::Heap;
use super::malloc::{Found, Want};
use crate::block::BlockId;
use crate::lane::{Lane, Place};
use crate::size;
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// The best fitting free block of the wanted pool and stream.
    #[inline]
    pub(super) fn best_fit<const COPY: bool>(&mut self, want: &Want) -> Option<Found> {
        if self.collects_garbage() {
            self.pools[want.pool].search_count += 1;
        }
        let lane = &self.pools[self.pools.lane(want.pool, want.stream)?];
        let (mut place, mut id) = lane.first_fit(&self.blocks, want.size_bytes)?;
        let mut block = &self.blocks[id];
        if block.range.is_some() {
            (place, id) = self.best_expandable_fit(lane, (place, id), want.expandable)?;
            block = &self.blocks[id];
        }
        let size_bytes = block.size_bytes;
        size::may_serve(size_bytes, want.size_bytes, &self.config).then_some(Found {
            id,
            size_bytes,
            place: Some(place),
        })
    }

    /// The best fit where the first is part of an expandable segment.
    fn best_expandable_fit(
        &self,
        lane: &Lane,
        first: (Place, BlockId),
        may_expand: bool,
    ) -> Option<(Place, BlockId)> {
        let (mut place, mut id) = first;
        loop {
            let next = lane.after(place);
            let is_expandable = self.blocks[id].range.is_some();
            if may_expand {
                // A block at a growable tail counts as large as it can become, so a block that is complete wins.
                let is_better = |next: &(Place, BlockId)| {
                    self.expandable_bytes(next.1) < self.expandable_bytes(id)
                };
                match next.filter(|next| is_expandable && is_better(next)) {
                    Some(next) => (place, id) = next,
                    None => return Some((place, id)),
                }
            } else if is_expandable {
                // Expandable segments were switched off: only other segments serve.
                (place, id) = next?;
            } else {
                return Some((place, id));
            }
        }
    }

    /// A block's size with the unmapped addresses behind it.
    fn expandable_bytes(&self, id: BlockId) -> u64 {
        let block = &self.blocks[id];
        let room = block.next.map_or(0, |next| {
            let next = &self.blocks[next];
            if next.mapped { 0 } else { next.size_bytes }
        });
        block.size_bytes + room
    }

    #[inline]
    pub(super) fn should_split(&self, rest_bytes: u64, want: &Want) -> bool {
        if !self.pools.no_split.is_empty()
            && self.pools.no_split.contains(self.pools.id_of(want.pool))
        {
            return false;
        }
        let is_small_or_expandable = want.pool.is_small() || want.expandable;
        size::is_split(want.size_bytes, rest_bytes, is_small_or_expandable, &self.config)
    }
}
