//! Branch and bound for a given capacity, after Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
//! Hardware-Accelerated Machine Learning", ASPLOS 2023.
//!
//! Buffers are placed by ascending offsets, each as low as the buffers that were placed before allow. Of two buffers
//! with the same lowest offset the one goes first that an order of the buffers ranks first. A branch ends where a
//! buffer would leave a gap that another one fits into, or where a section, a time at which a maximal set of buffers
//! lives, has too little room above its floor for its buffers that are not placed yet. Parts of the problem without a
//! common buffer are searched apart.

use std::cmp::Reverse;
use std::ops::Range;

use crate::lives::Lives;
use crate::{Buffer, Packing};

/// No offset yet.
const NONE: u64 = u64::MAX;
/// Branches between two looks at the clock.
const TIMED_EVERY: u64 = 256;

/// The orders that are tried in turn: by length of life, area (bytes times length), and bytes that live together with
/// the buffer.
const ORDERS: [fn(&Rank) -> [u128; 3]; 3] = [
    |rank| [rank.length, rank.area, rank.total],
    |rank| [rank.total, rank.area, rank.length],
    |rank| [rank.total, rank.length, rank.area],
];

/// What an order goes by.
struct Rank {
    length: u128,
    area: u128,
    total: u128,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Found,
    Impossible,
    /// The branches or the time are used up.
    Stopped,
}

/// Finds packings that are lower than the best one, down to the goal, until it may not go on.
pub(crate) fn lower(
    buffers: &[Buffer],
    lives: &Lives,
    goal_bytes: u64,
    best: &mut Packing,
    is_over: &mut dyn FnMut() -> bool,
) {
    let mut search = Search::new(buffers, lives, is_over);
    let mut least_bytes = goal_bytes;
    let mut branches = buffers.len() as u64;
    while best.height_bytes > least_bytes && !search.timed_out {
        branches = branches.saturating_mul(2);
        // The least that is not known to be impossible, and something easier: a proof of that halves what is left.
        for easier in [false, true] {
            let middle_bytes = least_bytes.midpoint(best.height_bytes);
            let capacity_bytes = if easier { middle_bytes } else { least_bytes };
            match search.solve(capacity_bytes, branches) {
                Outcome::Found => *best = Packing::new(buffers, search.found.clone()),
                Outcome::Impossible => least_bytes = capacity_bytes + 1,
                Outcome::Stopped => continue,
            }
            if best.height_bytes <= least_bytes {
                break;
            }
        }
    }
}

/// Buffers that are searched together, and the sections in which they live.
struct Part {
    buffers: Vec<u32>,
    sections: Range<usize>,
}

struct Search<'s> {
    buffers: &'s [Buffer],
    /// The sections of each buffer.
    spans: Vec<Range<usize>>,
    /// The buffers of each section.
    sections: Vec<Vec<u32>>,
    /// The buffers that live together with each.
    beside: Vec<Vec<u32>>,
    capacity_bytes: u64,
    order: usize,
    branches_left: u64,
    is_over: &'s mut dyn FnMut() -> bool,
    timed_out: bool,

    offsets: Vec<u64>,
    found: Vec<u64>,
    /// The lowest offset that the placed buffers allow each of the others.
    lowest: Vec<u64>,
    /// The lowest offset of each section that a further buffer can have.
    floors: Vec<u64>,
    /// Bytes of each section that are not placed yet.
    totals: Vec<u64>,
    /// Buffers that are not placed yet and live in a section and the next.
    crossings: Vec<u32>,
    /// When a section was last updated, so that it is updated once.
    updated: Vec<u64>,
    now: u64,
}

impl<'s> Search<'s> {
    fn new(buffers: &'s [Buffer], lives: &Lives, is_over: &'s mut dyn FnMut() -> bool) -> Self {
        let spans = spans(buffers);
        let count = spans.iter().map(|span| span.end).max().unwrap_or(0);
        let mut sections = vec![Vec::new(); count];
        let mut totals = vec![0; count];
        let mut crossings = vec![0; count];
        for (at, span) in spans.iter().enumerate() {
            for section in span.clone() {
                sections[section].push(at as u32);
                totals[section] += buffers[at].size_bytes;
                crossings[section] += u32::from(section + 1 < span.end);
            }
        }
        let ids = 0..buffers.len() as u32;
        Self {
            buffers,
            sections,
            beside: ids.map(|id| lives.beside(buffers, id).collect()).collect(),
            capacity_bytes: 0,
            order: 0,
            branches_left: 0,
            is_over,
            timed_out: false,
            offsets: vec![NONE; buffers.len()],
            found: vec![NONE; buffers.len()],
            lowest: vec![0; buffers.len()],
            floors: vec![0; count],
            totals,
            crossings,
            updated: vec![0; count],
            now: 0,
            spans,
        }
    }

