//! Memory of expandable segments between processes (PyTorch's CUDA IPC for `expandable_segments:True`).
//!
//! What one heap gives away are handles of whole pages; what another opens is a range beside its own segments, which
//! it neither allocates from nor counts: it is the other process's.

use alloc::vec::Vec;

use events::Addr;

use super::{AllocError, Heap, HeapError};
use crate::expandable::Range;
use device::{Device, DeviceError, HandleType, ShareableHandle};
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
        let range = self.ranges[range.slot()].as_mut().expect("a block's range exists");
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
    pub fn open_shared(
        &mut self,
        page_bytes: u64,
        handles: &[ShareableHandle],
    ) -> Result<Addr, DeviceError> {
        let (device, peers) = (&mut self.device, &self.peers);
        let mut range = Range::reserve_shared(device, page_bytes, handles.len())?;
        let addr = range.addr;
        let imported = range.import(device, handles, peers);
        match imported {
            Ok(()) => self.ipc_imported.push(range),
            Err(error) => {
                self.ipc_closing.push(range);
                self.let_leave_or_log();
                return Err(error);
            }
        }
        Ok(addr)
    }

    /// Gives back what [`open_shared`](Self::open_shared) mapped at `addr`. All of its users have to be done. A
    /// page that the device does not take back now is tried again with every flush.
    ///
    /// # Errors
    /// When nothing is open there, or the device refuses.
    pub fn close_shared(&mut self, addr: Addr) -> Result<(), AllocError> {
        let at = self.ipc_imported.iter().position(|range| range.addr == addr);
        let at = at.ok_or(HeapError::NotOpened { addr })?;
        self.ipc_closing.push(self.ipc_imported.swap_remove(at));
        Ok(self.let_leave()?)
    }

    /// Gives back all that is to leave, as far as the device lets it; the first refusal.
    fn let_leave(&mut self) -> Result<(), DeviceError> {
        let mut answer = Ok(());
        self.ipc_closing.retain_mut(|range| {
            let closed = range.close(&mut self.device);
            let stays = closed.is_err();
            answer = answer.clone().and(closed);
            stays
        });
        answer
    }

    pub(super) fn let_leave_or_log(&mut self) {
        if let Err(error) = self.let_leave() {
            tracing::error!("memory of another process could not be given back yet: {error}");
        }
    }
}
