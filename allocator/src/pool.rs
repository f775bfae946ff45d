//! Pools: the default pair of a small and a large one, and a pair for each private pool of a graph or a `MemPool`.

use alloc::vec::Vec;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use events::{Addr, PoolId};

use crate::cast;
use crate::free_list::FreeLists;
use crate::ordered_set::OrderedSet;
use device::DeviceError;

/// A small or large pool: 0 and 1 are the default pool's, then two for each private pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PoolIndex(pub(crate) u32);

impl PoolIndex {
    /// The pool that serves blocks of this kind, of the default pool or of a private one.
    pub(crate) const fn new(private: Option<u32>, is_small: bool) -> Self {
        let pair = match private {
            None => 0,
            Some(slot) => slot + 1,
        };
        Self(2 * pair + !is_small as u32)
    }

    /// Whether this is a small pool.
    pub(crate) const fn is_small(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// The small and the large pool of a private one.
    pub(crate) fn both_of(slot: u32) -> impl Iterator<Item = Self> {
        [true, false].into_iter().map(move |is_small| Self::new(Some(slot), is_small))
    }

    /// Which private pool, if any.
    pub(crate) const fn private(self) -> Option<u32> {
        (self.0 / 2).checked_sub(1)
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
