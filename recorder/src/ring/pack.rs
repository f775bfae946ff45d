//! An event taken apart into numbers, and put together again.

use trace_format::{
    Addr, Category, Event, MarkKind, PageNumber, PoolId, ScopeFilter, Stream, StringId,
};

/// An event taken apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Packed {
    /// What happened; below 32.
    pub(super) kind: u8,
    /// How; below 8.
    pub(super) detail: u8,
    /// Where; `None` for events that say nothing of streams and pools.
    pub(super) place: Option<(Stream, PoolId)>,
    /// The rest: anything at all, then a number that is rarely as large as 2^48, then a size that is nearly always a
    /// multiple of 512.
    pub(super) args: [u64; 3],
}

pub(super) const ALLOC: u8 = 1;
pub(super) const FREE: u8 = 2;
const RECORD_STREAM: u8 = 3;
pub(super) const FREE_COMPLETED: u8 = 4;
const EMPTY_CACHE: u8 = 5;
const POOL_CREATE: u8 = 6;
const POOL_BEGIN: u8 = 7;
const POOL_END: u8 = 8;
const POOL_RELEASE: u8 = 9;
const POOL_USE_ON_OOM: u8 = 10;
const POOL_NO_SPLIT: u8 = 11;
const CAPTURE_BEGIN: u8 = 12;
const CAPTURE_END: u8 = 13;
const SETTINGS: u8 = 14;
const MEMORY_FRACTION: u8 = 15;
const RESET_PEAK: u8 = 16;
const RESET_ACCUMULATED: u8 = 17;
const SEGMENT_ALLOC: u8 = 18;
const SEGMENT_FREE: u8 = 19;
const SEGMENT_MAP: u8 = 20;
const SEGMENT_UNMAP: u8 = 21;
const DRIVER_REFUSED: u8 = 22;
const OOM: u8 = 23;
const SNAPSHOT: u8 = 24;
const MARK: u8 = 25;
const LOST: u8 = 26;
const CATEGORY: u8 = 27;
/// A mark of a module: a detail has no room for all kinds of marks.
const MODULE_MARK: u8 = 28;
/// What `stitch` alone records; the detail says which of [`STREAM_PASSED`], [`PAGE_MAP`] and [`PAGE_UNMAP`].
const STITCH: u8 = 29;
const STREAM_PASSED: u8 = 0;
const PAGE_MAP: u8 = 1;
const PAGE_UNMAP: u8 = 2;
/// The first kind of mark of a module.
const FIRST_MODULE_MARK: u8 = MarkKind::ModuleBegin as u8;
/// Not an event: words for the one that follows.
pub(super) const MORE: u8 = 30;
/// Not an event: both clocks at one moment.
pub(super) const CLOCK_SNAPSHOT: u8 = 31;

