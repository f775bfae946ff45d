//! `rmm-arena`: RAPIDS' `rmm::mr::arena_memory_resource`, one arena for the device and one for each stream.
//!
//! Read in rapidsai/rmm 26.08 (commit 5d50a37; `detail/arena.hpp`, `detail/arena_memory_resource_impl.cpp`), compiled
//! as it is by default, without `RMM_ARENA_USE_SIZE_CLASSES`, and modelled function by function:
//!
//! - one block of the device's memory is taken at the start, with one `cudaMalloc` (`global_arena::initialize`), and
//!   none later; sizes are rounded up to 256 bytes;
//! - it is cut into superblocks of at least 1 MiB. Requests over 1 MiB go to the global arena
//!   (`global_arena::handles`), which cuts an empty superblock to the request where another 1 MiB or more remains
//!   (`first_fit`), and joins empty neighbours when one is emptied (`coalesce`);
//! - smaller ones go to their stream's arena, which asks the global one for superblocks of 1 MiB (`expand_arena`);
//! - always the lowest superblock with a free block that fits, and the lowest such block in it
//!   (`superblock::first_fit`);
//! - a stream's arena gives nothing back until a request fails: then everything waits for the device, all arenas give
//!   all their superblocks back, used ones too, and the request is tried once more (`defragment`). A block is from then
//!   on freed wherever its superblock is (`deallocate_from_other_arena`).
//!
//! A free of more than 1 MiB waits for its stream (`global_arena::deallocate`), as does one in another arena; both are
//! priced.
//!
//! Different on purpose: where no `arena_size` is set (RMM takes half of the free memory, `default_size`), the arena
//! may use all of the device, and what counts as reserved is how far it reached: placements are always the lowest, so
//! this is about the smallest `arena_size` that would have done. Its one `cudaMalloc` is counted and has the price of
//! that size. `empty_cache`: there is no such call. A private pool is an arena of this kind of its own.
//!
//! Not seen: threads (an arena for each thread's default stream, with `cudaStreamPerThread`, which PyTorch does not
//! use).

use std::collections::BTreeMap;

use events::{Addr, Stream};

use crate::memory::{Memory, PAGE_BYTES};
use crate::model::{Ask, Model, Piece};
use crate::model_settings::{Key, Settings, size};
use crate::superblocks::{Shelf, Superblock};

/// `rmm::CUDA_ALLOCATION_ALIGNMENT`.
const GRANULE_BYTES: u64 = 256;

/// `superblock::minimum_size`.
const SUPERBLOCK_BYTES: u64 = 1 << 20;

/// The parameters of `arena_memory_resource`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArenaSettings {
    arena_bytes: Option<u64>,
}

impl Settings for ArenaSettings {
    const KEYS: &'static [Key] = &[Key {
        name: "arena_size",
        values: "SIZE",
        what: "the arena, at least 1MiB, all of it reserved at once (default: as far as the run reaches)",
    }];

    fn set(&mut self, _key: &str, value: &str) -> Result<(), String> {
        let bytes = size(value)? / GRANULE_BYTES * GRANULE_BYTES;
        if bytes < SUPERBLOCK_BYTES {
            return Err(format!("`{value}` is less than a superblock, 1MiB"));
        }
        self.arena_bytes = Some(bytes);
        Ok(())
    }
}

/// The block that an arena is made of.
#[derive(Clone, Copy, Debug)]
enum Ground {
    /// Of a set size.
    Fixed { addr: Addr, size_bytes: u64 },
    /// As far as it is used.
    Open { addr: Addr, range_bytes: u64, reached_bytes: u64 },
}

/// An `arena_memory_resource`.
pub struct RmmArena {
    ground: Ground,
    global: Shelf,
    arenas: Vec<(Stream, Shelf)>,
    /// The place of each stream's arena among them.
    places: BTreeMap<Stream, usize>,
}

impl RmmArena {
    fn arena(&mut self, stream: Stream) -> usize {
        *self.places.entry(stream).or_insert_with(|| {
            self.arenas.push((stream, Shelf::default()));
            self.arenas.len() - 1
        })
    }

    /// `arena::allocate_sync`.
    fn allocate(&mut self, memory: &mut Memory, size_bytes: u64, stream: Stream) -> Option<u64> {
        let is_global = size_bytes > SUPERBLOCK_BYTES;
        let own = self.arena(stream);
        let found = if is_global { None } else { self.arenas[own].1.first_fit(size_bytes) };
        let addr = if let Some(addr) = found {
            addr
        } else {
            let mut superblock = self.acquire(size_bytes)?;
            let addr = superblock.first_fit(size_bytes);
            let shelf = if is_global { &mut self.global } else { &mut self.arenas[own].1 };
            shelf.insert(superblock);
            addr
        };
        if self.reach(memory, addr + size_bytes) {
            return Some(addr);
        }
        self.deallocate(None, addr, size_bytes, stream);
        None
    }

