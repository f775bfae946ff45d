//! The events of a scope that sends allocations to a private pool. A trace shows only which pool an entry used.

use trace_format::{Event, PoolId, ScopeFilter};

/// `(n, 0)` is the pool of a graph capture: PyTorch numbers those itself.
fn is_capture(pool: PoolId) -> bool {
    !pool.is_default() && pool.1 == 0
}

/// The events that open a scope of a pool.
pub fn begin(pool: PoolId) -> impl Iterator<Item = Event> {
    let is_capture = is_capture(pool);
    let filter = if is_capture { ScopeFilter::Capture } else { ScopeFilter::Unknown };
    let capture = is_capture.then_some(Event::CaptureBegin { pool });
    [Some(Event::PoolBegin { pool, filter }), capture].into_iter().flatten()
}

/// The events that close it.
pub fn end(pool: PoolId) -> impl Iterator<Item = Event> {
    let capture = is_capture(pool).then_some(Event::CaptureEnd { pool });
    [capture, Some(Event::PoolEnd { pool }), Some(Event::PoolRelease { pool })]
        .into_iter()
        .flatten()
}
