//! One tape under one strategy and its settings: what it would have reserved.

use std::ops::RangeInclusive;
use std::time::Instant;

use allocator::size;
use events::Off;
use models::model::Model;
use settings::Config;
use sim_device::{AddressOrder, EventPolicy, SimConfig, SimDevice};
use trace_format::{Addr, BaseState, Event, PoolId, Record, SegmentState, StringId};

use crate::driver::{DriveError, Driver, Follow, Result};
use crate::report::Report;
use crate::script::Script;
use crate::series::{Point, Series};
use crate::strategy::table::Visitor;
use crate::strategy::{Choice, Hosted, Native, Strategy};
use crate::timeline::{Timeline, Witness};

/// Addresses of the simulated device. More than any processor has: a large device reserves 9/8 of itself for every
/// stream and pool.
const ADDRESS_SPACE_BYTES: u64 = 1 << 60;

/// One device's part of a tape.
#[derive(Clone, Copy)]
pub struct DeviceTape<'t> {
    /// The memory at the start.
    pub base: &'t BaseState,
    /// The records.
    pub records: &'t [Record],
    /// The text of interned strings.
    pub text: &'t (dyn Fn(StringId) -> &'t str + Sync),
}

/// The settings and the device of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The strategy and its settings.
    pub strategy: Choice,
    /// Memory of the simulated device; `None` is no limit.
    pub capacity_bytes: Option<u64>,
    /// The memory fraction in force from the start, if it is not the tape's.
    pub memory_fraction: Option<f64>,
    /// The addresses of segments, which break ties between free blocks.
    pub addresses: Addresses,
    /// Which inputs count besides allocations and frees.
    pub follow: Follow,
}

/// Where the simulated device puts segments. PyTorch takes the lower of two free blocks of one size, so that the order
/// of addresses decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// The recorded ones, so that ties break as they did.
    Recorded,
    /// The lowest that are free.
    Lowest,
    /// The highest that are free.
    Highest,
    /// Anywhere, by this seed.
    Scattered {
        /// The same seed gives the same addresses.
        seed: u64,
    },
}

impl Addresses {
    /// So many different ones that a driver could have chosen instead of the recorded ones.
    pub fn orders(count: u32) -> impl Iterator<Item = Self> {
        let scattered = (0..).map(|seed| Self::Scattered { seed });
        [Self::Lowest, Self::Highest].into_iter().chain(scattered).take(count as usize)
    }
}

impl Options {
    /// The settings of the live allocator, for what looks into it.
    ///
    /// # Errors
    /// When the strategy is a model, which keeps no record of what it does.
    pub fn native_config(&self) -> Result<&Config> {
        let Choice::Native(config) = &self.strategy else {
            return Err(DriveError::OnlyNative { strategy: self.strategy.name() });
        };
        Ok(config)
    }
}

/// A replay and everything it did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Peaks, sums and times.
    pub report: Report,
    /// The allocator's records, at the run's times, with the run's stack and string ids.
    pub records: Vec<Record>,
    /// The segments at the end.
    pub segments: Vec<SegmentState>,
    /// PyTorch's statistics at the end.
    pub stats: Vec<(String, i64)>,
}

/// Replays and reports. `progress` receives the number of records done, now and then.
///
/// # Errors
/// When the tape contradicts itself, its start does not fit the capacity, or the strategy cannot start.
pub fn run(
    tape: DeviceTape<'_>,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Report> {
    options.strategy.visit(Reporting { tape, options, watch: |_: &_, _, _| (), progress })
}

/// Replays on a device whose size is in question, up to the first request that is out of memory if `until_oom`.
///
/// # Errors
/// As [`run`].
pub(crate) fn probe(tape: DeviceTape<'_>, options: &Options, until_oom: bool) -> Result<Probe> {
    options.strategy.visit(Probing { tape, options, until_oom })
}

/// The same, with what was held over time at no more than `points` points.
///
/// # Errors
/// As [`run`].
pub fn run_over_time(
    tape: DeviceTape<'_>,
    options: &Options,
    points: usize,
    progress: &mut dyn FnMut(u64),
) -> Result<(Report, Vec<Point>)> {
    let mut series = Series::new(tape.records.len(), points);
    let watch = |record: &Record, reserved_bytes, live_bytes| {
        series.add(record, reserved_bytes, live_bytes);
    };
    let report = options.strategy.visit(Reporting { tape, options, watch, progress })?;
    Ok((report, series.into_points()))
}

