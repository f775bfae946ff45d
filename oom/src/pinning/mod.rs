//! The pinning set: the live blocks with the fewest bytes which, freed immediately before a refused request, let it be
//! served.
//!
//! The allocator has three ways to serve it: a block of its cache, a segment from the device after it returned what is
//! free, and pages of an expandable segment that are mapped. For each way the cheapest blocks are computed without the
//! conditions that only a replay shows, so their bytes are a lower bound, and each candidate is replayed: the set is
//! one that serves. Where the two differ and no more than 16 blocks are live, all sets are replayed.

mod lines;
mod release;
mod windows;

use std::collections::HashSet;
use std::ops::Range;

use allocator::size;
use events::Addr;
use serde::Serialize;

use crate::situation::Situation;
use lines::{Line, lines, live};
use release::Release;
use windows::{Window, cached, mapped};

/// Live blocks up to which all sets are replayed.
pub const EXHAUSTIVE_BLOCKS: usize = 16;
/// Replays that look for a block which the set does not need.
const REMOVALS_MAX: usize = 64;
/// Candidates that are replayed.
const CANDIDATES_MAX: usize = 64;

/// How much work a pinning set is worth.
#[derive(Clone, Copy)]
pub struct Effort<'e> {
    /// Entries of the tables that are computed, at most; with fewer, the bound is lower.
    pub entries_max: u64,
    /// Blocks of a set that are freed for a trial, at most.
    pub freed_max: usize,
    /// Whether the time is over: the best set until then is returned.
    pub is_over: &'e dyn Fn() -> bool,
}

impl Effort<'_> {
    /// Without a limit of time.
    pub const FULL: Self = Self { entries_max: 1 << 26, freed_max: usize::MAX, is_over: &|| false };
}

/// How the request is served once the set is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The freed blocks and their free neighbours are one block that is large enough.
    OneBlock,
    /// Whole segments or pages go back to the device, which then has enough for a new segment.
    NewSegment,
    /// An expandable segment grows into the freed addresses or behind them.
    Growth,
    /// A search over all sets found it.
    Search,
}

/// A pinning set, by the addresses of the replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinning {
    /// Its blocks, ascending.
    pub blocks: Vec<Addr>,
    /// Their bytes.
    pub bytes: u64,
    /// No set with fewer bytes serves the request.
    pub lower_bound_bytes: u64,
    /// How the request is then served.
    pub way: Way,
}

/// The outcome of a search for a pinning set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinningSearch {
    /// The set; `None` where no set of live blocks serves the request, or the effort was not enough for one.
    pub found: Option<Pinning>,
    /// No set with fewer bytes serves the request; `None` where no set does.
    pub lower_bound_bytes: Option<u64>,
}

/// Searches for the pinning set of a refused request.
pub fn pinning(situation: &Situation, effort: Effort<'_>) -> PinningSearch {
    let sizes: Vec<(Addr, u64)> =
        situation.live().map(|block| (block.addr, block.size_bytes)).collect();
    let Some(smallest_bytes) = sizes.iter().map(|(_, size_bytes)| *size_bytes).min() else {
        return PinningSearch { found: None, lower_bound_bytes: None };
    };
    let size_of = |addr: &Addr| {
        let at = sizes.binary_search_by_key(addr, |(addr, _)| *addr);
        at.map_or(0, |at| sizes[at].1)
    };
    let bytes_of = |blocks: &HashSet<Addr>| blocks.iter().map(size_of).sum::<u64>();
    let lines = lines(situation);
    let (lower_bound_bytes, mut candidates) = candidates(situation, &lines, effort);
    // Without any block freed the request was refused.
    candidates.retain(|(_, blocks)| !blocks.is_empty());
    candidates.sort_by_cached_key(|(_, blocks)| bytes_of(blocks));
    candidates.truncate(CANDIDATES_MAX);
    let all = || {
        let is_tried = sizes.len() <= effort.freed_max;
        is_tried.then(|| (Way::NewSegment, sizes.iter().map(|(addr, _)| *addr).collect()))
    };
    let served = candidates
        .into_iter()
        .chain(std::iter::once_with(all).flatten())
        .take_while(|_| !(effort.is_over)())
        .filter(|(_, blocks)| blocks.len() <= effort.freed_max)
        .find(|(_, blocks)| situation.serves_without(blocks.iter().copied()));
    let lower_bound_bytes = lower_bound_bytes.max(smallest_bytes);
    let mut found = served.map(|(way, blocks)| {
        let blocks = without_needless(situation, blocks, &size_of, effort);
        Pinning { bytes: bytes_of(&blocks), blocks: sorted(blocks), lower_bound_bytes, way }
    });
    let is_open = found.as_ref().is_none_or(|found| found.bytes > lower_bound_bytes);
    if is_open && sizes.len() <= EXHAUSTIVE_BLOCKS && !(effort.is_over)() {
        let most_bytes = found.as_ref().map_or(u64::MAX, |found| found.bytes);
        let better = search_all(situation, &sizes, lower_bound_bytes..most_bytes, effort);
        let is_complete = !(effort.is_over)();
        let exact = |found: Pinning| {
            let lower_bound_bytes = if is_complete { found.bytes } else { found.lower_bound_bytes };
            Pinning { lower_bound_bytes, ..found }
        };
        found = better.or(found.map(exact));
    }
    let lower_bound_bytes = Some(lower_bound_bytes).filter(|bytes| *bytes < u64::MAX);
    PinningSearch { found, lower_bound_bytes }
}

