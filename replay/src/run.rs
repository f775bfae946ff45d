//! One tape under one setting: what the real allocator would have reserved.

use std::time::Instant;

use allocator::config::Config;
use allocator::device::sim::{SimConfig, SimDevice};
use allocator::record::Off;
use allocator::size;
use trace_format::{Addr, BaseState, Event, Record, SegmentState, StringId};

use crate::driver::{DriveError, Driver, Follow};
use crate::report::{Report, Totals};
use crate::script::Script;
use crate::timeline::{Timeline, Witness};

/// A device that nobody could fill: the capacity where none is known or asked for.
pub const UNLIMITED_CAPACITY_BYTES: u64 = 1 << 44;

/// Addresses of the simulated device. More than any processor has: a large device reserves 9/8 of itself for every
/// stream and pool.
const ADDRESS_SPACE_BYTES: u64 = 1 << 60;

/// One device's part of a tape.
#[derive(Clone, Copy)]
pub struct DeviceTape<'t> {
    /// What was there at the start.
    pub base: &'t BaseState,
    /// What happened.
    pub records: &'t [Record],
    /// The text of interned strings.
    pub text: &'t dyn Fn(StringId) -> &'t str,
}

/// What to replay under.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The settings.
    pub config: Config,
    /// Memory of the simulated device; `None` is no limit.
    pub capacity_bytes: Option<u64>,
    /// The memory fraction in force from the start, if it is not the tape's.
    pub memory_fraction: Option<f64>,
    /// Answer with the recorded segment addresses, so that ties break as they did.
    pub recorded_addresses: bool,
    /// Which inputs count besides allocations and frees.
    pub follow: Follow,
}

/// A replay and everything it did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Peaks, sums and times.
    pub report: Report,
    /// What the allocator did, at the run's times, under the run's numbers of stacks and strings.
    pub records: Vec<Record>,
    /// What it ended with.
    pub segments: Vec<SegmentState>,
    /// PyTorch's statistics at the end.
    pub stats: Vec<(String, i64)>,
}

/// Replays and reports. `progress` hears how many records are done, every so often.
///
/// # Errors
/// When the tape contradicts itself or its start does not fit the capacity.
pub fn run(
    tape: DeviceTape<'_>,
    options: &Options,
    progress: impl FnMut(u64),
) -> Result<Report, DriveError> {
    Ok(drive(tape, options, Off, progress)?.0)
}

/// Replays and keeps what the allocator did.
///
/// # Errors
/// As [`run`].
pub fn run_recording(
    tape: DeviceTape<'_>,
    options: &Options,
    progress: impl FnMut(u64),
) -> Result<Outcome, DriveError> {
    let (report, mut driver) = drive(tape, options, Timeline::default(), progress)?;
    Ok(Outcome {
        report,
        segments: driver.heap().segments(trace_format::PoolId::DEFAULT),
        stats: driver.heap().stats().flat(),
        records: std::mem::take(driver.heap_mut().recorder_mut()).records,
    })
}

fn drive<R: Witness>(
    tape: DeviceTape<'_>,
    options: &Options,
    recorder: R,
    mut progress: impl FnMut(u64),
) -> Result<(Report, Driver<R>), DriveError> {
    const PROGRESS_RECORDS: usize = 1 << 16;
    let started = Instant::now();
    let device = device_for(tape, options);
    let mut driver =
        Driver::new(device, options.config.clone(), recorder, tape.base, options.follow)?;
    if let Some(fraction) = options.memory_fraction {
        driver.limit(fraction)?;
    }
    let mut totals = Totals::default();
    for (done, records) in tape.records.chunks(PROGRESS_RECORDS).enumerate() {
        progress((done * PROGRESS_RECORDS) as u64);
        for record in records {
            if matches!(record.event, Event::ResetPeak) {
                totals.add_peaks(driver.heap());
            } else if matches!(record.event, Event::ResetAccumulated) {
                totals.add_sums(driver.heap());
            }
            driver.heap_mut().recorder_mut().at(record);
            driver.step(record, tape.text)?;
        }
    }
    progress(tape.records.len() as u64);
    totals.add_peaks(driver.heap());
    totals.add_sums(driver.heap());
    let driver_time_ns = driver.heap_mut().device_mut().counts().price_ns();
    let config = driver.heap().config();
    let strategy = if config.expandable_segments { "expandable" } else { "native" };
    let report = Report {
        strategy: strategy.to_owned(),
        config: config.text.clone(),
        capacity_bytes: options.capacity_bytes,
        elapsed_s: started.elapsed().as_secs_f64(),
        ..totals.report(driver.peak_live_bytes(), driver_time_ns)
    };
    Ok((report, driver))
}

/// The device that a replay runs on: empty, with the capacity and addresses that the options ask for.
pub(crate) fn device_for(tape: DeviceTape<'_>, options: &Options) -> SimDevice {
    let capacity_bytes = options.capacity_bytes.unwrap_or(UNLIMITED_CAPACITY_BYTES);
    let large_page_bytes = size::page_bytes(false, &options.config);
    let mut script = Script::from_tape(tape.base, tape.records, large_page_bytes, capacity_bytes);
    if !options.recorded_addresses {
        // The start keeps its addresses: its blocks are where they are.
        let plain = tape.base.segments.iter().filter(|segment| !segment.is_expandable).count();
        script.malloc.truncate(plain);
        let bases =
            allocator::heap::expandable_runs(&tape.base.segments, large_page_bytes, capacity_bytes);
        script.reserve.truncate(bases.len());
    }
    let granularity = SimConfig::GRANULARITY_BYTES;
    let lowest = script.lowest().map_or(granularity, |addr| addr.0 / granularity * granularity);
    let mut device = SimDevice::new(SimConfig {
        base: Addr(lowest.max(granularity)),
        length_bytes: ADDRESS_SPACE_BYTES,
        ..SimConfig::with_capacity(capacity_bytes)
    });
    script.give_to(&mut device);
    device
}
