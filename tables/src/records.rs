//! The records of a run, one row each.

use std::path::Path;

use replay::snapshot::Stacks;
use trace_format::{Addr, Event, PoolId, Record, ScopeFilter, State, Stream};

use crate::row::{Column, Row, amounts, devices, flags, handles, ids, names, shares, texts};
use crate::sink::Sink;
use crate::{Format, Result, Source, TableError, Written};

/// A record: what its kind of event does not have is `None`.
#[derive(Default)]
struct RecordRow<'t> {
    device: u16,
    record: u64,
    time_ns: u64,
    thread: u32,
    kind: &'static str,
    addr: Option<Addr>,
    requested_bytes: Option<u64>,
    size_bytes: Option<u64>,
    stream: Option<Stream>,
    pool: Option<PoolId>,
    stack: u32,
    is_large: Option<bool>,
    is_pending: Option<bool>,
    is_inferred: Option<bool>,
    is_enabled: Option<bool>,
    has_own_source: Option<bool>,
    filter: Option<&'static str>,
    mark: Option<&'static str>,
    text: Option<&'t str>,
    fraction: Option<f64>,
    device_free_bytes: Option<u64>,
    page: Option<u32>,
    count: Option<u64>,
    allocated_bytes: u64,
    active_bytes: u64,
    reserved_bytes: u64,
}

impl Row for RecordRow<'_> {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("device", |rows| devices(rows, |row| row.device)),
            ("record", |rows| amounts(rows, |row| Some(row.record))),
            ("time_ns", |rows| amounts(rows, |row| Some(row.time_ns).filter(|ns| *ns > 0))),
            ("thread", |rows| ids(rows, |row| Some(row.thread).filter(|id| *id > 0))),
            ("kind", |rows| texts(rows, |row| Some(row.kind))),
            ("addr", |rows| handles(rows, |row| row.addr.map(|addr| addr.0))),
            ("requested_bytes", |rows| amounts(rows, |row| row.requested_bytes)),
            ("size_bytes", |rows| amounts(rows, |row| row.size_bytes)),
            ("stream", |rows| handles(rows, |row| row.stream.map(|stream| stream.0))),
            ("pool", |rows| names(rows, |row| row.pool.map(|pool| pool.to_string()))),
            ("stack_id", |rows| ids(rows, |row| Some(row.stack).filter(|id| *id > 0))),
            ("is_large", |rows| flags(rows, |row| row.is_large)),
            ("is_pending", |rows| flags(rows, |row| row.is_pending)),
            ("is_inferred", |rows| flags(rows, |row| row.is_inferred)),
            ("is_enabled", |rows| flags(rows, |row| row.is_enabled)),
            ("has_own_source", |rows| flags(rows, |row| row.has_own_source)),
            ("filter", |rows| texts(rows, |row| row.filter)),
            ("mark", |rows| texts(rows, |row| row.mark)),
            ("text", |rows| texts(rows, |row| row.text)),
            ("fraction", |rows| shares(rows, |row| row.fraction)),
            ("device_free_bytes", |rows| amounts(rows, |row| row.device_free_bytes)),
            ("page", |rows| ids(rows, |row| row.page)),
            ("count", |rows| amounts(rows, |row| row.count)),
            ("allocated_bytes", |rows| amounts(rows, |row| Some(row.allocated_bytes))),
            ("active_bytes", |rows| amounts(rows, |row| Some(row.active_bytes))),
            ("reserved_bytes", |rows| amounts(rows, |row| Some(row.reserved_bytes))),
        ]
    }
}

pub(crate) fn write(source: &Source<'_>, path: &Path, format: Format) -> Result<Written> {
    let mut sink = Sink::create(path, format)?;
    for device in &source.devices {
        let contradiction = |record, reason: String| TableError::Contradiction {
            device: device.id,
            record,
            reason,
        };
        let mut state =
            State::from_base(&device.base).map_err(|error| contradiction(0, error.to_string()))?;
        for (at, read) in (0..).zip(&device.records) {
            state.apply(read).map_err(|error| contradiction(at, error.to_string()))?;
            sink.push(RecordRow {
                device: device.id.0,
                record: at,
                time_ns: read.time_ns,
                thread: read.thread.0,
                kind: read.event.name(),
                stack: read.stack.0,
                allocated_bytes: state.allocated_bytes(),
                active_bytes: state.active_bytes(),
                reserved_bytes: state.reserved_bytes(),
                ..fields(read, source.stacks)
            })?;
        }
    }
    sink.end()
}

