//! Which block starts first in each slot of a run: how the block at an address is found.

use alloc::vec::Vec;

use crate::arena::BlockId;

/// The first block that starts in a slot, and how far from the slot's start.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    block: Option<BlockId>,
    offset: u32,
}

/// Slots in a word of the bitmap.
const WORD: usize = u64::BITS as usize;

/// The first start of each slot. A bitmap of two levels finds the next slot that has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Starts {
    slots: Vec<Start>,
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl Starts {
    pub(super) fn grow(&mut self, slots: usize) {
        self.slots.resize(slots, Start::default());
        self.words.resize(slots.div_ceil(WORD), 0);
        self.summary.resize(self.words.len().div_ceil(WORD), 0);
    }

    /// A block starts at this offset of a slot, or another one takes its start over.
    #[inline]
    pub(super) fn begin(&mut self, slot: usize, offset: u32, id: BlockId) {
        let start = &mut self.slots[slot];
        if start.block.is_none() {
            self.words[slot / WORD] |= 1 << (slot % WORD);
            self.summary[slot / WORD / WORD] |= 1 << (slot / WORD % WORD);
        } else if start.offset < offset {
            return;
        }
        *start = Start { block: Some(id), offset };
    }

    /// No block starts at this offset any more; the next that starts in the slot, if any, is given.
    #[inline]
    pub(super) fn end(&mut self, slot: usize, offset: u32, next: Option<(u32, BlockId)>) {
        let start = &mut self.slots[slot];
        if start.offset != offset || start.block.is_none() {
            return;
        }
        if let Some((offset, id)) = next {
            *start = Start { block: Some(id), offset };
            return;
        }
        *start = Start::default();
        let word = &mut self.words[slot / WORD];
        *word &= !(1 << (slot % WORD));
        if *word == 0 {
            self.summary[slot / WORD / WORD] &= !(1 << (slot / WORD % WORD));
        }
    }

    /// The first block that starts in a slot, with its offset.
    #[inline]
    pub(super) fn first_in(&self, slot: usize) -> Option<(u32, BlockId)> {
        let start = self.slots.get(slot)?;
        Some((start.offset, start.block?))
    }

    /// The first block that starts behind a slot.
    pub(super) fn first_after(&self, slot: usize) -> Option<BlockId> {
        let word = slot / WORD;
        let here = self.words.get(word)? & above(slot % WORD);
        if here != 0 {
            return self.first_of(word, here);
        }
        let mut at = word / WORD;
        let mut words = self.summary[at] & above(word % WORD);
        while words == 0 {
            at += 1;
            words = *self.summary.get(at)?;
        }
        let word = at * WORD + words.trailing_zeros() as usize;
        self.first_of(word, self.words[word])
    }

    fn first_of(&self, word: usize, bits: u64) -> Option<BlockId> {
        self.slots[word * WORD + bits.trailing_zeros() as usize].block
    }

    /// The first block that starts in the last slot before this one that has any.
    pub(super) fn last_before(&self, slot: usize) -> Option<BlockId> {
        self.slots[..slot.min(self.slots.len())].iter().rev().find_map(|start| start.block)
    }
}

/// The bits above one.
const fn above(bit: usize) -> u64 {
    if bit + 1 == WORD { 0 } else { u64::MAX << (bit + 1) }
}
