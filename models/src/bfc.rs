//! `bfc`: TensorFlow's and XLA's best fit with coalescing (`tsl::BFCAllocator`).
//!
//! Read in openxla/xla `xla/tsl/framework/bfc_allocator.{h,cc}` (commit 00df9eef), without its spatial partitioning,
//! and modelled function by function:
//!
//! - sizes are rounded up to 256 bytes (`kMinAllocationSize`, `RoundedBytes`);
//! - the smallest free chunk that fits is taken, of equals the lowest address (`FindTaggedChunkPtr`). The 21 bins hold
//!   ascending ranges of sizes, each in this order, so the search over them is one search in one order;
//! - a chunk is split where at least half of it, or 128 MiB, would be too much (`ShouldSplitChunk`);
//! - freed chunks join their free neighbours at once (`TryToCoalesce`), across splits but not across regions: the
//!   sub-allocator over `cudaMalloc` has `SupportsCoalescing() == false`;
//! - a miss adds a region: 2 MiB at first, twice as much each time, or the next doubling that fits; nine tenths of it
//!   again and again where the device refuses (`Extend`);
//! - where that fails too, all regions that are wholly free go back, and the region is asked for again
//!   (`DeallocateFreeRegions`, which TensorFlow switches on for GPUs).
//!
//! Different on purpose: `allow_growth` is on (`BFCAllocator::Options` has it on; TensorFlow's GPU device switches it
//! off and takes nearly the whole device, which says nothing about a run).
//!
//! Not seen: streams. TensorFlow and XLA order all work that shares memory themselves, so that a chunk freed on one
//! stream serves any other at once. Under PyTorch's streams that would be a race: `streams:separate` keeps a set of
//! regions for each stream, as PyTorch does. There is no call that empties its cache. A wait for memory
//! (`AllocatorRetry`, up to 10 s) is the one wait that every model makes.

use events::{Addr, Stream};
use sim_device::SimConfig;

use crate::chunks::{ChunkId, Chunks, List};
use crate::memory::Memory;
use crate::model::{Ask, Model, Piece};
use crate::model_settings::{Key, Settings, flag, fraction};

/// `BFCAllocator::kMinAllocationSize`.
const GRANULE_BYTES: u64 = 256;

/// `curr_region_allocation_bytes_` at the start, where growth is allowed.
const FIRST_REGION_BYTES: u64 = 2 << 20;

/// How much larger than the request an unsplit chunk may be, where no fraction is set.
const MAX_FRAGMENTATION_BYTES: u64 = 128 << 20;

/// All free chunks are in one list.
const FREE: List = List(0);

/// `BFCAllocator::Options`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BfcSettings {
    allow_growth: bool,
    garbage_collection: bool,
    fragmentation_fraction: f64,
    separate_streams: bool,
}

impl Default for BfcSettings {
    fn default() -> Self {
        Self {
            allow_growth: true,
            garbage_collection: true,
            fragmentation_fraction: 0.0,
            separate_streams: false,
        }
    }
}

impl Settings for BfcSettings {
    const KEYS: &'static [Key] = &[
        Key {
            name: "allow_growth",
            values: "True|False",
            what: "grow by regions (default), or take all memory at the start",
        },
        Key {
            name: "garbage_collection",
            values: "True|False",
            what: "return wholly free regions before running out (default), or keep them for ever",
        },
        Key {
            name: "fragmentation_fraction",
            values: "0..1",
            what: "largest unsplit excess as a part of all memory (default 0: 128 MiB)",
        },
        Key {
            name: "streams",
            values: "shared|separate",
            what: "one set of regions for all streams (default), or one for each",
        },
    ];

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "allow_growth" => self.allow_growth = flag(value)?,
            "garbage_collection" => self.garbage_collection = flag(value)?,
            "fragmentation_fraction" => self.fragmentation_fraction = fraction(value)?,
            _ => {
                self.separate_streams = match value {
                    "shared" => false,
                    "separate" => true,
                    _ => return Err(format!("`{value}` is neither shared nor separate")),
                }
            }
        }
        Ok(())
    }
}

/// The allocators of one pool: one, or one for each stream.
pub struct Bfc {
    settings: BfcSettings,
    begin_bytes: u64,
    max_fragmentation_bytes: u64,
    allocators: Vec<(Stream, Allocator)>,
}

/// One `BFCAllocator`.
#[derive(Default)]
struct Allocator {
    chunks: Chunks,
    /// First chunks of the regions, and their sizes, in order of address.
    next_region_bytes: u64,
}

impl Bfc {
    fn allocator(&mut self, stream: Stream) -> usize {
        let stream = if self.settings.separate_streams { stream } else { Stream(0) };
        let known = self.allocators.iter().position(|(of, _)| *of == stream);
        known.unwrap_or_else(|| {
            let next_region_bytes = self.begin_bytes;
            self.allocators.push((stream, Allocator { next_region_bytes, ..Allocator::default() }));
            self.allocators.len() - 1
        })
    }
}

impl Model for Bfc {
    const NAME: &'static str = "bfc";
    const WHAT: &'static str =
        "TensorFlow's best fit with coalescing: regions that double, freed when all of one is free";
    const GRANULE_BYTES: u64 = GRANULE_BYTES;
    type Settings = BfcSettings;