/// The columns that only some kinds of event have.
fn fields<'t>(read: &Record, stacks: &'t Stacks) -> RecordRow<'t> {
    let mut row = RecordRow::default();
    match read.event {
        Event::Alloc { addr, requested_bytes, size_bytes, stream, pool } => {
            (row.addr, row.stream, row.pool) = (Some(addr), Some(stream), Some(pool));
            (row.requested_bytes, row.size_bytes) = (Some(requested_bytes), Some(size_bytes));
        }
        Event::Free { addr, requested_bytes, size_bytes, pending } => {
            (row.addr, row.is_pending) = (Some(addr), Some(pending));
            (row.requested_bytes, row.size_bytes) = (Some(requested_bytes), Some(size_bytes));
        }
        Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
            row.addr = Some(addr);
            (row.requested_bytes, row.size_bytes) = (Some(requested_bytes), Some(size_bytes));
        }
        Event::RecordStream { addr, stream } => {
            (row.addr, row.stream) = (Some(addr), Some(stream));
        }
        Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large }
        | Event::SegmentFree { addr, size_bytes, stream, pool, is_large }
        | Event::SegmentMap { addr, size_bytes, stream, pool, is_large }
        | Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large } => {
            (row.addr, row.size_bytes) = (Some(addr), Some(size_bytes));
            (row.stream, row.pool, row.is_large) = (Some(stream), Some(pool), Some(is_large));
        }
        Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool } => {
            (row.requested_bytes, row.size_bytes) = (Some(requested_bytes), Some(size_bytes));
            (row.stream, row.pool) = (Some(stream), Some(pool));
            row.device_free_bytes = Some(device_free_bytes);
        }
        Event::DriverRefused { size_bytes } => row.size_bytes = Some(size_bytes),
        Event::StreamPassed { stream, frees } => {
            (row.stream, row.count) = (Some(stream), Some(frees));
        }
        Event::PageMap { addr, page } | Event::PageUnmap { addr, page } => {
            (row.addr, row.page) = (Some(addr), Some(page.0));
        }
        Event::Snapshot { active_bytes } => row.size_bytes = Some(active_bytes),
        Event::EmptyCache { pool, inferred } => {
            (row.pool, row.is_inferred) = (Some(pool), Some(inferred));
        }
        Event::PoolCreate { pool, own_source } => {
            (row.pool, row.has_own_source) = (Some(pool), Some(own_source));
        }
        Event::PoolBegin { pool, filter } => {
            (row.pool, row.filter) = (Some(pool), Some(filter_name(filter)));
        }
        Event::PoolUseOnOom { pool, enabled } => {
            (row.pool, row.is_enabled) = (Some(pool), Some(enabled));
        }
        Event::PoolEnd { pool }
        | Event::PoolRelease { pool }
        | Event::PoolNoSplit { pool }
        | Event::CaptureBegin { pool }
        | Event::CaptureEnd { pool } => row.pool = Some(pool),
        Event::Settings { text } => row.text = Some(stacks.text(text)),
        Event::Mark { kind, name } => {
            (row.mark, row.text) = (Some(kind.name()), Some(stacks.text(name)));
        }
        Event::Category { addr, category } => {
            (row.addr, row.text) = (Some(addr), Some(category.name()));
        }
        Event::MemoryFraction { fraction } => row.fraction = Some(fraction),
        Event::Lost { count } => row.count = Some(count),
        Event::ResetPeak | Event::ResetAccumulated => {}
    }
    row
}

const fn filter_name(filter: ScopeFilter) -> &'static str {
    match filter {
        ScopeFilter::Capture => "capture",
        ScopeFilter::Thread => "thread",
        ScopeFilter::Unknown => "unknown",
    }
}
