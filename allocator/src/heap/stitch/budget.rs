//! The budget of mapped addresses, and steps that repeat and exceed it.
//!
//! The placements of such a step are in one another's way, and each execution maps pages again. The requests are then
//! placed without the placement memory. If the step exceeds the budget again, it gets a few more pages.

use alloc::vec::Vec;

use super::holes::ANY_GHOST;
use crate::arena::BlockId;
use crate::cast;
use crate::heap::hot_path::AllocParams;
use crate::heap::{AllocError, Heap};
use crate::stitch::{PAGE_BYTES, SlotRef};
use device::{Device, Result};
use events::Recorder;

/// At most one page in so many is slack.
const SLACK_PART: usize = 40;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Slots that may be mapped at once.
    pub(super) fn budgeted_slots(&self) -> usize {
        self.stitch.pages.len() * self.stitch.config.address_budget as usize
    }

    /// Ends the least recently used ghosts where the mappings of a request could exceed the budget of addresses.
    pub(super) fn keep_address_budget(&mut self, params: &AllocParams) -> Result<()> {
        let added = cast::index(params.size_bytes.div_ceil(PAGE_BYTES)) + 1;
        let budget = self.budgeted_slots();
        let wanted = self.stitch.pages.mapped_slots + added;
        if wanted <= budget || self.holds_back_flush() {
            return Ok(());
        }
        if self.has_placements(params) {
            self.stitch.follower(params.stream).note_overflow();
        }
        // A quarter at once, so that the waiting is rare.
        let count = (wanted - budget).max(budget / 4);
        let mut ghosts: Vec<(u64, SlotRef)> = Vec::new();
        for (id, run) in self.stitch.runs() {
            for (slot, mapping) in run.slots.iter().enumerate() {
                let at = SlotRef { run: id, slot };
                let is_ghost = mapping
                    .page
                    .is_some_and(|page| self.stitch.pages[page].bytes_at(at).is_empty());
                if is_ghost {
                    ghosts.push((run.ticket(slot), at));
                }
            }
        }
        if ghosts.len() > count {
            ghosts.select_nth_unstable(count);
            ghosts.truncate(count);
        }
        if ghosts.is_empty() {
            return Ok(());
        }
        self.await_run_streams()?;
        for (_, at) in ghosts {
            self.unmap_slot(at)?;
        }
        Ok(())
    }

    /// Serves a request of a step that needs slack with new pages in place of free ones, as far as slack is allowed:
    /// with a little of it, free bytes side by side are soon found without a call. `None` without slack, also where the
    /// device or the fraction refuses it.
    pub(super) fn grow_by_slack(
        &mut self,
        params: &AllocParams,
    ) -> Result<Option<BlockId>, AllocError> {
        if self.stitch.supply.is_short || !self.has_placements(params) {
            return Ok(None);
        }
        let most = self.stitch.pages.len() / SLACK_PART;
        let allowed = most.saturating_sub(self.stitch.slack_pages);
        if allowed == 0 || !self.stitch.follower(params.stream).needs_slack() {
            return Ok(None);
        }
        let hole = self.find_hole(params, ANY_GHOST).expect("the frontier has room");
        let mut plan = self.plan(params, hole.window);
        let slack = plan.renew(allowed);
        // The request needs no new page: it may not be refused for one.
        if self.exceeds_settings(plan.new_bytes()) {
            return Ok(None);
        }
        let grown = self.carry_out(plan, params)?;
        // Slack that was refused is not asked for again.
        self.stitch.slack_pages += if grown.is_some() { slack } else { allowed };
        Ok(grown)
    }
}
