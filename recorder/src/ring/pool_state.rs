//! The words of pools, scopes, settings and memory fraction in a ring.

use events::PoolsState;
use trace_format::{PoolId, PoolState, ScopeFilter, ScopeState, StringId};

use super::layout::{HeaderField, Part, Shape};
use super::look::Look;
use super::protocol::double_buffer::DoubleBuffer;
use crate::cast;

const OWN_SOURCE: u64 = 1;
const USE_ON_OOM: u64 = 2;
const NO_SPLIT: u64 = 4;
/// Number of the next record, settings, fraction and whether there is one, pools, scopes.
pub(super) const FIXED_WORDS: usize = 6;
/// Words of a pool or a scope.
pub(super) const ROW_WORDS: usize = 3;

/// What comes before the rows in a ring; record `next` is the first that is no part of the state.
pub(super) fn fixed_words(state: &PoolsState, next: u64) -> [u64; FIXED_WORDS] {
    let PoolsState { settings, memory_fraction, .. } = state;
    [
        next,
        settings.map_or(0, |text| u64::from(text.0) + 1),
        memory_fraction.map_or(0, f64::to_bits),
        u64::from(memory_fraction.is_some()),
        state.pools().len() as u64,
        state.scopes().len() as u64,
    ]
}

pub(super) fn pool_row(state: &PoolState) -> [u64; ROW_WORDS] {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(state.own_source, OWN_SOURCE)
        | flag(state.use_on_oom, USE_ON_OOM)
        | flag(state.no_split, NO_SPLIT);
    [state.pool.0, state.pool.1, u64::from(state.use_count) | flags << 32]
}

/// The rows of the scopes follow those of the pools.
pub(super) fn scope_row(scope: &ScopeState) -> [u64; ROW_WORDS] {
    let filter = match scope.filter {
        ScopeFilter::Capture => 0,
        ScopeFilter::Thread => 1,
        ScopeFilter::Unknown => 2,
    };
    [scope.pool.0, scope.pool.1, filter]
}

/// The newest state, and the number of the first record that is no part of it. `None` where it is damaged.
pub(super) fn read(look: &impl Look) -> Option<(PoolsState, u64)> {
    let buffer = buffer(look.shape());
    let mut words = vec![0; buffer.copy_words];
    if buffer.read(look, &mut words) { from_words(&words) } else { Some(<_>::default()) }
}

fn from_words(words: &[u64]) -> Option<(PoolsState, u64)> {
    let (fixed, rest) = words.split_first_chunk::<FIXED_WORDS>()?;
    let [next, settings, fraction, has_fraction, pools, scopes] = *fixed;
    let (rows, _) = rest.as_chunks::<ROW_WORDS>();
    let pools = usize::try_from(pools).ok()?;
    let end = pools.checked_add(usize::try_from(scopes).ok()?)?;
    let rows = rows.get(..end)?;
    let (pools, scopes) = rows.split_at(pools);
    let pool = |[major, minor, count]: &[u64; 3]| PoolState {
        pool: PoolId(*major, *minor),
        use_count: cast::low_half(*count),
        own_source: count >> 32 & OWN_SOURCE != 0,
        use_on_oom: count >> 32 & USE_ON_OOM != 0,
        no_split: count >> 32 & NO_SPLIT != 0,
    };
    let scope = |[major, minor, filter]: &[u64; 3]| ScopeState {
        pool: PoolId(*major, *minor),
        filter: match filter {
            0 => ScopeFilter::Capture,
            1 => ScopeFilter::Thread,
            _ => ScopeFilter::Unknown,
        },
    };
    let mut state = PoolsState::new(pools.iter().map(pool).collect(), scopes.iter().map(scope));
    state.settings = match settings.checked_sub(1) {
        Some(id) => Some(StringId(u32::try_from(id).ok()?)),
        None => None,
    };
    state.memory_fraction = (has_fraction != 0).then(|| f64::from_bits(fraction));
    Some((state, next))
}

/// The place of both copies in a ring.
pub(super) fn buffer(shape: Shape) -> DoubleBuffer {
    let (start, both_words) = shape.part(Part::Pools);
    let count_at = HeaderField::PoolsCount as usize;
    DoubleBuffer { count_at, start, copy_words: both_words / 2 }
}