/// Replays the live allocator and keeps what it did.
///
/// # Errors
/// As [`run`]; and for a model, which keeps no record of what it does.
pub fn run_recording(
    tape: DeviceTape<'_>,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Outcome> {
    let config = options.native_config()?;
    let recorder = Timeline::default();
    let (report, mut driver) =
        drive_native(tape, options, config, recorder, |_, _, _| (), progress)?;
    Ok(Outcome {
        report,
        segments: driver.heap().segments(PoolId::DEFAULT),
        stats: driver.heap().stats().flat(),
        records: std::mem::take(driver.heap_mut().recorder_mut()).records,
    })
}

/// A replay that reports, of whichever strategy. `watch` sees each record, and the bytes reserved and alive after it.
struct Reporting<'t, 'o, 'p, W> {
    tape: DeviceTape<'t>,
    options: &'o Options,
    watch: W,
    progress: &'p mut dyn FnMut(u64),
}

impl<W: FnMut(&Record, u64, u64)> Visitor for Reporting<'_, '_, '_, W> {
    type Output = Result<Report>;

    fn native(self, config: &Config) -> Self::Output {
        let Self { tape, options, watch, progress } = self;
        Ok(drive_native(tape, options, config, Off, watch, progress)?.0)
    }

    fn model<M: Model>(self, settings: &M::Settings) -> Self::Output {
        let Self { tape, options, watch, progress } = self;
        let started = Instant::now();
        let mut driver = model_driver::<M>(tape, options, settings)?;
        follow(tape, &mut driver, watch, progress)?;
        Ok(report(options, &options.strategy, &mut driver, started))
    }
}

/// A replay, or its part before memory was out.
pub(crate) struct Probe {
    /// Of that part.
    pub(crate) report: Report,
    /// The capacities, first and last, with which that part would have been the same; `None` where that is not known.
    pub(crate) same_with: Option<RangeInclusive<u64>>,
}

struct Probing<'t, 'o> {
    tape: DeviceTape<'t>,
    options: &'o Options,
    until_oom: bool,
}

impl Probing<'_, '_> {
    fn follow<S: Strategy>(
        &self,
        driver: &mut Driver<S>,
        ended_with: impl FnOnce(&Driver<S>) -> Choice,
    ) -> Result<Probe> {
        let started = Instant::now();
        let mut refusals = driver.refusals();
        for record in self.tape.records {
            driver.step(record, self.tape.text)?;
            if self.until_oom && driver.refusals() > refusals {
                refusals = driver.refusals();
                if driver.totals().ooms > 0 {
                    break;
                }
            }
        }
        let same_with = driver.same_with();
        let choice = ended_with(driver);
        Ok(Probe { report: report(self.options, &choice, driver, started), same_with })
    }
}

impl Visitor for Probing<'_, '_> {
    type Output = Result<Probe>;

    fn native(self, config: &Config) -> Self::Output {
        let mut driver = native_driver(self.tape, self.options, config, Off)?;
        self.follow(&mut driver, |driver| Choice::Native(driver.heap().config().clone()))
    }

    fn model<M: Model>(self, settings: &M::Settings) -> Self::Output {
        let mut driver = model_driver::<M>(self.tape, self.options, settings)?;
        self.follow(&mut driver, |_| self.options.strategy.clone())
    }
}

pub(crate) fn native_driver<R: Witness>(
    tape: DeviceTape<'_>,
    options: &Options,
    config: &Config,
    recorder: R,
) -> Result<Driver<Native<R>>> {
    let device = scripted_device(tape, options, config);
    let mut driver = Driver::new(device, config.clone(), recorder, tape.base, options.follow)?;
    if let Some(fraction) = options.memory_fraction {
        driver.limit(fraction)?;
    }
    Ok(driver)
}

pub(crate) fn model_driver<M: Model>(
    tape: DeviceTape<'_>,
    options: &Options,
    settings: &M::Settings,
) -> Result<Driver<Hosted<M>>> {
    let device = empty_device(SimConfig::GRANULARITY_BYTES, options, EventPolicy::AtOnce);
    let mut model = Hosted::<M>::new(device, settings.clone())?;
    if let Some(fraction) = options.memory_fraction {
        model.limit(fraction)?;
    }
    Driver::start(model, tape.base, options.follow)
}

