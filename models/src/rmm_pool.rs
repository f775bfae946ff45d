//! `rmm-pool`: RAPIDS' `rmm::mr::pool_memory_resource`, a coalescing best fit with a list for each stream.
//!
//! Read in rapidsai/rmm 26.08 (commit 5d50a37), and modelled function by function:
//!
//! - sizes are rounded up to 256 bytes (`CUDA_ALLOCATION_ALIGNMENT`), and a block is always cut to the request
//!   (`pool_memory_resource_impl::allocate_from_block`);
//! - each stream has a list of what was freed on it; free neighbours of one list and one upstream block join
//!   (`coalescing_free_list::insert`, `block::is_contiguous_before`), and the smallest that fits serves, of equals the
//!   lowest (`get_block`);
//! - where a stream's own list has nothing: another stream's block that fits, whose rest stays with that stream; then
//!   one list after the other is merged into the own one until something fits
//!   (`stream_ordered_memory_resource::get_block`, `get_block_from_other_stream`);
//! - else the pool grows: by as much as it has, or half of what it may still have, and at least by the request; half
//!   of that again and again where the device refuses (`size_to_grow`, `try_to_expand`). Upstream is `cudaMalloc`;
//! - it never returns memory before its end.
//!
//! An event is recorded at each free (`deallocate`), and priced. A wait for another stream's event has no price.
//!
//! Assumed: other streams are asked in the order in which they first came; RMM asks in the order of their events'
//! addresses.
//!
//! Different on purpose: the pool begins empty. RMM's C++ interface wants an initial size, its Python package takes
//! half of the free memory, and neither says anything about a run: set `initial_pool_size` for it. `empty_cache`: there
//! is no such call. A private pool is a second resource, which begins empty; a maximum is one for each.

use std::collections::BTreeMap;

use events::{Addr, Stream};

use crate::chunks::{ChunkId, Chunks, List};
use crate::memory::Memory;
use crate::model::{Ask, Model, Piece};
use crate::model_settings::{Key, Settings, size};

/// `rmm::CUDA_ALLOCATION_ALIGNMENT`.
const GRANULE_BYTES: u64 = 256;

/// The parameters of `pool_memory_resource`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolSettings {
    initial_bytes: u64,
    maximum_bytes: Option<u64>,
}

impl Settings for PoolSettings {
    const KEYS: &'static [Key] = &[
        Key {
            name: "initial_pool_size",
            values: "SIZE",
            what: "memory to begin with, a multiple of 256 bytes (default 0)",
        },
        Key {
            name: "maximum_pool_size",
            values: "SIZE",
            what: "the most it may hold, a multiple of 256 bytes; it grows by half of the rest (default: no limit)",
        },
    ];

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let bytes = size(value)?;
        if !bytes.is_multiple_of(GRANULE_BYTES) {
            return Err(format!("`{value}` is not a multiple of {GRANULE_BYTES} bytes"));
        }
        match key {
            "initial_pool_size" => self.initial_bytes = bytes,
            _ => self.maximum_bytes = Some(bytes),
        }
        if self.initial_bytes > self.maximum_bytes.unwrap_or(u64::MAX) {
            return Err("the initial size is more than the maximum".to_owned());
        }
        Ok(())
    }
}

/// A `pool_memory_resource`.
pub struct RmmPool {
    maximum_bytes: Option<u64>,
    pool_bytes: u64,
    chunks: Chunks,
    /// The streams, each with the list of its place.
    streams: BTreeMap<Stream, u32>,
}

impl RmmPool {
    fn list(&mut self, stream: Stream) -> List {
        let next = self.streams.len() as u32;
        let at = *self.streams.entry(stream).or_insert(next);
        List(at)
    }

    fn others(&self, own: List) -> impl Iterator<Item = List> + use<> {
        (0..self.streams.len() as u32).map(List).filter(move |list| *list != own)
    }

