//! A refused request of the recorded run that the replay serves: the run does not contain the cause.

use allocator::size;
use allocator::stats::ByteSize;
use oom::{OomVerdict, Step};
use settings::Config;
use trace_format::{Event, Record};

use super::blocks::Origins;
use super::{OutOfMemory, RefusedRequest};

/// What the record of the refusal shows; `None` for other records.
pub(super) fn served(
    record: &Record,
    reserved_bytes: u64,
    config: &Config,
    origins: &Origins<'_>,
) -> Option<OutOfMemory> {
    let Event::Oom { requested_bytes, device_free_bytes, stream, pool, .. } = record.event else {
        return None;
    };
    let size_bytes = size::round(requested_bytes, config);
    let segment_bytes = size::segment_bytes(size_bytes, config);
    let (request, free) = (ByteSize(requested_bytes), ByteSize(device_free_bytes));
    let cause = if device_free_bytes >= segment_bytes {
        "a memory fraction, or a refusal of the driver"
    } else {
        "such as a graph capture, during which the cache is not emptied"
    };
    let why = format!(
        "the recorded run refused the request of {request} with {free} free on the device, and the replay serves it: \
         the run does not contain the cause, {cause}"
    );
    let steps = [
        ("request", "", requested_bytes),
        ("segment for it", "what the device is asked for", segment_bytes),
        ("reserved", "in the replay", reserved_bytes),
        ("left on the device", "as recorded", device_free_bytes),
    ];
    Some(OutOfMemory {
        verdict: OomVerdict::Unknown,
        also: Vec::new(),
        why,
        arithmetic: steps.map(|(name, how, bytes)| Step { name, how, bytes }).into(),
        request: RefusedRequest {
            requested_bytes,
            size_bytes,
            segment_bytes,
            pool,
            stream,
            is_recorded: true,
            origin: origins.of_request(record),
        },
        pinning: None,
        remedies: Vec::new(),
    })
}
