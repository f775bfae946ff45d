//! Greedy packing by ascending offsets: the next buffer is the one that the placed ones leave the lowest offset, and of
//! several the one that is ranked first. On recorded runs it ends at the bound or within a few thousandths of it, where
//! placing in the order of the ranks alone is up to 11 % above it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::lives::Lives;
use crate::{Buffer, Packing};

/// No offset yet.
const NONE: u64 = u64::MAX;

/// The ranks of an order, and between equals.
type Order = fn(&Buffer) -> (f64, f64);

/// Ranks by size, by area (bytes times length of life), and by length of life; then by the other one. The greatest is
/// the first.
const ORDERS: [Order; 3] = [
    |buffer| (size(buffer), length(buffer)),
    |buffer| (size(buffer) * length(buffer), length(buffer)),
    |buffer| (length(buffer), size(buffer)),
];
/// Steps between two looks at the clock.
const TIMED_EVERY: u32 = 1024;

fn size(buffer: &Buffer) -> f64 {
    buffer.size_bytes as f64
}

fn length(buffer: &Buffer) -> f64 {
    buffer.upper.abs_diff(buffer.lower) as f64
}

/// Packs by each order, and then by orders that chance changes a little, until the goal is reached, so many were tried,
/// or the time is over. The same tries give the same packing.
pub(crate) fn pack(
    buffers: &[Buffer],
    lives: &Lives,
    goal_bytes: u64,
    tries: usize,
    is_over: &mut dyn FnMut() -> bool,
) -> Packing {
    let mut chance = fastrand::Rng::with_seed(0);
    let mut best: Option<Packing> = None;
    for attempt in 0..tries.max(1) {
        let order = ORDERS[attempt % ORDERS.len()];
        // The orders as they are, then changed by up to a tenth, two tenths and so on.
        let spread = 0.1 * (attempt / ORDERS.len()) as f64;
        let mut change = || 1.0 + spread.min(1.0) * chance.f64();
        let keys: Vec<_> =
            buffers.iter().map(order).map(|(first, second)| (first * change(), second)).collect();
        let mut ranked: Vec<u32> = (0..buffers.len() as u32).collect();
        ranked.sort_by(|one, other| {
            let ((one, one_second), (other, other_second)) =
                (keys[*one as usize], keys[*other as usize]);
            other.total_cmp(&one).then(other_second.total_cmp(&one_second))
        });
        let mut ranks = vec![0; buffers.len()];
        for (rank, id) in (0..).zip(ranked) {
            ranks[id as usize] = rank;
        }
        let mut is_over_now = || best.is_some() && is_over();
        let Some(made) = rise(buffers, lives, &ranks, &mut is_over_now) else { break };
        if best.as_ref().is_none_or(|best| made.height_bytes < best.height_bytes) {
            best = Some(made);
        }
        if best.as_ref().is_some_and(|best| best.height_bytes <= goal_bytes) || is_over() {
            break;
        }
    }
    best.expect("at least one try")
}

/// Places buffers by ascending offsets, unless the time is over before.
fn rise(
    buffers: &[Buffer],
    lives: &Lives,
    ranks: &[u32],
    is_over: &mut dyn FnMut() -> bool,
) -> Option<Packing> {
    let mut steps = 0_u32;
    let mut offsets = vec![NONE; buffers.len()];
    // The lowest offset that the placed buffers leave each of the others.
    let mut lowest = vec![0_u64; buffers.len()];
    let first = |id: u32| Reverse((0, ranks[id as usize], id));
    let mut next: BinaryHeap<_> = (0..buffers.len() as u32).map(first).collect();
    while let Some(Reverse((offset, rank, id))) = next.pop() {
        steps += 1;
        if steps.is_multiple_of(TIMED_EVERY) && is_over() {
            return None;
        }
        let at = id as usize;
        if lowest[at] != offset {
            next.push(Reverse((lowest[at], rank, id)));
            continue;
        }
        offsets[at] = offset;
        let end = offset + buffers[at].size_bytes;
        for other in lives.beside(buffers, id).map(|other| other as usize) {
            if offsets[other] == NONE {
                let aligned = end.next_multiple_of(buffers[other].alignment_bytes);
                lowest[other] = lowest[other].max(aligned);
            }
        }
    }
    Some(Packing::new(buffers, offsets))
}
