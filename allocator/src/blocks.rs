//! All blocks of a heap: the arena that holds them, the free lists that find them by size, and the table that finds
//! them by address. Every block is in exactly one of them besides the arena: in a free list (free or unmapped), in the
//! table (handed out), or in no place (given back and waiting for other streams, or unmapped addresses of `stitch`).
//!
//! Best fit, split, hand out, find and put back are in `heap/hot_path.rs`, beside the calls that make an allocation.

use events::{Addr, Stream};

use crate::address_table::AddressTable;
use crate::arena::{Arena, Block, BlockId};
use crate::free_list::FreeLists;
use crate::ids::PoolIndex;

/// All blocks of a heap.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub(crate) arena: Arena,
    pub(crate) lists: FreeLists,
    /// The block of every address handed out and not given back.
    pub(crate) addresses: AddressTable,
}

impl Blocks {
    /// No block, and the default pool.
    pub(crate) fn new() -> Self {
        let (lists, addresses) = (FreeLists::new(), AddressTable::new());
        Self { arena: Arena::default(), lists, addresses }
    }

    /// The block that was handed out at an address.
    pub(crate) fn find(&self, addr: Addr) -> Option<BlockId> {
        self.addresses.get(&self.arena, addr)
    }

    /// The small or large pool that a block belongs to.
    #[inline]
    pub(crate) fn pool_of(&self, id: BlockId) -> PoolIndex {
        self.lists[self[id].list].pool
    }

    /// The stream that a block was allocated for.
    pub(crate) fn stream_of(&self, id: BlockId) -> Stream {
        self.lists[self[id].list].stream
    }

    /// Searches of its pool since a block became free.
    pub(crate) fn age(&self, id: BlockId) -> u32 {
        let search_count = self.lists[self.pool_of(id)].search_count;
        search_count.wrapping_sub(self[id].search_count_at_free)
    }

    /// Enters a free block into its list, its age starting anew.
    pub(crate) fn put_free(&mut self, id: BlockId) {
        let pool = self.pool_of(id);
        let block = &mut self.arena[id];
        assert!(block.is_idle() && block.mapped, "a free block is idle and mapped");
        block.search_count_at_free = self.lists[pool].search_count;
        self.lists[block.list].insert(&self.arena, id);
    }

    /// Takes a free block out of its list.
    pub(crate) fn take_free(&mut self, id: BlockId) {
        self.lists[self.arena[id].list].remove(&self.arena, id);
    }

    /// Enters an unmapped block into its list.
    pub(crate) fn put_unmapped(&mut self, id: BlockId) {
        let block = &self.arena[id];
        assert!(block.is_idle() && !block.mapped, "an unmapped block is idle");
        self.lists[block.list].insert_unmapped(block.addr, id);
    }

    /// Takes an unmapped block out of its list.
    pub(crate) fn take_unmapped(&mut self, id: BlockId) {
        let block = &self.arena[id];
        self.lists[block.list].remove_unmapped(block.addr, id);
    }

    /// Merges a free neighbour into `id`, which is in no list, where both are mapped or both unmapped
    /// (`try_merge_blocks`).
    pub(crate) fn merge(&mut self, id: BlockId, neighbour: BlockId) {
        let other = self[neighbour];
        if !other.is_idle() || other.mapped != self[id].mapped {
            return;
        }
        if other.mapped {
            self.take_free(neighbour);
        } else {
            self.take_unmapped(neighbour);
        }
        if other.next == Some(id) {
            self.arena.join_ahead(neighbour, id);
        } else {
            self.arena.join(id, neighbour);
        }
        assert!(self.arena.is_linked(id), "a merged block touches its neighbours");
    }
}

impl core::ops::Index<BlockId> for Blocks {
    type Output = Block;

    #[inline]
    fn index(&self, id: BlockId) -> &Block {
        &self.arena[id]
    }
}

impl core::ops::IndexMut<BlockId> for Blocks {
    #[inline]
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.arena[id]
    }
}