/// The cheapest sets of each way, and the fewest bytes that any set has.
fn candidates(
    situation: &Situation,
    lines: &[Line],
    effort: Effort<'_>,
) -> (u64, Vec<(Way, HashSet<Addr>)>) {
    let entries_max = effort.entries_max;
    let (mut least_bytes, mut found) = (u64::MAX, Vec::new());
    if let Some(window) = cached(situation, lines) {
        least_bytes = window.cost_bytes;
        found.push((Way::OneBlock, live(window.pieces)));
    }
    let is_expandable = situation.config.expandable_segments;
    let page_bytes = size::page_bytes(!situation.is_large(), &situation.config);
    let windows = if is_expandable {
        mapped(situation, lines, page_bytes)
    } else {
        vec![Window { cost_bytes: 0, pieces: &[], mapped_bytes: situation.segment_bytes }]
    };
    let missing = |window: &Window<'_>| missing_bytes(situation, window.mapped_bytes);
    let most_bytes = windows.iter().map(missing).max().unwrap_or(0);
    // More than is reserved never comes back.
    let most_bytes = most_bytes.min(situation.before.reserved_bytes);
    let release = Release::new(lines, most_bytes, &HashSet::new(), entries_max);
    // The window's blocks are freed, and blocks that release the missing bytes; a block may be in both sets.
    let bound =
        |window: &Window<'_>| Some(release.cost_bytes(missing(window))?.max(window.cost_bytes));
    let mut windows: Vec<_> =
        windows.into_iter().filter_map(|window| Some((bound(&window)?, window))).collect();
    windows.sort_by_key(|(bound_bytes, _)| *bound_bytes);
    let solved_max = (entries_max as usize / release.entries().max(1)).clamp(1, CANDIDATES_MAX);
    let way = if is_expandable { Way::Growth } else { Way::NewSegment };
    for (at, (bound_bytes, window)) in windows.into_iter().enumerate() {
        if at >= solved_max || (effort.is_over)() {
            least_bytes = least_bytes.min(bound_bytes);
            break;
        }
        let (mut blocks, missing_bytes) = (live(window.pieces), missing(&window));
        let beside = Release::new(lines, missing_bytes.min(most_bytes), &blocks, entries_max);
        if let Some(cost_bytes) = beside.cost_bytes(missing_bytes) {
            blocks.extend(beside.blocks(missing_bytes));
            least_bytes = least_bytes.min(cost_bytes.saturating_add(window.cost_bytes));
            found.push((way, blocks));
        }
    }
    (least_bytes, found)
}

/// Bytes that have to go back to the device so that it can give so many.
fn missing_bytes(situation: &Situation, wanted_bytes: u64) -> u64 {
    let memory = &situation.before;
    let of_device = wanted_bytes.saturating_sub(memory.free_bytes);
    let with_segment = memory.reserved_bytes.saturating_add(situation.segment_bytes);
    let is_limited = memory.allowed_bytes < memory.total_bytes;
    let of_limit = if is_limited { with_segment.saturating_sub(memory.allowed_bytes) } else { 0 };
    of_device.max(of_limit)
}

/// The set without blocks that a replay does not need, the largest first.
fn without_needless(
    situation: &Situation,
    mut blocks: HashSet<Addr>,
    size_of: &impl Fn(&Addr) -> u64,
    effort: Effort<'_>,
) -> HashSet<Addr> {
    let mut members = sorted(blocks.clone());
    members.sort_by_key(|addr| std::cmp::Reverse(size_of(addr)));
    for addr in members.into_iter().take(REMOVALS_MAX).take_while(|_| !(effort.is_over)()) {
        blocks.remove(&addr);
        if blocks.is_empty() || !situation.serves_without(blocks.iter().copied()) {
            blocks.insert(addr);
        }
    }
    blocks
}

/// Replays every set whose bytes are within the range, those with the fewest first; the first that serves.
fn search_all(
    situation: &Situation,
    sizes: &[(Addr, u64)],
    range: Range<u64>,
    effort: Effort<'_>,
) -> Option<Pinning> {
    let members = |set: u32| {
        sizes.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1).map(|it| it.1)
    };
    let sets = (1..1_u32 << sizes.len()).map(|set| {
        let bytes: u64 = members(set).map(|(_, size_bytes)| size_bytes).sum();
        (bytes, set)
    });
    let mut sets: Vec<_> = sets.filter(|(bytes, _)| range.contains(bytes)).collect();
    sets.sort_unstable();
    let blocks = |set| members(set).map(|(addr, _)| *addr);
    let mut sets = sets.into_iter().take_while(|_| !(effort.is_over)());
    let (bytes, set) = sets.find(|(_, set)| situation.serves_without(blocks(*set)))?;
    let blocks = sorted(blocks(set).collect());
    Some(Pinning { blocks, bytes, lower_bound_bytes: bytes, way: Way::Search })
}

fn sorted(blocks: HashSet<Addr>) -> Vec<Addr> {
    let mut blocks: Vec<_> = blocks.into_iter().collect();
    blocks.sort_unstable();
    blocks
}
