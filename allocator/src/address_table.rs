//! Addresses handed out, and their blocks: open addressing with linear probing, half full at most.
//!
//! Device addresses are multiples of 512, so the low bits say nothing; a multiplication spreads the rest. An address
//! that goes away closes its gap (backward shift), so that a lookup never walks over what is gone and nothing has to
//! be swept. One cache line holds four entries: a hit costs one probe, almost always.

use trace_format::Addr;

use crate::block::BlockId;

#[derive(Clone, Copy, Debug)]
struct Entry {
    addr: u64,
    id: BlockId,
}

/// The block of every address handed out and not given back.
#[derive(Clone, Debug)]
pub(crate) struct AddressTable {
    /// A power of two of them.
    entries: Vec<Option<Entry>>,
    /// 64 less the exponent of that power.
    shift: u32,
    len: usize,
}

/// Room for this many addresses from the start.
const FIRST_CAPACITY: usize = 4096;

impl AddressTable {
    pub(crate) fn new() -> Self {
        Self::with_entries(2 * FIRST_CAPACITY)
    }

    fn with_entries(count: usize) -> Self {
        Self { entries: vec![None; count], shift: 64 - count.ilog2(), len: 0 }
    }

    /// Addresses in the table.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Enters an address; it must not be there.
    #[inline]
    pub(crate) fn insert(&mut self, addr: Addr, id: BlockId) {
        if 2 * (self.len + 1) > self.entries.len() {
            self.grow();
        }
        let mut at = self.home(addr.0);
        while let Some(entry) = &self.entries[at] {
            assert!(entry.addr != addr.0, "an address is handed out once");
            at = self.after(at);
        }
        self.entries[at] = Some(Entry { addr: addr.0, id });
        self.len += 1;
    }

    /// The block of an address.
    #[inline]
    pub(crate) fn get(&self, addr: Addr) -> Option<BlockId> {
        self.find(addr).map(|(_, id)| id)
    }

    /// Takes an address out.
    #[inline]
    pub(crate) fn remove(&mut self, addr: Addr) -> Option<BlockId> {
        let (mut gap, id) = self.find(addr)?;
        self.len -= 1;
        let mut at = gap;
        loop {
            at = self.after(at);
            let Some(entry) = self.entries[at] else { break };
            // An entry may move up into the gap unless that is before its home.
            let mask = self.entries.len() - 1;
            let from_home = at.wrapping_sub(self.home(entry.addr)) & mask;
            if from_home >= at.wrapping_sub(gap) & mask {
                self.entries[gap] = Some(entry);
                gap = at;
            }
        }
        self.entries[gap] = None;
        Some(id)
    }

    #[inline]
    fn find(&self, addr: Addr) -> Option<(usize, BlockId)> {
        let mut at = self.home(addr.0);
        while let Some(entry) = &self.entries[at] {
            if entry.addr == addr.0 {
                return Some((at, entry.id));
            }
            at = self.after(at);
        }
        None
    }

    /// Where an address is looked for first: the top bits of a Fibonacci hash.
    #[inline]
    fn home(&self, addr: u64) -> usize {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        ((addr >> 9).wrapping_mul(GOLDEN) >> self.shift) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.entries.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        let doubled = Self::with_entries(2 * self.entries.len());
        let before = std::mem::replace(self, doubled);
        for entry in before.entries.into_iter().flatten() {
            self.insert(Addr(entry.addr), entry.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::block::{Block, Blocks};
    use crate::pool::Pools;

    fn ids(count: usize) -> Vec<BlockId> {
        let mut blocks = Blocks::default();
        let block = |at| Block::new(Addr(at), 1, trace_format::Stream(0), Pools::index(None, true));
        (0..count).map(|at| blocks.insert(block(at as u64 + 1))).collect()
    }

    proptest! {
        /// Few addresses and a small table, so that probes collide, wrap around and close gaps.
        #[test]
        fn it_is_a_map(ops in prop::collection::vec((0..40_u64, any::<bool>()), 1..400)) {
            let ids = ids(41);
            let mut table = AddressTable::with_entries(16);
            let mut map = HashMap::new();
            for (n, insert) in ops {
                let addr = Addr((n + 1) << 9);
                if insert && !map.contains_key(&addr) {
                    table.insert(addr, ids[n as usize]);
                    map.insert(addr, ids[n as usize]);
                } else if !insert {
                    prop_assert_eq!(table.remove(addr), map.remove(&addr));
                }
                prop_assert_eq!(table.len(), map.len());
                for n in 1..=40 {
                    prop_assert_eq!(table.get(Addr(n << 9)), map.get(&Addr(n << 9)).copied());
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "handed out once")]
    fn an_address_is_not_entered_twice() {
        let ids = ids(1);
        let mut table = AddressTable::new();
        table.insert(Addr(512), ids[0]);
        table.insert(Addr(512), ids[0]);
    }

    #[test]
    fn it_grows_past_its_first_capacity() {
        let ids = ids(1);
        let mut table = AddressTable::new();
        for n in 1..=3 * FIRST_CAPACITY as u64 {
            table.insert(Addr(n << 9), ids[0]);
        }
        assert_eq!(table.len(), 3 * FIRST_CAPACITY);
        assert!((1..=3 * FIRST_CAPACITY as u64).all(|n| table.get(Addr(n << 9)).is_some()));
    }
}
