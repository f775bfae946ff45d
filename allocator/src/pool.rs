//! Pools: the default pair (small, large), and a pair for each private pool of a graph or a `MemPool`.

use alloc::vec;
use alloc::vec::Vec;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use events::{Addr, PoolId, Stream};

use crate::block::BlockId;
use crate::lane::{Lane, LaneId};
use crate::ordered_set::OrderedSet;
use device::DeviceError;

/// Which list of blocks: 0 and 1 are the default pool's small and large, then two for each private pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PoolIndex(u32);

impl PoolIndex {
    const fn new(private: Option<usize>, is_small: bool) -> Self {
        let pair = match private {
            None => 0,
            Some(slot) => slot + 1,
        };
        Self(2 * pair as u32 + !is_small as u32)
    }

    /// Whether this is the small half.
    pub(crate) const fn is_small(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// Which private pool, if any.
    pub(crate) const fn private(self) -> Option<usize> {
        (self.0 as usize / 2).checked_sub(1)
    }
}

/// A pool's own source of segments, `torch.cuda.MemPool(allocator=...)`. Called under the heap's lock.
pub trait SegmentSource: Send + Sync {
    /// Memory for one segment; `None` is out of memory.
    fn allocate(&self, size_bytes: u64) -> Option<Addr>;
    /// Takes a segment back.
    ///
    /// # Errors
    /// When it is not one of the source's, or the device fails; the pool keeps it then.
    fn free(&self, addr: Addr, size_bytes: u64) -> Result<(), DeviceError>;
}

/// Lanes of a half that are found by a scan.
const SCANNED_LANES: usize = 8;

/// One half of a pool (`BlockPool`).
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockPool {
    /// One lane for each stream that holds memory here.
    lanes: BTreeMap<Stream, LaneId>,
    /// Some of them, [`SCANNED_LANES`] at most: with few streams, a scan is the fastest search.
    scanned: Vec<(Stream, LaneId)>,
    /// How often a block was searched here; counted only while garbage collection is on.
    pub(crate) search_count: u64,
}

impl BlockPool {
    #[cold]
    #[inline(never)]
    fn other_lane(&self, stream: Stream) -> Option<LaneId> {
        self.lanes.get(&stream).copied()
    }
}

/// A pool apart from the default one (`PrivatePool`).
#[derive(Clone)]
pub(crate) struct PrivatePool {
    pub(crate) id: PoolId,
    /// Graphs and `MemPool`s that refer to it.
    pub(crate) use_count: u32,
    /// Segments it holds; at zero a freeable pool ends.
    pub(crate) segment_count: u32,
    pub(crate) source: Option<Arc<dyn SegmentSource>>,
}

/// All pools of a heap.
#[derive(Clone, Default)]
pub(crate) struct Pools {
    lists: Vec<BlockPool>,
    lanes: Vec<Lane>,
    /// Lanes that ended, whose ids are used again.
    vacant_lanes: Vec<LaneId>,
    private: Vec<Option<PrivatePool>>,
    /// The slot of each private pool.
    slots: BTreeMap<PoolId, usize>,
    /// Slots without a pool: the first is used next.
    vacant_slots: BTreeSet<usize>,
    /// Slots of private pools without users, in the order in which they lost the last one.
    pub(crate) freeable: OrderedSet<usize>,
    /// Pools that may serve others before out of memory.
    pub(crate) use_on_oom: OrderedSet<PoolId>,
    /// Pools that never split a segment.
    pub(crate) no_split: OrderedSet<PoolId>,
}

impl Pools {
    pub(crate) fn new() -> Self {
        Self { lists: vec![BlockPool::default(), BlockPool::default()], ..Self::default() }
    }

    /// The half that serves a block of this size, of the default pool or of a private one.
    pub(crate) const fn index(private: Option<usize>, is_small: bool) -> PoolIndex {
        PoolIndex::new(private, is_small)
    }

    /// The slot of a private pool.
    pub(crate) fn find(&self, id: PoolId) -> Option<usize> {
        self.slots.get(&id).copied()
    }

    pub(crate) fn get(&self, slot: usize) -> &PrivatePool {
        self.private[slot].as_ref().expect("a slot in use")
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> &mut PrivatePool {
        self.private[slot].as_mut().expect("a slot in use")
    }

    /// Every private pool.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PrivatePool> {
        self.private.iter().flatten()
    }

    /// Adds a private pool, which does not exist yet, with one user.
    pub(crate) fn insert(&mut self, id: PoolId, source: Option<Arc<dyn SegmentSource>>) -> usize {
        let pool = Some(PrivatePool { id, use_count: 1, segment_count: 0, source });
        let slot = self.vacant_slots.pop_first().unwrap_or_else(|| {
            self.private.push(None);
            self.lists.extend([BlockPool::default(), BlockPool::default()]);
            self.private.len() - 1
        });
        self.private[slot] = pool;
        self.slots.insert(id, slot);
        slot
    }