/// Takes an event apart.
#[allow(clippy::inline_always, reason = "where the kind of event is known, little is left of it")]
#[inline(always)]
pub(super) fn pack(event: &Event) -> Packed {
    let in_pool = |pool| Some((Stream(0), pool));
    let (kind, detail, place, args) = match *event {
        Event::Alloc { addr, requested_bytes, size_bytes, stream, pool } => {
            (ALLOC, 0, Some((stream, pool)), [addr.0, requested_bytes, size_bytes])
        }
        Event::Free { addr, requested_bytes, size_bytes, pending } => {
            (FREE, u8::from(pending), None, [addr.0, requested_bytes, size_bytes])
        }
        Event::RecordStream { addr, stream } => {
            (RECORD_STREAM, 0, Some((stream, PoolId::DEFAULT)), [addr.0, 0, 0])
        }
        Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
            (FREE_COMPLETED, 0, None, [addr.0, requested_bytes, size_bytes])
        }
        Event::EmptyCache { pool, inferred } => {
            (EMPTY_CACHE, u8::from(inferred), in_pool(pool), [0; 3])
        }
        Event::PoolCreate { pool, own_source } => {
            (POOL_CREATE, u8::from(own_source), in_pool(pool), [0; 3])
        }
        Event::PoolBegin { pool, filter } => {
            let filter = match filter {
                ScopeFilter::Capture => 0,
                ScopeFilter::Thread => 1,
                ScopeFilter::Unknown => 2,
            };
            (POOL_BEGIN, filter, in_pool(pool), [0; 3])
        }
        Event::PoolEnd { pool } => (POOL_END, 0, in_pool(pool), [0; 3]),
        Event::PoolRelease { pool } => (POOL_RELEASE, 0, in_pool(pool), [0; 3]),
        Event::PoolUseOnOom { pool, enabled } => {
            (POOL_USE_ON_OOM, u8::from(enabled), in_pool(pool), [0; 3])
        }
        Event::PoolNoSplit { pool } => (POOL_NO_SPLIT, 0, in_pool(pool), [0; 3]),
        Event::CaptureBegin { pool } => (CAPTURE_BEGIN, 0, in_pool(pool), [0; 3]),
        Event::CaptureEnd { pool } => (CAPTURE_END, 0, in_pool(pool), [0; 3]),
        Event::Settings { text } => (SETTINGS, 0, None, [u64::from(text.0), 0, 0]),
        Event::MemoryFraction { fraction } => {
            (MEMORY_FRACTION, 0, None, [fraction.to_bits(), 0, 0])
        }
        Event::ResetPeak => (RESET_PEAK, 0, None, [0; 3]),
        Event::ResetAccumulated => (RESET_ACCUMULATED, 0, None, [0; 3]),
        Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large } => {
            (SEGMENT_ALLOC, u8::from(is_large), Some((stream, pool)), [addr.0, 0, size_bytes])
        }
        Event::SegmentFree { addr, size_bytes, stream, pool, is_large } => {
            (SEGMENT_FREE, u8::from(is_large), Some((stream, pool)), [addr.0, 0, size_bytes])
        }
        Event::SegmentMap { addr, size_bytes, stream, pool, is_large } => {
            (SEGMENT_MAP, u8::from(is_large), Some((stream, pool)), [addr.0, 0, size_bytes])
        }
        Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large } => {
            (SEGMENT_UNMAP, u8::from(is_large), Some((stream, pool)), [addr.0, 0, size_bytes])
        }
        Event::DriverRefused { size_bytes } => (DRIVER_REFUSED, 0, None, [size_bytes, 0, 0]),
        Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool } => {
            (OOM, 0, Some((stream, pool)), [device_free_bytes, requested_bytes, size_bytes])
        }
        Event::Snapshot { active_bytes } => (SNAPSHOT, 0, None, [active_bytes, 0, 0]),
        Event::Mark { kind, name } => {
            let (kind, detail) = match kind as u8 {
                code @ FIRST_MODULE_MARK.. => (MODULE_MARK, code - FIRST_MODULE_MARK),
                code => (MARK, code),
            };
            (kind, detail, None, [u64::from(name.0), 0, 0])
        }
        Event::Category { addr, category } => (CATEGORY, category as u8, None, [addr.0, 0, 0]),
        Event::StreamPassed { stream, frees } => {
            (STITCH, STREAM_PASSED, Some((stream, PoolId::DEFAULT)), [frees, 0, 0])
        }
        Event::PageMap { addr, page } => (STITCH, PAGE_MAP, None, [addr.0, page.0.into(), 0]),
        Event::PageUnmap { addr, page } => (STITCH, PAGE_UNMAP, None, [addr.0, page.0.into(), 0]),
        Event::Lost { count } => (LOST, 0, None, [count, 0, 0]),
    };
    Packed { kind, detail, place, args }
}

