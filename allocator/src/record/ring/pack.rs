//! An event as the words of a slot, and back.
//!
//! The tag word is `kind | detail << 8 | pool.0 << 16 | pool.1 << 40`. A pool id that does not fit 24 + 24 bits (none
//! of PyTorch's does) goes into a slot of its own before the event's, and the tag says so.

use trace_format::{Addr, Event, MarkKind, PoolId, ScopeFilter, Stream, StringId};

/// An event taken apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Packed {
    /// Kind and detail.
    pub(super) tag: u64,
    /// The pool; the default one where the event has none.
    pub(super) pool: PoolId,
    /// The rest.
    pub(super) args: [u64; 4],
}

/// Tag of the slot that carries a wide pool for the next one: `args` are its two numbers.
pub(super) const WIDE_POOL: u64 = 0xff;
/// Bit of the tag: the pool stands in the slot before.
pub(super) const POOL_IS_WIDE: u64 = 0x8000;

const POOL_BITS: u32 = 24;
const POOL_MASK: u64 = (1 << POOL_BITS) - 1;

/// The pool's bits of the tag, if it fits.
#[inline]
pub(super) fn pool_bits(pool: PoolId) -> Option<u64> {
    let fits = (pool.0 | pool.1) <= POOL_MASK;
    fits.then_some(pool.0 << 16 | pool.1 << (16 + POOL_BITS))
}

/// The pool in a tag.
pub(super) fn tag_pool(tag: u64) -> PoolId {
    PoolId(tag >> 16 & POOL_MASK, tag >> (16 + POOL_BITS))
}

const ALLOC: u8 = 1;
const FREE: u8 = 2;
const RECORD_STREAM: u8 = 3;
const FREE_COMPLETED: u8 = 4;
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

/// Takes an event apart.
#[inline]
pub(super) fn pack(event: &Event) -> Packed {
    let none = PoolId::DEFAULT;
    let (kind, detail, pool, args) = match *event {
        Event::Alloc { addr, requested_bytes, size_bytes, stream, pool } => {
            (ALLOC, 0, pool, [addr.0, requested_bytes, size_bytes, stream.0])
        }
        Event::Free { addr, requested_bytes, size_bytes, pending } => {
            (FREE, u8::from(pending), none, [addr.0, requested_bytes, size_bytes, 0])
        }
        Event::RecordStream { addr, stream } => (RECORD_STREAM, 0, none, [addr.0, stream.0, 0, 0]),
        Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
            (FREE_COMPLETED, 0, none, [addr.0, requested_bytes, size_bytes, 0])
        }
        Event::EmptyCache { pool, inferred } => (EMPTY_CACHE, u8::from(inferred), pool, [0; 4]),
        Event::PoolCreate { pool, own_source } => (POOL_CREATE, u8::from(own_source), pool, [0; 4]),
        Event::PoolBegin { pool, filter } => {
            let filter = match filter {
                ScopeFilter::Capture => 0,
                ScopeFilter::Thread => 1,
                ScopeFilter::Unknown => 2,
            };
            (POOL_BEGIN, filter, pool, [0; 4])
        }
        Event::PoolEnd { pool } => (POOL_END, 0, pool, [0; 4]),
        Event::PoolRelease { pool } => (POOL_RELEASE, 0, pool, [0; 4]),
        Event::PoolUseOnOom { pool, enabled } => (POOL_USE_ON_OOM, u8::from(enabled), pool, [0; 4]),
        Event::PoolNoSplit { pool } => (POOL_NO_SPLIT, 0, pool, [0; 4]),
        Event::CaptureBegin { pool } => (CAPTURE_BEGIN, 0, pool, [0; 4]),
        Event::CaptureEnd { pool } => (CAPTURE_END, 0, pool, [0; 4]),
        Event::Settings { text } => (SETTINGS, 0, none, [u64::from(text.0), 0, 0, 0]),
        Event::MemoryFraction { fraction } => {
            (MEMORY_FRACTION, 0, none, [fraction.to_bits(), 0, 0, 0])
        }
        Event::ResetPeak => (RESET_PEAK, 0, none, [0; 4]),
        Event::ResetAccumulated => (RESET_ACCUMULATED, 0, none, [0; 4]),
        Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large } => {
            (SEGMENT_ALLOC, u8::from(is_large), pool, [addr.0, size_bytes, stream.0, 0])
        }
        Event::SegmentFree { addr, size_bytes, stream, pool, is_large } => {
            (SEGMENT_FREE, u8::from(is_large), pool, [addr.0, size_bytes, stream.0, 0])
        }
        Event::SegmentMap { addr, size_bytes, stream, pool, is_large } => {
            (SEGMENT_MAP, u8::from(is_large), pool, [addr.0, size_bytes, stream.0, 0])
        }
        Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large } => {
            (SEGMENT_UNMAP, u8::from(is_large), pool, [addr.0, size_bytes, stream.0, 0])
        }
        Event::DriverRefused { size_bytes } => (DRIVER_REFUSED, 0, none, [size_bytes, 0, 0, 0]),
        Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool } => {
            (OOM, 0, pool, [requested_bytes, size_bytes, device_free_bytes, stream.0])
        }
        Event::Snapshot { active_bytes } => (SNAPSHOT, 0, none, [active_bytes, 0, 0, 0]),
        Event::Mark { kind, name } => {
            let kind = match kind {
                MarkKind::Step => 0,
                MarkKind::Phase => 1,
                MarkKind::RangeBegin => 2,
                MarkKind::RangeEnd => 3,
                MarkKind::Instant => 4,
            };
            (MARK, kind, none, [u64::from(name.0), 0, 0, 0])
        }
        Event::Lost { count } => (LOST, 0, none, [count, 0, 0, 0]),
    };
    Packed { tag: u64::from(kind) | u64::from(detail) << 8, pool, args }
}

