//! Where reserved memory goes: at the peak, whenever memory is out, and over time.
//!
//! The tape is replayed through the real allocator. `docs/waste.md` defines the parts.

mod misses;
mod parts;
mod split;
mod watch;

use allocator::heap::Heap;
use allocator::size;
use device::Device;
use serde::Serialize;
use sim_device::SimDevice;
use trace_format::{PoolId, Record, Stream};

use crate::driver::{Driver, Result};
use crate::run::{DeviceTape, Options, scripted_device};
use crate::strategy::Native;
use misses::Misses;
pub use misses::{Reference, References};
pub use parts::Parts;
pub use split::LargestFree;
use split::{Rules, split};
use watch::Watch;

/// Moments of no memory that are taken apart; more are only counted.
pub const OOMS_MAX: usize = 100;

/// The parts of reserved memory over a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waste {
    /// `native`, `expandable` or `stitch`.
    pub strategy: String,
    /// The settings at the end, as `PYTORCH_CUDA_ALLOC_CONF` has them.
    pub config: String,
    /// Memory of the simulated device; `None` is no limit.
    pub capacity_bytes: Option<u64>,
    /// The moment between two calls when the most was reserved.
    pub peak: WasteMoment,
    /// The moment that filled the device: of all growths that come within 2 % of the peak, the one with the most
    /// allocated. The peak itself is often a last small segment, when much was free already.
    pub filled: WasteMoment,
    /// The moments when memory was out, the first [`OOMS_MAX`] of them.
    pub ooms: Vec<WasteMoment>,
    /// How many there were.
    pub ooms_total: u64,
    /// The fullest moment of each of at most as many equal stretches as were asked for.
    pub series: Vec<Sample>,
}

/// One moment of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Records that were replayed before it.
    pub after_records: u64,
    /// When, in nanoseconds since the Unix epoch; 0 where the run had no clock.
    pub time_ns: u64,
    /// Bytes held from the device.
    pub reserved_bytes: u64,
    /// The parts of the reserved bytes.
    #[serde(flatten)]
    pub parts: Parts,
}

/// One moment, with the details of its parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WasteMoment {
    /// The reserved memory and its parts.
    #[serde(flatten)]
    pub sample: Sample,
    /// The request that was refused here, if memory was out.
    pub refused: Option<Reference>,
    /// The requests that classify free memory.
    pub references: References,
    /// Memory left on the device, or under the memory fraction.
    pub available_bytes: u64,
    /// The free bytes that a flush (`torch.cuda.empty_cache`) would return to the device.
    pub returnable_bytes: u64,
    /// Bytes stranded by fragmentation in pieces that are large enough, but that the settings withhold.
    pub withheld_by_settings_bytes: u64,
    /// The largest free piece of each reference request's own stream and pool.
    pub largest_free: LargestFree,
    /// Stranded bytes by stream, the most first.
    pub streams: Vec<StrandedByStream>,
    /// Stranded bytes by private pool, the most first.
    pub pools: Vec<StrandedByPool>,
}

/// Free memory of a stream that another stream needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StrandedByStream {
    /// The stream that owns it.
    pub stream: Stream,
    /// How much.
    pub stranded_bytes: u64,
}

/// Free memory of a pool that another pool asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StrandedByPool {
    /// The pool that owns it.
    pub pool: PoolId,
    /// How much.
    pub stranded_bytes: u64,
}

/// Takes a run's reserved memory apart, with a series of at most `points` moments. `progress` receives the number of
/// records done.
///
/// # Errors
/// When the tape contradicts itself or its start does not fit the capacity.
pub fn waste(
    tape: DeviceTape<'_>,
    options: &Options,
    points: usize,
    progress: &mut dyn FnMut(u64),
) -> Result<Waste> {
    watched(tape, options, Watch::new(tape.records.len() as u64, points), progress)
}

fn watched(
    tape: DeviceTape<'_>,
    options: &Options,
    mut watch: Watch,
    progress: &mut dyn FnMut(u64),
) -> Result<Waste> {
    let total = tape.records.len() as u64;
    let driver = step_through(tape, options, tape.records, |driver, done, time_ns| {
        if watch.sees(driver, done, tape.records.get(done as usize)) {
            let moment = take_apart(driver, done, time_ns);
            watch.keep(moment);
        }
        driver.heap_mut().recorder_mut().refused = None;
        if done % PROGRESS_RECORDS == 0 {
            progress(done);
        }
    })?;
    progress(total);
    let (wanted, mut moments) = watch.end();
    let missing = wanted.missing(&moments);
    if let Some(&last) = missing.last() {
        let mut missing = missing.iter().peekable();
        step_through(tape, options, &tape.records[..last as usize], |driver, done, time_ns| {
            if missing.next_if_eq(&&done).is_some() {
                moments.insert(done, take_apart(driver, done, time_ns));
            }
            driver.heap_mut().recorder_mut().refused = None;
        })?;
    }
    let config = driver.heap().config();
    Ok(Waste {
        strategy: crate::strategy::table::name_of(config).to_owned(),
        config: config.text.clone(),
        capacity_bytes: options.capacity_bytes,
        peak: moments[&wanted.peak].clone(),
        filled: moments[&wanted.filled].clone(),
        ooms: wanted.ooms.iter().map(|done| moments[done].clone()).collect(),
        ooms_total: wanted.ooms_total,
        series: wanted.series.iter().map(|done| moments[done].sample).collect(),
    })
}

