//! The tag byte of a record and the codes of small enumerations in it.

use crate::{Category, MarkKind, ScopeFilter, varint::Malformed};

/// The bits of a tag that hold the kind of event.
pub(super) const KIND: u8 = 0x1f;
/// The record has a stack.
pub(super) const HAS_STACK: u8 = 0x20;
/// The record's thread differs from the one before.
pub(super) const NEW_THREAD: u8 = 0x40;
/// The record's stream or pool differs from the last event that had them.
pub(super) const NEW_PLACE: u8 = 0x80;

pub(super) const ALLOC: u8 = 0;
pub(super) const FREE: u8 = 1;
pub(super) const FREE_PENDING: u8 = 2;
pub(super) const FREE_COMPLETED: u8 = 3;
pub(super) const RECORD_STREAM: u8 = 4;
pub(super) const SEGMENT_ALLOC: u8 = 5;
pub(super) const SEGMENT_FREE: u8 = 6;
pub(super) const SEGMENT_MAP: u8 = 7;
pub(super) const SEGMENT_UNMAP: u8 = 8;
pub(super) const EMPTY_CACHE: u8 = 9;
pub(super) const POOL_CREATE: u8 = 10;
pub(super) const POOL_BEGIN: u8 = 11;
pub(super) const POOL_END: u8 = 12;
pub(super) const POOL_RELEASE: u8 = 13;
pub(super) const POOL_USE_ON_OOM: u8 = 14;
pub(super) const POOL_NO_SPLIT: u8 = 15;
pub(super) const CAPTURE_BEGIN: u8 = 16;
pub(super) const CAPTURE_END: u8 = 17;
pub(super) const SETTINGS: u8 = 18;
pub(super) const MEMORY_FRACTION: u8 = 19;
pub(super) const RESET_PEAK: u8 = 20;
pub(super) const RESET_ACCUMULATED: u8 = 21;
pub(super) const DRIVER_REFUSED: u8 = 22;
pub(super) const OOM: u8 = 23;
pub(super) const SNAPSHOT: u8 = 24;
pub(super) const MARK: u8 = 25;
pub(super) const LOST: u8 = 26;
pub(super) const CATEGORY: u8 = 27;
pub(super) const STREAM_PASSED: u8 = 28;
pub(super) const PAGE_MAP: u8 = 29;
pub(super) const PAGE_UNMAP: u8 = 30;

/// The code of a scope's filter, in events and base states.
pub(crate) const fn filter_code(filter: ScopeFilter) -> u8 {
    match filter {
        ScopeFilter::Unknown => 0,
        ScopeFilter::Capture => 1,
        ScopeFilter::Thread => 2,
    }
}

/// The filter of a code.
pub(crate) const fn filter_of(code: u8) -> Result<ScopeFilter, Malformed> {
    Ok(match code {
        0 => ScopeFilter::Unknown,
        1 => ScopeFilter::Capture,
        2 => ScopeFilter::Thread,
        _ => return Err(Malformed::Code),
    })
}

pub(super) const fn mark_code(kind: MarkKind) -> u8 {
    match kind {
        MarkKind::Step => 0,
        MarkKind::Phase => 1,
        MarkKind::RangeBegin => 2,
        MarkKind::RangeEnd => 3,
        MarkKind::Instant => 4,
        MarkKind::ModuleBegin => 5,
        MarkKind::ModuleEnd => 6,
        MarkKind::ModuleBackward => 7,
        MarkKind::ModuleOwner => 8,
    }
}

pub(super) fn mark_of(code: u8) -> Result<MarkKind, Malformed> {
    MarkKind::ALL.get(usize::from(code)).copied().ok_or(Malformed::Code)
}

pub(super) const fn category_code(category: Category) -> u8 {
    match category {
        Category::Parameter => 0,
        Category::Gradient => 1,
        Category::OptimizerState => 2,
    }
}

pub(super) fn category_of(code: u8) -> Result<Category, Malformed> {
    Category::ALL.get(usize::from(code)).copied().ok_or(Malformed::Code)
}
