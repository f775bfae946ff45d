//! Explains one moment of a run: why memory was out, what holds it, and what would have helped; or what is live.
//!
//! The run is replayed to the moment. Every statement about what would have happened is another replay: of the one
//! request with other blocks freed, or of the run up to it under other settings.

mod blocks;
mod capacity;
mod changes;
mod moment;
mod peak;
mod remedies;
mod served;

use std::sync::atomic::{AtomicU64, Ordering};

use allocator::heap::{PoolChoice, Request};
use events::Off;
use oom::{Effort, Others, Pinning, Situation, free_space, judge, pinning};
use serde::Serialize;
use trace_format::{Event, HostReading, MarkKind, PoolId, Record, SegmentState, Stream, StringId};

pub use blocks::{BlockOrigin, ExplainedBlock, Live, LiveGroup};
pub use capacity::capacity_at_oom;
pub use moment::{At, MomentKind};
pub use oom::{EXHAUSTIVE_BLOCKS, FreeSpace, OomVerdict, Step, Unserved, Way, process_of_mark};
pub use peak::{PeakWithout, Peaks};
pub use remedies::{Remedy, RemedyKind};

use crate::driver::{DriveError, Driver};
use crate::holders::RunHolders;
use crate::host_memory::{HostHolder, HostMemory, HostOutOfMemory, last_reading};
use crate::run::{DeviceTape, Options};
use crate::strategy::Native;
use crate::tape::{Device, Tape};
use blocks::{Origins, live_blocks};
use moment::{Scan, driver};
use peak::peaks_without;
use remedies::{Prefix, remedies};
use served::served;

/// Why a moment cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The run has no records.
    #[error("the run has no records: record it again")]
    Empty,
    /// No request is refused.
    #[error(
        "no request of the run is refused in its replay: pass --at peak, or a smaller --capacity (`vramtape fit RUN` \
         finds the smallest)"
    )]
    NoOutOfMemory,
    /// A record beyond the last.
    #[error("--at {record}: the run has records 0 to {}", records - 1)]
    NoRecord {
        /// The number.
        record: u64,
        /// How many there are.
        records: u64,
    },
    /// A time beyond the last record.
    #[error("--at: the run is {:.3} s long, shorter than {:.3} s", *length_ns as f64 / 1e9, *ns as f64 / 1e9)]
    NoTime {
        /// Since the first record.
        ns: u64,
        /// Between the first record and the last.
        length_ns: u64,
    },
    /// A time in a run whose records have none.
    #[error("--at: the run has no clock; give the number of a record instead of a time")]
    NoClock,
    /// The run cannot be replayed.
    #[error(transparent)]
    Drive(#[from] DriveError),
}

/// A run, and what is asked about it.
#[derive(Clone, Copy)]
pub struct Question<'t> {
    /// The run.
    pub tape: &'t Tape,
    /// The device.
    pub device: &'t Device,
    /// Which moment; without one the out of memory if there is one, else the peak.
    pub at: Option<At>,
    /// Memory of the device, with what others hold of it; `None` where it is not known.
    pub device_bytes: Option<u64>,
    /// Whether device and settings are the recorded ones: a recorded refusal is then explained even if the replay
    /// serves it.
    pub is_as_recorded: bool,
}

/// A moment of a run, explained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// `native`, `expandable` or `stitch`.
    pub strategy: &'static str,
    /// The settings at the moment, as `PYTORCH_CUDA_ALLOC_CONF` has them.
    pub config: String,
    /// Memory of the simulated device; `None` is no limit.
    pub capacity_bytes: Option<u64>,
    /// The moment.
    pub moment: ExplainedMoment,
    /// The refused request, if it is an out of memory.
    pub oom: Option<OutOfMemory>,
    /// The end of the program by an out of memory of the host, which no replay shows.
    pub host_oom: Option<HostOutOfMemory>,
    /// Pinned host memory of the whole run; `None` where the run has no readings of it.
    pub host_memory: Option<HostMemory>,
    /// The last of these readings before the moment.
    pub host_memory_then: Option<HostReading>,
    /// Pinned host memory by code at the moment; empty where the tape has no calls for it.
    pub host_holders: Vec<HostHolder>,
    /// Free memory by pool, stream, size class and the reason why it did not serve.
    pub free_space: Vec<FreeSpace>,
    /// The segments with their blocks, for a picture.
    #[serde(skip)]
    pub segments: Vec<SegmentState>,
    /// Live memory.
    pub live: Live,
    /// Of the peak: by how much it falls.
    pub peak: Option<ExplainedPeak>,
    /// Why there are no stacks, and how to record them.
    pub stacks_note: Option<String>,
}

