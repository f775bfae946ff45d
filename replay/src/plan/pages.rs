//! The pages that placements take.

use std::collections::HashMap;

use packing::Buffer;

/// Bytes of a page of `stitch`.
pub(super) const PAGE_BYTES: u64 = 2 << 20;

/// The most pages of which a byte is in use at once.
pub(super) fn most(buffers: &[Buffer], offsets: &[u64]) -> u64 {
    let mut moments: Vec<(i64, bool, usize)> = Vec::with_capacity(2 * buffers.len());
    for (at, buffer) in buffers.iter().enumerate() {
        moments.extend([(buffer.lower, true, at), (buffer.upper, false, at)]);
    }
    moments.sort_unstable();
    let mut uses: HashMap<u64, u32> = HashMap::new();
    let mut most = 0;
    for (_, begins, at) in moments {
        let end = offsets[at] + buffers[at].size_bytes;
        for page in offsets[at] / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            if begins {
                *uses.entry(page).or_default() += 1;
                continue;
            }
            let count = uses.get_mut(&page).expect("a block that ends began");
            *count -= 1;
            if *count == 0 {
                uses.remove(&page);
            }
        }
        most = most.max(uses.len() as u64);
    }
    most
}
