//! Regions of memory cut into chunks, and the best fit among the free ones: what several models have in common.

use std::collections::BTreeSet;

/// No chunk.
const NONE: u32 = u32::MAX;

/// The list of a chunk that is handed out.
const IN_USE: u32 = u32::MAX;

/// A chunk by its number. Numbers of chunks that are gone are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChunkId(u32);

impl From<u32> for ChunkId {
    fn from(id: u32) -> Self {
        Self(id)
    }
}

impl From<ChunkId> for u32 {
    fn from(id: ChunkId) -> Self {
        id.0
    }
}

/// The free chunks that a request may choose among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List(pub(crate) u32);

/// A piece of a region: handed out whole, or free whole.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    addr: u64,
    size_bytes: u64,
    /// Neighbours within the region.
    prev: u32,
    next: u32,
    list: u32,
    /// When the newest part of it was freed, in nanoseconds.
    freed_ns: u64,
}

/// Regions, each tiled by chunks. Free neighbours in one list are always one chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunks {
    all: Vec<Chunk>,
    unused: Vec<u32>,
    /// The free chunks of each list, by size, then address.
    free: Vec<BTreeSet<(u64, u64, ChunkId)>>,
}

impl Chunks {
    /// Adds a region, free, as one chunk. Regions are never joined, even where they touch.
    pub(crate) fn add_region(&mut self, addr: u64, size_bytes: u64, list: List) -> ChunkId {
        let id = self.new_chunk(Chunk {
            addr,
            size_bytes,
            prev: NONE,
            next: NONE,
            list: IN_USE,
            freed_ns: 0,
        });
        self.insert(id, list);
        id
    }

    /// Takes a region that is one free chunk away: its address and size.
    pub(crate) fn remove_region(&mut self, id: ChunkId) -> (u64, u64) {
        assert!(self.is_whole_region(id), "only a region that is free as a whole can go");
        self.remove(id);
        self.unused.push(id.0);
        self.place(id)
    }

    /// Whether the chunk is free and all of its region.
    pub(crate) fn is_whole_region(&self, id: ChunkId) -> bool {
        let chunk = self.at(id);
        chunk.list != IN_USE && chunk.prev == NONE && chunk.next == NONE
    }

    /// The smallest free chunk of a list that holds `size_bytes`, of equally large ones the lowest.
    pub(crate) fn best_fit(&self, list: List, size_bytes: u64) -> Option<ChunkId> {
        let free = self.free.get(list.0 as usize)?;
        free.range((size_bytes, 0, ChunkId(0))..).next().map(|(_, _, id)| *id)
    }

    /// Hands a free chunk out, cut to `keep_bytes`: what is behind stays free in its list.
    pub(crate) fn take(&mut self, id: ChunkId, keep_bytes: u64) {
        let list = self.remove(id);
        let chunk = *self.at(id);
        let rest_bytes = chunk.size_bytes - keep_bytes;
        if rest_bytes == 0 {
            return;
        }
        let rest = self.new_chunk(Chunk {
            addr: chunk.addr + keep_bytes,
            size_bytes: rest_bytes,
            prev: id.0,
            next: chunk.next,
            list: IN_USE,
            freed_ns: chunk.freed_ns,
        });
        let cut = self.at_mut(id);
        cut.size_bytes = keep_bytes;
        cut.next = rest.0;
        if chunk.next != NONE {
            self.all[chunk.next as usize].prev = rest.0;
        }
        self.insert(rest, list);
    }

    /// Puts a chunk that was handed out into a list, joined with its free neighbours of the same list.
    pub(crate) fn give(&mut self, id: ChunkId, list: List) -> ChunkId {
        self.give_joining(id, list, list, 0)
    }

    /// The same, joined with free neighbours of a second list too.
    pub(crate) fn give_joining(
        &mut self,
        id: ChunkId,
        list: List,
        other: List,
        freed_ns: u64,
    ) -> ChunkId {
        assert_eq!(self.at(id).list, IN_USE, "a chunk is given back once");
        self.at_mut(id).freed_ns = freed_ns;
        let Chunk { prev, next, .. } = *self.at(id);
        let joins = |chunk: &Chunk| chunk.list == list.0 || chunk.list == other.0;
        if next != NONE && joins(&self.all[next as usize]) {
            self.remove(ChunkId(next));
            self.absorb_next(id);
        }
        if prev != NONE && joins(&self.all[prev as usize]) {
            self.remove(ChunkId(prev));
            self.absorb_next(ChunkId(prev));
            self.insert(ChunkId(prev), list);
            return ChunkId(prev);
        }
        self.insert(id, list);
        id
    }

    /// Moves all free chunks of one list to another.
    pub(crate) fn move_all(&mut self, from: List, to: List) {
        let Some(free) = self.free.get_mut(from.0 as usize) else { return };
        let moved = std::mem::take(free);
        for (_, _, id) in &moved {
            self.at_mut(*id).list = IN_USE;
        }
        for (_, _, id) in moved {
            self.give_joining(id, to, to, self.at(id).freed_ns);
        }
    }

    /// Moves the chunks of one list to another whose newest part was freed no later than `until_ns`.
    pub(crate) fn move_older(&mut self, from: List, to: List, until_ns: u64) {
        let older = |id: &ChunkId| self.at(*id).freed_ns <= until_ns;
        let moved: Vec<_> = self.free_in(from).filter(older).collect();
        for id in moved {
            self.remove(id);
            self.give_joining(id, to, to, self.at(id).freed_ns);
        }
    }

