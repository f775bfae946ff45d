//! Pages in other processes, and pages of other processes here.

use alloc::vec::Vec;

use events::{Addr, DeviceId, Stream};

use super::{Page, Range, Span};
use device::{Device, HandleType, Result, ShareableHandle};

impl Range {
    /// Handles for the pages that hold `size_bytes` from `addr` on, in order. They stay the range's: it closes them
    /// when the pages are unmapped.
    pub(crate) fn share<D: Device>(
        &mut self,
        device: &mut D,
        addr: Addr,
        size_bytes: u64,
    ) -> Result<(Span, Vec<ShareableHandle>)> {
        let begin = self.page_at_or_before(addr);
        let end = self.page_at_or_after(Addr(addr.0 + size_bytes));
        let handles =
            (begin..end).map(|page| self.share_page(device, page)).collect::<Result<_, _>>()?;
        Ok((self.span(begin, end), handles))
    }

    fn share_page<D: Device>(&mut self, device: &mut D, page: usize) -> Result<ShareableHandle> {
        if let Some((_, handle)) = self.shared.iter().find(|(shared, _)| *shared == page) {
            return Ok(*handle);
        }
        let Page::Open(memory) = self.pages[page] else { panic!("a mapped page is shared") };
        let handle = device.export(memory, self.share)?;
        self.shared.push((page, handle));
        Ok(handle)
    }

    /// Closes the page's handle, if others were given one: the next memory there is another.
    pub(super) fn unshare_page<D: Device>(&mut self, device: &mut D, page: usize) {
        if let Some(at) = self.shared.iter().position(|(shared, _)| *shared == page) {
            device.close(self.shared.swap_remove(at).1);
        }
    }

    /// Addresses for pages that another process shares, as many as they are: unlike PyTorch's, which are 9/8 of the
    /// device's memory each time.
    pub(crate) fn reserve_shared<D: Device>(
        device: &mut D,
        page_bytes: u64,
        page_count: usize,
    ) -> Result<Self> {
        let addr = device.reserve((page_count as u64).saturating_mul(page_bytes))?;
        Ok(Self::at(addr, page_bytes, page_count, Stream(0), HandleType::None))
    }

    /// Maps what another process shares, in order. The handles stay the caller's.
    pub(crate) fn import<D: Device>(
        &mut self,
        device: &mut D,
        handles: &[ShareableHandle],
        peers: &[DeviceId],
    ) -> Result<()> {
        assert!(
            handles.len() == self.page_count && self.pages.is_empty(),
            "one handle for each page"
        );
        for handle in handles {
            self.pages.push(Page::Created(device.import(*handle)?));
        }
        self.open(device, 0, self.page_count, peers)
    }

    /// Gives everything back, after all of the stream's work; however far that got, the next attempt goes on.
    pub(crate) fn close<D: Device>(&mut self, device: &mut D) -> Result<()> {
        device.stream_synchronize(self.stream)?;
        for page in &mut self.pages {
            if let Page::Open(memory) = *page {
                *page = Page::Mapped(memory);
            }
        }
        self.unreserve(device)
    }
}
