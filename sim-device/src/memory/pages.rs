//! Pages without handles: only the runs of them are kept.

use events::Addr;

use super::Memory;
use crate::{code, refuse};
use device::{DeviceCall, Result};

impl Memory {
    /// Maps up to so many new pages without handles, for this device's use; how many until memory is out.
    pub(crate) fn map_pages(&mut self, addr: Addr, page_bytes: u64, count: u64) -> Result<u64> {
        let size_bytes = self.whole_pages(DeviceCall::Map, addr, page_bytes, count)?;
        let start = self.check_vacant(DeviceCall::Map, addr, size_bytes)?;
        let mapped = count.min((self.capacity_bytes - self.used_bytes) / page_bytes);
        if mapped > 0 {
            self.charge(mapped * page_bytes);
            self.pages.give(addr.0, mapped * page_bytes);
            self.untouched.take_if(|(untouched, _)| untouched.0 == start);
        }
        if mapped < count {
            self.charge(page_bytes); // It is refused, and noted as such.
        }
        Ok(mapped)
    }

    /// Takes pages without handles back.
    pub(crate) fn unmap_pages(&mut self, addr: Addr, page_bytes: u64, count: u64) -> Result<()> {
        let size_bytes = self.whole_pages(DeviceCall::Unmap, addr, page_bytes, count)?;
        self.take_pages(addr, size_bytes)?;
        self.used_bytes -= size_bytes;
        Ok(())
    }

    /// Moves pages without handles to other addresses, where nothing is.
    pub(crate) fn move_pages(
        &mut self,
        from: Addr,
        to: Addr,
        page_bytes: u64,
        count: u64,
    ) -> Result<()> {
        let size_bytes = self.whole_pages(DeviceCall::Unmap, from, page_bytes, count)?;
        self.whole_pages(DeviceCall::Map, to, page_bytes, count)?;
        let start = self.check_vacant(DeviceCall::Map, to, size_bytes)?;
        self.take_pages(from, size_bytes)?;
        self.pages.give(to.0, size_bytes);
        self.untouched.take_if(|(untouched, _)| untouched.0 == start);
        Ok(())
    }

    fn take_pages(&mut self, addr: Addr, size_bytes: u64) -> Result<()> {
        if self.pages.take_at(addr.0, size_bytes) {
            return Ok(());
        }
        let message = format!("{addr} + {size_bytes} is not made of whole pages");
        Err(refuse(DeviceCall::Unmap, code::NOT_MAPPED, message))
    }

    /// The size of so many pages, where they are whole granules and the range begins with one.
    fn whole_pages(
        &self,
        call: DeviceCall,
        addr: Addr,
        page_bytes: u64,
        count: u64,
    ) -> Result<u64> {
        self.whole_granules(call, addr.0, page_bytes)?;
        let size_bytes = page_bytes.saturating_mul(count);
        self.whole_granules(call, addr.0, size_bytes)?;
        Ok(size_bytes)
    }
}
