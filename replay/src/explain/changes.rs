//! Changes of a program's records: smaller requests, a larger memory fraction, or one pool for graphs.

use std::collections::HashSet;

use trace_format::{Event, PoolId, Record, ScopeFilter};

/// The largest request that scaling makes, as in an edit.
const REQUEST_BYTES_MAX: u64 = 1 << 50;

/// A record with its request scaled as `edit scale:FACTOR` does, unless it is that of a parameter, gradient or state.
pub(super) fn scaled(record: &Record, factor: f64, is_state: bool) -> Record {
    let scale = |bytes: u64| ((bytes as f64 * factor).round() as u64).clamp(1, REQUEST_BYTES_MAX);
    let mut event = record.event;
    match &mut event {
        Event::Alloc { requested_bytes, .. } | Event::Oom { requested_bytes, .. } if !is_state => {
            *requested_bytes = scale(*requested_bytes);
        }
        _ => {}
    }
    Record { event, ..*record }
}

/// A record with every memory fraction at this or above.
pub(super) fn with_fraction(record: &Record, least: f64) -> Record {
    let mut event = record.event;
    if let Event::MemoryFraction { fraction } = &mut event {
        *fraction = fraction.max(least);
    }
    Record { event, ..*record }
}

/// The pools of graphs that are captured within a run, and the one that all of them share. A pool with a source of
/// segments of its own is not among them.
pub(super) struct SharedPool {
    shared: PoolId,
    others: HashSet<PoolId>,
}

impl SharedPool {
    /// The pools of graphs that are captured in these records; `None` where there are not at least two.
    pub(super) fn of(records: &[Record]) -> Option<Self> {
        let mut with_source = HashSet::new();
        let (mut shared, mut others) = (None, HashSet::new());
        for record in records {
            match record.event {
                Event::PoolCreate { pool, own_source: true } => {
                    with_source.insert(pool);
                }
                Event::PoolBegin { pool, filter: ScopeFilter::Capture }
                | Event::CaptureBegin { pool }
                    if !with_source.contains(&pool) =>
                {
                    let shared = *shared.get_or_insert(pool);
                    if pool != shared {
                        others.insert(pool);
                    }
                }
                _ => {}
            }
        }
        shared.filter(|_| !others.is_empty()).map(|shared| Self { shared, others })
    }

    /// How many pools are one.
    pub(super) fn pools(&self) -> usize {
        self.others.len() + 1
    }

    /// A record in which every graph uses the shared pool; `None` where it creates another.
    pub(super) fn applied(&self, record: &Record) -> Option<Record> {
        let mut event = record.event;
        let (Event::Alloc { pool, .. }
        | Event::Oom { pool, .. }
        | Event::EmptyCache { pool, .. }
        | Event::PoolCreate { pool, .. }
        | Event::PoolBegin { pool, .. }
        | Event::PoolEnd { pool }
        | Event::PoolRelease { pool }
        | Event::PoolUseOnOom { pool, .. }
        | Event::PoolNoSplit { pool }
        | Event::CaptureBegin { pool }
        | Event::CaptureEnd { pool }) = &mut event
        else {
            return Some(*record);
        };
        if self.others.contains(pool) {
            *pool = self.shared;
            if matches!(event, Event::PoolCreate { .. }) {
                return None;
            }
        }
        Some(Record { event, ..*record })
    }
}