    fn new(settings: &BfcSettings, memory: &mut Memory, is_private: bool) -> Result<Self, String> {
        let all_at_once = !settings.allow_growth && !is_private;
        let fraction = settings.fragmentation_fraction;
        let is_by_capacity =
            all_at_once || fraction != 0.0 || !memory.is_at_least(FIRST_REGION_BYTES);
        // Without the number itself where nothing depends on it.
        let total_bytes = if is_by_capacity { memory.total_bytes() } else { FIRST_REGION_BYTES };
        if all_at_once && total_bytes >= SimConfig::UNLIMITED_CAPACITY_BYTES {
            return Err(
                "allow_growth:False takes all memory: say how much, with --capacity".to_owned()
            );
        }
        Ok(Self {
            settings: *settings,
            begin_bytes: if all_at_once {
                round(total_bytes)
            } else {
                FIRST_REGION_BYTES.min(round(total_bytes))
            },
            max_fragmentation_bytes: match fraction {
                0.0 => MAX_FRAGMENTATION_BYTES,
                _ => (fraction * total_bytes as f64) as u64,
            },
            allocators: Vec::new(),
        })
    }

    /// `AllocateRawInternal`.
    fn malloc(&mut self, memory: &mut Memory, ask: Ask) -> Option<Piece> {
        let at = self.allocator(ask.stream);
        let size_bytes = round(ask.size_bytes);
        let can_collect = self.settings.garbage_collection;
        let max_excess = self.max_fragmentation_bytes;
        let allocator = &mut self.allocators[at].1;
        if let Some(piece) = allocator.find(size_bytes, max_excess) {
            return Some(piece);
        }
        let mut has_grown = allocator.extend(memory, size_bytes);
        if !has_grown && can_collect && allocator.return_free_regions(memory, Some(size_bytes)) {
            has_grown = allocator.extend(memory, size_bytes);
        }
        if has_grown { allocator.find(size_bytes, max_excess) } else { None }
    }

    fn free(&mut self, _memory: &mut Memory, piece: Piece, stream: Stream, _now_ns: u64) {
        let at = self.allocator(stream);
        self.allocators[at].1.chunks.give(ChunkId::from(piece.id), FREE);
    }

    fn empty_cache(&mut self, _memory: &mut Memory) {}

    fn close(mut self, memory: &mut Memory) {
        for (_, allocator) in &mut self.allocators {
            allocator.return_free_regions(memory, None);
        }
    }
}

impl Allocator {
    /// `FindChunkPtr`.
    fn find(&mut self, size_bytes: u64, max_excess_bytes: u64) -> Option<Piece> {
        let id = self.chunks.best_fit(FREE, size_bytes)?;
        let (_, has_bytes) = self.chunks.place(id);
        let splits = has_bytes >= 2 * size_bytes || has_bytes - size_bytes >= max_excess_bytes;
        self.chunks.take(id, if splits { size_bytes } else { has_bytes });
        let (addr, size_bytes) = self.chunks.place(id);
        Some(Piece { id: id.into(), addr: Addr(addr), size_bytes })
    }

    /// `Extend`.
    fn extend(&mut self, memory: &mut Memory, size_bytes: u64) -> bool {
        if !memory.has_available(size_bytes) {
            return false;
        }
        let mut has_doubled = false;
        while size_bytes > self.next_region_bytes {
            self.next_region_bytes *= 2;
            has_doubled = true;
        }
        let mut bytes = self.next_region_bytes;
        if !memory.has_available(bytes) {
            bytes = memory.available_bytes() / GRANULE_BYTES * GRANULE_BYTES;
        }
        let addr = loop {
            if let Some(addr) = memory.obtain(bytes) {
                break addr;
            }
            // `kBackpedalFactor` is a float, and so is its product with a size.
            bytes = round((bytes as f32 * 0.9) as u64).min(bytes - GRANULE_BYTES);
            if bytes < size_bytes {
                return false;
            }
        };
        if !has_doubled {
            self.next_region_bytes = self.next_region_bytes.saturating_mul(2);
        }
        self.chunks.add_region(addr.0, bytes, FREE);
        true
    }

    /// `DeallocateFreeRegions`, if that could make room for `wanted_bytes`: true if any went.
    fn return_free_regions(&mut self, memory: &mut Memory, wanted_bytes: Option<u64>) -> bool {
        let chunks = &self.chunks;
        let whole: Vec<_> = chunks.free_in(FREE).filter(|id| chunks.is_whole_region(*id)).collect();
        let free_bytes: u64 = whole.iter().map(|id| chunks.place(*id).1).sum();
        let is_enough = |wanted: u64| memory.has_available(wanted.saturating_sub(free_bytes));
        if !wanted_bytes.is_none_or(is_enough) {
            return false;
        }
        for id in &whole {
            let (addr, size_bytes) = self.chunks.remove_region(*id);
            memory.give_back(Addr(addr), size_bytes);
        }
        !whole.is_empty()
    }
}

