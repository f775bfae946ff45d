//! Unmapped blocks of expandable segments in (stream, address) order: the lowest is mapped first.

use trace_format::{Addr, Stream};

use crate::block::BlockId;

/// The unmapped blocks of one pool's expandable segments (`BlockComparatorAddress`).
#[derive(Clone, Debug, Default)]
pub(crate) struct UnmappedList {
    entries: Vec<(Stream, Addr, BlockId)>,
}

impl UnmappedList {
    pub(crate) fn insert(&mut self, stream: Stream, addr: Addr, id: BlockId) {
        let place = self.place(stream, addr);
        self.entries.insert(place, (stream, addr, id));
    }

    pub(crate) fn remove(&mut self, stream: Stream, addr: Addr, id: BlockId) {
        let place = self.place(stream, addr);
        assert_eq!(
            self.entries.get(place),
            Some(&(stream, addr, id)),
            "an unmapped block is in its list"
        );
        self.entries.remove(place);
    }

    /// The unmapped blocks of `stream` in address order.
    pub(crate) fn of(&self, stream: Stream) -> impl Iterator<Item = BlockId> {
        self.entries.iter().filter(move |entry| entry.0 == stream).map(|entry| entry.2)
    }

    /// Every unmapped block.
    pub(crate) fn iter(&self) -> impl Iterator<Item = BlockId> {
        self.entries.iter().map(|entry| entry.2)
    }

    fn place(&self, stream: Stream, addr: Addr) -> usize {
        self.entries.partition_point(|entry| (entry.0, entry.1) < (stream, addr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, Blocks};
    use crate::pool::Pools;

    #[test]
    fn unmapped_blocks_are_in_address_order_per_stream() {
        let mut arena = Blocks::default();
        let mut list = UnmappedList::default();
        for (stream, addr) in [(16, 1), (0, 9), (0, 5), (16, 0)] {
            let pool = Pools::index(None, false);
            let id = arena.insert(Block::new(Addr(addr), 1, Stream(stream), pool));
            list.insert(Stream(stream), Addr(addr), id);
        }
        let of = |stream| list.of(Stream(stream)).map(|id| arena[id].addr.0).collect::<Vec<_>>();
        assert_eq!((of(0), of(16)), (vec![5, 9], vec![0, 1]));
    }
}
