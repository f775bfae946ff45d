//! Which chunk of physical memory is at which address, and which devices may use it.
//!
//! A page table: one entry for each granule that is mapped.

use std::ops::Range;

use rustc_hash::FxHashMap;
use trace_format::DeviceId;

use super::dense_map::DenseMap;
use crate::device::PhysicalHandle;

/// A granule with memory.
#[derive(Clone, Copy, Debug, Default)]
struct Granule {
    handle: u64,
    /// The devices that may use it, as a number of [`DeviceSets`].
    access: u32,
    /// Whether its mapping starts here, else one granule before or more.
    is_start: bool,
}

/// Mappings of whole chunks; they never overlap. Addresses and sizes are whole granules unless said otherwise.
#[derive(Clone, Debug)]
pub(super) struct Mappings {
    granularity_bytes: u64,
    granules: DenseMap<Granule>,
    mapping_count: usize,
    sets: DeviceSets,
}

impl Mappings {
    pub(super) fn new(granularity_bytes: u64) -> Self {
        let (granules, sets) = (DenseMap::default(), DeviceSets::default());
        Self { granularity_bytes, granules, mapping_count: 0, sets }
    }

    pub(super) fn len(&self) -> usize {
        self.mapping_count
    }

    /// Maps a whole chunk where nothing is mapped; no device may use it yet.
    pub(super) fn insert(&mut self, start: u64, size_bytes: u64, handle: PhysicalHandle) {
        let numbers = self.numbers(start, size_bytes);
        for number in numbers.clone() {
            let is_start = number == numbers.start;
            self.granules.insert(number, Granule { handle: handle.0, access: 0, is_start });
        }
        self.mapping_count += 1;
    }

    /// Unmaps a range of [whole](Self::is_whole) mappings. `unmapped` gets the start and the chunk of each.
    pub(super) fn remove(
        &mut self,
        start: u64,
        size_bytes: u64,
        mut unmapped: impl FnMut(u64, PhysicalHandle),
    ) {
        for number in self.numbers(start, size_bytes) {
            if let Some(granule) = self.granules.remove(number)
                && granule.is_start
            {
                self.mapping_count -= 1;
                unmapped(number * self.granularity_bytes, PhysicalHandle(granule.handle));
            }
        }
    }

    /// Lets `device` use a range of [whole](Self::is_whole) mappings.
    pub(super) fn grant(&mut self, start: u64, size_bytes: u64, device: DeviceId) {
        for number in self.numbers(start, size_bytes) {
            if let Some(granule) = self.granules.get_mut(number) {
                granule.access = self.sets.with(granule.access, device);
            }
        }
    }

    /// Whether `device` may use the byte at `addr`, which may be any.
    pub(super) fn accessible(&self, addr: u64, device: DeviceId) -> bool {
        let granule = self.granules.get(addr / self.granularity_bytes);
        granule.is_some_and(|granule| self.sets.contains(granule.access, device))
    }

    /// The start of the first mapping that touches the range.
    pub(super) fn first_in(&self, start: u64, size_bytes: u64) -> Option<u64> {
        let mut number = self.granules.first_in(self.numbers(start, size_bytes))?;
        while self.granules.get(number).is_some_and(|granule| !granule.is_start) {
            number -= 1;
        }
        Some(number * self.granularity_bytes)
    }

    /// Whether mappings cover the range without a hole and without reaching out of it.
    pub(super) fn is_whole(&self, start: u64, size_bytes: u64) -> bool {
        let mut numbers = self.numbers(start, size_bytes);
        let starts_at = |number| self.granules.get(number).map(|granule| granule.is_start);
        starts_at(numbers.start) == Some(true)
            && starts_at(numbers.end) != Some(false)
            && numbers.all(|number| self.granules.contains(number))
    }

    fn numbers(&self, start: u64, size_bytes: u64) -> Range<u64> {
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
