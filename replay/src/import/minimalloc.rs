//! minimalloc's CSV: buffers with the times between which they live.
//!
//! `id,lower,upper,size` with half-open lifetimes; `start` and `begin` are other names of `lower`, and an `end` is the
//! last moment rather than the first one after. Source: `FromCsv` in google/minimalloc, `src/converter.cc`.

use allocator::size::MAX_REQUEST_BYTES;
use packing::Buffer;
use sim_device::SimConfig;
use trace_format::{Addr, DeviceId, Frame, FrameId, Record, StackId, Stream, StringId, ThreadId};

use super::csv::{Column, CsvError, Row, Rows};
use super::requests::{Requests, alloc, free, record};
use crate::snapshot::Stacks;

const ID: [&str; 3] = ["id", "buffer", "buffer_id"];
const LOWER: [&str; 3] = ["lower", "start", "begin"];
const UPPER: [&str; 2] = ["upper", "end"];
const SIZE: [&str; 1] = ["size"];

/// Whether these column names are a problem of minimalloc, perhaps with one missing.
pub(super) fn is_header(heads: &[&str]) -> bool {
    let has = |names: &[&str]| {
        heads.iter().any(|head| names.iter().any(|name| head.eq_ignore_ascii_case(name)))
    };
    let found = [has(&ID), has(&LOWER), has(&UPPER), has(&SIZE)];
    found.into_iter().filter(|&found| found).count() >= 3
}

struct Columns {
    id: Column,
    lower: Column,
    upper: Column,
    upper_is_last: bool,
    size: Column,
    offset: Option<Column>,
    alignment: Option<Column>,
}

/// A problem.
pub(super) struct Problem {
    /// The names of its buffers.
    pub(super) names: Vec<String>,
    /// The buffers, by moments in any unit; some may have no size.
    pub(super) buffers: Vec<Buffer>,
    has_gaps: bool,
    /// The end of the placement in the file, if it has one.
    top_bytes: Option<u64>,
}

/// Reads a problem.
pub(super) fn problem(bytes: &[u8], rows_max: u64) -> Result<Problem, CsvError> {
    let mut rows = Rows::new(bytes, rows_max)?;
    let columns = Columns {
        id: rows.need(&ID)?,
        lower: rows.need(&LOWER)?,
        upper: rows.need(&UPPER)?,
        upper_is_last: rows.column(&UPPER[..1]).is_none(),
        size: rows.need(&SIZE)?,
        offset: rows.column(&["offset"]),
        alignment: rows.column(&["alignment"]),
    };
    let (mut names, mut buffers) = (Vec::new(), Vec::new());
    let has_gaps = rows.column(&["gaps"]).is_some();
    let mut top_bytes = columns.offset.as_ref().map(|_| 0_u64);
    while let Some(row) = rows.next()? {
        names.push(String::from_utf8_lossy(row.field(&columns.id)?).into_owned());
        let (lower, upper) = lifetime(&row, &columns)?;
        let size_bytes: u64 = row.number(&columns.size)?;
        if size_bytes >= MAX_REQUEST_BYTES {
            return Err(row.wrong(&columns.size, "a size below 1 EiB"));
        }
        if let Some(offset) = &columns.offset {
            let offset: u64 = row.number(offset)?;
            top_bytes = top_bytes.max(Some(offset.saturating_add(size_bytes)));
        }
        let mut alignment_bytes = 1;
        if let Some(alignment) = &columns.alignment {
            alignment_bytes = row.number(alignment)?;
            if !(1..MAX_REQUEST_BYTES).contains(&alignment_bytes) {
                return Err(row.wrong(alignment, "an alignment from 1 to 1 EiB"));
            }
        }
        buffers.push(Buffer { lower, upper, size_bytes, alignment_bytes });
    }
    Ok(Problem { names, buffers, has_gaps, top_bytes })
}