/// `RoundedBytes`.
fn round(size_bytes: u64) -> u64 {
    size_bytes.next_multiple_of(GRANULE_BYTES)
}

#[cfg(test)]
mod tests {
    use sim_device::{SimConfig, SimDevice};

    use super::*;

    const MIB: u64 = 1 << 20;
    const STREAM: Stream = Stream(0);

    fn begin(settings: BfcSettings, capacity_bytes: u64) -> (Bfc, Memory) {
        let mut memory =
            Memory::new(SimDevice::new(SimConfig::with_capacity(capacity_bytes))).unwrap();
        (Bfc::new(&settings, &mut memory, false).unwrap(), memory)
    }

    fn ask(size_bytes: u64) -> Ask {
        Ask { size_bytes, stream: STREAM, now_ns: 0 }
    }

    #[test]
    fn regions_double_and_skip_to_what_fits() {
        let (mut bfc, mut memory) = begin(BfcSettings::default(), 1 << 30);
        bfc.malloc(&mut memory, ask(1)).unwrap();
        assert_eq!(memory.reserved_bytes(), 2 * MIB);
        bfc.malloc(&mut memory, ask(3 * MIB)).unwrap(); // The next is 4 MiB.
        assert_eq!(memory.reserved_bytes(), 6 * MIB);
        bfc.malloc(&mut memory, ask(20 * MIB)).unwrap(); // 8 and 16 do not fit: 32, and the next is no larger.
        assert_eq!(memory.reserved_bytes(), 38 * MIB);
        bfc.malloc(&mut memory, ask(25 * MIB)).unwrap();
        assert_eq!(memory.reserved_bytes(), 70 * MIB);
    }

    #[test]
    fn a_chunk_is_split_where_half_of_it_or_128_mib_would_be_too_much() {
        let (mut bfc, mut memory) = begin(BfcSettings::default(), 4 << 30);
        let size = |bfc: &mut Bfc, memory: &mut Memory, bytes| {
            let piece = bfc.malloc(memory, ask(bytes)).unwrap();
            bfc.free(memory, piece, STREAM, 0);
            piece.size_bytes
        };
        assert_eq!(size(&mut bfc, &mut memory, 512 * MIB), 512 * MIB);
        assert_eq!(size(&mut bfc, &mut memory, 256 * MIB), 256 * MIB);
        assert_eq!(size(&mut bfc, &mut memory, 384 * MIB), 384 * MIB);
        assert_eq!(size(&mut bfc, &mut memory, 385 * MIB), 512 * MIB);
        assert_eq!(size(&mut bfc, &mut memory, 1), 256);
    }

    #[test]
    fn free_regions_go_back_where_that_makes_room_and_stay_where_it_is_off() {
        for garbage_collection in [true, false] {
            let settings = BfcSettings { garbage_collection, ..BfcSettings::default() };
            let (mut bfc, mut memory) = begin(settings, 64 * MIB);
            let first = bfc.malloc(&mut memory, ask(30 * MIB)).unwrap();
            bfc.free(&mut memory, first, STREAM, 0);
            let second = bfc.malloc(&mut memory, ask(60 * MIB));
            assert_eq!(second.is_some(), garbage_collection);
            assert_eq!(memory.calls(), if garbage_collection { (2, 1) } else { (1, 0) });
        }
    }

    #[test]
    fn a_region_is_a_tenth_smaller_each_time_the_device_refuses() {
        let (mut bfc, mut memory) = begin(BfcSettings::default(), 100 * MIB);
        memory.obtain(MIB).unwrap(); // Counts as 2 MiB for the device.
        bfc.malloc(&mut memory, ask(65 * MIB)).unwrap();
        let region_bytes = memory.reserved_bytes() - MIB;
        assert_eq!(region_bytes.next_multiple_of(MIB), 90 * MIB);
    }

    #[test]
    fn streams_share_chunks_or_have_their_own() {
        for (text, regions) in [("", 1), ("streams:separate", 2)] {
            let settings: BfcSettings = crate::model_settings::read("bfc", text).unwrap();
            let (mut bfc, mut memory) = begin(settings, 1 << 30);
            let first = bfc.malloc(&mut memory, ask(MIB)).unwrap();
            bfc.free(&mut memory, first, STREAM, 0);
            bfc.malloc(&mut memory, Ask { stream: Stream(7), ..ask(2 * MIB) }).unwrap();
            assert_eq!(memory.calls().0, regions, "{text}");
        }
    }

    #[test]
    fn all_memory_at_once_needs_a_capacity() {
        let settings = BfcSettings { allow_growth: false, ..BfcSettings::default() };
        let (mut bfc, mut memory) = begin(settings, 256 * MIB);
        bfc.malloc(&mut memory, ask(1)).unwrap();
        assert_eq!(memory.reserved_bytes(), 256 * MIB);
        let device = SimDevice::new(SimConfig {
            length_bytes: 1 << 60,
            ..SimConfig::with_capacity(SimConfig::UNLIMITED_CAPACITY_BYTES)
        });
        let error = Bfc::new(&settings, &mut Memory::new(device).unwrap(), false).err().unwrap();
        assert!(error.contains("--capacity"), "{error}");
    }
}
