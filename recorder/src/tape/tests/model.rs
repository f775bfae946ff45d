//! A heap of the simplest kind, with a lock, a recorder, and a state that says what it did.

use std::path::Path;
use std::sync::{Arc, Mutex};

use trace_format::{
    Addr, BaseState, DeviceId, DeviceMeta, Event, Meta, PoolId, Record, StackId, State, Stream,
    ThreadId,
};

use crate::cast;
use crate::ring::{Ring, RingInfo, RingReader};
use crate::tape::{RingPart, TapeSource, TapeSummary, save_rings};
use crate::{RingOptions, RingRecorder, SystemClock};
use events::{BlockSlot, Recorder};

const CELLS: u64 = 64;
const CELL_BYTES: u64 = 4_096;
const SEGMENT_BYTES: u64 = CELLS * CELL_BYTES;

#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Free,
    Allocated,
    Pending,
}

/// Segments of equal cells that are allocated and freed at random.
pub(super) struct Model {
    pub(super) recorder: RingRecorder,
    state: State,
    segments: Vec<(Addr, [Cell; cast::index(CELLS)])>,
    random: u64,
    recorded: u64,
    /// What is live, by the place that the ring's table has for it.
    places: Vec<Option<Addr>>,
}

impl Model {
    fn random(&mut self, below: u64) -> u64 {
        // xorshift64: the same run every time.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn emit(&mut self, event: Event) {
        let (time_ns, thread, stack) = (0, ThreadId(0), StackId::NONE);
        self.state.apply(&Record { time_ns, thread, stack, event }).unwrap();
        self.recorded += 1;
        let (Event::Alloc { addr, .. }
        | Event::Free { addr, .. }
        | Event::FreeCompleted { addr, .. }) = event
        else {
            return self.recorder.record(stack, event);
        };
        let place = self.places.iter().position(|held| *held == Some(addr));
        let place = place.or_else(|| self.places.iter().position(Option::is_none));
        let place = place.unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.recorder.record_block(BlockSlot(cast::count_of(place)), stack, event, &());
        self.places[place] = self.state.block_at(addr).map(|_| addr);
    }

    fn step(&mut self) {
        let (stream, pool, is_large, size_bytes) = (Stream(7), PoolId(0, 1), false, SEGMENT_BYTES);
        match self.random(100) {
            0 if self.segments.len() < 50 => {
                let number = self.recorder.ring().sequence() + 1;
                let addr = Addr(number * SEGMENT_BYTES);
                self.segments.push((addr, [Cell::Free; cast::index(CELLS)]));
                self.emit(Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large });
            }
            1 => {
                let is_free = |(_, cells): &(Addr, [Cell; 64])| cells == &[Cell::Free; 64];
                if let Some(at) = self.segments.iter().position(is_free) {
                    let (addr, _) = self.segments.swap_remove(at);
                    self.emit(Event::SegmentFree { addr, size_bytes, stream, pool, is_large });
                }
            }
            _ if self.segments.is_empty() => {}
            _ => {
                let at = cast::index(self.random(self.segments.len() as u64));
                let cell = self.random(CELLS);
                let pending = self.random(4) == 0;
                let (segment, cells) = &mut self.segments[at];
                let addr = Addr(segment.0 + cell * CELL_BYTES);
                let cell = &mut cells[cast::index(cell)];
                let (requested_bytes, size_bytes) = (CELL_BYTES - 100, CELL_BYTES);
                let event = match *cell {
                    Cell::Free => {
                        *cell = Cell::Allocated;
                        Event::Alloc { addr, requested_bytes, size_bytes, stream, pool }
                    }
                    Cell::Allocated => {
                        *cell = if pending { Cell::Pending } else { Cell::Free };
                        Event::Free { addr, requested_bytes, size_bytes, pending }
                    }
                    Cell::Pending => {
                        *cell = Cell::Free;
                        Event::FreeCompleted { addr, requested_bytes, size_bytes }
                    }
                };
                self.emit(event);
            }
        }
    }
}

/// The model behind its lock.
#[derive(Clone)]
pub(super) struct SharedModel(Arc<Mutex<Model>>);

impl SharedModel {
    pub(super) fn new(dir: &Path, slots: usize) -> Self {
        Self::on(dir, slots, DeviceId(3))
    }

    pub(super) fn on(dir: &Path, slots: usize, device: DeviceId) -> Self {
        let options = RingOptions { dir: dir.to_owned(), device, slots, has_pages: false };
        let recorder = RingRecorder::new(&options, SystemClock::new()).unwrap();
        let (state, segments, random) = (State::new(), Vec::new(), 0x9e37_79b9_7f4a_7c15);
        let (recorded, places) = (0, Vec::new());
        let model = Model { recorder, state, segments, random, recorded, places };
        Self(Arc::new(Mutex::new(model)))
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Model) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    /// Takes `steps` steps, most of which record something.
    pub(super) fn run(&self, steps: usize) {
        self.with(|model| (0..steps).for_each(|_| model.step()));
    }

    pub(super) fn state(&self) -> State {
        self.with(|model| model.state.clone())
    }

    pub(super) fn ring(&self) -> Arc<Ring> {
        self.with(|model| Arc::clone(model.recorder.ring()))
    }

    /// Events so far; the ring has taken a few slots more, for moments.
    pub(super) fn recorded(&self) -> u64 {
        self.with(|model| model.recorded)
    }

    /// Whether these are all events so far, lost slots counted.
    pub(super) fn is_all(&self, records: u64, lost: u64) -> bool {
        let slots = if lost > 0 { self.ring().sequence() } else { self.recorded() };
        (self.recorded()..=slots).contains(&(records + lost))
    }

    pub(super) fn ring_info(&self) -> RingInfo {
        RingReader::open(&self.ring().path().unwrap()).unwrap().info()
    }

    pub(super) fn base(&self) -> (BaseState, u64) {
        self.with(|model| {
            let base = BaseState { segments: model.state.segments(), ..BaseState::default() };
            (base, model.recorder.ring().sequence())
        })
    }

    pub(super) fn source(&self) -> TapeSource {
        let (ring, model) = (self.ring(), self.clone());
        let device =
            DeviceMeta { id: ring.device(), name: "a model".to_owned(), ..DeviceMeta::default() };
        TapeSource { ring, base: Box::new(move || Some(model.base())), device }
    }

    pub(super) fn save(&self, path: &Path) -> TapeSummary {
        let TapeSource { ring, device, .. } = self.source();
        let part = RingPart { ring, device, first: 0, end: self.base() };
        save_rings(path, Meta::default(), vec![part]).unwrap()
    }
}
