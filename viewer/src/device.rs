//! Everything that the page has of one device.

use std::cmp::Reverse;

use rayon::prelude::*;
use replay::modules;
use replay::tape::{Device, Tape};
use serde::Serialize;
use trace_format::StringId;

use crate::bands::{Changes, ChangesAt, ShownLives};
use crate::chunk::{Arrays, Chunk};
use crate::columns::{COLUMN_MOMENTS, Level};
use crate::explained::ExplainPlot;
use crate::follow::{Contradiction, Followed, follow};
use crate::grouping::{Grouping, Quantity, Texts, groupings};
use crate::header::{DeviceHeader, GroupingHeader, LevelHeader, LivesHeader, Peaks};
use crate::names::{CodeOf, Frames, Names, stacks};
use crate::page::{RECORDS_MAX, ViewError};
use crate::patterns::{Pattern, patterns};
use crate::plots::{StrategiesPlot, WastePlot};
use crate::times::Clock;
use crate::{envelopes, marks, ranges, series, tree};

/// Runs of at most so many moments are drawn with all their lives at once.
const EXACT_MOMENTS_MAX: u64 = 300_000;
/// Levels of at most so many columns are there for the first picture.
const FIRST_COLUMNS_MAX: usize = 8192;

/// A device as a page has it: its chunks are compressed, and the tape is not needed any more.
#[derive(Debug)]
pub struct PageDevice {
    pub(crate) header: DeviceHeader,
    /// Chunks that the first picture needs.
    pub(crate) first: Vec<Chunk>,
    pub(crate) rest: Vec<Chunk>,
    /// The parts of the training steps.
    pub patterns: Vec<Pattern>,
}

/// A device of a run.
#[derive(Clone, Copy, Debug)]
pub struct Source<'t> {
    /// The run's name.
    pub run: &'t str,
    /// The run.
    pub tape: &'t Tape,
    /// The device, which is one of the tape's.
    pub device: &'t Device,
    /// Names and texts for the page's list of facts.
    pub facts: &'t [(String, String)],
}

impl Source<'_> {
    /// How many records the device has, if they can be numbered.
    pub(crate) fn records(&self) -> Result<usize, ViewError> {
        let (run, records) = (self.run.to_owned(), self.device.records.len());
        let too_long = ViewError::TooLong { run, device: self.device.id.0, records };
        if records > RECORDS_MAX { Err(too_long) } else { Ok(records) }
    }

    pub(crate) fn contradiction(&self, error: Contradiction) -> ViewError {
        ViewError::Contradiction { run: self.run.to_owned(), error }
    }
}

impl PageDevice {
    /// Computes the data of a device. `progress` receives the records done.
    ///
    /// # Errors
    /// When the run contradicts itself, or has more records than a page numbers.
    pub fn new(source: Source<'_>, progress: &mut dyn FnMut(u64)) -> Result<Self, ViewError> {
        source.records()?;
        let data = data(source, &CodeOf::new(source.tape), progress);
        data.map_err(|error| source.contradiction(error))
    }

    /// The most bytes that were reserved, as recorded.
    pub fn peak_reserved_bytes(&self) -> u64 {
        self.header.peaks.reserved_bytes
    }

    /// Adds the parts of reserved memory over time.
    pub fn add_waste(&mut self, plot: &WastePlot) {
        self.add_plot("waste", plot);
    }

    /// Adds the reserved memory of other strategies over time.
    pub fn add_strategies(&mut self, plot: &StrategiesPlot) {
        self.add_plot("strategies", plot);
    }

    /// Adds an explained moment.
    pub fn add_explanation(&mut self, plot: &ExplainPlot) {
        self.add_plot("explain", plot);
    }

    fn add_plot(&mut self, name: &'static str, plot: &impl Serialize) {
        let plot = serde_json::to_vec(plot).expect("texts and numbers are JSON");
        self.rest.push(Chunk::new(format!("plots/{name}"), &plot));
        self.header.plots.push(name);
    }
}