    /// Searches in each order, with so many branches for each.
    fn solve(&mut self, capacity_bytes: u64, branches: u64) -> Outcome {
        self.capacity_bytes = capacity_bytes;
        for order in 0..ORDERS.len() {
            self.order = order;
            self.branches_left = branches;
            let whole = 0..self.sections.len();
            let buffers = (0..self.buffers.len() as u32).collect();
            let mut parts = self.parts(buffers, whole.clone(), whole);
            parts.retain(|part| !part.buffers.is_empty());
            match self.solve_all(&parts) {
                Outcome::Stopped => {}
                ended => return ended,
            }
        }
        Outcome::Stopped
    }

    /// Splits sections where no buffer crosses; only where the `changed` ones end.
    fn parts(&self, buffers: Vec<u32>, sections: Range<usize>, changed: Range<usize>) -> Vec<Part> {
        let mut ends: Vec<usize> = (changed.start..changed.end.saturating_sub(1))
            .filter(|section| self.crossings[*section] == 0)
            .map(|section| section + 1)
            .collect();
        if ends.is_empty() {
            return vec![Part { buffers, sections }];
        }
        ends.push(sections.end);
        let mut start = sections.start;
        let mut parts = Vec::with_capacity(ends.len());
        for end in ends {
            let is_in = |id: &u32| {
                let span = &self.spans[*id as usize];
                self.offsets[*id as usize] == NONE && start <= span.start && span.end <= end
            };
            let buffers = buffers.iter().copied().filter(is_in).collect();
            parts.push(Part { buffers, sections: start..end });
            start = end;
        }
        parts
    }

    fn solve_all(&mut self, parts: &[Part]) -> Outcome {
        for part in parts.iter().filter(|part| !part.buffers.is_empty()) {
            let ranked = self.ranked(part);
            match self.search(part, &ranked, (0, 0)) {
                Outcome::Found => {}
                ended => return ended,
            }
        }
        Outcome::Found
    }

    /// The buffers of a part in the order in question.
    fn ranked(&self, part: &Part) -> Vec<u32> {
        let mut ranked = part.buffers.clone();
        ranked.sort_by_cached_key(|id| {
            let buffer = &self.buffers[*id as usize];
            let length = u128::from(buffer.upper.abs_diff(buffer.lower));
            let totals = &self.totals[self.spans[*id as usize].clone()];
            let total = totals.iter().copied().max().unwrap_or(0);
            let area = length * u128::from(buffer.size_bytes);
            Reverse(ORDERS[self.order](&Rank { length, area, total: u128::from(total) }))
        });
        ranked
    }

    /// Places the buffers of a part that are not placed yet, at this offset and rank or above.
    fn search(&mut self, part: &Part, ranked: &[u32], least: (u64, usize)) -> Outcome {
        if self.branches_left == 0 || self.timed_out {
            return Outcome::Stopped;
        }
        self.branches_left -= 1;
        if self.branches_left.is_multiple_of(TIMED_EVERY) && (self.is_over)() {
            self.timed_out = true;
        }
        let mut open: Vec<(u64, usize)> = ranked
            .iter()
            .enumerate()
            .filter(|(_, id)| self.offsets[**id as usize] == NONE)
            .map(|(rank, id)| (self.lowest[*id as usize], rank))
            .collect();
        if open.is_empty() {
            for id in &part.buffers {
                self.found[*id as usize] = self.offsets[*id as usize];
            }
            return Outcome::Found;
        }
        open.sort_unstable();
        let size_of = |rank: usize| self.buffers[ranked[rank] as usize].size_bytes;
        // A buffer at or above the end of another one leaves a gap that the other fits into.
        let roof = open.iter().map(|(offset, rank)| offset + size_of(*rank)).min();
        let roof = roof.expect("a buffer is open");
        for (offset, rank) in open {
            if offset >= roof {
                break;
            }
            if (offset, rank) < least {
                continue;
            }
            let id = ranked[rank];
            let mut undo = Undo::default();
            self.place(id, offset, &mut undo);
            let outcome = if self.has_room(part, offset) {
                self.go_on(part, ranked, (offset, rank), id)
            } else {
                Outcome::Impossible
            };
            let is_under_none = undo.is_under_none;
            self.take_back(id, undo);
            // With no buffer above it, it is as well placed as it can be.
            if outcome != Outcome::Impossible || is_under_none {
                return outcome;
            }
        }
        Outcome::Impossible
    }

