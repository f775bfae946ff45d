//! A step that repeats and still maps pages.
//!
//! A request that takes pages which another request of the step wants costs that one its place, and so on: each
//! execution may map pages again. New pages in their place end that, once.

use alloc::vec::Vec;

use crate::arena::BlockId;
use crate::heap::hot_path::AllocParams;
use crate::heap::{AllocError, Heap};
use crate::stitch::PageId;
use device::Device;
use events::Recorder;

/// At most one page in so many is beyond need.
const SPARED_PART: usize = 20;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Serves a request by mapping pages. In a step that repeats it takes new ones in place of those that other
    /// requests want, unless the device refuses them.
    pub(super) fn extend_run(
        &mut self,
        params: &AllocParams,
    ) -> Result<Option<BlockId>, AllocError> {
        self.stitch.supply.spares_expected = self.is_settling(params);
        let extended = self.extend_run_once(params);
        let spared = core::mem::take(&mut self.stitch.supply.spares_expected);
        if spared && matches!(extended, Ok(None)) { self.extend_run_once(params) } else { extended }
    }

    /// Whether the request is part of a step that is certain to repeat, while there are memory and addresses. A step
    /// that fills the addresses gets slack.
    fn is_settling(&mut self, params: &AllocParams) -> bool {
        let has_addresses = self.stitch.pages.mapped_slots <= self.budgeted_slots() / 2;
        if !self.has_placements(params) || !has_addresses || self.is_scarce(params.size_bytes) {
            return false;
        }
        let follower = self.stitch.follower(params.stream);
        follower.is_certain() && follower.is_repeating()
    }

    /// Leaves out the free pages that requests to come want, as far as new ones may serve. Returns how many.
    pub(super) fn spare_expected(&self, pages: &mut Vec<PageId>) -> usize {
        if !self.stitch.supply.spares_expected {
            return 0;
        }
        let most = (self.stitch.pages.len() / SPARED_PART).saturating_sub(self.stitch.slack_pages);
        let mut spared = 0;
        pages.retain(|page| {
            let is_spared = spared < most && self.stitch.expected.contains(*page);
            spared += usize::from(is_spared);
            !is_spared
        });
        spared
    }
}
