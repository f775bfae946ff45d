//! Free blocks in PyTorch's best-fit order: stream, size, segment rank, address.
//!
//! A stream's free blocks are sorted into size classes, eight to a power of two, and a bitmap says which classes hold
//! any: the best fit is in the request's own class or the first of the next class that holds one. Within a class a
//! short vector of ids is kept in exact order, so the order over all is PyTorch's, block for block. Sizes and addresses
//! stay in the arena: a block that is cut or grows keeps its place where the order allows it, and nothing moves.
//! Nothing is allocated once the vectors have grown, and the first four ids of a class need no vector.

use smallvec::SmallVec;
use trace_format::Stream;

use crate::block::{BlockId, Blocks};

/// Where a free block of a stream stands; good until the stream's list changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    class: usize,
    at: usize,
}

/// The free blocks of one pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeList {
    /// One for each stream that ever had a free block, in the order of streams.
    lanes: Vec<Lane>,
}

impl FreeList {
    /// The free blocks of `stream`, if it ever had any.
    #[inline]
    pub(crate) fn of(&self, stream: Stream) -> Option<&Lane> {
        // One or a few streams: a scan is the fast search.
        self.lanes.iter().find(|lane| lane.stream == stream)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn of_mut(&mut self, stream: Stream) -> &mut Lane {
        match self.lanes.iter().position(|lane| lane.stream == stream) {
            Some(at) => &mut self.lanes[at],
            None => self.add(stream),
        }
    }

    #[cold]
    fn add(&mut self, stream: Stream) -> &mut Lane {
        let at = self.lanes.partition_point(|lane| lane.stream < stream);
        self.lanes.insert(at, Lane::new(stream));
        &mut self.lanes[at]
    }

    /// Every free block in order: by stream, then size, segment rank and address.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = BlockId> {
        self.lanes.iter().flat_map(Lane::iter)
    }
}

/// Steps of a size class within a power of two.
const STEPS: u64 = 8;
/// Classes: the first eight multiples of 512 bytes each for themselves, then eight to a power of two up to 2^64.
const CLASSES: usize = (64 - 9 - 2) * STEPS as usize;
const WORDS: usize = CLASSES.div_ceil(64);

/// The class of a size; it never falls as sizes rise. A class ends with a round size, so that a whole segment and what
/// is left of it after a small cut are in one.
#[inline]
const fn class_of(size_bytes: u64) -> usize {
    let units = size_bytes.saturating_sub(1) >> 9;
    if units < STEPS {
        return units as usize;
    }
    let shift = units.ilog2() - STEPS.ilog2();
    (shift as u64 * STEPS + (units >> shift)) as usize
}

/// A few ids in place: no second memory to go to, and none that lies beside another device's.
type Ids = SmallVec<[BlockId; 4]>;

/// The free blocks of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    stream: Stream,
    /// A bit for each class that holds a block.
    occupied: [u64; WORDS],
    classes: Box<[Ids; CLASSES]>,
}

impl Lane {
    fn new(stream: Stream) -> Self {
        let classes = Box::new([const { Ids::new_const() }; CLASSES]);
        Self { stream, occupied: [0; WORDS], classes }
    }

    /// The smallest block of at least `size_bytes`.
    #[inline]
    pub(crate) fn first_fit(&self, blocks: &Blocks, size_bytes: u64) -> Option<(Place, BlockId)> {
        let own = class_of(size_bytes);
        let ids = &self.classes[own];
        let at = count_while(ids, |id| blocks[id].size_bytes < size_bytes);
        if let Some(&id) = ids.get(at) {
            return Some((Place { class: own, at }, id));
        }
        // All of a higher class are large enough.
        self.first_of(own + 1)
    }

    /// The next larger one.
    pub(crate) fn after(&self, Place { class, at }: Place) -> Option<(Place, BlockId)> {
        match self.classes[class].get(at + 1) {
            Some(&id) => Some((Place { class, at: at + 1 }, id)),
            None => self.first_of(class + 1),
        }
    }

