//! Why a request of a run was refused: the rules of messages, with what only a run shows.

use std::cmp::Reverse;

use allocator::size;
use allocator::stats::ByteSize;
use events::{BlockState, SegmentState};
use settings::Config;

use crate::free_space::{FreeSpace, Unserved};
use crate::others::Others;
use crate::situation::Situation;
use crate::verdict::{OomVerdict, Step};

/// The verdict, with the numbers that prove it.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The first rule that holds.
    pub verdict: OomVerdict,
    /// Other rules that hold.
    pub also: Vec<OomVerdict>,
    /// The reason in a sentence, without its full stop.
    pub why: String,
    /// The numbers.
    pub steps: Vec<Step>,
}

/// What the rules compare.
struct Numbers<'s> {
    situation: &'s Situation,
    free_space: &'s [FreeSpace],
    /// The device without the CUDA context, with what others hold of it.
    device_bytes: u64,
    /// What the allocator may hold: the device, or the memory fraction of it.
    limit_bytes: u64,
    /// Bytes that the program holds, as it asked for them.
    live_bytes: u64,
    allocated_bytes: u64,
    /// Memory of the device that others hold, where that is known.
    others: Others,
}

/// Judges a refused request. `others` is the memory of the device that is not the allocator's to use.
pub fn judge(situation: &Situation, free_space: &[FreeSpace], others: Others) -> Judged {
    let memory = &situation.before;
    let (live_bytes, allocated_bytes) =
        situation.live().fold((0, 0), |(requested, allocated), block| {
            (requested + block.requested_bytes.min(block.size_bytes), allocated + block.size_bytes)
        });
    let device_bytes =
        memory.reserved_bytes + memory.free_bytes + others.bytes - others.context_bytes;
    let is_limited = memory.allowed_bytes < memory.total_bytes;
    let limit_bytes = if is_limited { memory.allowed_bytes } else { device_bytes };
    let numbers = Numbers {
        situation,
        free_space,
        device_bytes,
        limit_bytes,
        live_bytes,
        allocated_bytes,
        others,
    };
    let full = [
        (OomVerdict::HugeRequest, numbers.huge_request(device_bytes)),
        (OomVerdict::Capacity, numbers.capacity(device_bytes)),
    ];
    let is_full = full.iter().any(|(_, why)| why.is_some());
    let parts = || {
        // Of several parts the largest is the cause, as in messages.
        let mut shares = [
            (
                numbers.free_bytes().0,
                OomVerdict::PartlyFragmentation,
                numbers.partly_fragmentation(),
            ),
            (others.of_processes_bytes(), OomVerdict::OtherProcess, numbers.other_process()),
            (others.outside_bytes, OomVerdict::NonPytorch, numbers.non_pytorch()),
        ];
        shares.sort_by_key(|(bytes, ..)| Reverse(*bytes));
        let [first, second, third] = shares.map(|(_, verdict, why)| (verdict, why));
        [
            (OomVerdict::PendingFree, numbers.pending_free()),
            (OomVerdict::Settings, numbers.settings()),
            (OomVerdict::OtherStream, numbers.other_stream()),
            (OomVerdict::Graphs, numbers.graphs()),
            (OomVerdict::Fragmentation, numbers.fragmentation()),
            (OomVerdict::HugeRequest, numbers.huge_request(limit_bytes)),
            (OomVerdict::Capacity, numbers.capacity(limit_bytes)),
            first,
            second,
            third,
            (OomVerdict::Capacity, numbers.capacity_of_blocks()),
        ]
    };
    let parts = (!is_full).then(parts).into_iter().flatten();
    let held = full.into_iter().chain(parts);
    let steps = numbers.steps();
    let mut held = held.filter_map(|(verdict, why)| Some((verdict, why?)));
    let (verdict, why) = held.next().unwrap_or_else(|| {
        (OomVerdict::Unknown, "no single part explains the shortfall".to_owned())
    });
    let mut also: Vec<_> = held.map(|(also, _)| also).filter(|also| *also != verdict).collect();
    also.dedup();
    Judged { verdict, also, why, steps }
}

