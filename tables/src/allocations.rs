//! Allocations from their beginning to their end, one row each.

use std::path::Path;

use replay::modules::{ModuleOfAlloc, ModuleUse, OpenModules};
use replay::tape::Device;
use rustc_hash::FxHashMap;
use trace_format::{
    Addr, BlockStatus, Category, Event, PoolId, Record, StackId, Stream, StringId, ThreadId,
};

use crate::row::{Column, Row, amounts, devices, handles, ids, names, numbers, texts};
use crate::sink::Sink;
use crate::{Format, Result, Source, TableError, Written};

/// When something happened.
#[derive(Clone, Copy)]
struct RecordTime {
    record: i64,
    time_ns: u64,
}

/// Before the run's first record, at an unknown time.
const BEFORE: RecordTime = RecordTime { record: -1, time_ns: 0 };

#[derive(Clone, Copy)]
struct Allocation<'t> {
    device: u16,
    begin: RecordTime,
    free: Option<RecordTime>,
    completed: Option<RecordTime>,
    addr: Addr,
    requested_bytes: u64,
    size_bytes: u64,
    stream: Stream,
    pool: PoolId,
    thread: ThreadId,
    stack: StackId,
    category: Option<Category>,
    of_alloc: ModuleOfAlloc,
    module: Option<&'t str>,
    module_use: Option<ModuleUse>,
}

/// The live allocations of a device.
struct Live<'t> {
    device: &'t Device,
    by_addr: FxHashMap<Addr, Allocation<'t>>,
    open: OpenModules,
}

fn record(moment: Option<RecordTime>) -> Option<i64> {
    moment.map(|moment| moment.record)
}

fn time_ns(moment: Option<RecordTime>) -> Option<u64> {
    moment.map(|moment| moment.time_ns).filter(|ns| *ns > 0)
}

impl Row for Allocation<'_> {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("device", |rows| devices(rows, |row| row.device)),
            ("alloc_record", |rows| numbers(rows, |row| Some(row.begin.record))),
            ("free_record", |rows| numbers(rows, |row| record(row.free))),
            ("completed_record", |rows| numbers(rows, |row| record(row.completed))),
            ("alloc_time_ns", |rows| amounts(rows, |row| time_ns(Some(row.begin)))),
            ("free_time_ns", |rows| amounts(rows, |row| time_ns(row.free))),
            ("completed_time_ns", |rows| amounts(rows, |row| time_ns(row.completed))),
            ("addr", |rows| handles(rows, |row| Some(row.addr.0))),
            ("requested_bytes", |rows| amounts(rows, |row| Some(row.requested_bytes))),
            ("size_bytes", |rows| amounts(rows, |row| Some(row.size_bytes))),
            ("stream", |rows| handles(rows, |row| Some(row.stream.0))),
            ("pool", |rows| names(rows, |row| Some(row.pool.to_string()))),
            ("thread", |rows| ids(rows, |row| Some(row.thread.0).filter(|id| *id > 0))),
            ("stack_id", |rows| ids(rows, |row| Some(row.stack.0).filter(|id| *id > 0))),
            ("category", |rows| texts(rows, |row| row.category.map(Category::name))),
            ("module", |rows| texts(rows, |row| row.module)),
            ("module_use", |rows| texts(rows, |row| row.module_use.map(ModuleUse::name))),
        ]
    }
}

pub(crate) fn write(source: &Source<'_>, path: &Path, format: Format) -> Result<Written> {
    let mut sink = Sink::create(path, format)?;
    let named = |allocation: Allocation<'_>| {
        let module = allocation.of_alloc.module;
        let module = (module != StringId::default()).then(|| source.stacks.text(module));
        Allocation { module, ..allocation }
    };
    for device in &source.devices {
        let mut live =
            Live { device, by_addr: at_start(device), open: OpenModules::new(source.stacks) };
        for (at, read) in (0..).zip(&device.records) {
            if let Some(ended) = live.step(at, read)? {
                sink.push(named(ended))?;
            }
        }
        let mut kept: Vec<_> = live.by_addr.into_values().collect();
        kept.sort_by_key(|allocation| (allocation.begin.record, allocation.addr));
        for allocation in kept {
            let known = allocation.module_use;
            let module_use = known.or_else(|| live.open.use_of_live(&allocation.of_alloc));
            sink.push(named(Allocation { module_use, ..allocation }))?;
        }
    }
    sink.end()
}

/// The blocks that are live before the device's first record.
fn at_start(device: &Device) -> FxHashMap<Addr, Allocation<'_>> {
    let blocks = device.base.segments.iter().flat_map(|segment| {
        let held = segment.blocks.iter().filter(|block| block.status != BlockStatus::Inactive);
        held.map(move |block| Allocation {
            device: device.id.0,
            begin: BEFORE,
            free: (block.status == BlockStatus::PendingFree).then_some(BEFORE),
            completed: None,
            addr: block.addr,
            requested_bytes: block.requested_bytes,
            size_bytes: block.size_bytes,
            stream: segment.stream,
            pool: segment.pool,
            thread: ThreadId::default(),
            stack: block.stack,
            category: None,
            of_alloc: ModuleOfAlloc::default(),
            module: None,
            module_use: None,
        })
    });
    blocks.map(|allocation| (allocation.addr, allocation)).collect()
}

impl<'t> Live<'t> {
    /// Follows a record; an allocation that it ends comes out.
    fn step(&mut self, at: u64, read: &Record) -> Result<Option<Allocation<'t>>> {
        let moment = RecordTime { record: at.cast_signed(), time_ns: read.time_ns };
        let Self { device, by_addr: live, open } = self;
        open.follow(read);
        let contradiction =
            |reason: String| TableError::Contradiction { device: device.id, record: at, reason };
        let unknown = |addr: Addr| contradiction(format!("nothing is allocated at {addr}"));
        match read.event {
            Event::Alloc { addr, requested_bytes, size_bytes, stream, pool } => {
                let begun = Allocation {
                    device: device.id.0,
                    begin: moment,
                    free: None,
                    completed: None,
                    addr,
                    requested_bytes,
                    size_bytes,
                    stream,
                    pool,
                    thread: read.thread,
                    stack: read.stack,
                    category: None,
                    of_alloc: open.of_alloc(read.thread),
                    module: None,
                    module_use: None,
                };
                if live.insert(addr, begun).is_some() {
                    return Err(contradiction(format!("{addr} is allocated already")));
                }
            }
            Event::Category { addr, category } => {
                let allocation = live.get_mut(&addr).ok_or_else(|| unknown(addr))?;
                allocation.category = Some(category);
                if let Some(module) = open.owner(read.thread) {
                    allocation.of_alloc.module = module;
                }
            }
            Event::Free { addr, pending: true, .. } => {
                let freed = live.get_mut(&addr).ok_or_else(|| unknown(addr))?;
                freed.free = Some(moment);
                freed.module_use = open.use_of_freed(&freed.of_alloc);
            }
            Event::Free { addr, pending: false, .. } => {
                let ended = live.remove(&addr).ok_or_else(|| unknown(addr))?;
                let module_use = open.use_of_freed(&ended.of_alloc);
                return Ok(Some(Allocation { free: Some(moment), module_use, ..ended }));
            }
            Event::FreeCompleted { addr, .. } => {
                let ended = live.remove(&addr).ok_or_else(|| unknown(addr))?;
                return Ok(Some(Allocation { completed: Some(moment), ..ended }));
            }
            _ => {}
        }
        Ok(None)
    }
}