/// Reads a problem as the requests of one device and one stream.
pub(super) fn read(bytes: &[u8], rows_max: u64) -> Result<Requests, CsvError> {
    let Problem { names, buffers, has_gaps, top_bytes } = problem(bytes, rows_max)?;
    let empty = buffers.iter().filter(|buffer| buffer.size_bytes == 0).count();
    let has_alignment = buffers.iter().any(|buffer| buffer.alignment_bytes != 1);
    let left_out = [("alignment", has_alignment), ("gaps", has_gaps)];
    let left_out: Vec<_> =
        left_out.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect();
    let mut inferred =
        vec!["minimalloc's times have no unit: only their order counts, frees first".to_owned()];
    if empty > 0 {
        inferred.push(format!("{empty} buffers of no size are left out"));
    }
    if !left_out.is_empty() {
        let left_out = left_out.join(" and ");
        inferred.push(format!(
            "the {left_out} of buffers are left out: every policy aligns to 512 bytes at least, \
             and a buffer counts for all of its life"
        ));
    }
    if let Some(top_bytes) = top_bytes {
        inferred.push(format!(
            "the offsets in the file are left out; the placement that they describe needs \
             {top_bytes} bytes"
        ));
    }
    let mut stacks = Stacks::default();
    let records = in_order(&buffers, |at| named(&mut stacks, &names[at]))?;
    Ok(Requests { devices: [(DeviceId(0), records)].into(), stacks, inferred })
}

fn lifetime(row: &Row<'_>, columns: &Columns) -> Result<(i64, i64), CsvError> {
    let lower: i64 = row.number(&columns.lower)?;
    let upper: i64 = row.number(&columns.upper)?;
    let after = if columns.upper_is_last { upper.checked_add(1) } else { Some(upper) };
    match after {
        Some(after) if after > lower => Ok((lower, after)),
        _ => Err(row.wrong(&columns.upper, "after the buffer's beginning")),
    }
}

/// A stack of one frame with the buffer's name, so that reports name it.
fn named(stacks: &mut Stacks, name: &str) -> StackId {
    let name = stacks.add_string(name);
    stacks.frames.push(Frame { name, filename: StringId(0), line: 0 });
    let frame = FrameId(stacks.frames.len() as u32 - 1);
    stacks.stacks.push(Box::new([frame]));
    StackId(stacks.stacks.len() as u32 - 1)
}

/// Allocations and frees by time; at one time frees come first, as lifetimes are half-open.
fn in_order(
    buffers: &[Buffer],
    stack_of: impl FnMut(usize) -> StackId,
) -> Result<Vec<Record>, CsvError> {
    let stacks: Vec<_> = (0..buffers.len()).map(stack_of).collect();
    let mut moments = Vec::with_capacity(2 * buffers.len());
    let sized = buffers.iter().enumerate().filter(|(_, buffer)| buffer.size_bytes > 0);
    for (at, buffer) in sized {
        moments.push((buffer.lower, true, at));
        moments.push((buffer.upper, false, at));
    }
    moments.sort_unstable();
    let mut live_bytes = 0_u64;
    let mut records = Vec::with_capacity(moments.len());
    for (_, is_alloc, at) in moments {
        let (size_bytes, stack) = (buffers[at].size_bytes, stacks[at]);
        let name = Addr(at as u64 + 1);
        let event = if is_alloc {
            live_bytes = live_bytes.saturating_add(size_bytes);
            if live_bytes > SimConfig::UNLIMITED_CAPACITY_BYTES {
                // The header is a line, and lines count from 1; blank ones do not count.
                let problem = "with this buffer more than 2 TiB are live at once".to_owned();
                return Err(CsvError { line: at as u64 + 2, problem });
            }
            alloc(name, size_bytes, Stream(0))
        } else {
            live_bytes -= size_bytes;
            free(name, size_bytes)
        };
        records.push(record(0, ThreadId(0), stack, event));
    }
    Ok(records)
}