const PROGRESS_RECORDS: u64 = 1 << 16;

/// Replays records from the start, and shows the allocator before the first and after each: how many are done, and the
/// time.
fn step_through(
    tape: DeviceTape<'_>,
    options: &Options,
    records: &[Record],
    mut look: impl FnMut(&mut Driver<Native<Misses>>, u64, u64),
) -> Result<Driver<Native<Misses>>> {
    let config = options.native_config()?;
    let device = scripted_device(tape, options, config);
    let mut driver =
        Driver::new(device, config.clone(), Misses::default(), tape.base, options.follow)?;
    if let Some(fraction) = options.memory_fraction {
        driver.limit(fraction)?;
    }
    *driver.heap_mut().recorder_mut() = Misses::default(); // Requests that rebuilt the start are not misses.
    look(&mut driver, 0, tape.base.time_ns);
    for (record, done) in records.iter().zip(1..) {
        driver.step(record, tape.text)?;
        look(&mut driver, done, record.time_ns);
    }
    Ok(driver)
}

fn take_apart(
    driver: &mut Driver<Native<Misses>>,
    after_records: u64,
    time_ns: u64,
) -> WasteMoment {
    let Misses { newest: references, refused, .. } = *driver.heap_mut().recorder_mut();
    let available_bytes = available_bytes(driver.heap_mut());
    let heap = driver.heap();
    let is_flushed = |pool: PoolId| pool.is_default() || heap.pool_use_count(pool) == Ok(0);
    let config = heap.config();
    let rounds_plainly = size::is_plain(config);
    let rules = Rules { config, rounds_plainly, references, is_flushed: &is_flushed };
    let split = split(heap.mapped_runs(), &rules);
    let streams = split.by_stream.iter();
    let mut streams: Vec<_> = streams
        .filter(|(_, bytes)| **bytes > 0)
        .map(|(&stream, &stranded_bytes)| StrandedByStream { stream, stranded_bytes })
        .collect();
    streams.sort_by_key(|stranded| std::cmp::Reverse(stranded.stranded_bytes));
    let pools = split.by_pool.iter();
    let mut pools: Vec<_> = pools
        .filter(|(_, bytes)| **bytes > 0)
        .map(|(&pool, &stranded_bytes)| StrandedByPool { pool, stranded_bytes })
        .collect();
    pools.sort_by_key(|stranded| std::cmp::Reverse(stranded.stranded_bytes));
    WasteMoment {
        sample: Sample {
            after_records,
            time_ns,
            reserved_bytes: heap.reserved_bytes(),
            parts: split.parts,
        },
        refused,
        references,
        available_bytes,
        returnable_bytes: split.returnable_bytes,
        withheld_by_settings_bytes: split.withheld_bytes,
        largest_free: split.largest_free,
        streams,
        pools,
    }
}

/// Memory still available from the device or under the memory fraction.
fn available_bytes(heap: &mut Heap<SimDevice, Misses>) -> u64 {
    // The simulated device always answers; a fault cannot be injected here.
    let Ok(memory) = heap.device_mut().memory_info() else { return 0 };
    let fraction = heap.memory_fraction();
    if fraction >= 1.0 {
        return memory.free_bytes;
    }
    let allowed_bytes = (fraction * memory.total_bytes as f64) as u64;
    memory.free_bytes.min(allowed_bytes.saturating_sub(heap.reserved_bytes()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use settings::Config;

    use super::*;
    use crate::driver::Follow;
    use crate::import::RunLimits;
    use crate::run::Addresses;
    use crate::tape::Tape;

    #[test]
    fn a_second_replay_takes_apart_what_the_first_left_out() {
        for name in ["gpt2_train-default", "resnet50_batchsweep-oom"] {
            let file = format!("../tests/data/traces/{name}.pickle.zst");
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let tape = Tape::open(&path, &RunLimits::default()).expect("a snapshot");
            let config = Config::parse(&tape.meta.alloc_conf, tape.compat()).unwrap().config;
            let options = Options {
                strategy: config.into(),
                capacity_bytes: None,
                memory_fraction: None,
                addresses: Addresses::Lowest,
                follow: Follow::default(),
            };
            let device = &tape.devices[0];
            let text = |id| tape.text(id);
            let (base, records) = (&device.base, device.records.as_slice());
            let tape = DeviceTape { base, records, text: &text };
            let found = |spare_blocks| {
                let mut watch = Watch::new(records.len() as u64, 60);
                watch.spare_blocks = spare_blocks;
                watched(tape, &options, watch, &mut |_| {}).expect("a consistent trace")
            };
            assert_eq!(found(0), found(u64::MAX), "{name}");
        }
    }
}
