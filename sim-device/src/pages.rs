//! Runs of pages in one call, for models of allocators that move many pages at a time.
//!
//! Each call counts and costs as many driver calls as pages would take one by one, and takes the time of one: only
//! the runs are kept. No page has a handle, only this device may use them, and injected faults do not apply.

use events::Addr;

use super::SimDevice;
use device::{DeviceCall, Result};

impl SimDevice {
    /// Maps new pages side by side from `addr` on; how many until memory is out. Counted as `create`, `map` and
    /// `set_access` of each, and as the `create` that was refused.
    ///
    /// # Errors
    /// Pages that are not whole granules, or a range that is not inside a reservation or not vacant.
    pub fn map_pages(&mut self, addr: Addr, page_bytes: u64, count: u64) -> Result<u64> {
        let mapped = self.memory.map_pages(addr, page_bytes, count)?;
        self.count(DeviceCall::Create, page_bytes, count.min(mapped + 1));
        self.count(DeviceCall::Map, page_bytes, mapped);
        self.count(DeviceCall::SetAccess, page_bytes, mapped);
        Ok(mapped)
    }

    /// Takes pages that [`map_pages`](Self::map_pages) mapped back. Counted as `unmap` and `release` of each.
    ///
    /// # Errors
    /// A range that is not made of such pages.
    pub fn unmap_pages(&mut self, addr: Addr, page_bytes: u64, count: u64) -> Result<()> {
        self.memory.unmap_pages(addr, page_bytes, count)?;
        self.count(DeviceCall::Unmap, page_bytes, count);
        self.count(DeviceCall::Release, page_bytes, count);
        Ok(())
    }

    /// Moves pages that [`map_pages`](Self::map_pages) mapped to other addresses. Counted as `unmap`, `map` and
    /// `set_access` of each.
    ///
    /// # Errors
    /// A range that is not made of such pages, or another that is not inside a reservation or not vacant.
    pub fn move_pages(&mut self, from: Addr, to: Addr, page_bytes: u64, count: u64) -> Result<()> {
        self.memory.move_pages(from, to, page_bytes, count)?;
        for call in [DeviceCall::Unmap, DeviceCall::Map, DeviceCall::SetAccess] {
            self.count(call, page_bytes, count);
        }
        Ok(())
    }

    fn count(&mut self, call: DeviceCall, page_bytes: u64, count: u64) {
        self.counts.add(call, count, self.prices.of(call).ns(page_bytes));
    }
}
