//! The greatest buffer first, each at the lowest offset that is free during its life. It may end some percent above the
//! bound, with more room to spare in between than the other packers leave.

use std::cmp::Reverse;

use crate::lives::Lives;
use crate::{Buffer, Packing};

/// No offset yet.
const NONE: u64 = u64::MAX;

/// Packs; of buffers of one size, the one that lives longest is the first.
pub(crate) fn pack(buffers: &[Buffer], lives: &Lives) -> Packing {
    let mut order: Vec<u32> = (0..buffers.len() as u32).collect();
    order.sort_by_key(|id| {
        let buffer = &buffers[*id as usize];
        Reverse((buffer.size_bytes, buffer.upper.abs_diff(buffer.lower)))
    });
    let mut offsets = vec![NONE; buffers.len()];
    let mut beside: Vec<(u64, u64)> = Vec::new();
    for id in order {
        let buffer = &buffers[id as usize];
        beside.clear();
        beside.extend(lives.beside(buffers, id).filter_map(|other| {
            let offset = offsets[other as usize];
            (offset != NONE).then(|| (offset, offset + buffers[other as usize].size_bytes))
        }));
        beside.sort_unstable();
        let mut offset = 0_u64;
        for (start, end) in &beside {
            if offset + buffer.size_bytes <= *start {
                break;
            }
            offset = offset.max(end.next_multiple_of(buffer.alignment_bytes));
        }
        offsets[id as usize] = offset;
    }
    Packing::new(buffers, offsets)
}
