//! The fewest live bytes whose release returns so much memory to the device.
//!
//! A whole segment returns its size once all of its blocks are free, and a page of an expandable segment once all
//! blocks that reach into it are. So this is a knapsack that has to be covered, solved exactly by dynamic programming
//! in units of the device's granularity; pages of one run share the blocks that lie across their border. Where the
//! table would be too large the units are coarser, and the answer is a lower bound.

use std::collections::HashSet;

use events::Addr;
use sim_device::SimConfig;

use super::lines::{Line, Piece, PieceKind, live};

/// What is released together: a segment, or a page.
struct Item<'l> {
    /// Memory that comes back.
    gain_units: u64,
    /// The pieces that have to be free.
    pieces: &'l [Piece],
    /// Bytes of the live ones.
    cost_bytes: u64,
    /// The same without those that the item before reaches, where that is the page before; else the same.
    cost_after_bytes: u64,
}

/// The solution for each amount up to a limit.
pub(crate) struct Release<'l> {
    unit_bytes: u64,
    items: Vec<Item<'l>>,
    /// Bytes that come back without freeing anything.
    free_bytes: u64,
    /// The fewest bytes for each number of units beyond those.
    best_bytes: Vec<u64>,
    /// For each item and number of units: whether the item before is released, if this one is not and if it is.
    choices: [Bits; 2],
    /// Whether the last item is released, for each number of units.
    ends_released: Vec<bool>,
}

/// More than any block.
const NEVER: u64 = u64::MAX;

impl<'l> Release<'l> {
    /// Solves for every amount up to `most_bytes`, where these blocks are freed in any case.
    /// The table has about `entries_max` entries at most; with 1 << 26 of them, its choices take 16 MiB.
    pub(crate) fn new(
        lines: &'l [Line],
        most_bytes: u64,
        freed: &HashSet<Addr>,
        entries_max: u64,
    ) -> Self {
        let mut unit_bytes = SimConfig::GRANULARITY_BYTES;
        let count = lines.iter().filter(|line| line.is_flushed).map(items_of).sum::<u64>().max(1);
        while (most_bytes / unit_bytes).saturating_mul(count) > entries_max {
            unit_bytes *= 2;
        }
        let (mut items, mut free_bytes) = (Vec::new(), 0);
        for line in lines.iter().filter(|line| line.is_flushed) {
            free_bytes += push_items(line, unit_bytes, freed, &mut items);
        }
        let most_units = most_bytes.saturating_sub(free_bytes).div_ceil(unit_bytes);
        Self::solve(items, unit_bytes, free_bytes, most_units as usize)
    }

    fn solve(items: Vec<Item<'l>>, unit_bytes: u64, free_bytes: u64, most_units: usize) -> Self {
        let width = most_units + 1;
        let mut choices = [Bits::new(items.len() * width), Bits::new(items.len() * width)];
        // The fewest bytes where the last item stays, and where it is released.
        let mut stays = vec![NEVER; width];
        let mut goes = vec![NEVER; width];
        stays[0] = 0;
        let (mut next_stays, mut next_goes) = (stays.clone(), goes.clone());
        for (at, item) in items.iter().enumerate() {
            for units in 0..width {
                let place = at * width + units;
                next_stays[units] = stays[units].min(goes[units]);
                choices[0].set(place, goes[units] < stays[units]);
                let left = units.saturating_sub(item.gain_units as usize);
                let after_stay = stays[left].saturating_add(item.cost_bytes);
                let after_go = goes[left].saturating_add(item.cost_after_bytes);
                next_goes[units] = after_stay.min(after_go);
                choices[1].set(place, after_go < after_stay);
            }
            std::mem::swap(&mut stays, &mut next_stays);
            std::mem::swap(&mut goes, &mut next_goes);
        }
        let best_bytes = stays.iter().zip(&goes).map(|(stays, goes)| *stays.min(goes)).collect();
        let ends_released = stays.iter().zip(&goes).map(|(stays, goes)| goes < stays).collect();
        Self { unit_bytes, items, free_bytes, best_bytes, choices, ends_released }
    }

