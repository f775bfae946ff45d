use std::vec::Vec;

use events::Addr;
use proptest::prelude::*;

use super::*;
use crate::arena::Block;
use crate::ids::FreeListId;

/// An arena of blocks given as (size, segment's rank, address), and their ids.
fn arena(blocks: &[(u64, u32, u64)]) -> (Arena, Vec<BlockId>) {
    let mut arena = Arena::default();
    let mut insert = |&(size_bytes, segment_rank, addr)| {
        let block = Block::new(Addr(addr), size_bytes, FreeListId(0));
        arena.insert(Block { segment_rank, ..block })
    };
    let ids = blocks.iter().map(&mut insert).collect();
    (arena, ids)
}

fn empty() -> FreeList {
    FreeList::new(PoolIndex::new(None, true), Stream(0))
}

fn list(blocks: &[(u64, u32, u64)]) -> (Arena, FreeList) {
    let (arena, ids) = arena(blocks);
    let mut list = empty();
    for id in ids {
        list.insert(&arena, id);
    }
    (arena, list)
}

fn addresses(arena: &Arena, ids: impl Iterator<Item = BlockId>) -> Vec<u64> {
    ids.map(|id| arena[id].addr.0).collect()
}

#[test]
fn blocks_are_tried_by_size_then_segments_age_then_address() {
    let (arena, list) = list(&[(2, 1, 10), (1, 2, 20), (1, 1, 40), (1, 1, 30)]);
    assert_eq!(addresses(&arena, list.iter()), [30, 40, 20, 10]);
}

#[test]
fn the_first_fit_is_the_smallest_that_holds_the_request() {
    let (arena, list) = list(&[(512, 0, 1), (1024, 0, 2), (4096, 0, 3)]);
    for (wanted, addr) in
        [(512, Some(1)), (513, Some(2)), (1024, Some(2)), (2000, Some(3)), (5000, None)]
    {
        let found = list.first_fit(&arena, wanted).map(|(_, id)| arena[id].addr.0);
        assert_eq!(found, addr, "{wanted}");
    }
}

#[test]
fn streams_follow_each_other_in_their_order() {
    let (arena, ids) = arena(&[(1, 0, 3), (9, 0, 1), (5, 0, 2)]);
    let (mut lists, pool) = (FreeLists::new(), PoolIndex::new(None, true));
    for (stream, id) in [32, 0, 16].into_iter().zip(ids) {
        let list = lists.begin_segment(pool, Stream(stream));
        assert_eq!(lists.begin_segment(pool, Stream(stream)), list, "a stream has one list");
        lists[list].insert(&arena, id);
    }
    assert_eq!(addresses(&arena, lists.free(pool)), [1, 2, 3]);
    assert!(lists.find(pool, Stream(7)).is_none(), "a stream without blocks");
}

/// More streams than a scan goes through; some end and others take their free lists.
#[test]
fn a_stream_has_a_list_as_long_as_it_has_a_segment() {
    let (mut lists, pool) = (FreeLists::new(), PoolIndex::new(None, false));
    let ids: Vec<_> = (0..100).map(|stream| lists.begin_segment(pool, Stream(stream))).collect();
    for (stream, list) in (0..).zip(&ids) {
        assert_eq!(lists.find(pool, Stream(stream)), Some(*list));
        assert_eq!((lists[*list].stream, lists[*list].pool), (Stream(stream), pool));
    }
    assert_eq!(lists.begin_segment(pool, Stream(7)), ids[7], "one more segment");
    for list in &ids {
        lists.end_segment(*list);
    }
    let left: Vec<_> = lists.of(pool).map(|list| list.stream).collect();
    assert_eq!(left, [Stream(7)]);
    let held = (0..100).filter(|stream| lists.find(pool, Stream(*stream)).is_some());
    assert!(held.eq([7]));
    let again = lists.begin_segment(pool, Stream(500));
    assert!(ids.contains(&again) && again != ids[7], "memory of a list that ended");
    assert_eq!(lists.find(pool, Stream(500)), Some(again));
}

#[test]
fn unmapped_blocks_are_in_address_order() {
    let (_, ids) = arena(&[(1, 0, 9), (1, 0, 5), (1, 0, 7)]);
    let mut list = empty();
    for (addr, id) in [9, 5, 7].into_iter().zip(&ids) {
        list.insert_unmapped(Addr(addr), *id);
    }
    assert_eq!(list.unmapped().collect::<Vec<_>>(), [ids[1], ids[2], ids[0]]);
    list.remove_unmapped(Addr(7), ids[2]);
    assert_eq!(list.unmapped().collect::<Vec<_>>(), [ids[1], ids[0]]);
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
        let (mut list, mut sorted) = (empty(), Vec::<BlockId>::new());
        for op in ops {
            match op {
                Op::Insert(at) if !sorted.contains(&ids[at]) => {
                    list.insert(&arena, ids[at]);
                    sorted.push(ids[at]);
                }
                Op::Remove(at) if sorted.contains(&ids[at]) => {
                    list.remove(&arena, ids[at]);
                    sorted.retain(|id| *id != ids[at]);
                }
                Op::Resize(at, size) if sorted.contains(&ids[at]) => {
                    let place = list.find(&arena, ids[at]);
                    arena[ids[at]].size_bytes = bytes(size);
                    list.settle(&arena, place, ids[at]);
                }
                _ => {}
            }
            sorted.sort_by_key(|id| {
                let block = &arena[*id];
                (block.size_bytes, block.segment_rank, block.addr)
            });
            prop_assert_eq!(list.iter().collect::<Vec<_>>(), sorted.clone());
            for size in &wanted {
                let size_bytes = bytes(*size);
                let at = sorted.partition_point(|id| arena[*id].size_bytes < size_bytes);
                let found = list.first_fit(&arena, size_bytes);
                prop_assert_eq!(found.map(|found| found.1), sorted.get(at).copied());
                let next = found.and_then(|(place, _)| list.after(place));
                prop_assert_eq!(next.map(|next| next.1), sorted.get(at + 1).copied());
            }
        }
    }
}