/// Which moment it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedMoment {
    /// Its kind.
    pub kind: MomentKind,
    /// Records before it.
    pub after_records: u64,
    /// Nanoseconds since the Unix epoch; 0 where the run has no clock.
    pub time_ns: u64,
    /// The step that it is in.
    pub step: Option<String>,
    /// The phase that it is in.
    pub phase: Option<String>,
    /// Bytes held from the device.
    pub reserved_bytes: u64,
    /// Requests that the whole replay refuses.
    pub refused_requests: u64,
}

/// The peak of a run, and what lowers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedPeak {
    /// The peaks of the run.
    #[serde(flatten)]
    pub peaks: Peaks,
    /// The peaks without the largest places of the code, each a replay.
    pub without: Vec<PeakWithout>,
}

/// A refused request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutOfMemory {
    /// The first rule that holds.
    pub verdict: OomVerdict,
    /// Other rules that hold.
    pub also: Vec<OomVerdict>,
    /// The reason, in words.
    pub why: String,
    /// The numbers that prove it.
    pub arithmetic: Vec<Step>,
    /// The request.
    pub request: RefusedRequest,
    /// The live blocks with the fewest bytes that let it be served; `None` where none do.
    pub pinning: Option<PinningSet>,
    /// Changes that help, the least effort first, each a replay.
    pub remedies: Vec<Remedy>,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedRequest {
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// The same, rounded up to a block.
    pub size_bytes: u64,
    /// The segment that the device is asked for.
    pub segment_bytes: u64,
    /// The pool.
    pub pool: PoolId,
    /// The stream.
    pub stream: Stream,
    /// Whether the run was recorded with this refusal.
    pub is_recorded: bool,
    /// The code, module, phase and step that made it.
    #[serde(flatten)]
    pub origin: BlockOrigin,
}

/// The live blocks with the fewest bytes which, freed immediately before the request, let it be served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PinningSet {
    /// Their bytes.
    pub bytes: u64,
    /// No set with fewer bytes serves the request.
    pub lower_bound_bytes: u64,
    /// Whether the two are equal.
    pub is_exact: bool,
    /// How the request is then served.
    pub way: Way,
    /// The blocks, the largest first. A replay with them freed serves the request.
    pub blocks: Vec<ExplainedBlock>,
}

impl PinningSet {
    fn of(found: &Pinning, live: &[ExplainedBlock]) -> Self {
        let is_member = |block: &&ExplainedBlock| found.blocks.binary_search(&block.addr).is_ok();
        let mut blocks: Vec<_> = live.iter().filter(is_member).cloned().collect();
        blocks.sort_by_key(|block| (std::cmp::Reverse(block.size_bytes), block.addr));
        let Pinning { bytes, lower_bound_bytes, way, .. } = *found;
        Self { bytes, lower_bound_bytes, is_exact: bytes == lower_bound_bytes, way, blocks }
    }
}

/// The parts of [`explain`]'s work that `progress` counts.
pub const PARTS: u64 = 1000;

