//! Stretches of one line that serve the request once they are free.

use std::ops::Range;

use super::lines::{Line, Piece, PieceKind, Serves};
use crate::situation::Situation;
use allocator::size;

/// Blocks that make room for the request when they are freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'l> {
    /// Bytes of its live blocks.
    pub(crate) cost_bytes: u64,
    /// Its pieces, live and free.
    pub(crate) pieces: &'l [Piece],
    /// Memory that the device has to map for the rest.
    pub(crate) mapped_bytes: u64,
}

/// A stretch of pieces, as places among them.
struct Stretch {
    places: Range<usize>,
    cost_bytes: u64,
    /// Bytes of its unmapped pieces.
    unmapped_bytes: u64,
    /// Bytes beyond those that were asked for.
    rest_bytes: u64,
}

/// For each piece the shortest stretch from it on that holds so many bytes.
fn stretches(pieces: &[Piece], size_bytes: u64) -> impl Iterator<Item = Stretch> + '_ {
    let unmapped = |piece: &Piece| match piece.kind {
        PieceKind::Unmapped => piece.size_bytes,
        _ => 0,
    };
    let (mut end, mut held_bytes, mut cost_bytes, mut unmapped_bytes) = (0, 0_u64, 0, 0);
    (0..pieces.len()).map_while(move |begin| {
        while held_bytes < size_bytes && end < pieces.len() {
            held_bytes += pieces[end].size_bytes;
            cost_bytes += pieces[end].cost_bytes();
            unmapped_bytes += unmapped(&pieces[end]);
            end += 1;
        }
        let rest_bytes = held_bytes.checked_sub(size_bytes)?;
        let stretch = Stretch { places: begin..end, cost_bytes, unmapped_bytes, rest_bytes };
        held_bytes -= pieces[begin].size_bytes;
        cost_bytes -= pieces[begin].cost_bytes();
        unmapped_bytes -= unmapped(&pieces[begin]);
        Some(stretch)
    })
}

/// The cheapest window in which a search of the cache finds the request's block.
pub(crate) fn cached<'l>(situation: &Situation, lines: &'l [Line]) -> Option<Window<'l>> {
    let config = &situation.config;
    // The search comes before the flush that completes pending frees, and after it only where it is configured.
    let is_searched_again = config.search_after_flush && !situation.is_captured();
    let blocks_way = |piece: &Piece| match piece.kind {
        PieceKind::Unmapped => true,
        PieceKind::Pending => !is_searched_again,
        PieceKind::Free | PieceKind::Live => false,
    };
    let is_free = |piece: &Piece| piece.kind == PieceKind::Free;
    let mut best: Option<(u64, &[Piece])> = None;
    for line in lines.iter().filter(|line| line.serves != Serves::Others) {
        for run in line.pieces.split(blocks_way) {
            for Stretch { places, cost_bytes, .. } in stretches(run, situation.size_bytes) {
                let Range { start, end } = places;
                if best.is_some_and(|(best_bytes, _)| best_bytes <= cost_bytes) {
                    continue;
                }
                // Free neighbours become part of the block, which may then be too large for the settings.
                let before = run[..start].iter().rev().take_while(|piece| is_free(piece));
                let behind = run[end..].iter().take_while(|piece| is_free(piece));
                let whole = run[start..end].iter().chain(before).chain(behind);
                let whole_bytes = whole.map(|piece| piece.size_bytes).sum();
                if size::serves(config, line.is_expandable, whole_bytes, situation.size_bytes) {
                    best = Some((cost_bytes, &run[start..end]));
                }
            }
        }
    }
    let (cost_bytes, pieces) = best?;
    Some(Window { cost_bytes, pieces, mapped_bytes: 0 })
}

/// Windows in which an expandable segment can be mapped for the request after a flush.
///
/// The allocator takes the lowest hole that has room, not the one that needs least. A hole without live blocks has room
/// whatever is freed, so of these only the first of each segment counts; with one there is no new segment.
pub(crate) fn mapped<'l>(
    situation: &Situation,
    lines: &'l [Line],
    page_bytes: u64,
) -> Vec<Window<'l>> {
    let size_bytes = situation.size_bytes;
    let (mut windows, mut has_hole) = (Vec::new(), false);
    let own = |line: &&Line| line.serves == Serves::Own && line.is_expandable;
    for line in lines.iter().filter(own) {
        let mut is_first = true;
        let blocks_way =
            |piece: &Piece| piece.kind == PieceKind::Pending && situation.is_captured();
        for run in line.pieces.split(blocks_way) {
            for stretch in stretches(run, size_bytes) {
                let window = &run[stretch.places.clone()];
                let Some(mapped_bytes) = missing_bytes(line, window, &stretch) else { continue };
                let cost_bytes = stretch.cost_bytes;
                if cost_bytes == 0 {
                    has_hole = true;
                    if !std::mem::take(&mut is_first) {
                        continue;
                    }
                }
                windows.push(Window { cost_bytes, pieces: window, mapped_bytes });
            }
        }
    }
    if !has_hole {
        let mapped_bytes = size_bytes.next_multiple_of(page_bytes);
        windows.push(Window { cost_bytes: 0, pieces: &[], mapped_bytes });
    }
    windows
}

/// Memory to map so that the window holds the request, after a flush took its whole pages out of it; `None` where it
/// has neither unmapped addresses nor a whole page.
fn missing_bytes(line: &Line, window: &[Piece], stretch: &Stretch) -> Option<u64> {
    let (first, last) = (window.first()?, window.last()?);
    let page_bytes = line.page_bytes;
    if line.is_flushed {
        let origin = line.pieces.first()?.addr.0;
        let (begin, end) = (first.addr.0 - origin, last.end() - origin);
        let used = (end - stretch.rest_bytes).div_ceil(page_bytes).min(end / page_bytes);
        let pages = used.checked_sub(begin.div_ceil(page_bytes)).filter(|pages| *pages > 0)?;
        return Some(pages * page_bytes);
    }
    if stretch.unmapped_bytes == 0 {
        return None;
    }
    if last.kind != PieceKind::Unmapped {
        return Some(stretch.unmapped_bytes);
    }
    let used_bytes = last.size_bytes - stretch.rest_bytes;
    Some(stretch.unmapped_bytes - last.size_bytes + used_bytes.next_multiple_of(page_bytes))
}