/// Computes the data of a device.
fn data(
    source: Source<'_>,
    code: &CodeOf,
    progress: &mut dyn FnMut(u64),
) -> Result<PageDevice, Contradiction> {
    let Source { tape, device, .. } = source;
    let records = &device.records;
    let followed = follow(device, &tape.stacks, code, COLUMN_MOMENTS, progress)?;
    let last_moment = records.len() as u32;
    let clock = Clock::of(records);
    let mut groupings = allocated_groupings(&followed, tape, code);
    groupings.extend(envelopes::grouping(&followed));
    let levels = followed.level.clone().with_coarser();
    let patterns = patterns(&followed, records, tape);
    let text = |id| tape.text(id);
    let (marks, mark_names) =
        marks::chunk("marks".to_owned(), &followed, records, &patterns, clock.start_ns, text);
    let (kinds, rank) = kinds(&followed, &groupings, "kinds".to_owned());

    let is_small = u64::from(last_moment) < EXACT_MOMENTS_MAX;
    let (mut first, mut rest) = (vec![marks], Vec::new());
    first.extend(clock.chunk("times".to_owned(), records));
    let mut headers: Vec<_> =
        groupings.iter().map(|it| header(it.name, it.quantity, &it.labels)).collect();
    let mut labels: Vec<_> = groupings.iter().map(|it| it.labels.clone()).collect();
    if !followed.reserved.is_empty() {
        let names: Vec<_> = followed.pool_streams.iter().map(envelopes::label).collect();
        headers.push(header("pool and stream", Quantity::Reserved, &names));
        labels.push(names);
    }
    let shown = ShownLives::of_levels(&followed, &levels);
    // From coarse to fine.
    for (at, (level, shown)) in levels.iter().zip(&shown).enumerate().rev() {
        let is_first = is_small || level.columns.len() <= FIRST_COLUMNS_MAX;
        let to = if is_first { &mut first } else { &mut rest };
        to.extend(series::tiles(&format!("series/{at}"), level.column_moments, &level.columns));
        let mut tiles: Vec<Vec<Chunk>> = groupings
            .par_iter()
            .enumerate()
            .map(|(number, grouping)| {
                let changes = shown.changes(&followed, &grouping.of_kind);
                changes.tiles(&format!("bands/{number}/{at}"), grouping.labels.len())
            })
            .collect();
        if !followed.reserved.is_empty() {
            let column = |moment| level.shows_from(moment);
            let reserved = ChangesAt::of(&followed.reserved, level.columns.len(), column);
            let prefix = format!("bands/{}/{at}", groupings.len());
            tiles.push(reserved.tiles(&prefix, followed.pool_streams.len()));
        }
        // The first picture shows the first grouping.
        let behind = tiles.split_off(1);
        to.extend(tiles.into_iter().flatten());
        rest.extend(behind.into_iter().flatten());
    }
    if !followed.envelopes.is_empty() {
        rest.push(envelopes::chunk("envelopes".to_owned(), &followed));
    }
    rest.push(ranges::chunk("ranges".to_owned(), device, &followed));
    let nodes = tree::nodes("lives", &followed, last_moment, &rank);
    if is_small {
        first.push(kinds);
        first.extend(nodes);
    } else {
        rest.push(kinds);
        rest.extend(nodes);
    }
    let names = Names {
        streams: followed.streams.iter().map(ToString::to_string).collect(),
        pools: followed.pools.iter().map(ToString::to_string).collect(),
        marks: mark_names,
        groups: labels,
        strings: &tape.stacks.strings,
        frames: Frames::of(tape),
        stacks: stacks(tape),
    };
    let names = serde_json::to_vec(&names).expect("texts and numbers are JSON");
    rest.insert(0, Chunk::new("names".to_owned(), &names));
    let header = device_header(source, &followed, &levels, headers, clock);
    Ok(PageDevice { header, first, rest, patterns })
}

