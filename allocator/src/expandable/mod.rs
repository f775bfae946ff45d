//! An expandable segment's address range: reserved once, its pages mapped and unmapped as the pool needs them.
//!
//! Source: `ExpandableSegment` in `c10/cuda/CUDACachingAllocator.cpp`. Every operation either does all of what it
//! says, or takes its part back and reports why. What a failing device does not take back stays noted with its page:
//! the next mapping uses it, and every flush tries again. So nothing leaks.

mod ranges;
mod share;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use events::{Addr, DeviceId, Stream};

use crate::cast;
use crate::ids::FreeListId;
use device::{Device, DeviceError, HandleType, PhysicalHandle, Result, ShareableHandle};
pub(crate) use ranges::Ranges;

/// Reserved addresses, some of them backed by memory.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) addr: Addr,
    pub(crate) page_bytes: u64,
    /// The free list of its blocks; `None` for memory of another process.
    pub(crate) list: Option<FreeListId>,
    /// Whether memory stays behind that the device did not take back.
    has_leftovers: bool,
    stream: Stream,
    page_count: usize,
    /// How other processes may be given its pages.
    share: HandleType,
    /// The pages up to the last that was ever mapped; those behind are empty.
    pages: Vec<Page>,
    /// The pages that other processes were given handles of.
    shared: Vec<(usize, ShareableHandle)>,
}

/// How far a page has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// Addresses only.
    Empty,
    /// There is physical memory for it.
    Created(PhysicalHandle),
    /// The memory is at its address, not accessible yet or no longer.
    Mapped(PhysicalHandle),
    /// Accessible: in the heap's hands.
    Open(PhysicalHandle),
}

/// Whole pages that were mapped or unmapped; empty if none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) addr: Addr,
    pub(crate) size_bytes: u64,
}

impl Range {
    /// The addresses of one segment in whole pages.
    pub(crate) const fn reach_bytes(page_bytes: u64, reserve_bytes: u64) -> u64 {
        reserve_bytes.next_multiple_of(page_bytes)
    }

    /// Reserves the addresses; nothing is mapped.
    pub(crate) fn reserve<D: Device>(
        device: &mut D,
        stream: Stream,
        page_bytes: u64,
        reserve_bytes: u64,
        share: HandleType,
    ) -> Result<Self> {
        let size_bytes = Self::reach_bytes(page_bytes, reserve_bytes);
        let page_count = cast::index(size_bytes / page_bytes);
        Ok(Self::at(device.reserve(size_bytes)?, page_bytes, page_count, stream, share))
    }

    fn at(
        addr: Addr,
        page_bytes: u64,
        page_count: usize,
        stream: Stream,
        share: HandleType,
    ) -> Self {
        let (pages, shared) = (Vec::new(), Vec::new());
        let (list, has_leftovers) = (None, false);
        Self { addr, page_bytes, list, has_leftovers, stream, page_count, share, pages, shared }
    }

    /// Whether other processes can be given its pages.
    pub(crate) fn is_shareable(&self) -> bool {
        self.share != HandleType::None
    }

    /// Whether [`take_back`](Self::take_back) has something to give back.
    pub(crate) const fn has_leftovers(&self) -> bool {
        self.has_leftovers
    }

    /// The stream that its blocks serve.
    pub(crate) const fn stream(&self) -> Stream {
        self.stream
    }

    /// Bytes of pages in the heap's hands.
    pub(crate) fn open_bytes(&self) -> u64 {
        let open = self.pages.iter().filter(|page| matches!(page, Page::Open(_))).count();
        open as u64 * self.page_bytes
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.page_count as u64 * self.page_bytes
    }

