//! Which chunk of physical memory is at which address, and which devices may use it.
//!
//! A page table: which granules have memory, and what is mapped at those where a mapping starts.

use std::ops::Range;

use events::DeviceId;
use rustc_hash::FxHashMap;

use super::dense_map::DenseMap;
use device::PhysicalHandle;

/// A chunk at an address.
#[derive(Clone, Copy, Debug, Default)]
struct Mapping {
    handle: u64,
    /// The devices that may use it, as a number of [`DeviceSets`].
    access: u32,
}

/// Mappings of whole chunks; they never overlap. Addresses and sizes are whole granules unless said otherwise.
#[derive(Clone, Debug)]
pub(super) struct Mappings {
    granularity_bytes: u64,
    /// The granules that are mapped.
    mapped: DenseMap<()>,
    /// By the first granule.
    starts: DenseMap<Mapping>,
    sets: DeviceSets,
    /// The most granules that were mapped at once.
    peak_granules: usize,
}

impl Mappings {
    pub(super) fn new(granularity_bytes: u64) -> Self {
        let (mapped, starts) = (DenseMap::default(), DenseMap::default());
        let sets = DeviceSets::default();
        Self { granularity_bytes, mapped, starts, sets, peak_granules: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Maps a whole chunk where nothing is mapped; no device may use it yet.
    pub(super) fn insert(&mut self, start: u64, size_bytes: u64, handle: PhysicalHandle) {
        let granules = self.granules(start, size_bytes);
        self.starts.insert(granules.start, Mapping { handle: handle.0, access: 0 });
        self.mapped.insert_run(granules, ());
        self.peak_granules = self.peak_granules.max(self.mapped.len());
    }

    /// The most bytes of addresses that had memory at once.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak_granules as u64 * self.granularity_bytes
    }

    /// Unmaps a range of [whole](Self::is_whole) mappings. `unmapped` gets the start and the chunk of each.
    pub(super) fn remove(
        &mut self,
        start: u64,
        size_bytes: u64,
        mut unmapped: impl FnMut(u64, PhysicalHandle),
    ) {
        let granules = self.granules(start, size_bytes);
        self.mapped.remove_run(granules.clone(), |_, ()| ());
        self.starts.remove_run(granules, |granule, mapping| {
            unmapped(granule * self.granularity_bytes, PhysicalHandle(mapping.handle));
        });
    }

    /// Lets `device` use a range of [whole](Self::is_whole) mappings; returns how many they are.
    pub(super) fn grant(&mut self, start: u64, size_bytes: u64, device: DeviceId) -> u64 {
        let granules = self.granules(start, size_bytes);
        let sets = &mut self.sets;
        let mut count = 0;
        self.starts.change_run(granules, |mapping| {
            mapping.access = sets.with(mapping.access, device);
            count += 1;
        });
        count
    }

    /// Whether `device` may use the byte at `addr`, which may be any.
    pub(super) fn accessible(&self, addr: u64, device: DeviceId) -> bool {
        let granule = addr / self.granularity_bytes;
        let start =
            self.mapped.contains(granule).then(|| self.starts.last_up_to(granule)).flatten();
        let mapping = start.and_then(|start| self.starts.get(start));
        mapping.is_some_and(|mapping| self.sets.contains(mapping.access, device))
    }

    /// The chunk at the byte at `addr`, which may be any.
    pub(super) fn at(&self, addr: u64) -> Option<PhysicalHandle> {
        let granule = addr / self.granularity_bytes;
        let start =
            self.mapped.contains(granule).then(|| self.starts.last_up_to(granule)).flatten()?;
        self.starts.get(start).map(|mapping| PhysicalHandle(mapping.handle))
    }

    /// The start of the first mapping that touches the range.
    pub(super) fn first_in(&self, start: u64, size_bytes: u64) -> Option<u64> {
        let granule = self.mapped.first_in(self.granules(start, size_bytes))?;
        Some(self.starts.last_up_to(granule)? * self.granularity_bytes)
    }

    /// Whether mappings cover the range without a hole and without reaching out of it.
    pub(super) fn is_whole(&self, start: u64, size_bytes: u64) -> bool {
        let granules = self.granules(start, size_bytes);
        let ends_at = |granule| !self.mapped.contains(granule) || self.starts.contains(granule);
        self.starts.contains(granules.start)
            && ends_at(granules.end)
            && self.mapped.has_run(granules)
    }

    fn granules(&self, start: u64, size_bytes: u64) -> Range<u64> {
        start / self.granularity_bytes..(start + size_bytes) / self.granularity_bytes
    }
}

/// Sets of devices, each kept once and known by its number. There are few, however many mappings refer to them.
#[derive(Clone, Debug)]
struct DeviceSets {
    /// In the order of their numbers: the empty set first. Each is sorted.
    sets: Vec<Vec<DeviceId>>,
    /// The number of a set with one more device.
    with: FxHashMap<(u32, DeviceId), u32>,
}

impl Default for DeviceSets {
    fn default() -> Self {
        Self { sets: vec![Vec::new()], with: FxHashMap::default() }
    }
}

impl DeviceSets {
    fn contains(&self, set: u32, device: DeviceId) -> bool {
        self.sets[set as usize].contains(&device)
    }

    /// The set that also has `device`.
    fn with(&mut self, set: u32, device: DeviceId) -> u32 {
        let sets = &mut self.sets;
        *self.with.entry((set, device)).or_insert_with(|| {
            let mut more = sets[set as usize].clone();
            if let Err(at) = more.binary_search(&device) {
                more.insert(at, device);
            }
            let known = sets.iter().position(|known| *known == more);
            known.unwrap_or_else(|| {
                sets.push(more);
                sets.len() - 1
            }) as u32
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_devices_is_kept_once_whatever_the_order() {
        let mut sets = DeviceSets::default();
        let [one, two] = [1, 2].map(DeviceId);
        let first = sets.with(0, one);
        let both = sets.with(first, two);
        let second = sets.with(0, two);
        assert_eq!(sets.with(second, one), both);
        assert_eq!(sets.with(both, one), both);
        assert_eq!(sets.sets.len(), 4);
        assert!(sets.contains(both, one) && sets.contains(both, two));
        assert!(!sets.contains(first, two) && !sets.contains(0, one));
    }
}
