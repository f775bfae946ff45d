//! `stitch`: physical pages apart from addresses.
//!
//! Device memory is pages of 2 MiB. A [`Run`] is a reservation of addresses in slots of the same size. A page is mapped
//! at one or more slots. One of them is its *home*: the bytes there are in the blocks and free lists of the heap. The
//! others are *ghosts*: the page is still mapped there, and the addresses are not offered. A ghost whose page is wholly
//! free can become the home without a driver call, because a new block is uninitialized and no data crosses aliases.
//! The free bytes at one end of a page in use can get a home of their own: then the page has two.
//!
//! A [`Follower`] remembers the addresses of the requests of earlier steps, so that a repeated step finds its
//! placements again. The steps of an allocation are in `heap/stitch`.

mod carve;
mod follower;
mod followers;
mod pages;
mod run;
mod sequences;
mod starts;
mod streams;

use alloc::sync::Arc;
use alloc::vec::Vec;

use events::{Addr, PageNumber, Stream};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::cast;
use crate::ids::{FreeListId, RangeId};
use settings::{Plan, PlannedRequest, StitchConfig};

pub(crate) use follower::{Follower, Placement};
use followers::Followers;
pub(crate) use pages::{EdgeMove, Marks, Moves, PageId, Pages, SlotRef, Span, Tail};
pub(crate) use run::{Run, Slot};
pub(crate) use sequences::NONE as NO_REQUEST;
pub(crate) use streams::Streams;

/// Bytes of a physical page and of a slot.
pub(crate) const PAGE_BYTES: u64 = PageNumber::PAGE_BYTES;

/// How much memory is left, and which of it a request may use.
#[derive(Clone, Copy, Default)]
pub(crate) struct Supply {
    /// Whether a request is about to be out of memory.
    pub(crate) is_short: bool,
    /// Whether new pages serve in place of free ones that requests to come will probably want.
    pub(crate) spares_expected: bool,
}

/// The pages, runs and placement memories of a heap.
#[derive(Clone, Default)]
pub(crate) struct Stitch {
    /// Whether the strategy serves the default pool.
    pub(crate) is_on: bool,
    pub(crate) config: StitchConfig,
    pub(crate) pages: Pages,
    runs: Vec<Option<Run>>,
    vacant_runs: Vec<usize>,
    runs_of: HashMap<FreeListId, Vec<RangeId>, FxBuildHasher>,
    followers: Followers,
    /// Where the requests of planned runs go.
    plan: Option<Arc<Plan>>,
    pub(crate) progress: Streams,
    /// Pages beyond need, created for steps that repeat and still map pages.
    pub(crate) slack_pages: usize,
    /// Counts frees: the age of the pages that became free.
    pub(crate) ticket: u64,
    pub(crate) supply: Supply,
    pub(crate) marks: Marks,
    /// Pages that requests to come will probably want.
    pub(crate) expected: Marks,
    /// Whether the last request that had no place takes no pages of small runs.
    pub(crate) keeps_small_pages: bool,
    /// Memory for the spans of windows and for lists of moves, kept so that a request allocates none.
    pub(crate) spans: Vec<Span>,
    pub(crate) moves: Moves,
}

impl Stitch {
    pub(crate) fn new(config: Option<StitchConfig>, plan: Option<Arc<Plan>>) -> Self {
        let is_on = config.is_some();
        Self { is_on, config: config.unwrap_or_default(), plan, ..Self::default() }
    }

    /// The placement memory of a stream.
    #[inline]
    pub(crate) fn follower(&mut self, stream: Stream) -> &mut Follower {
        self.followers.of(stream)
    }

    /// Whether the plan has places for a stream that has made no large request yet.
    #[inline]
    pub(crate) fn awaits_plan(&self, stream: Stream) -> bool {
        self.plan.is_some() && !self.followers.contains(stream)
    }

    /// Whether requests may have places of a plan.
    pub(crate) const fn is_planned(&self) -> bool {
        self.plan.is_some()
    }

    /// Fills the placement memory of a stream with its part of the plan, placed in a run.
    pub(crate) fn begin_plan(&mut self, stream: Stream, run: RangeId) {
        // The streams but the default one are numbered as they come, from 1.
        let others = self.followers.streams().filter(|stream| *stream != Stream(0)).count();
        let number = if stream == Stream(0) { 0 } else { cast::id(others) + 1 };
        let (base, size_bytes) = (self.run(run).addr, self.run(run).size_bytes());
        let sequences = self.plan.iter().flat_map(|plan| &plan.sequences);
        let own = sequences.filter(|sequence| sequence.stream == number);
        let place = |request: &PlannedRequest| {
            let end = request.offset_bytes.checked_add(request.size_bytes)?;
            let addr = Addr(base.0 + request.offset_bytes);
            (end <= size_bytes).then_some(Placement { run, block: None, addr })
        };
        let mut follower = Follower::default();
        for sequence in own {
            follower.enter_plan(&sequence.requests, place);
        }
        self.followers.insert(stream, follower);
    }

    /// The run of an id, if there is one.
    #[inline]
    pub(crate) fn find_run(&self, id: RangeId) -> Option<&Run> {
        self.runs.get(id.slot())?.as_ref()
    }

    /// A block's run.
    #[inline]
    pub(crate) fn run(&self, id: RangeId) -> &Run {
        self.find_run(id).expect("a block's run exists")
    }

    /// A block's run.
    #[inline]
    pub(crate) fn run_mut(&mut self, id: RangeId) -> &mut Run {
        self.runs[id.slot()].as_mut().expect("a block's run exists")
    }

    /// The page that is mapped at a slot.
    #[inline]
    pub(crate) fn page_at(&self, at: SlotRef) -> Option<PageId> {
        self.run(at.run).slots[at.slot].page
    }

    /// The bytes of the page at a slot that have their home there; empty for a ghost, and where no page is.
    pub(crate) fn home_bytes(&self, at: SlotRef) -> core::ops::Range<u64> {
        let slot = self.run(at.run).slots.get(at.slot);
        let page = slot.and_then(|slot| slot.page);
        page.map_or(0..0, |page| self.pages[page].bytes_at(at))
    }

    /// All runs.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (RangeId, &Run)> {
        let runs = self.runs.iter().enumerate();
        runs.filter_map(|(at, run)| Some((RangeId::new(at), run.as_ref()?)))
    }

    /// Enters a run.
    pub(crate) fn insert_run(&mut self, run: Run) -> RangeId {
        self.progress.add_run(run.stream, self.ticket);
        let list = run.list;
        let at = self.vacant_runs.pop().unwrap_or_else(|| {
            self.runs.push(None);
            self.runs.len() - 1
        });
        self.runs[at] = Some(run);
        self.runs_of.entry(list).or_default().push(RangeId::new(at));
        RangeId::new(at)
    }

    /// Forgets a run whose addresses were returned.
    pub(crate) fn remove_run(&mut self, id: RangeId) {
        let run = self.runs[id.slot()].take().expect("a run ends once");
        self.progress.remove_run(run.stream);
        self.vacant_runs.push(id.slot());
        let of_list = self.runs_of.get_mut(&run.list).expect("a run is in its list");
        of_list.retain(|other| *other != id);
        if of_list.is_empty() {
            self.runs_of.remove(&run.list);
        }
    }

    /// The runs of a free list.
    pub(crate) fn runs_of(&self, list: FreeListId) -> &[RangeId] {
        self.runs_of.get(&list).map_or(&[], Vec::as_slice)
    }
}
