//! PyTorch's own allocator, observed: its actions are recorded as if a heap of this library had done them.
//!
//! The order of calls: `vramtape_observe_begin`; a trace tracker attached that calls `vramtape_observe_entry`; a
//! snapshot taken, whose own entry in the trace says which entries are behind it; `vramtape_observe_base` for each
//! device that has memory; `vramtape_observe_ready`.

use std::ffi::c_int;

use recorder::{TraceAction, TraceEntry};
use trace_format::{Addr, BlockState, BlockStatus, PoolId, SegmentState, StackId, Stream};

use super::done;
use super::watch::VramtapeTraceEntry;
use crate::error::Error;
use crate::guard;
use crate::process::observe;
use crate::process::stacks::{self, Calls};

/// The pool of an entry that names none: PyTorch before 2.8.
const UNKNOWN_POOL: PoolId = PoolId(u64::MAX, u64::MAX);

/// A block of a segment that PyTorch's allocator holds.
#[repr(C)]
pub struct VramtapeObservedBlock {
    /// Its size.
    pub size: u64,
    /// The requested size.
    pub requested_size: u64,
    /// 0 allocated, 1 given back and waiting for other streams, 2 free.
    pub status: c_int,
}

/// A segment that PyTorch's allocator holds.
#[repr(C)]
pub struct VramtapeObservedSegment {
    /// Its address.
    pub address: u64,
    /// Its size.
    pub size: u64,
    /// The stream that it serves.
    pub stream: u64,
    /// The first number of its pool.
    pub pool_0: u64,
    /// The second.
    pub pool_1: u64,
    /// Whether it serves requests of more than 1 MiB.
    pub is_large: bool,
    /// Whether it is mapped and can grow.
    pub is_expandable: bool,
    /// Its blocks, which lie one behind the other.
    pub blocks: *const VramtapeObservedBlock,
    /// How many there are.
    pub block_count: usize,
}

/// PyTorch's own allocator is about to be observed in this process, and nothing is allocated by ours.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_observe_begin() -> c_int {
    done(observe::begin)
}

/// Records one more entry of PyTorch's trace. Called on the acting thread, with PyTorch's lock of the device held. A
/// pool of twice `UINT64_MAX` is unknown.
///
/// # Safety
///
/// `entry` is NULL, which is ignored, or points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_observe_entry(entry: *const VramtapeTraceEntry) {
    guard::answer((), || {
        // SAFETY: the caller vouches that `entry` is NULL or points to an entry, which stays during the call.
        let Some(entry) = (unsafe { entry.as_ref() }) else { return Ok(()) };
        let Some(action) = TraceAction::from_number(entry.action) else { return Ok(()) };
        let pool = PoolId(entry.pool_0, entry.pool_1);
        let seen = TraceEntry {
            action,
            addr: Addr(entry.address),
            size_bytes: entry.size,
            stream: Stream(entry.stream),
            pool: (pool != UNKNOWN_POOL).then_some(pool),
            time_us: 0,
            cuts_segment: false, // PyTorch does not report it, and an observer does not read it.
            stack: StackId(entry.stack),
        };
        observe::see(entry.device, &seen)
    });
}

/// At which calls the settings want Python's stack (`stacks` in `VRAMTAPE_CONF`): 0 at none, 1 at allocations, 2 at
/// frees too.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_observe_stacks() -> c_int {
    guard::answer(0, || {
        Ok(match stacks::wanted_by_tape() {
            Calls::None => 0,
            Calls::Allocations => 1,
            Calls::All => 2,
        })
    })
}

/// The number of this thread's stack, for the entry that it is about to cause; 0 for none. May wait for Python's lock,
/// so it is called before PyTorch's is taken.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_observe_stack() -> u32 {
    guard::answer(0, || Ok(stacks::of_observed().0))
}

/// The device's segments at the snapshot, and the fraction of its memory that PyTorch may use.
///
/// # Safety
///
/// `segments` points to `count` of them, each with as many blocks as it says; both may be NULL where there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_observe_base(
    device: c_int,
    memory_fraction: f64,
    segments: *const VramtapeObservedSegment,
    count: usize,
) -> c_int {
    done(|| {
        // SAFETY: the caller vouches for `count` segments, or NULL.
        let segments = unsafe { list(segments, count) };
        let mut held = Vec::with_capacity(segments.len());
        for segment in segments {
            // SAFETY: the caller vouches that each segment points to as many blocks as it says, or to NULL.
            let blocks = unsafe { list(segment.blocks, segment.block_count) };
            held.push(segment_state(segment, blocks)?);
        }
        held.sort_by_key(|segment| segment.addr);
        observe::base(device, memory_fraction, held)
    })
}

/// Every device that holds memory was described.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_observe_ready() -> c_int {
    done(observe::ready)
}

/// PyTorch's cache is about to be emptied (`begins`), or was: the default pool's, which means all, or one pool's.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_observe_empty_cache(pool_0: u64, pool_1: u64, begins: bool) -> c_int {
    done(|| {
        observe::empty_cache(PoolId(pool_0, pool_1), begins);
        Ok(())
    })
}

/// PyTorch's memory fraction of the device was set.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_observe_memory_fraction(fraction: f64, device: c_int) -> c_int {
    done(|| observe::memory_fraction(fraction, device))
}

/// PyTorch's statistics of the device were reset: the peaks, or else the accumulated ones.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_observe_reset(device: c_int, peaks: bool) -> c_int {
    done(|| observe::reset(device, peaks))
}

/// # Safety
///
/// `first` points to `count` elements, or is NULL.
unsafe fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for `count` elements, and `first` is not NULL.
    unsafe { std::slice::from_raw_parts(first, count) }
}

fn segment_state(
    segment: &VramtapeObservedSegment,
    blocks: &[VramtapeObservedBlock],
) -> Result<SegmentState, Error> {
    let mut addr = segment.address;
    let mut states = Vec::with_capacity(blocks.len());
    for block in blocks {
        let status = match block.status {
            0 => BlockStatus::Allocated,
            1 => BlockStatus::PendingFree,
            2 => BlockStatus::Inactive,
            other => {
                return Err(Error::value(format!(
                    "{other} is no status of a block; expected 0 to 2"
                )));
            }
        };
        states.push(BlockState {
            addr: Addr(addr),
            size_bytes: block.size,
            requested_bytes: block.requested_size,
            status,
            stack: StackId::NONE,
        });
        addr = addr.saturating_add(block.size);
    }
    Ok(SegmentState {
        addr: Addr(segment.address),
        size_bytes: segment.size,
        stream: Stream(segment.stream),
        pool: PoolId(segment.pool_0, segment.pool_1),
        is_large: segment.is_large,
        is_expandable: segment.is_expandable,
        stack: StackId::NONE,
        blocks: states,
    })
}
