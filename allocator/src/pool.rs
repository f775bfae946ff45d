//! Pools: the default pair of a small and a large one, and a pair for each private pool of a graph or a `MemPool`.

use alloc::vec::Vec;
use device::Result;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use events::{Addr, PoolId};

use crate::cast;
use crate::free_list::FreeLists;
use crate::ids::PoolIndex;
use crate::ordered_set::OrderedSet;

/// A pool's own source of segments, `torch.cuda.MemPool(allocator=...)`. Called under the heap's lock.
pub trait SegmentSource: Send + Sync {
    /// Memory for one segment; `None` is out of memory.
    fn allocate(&self, size_bytes: u64) -> Option<Addr>;
    /// Takes a segment back.
    ///
    /// # Errors
    /// When it is not one of the source's, or the device fails; the pool keeps it then.
    fn free(&self, addr: Addr, size_bytes: u64) -> Result<()>;
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

/// The private pools of a heap.
#[derive(Clone, Default)]
pub(crate) struct Pools {
    private: Vec<Option<PrivatePool>>,
    /// The slot of each private pool.
    slots: BTreeMap<PoolId, u32>,
    /// Slots without a pool: the first is used next.
    vacant_slots: BTreeSet<u32>,
    /// Slots of private pools without users, in the order in which they lost the last one.
    pub(crate) freeable: OrderedSet<u32>,
    /// Pools that may serve others before out of memory.
    pub(crate) use_on_oom: OrderedSet<PoolId>,
    /// Pools that never split a segment.
    pub(crate) no_split: OrderedSet<PoolId>,
}

impl Pools {
    /// The slot of a private pool.
    pub(crate) fn find(&self, id: PoolId) -> Option<u32> {
        self.slots.get(&id).copied()
    }

    pub(crate) fn get(&self, slot: u32) -> &PrivatePool {
        self.private[slot as usize].as_ref().expect("a slot in use")
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut PrivatePool {
        self.private[slot as usize].as_mut().expect("a slot in use")
    }

    /// Every private pool.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PrivatePool> {
        self.private.iter().flatten()
    }

    /// Adds a private pool, which does not exist yet, with one user. A slot behind all others is new to the free lists.
    pub(crate) fn insert(
        &mut self,
        id: PoolId,
        source: Option<Arc<dyn SegmentSource>>,
        lists: &mut FreeLists,
    ) -> u32 {
        let pool = Some(PrivatePool { id, use_count: 1, segment_count: 0, source });
        let slot = self.vacant_slots.pop_first().unwrap_or_else(|| {
            self.private.push(None);
            lists.add_private_pool();
            cast::id(self.private.len() - 1)
        });
        self.private[slot as usize] = pool;
        self.slots.insert(id, slot);
        slot
    }

    /// Ends a freeable private pool that holds nothing.
    pub(crate) fn remove(&mut self, slot: u32) {
        assert_eq!(self.get(slot).segment_count, 0, "a pool ends empty");
        let id = self.get(slot).id;
        self.private[slot as usize] = None;
        self.slots.remove(&id);
        self.vacant_slots.insert(slot);
        self.freeable.remove(slot);
        // A pool of the same name is another one.
        self.use_on_oom.remove(id);
        self.no_split.remove(id);
    }

    /// The name of the pool that a small or large pool is a part of.
    #[inline]
    pub(crate) fn id_of(&self, index: PoolIndex) -> PoolId {
        index.private().map_or(PoolId::DEFAULT, |slot| self.get(slot).id)
    }
}