    /// `global_arena::first_fit`.
    fn acquire(&mut self, size_bytes: u64) -> Option<Superblock> {
        let superblock = self.global.take_first_fit(size_bytes)?;
        let min_bytes = size_bytes.max(SUPERBLOCK_BYTES);
        if superblock.is_empty() && superblock.size_bytes() >= min_bytes + SUPERBLOCK_BYTES {
            let (head, tail) = superblock.split(min_bytes);
            self.global.insert(tail);
            return Some(head);
        }
        Some(superblock)
    }

    /// `arena_memory_resource_impl::deallocate`; without a memory, no waiting is priced.
    fn deallocate(
        &mut self,
        mut memory: Option<&mut Memory>,
        addr: u64,
        size_bytes: u64,
        stream: Stream,
    ) {
        let mut wait = || {
            if let Some(memory) = &mut memory {
                memory.synchronize_stream(stream);
            }
        };
        if size_bytes > SUPERBLOCK_BYTES {
            wait();
            if self.free_in_global(addr, size_bytes) {
                return;
            }
        }
        let own = self.arena(stream);
        if self.arenas[own].1.free(addr, size_bytes) {
            return;
        }
        wait();
        let others = &mut self.arenas;
        let found = others.iter_mut().any(|(_, arena)| arena.free(addr, size_bytes))
            || self.free_in_global(addr, size_bytes);
        assert!(found, "a block lies in a superblock of some arena");
    }

    /// `global_arena::deallocate_sync`.
    fn free_in_global(&mut self, addr: u64, size_bytes: u64) -> bool {
        let Some(mut superblock) = self.global.take_holding(addr) else { return false };
        superblock.coalesce(addr, size_bytes);
        if superblock.is_empty() {
            self.global.insert_joined(superblock);
        } else {
            self.global.insert(superblock);
        }
        true
    }

    /// Notes how far the arena is used; false where memory ends before.
    fn reach(&mut self, memory: &mut Memory, end: u64) -> bool {
        let Ground::Open { addr, reached_bytes, .. } = &mut self.ground else { return true };
        let needed_bytes = end - addr.0;
        if needed_bytes > *reached_bytes {
            if !memory.extend(*reached_bytes, needed_bytes) {
                return false;
            }
            *reached_bytes = needed_bytes;
        }
        true
    }
}

impl Model for RmmArena {
    const NAME: &'static str = "rmm-arena";
    const WHAT: &'static str =
        "RAPIDS' arena_memory_resource: superblocks of one arena, lent to arenas by stream";
    const GRANULE_BYTES: u64 = GRANULE_BYTES;
    type Settings = ArenaSettings;

    fn new(
        settings: &ArenaSettings,
        memory: &mut Memory,
        is_private: bool,
    ) -> Result<Self, String> {
        let fixed_bytes = settings.arena_bytes.filter(|_| !is_private);
        let (ground, addr, size_bytes) = if let Some(size_bytes) = fixed_bytes {
            let reason = "the device has no room for arena_size; lower it, or raise --capacity";
            let addr = memory.obtain(size_bytes).ok_or(reason)?;
            (Ground::Fixed { addr, size_bytes }, addr, size_bytes)
        } else {
            let range_bytes = memory.total_bytes().next_multiple_of(PAGE_BYTES);
            let addr = memory.obtain_open(range_bytes).ok_or("the address space is used up")?;
            (Ground::Open { addr, range_bytes, reached_bytes: 0 }, addr, range_bytes)
        };
        let mut global = Shelf::default();
        global.insert(Superblock::new(addr.0, size_bytes));
        Ok(Self { ground, global, arenas: Vec::new(), places: BTreeMap::new() })
    }

    /// `arena_memory_resource_impl::allocate`.
    fn malloc(&mut self, memory: &mut Memory, ask: Ask) -> Option<Piece> {
        let size_bytes = ask.size_bytes.next_multiple_of(GRANULE_BYTES);
        let addr = self.allocate(memory, size_bytes, ask.stream).or_else(|| {
            memory.synchronize();
            for (_, arena) in &mut self.arenas {
                arena
                    .take_all()
                    .into_iter()
                    .for_each(|superblock| self.global.insert_joined(superblock));
            }
            self.allocate(memory, size_bytes, ask.stream)
        })?;
        Some(Piece { id: 0, addr: Addr(addr), size_bytes })
    }

    fn free(&mut self, memory: &mut Memory, piece: Piece, stream: Stream, _now_ns: u64) {
        self.deallocate(Some(memory), piece.addr.0, piece.size_bytes, stream);
    }

    fn empty_cache(&mut self, _memory: &mut Memory) {}

