//! Pools: the default pair (small, large), and a pair for each private pool of a graph or a `MemPool`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trace_format::{Addr, PoolId, Stream};

use crate::block::BlockId;
use crate::device::DeviceError;
use crate::lane::{Lane, LaneId};

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
pub trait SegmentSource: Send {
    /// Memory for one segment; `None` is out of memory.
    fn allocate(&mut self, size_bytes: u64) -> Option<Addr>;
    /// Takes a segment back.
    ///
    /// # Errors
    /// When it is not one of the source's, or the device fails; the pool keeps it then.
    fn free(&mut self, addr: Addr) -> Result<(), DeviceError>;
}

/// A source that its pool holds on to.
pub type SharedSource = Arc<Mutex<dyn SegmentSource>>;

/// The source, for one call. A source that panicked before is asked again: it is the caller's own.
pub(crate) fn lock(source: &SharedSource) -> MutexGuard<'_, dyn SegmentSource + 'static> {
    source.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One half of a pool (`BlockPool`).
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockPool {
    /// One for each stream that ever allocated here, in the order of streams.
    lanes: Vec<(Stream, LaneId)>,
    /// How often a block was searched here; counted only while garbage collection is on.
    pub(crate) search_count: u64,
}

/// A pool apart from the default one (`PrivatePool`).
#[derive(Clone)]
pub(crate) struct PrivatePool {
    pub(crate) id: PoolId,
    /// Graphs and `MemPool`s that refer to it.
    pub(crate) use_count: u32,
    /// Segments it holds; at zero a freeable pool ends.
    pub(crate) segment_count: u32,
    pub(crate) source: Option<SharedSource>,
}

/// All pools of a heap.
#[derive(Clone, Default)]
pub(crate) struct Pools {
    lists: Vec<BlockPool>,
    lanes: Vec<Lane>,
    private: Vec<Option<PrivatePool>>,
    /// Private pools without users, in the order in which they lost the last one.
    pub(crate) freeable: Vec<usize>,
    /// Pools that may serve others before out of memory.
    pub(crate) use_on_oom: Vec<PoolId>,
    /// Pools that never split a segment.
    pub(crate) no_split: Vec<PoolId>,
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
        self.private.iter().position(|pool| pool.as_ref().is_some_and(|pool| pool.id == id))
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

    /// Adds a private pool with one user.
    pub(crate) fn insert(&mut self, id: PoolId, source: Option<SharedSource>) -> usize {
        let pool = Some(PrivatePool { id, use_count: 1, segment_count: 0, source });
        if let Some(slot) = self.private.iter().position(Option::is_none) {
            self.private[slot] = pool;
            return slot;
        }
        self.private.push(pool);
        self.lists.extend([BlockPool::default(), BlockPool::default()]);
        self.private.len() - 1
    }

    /// Ends a freeable private pool that holds nothing.
    pub(crate) fn remove(&mut self, slot: usize) {
        assert_eq!(self.get(slot).segment_count, 0, "a pool ends empty");
        self.private[slot] = None;
        self.freeable.retain(|other| *other != slot);
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

    /// The lane of a stream, if it ever allocated here.
    #[inline]
    pub(crate) fn lane(&self, pool: PoolIndex, stream: Stream) -> Option<LaneId> {
        // One or a few streams: a scan is the fast search.
        let lanes = &self[pool].lanes;
        lanes.iter().find(|(other, _)| *other == stream).map(|(_, lane)| *lane)
    }

    /// The lane of a stream, which begins with the first such call.
    pub(crate) fn lane_for(&mut self, pool: PoolIndex, stream: Stream) -> LaneId {
        self.lane(pool, stream).unwrap_or_else(|| {
            let id = LaneId(self.lanes.len() as u32);
            self.lanes.push(Lane::new(pool, stream));
            let lanes = &mut self[pool].lanes;
            let at = lanes.partition_point(|(other, _)| *other < stream);
            lanes.insert(at, (stream, id));
            id
        })
    }

    /// The lanes of a half, in the order of streams.
    pub(crate) fn lanes(&self, pool: PoolIndex) -> impl Iterator<Item = &Lane> {
        self[pool].lanes.iter().map(|(_, lane)| &self[*lane])
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

impl std::ops::Index<LaneId> for Pools {
    type Output = Lane;

    #[inline]
    fn index(&self, id: LaneId) -> &Lane {
        &self.lanes[id.0 as usize]
    }
}

impl std::ops::IndexMut<LaneId> for Pools {
    #[inline]
    fn index_mut(&mut self, id: LaneId) -> &mut Lane {
        &mut self.lanes[id.0 as usize]
    }
}

impl std::ops::Index<PoolIndex> for Pools {
    type Output = BlockPool;

    #[inline]
    fn index(&self, index: PoolIndex) -> &BlockPool {
        &self.lists[index.0 as usize]
    }
}

impl std::ops::IndexMut<PoolIndex> for Pools {
    #[inline]
    fn index_mut(&mut self, index: PoolIndex) -> &mut BlockPool {
        &mut self.lists[index.0 as usize]
    }
}
