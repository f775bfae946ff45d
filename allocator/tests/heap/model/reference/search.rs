//! Sizes, neighbours and best fit.

use trace_format::{PoolId, Stream};

use super::{MIB, Reference, Want};

impl Reference {
    /// `round_size`, by trying.
    pub(super) fn round(&self, requested: u64) -> u64 {
        let mut interval = 0;
        while interval < 15 && requested >= 2 << (20 + interval) {
            interval += 1;
        }
        let divisions = self.config.roundup_power2_divisions[interval];
        if requested >= 512 && divisions > 1 && requested > 512 * divisions {
            let mut floor = 1;
            while floor * 2 <= requested {
                floor *= 2;
            }
            let step = floor / divisions;
            return (0..=divisions)
                .map(|n| floor + n * step)
                .find(|size| *size >= requested)
                .unwrap();
        }
        requested.div_ceil(512).max(1) * 512
    }

    pub(super) fn alloc_size(&self, size: u64) -> u64 {
        if size <= MIB {
            2 * MIB
        } else if size < 10 * MIB {
            self.config.large_segment_size_bytes
        } else {
            size.div_ceil(2 * MIB) * 2 * MIB
        }
    }

    pub(super) fn idle(&self, at: usize) -> bool {
        let block = &self.blocks[at];
        !block.allocated && block.uses.is_empty() && block.events == 0
    }

    pub(super) fn at(&self, addr: u64) -> usize {
        self.blocks.iter().position(|block| block.addr == addr).expect("a block")
    }

    pub(super) fn prev(&self, at: usize) -> Option<usize> {
        let me = &self.blocks[at];
        self.blocks.iter().position(|b| b.segment == me.segment && b.addr + b.size == me.addr)
    }

    pub(super) fn next(&self, at: usize) -> Option<usize> {
        let me = &self.blocks[at];
        self.blocks.iter().position(|b| b.segment == me.segment && b.addr == me.addr + me.size)
    }

    pub(super) fn split(&self, at: usize) -> bool {
        self.prev(at).is_some() || self.next(at).is_some()
    }

    /// The free blocks of a pool and stream, smallest first; of equal ones 2.11 prefers the lower address, 2.15 the
    /// older segment.
    pub(super) fn free_blocks(
        &self,
        pool: PoolId,
        small: bool,
        stream: Option<Stream>,
    ) -> Vec<usize> {
        let mut free: Vec<usize> = (0..self.blocks.len())
            .filter(|&at| {
                let block = &self.blocks[at];
                (block.pool, block.small) == (pool, small)
                    && block.mapped
                    && self.idle(at)
                    && stream.is_none_or(|stream| block.stream == stream)
            })
            .collect();
        free.sort_by_key(|&at| {
            let block = &self.blocks[at];
            let age = if self.is_2_11() { 0 } else { block.segment };
            (block.stream, block.size, age, block.addr)
        });
        free
    }

    /// `get_free_block`: the address of the chosen block.
    pub(super) fn free_block_for(&mut self, want: &Want) -> Option<u64> {
        if self.allowed.is_some() && self.config.garbage_collection_threshold > 0.0 {
            *self.searches.entry((want.pool, want.small)).or_default() += 1;
        }
        let mut fits = self.free_blocks(want.pool, want.small, Some(want.stream));
        fits.retain(|&at| self.blocks[at].size >= want.size);
        if !want.expandable {
            fits.retain(|&at| self.blocks[at].range.is_none());
        }
        let growable = |at: usize| {
            let next = self.next(at).filter(|&next| !self.blocks[next].mapped);
            self.blocks[at].size + next.map_or(0, |next| self.blocks[next].size)
        };
        let mut chosen = *fits.first()?;
        for &other in &fits[1..] {
            if self.blocks[chosen].range.is_none() || growable(other) >= growable(chosen) {
                break;
            }
            chosen = other;
        }
        let limit = self.config.max_split_size_bytes;
        let found = self.blocks[chosen].size;
        if want.size < limit && found >= limit {
            return None;
        }
        if want.size >= limit && found >= want.size + self.config.max_non_split_rounding_bytes {
            return None;
        }
        Some(self.blocks[chosen].addr)
    }
}