    /// Ends a freeable private pool that holds nothing.
    pub(crate) fn remove(&mut self, slot: usize) {
        assert_eq!(self.get(slot).segment_count, 0, "a pool ends empty");
        let id = self.get(slot).id;
        self.private[slot] = None;
        self.slots.remove(&id);
        self.vacant_slots.insert(slot);
        self.freeable.remove(slot);
        // A pool of the same name is another one.
        self.use_on_oom.remove(id);
        self.no_split.remove(id);
    }

    /// The name of the pool that a half belongs to.
    #[inline]
    pub(crate) fn id_of(&self, index: PoolIndex) -> PoolId {
        index.private().map_or(PoolId::DEFAULT, |slot| self.get(slot).id)
    }

    /// Every half.
    pub(crate) fn halves(&self) -> impl Iterator<Item = PoolIndex> {
        (0..self.lists.len()).map(|at| PoolIndex(at as u32))
    }

    /// Both halves of a private pool, the small one first.
    pub(crate) fn halves_of(slot: usize) -> impl Iterator<Item = PoolIndex> {
        [true, false].into_iter().map(move |is_small| Self::index(Some(slot), is_small))
    }

    /// The lane of a stream, if it holds memory here.
    #[inline]
    pub(crate) fn lane(&self, pool: PoolIndex, stream: Stream) -> Option<LaneId> {
        let half = &self[pool];
        match half.scanned.iter().find(|(other, _)| *other == stream) {
            Some((_, lane)) => Some(*lane),
            None => half.other_lane(stream),
        }
    }

    /// The lane of a stream for one more segment. It ends with the last ([`drop_segment`](Self::drop_segment)).
    pub(crate) fn lane_for_segment(&mut self, pool: PoolIndex, stream: Stream) -> LaneId {
        let id = self.lane(pool, stream).unwrap_or_else(|| self.begin_lane(pool, stream));
        self[id].segment_count += 1;
        id
    }

    fn begin_lane(&mut self, pool: PoolIndex, stream: Stream) -> LaneId {
        let lane = Lane::new(pool, stream);
        let id = if let Some(id) = self.vacant_lanes.pop() {
            self[id] = lane;
            id
        } else {
            self.lanes.push(lane);
            LaneId(self.lanes.len() as u32 - 1)
        };
        let half = &mut self[pool];
        half.lanes.insert(stream, id);
        if half.scanned.len() < SCANNED_LANES {
            half.scanned.push((stream, id));
        }
        id
    }

    /// Takes a segment off its lane. A lane without segments ends, so that a stream without memory costs none.
    pub(crate) fn drop_segment(&mut self, id: LaneId) {
        let lane = &mut self[id];
        lane.segment_count -= 1;
        if lane.segment_count > 0 {
            return;
        }
        let (pool, stream) = (lane.pool, lane.stream);
        *lane = Lane::new(pool, stream);
        let half = &mut self[pool];
        half.lanes.remove(&stream);
        half.scanned.retain(|(other, _)| *other != stream);
        self.vacant_lanes.push(id);
    }

    /// The lanes of a half, in the order of streams.
    pub(crate) fn lanes(&self, pool: PoolIndex) -> impl Iterator<Item = &Lane> {
        self[pool].lanes.values().map(|lane| &self[*lane])
    }

    /// The free blocks of a half in PyTorch's order: stream, size, segment rank, address.
    pub(crate) fn free(&self, pool: PoolIndex) -> impl Iterator<Item = BlockId> {
        self.lanes(pool).flat_map(Lane::iter)
    }

    /// The unmapped blocks of a half, by stream and address.
    pub(crate) fn unmapped(&self, pool: PoolIndex) -> impl Iterator<Item = BlockId> {
        self.lanes(pool).flat_map(Lane::unmapped)
    }
}

impl core::ops::Index<LaneId> for Pools {
    type Output = Lane;

    #[inline]
    fn index(&self, id: LaneId) -> &Lane {
        &self.lanes[id.0 as usize]
    }
}

impl core::ops::IndexMut<LaneId> for Pools {
    #[inline]
    fn index_mut(&mut self, id: LaneId) -> &mut Lane {
        &mut self.lanes[id.0 as usize]
    }
}

impl core::ops::Index<PoolIndex> for Pools {
    type Output = BlockPool;

    #[inline]
    fn index(&self, index: PoolIndex) -> &BlockPool {
        &self.lists[index.0 as usize]
    }
}

impl core::ops::IndexMut<PoolIndex> for Pools {
    #[inline]
    fn index_mut(&mut self, index: PoolIndex) -> &mut BlockPool {
        &mut self.lists[index.0 as usize]
    }
}
