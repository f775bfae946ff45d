//! `async-pool`: CUDA's stream-ordered pools (`cudaMallocAsync`, `cudaMemPool_t`), as PyTorch's
//! `backend:cudaMallocAsync` uses them.
//!
//! NVIDIA documents the rules and not the placement. **Documented** (CUDA Programming Guide, "Stream-Ordered Memory
//! Allocator", sections on physical page caching and reuse policies) and modelled so:
//!
//! - memory freed in a stream serves that stream at once; after a synchronisation with the CPU it serves every stream;
//! - `cudaMemPoolReuseAllowOpportunistic`: so it does once its stream has passed the free;
//! - `cudaMemPoolReuseAllowInternalDependencies`: if no more physical memory can be had, memory whose availability
//!   depends on another stream's progress is taken, and the allocating stream waits for it;
//! - the release threshold: what is held beyond it goes back at the next synchronisation. PyTorch sets it to the
//!   largest number (`c10/cuda/CUDAMallocAsyncAllocator.cpp`, `lazy_init_device`), so that nothing does, and trims the
//!   pool to 0 in `empty_cache`, after waiting for the device; so does this model.
//!
//! **Assumed**, where the documentation is silent:
//!
//! - physical memory comes in pages of 2 MiB, CUDA's granularity for `cuMemCreate`, each call of which is counted and
//!   priced; the driver may take more at once;
//! - blocks are units of 512 bytes, the smallest free range that fits serves (of equals the lowest), and free
//!   neighbours join;
//! - where no range fits, whole free pages are mapped elsewhere side by side, and only what is missing is new
//!   (`remap`): holes in the address space cost nothing, holes within pages do;
//! - a stream passes a free `passes_after` later, by the tape's clock (never, where it has none); a tape does not say
//!   when. Memory freed at two
//!   times counts from the later one when it has joined;
//! - a tape does not say when the program synchronises either: emptied caches are the only such moments, and with
//!   `synchronises_every` one each time that long has passed.
//!
//! A free that other streams hold up (`record_stream`): PyTorch's backend lets a stream of its own, which no
//! request names, wait for the block's stream and its users, and frees the block there (`free_impl`). So no stream
//! has a claim to it; it serves all at once when that stream has passed the free: when the users are done, which is on
//! the tape, and not before `passes_after` for the block's own stream.
//!
//! `cudaMemPoolReuseFollowEventDependencies` is not modelled: it is about which stream waits for which event, and a
//! tape holds no waits. A private pool is a pool of its own, destroyed at its end. What `cudaMallocAsync` itself costs
//! is not priced.

use std::collections::BTreeMap;

use events::{Addr, Stream};

use crate::chunks::{ChunkId, Chunks, List};
use crate::memory::{Memory, PAGE_BYTES};
use crate::model::{Ask, Model, Piece};
use crate::model_settings::{Key, Settings, duration, flag, size};

/// The unit of blocks.
const GRANULE_BYTES: u64 = 512;

/// Addresses of a pool: more than any run uses up, remapped pages included. Thirty thousand private pools fit beside
/// the default one.
const DEFAULT_RANGE_BYTES: u64 = 1 << 56;
const PRIVATE_RANGE_BYTES: u64 = 1 << 45;

/// Free for every stream. The list of a stream is one more than its place among the streams.
const DONE: List = List(0);

/// The stream that PyTorch's backend frees blocks on that several streams used. No request names it.
const UNIFYING: Stream = Stream(u64::MAX);

/// The attributes of a pool, and what a tape does not say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AsyncSettings {
    release_threshold_bytes: u64,
    is_opportunistic: bool,
    has_internal_dependencies: bool,
    remaps: bool,
    passes_after_ns: u64,
    synchronises_every_ns: Option<u64>,
}

impl Default for AsyncSettings {
    fn default() -> Self {
        Self {
            release_threshold_bytes: u64::MAX,
            is_opportunistic: true,
            has_internal_dependencies: true,
            remaps: true,
            passes_after_ns: 1_000_000,
            synchronises_every_ns: None,
        }
    }
}

