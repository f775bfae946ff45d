//! The large requests of a run, as `stitch` sees them.

use std::collections::{BTreeMap, HashMap};

use allocator::size;
use packing::Buffer;
use trace_format::{Addr, Event, PoolId, Record, Stream};

/// The requests of one stream in order.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamRequests {
    /// Their sizes, and their lives in allocations and frees of the device.
    pub(super) buffers: Vec<Buffer>,
    /// Requests of the stream before each block was reusable.
    pub(super) freed_before: Vec<Option<u32>>,
}

impl StreamRequests {
    /// Leaves the requests after the first ones out.
    pub(super) fn truncate(&mut self, count: usize) {
        self.buffers.truncate(count);
        self.freed_before.truncate(count);
        let is_known = |before: &u32| *before as usize <= count;
        for before in &mut self.freed_before {
            *before = before.filter(is_known);
        }
    }
}

/// The requests of the default pool that large runs serve, from the records of a replay; streams in the order of their
/// first request, the default stream first.
pub(super) fn large_requests(records: &[Record]) -> Vec<StreamRequests> {
    let mut streams: BTreeMap<Stream, usize> = BTreeMap::from([(Stream(0), 0)]);
    let mut requests = vec![StreamRequests::default()];
    let mut live: HashMap<Addr, (usize, usize)> = HashMap::new();
    // Lives are counted in allocations and frees: driver calls are effects of one replay.
    let is_block = |record: &&Record| {
        use Event::{Alloc, Free, FreeCompleted};
        matches!(record.event, Alloc { .. } | Free { .. } | FreeCompleted { .. })
    };
    let end = records.iter().filter(is_block).count() as i64;
    for (now, record) in (0..).zip(records.iter().filter(is_block)) {
        match record.event {
            Event::Alloc { addr, size_bytes, stream, pool, .. }
                if pool == PoolId::DEFAULT && !size::is_small(size_bytes) =>
            {
                let stream = *streams.entry(stream).or_insert_with(|| {
                    requests.push(StreamRequests::default());
                    requests.len() - 1
                });
                let of_stream = &mut requests[stream];
                live.insert(addr, (stream, of_stream.buffers.len()));
                let (lower, upper) = (now, end);
                of_stream.buffers.push(Buffer { lower, upper, size_bytes, alignment_bytes: 512 });
                of_stream.freed_before.push(None);
            }
            Event::Free { addr, pending: false, .. } | Event::FreeCompleted { addr, .. } => {
                if let Some((stream, request)) = live.remove(&addr) {
                    let of_stream = &mut requests[stream];
                    of_stream.buffers[request].upper = now;
                    of_stream.freed_before[request] = Some(of_stream.buffers.len() as u32);
                }
            }
            _ => {}
        }
    }
    requests
}
