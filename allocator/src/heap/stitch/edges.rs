//! Edges: free bytes at an end of a page that is partly used. Where memory is short, or will soon be, or a run with a
//! plan wastes it, a request takes the free tail of one page and the free head of another in place of new pages: they
//! are mapped once more, on both sides of its whole pages.

use alloc::vec::Vec;

use events::Addr;

use super::grow::Plan;
use super::holes::ANY_GHOST;
use crate::cast;
use crate::heap::Heap;
use crate::heap::hot_path::AllocParams;
use crate::stitch::{EdgeMove, PAGE_BYTES, PageId, SlotRef};
use device::Device;
use events::Recorder;

/// Memory will soon be short where less than one part in so many may still be reserved.
const SPARE_PART: u64 = 10;

/// New pages are a waste where they leave more than one reserved byte in so many unused.
const WASTED_PART: u64 = 32;

/// Free bytes at an end of a page.
#[derive(Clone, Copy, Debug)]
struct Edge {
    size_bytes: u64,
    page: PageId,
}

/// The edges of pages in use, ascending by size.
#[derive(Debug, Default)]
struct Edges {
    tails: Vec<Edge>,
    heads: Vec<Edge>,
}

/// Whole pages, the tail of a page before them, and the head of a page behind them.
#[derive(Clone, Copy, Debug)]
struct Row {
    tail: Option<Edge>,
    whole: usize,
    head: Option<Edge>,
}

impl Row {
    fn edges(&self) -> impl Iterator<Item = Edge> {
        self.tail.into_iter().chain(self.head)
    }
}

impl Edges {
    /// The row with the fewest new pages, where so many are free, if it takes fewer new ones than `most`. Of equal ones
    /// the one with the fewest edges, and then the one that leaves the fewest bytes of them.
    fn find_row(&self, size_bytes: u64, free: usize, most: usize) -> Option<Row> {
        let largest = |edges: &[Edge]| edges.last().map_or(0, |edge| edge.size_bytes);
        let least = size_bytes.saturating_sub(largest(&self.tails) + largest(&self.heads));
        let whole = cast::index(least.div_ceil(PAGE_BYTES)).max(free);
        if whole - free >= most {
            return None;
        }
        let rest = size_bytes.checked_sub(whole as u64 * PAGE_BYTES).filter(|rest| *rest > 0)?;
        let tails = core::iter::once(None).chain(self.tails.iter().copied().map(Some));
        let rows = tails.filter_map(|tail| {
            let rest = rest.saturating_sub(tail.map_or(0, |tail| tail.size_bytes));
            let head = if rest > 0 { Some(self.find_head(rest, tail)?) } else { None };
            Some(Row { tail, whole, head })
        });
        rows.min_by_key(|row| {
            (row.edges().count(), row.edges().map(|edge| edge.size_bytes).sum::<u64>())
        })
    }