impl Settings for AsyncSettings {
    const KEYS: &'static [Key] = &[
        Key {
            name: "release_threshold",
            values: "SIZE|unlimited",
            what: "what is kept at a synchronisation (default unlimited, PyTorch's; CUDA's own is 0B)",
        },
        Key {
            name: "reuse_opportunistic",
            values: "True|False",
            what: "memory serves other streams once its own has passed the free (default True)",
        },
        Key {
            name: "reuse_internal_dependencies",
            values: "True|False",
            what: "before running out, streams wait for each other's memory (default True)",
        },
        Key {
            name: "remap",
            values: "True|False",
            what: "free pages are mapped side by side where no range fits (default True; assumed)",
        },
        Key {
            name: "passes_after",
            values: "DURATION",
            what: "how long a stream takes to pass a free (default 1ms; assumed)",
        },
        Key {
            name: "synchronises_every",
            values: "DURATION|never",
            what: "how often the program waits for the GPU (default never; assumed)",
        },
    ];

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "release_threshold" if value == "unlimited" => self.release_threshold_bytes = u64::MAX,
            "release_threshold" => self.release_threshold_bytes = size(value)?,
            "reuse_opportunistic" => self.is_opportunistic = flag(value)?,
            "reuse_internal_dependencies" => self.has_internal_dependencies = flag(value)?,
            "remap" => self.remaps = flag(value)?,
            "passes_after" => self.passes_after_ns = duration(value)?,
            _ if value == "never" => self.synchronises_every_ns = None,
            _ => self.synchronises_every_ns = Some(duration(value)?),
        }
        Ok(())
    }
}

/// A `cudaMemPool_t`.
pub struct AsyncPool {
    settings: AsyncSettings,
    range: (Addr, u64),
    /// Where addresses begin that were never used.
    fresh: u64,
    chunks: Chunks,
    /// The place of each stream, in the order in which they came.
    streams: BTreeMap<Stream, u32>,
    held_bytes: u64,
    synchronised_ns: Option<u64>,
    /// When passed frees are looked for next.
    look_ns: u64,
}

impl AsyncPool {
    fn list(&mut self, stream: Stream) -> List {
        let next = self.streams.len() as u32;
        let at = *self.streams.entry(stream).or_insert(next);
        List(at + 1)
    }

    fn stream_lists(&self) -> impl Iterator<Item = List> + use<> {
        (1..=self.streams.len() as u32).map(List)
    }

    /// What time alone changes: frees that were passed, and the program's synchronisations.
    fn pass_time(&mut self, memory: &mut Memory, now_ns: u64) {
        if let Some(every_ns) = self.settings.synchronises_every_ns {
            let since_ns = *self.synchronised_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(since_ns) >= every_ns {
                self.synchronised_ns = Some(now_ns);
                self.synchronised(memory, self.settings.release_threshold_bytes);
            }
        }
        // With one stream, no other stream waits for its frees. A quarter of the lag late is early enough.
        if self.settings.is_opportunistic && self.streams.len() > 1 && now_ns >= self.look_ns {
            self.look_ns = now_ns + self.settings.passes_after_ns / 4;
            self.find_passed(now_ns);
        }
    }

    fn find_passed(&mut self, now_ns: u64) {
        if let Some(until_ns) = now_ns.checked_sub(self.settings.passes_after_ns) {
            for list in self.stream_lists() {
                self.chunks.move_older(list, DONE, until_ns);
            }
        }
    }

    /// The GPU is idle: everything is free for everybody, and what is beyond the threshold goes back.
    fn synchronised(&mut self, memory: &mut Memory, keep_bytes: u64) {
        for list in self.stream_lists() {
            self.chunks.move_all(list, DONE);
        }
        if self.held_bytes > keep_bytes {
            let excess_pages = (self.held_bytes - keep_bytes).div_ceil(PAGE_BYTES);
            for (addr, pages) in self.cut_pages(&[DONE], excess_pages) {
                memory.unmap(addr, pages);
                self.held_bytes -= pages * PAGE_BYTES;
            }
        }
    }

    /// The smallest range that this stream may have.
    fn find(&self, own: List, size_bytes: u64) -> Option<ChunkId> {
        let found = [own, DONE].map(|list| self.chunks.best_fit(list, size_bytes));
        found.into_iter().flatten().min_by_key(|id| self.chunks.place(*id).1)
    }