    /// `get_block`.
    fn find(&mut self, size_bytes: u64, own: List) -> Option<ChunkId> {
        if let Some(id) = self.chunks.best_fit(own, size_bytes) {
            return Some(id);
        }
        let mut taken =
            self.others(own).filter_map(|other| self.chunks.best_fit(other, size_bytes));
        if let Some(id) = taken.next() {
            return Some(id);
        }
        for other in self.others(own) {
            self.chunks.move_all(other, own);
            if let Some(id) = self.chunks.best_fit(own, size_bytes) {
                return Some(id);
            }
        }
        None
    }

    /// `size_to_grow`.
    fn growth_bytes(&self, size_bytes: u64) -> u64 {
        let Some(maximum_bytes) = self.maximum_bytes else {
            return size_bytes.max(self.pool_bytes);
        };
        let rest_bytes = (maximum_bytes - self.pool_bytes).next_multiple_of(GRANULE_BYTES);
        if size_bytes <= rest_bytes { size_bytes.max(rest_bytes / 2) } else { 0 }
    }

    /// `try_to_expand`.
    fn expand(
        &mut self,
        memory: &mut Memory,
        mut try_bytes: u64,
        min_bytes: u64,
        list: List,
    ) -> Option<ChunkId> {
        while try_bytes >= min_bytes {
            if let Some(addr) = memory.obtain(try_bytes) {
                self.pool_bytes += try_bytes;
                return Some(self.chunks.add_region(addr.0, try_bytes, list));
            }
            if try_bytes == min_bytes {
                return None;
            }
            try_bytes = min_bytes.max(try_bytes / 2);
        }
        None
    }
}

impl Model for RmmPool {
    const NAME: &'static str = "rmm-pool";
    const WHAT: &'static str =
        "RAPIDS' pool_memory_resource: best fit, lists by stream, a pool that doubles";
    const GRANULE_BYTES: u64 = GRANULE_BYTES;
    type Settings = PoolSettings;

    fn new(settings: &PoolSettings, memory: &mut Memory, is_private: bool) -> Result<Self, String> {
        let maximum_bytes = settings.maximum_bytes;
        let mut pool = Self {
            maximum_bytes,
            pool_bytes: 0,
            chunks: Chunks::default(),
            streams: BTreeMap::new(),
        };
        let initial_bytes = settings.initial_bytes;
        if initial_bytes > 0 && !is_private {
            let list = pool.list(Stream(0));
            if pool.expand(memory, initial_bytes, initial_bytes, list).is_none() {
                let reason =
                    "the device has no room for initial_pool_size; lower it, or raise --capacity";
                return Err(reason.to_owned());
            }
        }
        Ok(pool)
    }

    fn malloc(&mut self, memory: &mut Memory, ask: Ask) -> Option<Piece> {
        let size_bytes = ask.size_bytes.next_multiple_of(GRANULE_BYTES);
        let own = self.list(ask.stream);
        let id = match self.find(size_bytes, own) {
            Some(id) => id,
            None => self.expand(memory, self.growth_bytes(size_bytes), size_bytes, own)?,
        };
        self.chunks.take(id, size_bytes);
        let (addr, size_bytes) = self.chunks.place(id);
        Some(Piece { id: id.into(), addr: Addr(addr), size_bytes })
    }

    fn free(&mut self, memory: &mut Memory, piece: Piece, stream: Stream, _now_ns: u64) {
        memory.record_event(stream);
        let list = self.list(stream);
        self.chunks.give(ChunkId::from(piece.id), list);
    }

    fn empty_cache(&mut self, _memory: &mut Memory) {}