    /// The first block of the first class from `class` on that holds any.
    #[inline]
    fn first_of(&self, class: usize) -> Option<(Place, BlockId)> {
        let mut word = class / 64;
        let mut bits = self.occupied.get(word)? & (u64::MAX << (class % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        let class = word * 64 + bits.trailing_zeros() as usize;
        Some((Place { class, at: 0 }, *self.classes[class].first()?))
    }

    /// Enters a block.
    #[inline]
    pub(crate) fn insert(&mut self, blocks: &Blocks, id: BlockId) {
        self.insert_into(class_of(blocks[id].size_bytes), blocks, id);
    }

    #[inline]
    fn insert_into(&mut self, class: usize, blocks: &Blocks, id: BlockId) {
        let ids = &mut self.classes[class];
        let at = count_while(ids, |other| blocks[other].order() < blocks[id].order());
        if at == ids.len() {
            ids.push(id);
        } else {
            assert!(ids[at] != id, "a block is freed once");
            ids.insert(at, id);
        }
        self.occupied[class / 64] |= 1 << (class % 64);
    }

    /// Takes a block out.
    #[inline]
    pub(crate) fn remove(&mut self, blocks: &Blocks, id: BlockId) {
        let place = self.find(blocks, id);
        self.take(place);
    }

    /// Takes the block at a place out.
    #[inline]
    pub(crate) fn take(&mut self, Place { class, at }: Place) {
        let ids = &mut self.classes[class];
        if at + 1 < ids.len() {
            ids.remove(at);
            return;
        }
        ids.pop();
        if at == 0 {
            self.occupied[class / 64] &= !(1 << (class % 64));
        }
    }

    /// Where a block stands.
    #[inline]
    pub(crate) fn find(&self, blocks: &Blocks, id: BlockId) -> Place {
        let class = class_of(blocks[id].size_bytes);
        let ids = &self.classes[class];
        let mut at = 0;
        if ids.len() > 1 {
            at = count_while(ids, |other| blocks[other].order() < blocks[id].order());
        }
        assert!(ids.get(at) == Some(&id), "a free block is in its pool's list");
        Place { class, at }
    }

    /// Moves the block that stood at a place to where it belongs, now that its size or address is another.
    #[inline]
    pub(crate) fn settle(&mut self, blocks: &Blocks, place: Place, id: BlockId) {
        let class = class_of(blocks[id].size_bytes);
        let stays = class == place.class
            && (self.classes[class].len() == 1 || self.is_in_order(blocks, place));
        if !stays {
            self.take(place);
            self.insert_into(class, blocks, id);
        }
    }

    fn is_in_order(&self, blocks: &Blocks, Place { class, at }: Place) -> bool {
        let ids = &self.classes[class];
        let order = |at: usize| blocks[ids[at]].order();
        (at == 0 || order(at - 1) < order(at)) && (at + 1 == ids.len() || order(at) < order(at + 1))
    }

    /// The blocks, smallest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = BlockId> {
        self.classes.iter().flatten().copied()
    }
}

/// How many ids come first for which `before` holds: a scan where there are few, as almost always.
#[inline]
fn count_while(ids: &[BlockId], before: impl Fn(BlockId) -> bool) -> usize {
    const FEW: usize = 16;
    if ids.len() > FEW {
        return ids.partition_point(|id| before(*id));
    }
    let mut count = 0;
    while let Some(&id) = ids.get(count)
        && before(id)
    {
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trace_format::Addr;

    use super::*;
    use crate::block::Block;
    use crate::pool::Pools;

    /// An arena of blocks given as (size, segment's rank, address), and their ids.
    fn arena(blocks: &[(u64, u32, u64)]) -> (Blocks, Vec<BlockId>) {
        let mut arena = Blocks::default();
        let mut insert = |&(size_bytes, segment_rank, addr)| {
            let pool = Pools::index(None, true);
            let block = Block::new(Addr(addr), size_bytes, Stream(0), pool);
            arena.insert(Block { segment_rank, ..block })
        };
        let ids = blocks.iter().map(&mut insert).collect();
        (arena, ids)
    }

    fn lane(blocks: &[(u64, u32, u64)]) -> (Blocks, Lane) {
        let (arena, ids) = arena(blocks);
        let mut lane = Lane::new(Stream(0));
        for id in ids {
            lane.insert(&arena, id);
        }
        (arena, lane)
    }

    fn addresses(arena: &Blocks, ids: impl Iterator<Item = BlockId>) -> Vec<u64> {
        ids.map(|id| arena[id].addr.0).collect()
    }

    #[test]
    fn blocks_are_tried_by_size_then_segments_age_then_address() {
        let (arena, lane) = lane(&[(2, 1, 10), (1, 2, 20), (1, 1, 40), (1, 1, 30)]);
        assert_eq!(addresses(&arena, lane.iter()), [30, 40, 20, 10]);
    }

    #[test]
    fn the_first_fit_is_the_smallest_that_holds_the_request() {
        let (arena, lane) = lane(&[(512, 0, 1), (1024, 0, 2), (4096, 0, 3)]);
        for (wanted, addr) in
            [(512, Some(1)), (513, Some(2)), (1024, Some(2)), (2000, Some(3)), (5000, None)]
        {
            let found = lane.first_fit(&arena, wanted).map(|(_, id)| arena[id].addr.0);
            assert_eq!(found, addr, "{wanted}");
        }
    }

    #[test]
    fn streams_follow_each_other_in_their_order() {
        let (arena, ids) = arena(&[(1, 0, 3), (9, 0, 1), (5, 0, 2)]);
        let mut list = FreeList::default();
        for (stream, id) in [32, 0, 16].into_iter().zip(ids) {
            list.of_mut(Stream(stream)).insert(&arena, id);
        }
        assert_eq!(addresses(&arena, list.iter()), [1, 2, 3]);
        assert!(list.of(Stream(7)).is_none(), "a stream without blocks");
    }

    #[test]
    fn classes_rise_with_sizes_and_cover_them_all() {
        let sizes = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let mut sizes: Vec<u64> = sizes.chain((0..5000).map(|units| units * 512)).collect();
        sizes.push(u64::MAX);
        sizes.sort_unstable();
        assert!(sizes.windows(2).all(|pair| class_of(pair[0]) <= class_of(pair[1])));
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(usize),
        Remove(usize),
        Resize(usize, (u64, u32)),
    }

    fn sizes() -> impl Strategy<Value = (u64, u32)> {
        (1..40_u64, 0..20_u32)
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            2 => (0..48_usize).prop_map(Op::Insert),
            1 => (0..48_usize).prop_map(Op::Remove),
            1 => (0..48_usize, sizes()).prop_map(|(at, size)| Op::Resize(at, size)),
        ];
        prop::collection::vec(op, 1..200)
    }

    proptest! {
        /// Sizes near each other and far apart, ranks and addresses that decide between equals.
        #[test]
        fn it_is_a_sorted_list(
            blocks in prop::collection::vec((sizes(), 0..2_u32), 48),
            ops in ops(),
            wanted in prop::collection::vec(sizes(), 20),
        ) {
            let bytes = |(units, shift): (u64, u32)| (units * 512) << shift;
            let blocks: Vec<_> = blocks.into_iter().enumerate()
                .map(|(at, (size, rank))| (bytes(size), rank, 512 * at as u64))
                .collect();
            let (mut arena, ids) = arena(&blocks);
            let (mut lane, mut sorted) = (Lane::new(Stream(0)), Vec::<BlockId>::new());
            for op in ops {
                match op {
                    Op::Insert(at) if !sorted.contains(&ids[at]) => {
                        lane.insert(&arena, ids[at]);
                        sorted.push(ids[at]);
                    }
                    Op::Remove(at) if sorted.contains(&ids[at]) => {
                        lane.remove(&arena, ids[at]);
                        sorted.retain(|id| *id != ids[at]);
                    }
                    Op::Resize(at, size) if sorted.contains(&ids[at]) => {
                        let place = lane.find(&arena, ids[at]);
                        arena[ids[at]].size_bytes = bytes(size);
                        lane.settle(&arena, place, ids[at]);
                    }
                    _ => {}
                }
                sorted.sort_by_key(|id| arena[*id].order());
                prop_assert_eq!(lane.iter().collect::<Vec<_>>(), sorted.clone());
                for size in &wanted {
                    let size_bytes = bytes(*size);
                    let at = sorted.partition_point(|id| arena[*id].size_bytes < size_bytes);
                    let found = lane.first_fit(&arena, size_bytes);
                    prop_assert_eq!(found.map(|found| found.1), sorted.get(at).copied());
                    let next = found.and_then(|(place, _)| lane.after(place));
                    prop_assert_eq!(next.map(|next| next.1), sorted.get(at + 1).copied());
                }
            }
        }
    }
}
