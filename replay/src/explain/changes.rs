//! Changes of a program's records: smaller requests, or a larger memory fraction.

use trace_format::{Event, Record};

/// The largest request that scaling makes, as in an edit.
const REQUEST_BYTES_MAX: u64 = 1 << 50;

/// A record with its request scaled as `edit scale:FACTOR` does, unless it is that of a parameter, gradient or state.
pub(super) fn scaled(record: &Record, factor: f64, is_state: bool) -> Record {
    let scale = |bytes: u64| ((bytes as f64 * factor).round() as u64).clamp(1, REQUEST_BYTES_MAX);
    let mut event = record.event;
    match &mut event {
        Event::Alloc { requested_bytes, .. } | Event::Oom { requested_bytes, .. } if !is_state => {
            *requested_bytes = scale(*requested_bytes);
        }
        _ => {}
    }
    Record { event, ..*record }
}

/// A record with every memory fraction at this or above.
pub(super) fn with_fraction(record: &Record, least: f64) -> Record {
    let mut event = record.event;
    if let Event::MemoryFraction { fraction } = &mut event {
        *fraction = fraction.max(least);
    }
    Record { event, ..*record }
}