    /// The smallest head with so many bytes, of another page than the tail.
    fn find_head(&self, bytes: u64, tail: Option<Edge>) -> Option<Edge> {
        let fitting = self.heads.partition_point(|head| head.size_bytes < bytes);
        let is_other = |head: &&Edge| tail.is_none_or(|tail| tail.page != head.page);
        self.heads[fitting..].iter().find(is_other).copied()
    }
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// A place with fewer new pages than any other, if edges make one.
    pub(super) fn plan_at_edges(&mut self, params: &AllocParams, behind: &Plan) -> Option<Plan> {
        if params.pool.is_small() || behind.new_pages() == 0 || !self.takes_edges(params, behind) {
            return None;
        }
        let hole = self.find_hole(params, ANY_GHOST)?;
        let most = behind.new_pages().min(self.plan(params, hole.window).new_pages());
        self.stitch.marks.clear();
        let (run, needed) = (behind.run(), cast::index(params.size_bytes.div_ceil(PAGE_BYTES)));
        let pages = self.oldest_free_pages(params, needed, (run, 0..0));
        let row = self.edges(params)?.find_row(params.size_bytes, pages.len(), most)?;

        let first = self.stitch.run(run).slots.len();
        let whole = first + usize::from(row.tail.is_some());
        let last = whole + row.whole;
        // A run begins with a whole page, so that a replay finds its address.
        if first == 0 || last >= self.stitch.run(run).slot_count {
            return None;
        }
        let whole_bytes = row.whole as u64 * PAGE_BYTES;
        let rest_bytes = params.size_bytes - whole_bytes;
        let tail_bytes = row.tail.map_or(0, |tail| tail.size_bytes.min(rest_bytes));
        let head_bytes = rest_bytes - tail_bytes;
        let edge = |edge: Option<Edge>, slot, bytes| {
            edge.map(|edge| EdgeMove { page: edge.page, to: SlotRef { run, slot }, bytes })
        };
        let tail = edge(row.tail, first, PAGE_BYTES - tail_bytes..PAGE_BYTES);
        let head = edge(row.head, last, 0..head_bytes);
        let start = self.stitch.run(run).slot_addr(whole).0 - tail_bytes;
        let missing = (whole..last).map(|slot| SlotRef { run, slot }).collect();
        let edges = tail.into_iter().chain(head).collect();
        Some(Plan::at_edges((run, Addr(start)), edges, missing, pages))
    }

    /// Whether memory is scarce, or a run that departs from its plan wastes it. Elsewhere edges cost more than they
    /// save: pages with two homes are wholly free less often, and steps of different shapes would map more of them.
    fn takes_edges(&self, params: &AllocParams, behind: &Plan) -> bool {
        self.is_scarce(0) || (self.stitch.is_planned() && self.is_waste(params, behind.new_bytes()))
    }

    /// Whether new memory for a request would leave too many reserved bytes that no block uses.
    fn is_waste(&self, params: &AllocParams, new_bytes: u64) -> bool {
        let active_bytes = self.stats().active_bytes.all.current.cast_unsigned();
        let reserved_bytes = self.reserved_bytes + new_bytes;
        let unused_bytes = reserved_bytes.saturating_sub(active_bytes + params.size_bytes);
        unused_bytes > reserved_bytes / WASTED_PART
    }

    /// Whether memory is short, or will soon be with so many bytes more: a request can use two edges only, so those
    /// before the last one save pages for it.
    pub(super) fn is_scarce(&self, new_bytes: u64) -> bool {
        let total = self.device_total_bytes;
        let limit = self.allowed_bytes.map_or(total, |allowed| allowed.min(total));
        let spare_bytes = limit / SPARE_PART;
        self.stitch.supply.is_short
            || self.reserved_bytes + new_bytes > limit - spare_bytes
            || self.exceeds_settings(new_bytes + spare_bytes)
    }

    /// The edges that a request may take: of pages of its own runs that have one home.
    fn edges(&self, params: &AllocParams) -> Option<Edges> {
        let list = &self.blocks.lists[self.blocks.lists.find(params.pool, params.stream)?];
        let mut edges = Edges::default();
        for block in list.iter().map(|id| &self.blocks[id]) {
            let run = self.stitch.run(block.range.expect("a block of stitch has a run"));
            let edge = |slot: usize, size_bytes: u64| {
                let page = run.slots[slot].page.expect("a home has a page");
                let is_whole = self.stitch.pages[page].tail.is_none();
                is_whole.then_some(Edge { size_bytes, page })
            };
            let (first, last) = (run.slot_of(block.addr), run.slot_of(block.end()));
            let tail_bytes = run.slot_addr(first + 1).0 - block.addr.0;
            if tail_bytes < PAGE_BYTES && tail_bytes <= block.size_bytes {
                edges.tails.extend(edge(first, tail_bytes));
            }
            let head_bytes = block.end().0 - run.slot_addr(last).0;
            if head_bytes > 0 && head_bytes <= block.size_bytes {
                edges.heads.extend(edge(last, head_bytes));
            }
        }
        edges.tails.sort_unstable_by_key(|edge| edge.size_bytes);
        edges.heads.sort_unstable_by_key(|edge| edge.size_bytes);
        Some(edges)
    }
}