/// Puts an event together; `None` for numbers that no [`pack`] of this version made. The place matters only where
/// [`pack`] gives one.
pub(super) fn unpack(
    kind: u8,
    detail: u8,
    (stream, pool): (Stream, PoolId),
    args: [u64; 3],
) -> Option<Event> {
    let flag = detail != 0;
    let [a, requested_bytes, size_bytes] = args;
    let addr = Addr(a);
    let string = || Some(StringId(u32::try_from(a).ok()?));
    let page = || Some(PageNumber(u32::try_from(requested_bytes).ok()?));
    Some(match kind {
        ALLOC => Event::Alloc { addr, requested_bytes, size_bytes, stream, pool },
        FREE => Event::Free { addr, requested_bytes, size_bytes, pending: flag },
        RECORD_STREAM => Event::RecordStream { addr, stream },
        FREE_COMPLETED => Event::FreeCompleted { addr, requested_bytes, size_bytes },
        EMPTY_CACHE => Event::EmptyCache { pool, inferred: flag },
        POOL_CREATE => Event::PoolCreate { pool, own_source: flag },
        POOL_BEGIN => {
            let filter = match detail {
                0 => ScopeFilter::Capture,
                1 => ScopeFilter::Thread,
                2 => ScopeFilter::Unknown,
                _ => return None,
            };
            Event::PoolBegin { pool, filter }
        }
        POOL_END => Event::PoolEnd { pool },
        POOL_RELEASE => Event::PoolRelease { pool },
        POOL_USE_ON_OOM => Event::PoolUseOnOom { pool, enabled: flag },
        POOL_NO_SPLIT => Event::PoolNoSplit { pool },
        CAPTURE_BEGIN => Event::CaptureBegin { pool },
        CAPTURE_END => Event::CaptureEnd { pool },
        SETTINGS => Event::Settings { text: string()? },
        MEMORY_FRACTION => Event::MemoryFraction { fraction: f64::from_bits(a) },
        RESET_PEAK => Event::ResetPeak,
        RESET_ACCUMULATED => Event::ResetAccumulated,
        SEGMENT_ALLOC => Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large: flag },
        SEGMENT_FREE => Event::SegmentFree { addr, size_bytes, stream, pool, is_large: flag },
        SEGMENT_MAP => Event::SegmentMap { addr, size_bytes, stream, pool, is_large: flag },
        SEGMENT_UNMAP => Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large: flag },
        DRIVER_REFUSED => Event::DriverRefused { size_bytes: a },
        OOM => Event::Oom { requested_bytes, size_bytes, device_free_bytes: a, stream, pool },
        SNAPSHOT => Event::Snapshot { active_bytes: a },
        MARK | MODULE_MARK => {
            let first = if kind == MARK { 0 } else { FIRST_MODULE_MARK };
            let kind = *MarkKind::ALL.get(usize::from(detail.checked_add(first)?))?;
            Event::Mark { kind, name: string()? }
        }
        CATEGORY => {
            let category = *Category::ALL.get(usize::from(detail))?;
            Event::Category { addr, category }
        }
        STITCH => match detail {
            STREAM_PASSED => Event::StreamPassed { stream, frees: a },
            PAGE_MAP => Event::PageMap { addr, page: page()? },
            PAGE_UNMAP => Event::PageUnmap { addr, page: page()? },
            _ => return None,
        },
        LOST => Event::Lost { count: a },
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whatever `unpack` accepts is an event, so any numbers reach every event there is.
    pub(in crate::ring) fn events() -> impl Strategy<Value = Event> {
        let any_or_id = prop_oneof![any::<u64>(), any::<u32>().prop_map(u64::from)];
        (1..=STITCH, 0..5_u8, any::<[u64; 3]>(), any_or_id, any::<[u64; 2]>()).prop_filter_map(
            "detail or number of another kind",
            |(kind, detail, [stream, major, minor], any, [number, size])| {
                let place = (Stream(stream), PoolId(major, minor));
                unpack(kind, detail, place, [any, number, size])
            },
        )
    }

    proptest! {
        #[test]
        fn every_event_comes_back_as_it_went(event in events()) {
            let Packed { kind, detail, place, args } = pack(&event);
            prop_assert!(kind < MORE && detail < 8);
            let back = unpack(kind, detail, place.unwrap_or_default(), args).expect("a known kind");
            // As text, so that a fraction that is not a number equals itself.
            prop_assert_eq!(format!("{back:?}"), format!("{event:?}"));
        }

        #[test]
        fn no_numbers_make_it_panic(kind: u8, detail: u8, args: [u64; 3]) {
            let _ = unpack(kind, detail, <_>::default(), args);
        }
    }
}