    /// Backs `size_bytes` from the page-aligned `addr` on, rounded up to whole pages. An empty span says that the
    /// device has no memory left.
    pub(crate) fn map<D: Device>(
        &mut self,
        device: &mut D,
        addr: Addr,
        size_bytes: u64,
        peers: &[DeviceId],
    ) -> Result<Span> {
        let begin = self.page_at_or_before(addr);
        let end = self.page_at_or_after(Addr(addr.0 + size_bytes));
        assert_eq!(self.page_addr(begin), addr, "mapping begins at a page");
        assert!(end <= self.page_count, "mapping stays within the addresses");
        if self.pages.len() < end {
            self.pages.resize(end, Page::Empty);
        }
        if let Err(error) = self.open(device, begin, end, peers) {
            self.strip_or_log(device, begin, end);
            return match error {
                DeviceError::OutOfMemory { .. } => Ok(self.span(begin, begin)),
                error => Err(error),
            };
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
    ) -> (Span, Result<()>) {
        let begin = self.page_at_or_after(addr);
        let end = self.page_at_or_before(Addr(addr.0 + size_bytes));
        if begin >= end {
            return (Span { addr, size_bytes: 0 }, Ok(()));
        }
        if let Err(error) = device.stream_synchronize(self.stream) {
            return (self.span(begin, begin), Err(error));
        }
        for page in begin..end {
            let Page::Open(handle) = self.pages[page] else { panic!("a mapped page is unmapped") };
            if let Err(error) = device.unmap(self.page_addr(page), self.page_bytes) {
                return (self.span(begin, page), Err(error));
            }
            self.pages[page] = Page::Created(handle);
            self.strip_or_log(device, page, page + 1);
        }
        (self.span(begin, end), Ok(()))
    }

    /// Lets `peer` reach every mapped page.
    pub(crate) fn add_peer<D: Device>(&mut self, device: &mut D, peer: DeviceId) -> Result<()> {
        let mut page = 0;
        while page < self.pages.len() {
            let run = self.pages[page..].iter().take_while(|page| page.is_open()).count();
            if run > 0 {
                device.set_access(self.page_addr(page), run as u64 * self.page_bytes, peer)?;
            }
            page += run + 1;
        }
        Ok(())
    }

    /// Gives back what earlier failures left behind, as far as the device lets it.
    pub(crate) fn take_back<D: Device>(&mut self, device: &mut D) {
        self.has_leftovers = false;
        self.strip_or_log(device, 0, self.pages.len());
    }

    /// Gives the addresses back; nothing is mapped any more.
    pub(crate) fn unreserve<D: Device>(&mut self, device: &mut D) -> Result<()> {
        assert!(!self.pages.iter().any(Page::is_open), "an unmapped range is given back");
        self.strip(device, 0, self.pages.len())?;
        device.unreserve(self.addr, self.size_bytes())
    }

    /// Creates, maps and opens pages, going on from wherever each of them is.
    fn open<D: Device>(
        &mut self,
        device: &mut D,
        begin: usize,
        end: usize,
        peers: &[DeviceId],
    ) -> Result<()> {
        for page in begin..end {
            assert!(!self.pages[page].is_open(), "a page is mapped once");
            if self.pages[page] == Page::Empty {
                let handle = device.create(self.page_bytes, self.share)?;
                self.pages[page] = Page::Created(handle);
            }
        }
        for page in begin..end {
            if let Page::Created(handle) = self.pages[page] {
                device.map(self.page_addr(page), self.page_bytes, handle)?;
                self.pages[page] = Page::Mapped(handle);
            }
        }
        let span = self.span(begin, end);
        let owner = device.id();
        for &reader in core::iter::once(&owner).chain(peers) {
            device.set_access(span.addr, span.size_bytes, reader)?;
        }
        for page in &mut self.pages[begin..end] {
            if let Page::Mapped(handle) = *page {
                *page = Page::Open(handle);
            }
        }
        Ok(())
    }

    /// Takes pages that are not open back to bare addresses. Goes on after an error, and reports the first.
    fn strip<D: Device>(&mut self, device: &mut D, begin: usize, end: usize) -> Result<()> {
        let mut answer = Ok(());
        for page in begin..end {
            if let Page::Mapped(handle) = self.pages[page] {
                match device.unmap(self.page_addr(page), self.page_bytes) {
                    Ok(()) => self.pages[page] = Page::Created(handle),
                    Err(error) => answer = answer.and(Err(error)),
                }
            }
            if let Page::Created(handle) = self.pages[page] {
                self.unshare_page(device, page);
                match device.release(handle) {
                    Ok(()) => self.pages[page] = Page::Empty,
                    Err(error) => answer = answer.and(Err(error)),
                }
            }
        }
        answer
    }

    fn strip_or_log<D: Device>(&mut self, device: &mut D, begin: usize, end: usize) {
        if let Err(error) = self.strip(device, begin, end) {
            self.has_leftovers = true;
            tracing::error!(
                "memory at {} could not be given back, and stays reserved: {error}",
                self.addr
            );
        }
    }

    fn page_addr(&self, page: usize) -> Addr {
        Addr(self.addr.0 + page as u64 * self.page_bytes)
    }

    fn page_at_or_before(&self, addr: Addr) -> usize {
        cast::index((addr.0 - self.addr.0) / self.page_bytes)
    }

    fn page_at_or_after(&self, addr: Addr) -> usize {
        cast::index((addr.0 - self.addr.0).div_ceil(self.page_bytes))
    }

    fn span(&self, begin: usize, end: usize) -> Span {
        Span { addr: self.page_addr(begin), size_bytes: (end - begin) as u64 * self.page_bytes }
    }
}

impl Page {
    const fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }
}
