//! The rules for an allocator on a device: the parts of its memory, compared with the request.

use super::{FULL_SHARE, GIB, Judgement, alone, bytes, headroom, show, significant};
use crate::message::fields::Fields;
use oom::{OomVerdict, Step};

/// The same rule as for runs.
const CONTEXT_BYTES: f64 = oom::CONTEXT_BYTES as f64;
/// Free memory beyond the request with which a refusal has another reason.
const ROOM_BYTES: f64 = 0.1 * GIB;
const ROOM_SHARE: f64 = 0.01;
/// Share of the device above which private pools and unallocated memory matter.
const GRAPHS_SHARE: f64 = 0.25;
const FRAGMENTS_SHARE: f64 = 0.01;
const LARGE_FRAGMENTS_SHARE: f64 = 0.1;

/// The device or its limit, in words.
fn limit_name(capacity: f64, limit: f64) -> &'static str {
    if limit < capacity { "the limit" } else { "the device" }
}

/// A message of an allocator on a device.
struct Device {
    request: f64,
    capacity: f64,
    limit: f64,
    free: Option<f64>,
    allocated: Option<f64>,
    unallocated: Option<f64>,
    pools: f64,
    /// This process, and whether it was taken from the list.
    process: Option<(f64, bool)>,
    /// The listed processes, this one too where it was taken from them.
    listed: Vec<f64>,
}

impl Device {
    fn new(fields: &Fields, capacity: f64) -> Self {
        let allocated = bytes(fields.allocated_bytes);
        let reserved = bytes(fields.reserved_bytes);
        let unallocated = bytes(fields.reserved_unallocated_bytes)
            .or_else(|| Some((reserved? - allocated?).max(0.0)));
        let listed: Vec<f64> = fields
            .processes
            .iter()
            .filter_map(|process| process.bytes.map(|bytes| bytes as f64))
            .collect();
        // In a container the driver's numbers are not the process's own: the smallest that holds it all is this one.
        let own = allocated.map(|allocated| allocated + unallocated.unwrap_or(0.0));
        let inferred = own.and_then(|own| {
            listed.iter().copied().filter(|bytes| *bytes >= own).min_by(f64::total_cmp)
        });
        let process = match bytes(fields.process_bytes) {
            Some(bytes) => Some((bytes, false)),
            None => inferred.map(|bytes| (bytes, true)),
        };
        Self {
            request: bytes(fields.requested_bytes).unwrap_or(0.0),
            capacity,
            limit: bytes(fields.allowed_bytes).map_or(capacity, |allowed| allowed.min(capacity)),
            free: bytes(fields.free_bytes),
            allocated,
            unallocated,
            pools: bytes(fields.private_pool_bytes).unwrap_or(0.0),
            process,
            listed,
        }
    }

    /// Whether the limit, and not the device, refused the request.
    fn is_limited(&self) -> bool {
        let used = self.allocated.unwrap_or(0.0) + self.unallocated.unwrap_or(0.0) + self.request;
        self.limit < self.capacity && used > self.limit - headroom(self.limit)
    }

    /// Memory of other processes; where no process is listed, of anything outside the pools.
    fn others(&self) -> Option<f64> {
        if let Some((process, _)) = self.process {
            return Some(self.capacity - self.free? - process);
        }
        if !self.listed.is_empty() {
            return Some(self.listed.iter().sum());
        }
        let pools = self.allocated? + self.unallocated.unwrap_or(0.0);
        Some(self.capacity - self.free? - pools - CONTEXT_BYTES)
    }

    /// Memory of this process outside the pools, without its context.
    fn outside(&self) -> Option<f64> {
        Some(self.process?.0 - self.allocated? - self.unallocated? - CONTEXT_BYTES)
    }

    fn is_listed(&self) -> bool {
        self.process.is_some() || !self.listed.is_empty()
    }

    /// Whether almost all of the limit is live.
    fn is_full(&self) -> bool {
        let live = self.allocated.unwrap_or(0.0);
        let held = self.allocated.or(self.process.map(|(bytes, _)| bytes)).unwrap_or(0.0);
        live + self.request > self.limit - headroom(self.limit) || held >= FULL_SHARE * self.limit
    }

    /// The parts that are large enough to explain the refusal, with their sizes.
    fn parts(&self) -> Vec<(OomVerdict, f64)> {
        let free = self.free.unwrap_or(0.0);
        let mut parts = Vec::new();
        if let Some(size) = self.unallocated {
            let is_some = size >= FRAGMENTS_SHARE * self.capacity;
            if size >= self.request && is_some {
                parts.push((OomVerdict::Fragmentation, size));
            } else if size < self.request
                && (size > LARGE_FRAGMENTS_SHARE * self.capacity
                    || (free + size >= self.request && is_some))
            {
                parts.push((OomVerdict::PartlyFragmentation, size));
            }
        }
        if self.is_limited() {
            return parts;
        }
        let least = significant(self.capacity, self.is_listed());
        let is_enough = |size: &f64| *size >= least && free + size >= self.request;
        let found =
            [(OomVerdict::OtherProcess, self.others()), (OomVerdict::NonPytorch, self.outside())];
        parts.extend(
            found
                .into_iter()
                .filter_map(|(verdict, size)| Some((verdict, size.filter(is_enough)?))),
        );
        parts
    }
}

