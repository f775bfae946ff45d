//! From another tool's file to the tape's model: PyTorch's memory snapshots, RMM's logs, minimalloc's problems.
//!
//! A log of requests is placed by the allocator itself ([`requests`]). A snapshot holds the last events of each device
//! and the final segments. Its import walks back from the segments to the state the events began with ([`walk_back`]),
//! infers the facts that the trace does not hold ([`flush`], [`pools`], [`observer::entry`]), and writes the records
//! forward ([`forward`]). Every input is kept; inferred facts are listed in [`Import::inferred`].

mod csv;
mod flush;
mod forward;
mod host;
mod insert;
mod minimalloc;
mod notes;
mod origin;
mod pools;
mod requests;
mod rmm;
mod run_limits;
#[cfg(test)]
mod sample;
mod walk_back;

use std::path::Path;

use packing::Buffer;
use settings::{Compat, Config, UNLIMITED};
use thiserror::Error;
use trace_format::{BaseState, BlockState, DeviceId, Record, SegmentState, StateError};

pub use csv::CsvError;
pub use origin::Origin;
pub(crate) use origin::{START_BYTES, is_run};
pub use requests::PlaceError;
pub use run_limits::RunLimits;

use crate::pickle::{self, Limits, PickleError};
use crate::sizes::{SizeError, Sizes};
use crate::snapshot::{self, Segment, Settings, Snapshot, SnapshotError, Stacks, TraceEntry};
use crate::source::{self, Input, SourceError};

/// A file as a tape holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// The kind of file.
    pub origin: Origin,
    /// The devices that have events or segments.
    pub devices: Vec<DeviceImport>,
    /// Stacks by `StackId`; its strings are also those that marks name by `StringId`.
    pub stacks: Stacks,
    /// The settings in force at the end of the trace.
    pub config: Config,
    /// Facts that the file does not hold, how each was inferred and its effect, a sentence each.
    pub inferred: Vec<String>,
    /// How many times the usual limits it may reach when it is replayed; 0 and 1 are the usual ones.
    pub trust_factor: u64,
}

/// One device's part of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceImport {
    /// The device.
    pub device: DeviceId,
    /// The memory before the first record; empty if the trace covers the whole run.
    pub base: BaseState,
    /// Everything that happened, in order.
    pub records: Vec<Record>,
    /// The segments the snapshot ends with.
    pub final_segments: Vec<SegmentState>,
    /// Blocks that the records leave live and the final segments show free: recording stopped before the snapshot.
    pub unrecorded_frees: u64,
}

/// A file that cannot be imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Not a pickle of plain data.
    #[error("{path}: {error}")]
    Pickle {
        /// The file.
        path: String,
        /// The fault and its place.
        error: PickleError,
    },
    /// Not JSON, though it begins like it.
    #[error("{path}: not a JSON snapshot: {error}; is it the whole file?")]
    Json {
        /// The file.
        path: String,
        /// The fault and its place.
        error: serde_json::Error,
    },
    /// A log or a problem with a line that cannot be read.
    #[error("{path}: {origin}: {error}")]
    Csv {
        /// The file.
        path: String,
        /// The kind of file, by its header.
        origin: Origin,
        /// The fault and its place.
        error: CsvError,
    },
    /// A log whose requests cannot be placed.
    #[error("{path}: {origin}: cannot be placed: {error}")]
    Place {
        /// The file.
        path: String,
        /// The kind of file.
        origin: Origin,
        /// Why.
        error: Box<PlaceError>,
    },
    /// No file of a kind that is known.
    #[error(
        "{path}: begins with {start:?}, as no run does; give a .vtape file, a snapshot of \
         torch.cuda.memory._dump_snapshot, a log of RMM or a problem of minimalloc (CSV with \
         its header)"
    )]
    Unknown {
        /// The file.
        path: String,
        /// Its first characters.
        start: String,
    },
    /// Not a memory snapshot.
    #[error("{path}: {error}")]
    Snapshot {
        /// The file.
        path: String,
        /// The fault and its place.
        error: SnapshotError,
    },
    /// The sizes of a device's events do not add up.
    #[error("device {device}, event {at}: {error}")]
    Sizes {
        /// The device.
        device: DeviceId,
        /// Which of its events, from 0; those of the file with what was worked out between them.
        at: usize,
        /// The fault.
        error: SizeError,
    },
    /// The final segments overlap or are not tiled.
    #[error("device {device}: the snapshot's segments contradict themselves: {error}")]
    Segments {
        /// The device.
        device: DeviceId,
        /// The fault and its place.
        error: StateError,
    },
}