    /// A range of its own for the request: free pages from elsewhere, and new ones.
    fn grow(
        &mut self,
        memory: &mut Memory,
        own: List,
        size_bytes: u64,
        now_ns: u64,
    ) -> Option<ChunkId> {
        let pages = size_bytes.div_ceil(PAGE_BYTES);
        let end = self.range.0.0 + self.range.1;
        if pages > (end - self.fresh) / PAGE_BYTES {
            return None;
        }
        let lists = [own, DONE];
        let free_pages = if self.settings.remaps { self.free_pages(&lists, pages) } else { 0 };
        let new_pages = pages - free_pages;
        if !memory.has_available(new_pages * PAGE_BYTES) {
            return None;
        }
        let addr = self.fresh;
        let mapped = memory.map(Addr(addr), new_pages);
        if mapped < new_pages {
            memory.unmap(Addr(addr), mapped);
            return None;
        }
        self.held_bytes += new_pages * PAGE_BYTES;
        let mut to = addr + new_pages * PAGE_BYTES;
        for (from, pages) in self.cut_pages(&lists, free_pages) {
            memory.remap(from, Addr(to), pages);
            to += pages * PAGE_BYTES;
        }
        self.fresh = to;
        // New memory is free for everybody; what was freed is as free as it was.
        let list = if free_pages == 0 { DONE } else { own };
        let id = self.chunks.add_region(addr, pages * PAGE_BYTES, list);
        self.chunks.touch(id, now_ns);
        Some(id)
    }

    /// How many whole pages of these lists are free, up to a number.
    fn free_pages(&self, lists: &[List], most: u64) -> u64 {
        let mut pages = 0;
        for id in lists.iter().flat_map(|list| self.with_pages(*list)) {
            let (from, to) = self.pages_in(id);
            pages += to.saturating_sub(from) / PAGE_BYTES;
            if pages >= most {
                return most;
            }
        }
        pages
    }

    /// Takes so many whole pages out of free ranges, from the largest ranges first: runs of pages.
    fn cut_pages(&mut self, lists: &[List], mut pages: u64) -> Vec<(Addr, u64)> {
        let mut cuts = Vec::new();
        for id in lists.iter().flat_map(|list| self.with_pages(*list)) {
            if pages == 0 {
                break;
            }
            let (from, to) = self.pages_in(id);
            let here = (to.saturating_sub(from) / PAGE_BYTES).min(pages);
            if here > 0 {
                cuts.push((id, from, here));
                pages -= here;
            }
        }
        let cut_out = |(id, from, here)| {
            self.chunks.cut_out(id, from, from + here * PAGE_BYTES);
            (Addr(from), here)
        };
        cuts.into_iter().map(cut_out).collect()
    }

    /// The free ranges that may hold a whole page, the largest first.
    fn with_pages(&self, list: List) -> impl Iterator<Item = ChunkId> {
        let ranges = self.chunks.largest_first(list);
        ranges.take_while(|id| self.chunks.place(*id).1 >= PAGE_BYTES)
    }

    /// The whole pages of a range: first address, and end.
    fn pages_in(&self, id: ChunkId) -> (u64, u64) {
        let (addr, size_bytes) = self.chunks.place(id);
        (addr.next_multiple_of(PAGE_BYTES), (addr + size_bytes) / PAGE_BYTES * PAGE_BYTES)
    }

    fn find_or_grow(
        &mut self,
        memory: &mut Memory,
        own: List,
        size_bytes: u64,
        now_ns: u64,
    ) -> Option<ChunkId> {
        let mut found = self.find(own, size_bytes);
        if found.is_none() && self.settings.is_opportunistic && self.streams.len() > 1 {
            self.find_passed(now_ns);
            found = self.find(own, size_bytes);
        }
        found.or_else(|| self.grow(memory, own, size_bytes, now_ns))
    }
}

impl Model for AsyncPool {
    const NAME: &'static str = "async-pool";
    const WHAT: &'static str =
        "cudaMallocAsync's pool: what is documented of it, with 2 MiB pages that are remapped";
    const GRANULE_BYTES: u64 = GRANULE_BYTES;
    type Settings = AsyncSettings;

    fn new(
        settings: &AsyncSettings,
        memory: &mut Memory,
        is_private: bool,
    ) -> Result<Self, String> {
        let range_bytes = if is_private { PRIVATE_RANGE_BYTES } else { DEFAULT_RANGE_BYTES };
        let addr = memory.reserve(range_bytes).ok_or("the address space is used up")?;
        Ok(Self {
            settings: *settings,
            range: (addr, range_bytes),
            fresh: addr.0,
            chunks: Chunks::default(),
            streams: BTreeMap::new(),
            held_bytes: 0,
            synchronised_ns: None,
            look_ns: 0,
        })
    }

