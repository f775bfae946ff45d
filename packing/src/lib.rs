//! Dynamic storage allocation: offsets for buffers whose lifetimes are known. Buffers that live at the same time do not
//! overlap, and the highest end should be low. The problem is strongly NP-hard (Garey and Johnson, SR2).
//!
//! [`pack`] first packs greedily, in several orders (`rise.rs`). A problem of few buffers is then searched by branch
//! and bound (`search.rs`); one of many is packed in further orders as long as there is time. [`check`] shares no code
//! with either.
#![forbid(unsafe_code)]

pub mod check;
mod first_fit;
mod lives;
mod rise;
mod search;

use lives::Lives;

/// Buffers of a problem that is searched: a branch takes a look at all.
const SEARCHED_BUFFERS: usize = 2000;
/// Orders that are tried before a search.
const ORDERS_BEFORE_SEARCH: usize = 30;

/// A buffer: its size and its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The first moment of its life, in any unit.
    pub lower: i64,
    /// The first moment after its life.
    pub upper: i64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its offset is a multiple of this; at least 1.
    pub alignment_bytes: u64,
}

/// Offsets of buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The offset of each buffer in bytes.
    pub offsets: Vec<u64>,
    /// The highest end.
    pub height_bytes: u64,
}

impl Packing {
    fn new(buffers: &[Buffer], offsets: Vec<u64>) -> Self {
        let ends = buffers.iter().zip(&offsets).map(|(buffer, offset)| offset + buffer.size_bytes);
        Self { height_bytes: ends.max().unwrap_or(0), offsets }
    }
}

/// The most bytes that live at once: no packing is lower.
pub fn bound_bytes(buffers: &[Buffer]) -> u64 {
    Lives::new(buffers).bound_bytes(buffers)
}

/// Packs with room to spare: some percent above the bound.
pub fn pack_loosely(buffers: &[Buffer]) -> Packing {
    first_fit::pack(buffers, &Lives::new(buffers))
}

/// Packs buffers into `capacity_bytes`, or as low as it can until `is_over`. At least one packing is made. Buffers of
/// no size are at 0.
pub fn pack(
    buffers: &[Buffer],
    capacity_bytes: Option<u64>,
    is_over: &mut dyn FnMut() -> bool,
) -> Packing {
    let sized: Vec<Buffer> =
        buffers.iter().copied().filter(|buffer| buffer.size_bytes > 0).collect();
    let packed = pack_sized(&sized, capacity_bytes, is_over);
    let mut offsets = packed.offsets.into_iter();
    let place = |buffer: &Buffer| {
        let offset = if buffer.size_bytes > 0 { offsets.next() } else { None };
        offset.unwrap_or(0)
    };
    Packing { offsets: buffers.iter().map(place).collect(), height_bytes: packed.height_bytes }
}

fn pack_sized(
    buffers: &[Buffer],
    capacity_bytes: Option<u64>,
    is_over: &mut dyn FnMut() -> bool,
) -> Packing {
    let lives = Lives::new(buffers);
    let bound_bytes = lives.bound_bytes(buffers);
    let goal_bytes = capacity_bytes.unwrap_or(bound_bytes).max(bound_bytes);
    let searched = buffers.len() <= SEARCHED_BUFFERS;
    let tries = if searched { ORDERS_BEFORE_SEARCH } else { usize::MAX };
    let mut best = rise::pack(buffers, &lives, goal_bytes, tries, is_over);
    if searched && best.height_bytes > goal_bytes {
        search::lower(buffers, &lives, goal_bytes, &mut best, is_over);
    }
    best
}