fn drive_native<R: Witness>(
    tape: DeviceTape<'_>,
    options: &Options,
    config: &Config,
    recorder: R,
    watch: impl FnMut(&Record, u64, u64),
    progress: &mut dyn FnMut(u64),
) -> Result<(Report, Driver<Native<R>>)> {
    let started = Instant::now();
    let mut driver = native_driver(tape, options, config, recorder)?;
    follow(tape, &mut driver, watch, progress)?;
    let ended_with = Choice::Native(driver.heap().config().clone());
    Ok((report(options, &ended_with, &mut driver, started), driver))
}

fn follow<S: Strategy>(
    tape: DeviceTape<'_>,
    driver: &mut Driver<S>,
    mut watch: impl FnMut(&Record, u64, u64),
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    const PROGRESS_RECORDS: usize = 1 << 16;
    for (done, records) in tape.records.chunks(PROGRESS_RECORDS).enumerate() {
        progress((done * PROGRESS_RECORDS) as u64);
        for record in records {
            driver.step(record, tape.text)?;
            watch(record, driver.reserved_bytes(), driver.live_bytes());
        }
    }
    progress(tape.records.len() as u64);
    Ok(())
}

fn report<S: Strategy>(
    options: &Options,
    choice: &Choice,
    driver: &mut Driver<S>,
    started: Instant,
) -> Report {
    let (totals, live_bytes) = (driver.totals(), driver.peak_live_bytes());
    let elapsed_s = started.elapsed().as_secs_f64();
    let pools = driver.pools();
    Report::new(choice, options.capacity_bytes, &totals, live_bytes, pools, elapsed_s)
}

/// The device that the live allocator is replayed on: empty, with the capacity and addresses of the options.
pub(crate) fn scripted_device(
    tape: DeviceTape<'_>,
    options: &Options,
    config: &Config,
) -> SimDevice {
    let capacity_bytes = capacity_bytes(options);
    let large_page_bytes = size::page_bytes(false, config);
    // The start keeps its addresses in any case: its blocks are where they are.
    let is_recorded = options.addresses == Addresses::Recorded;
    let records = if is_recorded { tape.records } else { &[] };
    let reserve_bytes = config.segment_reserve.bytes(capacity_bytes);
    let script = Script::from_tape(tape.base, records, large_page_bytes, reserve_bytes);
    let granularity = SimConfig::GRANULARITY_BYTES;
    // Addresses that no device has do not move the others.
    let lowest = script.lowest().map_or(granularity, |addr| addr.0.min(ADDRESS_SPACE_BYTES));
    let lowest = lowest / granularity * granularity;
    let mut device = empty_device(lowest.max(granularity), options, events(tape, options, config));
    script.give_to(&mut device);
    device
}

/// When events are done: as the device of the recording answered, if it was asked at the same moments.
fn events(tape: DeviceTape<'_>, options: &Options, config: &Config) -> EventPolicy {
    let is_answer = |record: &Record| matches!(record.event, Event::StreamPassed { .. });
    let asks_alike = options.follow.is_as_recorded && config.stitch.is_some();
    if asks_alike && tape.records.iter().any(is_answer) {
        EventPolicy::OnRequest
    } else {
        EventPolicy::AtOnce
    }
}

/// Memory of the device; no more than of the largest device, whatever was requested or recorded.
fn capacity_bytes(options: &Options) -> u64 {
    let unlimited_bytes = SimConfig::UNLIMITED_CAPACITY_BYTES;
    options.capacity_bytes.map_or(unlimited_bytes, |bytes| bytes.min(unlimited_bytes))
}

fn empty_device(lowest: u64, options: &Options, events: EventPolicy) -> SimDevice {
    SimDevice::new(SimConfig {
        base: Addr(lowest),
        length_bytes: ADDRESS_SPACE_BYTES,
        order: match options.addresses {
            Addresses::Recorded | Addresses::Lowest => AddressOrder::Lowest,
            Addresses::Highest => AddressOrder::Highest,
            Addresses::Scattered { seed } => AddressOrder::Scattered { seed },
        },
        events,
        ..SimConfig::with_capacity(capacity_bytes(options))
    })
}
