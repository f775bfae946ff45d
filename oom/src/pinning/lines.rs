//! Segments as lines of pieces: what is live, free, awaited or unmapped, in the order of addresses.

use std::collections::HashSet;

use allocator::heap::base_ranges;
use allocator::size;
use events::{Addr, BlockState, BlockStatus, SegmentState};

use crate::situation::Situation;

/// What a piece of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// A free block.
    Free,
    /// A block that is handed out.
    Live,
    /// A free that waits for other streams.
    Pending,
    /// Addresses without memory.
    Unmapped,
}

/// A block, or addresses between blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) addr: Addr,
    pub(crate) size_bytes: u64,
    pub(crate) kind: PieceKind,
}

impl Piece {
    /// Bytes that have to be freed so that the piece is free.
    pub(crate) fn cost_bytes(&self) -> u64 {
        if self.kind == PieceKind::Live { self.size_bytes } else { 0 }
    }

    pub(crate) fn end(&self) -> u64 {
        self.addr.0.saturating_add(self.size_bytes)
    }
}

/// Which requests the free blocks of a line serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serves {
    /// The one that was refused: it is of their pool, half and stream.
    Own,
    /// That one too, before memory is out: their pool lends.
    Lent,
    /// Others.
    Others,
}

/// A segment, or the address range of an expandable one with its unmapped parts.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// What its free blocks are to the request.
    pub(crate) serves: Serves,
    pub(crate) is_expandable: bool,
    /// Whether the allocator returns its free memory for the request.
    pub(crate) is_flushed: bool,
    /// The pages that can be unmapped; of other segments the whole.
    pub(crate) page_bytes: u64,
    pub(crate) pieces: Vec<Piece>,
}

impl Line {
    /// The stretches of mapped pieces.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &[Piece]> {
        let is_mapped = |piece: &Piece| piece.kind != PieceKind::Unmapped;
        self.pieces.split(move |piece| !is_mapped(piece)).filter(|run| !run.is_empty())
    }
}

/// The lines of a situation, by address.
pub(crate) fn lines(situation: &Situation) -> Vec<Line> {
    let (base, config) = (&situation.base, &situation.config);
    let total_bytes = situation.before.total_bytes;
    let mut lines = Vec::new();
    let plain = base.segments.iter().filter(|segment| !segment.is_expandable);
    for segment in plain {
        let pieces = segment.blocks.iter().map(piece).collect();
        lines.push(Line { pieces, ..line(situation, segment, segment.size_bytes) });
    }
    let reserve_bytes = config.segment_reserve.bytes(total_bytes);
    let ranges = base_ranges(base, size::page_bytes(false, config), reserve_bytes);
    for range in ranges.iter().filter(|range| !range.runs.is_empty()) {
        let end = range.addr.0.saturating_add(reserve_bytes.next_multiple_of(range.page_bytes));
        let (mut pieces, mut at) = (Vec::new(), range.addr.0);
        for run in &range.runs {
            push_unmapped(&mut pieces, at, run.addr.0);
            pieces.extend(run.blocks.iter().map(piece));
            at = run.addr.0.saturating_add(run.size_bytes);
        }
        push_unmapped(&mut pieces, at, end);
        lines.push(Line { pieces, ..line(situation, range.runs[0], range.page_bytes) });
    }
    lines
}

fn push_unmapped(pieces: &mut Vec<Piece>, from: u64, to: u64) {
    if to > from {
        pieces.push(Piece { addr: Addr(from), size_bytes: to - from, kind: PieceKind::Unmapped });
    }
}

fn piece(block: &BlockState) -> Piece {
    let kind = match block.status {
        BlockStatus::Allocated => PieceKind::Live,
        BlockStatus::PendingFree => PieceKind::Pending,
        BlockStatus::Inactive => PieceKind::Free,
    };
    Piece { addr: block.addr, size_bytes: block.size_bytes, kind }
}

fn line(situation: &Situation, segment: &SegmentState, page_bytes: u64) -> Line {
    let lends = situation.pool().is_default()
        && situation.base.order.lending_pools.contains(&segment.pool)
        && segment.stream == situation.request.stream
        && segment.is_large == situation.is_large();
    let serves = match situation.is_own(segment) {
        true => Serves::Own,
        false if lends => Serves::Lent,
        false => Serves::Others,
    };
    Line {
        serves,
        is_expandable: segment.is_expandable,
        is_flushed: situation.is_flushed(segment),
        page_bytes,
        pieces: Vec::new(),
    }
}

/// The live blocks among these pieces.
pub(crate) fn live<'p>(pieces: impl IntoIterator<Item = &'p Piece>) -> HashSet<Addr> {
    let live = pieces.into_iter().filter(|piece| piece.kind == PieceKind::Live);
    live.map(|piece| piece.addr).collect()
}