/// Puts an event together; `None` for words that no [`pack`] of this version wrote.
pub(super) fn unpack(tag: u64, pool: PoolId, args: [u64; 4]) -> Option<Event> {
    let [kind, detail, ..] = tag.to_le_bytes();
    let detail = detail & 0x7f;
    let flag = detail != 0;
    let [a, b, c, d] = args;
    let addr = Addr(a);
    let string = StringId(a as u32);
    Some(match kind {
        ALLOC => Event::Alloc { addr, requested_bytes: b, size_bytes: c, stream: Stream(d), pool },
        FREE => Event::Free { addr, requested_bytes: b, size_bytes: c, pending: flag },
        RECORD_STREAM => Event::RecordStream { addr, stream: Stream(b) },
        FREE_COMPLETED => Event::FreeCompleted { addr, requested_bytes: b, size_bytes: c },
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
        SETTINGS => Event::Settings { text: string },
        MEMORY_FRACTION => Event::MemoryFraction { fraction: f64::from_bits(a) },
        RESET_PEAK => Event::ResetPeak,
        RESET_ACCUMULATED => Event::ResetAccumulated,
        SEGMENT_ALLOC | SEGMENT_FREE | SEGMENT_MAP | SEGMENT_UNMAP => {
            let (size_bytes, stream, is_large) = (b, Stream(c), flag);
            match kind {
                SEGMENT_ALLOC => Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large },
                SEGMENT_FREE => Event::SegmentFree { addr, size_bytes, stream, pool, is_large },
                SEGMENT_MAP => Event::SegmentMap { addr, size_bytes, stream, pool, is_large },
                _ => Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large },
            }
        }
        DRIVER_REFUSED => Event::DriverRefused { size_bytes: a },
        OOM => Event::Oom {
            requested_bytes: a,
            size_bytes: b,
            device_free_bytes: c,
            stream: Stream(d),
            pool,
        },
        SNAPSHOT => Event::Snapshot { active_bytes: a },
        MARK => {
            let kind = match detail {
                0 => MarkKind::Step,
                1 => MarkKind::Phase,
                2 => MarkKind::RangeBegin,
                3 => MarkKind::RangeEnd,
                4 => MarkKind::Instant,
                _ => return None,
            };
            Event::Mark { kind, name: string }
        }
        LOST => Event::Lost { count: a },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pools() -> impl Strategy<Value = PoolId> {
        (0..1_u64 << 24, 0..1_u64 << 24).prop_map(|(a, b)| PoolId(a, b))
    }

    /// Whatever `unpack` accepts is an event, so any tag and any words reach every event there is.
    fn events() -> impl Strategy<Value = Event> {
        (1..=LOST, 0..5_u8, pools(), any::<[u64; 4]>()).prop_filter_map(
            "detail of another kind",
            |(kind, detail, pool, args)| {
                unpack(u64::from(kind) | u64::from(detail) << 8, pool, args)
            },
        )
    }

    proptest! {
        #[test]
        fn every_event_comes_back_as_it_went(event in events()) {
            let Packed { tag, pool, args } = pack(&event);
            let bits = pool_bits(pool).expect("a small pool");
            let back = unpack(tag | bits, tag_pool(tag | bits), args).expect("a known kind");
            // As text, so that a fraction that is not a number equals itself.
            prop_assert_eq!(format!("{back:?}"), format!("{event:?}"));
        }

        #[test]
        fn no_words_make_it_panic(tag: u64, args: [u64; 4]) {
            let _ = unpack(tag, tag_pool(tag), args);
        }
    }

    #[test]
    fn a_wide_pool_is_not_squeezed_into_the_tag() {
        assert_eq!(pool_bits(PoolId(1 << 24, 0)), None);
        assert_eq!(pool_bits(PoolId(0, u64::MAX)), None);
        assert_eq!(tag_pool(pool_bits(PoolId(7, POOL_MASK)).unwrap()), PoolId(7, POOL_MASK));
    }
}
