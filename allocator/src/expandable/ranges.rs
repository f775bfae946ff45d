//! The address ranges of a heap's expandable segments.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Range;
use crate::ids::RangeId;
use device::Device;

/// Ranges by id. Ids of ranges that ended are used again, the lowest first.
#[derive(Clone, Default)]
pub(crate) struct Ranges {
    slots: Vec<Option<Range>>,
    vacant: BTreeSet<usize>,
    /// Slots of ranges with memory that the device did not take back.
    leftovers: BTreeSet<usize>,
}

impl Ranges {
    pub(crate) fn insert(&mut self, range: Range) -> RangeId {
        let slot = self.vacant.pop_first().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(range);
        RangeId::new(slot)
    }

    /// Ends a range whose addresses were returned.
    pub(crate) fn remove(&mut self, id: RangeId) {
        assert!(self.slots[id.slot()].take().is_some(), "a range ends once");
        self.vacant.insert(id.slot());
    }

    /// A range, if the id has one.
    pub(crate) fn get(&self, id: RangeId) -> Option<&Range> {
        self.slots[id.slot()].as_ref()
    }

    /// A block's range.
    pub(crate) fn get_mut(&mut self, id: RangeId) -> &mut Range {
        self.slots[id.slot()].as_mut().expect("a block's range exists")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range> {
        self.slots.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Range> {
        self.slots.iter_mut().flatten()
    }

    /// Remembers a range where memory stays behind, for [`take_back`](Self::take_back).
    pub(crate) fn note_leftovers(&mut self, id: RangeId) {
        if self.get(id).is_some_and(Range::has_leftovers) {
            self.leftovers.insert(id.slot());
        }
    }

    /// Tries once more to return the memory of pages that an earlier failure left behind.
    pub(crate) fn take_back<D: Device>(&mut self, device: &mut D) {
        for slot in core::mem::take(&mut self.leftovers) {
            let Some(range) = &mut self.slots[slot] else { continue };
            range.take_back(device);
            self.note_leftovers(RangeId::new(slot));
        }
    }
}