    /// Takes a part of a free chunk away for good. What is before and behind it stays free, and never joins again.
    pub(crate) fn cut_out(&mut self, id: ChunkId, from: u64, to: u64) {
        let list = self.remove(id);
        let chunk = *self.at(id);
        let end = chunk.addr + chunk.size_bytes;
        assert!(chunk.addr <= from && from < to && to <= end, "a part of the chunk is cut out");
        if to < end {
            let (addr, size_bytes) = (to, end - to);
            let back =
                self.new_chunk(Chunk { addr, size_bytes, prev: NONE, list: IN_USE, ..chunk });
            self.link(back.0, chunk.next);
            self.insert(back, list);
        } else {
            self.link(NONE, chunk.next);
        }
        if chunk.addr < from {
            let front = self.at_mut(id);
            front.size_bytes = from - chunk.addr;
            front.next = NONE;
            self.insert(id, list);
        } else {
            self.link(chunk.prev, NONE);
            self.unused.push(id.0);
        }
    }

    fn link(&mut self, prev: u32, next: u32) {
        if prev != NONE {
            self.all[prev as usize].next = next;
        }
        if next != NONE {
            self.all[next as usize].prev = prev;
        }
    }

    /// Address and size.
    pub(crate) fn place(&self, id: ChunkId) -> (u64, u64) {
        let chunk = self.at(id);
        (chunk.addr, chunk.size_bytes)
    }

    /// The free chunks of a list, in order of size.
    pub(crate) fn free_in(&self, list: List) -> impl Iterator<Item = ChunkId> {
        self.free.get(list.0 as usize).into_iter().flatten().map(|(_, _, id)| *id)
    }

    /// The free chunks of a list, the largest first.
    pub(crate) fn largest_first(&self, list: List) -> impl Iterator<Item = ChunkId> {
        let free = self.free.get(list.0 as usize).map(|free| free.iter().rev());
        free.into_iter().flatten().map(|(_, _, id)| *id)
    }

    /// Sets when a chunk was freed.
    pub(crate) fn touch(&mut self, id: ChunkId, freed_ns: u64) {
        self.at_mut(id).freed_ns = freed_ns;
    }

    fn absorb_next(&mut self, id: ChunkId) {
        let next = self.at(id).next;
        let gone = self.all[next as usize];
        let chunk = self.at_mut(id);
        chunk.size_bytes += gone.size_bytes;
        chunk.freed_ns = chunk.freed_ns.max(gone.freed_ns);
        chunk.next = gone.next;
        if gone.next != NONE {
            self.all[gone.next as usize].prev = id.0;
        }
        self.unused.push(next);
    }

    fn insert(&mut self, id: ChunkId, list: List) {
        let chunk = self.at_mut(id);
        chunk.list = list.0;
        let key = (chunk.size_bytes, chunk.addr, id);
        let lists = list.0 as usize + 1;
        if self.free.len() < lists {
            self.free.resize_with(lists, BTreeSet::new);
        }
        self.free[list.0 as usize].insert(key);
    }

    fn remove(&mut self, id: ChunkId) -> List {
        let chunk = self.at_mut(id);
        let list = std::mem::replace(&mut chunk.list, IN_USE);
        let key = (chunk.size_bytes, chunk.addr, id);
        assert!(self.free[list as usize].remove(&key), "a free chunk is in its list");
        List(list)
    }

    fn new_chunk(&mut self, chunk: Chunk) -> ChunkId {
        if let Some(id) = self.unused.pop() {
            self.all[id as usize] = chunk;
            return ChunkId(id);
        }
        self.all.push(chunk);
        ChunkId(self.all.len() as u32 - 1)
    }

    fn at(&self, id: ChunkId) -> &Chunk {
        &self.all[id.0 as usize]
    }

    fn at_mut(&mut self, id: ChunkId) -> &mut Chunk {
        &mut self.all[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: List = List(0);

    #[test]
    fn the_smallest_that_fits_is_taken_and_of_equals_the_lowest() {
        let mut chunks = Chunks::default();
        let high = chunks.add_region(9000, 512, LIST);
        let low = chunks.add_region(1000, 512, LIST);
        let large = chunks.add_region(5000, 1024, LIST);
        assert_eq!(chunks.best_fit(LIST, 300), Some(low));
        assert_eq!(chunks.best_fit(LIST, 513), Some(large));
        assert_eq!(chunks.best_fit(LIST, 2000), None);
        chunks.take(low, 512);
        assert_eq!(chunks.best_fit(LIST, 300), Some(high));
    }

    #[test]
    fn neighbours_join_on_both_sides_and_only_within_a_list_and_a_region() {
        let mut chunks = Chunks::default();
        let first = chunks.add_region(0, 3000, LIST);
        chunks.add_region(3000, 1000, LIST);
        chunks.take(first, 1000);
        let second = chunks.best_fit(LIST, 1500).unwrap();
        chunks.take(second, 1000);
        let third = chunks.best_fit(LIST, 1000).unwrap();
        assert_eq!(chunks.place(third), (2000, 1000));
        chunks.take(third, 1000);
        chunks.give(first, LIST);
        chunks.give(third, List(1));
        let joined = chunks.give(second, LIST);
        assert_eq!(chunks.place(joined), (0, 2000));
        assert!(!chunks.is_whole_region(joined));
        chunks.move_all(List(1), LIST);
        assert_eq!(chunks.best_fit(LIST, 3000).map(|id| chunks.place(id)), Some((0, 3000)));
        let whole = chunks.best_fit(LIST, 3000).unwrap();
        assert_eq!(chunks.remove_region(whole), (0, 3000));
        assert_eq!(chunks.free_in(LIST).count(), 1);
    }
}
