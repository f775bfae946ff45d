//! Totals of one device's records.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use replay::categories::{Categories, CategoryMemory};
use replay::holders::RunHolders;
use replay::modules::{self, ModuleMemory};
use replay::start::Start;
use replay::tape::{Device, Tape};
use serde::Serialize;
use trace_format::State;

use super::mappings::Mappings;

/// One device of a run.
#[derive(Debug, Serialize)]
pub(super) struct DeviceInfo {
    /// Its number.
    pub(super) id: u16,
    /// Records that are here.
    pub(super) records: u64,
    /// Records lost while recording.
    pub(super) lost: u64,
    /// Records on the tape but on the other side of a gap.
    pub(super) left_out: u64,
    /// From the first record to the last, where the source had a clock.
    pub(super) seconds: Option<f64>,
    /// The memory before the first record; `null` where the device was empty.
    pub(super) start: Option<Start>,
    /// Bytes of live blocks before the first record and after the last, as recorded.
    pub(super) start_allocated_bytes: u64,
    pub(super) end_allocated_bytes: u64,
    /// The same of bytes held from the device.
    pub(super) start_reserved_bytes: u64,
    pub(super) end_reserved_bytes: u64,
    /// The most bytes of blocks that were live at once, as recorded.
    pub(super) peak_allocated_bytes: u64,
    /// The most bytes held from the device at once, as recorded.
    pub(super) peak_reserved_bytes: u64,
    /// The mappings of pages under `stitch`; `null` where no page was mapped.
    pub(super) mappings: Option<Mappings>,
    /// The categories of the blocks at the allocated peak; empty where the run has none.
    pub(super) peak_held: Vec<CategoryMemory>,
    /// The modules of the blocks at the allocated peak, the largest first; empty where the run has none.
    pub(super) peak_modules: Vec<ModuleMemory>,
    /// The code that held memory at the peak, and when memory was out.
    pub(super) holders: RunHolders,
    /// How many records of each kind.
    pub(super) events: BTreeMap<&'static str, u64>,
}

impl DeviceInfo {
    /// Walks the records once. Fails where they contradict each other.
    pub(super) fn of(tape: &Tape, device: &Device) -> Result<Self> {
        let damaged =
            || format!("device {}: the run contradicts itself; record it again", device.id);
        let mut state = State::from_base(&device.base).with_context(damaged)?;
        let mut info = Self {
            id: device.id.0,
            records: device.records.len() as u64,
            lost: device.lost,
            left_out: device.left_out,
            seconds: seconds(device),
            start: Start::of(&device.base),
            start_allocated_bytes: state.allocated_bytes(),
            end_allocated_bytes: 0,
            start_reserved_bytes: state.reserved_bytes(),
            end_reserved_bytes: 0,
            peak_allocated_bytes: state.allocated_bytes(),
            peak_reserved_bytes: state.reserved_bytes(),
            mappings: None,
            peak_held: Vec::new(),
            peak_modules: Vec::new(),
            holders: RunHolders::of(tape, device),
            events: BTreeMap::new(),
        };
        let (mut peak_after, mut mappings) = (0, Mappings::from(&state));
        for (at, record) in device.records.iter().enumerate() {
            state.apply(record).with_context(damaged)?;
            if state.allocated_bytes() > info.peak_allocated_bytes {
                (info.peak_allocated_bytes, peak_after) = (state.allocated_bytes(), at + 1);
            }
            info.peak_reserved_bytes = info.peak_reserved_bytes.max(state.reserved_bytes());
            mappings.count(&record.event, &state);
            *info.events.entry(record.event.name()).or_default() += 1;
        }
        info.mappings = mappings.known();
        info.end_allocated_bytes = state.allocated_bytes();
        info.end_reserved_bytes = state.reserved_bytes();
        let categories = Categories::of(&device.base.segments, &device.records);
        info.peak_held = categories.held_after(peak_after);
        let (base, records) = (&device.base.segments, &device.records);
        info.peak_modules = modules::held_after(&tape.stacks, base, records, peak_after);
        Ok(info)
    }
}

fn seconds(device: &Device) -> Option<f64> {
    let first = device.records.first()?.time_ns;
    let last = device.records.last()?.time_ns;
    (first > 0).then(|| last.saturating_sub(first) as f64 / 1e9)
}