    /// The entry for an amount; `None` beyond the limit.
    fn units(&self, bytes: u64) -> Option<usize> {
        let units = bytes.saturating_sub(self.free_bytes).div_ceil(self.unit_bytes) as usize;
        (units < self.best_bytes.len()).then_some(units)
    }

    /// Entries of the table.
    pub(crate) fn entries(&self) -> usize {
        self.items.len() * self.best_bytes.len()
    }

    /// The fewest bytes to free for so many that come back; `None` where nothing is enough.
    pub(crate) fn cost_bytes(&self, bytes: u64) -> Option<u64> {
        let cost_bytes = self.best_bytes[self.units(bytes)?];
        (cost_bytes != NEVER).then_some(cost_bytes)
    }

    /// The blocks to free for that.
    pub(crate) fn blocks(&self, bytes: u64) -> HashSet<Addr> {
        let mut blocks = HashSet::new();
        let Some(mut units) = self.units(bytes) else { return blocks };
        let width = self.best_bytes.len();
        let mut is_released = self.ends_released[units];
        for (at, item) in self.items.iter().enumerate().rev() {
            let place = at * width + units;
            if is_released {
                blocks.extend(live(item.pieces));
                is_released = self.choices[1].get(place);
                units = units.saturating_sub(item.gain_units as usize);
            } else {
                is_released = self.choices[0].get(place);
            }
        }
        blocks
    }
}

/// How many items a line has, at most.
fn items_of(line: &Line) -> u64 {
    if !line.is_expandable {
        return 1;
    }
    let mapped = line.pieces.iter().filter(|piece| piece.kind != PieceKind::Unmapped);
    mapped.map(|piece| piece.size_bytes).sum::<u64>() / line.page_bytes.max(1)
}

/// Adds the items of a line that something is live in; returns the bytes that come back in any case.
fn push_items<'l>(
    line: &'l Line,
    unit_bytes: u64,
    freed: &HashSet<Addr>,
    items: &mut Vec<Item<'l>>,
) -> u64 {
    if !line.is_expandable {
        let cost_bytes: u64 = line.pieces.iter().map(|piece| cost(piece, freed)).sum();
        let granules = line.page_bytes.next_multiple_of(SimConfig::GRANULARITY_BYTES);
        if cost_bytes == 0 {
            return granules;
        }
        let (pieces, gain_units) = (line.pieces.as_slice(), granules.div_ceil(unit_bytes));
        let cost_after_bytes = cost_bytes;
        items.push(Item { gain_units, pieces, cost_bytes, cost_after_bytes });
        return 0;
    }
    let page_bytes = line.page_bytes;
    line.runs().map(|run| push_pages(run, page_bytes, unit_bytes, freed, items)).sum()
}

fn push_pages<'l>(
    run: &'l [Piece],
    page_bytes: u64,
    unit_bytes: u64,
    freed: &HashSet<Addr>,
    items: &mut Vec<Item<'l>>,
) -> u64 {
    let (mut free_bytes, mut first, mut is_next) = (0, 0, false);
    let (begin, end) = (run[0].addr.0, run[run.len() - 1].end());
    for page in (begin..end).step_by(usize::try_from(page_bytes).unwrap_or(usize::MAX)) {
        while run[first].end() <= page {
            first += 1;
        }
        let reaching = run[first..].iter().take_while(|it| it.addr.0 < page + page_bytes).count();
        let pieces = &run[first..first + reaching];
        let cost_bytes: u64 = pieces.iter().map(|piece| cost(piece, freed)).sum();
        if cost_bytes == 0 {
            free_bytes += page_bytes;
            is_next = false;
            continue;
        }
        let shared = pieces.first().filter(|piece| is_next && piece.addr.0 < page);
        let cost_after_bytes = cost_bytes - shared.map_or(0, |piece| cost(piece, freed));
        let gain_units = page_bytes.div_ceil(unit_bytes);
        items.push(Item { gain_units, pieces, cost_bytes, cost_after_bytes });
        is_next = true;
    }
    free_bytes
}

/// Bytes to free so that a piece is free, beside those that are freed in any case.
fn cost(piece: &Piece, freed: &HashSet<Addr>) -> u64 {
    if freed.contains(&piece.addr) { 0 } else { piece.cost_bytes() }
}

