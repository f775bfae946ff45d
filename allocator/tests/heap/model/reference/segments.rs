//! Segments: obtaining, collecting, releasing.

use device::{Device, DeviceError};
use trace_format::{Addr, PoolId};

use super::{Block, NO_LIMIT, Reference, Want};

impl Reference {
    /// `alloc_block`: the address of a free block that fits.
    pub(super) fn alloc_block(
        &mut self,
        want: &Want,
        retry: bool,
    ) -> Result<Option<u64>, DeviceError> {
        if retry {
            self.books.count("num_alloc_retries");
        }
        if self.allowed.is_some_and(|allowed| self.reserved() + want.alloc_size > allowed) {
            return Ok(None);
        }
        if want.expandable {
            return self.alloc_expandable(want);
        }
        let addr = match self.source_of(want.pool) {
            Some(source) => source.lock().allocate(want.alloc_size),
            None => match self.device.malloc(want.alloc_size) {
                Ok(addr) => Some(addr),
                Err(DeviceError::OutOfMemory { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        let Some(Addr(addr)) = addr else { return Ok(None) };
        self.segments += 1;
        self.blocks.push(Block {
            addr,
            size: want.alloc_size,
            requested: 0,
            stream: want.stream,
            pool: want.pool,
            small: want.small,
            segment: self.segments,
            range: None,
            allocated: false,
            mapped: true,
            uses: Vec::new(),
            captured_uses: Vec::new(),
            events: 0,
            born: 0,
        });
        self.books.increase("segment", want.small, 1);
        self.books.reserve(want.pool, want.small, want.alloc_size, true);
        if self.oversize(want.alloc_size) {
            self.books.increase_plain("oversize_segments", 1);
        }
        Ok(Some(addr))
    }

    pub(super) fn oversize(&self, size: u64) -> bool {
        let limit = self.config.max_split_size_bytes;
        limit != NO_LIMIT && size >= limit
    }

    /// `release_block` of a whole segment.
    fn release_block(&mut self, addr: u64) -> Result<(), DeviceError> {
        let at = self.at(addr);
        let Block { size, pool, small, .. } = self.blocks[at];
        match self.source_of(pool) {
            Some(source) => source.lock().free(Addr(addr))?,
            None => self.device.free(Addr(addr))?,
        }
        self.blocks.remove(at);
        self.books.decrease("segment", small, 1);
        self.books.reserve(pool, small, size, false);
        if self.oversize(size) {
            self.books.decrease_plain("oversize_segments", 1);
        }
        Ok(())
    }

    /// `garbage_collect_cached_blocks`.
    pub(super) fn collect_garbage(&mut self) -> Result<(), DeviceError> {
        let fraction = self.config.garbage_collection_threshold;
        let Some(allowed) = self.allowed.filter(|_| fraction > 0.0) else { return Ok(()) };
        let threshold = (fraction * allowed as f64) as u64;
        if self.reserved() <= threshold {
            return Ok(());
        }
        let target = self.reserved() - threshold;
        let searches = self.searches_of(PoolId::DEFAULT, false);
        let mut ages: Vec<(u64, u64, bool)> = self
            .free_blocks(PoolId::DEFAULT, false, None)
            .into_iter()
            .filter(|&at| !self.split(at))
            .map(|at| {
                let block = &self.blocks[at];
                (block.addr, searches - block.born, block.range.is_none())
            })
            .collect();
        let mut reclaimed = 0;
        loop {
            let sum: u64 = ages.iter().map(|(_, age, _)| age).sum();
            let average = sum as f64 / ages.len() as f64;
            let (old, young): (Vec<_>, Vec<_>) =
                ages.into_iter().partition(|(_, age, plain)| *plain && *age as f64 >= average);
            for (addr, ..) in &old {
                reclaimed += self.blocks[self.at(*addr)].size;
                self.release_block(*addr)?;
            }
            ages = young;
            if old.is_empty() || reclaimed >= target || ages.is_empty() {
                return Ok(());
            }
        }
    }

    /// `release_available_cached_blocks`.
    pub(super) fn release_available(&mut self, want: &Want) -> Result<bool, DeviceError> {
        let limit = self.config.max_split_size_bytes;
        if limit == NO_LIMIT {
            return Ok(false);
        }
        let needed = want.size.max(limit);
        let free = self.free_blocks(want.pool, want.small, Some(want.stream));
        // PyTorch would free a part of a segment too, and fail.
        let whole = |at: usize| self.blocks[at].range.is_none() && !self.split(at);
        let big = free.iter().copied().find(|&at| self.blocks[at].size >= needed);
        if let Some(at) = big.filter(|&at| whole(at)) {
            self.release_block(self.blocks[at].addr)?;
            return Ok(true);
        }
        let largest_first: Vec<u64> = free
            .into_iter()
            .rev()
            .filter(|&at| (limit..needed).contains(&self.blocks[at].size))
            .filter(|&at| whole(at))
            .map(|at| self.blocks[at].addr)
            .collect();
        let mut released = 0;
        for addr in largest_first {
            if released < needed {
                released += self.blocks[self.at(addr)].size;
                self.release_block(addr)?;
            }
        }
        Ok(released >= needed)
    }

    /// `emptyCache`.
    pub(crate) fn empty_cache(&mut self, pool: PoolId) -> Result<(), DeviceError> {
        if pool.is_default() && self.is_capturing() {
            return self.release_freeable(pool, None);
        }
        self.release_cached(pool, None)
    }

    /// `release_cached_blocks`. Where PyTorch would end the pool that is `asking`, and use it, it stays.
    pub(super) fn release_cached(
        &mut self,
        pool: PoolId,
        asking: Option<PoolId>,
    ) -> Result<(), DeviceError> {
        if pool.is_default() {
            self.synchronize_events(None)?;
            self.release_blocks(PoolId::DEFAULT, false)?;
            self.release_blocks(PoolId::DEFAULT, true)?;
        }
        self.release_freeable(pool, asking)
    }

    fn release_freeable(
        &mut self,
        pool: PoolId,
        asking: Option<PoolId>,
    ) -> Result<(), DeviceError> {
        let freeable: Vec<PoolId> =
            self.pools.iter().filter(|pool| pool.users == 0).map(|pool| pool.id).collect();
        for id in freeable {
            if !pool.is_default() {
                if id != pool {
                    continue;
                }
                if !self.is_capturing() {
                    self.synchronize_events(Some(id))?;
                }
            }
            self.release_blocks(id, true)?;
            self.release_blocks(id, false)?;
            if asking != Some(id) && !self.blocks.iter().any(|block| block.pool == id) {
                self.pools.retain(|pool| pool.id != id);
                self.use_on_oom.retain(|other| *other != id);
                self.no_split.retain(|other| *other != id);
            }
        }
        Ok(())
    }

    /// `release_blocks`.
    fn release_blocks(&mut self, pool: PoolId, small: bool) -> Result<(), DeviceError> {
        let free = self.free_blocks(pool, small, None);
        let whole: Vec<u64> = free
            .iter()
            .filter(|&&at| self.blocks[at].range.is_none() && !self.split(at))
            .map(|&at| self.blocks[at].addr)
            .collect();
        let pages: Vec<u64> = free
            .iter()
            .filter(|&&at| self.blocks[at].range.is_some())
            .map(|&at| self.blocks[at].addr)
            .collect();
        for addr in whole {
            self.release_block(addr)?;
        }
        for addr in pages {
            self.unmap_block(addr)?;
        }
        Ok(())
    }
}