    /// Searches the rest, in parts where the buffer was the last to connect them.
    fn go_on(&mut self, part: &Part, ranked: &[u32], least: (u64, usize), id: u32) -> Outcome {
        let span = self.spans[id as usize].clone();
        for section in span.start..span.end - 1 {
            self.crossings[section] -= 1;
        }
        let is_split = (span.start..span.end - 1).any(|section| self.crossings[section] == 0);
        let outcome = if is_split {
            for id in &part.buffers {
                self.found[*id as usize] = self.offsets[*id as usize];
            }
            let parts = self.parts(part.buffers.clone(), part.sections.clone(), span.clone());
            self.solve_all(&parts)
        } else {
            self.search(part, ranked, least)
        };
        for section in span.start..span.end - 1 {
            self.crossings[section] += 1;
        }
        outcome
    }

    fn place(&mut self, id: u32, offset: u64, undo: &mut Undo) {
        let at = id as usize;
        let end = offset + self.buffers[at].size_bytes;
        self.offsets[at] = offset;
        for section in self.spans[at].clone() {
            undo.floors.push((section, self.floors[section]));
            self.floors[section] = end;
            self.totals[section] -= self.buffers[at].size_bytes;
        }
        self.now += 1;
        undo.is_under_none = true;
        let mut changed = Vec::new();
        for other in &self.beside[at] {
            let other = *other as usize;
            if self.offsets[other] != NONE {
                continue;
            }
            undo.is_under_none = false;
            let lowest = end.next_multiple_of(self.buffers[other].alignment_bytes);
            if self.lowest[other] < lowest {
                undo.lowest.push((other, self.lowest[other]));
                self.lowest[other] = lowest;
                for section in self.spans[other].clone() {
                    if self.updated[section] != self.now {
                        self.updated[section] = self.now;
                        changed.push(section);
                    }
                }
            }
        }
        // The floor of a section is where its lowest buffer can be.
        for section in changed {
            let open = self.sections[section].iter().map(|other| *other as usize);
            let open = open.filter(|other| self.offsets[*other] == NONE);
            if let Some(lowest) = open.map(|other| self.lowest[other]).min()
                && self.floors[section] < lowest
            {
                undo.floors.push((section, self.floors[section]));
                self.floors[section] = lowest;
            }
        }
    }

    fn take_back(&mut self, id: u32, undo: Undo) {
        for (section, floor) in undo.floors.into_iter().rev() {
            self.floors[section] = floor;
        }
        for (other, lowest) in undo.lowest {
            self.lowest[other] = lowest;
        }
        for section in self.spans[id as usize].clone() {
            self.totals[section] += self.buffers[id as usize].size_bytes;
        }
        self.offsets[id as usize] = NONE;
    }

    /// Whether what is not placed yet fits above the floor of every section, where no buffer goes below `offset`.
    fn has_room(&self, part: &Part, offset: u64) -> bool {
        part.sections.clone().all(|section| {
            self.floors[section].max(offset) + self.totals[section] <= self.capacity_bytes
        })
    }
}

/// The state before a placement.
#[derive(Default)]
struct Undo {
    floors: Vec<(usize, u64)>,
    lowest: Vec<(usize, u64)>,
    /// No buffer that is not placed yet lives together with it.
    is_under_none: bool,
}

/// The sections of each buffer: a section ends where a buffer does after others began.
fn spans(buffers: &[Buffer]) -> Vec<Range<usize>> {
    let mut moments: Vec<(i64, bool, usize)> = Vec::with_capacity(2 * buffers.len());
    for (at, buffer) in buffers.iter().enumerate() {
        moments.extend([(buffer.lower, true, at), (buffer.upper, false, at)]);
    }
    moments.sort_unstable();
    let mut spans = vec![0..0; buffers.len()];
    let (mut section, mut began) = (0, false);
    for (_, begins, at) in moments {
        if begins {
            spans[at].start = section;
        } else {
            section += usize::from(began);
            spans[at].end = section;
        }
        began = begins;
    }
    spans
}
