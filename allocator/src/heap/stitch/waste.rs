//! Waste: reserved bytes that no block uses. Before new pages leave many of them, a request takes the free pages that
//! small requests will want again. From then on requests give up their places of earlier steps for home bytes that use
//! up fewer free pages, until the steps repeat.

use events::Addr;

use super::grow::{Plan, SETTLED_AFTER};
use super::windows::Window;
use crate::heap::Heap;
use crate::heap::hot_path::AllocParams;
use crate::stitch::{Marks, Placement, SlotRef};
use device::Device;
use events::Recorder;

/// New pages are a waste where they leave more than one reserved byte in so many unused.
const WASTED_PART: u64 = 32;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// The same place, with the free pages of small runs before new ones, if these would be a waste. A request that
    /// occurred in more steps leaves the pages there: both would take them in every step.
    pub(super) fn plan_without_waste(&mut self, params: &AllocParams, plan: Plan) -> Plan {
        if plan.new_pages() == 0 || params.pool.is_small() {
            return plan;
        }
        self.stitch.supply.is_wasteful = self.is_waste(params, plan.new_bytes());
        let is_settled = self.occurrences(params) >= SETTLED_AFTER;
        if !self.stitch.supply.is_wasteful || !self.stitch.is_repeated || is_settled {
            return plan;
        }
        self.stitch.is_repeated = false;
        let (run, addr) = plan.place();
        self.plan(params, Window { run, addr, pages: 0 })
    }

    /// Whether new memory for a request would be a waste.
    fn is_waste(&self, params: &AllocParams, new_bytes: u64) -> bool {
        let active_bytes = self.stats().active_bytes.all.current.cast_unsigned();
        let reserved_bytes = self.reserved_bytes + new_bytes;
        let unused_bytes = reserved_bytes.saturating_sub(active_bytes + params.size_bytes);
        unused_bytes > reserved_bytes / WASTED_PART
    }

    /// Whether the place of an earlier step uses up more wholly free pages than the best home bytes.
    pub(super) fn is_wasteful_at(&mut self, params: &AllocParams, place: Placement) -> bool {
        if !self.stitch.supply.is_wasteful || self.stitch.follower(params.stream).is_repeating() {
            return false;
        }
        let Some((id, addr)) = self.best_home(params, &Marks::default()) else { return false };
        let run = self.blocks[id].range.expect("a block of stitch has a run");
        let best = Placement { run, block: None, addr };
        self.free_pages_at(params, best) < self.free_pages_at(params, place)
    }

    /// Slots of a place whose pages are wholly free, or that have none.
    fn free_pages_at(&self, params: &AllocParams, place: Placement) -> usize {
        let Some(run) = self.stitch.find_run(place.run) else { return 0 };
        let end = Addr(place.addr.0 + params.size_bytes);
        if place.addr < run.addr || end > run.frontier() {
            return 0;
        }
        let touched = run.touched_slots(place.addr, end);
        let homes = touched.map(|slot| {
            let page = self.stitch.page_at(SlotRef { run: place.run, slot });
            page.and_then(|page| self.stitch.pages[page].home)
        });
        let is_free = |home: SlotRef| {
            let free = self.stitch.run(home.run).free_around(&self.blocks.arena, home.slot);
            free.contains(&home.slot)
        };
        homes.filter(|home| home.is_none_or(is_free)).count()
    }
}
