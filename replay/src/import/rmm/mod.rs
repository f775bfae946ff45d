//! RMM's logs of allocations: three generations of one CSV.
//!
//! - `Thread,Time,Action,Pointer,Size,Stream` since 0.15, and the same without `Thread` in 0.14
//!   (`logging_resource_adaptor::header`; failures since 22.x).
//! - `Event Type,Device ID,Address,Stream,Size (bytes),...,Start,End,Elapsed,Location` before
//!   (`rmm::Logger::to_csv`, which gives no size with a free).
//!
//! A row of an allocation is written after it and that of a free before it, so that the order of rows is consistent
//! whatever threads did. As RMM's own replay (`benchmarks/replay`), pointers are read as names of blocks.

mod live;
mod time;

use allocator::size::MAX_REQUEST_BYTES;
use hashbrown::HashMap;
use trace_format::{DeviceId, Frame, FrameId, StackId, Stream, StringId, ThreadId};

use self::live::Live;
use self::time::Clock;
use super::csv::{Column, CsvError, Row, Rows};
use super::requests::{Requests, record};
use crate::snapshot::Stacks;

const ACTION: [&str; 2] = ["Action", "Event Type"];
const POINTER: [&str; 2] = ["Pointer", "Address"];
const SIZE: [&str; 2] = ["Size", "Size (bytes)"];

/// Whether these column names are a log of RMM, perhaps with one missing.
pub(super) fn is_header(heads: &[&str]) -> bool {
    let has = |names: &[&str]| {
        heads.iter().any(|head| names.iter().any(|name| head.eq_ignore_ascii_case(name)))
    };
    let found = [has(&ACTION), has(&POINTER), has(&SIZE)];
    found.into_iter().filter(|&found| found).count() >= 2
}

struct Columns {
    action: Column,
    pointer: Column,
    size: Column,
    stream: Option<Column>,
    thread: Option<Column>,
    time: Option<Column>,
    device: Option<Column>,
    location: Option<Column>,
}

impl Columns {
    fn of(rows: &Rows<'_>) -> Result<Self, CsvError> {
        Ok(Self {
            action: rows.need(&ACTION)?,
            pointer: rows.need(&POINTER)?,
            size: rows.need(&SIZE)?,
            stream: rows.column(&["Stream"]),
            thread: rows.column(&["Thread"]),
            time: rows.column(&["Time", "Start"]),
            device: rows.column(&["Device ID"]),
            location: rows.column(&["Location"]),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Allocate,
    Free,
    Failure,
}

/// One row, typed.
struct Entry {
    action: Action,
    pointer: u64,
    size_bytes: u64,
    stream: Stream,
    thread: ThreadId,
    device: DeviceId,
}

/// Reads a log.
pub(super) fn read(bytes: &[u8], rows_max: u64) -> Result<Requests, CsvError> {
    let mut rows = Rows::new(bytes, rows_max)?;
    let columns = Columns::of(&rows)?;
    let mut clock = Clock::default();
    let mut places = Places::default();
    let mut live = Live::default();
    let mut is_cut = false;
    while let Some(row) = rows.next()? {
        if row.is_cut {
            is_cut = true;
            break;
        }
        let Entry { action, pointer, size_bytes, stream, thread, device } = entry(&row, &columns)?;
        let time_ns = match &columns.time {
            Some(column) => clock.time_ns(&row, column)?,
            None => 0,
        };
        let stack = match &columns.location {
            Some(column) => places.stack(row.field(column)?),
            None => StackId::NONE,
        };
        let at = |event| record(time_ns, thread, stack, event);
        let device = live.device(device);
        match action {
            Action::Allocate => device.allocate(pointer, size_bytes, stream, at, row.line)?,
            Action::Free => device.free(pointer, size_bytes, stream, at),
            Action::Failure => device.fail(size_bytes, stream, at),
        }
    }
    let mut inferred = Vec::new();
    if is_cut {
        inferred.push("the log ends inside a line, which is left out".to_owned());
    }
    let (devices, notes) = live.finish();
    inferred.extend(notes);
    inferred.extend(clock.note());
    Ok(Requests { devices, stacks: places.stacks, inferred })
}

fn entry(row: &Row<'_>, columns: &Columns) -> Result<Entry, CsvError> {
    let action = match row.field(&columns.action)? {
        b"allocate" | b"Alloc" | b"Realloc" => Action::Allocate,
        b"free" | b"Free" | b"deallocate" => Action::Free,
        b"allocate failure" => Action::Failure,
        _ => return Err(row.wrong(&columns.action, "allocate, free or allocate failure")),
    };
    let size_bytes: u64 = row.number(&columns.size)?;
    if size_bytes >= MAX_REQUEST_BYTES && action != Action::Failure {
        return Err(row.wrong(&columns.size, "a size below 1 EiB"));
    }
    let thread = match &columns.thread {
        Some(column) => row.number::<u64>(column)? as u32, // Only pthread's handles are wider.
        None => 0,
    };
    Ok(Entry {
        action,
        pointer: row.pointer(&columns.pointer)?,
        size_bytes,
        stream: Stream(columns.stream.as_ref().map_or(Ok(0), |column| row.pointer(column))?),
        thread: ThreadId(thread),
        device: DeviceId(columns.device.as_ref().map_or(Ok(0), |column| row.number(column))?),
    })
}

/// The places in source files that the oldest logs name, as stacks of one frame.
#[derive(Default)]
struct Places {
    stacks: Stacks,
    known: HashMap<Box<[u8]>, StackId>,
}

impl Places {
    fn stack(&mut self, place: &[u8]) -> StackId {
        if let Some(&stack) = self.known.get(place) {
            return stack;
        }
        let text = String::from_utf8_lossy(place);
        let (file, line) = text.rsplit_once(':').unwrap_or((&text, ""));
        let filename = self.stacks.add_string(file);
        let line = line.parse().unwrap_or(0);
        self.stacks.frames.push(Frame { name: StringId(0), filename, line });
        self.stacks.stacks.push(Box::new([FrameId(self.stacks.frames.len() as u32 - 1)]));
        let stack = StackId(self.stacks.stacks.len() as u32 - 1);
        self.known.insert(place.into(), stack);
        stack
    }
}
