//! The sources of the metrics: a copy of each heap's statistics, and the state of its recording.

use std::sync::Arc;

use allocator::stats::Stats;
use recorder::Ring;
use trace_format::DeviceId;

use crate::process::{HEAPS, lock};

/// Facts about the whole process.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub strategy: &'static str,
    pub compat: &'static str,
    /// `RANK`, where a launcher set it.
    pub rank: Option<String>,
}

/// One device.
#[derive(Clone, Debug)]
pub(super) struct DeviceReport {
    pub device: DeviceId,
    pub stats: Stats,
    /// None where nothing is recorded.
    pub recording: Option<RecordingReport>,
}

/// How recording goes.
#[derive(Clone, Debug)]
pub(super) struct RecordingReport {
    /// Bytes of memory that the device has.
    pub memory_bytes: Option<u64>,
    /// Records so far.
    pub records: u64,
    /// Records that the ring holds at most.
    pub ring_records: u64,
    /// Records that are missing on the tape.
    pub lost_by_tape: u64,
    /// Whether the tape is being written; none where none was asked for.
    pub is_on_tape: Option<bool>,
}

/// Every device that is in use. Takes each heap's lock for one copy.
pub(super) fn devices() -> Vec<DeviceReport> {
    let recordings = recordings();
    let heaps = HEAPS.iter().enumerate().filter_map(|(id, slot)| Some((id, *slot.get()?)));
    let devices = heaps.filter_map(|(id, heap)| {
        let device = DeviceId(id as u16);
        let stats = heap.lock().ok()?.stats().clone();
        let recording = recordings.iter().find(|(known, _)| *known == device);
        Some(DeviceReport { device, stats, recording: recording.map(|(_, found)| found.clone()) })
    });
    devices.collect()
}

fn recordings() -> Vec<(DeviceId, RecordingReport)> {
    let guard = lock();
    let Some(process) = &*guard else { return Vec::new() };
    let reports = process.recordings.iter().map(|recording| {
        let ring: &Arc<Ring> = &recording.ring;
        let report = RecordingReport {
            memory_bytes: recording.device.total_bytes,
            records: ring.sequence(),
            ring_records: ring.slots(),
            lost_by_tape: ring.lost_by_tape(),
            is_on_tape: process.is_on_tape(recording.device.id),
        };
        (recording.device.id, report)
    });
    reports.collect()
}
