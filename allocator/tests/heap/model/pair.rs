//! The heap and the reference side by side: every call goes to both, and they must agree.

use std::sync::Arc;

use allocator::heap::{AllocError, PoolChoice, Request};
use device::{CaptureMode, Device, DeviceError};
use proptest::prelude::*;
use settings::Config;
use trace_format::{Addr, DeviceId, PoolId, ScopeFilter, StackId, State, Stream};

use super::ops::Op;
use super::reference::Reference;
use crate::support::{MIB, SharedSource, Source, TestHeap, device, heap, request};

pub(super) struct Pair {
    pub(super) heap: TestHeap,
    pub(super) reference: Reference,
    pub(super) live: Vec<Addr>,
    /// The captures of open scopes.
    captures: Vec<Captured>,
    pub(super) sources: Vec<Arc<SharedSource>>,
    /// What the heap's events say, and how many of them were followed.
    pub(super) tape: State,
    pub(super) taped: usize,
}

/// A capture: the stream it began on, and the streams that its scope takes.
struct Captured {
    pool: PoolId,
    origin: Stream,
    streams: Vec<Stream>,
}

/// Whether a run goes on: a device error ends it, since PyTorch leaves open what holds after one.
type Goes = Result<bool, TestCaseError>;

impl Pair {
    pub(super) fn new(capacity_bytes: u64, config: Config) -> Self {
        Self {
            heap: heap(capacity_bytes, config.clone()),
            reference: Reference::new(device(capacity_bytes), config),
            live: Vec::new(),
            captures: Vec::new(),
            sources: Vec::new(),
            tape: State::new(),
            taped: 0,
        }
    }

    pub(super) fn run(mut self, ops: &[Op]) -> Result<(), TestCaseError> {
        for op in ops {
            if !self.step(op)? {
                return Ok(());
            }
            self.compare()?;
        }
        self.wind_up()
    }

    pub(super) fn step(&mut self, op: &Op) -> Goes {
        match op.clone() {
            Op::Malloc { bytes, stream } => self.malloc(bytes, stream, PoolChoice::ByScope),
            Op::MallocIn { bytes, stream, pool } => {
                self.malloc(bytes, stream, PoolChoice::Exactly(pool))
            }
            Op::Free(_) | Op::RecordStream(..) if self.live.is_empty() => Ok(true),
            Op::Free(at) => {
                let addr = self.live.swap_remove(at % self.live.len());
                self.free(addr)
            }
            Op::FreeUnknown => self.free(Addr(12_345)),
            Op::RecordStream(at, stream) => {
                let addr = self.live[at % self.live.len()];
                let (ours, theirs) = (
                    self.heap.record_stream(addr, stream),
                    self.reference.record_stream(addr, stream),
                );
                agree(ours, theirs)
            }
            Op::StreamDone(stream) => self.on_both(|device| match device.capture(stream) {
                Ok(None) => device.stream_synchronize(stream),
                _ => Ok(()),
            }),
            Op::EmptyCache(pool) => {
                let ours = self.heap.empty_cache(pool, StackId::NONE);
                agree(ours, self.reference.empty_cache(pool))
            }
            Op::Settings(change) => {
                let mut config = self.heap.config().clone();
                change.apply(&mut config);
                self.reference.config = config.clone();
                self.heap.set_config(config);
                Ok(true)
            }
            Op::Fraction(fraction) => {
                self.heap.set_memory_fraction(fraction).expect("in range");
                self.reference.set_fraction(fraction);
                Ok(true)
            }
            Op::AddPeer => {
                let peer = DeviceId(1);
                agree(self.heap.add_peer(peer), self.reference.add_peer(peer))
            }
            Op::ResetPeaks => {
                self.heap.reset_peak_stats();
                self.reference.reset_peaks();
                Ok(true)
            }
            Op::ResetAccumulated => {
                self.heap.reset_accumulated_stats();
                self.reference.reset_accumulated();
                Ok(true)
            }
            Op::Launch(stream) => self.on_both(|device| device.launch(stream)),
            Op::Join { from, to } => self.join(from, to),
            op => self.pool_step(op),
        }
    }

