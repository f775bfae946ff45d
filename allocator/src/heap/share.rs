//! Memory of expandable segments between processes (PyTorch's CUDA IPC for `expandable_segments:True`).
//!
//! What one heap gives away are handles of whole pages; what another opens is a range beside its own segments, which
//! it neither allocates from nor counts: it is the other process's.

use alloc::vec::Vec;

use events::{Addr, DeviceId};

use super::{AllocError, Heap, HeapError};
use crate::expandable::Range;
use device::{Device, HandleType, Result, ShareableHandle};
use events::Recorder;

/// An allocation as another process may open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPages {
    /// Size of each page.
    pub page_bytes: u64,
    /// Where the allocation starts in the first of them.
    pub offset_bytes: u64,
    /// One for each page, in order. They stay the heap's, which closes them when it unmaps the pages.
    pub handles: Vec<ShareableHandle>,
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Shares the pages that an allocation lies in; `None` for one that is in no expandable segment, whose segment is
    /// shared whole ([`base_allocation`](Self::base_allocation)).
    ///
    /// # Errors
    /// When the address was not handed out, or the settings or the device do not share its memory.
    pub fn share(&mut self, addr: Addr) -> Result<Option<SharedPages>, AllocError> {
        let id = self.find(addr)?;
        let block = &self.blocks[id];
        let (size_bytes, Some(range)) = (block.size_bytes, block.range) else { return Ok(None) };
        if self.stitch.is_on {
            let block = *block;
            return Ok(Some(self.share_stitched(range, block)?));
        }
        let range = self.ranges.get_mut(range);
        if !range.is_shareable() {
            return Err(HeapError::NotShared.into());
        }
        let (span, handles) = range.share(&mut self.device, addr, size_bytes)?;
        let offset_bytes = addr.0 - span.addr.0;
        Ok(Some(SharedPages { page_bytes: range.page_bytes, offset_bytes, handles }))
    }

    /// How pages that are made now may be shared.
    pub(super) fn page_sharing(&self) -> HandleType {
        if self.config.shares_expandable_segments { HandleType::PosixFd } else { HandleType::None }
    }

    /// Maps pages that another process shares; where they begin. The handles stay the caller's.
    ///
    /// # Errors
    /// When the device does not open them.
    pub fn open_shared(&mut self, page_bytes: u64, handles: &[ShareableHandle]) -> Result<Addr> {
        self.ipc.import(&mut self.device, page_bytes, handles, &self.peers)
    }

    /// Gives back what [`open_shared`](Self::open_shared) mapped at `addr`. All of its users have to be done. A
    /// page that the device does not take back now is tried again with every flush.
    ///
    /// # Errors
    /// When nothing is open there, or the device refuses.
    pub fn close_shared(&mut self, addr: Addr) -> Result<(), AllocError> {
        let closed = self.ipc.close(&mut self.device, addr);
        Ok(closed.ok_or(HeapError::NotOpened { addr })??)
    }
}

/// Memory of other processes in this one.
#[derive(Clone, Default)]
pub(super) struct IpcMemory {
    /// Open here.
    pub(super) imported: Vec<Range>,
    /// Closed, or never quite opened, and not yet taken back by the device.
    closing: Vec<Range>,
}

impl IpcMemory {
    fn import<D: Device>(
        &mut self,
        device: &mut D,
        page_bytes: u64,
        handles: &[ShareableHandle],
        peers: &[DeviceId],
    ) -> Result<Addr> {
        let mut range = Range::reserve_shared(device, page_bytes, handles.len())?;
        let addr = range.addr;
        match range.import(device, handles, peers) {
            Ok(()) => self.imported.push(range),
            Err(error) => {
                self.closing.push(range);
                self.close_or_log(device);
                return Err(error);
            }
        }
        Ok(addr)
    }

    /// Closes the range at `addr`; `None` where there is none.
    fn close<D: Device>(&mut self, device: &mut D, addr: Addr) -> Option<Result<()>> {
        let at = self.imported.iter().position(|range| range.addr == addr)?;
        self.closing.push(self.imported.swap_remove(at));
        Some(self.close_all(device))
    }

    /// Gives back all that is closing, as far as the device lets it; the first refusal.
    fn close_all<D: Device>(&mut self, device: &mut D) -> Result<()> {
        let mut answer = Ok(());
        self.closing.retain_mut(|range| {
            let closed = range.close(device);
            let stays = closed.is_err();
            answer = answer.clone().and(closed);
            stays
        });
        answer
    }

    /// The same where no caller waits for the answer.
    pub(super) fn close_or_log<D: Device>(&mut self, device: &mut D) {
        if let Err(error) = self.close_all(device) {
            tracing::error!("memory of another process could not be given back yet: {error}");
        }
    }
}
