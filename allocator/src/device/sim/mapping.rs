//! Which chunk of physical memory is at which address, and who may use it.

use std::collections::BTreeMap;

use trace_format::DeviceId;

use crate::device::PhysicalHandle;

/// A chunk at an address.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    size_bytes: u64,
    handle: PhysicalHandle,
    access: Vec<DeviceId>,
}

impl Mapping {
    /// A whole chunk that nobody may use yet.
    pub(super) const fn new(size_bytes: u64, handle: PhysicalHandle) -> Self {
        Self { size_bytes, handle, access: Vec::new() }
    }
}

/// Mappings by the address where they start; they never overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Mappings {
    by_start: BTreeMap<u64, Mapping>,
}

impl Mappings {
    pub(super) fn len(&self) -> usize {
        self.by_start.len()
    }

    pub(super) fn insert(&mut self, start: u64, mapping: Mapping) {
        self.by_start.insert(start, mapping);
    }

    /// Removes the mapping that starts there; its chunk.
    pub(super) fn remove(&mut self, start: u64) -> Option<PhysicalHandle> {
        self.by_start.remove(&start).map(|mapping| mapping.handle)
    }

    /// Lets `device` use the mapping that starts there.
    pub(super) fn grant(&mut self, start: u64, device: DeviceId) {
        if let Some(mapping) = self.by_start.get_mut(&start)
            && !mapping.access.contains(&device)
        {
            mapping.access.push(device);
        }
    }

    /// Whether `device` may use the byte at `addr`.
    pub(super) fn accessible(&self, addr: u64, device: DeviceId) -> bool {
        let before = self.by_start.range(..=addr).next_back();
        before.is_some_and(|(&start, mapping)| {
            addr - start < mapping.size_bytes && mapping.access.contains(&device)
        })
    }

    /// The start of the first mapping that touches the range.
    pub(super) fn first_in(&self, start: u64, size_bytes: u64) -> Option<u64> {
        self.touching(start, size_bytes).next().map(|(&start, _)| start)
    }

    /// The starts of the mappings that cover the range without a hole and without reaching out of it.
    pub(super) fn whole(&self, start: u64, size_bytes: u64) -> Option<Vec<u64>> {
        let mut next = start;
        let mut starts = Vec::new();
        for (&start, mapping) in self.touching(start, size_bytes) {
            if start != next {
                return None;
            }
            starts.push(start);
            next += mapping.size_bytes;
        }
        (next == start + size_bytes).then_some(starts)
    }

    fn touching(&self, start: u64, size_bytes: u64) -> impl Iterator<Item = (&u64, &Mapping)> {
        let first = self.by_start.range(..=start).next_back();
        let first = first.filter(|(before, mapping)| *before + mapping.size_bytes > start);
        first.into_iter().chain(self.by_start.range(start + 1..start + size_bytes))
    }
}
