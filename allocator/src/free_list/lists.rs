//! The free lists of all pools and streams.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use events::Stream;

use super::FreeList;
use crate::arena::BlockId;
use crate::cast;
use crate::ids::{FreeListId, PoolIndex};

/// Free lists of a pool that are found by a scan.
const SCANNED_LISTS: usize = 8;

/// One small or large pool (`BlockPool`).
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockPool {
    /// One list for each stream that holds memory here.
    lists: BTreeMap<Stream, FreeListId>,
    /// Some of them, [`SCANNED_LISTS`] at most: with few streams, a scan is the fastest search.
    scanned: Vec<(Stream, FreeListId)>,
    /// How often a block was searched here, modulo 2^32; counted only while garbage collection is on.
    pub(crate) search_count: u32,
}

impl BlockPool {
    #[cold]
    #[inline(never)]
    fn other_list(&self, stream: Stream) -> Option<FreeListId> {
        self.lists.get(&stream).copied()
    }
}

/// Every free list of a heap.
#[derive(Clone, Debug)]
pub(crate) struct FreeLists {
    pools: Vec<BlockPool>,
    lists: Vec<FreeList>,
    /// Lists that ended, whose ids are used again.
    vacant: Vec<FreeListId>,
}

impl FreeLists {
    /// Those of the default pool, small and large.
    pub(crate) fn new() -> Self {
        let pools = vec![BlockPool::default(), BlockPool::default()];
        Self { pools, lists: Vec::new(), vacant: Vec::new() }
    }

    /// Makes room for the small and the large pool of one more private pool.
    pub(crate) fn add_private_pool(&mut self) {
        self.pools.extend([BlockPool::default(), BlockPool::default()]);
    }

    /// Every small and large pool.
    pub(crate) fn pools(&self) -> impl Iterator<Item = PoolIndex> + use<> {
        (0..cast::id(self.pools.len())).map(PoolIndex)
    }

    /// The list of a stream, if it holds memory here.
    #[inline]
    pub(crate) fn find(&self, pool: PoolIndex, stream: Stream) -> Option<FreeListId> {
        let pool = &self[pool];
        match pool.scanned.iter().find(|(other, _)| *other == stream) {
            Some((_, list)) => Some(*list),
            None => pool.other_list(stream),
        }
    }

    /// The list of a stream for one more segment. It ends with the last ([`end_segment`](Self::end_segment)).
    pub(crate) fn begin_segment(&mut self, pool: PoolIndex, stream: Stream) -> FreeListId {
        let id = self.find(pool, stream).unwrap_or_else(|| self.begin_list(pool, stream));
        self[id].segment_count += 1;
        id
    }

    fn begin_list(&mut self, pool: PoolIndex, stream: Stream) -> FreeListId {
        let list = FreeList::new(pool, stream);
        let id = if let Some(id) = self.vacant.pop() {
            self[id] = list;
            id
        } else {
            self.lists.push(list);
            FreeListId(cast::id(self.lists.len() - 1))
        };
        let pool = &mut self[pool];
        pool.lists.insert(stream, id);
        if pool.scanned.len() < SCANNED_LISTS {
            pool.scanned.push((stream, id));
        }
        id
    }

    /// Takes a segment off its list. A list without segments ends, so that a stream without memory costs none.
    pub(crate) fn end_segment(&mut self, id: FreeListId) {
        let list = &mut self[id];
        list.segment_count -= 1;
        if list.segment_count > 0 {
            return;
        }
        let (pool, stream) = (list.pool, list.stream);
        *list = FreeList::new(pool, stream);
        let pool = &mut self[pool];
        pool.lists.remove(&stream);
        pool.scanned.retain(|(other, _)| *other != stream);
        self.vacant.push(id);
    }

    /// The lists of a pool, in the order of streams.
    pub(crate) fn of(&self, pool: PoolIndex) -> impl Iterator<Item = &FreeList> {
        self[pool].lists.values().map(|list| &self[*list])
    }

    /// The free blocks of a pool in PyTorch's order: stream, size, segment rank, address.
    pub(crate) fn free(&self, pool: PoolIndex) -> impl Iterator<Item = BlockId> {
        self.of(pool).flat_map(FreeList::iter)
    }

    /// The unmapped blocks of a pool, by stream and address.
    pub(crate) fn unmapped(&self, pool: PoolIndex) -> impl Iterator<Item = BlockId> {
        self.of(pool).flat_map(FreeList::unmapped)
    }
}

impl core::ops::Index<FreeListId> for FreeLists {
    type Output = FreeList;

    #[inline]
    fn index(&self, id: FreeListId) -> &FreeList {
        &self.lists[id.0 as usize]
    }
}

impl core::ops::IndexMut<FreeListId> for FreeLists {
    #[inline]
    fn index_mut(&mut self, id: FreeListId) -> &mut FreeList {
        &mut self.lists[id.0 as usize]
    }
}

impl core::ops::Index<PoolIndex> for FreeLists {
    type Output = BlockPool;

    #[inline]
    fn index(&self, index: PoolIndex) -> &BlockPool {
        &self.pools[index.0 as usize]
    }
}

impl core::ops::IndexMut<PoolIndex> for FreeLists {
    #[inline]
    fn index_mut(&mut self, index: PoolIndex) -> &mut BlockPool {
        &mut self.pools[index.0 as usize]
    }
}
