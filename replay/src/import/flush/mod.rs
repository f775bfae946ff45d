//! Why segments went back to the device: a snapshot shows only that they did.
//!
//! A *window* is a run of entries in which segments go away, together with the completed frees among and directly
//! before them (giving everything back first waits for all pending frees). Three causes look like this:
//!
//! - **the retry chain**: the malloc that follows was refused by the device or the memory fraction, so what was
//!   reserved before the window plus what it needed must exceed the limit, and a segment (or an out-of-memory) must
//!   follow. An out-of-memory was refused even where nothing could be given back.
//! - **garbage collection**: only with its threshold set; takes whole large segments of the malloc that follows, above
//!   the threshold, and waits for nothing.
//! - **`torch.cuda.empty_cache()`**, or a pool's end: everything else.
//!
//! Where the limit is not known, it is taken from the trace: an out-of-memory names what the device had left;
//! failing that, a run cannot have been refused below the most it ever reserved.
//!
//! The completions of a window that waited belong to it: a free completed directly after its request may have been
//! pending until then, and treating it so is harmless, as the malloc found nothing to reuse either way.

use std::ops::Range;

use allocator::size;
use settings::Config;
use trace_format::{Event, PoolId};

use super::insert::Insert;
use super::known::Known;
use crate::snapshot::{Action, Entry};

/// A window and its cause.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flush {
    /// The entries; from the first segment on unless a malloc was refused.
    pub(super) window: Range<usize>,
    pub(super) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The malloc that follows was refused this much.
    Refused { size_bytes: u64 },
    /// The malloc that follows collected old segments.
    Collected,
    /// The cache was emptied: everything unused, or one private pool.
    Emptied { pool: PoolId },
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
    entries: &[Entry],
    base_bytes: u64,
    config: &Config,
    known: &Known,
) -> Vec<Flush> {
    let limit = known.limit_bytes().unwrap_or_else(|| limit_of(entries, base_bytes));
    let collects_above = (config.garbage_collection_threshold > 0.0).then(|| {
        let allowed = known.allowed_bytes().unwrap_or(0);
        (config.garbage_collection_threshold * allowed as f64) as u64
    });
    let mut flushes = Vec::new();
    let mut reserved = base_bytes;
    let mut window = 0..0;
    let mut reserved_before = reserved;
    let mut has_loss = false;
    for at in 0..=entries.len() {
        let entry = entries.get(at);
        if let Some(entry) = entry
            && (entry.action == Action::FreeCompleted || entry.action.is_segment_loss())
        {
            if window.end != at {
                window = at..at;
                reserved_before = reserved;
                has_loss = false;
            }
            window.end = at + 1;
            has_loss |= entry.action.is_segment_loss();
            reserved = reserved_after(reserved, entry);
            continue;
        }
        if window.end != at {
            window = at..at;
            reserved_before = reserved;
            has_loss = false;
        }
        // Only here: looked at before every entry, a long run of gains would be walked again and again.
        let need = || need_bytes(&entries[at..], config);
        let is_oom = entry.is_some_and(|entry| entry.action == Action::Oom);
        let losses = &entries[window.clone()];
        if is_oom {
            let cause = Cause::Refused { size_bytes: need().unwrap_or(0) };
            flushes.push(Flush { window: window.clone(), cause });
        } else if has_loss {
            let cause = match need() {
                Some(need) if reserved_before.saturating_add(need) > limit => {
                    Cause::Refused { size_bytes: need }
                }
                Some(_)
                    if collects_above.is_some_and(|above| reserved_before > above)
                        && could_be_collected(losses) =>
                {
                    Cause::Collected
                }
                _ => Cause::Emptied { pool: only_pool(losses) },
            };
            let window = match cause {
                Cause::Refused { .. } => window.clone(),
                _ => first_loss(losses) + window.start..window.end,
            };
            flushes.push(Flush { window, cause });
        }
        if let Some(entry) = entry {
            reserved = reserved_after(reserved, entry);
        }
    }
    flushes
}

/// The records of the causes. A collection needs none: its segments stand before the malloc.
pub(super) fn inserts(flushes: &[Flush]) -> Vec<Insert> {
    let event = |cause| match cause {
        Cause::Refused { size_bytes } => Some(Event::DriverRefused { size_bytes }),
        Cause::Collected => None,
        Cause::Emptied { pool } => Some(Event::EmptyCache { pool, inferred: true }),
    };
    flushes
        .iter()
        .filter_map(|flush| event(flush.cause).map(|event| Insert::new(flush.window.start, event)))
        .collect()
}

/// The counts and their basis, as a sentence.
pub(super) fn notes(flushes: &[Flush], known: &Known) -> Option<String> {
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

fn reserved_after(reserved: u64, entry: &Entry) -> u64 {
    if entry.action.is_segment_gain() {
        reserved.saturating_add(entry.size)
    } else if entry.action.is_segment_loss() {
        reserved.saturating_sub(entry.size)
    } else {
        reserved
    }
}

/// The limit that the trace itself shows.
fn limit_of(entries: &[Entry], base_bytes: u64) -> u64 {
    let mut reserved = base_bytes;
    let mut peak = reserved;
    let mut at_oom = None;
    for entry in entries {
        reserved = reserved_after(reserved, entry);
        peak = peak.max(reserved);
        if entry.action == Action::Oom {
            at_oom = at_oom.max(Some(reserved.saturating_add(entry.addr)));
        }
    }
    at_oom.unwrap_or(peak)
}

/// The bytes that the malloc at the head of `entries` took from the device, or was refused; `None` if it took none.
fn need_bytes(entries: &[Entry], config: &Config) -> Option<u64> {
    let first = entries.first()?;
    if first.action == Action::Oom {
        return Some(size::segment_bytes(first.size, config));
    }
    let gains = entries.iter().take_while(|entry| entry.action.is_segment_gain());
    let need = gains.fold(0_u64, |sum, entry| sum.saturating_add(entry.size));
    (need > 0).then_some(need)
}

fn first_loss(window: &[Entry]) -> usize {
    window.iter().position(|entry| entry.action.is_segment_loss()).unwrap_or(0)
}

/// Garbage collection takes whole large segments, one after another.
fn could_be_collected(window: &[Entry]) -> bool {
    window[first_loss(window)..]
        .iter()
        .all(|entry| entry.action == Action::SegmentFree && entry.size != size::SMALL_SEGMENT_BYTES)
}

/// The private pool that all segments of a window belonged to; else the default pool, which means everything.
fn only_pool(window: &[Entry]) -> PoolId {
    let mut pools = window.iter().filter(|entry| entry.action.is_segment_loss());
    let first = pools.next().and_then(|entry| entry.pool).unwrap_or(PoolId::DEFAULT);
    if pools.all(|entry| entry.pool == Some(first)) { first } else { PoolId::DEFAULT }
}

#[cfg(test)]
mod tests;