/// Reads and imports a file of any [`Origin`], plain, zstd or gzip (`-` is standard input).
///
/// # Errors
/// When the file cannot be read, is of no known kind, or contradicts itself.
pub fn import_file(path: &Path, known: &RunLimits) -> Result<Import, ImportError> {
    import_bytes(source::read_all(path, known.trust_factor)?, path, known)
}

/// Imports the content of a file; errors call it `path`.
///
/// # Errors
/// As [`import_file`].
pub fn import_bytes(
    input: impl Into<Input>,
    path: &Path,
    known: &RunLimits,
) -> Result<Import, ImportError> {
    let Input { bytes, stored_bytes } = input.into();
    let path = || path.display().to_string();
    let origin =
        Origin::of(&bytes).map_err(|start| ImportError::Unknown { path: path(), start })?;
    let limits = Limits::of_file(stored_bytes, known.trust_factor);
    let read = match origin {
        Origin::Snapshot => return import(snapshot_of(bytes, limits, path)?, known),
        Origin::RmmLog => rmm::read(&bytes, limits.records),
        Origin::Minimalloc => minimalloc::read(&bytes, limits.records),
    };
    drop(bytes);
    let requests = read.map_err(|error| ImportError::Csv { path: path(), origin, error })?;
    let placed = requests
        .place(origin, known.trust_factor)
        .map_err(|error| ImportError::Place { path: path(), origin, error: Box::new(error) })?;
    placed.checked()
}

/// Whether a file that begins so is a problem of minimalloc.
pub(crate) fn is_minimalloc(start: &[u8]) -> bool {
    Origin::of(start).ok() == Some(Origin::Minimalloc)
}

/// A problem of minimalloc as it is: the names of the buffers, and the buffers.
pub(crate) fn minimalloc_problem(
    input: &Input,
    path: &Path,
    known: &RunLimits,
) -> Result<(Vec<String>, Vec<Buffer>), ImportError> {
    let limits = Limits::of_file(input.stored_bytes, known.trust_factor);
    let read = minimalloc::problem(&input.bytes, limits.records);
    let (path, origin) = (path.display().to_string(), Origin::Minimalloc);
    let problem = read.map_err(|error| ImportError::Csv { path, origin, error })?;
    Ok((problem.names, problem.buffers))
}

fn snapshot_of(
    bytes: Vec<u8>,
    limits: Limits,
    path: impl Fn() -> String,
) -> Result<Snapshot, ImportError> {
    let tree = if is_json(&bytes) {
        pickle::read_json(&bytes, limits)
            .map_err(|error| ImportError::Json { path: path(), error })?
    } else {
        pickle::read(&bytes, limits).map_err(|error| ImportError::Pickle { path: path(), error })?
    };
    drop(bytes);
    snapshot::from_tree(&tree).map_err(|error| ImportError::Snapshot { path: path(), error })
}

/// Whether a snapshot is JSON; no pickle begins like this.
pub fn is_json(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'['))
}

/// Imports a snapshot, with what is known about its run from elsewhere.
///
/// # Errors
/// When the final segments contradict themselves.
pub fn import(snapshot: Snapshot, known: &RunLimits) -> Result<Import, ImportError> {
    let compat = known.compat.or(snapshot.settings.compat);
    let inferred = notes::of_file(&snapshot, compat.is_none().then(|| compat_of(&snapshot)));
    let compat = compat.unwrap_or_else(|| compat_of(&snapshot));
    let (config, note) = config_of(&snapshot.settings, compat);
    let Snapshot {
        segments, traces, annotations, host_trace, host_blocks, stacks, left_out, ..
    } = snapshot;
    let mut host = Some((host_trace, host_blocks));
    let mut out = Import {
        origin: Origin::Snapshot,
        devices: Vec::new(),
        stacks,
        config,
        inferred: note.into_iter().chain(inferred).collect(),
        trust_factor: known.trust_factor,
    };
    let mut devices: Vec<DeviceSnapshot> = traces
        .into_iter()
        .map(|entries| DeviceSnapshot { entries, ..Default::default() })
        .collect();
    for segment in &segments {
        device_of(&mut devices, segment.device).segments.push(segment_state(segment));
    }
    for annotation in annotations {
        device_of(&mut devices, annotation.device).annotations.push(annotation);
    }
    for (device, found) in devices.into_iter().enumerate() {
        if !found.entries.is_empty() || !found.segments.is_empty() {
            // The process's, so that the first device has it.
            let host = host.take().unwrap_or_default();
            let found = DeviceSnapshot { host, ..found };
            let imported = import_device(DeviceId(device as u16), found, known, &mut out)?;
            out.devices.push(imported);
        }
    }
    out.inferred.extend(left_out.iter().map(|what| format!("left out: {what}")));
    out.checked()
}