/// Explains a moment of a run under these settings. `progress` receives how many of [`PARTS`] are done.
///
/// # Errors
/// When the moment does not exist, the strategy is a model, or the run cannot be replayed.
pub fn explain(
    question: &Question<'_>,
    options: &Options,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Explanation, ExplainError> {
    let Question { tape, device, at, device_bytes, is_as_recorded } = *question;
    let text = |id| tape.text(id);
    let run = DeviceTape { base: &device.base, records: &device.records, text: &text };
    if run.records.is_empty() {
        return Err(ExplainError::Empty);
    }
    let scan = Scan::of(run, options)?;
    progress(100);
    let host_memory = HostMemory::of(tape);
    let host_oom =
        HostOutOfMemory::of(tape, host_memory.as_ref()).filter(|_| scan.refused.is_empty());
    let at = match at {
        None | Some(At::OutOfMemory) if host_oom.is_some() => Some(At::Last),
        at => at,
    };
    let (kind, after_records) = scan.find(at, run.records, is_as_recorded)?;
    let place = after_records as usize;
    let mut driver = driver(run, options)?;
    for record in &run.records[..place] {
        driver.step(record, run.text)?;
    }
    progress(200);
    let origins = Origins::of(tape, device, place);
    let base = driver.heap().base_state();
    let is_end = place == run.records.len();
    let until_ns = match place.checked_sub(1) {
        Some(last) if !is_end => run.records[last].time_ns,
        Some(_) => u64::MAX,
        None => 0,
    };
    let live = live_blocks(&base.segments, driver.held(), &origins);
    let config = driver.heap().config().clone();
    let record = run.records.get(place);
    let situation = match record {
        Some(record) if kind == MomentKind::Oom => situation(&driver, record),
        _ => None,
    };
    let free_space = free_space(&base.segments, &config, situation.as_ref());
    let others_bytes = match (device_bytes, options.capacity_bytes) {
        (Some(device_bytes), Some(capacity_bytes)) => device_bytes.saturating_sub(capacity_bytes),
        _ => 0,
    };
    let oom = match situation.as_ref().zip(record) {
        Some((situation, record)) => {
            let prefix = Prefix::new(run, options, place, &scan.refused);
            let process_bytes = process_bytes(&run.records[place..], run.text);
            let others = Others::new(others_bytes, process_bytes, driver.reserved_bytes());
            let seen = Seen { situation, origins: &origins, live: &live };
            Some(seen.out_of_memory(record, &free_space, others, &prefix, progress)?)
        }
        None if kind == MomentKind::Oom => {
            record.and_then(|record| served(record, driver.reserved_bytes(), &config, &origins))
        }
        None => None,
    };
    let by = Live::of(&live);
    let peak = if kind == MomentKind::Peak {
        let without = peaks_without(run, options, &by, &origins)?;
        Some(ExplainedPeak { peaks: scan.peaks, without })
    } else {
        None
    };
    progress(PARTS);
    let time_ns = place.checked_sub(1).map_or(device.base.time_ns, |at| run.records[at].time_ns);
    Ok(Explanation {
        strategy: crate::strategy::table::name_of(&config),
        config: config.text,
        capacity_bytes: options.capacity_bytes,
        moment: ExplainedMoment {
            kind,
            after_records,
            time_ns,
            step: origins.step(),
            phase: origins.phase(),
            reserved_bytes: driver.reserved_bytes(),
            refused_requests: scan.refused.len() as u64,
        },
        oom,
        host_oom,
        host_memory,
        host_memory_then: last_reading(&run.records[..place], &tape.stacks),
        host_holders: HostHolder::at(tape, until_ns),
        free_space,
        segments: base.segments,
        live: by,
        peak,
        stacks_note: RunHolders::none(tape).note,
    })
}

/// The situation of a replay that comes to a record whose request it refuses; `None` where the record makes no request,
/// or it is served.
fn situation(driver: &Driver<Native<Off>>, record: &Record) -> Option<Situation> {
    let (Event::Alloc { requested_bytes, stream, pool, .. }
    | Event::Oom { requested_bytes, stream, pool, .. }) = record.event
    else {
        return None;
    };
    let pool = PoolChoice::Exactly(pool);
    let request = Request { requested_bytes, stream, pool, stack: record.stack };
    Situation::of(driver.heap().clone(), &request, driver.pending())
}

/// What the recording process used of the device at the recorded out of memory that these records begin with, where the
/// tape states it. Other threads may have come between the two.
fn process_bytes<'t>(records: &[Record], text: &dyn Fn(StringId) -> &'t str) -> Option<u64> {
    const DISTANCE_MAX: usize = 256;
    let (first, rest) = records.split_first()?;
    matches!(first.event, Event::Oom { .. }).then_some(())?;
    let rest = rest.iter().take(DISTANCE_MAX);
    let mut before_next = rest.take_while(|record| !matches!(record.event, Event::Oom { .. }));
    before_next.find_map(|record| match record.event {
        Event::Mark { kind: MarkKind::Instant, name } => process_of_mark(text(name)),
        _ => None,
    })
}

/// What a replay shows immediately before a refused request.
struct Seen<'s> {
    situation: &'s Situation,
    origins: &'s Origins<'s>,
    live: &'s [ExplainedBlock],
}

impl Seen<'_> {
    fn out_of_memory(
        &self,
        record: &Record,
        free_space: &[FreeSpace],
        others: Others,
        prefix: &Prefix<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<OutOfMemory, ExplainError> {
        let situation = self.situation;
        let judged = judge(situation, free_space, others);
        let request = RefusedRequest {
            requested_bytes: situation.request.requested_bytes,
            size_bytes: situation.size_bytes,
            segment_bytes: situation.segment_bytes,
            pool: situation.pool(),
            stream: situation.request.stream,
            is_recorded: matches!(record.event, Event::Oom { .. }),
            origin: self.origins.of_request(record),
        };
        let pinning =
            pinning(situation, Effort::FULL).found.map(|found| PinningSet::of(&found, self.live));
        progress(400);
        let done = AtomicU64::new(400);
        let step = || progress((done.fetch_add(40, Ordering::Relaxed) + 40).min(PARTS));
        let (origins, live) = (self.origins, self.live);
        let code = origins.name(record.stack).unwrap_or("the request");
        let remedies = remedies(prefix, situation, origins, live, others, code, &step)?;
        Ok(OutOfMemory {
            verdict: judged.verdict,
            also: judged.also,
            why: judged.why,
            arithmetic: judged.steps,
            request,
            pinning,
            remedies,
        })
    }
}
