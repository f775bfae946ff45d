//! A pool's own segment source that refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use allocator::SegmentSource;
use allocator::heap::AllocError;
use device::{DeviceCall, DeviceError};
use settings::Config;
use trace_format::{Addr, PoolId, ScopeFilter, StackId};

use crate::support::{Calls, GIB, MIB, SharedSource, Source, heap};

const POOL: PoolId = PoolId(0, 1);

/// Takes nothing back while it is stubborn.
struct Stubborn {
    source: Arc<SharedSource>,
    stubborn: AtomicBool,
}

impl SegmentSource for Stubborn {
    fn allocate(&self, size_bytes: u64) -> Option<Addr> {
        SegmentSource::allocate(&*self.source, size_bytes)
    }

    fn free(&self, addr: Addr, size_bytes: u64) -> Result<(), DeviceError> {
        if self.stubborn.load(Ordering::Relaxed) {
            let message = "not now".to_owned();
            return Err(DeviceError::Driver { call: DeviceCall::Free, code: 719, message });
        }
        SegmentSource::free(&*self.source, addr, size_bytes)
    }
}

#[test]
fn a_segment_that_its_source_does_not_take_back_stays_the_pools() {
    let mut heap = heap(GIB, Config::default());
    let source = Source::shared(0, 100 * MIB);
    let source = Arc::new(Stubborn { source, stubborn: AtomicBool::new(true) });
    heap.create_pool(POOL, Some(source.clone())).expect("a new pool");
    heap.begin_pool(POOL, ScopeFilter::Thread, Arc::new(|_| true)).expect("an open scope");
    let block = heap.take(40 * MIB);
    heap.give(block);
    heap.end_pool(POOL).expect("open");
    for _ in 0..2 {
        heap.release_pool(POOL).expect("a user");
    }
    assert!(heap.empty_cache(POOL, StackId::NONE).is_err());
    heap.check().expect("consistent");
    assert_eq!(heap.stats().reserved_bytes.all.current, 40 << 20);
    source.stubborn.store(false, Ordering::Relaxed);
    heap.flush();
    assert!(heap.segments(PoolId::DEFAULT).is_empty());
    assert!(source.source.lock().live.is_empty());
}

#[test]
fn a_source_without_memory_is_out_of_memory_after_one_retry() {
    let mut heap = heap(GIB, Config::default());
    heap.create_pool(POOL, Some(Source::shared(0, MIB))).expect("a new pool");
    heap.begin_pool(POOL, ScopeFilter::Thread, Arc::new(|_| true)).expect("an open scope");
    assert!(matches!(heap.try_take(512), Err(AllocError::OutOfMemory(_))));
    assert_eq!(heap.stats().num_alloc_retries, 1);
}