    fn malloc(&mut self, memory: &mut Memory, ask: Ask) -> Option<Piece> {
        let size_bytes = ask.size_bytes.next_multiple_of(GRANULE_BYTES);
        let own = self.list(ask.stream);
        self.pass_time(memory, ask.now_ns);
        let mut id = self.find_or_grow(memory, own, size_bytes, ask.now_ns);
        if id.is_none() && self.settings.has_internal_dependencies {
            for other in self.stream_lists().filter(|list| *list != own) {
                self.chunks.move_all(other, own);
                id = self.find_or_grow(memory, own, size_bytes, ask.now_ns);
                if id.is_some() {
                    break;
                }
            }
        }
        let id = id?;
        self.chunks.take(id, size_bytes);
        let (addr, size_bytes) = self.chunks.place(id);
        Some(Piece { id: id.into(), addr: Addr(addr), size_bytes })
    }

    fn free(&mut self, _memory: &mut Memory, piece: Piece, stream: Stream, now_ns: u64) {
        let list = self.list(stream);
        self.chunks.give_joining(ChunkId::from(piece.id), list, DONE, now_ns);
    }

    fn free_awaited(
        &mut self,
        _memory: &mut Memory,
        piece: Piece,
        _stream: Stream,
        freed_ns: u64,
        now_ns: u64,
    ) {
        // Without a clock nothing ever passes, and that the other streams have passed is known.
        let is_passed = now_ns == 0 && self.settings.is_opportunistic;
        let list = if is_passed { DONE } else { self.list(UNIFYING) };
        self.chunks.give_joining(ChunkId::from(piece.id), list, list, freed_ns);
    }

    fn empty_cache(&mut self, memory: &mut Memory) {
        self.synchronised(memory, 0);
    }

    fn close(mut self, memory: &mut Memory) {
        self.synchronised(memory, 0);
        memory.unreserve(self.range.0, self.range.1);
    }
}

#[cfg(test)]
mod tests {
    use device::DeviceCall;
    use sim_device::{SimConfig, SimDevice};

    use super::*;
    use crate::model_settings::read;

    const MIB: u64 = 1 << 20;
    const MS: u64 = 1_000_000;

    fn begin(text: &str) -> (AsyncPool, Memory) {
        let settings = read("async-pool", text).unwrap();
        let device = SimDevice::new(SimConfig {
            length_bytes: 1 << 60,
            ..SimConfig::with_capacity(64 * MIB)
        });
        let mut memory = Memory::new(device).unwrap();
        (AsyncPool::new(&settings, &mut memory, false).unwrap(), memory)
    }

    fn ask(size_bytes: u64, stream: u64, now_ns: u64) -> Ask {
        Ask { size_bytes, stream: Stream(stream), now_ns }
    }

    #[test]
    fn another_stream_has_memory_once_its_free_is_passed_and_not_before() {
        for (text, reserved) in [("", 4), ("reuse_opportunistic:False", 8)] {
            let (mut pool, mut memory) = begin(text);
            let piece = pool.malloc(&mut memory, ask(4 * MIB, 1, 0)).unwrap();
            pool.free(&mut memory, piece, Stream(1), 10 * MS);
            let soon = pool.malloc(&mut memory, ask(512, 2, 10 * MS)).unwrap();
            assert_eq!(memory.reserved_bytes(), 6 * MIB, "{text}: the same moment is too early");
            pool.free(&mut memory, soon, Stream(2), 10 * MS);
            pool.malloc(&mut memory, ask(4 * MIB, 2, 11 * MS)).unwrap();
            assert_eq!(memory.reserved_bytes(), (reserved.max(6)) * MIB, "{text}");
        }
    }

    #[test]
    fn memory_of_several_streams_serves_each_of_them_once_all_have_passed() {
        // Freed on stream 1 at 10 ms; another stream was done with it at `done_ms`.
        let reserved = |text: &str, done_ms: u64, asked_ms: u64, stream: u64| {
            let (mut pool, mut memory) = begin(text);
            let piece = pool.malloc(&mut memory, ask(4 * MIB, 1, MS)).unwrap();
            pool.free_awaited(&mut memory, piece, Stream(1), 10 * MS, done_ms * MS);
            pool.malloc(&mut memory, ask(4 * MIB, stream, asked_ms * MS)).unwrap();
            memory.reserved_bytes() / MIB
        };
        for stream in [1, 2] {
            assert_eq!(reserved("", 10, 10, stream), 8, "its own stream may not have passed");
            assert_eq!(reserved("", 10, 11, stream), 4, "now it has");
            assert_eq!(reserved("", 20, 20, stream), 4, "it had, long before the other was done");
            assert_eq!(reserved("reuse_opportunistic:False", 20, 30, stream), 8, "not reused");
            assert_eq!(reserved("", 0, 0, stream), 4, "without a clock the tape's word counts");
        }
    }