    fn close(self, memory: &mut Memory) {
        match self.ground {
            Ground::Fixed { addr, size_bytes } => memory.give_back(addr, size_bytes),
            Ground::Open { addr, range_bytes, reached_bytes } => {
                memory.give_back_open(addr, range_bytes, reached_bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sim_device::{SimConfig, SimDevice};

    use super::*;
    use crate::model_settings::read;

    const MIB: u64 = 1 << 20;

    fn begin(text: &str) -> (RmmArena, Memory) {
        let settings = read("rmm-arena", text).unwrap();
        let device = SimDevice::new(SimConfig::with_capacity(64 * MIB));
        let mut memory = Memory::new(device).unwrap();
        (RmmArena::new(&settings, &mut memory, false).unwrap(), memory)
    }

    fn ask(size_bytes: u64, stream: u64) -> Ask {
        Ask { size_bytes, stream: Stream(stream), now_ns: 0 }
    }

    /// Blocks and their offsets in MiB (rounded down).
    fn place(arena: &mut RmmArena, memory: &mut Memory, ask: Ask) -> Option<(Piece, u64)> {
        let (Ground::Fixed { addr, .. } | Ground::Open { addr, .. }) = arena.ground;
        arena.malloc(memory, ask).map(|piece| (piece, (piece.addr.0 - addr.0) / MIB))
    }

    #[test]
    fn small_requests_share_their_streams_superblock_and_large_ones_have_their_own() {
        let (mut arena, mut memory) = begin("arena_size:16MiB");
        assert_eq!(memory.reserved_bytes(), 16 * MIB);
        let mut at = |size, stream| place(&mut arena, &mut memory, ask(size, stream)).unwrap().1;
        assert_eq!(at(1000, 0), 0);
        assert_eq!(at(1000, 1), 1, "another stream has another superblock");
        assert_eq!(at(3 * MIB, 0), 2);
        assert_eq!(at(1000, 0), 0);
        assert_eq!(at(MIB, 0), 5, "1 MiB is small, and the first superblock is used");
    }

    #[test]
    fn superblocks_of_streams_come_back_only_when_a_request_fails() {
        let (mut arena, mut memory) = begin("arena_size:4MiB");
        let small: Vec<_> = (0..4)
            .map(|stream| place(&mut arena, &mut memory, ask(9, stream)).unwrap().0)
            .collect();
        assert!(place(&mut arena, &mut memory, ask(2 * MIB, 0)).is_none());
        for (stream, piece) in small.into_iter().enumerate().take(2) {
            arena.free(&mut memory, piece, Stream(stream as u64), 0);
        }
        let (_, at) = place(&mut arena, &mut memory, ask(2 * MIB, 0)).unwrap();
        assert_eq!(at, 0, "two emptied superblocks, joined");
    }

    #[test]
    fn without_a_size_reserved_is_how_far_it_reached_and_memory_ends() {
        let (mut arena, mut memory) = begin("");
        assert_eq!(memory.reserved_bytes(), 0);
        let (first, _) = place(&mut arena, &mut memory, ask(30 * MIB, 0)).unwrap();
        place(&mut arena, &mut memory, ask(1, 0)).unwrap();
        assert_eq!(memory.reserved_bytes(), 30 * MIB + GRANULE_BYTES);
        assert!(place(&mut arena, &mut memory, ask(34 * MIB, 0)).is_none());
        arena.free(&mut memory, first, Stream(0), 0);
        assert_eq!(place(&mut arena, &mut memory, ask(29 * MIB, 0)).unwrap().1, 0);
        assert_eq!(memory.peak_reserved_bytes(), 30 * MIB + GRANULE_BYTES);
        assert_eq!(memory.calls(), (1, 0), "one cudaMalloc, whatever it was used for");
    }

    #[test]
    fn an_arena_as_far_as_it_reached_costs_what_one_of_that_size_does() {
        let cost = |text: &str| {
            let (mut arena, mut memory) = begin(text);
            let piece = place(&mut arena, &mut memory, ask(30 * MIB, 0)).unwrap().0;
            arena.free(&mut memory, piece, Stream(0), 0);
            arena.close(&mut memory);
            assert_eq!(memory.reserved_bytes(), 0);
            (memory.calls(), memory.counts().total(), memory.price_ns())
        };
        assert_eq!(cost(""), cost("arena_size:30MiB"));
    }

    #[test]
    fn impossible_settings_are_refused_with_a_remedy() {
        let device = SimDevice::new(SimConfig::with_capacity(8 * MIB));
        let settings = read("rmm-arena", "arena_size:9MiB").unwrap();
        let error =
            RmmArena::new(&settings, &mut Memory::new(device).unwrap(), false).err().unwrap();
        assert!(error.contains("arena_size"), "{error}");
        assert!(read::<ArenaSettings>("rmm-arena", "arena_size:1KiB").is_err());
    }
}
