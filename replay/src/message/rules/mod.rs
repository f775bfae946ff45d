//! The arithmetic behind a verdict: which part of the memory explains the refused request.

mod device;

use super::fields::{Fields, Stated};
use super::patterns::Rules;
use oom::{OomVerdict, Step};

const GIB: f64 = (1u64 << 30) as f64;

/// Memory that a device or a limit has beyond the allocator's, with the share of a small and of a large device.
const HEADROOM_BYTES: f64 = GIB;
const HEADROOM_OF_SMALL: f64 = 0.2;
const HEADROOM_OF_LARGE: f64 = 0.03;
/// Memory of others that is worth a verdict, and the share where no process is listed, which makes it an estimate.
const SIGNIFICANT_BYTES: f64 = 0.75 * GIB;
const SIGNIFICANT_OF_SMALL: f64 = 0.1;
const SIGNIFICANT_OF_LARGE: f64 = 0.03;
const SIGNIFICANT_UNLISTED: f64 = 0.08;
/// Share of a limit above which live memory fills it.
const FULL_SHARE: f64 = 0.85;
/// Share of the device in use before an engine starts.
const STARTUP_SHARE: f64 = 0.1;

/// The outcome of the rules.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judgement {
    /// The first rule that holds.
    pub verdict: OomVerdict,
    /// Other rules that hold.
    pub also: Vec<OomVerdict>,
    /// The reason, in words.
    pub why: String,
    /// The numbers that prove it, beside those of the message.
    pub steps: Vec<Step>,
}

/// Judges one message.
pub(super) fn judge(fields: &Fields, rules: Rules) -> Judgement {
    match rules {
        Rules::Host => {
            alone(OomVerdict::Host, "the request was for host memory, not for a device's")
        }
        Rules::General => device::general(fields),
        Rules::Startup => startup(fields),
        Rules::Cache => cache(fields),
        Rules::CacheTokens => alone(
            OomVerdict::Capacity,
            "the KV cache of one request needs more tokens than the budget leaves room for",
        ),
        Rules::ProcessLimit => process_limit(fields),
        Rules::PoolLimit => pool_limit(fields),
    }
}

fn alone(verdict: OomVerdict, why: impl Into<String>) -> Judgement {
    Judgement { verdict, also: Vec::new(), why: why.into(), steps: Vec::new() }
}

fn bytes(stated: Stated) -> Option<f64> {
    stated.get().map(|bytes| bytes as f64)
}

fn headroom(limit: f64) -> f64 {
    HEADROOM_BYTES.min(HEADROOM_OF_SMALL * limit).max(HEADROOM_OF_LARGE * limit)
}

fn significant(capacity: f64, is_listed: bool) -> f64 {
    if !is_listed {
        return SIGNIFICANT_UNLISTED * capacity;
    }
    SIGNIFICANT_BYTES.min(SIGNIFICANT_OF_SMALL * capacity).max(SIGNIFICANT_OF_LARGE * capacity)
}

/// `1.50 GiB`.
fn show(bytes: f64) -> String {
    allocator::stats::ByteSize(bytes.max(0.0).round() as u64).to_string()
}

fn startup(fields: &Fields) -> Judgement {
    let (Some(capacity), Some(free)) = (bytes(fields.capacity_bytes), bytes(fields.free_bytes))
    else {
        return alone(OomVerdict::Unknown, "the message states no numbers of the device");
    };
    let used = capacity - free;
    let why = format!(
        "{} of {} were in use before the engine allocated anything",
        show(used),
        show(capacity)
    );
    let is_large = used >= STARTUP_SHARE * capacity;
    let verdict = if is_large { OomVerdict::OtherProcess } else { OomVerdict::Unknown };
    let steps = vec![Step {
        name: "in use before the start",
        how: "capacity - free",
        bytes: used.max(0.0) as u64,
    }];
    Judgement { steps, ..alone(verdict, why) }
}

fn cache(fields: &Fields) -> Judgement {
    match (bytes(fields.requested_bytes), bytes(fields.free_bytes)) {
        (Some(needed), Some(left)) => alone(
            OomVerdict::Capacity,
            format!(
                "the KV cache of one request needs {}, and the budget leaves {}",
                show(needed),
                show(left)
            ),
        ),
        (Some(needed), None) => {
            let why = format!(
                "the KV cache of one request needs {}, more than the budget leaves",
                show(needed)
            );
            alone(OomVerdict::Capacity, why)
        }
        _ => alone(
            OomVerdict::Unknown,
            "the message states no bytes; weights, activations and other processes are possible",
        ),
    }
}

fn process_limit(fields: &Fields) -> Judgement {
    let Some(limit) = bytes(fields.allowed_bytes) else {
        return alone(OomVerdict::Unknown, "the message states no limit");
    };
    let request = bytes(fields.requested_bytes).unwrap_or(0.0);
    let live = bytes(fields.allocated_bytes).unwrap_or(0.0);
    let others = bytes(fields.other_allocations_bytes).unwrap_or(0.0);
    let is_full = live + request > limit - headroom(limit) || live >= FULL_SHARE * limit;
    let over = |live: f64| {
        let (live, request, limit) = (show(live), show(request), show(limit));
        format!("{live} are live: with the request of {request} they exceed the limit of {limit}")
    };
    let steps = vec![Step {
        name: "allocated with the request",
        how: "allocated + request",
        bytes: (live + request) as u64,
    }];
    let (verdict, why) = if request > limit {
        let why =
            format!("the request of {} alone exceeds the limit of {}", show(request), show(limit));
        return alone(OomVerdict::HugeRequest, why);
    } else if live + request > limit {
        (OomVerdict::Capacity, over(live))
    } else if others >= significant(limit, false) {
        let why = format!(
            "other allocations of this process hold {} of the limit of {}",
            show(others),
            show(limit)
        );
        (OomVerdict::NonPytorch, why)
    } else if is_full {
        let why = format!("{} of {} are live, and no other part is large", show(live), show(limit));
        (OomVerdict::Capacity, why)
    } else {
        (OomVerdict::Unknown, "no single part explains the shortfall".to_owned())
    };
    let mut also = Vec::new();
    if verdict == OomVerdict::NonPytorch && is_full {
        also.push(OomVerdict::Capacity);
    }
    Judgement { verdict, also, why, steps }
}

fn pool_limit(fields: &Fields) -> Judgement {
    let Some(limit) = bytes(fields.allowed_bytes) else {
        return alone(
            OomVerdict::Unknown,
            "the message states neither the device's capacity nor a limit",
        );
    };
    let request = bytes(fields.requested_bytes).unwrap_or(0.0);
    if request > limit {
        let why = format!(
            "the request of {} alone exceeds the pool's limit of {}",
            show(request),
            show(limit)
        );
        return alone(OomVerdict::HugeRequest, why);
    }
    match bytes(fields.allocated_bytes) {
        Some(live) if live + request > limit => {
            let (live, request, limit) = (show(live), show(request), show(limit));
            let why = format!(
                "{live} are live: with the request of {request} they exceed the pool's limit of {limit}"
            );
            alone(OomVerdict::Capacity, why)
        }
        Some(_) => alone(
            OomVerdict::Unknown,
            "the request fits the pool's limit, and the capacity is not stated",
        ),
        None => alone(
            OomVerdict::Unknown,
            "the pool is at its limit; the message does not state the live part of it",
        ),
    }
}