    #[test]
    fn a_stream_waits_for_another_where_memory_ends() {
        for (text, is_served) in [("", true), ("reuse_internal_dependencies:False", false)] {
            let (mut pool, mut memory) = begin(text);
            let piece = pool.malloc(&mut memory, ask(60 * MIB, 1, MS)).unwrap();
            pool.free(&mut memory, piece, Stream(1), MS);
            let served = pool.malloc(&mut memory, ask(50 * MIB, 2, MS));
            assert_eq!(served.is_some(), is_served, "{text}");
            pool.empty_cache(&mut memory);
            assert!(pool.malloc(&mut memory, ask(4 * MIB, 2, MS)).is_some());
        }
    }

    #[test]
    fn free_pages_between_blocks_are_mapped_side_by_side() {
        for (text, reserved) in [("", 18), ("remap:False", 22)] {
            let (mut pool, mut memory) = begin(text);
            let pieces: Vec<_> =
                (0..8).map(|_| pool.malloc(&mut memory, ask(2 * MIB, 1, 0)).unwrap()).collect();
            assert_eq!(memory.reserved_bytes(), 16 * MIB);
            for piece in [pieces[1], pieces[4]] {
                pool.free(&mut memory, piece, Stream(1), 0);
            }
            pool.malloc(&mut memory, ask(6 * MIB, 1, 0)).unwrap();
            assert_eq!(memory.reserved_bytes(), reserved * MIB, "{text}");
            assert_eq!(memory.counts().of(DeviceCall::Create), reserved / 2, "{text}");
        }
    }

    /// A billion pages move: one by one that takes minutes.
    #[test]
    fn pages_that_move_side_by_side_take_the_time_of_a_few_calls_and_count_one_by_one() {
        const ROUNDS: u64 = 2_000;
        let device = SimDevice::new(SimConfig {
            length_bytes: 1 << 60,
            ..SimConfig::with_capacity(1 << 41)
        });
        let mut memory = Memory::new(device).unwrap();
        let mut pool = AsyncPool::new(&AsyncSettings::default(), &mut memory, false).unwrap();
        for _ in 0..ROUNDS {
            // The first page of what was free stays in use, so that all the others move.
            pool.malloc(&mut memory, ask(PAGE_BYTES, 1, 0)).unwrap();
            let large = pool.malloc(&mut memory, ask(1 << 40, 1, 0)).unwrap();
            pool.free(&mut memory, large, Stream(1), 0);
        }
        let pages = (1 << 40) / PAGE_BYTES;
        assert_eq!(memory.reserved_bytes(), (1 << 40) + ROUNDS * PAGE_BYTES);
        assert_eq!(memory.counts().of(DeviceCall::Create), pages + ROUNDS);
        assert_eq!(memory.counts().of(DeviceCall::Map), 1 + ROUNDS * pages);
        assert_eq!(memory.counts().of(DeviceCall::Unmap), (ROUNDS - 1) * (pages - 1));
    }

    #[test]
    fn an_emptied_cache_keeps_nothing_and_a_synchronisation_keeps_the_threshold() {
        let (mut pool, mut memory) = begin("release_threshold:5MiB,synchronises_every:10ms");
        let piece = pool.malloc(&mut memory, ask(20 * MIB, 1, 0)).unwrap();
        pool.free(&mut memory, piece, Stream(1), MS);
        pool.malloc(&mut memory, ask(512, 1, 9 * MS)).unwrap();
        assert_eq!(memory.reserved_bytes(), 20 * MIB);
        pool.malloc(&mut memory, ask(512, 1, 10 * MS)).unwrap();
        assert_eq!(memory.reserved_bytes(), 4 * MIB, "whole pages, no more than the threshold");
        pool.empty_cache(&mut memory);
        assert_eq!(memory.reserved_bytes(), 2 * MIB, "one page is in use");
    }
}
