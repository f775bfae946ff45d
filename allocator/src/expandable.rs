//! An expandable segment's address range: reserved once, its pages mapped and unmapped as the pool needs them.
//!
//! Source: `ExpandableSegment` in `c10/cuda/CUDACachingAllocator.cpp`. Every operation either does all of what it
//! says, or undoes its part and reports why; a page is never half mapped.

use trace_format::{Addr, DeviceId, Stream};

use crate::device::{Device, DeviceError, HandleType, PhysicalHandle};

/// A range's place in the heap's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RangeId(pub(crate) u32);

/// Reserved addresses, some of them backed by memory.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) addr: Addr,
    pub(crate) page_bytes: u64,
    stream: Stream,
    /// Physical memory per page; `None` is unmapped.
    pages: Vec<Option<PhysicalHandle>>,
}

/// Whole pages that were mapped or unmapped; empty if none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) addr: Addr,
    pub(crate) size_bytes: u64,
}

impl Range {
    /// Reserves 9/8 of the device's memory in addresses, so that one segment can hold all of it and still move.
    pub(crate) fn reserve<D: Device>(
        device: &mut D,
        stream: Stream,
        page_bytes: u64,
        device_total_bytes: u64,
    ) -> Result<Self, DeviceError> {
        let pages = (device_total_bytes + device_total_bytes / 8).div_ceil(page_bytes);
        let addr = device.reserve(pages * page_bytes)?;
        Ok(Self { addr, page_bytes, stream, pages: vec![None; pages as usize] })
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.pages.len() as u64 * self.page_bytes
    }

    /// Backs `size_bytes` from the page-aligned `addr` on, rounded up to whole pages. An empty span says that the
    /// device has no memory left.
    pub(crate) fn map<D: Device>(
        &mut self,
        device: &mut D,
        addr: Addr,
        size_bytes: u64,
        peers: &[DeviceId],
    ) -> Result<Span, DeviceError> {
        let begin = self.page_at_or_before(addr);
        let end = self.page_at_or_after(Addr(addr.0 + size_bytes));
        assert_eq!(self.page_addr(begin), addr, "mapping begins at a page");
        for page in begin..end {
            assert!(self.pages[page].is_none(), "a page is mapped once");
            match device.create(self.page_bytes, HandleType::PosixFd) {
                Ok(handle) => self.pages[page] = Some(handle),
                Err(error) => {
                    self.release_pages(device, begin, page);
                    return match error {
                        DeviceError::OutOfMemory { .. } => Ok(self.span(begin, begin)),
                        error => Err(error),
                    };
                }
            }
        }
        if let Err(error) = self.map_pages(device, begin, end, peers) {
            self.release_pages(device, begin, end);
            return Err(error);
        }
        Ok(self.span(begin, end))
    }

    /// Takes the memory out of the pages that lie wholly within the range, after the stream's work is done
    /// (`cuMemUnmap` does not wait). The error, if any, ended the unmapping behind the span.
    pub(crate) fn unmap<D: Device>(
        &mut self,
        device: &mut D,
        addr: Addr,
        size_bytes: u64,
    ) -> (Span, Result<(), DeviceError>) {
        let begin = self.page_at_or_after(addr);
        let end = self.page_at_or_before(Addr(addr.0 + size_bytes));
        if begin >= end {
            return (Span { addr, size_bytes: 0 }, Ok(()));
        }
        if let Err(error) = device.stream_synchronize(self.stream) {
            return (self.span(begin, begin), Err(error));
        }
        for page in begin..end {
            if let Err(error) = device.unmap(self.page_addr(page), self.page_bytes) {
                return (self.span(begin, page), Err(error));
            }
            self.release_pages(device, page, page + 1);
        }
        (self.span(begin, end), Ok(()))
    }

    /// Lets `peer` reach every mapped page.
    pub(crate) fn add_peer<D: Device>(
        &mut self,
        device: &mut D,
        peer: DeviceId,
    ) -> Result<(), DeviceError> {
        let mut page = 0;
        while page < self.pages.len() {
            let run = self.pages[page..].iter().take_while(|handle| handle.is_some()).count();
            if run > 0 {
                device.set_access(self.page_addr(page), run as u64 * self.page_bytes, peer)?;
            }
            page += run + 1;
        }
        Ok(())
    }

    /// Gives the addresses back; nothing is mapped any more.
    pub(crate) fn unreserve<D: Device>(&self, device: &mut D) -> Result<(), DeviceError> {
        assert!(self.pages.iter().all(Option::is_none), "an unmapped range is given back");
        device.unreserve(self.addr, self.size_bytes())
    }

    fn map_pages<D: Device>(
        &self,
        device: &mut D,
        begin: usize,
        end: usize,
        peers: &[DeviceId],
    ) -> Result<(), DeviceError> {
        for page in begin..end {
            let handle = self.pages[page].expect("created above");
            if let Err(error) = device.map(self.page_addr(page), self.page_bytes, handle) {
                self.unmap_pages(device, begin, page);
                return Err(error);
            }
        }
        let span = self.span(begin, end);
        let owner = device.id();
        for &reader in std::iter::once(&owner).chain(peers) {
            if let Err(error) = device.set_access(span.addr, span.size_bytes, reader) {
                self.unmap_pages(device, begin, end);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Undoes `map` while another error is on its way; a failure here can only be told.
    fn unmap_pages<D: Device>(&self, device: &mut D, begin: usize, end: usize) {
        for page in begin..end {
            if let Err(error) = device.unmap(self.page_addr(page), self.page_bytes) {
                tracing::error!(%error, addr = %self.page_addr(page), "a page stays mapped");
            }
        }
    }

    fn release_pages<D: Device>(&mut self, device: &mut D, begin: usize, end: usize) {
        for handle in self.pages[begin..end].iter_mut().filter_map(Option::take) {
            if let Err(error) = device.release(handle) {
                tracing::error!(%error, "physical memory is not given back");
            }
        }
    }

    fn page_addr(&self, page: usize) -> Addr {
        Addr(self.addr.0 + page as u64 * self.page_bytes)
    }

    fn page_at_or_before(&self, addr: Addr) -> usize {
        ((addr.0 - self.addr.0) / self.page_bytes) as usize
    }

    fn page_at_or_after(&self, addr: Addr) -> usize {
        (addr.0 - self.addr.0).div_ceil(self.page_bytes) as usize
    }

    fn span(&self, begin: usize, end: usize) -> Span {
        Span { addr: self.page_addr(begin), size_bytes: (end - begin) as u64 * self.page_bytes }
    }
}