/// Judges a message of an allocator on a device.
pub(super) fn general(fields: &Fields) -> Judgement {
    let request = bytes(fields.requested_bytes).unwrap_or(0.0);
    let Some(capacity) = bytes(fields.capacity_bytes) else {
        let missing = if fields.requested_bytes.get().is_some() { "" } else { " and no request" };
        return alone(
            OomVerdict::Unknown,
            format!("the message states no capacity of the device{missing}"),
        );
    };
    let device = Device::new(fields, capacity);
    let (limit, limit_name) = (device.limit, limit_name(capacity, device.limit));
    if request > limit {
        let why = format!(
            "the request of {} alone exceeds {limit_name} of {}",
            show(request),
            show(limit)
        );
        return alone(OomVerdict::HugeRequest, why);
    }
    if device.allocated.is_none() && !device.is_listed() {
        let why = "the message states neither the allocated memory nor that of any process";
        return alone(OomVerdict::Unknown, why);
    }
    let live = device.allocated.unwrap_or(0.0);
    let is_over = live + request > limit;
    let is_graphs = device.pools >= GRAPHS_SHARE * capacity
        && live - device.pools + request <= capacity - headroom(limit);
    let parts = device.parts();
    let largest =
        parts.iter().copied().reduce(|one, other| if other.1 > one.1 { other } else { one });
    let has_room =
        device.free.is_some_and(|free| free >= request + ROOM_BYTES.max(ROOM_SHARE * capacity));
    let (verdict, why) = if is_graphs {
        let (pools, capacity) = (show(device.pools), show(capacity));
        (
            OomVerdict::Graphs,
            format!("private pools hold {pools} of {capacity}; without them the request fits"),
        )
    } else if is_over {
        let (live, request, limit) = (show(live), show(request), show(limit));
        (
            OomVerdict::Capacity,
            format!(
                "{live} are live: with the request of {request} they exceed {limit_name} of {limit}"
            ),
        )
    } else if has_room && !device.is_limited() {
        let (free, request) = (show(device.free.unwrap_or(0.0)), show(request));
        let why = format!(
            "{free} are free, more than the request of {request}: the driver refused for another reason"
        );
        return Judgement { steps: steps(&device, fields), ..alone(OomVerdict::Unknown, why) };
    } else if let Some((verdict, size)) = largest {
        (verdict, why_part(&device, verdict, size))
    } else if device.is_full() {
        let held = device.allocated.or(device.process.map(|(bytes, _)| bytes)).unwrap_or(0.0);
        let share = 100.0 * held / limit;
        (
            OomVerdict::Capacity,
            format!(
                "{} of {} are live ({share:.0} %), and no other part is large",
                show(held),
                show(limit)
            ),
        )
    } else {
        (OomVerdict::Unknown, "no single part explains the shortfall".to_owned())
    };
    let mut also: Vec<OomVerdict> = parts.iter().map(|(verdict, _)| *verdict).collect();
    // Without a line for this process, its other memory and that of other processes look the same.
    let is_stated = device.process.is_some_and(|(_, is_inferred)| !is_inferred);
    match verdict {
        OomVerdict::OtherProcess if !device.is_listed() => also.push(OomVerdict::NonPytorch),
        OomVerdict::NonPytorch if !is_stated => also.push(OomVerdict::OtherProcess),
        _ => {}
    }
    if is_over || device.is_full() {
        also.push(OomVerdict::Capacity);
    }
    also.retain(|other| *other != verdict);
    also.sort_unstable();
    also.dedup();
    Judgement { verdict, also, why, steps: steps(&device, fields) }
}

fn why_part(device: &Device, verdict: OomVerdict, size: f64) -> String {
    let (size_text, request) = (show(size), show(device.request));
    match verdict {
        OomVerdict::Fragmentation => {
            format!(
                "{size_text} are reserved but unallocated, enough for the request of {request}, but not in one piece"
            )
        }
        OomVerdict::PartlyFragmentation => {
            format!(
                "{size_text} are reserved but unallocated, a part of what the request of {request} lacks"
            )
        }
        OomVerdict::NonPytorch => {
            format!("this process holds {} outside PyTorch's pools", show(size + CONTEXT_BYTES))
        }
        _ if device.is_listed() => {
            format!("other processes hold {size_text} of {}", show(device.capacity))
        }
        _ => format!(
            "{size_text} of {} are held outside PyTorch's pools; the message does not state the holder",
            show(device.capacity)
        ),
    }
}

/// The numbers that follow from those of the message.
fn steps(device: &Device, fields: &Fields) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = |name, how, size: Option<f64>| {
        if let Some(size) = size.filter(|size| *size >= 0.0) {
            steps.push(Step { name, how, bytes: size.round() as u64 });
        }
    };
    let with = device.allocated.map(|allocated| allocated + device.request);
    step(
        "allocated with the request",
        "allocated + request",
        with.filter(|_| device.request > 0.0),
    );
    let difference =
        device.unallocated.filter(|_| fields.reserved_unallocated_bytes.get().is_none());
    step("reserved but unallocated", "reserved - allocated", difference);
    let inferred = device.process.filter(|(_, is_inferred)| *is_inferred).map(|(bytes, _)| bytes);
    step("this process", "the smallest listed process that can hold its pools", inferred);
    let outside = device.outside();
    step(
        "of this process, outside its pools",
        "process - allocated - unallocated - 512.00 MiB context",
        outside,
    );
    match device.process {
        Some(_) => step("other processes", "capacity - free - this process", device.others()),
        None if device.is_listed() => step("other processes", "sum of the list", device.others()),
        None => step(
            "outside PyTorch's pools",
            "capacity - free - allocated - unallocated - 512.00 MiB context",
            device.others(),
        ),
    }
    steps
}
