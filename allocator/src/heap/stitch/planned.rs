//! The places of a plan. Unlike those that were remembered, they may have to be mapped first.

use events::Addr;

use super::windows::Window;
use crate::heap::Heap;
use crate::heap::hot_path::AllocParams;
use crate::stitch::SlotRef;
use device::Device;
use events::Recorder;

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

    /// The place that the plan has for the request, if no byte of it is in use. It may have ghosts that a kernel still
    /// uses, unless a capture forbids to wait for that kernel.
    pub(super) fn planned_window(&mut self, params: &AllocParams) -> Option<Window> {
        if !self.stitch.is_planned() || params.pool.is_small() {
            return None;
        }
        let follower = self.stitch.follower(params.stream);
        if !follower.is_certain() {
            return None;
        }
        let ([two, one], [four, three]) = (follower.recent(), follower.older());
        let list = self.blocks.lists.find(params.pool, params.stream)?;
        [two, one, four, three].into_iter().flatten().find_map(|place| {
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
        })
    }
}
