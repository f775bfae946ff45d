//! A heap with what is held of it: steps that may fail, and a winding up that may not.

use std::sync::Arc;

use allocator::heap::AllocError;
use device::{CaptureMode, Device};
use settings::{Compat, Config, StitchConfig};
use trace_format::{Addr, PoolId, ScopeFilter, StackId, Stream};

use crate::rebuilt::Rebuilt;
use crate::support::{MIB, TestHeap, heap, request};

pub(super) const POOL: PoolId = PoolId(1, 0);

/// What serves the default pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    Native,
    Stitch,
}

impl Strategy {
    pub(super) fn config(self) -> Config {
        Config {
            compat: Compat::V2_15,
            graph_capture_record_stream_reuse: true,
            stitch: (self == Self::Stitch).then(StitchConfig::default),
            ..Config::default()
        }
    }
}

pub(super) struct Run {
    pub(super) heap: TestHeap,
    strategy: Strategy,
    pub(super) live: Vec<Addr>,
    rebuilt: Rebuilt,
    errors: Vec<AllocError>,
    capture: Option<Stream>,
}

impl Run {
    pub(super) const CAPACITY_BYTES: u64 = 256 * MIB;

    pub(super) fn new(strategy: Strategy) -> Self {
        let heap = heap(Self::CAPACITY_BYTES, strategy.config());
        Self {
            heap,
            strategy,
            live: Vec::new(),
            rebuilt: Rebuilt::default(),
            errors: Vec::new(),
            capture: None,
        }
    }

    pub(super) fn config(&self) -> Config {
        self.strategy.config()
    }

    /// Switches expandable segments; `stitch` has none.
    pub(super) fn expand(&mut self, expandable_segments: bool) {
        self.heap.set_config(Config { expandable_segments, ..self.config() });
    }

    pub(super) fn note<T>(&mut self, result: Result<T, impl Into<AllocError>>) -> Option<T> {
        let whole = self.heap.check().and_then(|()| self.rebuilt.check(&mut self.heap));
        whole.unwrap_or_else(|broken| panic!("{broken}, after {:?}", self.errors));
        result.map_err(|error| self.errors.push(error.into())).ok()
    }

    pub(super) fn take(&mut self, stream: u64, bytes: u64) -> Option<Addr> {
        let taken = self.heap.malloc(&request(bytes, Stream(stream)));
        let addr = self.note(taken)?;
        self.live.push(addr);
        Some(addr)
    }

    /// Gives a block back, used by a stream before if one is named. An error of the device is no refusal: the address
    /// is given back in any case.
    pub(super) fn give(&mut self, addr: Option<Addr>, used_by: Option<u64>) {
        let Some(addr) = addr else { return };
        if let Some(stream) = used_by {
            let recorded = self.heap.record_stream(addr, Stream(stream));
            self.note(recorded);
        }
        let given = self.heap.free(addr, StackId::NONE);
        assert!(!matches!(given, Err(AllocError::Heap(_))), "{addr} is live");
        self.live.retain(|other| *other != addr);
        self.note(given);
    }

    /// Shares a block, opens what was shared as another process would, and closes it again.
    pub(super) fn share(&mut self, addr: Option<Addr>) {
        let Some(addr) = addr else { return };
        let shared = self.heap.share(addr);
        if let Some(pages) = self.note(shared).flatten() {
            let opened = self.heap.open_shared(pages.page_bytes, &pages.handles);
            if let Some(addr) = self.note(opened) {
                let closed = self.heap.close_shared(addr);
                self.note(closed);
            }
        }
    }

    pub(super) fn flush(&mut self) {
        let flushed = self.heap.empty_cache(PoolId::DEFAULT, StackId::NONE);
        self.note(flushed);
    }

    /// Direct calls of the device, apart from the steps: a fault here is the harness's.
    pub(super) fn stream_done(&mut self, stream: u64) {
        let done = self.heap.device_mut().stream_synchronize(Stream(stream));
        self.note(done);
    }

    pub(super) fn begin_capture_unless_open(&mut self, streams: [u64; 2]) {
        let released = self.heap.pool_use_count(POOL).is_ok();
        if self.capture.is_none() && !released {
            self.begin_capture(streams);
        }
    }

    /// Opens a scope whose streams the device captures.
    pub(super) fn begin_capture(&mut self, streams: [u64; 2]) {
        let filter = Arc::new(move |stream: Stream| streams.contains(&stream.0));
        self.heap.begin_pool(POOL, ScopeFilter::Unknown, filter).expect("a pool of its own");
        let origin = Stream(streams[0]);
        self.heap.device_mut().begin_capture(origin, CaptureMode::Global).expect("idle before");
        self.capture = Some(origin);
        self.launch(streams[0]);
        self.join(streams[0], streams[1]);
    }

    pub(super) fn launch(&mut self, stream: u64) {
        let launched = self.heap.device_mut().launch(Stream(stream));
        self.note(launched);
    }

    pub(super) fn join(&mut self, from: u64, to: u64) {
        let device = self.heap.device_mut();
        let joined = device.event_record(Stream(from)).and_then(|event| {
            let joined = device.wait_event(Stream(to), event);
            device.event_release(event);
            joined
        });
        self.note(joined);
    }

    /// Ends the capture, whether or not its streams were joined, and the scope.
    pub(super) fn end_capture(&mut self) {
        if let Some(origin) = self.capture.take() {
            let _ = self.heap.device_mut().end_capture(origin);
            self.heap.end_pool(POOL).expect("open");
            self.heap.release_pool(POOL).expect("its only user");
            self.heap.check().expect("consistent after a capture");
        }
    }

    /// With the faults gone, everything goes back. Returns the errors of before.
    pub(super) fn wind_up(mut self) -> Vec<AllocError> {
        self.heap.device_mut().faults_mut().clear();
        let errors = std::mem::take(&mut self.errors);
        self.end_capture();
        self.heap.set_memory_fraction(1.0).expect("no limit");
        for addr in self.live.clone() {
            self.give(Some(addr), None);
        }
        let most = self.take(0, 240 * MIB);
        assert_eq!(self.errors, [], "memory can be had again, after {errors:?}");
        self.give(most, None);
        self.flush();
        assert_eq!(self.errors, [], "after {errors:?}");
        assert_eq!(self.heap.device_mut().check_empty(), Ok(()), "after {errors:?}");
        for (name, value) in self.heap.stats().flat() {
            // What counts as oversize follows the limit in force, and that changed on the way.
            let counted = name.ends_with(".current") && !name.starts_with("oversize");
            assert!(!counted || value == 0, "{name} {value}, after {errors:?}");
        }
        errors
    }
}
