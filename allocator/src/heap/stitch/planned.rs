//! Places that have to be mapped first: those of a plan, and remembered ones that lost a few of their pages.

use events::Addr;

use super::grow::Plan;
use super::windows::Window;
use crate::cast;
use crate::heap::Heap;
use crate::heap::hot_path::AllocParams;
use crate::stitch::{PAGE_BYTES, Placement, SlotRef};
use device::Device;
use events::Recorder;

/// A place is repaired if at most one page in so many has to be mapped.
const LOST_PART: usize = 2;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Enters the plan of the request's stream, which has made no large request before. Without addresses for it the
    /// stream has no plan.
    #[cold]
    pub(super) fn begin_plan(&mut self, params: &AllocParams) {
        match self.open_run(params) {
            Ok(Some(run)) => self.stitch.begin_plan(params.stream, run),
            Ok(None) => tracing::warn!("no addresses for the plan of a stream"),
            Err(error) => tracing::warn!("no addresses for the plan of a stream: {error}"),
        }
    }

    /// The place that the plan has for the request, if no byte of it is in use.
    pub(super) fn planned_window(&mut self, params: &AllocParams) -> Option<Window> {
        if !self.stitch.is_planned() || params.pool.is_small() {
            return None;
        }
        let follower = self.stitch.follower(params.stream);
        if !follower.is_certain() {
            return None;
        }
        let (recent, older) = (follower.recent(), follower.older());
        recent.into_iter().chain(older).flatten().find_map(|place| self.free_window(params, place))
    }

    /// The most likely place of the request with free pages in place of those that it lost, if it has most of them
    /// still. Fewer mappings change than at new addresses, so fewer requests to come lose theirs.
    pub(super) fn plan_repair(&mut self, params: &AllocParams) -> Option<Plan> {
        let [place, _] = self.stitch.follower(params.stream).recent();
        let window = self.free_window(params, place?)?;
        let plan = self.plan(params, window);
        let pages = cast::index(params.size_bytes.div_ceil(PAGE_BYTES));
        let has_most = plan.mapped_pages() * LOST_PART <= pages;
        (has_most && plan.new_pages() == 0).then_some(plan)
    }

    /// A place at which no byte is in use. It may have ghosts that a kernel still uses, unless a capture forbids to
    /// wait for that kernel.
    fn free_window(&self, params: &AllocParams, place: Placement) -> Option<Window> {
        let list = self.blocks.lists.find(params.pool, params.stream)?;
        let (id, addr) = (place.run, place.addr);
        let run = self.stitch.find_run(id)?;
        let end = Addr(addr.0 + params.size_bytes);
        if run.list != list || addr < run.addr || end > run.slot_addr(run.slot_count) {
            return None;
        }
        let mut ghosts = run.touched_slots(addr, end).map(|slot| SlotRef { run: id, slot });
        if self.holds_back_flush() && !ghosts.all(|at| self.is_unused(at)) {
            return None;
        }
        let mut at = Some(run.block_at(&self.blocks.arena, addr));
        while let Some(block) = at.map(|id| &self.blocks[id]).filter(|block| block.addr < end) {
            if !block.is_idle() {
                return None;
            }
            at = block.next;
        }
        Some(Window { run: id, addr, pages: 0 })
    }
}
