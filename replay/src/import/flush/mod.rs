//! The windows of a trace and their causes ([`observer::cause`]).
//!
//! Where the limit is not known, it is taken from the trace: an out-of-memory names what the device had left;
//! failing that, a run cannot have been refused below the most it ever reserved.
//!
//! The completions of a window that waited belong to it: a free completed directly after its request may have been
//! pending until then, and treating it so is harmless, as the malloc found nothing to reuse either way.

use std::ops::Range;

use allocator::size;
use observer::cause::{Cause, FlushRules, collects_above_bytes, losses};
use settings::Config;
use trace_format::PoolId;

use super::insert::Insert;
use super::run_limits::RunLimits;
use crate::snapshot::{TraceAction, TraceEntry};

/// A window and its cause.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flush {
    /// The entries; from the first segment on unless a malloc was refused.
    pub(super) window: Range<usize>,
    pub(super) cause: Cause,
}

impl Flush {
    /// Whether the malloc after the window made it.
    pub(super) fn belongs_to_malloc(&self) -> bool {
        !matches!(self.cause, Cause::Emptied { .. })
    }

    /// Whether the frees completed in the window must count as pending until then: the malloc searched before it waited
    /// for them. Where the cache was emptied they may have been done before.
    pub(super) fn waited(&self) -> bool {
        matches!(self.cause, Cause::Refused { .. })
    }
}

/// Finds every window of a trace that starts with `base_bytes` reserved.
pub(super) fn find(
    entries: &[TraceEntry],
    base_bytes: u64,
    config: &Config,
    known: &RunLimits,
) -> Vec<Flush> {
    let limit = known.limit_bytes().unwrap_or_else(|| limit_of(entries, base_bytes));
    // Where the limit is not known, any loss may be a collection.
    let collects_above_bytes = collects_above_bytes(config, known.allowed_bytes().unwrap_or(0));
    let mut flushes = Vec::new();
    let mut reserved = base_bytes;
    let mut window = 0..0;
    let mut reserved_bytes = reserved;
    for at in 0..=entries.len() {
        let entry = entries.get(at);
        if window.end != at {
            window = at..at;
            reserved_bytes = reserved;
        }
        if let Some(entry) = entry
            && (entry.action == TraceAction::FreeCompleted || entry.action.is_segment_loss())
        {
            window.end = at + 1;
            reserved = reserved_after(reserved, entry);
            continue;
        }
        let is_oom = entry.is_some_and(|entry| entry.action == TraceAction::Oom);
        let lost = &entries[window.clone()];
        let pools = losses(lost).map(|(_, entry)| entry.pool.unwrap_or(PoolId::DEFAULT));
        let need_bytes = || need_bytes(&entries[at..], config);
        let (limit_bytes, leaves_out_emptied) = (Some(limit), false);
        let rules =
            FlushRules { reserved_bytes, limit_bytes, collects_above_bytes, leaves_out_emptied };
        if let Some(cause) = rules.cause(lost, pools, need_bytes, is_oom) {
            let start = window.start + cause.first_entry(lost);
            flushes.push(Flush { window: start..window.end, cause });
        }
        if let Some(entry) = entry {
            reserved = reserved_after(reserved, entry);
        }
    }
    flushes
}

/// The records of the causes. A collection needs none: its segments stand before the malloc.
pub(super) fn inserts(flushes: &[Flush]) -> Vec<Insert> {
    let insert =
        |flush: &Flush| flush.cause.event().map(|event| Insert::new(flush.window.start, event));
    flushes.iter().filter_map(insert).collect()
}

/// The counts and their basis, as a sentence.
pub(super) fn notes(flushes: &[Flush], known: &RunLimits) -> Option<String> {
    let count = |is: fn(&Cause) -> bool| flushes.iter().filter(|flush| is(&flush.cause)).count();
    let basis = if known.limit_bytes().is_some() {
        "by the given capacity and fraction"
    } else {
        "without the capacity (--meta gives it): growth past the most that the run ever reserved \
         counts as refused"
    };
    (!flushes.is_empty()).then(|| {
        format!(
            "segments went back to the device {} times: {} emptied caches (replayed where they \
             were; --no-empty-cache leaves them out), {} retries after a refusal and {} garbage \
             collections (left to each setting), distinguished {basis}",
            flushes.len(),
            count(|cause| matches!(cause, Cause::Emptied { .. })),
            count(|cause| matches!(cause, Cause::Refused { .. })),
            count(|cause| matches!(cause, Cause::Collected)),
        )
    })
}

fn reserved_after(reserved: u64, entry: &TraceEntry) -> u64 {
    if entry.action.is_segment_gain() {
        reserved.saturating_add(entry.size_bytes)
    } else if entry.action.is_segment_loss() {
        reserved.saturating_sub(entry.size_bytes)
    } else {
        reserved
    }
}

/// The limit that the trace itself shows.
fn limit_of(entries: &[TraceEntry], base_bytes: u64) -> u64 {
    let mut reserved = base_bytes;
    let mut peak = reserved;
    let mut at_oom = None;
    for entry in entries {
        reserved = reserved_after(reserved, entry);
        peak = peak.max(reserved);
        if entry.action == TraceAction::Oom {
            at_oom = at_oom.max(Some(reserved.saturating_add(entry.addr.0)));
        }
    }
    at_oom.unwrap_or(peak)
}

/// The bytes that the malloc at the head of `entries` took from the device, or was refused; `None` if it took none.
fn need_bytes(entries: &[TraceEntry], config: &Config) -> Option<u64> {
    let first = entries.first()?;
    if first.action == TraceAction::Oom {
        return Some(size::segment_bytes(first.size_bytes, config));
    }
    let gains = entries.iter().take_while(|entry| entry.action.is_segment_gain());
    let need = gains.fold(0_u64, |sum, entry| sum.saturating_add(entry.size_bytes));
    (need > 0).then_some(need)
}

#[cfg(test)]
mod tests;