/// Choices, one bit each.
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    fn set(&mut self, at: usize, bit: bool) {
        self.0[at / 64] |= u64::from(bit) << (at % 64);
    }

    fn get(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::lines::Serves;
    use super::*;

    const PAGE: u64 = SimConfig::GRANULARITY_BYTES;

    fn line(sizes: &[(u64, bool)], addr: u64, is_expandable: bool) -> Line {
        let mut at = addr;
        let mut pieces: Vec<Piece> = Vec::new();
        for (size_bytes, is_live) in sizes {
            let kind = if *is_live { PieceKind::Live } else { PieceKind::Free };
            pieces.push(Piece { addr: Addr(at), size_bytes: *size_bytes, kind });
            at += size_bytes;
        }
        let rest = at.next_multiple_of(PAGE) - at;
        if rest > 0 {
            pieces.push(Piece { addr: Addr(at), size_bytes: rest, kind: PieceKind::Free });
        }
        let size_bytes = at.next_multiple_of(PAGE) - addr;
        let page_bytes = if is_expandable { PAGE } else { size_bytes };
        Line { serves: Serves::Own, is_expandable, is_flushed: true, page_bytes, pieces }
    }

    /// Bytes that come back when these blocks are free.
    fn released(lines: &[Line], freed: &HashSet<Addr>) -> u64 {
        let is_free = |piece: &Piece| piece.kind != PieceKind::Live || freed.contains(&piece.addr);
        let of_line = |line: &Line| {
            if !line.is_expandable {
                return if line.pieces.iter().all(is_free) { line.page_bytes } else { 0 };
            }
            let (begin, end) = (line.pieces[0].addr.0, line.pieces[line.pieces.len() - 1].end());
            let pages = (begin..end).step_by(PAGE as usize);
            let reaches =
                |piece: &&Piece, page: u64| piece.addr.0 < page + PAGE && piece.end() > page;
            let whole = pages.filter(|page| {
                line.pieces.iter().filter(|piece| reaches(piece, *page)).all(is_free)
            });
            whole.count() as u64 * PAGE
        };
        lines.iter().map(of_line).sum()
    }

    proptest! {
        #[test]
        fn the_blocks_return_the_amount_and_no_fewer_bytes_do(
            sizes in prop::collection::vec((1..12_u64, any::<bool>()), 2..12),
            cuts in prop::collection::vec(any::<bool>(), 12),
            wanted in 1..9_u64,
        ) {
            let (mut lines, mut part): (Vec<Line>, Vec<(u64, bool)>) = (Vec::new(), Vec::new());
            for (at, (eighths, is_live)) in sizes.iter().enumerate() {
                part.push((eighths * PAGE / 4, *is_live));
                if cuts[at] || at + 1 == sizes.len() {
                    lines.push(line(&part, (1 + lines.len() as u64) << 40, lines.len() % 2 == 0));
                    part.clear();
                }
            }
            let wanted_bytes = wanted * PAGE;
            let release = Release::new(&lines, 10 * PAGE, &HashSet::new(), 1 << 20);
            let all: Vec<&Piece> = lines.iter().flat_map(|line| &line.pieces).collect();
            let all: Vec<_> = all.into_iter().filter(|it| it.kind == PieceKind::Live).collect();
            let mut best = None;
            for chosen in 0..1_u32 << all.len() {
                let of = || all.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
                let freed = of().map(|(_, piece)| piece.addr).collect();
                if released(&lines, &freed) >= wanted_bytes {
                    let bytes: u64 = of().map(|(_, piece)| piece.size_bytes).sum();
                    best = Some(best.map_or(bytes, |best: u64| best.min(bytes)));
                }
            }
            prop_assert_eq!(release.cost_bytes(wanted_bytes), best);
            if best.is_some() {
                let blocks = release.blocks(wanted_bytes);
                prop_assert!(released(&lines, &blocks) >= wanted_bytes);
                let freed = all.iter().filter(|piece| blocks.contains(&piece.addr));
                prop_assert_eq!(Some(freed.map(|piece| piece.size_bytes).sum()), best);
            }
        }
    }
}