/// The groupings of allocated bytes, with their labels.
pub(crate) fn allocated_groupings(
    followed: &Followed,
    tape: &Tape,
    code: &CodeOf,
) -> Vec<Grouping> {
    let phases = followed.phases.iter().map(|id| phase_label(tape, *id)).collect();
    let modules = followed.modules.iter().map(|id| modules::label(&tape.stacks, *id)).collect();
    groupings(followed, &Texts { code: &code.labels.labels, phases, modules })
}

fn phase_label(tape: &Tape, phase: StringId) -> &str {
    match phase {
        StringId(0) => "before any phase",
        phase => tape.text(phase),
    }
}

fn header(name: &str, quantity: Quantity, labels: &[String]) -> GroupingHeader {
    GroupingHeader { name: name.to_owned(), quantity, groups: labels.len() }
}

/// The kinds as a chunk, the most frequent first, and the place of each there.
fn kinds(followed: &Followed, groupings: &[Grouping], id: String) -> (Chunk, Vec<u32>) {
    let mut counts = vec![0u32; followed.kinds.len()];
    for life in &followed.lives {
        counts[life.kind as usize] += 1;
    }
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|kind| (Reverse(counts[*kind]), *kind));
    let mut rank = vec![0; order.len()];
    for (place, kind) in order.iter().enumerate() {
        rank[*kind] = place as u32;
    }
    let mut arrays = Arrays::default();
    let kinds = order.iter().map(|kind| followed.kinds[*kind]);
    arrays.bytes(kinds.clone().map(|kind| kind.size_bytes));
    arrays.bytes(kinds.clone().map(|kind| kind.requested_bytes));
    arrays.plain(kinds.clone().map(|kind| u64::from(kind.stack)));
    arrays.plain(kinds.clone().map(|kind| u64::from(kind.stream)));
    arrays.plain(kinds.map(|kind| u64::from(kind.pool)));
    for grouping in groupings {
        arrays.plain(order.iter().map(|kind| u64::from(grouping.of_kind[*kind])));
    }
    (Chunk::of(id, &arrays), rank)
}

/// The name of the GPU or "", and its memory.
pub(crate) fn gpu<'t>(tape: &'t Tape, device: &Device) -> (&'t str, Option<u64>) {
    let meta = tape.device_meta(device.id);
    let capacity_bytes = meta.and_then(|meta| meta.capacity_bytes.or(meta.total_bytes));
    (meta.map_or("", |meta| &meta.name), capacity_bytes)
}

fn device_header(
    source: Source<'_>,
    followed: &Followed,
    levels: &[Level],
    groupings: Vec<GroupingHeader>,
    clock: Clock,
) -> DeviceHeader {
    let Source { run, tape, device, facts, .. } = source;
    let (name, capacity_bytes) = gpu(tape, device);
    let records = device.records.len() as u64;
    DeviceHeader {
        run: run.to_owned(),
        device: device.id.0,
        name: name.to_owned(),
        records,
        moments: records + 1,
        has_clock: clock.is_known,
        start_ns: clock.start_ns.to_string(),
        lost: device.lost,
        left_out: device.left_out,
        ooms: followed.ooms,
        capacity_bytes,
        levels: levels
            .iter()
            .map(|level| LevelHeader {
                column_moments: level.column_moments,
                columns: level.columns.len(),
            })
            .collect(),
        groupings,
        lives: LivesHeader {
            leaf_moments: tree::LEAF_MOMENTS,
            height: tree::height(device.records.len() as u32),
            count: followed.lives.len(),
        },
        time_step_moments: clock.step_moments,
        peaks: Peaks {
            allocated_bytes: followed.peak.allocated_bytes,
            allocated_moment: followed.peak_allocated_moment,
            reserved_bytes: followed.peak.reserved_bytes,
            reserved_moment: followed.peak_reserved_moment,
            active_bytes: followed.peak.active_bytes,
            requested_bytes: followed.peak.requested_bytes,
            live_bytes: followed.peak_live_bytes,
            enveloped_bytes: followed.peak_enveloped_bytes,
        },
        facts: facts.to_vec(),
        plots: Vec::new(),
    }
}
