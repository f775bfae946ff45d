//! Envelopes of private pools. The memory of a private pool serves no other pool until the pool ends, so a stack shows
//! each as an envelope: as high as the most that was active or reserved in it so far, with its blocks inside. The
//! rules are those of PyTorch's viewer since pull request 180515; default pools have no envelope.

use rustc_hash::FxHashMap;
use trace_format::{PoolId, Stream};

use crate::chunk::{Arrays, Chunk};
use crate::follow::{Change, Followed};
use crate::grouping::{Grouping, Quantity};
use crate::kinds::Kind;

/// The group of all default pools, below the envelopes.
const DEFAULT_POOLS: u32 = 0;

/// Bytes of a pool on a stream.
#[derive(Clone, Copy, Debug, Default)]
struct PoolBytes {
    active: u64,
    reserved: u64,
    envelope: u64,
}

/// The envelopes while records are followed. A pool with its stream is a number.
#[derive(Debug, Default)]
pub(crate) struct Envelopes {
    pools: Vec<PoolBytes>,
    /// How much each envelope grows, and when.
    pub(crate) changes: Vec<Change>,
    /// Allocated bytes of default pools, and the envelopes.
    height_bytes: u64,
    /// The most of it.
    pub(crate) peak_bytes: u64,
}

impl Envelopes {
    /// Makes room for pools up to this number.
    pub(crate) fn see(&mut self, pools: usize) {
        self.pools.resize(pools.max(self.pools.len()), PoolBytes::default());
    }

    /// A block begins, or no stream uses it any more. Ends follow begins, so no sum falls below zero.
    pub(crate) fn change_active(&mut self, moment: u32, number: u32, pool: PoolId, bytes: i64) {
        let active = &mut self.pools[number as usize].active;
        *active = active.wrapping_add_signed(bytes);
        self.grow(moment, number, pool);
    }

    /// A block of a default pool begins or ends.
    pub(crate) fn change_allocated(&mut self, pool: PoolId, bytes: i64) {
        if pool.is_default() {
            self.height_bytes = self.height_bytes.wrapping_add_signed(bytes);
            self.peak_bytes = self.peak_bytes.max(self.height_bytes);
        }
    }

    /// A segment or pages of one are reserved.
    pub(crate) fn reserve(&mut self, moment: u32, number: u32, pool: PoolId, size_bytes: u64) {
        self.pools[number as usize].reserved += size_bytes;
        self.grow(moment, number, pool);
    }

    /// Reserved memory is released; `None` where the pool has less on that stream.
    pub(crate) fn release(&mut self, number: u32, size_bytes: u64) -> Option<()> {
        let reserved = &mut self.pools[number as usize].reserved;
        *reserved = reserved.checked_sub(size_bytes)?;
        Some(())
    }

    fn grow(&mut self, moment: u32, number: u32, pool: PoolId) {
        let bytes = &mut self.pools[number as usize];
        let height = bytes.active.max(bytes.reserved);
        if pool.is_default() || height <= bytes.envelope {
            return;
        }
        let more = height - bytes.envelope;
        bytes.envelope = height;
        self.changes.push(Change { moment, group: number, bytes: more.cast_signed() });
        self.height_bytes += more;
        self.peak_bytes = self.peak_bytes.max(self.height_bytes);
    }
}

/// The grouping of a run with private pools: the default pools as one group, then each private pool on each of its
/// streams, in the order in which they appear. `None` for a run without one.
pub(crate) fn grouping(followed: &Followed) -> Option<Grouping> {
    let private = followed.pool_streams.iter().filter(|(pool, _)| !pool.is_default());
    let mut labels = vec!["default pools".to_owned()];
    labels.extend(private.map(label));
    let group_of: FxHashMap<_, _> =
        followed.pool_streams.iter().copied().zip(groups(followed)).collect();
    let of_kind = |kind: &Kind| {
        group_of[&(followed.pools[kind.pool as usize], followed.streams[kind.stream as usize])]
    };
    (labels.len() > 1).then(|| Grouping {
        name: "private pool",
        quantity: Quantity::Envelope,
        labels,
        of_kind: followed.kinds.iter().map(of_kind).collect(),
    })
}

/// How a pool with its stream is named.
pub(crate) fn label((pool, stream): &(PoolId, Stream)) -> String {
    format!("{pool}, stream {stream}")
}

/// The group of each pool with its stream.
fn groups(followed: &Followed) -> Vec<u32> {
    let mut last = DEFAULT_POOLS;
    let number = |(pool, _): &(PoolId, Stream)| {
        if pool.is_default() {
            return DEFAULT_POOLS;
        }
        last += 1;
        last
    };
    followed.pool_streams.iter().map(number).collect()
}

/// Each growth: moment, group and bytes.
pub(crate) fn chunk(id: String, followed: &Followed) -> Chunk {
    let groups = groups(followed);
    let changes = followed.envelopes.iter();
    let mut arrays = Arrays::default();
    arrays.rising(changes.clone().map(|change| u64::from(change.moment)));
    arrays.plain(changes.clone().map(|change| u64::from(groups[change.group as usize])));
    arrays.bytes(changes.map(|change| change.bytes.cast_unsigned()));
    Chunk::of(id, &arrays)
}