    /// `release`.
    fn close(mut self, memory: &mut Memory) {
        let all = self.list(Stream(0));
        for other in self.others(all) {
            self.chunks.move_all(other, all);
        }
        while let Some(id) = self.chunks.best_fit(all, 0) {
            let (addr, size_bytes) = self.chunks.remove_region(id);
            memory.give_back(Addr(addr), size_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use device::DeviceCall;
    use sim_device::{SimConfig, SimDevice};

    use super::*;
    use crate::model_settings::read;

    const MIB: u64 = 1 << 20;

    fn begin(text: &str, capacity_bytes: u64) -> (RmmPool, Memory) {
        let settings = read("rmm-pool", text).unwrap();
        let device = SimDevice::new(SimConfig::with_capacity(capacity_bytes));
        let mut memory = Memory::new(device).unwrap();
        (RmmPool::new(&settings, &mut memory, false).unwrap(), memory)
    }

    fn ask(size_bytes: u64, stream: u64) -> Ask {
        Ask { size_bytes, stream: Stream(stream), now_ns: 0 }
    }

    #[test]
    fn the_pool_doubles_or_grows_by_half_of_what_it_may_have() {
        let (mut pool, mut memory) = begin("", 1 << 30);
        for (size, reserved) in [(10, 10), (1, 20), (11, 40), (60, 100)] {
            pool.malloc(&mut memory, ask(size * MIB, 0)).unwrap();
            assert_eq!(memory.reserved_bytes(), reserved * MIB);
        }
        let (mut pool, mut memory) =
            begin("initial_pool_size:16MiB,maximum_pool_size:116MiB", 1 << 30);
        pool.malloc(&mut memory, ask(20 * MIB, 0)).unwrap();
        assert_eq!(memory.reserved_bytes(), 66 * MIB);
        assert!(pool.malloc(&mut memory, ask(51 * MIB, 0)).is_none());
    }

    #[test]
    fn where_the_device_refuses_it_asks_for_half_down_to_the_request() {
        let (mut pool, mut memory) = begin("", 100 * MIB);
        pool.malloc(&mut memory, ask(60 * MIB, 0)).unwrap();
        pool.malloc(&mut memory, ask(10 * MIB, 0)).unwrap();
        assert_eq!(memory.reserved_bytes(), 90 * MIB, "60 are refused, 30 are not");
        assert!(pool.malloc(&mut memory, ask(21 * MIB, 0)).is_none());
    }

    #[test]
    fn another_streams_block_serves_before_lists_merge_and_before_the_pool_grows() {
        let (mut pool, mut memory) = begin("initial_pool_size:8MiB", 1 << 30);
        let pieces: Vec<_> =
            (0..8).map(|at| pool.malloc(&mut memory, ask(MIB, at / 4)).unwrap()).collect();
        // Each stream has two free neighbours at the border between their blocks.
        for (at, piece) in pieces.iter().enumerate().skip(2).take(4) {
            pool.free(&mut memory, *piece, Stream(at as u64 / 4), 0);
        }
        let piece = pool.malloc(&mut memory, ask(2 * MIB, 7)).unwrap();
        assert_eq!(piece.addr, pieces[2].addr, "the first stream's");
        pool.free(&mut memory, piece, Stream(0), 0);
        let piece = pool.malloc(&mut memory, ask(4 * MIB, 7)).unwrap();
        assert_eq!(piece.addr, pieces[2].addr, "both together");
        assert_eq!(memory.reserved_bytes(), 8 * MIB);
        assert_eq!(memory.counts().of(DeviceCall::EventRecord), 5);
    }

    #[test]
    fn impossible_settings_are_refused_with_a_remedy() {
        let device = SimDevice::new(SimConfig::with_capacity(8 * MIB));
        let settings = read("rmm-pool", "initial_pool_size:9MiB").unwrap();
        let error =
            RmmPool::new(&settings, &mut Memory::new(device).unwrap(), false).err().unwrap();
        assert!(error.contains("initial_pool_size"), "{error}");
        for text in ["initial_pool_size:100", "maximum_pool_size:1MiB,initial_pool_size:2MiB"] {
            assert!(read::<PoolSettings>("rmm-pool", text).is_err(), "{text}");
        }
    }
}
