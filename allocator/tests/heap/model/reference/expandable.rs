//! Expandable segments: ranges of pages, mapped where a block needs them.

use device::{Device, DeviceError, HandleType};
use trace_format::{Addr, DeviceId};

use super::{Block, MIB, Range, Reference, Want};

impl Reference {
    /// `try_allocate_expandable_block`.
    pub(super) fn alloc_expandable(&mut self, want: &Want) -> Result<Option<u64>, DeviceError> {
        let Some(mut addr) = self.find_expandable(want)? else { return Ok(None) };
        loop {
            let at = self.at(addr);
            let (size, mapped) = (self.blocks[at].size, self.blocks[at].mapped);
            if mapped && size >= want.size {
                return Ok(Some(addr));
            }
            let (piece, missing) = if mapped {
                (self.next(at).expect("room"), want.size - size)
            } else {
                (at, want.size)
            };
            let amount = missing.min(self.blocks[piece].size);
            let begin = self.blocks[piece].addr;
            if !self.map_block(begin, amount)? {
                return Ok(None);
            }
            // What was mapped has merged with the free block before it.
            let covering = |b: &&Block| b.addr <= begin && begin < b.addr + b.size;
            addr = self.blocks.iter().find(covering).expect("mapped").addr;
        }
    }

    fn find_expandable(&mut self, want: &Want) -> Result<Option<u64>, DeviceError> {
        let mut unmapped: Vec<usize> = (0..self.blocks.len())
            .filter(|&at| {
                let b = &self.blocks[at];
                !b.mapped && (b.stream, b.pool, b.small) == (want.stream, want.pool, want.small)
            })
            .collect();
        unmapped.sort_by_key(|&at| self.blocks[at].addr);
        for at in unmapped {
            let start = self.prev(at).filter(|&prev| self.idle(prev)).unwrap_or(at);
            let mut room = 0;
            let mut here = Some(start);
            while let Some(at) = here.filter(|&at| room < want.size && self.idle(at)) {
                room += self.blocks[at].size;
                here = self.next(at);
            }
            if room >= want.size {
                return Ok(Some(self.blocks[start].addr));
            }
        }
        let page = if want.small { 2 * MIB } else { self.config.large_segment_size_bytes };
        let pages = (self.total + self.total / 8).div_ceil(page);
        if want.size > pages * page {
            return Ok(None);
        }
        let base = match self.device.reserve(pages * page) {
            Ok(base) => base.0,
            Err(DeviceError::OutOfMemory { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let handles = vec![None; pages as usize];
        self.ranges.push(Some(Range { base, page, stream: want.stream, handles }));
        self.segments += 1;
        self.blocks.push(Block {
            addr: base,
            size: pages * page,
            requested: 0,
            stream: want.stream,
            pool: want.pool,
            small: want.small,
            segment: self.segments,
            range: Some(self.ranges.len() - 1),
            allocated: false,
            mapped: false,
            uses: Vec::new(),
            captured_uses: Vec::new(),
            events: 0,
            born: 0,
        });
        Ok(Some(base))
    }

    /// `map_block`: the front of an unmapped block, whole pages.
    fn map_block(&mut self, addr: u64, amount: u64) -> Result<bool, DeviceError> {
        let at = self.at(addr);
        let block = self.blocks[at].clone();
        let range = self.ranges[block.range.expect("expandable")].as_mut().expect("a range");
        let first = ((addr - range.base) / range.page) as usize;
        let count = amount.div_ceil(range.page) as usize;
        let size = count as u64 * range.page;
        let mut created = Vec::new();
        for _ in 0..count {
            match self.device.create(range.page, HandleType::PosixFd) {
                Ok(handle) => created.push(handle),
                Err(DeviceError::OutOfMemory { .. }) => {
                    for handle in created {
                        self.device.release(handle)?;
                    }
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        for (n, handle) in created.into_iter().enumerate() {
            self.device.map(Addr(addr + n as u64 * range.page), range.page, handle)?;
            range.handles[first + n] = Some(handle);
        }
        let owner = self.device.id();
        for reader in std::iter::once(owner).chain(self.peers.clone()) {
            self.device.set_access(Addr(addr), size, reader)?;
        }
        if block.size > size {
            self.blocks.push(Block {
                addr: addr + size,
                size: block.size - size,
                requested: 0,
                ..block.clone()
            });
        }
        self.blocks[at].size = size;
        self.blocks[at].mapped = true;
        self.become_free(at);
        self.books.reserve(block.pool, block.small, size, true);
        Ok(true)
    }

    /// `unmap_block`: the whole pages inside a free block, then the segment if nothing is left of it.
    pub(super) fn unmap_block(&mut self, addr: u64) -> Result<(), DeviceError> {
        let at = self.at(addr);
        let block = self.blocks[at].clone();
        let number = block.range.expect("expandable");
        let range = self.ranges[number].as_mut().expect("a range");
        let begin = (addr - range.base).div_ceil(range.page) * range.page + range.base;
        let end = (addr + block.size - range.base) / range.page * range.page + range.base;
        if begin >= end {
            return Ok(());
        }
        self.device.stream_synchronize(range.stream)?;
        for page in (begin..end).step_by(range.page as usize) {
            self.device.unmap(Addr(page), range.page)?;
            let handle = range.handles[((page - range.base) / range.page) as usize].take();
            self.device.release(handle.expect("mapped"))?;
        }
        let born = self.searches_of(block.pool, block.small);
        let rest = Block { requested: 0, born, ..block.clone() };
        if begin > addr {
            self.blocks.push(Block { size: begin - addr, ..rest.clone() });
        }
        if end < addr + block.size {
            self.blocks.push(Block { addr: end, size: addr + block.size - end, ..rest });
        }
        self.blocks[at].addr = begin;
        self.blocks[at].size = end - begin;
        self.blocks[at].mapped = false;
        self.become_free(at);
        self.books.reserve(block.pool, block.small, end - begin, false);
        self.drop_range_if_empty(number)
    }

    fn drop_range_if_empty(&mut self, number: usize) -> Result<(), DeviceError> {
        let parts: Vec<usize> =
            (0..self.blocks.len()).filter(|&at| self.blocks[at].range == Some(number)).collect();
        if let [only] = parts[..]
            && !self.blocks[only].mapped
        {
            let range = self.ranges[number].take().expect("a range");
            self.device.unreserve(Addr(range.base), self.blocks[only].size)?;
            self.blocks.remove(only);
        }
        Ok(())
    }

    pub(super) fn give_up_empty_ranges(&mut self) -> Result<(), DeviceError> {
        (0..self.ranges.len()).try_for_each(|number| self.drop_range_if_empty(number))
    }

    pub(crate) fn add_peer(&mut self, peer: DeviceId) -> Result<(), DeviceError> {
        if self.peers.contains(&peer) {
            return Ok(());
        }
        for range in self.ranges.iter().flatten() {
            for (n, handle) in range.handles.iter().enumerate() {
                if handle.is_some() {
                    let addr = Addr(range.base + n as u64 * range.page);
                    self.device.set_access(addr, range.page, peer)?;
                }
            }
        }
        self.peers.push(peer);
        Ok(())
    }
}
