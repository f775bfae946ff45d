//! Addresses handed out, and their blocks: open addressing with linear probing, half full at most.
//!
//! The table holds ids only, sixteen to a cache line; the addresses are in the blocks, which a caller looks at next
//! anyway. Device addresses are multiples of 512, so the low bits say nothing; a multiplication spreads the rest. An
//! address that goes away closes its gap (backward shift), so that a lookup never walks over what is gone and nothing
//! has to be swept.

use alloc::vec;
use alloc::vec::Vec;

use events::Addr;

use crate::arena::{Arena, BlockId};
use crate::cast;

/// The block of every address handed out and not given back.
#[derive(Clone, Debug)]
pub(crate) struct AddressTable {
    /// A power of two of them.
    ids: Vec<Option<BlockId>>,
    /// 64 less the exponent of that power.
    shift: u32,
    len: usize,
}

/// Room for this many addresses from the start.
const FIRST_CAPACITY: usize = 4096;

impl AddressTable {
    pub(crate) fn new() -> Self {
        Self::with_places(2 * FIRST_CAPACITY)
    }

    fn with_places(count: usize) -> Self {
        Self { ids: vec![None; count], shift: 64 - count.ilog2(), len: 0 }
    }

    /// Addresses in the table.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Enters a block by its address, which must not be there.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn insert(&mut self, arena: &Arena, addr: Addr, id: BlockId) {
        if 2 * (self.len + 1) > self.ids.len() {
            self.grow(arena);
        }
        let mut at = self.home(addr);
        while let Some(other) = self.ids[at] {
            assert!(arena[other].addr != addr, "an address is handed out once");
            at = self.after(at);
        }
        self.ids[at] = Some(id);
        self.len += 1;
    }

    /// The block of an address.
    #[inline]
    pub(crate) fn get(&self, arena: &Arena, addr: Addr) -> Option<BlockId> {
        self.find(arena, addr).map(|(_, id)| id)
    }

    /// Takes an address out. Its block is as it was entered.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn remove(&mut self, arena: &Arena, addr: Addr) -> Option<BlockId> {
        let (mut gap, id) = self.find(arena, addr)?;
        self.len -= 1;
        let mut at = gap;
        loop {
            at = self.after(at);
            let Some(other) = self.ids[at] else { break };
            // An entry may move up into the gap unless that is before its home.
            let mask = self.ids.len() - 1;
            let from_home = at.wrapping_sub(self.home(arena[other].addr)) & mask;
            if from_home >= at.wrapping_sub(gap) & mask {
                self.ids[gap] = Some(other);
                gap = at;
            }
        }
        self.ids[gap] = None;
        debug_assert!(self.find(arena, addr).is_none(), "an address is in the table once");
        Some(id)
    }

    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    fn find(&self, arena: &Arena, addr: Addr) -> Option<(usize, BlockId)> {
        let mut at = self.home(addr);
        while let Some(id) = self.ids[at] {
            if arena[id].addr == addr {
                return Some((at, id));
            }
            at = self.after(at);
        }
        None
    }

    /// Where an address is looked for first: the top bits of a Fibonacci hash.
    #[inline]
    fn home(&self, addr: Addr) -> usize {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        cast::index((addr.0 >> 9).wrapping_mul(GOLDEN) >> self.shift)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.ids.len() - 1)
    }

    #[cold]
    fn grow(&mut self, arena: &Arena) {
        let doubled = Self::with_places(2 * self.ids.len());
        let before = core::mem::replace(self, doubled);
        for id in before.ids.into_iter().flatten() {
            self.insert(arena, arena[id].addr, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use hashbrown::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::arena::Block;
    use crate::ids::FreeListId;

    /// Blocks at 512, 1024, and so on.
    fn arena(count: u64) -> (Arena, Vec<BlockId>) {
        let mut blocks = Arena::default();
        let block = |n| Block::new(Addr(n << 9), 1, FreeListId(0));
        let ids = (1..=count).map(|n| blocks.insert(block(n))).collect();
        (blocks, ids)
    }

    proptest! {
        /// Few addresses and a small table, so that probes collide, wrap around and close gaps; or a table that grows.
        #[test]
        fn it_is_a_map(
            (places, addresses) in prop::sample::select(vec![(16, 7), (4, 40)]),
            ops in prop::collection::vec((0..40_usize, any::<bool>()), 1..400),
        ) {
            let (blocks, ids) = arena(addresses);
            let mut table = AddressTable::with_places(places);
            let mut map = HashMap::new();
            for (n, insert) in ops {
                let id = ids[n % ids.len()];
                let addr = blocks[id].addr;
                if insert && !map.contains_key(&addr) {
                    table.insert(&blocks, addr, id);
                    map.insert(addr, id);
                } else if !insert {
                    prop_assert_eq!(table.remove(&blocks, addr), map.remove(&addr));
                }
                prop_assert_eq!(table.len(), map.len());
                for id in &ids {
                    let addr = blocks[*id].addr;
                    prop_assert_eq!(table.get(&blocks, addr), map.get(&addr).copied());
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "handed out once")]
    fn an_address_is_not_entered_twice() {
        let (blocks, ids) = arena(1);
        let mut table = AddressTable::new();
        table.insert(&blocks, Addr(512), ids[0]);
        table.insert(&blocks, Addr(512), ids[0]);
    }

    #[test]
    fn it_grows_past_its_first_capacity() {
        let (blocks, ids) = arena(3 * FIRST_CAPACITY as u64);
        let mut table = AddressTable::new();
        for id in &ids {
            table.insert(&blocks, blocks[*id].addr, *id);
        }
        assert_eq!(table.len(), 3 * FIRST_CAPACITY);
        assert!(ids.iter().all(|id| table.get(&blocks, blocks[*id].addr) == Some(*id)));
    }
}