impl Numbers<'_> {
    fn request(&self) -> ByteSize {
        ByteSize(self.situation.request.requested_bytes)
    }

    fn name_of(&self, bound_bytes: u64) -> &'static str {
        if bound_bytes != self.device_bytes {
            "the memory fraction"
        } else if self.others.context_bytes > 0 {
            "the device without the CUDA context"
        } else {
            "the device"
        }
    }

    fn huge_request(&self, bound_bytes: u64) -> Option<String> {
        (self.situation.request.requested_bytes > bound_bytes).then(|| {
            let (request, bound) = (self.request(), ByteSize(bound_bytes));
            format!(
                "the request of {request} alone exceeds {} of {bound}",
                self.name_of(bound_bytes)
            )
        })
    }

    /// Bytes as the program asked for them: no allocator serves it with less.
    fn capacity(&self, bound_bytes: u64) -> Option<String> {
        let requested_bytes = self.situation.request.requested_bytes;
        (self.live_bytes.saturating_add(requested_bytes) > bound_bytes).then(|| {
            let (live, request) = (ByteSize(self.allocated_bytes), self.request());
            let bound = ByteSize(bound_bytes);
            format!(
                "nothing in the allocator helps: {live} of {bound} are live, and the request of {request} exceeds {} \
                 with them",
                self.name_of(bound_bytes)
            )
        })
    }

    /// The same with what rounding and unsplit blocks add.
    fn capacity_of_blocks(&self) -> Option<String> {
        let with_request = self.allocated_bytes.saturating_add(self.situation.size_bytes);
        (with_request > self.limit_bytes).then(|| {
            let (live, request) = (ByteSize(self.allocated_bytes), self.request());
            format!(
                "{live} of {} are live, rounding included, and the request of {request} exceeds {} with them",
                ByteSize(self.limit_bytes),
                self.name_of(self.limit_bytes)
            )
        })
    }

    fn free(&self, reason: Unserved) -> impl Iterator<Item = &FreeSpace> {
        self.free_space.iter().filter(move |row| row.reason == reason)
    }

    fn pending_free(&self) -> Option<String> {
        let pending_bytes: u64 = self.free(Unserved::PendingFree).map(|row| row.free_bytes).sum();
        (pending_bytes > 0 && self.situation.serves_after_pending()).then(|| {
            format!(
                "{} are freed and wait for other streams; without the wait the request of {} is served",
                ByteSize(pending_bytes),
                self.request()
            )
        })
    }

    fn settings(&self) -> Option<String> {
        let withheld = self.free(Unserved::Settings).map(|row| row.largest_bytes).max();
        if let Some(largest_bytes) = withheld {
            return Some(format!(
                "a free block of {} is large enough for the request of {}, and the settings withhold it",
                ByteSize(largest_bytes),
                self.request()
            ));
        }
        let plain_bytes = size::round_plain(self.situation.request.requested_bytes);
        if self.situation.size_bytes > plain_bytes && self.situation.serves_without_rounding() {
            return Some(format!(
                "roundup_power2_divisions makes {} of the request of {}, which is served without it",
                ByteSize(self.situation.size_bytes),
                self.request()
            ));
        }
        if self.allocated_bytes.saturating_add(self.situation.size_bytes) > self.limit_bytes
            && self.situation.config.roundup_power2_divisions
                != Config::default().roundup_power2_divisions
        {
            let plain =
                |block: &BlockState| size::round_plain(block.requested_bytes.min(block.size_bytes));
            let plain_live_bytes: u64 = self.situation.live().map(plain).sum();
            if plain_live_bytes.saturating_add(plain_bytes) <= self.limit_bytes {
                return Some(format!(
                    "roundup_power2_divisions makes {} of {} that are live; without it the request of {} fits",
                    ByteSize(self.allocated_bytes),
                    ByteSize(plain_live_bytes),
                    self.request()
                ));
            }
        }
        let memory = &self.situation.after;
        let is_limited = memory.allowed_bytes < memory.total_bytes;
        (is_limited && memory.free_bytes >= self.situation.segment_bytes).then(|| {
            format!(
                "the device has {} free for the request of {}, and the memory fraction allows {}",
                ByteSize(memory.free_bytes),
                self.request(),
                ByteSize(memory.allowed_bytes)
            )
        })
    }

    fn other_stream(&self) -> Option<String> {
        let size_bytes = self.situation.size_bytes;
        let rows = self.free(Unserved::OtherStream).filter(|row| row.largest_bytes >= size_bytes);
        let row = rows
            .max_by_key(|row| row.largest_bytes)
            .filter(|row| self.situation.serves_from(row.stream, row.pool))?;
        Some(format!(
            "stream {} has a free block of {}, enough for the request of {} on stream {}",
            row.stream,
            ByteSize(row.largest_bytes),
            self.request(),
            self.situation.request.stream
        ))
    }

    fn graphs(&self) -> Option<String> {
        let situation = self.situation;
        let is_held = |segment: &&SegmentState| {
            !segment.pool.is_default()
                && segment.pool != situation.pool()
                && !situation.is_flushed(segment)
        };
        let held = situation.base.segments.iter().filter(is_held);
        let held_bytes: u64 = held.map(|segment| segment.size_bytes).sum();
        let is_enough = situation.after.available_bytes() + held_bytes >= situation.segment_bytes;
        (held_bytes > 0 && is_enough).then(|| {
            format!(
                "private pools, such as those of CUDA graphs, hold {}; without them the request of {} fits",
                ByteSize(held_bytes),
                self.request()
            )
        })
    }

    /// Free memory: reserved and free, or still the device's.
    fn free_bytes(&self) -> (u64, u64) {
        let memory = &self.situation.before;
        (memory.reserved_bytes - self.allocated_bytes, memory.available_bytes())
    }

    fn fragmentation(&self) -> Option<String> {
        let (free_bytes, available_bytes) = self.free_bytes();
        let size_bytes = self.situation.size_bytes;
        (free_bytes > 0 && free_bytes >= size_bytes).then(|| {
            let (free, request) = (ByteSize(free_bytes), self.request());
            let left = ByteSize(available_bytes);
            format!(
                "{free} are reserved but unallocated and {left} are left, enough for the request of {request}, but not \
                 in one piece"
            )
        })
    }

    fn partly_fragmentation(&self) -> Option<String> {
        let (free_bytes, available_bytes) = self.free_bytes();
        let size_bytes = self.situation.size_bytes;
        let is_part = free_bytes > 0 && free_bytes < size_bytes;
        (is_part && free_bytes + available_bytes >= size_bytes).then(|| {
            format!(
                "{} are reserved but unallocated, a part of what the request of {} lacks beside the {} that are left",
                ByteSize(free_bytes),
                self.request(),
                ByteSize(available_bytes)
            )
        })
    }

    /// Whether the memory of others suffices for the request.
    fn is_held_by_others(&self) -> bool {
        let situation = self.situation;
        let others_bytes = self.others.bytes - self.others.context_bytes;
        situation.after.available_bytes() + others_bytes >= situation.segment_bytes
    }

    fn other_process(&self) -> Option<String> {
        let bytes = self.others.of_processes_bytes();
        (bytes > 0 && self.is_held_by_others()).then(|| {
            format!(
                "{} of the device are held outside this allocator; with them the request of {} is served",
                ByteSize(bytes),
                self.request()
            )
        })
    }

    fn non_pytorch(&self) -> Option<String> {
        let bytes = self.others.outside_bytes;
        (bytes > 0 && self.is_held_by_others()).then(|| {
            format!(
                "this process holds {} outside this allocator besides its CUDA context; with them the request of {} \
                 is served",
                ByteSize(bytes),
                self.request()
            )
        })
    }

    fn steps(&self) -> Vec<Step> {
        let (before, after) = (&self.situation.before, &self.situation.after);
        let requested_bytes = self.situation.request.requested_bytes;
        let pending_bytes = self.free(Unserved::PendingFree).map(|row| row.free_bytes).sum();
        let is_limited = before.allowed_bytes < before.total_bytes;
        let limit = if is_limited { Some(before.allowed_bytes) } else { None };
        let positive = |bytes| Some(bytes).filter(|bytes| *bytes > 0);
        let others = positive(self.others.bytes);
        let context = positive(self.others.context_bytes);
        let outside = positive(self.others.outside_bytes);
        let pending = positive(pending_bytes);
        let unallocated_bytes = before.reserved_bytes - self.allocated_bytes;
        let live = Some(self.live_bytes);
        let steps = [
            ("request", "", Some(requested_bytes)),
            ("segment for it", "what the device is asked for", Some(self.situation.segment_bytes)),
            ("capacity", "what the allocator can have of the device", Some(before.total_bytes)),
            ("limit", "memory fraction of the capacity", limit),
            ("held by others", "device - capacity", others),
            ("CUDA context", "part of it: what this process holds, up to 0.5 GiB", context),
            ("outside the allocator", "part of it: what this process holds besides", outside),
            ("requested and live", "", live),
            (
                "requested with the request",
                "requested and live + request",
                live.map(|it| it + requested_bytes),
            ),
            ("allocated", "", Some(self.allocated_bytes)),
            ("reserved", "", Some(before.reserved_bytes)),
            ("reserved but unallocated", "reserved - allocated", Some(unallocated_bytes)),
            ("pending free", "part of it, used by other streams", pending),
            ("left on the device", "capacity - reserved", Some(before.available_bytes())),
            (
                "left after the flush",
                "the same, after all that is free was returned",
                Some(after.available_bytes()),
            ),
        ];
        let stated = steps.into_iter().filter_map(|(name, how, bytes)| Some((name, how, bytes?)));
        stated.map(|(name, how, bytes)| Step { name, how, bytes }).collect()
    }
}
