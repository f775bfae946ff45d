//! Free blocks in PyTorch's best-fit order, (stream, size, segment rank, address), and unmapped blocks in
//! (stream, address) order.
//!
//! A sorted vector per stream: a few thousand 24-byte entries, where a binary search and a short move beat a tree, and
//! nothing is allocated once the vectors have grown. Streams without free blocks keep their empty vector.

use trace_format::{Addr, Stream};

use crate::block::BlockId;

/// A free block as the search sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) size_bytes: u64,
    pub(crate) addr: Addr,
    /// Age rank of the segment, see [`Block::segment_rank`](crate::block::Block).
    pub(crate) segment_rank: u32,
    pub(crate) id: BlockId,
}

impl Entry {
    /// The order in which blocks are tried: `BlockComparatorSize` within one stream.
    const fn key(&self) -> (u64, u32, u64) {
        (self.size_bytes, self.segment_rank, self.addr.0)
    }
}

/// The free blocks of one pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeList {
    streams: Vec<(Stream, Vec<Entry>)>,
}

impl FreeList {
    /// The free blocks of `stream`, smallest first.
    pub(crate) fn of(&self, stream: Stream) -> &[Entry] {
        match self.position(stream) {
            Ok(at) => &self.streams[at].1,
            Err(_) => &[],
        }
    }

    /// Index into [`of`](Self::of)`(stream)` of the first block of at least `size_bytes`.
    pub(crate) fn first_fit(&self, stream: Stream, size_bytes: u64) -> usize {
        self.of(stream).partition_point(|entry| entry.size_bytes < size_bytes)
    }

    pub(crate) fn insert(&mut self, stream: Stream, entry: Entry) {
        let at = self.position(stream).unwrap_or_else(|at| {
            self.streams.insert(at, (stream, Vec::with_capacity(64)));
            at
        });
        let entries = &mut self.streams[at].1;
        let place = entries.partition_point(|other| other.key() < entry.key());
        assert!(entries.get(place).is_none_or(|other| other.key() != entry.key()), "free twice");
        entries.insert(place, entry);
    }

    pub(crate) fn remove(&mut self, stream: Stream, entry: Entry) {
        let at = self.position(stream).expect("a free block's stream has a list");
        let entries = &mut self.streams[at].1;
        let place = entries
            .binary_search_by_key(&entry.key(), Entry::key)
            .expect("a free block is in its pool's list");
        entries.remove(place);
    }

    /// Every free block in order: by stream, then size, then address.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.streams.iter().flat_map(|(_, entries)| entries)
    }

    fn position(&self, stream: Stream) -> Result<usize, usize> {
        // One or a few streams: a scan is the fast search.
        match self.streams.iter().position(|(other, _)| *other >= stream) {
            Some(at) if self.streams[at].0 == stream => Ok(at),
            Some(at) => Err(at),
            None => Err(self.streams.len()),
        }
    }
}

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

    /// A list of blocks given as (stream, size, segment's rank, address).
    fn list(blocks: &[(u64, u64, u32, u64)]) -> FreeList {
        let (mut arena, mut list) = (Blocks::default(), FreeList::default());
        for &(stream, size_bytes, segment_rank, addr) in blocks {
            let block = Block {
                segment_rank,
                ..Block::new(Addr(addr), size_bytes, Stream(stream), Pools::index(None, true))
            };
            let id = arena.insert(block);
            list.insert(Stream(stream), arena[id].entry(id));
        }
        list
    }

    fn addresses(entries: &[Entry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.addr.0).collect()
    }

    #[test]
    fn blocks_are_tried_by_size_then_segments_age_then_address() {
        let list = list(&[(0, 2, 1, 10), (0, 1, 2, 20), (0, 1, 1, 40), (0, 1, 1, 30)]);
        assert_eq!(addresses(list.of(Stream(0))), [30, 40, 20, 10]);
    }

    #[test]
    fn the_first_fit_is_the_smallest_that_holds_the_request() {
        let list = list(&[(0, 512, 0, 1), (0, 1024, 0, 2), (0, 4096, 0, 3)]);
        for (wanted, at) in [(512, 0), (513, 1), (1024, 1), (2000, 2), (5000, 3)] {
            assert_eq!(list.first_fit(Stream(0), wanted), at, "{wanted}");
        }
        assert_eq!(list.first_fit(Stream(7), 1), 0, "a stream without blocks");
    }

    #[test]
    fn streams_follow_each_other_in_their_order() {
        let list = list(&[(32, 1, 0, 3), (0, 9, 0, 1), (16, 5, 0, 2)]);
        let all: Vec<_> = list.iter().map(|entry| entry.addr.0).collect();
        assert_eq!(all, [1, 2, 3]);
    }

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