impl Import {
    /// The import, if what its events name adds up.
    fn checked(self) -> Result<Self, ImportError> {
        for DeviceImport { device, base, records, .. } in &self.devices {
            let failed = |at| move |error| ImportError::Sizes { device: *device, at, error };
            let mut sizes = Sizes::default();
            sizes.base(base).map_err(failed(0))?;
            for (at, record) in records.iter().enumerate() {
                sizes.event(&record.event).map_err(failed(at))?;
            }
        }
        Ok(self)
    }
}

/// One device's part of a snapshot.
#[derive(Default)]
struct DeviceSnapshot {
    entries: Vec<TraceEntry>,
    segments: Vec<SegmentState>,
    annotations: Vec<snapshot::Annotation>,
    /// The history of pinned host memory, and its blocks at the end.
    host: (Vec<TraceEntry>, Vec<snapshot::HostBlock>),
}

fn device_of(devices: &mut Vec<DeviceSnapshot>, device: u32) -> &mut DeviceSnapshot {
    let at = device as usize;
    if devices.len() <= at {
        devices.resize_with(at + 1, DeviceSnapshot::default);
    }
    &mut devices[at]
}

fn import_device(
    device_id: DeviceId,
    found: DeviceSnapshot,
    known: &RunLimits,
    out: &mut Import,
) -> Result<DeviceImport, ImportError> {
    let DeviceSnapshot { entries, segments: final_segments, annotations, host } = found;
    let entries = entries.as_slice();
    let walked = walk_back::walk_back(entries, &final_segments, &out.config)
        .map_err(|error| ImportError::Segments { device: device_id, error })?;
    let base_bytes = walked.base.reserved_bytes();
    let flushes = flush::find(entries, base_bytes, &out.config, known);
    let pools = pools::find(entries, &walked, &flushes);
    let marks = insert::marks(entries, &annotations, &mut out.stacks);
    let host = host::moments(&host.0, &host.1, entries, &mut out.stacks);
    let mut base = BaseState {
        time_ns: entries.first().map_or(0, |entry| entry.time_us.saturating_mul(1000)),
        segments: walked.base.segments(),
        pools: pools.base,
        settings: out.config.text.clone(),
        memory_fraction: known.memory_fraction,
        ..BaseState::default()
    };
    if base.segments.is_empty() {
        base.time_ns = 0;
    }
    let inserts = insert::merge([pools.inserts, flush::inserts(&flushes), marks, host]);
    let written = forward::write(entries, &walked, &flushes, &inserts, &out.stacks, &out.config);
    let unrecorded_frees = walked.unrecorded_frees;
    let flush_notes = flush::notes(&flushes, known);
    let notes = walked.notes.into_iter().chain(flush_notes).chain(pools.notes);
    let notes = notes.chain(written.notes);
    out.inferred.extend(notes.map(|note| format!("device {device_id}: {note}")));
    Ok(DeviceImport {
        device: device_id,
        base,
        records: written.records,
        final_segments,
        unrecorded_frees,
    })
}

/// Which PyTorch wrote a snapshot: since 2.12 its events name their pool.
fn compat_of(snapshot: &Snapshot) -> Compat {
    let mut entries = snapshot.traces.iter().flatten();
    match entries.next() {
        Some(first) if first.pool.is_none() => Compat::V2_11,
        _ => Compat::V2_15,
    }
}

/// The configuration that a snapshot's settings describe, and what is wrong with them. The settings that are listed
/// one by one stand above the text, which may have been set at run time by parts.
fn config_of(settings: &Settings, compat: Compat) -> (Config, Option<String>) {
    let text = settings.text.clone().unwrap_or_default();
    let (parsed, note) = match Config::parse(&text, compat) {
        Ok(parsed) => (parsed.config, None),
        Err(error) => {
            let note = format!("PYTORCH_CUDA_ALLOC_CONF is not understood and is ignored: {error}");
            (Config { compat, ..Config::default() }, Some(note))
        }
    };
    let config = Config {
        max_split_size_bytes: settings.max_split_size.unwrap_or(UNLIMITED),
        garbage_collection_threshold: settings.garbage_collection_threshold,
        roundup_power2_divisions: settings.roundup_power2_divisions,
        expandable_segments: settings.expandable_segments,
        text,
        ..parsed
    };
    (config, note)
}

fn segment_state(segment: &Segment) -> SegmentState {
    SegmentState {
        addr: trace_format::Addr(segment.address),
        size_bytes: segment.total_size,
        stream: segment.stream,
        pool: segment.pool,
        is_large: segment.is_large,
        is_expandable: segment.is_expandable,
        stack: segment.stack,
        blocks: segment
            .blocks
            .iter()
            .map(|block| BlockState {
                addr: trace_format::Addr(block.address),
                size_bytes: block.size,
                requested_bytes: block.requested_size,
                status: block.status,
                stack: block.stack,
            })
            .collect(),
    }
}