    pub(super) fn pool_step(&mut self, op: Op) -> Goes {
        match op {
            Op::CreatePool { pool, own_source } => {
                let mut sources = (None, None);
                if own_source {
                    let number = self.sources.len() as u64;
                    let ours = Source::shared(number, 150 * MIB);
                    let theirs = Source::shared(number, 150 * MIB);
                    self.sources.extend([ours.clone(), theirs.clone()]);
                    sources = (Some(ours as Arc<dyn allocator::SegmentSource>), Some(theirs));
                }
                let theirs = self.reference.create_pool(pool, sources.1);
                agree(self.heap.create_pool(pool, sources.0), theirs)
            }
            Op::BeginPool { pool, kind, streams } => self.begin(pool, kind, streams),
            Op::EndPool(pool) => self.end(pool),
            Op::MarkCapture(pool, on) => {
                if !on {
                    self.end_capture(pool)?;
                }
                let ours =
                    if on { self.heap.capture_begin(pool) } else { self.heap.capture_end(pool) };
                agree(ours, self.reference.set_capture(pool, on))
            }
            Op::ReleasePool(pool) => {
                agree(self.heap.release_pool(pool), self.reference.release_pool(pool))
            }
            Op::UseOnOom(pool, on) => {
                self.heap.set_use_on_oom(pool, on);
                self.reference.set_use_on_oom(pool, on);
                Ok(true)
            }
            Op::NoSplit(pool) => {
                self.heap.set_no_split(pool);
                self.reference.set_no_split(pool);
                Ok(true)
            }
            other => unreachable!("{other:?} is no call about pools"),
        }
    }

    fn malloc(&mut self, bytes: u64, stream: Stream, pool: PoolChoice) -> Goes {
        let ours = self.heap.malloc(&Request { pool, ..request(bytes, stream) });
        let exactly = match pool {
            PoolChoice::Exactly(pool) => Some(pool),
            PoolChoice::ByScope => None,
        };
        let theirs = self.reference.malloc(bytes, stream, exactly);
        self.live.extend(ours.as_ref().ok());
        agree(ours, theirs)
    }

    pub(super) fn free(&mut self, addr: Addr) -> Goes {
        agree(self.heap.free(addr, StackId::NONE), self.reference.free(addr))
    }

    /// A scope; one of kind `Capture` captures on its first stream that can.
    fn begin(&mut self, pool: PoolId, kind: ScopeFilter, streams: Vec<Stream>) -> Goes {
        let taken = streams.clone();
        let filter = Arc::new(move |stream: Stream| taken.contains(&stream));
        let ours = self.heap.begin_pool(pool, kind, filter);
        let began = ours.is_ok();
        let theirs = self.reference.begin_pool(pool, kind, streams.clone());
        let origin = streams.iter().copied().find(|stream| stream.0 != 0);
        if let Some(origin) = origin.filter(|_| began && kind != ScopeFilter::Thread) {
            let mode = CaptureMode::ThreadLocal;
            if self.heap.device_mut().begin_capture(origin, mode).is_ok() {
                self.reference.device.begin_capture(origin, mode).expect("as the other");
                self.captures.push(Captured { pool, origin, streams });
            }
        }
        agree(ours, theirs)
    }

    pub(super) fn end(&mut self, pool: PoolId) -> Goes {
        self.end_capture(pool)?;
        agree(self.heap.end_pool(pool), self.reference.end_pool(pool))
    }

    fn end_capture(&mut self, pool: PoolId) -> Result<(), TestCaseError> {
        if let Some(at) = self.captures.iter().position(|capture| capture.pool == pool) {
            let origin = self.captures.remove(at).origin;
            // Streams that were not joined are an error of the capture, which is over in any case.
            let ours = self.heap.device_mut().end_capture(origin);
            prop_assert_eq!(ours, self.reference.device.end_capture(origin));
        }
        Ok(())
    }

    /// Lets a stream wait for another. Into a capture goes only what its scope takes, as PyTorch's filters do.
    fn join(&mut self, from: Stream, to: Stream) -> Goes {
        let taken = self
            .captures
            .iter()
            .any(|capture| capture.streams.contains(&from) && capture.streams.contains(&to));
        if !taken || to.0 == 0 {
            return Ok(true);
        }
        self.on_both(|device| {
            let event = device.event_record(from)?;
            let joined = device.wait_event(to, event);
            device.event_release(event);
            joined
        })
    }

    /// The same call on both devices, behind the heaps' backs.
    fn on_both<T: PartialEq + std::fmt::Debug>(
        &mut self,
        call: impl Fn(&mut sim_device::SimDevice) -> Result<T, DeviceError>,
    ) -> Goes {
        let ours = call(self.heap.device_mut());
        prop_assert_eq!(ours, call(&mut self.reference.device));
        Ok(true)
    }
}

/// Both answered the same. A device error may differ in its words, and ends the run.
fn agree<T, A, B>(ours: Result<T, A>, theirs: Result<T, B>) -> Goes
where
    T: PartialEq + std::fmt::Debug,
    A: Into<AllocError>,
    B: Into<AllocError>,
{
    let (ours, theirs) = (ours.map_err(Into::into), theirs.map_err(Into::into));
    if let (Err(AllocError::Device(_)), Err(AllocError::Device(_))) = (&ours, &theirs) {
        return Ok(false);
    }
    prop_assert_eq!(ours, theirs);
    Ok(true)
}
